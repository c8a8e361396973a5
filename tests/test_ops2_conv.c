/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution, transposed convolution and pooling: values against the defining sums, gradients, empty results.
 */
#include "ops2_check.h"

#define S(...) ((int64_t[]){__VA_ARGS__})

typedef struct conv_case {
  crn_conv_spec spec;
  int64_t out_spatial[3];
  bool transposed, pool, max;
} conv_case;

static int build_conv(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  const conv_case *c = arg;
  if (c->pool)
    out[0] = crn_pool(r, in[0], c->max, &c->spec);
  else if (c->transposed)
    out[0] = crn_conv_transposed(r, in[0], in[1], &c->spec, c->out_spatial);
  else
    out[0] = crn_conv(r, in[0], in[1], &c->spec);
  return 1;
}

static int64_t out_size(const crn_conv_spec *s, int i, int64_t in, int64_t k) {
  int64_t room = in + s->pad_before[i] + s->pad_after[i] - (k - 1) * s->dilation[i] - 1;
  return room < 0 ? 0 : room / s->stride[i] + 1;
}

typedef void (*visit_fn)(void *arg, int64_t out, int64_t in, int64_t tap);

/* Call f for every (output place, input place, tap) that a window of sequence b joins; places without channels. */
static void visit(const crn_conv_spec *s, int64_t B, const int64_t *in, const int64_t *k, visit_fn f, void *arg) {
  int64_t o[3] = {1, 1, 1}, n_in[3] = {1, 1, 1}, n_k[3] = {1, 1, 1};
  int first = 3 - s->n_spatial;
  for (int i = 0; i < s->n_spatial; i++) {
    o[first + i] = out_size(s, i, in[i], k[i]);
    n_in[first + i] = in[i];
    n_k[first + i] = k[i];
  }
  for (int64_t b = 0; b < B; b++)
    for (int64_t q = 0; q < o[0] * o[1] * o[2]; q++)
      for (int64_t tap = 0; tap < n_k[0] * n_k[1] * n_k[2]; tap++) {
        int64_t q3[3] = {q / (o[1] * o[2]), q / o[2] % o[1], q % o[2]}, at = b;
        int64_t t3[3] = {tap / (n_k[1] * n_k[2]), tap / n_k[2] % n_k[1], tap % n_k[2]};
        bool inside = true;
        for (int i = 0; i < 3; i++) {
          int64_t x = 0;
          if (i >= first) x = q3[i] * s->stride[i - first] - s->pad_before[i - first] + t3[i] * s->dilation[i - first];
          inside &= x >= 0 && x < n_in[i];
          at = at * n_in[i] + x;
        }
        if (inside) f(arg, b * o[0] * o[1] * o[2] + q, at, tap);
      }
}

typedef struct naive {
  const double *from, *w;
  double *to;
  int64_t C, O, groups;
  bool transposed;
} naive;

static void add_products(void *arg, int64_t out, int64_t in, int64_t tap) {
  naive *n = arg;
  int64_t gi = n->C / n->groups, go = n->O / n->groups;
  for (int64_t c = 0; c < n->C; c++)
    for (int64_t q = 0; q < go; q++) {
      int64_t o = c / gi * go + q;
      double w = n->w[(tap * gi + c % gi) * n->O + o];
      if (n->transposed)
        n->to[in * n->C + c] += n->from[out * n->O + o] * w;
      else
        n->to[out * n->O + o] += n->from[in * n->C + c] * w;
    }
}

static void check_case(crn_conv_spec spec, int64_t B, const int64_t *in, const int64_t *k, int64_t C, int64_t O) {
  int64_t groups = spec.groups ? spec.groups : 1, x_shape[5] = {B}, w_shape[5], y_shape[5] = {B};
  int d = spec.n_spatial;
  for (int i = 0; i < d; i++) {
    x_shape[1 + i] = in[i];
    w_shape[i] = k[i];
    y_shape[1 + i] = out_size(&spec, i, in[i], k[i]);
  }
  x_shape[1 + d] = C;
  y_shape[1 + d] = O;
  w_shape[d] = C / groups;
  w_shape[d + 1] = O;
  for (int transposed = 0; transposed < 2; transposed++) {
    conv_case c = {.spec = spec, .transposed = transposed};
    for (int i = 0; i < d; i++) c.out_spatial[i] = in[i];
    input inputs[2] = {real_input(1, 1, true, d + 2, transposed ? y_shape : x_shape),
                       real_input(2, 1, true, d + 2, w_shape)};
    inputs[1].param = transposed == 0;
    if (count_of(d + 2, x_shape) < 400) check_differences(build_conv, &c, 2, inputs, 2e-6);
    check_float(build_conv, &c, 2, inputs, 3e-4);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result res = evaluate(&b, build_conv, &c, 2, inputs, false, 0);
    assert_int_equal(res.out_size[0], count_of(d + 2, transposed ? x_shape : y_shape));
    double *want = calloc((size_t)res.out_size[0] + 1, 8);
    naive n = {.from = inputs[0].v, .w = inputs[1].v, .to = want, .C = C, .O = O, .groups = groups};
    n.transposed = transposed;
    visit(&spec, B, in, k, add_products, &n);
    for (int64_t i = 0; i < res.out_size[0]; i++) expect_close("y", transposed, i, res.out[0][i], want[i], 1e-11);
    free(want);
    result_free(&res);
    run_close(&b);
    inputs_free(2, inputs);
  }
}

