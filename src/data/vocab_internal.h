/* SPDX-License-Identifier: Apache-2.0
 *
 * Between vocab.c, vocab_file.c and bpe.c; not for other files.
 */
#ifndef CRN_DATA_VOCAB_INTERNAL_H
#define CRN_DATA_VOCAB_INTERNAL_H

#include "data/vocab.h"
#include "data/words.h"

typedef struct crn_bpe crn_bpe;

struct crn_vocab {
  crn_arena arena;
  crn_map index;       /* label -> index + 1 */
  const char **labels; /* name of each index */
  int64_t n;
  int64_t unknown; /* -1: unknown words are errors */
  int64_t *postfix;
  size_t n_postfix;
  bool single_spaces; /* split at single spaces, so that labels may be empty */
  bool gaps;          /* indices without a label are allowed */
  const char *separator;
  crn_status (*encode)(const crn_vocab *v, const char *text, crn_indices *out, crn_err *err);
  crn_bpe *bpe;
};

/* Labels from a file; several labels may share an index. */
crn_status crn_vocab_load(crn_vocab *v, const char *path, crn_err *err);
/* n labels in order; the last of equal ones is found by its text. */
crn_status crn_vocab_set_labels(crn_vocab *v, const char *const *labels, size_t n, crn_err *err);

/* Merges of byte-pair encoding. */
crn_status crn_bpe_load(const char *path, crn_bpe **out, crn_err *err);
void crn_bpe_free(crn_bpe *b);
/* Append the units of a text; known: labels that may be kept whole. */
crn_status crn_bpe_split(const crn_bpe *b, const char *text, const crn_map *known, crn_words *out, crn_err *err);

#endif
