/* SPDX-License-Identifier: Apache-2.0
 *
 * Python literals by recursive descent:
 *   sum     = product (("+" | "-") product)*
 *   product = signed (("*" | "//" | "/" | "%") signed)*
 *   signed  = ("+" | "-") signed | power
 *   power   = atom ["**" signed]
 *   atom    = number | string+ | True | False | None | nan | inf | "(" … ")" | "[" … "]" | "{" … "}" | NAME "(" … ")"
 * The depth of nesting is limited, so hostile text can't exhaust the stack.
 */
#define _GNU_SOURCE
#include "value/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static crn_status parse_sum(crn_scan *s, crn_value **out);
static crn_status parse_signed(crn_scan *s, crn_value **out);

static crn_status given(crn_scan *s, crn_value *v, crn_value **out) {
  *out = v;
  return v ? CRN_OK : crn_err_memory(s->err);
}

static crn_status enter(crn_scan *s) {
  if (s->depth >= CRN_V_MAX_DEPTH) return crn_scan_fail(s, "nested deeper than %d levels", CRN_V_MAX_DEPTH);
  s->depth++;
  return CRN_OK;
}

/* ---- arithmetic ---- */

/* base ** exponent, exponent >= 0; false: out of range */
static bool int_power(int64_t base, int64_t exponent, int64_t *out) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return false;
    exponent >>= 1;
    if (exponent && __builtin_mul_overflow(base, base, &base)) return false;
  }
  *out = result;
  return true;
}

static bool int_floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
  if (a == INT64_MIN && b == -1) {
    *rest = 0;
    return false;
  }
  *quotient = a / b;
  *rest = a % b;
  if (*rest != 0 && (*rest < 0) != (b < 0)) {
    *rest += b;
    --*quotient;
  }
  return true;
}

static crn_status int_arithmetic(crn_scan *s, const char *op, int64_t a, int64_t b, crn_value **out) {
  int64_t r = 0, unused = 0;
  bool fits = true;
  if (strcmp(op, "+") == 0)
    fits = !__builtin_add_overflow(a, b, &r);
  else if (strcmp(op, "-") == 0)
    fits = !__builtin_sub_overflow(a, b, &r);
  else if (strcmp(op, "*") == 0)
    fits = !__builtin_mul_overflow(a, b, &r);
  else if (strcmp(op, "//") == 0)
    fits = int_floor_divide(a, b, &r, &unused);
  else if (strcmp(op, "%") == 0)
    int_floor_divide(a, b, &unused, &r);
  else
    fits = int_power(a, b, &r);
  if (!fits) return crn_scan_fail(s, "result of %s out of range (64 bits)", op);
  return given(s, crn_v_int(s->arena, r), out);
}

static double float_modulo(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : copysign(r, r != 0 ? r : b);
}

static crn_status float_arithmetic(crn_scan *s, const char *op, double a, double b, crn_value **out) {
  double r = 0;
  if (strcmp(op, "+") == 0)
    r = a + b;
  else if (strcmp(op, "-") == 0)
    r = a - b;
  else if (strcmp(op, "*") == 0)
    r = a * b;
  else if (strcmp(op, "/") == 0)
    r = a / b;
  else if (strcmp(op, "//") == 0)
    r = floor((a - float_modulo(a, b)) / b + 0.5);
  else if (strcmp(op, "%") == 0)
    r = float_modulo(a, b);
  else
    r = pow(a, b);
  return given(s, crn_v_float(s->arena, r), out);
}

static crn_status arithmetic(crn_scan *s, const char *op, const crn_value *a, const crn_value *b, crn_value **out) {
  double fa = 0, fb = 0;
  int64_t ia = 0, ib = 0;
  if (!crn_v_to_float(a, &fa) || !crn_v_to_float(b, &fb))
    return crn_scan_fail(s, "%s of %s and %s", op, crn_v_kind_name(a), crn_v_kind_name(b));
  bool power = strcmp(op, "**") == 0;
  if ((*op == '/' || *op == '%') && fb == 0) return crn_scan_fail(s, "division by zero");
  if (power && fa == 0 && fb < 0) return crn_scan_fail(s, "0 can't be raised to a negative power");
  if (power && fa < 0 && fb != floor(fb)) return crn_scan_fail(s, "not implemented: complex numbers");
  bool ints = a->kind != CRN_V_FLOAT && b->kind != CRN_V_FLOAT && crn_v_to_int(a, &ia) && crn_v_to_int(b, &ib);
  if (ints && strcmp(op, "/") != 0 && !(power && ib < 0)) return int_arithmetic(s, op, ia, ib, out);
  return float_arithmetic(s, op, fa, fb, out);
}