static crn_conv_spec spec_1d(int64_t stride, int64_t dilation, int64_t before, int64_t after, int64_t groups) {
  return (crn_conv_spec){.n_spatial = 1,
                         .stride = {stride},
                         .dilation = {dilation},
                         .pad_before = {before},
                         .pad_after = {after},
                         .groups = groups};
}

static void test_conv_1d(void **state) {
  (void)state;
  check_case(spec_1d(1, 1, 0, 0, 1), 2, S(7), S(3), 3, 4);
  check_case(spec_1d(1, 1, 1, 1, 1), 2, S(7), S(3), 3, 4);
  check_case(spec_1d(2, 1, 1, 2, 1), 2, S(8), S(4), 3, 2);
  check_case(spec_1d(1, 2, 2, 2, 1), 2, S(6), S(3), 2, 2);
  check_case(spec_1d(3, 2, 0, 1, 2), 1, S(11), S(3), 4, 6); /* groups */
  check_case(spec_1d(1, 1, 1, 1, 3), 2, S(6), S(3), 3, 3);  /* depthwise */
  check_case(spec_1d(2, 2, 3, 1, 3), 2, S(7), S(3), 3, 6);  /* depthwise, two outputs each */
  check_case(spec_1d(1, 1, 0, 0, 1), 2, S(5), S(1), 3, 4);  /* rows are the input */
  check_case(spec_1d(2, 1, 0, 0, 1), 2, S(5), S(1), 3, 4);
  check_case(spec_1d(1, 1, 5, 5, 3), 1, S(2), S(3), 3, 3); /* whole windows in the padding */
  check_case(spec_1d(1, 1, 5, 5, 1), 1, S(2), S(3), 3, 3);
}

static void test_conv_nd(void **state) {
  (void)state;
  crn_conv_spec s2 = {.n_spatial = 2, .stride = {1, 2}, .dilation = {1, 1}, .pad_before = {1, 0}, .pad_after = {1, 1}};
  check_case(s2, 2, S(4, 5), S(3, 2), 2, 3);
  s2.groups = 2;
  check_case(s2, 1, S(4, 5), S(3, 2), 4, 4);
  check_case(s2, 1, S(4, 5), S(3, 2), 2, 2);
  s2.dilation[0] = 2;
  check_case(s2, 1, S(5, 5), S(2, 2), 2, 4);
  crn_conv_spec s3 = {
      .n_spatial = 3, .stride = {1, 2, 1}, .dilation = {1, 1, 2}, .pad_before = {1, 0, 1}, .pad_after = {0, 1, 1}};
  check_case(s3, 2, S(2, 3, 4), S(2, 2, 2), 2, 2);
}

static void test_conv_large(void **state) {
  (void)state;
  check_case(spec_1d(1, 1, 3, 4, 1), 3, S(400), S(8), 70, 90); /* several blocks of rows and of channels */
  check_case(spec_1d(1, 1, 2, 2, 130), 3, S(150), S(5), 130, 130);
}

static void test_empty_results(void **state) {
  (void)state;
  check_case(spec_1d(1, 1, 0, 0, 1), 2, S(2), S(3), 3, 4);
  check_case(spec_1d(1, 1, 0, 0, 3), 2, S(2), S(3), 3, 3);
  check_case(spec_1d(1, 1, 1, 1, 1), 2, S(0), S(3), 3, 4);
  check_case(spec_1d(1, 1, 2, 2, 1), 2, S(0), S(3), 3, 4); /* only padding: two positions of zeros */
  check_case(spec_1d(1, 1, 2, 2, 1), 0, S(4), S(3), 3, 4);
}

typedef struct pooled {
  const double *x;
  double *y;
  int64_t C, *count;
  bool max;
} pooled;

