/* SPDX-License-Identifier: Apache-2.0
 *
 * fold and istft (overlap.c), and layers that take complex numbers apart (rearrange.c, signal.c): values and lengths
 * against plain loops, gradients against central differences.
 */
#include "loss_net.h"

enum { B = 2, T = 5, F = 4, W = 3 };

static double frames[B * T * F];
static const int32_t lengths[B] = {5, 3};
static feed feeds[1] = {{"data", CRN_F64, 3, {B, T, F}, frames, lengths}};

static int fill_frames(void **state) {
  (void)state;
  for (int i = 0; i < B * T * F; i++) frames[i] = sin(0.3 + 1.7 * i);
  return 0;
}

static double frame(int b, int t, int f) { return frames[(b * T + t) * F + f]; }

/* ---- fold -------------------------------------------------------------------------------------------------------- */

#define DIM(kind, name, size) "{\"__dim__\": {\"kind\": \"" kind "\", \"name\": \"" name "\", \"dim\": " size "}}"
#define TIME DIM("spatial", "time", "null")
#define WINDOW DIM("spatial", "window", "3")
#define STRIDED DIM("spatial", "strided", "null")
#define FOLD_NET(stride, more)                                                                                         \
  "{\"extern_data\": {\"data\": {\"dim\": 4, \"shape\": {\"__tuple__\": [null, 4]}, \"same_dim_tags_as\": "            \
  "{\"t\": " TIME                                                                                                      \
  "}}}, \"network\": {\"h\": {\"class\": \"%s\", \"from\": \"data\"%s}, \"w\": {\"class\": \"window\", \"from\": "     \
  "\"h\", \"window_dim\": " WINDOW ", \"stride\": " stride ", \"out_spatial_dim\": " STRIDED                           \
  "}, \"x\": {\"class\": \"fold\", \"from\": \"w\", \"in_spatial_dim\": " STRIDED ", \"window_dim\": " WINDOW          \
  ", \"stride\": " stride ", \"mode\": " more "}, \"output\": {\"class\": \"eval\", "                                  \
  "\"from\": \"x\", \"eval\": \"source(0) * source(0) + source(0)\", \"loss\": \"as_is\"}}}"

typedef struct fold_case {
  const char *net;
  int stride, left, size; /* frames that are dropped, frames of the result */
  bool mean;
} fold_case;

static const fold_case folds[] = {
    {FOLD_NET("1", "\"sum\""), 1, 1, 5, false},
    {FOLD_NET("1", "\"mean\""), 1, 1, 5, true},
    {FOLD_NET("1", "\"mean\", \"window_left\": 0"), 1, 0, 5, true},
    {FOLD_NET("1", "\"sum\", \"window_right\": 0"), 1, 2, 5, false},
    {FOLD_NET("1", "\"sum\", \"padding\": \"valid\""), 1, 0, 7, false},
    {FOLD_NET("2", "\"mean\""), 2, 1, 6, true},
    {FOLD_NET("2", "\"sum\", \"padding\": \"valid\", \"out_spatial_dim\": " TIME), 2, 0, 5, false},
};

static void open_fold(loss_net *n, const fold_case *c, bool train) {
  crn_arena a = {0};
  net_open(
      n,
      crn_arena_printf(&a, c->net, train ? "linear" : "copy", train ? ", \"n_out\": 4, \"activation\": \"tanh\"" : ""),
      train, feeds, 1);
  crn_arena_free(&a);
}

/* Windows are centred: out[t, k] = x[t·stride - 1 + k]; windows beyond a sequence's length don't count. */
static void test_fold(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
    const fold_case *c = &folds[i];
    loss_net n;
    open_fold(&n, c, false);
    net_run(&n);
    const crn_data *d = crn_exec_value(n.exec, crn_net_find(n.net, "x"));
    assert_int_equal(d->v->rank, 3); /* [T', B, F] */
    assert_int_equal(d->v->shape[0], c->size);
    assert_int_equal(d->v->shape[1], B);
    assert_int_equal(d->t.time_axis, 0);
    for (int b = 0; b < B; b++) {
      const int N = (lengths[b] + c->stride - 1) / c->stride;
      for (int t = 0; t < c->size; t++)
        for (int f = 0; f < F; f++) {
          double sum = 0;
          int count = 0;
          for (int w = 0; w < N; w++)
            for (int k = 0; k < W; k++) {
              if (w * c->stride + k != t + c->left) continue;
              const int from = w * c->stride - 1 + k;
              sum += from >= 0 && from < T ? frame(b, from, f) : 0;
              count++;
            }
          expect_near("fold", crn_t_get(d->v, (t * B + b) * F + f), c->mean && count ? sum / count : sum, 1e-12);
        }
    }
    const int32_t *len = crn_t_i32(d->len[0]->v);
    const int extra = c->size == 7 ? 2 : 0;
    assert_int_equal(len[0], c->size);
    assert_int_equal(len[1], i == 6 ? 3 : (3 + c->stride - 1) / c->stride * c->stride + extra);
    net_close(&n);
  }
}

