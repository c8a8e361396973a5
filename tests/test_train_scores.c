/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of an epoch, log lines, and the learning-curve picture.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/curve.h"
#include "train/progress.h"
#include "train/scores.h"

static void add(crn_scores *s, const char *name, crn_score_kind kind, double value, double norm) {
  crn_err err = {0};
  assert_int_equal(crn_scores_add(s, name, kind, value, norm, &err), CRN_OK);
}

static void expect_format(const crn_scores *s, crn_score_kind kind, const char *want) {
  crn_str text = {0};
  crn_scores_format(s, kind, &text);
  assert_string_equal(crn_str_get(&text), want);
  crn_str_free(&text);
}

/* Keys and values that scores become in the table, "k=v k=v". */
static void expect_stored(const crn_scores *s, const char *want) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_lr_control *c = NULL;
  double lr;
  crn_str text = {0};
  assert_int_equal(crn_lr_new(crn_v_dict(&a), NULL, NULL, &c, &err), CRN_OK);
  assert_int_equal(crn_lr_for_epoch(c, 1, 0, &lr, &err), CRN_OK);
  assert_int_equal(crn_scores_store(s, "dev", c, 1, &err), CRN_OK);
  const crn_lr_epoch *e = crn_lr_table_find(crn_lr_table_of(c), 1);
  for (size_t i = 0; i < e->n_scores; i++)
    crn_str_addf(&text, "%s%s=%.6g", i ? " " : "", e->scores[i].key, e->scores[i].value);
  assert_string_equal(crn_str_get(&text), want);
  crn_str_free(&text);
  crn_lr_free(c);
  crn_arena_free(&a);
}

/* Two steps of 10 and 30 frames: means over frames, not over steps. */
static void test_means_and_keys(void **state) {
  (void)state;
  crn_scores s = {0};
  expect_format(&s, CRN_SCORE_COST, "None");
  expect_stored(&s, "");
  add(&s, "output", CRN_SCORE_COST, 5, 1. / 10);
  add(&s, "output", CRN_SCORE_ERROR, 2, 1. / 10);
  add(&s, "output", CRN_SCORE_COST, 35, 1. / 30);
  add(&s, "output", CRN_SCORE_ERROR, 4, 1. / 30);
  expect_format(&s, CRN_SCORE_COST, "1.0");
  expect_format(&s, CRN_SCORE_ERROR, "0.15");
  expect_stored(&s, "dev_error=0.15 dev_score=1");
  s.exponential = true;
  expect_stored(&s, "dev_error=0.15 dev_score_output=1 dev_score_output:exp=2.71828");
  expect_format(&s, CRN_SCORE_COST, "output 1.0 output:exp 2.718281828459045");
  s.exponential = false;
  add(&s, "sub/p", CRN_SCORE_COST, 20, 1. / 40);
  expect_stored(&s, "dev_error=0.15 dev_score_output=1 dev_score_sub/p=0.5"); /* two scores, one error */
  add(&s, "bleu", CRN_SCORE_ERROR, -3, 1. / 6);
  expect_stored(&s, "dev_error_bleu=-0.5 dev_error_output=0.15 dev_score_output=1 dev_score_sub/p=0.5");
  expect_format(&s, CRN_SCORE_ERROR, "bleu -0.5 output 0.15");
  crn_scores_clear(&s);
  expect_format(&s, CRN_SCORE_COST, "None"); /* a new epoch starts empty */
  add(&s, "sub/p", CRN_SCORE_COST, 3, 1);
  expect_format(&s, CRN_SCORE_COST, "3.0");
  crn_scores_free(&s);
}

static void test_exp_names_are_sorted(void **state) {
  (void)state;
  crn_scores s = {.exponential = true};
  add(&s, "a", CRN_SCORE_COST, 0, 1);
  add(&s, "a/b", CRN_SCORE_COST, 0, 1);
  expect_format(&s, CRN_SCORE_COST, "a 0.0 a/b 0.0 a/b:exp 1.0 a:exp 1.0");
  crn_scores_free(&s);
}

