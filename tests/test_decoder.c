/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoder loops driven from outside against the built-in beam search: an utterance at a time, several at once with
 * hypotheses that leave, and several choices in a step.
 */
#include "api_check.h"

/* ---- one utterance --------------------------------------------------------------------------------------------------
 */

static int drive_decoder(crn_session *s, const float *x, int32_t length, hypothesis *best) {
  crn_message m;
  hypothesis beams[2][BEAM] = {{{0}}};
  int now = 0, n = 1;
  feed(s, x, 1, length, 5, &length);
  if (crn_decoder_start(s, "output", &m) != CRN_OK) fail_msg("%s", m.text);
  for (int step = 0;; step++) {
    int64_t n_there, n_labels;
    int32_t from[BEAM], labels[BEAM];
    bool all_ended = true;
    const float *scores = crn_decoder_scores(s, &n_there, &n_labels);
    assert_non_null(scores);
    assert_int_equal(n_there, n);
    assert_int_equal(n_labels, 5);
    n = prune(beams[now], n, n_labels, scores, beams[!now], from, labels);
    now = !now;
    for (int i = 0; i < n; i++) all_ended = all_ended && beams[now][i].ended;
    if (all_ended || step + 1 == MAX_STEPS) break;
    if (crn_decoder_continue(s, n, from, labels, &m) != CRN_OK) fail_msg("%s", m.text);
  }
  memcpy(best, beams[now], sizeof(beams[now]));
  return n;
}

static void decoder_from_outside_finds_the_same(void **state) {
  (void)state;
  float x[SEQS * FRAMES * 5];
  int32_t lengths[SEQS];
  folder f = recorded_case(x, lengths);
  crn_model *model = load(&f, f.model, CRN_USE_SEARCH);
  crn_session *s = session(model, NULL), *other = session(model, NULL);
  for (int i = 0; i < SEQS; i++) {
    hypothesis inside[BEAM], outside[BEAM];
    const float *utterance = x + i * FRAMES * 5;
    assert_int_equal(built_in(other, utterance, lengths[i], inside), BEAM);
    assert_int_equal(drive_decoder(s, utterance, lengths[i], outside), BEAM);
    same_hypotheses(outside, inside, BEAM);
    assert_int_equal(built_in(s, utterance, lengths[i], inside), BEAM); /* a session may do both in turn */
    same_hypotheses(outside, inside, BEAM);
  }
  int64_t n, n_labels;
  assert_null(crn_decoder_scores(s, &n, &n_labels));
  crn_message m;
  feed(s, x, 1, lengths[0], 5, &lengths[0]);
  assert_int_equal(crn_decoder_start(s, "output", &m), CRN_OK);
  const int32_t bad = 5, zero = 0, minus = -1;
  refused(crn_decoder_continue(s, 0, &zero, &zero, &m), CRN_E_DATA, &m, "at least one");
  refused(crn_decoder_continue(s, 1, &zero, &bad, &m), CRN_E_DATA, &m, "labels[0] = 5 is not in [0, 5)");
  refused(crn_decoder_continue(s, 1, &minus, &zero, &m), CRN_E_DATA, &m, "from[0] = -1");
  feed(s, x, 1, lengths[0], 5, &lengths[0]);
  refused(crn_decoder_start(s, "enc", &m), CRN_E_CONFIG, &m, "'enc'");
  crn_session_free(s);
  crn_session_free(other);
  crn_model_free(model);
  remove_folder(&f);
}

/* ---- several utterances ---------------------------------------------------------------------------------------------
 */

typedef struct beam { /* of one utterance; row: of the decoder, -1: ended */
  hypothesis h[BEAM];
  int row[BEAM], n;
} beam;

/* Continue the best of one utterance; those that ended get no row. */
static int prune_one(beam *now, const float *scores, int64_t n_labels, int n, int32_t *from, int32_t *labels) {
  float own[BEAM * 5] = {0};
  beam next = {.n = 0};
  int32_t parent[BEAM], label[BEAM];
  for (int i = 0; i < now->n; i++)
    if (now->row[i] >= 0) memcpy(own + i * n_labels, scores + now->row[i] * n_labels, (size_t)n_labels * sizeof(float));
  next.n = prune(now->h, now->n, n_labels, own, next.h, parent, label);
  for (int i = 0; i < next.n; i++) {
    next.row[i] = -1;
    if (next.h[i].ended) continue;
    from[n] = now->row[parent[i]];
    labels[n] = label[i];
    next.row[i] = n++;
  }
  *now = next;
  return n;
}

