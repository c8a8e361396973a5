/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a checkpoint's files, and finding the checkpoint that a person means.
 */
#ifndef CRN_CKPT_PATH_H
#define CRN_CKPT_PATH_H

#include "base/arena.h"
#include "base/status.h"

/* PREFIX.index and PREFIX.data-SSSSS-of-NNNNN, in the arena; NULL when memory is out. */
char *crn_ckpt_index_path(crn_arena *a, const char *prefix);
char *crn_ckpt_data_path(crn_arena *a, const char *prefix, int32_t shard, int32_t n_shards);
/* path without .index, .meta or .data-SSSSS-of-NNNNN; the same text if it has none of them. */
char *crn_ckpt_strip_suffix(crn_arena *a, const char *path);

/* The prefix that path means: itself, path without a suffix, or the last checkpoint of a directory. The error lists
 * every path tried and what checkpoints the directory has. */
crn_status crn_ckpt_find(crn_arena *a, const char *path, const char **prefix, crn_err *err);

#endif
