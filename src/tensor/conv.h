/* SPDX-License-Identifier: Apache-2.0
 *
 * Geometry of a convolution or pooling, private to ops_conv.c, ops_pool.c and their includes. One to three spatial axes
 * become three (leading ones of size 1). "Position" = one output place of one sequence, "tap" = one place of the
 * window.
 */
#ifndef CRN_TENSOR_CONV_H
#define CRN_TENSOR_CONV_H

#include "tensor/ops.h"

typedef struct conv_geometry {
  int64_t B, C, O;
  int64_t in[3], out[3], k[3], stride[3], dilation[3], pad[3];
  int64_t groups, group_in, group_out; /* channels of a group */
  int64_t taps, K;                     /* K = taps * group_in */
  int64_t positions;                   /* B * out[0] * out[1] * out[2] */
} conv_geometry;

/* The operation's arguments: geometry that is given, in the arena. */
typedef struct conv_attrs {
  crn_conv_spec spec;
  int64_t out_spatial[3]; /* transposed: sizes of the result */
  bool max;               /* pool */
} conv_attrs;

/* max(0, floor((size + pads - (k-1)*dilation - 1) / stride) + 1) */
int64_t crn_conv_out_size(const crn_conv_spec *spec, int axis, int64_t size, int64_t k);
/* Fill the sizes of the axes from spec, input sizes in [n_spatial] and window sizes k [n_spatial]; channels are the
 * caller's. Fails on strides, dilations or windows below 1. */
crn_status crn_conv_geometry(crn_run *r, const crn_node *n, const crn_conv_spec *spec, const int64_t *in,
                             const int64_t *k, conv_geometry *g);

/* Where the window of a position begins. */
typedef struct conv_place {
  int64_t b, start[3];
} conv_place;

static inline conv_place conv_place_of(const conv_geometry *g, int64_t position) {
  conv_place p;
  for (int i = 2; i >= 0; i--) {
    p.start[i] = position % g->out[i] * g->stride[i] - g->pad[i];
    position /= g->out[i];
  }
  p.b = position;
  return p;
}

/* Taps [lo, hi) of the last axis that lie inside the array. */
static inline void conv_inside(const conv_geometry *g, const conv_place *p, int64_t *lo, int64_t *hi) {
  int64_t start = p->start[2], d = g->dilation[2],
          room = g->in[2] - start; /* tap k is inside if 0 <= start + k*d < in */
  *lo = start >= 0 ? 0 : (d == 1 ? -start : (-start + d - 1) / d);
  *hi = room <= 0 ? 0 : (d == 1 ? room : (room + d - 1) / d);
  if (*hi > g->k[2]) *hi = g->k[2];
  if (*lo > *hi) *lo = *hi;
}

/* A window is k[0]*k[1] lines of k[2] taps. Input place of tap 0 of a line (perhaps outside itself, see conv_inside);
 * false: the whole line is in the padding. Tap k is k*dilation[2] places further. */
static inline bool conv_line(const conv_geometry *g, const conv_place *p, int64_t k0, int64_t k1, int64_t *place) {
  int64_t i0 = p->start[0] + k0 * g->dilation[0], i1 = p->start[1] + k1 * g->dilation[1];
  *place = ((p->b * g->in[0] + i0) * g->in[1] + i1) * g->in[2] + p->start[2];
  return i0 >= 0 && i0 < g->in[0] && i1 >= 0 && i1 < g->in[1];
}

#endif
