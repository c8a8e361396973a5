/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizers' update rules for double; the source is optimizer_rules.inc.h.
 */
#include <math.h>

#include "train/optimizer_rules.h"

#define REAL double
#define RULE(name) crn_rule_##name##_f64
#define SQRT sqrt
#define FABS fabs
#define POW pow
#include "train/optimizer_rules.inc.h"
