/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of rec and rnn_cell, and the built-in units. A rec layer with a unit name runs the unit over a time axis; with a
 * net dict it is a loop (net/loop.h).
 */
#ifndef CRN_LAYER_REC_H
#define CRN_LAYER_REC_H

#include "layer/layer.h"

typedef struct crn_rec_cfg {
  const crn_value *unit; /* name or dict */
  const crn_value *unit_opts, *direction, *max_seq_len, *forward_weights_init, *recurrent_weights_init, *bias_init, *axis,
      *back_prop, *optimize, *cheating, *debug, *weights_init, *state;
  int input_projection, unroll, include_eos, use_global_rec_step_offset;
  crn_layer *max_seq_len_via;
  void *loop; /* crn_loop, or NULL */
  void *unit_data; /* of layer/unit*.c */
} crn_rec_cfg;

/* The unit form (layer/unit.c), called by the classes rec and rnn_cell. */
crn_status crn_unit_refs(crn_build *b, crn_layer *l);
crn_status crn_unit_infer(crn_build *b, crn_layer *l);
crn_status crn_unit_params(crn_build *b, crn_layer *l);
crn_status crn_unit_forward(crn_exec *x, crn_layer *l, crn_data *out);
crn_status crn_unit_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out);

#endif
