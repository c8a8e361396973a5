/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of two elements and choosing by a mask: values against a naive loop over indices, gradients against
 * differences, over all ways of broadcasting; integers, dtype and shape errors.
 */
#include "ops2_check.h"

#define assert_near(got, want, tol) assert_true(fabs((double)(got) - (double)(want)) <= (tol))

typedef struct shapes {
  int rank_a, rank_b;
  int64_t a[4], b[4];
} shapes;

static const shapes pairs[] = {
    {2, 2, {3, 5}, {3, 5}},
    {2, 1, {3, 5}, {5}},
    {2, 2, {3, 5}, {3, 1}},
    {2, 0, {3, 5}, {0}},
    {0, 2, {0}, {3, 5}},
    {1, 2, {5}, {3, 5}},
    {3, 3, {2, 1, 3}, {1, 4, 3}},
    {3, 3, {2, 3, 1}, {2, 1, 4}},
    {4, 4, {2, 1, 3, 1}, {1, 2, 1, 3}},
    {3, 2, {2, 3, 4}, {3, 1}},
    {2, 2, {0, 5}, {1, 5}},
    {2, 2, {4, 0}, {4, 1}},
    {0, 0, {0}, {0}},
    {3, 3, {1, 1, 1}, {1, 1, 1}},
    {3, 1, {2, 3, 1}, {1}},
};
enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };

static int build(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_binary(r, *(const crn_binary_kind *)arg, in[0], in[1]);
  return 1;
}

static void shift(input *in, double by) {
  for (int64_t i = 0; i < count_of(in->rank, in->shape); i++) in->v[i] += by;
}

/* Inputs where the function is smooth: both positive, apart from each other by enough. */
static void make_pair(crn_binary_kind kind, const shapes *s, input *in) {
  in[0] = real_input(11, 1, true, s->rank_a, s->a);
  in[1] = real_input(23, 0.4, true, s->rank_b, s->b);
  if (kind == CRN_B_POW) shift(&in[0], 1.5);
  if (kind == CRN_B_DIV || kind == CRN_B_MOD || kind == CRN_B_DIV_NO_NAN || kind == CRN_B_ATAN2) shift(&in[1], 1.7);
}

static void test_gradients(void **state) {
  (void)state;
  for (int k = 0; k < CRN_B_EQUAL; k++) {
    crn_binary_kind kind = (crn_binary_kind)k;
    if (kind == CRN_B_FLOORDIV || kind == CRN_B_TRUNCATEDIV) continue;
    for (int p = 0; p < N_PAIRS; p++) {
      input in[2];
      make_pair(kind, &pairs[p], in);
      check_all(build, &kind, 2, in);
      inputs_free(2, in);
    }
  }
}

/* Long rows and many rows: blocks, threads, sums over repeats. */
static void test_long(void **state) {
  (void)state;
  static const shapes longer[] = {{2, 2, {3, 20011}, {3, 20011}},
                                  {2, 1, {301, 129}, {129}},
                                  {2, 2, {301, 129}, {301, 1}},
                                  {3, 3, {31, 7, 130}, {31, 1, 130}},
                                  {2, 0, {301, 129}, {0}}};
  for (size_t p = 0; p < sizeof longer / sizeof longer[0]; p++)
    for (int k = 0; k <= CRN_B_DIV; k++) {
      crn_binary_kind kind = (crn_binary_kind)k;
      input in[2];
      make_pair(kind, &longer[p], in);
      check_float(build, &kind, 2, in, 2e-4);
      inputs_free(2, in);
    }
}

