/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses over hypotheses (search_score, expected_loss), sampled labels, and the other losses that need more than
 * frames: triplet_loss, deep_clustering. Values by formula, gradients against differences.
 */
#include "loss_net.h"

static const double data[18] = {.5, -1, .3, 1.2, .1, 0, -.4, .9, .6, .2, .2, -.8, 1, .4, -.2, 0, -.6, .7};
static const int32_t labels[6] = {2, 1, 0, 1, 0, 0}, lens[2] = {3, 2}, label_lens[2] = {3, 2};
static const feed feeds[2] = {{"data", CRN_F64, 3, {2, 3, 3}, data, lens},
                              {"classes", CRN_I32, 2, {2, 3}, labels, label_lens}};

#define SEARCH(loss)                                                                                                   \
  "{'extern_data': {'data': {'dim': 3}, 'classes': {'dim': 3, 'sparse': True}}, 'network': {"                          \
  "'enc': {'class': 'linear', 'n_out': 4, 'activation': 'tanh', 'from': 'data'}, "                                     \
  "'pool': {'class': 'reduce', 'mode': 'mean', 'axes': 'T', 'from': 'enc'}, "                                          \
  "'output': {'class': 'rec', 'from': [], 'target': 'classes', 'max_seq_len': 4, 'unit': {"                            \
  "'output': {'class': 'choice', 'target': 'classes', 'beam_size': 3, 'from': 'prob', 'initial_output': 0}, "          \
  "'end': {'class': 'compare', 'from': 'output', 'value': 0}, "                                                        \
  "'emb': {'class': 'linear', 'activation': None, 'n_out': 4, 'from': 'output', 'initial_output': 0}, "                \
  "'prob': {'class': 'softmax', 'target': 'classes', 'from': ['prev:emb', 'base:pool']}}}, "                           \
  "'sc': {'class': 'copy', 'from': 'extra.search:output', 'target': 'classes', " loss "}}}"
#define EXPECTED(opts)                                                                                                 \
  "'loss': 'expected_loss', 'loss_opts': {'loss': {'class': 'edit_distance'}, 'loss_kind': 'error'" opts "}"

/* ---- over hypotheses ---- */

static void test_search_score(void **state) {
  (void)state;
  loss_net n;
  net_open(&n, SEARCH("'loss': 'search_score'"), true, feeds, 2);
  net_run(&n);
  const crn_beam *beam = crn_exec_value(n.exec, crn_net_find(n.net, "sc"))->beam;
  assert_non_null(beam);
  double want = 0;
  for (int64_t i = 0; i < crn_t_size(beam->scores); i++) want -= crn_t_get(beam->scores, i);
  assert_int_equal(crn_t_size(beam->scores), 6);
  expect_near("cost", net_loss(&n, "sc")->cost, want, 1e-9);
  net_check_gradients(&n, 2e-6);
  net_close(&n);
}

/* Distance of hypothesis row of the beam to sequence b. */
static double distance(const crn_data *hyp, int64_t row, int b) {
  const int time = hyp->t.time_axis;
  const int64_t T = hyp->v->shape[time], R = hyp->v->shape[1 - time], n = (int64_t)crn_t_get(hyp->len[time]->v, row);
  int d[8][8];
  for (int i = 0; i <= n; i++)
    for (int j = 0; j <= label_lens[b]; j++) {
      d[i][j] = i ? j ? d[i - 1][j - 1] : i : j;
      if (!i || !j) continue;
      const int64_t at = time == 0 ? (i - 1) * R + row : row * T + i - 1;
      d[i][j] += (int)crn_t_get(hyp->v, at) != labels[b * 3 + j - 1];
      if (d[i - 1][j] + 1 < d[i][j]) d[i][j] = d[i - 1][j] + 1;
      if (d[i][j - 1] + 1 < d[i][j]) d[i][j] = d[i][j - 1] + 1;
    }
  return d[n][label_lens[b]];
}

