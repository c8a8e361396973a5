/* SPDX-License-Identifier: Apache-2.0
 *
 * Lexical part of the literal parser, after the Python language reference, chapter 2 ("Lexical analysis").
 */
#define _GNU_SOURCE
#include "value/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

crn_status crn_scan_fail(crn_scan *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  crn_status status = crn_failv(s->err, CRN_E_FORMAT, fmt, ap);
  va_end(ap);
  crn_err_where(s->err, "%s:%d:%d", s->name, s->line, (int)(s->p - s->line_start) + 1);
  return status;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static void count_line(crn_scan *s) { /* p stands behind a newline */
  s->line++;
  s->line_start = s->p;
}

void crn_scan_space(crn_scan *s) {
  for (;;) {
    if (*s->p == '\n') {
      s->p++;
      count_line(s);
    } else if (*s->p == ' ' || *s->p == '\t' || *s->p == '\r' || *s->p == '\f') {
      s->p++;
    } else if (*s->p == '\\' && (s->p[1] == '\n' || (s->p[1] == '\r' && s->p[2] == '\n'))) {
      s->p++;
    } else if (*s->p == '#') {
      while (*s->p && *s->p != '\n') s->p++;
    } else {
      return;
    }
  }
}

bool crn_scan_take(crn_scan *s, const char *token) {
  size_t n = strlen(token);
  if (strncmp(s->p, token, n) != 0) return false;
  s->p += n;
  crn_scan_space(s);
  return true;
}

size_t crn_scan_name(const crn_scan *s) {
  if (!is_name_start(*s->p)) return 0;
  size_t n = 1;
  while (is_name_start(s->p[n]) || is_digit(s->p[n]) || (s->p[n] == '.' && is_name_start(s->p[n + 1]))) n++;
  return n;
}

bool crn_scan_at_number(const crn_scan *s) { return is_digit(*s->p) || (*s->p == '.' && is_digit(s->p[1])); }

/* ---- numbers ---- */

static crn_status scan_based(crn_scan *s, int base, crn_value **out) {
  const char *q = s->p + 2;
  int64_t value = 0;
  bool any = false;
  for (;; q++) {
    if (*q == '_' && hex_digit(q[1]) >= 0) continue;
    int d = hex_digit(*q);
    if (d < 0 || d >= base) break;
    if (__builtin_mul_overflow(value, (int64_t)base, &value) || __builtin_add_overflow(value, (int64_t)d, &value))
      return crn_scan_fail(s, "integer out of range (64 bits)");
    any = true;
  }
  if (!any || is_digit(*q) || is_name_start(*q)) return crn_scan_fail(s, "invalid number in base %d", base);
  s->p = q;
  *out = crn_v_int(s->arena, value);
  return *out ? CRN_OK : crn_err_memory(s->err);
}

/* Copies digits with single underscores between them; returns the end. */
static const char *copy_digits(const char *q, crn_str *to) {
  while (is_digit(*q) || (*q == '_' && is_digit(q[1]) && to->len && is_digit(to->p[to->len - 1]))) {
    if (*q != '_') crn_str_addc(to, *q);
    q++;
  }
  return q;
}

/* The decimal number's text without underscores, and whether it is a float; returns its end. */
static const char *copy_decimal(const char *q, crn_str *to, bool *is_float) {
  *is_float = false;
  q = copy_digits(q, to);
  if (*q == '.') {
    *is_float = true;
    crn_str_addc(to, *q++);
    q = copy_digits(q, to);
  }
  if (*q == 'e' || *q == 'E') {
    const char *digits = q[1] == '+' || q[1] == '-' ? q + 2 : q + 1;
    if (is_digit(*digits)) {
      *is_float = true;
      crn_str_addn(to, q, (size_t)(digits - q));
      q = copy_digits(digits, to);
    }
  }
  return q;
}

static crn_status decimal_value(crn_scan *s, const char *text, bool is_float, crn_value **out) {
  if (is_float) {
    *out = crn_v_float(s->arena, strtod_l(text, NULL, s->c_locale)); /* too large: inf, as in Python */
  } else {
    if (text[0] == '0' && strspn(text, "0") != strlen(text))
      return crn_scan_fail(s, "leading zeros in a decimal integer are not allowed");
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE) return crn_scan_fail(s, "integer %s out of range (64 bits)", text);
    *out = crn_v_int(s->arena, value);
  }
  return *out ? CRN_OK : crn_err_memory(s->err);
}

crn_status crn_scan_number(crn_scan *s, crn_value **out) {
  char mark = s->p[0] == '0' ? (char)(s->p[1] | 0x20) : '\0';
  if (mark == 'x') return scan_based(s, 16, out);
  if (mark == 'o') return scan_based(s, 8, out);
  if (mark == 'b') return scan_based(s, 2, out);
  crn_str text = {0};
  bool is_float = false;
  const char *end = copy_decimal(s->p, &text, &is_float);
  crn_status status = CRN_OK;
  if (!crn_str_ok(&text))
    status = crn_err_memory(s->err);
  else if (*end == 'j' || *end == 'J')
    status = crn_scan_fail(s, "not implemented: complex numbers");
  else if (is_name_start(*end))
    status = crn_scan_fail(s, "invalid number");
  else
    status = decimal_value(s, crn_str_get(&text), is_float, out);
  crn_str_free(&text);
  if (status == CRN_OK) s->p = end;
  return status;
}

