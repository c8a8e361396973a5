/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing of checkpoints: the bytes that TensorFlow writes, whole at every instant, retried when an error may pass.
 */
#include "test_ckpt_util.h"

#include "ckpt/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

/* Read a checkpoint whole and write it again. */
static void rewrite(const char *from, const char *to, bool backwards) {
  crn_bundle *b;
  OK(crn_bundle_open(from, &b, err));
  crn_bundle_writer *w;
  OK(crn_bundle_begin(to, NULL, &w, err));
  size_t n = crn_bundle_count(b);
  void **values = calloc(n, sizeof *values);
  for (size_t k = 0; k < n; k++) {
    size_t i = backwards ? n - 1 - k : k;
    const crn_bundle_entry *e = crn_bundle_at(b, i);
    size_t bytes = (size_t)e->n_elements * crn_tf_dtype_bytes(e->dtype);
    values[i] = malloc(bytes + 1);
    OK(crn_bundle_read(b, e, values[i], bytes, err));
    OK(crn_bundle_add(w, e->name, e->dtype, e->rank, e->shape, values[i], err));
  }
  OK(crn_bundle_finish(w, err));
  crn_bundle_writer_free(w);
  for (size_t k = 0; k < n; k++) free(values[k]);
  free(values);
  crn_bundle_free(b);
}

static void test_golden(void **state) {
  (void)state;
  static const char *golden[] = {DATA "lstm/model.000", DATA "lstm/model.004", DATA "attention/model.025"};
  const char *dir = make_dir();
  for (int i = 0; i < 3; i++) {
    char to[300], a[400], c[400];
    snprintf(to, sizeof to, "%s/sub/dir%d/net", dir, i);
    rewrite(golden[i], to, i == 1);
    static const char *suffix[] = {"index", "data-00000-of-00001"};
    for (int k = 0; k < 2; k++) {
      snprintf(a, sizeof a, "%s.%s", golden[i], suffix[k]);
      snprintf(c, sizeof c, "%s.%s", to, suffix[k]);
      assert_same_file(a, c);
    }
    rewrite(golden[i], to, i == 1); /* over itself: still the same, and nothing else beside it */
    assert_same_file(a, c);
    snprintf(c, sizeof c, "%s/sub/dir%d", dir, i);
    assert_int_equal(count_files(c), 2);
  }
  remove_dir(dir);
}

/* An index of several blocks; scalars of value i. */
static void test_many(void **state) {
  (void)state;
  enum { N = 9000 };
  const char *dir = make_dir();
  char prefix[100], name[200];
  snprintf(prefix, sizeof prefix, "%s/many", dir);
  crn_bundle_writer *w;
  OK(crn_bundle_begin(prefix, NULL, &w, err));
  float *x = malloc(N * sizeof *x);
  for (int i = 0; i < N; i++) {
    x[i] = (float)i;
    snprintf(name, sizeof name, "layer%d/with_a_longer_name_%d/W", i * 7919 % N, i);
    OK(crn_bundle_add(w, name, CRN_TF_FLOAT32, 0, NULL, &x[i], err));
  }
  OK(crn_bundle_finish(w, err));
  crn_bundle_writer_free(w);
  struct stat st;
  snprintf(name, sizeof name, "%s.index", prefix);
  assert_int_equal(stat(name, &st), 0);
  assert_true(st.st_size > 262144);
  crn_bundle *b;
  OK(crn_bundle_open(prefix, &b, err));
  assert_int_equal(crn_bundle_count(b), N);
  for (int i = 0; i < N; i += 37) {
    snprintf(name, sizeof name, "layer%d/with_a_longer_name_%d/W", i * 7919 % N, i);
    float *y = read_floats(b, name, 1);
    assert_true(*y == (float)i);
    free(y);
  }
  crn_bundle_free(b);
  free(x);
  OK(crn_bundle_remove(prefix, err));
  assert_int_equal(count_files(dir), 0);
  OK(crn_bundle_remove(prefix, err)); /* nothing there: no error */
  remove_dir(dir);
}

