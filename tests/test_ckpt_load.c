/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading with options (D17), and what the message says when something doesn't fit (D18).
 */
#include "test_ckpt_util.h"

#include "ckpt/load.h"

static char prefix[100];
static crn_bundle *file; /* l1/W [[1,2],[3,4]], l1/b [5,6], their slots, global_step, an old layer */

static int set_up(void **state) {
  (void)state;
  snprintf(prefix, sizeof prefix, "%s/net", make_dir());
  static const float w[] = {1, 2, 3, 4}, b[] = {5, 6};
  static const int64_t step = 77, shape[] = {2, 2}, odd[] = {2, 1};
  crn_bundle_writer *out;
  OK(crn_bundle_begin(prefix, NULL, &out, err));
  static const char *const w_names[] = {"l1/W", "l1/W/Adam", "l1/W/Adam_1", "optimize/l1/W/Momentum"};
  for (int i = 0; i < 4; i++) OK(crn_bundle_add(out, w_names[i], CRN_TF_FLOAT32, 2, shape, w, err));
  OK(crn_bundle_add(out, "l1/b", CRN_TF_FLOAT32, 1, shape, b, err));
  OK(crn_bundle_add(out, "l1/b/momentum", CRN_TF_FLOAT32, 1, shape, b, err));
  OK(crn_bundle_add(out, "old_layer/W", CRN_TF_FLOAT32, 2, odd, b, err));
  OK(crn_bundle_add(out, "beta1_power", CRN_TF_FLOAT32, 0, NULL, b, err));
  OK(crn_bundle_add(out, "learning_rate", CRN_TF_FLOAT32, 0, NULL, b, err));
  OK(crn_bundle_add(out, "global_step", CRN_TF_INT64, 0, NULL, &step, err));
  OK(crn_bundle_finish(out, err));
  crn_bundle_writer_free(out);
  OK(crn_bundle_open(prefix, &file, err));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  crn_bundle_free(file);
  *strrchr(prefix, '/') = 0;
  remove_dir(prefix);
  return 0;
}

static const int64_t shape22[] = {2, 2}, shape34[] = {3, 4};
static float dst_w[12], dst_b[4];

/* A layer's W [2,2] and b [2]. */
static void want_layer(crn_load_want *w, const char *w_name, const char *b_name) {
  for (int i = 0; i < 12; i++) dst_w[i] = -1;
  dst_b[0] = dst_b[1] = -1;
  w[0] = (crn_load_want){.var = {w_name, CRN_TF_FLOAT32, 2, shape22}, .dst = dst_w};
  w[1] = (crn_load_want){.var = {b_name, CRN_TF_FLOAT32, 1, shape22}, .dst = dst_b};
}

static void assert_loaded(const crn_load_want *w) {
  assert_int_equal(w[0].result, CRN_LOAD_DONE);
  assert_int_equal(w[1].result, CRN_LOAD_DONE);
  assert_true(dst_w[0] == 1 && dst_w[3] == 4 && dst_b[0] == 5 && dst_b[1] == 6);
}

static void test_plain(void **state) {
  (void)state;
  crn_load_want w[3];
  int64_t step = 0;
  crn_load_stats stats;
  want_layer(w, "l1/W", "l1/b");
  w[2] = (crn_load_want){.var = {"global_step", CRN_TF_INT64, 0, NULL}, .dst = &step};
  OK(crn_load_variables(file, w, 3, NULL, &stats, err));
  assert_loaded(w);
  assert_int_equal(step, 77);
  assert_int_equal(stats.n_loaded, 3);
  assert_int_equal(stats.n_converted, 0);
  OK(crn_load_variables(file, w, 0, NULL, &stats, err));
}

