/* SPDX-License-Identifier: Apache-2.0
 *
 * Value trees: building, order, lookup in small and large dicts, comparison as in Python, copies, repr.
 */
#include "value/value.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static crn_arena arena;

static int free_arena(void **state) {
  (void)state;
  crn_arena_free(&arena);
  return 0;
}

static crn_value *read_literal(const char *text) {
  crn_value *v = NULL;
  crn_err err = {0};
  if (crn_v_parse_literal(&arena, text, "test", &v, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  return v;
}

static void check_repr(const crn_value *v, size_t max_len, const char *want) {
  crn_str s = {0};
  crn_v_repr(v, &s, max_len);
  assert_string_equal(crn_str_get(&s), want);
  crn_str_free(&s);
}

static void dict_keeps_order(void **state) {
  (void)state;
  crn_value *d = crn_v_dict(&arena);
  char key[16];
  for (int i = 0; i < 500; i++) {
    snprintf(key, sizeof key, "k%d", (i * 7) % 500);
    assert_true(crn_v_put(&arena, d, key, crn_v_int(&arena, i)));
  }
  assert_int_equal(crn_v_len(d), 500);
  assert_true(crn_v_put(&arena, d, "k0", crn_v_str(&arena, "replaced")));
  assert_int_equal(crn_v_len(d), 500);
  assert_string_equal(crn_v_cstr(crn_v_get(d, "k0")), "replaced");
  assert_string_equal(crn_v_cstr(d->u.dict.keys[1]), "k7");
  for (int i = 0; i < 500; i += 2) {
    snprintf(key, sizeof key, "k%d", i);
    assert_true(crn_v_del(d, key));
  }
  assert_false(crn_v_del(d, "k0"));
  assert_true(crn_v_put(&arena, d, "new", crn_v_none(&arena)));
  for (int i = 0; i < 500; i++) {
    snprintf(key, sizeof key, "k%d", i);
    assert_int_equal(crn_v_get(d, key) != NULL, i % 2);
  }
  assert_string_equal(crn_v_cstr(d->u.dict.keys[crn_v_len(d) - 1]), "new");
}

static void dict_keys_are_any_hashable(void **state) {
  (void)state;
  crn_value *d = read_literal("{1: 'a', (1, 'x'): 'b', None: 'c', 2.0: 'd', True: 'e'}");
  check_repr(d, 0, "{1: 'e', (1, 'x'): 'b', None: 'c', 2.0: 'd'}"); /* True == 1 */
  crn_value *big = crn_v_dict(&arena);
  for (int i = 0; i < 100; i++) crn_v_put_value(&arena, big, crn_v_int(&arena, i), crn_v_int(&arena, i));
  for (int i = 0; i < 100; i++) crn_v_put_value(&arena, big, crn_v_float(&arena, i), crn_v_int(&arena, -i));
  assert_int_equal(crn_v_len(big), 100);
  assert_int_equal(big->u.dict.vals[77]->u.i, -77);
  assert_false(crn_v_hashable(read_literal("(1, [2])")));
  assert_true(crn_v_hashable(read_literal("(1, (2, 'x'))")));
}

static void wrong_kinds_are_absent(void **state) {
  (void)state;
  crn_value *i = crn_v_int(&arena, 3);
  assert_null(crn_v_get(i, "x"));
  assert_null(crn_v_get(NULL, "x"));
  assert_null(crn_v_at(i, 0));
  assert_null(crn_v_cstr(i));
  assert_int_equal(crn_v_len(i), 0);
  assert_false(crn_v_put(&arena, i, "x", i));
  assert_false(crn_v_push(&arena, i, i));
  assert_false(crn_v_push(&arena, crn_v_seq(&arena, CRN_V_LIST), NULL));
  assert_true(crn_v_is_none(NULL) && !crn_v_truth(NULL));
  assert_string_equal(crn_v_kind_name(NULL), "NoneType");
}

static void equality_follows_python(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    bool equal;
  } cases[] = {
      {"1", "1.0", true},
      {"1", "True", true},
      {"0", "False", true},
      {"0.5", "1/2", true},
      {"nan", "nan", false},
      {"[1]", "(1,)", false},
      {"[1, 2]", "[1, 2]", true},
      {"[1, 2]", "[2, 1]", false},
      {"{1, 2}", "{2, 1}", true},
      {"{1, 2}", "{2, 3}", false},
      {"{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", true},
      {"{'a': 1}", "{'a': 2}", false},
      {"{'a': 1}", "{'b': 1}", false},
      {"'a'", "'a'", true},
      {"'a\\0b'", "'a\\0c'", false},
      {"None", "None", true},
      {"None", "0", false},
      {"''", "None", false},
      {"9007199254740993", "9007199254740992", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool equal = crn_v_equal(read_literal(cases[i].a), read_literal(cases[i].b));
    if (equal != cases[i].equal) fail_msg("%s == %s: %d", cases[i].a, cases[i].b, equal);
  }
}

static void truth_follows_python(void **state) {
  (void)state;
  const char *const yes[] = {"1", "-0.5", "nan", "'a'", "[0]", "(None,)", "{1}", "{0: 0}", "True"};
  const char *const no[] = {"0", "0.0", "-0.0", "''", "[]", "()", "set()", "{}", "False", "None"};
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) assert_true(crn_v_truth(read_literal(yes[i])));
  for (size_t i = 0; i < sizeof no / sizeof *no; i++) assert_false(crn_v_truth(read_literal(no[i])));
}

static void numbers_convert(void **state) {
  (void)state;
  int64_t i = 0;
  double f = 0;
  assert_true(crn_v_to_int(read_literal("3.0"), &i) && i == 3);
  assert_true(crn_v_to_int(read_literal("True"), &i) && i == 1);
  assert_false(crn_v_to_int(read_literal("3.5"), &i));
  assert_false(crn_v_to_int(read_literal("1e30"), &i));
  assert_false(crn_v_to_int(read_literal("nan"), &i));
  assert_false(crn_v_to_int(read_literal("inf"), &i));
  assert_false(crn_v_to_int(read_literal("'3'"), &i));
  assert_false(crn_v_to_int(NULL, &i));
  assert_true(crn_v_to_float(read_literal("3"), &f) && f == 3);
  assert_false(crn_v_to_float(read_literal("None"), &f));
}

static void copies_are_equal_and_apart(void **state) {
  (void)state;
  crn_arena other = {0};
  const char *text = "{'a': [1, (2.5, None)], 'b': {'c': {1, 2}}, 'd': 'x\\0y', 'e': True}";
  crn_value *v = NULL;
  assert_int_equal(crn_v_parse_literal(&other, text, "t", &v, NULL), CRN_OK);
  crn_value *copy = crn_v_copy(&arena, v);
  crn_value *third = crn_v_copy(&other, v);
  assert_true(crn_v_equal(v, copy));
  crn_v_put(&other, crn_v_get(third, "b"), "new", crn_v_none(&other));
  assert_false(crn_v_equal(v, third));
  crn_arena_free(&other); /* the copy must not need it */
  assert_true(crn_v_equal(copy, read_literal(text)));
  assert_null(crn_v_copy(&arena, NULL));
}

/* repr of what was read must be the text itself */
static void repr_is_pythons(void **state) {
  (void)state;
  const char *const same[] = {
      "None",
      "True",
      "-5",
      "9223372036854775807",
      "0.0",
      "-0.0",
      "1.0",
      "0.1",
      "0.0001",
      "1e-05",
      "1.5e-07",
      "123456789.125",
      "1e+16",
      "1234567890123456.0",
      "1e+22",
      "1.7976931348623157e+308",
      "5e-324",
      "nan",
      "inf",
      "-inf",
      "0.30000000000000004",
      "'a'",
      "\"it's\"",
      "'\"'",
      "'it\\'s \"x\"'",
      "'\\n\\t\\\\\\x00\\x7f'",
      "'äö€'",
      "[]",
      "[1, 2]",
      "()",
      "(1,)",
      "(1, 2)",
      "set()",
      "{1, 2}",
      "{}",
      "{'a': [1], 2: (3,)}",
  };
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) check_repr(read_literal(same[i]), 0, same[i]);
}

