/* SPDX-License-Identifier: Apache-2.0
 *
 * MetaDataset: several datasets that describe the same sequences, joined by tag. One of them may control the order and
 * the subset of every epoch; else the list of tags is ordered by the dataset's own options.
 */
#include <string.h>

#include "data/datasets.h"
#include "data/pickle.h"
#include "data/textfile.h"

typedef struct meta_part {
  const char *name;
  crn_dataset *ds;
  char **tags; /* its tag of each sequence of the list; may be shared with other parts */
} meta_part;

typedef struct meta_source { /* of one key */
  size_t part, key;
} meta_source;

typedef struct meta_dataset {
  crn_dataset base;
  const crn_value *datasets, *data_map, *seq_list_option, *data_dims, *data_dtypes, *lens_option;
  const char *control_name;
  meta_part *parts;
  size_t n_parts;
  meta_source *sources; /* per key of this dataset */
  int control;          /* part, -1: none */
  size_t main;          /* the part whose tags count: the control dataset, or that of "data" */
  char **list;          /* tags of all sequences; NULL: as the main part has them */
  int64_t n_list;
  crn_value *lens; /* tag -> key -> length, or NULL */
} meta_dataset;

/* ---- making the parts ---- */

static int find_part(const meta_dataset *d, const char *name) {
  for (size_t i = 0; i < d->n_parts; i++)
    if (!strcmp(d->parts[i].name, name)) return (int)i;
  return -1;
}

static crn_status need_part(meta_dataset *d, const char *name, const char *why, size_t *part, crn_err *err) {
  int at = find_part(d, name);
  if (at >= 0) {
    *part = (size_t)at;
    return CRN_OK;
  }
  const crn_value *spec = crn_v_get(d->datasets, name);
  if (!spec) return crn_fail(err, CRN_E_CONFIG, "%s names the dataset '%s', which 'datasets' doesn't have", why, name);
  meta_part *p = &d->parts[d->n_parts];
  p->name = crn_arena_strdup(&d->base.arena, name);
  if (!p->name) return crn_err_memory(err);
  CRN_TRY(crn_dataset_new_part(&d->base, spec, name, &p->ds, err));
  *part = d->n_parts++;
  return CRN_OK;
}

static crn_status add_key(meta_dataset *d, const char *name, const crn_value *source, crn_err *err) {
  const char *part_name = crn_v_cstr(crn_v_at(source, 0)), *key_name = crn_v_cstr(crn_v_at(source, 1));
  if (crn_v_len(source) != 2 || !part_name || !key_name)
    return crn_fail(err, CRN_E_CONFIG, "data_map: '%s': expected (dataset, key)", name);
  size_t part;
  CRN_TRY(need_part(d, part_name, "data_map", &part, err));
  crn_dataset *ds = d->parts[part].ds;
  int at = crn_dataset_find_key(ds, key_name);
  if (at < 0) {
    crn_data_key want = {.name = key_name};
    return crn_dataset_check_key(ds, &want, err); /* words the message */
  }
  crn_data_key *k;
  CRN_TRY(crn_dataset_add_key(&d->base, name, &k, err));
  const char *own_name = k->name;
  *k = *crn_dataset_key(ds, (size_t)at);
  k->name = own_name;
  k->is_target = strcmp(name, "data") != 0;
  return CRN_OK;
}

/* data_dims: key -> (dim, ndim) must agree with the dataset, if given. */
static crn_status check_dims(meta_dataset *d, crn_err *err) {
  for (size_t i = 0; i < d->base.n_keys && !crn_v_is_none(d->data_dims); i++) {
    const crn_data_key *k = &d->base.keys[i];
    const crn_value *v = crn_v_get(d->data_dims, k->name);
    int64_t dim, ndim;
    if (crn_v_is_none(v)) continue;
    if (!crn_v_to_int(crn_v_is_seq(v) ? crn_v_at(v, 0) : v, &dim))
      return crn_fail(err, CRN_E_CONFIG, "data_dims: '%s': expected (dim, ndim)", k->name);
    ndim = k->ndim;
    if (crn_v_len(v) > 1) crn_v_to_int(crn_v_at(v, 1), &ndim);
    if ((k->dim >= 0 && dim != k->dim) || ndim != k->ndim)
      return crn_fail(err, CRN_E_CONFIG, "data_dims: '%s': (%lld, %lld) given, the dataset has (%lld, %d)", k->name,
                      (long long)dim, (long long)ndim, (long long)k->dim, k->ndim);
  }
  return CRN_OK;
}