static void test_missing(void **state) {
  (void)state;
  crn_load_want w[4];
  float new_w[12] = {0};
  want_layer(w, "l1/W", "l1/b");
  w[2] = (crn_load_want){.var = {"new/W", CRN_TF_FLOAT32, 2, shape34}, .dst = new_w};
  w[3] = (crn_load_want){.var = {"new/b", CRN_TF_FLOAT32, 1, shape22}, .dst = new_w};
  static const char *const parts[] = {
      prefix, ": 2 of the 4 variables to load are not in the file\nmissing in the file:",
      "\n  'new/W' float32 [3,4]\n  'new/b' float32 [2]\n", "not used:\n  'old_layer/W' float32 [2,1]"};
  for (int i = 0; i < 4; i++) FAILS(crn_load_variables(file, w, 4, NULL, NULL, err), CRN_E_FORMAT, parts[i]);
  crn_err e = {0};
  assert_int_equal(crn_load_variables(file, w, 4, NULL, NULL, &e), CRN_E_FORMAT);
  static const char *const absent[] = {"Adam", "omentum", "global_step", "learning_rate", "beta1", "likely"};
  for (int i = 0; i < 6; i++)
    if (strstr(crn_err_text(&e), absent[i])) fail_msg("'%s' has %s", crn_err_text(&e), absent[i]);
  crn_err_clear(&e);
  assert_true(dst_w[0] == -1); /* nothing was touched */
  crn_load_stats stats;
  OK(crn_load_variables(file, w, 4, &(crn_load_opts){.ignore_missing = true}, &stats, err));
  assert_loaded(w);
  assert_int_equal(w[2].result, CRN_LOAD_MISSING);
  assert_int_equal(stats.n_missing, 2);
  want_layer(w, "l1/W", "l1/b");
  w[2].non_critical = w[3].non_critical = true;
  OK(crn_load_variables(file, w, 4, NULL, NULL, err));
  assert_loaded(w);
  OK(crn_load_variables(file, w + 2, 2, NULL, NULL, err)); /* only non-critical ones */
  FAILS(crn_load_variables(file, w + 2, 2, &(crn_load_opts){.ignore_missing = true}, NULL, err), CRN_E_FORMAT,
        "none of the 2 variables to load is in the file");
}

static void test_renamed(void **state) {
  (void)state;
  crn_load_want w[2];
  want_layer(w, "l2/W", "l2/b");
  FAILS(crn_load_variables(file, w, 2, NULL, NULL, err), CRN_E_FORMAT, "none of the 2 variables");
  FAILS(crn_load_variables(file, w, 2, NULL, NULL, err), CRN_E_FORMAT, "\n  'l2/W' is 'l1/W' in the file");
  FAILS(crn_load_variables(file, w, 2, NULL, NULL, err), CRN_E_FORMAT, "\n  'l2/b' is 'l1/b' in the file");
  const crn_name_pair pairs[] = {{"l2/W", "l1/W"}, {"l2/b", "l1/b"}, {"l1/W", "old_layer/W"}};
  const crn_load_opts opts = {.var_name_mapping = pairs, .n_var_name_mapping = 3};
  OK(crn_load_variables(file, w, 2, &opts, NULL, err));
  assert_loaded(w);
  want_layer(w, "l1/W", "l1/b"); /* the mapping isn't used for a name that the file has */
  OK(crn_load_variables(file, w, 2, &opts, NULL, err));
  assert_loaded(w);
}

static void test_prefixes(void **state) {
  (void)state;
  crn_load_want w[4];
  float other = -1;
  crn_load_opts opts = {.load_if_prefix = "am_"};
  want_layer(w, "am_l1/W", "x/am_l1/b");
  w[2] = (crn_load_want){.var = {"other", CRN_TF_FLOAT32, 0, NULL}, .dst = &other};
  FAILS(crn_load_variables(file, w, 3, &opts, NULL, err), CRN_E_FORMAT,
        "'x/am_l1/b' float32 [2] (looked up as 'x/l1/b')");
  w[1].var.name = "am_l1/am_b";
  OK(crn_load_variables(file, w, 3, &opts, NULL, err));
  assert_loaded(w);
  assert_int_equal(w[2].result, CRN_LOAD_EXCLUDED);
  opts.load_if_prefix = "lm_";
  FAILS(crn_load_variables(file, w, 3, &opts, NULL, err), CRN_E_CONFIG, "has the prefix 'lm_'");
  want_layer(w, "sub/l1/W", "sub/l1/b");
  opts = (crn_load_opts){.params_prefix = "sub/"};
  OK(crn_load_variables(file, w, 2, &opts, NULL, err));
  assert_loaded(w);
  const char *const ignored[] = {"l1/W"}, *const ignored_prefixes[] = {"l1/b"};
  opts.ignore_params = ignored;
  opts.n_ignore_params = 1;
  want_layer(w, "sub/l1/W", "sub/l1/b");
  OK(crn_load_variables(file, w, 2, &opts, NULL, err));
  assert_true(w[0].result == CRN_LOAD_EXCLUDED && dst_w[0] == -1 && dst_b[0] == 5);
  opts.ignore_params_prefixes = ignored_prefixes;
  opts.n_ignore_params_prefixes = 1;
  FAILS(crn_load_variables(file, w, 2, &opts, NULL, err), CRN_E_CONFIG, "nothing to load");
  w[0].skip = w[1].skip = true; /* loaded before: no error */
  OK(crn_load_variables(file, w, 2, &opts, NULL, err));
}

