/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing HDF files of sequences (see hdf_writer.h; the format is described at HDFDataset).
 */
#include "data/hdf_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "data/hdf5.h"

typedef struct column { /* a key in targets */
  const char *key, *path;
  crn_ntype type;
  int64_t dim;
  int ndim;
  int extra; /* index of the caller's extra, -1: the lengths of the axes */
} column;

struct crn_hdf_writer {
  crn_arena arena;
  crn_h5 *h5;
  const char *path, *temp;
  crn_hdf_layout layout;
  column *columns; /* in ascending order of keys */
  size_t n_columns, n_table;
  int64_t n_seqs, n_rows;
};

static int by_key(const void *a, const void *b) { return strcmp(((const column *)a)->key, ((const column *)b)->key); }

static bool ascii_only(const char *const *labels, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (const char *p = labels[i]; *p; p++)
      if ((unsigned char)*p >= 0x80) return false;
  return true;
}

static crn_status set_columns(crn_hdf_writer *w, crn_err *err) {
  const crn_hdf_layout *l = &w->layout;
  w->columns = CRN_ARENA_ARRAY(&w->arena, column, l->n_extras + 1);
  if (!w->columns) return crn_err_memory(err);
  for (size_t i = 0; i < l->n_extras; i++) {
    const crn_hdf_extra *e = &l->extras[i];
    if (!strcmp(e->key, "data") || strchr(e->key, '/') || (l->n_axes > 1 && !strcmp(e->key, "sizes")))
      return crn_fail(err, CRN_E_CONFIG, "%s: '%s' can't be the name of an additional key", w->path, e->key);
    w->columns[w->n_columns++] = (column){.key = crn_arena_strdup(&w->arena, e->key),
                                          .type = e->type,
                                          .dim = e->dim > 0 ? e->dim : 1,
                                          .ndim = e->ndim,
                                          .extra = (int)i};
  }
  if (l->n_axes > 1)
    w->columns[w->n_columns++] = (column){.key = "sizes", .type = CRN_NT_I32, .dim = 1, .ndim = 1, .extra = -1};
  for (size_t i = 0; i < w->n_columns; i++)
    w->columns[i].path = crn_arena_printf(&w->arena, "targets/data/%s", w->columns[i].key);
  if (w->arena.failed) return crn_err_memory(err);
  qsort(w->columns, w->n_columns, sizeof *w->columns, by_key);
  w->n_table = w->n_columns > 1 ? 1 + w->n_columns : 2;
  return CRN_OK;
}

static crn_status make_targets(crn_hdf_writer *w, crn_err *err) {
  const char *dummy[1] = {"dummy-label"};
  if (!w->n_columns) return CRN_OK;
  CRN_TRY(crn_h5_make_group(w->h5, "targets/size", err));
  for (size_t i = 0; i < w->n_columns; i++) {
    const column *c = &w->columns[i];
    int64_t shape[2] = {0, c->dim}, two[1] = {2}, size[2] = {c->dim, c->ndim};
    const char *labels = crn_arena_printf(&w->arena, "targets/labels/%s", c->key);
    if (!labels) return crn_err_memory(err);
    CRN_TRY(crn_h5_make_growing(w->h5, c->path, c->type, c->ndim, shape, err));
    CRN_TRY(crn_h5_write_attr(w->h5, "targets/size", c->key, CRN_NT_I64, 1, two, size, err));
    CRN_TRY(crn_h5_write_strings(w->h5, labels, CRN_H5_FIXED, dummy, 1, err));
  }
  return CRN_OK;
}

static crn_status make_datasets(crn_hdf_writer *w, crn_err *err) {
  const crn_hdf_layout *l = &w->layout;
  int64_t rows[2] = {0, l->dim}, table[2] = {0, (int64_t)w->n_table}, dim = l->dim > 0 ? l->dim : 1;
  crn_h5_strkind kind = l->n_labels && ascii_only(l->labels, l->n_labels) ? CRN_H5_FIXED : CRN_H5_VARIABLE;
  CRN_TRY(crn_h5_make_growing(w->h5, "inputs", l->type, l->has_feature_axis ? 2 : 1, rows, err));
  CRN_TRY(crn_h5_make_growing(w->h5, "seqLengths", CRN_NT_I32, 2, table, err));
  CRN_TRY(crn_h5_make_growing(w->h5, "seqTags", CRN_NT_STR, 1, rows, err));
  CRN_TRY(crn_h5_write_strings(w->h5, "labels", kind, l->labels, l->n_labels, err));
  CRN_TRY(crn_h5_write_attr_int(w->h5, "", "inputPattSize", dim, err));
  CRN_TRY(crn_h5_write_attr_int(w->h5, "", "numDims", 1, err));
  CRN_TRY(crn_h5_write_attr_int(w->h5, "", "numLabels", dim, err));
  return make_targets(w, err);
}

static crn_status open_writer(crn_hdf_writer *w, const char *path, bool override, crn_err *err) {
  w->path = crn_arena_strdup(&w->arena, path);
  w->temp = crn_arena_printf(&w->arena, "%s.tmp-%ld", path, (long)getpid());
  if (!w->path || !w->temp) return crn_err_memory(err);
  if (!override && access(path, F_OK) == 0)
    return crn_fail(err, CRN_E_FILE, "%s: exists already and isn't overwritten", path);
  if (w->layout.has_feature_axis && w->layout.dim < 1)
    return crn_fail(err, CRN_E_DATA, "%s: not implemented: data without a known number of features", path);
  CRN_TRY(set_columns(w, err));
  remove(w->temp); /* of an earlier process with this number */
  CRN_TRY(crn_h5_create(w->temp, &w->h5, err));
  return make_datasets(w, err);
}

