/* SPDX-License-Identifier: Apache-2.0
 *
 * Additive attention energies, v·tanh(a + b): a chain of three layers (combine add, activation tanh, linear to 1 without
 * bias) whose middle nobody else reads runs as one operation. net/fuse.c finds the chains.
 */
#ifndef CRN_LAYER_FUSED_H
#define CRN_LAYER_FUSED_H

#include "layer/layer.h"

bool crn_layer_is_plain_sum(const crn_layer *l);        /* combine: add, nothing else */
bool crn_layer_is_plain_tanh(const crn_layer *l);       /* activation: tanh, nothing else */
bool crn_layer_is_plain_projection(const crn_layer *l); /* linear to one feature: no bias, activation, dropout */
/* The sum's sources are contexts [B,T,K] (any order) and queries [B,K] of one feature size. */
bool crn_energy_is_possible(const crn_layer *sum);
/* Make the projection compute the whole chain from the sum's sources. */
void crn_layer_fuse_energy(crn_layer *projection, crn_layer *sum);
/* Forward of a fused projection: out = v·tanh(sum of sources). */
crn_status crn_energy_forward(crn_exec *x, crn_layer *l, crn_layer *sum, crn_data *out);

#endif
