/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of the updater over spans of one array, for float and double behind one table, so that the updater itself
 * doesn't know the type. Sums of squares are in double with a fixed order.
 */
#ifndef CRN_TRAIN_UPDATER_MATH_H
#define CRN_TRAIN_UPDATER_MATH_H

#include "base/random.h"
#include "train/optimizer.h"

/* How a gradient is changed before the optimizer sees it. */
typedef struct crn_grad_change {
  const crn_rng *noise; /* NULL: none */
  double noise_sigma;
  double clip;   /* to [-clip, clip]; 0: not */
  double factor; /* 1: not */
  bool filter;   /* nan and inf become 0, after the factor */
  bool zero;     /* everything becomes 0 */
} crn_grad_change;

/* x, y, w, g, slots: arrays of the table's type; `at` counts elements. */
typedef struct crn_update_math {
  size_t size; /* bytes of one element */
  double (*sum_sq)(const void *x, int64_t at, int64_t n);
  void (*fill)(void *x, int64_t at, int64_t n, double value);
  void (*copy)(void *x, const void *y, int64_t at, int64_t n);
  void (*add)(void *x, int64_t x_at, const void *y, int64_t y_at, int64_t n); /* x += y */
  void (*noise_and_clip)(void *g, int64_t at, int64_t n, const crn_grad_change *c);
  void (*scale_and_filter)(void *g, int64_t at, int64_t n, const crn_grad_change *c);
  void (*decay)(void *w, int64_t at, int64_t n, double factor); /* w -= factor·w */
  /* The optimizer on w[w_at …] with g[g_at …]; g NULL: the desc's decay for rows without gradient. */
  void (*update)(const crn_optimizer_desc *d, const crn_optimizer_step *s, void *w, void *const *slots, int64_t w_at,
                 const void *g, int64_t g_at, int64_t n);
} crn_update_math;

extern const crn_update_math crn_update_math_f32, crn_update_math_f64;

#endif
