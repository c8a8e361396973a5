/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over an axis that comes in pieces, see pieces.h.
 */
#include "layer/pieces.h"

#include <string.h>

#include "layer/lengths.h"

bool crn_streams_along(const crn_layer *l, const crn_dim *axis) {
  return crn_dim_is_dynamic(axis) && !crn_layer_in_loop(l);
}

void crn_takes_whole(crn_layer *l, const crn_tmpl *t, const int *axes, int n) {
  l->causal = true;
  l->ahead = NULL;
  for (int i = 0; i < n; i++) {
    const crn_dim *d = t->dims[axes[i]];
    if (d->kind == CRN_DIM_BATCH) l->causal = false;
    if (crn_streams_along(l, d)) l->ahead = "it takes all frames of an axis together";
  }
  if (l->ahead) l->causal = false;
}

/* Windows that end within the first n frames. */
static int64_t ended(const crn_windows *w, int64_t n) {
  const int64_t room = n + w->left - w->extent;
  return room < 0 ? 0 : room / w->stride + 1;
}

/* Frames of earlier pieces that later windows may need, at the beginning those of the constant. */
static crn_tensor *frames_before(crn_exec *x, crn_layer *l, const crn_windows *w, const crn_tensor *v, int axis) {
  crn_run *r = crn_exec_run(x);
  crn_tensor *kept = crn_stream_kept(x, l);
  if (kept || crn_run_failed(r)) return kept;
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, v->shape, sizeof(shape));
  shape[axis] = w->left;
  return crn_t_full(r, v->dtype, v->rank, shape, w->fill);
}

crn_status crn_stream_windows(crn_exec *x, crn_layer *l, const crn_windows *w, crn_tensor *v, int axis,
                              const crn_data *len, crn_windowed *p) {
  crn_run *r = crn_exec_run(x);
  crn_tensor *before = v ? frames_before(x, l, w, v, axis) : NULL;
  if (!before) return r->err->code;
  const int64_t past = crn_stream_before(x, l), T = v->shape[axis], first = ended(w, past),
                begin = past + w->left - before->shape[axis]; /* of all frames, those in front included */
  crn_tensor *all = v;
  if (before->shape[axis] && T)
    all = crn_concat(r, 2, (crn_tensor *[]){before, v}, axis);
  else if (before->shape[axis])
    all = before;
  if (!all) return r->err->code;
  p->n = ended(w, past + T) - first;
  p->v = p->n ? crn_slice(r, all, axis, first * w->stride - begin, (p->n - 1) * w->stride + w->extent, 1)
              : crn_slice(r, all, axis, 0, 0, 1);
  p->len = crn_lengths_affine(x, len, 1, past + w->left - w->extent + w->stride, w->stride);
  p->len = crn_lengths_affine(x, p->len, 1, -first, 1);
  const int64_t size = all->shape[axis], keep = size < w->extent - 1 ? size : w->extent - 1;
  CRN_TRY(crn_stream_keep(x, l, crn_slice(r, all, axis, size - keep, keep, 1)));
  crn_stream_pass(x, l, T);
  return p->v ? CRN_OK : r->err->code;
}