static void expect_risk(const char *config, bool normed, bool relative, bool relative_value, bool divided, double tol) {
  loss_net n;
  net_open(&n, config, true, feeds, 2);
  net_run(&n);
  const crn_data *hyp = crn_exec_value(n.exec, crn_net_find(n.net, "sc"));
  double want = 0;
  (void)relative;
  for (int b = 0; b < 2; b++) {
    double sum = 0, mean = 0;
    for (int k = 0; k < 3; k++) sum += exp(crn_t_get(hyp->beam->scores, b * 3 + k));
    for (int k = 0; k < 3; k++) mean += distance(hyp, b * 3 + k, b) / 3;
    for (int k = 0; k < 3; k++)
      want += (distance(hyp, b * 3 + k, b) - (relative_value ? mean : 0)) *
              exp(crn_t_get(hyp->beam->scores, b * 3 + k)) / (normed ? sum : 1) / (divided ? 3 : 1);
  }
  expect_near(config, net_loss(&n, "sc")->cost, want, 1e-9);
  assert_false(net_loss(&n, "sc")->has_error);
  if (tol > 0) net_check_gradients(&n, tol);
  net_close(&n);
}

static void test_expected_loss(void **state) {
  (void)state;
  expect_risk(SEARCH(EXPECTED("")), true, true, true, true, 0);
  expect_risk(SEARCH(EXPECTED(", 'norm_scores_stop_gradient': False")), true, true, true, true, 2e-6);
  expect_risk(SEARCH(EXPECTED(", 'norm_scores': False, 'divide_beam_size': False")), false, true, true, false, 2e-6);
  expect_risk(SEARCH(EXPECTED(", 'norm_scores': False, 'subtract_average_loss': False")), false, false, false, true,
              2e-6);
  expect_risk(SEARCH(EXPECTED(", 'loss_correction_grad_only': True")), true, true, false, true, 0);
}

static void test_expected_gradient(void **state) { /* what is reported doesn't change what is trained */
  (void)state;
  loss_net a, b;
  net_open(&a, SEARCH(EXPECTED("")), true, feeds, 2);
  net_open(&b, SEARCH(EXPECTED(", 'loss_correction_grad_only': True")), true, feeds, 2);
  net_backward(&a);
  net_backward(&b);
  for (int i = 0; i < a.net->n_params; i++)
    for (int64_t k = 0; k < a.net->params[i]->size; k++)
      expect_near("gradient", net_grad(&b, b.net->params[i], k), net_grad(&a, a.net->params[i], k), 1e-12);
  net_close(&a);
  net_close(&b);
}

#define FRAMES(dict)                                                                                                   \
  "{'extern_data': {'data': {'dim': 3}, 'classes': {'dim': 3, 'sparse': True}}, 'network': {'output': {" dict "}}}"

static void test_search_refused(void **state) {
  (void)state;
  expect_refused(SEARCH("'loss': 'expected_loss', 'loss_opts': {'loss': {'class': 'ce'}, 'loss_kind': 'value'}"), "ce");
  expect_refused(
      SEARCH("'loss': 'expected_loss', 'loss_opts': {'loss': {'class': 'edit_distance'}, 'loss_kind': 'both'}"),
      "loss_kind");
  expect_refused(FRAMES("'class': 'softmax', 'from': 'data', 'target': 'classes', " EXPECTED("")), "search");
  loss_net n;
  net_open(&n, FRAMES("'class': 'copy', 'from': 'data', 'loss': 'search_score'"), true, feeds, 2);
  assert_false(net_forward(&n));
  expect_message(&n, "search");
  net_close(&n);
}

/* ---- sampling_loss ---- */

#define SAMPLED(opts)                                                                                                  \
  FRAMES("'class': 'softmax', 'use_transposed_weights': True, 'from': 'data', 'target': 'classes', " opts)

