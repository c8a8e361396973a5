/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops: moving layers out never changes values, constraints or gradients; masked layers hold their values; gradients
 * through a thousand steps, in double, against finite differences and against the moved-out form.
 */
#include "loss_net.h"

static const float x1234[] = {1, 2, 3, 4};

/* A window and its sum inside of a loop, moved out and not. */
static void test_window(void **state) {
  (void)state;
  const int32_t len = 4;
  const double x[] = {1, 2, 3, 4}, want[] = {1, 3, 6, 9};
  for (int opt = 0; opt < 2; opt++) {
    char config[1024];
    snprintf(config, sizeof config,
             "{'extern_data': {'data': {'dim': 1}}, 'network': {'output': {'class': 'rec', 'from': 'data', "
             "'optimize_move_layers_out': %s, 'unit': {"
             "'w': {'class': 'window', 'from': 'data:source', 'window_size': 3, 'window_left': 2, 'window_right': 0},"
             "'output': {'class': 'reduce', 'mode': 'sum', 'from': 'w', 'axis': 'stag:window'}}}}}",
             opt ? "True" : "False");
    const feed f = {"data", CRN_F64, 3, {1, 4, 1}, x, &len};
    loss_net n;
    net_open(&n, config, false, &f, 1);
    if (!net_forward(&n)) fail_msg("%s", crn_err_text(&n.err));
    const crn_data *d = crn_exec_value(n.exec, crn_net_find(n.net, "output"));
    assert_non_null(d);
    for (int t = 0; t < 4; t++) assert_float_equal(crn_t_get(d->v, t), want[t], 1e-12);
    net_close(&n);
  }
  (void)x1234;
}

/* L2 of a layer in a loop: coefficient times the sum of squares, once. */
static void test_l2(void **state) {
  (void)state;
  const int32_t len = 3, y[] = {0, 1, 0};
  const double x[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 2};
  for (int opt = 0; opt < 2; opt++) {
    char config[1024];
    snprintf(config, sizeof config,
             "{'extern_data': {'data': {'dim': 2}, 'classes': {'dim': 2, 'sparse': True}}, 'network': {'output': "
             "{'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {"
             "'output': {'class': 'linear', 'from': 'data:source', 'n_out': 1, 'with_bias': False, 'L2': 0.5, "
             "'activation': None}}},"
             "'p': {'class': 'softmax', 'from': 'output', 'target': 'classes', 'loss': 'ce'}}}",
             opt ? "True" : "False");
    const feed f[] = {{"data", CRN_F64, 3, {1, 3, 2}, x, &len}, {"classes", CRN_I32, 2, {1, 3}, y, &len}};
    const int64_t shape[2] = {2, 1};
    loss_net n;
    net_open(&n, config, true, f, 2);
    assert_int_equal(crn_param_set(crn_store_find(n.store, "output/rec/output/W"), CRN_F64, 2, shape, w, &n.err),
                     CRN_OK);
    if (!net_forward(&n)) fail_msg("%s", crn_err_text(&n.err));
    assert_float_equal(n.exec->constraints, 2.5, 1e-12);
    net_close(&n);
  }
}

/* Labels 0,2,0,3,0; mask = label != 0; unit 10·label: [0,22,20,33,30] in either form. */
static void test_masked(void **state) {
  (void)state;
  const int32_t len = 5, x[] = {0, 2, 0, 3, 0};
  const double want[] = {0, 22, 20, 33, 30};
  for (int opt = 0; opt < 2; opt++) {
    char config[1400];
    snprintf(config, sizeof config,
             "{'extern_data': {'data': {'dim': 4, 'sparse': True}}, 'network': {'output': {'class': 'rec', 'from': "
             "'data', 'optimize_move_layers_out': %s, 'unit': {"
             "'m': {'class': 'compare', 'kind': 'not_equal', 'from': 'data:source', 'value': 0},"
             "'f': {'class': 'cast', 'dtype': 'float32', 'from': 'data:source'},"
             "'masked': {'class': 'masked_computation', 'mask': 'm', 'from': 'f', 'unit': {'class': 'eval', 'from': "
             "'data', 'eval': 'source(0) * 10.'}},"
             "'output': {'class': 'combine', 'kind': 'add', 'from': ['masked', 'f']}}}}}",
             opt ? "True" : "False");
    const feed f = {"data", CRN_I32, 2, {1, 5}, x, &len};
    loss_net n;
    net_open(&n, config, false, &f, 1);
    if (!net_forward(&n)) fail_msg("%s", crn_err_text(&n.err));
    const crn_data *d = crn_exec_value(n.exec, crn_net_find(n.net, "output"));
    assert_non_null(d);
    for (int t = 0; t < 5; t++) assert_float_equal(crn_t_get(d->v, t), want[t], 1e-12);
    net_close(&n);
  }
}

