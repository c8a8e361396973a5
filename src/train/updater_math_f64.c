/* SPDX-License-Identifier: Apache-2.0
 *
 * The updater's loops for double; the source is updater_math.inc.h.
 */
#include <math.h>
#include <string.h>

#include "train/updater_math.h"

#define REAL double
#define MATH crn_update_math_f64
#define UPDATE_FN crn_optimizer_fn_f64
#define UPDATE update_f64
#define DECAY decay_f64
#include "train/updater_math.inc.h"
