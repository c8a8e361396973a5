/* SPDX-License-Identifier: Apache-2.0
 *
 * Growable text: capacity doubles; a failed allocation leaves the text as it was and marks it failed.
 */
#include "base/str.h"

#include "base/arena.h"

#include <stdio.h>
#include <string.h>

/* Room for n more bytes and the NUL. */
static bool reserve(crn_str *s, size_t n) {
  if (s->failed) return false;
  if (n >= SIZE_MAX / 4 - s->len) {
    s->failed = true;
    return false;
  }
  size_t need = s->len + n + 1;
  if (need <= s->cap) return true;
  size_t cap = s->cap ? s->cap * 2 : 64;
  if (cap < need) cap = need;
  char *p = crn_realloc(s->p, cap);
  if (!p) {
    s->failed = true;
    return false;
  }
  s->p = p;
  s->cap = cap;
  return true;
}

void crn_str_addn(crn_str *s, const char *bytes, size_t n) {
  if (!reserve(s, n)) return;
  if (n) memcpy(s->p + s->len, bytes, n);
  s->len += n;
  s->p[s->len] = '\0';
}

void crn_str_add(crn_str *s, const char *text) {
  if (text) crn_str_addn(s, text, strlen(text));
}

void crn_str_addc(crn_str *s, char c) { crn_str_addn(s, &c, 1); }

void crn_str_addf(crn_str *s, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  if (n < 0) {
    s->failed = true;
  } else if (reserve(s, (size_t)n)) {
    vsnprintf(s->p + s->len, (size_t)n + 1, fmt, again);
    s->len += (size_t)n;
  }
  va_end(again);
  va_end(ap);
}

void crn_str_clear(crn_str *s) {
  s->len = 0;
  if (s->p) s->p[0] = '\0';
}

void crn_str_free(crn_str *s) {
  crn_free(s->p);
  memset(s, 0, sizeof *s);
}

const char *crn_str_get(const crn_str *s) { return s->p ? s->p : ""; }

bool crn_str_ok(const crn_str *s) { return !s->failed; }

bool crn_starts_with(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

bool crn_ends_with(const char *s, const char *suffix) {
  size_t n = strlen(s), m = strlen(suffix);
  return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

char *crn_strdup(const char *s) {
  if (!s) return NULL;
  size_t n = strlen(s) + 1;
  char *p = crn_malloc(n);
  if (p) memcpy(p, s, n);
  return p;
}
