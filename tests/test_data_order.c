/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders of sequences against vectors of the original program; the random generators against published numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/str.h"
#include "data/mt19937.h"
#include "data/order.h"

static const int64_t lens[10] = {5, 3, 9, 3, 7, 1, 8, 2, 6, 4};

static void check(const char *text, crn_seed_rule rule, int64_t epoch, const char *expected) {
  crn_err err = {0};
  crn_order o;
  assert_int_equal(crn_order_parse(text, &o, &err), CRN_OK);
  int64_t *out, n;
  assert_int_equal(crn_order_make(&o, 10, lens, crn_epoch_seed(&rule, epoch, o.same_epochs), &out, &n, &err), CRN_OK);
  int64_t begin = 0, end = n;
  if (rule.partition_epoch > 1) crn_order_part(n, rule.partition_epoch, epoch, &begin, &end);
  crn_str s = {0};
  for (int64_t i = begin; i < end; i++) crn_str_addf(&s, "%s%d", i > begin ? " " : "", (int)out[i]);
  assert_string_equal(crn_str_get(&s), expected);
  crn_str_free(&s);
  crn_free(out);
}

static void test_reference_vectors(void **state) {
  (void)state;
  crn_seed_rule plain = {.partition_epoch = 1};
  static const struct {
    const char *text, *epoch1, *epoch2;
  } rows[] = {
      {"default", "0 1 2 3 4 5 6 7 8 9", "0 1 2 3 4 5 6 7 8 9"},
      {"reverse", "9 8 7 6 5 4 3 2 1 0", "9 8 7 6 5 4 3 2 1 0"},
      {"sorted", "5 7 1 3 9 0 8 4 6 2", "5 7 1 3 9 0 8 4 6 2"},
      {"sorted_reverse", "2 6 4 8 0 9 1 3 7 5", "2 6 4 8 0 9 1 3 7 5"},
      {"random", "2 9 6 4 0 3 1 7 8 5", "4 1 5 0 7 2 3 6 9 8"},
      {"random_sample", "5 8 9 5 0 0 1 7 6 9", "8 8 6 2 8 7 2 1 5 4"},
      {"laplace", "9 0 4 6 2 8 3 1 7 5", "5 7 1 0 4 2 6 8 9 3"},
      {"laplace:2", "9 0 4 6 2 8 3 1 7 5", "5 7 1 0 4 2 6 8 9 3"},
      {"laplace:.3", "9 6 2 4 0 3 5 7 1 8", "5 1 4 2 0 7 3 9 8 6"},
      {"sort_bin_shuffle", "5 7 3 1 9 0 8 4 6 2", "5 7 1 3 9 0 8 4 6 2"},
      {"sort_bin_shuffle:3", "8 4 6 2 5 7 3 1 9 0", "5 7 1 8 4 6 2 3 9 0"},
      {"sort_bin_shuffle:.3", "8 4 6 2 5 7 3 1 9 0", "5 7 1 8 4 6 2 3 9 0"},
      {"sort_bin_shuffle_x2:3", "2 8 4 6 7 3 5 0 1 9", "7 5 1 6 4 2 8 9 3 0"},
      {"default_every_n:3", "0 3 6 1 4 7 2 5 8", "0 3 6 1 4 7 2 5 8"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    check(rows[i].text, plain, 1, rows[i].epoch1);
    check(rows[i].text, plain, 2, rows[i].epoch2);
  }
}

static void test_seeds(void **state) {
  (void)state;
  crn_seed_rule fixed = {.fixed = true, .fixed_seed = 7, .partition_epoch = 1};
  check("random", fixed, 1, "8 5 0 2 1 9 7 3 6 4");
  check("random", fixed, 2, "8 5 0 2 1 9 7 3 6 4");
  crn_seed_rule offset = {.seed_offset = 5, .partition_epoch = 1};
  check("random", offset, 1, "8 1 7 0 6 5 2 4 3 9");
  crn_seed_rule parts = {.partition_epoch = 3};
  check("random", parts, 1, "2 9 6 4");
  check("random", parts, 2, "0 3 1");
  check("random", parts, 3, "7 8 5");
  check("random", parts, 4, "4 1 5 0");
  crn_seed_rule plain = {.partition_epoch = 1}; /* k = 2: epochs 1 and 2 share the seed 1, epoch 3 has 2 */
  check("random:2", plain, 2, "2 9 6 4 0 3 1 7 8 5");
  check("random:2", plain, 3, "4 1 5 0 7 2 3 6 9 8");
  check("laplace::2", plain, 2, "9 0 4 6 2 8 3 1 7 5");
  check("random", plain, 0, "2 9 6 4 0 3 1 7 8 5"); /* no epoch counts as epoch 1 */
}

static void test_parts_cover_all(void **state) {
  (void)state;
  for (int64_t n = 0; n < 20; n++)
    for (int64_t parts = 1; parts < 7; parts++) {
      int64_t at = 0, begin, end;
      for (int64_t e = 1; e <= parts; e++) {
        crn_order_part(n, parts, e, &begin, &end);
        assert_int_equal(begin, at);
        assert_in_range(end - begin, n / parts, n / parts + 1);
        at = end;
      }
      assert_int_equal(at, n);
    }
}

static void refused(const char *text, const char *word) {
  crn_err err = {0};
  crn_order o;
  assert_int_equal(crn_order_parse(text, &o, &err), CRN_E_CONFIG);
  assert_non_null(strstr(crn_err_text(&err), word));
  crn_err_clear(&err);
}

static void test_wrong_names(void **state) {
  (void)state;
  refused("randm", "'random'");
  refused("sorted:3", "'3'");
  refused("laplace:x", "'x'");
  refused("laplace:0", "'0'");
  refused("laplace:.0", "'.0'");
  refused("laplace:2:3:4", "'4'");
  refused("default_every_n", "number");
  refused("random:", "''");
  refused("", "known are");
}

/* The first numbers that the authors of the generator publish for init_by_array {0x123, 0x234, 0x345, 0x456}. */
static void test_generator(void **state) {
  (void)state;
  crn_mt g;
  uint32_t key[] = {0x123, 0x234, 0x345, 0x456};
  crn_mt_seed_array(&g, key, 4);
  static const uint32_t expected[] = {1067595299u, 955945823u, 477289528u, 4107218783u, 4228976476u};
  for (int i = 0; i < 5; i++) assert_int_equal(crn_mt_bits(&g), expected[i]);
  crn_mt_seed(&g, 5489); /* the 10000th number after this seed is given in the C++ standard */
  for (int i = 0; i < 9999; i++) crn_mt_bits(&g);
  assert_int_equal(crn_mt_bits(&g), 4123659995u);
  crn_mt_seed_python(&g, 1); /* random.Random(1).random() */
  assert_float_equal(crn_mt_uniform(&g), 0.13436424411240122, 1e-15);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference_vectors), cmocka_unit_test(test_seeds),
      cmocka_unit_test(test_parts_cover_all),   cmocka_unit_test(test_wrong_names),
      cmocka_unit_test(test_generator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
