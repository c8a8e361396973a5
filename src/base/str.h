/* SPDX-License-Identifier: Apache-2.0
 *
 * Growable text. Out of memory is sticky: later calls do nothing and crn_str_ok tells.
 */
#ifndef CRN_BASE_STR_H
#define CRN_BASE_STR_H

#include "base/status.h"

typedef struct crn_str {
  char *p;    /* owned, NUL-terminated; NULL when empty */
  size_t len; /* bytes without the NUL */
  size_t cap;
  bool failed;
} crn_str; /* zero-initialised = empty */

void crn_str_add(crn_str *s, const char *text);
void crn_str_addn(crn_str *s, const char *bytes, size_t n);
void crn_str_addf(crn_str *s, const char *fmt, ...) CRN_PRINTF(2, 3);
void crn_str_addc(crn_str *s, char c);
void crn_str_clear(crn_str *s); /* len = 0, keeps memory */
void crn_str_free(crn_str *s);
const char *crn_str_get(const crn_str *s); /* "" when empty */
bool crn_str_ok(const crn_str *s);

bool crn_starts_with(const char *s, const char *prefix);
bool crn_ends_with(const char *s, const char *suffix);

#endif
