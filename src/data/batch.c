/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sequences or chunks go into which batch (see batch.h). A candidate is looked at by its lengths only; data are
 * read when a batch is complete.
 */
#include "data/batch.h"

#include <math.h>
#include <string.h>

#include "data/batch_rules.h"

typedef struct limit_key { /* a key whose lengths count */
  size_t key;              /* in the dataset */
  int column;              /* in the batch, -1 if it isn't used */
  double batch_size, max_length, min_length, max_pad;
  int64_t longest, sum; /* of the batch so far */
} limit_key;

struct crn_batcher {
  crn_dataset *ds;
  crn_batch_options o;
  crn_batch_column *columns;
  size_t n_columns;
  crn_chunking chunking;
  limit_key *limits;
  size_t n_limits;
  crn_mt rng;
  crn_array scratch;
  crn_batch *spare; /* for the next batch, or NULL */
  /* reading on */
  int64_t next_seq; /* the one to begin when the chunks of the present one are over */
  int64_t lengths[CRN_CHUNK_MAX_KEYS];
  crn_chunk_iter chunks;
  bool in_seq;
  crn_piece pending; /* a candidate that didn't fit into the last batch */
  bool has_pending;
  int64_t joined_at; /* join_frames: first frame of next_seq that wasn't taken yet */
  int64_t n_batches, n_dropped;
  crn_piece *pieces; /* of the batch that is being made */
  size_t n_pieces, cap_pieces;
};

/* ---- making ---- */

static crn_status set_columns(crn_batcher *b, const crn_batch_key *keys, size_t n, crn_err *err) {
  const char *names[CRN_CHUNK_MAX_KEYS];
  if (n > CRN_CHUNK_MAX_KEYS)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: more than %d data keys in batches",
                    CRN_CHUNK_MAX_KEYS);
  b->columns = crn_calloc(n ? n : 1, sizeof *b->columns);
  if (!b->columns) return crn_err_memory(err);
  b->n_columns = n;
  for (size_t i = 0; i < n; i++) {
    int at = crn_dataset_find_key(b->ds, keys[i].name);
    const crn_data_key *k = at < 0 ? NULL : crn_dataset_key(b->ds, (size_t)at);
    if (!k || k->length_only) {
      crn_data_key want = {.name = keys[i].name};
      return crn_dataset_check_key(b->ds, &want, err); /* words the message */
    }
    b->columns[i] = (crn_batch_column){.want = keys[i], .key = (size_t)at, .has_time = k->rank && k->shape[0] < 0};
    names[i] = k->name;
  }
  crn_chunk_options o = crn_dataset_chunk_options(b->ds);
  if (b->o.join_frames) { /* no chunks then, but what is said of them must be right */
    CRN_TRY(crn_chunking_init(&b->chunking, &o, names, n, err));
    crn_chunking_free(&b->chunking);
    o.chunking = NULL;
  }
  return crn_chunking_init(&b->chunking, &o, names, n, err);
}

/* With chunks only the used keys count, else all of the dataset's. */
static crn_status set_limits(crn_batcher *b, int64_t epoch, crn_err *err) {
  size_t n = crn_dataset_num_keys(b->ds);
  b->limits = crn_calloc(n ? n : 1, sizeof *b->limits);
  if (!b->limits) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) {
    const crn_data_key *k = crn_dataset_key(b->ds, i);
    int column = -1;
    for (size_t c = 0; c < b->n_columns; c++)
      if (b->columns[c].key == i) column = (int)c;
    if (!k->rank || k->shape[0] >= 0) continue;
    if (column < 0 && (b->chunking.on || b->o.join_frames)) continue;
    b->limits[b->n_limits++] = (limit_key){.key = i,
                                           .column = column,
                                           .batch_size = crn_batch_limit(b->o.batch_size, k->name, HUGE_VAL),
                                           .max_length = crn_batch_max_length(&b->o, k->name, epoch),
                                           .min_length = crn_batch_limit(b->o.min_seq_length, k->name, 0),
                                           .max_pad = crn_batch_limit(b->o.max_pad_size, k->name, HUGE_VAL)};
  }
  return CRN_OK;
}

static crn_status check_options(const crn_batcher *b, crn_err *err) {
  if (b->o.shuffle_batches && crn_dataset_order_is_fixed(b->ds))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED,
                    "not implemented: option 'shuffle_batches' for a dataset whose order stays the same");
  if (crn_v_is_none(b->o.batch_size)) return crn_fail(err, CRN_E_INTERNAL, "no batch size");
  return CRN_OK;
}

