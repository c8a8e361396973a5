/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a bundle and reading variables. The index is read whole and parsed at once; data files are opened at once
 * (so that the bundle stays what it was when somebody overwrites the checkpoint), values are read when asked for.
 */
#include "ckpt/bundle.h"

#include "ckpt/bundle_internal.h"
#include "ckpt/crc32c.h"
#include "ckpt/entry.h"
#include "ckpt/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* TensorFlow numbers shards with five digits; more is damage. */
#define MAX_SHARDS 100000

static crn_status parse_item(crn_bundle *b, const crn_table_item *item, crn_err *err) {
  bool is_piece = item->key[0] == 0;
  if (!is_piece && strlen(item->key) != item->key_len)
    return crn_fail(err, CRN_E_FORMAT, "damaged index: a variable's name has a NUL character");
  crn_bundle_entry *e = is_piece ? &b->pieces[b->n_pieces] : &b->entries[b->n_entries];
  if (crn_entry_parse(&b->arena, item, e, err) != CRN_OK)
    return crn_err_where(err, "%s", is_piece ? "slice of a variable" : item->key);
  if (e->n_slices == 0 && e->shard >= b->n_shards)
    return crn_fail(err, CRN_E_FORMAT, "damaged index: '%s' is in shard %d of %d", is_piece ? "slice" : item->key,
                    e->shard, b->n_shards);
  if (is_piece)
    b->piece_keys[b->n_pieces++] = *item;
  else
    b->n_entries++;
  return CRN_OK;
}

static crn_status parse_index(crn_bundle *b, const char *path, crn_err *err) {
  const uint8_t *bytes;
  size_t n;
  crn_table_items items;
  crn_bundle_header header;
  CRN_TRY(crn_ckpt_read_file(&b->arena, path, &bytes, &n, err));
  CRN_TRY(crn_table_read(&b->arena, bytes, n, &items, err));
  if (items.n == 0 || items.at[0].key_len != 0)
    return crn_fail(err, CRN_E_FORMAT, "no checkpoint index: it has no header");
  CRN_TRY(crn_header_parse(&items.at[0], &header, err));
  if (header.big_endian)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: checkpoint of a big-endian machine");
  if (header.n_shards > MAX_SHARDS)
    return crn_fail(err, CRN_E_FORMAT, "damaged index: %d shards (at most %d)", header.n_shards, MAX_SHARDS);
  b->n_shards = header.n_shards;
  b->entries = CRN_ARENA_ARRAY(&b->arena, crn_bundle_entry, items.n);
  b->pieces = CRN_ARENA_ARRAY(&b->arena, crn_bundle_entry, items.n);
  b->piece_keys = CRN_ARENA_ARRAY(&b->arena, crn_table_item, items.n);
  if (!b->entries || !b->pieces || !b->piece_keys) return crn_err_memory(err);
  for (size_t i = 1; i < items.n; i++) CRN_TRY(parse_item(b, &items.at[i], err));
  return CRN_OK;
}

static crn_status open_shard(crn_bundle *b, const crn_bundle_entry *e, crn_err *err) {
  crn_bundle_shard *s = &b->shards[e->shard];
  if (s->path || e->n_slices > 0) return CRN_OK;
  s->path = crn_ckpt_data_path(&b->arena, b->prefix, e->shard, b->n_shards);
  if (!s->path) return crn_err_memory(err);
  s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
  s->error = s->fd < 0 ? errno : 0; /* told when somebody reads from it: the rest may be of use */
  struct stat st;
  if (s->fd >= 0 && fstat(s->fd, &st) == 0) s->bytes = st.st_size;
  return CRN_OK;
}

static crn_status open_shards(crn_bundle *b, crn_err *err) {
  b->shards = CRN_ARENA_ARRAY(&b->arena, crn_bundle_shard, b->n_shards ? b->n_shards : 1);
  if (!b->shards) return crn_err_memory(err);
  for (int32_t i = 0; i < b->n_shards; i++) b->shards[i].fd = -1;
  for (size_t i = 0; i < b->n_entries; i++) CRN_TRY(open_shard(b, &b->entries[i], err));
  for (size_t i = 0; i < b->n_pieces; i++) CRN_TRY(open_shard(b, &b->pieces[i], err));
  return CRN_OK;
}

static crn_status open_bundle(crn_bundle *b, const char *path, crn_err *err) {
  CRN_TRY(crn_ckpt_find(&b->arena, path, &b->prefix, err));
  char *index = crn_ckpt_index_path(&b->arena, b->prefix);
  if (!index) return crn_err_memory(err);
  if (parse_index(b, index, err) != CRN_OK) return crn_err_where(err, "%s", index);
  return open_shards(b, err);
}

