/* SPDX-License-Identifier: Apache-2.0
 *
 * Axes whose size a layer changes: their new dims and lengths.
 */
#ifndef CRN_LAYER_LENGTHS_H
#define CRN_LAYER_LENGTHS_H

#include "layer/layer.h"

/* The dim that `old` becomes: fixed ones get a dim of the layer of that size (name: slot), dynamic ones a dim derived
 * by op and p0..p2. The kind stays. */
crn_status crn_changed_dim(crn_build *b, const crn_layer *l, const crn_dim *old, int64_t size, const char *slot,
                           const char *op, int64_t p0, int64_t p1, int64_t p2, const crn_dim **out);
/* The i-th dim object of a list option (or the option itself) in place of the derived dim, if there is one. */
crn_status crn_given_dim(crn_build *b, const crn_layer *l, const crn_value *list, int i, const crn_dim *derived,
                         const crn_dim **out);

/* max(0, floor((len * mul + add) / div)); len NULL: NULL. */
const crn_data *crn_lengths_affine(crn_exec *x, const crn_data *len, int64_t mul, int64_t add, int64_t div);
/* min(len, limit) */
const crn_data *crn_lengths_limit(crn_exec *x, const crn_data *len, int64_t limit);
/* a + b (either may be NULL: the fixed size a_size, b_size) */
const crn_data *crn_lengths_sum(crn_exec *x, const crn_data *a, int64_t a_size, const crn_data *b, int64_t b_size);

/* Axis option of a layer that may run once per step of a loop over that axis: *axis -1, *step true when the input lacks
 * it because the loop is over it. */
crn_status crn_axis_or_step(crn_build *b, const crn_layer *l, const crn_tmpl *t, const crn_value *v, int *axis,
                            bool *step);

#endif
