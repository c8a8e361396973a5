/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 helpers and lists of strings (see words.h).
 */
#include "data/words.h"

#include <string.h>

#include "base/arena.h"

size_t crn_utf8_next(const char *s, uint32_t *code) {
  const unsigned char *p = (const unsigned char *)s;
  size_t n = p[0] < 0x80 ? 1 : (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : (p[0] & 0xf8) == 0xf0 ? 4 : 0;
  uint32_t c = n <= 1 ? p[0] : p[0] & (0x7fu >> n);
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) {
      n = 0;
      break;
    }
    c = c << 6 | (p[i] & 0x3fu);
  }
  *code = n ? c : p[0];
  return n ? n : 1;
}

bool crn_is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

void crn_collapse_spaces(const char *text, crn_str *out) {
  bool any = false, pending = false;
  while (*text) {
    uint32_t c;
    size_t n = crn_utf8_next(text, &c);
    if (crn_is_space(c)) {
      pending = any;
    } else {
      if (pending) crn_str_addc(out, ' ');
      crn_str_addn(out, text, n);
      pending = false;
      any = true;
    }
    text += n;
  }
}

void crn_words_add(crn_words *w, const char *text, size_t len) {
  if (w->failed) return;
  if (w->n == w->cap) {
    size_t cap = w->cap ? 2 * w->cap : 32;
    size_t *grown = crn_realloc(w->starts, cap * sizeof *grown);
    if (!grown) {
      w->failed = true;
      return;
    }
    w->starts = grown;
    w->cap = cap;
  }
  size_t start = w->bytes.len;
  crn_str_addn(&w->bytes, text, len);
  crn_str_addc(&w->bytes, 0);
  if (crn_str_ok(&w->bytes))
    w->starts[w->n++] = start;
  else
    w->failed = true;
}

void crn_words_addz(crn_words *w, const char *text) { crn_words_add(w, text, strlen(text)); }
const char *crn_words_at(const crn_words *w, size_t i) { return w->bytes.p + w->starts[i]; }
bool crn_words_ok(const crn_words *w) { return !w->failed; }

void crn_words_pop(crn_words *w) {
  if (w->n) w->bytes.len = w->starts[--w->n];
}

void crn_words_clear(crn_words *w) {
  crn_str_clear(&w->bytes);
  w->n = 0;
}

void crn_words_free(crn_words *w) {
  crn_str_free(&w->bytes);
  crn_free(w->starts);
  *w = (crn_words){0};
}

const char *crn_words_next(const char *text, size_t *len) {
  const char *start = NULL;
  while (*text) {
    uint32_t c;
    size_t n = crn_utf8_next(text, &c);
    bool space = crn_is_space(c);
    if (space && start) break;
    if (!space && !start) start = text;
    text += n;
  }
  *len = start ? (size_t)(text - start) : 0;
  return start ? start : text;
}

void crn_words_split(crn_words *w, const char *text) {
  size_t n;
  while (text = crn_words_next(text, &n), n) {
    crn_words_add(w, text, n);
    text += n;
  }
}
