/* SPDX-License-Identifier: Apache-2.0
 *
 * Common to datasets that make up their sequences: sequence i of an epoch comes from a fresh random generator seeded
 * with (epoch seed, i), so it doesn't depend on the order.
 */
#ifndef CRN_DATA_GENERATED_H
#define CRN_DATA_GENERATED_H

#include "data/datasets.h"
#include "data/mt19937.h"

typedef struct crn_generated crn_generated;
struct crn_generated {
  crn_dataset base;
  const crn_value *num_seqs_option;
  int64_t num_seqs;
  /* Fill present[key] for sequence seq. */
  crn_status (*make)(crn_generated *g, int64_t seq, crn_mt *rng, crn_err *err);
  crn_array present[2]; /* the sequence made last, per key */
  int64_t present_seq;  /* -1: none */
};

#define CRN_GENERATED_OPTIONS                                                                                          \
  {                                                                                                                    \
    "num_seqs", CRN_DOPT_VALUE, offsetof(crn_generated, num_seqs_option), "None", 0,                                   \
        "number of sequences in an epoch; None or float('inf') = without end"                                          \
  }

/* For init: parse num_seqs, set make. */
crn_status crn_generated_init(crn_generated *g, crn_status (*make)(crn_generated *, int64_t, crn_mt *, crn_err *),
                              crn_err *err);
/* Add a key: "data" or "classes", [T, dim] float32 one-hot if dense, else [T] of dtype. */
crn_status crn_generated_key(crn_generated *g, const char *name, int64_t dim, bool sparse, crn_ntype dtype,
                             crn_err *err);
/* Labels as letters: every letter is a label. */
crn_status crn_generated_letters(crn_generated *g, size_t key, const char *letters, crn_err *err);
/* present[key] from n labels: one-hot rows for a dense key. */
crn_status crn_generated_set(crn_generated *g, size_t key, const int64_t *labels, int64_t n, crn_err *err);

/* The class functions that all of them share. */
void crn_generated_deinit(crn_dataset *ds);
int64_t crn_generated_size(const crn_dataset *ds);
crn_status crn_generated_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err);
crn_status crn_generated_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err);
crn_status crn_generated_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                              crn_err *err);
crn_status crn_generated_on_epoch(crn_dataset *ds, crn_err *err);

#define CRN_GENERATED_CLASS                                                                                            \
  .deinit = crn_generated_deinit, .corpus_size = crn_generated_size, .tag = crn_generated_tag,                         \
  .length = crn_generated_length, .read = crn_generated_read, .on_epoch = crn_generated_on_epoch,                      \
  .sorted_is_default = true

#endif
