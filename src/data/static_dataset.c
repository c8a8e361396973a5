/* SPDX-License-Identifier: Apache-2.0
 *
 * StaticDataset: sequences written into the config, as a list of dicts key -> array (nested lists or arrays).
 */
#include <string.h>

#include "data/datasets.h"

typedef struct static_cell { /* one key of one sequence */
  int rank;
  int64_t shape[CRN_DATA_MAX_RANK];
  void *data; /* in the type of the key */
} static_cell;

typedef struct static_dataset {
  crn_dataset base;
  const crn_value *data_option, *target_list, *input_dim, *output_dim;
  static_cell *cells; /* n_seqs * n_keys */
  int64_t n_seqs;
} static_dataset;

/* ---- shape and type of nested lists ---- */

typedef struct probe {
  int rank;
  int64_t shape[CRN_DATA_MAX_RANK];
  crn_ntype type; /* int32 if all are integers, else float32, as numbers in configs are meant */
} probe;

static crn_status probe_list(const crn_value *v, int depth, probe *p, crn_err *err) {
  if (crn_v_is_number(v)) {
    if (depth != p->rank) return crn_fail(err, CRN_E_CONFIG, "lists of different depth");
    if (v->kind == CRN_V_FLOAT) p->type = CRN_NT_F32;
    return CRN_OK;
  }
  if (!crn_v_is_seq(v)) return crn_fail(err, CRN_E_CONFIG, "expected numbers, got %s", crn_v_kind_name(v));
  if (depth >= p->rank) return crn_fail(err, CRN_E_CONFIG, "lists of different depth");
  if ((int64_t)crn_v_len(v) != p->shape[depth]) return crn_fail(err, CRN_E_CONFIG, "lists of different length");
  for (size_t i = 0; i < crn_v_len(v); i++) CRN_TRY(probe_list(crn_v_at(v, i), depth + 1, p, err));
  return CRN_OK;
}

static crn_status probe_value(const crn_value *v, probe *p, crn_err *err) {
  *p = (probe){.type = CRN_NT_I32};
  if (v->kind == CRN_V_ARRAY) {
    p->type = crn_ntype_by_name(v->u.array.dtype);
    p->rank = v->u.array.rank;
    if (p->rank > CRN_DATA_MAX_RANK || p->type == CRN_NT_NONE)
      return crn_fail(err, CRN_E_CONFIG, "an array of %d axes, dtype %s", p->rank, v->u.array.dtype);
    for (int i = 0; i < p->rank; i++) p->shape[i] = v->u.array.shape[i];
    return CRN_OK;
  }
  for (const crn_value *at = v; crn_v_is_seq(at); at = crn_v_at(at, 0)) {
    if (p->rank == CRN_DATA_MAX_RANK) return crn_fail(err, CRN_E_CONFIG, "more than 8 axes");
    p->shape[p->rank++] = (int64_t)crn_v_len(at);
  }
  return probe_list(v, 0, p, err);
}

static void copy_numbers(const crn_value *v, double *out, int64_t *at) {
  if (crn_v_is_seq(v)) {
    for (size_t i = 0; i < crn_v_len(v); i++) copy_numbers(crn_v_at(v, i), out, at);
  } else {
    double f = 0;
    crn_v_to_float(v, &f);
    out[(*at)++] = f;
  }
}

/* ---- reading the option ---- */

