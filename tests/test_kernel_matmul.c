/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products of every kernel table that this machine can run: against sums in double, and bit for bit the same
 * whatever the number of threads, of rows or the way (packed, plain, batched).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "kernel/kernel.h"

#define GUARD 12345.0f /* fills the columns between N and ldc, which nobody may touch */

static float next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

static float *random_array(int64_t n, uint32_t seed) {
  float *p = crn_malloc((size_t)(n + 1) * sizeof(float));
  assert_non_null(p);
  for (int64_t i = 0; i < n; i++) p[i] = next_random(&seed);
  return p;
}

typedef struct problem {
  crn_matmul_args m;
  float *A, *B, *C, *bias;
} problem;

static problem make_problem(int64_t M, int64_t N, int64_t K, bool trans_a, bool trans_b, bool accumulate, bool bias) {
  problem p = {0};
  p.m = (crn_matmul_args){.M = M, .N = N, .K = K, .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulate};
  p.m.lda = (trans_a ? M : K) + 3;
  p.m.ldb = (trans_b ? K : N) + 1;
  p.m.ldc = N + 2;
  p.m.A = p.A = random_array((trans_a ? K : M) * p.m.lda, 1);
  p.m.B = p.B = random_array((trans_b ? N : K) * p.m.ldb, 2);
  p.C = random_array(M * p.m.ldc, 3);
  p.bias = random_array(N, 4);
  if (bias) p.m.bias = p.bias;
  for (int64_t i = 0; i < M; i++)
    for (int64_t j = N; j < p.m.ldc; j++) p.C[i * p.m.ldc + j] = GUARD;
  return p;
}

static void free_problem(problem *p) {
  crn_free(p->A);
  crn_free(p->B);
  crn_free(p->C);
  crn_free(p->bias);
}

/* The result, in a new array. */
static float *product(const crn_kernels *k, const problem *p, bool packed, crn_threads *t) {
  size_t bytes = (size_t)(p->m.M * p->m.ldc) * sizeof(float);
  crn_matmul_args m = p->m;
  m.C = crn_malloc(bytes + 1);
  assert_non_null(m.C);
  memcpy(m.C, p->C, bytes);
  if (!packed) {
    k->matmul(&m, t);
    return m.C;
  }
  crn_arena arena = {0};
  crn_packed_b b = {.K = m.K, .N = m.N, .bytes = k->packed_b_bytes(m.K, m.N)};
  b.data = crn_arena_alloc(&arena, b.bytes + 64);
  assert_non_null(b.data);
  k->pack_b(&b, m.trans_b, m.B, m.ldb, t);
  float *back = crn_arena_alloc(&arena, (size_t)((m.trans_b ? m.N : m.K) * m.ldb) * sizeof(float));
  assert_non_null(back);
  k->unpack_b(&b, m.trans_b, back, m.ldb);
  for (int64_t i = 0; i < m.K; i++)
    for (int64_t j = 0; j < m.N; j++) {
      const int64_t at = m.trans_b ? j * m.ldb + i : i * m.ldb + j;
      assert_true(back[at] == m.B[at]);
    }
  k->matmul_packed(&m, &b, t);
  crn_arena_free(&arena);
  return m.C;
}

static void check_against_double(const problem *p, const float *c) {
  const crn_matmul_args *m = &p->m;
  for (int64_t i = 0; i < m->M; i++) {
    for (int64_t j = 0; j < m->N; j++) {
      double s = (m->accumulate ? (double)p->C[i * m->ldc + j] : 0) + (m->bias ? (double)m->bias[j] : 0),
             size = fabs(s);
      for (int64_t k = 0; k < m->K; k++) {
        double ab = (double)(m->trans_a ? m->A[k * m->lda + i] : m->A[i * m->lda + k]) *
                    (double)(m->trans_b ? m->B[j * m->ldb + k] : m->B[k * m->ldb + j]);
        s += ab;
        size += fabs(ab);
      }
      /* K roundings of random sign, each of at most 2^-24 times a partial sum (the worst case has K for the root) */
      double got = (double)c[i * m->ldc + j];
      if (!(fabs(got - s) <= size * (2 + sqrt((double)m->K)) * 0x1p-24))
        fail_msg("[%d,%d] of M=%d N=%d K=%d: %.9g, expected %.9g", (int)i, (int)j, (int)m->M, (int)m->N, (int)m->K, got,
                 s);
    }
    for (int64_t j = m->N; j < m->ldc; j++) assert_true(c[i * m->ldc + j] == GUARD);
  }
}

