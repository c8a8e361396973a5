/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: order, encodings of Python values, messages with places, and damaged text (every cut, many flipped bytes).
 */
#include "value/value.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static crn_arena arena;

static int free_arena(void **state) {
  (void)state;
  crn_arena_free(&arena);
  return 0;
}

static crn_value *read_json(const char *text) {
  crn_value *v = NULL;
  crn_err err = {0};
  if (crn_v_parse_json(&arena, text, strlen(text), "net.json", &v, &err) != CRN_OK)
    fail_msg("%s: %s", text, crn_err_text(&err));
  return v;
}

static void check(const char *text, const char *want) {
  crn_str s = {0};
  crn_v_repr(read_json(text), &s, 0);
  if (strcmp(crn_str_get(&s), want) != 0) fail_msg("%s: got %s, want %s", text, crn_str_get(&s), want);
  crn_str_free(&s);
}

static void check_refused(const char *text, const char *message) {
  crn_value *v = NULL;
  crn_err err = {0};
  if (crn_v_parse_json(&arena, text, strlen(text), "net.json", &v, &err) != CRN_E_FORMAT)
    fail_msg("%s: not refused", text);
  if (!strstr(crn_err_text(&err), message)) fail_msg("%s: got \"%s\"", text, crn_err_text(&err));
  assert_null(v);
  crn_err_clear(&err);
}

static void plain_values(void **state) {
  (void)state;
  check("null", "None");
  check("[true, false, 1, -2.5, 1e3, \"x\\u00e4\\n\"]", "[True, False, 1, -2.5, 1000.0, 'xä\\n']");
  check("{\"z\": 1, \"a\": {\"y\": [], \"b\": {}}, \"m\": 2}", "{'z': 1, 'a': {'y': [], 'b': {}}, 'm': 2}");
  assert_int_equal(read_json("\"a\\u0000b\"")->u.s.len, 3);
}

static void encoded_values(void **state) {
  (void)state;
  check("{\"__tuple__\": [null, {\"__tuple__\": []}]}", "(None, ())");
  check("{\"__set__\": [1, 1, 2]}", "{1, 2}");
  check("{\"__dict__\": [[1, \"a\"], [{\"__tuple__\": [1, 2]}, \"b\"]]}", "{1: 'a', (1, 2): 'b'}");
  check("[{\"__float__\": \"inf\"}, {\"__float__\": \"-inf\"}, {\"__float__\": \"nan\"}]", "[inf, -inf, nan]");
  check("{\"__stub__\": \"x\"}", "<x object>");
  check("{\"__ndarray__\": 3, \"dtype\": \"int8\"}", "array(3, dtype=int8)");
  check("{\"__ndarray__\": [[], []]}", "array([[], []], dtype=float64)");
  check("{\"__ndarray__\": [1, {\"__float__\": \"nan\"}]}", "array([1.0, nan], dtype=float64)");
}

static void dims(void **state) {
  (void)state;
  crn_value *v = read_json("[{\"__dim__\": \"time\", \"size\": null, \"kind\": \"spatial\", \"id\": 0},"
                           " {\"__dim__\": \"time\", \"size\": 7, \"kind\": \"feature\", \"id\": 1},"
                           " {\"__dim__\": \"other\", \"size\": null, \"kind\": \"spatial\", \"id\": 0},"
                           " {\"__dim__\": {\"kind\": \"spatial\", \"name\": \"hist\", \"dim\": null}},"
                           " {\"__dim__\": {\"kind\": \"spatial\", \"name\": \"hist\", \"dim\": 3}}]");
  const crn_vdim *d = &crn_v_at(v, 0)->u.dim;
  assert_string_equal(d->name, "time");
  assert_string_equal(d->kind, "spatial");
  assert_string_equal(d->id, "0");
  assert_int_equal(d->size, -1);
  assert_int_equal(crn_v_at(v, 1)->u.dim.size, 7);
  assert_null(crn_v_at(v, 3)->u.dim.id);
  assert_int_equal(crn_v_at(v, 4)->u.dim.size, 3);
  assert_false(crn_v_equal(crn_v_at(v, 0), crn_v_at(v, 1)));
  assert_true(crn_v_equal(crn_v_at(v, 0), crn_v_at(v, 2))); /* same id */
  assert_true(crn_v_equal(crn_v_at(v, 3), crn_v_at(v, 4))); /* same name */
}