static void several_utterances_at_once(void **state) {
  (void)state;
  float x[SEQS * FRAMES * 5];
  int32_t lengths[SEQS];
  crn_message m;
  folder f = recorded_case(x, lengths);
  crn_model *model = load(&f, f.model, CRN_USE_SEARCH);
  crn_session *s = session(model, NULL), *other = session(model, NULL);
  beam beams[SEQS] = {{.n = 0}};
  for (int b = 0; b < SEQS; b++) beams[b] = (beam){.n = 1, .row = {b}};
  feed(s, x, SEQS, FRAMES, 5, lengths);
  assert_int_equal(crn_decoder_start(s, "output", &m), CRN_OK);
  int n = SEQS, fewest = SEQS * BEAM;
  for (int step = 0; step < MAX_STEPS && n; step++) {
    int64_t n_there, n_labels;
    int32_t from[SEQS * BEAM], labels[SEQS * BEAM];
    const float *scores = crn_decoder_scores(s, &n_there, &n_labels);
    assert_non_null(scores);
    assert_int_equal(n_there, n);
    n = 0;
    for (int b = 0; b < SEQS; b++) /* in another order each time */
      n = prune_one(&beams[(b + step) % SEQS], scores, n_labels, n, from, labels);
    if (n && n < fewest) fewest = n;
    if (n && step + 1 < MAX_STEPS && crn_decoder_continue(s, n, from, labels, &m) != CRN_OK) fail_msg("%s", m.text);
  }
  assert_true(fewest < SEQS * BEAM); /* some did leave */
  for (int b = 0; b < SEQS; b++) {
    hypothesis inside[BEAM];
    assert_int_equal(built_in(other, x + b * FRAMES * 5, lengths[b], inside), BEAM);
    same_hypotheses(beams[b].h, inside, BEAM);
  }
  crn_session_free(s);
  crn_session_free(other);
  crn_model_free(model);
  remove_folder(&f);
}

/* A prefix that went elsewhere in the batch has the scores that it has alone, to the bit. */
static void rows_are_by_themselves(void **state) {
  (void)state;
  enum { V = 5 };
  float x[SEQS * FRAMES * 5], alone[SEQS][3][V];
  int32_t lengths[SEQS];
  static const int32_t path[SEQS][2] = {{1, 2}, {3, 1}, {2, 2}}, elsewhere[4] = {4, 1, 3, 2};
  crn_message m;
  int64_t n, n_labels;
  folder f = recorded_case(x, lengths);
  crn_model *model = load(&f, f.model, CRN_USE_SEARCH);
  crn_session *s = session(model, NULL);
  for (int b = 0; b < SEQS; b++) {
    feed(s, x + b * FRAMES * 5, 1, FRAMES, 5, &lengths[b]);
    assert_int_equal(crn_decoder_start(s, "output", &m), CRN_OK);
    for (int t = 0; t < 3; t++) {
      memcpy(alone[b][t], crn_decoder_scores(s, &n, &n_labels), V * sizeof(float));
      if (t < 2) assert_int_equal(crn_decoder_continue(s, 1, (const int32_t[]){0}, &path[b][t], &m), CRN_OK);
    }
  }
  feed(s, x, SEQS, FRAMES, 5, lengths);
  assert_int_equal(crn_decoder_start(s, "output", &m), CRN_OK);
  const float *scores = crn_decoder_scores(s, &n, &n_labels);
  for (int b = 0; b < SEQS; b++) assert_memory_equal(scores + b * V, alone[b][0], V * sizeof(float));
  /* utterance 1 has four hypotheses, of which the last counts; 0 comes last */
  const int32_t from[6] = {2, 1, 1, 1, 1, 0},
                labels[6] = {path[2][0], elsewhere[0], elsewhere[1], elsewhere[3], path[1][0], path[0][0]};
  assert_int_equal(crn_decoder_continue(s, 6, from, labels, &m), CRN_OK);
  scores = crn_decoder_scores(s, &n, &n_labels);
  assert_int_equal(n, 6);
  assert_memory_equal(scores, alone[2][1], V * sizeof(float));
  assert_memory_equal(scores + 4 * V, alone[1][1], V * sizeof(float));
  assert_memory_equal(scores + 5 * V, alone[0][1], V * sizeof(float));
  const int32_t from2[2] = {4, 0}, labels2[2] = {path[1][1], path[2][1]}; /* utterance 0 is done */
  assert_int_equal(crn_decoder_continue(s, 2, from2, labels2, &m), CRN_OK);
  scores = crn_decoder_scores(s, &n, &n_labels);
  assert_int_equal(n, 2);
  assert_memory_equal(scores, alone[1][2], V * sizeof(float));
  assert_memory_equal(scores + V, alone[2][2], V * sizeof(float));
  crn_session_free(s);
  crn_model_free(model);
  remove_folder(&f);
}

