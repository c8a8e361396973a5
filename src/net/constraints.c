/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers add to the objective besides losses (losses.md, constraints): L2 over their parameters, spatial_smoothing
 * and darc1 over their outputs.
 */
#include <math.h>

#include "net/build.h"
#include "net/exec.h"

/* ---- construction ---- */

/* Width of the image that n features are seen as: the largest divisor of n not above its root. */
static int64_t image_width(int64_t n) {
  int64_t w = (int64_t)sqrt((double)n);
  while (w > 1 && n % w) w--;
  return w;
}

crn_status crn_constraints_check(crn_build *b, crn_layer *l) {
  const crn_layer_common *c = &l->common;
  if (c->spatial_smoothing == 0 && c->darc1 == 0) return CRN_OK;
  const char *option = c->spatial_smoothing != 0 ? "spatial_smoothing" : "darc1";
  if (l->body->loop)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: option '%s' inside of a loop", option);
  if (l->out.sparse || l->out.feature_axis < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s' needs an output with a feature axis", option);
  if (c->spatial_smoothing == 0) return CRN_OK;
  const int64_t n = crn_tmpl_dim(&l->out);
  if (l->out.time_axis < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'spatial_smoothing' needs an output with a time axis");
  if (n < 9 || image_width(n) < 3)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'spatial_smoothing': %lld features can't be seen as an image of at least 3 x 3",
                          (long long)n);
  return CRN_OK;
}

/* ---- constraints on outputs ---- */

/* Sum of x and its neighbours before and after it along an axis, in a circle. */
static crn_tensor *circular_sum(crn_run *r, crn_tensor *x, int axis) {
  if (!x) return NULL;
  const int64_t n = x->shape[axis];
  crn_tensor *before[2] = {crn_slice(r, x, axis, n - 1, 1, 1), crn_slice(r, x, axis, 0, n - 1, 1)};
  crn_tensor *after[2] = {crn_slice(r, x, axis, 1, n - 1, 1), crn_slice(r, x, axis, 0, 1, 1)};
  return crn_add(r, x, crn_add(r, crn_concat(r, 2, before, axis), crn_concat(r, 2, after, axis)));
}

/* Energy of the high-pass filtered features (centre 1, the eight around it -1/8). */
static crn_tensor *smoothing_energy(crn_run *r, crn_tensor *y) {
  const int64_t n = y->shape[y->rank - 1], w = image_width(n);
  const int64_t shape[3] = {n ? crn_t_size(y) / n : 0, n / w, w};
  crn_tensor *image = crn_t_reshape(r, y, 3, shape);
  crn_tensor *nine = circular_sum(r, circular_sum(r, image, 1), 2);
  crn_tensor *high = crn_sub(r, crn_scale(r, image, 9.0 / 8.0), crn_scale(r, nine, 1.0 / 8.0));
  return crn_reduce_all(r, CRN_R_SUM, crn_unary(r, CRN_U_SQUARE, high));
}

/* Largest sum of absolute values of a feature. */
static crn_tensor *largest_feature_sum(crn_run *r, crn_tensor *z) {
  crn_tensor *a = crn_unary(r, CRN_U_ABS, z);
  if (a && a->rank > 1) a = crn_reduce(r, CRN_R_SUM, a, (1u << (a->rank - 1)) - 1u, false);
  return crn_reduce_all(r, CRN_R_MAX, a);
}

crn_status crn_exec_layer_constraints(crn_exec *x, crn_layer *l) {
  const crn_layer_common *c = &l->common;
  crn_run *r = &x->run;
  if ((c->spatial_smoothing == 0 && c->darc1 == 0) || !l->scope->eval) return CRN_OK;
  const crn_data *d = crn_data_feature_last(r, crn_exec_slot(x, l)->out);
  crn_tensor *mask = d ? crn_data_mask_all(r, d) : NULL, *sum = NULL;
  if (!d || crn_run_failed(r)) return r->err->code;
  if (c->spatial_smoothing != 0) {
    crn_tensor *y = mask ? crn_mask_fill(r, d->v, mask, 0.0) : d->v;
    sum = y ? crn_scale(r, smoothing_energy(r, y), c->spatial_smoothing) : NULL;
  }
  if (c->darc1 != 0) {
    crn_tensor *z = d->pre ? d->pre : d->v;
    if (mask) z = crn_mask_fill(r, z, mask, 0.0);
    crn_tensor *s = crn_scale(r, largest_feature_sum(r, z), c->darc1);
    sum = sum ? crn_add(r, sum, s) : s;
  }
  if (sum && x->layer_constraints) sum = crn_add(r, x->layer_constraints, sum);
  if (!sum) return r->err->code;
  crn_t_hold(sum);
  x->layer_constraints = sum;
  return CRN_OK;
}

/* ---- objective ---- */

static crn_tensor *plus(crn_run *r, crn_tensor *a, crn_tensor *b) { return a ? crn_add(r, a, b) : b; }

/* Parameters of layers with L2, each once for the layer that made it. */
static crn_tensor *l2(crn_exec *x) {
  crn_run *r = &x->run;
  crn_tensor *total = NULL;
  for (int i = 0; i < x->net->n_params; i++) {
    crn_param *p = x->net->params[i];
    if (p->L2 == 0 || !crn_dtype_is_float(p->dtype)) continue;
    crn_tensor *w = crn_t_over(r, &p->st, p->dtype, p->spec.rank, p->spec.shape, r->recording && x->net->trainable[i]);
    total = plus(r, total, crn_scale(r, crn_reduce_all(r, CRN_R_SUM, crn_unary(r, CRN_U_SQUARE, w)), p->L2));
  }
  return total;
}

crn_status crn_exec_add_constraints(crn_exec *x, crn_tensor **total) {
  crn_run *r = &x->run;
  const crn_value *decoupled = crn_v_get(x->net->config, "decouple_constraints");
  crn_tensor *sum = x->layer_constraints;
  crn_tensor *weights = crn_v_truth(decoupled) ? NULL : l2(x);
  if (crn_run_failed(r)) return r->err->code;
  if (weights) sum = plus(r, sum, weights);
  if (!sum) return crn_run_failed(r) ? r->err->code : CRN_OK;
  x->constraints = crn_t_get(sum, 0);
  *total = plus(r, *total, sum);
  return *total ? CRN_OK : r->err->code;
}
