/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing of sorted string tables with TensorFlow's settings (blocks of 256 KiB, a restart every 16 items, no
 * compression), so that the same items give the same bytes.
 */
#include "ckpt/table.h"

#include "ckpt/crc32c.h"
#include "ckpt/wire.h"

#define TABLE_MAGIC 0xdb4775248b80fb57u
#define BLOCK_BYTES 262144
#define RESTART_INTERVAL 16

typedef struct block_builder {
  crn_str bytes;
  crn_str restarts; /* offsets as they will be stored */
  uint32_t n_restarts;
  int interval, since_restart;
  const char *last_key; /* lent; only of items in this block */
  size_t last_len;
} block_builder;

typedef struct handle {
  uint64_t offset, size;
} handle;

static void block_begin(block_builder *b, int interval) {
  crn_str_clear(&b->bytes);
  crn_str_clear(&b->restarts);
  crn_put_fixed32(&b->restarts, 0);
  b->n_restarts = 1;
  b->interval = interval;
  b->since_restart = 0;
  b->last_len = 0;
}

static size_t common_prefix(const char *a, size_t a_len, const char *b, size_t b_len) {
  size_t n = a_len < b_len ? a_len : b_len, i = 0;
  while (i < n && a[i] == b[i]) i++;
  return i;
}

static void block_add(block_builder *b, const char *key, size_t key_len, const void *value, size_t value_len) {
  size_t shared = 0;
  if (b->since_restart < b->interval) {
    shared = common_prefix(b->last_key, b->last_len, key, key_len);
  } else {
    crn_put_fixed32(&b->restarts, (uint32_t)b->bytes.len);
    b->n_restarts++;
    b->since_restart = 0;
  }
  crn_put_varint(&b->bytes, shared);
  crn_put_varint(&b->bytes, key_len - shared);
  crn_put_varint(&b->bytes, value_len);
  crn_str_addn(&b->bytes, key + shared, key_len - shared);
  crn_str_addn(&b->bytes, value, value_len);
  b->last_key = key;
  b->last_len = key_len;
  b->since_restart++;
}

static size_t block_size(const block_builder *b) { return b->bytes.len + b->restarts.len + 4; }

/* Append the finished block with its trailer to the file. */
static handle block_end(block_builder *b, crn_str *file) {
  crn_str_addn(&b->bytes, b->restarts.p, b->restarts.len);
  crn_put_fixed32(&b->bytes, b->n_restarts);
  handle h = {file->len, b->bytes.len};
  crn_str_addc(&b->bytes, 0); /* type: plain */
  uint32_t crc = b->bytes.p ? crn_crc32c(b->bytes.p, b->bytes.len) : 0;
  crn_put_fixed32(&b->bytes, crn_crc32c_mask(crc));
  crn_str_addn(file, b->bytes.p, b->bytes.len);
  if (b->bytes.failed || b->restarts.failed) file->failed = true;
  return h;
}

static void put_handle(crn_str *s, handle h) {
  crn_put_varint(s, h.offset);
  crn_put_varint(s, h.size);
}

/* A short key k with last ≤ k < next (next NULL: the end of the table): cut after the first byte that can be raised. */
static void separator(const crn_table_item *last, const crn_table_item *next, crn_str *out) {
  crn_str_clear(out);
  size_t at = 0;
  bool raise = false;
  if (next) {
    at = common_prefix(last->key, last->key_len, next->key, next->key_len);
    if (at < last->key_len && at < next->key_len) {
      uint8_t byte = (uint8_t)last->key[at];
      raise = byte < 0xff && byte + 1 < (uint8_t)next->key[at];
    }
  } else {
    while (at < last->key_len && (uint8_t)last->key[at] == 0xff) at++;
    raise = at < last->key_len;
  }
  if (!raise) {
    crn_str_addn(out, last->key, last->key_len);
    return;
  }
  crn_str_addn(out, last->key, at);
  crn_str_addc(out, (char)(uint8_t)((uint8_t)last->key[at] + 1));
}

/* A block of the index: one item, kept until all data blocks are written (its key must stay for prefix compression). */
static void add_index_item(block_builder *index, const crn_table_item *last, const crn_table_item *next, handle h,
                           crn_str *key, crn_str *value) {
  separator(last, next, key);
  crn_str_clear(value);
  put_handle(value, h);
  block_add(index, crn_str_get(key), key->len, crn_str_get(value), value->len);
}

void crn_table_write(const crn_table_item *items, size_t n, crn_str *out) {
  size_t start = out->len;
  block_builder data = {0}, index = {0};
  crn_str key = {0}, value = {0}, file = {0};
  block_begin(&data, RESTART_INTERVAL);
  block_begin(&index, 1); /* every item is a restart: no prefixes are shared */
  for (size_t i = 0; i < n; i++) {
    block_add(&data, items[i].key, items[i].key_len, items[i].value, items[i].value_len);
    if (block_size(&data) < BLOCK_BYTES && i + 1 < n) continue;
    handle h = block_end(&data, &file);
    add_index_item(&index, &items[i], i + 1 < n ? &items[i + 1] : NULL, h, &key, &value);
    block_begin(&data, RESTART_INTERVAL);
  }
  handle meta_handle = block_end(&data, &file); /* a fresh, empty block */
  handle index_handle = block_end(&index, &file);
  size_t footer = file.len;
  put_handle(&file, meta_handle);
  put_handle(&file, index_handle);
  while (file.len < footer + CRN_TABLE_FOOTER_BYTES - 8 && !file.failed) crn_str_addc(&file, 0);
  crn_put_fixed64(&file, TABLE_MAGIC);
  crn_str_addn(out, file.p, file.len);
  if (file.failed || key.failed || value.failed || out->len != start + file.len) out->failed = true;
  crn_str_free(&data.bytes);
  crn_str_free(&data.restarts);
  crn_str_free(&index.bytes);
  crn_str_free(&index.restarts);
  crn_str_free(&key);
  crn_str_free(&value);
  crn_str_free(&file);
}
