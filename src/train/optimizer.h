/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers: one row per class with its options, its state ("slots") and its update rule on plain arrays.
 *
 * Rules know nothing of parameters, layers or threads: they are element-wise, so callers may cut arrays anywhere. What
 * a class does with gradients that exist for some rows only (embedding lookups) is stated in its row; updater.c acts on
 * it. Formulas are in the rows' doc texts, from which the documentation is printed.
 */
#ifndef CRN_TRAIN_OPTIMIZER_H
#define CRN_TRAIN_OPTIMIZER_H

#include "base/status.h"
#include "base/str.h"
#include "value/value.h"

enum { CRN_OPTIMIZER_MAX_OPTIONS = 7, CRN_OPTIMIZER_MAX_SLOTS = 3, CRN_OPTIMIZER_MAX_ALIASES = 3 };

typedef enum crn_optimizer_rows {
  CRN_ROWS_ALL,       /* as if dense: rows that don't occur have gradient 0 */
  CRN_ROWS_TOUCHED,   /* only rows that occur change, repeats summed first */
  CRN_ROWS_DECAY,     /* as TOUCHED, and the slots of the other rows decay (their weights stay) */
  CRN_ROWS_ONE_BY_ONE /* only rows that occur, one update per occurrence, in order */
} crn_optimizer_rows;

typedef struct crn_optimizer_option {
  const char *name; /* NULL: end of the list */
  double value;     /* default; booleans are 0 and 1 */
  const char *doc;
  const char *config_key; /* config key that replaces the default ("optimizer_epsilon", "momentum"), or NULL */
} crn_optimizer_option;

typedef struct crn_optimizer_slot {
  const char *name; /* NULL: end of the list */
  double start;     /* value before the first update */
  int start_option; /* 1 + index of the option that gives it instead, or 0 */
} crn_optimizer_slot;

/* What one update needs besides the arrays. */
typedef struct crn_optimizer_step {
  const double *options; /* in the order of the row's options */
  double lr;             /* learning rate, learning_rate_multiplier included */
  int64_t t;             /* number of this update, from 1 */
  double norm_sq;        /* sum of squares of the parameter's whole gradient, if needs_norm */
} crn_optimizer_step;

typedef void (*crn_optimizer_fn_f32)(const crn_optimizer_step *s, float *w, const float *g, float *const *slots,
                                     int64_t n);
typedef void (*crn_optimizer_fn_f64)(const crn_optimizer_step *s, double *w, const double *g, double *const *slots,
                                     int64_t n);

typedef struct crn_optimizer_desc {
  const char *name; /* lower case, without "optimizer" at the end */
  const char *aliases[CRN_OPTIMIZER_MAX_ALIASES];
  const char *doc; /* the update; g gradient, w parameter, lr learning rate, t number of the update */
  crn_optimizer_option options[CRN_OPTIMIZER_MAX_OPTIONS + 1];
  crn_optimizer_slot slots[CRN_OPTIMIZER_MAX_SLOTS + 1];
  crn_optimizer_rows rows;
  bool needs_norm;
  crn_optimizer_fn_f32 update_f32; /* NULL: known, not implemented */
  crn_optimizer_fn_f64 update_f64;
  crn_optimizer_fn_f32 decay_f32; /* for CRN_ROWS_DECAY: what happens to the slots of rows without gradient */
  crn_optimizer_fn_f64 decay_f64;
} crn_optimizer_desc;

/* A class with its options filled in. */
typedef struct crn_optimizer {
  const crn_optimizer_desc *desc;
  double options[CRN_OPTIMIZER_MAX_OPTIONS];
  double lr_multiplier;
} crn_optimizer;

/* All classes, n of them. */
const crn_optimizer_desc *crn_optimizer_list(size_t *n);
/* By name: any case, "AdamOptimizer" = "adam". Error with the nearest name when unknown or not implemented. */
crn_status crn_optimizer_find(const char *name, const crn_optimizer_desc **out, crn_err *err);
int crn_optimizer_slot_count(const crn_optimizer_desc *desc);
double crn_optimizer_slot_start(const crn_optimizer *o, int slot);

/* From a dict {'class': …, options} or a class name; base (may be NULL) gives the class when the dict has none. config
 * gives optimizer_epsilon and momentum. */
crn_status crn_optimizer_from_value(const crn_value *value, const crn_value *config, const crn_optimizer *base,
                                    crn_optimizer *out, crn_err *err);
/* The config's optimizer: key `optimizer`, else the old keys (adam, nadam, adadelta, adagrad, rmsprop, momentum;
 * refused from behavior_version 2 on), else gradient descent. */
crn_status crn_optimizer_from_config(const crn_value *config, crn_optimizer *out, crn_err *err);

/* "adam with options {'beta1': 0.9, …}" */
void crn_optimizer_describe(const crn_optimizer *o, crn_str *out);
/* "['m', 'v']" */
void crn_optimizer_describe_slots(const crn_optimizer *o, crn_str *out);

#endif
