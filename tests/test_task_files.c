/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files of tasks: missing folders are made, what can't be written is said before the work, and a task that stops
 * half way leaves nothing behind.
 */
#include "task_folder.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/file.h"

#define ADAM DATA "training/adam/"
#define ATTENTION DATA "endtoend/attention/"

static int entries(const char *path) {
  int n = 0;
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* The tasks that write a file, and the key that names it. */
typedef struct row {
  task_fn task;
  const char *key, *config, *made; /* made: what the file's name grows to */
  const char *settings[9];         /* NULL at the end */
} row;

static const row rows[] = {
    {crn_task_forward,
     "output_file",
     ADAM "config.py",
     "",
     {"load", ADAM "reference/model.004", "eval", DATA "training/dev.hdf", "forward_batch_size", "500"}},
    {crn_task_compute_priors, "output_file", ADAM "config.py", "", {"load", ADAM "reference/model.004"}},
    {crn_task_eval, "eval_output_file", ADAM "config.py", "", {"load", ADAM "reference/model.004"}},
    {crn_task_search, "search_output_file", ATTENTION "config.py", "", {"load", ATTENTION "reference/model.025"}},
    {crn_task_search, "search_output_file", ATTENTION "config.py", ".gz", {"load", ATTENTION "reference/model.025"}},
    {crn_task_initialize_model, "model", ADAM "config.py", ".index", {NULL}},
    {crn_task_train, "model", ADAM "config.py", ".001.index", {"learning_rate_file", "None", "num_epochs", "1"}},
    {crn_task_train, "learning_rate_file", ADAM "config.py", "", {"model", "None", "num_epochs", "1"}},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static crn_status run_row(const row *r, const char *file, const crn_engine_hooks *hooks, crn_str *log, crn_err *err) {
  crn_config *c = NULL;
  const crn_log to = {collect_line, log, 5};
  char name[160];
  (void)snprintf(name, sizeof name, "%s%s", file, !strcmp(r->made, ".gz") ? ".gz" : "");
  crn_status st = crn_config_load(r->config, NULL, &c, err);
  for (size_t i = 0; st == CRN_OK && r->settings[i]; i += 2)
    st = strcmp(r->settings[i + 1], "None") != 0 ? crn_config_override(c, r->settings[i], r->settings[i + 1], NULL, err)
                                                 : crn_config_set(c, r->settings[i], NULL, err);
  if (st == CRN_OK) st = crn_config_override(c, r->key, name, NULL, err);
  if (st == CRN_OK) st = r->task(c, &to, hooks, err);
  crn_config_free(c);
  return st;
}

static void test_folders_are_made(void **state) {
  (void)state;
  for (int i = 0; i < N_ROWS; i++) {
    crn_err err = {0};
    crn_str log = {0};
    char file[100], made[128];
    (void)snprintf(file, sizeof file, "%s/new%d/deep/er/file", folder, i);
    (void)snprintf(made, sizeof made, "%s%s", file, rows[i].made);
    if (run_row(&rows[i], file, NULL, &log, &err) != CRN_OK) fail_msg("row %d: %s", i, crn_err_text(&err));
    if (access(made, F_OK) != 0) fail_msg("row %d: no file '%s'", i, made);
    crn_str_free(&log);
  }
}

/* Under a file there can't be a folder; said before a model is loaded. */
static void test_said_at_the_start(void **state) {
  (void)state;
  FILE *f = fopen(in_folder("plain"), "w");
  assert_non_null(f);
  fclose(f);
  for (int i = 0; i < N_ROWS; i++) {
    crn_err err = {0};
    crn_str log = {0};
    char key[64];
    (void)snprintf(key, sizeof key, "key '%s': can't ", rows[i].key);
    assert_int_equal(run_row(&rows[i], in_folder("plain/x/file"), NULL, &log, &err), CRN_E_FILE);
    const char *text = crn_err_text(&err);
    if (!strstr(text, key) || !strstr(text, "/plain") || !strstr(text, "config.py"))
      fail_msg("row %d: %s", i, crn_err_text(&err));
    if (strstr(crn_str_get(&log), "Load model") || strstr(crn_str_get(&log), "step 0"))
      fail_msg("row %d: work before the error: %s", i, crn_str_get(&log));
    crn_err_clear(&err);
    crn_str_free(&log);
  }
}

static bool at_once(void *user) { return (void)user, true; }

static void test_stopped_half_way(void **state) {
  (void)state;
  const crn_engine_hooks hooks = {.stop = at_once};
  for (int i = 0; i < N_ROWS; i++) {
    crn_err err = {0};
    crn_str log = {0};
    char file[100];
    if (rows[i].task == crn_task_initialize_model) continue; /* no steps */
    (void)snprintf(file, sizeof file, "%s/half%d/file", folder, i);
    assert_int_equal(run_row(&rows[i], file, &hooks, &log, &err), CRN_E_INTERRUPTED);
    *strrchr(file, '/') = 0;
    if (entries(file) != 0) fail_msg("row %d left %d files", i, entries(file));
    crn_err_clear(&err);
    crn_str_free(&log);
  }
}

/* A write that fails half way, as on a full disk: the old file stays, nothing else does. */
static void test_failing_write(void **state) {
  (void)state;
  crn_err err = {0};
  struct rlimit old, small;
  char text[200000], *got;
  memset(text, 'x', sizeof text);
  const char *file = in_folder("limited/file");
  assert_int_equal(crn_file_write(file, "before", 6, &err), CRN_OK);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = (struct rlimit){100000, old.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  const crn_status st = crn_file_write(file, text, sizeof text, &err);
  assert_int_equal(errno, EFBIG);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  assert_int_equal(st, CRN_E_FILE);
  if (!strstr(crn_err_text(&err), "limited/file': File too large")) fail_msg("%s", crn_err_text(&err));
  crn_err_clear(&err);
  assert_int_equal(entries(in_folder("limited")), 1);
  assert_int_equal(crn_file_read(file, 0, &got, NULL, &err), CRN_OK);
  assert_string_equal(got, "before");
  crn_free(got);
}

/* Another process has put the same temporary file in its place. */
static void test_gone(void **state) {
  (void)state;
  crn_err err = {0};
  assert_int_equal(crn_file_put(in_folder("limited/file.new_tmp"), in_folder("limited/file"), &err), CRN_E_FILE);
  if (!strstr(crn_err_text(&err), "file.new_tmp' is gone")) fail_msg("%s", crn_err_text(&err));
  crn_err_clear(&err);
}

static bool stop_at_third(void *user) { return ++*(int *)user == 3; }
static bool never_stop(void *user) { return (void)user, false; }

/* Between two tries of a full disk. */
static void test_wait(void **state) {
  (void)state;
  int asked = 0;
  crn_engine e = {.hooks = {.user = &asked, .stop = stop_at_third}};
  assert_false(crn_engine_wait(&e, 3600000));
  assert_int_equal(asked, 3);
  e.hooks.stop = never_stop;
  assert_true(crn_engine_wait(&e, 1));
  e.hooks.stop = NULL;
  assert_true(crn_engine_wait(&e, 0));
}

static void test_prepare(void **state) {
  (void)state;
  crn_err err = {0};
  assert_int_equal(crn_file_prepare(in_folder("a/b/c"), &err), CRN_OK);
  assert_int_equal(entries(in_folder("a/b")), 0);
  assert_int_equal(crn_file_prepare(in_folder("a/b"), &err), CRN_E_FILE);
  if (!strstr(crn_err_text(&err), "/a/b': Is a directory")) fail_msg("%s", crn_err_text(&err));
  crn_err_clear(&err);
  err = (crn_err){0};
  assert_int_equal(crn_file_prepare("", &err), CRN_E_FILE);
  crn_err_clear(&err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_folders_are_made),
      cmocka_unit_test(test_said_at_the_start),
      cmocka_unit_test(test_stopped_half_way),
      cmocka_unit_test(test_failing_write),
      cmocka_unit_test(test_gone),
      cmocka_unit_test(test_wait),
      cmocka_unit_test(test_prepare),
  };
  return cmocka_run_group_tests(tests, make_task_folder, remove_task_folder);
}