static void test_finite(void **state) {
  (void)state;
  static const double bad[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 9; i++) {
    crn_scores s = {0};
    add(&s, "o", CRN_SCORE_COST, i % 3 == 0 ? bad[i / 3] : 1, 1);
    add(&s, "o", CRN_SCORE_ERROR, i % 3 == 1 ? bad[i / 3] : 1, 1);
    crn_scores_end_step(&s, i % 3 == 2 ? bad[i / 3] : 1);
    assert_false(crn_scores_finite(&s));
    crn_scores_clear(&s);
    crn_scores_end_step(&s, 1);
    assert_true(crn_scores_finite(&s));
    assert_int_equal(s.n_steps, 1);
    crn_scores_free(&s);
  }
  crn_scores s = {0};
  crn_str text = {0};
  add(&s, "o", CRN_SCORE_COST, NAN, 1);
  add(&s, "o", CRN_SCORE_ERROR, 0, INFINITY); /* an empty batch counts nothing */
  crn_scores_end_step(&s, 2);
  crn_scores_format_sums(&s, &text);
  assert_string_equal(crn_str_get(&text), "{'cost:o': float('nan'), 'error:o': 0.0, 'loss': 2.0}");
  expect_format(&s, CRN_SCORE_ERROR, "float('nan')");
  crn_str_free(&text);
  crn_scores_free(&s);
}

static void test_eval_file(void **state) {
  (void)state;
  crn_scores dev = {0}, eval = {0};
  crn_str text = {0};
  add(&dev, "output", CRN_SCORE_COST, 0.25, 1);
  add(&dev, "output", CRN_SCORE_ERROR, 0.125, 1);
  add(&eval, "out", CRN_SCORE_COST, 0.5, 1);
  const crn_dataset_scores sets[] = {{"eval", &eval}, {"dev", &dev}};
  crn_scores_eval_file(sets, 2, &text);
  assert_string_equal(crn_str_get(&text), "{\n'dev': {\n'error': {'error:output': 0.125},\n'score': {'cost:output': "
                                          "0.25},\n},\n'eval': {'error': {}, 'score': {'cost:out': 0.5}},\n}\n");
  crn_str_free(&text);
  crn_scores_free(&dev);
  crn_scores_free(&eval);
}

/* ---- log lines ------------------------------------------------------------------------------------------------------
 */

typedef struct line {
  int level;
  char text[400];
} line;

static void take(void *user, int level, const char *text) {
  line *l = user;
  l->level = level;
  snprintf(l->text, sizeof l->text, "%s", text);
}

#define EXPECT_LINE(at, want)                                                                                          \
  do {                                                                                                                 \
    assert_string_equal(l.text, want);                                                                                 \
    assert_int_equal(l.level, at);                                                                                     \
  } while (0)

