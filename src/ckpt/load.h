/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading the variables of a network from a checkpoint: options about names, conversions, and an error that lists what
 * is missing, what is left over and what was probably renamed. Works on plain structs; knows no networks.
 */
#ifndef CRN_CKPT_LOAD_H
#define CRN_CKPT_LOAD_H

#include "ckpt/bundle.h"
#include "ckpt/convert.h"

typedef enum crn_load_result {
  CRN_LOAD_NOT_TRIED = 0, /* before, or after a failure */
  CRN_LOAD_DONE,          /* values are at dst */
  CRN_LOAD_EXCLUDED,      /* by prefix or ignore_params, or skip was set */
  CRN_LOAD_MISSING        /* not in the file (allowed); dst untouched */
} crn_load_result;

typedef struct crn_load_want {
  crn_ckpt_var var;       /* name: the network's */
  bool non_critical;      /* may be missing */
  bool skip;              /* loaded from elsewhere already */
  void *dst;              /* values go here, row-major, in var.dtype */
  crn_load_result result; /* set by loading */
} crn_load_want;

typedef struct crn_name_pair {
  const char *name; /* in the network */
  const char *in_file;
} crn_name_pair;

typedef struct crn_load_opts {
  const char *params_prefix;        /* only variables that begin so; removed for look-up. NULL or "": all */
  const char *load_if_prefix;       /* only variables that contain it; every occurrence is removed for look-up */
  bool ignore_missing;              /* missing ones keep their values; but nothing loaded at all is an error */
  const char *const *ignore_params; /* names (after removal) that aren't loaded */
  size_t n_ignore_params;
  const char *const *ignore_params_prefixes; /* beginnings of such names */
  size_t n_ignore_params_prefixes;
  const crn_name_pair *var_name_mapping; /* for names (after removal, or whole) that the file doesn't have */
  size_t n_var_name_mapping;
  /* Called for a variable that the file lacks (under in_file): fill dst and set *loaded, or leave it. NULL: none. */
  crn_status (*custom_missing)(void *user, const crn_bundle *b, crn_load_want *want, const char *in_file, bool *loaded,
                               crn_err *err);
  void *custom_user;
  bool keep_function; /* see crn_convert_opts */
  const crn_log *log; /* a line for each conversion (level 3) */
} crn_load_opts;

typedef struct crn_load_stats {
  size_t n_loaded, n_converted, n_missing, n_excluded;
} crn_load_stats;

/* Load n wants. opts NULL: defaults (everything, nothing may be missing). stats may be NULL. Nothing is written to any
 * dst before it is known that all names, types and shapes are fine. */
crn_status crn_load_variables(const crn_bundle *b, crn_load_want *wants, size_t n, const crn_load_opts *opts,
                              crn_load_stats *stats, crn_err *err) CRN_MUST_CHECK;

/* True for variables of training itself: global_step, learning_rate, optimizer slots (…/W/Adam_1, beta1_power). They
 * are never listed as left over. */
bool crn_load_is_training_state(const crn_bundle *b, const char *name);

#endif
