/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that convolve, normalise, cut, join and sample: gradients against central differences in double for every
 * class and its main variants, values and lengths that can be worked out by hand, refused options.
 */
#include "loss_net.h"

static const double frames[2 * 5 * 3] = {0.5, -1.0, 0.3, 0.2,  0.8, -0.4, 1.1, -0.2, 0.6, -0.7,
                                         0.9, 0.1,  0.4, -0.3, 1.2, -0.6, 0.7, 0.5,  1.0, -0.8,
                                         0.2, 0.3,  0.6, -1.1, 0.0, 0.0,  0.0, 0.0,  0.0, 0.0};
static const int32_t lengths[2] = {5, 3};
static const int32_t starts[2] = {1, 0};
static const feed feeds[] = {{"data", CRN_F64, 3, {2, 5, 3}, frames, lengths},
                             {"start", CRN_I32, 1, {2}, starts, NULL}};

#define EXTERN                                                                                                         \
  "'extern_data': {'data': {'dim': 3, 'shape': (None, 3)},"                                                            \
  " 'start': {'shape': (), 'sparse': True, 'dim': 9, 'dtype': 'int32'}}"

/* The layer x under test between a linear layer and a squared output. */
static const char *config_of(crn_arena *a, const char *x) {
  return crn_arena_printf(a,
                          "{" EXTERN
                          ", 'network': {'h': {'class': 'linear', 'activation': 'tanh', 'n_out': 4, 'from': 'data'},"
                          " 'g': {'class': 'linear', 'activation': 'sigmoid', 'n_out': 4, 'from': 'data'},"
                          " 'x': %s, 'output': {'class': 'eval', 'eval': 'source(0) * source(0) + 0.3 * source(0)', "
                          "'from': 'x', 'loss': 'as_is'}}}",
                          x);
}

