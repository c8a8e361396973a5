/* SPDX-License-Identifier: Apache-2.0
 *
 * Values as Python's repr writes them, for messages, layer docs and config dumps. Floats are the shortest decimal text
 * that reads back as the same number.
 */
#include "value/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
  crn_str *out;
  size_t limit; /* stop when out is longer; SIZE_MAX: no cut */
} writer;

static bool full(const writer *w) { return w->out->len > w->limit; }

/* d.ddd with exponent e10 (value = 0.d1d2d3… * 10^point) in Python's layout. */
static void put_digits(crn_str *out, const char *digits, int point) {
  int n = (int)strlen(digits);
  if (point > -4 && point <= 16) {
    if (point <= 0) {
      crn_str_add(out, "0.");
      for (int i = point; i < 0; i++) crn_str_addc(out, '0');
      crn_str_add(out, digits);
      return;
    }
    for (int i = 0; i < point; i++) crn_str_addc(out, i < n ? digits[i] : '0');
    crn_str_addc(out, '.');
    crn_str_add(out, n > point ? digits + point : "0");
    return;
  }
  crn_str_addc(out, digits[0]);
  if (n > 1) crn_str_addf(out, ".%s", digits + 1);
  crn_str_addf(out, "e%c%02d", point > 0 ? '+' : '-', abs(point - 1));
}

static void put_float(crn_str *out, double f) {
  if (isnan(f)) {
    crn_str_add(out, "nan");
    return;
  }
  if (signbit(f)) crn_str_addc(out, '-');
  f = fabs(f);
  if (isinf(f)) {
    crn_str_add(out, "inf");
    return;
  }
  char text[40], digits[24];
  for (int precision = 0; precision <= 16; precision++) { /* "d.ddde±xx": shortest that reads back the same */
    snprintf(text, sizeof text, "%.*e", precision, f);
    if (strtod(text, NULL) == f) break;
  }
  size_t n = 0;
  const char *p = text;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9') digits[n++] = *p;
  while (n > 1 && digits[n - 1] == '0') n--;
  digits[n] = '\0';
  int exponent = *p ? (int)strtol(p + 1, NULL, 10) : 0;
  put_digits(out, digits, f > 0 ? exponent + 1 : 1);
}

static void put_string(writer *w, const char *s, size_t len) {
  char quote = memchr(s, '\'', len) && !memchr(s, '"', len) ? '"' : '\'';
  crn_str_addc(w->out, quote);
  for (size_t i = 0; i < len && !full(w); i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == (unsigned char)quote || c == '\\')
      crn_str_addf(w->out, "\\%c", c);
    else if (c == '\n')
      crn_str_add(w->out, "\\n");
    else if (c == '\r')
      crn_str_add(w->out, "\\r");
    else if (c == '\t')
      crn_str_add(w->out, "\\t");
    else if (c < 0x20 || c == 0x7f)
      crn_str_addf(w->out, "\\x%02x", c);
    else
      crn_str_addc(w->out, (char)c); /* UTF-8 as it is */
  }
  crn_str_addc(w->out, quote);
}

static void put_value(writer *w, const crn_value *v);

static void put_seq(writer *w, const crn_value *v) {
  size_t n = v->u.seq.n;
  if (v->kind == CRN_V_SET && n == 0) {
    crn_str_add(w->out, "set()");
    return;
  }
  const char *brackets = v->kind == CRN_V_LIST ? "[]" : v->kind == CRN_V_TUPLE ? "()" : "{}";
  crn_str_addc(w->out, brackets[0]);
  for (size_t i = 0; i < n && !full(w); i++) {
    if (i) crn_str_add(w->out, ", ");
    put_value(w, v->u.seq.items[i]);
  }
  if (v->kind == CRN_V_TUPLE && n == 1) crn_str_addc(w->out, ',');
  crn_str_addc(w->out, brackets[1]);
}

static void put_dict(writer *w, const crn_value *v) {
  crn_str_addc(w->out, '{');
  for (size_t i = 0; i < v->u.dict.n && !full(w); i++) {
    if (i) crn_str_add(w->out, ", ");
    put_value(w, v->u.dict.keys[i]);
    crn_str_add(w->out, ": ");
    put_value(w, v->u.dict.vals[i]);
  }
  crn_str_addc(w->out, '}');
}

static void put_dim(crn_str *out, const crn_vdim *d) {
  crn_str_addf(out, "Dim{'%s'", d->name ? d->name : "");
  if (d->kind) crn_str_addf(out, " %s", d->kind);
  if (d->size >= 0) crn_str_addf(out, " %lld", (long long)d->size);
  crn_str_addc(out, '}');
}

/* Elements of axis `axis` on; *next is the position in the data. */
static void put_axis(writer *w, const crn_varray *a, int axis, size_t *next) {
  if (axis == a->rank) {
    double x = a->data[(*next)++];
    if (strncmp(a->dtype ? a->dtype : "", "float", 5) != 0 && x == floor(x) && fabs(x) < 1e15)
      crn_str_addf(w->out, "%.0f", x);
    else
      put_float(w->out, x);
    return;
  }
  crn_str_addc(w->out, '[');
  for (int64_t i = 0; i < a->shape[axis] && !full(w); i++) {
    if (i) crn_str_add(w->out, ", ");
    put_axis(w, a, axis + 1, next);
  }
  crn_str_addc(w->out, ']');
}

static void put_array(writer *w, const crn_varray *a) {
  size_t next = 0;
  crn_str_add(w->out, "array(");
  put_axis(w, a, 0, &next);
  crn_str_addf(w->out, ", dtype=%s)", a->dtype ? a->dtype : "float64");
}

static void put_value(writer *w, const crn_value *v) {
  if (full(w)) return;
  if (crn_v_is_none(v)) {
    crn_str_add(w->out, "None");
    return;
  }
  switch (v->kind) {
  case CRN_V_BOOL:
    crn_str_add(w->out, v->u.b ? "True" : "False");
    return;
  case CRN_V_INT:
    crn_str_addf(w->out, "%lld", (long long)v->u.i);
    return;
  case CRN_V_FLOAT:
    put_float(w->out, v->u.f);
    return;
  case CRN_V_STR:
    put_string(w, v->u.s.p, v->u.s.len);
    return;
  case CRN_V_LIST:
  case CRN_V_TUPLE:
  case CRN_V_SET:
    put_seq(w, v);
    return;
  case CRN_V_DICT:
    put_dict(w, v);
    return;
  case CRN_V_DIM:
    put_dim(w->out, &v->u.dim);
    return;
  case CRN_V_ARRAY:
    put_array(w, &v->u.array);
    return;
  case CRN_V_CALLABLE:
    crn_str_addf(w->out, "<function %s>", v->u.obj.name ? v->u.obj.name : "?");
    return;
  default:
    crn_str_addf(w->out, "<%s object>", v->u.obj.name ? v->u.obj.name : "?");
    return;
  }
}

void crn_v_repr(const crn_value *v, crn_str *out, size_t max_len) {
  size_t start = out->len;
  writer w = {.out = out, .limit = max_len ? start + max_len : SIZE_MAX};
  put_value(&w, v);
  if (out->len <= w.limit || !crn_str_ok(out)) return;
  out->len = w.limit;
  while (out->len > start && ((unsigned char)out->p[out->len] & 0xC0) == 0x80) out->len--; /* no half characters */
  crn_str_add(out, "…");
}
