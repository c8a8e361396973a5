/* SPDX-License-Identifier: Apache-2.0
 *
 * The features: spectra of windowed frames, mel filter banks (Slaney's scale), cepstra. One table row per kind.
 */
#include "data/features_kinds.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* ---- kinds ---- */

static double log_power(const crn_feature_spec *s, double e) {
  (void)s;
  return 10 * log10(fmax(1e-10, e));
}
static double natural_log(const crn_feature_spec *s, double e) {
  (void)s;
  return log(fmax(1e-3, e));
}
static double decibel(const crn_feature_spec *s, double e) { return 20 * log10(fmax(s->min_amp, e)); }
static double log_of_log(const crn_feature_spec *s, double e) {
  double y = natural_log(s, e);
  return 10 * log10(fmax(1e-10, y * y));
}
static double magnitude(const crn_feature_spec *s, double e) {
  (void)s;
  return sqrt(e);
}

static const crn_feature_kind kinds[] = {
    {.name = "mfcc", .filters = 40, .mel = true, .cosine = true, .map = log_power, .dynamic_range = 80},
    {.name = "log_mel_filterbank", .filters = 40, .mel = true, .map = natural_log},
    {.name = "log_log_mel_filterbank", .filters = 40, .mel = true, .map = log_of_log, .dynamic_range = 80},
    {.name = "db_mel_filterbank", .filters = 40, .mel = true, .map = decibel},
    {.name = "linear_spectrogram", .filters = 40, .twice = true, .map = magnitude},
    {.name = "raw", .filters = 1, .raw = true},
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

crn_status crn_feature_kind_find(const char *name, const crn_feature_kind **out, crn_err *err) {
  const char *names[N_KINDS];
  for (size_t i = 0; i < N_KINDS; i++) {
    names[i] = kinds[i].name;
    if (name && !strcmp(name, names[i])) {
      *out = &kinds[i];
      return CRN_OK;
    }
  }
  if (name && (!strcmp(name, "raw_ogg") || !strcmp(name, "f0")))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: audio features '%s'", name);
  const char *near = crn_nearest(name, names, N_KINDS);
  return crn_fail(err, CRN_E_CONFIG, "audio: unknown features '%s'%s%s%s", name ? name : "?",
                  near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* ---- tables ---- */

static double hz_to_mel(double f) { return f < 1000 ? 3 * f / 200 : 15 + 27 * log(f / 1000) / log(6.4); }
static double mel_to_hz(double m) { return m < 15 ? 200 * m / 3 : 1000 * exp((m - 15) * log(6.4) / 27); }

/* Triangles between points that are equally spaced in mel, each of area 1 over Hz. */
static void make_bank(crn_feature_plan *p) {
  int64_t M = p->n_filters, bins = p->size / 2 + 1;
  double high = p->spec.fmax >= 0 ? p->spec.fmax : (double)p->rate / 2;
  double low_mel = hz_to_mel(p->spec.fmin), step = (hz_to_mel(high) - low_mel) / (double)(M + 1);
  for (int64_t m = 0; m < M; m++) {
    double a = mel_to_hz(low_mel + step * (double)m), b = mel_to_hz(low_mel + step * (double)(m + 1));
    double c = mel_to_hz(low_mel + step * (double)(m + 2));
    for (int64_t k = 0; k < bins; k++) {
      double f = (double)k * (double)p->rate / (double)p->size;
      double w = fmin((f - a) / (b - a), (c - f) / (c - b));
      p->bank[m * bins + k] = w > 0 ? w * 2 / (c - a) : 0;
    }
  }
}

/* Orthonormal cosine transform of type II. */
static void make_cosines(crn_feature_plan *p) {
  int64_t M = p->n_filters;
  for (int64_t k = 0; k < p->spec.filters; k++)
    for (int64_t m = 0; m < M; m++)
      p->cosines[k * M + m] =
          sqrt((k ? 2.0 : 1.0) / (double)M) * cos(pi * (double)k * (double)(2 * m + 1) / (2.0 * (double)M));
}

void crn_feature_plan_free(crn_feature_plan *p) {
  crn_fft_free(&p->fft);
  crn_free(p->hann);
  crn_free(p->bank);
  crn_free(p->cosines);
  crn_free(p->frame);
  *p = (crn_feature_plan){0};
}

crn_status crn_feature_plan_set(crn_feature_plan *p, const crn_feature_kind *kind, const crn_feature_spec *spec,
                                double window_len, double step_len, int64_t rate, crn_err *err) {
  if (p->kind == kind && p->rate == rate) return CRN_OK;
  crn_feature_plan_free(p);
  double window = window_len * (double)rate, step = step_len * (double)rate;
  if (window > 1e6 || step > 1e9) return crn_fail(err, CRN_E_CONFIG, "audio: window_len or step_len is too long");
  crn_feature_plan q = {.kind = kind, .spec = *spec, .rate = rate, .window = (int64_t)window, .step = (int64_t)step};
  q.size = kind->twice ? 2 * spec->filters : q.window;
  q.n_filters = kind->cosine ? spec->n_mels : spec->filters;
  if (kind->raw) {
    *p = q;
    return CRN_OK;
  }
  if (q.window < 2 || q.step < 1)
    return crn_fail(err, CRN_E_CONFIG, "audio: window_len and step_len are too short for %lld samples per second",
                    (long long)rate);
  if (q.size < q.window)
    return crn_fail(err, CRN_E_CONFIG, "audio: num_feature_filters must be at least %lld for this window",
                    (long long)(q.window + 1) / 2);
  int64_t bins = q.size / 2 + 1;
  crn_status code = crn_fft_init(&q.fft, q.size, err);
  q.hann = crn_malloc((size_t)q.window * sizeof(double));
  q.bank = crn_malloc((size_t)(kind->mel ? q.n_filters * bins : 1) * sizeof(double));
  q.cosines = crn_malloc((size_t)(kind->cosine ? spec->filters * q.n_filters : 1) * sizeof(double));
  q.frame = crn_malloc((size_t)(q.size + bins + q.n_filters) * sizeof(double));
  if (code == CRN_OK && (!q.hann || !q.bank || !q.cosines || !q.frame)) code = crn_err_memory(err);
  if (code != CRN_OK) {
    crn_feature_plan_free(&q);
    return code;
  }
  for (int64_t i = 0; i < q.window; i++) q.hann[i] = 0.5 - 0.5 * cos(2 * pi * (double)i / (double)q.window);
  if (kind->mel) make_bank(&q);
  if (kind->cosine) make_cosines(&q);
  *p = q;
  return CRN_OK;
}

/* ---- frames ---- */

int64_t crn_feature_frames(const crn_feature_plan *p, int64_t n) {
  if (p->kind->raw) return n;
  int64_t padded = p->spec.center ? n + 2 * (p->size / 2) : n;
  return padded < p->size ? 0 : 1 + (padded - p->size) / p->step;
}

/* Sample i of the padded signal, i counted from the signal's start. */
static double sample_at(const crn_feature_plan *p, const double *x, int64_t n, int64_t i) {
  if (i >= 0 && i < n) return x[i];
  if (!p->spec.reflect) return 0;
  if (n == 1) return x[0];
  int64_t period = 2 * (n - 1), k = ((i % period) + period) % period; /* without repeating the edges */
  return x[k < n ? k : period - k];
}

/* Powers of the bins of frame t; *rms: of the unwindowed samples. */
static double *frame_power(crn_feature_plan *p, const double *x, int64_t n, int64_t t, double *rms) {
  double *frame = p->frame, *power = frame + p->size, sum = 0;
  int64_t start = t * p->step - (p->spec.center ? p->size / 2 : 0), lead = (p->size - p->window) / 2;
  memset(frame, 0, (size_t)p->size * sizeof *frame);
  for (int64_t i = 0; i < p->window; i++) {
    double v = sample_at(p, x, n, start + lead + i);
    sum += v * v;
    frame[lead + i] = v * p->hann[i];
  }
  *rms = sqrt(sum / (double)p->window);
  crn_fft_power(&p->fft, frame, power);
  return power;
}

/* c_k of the logarithmic energies; c_0 is the frame's energy instead. */
static void cosine_transform(const crn_feature_plan *p, const double *e, double rms, double *out) {
  out[0] = rms;
  for (int64_t k = 1; k < p->spec.filters; k++) {
    const double *row = p->cosines + k * p->n_filters;
    double sum = 0;
    for (int64_t m = 0; m < p->n_filters; m++) sum += e[m] * row[m];
    out[k] = sum;
  }
}

/* Energies of all frames, [T][n_filters]; their greatest one limits the dynamic range. */
static void all_energies(crn_feature_plan *p, const double *x, int64_t n, int64_t T, double *energies, double *rms) {
  int64_t bins = p->size / 2 + 1;
  double greatest = -HUGE_VAL;
  for (int64_t t = 0; t < T; t++) {
    const double *power = frame_power(p, x, n, t, &rms[t]);
    for (int64_t m = 0; m < p->n_filters; m++) {
      double e = p->kind->mel ? 0 : power[1 + m]; /* the spectrogram leaves bin 0 out */
      for (int64_t k = 0; k < bins && p->kind->mel; k++) e += p->bank[m * bins + k] * power[k];
      e = p->kind->map(&p->spec, e);
      energies[t * p->n_filters + m] = e;
      greatest = e > greatest ? e : greatest;
    }
  }
  for (int64_t i = 0; i < T * p->n_filters && p->kind->dynamic_range > 0; i++)
    energies[i] = fmax(energies[i], greatest - p->kind->dynamic_range);
}

crn_status crn_feature_fill(crn_feature_plan *p, const double *samples, int64_t n, double *frames, int64_t T,
                            int64_t width, crn_err *err) {
  if (p->kind->raw) {
    for (int64_t t = 0; t < T; t++) frames[t * width] = samples[t];
    return CRN_OK;
  }
  double *energies = crn_malloc((size_t)(T * p->n_filters + T + 1) * sizeof *energies);
  if (!energies) return crn_err_memory(err);
  double *rms = energies + T * p->n_filters;
  all_energies(p, samples, n, T, energies, rms);
  for (int64_t t = 0; t < T; t++) {
    const double *e = energies + t * p->n_filters;
    if (p->kind->cosine)
      cosine_transform(p, e, rms[t], frames + t * width);
    else
      memcpy(frames + t * width, e, (size_t)p->spec.filters * sizeof *frames);
  }
  crn_free(energies);
  return CRN_OK;
}
