/* SPDX-License-Identifier: Apache-2.0
 *
 * What the conformance runner's comparison accepts and what it doesn't: a comparison that passes everything would make
 * all vectors worthless.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/array.c"

void rep_fail(report *r, const char *fmt, ...) {
  (void)r;
  (void)fmt;
}

/* [B=2, T=3] with lengths 3, 1. */
static double values[6] = {1, -2, 4, 8, 100, 100};
static double lengths[2] = {3, 1};
static const array want = {.v = values, .rank = 2, .shape = {2, 3}, .n = 6, .parts = 1, .is_float = true};
static const array lens = {.v = lengths, .rank = 1, .shape = {2}, .n = 2, .parts = 1};
static const frames valid_frames = {.lens = {NULL, &lens}, .by = {{-1, -1}, {0, -1}}};
static const tolerance tol = {.relative = 1e-4, .absolute = 0};

static bool agrees(const array *a, const frames *f, crn_dtype dtype, int64_t B, int64_t T, void *data) {
  crn_storage st = {.data = data};
  const crn_tensor t = {.st = &st, .dtype = dtype, .rank = 2, .shape = {B, T}};
  return array_compare(NULL, "x", a, f, &t, tol);
}

static void test_padding_is_free(void **state) {
  (void)state;
  float same[6] = {1, -2, 4, 8, -7, NAN};
  float wider[8] = {1, -2, 4, 9, 8, 9, 9, 9};
  float narrow[4] = {1, -2, 8, 0};
  assert_true(agrees(&want, &valid_frames, CRN_F32, 2, 3, same));
  assert_true(agrees(&want, &valid_frames, CRN_F32, 2, 4, wider));
  assert_false(agrees(&want, &valid_frames, CRN_F32, 2, 2, narrow)); /* a valid frame is missing */
  assert_false(agrees(&want, NULL, CRN_F32, 2, 3, same));            /* all count */
}

static void test_scale_is_of_valid_frames(void **state) {
  (void)state;
  assert_true(array_scale(&want, &valid_frames) == 8);
  assert_true(array_scale(&want, NULL) == 100);
}

static void test_tolerance(void **state) {
  (void)state;
  float close[6] = {1.0007f, -2, 4, 8, 0, 0}; /* 8e-4 is allowed */
  float far[6] = {1.0009f, -2, 4, 8, 0, 0};
  assert_true(agrees(&want, &valid_frames, CRN_F32, 2, 3, close));
  assert_false(agrees(&want, &valid_frames, CRN_F32, 2, 3, far));
}

static void test_integers_exactly(void **state) {
  (void)state;
  array ints = want;
  ints.is_float = false;
  int32_t same[6] = {1, -2, 4, 8, 0, 0}, other[6] = {1, -2, 5, 8, 0, 0};
  assert_true(agrees(&ints, &valid_frames, CRN_I32, 2, 3, same));
  assert_false(agrees(&ints, &valid_frames, CRN_I32, 2, 3, other));
}

static void test_inf_and_nan(void **state) {
  (void)state;
  double v[6] = {NAN, INFINITY, -INFINITY, -1e30, 0, 0};
  array a = want;
  a.v = v;
  float same[6] = {NAN, INFINITY, -INFINITY, -1e30f, 0, 0};
  assert_true(array_scale(&a, &valid_frames) == 0); /* a stand-in for infinity loosens nothing */
  assert_true(agrees(&a, &valid_frames, CRN_F32, 2, 3, same));
  for (int i = 0; i < 4; i++) {
    float other[6];
    memcpy(other, same, sizeof other);
    other[i] = i == 3 ? -INFINITY : 1;
    assert_false(agrees(&a, &valid_frames, CRN_F32, 2, 3, other));
  }
  float sign[6] = {NAN, INFINITY, INFINITY, -1e30f, 0, 0};
  assert_false(agrees(&a, &valid_frames, CRN_F32, 2, 3, sign));
  float nan[6] = {1, -2, NAN, 8, 0, 0};
  assert_false(agrees(&want, &valid_frames, CRN_F32, 2, 3, nan));
}

static void test_lengths_without_batch_axis(void **state) {
  (void)state;
  const frames longest = {.lens = {NULL, &lens}, .by = {{-1, -1}, {-1, -1}}};
  float wrong_in_row_2[6] = {1, -2, 4, 8, 100, 0};
  assert_false(agrees(&want, &longest, CRN_F32, 2, 3, wrong_in_row_2)); /* all up to the longest count */
}

static void test_shapes(void **state) {
  (void)state;
  float v[9] = {1, -2, 4, 8, 100, 100, 0, 0, 0};
  assert_false(agrees(&want, &valid_frames, CRN_F32, 3, 3, v)); /* more sequences */
  crn_storage st = {.data = v};
  const crn_tensor flat = {.st = &st, .dtype = CRN_F32, .rank = 1, .shape = {6}};
  assert_false(array_compare(NULL, "x", &want, NULL, &flat, tol));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_padding_is_free), cmocka_unit_test(test_scale_is_of_valid_frames),
      cmocka_unit_test(test_tolerance),       cmocka_unit_test(test_integers_exactly),
      cmocka_unit_test(test_inf_and_nan),     cmocka_unit_test(test_lengths_without_batch_axis),
      cmocka_unit_test(test_shapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
