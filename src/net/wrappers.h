/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal layer classes: a name that isn't a layer of the dict (data, prev:x, rec/x, split/0, …) is a layer that wraps.
 */
#ifndef CRN_NET_WRAPPERS_H
#define CRN_NET_WRAPPERS_H

#include "layer/layer.h"

extern const crn_layer_desc crn_wrap_extern;     /* external data; priv = crn_extern */
extern const crn_layer_desc crn_wrap_sub_output; /* a layer's sub output; priv = its name */
extern const crn_layer_desc crn_wrap_concat;     /* several sources as one (subnetwork's and loop's data) */
/* loops (loop_wrap.c) */
extern const crn_layer_desc crn_wrap_prev;    /* in the loop: x of the step before; priv = crn_prev */
extern const crn_layer_desc crn_wrap_slice;   /* in the loop: this step's frame of a layer outside */
extern const crn_layer_desc crn_wrap_accum;   /* outside: all steps of a layer in the loop, stacked */
extern const crn_layer_desc crn_wrap_shift;   /* outside: x one frame later, initial output first */
extern const crn_layer_desc crn_wrap_runner;  /* runs the steps; priv = crn_loop */
extern const crn_layer_desc crn_wrap_step;    /* ":i" */
extern const crn_layer_desc crn_wrap_frames;  /* outside: data of the surrounding net with the loop's axis */

#endif
