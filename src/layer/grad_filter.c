/* SPDX-License-Identifier: Apache-2.0
 *
 * grad_filter: one bad frame removes its sequence's gradient.
 */
#include "layer/grad_filter.h"

#include <string.h>

#include "tensor/axis.h"

static crn_status filter_infer(crn_run *r, crn_node *n) { /* i[0] batch axis, f[0] threshold */
  return crn_node_output(r, n, 0, n->in[0]->dtype, n->in[0]->rank, n->in[0]->shape);
}

static crn_status filter_run(crn_run *r, crn_node *n) {
  const size_t bytes = (size_t)crn_t_size(n->in[0]) * crn_dtype_bytes(n->in[0]->dtype);
  (void)r;
  if (bytes) memcpy(crn_t_data(n->out[0]), crn_t_data(n->in[0]), bytes);
  return CRN_OK;
}

static double grad_at(const void *g, crn_dtype t, int64_t i) {
  return t == CRN_F64 ? ((const double *)g)[i] : (double)((const float *)g)[i];
}

/* Whether all squares of sequence b's gradient are below the threshold; nan is not. */
static bool passes(const void *dy, crn_dtype t, const crn_around *s, int64_t b, double threshold) {
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = (o * s->n + b) * s->inner; i < (o * s->n + b + 1) * s->inner; i++) {
      const double g = grad_at(dy, t, i);
      if (!(g * g < threshold)) return false;
    }
  return true;
}

static crn_status filter_grad(crn_run *r, crn_node *n) {
  const crn_dtype t = n->in[0]->dtype;
  const void *dy = crn_grad_out(n, 0);
  void *dx = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return CRN_OK;
  crn_around s = {1, 1, crn_t_size(n->in[0])};
  if (n->a.i[0] >= 0) s = crn_around_of(n->in[0], (int)n->a.i[0]);
  for (int64_t b = 0; b < s.n; b++) {
    if (!passes(dy, t, &s, b, n->a.f[0])) continue;
    for (int64_t o = 0; o < s.outer; o++)
      for (int64_t i = (o * s.n + b) * s.inner; i < (o * s.n + b + 1) * s.inner; i++) {
        if (t == CRN_F64)
          ((double *)dx)[i] += ((const double *)dy)[i];
        else
          ((float *)dx)[i] += ((const float *)dy)[i];
      }
  }
  return CRN_OK;
}

static const crn_opdef filter_op = {
    .name = "grad_filter", .infer = filter_infer, .run = filter_run, .grad = filter_grad};

crn_tensor *crn_grad_filter(crn_run *r, crn_tensor *x, int batch_axis, double threshold) {
  return crn_op_call(r, &filter_op, 1, 1, &x, &(crn_attrs){.i = {batch_axis}, .f = {threshold}}, NULL);
}
