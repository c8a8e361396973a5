/* SPDX-License-Identifier: Apache-2.0
 *
 * Templates: axes and their roles (layers-1.md, C2 "Roles").
 */
#include "tensor/template.h"

#include <string.h>

crn_tmpl crn_tmpl_scalar(crn_dtype dtype) {
  return (crn_tmpl){.dtype = dtype, .time_axis = -1, .feature_axis = -1};
}

int crn_tmpl_batch_axis(const crn_tmpl *t) {
  for (int i = 0; i < t->n; i++)
    if (t->dims[i]->kind == CRN_DIM_BATCH) return i;
  return -1;
}

int64_t crn_tmpl_dim(const crn_tmpl *t) {
  if (t->sparse) return t->sparse_dim ? t->sparse_dim->size : -1;
  return t->feature_axis >= 0 ? t->dims[t->feature_axis]->size : -1;
}

const crn_dim *crn_tmpl_feature(const crn_tmpl *t) { return t->feature_axis >= 0 ? t->dims[t->feature_axis] : NULL; }
const crn_dim *crn_tmpl_time(const crn_tmpl *t) { return t->time_axis >= 0 ? t->dims[t->time_axis] : NULL; }

int crn_tmpl_find(const crn_tmpl *t, const crn_dim *d) {
  for (int i = 0; i < t->n; i++)
    if (t->dims[i] == d) return i;
  for (int i = 0; i < t->n; i++)
    if (crn_dim_same(t->dims[i], d)) return i;
  return -1;
}

int crn_tmpl_n_dynamic(const crn_tmpl *t) {
  int n = 0;
  for (int i = 0; i < t->n; i++) n += crn_dim_is_dynamic(t->dims[i]);
  return n;
}

static int default_time_axis(const crn_tmpl *t) {
  const int batch = crn_tmpl_batch_axis(t);
  if (batch < 0) return -1;
  for (int i = 0; i < t->n; i++)
    if (crn_dim_is_dynamic(t->dims[i])) return i;
  return -1;
}

static int default_feature_axis(const crn_tmpl *t) {
  if (t->sparse) return -1;
  for (int i = t->n; i-- > 0;)
    if (t->dims[i]->kind != CRN_DIM_BATCH && i != t->time_axis && t->dims[i]->size >= 0) return i;
  for (int i = t->n; i-- > 0;)
    if (t->dims[i]->kind != CRN_DIM_BATCH && i != t->time_axis) return i;
  return -1;
}

void crn_tmpl_update_roles(crn_tmpl *t) {
  if (!t->time_explicit) t->time_axis = default_time_axis(t);
  if (!t->feature_explicit) t->feature_axis = default_feature_axis(t);
}

crn_status crn_tmpl_insert(crn_tmpl *t, int at, const crn_dim *d, crn_err *err) {
  if (t->n >= CRN_MAX_RANK) return crn_fail(err, CRN_E_CONFIG, "more than %d axes", CRN_MAX_RANK);
  for (int i = t->n; i > at; i--) t->dims[i] = t->dims[i - 1];
  t->dims[at] = d;
  t->n++;
  if (t->time_axis >= at) t->time_axis++;
  if (t->feature_axis >= at) t->feature_axis++;
  crn_tmpl_update_roles(t);
  return CRN_OK;
}

void crn_tmpl_remove(crn_tmpl *t, int axis) {
  for (int i = axis; i + 1 < t->n; i++) t->dims[i] = t->dims[i + 1];
  t->n--;
  if (t->time_axis == axis) {
    t->time_explicit = false;
    t->time_axis = -1;
  } else if (t->time_axis > axis) {
    t->time_axis--;
  }
  if (t->feature_axis == axis) {
    t->feature_explicit = false;
    t->feature_axis = -1;
  } else if (t->feature_axis > axis) {
    t->feature_axis--;
  }
  crn_tmpl_update_roles(t);
}

void crn_tmpl_permute(crn_tmpl *t, const int *perm) {
  crn_tmpl old = *t;
  for (int i = 0; i < t->n; i++) {
    t->dims[i] = old.dims[perm[i]];
    if (old.time_axis == perm[i]) t->time_axis = i;
    if (old.feature_axis == perm[i]) t->feature_axis = i;
  }
  crn_tmpl_update_roles(t);
}

static void to_front(crn_tmpl *t, int axis, int *perm) {
  int local[CRN_MAX_RANK];
  int *p = perm ? perm : local;
  int k = 0;
  if (axis >= 0) p[k++] = axis;
  for (int i = 0; i < t->n; i++)
    if (i != axis) p[k++] = i;
  /* roles stay with their axes whether explicit or not */
  const bool time_explicit = t->time_explicit, feature_explicit = t->feature_explicit;
  t->time_explicit = t->feature_explicit = true;
  crn_tmpl_permute(t, p);
  t->time_explicit = time_explicit;
  t->feature_explicit = feature_explicit;
}

void crn_tmpl_to_batch_major(crn_tmpl *t, int *perm) { to_front(t, crn_tmpl_batch_axis(t), perm); }
void crn_tmpl_to_time_major(crn_tmpl *t, int *perm) { to_front(t, t->time_axis, perm); }

bool crn_tmpl_same_axes(const crn_tmpl *a, const crn_tmpl *b) {
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++)
    if (!crn_dim_same(a->dims[i], b->dims[i]) &&
        !(a->dims[i]->size >= 0 && a->dims[i]->size == b->dims[i]->size))
      return false;
  return true;
}

void crn_tmpl_describe(const crn_tmpl *t, crn_str *s) {
  char buf[32];
  crn_str_addc(s, '[');
  for (int i = 0; i < t->n; i++) {
    if (i) crn_str_add(s, ", ");
    crn_str_add(s, crn_dim_letters(t->dims[i], buf));
    if (crn_dim_is_dynamic(t->dims[i])) crn_str_addf(s, "('%s')", t->dims[i]->name);
  }
  crn_str_addf(s, "] %s", crn_dtype_name(t->dtype));
  if (t->sparse) crn_str_addf(s, " sparse, dim %lld", (long long)crn_tmpl_dim(t));
  if (t->beam.choice) crn_str_addf(s, ", beam %lld", (long long)t->beam.size);
}
