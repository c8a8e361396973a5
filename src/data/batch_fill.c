/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying the data of a batch's pieces from the dataset into padded arrays.
 */
#include <string.h>

#include "data/batch_rules.h"

void crn_batch_free(crn_batch *b) {
  if (!b) return;
  crn_arena_free(&b->arena);
  crn_free(b);
}

const crn_batch_array *crn_batch_find(const crn_batch *b, const char *key) {
  for (size_t i = 0; i < b->n_arrays; i++)
    if (!strcmp(b->arrays[i].name, key)) return &b->arrays[i];
  return NULL;
}

typedef struct filler {
  crn_dataset *ds;
  const crn_piece *pieces;
  size_t n_pieces;
  bool joined;
  crn_array *scratch;
  crn_batch *batch;
} filler;

/* Copy n elements of scratch from element `from` to `to` of the batch array, with conversion. */
static crn_status copy_elements(filler *f, crn_batch_array *a, int64_t from, int64_t to, int64_t n, crn_err *err) {
  size_t in = crn_ntype_bytes(f->scratch->dtype), out = crn_ntype_bytes(a->dtype);
  const char *src = (const char *)f->scratch->data + (size_t)from * in;
  char *dst = (char *)a->data + (size_t)to * out;
  if (a->dtype != CRN_NT_STR) {
    if (crn_ntype_convert(f->scratch->dtype, src, a->dtype, dst, (size_t)n)) return CRN_OK;
    return crn_fail(err, CRN_E_DATA, "key '%s': %s can't be given as %s", a->name, crn_ntype_name(f->scratch->dtype),
                    crn_ntype_name(a->dtype));
  }
  for (int64_t i = 0; i < n; i++) { /* the dataset's strings don't live long enough */
    ((const char **)a->data)[to + i] =
        crn_arena_strdup(&f->batch->arena, ((const char *const *)f->scratch->data)[from + i]);
    if (!((const char **)a->data)[to + i]) return crn_err_memory(err);
  }
  return CRN_OK;
}

/* One piece of a key with time axis into the rows from `row` on; row_size elements per frame. */
static crn_status copy_frames(filler *f, const crn_batch_column *c, size_t col, const crn_piece *p, crn_batch_array *a,
                              int64_t row, int64_t row_size, crn_err *err) {
  int64_t len;
  CRN_TRY(crn_dataset_length(f->ds, p->seq, c->key, &len, err));
  int64_t from = p->start[col] > 0 ? p->start[col] : 0, to = p->end[col] < len ? p->end[col] : len;
  if (from >= to) return CRN_OK;
  CRN_TRY(crn_dataset_read(f->ds, p->seq, c->key, from, to, f->scratch, err));
  if (f->scratch->n != (to - from) * row_size)
    return crn_fail(err, CRN_E_INTERNAL, "key '%s': the dataset gave %lld numbers for %lld frames of %lld", a->name,
                    (long long)f->scratch->n, (long long)(to - from), (long long)row_size);
  return copy_elements(f, a, 0, (row + from - p->start[col]) * row_size, f->scratch->n, err);
}

static crn_status alloc_array(filler *f, crn_batch_array *a, crn_err *err) {
  int64_t bytes = (int64_t)crn_ntype_bytes(a->dtype);
  for (int i = 0; i < a->rank; i++)
    if (__builtin_mul_overflow(bytes, a->shape[i], &bytes)) return crn_err_memory(err);
  a->data = crn_arena_alloc(&f->batch->arena, (size_t)(bytes ? bytes : 1));
  if (!a->data) return crn_err_memory(err);
  return CRN_OK;
}

static crn_status fill_timed(filler *f, const crn_batch_column *c, size_t col, crn_batch_array *a, crn_err *err) {
  const crn_data_key *k = crn_dataset_key(f->ds, c->key);
  int64_t B = f->joined ? 1 : (int64_t)f->n_pieces, T = 0, row_size = 1, sum = 0;
  a->lengths = CRN_ARENA_ARRAY(&f->batch->arena, int32_t, B);
  if (!a->lengths) return crn_err_memory(err);
  for (size_t i = 0; i < f->n_pieces; i++) {
    int64_t n = f->pieces[i].end[col] - f->pieces[i].start[col];
    sum += n;
    T = n > T ? n : T;
    if (sum > INT32_MAX) return crn_fail(err, CRN_E_DATA, "key '%s': more than 2^31 frames in a batch", k->name);
    if (!f->joined) a->lengths[i] = (int32_t)n;
  }
  if (f->joined) {
    a->lengths[0] = (int32_t)sum;
    T = sum;
  }
  a->rank = k->rank + 1;
  a->shape[0] = B;
  a->shape[1] = T;
  for (int i = 1; i < k->rank; i++) row_size *= a->shape[i + 1] = k->shape[i];
  CRN_TRY(alloc_array(f, a, err));
  int64_t row = 0;
  for (size_t i = 0; i < f->n_pieces; i++) {
    const crn_piece *p = &f->pieces[i];
    CRN_TRY(copy_frames(f, c, col, p, a, f->joined ? row : (int64_t)i * T, row_size, err));
    row += p->end[col] - p->start[col];
  }
  if (!c->want.no_time) return CRN_OK;
  for (int64_t b = 0; b < B; b++)
    if (a->lengths[b] != T)
      return crn_fail(err, CRN_E_DATA, "key '%s' has no time axis in extern_data, but sequences of %d and %lld frames",
                      k->name, (int)a->lengths[b], (long long)T);
  a->lengths = NULL;
  return CRN_OK;
}

