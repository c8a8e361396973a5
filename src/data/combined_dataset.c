/* SPDX-License-Identifier: Apache-2.0
 *
 * CombinedDataset: the union of datasets of different sequences. Their epochs are put one after the other (datasets by
 * name) and this list is ordered jointly. A key that a sequence's dataset doesn't have is empty there.
 */
#include <stdlib.h>
#include <string.h>

#include "data/datasets.h"
#include "data/mt19937.h"

typedef struct combined_part {
  const char *name;
  crn_dataset *ds;
  int64_t sample;           /* sequences per epoch, or -1: all */
  int64_t first;            /* place in the list of all */
  int64_t n, offset, total; /* taken from its epoch of total, starting at offset, with wrap */
} combined_part;

typedef struct combined_dataset {
  crn_dataset base;
  const crn_value *datasets, *data_map, *data_dims, *data_dtypes, *sampling_sizes;
  double gumbel_scale;
  combined_part *parts; /* in ascending order of names */
  size_t n_parts;
  int *keys; /* [part * n_keys + key]: the part's key, -1 = it has none */
  int64_t n_all;
} combined_dataset;

/* ---- opening ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const combined_part *)a)->name, ((const combined_part *)b)->name);
}

static int find_part(const combined_dataset *d, const char *name) {
  for (size_t i = 0; i < d->n_parts; i++)
    if (!strcmp(d->parts[i].name, name)) return (int)i;
  return -1;
}

static crn_status open_parts(combined_dataset *d, crn_err *err) {
  size_t n = crn_v_len(d->datasets);
  d->parts = CRN_ARENA_ARRAY(&d->base.arena, combined_part, n + 1);
  if (!d->parts) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) {
    combined_part *p = &d->parts[i];
    const char *name = crn_v_cstr(d->datasets->u.dict.keys[i]);
    if (!name) return crn_fail(err, CRN_E_CONFIG, "datasets: a name is no string");
    p->name = crn_arena_strdup(&d->base.arena, name);
    if (!p->name) return crn_err_memory(err);
    d->n_parts = i + 1;
    CRN_TRY(crn_dataset_new_part(&d->base, d->datasets->u.dict.vals[i], name, &p->ds, err));
    const crn_value *size = crn_v_is_dict(d->sampling_sizes) ? crn_v_get(d->sampling_sizes, name) : d->sampling_sizes;
    p->sample = -1;
    if (!crn_v_is_none(size) && (!crn_v_to_int(size, &p->sample) || p->sample < 0))
      return crn_fail(err, CRN_E_CONFIG, "option 'sampling_sizes': expected numbers");
  }
  qsort(d->parts, n, sizeof *d->parts, by_name);
  return CRN_OK;
}

static crn_status add_key(combined_dataset *d, const crn_data_key *from, const char *name, crn_err *err) {
  int at = crn_dataset_find_key(&d->base, name);
  if (at >= 0) {
    const crn_data_key *own = &d->base.keys[at];
    if (own->dim == from->dim && own->sparse == from->sparse && own->dtype == from->dtype && own->rank == from->rank)
      return CRN_OK;
    return crn_fail(err, CRN_E_CONFIG, "data_map: '%s' differs between datasets (dim %lld, %lld)", name,
                    (long long)own->dim, (long long)from->dim);
  }
  crn_data_key *k;
  CRN_TRY(crn_dataset_add_key(&d->base, name, &k, err));
  const char *own_name = k->name;
  *k = *from;
  k->name = own_name;
  k->is_target = strcmp(name, "data") != 0;
  return CRN_OK;
}

/* Both halves of a data_map entry (dataset, key) -> name. */
static crn_status map_entry(combined_dataset *d, size_t i, size_t *part, size_t *key, const char **name, crn_err *err) {
  const crn_value *from = d->data_map->u.dict.keys[i];
  const char *part_name = crn_v_cstr(crn_v_at(from, 0)), *key_name = crn_v_cstr(crn_v_at(from, 1));
  *name = crn_v_cstr(d->data_map->u.dict.vals[i]);
  if (crn_v_len(from) != 2 || !part_name || !key_name || !*name)
    return crn_fail(err, CRN_E_CONFIG, "data_map: entry %zu: expected (dataset, key): key", i + 1);
  int p = find_part(d, part_name);
  if (p < 0) return crn_fail(err, CRN_E_CONFIG, "data_map: 'datasets' has no '%s'", part_name);
  int k = crn_dataset_find_key(d->parts[p].ds, key_name);
  if (k < 0) {
    crn_data_key want = {.name = key_name};
    return crn_dataset_check_key(d->parts[p].ds, &want, err); /* words the message */
  }
  *part = (size_t)p;
  *key = (size_t)k;
  return CRN_OK;
}

