/* SPDX-License-Identifier: Apache-2.0
 *
 * Time of LSTM passes on one thread, forward and training step (forward, backward, plain gradient step on the weights),
 * process CPU clock, smallest and median of several runs. Usage: bench_lstm [best|table name] [runs]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/kernel.h"
#include "tensor/mem.h"
#include "tensor/ops.h"

#define MAX_LAYERS 6

typedef struct net {
  const char *name;
  int64_t T, B, in, n;
  int layers;
  bool both, ragged;
} net;

static const net nets[] = {
    {"1x512 B=16", 100, 16, 512, 512, 1, false, false},
    {"1x512 B=32", 100, 32, 512, 512, 1, false, false},
    {"6x500 both B=16", 100, 16, 40, 500, 6, true, false},
    {"1x512 B=32 lengths 20-100", 100, 32, 512, 512, 1, false, true},
    {"6x500 both B=16 lengths 20-100", 100, 16, 40, 500, 6, true, true},
};

typedef struct direction {
  crn_storage w[3]; /* W of the whole input, W_re, b */
  int64_t in;       /* features of a layer's input */
} direction;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void fill(float *x, int64_t n, float scale) {
  uint32_t s = 12345;
  for (int64_t i = 0; i < n; i++) {
    s = s * 1664525u + 1013904223u;
    x[i] = scale * ((float)(s >> 8) / 8388608.0f - 1.0f);
  }
}

static void make_storage(crn_storage *st, int64_t n, float scale) {
  st->bytes = (size_t)n * sizeof(float);
  st->data = aligned_alloc(64, (st->bytes + 63) / 64 * 64);
  st->is_param = st->borrowed = true;
  if (!st->data) abort();
  fill(st->data, n, scale);
}

/* One layer; the inputs are the outputs of both directions of the layer below. */
static int run_layer(crn_run *r, const net *c, direction *d, bool train, int n_in, crn_tensor **in, crn_tensor *lens,
                     crn_tensor **out) {
  for (int dir = 0; dir <= (c->both ? 1 : 0); dir++) {
    int64_t n = c->n;
    crn_tensor *w = crn_t_over(r, &d[dir].w[0], CRN_F32, 2, (int64_t[]){d[dir].in, 4 * n}, train);
    crn_tensor *w_re = crn_t_over(r, &d[dir].w[1], CRN_F32, 2, (int64_t[]){n, 4 * n}, train);
    crn_tensor *b = crn_t_over(r, &d[dir].w[2], CRN_F32, 1, (int64_t[]){4 * n}, train);
    out[dir] = crn_lstm_layer(r, n_in, in, w, b, w_re, lens, NULL, NULL, "jifo", 0, dir == 1, NULL, NULL);
  }
  return c->both ? 2 : 1;
}

static void step(crn_run *r, const net *c, direction d[][2], bool train, const float *x, const int32_t *lens) {
  r->recording = train;
  crn_tensor *in[2] = {crn_t_copy_in(r, CRN_F32, 3, (int64_t[]){c->T, c->B, c->in}, x), NULL}, *out[2] = {NULL, NULL};
  crn_tensor *len = crn_t_copy_in(r, CRN_I32, 1, &c->B, lens);
  int n_in = 1;
  for (int l = 0; l < c->layers; l++) {
    n_in = run_layer(r, c, d[l], train, n_in, in, len, out);
    in[0] = out[0];
    in[1] = out[1];
  }
  crn_tensor *y = n_in > 1 ? crn_add(r, in[0], in[1]) : in[0];
  if (train && crn_backward(r, y, NULL) == CRN_OK)
    for (int l = 0; l < c->layers; l++)
      for (int k = 0; k < (c->both ? 6 : 3); k++) {
        crn_storage *st = &d[l][k / 3].w[k % 3];
        int64_t n = (int64_t)(st->bytes / sizeof(float));
        r->kernels->axpy(n, -1e-9f, st->grad, st->data);
        memset(st->grad, 0, st->bytes);
        crn_weight_changed(st);
      }
  if (crn_run_failed(r)) {
    (void)fprintf(stderr, "%s\n", crn_err_text(r->err));
    exit(1);
  }
  crn_run_reset(r);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void bench(const net *c, const crn_kernels *kernels, int runs) {
  static direction d[MAX_LAYERS][2];
  memset(d, 0, sizeof d);
  crn_err err = {0};
  crn_run r;
  struct crn_mem *mem = crn_mem_new();
  if (!mem || crn_run_init(&r, mem, kernels, NULL, NULL, &err) != CRN_OK) exit(1);
  for (int l = 0; l < c->layers; l++)
    for (int dir = 0; dir < 2; dir++) {
      d[l][dir].in = l == 0 ? c->in : c->both ? 2 * c->n : c->n;
      make_storage(&d[l][dir].w[0], d[l][dir].in * 4 * c->n, 0.05f);
      make_storage(&d[l][dir].w[1], c->n * 4 * c->n, 0.05f);
      make_storage(&d[l][dir].w[2], 4 * c->n, 0.05f);
    }
  float *x = malloc((size_t)(c->T * c->B * c->in) * sizeof *x);
  int32_t *lens = malloc((size_t)c->B * sizeof *lens);
  double *ms = malloc((size_t)runs * sizeof *ms);
  if (!x || !lens || !ms) exit(1);
  fill(x, c->T * c->B * c->in, 1);
  for (int64_t b = 0; b < c->B; b++) lens[b] = (int32_t)(c->ragged ? c->T - (c->T * 4 / 5) * b / (c->B - 1) : c->T);
  (void)printf("%-32s", c->name);
  for (int train = 0; train < 2; train++) {
    for (int k = -1; k < runs; k++) {
      double t = now_ms();
      step(&r, c, d, train, x, lens);
      if (k >= 0) ms[k] = now_ms() - t;
    }
    qsort(ms, (size_t)runs, sizeof *ms, compare);
    (void)printf("  %s %7.1f (median %7.1f) ms", train ? "training" : "forward", ms[0], ms[runs / 2]);
  }
  (void)printf("  peak %zu MB\n", crn_mem_get_stats(mem).peak_bytes >> 20);
  crn_run_deinit(&r);
  for (int l = 0; l < c->layers; l++)
    for (int k = 0; k < 6; k++) {
      crn_weight_free(&d[l][k / 3].w[k % 3]);
      free(d[l][k / 3].w[k % 3].data);
      crn_free(d[l][k / 3].w[k % 3].grad);
    }
  free(x);
  free(lens);
  free(ms);
  crn_mem_free_all(mem);
}

int main(int argc, char **argv) {
  const crn_kernels *kernels = crn_kernels_select(argc > 1 && strcmp(argv[1], "best") != 0 ? argv[1] : NULL);
  const long runs = argc > 2 ? strtol(argv[2], NULL, 10) : 7;
  if (!kernels || runs < 1 || runs > 1000000) {
    (void)fprintf(stderr, "usage: bench_lstm [best|reference|v3|v4] [runs]\n");
    return 1;
  }
  (void)printf("table %s\n", kernels->name);
  for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) bench(&nets[i], kernels, (int)runs);
  return 0;
}
