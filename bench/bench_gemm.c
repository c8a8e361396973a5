/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of matrix products and vector functions on one thread of this machine, for every kernel table that it can run,
 * next to the peak that a loop of multiply-adds in registers reaches. Process CPU clock, best of several runs.
 * Usage: bench_gemm [table [shape]], e.g. bench_gemm v4 16x512; bench_gemm tables lists their names
 */
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "kernel/kernel.h"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define PEAK_ROUNDS 10000000

#if defined(__x86_64__)
/* Eight independent sums: enough for two units of latency four. */
#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

__attribute__((target("avx512f"))) static double peak_v4(void) {
  __m512 a = _mm512_set1_ps(1.0000001f), b = _mm512_set1_ps(1e-9f);
#define START(i) __m512 s##i = _mm512_set1_ps(i);
#define STEP(i) s##i = _mm512_fmadd_ps(s##i, a, b);
#define USE(i) __asm__ volatile("" ::"v"(s##i));
  EIGHT(START)
  double t = now_s();
  for (int64_t r = 0; r < PEAK_ROUNDS; r++) {
    EIGHT(STEP)
    __asm__ volatile("" : "+v"(a), "+v"(b)); /* so that the loop stays */
  }
  t = now_s() - t;
  EIGHT(USE)
#undef START
#undef STEP
#undef USE
  return PEAK_ROUNDS * 8.0 * 32 / t * 1e-9;
}

__attribute__((target("avx2,fma"))) static double peak_v3(void) {
  __m256 a = _mm256_set1_ps(1.0000001f), b = _mm256_set1_ps(1e-9f);
#define START(i) __m256 s##i = _mm256_set1_ps(i);
#define STEP(i) s##i = _mm256_fmadd_ps(s##i, a, b);
#define USE(i) __asm__ volatile("" ::"x"(s##i));
  EIGHT(START)
  double t = now_s();
  for (int64_t r = 0; r < PEAK_ROUNDS; r++) {
    EIGHT(STEP)
    __asm__ volatile("" : "+x"(a), "+x"(b));
  }
  t = now_s() - t;
  EIGHT(USE)
  return PEAK_ROUNDS * 8.0 * 16 / t * 1e-9;
}
#endif

/* GFLOP/s of multiply-adds in registers, 0 = not measured */
static double peak_of(const crn_kernels *k) {
#if defined(__x86_64__)
  if (strcmp(k->name, "v4") == 0) return peak_v4();
  if (strcmp(k->name, "v3") == 0) return peak_v3();
#endif
  (void)k;
  return 0;
}

typedef struct shape {
  const char *name;
  int64_t M, K, N;
  bool trans_a, trans_b, packed;
} shape;

static const shape shapes[] = {
    {"1x512x2048", 1, 512, 2048, false, false, true},
    {"8x512x2048", 8, 512, 2048, false, false, true},
    {"16x512x2048", 16, 512, 2048, false, false, true},
    {"32x512x2048", 32, 512, 2048, false, false, true},
    {"64x512x2048", 64, 512, 2048, false, false, true},
    {"16x1024x4096", 16, 1024, 4096, false, false, true},
    {"4096x512x2048", 4096, 512, 2048, false, false, true},
    {"1600x2048x512", 1600, 2048, 512, false, false, true},
    {"dW 512x1600x2048 TN", 512, 1600, 2048, true, false, false},
    {"dh 16x2048x512 NT", 16, 2048, 512, false, true, true},
    {"10x10x40", 10, 10, 40, false, false, false},
    {"100x100x64", 100, 100, 64, false, false, false},
    {"12x512x10000", 12, 512, 10000, false, false, true},
    {"1x512x2048 plain", 1, 512, 2048, false, false, false},
    {"16x512x2048 plain", 16, 512, 2048, false, false, false},
    {"64x512x2048 plain", 64, 512, 2048, false, false, false},
    {"128x512x2048 plain", 128, 512, 2048, false, false, false},
    {"16x2048x512 NT plain", 16, 2048, 512, false, true, false},
    {"1600x512x2048 plain", 1600, 512, 2048, false, false, false},
    {"1600x2048x512 NT plain", 1600, 2048, 512, false, true, false},
    {"2048x2048x2048 plain", 2048, 2048, 2048, false, false, false},
    {NULL, 0, 0, 0, false, false, false},
};

static float *random_floats(int64_t n) {
  float *p = NULL;
  if (posix_memalign((void **)&p, 64, (size_t)n * sizeof(float) + 64)) exit(1);
  uint32_t s = 12345;
  for (int64_t i = 0; i < n; i++) {
    s = s * 1664525u + 1013904223u;
    p[i] = (float)(s >> 8) * 0x1p-24f - 0.5f;
  }
  return p;
}

