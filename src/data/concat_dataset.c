/* SPDX-License-Identifier: Apache-2.0
 *
 * ConcatDataset: datasets one after the other, each in its own order.
 */
#include <string.h>

#include "data/datasets.h"

typedef struct concat_dataset {
  crn_dataset base;
  const crn_value *datasets;
  crn_dataset **parts;
  size_t n_parts;
  int64_t *begin; /* first position of each part in the epoch, and the end */
} concat_dataset;

static crn_status same_keys(const crn_dataset *a, const crn_dataset *b, crn_err *err) {
  for (size_t i = 0; i < a->n_keys; i++) {
    crn_data_key want = a->keys[i];
    if (!want.length_only) CRN_TRY(crn_dataset_check_key(b, &want, err));
  }
  return CRN_OK;
}

static crn_status open_all(concat_dataset *d, crn_err *err) {
  crn_dataset *ds = &d->base;
  size_t n = crn_v_is_seq(d->datasets) ? crn_v_len(d->datasets) : 0;
  const char *order = crn_v_cstr(ds->seq_ordering);
  if (!n) return crn_fail(err, CRN_E_CONFIG, "option 'datasets': expected a list of datasets");
  if (ds->seq_ordering && (!order || strcmp(order, "default") != 0))
    return crn_fail(err, CRN_E_CONFIG, "only the order \"default\" is possible; give each dataset its own");
  if (ds->partition_epoch > 1 || ds->repeat_epoch > 1 || ds->seq_list_filter_file || ds->unique_seq_tags)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED,
                    "not implemented: parts, repetition or filters of the whole; give them to its datasets");
  d->parts = CRN_ARENA_ARRAY(&ds->arena, crn_dataset *, n);
  d->begin = CRN_ARENA_ARRAY(&ds->arena, int64_t, n + 1);
  if (ds->arena.failed) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) {
    CRN_TRY(crn_dataset_new_part(ds, crn_v_at(d->datasets, i), "part", &d->parts[i], err));
    d->n_parts++;
    if (i) CRN_TRY(same_keys(d->parts[0], d->parts[i], err));
  }
  for (size_t i = 0; i < d->parts[0]->n_keys; i++) {
    crn_data_key *k;
    CRN_TRY(crn_dataset_add_key(ds, d->parts[0]->keys[i].name, &k, err));
    *k = d->parts[0]->keys[i];
  }
  return CRN_OK;
}

static crn_status concat_init(crn_dataset *ds, crn_err *err) {
  crn_status code = open_all((concat_dataset *)ds, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  return code;
}

static void concat_deinit(crn_dataset *ds) {
  concat_dataset *d = (concat_dataset *)ds;
  for (size_t i = 0; i < d->n_parts; i++) crn_dataset_free(d->parts[i]);
}

/* Sequences are found by their place in the epoch only. */
static int64_t concat_size(const crn_dataset *ds) {
  (void)ds;
  return -1;
}

static crn_status concat_order(crn_dataset *ds, const crn_seq_list *list, crn_err *err) {
  concat_dataset *d = (concat_dataset *)ds;
  if (list) return crn_dataset_fail(ds, err, CRN_E_NOT_IMPLEMENTED, "not implemented: lists of sequences");
  for (size_t i = 0; i < d->n_parts; i++) {
    CRN_TRY(crn_dataset_begin_epoch(d->parts[i], ds->epoch, NULL, err));
    int64_t n = crn_dataset_num_seqs(d->parts[i]);
    if (n < 0 || n == INT64_MAX)
      return crn_dataset_fail(ds, err, CRN_E_NOT_IMPLEMENTED, "not implemented: datasets of unknown size");
    d->begin[i + 1] = d->begin[i] + n;
  }
  ds->n_order = d->begin[d->n_parts];
  return CRN_OK;
}

static crn_dataset *part_of(const concat_dataset *d, int64_t *i) {
  size_t p = 0;
  while (*i >= d->begin[p + 1]) p++;
  *i -= d->begin[p];
  return d->parts[p];
}

static crn_status concat_tag(crn_dataset *ds, int64_t i, const char **tag, crn_err *err) {
  crn_dataset *part = part_of((concat_dataset *)ds, &i);
  return crn_dataset_tag(part, i, tag, err);
}

/* Keys of a later part may be in another order. */
static size_t key_of(const crn_dataset *ds, const crn_dataset *part, size_t key) {
  int at = crn_dataset_find_key(part, ds->keys[key].name);
  return at < 0 ? key : (size_t)at;
}

static crn_status concat_length(crn_dataset *ds, int64_t i, size_t key, int64_t *len, crn_err *err) {
  crn_dataset *part = part_of((concat_dataset *)ds, &i);
  return crn_dataset_length(part, i, key_of(ds, part, key), len, err);
}

static crn_status concat_read(crn_dataset *ds, int64_t i, size_t key, int64_t start, int64_t end, crn_array *out,
                              crn_err *err) {
  crn_dataset *part = part_of((concat_dataset *)ds, &i);
  return crn_dataset_read(part, i, key_of(ds, part, key), start, end, out, err);
}

static const crn_data_opt concat_options[] = {
    {"datasets", CRN_DOPT_VALUE, offsetof(concat_dataset, datasets), NULL, 0, "list of datasets"}, {0}};

const crn_dataset_class crn_concat_dataset = {
    .name = "ConcatDataset",
    .doc = "Puts datasets one after the other.",
    .opts = concat_options,
    .bytes = sizeof(concat_dataset),
    .init = concat_init,
    .deinit = concat_deinit,
    .corpus_size = concat_size,
    .tag = concat_tag,
    .length = concat_length,
    .read = concat_read,
    .make_order = concat_order,
    .no_corpus_index = true,
};