static double naive(crn_binary_kind kind, double u, double v) {
  switch (kind) {
  case CRN_B_ADD:
    return u + v;
  case CRN_B_SUB:
    return u - v;
  case CRN_B_MUL:
    return u * v;
  case CRN_B_DIV:
    return u / v;
  case CRN_B_FLOORDIV:
    return floor(u / v);
  case CRN_B_MOD:
    return u - v * floor(u / v);
  case CRN_B_POW:
    return pow(u, v);
  case CRN_B_MAXIMUM:
    return u > v ? u : v;
  case CRN_B_MINIMUM:
    return u < v ? u : v;
  case CRN_B_SQUARED_DIFFERENCE:
    return (u - v) * (u - v);
  case CRN_B_LOGADDEXP:
    return log(exp(u) + exp(v));
  case CRN_B_ATAN2:
    return atan2(u, v);
  case CRN_B_DIV_NO_NAN:
    return v == 0 ? 0 : u / v;
  case CRN_B_TRUNCATEDIV:
    return trunc(u / v);
  case CRN_B_EQUAL:
    return u == v;
  case CRN_B_NOT_EQUAL:
    return u != v;
  case CRN_B_LESS:
    return u < v;
  case CRN_B_LESS_EQUAL:
    return u <= v;
  case CRN_B_GREATER:
    return u > v;
  case CRN_B_GREATER_EQUAL:
    return u >= v;
  default:
    return NAN;
  }
}

/* Flat position of the element that an output index reads in an input of the given shape. */
static int64_t position(int rank, const int64_t *shape, int out_rank, const int64_t *index) {
  int64_t at = 0;
  for (int d = 0; d < rank; d++) at = at * shape[d] + (shape[d] == 1 ? 0 : index[out_rank - rank + d]);
  return at;
}

static void unflatten(int64_t i, const crn_tensor *y, int64_t *index) {
  for (int d = y->rank - 1; d >= 0; d--) {
    index[d] = i % y->shape[d];
    i /= y->shape[d];
  }
}

static void check_values(crn_dtype t, crn_binary_kind kind, const shapes *s, double scale) {
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  crn_tensor *x[2];
  input in[2];
  make_pair(kind, s, in);
  for (int i = 0; i < 2; i++) {
    crn_tensor *f = make_input(&b.r, &in[i], NULL);
    for (int64_t k = 0; k < crn_t_size(f); k++) {
      double v = round(crn_t_f64(f)[k] * scale);
      crn_t_f64(f)[k] = v == 0 && i == 1 ? -3 : v; /* divisors */
    }
    x[i] = crn_cast(&b.r, f, t);
  }
  crn_tensor *y = crn_binary(&b.r, kind, x[0], x[1]);
  if (!y) fail_msg("%s: %s", crn_binary_name(kind), crn_err_text(&b.err));
  assert_int_equal(y->dtype, kind >= CRN_B_EQUAL ? CRN_BOOL : kind == CRN_B_DIV && crn_dtype_is_int(t) ? CRN_F64 : t);
  for (int64_t i = 0; i < crn_t_size(y); i++) {
    int64_t index[CRN_MAX_RANK];
    unflatten(i, y, index);
    double u = crn_t_get(x[0], position(x[0]->rank, x[0]->shape, y->rank, index));
    double v = crn_t_get(x[1], position(x[1]->rank, x[1]->shape, y->rank, index));
    double want = naive(kind, u, v), got = crn_t_get(y, i);
    if (crn_dtype_is_int(t) && kind == CRN_B_DIV_NO_NAN) want = floor(want);
    if (fabs(got - want) > 1e-5 * (1 + fabs(want)) || isnan(got) != isnan(want))
      fail_msg("%s(%g, %g): got %g, want %g", crn_binary_name(kind), u, v, got, want);
  }
  inputs_free(2, in);
  run_close(&b);
}

static void test_values(void **state) {
  (void)state;
  for (int k = 0; k <= CRN_B_GREATER_EQUAL; k++)
    for (int p = 0; p < N_PAIRS; p++) {
      crn_binary_kind kind = (crn_binary_kind)k;
      check_values(CRN_F32, kind, &pairs[p], 6);
      check_values(CRN_F64, kind, &pairs[p], 6);
      if (kind == CRN_B_POW || kind == CRN_B_LOGADDEXP || kind == CRN_B_ATAN2) continue;
      check_values(CRN_I32, kind, &pairs[p], 6);
      check_values(CRN_I64, kind, &pairs[p], 6);
    }
}

static crn_tensor *ints(crn_run *r, int64_t n, const int32_t *v) { return crn_t_copy_in(r, CRN_I32, 1, &n, v); }

