/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM cell and additive attention: the double reference against the equations and against differences, every float
 * table against the double reference, threads bit for bit.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel.h"

#define CELLS 5 /* rows */
#define LD4 160
#define LD1 41

typedef struct both { /* the same values as float and double */
  float f[64000];
  double d[64000];
} both;

static void fill(both *b, uint32_t seed, float size) {
  for (int i = 0; i < 64000; i++) {
    seed = seed * 1664525u + 1013904223u;
    b->f[i] = size * ((float)(seed >> 8) * 0x1p-23f - 1.0f);
    b->d[i] = (double)b->f[i];
  }
}

static void assert_near(const both *b, double tolerance) {
  for (int i = 0; i < 64000; i++) {
    double f = (double)b->f[i], d = b->d[i];
    if (!(fabs(f - d) <= tolerance * (1 + fabs(d)))) fail_msg("at %d: %.9g, expected %.9g", i, f, d);
  }
}

static both z, c_prev, gates, c, h, dh, dc, dz, dc_prev;

static void fill_lstm(void) {
  both *all[] = {&z, &c_prev, &gates, &c, &h, &dh, &dc, &dz, &dc_prev};
  for (int i = 0; i < 9; i++) fill(all[i], (uint32_t)i + 1, i == 0 ? 3 : 1);
}

static crn_lstm_args lstm_f(int64_t n, crn_lstm_layout layout, bool state) {
  crn_lstm_args a = {.rows = CELLS, .n = n, .layout = layout, .forget_bias = 0.5f};
  a.z = z.f, a.ldz = LD4;
  a.c_prev = state ? c_prev.f : NULL, a.ldc_prev = LD1;
  a.gates = gates.f, a.ldgates = LD4;
  a.c = c.f, a.ldc = LD1;
  a.h = h.f, a.ldh = LD1;
  a.dh = dh.f, a.lddh = LD1;
  a.dc = state ? dc.f : NULL, a.lddc = LD1;
  a.dz = dz.f, a.lddz = LD4;
  a.dc_prev = dc_prev.f, a.lddc_prev = LD1;
  return a;
}

static crn_lstm_args_f64 lstm_d(int64_t n, crn_lstm_layout layout, bool state) {
  crn_lstm_args_f64 a = {.rows = CELLS, .n = n, .layout = layout, .forget_bias = 0.5};
  a.z = z.d, a.ldz = LD4;
  a.c_prev = state ? c_prev.d : NULL, a.ldc_prev = LD1;
  a.gates = gates.d, a.ldgates = LD4;
  a.c = c.d, a.ldc = LD1;
  a.h = h.d, a.ldh = LD1;
  a.dh = dh.d, a.lddh = LD1;
  a.dc = state ? dc.d : NULL, a.lddc = LD1;
  a.dz = dz.d, a.lddz = LD4;
  a.dc_prev = dc_prev.d, a.lddc_prev = LD1;
  return a;
}

static void test_lstm_equations(void **state) {
  (void)state;
  fill_lstm();
  crn_lstm_args_f64 a = lstm_d(7, CRN_LSTM_IJFO, true);
  crn_kernels_double()->lstm_forward(&a);
  for (int r = 0; r < CELLS; r++)
    for (int k = 0; k < 7; k++) {
      const double *p = z.d + r * LD4 + k;
      double i = 1 / (1 + exp(-p[0])), j = tanh(p[7]), f = 1 / (1 + exp(-p[14] - 0.5)), o = 1 / (1 + exp(-p[21]));
      double cell = c_prev.d[r * LD1 + k] * f + i * j;
      assert_true(fabs(c.d[r * LD1 + k] - cell) < 1e-14);
      assert_true(fabs(h.d[r * LD1 + k] - tanh(cell) * o) < 1e-14);
    }
}

/* Σ dh·h + dc·c */
static double lstm_objective(crn_lstm_args_f64 a) {
  static double g[CELLS * LD4], cell[CELLS * LD1], out[CELLS * LD1];
  a.gates = g, a.c = cell, a.h = out;
  crn_kernels_double()->lstm_forward(&a);
  double s = 0;
  for (int r = 0; r < CELLS; r++)
    for (int k = 0; k < a.n; k++) s += out[r * LD1 + k] * dh.d[r * LD1 + k] + cell[r * LD1 + k] * dc.d[r * LD1 + k];
  return s;
}

