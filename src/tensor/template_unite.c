/* SPDX-License-Identifier: Apache-2.0
 *
 * Uniting templates and matching their axes (layers-1.md, C3).
 */
#include <string.h>

#include "tensor/template.h"

bool crn_dims_match(const crn_dim *a, const crn_dim *b, int version) {
  if (crn_dim_same(a, b)) return true;
  if (a->kind == CRN_DIM_BATCH || b->kind == CRN_DIM_BATCH) return a->kind == b->kind;
  if (version >= 16 && (!a->is_auto || !b->is_auto)) return false;
  if (version < 11 && ((a->size == 1 && a->is_auto) || (b->size == 1 && b->is_auto))) return true;
  return a->size >= 0 && a->size == b->size;
}

/* How well two dims match: larger is better, 0 = not at all. Identity first, then size; size 1 last. */
static int match_quality(const crn_dim *a, const crn_dim *b, int version) {
  if (a == b) return 4;
  if (crn_dim_same(a, b)) return 3;
  if (!crn_dims_match(a, b, version)) return 0;
  if (a->size == b->size) return 2;
  return 1;
}

/* Give each axis of from an axis of to (or -1), best matches first. skip: axis of from that is left out, or -1. */
static void match_axes(const crn_tmpl *from, const crn_tmpl *to, int version, int skip_from, int skip_to,
                       int map[CRN_MAX_RANK]) {
  bool taken[CRN_MAX_RANK] = {false};
  for (int i = 0; i < from->n; i++) map[i] = -1;
  if (skip_to >= 0) taken[skip_to] = true;
  for (int quality = 4; quality >= 1; quality--)
    for (int i = 0; i < from->n; i++) {
      if (map[i] >= 0 || i == skip_from) continue;
      int best = -1;
      for (int k = 0; k < to->n && best < 0; k++)
        if (!taken[k] && match_quality(from->dims[i], to->dims[k], version) == quality) best = k;
      if (best < 0) continue;
      map[i] = best;
      taken[best] = true;
    }
}

static int place_of_new(const crn_tmpl *t, const crn_dim *d) {
  if (d->kind == CRN_DIM_BATCH) return 0;
  if (d->kind == CRN_DIM_FEATURE && d->size >= 0) return t->feature_axis >= 0 ? t->feature_axis + 1 : t->n;
  int last = -1;
  if (d->size < 0)
    for (int i = 0; i < t->n; i++)
      if (crn_dim_is_dynamic(t->dims[i])) last = i;
  if (last >= 0) return last + 1;
  for (int i = 0; i < t->n; i++)
    if (t->dims[i]->kind != CRN_DIM_BATCH && i != t->feature_axis) last = i;
  if (last >= 0) return last + 1;
  return t->feature_axis >= 0 ? t->feature_axis : t->n;
}

static void shift_maps(int map[][CRN_MAX_RANK], const crn_tmpl *const *ts, int n, int at) {
  for (int i = 0; i < n; i++)
    for (int k = 0; k < ts[i]->n; k++)
      if (map[i][k] >= at) map[i][k]++;
}

crn_status crn_tmpl_unite(const crn_tmpl *const *ts, int n, int version, bool ignore_features, crn_tmpl *out,
                          int map[][CRN_MAX_RANK], bool *all_covered, crn_err *err) {
  int base = 0;
  int local[64][CRN_MAX_RANK];
  if (n > 64) return crn_fail(err, CRN_E_CONFIG, "more than 64 sources");
  for (int i = 1; i < n; i++)
    if (ts[i]->n > ts[base]->n) base = i;
  *out = *ts[base];
  for (int i = 0; i < n; i++)
    for (int k = 0; k < CRN_MAX_RANK; k++) local[i][k] = -1;
  for (int k = 0; k < out->n; k++) local[base][k] = k;
  bool covered = true;
  for (int i = 0; i < n; i++) {
    if (i == base) continue;
    const int f = ignore_features ? ts[i]->feature_axis : -1, fo = ignore_features ? out->feature_axis : -1;
    match_axes(ts[i], out, version, f, fo, local[i]);
    if (f >= 0 && fo >= 0) local[i][f] = fo;
    for (int k = 0; k < ts[i]->n; k++) {
      if (local[i][k] >= 0) { /* a size-1 axis of the base grows to what it met */
        const int o = local[i][k];
        if (out->dims[o]->size == 1 && ts[i]->dims[k]->size != 1 && ts[i]->dims[k]->kind != CRN_DIM_BATCH &&
            !(k == f && ignore_features))
          out->dims[o] = ts[i]->dims[k];
        continue;
      }
      covered = false;
      const int at = place_of_new(out, ts[i]->dims[k]);
      shift_maps(local, ts, n, at);
      CRN_TRY(crn_tmpl_insert(out, at, ts[i]->dims[k], err));
      local[i][k] = at;
    }
  }
  for (int i = 0; i < n; i++) {
    if (ts[i]->beam.choice && !out->beam.choice) out->beam = ts[i]->beam;
    out->unavailable |= ts[i]->unavailable;
  }
  crn_tmpl_update_roles(out);
  if (map)
    for (int i = 0; i < n; i++) memcpy(map[i], local[i], sizeof(local[i]));
  if (all_covered) *all_covered = covered;
  return CRN_OK;
}

crn_status crn_tmpl_match(const crn_tmpl *from, const crn_tmpl *to, int version, int map[CRN_MAX_RANK], crn_err *err) {
  int forward[CRN_MAX_RANK];
  match_axes(from, to, version, -1, -1, forward);
  for (int k = 0; k < to->n; k++) map[k] = -1;
  for (int i = 0; i < from->n; i++) {
    if (forward[i] >= 0) {
      map[forward[i]] = i;
      continue;
    }
    crn_str a = {0}, b = {0};
    crn_tmpl_describe(from, &a);
    crn_tmpl_describe(to, &b);
    crn_status st = crn_fail(err, CRN_E_CONFIG, "axis %d of %s has no partner in %s", i, crn_str_get(&a), crn_str_get(&b));
    crn_str_free(&a);
    crn_str_free(&b);
    return st;
  }
  return CRN_OK;
}
