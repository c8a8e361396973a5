/* SPDX-License-Identifier: Apache-2.0
 *
 * Reordering, repeating, cutting, joining, padding and counting along axes: a table of cases, each with the input index
 * that an output index must show (the oracle), and its gradient against differences.
 */
#include "ops2_check.h"

#define assert_near(got, want, tol) assert_true(fabs((double)(got) - (double)(want)) <= (tol))

typedef struct shape_case {
  const char *name;
  crn_tensor *(*op)(crn_run *r, crn_tensor *x);
  int64_t (*source)(const int64_t *x_shape, const int64_t *index); /* flat input position shown at index, -1: 0.25 */
  int rank;
  int64_t shape[4];
  int out_rank;
  int64_t out[4];
} shape_case;

#define FLAT3(i, j, k) (((i)*s[1] + (j)) * s[2] + (k))
#define OP(name, expr)                                                                                                 \
  static crn_tensor *name(crn_run *r, crn_tensor *x) { return expr; }
#define SOURCE(name, expr)                                                                                             \
  static int64_t name(const int64_t *s, const int64_t *o) {                                                            \
    (void)s, (void)o;                                                                                                  \
    return expr;                                                                                                       \
  }

OP(transpose_210, crn_transpose(r, x, (const int[]){2, 1, 0}))
SOURCE(from_210, FLAT3(o[2], o[1], o[0]))
OP(transpose_102, crn_transpose(r, x, (const int[]){1, 0, 2}))
SOURCE(from_102, FLAT3(o[1], o[0], o[2]))
OP(transpose_120, crn_transpose(r, x, (const int[]){1, 2, 0}))
SOURCE(from_120, FLAT3(o[2], o[0], o[1]))
OP(transpose_021, crn_transpose(r, x, (const int[]){0, 2, 1}))
SOURCE(from_021, FLAT3(o[0], o[2], o[1]))
OP(expand_1, crn_expand_dims(r, x, 1))
SOURCE(from_expand_1, FLAT3(o[0], o[2], o[3]))
OP(expand_end, crn_expand_dims(r, x, -1))
SOURCE(from_expand_end, FLAT3(o[0], o[1], o[2]))
OP(squeeze_1, crn_squeeze(r, x, -2))
SOURCE(from_squeeze_1, FLAT3(o[0], 0, o[1]))
OP(broadcast, crn_broadcast_to(r, x, 4, (const int64_t[]){2, 2, 3, 4}))
SOURCE(from_broadcast, FLAT3(o[1], 0, o[3]))
OP(repeat, crn_repeat0(r, x, 3))
SOURCE(from_repeat, FLAT3(o[0] / 3, o[1], o[2]))
OP(tile, crn_tile(r, x, (const int64_t[]){2, 1, 3}))
SOURCE(from_tile, FLAT3(o[0] % s[0], o[1], o[2] % s[2]))
OP(slice_mid, crn_slice(r, x, 1, 1, 2, 1))
SOURCE(from_slice_mid, FLAT3(o[0], o[1] + 1, o[2]))
OP(slice_first, crn_slice(r, x, 0, 1, 1, 1))
SOURCE(from_slice_first, FLAT3(o[0] + 1, o[1], o[2]))
OP(slice_stride, crn_slice(r, x, -1, 0, 2, 3))
SOURCE(from_slice_stride, FLAT3(o[0], o[1], 3 * o[2]))
OP(slice_back, crn_slice(r, x, 1, 2, 3, -1))
SOURCE(from_slice_back, FLAT3(o[0], 2 - o[1], o[2]))
OP(slice_none, crn_slice(r, x, 1, 3, 0, 1))
OP(reverse_1, crn_reverse(r, x, 1))
SOURCE(from_reverse_1, FLAT3(o[0], s[1] - 1 - o[1], o[2]))
OP(reverse_last, crn_reverse(r, x, -1))
SOURCE(from_reverse_last, FLAT3(o[0], o[1], s[2] - 1 - o[2]))
OP(pad_constant, crn_pad(r, x, 1, 2, 1, "constant", 0.25))
SOURCE(from_pad_constant, o[1] < 2 || o[1] >= 2 + s[1] ? -1 : FLAT3(o[0], o[1] - 2, o[2]))
OP(pad_reflect, crn_pad(r, x, 1, 2, 2, "reflect", 0))
SOURCE(from_pad_reflect, FLAT3(o[0], o[1] < 2 ? 2 - o[1] : o[1] < 5 ? o[1] - 2 : 6 - o[1], o[2]))
OP(pad_symmetric, crn_pad(r, x, 1, 2, 3, "symmetric", 0))
SOURCE(from_pad_symmetric, FLAT3(o[0], o[1] < 2 ? 1 - o[1] : o[1] < 5 ? o[1] - 2 : 7 - o[1], o[2]))
OP(pad_replication, crn_pad(r, x, -1, 1, 2, "replication", 0))
SOURCE(from_pad_replication, FLAT3(o[0], o[1], o[2] < 1 ? 0 : o[2] < 5 ? o[2] - 1 : 3))

