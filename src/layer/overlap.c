/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames that overlap, added up: fold (layers-1.md), the inverse of window, and istft (layers-2.md), that of stft.
 */
#include <math.h>
#include <string.h>

#include "layer/lengths.h"
#include "layer/spatial.h"

typedef struct overlap_cfg {
  const crn_value *in_spatial_dim, *window_dim, *out_spatial_dim, *fft_size, *in_spatial_dims, *out_spatial_dims;
  const char *mode, *padding;
  int64_t window_left, window_right, stride, frame_shift, frame_size;
  int use_time_mask;
  int time, window;       /* axes of fold's source */
  const crn_dim *cut;     /* fold: out_spatial_dim */
  int perm[CRN_MAX_RANK]; /* [rest.., time, window] */
  crn_spatial s;
  int64_t fft;
} overlap_cfg;

#define OFF(f) offsetof(overlap_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* frames [R, N, w]: y[i·stride + j] = sum of frames[i, j]: [R, N·stride + w - stride]. */
static crn_tensor *overlap_add(crn_run *r, crn_tensor *frames, int64_t stride) {
  if (!frames) return NULL;
  const int64_t R = frames->shape[0], N = frames->shape[1], w = frames->shape[2], size = N ? (N - 1) * stride + w : 0;
  const int64_t eye_shape[3] = {w, 1, w}, flat[2] = {R, size};
  if (!N || !R) return crn_t_zeros(r, frames->dtype, 2, flat);
  crn_tensor *eye = crn_t_zeros(r, frames->dtype, 3, eye_shape);
  for (int64_t i = 0; eye && i < w; i++) {
    if (eye->dtype == CRN_F64)
      crn_t_f64(eye)[i * w + i] = 1;
    else
      crn_t_f32(eye)[i * w + i] = 1;
  }
  crn_conv_spec spec = {.n_spatial = 1, .stride = {stride}, .dilation = {1}, .groups = 1};
  return crn_t_reshape(r, crn_conv_transposed(r, frames, eye, &spec, &size), 2, flat);
}

/* ---- fold -------------------------------------------------------------------------------------------------------- */

static const crn_opt fold_opts[] = {
    OPT(mode, CRN_OPT_STR, NULL, .choices = "sum|mean", .doc = "add what overlaps, or average it"),
    OPT(in_spatial_dim, CRN_OPT_VALUE, NULL, .doc = "dim of the windows"),
    OPT(window_dim, CRN_OPT_VALUE, NULL, .doc = "dim of a window's frames"),
    OPT(out_spatial_dim, CRN_OPT_VALUE, "None", .doc = "dim that the result is cut to"),
    OPT(padding, CRN_OPT_STR, "\"same\"", .choices = "same|valid", .doc = "as the windows were made"),
    OPT(window_left, CRN_OPT_INT, "None", .min = 0, .max = 1e9, .doc = "frames of a window before its own"),
    OPT(window_right, CRN_OPT_INT, "None", .min = 0, .max = 1e9, .doc = "frames of a window behind its own"),
    OPT(stride, CRN_OPT_INT, "1", .min = 1, .max = 1e9, .doc = "frames from one window to the next"),
    CRN_OPT_END};

static crn_status axis_of_dim(crn_build *b, crn_layer *l, const crn_tmpl *in, const crn_value *v, const char *option,
                              int *axis) {
  if (!v || v->kind != CRN_V_DIM) return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected a dim", option);
  const crn_dim *d = crn_dim_of_value(crn_build_dims(b), v);
  if (!d) return crn_err_memory(crn_build_err(b));
  *axis = crn_tmpl_find(in, d);
  if (*axis >= 0) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': dim '%s' is not in the source", option, d->name);
}

/* Frames that are dropped at the beginning. */
static int64_t dropped(const overlap_cfg *c, int64_t w) {
  if (strcmp(c->padding, "same")) return 0;
  if (c->window_left != CRN_UNSET) return c->window_left;
  return c->window_right != CRN_UNSET ? w - 1 - c->window_right : (w - 1) / 2;
}

