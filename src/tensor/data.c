/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: moving axes together with their lengths, masks from lengths, frames without padding.
 */
#include "tensor/data.h"

#include <string.h>

static crn_data *fail_data(crn_run *r) {
  if (!crn_run_failed(r)) (void)crn_err_memory(r->err);
  return NULL;
}

crn_data *crn_data_new(crn_run *r, const crn_tmpl *t, crn_tensor *v) {
  crn_data *d = CRN_ARENA_NEW(&r->arena, crn_data);
  if (!d) return fail_data(r);
  d->t = *t;
  d->v = v;
  return d;
}

crn_data *crn_data_copy(crn_run *r, const crn_data *d) {
  if (!d) return NULL;
  crn_data *c = CRN_ARENA_NEW(&r->arena, crn_data);
  if (!c) return fail_data(r);
  *c = *d;
  return c;
}

static bool is_identity(const int *perm, int n) {
  for (int i = 0; i < n; i++)
    if (perm[i] != i) return false;
  return true;
}

static crn_data *permuted(crn_run *r, const crn_data *d, const crn_tmpl *t, const int *perm) {
  crn_data *c = crn_data_copy(r, d);
  if (!c || is_identity(perm, d->t.n)) return c;
  c->t = *t;
  c->v = crn_transpose(r, d->v, perm);
  c->pre = d->pre && d->pre->rank == d->t.n ? crn_transpose(r, d->pre, perm) : NULL;
  if (!c->pre) c->pre_act = NULL;
  for (int i = 0; i < d->t.n; i++) c->len[i] = d->len[perm[i]];
  return c->v || !d->v ? c : NULL;
}

crn_data *crn_data_permute(crn_run *r, const crn_data *d, const int *perm) {
  if (!d) return NULL;
  crn_tmpl t = d->t;
  crn_tmpl_permute(&t, perm);
  return permuted(r, d, &t, perm);
}

crn_data *crn_data_batch_major(crn_run *r, const crn_data *d) {
  if (!d) return NULL;
  int perm[CRN_MAX_RANK];
  crn_tmpl t = d->t;
  crn_tmpl_to_batch_major(&t, perm);
  return permuted(r, d, &t, perm);
}

crn_data *crn_data_time_major(crn_run *r, const crn_data *d) {
  if (!d) return NULL;
  int perm[CRN_MAX_RANK];
  crn_tmpl t = d->t;
  crn_tmpl_to_time_major(&t, perm);
  return permuted(r, d, &t, perm);
}

crn_data *crn_data_feature_last(crn_run *r, const crn_data *d) {
  if (!d) return NULL;
  int perm[CRN_MAX_RANK], k = 0;
  for (int i = 0; i < d->t.n; i++)
    if (i != d->t.feature_axis) perm[k++] = i;
  if (d->t.feature_axis >= 0) perm[k++] = d->t.feature_axis;
  crn_tmpl t = d->t;
  const bool te = t.time_explicit, fe = t.feature_explicit;
  t.time_explicit = t.feature_explicit = true;
  crn_tmpl_permute(&t, perm);
  t.time_explicit = te;
  t.feature_explicit = fe;
  return permuted(r, d, &t, perm);
}

crn_tensor *crn_data_fit(crn_run *r, const crn_data *d, const crn_tmpl *to, int version, bool broadcast) {
  if (!d || crn_run_failed(r)) return NULL;
  int map[CRN_MAX_RANK], perm[CRN_MAX_RANK], n = 0;
  if (crn_tmpl_match(&d->t, to, version, map, r->err) != CRN_OK) return NULL;
  int64_t shape[CRN_MAX_RANK];
  for (int k = 0; k < to->n; k++) {
    shape[k] = map[k] >= 0 ? d->v->shape[map[k]] : 1;
    if (map[k] >= 0) perm[n++] = map[k];
  }
  crn_tensor *v = is_identity(perm, n) ? d->v : crn_transpose(r, d->v, perm);
  v = crn_t_reshape(r, v, to->n, shape);
  (void)broadcast;
  return v;
}

/* ---- lengths and masks ---------------------------------------------------------------------------------------------- */

int64_t crn_data_n_seqs(const crn_data *d) {
  const int b = crn_tmpl_batch_axis(&d->t);
  return b < 0 ? 1 : d->v->shape[b];
}

