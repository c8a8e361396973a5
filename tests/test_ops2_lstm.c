/* SPDX-License-Identifier: Apache-2.0
 *
 * The LSTM pass: values of the collection of small cases (D11), against steps of the single cell, gradients, padding.
 */
#include "ops2_check.h"

#define S(...) ((int64_t[]){__VA_ARGS__})

typedef struct lstm_case {
  const char *order;
  double forget_bias;
  bool reverse, states;
} lstm_case;

/* inputs: z, w_re, lens, h0, c0 (the last three may be missing) */
static int build_pass(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const lstm_case *c = arg;
  out[0] = crn_lstm(r, in[0], in[1], in[2], in[3], in[4], c->order, c->forget_bias, c->reverse, &out[1], &out[2]);
  return 3;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* The formulas, one sequence after the other. */
static void naive_pass(const lstm_case *c, int64_t T, int64_t B, int64_t n, const input *in, double *y, double *h_last,
                       double *c_last) {
  int j = c->order[0] == 'j' ? 0 : 1, i = 1 - j;
  memset(y, 0, (size_t)(T * B * n) * sizeof *y);
  for (int64_t b = 0; b < B; b++) {
    double *h = h_last + b * n, *cell = c_last + b * n, z[256];
    for (int64_t k = 0; k < n; k++) {
      h[k] = in[3].v ? in[3].v[b * n + k] : 0;
      cell[k] = in[4].v ? in[4].v[b * n + k] : 0;
    }
    int64_t len = in[2].v ? (int64_t)in[2].v[b] : T;
    for (int64_t s = 0; s < len; s++) {
      int64_t t = c->reverse ? len - 1 - s : s;
      for (int64_t q = 0; q < 4 * n; q++) {
        z[q] = in[0].v[(t * B + b) * 4 * n + q];
        for (int64_t k = 0; k < n; k++) z[q] += h[k] * in[1].v[k * 4 * n + q];
      }
      for (int64_t k = 0; k < n; k++) {
        cell[k] = cell[k] * sigmoid(z[2 * n + k] + c->forget_bias) + tanh(z[j * n + k]) * sigmoid(z[i * n + k]);
        h[k] = tanh(cell[k]) * sigmoid(z[3 * n + k]);
        y[(t * B + b) * n + k] = h[k];
      }
    }
  }
}

static void check_values(const lstm_case *c, int64_t T, int64_t B, int64_t n, input *in) {
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  size_t size = (size_t)(T * B * n) + 1;
  double *y = calloc(size, 8), *h = calloc((size_t)(B * n) + 1, 8), *cell = calloc((size_t)(B * n) + 1, 8);
  naive_pass(c, T, B, n, in, y, h, cell);
  for (int recorded = 0; recorded < 2; recorded++) {
    result res = evaluate(&b, build_pass, c, 5, in, recorded, 0);
    for (int64_t i = 0; i < T * B * n; i++) expect_close("y", 0, i, res.out[0][i], y[i], 1e-12);
    for (int64_t i = 0; i < B * n; i++) expect_close("h", 0, i, res.out[1][i], h[i], 1e-12);
    for (int64_t i = 0; i < B * n; i++) expect_close("c", 0, i, res.out[2][i], cell[i], 1e-12);
    result_free(&res);
  }
  free(y);
  free(h);
  free(cell);
  run_close(&b);
}

static void test_pass(void **state) {
  (void)state;
  for (int k = 0; k < 16; k++) {
    lstm_case c = {.order = k & 1 ? "ijfo" : "jifo", .forget_bias = k & 1 ? 1 : 0, .reverse = k & 2};
    input in[5] = {real_input(1, 2, true, 3, S(4, 3, 12)), real_input(2, 1, true, 2, S(3, 12))};
    if (k & 4) in[2] = int_input(1, S(3), k & 1 ? (int32_t[]){2, 4, 0} : (int32_t[]){1, 3, 3});
    if (k & 8) {
      in[3] = real_input(3, 1, true, 2, S(3, 3));
      in[4] = real_input(4, 1, true, 2, S(3, 3));
    }
    in[1].param = k & 2;
    check_values(&c, 4, 3, 3, in);
    check_all(build_pass, &c, 5, in);
    inputs_free(5, in);
  }
}

static void test_large_pass(void **state) {
  (void)state;
  lstm_case c = {.order = "jifo", .reverse = true};
  input in[5] = {real_input(1, 2, true, 3, S(60, 9, 4 * 37)), real_input(2, 0.3, true, 2, S(37, 4 * 37)),
                 int_input(1, S(9), (int32_t[]){60, 3, 60, 59, 20, 41, 0, 33, 60})};
  in[1].param = true;
  check_values(&c, 60, 9, 37, in);
  check_float(build_pass, &c, 5, in, 3e-4);
  inputs_free(5, in);
}

static void test_empty_passes(void **state) {
  (void)state;
  lstm_case c = {.order = "jifo"};
  input in[5] = {real_input(1, 2, true, 3, S(2, 2, 12)),
                 real_input(2, 1, true, 2, S(3, 12)),
                 int_input(1, S(2), (int32_t[]){0, 0}),
                 real_input(3, 1, true, 2, S(2, 3)),
                 {0}};
  check_values(&c, 2, 2, 3, in);
  check_all(build_pass, &c, 5, in);
  inputs_free(5, in);
  input none[5] = {real_input(1, 2, true, 3, S(0, 2, 12)), real_input(2, 1, true, 2, S(3, 12))};
  check_all(build_pass, &c, 5, none);
  inputs_free(5, none);
  input nobody[5] = {real_input(1, 2, true, 3, S(3, 0, 12)), real_input(2, 1, true, 2, S(3, 12))};
  check_all(build_pass, &c, 5, nobody);
  inputs_free(5, nobody);
}

/* inputs: w_re, lens, h0, w, bias, x, and perhaps a second x */
static int build_layer(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const lstm_case *c = arg;
  out[0] = crn_lstm_layer(r, in[6] ? 2 : 1, in + 5, in[3], in[4], in[0], in[1], in[2], in[2], c->order, c->forget_bias,
                          c->reverse, &out[1], &out[2]);
  return 3;
}

/* The same as separate operations (second input: the sum of two products). */
static int build_parts(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const lstm_case *c = arg;
  int64_t K = in[5]->shape[2];
  crn_tensor *z = crn_linear(r, in[5], crn_t_rows(r, in[3], 0, K), false, in[4]);
  if (in[6]) z = crn_add(r, z, crn_linear(r, in[6], crn_t_rows(r, in[3], K, in[6]->shape[2]), false, NULL));
  out[0] = crn_lstm(r, z, in[0], in[1], in[2], in[2], c->order, c->forget_bias, c->reverse, &out[1], &out[2]);
  return 3;
}

static void compare_with_parts(const lstm_case *c, input *in, int kinds) {
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result parts = evaluate(&b, build_parts, c, 7, in, true, 0);
  result whole = evaluate(&b, build_layer, c, 7, in, true, 0), eval = evaluate(&b, build_layer, c, 7, in, false, 0);
  compare_results(&whole, &parts, 1e-12);
  compare_results(&eval, &parts, 1e-12);
  for (int i = 0; i < kinds; i++)
    for (int64_t k = 0; in[i].grad && k < count_of(in[i].rank, in[i].shape); k++)
      expect_close("gradient", i, k, whole.grad[i][k], parts.grad[i][k], 1e-11);
  result_free(&parts);
  result_free(&whole);
  result_free(&eval);
  run_close(&b);
}

static void test_layer(void **state) {
  (void)state;
  for (int k = 0; k < 16; k++) {
    lstm_case c = {.order = k & 1 ? "ijfo" : "jifo", .forget_bias = 0.5, .reverse = k & 2};
    input in[7] = {real_input(1, 1, true, 2, S(3, 12)),  {0}, {0}, real_input(2, 1, true, 2, S(k & 4 ? 9 : 5, 12)), {0},
                   real_input(3, 1, true, 3, S(4, 3, 5))};
    if (k & 4) in[6] = real_input(4, 1, true, 3, S(4, 3, 4));
    if (k & 8) {
      in[1] = int_input(1, S(3), (int32_t[]){2, 4, 0});
      in[2] = real_input(5, 1, true, 2, S(3, 3));
    }
    if (k & 1) in[4] = real_input(6, 1, true, 1, S(12));
    in[0].param = in[3].param = k & 2;
    check_all(build_layer, &c, 7, in);
    compare_with_parts(&c, in, 7);
    inputs_free(7, in);
  }
}

static void test_large_layer(void **state) {
  (void)state;
  for (int k = 0; k < 3; k++) {
    lstm_case c = {.order = "jifo", .reverse = k == 1};
    int32_t lens[17];
    for (int i = 0; i < 17; i++) lens[i] = k == 2 ? 90 : 90 - (i * 37) % 90;
    input in[7] = {real_input(1, 0.3, true, 2, S(20, 80)),
                   int_input(1, S(17), lens),
                   {0},
                   real_input(2, 0.3, true, 2, S(33, 80)),
                   real_input(3, 1, true, 1, S(80)),
                   real_input(4, 1, true, 3, S(90, 17, 33))};
    in[0].param = in[3].param = true;
    check_float(build_layer, &c, 7, in, 1e-3);
    compare_with_parts(&c, in, 7);
    inputs_free(7, in);
  }
}

/* Inputs: frames x [T,B,n], kernel [2n, 4n], c0; a chain of single cells. */
static int build_cells(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const lstm_case *c = arg;
  int64_t n = in[2]->shape[1];
  crn_tensor *w = crn_t_rows(r, in[1], 0, n), *w_re = crn_t_rows(r, in[1], n, n), *cell = in[2], *h = in[2];
  for (int64_t t = 0; t < in[0]->shape[0]; t++) {
    crn_tensor *z = crn_linear(r, crn_t_index0(r, in[0], t), w, false, NULL);
    crn_tensor *z_re = crn_linear(r, h, w_re, false, NULL);
    h = crn_lstm_cell(r, crn_layer_norm(r, z, NULL, NULL, 1e-2), cell, c->order, c->forget_bias, &cell);
    h = crn_lstm_cell(r, z_re, cell, c->order, c->forget_bias, &cell);
  }
  out[0] = h;
  out[1] = cell;
  return 2;
}

static void test_single_cells(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    lstm_case c = {.order = k & 1 ? "ijfo" : "jifo", .forget_bias = 0.7};
    input in[3] = {real_input(1, 2, true, 3, S(3, 2, 3)), real_input(2, 1, true, 2, S(6, 12)),
                   real_input(3, 1, true, 2, S(2, 3))};
    in[1].param = true;
    check_all(build_cells, &c, 3, in);
    inputs_free(3, in);
  }
}

