/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of whole sequences: ctc against a sum over all paths, what sequences without a path give, decoding against all
 * label sequences, edit_distance with its options, bleu.
 */
#include "loss_net.h"
#include "tensor/ctc_decode.h"

enum { B = 2, T = 4, V = 3, BLANK = 2 };
static const double scores[B * T * V] = {.5, -1, .3,  1.2, .1,  0,  -.4, .9, .6, .2, .2, -.8,
                                         1,  .4, -.2, 0,   -.6, .7, .3,  .8, .1, 5,  5,  5};
static const int32_t lens[B] = {4, 3};

#define DATA(n) "'extern_data': {'data': {'dim': 3}, 'classes': {'dim': " n ", 'sparse': True}}, "
#define CTC(opts)                                                                                                      \
  "{" DATA("2") "'network': {'output': {'class': 'linear', 'activation': 'softmax', 'from': 'data', 'target': "        \
                "'classes', 'loss': 'ctc', 'loss_opts': {" opts "}}}}"
#define PLAIN(more, opts)                                                                                              \
  "{" DATA("2") more "'network': {'output': {'class': 'copy', 'from': 'data', 'target': 'classes', "                   \
                     "'loss': 'ctc', 'loss_opts': {'output_in_log_space': True, " opts "}}}}"
#define BIASED(more, opts)                                                                                             \
  "{" DATA("2") more "'network': {'output': {'class': 'linear', 'n_out': 3, 'activation': None, "                      \
                     "'forward_weights_init': 0.0, 'from': 'data', 'target': 'classes', 'loss': 'ctc', 'loss_opts': {" \
                     "'output_in_log_space': True, " opts "}}}}"

static double log_softmax(const double *z, int v) {
  double s = 0;
  for (int k = 0; k < V; k++) s += exp(z[k]);
  return z[v] - log(s);
}

/* Labels of a path: repeats merged (merge) and blanks dropped. */
static int reduce_path(const int *path, int n, bool merge, int32_t *out) {
  int m = 0;
  for (int t = 0; t < n; t++)
    if (path[t] != BLANK && !(merge && t > 0 && path[t] == path[t - 1])) out[m++] = path[t];
  return m;
}

/* -log of the sum (or of the largest) of all paths that stand for the labels. */
static double by_hand(const double *z, int n_frames, const int32_t *labels, int n, bool merge, bool best) {
  double sum = 0, top = 0;
  int path[T], n_paths = 1;
  for (int t = 0; t < n_frames; t++) n_paths *= V;
  for (int p = 0; p < n_paths; p++) {
    int32_t got[T];
    double score = 0;
    for (int t = 0, rest = p; t < n_frames; t++, rest /= V) path[t] = rest % V;
    const int m = reduce_path(path, n_frames, merge, got);
    if (m != n || memcmp(got, labels, (size_t)n * sizeof *labels)) continue;
    for (int t = 0; t < n_frames; t++) score += log_softmax(z + t * V, path[t]);
    sum += exp(score);
    if (exp(score) > top) top = exp(score);
  }
  return -log(best ? top : sum);
}

static void expect_ctc(const char *config, const int32_t labels[4], const int32_t label_lens[2], double want) {
  loss_net n;
  const feed f[2] = {{"data", CRN_F64, 3, {B, T, V}, scores, lens},
                     {"classes", CRN_I32, 2, {B, 2}, labels, label_lens}};
  net_open(&n, config, false, f, 2);
  net_run(&n);
  expect_near("ctc", net_loss(&n, "output")->cost, want, 1e-9);
  net_close(&n);
}

static void test_ctc_values(void **state) {
  (void)state;
  static const int32_t a[4] = {0, 1, 1, 1}, a_lens[2] = {2, 2};
  const double sum = by_hand(scores, 4, a, 2, true, false) + by_hand(scores + T * V, 3, a + 2, 2, true, false);
  const double best = by_hand(scores, 4, a, 2, true, true) + by_hand(scores + T * V, 3, a + 2, 2, true, true);
  const double rna = by_hand(scores, 4, a, 2, false, false) + by_hand(scores + T * V, 3, a + 2, 2, false, false);
  const double merged = by_hand(scores, 4, a, 2, true, false) + by_hand(scores + T * V, 3, a + 2, 1, true, false);
  expect_ctc(PLAIN("", "'beam_width': 3"), a, a_lens, sum);
  expect_ctc(PLAIN("", "'use_native': True, 'beam_width': 1"), a, a_lens, sum);
  expect_ctc(PLAIN("", "'use_viterbi': True"), a, a_lens, best);
  expect_ctc(PLAIN("", "'ctc_opts': {'ctc_merge_repeated': False}"), a, a_lens, rna);
  expect_ctc(PLAIN("", "'use_native': True, 'beam_width': 1, 'ctc_opts': {'label_loop': False}"), a, a_lens, rna);
  expect_ctc(PLAIN("", "'target_collapse_repeated': True"), a, a_lens, merged);
  expect_ctc(PLAIN("", "'ctc_opts': {'preprocess_collapse_repeated': True}"), a, a_lens, merged);
}

