/* SPDX-License-Identifier: Apache-2.0
 *
 * HDFDataset: sequences in the HDF files that the old program and its tools write. One file holds, for every key, the
 * frames of all sequences one after the other, and a table of lengths; several files are appended. Everything that a
 * file says about itself is checked when it is opened, so that reading a sequence can't leave the arrays.
 */
#include <string.h>

#include "data/datasets.h"
#include "data/hdf5.h"

typedef struct hdf_column { /* one key in one file */
  const char *path;         /* of the array in the file, or NULL: lengths only */
  int64_t *begin;           /* first row of each sequence; n_seqs + 1 numbers */
  char **strings;           /* the whole array if it holds strings, read on first use */
} hdf_column;

typedef struct hdf_file {
  crn_h5 *h5;
  int64_t first_seq, n_seqs;
  hdf_column *columns; /* one per key of the dataset */
  char **tags;
} hdf_file;

typedef struct hdf_dataset {
  crn_dataset base;
  const crn_value *files_option, *cache_option;
  bool use_cache_manager;
  hdf_file *files;
  size_t n_files;
  int64_t n_seqs;
} hdf_dataset;

/* ---- opening: which keys a file has ---- */

typedef struct key_list { /* of one file while it is opened */
  char **names;           /* data (if there are inputs), then targets in ascending order */
  size_t n;
  bool has_inputs, ghost_classes; /* ghost: no targets, but the table of lengths has a column for "classes" */
} key_list;

