/* SPDX-License-Identifier: Apache-2.0
 *
 * What the datasets with generated sequences share (see generated.h).
 */
#include "data/generated.h"

#include <math.h>
#include <string.h>

crn_status crn_generated_init(crn_generated *g, crn_status (*make)(crn_generated *, int64_t, crn_mt *, crn_err *),
                              crn_err *err) {
  const crn_value *v = g->num_seqs_option;
  double f;
  g->make = make;
  g->present_seq = -1;
  g->num_seqs = INT64_MAX;
  if (crn_v_is_none(v) || (v->kind == CRN_V_FLOAT && crn_v_to_float(v, &f) && isinf(f) && f > 0)) return CRN_OK;
  if (crn_v_to_int(v, &g->num_seqs) && g->num_seqs >= 0) return CRN_OK;
  return crn_dataset_fail(&g->base, err, CRN_E_CONFIG, "option 'num_seqs': expected an integer >= 0");
}

crn_status crn_generated_key(crn_generated *g, const char *name, int64_t dim, bool sparse, crn_ntype dtype,
                             crn_err *err) {
  crn_data_key *k;
  CRN_TRY(crn_dataset_add_key(&g->base, name, &k, err));
  k->dim = dim;
  k->sparse = sparse;
  k->dtype = dtype;
  k->rank = k->ndim = sparse ? 1 : 2;
  k->shape[0] = -1;
  k->shape[1] = dim;
  k->is_target = strcmp(name, "data") != 0;
  return CRN_OK;
}

crn_status crn_generated_letters(crn_generated *g, size_t key, const char *letters, crn_err *err) {
  crn_arena *a = &g->base.arena;
  size_t n = strlen(letters);
  const char **labels = CRN_ARENA_ARRAY(a, const char *, n);
  for (size_t i = 0; labels && i < n; i++) labels[i] = crn_arena_strndup(a, letters + i, 1);
  if (a->failed) return crn_err_memory(err);
  g->base.keys[key].labels = labels;
  g->base.keys[key].n_labels = n;
  return CRN_OK;
}

crn_status crn_generated_set(crn_generated *g, size_t key, const int64_t *labels, int64_t n, crn_err *err) {
  const crn_data_key *k = &g->base.keys[key];
  crn_array *out = &g->present[key];
  int64_t shape[2] = {n, k->dim};
  CRN_TRY(crn_array_resize(out, k->dtype, k->rank, shape, err));
  if (k->sparse) {
    crn_ntype_convert(CRN_NT_I64, labels, k->dtype, out->data, (size_t)n);
    return CRN_OK;
  }
  memset(out->data, 0, (size_t)out->n * sizeof(float));
  for (int64_t t = 0; t < n; t++) ((float *)out->data)[t * k->dim + labels[t]] = 1.0f;
  return CRN_OK;
}

static crn_status make_seq(crn_generated *g, int64_t seq, crn_err *err) {
  if (g->present_seq == seq) return CRN_OK;
  uint32_t seed[2] = {crn_dataset_epoch_seed(&g->base), (uint32_t)seq};
  crn_mt rng;
  crn_mt_seed_array(&rng, seed, 2);
  g->present_seq = -1;
  CRN_TRY(g->make(g, seq, &rng, err));
  g->present_seq = seq;
  return CRN_OK;
}

void crn_generated_deinit(crn_dataset *ds) {
  crn_generated *g = (crn_generated *)ds;
  for (size_t i = 0; i < 2; i++) crn_array_free(&g->present[i]);
}

int64_t crn_generated_size(const crn_dataset *ds) { return ((const crn_generated *)ds)->num_seqs; }

crn_status crn_generated_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err) {
  return crn_dataset_number_tag(ds, "seq-", seq, tag, err);
}

crn_status crn_generated_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err) {
  crn_generated *g = (crn_generated *)ds;
  CRN_TRY(make_seq(g, seq, err));
  *len = g->present[key].shape[0];
  return CRN_OK;
}

crn_status crn_generated_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                              crn_err *err) {
  crn_generated *g = (crn_generated *)ds;
  CRN_TRY(make_seq(g, seq, err));
  const crn_array *a = &g->present[key];
  int64_t shape[2] = {end - start, a->rank > 1 ? a->shape[1] : 1};
  CRN_TRY(crn_array_resize(out, a->dtype, a->rank, shape, err));
  size_t bytes = (size_t)shape[1] * crn_ntype_bytes(a->dtype);
  if (out->n) memcpy(out->data, (const char *)a->data + (size_t)start * bytes, (size_t)(end - start) * bytes);
  return CRN_OK;
}

crn_status crn_generated_on_epoch(crn_dataset *ds, crn_err *err) {
  (void)err;
  ((crn_generated *)ds)->present_seq = -1;
  return CRN_OK;
}