static crn_status find_sources(meta_dataset *d, crn_err *err) {
  d->sources = CRN_ARENA_ARRAY(&d->base.arena, meta_source, d->base.n_keys + 1);
  if (!d->sources) return crn_err_memory(err);
  for (size_t i = 0; i < d->base.n_keys; i++) {
    const crn_value *source = crn_v_get(d->data_map, d->base.keys[i].name);
    size_t part = (size_t)find_part(d, crn_v_cstr(crn_v_at(source, 0)));
    int key = crn_dataset_find_key(d->parts[part].ds, crn_v_cstr(crn_v_at(source, 1)));
    d->sources[i] = (meta_source){part, (size_t)key};
  }
  return CRN_OK;
}

/* The part whose order or tags the others follow. */
static crn_status choose_main(meta_dataset *d, crn_err *err) {
  d->control = -1;
  if (d->control_name) {
    CRN_TRY(need_part(d, d->control_name, "seq_order_control_dataset", &d->main, err));
    d->control = (int)d->main;
    return CRN_OK;
  }
  int data = crn_dataset_find_key(&d->base, "data");
  if (data < 0) return crn_fail(err, CRN_E_CONFIG, "data_map needs the key 'data', or seq_order_control_dataset");
  d->main = d->sources[data].part;
  return CRN_OK;
}

/* ---- the list of sequences ---- */

/* A dict part -> list of tags (or file with it), from a pickle or the option itself. */
static crn_status lists_from_dict(meta_dataset *d, const crn_value *dict, crn_err *err) {
  for (size_t i = 0; i < d->n_parts; i++) {
    meta_part *p = &d->parts[i];
    const crn_value *v = crn_v_get(dict, p->name);
    size_t n;
    if (!v) return crn_fail(err, CRN_E_CONFIG, "seq_list_file: nothing for the dataset '%s'", p->name);
    if (crn_v_is_str(v)) {
      const char *path = crn_dataset_path(&d->base, crn_v_cstr(v));
      if (!path) return crn_err_memory(err);
      CRN_TRY(crn_text_tags(&d->base.arena, path, &p->tags, &n, err));
    } else {
      n = crn_v_len(v);
      p->tags = CRN_ARENA_ARRAY(&d->base.arena, char *, n + 1);
      if (!p->tags) return crn_err_memory(err);
      for (size_t j = 0; j < n; j++) {
        const char *tag = crn_v_cstr(crn_v_at(v, j));
        if (!tag) return crn_fail(err, CRN_E_CONFIG, "seq_list_file: '%s': entry %zu is no string", p->name, j + 1);
        p->tags[j] = crn_arena_strdup(&d->base.arena, tag);
      }
      if (d->base.arena.failed) return crn_err_memory(err);
    }
    if (i == 0) d->n_list = (int64_t)n;
    if ((int64_t)n != d->n_list)
      return crn_fail(err, CRN_E_CONFIG, "seq_list_file: %zu tags for '%s', %lld for '%s'", n, p->name,
                      (long long)d->n_list, d->parts[0].name);
  }
  d->list = d->parts[d->main].tags;
  return CRN_OK;
}

static crn_status list_from_file(meta_dataset *d, const char *file, crn_err *err) {
  const char *path = crn_dataset_path(&d->base, file);
  if (!path) return crn_err_memory(err);
  if (crn_ends_with(path, ".pkl") || crn_ends_with(path, ".pkl.gz")) {
    crn_value *v;
    CRN_TRY(crn_pickle_read(&d->base.arena, path, &v, err));
    if (crn_v_is_dict(v)) return lists_from_dict(d, v, err);
  }
  size_t n;
  CRN_TRY(crn_text_tags(&d->base.arena, path, &d->list, &n, err));
  d->n_list = (int64_t)n;
  for (size_t i = 0; i < d->n_parts; i++) d->parts[i].tags = d->list;
  return CRN_OK;
}

/* All tags of the main part; the other parts must have each of them. */
static crn_status list_from_main(meta_dataset *d, crn_err *err) {
  crn_dataset *ds = d->parts[d->main].ds;
  int64_t n = crn_dataset_corpus_size(ds);
  if (n < 0 || n == INT64_MAX)
    return crn_fail(err, CRN_E_CONFIG, "the tags of '%s' aren't known before it is read; seq_list_file is needed",
                    d->parts[d->main].name);
  d->list = CRN_ARENA_ARRAY(&d->base.arena, char *, n + 1);
  if (!d->list) return crn_err_memory(err);
  for (int64_t i = 0; i < n; i++) {
    const char *tag;
    CRN_TRY(ds->cls->tag(ds, i, &tag, err));
    d->list[i] = crn_arena_strdup(&d->base.arena, tag);
    if (!d->list[i]) return crn_err_memory(err);
  }
  d->n_list = n;
  for (size_t i = 0; i < d->n_parts; i++) {
    d->parts[i].tags = d->list;
    if (i == d->main) continue;
    for (int64_t j = 0; j < n; j++) {
      int64_t seq;
      CRN_TRY(crn_dataset_find_tag(d->parts[i].ds, d->list[j], &seq, err));
      if (seq < 0)
        return crn_fail(err, CRN_E_DATA, "the dataset '%s' has no sequence '%s', which '%s' has", d->parts[i].name,
                        d->list[j], d->parts[d->main].name);
    }
  }
  return CRN_OK;
}