crn_status crn_batcher_new(crn_dataset *ds, const crn_batch_options *options, const crn_batch_key *keys, size_t n_keys,
                           crn_batcher **out, crn_err *err) {
  *out = NULL;
  crn_batcher *b = crn_calloc(1, sizeof *b);
  if (!b) return crn_err_memory(err);
  b->ds = ds;
  b->o = *options;
  crn_mt_seed_python(&b->rng, crn_dataset_epoch_seed(ds));
  crn_status code = check_options(b, err);
  if (code == CRN_OK) code = set_columns(b, keys, n_keys, err);
  if (code == CRN_OK) code = set_limits(b, crn_dataset_epoch(ds), err);
  if (code != CRN_OK) {
    crn_batcher_free(b);
    return code;
  }
  *out = b;
  return CRN_OK;
}

void crn_batcher_free(crn_batcher *b) {
  if (!b) return;
  crn_chunking_free(&b->chunking);
  crn_array_free(&b->scratch);
  crn_batch_free(b->spare);
  crn_free(b->columns);
  crn_free(b->limits);
  crn_free(b->pieces);
  crn_free(b);
}

void crn_batcher_reuse(crn_batcher *b, crn_batch *batch) {
  crn_batch_free(b->spare);
  b->spare = batch;
}

int64_t crn_batcher_num_dropped(const crn_batcher *b) { return b->n_dropped; }

/* ---- candidates ---- */

/* Lengths of the used keys in a sequence. */
static crn_status used_lengths(crn_batcher *b, int64_t seq, crn_err *err) {
  for (size_t c = 0; c < b->n_columns; c++)
    CRN_TRY(crn_dataset_length(b->ds, seq, b->columns[c].key, &b->lengths[c], err));
  return CRN_OK;
}

/* The next chunk or sequence in order; *found = false at the end of the epoch. */
static crn_status next_piece(crn_batcher *b, crn_piece *p, bool *found, crn_err *err) {
  for (;;) {
    if (b->in_seq && crn_chunk_next(&b->chunks, p->start, p->end)) break;
    CRN_TRY(crn_dataset_has_seq(b->ds, b->next_seq, found, err));
    if (!*found) return CRN_OK;
    CRN_TRY(used_lengths(b, b->next_seq, err));
    crn_status code = crn_chunk_begin(&b->chunks, &b->chunking, b->lengths, &b->rng, err);
    if (code != CRN_OK) {
      const char *tag = "?";
      crn_err local = {0};
      if (crn_dataset_tag(b->ds, b->next_seq, &tag, &local) != CRN_OK) tag = "?";
      crn_err_clear(&local);
      crn_err_where(err, "dataset '%s', sequence '%s'", crn_dataset_name(b->ds), tag);
      return code;
    }
    b->in_seq = true;
    b->next_seq++;
  }
  *found = true;
  p->seq = b->next_seq - 1;
  p->first = b->n_columns ? p->start[b->chunking.default_key] : 0;
  for (size_t c = 0; c < b->n_columns; c++) {
    if (!b->columns[c].has_time) continue;
    p->start[c] -= b->chunking.keys[c].left;
    p->end[c] += b->chunking.keys[c].right;
  }
  return CRN_OK;
}

static crn_status piece_length(crn_batcher *b, const crn_piece *p, const limit_key *l, int64_t *len, crn_err *err) {
  if (l->column < 0) return crn_dataset_length(b->ds, p->seq, l->key, len, err);
  *len = p->end[l->column] - p->start[l->column];
  return CRN_OK;
}

/* The next candidate that the length rules and chance let through; lens: of all keys that count. */
static crn_status next_candidate(crn_batcher *b, crn_piece *p, bool *found, crn_err *err) {
  if (b->has_pending) {
    *p = b->pending;
    b->has_pending = false;
    *found = true;
    return CRN_OK;
  }
  for (;;) {
    CRN_TRY(next_piece(b, p, found, err));
    if (!*found) return CRN_OK;
    bool drop = false;
    const crn_data_key *too_long = NULL;
    for (size_t i = 0; i < b->n_limits && !drop; i++) {
      int64_t len;
      CRN_TRY(piece_length(b, p, &b->limits[i], &len, err));
      drop = (double)len > b->limits[i].max_length || (double)len < b->limits[i].min_length;
      if ((double)len > b->limits[i].batch_size) too_long = crn_dataset_key(b->ds, b->limits[i].key);
    }
    if (!drop && too_long)
      crn_warnf(crn_dataset_env(b->ds)->log,
                "dataset '%s': sequence %lld is longer than batch_size in '%s'; it gets a batch of its own",
                crn_dataset_name(b->ds), (long long)p->seq, too_long->name);
    if (!drop) drop = crn_mt_uniform(&b->rng) < b->o.seq_drop;
    if (!drop) return CRN_OK;
    b->n_dropped++;
  }
}

/* ---- batches of sequences ---- */

static crn_status keep_piece(crn_batcher *b, const crn_piece *p, crn_err *err) {
  if (b->n_pieces == b->cap_pieces) {
    size_t cap = b->cap_pieces ? 2 * b->cap_pieces : 16;
    crn_piece *grown = crn_realloc(b->pieces, cap * sizeof *grown);
    if (!grown) return crn_err_memory(err);
    b->pieces = grown;
    b->cap_pieces = cap;
  }
  b->pieces[b->n_pieces++] = *p;
  return CRN_OK;
}