static crn_status read_cell(crn_dataset *ds, const crn_value *v, crn_ntype type, static_cell *cell, crn_err *err) {
  probe p;
  CRN_TRY(probe_value(v, &p, err));
  int64_t n = 1, at = 0;
  cell->rank = p.rank;
  for (int i = 0; i < p.rank; i++) n *= cell->shape[i] = p.shape[i];
  cell->data = crn_arena_alloc(&ds->arena, (size_t)n * crn_ntype_bytes(type) + 1);
  double *numbers = crn_malloc((size_t)(n ? n : 1) * sizeof *numbers);
  crn_status code = cell->data && numbers ? CRN_OK : crn_err_memory(err);
  if (code == CRN_OK) {
    if (v->kind == CRN_V_ARRAY)
      memcpy(numbers, v->u.array.data, (size_t)n * sizeof *numbers);
    else
      copy_numbers(v, numbers, &at);
    if (!crn_ntype_convert(CRN_NT_F64, numbers, type, cell->data, (size_t)n))
      code = crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: dtype %s", crn_ntype_name(type));
  }
  crn_free(numbers);
  return code;
}

/* "input_dim" for data, "output_dim" (a number, pair, or dict key -> these) for the others: dim and ndim. */
static crn_status apply_dim(static_dataset *d, crn_data_key *k, crn_err *err) {
  bool data = !strcmp(k->name, "data");
  const crn_value *v = data && !crn_v_is_none(d->input_dim) ? d->input_dim : d->output_dim;
  if (crn_v_is_dict(v)) v = crn_v_get(v, k->name);
  const crn_value *dim = crn_v_is_seq(v) ? crn_v_at(v, 0) : v;
  if (!crn_v_is_none(dim) && (!crn_v_to_int(dim, &k->dim) || k->dim < 1))
    return crn_fail(err, CRN_E_CONFIG, "the dim of key '%s' must be an integer >= 1", k->name);
  if (crn_v_is_none(dim)) k->dim = k->sparse ? -1 : k->rank > 1 ? k->shape[k->rank - 1] : -1;
  return CRN_OK;
}

static bool is_target(const static_dataset *d, const char *name) {
  if (crn_v_is_none(d->target_list)) return strcmp(name, "data") != 0;
  for (size_t i = 0; i < crn_v_len(d->target_list); i++) {
    const char *t = crn_v_cstr(crn_v_at(d->target_list, i));
    if (t && !strcmp(t, name)) return true;
  }
  return false;
}

static crn_status add_keys(static_dataset *d, const crn_value *first, crn_err *err) {
  for (size_t i = 0; i < crn_v_len(first); i++) {
    const char *name = crn_v_cstr(first->u.dict.keys[i]);
    if (!name) return crn_fail(err, CRN_E_CONFIG, "option 'data': a key is no string");
    crn_data_key *k;
    probe p;
    CRN_TRY(probe_value(first->u.dict.vals[i], &p, err));
    CRN_TRY(crn_dataset_add_key(&d->base, name, &k, err));
    k->dtype = p.type;
    k->rank = k->ndim = p.rank;
    for (int j = 0; j < p.rank; j++) k->shape[j] = p.shape[j];
    k->shape[0] = p.rank ? -1 : 0;
    k->sparse = crn_ntype_is_int(p.type) && p.rank <= 1;
    k->is_target = is_target(d, name);
    CRN_TRY(apply_dim(d, k, err));
  }
  crn_dataset_sort_keys(&d->base);
  return CRN_OK;
}

static crn_status read_seq(static_dataset *d, int64_t seq, const crn_value *dict, crn_err *err) {
  crn_dataset *ds = &d->base;
  if (crn_v_len(dict) != ds->n_keys) return crn_fail(err, CRN_E_CONFIG, "other keys than in the first sequence");
  for (size_t k = 0; k < ds->n_keys; k++) {
    const crn_data_key *key = &ds->keys[k];
    static_cell *cell = &d->cells[seq * (int64_t)ds->n_keys + (int64_t)k];
    const crn_value *v = crn_v_get(dict, key->name);
    if (!v) return crn_fail(err, CRN_E_CONFIG, "key '%s' is missing", key->name);
    CRN_TRY(read_cell(ds, v, key->dtype, cell, err));
    bool same = cell->rank == key->rank;
    for (int i = 1; same && i < key->rank; i++) same = cell->shape[i] == key->shape[i];
    if (!same && cell->rank == 1 && cell->shape[0] == 0) { /* an empty list doesn't tell its other axes */
      cell->rank = key->rank;
      for (int i = 1; i < key->rank; i++) cell->shape[i] = key->shape[i];
      same = true;
    }
    if (!same) return crn_fail(err, CRN_E_CONFIG, "key '%s' has another shape than in the first sequence", key->name);
  }
  return CRN_OK;
}