static const shape_case cases[] = {
    {"transpose 210", transpose_210, from_210, 3, {2, 3, 4}, 3, {4, 3, 2}},
    {"transpose 102", transpose_102, from_102, 3, {2, 3, 4}, 3, {3, 2, 4}},
    {"transpose 120", transpose_120, from_120, 3, {2, 3, 4}, 3, {3, 4, 2}},
    {"transpose 021", transpose_021, from_021, 3, {2, 3, 4}, 3, {2, 4, 3}},
    {"transpose of size 1", transpose_102, from_102, 3, {1, 3, 4}, 3, {3, 1, 4}},
    {"transpose empty", transpose_210, from_210, 3, {2, 0, 4}, 3, {4, 0, 2}},
    {"expand_dims 1", expand_1, from_expand_1, 3, {2, 3, 4}, 4, {2, 1, 3, 4}},
    {"expand_dims -1", expand_end, from_expand_end, 3, {2, 3, 4}, 4, {2, 3, 4, 1}},
    {"squeeze", squeeze_1, from_squeeze_1, 3, {2, 1, 4}, 2, {2, 4}},
    {"broadcast_to", broadcast, from_broadcast, 3, {2, 1, 4}, 4, {2, 2, 3, 4}},
    {"repeat0", repeat, from_repeat, 3, {2, 3, 4}, 3, {6, 3, 4}},
    {"tile", tile, from_tile, 3, {2, 3, 4}, 3, {4, 3, 12}},
    {"slice", slice_mid, from_slice_mid, 3, {2, 4, 3}, 3, {2, 2, 3}},
    {"slice of axis 0", slice_first, from_slice_first, 3, {3, 4, 3}, 3, {1, 4, 3}},
    {"slice behind size 1", slice_mid, from_slice_mid, 3, {1, 4, 3}, 3, {1, 2, 3}},
    {"slice by 3", slice_stride, from_slice_stride, 3, {2, 3, 5}, 3, {2, 3, 2}},
    {"slice by -1", slice_back, from_slice_back, 3, {2, 4, 3}, 3, {2, 3, 3}},
    {"slice of nothing", slice_none, NULL, 3, {2, 3, 3}, 3, {2, 0, 3}},
    {"reverse 1", reverse_1, from_reverse_1, 3, {2, 3, 4}, 3, {2, 3, 4}},
    {"reverse -1", reverse_last, from_reverse_last, 3, {2, 3, 4}, 3, {2, 3, 4}},
    {"pad constant", pad_constant, from_pad_constant, 3, {2, 3, 4}, 3, {2, 6, 4}},
    {"pad constant of nothing", pad_constant, from_pad_constant, 3, {2, 0, 4}, 3, {2, 3, 4}},
    {"pad reflect", pad_reflect, from_pad_reflect, 3, {2, 3, 4}, 3, {2, 7, 4}},
    {"pad symmetric", pad_symmetric, from_pad_symmetric, 3, {2, 3, 4}, 3, {2, 8, 4}},
    {"pad replication", pad_replication, from_pad_replication, 3, {2, 3, 4}, 3, {2, 3, 7}},
};

/* A copy first, so that views are followed by something that reads them. */
static int build(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const shape_case *c = arg;
  out[0] = crn_unary(r, CRN_U_NEG, c->op(r, crn_unary(r, CRN_U_NEG, in[0])));
  return 1;
}