static const int64_t sizes[][3] = {{1, 1, 1},     {1, 37, 5},     {1, 300, 513}, {2, 129, 300}, {3, 130, 257},
                                   {4, 16, 256},  {5, 31, 7},     {7, 33, 600},  {8, 64, 40},   {13, 17, 9},
                                   {14, 32, 256}, {15, 96, 70},   {16, 48, 33},  {29, 100, 64}, {43, 201, 258},
                                   {10, 40, 10},  {341, 35, 270}, {6, 8, 1030}};
#define N_SIZES ((int)(sizeof sizes / sizeof sizes[0]))

static void test_against_double(void **state) {
  (void)state;
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int s = 0; s < N_SIZES; s++)
      for (int flags = 0; flags < 16; flags++) {
        problem p = make_problem(sizes[s][0], sizes[s][1], sizes[s][2], flags & 1, flags & 2, flags & 4, flags & 8);
        float *plain = product(crn_kernels_nth(v), &p, false, NULL);
        check_against_double(&p, plain);
        float *packed = product(crn_kernels_nth(v), &p, true, NULL);
        assert_memory_equal(plain, packed, (size_t)(p.m.M * p.m.ldc) * sizeof(float));
        crn_free(plain);
        crn_free(packed);
        free_problem(&p);
      }
}

static void test_threads_same_bits(void **state) {
  (void)state;
  static const int64_t big[][3] = {{3, 2100, 300}, {200, 70, 520}, {64, 512, 300}, {700, 33, 100}};
  for (int n = 2; n <= 3; n++) {
    crn_threads *t = NULL;
    assert_int_equal(crn_threads_new(n, &t, NULL), CRN_OK);
    for (int v = 0; crn_kernels_nth(v); v++)
      for (int s = 0; s < 4; s++)
        for (int flags = 0; flags < 8; flags++) {
          problem p = make_problem(big[s][0], big[s][1], big[s][2], flags & 1, flags & 2, true, true);
          float *one = product(crn_kernels_nth(v), &p, flags & 4, NULL);
          float *several = product(crn_kernels_nth(v), &p, flags & 4, t);
          assert_memory_equal(one, several, (size_t)(p.m.M * p.m.ldc) * sizeof(float));
          crn_free(one);
          crn_free(several);
          free_problem(&p);
        }
    crn_threads_free(t);
  }
}

/* Each row computed alone, and in groups, gives the bits that it has among all rows. */
static void test_rows_same_bits(void **state) {
  (void)state;
  static const int64_t groups[] = {1, 2, 3, 4, 5, 8, 11, 13, 14, 27};
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int flags = 0; flags < 8; flags++) {
      problem p = make_problem(370, 300, 600, flags & 1, flags & 2, false, true);
      float *all = product(crn_kernels_nth(v), &p, flags & 4, NULL);
      for (int g = 0; g < (int)(sizeof groups / sizeof groups[0]); g++) {
        problem part = p;
        int64_t first = 37 + 17 * g;
        part.m.M = groups[g];
        part.m.A += p.m.trans_a ? first : first * p.m.lda;
        part.C = p.C + first * p.m.ldc;
        float *some = product(crn_kernels_nth(v), &part, flags & 4, NULL);
        assert_memory_equal(some, all + first * p.m.ldc, (size_t)(part.m.M * p.m.ldc) * sizeof(float));
        crn_free(some);
      }
      crn_free(all);
      free_problem(&p);
    }
}

/* Zeros at the end of the reduction, whatever stands opposite, change nothing: padding of a batch. */
static void test_trailing_zeros(void **state) {
  (void)state;
  for (int v = 0; crn_kernels_nth(v); v++) {
    problem p = make_problem(5, 70, 700, false, false, false, false);
    for (int64_t i = 0; i < p.m.M; i++)
      for (int64_t k = 300; k < p.m.K; k++) p.A[i * p.m.lda + k] = 0;
    float *padded = product(crn_kernels_nth(v), &p, false, NULL);
    p.m.K = 300;
    float *shorter = product(crn_kernels_nth(v), &p, false, NULL);
    assert_memory_equal(padded, shorter, (size_t)(p.m.M * p.m.ldc) * sizeof(float));
    crn_free(padded);
    crn_free(shorter);
    free_problem(&p);
  }
}

