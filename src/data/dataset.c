/* SPDX-License-Identifier: Apache-2.0
 *
 * What all datasets share: arrays, keys, and the calls of dataset.h that go to the class (see dataset_class.h).
 * Making them from options is in dataset_new.c, the order of an epoch in dataset_epoch.c.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset_class.h"

/* ---- arrays ---- */

crn_status crn_array_resize(crn_array *a, crn_ntype dtype, int rank, const int64_t *shape, crn_err *err) {
  int64_t n = 1, bytes;
  for (int i = 0; i < rank; i++)
    if (shape[i] < 0 || __builtin_mul_overflow(n, shape[i], &n))
      return crn_fail(err, CRN_E_DATA, "impossible size of an array");
  if (__builtin_mul_overflow(n, (int64_t)crn_ntype_bytes(dtype), &bytes))
    return crn_fail(err, CRN_E_DATA, "impossible size of an array");
  if ((size_t)bytes > a->cap_bytes || !a->data) {
    void *data = crn_realloc(a->data, (size_t)bytes);
    if (!data) return crn_err_memory(err);
    a->data = data;
    a->cap_bytes = (size_t)bytes;
  }
  a->dtype = dtype;
  a->rank = rank;
  a->n = n;
  for (int i = 0; i < rank; i++) a->shape[i] = shape[i];
  return CRN_OK;
}

void crn_array_free(crn_array *a) {
  crn_free(a->data);
  *a = (crn_array){0};
}

/* ---- help for classes ---- */

crn_status crn_dataset_fail(const crn_dataset *ds, crn_err *err, crn_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  bool first = err && err->code == CRN_OK;
  crn_failv(err, code, fmt, ap);
  va_end(ap);
  if (first) crn_err_where(err, "dataset '%s' (%s)", ds->name ? ds->name : "?", ds->cls->name);
  return code;
}

crn_status crn_dataset_add_key(crn_dataset *ds, const char *name, crn_data_key **key, crn_err *err) {
  if (ds->n_keys == ds->cap_keys) {
    size_t cap = ds->cap_keys ? 2 * ds->cap_keys : 4;
    crn_data_key *grown = CRN_ARENA_ARRAY(&ds->arena, crn_data_key, cap);
    if (!grown) return crn_err_memory(err);
    if (ds->n_keys) memcpy(grown, ds->keys, ds->n_keys * sizeof *grown);
    ds->keys = grown;
    ds->cap_keys = cap;
  }
  const char *copy = crn_arena_strdup(&ds->arena, name);
  if (!copy) return crn_err_memory(err);
  *key = &ds->keys[ds->n_keys++];
  **key = (crn_data_key){.name = copy, .dim = -1, .ndim = 1, .rank = 1, .shape = {-1}};
  return CRN_OK;
}

static int data_then_name(const void *a, const void *b) {
  const crn_data_key *x = a, *y = b;
  bool dx = !strcmp(x->name, "data"), dy = !strcmp(y->name, "data");
  return dx != dy ? (dx ? -1 : 1) : strcmp(x->name, y->name);
}

void crn_dataset_sort_keys(crn_dataset *ds) {
  if (ds->n_keys > 1) qsort(ds->keys, ds->n_keys, sizeof *ds->keys, data_then_name);
}

const char *crn_dataset_path(crn_dataset *ds, const char *file) {
  if (file[0] == '/' || !ds->env.base_dir || access(file, F_OK) == 0) return crn_arena_strdup(&ds->arena, file);
  const char *there = crn_arena_printf(&ds->arena, "%s/%s", ds->env.base_dir, file);
  if (there && access(there, F_OK) != 0) return crn_arena_strdup(&ds->arena, file);
  return there;
}

crn_status crn_dataset_number_tag(crn_dataset *ds, const char *prefix, int64_t seq, const char **tag, crn_err *err) {
  crn_str_clear(&ds->tag_text);
  crn_str_addf(&ds->tag_text, "%s%lld", prefix, (long long)seq);
  *tag = crn_str_get(&ds->tag_text);
  return crn_str_ok(&ds->tag_text) ? CRN_OK : crn_err_memory(err);
}

