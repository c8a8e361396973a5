/* SPDX-License-Identifier: Apache-2.0
 *
 * Signal processing over [B,T,F]: mel_filterbank, complex_linear_projection, first_t_frames_noise_estimator,
 * signal_masking, normalize_length_scores, tile_features (layers-2.md). All give batch-major output.
 */
#include <math.h>
#include <string.h>

#include "layer/layer.h"

typedef struct signal_cfg {
  double sampling_rate;
  int64_t fft_size, nr_of_filters, nr_of_frames, repetitions;
  const crn_value *f_min, *f_max, *clp_weights_init;
  crn_layer *signal, *mask;
  int64_t m; /* complex features */
} signal_cfg;

#define OFF(f) offsetof(signal_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* Input [B,T,F] with a time axis and a fixed feature, as output template. */
static crn_status btf(crn_build *b, crn_layer *l, bool *known) {
  CRN_TRY(crn_input_tmpl(b, l, &l->out, known));
  l->out_known = *known;
  if (!*known) return CRN_OK;
  crn_tmpl *t = &l->out;
  if (t->sparse || t->n != 3 || t->time_axis < 0 || t->feature_axis < 0 || crn_tmpl_batch_axis(t) < 0 ||
      t->dims[t->feature_axis]->size < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must have batch, time and feature axis");
  int perm[3] = {crn_tmpl_batch_axis(t), t->time_axis, t->feature_axis};
  const bool te = t->time_explicit, fe = t->feature_explicit;
  t->time_explicit = t->feature_explicit = true;
  crn_tmpl_permute(t, perm);
  t->time_explicit = te;
  t->feature_explicit = fe;
  return CRN_OK;
}

static const crn_data *btf_input(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *in = crn_input(x, l);
  if (!in) return NULL;
  const int perm[3] = {crn_tmpl_batch_axis(&in->t), in->t.time_axis, in->t.feature_axis};
  in = crn_data_permute(crn_exec_run(x), in, perm);
  if (in) out->len[1] = in->len[1];
  return in;
}

static crn_status set_feature(crn_build *b, crn_layer *l, int64_t size) {
  const crn_dim *old = l->out.dims[2];
  if (old->size != size) l->out.dims[2] = crn_layer_dim(b, l, "signal", CRN_DIM_FEATURE, size);
  return l->out.dims[2] ? CRN_OK : crn_err_memory(crn_build_err(b));
}

/* ---- mel_filterbank -------------------------------------------------------------------------------------------------
 */

static const crn_opt mel_opts[] = {
    OPT(sampling_rate, CRN_OPT_FLOAT, "16000", .doc = "samples per second"),
    OPT(fft_size, CRN_OPT_INT, "1024", .min = 2, .max = 1e9, .doc = "samples of the transform"),
    OPT(nr_of_filters, CRN_OPT_INT, "80", .min = 1, .max = 1e9, .doc = "filters"),
    OPT(f_min, CRN_OPT_VALUE, "None", .doc = "lowest frequency in Hz"),
    OPT(f_max, CRN_OPT_VALUE, "None", .doc = "highest frequency in Hz; default half the sampling rate"),
    CRN_OPT_END};

static crn_status mel_infer(crn_build *b, crn_layer *l) {
  const signal_cfg *c = l->cfg;
  bool known;
  CRN_TRY(btf(b, l, &known));
  if (!known) return CRN_OK;
  if (l->out.dims[2]->size != c->fft_size / 2 + 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'fft_size' %lld needs %lld features, the source has %lld",
                          (long long)c->fft_size, (long long)(c->fft_size / 2 + 1), (long long)l->out.dims[2]->size);
  if (l->common.n_out != c->nr_of_filters)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' must be given and be 'nr_of_filters' (%lld)",
                          (long long)c->nr_of_filters);
  return set_feature(b, l, c->nr_of_filters);
}

static double mel(double f) { return 1125 * log(1 + f / 700); }
static double mel_inverse(double m) { return 700 * (exp(m / 1125) - 1); }

