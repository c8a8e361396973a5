/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the sequences in an epoch, as `seq_ordering` (config: `batching`) names it. The random orders give the
 * same permutation as the old program (reference vectors in tests/test_data_order.c).
 */
#ifndef CRN_DATA_ORDER_H
#define CRN_DATA_ORDER_H

#include "base/status.h"

typedef enum crn_order_kind {
  CRN_ORDER_DEFAULT,
  CRN_ORDER_REVERSE,
  CRN_ORDER_SORTED,
  CRN_ORDER_SORTED_REVERSE,
  CRN_ORDER_RANDOM,
  CRN_ORDER_RANDOM_SAMPLE,
  CRN_ORDER_LAPLACE,
  CRN_ORDER_SORT_BIN_SHUFFLE,
  CRN_ORDER_SORT_BIN_SHUFFLE_X2,
  CRN_ORDER_DEFAULT_EVERY_N
} crn_order_kind;

typedef struct crn_order {
  crn_order_kind kind;
  int64_t bins;        /* number of bins; 0: bin_seqs counts; for default_every_n: m */
  int64_t bin_seqs;    /* about this many sequences per bin */
  int64_t same_epochs; /* the seed stays the same for so many epochs (k) */
} crn_order;

/* Parse "laplace:.300" and the like. Unknown names are an error with the nearest and all known ones. */
crn_status crn_order_parse(const char *text, crn_order *out, crn_err *err);
bool crn_order_needs_lengths(const crn_order *o);
bool crn_order_is_random(const crn_order *o);

/* Inputs of the seed of an epoch. */
typedef struct crn_seed_rule {
  bool fixed; /* fixed_seed is set */
  int64_t fixed_seed;
  int64_t seed_offset;
  int64_t partition_epoch; /* >= 1 */
} crn_seed_rule;
/* The seed for this 1-based epoch; same_epochs as in crn_order (1 for all that isn't ordering). */
uint32_t crn_epoch_seed(const crn_seed_rule *r, int64_t epoch, int64_t same_epochs);

/* Order n sequences. lens: n lengths when crn_order_needs_lengths, else NULL. *out: crn_malloc'ed array of *n_out. */
crn_status crn_order_make(const crn_order *o, int64_t n, const int64_t *lens, uint32_t seed, int64_t **out,
                          int64_t *n_out, crn_err *err);
/* Slice [*begin, *end) of n ordered sequences that part (epoch-1) mod parts takes. */
void crn_order_part(int64_t n, int64_t parts, int64_t epoch, int64_t *begin, int64_t *end);

#endif
