/* SPDX-License-Identifier: Apache-2.0
 *
 * base/: messages, nearest names, arena, text, map, log, file reading. Random numbers and threads have files of their
 * own.
 */
#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- status ---- */

static void first_failure_wins(void **state) {
  (void)state;
  crn_err err = {0};
  assert_string_equal(crn_err_text(&err), "");
  assert_int_equal(crn_fail(&err, CRN_E_CONFIG, "got \"%s\"", "ten"), CRN_E_CONFIG);
  assert_int_equal(crn_fail(&err, CRN_E_FILE, "later"), CRN_E_FILE);
  assert_string_equal(crn_err_text(&err), "got \"ten\"");
  assert_int_equal(err.code, CRN_E_CONFIG);
  crn_err_clear(&err);
  assert_int_equal(crn_fail(&err, CRN_E_FILE, "new"), CRN_E_FILE);
  assert_string_equal(crn_err_text(&err), "new");
  crn_err_clear(&err);
  assert_int_equal(crn_fail(NULL, CRN_E_DATA, "nobody listens"), CRN_E_DATA);
}

static void places_go_in_front(void **state) {
  (void)state;
  crn_err err = {0};
  assert_int_equal(crn_err_where(&err, "no failure"), CRN_OK);
  crn_fail(&err, CRN_E_CONFIG, "expected integer");
  assert_int_equal(crn_err_where(&err, "option '%s'", "n_out"), CRN_E_CONFIG);
  crn_err_where(&err, "layer 'output'");
  crn_err_append(&err, " (%d)", 7);
  assert_string_equal(crn_err_text(&err), "layer 'output' > option 'n_out': expected integer (7)");
  crn_err_clear(&err);
}

static void nearest_name_is_found(void **state) {
  (void)state;
  const char *const names[] = {"linear", "softmax", "rec", "n_out", "from", "batch_norm"};
  assert_string_equal(crn_nearest("lineer", names, 6), "linear");
  assert_string_equal(crn_nearest("nout", names, 6), "n_out");
  assert_string_equal(crn_nearest("fron", names, 6), "from");
  assert_string_equal(crn_nearest("sfotmax", names, 6), "softmax");
  assert_string_equal(crn_nearest("Batch-Norm", names, 6), "batch_norm");
  assert_null(crn_nearest("completely_else", names, 6));
  assert_null(crn_nearest("xyz", names, 6));
  assert_null(crn_nearest("", names, 6));
  char longest[300];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  assert_null(crn_nearest(longest, names, 6));
}

/* ---- arena ---- */

static void arena_gives_zeroed_aligned_memory(void **state) {
  (void)state;
  crn_arena a = {0};
  for (int round = 0; round < 4; round++) {
    for (size_t bytes = 0; bytes < 3000; bytes += 37) {
      unsigned char *p = crn_arena_alloc(&a, bytes);
      assert_non_null(p);
      assert_int_equal((uintptr_t)p % (bytes >= 64 ? 64 : 16), 0);
      for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0);
      if (bytes) memset(p, 0xFF, bytes);
    }
    crn_arena_reset(&a);
    assert_int_equal(a.used_bytes, 0);
  }
  crn_arena_free(&a);
}

static void arena_keeps_one_block_after_reset(void **state) {
  (void)state;
  crn_arena a = {0};
  for (int i = 0; i < 100; i++) assert_non_null(crn_arena_alloc(&a, 5000));
  crn_arena_reset(&a);
  crn_arena_block *kept = a.spare;
  assert_non_null(kept);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 100; i++) assert_non_null(crn_arena_alloc(&a, 5000));
    assert_ptr_equal(a.head, kept);
    assert_null(a.spare);
    crn_arena_reset(&a);
    assert_ptr_equal(a.spare, kept);
  }
  crn_arena_free(&a);
}

static void arena_copies_text(void **state) {
  (void)state;
  crn_arena a = {0};
  assert_string_equal(crn_arena_strdup(&a, "abc"), "abc");
  assert_string_equal(crn_arena_strndup(&a, "abcdef", 2), "ab");
  assert_string_equal(crn_arena_printf(&a, "%s-%d", "x", 42), "x-42");
  assert_null(crn_arena_strdup(&a, NULL));
  assert_false(a.failed);
  assert_null(crn_arena_alloc(&a, SIZE_MAX - 5));
  assert_true(a.failed);
  crn_arena_free(&a);
}

/* ---- text ---- */

static void text_grows(void **state) {
  (void)state;
  crn_str s = {0};
  assert_string_equal(crn_str_get(&s), "");
  for (int i = 0; i < 1000; i++) crn_str_addf(&s, "%d,", i % 10);
  assert_int_equal(s.len, 2000);
  crn_str_clear(&s);
  crn_str_add(&s, "ab");
  crn_str_addn(&s, "cdef", 2);
  crn_str_addc(&s, '!');
  assert_string_equal(crn_str_get(&s), "abcd!");
  assert_true(crn_str_ok(&s));
  crn_str_free(&s);
  assert_true(crn_starts_with("prev:out", "prev:") && !crn_starts_with("pre", "prev:"));
  assert_true(crn_ends_with("a.json", ".json") && !crn_ends_with("json", ".json"));
}

