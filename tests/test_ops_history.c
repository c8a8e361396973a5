/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing histories: reading them gives what gathering and joining tensors gives, values and gradients; histories that
 * continue the same one don't disturb each other; what is given up goes back to the pool.
 */
#include "ops2_check.h"

#include "tensor/history.h"

#define S(...) ((int64_t[]){__VA_ARGS__})

enum { Q, W, FIRST, SECOND, THIRD, N_INPUTS };

/* Two sequences with 3 frames, 4 hypotheses of them with one more, other 4 with one more. */
static const int32_t to_first[4] = {1, 0, 1, 1}, to_second[4] = {3, 0, 0, 2};

static void make_inputs(input *in, int64_t d) {
  in[Q] = real_input(1, 1, true, 4, S(4, 2, 1, d));
  in[W] = real_input(2, 1, true, 4, S(4, 2, 1, 5));
  in[FIRST] = real_input(3, 1, true, 4, S(2, 2, 3, d));
  in[SECOND] = real_input(4, 1, true, 4, S(4, 2, 1, d));
  in[THIRD] = real_input(5, 1, true, 4, S(4, 2, 1, d));
}

static crn_tensor *rows(crn_run *r, const int32_t *from) { return crn_t_copy_in(r, CRN_I32, 1, S(4), from); }

static int build_history(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  crn_history *h = crn_history_move(r, crn_history_new(r, in[FIRST], 2), rows(r, to_first));
  h = crn_history_move(r, crn_history_append(r, h, in[SECOND]), rows(r, to_second));
  crn_history *all = crn_history_append(r, h, in[THIRD]);
  if (!crn_history_append(r, h, in[SECOND])) return 0; /* goes on from the same history: all stays as it is */
  out[0] = crn_history_energy(r, in[Q], all);
  out[1] = crn_history_sum(r, in[W], all);
  out[2] = crn_history_whole(r, all);
  return 3;
}

static int build_plain(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  (void)arg;
  crn_tensor *x = crn_gather(r, in[FIRST], rows(r, to_first), 0);
  x = crn_gather(r, crn_concat(r, 2, (crn_tensor *[]){x, in[SECOND]}, 2), rows(r, to_second), 0);
  x = crn_concat(r, 2, (crn_tensor *[]){x, in[THIRD]}, 2);
  out[0] = crn_matmul(r, in[Q], false, x, true);
  out[1] = crn_matmul(r, in[W], false, x, false);
  out[2] = crn_scale(r, x, 1);
  return 3;
}

static void test_reading(void **state) {
  (void)state;
  for (int64_t d = 1; d < 90; d = 3 * d + 2) {
    input in[N_INPUTS];
    make_inputs(in, d);
    if (d < 20) check_all(build_history, NULL, N_INPUTS, in);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result got = evaluate(&b, build_history, NULL, N_INPUTS, in, true, 0);
    result want = evaluate(&b, build_plain, NULL, N_INPUTS, in, true, 0);
    compare_results(&got, &want, 1e-12);
    for (int i = 0; i < N_INPUTS; i++)
      for (int64_t k = 0; k < count_of(in[i].rank, in[i].shape); k++)
        expect_close("gradient", i, k, got.grad[i][k], want.grad[i][k], 1e-12);
    result_free(&got);
    result_free(&want);
    run_close(&b);
    inputs_free(N_INPUTS, in);
  }
}

/* One piece after the other for many steps, as a search does it: only what is held lives. */
static void test_memory(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  crn_history *h = crn_history_new(r, crn_t_zeros(r, CRN_F32, 3, S(4, 0, 6)), 1);
  for (int t = 0; t < 50; t++) {
    crn_frame frame;
    crn_frame_open(r, &frame);
    crn_history *next = crn_history_append(r, h, crn_t_full(r, CRN_F32, 3, S(4, 1, 6), t));
    next = crn_history_move(r, next, rows(r, to_second));
    assert_non_null(next);
    crn_history_hold(next);
    crn_history_release(r, h);
    h = next;
    crn_frame_close(r);
    crn_tensor *whole = crn_history_whole(r, h);
    for (int k = 0; k <= t; k++) assert_true(crn_t_get(whole, k * 6 + 5) == k);
    for (int i = 0; i < h->n; i++) assert_int_equal(h->piece[i].v->st->refs, 1);
  }
  crn_history_release(r, h);
  for (int i = 0; i < h->n; i++) assert_null(h->piece[i].v->st->data);
  assert_false(crn_run_failed(r));
  run_close(&b);
}

/* What a frame hands on to the outer one lives until that is closed; the rest is given back at once. */
static void test_frame_results(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_run *r = &b.r;
  crn_frame outer, inner;
  const size_t before = crn_mem_get_stats(r->mem).live_bytes;
  crn_frame_open(r, &outer);
  crn_frame_open(r, &inner);
  crn_tensor *kept = crn_t_full(r, CRN_F32, 1, S(1000), 3), *dropped = crn_t_zeros(r, CRN_F32, 1, S(2000));
  crn_frame_close_with(r, 2, (crn_tensor *[]){kept, NULL});
  assert_null(dropped->st->data);
  assert_int_equal(kept->st->refs, 0);
  for (int i = 0; i < 1000; i++) assert_true(crn_t_get(kept, i) == 3);
  assert_true(crn_mem_get_stats(r->mem).live_bytes < before + 1100 * sizeof(float));
  crn_frame_close(r);
  assert_null(kept->st->data);
  assert_int_equal(crn_mem_get_stats(r->mem).live_bytes, before);
  assert_false(crn_run_failed(r));
  run_close(&b);
}

static void test_misfits(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_history *h = crn_history_new(&b.r, crn_t_zeros(&b.r, CRN_F32, 4, S(4, 2, 1, 6)), 2);
  assert_null(crn_history_append(&b.r, h, crn_t_zeros(&b.r, CRN_F32, 4, S(3, 2, 1, 6))));
  assert_non_null(strstr(crn_err_text(&b.err), "4 rows can't go on with [3, 2, 1, 6] float32"));
  run_close(&b);
  run_open(&b, CRN_F32, NULL, 1);
  h = crn_history_new(&b.r, crn_t_zeros(&b.r, CRN_F32, 4, S(4, 2, 1, 6)), 2);
  assert_null(crn_history_energy(&b.r, crn_t_zeros(&b.r, CRN_F32, 4, S(4, 2, 1, 5)), h));
  assert_non_null(strstr(crn_err_text(&b.err), "needs [N, H, 1, 6]"));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reading), cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_frame_results), cmocka_unit_test(test_misfits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
