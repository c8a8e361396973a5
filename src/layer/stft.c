/* SPDX-License-Identifier: Apache-2.0
 *
 * Short-time Fourier transforms: stft, multichannel_stft_layer, multichannel_multiresolution_stft_layer (layers-2.md).
 */
#include <math.h>
#include <string.h>

#include "layer/lengths.h"
#include "layer/pieces.h"
#include "layer/spatial.h"

#define MAX_SIZES 16

typedef struct stft_cfg {
  int64_t frame_shift, frame_size, nr_of_channels;
  const crn_value *fft_size, *frame_sizes, *fft_sizes, *in_spatial_dims, *out_spatial_dims, *use_rfft;
  const char *window;
  int use_time_mask, pad_last_frame;
  crn_spatial s;
  int n;                                     /* resolutions */
  int64_t sizes[MAX_SIZES], ffts[MAX_SIZES]; /* the first is the reference */
} stft_cfg;

#define OFF(f) offsetof(stft_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

static const double two_pi = 2 * 3.14159265358979323846;

/* Factors of a frame: "hanning", "blackman", "ones" or "None". */
static double *window_of(crn_run *r, const char *name, int64_t size) {
  double *w = CRN_ARENA_ARRAY(&r->arena, double, size);
  if (!w) return (void)crn_err_memory(r->err), NULL;
  const double period = (double)(size % 2 ? size - 1 : size), last = (double)(size > 1 ? size - 1 : 1);
  for (int64_t i = 0; i < size; i++) {
    const double t = (double)i;
    w[i] = 1;
    if (!strcmp(name, "hanning")) w[i] = period > 0 ? 0.5 - 0.5 * cos(two_pi * t / period) : 1;
    if (!strcmp(name, "blackman")) w[i] = 0.42 - 0.5 * cos(two_pi * t / last) + 0.08 * cos(2 * two_pi * t / last);
  }
  return w;
}

static crn_status check_sizes(crn_build *b, crn_layer *l, const stft_cfg *c) {
  for (int i = 0; i < c->n; i++)
    if (c->sizes[i] < 1 || c->ffts[i] < c->sizes[i])
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "FFT size %lld must be at least the frame size %lld, and that at least 1",
                            (long long)c->ffts[i], (long long)c->sizes[i]);
  return CRN_OK;
}

static int64_t bins_of(const stft_cfg *c) {
  int64_t bins = 0;
  for (int i = 0; i < c->n; i++) bins += c->ffts[i] / 2 + 1;
  return bins;
}

/* Spectra of x [B,T,C] for all resolutions; n frames, as the first resolution has. */
static crn_tensor *spectra(crn_run *r, const stft_cfg *c, crn_tensor *x, const char *window, int64_t n) {
  crn_tensor *parts[MAX_SIZES];
  for (int i = 0; i < c->n; i++) {
    const int64_t need = n > 0 ? (n - 1) * c->frame_shift + c->sizes[i] : 0;
    const double *w = window_of(r, window, c->sizes[i]);
    if (!w || !x) return NULL;
    crn_tensor *v = x;
    /* larger frames see almost nothing behind the signal's end; the last frames of one resolution zeros */
    if (need > x->shape[1]) v = crn_pad(r, x, 1, 0, need - x->shape[1], "constant", i > 0 ? 1e-7 : 0);
    parts[i] = crn_stft(r, v, w, c->sizes[i], c->ffts[i], c->frame_shift, n);
  }
  return c->n == 1 ? parts[0] : crn_concat(r, c->n, parts, 2);
}

/* Frames behind the end are made up where one is not complete. */
static void stft_streams(crn_layer *l, const stft_cfg *c, const crn_dim *axis) {
  bool made_up = c->pad_last_frame > 0;
  for (int i = 1; i < c->n; i++) made_up |= c->sizes[i] > c->frame_size;
  l->ahead = made_up && crn_streams_along(l, axis) ? "its last frames reach behind the end" : NULL;
  l->causal = !l->ahead;
}

/* The samples of all frames, in a stream of those that are complete with this piece; how many frames they are. */
static crn_status complete_frames(crn_exec *x, crn_layer *l, const crn_dim *dim, crn_tensor *v, int axis,
                                  const crn_data *len, crn_windowed *p) {
  const stft_cfg *c = l->cfg;
  const crn_windows w = {.extent = c->frame_size, .stride = c->frame_shift};
  if (crn_streaming(x) && crn_streams_along(l, dim)) return crn_stream_windows(x, l, &w, v, axis, len, p);
  const int64_t T = v->shape[axis], shift = c->frame_shift, size = c->frame_size;
  p->v = v;
  p->n = T < size ? 0 : (T - size) / shift + 1;
  p->len = crn_lengths_affine(x, len, 1, shift - size, shift);
  if (c->pad_last_frame <= 0) return CRN_OK;
  p->n = (T + shift - 1) / shift;
  p->len = crn_lengths_affine(x, len, 1, 2 * shift - size - 1, shift);
  return CRN_OK;
}