static double gflops(const crn_kernels *k, const shape *s) {
  float *a = random_floats(s->M * s->K), *b = random_floats(s->K * s->N), *c = random_floats(s->M * s->N);
  crn_matmul_args m = {
      .M = s->M, .N = s->N, .K = s->K, .A = a, .B = b, .C = c, .trans_a = s->trans_a, .trans_b = s->trans_b};
  m.lda = s->trans_a ? s->M : s->K;
  m.ldb = s->trans_b ? s->K : s->N;
  m.ldc = s->N;
  crn_packed_b p = {.K = s->K, .N = s->N, .bytes = k->packed_b_bytes(s->K, s->N)};
  if (posix_memalign(&p.data, 64, p.bytes)) exit(1);
  if (s->packed) k->pack_b(&p, s->trans_b, b, m.ldb, NULL);
  double flops = 2.0 * (double)s->M * (double)s->N * (double)s->K, best = 1e30;
  int64_t inner = (int64_t)(2e8 / flops) + 1;
  for (int run = 0; run < 7; run++) {
    double t = now_s();
    for (int64_t i = 0; i < inner; i++) {
      if (s->packed)
        k->matmul_packed(&m, &p, NULL);
      else
        k->matmul(&m, NULL);
    }
    t = (now_s() - t) / (double)inner;
    if (t < best) best = t;
  }
  free(p.data);
  free(a);
  free(b);
  free(c);
  return flops / best * 1e-9;
}

static double unary_ns(crn_unary_fn f) {
  enum { N = 4096 };
  float *x = random_floats(N), *y = random_floats(N);
  double best = 1e30;
  for (int run = 0; run < 20; run++) {
    double t = now_s();
    for (int i = 0; i < 50; i++) f(N, x, y);
    t = now_s() - t;
    if (t < best) best = t;
  }
  free(x);
  free(y);
  return best / (50.0 * N) * 1e9;
}

static double attention_ns(const crn_kernels *k, bool backward) { /* per element of [B,T,K] */
  enum { B = 12, T = 100, K = 1024 };
  float *ctx = random_floats(T * K), *q = random_floats(B * K), *v = random_floats(K), *e = random_floats(B * T),
        *work = random_floats(B * (K + 1));
  crn_attention_args a = {
      .B = 1, .beam = B, .T = T, .K = K, .ctx = ctx, .ctx_stride_t = K, .q = q, .ldq = K, .v = v, .e = e};
  a.e_stride_r = T;
  a.e_stride_t = 1;
  a.work = work;
  float *dctx = random_floats(T * K), *dq = random_floats(B * K), *dv = random_floats(K);
  a.de = e;
  a.dctx = dctx;
  a.dq = dq;
  a.dv = dv;
  double best = 1e30;
  for (int run = 0; run < 10; run++) {
    double t = now_s();
    if (backward)
      k->attention_backward(&a, NULL);
    else
      k->attention_forward(&a, NULL);
    t = now_s() - t;
    if (t < best) best = t;
  }
  free(ctx);
  free(dctx);
  free(dq);
  free(dv);
  free(q);
  free(v);
  free(e);
  free(work);
  return best / (B * T * K) * 1e9;
}

static double lstm_ns(const crn_kernels *k, bool backward) { /* per cell */
  enum { R = 16, N = 512 };
  float *z = random_floats(R * 4 * N), *g = random_floats(R * 4 * N), *c = random_floats(R * N),
        *h = random_floats(R * N);
  crn_lstm_args a = {.rows = R, .n = N, .layout = CRN_LSTM_JIFO, .z = z, .ldz = 4 * N, .c_prev = h, .ldc_prev = N};
  a.gates = g;
  a.ldgates = 4 * N;
  a.c = c;
  a.h = h;
  a.ldc = a.ldh = N;
  float *dz = random_floats(R * 4 * N);
  a.dh = h;
  a.lddh = N;
  a.dz = dz;
  a.lddz = 4 * N;
  double best = 1e30;
  for (int run = 0; run < 50; run++) {
    double t = now_s();
    if (backward)
      k->lstm_backward(&a);
    else
      k->lstm_forward(&a);
    t = now_s() - t;
    if (t < best) best = t;
  }
  free(z);
  free(dz);
  free(g);
  free(c);
  free(h);
  return best / (R * N) * 1e9;
}

int main(int argc, char **argv) {
  for (int i = 0;; i++) {
    const crn_kernels *k = crn_kernels_nth(i);
    if (!k) return 0;
    if (argc > 1 && strcmp(argv[1], "tables") == 0) {
      if (strcmp(k->name, "reference") != 0) printf("%s\n", k->name);
      continue;
    }
    if (argc > 1 ? strcmp(argv[1], k->name) != 0 : strcmp(k->name, "reference") == 0) continue;
    double peak = 0;
    for (int run = 0; run < 5; run++) {
      const double p = peak_of(k);
      if (p > peak) peak = p;
    }
    printf("%s: peak %.1f GFLOP/s\n", k->name, peak);
    for (const shape *s = shapes; s->name; s++) {
      if (argc > 2 && !strstr(s->name, argv[2])) continue;
      double g = gflops(k, s);
      printf("  %-24s %7.1f GFLOP/s %5.1f %%\n", s->name, g, peak > 0 ? 100 * g / peak : 0);
    }
    if (argc > 2) continue;
    printf("  ns per element: exp %.2f log %.2f tanh %.2f sigmoid %.2f softplus %.2f erf %.2f\n", unary_ns(k->exp),
           unary_ns(k->log), unary_ns(k->tanh), unary_ns(k->sigmoid), unary_ns(k->softplus), unary_ns(k->erf));
    printf("  ns per cell: lstm_forward %.2f lstm_backward %.2f\n", lstm_ns(k, false), lstm_ns(k, true));
    printf("  ns per element: attention_forward %.2f attention_backward %.2f\n", attention_ns(k, false),
           attention_ns(k, true));
  }
}
