/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorded attention model end to end: its search results for all sequences, the scores of task eval, the forms of
 * the search output file, n-best lists, and what task search refuses.
 */
#include "task_folder.h"

#include <zlib.h>

#include "base/file.h"
#include "train/search_text.h"

#define ATTENTION DATA "endtoend/attention/"

/* Settings for a search that writes to a file. */
#define SEARCH(file, format)                                                                                           \
  "task", "search", "load", ATTENTION "reference/model.025", "search_output_file", file, "search_output_file_format",  \
      format

static void search(const char *const *settings, crn_str *log) {
  crn_err err = {0};
  if (run_task(crn_task_search, ATTENTION "config.py", settings, log, &err) != CRN_OK)
    fail_msg("%s", crn_err_text(&err));
}

static char *content(const char *path) {
  char *text;
  crn_err err = {0};
  if (crn_file_read(path, 0, &text, NULL, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  return text;
}

static void test_recorded_results(void **state) {
  (void)state;
  crn_str log = {0};
  const char *file = in_folder("out.py");
  const char *const settings[] = {SEARCH(file, "py"), NULL};
  search(settings, &log);
  char *got = content(file), *want = content(ATTENTION "reference/search_out.py");
  assert_string_equal(got, want);
  assert_non_null(
      strstr(crn_str_get(&log),
             "seq_tag: 'seq-0', output 'decision': array([7, 9], dtype=int32)\n  ref: 7 9 0\n  hyp: 7 9\n"));
  const char *end = strstr(crn_str_get(&log), "Search done. Num steps 5, Final: score ");
  assert_non_null(end);
  end = strstr(end, " decision ");
  assert_non_null(end);
  assert_true(fabs(strtod(end + strlen(" decision "), NULL) - 0.2226488) < 1e-7);
  crn_free(got);
  crn_free(want);
  crn_str_free(&log);
}

static void test_text_file(void **state) {
  (void)state;
  const char *file = in_folder("out.txt.gz");
  const char *const settings[] = {SEARCH(file, "txt"), NULL};
  search(settings, NULL);
  char text[4000];
  gzFile f = gzopen(file, "rb");
  assert_non_null(f);
  const int n = gzread(f, text, sizeof text - 1);
  assert_true(n > 0);
  text[n] = 0;
  gzclose(f);
  int lines = 0;
  for (const char *p = text; *p; p++) lines += *p == '\n';
  assert_int_equal(lines, 100);
  assert_memory_equal(text, "7 9\n1 11 5 2 7 4\n2 6 9\n8 11 4 3\n", 31);
}

/* Undecided output: the beam, as sorted scores; several layers: a dict of them. */
static void test_beams_and_layers(void **state) {
  (void)state;
  const char *file = in_folder("beams.txt");
  const char *const settings[] = {SEARCH(file, "txt"), "search_output_layer", "output", NULL};
  search(settings, NULL);
  char *text = content(file);
  assert_memory_equal(text, "[(-0.1196230", 12);
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *v;
  *strchr(text, '\n') = 0;
  assert_int_equal(crn_v_parse_literal(&a, text, "line", &v, &err), CRN_OK);
  assert_int_equal(crn_v_len(v), 4);
  double before = 0;
  for (size_t i = 0; i < 4; i++) {
    double score;
    assert_true(crn_v_to_float(crn_v_at(crn_v_at(v, i), 0), &score));
    assert_true(score < before);
    before = score;
  }
  assert_string_equal(crn_v_cstr(crn_v_at(crn_v_at(v, 0), 1)), "7 9");
  crn_free(text);
  const char *both = in_folder("both.py");
  crn_config *c = NULL;
  if (crn_config_load(ATTENTION "config.py", NULL, &c, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  const char *const more[] = {SEARCH(both, "py"), NULL};
  for (size_t i = 0; more[i]; i += 2)
    assert_int_equal(crn_config_override(c, more[i], more[i + 1], NULL, &err), CRN_OK);
  crn_value *names = crn_v_seq(&a, CRN_V_LIST);
  crn_v_push(&a, names, crn_v_str(&a, "output"));
  crn_v_push(&a, names, crn_v_str(&a, "decision"));
  assert_int_equal(crn_config_set(c, "search_output_layer", names, &err), CRN_OK);
  if (crn_task_search(c, NULL, NULL, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  crn_config_free(c);
  text = content(both);
  assert_true(crn_starts_with(text, "{\n'seq-0': {\n'decision': '7 9',\n'output': [\n(-0.1196230"));
  assert_int_equal(crn_v_parse_literal(&a, text, "file", &v, &err), CRN_OK);
  assert_int_equal(crn_v_len(v), 100);
  crn_free(text);
  crn_arena_free(&a);
}

static crn_status best_two(crn_config *c, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err) {
  return crn_task_search_nbest(c, log, hooks, 2, err);
}

static void test_nbest(void **state) {
  (void)state;
  crn_err err = {0};
  const char *file = in_folder("best.txt");
  const char *const settings[] = {SEARCH(file, "txt"), NULL};
  if (run_task(best_two, ATTENTION "config.py", settings, NULL, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  char *text = content(file);
  crn_arena a = {0};
  crn_value *v;
  *strchr(text, '\n') = 0;
  assert_int_equal(crn_v_parse_literal(&a, text, "line", &v, &err), CRN_OK);
  assert_int_equal(crn_v_len(v), 2);
  crn_free(text);
  crn_arena_free(&a);
}

static void expect_failure(const char *const *settings, const char *message) {
  crn_err err = {0};
  assert_int_not_equal(run_task(crn_task_search, ATTENTION "config.py", settings, NULL, &err), CRN_OK);
  if (!strstr(crn_err_text(&err), message)) fail_msg("expected '%s' in: %s", message, crn_err_text(&err));
  crn_err_clear(&err);
}

static void test_refused(void **state) {
  (void)state;
  const char *there = in_folder("there");
  FILE *f = fopen(there, "w");
  assert_non_null(f);
  fclose(f);
  const char *const exists[] = {SEARCH(there, "py"), NULL};
  expect_failure(exists, "exists already");
  const char *file = in_folder("never");
  const char *const layer[] = {SEARCH(file, "py"), "search_output_layer", "decison", NULL};
  expect_failure(layer, "no layer 'decison'");
  const char *const format[] = {SEARCH(file, "json"), NULL};
  expect_failure(format, "\"txt\" or \"py\"");
  const char *const length[] = {SEARCH(file, "py"), "max_seq_length", "5", NULL};
  expect_failure(length, "max_seq_length");
  assert_int_not_equal(access(file, F_OK), 0);
}

static void test_eval_scores(void **state) {
  (void)state;
  crn_err err = {0};
  crn_arena a = {0};
  crn_value *v = NULL;
  const char *file = in_folder("eval.py");
  const char *const settings[] = {"task", "eval", "load", ATTENTION "reference/model.025", "eval_output_file",
                                  file,   NULL};
  if (run_task(crn_task_eval, ATTENTION "config.py", settings, NULL, &err) != CRN_OK)
    fail_msg("%s", crn_err_text(&err));
  char *text = content(file);
  if (crn_v_parse_literal(&a, text, file, &v, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  const crn_value *dev = crn_v_get(v, "dev"), *score = crn_v_get(dev, "score"), *error = crn_v_get(dev, "error");
  double got = 0;
  assert_true(crn_v_to_float(crn_v_get(score, "cost:output/output_prob"), &got));
  assert_true(fabs(got - 0.1455895) < 1e-6);
  assert_true(crn_v_to_float(crn_v_get(score, "cost:ctc"), &got));
  assert_true(fabs(got - 1.5033226) < 1e-6);
  assert_true(crn_v_to_float(crn_v_get(error, "error:output/output_prob"), &got));
  assert_true(fabs(got - 0.0441459) < 1e-6);
  crn_free(text);
  crn_arena_free(&a);
}

/* The file's form, on made results. */
static void test_file_forms(void **state) {
  (void)state;
  crn_hypothesis two[] = {{-1.0596094, "c d"}, {-(double)INFINITY, "it's"}}, one[] = {{0, "d a"}};
  crn_hypotheses beam = {.layer = "output", .has_beam = true, .n = 2, .list = two},
                 best = {.layer = "decision", .n = 1, .list = one};
  crn_hypotheses layers[] = {best, {.layer = "x", .n = 1, .list = one}};
  crn_search_result a = {.tag = "seq-0", .layers = &beam, .n_layers = 1},
                    b = {.tag = "seq-1", .layers = &best, .n_layers = 1};
  crn_search_result c = {.tag = "seq-2", .layers = layers, .n_layers = 2};
  const crn_search_result *const list[] = {&a, &b}, *const both[] = {&c};
  crn_str s = {0};
  crn_search_file_text(list, 2, false, true, &s);
  assert_string_equal(crn_str_get(&s),
                      "{\n'seq-0': [\n(-1.0596094, 'c d'),\n(-inf, \"it's\"),\n],\n'seq-1': 'd a',\n}\n");
  crn_str_clear(&s);
  crn_search_file_text(list, 2, false, false, &s);
  assert_string_equal(crn_str_get(&s), "[(-1.0596094, 'c d'), (-inf, \"it's\")]\nd a\n");
  crn_str_clear(&s);
  crn_search_file_text(both, 1, true, true, &s);
  assert_string_equal(crn_str_get(&s), "{\n'seq-2': {'decision': 'd a', 'x': 'd a'},\n}\n");
  crn_str_free(&s);
}

/* Rows of a text "array([[[w], [w], …], …], dtype=float32)"; each must be weights: not negative, with sum 1. */
static size_t check_weights(crn_arena *a, const char *text) {
  crn_err err = {0};
  crn_value *v = NULL;
  assert_true(crn_starts_with(text, "array("));
  const char *numbers = text + strlen("array("), *end = strstr(numbers, ", dtype=float32)");
  assert_non_null(end);
  char *copy = crn_arena_strndup(a, numbers, (size_t)(end - numbers));
  if (crn_v_parse_literal(a, copy, "array", &v, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  for (size_t i = 0; i < crn_v_len(v); i++) {
    double sum = 0, w;
    for (size_t k = 0; k < crn_v_len(crn_v_at(v, i)); k++) {
      assert_true(crn_v_to_float(crn_v_at(crn_v_at(crn_v_at(v, i), k), 0), &w));
      assert_true(w >= 0);
      sum += w;
    }
    assert_true(fabs(sum - 1) < 1e-5);
  }
  return crn_v_len(v);
}

/* Attention weights of the hypotheses: an axis of the source, whose lengths are the same in every step of the loop. */
static void test_attention_weights(void **state) {
  (void)state;
  crn_err err = {0};
  crn_arena a = {0};
  crn_value *v = NULL;
  const char *file = in_folder("weights.py");
  const char *const settings[] = {SEARCH(file, "py"),
                                  "network",
                                  "dict(network, att={'class': 'decide', 'from': 'output/att_weights', "
                                  "'only_on_search': True, 'is_output_layer': True}, output=dict(network['output'], "
                                  "unit=dict(network['output']['unit'], att_weights={'class': 'softmax_over_spatial', "
                                  "'from': 'energy', 'is_output_layer': True})))",
                                  "search_output_layer",
                                  "att",
                                  NULL};
  search(settings, NULL);
  char *text = content(file);
  if (crn_v_parse_literal(&a, text, "file", &v, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  assert_int_equal(crn_v_len(v), 100);
  for (size_t i = 0; i < 100; i++) {
    const size_t n = check_weights(&a, crn_v_cstr(v->u.dict.vals[i]));
    if (!strcmp(crn_v_cstr(v->u.dict.keys[i]), "seq-0")) assert_int_equal(n, 2); /* "7 9" */
  }
  crn_free(text);
  crn_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recorded_results), cmocka_unit_test(test_text_file),
      cmocka_unit_test(test_beams_and_layers), cmocka_unit_test(test_nbest),
      cmocka_unit_test(test_refused),          cmocka_unit_test(test_eval_scores),
      cmocka_unit_test(test_file_forms),       cmocka_unit_test(test_attention_weights),
  };
  return cmocka_run_group_tests(tests, make_task_folder, remove_task_folder);
}
