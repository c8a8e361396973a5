/* SPDX-License-Identifier: Apache-2.0
 *
 * The two messages of an index, header and variable, between their protobuf form and plain structs. The only file that
 * sees the protobuf library.
 */
#ifndef CRN_CKPT_ENTRY_H
#define CRN_CKPT_ENTRY_H

#include "ckpt/bundle.h"
#include "ckpt/table.h"

typedef struct crn_bundle_header {
  int32_t n_shards;
  bool big_endian;
} crn_bundle_header;

crn_status crn_header_parse(const crn_table_item *item, crn_bundle_header *out, crn_err *err);
/* The struct's arrays lie in the arena, its name is the item's key. Checks what doesn't need other entries: rank,
 * sizes, number of elements, that size_bytes fits the type. */
crn_status crn_entry_parse(crn_arena *a, const crn_table_item *item, crn_bundle_entry *out, crn_err *err);

/* Append the message's bytes. */
void crn_header_pack(int32_t n_shards, crn_str *out);
void crn_entry_pack(const crn_bundle_entry *e, crn_str *out);

#endif