/* D11: in [2,4,3] = x(0..23), lengths 4, 2; W [3,8] = p(0..), W_re [2,8] = p(24..), b [8] = p(40..) */
static float p_of(int i) { return (float)((37 * i) % 19 - 9) / 20; }
static float x_of(int i) { return (float)((23 * i) % 17 - 8) / 8; }

static void d11(bool reverse, bool large_padding, int only, float *y) {
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  crn_tensor *w = crn_t_new(r, CRN_F32, 2, S(3, 8)), *w_re = crn_t_new(r, CRN_F32, 2, S(2, 8));
  crn_tensor *bias = crn_t_new(r, CRN_F32, 1, S(8)), *x = crn_t_new(r, CRN_F32, 3, S(4, 2, 3));
  for (int i = 0; i < 24; i++) crn_t_f32(w)[i] = p_of(i);
  for (int i = 0; i < 16; i++) crn_t_f32(w_re)[i] = p_of(24 + i);
  for (int i = 0; i < 8; i++) crn_t_f32(bias)[i] = p_of(40 + i);
  for (int s = 0; s < 2; s++)
    for (int t = 0; t < 4; t++)
      for (int f = 0; f < 3; f++)
        crn_t_f32(x)[(t * 2 + s) * 3 + f] = s == 1 && t >= 2 && large_padding ? 50 : x_of((s * 4 + t) * 3 + f);
  crn_tensor *lens = crn_t_copy_in(r, CRN_I32, 1, S(2), (int32_t[]){4, 2});
  if (only) {
    crn_tensor *alone = crn_t_new(r, CRN_F32, 3, S(4, 1, 3));
    for (int t = 0; t < 4; t++) memcpy(crn_t_f32(alone) + 3 * t, crn_t_f32(x) + (2 * t + 1) * 3, 12);
    x = alone;
    lens = crn_t_copy_in(r, CRN_I32, 1, S(1), (int32_t[]){2});
  }
  crn_tensor *h,
      *out = crn_lstm(r, crn_linear(r, x, w, false, bias), w_re, lens, NULL, NULL, "jifo", 0, reverse, &h, NULL);
  assert_non_null(out);
  memcpy(y, crn_t_f32(out), (size_t)crn_t_size(out) * 4);
  if (reverse && !only) assert_memory_equal(crn_t_f32(h), crn_t_f32(out), 16); /* the last state is that of frame 0 */
  run_close(&b);
}

