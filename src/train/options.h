/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading of single typed config keys for the training code. A key that is absent or None keeps its default; numbers
 * may also come as text, because command-line options of unknown keys do.
 */
#ifndef CRN_TRAIN_OPTIONS_H
#define CRN_TRAIN_OPTIONS_H

#include "value/value.h"

/* Each leaves *out alone when dict lacks the key (or it is None); wrong types are CRN_E_CONFIG naming the key. */
crn_status crn_opt_float(const crn_value *dict, const char *key, double *out, crn_err *err);
crn_status crn_opt_int(const crn_value *dict, const char *key, int64_t *out, crn_err *err);
crn_status crn_opt_bool(const crn_value *dict, const char *key, bool *out, crn_err *err);
crn_status crn_opt_str(const crn_value *dict, const char *key, const char **out, crn_err *err);
/* A number, or a string that is one in Python (also an expression such as "1e-3 * 2"). False: neither. */
bool crn_value_to_float(const crn_value *v, double *out);
/* "config key 'K': expected WHAT, got VALUE". */
crn_status crn_opt_wrong(const char *key, const char *expected, const crn_value *got, crn_err *err);

#endif
