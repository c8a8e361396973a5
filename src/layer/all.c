/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of layer families. Adding a family: one line here; adding a layer to a family: one row there.
 */
#include "layer/all.h"

#include <string.h>

/* ORDER FAMILIES: declared here, listed below */
extern const crn_layer_desc crn_family_linear[];
extern const crn_layer_desc crn_family_copy[];
extern const crn_layer_desc crn_family_stft[];
extern const crn_layer_desc crn_family_signal[];
extern const crn_layer_desc crn_family_print[];
extern const crn_layer_desc crn_family_statistics[];
extern const crn_layer_desc crn_family_masks[];
extern const crn_layer_desc crn_family_scaled_grad[];
extern const crn_layer_desc crn_family_random[];
extern const crn_layer_desc crn_family_chunks[];
extern const crn_layer_desc crn_family_reorder[];
extern const crn_layer_desc crn_family_sample[];
extern const crn_layer_desc crn_family_transposed_conv[];
extern const crn_layer_desc crn_family_slice[];
extern const crn_layer_desc crn_family_join[];
extern const crn_layer_desc crn_family_pad[];
extern const crn_layer_desc crn_family_gating[];
extern const crn_layer_desc crn_family_window[];
extern const crn_layer_desc crn_family_source[];
extern const crn_layer_desc crn_family_batch_norm[];
extern const crn_layer_desc crn_family_conv[];
extern const crn_layer_desc crn_family_pool[];
extern const crn_layer_desc crn_family_norm[];
extern const crn_layer_desc crn_family_net[];
extern const crn_layer_desc crn_family_rec[];
extern const crn_layer_desc crn_family_choice[];
extern const crn_layer_desc crn_family_masked[];
extern const crn_layer_desc crn_family_combine[];
extern const crn_layer_desc crn_family_attention[];
extern const crn_layer_desc crn_family_globalatt[];
extern const crn_layer_desc crn_family_dct[];
extern const crn_layer_desc crn_family_assign[];
extern const crn_layer_desc crn_family_framewise[];
extern const crn_layer_desc crn_family_lookup[];
extern const crn_layer_desc crn_family_gradient[];
extern const crn_layer_desc crn_family_align[];
extern const crn_layer_desc crn_family_unflatten[];
extern const crn_layer_desc crn_family_batch[];
extern const crn_layer_desc crn_family_scatter[];
extern const crn_layer_desc crn_family_top_k[];
extern const crn_layer_desc crn_family_distance[];
extern const crn_layer_desc crn_family_gather[];
extern const crn_layer_desc crn_family_posenc[];
extern const crn_layer_desc crn_family_selfatt[];
extern const crn_layer_desc crn_family_reduce[];
extern const crn_layer_desc crn_family_beams[];
extern const crn_layer_desc crn_family_shape[];
extern const crn_layer_desc crn_family_reinterpret[];
extern const crn_layer_desc crn_family_state[];
extern const crn_layer_desc crn_family_twod[];
extern const crn_layer_desc crn_family_loss[];

extern const crn_layer_desc crn_family_cond[];
extern const crn_layer_desc crn_family_split[];
extern const crn_layer_desc crn_family_segments[];
extern const crn_layer_desc crn_family_rearrange[];
extern const crn_layer_desc crn_family_overlap[];
extern const crn_layer_desc crn_family_missing[];

static const crn_layer_desc *const families[] = {
    crn_family_linear,
    crn_family_copy,
    crn_family_stft,
    crn_family_signal,
    crn_family_print,
    crn_family_statistics,
    crn_family_masks,
    crn_family_scaled_grad,
    crn_family_random,
    crn_family_chunks,
    crn_family_reorder,
    crn_family_sample,
    crn_family_transposed_conv,
    crn_family_slice,
    crn_family_join,
    crn_family_pad,
    crn_family_gating,
    crn_family_window,
    crn_family_source,
    crn_family_batch_norm,
    crn_family_conv,
    crn_family_pool,
    crn_family_norm,
    crn_family_net,
    crn_family_rec,
    crn_family_choice,
    crn_family_masked,
    crn_family_combine,
    crn_family_attention,
    crn_family_globalatt,
    crn_family_dct,
    crn_family_assign,
    crn_family_framewise,
    crn_family_lookup,
    crn_family_gradient,
    crn_family_align,
    crn_family_unflatten,
    crn_family_batch,
    crn_family_scatter,
    crn_family_top_k,
    crn_family_distance,
    crn_family_gather,
    crn_family_posenc,
    crn_family_selfatt,
    crn_family_reduce,
    crn_family_beams,
    crn_family_shape,
    crn_family_reinterpret,
    crn_family_state,
    crn_family_twod,
    crn_family_loss,
    crn_family_cond,
    crn_family_split,
    crn_family_segments,
    crn_family_rearrange,
    crn_family_overlap,
    crn_family_missing, /* last */
};

static bool has_name(const crn_layer_desc *d, const char *name) {
  if (!strcmp(d->name, name)) return true;
  for (const char *const *a = d->aliases; a && *a; a++)
    if (!strcmp(*a, name)) return true;
  return false;
}

const crn_layer_desc *crn_layer_class_find(const char *name) {
  for (size_t f = 0; f < sizeof(families) / sizeof(*families); f++)
    for (const crn_layer_desc *d = families[f]; d->name; d++)
      if (has_name(d, name)) return d;
  return NULL;
}

const crn_layer_desc *crn_layer_class_at(size_t i) {
  for (size_t f = 0; f < sizeof(families) / sizeof(*families); f++)
    for (const crn_layer_desc *d = families[f]; d->name; d++)
      if (i-- == 0) return d;
  return NULL;
}
