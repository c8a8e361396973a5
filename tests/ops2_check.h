/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that every differentiable operation goes through: gradients against central differences in double, float
 * against double, the same bits for 1, 2 and 3 threads, gradients added to what is there already.
 */
#ifndef CRN_TESTS_OPS2_CHECK_H
#define CRN_TESTS_OPS2_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernel/kernel.h"
#include "tensor/mem.h"
#include "tensor/ops.h"

#define MAX_OUT 3

/* An input: its values in double (float tensors take the run's type), int32 ones as they are. */
typedef struct input {
  crn_dtype dtype; /* CRN_F64 stands for the run's real type */
  int rank;
  int64_t shape[6];
  double *v;
  bool grad, param;
} input;

/* Builds outputs from inputs, returns how many (0: failure). */
typedef int (*build_fn)(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out);

typedef struct result {
  int n_out, n_in;
  double *out[MAX_OUT], *grad[8];
  int64_t out_size[MAX_OUT];
} result;

typedef struct bench_run { /* a run with all that it needs */
  crn_run r;
  crn_err err;
  crn_mem *mem;
  crn_threads *threads;
} bench_run;

static inline void run_open(bench_run *b, crn_dtype real, const char *table, int n_threads) {
  memset(b, 0, sizeof *b);
  b->mem = crn_mem_new();
  assert_non_null(b->mem);
  if (n_threads > 1) assert_int_equal(crn_threads_new(n_threads, &b->threads, &b->err), CRN_OK);
  const crn_kernels *k = crn_kernels_select(table);
  assert_non_null(k);
  assert_int_equal(crn_run_init(&b->r, b->mem, k, b->threads, NULL, &b->err), CRN_OK);
  b->r.real = real;
}

static inline void run_close(bench_run *b) {
  crn_run_deinit(&b->r);
  crn_threads_free(b->threads);
  crn_mem_free_all(b->mem);
  crn_err_clear(&b->err);
}

static inline double pseudo(int64_t i) { /* fixed numbers in (-1, 1) */
  uint64_t z = (uint64_t)i * 0x9E3779B97F4A7C15u + 0x1234567u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return (double)(int64_t)(z >> 11) / 4503599627370496.0 - 1.0;
}

static inline int64_t count_of(int rank, const int64_t *shape) { return crn_t_count(rank, shape); }

/* A float input of pseudo-random numbers times scale. Freed by inputs_free. */
static inline input real_input(int64_t seed, double scale, bool grad, int rank, const int64_t *shape) {
  input in = {.dtype = CRN_F64, .rank = rank, .grad = grad};
  for (int i = 0; i < rank; i++) in.shape[i] = shape[i];
  int64_t n = count_of(rank, shape);
  in.v = calloc((size_t)(n ? n : 1), sizeof(double));
  for (int64_t i = 0; i < n; i++) in.v[i] = (double)(float)(scale * pseudo(seed * 1000003 + i));
  return in;
}

static inline input int_input(int rank, const int64_t *shape, const int32_t *values) {
  input in = {.dtype = CRN_I32, .rank = rank};
  for (int i = 0; i < rank; i++) in.shape[i] = shape[i];
  int64_t n = count_of(rank, shape);
  in.v = calloc((size_t)(n ? n : 1), sizeof(double));
  for (int64_t i = 0; i < n; i++) in.v[i] = values[i];
  return in;
}

static inline void inputs_free(int n, input *in) {
  for (int i = 0; i < n; i++) free(in[i].v);
}

static inline void result_free(result *res) {
  for (int i = 0; i < MAX_OUT; i++) free(res->out[i]);
  for (int i = 0; i < 8; i++) free(res->grad[i]);
}

static inline void put_real(void *p, crn_dtype t, int64_t i, double v) {
  if (t == CRN_F64)
    ((double *)p)[i] = v;
  else
    ((float *)p)[i] = (float)v;
}