static void test_wrong_use(void **state) {
  (void)state;
  crn_bundle_writer *w;
  float x[4] = {0};
  FAILS(crn_bundle_begin("dir/", NULL, &w, err), CRN_E_FILE, "no file name");
  OK(crn_bundle_begin("net", NULL, &w, err));
  OK(crn_bundle_add(w, "a", CRN_TF_FLOAT32, 1, (int64_t[]){4}, x, err));
  FAILS(crn_bundle_add(w, "a", CRN_TF_FLOAT32, 1, (int64_t[]){4}, x, err), CRN_E_DATA, "variable 'a': added twice");
  FAILS(crn_bundle_add(w, "", CRN_TF_FLOAT32, 1, (int64_t[]){4}, x, err), CRN_E_DATA, "name of 0");
  FAILS(crn_bundle_add(w, "b", CRN_TF_FLOAT32, 1, (int64_t[]){-4}, x, err), CRN_E_DATA, "size -4");
  FAILS(crn_bundle_add(w, "b", CRN_TF_FLOAT32, 1, (int64_t[]){4}, NULL, err), CRN_E_DATA, "no values");
  FAILS(crn_bundle_add(w, "b", CRN_TF_STRING, 0, NULL, x, err), CRN_E_NOT_IMPLEMENTED, "string");
  crn_bundle_writer_free(w);
}

/* ---- failing system calls ---- */

/* Wraps the system's calls: call number fail_at (from 0) fails with `error`, n_fail times; or the process ends there.
 */
typedef struct faulty {
  crn_fileops ops;
  int calls, fail_at, n_fail, error;
  bool die;       /* _exit instead of failing */
  bool no_link;   /* the file system can't do links */
  bool power_cut; /* from fail_at on, nothing works any more */
} faulty;

static bool strikes(void *user) {
  faulty *f = user;
  int call = f->calls++;
  bool hit = f->power_cut ? call >= f->fail_at : call >= f->fail_at && f->n_fail > 0;
  if (!hit) return false;
  if (f->die) _exit(0);
  f->n_fail--;
  errno = f->error;
  return true;
}

static int f_open(void *u, const char *path, int flags, int mode) {
  return strikes(u) ? -1 : open(path, flags, (mode_t)mode);
}
static int64_t f_pwrite(void *u, int fd, const void *p, size_t n, int64_t at) {
  if (strikes(u)) { /* half of it arrives */
    ssize_t put = pwrite(fd, p, n / 2, (off_t)at);
    (void)put;
    return -1;
  }
  return pwrite(fd, p, n > 100 ? n - n / 3 : n, (off_t)at); /* short writes are normal */
}
static int f_fsync(void *u, int fd) { return strikes(u) ? -1 : fsync(fd); }
static int f_close(void *u, int fd) {
  bool hit = strikes(u);
  close(fd);
  return hit ? -1 : 0;
}
static int f_rename(void *u, const char *from, const char *to) { return strikes(u) ? -1 : rename(from, to); }
static int f_link(void *u, const char *from, const char *to) {
  faulty *f = u;
  if (f->no_link) return errno = EPERM, -1;
  return strikes(u) ? -1 : link(from, to);
}
static int f_unlink(void *u, const char *path) {
  faulty *f = u; /* cleaning up works, unless the machine is off */
  if (f->power_cut || f->die) return strikes(u) ? -1 : unlink(path);
  return unlink(path);
}
static int f_mkdir(void *u, const char *path, int mode) { return strikes(u) ? -1 : mkdir(path, (mode_t)mode); }

static void faulty_init(faulty *f, int fail_at, int n_fail, int error) {
  *f = (faulty){.fail_at = fail_at, .n_fail = n_fail, .error = error};
  f->ops = (crn_fileops){f, f_open, f_pwrite, f_fsync, f_close, f_rename, f_link, f_unlink, f_mkdir};
}

enum { N_VALUES = 50 };

/* Save two variables whose values are all `mark`, through f. */
static crn_status save_marked(const char *prefix, float mark, faulty *f, const crn_save_opts *base, crn_err *err) {
  float x[N_VALUES];
  for (int i = 0; i < N_VALUES; i++) x[i] = mark;
  crn_save_opts opts = base ? *base : crn_save_defaults();
  if (f) opts.ops = &f->ops;
  crn_bundle_writer *w;
  crn_status s = crn_bundle_begin(prefix, &opts, &w, err);
  if (s == CRN_OK) s = crn_bundle_add(w, "x", CRN_TF_FLOAT32, 1, (int64_t[]){N_VALUES}, x, err);
  if (s == CRN_OK) s = crn_bundle_add(w, "y", CRN_TF_FLOAT32, 1, (int64_t[]){2}, x, err);
  if (s == CRN_OK) s = crn_bundle_finish(w, err);
  crn_bundle_writer_free(w);
  return s;
}