static void test_sampling(void **state) {
  (void)state;
  static const char *const all =
      SAMPLED("'loss': 'sampling_loss', 'loss_opts': {'num_sampled': 3, 'sampler': 'uniform'}");
  static const char *const others[] = {
      SAMPLED("'loss': 'sampling_loss', 'loss_opts': {'num_sampled': 2, 'num_splits': 2}"),
      SAMPLED("'loss': 'sampling_loss', 'loss_opts': {'num_sampled': 2, 'nce_loss': True, 'nce_log_norm_term': 0.5}"),
      SAMPLED("'loss': 'sampling_loss', 'loss_opts': {'num_sampled': 2, 'sampler': 'fixed_unigram', 'sampler_args': "
              "{'unigrams': [1, 2, 3], 'distortion': 0.5}, 'remove_accidental_hits': False}"),
      SAMPLED("'loss': 'sampling_loss', 'loss_opts': {'num_sampled': 1, 'use_full_softmax': True}")};
  loss_net a, b;
  net_open(&a, all, true, feeds, 2); /* all labels, equally likely: plain cross entropy */
  net_open(&b, SAMPLED("'loss': 'ce'"), true, feeds, 2);
  net_run(&a);
  net_run(&b);
  expect_near("cost", net_loss(&a, "output")->cost, net_loss(&b, "output")->cost, 1e-9);
  expect_near("error", net_loss(&a, "output")->error, net_loss(&b, "output")->error, 0);
  net_check_gradients(&a, 2e-6);
  net_close(&a);
  net_close(&b);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    net_open(&a, others[i], true, feeds, 2);
    net_check_gradients(&a, 2e-6);
    net_close(&a);
  }
  expect_refused(SAMPLED("'loss': 'sampling_loss', 'loss_opts': {'num_sampled': 4}"), "num_sampled");
  expect_refused(
      FRAMES("'class': 'softmax', 'from': 'data', 'target': 'classes', 'loss': 'sampling_loss', 'loss_opts': "
             "{'num_sampled': 2}"),
      "use_transposed_weights");
}

/* ---- triplet_loss, deep_clustering, grad_filter ---- */

static double pair_sum(const double rows[6][2], const int32_t *l, double margin) {
  double sum = 0;
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 6; j++) {
      const double dot = rows[i][0] * rows[j][0] + rows[i][1] * rows[j][1];
      const double d = 1 - dot / sqrt((rows[i][0] * rows[i][0] + rows[i][1] * rows[i][1]) *
                                      (rows[j][0] * rows[j][0] + rows[j][1] * rows[j][1]));
      if (l[j] * l[j] == l[i] * l[j])
        sum += d / 2;
      else if (d < margin)
        sum += (margin - d) / 2;
    }
  return sum;
}

static void test_triplet(void **state) {
  (void)state;
  static const double x[24] = {1,  .2, -.5, .8, .3, 1.1, .4, -.9, 1.3, .7, .6, -.2,
                               .9, .1, -.7, .3, .2, .8,  -1, .5,  .6,  .9, .1, 1};
  static const int32_t l[6] = {1, 2, 1, 2, 0, 1};
  static const int32_t stacked[6] = {1, 2, 2, 0, 1, 1}; /* part by part */
  const feed f[2] = {{"data", CRN_F64, 2, {2, 12}, x, NULL}, {"classes", CRN_I32, 2, {2, 3}, l, NULL}};
  loss_net n;
  double rows[2][6][2];
  static const int parts[2][3] = {{0, 4, 5}, {3, 1, 2}};
  for (int s = 0; s < 2; s++)
    for (int i = 0; i < 6; i++)
      for (int k = 0; k < 2; k++) rows[s][i][k] = x[i % 2 * 12 + parts[s][i / 2] * 2 + k];
  net_open(
      &n,
      "{'extern_data': {'data': {'shape': (12,)}, 'classes': {'shape': (3,), 'dim': 3, 'sparse': True}}, 'network': {"
      "'output': {'class': 'linear', 'n_out': 12, 'activation': None, 'from': 'data', "
      "'target': 'classes', 'loss': 'triplet_loss', 'loss_opts': {'margin': 0.6, 'multi_view_training': True, "
      "'custom_norm_factor': 3.0}}}}",
      true, f, 2);
  for (int i = 0; i < n.net->n_params; i++) /* the identity */
    for (int64_t k = 0; k < n.net->params[i]->size; k++)
      ((double *)n.net->params[i]->st.data)[k] = n.net->params[i]->size == 144 && k % 13 == 0;
  net_run(&n);
  expect_near("cost", net_loss(&n, "output")->cost, pair_sum(rows[0], stacked, 0.6) + pair_sum(rows[1], stacked, 0.6),
              1e-9);
  expect_near("norm", net_loss(&n, "output")->norm, 1.0 / 36, 1e-12);
  net_check_gradients(&n, 2e-6);
  net_close(&n);
}