static void test_ctc_gradients(void **state) {
  (void)state;
  static const int32_t a[4] = {0, 1, 1, 1}, a_lens[2] = {2, 2};
  static const char *const configs[] = {CTC(""), CTC("'use_native': True, 'beam_width': 1"), CTC("'use_viterbi': True"),
                                        CTC("'ctc_opts': {'ctc_merge_repeated': False}, 'scale': 0.7")};
  const feed f[2] = {{"data", CRN_F64, 3, {B, T, V}, scores, lens}, {"classes", CRN_I32, 2, {B, 2}, a, a_lens}};
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    loss_net n;
    net_open(&n, configs[i], true, f, 2);
    net_check_gradients(&n, 2e-6);
    net_close(&n);
  }
}

/* ---- sequences without a path: one sequence of n frames, scores all 0, so softmax is 1/3 ---- */

typedef struct lack {
  const char *config;
  int n_frames;
  double value, bias[3]; /* cost, gradient of the bias; value nan: the step fails */
} lack;

static void test_without_path(void **state) {
  (void)state;
  static const double zero[T * V] = {0};
  static const int32_t equal[2] = {1, 1}, two = 2;
  const double p1 = 1.0 / 3, p2 = 2.0 / 3;
  const lack cases[] = {
      {BIASED("", ""), 1, NAN, {0}},
      {BIASED("", ""), 2, INFINITY, {p2, p2, p2}},
      {BIASED("", "'ctc_opts': {'ignore_longer_outputs_than_inputs': True}"), 1, 0, {0, 0, 0}},
      {BIASED("", "'ctc_opts': {'ignore_longer_outputs_than_inputs': True}"), 2, INFINITY, {p2, p2, p2}},
      {BIASED("", "'use_native': True, 'beam_width': 1"), 1, 0, {p1, p1, p1}},
      {BIASED("", "'use_native': True, 'beam_width': 1"), 2, 0, {p2, p2, p2}},
      {BIASED("'behavior_version': 30, ", "'use_native': True, 'beam_width': 1"), 2, 0, {0, 0, 0}},
      {BIASED("'behavior_version': 30, ", "'use_native': True, 'beam_width': 1, 'ctc_opts': {'zero_infinity': False}"),
       2,
       0,
       {p2, p2, p2}},
      {BIASED("'tf_native_ctc_zero_infinity': True, ", "'use_native': True, 'beam_width': 1"), 1, 0, {0, 0, 0}},
      {BIASED("", "'use_viterbi': True"), 2, INFINITY, {p2 - 2, p2, p2}},
      {BIASED("'behavior_version': 30, ", "'use_viterbi': True"), 1, 0, {0, 0, 0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    loss_net n;
    const int32_t len = cases[i].n_frames;
    const feed f[2] = {{"data", CRN_F64, 3, {1, len, V}, zero, &len}, {"classes", CRN_I32, 2, {1, 2}, equal, &two}};
    net_open(&n, cases[i].config, true, f, 2);
    if (isnan(cases[i].value)) {
      assert_false(net_forward(&n));
      expect_message(&n, "Not enough time for target transition sequence (required: 2, available: 1)");
      net_close(&n);
      continue;
    }
    net_backward(&n);
    expect_near(cases[i].config, net_loss(&n, "output")->cost, cases[i].value, 1e-12);
    for (int p = 0; p < n.net->n_params; p++)
      for (int64_t k = 0; k < 3 && n.net->params[p]->size == 3; k++)
        expect_near(cases[i].config, net_grad(&n, n.net->params[p], k), cases[i].bias[k], 1e-9);
    net_close(&n);
  }
}

static void test_ctc_refused(void **state) {
  (void)state;
  expect_refused(CTC("'use_native': True"), "beam_width");
  expect_refused(CTC("'use_viterbi': True, 'ctc_opts': {'label_loop': False}"), "ctc_opts");
  expect_refused(CTC("'ctc_opts': {'logits_normalize': False}"), "logits_normalize");
  expect_refused(CTC("'use_native': True, 'beam_width': 1, 'auto_clip_target_len': True"), "auto_clip_target_len");
  expect_refused(
      "{" DATA("3") "'network': {'output': {'class': 'copy', 'from': 'data', 'target': 'classes', 'loss': 'ctc'}}}",
      "Expected output dim is 4 but the output has dim 3");
}

/* ---- decoding ---- */

static void test_decode(void **state) {
  (void)state;
  for (int seed = 0; seed < 40; seed++) {
    double log_p[T * V], top = -1;
    int32_t best[T], got[T];
    int n_best = 0;
    for (int t = 0; t < T; t++) {
      double z[V];
      for (int v = 0; v < V; v++) z[v] = 1.5 * sin(12.9898 * (seed * 31 + t * V + v) + 1);
      for (int v = 0; v < V; v++) log_p[t * V + v] = log_softmax(z, v);
    }
    for (int code = 0; code < 81; code++) { /* all label sequences of up to 4 labels, digits 0: end */
      int32_t a[T];
      int n = 0;
      for (int rest = code; rest && n < T; rest /= 3) {
        if (rest % 3 == 0)
          n = T + 1;
        else
          a[n++] = rest % 3 - 1;
      }
      if (n > T) continue;
      const double p = exp(-by_hand(log_p, T, a, n, true, false));
      if (p <= top) continue;
      top = p;
      n_best = n;
      memcpy(best, a, sizeof best);
    }
    assert_int_equal(crn_ctc_beam_search(log_p, T, V, BLANK, 200, got), n_best);
    for (int i = 0; i < n_best; i++) assert_int_equal(got[i], best[i]);
  }
  static const double path[T * V] = {0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0}; /* 1 1 blank 1 */
  int32_t got[T];
  assert_int_equal(crn_ctc_greedy(path, T, V, BLANK, got), 2);
  assert_int_equal(got[0], 1);
  assert_int_equal(got[1], 1);
}

/* ---- edit_distance, bleu ---- */

static double sequence_error(const char *config, const int32_t *hyp, const int32_t hyp_lens[2], int64_t n_hyp,
                             const int32_t *ref, const int32_t ref_lens[2], int64_t n_ref) {
  loss_net n;
  const feed f[2] = {{"hyp", CRN_I32, 2, {2, n_hyp}, hyp, hyp_lens},
                     {"classes", CRN_I32, 2, {2, n_ref}, ref, ref_lens}};
  net_open(&n, config, false, f, 2);
  net_run(&n);
  const crn_loss_result *l = net_loss(&n, "output");
  assert_false(l->has_cost);
  assert_true(l->has_error);
  const double error = l->error;
  expect_near("norm", l->norm, 1.0 / (ref_lens[0] + ref_lens[1]), 1e-12);
  net_close(&n);
  return error;
}

#define LABELS(loss)                                                                                                   \
  "{'extern_data': {'hyp': {'dim': 9, 'sparse': True}, 'classes': {'dim': 9, 'sparse': True}}, 'network': {"           \
  "'output': {'class': 'copy', 'from': 'data:hyp', 'target': 'classes', " loss "}}}"

static void test_edit_distance(void **state) {
  (void)state;
  static const int32_t hyp[8] = {1, 2, 3, 4, 5, 5, 0, 0}, ref[6] = {1, 3, 4, 2, 5, 6}, hl[2] = {4, 2}, rl[2] = {3, 3};
  expect_near("distance", sequence_error(LABELS("'loss': 'edit_distance'"), hyp, hl, 4, ref, rl, 3), 1 + 2, 0);
  expect_near("mapped",
              sequence_error(LABELS("'loss': 'edit_distance', 'loss_opts': {'label_map': {0: 0, 1: 1, 2: None, 3: 3, "
                                    "4: 4, 5: 5, 6: 5, 7: 7, 8: 8}}"),
                             hyp, hl, 4, ref, rl, 3),
              0, 0);
  expect_refused(LABELS("'loss': 'edit_distance', 'loss_opts': {'label_map': {0: 0, 2: 1}}"), "label_map");
}

static void test_ctc_decode_option(void **state) {
  (void)state;
  static const double z[2 * 3 * 3] = {0, 9, 0, 0, 0, 9, 0, 9, 0, 9, 0, 0, 9, 0, 0, 0, 9, 0}; /* 1 blank 1; 0 0 1 */
  static const int32_t three[2] = {3, 3}, ref[4] = {1, 1, 0, 1}, two[2] = {2, 2};
  const feed f[2] = {{"data", CRN_F64, 3, {2, 3, 3}, z, three}, {"classes", CRN_I32, 2, {2, 2}, ref, two}};
  loss_net n;
  net_open(
      &n,
      "{" DATA(
          "2") "'network': {'output': {'class': 'copy', 'from': 'data', 'target': 'classes', 'loss': 'edit_distance'"
               ", 'loss_opts': {'ctc_decode': True, 'output_in_log_space': True}}}}",
      false, f, 2);
  net_run(&n);
  expect_near("error", net_loss(&n, "output")->error, 0, 0);
  net_close(&n);
}

static void test_bleu(void **state) {
  (void)state;
  static const int32_t hyp[12] = {1, 2, 3, 4, 5, 0, 1, 2, 7, 0, 0, 0}, ref[12] = {1, 2, 3, 4, 6, 0, 1, 2, 3, 4, 0, 0};
  static const int32_t hl[2] = {5, 3}, rl[2] = {5, 4};
  /* first: 4/5 3/4 2/3 1/2; second: 2/3 1/2, no match of 1 trigram: 1/2, shorter by 4/3 */
  const double want = pow(4.0 / 5 * 3 / 4 * 2 / 3 / 2, 0.25) + pow(2.0 / 3 / 2 / 2, 0.25) * exp(1 - 4.0 / 3);
  expect_near("bleu", sequence_error(LABELS("'loss': 'bleu'"), hyp, hl, 6, ref, rl, 6), -want, 1e-12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ctc_values),   cmocka_unit_test(test_ctc_gradients),
      cmocka_unit_test(test_without_path), cmocka_unit_test(test_ctc_refused),
      cmocka_unit_test(test_decode),       cmocka_unit_test(test_edit_distance),
      cmocka_unit_test(test_bleu),         cmocka_unit_test(test_ctc_decode_option),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
