/* SPDX-License-Identifier: Apache-2.0
 *
 * Python pickles of plain values (numbers, strings, lists, tuples, sets, dicts), of protocols 0 to 5. Nothing is ever
 * executed: what names a class or function is refused.
 */
#ifndef CRN_DATA_PICKLE_H
#define CRN_DATA_PICKLE_H

#include "value/value.h"

/* bytes (len) as a value in the arena. Byte strings become strings. name: for messages. */
crn_status crn_pickle_parse(crn_arena *a, const char *bytes, size_t len, const char *name, crn_value **out,
                            crn_err *err);
/* From a file, which may be gzipped. */
crn_status crn_pickle_read(crn_arena *a, const char *path, crn_value **out, crn_err *err);

#endif
