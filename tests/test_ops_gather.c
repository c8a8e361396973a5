/* SPDX-License-Identifier: Apache-2.0
 *
 * Picking and placing by index and by value: gathers, scatters, packed frames, masks, the k largest, sorting. Values
 * against naive loops, gradients against differences, bad indices refused with their value and limit.
 */
#include "ops2_check.h"

#define assert_near(got, want, tol) assert_true(fabs((double)(got) - (double)(want)) <= (tol))

typedef struct gather_arg {
  int axis, n_batch; /* n_batch < 0: crn_gather along axis */
} gather_arg;

static int build_gather(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const gather_arg *a = arg;
  out[0] = a->n_batch < 0 ? crn_gather(r, in[0], in[1], a->axis) : crn_gather_batched(r, in[0], in[1], a->n_batch);
  return 1;
}

static void check_gather(gather_arg a, int rank, const int64_t *shape, int idx_rank, const int64_t *idx_shape) {
  int axis = a.n_batch >= 0 ? a.n_batch : a.axis < 0 ? a.axis + rank : a.axis;
  int n_batch = a.n_batch < 0 ? 0 : a.n_batch;
  int64_t n_idx = count_of(idx_rank, idx_shape);
  int32_t values[64];
  for (int64_t i = 0; i < n_idx; i++) values[i] = (int32_t)((i * 7 + 2) % (shape[axis] ? shape[axis] : 1));
  input in[2] = {real_input(3, 1, true, rank, shape), int_input(idx_rank, idx_shape, values)};
  check_all(build_gather, &a, 2, in);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result got = evaluate(&b, build_gather, &a, 2, in, false, 0);
  int64_t inner = count_of(rank - axis - 1, shape + axis + 1);
  int64_t per = n_idx;
  for (int d = 0; d < n_batch; d++) per /= idx_shape[d] ? idx_shape[d] : 1;
  for (int64_t i = 0; i < got.out_size[0]; i++) {
    int64_t o = i / inner / per, k = i / inner % per;
    int32_t v = values[n_batch ? o * per + k : k];
    assert_true(got.out[0][i] == in[0].v[(o * shape[axis] + v) * inner + i % inner]);
  }
  result_free(&got);
  run_close(&b);
  inputs_free(2, in);
}

static void test_gather(void **state) {
  (void)state;
  const int64_t x[] = {5, 3, 4}, idx[] = {2, 3}, none[] = {0, 3}, batched[] = {5, 2}, deep[] = {5, 3, 2};
  for (int axis = -3; axis < 3; axis++) {
    check_gather((gather_arg){axis, -1}, 3, x, 2, idx);
    check_gather((gather_arg){axis, -1}, 3, x, 0, NULL);
    check_gather((gather_arg){axis, -1}, 3, x, 2, none);
  }
  check_gather((gather_arg){0, 1}, 3, x, 2, batched);
  check_gather((gather_arg){0, 1}, 3, x, 1, batched);
  check_gather((gather_arg){0, 2}, 3, x, 3, deep);
  check_gather((gather_arg){0, 0}, 3, x, 2, idx);
}

/* A gathered parameter gets rows: [V, F] gathered at 4 places, one of them twice. */
static void test_rows_of_parameter(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  r->recording = true;
  float table[5 * 2] = {0};
  crn_storage st = {.data = table, .bytes = sizeof table, .is_param = true, .borrowed = true};
  crn_tensor *w = crn_t_over(r, &st, CRN_F32, 2, (const int64_t[]){5, 2}, true);
  crn_tensor *idx = crn_t_copy_in(r, CRN_I32, 2, (const int64_t[]){2, 2}, (const int32_t[]){4, 1, 4, 0});
  crn_tensor *y = crn_gather(r, w, idx, 0);
  const float seed[] = {1, 2, 3, 4, 5, 6, 7, 8};
  assert_int_equal(crn_backward(r, y, seed), CRN_OK);
  assert_null(st.grad);
  assert_non_null(st.rows);
  assert_null(st.rows->next);
  assert_int_equal(st.row_len, 2);
  assert_int_equal(st.rows->n, 4);
  const int64_t want[] = {4, 1, 4, 0};
  for (int i = 0; i < 4; i++) assert_int_equal(st.rows->indices[i], want[i]);
  for (int i = 0; i < 8; i++) assert_true(((const float *)st.rows->rows)[i] == seed[i]);
  run_close(&b);
}

