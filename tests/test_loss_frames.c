/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of frames: numbers worked out by hand, gradients against differences, masks, norm factors, what is refused.
 */
#include "loss_net.h"

/* 2 sequences of 2 and 3 frames; the third frame of the first is padding. */
static const double logits[18] = {2, 0, -1, 0, 1, 0, 9, 9, 9, 1, 1, 1, 0, 0, 3, 1, 0, 0};
static const int32_t labels[6] = {0, 2, 77, 1, 2, 0}, lens[2] = {2, 3};
static const double dense[18] = {.2, .3, .5, .1, .8, .1, 7, 7, 7, .6, .2, .2, .4, .3, .3, .1, .1, .8};
static const feed feeds[3] = {{"data", CRN_F64, 3, {2, 3, 3}, logits, lens},
                              {"classes", CRN_I32, 2, {2, 3}, labels, lens},
                              {"soft", CRN_F64, 3, {2, 3, 3}, dense, lens}};

#define DATA "'extern_data': {'data': {'dim': 3}, 'classes': {'dim': 3, 'sparse': True}, 'soft': {'dim': 3}}, "
#define CONFIG(layer) "{" DATA "'network': {'output': {" layer "}}}"
#define SOFTMAX "'class': 'activation', 'activation': 'softmax', 'from': 'data', 'target': 'classes', 'loss': 'ce'"
#define LINEAR(act) "'class': 'linear', 'n_out': 3, 'from': 'data', 'activation': " act ", "

static void expect_loss(const char *config, double cost, double error, double norm) {
  loss_net n;
  net_open(&n, config, false, feeds, 3);
  net_run(&n);
  const crn_loss_result *l = net_loss(&n, "output");
  expect_near("cost", l->cost, cost, 1e-6);
  expect_near("error", l->error, error, 1e-9);
  expect_near("norm", l->norm, norm, 1e-12);
  net_close(&n);
}

/* ---- ce ---- */

static void test_ce_values(void **state) {
  (void)state;
  expect_loss(CONFIG(SOFTMAX), 3.466270, 2, 0.2);
  expect_loss(CONFIG(SOFTMAX ", 'loss_opts': {'label_smoothing': 0.1}"), 2.094282, 2, 0.2);
  expect_loss(CONFIG(SOFTMAX ", 'loss_opts': {'focal_loss_factor': 2.0}"), 1.555780, 2, 0.2);
  expect_loss(CONFIG(SOFTMAX ", 'loss_opts': {'use_flatten_frames': False}"), 3.466270, 2, 0.2);
  expect_loss(CONFIG(SOFTMAX ", 'loss_opts': {'use_fused': False, 'custom_norm_factor': 0.5}"), 3.466270, 2, 0.5);
  expect_loss(
      CONFIG(
          "'class': 'copy', 'from': 'data', 'target': 'classes', 'loss': 'ce', 'loss_opts': {'input_type': 'logits'}"),
      3.466270, 2, 0.2);
}