static void long_repr_is_cut(void **state) {
  (void)state;
  check_repr(read_literal("[1, 2, 3, 4, 5, 6, 7, 8, 9]"), 10, "[1, 2, 3, …");
  check_repr(read_literal("'ääääääää'"), 6, "'ää…"); /* not within a character */
  check_repr(read_literal("[1, 2]"), 6, "[1, 2]");
}

static void repr_of_other_kinds(void **state) {
  (void)state;
  crn_value *v = NULL;
  const char *json = "[{\"__dim__\": \"time\", \"size\": null, \"kind\": \"spatial\", \"id\": 0},"
                     "{\"__dim__\": {\"kind\": \"feature\", \"name\": \"f\", \"dim\": 5}},"
                     "{\"__callable__\": \"fn\"}, {\"__object__\": \"Foo\"},"
                     "{\"__ndarray__\": [[1, 2], [3, 4.5]], \"dtype\": \"float32\"},"
                     "{\"__ndarray__\": [1, 2], \"dtype\": \"int32\"}]";
  assert_int_equal(crn_v_parse_json(&arena, json, strlen(json), "t", &v, NULL), CRN_OK);
  check_repr(v, 0,
             "[Dim{'time' spatial}, Dim{'f' feature 5}, <function fn>, <Foo object>, "
             "array([[1.0, 2.0], [3.0, 4.5]], dtype=float32), array([1, 2], dtype=int32)]");
  assert_string_equal(crn_v_kind_name(crn_v_at(v, 0)), "Dim");
  assert_string_equal(crn_v_kind_name(crn_v_at(v, 2)), "function");
  assert_true(crn_v_equal(v, crn_v_copy(&arena, v)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(dict_keeps_order, free_arena),
      cmocka_unit_test_teardown(dict_keys_are_any_hashable, free_arena),
      cmocka_unit_test_teardown(wrong_kinds_are_absent, free_arena),
      cmocka_unit_test_teardown(equality_follows_python, free_arena),
      cmocka_unit_test_teardown(truth_follows_python, free_arena),
      cmocka_unit_test_teardown(numbers_convert, free_arena),
      cmocka_unit_test_teardown(copies_are_equal_and_apart, free_arena),
      cmocka_unit_test_teardown(repr_is_pythons, free_arena),
      cmocka_unit_test_teardown(long_repr_is_cut, free_arena),
      cmocka_unit_test_teardown(repr_of_other_kinds, free_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