/* Border i of the filters, as a fractional bin. */
static double mel_border(const signal_cfg *c, int64_t i) {
  double lo = 0, hi = 0;
  (void)crn_v_to_float(c->f_min, &lo);
  (void)crn_v_to_float(c->f_max, &hi);
  if (hi == 0) hi = c->sampling_rate / 2;
  return (double)c->fft_size / c->sampling_rate *
         mel_inverse(mel(lo) + (double)i * (mel(hi) - mel(lo)) / (double)(c->nr_of_filters + 1));
}

static crn_status mel_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const signal_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = btf_input(x, l, out);
  const int64_t n = c->nr_of_filters, bins = c->fft_size / 2 + 1, shape[2] = {bins, n};
  crn_tensor *w = in ? crn_t_zeros(r, CRN_F64, 2, shape) : NULL;
  if (!w) return r->err->code;
  for (int64_t i = 0; i < n; i++) {
    const double left = mel_border(c, i), mid = mel_border(c, i + 1), right = mel_border(c, i + 2);
    for (int64_t k = 0; k < bins; k++) {
      const double f = (double)k;
      if (f > left && f < mid)
        crn_t_f64(w)[k * n + i] = (f - left) / (mid - left);
      else if (f >= mid && f < right)
        crn_t_f64(w)[k * n + i] = (right - f) / (right - mid);
    }
  }
  if (w->dtype != in->v->dtype) w = crn_cast(r, w, in->v->dtype);
  out->v = crn_matmul(r, in->v, false, w, false);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- complex_linear_projection --------------------------------------------------------------------------------------
 */

static const crn_opt clp_opts[] = {
    OPT(nr_of_filters, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "size of the output"),
    OPT(clp_weights_init, CRN_OPT_VALUE, "\"glorot_uniform\"", .doc = "initialiser of the weights"), CRN_OPT_END};

static crn_status clp_infer(crn_build *b, crn_layer *l) {
  signal_cfg *c = l->cfg;
  bool known;
  CRN_TRY(btf(b, l, &known));
  if (!known) return CRN_OK;
  const int64_t F = l->out.dims[2]->size;
  if (F % 2)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the feature size must be even (real and imaginary parts), it is %lld",
                          (long long)F);
  if (l->common.n_out != CRN_UNSET && l->common.n_out != c->nr_of_filters)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' must be 'nr_of_filters' (%lld)",
                          (long long)c->nr_of_filters);
  c->m = F / 2;
  return set_feature(b, l, c->nr_of_filters);
}

static crn_status clp_params(crn_build *b, crn_layer *l) {
  const signal_cfg *c = l->cfg;
  crn_param_spec s = {.name = "clp_kernel",
                      .rank = 3,
                      .shape = {2, c->m, c->nr_of_filters},
                      .init = c->clp_weights_init,
                      .dtype = CRN_F32};
  return crn_layer_param(b, l, &s);
}

static crn_status clp_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const signal_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = btf_input(x, l, out);
  crn_tensor *k = crn_param_get(x, l, "clp_kernel");
  if (!in || !k) return r->err->code;
  crn_tensor *re = crn_slice(r, in->v, 2, 0, c->m, 2), *im = crn_slice(r, in->v, 2, 1, c->m, 2);
  const int64_t shape[2] = {c->m, c->nr_of_filters};
  crn_tensor *k0 = crn_t_reshape(r, crn_slice(r, k, 0, 0, 1, 1), 2, shape),
             *k1 = crn_t_reshape(r, crn_slice(r, k, 0, 1, 1, 1), 2, shape);
  crn_tensor *yr = crn_sub(r, crn_matmul(r, re, false, k0, false), crn_matmul(r, im, false, k1, false));
  crn_tensor *yi = crn_add(r, crn_matmul(r, re, false, k1, false), crn_matmul(r, im, false, k0, false));
  crn_tensor *sq = crn_add(r, crn_unary(r, CRN_U_SQUARE, yr), crn_unary(r, CRN_U_SQUARE, yi));
  if (!sq) return r->err->code;
  crn_tensor *lowest = crn_t_scalar(r, sq->dtype, log(1e-20)),
             *some = crn_binary(r, CRN_B_GREATER, sq, crn_t_scalar(r, sq->dtype, 0));
  sq = crn_where(r, some, sq,
                 crn_t_scalar(r, sq->dtype, 1)); /* no infinite gradient where the input is 0, as in padding */
  crn_tensor *y = crn_binary(r, CRN_B_MAXIMUM, crn_scale(r, crn_unary(r, CRN_U_LOG, sq), 0.5), lowest);
  out->v = crn_where(r, some, y, lowest);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- first_t_frames_noise_estimator ---------------------------------------------------------------------------------
 */

