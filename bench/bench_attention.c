/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention part of one decoder step in search, alone: query = W s, energies v tanh(context + query), softmax over
 * the frames, weighted sum of the encoder's frames; published size (key 1024, state 1000, encoder 2048, 16 sequences of
 * 133 frames). Usage: bench_attention BEAM RUNS
 */
#include <stdlib.h>

#include "kernel/kernel.h"
#include "tensor/mem.h"
#include "tensor/ops.h"
#include "timing.h"

enum { B = 16, T = 133, KEY = 1024, STATE = 1000, ENC = 2048 };

static void make_storage(crn_storage *st, int64_t n) {
  st->bytes = (size_t)n * sizeof(float);
  st->data = aligned_alloc(64, (st->bytes + 63) / 64 * 64);
  st->is_param = st->borrowed = true;
  if (!st->data) exit(1);
  fill_floats(st->data, n, 0.05f);
}

static float *made(int64_t n) {
  float *x = malloc((size_t)n * sizeof(float));
  if (!x) exit(1);
  fill_floats(x, n, 1);
  return x;
}

int main(int argc, char **argv) {
  const int64_t beam = argc > 1 ? strtol(argv[1], NULL, 10) : 12;
  const long runs = argc > 2 ? strtol(argv[2], NULL, 10) : 7;
  crn_err err = {0};
  crn_run r;
  struct crn_mem *mem = crn_mem_new();
  if (beam < 1 || beam > 1000 || !mem || crn_run_init(&r, mem, crn_kernels_select(NULL), NULL, NULL, &err) != CRN_OK) {
    (void)fprintf(stderr, "usage: bench_attention BEAM RUNS\n");
    return 1;
  }
  crn_storage w = {0}, v = {0};
  make_storage(&w, STATE * KEY);
  make_storage(&v, KEY);
  float *context = made(B * T * KEY), *encoder = made(B * T * ENC), *state = made(B * beam * STATE);
  for (long k = -1; k < runs; k++) {
    crn_tensor *ctx = crn_t_copy_in(&r, CRN_F32, 3, (int64_t[]){B, T, KEY}, context);
    crn_tensor *enc = crn_t_copy_in(&r, CRN_F32, 3, (int64_t[]){B, T, ENC}, encoder);
    crn_tensor *s = crn_t_copy_in(&r, CRN_F32, 2, (int64_t[]){B * beam, STATE}, state);
    const double start = now_ms();
    crn_tensor *q = crn_linear(&r, s, crn_t_over(&r, &w, CRN_F32, 2, (int64_t[]){STATE, KEY}, false), false, NULL);
    crn_tensor *e = crn_additive_energy(&r, ctx, q, crn_t_over(&r, &v, CRN_F32, 1, (int64_t[]){KEY}, false));
    crn_tensor *weights = crn_t_reshape(&r, crn_softmax(&r, e), 3, (int64_t[]){B, beam, T});
    (void)crn_matmul(&r, weights, false, enc, false);
    if (k >= 0) print_ms(now_ms() - start);
    if (crn_run_failed(&r)) {
      (void)fprintf(stderr, "bench_attention: %s\n", crn_err_text(&err));
      return 1;
    }
    crn_run_reset(&r);
  }
  crn_run_deinit(&r);
  crn_weight_free(&w);
  crn_weight_free(&v);
  free(w.data);
  free(v.data);
  free(context);
  free(encoder);
  free(state);
  crn_mem_free_all(mem);
  return 0;
}
