/* SPDX-License-Identifier: Apache-2.0
 *
 * CTC against the sum over all frame label sequences, edit distance against recursion, attention energies.
 */
#include "ops2_check.h"

#define S(...) ((int64_t[]){__VA_ARGS__})

typedef struct ctc_case {
  int64_t blank;
  bool loop, viterbi;
} ctc_case;

static int build_ctc(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const ctc_case *c = arg;
  out[0] = crn_ctc(r, in[0], in[1], in[2], in[3], c->blank, c->loop, c->viterbi);
  return 1;
}

static int build_alignment(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const ctc_case *c = arg;
  out[0] = crn_ctc_alignment(r, in[0], in[1], in[2], in[3], c->blank, c->loop, c->viterbi, &out[1]);
  return 2;
}

/* Frame labels reduce to the n labels: repeats merge (with label loop), blanks drop. */
static bool reduces(const int *frames, int64_t T, const double *labels, int64_t n, const ctc_case *c) {
  int64_t k = 0;
  for (int64_t t = 0; t < T; t++) {
    if (frames[t] == c->blank || (c->loop && t > 0 && frames[t] == frames[t - 1])) continue;
    if (k >= n || frames[t] != (int)labels[k]) return false;
    k++;
  }
  return k == n;
}

/* All V^T frame label sequences of sequence b: the sum or the largest product. */
static double enumerate(const input *in, int64_t b, const ctc_case *c) {
  int64_t B = in[0].shape[1], V = in[0].shape[2], T = (int64_t)in[1].v[b], n = (int64_t)in[3].v[b];
  int frames[8] = {0};
  double total = 0;
  for (;;) {
    if (reduces(frames, T, in[2].v + b * in[2].shape[1], n, c)) {
      double s = 0;
      for (int64_t t = 0; t < T; t++) s += in[0].v[(t * B + b) * V + frames[t]];
      total = c->viterbi ? fmax(total, exp(s)) : total + exp(s);
    }
    int64_t t = 0;
    while (t < T && ++frames[t] == V) frames[t++] = 0;
    if (t == T) break;
  }
  return -log(total);
}

static void test_ctc(void **state) {
  (void)state;
  enum { T = 5, B = 6, V = 4, L = 3 };
  for (int k = 0; k < 12; k++) {
    ctc_case c = {.blank = k % 3 == 0 ? 3 : k % 3 == 1 ? 0 : 1, .loop = k & 1, .viterbi = k >= 6};
    int32_t labels[B * L] = {0, 2, 1, 2, 2, 0, 1, 1, 1, 0, 0, 0, 2, 0, 1, 1, 2, 0};
    for (int i = 0; i < B * L; i++)
      if (labels[i] == c.blank) labels[i] = 3;
    input in[4] = {real_input(k, 2, true, 3, S(T, B, V)), int_input(1, S(B), (int32_t[]){5, 5, 4, 3, 0, 5}),
                   int_input(2, S(B, L), labels), int_input(1, S(B), (int32_t[]){3, 2, 3, 0, 0, 1})};
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result res = evaluate(&b, build_ctc, &c, 4, in, true, 0);
    for (int64_t s = 0; s < B; s++) {
      expect_close("ctc", (int)s, k, res.out[0][s], enumerate(in, s, &c), 1e-12);
      /* 1 1 1 in 4 frames needs two blanks: no path, no gradient */
      for (int64_t t = 0; t < T; t++) {
        double sum = 0;
        for (int v = 0; v < V; v++) sum += res.grad[0][(t * B + s) * V + v] / seed_of(0, s);
        expect_close("sum of shares", (int)s, t, sum, (double)t < in[1].v[s] && isfinite(res.out[0][s]) ? -1 : 0,
                     1e-12);
      }
    }
    result align = evaluate(&b, build_alignment, &c, 4, in, false, 0);
    for (int64_t i = 0; i < T * B * V; i++)
      expect_close("alignment", k, i, -align.out[0][i] * seed_of(0, i / V % B), res.grad[0][i], 1e-12);
    result_free(&align);
    result_free(&res);
    run_close(&b);
    check_float(build_ctc, &c, 4, in, 1e-4);
    in[3].v[2] = 2; /* differences need finite values */
    if (c.loop) in[1].v[2] = 5;
    check_differences(build_ctc, &c, 4, in, 2e-6);
    inputs_free(4, in);
  }
}