/* a + b of two strings, lists or tuples */
static crn_status concatenate(crn_scan *s, const crn_value *a, const crn_value *b, crn_value **out) {
  if (a->kind == CRN_V_STR) {
    crn_str text = {0};
    crn_str_addn(&text, a->u.s.p, a->u.s.len);
    crn_str_addn(&text, b->u.s.p, b->u.s.len);
    crn_value *joined = crn_str_ok(&text) ? crn_v_strn(s->arena, crn_str_get(&text), text.len) : NULL;
    crn_str_free(&text);
    return given(s, joined, out);
  }
  crn_value *joined = crn_v_seq(s->arena, a->kind);
  for (size_t i = 0; i < a->u.seq.n; i++)
    if (!crn_v_push(s->arena, joined, a->u.seq.items[i])) return crn_err_memory(s->err);
  for (size_t i = 0; i < b->u.seq.n; i++)
    if (!crn_v_push(s->arena, joined, b->u.seq.items[i])) return crn_err_memory(s->err);
  return given(s, joined, out);
}

static crn_status add(crn_scan *s, const crn_value *a, const crn_value *b, crn_value **out) {
  bool joins = a->kind == CRN_V_STR || a->kind == CRN_V_LIST || a->kind == CRN_V_TUPLE;
  if (joins && a->kind == b->kind) return concatenate(s, a, b, out);
  return arithmetic(s, "+", a, b, out);
}

/* ---- atoms ---- */

static crn_status parse_strings(crn_scan *s, crn_value **out) {
  crn_str text = {0};
  crn_status status = CRN_OK;
  while (status == CRN_OK && crn_scan_at_string(s)) {
    status = crn_scan_string(s, &text);
    if (status == CRN_OK) crn_scan_space(s);
  }
  if (status == CRN_OK) status = given(s, crn_v_strn(s->arena, crn_str_get(&text), text.len), out);
  crn_str_free(&text);
  return status;
}

/* Items up to the closing bracket, which is consumed. */
static crn_status parse_items(crn_scan *s, crn_value *seq, const char *close, bool *comma) {
  *comma = false;
  while (!crn_scan_take(s, close)) {
    if (crn_v_len(seq) > 0 && !*comma) return crn_scan_fail(s, "expected \",\" or \"%s\"", close);
    crn_value *item = NULL;
    CRN_TRY(parse_sum(s, &item));
    if (!crn_v_push(s->arena, seq, item)) return crn_err_memory(s->err);
    *comma = crn_scan_take(s, ",");
  }
  return CRN_OK;
}

static crn_status parse_list(crn_scan *s, crn_value **out) {
  bool comma = false;
  CRN_TRY(given(s, crn_v_seq(s->arena, CRN_V_LIST), out));
  return parse_items(s, *out, "]", &comma);
}

/* A tuple, or a value in parentheses. */
static crn_status parse_parentheses(crn_scan *s, crn_value **out) {
  bool comma = false;
  CRN_TRY(given(s, crn_v_seq(s->arena, CRN_V_TUPLE), out));
  CRN_TRY(parse_items(s, *out, ")", &comma));
  if (crn_v_len(*out) == 1 && !comma) *out = crn_v_at(*out, 0);
  return CRN_OK;
}

static crn_status check_hashable(crn_scan *s, const crn_value *v, const char *as_what) {
  if (crn_v_hashable(v)) return CRN_OK;
  return crn_scan_fail(s, "a value of type %s can't be %s", crn_v_kind_name(v), as_what);
}

static crn_status add_to_set(crn_scan *s, crn_value *set, crn_value *item) {
  CRN_TRY(check_hashable(s, item, "in a set"));
  for (size_t i = 0; i < set->u.seq.n; i++)
    if (crn_v_equal(set->u.seq.items[i], item)) return CRN_OK;
  return crn_v_push(s->arena, set, item) ? CRN_OK : crn_err_memory(s->err);
}

static crn_status add_to_dict(crn_scan *s, crn_value *dict, crn_value *key) {
  crn_value *val = NULL;
  CRN_TRY(check_hashable(s, key, "a dict's key"));
  CRN_TRY(parse_sum(s, &val));
  return crn_v_put_value(s->arena, dict, key, val) ? CRN_OK : crn_err_memory(s->err);
}

/* A dict or a set: the first item's ":" decides. */
static crn_status parse_braces(crn_scan *s, crn_value **out) {
  bool comma = true;
  CRN_TRY(given(s, crn_v_dict(s->arena), out));
  for (bool first = true; !crn_scan_take(s, "}"); first = false) {
    if (!comma) return crn_scan_fail(s, "expected \",\" or \"}\"");
    crn_value *item = NULL;
    CRN_TRY(parse_sum(s, &item));
    bool is_pair = crn_scan_take(s, ":");
    if (first && !is_pair) CRN_TRY(given(s, crn_v_seq(s->arena, CRN_V_SET), out));
    if (is_pair != crn_v_is_dict(*out)) return crn_scan_fail(s, is_pair ? "\":\" in a set" : "expected \":\"");
    CRN_TRY(is_pair ? add_to_dict(s, *out, item) : add_to_set(s, *out, item));
    comma = crn_scan_take(s, ",");
  }
  return CRN_OK;
}

