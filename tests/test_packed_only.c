/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters that no run changes are kept packed only: when the plain form goes, that it comes back unchanged for other
 * readers, that results are the same to the bit, and threads that share one parameter.
 */
#include <pthread.h>

#include "ops2_check.h"
#include "tensor/conv.h"
#include "tensor/weights.h"

#define S(...) ((int64_t[]){__VA_ARGS__})

typedef struct weight { /* a parameter in its own storage, and its values */
  crn_storage st;
  float *values;
  int rank;
  int64_t shape[4], n;
} weight;

static weight weight_new(int rank, const int64_t *shape, bool packed_only) {
  weight w = {.rank = rank, .n = crn_t_count(rank, shape)};
  memcpy(w.shape, shape, sizeof(int64_t) * (size_t)rank);
  const size_t bytes = sizeof(float) * (size_t)w.n;
  w.st = (crn_storage){.data = crn_malloc(bytes), .bytes = bytes, .is_param = true, .borrowed = true};
  w.st.packed_only = packed_only;
  w.values = malloc(bytes);
  assert_true(w.st.data && w.values);
  for (int64_t i = 0; i < w.n; i++) w.values[i] = (float)pseudo(i);
  memcpy(w.st.data, w.values, bytes);
  return w;
}

static void weight_free(weight *w) {
  crn_weight_free(&w->st);
  crn_free(w->st.data);
  free(w->values);
}

static crn_tensor *over(bench_run *b, weight *w) {
  return crn_t_over(&b->r, &w->st, CRN_F32, w->rank, w->shape, false);
}

static crn_tensor *rows_of(bench_run *b, int64_t n, int64_t K) {
  crn_tensor *x = crn_t_new(&b->r, CRN_F32, 2, S(n, K));
  for (int64_t i = 0; i < n * K; i++) crn_t_f32(x)[i] = (float)pseudo(90000 + i);
  return x;
}

static void assert_plain(const weight *w) {
  assert_non_null(w->st.data);
  assert_memory_equal(w->st.data, w->values, sizeof(float) * (size_t)w->n);
}

static void same_bits(const crn_tensor *a, const crn_tensor *b) {
  assert_true(a && b && crn_t_size(a) == crn_t_size(b));
  assert_memory_equal(crn_t_data(a), crn_t_data(b), sizeof(float) * (size_t)crn_t_size(a));
}

static void plain_goes_and_comes_back(void **state) {
  (void)state;
  for (int table = 0; crn_kernels_nth(table); table++)
    for (int trans = 0; trans < 2; trans++) {
      bench_run b;
      run_open(&b, CRN_F32, crn_kernels_nth(table)->name, 1);
      weight w = weight_new(2, trans ? S(45, 301) : S(301, 45), true), kept = weight_new(2, w.shape, false);
      crn_tensor *x = rows_of(&b, 7, 301), *t = over(&b, &w), *y = crn_linear(&b.r, x, t, trans, NULL);
      assert_null(w.st.data);
      same_bits(y, crn_linear(&b.r, x, over(&b, &kept), trans, NULL));
      assert_plain(&kept);
      same_bits(y, crn_linear(&b.r, x, t, trans, NULL)); /* nothing is packed again */
      assert_null(w.st.data);
      crn_tensor *z = rows_of(&b, 3, 45); /* the other way round: a second form from the first */
      same_bits(crn_linear(&b.r, z, t, !trans, NULL), crn_linear(&b.r, z, over(&b, &kept), !trans, NULL));
      assert_null(w.st.data);
      same_bits(crn_scale(&b.r, t, 2), crn_scale(&b.r, over(&b, &kept), 2)); /* reads the plain form: it stays */
      assert_plain(&w);
      same_bits(y, crn_linear(&b.r, x, t, trans, NULL));
      assert_plain(&w);
      weight_free(&w);
      weight_free(&kept);
      run_close(&b);
    }
}

