/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of audio features, and the steps around the feature itself: pre-emphasis, peak normalisation, deltas,
 * normalisation, joining (see features.h; the features are in features_kinds.c).
 */
#include "data/features.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/features_kinds.h"
#include "data/textfile.h"

/* ---- options ---- */

static const char *const option_names[] = {
    "features",       "num_feature_filters", "window_len",  "step_len",           "with_delta",  "norm_mean",
    "norm_std_dev",   "feature_options",     "sample_rate", "peak_normalization", "preemphasis", "join_frames",
    "random_permute", "num_channels",        "pre_process", "post_process",       "raw_ogg_opts"};
enum { N_OPTIONS = sizeof(option_names) / sizeof(option_names[0]) };

static crn_status unknown_option(const char *where, const char *name, const char *const *known, size_t n,
                                 crn_err *err) {
  const char *near = crn_nearest(name, known, n);
  return crn_fail(err, CRN_E_CONFIG, "%s: unknown option '%s'%s%s%s", where, name, near ? ", did you mean '" : "",
                  near ? near : "", near ? "'?" : "");
}

static crn_status check_names(const char *where, const crn_value *dict, const char *const *known, size_t n,
                              crn_err *err) {
  for (size_t i = 0; i < crn_v_len(dict); i++) {
    const char *name = crn_v_cstr(dict->u.dict.keys[i]);
    bool ok = false;
    for (size_t j = 0; name && j < n; j++) ok = ok || !strcmp(name, known[j]);
    if (!ok) return unknown_option(where, name ? name : "?", known, n, err);
  }
  return CRN_OK;
}

static crn_status get_number(const crn_value *dict, const char *name, double low, double *out, crn_err *err) {
  const crn_value *v = crn_v_get(dict, name);
  if (crn_v_is_none(v)) return CRN_OK;
  if (crn_v_to_float(v, out) && *out >= low) return CRN_OK;
  return crn_fail(err, CRN_E_CONFIG, "audio: option '%s': expected a number >= %g", name, low);
}

static crn_status get_count(const crn_value *dict, const char *name, int64_t low, int64_t *out, crn_err *err) {
  const crn_value *v = crn_v_get(dict, name);
  if (crn_v_is_none(v)) return CRN_OK;
  if (crn_v_to_int(v, out) && *out >= low && *out <= 1000000) return CRN_OK;
  return crn_fail(err, CRN_E_CONFIG, "audio: option '%s': expected an integer >= %lld", name, (long long)low);
}

static crn_status read_feature_options(crn_features *f, const crn_value *dict, crn_err *err) {
  static const char *const known[] = {"n_mels", "fmin", "fmax", "center", "min_amp", "pad_mode"};
  const crn_value *center = crn_v_get(dict, "center"), *pad = crn_v_get(dict, "pad_mode");
  if (!crn_v_is_none(dict) && !crn_v_is_dict(dict))
    return crn_fail(err, CRN_E_CONFIG, "audio: option 'feature_options': expected a dict");
  CRN_TRY(check_names("audio: feature_options", dict, known, sizeof known / sizeof *known, err));
  f->spec.fmin = 0;
  f->spec.fmax = -1;
  f->spec.min_amp = 1e-10;
  CRN_TRY(get_count(dict, "n_mels", 1, &f->spec.n_mels, err));
  CRN_TRY(get_number(dict, "fmin", 0, &f->spec.fmin, err));
  CRN_TRY(get_number(dict, "fmax", 0, &f->spec.fmax, err));
  CRN_TRY(get_number(dict, "min_amp", 0, &f->spec.min_amp, err));
  f->spec.center = center ? crn_v_truth(center) : true;
  f->spec.reflect = true;
  if (crn_v_is_none(pad)) return CRN_OK;
  const char *mode = crn_v_cstr(pad);
  f->spec.reflect = mode && !strcmp(mode, "reflect");
  if (f->spec.reflect || (mode && !strcmp(mode, "constant"))) return CRN_OK;
  return crn_fail(err, CRN_E_CONFIG, "audio: feature_options: 'pad_mode' must be \"reflect\" or \"constant\"");
}

