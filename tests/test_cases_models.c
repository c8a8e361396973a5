/* SPDX-License-Identifier: Apache-2.0
 *
 * Small cases of starting from a model, through the engine: batch norm over versions of its names, preload_from_files,
 * shared parameters in a loop, and the ways in which a checkpoint can be named.
 */
#include "task_folder.h"

#include "ckpt/bundle.h"

typedef struct variable {
  const char *name;
  int rank;
  int64_t shape[3];
  float values[4];
} variable;

static void save(const char *prefix, const variable *v, int n) {
  crn_err err = {0};
  crn_bundle_writer *w = NULL;
  const int64_t step = 7;
  crn_status st = crn_bundle_begin(prefix, NULL, &w, &err);
  for (int i = 0; i < n && st == CRN_OK; i++)
    st = crn_bundle_add(w, v[i].name, CRN_TF_FLOAT32, v[i].rank, v[i].shape, v[i].values, &err);
  if (st == CRN_OK) st = crn_bundle_add(w, "global_step", CRN_TF_INT64, 0, NULL, &step, &err);
  if (st == CRN_OK) st = crn_bundle_finish(w, &err);
  if (st != CRN_OK) fail_msg("%s", crn_err_text(&err));
  crn_bundle_writer_free(w);
}

typedef struct model {
  crn_arena arena;
  crn_config *config;
  crn_engine e;
  crn_err err;
} model;

static void open_model(model *m, const char *text, bool train) {
  crn_value *v;
  memset(m, 0, sizeof *m);
  crn_status st = crn_v_parse_literal(&m->arena, text, "case", &v, &m->err);
  if (st == CRN_OK) st = crn_config_new(&m->config, &m->err);
  if (st == CRN_OK) st = crn_config_add_values(m->config, v, &m->err);
  if (st == CRN_OK) st = crn_engine_init(&m->e, m->config, NULL, NULL, &m->err);
  if (st == CRN_OK) st = crn_engine_eval_net(&m->e, (crn_net_mode){.train = train}, &m->err);
  if (st != CRN_OK) fail_msg("%s", crn_err_text(&m->err));
}

static void close_model(model *m) {
  crn_engine_deinit(&m->e);
  crn_config_free(m->config);
  crn_err_clear(&m->err);
  crn_arena_free(&m->arena);
}

static void load(model *m, const char *prefix) {
  if (crn_engine_load(&m->e, m->e.eval_net, prefix, false, &m->err) != CRN_OK) fail_msg("%s", crn_err_text(&m->err));
}

static void expect_error(model *m, crn_status st, const char *const *parts) {
  assert_int_not_equal(st, CRN_OK);
  for (; *parts; parts++)
    if (!strstr(crn_err_text(&m->err), *parts)) fail_msg("'%s' isn't in: %s", *parts, crn_err_text(&m->err));
}

static const crn_param *param(const model *m, const char *path) {
  for (int i = 0; i < m->e.eval_net->n_params; i++)
    if (!strcmp(m->e.eval_net->params[i]->path, path)) return m->e.eval_net->params[i];
  fail_msg("no parameter '%s'", path);
  return NULL;
}

static void expect_param(const model *m, const char *path, int n, const float *want) {
  assert_memory_equal(param(m, path)->st.data, want, sizeof(float) * (size_t)n);
}

/* ---- batch norm -----------------------------------------------------------------------------------------------------
 */

static void test_batch_norm_versions(void **state) {
  (void)state;
  static const variable old[] = {
      {"output/batch_norm/output_output_output_mean", 3, {1, 1, 2}, {1, 2}},
      {"output/batch_norm/output_output_output_variance", 3, {1, 1, 2}, {4, 9}},
      {"output/batch_norm/output_output_output_beta", 3, {1, 1, 2}, {.5, .5}},
      {"output/batch_norm/output_output_output_gamma", 3, {1, 1, 2}, {2, 3}},
  };
  static const double want[] = {.5, .5, 2.49975, 2.49989, 4.4995, 4.49978};
  static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 100, 100, 100, 100};
  static const int32_t lens[] = {3, 1};
  const char *prefix = in_folder("bn");
  save(prefix, old, 4);
  for (int version = 0; version <= 12; version += 12) {
    char text[300];
    (void)snprintf(text, sizeof text,
                   "{'behavior_version': %d, 'extern_data': {'data': {'dim': 2}}, 'network': {'output': {'class': "
                   "'batch_norm', 'masked_time': True, 'update_sample_only_in_training': True, 'from': 'data'}}}",
                   version);
    model m;
    open_model(&m, text, false);
    load(&m, prefix);
    (void)param(&m, version ? "output/batch_norm/v2_mean" : "output/batch_norm/output_output_output_mean");
    crn_exec *exec = m.e.eval_exec;
    const crn_layer *l = crn_net_find(m.e.eval_net, "output");
    crn_exec_keep(exec, l);
    crn_exec_begin(exec, false, 0);
    assert_int_equal(crn_exec_feed(exec, "data", CRN_F32, 3, (const int64_t[]){2, 3, 2}, x, 1,
                                   (const int32_t *const[]){lens}, &m.err),
                     CRN_OK);
    assert_int_equal(crn_exec_forward(exec, &m.err), CRN_OK);
    const crn_tensor *v = crn_exec_value(exec, l)->v;
    for (int i = 0; i < 6; i++)
      if (!(fabs(crn_t_get(v, i) - want[i]) < 1e-5))
        fail_msg("version %d: [%d] = %.7g instead of %.7g", version, i, crn_t_get(v, i), want[i]);
    close_model(&m);
  }
}