static void faults_are_placed(void **state) {
  (void)state;
  check_refused("{\"a\": 1,\n \"b\": }", "net.json:2:");
  check_refused("{\"a\": 1} x", "net.json:1:");
  check_refused("{\"a\": 1, \"a\": 2}", "duplicate object key");
  check_refused("[99999999999999999999]", "too big integer");
  check_refused("", "net.json:");
  check_refused("{\"n\": {\"s\": {\"__tuple__\": 3}}}",
                "net.json > 'n' > 's' > __tuple__: expected a list, got an integer");
  check_refused("{\"__tuple__\": [], \"x\": 1}", "key \"x\" beside \"__tuple__\"");
  check_refused("{\"__set__\": [[1]]}", "a list can't be in a set");
  check_refused("{\"__dict__\": [[1]]}", "expected [key, value] pairs");
  check_refused("{\"__dict__\": [[[1], 2]]}", "a list can't be a dict's key");
  check_refused("{\"__float__\": \"big\"}", "got \"big\"");
  check_refused("{\"__ndarray__\": [[1, 2], [3]]}", "unequal length");
  check_refused("{\"__ndarray__\": [[1, 2], [3, [4]]]}", "expected a number, got a list");
  check_refused("{\"__ndarray__\": [[1], [2], 3]}", "axis 1");
  check_refused("{\"__ndarray__\": [\"a\"]}", "expected a number, got a string");
  check_refused("{\"__dim__\": \"t\", \"kind\": \"spacial\"}", "expected batch, spatial, time or feature, got spacial");
  check_refused("{\"__dim__\": \"t\", \"size\": -3}", "expected integer >= 0 or null");
  check_refused("{\"__dim__\": 5}", "a dim's name as a string");
  check_refused("{\"__callable__\": null}", "expected a name, got null");
}

static void depth_is_limited(void **state) {
  (void)state;
  enum { DEEP = 100000 };
  char *text = malloc(DEEP + 1);
  assert_non_null(text);
  memset(text, '[', DEEP);
  text[DEEP] = '\0';
  crn_value *v = NULL;
  assert_int_equal(crn_v_parse_json(&arena, text, DEEP, "deep", &v, NULL), CRN_E_FORMAT);
  memset(text + 500, ']', 500);
  assert_int_equal(crn_v_parse_json(&arena, text, 1000, "deep", &v, NULL), CRN_E_FORMAT);
  memset(text + 200, ']', 200);
  assert_int_equal(crn_v_parse_json(&arena, text, 400, "deep", &v, NULL), CRN_OK);
  free(text);
}

static void file_is_read(void **state) {
  (void)state;
  char path[] = "/tmp/crn_test_json_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "{\"a\": 5}", 8), 8);
  close(fd);
  crn_value *v = NULL;
  crn_err err = {0};
  assert_int_equal(crn_v_read_json(&arena, path, &v, &err), CRN_OK);
  assert_int_equal(crn_v_get(v, "a")->u.i, 5);
  unlink(path);
  assert_int_equal(crn_v_read_json(&arena, path, &v, &err), CRN_E_FILE);
  assert_non_null(strstr(crn_err_text(&err), path));
  crn_err_clear(&err);
}

static const char everything[] =
    "{\"a\": [1, -2.5e3, true, null], \"b\": {\"__tuple__\": [\"\\u00e4\"]}, \"c\": {\"__set__\": [1]},\n"
    "\"d\": {\"__dict__\": [[1, 2]]}, \"e\": {\"__float__\": \"inf\"}, \"f\": {\"__ndarray__\": [[1, 2], [3, 4]],\n"
    "\"dtype\": \"int32\"}, \"g\": {\"__dim__\": \"t\", \"size\": 3, \"kind\": \"time\", \"id\": 1},\n"
    "\"h\": {\"__dim__\": {\"kind\": \"batch\", \"name\": \"x\", \"dim\": 1}}, \"i\": {\"__callable__\": \"f\"}}";

static void read_damaged(const char *text, size_t len) {
  crn_err err = {0};
  crn_value *v = NULL;
  crn_status status = crn_v_parse_json(&arena, text, len, "damaged", &v, &err);
  assert_true(status == CRN_OK || status == CRN_E_FORMAT);
  assert_int_equal(status == CRN_OK, v != NULL);
  assert_int_equal(status == CRN_OK, crn_err_text(&err)[0] == '\0');
  crn_err_clear(&err);
  crn_arena_reset(&arena);
}

static void damaged_text_is_harmless(void **state) {
  (void)state;
  size_t n = strlen(everything);
  for (size_t cut = 0; cut <= n; cut++) {
    char *text = malloc(cut ? cut : 1);
    assert_non_null(text);
    memcpy(text, everything, cut);
    read_damaged(text, cut);
    free(text);
  }
  char *text = malloc(n);
  assert_non_null(text);
  static const char swaps[] = "\"\\[]{},:_0-9et\n\x80\xff";
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < sizeof swaps; k++) {
      memcpy(text, everything, n);
      text[i] = swaps[k];
      read_damaged(text, n);
    }
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(plain_values, free_arena),
      cmocka_unit_test_teardown(encoded_values, free_arena),
      cmocka_unit_test_teardown(dims, free_arena),
      cmocka_unit_test_teardown(faults_are_placed, free_arena),
      cmocka_unit_test_teardown(depth_is_limited, free_arena),
      cmocka_unit_test_teardown(file_is_read, free_arena),
      cmocka_unit_test_teardown(damaged_text_is_harmless, free_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
