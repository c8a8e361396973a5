/* SPDX-License-Identifier: Apache-2.0
 *
 * The updater's loops for float; the source is updater_math.inc.h.
 */
#include <math.h>
#include <string.h>

#include "train/updater_math.h"

#define REAL float
#define MATH crn_update_math_f32
#define UPDATE_FN crn_optimizer_fn_f32
#define UPDATE update_f32
#define DECAY decay_f32
#include "train/updater_math.inc.h"
