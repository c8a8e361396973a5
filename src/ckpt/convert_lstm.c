/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM parameters between layouts. Every layout is read into one form, the cell's, and written from it:
 *   kernel [n_in + n, 4n]: rows of the input, then of h; column blocks of n in the order i, j, f, o;  bias [4n]
 * likewise
 *
 *   layout   variables in the unit's scope                              gates
 *   native   W [n_in,4n], W_re [n,4n], b [4n]                            j,i,f,o
 *   lowmem   W [n_in+n,4n], b [4n]                                       j,i,f,o
 *   cell     CELL/kernel|weights [n_in+n,4n], CELL/bias|biases [4n]      i,j,f,o
 *   cudnn    …CudnnRNNParamsToCanonical:0 … :15: weights [n,n_in] of the input gates i,f,j,o (transposed), [n,n] of the
 *            recurrent ones, 8 biases [n] in the same order, of which pairs are added
 * CELL may lie in scopes of its own (rnn/, …/cell_0/…) as long as there is only one.
 */
#include "ckpt/convert_internal.h"

#include <string.h>

typedef enum layout { L_NATIVE, L_LOWMEM, L_CELL, L_CUDNN } layout;

/* position[g] = block of gate g (0 i, 1 j, 2 f, 3 o) */
static const struct {
  const char *gates;
  int position[4];
} orders[] = {
    [L_NATIVE] = {"j,i,f,o", {1, 0, 2, 3}},
    [L_LOWMEM] = {"j,i,f,o", {1, 0, 2, 3}},
    [L_CELL] = {"i,j,f,o", {0, 1, 2, 3}},
    [L_CUDNN] = {"i,f,j,o", {0, 2, 1, 3}},
};

/* Cells with a kernel, and whether they add a forget bias that isn't in the file. */
static const struct {
  const char *name;
  bool adds_forget_bias;
} cells[] = {
    {"lstm_cell", true}, {"basic_lstm_cell", true}, {"lstm_fused_cell", true}, {"cudnn_compatible_lstm_cell", false}};

typedef struct source {
  layout layout;
  bool adds_forget_bias;
  const crn_bundle_entry *parts[CRN_CONVERSION_MAX_SOURCES];
  int n_parts;
  int64_t n, n_in;
} source;

/* The part of all parameters that a variable is. */
typedef struct target {
  layout layout;
  bool adds_forget_bias;
  bool is_bias;
  const char *scope; /* of the unit, with slash */
  char which;        /* 'W', 'R' (W_re), 'K' (kernel), 'b' */
} target;

typedef struct plan {
  source src;
  layout to;
  bool is_bias;
  int64_t first_row, n_rows; /* of the kernel */
  double forget_shift;       /* added to the f block of the bias */
} plan;

/* If name ends with CELL/last (last: kernel, …), the index of CELL, else -1; *scope_len: length before CELL. */
static int ends_with_cell(const char *name, const char *last, size_t *scope_len) {
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    size_t n = strlen(name), n_cell = strlen(cells[i].name), n_tail = n_cell + 1 + strlen(last);
    if (n < n_tail) continue;
    const char *tail = name + n - n_tail;
    if (strncmp(tail, cells[i].name, n_cell) != 0 || tail[n_cell] != '/' || strcmp(tail + n_cell + 1, last) != 0)
      continue;
    if (tail != name && tail[-1] != '/') continue;
    *scope_len = n - n_tail;
    return (int)i;
  }
  return -1;
}

static bool find_target(const crn_convert_search *s, target *t) {
  const char *name = s->want->name, *slash = strrchr(name, '/');
  size_t scope_len = 0;
  *t = (target){.layout = L_NATIVE};
  const char *last = slash ? slash + 1 : name;
  if (strcmp(last, "W") == 0 || strcmp(last, "W_re") == 0 || strcmp(last, "b") == 0) {
    scope_len = (size_t)(last - name);
    if (scope_len < 4 || strncmp(last - 4, "rec/", 4) != 0) return false; /* a unit's variables lie in …/rec/ */
    t->which = last[0] == 'b' ? 'b' : last[1] ? 'R' : 'W';
    t->is_bias = t->which == 'b';
  } else {
    bool is_kernel = strcmp(last, "kernel") == 0;
    if (!is_kernel && strcmp(last, "bias") != 0) return false;
    int cell = ends_with_cell(name, last, &scope_len);
    if (cell < 0) return false;
    *t = (target){.layout = L_CELL, .which = is_kernel ? 'K' : 'b', .is_bias = !is_kernel};
    t->adds_forget_bias = cells[cell].adds_forget_bias;
  }
  t->scope = crn_arena_strndup(s->arena, name, scope_len);
  return t->scope != NULL;
}

