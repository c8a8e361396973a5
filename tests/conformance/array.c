/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded arrays and their comparison with ours: on valid frames, integers exactly, floats with a tolerance, inf and
 * nan where they are recorded and nowhere else.
 */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "runner.h"

crn_status array_read(crn_h5 *f, const char *path, array *out, crn_err *err) {
  crn_h5_info info;
  void *data = NULL;
  memset(out, 0, sizeof *out);
  CRN_TRY(crn_h5_read(f, path, CRN_NT_NONE, &data, &info, err));
  const bool complex = info.type == CRN_NT_C64 || info.type == CRN_NT_C128;
  const crn_ntype from = info.type == CRN_NT_C64 ? CRN_NT_F32 : info.type == CRN_NT_C128 ? CRN_NT_F64 : info.type;
  out->parts = complex ? 2 : 1;
  out->is_float = complex || crn_ntype_is_float(info.type);
  out->rank = info.rank;
  out->n = info.n;
  memcpy(out->shape, info.shape, sizeof info.shape);
  const size_t n = (size_t)info.n * (size_t)out->parts;
  out->v = crn_malloc((n + 1) * sizeof(double));
  const bool ok = out->v && crn_ntype_convert(from, data, CRN_NT_F64, out->v, n);
  crn_free(data);
  if (ok) return CRN_OK;
  array_free(out);
  return crn_fail(err, CRN_E_FORMAT, "'%s': can't compare values of type %s", path, crn_ntype_name(info.type));
}

void array_free(array *a) {
  crn_free(a->v);
  a->v = NULL;
}

static bool valid(const array *a, const frames *f, const int64_t *at) {
  for (int i = 0; f && i < a->rank; i++) {
    const array *lens = f->lens[i];
    if (!lens) continue;
    const int x = f->by[i][0], y = f->by[i][1];
    double len = 0;
    if (x >= 0) {
      const int64_t k = y >= 0 ? at[x] * a->shape[y] + at[y] : at[x];
      len = k < lens->n ? lens->v[k] : 0;
    } else {
      for (int64_t k = 0; k < lens->n; k++) len = fmax(len, lens->v[k]);
    }
    if ((double)at[i] >= len) return false;
  }
  return true;
}

static void next(const array *a, int64_t *at) {
  for (int i = a->rank - 1; i >= 0 && ++at[i] == a->shape[i]; i--) at[i] = 0;
}

static bool stands_for_infinity(double x) { return !isfinite(x) || fabs(x) >= 1e30; }

double array_scale(const array *a, const frames *f) {
  double scale = 0;
  int64_t at[CRN_H5_MAX_RANK] = {0};
  if (!a->is_float) return 0;
  for (int64_t i = 0; i < a->n; i++, next(a, at)) {
    if (!valid(a, f, at)) continue;
    for (int p = 0; p < a->parts; p++) {
      const double x = fabs(a->v[i * a->parts + p]);
      if (!stands_for_infinity(x)) scale = fmax(scale, x);
    }
  }
  return scale;
}

static double element(const crn_tensor *t, int64_t i, int part) {
  if (t->dtype == CRN_C64) return (double)crn_t_f32(t)[2 * i + part];
  return crn_t_get(t, i);
}

/* How far apart beyond what is allowed: <= 0 is fine. */
static double excess(double want, double got, bool is_float, double allowed, double relative) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (isinf(want) || isinf(got)) return want == got ? 0 : INFINITY;
  if (!is_float) return want == got ? 0 : INFINITY;
  if (stands_for_infinity(want)) allowed = relative * fabs(want);
  return fabs(want - got) - allowed;
}

typedef struct difference {
  int64_t n_compared, n_wrong;
  double worst, want, got;
  int64_t at[CRN_H5_MAX_RANK];
} difference;

static void describe(report *r, const char *what, const array *a, const difference *d, double allowed) {
  crn_str s = {0};
  for (int i = 0; i < a->rank; i++) crn_str_addf(&s, "%s%lld", i ? ", " : "", (long long)d->at[i]);
  crn_str_addf(&s, a->rank ? "] is %.9g" : "is %.9g", d->got);
  crn_str_addf(&s, " instead of %.9g", d->want);
  if (a->is_float) crn_str_addf(&s, " (%.3g off, %.3g allowed)", fabs(d->got - d->want), allowed);
  rep_fail(r, "%s: value %s%s; %lld of %lld wrong", what, a->rank ? "at [" : "", crn_str_get(&s), (long long)d->n_wrong,
           (long long)d->n_compared);
  crn_str_free(&s);
}

/* Are all valid positions there in ours? */
static bool covers(const array *want, const frames *f, const crn_tensor *got) {
  if (got->rank != want->rank || !crn_t_data(got)) return false;
  for (int i = 0; i < want->rank; i++) {
    double need = (double)want->shape[i];
    if (f && f->lens[i]) {
      double longest = 0;
      for (int64_t k = 0; k < f->lens[i]->n; k++) longest = fmax(longest, f->lens[i]->v[k]);
      need = fmin(need, longest);
    } else if (got->shape[i] != want->shape[i]) {
      return false;
    }
    if ((double)got->shape[i] < need) return false;
  }
  return (got->dtype == CRN_C64) == (want->parts == 2) && got->dtype != CRN_STRING;
}

static void report_shapes(report *r, const char *what, const array *want, const crn_tensor *got) {
  char buf[128];
  crn_str s = {0};
  for (int i = 0; i < want->rank; i++) crn_str_addf(&s, "%s%lld", i ? ", " : "", (long long)want->shape[i]);
  rep_fail(r, "%s: shape %s instead of [%s]", what, crn_t_describe(got, buf, sizeof buf), crn_str_get(&s));
  crn_str_free(&s);
}

bool array_compare(report *r, const char *what, const array *want, const frames *f, const crn_tensor *got,
                   tolerance tol) {
  if (!covers(want, f, got)) {
    if (r) report_shapes(r, what, want, got);
    return false;
  }
  const double allowed = tol.relative * array_scale(want, f) + tol.absolute;
  difference d = {.worst = 0};
  int64_t at[CRN_H5_MAX_RANK] = {0};
  for (int64_t i = 0; i < want->n; i++, next(want, at)) {
    if (!valid(want, f, at)) continue;
    int64_t j = 0;
    for (int k = 0; k < want->rank; k++) j = j * got->shape[k] + at[k];
    for (int p = 0; p < want->parts; p++) {
      const double x = want->v[i * want->parts + p], y = element(got, j, p);
      const double over = excess(x, y, want->is_float, allowed, tol.relative);
      d.n_compared++;
      if (over > 0) d.n_wrong++;
      if (over <= d.worst) continue;
      d.worst = over, d.want = x, d.got = y;
      memcpy(d.at, at, sizeof at);
    }
  }
  if (d.n_wrong && r) describe(r, what, want, &d, allowed);
  return d.n_wrong == 0;
}
