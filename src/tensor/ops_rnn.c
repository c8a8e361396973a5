/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM: a whole pass as one operation, and one step. The pass sorts its sequences by length, so that finished ones drop
 * out and padding costs nothing (tensor/lstm.h); the recurrent product uses a form of w_re that is packed once, and the
 * gradient of w_re is one product over the frames of all steps.
 */
#include <string.h>

#include "tensor/lstm.h"
#include "tensor/ops.h"
#include "tensor/split.h"
#include "tensor/weights.h"

enum { LSTM_Z, LSTM_W, LSTM_LENS, LSTM_H0, LSTM_C0 };
enum { OUT_Y, OUT_H, OUT_C };

#define CELL_COST 8 /* of a cell's element, in simple operations */

typedef struct lstm_step {
  crn_run *run;
  const lstm_plan *plan;
  int64_t s;
  const void *z, *dy;
  void *y, *dh, *dc, *d_z;
} lstm_step;

typedef struct cell_task {
  crn_run *run;
  int64_t n;
  crn_lstm_layout layout;
  double forget_bias;
  const void *z, *c_prev, *dh, *dc;
  void *gates, *c, *h, *dc_prev, *d_z, *d_c;
} cell_task;

#include "tensor/real_f32.inc.h"
#include "tensor/ops_rnn.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_rnn.inc.h"

static crn_lstm_layout layout_of(int64_t ijfo) { return ijfo ? CRN_LSTM_IJFO : CRN_LSTM_JIFO; }

/* Orders by name: 0 jifo, 1 ijfo, -1 unknown. */
static int64_t order_from_name(crn_run *r, const char *order) {
  if (strcmp(order, "jifo") == 0) return 0;
  if (strcmp(order, "ijfo") == 0) return 1;
  if (!crn_run_failed(r))
    (void)crn_fail(r->err, CRN_E_RUNTIME, "lstm: gate order '%s' is unknown, there are jifo and ijfo", order);
  return -1;
}

static crn_status lstm_infer(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[LSTM_Z], *w = n->in[LSTM_W], *lens = n->in[LSTM_LENS];
  char bz[120], bw[120];
  for (int i = 0; i < 5; i++)
    if (i != LSTM_LENS) CRN_TRY(crn_check_real(r, n, i));
  CRN_TRY(crn_check_i32(r, n, LSTM_LENS, 1));
  if (z->rank != 3 || w->rank != 2 || w->shape[1] != 4 * w->shape[0] || z->shape[2] != w->shape[1])
    return crn_op_fail(r, n, "needs z [T, B, 4n] and w_re [n, 4n], got %s and %s", crn_t_describe(z, bz, sizeof bz),
                       crn_t_describe(w, bw, sizeof bw));
  int64_t B = z->shape[1], units = w->shape[0];
  if (lens && lens->shape[0] != B)
    return crn_op_fail(r, n, "lengths %s do not fit z %s", crn_t_describe(lens, bw, sizeof bw),
                       crn_t_describe(z, bz, sizeof bz));
  for (int i = LSTM_H0; i <= LSTM_C0; i++) {
    crn_tensor *t = n->in[i];
    if (t && (t->rank != 2 || t->shape[0] != B || t->shape[1] != units))
      return crn_op_fail(r, n, "initial state %s should be [%lld, %lld]", crn_t_describe(t, bw, sizeof bw),
                         (long long)B, (long long)units);
  }
  CRN_TRY(crn_node_output(r, n, OUT_Y, z->dtype, 3, (int64_t[]){z->shape[0], B, units}));
  CRN_TRY(crn_node_output(r, n, OUT_H, z->dtype, 2, (int64_t[]){B, units}));
  return crn_node_output(r, n, OUT_C, z->dtype, 2, (int64_t[]){B, units});
}

