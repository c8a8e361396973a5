/* SPDX-License-Identifier: Apache-2.0
 *
 * An operation whose gradient comes in as a tensor.
 */
#include "tensor/given_gradient.h"

#include <string.h>

enum { GIVEN_VALUE, GIVEN_WRT, GIVEN_GRAD };

static crn_status given_infer(crn_run *r, crn_node *n) {
  const crn_tensor *v = n->in[GIVEN_VALUE], *w = n->in[GIVEN_WRT], *g = n->in[GIVEN_GRAD];
  char d0[120], d1[120], d2[120];
  bool ok = v->rank == 1 && w->rank >= 1 && w->rank == g->rank && w->shape[0] == v->shape[0] && v->dtype == w->dtype &&
            w->dtype == g->dtype && crn_dtype_is_float(v->dtype);
  for (int i = 0; ok && i < w->rank; i++) ok = w->shape[i] == g->shape[i];
  if (!ok)
    return crn_op_fail(r, n, "value %s, tensor %s and its gradient %s don't belong together",
                       crn_t_describe(v, d0, sizeof d0), crn_t_describe(w, d1, sizeof d1),
                       crn_t_describe(g, d2, sizeof d2));
  return crn_node_output(r, n, 0, v->dtype, v->rank, v->shape);
}

static crn_status given_run(crn_run *r, crn_node *n) {
  (void)r;
  const crn_tensor *v = n->in[GIVEN_VALUE];
  const size_t bytes = (size_t)crn_t_size(v) * crn_dtype_bytes(v->dtype);
  if (bytes) memcpy(crn_t_data(n->out[0]), crn_t_data(v), bytes);
  return CRN_OK;
}

static crn_status given_grad(crn_run *r, crn_node *n) {
  const void *dy = crn_grad_out(n, 0);
  void *to = dy ? crn_grad_in(r, n, GIVEN_WRT) : NULL;
  const crn_tensor *g = n->in[GIVEN_GRAD];
  const int64_t N = g->shape[0], inner = N ? crn_t_size(g) / N : 0;
  const bool unscaled = n->a.i[0] != 0;
  if (!to) return CRN_OK;
  for (int64_t i = 0; i < N; i++)
    for (int64_t k = i * inner; k < (i + 1) * inner; k++) {
      if (g->dtype == CRN_F32)
        ((float *)to)[k] += unscaled ? crn_t_f32(g)[k] : ((const float *)dy)[i] * crn_t_f32(g)[k];
      else
        ((double *)to)[k] += unscaled ? crn_t_f64(g)[k] : ((const double *)dy)[i] * crn_t_f64(g)[k];
    }
  return CRN_OK;
}

static const crn_opdef given_op = {
    .name = "given_gradient", .infer = given_infer, .run = given_run, .grad = given_grad};

crn_tensor *crn_given_gradient(crn_run *r, crn_tensor *value, crn_tensor *wrt, crn_tensor *grad, bool unscaled) {
  return crn_op_call(r, &given_op, 3, 3, (crn_tensor *[]){value, wrt, grad}, &(crn_attrs){.i = {unscaled}}, NULL);
}

static crn_status value_as_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *as = n->in[1];
  char d0[120], d1[120];
  if (x->dtype != as->dtype || crn_t_size(x) != crn_t_size(as))
    return crn_op_fail(r, n, "shapes differ: %s and %s", crn_t_describe(x, d0, sizeof d0),
                       crn_t_describe(as, d1, sizeof d1));
  return crn_node_output(r, n, 0, x->dtype, x->rank, x->shape);
}

static crn_status value_as_run(crn_run *r, crn_node *n) {
  (void)r;
  const size_t bytes = (size_t)crn_t_size(n->in[1]) * crn_dtype_bytes(n->in[1]->dtype);
  if (bytes) memcpy(crn_t_data(n->out[0]), crn_t_data(n->in[1]), bytes);
  return CRN_OK;
}

static crn_status value_as_grad(crn_run *r, crn_node *n) {
  const void *dy = crn_grad_out(n, 0);
  void *to = dy ? crn_grad_in(r, n, 0) : NULL;
  if (!to) return CRN_OK;
  for (int64_t k = 0, size = crn_t_size(n->in[0]); k < size; k++) {
    if (n->in[0]->dtype == CRN_F32)
      ((float *)to)[k] += ((const float *)dy)[k];
    else
      ((double *)to)[k] += ((const double *)dy)[k];
  }
  return CRN_OK;
}

static const crn_opdef value_as_op = {
    .name = "value_as", .infer = value_as_infer, .run = value_as_run, .grad = value_as_grad};

crn_tensor *crn_value_as(crn_run *r, crn_tensor *x, crn_tensor *as) {
  return crn_op_call(r, &value_as_op, 2, 2, (crn_tensor *[]){x, crn_t_stop_gradient(r, as)}, NULL, NULL);
}