crn_status crn_hdf_writer_new(const char *path, const crn_hdf_layout *layout, bool override, crn_hdf_writer **out,
                              crn_err *err) {
  *out = NULL;
  crn_hdf_writer *w = crn_calloc(1, sizeof *w);
  if (!w) return crn_err_memory(err);
  w->layout = *layout;
  crn_status code = open_writer(w, path, override, err);
  w->layout.extras = NULL; /* the caller's; copied into columns */
  w->layout.labels = NULL;
  if (code == CRN_OK)
    *out = w;
  else
    crn_hdf_writer_abandon(w);
  return code;
}

crn_status crn_hdf_writer_add(crn_hdf_writer *w, const char *tag, crn_hdf_rows rows, const int32_t *axes,
                              const crn_hdf_rows *extras, crn_err *err) {
  int32_t *lengths = crn_calloc(w->n_table, sizeof *lengths);
  if (!lengths) return crn_err_memory(err);
  crn_status code = CRN_OK;
  if (rows.n > INT32_MAX) code = crn_fail(err, CRN_E_DATA, "%s: a sequence of more than 2^31 rows", w->path);
  lengths[0] = (int32_t)rows.n;
  if (code == CRN_OK) code = crn_h5_add_rows(w->h5, "inputs", w->layout.type, rows.n, rows.data, err);
  for (size_t i = 0; i < w->n_columns && code == CRN_OK; i++) {
    const column *c = &w->columns[i];
    crn_hdf_rows own = c->extra >= 0 ? extras[c->extra] : (crn_hdf_rows){w->layout.n_axes, axes};
    lengths[1 + i] = (int32_t)own.n;
    code = crn_h5_add_rows(w->h5, c->path, c->type, own.n, own.data, err);
  }
  if (code == CRN_OK) code = crn_h5_add_rows(w->h5, "seqLengths", CRN_NT_I32, 1, lengths, err);
  if (code == CRN_OK) code = crn_h5_add_rows(w->h5, "seqTags", CRN_NT_STR, 1, &tag, err);
  crn_free(lengths);
  w->n_seqs++;
  w->n_rows += rows.n;
  return code;
}

/* Copy the valid part of axes [axis, n_axes) of one sequence; returns the place behind what was written. */
static char *copy_valid(const crn_hdf_writer *w, const int64_t *shape, const int32_t *lens, int axis, const char *src,
                        char *dst, size_t row_bytes) {
  int n = w->layout.n_axes;
  if (axis == n) {
    memcpy(dst, src, row_bytes);
    return dst + row_bytes;
  }
  size_t step = row_bytes;
  for (int i = axis + 1; i < n; i++) step *= (size_t)shape[1 + i];
  for (int32_t t = 0; t < lens[axis]; t++)
    dst = copy_valid(w, shape, lens, axis + 1, src + (size_t)t * step, dst, row_bytes);
  return dst;
}

crn_status crn_hdf_writer_add_batch(crn_hdf_writer *w, const int64_t *shape, const void *data,
                                    const int32_t *const *lengths, const char *const *tags, crn_err *err) {
  int n = w->layout.n_axes;
  size_t row_bytes = crn_ntype_bytes(w->layout.type) * (size_t)(w->layout.has_feature_axis ? w->layout.dim : 1);
  size_t seq_bytes = row_bytes;
  int32_t lens[CRN_H5_MAX_RANK] = {0};
  if (n > CRN_H5_MAX_RANK) return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: more than 8 axes");
  for (int i = 0; i < n; i++) seq_bytes *= (size_t)shape[1 + i];
  char *rows = crn_malloc(seq_bytes);
  if (!rows) return crn_err_memory(err);
  crn_status code = CRN_OK;
  for (int64_t b = 0; b < shape[0] && code == CRN_OK; b++) {
    int64_t count = 1;
    for (int i = 0; i < n && code == CRN_OK; i++) {
      lens[i] = lengths && lengths[i] ? lengths[i][b] : (int32_t)shape[1 + i];
      count *= lens[i];
      if (lens[i] < 0 || lens[i] > shape[1 + i])
        code = crn_fail(err, CRN_E_INTERNAL, "%s: a length of %d in an axis of %lld", w->path, (int)lens[i],
                        (long long)shape[1 + i]);
    }
    if (code != CRN_OK) break;
    copy_valid(w, shape, lens, 0, (const char *)data + (size_t)b * seq_bytes, rows, row_bytes);
    code = crn_hdf_writer_add(w, tags[b], (crn_hdf_rows){count, rows}, lens, NULL, err);
  }
  crn_free(rows);
  return code;
}

static void free_writer(crn_hdf_writer *w) {
  crn_arena_free(&w->arena);
  crn_free(w);
}

crn_status crn_hdf_writer_close(crn_hdf_writer *w, crn_err *err) {
  crn_status code = crn_h5_write_attr_int(w->h5, "", "numTimesteps", w->n_rows, err);
  if (code == CRN_OK) code = crn_h5_write_attr_int(w->h5, "", "numSeqs", w->n_seqs, err);
  crn_status closed = crn_h5_close(w->h5, code == CRN_OK ? err : NULL);
  w->h5 = NULL;
  if (code == CRN_OK) code = closed;
  if (code == CRN_OK && rename(w->temp, w->path) != 0)
    code = crn_fail(err, CRN_E_FILE, "%s: %s", w->path, strerror(errno));
  if (code != CRN_OK) remove(w->temp);
  free_writer(w);
  return code;
}

void crn_hdf_writer_abandon(crn_hdf_writer *w) {
  if (!w) return;
  if (w->h5) {
    crn_h5_close(w->h5, NULL);
    remove(w->temp);
  }
  free_writer(w);
}
