/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting sequences into chunks: the options `chunking`, `min_chunk_size`, `chunking_variance` and `context_window` for
 * the keys that a network uses, and the chunks of one sequence.
 */
#ifndef CRN_DATA_CHUNK_H
#define CRN_DATA_CHUNK_H

#include "data/dataset.h"
#include "data/mt19937.h"

typedef struct crn_chunk_key {
  const char *name;
  int64_t size, step;  /* 0: not chunked */
  int64_t min_size;    /* later chunks need more frames than this */
  int64_t left, right; /* context frames */
} crn_chunk_key;

typedef struct crn_chunking {
  bool on; /* false: whole sequences, only the contexts count */
  double variance;
  size_t n_keys;       /* the used keys, in the caller's order */
  crn_chunk_key *keys; /* owned */
  size_t default_key;  /* the one whose length ends the chunks */
} crn_chunking;

/* Parse the options for these keys ("50:25", 50, (50, 25), {"data": 50}, ({…}, {…})). */
crn_status crn_chunking_init(crn_chunking *c, const crn_chunk_options *o, const char *const *keys, size_t n,
                             crn_err *err);
void crn_chunking_free(crn_chunking *c);

/* The chunks of one sequence, one by one. */
typedef struct crn_chunk_iter {
  const crn_chunking *c;
  const int64_t *lengths; /* per key; the caller's */
  int64_t size[16], step[16], at[16];
  bool done;
} crn_chunk_iter;
enum { CRN_CHUNK_MAX_KEYS = 16 };

/* rng: drawn from once if there is a variance. Lengths that can't be chunked together are an error. */
crn_status crn_chunk_begin(crn_chunk_iter *it, const crn_chunking *c, const int64_t *lengths, crn_mt *rng,
                           crn_err *err);
/* The next chunk's [start, end) per key, context not included; false when there is none. */
bool crn_chunk_next(crn_chunk_iter *it, int64_t *start, int64_t *end);

#endif