static crn_status read_lens(meta_dataset *d, crn_err *err) {
  if (crn_v_is_none(d->lens_option)) return CRN_OK;
  const char *file = crn_v_cstr(d->lens_option);
  if (!file) return crn_fail(err, CRN_E_CONFIG, "option 'seq_lens_file': expected a file name");
  const char *path = crn_dataset_path(&d->base, file);
  if (!path) return crn_err_memory(err);
  char *text;
  size_t len;
  CRN_TRY(crn_text_read(&d->base.arena, path, &text, &len, err));
  CRN_TRY(crn_v_parse_json(&d->base.arena, text, len, path, &d->lens, err));
  return crn_v_is_dict(d->lens) ? CRN_OK : crn_fail(err, CRN_E_FORMAT, "%s: expected a dict", path);
}

static crn_status open_all(meta_dataset *d, crn_err *err) {
  if (!crn_v_is_dict(d->datasets) || !crn_v_is_dict(d->data_map))
    return crn_fail(err, CRN_E_CONFIG, "options 'datasets' and 'data_map' must be dicts");
  d->parts = CRN_ARENA_ARRAY(&d->base.arena, meta_part, crn_v_len(d->datasets) + 1);
  if (!d->parts) return crn_err_memory(err);
  for (size_t i = 0; i < crn_v_len(d->data_map); i++) {
    const char *name = crn_v_cstr(d->data_map->u.dict.keys[i]);
    if (!name) return crn_fail(err, CRN_E_CONFIG, "data_map: a key is no string");
    CRN_TRY(add_key(d, name, d->data_map->u.dict.vals[i], err));
  }
  crn_dataset_sort_keys(&d->base);
  CRN_TRY(find_sources(d, err));
  CRN_TRY(check_dims(d, err));
  CRN_TRY(choose_main(d, err));
  CRN_TRY(read_lens(d, err));
  const crn_value *list = d->seq_list_option;
  if (crn_v_is_dict(list)) return lists_from_dict(d, list, err);
  if (crn_v_is_str(list)) return list_from_file(d, crn_v_cstr(list), err);
  if (!crn_v_is_none(list)) return crn_fail(err, CRN_E_CONFIG, "option 'seq_list_file': expected a file or a dict");
  return list_from_main(d, err);
}

static crn_status meta_init(crn_dataset *ds, crn_err *err) {
  crn_status code = open_all((meta_dataset *)ds, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  return code;
}

static void meta_deinit(crn_dataset *ds) {
  meta_dataset *d = (meta_dataset *)ds;
  for (size_t i = 0; i < d->n_parts; i++) crn_dataset_free(d->parts[i].ds);
}

/* ---- an epoch ---- */

static int64_t meta_size(const crn_dataset *ds) { return ((const meta_dataset *)ds)->n_list; }

static crn_status meta_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err) {
  (void)err;
  *tag = ((meta_dataset *)ds)->list[seq];
  return CRN_OK;
}

/* Order by the control dataset: the sequences of its epoch, as indices into the list. */
static crn_status order_by_control(meta_dataset *d, crn_err *err) {
  crn_dataset *ds = &d->base, *control = d->parts[d->control].ds;
  CRN_TRY(crn_dataset_begin_epoch(control, ds->epoch, NULL, err));
  int64_t n = crn_dataset_num_seqs(control);
  if (n < 0) return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: a control dataset of unknown size");
  crn_free(ds->order);
  ds->n_order = 0;
  ds->order = crn_malloc((size_t)(n ? n : 1) * sizeof *ds->order);
  if (!ds->order) return crn_err_memory(err);
  for (int64_t i = 0; i < n; i++) {
    const char *tag;
    int64_t seq;
    CRN_TRY(crn_dataset_tag(control, i, &tag, err));
    CRN_TRY(crn_dataset_find_tag(ds, tag, &seq, err));
    if (seq < 0) return crn_dataset_fail(ds, err, CRN_E_DATA, "the control dataset's '%s' is not in the list", tag);
    ds->order[ds->n_order++] = seq;
  }
  return CRN_OK;
}