/* Whether the batch stays within the limits with this candidate; add: count it in. */
static crn_status fits(crn_batcher *b, const crn_piece *p, bool add, bool *yes, crn_err *err) {
  double B = (double)b->n_pieces + 1;
  *yes = b->o.max_seqs < 0 || (int64_t)b->n_pieces + 1 <= b->o.max_seqs;
  for (size_t i = 0; i < b->n_limits; i++) {
    limit_key *l = &b->limits[i];
    int64_t len;
    CRN_TRY(piece_length(b, p, l, &len, err));
    int64_t longest = len > l->longest ? len : l->longest, sum = l->sum + len;
    double padded = (double)longest * B;
    if (padded > l->batch_size || padded - (double)sum > l->max_pad) *yes = false;
    if (!add) continue;
    l->longest = longest;
    l->sum = sum;
  }
  return CRN_OK;
}

static crn_status collect_seqs(crn_batcher *b, crn_err *err) {
  for (size_t i = 0; i < b->n_limits; i++) b->limits[i].longest = b->limits[i].sum = 0;
  for (;;) {
    crn_piece p;
    bool found, yes;
    CRN_TRY(next_candidate(b, &p, &found, err));
    if (!found) return CRN_OK;
    CRN_TRY(fits(b, &p, false, &yes, err));
    if (!yes && b->n_pieces) {
      b->pending = p;
      b->has_pending = true;
      return CRN_OK;
    }
    CRN_TRY(fits(b, &p, true, &yes, err));
    CRN_TRY(keep_piece(b, &p, err));
  }
}

/* ---- joined frames ---- */

/* Frames of the sequence that are left and that the batch still takes. A sequence is cut only if all its keys are of
 * one length: what a cut of keys of different lengths would mean isn't defined. */
static crn_status take_joined(crn_batcher *b, crn_piece *p, bool *full, crn_err *err) {
  int64_t left = 0, take = INT64_MAX;
  bool equal = true, known = false;
  for (size_t i = 0; i < b->n_limits; i++) {
    limit_key *l = &b->limits[i];
    int64_t len = b->lengths[l->column], rest = len - b->joined_at;
    double room = l->batch_size - (double)l->sum;
    if (known && rest != left) equal = false;
    left = rest;
    known = true;
    if ((double)rest > room && (int64_t)room < take) take = (int64_t)room;
  }
  bool cut = take < INT64_MAX;
  if (cut && !equal)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED,
                    "not implemented: a network that isn't recurrent with data keys of different lengths");
  for (size_t c = 0; c < b->n_columns; c++) {
    p->start[c] = b->columns[c].has_time ? b->joined_at : 0;
    p->end[c] = b->columns[c].has_time && cut ? b->joined_at + take : b->lengths[c];
  }
  *full = cut;
  for (size_t i = 0; i < b->n_limits; i++) {
    limit_key *l = &b->limits[i];
    l->sum += p->end[l->column] - p->start[l->column];
    if ((double)l->sum >= l->batch_size) *full = true;
  }
  p->first = b->joined_at;
  b->joined_at = cut ? b->joined_at + take : 0;
  if (!cut) b->next_seq++;
  return CRN_OK;
}

static crn_status collect_frames(crn_batcher *b, crn_err *err) {
  for (size_t i = 0; i < b->n_limits; i++) b->limits[i].sum = 0;
  for (;;) {
    crn_piece p = {.seq = b->next_seq};
    bool found, full = false;
    if (b->o.max_seqs >= 0 && (int64_t)b->n_pieces >= b->o.max_seqs) return CRN_OK;
    CRN_TRY(crn_dataset_has_seq(b->ds, b->next_seq, &found, err));
    if (!found) return CRN_OK;
    CRN_TRY(used_lengths(b, b->next_seq, err));
    CRN_TRY(take_joined(b, &p, &full, err));
    CRN_TRY(keep_piece(b, &p, err));
    if (full) return CRN_OK;
  }
}

crn_status crn_batcher_next(crn_batcher *b, crn_batch **out, crn_err *err) {
  *out = NULL;
  b->n_pieces = 0;
  CRN_TRY(b->o.join_frames ? collect_frames(b, err) : collect_seqs(b, err));
  if (!b->n_pieces) return CRN_OK;
  *out = b->spare;
  b->spare = NULL;
  CRN_TRY(
      crn_batch_fill(b->ds, b->columns, b->n_columns, b->pieces, b->n_pieces, b->o.join_frames, &b->scratch, out, err));
  (*out)->index = b->n_batches++;
  bool seq_open = b->o.join_frames ? b->joined_at > 0 : (b->in_seq && !b->chunks.done) || b->has_pending;
  int64_t begun = b->next_seq + (b->o.join_frames && b->joined_at > 0);
  (*out)->seqs_done = seq_open && begun > 0 ? begun - 1 : begun;
  return CRN_OK;
}