static crn_status fold_dim(crn_build *b, crn_layer *l, overlap_cfg *c, const crn_dim *old, const crn_dim *w,
                           const crn_dim **out) {
  const bool same = !strcmp(c->padding, "same");
  *out = old;
  c->cut = NULL;
  if (c->out_spatial_dim && c->out_spatial_dim->kind == CRN_V_DIM) {
    *out = c->cut = crn_dim_of_value(crn_build_dims(b), c->out_spatial_dim);
    return c->cut ? CRN_OK : crn_err_memory(crn_build_err(b));
  }
  if (same && c->stride == 1) return CRN_OK;
  if (!same && c->stride > 1)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                          "not implemented: padding 'valid' with a stride and without 'out_spatial_dim'");
  if (!same && w->size < 0)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: padding 'valid' with a dynamic 'window_dim'");
  const int64_t add = same ? 0 : w->size - 1;
  return crn_changed_dim(b, l, old, old->size < 0 ? -1 : old->size * c->stride + add, "fold", "fold", c->stride, add, 0,
                         out);
}

static crn_status fold_infer(crn_build *b, crn_layer *l) {
  overlap_cfg *c = l->cfg;
  const crn_tmpl *in = crn_source_tmpl(l, 0);
  const crn_dim *d;
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  l->out_known = in != NULL;
  if (!in) return CRN_OK;
  CRN_TRY(axis_of_dim(b, l, in, c->in_spatial_dim, "in_spatial_dim", &c->time));
  CRN_TRY(axis_of_dim(b, l, in, c->window_dim, "window_dim", &c->window));
  if (in->sparse || !crn_dtype_is_float(in->dtype) || c->time == c->window)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be dense, its dims two");
  const crn_dim *w = in->dims[c->window];
  if (w->size >= 0 && (dropped(c, w->size) < 0 || dropped(c, w->size) >= w->size))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "options 'window_left', 'window_right': more than the window's %lld frames",
                          (long long)w->size);
  CRN_TRY(fold_dim(b, l, c, in->dims[c->time], w, &d));
  int k = 0, perm[CRN_MAX_RANK] = {c->time, c->window}, n = 2;
  for (int i = 0; i < in->n; i++)
    if (i != c->time && i != c->window) c->perm[k++] = perm[n++] = i;
  c->perm[k++] = c->time;
  c->perm[k] = c->window;
  l->out = *in;
  const bool was_time = in->time_axis == c->time;
  crn_tmpl_permute(&l->out, perm);
  crn_tmpl_remove(&l->out, 1);
  l->out.dims[0] = d;
  if (was_time) l->out.time_axis = 0;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* y [R, size] without the first `left`, of `size` frames: zeros where nothing was added. */
static crn_tensor *resized(crn_run *r, crn_tensor *y, int64_t left, int64_t size) {
  if (!y) return NULL;
  const int64_t have = y->shape[1] > left ? y->shape[1] - left : 0, n = have < size ? have : size;
  y = crn_slice(r, y, 1, have ? left : 0, n, 1);
  return n < size ? crn_pad(r, y, 1, 0, size - n, "constant", 0) : y;
}

/* The result's size, and its lengths. */
static crn_status fold_size(crn_exec *x, crn_layer *l, const crn_data *in, int64_t w, int64_t *size,
                            const crn_data **len) {
  const overlap_cfg *c = l->cfg;
  const crn_data *old = in->len[c->time];
  const int64_t add = strcmp(c->padding, "same") ? w - 1 : 0;
  *size = in->v->shape[c->time] * c->stride + add;
  *len = crn_lengths_affine(x, old, c->stride, add, 1);
  if (!c->cut) return CRN_OK;
  *len = NULL;
  *size = c->cut->size;
  if (c->cut->size >= 0 || crn_dim_in_run(x, l, c->cut, size, len)) return CRN_OK;
  return crn_exec_fail(x, l, "option 'out_spatial_dim': nothing in this run has dim '%s'", c->cut->name);
}

