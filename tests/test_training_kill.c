/* SPDX-License-Identifier: Apache-2.0
 *
 * A training that is killed at any instant and started again ends as one that was never killed but restarted from the
 * same checkpoint; and at no instant there is a broken checkpoint or learning-rate file.
 *
 * The optimizer has state that checkpoints don't hold, the rate follows the dev scores, the order is random, old models
 * are deleted: whatever a restart could get wrong would show in the scores.
 */
#include "training_run.h"

#include <glob.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/random.h"
#include "ckpt/bundle.h"

enum { EPOCHS = 5, KILLS = 100 };

static const char config_text[] =
    "{'num_inputs': 3, 'num_outputs': 4, 'batch_size': 60, 'max_seqs': 6, 'num_epochs': 5, 'batching': 'random',"
    " 'train': {'class': 'StaticDataset'}, 'learning_rate': 0.05, 'momentum': 0.9, 'optimizer': {'class': 'momentum', "
    "'momentum': 0.9},"
    " 'learning_rate_control': 'newbob', 'newbob_relative_error_threshold': 10.0, 'newbob_learning_rate_decay': 0.7,"
    " 'cleanup_old_models': {'keep_last_n': 2, 'keep_best_n': 1, 'keep': []},"
    " 'network': {'h': {'class': 'linear', 'activation': 'tanh', 'n_out': 6, 'from': 'data', 'dropout': 0.1},"
    "             'output': {'class': 'softmax', 'loss': 'ce', 'from': 'h', 'target': 'classes'}}}";

/* 30 made sequences, the label follows from the features. */
static crn_value *made_data(crn_arena *a, unsigned seed) {
  crn_value *seqs = crn_v_seq(a, CRN_V_LIST), *spec = crn_v_dict(a);
  for (int i = 0; i < 30; i++) {
    const int64_t T = 4 + (int64_t)((seed + (unsigned)i * 7) % 9), shape[2] = {T, 3};
    double *x = CRN_ARENA_ARRAY(a, double, T * 3), *y = CRN_ARENA_ARRAY(a, double, T);
    for (int64_t t = 0; t < T; t++) {
      for (int k = 0; k < 3; k++) {
        seed = seed * 1103515245U + 12345U;
        x[t * 3 + k] = (double)((seed >> 16) & 1023) / 512 - 1;
      }
      y[t] = (x[t * 3] > 0) + 2 * (x[t * 3 + 1] > x[t * 3 + 2]);
    }
    int64_t *s = CRN_ARENA_ARRAY(a, int64_t, 2);
    memcpy(s, shape, sizeof shape);
    crn_value *data = crn_v_seq(a, CRN_V_ARRAY), *classes = crn_v_seq(a, CRN_V_ARRAY), *seq = crn_v_dict(a);
    data->u.array = (crn_varray){"float32", 2, s, x};
    classes->u.array = (crn_varray){"int32", 1, s, y};
    crn_v_put(a, seq, "data", data);
    crn_v_put(a, seq, "classes", classes);
    crn_v_push(a, seqs, seq);
  }
  crn_v_put(a, spec, "class", crn_v_str(a, "StaticDataset"));
  crn_v_put(a, spec, "data", seqs);
  crn_value *labels = crn_v_seq(a, CRN_V_LIST);
  crn_v_push(a, labels, crn_v_int(a, 4));
  crn_v_push(a, labels, crn_v_int(a, 1));
  crn_v_put(a, spec, "input_dim", crn_v_int(a, 3));
  crn_v_put(a, spec, "output_dim", labels);
  return spec;
}

static crn_status train_in(const char *folder, const crn_engine_hooks *hooks, crn_err *err) {
  crn_arena a = {0};
  crn_config *c = NULL;
  crn_value *v = NULL;
  crn_status st = crn_v_parse_literal(&a, config_text, "config", &v, err);
  if (st == CRN_OK) {
    crn_v_put(&a, v, "train", made_data(&a, 1));
    crn_v_put(&a, v, "dev", made_data(&a, 2));
    crn_v_put(&a, v, "model", crn_v_str(&a, crn_arena_printf(&a, "%s/model", folder)));
    crn_v_put(&a, v, "learning_rate_file", crn_v_str(&a, crn_arena_printf(&a, "%s/rates", folder)));
    st = crn_config_new(&c, err);
  }
  if (st == CRN_OK) st = crn_config_add_values(c, v, err);
  if (st == CRN_OK) st = crn_task_train(c, NULL, hooks, err);
  crn_config_free(c);
  crn_arena_free(&a);
  return st;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static pid_t start(const char *folder) {
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    crn_err err = {0};
    const crn_status st = train_in(folder, NULL, &err);
    if (st != CRN_OK) fprintf(stderr, "%s\n", crn_err_text(&err));
    _exit(st == CRN_OK ? 0 : 1);
  }
  assert_true(pid > 0);
  return pid;
}