/* ---- strings ---- */

typedef struct quoting {
  char quote;
  bool triple, raw, bytes, formatted;
} quoting;

/* Reads prefix letters and the opening quotes at p; returns what follows them, or NULL if no string stands here. */
static const char *open_string(const char *p, quoting *q) {
  *q = (quoting){0};
  for (int i = 0; i < 2; i++) {
    char c = (char)(*p | 0x20);
    if (c == 'r' && !q->raw)
      q->raw = true;
    else if (c == 'b' && !q->bytes)
      q->bytes = true;
    else if (c == 'f' && !q->formatted)
      q->formatted = true;
    else if (c != 'u')
      break;
    p++;
  }
  if (*p != '\'' && *p != '"') return NULL;
  q->quote = *p;
  q->triple = p[1] == *p && p[2] == *p;
  return p + (q->triple ? 3 : 1);
}

bool crn_scan_at_string(const crn_scan *s) {
  quoting q;
  return open_string(s->p, &q) != NULL;
}

static void add_utf8(crn_str *out, uint32_t c) {
  if (c < 0x80) {
    crn_str_addc(out, (char)c);
  } else if (c < 0x800) {
    crn_str_addc(out, (char)(0xC0 | c >> 6));
    crn_str_addc(out, (char)(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    crn_str_addc(out, (char)(0xE0 | c >> 12));
    crn_str_addc(out, (char)(0x80 | (c >> 6 & 0x3F)));
    crn_str_addc(out, (char)(0x80 | (c & 0x3F)));
  } else {
    crn_str_addc(out, (char)(0xF0 | c >> 18));
    crn_str_addc(out, (char)(0x80 | (c >> 12 & 0x3F)));
    crn_str_addc(out, (char)(0x80 | (c >> 6 & 0x3F)));
    crn_str_addc(out, (char)(0x80 | (c & 0x3F)));
  }
}

/* \xhh, \uhhhh, \Uhhhhhhhh: p stands at the letter. */
static crn_status hex_escape(crn_scan *s, int n_digits, bool bytes, crn_str *out) {
  uint32_t c = 0;
  for (int i = 1; i <= n_digits; i++) {
    int d = hex_digit(s->p[i]);
    if (d < 0) return crn_scan_fail(s, "\\%c needs %d hexadecimal digits", *s->p, n_digits);
    c = c << 4 | (uint32_t)d;
  }
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return crn_scan_fail(s, "\\%c: no such character", *s->p);
  if (bytes)
    crn_str_addc(out, (char)c);
  else
    add_utf8(out, c);
  s->p += n_digits + 1;
  return CRN_OK;
}

static void octal_escape(crn_scan *s, bool bytes, crn_str *out) {
  uint32_t c = 0;
  for (int i = 0; i < 3 && *s->p >= '0' && *s->p <= '7'; i++) c = c * 8 + (uint32_t)(*s->p++ - '0');
  if (bytes)
    crn_str_addc(out, (char)c);
  else
    add_utf8(out, c);
}

/* p stands behind the backslash. */
static crn_status escape(crn_scan *s, const quoting *q, crn_str *out) {
  static const char letters[] = "\\'\"abfnrtv", meaning[] = "\\'\"\a\b\f\n\r\t\v";
  char c = *s->p;
  const char *known = c ? strchr(letters, c) : NULL;
  if (known) {
    crn_str_addc(out, meaning[known - letters]);
    s->p++;
  } else if (c == '\n') {
    s->p++;
    count_line(s);
  } else if (c >= '0' && c <= '7') {
    octal_escape(s, q->bytes, out);
  } else if (c == 'x') {
    return hex_escape(s, 2, q->bytes, out);
  } else if (c == 'u' && !q->bytes) {
    return hex_escape(s, 4, false, out);
  } else if (c == 'U' && !q->bytes) {
    return hex_escape(s, 8, false, out);
  } else if (c == 'N' && !q->bytes) {
    return crn_scan_fail(s, "not implemented: \\N{…} in strings");
  } else {
    crn_str_addc(out, '\\'); /* an unknown escape stays as it is */
  }
  return CRN_OK;
}

static bool at_close(const crn_scan *s, const quoting *q) {
  return *s->p == q->quote && (!q->triple || (s->p[1] == q->quote && s->p[2] == q->quote));
}

crn_status crn_scan_string(crn_scan *s, crn_str *out) {
  quoting q;
  crn_scan start = *s;
  s->p = open_string(s->p, &q);
  while (!at_close(s, &q)) {
    char c = *s->p;
    if (c == '\0' || (c == '\n' && !q.triple)) return crn_scan_fail(&start, "string without closing quote");
    if (q.formatted && (c == '{' || c == '}')) return crn_scan_fail(s, "not implemented: expressions in f-strings");
    s->p++;
    if (c == '\\' && !q.raw) {
      CRN_TRY(escape(s, &q, out));
      continue;
    }
    crn_str_addc(out, c);
    if (c == '\\' && *s->p) crn_str_addc(out, c = *s->p++); /* raw: the quote behind it doesn't close */
    if (c == '\n') count_line(s);
  }
  s->p += q.triple ? 3 : 1;
  return crn_str_ok(out) ? CRN_OK : crn_err_memory(s->err);
}