/* ---- map ---- */

static void map_keeps_order_and_finds(void **state) {
  (void)state;
  crn_map m = {0};
  static int values[1000];
  char key[16];
  assert_null(crn_map_get(&m, "none"));
  for (int i = 0; i < 1000; i++) {
    snprintf(key, sizeof key, "key%d", i);
    assert_int_equal(crn_map_set(&m, key, &values[i]), CRN_OK);
  }
  for (int i = 0; i < 1000; i += 3) {
    snprintf(key, sizeof key, "key%d", i);
    assert_true(crn_map_remove(&m, key));
    assert_false(crn_map_remove(&m, key));
  }
  for (int i = 0; i < 1000; i++) {
    snprintf(key, sizeof key, "key%d", i);
    assert_int_equal(crn_map_has(&m, key), i % 3 != 0);
    assert_ptr_equal(crn_map_get(&m, key), i % 3 ? &values[i] : NULL);
  }
  for (int i = 0; i < 1000; i++) { /* growth packs the removed ones away */
    snprintf(key, sizeof key, "more%d", i);
    assert_int_equal(crn_map_set(&m, key, &values[i]), CRN_OK);
  }
  int last = -1;
  for (size_t k = 0; k < m.n; k++) {
    if (!m.entries[k].key || strncmp(m.entries[k].key, "key", 3) != 0) continue;
    int i = (int)((int *)m.entries[k].value - values);
    assert_true(i > last);
    last = i;
  }
  assert_int_equal(crn_map_set(&m, "more5", &values[0]), CRN_OK);
  assert_ptr_equal(crn_map_get(&m, "more5"), &values[0]);
  crn_map_free(&m);
  assert_null(crn_map_get(&m, "more5"));
}

static void hash_is_fnv1a(void **state) {
  (void)state; /* published test values */
  assert_true(crn_hash("", 0) == 0xcbf29ce484222325u);
  assert_true(crn_hash("a", 1) == 0xaf63dc4c8601ec8cu);
  assert_true(crn_hash("foobar", 6) == 0x85944171f73967e8u);
}

/* ---- log ---- */

static void note_line(void *user, int level, const char *text) { crn_str_addf(user, "%d:%s\n", level, text); }

static void log_filters_and_formats(void **state) {
  (void)state;
  crn_str lines = {0};
  crn_log log = {.fn = note_line, .user = &lines, .verbosity = 3};
  crn_logf(&log, 3, "epoch %d", 1);
  crn_logf(&log, 4, "hidden");
  crn_warnf(&log, "odd %s", "thing");
  crn_logf(NULL, 1, "nowhere");
  assert_string_equal(crn_str_get(&lines), "3:epoch 1\n2:WARNING: odd thing\n");
  crn_str_clear(&lines);
  char wide[2000];
  memset(wide, 'w', sizeof wide - 1);
  wide[sizeof wide - 1] = '\0';
  crn_warnf(&log, "%s", wide);
  assert_int_equal(lines.len, strlen("2:WARNING: \n") + strlen(wide));
  crn_str_free(&lines);
}

/* ---- files ---- */

static void file_is_read_whole(void **state) {
  (void)state;
  char path[] = "/tmp/crn_test_base_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  char content[50000];
  for (size_t i = 0; i < sizeof content; i++) content[i] = (char)(i * 7);
  assert_int_equal(write(fd, content, sizeof content), sizeof content);
  close(fd);
  char *text = NULL;
  size_t len = 0;
  crn_err err = {0};
  assert_int_equal(crn_file_read(path, 0, &text, &len, &err), CRN_OK);
  assert_int_equal(len, sizeof content);
  assert_memory_equal(text, content, len);
  assert_int_equal(text[len], 0);
  crn_free(text);
  assert_int_equal(crn_file_read(path, 49999, &text, &len, &err), CRN_E_FORMAT);
  assert_non_null(strstr(crn_err_text(&err), path));
  assert_null(text);
  crn_err_clear(&err);
  unlink(path);
  assert_int_equal(crn_file_read(path, 0, &text, &len, &err), CRN_E_FILE);
  assert_non_null(strstr(crn_err_text(&err), "No such file"));
  crn_err_clear(&err);
  assert_int_equal(crn_file_read("/tmp", 0, &text, &len, &err), CRN_E_FILE);
  crn_err_clear(&err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_failure_wins),
      cmocka_unit_test(places_go_in_front),
      cmocka_unit_test(nearest_name_is_found),
      cmocka_unit_test(arena_gives_zeroed_aligned_memory),
      cmocka_unit_test(arena_keeps_one_block_after_reset),
      cmocka_unit_test(arena_copies_text),
      cmocka_unit_test(text_grows),
      cmocka_unit_test(map_keeps_order_and_finds),
      cmocka_unit_test(hash_is_fnv1a),
      cmocka_unit_test(log_filters_and_formats),
      cmocka_unit_test(file_is_read_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
