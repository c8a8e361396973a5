/* SPDX-License-Identifier: Apache-2.0
 *
 * The public interface in wrong hands: calls in any order with arguments drawn at random (seeded), NULL in every place,
 * wrong sizes, types and lengths. Every call answers with a status and, unless it is CRN_OK, a message; after all that
 * a right run still gives what it gave before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "creturnn.h"

enum { T = 4, DIM = 3, N_CALLS = 3000 };

static const char forward_text[] =
    "{\"extern_data\": {\"data\": {\"dim\": 3}, \"label\": {\"shape\": {\"__tuple__\": []}, \"dtype\": \"int32\"}},"
    " \"network\": {\"fw\": {\"class\": \"rec\", \"unit\": \"nativelstm2\", \"n_out\": 4, \"from\": \"data\"},"
    " \"s\": {\"class\": \"slice_nd\", \"start\": \"data:label\", \"size\": 2, \"from\": \"data\"},"
    " \"output\": {\"class\": \"softmax\", \"n_out\": 4, \"from\": \"fw\"}}}";

static const char stream_text[] =
    "{\"extern_data\": {\"data\": {\"dim\": 3}}, \"network\": {\"fw\": {\"class\": \"rec\", \"unit\": \"nativelstm2\", "
    "\"n_out\": 4, \"from\": \"data\"}, \"output\": {\"class\": \"softmax\", \"n_out\": 4, \"from\": \"fw\"}}}";

static const char search_text[] =
    "{\"extern_data\": {\"data\": {\"dim\": 3}, \"classes\": {\"dim\": 5, \"sparse\": true, "
    "\"available_for_inference\": "
    "false}}, \"network\": {\"enc\": {\"class\": \"linear\", \"n_out\": 4, \"from\": \"data\"},"
    " \"e\": {\"class\": \"reduce\", \"mode\": \"mean\", \"axis\": \"T\", \"from\": \"enc\"},"
    " \"output\": {\"class\": \"rec\", \"from\": [], \"target\": \"classes\", \"max_seq_len\": 6, \"unit\": {"
    " \"output\": {\"class\": \"choice\", \"beam_size\": 3, \"from\": \"p\", \"target\": \"classes\", "
    "\"initial_output\": 0},"
    " \"end\": {\"class\": \"compare\", \"from\": \"output\", \"value\": 0},"
    " \"t\": {\"class\": \"linear\", \"activation\": null, \"n_out\": 3, \"from\": \"output\", \"initial_output\": "
    "\"apply(0)\"},"
    " \"p\": {\"class\": \"softmax\", \"from\": [\"prev:t\", \"base:e\"], \"target\": \"classes\", \"loss\": \"ce\"}}},"
    " \"d\": {\"class\": \"decide\", \"from\": \"output\", \"is_output_layer\": true}}}";

static uint64_t random_state;
static unsigned draw(unsigned n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(random_state >> 33) % n;
}

static crn_model *load_text(const char *text, crn_use use) {
  char path[] = "/tmp/crn_misuse_XXXXXX";
  crn_message m;
  crn_model *model = NULL;
  crn_model_options o = crn_model_defaults();
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
  o.use = use;
  const crn_status st = crn_model_load(path, NULL, &o, &model, &m);
  unlink(path);
  if (st != CRN_OK) fail_msg("%s", m.text);
  return model;
}

static int n_right; /* calls that did something */

static void answered(crn_status st, const crn_message *m) {
  n_right += st == CRN_OK;
  if (st == CRN_E_INTERNAL) fail_msg("a fault of our own: %s", m->text);
  if ((st == CRN_OK) != !m->text[0]) fail_msg("status %d with the message '%s'", (int)st, m->text);
}

/* ---- NULL everywhere ---- */

