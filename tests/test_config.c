/* SPDX-License-Identifier: Apache-2.0
 *
 * Configs that need no Python: JSON and line files, typed reading, paths, command-line options, known keys.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/keys.h"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/crn_config_XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

static const char *write_file(const char *name, const char *text) {
  static char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  return path;
}

static crn_config *load(const char *name, const char *text) {
  crn_err err = {0};
  crn_config *c;
  if (crn_config_load(write_file(name, text), NULL, &c, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  return c;
}

static void expect_text(const crn_err *err, const char *part) {
  if (!strstr(crn_err_text(err), part)) fail_msg("'%s' isn't in: %s", part, crn_err_text(err));
}

static void collect(void *user, int level, const char *text) { crn_str_addf(user, "%d %s\n", level, text); }

static void test_json(void **state) {
  (void)state;
  crn_config *c = load("a.json", "{\"batch_size\": 500, \"learning_rate\": 0.5, \"model\": \"out/m\", \"adam\": true,\n"
                                 " \"extern_data\": {\"data\": {\"shape\": {\"__tuple__\": [null, 3]}}}, \"dev\": null,"
                                 " \"learning_rates\": [1, 0.5]}");
  crn_err err = {0};
  int64_t i;
  double f;
  bool b;
  const char *s;
  crn_value *v;
  assert_int_equal(crn_config_int(c, "batch_size", 1, &i, &err), CRN_OK);
  assert_int_equal(i, 500);
  assert_int_equal(crn_config_int(c, "max_seqs", -1, &i, &err), CRN_OK);
  assert_int_equal(i, -1);
  assert_int_equal(crn_config_float(c, "batch_size", 1, &f, &err), CRN_OK);
  assert_true(f == 500);
  assert_int_equal(crn_config_float(c, "learning_rate", 1, &f, &err), CRN_OK);
  assert_true(f == 0.5);
  assert_int_equal(crn_config_bool(c, "adam", false, &b, &err), CRN_OK);
  assert_true(b);
  assert_int_equal(crn_config_str(c, "model", NULL, &s, &err), CRN_OK);
  assert_string_equal(s, "out/m");
  assert_int_equal(crn_config_dict(c, "extern_data", &v, &err), CRN_OK);
  assert_int_equal(crn_v_get(crn_v_get(v, "data"), "shape")->kind, CRN_V_TUPLE);
  assert_int_equal(crn_config_dict(c, "dev", &v, &err), CRN_OK);
  assert_null(v);
  assert_int_equal(crn_config_list(c, "learning_rates", &v, &err), CRN_OK);
  assert_int_equal(crn_v_len(v), 2);
  assert_int_equal(crn_config_list(c, "model", &v, &err), CRN_OK); /* one value: a list of it */
  assert_int_equal(crn_v_len(v), 1);
  assert_int_equal(err.code, CRN_OK);
  crn_config_free(c);
}

static void test_wrong_types(void **state) {
  (void)state;
  crn_config *c = load("b.json", "{\"batch_size\": \"ten\", \"num_epochs\": 1.5, \"network\": [1], \"model\": 3}");
  crn_err err = {0};
  int64_t i;
  const char *s;
  crn_value *v;
  assert_int_equal(crn_config_int(c, "batch_size", 1, &i, &err), CRN_E_CONFIG);
  expect_text(&err, "/b.json: key 'batch_size': expected int, got 'ten'");
  crn_err_clear(&err);
  assert_int_equal(crn_config_int(c, "num_epochs", 1, &i, &err), CRN_E_CONFIG);
  expect_text(&err, "key 'num_epochs': expected int, got 1.5");
  crn_err_clear(&err);
  assert_int_equal(crn_config_dict(c, "network", &v, &err), CRN_E_CONFIG);
  expect_text(&err, "expected dict, got [1]");
  crn_err_clear(&err);
  assert_int_equal(crn_config_str(c, "model", NULL, &s, &err), CRN_E_CONFIG);
  expect_text(&err, "expected str, got 3");
  crn_err_clear(&err);
  crn_config_free(c);
}