static void pool_visit(void *arg, int64_t out, int64_t in, int64_t tap) {
  (void)tap;
  pooled *p = arg;
  for (int64_t c = 0; c < p->C; c++) {
    double *y = &p->y[out * p->C + c], x = p->x[in * p->C + c];
    *y = p->max ? (p->count[out] == 0 || x > *y ? x : *y) : *y + x;
  }
  p->count[out]++;
}

static void check_pool(crn_conv_spec spec, int64_t B, const int64_t *in, int64_t C) {
  int d = spec.n_spatial;
  int64_t x_shape[5] = {B};
  for (int i = 0; i < d; i++) x_shape[1 + i] = in[i];
  x_shape[1 + d] = C;
  for (int max = 0; max < 2; max++) {
    conv_case c = {.spec = spec, .pool = true, .max = max};
    input inputs[1] = {real_input(1, 1, true, d + 2, x_shape)};
    check_all(build_conv, &c, 1, inputs);
    bench_run b;
    run_open(&b, CRN_F64, NULL, 1);
    result res = evaluate(&b, build_conv, &c, 1, inputs, false, 0);
    int64_t places = res.out_size[0] / C, *count = calloc((size_t)places + 1, 8);
    double *want = calloc((size_t)res.out_size[0] + 1, 8);
    pooled p = {.x = inputs[0].v, .y = want, .C = C, .count = count, .max = max};
    visit(&spec, B, in, spec.window, pool_visit, &p);
    for (int64_t i = 0; i < res.out_size[0]; i++)
      expect_close("pool", max, i, res.out[0][i], max ? want[i] : want[i] / (double)count[i / C], 1e-12);
    free(count);
    free(want);
    result_free(&res);
    run_close(&b);
    inputs_free(1, inputs);
  }
}

static void test_pool(void **state) {
  (void)state;
  crn_conv_spec s = spec_1d(2, 1, 1, 1, 1);
  s.window[0] = 3;
  check_pool(s, 2, S(7), 3);
  s.dilation[0] = 2;
  check_pool(s, 2, S(7), 70);
  s.window[0] = 9;
  check_pool(s, 2, S(4), 2); /* empty */
  crn_conv_spec s2 = {.n_spatial = 2,
                      .stride = {1, 2},
                      .dilation = {1, 1},
                      .pad_before = {1, 0},
                      .pad_after = {1, 1},
                      .window = {2, 3}};
  check_pool(s2, 2, S(4, 5), 3);
}

static void test_pool_ties_and_padding(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  b.r.recording = true;
  crn_conv_spec s = spec_1d(1, 1, 1, 0, 1);
  s.window[0] = 3;
  crn_tensor *x = crn_t_copy_in(&b.r, CRN_F32, 3, S(1, 3, 1), (float[]){-2, -1, -1});
  x->needs_grad = true;
  crn_tensor *y = crn_pool(&b.r, x, true, &s);
  assert_true(crn_t_f32(y)[0] == -1 && crn_t_f32(y)[1] == -1); /* padding is not a zero */
  assert_int_equal(crn_backward(&b.r, y, NULL), CRN_OK);
  assert_memory_equal(x->st->grad, ((float[]){0, 2, 0}), 12); /* the first of equals takes it */
  run_close(&b);
}

static void test_wrong_use(void **state) {
  (void)state;
  bench_run b;
  run_open(&b, CRN_F32, NULL, 1);
  crn_conv_spec s = spec_1d(1, 1, 0, 0, 2);
  crn_tensor *x = crn_t_zeros(&b.r, CRN_F32, 3, S(1, 5, 4)), *w = crn_t_zeros(&b.r, CRN_F32, 3, S(3, 4, 6));
  assert_null(crn_conv(&b.r, x, w, &s));
  assert_non_null(strstr(crn_err_text(&b.err), "filter [3, 4, 6] float32 does not fit 4 channels in 2 groups"));
  crn_err_clear(&b.err);
  s = spec_1d(0, 1, 0, 0, 1);
  assert_null(crn_conv(&b.r, x, w, &s));
  assert_non_null(strstr(crn_err_text(&b.err), "must be at least 1"));
  crn_err_clear(&b.err);
  s = spec_1d(1, 1, 0, 0, 1);
  assert_null(crn_conv_transposed(&b.r, x, w, &s, S(5)));
  crn_err_clear(&b.err);
  s.n_spatial = 4;
  assert_null(crn_pool(&b.r, x, true, &s));
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conv_1d),    cmocka_unit_test(test_conv_nd),
      cmocka_unit_test(test_conv_large), cmocka_unit_test(test_empty_results),
      cmocka_unit_test(test_pool),       cmocka_unit_test(test_pool_ties_and_padding),
      cmocka_unit_test(test_wrong_use),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