static void null_is_answered(void **state) {
  (void)state;
  crn_message m;
  crn_model *model = load_text(forward_text, CRN_USE_FORWARD);
  crn_session *s = NULL;
  crn_output o;
  int64_t n = 1, k = 1;
  assert_int_equal(crn_model_load(NULL, NULL, NULL, &(crn_model *){NULL}, &m), CRN_E_CONFIG);
  assert_int_equal(crn_model_load("x", NULL, NULL, NULL, &m), CRN_E_STATE);
  assert_int_equal(crn_model_num_params(NULL), 0);
  assert_int_equal(crn_session_new(NULL, NULL, &s, &m), CRN_E_STATE);
  assert_string_equal(m.text, "the model is NULL");
  assert_int_equal(crn_session_new(model, NULL, NULL, &m), CRN_E_STATE);
  assert_int_equal(crn_session_input(NULL, "data", CRN_FLOAT32, 0, NULL, NULL, 0, NULL, NULL), CRN_E_STATE);
  assert_int_equal(crn_session_want(NULL, "x", &m), CRN_E_STATE);
  assert_int_equal(crn_session_run(NULL, NULL), CRN_E_STATE);
  assert_int_equal(crn_session_output(NULL, NULL, &o, &m), CRN_E_STATE);
  assert_int_equal(crn_decoder_start(NULL, NULL, &m), CRN_E_STATE);
  assert_null(crn_decoder_scores(NULL, &n, &k));
  assert_true(n == 0 && k == 0);
  assert_null(crn_decoder_scores(NULL, NULL, NULL));
  assert_int_equal(crn_decoder_continue(NULL, 1, NULL, NULL, &m), CRN_E_STATE);
  crn_session_reset(NULL);
  crn_session_free(NULL);
  crn_model_free(NULL);
  assert_int_equal(crn_session_new(model, NULL, &s, &m), CRN_OK);
  assert_int_equal(crn_session_output(s, NULL, NULL, &m), CRN_E_STATE);
  crn_session_free(s);
  crn_model_free(model);
}

/* ---- calls in any order ---- */

static void draw_input(crn_session *s, crn_message *m) {
  static const char *const keys[] = {"data", "data", "data", "label", "classes", "nope", "", NULL};
  static const float x[4 * 8 * DIM] = {0.5f, -1, 2};
  const int wrong = draw(3) == 0;
  const int64_t frames = draw(8), B = draw(8) ? 1 + draw(3) : 0;
  const char *key = keys[draw(wrong ? 8 : 5)];
  const int data = key && !strcmp(key, "data");
  int64_t shape[9] = {B, frames, DIM, 1, 1, 1, 1, 1, 1};
  int32_t lens[4];
  for (int i = 0; i < 4; i++) lens[i] = (int32_t)draw((unsigned)frames + 1);
  const int32_t *lengths[2] = {lens, lens};
  crn_type type = data ? CRN_FLOAT32 : CRN_INT32;
  int rank = data ? 3 : 1, n_lengths = data;
  if (wrong) {
    static const int64_t sizes[] = {-1, 0, 1, 7, INT64_MAX, INT64_MIN, 1LL << 40};
    const int64_t tiny = 1;
    switch (draw(6)) {
    case 0:
      type = (crn_type)((int)draw(9) - 2);
      shape[0] = tiny; /* whatever the type: no more is read than there is */
      shape[1] = tiny;
      break;
    case 1:
      rank = (int)draw(12) - 1;
      break;
    case 2:
      shape[draw(2) ? 0 : 2] = sizes[draw(2)];
      break;
    case 3:
      n_lengths = (int)draw(4) - 1;
      break;
    case 4:
      lens[draw(4)] = (int32_t)draw(2) ? -1 : INT32_MAX;
      break;
    default:
      shape[2] = sizes[3 + draw(4)];
    }
  }
  const void *values = wrong && !draw(6) ? NULL : x;
  answered(crn_session_input(s, key, type, rank, wrong && !draw(6) ? NULL : shape, values, n_lengths,
                             wrong && !draw(6) ? NULL : lengths, m),
           m);
}

static const char *draw_layer(void) {
  static const char *const layers[] = {"output",        "fw",   "s", "enc", "d",         "output/p",
                                       "output/output", "nope", "",  "/",   "data:data", NULL};
  return layers[draw(sizeof layers / sizeof *layers)];
}

/* Every byte can be read, which the sanitizers watch. */
static void read_bytes(const void *p, size_t n) {
  volatile unsigned char byte;
  for (size_t i = 0; i < n; i++) byte = ((const unsigned char *)p)[i];
  if (n) (void)byte;
}

static void read_output(crn_session *s, crn_message *m) {
  crn_output o;
  const crn_status st = crn_session_output(s, draw_layer(), &o, m);
  answered(st, m);
  if (st != CRN_OK) return;
  int64_t n = 1;
  static const size_t bytes[] = {4, 4, 8, 1, 1};
  for (int i = 0; i < o.rank; i++) n *= o.shape[i];
  read_bytes(o.data, (size_t)n * bytes[o.type]);
  if (o.lengths && o.batch_axis >= 0) read_bytes(o.lengths, (size_t)o.shape[o.batch_axis] * sizeof *o.lengths);
}