static double difference(crn_lstm_args_f64 a, double *place) {
  double old = *place, step = 1e-5;
  *place = old + step;
  double up = lstm_objective(a);
  *place = old - step;
  double down = lstm_objective(a);
  *place = old;
  return (up - down) / (2 * step);
}

static void test_lstm_gradient(void **state) {
  (void)state;
  fill_lstm();
  crn_lstm_args_f64 a = lstm_d(7, CRN_LSTM_JIFO, true);
  crn_kernels_double()->lstm_forward(&a);
  crn_kernels_double()->lstm_backward(&a);
  for (int r = 0; r < CELLS; r++) {
    for (int k = 0; k < 28; k++) assert_true(fabs(difference(a, &z.d[r * LD4 + k]) - dz.d[r * LD4 + k]) < 1e-9);
    for (int k = 0; k < 7; k++)
      assert_true(fabs(difference(a, &c_prev.d[r * LD1 + k]) - dc_prev.d[r * LD1 + k]) < 1e-9);
  }
}

static void test_lstm_tables(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 7, 8, 16, 33, 40};
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int s = 0; s < 6; s++)
      for (int flags = 0; flags < 4; flags++) {
        crn_lstm_layout layout = flags & 1 ? CRN_LSTM_IJFO : CRN_LSTM_JIFO;
        fill_lstm();
        crn_lstm_args a = lstm_f(sizes[s], layout, flags & 2);
        crn_lstm_args_f64 b = lstm_d(sizes[s], layout, flags & 2);
        crn_kernels_nth(v)->lstm_forward(&a);
        crn_kernels_double()->lstm_forward(&b);
        assert_near(&gates, 1e-6);
        assert_near(&c, 1e-6);
        assert_near(&h, 1e-6);
        crn_kernels_nth(v)->lstm_backward(&a);
        crn_kernels_double()->lstm_backward(&b);
        assert_near(&dz, 2e-6);
        assert_near(&dc_prev, 2e-6);
        /* gates over z, dz over gates, dc_prev over dc: the same bits */
        static float gates_before[64000], dz_before[64000], dc_before[64000];
        memcpy(dz_before, dz.f, sizeof dz_before);
        memcpy(dc_before, dc_prev.f, sizeof dc_before);
        memcpy(gates_before, gates.f, sizeof gates_before);
        a.gates = z.f;
        crn_kernels_nth(v)->lstm_forward(&a);
        a.dz = a.gates;
        if (a.dc) a.dc_prev = dc.f;
        for (int r = 0; r < CELLS; r++)
          assert_memory_equal(z.f + r * LD4, gates_before + r * LD4, sizeof(float) * 4 * (size_t)sizes[s]);
        crn_kernels_nth(v)->lstm_backward(&a);
        for (int r = 0; r < CELLS; r++) {
          assert_memory_equal(z.f + r * LD4, dz_before + r * LD4, sizeof(float) * 4 * (size_t)sizes[s]);
          assert_memory_equal(a.dc_prev + r * LD1, dc_before + r * LD1, sizeof(float) * (size_t)sizes[s]);
        }
      }
}

enum { B = 3, BEAM = 2, T = 70, LDK = 150 };
static both ctx, q, extra, v_vec, e, de, dctx, dq, dextra, dv;
static float work[B * BEAM * (LDK + 1)];

static void fill_attention(void) {
  both *all[] = {&ctx, &q, &extra, &v_vec, &e, &de, &dctx, &dq, &dextra, &dv};
  for (int i = 0; i < 10; i++) fill(all[i], (uint32_t)i + 21, 1);
}

static crn_attention_args attention_f(int64_t K, bool time_major, bool with_extra, const int32_t *lengths) {
  crn_attention_args a = {
      .B = B, .beam = BEAM, .T = T, .K = K, .lengths = lengths, .ctx = ctx.f, .q = q.f, .v = v_vec.f};
  a.ctx_stride_b = time_major ? LDK : T * LDK;
  a.ctx_stride_t = time_major ? B * LDK : LDK;
  a.ldq = LDK;
  a.extra = with_extra ? extra.f : NULL;
  a.extra_stride_b = T * LDK, a.extra_stride_t = LDK;
  a.e = e.f;
  a.e_stride_r = time_major ? 1 : T, a.e_stride_t = time_major ? B * BEAM : 1;
  a.de = de.f, a.dctx = dctx.f, a.dq = dq.f, a.dv = dv.f;
  a.dextra = with_extra ? dextra.f : NULL;
  return a;
}

