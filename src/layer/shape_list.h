/* SPDX-License-Identifier: Apache-2.0
 *
 * The option `shape` of layers that make data themselves: sizes and dims.
 */
#ifndef CRN_LAYER_SHAPE_LIST_H
#define CRN_LAYER_SHAPE_LIST_H

#include "layer/layer.h"

/* Dims of the option into t (n, dims): numbers become new dims, the last of them a feature. Roles are set. */
crn_status crn_shape_list(crn_build *b, crn_layer *l, const crn_value *shape, crn_tmpl *t);
/* Sizes of out's axes in this run; lengths of dynamic axes, found on layers that l refers to, into out->len. */
crn_status crn_shape_sizes(crn_exec *x, crn_layer *l, crn_data *out, int64_t size[CRN_MAX_RANK]);
/* Dtype of an option value; None: dflt. */
crn_status crn_option_dtype(crn_build *b, const crn_layer *l, const crn_value *v, crn_dtype dflt, crn_dtype *out);
/* Dtype of a value of a run: float32 stands for the run's real type. */
crn_dtype crn_run_dtype(const crn_run *r, crn_dtype t);
/* A number, or a layer of that name: looked up in refs. */
crn_status crn_number_or_layer(crn_build *b, crn_layer *l, const crn_value *v, const char *option, double *number,
                               crn_layer **layer);

#endif
