/* SPDX-License-Identifier: Apache-2.0
 *
 * Picking along an axis by positions: which axes are shared, the template, the value (pick.h).
 */
#include "layer/pick.h"

#include <string.h>

static int partner(const crn_tmpl *pos, const crn_dim *d, int version, const bool *taken) {
  for (int k = 0; k < pos->n; k++)
    if (!taken[k] && (pos->dims[k] == d || crn_dim_same(pos->dims[k], d))) return k;
  for (int k = 0; k < pos->n; k++)
    if (!taken[k] && crn_dims_match(pos->dims[k], d, version)) return k;
  return -1;
}

void crn_pick_plan(const crn_tmpl *in, const crn_tmpl *pos, int axis, int version, crn_pick *plan) {
  bool taken[CRN_MAX_RANK] = {false};
  memset(plan, 0, sizeof(*plan));
  plan->axis = axis;
  for (int i = 0; i < in->n; i++) {
    if (i == axis) continue;
    const int k = partner(pos, in->dims[i], version, taken);
    if (k >= 0) {
      taken[k] = true;
      plan->common_x[plan->n_common] = i;
      plan->common_p[plan->n_common++] = k;
    } else if (i < axis) {
      plan->before[plan->n_before++] = i;
    } else {
      plan->after[plan->n_after++] = i;
    }
  }
  for (int k = 0; k < pos->n; k++)
    if (!taken[k]) plan->own[plan->n_own++] = k;
}

/* Where axis of the input (or of the position) went. */
static int place_of_input(const crn_pick *p, int axis) {
  for (int i = 0; i < p->n_common; i++)
    if (p->common_x[i] == axis) return i;
  for (int i = 0; i < p->n_before; i++)
    if (p->before[i] == axis) return p->n_common + i;
  for (int i = 0; i < p->n_after; i++)
    if (p->after[i] == axis) return p->n_common + p->n_before + p->n_own + i;
  return -1;
}

static int place_of_position(const crn_pick *p, int axis) {
  for (int i = 0; i < p->n_common; i++)
    if (p->common_p[i] == axis) return i;
  for (int i = 0; i < p->n_own; i++)
    if (p->own[i] == axis) return p->n_common + p->n_before + i;
  return -1;
}

/* A role that the defaults would put elsewhere is stated. */
static void set_roles(const crn_pick *p, const crn_tmpl *in, const crn_tmpl *pos, crn_tmpl *out) {
  int time = in->time_axis >= 0 ? place_of_input(p, in->time_axis) : -1;
  int feature = in->feature_axis >= 0 ? place_of_input(p, in->feature_axis) : -1;
  const bool time_stated = time >= 0 && in->time_explicit, feature_stated = feature >= 0 && in->feature_explicit;
  if (time < 0 && pos->time_axis >= 0) time = place_of_position(p, pos->time_axis);
  if (feature < 0 && pos->feature_axis >= 0 && !pos->sparse) feature = place_of_position(p, pos->feature_axis);
  crn_tmpl_update_roles(out);
  if (time >= 0 && (time_stated || time != out->time_axis)) {
    out->time_axis = time;
    out->time_explicit = true;
  }
  crn_tmpl_update_roles(out);
  if (feature >= 0 && !out->sparse && (feature_stated || feature != out->feature_axis)) {
    out->feature_axis = feature;
    out->feature_explicit = true;
  }
}

