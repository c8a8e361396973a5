/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out under base/ and value/: every allocation in turn fails, alone or with all later ones. Each time:
 * CRN_E_MEMORY (or a failed flag), a message, no leak and no half state. Run it under sanitizers.
 */
#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/threads.h"
#include "value/value.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* These take the place of src/base/memory.c in this program. */
static long allocation, fail_at = -1;
static bool fail_all_later;

static bool fails(void) {
  long i = allocation++;
  return fail_at >= 0 && (fail_all_later ? i >= fail_at : i == fail_at);
}

void *crn_malloc(size_t bytes) { return fails() ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t size) { return fails() ? NULL : n && size ? calloc(n, size) : calloc(1, 1); }
void *crn_realloc(void *p, size_t bytes) { return fails() ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

typedef crn_status (*job_fn)(crn_err *err);

/* Runs job with allocation 0, 1, … failing until it no longer asks for so many. */
static void exhaust(job_fn job) {
  for (int later = 0; later < 2; later++) {
    fail_all_later = later;
    for (long at = 0; at < 100000; at++) {
      crn_err err = {0};
      allocation = 0;
      fail_at = at;
      crn_status status = job(&err);
      fail_at = -1;
      if (status == CRN_OK && allocation <= at) return crn_err_clear(&err);
      assert_true(status == CRN_E_MEMORY);
      assert_string_not_equal(crn_err_text(&err), "");
      crn_err_clear(&err);
    }
    fail_msg("never enough memory");
  }
}

static const char literal[] = "{'a': [1, -2.5, 'x' 'y' + 'z', None], 2: (1,), 'c': {1, 2}, 'd': [1] + [2, 3, 4, 5],\n"
                              "'long': ['................................................................', 7 ** 2]}";

/* A value that needs several blocks of an arena. */
static crn_status many_entries(crn_arena *a, crn_value **out, crn_err *err) {
  *out = crn_v_dict(a);
  for (int i = 0; i < 300; i++) {
    char key[2] = {(char)('A' + i % 26), 0};
    crn_value *list = crn_v_seq(a, CRN_V_LIST);
    if (!crn_v_push(a, list, crn_v_int(a, i)) || !crn_v_put_value(a, *out, crn_v_int(a, i), list) ||
        !crn_v_put(a, *out, key, crn_v_str(a, key)))
      return crn_err_memory(err);
  }
  return CRN_OK;
}

static crn_status literal_job(crn_err *err) {
  crn_arena a = {0};
  crn_value *v = NULL;
  crn_status status = crn_v_parse_literal(&a, literal, "text", &v, err);
  assert_int_equal(status == CRN_OK, v != NULL);
  assert_true(status == CRN_OK || err->code == CRN_E_MEMORY);
  crn_arena_free(&a);
  return status;
}

static crn_status json_job(crn_err *err) {
  static const char json[] = "{\"a\": [1, {\"__tuple__\": [2.5, null]}], \"b\": {\"__dim__\": \"t\", \"id\": 3},"
                             "\"c\": {\"__ndarray__\": [[1, 2]], \"dtype\": \"int32\"}, \"d\": {\"__set__\": [1]},"
                             "\"e\": {\"__callable__\": \"f\"}, \"f\": {\"__dict__\": [[1, 2]]}}";
  crn_arena a = {0};
  crn_value *v = NULL;
  crn_status status = crn_v_parse_json(&a, json, sizeof json - 1, "text", &v, err);
  assert_int_equal(status == CRN_OK, v != NULL);
  crn_arena_free(&a);
  return status;
}

static crn_status copy_job(crn_err *err) {
  crn_arena a = {0}, b = {0};
  crn_value *v = NULL;
  crn_status status = many_entries(&a, &v, err);
  if (status == CRN_OK) {
    crn_value *copy = crn_v_copy(&b, v);
    if (!copy)
      status = crn_err_memory(err);
    else
      assert_true(crn_v_equal(copy, v));
    assert_int_equal(b.failed, copy == NULL);
  }
  crn_arena_free(&b);
  crn_arena_free(&a);
  return status;
}

static crn_status reset_job(crn_err *err) {
  crn_arena a = {0};
  crn_status status = CRN_OK;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 20; i++) {
      char *p = crn_arena_alloc(&a, 3000);
      if (p)
        memset(p, 1, 3000);
      else
        status = crn_err_memory(err);
    }
    assert_true(!a.failed || status == CRN_E_MEMORY);
    crn_arena_reset(&a);
  }
  crn_arena_free(&a);
  /* a reset that can't join its blocks goes on with fresh ones: nothing to report, but an allocation has failed */
  if (status == CRN_OK && fail_at >= 0 && allocation > fail_at) return crn_err_memory(err);
  return status;
}

