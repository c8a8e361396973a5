/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity with another gradient: scaled, shifted and clipped on its way back (scaled_grad).
 */
#include <math.h>
#include <string.h>

#include "tensor/axis.h"
#include "tensor/ops.h"

enum { SUM_AXIS, CLIP_AXIS }; /* attributes; -1 = none */

static crn_status scaled_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  if (!crn_dtype_is_float(x->dtype)) return crn_op_fail(r, n, "%s has no gradient", crn_dtype_name(x->dtype));
  for (int i = 1; i < n->n_in; i++) {
    const crn_tensor *t = n->in[i];
    bool fits = !t || t->rank == 0 || t->rank == x->rank;
    for (int k = 0; t && t->rank && fits && k < x->rank; k++) fits = t->shape[k] == 1 || t->shape[k] == x->shape[k];
    if (!fits || (t && t->dtype != x->dtype))
      return crn_op_fail(r, n, "%s does not have the axes or the type of the values", i == 1 ? "scale" : "shift");
  }
  return crn_node_output(r, n, 0, x->dtype, x->rank, x->shape);
}

static crn_status scaled_run(crn_run *r, crn_node *n) {
  (void)r;
  memcpy(crn_t_data(n->out[0]), crn_t_data(n->in[0]), (size_t)crn_t_size(n->in[0]) * crn_dtype_bytes(n->in[0]->dtype));
  return CRN_OK;
}

static double real_at(const void *p, crn_dtype t, int64_t i) {
  return t == CRN_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

/* Steps of t for each axis of x: 0 where it is broadcast. */
static void steps_of(const crn_tensor *x, const crn_tensor *t, int64_t step[CRN_MAX_RANK]) {
  int64_t all = 1;
  for (int k = x->rank; k-- > 0;) {
    step[k] = t && t->rank && t->shape[k] != 1 ? all : 0;
    if (t && t->rank) all *= t->shape[k];
  }
}

/* sum or maximum of |values| over an axis, for each of the other positions [outer, inner]. */
static crn_status over_axis(crn_run *r, const crn_tensor *x, const double *v, int axis, bool max, double **out) {
  int64_t outer = 1, inner = 1;
  for (int k = 0; k < axis; k++) outer *= x->shape[k];
  for (int k = axis + 1; k < x->rank; k++) inner *= x->shape[k];
  *out = crn_scratch(r, (size_t)(outer * inner + 1) * sizeof(double));
  if (!*out) return r->err->code;
  memset(*out, 0, (size_t)(outer * inner) * sizeof(double));
  for (int64_t o = 0; o < outer; o++)
    for (int64_t t = 0; t < x->shape[axis]; t++)
      for (int64_t i = 0; i < inner; i++) {
        const double a = fabs(v[(o * x->shape[axis] + t) * inner + i]);
        double *at = &(*out)[o * inner + i];
        *at = max ? (a > *at ? a : *at) : *at + a;
      }
  return CRN_OK;
}

static int64_t other_position(const crn_tensor *x, int axis, int64_t i) {
  int64_t inner = 1;
  for (int k = axis + 1; k < x->rank; k++) inner *= x->shape[k];
  return i / (inner * x->shape[axis]) * inner + i % inner;
}

static crn_status scaled_grad(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *scale = n->in[1], *shift = n->in[2];
  const void *given = crn_grad_out(n, 0);
  void *dx = given ? crn_grad_in(r, n, 0) : NULL;
  const int64_t size = crn_t_size(x);
  const int sum_axis = (int)n->a.i[SUM_AXIS], clip_axis = (int)n->a.i[CLIP_AXIS];
  int64_t scale_step[CRN_MAX_RANK], shift_step[CRN_MAX_RANK], at[CRN_MAX_RANK] = {0}, ks = 0, kh = 0;
  double *sum = NULL, *most = NULL;
  if (!dx) return CRN_OK;
  double *g = crn_scratch(r, (size_t)(size + 1) * sizeof(double));
  if (!g) return r->err->code;
  for (int64_t i = 0; i < size; i++) g[i] = real_at(given, x->dtype, i);
  if (sum_axis >= 0) CRN_TRY(over_axis(r, x, g, sum_axis, false, &sum));
  if (clip_axis >= 0) CRN_TRY(over_axis(r, x, g, clip_axis, true, &most));
  steps_of(x, scale, scale_step);
  steps_of(x, shift, shift_step);
  for (int64_t i = 0; i < size; i++) {
    double v = g[i] * real_at(crn_t_data(scale), x->dtype, ks);
    if (shift) v += real_at(crn_t_data(shift), x->dtype, kh) * (sum ? sum[other_position(x, sum_axis, i)] : 1);
    if (most) {
      const double m = most[other_position(x, clip_axis, i)];
      v = v > m ? m : v < -m ? -m : v;
    }
    if (x->dtype == CRN_F32)
      ((float *)dx)[i] += (float)v;
    else
      ((double *)dx)[i] += v;
    for (int k = x->rank; k-- > 0;) { /* next position */
      ks += scale_step[k];
      kh += shift_step[k];
      if (++at[k] < x->shape[k]) break;
      ks -= scale_step[k] * x->shape[k];
      kh -= shift_step[k] * x->shape[k];
      at[k] = 0;
    }
  }
  return CRN_OK;
}

static const crn_opdef scaled_op = {
    .name = "scaled_grad", .infer = scaled_infer, .run = scaled_run, .grad = scaled_grad};

crn_tensor *crn_scaled_grad(crn_run *r, crn_tensor *x, crn_tensor *scale, crn_tensor *shift, int sum_axis,
                            int clip_axis) {
  if (!x || !scale || crn_run_failed(r)) return NULL;
  crn_tensor *in[3] = {x, crn_t_stop_gradient(r, scale), crn_t_stop_gradient(r, shift)};
  return crn_op_call(r, &scaled_op, 3, 2, in, &(crn_attrs){.i = {sum_axis, clip_axis}}, NULL);
}