static crn_status fold_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const overlap_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_source(x, l, 0);
  if (!in) return r->err->code;
  const int64_t N = in->v->shape[c->time], w = in->v->shape[c->window], left = dropped(c, w);
  int64_t size, shape[CRN_MAX_RANK] = {0}, flat[3] = {1, N, w};
  CRN_TRY(fold_size(x, l, in, w, &size, &out->len[0]));
  int back[CRN_MAX_RANK] = {in->t.n - 2};
  for (int i = 0; i < in->t.n - 2; i++) {
    shape[i] = in->v->shape[c->perm[i]];
    out->len[i + 1] = in->len[c->perm[i]];
    back[i + 1] = i;
    flat[0] *= shape[i];
  }
  crn_tensor *v = in->v, *ones = crn_t_full(r, in->v->dtype, in->v->rank, in->v->shape, 1);
  for (int k = 0; k < 2; k++) {
    crn_tensor *mask = crn_data_mask(r, in, k ? c->window : c->time);
    if (mask) v = crn_mask_fill(r, v, mask, 0);
    if (mask) ones = crn_mask_fill(r, ones, mask, 0);
  }
  v = overlap_add(r, crn_t_reshape(r, crn_transpose(r, v, c->perm), 3, flat), c->stride);
  if (!strcmp(c->mode, "mean")) {
    crn_tensor *count = overlap_add(r, crn_t_reshape(r, crn_transpose(r, ones, c->perm), 3, flat), c->stride);
    v = crn_div(r, v, crn_binary(r, CRN_B_MAXIMUM, count, crn_t_scalar(r, in->v->dtype, 1)));
  }
  shape[in->t.n - 2] = size;
  v = crn_t_reshape(r, resized(r, v, left, size), in->t.n - 1, shape);
  out->v = v ? crn_transpose(r, v, back) : NULL;
  return out->v && !crn_run_failed(r) ? CRN_OK : r->err->code;
}

/* ---- istft ------------------------------------------------------------------------------------------------------- */

static const double two_pi = 2 * 3.14159265358979323846;

static const crn_opt istft_opts[] = {
    OPT(frame_shift, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "samples from one frame's begin to the next"),
    OPT(frame_size, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "samples of a frame"),
    OPT(fft_size, CRN_OPT_VALUE, "None", .doc = "samples of the transform; default frame_size"),
    OPT(in_spatial_dims, CRN_OPT_VALUE, "None", .doc = "the axis of the frames"),
    OPT(out_spatial_dims, CRN_OPT_VALUE, "None", .doc = "dim of the samples"),
    OPT(use_time_mask, CRN_OPT_BOOL, "False", .doc = "padded frames are 0"),
    CRN_OPT_END};

static crn_status istft_infer(crn_build *b, crn_layer *l) {
  overlap_cfg *c = l->cfg;
  crn_spatial *s = &c->s;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(crn_spatial_arrange(b, l, &in, c->in_spatial_dims, s));
  if (s->n != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "exactly one axis of frames is needed, there are %d", s->n);
  c->fft = c->frame_size;
  if (!crn_v_is_none(c->fft_size) && !crn_v_to_int(c->fft_size, &c->fft))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'fft_size': expected an integer");
  const int64_t bins = crn_tmpl_dim(&in);
  if (c->fft < c->frame_size || bins != c->fft / 2 + 1 || in.dtype != CRN_C64)
    return crn_layer_fail(
        b, l, CRN_E_CONFIG,
        "frames of %lld samples and transforms of %lld need %lld complex features, the source has %lld "
        "of %s",
        (long long)c->frame_size, (long long)c->fft, (long long)(c->fft / 2 + 1), (long long)bins,
        crn_dtype_name(in.dtype));
  for (int i = 0; i < in.n; i++)
    if (s->perm[i] != i)
      return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                            "not implemented: a source that is not [batch, frames, feature]");
  l->out = s->t;
  const crn_dim *old = s->t.dims[s->first], *d;
  const int64_t over = c->frame_size - c->frame_shift;
  CRN_TRY(crn_changed_dim(b, l, old, old->size < 0 ? -1 : old->size * c->frame_shift + over, "istft:samples", "istft",
                          c->frame_shift, over > 0 ? over : 0, 0, &d));
  CRN_TRY(crn_given_dim(b, l, c->out_spatial_dims, 0, d, &l->out.dims[s->first]));
  const crn_dim *f = l->common.out_dim;
  l->out.dims[l->out.n - 1] = f && f->size == 1 ? crn_dim_as_kind(crn_build_dims(b), f, CRN_DIM_FEATURE)
                                                : crn_layer_dim(b, l, "istft:channel", CRN_DIM_FEATURE, 1);
  if (!l->out.dims[l->out.n - 1]) return crn_err_memory(crn_build_err(b));
  l->out.dtype = CRN_F32;
  l->out.time_explicit = in.time_explicit;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* Hann, divided by the sum of its squares over all shifts. */