/* ---- stft -----------------------------------------------------------------------------------------------------------
 */

static const crn_opt stft_opts[] = {
    OPT(frame_shift, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "samples from one frame's begin to the next"),
    OPT(frame_size, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "samples of a frame"),
    OPT(fft_size, CRN_OPT_VALUE, "None", .doc = "samples of the transform; default frame_size"),
    OPT(in_spatial_dims, CRN_OPT_VALUE, "None", .doc = "the axis to transform"),
    OPT(out_spatial_dims, CRN_OPT_VALUE, "None", .doc = "dim of the frames"),
    OPT(use_time_mask, CRN_OPT_BOOL, "False", .doc = "padded samples are 0"),
    CRN_OPT_END};

static crn_status stft_sizes(crn_build *b, crn_layer *l, stft_cfg *c) {
  c->n = 1;
  c->sizes[0] = c->ffts[0] = c->frame_size;
  if (!crn_v_is_none(c->fft_size) && !crn_v_to_int(c->fft_size, &c->ffts[0]))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'fft_size': expected an integer");
  return check_sizes(b, l, c);
}

static crn_status stft_infer(crn_build *b, crn_layer *l) {
  stft_cfg *c = l->cfg;
  crn_spatial *s = &c->s;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->common.n_out != CRN_UNSET) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' is not possible here");
  if (in.feature_axis < 0)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: a source without a feature axis");
  CRN_TRY(crn_spatial_arrange(b, l, &in, c->in_spatial_dims, s));
  if (s->n != 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "exactly one axis can be transformed, there are %d; name it in 'in_spatial_dims'", s->n);
  if (in.dims[in.feature_axis]->size != 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "one channel is needed, the source has %lld",
                          (long long)in.dims[in.feature_axis]->size);
  CRN_TRY(stft_sizes(b, l, c));
  l->out = s->t;
  const crn_dim *old = s->t.dims[s->first], *d;
  stft_streams(l, c, old);
  const int64_t room = old->size - c->frame_size + 1;
  CRN_TRY(crn_changed_dim(b, l, old,
                          old->size < 0 ? -1
                          : room <= 0   ? 0
                                        : (room + c->frame_shift - 1) / c->frame_shift,
                          "stft:frames", "window", c->frame_size - 1, c->frame_shift, 0, &d));
  CRN_TRY(crn_given_dim(b, l, c->out_spatial_dims, 0, d, &l->out.dims[s->first]));
  const crn_dim *f = l->common.out_dim;
  f = f && f->size == bins_of(c) ? crn_dim_as_kind(crn_build_dims(b), f, CRN_DIM_FEATURE)
                                 : crn_layer_dim(b, l, "stft:bins", CRN_DIM_FEATURE, bins_of(c));
  if (!f) return crn_err_memory(crn_build_err(b));
  l->out.dims[l->out.n - 1] = f;
  l->out.dtype = CRN_C64;
  l->out.time_explicit = in.time_explicit;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status stft_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const stft_cfg *c = l->cfg;
  const crn_spatial *s = &c->s;
  crn_run *r = crn_exec_run(x);
  crn_data *d = crn_spatial_input(x, l, s, c->use_time_mask > 0, 0);
  if (!d) return r->err->code;
  crn_windowed p;
  CRN_TRY(complete_frames(x, l, s->t.dims[s->first], d->v, s->first, d->len[s->first], &p));
  int64_t shape[3] = {1, p.v->shape[s->first], 1}, result[CRN_MAX_RANK];
  for (int i = 0; i < s->first; i++) {
    shape[0] *= d->v->shape[i];
    result[i] = d->v->shape[i];
    out->len[i] = d->len[i];
  }
  out->len[s->first] = p.len;
  crn_tensor *v = spectra(r, c, crn_t_reshape(r, p.v, 3, shape), "hanning", p.n);
  result[s->first] = p.n;
  result[s->first + 1] = bins_of(c);
  out->v = crn_t_reshape(r, v, out->t.n, result);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- several channels -----------------------------------------------------------------------------------------------
 */

static const crn_opt multichannel_opts[] = {
    OPT(frame_shift, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "samples from one frame's begin to the next"),
    OPT(frame_size, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "samples of a frame"),
    OPT(fft_size, CRN_OPT_VALUE, NULL, .doc = "samples of the transform"),
    OPT(window, CRN_OPT_STR, "\"hanning\"", .choices = "hanning|blackman|ones|None", .doc = "factors of a frame"),
    OPT(use_rfft, CRN_OPT_VALUE, "True", .doc = "must be True"),
    OPT(nr_of_channels, CRN_OPT_INT, "1", .min = 1, .max = 1e6, .doc = "channels, the feature size"),
    OPT(pad_last_frame, CRN_OPT_BOOL, "False", .doc = "fill the last frames up with zeros"),
    CRN_OPT_END};