static void test_ctc_long(void **state) {
  (void)state;
  ctc_case c = {.blank = 30, .loop = true};
  int32_t labels[3 * 60];
  for (int i = 0; i < 180; i++) labels[i] = (i * 7 + i / 9) % 30;
  input in[4] = {real_input(5, 4, true, 3, S(300, 3, 31)), int_input(1, S(3), (int32_t[]){300, 130, 59}),
                 int_input(2, S(3, 60), labels), int_input(1, S(3), (int32_t[]){60, 60, 60})};
  for (int64_t i = 0; i < 100; i++) in[0].v[(17 * i) % (300 * 3 * 31)] = -INFINITY; /* forbidden places */
  check_float(build_ctc, &c, 4, in, 1e-4);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result res = evaluate(&b, build_ctc, &c, 4, in, true, 0);
  assert_true(isfinite(res.out[0][0]) && res.out[0][2] == INFINITY);
  for (int64_t t = 0; t < 300; t++) {
    double sum = 0;
    for (int v = 0; v < 31; v++) sum += res.grad[0][(t * 3) * 31 + v] / seed_of(0, 0);
    expect_close("sum of shares", 0, t, sum, -1, 1e-9);
  }
  result_free(&res);
  run_close(&b);
  inputs_free(4, in);
}

static void test_best_path_ties(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  ctc_case c = {.blank = 1, .loop = true, .viterbi = true};
  input in[4] = {real_input(1, 0, false, 3, S(3, 1, 2)), int_input(1, S(1), (int32_t[]){3}),
                 int_input(2, S(1, 1), (int32_t[]){0}), int_input(1, S(1), (int32_t[]){1})};
  result res = evaluate(&b, build_alignment, &c, 4, in, false, 0);
  /* all scores are equal: ends in the label, entered as late as possible (steps from the lower state come first) */
  const double want[6] = {0, 1, 0, 1, 1, 0};
  for (int i = 0; i < 6; i++) assert_true(res.out[0][i] == want[i]);
  result_free(&res);
  inputs_free(4, in);
  run_close(&b);
}

static void test_ctc_wrong_use(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  crn_tensor *x = crn_t_zeros(r, CRN_F32, 3, S(4, 1, 3)), *four = crn_t_copy_in(r, CRN_I32, 1, S(1), (int32_t[]){4});
  crn_tensor *two = crn_t_copy_in(r, CRN_I32, 1, S(1), (int32_t[]){2});
  crn_tensor *labels = crn_t_copy_in(r, CRN_I32, 2, S(1, 2), (int32_t[]){0, 3});
  assert_null(crn_ctc(r, x, four, labels, two, 2, true, false));
  assert_non_null(strstr(crn_err_text(&b.err), "label 1 of sequence 0 is 3, possible are 0 to 2"));
  crn_err_clear(&b.err);
  assert_null(crn_ctc(r, x, four, labels, four, 2, true, false));
  assert_non_null(strstr(crn_err_text(&b.err), "sequence 0 has 4 labels, possible are 0 to 2"));
  crn_err_clear(&b.err);
  assert_null(crn_ctc(r, x, four, labels, two, 3, true, false));
  assert_non_null(strstr(crn_err_text(&b.err), "blank index 3"));
  run_close(&b);
}

static int recursive_distance(const int32_t *a, int na, const int32_t *b, int nb) {
  if (na == 0 || nb == 0) return na + nb;
  int change = recursive_distance(a + 1, na - 1, b + 1, nb - 1) + (a[0] != b[0]);
  int drop = recursive_distance(a + 1, na - 1, b, nb) + 1, insert = recursive_distance(a, na, b + 1, nb - 1) + 1;
  int best = change < drop ? change : drop;
  return best < insert ? best : insert;
}

static void test_edit_distance(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  enum { B = 40, TA = 6, TB = 7 };
  int32_t a[B * TA], c[B * TB], a_lens[B], c_lens[B];
  for (int i = 0; i < B * TA; i++) a[i] = (int32_t)(3 * (pseudo(i) + 1) / 2);
  for (int i = 0; i < B * TB; i++) c[i] = (int32_t)(3 * (pseudo(1000 + i) + 1) / 2);
  for (int i = 0; i < B; i++) {
    a_lens[i] = i % (TA + 1);
    c_lens[i] = (i * 5) % (TB + 1);
  }
  crn_tensor *at = crn_t_copy_in(r, CRN_I32, 2, S(B, TA), a), *al = crn_t_copy_in(r, CRN_I32, 1, S(B), a_lens);
  crn_tensor *ct = crn_t_new(r, CRN_I64, 2, S(B, TB)), *cl = crn_t_copy_in(r, CRN_I32, 1, S(B), c_lens);
  for (int i = 0; i < B * TB; i++) crn_t_i64(ct)[i] = c[i];
  crn_tensor *d = crn_edit_distance(r, at, al, ct, cl);
  assert_non_null(d);
  for (int i = 0; i < B; i++)
    assert_int_equal(crn_t_i32(d)[i], recursive_distance(a + i * TA, a_lens[i], c + i * TB, c_lens[i]));
  crn_t_i32(al)[1] = TA + 1;
  assert_null(crn_edit_distance(r, at, al, ct, cl));
  assert_non_null(strstr(crn_err_text(&b.err), "length 7 of sequence 1"));
  run_close(&b);
}