/* A key without time axis is taken whole for every entry. */
static crn_status fill_untimed(filler *f, const crn_batch_column *c, crn_batch_array *a, crn_err *err) {
  const crn_data_key *k = crn_dataset_key(f->ds, c->key);
  int64_t B = f->joined ? 1 : (int64_t)f->n_pieces, size = 1;
  a->rank = k->rank + 1;
  a->shape[0] = B;
  for (int i = 0; i < k->rank; i++) size *= a->shape[i + 1] = k->shape[i];
  CRN_TRY(alloc_array(f, a, err));
  for (int64_t b = 0; b < B; b++) {
    const crn_piece *p = &f->pieces[f->joined ? f->n_pieces - 1 : (size_t)b];
    CRN_TRY(crn_dataset_read(f->ds, p->seq, c->key, 0, 1, f->scratch, err));
    if (f->scratch->n != size)
      return crn_fail(err, CRN_E_DATA, "key '%s': expected %lld numbers per sequence, got %lld", k->name,
                      (long long)size, (long long)f->scratch->n);
    CRN_TRY(copy_elements(f, a, 0, b * size, size, err));
  }
  return CRN_OK;
}

/* Tags, indices and starts of the entries. */
static crn_status fill_names(filler *f, crn_err *err) {
  crn_batch *b = f->batch;
  b->n_seqs = f->joined ? 1 : (int64_t)f->n_pieces;
  b->seq_idx = CRN_ARENA_ARRAY(&b->arena, int64_t, b->n_seqs);
  b->start = CRN_ARENA_ARRAY(&b->arena, int64_t, b->n_seqs);
  b->tags = CRN_ARENA_ARRAY(&b->arena, const char *, b->n_seqs);
  if (b->arena.failed) return crn_err_memory(err);
  for (int64_t i = 0; i < b->n_seqs; i++) {
    const crn_piece *p = &f->pieces[f->joined ? f->n_pieces - 1 : (size_t)i];
    const char *tag;
    CRN_TRY(crn_dataset_tag(f->ds, p->seq, &tag, err));
    b->tags[i] = crn_arena_strdup(&b->arena, tag);
    if (!b->tags[i]) return crn_err_memory(err);
    b->seq_idx[i] = p->seq;
    b->start[i] = p->first;
  }
  return CRN_OK;
}

static crn_status fill_all(filler *f, const crn_batch_column *columns, size_t n, crn_err *err) {
  CRN_TRY(fill_names(f, err));
  f->batch->n_arrays = n;
  f->batch->arrays = CRN_ARENA_ARRAY(&f->batch->arena, crn_batch_array, n ? n : 1);
  if (!f->batch->arrays) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) {
    crn_batch_array *a = &f->batch->arrays[i];
    const crn_data_key *k = crn_dataset_key(f->ds, columns[i].key);
    a->name = crn_arena_strdup(&f->batch->arena, k->name);
    a->dtype = columns[i].want.dtype != CRN_NT_NONE ? columns[i].want.dtype : k->dtype;
    if (!a->name) return crn_err_memory(err);
    CRN_TRY(columns[i].has_time ? fill_timed(f, &columns[i], i, a, err) : fill_untimed(f, &columns[i], a, err));
  }
  return CRN_OK;
}

crn_status crn_batch_fill(crn_dataset *ds, const crn_batch_column *columns, size_t n_columns, const crn_piece *pieces,
                          size_t n_pieces, bool joined, crn_array *scratch, crn_batch **out, crn_err *err) {
  crn_batch *b = *out ? *out : crn_calloc(1, sizeof *b);
  *out = NULL;
  if (!b) return crn_err_memory(err);
  crn_arena_reset(&b->arena);
  *b = (crn_batch){.arena = b->arena};
  filler f = {.ds = ds, .pieces = pieces, .n_pieces = n_pieces, .joined = joined, .scratch = scratch, .batch = b};
  crn_status code = fill_all(&f, columns, n_columns, err);
  if (code == CRN_OK)
    *out = b;
  else
    crn_batch_free(b);
  return code;
}
