/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out: every allocation in turn fails (alone, or with all that follow) while a checkpoint is opened,
 * loaded with conversions, and saved. Each time: a failure with a message, no leak (run it under sanitizers), and a
 * whole checkpoint on disk.
 */
#include "test_ckpt_util.h"

#include "ckpt/load.h"
#include "ckpt/state_file.h"

/* These take the place of src/base/memory.c in this program. */
static long allocation, fail_at;
static bool fail_all_later;

static bool fails(void) {
  long i = allocation++;
  return fail_at >= 0 && (fail_all_later ? i >= fail_at : i == fail_at);
}

void *crn_malloc(size_t bytes) { return fails() ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t size) { return fails() ? NULL : n && size ? calloc(n, size) : calloc(1, 1); }
void *crn_realloc(void *p, size_t bytes) { return fails() ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

typedef crn_status (*job_fn)(const char *prefix, crn_err *err);

static crn_status load_job(const char *prefix, crn_err *err) {
  (void)prefix;
  crn_bundle *b;
  CRN_TRY(crn_bundle_open(DATA "lstm/model.004", &b, err));
  static float kernel[19 * 40], bias[40];
  static const int64_t shape[] = {19, 40}, bias_shape[] = {40};
  crn_load_want wants[] = {{.var = {"fw0/rec/lstm_cell/kernel", CRN_TF_FLOAT32, 2, shape}, .dst = kernel},
                           {.var = {"fw0/rec/lstm_cell/bias", CRN_TF_FLOAT32, 1, bias_shape}, .dst = bias}};
  crn_status status = crn_load_variables(b, wants, 2, NULL, NULL, err);
  if (status == CRN_OK) assert_true(wants[0].result == CRN_LOAD_DONE && wants[1].result == CRN_LOAD_DONE);
  crn_bundle_free(b);
  return status;
}

static crn_status missing_job(const char *prefix, crn_err *err) {
  (void)prefix;
  crn_bundle *b;
  CRN_TRY(crn_bundle_open(DATA "attention/model.025.index", &b, err));
  float x;
  crn_load_want want = {.var = {"fw/rec/no_such_cell/kernel", CRN_TF_FLOAT32, 0, NULL}, .dst = &x};
  crn_status status = crn_load_variables(b, &want, 1, NULL, NULL, err);
  assert_int_not_equal(status, CRN_OK);
  crn_bundle_free(b);
  return allocation > fail_at ? status : CRN_OK; /* the end of the loop: nothing was made to fail */
}

static crn_status parts_job(const char *prefix, crn_err *err) {
  (void)prefix;
  crn_bundle *b;
  CRN_TRY(crn_bundle_open(DATA "parts", &b, err));
  crn_status status = crn_bundle_verify(b, err);
  crn_bundle_free(b);
  if (status == CRN_OK)
    status = crn_bundle_open(DATA "types", &b, err);
  else
    return status;
  if (status != CRN_OK) return status;
  status = crn_bundle_verify(b, err);
  crn_bundle_free(b);
  return status;
}

static crn_status not_found_job(const char *prefix, crn_err *err) {
  (void)prefix;
  crn_bundle *b;
  crn_status status = crn_bundle_open(DATA "lstm/modle.004.meta", &b, err);
  assert_int_not_equal(status, CRN_OK);
  return allocation > fail_at ? status : CRN_OK;
}

static float mark;

static crn_status save_job(const char *prefix, crn_err *err) {
  static float x[300];
  for (int i = 0; i < 300; i++) x[i] = mark;
  crn_bundle_writer *w;
  CRN_TRY(crn_bundle_begin(prefix, NULL, &w, err));
  crn_status status = CRN_OK;
  char name[20];
  for (int i = 0; i < 100 && status == CRN_OK; i++) {
    snprintf(name, sizeof name, "layer%d/W", i);
    status = crn_bundle_add(w, name, CRN_TF_FLOAT32, 1, (int64_t[]){3}, x + 3 * i, err);
  }
  if (status == CRN_OK) status = crn_bundle_finish(w, err);
  crn_bundle_writer_free(w);
  if (status == CRN_OK) status = crn_ckpt_state_write(prefix, NULL, err);
  return status;
}

/* Run job until nothing fails any more; returns how many allocations there are. */
static long fail_each(job_fn job, const char *prefix, bool all_later) {
  long n = 0;
  fail_all_later = all_later;
  for (bool failed = true; failed; n++) {
    crn_err failure = {0};
    allocation = 0;
    fail_at = n;
    crn_status status = job(prefix, &failure);
    failed = allocation > n; /* the allocation happened (what it was for may have been dispensable) */
    fail_at = -1;
    if (status != CRN_OK) {
      assert_int_equal(failure.code, status);
      assert_true(strlen(crn_err_text(&failure)) > 5);
    } else if (failed && all_later) {
      fail_msg("success without memory at allocation %ld", n);
    }
    if (!failed) assert_int_equal(status, CRN_OK);
    crn_err_clear(&failure);
    if (!prefix) continue;
    crn_bundle *b;
    OK(crn_bundle_open(prefix, &b, err));
    OK(crn_bundle_verify(b, err));
    assert_int_equal(crn_bundle_count(b), 100);
    float *first = read_floats(b, "layer0/W", 3), *last = read_floats(b, "layer99/W", 3);
    assert_true(first[0] == last[2] && (status != CRN_OK || first[0] == mark));
    free(first);
    free(last);
    crn_bundle_free(b);
    mark++;
  }
  return n;
}

static void test_reading(void **state) {
  (void)state;
  static const job_fn jobs[] = {load_job, missing_job, parts_job, not_found_job};
  for (int i = 0; i < 4; i++)
    for (int later = 0; later < 2; later++) assert_true(fail_each(jobs[i], NULL, later) > 5);
}

static void test_saving(void **state) {
  (void)state;
  char dir[100], prefix[120];
  snprintf(dir, sizeof dir, "%s", make_dir());
  snprintf(prefix, sizeof prefix, "%s/net", dir);
  fail_at = -1;
  OK(save_job(prefix, err));
  mark = 1;
  for (int later = 0; later < 2; later++) assert_true(fail_each(save_job, prefix, later) > 5);
  assert_int_equal(count_files(dir), 3);
  remove_dir(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reading), cmocka_unit_test(test_saving)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