static void test_fold_gradients(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
    loss_net n;
    open_fold(&n, &folds[i], true);
    net_check_gradients(&n, 2e-5);
    net_close(&n);
  }
}

/* ---- complex numbers --------------------------------------------------------------------------------------------- */

#define EXTERN "'extern_data': {'data': {'dim': 4, 'shape': (None, 4)}}"

static const crn_data *open_layers(loss_net *n, const char *layers) {
  crn_arena a = {0};
  net_open(n, crn_arena_printf(&a, "{" EXTERN ", 'network': {%s}}", layers), false, feeds, 1);
  net_run(n);
  crn_arena_free(&a);
  return crn_exec_value(n->exec, crn_net_find(n->net, "output"));
}

static void test_alternating(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layers(&n, "'output': {'class': 'alternating_real_to_complex', 'from': 'data'}");
  assert_int_equal(d->v->dtype, CRN_C64);
  assert_int_equal(d->v->shape[2], 2);
  const float *z = crn_t_data(d->v);
  for (int i = 0; i < B * T * F; i++) expect_near("part", (double)z[i], frames[i], 1e-7);
  net_close(&n);
  d = open_layers(&n, "'t': {'class': 'transpose', 'perm': ['B', 'F', 'T'], 'from': 'data'}, 'c': {'class': "
                      "'alternating_real_to_complex', 'from': 't'}, 'output': {'class': 'complex_to_alternating_real', "
                      "'from': 'c', 'n_out': 4, "
                      "'out_type': {'dtype': 'float32'}}");
  for (int b = 0; b < B; b++)
    for (int t = 0; t < T; t++)
      for (int f = 0; f < F; f++) expect_near("round trip", crn_t_get(d->v, (b * F + f) * T + t), frame(b, t, f), 1e-7);
  net_close(&n);
}

static void test_complex_masks(void **state) {
  (void)state;
  loss_net n;
  const crn_data *d = open_layers(
      &n, "'c': {'class': 'alternating_real_to_complex', 'from': 'data'}, 'g': {'class': 'slice', 'axis': 'F', "
          "'slice_end': 2, 'from': 'data'}, 'r': {'class': 'signal_masking', 'signal': 'c', 'mask': 'g', 'n_out': 2, "
          "'out_type': {'dtype': 'complex64'}, 'from': []}, 's': {'class': 'signal_masking', 'signal': 'c', 'mask': "
          "'r', 'n_out': 2, 'out_type': {'dtype': 'complex64'}, 'from': []}, 'output': {'class': "
          "'complex_to_alternating_real', 'from': 's'}");
  for (int i = 0; i < B * T; i++)
    for (int k = 0; k < 2; k++) { /* z · (g z) */
      const double re = frames[i * F + 2 * k], im = frames[i * F + 2 * k + 1], g = frames[i * F + k];
      expect_near("re", crn_t_get(d->v, i * F + 2 * k), g * (re * re - im * im), 1e-6);
      expect_near("im", crn_t_get(d->v, i * F + 2 * k + 1), g * 2 * re * im, 1e-6);
    }
  net_close(&n);
}

/* Each frame's inverse transform by the sum over all bins, with the mirrored ones; then windowed and added up. */
static void test_istft(void **state) {
  (void)state;
  enum { FRAME = 2, FFT = 3, SHIFT = 1, BINS = 2 };
  loss_net n;
  const crn_data *d =
      open_layers(&n, "'c': {'class': 'alternating_real_to_complex', 'from': 'data'}, 'output': {'class': "
                      "'istft', 'frame_shift': 1, 'frame_size': 2, 'fft_size': 3, 'from': 'c'}");
  assert_int_equal(d->v->shape[1], T + 1);
  assert_int_equal(d->v->shape[2], 1);
  assert_int_equal(crn_t_i32(d->len[1]->v)[0], T + 1);
  assert_int_equal(crn_t_i32(d->len[1]->v)[1], 4);
  const double window[FRAME] = {0, 1}; /* Hann of 2, sum of squares over shifts by 1: 1 */
  for (int b = 0; b < B; b++)
    for (int s = 0; s < T + 1; s++) {
      double want = 0;
      for (int t = 0; t < T; t++)
        for (int i = 0; i < FRAME; i++) {
          if (t * SHIFT + i != s) continue;
          const double angle = 2 * 3.14159265358979323846 * i / FFT; /* of bin 1; bin 2 is its mirror */
          want += window[i] / FFT * (frame(b, t, 0) + 2 * (frame(b, t, 2) * cos(angle) - frame(b, t, 3) * sin(angle)));
        }
      expect_near("istft", crn_t_get(d->v, b * (T + 1) + s), want, 1e-6);
    }
  net_close(&n);
}

