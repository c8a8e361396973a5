/* SPDX-License-Identifier: Apache-2.0
 *
 * The updater's own structures, shared by updater.c (construction) and updater_step.c (a step).
 */
#ifndef CRN_TRAIN_UPDATER_INTERNAL_H
#define CRN_TRAIN_UPDATER_INTERNAL_H

#include "train/updater.h"
#include "train/updater_math.h"

/* Options of one parameter: the config's, replaced by those of its layer's updater_opts. 0 = off. */
typedef struct crn_update_options {
  int64_t accumulate; /* accum_grad_multiple_step */
  double noise, clip, clip_norm, clip_avg_norm, clip_global_norm, zero_above;
  bool filter;
  const char *norm_tag;      /* global_norm_tag, NULL: all parameters */
  const char *clip_norm_tag; /* gradient_clip_global_norm_tag; NULL: as norm_tag */
} crn_update_options;

typedef struct crn_update_state {
  crn_update_param param;
  int64_t n; /* elements */
  const crn_update_math *math;
  crn_update_options opts;
  crn_optimizer optimizer;
  const crn_value *tags;                /* list of str, or NULL */
  int clip_tag, zero_tag;               /* indices into the updater's tags; 0 = all parameters */
  void *slots[CRN_OPTIMIZER_MAX_SLOTS]; /* [n], made at the first update */
  void *sum;                            /* [n] dense gradient: accumulated, or rows that had to become dense */
  bool sum_started;                     /* some gradient of this accumulation has arrived */
  int32_t *first;                       /* [rows] first occurrence of a row in this step, -1 = none; made on demand */
  void *zero_row;                       /* [row_len] zeros; made together with first */
  int64_t t;                            /* updates done */

  /* of the running step */
  crn_update_grad grad; /* as it stands now */
  bool present;         /* has a gradient in this step */
  bool applied;         /* its optimizer runs in this step */
  int64_t n_values;     /* elements of grad.values */
  double norm_sq;       /* sum of squares: raw, then after clipping by value, then final (for needs_norm) */
  bool changed_early;   /* scale_and_filter has been done */
  crn_rng rng;
  crn_grad_change change;
  crn_optimizer_step step;
} crn_update_state;

typedef struct crn_update_task {
  size_t param;
  int64_t begin, end;
} crn_update_task;

struct crn_updater {
  crn_update_state *states;
  size_t n;
  crn_threads *threads;
  crn_log log;
  uint64_t seed;
  bool decouple;       /* decouple_constraints */
  int64_t reset_every; /* reset_updater_vars_mod_step, 0 = never */
  const char **tags;   /* names of the groups that norms are taken over; tags[0] is NULL = all */
  double *norms;       /* [n_tags] of this step */
  size_t n_tags;
  bool need_norms;
  crn_arena arena; /* tags, norms */

  crn_update_task *tasks; /* of the running phase */
  double *partial;        /* one sum per task */
  size_t n_tasks, cap_tasks;
};

void crn_updater_reset_state(crn_update_state *s);

#endif