static void finish(const char *folder) {
  int status;
  assert_true(waitpid(start(folder), &status, 0) > 0);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Every checkpoint can be read whole. Returns the last epoch's number, 0 if there is none. */
static int check_models(const char *folder) {
  char pattern[128];
  glob_t found;
  int last = 0;
  (void)snprintf(pattern, sizeof pattern, "%s/model.*.index", folder);
  if (glob(pattern, 0, NULL, &found) != 0) return 0;
  for (size_t i = 0; i < found.gl_pathc; i++) {
    crn_bundle *b = NULL;
    crn_err err = {0};
    found.gl_pathv[i][strlen(found.gl_pathv[i]) - strlen(".index")] = 0;
    if (crn_bundle_open(found.gl_pathv[i], &b, &err) != CRN_OK || crn_bundle_verify(b, &err) != CRN_OK)
      fail_msg("%s", crn_err_text(&err));
    assert_int_equal(crn_bundle_count(b), 5);
    crn_bundle_free(b);
    const int epoch = (int)strtol(strrchr(found.gl_pathv[i], '.') + 1, NULL, 10);
    if (epoch > last) last = epoch;
  }
  globfree(&found);
  return last;
}

/* The learning-rate file without its times. */
static char *scores_of(const char *folder) {
  char path[128];
  crn_lr_table t = {0};
  crn_err err = {0};
  crn_str text = {0};
  (void)snprintf(path, sizeof path, "%s/rates", folder);
  if (access(path, F_OK) != 0) return NULL;
  if (crn_lr_table_read(&t, path, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  for (size_t i = 0; i < t.n; i++) {
    crn_str_addf(&text, "epoch %d: ", (int)t.epochs[i].epoch);
    if (crn_lr_epoch_get(&t.epochs[i], ":meta:epoch_train_time_secs"))
      assert_int_equal(crn_lr_epoch_put_int(&t.epochs[i], ":meta:epoch_train_time_secs", 0, &err), CRN_OK);
    crn_lr_epoch_format(&t.epochs[i], &text);
    crn_str_add(&text, "\n");
  }
  crn_lr_table_free(&t);
  return text.p;
}

static void make_fast_folder(char path[64]) {
  (void)snprintf(path, 64, "/dev/shm/creturnn-test-XXXXXX");
  if (!mkdtemp(path)) make_folder(path);
}

static bool stop_behind(void *user) { return --*(int *)user <= 0; }

/* What comes of a restart behind epoch e: the training is stopped in the middle of epoch e + 1, then goes on. */
static char *restarted(int e, int steps_per_epoch) {
  char folder[64];
  int steps = e * steps_per_epoch + steps_per_epoch / 2;
  crn_err err = {0};
  make_fast_folder(folder);
  /* the stop flag is asked after each step of any pass: passes over dev count too */
  const crn_engine_hooks hooks = {.user = &steps, .stop = stop_behind};
  if (e < EPOCHS) {
    assert_int_equal(train_in(folder, &hooks, &err), CRN_E_INTERRUPTED);
    crn_err_clear(&err);
    assert_int_equal(check_models(folder), e);
  }
  finish(folder);
  char *text = scores_of(folder);
  assert_non_null(text);
  remove_folder(folder);
  return text;
}

static int n_steps;
static bool count_steps(void *user) { return (void)user, n_steps++, false; }

static void test_kill(void **state) {
  (void)state;
  char folder[64], *want[EPOCHS + 1];
  crn_err err = {0};
  int seen[EPOCHS + 1] = {0}, n_late = 0;
  make_fast_folder(folder);
  const crn_engine_hooks counting = {.stop = count_steps};
  if (train_in(folder, &counting, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  remove_folder(folder);
  assert_int_equal(n_steps % EPOCHS, 0);
  for (int e = 0; e <= EPOCHS; e++) want[e] = restarted(e, n_steps / EPOCHS);
  assert_string_not_equal(want[1], want[2]); /* the lost optimizer state shows */
  make_fast_folder(folder);
  const double begin = now();
  finish(folder);
  double whole = now() - begin;
  remove_folder(folder);
  const crn_rng rng = crn_rng_make(7, 0, "kills");
  for (int i = 0; i - n_late < KILLS; i++) {
    int status;
    assert_true(i < 3 * KILLS);
    make_fast_folder(folder);
    const pid_t pid = start(folder);
    usleep((useconds_t)(1e6 * whole * 1.1 * crn_rng_uniform_double(&rng, (uint64_t)i)));
    kill(pid, SIGKILL);
    assert_true(waitpid(pid, &status, 0) == pid);
    n_late += WIFEXITED(status);
    whole *= WIFEXITED(status) ? 0.9 : 1.01; /* the machine's load changes */
    const int last = check_models(folder);
    free(scores_of(folder)); /* it can be read */
    finish(folder);
    assert_int_equal(check_models(folder), EPOCHS);
    char *got = scores_of(folder);
    assert_non_null(got);
    assert_string_equal(got, want[last]);
    free(got);
    seen[last] += !WIFEXITED(status);
    remove_folder(folder);
  }
  printf("killed at %d instants (too late: %d), behind epochs:", KILLS, n_late);
  for (int e = 0; e <= EPOCHS; e++) printf(" %d: %d", e, seen[e]);
  printf("\n");
  for (int e = 0; e <= EPOCHS; e++) free(want[e]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
