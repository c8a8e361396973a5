/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers over windows of sequences (segments.c) and rare re-arrangements (rearrange.c): values and lengths against
 * plain loops, gradients against central differences, what is refused.
 */
#include "loss_net.h"

enum { B = 2, T = 5, F = 3 };

static const double frames[B * T * F] = {0.5, -1.0, 0.3, 0.2,  0.8, -0.4, 1.1, -0.2, 0.6, -0.7,
                                         0.9, 0.1,  0.4, -0.3, 1.2, -0.6, 0.7, 0.5,  1.0, -0.8,
                                         0.2, 0.3,  0.6, -1.1, 9.0, 9.5,  8.0, 9.0,  9.0, 7.0};
static const int32_t lengths[B] = {5, 3};
static const int32_t labels[B * T] = {1, 1, 0, 2, 2, 2, 0, 0, 0, 0};
/* pairs: class, end flag; of 2 and 1 frames */
static const int32_t pairs[B * 4] = {2, 0, 1, 1, 0, 0, 0, 0}, pair_lengths[B] = {4, 2};
static const feed feeds[] = {{"data", CRN_F64, 3, {B, T, F}, frames, lengths},
                             {"classes", CRN_I32, 2, {B, T}, labels, lengths},
                             {"pairs", CRN_I32, 2, {B, 4}, pairs, pair_lengths}};

#define EXTERN                                                                                                         \
  "'extern_data': {'data': {'dim': 3, 'shape': (None, 3)}, 'classes': {'dim': 3, 'sparse': True, "                     \
  "'available_for_inference': True}, 'pairs': {'dim': 3, 'sparse': True, 'available_for_inference': True}}"

static const crn_data *open_layer(loss_net *n, const char *layer) {
  crn_arena a = {0};
  net_open(n, crn_arena_printf(&a, "{" EXTERN ", 'network': {%s}}", layer), false, feeds, 3);
  net_run(n);
  crn_arena_free(&a);
  const crn_data *d = crn_exec_value(n->exec, crn_net_find(n->net, "output"));
  assert_non_null(d);
  return d;
}

static void check_shape(const crn_data *d, int64_t a, int64_t b, int64_t c) {
  assert_int_equal(d->v->rank, 3);
  assert_int_equal(d->v->shape[0], a);
  assert_int_equal(d->v->shape[1], b);
  assert_int_equal(d->v->shape[2], c);
}

static void check_lengths(const crn_data *len, int n, const int32_t *want) {
  assert_non_null(len);
  assert_int_equal(crn_t_size(len->v), n);
  for (int i = 0; i < n; i++) assert_int_equal(crn_t_i32(len->v)[i], want[i]);
}

static double at3(const crn_data *d, int64_t i, int64_t j, int64_t k) {
  return crn_t_get(d->v, (i * d->v->shape[1] + j) * d->v->shape[2] + k);
}

static double frame(int b, int t, int f) { return frames[(b * T + t) * F + f]; }

/* Windows of at most 3: five of sequence 0, three of sequence 1. */
static const int seq[8] = {0, 0, 0, 0, 0, 1, 1, 1}, start[8] = {0, 1, 2, 3, 4, 0, 1, 2};
static const int32_t size[8] = {3, 3, 3, 2, 1, 3, 2, 1};

static void test_segment_input(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layer(&n, "'output': {'class': 'segment_input', 'window': 3, 'from': 'data'}");
  check_shape(d, 8, 3, F);
  check_lengths(d->len[1], 8, size);
  for (int i = 0; i < 8; i++)
    for (int t = 0; t < 3; t++)
      for (int f = 0; f < F; f++) assert_true(at3(d, i, t, f) == frame(seq[i], t < size[i] ? start[i] + t : 0, f));
  net_close(&n);
  d = open_layer(&n, "'tm': {'class': 'swap_axes', 'axis1': 'B', 'axis2': 'T', 'from': 'data'}, 'output': {'class': "
                     "'segment_input', 'window': 3, 'from': 'tm'}");
  check_shape(d, 3, 8, F);
  check_lengths(d->len[0], 8, size);
  for (int i = 0; i < 8; i++) assert_true(at3(d, 2, i, 1) == frame(seq[i], size[i] > 2 ? start[i] + 2 : 0, 1));
  net_close(&n);
}

static void test_unsegment_input(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layer(&n, "'s': {'class': 'segment_input', 'window': 3, 'from': 'data'}, 'output': "
                                     "{'class': 'unsegment_input', 'from': 's'}");
  check_shape(d, B, T, 3 * F);
  check_lengths(d->len[1], B, lengths);
  for (int b = 0; b < B; b++)
    for (int i = 0; i < T; i++)
      for (int t = 0; t < 3; t++)
        for (int f = 0; f < F; f++) {
          const int w = ((b ? 5 : 0) + i - t + 8) % 8; /* the window that began t frames before */
          const double want = i < lengths[b] ? frame(seq[w], t < size[w] ? start[w] + t : 0, f) : 0;
          assert_true(at3(d, b, i, t * F + f) == want);
        }
  net_close(&n);
}

