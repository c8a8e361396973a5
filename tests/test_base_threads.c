/* SPDX-License-Identifier: Apache-2.0
 *
 * Thread pool: every task exactly once, for all sizes, over many short runs; nested calls; idle workers that sleep.
 * Also run under the thread sanitizer (CRN_TSAN).
 */
#include "base/threads.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MAX_TASKS = 1000 };

typedef struct job {
  atomic_int runs[MAX_TASKS];
  int64_t plain[MAX_TASKS]; /* written without atomics: the caller must see it */
  crn_threads *pool;
} job;

static void count_task(void *arg, int64_t i) {
  job *j = arg;
  atomic_fetch_add(&j->runs[i], 1);
  j->plain[i] += i + 1;
}

static void pause_ms(long ms) {
  struct timespec t = {.tv_sec = 0, .tv_nsec = ms * 1000000};
  nanosleep(&t, NULL);
}

static void each_task_runs_once(void **state) {
  (void)state;
  static job j;
  for (int n = 1; n <= 5; n++) {
    crn_threads *t = NULL;
    crn_err err = {0};
    assert_int_equal(crn_threads_new(n, &t, &err), CRN_OK);
    assert_int_equal(crn_threads_count(t), n);
    for (int64_t tasks = 0; tasks <= MAX_TASKS; tasks = tasks * 2 + 1) {
      memset(&j, 0, sizeof j);
      int rounds = 20;
      for (int k = 0; k < rounds; k++) crn_threads_run(t, tasks, count_task, &j);
      for (int64_t i = 0; i < MAX_TASKS; i++) {
        assert_int_equal(atomic_load(&j.runs[i]), i < tasks ? rounds : 0);
        assert_int_equal(j.plain[i], i < tasks ? (i + 1) * rounds : 0);
      }
    }
    crn_threads_free(t);
  }
}

static void many_short_runs(void **state) {
  (void)state;
  static job j;
  crn_threads *t = NULL;
  assert_int_equal(crn_threads_new(3, &t, NULL), CRN_OK);
  memset(&j, 0, sizeof j);
  for (int k = 0; k < 20000; k++) {
    crn_threads_run(t, 4, count_task, &j);
    if (k % 4000 == 0) pause_ms(3); /* lets the workers fall asleep */
  }
  for (int i = 0; i < 4; i++) assert_int_equal(j.plain[i], 20000 * (i + 1));
  crn_threads_free(t);
}

/* A worker that was late for a small job must not take a task of the larger one that is being published. */
static void jobs_that_grow(void **state) {
  (void)state;
  static job j;
  enum { ROUNDS = 1000000, SMALL = 2, LARGE = 5 };
  crn_threads *t = NULL;
  assert_int_equal(crn_threads_new(2, &t, NULL), CRN_OK);
  memset(&j, 0, sizeof j);
  for (int k = 0; k < ROUNDS; k++) {
    crn_threads_run(t, SMALL, count_task, &j);
    crn_threads_run(t, LARGE, count_task, &j);
  }
  for (int i = 0; i < LARGE; i++) assert_int_equal(j.plain[i], (int64_t)ROUNDS * (i < SMALL ? 2 : 1) * (i + 1));
  crn_threads_free(t);
}

static void nested_task(void *arg, int64_t i) {
  job *j = arg;
  for (int k = 0; k < 3; k++) atomic_fetch_add(&j->runs[i], 1);
}

static void outer_task(void *arg, int64_t i) {
  job *j = arg;
  (void)i;
  crn_threads_run(j->pool, 10, nested_task, j);
}

static void nested_calls_run_in_the_caller(void **state) {
  (void)state;
  static job j;
  memset(&j, 0, sizeof j);
  assert_int_equal(crn_threads_new(4, &j.pool, NULL), CRN_OK);
  crn_threads_run(j.pool, 7, outer_task, &j);
  for (int i = 0; i < 10; i++) assert_int_equal(atomic_load(&j.runs[i]), 21);
  crn_threads_free(j.pool);
}

static void no_pool_is_one_thread(void **state) {
  (void)state;
  static job j;
  memset(&j, 0, sizeof j);
  assert_int_equal(crn_threads_count(NULL), 1);
  crn_threads_run(NULL, 10, count_task, &j);
  for (int i = 0; i < 10; i++) assert_int_equal(j.plain[i], i + 1);
  crn_threads_free(NULL);
}

static void environment_sets_the_count(void **state) {
  (void)state;
  crn_threads *t = NULL;
  crn_err err = {0};
  setenv("CRN_NUM_THREADS", "3", 1);
  assert_int_equal(crn_threads_new(0, &t, &err), CRN_OK);
  assert_int_equal(crn_threads_count(t), 3);
  crn_threads_free(t);
  const char *const wrong[] = {"three", "0", "-2", "3x", "99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    setenv("CRN_NUM_THREADS", wrong[i], 1);
    assert_int_equal(crn_threads_new(0, &t, &err), CRN_E_CONFIG);
    assert_null(t);
    assert_non_null(strstr(crn_err_text(&err), wrong[i]));
    crn_err_clear(&err);
  }
  unsetenv("CRN_NUM_THREADS");
  assert_int_equal(crn_threads_new(0, &t, &err), CRN_OK);
  assert_true(crn_threads_count(t) >= 1);
  crn_threads_free(t);
  assert_int_equal(crn_threads_new(-1, &t, &err), CRN_E_CONFIG);
  crn_err_clear(&err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_task_runs_once),   cmocka_unit_test(many_short_runs),
      cmocka_unit_test(jobs_that_grow),        cmocka_unit_test(nested_calls_run_in_the_caller),
      cmocka_unit_test(no_pool_is_one_thread), cmocka_unit_test(environment_sets_the_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
