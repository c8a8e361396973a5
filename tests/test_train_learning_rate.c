/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate control: the recorded trainings are replayed from their scores (rates must agree exactly, the file must
 * come out letter by letter), the rules are checked on hand-made tables, and damaged files must be refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/learning_rate.h"

static char *read_file(const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  char *text = malloc(1 << 16);
  assert_non_null(text);
  *len = fread(text, 1, (1 << 16) - 1, f);
  text[*len] = 0;
  fclose(f);
  return text;
}

static crn_value *literal(crn_arena *a, const char *text) {
  crn_err err = {0};
  crn_value *v = NULL;
  if (crn_v_parse_literal(a, text, "test", &v, &err) != CRN_OK) fail_msg("%s: %s", text, crn_err_text(&err));
  return v;
}

static crn_lr_control *control(crn_arena *a, const char *config) {
  crn_err err = {0};
  crn_lr_control *c = NULL;
  if (crn_lr_new(literal(a, config), NULL, NULL, &c, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  return c;
}

static double rate_pretrain(crn_lr_control *c, int64_t epoch, int64_t pretrain) {
  crn_err err = {0};
  double lr = NAN;
  if (crn_lr_for_epoch(c, epoch, pretrain, &lr, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  return lr;
}

static double rate(crn_lr_control *c, int64_t epoch) { return rate_pretrain(c, epoch, 0); }

static void put(crn_lr_control *c, int64_t epoch, const char *key, double value) {
  crn_err err = {0};
  assert_int_equal(crn_lr_put_score(c, epoch, key, value, &err), CRN_OK);
}

/* ---- recorded trainings ---------------------------------------------------------------------------------------- */

/* A config.py of the recorded trainings: one "key = literal" a line. */
static crn_value *read_config(crn_arena *a, const char *path) {
  size_t len;
  char *text = read_file(path, &len), *save = NULL;
  crn_value *config = crn_v_dict(a);
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char *equals = strstr(line, " = ");
    if (!equals) continue;
    *equals = 0;
    crn_v_put(a, config, line, literal(a, equals + 3));
  }
  free(text);
  return config;
}

/* Scores of one epoch and dataset; a dict of scores holds one per loss. */
static void put_all(crn_lr_control *c, int64_t epoch, const char *dataset, const crn_value *scores) {
  static const char *const kinds[] = {"score", "error"};
  for (int k = 0; k < 2; k++) {
    const crn_value *v = crn_v_get(scores, kinds[k]);
    char key[100];
    double x;
    for (size_t i = 0; crn_v_is_dict(v) && i < crn_v_len(v); i++) {
      snprintf(key, sizeof key, "%s_%s_%s", dataset, kinds[k], crn_v_cstr(v->u.dict.keys[i]));
      assert_true(crn_v_to_float(v->u.dict.vals[i], &x));
      put(c, epoch, key, x);
    }
    if (crn_v_is_dict(v)) continue;
    snprintf(key, sizeof key, "%s_%s", dataset, kinds[k]);
    assert_true(crn_v_to_float(v, &x));
    put(c, epoch, key, x);
  }
}

static void replay(const char *name) {
  char path[500];
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *curve = NULL;
  crn_lr_control *c = NULL;
  snprintf(path, sizeof path, "%s/tests/data/training/%s/config.py", CRN_SOURCE_DIR, name);
  crn_value *config = read_config(&a, path);
  assert_int_equal(crn_lr_new(config, NULL, NULL, &c, &err), CRN_OK);
  snprintf(path, sizeof path, "%s/tests/data/training/%s/reference/curve.json", CRN_SOURCE_DIR, name);
  assert_int_equal(crn_v_read_json(&a, path, &curve, &err), CRN_OK);
  snprintf(path, sizeof path, "%s/tests/data/training/%s/reference/learning_rates", CRN_SOURCE_DIR, name);
  size_t len;
  char *expected = read_file(path, &len);
  crn_lr_table reference = {0};
  assert_int_equal(crn_lr_table_parse(&reference, expected, len, path, &err), CRN_OK);

  const crn_value *rates = crn_v_get(curve, "learning_rates"), *steps = crn_v_get(curve, "steps");
  assert_true(crn_v_len(rates) >= 4);
  assert_int_equal(crn_v_len(rates), reference.n);
  int64_t global_step = 0;
  for (size_t i = 0; i < crn_v_len(rates); i++) {
    double want;
    int64_t n_steps, epoch = (int64_t)i + 1;
    assert_true(crn_v_to_float(crn_v_at(rates, i), &want));
    assert_true(crn_v_to_int(crn_v_at(steps, i), &n_steps));
    double got = rate(c, epoch);
    if (got != want) fail_msg("%s epoch %d: rate %.17g, expected %.17g", name, (int)epoch, got, want);
    put_all(c, epoch, "train", crn_v_at(crn_v_get(curve, "train"), i));
    put_all(c, epoch, "dev", crn_v_at(crn_v_get(curve, "dev"), i));
    put(c, epoch, ":meta:effective_learning_rate", got);
    const crn_lr_score *secs = crn_lr_epoch_get(&reference.epochs[i], ":meta:epoch_train_time_secs");
    assert_non_null(secs);
    assert_int_equal(crn_lr_put_int(c, epoch, ":meta:epoch_train_time_secs", secs->i, &err), CRN_OK);
    assert_int_equal(crn_lr_put_int(c, epoch, ":meta:epoch_num_train_steps", n_steps, &err), CRN_OK);
    assert_int_equal(crn_lr_put_int(c, epoch, ":meta:global_train_step", global_step, &err), CRN_OK);
    global_step += n_steps;
  }
  crn_str text = {0};
  crn_lr_table_format(crn_lr_table_of(c), &text);
  assert_string_equal(crn_str_get(&text), expected);
  crn_str_clear(&text);
  crn_lr_table_format(&reference, &text); /* read and written again */
  assert_string_equal(crn_str_get(&text), expected);
  crn_str_free(&text);
  crn_lr_table_free(&reference);
  free(expected);
  crn_lr_free(c);
  crn_arena_free(&a);
}

static void test_recorded_trainings(void **state) {
  (void)state;
  DIR *dir = opendir(CRN_SOURCE_DIR "/tests/data/training");
  assert_non_null(dir);
  int n = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    char path[600];
    snprintf(path, sizeof path, "%s/tests/data/training/%s/reference/curve.json", CRN_SOURCE_DIR, e->d_name);
    if (e->d_name[0] == '.' || access(path, R_OK) != 0) continue;
    replay(e->d_name);
    n++;
  }
  closedir(dir);
  assert_true(n >= 23);
}

/* ---- rules ------------------------------------------------------------------------------------------------------ */

/* Rate of epoch 3 after two dev scores. */
static double third_rate(const char *config, double first, double second) {
  crn_arena a = {0};
  crn_lr_control *c = control(&a, config);
  rate(c, 1);
  put(c, 1, "dev_score", first);
  double lr2 = rate(c, 2);
  assert_true(lr2 == crn_lr_table_of(c)->epochs[0].lr);
  put(c, 2, "dev_score", second);
  double lr = rate(c, 3);
  assert_true(rate(c, 3) == lr); /* remembered */
  crn_lr_free(c);
  crn_arena_free(&a);
  return lr;
}

static void test_newbob_relative(void **state) {
  (void)state;
  const char *config = "{'learning_rate': 0.1, 'learning_rate_control': 'newbob_rel',"
                       " 'newbob_learning_rate_decay': 0.5, 'newbob_relative_error_threshold': -0.01}";
  assert_true(third_rate(config, .5, .45) == 0.1);
  assert_true(third_rate(config, .5, .499) == 0.05);
  assert_true(third_rate(config, .5, .5) == 0.05);
  assert_true(third_rate(config, .5, .55) == 0.05);
  assert_true(third_rate(config, .5, NAN) == 0.1); /* nan is above no threshold */
  assert_true(third_rate(config, -.5, -.55) == 0.1);
  assert_true(third_rate(config, -.5, -.45) == 0.05);
  /* |E_old| in the denominator: -0.0198/1 against -0.0202 */
  assert_true(third_rate("{'learning_rate': 1.0, 'learning_rate_control': 'newbob',"
                         " 'newbob_relative_error_threshold': -0.02}",
                         1.0, .9802) == 1.0);
  assert_true(third_rate("{'learning_rate': 1.0, 'learning_rate_control': 'newbob',"
                         " 'newbob_relative_error_threshold': -0.02, 'newbob_relative_error_div_by_old': True}",
                         1.0, .9802) == 0.5);
}

static void test_growth_and_minimum(void **state) {
  (void)state;
  assert_true(third_rate("{'learning_rate': 0.1, 'learning_rate_control': 'newbob_relative',"
                         " 'newbob_learning_rate_growth': 2.0}",
                         .5, .4) == 0.2);
  assert_true(third_rate("{'learning_rate': 0.1, 'learning_rate_control': 'newbob', 'min_learning_rate': 0.08}", .5,
                         .6) == 0.08);
  assert_true(third_rate("{'learning_rate': 0.1, 'learning_rate_control': 'newbob', 'min_learning_rate': 0.3,"
                         " 'learning_rate_growth': 1.5}",
                         .5, .1) == 0.1 * 1.5); /* the minimum is for decay only */
  assert_true(third_rate("{'learning_rate': 0.1, 'learning_rate_control': 'newbob', 'learning_rate_decay': 0.9}", .5,
                         .6) == 0.1 * 0.9);
  assert_true(third_rate("{'learning_rate': '0.1', 'learning_rate_control': 'constant'}", .5, .6) == 0.1);
}

static void test_newbob_absolute(void **state) {
  (void)state;
  const char *config = "{'learning_rate': 1.0, 'learning_rate_control': 'newbob_abs', 'newbob_error_threshold': -0.1}";
  assert_true(third_rate(config, 10, 9.95) == 0.5);
  assert_true(third_rate(config, 10, 9.85) == 1.0);
}

static void test_other_keys_are_not_compared(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_lr_control *c = control(&a, "{'learning_rate': 1.0, 'learning_rate_control': 'newbob'}");
  rate(c, 1);
  put(c, 1, "train_score", 1.0);
  rate(c, 2);
  put(c, 2, "dev_score", 2.0);
  assert_true(rate(c, 3) == 1.0);
  crn_lr_free(c);
  crn_arena_free(&a);
}

static void test_multi_epoch(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_lr_control *c = control(&a, "{'learning_rate': 1.0, 'learning_rate_control': 'newbob_multi_epoch',"
                                  " 'newbob_multi_num_epochs': 3, 'newbob_multi_update_interval': 2,"
                                  " 'newbob_relative_error_threshold': 0}");
  static const double scores[] = {1.0, .9, .8, .85, .95, 1.0, 1.1};
  /* looked at in odd epochs: e=3: falls. e=5: r = -1/9, -1/8, 5/85 -> falls. e=7: -1/8? no: last 4 epochs 3..6 rise. */
  static const double want[] = {1, 1, 1, 1, 1, 1, .5, .5};
  for (int e = 1; e <= 8; e++) {
    double lr = rate(c, e);
    if (lr != want[e - 1]) fail_msg("epoch %d: %g", e, lr);
    if (e <= 7) put(c, e, "dev_score", scores[e - 1]);
  }
  crn_lr_free(c);

  /* relative_lr: the same change counts double when the rate was half of learning_rate */
  c = control(&a, "{'learning_rate': 1.0, 'learning_rates': [0.5, 0.5], 'learning_rate_control': 'newbob_multi_epoch',"
                  " 'newbob_multi_num_epochs': 1, 'newbob_relative_error_threshold': -0.15,"
                  " 'learning_rate_control_relative_error_relative_lr': True}");
  rate(c, 1);
  put(c, 1, "dev_score", 1.1);
  rate(c, 2);
  put(c, 2, "dev_score", 1.0); /* -0.1, doubled -0.2 < -0.15: no decay */
  assert_true(rate(c, 3) == 0.5);
  crn_lr_free(c);

  c = control(&a, "{'learning_rate': 1.0, 'learning_rate_control': 'newbob_multi_epoch', 'newbob_multi_num_epochs': 1,"
                  " 'newbob_relative_error_threshold': -0.2, 'newbob_relative_error_grow_threshold': 0.2}");
  rate(c, 1);
  put(c, 1, "dev_score", 1.0);
  rate(c, 2);
  put(c, 2, "dev_score", 1.0);
  crn_err err = {0};
  double lr;
  assert_int_equal(crn_lr_for_epoch(c, 3, 0, &lr, &err), CRN_E_CONFIG);
  assert_non_null(strstr(crn_err_text(&err), "newbob_relative_error_grow_threshold"));
  crn_err_clear(&err);
  crn_lr_free(c);
  crn_arena_free(&a);
}

static void test_fixed_rates_and_hold(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_lr_control *c = control(&a, "{'learning_rate': 1.0, 'learning_rates': {2: '1e-1 * 2', 5: 0.7},"
                                  " 'min_learning_rate': 0.5}");
  static const double want[] = {1.0, 0.2, 0.2, 0.2, 0.7, 0.7};
  for (int e = 1; e <= 6; e++) assert_true(rate(c, e) == want[e - 1]);
  crn_lr_free(c);

  /* warm-up over 3 epochs, then at least 3 equal rates before the next change */
  c = control(&a, "{'learning_rate': 1.0, 'learning_rates': '[0.1, 0.5, 1.0]', 'learning_rate_control': 'newbob',"
                  " 'learning_rate_control_min_num_epochs_per_new_lr': 3}");
  static const double held[] = {0.1, 0.5, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25};
  for (int e = 1; e <= 9; e++) {
    double lr = rate(c, e);
    if (lr != held[e - 1]) fail_msg("epoch %d: %g", e, lr);
    put(c, e, "dev_score", 1.0); /* never gets better: decay whenever it is allowed */
  }
  crn_lr_free(c);
  crn_arena_free(&a);
}

static void test_pretraining(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_lr_control *c =
      control(&a, "{'learning_rate': 1.0, 'pretrain_learning_rate': 0.3, 'learning_rates': [0.1, 0.2]}");
  static const double want[] = {0.3, 0.3, 0.3, 1.0, 1.0};
  for (int e = 1; e <= 5; e++) assert_true(rate_pretrain(c, e, 3) == want[e - 1]);
  assert_true(crn_lr_table_of(c)->epochs[0].lr == 0.1); /* the table keeps what it had */
  assert_true(crn_lr_table_of(c)->epochs[2].lr == 0.3);
  crn_lr_free(c);
  c = control(&a, "{'learning_rate': 1.0, 'pretrain_learning_rate': 0.3, 'learning_rates': [0.1, 0.2],"
                  " 'use_learning_rate_control_always': True}");
  assert_true(rate_pretrain(c, 1, 3) == 0.1);
  assert_true(rate_pretrain(c, 3, 3) == 0.2);
  crn_lr_free(c);
  crn_arena_free(&a);
}

static const char *key_of(const char *config, const char *const *keys) {
  static char found[60];
  crn_arena a = {0};
  crn_lr_control *c = control(&a, config);
  rate(c, 1);
  put(c, 1, ":meta:global_train_step", 0);
  for (; *keys; keys++) put(c, 1, *keys, 1);
  const char *key = crn_lr_error_key(c, 1);
  snprintf(found, sizeof found, "%s", key ? key : "none");
  crn_lr_free(c);
  crn_arena_free(&a);
  return found;
}

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_error_measure(void **state) {
  (void)state;
  const char *any = "{}";
  assert_string_equal(key_of(any, KEYS("dev_error", "dev_score", "train_score")), "dev_score");
  assert_string_equal(key_of(any, KEYS("dev_error_ctc", "dev_score_output", "dev_score_ctc")), "dev_score_output");
  assert_string_equal(key_of(any, KEYS("dev_score_output/aa", "dev_score_output/output_prob")),
                      "dev_score_output/output_prob");
  assert_string_equal(key_of(any, KEYS("dev_score_output/zz", "dev_score_output/bb", "dev_error")),
                      "dev_score_output/bb");
  assert_string_equal(key_of(any, KEYS("dev_score_aux", "dev_error_aux", "train_score")), "dev_error_aux");
  assert_string_equal(key_of(any, KEYS("train_error", "train_score")), "train_score");
  assert_string_equal(key_of(any, KEYS("xdev_score", "eval_score")), "eval_score");
  assert_string_equal(key_of(any, (const char *const[]){NULL}), "none");
  assert_string_equal(
      key_of("{'learning_rate_control_error_measure': 'dev_error'}", KEYS("dev_score", "dev_error_output")),
      "dev_error_output");
  assert_string_equal(
      key_of("{'learning_rate_control_error_measure': ['nope', 'dev_score_b']}", KEYS("dev_score", "dev_score_b")),
      "dev_score_b");
  assert_string_equal(key_of("{'learning_rate_control_error_measure': 'dev_errror'}", KEYS("dev_score")), "dev_score");
}

static void count_line(void *user, int level, const char *text) {
  (void)level;
  *(int *)user += strstr(text, "dev_errror") != NULL;
}

static void test_wrong_measure_warns_once(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  int n = 0;
  crn_log log = {.fn = count_line, .user = &n, .verbosity = 5};
  crn_lr_control *c = NULL;
  assert_int_equal(crn_lr_new(literal(&a, "{'learning_rate_control': 'newbob',"
                                          " 'learning_rate_control_error_measure': 'dev_errror'}"),
                              NULL, &log, &c, &err),
                   CRN_OK);
  for (int e = 1; e < 5; e++) {
    rate(c, e);
    put(c, e, "dev_error", 1);
  }
  assert_int_equal(n, 1);
  crn_lr_free(c);
  crn_arena_free(&a);
}

static void test_dynamic(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  double lr;
  crn_lr_control *c = control(&a, "{'dynamic_learning_rate': {'interval': 10, 'decay': 0.9}}");
  assert_int_equal(crn_lr_dynamic(c, 2.0, 23, &lr, &err), CRN_OK);
  assert_true(fabs(lr - 2.0 * 0.9 * 0.9 * 0.9) < 1e-15);
  crn_lr_free(c);
  c = control(&a, "{}");
  assert_int_equal(crn_lr_dynamic(c, 2.0, 23, &lr, &err), CRN_OK);
  assert_true(lr == 2.0);
  crn_lr_free(c);
  crn_arena_free(&a);
}

static crn_status halve(void *user, const crn_value *fn, double lr, int64_t step, double *out, crn_err *err) {
  (void)user;
  (void)fn;
  (void)err;
  *out = step < 0 ? lr / 3 : lr * (double)step;
  return CRN_OK;
}

static void test_functions(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *fn = crn_v_none(&a), *config = literal(&a, "{'learning_rate': 3.0, 'learning_rate_control': 'newbob'}");
  fn->kind = CRN_V_CALLABLE;
  fn->u.obj.name = "f";
  fn->u.obj.host = NULL;
  crn_v_put(&a, config, "learning_rate_decay", fn);
  crn_v_put(&a, config, "dynamic_learning_rate", fn);
  crn_lr_hook hook = {.call = halve};
  for (int with_hook = 0; with_hook < 2; with_hook++) {
    crn_lr_control *c = NULL;
    double lr;
    assert_int_equal(crn_lr_new(config, with_hook ? &hook : NULL, NULL, &c, &err), CRN_OK);
    for (int e = 1; e <= 2; e++) {
      rate(c, e);
      put(c, e, "dev_score", 1);
    }
    crn_status status = crn_lr_for_epoch(c, 3, 0, &lr, &err);
    assert_int_equal(status, with_hook ? CRN_OK : CRN_E_NOT_IMPLEMENTED);
    if (with_hook)
      assert_true(lr == 1.0);
    else
      assert_non_null(strstr(crn_err_text(&err), "learning_rate_decay"));
    crn_err_clear(&err);
    assert_int_equal(crn_lr_dynamic(c, 2, 7, &lr, &err), with_hook ? CRN_OK : CRN_E_NOT_IMPLEMENTED);
    if (with_hook) assert_true(lr == 14.0);
    crn_err_clear(&err);
    crn_lr_free(c);
  }
  crn_arena_free(&a);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static void expect_text(const char *in, const char *want) {
  crn_lr_table t = {0};
  crn_err err = {0};
  crn_str text = {0};
  if (crn_lr_table_parse(&t, in, strlen(in), "f", &err) != CRN_OK) fail_msg("%s: %s", in, crn_err_text(&err));
  crn_lr_table_format(&t, &text);
  assert_string_equal(crn_str_get(&text), want);
  crn_str_free(&text);
  crn_lr_table_free(&t);
}

static void test_old_forms(void **state) {
  (void)state;
  expect_text("{}", "{\n}\n");
  expect_text("{2: EpochData(learningRate=0.1, error=None), 1: EpochData(learning_rate=1, error={})}",
              "{\n1: EpochData(learningRate=1.0, error={}),\n2: EpochData(learningRate=0.1, error={}),\n}\n");
  expect_text("{1: EpochData(learningRate=1e-05, error=0.25,)}",
              "{\n1: EpochData(learningRate=1e-05, error={'dev_score': 0.25}),\n}\n");
  expect_text("{1: EpochData(0.5, {'a': nan, \"b\": -inf})}",
              "{\n1: EpochData(learningRate=0.5, error={'a': float('nan'), 'b': float('-inf')}),\n}\n");
  expect_text(
      "{ # note\n 1: EpochData(error={'a': float('nan'), 'b': np.float32(1_0.5), 'c': 0x10},\n learningRate=+.5,"
      " meta={'global_train_step': 3, ':meta:x': None})\n, }\n",
      "{\n1: EpochData(learningRate=0.5, error={\n':meta:global_train_step': 3,\n'a': float('nan'),\n"
      "'b': 10.5,\n'c': 16,\n}),\n}\n");
}

static void test_one_line_below_40(void **state) {
  (void)state;
  /* pairs of 19 + 20 = 39 characters on one line, 20 + 20 on several */
  expect_text("{1: EpochData(learningRate=1.0, error={'dev_score': 0.1234,'train_score': 0.123})}",
              "{\n1: EpochData(learningRate=1.0, error={'dev_score': 0.1234, 'train_score': 0.123}),\n}\n");
  expect_text("{1: EpochData(learningRate=1.0, error={'dev_score': 0.12345,'train_score': 0.123})}",
              "{\n1: EpochData(learningRate=1.0, error={\n'dev_score': 0.12345,\n'train_score': 0.123,\n}),\n}\n");
}

static void test_damaged_files(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      "{",
                                      "{1",
                                      "{1:",
                                      "{1: EpochData",
                                      "{1: EpochData(",
                                      "{1: EpochData(learningRate=",
                                      "[1]",
                                      "{1.5: EpochData(1)}",
                                      "{1: EpochData(learningRate=0.1, error={'a' 1})}",
                                      "{1: EpochData(learningRate=0.1, error={'a: 1})}",
                                      "{1: EpochData(error={})}",
                                      "{1: EpochData(learningRate=0.1, bogus=2)}",
                                      "{1: EpochData(learningRate=0.1)} x",
                                      "{1: EpochData(learningRate=__import__('os').system('true'))}",
                                      "{1: EpochData(learningRate=1e)}",
                                      "{1: EpochData(learningRate=float(float(float(float(float(float(float(1))))))))}",
                                      "{'1': EpochData(1)}",
                                      "{1: OtherData(learningRate=1)}",
                                      "{1: EpochData(learningRate='a')}",
                                      "{1: EpochData(learningRate=0.1 error={})}"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    crn_lr_table t = {0};
    crn_err err = {0};
    crn_status status = crn_lr_table_parse(&t, texts[i], strlen(texts[i]), "f", &err);
    if (status != CRN_E_FORMAT) fail_msg("%s: status %d", texts[i], (int)status);
    assert_true(strlen(crn_err_text(&err)) > 4);
    assert_int_equal(t.n, 0);
    crn_err_clear(&err);
  }
  /* every truncation of a good file is refused, none crashes */
  const char *good = "{\n1: EpochData(learningRate=0.03, error={\n'dev_error': 0.125,\n'x': float('nan'),\n}),\n}";
  for (size_t n = 0; n < strlen(good); n++) {
    crn_lr_table t = {0};
    crn_err err = {0};
    char *copy = malloc(n + 1);
    memcpy(copy, good, n);
    assert_int_equal(crn_lr_table_parse(&t, copy, n, "f", &err), CRN_E_FORMAT);
    free(copy);
    crn_err_clear(&err);
    crn_lr_table_free(&t);
  }
}

static void test_file_wins_and_is_replaced(void **state) {
  (void)state;
  char dir[] = "/tmp/crn_lr_XXXXXX", path[64], config[300];
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/newbob.data", dir);
  snprintf(config, sizeof config,
           "{'learning_rate': 1.0, 'learning_rates': [0.1, 0.2, 0.3], 'learning_rate_file': '%s'}", path);
  crn_arena a = {0};
  crn_err err = {0};
  crn_lr_control *c = control(&a, config);
  assert_int_equal(crn_lr_load(c, &err), CRN_OK); /* no file yet */
  assert_int_equal(crn_lr_override(c, 2, 0.25, &err), CRN_OK);
  put(c, 1, "dev_score", 0.5);
  assert_int_equal(crn_lr_save(c, &err), CRN_OK);
  crn_lr_free(c);
  size_t len;
  char *text = read_file(path, &len);
  assert_string_equal(text,
                      "{\n1: EpochData(learningRate=0.1, error={'dev_score': 0.5}),\n"
                      "2: EpochData(learningRate=0.25, error={}),\n3: EpochData(learningRate=0.3, error={}),\n}\n");
  free(text);
  c = control(&a, config);
  assert_int_equal(crn_lr_load(c, &err), CRN_OK);
  assert_true(rate(c, 2) == 0.25);
  assert_string_equal(crn_lr_error_key(c, 1), "dev_score");
  crn_lr_free(c);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(dir), 0); /* no temporary file is left */
  /* the directory is gone: made again; a file in its place: an error that names it */
  c = control(&a, config);
  assert_int_equal(crn_lr_save(c, &err), CRN_OK);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(dir), 0);
  FILE *f = fopen(dir, "w");
  assert_non_null(f);
  fclose(f);
  assert_int_equal(crn_lr_save(c, &err), CRN_E_FILE);
  assert_non_null(strstr(crn_err_text(&err), dir));
  crn_err_clear(&err);
  assert_int_equal(unlink(dir), 0);
  crn_lr_free(c);
  crn_arena_free(&a);
}

