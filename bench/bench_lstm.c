/* SPDX-License-Identifier: Apache-2.0
 *
 * Time of LSTM passes on one thread, forward or training step (forward, backward, plain gradient step on the weights),
 * process CPU clock, one line "ms X" per run. Usage: bench_lstm NET forward|training RUNS [full|ragged [table]]
 */
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "tensor/mem.h"
#include "tensor/ops.h"
#include "timing.h"

#define MAX_LAYERS 6

typedef struct net {
  const char *name;
  int64_t T, B, in, n;
  int layers;
  bool both, ragged;
} net;

static const net nets[] = {
    {"1x512x16", 100, 16, 512, 512, 1, false, false},
    {"1x512x32", 100, 32, 512, 512, 1, false, false},
    {"6x500x16", 100, 16, 40, 500, 6, true, false},
};

typedef struct direction {
  crn_storage w[3]; /* W of the whole input, W_re, b */
  int64_t in;       /* features of a layer's input */
} direction;

static void make_storage(crn_storage *st, int64_t n, float scale) {
  st->bytes = (size_t)n * sizeof(float);
  st->data = aligned_alloc(64, (st->bytes + 63) / 64 * 64);
  st->is_param = st->borrowed = true;
  if (!st->data) abort();
  fill_floats(st->data, n, scale);
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

static void bench(const net *c, const crn_kernels *kernels, bool train, long runs) {
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
  if (!x || !lens) exit(1);
  fill_floats(x, c->T * c->B * c->in, 1);
  for (int64_t b = 0; b < c->B; b++) lens[b] = (int32_t)(c->ragged ? c->T - (c->T * 4 / 5) * b / (c->B - 1) : c->T);
  for (long k = -1; k < runs; k++) {
    const double start = now_ms();
    step(&r, c, d, train, x, lens);
    if (k >= 0) print_ms(now_ms() - start);
  }
  crn_run_deinit(&r);
  for (int l = 0; l < c->layers; l++)
    for (int k = 0; k < 6; k++) {
      crn_weight_free(&d[l][k / 3].w[k % 3]);
      free(d[l][k / 3].w[k % 3].data);
      crn_free(d[l][k / 3].w[k % 3].grad);
    }
  free(x);
  free(lens);
  crn_mem_free_all(mem);
}

int main(int argc, char **argv) {
  const crn_kernels *kernels = crn_kernels_select(argc > 5 && strcmp(argv[5], "best") != 0 ? argv[5] : NULL);
  const long runs = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
  for (size_t i = 0; i < sizeof nets / sizeof *nets && kernels && runs > 0; i++)
    if (strcmp(argv[1], nets[i].name) == 0) {
      net c = nets[i];
      c.ragged = argc > 4 && strcmp(argv[4], "ragged") == 0;
      bench(&c, kernels, strcmp(argv[2], "training") == 0, runs);
      return 0;
    }
  (void)fprintf(
      stderr,
      "usage: bench_lstm 1x512x16|1x512x32|6x500x16 forward|training RUNS [full|ragged [best|reference|v3|v4]]\n");
  return 1;
}