/* ---- preload_from_files ---------------------------------------------------------------------------------------------
 */

static const float w1[] = {1, 2, 3, 4}, b1[] = {5, 6};
#define L1 "'l1': {'class': 'linear', 'n_out': 2, 'from': 'data'}"
#define NET "{'extern_data': {'data': {'dim': 2}}, 'network': {"

static const char *save_l1(const char *name) {
  static const variable vars[] = {{"l1/W", 2, {2, 2}, {1, 2, 3, 4}},
                                  {"l1/b", 1, {2}, {5, 6}},
                                  {"l1/W/Adam", 2, {2, 2}, {9, 9, 9, 9}},
                                  {"l1/W/Adam_1", 2, {2, 2}, {9, 9, 9, 9}},
                                  {"learning_rate", 0, {0}, {.1f}}};
  const char *prefix = in_folder(name);
  save(prefix, vars, 5);
  return prefix;
}

static crn_status preload(model *m, const char *net, const char *options) {
  char text[700];
  (void)snprintf(text, sizeof text,
                 NET "%s}, 'preload_from_files': {'x': {'init_for_train': True, 'filename': '%s'%s}}}", net,
                 save_l1("start.005"), options);
  open_model(m, text, true);
  return crn_engine_preload(&m->e, m->e.eval_net, true, &m->err);
}

#define NEW "'output': {'class': 'linear', 'n_out': 3, 'from': 'l1', 'name_scope': 'new'}"

static void test_preload(void **state) {
  (void)state;
  model m;
  assert_int_equal(preload(&m, L1 ", " NEW, ", 'ignore_missing': True"), CRN_OK);
  expect_param(&m, "l1/W", 4, w1);
  expect_param(&m, "l1/b", 2, b1);
  assert_false(param(&m, "new/W")->initialised);
  assert_int_equal(crn_store_init_values(m.e.store, 1, &m.err), CRN_OK);
  expect_param(&m, "l1/W", 4, w1);
  const float *fresh = param(&m, "new/W")->st.data;
  assert_true(fresh[0] != 0 && fresh[0] != fresh[1]);
  close_model(&m);

  const crn_status st = preload(&m, L1 ", " NEW, "");
  expect_error(&m, st, (const char *const[]){"preload_from_files: entry 'x'", "'new/W'", "'new/b'", NULL});
  close_model(&m);

  assert_int_equal(preload(&m, "'output': {'class': 'linear', 'n_out': 2, 'from': 'data', 'name_scope': 'am_l1'}",
                           ", 'prefix': 'am_'"),
                   CRN_OK);
  expect_param(&m, "am_l1/W", 4, w1);
  expect_param(&m, "am_l1/b", 2, b1);
  close_model(&m);

  assert_int_equal(preload(&m, "'output': {'class': 'linear', 'n_out': 2, 'from': 'data', 'name_scope': 'l2'}",
                           ", 'var_name_mapping': {'l2/W': 'l1/W', 'l2/b': 'l1/b'}"),
                   CRN_OK);
  expect_param(&m, "l2/W", 4, w1);
  expect_param(&m, "l2/b", 2, b1);
  close_model(&m);
}