static void synthesis_window(const overlap_cfg *c, double *w) {
  const int64_t n = c->frame_size;
  const double period = (double)(n % 2 ? n - 1 : n);
  for (int64_t i = 0; i < n; i++) w[i] = period > 0 ? 0.5 - 0.5 * cos(two_pi * (double)i / period) : 1;
  for (int64_t first = 0; first < c->frame_shift && first < n; first++) {
    double sum = 0;
    for (int64_t i = first; i < n; i += c->frame_shift) sum += w[i] * w[i];
    for (int64_t i = first; i < n; i += c->frame_shift) w[i] = sum > 0 ? w[i] / sum : 0;
  }
}

/* From the parts of all bins [2 bins] to the samples of a frame. */
static crn_tensor *inverse_matrix(crn_run *r, const overlap_cfg *c) {
  const int64_t bins = c->fft / 2 + 1, shape[2] = {2 * bins, c->frame_size};
  double *w = CRN_ARENA_ARRAY(&r->arena, double, c->frame_size);
  crn_tensor *m = crn_t_new(r, CRN_F64, 2, shape);
  if (!w || !m) return NULL;
  synthesis_window(c, w);
  for (int64_t k = 0; k < bins; k++)
    for (int64_t i = 0; i < c->frame_size; i++) {
      const double both = k == 0 || 2 * k == c->fft ? 1 : 2; /* bins above the middle mirror those below */
      const double angle = two_pi * (double)(k * i % c->fft) / (double)c->fft, scale = both * w[i] / (double)c->fft;
      crn_t_f64(m)[2 * k * c->frame_size + i] = scale * cos(angle);
      crn_t_f64(m)[(2 * k + 1) * c->frame_size + i] = -scale * sin(angle);
    }
  return r->real == CRN_F64 ? m : crn_cast(r, m, r->real);
}

static crn_status istft_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const overlap_cfg *c = l->cfg;
  const crn_spatial *s = &c->s;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  crn_tensor *m = inverse_matrix(r, c);
  if (!in || !m) return crn_run_failed(r) ? r->err->code : crn_err_memory(r->err);
  const int64_t N = in->v->shape[s->first], bins = c->fft / 2 + 1;
  const int64_t size = N ? (N - 1) * c->frame_shift + c->frame_size : 0;
  int64_t rows = 1, result[CRN_MAX_RANK];
  for (int i = 0; i < s->first; i++) {
    rows *= in->v->shape[i];
    result[i] = in->v->shape[i];
    out->len[i] = in->len[i];
  }
  crn_tensor *v = crn_t_reshape(r, crn_complex_parts(r, in->v), 3, (int64_t[]){rows, N, 2 * bins});
  if (c->use_time_mask > 0 && in->len[s->first]) {
    crn_tensor *mask = crn_data_mask(r, in, s->first);
    if (!mask) return r->err->code;
    int64_t full[CRN_MAX_RANK];
    for (int i = 0; i < in->t.n; i++) full[i] = i < in->t.n - 1 ? in->v->shape[i] : 1;
    mask = crn_t_reshape(r, crn_broadcast_to(r, mask, in->t.n, full), 3, (int64_t[]){rows, N, 1});
    v = crn_mask_fill(r, v, mask, 0);
  }
  v = overlap_add(r, crn_linear(r, v, m, false, NULL), c->frame_shift);
  const int64_t over = c->frame_size - c->frame_shift;
  result[s->first] = size;
  result[s->first + 1] = 1;
  const crn_data *len = crn_lengths_affine(x, in->len[s->first], c->frame_shift, over > 0 ? over : 0, 1);
  out->len[s->first] = over < 0 ? crn_lengths_limit(x, len, size) : len;
  out->v = crn_t_reshape(r, v, out->t.n, result);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_overlap[] = {{.name = "fold",
                                              .doc = "Adds up windows that overlap.",
                                              .opts = fold_opts,
                                              .cfg_size = sizeof(overlap_cfg),
                                              .flags = CRN_L_NEEDS_FUTURE,
                                              .infer = fold_infer,
                                              .forward = fold_forward},
                                             {.name = "istft",
                                              .doc = "Computes signals from their spectra over time.",
                                              .opts = istft_opts,
                                              .cfg_size = sizeof(overlap_cfg),
                                              .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,
                                              .infer = istft_infer,
                                              .forward = istft_forward},
                                             {.name = NULL}};
