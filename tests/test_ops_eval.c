/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions of eval layers: values of operators and of every function of the table against plain C, Python's rules
 * for numbers, names and objects of the caller, errors with their place and nearest name, and texts that are cut and
 * changed at random.
 */
#include "ops2_check.h"

#include "tensor/eval.h"

/* ---- a caller: source(i), self, eval_locals ---------------------------------------------------------------------- */

typedef struct caller {
  crn_ev source[4];
  int n_sources;
} caller;

static crn_status caller_name(void *user, crn_run *r, const char *name, crn_ev *out, bool *found) {
  (void)r;
  *found = true;
  if (!strcmp(name, "source") || !strcmp(name, "self")) {
    *out = (crn_ev){.kind = CRN_EV_OBJECT, .u.obj = {!strcmp(name, "self") ? "layer" : "source", user}};
    return CRN_OK;
  }
  if (!strcmp(name, "scale"))
    *out = crn_ev_of_float(0.5);
  else if (!strcmp(name, "n"))
    *out = crn_ev_of_int(3);
  else if (!strcmp(name, "safe_exp"))
    *out = crn_ev_of_int(77); /* a local goes before the helper */
  else
    *found = false;
  return CRN_OK;
}

static crn_status caller_attr(void *user, crn_run *r, const crn_ev *object, const char *attr, crn_ev *out,
                              bool *found) {
  (void)user, (void)r;
  *found = !strcmp(object->u.obj.type, "layer") && (!strcmp(attr, "sources") || !strcmp(attr, "get_axis"));
  if (*found) *out = (crn_ev){.kind = CRN_EV_OBJECT, .u.obj = {attr, object->u.obj.p}};
  return CRN_OK;
}

static crn_status caller_item(void *user, crn_run *r, const crn_ev *object, const crn_ev *index, crn_ev *out,
                              bool *found) {
  (void)r;
  *found = !strcmp(object->u.obj.type, "sources") && index->kind == CRN_EV_INT;
  if (*found) *out = ((caller *)user)->source[index->u.i];
  return CRN_OK;
}

static crn_status caller_call(void *user, crn_run *r, const crn_ev *callee, const crn_eargs *args, crn_ev *out) {
  const caller *c = user;
  if (!strcmp(callee->u.obj.type, "get_axis")) {
    *out = crn_ev_of_int(args->n_named == 1 && !strcmp(args->names[0], "axis") ? args->named[0].u.i : -7);
    return CRN_OK;
  }
  if (args->n_pos != 1 || args->pos[0].kind != CRN_EV_INT || args->pos[0].u.i < 0 || args->pos[0].u.i >= c->n_sources)
    return crn_fail(r->err, CRN_E_RUNTIME, "no such source");
  *out = c->source[args->pos[0].u.i];
  return CRN_OK;
}

/* Sources: 0 and 1 [2, 3] float, 2 [2, 3] int32, 3 [2] bool. */
static const double A[6] = {0.5, -1.25, 2, 0.75, -0.3, 1.5}, B[6] = {1.5, 0.25, -2, 0.5, 3, 1.5};
static const int32_t I[6] = {7, -7, 3, 0, 5, -2};

static crn_eval_env caller_env(crn_run *r, caller *c) {
  const int64_t shape[] = {2, 3};
  crn_tensor *t[4] = {crn_t_copy_in(r, CRN_F64, 2, shape, A), crn_t_copy_in(r, CRN_F64, 2, shape, B),
                      crn_t_copy_in(r, CRN_I32, 2, shape, I),
                      crn_t_copy_in(r, CRN_BOOL, 1, shape, (const uint8_t[]){1, 0})};
  c->n_sources = 4;
  for (int i = 0; i < 4; i++) c->source[i] = crn_ev_of_tensor(i < 2 ? crn_cast(r, t[i], r->real) : t[i]);
  return (crn_eval_env){c, "layer", caller_name, caller_attr, caller_item, caller_call};
}