static int build_energy(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  out[0] = crn_additive_energy(r, in[0], in[1], in[2]);
  return 1;
}

/* arg: extra is time-major */
static int build_energy_with(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_additive_energy_with(r, in[0], in[3], *(const bool *)arg, in[1], in[2]);
  return 1;
}

/* ctx repeated over the beam, plus extra, as a context of its own */
static int build_energy_sum(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const int by_batch[3] = {1, 0, 2};
  const int32_t rows[6] = {0, 0, 0, 1, 1, 1};
  crn_tensor *extra = *(const bool *)arg ? crn_transpose(r, in[3], by_batch) : in[3];
  crn_tensor *ctx = crn_gather(r, in[0], crn_t_copy_in(r, CRN_I32, 1, S(6), rows), 0);
  out[0] = crn_additive_energy(r, crn_add(r, ctx, extra), in[1], in[2]);
  return 1;
}

static void test_additive_energy_with_extra(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    const bool time_major = k & 1;
    const int64_t T = k & 2 ? 1 : 7;
    input in[4] = {real_input(1, 1, true, 3, S(2, 7, 5)), real_input(2, 1, true, 2, S(6, 5)),
                   real_input(3, 1, true, 1, S(5)),
                   time_major ? real_input(4, 1, true, 3, S(T, 6, 5)) : real_input(4, 1, true, 3, S(6, T, 5))};
    check_all(build_energy_with, &time_major, 4, in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result got = evaluate(&b, build_energy_with, &time_major, 4, in, true, 0);
    result want = evaluate(&b, build_energy_sum, &time_major, 4, in, true, 0);
    compare_results(&got, &want, 1e-12);
    for (int i = 0; i < 4; i++)
      for (int64_t j = 0; j < count_of(in[i].rank, in[i].shape); j++)
        expect_close("gradient", i, j, got.grad[i][j], want.grad[i][j], 1e-12);
    result_free(&got);
    result_free(&want);
    run_close(&b);
    inputs_free(4, in);
  }
}

static void test_additive_energy(void **state) {
  (void)state;
  for (int64_t beam = 1; beam <= 3; beam += 2) {
    input in[3] = {real_input(1, 1, true, 3, S(2, 4, 5)), real_input(2, 1, true, 2, S(2 * beam, 5)),
                   real_input(3, 1, true, 1, S(5))};
    check_all(build_energy, NULL, 3, in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result res = evaluate(&b, build_energy, NULL, 3, in, false, 0);
    for (int64_t q = 0; q < 2 * beam; q++)
      for (int64_t t = 0; t < 4; t++) {
        double e = 0;
        for (int64_t k = 0; k < 5; k++)
          e += in[2].v[k] * tanh(in[0].v[(q / beam * 4 + t) * 5 + k] + in[1].v[q * 5 + k]);
        expect_close("e", (int)q, t, res.out[0][q * 4 + t], e, 1e-12);
      }
    result_free(&res);
    run_close(&b);
    inputs_free(3, in);
  }
  input large[3] = {real_input(1, 1, true, 3, S(5, 70, 130)), real_input(2, 1, true, 2, S(5, 130)),
                    real_input(3, 1, true, 1, S(130))};
  check_float(build_energy, NULL, 3, large, 3e-4);
  inputs_free(3, large);
  input empty[3] = {real_input(1, 1, true, 3, S(0, 4, 5)), real_input(2, 1, true, 2, S(0, 5)),
                    real_input(3, 1, true, 1, S(5))};
  check_all(build_energy, NULL, 3, empty);
  inputs_free(3, empty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ctc),
      cmocka_unit_test(test_ctc_long),
      cmocka_unit_test(test_best_path_ties),
      cmocka_unit_test(test_ctc_wrong_use),
      cmocka_unit_test(test_edit_distance),
      cmocka_unit_test(test_additive_energy),
      cmocka_unit_test(test_additive_energy_with_extra),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