/* None, a number, "per_seq", a text file of dim numbers, or a list of them. */
static crn_status read_norm(crn_features *f, const char *name, const crn_value *v, crn_norm *norm,
                            const char *(*path)(void *, const char *), void *user, crn_err *err) {
  const char *text = crn_v_cstr(v);
  if (crn_v_is_none(v)) return CRN_OK;
  norm->values = CRN_ARENA_ARRAY(&f->arena, double, f->dim + 1);
  if (!norm->values) return crn_err_memory(err);
  if (text && !strcmp(text, "per_seq")) {
    norm->kind = CRN_NORM_PER_SEQ;
    return CRN_OK;
  }
  norm->kind = CRN_NORM_FIXED;
  int64_t n = 0;
  if (text) {
    char *content, *end;
    size_t len;
    const char *file = path ? path(user, text) : text;
    if (!file) return crn_err_memory(err);
    CRN_TRY(crn_text_read(&f->arena, file, &content, &len, err));
    for (char *at = content;; at = end) {
      double x = strtod(at, &end);
      if (end == at) break;
      if (n < f->dim) norm->values[n] = x;
      n++;
    }
  } else if (crn_v_is_number(v)) {
    double x = 0;
    crn_v_to_float(v, &x);
    for (; n < f->dim; n++) norm->values[n] = x;
  } else {
    bool array = v->kind == CRN_V_ARRAY;
    n = array ? (v->u.array.rank == 1 ? v->u.array.shape[0] : -1) : (int64_t)crn_v_len(v);
    for (int64_t i = 0; i < n && i < f->dim; i++)
      if (array)
        norm->values[i] = v->u.array.data[i];
      else if (!crn_v_to_float(crn_v_at(v, (size_t)i), &norm->values[i]))
        n = -1;
  }
  if (n != f->dim)
    return crn_fail(err, CRN_E_CONFIG, "audio: option '%s': expected %lld numbers, got %lld", name, (long long)f->dim,
                    (long long)n);
  if (f->join > 1 && !crn_v_is_number(v))
    return crn_fail(err, CRN_E_CONFIG, "audio: option '%s': numbers per feature can't be used with join_frames", name);
  return CRN_OK;
}

