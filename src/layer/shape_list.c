/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes given as lists of sizes and dims, for layers that make data themselves.
 */
#include "layer/shape_list.h"

#include <string.h>

crn_status crn_shape_list(crn_build *b, crn_layer *l, const crn_value *shape, crn_tmpl *t) {
  crn_dims *dims = crn_build_dims(b);
  const size_t n = crn_v_len(shape);
  t->n = 0;
  if (crn_v_is_none(shape)) return CRN_OK;
  if (!crn_v_is_seq(shape))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'shape': expected a list of sizes or dims, got %s",
                          crn_v_kind_name(shape));
  if (n > CRN_MAX_RANK) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'shape': more than %d axes", CRN_MAX_RANK);
  for (size_t i = 0; i < n; i++) {
    const crn_value *v = crn_v_at(shape, i);
    const crn_dim *d;
    int64_t size;
    if (v->kind == CRN_V_DIM)
      d = crn_dim_of_value(dims, v);
    else {
      if (!crn_v_to_int(v, &size) || size < 0)
        return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'shape': expected sizes or dims");
      const char *slot = crn_arena_printf(crn_build_arena(b), "static:%d", (int)i);
      const bool feature = i + 1 == n && !t->sparse;
      d = slot ? crn_layer_dim(b, l, slot, feature ? CRN_DIM_FEATURE : CRN_DIM_SPATIAL, size) : NULL;
    }
    if (!d) return crn_err_memory(crn_build_err(b));
    t->dims[t->n++] = d;
  }
  crn_tmpl_update_roles(t);
  return CRN_OK;
}

crn_status crn_shape_sizes(crn_exec *x, crn_layer *l, crn_data *out, int64_t size[CRN_MAX_RANK]) {
  for (int i = 0; i < out->t.n; i++) {
    const crn_dim *d = out->t.dims[i];
    size[i] = d->kind == CRN_DIM_BATCH ? crn_batch_size(x, l) : d->size;
    if (size[i] >= 0) continue;
    if (!crn_dim_in_run(x, l, d, &size[i], &out->len[i]))
      return crn_exec_fail(x, l, "the size of dim '%s' is not known here; name a layer that has it in 'shape_deps'",
                           d->name);
  }
  return CRN_OK;
}

crn_status crn_option_dtype(crn_build *b, const crn_layer *l, const crn_value *v, crn_dtype dflt, crn_dtype *out) {
  *out = dflt;
  if (crn_v_is_none(v) || (crn_v_is_str(v) && crn_dtype_from_name(crn_v_cstr(v), out))) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dtype': unknown type '%s'",
                        crn_v_is_str(v) ? crn_v_cstr(v) : crn_v_kind_name(v));
}

crn_dtype crn_run_dtype(const crn_run *r, crn_dtype t) { return t == CRN_F32 ? r->real : t; }

crn_status crn_number_or_layer(crn_build *b, crn_layer *l, const crn_value *v, const char *option, double *number,
                               crn_layer **layer) {
  *layer = NULL;
  if (crn_v_is_none(v) || crn_v_to_float(v, number)) return CRN_OK;
  if (crn_v_is_str(v)) return crn_layer_ref(b, l, crn_v_cstr(v), CRN_EDGE_DATA, option, layer);
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected a number or a layer, got %s", option,
                        crn_v_kind_name(v));
}