static void test_preload_refusals(void **state) {
  (void)state;
  static const struct {
    const char *options, *message;
  } rows[] = {
      {", 'prefix': 'lm_'", "prefix 'lm_'"},
      {", 'ignore_mising': True", "unknown option 'ignore_mising' (did you mean 'ignore_missing'?)"},
      {", 'prefix': 3", "option 'prefix': expected a string, got int"},
      {", 'var_name_mapping': ['l1']", "option 'var_name_mapping': expected a dict"},
      {", 'ignore_params': 3", "option 'ignore_params': expected"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    model m;
    const crn_status st =
        preload(&m, "'output': {'class': 'linear', 'n_out': 2, 'from': 'data', 'name_scope': 'l1'}", rows[i].options);
    expect_error(&m, st, (const char *const[]){"preload_from_files: entry 'x'", rows[i].message, NULL});
    close_model(&m);
  }
}

/* ---- shared parameters ----------------------------------------------------------------------------------------------
 */

static void test_reuse_in_loop(void **state) {
  (void)state;
  model m;
  static const char shared[] =
      NET L1 ", 'l1_out': {'class': 'copy', 'from': 'l1', 'is_output_layer': True},"
             "'output': {'class': 'rec', 'from': 'data', 'unit': {'output': {'class': 'linear', 'n_out': 2,"
             " 'from': 'data:source', 'reuse_params': %s}}}}}";
  static const struct {
    const char *reuse;
    int n_params;
  } rows[] = {{"'base:l1'", 2}, {"{'map': {'W': {'reuse_layer': 'base:l1'}, 'b': None}}", 3}};
  for (int k = 0; k < 2; k++) {
    char text[600];
    (void)snprintf(text, sizeof text, shared, rows[k].reuse);
    open_model(&m, text, false);
    assert_int_equal(m.e.eval_net->n_params, rows[k].n_params);
    if (k) (void)param(&m, "output/rec/output/b");
    assert_int_equal(crn_store_init_values(m.e.store, 1, &m.err), CRN_OK);
    crn_exec *exec = m.e.eval_exec;
    const crn_layer *a = crn_net_find(m.e.eval_net, "l1_out"), *b = crn_net_find(m.e.eval_net, "output");
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int32_t lens[] = {3};
    crn_exec_keep(exec, a);
    crn_exec_keep(exec, b);
    crn_exec_begin(exec, false, 0);
    assert_int_equal(crn_exec_feed(exec, "data", CRN_F32, 3, (const int64_t[]){1, 3, 2}, x, 1,
                                   (const int32_t *const[]){lens}, &m.err),
                     CRN_OK);
    assert_int_equal(crn_exec_forward(exec, &m.err), CRN_OK);
    for (int i = 0; i < 6; i++) /* both biases start with 0 */
      assert_float_equal(crn_t_get(crn_exec_value(exec, a)->v, i), crn_t_get(crn_exec_value(exec, b)->v, i), 0);
    close_model(&m);
  }
}

/* ---- names of checkpoints -------------------------------------------------------------------------------------------
 */

static void test_names(void **state) {
  (void)state;
  static const char *const saved[] = {"net.012", "epoch.avg"};
  for (int i = 0; i < 2; i++) {
    (void)save_l1(saved[i]);
    for (int suffix = 0; suffix < 3; suffix++) {
      static const char *const suffixes[] = {"", ".index", ".meta"};
      char name[40];
      model m;
      (void)snprintf(name, sizeof name, "%s%s", saved[i], suffixes[suffix]);
      open_model(&m, NET "'output': {'class': 'linear', 'n_out': 2, 'from': 'data', 'name_scope': 'l1'}}}", false);
      load(&m, in_folder(name)); /* Adam's slots and the learning rate are in the file and don't matter */
      expect_param(&m, "l1/W", 4, w1);
      assert_int_equal(m.e.store->global_step, 7);
      close_model(&m);
    }
  }
  model m;
  open_model(&m, NET "'output': {'class': 'linear', 'n_out': 2, 'from': 'data', 'name_scope': 'l1'}}}", false);
  const char *missing = in_folder("net.013");
  const crn_status st = crn_engine_load(&m.e, m.e.eval_net, missing, false, &m.err);
  expect_error(&m, st, (const char *const[]){missing, "net.013.index", "net.012", NULL});
  close_model(&m);
}

/* The checkpoint of a training of the original on 1-2-AX. */
static void test_recorded(void **state) {
  (void)state;
  crn_err err = {0};
  crn_bundle *b = NULL;
  int64_t n = 0;
  assert_int_equal(crn_bundle_open(DATA "training/adam/reference/model.004", &b, &err), CRN_OK);
  for (size_t i = 0; i < crn_bundle_count(b); i++)
    if (crn_bundle_at(b, i)->dtype == CRN_TF_FLOAT32) n += crn_bundle_at(b, i)->n_elements;
  assert_int_equal(n, 822);
  crn_bundle_free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_batch_norm_versions),
                                     cmocka_unit_test(test_preload),
                                     cmocka_unit_test(test_preload_refusals),
                                     cmocka_unit_test(test_reuse_in_loop),
                                     cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_recorded)};
  return cmocka_run_group_tests(tests, make_task_folder, remove_task_folder);
}