static crn_status text_job(crn_err *err) {
  crn_str s = {0};
  crn_arena a = {0};
  crn_value *v = NULL;
  crn_status status = crn_v_parse_literal(&a, literal, "text", &v, err);
  if (status == CRN_OK) crn_v_repr(v, &s, 0);
  if (status == CRN_OK && !crn_str_ok(&s)) status = crn_err_memory(err);
  if (status == CRN_OK) assert_string_equal(crn_str_get(&s) + s.len - 6, ", 49]}");
  crn_str_free(&s);
  crn_arena_free(&a);
  return status;
}

static crn_status map_job(crn_err *err) {
  crn_map m = {0};
  crn_status status = CRN_OK;
  int n = 0;
  for (; n < 60 && status == CRN_OK; n++) {
    char key[3] = {(char)('a' + n % 26), (char)('a' + n / 26), 0};
    status = crn_map_set(&m, key, &m);
    assert_int_equal(crn_map_has(&m, key), status == CRN_OK);
  }
  assert_int_equal(m.n, status == CRN_OK ? n : n - 1);
  crn_map_free(&m);
  return status == CRN_OK ? CRN_OK : crn_err_memory(err);
}

static crn_status threads_job(crn_err *err) {
  crn_threads *t = NULL;
  crn_status status = crn_threads_new(3, &t, err);
  assert_int_equal(status == CRN_OK, t != NULL);
  crn_threads_free(t);
  return status;
}

static crn_status file_job(crn_err *err) {
  char *text = NULL;
  size_t len = 0;
  crn_status status = crn_file_read(CRN_SOURCE_DIR "/CMakeLists.txt", 0, &text, &len, err);
  if (status == CRN_OK)
    assert_true(len > 100);
  else
    assert_null(text);
  crn_free(text);
  return status;
}

static void literal_survives(void **state) { (void)state, exhaust(literal_job); }
static void json_survives(void **state) { (void)state, exhaust(json_job); }
static void copy_survives(void **state) { (void)state, exhaust(copy_job); }
static void arena_survives(void **state) { (void)state, exhaust(reset_job); }
static void text_survives(void **state) { (void)state, exhaust(text_job); }
static void map_survives(void **state) { (void)state, exhaust(map_job); }
static void threads_survive(void **state) { (void)state, exhaust(threads_job); }
static void file_survives(void **state) { (void)state, exhaust(file_job); }

/* Without memory for the text the reason is kept, cut, and places can't be added; with memory again, all works. */
static void message_survives(void **state) {
  (void)state;
  crn_err err = {0};
  fail_all_later = true, allocation = 0, fail_at = 0;
  assert_int_equal(crn_fail(&err, CRN_E_CONFIG, "layer '%s': wrong", "output"), CRN_E_CONFIG);
  assert_string_equal(crn_err_text(&err), "layer 'output': wrong");
  assert_int_equal(crn_err_where(&err, "network"), CRN_E_CONFIG);
  assert_string_equal(crn_err_text(&err), "layer 'output': wrong");
  fail_at = -1;
  crn_err_where(&err, "network");
  assert_string_equal(crn_err_text(&err), "network: layer 'output': wrong");
  crn_err_clear(&err);
}

static void keep_length(void *user, int level, const char *text) {
  (void)level;
  *(size_t *)user = strlen(text);
}

static void log_line_is_cut(void **state) {
  (void)state;
  size_t len = 0;
  char wide[2000];
  crn_log log = {.fn = keep_length, .user = &len, .verbosity = 5};
  memset(wide, 'w', sizeof wide);
  fail_all_later = true, allocation = 0, fail_at = 0;
  crn_logf(&log, 1, "%.*s", (int)sizeof wide, wide);
  fail_at = -1;
  assert_int_equal(len, 511);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(literal_survives), cmocka_unit_test(json_survives), cmocka_unit_test(copy_survives),
      cmocka_unit_test(arena_survives),   cmocka_unit_test(text_survives), cmocka_unit_test(map_survives),
      cmocka_unit_test(threads_survive),  cmocka_unit_test(file_survives), cmocka_unit_test(message_survives),
      cmocka_unit_test(log_line_is_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