static const crn_opt noise_opts[] = {
    OPT(nr_of_frames, CRN_OPT_INT, NULL, .min = -1, .max = 1e9, .doc = "frames to average, -1: all"), CRN_OPT_END};

static crn_status noise_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(btf(b, l, &known));
  if (!known || l->common.n_out == l->out.dims[2]->size) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' must be given and be the feature size (%lld)",
                        (long long)l->out.dims[2]->size);
}

static crn_status noise_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const signal_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = btf_input(x, l, out);
  if (!in) return r->err->code;
  const int64_t T = in->v->shape[1], n = c->nr_of_frames < 0 || c->nr_of_frames > T ? T : c->nr_of_frames;
  crn_tensor *mean = crn_reduce(r, CRN_R_MEAN, crn_slice(r, in->v, 1, 0, n, 1), 2, true);
  out->v = crn_broadcast_to(r, mean, 3, in->v->shape);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- signal_masking -------------------------------------------------------------------------------------------------
 */

static const crn_opt masking_opts[] = {OPT(signal, CRN_OPT_LAYER, NULL, .doc = "layer with the signal"),
                                       OPT(mask, CRN_OPT_LAYER, NULL, .doc = "layer with the factors"), CRN_OPT_END};

static crn_status masking_infer(crn_build *b, crn_layer *l) {
  const signal_cfg *c = l->cfg;
  l->out_known = c->signal->out_known && c->mask->out_known;
  if (!l->out_known) return CRN_OK;
  l->out = c->signal->out;
  const crn_dtype signal = c->signal->out.dtype, mask = c->mask->out.dtype;
  if (signal != mask && !(signal == CRN_C64 && mask == CRN_F32))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "'signal' is %s, 'mask' is %s", crn_dtype_name(signal),
                          crn_dtype_name(mask));
  if (!crn_tmpl_same_axes(&c->signal->out, &c->mask->out))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "'signal' and 'mask' must have the same axes");
  if (l->common.n_out != crn_tmpl_dim(&l->out))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' must be given and be the feature size (%lld)",
                          (long long)crn_tmpl_dim(&l->out));
  return CRN_OK;
}

static crn_tensor *part(crn_run *r, crn_tensor *pairs, int k) {
  return pairs ? crn_slice(r, pairs, pairs->rank - 1, k, 1, 1) : NULL;
}

/* A complex signal times a real mask, or a complex one. */
static crn_tensor *complex_product(crn_run *r, crn_tensor *signal, crn_tensor *mask) {
  crn_tensor *s = crn_complex_parts(r, signal);
  if (mask->dtype != CRN_C64) return crn_complex_of(r, crn_mul(r, s, crn_expand_dims(r, mask, mask->rank)));
  crn_tensor *m = crn_complex_parts(r, mask), *a = part(r, s, 0), *b = part(r, s, 1), *c = part(r, m, 0),
             *d = part(r, m, 1);
  crn_tensor *parts[2] = {crn_sub(r, crn_mul(r, a, c), crn_mul(r, b, d)),
                          crn_add(r, crn_mul(r, a, d), crn_mul(r, b, c))};
  return parts[0] && parts[1] ? crn_complex_of(r, crn_concat(r, 2, parts, signal->rank)) : NULL;
}