/* Stable order by falling length, active rows and slab places of each step. */
static crn_status plan_rows(crn_run *r, const crn_node *n, lstm_plan *p) {
  const int32_t *lens = n->in[LSTM_LENS] ? crn_t_i32(n->in[LSTM_LENS]) : NULL;
  crn_arena *arena = p->kept ? &r->arena : &r->scratch;
  p->sequence = CRN_ARENA_ARRAY(arena, int32_t, p->B + 1);
  p->len = CRN_ARENA_ARRAY(arena, int32_t, p->B + 1);
  p->active = CRN_ARENA_ARRAY(arena, int64_t, p->T + 2);
  p->first = CRN_ARENA_ARRAY(arena, int64_t, p->T + 2);
  if (!p->sequence || !p->len || !p->active || !p->first) return crn_err_memory(r->err);
  for (int64_t b = 0; b < p->B; b++) {
    int32_t len = lens ? lens[b] : (int32_t)p->T;
    if (len < 0 || len > p->T)
      return crn_op_fail(r, n, "length %d of sequence %lld is outside of 0 to %lld", (int)len, (long long)b,
                         (long long)p->T);
    p->active[len]++; /* for now: how many have this length */
    p->frames += len;
    if (len > p->steps) p->steps = len;
  }
  int64_t longer = 0;
  for (int64_t t = p->T; t >= 0; t--) { /* first[t]: next row for this length; active[t]: rows longer than t */
    int64_t same = p->active[t];
    p->first[t] = p->active[t] = longer;
    longer += same;
  }
  for (int64_t b = 0; b < p->B; b++) {
    int32_t len = lens ? lens[b] : (int32_t)p->T;
    int64_t row = p->first[len]++;
    p->sequence[row] = (int32_t)b;
    p->len[row] = len;
  }
  p->first[0] = 0;
  for (int64_t s = 0; s < p->steps; s++) p->first[s + 1] = p->first[s] + p->active[s];
  p->straight = !p->reverse || p->frames == p->steps * p->B;
  for (int64_t row = 0; row < p->B; row++) p->straight &= p->sequence[row] == row;
  return CRN_OK;
}

/* rows[i] = t[sequence[i]], or the other way round. */
static void sort_rows(const lstm_plan *p, const void *t, void *rows, size_t item) {
  size_t row = (size_t)p->n * item;
  for (int64_t i = 0; i < p->B; i++)
    memcpy((char *)rows + (size_t)i * row, (const char *)t + (size_t)p->sequence[i] * row, row);
}

static void unsort_rows(const lstm_plan *p, const void *rows, void *t, size_t item) {
  size_t row = (size_t)p->n * item;
  for (int64_t i = 0; i < p->B; i++)
    memcpy((char *)t + (size_t)p->sequence[i] * row, (const char *)rows + (size_t)i * row, row);
}

static void *slab_new(crn_run *r, crn_dtype dtype, int64_t rows, int64_t n) {
  crn_tensor *t = crn_t_new(r, dtype, 2, (int64_t[]){rows, n});
  return t ? crn_t_data(t) : NULL;
}

static crn_status plan_slabs(crn_run *r, const crn_node *n, lstm_plan *p) {
  crn_dtype dtype = n->in[LSTM_Z]->dtype;
  size_t item = crn_dtype_bytes(dtype);
  int64_t rows = p->kept ? p->frames : p->B;
  p->gates = slab_new(r, dtype, rows, 4 * p->n);
  p->c = slab_new(r, dtype, p->kept ? rows : p->B, p->n);
  p->h_prev = slab_new(r, dtype, rows > p->B ? rows : p->B, p->n);
  p->h_end = p->kept ? slab_new(r, dtype, p->B, p->n) : p->h_prev;
  if (n->in[LSTM_C0]) p->c0 = p->kept ? slab_new(r, dtype, p->B, p->n) : p->c;
  if (crn_run_failed(r)) return r->err->code;
  p->has_h0 = n->in[LSTM_H0] != NULL;
  if (p->c0) sort_rows(p, crn_t_data(n->in[LSTM_C0]), p->c0, item);
  if (p->has_h0) {
    sort_rows(p, crn_t_data(n->in[LSTM_H0]), p->h_end, item); /* sequences without frames end with it */
    memcpy(p->h_prev, p->h_end, (size_t)(p->steps > 0 ? p->active[0] : 0) * (size_t)p->n * item);
  } else {
    memset(p->h_end, 0, (size_t)(p->B * p->n) * item);
  }
  return CRN_OK;
}

/* Last states in the order of the batch; zeros in the padding of y. */
static void finish_outputs(const lstm_plan *p, crn_node *n) {
  size_t item = crn_dtype_bytes(n->in[LSTM_Z]->dtype), row = (size_t)p->n * item;
  char *c_last = crn_t_data(n->out[OUT_C]), *y = crn_t_data(n->out[OUT_Y]);
  unsort_rows(p, p->h_end, n->out[OUT_H]->st->data, item);
  for (int64_t i = 0; i < p->B; i++) {
    const char *from = p->c0 ? (const char *)p->c0 + (size_t)i * row : NULL;
    if (p->len[i] > 0) from = (const char *)p->c + (size_t)(lstm_slab(p, p->len[i] - 1) + i) * row;
    char *to = c_last + (size_t)p->sequence[i] * row;
    if (from)
      memcpy(to, from, row);
    else
      memset(to, 0, row);
    for (int64_t t = p->len[i]; t < p->T; t++) memset(y + (size_t)(t * p->B + p->sequence[i]) * row, 0, row);
  }
}