/* ---- bad configs ------------------------------------------------------------------------------------------------ */

static void test_bad_configs(void **state) {
  (void)state;
  static const char *const bad[][2] = {
      {"{'learning_rate_control': 'newbob_multi_epochs'}", "newbob_multi_epoch"},
      {"{'learning_rate': 'fast'}", "learning_rate"},
      {"{'learning_rate': [1]}", "learning_rate"},
      {"{'learning_rates': [0.1, None]}", "epoch 2"},
      {"{'learning_rates': {'a': 1}}", "learning_rates"},
      {"{'learning_rates': 3}", "learning_rates"},
      {"{'learning_rates': '[1,'}", "learning_rates"},
      {"{'learning_rate_decay': 1}", "learning_rate_decay"},
      {"{'learning_rate_growth': '1.0'}", "learning_rate_growth"},
      {"{'newbob_multi_num_epochs': 0}", "newbob_multi_num_epochs"},
      {"{'newbob_multi_update_interval': 0}", "newbob_multi_update_interval"},
      {"{'newbob_multi_num_epochs': 2.5}", "newbob_multi_num_epochs"},
      {"{'learning_rate_control_error_measure': 3}", "learning_rate_control_error_measure"},
      {"{'learning_rate_control_error_measure': ['a', 3]}", "learning_rate_control_error_measure"},
      {"{'dynamic_learning_rate': {'interval': 0, 'decay': 0.9}}", "dynamic_learning_rate"},
      {"{'dynamic_learning_rate': {'interval': 5}}", "dynamic_learning_rate"},
      {"{'learning_rate_file': 5}", "learning_rate_file"},
      {"{'use_learning_rate_control_always': 'maybe'}", "use_learning_rate_control_always"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    crn_arena a = {0};
    crn_err err = {0};
    crn_lr_control *c = NULL;
    crn_status status = crn_lr_new(literal(&a, bad[i][0]), NULL, NULL, &c, &err);
    if (status == CRN_OK) fail_msg("%s was accepted", bad[i][0]);
    if (!strstr(crn_err_text(&err), bad[i][1])) fail_msg("%s: %s", bad[i][0], crn_err_text(&err));
    assert_null(c);
    crn_err_clear(&err);
    crn_arena_free(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recorded_trainings),
      cmocka_unit_test(test_newbob_relative),
      cmocka_unit_test(test_growth_and_minimum),
      cmocka_unit_test(test_newbob_absolute),
      cmocka_unit_test(test_other_keys_are_not_compared),
      cmocka_unit_test(test_multi_epoch),
      cmocka_unit_test(test_fixed_rates_and_hold),
      cmocka_unit_test(test_pretraining),
      cmocka_unit_test(test_error_measure),
      cmocka_unit_test(test_wrong_measure_warns_once),
      cmocka_unit_test(test_dynamic),
      cmocka_unit_test(test_functions),
      cmocka_unit_test(test_old_forms),
      cmocka_unit_test(test_one_line_below_40),
      cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_file_wins_and_is_replaced),
      cmocka_unit_test(test_bad_configs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
