/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table of functions: Python's builtins, on plain values (abs is among the element-wise ones).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/optable_rows.h"

static crn_status to_float(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  double v = 0;
  char *end = NULL;
  if (a[0].kind == CRN_EV_STR) {
    v = strtod(a[0].u.s, &end);
    if (end == a[0].u.s || *end) return crn_opc_fail(c, "\"%.40s\" is no number", a[0].u.s);
  } else if (!crn_opc_float(c, &a[0], &v)) {
    return c->r->err->code;
  }
  *out = crn_ev_of_float(v);
  return CRN_OK;
}

static crn_status to_int(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  double v = 0;
  int64_t i = 0;
  if (a[0].kind == CRN_EV_STR) {
    char *end = NULL;
    i = strtoll(a[0].u.s, &end, 10);
    if (end == a[0].u.s || *end) return crn_opc_fail(c, "\"%.40s\" is no integer", a[0].u.s);
  } else if (a[0].kind != CRN_EV_FLOAT) {
    if (!crn_opc_int(c, &a[0], &i)) return c->r->err->code;
  } else {
    v = a[0].u.f;
    if (!(fabs(v) < 9e18)) return crn_opc_fail(c, "%g is no integer of 64 bits", v);
    i = (int64_t)v;
  }
  *out = crn_ev_of_int(i);
  return CRN_OK;
}

static crn_status to_bool(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  bool b;
  if (!crn_opc_bool(c, &a[0], &b)) return c->r->err->code;
  *out = crn_ev_of_bool(b);
  return CRN_OK;
}

static crn_status length(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  if (crn_ev_is_seq(&a[0]))
    *out = crn_ev_of_int(a[0].u.seq.n);
  else if (a[0].kind == CRN_EV_STR)
    *out = crn_ev_of_int((int64_t)strlen(a[0].u.s));
  else if (a[0].kind == CRN_EV_TENSOR && a[0].u.t->rank > 0)
    *out = crn_ev_of_int(a[0].u.t->shape[0]);
  else
    return crn_opc_fail(c, "%s has no length", crn_ev_kind_name(&a[0]));
  return CRN_OK;
}

/* min, max: of the arguments, or of the one sequence */
static crn_status extreme(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  const crn_ev *list = &a[0];
  if (list->u.seq.n == 1 && crn_ev_is_seq(&list->u.seq.items[0])) list = &list->u.seq.items[0];
  if (list->u.seq.n < 1) return crn_opc_fail(c, "of nothing");
  *out = list->u.seq.items[0];
  for (int i = 1; i < list->u.seq.n; i++) {
    crn_ev less;
    CRN_TRY(crn_ev_binary(c, c->row->arg ? ">" : "<", &list->u.seq.items[i], out, &less));
    if (less.kind != CRN_EV_BOOL) return crn_opc_fail(c, "not defined for tensors; use tf.maximum, tf.reduce_max, …");
    if (less.u.b) *out = list->u.seq.items[i];
  }
  return CRN_OK;
}

static crn_status sum(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  if (!crn_ev_is_seq(&a[0])) return crn_opc_fail(c, "expected a sequence, found %s", crn_ev_kind_name(&a[0]));
  *out = a[1];
  for (int i = 0; i < a[0].u.seq.n; i++) {
    crn_ev s;
    CRN_TRY(crn_ev_binary(c, "+", out, &a[0].u.seq.items[i], &s));
    *out = s;
  }
  return CRN_OK;
}

static crn_status power(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  return crn_ev_binary(c, "**", &a[0], &a[1], out);
}

/* to the nearest integer, halves to the even one */
static crn_status round_number(crn_opctx *c, const crn_ev *a, crn_ev *out) {
  if (a[1].kind != CRN_EV_NONE) return crn_opc_fail(c, "not implemented: round with digits");
  double v = 0;
  if (a[0].kind == CRN_EV_TENSOR) return crn_opc_fail(c, "not defined for tensors; use tf.round");
  if (!crn_opc_float(c, &a[0], &v)) return c->r->err->code;
  if (!(fabs(v) < 9e18)) return crn_opc_fail(c, "%g is no integer of 64 bits", v);
  *out = crn_ev_of_int((int64_t)rint(v));
  return CRN_OK;
}

static crn_status to_seq(crn_opctx *c, const crn_ev *a, crn_ev *out) { /* list, tuple */
  if (!crn_ev_is_seq(&a[0])) return crn_opc_fail(c, "expected a sequence, found %s", crn_ev_kind_name(&a[0]));
  *out = a[0];
  out->kind = c->row->arg ? CRN_EV_TUPLE : CRN_EV_LIST;
  return CRN_OK;
}

static crn_status numbers(crn_opctx *c, const crn_ev *a, crn_ev *out) { /* range(stop), range(start, stop, step) */
  int64_t v[3] = {0, 0, 1};
  int n = a[0].u.seq.n;
  if (n < 1 || n > 3) return crn_opc_fail(c, "takes 1 to 3 arguments");
  for (int i = 0; i < n; i++)
    if (!crn_opc_int(c, &a[0].u.seq.items[i], &v[n == 1 ? 1 : i])) return c->r->err->code;
  if (v[2] == 0) return crn_opc_fail(c, "step must not be 0");
  double count = ceil(((double)v[1] - (double)v[0]) / (double)v[2]);
  if (count > 1e6) return crn_opc_fail(c, "of %g numbers", count);
  int m = count > 0 ? (int)count : 0;
  crn_ev *items = crn_opc_alloc(c, (size_t)m * sizeof *items);
  if (!items) return c->r->err->code;
  for (int i = 0; i < m; i++) items[i] = crn_ev_of_int(v[0] + i * v[2]);
  *out = (crn_ev){.kind = CRN_EV_LIST, .u.seq = {items, m}};
  return CRN_OK;
}

const crn_oprow crn_rows_python[] = {
    {"@float", "x=0.0", to_float, 0, "as a float"},
    {"@int", "x=0", to_int, 0, "as an integer, cut towards 0"},
    {"@bool", "x=False", to_bool, 0, "truth value"},
    {"@len", "x", length, 0, "number of entries"},
    {"@min", "*args", extreme, 0, "smallest number"},
    {"@max", "*args", extreme, 1, "largest number"},
    {"@sum", "x, start=0", sum, 0, "sum of a sequence"},
    {"@pow", "x, y", power, 0, "x ** y"},
    {"@round", "x, ndigits=None", round_number, 0, "to the nearest integer"},
    {"@list", "x", to_seq, 0, "as a list"},
    {"@tuple", "x", to_seq, 1, "as a tuple"},
    {"@range", "*args", numbers, 0, "list of integers"},
};
const int crn_n_rows_python = sizeof crn_rows_python / sizeof crn_rows_python[0];