static void test_label_windows(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layer(
      &n, "'output': {'class': 'classes_to_segments', 'window': 3, 'num_classes': 3, 'from': 'data:classes'}");
  check_shape(d, 8, 3, 3);
  check_lengths(d->len[1], 8, size);
  for (int i = 0; i < 8; i++)
    for (int t = 0; t < 3; t++)
      for (int c = 0; c < 3; c++) {
        int count = 0;
        for (int k = 0; k <= t && k < size[i]; k++) count += labels[seq[i] * T + start[i] + k] == c;
        expect_near("value", at3(d, i, t, c), count / (t + 1.0), 1e-12);
      }
  net_close(&n);
  d = open_layer(&n, "'output': {'class': 'classes_to_length_distribution', 'window': 3, 'from': 'data:classes'}");
  /* 1 1 0 | 1 0 2 | 0 2 2 | 2 2 | 2 and 2 0 0 | 0 0 | 0 */
  static const double third = 1.0 / 3;
  const double runs[8][3] = {{0, 2 * third, third},
                             {third, third, third},
                             {third, 0, 2 * third},
                             {0, 1, 0},
                             {1, 0, 0},
                             {third, 0, 2 * third},
                             {0, 1, 0},
                             {1, 0, 0}};
  check_shape(d, 8, 1, 3);
  for (int i = 0; i < 8; i++)
    for (int t = 0; t < 3; t++) expect_near("value", at3(d, i, 0, t), runs[i][t], 1e-12);
  net_close(&n);
}

/* Ends of runs in the array: frames 1, 2, 4 of sequence 0; 0 and 4 of sequence 1 (its padding goes on with label 0). */
static void test_global_lengths(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layer(&n, "'output': {'class': 'classes_to_length_distribution_global', 'window': 3, "
                                     "'weight_falloff': 0.75, 'from': 'data:classes'}");
  const double want[8][3] = {{0, .75, .25 * .75 + 1e-4}, {.75, .1875, 1e-4}, {.75, 0, .1875 + 1e-4}, {0, .75 + 1e-4, 0},
                             {.75 + 1e-4, 0, 0},         {.75, 0, 1e-4},     {0, 1e-4, 0},           {1e-4, 0, 0}};
  check_shape(d, 8, 1, 3);
  for (int i = 0; i < 8; i++)
    for (int t = 0; t < 3; t++)
      expect_near("value", at3(d, i, 0, t), want[i][t] / (want[i][0] + want[i][1] + want[i][2]), 1e-12);
  net_close(&n);
  d = open_layer(&n, "'output': {'class': 'classes_to_length_distribution_global', 'window': 3, 'min_length': 2, "
                     "'broadcast_axis': 'feature', 'target_smoothing': [1, 2, 1], 'from': 'data:classes'}");
  check_shape(d, 8, 3, 1);
  /* window 0: all on frame 1 and 1e-4 on frame 2; rows of the band matrix: (2 1)/3, (1 2 1)/4, (1 2)/3 */
  const double sum = 1 + 1e-4, a = 1 / sum, b = 1e-4 / sum;
  expect_near("value", at3(d, 0, 0, 0), a / 4, 1e-12);
  expect_near("value", at3(d, 0, 1, 0), a / 2 + b / 3, 1e-12);
  expect_near("value", at3(d, 0, 2, 0), a / 4 + b * 2 / 3, 1e-12);
  /* window 2 (0 2 2): its first end, of length 1, is too short; only 1e-4 at its last frame is left */
  expect_near("value", at3(d, 2, 2, 0), 2.0 / 3, 1e-12);
  expect_near("value", at3(d, 2, 1, 0), 1.0 / 3, 1e-12);
  net_close(&n);
}

static void test_alignment(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d =
      open_layer(&n, "'output': {'class': 'segment_alignment', 'window': 2, 'num_classes': 3, 'from': 'data:pairs'}");
  check_shape(d, 3, 2, 3);
  static const int32_t twice[3] = {2, 2, 2};
  check_lengths(d->len[1], 3, twice);
  /* windows: (2, no end) (1, end) | (1, end) | (0, no end) */
  const double want[3][2][3] = {{{0, 0, 0}, {0, 1, 0}}, {{0, 1, 0}, {0, 0, 0}}, {{1, 0, 0}, {0, 0, 0}}};
  for (int i = 0; i < 3; i++)
    for (int t = 0; t < 2; t++)
      for (int c = 0; c < 3; c++) expect_near("value", at3(d, i, t, c), want[i][t][c], 1e-12);
  net_close(&n);
}

