/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers: twelve steps of every class, in float and double, against a scalar recurrence written here a second time;
 * hand-computed first steps; options, old config keys and mistakes in them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/optimizer.h"

enum { STEPS = 12, N = 5 };

static crn_value *literal(crn_arena *a, const char *text) {
  crn_err err = {0};
  crn_value *v = NULL;
  if (crn_v_parse_literal(a, text, "test", &v, &err) != CRN_OK) fail_msg("%s: %s", text, crn_err_text(&err));
  return v;
}

static crn_optimizer optimizer(const char *value, const char *config) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_optimizer o;
  if (crn_optimizer_from_value(literal(&a, value), literal(&a, config), NULL, &o, &err) != CRN_OK)
    fail_msg("%s: %s", value, crn_err_text(&err));
  crn_arena_free(&a);
  return o;
}

static double gradient(int step, int i) { return sin(1.7 * step + 0.9 * i + 0.3) * (i == 3 ? 0.05 : 1.0); }

/* ---- the second writing of the rules: one element, everything in double -------------------------------------------
 */

typedef struct cell {
  double w, a, b, c; /* weight and state */
} cell;

typedef void (*scalar_rule)(cell *x, double g, int t, double lr, double norm);

static void ref_gd(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  x->w = x->w - lr * g;
}
static void ref_momentum(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  x->a = 0.9 * x->a + g;
  x->w = x->w - lr * x->a;
}
static void ref_nesterov(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  x->a = 0.9 * x->a + g;
  x->w = x->w - lr * g - lr * 0.9 * x->a;
}
static void ref_adam(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  x->a += 0.1 * (g - x->a);
  x->b += 0.001 * (g * g - x->b);
  double alpha = lr * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t));
  x->w -= alpha * x->a / (sqrt(x->b) + 1e-3);
}
static void ref_nadam(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  x->a += 0.1 * (g - x->a);
  x->b += 0.001 * (g * g - x->b);
  double alpha = lr * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t));
  x->w -= alpha * (0.9 * x->a + 0.1 * g) / (sqrt(x->b) + 1e-3);
}
static void ref_amsgrad(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  x->a += 0.1 * (g - x->a);
  x->b += 0.001 * (g * g - x->b);
  x->c = fmax(x->c, x->b);
  double alpha = lr * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t));
  x->w -= alpha * x->a / (sqrt(x->c) + 1e-3);
}
static void ref_rmsprop(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  if (t == 1) x->a = 1;
  x->a += 0.2 * (g * g - x->a);
  x->b = 0.5 * x->b + lr * g / sqrt(x->a + 1e-3);
  x->w -= x->b;
}
static void ref_rmsprop_centered(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  if (t == 1) x->a = 1;
  x->a += 0.1 * (g * g - x->a);
  x->c += 0.1 * (g - x->c);
  x->w -= lr * g / sqrt(x->a - x->c * x->c + 1e-3);
}
static void ref_adagrad(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  if (t == 1) x->a = 0.1;
  x->a += g * g;
  x->w -= lr * g / sqrt(x->a);
}
static void ref_adadelta(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  x->a += 0.05 * (g * g - x->a);
  double u = sqrt((x->b + 1e-3) / (x->a + 1e-3)) * g;
  x->b += 0.05 * (u * u - x->b);
  x->w -= lr * u;
}
static void ref_normalized(cell *x, double g, int t, double lr, double norm) {
  (void)t;
  x->w -= lr * g / norm;
}
static void ref_neural1(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  x->a += 0.1 * (g - x->a);
  x->w -= lr * g * ((x->a > 0) == (g > 0) ? 1 : 0.1);
}
static void ref_variance(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  x->a += 0.1 * (g - x->a);
  double d = pow(g - x->a, 2);
  x->b += 0.001 * (d - x->b);
  x->w -= lr * g * fmin(x->b / (d + 1e-3), 1);
}
/* FTRL keeps the minimiser of z·w + (sqrt(a')/lr)/2·w² + l2·w² + l1·|w|. */
static void ref_ftrl(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  if (t == 1) x->a = 0.1;
  double next = x->a + g * g;
  x->b += g - (sqrt(next) - sqrt(x->a)) / lr * x->w;
  x->a = next;
  double shrunk = fabs(x->b) - 0.2;
  x->w = shrunk > 0 ? -copysign(shrunk, x->b) / (sqrt(next) / lr + 2 * 0.3) : 0;
}
static void ref_proximal_adagrad(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  if (t == 1) x->a = 0.1;
  x->a += g * g;
  double r = lr / sqrt(x->a), y = x->w - r * g;
  x->w = copysign(fmax(fabs(y) - r * 0.2, 0), y) / (1 + r * 0.3);
}
static void ref_proximal_gd(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  double y = x->w - lr * g;
  x->w = copysign(fmax(fabs(y) - lr * 0.2, 0), y) / (1 + lr * 0.3);
}
static void ref_keras_sgd(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  x->a = 0.9 * x->a - lr * g;
  x->w += 0.9 * x->a - lr * g;
}
static void ref_adamw(cell *x, double g, int t, double lr, double norm) {
  x->w -= lr * 0.1 * x->w;
  ref_adam(x, g, t, lr, norm);
}
static void ref_adamax(cell *x, double g, int t, double lr, double norm) {
  (void)norm;
  x->a += 0.1 * (g - x->a);
  x->b = fmax(0.999 * x->b, fabs(g));
  x->w -= lr / (1 - pow(0.9, t)) * x->a / (x->b + 1e-3);
}
static void ref_lion(cell *x, double g, int t, double lr, double norm) {
  (void)t, (void)norm;
  double c = 0.9 * x->a + 0.1 * g;
  x->w -= lr * 0.1 * x->w + lr * (c > 0 ? 1 : -1);
  x->a += 0.01 * (g - x->a);
}

