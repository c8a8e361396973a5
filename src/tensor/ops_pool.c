/* SPDX-License-Identifier: Apache-2.0
 *
 * Max and average pooling over one to three axes, channels last. Padding is not there: max passes over it, avg divides
 * by the positions inside the array. The largest value's gradient goes to the first place that holds it.
 */
#include <math.h>
#include <string.h>

#include "tensor/conv.h"
#include "tensor/split.h"

#define CHANNEL_BLOCK 64

typedef struct pool_job {
  crn_run *run;
  conv_geometry g;
  bool max;
  const void *x, *y, *dy;
  void *to;   /* y or d_x */
  void *left; /* [C] backward of max: gradient that has found no place yet */
} pool_job;

#include "tensor/real_f32.inc.h"
#include "tensor/ops_pool.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_pool.inc.h"

static crn_status pool_geometry(crn_run *r, const crn_node *n, conv_geometry *g) {
  const conv_attrs *c = n->a.p;
  const crn_tensor *x = n->in[0];
  *g = (conv_geometry){.B = x->shape[0], .C = x->shape[x->rank - 1]};
  return crn_conv_geometry(r, n, &c->spec, x->shape + 1, c->spec.window, g);
}

static crn_status pool_infer(crn_run *r, crn_node *n) {
  const conv_attrs *c = n->a.p;
  crn_tensor *x = n->in[0];
  char bx[120];
  CRN_TRY(crn_check_real(r, n, 0));
  if (c->spec.n_spatial < 1 || c->spec.n_spatial > 3 || x->rank != c->spec.n_spatial + 2)
    return crn_op_fail(r, n, "%d spatial axes (1 to 3 are possible) don't fit %s", c->spec.n_spatial,
                       crn_t_describe(x, bx, sizeof bx));
  conv_geometry g;
  CRN_TRY(pool_geometry(r, n, &g));
  int64_t shape[5] = {g.B};
  for (int i = 1; i < x->rank - 1; i++) shape[i] = g.out[4 - x->rank + i];
  shape[x->rank - 1] = g.C;
  return crn_node_output(r, n, 0, x->dtype, x->rank, shape);
}

static crn_status pool_run(crn_run *r, crn_node *n) {
  pool_job j = {.run = r, .max = ((const conv_attrs *)n->a.p)->max};
  CRN_TRY(pool_geometry(r, n, &j.g));
  j.x = crn_t_data(n->in[0]);
  j.to = crn_t_data(n->out[0]);
  crn_split_run(r->threads, j.g.positions, crn_split_block(j.g.C * j.g.taps),
                CRN_BY_REAL(n->in[0]->dtype, pool_positions), &j);
  return CRN_OK;
}

static crn_status pool_grad(crn_run *r, crn_node *n) {
  pool_job j = {.run = r, .max = ((const conv_attrs *)n->a.p)->max};
  CRN_TRY(pool_geometry(r, n, &j.g));
  j.dy = crn_grad_out(n, 0);
  j.to = j.dy ? crn_grad_in(r, n, 0) : NULL;
  if (!j.to) return CRN_OK;
  j.x = crn_t_data(n->in[0]);
  j.y = crn_t_data(n->out[0]);
  j.left = crn_scratch(r, (size_t)j.g.C * crn_dtype_bytes(n->in[0]->dtype));
  if (!j.left) return crn_err_memory(r->err);
  crn_split_run(r->threads, j.g.C, CHANNEL_BLOCK, CRN_BY_REAL(n->in[0]->dtype, pool_channels_back), &j);
  return CRN_OK;
}

static const crn_opdef pool_op = {.name = "pool", .infer = pool_infer, .run = pool_run, .grad = pool_grad};

crn_tensor *crn_pool(crn_run *r, crn_tensor *x, bool max, const crn_conv_spec *spec) {
  if (crn_run_failed(r)) return NULL;
  conv_attrs *c = CRN_ARENA_NEW(&r->arena, conv_attrs);
  if (!c) {
    (void)crn_err_memory(r->err);
    return NULL;
  }
  c->spec = *spec;
  c->max = max;
  crn_attrs a = {.p = c};
  return crn_op_call(r, &pool_op, 1, 1, &x, &a, NULL);
}