static void test_clustering(void **state) {
  (void)state;
  static const double x[8] = {1, 2, 3, 4, -1, 1, 9, 9}, y[8] = {1, 0, 0, 1, 1, 0, 9, 9};
  static const int32_t l[2] = {2, 1};
  const feed f[2] = {{"data", CRN_F64, 3, {2, 2, 2}, x, l}, {"y", CRN_F64, 3, {2, 2, 2}, y, l}};
  loss_net n;
  net_open(
      &n,
      "{'extern_data': {'data': {'dim': 2}, 'y': {'dim': 2}}, 'network': {'output': {'class': 'copy', 'from': 'data', "
      "'target': 'y', 'loss': 'deep_clustering', 'loss_opts': {'embedding_dimension': 2, 'nr_of_sources': 2}}}}",
      false, f, 2);
  net_run(&n);
  /* first sequence: vᵀv = [10 14; 14 20], vᵀy = [1 3; 2 4], yᵀy = I; second: [1 -1; -1 1], [-1 0; 1 0], [1 0; 0 0] */
  expect_near("cost", net_loss(&n, "output")->cost, (100 + 2 * 196 + 400) - 2 * 30 + 2 + 4 - 2 * 2 + 1, 1e-9);
  net_close(&n);
}

static void test_grad_filter(void **state) { /* the gradient at h is the data: larger in the second sequence */
  (void)state;
  static const double x[6] = {.1, .2, .1, 5, .1, .1};
  static const int32_t l[2] = {3, 3};
  const feed f = {"data", CRN_F64, 3, {2, 3, 1}, x, l};
  static const char *const thresholds[3] = {"None", "1.0", "0.001"};
  static const double want[3] = {.4 + 5.2, .4, 0};
  for (int i = 0; i < 3; i++) {
    char config[512];
    loss_net n;
    (void)snprintf(
        config, sizeof config,
        "{'extern_data': {'data': {'dim': 1}}, 'network': {'h': {'class': 'linear', 'n_out': 1, 'activation': None, "
        "'grad_filter': %s, 'from': 'data'}, 'output': {'class': 'combine', 'kind': 'mul', 'from': ['h', 'data'], "
        "'loss': 'as_is'}}}",
        thresholds[i]);
    net_open(&n, config, true, &f, 1);
    net_backward(&n);
    int found = 0;
    for (int p = 0; p < n.net->n_params; p++) {
      if (strcmp(n.net->params[p]->path, "h/b") != 0) continue;
      expect_near(config, net_grad(&n, n.net->params[p], 0), want[i], 1e-9);
      found++;
    }
    assert_int_equal(found, 1);
    net_close(&n);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_search_score),      cmocka_unit_test(test_expected_loss),
      cmocka_unit_test(test_expected_gradient), cmocka_unit_test(test_sampling),
      cmocka_unit_test(test_triplet),           cmocka_unit_test(test_search_refused),
      cmocka_unit_test(test_clustering),        cmocka_unit_test(test_grad_filter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