static const struct {
  const char *value;
  scalar_rule rule;
} cases[] = {
    {"{'class': 'GradientDescent'}", ref_gd},
    {"{'class': 'CustomGradientDescent'}", ref_gd},
    {"{'class': 'momentum', 'momentum': 0.9}", ref_momentum},
    {"{'class': 'MomentumOptimizer', 'momentum': 0.9, 'use_nesterov': True}", ref_nesterov},
    {"{'class': 'adam', 'epsilon': 1e-3}", ref_adam},
    {"{'class': 'CustomAdam', 'epsilon': 1e-3, 'use_locking': True}", ref_adam},
    {"{'class': 'NadamOptimizer', 'epsilon': 1e-3}", ref_nadam},
    {"{'class': 'amsgrad', 'epsilon': 1e-3}", ref_amsgrad},
    {"{'class': 'RMSProp', 'epsilon': 1e-3, 'decay': 0.8, 'momentum': 0.5}", ref_rmsprop},
    {"{'class': 'rmsprop', 'epsilon': 1e-3, 'centered': True}", ref_rmsprop_centered},
    {"{'class': 'adagrad'}", ref_adagrad},
    {"{'class': 'adadelta', 'epsilon': 1e-3}", ref_adadelta},
    {"{'class': 'NormalizedSGD'}", ref_normalized},
    {"{'class': 'NeuralOptimizer1'}", ref_neural1},
    {"{'class': 'GradVarianceScaled', 'epsilon': 1e-3}", ref_variance},
    {"{'class': 'ftrl', 'l1_regularization_strength': 0.2, 'l2_regularization_strength': 0.3}", ref_ftrl},
    {"{'class': 'ProximalAdagrad', 'l1_regularization_strength': 0.2, 'l2_regularization_strength': 0.3}",
     ref_proximal_adagrad},
    {"{'class': 'ProximalGradientDescent', 'l1_regularization_strength': 0.2, 'l2_regularization_strength': 0.3}",
     ref_proximal_gd},
    {"{'class': 'sgd', 'momentum': 0.9, 'nesterov': True}", ref_keras_sgd},
    {"{'class': 'adamw', 'epsilon': 1e-3, 'weight_decay': 0.1}", ref_adamw},
    {"{'class': 'adamax', 'epsilon': 1e-3}", ref_adamax},
    {"{'class': 'lion', 'weight_decay': 0.1}", ref_lion},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static double start(int i) { return 0.5 - 0.3 * i; }

static void reference_run(scalar_rule rule, double lr, double *w) {
  cell x[N] = {0};
  for (int i = 0; i < N; i++) x[i].w = start(i);
  for (int t = 1; t <= STEPS; t++) {
    double norm = 0;
    for (int i = 0; i < N; i++) norm += gradient(t, i) * gradient(t, i);
    for (int i = 0; i < N; i++) rule(&x[i], gradient(t, i), t, lr, sqrt(norm));
  }
  for (int i = 0; i < N; i++) w[i] = x[i].w;
}

static void run_double(const crn_optimizer *o, double lr, double *w) {
  double slot_memory[CRN_OPTIMIZER_MAX_SLOTS][N], *slots[CRN_OPTIMIZER_MAX_SLOTS], g[N];
  for (int k = 0; k < CRN_OPTIMIZER_MAX_SLOTS; k++) {
    slots[k] = k < crn_optimizer_slot_count(o->desc) ? slot_memory[k] : NULL;
    for (int i = 0; slots[k] && i < N; i++) slots[k][i] = crn_optimizer_slot_start(o, k);
  }
  for (int i = 0; i < N; i++) w[i] = start(i);
  for (int t = 1; t <= STEPS; t++) {
    crn_optimizer_step s = {.options = o->options, .lr = lr, .t = t};
    for (int i = 0; i < N; i++) {
      g[i] = gradient(t, i);
      s.norm_sq += g[i] * g[i];
    }
    o->desc->update_f64(&s, w, g, slots, N);
  }
}

static void run_float(const crn_optimizer *o, double lr, float *w) {
  float slot_memory[CRN_OPTIMIZER_MAX_SLOTS][N], *slots[CRN_OPTIMIZER_MAX_SLOTS], g[N];
  for (int k = 0; k < CRN_OPTIMIZER_MAX_SLOTS; k++) {
    slots[k] = k < crn_optimizer_slot_count(o->desc) ? slot_memory[k] : NULL;
    for (int i = 0; slots[k] && i < N; i++) slots[k][i] = (float)crn_optimizer_slot_start(o, k);
  }
  for (int i = 0; i < N; i++) w[i] = (float)start(i);
  for (int t = 1; t <= STEPS; t++) {
    crn_optimizer_step s = {.options = o->options, .lr = lr, .t = t};
    for (int i = 0; i < N; i++) {
      g[i] = (float)gradient(t, i);
      s.norm_sq += (double)g[i] * (double)g[i];
    }
    o->desc->update_f32(&s, w, g, slots, N);
  }
}

static void test_twelve_steps(void **state) {
  (void)state;
  for (int c = 0; c < N_CASES; c++) {
    crn_optimizer o = optimizer(cases[c].value, "{}");
    double want[N], got[N];
    float got_f[N];
    reference_run(cases[c].rule, 0.1, want);
    run_double(&o, 0.1, got);
    run_float(&o, 0.1, got_f);
    for (int i = 0; i < N; i++) {
      if (!(fabs(got[i] - want[i]) <= 1e-10))
        fail_msg("%s element %d: %.15g, expected %.15g", cases[c].value, i, got[i], want[i]);
      if (!(fabs((double)got_f[i] - want[i]) <= 2e-5))
        fail_msg("%s element %d: float %.9g, expected %.9g", cases[c].value, i, (double)got_f[i], want[i]);
      if (fabs(want[i] - start(i)) < 1e-8) fail_msg("%s element %d does not move", cases[c].value, i);
    }
  }
}

static void test_every_class_is_covered(void **state) {
  (void)state;
  size_t n;
  const crn_optimizer_desc *list = crn_optimizer_list(&n);
  for (size_t i = 0; i < n; i++) {
    bool covered = !list[i].update_f32;
    for (int c = 0; c < N_CASES; c++) covered = covered || optimizer(cases[c].value, "{}").desc == &list[i];
    if (!covered) fail_msg("no case for optimizer %s", list[i].name);
    assert_true(!list[i].update_f32 == !list[i].update_f64);
    assert_true((list[i].rows == CRN_ROWS_DECAY) == (list[i].decay_f32 != NULL));
    assert_non_null(list[i].doc);
  }
}

/* First step from hand: m/(sqrt v) is sign g, so that nearly exactly lr is taken, whatever g. */
static void test_adam_first_step(void **state) {
  (void)state;
  crn_optimizer o = optimizer("{'class': 'adam'}", "{}");
  assert_true(o.options[2] == 1e-16);
  double w = 1, g = 1e-6, m = 0, v = 0, *slots[3] = {&m, &v, NULL};
  crn_optimizer_step s = {.options = o.options, .lr = 0.25, .t = 1};
  o.desc->update_f64(&s, &w, &g, slots, 1);
  assert_true(fabs(w - 0.75) < 1e-7);
  /* epsilon goes to the uncorrected root: 0.001·1 + 1 in the denominator */
  o = optimizer("{'class': 'adam', 'epsilon': 1.0, 'beta2': 0.99}", "{}");
  w = 1, g = 1, m = 0, v = 0;
  o.desc->update_f64(&s, &w, &g, slots, 1);
  assert_true(fabs(w - (1 - 0.25 * sqrt(0.01) / 0.1 * 0.1 / (sqrt(0.01) + 1))) < 1e-12);
}

static void test_zero_gradient_is_harmless(void **state) {
  (void)state;
  for (int c = 0; c < N_CASES; c++) {
    if (strstr(cases[c].value, "regularization") || strstr(cases[c].value, "weight_decay")) continue;
    crn_optimizer o = optimizer(cases[c].value, "{}");
    for (int i = 0; o.desc->options[i].name; i++)
      if (strcmp(o.desc->options[i].name, "epsilon") == 0) o.options[i] = 1e-16;
    float w = 2, g = 0, mem[3], *slots[3];
    for (int k = 0; k < 3; k++) {
      mem[k] = k < crn_optimizer_slot_count(o.desc) ? (float)crn_optimizer_slot_start(&o, k) : 0;
      slots[k] = &mem[k];
    }
    for (int t = 1; t < 4; t++) {
      crn_optimizer_step s = {.options = o.options, .lr = 0.1, .t = t};
      o.desc->update_f32(&s, &w, &g, slots, 1);
    }
    if (w != 2.0f) fail_msg("%s: %g", cases[c].value, (double)w);
  }
}

/* ---- options -------------------------------------------------------------------------------------------------------
 */

static crn_optimizer from_config(const char *config) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_optimizer o;
  if (crn_optimizer_from_config(literal(&a, config), &o, &err) != CRN_OK)
    fail_msg("%s: %s", config, crn_err_text(&err));
  crn_arena_free(&a);
  return o;
}

