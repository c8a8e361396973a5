/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding rows by name, binding arguments, and converting values for row functions.
 */
#include "tensor/optable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/ints.h"
#include "tensor/optable_rows.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

const crn_oprow *crn_optable_family(int i, int *n) {
  static const struct {
    const crn_oprow *rows;
    const int *n;
  } families[] = {{crn_rows_elementwise, &crn_n_rows_elementwise},
                  {crn_rows_shape, &crn_n_rows_shape},
                  {crn_rows_index, &crn_n_rows_index},
                  {crn_rows_reduce, &crn_n_rows_reduce},
                  {crn_rows_python, &crn_n_rows_python}};
  if (i < 0 || i >= (int)(sizeof families / sizeof families[0])) return NULL;
  *n = *families[i].n;
  return families[i].rows;
}

static bool row_has(const crn_oprow *row, const char *name, size_t len) {
  for (const char *p = row->names; p;) {
    const char *space = strchr(p, ' ');
    size_t n = space ? (size_t)(space - p) : strlen(p);
    if (n == len && memcmp(p, name, len) == 0) return true;
    p = space ? space + 1 : NULL;
  }
  return false;
}

static const crn_oprow *find(const char *name) {
  int n;
  const crn_oprow *rows;
  for (int f = 0; (rows = crn_optable_family(f, &n)); f++)
    for (int i = 0; i < n; i++)
      if (row_has(&rows[i], name, strlen(name))) return &rows[i];
  return NULL;
}

/* The part behind "tf." (and version), or NULL if name is no name of TensorFlow. *v1: TensorFlow 1's names. */
static const char *behind_tf(const char *name, bool *v1) {
  static const char *const old[] = {"tf.compat.v1.", "tf_compat.v1.", "tf_compat.v2.", "tf.compat.v2.", "tf."};
  for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
    if (crn_starts_with(name, old[i])) {
      *v1 = i < 2 || i == 4; /* plain tf. means either version */
      return name + strlen(old[i]);
    }
  return NULL;
}

static const crn_oprow *find_prefixed(const char *prefix, const char *name) {
  char full[96];
  int n = snprintf(full, sizeof full, "%s%s", prefix, name);
  return n > 0 && (size_t)n < sizeof full ? find(full) : NULL;
}

const crn_oprow *crn_optable_find(const char *name) {
  bool v1 = false;
  const char *rest = behind_tf(name, &v1);
  if (!rest) return find_prefixed("@", name);
  const crn_oprow *row = rest[0] == '@' ? NULL : find(rest);
  return row || !v1 ? row : find_prefixed("v1.", rest);
}

const crn_oprow *crn_optable_find_activation(const char *name) {
  static const char *const places[] = {"nn.", "", "math.", "v1.", "@"};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const crn_oprow *row = find_prefixed(places[i], name);
    bool python = row >= crn_rows_python && row < crn_rows_python + crn_n_rows_python; /* float, len, … */
    if (row && !python && strchr(name, '.') == NULL) return row;
  }
  return NULL;
}

/* Full name of the entry at p of a row's names: "tf.nn.relu", "safe_log". */
static int full_name(const char *p, char *buf, size_t n) {
  int len = (int)strcspn(p, " ");
  if (*p == '@') return snprintf(buf, n, "%.*s", len - 1, p + 1);
  if (crn_starts_with(p, "v1.")) return snprintf(buf, n, "tf.%.*s", len - 3, p + 3);
  return snprintf(buf, n, "tf.%.*s", len, p);
}

const char *crn_optable_nearest(const char *name, char *buf, size_t n) {
  enum { MAX_NAMES = 640, MAX_LEN = 64 };
  char(*all)[MAX_LEN] = crn_malloc(sizeof *all * MAX_NAMES);
  const char **list = crn_malloc(sizeof *list * MAX_NAMES);
  const char *best = NULL;
  int count = 0, n_rows;
  const crn_oprow *rows;
  for (int f = 0; all && list && (rows = crn_optable_family(f, &n_rows)); f++)
    for (int i = 0; i < n_rows; i++)
      for (const char *p = rows[i].names; p && count < MAX_NAMES; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL) {
        full_name(p, all[count], MAX_LEN);
        list[count] = all[count];
        count++;
      }
  if (all && list) best = crn_nearest(name, list, (size_t)count);
  if (best) {
    snprintf(buf, n, "%s", best);
    best = buf;
  }
  crn_free(list);
  crn_free(all);
  return best;
}