static void check_shape(const shape_case *c) {
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  for (int t = 0; t < CRN_N_DTYPES; t++) { /* every dtype: element sizes differ */
    if (t == CRN_STRING || t == CRN_C64) continue;
    int64_t size = crn_t_count(c->rank, c->shape);
    crn_tensor *flat = crn_range(&b.r, CRN_I32, 0, size);
    crn_tensor *x = crn_t_reshape(&b.r, crn_cast(&b.r, flat, (crn_dtype)t), c->rank, c->shape);
    crn_tensor *y = c->op(&b.r, x);
    if (!y) fail_msg("%s: %s", c->name, crn_err_text(&b.err));
    assert_int_equal(y->rank, c->out_rank);
    for (int d = 0; d < y->rank; d++) assert_int_equal(y->shape[d], c->out[d]);
    for (int64_t i = 0; i < crn_t_size(y); i++) {
      int64_t index[4], rest = i;
      for (int d = y->rank - 1; d >= 0; d--) {
        index[d] = rest % y->shape[d];
        rest /= y->shape[d];
      }
      int64_t from = c->source(c->shape, index);
      double want = from >= 0 ? crn_t_get(x, from) : t == CRN_F32 || t == CRN_F64 ? 0.25 : t == CRN_BOOL ? 1 : 0;
      if (crn_t_get(y, i) != want) fail_msg("%s: element %d", c->name, (int)i);
    }
  }
  run_close(&b);
}

static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    check_shape(&cases[i]);
    input in = real_input((int64_t)i, 1, true, cases[i].rank, cases[i].shape);
    check_all(build, &cases[i], 1, &in);
    free(in.v);
  }
}

static int build_big_transpose(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_transpose(r, in[0], arg);
  return 1;
}

static void test_threads(void **state) {
  (void)state;
  static const int orders[][3] = {{2, 1, 0}, {1, 0, 2}, {0, 2, 1}};
  for (int i = 0; i < 3; i++) {
    input in = real_input(7, 1, true, 3, (const int64_t[]){37, 41, 53});
    check_float(build_big_transpose, orders[i], 1, &in, 1e-6);
    free(in.v);
  }
}

/* In place: what a copy would have, in the memory that x had. */
static void check_taking(crn_run *r, int rank, const int64_t *shape) {
  const int order[] = {1, 0, 2, 3};
  crn_tensor *x = crn_t_reshape(r, crn_range(r, CRN_I32, 0, crn_t_count(rank, shape)), rank, shape);
  crn_tensor *want = crn_transpose(r, x, order);
  void *memory = crn_t_data(x);
  assert_null(crn_transpose_taking(r, x, order)); /* nobody holds it */
  crn_t_hold(x);
  assert_null(crn_transpose_taking(r, x, (const int[]){1, 2, 0, 3}));
  assert_null(crn_transpose_taking(r, crn_t_rows(r, x, 1, shape[0] - 1), order));
  crn_tensor *y = crn_transpose_taking(r, x, order);
  assert_non_null(y);
  assert_null(crn_t_data(x));
  assert_ptr_equal(crn_t_data(y), memory);
  assert_int_equal(y->rank, rank);
  assert_memory_equal(y->shape, want->shape, (size_t)rank * sizeof(int64_t));
  assert_memory_equal(crn_t_data(y), crn_t_data(want), (size_t)crn_t_size(want) * sizeof(int32_t));
  crn_t_release(r, x);
}

static void test_transpose_taking(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {
      {300, 7, 40, 1}, {7, 300, 40, 1}, {256, 256, 1, 2}, {64, 32, 33, 1}, {90000, 3, 1, 1}};
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  b.r.recording = false;
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) check_taking(&b.r, 4, shapes[i]);
  crn_tensor *small = crn_t_zeros(&b.r, CRN_F32, 2, (const int64_t[]){8, 8}),
             *large = crn_t_zeros(&b.r, CRN_F32, 2, (const int64_t[]){512, 512});
  crn_t_hold(small);
  crn_t_hold(large);
  assert_null(crn_transpose_taking(&b.r, small, (const int[]){1, 0}));
  assert_null(
      crn_transpose_taking(&b.r, crn_t_reshape(&b.r, large, 2, (const int64_t[]){1, 512 * 512}), (const int[]){1, 0}));
  crn_t_hold(large); /* somebody else has it too */
  assert_null(crn_transpose_taking(&b.r, large, (const int[]){1, 0}));
  crn_t_release(&b.r, large);
  b.r.recording = true;
  assert_null(crn_transpose_taking(&b.r, large, (const int[]){1, 0}));
  assert_int_equal(b.err.code, CRN_OK);
  run_close(&b);
}