static void go_on(crn_session *s, crn_message *m) {
  int64_t n, labels;
  int32_t from[8], label[8];
  const float *scores = crn_decoder_scores(s, &n, &labels);
  if (scores) read_bytes(scores, (size_t)(n * labels) * sizeof *scores);
  const unsigned far = draw(4) ? 0 : 2;
  for (int i = 0; i < 8; i++) {
    from[i] = (int32_t)draw((unsigned)(n ? n : 1) + far) - (int32_t)(far && draw(2));
    label[i] = (int32_t)draw((unsigned)(labels ? labels : 1) + far) - (int32_t)(far && draw(2));
  }
  answered(crn_decoder_continue(s, far ? (int64_t)draw(10) - 1 : 1 + draw(8), draw(9) ? from : NULL,
                                draw(9) ? label : NULL, m),
           m);
}

static void one_call(crn_session *s) {
  crn_message m;
  memset(&m, 'x', sizeof m);
  switch (draw(12)) {
  case 0:
    answered(crn_session_want(s, draw_layer(), &m), &m);
    break;
  case 1:
  case 2:
    answered(crn_session_run(s, &m), &m);
    break;
  case 3:
    answered(crn_decoder_start(s, draw(3) ? "output" : draw_layer(), &m), &m);
    break;
  case 4:
  case 5:
    go_on(s, &m);
    break;
  case 6:
  case 7:
    read_output(s, &m);
    break;
  case 8:
    if (!draw(4)) crn_session_reset(s);
    break;
  default:
    draw_input(s, &m);
  }
}

typedef struct subject {
  const char *text;
  crn_use use;
  int streaming, with_label;
  const char *output; /* float values, or scores if it has some */
} subject;

/* The output of a run as it should be. */
static size_t right_run(crn_session *s, const subject *u, float out[T * 4]) {
  static const float x[T * DIM] = {1, 2, 3, -1, 0.5f, 0, 2, 2, 2, -3, 1, 1};
  static const int64_t shape[] = {1, T, DIM}, one[] = {1};
  static const int32_t lens[] = {T}, label[] = {1};
  const int32_t *lengths[] = {lens};
  crn_message m;
  crn_output o;
  if (crn_session_input(s, "data", CRN_FLOAT32, 3, shape, x, 1, lengths, &m) != CRN_OK) fail_msg("%s", m.text);
  if (u->with_label && crn_session_input(s, "label", CRN_INT32, 1, one, label, 0, NULL, &m) != CRN_OK)
    fail_msg("%s", m.text);
  if (crn_session_run(s, &m) != CRN_OK) fail_msg("%s", m.text);
  if (crn_session_output(s, u->output, &o, &m) != CRN_OK) fail_msg("%s", m.text);
  const size_t n = o.scores ? 1 : (size_t)(o.shape[0] * o.shape[1] * o.shape[2]);
  assert_true(n == 1 || n == T * 4);
  memcpy(out, o.scores ? o.scores : o.data, n * sizeof *out);
  return n;
}

static void any_order(const subject *u, uint64_t seed) {
  crn_model *model = load_text(u->text, u->use);
  crn_session *s = NULL;
  crn_message m;
  float before[T * 4], after[T * 4];
  random_state = seed;
  n_right = 0;
  const crn_session_options o = {.num_threads = 1, .seed = 1, .streaming = u->streaming};
  if (crn_session_new(model, &o, &s, &m) != CRN_OK) fail_msg("%s", m.text);
  assert_int_equal(crn_session_want(s, u->output, &m), CRN_OK);
  const size_t n = right_run(s, u, before);
  for (int i = 0; i < N_CALLS; i++) one_call(s);
  assert_true(n_right > N_CALLS / 10 && n_right < N_CALLS * 9 / 10);
  crn_session_run(s, &m); /* inputs that lie about are used up */
  crn_session_reset(s);
  assert_int_equal(right_run(s, u, after), n);
  assert_memory_equal(before, after, n * sizeof *before);
  crn_session_free(s);
  crn_model_free(model);
}

static void calls_in_any_order(void **state) {
  static const subject subjects[] = {{forward_text, CRN_USE_FORWARD, 0, 1, "output"},
                                     {stream_text, CRN_USE_FORWARD, 1, 0, "output"},
                                     {search_text, CRN_USE_SEARCH, 0, 0, "d"}};
  (void)state;
  for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
    for (uint64_t seed = 1; seed <= 5; seed++) any_order(&subjects[i], seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(null_is_answered),
      cmocka_unit_test(calls_in_any_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
