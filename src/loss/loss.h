/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses: the descriptor and what a loss gets and gives. A loss is a class with a row like a layer's.
 *
 * compute gives values per frame (flat over valid frames, or [B,T] when not flattened), per sequence, or one scalar,
 * and errors likewise; net/losses.c masks, sums, normalises and reports (SPEC 5).
 */
#ifndef CRN_LOSS_LOSS_H
#define CRN_LOSS_LOSS_H

#include "layer/layer.h"

typedef struct crn_loss crn_loss;

typedef struct crn_loss_io {
  const crn_data *output; /* the layer's output, batch- or time-major as it came */
  const crn_data *target; /* or NULL */
  /* results: value and error, float, either NULL (not both); any shape: they are summed. Positions that are padding
   * must hold 0 or be left out. */
  crn_tensor *value, *error;
  bool error_integer; /* errors are counts */
  /* When set (>= 0) overrides the norm's number of frames. */
  double n_frames;
  bool own_norm; /* n_frames counts whatever the custom norm options say */
} crn_loss_io;

enum crn_loss_flags {
  CRN_LOSS_NEEDS_TARGET = 1u << 0,
  CRN_LOSS_RECURRENT = 1u << 1, /* works on whole sequences (ctc, edit distance): not per step of a loop */
  CRN_LOSS_ANY_DIM = 1u << 2,   /* the output's dim need not be the target's */
  CRN_LOSS_ANY_SHAPE = 1u << 3  /* nor its number of axes */
};

typedef struct crn_loss_desc {
  const char *name;
  const char *doc;
  const crn_opt *opts; /* own options; the common ones (scale, norm factors, use_flatten_frames, …) are known to all */
  size_t cfg_size;
  unsigned flags;
  /* Output dim that a target of dim asks for (ctc: +1); NULL: the same. */
  int64_t (*output_dim)(const void *cfg, int64_t target_dim);
  /* Look up what the options name besides layers (inner losses), when the layer object is made; may be NULL. */
  crn_status (*refs)(crn_build *b, crn_layer *l, crn_loss *loss);
  /* Construction checks of a loss that will be computed, templates being known; may be NULL. */
  crn_status (*check)(crn_build *b, crn_layer *l, const crn_loss *loss);
  crn_status (*compute)(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io); /* NULL: not implemented */
} crn_loss_desc;

struct crn_loss {
  const crn_loss_desc *desc;
  const char *name; /* as reported: "output", "output/prob", "extra.search:output/prob" */
  crn_layer *layer;
  void *cfg;
  double scale;
  int use_normalized_loss, use_flatten_frames;
  const crn_value *custom_norm_factor, *custom_inv_norm_factor; /* number or layer name, or NULL */
  crn_layer *norm_layer, *inv_norm_layer;
  crn_layer *target; /* or NULL */
  bool active;       /* computed in this network */
  crn_loss *next;    /* further losses of the same layer */
};

/* Construction: a loss that isn't in the network's list (inside of another one, of a layer of class loss), on the output of
 * l, from a dict {"class": NAME, …}; target may be NULL. And the checks that its class asks for. */
crn_status crn_loss_make_inner(crn_build *b, crn_layer *l, const crn_value *dict, crn_layer *target, crn_loss **out);
crn_status crn_loss_check(crn_build *b, const crn_loss *loss);

const crn_loss_desc *crn_loss_class_find(const char *name);
const crn_loss_desc *crn_loss_class_at(size_t i);

#endif
