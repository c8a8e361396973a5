/* SPDX-License-Identifier: Apache-2.0
 *
 * Dims and lengths of axes that a layer cuts, extends or steps through.
 */
#include "layer/lengths.h"

#include <string.h>
#include <strings.h>

crn_status crn_changed_dim(crn_build *b, const crn_layer *l, const crn_dim *old, int64_t size, const char *slot,
                           const char *op, int64_t p0, int64_t p1, int64_t p2, const crn_dim **out) {
  if (old->size >= 0 && size < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "axis '%s' of size %lld is too short", old->name, (long long)old->size);
  if (size >= 0)
    *out = crn_layer_dim(b, l, slot, old->kind, size);
  else
    *out = crn_dim_derive(crn_build_dims(b), op, old, NULL, p0, p1, p2, old->kind, -1);
  return *out ? CRN_OK : crn_err_memory(crn_build_err(b));
}

crn_status crn_given_dim(crn_build *b, const crn_layer *l, const crn_value *list, int i, const crn_dim *derived,
                         const crn_dim **out) {
  *out = derived;
  const crn_value *v = crn_v_is_seq(list) ? crn_v_at(list, (size_t)i) : i == 0 ? list : NULL;
  if (!derived || !v || v->kind != CRN_V_DIM) return derived ? CRN_OK : crn_err_memory(crn_build_err(b));
  const crn_dim *d = crn_dim_of_value(crn_build_dims(b), v);
  if (!d) return crn_err_memory(crn_build_err(b));
  if (d->size >= 0 && d->size != derived->size)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "dim '%s' has size %lld, the output has %lld", d->name,
                          (long long)d->size, (long long)derived->size);
  if (d->size == derived->size) *out = d;
  return CRN_OK;
}

static const crn_data *lengths_of(crn_exec *x, const crn_data *like, crn_tensor *v) {
  crn_data *c = v ? crn_data_copy(crn_exec_run(x), like) : NULL;
  if (c) c->v = v;
  return c;
}

const crn_data *crn_lengths_affine(crn_exec *x, const crn_data *len, int64_t mul, int64_t add, int64_t div) {
  crn_run *r = crn_exec_run(x);
  if (!len || (mul == 1 && add == 0 && div == 1)) return len;
  crn_tensor *v = len->v;
  if (mul != 1) v = crn_scale(r, v, (double)mul);
  if (add) v = crn_add_scalar(r, v, (double)add);
  if (div != 1) v = crn_binary(r, CRN_B_FLOORDIV, v, crn_t_scalar(r, CRN_I32, (double)div));
  return lengths_of(x, len, crn_binary(r, CRN_B_MAXIMUM, v, crn_t_scalar(r, CRN_I32, 0)));
}

const crn_data *crn_lengths_limit(crn_exec *x, const crn_data *len, int64_t limit) {
  crn_run *r = crn_exec_run(x);
  return len ? lengths_of(x, len, crn_binary(r, CRN_B_MINIMUM, len->v, crn_t_scalar(r, CRN_I32, (double)limit))) : NULL;
}

const crn_data *crn_lengths_sum(crn_exec *x, const crn_data *a, int64_t a_size, const crn_data *b, int64_t b_size) {
  if (!a || !b) return crn_lengths_affine(x, a ? a : b, 1, a ? b_size : a_size, 1);
  crn_run *r = crn_exec_run(x);
  const crn_data *like = a->t.n >= b->t.n ? a : b, *other = like == a ? b : a;
  return lengths_of(x, like, crn_add(r, like->v, crn_data_fit(r, other, &like->t, crn_exec_version(x), false)));
}

crn_status crn_axis_or_step(crn_build *b, const crn_layer *l, const crn_tmpl *t, const crn_value *v, int *axis,
                            bool *step) {
  const char *s = crn_v_cstr(v);
  const crn_dim *loop = crn_layer_in_loop(l) ? crn_loop_dim(l) : NULL;
  *step = false;
  *axis = -1;
  if (crn_layer_in_loop(l) && s && (!strcasecmp(s, "T") || !strcasecmp(s, "time")) && t->time_axis < 0) *step = true;
  if (loop && v && v->kind == CRN_V_DIM) {
    const crn_dim *d = crn_dim_of_value(crn_build_dims(b), v);
    *step = d && crn_dim_same(d, loop) && crn_tmpl_find(t, d) < 0;
  }
  return *step ? CRN_OK : crn_layer_axis(b, l, t, v, "axis", axis);
}
