/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that fail, and what the messages say: labels out of range, nan in the input, sequences without frames, lengths
 * that don't agree, data that isn't there; the debug keys that stop at or print outputs; batches for templates with the
 * time axis first.
 */
#include "training_run.h"

enum { DIM = 3, LABELS = 4 };

static crn_value *array(crn_arena *a, const char *dtype, int64_t T, int64_t dim, const double *values) {
  crn_value *v = crn_v_seq(a, CRN_V_ARRAY);
  int64_t *shape = CRN_ARENA_ARRAY(a, int64_t, 2);
  shape[0] = T;
  shape[1] = dim;
  v->u.array = (crn_varray){dtype, dim ? 2 : 1, shape, values};
  return v;
}

typedef struct made { /* sequences to make */
  int n;
  int64_t T, label_T;
  double x, label; /* of the last frame of the last sequence */
} made;

static crn_value *dataset(crn_arena *a, const made *m) {
  crn_value *seqs = crn_v_seq(a, CRN_V_LIST), *spec = crn_v_dict(a), *labels = crn_v_seq(a, CRN_V_LIST);
  for (int i = 0; i < m->n; i++) {
    const bool last = i == m->n - 1;
    double *x = CRN_ARENA_ARRAY(a, double, m->T *DIM + 1), *y = CRN_ARENA_ARRAY(a, double, m->label_T + 1);
    for (int64_t k = 0; k < m->T * DIM; k++) x[k] = (double)((k * 7 + i) % 5) - 2;
    for (int64_t k = 0; k < m->label_T; k++) y[k] = (double)((k + i) % LABELS);
    if (last && m->T) x[m->T * DIM - 1] = m->x;
    if (last && m->label_T) y[m->label_T - 1] = m->label;
    crn_value *seq = crn_v_dict(a);
    crn_v_put(a, seq, "data", array(a, "float32", m->T, DIM, x));
    crn_v_put(a, seq, "classes", array(a, "int32", m->label_T, 0, y));
    crn_v_push(a, seqs, seq);
  }
  crn_v_put(a, spec, "class", crn_v_str(a, "StaticDataset"));
  crn_v_put(a, spec, "data", seqs);
  crn_v_put(a, spec, "input_dim", crn_v_int(a, DIM));
  crn_v_push(a, labels, crn_v_int(a, LABELS));
  crn_v_push(a, labels, crn_v_int(a, 1));
  crn_v_put(a, spec, "output_dim", labels);
  return spec;
}

/* A training of one epoch; more: a dict literal of keys to add. */
static crn_status train(const made *m, const char *more, crn_str *log, crn_err *err) {
  static const char text[] =
      "{'num_inputs': 3, 'num_outputs': 4, 'batch_size': 1000, 'max_seqs': 2, 'num_epochs': 1, 'learning_rate': 0.01, "
      "'batching': 'default',"
      " 'network': {'h': {'class': 'rec', 'unit': 'lstm', 'n_out': 5, 'from': 'data'},"
      "             'output': {'class': 'softmax', 'loss': 'ce', 'from': 'h', 'target': 'classes'}}}";
  crn_arena a = {0};
  crn_config *c = NULL;
  crn_value *v = NULL, *extra = NULL;
  const crn_log to = {collect_line, log, 5};
  crn_status st = crn_v_parse_literal(&a, text, "config", &v, err);
  if (st == CRN_OK && m) crn_v_put(&a, v, "train", dataset(&a, m));
  if (st == CRN_OK && more) st = crn_v_parse_literal(&a, more, "more", &extra, err);
  for (size_t i = 0; extra && i < extra->u.dict.n; i++)
    crn_v_put(&a, v, crn_v_cstr(extra->u.dict.keys[i]), extra->u.dict.vals[i]);
  if (st == CRN_OK) st = crn_config_new(&c, err);
  if (st == CRN_OK) st = crn_config_add_values(c, v, err);
  if (st == CRN_OK) st = crn_task_train(c, log ? &to : NULL, NULL, err);
  crn_config_free(c);
  crn_arena_free(&a);
  return st;
}

static void expect_failure(const made *m, const char *more, const char *const *parts) {
  crn_err err = {0};
  const crn_status st = train(m, more, NULL, &err);
  for (size_t i = 0; parts[i]; i++)
    if (!strstr(crn_err_text(&err), parts[i]))
      fail_msg("'%s' isn't in (status %d): %s", parts[i], (int)st, crn_err_text(&err));
  assert_int_not_equal(st, CRN_OK);
  crn_err_clear(&err);
}

static const made good = {.n = 4, .T = 5, .label_T = 5, .x = 1, .label = 2};