/* ---- several choices ------------------------------------------------------------------------------------------------
 */

static const char two_choices[] =
    "{\"extern_data\": {\"data\": {\"shape\": {\"__tuple__\": [null, 5]}, \"dim\": 5}, \"first\": {\"dim\": 4, "
    "\"sparse\": true, \"available_for_inference\": false}, \"second\": {\"dim\": 3, \"sparse\": true, "
    "\"available_for_inference\": false}}, \"network\": {\"output\": {\"class\": \"rec\", \"from\": \"data\", "
    "\"unit\": {"
    "\"s\": {\"class\": \"rnn_cell\", \"unit\": \"LSTMBlock\", \"n_out\": 6, \"from\": [\"data:source\", "
    "\"prev:e1\", \"prev:e2\"]},"
    "\"p1\": {\"class\": \"softmax\", \"n_out\": 4, \"from\": \"s\"},"
    "\"c1\": {\"class\": \"choice\", \"target\": \"first\", \"beam_size\": 2, \"from\": \"p1\", "
    "\"initial_output\": 0, \"is_output_layer\": true},"
    "\"e1\": {\"class\": \"linear\", \"n_out\": 5, \"from\": \"c1\", \"initial_output\": 0},"
    "\"p2\": {\"class\": \"softmax\", \"n_out\": 3, \"from\": [\"s\", \"e1\"]},"
    "\"output\": {\"class\": \"choice\", \"target\": \"second\", \"beam_size\": 3, \"from\": \"p2\", "
    "\"initial_output\": 0, \"length_normalization\": false},"
    "\"e2\": {\"class\": \"linear\", \"n_out\": 5, \"from\": \"output\", \"initial_output\": 0}}}}}";

typedef struct pair {
  double score;
  int32_t labels[FRAMES];
} pair;

/* The k best continuations by either choice. */
static int best_of(const pair *now, int n, const float *scores, int64_t n_labels, int k, pair *next, int32_t *from,
                   int32_t *labels) {
  int found = 0;
  for (int i = 0; i < n; i++)
    for (int32_t v = 0; v < n_labels; v++) {
      const double score = now[i].score + (double)scores[i * n_labels + v];
      int at = found < k ? found++ : k;
      while (at > 0 && next[at - 1].score < score) at--;
      if (at >= k) continue;
      for (int j = found - 1; j > at; j--) next[j] = next[j - 1], from[j] = from[j - 1], labels[j] = labels[j - 1];
      next[at] = now[i];
      next[at].score = score;
      from[at] = i;
      labels[at] = v;
    }
  return found;
}