static void test_ce_bound(void **state) { /* values are cut, gradients are not */
  (void)state;
  loss_net a, b;
  net_open(&a, CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce'"), true, feeds, 3);
  net_open(&b, CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce', 'loss_opts': {'fake_upper_bound': 0.25}"),
           true, feeds, 3);
  net_backward(&a);
  net_backward(&b);
  assert_true(net_loss(&b, "output")->cost < net_loss(&a, "output")->cost);
  assert_true(net_loss(&b, "output")->cost <= 5 * 0.25 + 1e-9);
  for (int64_t k = 0; k < 9; k++)
    expect_near("gradient", net_grad(&b, b.net->params[0], k), net_grad(&a, a.net->params[0], k), 1e-12);
  net_close(&a);
  net_close(&b);
}

static void test_gradients(void **state) {
  (void)state;
  static const char *const configs[] = {
      CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce'"),
      CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce', 'loss_opts': {'use_fused': False}"),
      CONFIG(LINEAR("'sigmoid'") "'target': 'classes', 'loss': 'ce', 'loss_scale': 0.3"),
      CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce', 'loss_opts': {'focal_loss_factor': 1.5}"),
      CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce', 'loss_opts': {'focal_loss_factor': 2.0, "
                                 "'label_smoothing': 0.2, 'use_flatten_frames': False}"),
      CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce', 'loss_opts': {'label_smoothing': 0.1, "
                                 "'use_normalized_loss': True}"),
      CONFIG(LINEAR("'softmax'") "'target': 'soft', 'loss': 'ce'"),
      CONFIG(LINEAR("'sigmoid'") "'target': 'soft', 'loss': 'ce'"),
      CONFIG(LINEAR("None") "'target': 'classes', 'loss': 'ce', 'loss_opts': {'input_type': 'logits'}"),
      CONFIG(LINEAR("'exp'") "'target': 'classes', 'loss': 'generic_ce'"),
      CONFIG(
          LINEAR("'sigmoid'") "'target': 'classes', 'loss': 'generic_ce', 'loss_opts': {'use_flatten_frames': False}"),
      CONFIG(LINEAR("'softplus'") "'target': 'classes', 'loss': 'generic_ce'"),
      CONFIG(LINEAR("'tanh'") "'target': 'soft', 'loss': 'mse'"),
      CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'mse', 'loss_opts': {'use_flatten_frames': False}"),
      CONFIG(LINEAR("'tanh'") "'target': 'soft', 'loss': 'l1'"),
      CONFIG(LINEAR("'tanh'") "'target': 'soft', 'loss': 'mean_l1'"),
      CONFIG(LINEAR("None") "'target': 'soft', 'loss': 'bin_ce'"),
      CONFIG(LINEAR("None") "'target': 'soft', 'loss': 'sse_sigmoid', 'loss_opts': {'pos_weight': 3.0}"),
      CONFIG(LINEAR("'tanh'") "'loss': 'as_is'"),
      "{" DATA "'network': {'t': {'class': 'softmax', 'n_out': 3, 'from': 'data'}, 'output': {" LINEAR(
          "'softmax'") "'target': 'layer:t', 'loss': 'ce'}}}", /* the gradient reaches the target too */
      "{" DATA
      "'network': {'output': {" LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce', 'L2': 0.3, 'darc1': 0.2}}}",
      "{" DATA "'network': {'output': {'class': 'linear', 'n_out': 12, 'activation': 'tanh', 'from': 'data', "
      "'spatial_smoothing': 0.7, 'loss': 'as_is', 'loss_scale': 0.0}}}",
      "{'extern_data': {'data': {'dim': 3, 'time_dim_axis': 0, 'batch_dim_axis': 1}, 'classes': {'dim': 3, 'sparse': "
      "True}, "
      "'soft': {'dim': 3}}, 'network': {'output': {" LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce'}}}",
  };
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    loss_net n;
    feed f[3] = {feeds[0], feeds[1], feeds[2]};
    if (strstr(configs[i], "batch_dim_axis")) { /* [T, B, F] of the same numbers: other frames, lengths up to 2 */
      static const int32_t short_lens[3] = {2, 1, 2}, turned[6] = {0, 2, 1, 0, 2, 1};
      f[0] = (feed){"data", CRN_F64, 3, {2, 3, 3}, dense, short_lens};
      f[1] = (feed){"classes", CRN_I32, 2, {3, 2}, turned, short_lens};
      f[2] = (feed){"soft", CRN_F64, 3, {3, 2, 3}, dense, short_lens};
    }
    net_open(&n, configs[i], true, f, 3);
    net_check_gradients(&n, 2e-6);
    net_close(&n);
  }
}

/* The gradient of generic_ce knows no scale; that of a gaussian soft target is softmax - target. */
static void test_defined_gradients(void **state) {
  (void)state;
  loss_net a, b;
  net_open(&a, CONFIG(LINEAR("'exp'") "'target': 'classes', 'loss': 'generic_ce'"), true, feeds, 3);
  net_open(&b, CONFIG(LINEAR("'exp'") "'target': 'classes', 'loss': 'generic_ce', 'loss_scale': 0.5"), true, feeds, 3);
  net_backward(&a);
  net_backward(&b);
  expect_near("objective", net_objective(&b), 0.5 * net_objective(&a), 1e-12);
  for (int64_t k = 0; k < 9; k++)
    expect_near("gradient", net_grad(&b, b.net->params[0], k), net_grad(&a, a.net->params[0], k), 1e-12);
  net_close(&a);
  net_close(&b);
  net_open(&a,
           CONFIG(LINEAR("'softmax'") "'target': 'classes', 'loss': 'ce', 'loss_opts': {'label_smoothing': 0.4, "
                                      "'label_smoothing_gaussian': True}"),
           true, feeds, 3);
  net_backward(&a);
  const crn_tensor *p = crn_exec_value(a.exec, crn_net_find(a.net, "output"))->v;
  static const int at[5][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}};
  for (int v = 0; v < 3; v++) {
    double want = 0; /* of the bias */
    for (int i = 0; i < 5; i++) {
      const int t = at[i][0] * 3 + at[i][1];
      const double d = (v - labels[t]) / 0.6;
      want += crn_t_get(p, t * 3 + v) - exp(-d * d / 2) / (0.6 * sqrt(2 * acos(-1.0)));
    }
    for (int i = 0; i < a.net->n_params; i++)
      if (a.net->params[i]->size == 3) expect_near("bias gradient", net_grad(&a, a.net->params[i], v), want, 1e-9);
  }
  net_close(&a);
}

