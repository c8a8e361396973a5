/* SPDX-License-Identifier: Apache-2.0
 *
 * Time of convolutions, pooling, CTC and attention energies on one thread: forward and forward + backward, process CPU
 * clock, smallest of several runs, with GFLOP/s of the products where there are any. Usage: bench_conv [table] [runs]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/kernel.h"
#include "tensor/mem.h"
#include "tensor/ops.h"

typedef struct conv_bench {
  const char *name;
  int n_spatial;
  int64_t B, in[2], k[2], C, O, stride[2], groups;
  int pool; /* 1 max, 2 average */
} conv_bench;

static const conv_bench benches[] = {
    {"conv 3x3 32-32, 16x400x40", 2, 16, {400, 40}, {3, 3}, 32, 32, {1, 1}, 1, 0},
    {"conv 3x3 1-32, 16x400x40", 2, 16, {400, 40}, {3, 3}, 1, 32, {1, 1}, 1, 0},
    {"conv 5 512-512, 16x100", 1, 16, {100}, {5}, 512, 512, {1}, 1, 0},
    {"conv 1 512-2048, 16x100", 1, 16, {100}, {1}, 512, 2048, {1}, 1, 0},
    {"conv 8 512-512 stride 2, 16x100", 1, 16, {100}, {8}, 512, 512, {2}, 1, 0},
    {"depthwise 32 of 512, 16x100", 1, 16, {100}, {32}, 512, 512, {1}, 512, 0},
    {"conv 3 8 groups of 64, 16x100", 1, 16, {100}, {3}, 512, 512, {1}, 8, 0},
    {"max pool 3x2 32, 16x400x40", 2, 16, {400, 40}, {3, 2}, 32, 32, {1, 2}, 1, 1},
    {"avg pool 2 of 512, 16x100", 1, 16, {100}, {2}, 512, 512, {2}, 1, 2},
};

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static crn_tensor *random_tensor(crn_run *r, int rank, const int64_t *shape, float scale) {
  crn_tensor *t = crn_t_new(r, CRN_F32, rank, shape);
  uint32_t s = 12345;
  for (int64_t i = 0; t && i < crn_t_size(t); i++) {
    s = s * 1664525u + 1013904223u;
    crn_t_f32(t)[i] = scale * ((float)(s >> 8) / 8388608.0f - 1.0f);
  }
  if (t) t->needs_grad = true;
  return t;
}

typedef crn_tensor *(*op_fn)(crn_run *r, const void *arg, double *start);

static crn_tensor *conv_op(crn_run *r, const void *arg, double *start) {
  const conv_bench *c = arg;
  crn_conv_spec s = {.n_spatial = c->n_spatial, .groups = c->groups};
  int64_t x[4] = {c->B}, w[4];
  for (int i = 0; i < c->n_spatial; i++) {
    s.stride[i] = c->stride[i];
    s.dilation[i] = 1;
    s.pad_before[i] = (c->k[i] - 1) / 2;
    s.pad_after[i] = c->k[i] / 2;
    s.window[i] = w[i] = c->k[i];
    x[i + 1] = c->in[i];
  }
  x[c->n_spatial + 1] = c->C;
  w[c->n_spatial] = c->C / c->groups;
  w[c->n_spatial + 1] = c->O;
  crn_tensor *xt = random_tensor(r, c->n_spatial + 2, x, 1), *wt = random_tensor(r, c->n_spatial + 2, w, 0.1f);
  *start = now_ms();
  return c->pool ? crn_pool(r, xt, c->pool == 1, &s) : crn_conv(r, xt, wt, &s);
}

static crn_tensor *energy_op(crn_run *r, const void *arg, double *start) {
  (void)arg;
  crn_tensor *ctx = random_tensor(r, 3, (int64_t[]){16, 133, 1024}, 1), *v = random_tensor(r, 1, (int64_t[]){1024}, 1);
  crn_tensor *q = random_tensor(r, 2, (int64_t[]){64, 1024}, 1);
  *start = now_ms();
  return crn_additive_energy(r, ctx, q, v);
}

