/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate control: the rate of every epoch from fixed lists, from the learning-rate file, or from how the scores
 * moved (newbob and its relatives).
 *
 * Life of one training: crn_lr_new, crn_lr_load, then per epoch crn_lr_for_epoch, crn_lr_put_score for each score and
 * meta number, crn_lr_save. The config (a dict of config keys) must outlive the control. Not for use by two threads.
 */
#ifndef CRN_TRAIN_LEARNING_RATE_H
#define CRN_TRAIN_LEARNING_RATE_H

#include "base/log.h"
#include "train/learning_rate_table.h"
#include "value/value.h"

/* Calls a function of a Python config: decay or growth (lr -> lr; global_step is -1 then) or dynamic_learning_rate.
 * Without one (call NULL) such functions are refused as not implemented. */
typedef struct crn_lr_hook {
  crn_status (*call)(void *user, const crn_value *fn, double lr, int64_t global_step, double *out, crn_err *err);
  void *user;
} crn_lr_hook;

typedef struct crn_lr_control crn_lr_control;

/* hook and log may be NULL; both are copied. */
crn_status crn_lr_new(const crn_value *config, const crn_lr_hook *hook, const crn_log *log, crn_lr_control **out,
                      crn_err *err);
void crn_lr_free(crn_lr_control *c);

/* Read the learning-rate file if the config names one and it exists. */
crn_status crn_lr_load(crn_lr_control *c, crn_err *err);
/* Write it; nothing happens when the config names none. */
crn_status crn_lr_save(const crn_lr_control *c, crn_err *err);
const char *crn_lr_file(const crn_lr_control *c); /* NULL: none */
/* Use this path (it must outlive the control) instead of the config's; NULL: keep no file. */
void crn_lr_set_file(crn_lr_control *c, const char *path);

/* Rate of an epoch >= 1; the table remembers it. pretrain_epochs: number of pretraining epochs (0 = no pretraining):
 * unless use_learning_rate_control_always, these use pretrain_learning_rate and the next one learning_rate. */
crn_status crn_lr_for_epoch(crn_lr_control *c, int64_t epoch, int64_t pretrain_epochs, double *lr, crn_err *err);
/* Set the rate of an epoch whatever the table says ('#config' of a net dict). */
crn_status crn_lr_override(crn_lr_control *c, int64_t epoch, double lr, crn_err *err);
/* Store a score ("dev_score") or a meta number (":meta:…", integers as such) of an epoch that has a rate. */
crn_status crn_lr_put_score(crn_lr_control *c, int64_t epoch, const char *key, double value, crn_err *err);
crn_status crn_lr_put_int(crn_lr_control *c, int64_t epoch, const char *key, int64_t value, crn_err *err);

const crn_lr_table *crn_lr_table_of(const crn_lr_control *c);
/* Key of the score that the control looks at in an epoch; NULL when the epoch has no scores. */
const char *crn_lr_error_key(const crn_lr_control *c, int64_t epoch);
/* Write the line "Learning-rate-control: error key 'K' from {…}" to the log. */
void crn_lr_log_error_key(const crn_lr_control *c, int64_t epoch);
/* "NewbobMultiEpoch(num_epochs=6, …), epoch data: 1: EpochData(…), …, error key: K" (K of the last epoch with scores)
 */
void crn_lr_describe(const crn_lr_control *c, crn_str *out);

/* dynamic_learning_rate: the rate of one step from the epoch's rate; the same rate when the config has none. */
crn_status crn_lr_dynamic(const crn_lr_control *c, double lr, int64_t global_step, double *out, crn_err *err);

#endif