/* Arguments behind NAME(, as {"__call__": NAME, "__args__": […], key: value, …} */
static crn_status parse_call(crn_scan *s, const char *name, crn_value **out) {
  crn_value *args = crn_v_seq(s->arena, CRN_V_LIST);
  bool comma = true;
  CRN_TRY(given(s, crn_v_dict(s->arena), out));
  if (!crn_v_put(s->arena, *out, "__call__", crn_v_str(s->arena, name)) || !crn_v_put(s->arena, *out, "__args__", args))
    return crn_err_memory(s->err);
  while (!crn_scan_take(s, ")")) {
    if (!comma) return crn_scan_fail(s, "expected \",\" or \")\"");
    crn_scan ahead = *s;
    size_t n = crn_scan_name(s);
    ahead.p += n;
    crn_scan_space(&ahead);
    crn_value *val = NULL;
    if (n > 0 && crn_scan_take(&ahead, "=")) {
      crn_value *key = crn_v_strn(s->arena, s->p, n);
      *s = ahead;
      CRN_TRY(parse_sum(s, &val));
      if (!crn_v_put_value(s->arena, *out, key, val)) return crn_err_memory(s->err);
    } else {
      CRN_TRY(parse_sum(s, &val));
      if (!crn_v_push(s->arena, args, val)) return crn_err_memory(s->err);
    }
    comma = crn_scan_take(s, ",");
  }
  return CRN_OK;
}

/* float(x): of a number, or of the text of one, "nan" or "inf" */
static crn_status float_of(crn_scan *s, const crn_value *call, crn_value **out) {
  crn_value *args = crn_v_get(call, "__args__"), *x = crn_v_at(args, 0);
  double f = 0;
  if (crn_v_len(args) != 1 || crn_v_len(call) != 2) return crn_scan_fail(s, "float() takes one argument");
  if (!crn_v_to_float(x, &f)) {
    char *end = NULL;
    const char *text = crn_v_cstr(x);
    if (text) f = strtod_l(text, &end, s->c_locale);
    if (!text || end == text || *end) return crn_scan_fail(s, "float(): expected a number or its text");
  }
  return given(s, crn_v_float(s->arena, f), out);
}

static crn_status parse_named_call(crn_scan *s, const char *name, crn_value **out) {
  if (strcmp(name, "set") == 0 && crn_scan_take(s, ")")) return given(s, crn_v_seq(s->arena, CRN_V_SET), out);
  bool is_float = strcmp(name, "float") == 0;
  if (!is_float && !s->calls) return crn_scan_fail(s, "call of \"%s\" in a literal", name);
  crn_value *call = NULL;
  CRN_TRY(parse_call(s, name, &call));
  if (is_float) return float_of(s, call, out);
  *out = call;
  return CRN_OK;
}

static crn_status parse_name(crn_scan *s, size_t n, crn_value **out) {
  char *name = crn_arena_strndup(s->arena, s->p, n);
  if (!name) return crn_err_memory(s->err);
  crn_scan here = *s;
  s->p += n;
  crn_scan_space(s);
  if (crn_scan_take(s, "(")) return parse_named_call(s, name, out);
  if (strcmp(name, "None") == 0) return given(s, crn_v_none(s->arena), out);
  if (strcmp(name, "True") == 0) return given(s, crn_v_bool(s->arena, true), out);
  if (strcmp(name, "False") == 0) return given(s, crn_v_bool(s->arena, false), out);
  if (strcmp(name, "nan") == 0) return given(s, crn_v_float(s->arena, NAN), out);
  if (strcmp(name, "inf") == 0) return given(s, crn_v_float(s->arena, INFINITY), out);
  static const char *const known[] = {"None", "True", "False", "nan", "inf"};
  const char *near = crn_nearest(name, known, sizeof known / sizeof *known);
  return crn_scan_fail(&here, "unknown name \"%s\"%s%s%s", name, near ? "; did you mean " : "", near ? near : "",
                       near ? "?" : "");
}

static crn_status parse_atom(crn_scan *s, crn_value **out) {
  if (crn_scan_at_number(s)) {
    CRN_TRY(crn_scan_number(s, out));
    crn_scan_space(s);
    return CRN_OK;
  }
  if (crn_scan_at_string(s)) return parse_strings(s, out);
  if (crn_scan_take(s, "[")) return parse_list(s, out);
  if (crn_scan_take(s, "(")) return parse_parentheses(s, out);
  if (crn_scan_take(s, "{")) return parse_braces(s, out);
  size_t n = crn_scan_name(s);
  if (n > 0) return parse_name(s, n, out);
  if (!*s->p) return crn_scan_fail(s, "text ends where a value is expected");
  return crn_scan_fail(s, "expected a value, found \"%c\"", *s->p);
}

