/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that make up the bundle reader share.
 */
#ifndef CRN_CKPT_BUNDLE_INTERNAL_H
#define CRN_CKPT_BUNDLE_INTERNAL_H

#include "ckpt/bundle.h"
#include "ckpt/table.h"

typedef struct crn_bundle_shard {
  const char *path; /* NULL: no entry needs it */
  int fd;           /* -1: couldn't be opened */
  int error;        /* then: why */
  int64_t bytes;    /* size of the file */
} crn_bundle_shard;

struct crn_bundle {
  crn_arena arena;
  const char *prefix;
  int32_t n_shards;
  crn_bundle_shard *shards;  /* n_shards of them */
  crn_bundle_entry *entries; /* variables, sorted by name */
  size_t n_entries;
  crn_bundle_entry *pieces; /* slices of partitioned variables, sorted by key */
  crn_table_item *piece_keys;
  size_t n_pieces;
};

/* The entry's data lie inside its file. Ask before making a buffer of a size that the index claims. */
crn_status crn_bundle_check_place(const crn_bundle *b, const crn_bundle_entry *e, crn_err *err);
/* All bytes of an entry that isn't partitioned, unchecked. */
crn_status crn_bundle_read_bytes(const crn_bundle *b, const crn_bundle_entry *e, void *dst, crn_err *err);
/* The same, checksum checked. */
crn_status crn_bundle_read_plain(const crn_bundle *b, const crn_bundle_entry *e, void *dst, crn_err *err);
/* A partitioned variable, joined. dst has n_elements elements. */
crn_status crn_bundle_read_sliced(const crn_bundle *b, const crn_bundle_entry *e, void *dst, crn_err *err);

#endif
