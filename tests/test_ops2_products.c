/* SPDX-License-Identifier: Apache-2.0
 *
 * crn_linear and crn_matmul: values against naive loops, gradients, shared weights, broadcasting, batch independence.
 */
#include "ops2_check.h"

#define S(...) ((int64_t[]){__VA_ARGS__})

static int build_linear(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_linear(r, in[0], in[1], *(const bool *)arg, in[2]);
  return 1;
}

static void test_linear(void **state) {
  (void)state;
  for (int trans = 0; trans < 2; trans++)
    for (int param = 0; param < 2; param++)
      for (int with_bias = 0; with_bias < 2; with_bias++) {
        bool t = trans;
        input in[3] = {
            real_input(1, 1, true, 3, S(2, 3, 5)), real_input(2, 1, true, 2, trans ? S(4, 5) : S(5, 4)), {0}};
        if (with_bias) in[2] = real_input(3, 1, true, 1, S(4));
        in[1].param = param;
        check_all(build_linear, &t, 3, in);
        bench_run b;
        run_open(&b, CRN_F64, NULL, 1);
        result res = evaluate(&b, build_linear, &t, 3, in, false, 0);
        for (int i = 0; i < 6; i++)
          for (int j = 0; j < 4; j++) {
            double s = with_bias ? in[2].v[j] : 0;
            for (int k = 0; k < 5; k++) s += in[0].v[i * 5 + k] * in[1].v[trans ? j * 5 + k : k * 4 + j];
            expect_close("y", i, j, res.out[0][i * 4 + j], s, 1e-12);
          }
        result_free(&res);
        run_close(&b);
        inputs_free(3, in);
      }
}

/* The weight is used in a chain of steps and through two views of its rows. */
static int build_shared(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  crn_tensor *top = crn_t_rows(r, in[1], 0, 4), *low = crn_t_rows(r, in[1], 4, 4), *h = crn_t_index0(r, in[0], 0);
  for (int i = 0; i < 5; i++) {
    h = crn_linear(r, h, top, i % 2 == 1, NULL);
    h = crn_softmax(r, crn_linear(r, h, low, false, NULL));
  }
  crn_tensor *all = crn_linear(r, in[0], top, false, NULL);
  out[0] = crn_matmul(r, h, false, crn_t_index0(r, all, 1), true);
  return 1;
}

static void test_shared_weight(void **state) {
  (void)state;
  input in[2] = {real_input(1, 1, true, 3, S(2, 3, 4)), real_input(2, 1, true, 2, S(8, 4))};
  in[1].param = true;
  check_all(build_shared, NULL, 2, in);
  inputs_free(2, in);
}

/* Many steps of unequal rows: waiting rows cross the pieces in which they are multiplied. */
static int build_steps(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  int64_t at = 0, N = in[0]->shape[0];
  crn_tensor *h = NULL;
  for (int64_t k = 0; at < N; k++) {
    int64_t n = 1 + (k * 37) % 200;
    if (n > N - at) n = N - at;
    crn_tensor *y = crn_linear(r, crn_t_rows(r, in[0], at, n), in[1], false, in[2]);
    y = crn_matmul(r, crn_t_rows(r, y, 0, 1), false, in[1], true);
    h = h ? crn_matmul(r, h, false, crn_matmul(r, y, true, y, false), false) : y;
    at += n;
    if (*(const int *)arg == 0) break;
  }
  out[0] = h;
  out[1] = crn_linear(r, in[0], in[1], false, in[2]);
  return 2;
}

static void test_many_rows(void **state) {
  (void)state;
  int all = 1;
  input in[3] = {real_input(1, 0.5, true, 2, S(5001, 3)), real_input(2, 1, true, 2, S(3, 2)),
                 real_input(3, 1, true, 1, S(2))};
  in[1].param = true;
  check_float(build_steps, &all, 3, in, 1e-3);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result res = evaluate(&b, build_steps, &(int){0}, 3, in, true, 0);
  in[1].param = false; /* not put off */
  result plain = evaluate(&b, build_steps, &(int){0}, 3, in, true, 0);
  for (int i = 0; i < 6; i++) expect_close("d_w", 1, i, res.grad[1][i], plain.grad[1][i], 1e-11);
  result_free(&res);
  result_free(&plain);
  run_close(&b);
  inputs_free(3, in);
}

static void test_packed_forms_follow_the_values(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  float w[4] = {1, 2, 3, 4}, x[2] = {1, 1};
  crn_storage st = {.data = w, .bytes = sizeof w, .is_param = true, .borrowed = true};
  crn_tensor *wt = crn_t_over(&b.r, &st, CRN_F32, 2, S(2, 2), false);
  crn_tensor *xt = crn_t_copy_in(&b.r, CRN_F32, 2, S(1, 2), x);
  assert_true(crn_t_f32(crn_linear(&b.r, xt, wt, false, NULL))[0] == 4);
  w[0] = 10;
  crn_weight_changed(&st);
  assert_true(crn_t_f32(crn_linear(&b.r, xt, wt, false, NULL))[0] == 13);
  assert_true(crn_t_f32(crn_linear(&b.r, xt, wt, true, NULL))[0] == 12);
  crn_weight_free(&st);
  assert_null(st.weight);
  run_close(&b);
}

