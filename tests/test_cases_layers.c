/* SPDX-License-Identifier: Apache-2.0
 *
 * Small cases of layers on padded batches, worked out on paper: reductions, products, broadcasting, reshaping,
 * attention weights and strided convolution never see padding.
 */
#include "loss_net.h"

/* Two sequences [1,2],[3,4],[5,6] and [7,8] with large padding. */
static const int32_t x_len[] = {3, 1};
static const double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 100, 100, 100, 100};
static const feed x_feed = {"data", CRN_F64, 3, {2, 3, 2}, x, x_len};

#define DATA "{'extern_data': {'data': {'dim': 2}}, 'network': {"

static const crn_data *value(loss_net *n, const char *layer) {
  const crn_data *d = crn_exec_value(n->exec, crn_net_find(n->net, layer));
  assert_non_null(d);
  return d;
}

static void expect(loss_net *n, const char *layer, int count, const double *want) {
  const crn_data *d = value(n, layer);
  assert_int_equal(crn_t_size(d->v), count);
  for (int i = 0; i < count; i++)
    if (!(fabs(crn_t_get(d->v, i) - want[i]) <= 1e-5))
      fail_msg("%s[%d] = %.9g instead of %.9g", layer, i, crn_t_get(d->v, i), want[i]);
}

static void test_reduce(void **state) {
  (void)state;
  static const char *const modes[] = {"mean", "sum", "max", "min", "logsumexp"};
  static const double want[][4] = {{3, 4, 7, 8}, {9, 12, 7, 8}, {5, 6, 7, 8}, {1, 2, 7, 8}, {5.142931, 6.142931, 7, 8}};
  for (int i = 0; i < 5; i++) {
    char config[400];
    snprintf(config, sizeof config,
             DATA "'output': {'class': 'reduce', 'mode': '%s', 'axis': 'T', 'from': 'data'},"
                  "'all': {'class': 'reduce', 'mode': 'mean', 'axis': ['B', 'T', 'F'], 'from': 'data',"
                  " 'is_output_layer': True}}}",
             modes[i]);
    loss_net n;
    net_open(&n, config, false, &x_feed, 1);
    net_run(&n);
    expect(&n, "output", 4, want[i]);
    expect(&n, "all", 1, (const double[]){4.5});
    net_close(&n);
  }
}

static void test_dot(void **state) {
  (void)state;
  for (int version = 0; version <= 12; version += 12) {
    char config[400];
    snprintf(config, sizeof config,
             "{'behavior_version': %d, 'extern_data': {'data': {'dim': 2}}, 'network': {'output': {'class': 'dot', "
             "'from': ['data', 'data'], 'red1': 'T', 'red2': 'T', 'var1': 'F', 'var2': 'F'}}}",
             version);
    loss_net n;
    net_open(&n, config, false, &x_feed, 1);
    net_run(&n);
    expect(&n, "output", 8, (const double[]){35, 44, 44, 56, 49, 56, 56, 64});
    net_close(&n);
  }
}

/* Two time axes: united with a warning, from version 4 refused. */
static void test_broadcast(void **state) {
  (void)state;
  static const double b[] = {10, 20, 30, 40, 50, 60, 70, 80};
  static const int32_t b_len[] = {2, 2};
  const feed feeds[] = {{"data", CRN_F64, 3, {2, 3, 2}, x, x_len}, {"b", CRN_F64, 3, {2, 2, 2}, b, b_len}};
  static const char *const form = "{'behavior_version': %d, 'extern_data': {'data': {'dim': 2}, 'b': {'dim': 2}}, "
                                  "'network': {'output': {'class': 'combine', 'kind': 'add', 'from': ['data', "
                                  "'data:b']}}}";
  char config[400];
  loss_net n;
  snprintf(config, sizeof config, form, 0);
  net_open(&n, config, false, feeds, 2);
  net_run(&n);
  const crn_data *d = value(&n, "output");
  assert_int_equal(d->v->rank, 4);
  assert_int_equal(d->v->shape[1], 3);
  assert_int_equal(d->v->shape[2], 2);
  assert_float_equal(crn_t_get(d->v, 2), 1 + 30, 1e-12); /* frame 0 of one, frame 1 of the other */
  net_close(&n);
  snprintf(config, sizeof config, form, 12);
  assert_false(net_try(&n, config, false));
  static const char *const named[] = {"'data:data'", "'data:b'", "out_shape", "broadcast"};
  for (int i = 0; i < 4; i++)
    if (!strstr(crn_err_text(&n.err), named[i])) fail_msg("no %s in: %s", named[i], crn_err_text(&n.err));
  net_close(&n);
}

