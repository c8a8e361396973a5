/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading of sorted string tables. Tables are read whole: an index has a few hundred items. Every length comes from the
 * file and is checked before use; every block's checksum is checked.
 */
#include "ckpt/table.h"

#include "ckpt/crc32c.h"
#include "ckpt/snappy.h"
#include "ckpt/wire.h"

#define TABLE_MAGIC 0xdb4775248b80fb57u
#define BLOCK_TRAILER_BYTES 5
/* Keys are variable names. The bound keeps a crafted file of shared prefixes from asking for unbounded memory. */
#define MAX_KEY_BYTES 65535

typedef struct block {
  const uint8_t *p; /* items, without restart array and trailer */
  size_t n;
} block;

typedef struct reader {
  crn_arena *arena;
  const uint8_t *bytes;
  size_t n; /* without the footer */
  crn_table_items items;
  size_t cap;
  crn_err *err;
} reader;

static crn_status read_handle(reader *r, crn_cursor *c, uint64_t *offset, uint64_t *size) {
  *offset = crn_cursor_varint(c);
  *size = crn_cursor_varint(c);
  if (c->bad || r->n < BLOCK_TRAILER_BYTES || *size > r->n - BLOCK_TRAILER_BYTES ||
      *offset > r->n - BLOCK_TRAILER_BYTES - *size)
    return crn_fail(r->err, CRN_E_FORMAT, "damaged table: a block lies outside the file");
  return CRN_OK;
}

static crn_status read_block(reader *r, uint64_t offset, uint64_t size, block *out) {
  const uint8_t *p = r->bytes + offset;
  size_t n = (size_t)size;
  uint32_t stored = crn_crc32c_unmask(crn_get_fixed32(p + n + 1));
  if (crn_crc32c(p, n + 1) != stored)
    return crn_fail(r->err, CRN_E_FORMAT, "damaged table: wrong checksum of the block at byte %llu",
                    (unsigned long long)offset);
  uint8_t type = p[n];
  if (type == 1)
    CRN_TRY(crn_snappy_read(r->arena, p, n, &p, &n, r->err));
  else if (type != 0)
    return crn_fail(r->err, CRN_E_FORMAT, "table block of unknown type %d (known: 0 plain, 1 snappy)", type);
  if (n < 4) return crn_fail(r->err, CRN_E_FORMAT, "damaged table: block without restarts");
  uint32_t n_restarts = crn_get_fixed32(p + n - 4);
  if (n_restarts > (n - 4) / 4) return crn_fail(r->err, CRN_E_FORMAT, "damaged table: too many restarts in a block");
  *out = (block){p, n - 4 - 4 * (size_t)n_restarts};
  return CRN_OK;
}

/* The next item of a block; last is the key before. The new key is in the arena. */
static crn_status read_item(reader *r, crn_cursor *c, const crn_table_item *last, crn_table_item *out) {
  uint64_t shared = crn_cursor_varint(c), unshared = crn_cursor_varint(c), value_len = crn_cursor_varint(c);
  const uint8_t *tail = crn_cursor_bytes(c, unshared);
  const uint8_t *value = crn_cursor_bytes(c, value_len);
  if (c->bad || shared > last->key_len) return crn_fail(r->err, CRN_E_FORMAT, "damaged table: bad item in a block");
  if (shared + unshared > MAX_KEY_BYTES)
    return crn_fail(r->err, CRN_E_FORMAT, "table key of %llu bytes (at most %d)",
                    (unsigned long long)(shared + unshared), MAX_KEY_BYTES);
  char *key = crn_arena_alloc(r->arena, (size_t)(shared + unshared) + 1);
  if (!key) return crn_err_memory(r->err);
  if (shared) memcpy(key, last->key, shared);
  if (unshared) memcpy(key + shared, tail, unshared);
  *out = (crn_table_item){key, (size_t)(shared + unshared), value, (size_t)value_len};
  return CRN_OK;
}

static int compare_keys(const crn_table_item *a, const crn_table_item *b) {
  size_t n = a->key_len < b->key_len ? a->key_len : b->key_len;
  int order = n ? memcmp(a->key, b->key, n) : 0;
  return order ? order : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

static crn_status keep_item(reader *r, const crn_table_item *item) {
  crn_table_items *items = &r->items;
  if (items->n > 0 && compare_keys(&items->at[items->n - 1], item) >= 0)
    return crn_fail(r->err, CRN_E_FORMAT, "damaged table: keys out of order at '%s'", item->key);
  if (items->n == r->cap) {
    size_t cap = r->cap ? 2 * r->cap : 64;
    crn_table_item *grown = CRN_ARENA_ARRAY(r->arena, crn_table_item, cap);
    if (!grown) return crn_err_memory(r->err);
    if (items->n) memcpy(grown, items->at, items->n * sizeof *grown);
    items->at = grown;
    r->cap = cap;
  }
  items->at[items->n++] = *item;
  return CRN_OK;
}

static crn_status read_data_block(reader *r, const crn_table_item *index_item) {
  crn_cursor handle = {index_item->value, index_item->value + index_item->value_len, false};
  uint64_t offset, size;
  block b;
  CRN_TRY(read_handle(r, &handle, &offset, &size));
  CRN_TRY(read_block(r, offset, size, &b));
  crn_cursor c = {b.p, b.p + b.n, false};
  crn_table_item item = {"", 0, NULL, 0};
  while (crn_cursor_left(&c) > 0) {
    CRN_TRY(read_item(r, &c, &item, &item));
    CRN_TRY(keep_item(r, &item));
  }
  return CRN_OK;
}

bool crn_table_has_magic(const uint8_t *bytes, size_t n) {
  return n >= CRN_TABLE_FOOTER_BYTES && crn_get_fixed64(bytes + n - 8) == TABLE_MAGIC;
}

crn_status crn_table_read(crn_arena *a, const uint8_t *bytes, size_t n, crn_table_items *out, crn_err *err) {
  *out = (crn_table_items){NULL, 0};
  if (n < CRN_TABLE_FOOTER_BYTES)
    return crn_fail(err, CRN_E_FORMAT, "no checkpoint index: %zu bytes, at least %d expected (file cut?)", n,
                    CRN_TABLE_FOOTER_BYTES);
  if (!crn_table_has_magic(bytes, n))
    return crn_fail(err, CRN_E_FORMAT, "no checkpoint index: it doesn't end with the table's magic number (file cut?)");
  reader r = {.arena = a, .bytes = bytes, .n = n - CRN_TABLE_FOOTER_BYTES, .err = err};
  crn_cursor footer = {bytes + r.n, bytes + n - 8, false};
  uint64_t offset, size;
  block index;
  CRN_TRY(read_handle(&r, &footer, &offset, &size)); /* meta index: nothing of interest, but it must be whole */
  CRN_TRY(read_block(&r, offset, size, &index));
  CRN_TRY(read_handle(&r, &footer, &offset, &size));
  CRN_TRY(read_block(&r, offset, size, &index));
  crn_cursor c = {index.p, index.p + index.n, false};
  crn_table_item item = {"", 0, NULL, 0};
  while (crn_cursor_left(&c) > 0) {
    CRN_TRY(read_item(&r, &c, &item, &item));
    CRN_TRY(read_data_block(&r, &item));
  }
  *out = r.items;
  return CRN_OK;
}
