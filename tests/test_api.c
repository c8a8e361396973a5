/* SPDX-License-Identifier: Apache-2.0
 *
 * The public interface: forward against the engine inside, checks of inputs, streaming in pieces, sessions
 * in parallel threads.
 */
#include <math.h>
#include <pthread.h>

#include "api_check.h"
#include "train/engine.h"

/* ---- forward --------------------------------------------------------------------------------------------------------
 */

#define DATA5 "\"extern_data\": {\"data\": {\"shape\": {\"__tuple__\": [null, 5]}, \"dim\": 5}}"

static const char lstm_config[] =
    "{" DATA5 ", \"network\": {"
    "\"fw\": {\"class\": \"rec\", \"unit\": \"nativelstm2\", \"n_out\": 7, \"from\": \"data\"},"
    "\"up\": {\"class\": \"rec\", \"unit\": \"nativelstm2\", \"n_out\": 6, \"from\": \"fw\"},"
    "\"output\": {\"class\": \"softmax\", \"n_out\": 4, \"from\": \"up\"}}}";

/* The engine inside, with other parameters than the initial ones, saved for the public interface to load. */
static void save_and_run_inside(const folder *f, const float *x, const int32_t *lengths, int64_t B, int64_t T,
                                float *y) {
  crn_err err = {0};
  crn_config *config;
  crn_engine e;
  assert_int_equal(crn_config_load(f->config, NULL, &config, &err), CRN_OK);
  assert_int_equal(crn_engine_init(&e, config, NULL, NULL, &err), CRN_OK);
  assert_int_equal(crn_engine_eval_net(&e, (crn_net_mode){0}, &err), CRN_OK);
  assert_int_equal(crn_store_init_values(e.store, 77, &err), CRN_OK);
  assert_int_equal(crn_engine_save(&e, e.eval_net, f->model, &err), CRN_OK);
  crn_layer *l = crn_net_find(e.eval_net, "output");
  crn_exec_keep(e.eval_exec, l);
  crn_exec_begin(e.eval_exec, false, 0);
  const int64_t shape[3] = {B, T, 5};
  assert_int_equal(crn_exec_feed(e.eval_exec, "data", CRN_F32, 3, shape, x, 1, &lengths, &err), CRN_OK);
  assert_int_equal(crn_exec_forward(e.eval_exec, &err), CRN_OK);
  const crn_data *d = crn_exec_value(e.eval_exec, l);
  memcpy(y, crn_t_f32(d->v), (size_t)(B * T * 4) * sizeof(float));
  crn_engine_deinit(&e);
  crn_config_free(config);
}

static void forward_is_that_of_the_engine(void **state) {
  (void)state;
  enum { B = 3, T = 9 };
  const int32_t lengths[B] = {9, 4, 7};
  float x[B * T * 5], y[B * T * 4];
  folder f = make_folder();
  write_text(f.config, lstm_config);
  random_values(x, B * T * 5, 1);
  save_and_run_inside(&f, x, lengths, B, T, y);
  crn_model *model = load(&f, f.model, CRN_USE_FORWARD);
  assert_int_equal(crn_model_num_params(model), 5 * 28 + 7 * 28 + 28 + 7 * 24 + 6 * 24 + 24 + 6 * 4 + 4);
  crn_session *s = session(model, NULL);
  for (int again = 0; again < 2; again++) {
    feed(s, x, B, T, 5, lengths);
    const crn_output o = run(s, again ? NULL : "output");
    assert_int_equal(o.type, CRN_FLOAT32);
    assert_int_equal(o.rank, 3);
    assert_int_equal(o.shape[o.batch_axis], B);
    assert_int_equal(o.shape[o.time_axis], T);
    assert_int_equal(o.shape[o.feature_axis], 4);
    assert_memory_equal(o.lengths, lengths, sizeof(lengths));
    assert_int_equal(o.beam, 1);
    assert_null(o.scores);
    assert_memory_equal(o.data, y, sizeof(y));
  }
  crn_session_free(s);
  crn_model_free(model);
  remove_folder(&f);
}

/* ---- checks ---------------------------------------------------------------------------------------------------------
 */