static crn_attention_args_f64 attention_d(int64_t K, bool time_major, bool with_extra, const int32_t *lengths) {
  crn_attention_args_f64 a = {
      .B = B, .beam = BEAM, .T = T, .K = K, .lengths = lengths, .ctx = ctx.d, .q = q.d, .v = v_vec.d};
  a.ctx_stride_b = time_major ? LDK : T * LDK;
  a.ctx_stride_t = time_major ? B * LDK : LDK;
  a.ldq = LDK;
  a.extra = with_extra ? extra.d : NULL;
  a.extra_stride_b = T * LDK, a.extra_stride_t = LDK;
  a.e = e.d;
  a.e_stride_r = time_major ? 1 : T, a.e_stride_t = time_major ? B * BEAM : 1;
  a.de = de.d, a.dctx = dctx.d, a.dq = dq.d, a.dv = dv.d;
  a.dextra = with_extra ? dextra.d : NULL;
  return a;
}

static const int32_t lengths[B] = {T, 13, 0};

static void test_attention_equation(void **state) {
  (void)state;
  fill_attention();
  crn_attention_args_f64 a = attention_d(7, false, true, lengths);
  crn_kernels_double()->attention_forward(&a, NULL);
  for (int r = 0; r < B * BEAM; r++)
    for (int t = 0; t < lengths[r / BEAM]; t++) {
      double s = 0;
      for (int k = 0; k < 7; k++)
        s += v_vec.d[k] *
             tanh(ctx.d[(r / BEAM) * T * LDK + t * LDK + k] + q.d[r * LDK + k] + extra.d[(r * T + t) * LDK + k]);
      assert_true(fabs(s - e.d[r * T + t]) < 1e-13);
    }
  assert_true(e.d[2 * BEAM * T] == (double)e.f[2 * BEAM * T]); /* untouched: length 0 */
}

/* Σ de·e over the valid frames, e stored batch-major */
static double attention_objective(crn_attention_args_f64 a) {
  static double energies[B * BEAM * T];
  a.e = energies;
  crn_kernels_double()->attention_forward(&a, NULL);
  double s = 0;
  for (int r = 0; r < B * BEAM; r++)
    for (int t = 0; t < lengths[r / BEAM]; t++) s += energies[r * T + t] * de.d[r * T + t];
  return s;
}

static void check_differences(crn_attention_args_f64 a, double *x, const double *gradient, int n) {
  for (int i = 0; i < n; i += 37) {
    double old = x[i], step = 1e-5;
    x[i] = old + step;
    double up = attention_objective(a);
    x[i] = old - step;
    double down = attention_objective(a);
    x[i] = old;
    assert_true(fabs((up - down) / (2 * step) - gradient[i]) < 1e-8);
  }
}

static void test_attention_gradient(void **state) {
  (void)state;
  fill_attention();
  memset(dctx.d, 0, sizeof dctx.d);
  memset(dq.d, 0, sizeof dq.d);
  memset(dextra.d, 0, sizeof dextra.d);
  memset(dv.d, 0, sizeof dv.d);
  crn_attention_args_f64 a = attention_d(LDK, false, true, lengths);
  crn_kernels_double()->attention_backward(&a, NULL);
  check_differences(a, ctx.d, dctx.d, B * T * LDK);
  check_differences(a, extra.d, dextra.d, B * BEAM * T * LDK);
  check_differences(a, q.d, dq.d, B * BEAM * LDK);
  for (int i = 0; i < LDK; i++) check_differences(a, v_vec.d + i, dv.d + i, 1);
}

static void test_attention_tables(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 7, 16, 33, 100, 150};
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int s = 0; s < 6; s++)
      for (int flags = 0; flags < 16; flags++) {
        fill_attention();
        crn_attention_args a = attention_f(sizes[s], flags & 1, flags & 2, flags & 4 ? lengths : NULL);
        a.work = flags & 8 ? work : NULL;
        crn_attention_args_f64 b = attention_d(sizes[s], flags & 1, flags & 2, flags & 4 ? lengths : NULL);
        crn_kernels_nth(v)->attention_forward(&a, NULL);
        crn_kernels_double()->attention_forward(&b, NULL);
        assert_near(&e, 4e-6);
        crn_kernels_nth(v)->attention_backward(&a, NULL);
        crn_kernels_double()->attention_backward(&b, NULL);
        assert_near(&dctx, 4e-6);
        assert_near(&dextra, 4e-6);
        assert_near(&dq, 4e-6);
        assert_near(&dv, 4e-6);
      }
}