/* ---- joining ---------------------------------------------------------------------------------------------------- */

static int build_concat(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_concat(r, 3, in, *(const int *)arg);
  return 1;
}

static int build_stack(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_stack(r, 3, (crn_tensor *[]){in[0], in[1], in[0]}, *(const int *)arg);
  return 1;
}

static void test_concat(void **state) {
  (void)state;
  for (int axis = -2; axis < 3; axis++) {
    input in[3];
    for (int i = 0; i < 3; i++) {
      int64_t shape[3] = {2, 3, 4};
      shape[(axis + 3) % 3] = i == 1 ? 0 : i + 1;
      in[i] = real_input(i + 1, 1, true, 3, shape);
    }
    check_all(build_concat, &axis, 3, in);
    inputs_free(3, in);
  }
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_tensor *u = crn_t_reshape(&b.r, crn_range(&b.r, CRN_I64, 0, 4), 2, (const int64_t[]){2, 2});
  crn_tensor *y = crn_concat(&b.r, 2, (crn_tensor *[]){u, u}, 1);
  const int64_t want[] = {0, 1, 0, 1, 2, 3, 2, 3};
  for (int i = 0; i < 8; i++) assert_int_equal(crn_t_i64(y)[i], want[i]);
  crn_tensor *flat = crn_range(&b.r, CRN_I64, 0, 4);
  assert_null(crn_concat(&b.r, 2, (crn_tensor *[]){u, flat}, 1));
  assert_non_null(strstr(crn_err_text(&b.err), "concat"));
  run_close(&b);
}