static void test_config_forms(void **state) {
  (void)state;
  assert_string_equal(from_config("{}").desc->name, "gradientdescent");
  assert_string_equal(from_config("{'adam': True}").desc->name, "adam");
  assert_string_equal(from_config("{'adam': False, 'nadam': True}").desc->name, "nadam");
  assert_string_equal(from_config("{'adam': 'True', 'nadam': True}").desc->name, "adam");
  assert_string_equal(from_config("{'adadelta': True}").desc->name, "adadelta");
  assert_string_equal(from_config("{'adagrad': 1}").desc->name, "adagrad");
  assert_string_equal(from_config("{'optimizer': 'Adam'}").desc->name, "adam");
  crn_optimizer o = from_config("{'rmsprop': 0.7, 'momentum': 0.3, 'optimizer_epsilon': 1e-6}");
  assert_string_equal(o.desc->name, "rmsprop");
  assert_true(o.options[0] == 0.7 && o.options[1] == 0.3 && o.options[2] == 1e-6);
  o = from_config("{'rmsprop': True}");
  assert_true(o.options[0] == 0.9 && o.options[1] == 0 && o.options[2] == 1e-16);
  o = from_config("{'momentum': 0.9}");
  assert_string_equal(o.desc->name, "momentum");
  assert_true(o.options[0] == 0.9);
  o = from_config("{'optimizer': {'class': 'momentum'}, 'momentum': 0.6}");
  assert_true(o.options[0] == 0.6 && o.lr_multiplier == 1);
  o = from_config(
      "{'optimizer': {'class': 'momentum', 'momentum': 0.1, 'learning_rate_multiplier': 3}, 'momentum': 0.6,"
      " 'behavior_version': 16}");
  assert_true(o.options[0] == 0.1 && o.lr_multiplier == 3);
  o = from_config("{'optimizer': {'class': 'adam', 'epsilon': 1e-8}, 'optimizer_epsilon': 1e-5}");
  assert_true(o.options[2] == 1e-8);
}

