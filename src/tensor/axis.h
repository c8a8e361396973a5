/* SPDX-License-Identifier: Apache-2.0
 *
 * Axis arguments of operations, and tensors seen as [outer, n, inner] around an axis.
 */
#ifndef CRN_TENSOR_AXIS_H
#define CRN_TENSOR_AXIS_H

#include "tensor/tensor.h"

/* Bring *axis into [0, rank); false and a recorded failure naming the operation if it is outside of [-rank, rank). */
static inline bool crn_axis_of(crn_run *r, const char *op, const crn_tensor *x, int rank, int *axis) {
  if (*axis >= -rank && *axis < rank) {
    if (*axis < 0) *axis += rank;
    return true;
  }
  char buf[128];
  (void)crn_fail(r->err, CRN_E_RUNTIME, "operation %s: axis %d is outside of [%d, %d) for %s", op, *axis, -rank, rank,
                 crn_t_describe(x, buf, sizeof buf));
  return false;
}

typedef struct crn_around { /* of an axis: sizes before it, of it, after it */
  int64_t outer, n, inner;
} crn_around;

static inline crn_around crn_around_of(const crn_tensor *x, int axis) {
  return (crn_around){crn_t_count(axis, x->shape), x->shape[axis],
                      crn_t_count(x->rank - axis - 1, x->shape + axis + 1)};
}

#endif