static void test_d11(void **state) {
  (void)state;
  const float want[2][2][8] = {{{.13027f, -.06215f, .20105f, -.08420f, .23789f, -.09054f, .25492f, -.09016f},
                                {.08167f, -.04669f, .19571f, .11406f}},
                               {{.25363f, -.09629f, .22110f, -.08916f, .17012f, -.07615f, .09652f, -.05064f},
                                {.22614f, .05901f, .17134f, .12326f}}};
  for (int reverse = 0; reverse < 2; reverse++) {
    float y[16], padded[16], alone[8];
    d11(reverse, false, 0, y);
    for (int s = 0; s < 2; s++)
      for (int t = 0; t < 4; t++)
        for (int k = 0; k < 2; k++) assert_true(fabsf(y[(t * 2 + s) * 2 + k] - want[reverse][s][t * 2 + k]) < 1e-5f);
    d11(reverse, true, 0, padded);
    assert_memory_equal(y, padded, sizeof y);
    d11(reverse, false, 1, alone);
    for (int t = 0; t < 4; t++) assert_memory_equal(alone + 2 * t, y + (2 * t + 1) * 2, 8);
  }
}

static void test_wrong_use(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  crn_tensor *z = crn_t_zeros(r, CRN_F32, 3, S(4, 2, 8)), *w = crn_t_zeros(r, CRN_F32, 2, S(2, 8));
  assert_null(crn_lstm(r, z, w, NULL, NULL, NULL, "ifjo", 0, false, NULL, NULL));
  assert_non_null(strstr(crn_err_text(&b.err), "gate order 'ifjo' is unknown"));
  crn_err_clear(&b.err);
  crn_tensor *lens = crn_t_copy_in(r, CRN_I32, 1, S(2), (int32_t[]){4, 5});
  assert_null(crn_lstm(r, z, w, lens, NULL, NULL, "jifo", 0, false, NULL, NULL));
  assert_non_null(strstr(crn_err_text(&b.err), "length 5 of sequence 1 is outside of 0 to 4"));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pass),         cmocka_unit_test(test_large_pass), cmocka_unit_test(test_empty_passes),
      cmocka_unit_test(test_single_cells), cmocka_unit_test(test_d11),        cmocka_unit_test(test_layer),
      cmocka_unit_test(test_large_layer),  cmocka_unit_test(test_wrong_use),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