static crn_status refuse_unbuilt(const crn_value *o, crn_err *err) {
  static const char *const names[] = {"random_permute", "pre_process", "post_process", "raw_ogg_opts"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (crn_v_truth(crn_v_get(o, names[i])))
      return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: audio option '%s'", names[i]);
  return CRN_OK;
}

static crn_status read_options(crn_features *f, const crn_value *o, const char *(*path)(void *, const char *),
                               void *user, crn_err *err) {
  const crn_value *kind = crn_v_get(o, "features"), *delta = crn_v_get(o, "with_delta");
  const crn_value *peak = crn_v_get(o, "peak_normalization");
  if (!crn_v_is_dict(o)) return crn_fail(err, CRN_E_CONFIG, "option 'audio': expected a dict");
  CRN_TRY(check_names("audio", o, option_names, N_OPTIONS, err));
  CRN_TRY(refuse_unbuilt(o, err));
  if (kind && kind->kind == CRN_V_CALLABLE)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: audio option 'features' as a function");
  CRN_TRY(crn_feature_kind_find(kind ? crn_v_cstr(kind) : "mfcc", &f->kind, err));
  f->spec.filters = f->kind->filters;
  f->spec.n_mels = 128;
  f->window_len = 0.025;
  f->step_len = 0.010;
  f->join = 1;
  f->channels = 1;
  CRN_TRY(get_count(o, "num_feature_filters", 1, &f->spec.filters, err));
  CRN_TRY(get_number(o, "window_len", 1e-6, &f->window_len, err));
  CRN_TRY(get_number(o, "step_len", 1e-6, &f->step_len, err));
  CRN_TRY(get_count(o, "join_frames", 1, &f->join, err));
  CRN_TRY(get_count(o, "sample_rate", 1, &f->rate, err));
  CRN_TRY(get_count(o, "num_channels", 1, &f->channels, err));
  CRN_TRY(get_number(o, "preemphasis", 0, &f->preemphasis, err));
  CRN_TRY(read_feature_options(f, crn_v_get(o, "feature_options"), err));
  f->peak = peak ? crn_v_truth(peak) : true;
  if (f->channels > 1)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: audio option 'num_channels' above 1");
  if (!crn_v_is_none(delta) && (!crn_v_to_int(delta, &f->deltas) || f->deltas < 0 || f->deltas > 8))
    return crn_fail(err, CRN_E_CONFIG, "audio: option 'with_delta': expected True, False or an order up to 8");
  if (f->kind->cosine && f->spec.filters > f->spec.n_mels)
    return crn_fail(err, CRN_E_CONFIG, "audio: option 'num_feature_filters': at most n_mels (%lld) with mfcc",
                    (long long)f->spec.n_mels);
  if (f->kind->raw && f->spec.filters != 1)
    return crn_fail(err, CRN_E_CONFIG, "audio: option 'num_feature_filters': must be 1 for raw samples");
  f->base_dim = f->spec.filters;
  f->dim = f->base_dim * (1 + f->deltas) * f->join;
  CRN_TRY(read_norm(f, "norm_mean", crn_v_get(o, "norm_mean"), &f->mean, path, user, err));
  return read_norm(f, "norm_std_dev", crn_v_get(o, "norm_std_dev"), &f->std_dev, path, user, err);
}

crn_status crn_features_new(const crn_value *options, const char *(*path)(void *user, const char *file), void *user,
                            crn_features **out, crn_err *err) {
  *out = NULL;
  crn_features *f = crn_calloc(1, sizeof *f);
  if (!f) return crn_err_memory(err);
  crn_status code = read_options(f, options, path, user, err);
  if (code == CRN_OK)
    *out = f;
  else
    crn_features_free(f);
  return code;
}

void crn_features_free(crn_features *f) {
  if (!f) return;
  crn_feature_plan_free(&f->plan);
  crn_free(f->frames);
  crn_arena_free(&f->arena);
  crn_free(f);
}

int64_t crn_features_dim(const crn_features *f) { return f->dim; }

/* ---- steps ---- */

static void prepare_samples(const crn_features *f, crn_audio *a) {
  double *x = a->samples, peak = 0;
  for (int64_t t = a->n - 1; t > 0 && f->preemphasis > 0; t--) x[t] -= f->preemphasis * x[t - 1];
  for (int64_t t = 0; t < a->n; t++) peak = fabs(x[t]) > peak ? fabs(x[t]) : peak;
  for (int64_t t = 0; t < a->n && f->peak && peak > 0; t++) x[t] /= peak;
}

/* The order-th derivative of the least-squares polynomial of that degree over 9 frames (Savitzky and Golay 1964). Of
 * such a polynomial it is constant, so the first and last 4 frames have that of the first and last 9. The leading
 * coefficient is a product with the monic polynomial that is orthogonal on -4 … 4. */
static void add_delta(double *frames, int64_t T, int64_t base, int64_t width, int64_t order) {
  enum { HALF = 4, N = 9 };
  double p[2][N], *prev = p[0], *now = p[1], norm_prev = 0, norm = 0, factorial = 1;
  for (int i = 0; i < N; i++) prev[i] = 0, now[i] = 1;
  for (int64_t k = 0;; k++) {
    norm = 0;
    for (int i = 0; i < N; i++) norm += now[i] * now[i];
    if (k == order) break;
    double b = k ? norm / norm_prev : 0;
    for (int i = 0; i < N; i++) prev[i] = (i - HALF) * now[i] - b * prev[i];
    double *swap = prev;
    prev = now;
    now = swap;
    norm_prev = norm;
  }
  for (int64_t k = 2; k <= order; k++) factorial *= (double)k;
  for (int64_t t = 0; t < T; t++) {
    int64_t c = t < HALF ? HALF : t > T - 1 - HALF ? T - 1 - HALF : t;
    for (int64_t i = 0; i < base; i++) {
      double sum = 0;
      for (int j = 0; j < N; j++) sum += now[j] * frames[(c + j - HALF) * width + i];
      frames[t * width + order * base + i] = factorial * sum / norm;
    }
  }
}

/* Subtract the mean or divide by the deviation; per sequence: of its own frames. */
static void normalize(const crn_norm *norm, bool divide, double *frames, int64_t T, int64_t width) {
  if (norm->kind == CRN_NORM_NONE) return;
  for (int64_t i = 0; i < width; i++) {
    double value = norm->values[i];
    if (norm->kind == CRN_NORM_PER_SEQ) {
      double mean = 0, square = 0;
      for (int64_t t = 0; t < T; t++) mean += frames[t * width + i] / (double)T;
      for (int64_t t = 0; t < T; t++) square += (frames[t * width + i] - mean) * (frames[t * width + i] - mean);
      value = !divide ? mean : fmax(sqrt(square / (double)T), 0.01);
    }
    for (int64_t t = 0; t < T; t++) {
      if (divide)
        frames[t * width + i] /= value;
      else
        frames[t * width + i] -= value;
    }
  }
}

crn_status crn_features_compute(crn_features *f, crn_audio *audio, const char *name, crn_array *out, crn_err *err) {
  if (audio->channels != 1)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: not implemented: %d channels", name, audio->channels);
  if (f->rate && f->rate != audio->rate)
    return crn_fail(err, CRN_E_DATA, "%s: has %lld samples per second, the option 'sample_rate' says %lld", name,
                    (long long)audio->rate, (long long)f->rate);
  if (audio->n < 1) return crn_fail(err, CRN_E_DATA, "%s: has no samples", name);
  prepare_samples(f, audio);
  int64_t T, width = f->base_dim * (1 + f->deltas);
  crn_status code = crn_feature_plan_set(&f->plan, f->kind, &f->spec, f->window_len, f->step_len, audio->rate, err);
  if (code == CRN_OK) T = crn_feature_frames(&f->plan, audio->n);
  if (code != CRN_OK) return code;
  if (f->deltas && T < 9)
    return crn_fail(err, CRN_E_DATA, "%s: deltas need 9 frames, there are %lld", name, (long long)T);
  double *frames = crn_realloc(f->frames, (size_t)(T * width + 1) * sizeof *frames);
  if (!frames) return crn_err_memory(err);
  f->frames = frames;
  CRN_TRY(crn_feature_fill(&f->plan, audio->samples, audio->n, frames, T, width, err));
  for (int64_t k = 1; k <= f->deltas; k++) add_delta(frames, T, f->base_dim, width, k);
  normalize(&f->mean, false, frames, T, width);
  normalize(&f->std_dev, true, frames, T, width);
  int64_t joined = (T + f->join - 1) / f->join, shape[2] = {joined, f->dim};
  CRN_TRY(crn_array_resize(out, CRN_NT_F32, 2, shape, err));
  for (int64_t t = 0; t < joined * f->join; t++) {
    const double *row = frames + (t < T ? t : T - 1) * width; /* the last frame is repeated */
    for (int64_t i = 0; i < width; i++) ((float *)out->data)[t * width + i] = (float)row[i];
  }
  return CRN_OK;
}
