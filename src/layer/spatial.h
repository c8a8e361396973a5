/* SPDX-License-Identifier: Apache-2.0
 *
 * What convolution and pooling share: which axes are spatial, the order [batch axes, spatial axes, feature], padding,
 * sizes and lengths.
 */
#ifndef CRN_LAYER_SPATIAL_H
#define CRN_LAYER_SPATIAL_H

#include "layer/layer.h"

typedef enum crn_pad_mode { CRN_PAD_SAME, CRN_PAD_SAME_STATIC, CRN_PAD_VALID } crn_pad_mode;

typedef struct crn_spatial {
  int n;                  /* spatial axes */
  int first;              /* first of them in t */
  int perm[CRN_MAX_RANK]; /* axis i of t is axis perm[i] of the input */
  crn_tmpl t;             /* the input in its new order */
  int64_t k[3], stride[3], dilation[3];
  int64_t pad[3]; /* frames on each side, for VALID */
  crn_pad_mode mode;
  bool explicit_pad; /* numbers were given, not a name */
} crn_spatial;

/* Arrange the input: axes of in_spatial_dims (None: all but batch and feature) in order. */
crn_status crn_spatial_arrange(crn_build *b, crn_layer *l, const crn_tmpl *in, const crn_value *in_spatial_dims,
                               crn_spatial *s);
/* Sizes from a number or one per axis into out[0..n). v None: dflt (one per axis). */
crn_status crn_spatial_sizes(crn_build *b, const crn_layer *l, const crn_value *v, const char *option, int n,
                             const int64_t *dflt, int64_t min, int64_t out[3]);
crn_status crn_spatial_padding(crn_build *b, const crn_layer *l, const crn_value *v, crn_spatial *s);
/* Dims of spatial axis i of the output: derived, or the i-th of out_spatial_dims. */
crn_status crn_spatial_out_dim(crn_build *b, const crn_layer *l, const crn_spatial *s,
                               const crn_value *out_spatial_dims, int i, const crn_dim **out);

/* Input in the new order (padded frames of the spatial axes set to fill when mask), lengths moved along. */
crn_data *crn_spatial_input(crn_exec *x, crn_layer *l, const crn_spatial *s, bool mask, double fill);
/* Paddings for an array with these sizes of the spatial axes. */
void crn_spatial_spec(const crn_spatial *s, const int64_t *sizes, crn_conv_spec *spec);
/* For infer: whether the layer runs in pieces of a stream. */
void crn_spatial_streams(crn_layer *l, const crn_spatial *s);
/* Lengths of the spatial axes after the operation. In a streaming session d's frames become those of the windows that
 * end in this piece. */
crn_status crn_spatial_lengths(crn_exec *x, crn_layer *l, const crn_spatial *s, crn_data *d, const crn_data *len[3]);

#endif
