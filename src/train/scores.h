/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores and errors of an epoch: sums over steps, divided by the sum of what they count (frames, sequences), under the
 * names of the losses; and the score keys of the learning-rate file that they become.
 */
#ifndef CRN_TRAIN_SCORES_H
#define CRN_TRAIN_SCORES_H

#include "base/status.h"
#include "train/learning_rate.h"

typedef struct crn_score_sum {
  double sum;    /* of values over steps */
  double weight; /* of 1/f over steps, f the norm factor */
  bool present;
} crn_score_sum;

typedef struct crn_score_entry {
  char *name; /* of the loss; owned */
  crn_score_sum cost, error;
} crn_score_entry;

typedef struct crn_scores {
  crn_score_entry *entries; /* sorted by name */
  size_t n, cap;
  bool exponential; /* calculate_exp_loss: each cost also as NAME:exp */
  double loss_sum;  /* of the objectives */
  int64_t n_steps;
} crn_scores; /* zero-initialised = empty */

typedef enum crn_score_kind { CRN_SCORE_COST, CRN_SCORE_ERROR } crn_score_kind;

void crn_scores_free(crn_scores *s);
void crn_scores_clear(crn_scores *s); /* a new epoch; names and memory stay */
/* One value of one step: value is the sum over the batch, norm_factor what turns it into a mean. */
crn_status crn_scores_add(crn_scores *s, const char *name, crn_score_kind kind, double value, double norm_factor,
                          crn_err *err);
/* End of a step with its objective. */
void crn_scores_end_step(crn_scores *s, double objective);
double crn_score_mean(const crn_score_sum *sum); /* NAN when nothing was counted */
/* Whether all sums so far are finite. */
bool crn_scores_finite(const crn_scores *s);
size_t crn_scores_count(const crn_scores *s, crn_score_kind kind); /* entries, NAME:exp included */

/* Call fn for every entry in order of its name, NAME:exp included. */
typedef crn_status (*crn_score_visit)(void *user, const char *name, double mean, crn_err *err);
crn_status crn_scores_each(const crn_scores *s, crn_score_kind kind, crn_score_visit fn, void *user, crn_err *err);

/* "0.39" for a single entry, "output 0.23 sub/p 0.23" for several, "None" for none. */
void crn_scores_format(const crn_scores *s, crn_score_kind kind, crn_str *out);
/* "Accumulated scores: {…}" behind a nonfinite score: the sums as a dict. */
void crn_scores_format_sums(const crn_scores *s, crn_str *out);
/* Store in the learning-rate table: DATASET_score, DATASET_error, with _NAME behind when there are several. */
crn_status crn_scores_store(const crn_scores *s, const char *dataset, crn_lr_control *c, int64_t epoch, crn_err *err);

typedef struct crn_dataset_scores {
  const char *dataset;
  const crn_scores *scores;
} crn_dataset_scores;
/* Text of eval_output_file: {'dev': {'error': {'error:output': …}, 'score': {'cost:output': …}}} */
void crn_scores_eval_file(const crn_dataset_scores *sets, size_t n, crn_str *out);

#endif