#define LENGTH_MODEL                                                                                                   \
  "'s': {'class': 'segment_input', 'window': 3, 'from': 'data'}, 'p': {'class': "                                      \
  "'classes_to_length_distribution_global', 'window': 3, 'weight_falloff': 0.5, 'from': 'data:classes', "              \
  "'is_output_layer': True}, "

static void test_apply(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layer(&n, LENGTH_MODEL "'output': {'class': 'apply_length_distribution', "
                                                  "'length_model_scale': 2, 'from': ['s', 'p']}");
  const crn_data *p = crn_exec_value(n.exec, crn_net_find(n.net, "p"));
  check_shape(d, 8, 3, F);
  for (int i = 0; i < 8; i++)
    for (int t = 0; t < 3; t++)
      for (int f = 0; f < F; f++)
        expect_near("value", at3(d, i, t, f),
                    frame(seq[i], t < size[i] ? start[i] + t : 0, f) * pow(at3(p, i, 0, t), 2), 1e-12);
  net_close(&n);
}

/* ---- re-arrangements --------------------------------------------------------------------------------------------- */

static void test_swap_and_flatten(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layer(&n, "'output': {'class': 'swap_time_feature', 'from': 'data'}");
  check_shape(d, B, F, T);
  assert_int_equal(d->t.time_axis, 1);
  assert_int_equal(d->t.feature_axis, 2);
  for (int i = 0; i < B * T * F; i++) assert_true(at3(d, i / (T * F), i % F, i / F % T) == frames[i]);
  net_close(&n);
  d = open_layer(&n, "'tm': {'class': 'swap_axes', 'axis1': 'B', 'axis2': 'T', 'from': 'data'}, 'output': {'class': "
                     "'flatten_time', 'from': 'tm'}");
  check_shape(d, B, 1, T * F);
  assert_int_equal(d->t.time_axis, 1);
  for (int i = 0; i < B * T * F; i++) assert_true(crn_t_get(d->v, i) == frames[i]);
  net_close(&n);
}

static void test_batch_softmax(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layer(&n, "'output': {'class': 'batch_softmax', 'from': 'data'}");
  check_lengths(d->len[1], B, lengths);
  for (int b = 0; b < B; b++) {
    double sum = 0;
    for (int i = 0; i < lengths[b] * F; i++) sum += exp(frames[b * T * F + i]);
    for (int i = 0; i < T * F; i++)
      expect_near("value", crn_t_get(d->v, b * T * F + i), i < lengths[b] * F ? exp(frames[b * T * F + i]) / sum : 0,
                  1e-12);
  }
  net_close(&n);
}

static void test_remove(void **state) {
  (void)state;
  static const char *const symbols[] = {"0", "-3"};
  for (int k = 0; k < 2; k++) {
    loss_net n;
    char layer[200];
    (void)snprintf(layer, sizeof layer, "'output': {'class': 'remove', 'symbol': %s, 'from': 'data:classes'}",
                   symbols[k]);
    const crn_data *d = open_layer(&n, layer);
    static const int32_t want[B * 4] = {1, 1, 2, 2, 2, 0, 0, 0}, left[B] = {4, 1};
    assert_int_equal(d->v->rank, 2);
    assert_int_equal(d->v->shape[1], 4);
    check_lengths(d->len[1], B, left);
    for (int i = 0; i < B * 4; i++) assert_int_equal(crn_t_i32(d->v)[i], want[i]);
    net_close(&n);
  }
}

static void test_channels_and_medians(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d =
      open_layer(&n, "'output': {'class': 'split_concatenated_multichannel', 'nr_of_channels': 3, 'from': 'data'}");
  static const int32_t want[6] = {5, 5, 5, 3, 3, 3};
  check_shape(d, 6, T, 1);
  check_lengths(d->len[1], 6, want);
  for (int b = 0; b < B; b++)
    for (int c = 0; c < 3; c++)
      for (int t = 0; t < T; t++) assert_true(at3(d, b * 3 + c, t, 0) == frame(b, t, c));
  net_close(&n);
  d = open_layer(&n, "'c': {'class': 'split_concatenated_multichannel', 'nr_of_channels': 3, 'from': 'data'}, "
                     "'output': {'class': 'batch_median_pooling', 'pool_size': 3, 'from': 'c'}");
  check_shape(d, B, T, 1);
  check_lengths(d->len[1], B, lengths);
  for (int b = 0; b < B; b++)
    for (int t = 0; t < T; t++) {
      const double x = frame(b, t, 0), y = frame(b, t, 1), z = frame(b, t, 2);
      assert_true(at3(d, b, t, 0) == fmax(fmin(x, y), fmin(fmax(x, y), z)));
    }
  net_close(&n);
  d = open_layer(&n, "'output': {'class': 'batch_median_pooling', 'pool_size': 2, 'from': 'data'}");
  check_shape(d, 1, T, F); /* the larger one of two */
  for (int i = 0; i < T * F; i++) assert_true(crn_t_get(d->v, i) == fmax(frames[i], frames[T * F + i]));
  net_close(&n);
}

