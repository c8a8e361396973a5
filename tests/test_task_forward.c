/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks forward, compute_priors, initialize_model and cleanup_old_models, on a recorded model: what forward writes must
 * give the recorded score and error, and the priors must be the average of it.
 */
#include "task_folder.h"

#include <sys/stat.h>

#include "base/file.h"
#include "ckpt/bundle.h"

#define ADAM DATA "training/adam/"
#define DEV DATA "training/dev.hdf"

static void run(task_fn task, const char *const *settings) {
  crn_err err = {0};
  if (run_task(task, ADAM "config.py", settings, NULL, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
}

static void expect_failure(task_fn task, const char *const *settings, const char *message) {
  crn_err err = {0};
  assert_int_not_equal(run_task(task, ADAM "config.py", settings, NULL, &err), CRN_OK);
  if (!strstr(crn_err_text(&err), message)) fail_msg("expected '%s' in: %s", message, crn_err_text(&err));
  crn_err_clear(&err);
}

static crn_dataset *open_hdf(const char *path, crn_arena *a) {
  crn_err err = {0};
  crn_dataset *ds = NULL;
  const crn_data_env env = {0};
  if (crn_dataset_new(crn_v_str(a, path), NULL, "test", &env, &ds, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  assert_int_equal(crn_dataset_begin_epoch(ds, 1, NULL, &err), CRN_OK);
  return ds;
}

static void read_key(crn_dataset *ds, int64_t seq, const char *key, crn_array *out) {
  crn_err err = {0};
  int64_t n;
  const int k = crn_dataset_find_key(ds, key);
  assert_true(k >= 0);
  assert_int_equal(crn_dataset_length(ds, seq, (size_t)k, &n, &err), CRN_OK);
  assert_int_equal(crn_dataset_read(ds, seq, (size_t)k, 0, n, out, &err), CRN_OK);
}

static int64_t find_tag(crn_dataset *ds, const char *wanted) {
  crn_err err = {0};
  for (int64_t i = 0; i < crn_dataset_num_seqs(ds); i++) {
    const char *tag;
    assert_int_equal(crn_dataset_tag(ds, i, &tag, &err), CRN_OK);
    if (!strcmp(tag, wanted)) return i;
  }
  fail_msg("no sequence '%s'", wanted);
  return -1;
}

typedef struct sums {
  double score, error, mean[2];
  int64_t frames;
} sums;

/* Cross entropy and frame errors of the posteriors in an HDF file. */
static sums judge(const char *path) {
  crn_arena a = {0};
  crn_dataset *out = open_hdf(path, &a), *ref = open_hdf(DEV, &a);
  crn_array p = {0}, labels = {0};
  crn_err err = {0};
  sums s = {0};
  assert_int_equal(crn_dataset_num_seqs(out), crn_dataset_num_seqs(ref));
  for (int64_t i = 0; i < crn_dataset_num_seqs(out); i++) {
    const char *tag;
    assert_int_equal(crn_dataset_tag(out, i, &tag, &err), CRN_OK);
    read_key(ref, find_tag(ref, tag), "classes", &labels);
    read_key(out, i, "data", &p);
    assert_int_equal(p.rank, 2);
    assert_int_equal(p.shape[1], 2);
    assert_int_equal(p.shape[0], labels.n);
    for (int64_t t = 0; t < labels.n; t++) {
      const float *row = (const float *)p.data + 2 * t;
      int32_t label;
      assert_true(crn_ntype_convert(labels.dtype, (const char *)labels.data + (size_t)t * crn_ntype_bytes(labels.dtype),
                                    CRN_NT_I32, &label, 1));
      s.score -= log((double)row[label]);
      s.error += row[label] < row[1 - label];
      s.mean[0] += (double)row[0];
      s.mean[1] += (double)row[1];
    }
    s.frames += labels.n;
  }
  crn_array_free(&p);
  crn_array_free(&labels);
  crn_dataset_free(out);
  crn_dataset_free(ref);
  crn_arena_free(&a);
  return s;
}

static void test_forward(void **state) {
  (void)state;
  const char *file = in_folder("out.hdf"), *text = in_folder("priors.txt");
  const char *const settings[] = {"task", "forward",     "load", ADAM "reference/model.004", "eval",
                                  DEV,    "output_file", file,   "forward_batch_size",       "500",
                                  NULL};
  run(crn_task_forward, settings);
  const sums s = judge(file);
  assert_true(s.frames > 0);
  assert_true(fabs(s.score / (double)s.frames - 0.11157104441119561) < 1e-6);
  assert_true(fabs(s.error / (double)s.frames - 0.045133558879805157) < 1e-9);
  expect_failure(crn_task_forward, settings, "exists already");
  const char *const again[] = {
      "load", ADAM "reference/model.004",    "eval", DEV, "output_file", file, "forward_batch_size",
      "1",    "forward_override_hdf_output", "True", NULL};
  run(crn_task_forward, again);
  const sums one = judge(file); /* other batches, same numbers */
  assert_true(fabs(one.score - s.score) < 1e-6 * s.score);

  const char *const priors[] = {
      "task", "compute_priors", "load", ADAM "reference/model.004", "train", DEV, "output_file", text, NULL};
  run(crn_task_compute_priors, priors);
  char *content, *end;
  crn_err err = {0};
  assert_int_equal(crn_file_read(text, 0, &content, NULL, &err), CRN_OK);
  const double p0 = strtod(content, &end), p1 = strtod(end, &end);
  assert_string_equal(end, "\n");
  assert_true(fabs(exp(p0) - s.mean[0] / (double)s.frames) < 1e-6);
  assert_true(fabs(exp(p1) - s.mean[1] / (double)s.frames) < 1e-6);
  crn_free(content);
  expect_failure(crn_task_compute_priors, priors, "exists already");
}

static void test_forward_layers(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_array p = {0};
  const char *file = in_folder("hidden.hdf");
  const char *const settings[] = {
      "load", ADAM "reference/model.004", "eval", DEV, "output_file", file, "forward_batch_size",
      "500",  "forward_output_layer",     "fw0",  NULL};
  run(crn_task_forward, settings);
  crn_dataset *ds = open_hdf(file, &a);
  read_key(ds, 0, "data", &p);
  assert_int_equal(p.shape[1], 10);
  crn_array_free(&p);
  crn_dataset_free(ds);
  crn_arena_free(&a);
  const char *const wrong[] = {
      "load", ADAM "reference/model.004", "eval", DEV, "output_file", in_folder("never.hdf"), "forward_batch_size",
      "500",  "forward_output_layer",     "fw1",  NULL};
  expect_failure(crn_task_forward, wrong, "did you mean 'fw0'?");
  const char *const no_size[] = {"load",        ADAM "reference/model.004", "eval", DEV,
                                 "output_file", in_folder("never.hdf"),     NULL};
  expect_failure(crn_task_forward, no_size, "forward_batch_size");
  assert_int_not_equal(access(in_folder("never.hdf"), F_OK), 0);
}

static void test_initialize(void **state) {
  (void)state;
  crn_err err = {0};
  crn_bundle *b = NULL, *c = NULL;
  const char *one = in_folder("init"), *two = in_folder("init2");
  const char *const settings[] = {"task", "initialize_model", "model", one, NULL}, *const other[] = {"model", two,
                                                                                                     "random_seed", "3",
                                                                                                     NULL};
  run(crn_task_initialize_model, settings);
  run(crn_task_initialize_model, other);
  assert_int_equal(crn_bundle_open(one, &b, &err), CRN_OK);
  assert_int_equal(crn_bundle_open(two, &c, &err), CRN_OK);
  const crn_bundle_entry *w = crn_bundle_find(b, "output/W"), *g = crn_bundle_find(b, "global_step"),
                         *v = crn_bundle_find(c, "output/W");
  assert_non_null(w);
  assert_non_null(v);
  assert_non_null(g);
  assert_int_equal(w->n_elements, 20);
  float x[20], y[20];
  int64_t step = -1;
  assert_int_equal(crn_bundle_read(b, w, x, sizeof x, &err), CRN_OK);
  assert_int_equal(crn_bundle_read(c, v, y, sizeof y, &err), CRN_OK);
  assert_int_equal(crn_bundle_read(b, g, &step, sizeof step, &err), CRN_OK);
  assert_int_equal(step, 0);
  assert_memory_not_equal(x, y, sizeof x);
  crn_bundle_free(b);
  crn_bundle_free(c);
}

/* ---- cleanup --------------------------------------------------------------------------------------------------------
 */

static bool there(int epoch) {
  char path[128];
  (void)snprintf(path, sizeof path, "%s/net.%03d.index", folder, epoch);
  return access(path, F_OK) == 0;
}

static bool answer;
static bool reply(void *user, const char *question) {
  (void)user;
  assert_non_null(strstr(question, "Delete the models of epochs"));
  return answer;
}
static crn_status ask(crn_config *c, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err) {
  (void)hooks;
  const crn_engine_hooks mine = {.confirm = reply};
  return crn_task_cleanup_old_models(c, log, &mine, err);
}

static void test_cleanup(void **state) {
  (void)state;
  const char *model = in_folder("net"), *rates = in_folder("rates");
  const char *const train[] = {"model", model, "learning_rate_file", rates, "num_epochs", "7", NULL};
  run(crn_task_train, train);
  for (int i = 1; i <= 7; i++) assert_true(there(i));
  const char *const clean_up[] = {
      "model",      model, "learning_rate_file", rates,
      "num_epochs", "7",   "cleanup_old_models", "{'keep_last_n': 1, 'keep_best_n': 1, 'keep': [2]}",
      NULL};
  answer = false;
  expect_failure(ask, clean_up, "not confirmed");
  for (int i = 1; i <= 7; i++) assert_true(there(i));
  answer = true;
  run(ask, clean_up);
  assert_false(there(1));
  assert_true(there(2));
  assert_false(there(3));
  assert_true(there(7));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward), cmocka_unit_test(test_forward_layers),
                                     cmocka_unit_test(test_initialize), cmocka_unit_test(test_cleanup)};
  return cmocka_run_group_tests(tests, make_task_folder, remove_task_folder);
}
