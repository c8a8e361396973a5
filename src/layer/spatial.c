/* SPDX-License-Identifier: Apache-2.0
 *
 * Spatial axes of convolution and pooling: order, padding, sizes, lengths (layers-1.md, conv; layers-2.md, pool).
 */
#include "layer/spatial.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "layer/lengths.h"
#include "layer/pieces.h"

/* ---- construction ---------------------------------------------------------------------------------------------------
 */

static crn_status choose_axes(crn_build *b, crn_layer *l, const crn_tmpl *in, const crn_value *dims,
                              int axes[CRN_MAX_RANK], int *n) {
  if (!crn_v_is_none(dims)) return crn_layer_axes(b, l, in, dims, "in_spatial_dims", axes, n);
  const crn_dim *loop = crn_layer_moved_out(l) ? crn_loop_dim(l) : NULL;
  *n = 0;
  for (int i = 0; i < in->n; i++)
    if (in->dims[i]->kind != CRN_DIM_BATCH && i != in->feature_axis && !(loop && crn_dim_same(in->dims[i], loop)))
      axes[(*n)++] = i;
  if (*n > 1 && crn_build_version(b) >= 8)
    return crn_layer_fail(
        b, l, CRN_E_CONFIG,
        "option 'in_spatial_dims' is required when there are several spatial axes (behavior_version 8 and later)");
  return CRN_OK;
}

crn_status crn_spatial_arrange(crn_build *b, crn_layer *l, const crn_tmpl *in, const crn_value *in_spatial_dims,
                               crn_spatial *s) {
  int axes[CRN_MAX_RANK], n, k = 0;
  bool used[CRN_MAX_RANK] = {false};
  if (in->sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source is sparse");
  if (in->feature_axis < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source has no feature axis");
  CRN_TRY(choose_axes(b, l, in, in_spatial_dims, axes, &n));
  for (int i = 0; i < n; i++) {
    if (axes[i] == in->feature_axis || in->dims[axes[i]]->kind == CRN_DIM_BATCH)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'in_spatial_dims': batch and feature axes can't be spatial");
    used[axes[i]] = true;
  }
  used[in->feature_axis] = true;
  const int batch = crn_tmpl_batch_axis(in);
  if (batch >= 0) {
    s->perm[k++] = batch;
    used[batch] = true;
  }
  for (int i = 0; i < in->n; i++)
    if (!used[i]) s->perm[k++] = i;
  s->first = k;
  s->n = n;
  for (int i = 0; i < n; i++) s->perm[k++] = axes[i];
  s->perm[k] = in->feature_axis;
  s->t = *in;
  s->t.time_explicit = s->t.feature_explicit = true; /* roles stay with their axes */
  crn_tmpl_permute(&s->t, s->perm);
  s->t.time_explicit = s->t.time_axis >= 0;
  s->t.feature_explicit = in->feature_explicit;
  return CRN_OK;
}

static bool one_size(crn_build *b, const crn_value *v, int64_t *out) {
  if (v->kind == CRN_V_DIM) {
    const crn_dim *d = crn_dim_of_value(crn_build_dims(b), v);
    *out = d ? d->size : -1;
    return d && d->size >= 0;
  }
  return crn_v_to_int(v, out);
}

crn_status crn_spatial_sizes(crn_build *b, const crn_layer *l, const crn_value *v, const char *option, int n,
                             const int64_t *dflt, int64_t min, int64_t out[3]) {
  if (crn_v_is_none(v)) {
    for (int i = 0; i < n; i++) out[i] = dflt[i];
    return CRN_OK;
  }
  const bool list = crn_v_is_seq(v);
  if (list && (int)crn_v_len(v) != n && crn_v_len(v) != 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected %d numbers, one per spatial axis, got %d", option,
                          n, (int)crn_v_len(v));
  for (int i = 0; i < n; i++) {
    const crn_value *item = list ? crn_v_at(v, crn_v_len(v) == 1 ? 0 : (size_t)i) : v;
    if (!one_size(b, item, &out[i]) || out[i] < min)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected an integer of at least %lld per spatial axis",
                            option, (long long)min);
  }
  return CRN_OK;
}

crn_status crn_spatial_padding(crn_build *b, const crn_layer *l, const crn_value *v, crn_spatial *s) {
  static const int64_t none[3] = {0, 0, 0};
  const char *name = crn_v_cstr(v);
  s->explicit_pad = !name;
  s->mode = CRN_PAD_VALID;
  memset(s->pad, 0, sizeof(s->pad));
  if (!name) return crn_spatial_sizes(b, l, v, "padding", s->n, none, 0, s->pad);
  if (!strcasecmp(name, "same"))
    s->mode = CRN_PAD_SAME;
  else if (!strcasecmp(name, "same_static"))
    s->mode = CRN_PAD_SAME_STATIC;
  else if (strcasecmp(name, "valid"))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'padding': unknown padding '%s'; there are same, valid, same_static and numbers",
                          name);
  if (s->mode != CRN_PAD_SAME_STATIC) return CRN_OK;
  for (int i = 0; i < s->n; i++) {
    if (s->dilation[i] > 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'padding': same_static does not work with dilation");
    if (s->t.dims[s->first + i]->size < 0 && s->k[i] < s->stride[i])
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "option 'padding': same_static on a dynamic axis needs windows of at least the stride");
  }
  return CRN_OK;
}

static int64_t shrink_of(const crn_spatial *s, int i) {
  return s->mode == CRN_PAD_VALID ? (s->k[i] - 1) * s->dilation[i] - 2 * s->pad[i] : 0;
}

