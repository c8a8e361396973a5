/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers: the generator against the published vectors of Philox4x32-10, ranges, moments, independence of order.
 */
#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

enum { N = 200000 };

/* Known answers of the generator's authors (Random123, kat_vectors): counter and key all 0 / all 1 bits / digits of pi.
 * A stream fixes the kind of number in 4 bits of the counter, so only vectors with those bits zero can be asked for. */
static void philox_gives_the_published_words(void **state) {
  (void)state;
  crn_rng zero = {{0, 0}, {0, 0}};
  const uint32_t want[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (uint64_t i = 0; i < 4; i++) assert_int_equal(crn_rng_bits(&zero, i), want[i]);
}

static void streams_differ_by_seed_step_and_name(void **state) {
  (void)state;
  crn_rng r[] = {crn_rng_make(1, 0, "a"), crn_rng_make(2, 0, "a"),  crn_rng_make(1, 1, "a"),
                 crn_rng_make(1, 0, "b"), crn_rng_make(1, 0, NULL), crn_rng_make(1, UINT64_C(1) << 32, "a")};
  enum { K = sizeof r / sizeof *r };
  for (size_t x = 0; x < K; x++)
    for (size_t y = x + 1; y < K; y++) {
      int same = 0;
      for (uint64_t i = 0; i < 64; i++) same += crn_rng_bits(&r[x], i) == crn_rng_bits(&r[y], i);
      assert_int_equal(same, 0);
    }
  crn_rng again = crn_rng_make(1, 0, "a");
  assert_memory_equal(&again, &r[0], sizeof again);
}

static void fill_equals_single_draws(void **state) {
  (void)state;
  crn_rng r = crn_rng_make(42, 7, "drop");
  float out[150];
  for (uint64_t start = 0; start < 9; start++) {
    const uint64_t from = start < 5 ? start : (UINT64_C(1) << 34) - start; /* also where the counter carries */
    crn_rng_uniform_fill(&r, from, out, 150);
    for (uint64_t k = 0; k < 150; k++) assert_true(out[k] == crn_rng_uniform(&r, from + k));
  }
}

typedef double (*draw_fn)(const crn_rng *r, uint64_t i);
static double uniform_f(const crn_rng *r, uint64_t i) { return (double)crn_rng_uniform(r, i); }
static double normal_f(const crn_rng *r, uint64_t i) { return (double)crn_rng_normal(r, i); }
static double truncated_f(const crn_rng *r, uint64_t i) { return (double)crn_rng_truncated_normal(r, i); }

/* Mean and variance within 5 standard errors; neighbours uncorrelated; all in [low, high]. */
static void check_moments(draw_fn draw, double mean, double var, double low, double high) {
  crn_rng r = crn_rng_make(3, 5, "moments");
  double sum = 0, squares = 0, neighbours = 0, last = 0;
  for (uint64_t i = 0; i < N; i++) {
    double x = draw(&r, i);
    assert_true(x >= low && x <= high);
    sum += x;
    squares += (x - mean) * (x - mean);
    if (i) neighbours += (x - mean) * (last - mean);
    last = x;
  }
  double error = sqrt(var / N);
  assert_true(fabs(sum / N - mean) < 5 * error);
  assert_true(fabs(squares / N - var) < 5 * var * sqrt(2.0 / N));
  assert_true(fabs(neighbours / N) < 5 * var / sqrt(N));
}

static void moments_are_right(void **state) {
  (void)state;
  check_moments(uniform_f, 0.5, 1.0 / 12, 0, 1 - 0x1p-24);
  check_moments(crn_rng_uniform_double, 0.5, 1.0 / 12, 0, 1 - 0x1p-53);
  check_moments(normal_f, 0, 1, -7, 7);
  /* variance of a normal cut at 2: 1 - 2*2*pdf(2) / (cdf(2) - cdf(-2)) */
  check_moments(truncated_f, 0, 0.7737413035, -2, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_gives_the_published_words),
      cmocka_unit_test(streams_differ_by_seed_step_and_name),
      cmocka_unit_test(fill_equals_single_draws),
      cmocka_unit_test(moments_are_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
