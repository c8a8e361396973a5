/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution and its transpose. Three products serve both: y = conv(x, w), d_x from y and w, d_w from x and y. Windows
 * are laid out as rows (a few hundred KB at a time) and multiplied with w as one matrix; rows are multiples of
 * CRN_MATMUL_CHUNK, so sums over positions have the bits of one product. Depthwise convolution works channel by channel
 * without rows.
 */
#include <string.h>

#include "tensor/conv.h"
#include "tensor/mem.h"
#include "tensor/split.h"
#include "tensor/weights.h"

#define ROWS_ELEMENTS (256 * 1024) /* numbers in the rows that are laid out at once, about */
#define CHANNEL_BLOCK 64           /* channels of a task where threads share positions */

/* The operands of a product; those not needed are NULL. What it computes is added to if accumulate is set. */
typedef struct conv_job {
  crn_run *run;
  conv_geometry g;
  const crn_tensor *w; /* as [K, O] */
  const void *x, *y;
  void *to; /* y, d_x or d_w */
  bool accumulate;
  /* rows laid out: positions [row0, row0 + n_rows) of one group */
  void *rows;
  int64_t row0, n_rows, group;
} conv_job;

#include "tensor/real_f32.inc.h"
#include "tensor/ops_conv.inc.h"
#include "tensor/ops_conv_depthwise.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_conv.inc.h"
#include "tensor/ops_conv_depthwise.inc.h"

int64_t crn_conv_out_size(const crn_conv_spec *spec, int axis, int64_t size, int64_t k) {
  int64_t room = size + spec->pad_before[axis] + spec->pad_after[axis] - (k - 1) * spec->dilation[axis] - 1;
  return room < 0 ? 0 : room / spec->stride[axis] + 1;
}

crn_status crn_conv_geometry(crn_run *r, const crn_node *n, const crn_conv_spec *spec, const int64_t *in,
                             const int64_t *k, conv_geometry *g) {
  g->taps = 1;
  for (int i = 0; i < 3; i++) g->in[i] = g->out[i] = g->k[i] = g->stride[i] = g->dilation[i] = 1;
  for (int i = 0; i < spec->n_spatial; i++) {
    int to = 3 - spec->n_spatial + i;
    if (spec->stride[i] < 1 || spec->dilation[i] < 1 || k[i] < 1)
      return crn_op_fail(r, n, "spatial axis %d: window %lld, stride %lld and dilation %lld must be at least 1", i,
                         (long long)k[i], (long long)spec->stride[i], (long long)spec->dilation[i]);
    g->in[to] = in[i];
    g->k[to] = k[i];
    g->stride[to] = spec->stride[i];
    g->dilation[to] = spec->dilation[i];
    g->pad[to] = spec->pad_before[i];
    g->out[to] = crn_conv_out_size(spec, i, in[i], k[i]);
    g->taps *= k[i];
  }
  g->positions = g->B * g->out[0] * g->out[1] * g->out[2];
  return CRN_OK;
}

static const conv_attrs *attrs_of(const crn_node *n) { return n->a.p; }

/* Geometry of a convolution that reads an array [B, in…, C] with filter w. */
static crn_status conv_geometry_of(crn_run *r, const crn_node *n, int64_t B, const int64_t *in, int64_t C,
                                   conv_geometry *g) {
  const crn_conv_spec *spec = &attrs_of(n)->spec;
  const crn_tensor *w = n->in[1];
  char bw[120];
  *g = (conv_geometry){.B = B, .C = C, .O = w->shape[w->rank - 1], .groups = spec->groups > 0 ? spec->groups : 1};
  g->group_in = w->shape[w->rank - 2];
  if (C % g->groups || g->O % g->groups || g->group_in != C / g->groups)
    return crn_op_fail(r, n, "filter %s does not fit %lld channels in %lld groups", crn_t_describe(w, bw, sizeof bw),
                       (long long)C, (long long)g->groups);
  g->group_out = g->O / g->groups;
  CRN_TRY(crn_conv_geometry(r, n, spec, in, w->shape, g));
  g->K = g->taps * g->group_in;
  return CRN_OK;
}