static void test_gradients(void **state) {
  (void)state;
  static const char *const layers[] = {
      "{'class': 'conv', 'from': 'h', 'n_out': 3, 'filter_size': (3,), 'padding': 'same', 'strides': 2, 'with_bias': "
      "True, 'activation': 'tanh'}",
      "{'class': 'conv', 'from': 'h', 'n_out': 4, 'filter_size': (2,), 'padding': 'valid', 'dilation_rate': 2, "
      "'groups': 2}",
      "{'class': 'conv', 'from': 'h', 'n_out': 2, 'filter_size': (3, 2), 'padding': 'same', 'input_add_feature_dim': "
      "True, 'use_time_mask': True}",
      "{'class': 'conv', 'from': 'h', 'n_out': 2, 'filter_size': (3,), 'padding': 1, 'with_bias': True}",
      "{'class': 'conv', 'from': 'h', 'n_out': 2, 'filter_size': (3,), 'padding': 'same_static', 'strides': 2}",
      "{'class': 'transposed_conv', 'from': 'h', 'n_out': 2, 'filter_size': [3], 'strides': [2], 'activation': 'tanh'}",
      "{'class': 'transposed_conv', 'from': 'h', 'n_out': 2, 'filter_size': [4], 'strides': [2], 'padding': 'valid', "
      "'remove_padding': 1}",
      "{'class': 'pool', 'from': 'h', 'mode': 'avg', 'pool_size': (2,), 'padding': 'same'}",
      "{'class': 'pool', 'from': 'h', 'mode': 'max', 'pool_size': (3,), 'padding': 'same', 'strides': 1}",
      "{'class': 'pool', 'from': 'h', 'mode': 'avg', 'pool_size': (3,), 'padding': 1, 'strides': 2}",
      "{'class': 'layer_norm', 'from': 'h'}",
      "{'class': 'norm', 'from': 'h', 'axes': 'TF'}",
      "{'class': 'math_norm', 'from': 'h', 'p': 3, 'axis': 'F'}",
      "{'class': 'math_norm', 'from': 'h', 'p': 2, 'axis': 'T'}",
      "{'class': 'batch_norm', 'from': 'h', 'param_version': 1, 'momentum': 0.2, 'delay_sample_update': True}",
      "{'class': 'batch_norm', 'from': 'h', 'masked_time': False, 'param_version': 2}",
      "{'class': 'linear', 'from': 'h', 'n_out': 3, 'activation': 'tanh', 'batch_norm': {'use_sample': 0.3, "
      "'delay_sample_update': True}}",
      "{'class': 'window', 'from': 'h', 'window_size': 3}",
      "{'class': 'window', 'from': 'h', 'window_size': 4, 'window_left': 3, 'stride': 2}",
      "{'class': 'cumsum', 'from': 'h'}",
      "{'class': 'cumsum', 'from': 'h', 'axis': 'F', 'reverse': True}",
      "{'class': 'shift_axis', 'from': 'h', 'axis': 'T', 'amount': -1}",
      "{'class': 'shift_axis', 'from': 'h', 'axis': 'T', 'amount': 2, 'pad': False}",
      "{'class': 'pad', 'from': 'h', 'axes': ['T', 'F'], 'padding': [(1, 2), (0, 1)], 'value': 0.7, "
      "'handle_dynamic_dims': True}",
      "{'class': 'pad', 'from': 'h', 'axes': 'T', 'padding': (1, 1), 'mode': 'reflect'}",
      "{'class': 'prefix_in_time', 'from': 'h', 'prefix': 0.2, 'repeat': 2}",
      "{'class': 'prefix_in_time', 'from': 'h', 'prefix': 0.2, 'repeat': 'data:start'}",
      "{'class': 'postfix_in_time', 'from': 'h', 'postfix': 0.4, 'repeat': 2}",
      "{'class': 'slice', 'from': 'h', 'axis': 'T', 'slice_start': 1, 'slice_step': 2}",
      "{'class': 'slice', 'from': 'h', 'axis': 'F', 'slice_step': -1}",
      "{'class': 'slice', 'from': 'h', 'axis': 'F', 'slice_start': 2, 'slice_step': -2}",
      "{'class': 'slice', 'from': 'h', 'axis': 'T', 'slice_end': 1, 'slice_step': -2}",
      "{'class': 'slice_nd', 'from': 'h', 'start': 'data:start', 'size': 2}",
      "{'class': 'slice_nd', 'from': 'h', 'start': 'data:start', 'size': None, 'min_size': 1}",
      "{'class': 'slice_nd', 'from': 'h', 'start': 1, 'size': None}",
      "{'class': 'concat', 'from': [('h', 'T'), ('g', 'T')]}",
      "{'class': 'concat', 'from': [('h', 'F'), ('g', 'F')]}",
      "{'class': 'stack', 'from': ['h', 'g']}",
      "{'class': 'tile', 'from': 'h', 'multiples': {'F': 3}}",
      "{'class': 'repeat', 'from': 'h', 'axis': 'T', 'repetitions': 2}",
      "{'class': 'resize', 'from': 'h', 'axis': 'T', 'factor': 1.5, 'kind': 'linear'}",
      "{'class': 'resize', 'from': 'h', 'axis': 'T', 'factor': 2, 'kind': 'cubic'}",
      "{'class': 'resize', 'from': 'h', 'axis': 'F', 'factor': 2, 'kind': 'fill', 'fill_value': 0.5}",
      "{'class': 'gating', 'from': 'h', 'activation': 'tanh'}",
      "{'class': 'gating', 'from': ['h', 'g'], 'activation': None, 'gate_activation': 'sigmoid'}",
      "{'class': 'elemwise_prod', 'from': 'h', 'axes': 'F'}",
      "{'class': 'weighted_sum', 'from': 'h', 'axes': 'F', 'size': [3], 'padding': 'same'}",
      "{'class': 'transpose', 'from': 'h', 'perm': ['F', 'T', 'B']}",
      "{'class': 'seq_len_mask', 'from': 'h', 'mask_value': 0.1, 'window_start': 'data:start', 'window_size': 2}",
      "{'class': 'complex_linear_projection', 'from': 'h', 'nr_of_filters': 2}",
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    crn_arena a = {0};
    loss_net n;
    print_message("%s\n", layers[i]);
    net_open(&n, config_of(&a, layers[i]), true, feeds, 2);
    net_check_gradients(&n, 2e-5);
    net_close(&n);
    crn_arena_free(&a);
  }
}