/* ---- what it holds ---- */

const char *crn_dataset_name(const crn_dataset *ds) { return ds->name; }
const char *crn_dataset_class_name(const crn_dataset *ds) { return ds->cls->name; }
size_t crn_dataset_num_keys(const crn_dataset *ds) { return ds->n_keys; }
const crn_data_key *crn_dataset_key(const crn_dataset *ds, size_t k) { return k < ds->n_keys ? &ds->keys[k] : NULL; }
const crn_data_env *crn_dataset_env(const crn_dataset *ds) { return &ds->env; }
int64_t crn_dataset_corpus_size(const crn_dataset *ds) { return ds->cls->corpus_size(ds); }
bool crn_dataset_has_corpus_index(const crn_dataset *ds) { return !ds->cls->no_corpus_index; }
bool crn_dataset_has_lengths(const crn_dataset *ds) { return ds->cls->order_length || ds->seq_order_seq_lens_file; }

int crn_dataset_find_key(const crn_dataset *ds, const char *name) {
  for (size_t i = 0; i < ds->n_keys; i++)
    if (!strcmp(ds->keys[i].name, name)) return (int)i;
  return -1;
}

int64_t crn_dataset_estimated_num_seqs(const crn_dataset *ds) {
  if (ds->estimated_num_seqs != CRN_DATA_NONE) return ds->estimated_num_seqs;
  return ds->n_order;
}

crn_chunk_options crn_dataset_chunk_options(const crn_dataset *ds) {
  return (crn_chunk_options){.chunking = ds->chunking,
                             .min_chunk_size = ds->min_chunk_size,
                             .context_window = ds->context_window,
                             .chunking_variance = ds->chunking_variance};
}

/* "[time, 9]" of what is behind the batch axis. */
static void describe_shape(crn_str *s, const crn_data_key *k) {
  crn_str_addc(s, '[');
  for (int i = 0; i < k->rank; i++) {
    if (k->shape[i] < 0)
      crn_str_addf(s, "%s%s", i ? ", " : "", i ? "?" : "time");
    else
      crn_str_addf(s, "%s%lld", i ? ", " : "", (long long)k->shape[i]);
  }
  crn_str_addc(s, ']');
}

static bool same_feature_shape(const crn_data_key *a, const crn_data_key *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->shape[i] >= 0 && b->shape[i] >= 0 && a->shape[i] != b->shape[i]) return false;
  return true;
}

static crn_status unknown_key(const crn_dataset *ds, const char *name, crn_err *err) {
  crn_str all = {0};
  for (size_t i = 0; i < ds->n_keys; i++)
    crn_str_addf(&all, "%s%s%s", i ? ", " : "", ds->keys[i].name, ds->keys[i].length_only ? " (lengths only)" : "");
  crn_dataset_fail(ds, err, CRN_E_CONFIG, "it has no data key '%s'; it has %s", name, crn_str_get(&all));
  crn_str_free(&all);
  return CRN_E_CONFIG;
}

crn_status crn_dataset_check_key(const crn_dataset *ds, const crn_data_key *want, crn_err *err) {
  int at = crn_dataset_find_key(ds, want->name);
  if (at < 0 || ds->keys[at].length_only) return unknown_key(ds, want->name, err);
  const crn_data_key *have = &ds->keys[at];
  if (have->sparse != want->sparse)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "key '%s': the dataset's data are %s, extern_data says %s",
                            want->name, have->sparse ? "sparse (labels)" : "dense",
                            want->sparse ? "sparse (labels)" : "dense");
  if (have->dtype != want->dtype && want->dtype != CRN_NT_NONE)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "key '%s': the dataset's dtype is %s, extern_data says %s",
                            want->name, crn_ntype_name(have->dtype), crn_ntype_name(want->dtype));
  if (want->dim >= 0 && have->dim < 0)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG,
                            "key '%s': the dataset's data have no known dim, extern_data says %lld", want->name,
                            (long long)want->dim);
  if (want->dim >= 0 && have->dim != want->dim)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "key '%s': the dataset's dim is %lld, extern_data says %lld",
                            want->name, (long long)have->dim, (long long)want->dim);
  if (!same_feature_shape(have, want)) {
    crn_str a = {0}, b = {0};
    describe_shape(&a, have);
    describe_shape(&b, want);
    crn_dataset_fail(ds, err, CRN_E_CONFIG, "key '%s': the dataset's shape is %s, extern_data says %s", want->name,
                     crn_str_get(&a), crn_str_get(&b));
    crn_str_free(&a);
    crn_str_free(&b);
    return CRN_E_CONFIG;
  }
  return CRN_OK;
}