static void test_batched(void **state) {
  (void)state;
  /* as attention does it: [B,T,H·D] seen as [B,H] matrices [T,D], few large and many small ones */
  static const int64_t shapes[][5] = {{2, 3, 9, 11, 20}, {1, 2, 200, 190, 64}, {5, 8, 1, 30, 33}, {0, 3, 4, 5, 6}};
  crn_threads *t = NULL;
  assert_int_equal(crn_threads_new(3, &t, NULL), CRN_OK);
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int s = 0; s < 4; s++)
      for (int threaded = 0; threaded < 2; threaded++) {
        const crn_kernels *k = crn_kernels_nth(v);
        int64_t B = shapes[s][0], H = shapes[s][1], M = shapes[s][2], N = shapes[s][3], K = shapes[s][4];
        float *a = random_array(B * H * M * K, 5), *b = random_array(B * H * N * K, 6);
        float *c = random_array(B * H * M * N, 7), *d = random_array(B * H * M * N, 7);
        crn_matmul_args m = {.M = M, .N = N, .K = K, .A = a, .lda = H * K, .B = b, .ldb = H * K, .C = c, .ldc = N};
        m.trans_b = true;
        crn_matmul_batch batch = {.n = {B, H}, .stride_a = {M * H * K, K}, .stride_b = {N * H * K, K}};
        batch.stride_c[0] = H * M * N;
        batch.stride_c[1] = M * N;
        k->matmul_batched(&m, &batch, threaded ? t : NULL);
        for (int64_t i = 0; i < B * H; i++) {
          crn_matmul_args one = m;
          one.A = a + i / H * batch.stride_a[0] + i % H * K;
          one.B = b + i / H * batch.stride_b[0] + i % H * K;
          one.C = d + i * M * N;
          k->matmul(&one, NULL);
        }
        if (B > 0) assert_memory_equal(c, d, (size_t)(B * H * M * N) * sizeof(float));
        crn_free(a);
        crn_free(b);
        crn_free(c);
        crn_free(d);
      }
  crn_threads_free(t);
}

static void test_empty(void **state) {
  (void)state;
  for (int v = 0; crn_kernels_nth(v); v++) {
    problem p = make_problem(3, 40, 0, false, false, true, true);
    float *c = product(crn_kernels_nth(v), &p, false, NULL);
    check_against_double(&p, c); /* C + bias */
    crn_free(c);
    p.m.M = 0;
    c = product(crn_kernels_nth(v), &p, false, NULL);
    crn_free(c);
    free_problem(&p);
  }
}

static void test_double_table(void **state) {
  (void)state;
  enum { M = 7, N = 70, K = 300 };
  const crn_kernels_f64 *k = crn_kernels_double();
  double a[M * K], c[M * N];
  double *b = crn_malloc(sizeof(double) * N * K);
  assert_non_null(b);
  uint32_t s = 9;
  for (int i = 0; i < M * K; i++) a[i] = (double)next_random(&s);
  for (int i = 0; i < N * K; i++) b[i] = (double)next_random(&s);
  crn_matmul_args_f64 m = {
      .M = M, .N = N, .K = K, .A = a, .lda = K, .B = b, .ldb = K, .C = c, .ldc = N, .trans_b = true};
  k->matmul(&m, NULL);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double sum = 0;
      for (int l = 0; l < K; l++) sum += a[i * K + l] * b[j * K + l];
      assert_true(fabs(sum - c[i * N + j]) < 1e-12);
    }
  crn_free(b);
}

static void test_select(void **state) {
  (void)state;
  assert_string_equal(crn_kernels_select("reference")->name, "reference");
  assert_null(crn_kernels_select("v5"));
  assert_null(crn_kernels_nth(-1));
  int n = 0;
  for (; crn_kernels_nth(n); n++) assert_ptr_equal(crn_kernels_select(crn_kernels_nth(n)->name), crn_kernels_nth(n));
  assert_ptr_equal(crn_kernels_select(NULL), crn_kernels_nth(n - 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_double), cmocka_unit_test(test_threads_same_bits),
      cmocka_unit_test(test_rows_same_bits), cmocka_unit_test(test_trailing_zeros),
      cmocka_unit_test(test_batched),        cmocka_unit_test(test_empty),
      cmocka_unit_test(test_double_table),   cmocka_unit_test(test_select),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