/* One sequence, numbers of every size: frame t of ctx and row r of q are multiplied by one of these. */
enum { ROWS = 19, FRAMES = 27 };
static const float scales[] = {1, 1e-4f, 0.06f, 19, 60, 3e4f, 0};

static void fill_scaled(float *x, int rows, uint32_t seed, int step) {
  static both numbers;
  fill(&numbers, seed, 1);
  for (int i = 0; i < rows * LDK; i++) x[i] = numbers.f[i] * scales[i / LDK * step % 7];
}

static void run_rows(const crn_kernels *k, const float *frames, const float *rows, int n_frames, int n_rows,
                     float *out) {
  static float room[ROWS * (LDK + 1)];
  crn_attention_args a = {
      .B = 1, .beam = n_rows, .T = n_frames, .K = LDK, .ctx = frames, .ctx_stride_t = LDK, .q = rows, .ldq = LDK};
  a.v = v_vec.f;
  a.e = out;
  a.e_stride_r = n_frames;
  a.e_stride_t = 1;
  a.work = room;
  k->attention_forward(&a, NULL);
}

static void check_energy(const float *frame, const float *row, float found) {
  double exact = 0, size = 0;
  for (int k = 0; k < LDK; k++) {
    const double y = tanh((double)(frame[k] + row[k]));
    exact += (double)v_vec.f[k] * y;
    size += fabs((double)v_vec.f[k] * y);
  }
  if (!(fabs((double)found - exact) <= 2e-6 * size)) fail_msg("%.9g, expected %.9g", (double)found, exact);
}

/* With work: right for numbers of every size, and the same bits in any company. */
static void test_attention_sizes(void **state) {
  (void)state;
  static float frames[FRAMES * LDK], rows[ROWS * LDK], all[ROWS * FRAMES], one;
  fill_attention();
  fill_scaled(frames, FRAMES, 3, 1);
  fill_scaled(rows, ROWS, 4, 2);
  for (int v = 0; crn_kernels_nth(v); v++) {
    run_rows(crn_kernels_nth(v), frames, rows, FRAMES, ROWS, all);
    for (int r = 0; r < ROWS; r++)
      for (int t = 0; t < FRAMES; t++) {
        check_energy(frames + t * LDK, rows + r * LDK, all[r * FRAMES + t]);
        run_rows(crn_kernels_nth(v), frames + t * LDK, rows + r * LDK, 1, 1, &one);
        assert_memory_equal(&one, &all[r * FRAMES + t], sizeof one);
      }
  }
}

static void test_attention_threads(void **state) {
  (void)state;
  static both first_e, first_dctx, first_dq, first_dv;
  for (int v = 0; crn_kernels_nth(v); v++)
    for (int n = 1; n <= 3; n++) {
      crn_threads *t = NULL;
      assert_int_equal(crn_threads_new(n, &t, NULL), CRN_OK);
      fill_attention();
      crn_attention_args a = attention_f(LDK, false, false, lengths);
      a.work = work;
      crn_kernels_nth(v)->attention_forward(&a, t);
      crn_kernels_nth(v)->attention_backward(&a, t);
      if (n == 1) first_e = e, first_dctx = dctx, first_dq = dq, first_dv = dv;
      assert_memory_equal(e.f, first_e.f, sizeof e.f);
      assert_memory_equal(dctx.f, first_dctx.f, sizeof dctx.f);
      assert_memory_equal(dq.f, first_dq.f, sizeof dq.f);
      assert_memory_equal(dv.f, first_dv.f, sizeof dv.f);
      crn_threads_free(t);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lstm_equations),     cmocka_unit_test(test_lstm_gradient),
      cmocka_unit_test(test_lstm_tables),        cmocka_unit_test(test_attention_equation),
      cmocka_unit_test(test_attention_gradient), cmocka_unit_test(test_attention_tables),
      cmocka_unit_test(test_attention_sizes),    cmocka_unit_test(test_attention_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