static void test_shape(void **state) {
  (void)state;
  crn_load_want w[2];
  want_layer(w, "l1/W", "l1/b");
  w[0].var.shape = shape34;
  FAILS(crn_load_variables(file, w, 2, &(crn_load_opts){.ignore_missing = true}, NULL, err), CRN_E_FORMAT,
        "variable 'l1/W': the file has 'l1/W' as float32 [2,2], the network needs float32 [3,4]");
  assert_true(dst_b[0] == -1);
}

static crn_status fill_in(void *user, const crn_bundle *b, crn_load_want *want, const char *in_file, bool *loaded,
                          crn_err *err) {
  (void)b;
  ++*(int *)user;
  if (strcmp(in_file, "bad") == 0) return crn_fail(err, CRN_E_CONFIG, "no idea");
  if (strcmp(in_file, "new") != 0) return CRN_OK;
  *(float *)want->dst = 42;
  *loaded = true;
  return CRN_OK;
}

static void test_custom(void **state) {
  (void)state;
  float a = 0, c = 0;
  int calls = 0;
  crn_load_want w[2] = {{.var = {"new", CRN_TF_FLOAT32, 0, NULL}, .dst = &a},
                        {.var = {"newer", CRN_TF_FLOAT32, 0, NULL}, .dst = &c}};
  const crn_load_opts opts = {.custom_missing = fill_in, .custom_user = &calls};
  FAILS(crn_load_variables(file, w, 2, &opts, NULL, err), CRN_E_FORMAT, "1 of the 2 variables to load is not");
  assert_int_equal(calls, 2);
  OK(crn_load_variables(file, w, 1, &opts, NULL, err));
  assert_true(a == 42);
  w[0].var.name = "bad";
  FAILS(crn_load_variables(file, w, 1, &opts, NULL, err), CRN_E_CONFIG, "no idea");
}

static void count_line(void *user, int level, const char *text) {
  assert_int_equal(level, 3);
  assert_non_null(strstr(text, "made from"));
  ++*(int *)user;
}

/* The attention model's cell in a network that has native units there. */
static void test_conversion(void **state) {
  (void)state;
  crn_bundle *b;
  OK(crn_bundle_open(DATA "attention/model.025", &b, err));
  const crn_bundle_entry *kernel = crn_bundle_find(b, "output/rec/s/rec/lstm_cell/kernel");
  int64_t n = kernel->shape[1] / 4, n_in = kernel->shape[0] - n;
  float *k = read_floats(b, kernel->name, kernel->n_elements);
  float *w = calloc((size_t)(n_in * 4 * n), 4), *w_re = calloc((size_t)(n * 4 * n), 4),
        *bias = calloc((size_t)(4 * n), 4);
  const int64_t shapes[3][2] = {{n_in, 4 * n}, {n, 4 * n}, {4 * n}};
  crn_load_want wants[3] = {{.var = {"output/rec/s/rec/W", CRN_TF_FLOAT32, 2, shapes[0]}, .dst = w},
                            {.var = {"output/rec/s/rec/W_re", CRN_TF_FLOAT32, 2, shapes[1]}, .dst = w_re},
                            {.var = {"output/rec/s/rec/b", CRN_TF_FLOAT32, 1, shapes[2]}, .dst = bias}};
  int lines = 0;
  const crn_log log = {count_line, &lines, 5};
  crn_load_stats stats;
  OK(crn_load_variables(b, wants, 3, &(crn_load_opts){.log = &log}, &stats, err));
  assert_int_equal(lines, 3);
  assert_int_equal(stats.n_converted, 3);
  for (int64_t r = 0; r < n_in + n; r++)
    for (int64_t i = 0; i < n; i++) {
      const float *native = r < n_in ? w + r * 4 * n : w_re + (r - n_in) * 4 * n, *cell = k + r * 4 * n;
      assert_true(native[i] == cell[n + i] && native[n + i] == cell[i]);
      assert_true(native[2 * n + i] == cell[2 * n + i] && native[3 * n + i] == cell[3 * n + i]);
    }
  free(k);
  free(w);
  free(w_re);
  free(bias);
  crn_bundle_free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),      cmocka_unit_test(test_missing), cmocka_unit_test(test_renamed),
      cmocka_unit_test(test_prefixes),   cmocka_unit_test(test_shape),   cmocka_unit_test(test_custom),
      cmocka_unit_test(test_conversion),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
