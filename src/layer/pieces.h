/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers along an axis that comes in pieces (streaming sessions): windows over frames of earlier pieces and this one.
 */
#ifndef CRN_LAYER_PIECES_H
#define CRN_LAYER_PIECES_H

#include "layer/layer.h"

/* The axis comes in pieces when the layer runs in a streaming session: it has no fixed size, and the layer runs on all
 * of a piece's frames at once. */
bool crn_streams_along(const crn_layer *l, const crn_dim *axis);
/* For infer: the layer takes these axes of t as a whole. In pieces it can run if none of them comes in pieces. */
void crn_takes_whole(crn_layer *l, const crn_tmpl *t, const int *axes, int n);

/* Windows of `extent` frames, one every `stride` frames, over an axis with `left` < extent frames of a constant in
 * front. */
typedef struct crn_windows {
  int64_t extent, stride, left;
  double fill;
} crn_windows;

typedef struct crn_windowed {
  crn_tensor *v;       /* the frames of all windows that end in this piece, from the first one's first frame on */
  int64_t n;           /* windows */
  const crn_data *len; /* windows of each sequence; NULL: all */
} crn_windowed;

/* Find the windows of this piece (v, len: input and its lengths); put aside what those to come need. */
crn_status crn_stream_windows(crn_exec *x, crn_layer *l, const crn_windows *w, crn_tensor *v, int axis,
                              const crn_data *len, crn_windowed *p);

#endif
