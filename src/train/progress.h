/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the training log, in the form that existing log readers know.
 */
#ifndef CRN_TRAIN_PROGRESS_H
#define CRN_TRAIN_PROGRESS_H

#include "train/scores.h"

/* One "NAME VALUE" of a step line. */
typedef struct crn_step_item {
  const char *name; /* "cost:output", "loss", "max_size:data", "stats:LAYER:KEY", … */
  enum { CRN_ITEM_DOUBLE, CRN_ITEM_FLOAT, CRN_ITEM_INT, CRN_ITEM_TEXT } kind; /* FLOAT: float32, fewer digits */
  double number;
  const char *text; /* CRN_ITEM_TEXT */
} crn_step_item;

typedef struct crn_step_time {
  double step_secs;    /* of this step */
  double elapsed_secs; /* of this pass */
  double complete;     /* share of the pass that is done, 0 … 1; < 0: unknown */
} crn_step_time;

/* "train epoch 1, step 0, cost:output 0.76, …, 0.864 sec/step, elapsed 0:00:02, exp. remaining 0:01:10, complete
 * 3.33%". Sorts items by name. prefix: "train epoch 1", "pretrain epoch 1", "epoch 1 'dev' eval", … */
void crn_log_step(const crn_log *log, const char *prefix, int64_t step, crn_step_item *items, size_t n,
                  const crn_step_time *time);
/* "train epoch 1, finished after 30 steps, 0:00:02 elapsed (46.7% computing time)" */
void crn_log_pass_end(const crn_log *log, const char *prefix, int64_t n_steps, double elapsed_secs,
                      double computing_secs);
/* "epoch 1 score: 0.39 error: 0.17 elapsed: 0:00:02" */
void crn_log_epoch_scores(const crn_log *log, int64_t epoch, bool pretrain, const crn_scores *train,
                          double elapsed_secs);
/* "dev: score 0.225 error 0.124 devtrain: score … error …" */
void crn_log_eval_scores(const crn_log *log, const crn_dataset_scores *sets, size_t n);

void crn_text_duration(double secs, crn_str *out); /* "0:01:10", hours without limit */
void crn_text_size(double bytes, crn_str *out);    /* "183.8KB"; next unit from 0.8 of it */
void crn_text_float32(double value, crn_str *out); /* shortest digits that read back as the same float32 */

/* Numbers collected over an epoch, "Stats(mean=…, std_dev=…, min=…, max=…, num_seqs=…, avg_data_len=1)". */
typedef struct crn_running_stats {
  int64_t n;
  double mean, sum_sq_dev, min, max;
} crn_running_stats; /* zero-initialised = empty */
void crn_running_stats_add(crn_running_stats *s, double value);
void crn_running_stats_format(const crn_running_stats *s, crn_str *out);

#endif