static void test_stack(void **state) {
  (void)state;
  for (int axis = -3; axis < 3; axis++) {
    input in[2] = {real_input(1, 1, true, 2, (const int64_t[]){2, 3}),
                   real_input(2, 1, true, 2, (const int64_t[]){2, 3})};
    check_all(build_stack, &axis, 2, in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result got = evaluate(&b, build_stack, &axis, 2, in, false, 0);
    int at = (axis + 3) % 3;
    for (int64_t i = 0; i < 2; i++)
      for (int64_t j = 0; j < 3; j++) {
        int64_t pos = at == 0 ? (6 + i * 3 + j) : at == 1 ? (i * 3 + 1) * 3 + j : (i * 3 + j) * 3 + 1;
        assert_true(got.out[0][pos] == in[1].v[i * 3 + j]);
      }
    result_free(&got);
    run_close(&b);
    inputs_free(2, in);
  }
}

/* ---- along sequences -------------------------------------------------------------------------------------------- */

typedef struct axes {
  int t, b;
} axes;

static int build_reverse_sequence(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const axes *a = arg;
  out[0] = crn_reverse_sequence(r, in[0], in[1], a->t, a->b);
  return 1;
}

static void test_reverse_sequence(void **state) {
  (void)state;
  const axes orders[] = {{1, 0}, {0, 1}, {2, 0}, {0, 2}, {-1, 1}};
  const int32_t lens[] = {3, 0, 2};
  for (int o = 0; o < 5; o++) {
    int t = (orders[o].t + 3) % 3, bt = (orders[o].b + 3) % 3;
    int64_t shape[3] = {2, 2, 2};
    shape[t] = 4;
    shape[bt] = 3;
    const int64_t n = 3;
    input in[2] = {real_input(o + 1, 1, true, 3, shape), int_input(1, &n, lens)};
    check_all(build_reverse_sequence, &orders[o], 2, in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result got = evaluate(&b, build_reverse_sequence, &orders[o], 2, in, false, 0);
    for (int64_t i = 0; i < got.out_size[0]; i++) {
      int64_t at[3] = {i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
      int64_t len = lens[at[bt]];
      if (at[t] < len) at[t] = len - 1 - at[t];
      assert_true(got.out[0][i] == in[0].v[(at[0] * shape[1] + at[1]) * shape[2] + at[2]]);
    }
    result_free(&got);
    run_close(&b);
    inputs_free(2, in);
  }
}

typedef struct cumsum_arg {
  int axis;
  bool exclusive, reverse;
} cumsum_arg;

static int build_cumsum(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const cumsum_arg *a = arg;
  out[0] = crn_cumsum(r, in[0], a->axis, a->exclusive, a->reverse);
  return 1;
}

static void test_cumsum(void **state) {
  (void)state;
  for (int v = 0; v < 12; v++) {
    cumsum_arg a = {v / 4 - 1, v % 2 == 1, v / 2 % 2 == 1};
    int64_t shape[] = {2, 3, 4};
    input in = real_input(v, 1, true, 3, shape);
    check_all(build_cumsum, &a, 1, &in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result got = evaluate(&b, build_cumsum, &a, 1, &in, false, 0);
    int axis = (a.axis + 3) % 3;
    for (int64_t i = 0; i < 24; i++) {
      int64_t at[3] = {i / 12, i / 4 % 3, i % 4}, here = at[axis];
      double want = 0;
      for (at[axis] = 0; at[axis] < shape[axis]; at[axis]++) {
        bool counts = a.reverse ? at[axis] > here : at[axis] < here;
        if (counts || (at[axis] == here && !a.exclusive)) want += in.v[(at[0] * 3 + at[1]) * 4 + at[2]];
      }
      assert_near(got.out[0][i], want, 1e-12);
    }
    result_free(&got);
    run_close(&b);
    free(in.v);
  }
}

static void test_range_and_one_hot(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  crn_tensor *x = crn_range(r, CRN_F32, -2, 4);
  assert_true(crn_t_f32(x)[0] == -2 && crn_t_f32(x)[3] == 1);
  crn_tensor *y = crn_one_hot(r, crn_cast(r, x, CRN_I32), 2, CRN_F64, 5, -1);
  const double want[] = {-1, -1, -1, -1, 5, -1, -1, 5}; /* -2 and -1 have no place */
  for (int i = 0; i < 8; i++) assert_true(crn_t_f64(y)[i] == want[i]);
  assert_int_equal(crn_t_size(crn_one_hot(r, crn_range(r, CRN_U8, 0, 0), 3, CRN_BOOL, 1, 0)), 0);
  crn_tensor *c = crn_cumsum(r, crn_range(r, CRN_I16, 1, 4), 0, false, true);
  assert_int_equal((int)crn_t_get(c, 0), 10);
  run_close(&b);
}

typedef crn_tensor *(*failing)(crn_run *r, crn_tensor *x);
OP(bad_order, crn_transpose(r, x, (const int[]){0, 0}))
OP(bad_axis, crn_expand_dims(r, x, 4))
OP(bad_squeeze, crn_squeeze(r, x, 0))
OP(bad_broadcast, crn_broadcast_to(r, x, 2, (const int64_t[]){3, 3}))
OP(bad_slice, crn_slice(r, x, 0, 1, 2, 1))
OP(bad_pad, crn_pad(r, x, 1, 3, 0, "reflect", 0))
OP(bad_mode, crn_pad(r, x, 1, 1, 0, "reflekt", 0))
OP(bad_repeat, crn_repeat0(r, x, -1))

static void test_errors(void **state) {
  (void)state;
  static const struct {
    failing op;
    const char *word;
  } bad[] = {{bad_order, "transpose"}, {bad_axis, "[-3, 3)"},     {bad_squeeze, "squeeze"},  {bad_broadcast, "[3, 3]"},
             {bad_slice, "slice"},     {bad_pad, "mode reflect"}, {bad_mode, "\"reflect\""}, {bad_repeat, "repeat"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    bench_run b;
    run_open(&b, CRN_F32, NULL, 1);
    assert_null(bad[i].op(&b.r, crn_t_zeros(&b.r, CRN_F32, 2, (const int64_t[]){2, 3})));
    if (!strstr(crn_err_text(&b.err), bad[i].word)) fail_msg("no '%s' in: %s", bad[i].word, crn_err_text(&b.err));
    run_close(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_transpose_taking),
      cmocka_unit_test(test_concat),
      cmocka_unit_test(test_stack),
      cmocka_unit_test(test_reverse_sequence),
      cmocka_unit_test(test_cumsum),
      cmocka_unit_test(test_range_and_one_hot),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