static bool has_name(char *const *names, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

/* Insert into an ascending list, once. */
static void insert_name(char **names, size_t *n, char *name) {
  if (has_name(names, *n, name)) return;
  size_t at = *n;
  for (; at > 0 && strcmp(names[at - 1], name) > 0; at--) names[at] = names[at - 1];
  names[at] = name;
  ++*n;
}

static crn_status list_targets(hdf_dataset *d, crn_h5 *h5, key_list *keys, crn_err *err) {
  crn_arena *a = &d->base.arena;
  char **data = NULL, **sizes = NULL;
  size_t n_data = 0, n_sizes = 0;
  crn_status code = CRN_OK;
  if (crn_h5_has(h5, "targets/data")) code = crn_h5_members(h5, "targets/data", &data, &n_data, err);
  if (code == CRN_OK && crn_h5_has(h5, "targets/size")) code = crn_h5_attrs(h5, "targets/size", &sizes, &n_sizes, err);
  char **names = code == CRN_OK ? CRN_ARENA_ARRAY(a, char *, n_data + n_sizes + 1) : NULL;
  size_t n = 0;
  for (size_t i = 0; names && i < n_data; i++) insert_name(names, &n, crn_arena_strdup(a, data[i]));
  for (size_t i = 0; names && i < n_sizes; i++) insert_name(names, &n, crn_arena_strdup(a, sizes[i]));
  if (code == CRN_OK && (!names || a->failed)) code = crn_err_memory(err);
  crn_free(data);
  crn_free(sizes);
  if (code != CRN_OK) return code;
  keys->n = 0;
  keys->names = CRN_ARENA_ARRAY(a, char *, n + 2);
  if (!keys->names) return crn_err_memory(err);
  if (keys->has_inputs) keys->names[keys->n++] = crn_arena_strdup(a, "data");
  for (size_t i = 0; i < n; i++) {
    if (keys->has_inputs && !strcmp(names[i], "data"))
      return crn_fail(err, CRN_E_FORMAT, "%s: has both 'inputs' and a target 'data'", crn_h5_path(h5));
    keys->names[keys->n++] = names[i];
  }
  return CRN_OK;
}

static crn_status list_keys(hdf_dataset *d, crn_h5 *h5, key_list *keys, crn_err *err) {
  *keys = (key_list){.has_inputs = crn_h5_has(h5, "inputs")};
  CRN_TRY(list_targets(d, h5, keys, err));
  if (!crn_h5_has(h5, "targets")) {
    keys->ghost_classes = true;
    keys->names[keys->n++] = crn_arena_strdup(&d->base.arena, "classes");
    if (!keys->names[keys->n - 1]) return crn_err_memory(err);
  }
  return CRN_OK;
}

/* ---- opening: what a key is ---- */

static void shape_from_info(crn_data_key *k, const crn_h5_info *info) {
  k->rank = info->rank;
  for (int i = 0; i < info->rank; i++) k->shape[i] = info->shape[i];
  k->shape[0] = -1;
  k->dtype = info->type;
}

static crn_status describe_inputs(crn_h5 *h5, const crn_h5_info *info, crn_data_key *k, crn_err *err) {
  shape_from_info(k, info);
  k->ndim = info->rank;
  k->sparse = crn_ntype_is_int(info->type) && info->rank <= 1;
  k->dim = info->rank > 1 ? info->shape[1] : -1;
  if (k->sparse) {
    CRN_TRY(crn_h5_attr_int(h5, "", "inputPattSize", &k->dim, err));
    if (k->dim < 0) return crn_fail(err, CRN_E_FORMAT, "%s: inputPattSize is %lld", crn_h5_path(h5), (long long)k->dim);
  }
  return CRN_OK;
}

/* dim and ndim of a target: attribute of targets/size, a scalar dim or a pair [dim, ndim]. */
static crn_status target_size(crn_h5 *h5, const char *name, int rank, int64_t *dim, int64_t *ndim, crn_err *err) {
  int64_t *pair = NULL;
  crn_h5_info info;
  if (!crn_h5_has(h5, "targets/size") || !crn_h5_has_attr(h5, "targets/size", name))
    return crn_fail(err, CRN_E_FORMAT, "%s: 'targets/size' has no attribute '%s'", crn_h5_path(h5), name);
  CRN_TRY(crn_h5_read_attr(h5, "targets/size", name, CRN_NT_I64, (void **)&pair, &info, err));
  bool ok = info.n == 1 || info.n == 2;
  if (ok) {
    *dim = pair[0];
    *ndim = info.n == 2 ? pair[1] : rank;
    ok = *dim >= 0 && *ndim >= 0 && *ndim <= CRN_DATA_MAX_RANK;
  }
  crn_free(pair);
  if (ok) return CRN_OK;
  return crn_fail(err, CRN_E_FORMAT, "%s: 'targets/size': attribute '%s': expected dim or [dim, ndim]", crn_h5_path(h5),
                  name);
}

static crn_status describe_target(crn_h5 *h5, const crn_h5_info *info, crn_data_key *k, crn_err *err) {
  int64_t ndim = 0;
  shape_from_info(k, info);
  k->is_target = true;
  CRN_TRY(target_size(h5, k->name, info->rank, &k->dim, &ndim, err));
  k->ndim = (int)ndim;
  k->sparse = crn_ntype_is_int(info->type) && ndim <= 1;
  if (!k->sparse && info->rank > 1 && k->dim != info->shape[info->rank - 1])
    return crn_fail(err, CRN_E_FORMAT, "%s: 'targets/data/%s' has %lld features, 'targets/size' says %lld",
                    crn_h5_path(h5), k->name, (long long)info->shape[info->rank - 1], (long long)k->dim);
  return CRN_OK;
}

static crn_status read_labels(hdf_dataset *d, crn_h5 *h5, const char *where, crn_data_key *k, crn_err *err) {
  char **names = NULL;
  size_t n = 0;
  if (!crn_h5_has(h5, where)) return CRN_OK;
  CRN_TRY(crn_h5_read_strings(h5, where, &names, &n, err));
  const char **copy = CRN_ARENA_ARRAY(&d->base.arena, const char *, n + 1);
  for (size_t i = 0; copy && i < n; i++) copy[i] = crn_arena_strdup(&d->base.arena, names[i]);
  crn_free(names);
  if (d->base.arena.failed) return crn_err_memory(err);
  if (n) {
    k->labels = copy;
    k->n_labels = n;
  }
  return CRN_OK;
}

/* Path of a key's array in this file, or NULL if the file has only its lengths. */
static const char *array_path(hdf_dataset *d, crn_h5 *h5, const key_list *keys, const char *name) {
  if (keys->has_inputs && !strcmp(name, "data")) return "inputs";
  const char *path = crn_arena_printf(&d->base.arena, "targets/data/%s", name);
  return path && crn_h5_is_dataset(h5, path) ? path : NULL;
}

static crn_status describe_key(hdf_dataset *d, crn_h5 *h5, const key_list *keys, const char *name, crn_data_key *k,
                               crn_err *err) {
  const char *path = array_path(d, h5, keys, name);
  if (!path) {
    k->length_only = true;
    k->is_target = true;
    return CRN_OK;
  }
  crn_h5_info info;
  CRN_TRY(crn_h5_get_info(h5, path, &info, err));
  if (info.rank < 1 || info.rank > CRN_DATA_MAX_RANK || info.type == CRN_NT_NONE)
    return crn_fail(err, CRN_E_FORMAT, "%s: '%s': expected an array of frames, got %s of %d axes", crn_h5_path(h5),
                    path, crn_ntype_name(info.type), info.rank);
  if (!strcmp(path, "inputs")) {
    CRN_TRY(describe_inputs(h5, &info, k, err));
    return read_labels(d, h5, "labels", k, err);
  }
  CRN_TRY(describe_target(h5, &info, k, err));
  if (!crn_h5_has(h5, "targets/labels"))
    return crn_fail(err, CRN_E_FORMAT, "%s: has 'targets' but no group 'targets/labels'", crn_h5_path(h5));
  const char *labels = crn_arena_printf(&d->base.arena, "targets/labels/%s", name);
  if (!labels) return crn_err_memory(err);
  return read_labels(d, h5, labels, k, err);
}

/* Keys of the first file become the dataset's; those of later files must agree. */
static crn_status take_keys(hdf_dataset *d, crn_h5 *h5, const key_list *keys, bool first, crn_err *err) {
  crn_dataset *ds = &d->base;
  for (size_t i = 0; i < keys->n; i++) {
    crn_data_key fresh = {.name = keys->names[i], .dim = -1, .ndim = 1, .rank = 1, .shape = {-1}}, *k = &fresh;
    int at = first ? -1 : crn_dataset_find_key(ds, keys->names[i]);
    if (first) CRN_TRY(crn_dataset_add_key(ds, keys->names[i], &k, err));
    if (!first && at < 0) {
      crn_warnf(ds->env.log, "%s: the additional key '%s' is ignored", crn_h5_path(h5), keys->names[i]);
      continue;
    }
    CRN_TRY(describe_key(d, h5, keys, keys->names[i], k, err));
    if (first) continue;
    const crn_data_key *own = &ds->keys[at];
    bool same =
        own->rank == k->rank && own->dim == k->dim && own->sparse == k->sparse && own->length_only == k->length_only;
    for (int j = 1; same && j < k->rank; j++) same = own->shape[j] == k->shape[j];
    if (!same)
      return crn_fail(err, CRN_E_FORMAT, "%s: key '%s' differs from the first file's (dim %lld there, %lld here)",
                      crn_h5_path(h5), k->name, (long long)own->dim, (long long)k->dim);
  }
  for (size_t i = 0; i < ds->n_keys; i++)
    if (!has_name(keys->names, keys->n, ds->keys[i].name))
      return crn_fail(err, CRN_E_FORMAT, "%s: key '%s' is missing, the first file has it", crn_h5_path(h5),
                      ds->keys[i].name);
  return CRN_OK;
}

/* ---- opening: lengths and tags ---- */

/* Row limits of every key from the table of lengths. */
static crn_status read_lengths(hdf_dataset *d, hdf_file *f, const key_list *keys, crn_err *err) {
  crn_dataset *ds = &d->base;
  const char *path = crn_h5_path(f->h5);
  int64_t *table = NULL;
  crn_h5_info info;
  CRN_TRY(crn_h5_read(f->h5, "seqLengths", CRN_NT_I64, (void **)&table, &info, err));
  crn_status code = CRN_OK;
  bool one_axis = info.rank == 1;
  int64_t columns = one_axis ? 1 : info.rank == 2 ? info.shape[1] : -1;
  if (columns < 0)
    code = crn_fail(err, CRN_E_FORMAT, "%s: 'seqLengths' has %d axes, expected 1 or 2", path, info.rank);
  else if (columns != (int64_t)keys->n)
    code = crn_fail(err, CRN_E_FORMAT, "%s: 'seqLengths' has %lld columns, expected %zu, one for each key", path,
                    (long long)columns, keys->n);
  f->n_seqs = code == CRN_OK ? info.shape[0] : 0;
  f->columns = code == CRN_OK ? CRN_ARENA_ARRAY(&ds->arena, hdf_column, ds->n_keys) : NULL;
  if (code == CRN_OK && !f->columns) code = crn_err_memory(err);
  for (size_t c = 0; c < keys->n && code == CRN_OK; c++) {
    int at = crn_dataset_find_key(ds, keys->names[c]);
    if (at < 0) continue; /* an additional key of a later file */
    hdf_column *col = &f->columns[at];
    col->begin = CRN_ARENA_ARRAY(&ds->arena, int64_t, f->n_seqs + 1);
    if (!col->begin) code = crn_err_memory(err);
    for (int64_t i = 0; i < f->n_seqs && code == CRN_OK; i++) {
      int64_t len = table[i * columns + (int64_t)c];
      if (len < 0 || __builtin_add_overflow(col->begin[i], len, &col->begin[i + 1]))
        code = crn_fail(err, CRN_E_FORMAT, "%s: 'seqLengths': sequence %lld has the length %lld", path, (long long)i,
                        (long long)len);
    }
  }
  crn_free(table);
  return code;
}

static crn_status check_rows(hdf_dataset *d, hdf_file *f, const key_list *keys, crn_err *err) {
  crn_dataset *ds = &d->base;
  for (size_t i = 0; i < ds->n_keys; i++) {
    hdf_column *col = &f->columns[i];
    crn_h5_info info;
    col->path = array_path(d, f->h5, keys, ds->keys[i].name);
    if (!col->path) continue;
    CRN_TRY(crn_h5_get_info(f->h5, col->path, &info, err));
    int64_t wanted = col->begin[f->n_seqs];
    if (wanted > info.shape[0])
      return crn_fail(err, CRN_E_FORMAT, "%s: '%s' has %lld frames, the lengths of its sequences add up to %lld",
                      crn_h5_path(f->h5), col->path, (long long)info.shape[0], (long long)wanted);
    if (wanted < info.shape[0])
      crn_warnf(ds->env.log, "%s: '%s' has %lld frames, only %lld belong to sequences", crn_h5_path(f->h5), col->path,
                (long long)info.shape[0], (long long)wanted);
  }
  return CRN_OK;
}

static crn_status read_tags(hdf_file *f, crn_err *err) {
  size_t n;
  CRN_TRY(crn_h5_read_strings(f->h5, "seqTags", &f->tags, &n, err));
  if ((int64_t)n == f->n_seqs) return CRN_OK;
  return crn_fail(err, CRN_E_FORMAT, "%s: 'seqTags' has %zu entries, 'seqLengths' %lld", crn_h5_path(f->h5), n,
                  (long long)f->n_seqs);
}

static crn_status open_file(hdf_dataset *d, const char *name, crn_err *err) {
  hdf_file *f = &d->files[d->n_files];
  const char *path = crn_dataset_path(&d->base, name);
  if (!path) return crn_err_memory(err);
  CRN_TRY(crn_h5_open(path, &f->h5, err));
  d->n_files++;
  key_list keys;
  CRN_TRY(list_keys(d, f->h5, &keys, err));
  CRN_TRY(take_keys(d, f->h5, &keys, d->n_files == 1, err));
  CRN_TRY(read_lengths(d, f, &keys, err));
  CRN_TRY(check_rows(d, f, &keys, err));
  CRN_TRY(read_tags(f, err));
  f->first_seq = d->n_seqs;
  d->n_seqs += f->n_seqs;
  return CRN_OK;
}

static crn_status hdf_init(crn_dataset *ds, crn_err *err) {
  hdf_dataset *d = (hdf_dataset *)ds;
  const crn_value *files = d->files_option;
  bool one = crn_v_is_str(files);
  size_t n = one ? 1 : crn_v_is_seq(files) ? crn_v_len(files) : 0;
  if (n == 0) return crn_dataset_fail(ds, err, CRN_E_CONFIG, "option 'files': expected a list of file names");
  d->files = CRN_ARENA_ARRAY(&ds->arena, hdf_file, n);
  if (!d->files) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) {
    const char *name = crn_v_cstr(one ? files : crn_v_at(files, i));
    if (!name) return crn_dataset_fail(ds, err, CRN_E_CONFIG, "option 'files': entry %zu is no string", i + 1);
    crn_status code = open_file(d, name, err);
    if (code != CRN_OK) {
      crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
      return code;
    }
  }
  return CRN_OK;
}