/* The transform and its gradient against the sums they stand for. */
static void test_stft(void **state) {
  (void)state;
  enum { T = 7, C = 2, SIZE = 3, FFT = 4, SHIFT = 2, N = 3, BINS = FFT / 2 + 1 };
  static const double window[SIZE] = {0.5, 1.0, 0.25};
  loss_net n;
  double x[T * C], want[T * C] = {0};
  float seed[N * C * BINS];
  const int64_t shape[3] = {1, T, C};
  net_open(&n, "{" EXTERN ", 'network': {'output': {'class': 'linear', 'n_out': 1, 'from': 'data', 'loss': 'as_is'}}}",
           true, feeds, 2);
  net_run(&n);
  crn_run *r = &n.exec->run;
  for (int i = 0; i < T * C; i++) x[i] = sin(1.0 + 2.3 * i);
  for (int i = 0; i < N * C * BINS; i++) seed[i] = (float)cos(0.7 * i);
  crn_storage st = {.data = x, .bytes = sizeof x, .borrowed = true};
  crn_tensor *y = crn_stft(r, crn_t_over(r, &st, CRN_F64, 3, shape, true), window, SIZE, FFT, SHIFT, N);
  assert_non_null(y);
  assert_int_equal(crn_backward(r, crn_unary(r, CRN_U_ABS, y), seed), CRN_OK);
  for (int f = 0; f < N; f++)
    for (int c = 0; c < C; c++)
      for (int k = 0; k < BINS; k++) {
        const int at = (f * C + c) * BINS + k;
        double re = 0, im = 0;
        for (int i = 0; i < SIZE; i++) {
          const double angle = 2 * 3.14159265358979323846 * k * i / FFT, v = x[(f * SHIFT + i) * C + c] * window[i];
          re += v * cos(angle);
          im -= v * sin(angle);
        }
        for (int i = 0; i < SIZE; i++) { /* of the magnitude */
          const double angle = 2 * 3.14159265358979323846 * k * i / FFT, g = (double)seed[at] / sqrt(re * re + im * im);
          want[(f * SHIFT + i) * C + c] += window[i] * g * (re * cos(angle) - im * sin(angle));
        }
        expect_near("re", (double)crn_t_f32(y)[2 * at], re, 1e-6);
        expect_near("im", (double)crn_t_f32(y)[2 * at + 1], im, 1e-6);
      }
  for (int i = 0; i < T * C; i++) expect_near("gradient", ((double *)st.grad)[i], want[i], 1e-5);
  net_close(&n);
}

typedef struct expected {
  const char *layer;
  int rank;
  int64_t shape[4];
  int len_axis;
  int32_t len[2];
} expected;

/* Shapes and lengths by the formulas of the reference. */
static void test_sizes(void **state) {
  (void)state;
  static const expected cases[] = {
      {"{'class': 'conv', 'from': 'data', 'n_out': 2, 'filter_size': (3,), 'padding': 'valid'}",
       3,
       {2, 3, 2},
       1,
       {3, 1}},
      {"{'class': 'conv', 'from': 'data', 'n_out': 2, 'filter_size': (4,), 'padding': 'valid'}",
       3,
       {2, 2, 2},
       1,
       {2, 0}},
      {"{'class': 'conv', 'from': 'data', 'n_out': 2, 'filter_size': (3,), 'padding': 'same', 'strides': 2}",
       3,
       {2, 3, 2},
       1,
       {3, 2}},
      {"{'class': 'conv', 'from': 'data', 'n_out': 2, 'filter_size': (9,), 'padding': 'valid'}",
       3,
       {2, 0, 2},
       1,
       {0, 0}},
      {"{'class': 'pool', 'from': 'data', 'mode': 'max', 'pool_size': (2,)}", 3, {2, 2, 3}, 1, {2, 1}},
      {"{'class': 'window', 'from': 'data', 'window_size': 4, 'padding': 'valid'}", 4, {2, 2, 4, 3}, 1, {2, 0}},
      {"{'class': 'window', 'from': 'data', 'window_size': 9, 'padding': 'valid'}", 4, {2, 0, 9, 3}, 1, {0, 0}},
      {"{'class': 'shift_axis', 'from': 'data', 'axis': 'T', 'amount': 1}", 3, {2, 5, 3}, 1, {5, 4}},
      {"{'class': 'shift_axis', 'from': 'data', 'axis': 'T', 'amount': -4}", 3, {2, 5, 3}, 1, {1, 0}},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_start': 1, 'slice_end': -1}", 3, {2, 3, 3}, 1, {3, 1}},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_step': 2}", 3, {2, 3, 3}, 1, {3, 2}},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_start': 9}", 3, {2, 0, 3}, 1, {0, 0}},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_step': -1}", 3, {2, 5, 3}, 1, {5, 3}},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_end': 1, 'slice_step': -1}", 3, {2, 3, 3}, 1, {3, 1}},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_end': 0, 'slice_step': -3}", 3, {2, 2, 3}, 1, {2, 1}},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_end': -3, 'slice_step': -1}", 3, {2, 2, 3}, -1, {0}},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_start': 3, 'slice_step': -2}", 3, {2, 2, 3}, -1, {0}},
      {"{'class': 'slice_nd', 'from': 'data', 'start': 'data:start', 'size': None}", 3, {2, 4, 3}, 1, {4, 3}},
      {"{'class': 'repeat', 'from': 'data', 'axis': 'T', 'repetitions': 3}", 3, {2, 15, 3}, 1, {15, 9}},
      {"{'class': 'resize', 'from': 'data', 'axis': 'T', 'factor': 0.5}", 3, {2, 3, 3}, 1, {3, 2}},
      {"{'class': 'prefix_in_time', 'from': 'data', 'repeat': 'data:start'}", 3, {2, 6, 3}, 1, {6, 3}},
      {"{'class': 'time_chunking', 'from': 'data', 'chunk_size': 3, 'chunk_step': 2}", 3, {3, 4, 3}, -1, {0, 0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const expected *c = &cases[i];
    crn_arena a = {0};
    loss_net n;
    const char *config = crn_arena_printf(&a, "{" EXTERN ", 'network': {'output': %s}}", c->layer);
    print_message("%s\n", c->layer);
    net_open(&n, config, false, feeds, 2);
    net_run(&n);
    const crn_data *d = crn_exec_value(n.exec, crn_net_find(n.net, "output"));
    assert_non_null(d);
    assert_int_equal(d->v->rank, c->rank);
    for (int k = 0; k < c->rank; k++) assert_int_equal(d->v->shape[k], c->shape[k]);
    for (int k = 0; c->len_axis >= 0 && k < 2; k++) assert_int_equal(crn_t_i32(d->len[c->len_axis]->v)[k], c->len[k]);
    net_close(&n);
    crn_arena_free(&a);
  }
}