/* The text's value; fails the test with the message if there is none. */
static crn_ev value_of(bench_run *b, crn_arena *a, const char *text) {
  caller *c = CRN_ARENA_NEW(&b->r.arena, caller);
  crn_eval_env env = caller_env(&b->r, c);
  crn_eval *e = NULL;
  crn_ev v = crn_ev_none();
  if (crn_eval_compile(a, text, &e, &b->err) != CRN_OK || crn_eval_run(&b->r, e, &env, &v) != CRN_OK)
    fail_msg("%s: %s", text, crn_err_text(&b->err));
  return v;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

typedef struct number_case {
  const char *text;
  crn_ev_kind kind;
  double value;
} number_case;

static void test_numbers(void **state) {
  (void)state;
  static const number_case cases[] = {
      {"1 + 2 * 3", CRN_EV_INT, 7},
      {"(1 + 2) * 3", CRN_EV_INT, 9},
      {"7 / 2", CRN_EV_FLOAT, 3.5},
      {"7 // 2", CRN_EV_INT, 3},
      {"-7 // 2", CRN_EV_INT, -4},
      {"-7 % 3", CRN_EV_INT, 2},
      {"7 % -3", CRN_EV_INT, -2},
      {"-2 ** 2", CRN_EV_INT, -4},
      {"2 ** -1", CRN_EV_FLOAT, 0.5},
      {"2 ** 3 ** 2", CRN_EV_INT, 512},
      {"2. ** 0.5", CRN_EV_FLOAT, M_SQRT2},
      {"1e-3 * 2", CRN_EV_FLOAT, 2e-3},
      {"10 - 2 - 3", CRN_EV_INT, 5},
      {"2 - -3", CRN_EV_INT, 5},
      {"+5", CRN_EV_INT, 5},
      {"~5", CRN_EV_INT, -6},
      {"6 & 3 | 8", CRN_EV_INT, 10},
      {"6 ^ 3", CRN_EV_INT, 5},
      {"1 < 2", CRN_EV_BOOL, 1},
      {"1 < 2 < 2", CRN_EV_BOOL, 0},
      {"1 == 1.0", CRN_EV_BOOL, 1},
      {"3 >= 3 != 4", CRN_EV_BOOL, 1},
      {"not 0", CRN_EV_BOOL, 1},
      {"0 or 5", CRN_EV_INT, 5},
      {"3 and 0 or 4", CRN_EV_INT, 4},
      {"1 if 0 else 2", CRN_EV_INT, 2},
      {"1 if 2 > 1 else 1 / 0", CRN_EV_INT, 1},
      {"'a' 'b' == \"ab\"", CRN_EV_BOOL, 1},
      {"None is None", CRN_EV_BOOL, 1},
      {"1 is not None", CRN_EV_BOOL, 1},
      {"2 in (1, 2)", CRN_EV_BOOL, 1},
      {"2 not in [1, 3]", CRN_EV_BOOL, 1},
      {"'b' in 'abc'", CRN_EV_BOOL, 1},
      {"(1, 2, 3)[-1]", CRN_EV_INT, 3},
      {"[1, 2, 3][0:2][1]", CRN_EV_INT, 2},
      {"len((1, 2) + (3,))", CRN_EV_INT, 3},
      {"float(n) + 1", CRN_EV_FLOAT, 4},
      {"int(-2.7)", CRN_EV_INT, -2},
      {"min(3, 1, 2)", CRN_EV_INT, 1},
      {"max([3, 7.5])", CRN_EV_FLOAT, 7.5},
      {"abs(-3)", CRN_EV_TENSOR, 3},
      {"round(2.5)", CRN_EV_INT, 2},
      {"sum([1, 2, 3])", CRN_EV_INT, 6},
      {"pow(2, 5)", CRN_EV_INT, 32},
      {"len(range(2, 10, 3))", CRN_EV_INT, 3},
      {"0x10 + 0b11", CRN_EV_INT, 19},
      {"scale * n", CRN_EV_FLOAT, 1.5},
      {"safe_exp", CRN_EV_INT, 77},
      {"True + True", CRN_EV_INT, 2},
      {"source(0).shape[1]", CRN_EV_INT, 3},
      {"len(source(0))", CRN_EV_INT, 2},
      {"source(0).get_shape().as_list()[0]", CRN_EV_INT, 2},
      {"source(0).shape.ndims", CRN_EV_INT, 2},
      {"get_shape_dim(source(0), -1)", CRN_EV_INT, 3},
      {"tf.float32 == 'float32'", CRN_EV_BOOL, 0},
      {"source(2).dtype == tf.int32", CRN_EV_BOOL, 1},
      {"self.get_axis(axis=4)", CRN_EV_INT, 4},
      {"(source(0), 5)[-1]", CRN_EV_INT, 5},
      {"1 +\n  2  # a comment", CRN_EV_INT, 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench_run b;
    crn_arena a = {0};
    run_open(&b, CRN_F32, NULL, 1);
    crn_ev v = value_of(&b, &a, cases[i].text);
    double got = v.kind == CRN_EV_INT      ? (double)v.u.i
                 : v.kind == CRN_EV_FLOAT  ? v.u.f
                 : v.kind == CRN_EV_BOOL   ? v.u.b
                 : v.kind == CRN_EV_TENSOR ? crn_t_get(v.u.t, 0)
                                           : NAN;
    if (v.kind != cases[i].kind || !(fabs(got - cases[i].value) < 1e-12))
      fail_msg("%s: %s %g", cases[i].text, crn_ev_kind_name(&v), got);
    crn_arena_free(&a);
    run_close(&b);
  }
}

static double plus(double a, double b) { return a + b; }
static double weighted(double a, double b) { return a * 0.5 + b * 3 - 1; }
static double divided(double a, double b) { return (a - b) / 2.3026; }
static double reversed_minus(double a, double b) { return 2 - a * b; }
static double floored(double a, double b) { return floor(a / (b + 0.3)); }
static double modulo(double a, double b) { return a - b * floor(a / b); }
static double minus_square(double a, double b) {
  (void)b;
  return -(a * a);
}
static double gauss(double a, double b) { return exp(-((a - b) * (a - b)) / 25); }
static double clipped(double a, double b) { return fmin(fmax(a + b, -0.5), 0.5); }
static double clipped_by(double a, double b) { return fmax(fmin(a, b), 0); }
static double larger(double a, double b) { return a > b ? a : b; }
static double chosen(double a, double b) { return a > 0 ? a : b; }
static double is_equal(double a, double b) { return a == b; }
static double at_least(double a, double b) { return (a >= b) * 2 - 1; }
static double softplus_log(double a, double b) { return log(log1p(exp(a))) - b; }
static double root(double a, double b) { return sqrt(a * a + b * b + 1e-6); }
static double relu_square(double a, double b) { return (a > 0 ? a * a : 0) + 3 * b; }
static double log_sig(double a, double b) {
  (void)b;
  return -log1p(exp(a));
}
static double ones(double a, double b) {
  (void)a, (void)b;
  return 1;
}
static double only_a(double a, double b) {
  (void)b;
  return a;
}
static double a_plus_one(double a, double b) {
  (void)b;
  return a + 1;
}
static double power15(double a, double b) {
  (void)b;
  return pow(fabs(a) + 0.1, 1.5);
}
static double no_nan(double a, double b) {
  (void)b;
  return a / (a * a);
}
static double absolute(double a, double b) { return fabs(a - b); }
static double both_positive(double a, double b) { return a > 0 && b > 0; }
static double lin_exp(double a, double b) {
  (void)b;
  return a >= 0 ? a + 1 : exp(a);
}
static double leaky(double a, double b) {
  (void)b;
  return a > 0 ? a : 0.1 * a;
}

typedef struct element_case {
  const char *text;
  double (*want)(double a, double b);
} element_case;

static void test_elements(void **state) {
  (void)state;
  static const element_case cases[] = {
      {"source(0) + source(1)", plus},
      {"source(0) * scale + source(1) * n - 1", weighted},
      {"(source(0) - source(1)) / 2.3026", divided},
      {"2 - source(0) * source(1)", reversed_minus},
      {"source(0) // (source(1) + 0.3)", floored},
      {"source(0) % source(1)", modulo},
      {"tf.math.floormod(source(0), source(1))", modulo},
      {"-source(0) ** 2", minus_square},
      {"tf.exp(-(source(0) - source(1))**2 / (5.000000**2))", gauss},
      {"tf.clip_by_value(source(0) + source(1), -0.5, 0.5)", clipped},
      {"tf.clip_by_value(source(0), clip_value_min=tf.zeros_like(source(0)), clip_value_max=source(1))", clipped_by},
      {"tf.maximum(source(0), source(1))", larger},
      {"tf.where(tf.greater(source(0), 0.0), source(0), source(1))", chosen},
      {"where_bc(source(0) > 0, source(0), source(1))", chosen},
      {"tf.cast(tf.equal(source(0), source(1)), tf.float32)", is_equal},
      {"where_bc(tf.equal(source(0), source(1)), 1., 0.)", is_equal},
      {"tf.to_float(source(0) == source(1))", is_equal},
      {"tf.cast(source(0) >= source(1), tf.float32) * 2 - 1", at_least},
      {"tf.math.log(tf.nn.softplus(source(0))) - source(1)", softplus_log},
      {"tf.log(tf.nn.softplus(source(0))) - source(1)", softplus_log},
      {"tf.sqrt(tf.square(source(0)) + tf.square(source(1)) + 1e-6)", root},
      {"tf.nn.relu(source(0)) ** 2 + source(1) * 3", relu_square},
      {"tf.log_sigmoid(-source(0))", log_sig},
      {"log_sigmoid(-source(0))", log_sig},
      {"tf.compat.v1.log_sigmoid(-source(0))", log_sig},
      {"tf_compat.v1.log_sigmoid(-source(0))", log_sig},
      {"tf.math.log_sigmoid(-source(0))", log_sig},
      {"tf.ones_like(source(0), dtype=\"float32\")", ones},
      {"tf.stop_gradient(source(0))", only_a},
      {"tf.squeeze(tf.expand_dims(source(0), axis=-1), axis=-1)", only_a},
      {"source(0)[..., tf.newaxis][:, :, 0]", only_a},
      {"tf.stack([source(1), source(0)], axis=0)[1]", only_a},
      {"tf.concat([source(1), source(0)], 1)[:, 3:]", only_a},
      {"tf.concat([source(0)[:, ::2], source(0)[:, 1:2]], -1)[:, ::-1][:, 2:3] + source(0) - source(0)[:, 0:1]",
       only_a},
      {"tf.split(source(0), 3, axis=1)[0] + source(0) - source(0)[:, :1]", only_a},
      {"tf.split(source(0), [1, -1], axis=1)[1][:, 0:1] + source(0) - tf.unstack(source(0), axis=1)[1][:, None]",
       only_a},
      {"tf.reshape(tf.reshape(source(0), [-1]), tf.shape(source(0)))", only_a},
      {"tf.transpose(tf.transpose(source(0)), [1, 0])", only_a},
      {"tf.reverse(tf.reverse(source(0), [0]), axis=[-2])", only_a},
      {"tf.roll(tf.roll(source(0), shift=1, axis=-1), -1, 1)", only_a},
      {"tf.tile(source(0), [1, 2])[:, :3]", only_a},
      {"tf.slice(tf.pad(source(0), [[1, 0], [0, 2]]), [1, 0], [-1, 3])", only_a},
      {"tf.gather(source(0), tf.range(2))", only_a},
      {"tf.gather(source(0), [0, 1, 2], axis=-1)", only_a},
      {"tf.gather(source(0), tf.argsort(source(0)), batch_dims=1) + source(0) - tf.sort(source(0))", only_a},
      {"tf.identity(source(0)) + tf.zeros([2, 1])", only_a},
      {"tf.fill([2, 3], 1.0) + source(0)", a_plus_one},
      {"optional_add(None, source(0), 1)", a_plus_one},
      {"tf.add_n([source(0), tf.ones((2, 3))])", a_plus_one},
      {"tf.constant(1.0) + source(0)", a_plus_one},
      {"self.sources[0] + 1", a_plus_one},
      {"tf.pow(tf.abs(source(0)) + 0.1, 1.5)", power15},
      {"tf.math.divide_no_nan(source(0), source(0) ** 2)", no_nan},
      {"tf.cast(tf.abs(source(0) - source(1)), tf.float32)", absolute},
      {"abs(source(0) - source(1))", absolute},
      {"tf.to_float(tf.logical_and(source(0) > 0, source(1) > 0))", both_positive},
      {"tf.to_float((source(0) > 0) & (source(1) > 0))", both_positive},
      {"lin_exp(source(0))", lin_exp},
      {"tf.nn.leaky_relu(source(0), alpha=0.1)", leaky},
      {"dimshuffle(dimshuffle(source(0), (1, 'x', 0)), (2, 0))", only_a},
      {"expand_dims_unbroadcast(source(0), 1, 4)[:, 3]", only_a},
      {"tf.cumsum(source(0), axis=1)[:, 0:1] * 0 + source(0)", only_a},
      {"tf.scatter_nd([[1], [0]], tf.reverse(source(0), [0]), [2, 3])", only_a},
      {"tf.nn.top_k(source(0), 3).values * 0 + source(0)", only_a},
      {"tf.gather_nd(source(0), tf.expand_dims(tf.range(2), 1))", only_a},
      {"tf.matmul(source(0), tf.one_hot([0, 1, 2], 3))", only_a},
      {"source(0) @ tf.one_hot([0, 1, 2], depth=3, dtype=tf.float32)", only_a},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench_run b;
    crn_arena a = {0};
    run_open(&b, i % 2 ? CRN_F64 : CRN_F32, NULL, 1);
    crn_ev v = value_of(&b, &a, cases[i].text);
    assert_int_equal(v.kind, CRN_EV_TENSOR);
    if (crn_t_size(v.u.t) != 6 || v.u.t->dtype != b.r.real) {
      char d[96];
      fail_msg("%s: %s", cases[i].text, crn_ev_describe(&v, d, sizeof d));
    }
    for (int k = 0; k < 6; k++) {
      double want = cases[i].want(A[k], B[k]), got = crn_t_get(v.u.t, k);
      if (!(fabs(got - want) < 2e-6 * (1 + fabs(want))))
        fail_msg("%s: element %d is %g, not %g", cases[i].text, k, got, want);
    }
    crn_arena_free(&a);
    run_close(&b);
  }
}

/* Results of other shapes and dtypes, listed. */
static void test_others(void **state) {
  (void)state;
  static const struct {
    const char *text;
    crn_dtype dtype;
    int n;
    double want[6];
  } cases[] = {
      {"tf.reduce_sum(source(2), axis=1)", CRN_I32, 2, {3, 3}},
      {"tf.reduce_max(source(2), axis=[0, 1], keepdims=True)", CRN_I32, 1, {7}},
      {"tf.reduce_sum(source(2), reduction_indices=0)", CRN_I32, 3, {7, -2, 1}},
      {"tf.math.reduce_std(tf.constant([1., 3.]))", CRN_F32, 1, {1}},
      {"tf.math.count_nonzero(source(2))", CRN_I64, 1, {5}},
      {"tf.floordiv(source(2), 3)", CRN_I32, 6, {2, -3, 1, 0, 1, -1}},
      {"source(2) % 3", CRN_I32, 6, {1, 2, 0, 0, 2, 1}},
      {"source(2) / 2", CRN_F64, 6, {3.5, -3.5, 1.5, 0, 2.5, -1}},
      {"tf.div(source(2), 2)", CRN_I32, 6, {3, -4, 1, 0, 2, -1}},
      {"tf.minimum(source(2), source(2) - 1)", CRN_I32, 6, {6, -8, 2, -1, 4, -3}},
      {"tf.maximum(0, source(2))", CRN_I32, 6, {7, 0, 3, 0, 5, 0}},
      {"tf.argmax(source(0), axis=1, output_type=tf.int32)", CRN_I32, 2, {2, 2}},
      {"tf.argmin(source(0), -1)", CRN_I64, 2, {1, 1}},
      {"tf.argsort(source(0), axis=-1, direction='DESCENDING', stable=True)", CRN_I32, 6, {2, 0, 1, 2, 0, 1}},
      {"tf.cast(tf.round((source(2) + 1) / 2), dtype=\"int32\")", CRN_I32, 6, {4, -3, 2, 0, 3, 0}},
      {"tf.to_int32(tf.to_float(source(2)) * 1.2)", CRN_I32, 6, {8, -8, 3, 0, 6, -2}},
      {"tf.logical_not(source(3))", CRN_BOOL, 2, {0, 1}},
      {"where_bc(source(3), source(2), 9)", CRN_I32, 6, {7, -7, 3, 9, 9, 9}},
      {"tf.where(tf.equal(source(2), 5), 0, source(2))", CRN_I32, 6, {7, -7, 3, 0, 0, -2}},
      {"tf.sequence_mask([1, 0, 2])", CRN_BOOL, 6, {1, 0, 0, 0, 1, 1}},
      {"sequence_mask_time_major([1, 2], 3)", CRN_BOOL, 6, {1, 1, 0, 1, 0, 0}},
      {"tf.range(-2, 3, 2)", CRN_I32, 3, {-2, 0, 2}},
      {"tf.range(0., 1., 0.4)", CRN_F32, 3, {0, 0.4, 0.8}},
      {"tf.shape(source(0))[1]", CRN_I32, 1, {3}},
      {"tf.size(source(0)) + tf.rank(source(0))", CRN_I32, 1, {8}},
      {"tf.norm(tf.constant([3., 4.]))", CRN_F32, 1, {5}},
      {"tf.math.l2_normalize([3., 4.], axis=0)", CRN_F32, 2, {0.6, 0.8}},
      {"l1_normalized(tf.constant([1., -3.]))", CRN_F32, 2, {0.25, -0.75}},
      {"tf.math.reduce_logsumexp(tf.math.log([1., 3.]), axis=0)", CRN_F32, 1, {1.3862943611}},
      {"tf.nn.softmax([[0., 0.], [1., 3.]], axis=0)", CRN_F32, 4, {0.26894142, 0.04742587, 0.73105858, 0.95257413}},
      {"lin_exp_normed(tf.constant([0., 2.]))", CRN_F32, 2, {0.25, 0.75}},
      {"tf.one_hot([1], 2, on_value=5, off_value=-1, axis=0, dtype='int32')", CRN_I32, 2, {-1, 5}},
      {"tf.reverse_sequence(source(2), [2, 3], seq_axis=1, batch_axis=0)", CRN_I32, 6, {-7, 7, 3, -2, 5, 0}},
      {"nan_to_num(tf.constant([float('nan'), 1.]))", CRN_F32, 2, {0, 1}},
      {"tf.broadcast_to(source(3), (2, 2))", CRN_BOOL, 4, {1, 0, 1, 0}},
      {"source(2)[1, -1]", CRN_I32, 1, {-2}},
      {"source(2)[-1:, 1:0:-1]", CRN_I32, 1, {5}},
      {"source(2)[0, tf.shape(source(2))[1] - 1]", CRN_I32, 1, {3}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench_run b;
    crn_arena a = {0};
    run_open(&b, CRN_F32, NULL, 1);
    crn_ev v = value_of(&b, &a, cases[i].text);
    char d[96];
    if (v.kind != CRN_EV_TENSOR || v.u.t->dtype != cases[i].dtype || crn_t_size(v.u.t) != cases[i].n)
      fail_msg("%s: %s", cases[i].text, crn_ev_describe(&v, d, sizeof d));
    for (int k = 0; k < cases[i].n; k++)
      if (!(fabs(crn_t_get(v.u.t, k) - cases[i].want[k]) < 1e-6))
        fail_msg("%s: element %d is %g, not %g", cases[i].text, k, crn_t_get(v.u.t, k), cases[i].want[k]);
    crn_arena_free(&a);
    run_close(&b);
  }
}

/* safe_log right behind softmax, sigmoid and exp has no floor, also through reshapes; else it has. */
static void test_exact_logs(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double want;
  } cases[] = {
      {"safe_log(tf.exp(tf.constant([-500.])))", -500},
      {"safe_log(tf.sigmoid(tf.constant([-500.])))", -500},
      {"safe_log(tf.nn.softmax(tf.constant([0., 500.])))[0]", -500},
      {"safe_log(tf.reshape(tf.transpose(tf.nn.softmax(tf.constant([[0., 500.]]))), [-1]))[0]", -500},
      {"safe_log(tf.identity(tf.exp(tf.constant([-500.]))))", -500},
      {"safe_log(tf.gather_nd(tf.exp(tf.constant([1., -500.])), [[1]]))", -500},
      {"safe_log(tf.exp(tf.constant([-500.])) * 1.0)", -46.051701859880914},
      {"safe_log(tf.constant([0.]), eps=1e-10)", -23.025850929940457},
      {"safe_log(2.0)", 0.69314718055994531},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench_run b;
    crn_arena a = {0};
    run_open(&b, CRN_F64, NULL, 1);
    crn_ev v = value_of(&b, &a, cases[i].text);
    if (!(fabs(crn_t_get(v.u.t, 0) - cases[i].want) < 1e-9)) fail_msg("%s: %g", cases[i].text, crn_t_get(v.u.t, 0));
    crn_arena_free(&a);
    run_close(&b);
  }
  bench_run b;
  run_open(&b, CRN_F64, NULL, 1);
  crn_tensor *x = crn_t_full(&b.r, CRN_F64, 1, (const int64_t[]){2}, 700);
  crn_made made = {"log_sigmoid", x, NULL};
  crn_tensor *y = crn_safe_exp_of(&b.r, crn_unary(&b.r, CRN_U_LOG_SIGMOID, x), &made, 1e-20);
  assert_true(crn_t_get(y, 0) == 1);
  run_close(&b);
}

static int build_expression(crn_run *r, crn_tensor *const *in, const void *arg, crn_tensor **out) {
  crn_arena a = {0};
  caller c = {{crn_ev_of_tensor(in[0]), crn_ev_of_tensor(in[1])}, 2};
  crn_eval_env env = {&c, "layer", caller_name, caller_attr, caller_item, caller_call};
  crn_eval *e = NULL;
  crn_ev v = crn_ev_none();
  if (crn_eval_compile(&a, arg, &e, r->err) == CRN_OK && crn_eval_run(r, e, &env, &v) == CRN_OK) out[0] = v.u.t;
  crn_arena_free(&a);
  return out[0] ? 1 : 0;
}

static void test_gradients(void **state) {
  (void)state;
  static const char *const texts[] = {
      "source(0) * scale + source(1) * n - 1",
      "tf.where(source(0) > source(1), source(0) ** 2, tf.sin(source(1)))",
      "source(0) / tf.reduce_sum(tf.abs(source(0)), axis=-1, keepdims=True)",
      "safe_log(tf.nn.softmax(source(0))) * source(1)",
      "tf.math.l2_normalize(source(0), axis=1) + source(1)[:, ::-1]",
      "lin_exp_normed(source(0)) * source(1) ** 2",
      "tf.nn.softmax(source(0), axis=0) - tf.math.reduce_std(source(1), axis=1, keepdims=True)",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    input in[2] = {real_input(1, 1, true, 2, (const int64_t[]){3, 4}),
                   real_input(2, 1, true, 2, (const int64_t[]){3, 4})};
    check_all(build_expression, texts[i], 2, in);
    inputs_free(2, in);
  }
}

/* Random functions: reproducible, different from call to call, within their range. */
static void test_random(void **state) {
  (void)state;
  bench_run b;
  crn_arena a = {0};
  run_open(&b, CRN_F32, NULL, 1);
  crn_tensor *u = value_of(&b, &a, "tf.random.uniform(tf.shape(source(0)), minval=0, maxval=4, dtype=\"int32\")").u.t;
  for (int i = 0; i < 6; i++) assert_true(crn_t_get(u, i) >= 0 && crn_t_get(u, i) < 4);
  crn_tensor *d = value_of(&b, &a, "tf.random.normal([50]) - tf.random.normal([50])").u.t;
  double differ = 0;
  for (int i = 0; i < 50; i++) differ += crn_t_get(d, i) != 0;
  assert_true(differ > 45);
  d = value_of(&b, &a, "tf.random.uniform([50])").u.t;
  crn_tensor *again = value_of(&b, &a, "tf.random.uniform([50])").u.t;
  for (int i = 0; i < 50; i++) assert_true(crn_t_get(d, i) == crn_t_get(again, i));
  crn_tensor *s = value_of(&b, &a, "tf.sort(tf.random.shuffle(tf.range(20)))").u.t;
  for (int i = 0; i < 20; i++) assert_true(crn_t_get(s, i) == i);
  crn_tensor *p = value_of(&b, &a, "tf.nn.dropout(tf.ones([1000]), rate=0.25)").u.t;
  double kept = 0;
  for (int i = 0; i < 1000; i++) kept += crn_t_get(p, i) != 0;
  assert_true(kept > 680 && kept < 820);
  crn_arena_free(&a);
  run_close(&b);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *word;
  } cases[] = {
      {"source(0) * ", "expected a value, found the end"},
      {"source(0) * ", "1:13"},
      {"", "expected a value"},
      {"source(0", "expected ',' or ')'"},
      {"source(0) source(1)", "unexpected 's'"},
      {"x = 1", "assignment"},
      {"lambda x: x", "not implemented: lambda"},
      {"[x for x in range(3)]", "not implemented: comprehensions"},
      {"{1: 2}", "not implemented: dicts"},
      {"f(*a)", "not implemented: *"},
      {"f'{x}'", "f-strings"},
      {"'abc", "without closing quote"},
      {"source(0)[]", "expected an index"},
      {"1 if 2", "expected 'else'"},
      {"a.", "expected a name after '.'"},
      {"f(a=1, 2)", "positional argument after"},
      {"1 << 2", "unexpected '<'"},
      {"and 1", "found 'and'"},
      {"99999999999999999999", "out of range"},
      {"tf.nn.reluu(source(0))", "nearest is 'tf.nn.relu'"},
      {"tf.nn.reluu(source(0))", "creturnn functions"},
      {"tf", "alone"},
      {"source(0) * foo", "unknown name 'foo'"},
      {"safe_lgo(source(0))", "nearest is 'safe_log'"},
      {"source(9)", "no such source"},
      {"source(0) + source(2)", "dtypes differ"},
      {"source(2) * 0.5", "can't be used as int32"},
      {"tf.squeeze(source(0), axis=1)", "tf.squeeze"},
      {"tf.squeeze(source(0), axis=5)", "[-2, 2)"},
      {"tf.squeeze(source(0), axes=1)", "no argument 'axes'"},
      {"tf.squeeze(source(0), input=source(0))", "given twice"},
      {"tf.squeeze()", "'input' is missing"},
      {"tf.exp(1, 2, 3)", "at most 2"},
      {"tf.cast(source(0), 'float23')", "expected a dtype"},
      {"1 / 0", "division by zero"},
      {"1 % 0.0", "division by zero"},
      {"'a' + 1", "not defined for str and int"},
      {"source(0) and 1", "no truth value"},
      {"0 < source(0) < 1", "no truth value"},
      {"(1, 2)[2]", "outside of a tuple"},
      {"source(0)[2]", "outside of axis 0"},
      {"source(0)[0, 0, 0]", "3 indices"},
      {"source(0)[source(2)]", "use tf.gather"},
      {"source(0)[..., ...]", "one ellipsis"},
      {"source(0).foo", "no attribute 'foo'"},
      {"self.foo", "no attribute 'foo'"},
      {"(1)(2)", "can't be called"},
      {"9223372036854775807 + 1", "out of range"},
      {"tf.where(source(3))", "not implemented"},
      {"tf.reshape(source(0), [4, 2])", "tf.reshape"},
      {"len(5)", "no length"},
      {"tf.split(source(0), 2, axis=1)", "equal parts"},
      {"tf.argsort(source(0), direction='UP')", "ASCENDING"},
      {"tf.random.uniform([2], dtype=tf.int32)", "maxval"},
      {"tf.pad(source(0), [1, 2])", "a pair per axis"},
      {"tf.pad(source(0), [[1, 2], [0, 0]], mode='REFLECT')", "at most 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench_run b;
    crn_arena a = {0};
    run_open(&b, CRN_F32, NULL, 1);
    caller c;
    crn_eval_env env = caller_env(&b.r, &c);
    crn_eval *e = NULL;
    crn_ev v;
    if (crn_eval_compile(&a, cases[i].text, &e, &b.err) == CRN_OK && crn_eval_run(&b.r, e, &env, &v) == CRN_OK)
      fail_msg("%s has a value", cases[i].text);
    if (!strstr(crn_err_text(&b.err), cases[i].word))
      fail_msg("%s: no '%s' in: %s", cases[i].text, cases[i].word, crn_err_text(&b.err));
    assert_non_null(strchr(crn_err_text(&b.err), '"')); /* the text itself is quoted */
    crn_arena_free(&a);
    run_close(&b);
  }
}

static bool note_name(void *user, const char *name, bool builtin) {
  char *list = user; /* of 200 */
  const size_t n = strlen(list);
  snprintf(list + n, 200 - n, "%s%s", name, builtin ? "! " : " ");
  return true;
}

static bool note_call(void *user, const crn_eval_call *call) {
  int *seen = user;
  if (call->n_pos > 0 && call->pos[0].kind == CRN_EV_INT)
    seen[call->pos[0].u.i + 1]++;
  else
    seen[0]++;
  if (call->n_named == 1 && !strcmp(call->names[0], "auto_convert") && call->named[0].kind == CRN_EV_BOOL) seen[9]++;
  return true;
}

static void test_looking(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  crn_eval *e = NULL;
  char names[200] = "";
  int seen[10] = {0};
  assert_int_equal(
      crn_eval_compile(&a, "source(0) + tf.exp(source(1, auto_convert=False)) * safe_log(source(k)) - x[source(-1):1]",
                       &e, &err),
      CRN_OK);
  assert_true(crn_eval_each_name(e, note_name, names));
  assert_string_equal(names, "source source safe_log! source k x source ");
  assert_true(crn_eval_each_call(e, "source", note_call, seen));
  assert_true(seen[0] == 2 && seen[1] == 1 && seen[2] == 1 && seen[9] == 1);
  crn_err_clear(&err);
  crn_arena_free(&a);
}

static void test_values_of_configs(void **state) {
  (void)state;
  bench_run b;
  crn_arena a = {0};
  crn_value *v = NULL;
  crn_ev out;
  run_open(&b, CRN_F32, NULL, 1);
  assert_int_equal(crn_v_parse_literal(&a, "(1, 2.5, 'x', None, [True])", "t", &v, &b.err), CRN_OK);
  assert_true(crn_ev_of_value(&b.r, v, &out));
  assert_true(out.kind == CRN_EV_TUPLE && out.u.seq.n == 5 && out.u.seq.items[0].u.i == 1);
  assert_true(out.u.seq.items[4].u.seq.items[0].u.b);
  assert_int_equal(crn_v_parse_literal(&a, "{1: 2}", "t", &v, &b.err), CRN_OK);
  assert_false(crn_ev_of_value(&b.r, v, &out));
  crn_arena_free(&a);
  run_close(&b);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void test_table(void **state) {
  (void)state;
  crn_str text = {0};
  int n, n_rows = 0;
  const crn_oprow *rows;
  crn_optable_describe(&text);
  for (int f = 0; (rows = crn_optable_family(f, &n)); f++)
    for (int i = 0; i < n; i++, n_rows++) {
      assert_non_null(rows[i].fn);
      assert_true(strlen(rows[i].doc) > 0);
      char names[256], *save = NULL;
      snprintf(names, sizeof names, "%s", rows[i].names);
      for (char *p = strtok_r(names, " ", &save); p;
           p = strtok_r(NULL, " ", &save)) { /* every name finds its own row */
        char full[128];
        snprintf(full, sizeof full, "%s%s", *p == '@' ? "" : "tf.",
                 *p == '@'               ? p + 1
                 : !strncmp(p, "v1.", 3) ? p + 3
                                         : p);
        if (crn_optable_find(full) != &rows[i]) fail_msg("%s is another row's name too", full);
        assert_non_null(strstr(crn_str_get(&text), full));
      }
    }
  assert_true(n_rows > 140);
  assert_null(crn_optable_find("tf.@safe_log"));
  assert_null(crn_optable_find("relu"));
  assert_null(crn_optable_find("tf.compat.v2.log_sigmoid"));
  assert_non_null(crn_optable_find("tf.compat.v1.nn.relu"));
  crn_str_free(&text);
}

/* ---- damaged texts ----------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return *s >> 33;
}

static void run_damaged(const char *text) {
  bench_run b;
  crn_arena a = {0};
  run_open(&b, CRN_F32, NULL, 1);
  caller c;
  crn_eval_env env = caller_env(&b.r, &c);
  crn_eval *e = NULL;
  crn_ev v;
  if (crn_eval_compile(&a, text, &e, &b.err) == CRN_OK) (void)crn_eval_run(&b.r, e, &env, &v);
  crn_arena_free(&a);
  run_close(&b);
}

static void test_damaged(void **state) {
  (void)state;
  static const char *const seeds[] = {
      "tf.exp(-(source(0) - source(1))**2 / (5.0**2))",
      "(source(0, auto_convert=False), tf.squeeze(self.sources[0], axis=1) / tf.cast(source(2), tf.float32))[-1]",
      "source(0)[:, 1:3:2] if n > 2 and not None else tf.concat([source(0), source(1)], axis=-1)",
      "tf.where(tf.equal(source(2), 5), 0, source(2)) % 3 // 2",
      "safe_log(tf.nn.softmax(source(0))) * scale - 'a' 'b\\n' + (1, [2, ...], 3.5e-2, 0x1f)[0]",
      "tf.random.uniform(tf.shape(source(0)), minval=0, maxval=4, dtype=\"int32\")",
      "tf.pad(tf.reshape(source(0), [-1, 2]), [[1, 1], [0, 2]], mode='SYMMETRIC', constant_values=2)",
      "1 < 2 <= n != 4 in (1, 2) is not None or ~5 ^ 3 & 2 | 1",
  };
  static const char letters[] = "()[]{},.:=+-*/%@&|^~<>!'\"0123456789abextfnsource _\n\\#\x80";
  enum { N_SEEDS = sizeof seeds / sizeof seeds[0] };
  uint64_t s = 20240607;
  for (int i = 0; i < N_SEEDS; i++)
    for (size_t n = 0; n <= strlen(seeds[i]); n++) { /* cut at every place */
      char text[256];
      snprintf(text, sizeof text, "%.*s", (int)n, seeds[i]);
      run_damaged(text);
    }
  for (int round = 0; round < 4000; round++) {
    char text[512];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", seeds[next_random(&s) % N_SEEDS]);
    for (uint64_t k = next_random(&s) % 4 + 1; k > 0; k--) {
      size_t at = next_random(&s) % len;
      switch (next_random(&s) % 4) {
      case 0:
        text[at] = letters[next_random(&s) % (sizeof letters - 1)];
        break;
      case 1: /* leave a letter out */
        if (len > 1) memmove(text + at, text + at + 1, len-- - at);
        break;
      case 2: /* put one in */
        memmove(text + at + 1, text + at, len++ - at + 1);
        text[at] = letters[next_random(&s) % (sizeof letters - 1)];
        break;
      default: { /* a piece of another text */
        const char *other = seeds[next_random(&s) % N_SEEDS];
        size_t from = next_random(&s) % strlen(other), n = next_random(&s) % 12;
        for (size_t j = 0; j < n && other[from + j] && at + j < len; j++) text[at + j] = other[from + j];
      }
      }
    }
    run_damaged(text);
  }
}

static void test_nesting(void **state) {
  (void)state;
  static const char *const pieces[] = {"(",  "[",   "-",  "not ", "tf.exp(", "1+", "1 if 1 else ",
                                       "x[", "2**", "1,", "a.",   "(1)[0:"};
  enum { N = 20000 };
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
    size_t len = strlen(pieces[i]);
    char *text = malloc(N * len + 2);
    for (int k = 0; k < N; k++) memcpy(text + (size_t)k * len, pieces[i], len);
    memcpy(text + N * len, "1", 2);
    run_damaged(text);
    free(text);
  }
  crn_str sum = {0};
  crn_str_add(&sum, "source(0)");
  for (int i = 0; i < 300; i++) crn_str_add(&sum, " + source(1)");
  bench_run b;
  crn_arena a = {0};
  run_open(&b, CRN_F64, NULL, 1);
  crn_ev v = value_of(&b, &a, crn_str_get(&sum));
  assert_true(fabs(crn_t_get(v.u.t, 0) - (A[0] + 300 * B[0])) < 1e-9);
  crn_arena_free(&a);
  crn_str_free(&sum);
  run_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers),    cmocka_unit_test(test_elements),  cmocka_unit_test(test_others),
      cmocka_unit_test(test_exact_logs), cmocka_unit_test(test_gradients), cmocka_unit_test(test_random),
      cmocka_unit_test(test_errors),     cmocka_unit_test(test_looking),   cmocka_unit_test(test_values_of_configs),
      cmocka_unit_test(test_table),      cmocka_unit_test(test_damaged),   cmocka_unit_test(test_nesting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