static void hdf_deinit(crn_dataset *ds) {
  hdf_dataset *d = (hdf_dataset *)ds;
  for (size_t i = 0; i < d->n_files; i++) {
    hdf_file *f = &d->files[i];
    for (size_t k = 0; f->columns && k < ds->n_keys; k++) crn_free(f->columns[k].strings);
    crn_free(f->tags);
    crn_h5_close(f->h5, NULL);
  }
}

/* ---- reading ---- */

static hdf_file *file_of(hdf_dataset *d, int64_t seq) {
  size_t low = 0, high = d->n_files - 1;
  while (low < high) {
    size_t mid = (low + high + 1) / 2;
    if (d->files[mid].first_seq <= seq)
      low = mid;
    else
      high = mid - 1;
  }
  return &d->files[low];
}

static int64_t hdf_size(const crn_dataset *ds) { return ((const hdf_dataset *)ds)->n_seqs; }

static crn_status hdf_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err) {
  (void)err;
  hdf_file *f = file_of((hdf_dataset *)ds, seq);
  *tag = f->tags[seq - f->first_seq];
  return CRN_OK;
}

static crn_status hdf_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err) {
  (void)err;
  hdf_file *f = file_of((hdf_dataset *)ds, seq);
  const int64_t *begin = f->columns[key].begin + (seq - f->first_seq);
  *len = begin[1] - begin[0];
  return CRN_OK;
}