static int64_t strided(int64_t n, int64_t shrink, int64_t stride) {
  return n <= shrink ? 0 : (n - shrink + stride - 1) / stride;
}

crn_status crn_spatial_out_dim(crn_build *b, const crn_layer *l, const crn_spatial *s,
                               const crn_value *out_spatial_dims, int i, const crn_dim **out) {
  crn_dims *dims = crn_build_dims(b);
  const crn_dim *d = s->t.dims[s->first + i], *r = d;
  const int64_t shrink = shrink_of(s, i), stride = s->stride[i];
  if (shrink == 0 && stride == 1)
    r = d;
  else if (d->size >= 0) {
    char slot[32];
    (void)snprintf(slot, sizeof(slot), "conv:s%d", i);
    r = crn_layer_dim(b, l, slot, d->kind, strided(d->size, shrink, stride));
  } else if (shrink == 0)
    r = crn_dim_derive(dims, "ceil_div", d, NULL, stride, 0, 0, d->kind, -1);
  else
    r = crn_dim_derive(dims, "window", d, NULL, shrink, stride, 0, d->kind, -1);
  return crn_given_dim(b, l, out_spatial_dims, i, r, out);
}

/* ---- execution ------------------------------------------------------------------------------------------------------
 */

static crn_data *arranged_input(crn_exec *x, crn_layer *l, const crn_spatial *s, bool mask, double fill) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input_once(x, l);
  crn_data *d = in ? crn_data_copy(r, in) : NULL;
  if (!d) return NULL;
  d->pre = NULL;
  d->pre_act = NULL;
  for (int i = s->first; mask && i < s->first + s->n && i < d->t.n; i++) {
    crn_tensor *m = crn_data_mask(r, in, s->perm[i]);
    if (m) d->v = crn_mask_fill(r, d->v, m, fill);
  }
  if (crn_run_failed(r)) return NULL;
  d = crn_data_permute(r, d, s->perm);
  return d && d->v ? d : NULL;
}

/* A frame around it: sources that were joined go back when they are in the order of the operation. */
crn_data *crn_spatial_input(crn_exec *x, crn_layer *l, const crn_spatial *s, bool mask, double fill) {
  crn_frame f;
  crn_tensor *stay[CRN_MAX_RANK + 1];
  int n = 0;
  crn_frame_open(crn_exec_run(x), &f);
  crn_data *d = arranged_input(x, l, s, mask, fill);
  if (d) stay[n++] = d->v;
  for (int i = 0; d && i < d->t.n; i++)
    if (d->len[i]) stay[n++] = d->len[i]->v;
  crn_frame_close_with(crn_exec_run(x), n, stay);
  return d;
}

void crn_spatial_spec(const crn_spatial *s, const int64_t *sizes, crn_conv_spec *spec) {
  memset(spec, 0, sizeof(*spec));
  spec->n_spatial = s->n;
  spec->groups = 1;
  for (int i = 0; i < s->n; i++) {
    const int64_t n = sizes[i], st = s->stride[i], k = s->k[i], reach = (k - 1) * s->dilation[i];
    int64_t total = 2 * s->pad[i], left = s->pad[i];
    if (s->mode == CRN_PAD_SAME) {
      total = ((n + st - 1) / st - 1) * st + reach + 1 - n;
      if (total < 0) total = 0;
      left = total / 2;
    } else if (s->mode == CRN_PAD_SAME_STATIC && s->t.dims[s->first + i]->size < 0) {
      total = k - 1;
      left = (k - st) / 2;
    } else if (s->mode == CRN_PAD_SAME_STATIC) {
      total = k - 1 - (n + st - 1) % st;
      if (total < 0) total = 0;
      left = total / 2;
    }
    spec->stride[i] = st;
    spec->dilation[i] = s->dilation[i];
    spec->window[i] = k;
    spec->pad_before[i] = left;
    spec->pad_after[i] = total - left;
  }
}

/* ---- pieces of a stream ---------------------------------------------------------------------------------------------
 */

void crn_spatial_streams(crn_layer *l, const crn_spatial *s) {
  int n = 0;
  l->ahead = NULL;
  for (int i = 0; i < s->n; i++) {
    if (!crn_streams_along(l, s->t.dims[s->first + i])) continue;
    n++;
    if (s->k[i] > 1 && s->mode != CRN_PAD_VALID)
      l->ahead =
          "its padding puts frames behind the last one; padding 'valid' behind a layer 'pad' on the left side does not";
    else if (s->pad[i])
      l->ahead = "'padding' puts frames behind the last one";
  }
  if (n > 1) l->ahead = "several of its axes have no fixed size";
  l->causal = !l->ahead;
}

crn_status crn_spatial_lengths(crn_exec *x, crn_layer *l, const crn_spatial *s, crn_data *d, const crn_data *len[3]) {
  for (int i = 0; i < s->n; i++) {
    const int axis = s->first + i;
    const crn_data *old = axis < d->t.n ? d->len[axis] : NULL;
    if (!crn_streaming(x) || !crn_streams_along(l, s->t.dims[axis])) {
      len[i] = crn_lengths_affine(x, old, 1, s->stride[i] - 1 - shrink_of(s, i), s->stride[i]);
      continue;
    }
    const crn_windows w = {.extent = (s->k[i] - 1) * s->dilation[i] + 1, .stride = s->stride[i]};
    crn_windowed p;
    CRN_TRY(crn_stream_windows(x, l, &w, d->v, axis, old, &p));
    d->v = p.v;
    len[i] = p.len;
  }
  return CRN_OK;
}
