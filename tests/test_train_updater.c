/* SPDX-License-Identifier: Apache-2.0
 *
 * The updater: every stage of the way from gradient to new weight on hand-computed numbers, rows of gathered
 * parameters, accumulation, equal results for any number of threads, no allocation in the steady state, and mistakes.
 *
 * The allocation functions are replaced here, so that the test can count them and let one fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/updater.h"

static atomic_long n_allocations, fail_at; /* fail_at: number of the allocation that fails, 0 = none */

static bool refuse(void) {
  long n = atomic_fetch_add(&n_allocations, 1) + 1;
  return n == atomic_load(&fail_at);
}

void *crn_malloc(size_t bytes) { return refuse() ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t size) { return refuse() ? NULL : calloc(n ? n : 1, size ? size : 1); }
void *crn_realloc(void *p, size_t bytes) { return refuse() ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

static crn_value *literal(crn_arena *a, const char *text) {
  crn_err err = {0};
  crn_value *v = NULL;
  if (crn_v_parse_literal(a, text, "test", &v, &err) != CRN_OK) fail_msg("%s: %s", text, crn_err_text(&err));
  return v;
}

static crn_updater *updater(crn_arena *a, const char *config, const crn_update_param *params, size_t n,
                            crn_threads *threads) {
  crn_err err = {0};
  crn_updater *u = NULL;
  if (crn_updater_new(literal(a, config), params, n, 1, threads, NULL, &u, &err) != CRN_OK)
    fail_msg("%s: %s", config, crn_err_text(&err));
  return u;
}

static void step(crn_updater *u, const crn_update_grad *grads, double lr, int64_t global_step) {
  crn_err err = {0};
  crn_update_now now = {.lr = lr, .global_step = global_step, .epoch_step = global_step};
  if (crn_updater_step(u, grads, &now, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
}

static crn_update_param vector_param(const char *name, double *w, int64_t n) {
  return (crn_update_param){.name = name, .w = w, .is_double = true, .rows = n, .row_len = 1, .trainable = true};
}

static crn_update_grad dense(void *g) { return (crn_update_grad){.kind = CRN_GRAD_DENSE, .values = g}; }

/* One step of gradient descent with rate 1 on one parameter [n] with weights 0; what was subtracted comes back in g. */
static void effective(const char *config, double *g, int64_t n, const char *opts) {
  crn_arena a = {0};
  double w[16] = {0};
  crn_update_param p = vector_param("p", w, n);
  if (opts) p.updater_opts = literal(&a, opts);
  crn_updater *u = updater(&a, config, &p, 1, NULL);
  crn_update_grad grad = dense(g);
  step(u, &grad, 1, 0);
  for (int64_t i = 0; i < n; i++) g[i] = -w[i];
  crn_updater_free(u);
  crn_arena_free(&a);
}

#define EXPECT(config, opts, in, out)                                                                                  \
  do {                                                                                                                 \
    double g_[] = in, want_[] = out;                                                                                   \
    size_t n_ = sizeof g_ / sizeof g_[0];                                                                              \
    effective(config, g_, (int64_t)n_, opts);                                                                          \
    for (size_t i_ = 0; i_ < n_; i_++)                                                                                 \
      if (!(fabs(g_[i_] - want_[i_]) < 1e-12) && !(isnan(g_[i_]) && isnan(want_[i_])))                                 \
        fail_msg("line %d, %s element %d: %.17g, expected %.17g", __LINE__, config, (int)i_, g_[i_], want_[i_]);       \
  } while (0)
#define A(...)                                                                                                         \
  { __VA_ARGS__ }

static void test_clips(void **state) {
  (void)state;
  EXPECT("{}", NULL, A(3, -4), A(3, -4));
  EXPECT("{'gradient_clip': 2}", NULL, A(3, -4, 1), A(2, -2, 1));
  EXPECT("{'gradient_clip_norm': 2.5}", NULL, A(3, -4), A(1.5, -2));
  EXPECT("{'gradient_clip_norm': 50}", NULL, A(3, -4), A(3, -4));
  EXPECT("{'gradient_clip_avg_norm': 0.25}", NULL, A(3, -4), A(.3, -.4));
  EXPECT("{'gradient_clip_global_norm': 1}", NULL, A(3, -4), A(.6, -.8));
  /* in this order; the global norm is that of the raw gradient (5, not 4) */
  EXPECT("{'gradient_clip': 3, 'gradient_clip_global_norm': 2.5}", NULL, A(3, -4), A(1.5, -1.5));
  /* norm of the clipped (3,-3): 4.2426 -> 2; then avg: 2/2 = 1 -> .5; then global 5 -> 2.5 */
  EXPECT(
      "{'gradient_clip': 3, 'gradient_clip_norm': 2, 'gradient_clip_avg_norm': 0.5, 'gradient_clip_global_norm': 2.5}",
      NULL, A(3, -4), A(3 * 2 / (3 * M_SQRT2) * .25, -3 * 2 / (3 * M_SQRT2) * .25));
  EXPECT("{'gradient_clip': 1}", "{'gradient_clip': 3}", A(3, -4), A(3, -3));
  EXPECT("{'gradient_clip': 1}", "{'gradient_clip': 0}", A(3, -4), A(3, -4));
}

static void test_nonfinite(void **state) {
  (void)state;
  EXPECT("{'gradient_nan_inf_filter': True}", NULL, A(NAN, INFINITY, 2, -INFINITY), A(0, 0, 2, 0));
  EXPECT("{}", NULL, A(NAN, 2), A(NAN, 2));
  EXPECT("{'gradient_clip_global_norm': 1}", NULL, A(INFINITY, 2), A(NAN, NAN));
  EXPECT("{'gradient_clip_global_norm': 1, 'gradient_nan_inf_filter': True}", NULL, A(INFINITY, 2), A(0, 0));
  EXPECT("{'gradient_clip': 1}", NULL, A(INFINITY, 2, NAN), A(1, 1, NAN));
}

static void test_zero_above_norm(void **state) {
  (void)state;
  EXPECT("{'grad_norm_to_clip_to_zero': 4.9}", NULL, A(3, -4), A(0, 0));
  EXPECT("{'grad_norm_to_clip_to_zero': 5}", NULL, A(3, -4), A(3, -4));
  EXPECT("{'grad_norm_to_clip_to_zero': 100}", NULL, A(NAN, -4), A(0, 0));
  EXPECT("{'grad_norm_to_clip_to_zero': 100, 'gradient_clip': 1}", NULL, A(INFINITY, -4), A(0, 0));
}

/* Norms over all parameters or over those with a tag. */
static void test_tags(void **state) {
  (void)state;
  crn_arena a = {0};
  double w[3] = {0}, g[3] = {3, -4, 12};
  crn_update_param p[3] = {vector_param("a", &w[0], 1), vector_param("b", &w[1], 1), vector_param("c", &w[2], 1)};
  p[0].updater_opts = literal(&a, "{'tags': ['x'], 'gradient_clip_global_norm_tag': 'x', 'global_norm_tag': 'y'}");
  p[1].updater_opts = literal(&a, "{'tags': ['x', 'y'], 'global_norm_tag': 'x'}");
  crn_updater *u = updater(&a, "{'gradient_clip_global_norm': 1.0}", p, 3, NULL);
  crn_update_grad grads[3] = {dense(&g[0]), dense(&g[1]), dense(&g[2])};
  step(u, grads, 1, 0);
  assert_true(fabs(w[0] + 3. / 5) < 1e-12);
  assert_true(fabs(w[1] - 4. / 5) < 1e-12);
  assert_true(fabs(w[2] + 12. / 13) < 1e-12);
  assert_true(fabs(crn_updater_global_norm(u) - 13) < 1e-12);
  crn_updater_free(u);
  crn_arena_free(&a);
}

/* ---- accumulation, decay --------------------------------------------------------------------------------------------
 */

static void test_accumulation(void **state) {
  (void)state;
  crn_arena a = {0};
  double w = 0, v = 0, m = 0;
  crn_update_param p[2] = {vector_param("a", &w, 1), vector_param("b", &v, 1)};
  p[1].updater_opts = literal(&a, "{'accum_grad_multiple_step': 1}");
  crn_updater *u =
      updater(&a, "{'accum_grad_multiple_step': 3, 'optimizer': {'class': 'momentum', 'momentum': 0.5}}", p, 2, NULL);
  /* starts in the middle of a cycle, as after a resume: the first update has two terms */
  double want = 0;
  for (int64_t s = 4; s < 12; s++) {
    double g = (double)s, h = 1;
    crn_update_grad grads[2] = {dense(&g), dense(&h)};
    step(u, grads, 0.1, s);
    if (s == 5) m = 4 + 5, want -= 0.1 * m;
    if (s == 8) m = 0.5 * m + 6 + 7 + 8, want -= 0.1 * m;
    if (s == 11) m = 0.5 * m + 9 + 10 + 11, want -= 0.1 * m;
    assert_true(fabs(w - want) < 1e-12);
    assert_true(v < -0.09 * (double)(s - 3));
  }
  crn_updater_free(u);
  crn_arena_free(&a);
}

/* The clip by global norm looks at the raw gradient of the micro-step, not at the sum. */
static void test_accumulation_and_norms(void **state) {
  (void)state;
  crn_arena a = {0};
  double w[2] = {0};
  crn_update_param p = vector_param("a", w, 2);
  crn_updater *u = updater(&a, "{'accum_grad_multiple_step': 2, 'gradient_clip_global_norm': 1}", &p, 1, NULL);
  double g0[2] = {30, 40}, g1[2] = {0.6, 0};
  crn_update_grad grad = dense(g0);
  step(u, &grad, 1, 0);
  grad = dense(g1);
  step(u, &grad, 1, 1);
  assert_true(fabs(w[0] + 30.6) < 1e-12 && fabs(w[1] + 40) < 1e-12);
  crn_updater_free(u);
  u = updater(&a, "{'accum_grad_multiple_step': 2, 'gradient_clip_norm': 5}", &p, 1, NULL);
  w[0] = w[1] = 0;
  double h0[2] = {30, 40}, h1[2] = {-27, -36};
  grad = dense(h0);
  step(u, &grad, 1, 0);
  grad = dense(h1);
  step(u, &grad, 1, 1); /* sum (3, 4), norm 5 */
  assert_true(fabs(w[0] + 3) < 1e-12 && fabs(w[1] + 4) < 1e-12);
  crn_updater_free(u);
  crn_arena_free(&a);
}

static void test_decoupled_decay(void **state) {
  (void)state;
  crn_arena a = {0};
  double w[2] = {1, -2};
  crn_update_param p = vector_param("a", w, 2);
  p.l2 = 0.05;
  crn_updater *u = updater(&a, "{'decouple_constraints': True, 'accum_grad_multiple_step': 2}", &p, 1, NULL);
  double g[2] = {1, 1};
  crn_update_grad grad = dense(g);
  step(u, &grad, 0.01, 0); /* accumulates only, decays all the same; not times the learning rate */
  assert_true(fabs(w[0] - 0.9) < 1e-12 && fabs(w[1] + 1.8) < 1e-12);
  g[0] = g[1] = 1;
  step(u, &grad, 0.01, 1);
  assert_true(fabs(w[0] - (0.81 - 0.02)) < 1e-12 && fabs(w[1] - (-1.62 - 0.02)) < 1e-12);
  crn_updater_free(u);
  w[0] = 1;
  u = updater(&a, "{}", &p, 1, NULL); /* without the key the L2 is part of the gradient already */
  g[0] = 0;
  step(u, &grad, 0.01, 0);
  assert_true(w[0] == 1);
  crn_updater_free(u);
  crn_arena_free(&a);
}

/* ---- noise ----------------------------------------------------------------------------------------------------------
 */

static void test_noise(void **state) {
  (void)state;
  enum { N = 20000 };
  crn_arena a = {0};
  static float w[N], g[N], first[N];
  crn_update_param p = {.name = "layer/W", .w = w, .rows = 100, .row_len = N / 100, .trainable = true};
  crn_update_grad grad = dense(g);
  for (int run = 0; run < 2; run++) { /* same numbers in every run */
    crn_updater *u = updater(&a, "{'gradient_noise': 0.5}", &p, 1, NULL);
    memset(w, 0, sizeof w);
    memset(g, 0, sizeof g);
    step(u, &grad, 1, 7);
    if (run == 0) memcpy(first, w, sizeof w);
    assert_memory_equal(first, w, sizeof w);
    memset(g, 0, sizeof g);
    memset(w, 0, sizeof w);
    step(u, &grad, 1, 8); /* other numbers in the next step */
    int same = 0;
    for (int i = 0; i < N; i++) same += w[i] == first[i];
    assert_true(same < 5);
    crn_updater_free(u);
  }
  double sum = 0, sq = 0, largest = 0;
  for (int i = 0; i < N; i++) {
    double x = (double)first[i];
    sum += x, sq += x * x;
    largest = fmax(largest, fabs(x));
  }
  assert_true(fabs(sum / N) < 0.02);
  assert_true(largest <= 1.0 && largest > 0.95);         /* redrawn beyond two sigma */
  assert_true(fabs(sqrt(sq / N) - 0.5 * 0.8796) < 0.01); /* standard deviation of the cut normal distribution */
  crn_arena_free(&a);
}

/* ---- rows -----------------------------------------------------------------------------------------------------------
 */

enum { ROWS = 4, LEN = 2 };

/* Two steps with rows {2,0,2} then {1}; the weights after each. */
static void rows_run(const char *config, double w1[ROWS * LEN], double w2[ROWS * LEN]) {
  crn_arena a = {0};
  double w[ROWS * LEN] = {1, 2, 3, 4, 5, 6, 7, 8};
  crn_update_param p = {.name = "E", .w = w, .is_double = true, .rows = ROWS, .row_len = LEN, .trainable = true};
  crn_updater *u = updater(&a, config, &p, 1, NULL);
  double g1[] = {1, -1, .5, .25, 2, 3}, g2[] = {-.5, 1};
  int32_t i1[] = {2, 0, 2}, i2[] = {1};
  crn_update_grad grad = {.kind = CRN_GRAD_ROWS, .values = g1, .indices = i1, .n_indices = 3};
  step(u, &grad, 0.1, 0);
  memcpy(w1, w, sizeof w);
  grad = (crn_update_grad){.kind = CRN_GRAD_ROWS, .values = g2, .indices = i2, .n_indices = 1};
  step(u, &grad, 0.1, 1);
  memcpy(w2, w, sizeof w);
  crn_updater_free(u);
  crn_arena_free(&a);
}

/* The same as a dense gradient. */
static void dense_run(const char *config, double w1[ROWS * LEN], double w2[ROWS * LEN]) {
  crn_arena a = {0};
  double w[ROWS * LEN] = {1, 2, 3, 4, 5, 6, 7, 8};
  crn_update_param p = {.name = "E", .w = w, .is_double = true, .rows = ROWS, .row_len = LEN, .trainable = true};
  crn_updater *u = updater(&a, config, &p, 1, NULL);
  double g1[] = {.5, .25, 0, 0, 3, 2, 0, 0}, g2[] = {0, 0, -.5, 1, 0, 0, 0, 0};
  crn_update_grad grad = dense(g1);
  step(u, &grad, 0.1, 0);
  memcpy(w1, w, sizeof w);
  grad = dense(g2);
  step(u, &grad, 0.1, 1);
  memcpy(w2, w, sizeof w);
  crn_updater_free(u);
  crn_arena_free(&a);
}

static void expect_rows(const char *config, bool first_equal, bool second_equal) {
  double r1[ROWS * LEN], r2[ROWS * LEN], d1[ROWS * LEN], d2[ROWS * LEN], diff1 = 0, diff2 = 0;
  rows_run(config, r1, r2);
  dense_run(config, d1, d2);
  for (int i = 0; i < ROWS * LEN; i++) {
    diff1 = fmax(diff1, fabs(r1[i] - d1[i]));
    diff2 = fmax(diff2, fabs(r2[i] - d2[i]));
  }
  if ((diff1 < 1e-12) != first_equal || (diff2 < 1e-12) != second_equal)
    fail_msg("%s: difference to dense %g after one step, %g after two", config, diff1, diff2);
}

static void test_rows_against_dense(void **state) {
  (void)state;
  static const char *const as_dense[] = {"{}",
                                         "{'optimizer': {'class': 'adam'}, 'optimizer_epsilon': 1e-3}",
                                         "{'optimizer': {'class': 'normalizedsgd'}}",
                                         "{'optimizer': {'class': 'neuraloptimizer1'}}",
                                         "{'optimizer': {'class': 'adagrad'}}", /* no decay: the same either way */
                                         "{'accum_grad_multiple_step': 1, 'optimizer': {'class': 'amsgrad'}}",
                                         "{'gradient_noise': 1e-3, 'optimizer': {'class': 'nadam'}}"};
  for (size_t i = 0; i < sizeof as_dense / sizeof as_dense[0]; i++) expect_rows(as_dense[i], true, true);
  /* rows that don't occur are left alone: seen in the second step, where dense momentum would go on */
  static const char *const touched[] = {"{'optimizer': {'class': 'momentum', 'momentum': 0.9}}",
                                        "{'optimizer': {'class': 'rmsprop', 'momentum': 0.9}}",
                                        "{'optimizer': {'class': 'nadam'}, 'optimizer_epsilon': 1e-3}"};
  for (size_t i = 0; i < sizeof touched / sizeof touched[0]; i++) expect_rows(touched[i], true, false);
  expect_rows("{'optimizer': {'class': 'customadam'}, 'optimizer_epsilon': 1e-3}", false, false);
}

static void test_untouched_rows_stay(void **state) {
  (void)state;
  static const char *const configs[] = {"{'optimizer': {'class': 'momentum', 'momentum': 0.9}}",
                                        "{'optimizer': {'class': 'rmsprop', 'momentum': 0.9}}",
                                        "{'optimizer': {'class': 'adadelta'}}", "{'optimizer': {'class': 'nadam'}}",
                                        "{'optimizer': {'class': 'customadam'}}"};
  for (size_t c = 0; c < sizeof configs / sizeof configs[0]; c++) {
    double w1[ROWS * LEN], w2[ROWS * LEN];
    rows_run(configs[c], w1, w2);
    assert_true(w1[2] == 3 && w1[3] == 4 && w2[6] == 7 && w2[7] == 8);
    assert_true(w1[0] != 1 && w2[0] == w1[0] && w2[4] == w1[4] && w2[2] != 3);
  }
}

/* customadam: two occurrences of a row are two updates with the same step number. */
static void test_repeats_one_by_one(void **state) {
  (void)state;
  double w1[ROWS * LEN], w2[ROWS * LEN], m = 0, v = 0, w = 5;
  rows_run("{'optimizer': {'class': 'customadam'}, 'optimizer_epsilon': 1e-3}", w1, w2);
  for (int k = 1; k <= 2; k++) {
    double g = k;
    m = .9 * m + .1 * g;
    v = .999 * v + .001 * g * g;
    w -= 0.1 * sqrt(1 - .999) / (1 - .9) * m / (sqrt(v) + 1e-3);
  }
  assert_true(fabs(w1[4] - w) < 1e-12);
}

/* nadam: m and v of the other rows decay, seen when the row comes back. */
static void test_nadam_decays_state(void **state) {
  (void)state;
  crn_arena a = {0};
  double w[2] = {0}, g[1];
  int32_t index[1];
  crn_update_param p = vector_param("E", w, 2);
  crn_updater *u = updater(&a, "{'optimizer': {'class': 'nadam'}}", &p, 1, NULL);
  crn_update_grad grad = {.kind = CRN_GRAD_ROWS, .values = g, .indices = index, .n_indices = 1};
  for (int s = 0; s < 3; s++) {
    g[0] = 1;
    index[0] = s == 0 ? 0 : 1;
    step(u, &grad, 0.1, s);
  }
  const double *m = crn_updater_slot(u, 0, 0), *v = crn_updater_slot(u, 0, 1);
  assert_true(fabs(m[0] - .1 * .81) < 1e-15 && fabs(v[0] - .001 * .999 * .999) < 1e-15);
  crn_updater_free(u);
  crn_arena_free(&a);
}

/* Norms and clips see rows per occurrence: 1 and 1 are norm sqrt(2), not 2. */
static void test_rows_are_clipped_per_occurrence(void **state) {
  (void)state;
  crn_arena a = {0};
  static const struct {
    const char *config;
    double want;
  } cases[] = {{"{'gradient_clip': 0.75}", 1.5},
               {"{'gradient_clip_norm': 1}", 2 / M_SQRT2},
               {"{'gradient_clip_global_norm': 1}", 2 / M_SQRT2},
               {"{'grad_norm_to_clip_to_zero': 1.5}", 2},
               {"{'gradient_clip_global_norm': 1, 'accum_grad_multiple_step': 1}", 2 / M_SQRT2}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    double w[3] = {0}, g[2] = {1, 1};
    int32_t index[2] = {1, 1};
    crn_update_param p = vector_param("E", w, 3);
    crn_updater *u = updater(&a, cases[c].config, &p, 1, NULL);
    crn_update_grad grad = {.kind = CRN_GRAD_ROWS, .values = g, .indices = index, .n_indices = 2};
    step(u, &grad, 1, 0);
    if (!(fabs(w[1] + cases[c].want) < 1e-12)) fail_msg("%s: %g", cases[c].config, w[1]);
    assert_true(w[0] == 0 && w[2] == 0);
    crn_updater_free(u);
  }
  crn_arena_free(&a);
}

static void test_rows_accumulate(void **state) {
  (void)state;
  crn_arena a = {0};
  double w[3] = {0}, g[2];
  int32_t index[2] = {1, 1};
  crn_update_param p = vector_param("E", w, 3);
  crn_updater *u = updater(&a, "{'accum_grad_multiple_step': 2}", &p, 1, NULL);
  crn_update_grad grad = {.kind = CRN_GRAD_ROWS, .values = g, .indices = index, .n_indices = 2};
  for (int s = 0; s < 4; s++) {
    g[0] = 1, g[1] = 2;
    index[1] = s % 2 ? 2 : 1;
    step(u, &grad, 1, s);
  }
  assert_true(w[0] == 0 && w[1] == -8 && w[2] == -4);
  /* no gradient in the last step of the cycle: the sum of the others is applied */
  g[0] = 1, g[1] = 1;
  double other = 0, h = 1;
  crn_updater_free(u);
  crn_update_param two[2] = {p, vector_param("o", &other, 1)};
  w[1] = 0, w[2] = 0;
  u = updater(&a, "{'accum_grad_multiple_step': 2}", two, 2, NULL);
  crn_update_grad grads[2] = {grad, dense(&h)};
  step(u, grads, 1, 0);
  grads[0].kind = CRN_GRAD_NONE;
  h = 1;
  step(u, grads, 1, 1);
  assert_true(w[1] == -1 && w[2] == -1 && other == -2);
  crn_updater_free(u);
  crn_arena_free(&a);
}

/* ---- state
 * ------------------------------------------------------------------------------------------------------------ */

static void test_reset(void **state) {
  (void)state;
  crn_arena a = {0};
  double w = 0, g;
  crn_update_param p = vector_param("a", &w, 1);
  crn_updater *u = updater(&a, "{'optimizer': {'class': 'adam'}, 'reset_updater_vars_mod_step': 3}", &p, 1, NULL);
  crn_update_grad grad = dense(&g);
  for (int s = 0; s < 5; s++) {
    g = 1;
    step(u, &grad, 0.1, s);
    const double *m = crn_updater_slot(u, 0, 0);
    assert_true(fabs(*m - (1 - pow(0.9, s % 3 + 1))) < 1e-12);
  }
  crn_updater_reset(u);
  g = 1;
  double before = w;
  step(u, &grad, 0.1, 1);
  assert_true(fabs(w - (before - 0.1)) < 1e-9); /* the first step of adam again */
  crn_updater_free(u);
  crn_arena_free(&a);
}

static void test_own_optimizer(void **state) {
  (void)state;
  crn_arena a = {0};
  double w[3] = {0}, g[3] = {1, 1, 1};
  crn_update_param p[3] = {vector_param("a", &w[0], 1), vector_param("b", &w[1], 1), vector_param("c", &w[2], 1)};
  p[1].updater_opts = literal(&a, "{'optimizer': {'class': 'GradientDescent', 'learning_rate_multiplier': 10}}");
  p[2].trainable = false;
  p[2].updater_opts = literal(&a, "{'optimizer': {'class': 'GradientDescent'}}");
  crn_updater *u = updater(&a, "{'adam': True}", p, 3, NULL);
  assert_string_equal(crn_updater_optimizer(u, 0)->desc->name, "adam");
  assert_string_equal(crn_updater_optimizer(u, 1)->desc->name, "gradientdescent");
  assert_null(crn_updater_optimizer(u, 2));
  crn_update_grad grads[3] = {dense(&g[0]), dense(&g[1]), dense(&g[2])};
  step(u, grads, 0.5, 0);
  assert_true(fabs(w[0] + 0.5) < 1e-9 && w[1] == -5 && w[2] == 0);
  crn_updater_free(u);
  crn_arena_free(&a);
}

/* ---- threads, memory
 * ---------------------------------------------------------------------------------------------------- */

enum { BIG_ROWS = 301, BIG_LEN = 157, BIG = BIG_ROWS * BIG_LEN, OCCURRENCES = 200, BIG_STEPS = 4 };

/* A dense parameter, an embedding and a bias over a few steps with everything switched on. */
static void big_run(const char *config, crn_threads *threads, float *out) {
  crn_arena a = {0};
  float *w = out, *g = malloc(sizeof(float) * BIG), *rows = malloc(sizeof(float) * OCCURRENCES * BIG_LEN), bias_g[5];
  int32_t index[OCCURRENCES];
  crn_update_param p[3] = {{.name = "W", .w = w, .rows = BIG_ROWS, .row_len = BIG_LEN, .trainable = true, .l2 = 1e-3},
                           {.name = "E", .w = w + BIG, .rows = BIG_ROWS, .row_len = BIG_LEN, .trainable = true},
                           {.name = "b", .w = w + 2 * BIG, .rows = 5, .row_len = 1, .trainable = true}};
  for (int i = 0; i < 2 * BIG + 5; i++) w[i] = (float)sin(i * 0.37);
  crn_updater *u = updater(&a, config, p, 3, threads);
  for (int s = 0; s < BIG_STEPS; s++) {
    for (int i = 0; i < BIG; i++) g[i] = (float)cos(i * 0.11 + s);
    for (int i = 0; i < OCCURRENCES * BIG_LEN; i++) rows[i] = (float)cos(i * 0.7 + s);
    for (int i = 0; i < OCCURRENCES; i++) index[i] = (i * i + s) % BIG_ROWS;
    for (int i = 0; i < 5; i++) bias_g[i] = (float)i;
    crn_update_grad grads[3] = {
        dense(g), {.kind = CRN_GRAD_ROWS, .values = rows, .indices = index, .n_indices = OCCURRENCES}, dense(bias_g)};
    long before = atomic_load(&n_allocations);
    step(u, grads, 0.01, s);
    if (s >= 2) assert_int_equal(atomic_load(&n_allocations), before); /* nothing new once everything has been used */
  }
  crn_updater_free(u);
  crn_arena_free(&a);
  free(g);
  free(rows);
}

static void test_threads_and_memory(void **state) {
  (void)state;
  static const char *const configs[] = {
      "{'optimizer': {'class': 'adam'}, 'gradient_clip_global_norm': 1.0, 'gradient_clip': 0.9}",
      "{'optimizer': {'class': 'nadam'}, 'gradient_noise': 0.1, 'accum_grad_multiple_step': 2}",
      "{'optimizer': {'class': 'normalizedsgd'}, 'gradient_clip_norm': 2.0, 'decouple_constraints': True}",
      "{'optimizer': {'class': 'customadam'}, 'gradient_clip_avg_norm': 1e-4}",
      "{'optimizer': {'class': 'momentum', 'momentum': 0.9}, 'grad_norm_to_clip_to_zero': 1e9}"};
  crn_err err = {0};
  float *one = malloc(sizeof(float) * (2 * BIG + 5)), *many = malloc(sizeof(float) * (2 * BIG + 5));
  for (size_t c = 0; c < sizeof configs / sizeof configs[0]; c++) {
    big_run(configs[c], NULL, one);
    for (int n = 2; n <= 5; n += 3) {
      crn_threads *threads = NULL;
      assert_int_equal(crn_threads_new(n, &threads, &err), CRN_OK);
      big_run(configs[c], threads, many);
      assert_memory_equal(one, many, sizeof(float) * (2 * BIG + 5));
      crn_threads_free(threads);
    }
  }
  free(one);
  free(many);
}

/* Every allocation in turn fails: an error, no crash, no leak; the next try works. */
static void test_out_of_memory(void **state) {
  (void)state;
  crn_arena a = {0};
  double w[8] = {0}, g[8], e[8] = {0}, rows[4];
  int32_t index[2] = {1, 1};
  crn_update_param p[2] = {vector_param("a", w, 8),
                           {.name = "E", .w = e, .is_double = true, .rows = 4, .row_len = 2, .trainable = true}};
  const crn_value *config = literal(&a, "{'optimizer': {'class': 'adam'}, 'gradient_clip_global_norm': 1.0}");
  bool finished = false;
  for (long k = 1; !finished; k++) {
    crn_err err = {0};
    crn_updater *u = NULL;
    assert_true(k < 200);
    atomic_store(&n_allocations, 0);
    atomic_store(&fail_at, k);
    crn_status status = crn_updater_new(config, p, 2, 1, NULL, NULL, &u, &err);
    if (status == CRN_OK) {
      crn_update_grad grads[2] = {dense(g), {.kind = CRN_GRAD_ROWS, .values = rows, .indices = index, .n_indices = 2}};
      crn_update_now now = {.lr = 0.1};
      for (int i = 0; i < 8; i++) g[i] = 1;
      for (int i = 0; i < 4; i++) rows[i] = 1;
      status = crn_updater_step(u, grads, &now, &err);
      finished = status == CRN_OK && atomic_load(&n_allocations) < k;
      atomic_store(&fail_at, 0);
      if (status != CRN_OK) assert_int_equal(crn_updater_step(u, grads, &now, NULL), CRN_OK);
    }
    atomic_store(&fail_at, 0);
    if (status != CRN_OK) assert_int_equal(status, CRN_E_MEMORY);
    crn_err_clear(&err);
    crn_updater_free(u);
  }
  crn_arena_free(&a);
}

/* ---- mistakes
 * ------------------------------------------------------------------------------------------------------------ */

static void test_mistakes(void **state) {
  (void)state;
  static const struct {
    const char *config, *opts, *text;
    crn_status status;
  } bad[] = {
      {"{'gradient_clip': -1}", NULL, "gradient_clip", CRN_E_CONFIG},
      {"{'gradient_noise': 'loud'}", NULL, "gradient_noise", CRN_E_CONFIG},
      {"{'grad_norm_to_clip_to_zero': -0.5}", NULL, "grad_norm_to_clip_to_zero", CRN_E_CONFIG},
      {"{'accum_grad_multiple_step': -2}", NULL, "accum_grad_multiple_step", CRN_E_CONFIG},
      {"{'accum_grad_multiple_step': 2.5}", NULL, "accum_grad_multiple_step", CRN_E_CONFIG},
      {"{'maximize_grad_norm': 0.1}", NULL, "not implemented", CRN_E_NOT_IMPLEMENTED},
      {"{'optimizer': {'class': 'adamm'}}", NULL, "did you mean 'adam'", CRN_E_CONFIG},
      {"{}", "{'gradient_clipp': 1}", "did you mean 'gradient_clip'", CRN_E_CONFIG},
      {"{}", "{'tags': 'x'}", "tags", CRN_E_CONFIG},
      {"{}", "{'tags': [1]}", "tags", CRN_E_CONFIG},
      {"{}", "{'gradient_clip': 'a'}", "parameter 'layer/W' > updater_opts", CRN_E_CONFIG},
      {"{}", "{'optimizer': {'beta1': 1}}", "beta1", CRN_E_CONFIG},
      {"{}", "['tags']", "dict", CRN_E_CONFIG},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    crn_arena a = {0};
    crn_err err = {0};
    crn_updater *u = NULL;
    double w = 0;
    crn_update_param p = vector_param("layer/W", &w, 1);
    if (bad[i].opts) p.updater_opts = literal(&a, bad[i].opts);
    crn_status status = crn_updater_new(literal(&a, bad[i].config), &p, 1, 1, NULL, NULL, &u, &err);
    if (status != bad[i].status || !strstr(crn_err_text(&err), bad[i].text))
      fail_msg("%s %s: status %d, %s", bad[i].config, bad[i].opts ? bad[i].opts : "", (int)status, crn_err_text(&err));
    assert_null(u);
    crn_err_clear(&err);
    crn_arena_free(&a);
  }
}

static void test_nothing_to_do(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  crn_updater *u = NULL;
  double w = 0;
  crn_update_param p = vector_param("a", &w, 1);
  p.trainable = false;
  assert_int_equal(crn_updater_new(literal(&a, "{}"), &p, 1, 1, NULL, NULL, &u, &err), CRN_E_CONFIG);
  assert_non_null(strstr(crn_err_text(&err), "no trainable parameter"));
  crn_err_clear(&err);
  p.trainable = true;
  u = updater(&a, "{}", &p, 1, NULL);
  crn_update_grad grad = {.kind = CRN_GRAD_NONE};
  crn_update_now now = {.lr = 1};
  assert_int_equal(crn_updater_step(u, &grad, &now, &err), CRN_E_CONFIG);
  assert_non_null(strstr(crn_err_text(&err), "no parameter has a gradient"));
  crn_err_clear(&err);
  int32_t index = 3;
  double g = 1;
  grad = (crn_update_grad){.kind = CRN_GRAD_ROWS, .values = &g, .indices = &index, .n_indices = 1};
  assert_int_equal(crn_updater_step(u, &grad, &now, &err), CRN_E_INTERNAL);
  crn_err_clear(&err);
  assert_true(w == 0);
  crn_updater_free(u);
  crn_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_clips),
      cmocka_unit_test(test_nonfinite),
      cmocka_unit_test(test_zero_above_norm),
      cmocka_unit_test(test_tags),
      cmocka_unit_test(test_accumulation),
      cmocka_unit_test(test_accumulation_and_norms),
      cmocka_unit_test(test_decoupled_decay),
      cmocka_unit_test(test_noise),
      cmocka_unit_test(test_rows_against_dense),
      cmocka_unit_test(test_untouched_rows_stay),
      cmocka_unit_test(test_repeats_one_by_one),
      cmocka_unit_test(test_nadam_decays_state),
      cmocka_unit_test(test_rows_are_clipped_per_occurrence),
      cmocka_unit_test(test_rows_accumulate),
      cmocka_unit_test(test_reset),
      cmocka_unit_test(test_own_optimizer),
      cmocka_unit_test(test_threads_and_memory),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_nothing_to_do),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