static void test_class_of_the_default(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  crn_optimizer base = optimizer("{'class': 'nadam', 'beta1': 0.5}", "{}"), o;
  assert_int_equal(crn_optimizer_from_value(literal(&a, "{'beta2': 0.8}"), NULL, &base, &o, &err), CRN_OK);
  assert_string_equal(o.desc->name, "nadam");
  assert_true(o.options[0] == 0.9 && o.options[1] == 0.8); /* the class only, not its options */
  crn_arena_free(&a);
}

static void test_mistakes(void **state) {
  (void)state;
  static const struct {
    const char *config, *text;
    crn_status status;
  } bad[] = {
      {"{'optimizer': {'class': 'adan'}}", "did you mean 'adam'", CRN_E_CONFIG},
      {"{'optimizer': {'class': 'adam', 'beta_1': 0.9}}", "did you mean 'beta1'", CRN_E_CONFIG},
      {"{'optimizer': {'class': 'adam', 'learning_rate': 0.1}}", "learning_rate_multiplier", CRN_E_CONFIG},
      {"{'optimizer': {'class': 'adam', 'epsilon': None}}", "epsilon", CRN_E_CONFIG},
      {"{'optimizer': {'class': 'adam', 3: 4}}", "strings", CRN_E_CONFIG},
      {"{'optimizer': {'beta1': 0.9}}", "'class' is missing", CRN_E_CONFIG},
      {"{'optimizer': {'class': 7}}", "class", CRN_E_CONFIG},
      {"{'optimizer': [1]}", "dict", CRN_E_CONFIG},
      {"{'optimizer': {'class': 'adafactor'}}", "not implemented", CRN_E_NOT_IMPLEMENTED},
      {"{'adam': True, 'momentum': 0.9}", "momentum", CRN_E_CONFIG},
      {"{'nadam': True, 'momentum': 0.9}", "momentum", CRN_E_CONFIG},
      {"{'adam': True, 'behavior_version': 2}", "behavior_version", CRN_E_CONFIG},
      {"{'rmsprop': 'much'}", "rmsprop", CRN_E_CONFIG},
      {"{'optimizer': {'class': 'adam'}, 'optimizer_epsilon': 'small'}", "optimizer_epsilon", CRN_E_CONFIG},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    crn_arena a = {0};
    crn_err err = {0};
    crn_optimizer o;
    crn_status status = crn_optimizer_from_config(literal(&a, bad[i].config), &o, &err);
    if (status != bad[i].status || !strstr(crn_err_text(&err), bad[i].text))
      fail_msg("%s: status %d, %s", bad[i].config, (int)status, crn_err_text(&err));
    crn_err_clear(&err);
    crn_arena_free(&a);
  }
}

static void test_description(void **state) {
  (void)state;
  crn_optimizer o = optimizer("{'class': 'adam', 'learning_rate_multiplier': 2}", "{}");
  crn_str text = {0};
  crn_optimizer_describe(&o, &text);
  assert_string_equal(crn_str_get(&text), "adam with options {'beta1': 0.9, 'beta2': 0.999, 'epsilon': 1e-16, "
                                          "'learning_rate_multiplier': 2.0}");
  crn_str_clear(&text);
  crn_optimizer_describe_slots(&o, &text);
  assert_string_equal(crn_str_get(&text), "['m', 'v']");
  crn_str_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_twelve_steps),    cmocka_unit_test(test_every_class_is_covered),
      cmocka_unit_test(test_adam_first_step), cmocka_unit_test(test_zero_gradient_is_harmless),
      cmocka_unit_test(test_config_forms),    cmocka_unit_test(test_class_of_the_default),
      cmocka_unit_test(test_mistakes),        cmocka_unit_test(test_description),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