static void check_slice(const char *axis, int size, const char *start, const char *end, int step, const int *want,
                        int n) {
  crn_arena a = {0};
  loss_net net;
  const bool time = *axis == 'T';
  net_open(&net,
           crn_arena_printf(&a,
                            "{" EXTERN ", 'network': {'output': {'class': 'slice', 'from': 'data', 'axis': '%s', "
                            "'slice_start': %s, 'slice_end': %s, 'slice_step': %d}}}",
                            axis, start, end, step),
           false, feeds, 2);
  net_run(&net);
  const crn_data *d = crn_exec_value(net.exec, crn_net_find(net.net, "output"));
  assert_int_equal(d->v->shape[time ? 1 : 2], n);
  for (int k = 0; k < n; k++) {
    assert_in_range(want[k], 0, size - 1);
    assert_true(crn_t_get(d->v, time ? k * 3 : k) == frames[time ? want[k] * 3 : want[k]]);
  }
  net_close(&net);
  crn_arena_free(&a);
}

/* The frames of x[start:end:step], backwards. */
static void test_backward_slices(void **state) {
  (void)state;
  check_slice("F", 3, "None", "None", -1, (const int[]){2, 1, 0}, 3);
  check_slice("F", 3, "1", "None", -1, (const int[]){1, 0}, 2);
  check_slice("F", 3, "0", "None", -1, (const int[]){0}, 1);
  check_slice("F", 3, "None", "0", -1, (const int[]){2, 1}, 2);
  check_slice("F", 3, "None", "-2", -1, (const int[]){2}, 1);
  check_slice("F", 3, "2", "0", -2, (const int[]){2}, 1);
  check_slice("F", 3, "2", "None", -2, (const int[]){2, 0}, 2);
  check_slice("T", 5, "None", "None", -2, (const int[]){4, 2, 0}, 3);
  check_slice("T", 5, "3", "None", -1, (const int[]){3, 2, 1, 0}, 4);
  check_slice("T", 5, "3", "0", -2, (const int[]){3, 1}, 2);
  check_slice("T", 5, "None", "1", -1, (const int[]){4, 3, 2}, 3);
  check_slice("T", 5, "None", "0", -3, (const int[]){4, 1}, 2);
  check_slice("T", 5, "None", "-3", -1, (const int[]){4, 3}, 2);
}

