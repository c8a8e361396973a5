/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations of layers (layers-1.md, C4): names and expressions, applied to data.
 */
#ifndef CRN_LAYER_ACTIVATION_H
#define CRN_LAYER_ACTIVATION_H

#include "layer/layer.h"

typedef struct crn_act crn_act;

/* Option value (None, a name, an expression) -> activation; *out NULL = identity. option: for messages. */
crn_status crn_act_of(crn_build *b, crn_layer *l, const crn_value *v, const char *option, crn_act **out);
/* softmax or log_softmax: acts over the feature axis. */
bool crn_act_is_softmax(const crn_act *a);
const char *crn_act_name(const crn_act *a); /* "softmax", "sigmoid", "exp", …; NULL: composed */
/* d->v becomes act(d->v), d->pre and pre_act what it was; softmax acts over the feature axis wherever it is. */
crn_status crn_act_apply(crn_exec *x, crn_layer *l, const crn_act *a, crn_data *d);
/* The same where d->v is the layer's own and is not read otherwise: without gradients it may be overwritten. */
crn_status crn_act_apply_over(crn_exec *x, crn_layer *l, const crn_act *a, crn_data *d);
/* With keywords of the function (a dict or NULL); d->pre and pre_act say how the input was made, or are NULL. */
crn_status crn_act_apply_opts(crn_exec *x, const crn_act *a, const crn_value *opts, crn_data *d);

#endif
