/* SPDX-License-Identifier: Apache-2.0
 *
 * From gradients to new parameters: accumulation over steps, noise, clipping, filtering, decoupled decay, optimizer,
 * in this order, with the options of the config and of each layer's updater_opts.
 *
 * The result does not depend on the number of threads: arrays are cut into fixed chunks, norms are added chunk by chunk
 * in double. After the first steps nothing is allocated. One updater belongs to one training; its optimizer state is
 * fresh when it is made.
 */
#ifndef CRN_TRAIN_UPDATER_H
#define CRN_TRAIN_UPDATER_H

#include "base/log.h"
#include "base/threads.h"
#include "train/optimizer.h"

/* A parameter; its memory must stay where it is. Names and the updater_opts value must outlive the updater. */
typedef struct crn_update_param {
  const char *name; /* for messages, and key of its noise */
  void *w;          /* [rows, row_len], float or double */
  bool is_double;
  int64_t rows, row_len;         /* row_len 1 for a vector; a scalar has rows 1 */
  double l2;                     /* the layer's L2; used with decouple_constraints only, else part of the gradient */
  const crn_value *updater_opts; /* the layer's dict, or NULL */
  bool trainable;                /* false: left alone */
} crn_update_param;

typedef enum crn_grad_kind { CRN_GRAD_NONE, CRN_GRAD_DENSE, CRN_GRAD_ROWS } crn_grad_kind;

/* Gradient of one parameter in one step. values is overwritten. */
typedef struct crn_update_grad {
  crn_grad_kind kind;
  void *values;           /* DENSE: [rows, row_len]; ROWS: [n_indices, row_len], one row per occurrence */
  const int32_t *indices; /* ROWS: [n_indices], which row of the parameter; repeats are allowed */
  int64_t n_indices;
} crn_update_grad;

typedef struct crn_update_now {
  double lr;           /* rate of this step */
  int64_t global_step; /* counter at the start of this step */
  int64_t epoch_step;  /* step within the epoch, from 0 */
} crn_update_now;

typedef struct crn_updater crn_updater;

/* config: dict of config keys. seed: of the gradient noise. threads and log may be NULL. */
crn_status crn_updater_new(const crn_value *config, const crn_update_param *params, size_t n_params, uint64_t seed,
                           crn_threads *threads, const crn_log *log, crn_updater **out, crn_err *err);
void crn_updater_free(crn_updater *u);
/* One step; grads[i] belongs to params[i]. */
crn_status crn_updater_step(crn_updater *u, const crn_update_grad *grads, const crn_update_now *now, crn_err *err);
/* Fresh optimizer state; sums of an unfinished accumulation are dropped too. */
void crn_updater_reset(crn_updater *u);
/* Slot k of parameter i, [rows, row_len]; NULL if it has none (yet). */
const void *crn_updater_slot(const crn_updater *u, size_t param, int slot);
/* Norm of the raw gradients of the last step over all parameters; NAN if no option asked for it. */
double crn_updater_global_norm(const crn_updater *u);
const crn_optimizer *crn_updater_optimizer(const crn_updater *u, size_t param); /* NULL: not trainable */

#endif