/* A filter from a layer, its axes in another order: as if they were in order. */
static void test_filter_perm(void **state) {
  (void)state;
  static const char *const shapes[] = {"(2, 1, 2, 3)", "(3, 2, 1, 2)"};
  static const char *const perms[] = {"None", "[3, 2, 1, 0]"};
  double y[2][2 * 10 * 2];
  for (int k = 0; k < 2; k++) {
    crn_arena a = {0};
    loss_net n;
    net_open(&n,
             crn_arena_printf(&a,
                              "{" EXTERN ", 'network': {'w': {'class': 'variable', 'shape': %s}, 'output': {'class': "
                              "'transposed_conv', 'from': 'data', 'n_out': 2, 'filter_size': [2], 'filter': 'w', "
                              "'filter_perm': %s}}}",
                              shapes[k], perms[k]),
             false, feeds, 2);
    double *w = crn_store_find(n.store, "w/w")->st.data; /* [i, 0, o, c] = 100 i + 10 o + c, or [c, o, 0, i] */
    for (int i = 0; i < 2; i++)
      for (int o = 0; o < 2; o++)
        for (int c = 0; c < 3; c++) w[k ? (c * 2 + o) * 2 + i : (i * 2 + o) * 3 + c] = 100 * i + 10 * o + c;
    crn_weight_changed(&crn_store_find(n.store, "w/w")->st);
    net_run(&n);
    const crn_data *d = crn_exec_value(n.exec, crn_net_find(n.net, "output"));
    assert_int_equal(crn_t_size(d->v), 2 * 10 * 2);
    for (int i = 0; i < 2 * 10 * 2; i++) y[k][i] = crn_t_get(d->v, i);
    net_close(&n);
    crn_arena_free(&a);
  }
  for (int i = 0; i < 2 * 10 * 2; i++) expect_near("value", y[0][i], y[1][i], 1e-12);
  double want = 0; /* frame 1 is from frame 0 with i = 1 */
  for (int c = 0; c < 3; c++) want += frames[c] * (100 + c);
  expect_near("value", y[0][2], want, 1e-12);
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{'class': 'conv', 'from': 'data', 'n_out': 2, 'filter_size': 3, 'padding': 'same'}", "filter_size"},
      {"{'class': 'conv', 'from': 'data', 'n_out': 2, 'filter_size': (3, 3), 'padding': 'same'}", "filter_size"},
      {"{'class': 'conv', 'from': 'data', 'n_out': 2, 'filter_size': (3,), 'padding': 'sane'}", "sane"},
      {"{'class': 'conv', 'from': 'data', 'n_out': 4, 'filter_size': (3,), 'padding': 'same', 'groups': 2}", "groups"},
      {"{'class': 'pool', 'from': 'data', 'mode': 'mean', 'pool_size': (2,)}", "mean"},
      {"{'class': 'norm', 'from': 'data'}", "axis"},
      {"{'class': 'batch_norm', 'from': 'data:start'}", "feature"},
      {"{'class': 'batch_norm', 'from': 'data', 'fused': True}", "fused"},
      {"{'class': 'window', 'from': 'data', 'window_size': 3, 'window_left': 1, 'window_right': 3}", "window_size"},
      {"{'class': 'shift_axis', 'from': 'data', 'axis': 'T', 'amount': 0}", "amount"},
      {"{'class': 'shift_axis', 'from': 'data', 'axis': 'F', 'amount': 1}", "adjust_size_info"},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_start': -1}", "slice_start"},
      {"{'class': 'slice', 'from': 'data', 'axis': 'F', 'slice_end': 7}", "slice_end"},
      {"{'class': 'slice', 'from': 'data', 'axis': 'T', 'slice_start': 4, 'slice_end': -3, 'slice_step': -1}",
       "not implemented"},
      {"{'class': 'transposed_conv', 'from': 'data', 'n_out': 2, 'filter_size': [2], 'filter_perm': [0, 1, 2, 3]}",
       "filter"},
      {"{'class': 'constant', 'value': 'x'}", "value"},
      {"{'class': 'variable', 'shape': (0,)}", "shape"},
      {"{'class': 'tile', 'from': 'data', 'multiples': {'T': 2}}", "multiples"},
      {"{'class': 'gating', 'from': 'data', 'activation': 'tanh'}", "even"},
      {"{'class': 'rand_int', 'shape': (2,), 'maxval': 0}", "maxval"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    crn_arena a = {0};
    expect_refused(crn_arena_printf(&a, "{" EXTERN ", 'network': {'output': %s}}", cases[i][0]), cases[i][1]);
    crn_arena_free(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients),       cmocka_unit_test(test_stft),
                                     cmocka_unit_test(test_sizes),           cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_backward_slices), cmocka_unit_test(test_filter_perm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
