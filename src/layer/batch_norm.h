/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch normalisation: the option `batch_norm` of every layer. The network calls these for a layer of any class: after
 * its inference, with its parameters, and after its forward.
 */
#ifndef CRN_LAYER_BATCH_NORM_H
#define CRN_LAYER_BATCH_NORM_H

#include "layer/layer.h"

/* Parse the option (once) into l->batch_norm and check it against the output; nothing if there is none. */
crn_status crn_batch_norm_infer(crn_build *b, crn_layer *l);
crn_status crn_batch_norm_params(crn_build *b, crn_layer *l);
/* Outside of training too the statistics of the batch count. */
bool crn_batch_norm_reads_batch(const crn_layer *l);
/* Normalise d in place and note the new running statistics. */
crn_status crn_batch_norm_apply(crn_exec *x, crn_layer *l, crn_data *d);

#endif