void crn_optable_describe_row(const crn_oprow *row, crn_str *out) {
  for (const char *p = row->names; p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL) {
    char name[96];
    full_name(p, name, sizeof name);
    crn_str_addf(out, "%s%s", p == row->names ? "" : ", ", name);
  }
  crn_str_addf(out, " (%s): %s\n", row->spec, row->doc);
}

void crn_optable_describe(crn_str *out) {
  int n;
  const crn_oprow *rows;
  for (int f = 0; (rows = crn_optable_family(f, &n)); f++)
    for (int i = 0; i < n; i++) crn_optable_describe_row(&rows[i], out);
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static const char *called_name(const crn_opctx *c, char *buf, size_t n) {
  if (c->name) return c->name;
  if (!c->row) return "expression";
  full_name(c->row->names, buf, n);
  return buf;
}

crn_status crn_opc_fail(crn_opctx *c, const char *fmt, ...) {
  char buf[96];
  va_list ap;
  va_start(ap, fmt);
  bool first = !crn_run_failed(c->r);
  crn_status s = crn_failv(c->r->err, CRN_E_RUNTIME, fmt, ap);
  va_end(ap);
  if (first) (void)crn_err_where(c->r->err, "%s", called_name(c, buf, sizeof buf));
  return s;
}

void *crn_opc_alloc(crn_opctx *c, size_t bytes) {
  void *p = crn_arena_alloc(&c->r->arena, bytes ? bytes : 1);
  if (!p) (void)crn_err_memory(c->r->err);
  return p;
}

/* Default value in a specification: None, True, False, a number, 'text', a dtype's name. */
static crn_status default_value(crn_opctx *c, const char *p, size_t len, crn_ev *out) {
  char text[48];
  snprintf(text, sizeof text, "%.*s", (int)len, p);
  *out = crn_ev_none();
  if (strcmp(text, "None") == 0) return CRN_OK;
  if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
    *out = crn_ev_of_bool(text[0] == 'T');
  } else if (text[0] == '\'') {
    char *s = crn_arena_strndup(&c->r->arena, p + 1, len - 2);
    if (!s) return crn_err_memory(c->r->err);
    *out = crn_ev_of_str(s);
  } else if (crn_dtype_from_name(text, &out->u.dtype)) {
    out->kind = CRN_EV_DTYPE;
  } else if (strpbrk(text, ".e")) {
    *out = crn_ev_of_float(strtod(text, NULL));
  } else {
    *out = crn_ev_of_int(strtoll(text, NULL, 10));
  }
  return CRN_OK;
}

/* The specification's next parameter at *p: name and, if there is one, default. False at the end. */
typedef struct parameter {
  const char *name, *dflt; /* dflt NULL: required */
  size_t name_len, dflt_len;
} parameter;

static bool next_parameter(const char **p, parameter *out) {
  *p += strspn(*p, " ,");
  if (!**p) return false;
  out->name = *p;
  out->name_len = strcspn(*p, "=,");
  *p += out->name_len;
  out->dflt = NULL;
  if (**p != '=') return true;
  out->dflt = ++*p;
  out->dflt_len = strcspn(*p, ",");
  *p += out->dflt_len;
  return true;
}