typedef struct mm_case {
  bool ta, tb;
} mm_case;

static int build_matmul(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const mm_case *c = arg;
  out[0] = crn_matmul(r, in[0], c->ta, in[1], c->tb);
  return 1;
}

static void check_matmul(mm_case c, int lead_a, const int64_t *la, int lead_b, const int64_t *lb, int lead,
                         const int64_t *lc) {
  enum { M = 3, K = 4, N = 2 };
  int64_t sa[6], sb[6];
  for (int i = 0; i < lead_a; i++) sa[i] = la[i];
  for (int i = 0; i < lead_b; i++) sb[i] = lb[i];
  sa[lead_a] = c.ta ? K : M;
  sa[lead_a + 1] = c.ta ? M : K;
  sb[lead_b] = c.tb ? N : K;
  sb[lead_b + 1] = c.tb ? K : N;
  input in[2] = {real_input(1, 1, true, lead_a + 2, sa), real_input(2, 1, true, lead_b + 2, sb)};
  check_all(build_matmul, &c, 2, in);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result res = evaluate(&b, build_matmul, &c, 2, in, false, 0);
  int64_t n = count_of(lead, lc);
  assert_int_equal(res.out_size[0], n * M * N);
  for (int64_t q = 0; q < n; q++) {
    int64_t ia = 0, ib = 0, left = q, step_a = M * K, step_b = K * N;
    for (int i = lead - 1; i >= 0; i--) {
      int64_t at = left % lc[i];
      left /= lc[i];
      int da = i - (lead - lead_a), db = i - (lead - lead_b);
      if (da >= 0) {
        ia += la[da] == 1 ? 0 : at * step_a;
        step_a *= la[da];
      }
      if (db >= 0) {
        ib += lb[db] == 1 ? 0 : at * step_b;
        step_b *= lb[db];
      }
    }
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        double s = 0;
        for (int k = 0; k < K; k++)
          s += in[0].v[ia + (c.ta ? k * M + i : i * K + k)] * in[1].v[ib + (c.tb ? j * K + k : k * N + j)];
        expect_close("c", (int)q, i * N + j, res.out[0][(q * M + i) * N + j], s, 1e-12);
      }
  }
  result_free(&res);
  run_close(&b);
  inputs_free(2, in);
}

static void test_matmul(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    mm_case c = {.ta = k & 1, .tb = k & 2};
    check_matmul(c, 0, NULL, 0, NULL, 0, NULL);
    check_matmul(c, 1, S(3), 1, S(3), 1, S(3));
    check_matmul(c, 1, S(3), 0, NULL, 1, S(3));
    check_matmul(c, 0, NULL, 2, S(2, 3), 2, S(2, 3));
    check_matmul(c, 2, S(2, 3), 2, S(2, 1), 2, S(2, 3));
    check_matmul(c, 3, S(2, 1, 2), 3, S(1, 3, 2), 3, S(2, 3, 2));
    check_matmul(c, 4, S(2, 1, 2, 1), 3, S(3, 1, 2), 4, S(2, 3, 2, 2));
    check_matmul(c, 1, S(0), 1, S(1), 1, S(0));
  }
}

static void test_rows_do_not_depend_on_the_batch(void **state) {
  (void)state;
  for (int table = 0; crn_kernels_nth(table); table++) {
    bench_run b;
    run_open(&b, CRN_F32, crn_kernels_nth(table)->name, 1);
    input x = real_input(1, 1, false, 2, S(67, 300)), w = real_input(2, 1, false, 2, S(300, 45));
    crn_storage st = {0};
    w.param = true;
    crn_tensor *xt = make_input(&b.r, &x, NULL), *wt = make_input(&b.r, &w, &st);
    crn_tensor *all = crn_linear(&b.r, xt, wt, false, NULL);
    for (int i = 0; i < 67; i++) {
      crn_tensor *one = crn_linear(&b.r, crn_t_rows(&b.r, xt, i, 1), wt, false, NULL);
      assert_memory_equal(crn_t_data(one), crn_t_f32(all) + 45 * i, 45 * sizeof(float));
    }
    crn_weight_free(&st);
    crn_free(st.data);
    free(x.v);
    free(w.v);
    run_close(&b);
  }
}

static void test_wrong_shapes_are_named(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_tensor *x = crn_t_zeros(&b.r, CRN_F32, 2, S(2, 3)), *w = crn_t_zeros(&b.r, CRN_F32, 2, S(4, 5));
  assert_null(crn_linear(&b.r, x, w, false, NULL));
  assert_non_null(strstr(crn_err_text(&b.err), "linear: last axis of x [2, 3] float32 is not the input size 4"));
  assert_null(crn_matmul(&b.r, x, false, w, false));
  crn_err_clear(&b.err);
  assert_null(crn_matmul(&b.r, x, false, w, false));
  assert_non_null(strstr(crn_err_text(&b.err), "inner sizes differ: [2, 3] float32 times [4, 5] float32"));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_linear),
      cmocka_unit_test(test_shared_weight),
      cmocka_unit_test(test_many_rows),
      cmocka_unit_test(test_packed_forms_follow_the_values),
      cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_rows_do_not_depend_on_the_batch),
      cmocka_unit_test(test_wrong_shapes_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