static crn_status lstm_run(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[LSTM_Z], *w = n->in[LSTM_W];
  size_t item = crn_dtype_bytes(z->dtype);
  bool kept = crn_node_kept(r, n);
  lstm_plan *p = kept ? CRN_ARENA_NEW(&r->arena, lstm_plan) : CRN_ARENA_NEW(&r->scratch, lstm_plan);
  if (!p) return crn_err_memory(r->err);
  *p = (lstm_plan){.T = z->shape[0], .B = z->shape[1], .n = w->shape[0], .kept = kept};
  p->layout = layout_of(n->a.i[0]);
  p->reverse = n->a.i[1] != 0;
  p->forget_bias = n->a.f[0];
  CRN_TRY(plan_rows(r, n, p));
  CRN_TRY(plan_slabs(r, n, p));
  n->saved = p;
  const crn_packed_b *form = p->steps > 1 || p->has_h0 ? crn_weight_packed(r, w, false) : NULL;
  lstm_step a = {.run = r, .plan = p, .z = crn_t_data(z), .y = crn_t_data(n->out[OUT_Y])};
  for (; a.s < p->steps; a.s++) {
    int64_t rows = p->active[a.s], slab = lstm_slab(p, a.s);
    crn_split_run(r->threads, rows, crn_split_block(4 * p->n), CRN_BY_REAL(z->dtype, lstm_read_z), &a);
    if (a.s > 0 || p->has_h0)
      crn_weight_product_with(r, w, false, form, rows, (char *)p->h_prev + (size_t)(slab * p->n) * item,
                              (char *)p->gates + (size_t)(slab * 4 * p->n) * item, NULL, true);
    crn_split_run(r->threads, rows, crn_split_block(CELL_COST * p->n), CRN_BY_REAL(z->dtype, lstm_cells), &a);
  }
  finish_outputs(p, n);
  return CRN_OK;
}

/* d_state[sequence[i]] += rows[i] */
static void add_state_gradient(crn_run *r, crn_node *n, int i, const lstm_plan *p, const void *rows) {
  void *d = n->in[i] ? crn_grad_in(r, n, i) : NULL;
  for (int64_t k = 0; d && k < p->B; k++) {
    int64_t to = p->sequence[k] * p->n;
    if (n->in[i]->dtype == CRN_F64)
      for (int64_t j = 0; j < p->n; j++) ((double *)d)[to + j] += ((const double *)rows)[k * p->n + j];
    else
      for (int64_t j = 0; j < p->n; j++) ((float *)d)[to + j] += ((const float *)rows)[k * p->n + j];
  }
}

static crn_status lstm_grad(crn_run *r, crn_node *n) {
  const lstm_plan *p = n->saved;
  crn_tensor *w = n->in[LSTM_W];
  crn_dtype dtype = n->in[LSTM_Z]->dtype;
  size_t item = crn_dtype_bytes(dtype), bytes = (size_t)(p->B * p->n) * item;
  const void *dh_last = crn_grad_out(n, OUT_H), *dc_last = crn_grad_out(n, OUT_C);
  bool h0_wanted = n->in[LSTM_H0] && n->in[LSTM_H0]->needs_grad;
  lstm_step a = {.run = r, .plan = p, .dy = crn_grad_out(n, OUT_Y)};
  a.dh = crn_scratch(r, bytes);
  a.dc = crn_scratch(r, bytes);
  a.d_z = crn_grad_in(r, n, LSTM_Z);
  if (!a.dh || !a.dc || crn_run_failed(r)) return r->err->code;
  if (dh_last)
    sort_rows(p, dh_last, a.dh, item);
  else
    memset(a.dh, 0, bytes);
  if (dc_last)
    sort_rows(p, dc_last, a.dc, item);
  else
    memset(a.dc, 0, bytes);
  const crn_packed_b *form = p->steps > 1 || h0_wanted ? crn_weight_packed(r, w, true) : NULL;
  for (a.s = p->steps - 1; a.s >= 0; a.s--) {
    int64_t rows = p->active[a.s];
    crn_split_run(r->threads, rows, crn_split_block(CELL_COST * p->n), CRN_BY_REAL(dtype, lstm_cells_back), &a);
    if (a.s > 0 || h0_wanted)
      crn_weight_product_with(r, w, true, form, rows, (char *)p->gates + (size_t)(p->first[a.s] * 4 * p->n) * item,
                              a.dh, NULL, false);
  }
  add_state_gradient(r, n, LSTM_H0, p, a.dh);
  add_state_gradient(r, n, LSTM_C0, p, a.dc);
  int64_t from = p->has_h0 || p->steps == 0 ? 0 : p->active[0]; /* zeros enter the first step */
  return crn_weight_gradient(r, n, LSTM_W, (char *)p->h_prev + (size_t)(from * p->n) * item,
                             (char *)p->gates + (size_t)(from * 4 * p->n) * item, p->frames - from);
}

