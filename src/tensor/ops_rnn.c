/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole LSTM pass as one operation. It sorts its sequences by length, so that finished ones drop out and padding
 * costs nothing (lstm.h); the recurrent product uses a form of w_re that is packed once, and the gradient of w_re is
 * one product over the frames of all steps. With the input product inside (crn_lstm_layer), z never exists as a whole:
 * a few steps' rows are gathered and multiplied just before they are needed, and backward just after.
 */
#include <string.h>

#include "tensor/lstm.h"
#include "tensor/mem.h"
#include "tensor/ops.h"
#include "tensor/split.h"
#include "tensor/weights.h"

#define CELL_COST 8                        /* of a cell's element, in simple operations */
#define GATHER_ROWS (4 * CRN_MATMUL_CHUNK) /* rows of x that are copied at once for the gradient of w */

typedef struct lstm_step {
  crn_run *run;
  const lstm_plan *plan;
  int64_t s;
  const void *z, *dy;
  void *y, *dh, *dc, *d_z;
} lstm_step;

#include "tensor/real_f32.inc.h"
#include "tensor/ops_rnn.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_rnn.inc.h"

static bool has_x(const crn_node *n) { return n->in[LSTM_W] != NULL; }

static crn_tensor *x_of(const crn_node *n, int k) { return n->in[k == 0 ? LSTM_X0 : LSTM_X1 + k - 1]; }

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static crn_status check_input(crn_run *r, const crn_node *n, int64_t units) {
  crn_tensor *z = n->in[LSTM_Z], *w = n->in[LSTM_W], *bias = n->in[LSTM_BIAS];
  char bz[120], bw[120];
  crn_t_describe(z, bz, sizeof bz);
  if (!w) {
    if (z->rank == 3 && z->shape[2] == 4 * units) return CRN_OK;
    return crn_op_fail(r, n, "needs z [T, B, %lld], got %s", (long long)(4 * units), bz);
  }
  for (int k = 0; k < LSTM_MAX_X; k++) {
    crn_tensor *x = x_of(n, k);
    if (x && (x->rank != 3 || z->rank != 3 || x->shape[0] != z->shape[0] || x->shape[1] != z->shape[1]))
      return crn_op_fail(r, n, "inputs must be [T, B, K], got %s and %s", bz, crn_t_describe(x, bw, sizeof bw));
  }
  if (w->rank != 2 || w->shape[1] != 4 * units || w->shape[0] != crn_lstm_x_size(n))
    return crn_op_fail(r, n, "weight %s does not fit %lld input features and %lld units",
                       crn_t_describe(w, bw, sizeof bw), (long long)crn_lstm_x_size(n), (long long)units);
  if (bias && (bias->rank != 1 || bias->shape[0] != 4 * units))
    return crn_op_fail(r, n, "bias %s does not fit %lld units", crn_t_describe(bias, bw, sizeof bw), (long long)units);
  return CRN_OK;
}