static crn_status bind(crn_opctx *c, const crn_eargs *args, crn_ev *bound, int *n_bound) {
  const char *p = c->row->spec;
  parameter q;
  int n = 0, n_taken = 0;
  for (; next_parameter(&p, &q) && n < CRN_OP_MAX_ARGS; n++) {
    if (q.name[0] == '*') {
      bound[n] = (crn_ev){.kind = CRN_EV_TUPLE, .u.seq.n = args->n_pos};
      bound[n].u.seq.items = crn_opc_alloc(c, (size_t)args->n_pos * sizeof(crn_ev));
      if (!bound[n].u.seq.items) return c->r->err->code;
      if (args->n_pos) memcpy(bound[n].u.seq.items, args->pos, (size_t)args->n_pos * sizeof(crn_ev));
      continue;
    }
    int named = -1;
    for (int i = 0; i < args->n_named; i++)
      if (strlen(args->names[i]) == q.name_len && memcmp(args->names[i], q.name, q.name_len) == 0) named = i;
    if (named >= 0) n_taken++;
    bool positional = n < args->n_pos && c->row->spec[0] != '*';
    if (positional && named >= 0) return crn_opc_fail(c, "argument '%.*s' is given twice", (int)q.name_len, q.name);
    if (positional)
      bound[n] = args->pos[n];
    else if (named >= 0)
      bound[n] = args->named[named];
    else if (q.dflt)
      CRN_TRY(default_value(c, q.dflt, q.dflt_len, &bound[n]));
    else
      return crn_opc_fail(c, "argument '%.*s' is missing; arguments are (%s)", (int)q.name_len, q.name, c->row->spec);
  }
  *n_bound = n;
  if (args->n_pos > n && c->row->spec[0] != '*')
    return crn_opc_fail(c, "%d arguments, but it takes at most %d: (%s)", args->n_pos, n, c->row->spec);
  if (n_taken == args->n_named) return CRN_OK;
  for (int i = 0; i < args->n_named; i++) {
    bool known = false;
    p = c->row->spec;
    while (next_parameter(&p, &q))
      known |= strlen(args->names[i]) == q.name_len && memcmp(args->names[i], q.name, q.name_len) == 0;
    if (!known) return crn_opc_fail(c, "no argument '%s'; arguments are (%s)", args->names[i], c->row->spec);
  }
  return crn_opc_fail(c, "an argument is given twice");
}

