/* SPDX-License-Identifier: Apache-2.0
 *
 * What OggZipDataset and LibriSpeechCorpus share: utterances with audio file and transcription, features, labels, and
 * a cache of the features made last (a batch asks for lengths before it asks for data).
 */
#ifndef CRN_DATA_AUDIO_CORPUS_H
#define CRN_DATA_AUDIO_CORPUS_H

#include "data/datasets.h"
#include "data/features.h"
#include "data/vocab.h"

typedef struct crn_utterance {
  const char *tag, *text, *file; /* file: NULL without audio */
  const char *group;             /* sub-folder of the corpus, or NULL */
  size_t container;              /* which zip file or folder */
  int64_t order_length;
  int64_t rank[3]; /* numbers to sort by */
} crn_utterance;

typedef struct crn_audio_corpus crn_audio_corpus;
struct crn_audio_corpus {
  crn_dataset base;
  const crn_value *audio_option, *targets_option, *post_process, *subset_option, *epoch_filter;
  crn_utterance *utts;
  int64_t n_utts, cap_utts;
  crn_features *features;
  crn_vocab *vocab;
  int data_key, classes_key, orth_key, raw_key; /* -1: not there */
  /* The audio file of an utterance, whole. */
  crn_status (*load)(crn_audio_corpus *c, const crn_utterance *u, char **bytes, size_t *len, crn_err *err);
  struct {
    int64_t seq; /* -1: free */
    crn_array features;
  } * cache;
  size_t cache_next;
  crn_indices labels; /* of labels_seq */
  int64_t labels_seq;
  const char *raw_text;
};
enum { CRN_AUDIO_CACHE = 256 }; /* sequences */

/* Make features, vocabulary and keys. with_orth: the key "orth". */
crn_status crn_audio_corpus_open(crn_audio_corpus *c, bool with_orth, crn_err *err);
crn_status crn_audio_corpus_add(crn_audio_corpus *c, const crn_utterance *u, crn_err *err);
/* Keep a random part of the utterances (option fixed_random_subset: fraction or count), in shuffled order. */
crn_status crn_audio_corpus_subset(crn_audio_corpus *c, uint32_t seed, crn_err *err);

void crn_audio_corpus_deinit(crn_dataset *ds);
int64_t crn_audio_corpus_size(const crn_dataset *ds);
crn_status crn_audio_corpus_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err);
crn_status crn_audio_corpus_order_length(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err);
crn_status crn_audio_corpus_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err);
crn_status crn_audio_corpus_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                                 crn_err *err);

#endif
