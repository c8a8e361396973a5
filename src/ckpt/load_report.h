/* SPDX-License-Identifier: Apache-2.0
 *
 * The message for variables that a checkpoint lacks.
 */
#ifndef CRN_CKPT_LOAD_REPORT_H
#define CRN_CKPT_LOAD_REPORT_H

#include "ckpt/load.h"

typedef struct crn_load_report {
  const crn_bundle *bundle;
  const crn_load_want *wants;
  size_t n;
  const char *const *in_file;         /* per want; NULL: excluded */
  crn_conversion *const *conversions; /* per want; NULL: not found */
  const bool *custom_done;            /* per want */
  const crn_load_opts *opts;
  crn_arena *arena;
} crn_load_report;

/* Records the failure: what is missing, what of the file is not used, which of these are likely the same. */
crn_status crn_load_report_missing(const crn_load_report *r, crn_err *err);

#endif