static void test_lines(void **state) {
  (void)state;
  crn_config *c = load("old.config", "# an old config\ntask train\nbatch_size 5000  # frames\n\nlearning_rate 1e-3\n"
                                     "adam true\nfiles a.hdf, b.hdf\nbatching random\n");
  crn_err err = {0};
  int64_t i;
  double f;
  bool b;
  crn_value *v;
  assert_int_equal(crn_config_int(c, "batch_size", 1, &i, &err), CRN_OK);
  assert_int_equal(i, 5000);
  assert_int_equal(crn_config_float(c, "learning_rate", 1, &f, &err), CRN_OK);
  assert_true(f == 1e-3);
  assert_int_equal(crn_config_bool(c, "adam", false, &b, &err), CRN_OK);
  assert_true(b);
  assert_int_equal(crn_config_list(c, "files", &v, &err), CRN_OK);
  assert_int_equal(crn_v_len(v), 2);
  assert_string_equal(crn_v_cstr(crn_v_at(v, 1)), "b.hdf");
  assert_int_equal(crn_config_get(c, "batch_size")->kind, CRN_V_INT); /* known keys have their type */
  assert_int_equal(crn_config_get(c, "batch_size")->line, 3);
  crn_config_free(c);

  assert_int_equal(crn_config_load(write_file("old3.config", "num_epochs ten\n"), NULL, &c, &err), CRN_E_CONFIG);
  expect_text(&err, "old3.config: key 'num_epochs': expected int, got \"ten\"");
  crn_err_clear(&err);
  assert_int_equal(crn_config_load(write_file("old2.config", "task train\nalone\n"), NULL, &c, &err), CRN_E_FORMAT);
  assert_null(c);
  expect_text(&err, "old2.config:2: expected \"key value\", got only 'alone'");
  crn_err_clear(&err);
}

static void test_bad_files(void **state) {
  (void)state;
  crn_err err = {0};
  crn_config *c;
  assert_int_equal(crn_config_load("/nowhere/x.json", NULL, &c, &err), CRN_E_FILE);
  expect_text(&err, "config: can't open /nowhere/x.json: No such file");
  crn_err_clear(&err);
  assert_int_equal(crn_config_load(folder, NULL, &c, &err), CRN_E_FILE);
  crn_err_clear(&err);
  assert_int_not_equal(crn_config_load(write_file("bad.json", "{\"a\": "), NULL, &c, &err), CRN_OK);
  expect_text(&err, "bad.json");
  crn_err_clear(&err);
  assert_int_equal(crn_config_load(write_file("list.json", "[1]"), NULL, &c, &err), CRN_E_CONFIG);
  expect_text(&err, "expected an object of config keys, got list");
  crn_err_clear(&err);
}

static void test_several_files(void **state) {
  (void)state;
  crn_config *c = load("one.json", "{\"a\": 1, \"b\": 2}");
  crn_err err = {0};
  int64_t i;
  assert_int_equal(crn_config_add_file(c, write_file("two.json", "{\"b\": 3}"), NULL, &err), CRN_OK);
  assert_int_equal(crn_config_int(c, "a", 0, &i, &err), CRN_OK);
  assert_int_equal(i, 1);
  assert_int_equal(crn_config_int(c, "b", 0, &i, &err), CRN_OK);
  assert_int_equal(i, 3);
  assert_string_equal(crn_config_folder(c), folder);
  crn_config_free(c);
}

static void expect_path(crn_config *c, const char *name, const char *expected) {
  crn_arena a = {0};
  crn_err err = {0};
  const char *path;
  assert_int_equal(crn_config_input_path(c, name, &a, &path, &err), CRN_OK);
  assert_string_equal(path, expected);
  crn_arena_free(&a);
}

static void test_paths(void **state) {
  (void)state;
  char expected[160];
  crn_config *c = load("p.json", "{}");
  write_file("data_only_here.hdf", "x");
  write_file("model_only_here.001.index", "x");
  snprintf(expected, sizeof expected, "%s/data_only_here.hdf", folder);
  expect_path(c, "data_only_here.hdf", expected);
  snprintf(expected, sizeof expected, "%s/model_only_here.001", folder);
  expect_path(c, "model_only_here.001", expected);
  expect_path(c, "in_neither_place", "in_neither_place");
  expect_path(c, "/absolute/name", "/absolute/name");
  crn_arena a = {0};
  crn_err err = {0};
  const char *path;
  assert_int_equal(crn_config_output_path(c, "out/m", &a, &path, &err), CRN_OK);
  assert_string_equal(path, "out/m");
  assert_int_equal(crn_config_set_base(c, "/base", &err), CRN_OK);
  assert_int_equal(crn_config_output_path(c, "out/m", &a, &path, &err), CRN_OK);
  assert_string_equal(path, "/base/out/m");
  expect_path(c, "data_only_here.hdf", "/base/data_only_here.hdf");
  crn_arena_free(&a);
  crn_config_free(c);
}

