/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading growing histories: products and weighted sums that look up each piece where it lies, and the whole as one
 * tensor.
 *
 * A node's inputs are the query (or weights), if there is one, and, while recording, the pieces: these get the
 * gradient.
 */
#include <string.h>

#include "tensor/history.h"
#include "tensor/ops.h"
#include "tensor/split.h"

#include "tensor/real_f32.inc.h"
#include "tensor/ops_history.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_history.inc.h"

static crn_tensor *call(crn_run *r, const crn_opdef *op, crn_tensor *query, const crn_history *h) {
  if (!h || crn_run_failed(r)) return NULL;
  const int n_own = query ? 1 : 0, n = n_own + (r->recording ? h->n : 0);
  crn_tensor **in = &query;
  if (n > n_own) {
    if (!(in = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, n))) return (void)crn_err_memory(r->err), NULL;
    if (query) in[0] = query;
    for (int i = 0; i < h->n; i++) in[n_own + i] = h->piece[i].v;
  }
  return crn_op_call(r, op, n, n, in, &(crn_attrs){.p = h}, NULL);
}

/* [N, H, T, d], and the other operand fits: [N, H, 1, last]. */
static crn_status check_heads(crn_run *r, crn_node *n, const crn_history *h, int64_t last) {
  const crn_tensor *q = n->in[0];
  char buf[128];
  CRN_TRY(crn_check_real(r, n, 0));
  const bool ok = h->rank == 4 && h->axis == 2 && h->dtype == q->dtype && q->rank == 4 && q->shape[0] == h->shape[0] &&
                  q->shape[1] == h->shape[1] && q->shape[2] == 1 && q->shape[3] == last;
  if (ok) return CRN_OK;
  return crn_op_fail(r, n, "needs [N, H, 1, %lld] for a history of %lld rows, got %s", (long long)last,
                     (long long)h->shape[0], crn_t_describe(q, buf, sizeof buf));
}

/* ---- energies -------------------------------------------------------------------------------------------------------
 */

static crn_status energy_infer(crn_run *r, crn_node *n) {
  const crn_history *h = n->a.p;
  CRN_TRY(check_heads(r, n, h, h->shape[3]));
  return crn_node_output(r, n, 0, h->dtype, 4, (int64_t[]){h->shape[0], h->shape[1], 1, h->shape[2]});
}

static crn_status energy_run(crn_run *r, crn_node *n) {
  CRN_BY_REAL(n->in[0]->dtype, energy_forward)(r, n);
  return r->err->code;
}

static crn_status energy_grad(crn_run *r, crn_node *n) {
  const void *de = crn_grad_out(n, 0);
  if (de) CRN_BY_REAL(n->in[0]->dtype, energy_backward)(r, n, de);
  return r->err->code;
}

static const crn_opdef energy_op = {"history_energy", energy_infer, energy_run, energy_grad};

crn_tensor *crn_history_energy(crn_run *r, crn_tensor *q, const crn_history *keys) {
  return q ? call(r, &energy_op, q, keys) : NULL;
}

/* ---- weighted sums --------------------------------------------------------------------------------------------------
 */

static crn_status sum_infer(crn_run *r, crn_node *n) {
  const crn_history *h = n->a.p;
  CRN_TRY(check_heads(r, n, h, h->shape[2]));
  return crn_node_output(r, n, 0, h->dtype, 4, (int64_t[]){h->shape[0], h->shape[1], 1, h->shape[3]});
}

static crn_status sum_run(crn_run *r, crn_node *n) {
  CRN_BY_REAL(n->in[0]->dtype, sum_forward)(r, n);
  return r->err->code;
}

static crn_status sum_grad(crn_run *r, crn_node *n) {
  const void *dy = crn_grad_out(n, 0);
  if (dy) CRN_BY_REAL(n->in[0]->dtype, sum_backward)(r, n, dy);
  return r->err->code;
}

static const crn_opdef sum_op = {"history_sum", sum_infer, sum_run, sum_grad};

crn_tensor *crn_history_sum(crn_run *r, crn_tensor *w, const crn_history *values) {
  return w ? call(r, &sum_op, w, values) : NULL;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------
 */

static crn_status whole_infer(crn_run *r, crn_node *n) {
  const crn_history *h = n->a.p;
  return crn_node_output(r, n, 0, h->dtype, h->rank, h->shape);
}

/* Blocks of frames that lie together: [N, outer, T, inner]. */
typedef struct layout {
  int64_t N, outer, T, inner;
} layout;

static layout layout_of(const crn_history *h) {
  return (layout){h->shape[0], crn_t_count(h->axis - 1, h->shape + 1), h->shape[h->axis],
                  crn_t_count(h->rank - h->axis - 1, h->shape + h->axis + 1)};
}

static int64_t row_of(const crn_history *h, int k, int64_t i) {
  return h->rows ? crn_t_i32(h->rows)[k * h->shape[0] + i] : i;
}

static crn_status whole_run(crn_run *r, crn_node *n) {
  (void)r;
  const crn_history *h = n->a.p;
  const layout y = layout_of(h);
  const size_t one = (size_t)y.inner * crn_dtype_bytes(h->dtype);
  char *out = crn_t_data(n->out[0]);
  for (int k = 0; k < h->n; k++) {
    const crn_tensor *v = h->piece[k].v;
    const int64_t frames = v->shape[h->axis], begin = h->piece[k].begin;
    const char *in = crn_t_data(v);
    for (int64_t i = 0; i < y.N; i++)
      for (int64_t o = 0; one && o < y.outer; o++)
        memcpy(out + (size_t)((i * y.outer + o) * y.T + begin) * one,
               in + (size_t)((row_of(h, k, i) * y.outer + o) * frames) * one, (size_t)frames * one);
  }
  return CRN_OK;
}

static crn_status whole_grad(crn_run *r, crn_node *n) {
  const void *dy = crn_grad_out(n, 0);
  if (dy && crn_dtype_is_float(n->out[0]->dtype)) CRN_BY_REAL(n->out[0]->dtype, whole_backward)(r, n, dy);
  return r->err->code;
}

static const crn_opdef whole_op = {"history", whole_infer, whole_run, whole_grad};

crn_tensor *crn_history_whole(crn_run *r, const crn_history *h) { return call(r, &whole_op, NULL, h); }
