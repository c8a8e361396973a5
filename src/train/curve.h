/* SPDX-License-Identifier: Apache-2.0
 *
 * Picture of a training: scores, errors and the learning rate over the epochs, as SVG from the learning-rate table.
 */
#ifndef CRN_TRAIN_CURVE_H
#define CRN_TRAIN_CURVE_H

#include "base/str.h"
#include "train/learning_rate_table.h"

/* title: in the head of the picture (NULL: none), any text. Error CRN_E_DATA when the table has no epoch. */
crn_status crn_curve_svg(const crn_lr_table *table, const char *title, crn_str *out, crn_err *err);
/* Tick marks for an axis from lo to hi: multiples of 1, 2 or 5 times a power of ten; about `wanted` of them, at most
 * 16. Returns how many. */
int crn_curve_ticks(double lo, double hi, int wanted, bool whole, double ticks[16]);

#endif
