/* SPDX-License-Identifier: Apache-2.0
 *
 * Between batch.c, batch_fill.c and batch_options.c; not for other files.
 */
#ifndef CRN_DATA_BATCH_RULES_H
#define CRN_DATA_BATCH_RULES_H

#include "data/batch.h"
#include "data/chunk.h"

/* The limit of a key in a number-or-dict option; none if there is no limit. */
double crn_batch_limit(const crn_value *v, const char *key, double none);
double crn_batch_max_length(const crn_batch_options *o, const char *key, int64_t epoch);

/* A piece of a sequence: [start, end) for every key of the batch, context included, so start may be negative and end
 * beyond the sequence. */
typedef struct crn_piece {
  int64_t seq;
  int64_t start[CRN_CHUNK_MAX_KEYS], end[CRN_CHUNK_MAX_KEYS];
  int64_t first; /* start without context of the key that determines the chunks */
} crn_piece;

typedef struct crn_batch_column { /* a key of the batch */
  crn_batch_key want;
  size_t key; /* in the dataset */
  bool has_time;
} crn_batch_column;

/* Make a batch of these pieces: one entry each, or all joined into one. *out is NULL or a batch to use again. */
crn_status crn_batch_fill(crn_dataset *ds, const crn_batch_column *columns, size_t n_columns, const crn_piece *pieces,
                          size_t n_pieces, bool joined, crn_array *scratch, crn_batch **out, crn_err *err);

#endif
