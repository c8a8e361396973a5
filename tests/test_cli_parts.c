/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the program: sorting of arguments, the progress bar's text.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "cli.h"
#include "progress.h"

static const cli_option options[] = {{"full", 'f', NULL, ""}, {"out", 'o', "FILE", ""}, {0}};
static const cli_command command = {.name = "try", .takes_config = true, .options = options};

static crn_status parse(const char *const *argv, crn_arena *a, cli_args *out, crn_err *err) {
  int n = 0;
  while (argv[n]) n++;
  return cli_args_parse(&command, n, (char **)(uintptr_t)argv, a, out, err);
}

static void test_arguments(void **state) {
  (void)state;
  const char *const argv[] = {"a.config", "-f", "++lr", "-1",    "--out", "x",  "--batch-size=3",
                              "++k=v=w",  "-o", "y",    "--k2=", "b.py",  "--", "--full",
                              "-z",       NULL};
  crn_arena a = {0};
  crn_err err = {0};
  cli_args args;
  assert_int_equal(parse(argv, &a, &args, &err), CRN_OK);
  assert_int_equal(args.n_words, 4);
  assert_string_equal(args.words[1], "b.py");
  assert_string_equal(args.words[2], "--full");
  assert_string_equal(args.words[3], "-z");
  assert_true(cli_has(&args, "full"));
  assert_false(cli_has(&args, "help"));
  assert_string_equal(cli_value(&args, "out", NULL), "y"); /* the last one counts */
  assert_string_equal(cli_value(&args, "none", "z"), "z");
  const char *const expected[][2] = {{"lr", "-1"}, {"batch_size", "3"}, {"k", "v=w"}, {"k2", ""}};
  assert_int_equal(args.n_settings, 4);
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(args.settings[i].name, expected[i][0]);
    assert_string_equal(args.settings[i].value, expected[i][1]);
  }
  crn_arena_free(&a);
}

static void expect_failure(const char *argument, const char *text) {
  const char *const argv[] = {argument, NULL};
  crn_arena a = {0};
  crn_err err = {0};
  cli_args args;
  assert_int_equal(parse(argv, &a, &args, &err), CRN_E_CONFIG);
  assert_string_equal(crn_err_text(&err), text);
  crn_err_clear(&err);
  crn_arena_free(&a);
}

static void test_wrong_arguments(void **state) {
  (void)state;
  expect_failure("--fulll", "'try' has no option '--fulll' (did you mean '--full'?)");
  expect_failure("--fulll=3", "'try' has no option '--fulll' (did you mean '--full'?)");
  expect_failure("--full=3", "option '--full=3' takes no value");
  expect_failure("--out", "option '--out' needs a value");
  expect_failure("-q", "'try' has no option '-q'");
  expect_failure("-fo", "'try' has no option '-fo'");
  expect_failure("++key", "option '++key' needs a value");
  expect_failure("++=3", "expected \"++key value\", got an empty key");
}

static void test_numbers(void **state) {
  (void)state;
  const char *const values[] = {"7", "-1", "7x", "", "99999999999999999999"};
  for (int i = 0; i < 5; i++) {
    const char *const argv[] = {"--out", values[i], NULL};
    crn_arena a = {0};
    crn_err err = {0};
    cli_args args;
    int64_t n = 0;
    assert_int_equal(parse(argv, &a, &args, &err), CRN_OK);
    assert_int_equal(cli_value_int(&args, "out", 0, 0, &n, &err), i == 0 ? CRN_OK : CRN_E_CONFIG);
    if (i == 0) assert_int_equal(n, 7);
    crn_err_clear(&err);
    crn_arena_free(&a);
  }
}

static void test_progress(void **state) {
  (void)state;
  cli_progress p;
  char text[200];
  cli_progress_init(&p, stdout, false);
  cli_progress_start(&p, "train epoch 3");
  cli_progress_step(&p, 49, 0.25, 2.0);
  cli_progress_format(&p, 10, 0.25, 150, text, sizeof text);
  assert_string_equal(text, "train epoch 3 [#####...............] 25.0%  step 49  loss 2  5.0 steps/s  0:00:30 left");
  cli_progress_format(&p, 3700, -1, 150, text, sizeof text);
  assert_string_equal(text, "train epoch 3  step 49  loss 2  0.0 steps/s  1:01:40");
  cli_progress_format(&p, 10, 0.25, 20, text, sizeof text);
  assert_int_equal(strlen(text), 20);
  cli_progress_step(&p, 50, 0.26, (double)NAN); /* no loss: the last one stays */
  assert_true(p.loss == 2.0);
  cli_progress_step(&p, 51, 0.27, 4.0);
  assert_true(p.loss > 2.0 && p.loss < 4.0);
  assert_false(p.shown); /* not a terminal */
  cli_progress_end(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_wrong_arguments),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_progress),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