/* What stft took apart, istft puts together, but for the edges. */
static void test_round_trip(void **state) {
  (void)state;
  enum { N = 30 };
  double signal[N];
  const int32_t len[1] = {N};
  for (int i = 0; i < N; i++) signal[i] = cos(0.1 + 0.9 * i);
  const feed f = {"data", CRN_F64, 3, {1, N, 1}, signal, len};
  static const char *const sizes[] = {"'frame_shift': 2, 'frame_size': 6, 'fft_size': 8",
                                      "'frame_shift': 3, 'frame_size': 9", "'frame_shift': 2, 'frame_size': 8"};
  for (int k = 0; k < 3; k++) {
    crn_arena a = {0};
    loss_net n;
    net_open(&n,
             crn_arena_printf(&a,
                              "{'extern_data': {'data': {'dim': 1, 'shape': (None, 1)}}, 'network': {'s': {'class': "
                              "'stft', %s, 'from': 'data'}, 'output': {'class': 'istft', %s, 'from': 's'}}}",
                              sizes[k], sizes[k]),
             false, &f, 1);
    net_run(&n);
    const crn_data *d = crn_exec_value(n.exec, crn_net_find(n.net, "output"));
    assert_true(d->v->shape[1] > 20);
    for (int i = 9; i < d->v->shape[1] - 9; i++) expect_near("sample", crn_t_get(d->v, i), signal[i], 1e-5);
    net_close(&n);
    crn_arena_free(&a);
  }
}

static void test_complex_gradients(void **state) {
  (void)state;
  static const char *const layers[] = {
      "'c': {'class': 'alternating_real_to_complex', 'from': 'h'}, 'x': {'class': 'istft', 'frame_shift': 1, "
      "'frame_size': 2, 'fft_size': 3, 'from': 'c', 'use_time_mask': True}",
      "'c': {'class': 'alternating_real_to_complex', 'from': 'h'}, 'g': {'class': 'linear', 'n_out': 2, 'from': "
      "'data'}, 'r': {'class': 'signal_masking', 'signal': 'c', 'mask': 'g', 'n_out': 2, 'out_type': {'dtype': "
      "'complex64'}, 'from': []}, 's': {'class': 'signal_masking', 'signal': 'c', 'mask': 'r', 'n_out': 2, 'out_type': "
      "{'dtype': 'complex64'}, 'from': []}, 'x': {'class': 'complex_to_alternating_real', 'from': 's'}"};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    crn_arena a = {0};
    loss_net n;
    net_open(&n,
             crn_arena_printf(&a,
                              "{" EXTERN ", 'network': {'h': {'class': 'linear', 'activation': 'tanh', 'n_out': 4, "
                              "'from': 'data'}, %s, 'output': {'class': 'eval', 'eval': 'source(0) * source(0) + 0.3 * "
                              "source(0)', 'from': 'x', 'loss': 'as_is'}}}",
                              layers[i]),
             true, feeds, 1);
    net_check_gradients(&n, 2e-2); /* complex64 is single precision */
    net_close(&n);
    crn_arena_free(&a);
  }
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"'output': {'class': 'fold', 'from': 'data', 'in_spatial_dim': 'T', 'window_dim': 'F', 'mode': 'sum'}", "a dim"},
      {"'output': {'class': 'istft', 'frame_shift': 1, 'frame_size': 2, 'from': 'data'}", "complex"},
      {"'c': {'class': 'alternating_real_to_complex', 'from': 'data'}, 'output': {'class': 'istft', 'frame_shift': 1, "
       "'frame_size': 4, 'from': 'c'}",
       "3 complex features"},
      {"'s': {'class': 'slice', 'axis': 'F', 'slice_end': 3, 'from': 'data'}, 'output': {'class': "
       "'alternating_real_to_complex', 'from': 's'}",
       "even"},
      {"'output': {'class': 'complex_to_alternating_real', 'from': 'data'}", "complex"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    crn_arena a = {0};
    expect_refused(crn_arena_printf(&a, "{" EXTERN ", 'network': {%s}}", cases[i][0]), cases[i][1]);
    crn_arena_free(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_fold),
                                     cmocka_unit_test(test_fold_gradients),
                                     cmocka_unit_test(test_alternating),
                                     cmocka_unit_test(test_complex_masks),
                                     cmocka_unit_test(test_istft),
                                     cmocka_unit_test(test_round_trip),
                                     cmocka_unit_test(test_complex_gradients),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, fill_frames, NULL);
}