static void test_good(void **state) {
  (void)state;
  crn_err err = {0};
  if (train(&good, NULL, NULL, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
}

static void test_label_out_of_range(void **state) {
  (void)state;
  made m = good;
  m.label = 4;
  static const char *const parts[] = {
      "layer 'output' (softmax) > loss 'ce' > operation sparse_ce_logits: target 4 of row 9",
      "inputs of operation sparse_ce_logits:\n  0: [10, 4] float32, min ",
      "  1: [10] int32, min 0, max 4, ",
      "2, 3, 0, 1, 2, 3, 0, 1, 2, 4]",
      "in epoch 1, step 1, sequences: 'seq-2' 'seq-3'",
      "inputs of layer 'output':\n  h: ",
      "stddev",
      "its lengths",
      "[5, 5]",
      "WARNING: classes: labels must be in [0, 4), found 0 to 4",
      NULL};
  expect_failure(&m, NULL, parts);
}

static void test_nan(void **state) {
  (void)state;
  made m = good;
  m.x = (double)NAN;
  static const char *const parts[] = {
      "train epoch 1, step 1: inf or nan score (stop_on_nonfinite_train_score)\nit began in layer 'data:data' (data): ",
      "in epoch 1, step 1, sequences: 'seq-2' 'seq-3'", NULL};
  expect_failure(&m, NULL, parts);
  static const char *const first[] = {"layer 'data:data' (data): the output holds 1 ",
                                      "inf or nan (debug_add_check_numerics_on_output)",
                                      "in epoch 1, step 1",
                                      "data: [2, 5, 3] float32, min -2, max 2, mean 0",
                                      "mean 0.0344828, stddev 1.42594",
                                      ", 1 inf or nan",
                                      NULL};
  expect_failure(&m, "{'debug_add_check_numerics_on_output': True}", first);
  crn_err err = {0};
  crn_str log = {0};
  if (train(&m, "{'stop_on_nonfinite_train_score': False}", &log, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  crn_str_free(&log);
}

static void test_no_frames(void **state) {
  (void)state;
  crn_err err = {0};
  made m = good;
  m.T = m.label_T = 0;
  if (train(&m, NULL, NULL, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err)); /* nothing to learn from, no failure */
  m.label_T = 2;
  static const char *const parts[] = {"layer 'output' (softmax)", "data: [2, 0, 3] float32, EMPTY",
                                      "classes: [2, 2] int32, min 0", NULL};
  expect_failure(&m, NULL, parts);
}

static void test_lengths(void **state) {
  (void)state;
  made m = good;
  m.label_T = 3;
  static const char *const parts[] = {"layer 'output' (softmax)", "in epoch 1, step 0, sequences: 'seq-0' 'seq-1'",
                                      "[3, 3]", "[5, 5]", NULL};
  expect_failure(&m, NULL, parts);
}

static void test_missing_data(void **state) {
  (void)state;
  static const char *const parts[] = {"'words'; it has data, classes", NULL};
  expect_failure(&good,
                 "{'num_inputs': None, 'num_outputs': None, 'extern_data': {'data': {'dim': 3}, 'words': {'dim': 3}, "
                 "'classes': {'dim': 4, 'sparse': True}}, 'network': {'output': {'class': 'softmax', 'loss': 'ce', "
                 "'from': 'data:words', 'target': 'classes'}}}",
                 parts);
  static const char *const none[] = {"key 'train' is missing", NULL};
  expect_failure(NULL, NULL, none);
}

/* Not in the data, but made by an operation inside of a layer. */
static void test_nan_of_operation(void **state) {
  (void)state;
  static const char *const parts[] = {"it began in layer 'log' (eval): the output holds 6 inf or nan",
                                      "made by operation log",
                                      "inputs of operation log:\n  0: [1, 10, 3] float32, min -0.5,",
                                      "inputs of layer 'log':\n  data:data: [1, 10, 3] float32, min -2,", NULL};
  expect_failure(&good,
                 "{'network': {'log': {'class': 'eval', 'from': 'data', 'eval': 'tf.math.log(source(0) + 1.5)'}, "
                 "'output': {'class': 'softmax', 'loss': 'ce', 'from': 'log', 'target': 'classes'}}}",
                 parts);
}

/* In a loop the message has its step; outside of training nothing is kept, so values go while the failure is told. */
static void test_in_loop(void **state) {
  (void)state;
  static const char network[] =
      "{'network': {'output': {'class': 'rec', 'from': 'data', 'target': 'classes', 'optimize_move_layers_out': False, "
      "'unit': {"
      "'n': {'class': 'eval', 'from': 'prev:n', 'eval': 'source(0) + 1', 'initial_output': 0, 'n_out': 1},"
      "'i': {'class': 'cast', 'from': 'n', 'dtype': 'int32'},"
      "'g': {'class': 'gather', 'from': 'data:source', 'position': 'i', 'axis': 'F'},"
      "'p': {'class': 'softmax', 'from': ['data:source', 'g'], 'n_out': 4},"
      "'output': {'class': 'copy', 'from': 'p', 'loss': 'ce', 'target': 'classes'}}}}";
  static const char *const parts[] = {
      "layer 'output:loop' (loop) > layer 'output/g' (gather) > step 2 > operation gather: index 3 ",
      "inputs of layer 'output/g':", "output/i: [2, 1] int32, min 3, max 3, mean 3, stddev 0",
      "in epoch 1, step 0, sequences: 'seq-0' 'seq-1'", NULL};
  char keys[1200];
  (void)snprintf(keys, sizeof keys, "%s}", network);
  expect_failure(&good, keys, parts);
  crn_arena a = {0};
  crn_err err = {0};
  crn_config *c = NULL;
  crn_value *v;
  (void)snprintf(
      keys, sizeof keys,
      "%s, 'num_inputs': 3, 'num_outputs': 4, 'max_seqs': 2, 'batch_size': 99, "
      "'forward_batch_size': 99, 'allow_random_model_init': True, 'output_file': '/tmp/creturnn-no-%ld.hdf'}",
      network, (long)getpid());
  assert_int_equal(crn_v_parse_literal(&a, keys, "config", &v, &err), CRN_OK);
  crn_v_put(&a, v, "eval", dataset(&a, &good));
  assert_int_equal(crn_config_new(&c, &err), CRN_OK);
  assert_int_equal(crn_config_add_values(c, v, &err), CRN_OK);
  assert_int_not_equal(crn_task_forward(c, NULL, NULL, &err), CRN_OK);
  for (size_t i = 0; i < 3; i++)
    if (!strstr(crn_err_text(&err), parts[i])) fail_msg("'%s' isn't in: %s", parts[i], crn_err_text(&err));
  crn_err_clear(&err);
  crn_config_free(c);
  crn_arena_free(&a);
}

/* A session that isn't fed a key: who reads it and where that leads. */
static void test_not_fed(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *v;
  crn_net *net = NULL;
  crn_exec *x = NULL;
  crn_store *store = crn_store_new(CRN_F32);
  assert_int_equal(crn_v_parse_literal(&a,
                                       "{'num_inputs': 3, 'num_outputs': 4, 'network': {'a': {'class': 'linear', "
                                       "'n_out': 2, 'activation': None, 'from': 'data'}, 'b': {'class': 'copy', "
                                       "'from': 'a'}, 'output': {'class': 'softmax', 'n_out': 2, 'from': 'b'}}}",
                                       "config", &v, &err),
                   CRN_OK);
  if (crn_net_build(v, (crn_net_mode){0}, store, NULL, &net, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  assert_int_equal(crn_store_init_values(store, 1, &err), CRN_OK);
  assert_int_equal(crn_exec_new(net, NULL, &x, &err), CRN_OK);
  crn_exec_begin(x, false, 0);
  assert_int_not_equal(crn_exec_forward(x, &err), CRN_OK);
  if (!strstr(crn_err_text(&err), "data key 'data' is needed, but was not fed; it is read by: 'a'; path to the output: "
                                  "'data' -> 'a' -> 'b' -> 'output'"))
    fail_msg("%s", crn_err_text(&err));
  crn_err_clear(&err);
  crn_exec_free(x);
  crn_net_free(net);
  crn_store_free(store);
  crn_arena_free(&a);
}

static void test_printing(void **state) {
  (void)state;
  crn_err err = {0};
  crn_str log = {0};
  if (train(&good, "{'debug_print_layer_output_template': True, 'debug_print_layer_output_shape': True}", &log, &err) !=
      CRN_OK)
    fail_msg("%s", crn_err_text(&err));
  assert_non_null(strstr(crn_str_get(&log), "layer /'output': ["));
  assert_non_null(strstr(crn_str_get(&log), "layer 'output': "));
  assert_non_null(strstr(crn_str_get(&log), "[5, 2, 4]"));
  crn_str_free(&log);
}

/* The same data and network with the time axis first give the same scores. */
static void test_time_major(void **state) {
  (void)state;
  crn_err err = {0};
  crn_str a = {0}, b = {0};
  if (train(&good, NULL, &a, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  if (train(&good,
            "{'num_inputs': None, 'num_outputs': None, 'extern_data': {'data': {'dim': 3, 'shape': (None, 3), "
            "'batch_dim_axis': 1, 'time_dim_axis': 0}, 'classes': {'dim': 4, 'sparse': True, 'batch_dim_axis': 1, "
            "'time_dim_axis': 0, 'available_for_inference': False}}}",
            &b, &err) != CRN_OK)
    fail_msg("%s", crn_err_text(&err));
  const char *x = strstr(crn_str_get(&a), "epoch 1 score: "), *y = strstr(crn_str_get(&b), "epoch 1 score: ");
  assert_non_null(x);
  assert_non_null(y);
  const double s = strtod(x + strlen("epoch 1 score: "), NULL), t = strtod(y + strlen("epoch 1 score: "), NULL);
  assert_true(s > 0 && fabs(s - t) < 1e-6);
  assert_non_null(strstr(crn_str_get(&b), "data: [T('time:var:extern_data:data'), B, F(3)]"));
  crn_str_free(&a);
  crn_str_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),       cmocka_unit_test(test_label_out_of_range),
      cmocka_unit_test(test_nan),        cmocka_unit_test(test_no_frames),
      cmocka_unit_test(test_lengths),    cmocka_unit_test(test_missing_data),
      cmocka_unit_test(test_not_fed),    cmocka_unit_test(test_printing),
      cmocka_unit_test(test_time_major), cmocka_unit_test(test_nan_of_operation),
      cmocka_unit_test(test_in_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