/* Override and compare with the repr of the new value; expected NULL: must fail with the text. */
static void check_override(crn_config *c, const char *key, const char *text, const char *expected,
                           const char *failure) {
  crn_err err = {0};
  crn_str repr = {0};
  crn_status status = crn_config_override(c, key, text, NULL, &err);
  if (expected) {
    if (status != CRN_OK) fail_msg("%s", crn_err_text(&err));
    crn_v_repr(crn_config_get(c, key), &repr, 0);
    assert_string_equal(crn_str_get(&repr), expected);
  } else {
    assert_int_not_equal(status, CRN_OK);
    expect_text(&err, failure);
  }
  crn_str_free(&repr);
  crn_err_clear(&err);
}

static void test_overrides(void **state) {
  (void)state;
  crn_config *c = load("o.json", "{\"batch_size\": 500, \"model\": \"m\", \"adam\": true, \"dev\": {\"a\": 1}}");
  /* what is there and no text: an expression */
  check_override(c, "batch_size", "10 * 5", "50", NULL);
  check_override(c, "batch_size", "{'data': 7}", "{'data': 7}", NULL);
  check_override(c, "adam", "False", "False", NULL);
  check_override(c, "dev", "None", "None", NULL);
  /* text stays text */
  check_override(c, "model", "12", "'12'", NULL);
  check_override(c, "model", "a,b", "'a,b'", NULL);
  /* new and known: by type */
  check_override(c, "max_seqs", "20", "20", NULL);
  check_override(c, "learning_rate", "1e-3", "0.001", NULL);
  check_override(c, "learning_rates", "0.1,0.2", "(0.1, 0.2)", NULL);
  check_override(c, "nadam", "true", "True", NULL);
  check_override(c, "nadam", "0", "0", NULL);
  check_override(c, "chunking", "50:25", "'50:25'", NULL);
  check_override(c, "load", "out/model.010", "'out/model.010'", NULL);
  check_override(c, "search_output_layer", "a,b", "['a', 'b']", NULL);
  check_override(c, "log_verbosity", "5", "5", NULL);
  check_override(c, "start_epoch", "auto", "'auto'", NULL);
  check_override(c, "num_epochs", "many", NULL, "key 'num_epochs': expected int, got \"many\"");
  check_override(c, "optimizer", "adam", "'adam'", NULL);
  /* new and unknown: text, split at commas */
  check_override(c, "my_option", "7", "'7'", NULL);
  check_override(c, "my_list", "a, b,c", "['a', 'b', 'c']", NULL);
  crn_config_free(c);
}

static void test_key_check(void **state) {
  (void)state;
  crn_config *c =
      load("k.json", "{\"batch_sise\": 5, \"optimizer_epsiloon\": 1e-8, \"multiprocessing\": true,"
                     " \"use_horovod\": true, \"hyper_param_tuning\": null, \"helper\": 3, \"task\": \"x\"}");
  crn_str text = {0};
  crn_log log = {collect, &text, 5};
  crn_config_check_keys(c, &log);
  const char *got = crn_str_get(&text);
  assert_non_null(strstr(got, "unknown keys: 'batch_sise' (did you mean 'batch_size'?), 'optimizer_epsiloon' (did you "
                              "mean 'optimizer_epsilon'?)\n"));
  assert_non_null(strstr(got, "not implemented, refused in training: use_horovod\n"));
  assert_non_null(strstr(got, "keys without meaning here: multiprocessing\n"));
  assert_null(strstr(got, "helper"));
  crn_str_free(&text);
  crn_config_free(c);
}

static void test_key_table(void **state) {
  (void)state;
  for (size_t i = 0; i < crn_config_keys_n; i++) {
    const crn_config_key *k = &crn_config_keys[i];
    assert_ptr_equal(crn_config_key_find(k->name), k); /* no name twice */
    assert_true(strlen(k->types) > 0 && strspn(k->types, "ifbsldc") == strlen(k->types));
    assert_true(crn_ends_with(k->doc, "."));
  }
}

static void test_set(void **state) {
  (void)state;
  crn_err err = {0};
  crn_config *c;
  assert_int_equal(crn_config_new(&c, &err), CRN_OK);
  crn_value *v = crn_v_int(crn_config_arena(c), 4);
  assert_int_equal(crn_config_set(c, "x", v, &err), CRN_OK);
  assert_true(crn_v_equal(crn_config_get(c, "x"), v));
  assert_int_equal(crn_config_set(c, "x", NULL, &err), CRN_OK);
  assert_false(crn_config_has(c, "x"));
  crn_config_free(c);
  crn_config_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_json),      cmocka_unit_test(test_wrong_types),   cmocka_unit_test(test_lines),
      cmocka_unit_test(test_bad_files), cmocka_unit_test(test_several_files), cmocka_unit_test(test_paths),
      cmocka_unit_test(test_overrides), cmocka_unit_test(test_key_check),     cmocka_unit_test(test_key_table),
      cmocka_unit_test(test_set),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