/* The mark of the checkpoint at prefix; -1: none there. It must be whole. */
static float read_mark(const char *prefix) {
  if (!crn_bundle_exists(prefix)) return -1;
  crn_bundle *b;
  OK(crn_bundle_open(prefix, &b, err));
  assert_int_equal(crn_bundle_count(b), 2);
  float *x = read_floats(b, "x", N_VALUES), *y = read_floats(b, "y", 2);
  float mark = x[0];
  for (int i = 0; i < N_VALUES; i++) assert_true(x[i] == mark);
  assert_true(y[0] == mark && y[1] == mark);
  free(x);
  free(y);
  crn_bundle_free(b);
  return mark;
}

/* Any call fails for good: an error, the old or the new checkpoint, no other files. */
static void fail_each_call(bool old_there, bool no_link) {
  const char *dir = make_dir();
  char prefix[100];
  snprintf(prefix, sizeof prefix, "%s/net", dir);
  bool failed = true;
  int at = 0;
  for (; failed; at++) {
    OK(crn_bundle_remove(prefix, err));
    if (old_there) OK(save_marked(prefix, 1, NULL, NULL, err));
    faulty f;
    faulty_init(&f, at, 1000000, EACCES);
    f.no_link = no_link;
    crn_err e = {0};
    crn_status s = save_marked(prefix, 2, &f, NULL, &e);
    failed = s != CRN_OK;
    if (failed) assert_true(s == CRN_E_FILE && strstr(crn_err_text(&e), "Permission denied"));
    crn_err_clear(&e);
    float mark = read_mark(prefix);
    assert_true(mark == 2 || (failed && mark == (old_there ? 1 : -1)));
    int files = count_files(dir); /* 3: stopped between the steps of overwriting, both data files are in use or equal */
    assert_true(files == (mark < 0 ? 0 : 2) || (old_there && mark == 2 && files == 3));
    OK(save_marked(prefix, 3, NULL, NULL, err)); /* and the next save works and tidies up */
    assert_true(read_mark(prefix) == 3);
    assert_int_equal(count_files(dir), 2);
  }
  assert_true(at > 10);
  remove_dir(dir);
}

static void test_failing_calls(void **state) {
  (void)state;
  fail_each_call(false, false);
  fail_each_call(true, false);
  fail_each_call(true, true);
}

/* The process dies, or the machine stops, at any call. */
static void stop_at_each_call(bool old_there, bool die) {
  const char *dir = make_dir();
  char prefix[100];
  snprintf(prefix, sizeof prefix, "%s/net", dir);
  bool complete = false;
  int n_old = 0, n_new = 0;
  for (int at = 0; !complete; at++) {
    OK(crn_bundle_remove(prefix, err));
    if (old_there) OK(save_marked(prefix, 1, NULL, NULL, err));
    faulty f;
    faulty_init(&f, at, 1000000, EACCES);
    f.power_cut = true;
    f.die = die;
    if (die) {
      fflush(NULL);
      pid_t pid = fork();
      if (pid == 0) _exit(save_marked(prefix, 2, &f, NULL, NULL) == CRN_OK ? 42 : 1);
      int status;
      assert_int_equal(waitpid(pid, &status, 0), pid);
      complete = WIFEXITED(status) && WEXITSTATUS(status) == 42;
    } else {
      complete = save_marked(prefix, 2, &f, NULL, NULL) == CRN_OK;
    }
    float mark = read_mark(prefix);
    assert_true(mark == 2 || (!complete && mark == (old_there ? 1 : -1)));
    n_old += mark != 2;
    n_new += mark == 2;
    OK(save_marked(prefix, 3, NULL, NULL, err));
    assert_true(read_mark(prefix) == 3);
    assert_int_equal(count_files(dir), 2);
  }
  assert_true(n_old > 5 && n_new > 0);
  remove_dir(dir);
}

static void test_crash(void **state) {
  (void)state;
  stop_at_each_call(false, false);
  stop_at_each_call(true, false);
  stop_at_each_call(false, true);
  stop_at_each_call(true, true);
}