crn_status crn_pick_tmpl(const crn_pick *p, const crn_tmpl *in, const crn_tmpl *pos, crn_tmpl *out, crn_err *err) {
  if (p->n_common + p->n_before + p->n_own + p->n_after > CRN_MAX_RANK)
    return crn_fail(err, CRN_E_CONFIG, "the result has more than %d axes", CRN_MAX_RANK);
  *out = *in;
  out->n = 0;
  for (int i = 0; i < p->n_common; i++) {
    const crn_dim *a = in->dims[p->common_x[i]], *b = pos->dims[p->common_p[i]];
    out->dims[out->n++] = a->size == 1 && b->size != 1 ? b : a;
  }
  for (int i = 0; i < p->n_before; i++) out->dims[out->n++] = in->dims[p->before[i]];
  for (int i = 0; i < p->n_own; i++) out->dims[out->n++] = pos->dims[p->own[i]];
  for (int i = 0; i < p->n_after; i++) out->dims[out->n++] = in->dims[p->after[i]];
  out->time_explicit = out->feature_explicit = false;
  out->time_axis = out->feature_axis = -1;
  set_roles(p, in, pos, out);
  return CRN_OK;
}

/* Axes in the order perm, the first n_common of them repeated to sizes. */
static crn_tensor *arrange(crn_run *r, crn_tensor *v, const int *perm, int n_common, const int64_t *sizes) {
  int64_t shape[CRN_MAX_RANK];
  bool same = true, in_order = true;
  for (int i = 0; i < v->rank; i++) in_order &= perm[i] == i;
  if (!in_order) v = crn_transpose(r, v, perm);
  for (int i = 0; v && i < v->rank; i++) {
    shape[i] = i < n_common ? sizes[i] : v->shape[i];
    same &= shape[i] == v->shape[i];
  }
  return v && !same ? crn_broadcast_to(r, v, v->rank, shape) : v;
}

crn_status crn_pick_run(crn_exec *x, const crn_pick *p, const crn_data *in, const crn_data *pos, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  int perm_x[CRN_MAX_RANK], perm_p[CRN_MAX_RANK], perm_y[CRN_MAX_RANK], n = 0, m = 0, y = 0;
  int64_t sizes[CRN_MAX_RANK];
  for (int i = 0; i < p->n_common; i++) {
    const int64_t a = in->v->shape[p->common_x[i]], b = pos->v->shape[p->common_p[i]];
    sizes[i] = a > b ? a : b;
    out->len[y++] = in->len[p->common_x[i]] ? in->len[p->common_x[i]] : pos->len[p->common_p[i]];
    perm_x[n++] = p->common_x[i];
    perm_p[m++] = p->common_p[i];
  }
  for (int i = 0; i < p->n_before; i++) out->len[y++] = in->len[p->before[i]];
  for (int i = 0; i < p->n_own; i++) out->len[y++] = pos->len[perm_p[m++] = p->own[i]];
  for (int i = 0; i < p->n_after; i++) out->len[y++] = in->len[p->after[i]];
  if (p->n_common) perm_x[n++] = p->axis; /* common, picked, before, after */
  for (int i = 0; i < p->n_before; i++) perm_x[n++] = p->before[i];
  if (!p->n_common) perm_x[n++] = p->axis;
  for (int i = 0; i < p->n_after; i++) perm_x[n++] = p->after[i];
  crn_tensor *xv = arrange(r, in->v, perm_x, p->n_common, sizes), *pv = arrange(r, pos->v, perm_p, p->n_common, sizes);
  if (!xv || !pv) return r->err->code;
  if (!p->n_common) {
    out->v = crn_gather(r, xv, pv, p->n_before);
    return out->v ? CRN_OK : r->err->code;
  }
  crn_tensor *v = crn_gather_batched(r, xv, pv, p->n_common); /* common, own, before, after */
  n = 0;
  for (int i = 0; i < p->n_common; i++) perm_y[n++] = i;
  for (int i = 0; i < p->n_before; i++) perm_y[n++] = p->n_common + p->n_own + i;
  for (int i = 0; i < p->n_own; i++) perm_y[n++] = p->n_common + i;
  for (int i = 0; i < p->n_after; i++) perm_y[n++] = p->n_common + p->n_own + p->n_before + i;
  out->v = p->n_before && p->n_own ? crn_transpose(r, v, perm_y) : v;
  return out->v ? CRN_OK : r->err->code;
}