enum { STEPS = 1000, DIM = 3 };

static void long_loop(loss_net *n, const feed *f, bool unit_only, bool move) {
  char config[1600];
  snprintf(config, sizeof config,
           unit_only ? "{'extern_data': {'data': {'dim': 3}, 'classes': {'dim': 2, 'sparse': True}}, 'network': {"
                       "'output': {'class': 'rec', 'unit': 'standardlstm', 'n_out': 2, 'from': 'data'},"
                       "'p': {'class': 'softmax', 'from': 'output', 'target': 'classes', 'loss': 'ce'}}}"
                     : "{'extern_data': {'data': {'dim': 3}, 'classes': {'dim': 2, 'sparse': True}}, 'network': {"
                       "'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {"
                       "'s': {'class': 'rnn_cell', 'unit': 'standardlstm', 'n_out': 2, 'from': 'data:source'},"
                       "'output': {'class': 'copy', 'from': 's'}}},"
                       "'p': {'class': 'softmax', 'from': 'output', 'target': 'classes', 'loss': 'ce'}}}",
           move ? "True" : "False");
  net_open(n, config, true, f, 2);
}

static double *long_values(const feed **feeds, int32_t *len, int32_t *labels, double *x, feed f[2]) {
  *len = STEPS;
  for (int t = 0; t < STEPS; t++) {
    labels[t] = t * 7 % 3 % 2;
    for (int d = 0; d < DIM; d++) x[t * DIM + d] = ((23 * (t * DIM + d)) % 17 - 8) / 8.0;
  }
  f[0] = (feed){"data", CRN_F64, 3, {1, STEPS, DIM}, x, len};
  f[1] = (feed){"classes", CRN_I32, 2, {1, STEPS}, labels, len};
  *feeds = f;
  return x;
}

static double objective(loss_net *n) {
  if (!net_forward(n)) fail_msg("%s", crn_err_text(&n->err));
  return crn_t_get(n->exec->objective, 0);
}

static void test_thousand_steps(void **state) {
  (void)state;
  static double x[STEPS * DIM];
  static int32_t labels[STEPS];
  int32_t len;
  feed f[2];
  const feed *feeds;
  long_values(&feeds, &len, labels, x, f);
  double grads[3][64];
  int64_t size = 0;
  for (int form = 0; form < 3; form++) { /* in the loop, moved out, the unit alone */
    loss_net n;
    long_loop(&n, feeds, form == 2, form == 1);
    const char *path = form == 2 ? "output/rec/lstm_cell/kernel" : "output/rec/s/rec/lstm_cell/kernel";
    crn_param *p = crn_store_find(n.store, path);
    assert_non_null(p);
    size = p->size;
    assert_true(size <= 64);
    double w[64];
    for (int i = 0; i < size; i++) w[i] = ((37 * i) % 19 - 9) / 20.0;
    assert_int_equal(crn_param_set(p, CRN_F64, 2, p->spec.shape, w, &n.err), CRN_OK);
    crn_param *o = crn_store_find(n.store, "p/W");
    const double ow[] = {.7, -.3, -.2, .9};
    assert_int_equal(crn_param_set(o, CRN_F64, 2, o->spec.shape, ow, &n.err), CRN_OK);
    (void)objective(&n);
    assert_int_equal(crn_exec_backward(n.exec, &n.err), CRN_OK);
    const double *g = crn_exec_grad(n.exec, p, &n.err);
    assert_non_null(g);
    memcpy(grads[form], g, (size_t)size * sizeof(double));
    for (int i = 0; i < size; i += 7) { /* finite differences of a few entries */
      const double h = 1e-5, keep = w[i];
      double d[2];
      for (int s = 0; s < 2; s++) {
        w[i] = keep + (s ? -h : h);
        assert_int_equal(crn_param_set(p, CRN_F64, 2, p->spec.shape, w, &n.err), CRN_OK);
        d[s] = objective(&n);
      }
      w[i] = keep;
      const double want = (d[0] - d[1]) / (2 * h);
      if (fabs(want - grads[form][i]) > 1e-5 * (1 + fabs(want)))
        fail_msg("form %d, entry %d: gradient %.12g, finite difference %.12g", form, i, grads[form][i], want);
    }
    net_close(&n);
  }
  for (int form = 1; form < 3; form++)
    for (int i = 0; i < size; i++)
      if (fabs(grads[form][i] - grads[0][i]) > 1e-9 * (1 + fabs(grads[0][i])))
        fail_msg("form %d, entry %d: %.15g instead of %.15g", form, i, grads[form][i], grads[0][i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_window), cmocka_unit_test(test_l2),
                                     cmocka_unit_test(test_masked), cmocka_unit_test(test_thousand_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