static void wrong_inputs_are_told(void **state) {
  (void)state;
  folder f = make_folder();
  write_text(f.config, lstm_config);
  crn_model *model = load(&f, NULL, CRN_USE_FORWARD);
  crn_session *s = session(model, NULL);
  crn_message m;
  crn_output o;
  float x[5] = {0};
  const int64_t shape[3] = {1, 1, 5}, narrow[3] = {1, 1, 4};
  const int32_t one = 1, two = 2;
  const int32_t *ok[1] = {&one}, *beyond[1] = {&two}, *none[1] = {NULL};
  refused(crn_session_input(s, "dta", CRN_FLOAT32, 3, shape, x, 1, ok, &m), CRN_E_DATA, &m, "did you mean 'data'");
  refused(crn_session_input(s, NULL, CRN_FLOAT32, 3, shape, x, 1, ok, &m), CRN_E_DATA, &m, "unknown data key ''");
  refused(crn_session_input(s, "data", CRN_INT32, 3, shape, x, 1, ok, &m), CRN_E_DATA, &m,
          "expected float32 values, got int32");
  refused(crn_session_input(s, "data", CRN_FLOAT32, 2, shape, x, 1, ok, &m), CRN_E_DATA, &m,
          "expected [B, T, F(5)], got [1, 1]");
  refused(crn_session_input(s, "data", CRN_FLOAT32, 3, narrow, x, 1, ok, &m), CRN_E_DATA, &m, "got [1, 1, 4]");
  refused(crn_session_input(s, "data", CRN_FLOAT32, 3, shape, NULL, 1, ok, &m), CRN_E_DATA, &m, "values are missing");
  refused(crn_session_input(s, "data", CRN_FLOAT32, 3, shape, x, 0, NULL, &m), CRN_E_DATA, &m, "1 dynamic axis");
  refused(crn_session_input(s, "data", CRN_FLOAT32, 3, shape, x, 1, none, &m), CRN_E_DATA, &m, "lengths 0 are missing");
  refused(crn_session_input(s, "data", CRN_FLOAT32, 3, shape, x, 1, beyond, &m), CRN_E_DATA, &m, "length 2");
  refused(crn_session_want(s, "up2", &m), CRN_E_CONFIG, &m, "did you mean 'up'");
  refused(crn_session_output(s, "fw", &o, &m), CRN_E_STATE, &m, "was not asked for");
  refused(crn_session_output(s, "output", &o, &m), CRN_E_STATE, &m, "no finished run");
  refused(crn_decoder_start(s, "output", &m), CRN_E_STATE, &m, "CRN_USE_SEARCH");
  refused(crn_decoder_continue(s, 1, &one, &one, &m), CRN_E_STATE, &m, "no decoding has begun");
  refused(crn_session_run(s, &m), CRN_E_DATA, &m, "data key 'data' is needed");
  feed(s, x, 1, 1, 5, &one); /* the session is usable after all that */
  assert_int_equal(run(s, "output").shape[2], 4);
  crn_session_free(s);
  crn_model_free(model);
  refused(crn_model_load("/nowhere.json", NULL, NULL, &model, &m), CRN_E_FILE, &m, "/nowhere.json");
  assert_null(model);
  refused(crn_model_load(f.config, "/nowhere.ckpt", NULL, &model, &m), CRN_E_FILE, &m, "/nowhere.ckpt");
  remove_folder(&f);
}

/* ---- streaming ------------------------------------------------------------------------------------------------------
 */

/* Feed T frames in pieces of any size; the outputs must have the bits of the whole. */
static void check_pieces(const char *config, int64_t F) {
  enum { T = 23, MAX_F = 8 };
  float x[T * 5], whole[T * MAX_F];
  folder f = make_folder();
  write_text(f.config, config);
  random_values(x, T * 5, 5);
  crn_model *model = load(&f, NULL, CRN_USE_FORWARD);
  crn_session *s = session(model, NULL);
  int32_t length = T;
  feed(s, x, 1, T, 5, &length);
  crn_output o = run(s, "output");
  assert_int_equal(o.shape[o.feature_axis], F);
  memcpy(whole, o.data, (size_t)(T * F) * sizeof(float));
  crn_session_free(s);
  s = session(model, &(crn_session_options){.num_threads = 1, .streaming = 1});
  for (int32_t piece = 1; piece <= T; piece += piece < 6 ? 1 : 5) {
    for (int32_t t = 0; t < T; t += length) {
      length = T - t < piece ? T - t : piece;
      feed(s, x + t * 5, 1, length, 5, &length);
      o = run(s, "output");
      assert_int_equal(o.shape[o.time_axis], length);
      assert_memory_equal(o.data, whole + t * F, (size_t)(length * F) * sizeof(float));
    }
    crn_session_reset(s);
  }
  crn_session_free(s);
  crn_model_free(model);
  remove_folder(&f);
}

static void lstm_stack_streams(void **state) {
  (void)state;
  check_pieces(lstm_config, 4);
}