/* ---- gradients, refusals ----------------------------------------------------------------------------------------- */

static void test_gradients(void **state) {
  (void)state;
  static const char *const layers[] = {
      "'x': {'class': 'segment_input', 'window': 3, 'from': 'h'}",
      "'s': {'class': 'segment_input', 'window': 3, 'from': 'h'}, 'x': {'class': 'unsegment_input', 'from': 's'}",
      "'s': {'class': 'segment_input', 'window': 3, 'from': 'h'}, 'p': {'class': "
      "'classes_to_length_distribution_global', "
      "'window': 3, 'from': 'data:classes'}, 'x': {'class': 'apply_length_distribution', 'from': ['s', 'p'], "
      "'length_model_scale': 0.5}",
      "'x': {'class': 'swap_time_feature', 'from': 'h'}",
      "'x': {'class': 'flatten_time', 'from': 'h'}",
      "'x': {'class': 'batch_softmax', 'from': 'h'}",
      "'x': {'class': 'split_concatenated_multichannel', 'nr_of_channels': 2, 'from': 'h'}",
      "'x': {'class': 'batch_median_pooling', 'pool_size': 2, 'from': 'h'}",
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    crn_arena a = {0};
    loss_net n;
    net_open(&n,
             crn_arena_printf(&a,
                              "{" EXTERN ", 'network': {'h': {'class': 'linear', 'activation': 'tanh', 'n_out': 4, "
                              "'from': 'data'}, %s, 'output': {'class': 'eval', 'eval': 'source(0) * source(0) + 0.3 * "
                              "source(0)', 'from': 'x', 'loss': 'as_is'}}}",
                              layers[i]),
             true, feeds, 3);
    print_message("%s\n", layers[i]);
    net_check_gradients(&n, 2e-5);
    net_close(&n);
    crn_arena_free(&a);
  }
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{'class': 'segment_input', 'from': 'data'}", "window"},
      {"{'class': 'segment_input', 'window': 3, 'from': 'data:classes'}", "dense"},
      {"{'class': 'unsegment_input', 'from': 'data'}", "segment_input"},
      {"{'class': 'classes_to_segments', 'window': 3, 'from': 'data:classes'}", "num_classes"},
      {"{'class': 'classes_to_length_distribution', 'window': 3, 'from': 'data'}", "sparse"},
      {"{'class': 'classes_to_length_distribution_global', 'window': 3, 'target_smoothing': [1, 2], 'from': "
       "'data:classes'}",
       "odd"},
      {"{'class': 'classes_to_length_distribution_global', 'window': 3, 'target_smoothing': [1, 2, 3], 'from': "
       "'data:classes'}",
       "symmetric"},
      {"{'class': 'apply_length_distribution', 'from': 'data'}", "two sources"},
      {"{'class': 'split_concatenated_multichannel', 'nr_of_channels': 2, 'from': 'data'}", "nr_of_channels"},
      {"{'class': 'batch_median_pooling', 'from': 'data'}", "pool_size"},
      {"{'class': 'remove', 'from': 'data:classes'}", "symbol"},
      {"{'class': 'remove', 'symbol': 1, 'from': 'data'}", "sparse"},
      {"{'class': 'swap_time_feature', 'from': 'data:classes'}", "dense"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    crn_arena a = {0};
    expect_refused(crn_arena_printf(&a, "{" EXTERN ", 'network': {'output': %s}}", cases[i][0]), cases[i][1]);
    crn_arena_free(&a);
  }
  loss_net n;
  net_open(&n, "{" EXTERN ", 'network': {'output': {'class': 'batch_median_pooling', 'pool_size': 3, 'from': 'data'}}}",
           false, feeds, 3);
  assert_false(net_forward(&n));
  assert_non_null(strstr(crn_err_text(&n.err), "pool_size"));
  net_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_segment_input),    cmocka_unit_test(test_unsegment_input),
      cmocka_unit_test(test_label_windows),    cmocka_unit_test(test_global_lengths),
      cmocka_unit_test(test_alignment),        cmocka_unit_test(test_apply),
      cmocka_unit_test(test_swap_and_flatten), cmocka_unit_test(test_batch_softmax),
      cmocka_unit_test(test_remove),           cmocka_unit_test(test_channels_and_medians),
      cmocka_unit_test(test_gradients),        cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
