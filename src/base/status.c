/* SPDX-License-Identifier: Apache-2.0
 *
 * Failure messages: the first one wins, places are put in front while the status unwinds. When no memory is left for
 * the text, a cut copy in a fixed buffer takes its place, so that a failure never loses its reason entirely.
 */
#include "base/status.h"

#include "base/arena.h"

#include <stdio.h>
#include <string.h>

/* Formatted text in memory of its own, or NULL when memory is out. */
static char *format_text(const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  char *text = n < 0 ? NULL : crn_malloc((size_t)n + 1);
  if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  return text;
}

/* a + b + c as the new text; keeps the old text if there is no memory for it. */
static void join_text(crn_err *err, const char *a, const char *b, const char *c) {
  size_t na = strlen(a), nb = strlen(b), nc = strlen(c);
  char *text = crn_malloc(na + nb + nc + 1);
  if (!text) return;
  memcpy(text, a, na);
  memcpy(text + na, b, nb);
  memcpy(text + na + nb, c, nc + 1);
  crn_free(err->text);
  err->text = text;
}

crn_status crn_failv(crn_err *err, crn_status code, const char *fmt, va_list ap) {
  if (!err || err->code != CRN_OK) return code;
  err->code = code;
  err->placed = false;
  va_list again;
  va_copy(again, ap);
  err->text = format_text(fmt, ap);
  if (!err->text) vsnprintf(err->fallback, sizeof err->fallback, fmt, again);
  va_end(again);
  return code;
}

crn_status crn_fail(crn_err *err, crn_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  crn_failv(err, code, fmt, ap);
  va_end(ap);
  return code;
}

crn_status crn_err_where(crn_err *err, const char *fmt, ...) {
  if (!err) return CRN_E_INTERNAL; /* callers forward the status they already have when they pass no err */
  if (err->code == CRN_OK || !crn_err_text(err)[0]) return err->code;
  va_list ap;
  va_start(ap, fmt);
  char *where = format_text(fmt, ap);
  va_end(ap);
  if (!where) return err->code;
  join_text(err, where, err->placed ? " > " : ": ", crn_err_text(err));
  err->placed = true;
  crn_free(where);
  return err->code;
}

void crn_err_append(crn_err *err, const char *fmt, ...) {
  if (!err || err->code == CRN_OK) return;
  va_list ap;
  va_start(ap, fmt);
  char *more = format_text(fmt, ap);
  va_end(ap);
  if (!more) return;
  join_text(err, crn_err_text(err), more, "");
  crn_free(more);
}

const char *crn_err_text(const crn_err *err) {
  if (!err || err->code == CRN_OK) return "";
  return err->text ? err->text : err->fallback;
}

void crn_err_clear(crn_err *err) {
  if (!err) return;
  crn_free(err->text);
  memset(err, 0, sizeof *err);
}

crn_status crn_err_memory(crn_err *err) { return crn_fail(err, CRN_E_MEMORY, "out of memory"); }
