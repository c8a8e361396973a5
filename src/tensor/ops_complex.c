/* SPDX-License-Identifier: Apache-2.0
 *
 * Complex numbers as pairs of real ones and back, with gradients: so what is computed on complex values in between can
 * be composed of real operations. The gradient of a complex value is a pair too: with respect to both of its parts.
 */
#include "tensor/bcast.h"
#include "tensor/ops.h"

typedef struct copy_job {
  const void *from;
  void *to;
  crn_dtype from_type, to_type;
  bool add;
} copy_job;

static void copy_range(void *arg, int64_t begin, int64_t end) {
  const copy_job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const double v = j->from_type == CRN_F64 ? ((const double *)j->from)[i] : (double)((const float *)j->from)[i];
    if (j->to_type == CRN_F64)
      ((double *)j->to)[i] = j->add ? ((double *)j->to)[i] + v : v;
    else
      ((float *)j->to)[i] = (float)(j->add ? (double)((float *)j->to)[i] + v : v);
  }
}

static crn_dtype part_type(const crn_tensor *t) { return t->dtype == CRN_C64 ? CRN_F32 : t->dtype; }

static crn_status copy_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *y = n->out[0];
  const int64_t size = crn_t_size(x) * (x->dtype == CRN_C64 ? 2 : 1);
  copy_job j = {crn_t_data(x), crn_t_data(y), part_type(x), part_type(y), false};
  crn_for_ranges(r, size, size, copy_range, &j);
  return CRN_OK;
}

static crn_status copy_grad(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0], *y = n->out[0];
  const void *g = crn_grad_out(n, 0);
  void *dx = g ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return CRN_OK;
  const int64_t size = crn_t_size(x) * (x->dtype == CRN_C64 ? 2 : 1);
  copy_job j = {g, dx, part_type(y), part_type(x), true};
  crn_for_ranges(r, size, size, copy_range, &j);
  return CRN_OK;
}

static crn_status parts_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  if (x->dtype != CRN_C64 || x->rank >= CRN_MAX_RANK) return crn_op_fail(r, n, "complex numbers are needed");
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < x->rank; i++) shape[i] = x->shape[i];
  shape[x->rank] = 2;
  return crn_node_output(r, n, 0, r->real, x->rank + 1, shape);
}

static crn_status complex_infer(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  n->complex_grad = true;
  if (!crn_dtype_is_float(x->dtype) || x->rank < 1 || x->shape[x->rank - 1] != 2)
    return crn_op_fail(r, n, "pairs of real numbers are needed");
  return crn_node_output(r, n, 0, CRN_C64, x->rank - 1, x->shape);
}

static const crn_opdef parts_op = {.name = "complex_parts", .infer = parts_infer, .run = copy_run, .grad = copy_grad};
static const crn_opdef complex_op = {.name = "complex", .infer = complex_infer, .run = copy_run, .grad = copy_grad};

crn_tensor *crn_complex_parts(crn_run *r, crn_tensor *x) {
  return x && !crn_run_failed(r) ? crn_op_call(r, &parts_op, 1, 1, &x, NULL, NULL) : NULL;
}

crn_tensor *crn_complex_of(crn_run *r, crn_tensor *x) {
  return x && !crn_run_failed(r) ? crn_op_call(r, &complex_op, 1, 1, &x, NULL, NULL) : NULL;
}