static crn_status lstm_infer(crn_run *r, crn_node *n) {
  crn_tensor *re = n->in[LSTM_RE], *z = n->in[LSTM_Z], *lens = n->in[LSTM_LENS];
  char bt[120];
  for (int i = 0; i < LSTM_N_IN; i++)
    if (i != LSTM_LENS) CRN_TRY(crn_check_real(r, n, i));
  CRN_TRY(crn_check_i32(r, n, LSTM_LENS, 1));
  if (re->rank != 2 || re->shape[1] != 4 * re->shape[0])
    return crn_op_fail(r, n, "needs w_re [n, 4n], got %s", crn_t_describe(re, bt, sizeof bt));
  n->weights = 1u << LSTM_RE | 1u << LSTM_W;
  int64_t units = re->shape[0];
  CRN_TRY(check_input(r, n, units));
  int64_t B = z->shape[1];
  if (lens && lens->shape[0] != B)
    return crn_op_fail(r, n, "lengths %s are not those of %lld sequences", crn_t_describe(lens, bt, sizeof bt),
                       (long long)B);
  for (int i = LSTM_H0; i <= LSTM_C0; i++) {
    crn_tensor *t = n->in[i];
    if (t && (t->rank != 2 || t->shape[0] != B || t->shape[1] != units))
      return crn_op_fail(r, n, "initial state %s should be [%lld, %lld]", crn_t_describe(t, bt, sizeof bt),
                         (long long)B, (long long)units);
  }
  CRN_TRY(crn_node_output(r, n, LSTM_Y, z->dtype, 3, (int64_t[]){z->shape[0], B, units}));
  CRN_TRY(crn_node_output(r, n, LSTM_H, z->dtype, 2, (int64_t[]){B, units}));
  return crn_node_output(r, n, LSTM_C, z->dtype, 2, (int64_t[]){B, units});
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* Last states in the order of the batch; zeros in the padding of y. */
static void finish_outputs(const lstm_plan *p, crn_node *n) {
  size_t item = crn_dtype_bytes(n->in[LSTM_RE]->dtype), row = (size_t)p->n * item;
  char *c_last = crn_t_data(n->out[LSTM_C]), *y = crn_t_data(n->out[LSTM_Y]);
  crn_lstm_unsort(p, p->h_end, crn_t_data(n->out[LSTM_H]), item);
  for (int64_t i = 0; i < p->B; i++) {
    const char *from = p->c0 ? (const char *)p->c0 + (size_t)i * row : NULL;
    if (p->len[i] > 0) from = (const char *)p->c + (size_t)(lstm_row(p, p->len[i] - 1) + i) * row;
    char *to = c_last + (size_t)p->sequence[i] * row;
    if (from)
      memcpy(to, from, row);
    else
      memset(to, 0, row);
    for (int64_t t = p->len[i]; t < p->T; t++) memset(y + (size_t)(t * p->B + p->sequence[i]) * row, 0, row);
  }
}

/* Scratch for the rows of x of a group of steps. */
static void *group_buffer(crn_run *r, const crn_node *n, const lstm_plan *p) {
  int64_t rows = p->B + LSTM_GROUP_ROWS;
  return crn_scratch(r, (size_t)(rows * crn_lstm_x_size(n)) * crn_dtype_bytes(n->in[LSTM_RE]->dtype));
}

/* gates = bias + x·w for the group of steps that begins at `begin`. Returns its end. */
static int64_t input_product(crn_run *r, const crn_node *n, lstm_plan *p, int64_t begin, const crn_packed_b *form,
                             void *buffer) {
  int64_t end = crn_lstm_group_end(p, begin), row = p->first[begin], rows = p->first[end] - row;
  if (!p->kept) p->gates_base = row;
  size_t at = (size_t)((row - p->gates_base) * 4 * p->n) * crn_dtype_bytes(n->in[LSTM_RE]->dtype);
  crn_weight_product_with(r, n->in[LSTM_W], false, form, rows, crn_lstm_x_rows(n, p, row, rows, buffer),
                          (char *)p->gates + at, n->in[LSTM_BIAS] ? crn_t_data(n->in[LSTM_BIAS]) : NULL, false);
  return end;
}

static crn_status run_steps(crn_run *r, crn_node *n, lstm_plan *p) {
  crn_dtype dtype = n->in[LSTM_RE]->dtype;
  size_t item = crn_dtype_bytes(dtype);
  const crn_packed_b *form = p->steps > 1 || p->has_h0 ? crn_weight_packed(r, n->in[LSTM_RE], false) : NULL;
  const crn_packed_b *w_form = has_x(n) ? crn_weight_packed(r, n->in[LSTM_W], false) : NULL;
  void *buffer = has_x(n) ? group_buffer(r, n, p) : NULL;
  if (crn_run_failed(r)) return r->err->code;
  lstm_step a = {.run = r, .plan = p, .z = crn_t_data(n->in[LSTM_Z]), .y = crn_t_data(n->out[LSTM_Y])};
  for (int64_t group_end = 0; a.s < p->steps; a.s++) {
    int64_t rows = p->active[a.s];
    if (has_x(n)) {
      if (a.s == group_end) group_end = input_product(r, n, p, a.s, w_form, buffer);
    } else {
      if (!p->kept) p->gates_base = p->first[a.s];
      crn_split_run(r->threads, rows, crn_split_block(4 * p->n), CRN_BY_REAL(dtype, lstm_read_z), &a);
    }
    if (a.s > 0 || p->has_h0)
      crn_weight_product_with(
          r, n->in[LSTM_RE], false, form, rows, (char *)p->h_prev + (size_t)(lstm_row(p, a.s) * p->n) * item,
          (char *)p->gates + (size_t)((p->first[a.s] - p->gates_base) * 4 * p->n) * item, NULL, true);
    crn_split_run(r->threads, rows, crn_split_block(CELL_COST * p->n), CRN_BY_REAL(dtype, lstm_cells), &a);
  }
  return r->err->code;
}

static crn_status lstm_run(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[LSTM_Z];
  bool kept = crn_node_kept(r, n);
  lstm_plan *p = CRN_ARENA_NEW(kept ? &r->arena : &r->scratch, lstm_plan);
  if (!p) return crn_err_memory(r->err);
  *p = (lstm_plan){.T = z->shape[0], .B = z->shape[1], .n = n->in[LSTM_RE]->shape[0], .kept = kept};
  p->layout = crn_lstm_layout_of(n->a.i[0]);
  p->reverse = n->a.i[1] != 0;
  p->forget_bias = n->a.f[0];
  n->saved = p;
  CRN_TRY(crn_lstm_plan_rows(r, n, p));
  CRN_TRY(crn_lstm_plan_slabs(r, n, p));
  CRN_TRY(run_steps(r, n, p));
  finish_outputs(p, n);
  return CRN_OK;
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static bool x_wanted(const crn_node *n) {
  bool wanted = false;
  for (int k = 0; has_x(n) && k < LSTM_MAX_X; k++) wanted |= x_of(n, k) && x_of(n, k)->needs_grad;
  return wanted;
}

/* d_x += dz·wᵀ for the steps [begin, end). */
static void input_gradient(crn_run *r, crn_node *n, const lstm_plan *p, int64_t begin, int64_t end,
                           const crn_packed_b *form, void *buffer) {
  crn_dtype dtype = n->in[LSTM_RE]->dtype;
  int64_t row = p->first[begin], rows = p->first[end] - row, all = crn_lstm_x_size(n), at = 0;
  crn_weight_product_with(r, n->in[LSTM_W], true, form, rows,
                          (char *)p->gates + (size_t)(row * 4 * p->n) * crn_dtype_bytes(dtype), buffer, NULL, false);
  for (int k = 0; k < LSTM_MAX_X; k++) {
    crn_tensor *x = x_of(n, k);
    if (!x) continue;
    void *d_x = crn_grad_in(r, n, k == 0 ? LSTM_X0 : LSTM_X1 + k - 1);
    if (d_x) CRN_BY_REAL(dtype, lstm_add_rows)(r, p, row, rows, all, at, x->shape[2], buffer, d_x);
    at += x->shape[2];
  }
}

/* d_w += xᵀ·dz over all frames, some at a time: multiples of CRN_MATMUL_CHUNK have the bits of one product. */
static crn_status weight_gradient(crn_run *r, crn_node *n, const lstm_plan *p) {
  crn_dtype dtype = n->in[LSTM_RE]->dtype;
  int64_t K = crn_lstm_x_size(n), n4 = 4 * p->n;
  void *d_bias = n->in[LSTM_BIAS] ? crn_grad_in(r, n, LSTM_BIAS) : NULL;
  if (d_bias) crn_add_column_sums(r, dtype, p->frames, n4, p->gates, d_bias);
  void *d_w = crn_grad_in(r, n, LSTM_W);
  if (!d_w || p->frames == 0 || K == 0) return r->err->code;
  size_t item = crn_dtype_bytes(dtype);
  int64_t rows = p->frames;
  const void *x = NULL;
  if (!x_of(n, 1) && crn_lstm_contiguous(p, 0, rows))
    x = crn_lstm_x_rows(n, p, 0, rows, NULL);
  else if (rows > GATHER_ROWS)
    rows = GATHER_ROWS;
  size_t bytes = (size_t)(rows * K) * item;
  void *copy = x ? NULL : crn_mem_get(r->mem, bytes);
  if (!x && !copy) return crn_err_memory(r->err);
  for (int64_t row = 0; row < p->frames; row += rows) {
    int64_t part = rows < p->frames - row ? rows : p->frames - row;
    CRN_BY_REAL(dtype, lstm_add_product)
    (r, K, n4, part, x ? x : crn_lstm_x_rows(n, p, row, part, copy), (char *)p->gates + (size_t)(row * n4) * item, d_w);
  }
  crn_mem_put(r->mem, copy);
  return r->err->code;
}

/* From the last step to the first; a->dh, a->dc hold the gradients of the states that leave the step. */
static crn_status steps_back(crn_run *r, crn_node *n, lstm_step *a) {
  const lstm_plan *p = a->plan;
  crn_dtype dtype = n->in[LSTM_RE]->dtype;
  size_t item = crn_dtype_bytes(dtype);
  bool h0_wanted = n->in[LSTM_H0] && n->in[LSTM_H0]->needs_grad, d_x = x_wanted(n);
  const crn_packed_b *form = p->steps > 1 || h0_wanted ? crn_weight_packed(r, n->in[LSTM_RE], true) : NULL;
  const crn_packed_b *w_form = d_x ? crn_weight_packed(r, n->in[LSTM_W], true) : NULL;
  void *buffer = d_x ? group_buffer(r, n, p) : NULL;
  if (crn_run_failed(r)) return r->err->code;
  int64_t group_end = p->steps, group_begin = p->steps > 0 ? crn_lstm_group_begin(p, group_end) : 0;
  for (a->s = p->steps - 1; a->s >= 0; a->s--) {
    int64_t rows = p->active[a->s];
    crn_split_run(r->threads, rows, crn_split_block(CELL_COST * p->n), CRN_BY_REAL(dtype, lstm_cells_back), a);
    if (a->s > 0 || h0_wanted)
      crn_weight_product_with(r, n->in[LSTM_RE], true, form, rows,
                              (char *)p->gates + (size_t)(p->first[a->s] * 4 * p->n) * item, a->dh, NULL, false);
    if (!d_x || a->s > group_begin) continue;
    input_gradient(r, n, p, group_begin, group_end, w_form, buffer);
    group_end = group_begin;
    if (group_end > 0) group_begin = crn_lstm_group_begin(p, group_end);
  }
  return r->err->code;
}

static crn_status lstm_grad(crn_run *r, crn_node *n) {
  const lstm_plan *p = n->saved;
  crn_dtype dtype = n->in[LSTM_RE]->dtype;
  size_t item = crn_dtype_bytes(dtype), bytes = (size_t)(p->B * p->n) * item;
  const void *dh_last = crn_grad_out(n, LSTM_H), *dc_last = crn_grad_out(n, LSTM_C);
  lstm_step a = {.run = r, .plan = p, .dy = crn_grad_out(n, LSTM_Y)};
  a.dh = crn_scratch(r, bytes);
  a.dc = crn_scratch(r, bytes);
  a.d_z = has_x(n) ? NULL : crn_grad_in(r, n, LSTM_Z);
  if (!a.dh || !a.dc || crn_run_failed(r)) return r->err->code;
  if (dh_last)
    crn_lstm_sort(p, dh_last, a.dh, item);
  else
    memset(a.dh, 0, bytes);
  if (dc_last)
    crn_lstm_sort(p, dc_last, a.dc, item);
  else
    memset(a.dc, 0, bytes);
  CRN_TRY(steps_back(r, n, &a));
  void *d_h0 = n->in[LSTM_H0] ? crn_grad_in(r, n, LSTM_H0) : NULL;
  void *d_c0 = n->in[LSTM_C0] ? crn_grad_in(r, n, LSTM_C0) : NULL;
  if (d_h0) CRN_BY_REAL(dtype, lstm_add_state)(r, p, a.dh, d_h0);
  if (d_c0) CRN_BY_REAL(dtype, lstm_add_state)(r, p, a.dc, d_c0);
  if (has_x(n)) CRN_TRY(weight_gradient(r, n, p));
  int64_t from = p->has_h0 || p->steps == 0 ? 0 : p->active[0]; /* zeros enter the first step */
  return crn_weight_gradient(r, n, LSTM_RE, (char *)p->h_prev + (size_t)(from * p->n) * item,
                             (char *)p->gates + (size_t)(from * 4 * p->n) * item, p->frames - from);
}

static const crn_opdef lstm_op = {.name = "lstm", .infer = lstm_infer, .run = lstm_run, .grad = lstm_grad};

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static crn_tensor *call_lstm(crn_run *r, crn_tensor **in, const char *order, double forget_bias, bool reverse,
                             crn_tensor **h_last, crn_tensor **c_last) {
  crn_attrs a = {.i = {crn_lstm_order(r, order), reverse}, .f = {forget_bias}};
  crn_tensor *outs[3] = {NULL};
  if (h_last) *h_last = NULL;
  if (c_last) *c_last = NULL;
  if (a.i[0] < 0) return NULL;
  crn_tensor *y = crn_op_call(r, &lstm_op, LSTM_N_IN, 2, in, &a, outs);
  if (y && h_last) *h_last = outs[LSTM_H];
  if (y && c_last) *c_last = outs[LSTM_C];
  return y;
}

crn_tensor *crn_lstm(crn_run *r, crn_tensor *z, crn_tensor *w_re, crn_tensor *lens, crn_tensor *h0, crn_tensor *c0,
                     const char *order, double forget_bias, bool reverse, crn_tensor **h_last, crn_tensor **c_last) {
  crn_tensor *in[LSTM_N_IN] = {[LSTM_RE] = w_re, [LSTM_Z] = z, [LSTM_LENS] = lens, [LSTM_H0] = h0, [LSTM_C0] = c0};
  return call_lstm(r, in, order, forget_bias, reverse, h_last, c_last);
}

crn_tensor *crn_lstm_layer(crn_run *r, int n_x, crn_tensor *const *x, crn_tensor *w, crn_tensor *bias, crn_tensor *w_re,
                           crn_tensor *lens, crn_tensor *h0, crn_tensor *c0, const char *order, double forget_bias,
                           bool reverse, crn_tensor **h_last, crn_tensor **c_last) {
  crn_tensor *in[LSTM_N_IN] = {
      [LSTM_RE] = w_re, [LSTM_LENS] = lens, [LSTM_H0] = h0, [LSTM_C0] = c0, [LSTM_W] = w, [LSTM_BIAS] = bias};
  bool missing = !w || n_x < 1;
  for (int k = 0; k < n_x && k < LSTM_MAX_X; k++) {
    in[k == 0 ? LSTM_X0 : LSTM_X1 + k - 1] = x[k];
    missing |= !x[k];
  }
  if (h_last) *h_last = NULL;
  if (c_last) *c_last = NULL;
  if (missing) return NULL;
  if (n_x <= LSTM_MAX_X) return call_lstm(r, in, order, forget_bias, reverse, h_last, c_last);
  if (!crn_run_failed(r)) (void)crn_fail(r->err, CRN_E_RUNTIME, "lstm: %d inputs, at most %d", n_x, LSTM_MAX_X);
  return NULL;
}