/* The parts get the tags of this order. */
static crn_status order_parts(meta_dataset *d, crn_err *err) {
  crn_dataset *ds = &d->base;
  const char **tags = crn_malloc((size_t)(ds->n_order + 1) * sizeof *tags);
  if (!tags) return crn_err_memory(err);
  crn_status code = CRN_OK;
  for (size_t p = 0; p < d->n_parts && code == CRN_OK; p++) {
    if ((int)p == d->control) continue;
    for (int64_t i = 0; i < ds->n_order; i++) tags[i] = d->parts[p].tags[ds->order[i]];
    crn_seq_list list = {.tags = tags, .n = (size_t)ds->n_order};
    code = crn_dataset_begin_epoch(d->parts[p].ds, ds->epoch, &list, err);
  }
  crn_free(tags);
  return code;
}

static crn_status meta_order(crn_dataset *ds, const crn_seq_list *list, crn_err *err) {
  meta_dataset *d = (meta_dataset *)ds;
  if (d->control >= 0 && !list) {
    CRN_TRY(order_by_control(d, err));
    return order_parts(d, err);
  }
  if (!ds->seq_order_seq_lens_file && !d->lens && !list) /* lengths come from the main part, in its own order */
    CRN_TRY(crn_dataset_begin_epoch(
        d->parts[d->main].ds, ds->epoch,
        &(crn_seq_list){.tags = (const char *const *)d->parts[d->main].tags, .n = (size_t)d->n_list}, err));
  CRN_TRY(crn_dataset_common_order(ds, list, err));
  int control = d->control;
  d->control = -1; /* with a list the control dataset follows too */
  crn_status code = order_parts(d, err);
  d->control = control;
  return code;
}

/* ---- sequences: the position in the order is the same in every part ---- */

static crn_status meta_order_length(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err) {
  meta_dataset *d = (meta_dataset *)ds;
  if (d->lens) {
    const crn_value *one = crn_v_get(crn_v_get(d->lens, d->list[seq]), "data");
    if (crn_v_to_int(one, len) && *len >= 0) return CRN_OK;
    return crn_dataset_fail(ds, err, CRN_E_DATA, "seq_lens_file has no length of 'data' for '%s'", d->list[seq]);
  }
  int key = crn_dataset_find_key(ds, "data"); /* the main part holds the whole list in its order now */
  size_t main_key = key >= 0 && d->sources[key].part == d->main ? d->sources[key].key : 0;
  return crn_dataset_length(d->parts[d->main].ds, seq, main_key, len, err);
}

static crn_status meta_length(crn_dataset *ds, int64_t i, size_t key, int64_t *len, crn_err *err) {
  meta_dataset *d = (meta_dataset *)ds;
  const crn_value *one = d->lens ? crn_v_get(crn_v_get(d->lens, d->list[ds->order[i]]), ds->keys[key].name) : NULL;
  if (one && crn_v_to_int(one, len) && *len >= 0) return CRN_OK;
  meta_source s = d->sources[key];
  return crn_dataset_length(d->parts[s.part].ds, i, s.key, len, err);
}

static crn_status meta_read(crn_dataset *ds, int64_t i, size_t key, int64_t start, int64_t end, crn_array *out,
                            crn_err *err) {
  meta_dataset *d = (meta_dataset *)ds;
  meta_source s = d->sources[key];
  return crn_dataset_read(d->parts[s.part].ds, i, s.key, start, end, out, err);
}

#define OFF(field) offsetof(meta_dataset, field)
static const crn_data_opt meta_options[] = {
    {"datasets", CRN_DOPT_VALUE, OFF(datasets), NULL, 0, "dict name: dataset"},
    {"data_map", CRN_DOPT_VALUE, OFF(data_map), NULL, 0, "dict key: (name of a dataset, key there)"},
    {"seq_list_file", CRN_DOPT_VALUE, OFF(seq_list_option), "None", 0,
     "tags of all sequences: a file, a pickled dict dataset: list, or a dict dataset: file"},
    {"seq_order_control_dataset", CRN_DOPT_STR, OFF(control_name), "None", 0,
     "name of the dataset that defines order and subset"},
    {"seq_lens_file", CRN_DOPT_VALUE, OFF(lens_option), "None", 0, "JSON file tag: key: length"},
    {"data_dims", CRN_DOPT_VALUE, OFF(data_dims), "None", 0, "dict key: (dim, ndim), checked"},
    {"data_dtypes", CRN_DOPT_VALUE, OFF(data_dtypes), "None", 0, "has no meaning"},
    {0}};

const crn_dataset_class crn_meta_dataset = {
    .name = "MetaDataset",
    .doc = "Joins several datasets that describe the same sequences.",
    .opts = meta_options,
    .bytes = sizeof(meta_dataset),
    .init = meta_init,
    .deinit = meta_deinit,
    .corpus_size = meta_size,
    .order_length = meta_order_length,
    .tag = meta_tag,
    .length = meta_length,
    .read = meta_read,
    .make_order = meta_order,
    .by_position = true,
    .no_corpus_index = true,
};
