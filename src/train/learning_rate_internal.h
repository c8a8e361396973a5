/* SPDX-License-Identifier: Apache-2.0
 *
 * The learning-rate control's own structures, shared by learning_rate.c (rules, use) and learning_rate_config.c
 * (construction from config keys).
 */
#ifndef CRN_TRAIN_LEARNING_RATE_INTERNAL_H
#define CRN_TRAIN_LEARNING_RATE_INTERNAL_H

#include "train/learning_rate.h"

typedef struct crn_lr_rule crn_lr_rule;

struct crn_lr_control {
  const crn_value *config;
  crn_lr_hook hook;
  crn_log log;
  const crn_lr_rule *rule;
  crn_lr_table table;
  const char *file; /* of the config; NULL: none */

  double default_rate, min_rate;
  double pretrain_rate;
  bool always;          /* use_learning_rate_control_always */
  double decay, growth; /* factors, unless a function is given: */
  const crn_value *decay_fn, *growth_fn;
  double threshold, grow_threshold, absolute_threshold;
  bool div_by_old, relative_lr;
  int64_t multi_epochs, multi_interval;
  int64_t min_epochs_per_rate;
  const crn_value *measure; /* NULL, string or list of strings */
  const crn_value *dynamic; /* dict or function, NULL: none */
  double dynamic_decay;
  int64_t dynamic_interval;
  bool warned_measure;
};

/* n_before > 0 entries of the table lie before the epoch: c->table.epochs[0 … n_before-1]. */
typedef crn_status (*crn_lr_rule_fn)(const crn_lr_control *c, int64_t epoch, size_t n_before, double *lr, crn_err *err);

/* A kind of control: one row of the table in learning_rate.c. */
struct crn_lr_rule {
  const char *names[3];
  const char *title; /* for the log */
  crn_lr_rule_fn rate;
};

/* Row by name (any of its names), error with the nearest one. */
crn_status crn_lr_rule_find(const char *name, const crn_lr_rule **out, crn_err *err);

#endif
