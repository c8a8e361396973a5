/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of rec and rnn_cell, and the built-in units. A rec layer with a unit name runs the unit over a time axis;
 * with a net dict it is a loop (net/loop.h).
 */
#ifndef CRN_LAYER_REC_H
#define CRN_LAYER_REC_H

#include "layer/layer.h"

typedef struct crn_rec_cfg {
  const crn_value *unit; /* name or dict */
  const crn_value *unit_opts, *direction, *max_seq_len, *forward_weights_init, *recurrent_weights_init, *bias_init,
      *axis, *back_prop, *optimize, *cheating, *debug, *weights_init, *state;
  int input_projection, unroll, include_eos, use_global_rec_step_offset;
  crn_layer *max_seq_len_via;
  void *loop;      /* crn_loop, or NULL */
  void *unit_data; /* of layer/unit*.c */
} crn_rec_cfg;

/* The unit form (layer/unit.c), called by the classes rec and rnn_cell. */
crn_status crn_unit_refs(crn_build *b, crn_layer *l);
crn_status crn_unit_infer(crn_build *b, crn_layer *l);
crn_status crn_unit_params(crn_build *b, crn_layer *l);
crn_status crn_unit_forward(crn_exec *x, crn_layer *l, crn_data *out);

/* Of a unit that configs can use, what there is to tell about it. */
typedef struct crn_unit_info {
  const char *name;
  const char *const *aliases, *const *cell_aliases; /* in rec, in rnn_cell; NULL-terminated, or NULL */
  const crn_opt *opts;                              /* unit_opts */
  bool in_cell;                                     /* rnn_cell can run it */
} crn_unit_info;

bool crn_unit_info_at(size_t i, crn_unit_info *out);
/* By any of its names, as a config may write it; out may be NULL. */
bool crn_unit_named(const char *given, crn_unit_info *out);

crn_status crn_unit_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out);

#endif