static void test_lines(void **state) {
  (void)state;
  line l = {0};
  crn_log log = {.fn = take, .user = &l, .verbosity = 5};
  crn_step_item items[] = {{"loss", CRN_ITEM_FLOAT, 739.79083f, NULL},
                           {"num_seqs", CRN_ITEM_INT, 10, NULL},
                           {"error:output", CRN_ITEM_DOUBLE, 0.5708502167835832, NULL},
                           {"mem_usage:GPU:0", CRN_ITEM_TEXT, 0, "1.2GB"},
                           {"cost:output", CRN_ITEM_DOUBLE, 0.7597737985996105, NULL}};
  crn_step_time time = {.step_secs = 0.8641, .elapsed_secs = 2.5, .complete = 1. / 30};
  crn_log_step(&log, "train epoch 1", 0, items, 5, &time);
  EXPECT_LINE(5,
              "train epoch 1, step 0, cost:output 0.7597737985996105, error:output 0.5708502167835832, loss "
              "739.79083, mem_usage:GPU:0 1.2GB, num_seqs 10, 0.864 sec/step, elapsed 0:00:02, exp. remaining 0:01:12, "
              "complete 3.33%");
  time.complete = -1;
  crn_log_step(&log, "epoch 3 'dev' eval", 12, items, 0, &time);
  EXPECT_LINE(5, "epoch 3 'dev' eval, step 12, 0.864 sec/step, elapsed 0:00:02");
  crn_log_pass_end(&log, "train epoch 1", 30, 2.5, 1.1675);
  EXPECT_LINE(3, "train epoch 1, finished after 30 steps, 0:00:02 elapsed (46.7% computing time)");
  crn_scores train = {0}, dev = {0};
  add(&train, "output", CRN_SCORE_COST, 0.23, 1);
  add(&train, "sub/p", CRN_SCORE_COST, 0.5, 1);
  add(&train, "output", CRN_SCORE_ERROR, 0.14, 1);
  add(&dev, "output", CRN_SCORE_COST, 0.225, 1);
  crn_log_epoch_scores(&log, 1, false, &train, 2);
  EXPECT_LINE(1, "epoch 1 score: output 0.23 sub/p 0.5 error: 0.14 elapsed: 0:00:02");
  crn_log_epoch_scores(&log, 2, true, &dev, 3723);
  EXPECT_LINE(1, "pretrain epoch 2 score: 0.225 error: None elapsed: 1:02:03");
  const crn_dataset_scores sets[] = {{"dev", &dev}, {"devtrain", &train}};
  crn_log_eval_scores(&log, sets, 2);
  EXPECT_LINE(1, "dev: score 0.225 error None devtrain: score output 0.23 sub/p 0.5 error 0.14");
  crn_scores_free(&train);
  crn_scores_free(&dev);
  log.verbosity = 4;
  l.text[0] = 0;
  crn_log_step(&log, "train epoch 1", 0, items, 5, &time); /* only at verbosity 5 */
  assert_string_equal(l.text, "");
}

static void test_texts(void **state) {
  (void)state;
  static const struct {
    double bytes;
    const char *text;
  } sizes[] = {{0, "0.0B"},
               {819, "819.0B"},
               {820, "0.8KB"},
               {188211, "183.8KB"},
               {838860, "819.2KB"},
               {1.2 * 1024 * 1024 * 1024, "1.2GB"},
               {900. * 1024 * 1024, "0.9GB"}};
  crn_str s = {0};
  for (size_t i = 0; i < 7; i++) {
    crn_str_clear(&s);
    crn_text_size(sizes[i].bytes, &s);
    if (i != 4)
      assert_string_equal(crn_str_get(&s), sizes[i].text);
    else
      assert_string_equal(crn_str_get(&s), "819.2KB");
  }
  crn_str_clear(&s);
  crn_text_float32(0.1f, &s);
  crn_str_add(&s, " ");
  crn_text_float32(1.0 / 3, &s);
  crn_str_add(&s, " ");
  crn_text_float32(16777216, &s);
  crn_str_add(&s, " ");
  crn_text_float32(NAN, &s);
  assert_string_equal(crn_str_get(&s), "0.1 0.33333334 16777216.0 nan");
  crn_running_stats stats = {0};
  for (int i = 1; i <= 4; i++) crn_running_stats_add(&stats, i);
  crn_str_clear(&s);
  crn_running_stats_format(&stats, &s);
  assert_string_equal(crn_str_get(&s),
                      "Stats(mean=2.5, std_dev=1.118033988749895, min=1.0, max=4.0, num_seqs=4, avg_data_len=1)");
  crn_str_free(&s);
}

/* ---- picture --------------------------------------------------------------------------------------------------------
 */

static void expect_ticks(double lo, double hi, int wanted, bool whole, const char *want) {
  double ticks[16];
  char text[300] = "";
  int n = crn_curve_ticks(lo, hi, wanted, whole, ticks);
  for (int i = 0; i < n; i++)
    snprintf(text + strlen(text), 40, "%s%g", i ? " " : "", fabs(ticks[i]) < 1e-12 ? 0 : ticks[i]);
  assert_string_equal(text, want);
}

static void test_ticks(void **state) {
  (void)state;
  expect_ticks(0, 1, 5, false, "0 0.2 0.4 0.6 0.8 1");
  expect_ticks(0.12, 0.48, 5, false, "0.2 0.3 0.4");
  expect_ticks(1, 7, 10, true, "1 2 3 4 5 6 7");
  expect_ticks(1, 240, 10, true, "50 100 150 200");
  expect_ticks(-3, 3, 3, false, "-2 0 2");
  expect_ticks(1, 1, 5, false, "");
  expect_ticks(0, NAN, 5, false, "");
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
  return n;
}

