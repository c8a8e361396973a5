/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of decoded sequences: which vocabulary an output's labels have, labels to text, arrays as Python prints them,
 * and the search output file.
 */
#ifndef CRN_TRAIN_SEARCH_TEXT_H
#define CRN_TRAIN_SEARCH_TEXT_H

#include "data/vocab.h"
#include "train/engine.h"

/* An output whose values become text. */
typedef struct crn_text_source {
  const crn_layer *layer;
  const char *target;      /* data key of its reference, or NULL */
  crn_vocab *vocab;        /* NULL: labels stay numbers; freed by the user */
  crn_vocab *target_vocab; /* of the reference; may be the same */
} crn_text_source;

/* Vocabulary of layer's labels: of its dim, else of its target's data key (or the default target's), else the labels
 * that the dataset gives this key. Both stay NULL when nothing is found. */
crn_status crn_text_source_init(crn_engine *e, const crn_net *net, const crn_layer *layer, const crn_dataset *ds,
                                crn_text_source *out, crn_err *err);
void crn_text_source_free(crn_text_source *s);

/* "array([3, 4], dtype=int32)"; dims are the sizes of the row, lens cut its axes. data: a row of a batch. */
void crn_text_array(const crn_tensor *t, int64_t row, int64_t n_frames, crn_str *out);
/* Text of a row of [B], [B, T] labels. */
crn_status crn_text_labels(const crn_vocab *v, const crn_tensor *t, int64_t row, int64_t n_frames, crn_str *out,
                           crn_err *err);

/* ---- the file ---- */

typedef struct crn_hypothesis {
  double score;
  const char *text;
} crn_hypothesis;

typedef struct crn_hypotheses { /* of one layer for one sequence */
  const char *layer;
  bool has_beam; /* false: one, without score */
  int64_t n;
  crn_hypothesis *list;
} crn_hypotheses;

typedef struct crn_search_result {
  const char *tag;
  int64_t seq, corpus; /* sorted and corpus index */
  crn_hypotheses *layers;
  int n_layers;
} crn_search_result;

/* One sequence as a Python value: text, list of (score, text), dict by layer. */
void crn_search_python(const crn_search_result *r, bool several_layers, bool one_line, crn_str *out);
/* All of them; py: a dict tag -> value, else a line each. */
void crn_search_file_text(const crn_search_result *const *results, int64_t n, bool several_layers, bool py,
                          crn_str *out);
/* Write text under path (gzip if it ends in .gz): the whole file or none (base/file.h). */
crn_status crn_text_write(const char *path, const crn_str *text, crn_err *err);

#endif
