/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance runner's jobs: whatever a job does, it costs one line and one count, and only a report that came to
 * its end without a complaint passes.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conformance/report.c"

/* ---- jobs ---- */

static void job_good(report *r, const void *arg) {
  (void)arg;
  rep_part(r, "train");
  rep_note(r, "all is well");
}
static void job_wrong(report *r, const void *arg) {
  (void)arg;
  rep_part(r, "train");
  rep_missing(r, "layer 'x': not implemented: dogs");
  rep_part(r, "eval");
  rep_fail(r, "layer '%s': first\nof two lines", "y");
  rep_fail(r, "second");
}
static void job_missing(report *r, const void *arg) {
  (void)arg;
  crn_err err = {0};
  (void)crn_fail(&err, CRN_E_NOT_IMPLEMENTED, "layer 'x': not implemented: cats");
  rep_part(r, "train");
  rep_status(r, "building", &err);
}
static void job_refused(report *r, const void *arg) {
  (void)arg;
  crn_err err = {0};
  (void)crn_fail(&err, CRN_E_CONFIG, "layer 'x': bad");
  rep_part(r, "train");
  rep_status(r, "building", &err);
}
static void job_crash(report *r, const void *arg) {
  (void)arg;
  rep_part(r, "search");
  (void)raise(SIGKILL);
}
static void job_exit(report *r, const void *arg) {
  (void)arg;
  rep_part(r, "eval");
  exit(3);
}
static void job_quiet_exit(report *r, const void *arg) {
  (void)arg;
  (void)r;
  exit(0);
}
static void job_hang(report *r, const void *arg) {
  (void)arg;
  rep_part(r, "eval");
  for (;;) (void)pause();
}

/* ---- running them with what they print in a file ---- */

typedef struct printed {
  tally t;
  char text[4096];
} printed;

static printed print_of(job_fn job, bool verbose) {
  printed p = {.t = {{0}, {0}}};
  const options o = {.verbose = verbose, .limit_s = 1};
  char path[] = "/tmp/crn_report_XXXXXX";
  const int to = mkstemp(path), before = dup(STDOUT_FILENO);
  assert_true(to >= 0 && before >= 0);
  fflush(stdout);
  assert_true(dup2(to, STDOUT_FILENO) >= 0);
  run_job(&o, &p.t, "case", job, NULL);
  fflush(stdout);
  assert_true(dup2(before, STDOUT_FILENO) >= 0);
  close(before);
  const ssize_t n = pread(to, p.text, sizeof p.text - 1, 0);
  p.text[n > 0 ? n : 0] = 0;
  close(to);
  unlink(path);
  crn_map_free(&p.t.reasons);
  return p;
}

static void expect(job_fn job, bool verbose, verdict v, const char *text) {
  const printed p = print_of(job, verbose);
  assert_string_equal(p.text, text);
  for (int i = 0; i < N_VERDICTS; i++) assert_int_equal(p.t.n[i], i == (int)v);
}

static void test_reports(void **state) {
  (void)state;
  expect(job_good, false, PASSED, "PASS case\n");
  expect(job_good, true, PASSED, "PASS case\n     case train: all is well\n");
  expect(job_wrong, false, FAILED, "FAIL case eval: layer 'y': first of two lines\n");
  expect(job_wrong, true, FAILED,
         "FAIL case eval: layer 'y': first of two lines\nFAIL case eval: second\n"
         "MISS case: not implemented: layer 'x': dogs\n");
  expect(job_missing, false, MISSING, "MISS case: not implemented: layer 'x': cats\n");
  expect(job_refused, false, FAILED, "FAIL case train: building: layer 'x': bad\n");
}

static void test_jobs_that_do_not_end(void **state) {
  (void)state;
  expect(job_crash, false, FAILED, "FAIL case search: crashed (signal 9)\n");
  expect(job_exit, false, FAILED, "FAIL case eval: ended early (exit status 3)\n");
  expect(job_quiet_exit, false, FAILED, "FAIL case: ended without a report\n");
  expect(job_hang, false, FAILED, "FAIL case eval: ran longer than 1 s\n");
}

static void test_exit_code(void **state) {
  (void)state;
  const options o = {.limit_s = 1};
  tally none = {{0}, {0}}, good = {{2, 0, 0, 1}, {0}}, bad = {{2, 1, 0, 0}, {0}}, missing = {{2, 0, 1, 0}, {0}};
  assert_int_equal(print_tally(&o, &none), 1); /* nothing ran: not a success */
  assert_int_equal(print_tally(&o, &good), 0);
  assert_int_equal(print_tally(&o, &bad), 1);
  assert_int_equal(print_tally(&o, &missing), 1);
}

static void test_patterns(void **state) {
  (void)state;
  assert_true(name_wanted(&(options){.pattern = NULL}, "abc"));
  assert_true(name_wanted(&(options){.pattern = "b"}, "abc"));
  assert_false(name_wanted(&(options){.pattern = "x"}, "abc"));
  assert_true(name_wanted(&(options){.pattern = "a*"}, "abc"));
  assert_false(name_wanted(&(options){.pattern = "b*"}, "abc"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reports), cmocka_unit_test(test_jobs_that_do_not_end),
                                     cmocka_unit_test(test_exit_code), cmocka_unit_test(test_patterns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
