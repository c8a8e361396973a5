/* SPDX-License-Identifier: Apache-2.0
 *
 * Configs when memory runs out: everything is done again and again with one more allocation succeeding, until all do.
 * Each failure must be reported as such and leave nothing behind (the leak check sees to that).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "config/config.h"
#include "config/python_host.h"

/* The four functions below take the place of src/base/memory.c in this program. */
static long allocations_left = -1; /* -1: any number */
static bool has_failed;

static bool fails(void) {
  if (allocations_left < 0) return false;
  if (allocations_left-- > 0) return false;
  allocations_left = 0; /* and every later one */
  has_failed = true;
  return true;
}

void *crn_malloc(size_t bytes) { return fails() ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t size) { return fails() ? NULL : n && size ? calloc(n, size) : calloc(1, 1); }
void *crn_realloc(void *p, size_t bytes) { return fails() ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

static crn_status use_config(const char *path, crn_err *err) {
  crn_config *c;
  CRN_TRY(crn_config_load(path, NULL, &c, err));
  crn_value *list;
  crn_status status = crn_config_override(c, "batch_size", "{'data': 3}", NULL, err);
  if (status == CRN_OK) status = crn_config_override(c, "mine", "a,b", NULL, err);
  if (status == CRN_OK) status = crn_config_override(c, "learning_rates", "0.1,0.2", NULL, err);
  if (status == CRN_OK) status = crn_config_list(c, "mine", &list, err);
  if (status == CRN_OK) crn_config_check_keys(c, NULL);
  crn_config_free(c);
  return status;
}

static void fail_everywhere(const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/tests/%s", CRN_SOURCE_DIR, name);
  long n = 0;
  for (;; n++) {
    crn_err err = {0};
    allocations_left = n;
    has_failed = false;
    crn_status status = use_config(path, &err);
    allocations_left = -1;
    if (status != CRN_OK && status != CRN_E_MEMORY) fail_msg("allocation %ld: %s", n, crn_err_text(&err));
    crn_err_clear(&err);
    if (!has_failed) {
      assert_int_equal(status, CRN_OK);
      break;
    }
  }
  assert_true(n > 3);
}

static void test_json(void **state) {
  (void)state;
  fail_everywhere("cli/config_json/in.json");
}

static void test_lines(void **state) {
  (void)state;
  fail_everywhere("cli/config_lines/old.config");
}

static void test_python(void **state) {
  (void)state;
  if (crn_py_start(NULL) != CRN_OK) skip();
  fail_everywhere("data/endtoend/attention/config.py");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_python),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
