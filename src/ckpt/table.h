/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted string table: the container of a checkpoint's index. A file of blocks, each with prefix-compressed items and a
 * checksum, an index block and a footer:
 *
 *   data block …  | meta index block (empty) | index block | footer (48 bytes)
 *   block:  item …, restart offsets (u32 each), number of restarts (u32); then type (u8: 0 plain, 1 snappy) and
 *           masked CRC-32C of block and type (u32)
 *   item:   shared, unshared, value length (varints), unshared key bytes, value;  shared = bytes in common with the key
 *           before; 0 at every 16th item (a restart)
 *   index:  key ≥ all keys of the block -> offset and size (varints) of the block
 *   footer: offset and size of meta index and index, zeros up to 40 bytes, magic number (u64)
 */
#ifndef CRN_CKPT_TABLE_H
#define CRN_CKPT_TABLE_H

#include "base/arena.h"
#include "base/str.h"

#define CRN_TABLE_FOOTER_BYTES 48

typedef struct crn_table_item {
  const char *key; /* NUL-terminated, but may hold NULs itself */
  size_t key_len;
  const uint8_t *value;
  size_t value_len;
} crn_table_item;

typedef struct crn_table_items {
  crn_table_item *at; /* in ascending order of keys, no key twice */
  size_t n;
} crn_table_items;

/* All items of a table; keys and the array lie in the arena, values there or in bytes (so keep both).
 * CRN_E_FORMAT: no table, cut, or damaged. */
crn_status crn_table_read(crn_arena *a, const uint8_t *bytes, size_t n, crn_table_items *out, crn_err *err);
/* True if the bytes end like a table. */
bool crn_table_has_magic(const uint8_t *bytes, size_t n);

/* Append the table with these items (keys ascending, which is not checked) to out, byte for byte as TensorFlow does. */
void crn_table_write(const crn_table_item *items, size_t n, crn_str *out);

#endif