/* Frames merged with the batch come back as they were; packed ones with zeros as padding. */
static void test_reshape(void **state) {
  (void)state;
  loss_net n;
  net_open(&n,
           DATA "'s': {'class': 'split_dims', 'axis': 'F', 'dims': (-1, 1), 'from': 'data', 'is_output_layer': True},"
                "'m': {'class': 'merge_dims', 'axes': 'BT', 'from': 'data'},"
                "'back': {'class': 'split_batch_time', 'base': 'data', 'from': 'm', 'is_output_layer': True},"
                "'f': {'class': 'flatten_batch', 'from': 'data'},"
                "'output': {'class': 'unflatten_batch', 'from': 'f'}}}",
           false, &x_feed, 1);
  net_run(&n);
  const crn_data *s = value(&n, "s");
  assert_int_equal(s->v->rank, 4);
  assert_int_equal(s->t.feature_axis, 3);
  expect(&n, "m", 12, x);
  expect(&n, "back", 12, x);
  expect(&n, "f", 8, x);
  expect(&n, "output", 12, (const double[]){1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0});
  net_close(&n);
}

static void test_attention(void **state) {
  (void)state;
  loss_net n;
  net_open(&n,
           DATA "'v': {'class': 'eval', 'from': 'data', 'eval': 'source(0) * 0.1'},"
                "'e': {'class': 'reduce', 'mode': 'sum', 'axis': 'F', 'keep_dims': True, 'from': 'v'},"
                "'w': {'class': 'softmax_over_spatial', 'from': 'e'},"
                "'output': {'class': 'generic_attention', 'weights': 'w', 'base': 'v'}}}",
           false, &x_feed, 1);
  net_run(&n);
  expect(&n, "w", 6, (const double[]){.211983, .316241, .471776, 1, 0, 0});
  expect(&n, "output", 4, (const double[]){.351959, .451959, .7, .8});
  net_close(&n);
}

/* These read padding, as the original does. */
/* cumsum and norm read padding as the original does; with mask_padding they don't. */
static void test_known_to_read_padding(void **state) {
  (void)state;
  loss_net n;
  net_open(&n,
           DATA "'output': {'class': 'cumsum', 'axis': 'T', 'reverse': True, 'from': 'data'},"
                "'n': {'class': 'norm', 'axis': ['T', 'F'], 'scale': False, 'bias': False, 'from': 'data', "
                "'is_output_layer': True}}}",
           false, &x_feed, 1);
  net_run(&n);
  expect(&n, "output", 12, (const double[]){9, 12, 8, 10, 5, 6, 207, 208, 200, 200, 100, 100});
  const crn_data *d = value(&n, "n");
  static const double want[] = {-1.46385, -.87831, -1.42565, -1.40272};
  for (int i = 0; i < 4; i++) assert_float_equal(crn_t_get(d->v, i < 2 ? i : i + 4), want[i], 1e-4);
  net_close(&n);
}

static void test_mask_padding(void **state) {
  (void)state;
  loss_net n;
  net_open(&n,
           "{'mask_padding': True, 'extern_data': {'data': {'dim': 2}}, 'network': {"
           "'output': {'class': 'cumsum', 'axis': 'T', 'reverse': True, 'from': 'data'},"
           "'n': {'class': 'norm', 'axis': ['T', 'F'], 'scale': False, 'bias': False, 'from': 'data', "
           "'is_output_layer': True}}}",
           false, &x_feed, 1);
  net_run(&n);
  expect(&n, "output", 12, (const double[]){9, 12, 8, 10, 5, 6, 7, 8, 0, 0, 0, 0});
  const crn_data *d = value(&n, "n");
  const double e = .5 / sqrt(.25 + 1e-6); /* 7 and 8 around their mean */
  const double want[] = {-1.46385, -.87831, -e, e};
  for (int i = 0; i < 4; i++) assert_float_equal(crn_t_get(d->v, i < 2 ? i : i + 4), want[i], 1e-4);
  net_close(&n);
}