static inline double get_real(const void *p, crn_dtype t, int64_t i) {
  return t == CRN_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static inline crn_tensor *make_input(crn_run *r, const input *in, crn_storage *param) {
  crn_dtype t = in->dtype == CRN_F64 ? r->real : in->dtype;
  int64_t n = count_of(in->rank, in->shape);
  if (in->dtype == CRN_I32) {
    crn_tensor *x = crn_t_new(r, CRN_I32, in->rank, in->shape);
    for (int64_t i = 0; x && i < n; i++) crn_t_i32(x)[i] = (int32_t)in->v[i];
    return x;
  }
  crn_tensor *x;
  if (in->param) {
    param->bytes = (size_t)n * crn_dtype_bytes(t);
    param->data = crn_malloc(param->bytes + 1);
    param->is_param = true;
    x = crn_t_over(r, param, t, in->rank, in->shape, in->grad);
  } else {
    x = crn_t_new(r, t, in->rank, in->shape);
  }
  assert_non_null(x);
  for (int64_t i = 0; i < n; i++) put_real(x->st->data, t, i, in->v[i]);
  x->needs_grad = in->grad;
  return x;
}

static inline double seed_of(int o, int64_t i) { return pseudo(7777 + 31 * o + i); }

/* Run the operation; with grads also backward from seeds of all outputs. `before` is in the gradients already. */
static inline result evaluate(bench_run *b, build_fn fn, const void *arg, int n, const input *in, bool grads,
                              double before) {
  crn_run *r = &b->r;
  result res = {.n_in = n};
  crn_storage params[8];
  memset(params, 0, sizeof params);
  crn_tensor *t[8], *out[MAX_OUT] = {0};
  for (int i = 0; i < n; i++) t[i] = in[i].v ? make_input(r, &in[i], &params[i]) : NULL;
  r->recording = grads;
  res.n_out = fn(r, t, arg, out);
  if (b->err.code) fail_msg("%s", crn_err_text(&b->err));
  for (int o = 0; o < res.n_out; o++) {
    assert_non_null(out[o]);
    res.out_size[o] = crn_t_size(out[o]);
    res.out[o] = calloc((size_t)res.out_size[o] + 1, sizeof(double));
    for (int64_t i = 0; i < res.out_size[o]; i++) res.out[o][i] = crn_t_get(out[o], i);
  }
  if (grads) {
    for (int i = 0; i < n; i++)
      if (t[i] && in[i].grad) {
        void *g = crn_storage_grad(r, t[i]->st);
        for (int64_t k = 0; k < crn_t_size(t[i]); k++) put_real(g, r->real, k, before);
      }
    void *seed = calloc((size_t)res.out_size[0] + 1, sizeof(double));
    for (int o = 0; o < res.n_out; o++) {
      void *g = o == 0 ? seed : crn_storage_grad(r, out[o]->st);
      for (int64_t i = 0; i < res.out_size[o]; i++) put_real(g, r->real, i, seed_of(o, i));
    }
    if (crn_backward(r, out[0], seed) != CRN_OK) fail_msg("%s", crn_err_text(&b->err));
    free(seed);
    for (int i = 0; i < n; i++) {
      if (!t[i] || !in[i].grad) continue;
      int64_t size = crn_t_size(t[i]);
      res.grad[i] = calloc((size_t)size + 1, sizeof(double));
      for (int64_t k = 0; k < size; k++) res.grad[i][k] = get_real(t[i]->st->grad, r->real, k) - before;
    }
  }
  r->recording = false;
  crn_run_reset(r);
  for (int i = 0; i < n; i++) {
    crn_weight_free(&params[i]);
    crn_free(params[i].data);
    crn_free(params[i].grad);
  }
  return res;
}

static inline double seeded_sum(const result *res) {
  double s = 0;
  for (int o = 0; o < res->n_out; o++)
    for (int64_t i = 0; i < res->out_size[o]; i++) s += seed_of(o, i) * res->out[o][i];
  return s;
}

static inline void expect_close(const char *what, int which, int64_t i, double got, double want, double tol) {
  if (got == want || (isnan(got) && isnan(want))) return;
  if (!(fabs(got - want) <= tol * (1 + fabs(want))))
    fail_msg("%s %d, element %lld: got %.9g, want %.9g", what, which, (long long)i, got, want);
}

/* Every element's gradient against (f(x+h) - f(x-h)) / 2h in double. */
static inline void check_differences(build_fn fn, const void *arg, int n, input *in, double tol) {
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result ana = evaluate(&b, fn, arg, n, in, true, 0.5);
  for (int i = 0; i < n; i++) {
    if (!in[i].grad || !in[i].v) continue;
    for (int64_t k = 0; k < count_of(in[i].rank, in[i].shape); k++) {
      double h = 1e-5, old = in[i].v[k];
      in[i].v[k] = old + h;
      result up = evaluate(&b, fn, arg, n, in, false, 0);
      in[i].v[k] = old - h;
      result down = evaluate(&b, fn, arg, n, in, false, 0);
      in[i].v[k] = old;
      expect_close("gradient of input", i, k, ana.grad[i][k], (seeded_sum(&up) - seeded_sum(&down)) / (2 * h), tol);
      result_free(&up);
      result_free(&down);
    }
  }
  result_free(&ana);
  run_close(&b);
}

static inline void compare_results(const result *got, const result *want, double tol) {
  for (int o = 0; o < want->n_out; o++) {
    assert_int_equal(got->out_size[o], want->out_size[o]);
    for (int64_t i = 0; i < want->out_size[o]; i++) expect_close("output", o, i, got->out[o][i], want->out[o][i], tol);
  }
}

/* Float on every table against double; the same bits with 1, 2, 3 threads. */
static inline void check_float(build_fn fn, const void *arg, int n, const input *in, double tol) {
  bench_run d;
  run_open(&d, CRN_F64, NULL, 1);
  result want = evaluate(&d, fn, arg, n, in, true, 0);
  run_close(&d);
  for (int table = 0; crn_kernels_nth(table); table++) {
    result first = {0};
    for (int threads = 1; threads <= 3; threads++) {
      bench_run b;
      run_open(&b, CRN_F32, crn_kernels_nth(table)->name, threads);
      result got = evaluate(&b, fn, arg, n, in, true, 0);
      run_close(&b);
      const result *ref = threads == 1 ? &want : &first;
      double t = threads == 1 ? tol : 0;
      compare_results(&got, ref, t);
      for (int i = 0; i < n; i++)
        for (int64_t k = 0; got.grad[i] && k < count_of(in[i].rank, in[i].shape); k++)
          expect_close("float gradient of input", i, k, got.grad[i][k], ref->grad[i][k], t);
      if (threads == 1)
        first = got;
      else
        result_free(&got);
    }
    result_free(&first);
  }
  result_free(&want);
}

static inline void check_all(build_fn fn, const void *arg, int n, input *in) {
  check_differences(fn, arg, n, in, 2e-6);
  check_float(fn, arg, n, in, 2e-4);
}

#endif