/* ---- norm factors, frames ---- */

static void test_norms(void **state) {
  (void)state;
  static const double flat[6] = {1, 2, 3, 4, 5, 6};
  static const feed no_time = {"data", CRN_F64, 2, {2, 3}, flat, NULL};
  loss_net n;
  net_open(&n,
           "{'extern_data': {'data': {'shape': (3,)}}, 'network': {'output': {'class': 'copy', 'from': 'data', 'loss': "
           "'as_is'}, 'm': {'class': 'reduce', 'mode': 'mean', 'axes': ['B', 'F'], 'from': 'data', 'loss': 'as_is'}}}",
           false, &no_time, 1);
  net_run(&n);
  expect_near("cost", net_loss(&n, "output")->cost, 21, 1e-9);
  expect_near("norm per sequence", net_loss(&n, "output")->norm, 0.5, 1e-12);
  expect_near("norm of a number", net_loss(&n, "m")->norm, 1, 1e-12);
  net_close(&n);
}

/* Losses before they are summed: [B, T] with 0 in padding, whatever the order of axes and the way of flattening. */
static void test_parts(void **state) {
  (void)state;
  static const char *const configs[3] = {CONFIG(SOFTMAX),
                                         CONFIG(SOFTMAX ", 'loss_opts': {'use_flatten_frames': False}"),
                                         CONFIG("'class': 'copy', 'from': 'data', 'loss': 'as_is'")};
  static const double want[6] = {0.169846, 1.551445, 0, 1.098612, 0.094922, 0.551445};
  for (int i = 0; i < 3; i++) {
    loss_net n;
    net_open(&n, configs[i], false, feeds, 3);
    net_run(&n);
    const crn_loss_parts *p = &n.exec->loss_parts[0];
    assert_non_null(p->value);
    assert_int_equal(p->value->rank, 2);
    assert_int_equal(crn_t_i32(p->lens)[0], 2);
    assert_int_equal(crn_t_i32(p->lens)[1], 3);
    for (int k = 0; k < 6; k++) {
      const double *f = logits + 3 * k;
      expect_near("part", crn_t_get(p->value, k), i < 2 ? want[k] : k == 2 ? 0 : (f[0] + f[1] + f[2]) / 3, 1e-6);
    }
    if (i < 2) expect_near("error", crn_t_get(p->error, 3), 1, 0);
    net_close(&n);
  }
}

static void test_lengths(void **state) { /* only totals are compared, unless asked for */
  (void)state;
  static const int32_t other[2] = {3, 2}, more[2] = {3, 3}, ok[6] = {0, 2, 1, 1, 2, 0};
  feed f[3] = {feeds[0], {"classes", CRN_I32, 2, {2, 3}, ok, other}, feeds[2]};
  loss_net n;
  net_open(&n, CONFIG(SOFTMAX), false, f, 3);
  net_run(&n);
  f[1].lens = more;
  assert_false(net_forward(&n));
  expect_message(&n, "5 frames, but the target has 6");
  net_close(&n);
  f[1].lens = other;
  net_open(&n, "{" DATA "'debug_runtime_sanity_checks': True, 'network': {'output': {" SOFTMAX "}}}", false, f, 3);
  assert_false(net_forward(&n));
  expect_message(&n, "sequence 0 has 2 frames in the output, but 3 in the target");
  net_close(&n);
}

static void test_bad_label(void **state) {
  (void)state;
  static const int32_t bad[6] = {0, 3, 0, 1, 2, 0};
  const feed f[3] = {feeds[0], {"classes", CRN_I32, 2, {2, 3}, bad, lens}, feeds[2]};
  loss_net n;
  net_open(&n, CONFIG(SOFTMAX), false, f, 3);
  assert_false(net_forward(&n));
  expect_message(&n, "3");
  net_close(&n);
}