static int build_gather_nd(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  out[0] = crn_gather_nd(r, in[0], in[1]);
  return 1;
}

static int build_scatter_nd(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  out[0] = crn_scatter_nd(r, in[1], in[0], 3, (const int64_t[]){4, 3, 2});
  return 1;
}

static void test_nd(void **state) {
  (void)state;
  const int32_t tuples[] = {3, 1, 0, 2, 3, 1, 1, 0};
  const int64_t x[] = {4, 3, 2}, idx[] = {2, 2, 2}, u[] = {2, 2, 2};
  input in[2] = {real_input(1, 1, true, 3, x), int_input(3, idx, tuples)};
  check_all(build_gather_nd, NULL, 2, in);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result got = evaluate(&b, build_gather_nd, NULL, 2, in, false, 0);
  for (int64_t i = 0; i < 8; i++)
    assert_true(got.out[0][i] == in[0].v[(tuples[i / 2 * 2] * 3 + tuples[i / 2 * 2 + 1]) * 2 + i % 2]);
  result_free(&got);
  inputs_free(1, in);
  in[0] = real_input(2, 1, true, 3, u);
  check_all(build_scatter_nd, NULL, 2, in);
  got = evaluate(&b, build_scatter_nd, NULL, 2, in, false, 0);
  double want[24] = {0};
  for (int64_t i = 0; i < 8; i++) want[(tuples[i / 2 * 2] * 3 + tuples[i / 2 * 2 + 1]) * 2 + i % 2] += in[0].v[i];
  for (int64_t i = 0; i < 24; i++) assert_near(got.out[0][i], want[i], 1e-15);
  result_free(&got);
  crn_tensor *n =
      crn_scatter_nd(&b.r, crn_t_copy_in(&b.r, CRN_I64, 2, (const int64_t[]){2, 1}, (const int64_t[]){1, 1}),
                     crn_t_full(&b.r, CRN_I32, 1, (const int64_t[]){2}, 3), 1, (const int64_t[]){3});
  assert_true(crn_t_i32(n)[0] == 0 && crn_t_i32(n)[1] == 6);
  run_close(&b);
  inputs_free(2, in);
}

static int build_pack(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  out[0] = crn_pack_frames(r, in[0], in[1]);
  return 1;
}

static int build_unpack(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_unpack_frames(r, in[0], in[1], *(const int64_t *)arg);
  return 1;
}

static void test_frames(void **state) {
  (void)state;
  const int32_t lens[] = {2, 0, 3, 1};
  const int64_t x[] = {4, 3, 2}, B = 4, T = 3, packed[] = {6, 2};
  input in[2] = {real_input(1, 1, true, 3, x), int_input(1, &B, lens)};
  check_all(build_pack, NULL, 2, in);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result got = evaluate(&b, build_pack, NULL, 2, in, false, 0);
  assert_int_equal(got.out_size[0], 12);
  for (int64_t s = 0, at = 0; s < 4; s++)
    for (int64_t t = 0; t < lens[s]; t++)
      for (int64_t f = 0; f < 2; f++) assert_true(got.out[0][at++] == in[0].v[(s * 3 + t) * 2 + f]);
  result_free(&got);
  inputs_free(1, in);
  in[0] = real_input(2, 1, true, 2, packed);
  check_all(build_unpack, &T, 2, in);
  got = evaluate(&b, build_unpack, &T, 2, in, false, 0);
  for (int64_t s = 0, at = 0; s < 4; s++)
    for (int64_t t = 0; t < 3; t++)
      for (int64_t f = 0; f < 2; f++) assert_true(got.out[0][(s * 3 + t) * 2 + f] == (t < lens[s] ? in[0].v[at++] : 0));
  result_free(&got);
  crn_tensor *few = crn_t_zeros(&b.r, CRN_F32, 2, (const int64_t[]){5, 2});
  assert_null(crn_unpack_frames(&b.r, few, crn_t_copy_in(&b.r, CRN_I32, 1, &B, lens), 3));
  assert_non_null(strstr(crn_err_text(&b.err), "add up to 6"));
  run_close(&b);
  inputs_free(2, in);
}

