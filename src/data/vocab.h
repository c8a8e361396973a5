/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabularies: labels with indices, and text to indices: by words, characters, bytes or byte-pair units.
 */
#ifndef CRN_DATA_VOCAB_H
#define CRN_DATA_VOCAB_H

#include "base/arena.h"
#include "base/map.h"
#include "data/dataset.h"

typedef struct crn_vocab crn_vocab;

/* From options {"class": "BytePairEncoding", "bpe_file": …, "vocab_file": …, …}; path(user, file): where a file of the
 * options lies (NULL: as it is). */
crn_status crn_vocab_new(const crn_value *options, const char *(*path)(void *user, const char *file), void *user,
                         crn_vocab **out, crn_err *err);
/* From bare labels, as of an HDF file: single characters give a vocabulary of characters, else of words. */
crn_status crn_vocab_from_labels(const char *const *labels, size_t n, crn_vocab **out, crn_err *err);
/* From a file of labels alone (.pkl, Python dict, or lines; each may be gzipped). unknown: label or NULL; gaps: there
 * may be indices without a label. */
crn_status crn_vocab_from_file(const char *path, const char *unknown, bool gaps, crn_vocab **out, crn_err *err);
void crn_vocab_free(crn_vocab *v);

int64_t crn_vocab_size(const crn_vocab *v);                    /* number of indices */
const char *const *crn_vocab_labels(const crn_vocab *v);       /* name of each index */
int64_t crn_vocab_find(const crn_vocab *v, const char *label); /* -1 if there is none */
int64_t crn_vocab_unknown(const crn_vocab *v);                 /* -1 if unknown words are errors */
/* Append the indices of a text; list grows by crn_realloc. */
typedef struct crn_indices {
  int32_t *p;
  int64_t n, cap;
} crn_indices;
crn_status crn_vocab_encode(const crn_vocab *v, const char *text, crn_indices *out, crn_err *err);
crn_status crn_indices_add(crn_indices *l, int64_t index, crn_err *err);
/* Text of indices, appended. */
crn_status crn_vocab_decode(const crn_vocab *v, const int32_t *indices, int64_t n, crn_str *out, crn_err *err);

#endif