static void loop_with_prev_streams(void **state) {
  (void)state;
  check_pieces("{" DATA5 ", \"network\": {"
               "\"in\": {\"class\": \"linear\", \"activation\": \"tanh\", \"n_out\": 6, \"from\": \"data\"},"
               "\"output\": {\"class\": \"rec\", \"from\": \"in\", \"unit\": {"
               "\"s\": {\"class\": \"rnn_cell\", \"unit\": \"LSTMBlock\", \"n_out\": 5, \"from\": [\"data:source\", "
               "\"prev:y\"]},"
               "\"y\": {\"class\": \"linear\", \"activation\": \"tanh\", \"n_out\": 3, \"from\": [\"s\", \"prev:y\"]},"
               "\"output\": {\"class\": \"copy\", \"from\": [\"y\", \"s\"]}}}}}",
               8);
}

static void network_that_needs_the_future_is_refused(void **state) {
  (void)state;
  folder f = make_folder();
  write_text(f.config, "{" DATA5 ", \"network\": {"
                       "\"fw\": {\"class\": \"rec\", \"unit\": \"nativelstm2\", \"n_out\": 7, \"from\": \"data\"},"
                       "\"backwards\": {\"class\": \"rec\", \"unit\": \"nativelstm2\", \"direction\": -1, \"n_out\": "
                       "7, \"from\": \"data\"},"
                       "\"output\": {\"class\": \"softmax\", \"n_out\": 4, \"from\": [\"fw\", \"backwards\"]}}}");
  crn_model *model = load(&f, NULL, CRN_USE_FORWARD);
  crn_session *s;
  crn_message m;
  refused(crn_session_new(model, &(crn_session_options){.streaming = 1}, &s, &m), CRN_E_CONFIG, &m,
          "layer 'backwards'");
  assert_null(s);
  crn_model_free(model);
  remove_folder(&f);
}

/* ---- threads --------------------------------------------------------------------------------------------------------
 */

enum { THREADS = 4, ROUNDS = 6 };

typedef struct worker {
  crn_model *model;
  const float *x; /* [ROUNDS, FRAMES, 5] */
  hypothesis found[ROUNDS][BEAM];
  bool failed;
} worker;

/* No assertions of cmocka here: they belong to the main thread. */
static void *work(void *arg) {
  worker *w = arg;
  crn_session *s;
  w->failed = crn_session_new(w->model, NULL, &s, NULL) != CRN_OK;
  for (int i = 0; i < ROUNDS && !w->failed; i++) {
    const int64_t shape[3] = {1, FRAMES, 5};
    const int32_t length = FRAMES;
    const int32_t *lengths[1] = {&length};
    crn_output o;
    w->failed =
        crn_session_input(s, "data", CRN_FLOAT32, 3, shape, w->x + i * FRAMES * 5, 1, lengths, NULL) != CRN_OK ||
        crn_session_run(s, NULL) != CRN_OK || crn_session_output(s, "output", &o, NULL) != CRN_OK || o.beam != BEAM;
    if (w->failed) break;
    const int64_t T = o.shape[o.time_axis];
    for (int k = 0; k < BEAM; k++) {
      hypothesis *h = &w->found[i][k];
      *h = (hypothesis){.score = (double)o.scores[k], .n = o.lengths[k]};
      for (int t = 0; t < h->n; t++)
        h->labels[t] = ((const int32_t *)o.data)[o.batch_axis == 0 ? k * T + t : t * BEAM + k];
    }
  }
  crn_session_free(s);
  return NULL;
}

static void threads_search_in_parallel(void **state) {
  (void)state;
  static float x[THREADS * ROUNDS * FRAMES * 5];
  static worker workers[THREADS], alone;
  float unused[SEQS * FRAMES * 5];
  int32_t lengths[SEQS];
  pthread_t threads[THREADS];
  folder f = recorded_case(unused, lengths);
  crn_model *model = load(&f, f.model, CRN_USE_SEARCH);
  random_values(x, sizeof(x) / sizeof(*x), 9);
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.model = model, .x = x + i * ROUNDS * FRAMES * 5};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    assert_false(workers[i].failed);
    alone = (worker){.model = model, .x = workers[i].x};
    (void)work(&alone);
    assert_false(alone.failed);
    assert_memory_equal(alone.found, workers[i].found, sizeof(alone.found)); /* to the bit */
  }
  crn_model_free(model);
  remove_folder(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forward_is_that_of_the_engine),
      cmocka_unit_test(wrong_inputs_are_told),
      cmocka_unit_test(lstm_stack_streams),
      cmocka_unit_test(loop_with_prev_streams),
      cmocka_unit_test(network_that_needs_the_future_is_refused),
      cmocka_unit_test(threads_search_in_parallel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
