/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoints stay when old ones are cleaned up. Pure: nothing is deleted here.
 */
#ifndef CRN_TRAIN_KEEP_MODELS_H
#define CRN_TRAIN_KEEP_MODELS_H

#include "base/log.h"
#include "train/learning_rate_table.h"
#include "value/value.h"

typedef struct crn_keep_options {
  bool on;                /* cleanup is wanted at all */
  int64_t last_n, best_n; /* 2, 4 */
  const int64_t *keep;    /* epochs that replace the pattern; NULL: the pattern */
  size_t n_keep;
  const char *const *ignored; /* score keys that are not considered */
  size_t n_ignored;
} crn_keep_options;

/* From the config's value of cleanup_old_models: falsy = off, a dict of options, anything else = the defaults (with a
 * warning unless it is True). Memory comes from a. */
crn_status crn_keep_options_read(const crn_value *value, crn_arena *a, const crn_log *log, crn_keep_options *out,
                                 crn_err *err);

/* keep[i] = whether stored[i] stays. stored: ascending epochs. While there are no more than last_n or best_n, all stay.
 * Error when an epoch is not in the table. */
crn_status crn_keep_choose(const crn_keep_options *o, const int64_t *stored, size_t n, const crn_lr_table *table,
                           bool *keep, crn_err *err);

/* Whether the pattern for the last stored epoch keeps an epoch: few of them, and ever fewer as training goes on. */
bool crn_keep_pattern(int64_t epoch, int64_t last_stored);

/* "[1, 2, 3, ..., 98, 99, 100]"; all of them up to six. */
void crn_keep_list(const int64_t *epochs, size_t n, crn_str *out);

#endif