typedef struct waits {
  int n, give_up_after, lines;
  int64_t last_ms;
  char text[500];
} waits;

static bool count_sleep(void *user, int64_t ms) {
  waits *w = user;
  w->n++;
  w->last_ms = ms;
  return w->n != w->give_up_after;
}

static void count_line(void *user, int level, const char *text) {
  waits *w = user;
  assert_int_equal(level, 2);
  w->lines++;
  snprintf(w->text, sizeof w->text, "%s", text);
}

/* Every call, each passing error, failing three times: in the end the new checkpoint is there. */
static void test_retry(void **state) {
  (void)state;
  static const int errors[] = {ENOSPC, EDQUOT, EBUSY, EIO};
  const char *dir = make_dir();
  char prefix[100];
  snprintf(prefix, sizeof prefix, "%s/net", dir);
  for (int old_there = 0; old_there < 2; old_there++)
    for (int at = 0; at < 40; at++) {
      OK(crn_bundle_remove(prefix, err));
      if (old_there) OK(save_marked(prefix, 1, NULL, NULL, err));
      waits w = {0};
      crn_log log = {count_line, &w, 5};
      crn_save_opts opts = crn_save_defaults();
      opts.sleep = count_sleep;
      opts.sleep_user = &w;
      opts.log = &log;
      faulty f;
      faulty_init(&f, at, 3, errors[at % 4]);
      OK(save_marked(prefix, 2, &f, &opts, err));
      assert_true(read_mark(prefix) == 2);
      assert_int_equal(count_files(dir), 2);
      assert_int_equal(w.lines, w.n);
      if (w.n == 0) continue; /* beyond the last call */
      assert_int_equal(w.last_ms, 10000);
      assert_non_null(strstr(w.text, "trying again in 10 s"));
      assert_non_null(strstr(w.text, prefix));
      assert_non_null(strstr(w.text, strerror(errors[at % 4])));
    }
  waits w = {.give_up_after = 2};
  crn_save_opts opts = crn_save_defaults();
  opts.sleep = count_sleep;
  opts.sleep_user = &w;
  faulty f;
  faulty_init(&f, 3, 1000000, ENOSPC);
  OK(crn_bundle_remove(prefix, err));
  FAILS(save_marked(prefix, 2, &f, &opts, err), CRN_E_INTERRUPTED, "No space left");
  assert_int_equal(w.n, 2);
  assert_int_equal(count_files(dir), 0);
  remove_dir(dir);
}

static void test_state_file(void **state) {
  (void)state;
  const char *dir = make_dir();
  char prefix[100], path[100];
  snprintf(prefix, sizeof prefix, "%s/net.\"7\"", dir);
  snprintf(path, sizeof path, "%s/checkpoint", dir);
  OK(crn_ckpt_state_write(prefix, NULL, err));
  size_t n;
  char *text = (char *)slurp(path, &n);
  text[n] = 0;
  assert_string_equal(text,
                      "model_checkpoint_path: \"net.\\\"7\\\"\"\nall_model_checkpoint_paths: \"net.\\\"7\\\"\"\n");
  free(text);
  crn_arena a = {0};
  const char *found;
  OK(crn_ckpt_state_read(&a, dir, &found, err));
  assert_string_equal(found, prefix);
  for (int at = 0; at < 12; at++) {
    faulty f;
    faulty_init(&f, at, 1, EACCES);
    crn_save_opts opts = crn_save_defaults();
    opts.ops = &f.ops;
    snprintf(prefix, sizeof prefix, "%s/new%d", dir, at);
    char before[200];
    snprintf(before, sizeof before, "%s", found);
    crn_status s = crn_ckpt_state_write(prefix, &opts, NULL);
    OK(crn_ckpt_state_read(&a, dir, &found, err));
    assert_true(strcmp(found, prefix) == 0 || (s != CRN_OK && strcmp(found, before) == 0));
    assert_int_equal(count_files(dir), 1);
  }
  crn_arena_free(&a);
  remove_dir(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_golden),     cmocka_unit_test(test_many),          cmocka_unit_test(test_wrong_use),
      cmocka_unit_test(test_crash),      cmocka_unit_test(test_failing_calls), cmocka_unit_test(test_retry),
      cmocka_unit_test(test_state_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