static int build_mask_select(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  crn_tensor *lens;
  out[0] = crn_mask_select(r, in[0], crn_cast(r, in[1], CRN_BOOL), &lens);
  out[1] = crn_cast(r, lens, r->real);
  return out[0] && out[1] ? 1 : 0;
}

static void test_mask_select(void **state) {
  (void)state;
  const int32_t mask[] = {1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0};
  const int64_t x[] = {3, 4, 2}, m[] = {3, 4};
  input in[2] = {real_input(1, 1, true, 3, x), int_input(2, m, mask)};
  check_all(build_mask_select, NULL, 2, in);
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  result got = evaluate(&b, build_mask_select, NULL, 2, in, false, 0);
  assert_int_equal(got.out_size[0], 3 * 3 * 2);
  const int64_t from[] = {0, 2, 3, -1, -1, -1, 9, -1, -1};
  for (int64_t i = 0; i < 18; i++)
    assert_true(got.out[0][i] == (from[i / 2] < 0 ? 0 : in[0].v[from[i / 2] * 2 + i % 2]));
  result_free(&got);
  crn_tensor *lens, *mt = crn_cast(&b.r, crn_t_copy_in(&b.r, CRN_I32, 2, m, mask), CRN_BOOL);
  crn_mask_select(&b.r, crn_t_zeros(&b.r, CRN_F32, 2, m), mt, &lens);
  assert_true(crn_t_i32(lens)[0] == 3 && crn_t_i32(lens)[1] == 0 && crn_t_i32(lens)[2] == 1);
  run_close(&b);
  inputs_free(2, in);
}

static int build_top_k(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  out[0] = crn_top_k(r, in[0], *(const int64_t *)arg, NULL);
  return 1;
}

static void test_top_k(void **state) {
  (void)state;
  for (int64_t k = 0; k <= 7; k += k < 3 ? 1 : 4) {
    input in = real_input(k, 1, true, 3, (const int64_t[]){2, 3, 7});
    check_all(build_top_k, &k, 1, &in);
    free(in.v);
  }
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  const float x[] = {1, 3, NAN, 3, -INFINITY, 2, 3};
  crn_tensor *idx, *y = crn_top_k(r, crn_t_copy_in(r, CRN_F32, 1, (const int64_t[]){7}, x), 7, &idx);
  const int32_t want[] = {1, 3, 6, 5, 0, 4, 2}; /* ties to the lower index, NaN last */
  for (int i = 0; i < 7; i++) assert_int_equal(crn_t_i32(idx)[i], want[i]);
  assert_true(crn_t_f32(y)[2] == 3);
  y = crn_top_k(r, crn_t_copy_in(r, CRN_I32, 1, (const int64_t[]){4}, (const int32_t[]){5, -1, 9, 9}), 2, &idx);
  assert_true(crn_t_i32(y)[1] == 9 && crn_t_i32(idx)[0] == 2 && crn_t_i32(idx)[1] == 3);
  run_close(&b);
}

/* Beyond 64 everything is sorted: the two ways must agree. */
static void test_large_k(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 2);
  input in = real_input(9, 1, false, 2, (const int64_t[]){40, 1000});
  for (int64_t i = 0; i < 40000; i++) /* many ties, in the second row few that are numbers */
    in.v[i] = i % 97 == 3 || (i / 1000 == 1 && i % 50) ? NAN : floor(in.v[i] * 50);
  crn_tensor *x = make_input(&b.r, &in, NULL), *few, *many;
  crn_top_k(&b.r, x, 64, &few);
  crn_top_k(&b.r, x, 900, &many);
  for (int64_t row = 0; row < 40; row++)
    for (int64_t i = 0; i < 64; i++) assert_int_equal(crn_t_i32(few)[row * 64 + i], crn_t_i32(many)[row * 900 + i]);
  assert_null(crn_top_k(&b.r, x, 1001, NULL));
  free(in.v);
  run_close(&b);
}

