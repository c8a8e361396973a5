/* SPDX-License-Identifier: Apache-2.0
 *
 * masked_computation: what the rest of net/ needs of it.
 */
#ifndef CRN_NET_MASKED_H
#define CRN_NET_MASKED_H

#include "net/exec.h"

/* Mask layer of a masked_computation that runs step by step in a loop, NULL if it doesn't mask by step. */
crn_layer *crn_masked_mask(const crn_layer *owner);
/* yes where mask [B] is true, else no; all brought to the beam of l. */
crn_data *crn_masked_choose(crn_exec *x, crn_layer *l, const crn_data *mask, const crn_data *yes, const crn_data *no);

#endif
