/* SPDX-License-Identifier: Apache-2.0
 *
 * The table behind the learning-rate file: per epoch the learning rate, the scores and the ":meta:" numbers.
 *
 * The file is Python text that old programs must be able to read back, so its form is kept to the letter (order, line
 * breaks, shortest floats); old forms of it are understood when reading. The rules that compute rates from the table
 * are in learning_rate.c.
 */
#ifndef CRN_TRAIN_LEARNING_RATE_TABLE_H
#define CRN_TRAIN_LEARNING_RATE_TABLE_H

#include "base/status.h"
#include "base/str.h"

#define CRN_LR_META ":meta:" /* keys that start so are no scores */

typedef struct crn_lr_score {
  char *key;    /* owned */
  bool is_int;  /* printed as Python int */
  int64_t i;    /* the value when is_int */
  double value; /* the value, also when is_int */
} crn_lr_score;

typedef struct crn_lr_epoch {
  int64_t epoch;
  double lr;
  crn_lr_score *scores; /* sorted by key, meta numbers included */
  size_t n_scores, cap_scores;
} crn_lr_epoch;

typedef struct crn_lr_table {
  crn_lr_epoch *epochs; /* sorted by epoch */
  size_t n, cap;
} crn_lr_table; /* zero-initialised = empty */

void crn_lr_table_free(crn_lr_table *t);
/* Entry of an epoch, NULL if there is none. Valid until an epoch is added. */
crn_lr_epoch *crn_lr_table_find(const crn_lr_table *t, int64_t epoch);
/* Number of entries with an epoch below the given one (they are epochs[0 … n-1]). */
size_t crn_lr_table_count_before(const crn_lr_table *t, int64_t epoch);
/* Set the rate of an epoch; the entry is made if needed. */
crn_status crn_lr_table_set(crn_lr_table *t, int64_t epoch, double lr, crn_err *err);
/* Set (add or replace) one number of an existing epoch. */
crn_status crn_lr_epoch_put(crn_lr_epoch *e, const char *key, double value, crn_err *err);
crn_status crn_lr_epoch_put_int(crn_lr_epoch *e, const char *key, int64_t value, crn_err *err);
const crn_lr_score *crn_lr_epoch_get(const crn_lr_epoch *e, const char *key); /* NULL if absent */
bool crn_lr_key_is_meta(const char *key);

/* Python text of a float: shortest digits that read back as the same value, float('nan'), float('inf'). */
void crn_py_float(crn_str *out, double value);
/* Text of one entry, "EpochData(learningRate=0.1, error={…})", and of the dict of its numbers. */
void crn_lr_epoch_format(const crn_lr_epoch *e, crn_str *out);
void crn_lr_scores_format(const crn_lr_epoch *e, crn_str *out);
/* Text of the whole file. */
void crn_lr_table_format(const crn_lr_table *t, crn_str *out);

/* Read text (name: for messages) into the table; entries replace those of the same epoch. CRN_E_FORMAT names the line
 * and leaves the table as it was. */
crn_status crn_lr_table_parse(crn_lr_table *t, const char *text, size_t len, const char *name, crn_err *err);
crn_status crn_lr_table_read(crn_lr_table *t, const char *path, crn_err *err);
/* Write PATH.new_tmp, then rename it to PATH, so that a reader never sees half a file. */
crn_status crn_lr_table_write(const crn_lr_table *t, const char *path, crn_err *err);

#endif