static crn_status map_keys(combined_dataset *d, crn_err *err) {
  crn_dataset *ds = &d->base;
  size_t part, key;
  const char *name;
  for (size_t i = 0; i < crn_v_len(d->data_map); i++) {
    CRN_TRY(map_entry(d, i, &part, &key, &name, err));
    CRN_TRY(add_key(d, crn_dataset_key(d->parts[part].ds, key), name, err));
  }
  crn_dataset_sort_keys(ds);
  d->keys = CRN_ARENA_ARRAY(&ds->arena, int, d->n_parts * ds->n_keys + 1);
  if (!d->keys) return crn_err_memory(err);
  for (size_t i = 0; i < d->n_parts * ds->n_keys; i++) d->keys[i] = -1;
  for (size_t i = 0; i < crn_v_len(d->data_map); i++) {
    CRN_TRY(map_entry(d, i, &part, &key, &name, err));
    d->keys[part * ds->n_keys + (size_t)crn_dataset_find_key(ds, name)] = (int)key;
  }
  return CRN_OK;
}

static bool own_order(const char *text) { return !strcmp(text, "random_dataset") || !strcmp(text, "interleave"); }

static crn_status check_options(combined_dataset *d, crn_err *err) {
  const char *order = crn_v_cstr(d->base.seq_ordering);
  crn_order o;
  if (!crn_v_is_dict(d->datasets) || !crn_v_is_dict(d->data_map))
    return crn_fail(err, CRN_E_CONFIG, "options 'datasets' and 'data_map' must be dicts");
  if (d->gumbel_scale != 0)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'interleave_gumbel_scale' other than 0");
  if (order && !strcmp(order, "reversed"))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: seq_ordering \"reversed\"");
  if (!crn_v_is_none(d->sampling_sizes) && d->base.partition_epoch > 1)
    return crn_fail(err, CRN_E_CONFIG, "options 'sampling_sizes' and 'partition_epoch' can't be used together");
  return order && !own_order(order) ? crn_order_parse(order, &o, err) : CRN_OK;
}

static crn_status combined_init(crn_dataset *ds, crn_err *err) {
  combined_dataset *d = (combined_dataset *)ds;
  crn_status code = check_options(d, err);
  if (code == CRN_OK) code = open_parts(d, err);
  if (code == CRN_OK) code = map_keys(d, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  return code;
}

static void combined_deinit(crn_dataset *ds) {
  combined_dataset *d = (combined_dataset *)ds;
  for (size_t i = 0; i < d->n_parts; i++) crn_dataset_free(d->parts[i].ds);
}

/* ---- the list of all, and its order ---- */

static crn_status begin_parts(combined_dataset *d, crn_err *err) {
  crn_dataset *ds = &d->base;
  d->n_all = 0;
  for (size_t i = 0; i < d->n_parts; i++) {
    combined_part *p = &d->parts[i];
    CRN_TRY(crn_dataset_begin_epoch(p->ds, ds->epoch, NULL, err));
    p->total = p->n = crn_dataset_num_seqs(p->ds);
    if (p->n < 0 || p->n == INT64_MAX)
      return crn_dataset_fail(ds, err, CRN_E_NOT_IMPLEMENTED, "not implemented: datasets of unknown size");
    p->offset = 0;
    if (p->sample >= 0 && p->total) {
      p->n = p->sample;
      p->offset = (int64_t)((__int128)(ds->epoch - 1) * p->sample % p->total);
    }
    p->first = d->n_all;
    d->n_all += p->n;
  }
  return CRN_OK;
}

static crn_status make_random_dataset(combined_dataset *d, crn_err *err) {
  crn_dataset *ds = &d->base;
  int64_t at = 0, *next = crn_calloc(d->n_parts + 1, sizeof *next);
  crn_mt rng;
  if (!next) return crn_err_memory(err);
  for (size_t p = 0; p < d->n_parts; p++)
    for (int64_t i = 0; i < d->parts[p].n; i++) ds->order[at++] = (int64_t)p;
  crn_mt_seed_python(&rng, crn_dataset_epoch_seed(ds));
  crn_mt_shuffle_python(&rng, ds->order, d->n_all);
  for (int64_t i = 0; i < d->n_all; i++) {
    int64_t p = ds->order[i];
    ds->order[i] = d->parts[p].first + next[p]++;
  }
  crn_free(next);
  return CRN_OK;
}

/* Always the dataset of which the smallest fraction is done. */
static crn_status make_interleave(combined_dataset *d, crn_err *err) {
  crn_dataset *ds = &d->base;
  int64_t *done = crn_calloc(d->n_parts + 1, sizeof *done);
  if (!done) return crn_err_memory(err);
  for (int64_t i = 0; i < d->n_all; i++) {
    size_t best = d->n_parts;
    double least = 2;
    for (size_t p = 0; p < d->n_parts; p++) {
      if (done[p] >= d->parts[p].n) continue;
      double fraction = (double)done[p] / (double)d->parts[p].n;
      if (fraction < least) {
        least = fraction;
        best = p;
      }
    }
    ds->order[i] = d->parts[best].first + done[best]++;
  }
  crn_free(done);
  return CRN_OK;
}

static crn_status combined_order(crn_dataset *ds, const crn_seq_list *list, crn_err *err) {
  combined_dataset *d = (combined_dataset *)ds;
  const char *order = ds->forced_order ? ds->forced_order : crn_v_cstr(ds->seq_ordering);
  if (list) return crn_dataset_fail(ds, err, CRN_E_NOT_IMPLEMENTED, "not implemented: lists of sequences");
  CRN_TRY(begin_parts(d, err));
  if (!order || !own_order(order)) return crn_dataset_common_order(ds, NULL, err);
  crn_free(ds->order);
  ds->n_order = d->n_all;
  ds->order = crn_malloc((size_t)(d->n_all + 1) * sizeof *ds->order);
  if (!ds->order) return crn_err_memory(err);
  CRN_TRY(!strcmp(order, "interleave") ? make_interleave(d, err) : make_random_dataset(d, err));
  return crn_dataset_after_order(ds, err);
}

/* ---- sequences ---- */

/* The part that holds sequence *seq of the list; *seq becomes its place in the part's epoch. */
static size_t part_of(const combined_dataset *d, int64_t *seq) {
  size_t p = d->n_parts - 1;
  while (p > 0 && (*seq < d->parts[p].first || !d->parts[p].n)) p--;
  *seq = (*seq - d->parts[p].first + d->parts[p].offset) % d->parts[p].total;
  return p;
}

static int64_t combined_size(const crn_dataset *ds) { return ((const combined_dataset *)ds)->n_all; }

static crn_status combined_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err) {
  combined_dataset *d = (combined_dataset *)ds;
  size_t p = part_of(d, &seq);
  return crn_dataset_tag(d->parts[p].ds, seq, tag, err);
}