/* conv of 3 ones, stride 2: what frames see depends on the batch but for same_static with use_time_mask. */
static void test_strided_conv(void **state) {
  (void)state;
  static const double alone[] = {1, 2, 3, 4}, both[] = {1, 2, 3, 4, 9, 1, 1, 1, 1, 1};
  static const int32_t l1[] = {4}, l2[] = {4, 5};
  const feed feeds[] = {{"data", CRN_F64, 3, {1, 4, 1}, alone, l1}, {"data", CRN_F64, 3, {2, 5, 1}, both, l2}};
  static const struct {
    const char *padding, *mask;
    double alone[2], b0[2], b1[3];
  } cases[] = {{"same", "False", {6, 7}, {3, 9}, {2, 3, 2}},
               {"same", "True", {6, 7}, {3, 9}, {2, 3, 2}},
               {"same_static", "False", {6, 7}, {6, 16}, {3, 3, 1}},
               {"same_static", "True", {6, 7}, {6, 7}, {3, 3, 1}}};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 2; k++) {
      char config[400];
      snprintf(config, sizeof config,
               "{'extern_data': {'data': {'dim': 1}}, 'network': {'output': {'class': 'conv', 'filter_size': (3,), "
               "'strides': 2, 'padding': '%s', 'use_time_mask': %s, 'n_out': 1, 'with_bias': False, "
               "'forward_weights_init': 1, 'from': 'data'}}}",
               cases[i].padding, cases[i].mask);
      loss_net n;
      net_open(&n, config, false, &feeds[k], 1);
      net_run(&n);
      const crn_data *d = value(&n, "output");
      assert_int_equal(crn_t_get(d->len[1]->v, 0), 2);
      for (int t = 0; t < 2; t++)
        assert_float_equal(crn_t_get(d->v, t), (float)(k ? cases[i].b0[t] : cases[i].alone[t]), 1e-9);
      if (k) assert_int_equal(crn_t_get(d->len[1]->v, 1), 3);
      for (int t = 0; k && t < 3; t++) assert_float_equal(crn_t_get(d->v, 3 + t), cases[i].b1[t], 1e-9);
      net_close(&n);
    }
}

/* Input as [B, F, T] gives output as [B, F, T], with the values of [B, T, F]. */
static void test_feature_major_conv(void **state) {
  (void)state;
#define CONV "{'class': 'conv', 'filter_size': (3,), 'padding': 'same', 'n_out': 3, 'forward_weights_init': 0.5, "
  loss_net n;
  net_open(&n,
           DATA "'t': {'class': 'transpose', 'perm': {'T': 'F', 'F': 'T'}, 'from': 'data'},"
                "'a': " CONV "'from': 't', 'is_output_layer': True},"
                "'output': " CONV "'from': 'data'}}}",
           false, &x_feed, 1);
  net_run(&n);
  const crn_data *a = value(&n, "a"), *b = value(&n, "output");
  assert_int_equal(a->t.feature_axis, 1);
  assert_int_equal(a->v->shape[1], 3);
  assert_int_equal(a->v->shape[2], 3);
  assert_non_null(a->len[2]);
  assert_null(a->len[1]);
  for (int t = 0; t < 3; t++)
    for (int f = 0; f < 3; f++) assert_float_equal(crn_t_get(a->v, f * 3 + t), crn_t_get(b->v, t * 3 + f), 1e-12);
  net_close(&n);
}

enum { CHAIN = 100000 };

/* Construction walks with its own stack: depth costs memory, not the thread's stack. */
static void test_long_chain(void **state) {
  (void)state;
  crn_str s = {0};
  crn_str_add(&s, "{'extern_data': {'data': {'dim': 2}}, 'network': {");
  for (int i = 0; i < CHAIN; i++) {
    if (i)
      crn_str_addf(&s, "'l%d': {'class': 'copy', 'from': 'l%d'},", i, i - 1);
    else
      crn_str_add(&s, "'l0': {'class': 'copy', 'from': 'data'},");
  }
  crn_str_addf(&s, "'output': {'class': 'copy', 'from': 'l%d'}}}", CHAIN - 1);
  loss_net n;
  net_open(&n, crn_str_get(&s), false, &x_feed, 1);
  crn_str_free(&s);
  net_run(&n);
  expect(&n, "output", 12, x);
  net_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reduce),
                                     cmocka_unit_test(test_dot),
                                     cmocka_unit_test(test_broadcast),
                                     cmocka_unit_test(test_reshape),
                                     cmocka_unit_test(test_attention),
                                     cmocka_unit_test(test_known_to_read_padding),
                                     cmocka_unit_test(test_mask_padding),
                                     cmocka_unit_test(test_strided_conv),
                                     cmocka_unit_test(test_feature_major_conv),
                                     cmocka_unit_test(test_long_chain)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