crn_status crn_optable_call(crn_opctx *c, const crn_eargs *args, crn_ev *out) {
  crn_ev bound[CRN_OP_MAX_ARGS];
  int n = 0;
  *out = crn_ev_none();
  if (crn_run_failed(c->r)) return c->r->err->code;
  CRN_TRY(bind(c, args, bound, &n));
  return c->row->fn(c, bound, out);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

const char *crn_ev_kind_name(const crn_ev *v) {
  static const char *const names[] = {"None", "bool",  "int",   "float",    "str",      "tensor", "tuple",
                                      "list", "dtype", "slice", "ellipsis", "function", "object"};
  return v->kind == CRN_EV_OBJECT && v->u.obj.type ? v->u.obj.type : names[v->kind];
}

const char *crn_ev_describe(const crn_ev *v, char *buf, size_t n) {
  char d[96];
  switch (v->kind) {
  case CRN_EV_TENSOR:
    snprintf(buf, n, "tensor %s", crn_t_describe(v->u.t, d, sizeof d));
    break;
  case CRN_EV_INT:
    snprintf(buf, n, "%lld", (long long)v->u.i);
    break;
  case CRN_EV_FLOAT:
    snprintf(buf, n, "%g", v->u.f);
    break;
  case CRN_EV_STR:
    snprintf(buf, n, "\"%.40s\"", v->u.s);
    break;
  case CRN_EV_BOOL:
    snprintf(buf, n, "%s", v->u.b ? "True" : "False");
    break;
  case CRN_EV_DTYPE:
    snprintf(buf, n, "dtype %s", crn_dtype_name(v->u.dtype));
    break;
  case CRN_EV_TUPLE:
  case CRN_EV_LIST:
    snprintf(buf, n, "%s of %d", crn_ev_kind_name(v), v->u.seq.n);
    break;
  default:
    snprintf(buf, n, "%s", crn_ev_kind_name(v));
    break;
  }
  return buf;
}

crn_dtype crn_opc_like(const crn_ev *v, int n) {
  for (int i = 0; i < n; i++)
    if (v[i].kind == CRN_EV_TENSOR) return v[i].u.t->dtype;
  for (int i = 0; i < n; i++)
    if (crn_ev_is_seq(&v[i])) {
      crn_dtype t = crn_opc_like(v[i].u.seq.items, v[i].u.seq.n);
      if (t != CRN_N_DTYPES) return t;
    }
  return CRN_N_DTYPES;
}

/* The dtype of plain numbers: float if one is, else int, else bool. */
static crn_dtype natural_dtype(const crn_opctx *c, const crn_ev *v) {
  if (v->kind == CRN_EV_FLOAT) return c->r->real;
  if (v->kind == CRN_EV_BOOL) return CRN_BOOL;
  if (!crn_ev_is_seq(v)) return CRN_I32;
  crn_dtype best = v->u.seq.n ? CRN_BOOL : c->r->real;
  for (int i = 0; i < v->u.seq.n; i++) {
    crn_dtype t = natural_dtype(c, &v->u.seq.items[i]);
    if (crn_dtype_is_float(t)) return t;
    if (t != CRN_BOOL) best = t;
  }
  return best;
}

static crn_tensor *number_tensor(crn_opctx *c, const crn_ev *v, crn_dtype like) {
  bool ok = v->kind == CRN_EV_FLOAT  ? crn_dtype_is_float(like)
            : v->kind == CRN_EV_BOOL ? like == CRN_BOOL
                                     : crn_dtype_is_float(like) || crn_dtype_is_int(like);
  char d[96];
  if (!ok) {
    (void)crn_opc_fail(c, "%s %s can't be used as %s", crn_ev_kind_name(v), crn_ev_describe(v, d, sizeof d),
                       crn_dtype_name(like));
    return NULL;
  }
  if (v->kind == CRN_EV_INT && !crn_dtype_is_float(like)) {
    crn_tensor *t = crn_t_zeros(c->r, like, 0, NULL);
    if (t) crn_int_put(crn_t_data(t), like, 0, v->u.i);
    return t;
  }
  return crn_t_scalar(c->r, like, v->kind == CRN_EV_FLOAT ? v->u.f : v->kind == CRN_EV_INT ? (double)v->u.i : v->u.b);
}

static crn_tensor *seq_tensor(crn_opctx *c, const crn_ev *v, crn_dtype like) {
  int n = v->u.seq.n;
  if (n == 0) return crn_t_zeros(c->r, like, 1, (const int64_t[]){0});
  crn_tensor **parts = crn_opc_alloc(c, (size_t)n * sizeof *parts);
  for (int i = 0; parts && i < n; i++)
    if (!(parts[i] = crn_opc_tensor(c, &v->u.seq.items[i], like))) return NULL;
  return parts ? crn_stack(c->r, n, parts, 0) : NULL;
}

crn_tensor *crn_opc_tensor(crn_opctx *c, const crn_ev *v, crn_dtype like) {
  char d[96];
  if (v->kind == CRN_EV_TENSOR) return v->u.t;
  if (like == CRN_N_DTYPES) {
    like = crn_opc_like(v, 1);
    if (like == CRN_N_DTYPES) like = natural_dtype(c, v);
  }
  if (crn_ev_is_number(v)) return number_tensor(c, v, like);
  if (crn_ev_is_seq(v)) return seq_tensor(c, v, like);
  (void)crn_opc_fail(c, "expected a tensor, found %s", crn_ev_describe(v, d, sizeof d));
  return NULL;
}

bool crn_opc_int(crn_opctx *c, const crn_ev *v, int64_t *out) {
  char d[96];
  if (v->kind == CRN_EV_INT || v->kind == CRN_EV_BOOL) {
    *out = v->kind == CRN_EV_INT ? v->u.i : v->u.b;
    return true;
  }
  if (v->kind == CRN_EV_TENSOR && crn_dtype_is_int(v->u.t->dtype) && crn_t_size(v->u.t) == 1 && crn_t_data(v->u.t)) {
    *out = crn_int_get(crn_t_data(v->u.t), v->u.t->dtype, 0);
    return true;
  }
  (void)crn_opc_fail(c, "expected an integer, found %s", crn_ev_describe(v, d, sizeof d));
  return false;
}

bool crn_opc_float(crn_opctx *c, const crn_ev *v, double *out) {
  if (v->kind == CRN_EV_FLOAT)
    *out = v->u.f;
  else if (v->kind == CRN_EV_TENSOR && crn_dtype_is_float(v->u.t->dtype) && crn_t_size(v->u.t) == 1 &&
           crn_t_data(v->u.t))
    *out = crn_t_get(v->u.t, 0);
  else {
    int64_t i = 0;
    if (!crn_opc_int(c, v, &i)) return false;
    *out = (double)i;
  }
  return true;
}

bool crn_opc_bool(crn_opctx *c, const crn_ev *v, bool *out) {
  switch (v->kind) {
  case CRN_EV_NONE:
    *out = false;
    return true;
  case CRN_EV_BOOL:
    *out = v->u.b;
    return true;
  case CRN_EV_INT:
    *out = v->u.i != 0;
    return true;
  case CRN_EV_FLOAT:
    *out = v->u.f != 0;
    return true;
  case CRN_EV_STR:
    *out = v->u.s[0] != 0;
    return true;
  case CRN_EV_TUPLE:
  case CRN_EV_LIST:
    *out = v->u.seq.n > 0;
    return true;
  case CRN_EV_TENSOR:
    (void)crn_opc_fail(c, "a tensor has no truth value in an expression; use tf.where, tf.logical_and, …");
    return false;
  default:
    *out = true;
    return true;
  }
}

bool crn_opc_dtype(crn_opctx *c, const crn_ev *v, crn_dtype *out) {
  char d[96];
  if (v->kind == CRN_EV_DTYPE)
    *out = v->u.dtype;
  else if (v->kind != CRN_EV_STR || !crn_dtype_from_name(v->u.s, out)) {
    (void)crn_opc_fail(c, "expected a dtype, found %s", crn_ev_describe(v, d, sizeof d));
    return false;
  }
  if (*out == CRN_F32) *out = c->r->real;
  return true;
}

bool crn_opc_shape(crn_opctx *c, const crn_ev *v, int *rank, int64_t *shape) {
  if (crn_ev_is_seq(v)) {
    if (v->u.seq.n > CRN_MAX_RANK) {
      (void)crn_opc_fail(c, "a shape of %d axes; at most %d are possible", v->u.seq.n, CRN_MAX_RANK);
      return false;
    }
    *rank = v->u.seq.n;
    for (int i = 0; i < *rank; i++)
      if (!crn_opc_int(c, &v->u.seq.items[i], &shape[i])) return false;
    return true;
  }
  const crn_tensor *t = v->kind == CRN_EV_TENSOR ? v->u.t : NULL;
  if (t && t->rank == 1 && crn_dtype_is_int(t->dtype) && t->shape[0] <= CRN_MAX_RANK && crn_t_data(t)) {
    *rank = (int)t->shape[0];
    for (int i = 0; i < *rank; i++) shape[i] = crn_int_get(crn_t_data(t), t->dtype, i);
    return true;
  }
  *rank = 1;
  return crn_opc_int(c, v, &shape[0]);
}

bool crn_opc_axis(crn_opctx *c, const crn_ev *v, int rank, int *axis) {
  int64_t i = 0;
  if (!crn_opc_int(c, v, &i)) return false;
  if (i < -rank || i >= rank) {
    (void)crn_opc_fail(c, "axis %lld is outside of [%d, %d)", (long long)i, -rank, rank);
    return false;
  }
  *axis = (int)(i < 0 ? i + rank : i);
  return true;
}

bool crn_opc_axes(crn_opctx *c, const crn_ev *v, int rank, unsigned *axes) {
  *axes = 0;
  if (v->kind == CRN_EV_NONE) {
    *axes = (1u << rank) - 1u;
    return true;
  }
  int n = 0;
  int64_t list[CRN_MAX_RANK];
  if (!crn_opc_shape(c, v, &n, list)) return false;
  for (int i = 0; i < n; i++) {
    int axis = 0;
    crn_ev one = crn_ev_of_int(list[i]);
    if (!crn_opc_axis(c, &one, rank, &axis)) return false;
    *axes |= 1u << axis;
  }
  return true;
}

crn_status crn_opc_out(crn_opctx *c, crn_tensor *t, crn_ev *out) {
  char buf[96];
  if (t) {
    *out = crn_ev_of_tensor(t);
    return CRN_OK;
  }
  if (!crn_run_failed(c->r)) return crn_opc_fail(c, "internal: no result");
  return crn_err_where(c->r->err, "%s", called_name(c, buf, sizeof buf));
}

void crn_opc_keep_made(crn_opctx *c, const crn_ev *a, int n, crn_ev *out) {
  if (out->kind != CRN_EV_TENSOR || a[0].kind != CRN_EV_TENSOR || !a[0].made) return;
  crn_made *made = crn_opc_alloc(c, sizeof *made);
  crn_made_step *step = crn_opc_alloc(c, sizeof *step);
  crn_ev *args = crn_opc_alloc(c, (size_t)n * sizeof *args);
  if (!made || !step || !args) return;
  memcpy(args, a, (size_t)n * sizeof *args);
  *step = (crn_made_step){a[0].made->steps, c->row, args, n};
  *made = *a[0].made;
  made->steps = step;
  out->made = made;
}
