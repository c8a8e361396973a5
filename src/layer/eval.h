/* SPDX-License-Identifier: Apache-2.0
 *
 * Eval expressions of layers (layers-1.md, C9): what source, self and eval_locals mean.
 */
#ifndef CRN_LAYER_EVAL_H
#define CRN_LAYER_EVAL_H

#include "layer/layer.h"

typedef struct crn_layer_eval crn_layer_eval;

/* Option "eval" (a string) and eval_locals, checked: all sources must be asked for, names must be known. */
crn_status crn_layer_eval_of(crn_build *b, crn_layer *l, const crn_value *eval, const crn_value *locals, crn_layer_eval **out);
/* Fill out->v (axes of out->t) and lengths from the sources. */
crn_status crn_layer_eval_run(crn_exec *x, crn_layer *l, const crn_layer_eval *e, crn_data *out);

/* Lengths of the axes of out, from data that has them. */
void crn_take_lengths(crn_exec *x, const crn_data *from, crn_data *out);

#endif