static crn_status static_init(crn_dataset *ds, crn_err *err) {
  static_dataset *d = (static_dataset *)ds;
  const crn_value *list = d->data_option;
  if (!crn_v_is_seq(list) || !crn_v_len(list) || !crn_v_is_dict(crn_v_at(list, 0)))
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "option 'data': expected a list of dicts key: array");
  crn_status code = add_keys(d, crn_v_at(list, 0), err);
  d->n_seqs = (int64_t)crn_v_len(list);
  d->cells = CRN_ARENA_ARRAY(&ds->arena, static_cell, d->n_seqs * (int64_t)ds->n_keys + 1);
  if (code == CRN_OK && !d->cells) code = crn_err_memory(err);
  for (int64_t i = 0; i < d->n_seqs && code == CRN_OK; i++) {
    code = read_seq(d, i, crn_v_at(list, (size_t)i), err);
    if (code != CRN_OK) crn_err_where(err, "option 'data': sequence %lld", (long long)i);
  }
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  return code;
}

/* ---- sequences ---- */

static static_cell *cell_of(crn_dataset *ds, int64_t seq, size_t key) {
  return &((static_dataset *)ds)->cells[seq * (int64_t)ds->n_keys + (int64_t)key];
}

static int64_t static_size(const crn_dataset *ds) { return ((const static_dataset *)ds)->n_seqs; }

static crn_status static_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err) {
  return crn_dataset_number_tag(ds, "seq-", seq, tag, err);
}

static crn_status static_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err) {
  (void)err;
  const static_cell *c = cell_of(ds, seq, key);
  *len = c->rank ? c->shape[0] : 1;
  return CRN_OK;
}

static crn_status static_order_length(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err) {
  return static_length(ds, seq, 0, len, err); /* "data" comes first if there is one */
}

static crn_status static_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                              crn_err *err) {
  const static_cell *c = cell_of(ds, seq, key);
  int64_t shape[CRN_DATA_MAX_RANK], row = 1;
  for (int i = 0; i < c->rank; i++) {
    shape[i] = c->shape[i];
    if (i) row *= c->shape[i];
  }
  if (c->rank) shape[0] = end - start;
  CRN_TRY(crn_array_resize(out, ds->keys[key].dtype, c->rank, shape, err));
  size_t bytes = crn_ntype_bytes(out->dtype);
  if (out->n) memcpy(out->data, (const char *)c->data + (size_t)(start * row) * bytes, (size_t)out->n * bytes);
  return CRN_OK;
}

#define OFF(field) offsetof(static_dataset, field)
static const crn_data_opt static_options[] = {
    {"data", CRN_DOPT_VALUE, OFF(data_option), NULL, 0, "list of dicts key: array, one per sequence"},
    {"target_list", CRN_DOPT_VALUE, OFF(target_list), "None", 0, "keys that are targets; default: all but \"data\""},
    {"input_dim", CRN_DOPT_VALUE, OFF(input_dim), "None", 0, "dim of \"data\""},
    {"output_dim", CRN_DOPT_VALUE, OFF(output_dim), "None", 0, "dim of the others, a number or a dict"},
    {0}};

const crn_dataset_class crn_static_dataset = {
    .name = "StaticDataset",
    .doc = "Holds sequences written into the config.",
    .opts = static_options,
    .bytes = sizeof(static_dataset),
    .init = static_init,
    .corpus_size = static_size,
    .order_length = static_order_length,
    .tag = static_tag,
    .length = static_length,
    .read = static_read,
};
