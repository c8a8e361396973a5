/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches: sequences (or chunks) of an epoch in their order, put together as long as the limits allow, as padded
 * arrays. Nothing is sorted or moved between batches.
 */
#ifndef CRN_DATA_BATCH_H
#define CRN_DATA_BATCH_H

#include "base/arena.h"
#include "data/dataset.h"

/* One data key of a batch. */
typedef struct crn_batch_array {
  const char *name;
  crn_ntype dtype;
  int rank;
  int64_t shape[CRN_DATA_MAX_RANK + 1]; /* [B, longest length, …]; without time axis [B, …] */
  void *data;                           /* padded with 0 */
  int32_t *lengths;                     /* [B], or NULL without time axis */
} crn_batch_array;

typedef struct crn_batch {
  int64_t index;           /* in the epoch, from 0 */
  int64_t n_seqs;          /* B: sequences, chunks, or 1 for joined frames */
  crn_batch_array *arrays; /* one per key, in the order of the keys given to the batcher */
  size_t n_arrays;
  int64_t *seq_idx;  /* [B] sorted index; of joined frames the last sequence's */
  const char **tags; /* [B] */
  int64_t *start;    /* [B] first frame (of the key that determines the chunks, without context) in its sequence */
  int64_t seqs_done; /* sequences of the epoch whose data are over with this batch; for progress */
  crn_arena arena;   /* holds all of it */
} crn_batch;
void crn_batch_free(crn_batch *b);                                          /* NULL is fine */
const crn_batch_array *crn_batch_find(const crn_batch *b, const char *key); /* NULL if there is none */

/* What the batch shall hold of a key. */
typedef struct crn_batch_key {
  const char *name;
  crn_ntype dtype; /* NONE: the dataset's */
  bool no_time;    /* the network's side has no dynamic axis here: sequences must be of equal length */
} crn_batch_key;

/* The rules. Limits are numbers or dicts key -> number; NULL or None = no limit. */
typedef struct crn_batch_options {
  const crn_value *batch_size; /* padded frames per batch; required */
  int64_t max_seqs;            /* -1: no limit */
  const crn_value *max_seq_length, *min_seq_length, *max_pad_size;
  double inc_seq_length; /* added to a numeric max_seq_length in each epoch after the first */
  double seq_drop;       /* probability of leaving a sequence out */
  bool shuffle_batches;
  bool join_frames; /* for networks that aren't recurrent: all frames in one long entry, no chunks, no dropping */
} crn_batch_options;

typedef enum crn_batch_use {
  CRN_BATCH_TRAIN,
  CRN_BATCH_DEV,     /* the dataset "dev" */
  CRN_BATCH_EVAL,    /* any other dataset that is evaluated */
  CRN_BATCH_SEARCH,  /* as EVAL, never joined; max_seq_length isn't allowed */
  CRN_BATCH_FORWARD, /* forward_batch_size, never joined */
} crn_batch_use;
/* The config's options for one use; recurrent: the network is. The values stay in the config. */
crn_status crn_batch_options_from_config(const crn_value *config, crn_batch_use use, bool recurrent,
                                         crn_batch_options *out, crn_err *err);

typedef struct crn_batcher crn_batcher;
/* Batches of the epoch that ds has begun. ds must stay in that epoch as long as the batcher lives. */
crn_status crn_batcher_new(crn_dataset *ds, const crn_batch_options *options, const crn_batch_key *keys, size_t n_keys,
                           crn_batcher **out, crn_err *err);
/* The next batch, owned by the caller; *out = NULL at the end of the epoch. */
crn_status crn_batcher_next(crn_batcher *b, crn_batch **out, crn_err *err);
/* Give a batch back that isn't needed any more: its memory serves the next one. */
void crn_batcher_reuse(crn_batcher *b, crn_batch *batch);
int64_t crn_batcher_num_dropped(const crn_batcher *b); /* sequences or chunks left out by the length rules */
void crn_batcher_free(crn_batcher *b);

#endif
