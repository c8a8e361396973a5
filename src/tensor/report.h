/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in messages about failures: shape, dtype, and the range of what they hold.
 */
#ifndef CRN_TENSOR_REPORT_H
#define CRN_TENSOR_REPORT_H

#include "base/str.h"
#include "tensor/tensor.h"

typedef struct crn_t_range { /* of the finite values; +inf, -inf, 0, 0 without any */
  double min, max, mean, stddev;
  int64_t n_nan, n_inf;
} crn_t_range;

crn_t_range crn_t_range_of(const crn_tensor *t);
/* "\n  NAME: [2, 3] float32, min …, max …, mean …, stddev …"; of one axis all values; "EMPTY" for size 0. A tensor that
 * isn't there (NULL, no values) or holds text gives its type only. */
void crn_t_report(const char *name, const crn_tensor *t, crn_str *out);
/* "\ninputs of operation NAME:" and a line for each. */
void crn_node_report(const crn_node *n, crn_str *out);

#endif