static void test_integers(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  crn_tensor *u = ints(r, 4, (const int32_t[]){-7, 7, -7, INT32_MIN});
  crn_tensor *v = ints(r, 4, (const int32_t[]){2, -2, -2, -1});
  const int32_t *q = crn_t_i32(crn_binary(r, CRN_B_FLOORDIV, u, v)), *m = crn_t_i32(crn_binary(r, CRN_B_MOD, u, v));
  assert_true(q[0] == -4 && q[1] == -4 && q[2] == 3 && q[3] == INT32_MIN);
  assert_true(m[0] == 1 && m[1] == -1 && m[2] == -1 && m[3] == 0);
  const int32_t *t = crn_t_i32(crn_binary(r, CRN_B_TRUNCATEDIV, u, v));
  assert_true(t[0] == -3 && t[1] == -3 && t[2] == 3);
  crn_tensor *two = crn_t_scalar(r, CRN_I32, 2);
  assert_int_equal(crn_t_i32(crn_binary(r, CRN_B_POW, u, two))[0], 49);
  crn_tensor *d = crn_div(r, u, v);
  assert_int_equal(d->dtype, CRN_F64);
  assert_near(crn_t_f64(d)[0], -3.5, 0);
  crn_tensor *yes = crn_binary(r, CRN_B_GREATER, u, v), *no = crn_unary(r, CRN_U_LOGICAL_NOT, yes);
  assert_int_equal(crn_t_bool(crn_binary(r, CRN_B_LOGICAL_OR, yes, no))[0], 1);
  assert_int_equal(crn_t_bool(crn_binary(r, CRN_B_LOGICAL_AND, yes, no))[1], 0);
  assert_int_equal(crn_t_bool(crn_binary(r, CRN_B_LOGICAL_XOR, yes, no))[1], 1);
  assert_int_equal(crn_t_bool(crn_binary(r, CRN_B_EQUAL, yes, no))[1], 0);
  assert_null(crn_binary(r, CRN_B_FLOORDIV, u, ints(r, 4, (const int32_t[]){1, 0, 1, 1})));
  assert_non_null(strstr(crn_err_text(&b.err), "division by zero"));
  run_close(&b);
}

static void expect_failure(crn_binary_kind kind, crn_dtype ta, int64_t na, crn_dtype tb, int64_t nb, const char *word) {
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_tensor *u = crn_t_full(&b.r, ta, 1, &na, 1), *v = crn_t_full(&b.r, tb, 1, &nb, 1);
  assert_null(crn_binary(&b.r, kind, u, v));
  if (!strstr(crn_err_text(&b.err), word)) fail_msg("no '%s' in: %s", word, crn_err_text(&b.err));
  assert_non_null(strstr(crn_err_text(&b.err), crn_binary_name(kind)));
  run_close(&b);
}

static void test_errors(void **state) {
  (void)state;
  expect_failure(CRN_B_ADD, CRN_F32, 3, CRN_I32, 3, "int32");
  expect_failure(CRN_B_ADD, CRN_F32, 3, CRN_I32, 3, "float32");
  expect_failure(CRN_B_MUL, CRN_F32, 3, CRN_F32, 2, "[2]");
  expect_failure(CRN_B_ADD, CRN_BOOL, 3, CRN_BOOL, 3, "bool");
  expect_failure(CRN_B_LOGICAL_AND, CRN_F32, 3, CRN_F32, 3, "bool");
  expect_failure(CRN_B_LOGADDEXP, CRN_I32, 3, CRN_I32, 3, "float32");
}

static void test_infinities(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  crn_run *r = &b.r;
  r->recording = true;
  const double u[] = {-INFINITY, -INFINITY, 1}, v[] = {-INFINITY, 0.5, -INFINITY};
  crn_tensor *x = crn_t_copy_in(r, CRN_F64, 1, (const int64_t[]){3}, u);
  crn_tensor *z = crn_t_copy_in(r, CRN_F64, 1, (const int64_t[]){3}, v);
  x->needs_grad = true;
  crn_tensor *y = crn_binary(r, CRN_B_LOGADDEXP, x, z);
  assert_true(crn_t_f64(y)[0] == -INFINITY && crn_t_f64(y)[1] == 0.5 && crn_t_f64(y)[2] == 1);
  assert_int_equal(crn_backward(r, y, NULL), CRN_OK);
  const double *g = x->st->grad;
  assert_true(g[0] == 0.5 && g[1] == 0 && g[2] == 1);
  run_close(&b);
}