static const crn_opt multires_opts[] = {
    OPT(frame_shift, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "samples from one frame's begin to the next"),
    OPT(frame_sizes, CRN_OPT_VALUE, NULL, .doc = "samples of a frame, per resolution"),
    OPT(fft_sizes, CRN_OPT_VALUE, NULL, .doc = "samples of the transform, per resolution"),
    OPT(window, CRN_OPT_STR, "\"hanning\"", .choices = "hanning|blackman|ones|None", .doc = "factors of a frame"),
    OPT(use_rfft, CRN_OPT_VALUE, "True", .doc = "must be True"),
    OPT(nr_of_channels, CRN_OPT_INT, "1", .min = 1, .max = 1e6, .doc = "channels, the feature size"),
    OPT(pad_last_frame, CRN_OPT_BOOL, "False", .doc = "fill the last frames up with zeros"),
    CRN_OPT_END};

static crn_status resolutions(crn_build *b, crn_layer *l, stft_cfg *c) {
  if (!c->frame_sizes) return stft_sizes(b, l, c);
  c->n = (int)crn_v_len(c->frame_sizes);
  if (!crn_v_is_seq(c->frame_sizes) || !crn_v_is_seq(c->fft_sizes) ||
      crn_v_len(c->fft_sizes) != crn_v_len(c->frame_sizes) || c->n < 1 || c->n > MAX_SIZES)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "options 'frame_sizes' and 'fft_sizes': expected lists of the same length, at most %d",
                          MAX_SIZES);
  for (int i = 0; i < c->n; i++)
    if (!crn_v_to_int(crn_v_at(c->frame_sizes, (size_t)i), &c->sizes[i]) ||
        !crn_v_to_int(crn_v_at(c->fft_sizes, (size_t)i), &c->ffts[i]))
      return crn_layer_fail(b, l, CRN_E_CONFIG, "options 'frame_sizes' and 'fft_sizes': expected integers");
  c->frame_size = c->sizes[0];
  return check_sizes(b, l, c);
}

static crn_status channels_infer(crn_build *b, crn_layer *l) {
  stft_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  crn_tmpl *t = &l->out;
  if (!crn_v_truth(c->use_rfft)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'use_rfft' must be True");
  CRN_TRY(resolutions(b, l, c));
  const int batch = crn_tmpl_batch_axis(t);
  if (t->n != 3 || batch < 0 || t->time_axis < 0 || t->feature_axis < 0 ||
      t->dims[t->feature_axis]->size != c->nr_of_channels)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "the source must have batch, time and feature axis, with 'nr_of_channels' (%lld) features",
                          (long long)c->nr_of_channels);
  c->s.perm[0] = batch;
  c->s.perm[1] = t->time_axis;
  c->s.perm[2] = t->feature_axis;
  const bool te = t->time_explicit;
  t->time_explicit = t->feature_explicit = true;
  crn_tmpl_permute(t, c->s.perm);
  t->time_explicit = te;
  t->feature_explicit = false;
  const crn_dim *old = t->dims[1];
  if (old->size >= 0) return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: a time axis of fixed size");
  stft_streams(l, c, old);
  CRN_TRY(crn_changed_dim(b, l, old, -1, "frames", c->pad_last_frame > 0 ? "window_padded" : "window",
                          c->frame_size - 1, c->frame_shift, 0, &t->dims[1]));
  t->dims[2] = crn_layer_dim(b, l, "bins", CRN_DIM_FEATURE, c->nr_of_channels * bins_of(c));
  if (!t->dims[2]) return crn_err_memory(crn_build_err(b));
  t->dtype = CRN_C64;
  crn_tmpl_update_roles(t);
  return CRN_OK;
}

static crn_status channels_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const stft_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (in) in = crn_data_permute(r, in, c->s.perm);
  if (!in) return r->err->code;
  crn_windowed p;
  CRN_TRY(complete_frames(x, l, in->t.dims[1], in->v, 1, in->len[1], &p));
  out->len[1] = p.len;
  out->v = spectra(r, c, p.v, c->window, p.n);
  return out->v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, ...)                                                                                              \
  {                                                                                                                    \
    .name = n, .doc = d, .opts = o, .cfg_size = sizeof(stft_cfg),                                                      \
    .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM, __VA_ARGS__                   \
  }
const crn_layer_desc crn_family_stft[] = {
    ROW("stft", "Computes the short-time Fourier transform of one channel.", stft_opts, .infer = stft_infer,
        .forward = stft_forward),
    ROW("multichannel_stft_layer", "Computes the short-time Fourier transform of each channel.", multichannel_opts,
        .infer = channels_infer, .forward = channels_forward),
    ROW("multichannel_multiresolution_stft_layer", "Computes short-time Fourier transforms with several frame sizes.",
        multires_opts, .infer = channels_infer, .forward = channels_forward),
    {.name = NULL}};