static void several_choices_in_a_step(void **state) {
  (void)state;
  float x[FRAMES * 5];
  const int32_t length = FRAMES;
  crn_message m;
  folder f = make_folder();
  write_text(f.config, two_choices);
  random_values(x, FRAMES * 5, 3);
  crn_model *model = load(&f, NULL, CRN_USE_SEARCH);
  crn_session *s = session(model, NULL);
  feed(s, x, 1, FRAMES, 5, &length);
  const crn_output o = run(s, "output");
  assert_int_equal(o.beam, 3);
  pair inside[3];
  for (int k = 0; k < 3; k++) {
    inside[k].score = (double)o.scores[k];
    for (int t = 0; t < FRAMES; t++)
      inside[k].labels[t] = ((const int32_t *)o.data)[o.batch_axis == 0 ? k * FRAMES + t : t * 3 + k];
  }
  pair now[3] = {{.score = 0}}, next[3];
  int32_t from[3], labels[3];
  int n = 1;
  feed(s, x, 1, FRAMES, 5, &length);
  assert_int_equal(crn_decoder_start(s, "output", &m), CRN_OK);
  for (int t = 0; t < FRAMES; t++) {
    int64_t n_there, n_labels;
    const float *scores = crn_decoder_scores(s, &n_there, &n_labels);
    assert_int_equal(n_there, n);
    assert_int_equal(n_labels, 4);
    n = best_of(now, n, scores, n_labels, 2, next, from, labels);
    memcpy(now, next, sizeof(now));
    if (crn_decoder_continue(s, n, from, labels, &m) != CRN_OK) fail_msg("%s", m.text);
    scores = crn_decoder_scores(s, &n_there, &n_labels);
    assert_int_equal(n_there, n);
    assert_int_equal(n_labels, 3);
    n = best_of(now, n, scores, n_labels, 3, next, from, labels);
    for (int i = 0; i < n; i++) next[i].labels[t] = labels[i];
    memcpy(now, next, sizeof(now));
    if (t + 1 < FRAMES && crn_decoder_continue(s, n, from, labels, &m) != CRN_OK) fail_msg("%s", m.text);
  }
  for (int k = 0; k < 3; k++) {
    assert_float_equal(now[k].score, inside[k].score, 1e-5);
    assert_memory_equal(now[k].labels, inside[k].labels, sizeof(now[k].labels));
  }
  crn_session_free(s);
  crn_model_free(model);
  remove_folder(&f);
}

/* ---- streams --------------------------------------------------------------------------------------------------------
 */

static const char frame_by_frame[] =
    "{\"extern_data\": {\"data\": {\"shape\": {\"__tuple__\": [null, 5]}, \"dim\": 5}, \"classes\": {\"dim\": 4, "
    "\"sparse\": true, \"available_for_inference\": false}}, \"network\": {"
    "\"pad\": {\"class\": \"pad\", \"axes\": \"T\", \"padding\": {\"__tuple__\": [2, 0]}, \"from\": \"data\"},"
    "\"conv\": {\"class\": \"conv\", \"n_out\": 6, \"filter_size\": [3], \"padding\": \"valid\", \"strides\": 2, "
    "\"with_bias\": true, \"activation\": \"tanh\", \"from\": \"pad\"},"
    "\"enc\": {\"class\": \"rec\", \"unit\": \"nativelstm2\", \"n_out\": 6, \"from\": \"conv\"},"
    "\"output\": {\"class\": \"rec\", \"from\": \"enc\", \"target\": \"classes\", \"unit\": {"
    "\"s\": {\"class\": \"rnn_cell\", \"unit\": \"LSTMBlock\", \"n_out\": 6, \"from\": [\"data:source\", "
    "\"prev:e\", \"prev:in\"]},"
    "\"in\": {\"class\": \"linear\", \"activation\": \"tanh\", \"n_out\": 3, \"from\": \"data:source\"},"
    "\"a\": {\"class\": \"self_attention\", \"num_heads\": 2, \"total_key_dim\": 4, \"n_out\": 4, "
    "\"attention_left_only\": true, \"from\": \"s\"},"
    "\"p\": {\"class\": \"softmax\", \"n_out\": 4, \"from\": [\"s\", \"a\"]},"
    "\"output\": {\"class\": \"choice\", \"target\": \"classes\", \"beam_size\": 3, \"from\": \"p\", "
    "\"initial_output\": 0},"
    "\"e\": {\"class\": \"linear\", \"n_out\": 5, \"from\": \"output\", \"initial_output\": 0}}}}}";