static void table_of(const char *text, crn_lr_table *t) {
  crn_err err = {0};
  if (crn_lr_table_parse(t, text, strlen(text), "t", &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
}

static void test_picture(void **state) {
  (void)state;
  crn_lr_table t = {0};
  crn_err err = {0};
  crn_str svg = {0};
  assert_int_equal(
      crn_lr_table_read(&t, CRN_SOURCE_DIR "/tests/data/training/two_losses/reference/learning_rates", &err), CRN_OK);
  assert_int_equal(crn_curve_svg(&t, "a < b & c", &svg, &err), CRN_OK);
  const char *text = crn_str_get(&svg);
  assert_true(crn_starts_with(text, "<svg xmlns=\"http://www.w3.org/2000/svg\""));
  assert_true(crn_ends_with(text, "</svg>\n"));
  assert_non_null(strstr(text, "a &lt; b &amp; c"));
  assert_int_equal(count(text, "class=\"t\""), 3);                      /* score, error, rate */
  assert_int_equal(count(text, "fill=\"none\" stroke=\"#"), 4 + 4 + 1); /* two data sets, two losses; the rate */
  assert_int_equal(count(text, "<text"), count(text, "</text>"));
  assert_null(strstr(text, "nan"));
  crn_str_free(&svg);
  crn_lr_table_free(&t);
}

static void test_picture_of_odd_tables(void **state) {
  (void)state;
  static const char *const tables[] = {
      "{1: EpochData(learningRate=0.1, error={})}",
      "{7: EpochData(learningRate=0.1, error={'dev_score': nan, 'train_score': inf})}",
      "{1: EpochData(learningRate=0, error={'dev_score': 0}), 2: EpochData(learningRate=0, error={'dev_score': 0})}",
      "{1: EpochData(learningRate=1e-300, error={'dev_score': -1e300}), 900: EpochData(learningRate=1e300, "
      "error={'dev_score': 1e300, 'x<y_score_a&b': 3, '_score': 2})}",
      "{1: EpochData(learningRate=1, error={'a_score_1': 1, 'a_score_2': 1, 'a_score_3': 1, 'a_score_4': 1, "
      "'a_score_5': 1,"
      " 'a_score_6': 1, 'a_score_7': 1, 'a_score_8': 1, 'a_score_9': 1, 'b_score_1': 1, 'b_score_2': 1, 'b_score_3': 1,"
      " 'b_score_4': 1, 'b_score_5': 1})}"};
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
    crn_lr_table t = {0};
    crn_err err = {0};
    crn_str svg = {0};
    table_of(tables[i], &t);
    assert_int_equal(crn_curve_svg(&t, NULL, &svg, &err), CRN_OK);
    const char *text = crn_str_get(&svg);
    if (strstr(text, "\"nan") || strstr(text, "Mnan") || strstr(text, " nan") || strstr(text, "inf"))
      fail_msg("table %d: %s", (int)i, text);
    assert_null(strstr(text, "x<y"));
    assert_int_equal(count(text, "<text"), count(text, "</text>"));
    if (i == 4) assert_non_null(strstr(text, "and 2 more"));
    crn_str_free(&svg);
    crn_lr_table_free(&t);
  }
  crn_lr_table empty = {0};
  crn_err err = {0};
  crn_str svg = {0};
  assert_int_equal(crn_curve_svg(&empty, NULL, &svg, &err), CRN_E_DATA);
  crn_err_clear(&err);
  crn_str_free(&svg);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_means_and_keys),
      cmocka_unit_test(test_exp_names_are_sorted),
      cmocka_unit_test(test_finite),
      cmocka_unit_test(test_eval_file),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_texts),
      cmocka_unit_test(test_ticks),
      cmocka_unit_test(test_picture),
      cmocka_unit_test(test_picture_of_odd_tables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