static const crn_opdef lstm_op = {.name = "lstm", .infer = lstm_infer, .run = lstm_run, .grad = lstm_grad};

crn_tensor *crn_lstm(crn_run *r, crn_tensor *z, crn_tensor *w_re, crn_tensor *lens, crn_tensor *h0, crn_tensor *c0,
                     const char *order, double forget_bias, bool reverse, crn_tensor **h_last, crn_tensor **c_last) {
  crn_attrs a = {.i = {order_from_name(r, order), reverse}, .f = {forget_bias}};
  crn_tensor *outs[3] = {NULL};
  if (h_last) *h_last = NULL;
  if (c_last) *c_last = NULL;
  if (a.i[0] < 0) return NULL;
  crn_tensor *y = crn_op_call(r, &lstm_op, 5, 2, (crn_tensor *[]){z, w_re, lens, h0, c0}, &a, outs);
  if (y && h_last) *h_last = outs[OUT_H];
  if (y && c_last) *c_last = outs[OUT_C];
  return y;
}

/* ---- one step --------------------------------------------------------------------------------------------------- */

static crn_status cell_infer(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[0], *c = n->in[1];
  char bz[120], bc[120];
  CRN_TRY(crn_check_real(r, n, 0));
  CRN_TRY(crn_check_real(r, n, 1));
  if (z->rank != 2 || c->rank != 2 || z->shape[0] != c->shape[0] || z->shape[1] != 4 * c->shape[1])
    return crn_op_fail(r, n, "needs z [B, 4n] and c [B, n], got %s and %s", crn_t_describe(z, bz, sizeof bz),
                       crn_t_describe(c, bc, sizeof bc));
  CRN_TRY(crn_node_output(r, n, 0, z->dtype, 2, c->shape));
  return crn_node_output(r, n, 1, z->dtype, 2, c->shape);
}

static cell_task cell_task_of(crn_run *r, const crn_node *n) {
  cell_task t = {.run = r, .n = n->in[1]->shape[1], .layout = layout_of(n->a.i[0]), .forget_bias = n->a.f[0]};
  t.z = crn_t_data(n->in[0]);
  t.c_prev = crn_t_data(n->in[1]);
  t.h = crn_t_data(n->out[0]);
  t.c = crn_t_data(n->out[1]);
  t.gates = n->saved;
  return t;
}

static crn_status cell_run(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[0];
  if (crn_node_kept(r, n))
    n->saved = slab_new(r, z->dtype, z->shape[0], z->shape[1]);
  else
    n->saved = crn_scratch(r, (size_t)crn_t_size(z) * crn_dtype_bytes(z->dtype));
  if (!n->saved) return r->err->code;
  cell_task t = cell_task_of(r, n);
  crn_split_run(r->threads, z->shape[0], crn_split_block(CELL_COST * t.n), CRN_BY_REAL(z->dtype, cell_rows), &t);
  return CRN_OK;
}

static crn_status cell_grad(crn_run *r, crn_node *n) {
  crn_tensor *z = n->in[0];
  cell_task t = cell_task_of(r, n);
  t.dh = crn_grad_out(n, 0);
  t.dc = crn_grad_out(n, 1);
  if (!t.dh && !t.dc) return CRN_OK;
  t.d_z = crn_grad_in(r, n, 0);
  t.d_c = crn_grad_in(r, n, 1);
  t.dc_prev = crn_scratch(r, (size_t)crn_t_size(n->in[1]) * crn_dtype_bytes(z->dtype));
  if (!t.dc_prev || crn_run_failed(r)) return r->err->code;
  crn_split_run(r->threads, z->shape[0], crn_split_block(CELL_COST * t.n), CRN_BY_REAL(z->dtype, cell_rows_back), &t);
  return CRN_OK;
}

static const crn_opdef cell_op = {.name = "lstm_cell", .infer = cell_infer, .run = cell_run, .grad = cell_grad};

crn_tensor *crn_lstm_cell(crn_run *r, crn_tensor *z, crn_tensor *c, const char *order, double forget_bias,
                          crn_tensor **c_out) {
  crn_attrs a = {.i = {order_from_name(r, order)}, .f = {forget_bias}};
  crn_tensor *outs[3] = {NULL};
  if (c_out) *c_out = NULL;
  if (a.i[0] < 0) return NULL;
  crn_tensor *h = crn_op_call(r, &cell_op, 2, 2, (crn_tensor *[]){z, c}, &a, outs);
  if (h && c_out) *c_out = outs[1];
  return h;
}