static void test_only_on_eval(void **state) {
  (void)state;
  for (int train = 0; train < 2; train++) {
    loss_net n;
    net_open(&n, CONFIG(SOFTMAX ", 'only_on_eval': True"), train, feeds, 3);
    net_run(&n);
    expect_near("cost", net_loss(&n, "output")->cost, train ? 0 : 3.466270, 1e-6);
    expect_near("norm", net_loss(&n, "output")->norm, 0.2, 1e-12);
    net_close(&n);
  }
}

/* Class loss: values per frame, with those of padded frames. */
static void test_loss_layer(void **state) {
  (void)state;
  loss_net n;
  net_open(&n,
           "{" DATA
           "'network': {'p': {'class': 'activation', 'activation': 'softmax', 'from': 'data'}, 'v': {'class': 'loss', "
           "'loss_': 'ce', 'from': 'p', 'is_output_layer': True}, 'e': {'class': 'copy', 'from': 'v/error', "
           "'is_output_layer': True}, 'output': {'class': 'copy', 'from': 'v', 'loss': 'as_is'}}}",
           false, feeds, 3);
  net_run(&n);
  assert_int_equal(n.net->n_losses, 1);
  expect_near("sum", net_loss(&n, "output")->cost, 3.466270, 1e-6);
  const crn_tensor *e = crn_exec_value(n.exec, crn_net_find(n.net, "e"))->v;
  static const int want[6] = {0, 1, -1, 1, 0, 0};
  for (int i = 0; i < 6; i++)
    if (want[i] >= 0) assert_int_equal((int)crn_t_get(e, i), want[i]);
  net_close(&n);
  expect_refused("{" DATA "'network': {'output': {'class': 'loss', 'loss_': 'edit_distance', 'from': 'data'}}}",
                 "per frame");
}

static void test_refused(void **state) {
  (void)state;
  expect_refused(CONFIG(LINEAR("'softmax'") "'target': 'soft', 'loss': 'ce', 'loss_opts': {'label_smoothing': 0.1}"),
                 "dense");
  expect_refused(CONFIG(LINEAR("'softmax'") "'target': 'soft', 'loss': 'ce', 'loss_opts': {'focal_loss_factor': 1.0}"),
                 "dense");
  expect_refused(CONFIG(LINEAR("None") "'target': 'classes', 'loss': 'l1'"), "sparse");
  expect_refused(CONFIG("'class': 'softmax', 'n_out': 4, 'from': 'data', 'target': 'classes', 'loss': 'ce'"),
                 "Expected output dim is 3 but the output has dim 4");
  expect_refused(CONFIG(SOFTMAX ", 'loss_opts': {'label_smothing': 0.1}"), "label_smoothing");
  expect_refused(CONFIG(SOFTMAX ", 'loss_scale': 0.5, 'loss_opts': {'scale': 0.4}"), "loss_scale");
  expect_refused(CONFIG("'class': 'softmax', 'n_out': 3, 'from': 'data', 'loss_scale': 0.5"), "loss_scale");
  expect_refused(CONFIG(SOFTMAX ", 'loss_opts': {'safe_log_opts': {'epsilon': 1}}"), "epsilon");
  expect_refused(CONFIG(SOFTMAX ", 'loss_opts': {'custom_norm_factor': 1.0, 'custom_inv_norm_factor': 'output'}"),
                 "both");
  expect_refused(CONFIG(LINEAR("None") "'loss': 'sprint', 'loss_opts': {'sprint_opts': {}}"), "not implemented");
  expect_refused(CONFIG(LINEAR("None") "'loss': 'search_scor'"), "search_score");
  expect_refused(
      CONFIG("'class': 'reduce', 'mode': 'mean', 'axes': 'T', 'from': 'data', 'target': 'soft', 'loss': 'mse'"),
      "axes");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ce_values),         cmocka_unit_test(test_ce_bound),
      cmocka_unit_test(test_gradients),         cmocka_unit_test(test_norms),
      cmocka_unit_test(test_lengths),           cmocka_unit_test(test_bad_label),
      cmocka_unit_test(test_loss_layer),        cmocka_unit_test(test_parts),
      cmocka_unit_test(test_refused),           cmocka_unit_test(test_only_on_eval),
      cmocka_unit_test(test_defined_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
