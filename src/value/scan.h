/* SPDX-License-Identifier: Apache-2.0
 *
 * The letters' side of the literal parser: position, white space, numbers, strings, names. literal.c does the grammar.
 */
#ifndef CRN_VALUE_SCAN_H
#define CRN_VALUE_SCAN_H

#include "value/value.h"

#include <locale.h>

typedef struct crn_scan {
  crn_arena *arena;
  crn_err *err;
  const char *name; /* of the source, for messages */
  const char *p;    /* next character */
  const char *line_start;
  int line;          /* of p, from 1 */
  int depth;         /* of nesting */
  bool calls;        /* NAME(…) is allowed */
  locale_t c_locale; /* numbers have a point whatever the process's locale says */
} crn_scan;

/* "NAME:line:column: text", at p. */
crn_status crn_scan_fail(crn_scan *s, const char *fmt, ...) CRN_PRINTF(2, 3);
void crn_scan_space(crn_scan *s);                   /* skip white space, comments, joined lines */
bool crn_scan_take(crn_scan *s, const char *token); /* skip token and space after it if it stands here */
size_t crn_scan_name(const crn_scan *s);            /* length of the identifier (with dots) that stands here, or 0 */
bool crn_scan_at_number(const crn_scan *s);
bool crn_scan_at_string(const crn_scan *s);
crn_status crn_scan_number(crn_scan *s, crn_value **out);
crn_status crn_scan_string(crn_scan *s, crn_str *out); /* one quoted piece, appended to out */

#endif