static void test_names(void **state) {
  (void)state;
  for (int k = 0; k < CRN_N_BINARY; k++) {
    crn_binary_kind found;
    assert_true(crn_binary_from_name(crn_binary_name((crn_binary_kind)k), &found));
    assert_int_equal(found, k);
  }
  crn_binary_kind kind;
  assert_true(crn_binary_from_name("divide", &kind) && kind == CRN_B_DIV);
  assert_false(crn_binary_from_name("addd", &kind));
}

/* ---- where ------------------------------------------------------------------------------------------------------ */

/* Condition: a third input, positive or not. */
static int build_where(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  crn_tensor *c = crn_binary(r, CRN_B_GREATER, in[2], crn_t_scalar(r, r->real, 0));
  out[0] = crn_where(r, c, in[0], in[1]);
  return 1;
}

static int build_mask_fill(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  out[0] = crn_mask_fill(r, in[0], crn_binary(r, CRN_B_GREATER, in[1], crn_t_scalar(r, r->real, 0)), -2.5);
  return 1;
}

static void test_where(void **state) {
  (void)state;
  static const shapes masks[] = {{2, 0, {3, 5}, {0}}, {2, 0, {3, 1}, {0}}, {1, 0, {5}, {0}}, {0, 0, {0}, {0}}};
  for (int p = 0; p < 4; p++)
    for (int m = 0; m < 4; m++) {
      input in[3] = {real_input(3, 1, true, pairs[p].rank_a, pairs[p].a),
                     real_input(4, 1, true, pairs[p].rank_b, pairs[p].b),
                     real_input(5 + m, 1, false, masks[m].rank_a, masks[m].a)};
      check_all(build_where, NULL, 3, in);
      bench_run b;
      run_open(&b, CRN_F64, NULL, 1);
      result got = evaluate(&b, build_where, NULL, 3, in, false, 0);
      for (int64_t i = 0; i < got.out_size[0]; i++) {
        crn_tensor y = {.rank = 2, .shape = {3, 5}};
        int64_t index[CRN_MAX_RANK];
        unflatten(i, &y, index);
        const input *from = in[2].v[position(in[2].rank, in[2].shape, 2, index)] > 0 ? &in[0] : &in[1];
        assert_true(got.out[0][i] == from->v[position(from->rank, from->shape, 2, index)]);
      }
      result_free(&got);
      run_close(&b);
      inputs_free(3, in);
    }
}

static void test_mask_fill(void **state) {
  (void)state;
  input in[2] = {real_input(3, 1, true, 3, (const int64_t[]){2, 3, 4}),
                 real_input(4, 1, false, 3, (const int64_t[]){2, 3, 1})};
  check_all(build_mask_fill, NULL, 2, in);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result got = evaluate(&b, build_mask_fill, NULL, 2, in, false, 0);
  for (int64_t i = 0; i < 24; i++) assert_true(got.out[0][i] == (in[1].v[i / 4] > 0 ? in[0].v[i] : -2.5));
  result_free(&got);
  crn_tensor *x = crn_t_zeros(&b.r, CRN_F32, 1, (const int64_t[]){3});
  assert_null(crn_mask_fill(&b.r, x, crn_t_zeros(&b.r, CRN_BOOL, 2, (const int64_t[]){2, 3}), 0));
  assert_non_null(strstr(crn_err_text(&b.err), "mask_fill"));
  run_close(&b);
  inputs_free(2, in);
}

static void test_where_errors(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_tensor *x = crn_t_zeros(&b.r, CRN_F32, 1, (const int64_t[]){3});
  assert_null(crn_where(&b.r, x, x, x));
  assert_non_null(strstr(crn_err_text(&b.err), "bool"));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradients),    cmocka_unit_test(test_long),   cmocka_unit_test(test_values),
      cmocka_unit_test(test_integers),     cmocka_unit_test(test_errors), cmocka_unit_test(test_infinities),
      cmocka_unit_test(test_names),        cmocka_unit_test(test_where),  cmocka_unit_test(test_mask_fill),
      cmocka_unit_test(test_where_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
