/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoints stay, and which one a run starts from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/keep_models.h"
#include "train/start_epoch.h"

static crn_value *literal(crn_arena *a, const char *text) {
  crn_err err = {0};
  crn_value *v = NULL;
  if (crn_v_parse_literal(a, text, "test", &v, &err) != CRN_OK) fail_msg("%s: %s", text, crn_err_text(&err));
  return v;
}

/* ---- clean-up ---------------------------------------------------------------------------------------------------- */

/* Epochs that stay of 1 … n, as text; scores: file text of the table. */
static const char *kept(const char *options, const int64_t *stored, size_t n, const char *table_text) {
  static char text[2000];
  crn_arena a = {0};
  crn_err err = {0};
  crn_lr_table t = {0};
  crn_keep_options o;
  bool keep[400];
  assert_int_equal(crn_keep_options_read(literal(&a, options), &a, NULL, &o, &err), CRN_OK);
  assert_true(o.on);
  if (table_text) assert_int_equal(crn_lr_table_parse(&t, table_text, strlen(table_text), "t", &err), CRN_OK);
  for (size_t i = 0; !table_text && i < n; i++) assert_int_equal(crn_lr_table_set(&t, stored[i], 1, &err), CRN_OK);
  if (crn_keep_choose(&o, stored, n, &t, keep, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  size_t len = 0;
  text[0] = 0;
  for (size_t i = 0; i < n; i++)
    if (keep[i]) len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", len ? " " : "", (int)stored[i]);
  crn_lr_table_free(&t);
  crn_arena_free(&a);
  return text;
}

static const int64_t *first_epochs(void) {
  static int64_t epochs[400];
  for (int i = 0; i < 400; i++) epochs[i] = i + 1;
  return epochs;
}

static void test_pattern(void **state) {
  (void)state;
  const int64_t *e = first_epochs();
  assert_string_equal(kept("True", e, 4, NULL), "1 2 3 4");
  assert_string_equal(kept("True", e, 5, NULL), "4 5");
  assert_string_equal(kept("True", e, 10, NULL), "4 5 8 9 10");
  assert_string_equal(kept("True", e, 11, NULL), "5 10 11");
  assert_string_equal(kept("True", e, 50, NULL), "5 10 20 40 49 50");
  assert_string_equal(kept("True", e, 100, NULL), "10 20 40 80 99 100");
  assert_string_equal(kept("True", e, 101, NULL), "20 40 80 100 101");
  assert_string_equal(kept("True", e, 239, NULL), "20 40 80 160 238 239");
  assert_string_equal(kept("True", e, 330, NULL), "20 40 80 160 320 329 330"); /* 1 + 330 div 240 = 2: k = 160 */
  assert_true(crn_keep_pattern(240, 330) == false && crn_keep_pattern(240, 239) == false);
  assert_true(crn_keep_pattern(320, 800) && !crn_keep_pattern(160 * 3, 800)); /* k = 320 */
}

static void test_options(void **state) {
  (void)state;
  const int64_t *e = first_epochs();
  assert_string_equal(kept("{'keep_last_n': 1}", e, 10, NULL), "4 5 8 10");
  assert_string_equal(kept("{'keep_last_n': 3, 'keep': [2, 77]}", e, 10, NULL), "2 8 9 10");
  assert_string_equal(kept("{'keep': {1}, 'keep_best_n': 0, 'keep_last_n': 1}", e, 3, NULL), "1 3");
  assert_string_equal(kept("{'keep': (), 'keep_last_n': 1}", e, 6, NULL), "6");
}

static const char *const scores =
    "{1: EpochData(learningRate=1, error={'dev_score': 0.9, 'dev_error': 0.1, 'train_score': 0.5, ':meta:x': 1}),"
    "2: EpochData(learningRate=1, error={'dev_score': 0.5, 'dev_error': 0.5, 'train_score': 0.5, ':meta:x': 0}),"
    "3: EpochData(learningRate=1, error={'dev_score': 0.6, 'dev_error': 0.6, 'train_score': 0.5}),"
    "4: EpochData(learningRate=1, error={'dev_score': 0.5, 'dev_error': 0.7, 'train_score': 0.5, 'x_score': 2.0}),"
    "5: EpochData(learningRate=1, error={'dev_score': nan, 'dev_error': 0.8, 'train_score': 0.5}),"
    "6: EpochData(learningRate=1, error={'dev_score': 0.7, 'dev_error': 0.9, 'train_score': 0.5}),"
    "7: EpochData(learningRate=1, error={})}";

static void test_best(void **state) {
  (void)state;
  const int64_t *e = first_epochs();
  const int64_t some[] = {1, 3, 5, 6};
  /* dev_score: 2 (tie with 4: the lower epoch); dev_error: 1; train_score: 7 lacks it, so it counts: 1; x_score: 4 */
  assert_string_equal(kept("{'keep': [], 'keep_best_n': 1, 'keep_last_n': 1}", e, 7, scores), "1 2 4 7");
  /* of the first six, train_score is the same everywhere: not considered */
  assert_string_equal(
      kept("{'keep': [], 'keep_best_n': 1, 'keep_last_n': 1, 'ignore_score_keys': ['dev_error', 'x_score']}", e, 6,
           scores),
      "2 6");
  assert_string_equal(
      kept("{'keep': [], 'keep_best_n': 2, 'keep_last_n': 1, 'ignore_score_keys': ['dev_error']}", some, 4, scores),
      "3 6");
}

static void test_keep_mistakes(void **state) {
  (void)state;
  static const char *const bad[][2] = {{"{'keep_last_n': 0}", "keep_last_n"},
                                       {"{'keep_best_n': -1}", "keep_best_n"},
                                       {"{'keep_best_n': 'x'}", "keep_best_n"},
                                       {"{'keep_bst_n': 1}", "did you mean 'keep_best_n'"},
                                       {"{'keep': 5}", "keep"},
                                       {"{'keep': ['a']}", "keep"},
                                       {"{'ignore_score_keys': 'dev'}", "ignore_score_keys"},
                                       {"{1: 2}", "unknown option"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    crn_arena a = {0};
    crn_err err = {0};
    crn_keep_options o;
    assert_int_equal(crn_keep_options_read(literal(&a, bad[i][0]), &a, NULL, &o, &err), CRN_E_CONFIG);
    if (!strstr(crn_err_text(&err), bad[i][1])) fail_msg("%s: %s", bad[i][0], crn_err_text(&err));
    crn_err_clear(&err);
    crn_arena_free(&a);
  }
  crn_err err = {0};
  crn_lr_table t = {0};
  crn_keep_options o = {.on = true, .last_n = 2, .best_n = 4};
  bool keep[5];
  assert_int_equal(crn_keep_choose(&o, first_epochs(), 5, &t, keep, &err), CRN_E_CONFIG);
  assert_non_null(strstr(crn_err_text(&err), "epoch 1"));
  crn_err_clear(&err);
}

static void count_warning(void *user, int level, const char *text) {
  (void)text;
  *(int *)user += level == 2;
}

static void test_forms_of_the_key(void **state) {
  (void)state;
  static const struct {
    const char *value;
    bool on;
    int warnings;
  } cases[] = {{"True", true, 0},    {"False", false, 0}, {"None", false, 0}, {"{}", false, 0},
               {"(True,)", true, 1}, {"1", true, 0},      {"'yes'", true, 1}, {"{'keep_last_n': 3}", true, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    crn_arena a = {0};
    crn_err err = {0};
    crn_keep_options o;
    int n = 0;
    crn_log log = {.fn = count_warning, .user = &n, .verbosity = 5};
    assert_int_equal(crn_keep_options_read(literal(&a, cases[i].value), &a, &log, &o, &err), CRN_OK);
    if (o.on != cases[i].on || n != cases[i].warnings) fail_msg("%s: on %d, %d warnings", cases[i].value, o.on, n);
    crn_arena_free(&a);
  }
}

static void test_list_text(void **state) {
  (void)state;
  crn_str s = {0};
  crn_keep_list(first_epochs(), 0, &s);
  crn_keep_list(first_epochs(), 6, &s);
  crn_keep_list(first_epochs(), 7, &s);
  crn_keep_list(first_epochs(), 120, &s);
  assert_string_equal(crn_str_get(&s), "[][1, 2, 3, 4, 5, 6][1, 2, 3, ..., 5, 6, 7][1, 2, 3, ..., 118, 119, 120]");
  crn_str_free(&s);
}

/* ---- start ---------------------------------------------------------------------------------------------------------
 */

static void expect_start(bool train, crn_start_query q, crn_start_source source, int64_t model, int64_t first) {
  crn_start s;
  crn_err err = {0};
  if ((train ? crn_start_train : crn_start_other)(&q, NULL, &s, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  assert_int_equal(s.source, source);
  assert_int_equal(s.model_epoch, model);
  assert_int_equal(s.first_epoch, first);
}

#define EXISTING .existing = (const int64_t[]){2, 5, 9}, .n_existing = 3
#define LOAD(e) .has_load = true, .load_file_epoch = e
#define TRAIN(...) expect_start(true, (crn_start_query)__VA_ARGS__)
#define OTHER(...) expect_start(false, (crn_start_query)__VA_ARGS__)
#define Q(...) {__VA_ARGS__},

static void test_start_training(void **state) {
  (void)state;
  TRAIN(Q(.start_epoch = 0) CRN_START_RANDOM, -1, 1);
  TRAIN(Q(EXISTING) CRN_START_MODEL, 9, 10);
  TRAIN(Q(EXISTING, LOAD(3), .has_import = true) CRN_START_MODEL, 9, 10);
  TRAIN(Q(EXISTING, .load_epoch = 2) CRN_START_MODEL, 9, 10);
  TRAIN(Q(.has_import = true, LOAD(3)) CRN_START_IMPORT, -1, 1);
  TRAIN(Q(LOAD(3)) CRN_START_LOAD, 3, 4);
  TRAIN(Q(LOAD(-1)) CRN_START_LOAD, -1, 1);
  TRAIN(Q(EXISTING, .start_epoch = 1) CRN_START_RANDOM, -1, 1);
  TRAIN(Q(EXISTING, .start_epoch = 1, .has_import = true) CRN_START_RANDOM, -1, 1);
  TRAIN(Q(.start_epoch = 1, .has_import = true) CRN_START_IMPORT, -1, 1);
  TRAIN(Q(EXISTING, .start_epoch = 6) CRN_START_MODEL, 5, 6);
  TRAIN(Q(.start_epoch = 6) CRN_START_RANDOM, -1, 1);
  TRAIN(Q(.start_epoch = 6, LOAD(7)) CRN_START_LOAD, 7, 1);
}

static void test_start_other(void **state) {
  (void)state;
  OTHER(Q(EXISTING) CRN_START_MODEL, 9, 9);
  OTHER(Q(EXISTING, .load_epoch = 5) CRN_START_MODEL, 5, 5);
  OTHER(Q(EXISTING, LOAD(7)) CRN_START_LOAD, 7, 7);
  OTHER(Q(LOAD(-1)) CRN_START_LOAD, -1, 1);
  OTHER(Q(.allow_random = true) CRN_START_RANDOM, -1, 1);
}

static void test_start_errors(void **state) {
  (void)state;
  crn_start s;
  crn_err err = {0};
  crn_start_query q = {EXISTING, .start_epoch = 4};
  assert_int_equal(crn_start_train(&q, NULL, &s, &err), CRN_E_FILE);
  assert_non_null(strstr(crn_err_text(&err), "no model of epoch 3; there are models of epochs 2, 5, 9"));
  crn_err_clear(&err);
  q = (crn_start_query){EXISTING, .load_epoch = 4};
  assert_int_equal(crn_start_other(&q, NULL, &s, &err), CRN_E_FILE);
  assert_non_null(strstr(crn_err_text(&err), "load_epoch is 4"));
  crn_err_clear(&err);
  q = (crn_start_query){0};
  assert_int_equal(crn_start_other(&q, NULL, &s, &err), CRN_E_FILE);
  assert_non_null(strstr(crn_err_text(&err), "allow_random_model_init"));
  crn_err_clear(&err);
}

static void test_epoch_of_a_file(void **state) {
  (void)state;
  assert_int_equal(crn_model_epoch_of("a.99/model.007", 0), 7);
  assert_int_equal(crn_model_epoch_of("model.pretrain.012.index", 0), 12);
  assert_int_equal(crn_model_epoch_of("net.2.model.040.meta", 0), 40);
  assert_int_equal(crn_model_epoch_of("net.2/average", 0), -1);
  assert_int_equal(crn_model_epoch_of("model.007", 3), 3);
  assert_int_equal(crn_model_epoch_of("model.", 0), -1);
  assert_int_equal(crn_model_epoch_of("model.-3", 0), -1);
  assert_int_equal(crn_model_epoch_of("model.99999999999999999999", 0), -1);
}

static void touch(const char *dir, const char *name) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fclose(f);
}

static void test_find_models(void **state) {
  (void)state;
  char dir[] = "/tmp/crn_models_XXXXXX", model[100];
  static const char *const files[] = {"net.001.index",  "net.pretrain.001.index", "net.pretrain.002.index",
                                      "net.003.meta",   "net.1000.index",         "net.012.index",
                                      "other.004.index"};
  assert_non_null(mkdtemp(dir));
  for (size_t i = 0; i < 7; i++) touch(dir, files[i]);
  snprintf(model, sizeof model, "%s/net", dir);
  crn_arena a = {0};
  crn_err err = {0};
  crn_models m;
  assert_int_equal(crn_models_find(model, 12, &a, &m, &err), CRN_OK);
  assert_int_equal(m.n, 3);
  assert_true(m.epochs[0] == 1 && m.epochs[1] == 2 && m.epochs[2] == 12);
  assert_string_equal(m.prefixes[0] + strlen(dir), "/net.001");
  assert_string_equal(crn_models_prefix(&m, 2) + strlen(dir), "/net.pretrain.002");
  assert_null(crn_models_prefix(&m, 3));
  assert_int_equal(crn_models_find(model, 11, &a, &m, &err), CRN_OK);
  assert_int_equal(m.n, 2); /* later epochs are not seen */
  assert_int_equal(crn_models_find(model, 0, &a, &m, &err), CRN_OK);
  assert_int_equal(m.n, 4);
  assert_int_equal(crn_models_find("/nonexistent/net", 5, &a, &m, &err), CRN_OK);
  assert_int_equal(m.n, 0);
  char loop[80];
  snprintf(loop, sizeof loop, "%s/loop", dir);
  assert_int_equal(symlink("loop", loop), 0);
  snprintf(model, sizeof model, "%s/net", loop);
  assert_int_equal(crn_models_find(model, 5, &a, &m, &err), CRN_E_FILE); /* it isn't known that there are none */
  assert_non_null(strstr(crn_err_text(&err), "can't look for models in folder '"));
  crn_err_clear(&err);
  unlink(loop);
  crn_arena_free(&a);
  for (size_t i = 0; i < 7; i++) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, files[i]);
    unlink(path);
  }
  assert_int_equal(rmdir(dir), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pattern),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_best),
      cmocka_unit_test(test_keep_mistakes),
      cmocka_unit_test(test_forms_of_the_key),
      cmocka_unit_test(test_list_text),
      cmocka_unit_test(test_start_training),
      cmocka_unit_test(test_start_other),
      cmocka_unit_test(test_start_errors),
      cmocka_unit_test(test_epoch_of_a_file),
      cmocka_unit_test(test_find_models),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