static bool is_shape(const crn_bundle_entry *e, int rank, int64_t rows, int64_t columns) {
  if (!e || e->rank != rank || !crn_tf_convertible(e->dtype, CRN_TF_FLOAT64)) return false;
  return rank == 1 ? e->shape[0] == columns : e->shape[0] == rows && e->shape[1] == columns;
}

/* kernel [n_in + n, 4n] with bias [4n]? Sets n and n_in. */
static bool is_joined(const crn_bundle_entry *kernel, const crn_bundle_entry *bias, source *out) {
  if (!kernel || kernel->rank != 2 || kernel->shape[1] == 0 || kernel->shape[1] % 4 != 0) return false;
  out->n = kernel->shape[1] / 4;
  out->n_in = kernel->shape[0] - out->n;
  out->parts[0] = kernel;
  out->parts[1] = bias;
  out->n_parts = 2;
  return out->n_in > 0 && is_shape(kernel, 2, kernel->shape[0], 4 * out->n) && is_shape(bias, 1, 0, 4 * out->n);
}

static bool find_native(const crn_convert_search *s, const char *scope, source *out) {
  const crn_bundle_entry *w = crn_convert_entry(s, scope, "W"), *w_re = crn_convert_entry(s, scope, "W_re"),
                         *b = crn_convert_entry(s, scope, "b");
  *out = (source){.layout = L_NATIVE, .parts = {w, w_re, b}, .n_parts = 3};
  if (!w || !w_re || !b || w->rank != 2 || w_re->rank != 2) return false;
  out->n = w_re->shape[0];
  out->n_in = w->shape[0];
  return is_shape(w, 2, out->n_in, 4 * out->n) && is_shape(w_re, 2, out->n, 4 * out->n) &&
         is_shape(b, 1, 0, 4 * out->n);
}

static bool find_lowmem(const crn_convert_search *s, const char *scope, source *out) {
  *out = (source){.layout = L_LOWMEM};
  return !crn_convert_entry(s, scope, "W_re") &&
         is_joined(crn_convert_entry(s, scope, "W"), crn_convert_entry(s, scope, "b"), out);
}

/* Cells below scope; *n_found counts them. */
static bool find_cell(const crn_convert_search *s, const char *scope, source *out, int *n_found) {
  static const char *const names[][2] = {{"kernel", "bias"}, {"weights", "biases"}};
  size_t n, cell_scope;
  const crn_bundle_entry *e = crn_bundle_find_prefix(s->bundle, scope, &n);
  *n_found = 0;
  for (size_t i = 0; i < n; i++, e++)
    for (int k = 0; k < 2; k++) {
      int cell = ends_with_cell(e->name, names[k][0], &cell_scope);
      if (cell < 0 || cell_scope < strlen(scope)) continue;
      char *path = crn_arena_strndup(s->arena, e->name, strlen(e->name) - strlen(names[k][0]));
      source found = {.layout = L_CELL, .adds_forget_bias = cells[cell].adds_forget_bias};
      if (!path || !is_joined(e, crn_convert_entry(s, path, names[k][1]), &found)) continue;
      *out = found;
      ++*n_found;
    }
  return *n_found > 0;
}

static bool find_cudnn(const crn_convert_search *s, const char *scope, source *out) {
  static const char first_name[] = "CudnnRNNParamsToCanonical:0";
  size_t n;
  const crn_bundle_entry *e = crn_bundle_find_prefix(s->bundle, scope, &n);
  size_t i = 0;
  while (i < n && !crn_ends_with(e[i].name, first_name)) i++;
  if (i == n) return false;
  *out = (source){.layout = L_CUDNN, .n_parts = 16};
  char *stem = crn_arena_strndup(s->arena, e[i].name, strlen(e[i].name) - 1);
  for (int k = 0; k < 16; k++) {
    char number[12] = {(char)(k < 10 ? '0' + k : '1'), (char)(k < 10 ? 0 : '0' + k - 10), 0};
    out->parts[k] = stem ? crn_convert_entry(s, stem, number) : NULL;
    if (!out->parts[k] || !crn_tf_convertible(out->parts[k]->dtype, CRN_TF_FLOAT64)) return false;
  }
  out->n = out->parts[8]->n_elements;
  out->n_in = out->n ? out->parts[0]->n_elements / out->n : 0;
  for (int k = 0; k < 16; k++) {
    int64_t expected = k < 4 ? out->n * out->n_in : k < 8 ? out->n * out->n : out->n;
    if (out->n <= 0 || out->n_in <= 0 || out->parts[k]->n_elements != expected) return false;
  }
  return true;
}

