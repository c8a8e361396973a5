/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing of checkpoints: variables are collected, sorted by name, laid out one behind the other in a single data file
 * and described in the index, as TensorFlow's saver does (same order, same bytes). commit.c puts the files in place.
 */
#include "ckpt/bundle.h"

#include "base/map.h"
#include "ckpt/commit.h"
#include "ckpt/crc32c.h"
#include "ckpt/entry.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 65535 };

typedef struct pending {
  crn_bundle_entry entry;
  const void *data;
} pending;

struct crn_bundle_writer {
  crn_arena arena;
  crn_map names; /* of variables; finds doubles */
  crn_save_opts opts;
  const char *prefix;
  pending *vars; /* in order of adding until finish sorts them */
  size_t n, cap;
};

crn_status crn_bundle_begin(const char *prefix, const crn_save_opts *opts, crn_bundle_writer **out, crn_err *err) {
  *out = NULL;
  const char *slash = strrchr(prefix, '/');
  if ((slash ? slash[1] : prefix[0]) == 0)
    return crn_fail(err, CRN_E_FILE, "checkpoint prefix '%s' has no file name", prefix);
  crn_bundle_writer *w = crn_calloc(1, sizeof *w);
  if (!w) return crn_err_memory(err);
  w->opts = opts ? *opts : crn_save_defaults();
  w->prefix = crn_arena_strdup(&w->arena, prefix);
  if (!w->prefix) {
    crn_bundle_writer_free(w);
    return crn_err_memory(err);
  }
  *out = w;
  return CRN_OK;
}

void crn_bundle_writer_free(crn_bundle_writer *w) {
  if (!w) return;
  crn_map_free(&w->names);
  crn_free(w->vars);
  crn_arena_free(&w->arena);
  crn_free(w);
}

static crn_status check_new(const crn_bundle_writer *w, const char *name, int dtype, int rank, const int64_t *shape,
                            const void *data, int64_t *n_elements, crn_err *err) {
  size_t length = strlen(name);
  if (length == 0 || length > MAX_NAME)
    return crn_fail(err, CRN_E_DATA, "name of %zu characters (1 to %d allowed)", length, MAX_NAME);
  if (crn_map_has(&w->names, name)) return crn_fail(err, CRN_E_DATA, "added twice");
  if (crn_tf_dtype_bytes(dtype) == 0)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: writing values of type %s (number %d)",
                    crn_tf_dtype_name(dtype), dtype);
  if (rank < 0 || rank > CRN_BUNDLE_MAX_RANK)
    return crn_fail(err, CRN_E_DATA, "%d axes (0 to %d allowed)", rank, CRN_BUNDLE_MAX_RANK);
  *n_elements = 1;
  for (int i = 0; i < rank; i++)
    if (shape[i] < 0 || __builtin_mul_overflow(*n_elements, shape[i], n_elements) || *n_elements > INT64_MAX / 16)
      return crn_fail(err, CRN_E_DATA, "axis %d of size %lld", i, (long long)shape[i]);
  if (!data && *n_elements > 0) return crn_fail(err, CRN_E_DATA, "no values given");
  return CRN_OK;
}

static crn_status make_room(crn_bundle_writer *w, crn_err *err) {
  if (w->n < w->cap) return CRN_OK;
  size_t cap = w->cap ? 2 * w->cap : 64;
  pending *grown = crn_realloc(w->vars, cap * sizeof *grown);
  if (!grown) return crn_err_memory(err);
  w->vars = grown;
  w->cap = cap;
  return CRN_OK;
}

crn_status crn_bundle_add(crn_bundle_writer *w, const char *name, int dtype, int rank, const int64_t *shape,
                          const void *data, crn_err *err) {
  int64_t n_elements = 0;
  if (check_new(w, name, dtype, rank, shape, data, &n_elements, err) != CRN_OK)
    return crn_err_where(err, "variable '%s'", name);
  CRN_TRY(make_room(w, err));
  const char *own_name = crn_arena_strdup(&w->arena, name);
  int64_t *own_shape = CRN_ARENA_ARRAY(&w->arena, int64_t, rank ? rank : 1);
  if (!own_name || !own_shape || crn_map_set(&w->names, name, w) != CRN_OK) return crn_err_memory(err);
  for (int i = 0; i < rank; i++) own_shape[i] = shape[i];
  w->vars[w->n++] = (pending){{.name = own_name,
                               .dtype = dtype,
                               .rank = rank,
                               .shape = own_shape,
                               .n_elements = n_elements,
                               .size_bytes = n_elements * (int64_t)crn_tf_dtype_bytes(dtype)},
                              data};
  return CRN_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const pending *)a)->entry.name, ((const pending *)b)->entry.name);
}

/* Sort, give each variable its place and checksum. */
static void lay_out(crn_bundle_writer *w, crn_span *spans) {
  if (w->n) qsort(w->vars, w->n, sizeof w->vars[0], by_name);
  int64_t offset = 0;
  for (size_t i = 0; i < w->n; i++) {
    crn_bundle_entry *e = &w->vars[i].entry;
    size_t bytes = (size_t)e->size_bytes;
    e->offset = offset;
    e->masked_crc = crn_crc32c_mask(bytes ? crn_crc32c(w->vars[i].data, bytes) : 0);
    spans[i] = (crn_span){w->vars[i].data, bytes};
    offset += e->size_bytes;
  }
}

static crn_status build_index(void *arg, int32_t n_shards, crn_str *out, crn_err *err) {
  const crn_bundle_writer *w = arg;
  crn_str values = {0}; /* all messages, one behind the other */
  crn_table_item *items = crn_calloc(w->n + 1, sizeof *items);
  if (!items) return crn_err_memory(err);
  items[0].key = "";
  crn_header_pack(n_shards, &values);
  items[0].value_len = values.len;
  for (size_t i = 0; i < w->n; i++) {
    const crn_bundle_entry *e = &w->vars[i].entry;
    size_t start = values.len;
    crn_entry_pack(e, &values);
    items[i + 1] = (crn_table_item){.key = e->name, .key_len = strlen(e->name), .value_len = values.len - start};
  }
  const uint8_t *p = (const uint8_t *)crn_str_get(&values);
  for (size_t i = 0; i <= w->n; p += items[i].value_len, i++) items[i].value = p;
  bool good = crn_str_ok(&values);
  if (good) crn_table_write(items, w->n + 1, out);
  good = good && crn_str_ok(out);
  crn_str_free(&values);
  crn_free(items);
  return good ? CRN_OK : crn_err_memory(err);
}

crn_status crn_bundle_finish(crn_bundle_writer *w, crn_err *err) {
  crn_span *spans = crn_calloc(w->n + 1, sizeof *spans);
  if (!spans) return crn_err_memory(err);
  lay_out(w, spans);
  crn_commit c = {.prefix = w->prefix, .data = spans, .n_data = w->n, .build_index = build_index, .arg = w};
  char *what = crn_arena_printf(&w->arena, "checkpoint '%s'", w->prefix);
  crn_status status = what ? crn_retry(&w->opts, what, crn_commit_attempt, &c, err) : crn_err_memory(err);
  crn_free(spans);
  return status;
}