enum { LONG = 19, PAIR = 2, STEPS = 10, SCORES = STEPS * 8 * 4 };

typedef struct trace { /* scores of all steps so far */
  float scores[SCORES];
  int n, step;
} trace;

/* Frames [from, from + n) of both utterances; all decisions that they allow. */
static void decode_piece(crn_session *s, const float *x, int from_frame, int32_t n, trace *t) {
  float piece[PAIR * LONG * 5];
  const int32_t lengths[PAIR] = {n, n};
  crn_message m;
  for (int b = 0; b < PAIR; b++)
    memcpy(piece + b * n * 5, x + (b * LONG + from_frame) * 5, (size_t)(n * 5) * sizeof(float));
  feed(s, piece, PAIR, n, 5, lengths);
  if (crn_decoder_start(s, "output", &m) != CRN_OK) fail_msg("%s", m.text);
  for (;; t->step++) {
    int64_t rows, n_labels;
    int32_t from[8], labels[8];
    const float *scores = crn_decoder_scores(s, &rows, &n_labels);
    if (!scores) return;
    assert_int_equal(n_labels, 4);
    assert_true(t->n + rows * 4 <= SCORES);
    memcpy(t->scores + t->n, scores, (size_t)rows * 4 * sizeof(float));
    t->n += (int)rows * 4;
    const int next = 2 + t->step * 7 % 5;
    for (int i = 0; i < next; i++) {
      from[i] = (int32_t)((i * 5 + t->step) % rows);
      labels[i] = (i + t->step) % 4;
    }
    if (crn_decoder_continue(s, next, from, labels, &m) != CRN_OK) fail_msg("%s", m.text);
  }
}

static void decoders_stream(void **state) {
  (void)state;
  static trace whole, parts;
  float x[PAIR * LONG * 5];
  crn_message m;
  folder f = make_folder();
  write_text(f.config, frame_by_frame);
  random_values(x, PAIR * LONG * 5, 3);
  crn_model *model = load(&f, NULL, CRN_USE_SEARCH);
  crn_session *s = session(model, NULL);
  whole = (trace){.n = 0};
  decode_piece(s, x, 0, LONG, &whole);
  assert_int_equal(whole.step, STEPS);
  const int32_t zero = 0;
  refused(crn_decoder_continue(s, 1, &zero, &zero, &m), CRN_E_STATE, &m, "no more steps");
  crn_session_free(s);
  s = session(model, &(crn_session_options){.num_threads = 1, .streaming = 1});
  for (int round = 0; round < 6; round++) {
    static const int32_t sizes[6] = {0, 1, 2, 3, 5, 9};
    parts = (trace){.n = 0};
    int32_t n;
    for (int t = 0, k = round; t < LONG; t += n, k++) {
      n = round == 1 ? 1 : sizes[k * 5 % 6];
      if (t + n > LONG) n = LONG - t;
      decode_piece(s, x, t, n, &parts);
    }
    assert_int_equal(parts.step, STEPS);
    assert_int_equal(parts.n, whole.n);
    assert_memory_equal(parts.scores, whole.scores, (size_t)whole.n * sizeof(float));
    crn_session_reset(s);
  }
  const int32_t lengths[PAIR] = {4, 4};
  feed(s, x, PAIR, 4, 5, lengths);
  refused(crn_session_run(s, &m), CRN_E_CONFIG, &m, "crn_decoder_start");
  assert_int_equal(crn_decoder_start(s, "output", &m), CRN_OK);
  feed(s, x, PAIR, 4, 5, lengths);
  refused(crn_decoder_start(s, "output", &m), CRN_E_STATE, &m, "not all frames");
  feed(s, x, PAIR, 4, 5, lengths);
  assert_int_equal(crn_decoder_start(s, "output", &m), CRN_OK);
  crn_session_free(s);
  crn_model_free(model);
  remove_folder(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decoder_from_outside_finds_the_same),
      cmocka_unit_test(several_utterances_at_once),
      cmocka_unit_test(rows_are_by_themselves),
      cmocka_unit_test(several_choices_in_a_step),
      cmocka_unit_test(decoders_stream),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