/* The file's layout for the unit. False: none, or the target itself. */
static crn_status find_source(const crn_convert_search *s, const target *t, source *out, bool *found) {
  int n_cells = 0;
  *found = false;
  if (t->layout == L_CELL && (find_native(s, t->scope, out) || find_lowmem(s, t->scope, out))) {
    *found = true;
  } else if (find_cell(s, t->scope, out, &n_cells)) {
    if (n_cells > 1)
      return crn_fail(s->err, CRN_E_FORMAT,
                      "variable '%s': the file has %d LSTM cells that it could be made from, e.g. '%s'; name one with "
                      "var_name_mapping",
                      s->want->name, n_cells, out->parts[0]->name);
    *found = strcmp(out->parts[0]->name, s->want->name) != 0 && strcmp(out->parts[1]->name, s->want->name) != 0;
  } else if (find_cudnn(s, t->scope, out)) {
    *found = true;
  } else if (t->layout == L_NATIVE && find_native(s, t->scope, out)) { /* one matrix wanted? */
    *found = t->which == 'W' && s->want->rank == 2 && s->want->shape[0] == out->n_in + out->n;
  } else if (t->layout == L_NATIVE && find_lowmem(s, t->scope, out)) { /* two matrices wanted? */
    char *w_re = crn_arena_printf(s->arena, "%sW_re", t->scope);
    *found = t->which != 'b' && w_re && s->opts->is_wanted && s->opts->is_wanted(s->opts->user, w_re);
  }
  return CRN_OK;
}

static void permute_columns(double *rows, int64_t n_rows, int64_t n, const int *from, const int *to, double *work) {
  for (int64_t r = 0; r < n_rows; r++, rows += 4 * n) {
    memcpy(work, rows, (size_t)(4 * n) * sizeof *work);
    for (int g = 0; g < 4; g++) memcpy(rows + to[g] * n, work + from[g] * n, (size_t)n * sizeof *work);
  }
}

/* cuDNN's gate number k of the canonical order -> columns of rows [first, first + n_in) in cuDNN's own block order. */
static crn_status read_cudnn(const crn_bundle *b, const source *src, bool is_bias, double *dst, crn_err *err) {
  int64_t n = src->n, total = is_bias ? 4 * n : (src->n_in + n) * 4 * n;
  for (int64_t i = 0; i < total; i++) dst[i] = 0;
  int64_t longest = n * (src->n_in > n ? src->n_in : n);
  double *part = crn_malloc((size_t)longest * sizeof *part);
  if (!part) return crn_err_memory(err);
  crn_status status = CRN_OK;
  for (int k = 0; k < 8 && status == CRN_OK; k++) {
    int gate = k % 4;
    status = crn_convert_read_doubles(b, src->parts[is_bias ? 8 + k : k], part, err);
    if (status != CRN_OK) break;
    int64_t rows = k < 4 ? src->n_in : n, first_row = k < 4 ? 0 : src->n_in;
    for (int64_t i = 0; is_bias && i < n; i++) dst[gate * n + i] += part[i];
    for (int64_t r = 0; !is_bias && r < rows; r++)
      for (int64_t i = 0; i < n; i++) dst[(first_row + r) * 4 * n + gate * n + i] = part[i * rows + r];
  }
  crn_free(part);
  return status;
}

/* All kernel rows, or the bias, in the layout's own block order. */
static crn_status read_source(const crn_bundle *b, const source *src, bool is_bias, double *dst, crn_err *err) {
  if (src->layout == L_CUDNN) return read_cudnn(b, src, is_bias, dst, err);
  if (is_bias) return crn_convert_read_doubles(b, src->parts[src->n_parts - 1], dst, err);
  CRN_TRY(crn_convert_read_doubles(b, src->parts[0], dst, err));
  if (src->layout != L_NATIVE) return CRN_OK;
  return crn_convert_read_doubles(b, src->parts[1], dst + src->n_in * 4 * src->n, err);
}

