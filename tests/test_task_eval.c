/* SPDX-License-Identifier: Apache-2.0
 *
 * Task eval: scores by sequence and position against the recorded ones of the whole; and keys that change what a task
 * does or writes: need_data, dry_run, log_batch_size, device, and those that training refuses.
 */
#include "task_folder.h"

#include <dirent.h>

#include "base/file.h"
#include "config/keys.h"

#define ADAM DATA "training/adam/"
#define MODEL ADAM "reference/model.004"

static void run(task_fn task, const char *const *settings, crn_str *log) {
  crn_err err = {0};
  if (run_task(task, ADAM "config.py", settings, log, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
}

static void expect_failure(task_fn task, const char *const *settings, const char *message) {
  crn_err err = {0};
  assert_int_not_equal(run_task(task, ADAM "config.py", settings, NULL, &err), CRN_OK);
  if (!strstr(crn_err_text(&err), message)) fail_msg("expected '%s' in: %s", message, crn_err_text(&err));
  crn_err_clear(&err);
}

static char *content_of(const char *path) {
  char *text;
  crn_err err = {0};
  if (crn_file_read(path, 0, &text, NULL, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  return text;
}

/* Numbers separated by spaces up to the line's end. */
static double sum_of_numbers(const char *p, int64_t *n) {
  double sum = 0;
  *n = 0;
  for (char *end; *p && *p != '\n'; p = end) {
    sum += strtod(p, &end);
    assert_true(end > p);
    ++*n;
    if (*end == ' ') end++;
  }
  return sum;
}

static void test_by_sequence(void **state) {
  (void)state;
  const char *file = in_folder("seqs.txt");
  const char *const settings[] = {
      "load",      MODEL,    "eval_output_file_per_seq", file,
      "loss_name", "output", "output_per_seq_format",    "['seq_tag', 'seq_len', 'score', 'error', 'pos_error']",
      NULL};
  run(crn_task_eval, settings, NULL);
  char *text = content_of(file), *line = text;
  double score = 0, error = 0;
  long long frames = 0;
  int n_lines = 0;
  for (char *next; *line; line = next + 1, n_lines++) {
    char tag[40];
    long long len;
    double s, e;
    int at = 0;
    next = strchr(line, '\n');
    assert_int_equal(sscanf(line, "%39[^;];%lld;%lf;%lf;%n", tag, &len, &s, &e, &at), 4);
    int64_t n;
    const double wrong = sum_of_numbers(line + at, &n);
    assert_int_equal(n, len);
    assert_true(fabs(wrong - e * (double)len) < 1e-4);
    char want[40]; /* in the order of the corpus */
    (void)snprintf(want, sizeof want, "seq-%d", n_lines);
    assert_string_equal(tag, want);
    score += s * (double)len;
    error += e * (double)len;
    frames += len;
  }
  /* the recorded dev_score and dev_error of epoch 4 */
  assert_true(n_lines > 10);
  assert_true(fabs(error / (double)frames - 0.045133558879805157) < 1e-6);
  crn_lr_table t = {0};
  crn_err err = {0};
  assert_int_equal(crn_lr_table_read(&t, ADAM "reference/learning_rates", &err), CRN_OK);
  assert_true(fabs(score / (double)frames - number_of(&t, 4, "dev_score")) < 1e-6);
  crn_lr_table_free(&t);
  crn_free(text);
}

static void test_by_sequence_python(void **state) {
  (void)state;
  const char *file = in_folder("seqs.py");
  const char *const settings[] = {"load",
                                  MODEL,
                                  "eval_output_file_per_seq",
                                  file,
                                  "loss_name",
                                  "output",
                                  "output_per_seq_format",
                                  "['score', 'pos_score']",
                                  "output_per_seq_file_format",
                                  "py",
                                  NULL};
  run(crn_task_eval, settings, NULL);
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *v;
  char *text = content_of(file);
  assert_true(crn_starts_with(text, "{\n'seq-0': {'score': 0."));
  assert_true(crn_ends_with(text, "]},\n}\n"));
  if (crn_v_parse_literal(&a, text, "seqs.py", &v, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  const crn_value *one = crn_v_get(v, "seq-3"), *positions = crn_v_get(one, "pos_score");
  double mean, sum = 0, x;
  assert_true(crn_v_to_float(crn_v_get(one, "score"), &mean));
  for (size_t i = 0; i < crn_v_len(positions); i++) {
    assert_true(crn_v_to_float(crn_v_at(positions, i), &x));
    sum += x;
  }
  assert_true(fabs(mean - sum / (double)crn_v_len(positions)) < 1e-6);
  crn_free(text);
  crn_arena_free(&a);
}

static void test_by_sequence_refusals(void **state) {
  (void)state;
  static const struct {
    const char *key, *value, *message;
  } rows[] = {
      {"epoch", "4", "key 'loss_name': is missing"},
      {"loss_name", "outptu", "the network has no loss 'outptu'; there are 'output'"},
      {"output_per_seq_format", "['scor']", "unknown field 'scor'; there are seq_tag, seq_len"},
      {"output_per_seq_file_format", "json", "expected \"txt\" or \"py\", got \"json\""},
      {"eval", "{'class': 'HDFDataset', 'files': ['../dev.hdf']}",
       "there must be one dataset to evaluate, there are 2"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const bool named = i == 0 || !strcmp(rows[i].key, "loss_name");
    const char *const settings[] = {"load",      MODEL,         "eval_output_file_per_seq", in_folder("never"),
                                    rows[i].key, rows[i].value, named ? NULL : "loss_name", "output",
                                    NULL};
    expect_failure(crn_task_eval, settings, rows[i].message);
  }
  assert_int_not_equal(access(in_folder("never"), F_OK), 0);
}

/* ---- other keys -----------------------------------------------------------------------------------------------------
 */

static int entries(const char *path) {
  int n = 0;
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

static void test_dry_run(void **state) {
  (void)state;
  crn_str log = {0};
  const char *out = in_folder("dry");
  assert_int_equal(mkdir(out, 0777), 0);
  char model[160], rates[160];
  (void)snprintf(model, sizeof model, "%s/net", out);
  (void)snprintf(rates, sizeof rates, "%s/rates", out);
  const char *const settings[] = {"model",   model,  "learning_rate_file",        rates,  "num_epochs",         "2",
                                  "dry_run", "True", "save_epoch1_initial_model", "True", "cleanup_old_models", "True",
                                  NULL};
  run(crn_task_train, settings, &log);
  assert_non_null(strstr(crn_str_get(&log), "Finished training in epoch 2."));
  assert_null(strstr(crn_str_get(&log), "Save model"));
  assert_int_equal(entries(out), 0);
  crn_str_free(&log);
}

static void test_need_data(void **state) {
  (void)state;
  const char *const settings[] = {"load", MODEL, "need_data", "False", "model", "None", NULL};
  expect_failure(crn_task_train, settings, "key 'need_data' is False: task train needs data");
  expect_failure(crn_task_eval, settings, "task eval needs 'dev', 'eval' or 'eval_datasets' and 'need_data'");
  /* nothing of the data is looked at where none is needed */
  const char *const init[] = {"model", in_folder("init"), "need_data", "False", "train", "'/nowhere.hdf'", NULL};
  run(crn_task_initialize_model, init, NULL);
  assert_int_equal(access(in_folder("init.index"), F_OK), 0);
}

static char *step_lines(const char *sizes) {
  crn_str text = {0};
  crn_err err = {0};
  crn_config *c = NULL;
  const crn_log log = {collect_line, &text, 5};
  crn_status st = crn_config_load(ADAM "config.py", &log, &c, &err);
  const char *const settings[] = {"load", MODEL, "log_batch_size", sizes, "device", "gpu"};
  for (size_t i = 0; st == CRN_OK && i < 6; i += 2)
    st = crn_config_override(c, settings[i], settings[i + 1], NULL, &err);
  if (st == CRN_OK) st = crn_task_eval(c, &log, NULL, &err);
  if (st != CRN_OK) fail_msg("%s", crn_err_text(&err));
  crn_config_free(c);
  return text.p;
}

static void test_step_lines(void **state) {
  (void)state;
  char *with = step_lines("True"), *without = step_lines("False");
  const char *line = strstr(with, "'dev' eval, step 0, cost:output "), *end = strchr(line, '\n');
  assert_non_null(line);
  static const char *const parts[] = {", error:output ", ", loss ", ", max_size:classes ", ", max_size:data ",
                                      ", num_seqs 10, "};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const char *at = strstr(line, parts[i]);
    if (!at || at > end) fail_msg("'%s' isn't in '%.*s'", parts[i], (int)(end - line), line);
  }
  assert_non_null(strstr(without, ", loss "));
  assert_null(strstr(without, "max_size:"));
  assert_null(strstr(without, "num_seqs"));
  assert_non_null(strstr(with, "Device 'gpu' is asked for: computing on the CPU.\n"));
  free(with);
  free(without);
}

static void train_with(const char *key, bool on, const char *message) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_config *c = NULL;
  assert_int_equal(crn_config_load(ADAM "config.py", NULL, &c, &err), CRN_OK);
  assert_int_equal(crn_config_set(c, key, on ? crn_v_int(&a, 1) : crn_v_none(&a), &err), CRN_OK);
  const crn_status st = crn_config_check_training(c, &err);
  assert_int_equal(st, on ? CRN_E_NOT_IMPLEMENTED : CRN_OK);
  crn_err_clear(&err);
  err = (crn_err){0};
  if (on) {
    assert_int_equal(crn_task_train(c, NULL, NULL, &err), CRN_E_NOT_IMPLEMENTED);
    if (!strstr(crn_err_text(&err), message)) fail_msg("expected '%s' in: %s", message, crn_err_text(&err));
  }
  crn_err_clear(&err);
  crn_config_free(c);
  crn_arena_free(&a);
}

/* Each key that would change what is learnt is refused by name in training, and only told elsewhere. */
static void test_refused_in_training(void **state) {
  (void)state;
  int n = 0;
  for (size_t i = 0; i < crn_config_keys_n; i++) {
    const crn_config_key *key = &crn_config_keys[i];
    if (key->state != CRN_KEY_REFUSED) continue;
    char message[160];
    (void)snprintf(message, sizeof message, "not implemented in training: '%s' (", key->name);
    train_with(key->name, true, message);
    train_with(key->name, false, NULL);
    n++;
  }
  assert_true(n >= 10);
  const char *const eval[] = {"load", MODEL, "pretrain", "default", NULL};
  run(crn_task_eval, eval, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_sequence),
                                     cmocka_unit_test(test_by_sequence_python),
                                     cmocka_unit_test(test_by_sequence_refusals),
                                     cmocka_unit_test(test_dry_run),
                                     cmocka_unit_test(test_need_data),
                                     cmocka_unit_test(test_step_lines),
                                     cmocka_unit_test(test_refused_in_training)};
  return cmocka_run_group_tests(tests, make_task_folder, remove_task_folder);
}
