/* SPDX-License-Identifier: Apache-2.0
 *
 * Random tensors and dropout. Element i of a stream depends on (run->seed, run->step, name, i) only, so the same call
 * in the same step gives the same numbers whatever else runs.
 */
#include <string.h>

#include "tensor/bcast.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

typedef struct fill_job {
  crn_rng rng;
  crn_dtype dtype;
  double a, b; /* uniform: lo, hi - lo; normal: mean, standard deviation */
  bool normal;
  void *out;
} fill_job;

static void fill_range(void *arg, int64_t begin, int64_t end) {
  const fill_job *j = arg;
  if (j->dtype == CRN_F32 && !j->normal) {
    float *out = j->out, lo = (float)j->a, width = (float)j->b, hi = (float)(j->a + j->b);
    crn_rng_uniform_fill(&j->rng, (uint64_t)begin, out + begin, (size_t)(end - begin));
    for (int64_t i = begin; i < end; i++) {
      out[i] = lo + width * out[i];
      if (out[i] >= hi && hi > lo) out[i] = lo; /* rounding must not reach the open end */
    }
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    if (crn_dtype_is_int(j->dtype)) {
      uint64_t span = (uint64_t)j->b, bits = crn_rng_bits(&j->rng, (uint64_t)i);
      crn_int_put(j->out, j->dtype, i, (int64_t)j->a + (int64_t)(bits * span >> 32));
      continue;
    }
    double u = j->normal ? (double)crn_rng_normal(&j->rng, (uint64_t)i) : crn_rng_uniform_double(&j->rng, (uint64_t)i);
    double v = j->a + j->b * u;
    if (j->dtype == CRN_F32)
      ((float *)j->out)[i] = (float)v;
    else
      ((double *)j->out)[i] = v;
  }
}

static crn_tensor *filled(crn_run *r, const char *name, crn_dtype dtype, int rank, const int64_t *shape, double a,
                          double b, bool normal) {
  crn_tensor *t = crn_t_new(r, dtype, rank, shape);
  if (!t) return NULL;
  fill_job j = {crn_rng_make(r->seed, r->step, name), dtype, a, b, normal, crn_t_data(t)};
  int64_t size = crn_t_size(t);
  crn_for_ranges(r, size, 8 * size, fill_range, &j);
  return t;
}

crn_tensor *crn_random_uniform(crn_run *r, const char *name, crn_dtype dtype, int rank, const int64_t *shape, double lo,
                               double hi) {
  if (crn_run_failed(r)) return NULL;
  bool ints = crn_dtype_is_int(dtype);
  if ((!ints && !crn_dtype_is_float(dtype)) ||
      (ints && (!(hi > lo) || hi - lo > 4294967296.0 || crn_dtype_clamp(dtype, lo) != lo ||
                crn_dtype_clamp(dtype, hi - 1) != hi - 1)) ||
      !(hi >= lo)) {
    (void)crn_fail(r->err, CRN_E_RUNTIME, "operation random_uniform: no %s from %g up to %g", crn_dtype_name(dtype), lo,
                   hi);
    return NULL;
  }
  return filled(r, name, dtype, rank, shape, lo, hi - lo, false);
}

crn_tensor *crn_random_normal(crn_run *r, const char *name, int rank, const int64_t *shape, double mean,
                              double stddev) {
  return filled(r, name, r->real, rank, shape, mean, stddev, true);
}

/* ---- dropout ---------------------------------------------------------------------------------------------------- */

typedef struct keep_job {
  crn_rng rng;
  crn_tensor *t;
  double p;
} keep_job;

static void keep_range(void *arg, int64_t begin, int64_t end) {
  const keep_job *j = arg;
  double factor = 1 / (1 - j->p);
  float u[256];
  for (int64_t at = begin; at < end; at += 256) {
    int64_t n = end - at < 256 ? end - at : 256;
    crn_rng_uniform_fill(&j->rng, (uint64_t)at, u, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
      double f = (double)u[i] >= j->p ? factor : 0;
      if (j->t->dtype == CRN_F32)
        crn_t_f32(j->t)[at + i] = (float)f;
      else
        crn_t_f64(j->t)[at + i] = f;
    }
  }
}

/* 0 or 1/(1-p); y = x·factors, the factors being a constant */
static crn_tensor *keep_factors(crn_run *r, const char *name, crn_dtype dtype, int rank, const int64_t *shape,
                                double p) {
  crn_tensor *t = crn_t_new(r, dtype, rank, shape);
  if (!t) return NULL;
  keep_job j = {crn_rng_make(r->seed, r->step, name), t, p};
  int64_t size = crn_t_size(t);
  crn_for_ranges(r, size, 8 * size, keep_range, &j);
  return t;
}

crn_tensor *crn_dropout(crn_run *r, const char *name, crn_tensor *x, double p, const int64_t *noise_shape) {
  if (!x || crn_run_failed(r)) return NULL;
  char d[128];
  bool ok = p >= 0 && p < 1 && crn_dtype_is_float(x->dtype);
  for (int k = 0; k < x->rank && ok; k++) ok = noise_shape[k] == 1 || noise_shape[k] == x->shape[k];
  if (!ok) {
    (void)crn_fail(r->err, CRN_E_RUNTIME,
                   "operation dropout: rate %g on %s; the rate must be in [0, 1), the noise's sizes 1 or those of x", p,
                   crn_t_describe(x, d, sizeof d));
    return NULL;
  }
  if (p == 0) return x;
  return crn_mul(r, x, keep_factors(r, name, x->dtype, x->rank, noise_shape, p));
}