static crn_status run_lstm(const crn_conversion *c, void *dst, crn_err *err) {
  const plan *p = c->plan;
  int64_t n = p->src.n, n_rows = p->is_bias ? 1 : p->src.n_in + n;
  double *rows = crn_malloc((size_t)(n_rows + 1) * (size_t)(4 * n) * sizeof *rows);
  if (!rows) return crn_err_memory(err);
  crn_status status = read_source(c->bundle, &p->src, p->is_bias, rows, err);
  if (status == CRN_OK) {
    const int *to = orders[p->to].position;
    permute_columns(rows, n_rows, n, orders[p->src.layout].position, to, rows + n_rows * 4 * n);
    for (int64_t i = 0; p->is_bias && i < n; i++) rows[to[2] * n + i] += p->forget_shift;
    status = crn_tf_convert(CRN_TF_FLOAT64, rows + p->first_row * 4 * n, c->want.dtype, dst, p->n_rows * 4 * n, err);
  }
  crn_free(rows);
  return status;
}

static const char *make_note(const crn_convert_search *s, const target *t, const plan *p) {
  const source *src = &p->src;
  const char *more = "";
  crn_arena *a = s->arena;
  bool differs = t->is_bias && src->adds_forget_bias != t->adds_forget_bias;
  if (differs && s->opts->keep_function)
    more = crn_arena_printf(a, "; forget bias %g %s, so that outputs stay the same", s->opts->forget_bias,
                            p->forget_shift > 0 ? "added" : "subtracted");
  else if (differs && src->adds_forget_bias)
    more = "; the cell that it was trained with adds its forget_bias (1.0 by default) at each step, this unit doesn't";
  else if (differs)
    more = "; outputs stay the same only with unit_opts {'forget_bias': 0.0}";
  char *rows = t->is_bias ? crn_arena_strdup(a, "")
                          : crn_arena_printf(a, "rows %lld to %lld, ", (long long)p->first_row,
                                             (long long)(p->first_row + p->n_rows - 1));
  int part = src->layout == L_CUDNN ? (t->is_bias ? 8 : 0) : t->is_bias ? src->n_parts - 1 : 0;
  bool several = src->layout == L_CUDNN || (src->layout == L_NATIVE && !t->is_bias);
  if (!rows || !more) return NULL;
  return crn_arena_printf(a, "made from '%s'%s (%sgates %s -> %s)%s", src->parts[part]->name,
                          several ? " and its fellows" : "", rows, orders[src->layout].gates, orders[t->layout].gates,
                          more);
}

static crn_status check_shape(const crn_convert_search *s, const target *t, const plan *p) {
  const crn_ckpt_var *w = s->want;
  int64_t columns = 4 * p->src.n;
  bool fits = t->is_bias ? w->rank == 1 && w->shape[0] == columns
                         : w->rank == 2 && w->shape[0] == p->n_rows && w->shape[1] == columns;
  if (fits && crn_tf_convertible(CRN_TF_FLOAT64, w->dtype)) return CRN_OK;
  char why[120] = "";
  crn_str text = {0};
  crn_str_addf(&text, " (converted: [%lld,%lld])", (long long)p->n_rows, (long long)columns);
  if (!t->is_bias && text.len < sizeof why) memcpy(why, crn_str_get(&text), text.len + 1);
  crn_str_free(&text);
  return crn_convert_fail_shape(s, p->src.parts[t->is_bias ? p->src.n_parts - 1 : 0], why);
}

crn_status crn_convert_rule_lstm(const crn_convert_search *s, crn_conversion **out) {
  target t;
  bool found = false;
  if (!find_target(s, &t)) return CRN_OK;
  plan *p = CRN_ARENA_NEW(s->arena, plan);
  crn_conversion *c = crn_conversion_new(s);
  if (!p || !c) return crn_err_memory(s->err);
  CRN_TRY(find_source(s, &t, &p->src, &found));
  if (!found) return CRN_OK;
  p->to = t.layout;
  p->is_bias = t.is_bias;
  bool one_matrix = t.which == 'W' && s->want->rank == 2 && s->want->shape[0] == p->src.n_in + p->src.n;
  p->first_row = t.which == 'R' ? p->src.n_in : 0;
  p->n_rows = t.is_bias                       ? 1
              : t.which == 'R'                ? p->src.n
              : t.which == 'W' && !one_matrix ? p->src.n_in
                                              : p->src.n_in + p->src.n;
  if (s->opts->keep_function)
    p->forget_shift = s->opts->forget_bias * ((p->src.adds_forget_bias ? 1 : 0) - (t.adds_forget_bias ? 1 : 0));
  CRN_TRY(check_shape(s, &t, p));
  for (int i = 0; i < p->src.n_parts; i++) c->sources[c->n_sources++] = p->src.parts[i];
  c->note = make_note(s, &t, p);
  if (!c->note) return crn_err_memory(s->err);
  c->plan = p;
  c->run = run_lstm;
  *out = c;
  return CRN_OK;
}