static void check_order(crn_dtype t, int axis, bool falling) {
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  crn_run *r = &b.r;
  const int64_t shape[] = {3, 5, 4};
  input in = real_input(axis + 20, 1, false, 3, shape);
  for (int64_t i = 0; i < 60; i++) in.v[i] = floor(in.v[i] * 4);
  crn_tensor *x = crn_cast(r, make_input(r, &in, NULL), t);
  crn_tensor *order = crn_argsort(r, x, axis, falling), *max = crn_argmax(r, x, axis, CRN_I64),
             *min = crn_argmin(r, x, axis, CRN_I32);
  assert_non_null(order);
  int at = (axis + 3) % 3;
  int64_t inner = count_of(2 - at, shape + at + 1), n = shape[at];
  for (int64_t i = 0; i < 60 / n; i++) {
    int64_t base = i / inner * n * inner + i % inner;
    int64_t best = 0, worst = 0;
    for (int64_t k = 0; k < n; k++) {
      if (in.v[base + k * inner] > in.v[base + best * inner]) best = k;
      if (in.v[base + k * inner] < in.v[base + worst * inner]) worst = k;
      if (k == 0) continue;
      int64_t p = crn_t_i32(order)[base + (k - 1) * inner], q = crn_t_i32(order)[base + k * inner];
      double u = in.v[base + p * inner], v = in.v[base + q * inner];
      assert_true(falling ? u > v || (u == v && p < q) : u < v || (u == v && p < q));
    }
    assert_int_equal(crn_t_i64(max)[i], best);
    assert_int_equal(crn_t_i32(min)[i], worst);
  }
  free(in.v);
  run_close(&b);
}

static void test_order(void **state) {
  (void)state;
  const crn_dtype types[] = {CRN_F32, CRN_F64, CRN_I32, CRN_I64, CRN_I8};
  for (int t = 0; t < 5; t++)
    for (int axis = -3; axis < 3; axis++) {
      check_order(types[t], axis, false);
      check_order(types[t], axis, true);
    }
}

static void test_bad_indices(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_tensor *x = crn_t_zeros(&b.r, CRN_F32, 2, (const int64_t[]){3, 2});
  crn_tensor *idx = crn_t_copy_in(&b.r, CRN_I32, 1, (const int64_t[]){3}, (const int32_t[]){0, 2, 3});
  assert_null(crn_gather(&b.r, x, idx, 0));
  assert_non_null(strstr(crn_err_text(&b.err), "index 3"));
  assert_non_null(strstr(crn_err_text(&b.err), "[0, 3)"));
  run_close(&b);
  run_open(&b, CRN_F32, NULL, 1);
  x = crn_t_zeros(&b.r, CRN_F32, 2, (const int64_t[]){3, 2});
  idx = crn_t_copy_in(&b.r, CRN_I32, 2, (const int64_t[]){1, 2}, (const int32_t[]){2, -1});
  assert_null(crn_gather_nd(&b.r, x, idx));
  assert_non_null(strstr(crn_err_text(&b.err), "index -1"));
  run_close(&b);
  run_open(&b, CRN_F32, NULL, 1);
  x = crn_t_zeros(&b.r, CRN_F32, 2, (const int64_t[]){3, 2});
  idx = crn_t_full(&b.r, CRN_U8, 1, (const int64_t[]){1}, 2); /* any integers */
  assert_int_equal(crn_gather(&b.r, x, idx, 0)->shape[0], 1);
  assert_null(crn_gather(&b.r, x, x, 0));
  assert_non_null(strstr(crn_err_text(&b.err), "must be integers"));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gather),      cmocka_unit_test(test_rows_of_parameter),
      cmocka_unit_test(test_nd),          cmocka_unit_test(test_frames),
      cmocka_unit_test(test_mask_select), cmocka_unit_test(test_top_k),
      cmocka_unit_test(test_large_k),     cmocka_unit_test(test_order),
      cmocka_unit_test(test_bad_indices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