static crn_status masking_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const signal_cfg *c = l->cfg;
  const crn_data *s = crn_value_of(x, l, c->signal), *m = crn_value_of(x, l, c->mask);
  if (!s || !m) return crn_exec_run(x)->err->code;
  for (int i = 0; i < s->t.n; i++) out->len[i] = s->len[i];
  crn_run *r = crn_exec_run(x);
  out->v = s->v->dtype == CRN_C64 ? complex_product(r, s->v, m->v) : crn_mul(r, s->v, m->v);
  return out->v ? CRN_OK : crn_exec_run(x)->err->code;
}

/* ---- normalize_length_scores ----------------------------------------------------------------------------------------
 */

static const crn_opt no_opts[] = {CRN_OPT_END};

static crn_status scores_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  return known && l->out.time_axis < 0 ? crn_layer_fail(b, l, CRN_E_CONFIG, "the source has no time axis") : CRN_OK;
}

static crn_status scores_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < in->t.n; i++) {
    out->len[i] = in->len[i];
    shape[i] = i == in->t.time_axis ? in->v->shape[i] : 1;
  }
  crn_tensor *t = crn_cast(r, crn_range(r, CRN_I32, 1, in->v->shape[in->t.time_axis]), in->v->dtype);
  out->v = crn_unary(r, CRN_U_EXP, crn_mul(r, crn_unary(r, CRN_U_LOG, in->v), crn_t_reshape(r, t, in->t.n, shape)));
  return out->v ? CRN_OK : r->err->code;
}

/* ---- tile_features --------------------------------------------------------------------------------------------------
 */

static const crn_opt tile_opts[] = {
    OPT(repetitions, CRN_OPT_INT, NULL, .min = 1, .max = 1e6, .doc = "how often the features are repeated"),
    CRN_OPT_END};

static crn_status tile_infer(crn_build *b, crn_layer *l) {
  const signal_cfg *c = l->cfg;
  bool known;
  CRN_TRY(btf(b, l, &known));
  return known ? set_feature(b, l, l->out.dims[2]->size * c->repetitions) : CRN_OK;
}

static crn_status tile_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const signal_cfg *c = l->cfg;
  const crn_data *in = btf_input(x, l, out);
  const int64_t times[3] = {1, 1, c->repetitions};
  if (!in) return crn_exec_run(x)->err->code;
  out->v = crn_tile(crn_exec_run(x), in->v, times);
  return out->v ? CRN_OK : crn_exec_run(x)->err->code;
}

#define ROW(n, d, o, f, ...)                                                                                           \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(signal_cfg), .flags = f, __VA_ARGS__ }
const crn_layer_desc crn_family_signal[] = {
    ROW("mel_filterbank", "Applies triangular filters of the mel scale to a spectrum.", mel_opts,
        CRN_L_CONCAT | CRN_L_STREAMS, .infer = mel_infer, .forward = mel_forward),
    ROW("complex_linear_projection", "Computes log magnitudes of a complex linear projection.", clp_opts,
        CRN_L_CONCAT | CRN_L_STREAMS, .infer = clp_infer, .params = clp_params, .forward = clp_forward),
    ROW("first_t_frames_noise_estimator", "Averages the first frames and repeats the mean.", noise_opts,
        CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE, .infer = noise_infer, .forward = noise_forward),
    ROW("signal_masking", "Multiplies a signal with a mask.", masking_opts,
        CRN_L_NO_SOURCES | CRN_L_MANY_INPUTS | CRN_L_STREAMS, .infer = masking_infer, .forward = masking_forward),
    ROW("normalize_length_scores", "Raises scores to the power of the frame number.", no_opts, CRN_L_CONCAT,
        .infer = scores_infer, .forward = scores_forward),
    ROW("tile_features", "Repeats the features as a block.", tile_opts, CRN_L_CONCAT | CRN_L_STREAMS,
        .infer = tile_infer, .forward = tile_forward),
    {.name = NULL}};