static crn_status combined_order_length(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err) {
  combined_dataset *d = (combined_dataset *)ds;
  crn_dataset *part = d->parts[part_of(d, &seq)].ds;
  if (!part->cls->order_length || part->cls->by_position)
    return crn_dataset_fail(part, err, CRN_E_CONFIG, "this class can't be ordered by length here");
  return part->cls->order_length(part, crn_dataset_corpus_index(part, seq), len, err);
}

static crn_status combined_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err) {
  combined_dataset *d = (combined_dataset *)ds;
  size_t p = part_of(d, &seq);
  int own = d->keys[p * ds->n_keys + key];
  *len = 0;
  return own < 0 ? CRN_OK : crn_dataset_length(d->parts[p].ds, seq, (size_t)own, len, err);
}

static crn_status combined_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                                crn_err *err) {
  combined_dataset *d = (combined_dataset *)ds;
  size_t p = part_of(d, &seq);
  int own = d->keys[p * ds->n_keys + key];
  if (own >= 0) return crn_dataset_read(d->parts[p].ds, seq, (size_t)own, start, end, out, err);
  const crn_data_key *k = &ds->keys[key];
  int64_t shape[CRN_DATA_MAX_RANK];
  memcpy(shape, k->shape, sizeof shape);
  if (k->rank == 0 || shape[0] >= 0)
    return crn_dataset_fail(ds, err, CRN_E_DATA, "key '%s' has no time axis, and '%s' has no such key", k->name,
                            d->parts[p].name);
  shape[0] = 0;
  return crn_array_resize(out, k->dtype, k->rank, shape, err);
}

#define OFF(field) offsetof(combined_dataset, field)
static const crn_data_opt combined_options[] = {
    {"datasets", CRN_DOPT_VALUE, OFF(datasets), NULL, 0, "dict name: dataset"},
    {"data_map", CRN_DOPT_VALUE, OFF(data_map), NULL, 0, "dict (name of a dataset, key there): key"},
    {"data_dims", CRN_DOPT_VALUE, OFF(data_dims), "None", 0, "has no meaning: the datasets tell"},
    {"data_dtypes", CRN_DOPT_VALUE, OFF(data_dtypes), "None", 0, "has no meaning"},
    {"sampling_sizes", CRN_DOPT_VALUE, OFF(sampling_sizes), "None", 0,
     "sequences from each dataset per epoch: a number or a dict name: number"},
    {"interleave_gumbel_scale", CRN_DOPT_FLOAT, OFF(gumbel_scale), "0", 0, "not implemented other than 0"},
    {0}};

const crn_dataset_class crn_combined_dataset = {
    .name = "CombinedDataset",
    .doc = "Unites datasets of different sequences.",
    .opts = combined_options,
    .bytes = sizeof(combined_dataset),
    .init = combined_init,
    .deinit = combined_deinit,
    .corpus_size = combined_size,
    .order_length = combined_order_length,
    .tag = combined_tag,
    .length = combined_length,
    .read = combined_read,
    .make_order = combined_order,
    .no_corpus_index = true,
};