crn_tensor *crn_data_lens(crn_run *r, const crn_data *d, int axis) {
  if (!d || crn_run_failed(r)) return NULL;
  const int64_t B = crn_data_n_seqs(d);
  const crn_data *len = d->len[axis];
  if (!len) return crn_t_full(r, CRN_I32, 1, &B, (double)d->v->shape[axis]);
  if (len->v->rank == 0) return crn_broadcast_to(r, len->v, 1, &B);
  if (len->v->rank == 1 && len->t.dims[0]->kind == CRN_DIM_BATCH) return len->v;
  crn_str s = {0};
  crn_tmpl_describe(&d->t, &s);
  (void)crn_fail(r->err, CRN_E_RUNTIME, "lengths of axis %d of %s are not per sequence", axis, crn_str_get(&s));
  crn_str_free(&s);
  return NULL;
}

crn_tensor *crn_data_mask(crn_run *r, const crn_data *d, int axis) {
  if (!d || crn_run_failed(r) || !d->len[axis]) return NULL;
  const crn_data *len = d->len[axis];
  int64_t len_shape[CRN_MAX_RANK], pos_shape[CRN_MAX_RANK];
  int perm[CRN_MAX_RANK], n = 0;
  for (int k = 0; k < d->t.n; k++) {
    len_shape[k] = pos_shape[k] = 1;
    if (k == axis) {
      pos_shape[k] = d->v->shape[k];
      continue;
    }
    for (int i = 0; i < len->t.n; i++)
      if (crn_dim_same(len->t.dims[i], d->t.dims[k]) && len->v->shape[i] == d->v->shape[k]) {
        bool used = false;
        for (int u = 0; u < n; u++) used |= perm[u] == i;
        if (used) continue;
        perm[n++] = i;
        len_shape[k] = len->v->shape[i];
        break;
      }
  }
  if (n != len->t.n) {
    crn_str s = {0}, l = {0};
    crn_tmpl_describe(&d->t, &s);
    crn_tmpl_describe(&len->t, &l);
    (void)crn_fail(r->err, CRN_E_RUNTIME, "lengths %s of axis %d don't fit %s", crn_str_get(&l), axis, crn_str_get(&s));
    crn_str_free(&s);
    crn_str_free(&l);
    return NULL;
  }
  crn_tensor *lv = is_identity(perm, n) ? len->v : crn_transpose(r, len->v, perm);
  lv = crn_t_reshape(r, lv, d->t.n, len_shape);
  crn_tensor *pos = crn_t_reshape(r, crn_range(r, CRN_I32, 0, d->v->shape[axis]), d->t.n, pos_shape);
  return crn_binary(r, CRN_B_LESS, pos, lv);
}

bool crn_data_can_mask(const crn_data *d, int axis) {
  const crn_data *len = d->len[axis];
  for (int i = 0; len && i < len->t.n; i++) {
    bool found = false;
    for (int k = 0; k < d->t.n && !found; k++)
      found = k != axis && crn_dim_same(len->t.dims[i], d->t.dims[k]) && len->v->shape[i] == d->v->shape[k];
    if (!found) return false;
  }
  return len != NULL;
}

crn_tensor *crn_data_mask_all(crn_run *r, const crn_data *d) {
  crn_tensor *all = NULL;
  for (int i = 0; d && i < d->t.n; i++) {
    crn_tensor *m = crn_data_mask(r, d, i);
    if (m) all = all ? crn_binary(r, CRN_B_LOGICAL_AND, all, m) : m;
  }
  return all;
}

crn_tensor *crn_data_flat_frames(crn_run *r, const crn_data *d) {
  if (!d || crn_run_failed(r)) return NULL;
  crn_data *bm = crn_data_batch_major(r, d);
  if (!bm) return NULL;
  if (bm->t.time_axis < 0 || bm->t.time_axis == 0) return bm->v;
  if (bm->t.time_axis != 1) { /* batch, time, rest */
    int perm[CRN_MAX_RANK], k = 2;
    perm[0] = 0;
    perm[1] = bm->t.time_axis;
    for (int i = 1; i < bm->t.n; i++)
      if (i != bm->t.time_axis) perm[k++] = i;
    bm = crn_data_permute(r, bm, perm);
    if (!bm) return NULL;
  }
  crn_tensor *lens = crn_data_lens(r, bm, 1);
  return crn_pack_frames(r, bm->v, lens);
}