static crn_status check_operands(crn_run *r, crn_node *n) {
  const crn_conv_spec *spec = &attrs_of(n)->spec;
  char bx[120], bw[120];
  CRN_TRY(crn_check_real(r, n, 0));
  CRN_TRY(crn_check_real(r, n, 1));
  n->weights = 1u << 1;
  if (spec->n_spatial < 1 || spec->n_spatial > 3)
    return crn_op_fail(r, n, "%d spatial axes, 1 to 3 are possible", spec->n_spatial);
  if (n->in[0]->rank != spec->n_spatial + 2 || n->in[1]->rank != spec->n_spatial + 2)
    return crn_op_fail(r, n, "%d spatial axes don't fit input %s and filter %s", spec->n_spatial,
                       crn_t_describe(n->in[0], bx, sizeof bx), crn_t_describe(n->in[1], bw, sizeof bw));
  return CRN_OK;
}

/* ---- the three products ----------------------------------------------------------------------------------------- */

typedef crn_status (*conv_product)(conv_job *j);

static crn_status run_product(crn_run *r, const conv_geometry *g, const crn_tensor *w, const void *x, const void *y,
                              void *to, bool accumulate, conv_product f) {
  crn_tensor matrix = *w;
  matrix.rank = 2;
  matrix.shape[0] = g->K;
  matrix.shape[1] = g->O;
  conv_job j = {.run = r, .g = *g, .w = &matrix, .x = x, .y = y, .to = to, .accumulate = accumulate};
  if (g->positions == 0 || g->O == 0 || g->C == 0 || (g->in[0] * g->in[1] * g->in[2]) == 0) return CRN_OK;
  return f(&j);
}

/* y (+)= conv(x, w); positions that see only padding are zero, so y is cleared where nothing is computed. */
static crn_status conv_y(crn_run *r, const conv_geometry *g, const crn_tensor *w, const void *x, void *y,
                         bool accumulate) {
  if (!accumulate) memset(y, 0, (size_t)(g->positions * g->O) * crn_dtype_bytes(w->dtype));
  return run_product(r, g, w, x, NULL, y, accumulate, CRN_BY_REAL(w->dtype, conv_forward));
}

static crn_status conv_dx(crn_run *r, const conv_geometry *g, const crn_tensor *w, const void *y, void *d_x) {
  return run_product(r, g, w, NULL, y, d_x, true, CRN_BY_REAL(w->dtype, conv_back_x));
}

static crn_status conv_dw(crn_run *r, const conv_geometry *g, const crn_tensor *w, const void *x, const void *y,
                          void *d_w) {
  return run_product(r, g, w, x, y, d_w, true, CRN_BY_REAL(w->dtype, conv_back_w));
}

/* ---- convolution ------------------------------------------------------------------------------------------------ */

static crn_status conv_geometry_in(crn_run *r, const crn_node *n, conv_geometry *g) {
  const crn_tensor *x = n->in[0];
  return conv_geometry_of(r, n, x->shape[0], x->shape + 1, x->shape[x->rank - 1], g);
}

static crn_status conv_infer(crn_run *r, crn_node *n) {
  CRN_TRY(check_operands(r, n));
  conv_geometry g;
  CRN_TRY(conv_geometry_in(r, n, &g));
  crn_tensor *x = n->in[0];
  int64_t shape[5] = {g.B};
  for (int i = 1; i < x->rank - 1; i++) shape[i] = g.out[4 - x->rank + i];
  shape[x->rank - 1] = g.O;
  return crn_node_output(r, n, 0, x->dtype, x->rank, shape);
}

static crn_status conv_run(crn_run *r, crn_node *n) {
  conv_geometry g;
  CRN_TRY(conv_geometry_in(r, n, &g));
  return conv_y(r, &g, n->in[1], crn_t_data(n->in[0]), crn_t_data(n->out[0]), false);
}

static crn_status conv_grad(crn_run *r, crn_node *n) {
  conv_geometry g;
  CRN_TRY(conv_geometry_in(r, n, &g));
  const void *dy = crn_grad_out(n, 0);
  if (!dy) return CRN_OK;
  void *d_x = crn_grad_in(r, n, 0), *d_w = crn_grad_in(r, n, 1);
  if (d_x) CRN_TRY(conv_dx(r, &g, n->in[1], dy, d_x));
  if (d_w) CRN_TRY(conv_dw(r, &g, n->in[1], crn_t_data(n->in[0]), dy, d_w));
  return CRN_OK;
}

static const crn_opdef conv_op = {.name = "conv", .infer = conv_infer, .run = conv_run, .grad = conv_grad};