/* The first column: the data, or the first target if there are no inputs. */
static crn_status hdf_order_length(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err) {
  return hdf_length(ds, seq, 0, len, err);
}

static crn_status read_text_rows(hdf_file *f, hdf_column *col, int64_t row, crn_array *out, crn_err *err) {
  size_t n;
  if (!col->strings) CRN_TRY(crn_h5_read_strings(f->h5, col->path, &col->strings, &n, err));
  int64_t each = out->shape[0] ? out->n / out->shape[0] : 0;
  for (int64_t i = 0; i < out->n; i++) ((const char **)out->data)[i] = col->strings[row * each + i];
  return CRN_OK;
}

static crn_status hdf_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                           crn_err *err) {
  hdf_file *f = file_of((hdf_dataset *)ds, seq);
  hdf_column *col = &f->columns[key];
  const crn_data_key *k = &ds->keys[key];
  int64_t shape[CRN_DATA_MAX_RANK], row = col->begin[seq - f->first_seq] + start;
  memcpy(shape, k->shape, sizeof shape);
  shape[0] = end - start;
  CRN_TRY(crn_array_resize(out, k->dtype, k->rank, shape, err));
  if (!out->n) return CRN_OK;
  if (k->dtype == CRN_NT_STR) return read_text_rows(f, col, row, out, err);
  return crn_h5_read_rows(f->h5, col->path, k->dtype, row, end - start, out->data, err);
}

#define OFF(field) offsetof(hdf_dataset, field)
static const crn_data_opt hdf_options[] = {
    {"files", CRN_DOPT_VALUE, OFF(files_option), NULL, 0, "list of file names; their sequences are appended"},
    {"use_cache_manager", CRN_DOPT_BOOL, OFF(use_cache_manager), "False", 0, "has no meaning here"},
    {"cache_byte_size", CRN_DOPT_VALUE, OFF(cache_option), "None", 0, "has no meaning here: nothing is cached"},
    {0}};

const crn_dataset_class crn_hdf_dataset = {
    .name = "HDFDataset",
    .doc = "Reads sequences from HDF files.",
    .opts = hdf_options,
    .bytes = sizeof(hdf_dataset),
    .init = hdf_init,
    .deinit = hdf_deinit,
    .corpus_size = hdf_size,
    .order_length = hdf_order_length,
    .tag = hdf_tag,
    .length = hdf_length,
    .read = hdf_read,
};