crn_status crn_bundle_open(const char *path, crn_bundle **out, crn_err *err) {
  *out = NULL;
  crn_bundle *b = crn_calloc(1, sizeof *b);
  if (!b) return crn_err_memory(err);
  crn_status status = open_bundle(b, path, err);
  if (status != CRN_OK) {
    crn_bundle_free(b);
    return status;
  }
  *out = b;
  return CRN_OK;
}

void crn_bundle_free(crn_bundle *b) {
  if (!b) return;
  for (int32_t i = 0; b->shards && i < b->n_shards; i++)
    if (b->shards[i].fd >= 0) close(b->shards[i].fd);
  crn_arena_free(&b->arena);
  crn_free(b);
}

const char *crn_bundle_prefix(const crn_bundle *b) { return b->prefix; }
int crn_bundle_shards(const crn_bundle *b) { return b->n_shards; }
size_t crn_bundle_count(const crn_bundle *b) { return b->n_entries; }
const crn_bundle_entry *crn_bundle_at(const crn_bundle *b, size_t i) {
  return i < b->n_entries ? &b->entries[i] : NULL;
}

/* Index of the first entry whose name isn't below name. */
static size_t lower_bound(const crn_bundle *b, const char *name) {
  size_t low = 0, high = b->n_entries;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(b->entries[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const crn_bundle_entry *crn_bundle_find(const crn_bundle *b, const char *name) {
  size_t i = lower_bound(b, name);
  return i < b->n_entries && strcmp(b->entries[i].name, name) == 0 ? &b->entries[i] : NULL;
}

const crn_bundle_entry *crn_bundle_find_prefix(const crn_bundle *b, const char *prefix, size_t *n) {
  size_t first = lower_bound(b, prefix), last = first;
  while (last < b->n_entries && crn_starts_with(b->entries[last].name, prefix)) last++;
  *n = last - first;
  return *n ? &b->entries[first] : NULL;
}

const char *crn_bundle_describe(const crn_bundle_entry *e, crn_str *buffer) {
  crn_str_clear(buffer);
  if (crn_tf_dtype_bytes(e->dtype) > 0 || e->dtype == CRN_TF_STRING)
    crn_str_addf(buffer, "%s [", crn_tf_dtype_name(e->dtype));
  else
    crn_str_addf(buffer, "type %d [", e->dtype);
  for (int i = 0; i < e->rank; i++) crn_str_addf(buffer, "%s%lld", i ? "," : "", (long long)e->shape[i]);
  crn_str_addc(buffer, ']');
  return crn_str_get(buffer);
}

crn_status crn_bundle_check_place(const crn_bundle *b, const crn_bundle_entry *e, crn_err *err) {
  const crn_bundle_shard *s = &b->shards[e->shard];
  if (s->fd < 0) return crn_fail_errno(err, "open", s->path, s->error);
  if (e->offset + e->size_bytes > s->bytes)
    return crn_fail(err, CRN_E_FORMAT, "'%s' is cut: it has %lld bytes, at least %lld expected", s->path,
                    (long long)s->bytes, (long long)(e->offset + e->size_bytes));
  return CRN_OK;
}

crn_status crn_bundle_read_bytes(const crn_bundle *b, const crn_bundle_entry *e, void *dst, crn_err *err) {
  CRN_TRY(crn_bundle_check_place(b, e, err));
  const crn_bundle_shard *s = &b->shards[e->shard];
  return crn_ckpt_file_pread(s->fd, s->path, e->offset, dst, (size_t)e->size_bytes, err);
}

crn_status crn_bundle_read_plain(const crn_bundle *b, const crn_bundle_entry *e, void *dst, crn_err *err) {
  CRN_TRY(crn_bundle_read_bytes(b, e, dst, err));
  if (crn_crc32c(dst, (size_t)e->size_bytes) != crn_crc32c_unmask(e->masked_crc))
    return crn_fail(err, CRN_E_FORMAT, "wrong checksum: '%s' is damaged", b->shards[e->shard].path);
  return CRN_OK;
}

static crn_status read_values(const crn_bundle *b, const crn_bundle_entry *e, void *dst, size_t dst_bytes,
                              crn_err *err) {
  size_t element_bytes = crn_tf_dtype_bytes(e->dtype);
  if (element_bytes == 0)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: reading values of type %s (number %d)",
                    crn_tf_dtype_name(e->dtype), e->dtype);
  size_t bytes = (size_t)e->n_elements * element_bytes;
  if (dst_bytes != bytes)
    return crn_fail(err, CRN_E_INTERNAL, "buffer of %zu bytes for %zu bytes of values", dst_bytes, bytes);
  if (e->n_slices > 0) return crn_bundle_read_sliced(b, e, dst, err);
  return crn_bundle_read_plain(b, e, dst, err);
}

crn_status crn_bundle_read(const crn_bundle *b, const crn_bundle_entry *e, void *dst, size_t dst_bytes, crn_err *err) {
  if (read_values(b, e, dst, dst_bytes, err) != CRN_OK) return crn_err_where(err, "variable '%s'", e->name);
  return CRN_OK;
}