/* ---- expressions ---- */

static crn_status parse_power(crn_scan *s, crn_value **out) {
  int line = s->line;
  CRN_TRY(enter(s));
  CRN_TRY(parse_atom(s, out));
  (*out)->line = line;
  if (crn_scan_take(s, "**")) {
    crn_value *exponent = NULL;
    CRN_TRY(parse_signed(s, &exponent));
    CRN_TRY(arithmetic(s, "**", *out, exponent, out));
    (*out)->line = line;
  }
  s->depth--;
  return CRN_OK;
}

static crn_status parse_signed(crn_scan *s, crn_value **out) {
  bool negative = false, any = false;
  int line = s->line;
  for (;; any = true) {
    if (crn_scan_take(s, "-"))
      negative = !negative;
    else if (!crn_scan_take(s, "+"))
      break;
  }
  CRN_TRY(parse_power(s, out));
  if (!any) return CRN_OK;
  if (!crn_v_is_number(*out)) return crn_scan_fail(s, "sign before a value of type %s", crn_v_kind_name(*out));
  if ((*out)->kind == CRN_V_FLOAT) {
    CRN_TRY(given(s, crn_v_float(s->arena, negative ? -(*out)->u.f : (*out)->u.f), out));
  } else {
    int64_t i = 0;
    if (!crn_v_to_int(*out, &i) || (negative && i == INT64_MIN)) return crn_scan_fail(s, "integer out of range");
    CRN_TRY(given(s, crn_v_int(s->arena, negative ? -i : i), out));
  }
  (*out)->line = line;
  return CRN_OK;
}

static crn_status parse_product(crn_scan *s, crn_value **out) {
  static const char *const ops[] = {"*", "//", "/", "%"}; /* "//" before "/" */
  int line = s->line;
  CRN_TRY(parse_signed(s, out));
  for (;;) {
    size_t k = 0;
    while (k < 4 && !crn_scan_take(s, ops[k])) k++;
    if (k == 4) return CRN_OK;
    crn_value *right = NULL;
    CRN_TRY(parse_signed(s, &right));
    CRN_TRY(arithmetic(s, ops[k], *out, right, out));
    (*out)->line = line;
  }
}

static crn_status parse_sum(crn_scan *s, crn_value **out) {
  int line = s->line;
  CRN_TRY(parse_product(s, out));
  for (;;) {
    bool plus = crn_scan_take(s, "+");
    if (!plus && !crn_scan_take(s, "-")) return CRN_OK;
    crn_value *right = NULL;
    CRN_TRY(parse_product(s, &right));
    CRN_TRY(plus ? add(s, *out, right, out) : arithmetic(s, "-", *out, right, out));
    (*out)->line = line;
  }
}

/* A value, or several with commas, which make a tuple; then the end. */
static crn_status parse_all(crn_scan *s, crn_value **out) {
  crn_scan_space(s);
  CRN_TRY(parse_sum(s, out));
  if (*s->p == ',') {
    crn_value *tuple = crn_v_seq(s->arena, CRN_V_TUPLE);
    if (!crn_v_push(s->arena, tuple, *out)) return crn_err_memory(s->err);
    while (crn_scan_take(s, ",") && *s->p) {
      crn_value *item = NULL;
      CRN_TRY(parse_sum(s, &item));
      if (!crn_v_push(s->arena, tuple, item)) return crn_err_memory(s->err);
    }
    *out = tuple;
  }
  return *s->p ? crn_scan_fail(s, "unexpected \"%c\" behind the value", *s->p) : CRN_OK;
}

static crn_status parse(crn_arena *a, const char *text, const char *name, bool calls, crn_value **out, crn_err *err) {
  crn_value *v = NULL;
  *out = NULL;
  crn_scan s = {.arena = a, .err = err, .name = name, .p = text, .line_start = text, .line = 1, .calls = calls};
  s.c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  if (!s.c_locale) return crn_err_memory(err);
  crn_status status = parse_all(&s, &v);
  freelocale(s.c_locale);
  if (status == CRN_OK) *out = v;
  return status;
}

crn_status crn_v_parse_literal(crn_arena *a, const char *text, const char *name, crn_value **out, crn_err *err) {
  return parse(a, text, name, false, out, err);
}

crn_status crn_v_parse_literal_calls(crn_arena *a, const char *text, const char *name, crn_value **out, crn_err *err) {
  return parse(a, text, name, true, out, err);
}