static void a_part_is_not_enough(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  weight w = weight_new(2, S(70, 33), true);
  crn_tensor *t = over(&b, &w), *x = rows_of(&b, 2, 30), *z = rows_of(&b, 2, 40);
  assert_non_null(crn_linear(&b.r, z, crn_t_rows(&b.r, t, 30, 40), false, NULL));
  assert_plain(&w);
  assert_non_null(crn_linear(&b.r, x, crn_t_rows(&b.r, t, 0, 30), false, NULL));
  assert_null(w.st.data);
  crn_err err = {0};
  assert_int_equal(crn_weight_unpack(&w.st, &err), CRN_OK);
  assert_plain(&w);
  for (int64_t i = 0; i < w.n; i++) ((float *)w.st.data)[i] = w.values[i] = 1; /* other values are loaded */
  crn_weight_changed(&w.st);
  crn_tensor *one = crn_linear(&b.r, x, crn_t_rows(&b.r, t, 0, 30), false, NULL);
  assert_plain(&w);
  double sum = 0;
  for (int i = 0; i < 30; i++) sum += (double)crn_t_f32(x)[i];
  assert_true(fabs((double)crn_t_f32(one)[0] - sum) < 1e-5);
  assert_non_null(crn_linear(&b.r, z, crn_t_rows(&b.r, t, 30, 40), false, NULL));
  assert_null(w.st.data);
  weight_free(&w);
  run_close(&b);
}

static void filters(void **state) {
  (void)state;
  for (int groups = 1; groups <= 4; groups *= 2) { /* filters of groups are read as they are */
    bench_run b;
    run_open(&b, CRN_F32, NULL, 1);
    weight w = weight_new(3, S(3, 4 / groups, 8), true), kept = weight_new(3, w.shape, false);
    crn_tensor *x = crn_t_reshape(&b.r, rows_of(&b, 20, 4), 3, S(2, 10, 4));
    crn_conv_spec spec = {.n_spatial = 1, .groups = groups};
    for (int i = 0; i < 3; i++) spec.stride[i] = spec.dilation[i] = 1;
    same_bits(crn_conv(&b.r, x, over(&b, &w), &spec), crn_conv(&b.r, x, over(&b, &kept), &spec));
    assert_int_equal(w.st.data == NULL, groups == 1);
    weight_free(&w);
    weight_free(&kept);
    run_close(&b);
  }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

enum { THREADS = 4 };

typedef struct worker {
  weight *w;
  int number;
  float sum[2];
  bool failed;
} worker;

static void *work(void *arg) {
  worker *k = arg;
  bench_run b;
  run_open(&b, CRN_F32, k->number % 2 ? "reference" : NULL, 1);
  for (int i = 0; i < 20 && !k->failed; i++) {
    crn_tensor *t = over(&b, k->w), *x = rows_of(&b, 3, 64),
               *y = crn_linear(&b.r, x, t, (k->number + i) % 2 == 0, NULL),
               *all = i < 5 ? NULL : crn_reduce_all(&b.r, CRN_R_MAX, t); /* reads the plain form */
    k->failed = !y || (i >= 5 && (!all || crn_t_f32(all)[0] != k->sum[1]));
    if (!k->failed) k->sum[0] = crn_t_f32(y)[0];
    crn_run_reset(&b.r);
  }
  run_close(&b);
  return NULL;
}

static void threads_share_a_parameter(void **state) {
  (void)state;
  weight w = weight_new(2, S(64, 64), true);
  pthread_t threads[THREADS];
  worker workers[THREADS];
  float most = w.values[0];
  for (int64_t i = 0; i < w.n; i++) most = w.values[i] > most ? w.values[i] : most;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.w = &w, .number = i, .sum[1] = most};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) assert_false(workers[i].failed);
  assert_true(fabsf(workers[0].sum[0] - workers[2].sum[0]) == 0 && fabsf(workers[1].sum[0] - workers[3].sum[0]) == 0);
  assert_plain(&w);
  weight_free(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_goes_and_comes_back),
      cmocka_unit_test(a_part_is_not_enough),
      cmocka_unit_test(filters),
      cmocka_unit_test(threads_share_a_parameter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