static crn_tensor *ctc_op(crn_run *r, const void *arg, double *start) {
  enum { T = 500, B = 16, V = 1000, S = 80 };
  crn_tensor *x = crn_log_softmax(r, random_tensor(r, 3, (int64_t[]){T, B, V}, 3));
  crn_tensor *lens = crn_t_full(r, CRN_I32, 1, (int64_t[]){B}, T), *n = crn_t_full(r, CRN_I32, 1, (int64_t[]){B}, S);
  crn_tensor *labels = crn_t_new(r, CRN_I32, 2, (int64_t[]){B, S});
  for (int i = 0; labels && i < B * S; i++) crn_t_i32(labels)[i] = i * 37 % (V - 1);
  *start = now_ms();
  return crn_ctc(r, x, lens, labels, n, V - 1, true, *(const int *)arg);
}

static crn_tensor *ce_op(crn_run *r, const void *arg, double *start) {
  (void)arg;
  crn_tensor *x = random_tensor(r, 2, (int64_t[]){800, 10000}, 3), *t = crn_t_full(r, CRN_I32, 1, (int64_t[]){800}, 5);
  *start = now_ms();
  return crn_sparse_ce_logits(r, x, t);
}

static void bench(const char *name, op_fn fn, const void *arg, const crn_kernels *kernels, int runs, double gflop) {
  crn_err err = {0};
  crn_run r;
  struct crn_mem *mem = crn_mem_new();
  if (!mem || crn_run_init(&r, mem, kernels, NULL, NULL, &err) != CRN_OK) exit(1);
  double forward = 1e30, both = 1e30, start = 0;
  for (int k = 0; k < runs; k++) {
    r.recording = true;
    crn_tensor *y = fn(&r, arg, &start);
    double t = now_ms() - start;
    if (t < forward) forward = t;
    if (y && crn_backward(&r, y, NULL) == CRN_OK && now_ms() - start < both) both = now_ms() - start;
    if (err.code) {
      (void)fprintf(stderr, "%s\n", crn_err_text(&err));
      exit(1);
    }
    crn_run_reset(&r);
  }
  (void)printf("%-34s forward %7.2f ms", name, forward);
  if (gflop > 0) (void)printf(" %6.1f GFLOP/s", gflop / forward * 1e3);
  (void)printf("   with backward %7.2f ms", both);
  if (gflop > 0) (void)printf(" %6.1f GFLOP/s", 3 * gflop / both * 1e3);
  (void)printf("   peak %zu MB\n", crn_mem_get_stats(mem).peak_bytes >> 20);
  crn_run_deinit(&r);
  crn_mem_free_all(mem);
}

int main(int argc, char **argv) {
  const crn_kernels *kernels = crn_kernels_select(argc > 1 && strcmp(argv[1], "best") != 0 ? argv[1] : NULL);
  const long runs = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
  if (!kernels || runs < 1 || runs > 1000000) {
    (void)fprintf(stderr, "usage: bench_conv [best|reference|v3|v4] [runs]\n");
    return 1;
  }
  (void)printf("table %s\n", kernels->name);
  for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
    const conv_bench *c = &benches[i];
    double flop = 2.0 * (double)(c->B * c->C / c->groups * c->O);
    for (int a = 0; a < c->n_spatial; a++) flop *= (double)(c->k[a] * ((c->in[a] - 1) / c->stride[a] + 1));
    bench(c->name, conv_op, c, kernels, (int)runs, c->pool ? 0 : 1e-9 * flop);
  }
  bench("additive energy 64 of 16x133x1024", energy_op, NULL, kernels, (int)runs, 0);
  bench("cross entropy 800x10000", ce_op, NULL, kernels, (int)runs, 0);
  bench("ctc 16x500, 80 labels", ctc_op, &(int){0}, kernels, (int)runs, 0);
  bench("ctc viterbi", ctc_op, &(int){1}, kernels, (int)runs, 0);
  return 0;
}
