/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizers' update rules for float; the source is optimizer_rules.inc.h.
 */
#include <math.h>

#include "train/optimizer_rules.h"

#define REAL float
#define RULE(name) crn_rule_##name##_f32
#define SQRT sqrtf
#define FABS fabsf
#define POW powf
#include "train/optimizer_rules.inc.h"