static crn_tensor *call_conv(crn_run *r, const crn_opdef *op, crn_tensor *x, crn_tensor *w, const crn_conv_spec *spec,
                             const int64_t *out_spatial) {
  if (crn_run_failed(r)) return NULL;
  conv_attrs *c = CRN_ARENA_NEW(&r->arena, conv_attrs);
  if (!c) {
    (void)crn_err_memory(r->err);
    return NULL;
  }
  c->spec = *spec;
  for (int i = 0; out_spatial && i < spec->n_spatial && i < 3; i++) c->out_spatial[i] = out_spatial[i];
  crn_attrs a = {.p = c};
  return crn_op_call(r, op, 2, 2, (crn_tensor *[]){x, w}, &a, NULL);
}

crn_tensor *crn_conv(crn_run *r, crn_tensor *x, crn_tensor *w, const crn_conv_spec *spec) {
  return call_conv(r, &conv_op, x, w, spec, NULL);
}

/* ---- transposed convolution: y takes the place of the convolution's output, the result that of its input ----------
 */

static crn_status transposed_geometry(crn_run *r, const crn_node *n, conv_geometry *g) {
  const crn_tensor *y = n->in[0], *w = n->in[1];
  const conv_attrs *c = attrs_of(n);
  int64_t groups = c->spec.groups > 0 ? c->spec.groups : 1;
  CRN_TRY(conv_geometry_of(r, n, y->shape[0], c->out_spatial, w->shape[w->rank - 2] * groups, g));
  char by[120], bw[120];
  bool fits = y->shape[y->rank - 1] == g->O;
  for (int i = 1; i < y->rank - 1; i++) fits &= y->shape[i] == g->out[4 - y->rank + i];
  if (fits) return CRN_OK;
  return crn_op_fail(r, n, "a convolution with filter %s and output sizes from %lld does not give %s",
                     crn_t_describe(w, bw, sizeof bw), (long long)c->out_spatial[0], crn_t_describe(y, by, sizeof by));
}

static crn_status transposed_infer(crn_run *r, crn_node *n) {
  CRN_TRY(check_operands(r, n));
  const conv_attrs *c = attrs_of(n);
  for (int i = 0; i < c->spec.n_spatial; i++)
    if (c->out_spatial[i] < 0)
      return crn_op_fail(r, n, "size %lld of spatial axis %d", (long long)c->out_spatial[i], i);
  conv_geometry g;
  CRN_TRY(transposed_geometry(r, n, &g));
  crn_tensor *y = n->in[0];
  int64_t shape[5] = {g.B};
  for (int i = 1; i < y->rank - 1; i++) shape[i] = c->out_spatial[i - 1];
  shape[y->rank - 1] = g.C;
  return crn_node_output(r, n, 0, y->dtype, y->rank, shape);
}

static crn_status transposed_run(crn_run *r, crn_node *n) {
  conv_geometry g;
  CRN_TRY(transposed_geometry(r, n, &g));
  crn_tensor *x = n->out[0];
  memset(crn_t_data(x), 0, (size_t)crn_t_size(x) * crn_dtype_bytes(x->dtype));
  return conv_dx(r, &g, n->in[1], crn_t_data(n->in[0]), crn_t_data(x));
}

static crn_status transposed_grad(crn_run *r, crn_node *n) {
  conv_geometry g;
  CRN_TRY(transposed_geometry(r, n, &g));
  const void *d_out = crn_grad_out(n, 0);
  if (!d_out) return CRN_OK;
  void *d_y = crn_grad_in(r, n, 0), *d_w = crn_grad_in(r, n, 1);
  if (d_y) CRN_TRY(conv_y(r, &g, n->in[1], d_out, d_y, true));
  if (d_w) CRN_TRY(conv_dw(r, &g, n->in[1], d_out, crn_t_data(n->in[0]), d_w));
  return CRN_OK;
}

static const crn_opdef transposed_op = {
    .name = "conv_transposed", .infer = transposed_infer, .run = transposed_run, .grad = transposed_grad};

crn_tensor *crn_conv_transposed(crn_run *r, crn_tensor *y, crn_tensor *w, const crn_conv_spec *spec,
                                const int64_t *out_spatial) {
  return call_conv(r, &transposed_op, y, w, spec, out_spatial);
}