/* ---- reading ---- */

int64_t crn_dataset_num_seqs(const crn_dataset *ds) { return ds->n_order; }

int64_t crn_dataset_corpus_index(const crn_dataset *ds, int64_t i) { return ds->order ? ds->order[i] : i; }

crn_status crn_dataset_has_seq(crn_dataset *ds, int64_t i, bool *yes, crn_err *err) {
  *yes = false;
  if (ds->cls->has_seq) return ds->cls->has_seq(ds, i, yes, err);
  *yes = i >= 0 && i < ds->n_order;
  return CRN_OK;
}

/* What a class's length and read are given. */
static int64_t index_for_class(const crn_dataset *ds, int64_t i) {
  return ds->cls->by_position ? i : crn_dataset_corpus_index(ds, i);
}

static crn_status check_index(crn_dataset *ds, int64_t i, crn_err *err) {
  bool yes;
  CRN_TRY(crn_dataset_has_seq(ds, i, &yes, err));
  if (yes) return CRN_OK;
  return crn_dataset_fail(ds, err, CRN_E_STATE, "sequence %lld of %lld was asked for", (long long)i,
                          (long long)ds->n_order);
}

crn_status crn_dataset_tag(crn_dataset *ds, int64_t i, const char **tag, crn_err *err) {
  CRN_TRY(check_index(ds, i, err));
  return ds->cls->tag(ds, crn_dataset_corpus_index(ds, i), tag, err);
}

crn_status crn_dataset_length(crn_dataset *ds, int64_t i, size_t key, int64_t *length, crn_err *err) {
  CRN_TRY(check_index(ds, i, err));
  if (ds->keys[key].rank == 0 || ds->keys[key].shape[0] >= 0) {
    *length = 1;
    return CRN_OK;
  }
  return ds->cls->length(ds, index_for_class(ds, i), key, length, err);
}

crn_status crn_dataset_read(crn_dataset *ds, int64_t i, size_t key, int64_t start, int64_t end, crn_array *out,
                            crn_err *err) {
  int64_t len;
  CRN_TRY(crn_dataset_length(ds, i, key, &len, err));
  const crn_data_key *k = &ds->keys[key];
  if (k->length_only) return crn_dataset_fail(ds, err, CRN_E_DATA, "key '%s' has lengths but no data", k->name);
  bool has_time = k->rank > 0 && k->shape[0] < 0;
  if (has_time && (start < 0 || start > end || end > len))
    return crn_dataset_fail(ds, err, CRN_E_STATE, "key '%s': frames %lld to %lld of %lld were asked for", k->name,
                            (long long)start, (long long)end, (long long)len);
  return ds->cls->read(ds, index_for_class(ds, i), key, has_time ? start : 0, has_time ? end : 1, out, err);
}

crn_status crn_dataset_total_frames(crn_dataset *ds, size_t key, int64_t *frames, crn_err *err) {
  *frames = 0;
  if (ds->n_order == INT64_MAX) return crn_dataset_fail(ds, err, CRN_E_DATA, "the number of sequences has no end");
  for (int64_t i = 0;; i++) {
    bool more;
    int64_t len;
    CRN_TRY(crn_dataset_has_seq(ds, i, &more, err));
    if (!more) return CRN_OK;
    CRN_TRY(crn_dataset_length(ds, i, key, &len, err));
    *frames += len;
  }
}
