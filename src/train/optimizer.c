/* SPDX-License-Identifier: Apache-2.0
 *
 * Table of optimizers and the reading of their options. Adding one: a rule in optimizer_rules.inc.h and a row here.
 */
#include "train/optimizer.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "train/learning_rate_table.h"
#include "train/optimizer_rules.h"
#include "train/options.h"

#define UPDATE(rule) .update_f32 = crn_rule_##rule##_f32, .update_f64 = crn_rule_##rule##_f64
#define DECAY(rule) .decay_f32 = crn_rule_##rule##_f32, .decay_f64 = crn_rule_##rule##_f64
#define BETA1                                                                                                          \
  { "beta1", .9, "decay of the mean of gradients", NULL }
#define BETA2                                                                                                          \
  { "beta2", .999, "decay of the mean of squared gradients", NULL }
#define BETA_1                                                                                                         \
  { "beta_1", .9, "decay of the mean of gradients", NULL }
#define EPSILON                                                                                                        \
  { "epsilon", 1e-16, "added to the denominator", "optimizer_epsilon" }
#define MOMENTUM                                                                                                       \
  { "momentum", 0, "share of the last step that is kept", "momentum" }
#define ACCUMULATOR                                                                                                    \
  { "initial_accumulator_value", .1, "start of the sum of squared gradients", NULL }
#define L1                                                                                                             \
  { "l1_regularization_strength", 0, "weight of |w|", NULL }
#define L2                                                                                                             \
  { "l2_regularization_strength", 0, "weight of w squared", NULL }

/* ORDER OPTIMIZER OPTIONS: rules read options and slots by position. */
static const crn_optimizer_desc optimizers[] = {
    {.name = "gradientdescent",
     .aliases = {"customgradientdescent"},
     .doc = "w -= lr·g",
     .rows = CRN_ROWS_TOUCHED,
     UPDATE(gradient_descent)},
    {.name = "momentum",
     .doc = "a = momentum·a + g; w -= lr·a; nesterov: w -= lr·(g + momentum·a)",
     .options = {MOMENTUM, {"use_nesterov", 0, "look ahead", NULL}},
     .slots = {{"momentum", 0, 0}},
     .rows = CRN_ROWS_TOUCHED,
     UPDATE(momentum)},
    {.name = "adam",
     .doc = "m = b1·m+(1-b1)g; v = b2·v+(1-b2)g²; w -= lr·√(1-b2^t)/(1-b1^t) · m/(√v+epsilon)",
     .options = {BETA1, BETA2, EPSILON},
     .slots = {{"m", 0, 0}, {"v", 0, 0}},
     .rows = CRN_ROWS_ALL,
     UPDATE(adam)},
    {.name = "customadam",
     .doc = "as adam, but only rows that occur, one update per occurrence",
     .options = {BETA1, BETA2, EPSILON},
     .slots = {{"m", 0, 0}, {"v", 0, 0}},
     .rows = CRN_ROWS_ONE_BY_ONE,
     UPDATE(adam)},
    {.name = "nadam",
     .doc = "m, v as adam; w -= lr·√(1-b2^t)/(1-b1^t) · (b1·m+(1-b1)g)/(√v+epsilon)",
     .options = {BETA1, BETA2, EPSILON},
     .slots = {{"m", 0, 0}, {"v", 0, 0}},
     .rows = CRN_ROWS_DECAY,
     UPDATE(nadam),
     DECAY(nadam_decay)},
    {.name = "amsgrad",
     .doc = "m, v as adam; x = max(x, v); w -= lr·√(1-b2^t)/(1-b1^t) · m/(√x+epsilon)",
     .options = {BETA1, BETA2, EPSILON},
     .slots = {{"m", 0, 0}, {"v", 0, 0}, {"vhat", 0, 0}},
     .rows = CRN_ROWS_ALL,
     UPDATE(amsgrad)},
    {.name = "rmsprop",
     .doc = "s = decay·s+(1-decay)g², from 1; a = momentum·a + lr·g/√(s+epsilon); w -= a; centered: q = "
            "decay·q+(1-decay)g, "
            "√(s-q²+epsilon)",
     .options = {{"decay", .9, "decay of the means", NULL},
                 MOMENTUM,
                 EPSILON,
                 {"centered", 0, "subtract the squared mean of gradients", NULL}},
     .slots = {{"rms", 1, 0}, {"momentum", 0, 0}, {"mg", 0, 0}},
     .rows = CRN_ROWS_TOUCHED,
     UPDATE(rmsprop)},
    {.name = "adagrad",
     .doc = "a += g², from initial_accumulator_value; w -= lr·g/√a",
     .options = {ACCUMULATOR},
     .slots = {{"accumulator", 0, 1}},
     .rows = CRN_ROWS_TOUCHED,
     UPDATE(adagrad)},
    {.name = "adadelta",
     .doc = "a = rho·a+(1-rho)g²; u = √(d+epsilon)/√(a+epsilon)·g; d = rho·d+(1-rho)u²; w -= lr·u",
     .options = {{"rho", .95, "decay of both means", NULL}, EPSILON},
     .slots = {{"accum", 0, 0}, {"accum_update", 0, 0}},
     .rows = CRN_ROWS_TOUCHED,
     UPDATE(adadelta)},
    {.name = "normalizedsgd",
     .doc = "w -= lr·g/√max(Σg², 1e-12), the norm of each parameter",
     .rows = CRN_ROWS_ALL,
     .needs_norm = true,
     UPDATE(normalized_sgd)},
    {.name = "neuraloptimizer1",
     .doc = "m as adam; w -= lr·g·(1 if sign m = sign g, else decrease_factor)",
     .options = {BETA1, {"decrease_factor", .1, "factor where gradient and mean disagree", NULL}},
     .slots = {{"m", 0, 0}},
     .rows = CRN_ROWS_ALL,
     UPDATE(neural_optimizer1)},
    {.name = "gradvariancescaled",
     .doc = "m as adam; d = (g-m)²; v = b2·v+(1-b2)d; w -= lr·g·min(v/(d+epsilon), 1)",
     .options = {BETA1, BETA2, EPSILON},
     .slots = {{"m", 0, 0}, {"v", 0, 0}},
     .rows = CRN_ROWS_ALL,
     UPDATE(grad_variance_scaled)},
    {.name = "ftrl",
     .doc = "a' = a+g²; z += g-(a'^-p - a^-p)/lr·w; w = (sign z·l1 - z)/(a'^-p/lr + 2·l2) if |z| > l1, else 0; p = "
            "learning_rate_power",
     .options = {{"learning_rate_power", -.5, "exponent of the sum of squared gradients", NULL}, ACCUMULATOR, L1, L2},
     .slots = {{"accum", 0, 2}, {"linear", 0, 0}},
     .rows = CRN_ROWS_TOUCHED,
     UPDATE(ftrl)},
    {.name = "proximaladagrad",
     .doc = "a += g²; r = lr/√a; x = w-r·g; w = sign x·max(|x|-r·l1, 0)/(1+r·l2)",
     .options = {ACCUMULATOR, L1, L2},
     .slots = {{"accumulator", 0, 1}},
     .rows = CRN_ROWS_TOUCHED,
     UPDATE(proximal_adagrad)},
    {.name = "proximalgradientdescent",
     .doc = "x = w-lr·g; w = sign x·max(|x|-lr·l1, 0)/(1+lr·l2)",
     .options = {L1, L2},
     .rows = CRN_ROWS_TOUCHED,
     UPDATE(proximal_gradient_descent)},
    {.name = "sgd",
     .doc = "a = momentum·a - lr·g; w += a; nesterov: w += momentum·a - lr·g",
     .options = {MOMENTUM, {"nesterov", 0, "look ahead", NULL}},
     .slots = {{"momentum", 0, 0}},
     .rows = CRN_ROWS_ALL,
     UPDATE(keras_sgd)},
    {.name = "adamw",
     .doc = "w -= lr·weight_decay·w, then as adam",
     .options = {BETA_1,
                 {"beta_2", .999, "decay of the mean of squared gradients", NULL},
                 EPSILON,
                 {"weight_decay", .004, "share of the weight that a step of rate 1 takes away", NULL}},
     .slots = {{"m", 0, 0}, {"v", 0, 0}},
     .rows = CRN_ROWS_ALL,
     UPDATE(adamw)},
    {.name = "adamax",
     .doc = "m as adam; u = max(b2·u, |g|); w -= lr/(1-b1^t)·m/(u+epsilon)",
     .options = {BETA_1, {"beta_2", .999, "decay of the largest gradient", NULL}, EPSILON},
     .slots = {{"m", 0, 0}, {"u", 0, 0}},
     .rows = CRN_ROWS_ALL,
     UPDATE(adamax)},
    {.name = "lion",
     .doc = "w -= lr·weight_decay·w + lr·sign(b1·m+(1-b1)g); m = b2·m+(1-b2)g",
     .options = {BETA_1,
                 {"beta_2", .99, "decay of the mean of gradients", NULL},
                 {"weight_decay", 0, "share of the weight that a step of rate 1 takes away", NULL}},
     .slots = {{"m", 0, 0}},
     .rows = CRN_ROWS_ALL,
     UPDATE(lion)},
    {.name = "adagradda", .doc = "dual averaging of TensorFlow 1"},
    {.name = "adafactor", .doc = "class of Keras"},
    {.name = "nadamkeras", .doc = "class of Keras; nadam is here"},
};
enum { N_OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

const crn_optimizer_desc *crn_optimizer_list(size_t *n) {
  *n = N_OPTIMIZERS;
  return optimizers;
}

/* Lower case, without "optimizer" at the end. */
static void plain_name(const char *name, char *out, size_t size) {
  size_t n = 0;
  for (; name[n] && n + 1 < size; n++) out[n] = (char)tolower((unsigned char)name[n]);
  out[n] = 0;
  if (n > 9 && strcmp(out + n - 9, "optimizer") == 0) out[n - 9] = 0;
}

static bool is_named(const crn_optimizer_desc *d, const char *name) {
  if (strcmp(d->name, name) == 0) return true;
  for (int k = 0; k < CRN_OPTIMIZER_MAX_ALIASES && d->aliases[k]; k++)
    if (strcmp(d->aliases[k], name) == 0) return true;
  return false;
}

crn_status crn_optimizer_find(const char *name, const crn_optimizer_desc **out, crn_err *err) {
  char plain[64];
  const char *known[N_OPTIMIZERS * (1 + CRN_OPTIMIZER_MAX_ALIASES)];
  size_t n = 0;
  plain_name(name, plain, sizeof plain);
  for (size_t i = 0; i < N_OPTIMIZERS; i++) {
    if (is_named(&optimizers[i], plain)) {
      if (!optimizers[i].update_f32)
        return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: optimizer class '%s'", optimizers[i].name);
      *out = &optimizers[i];
      return CRN_OK;
    }
    if (optimizers[i].update_f32) known[n++] = optimizers[i].name;
  }
  const char *near = crn_nearest(plain, known, n);
  crn_fail(err, CRN_E_CONFIG, "unknown optimizer class '%s'", name);
  if (near) crn_err_append(err, "; did you mean '%s'?", near);
  crn_err_append(err, " Known:");
  for (size_t i = 0; i < n; i++) crn_err_append(err, "%s %s", i ? "," : "", known[i]);
  return CRN_E_CONFIG;
}

int crn_optimizer_slot_count(const crn_optimizer_desc *desc) {
  int n = 0;
  while (n < CRN_OPTIMIZER_MAX_SLOTS && desc->slots[n].name) n++;
  return n;
}

double crn_optimizer_slot_start(const crn_optimizer *o, int slot) {
  const crn_optimizer_slot *s = &o->desc->slots[slot];
  return s->start_option ? o->options[s->start_option - 1] : s->start;
}

static int option_index(const crn_optimizer_desc *d, const char *name) {
  for (int i = 0; d->options[i].name; i++)
    if (strcmp(d->options[i].name, name) == 0) return i;
  return -1;
}

static crn_status unknown_option(const crn_optimizer_desc *d, const char *name, crn_err *err) {
  const char *known[CRN_OPTIMIZER_MAX_OPTIONS + 2] = {"class", "learning_rate_multiplier"};
  size_t n = 2;
  for (int i = 0; d->options[i].name; i++) known[n++] = d->options[i].name;
  const char *near = crn_nearest(name, known, n);
  crn_fail(err, CRN_E_CONFIG, "optimizer '%s': unknown option '%s'", d->name, name);
  if (near) crn_err_append(err, "; did you mean '%s'?", near);
  crn_err_append(err, " Known:");
  for (size_t i = 0; i < n; i++) crn_err_append(err, "%s %s", i ? "," : "", known[i]);
  return CRN_E_CONFIG;
}

static crn_status fill_defaults(const crn_optimizer_desc *d, const crn_value *config, crn_optimizer *out,
                                crn_err *err) {
  memset(out, 0, sizeof *out);
  out->desc = d;
  out->lr_multiplier = 1;
  for (int i = 0; d->options[i].name; i++) {
    out->options[i] = d->options[i].value;
    if (d->options[i].config_key) CRN_TRY(crn_opt_float(config, d->options[i].config_key, &out->options[i], err));
  }
  return CRN_OK;
}

static crn_status set_option(crn_optimizer *o, const char *name, const crn_value *v, crn_err *err) {
  static const char *const without_effect[] = {"use_locking", "name"};
  for (size_t k = 0; k < 2; k++)
    if (strcmp(name, without_effect[k]) == 0) return CRN_OK;
  if (strcmp(name, "learning_rate") == 0)
    return crn_fail(err, CRN_E_CONFIG,
                    "optimizer '%s': learning_rate is no option; set the config key learning_rate, or the option "
                    "learning_rate_multiplier",
                    o->desc->name);
  bool multiplier = strcmp(name, "learning_rate_multiplier") == 0;
  int i = option_index(o->desc, name);
  if (i < 0 && !multiplier) return unknown_option(o->desc, name, err);
  if (crn_value_to_float(v, multiplier ? &o->lr_multiplier : &o->options[i])) return CRN_OK;
  crn_str text = {0};
  crn_v_repr(v, &text, 60);
  crn_fail(err, CRN_E_CONFIG, "optimizer '%s' > option '%s': expected a number, got %s", o->desc->name, name,
           crn_str_get(&text));
  crn_str_free(&text);
  return CRN_E_CONFIG;
}

/* The class of a dict; without one that of base. */
static crn_status class_of(const crn_value *dict, const crn_optimizer *base, const crn_optimizer_desc **out,
                           crn_err *err) {
  const crn_value *v = crn_v_get(dict, "class");
  const char *name = crn_v_cstr(v);
  if (name) return crn_optimizer_find(name, out, err);
  if (!crn_v_is_none(v)) {
    if (v->kind == CRN_V_CALLABLE || v->kind == CRN_V_OBJECT)
      return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: optimizer with a Python class");
    return crn_fail(err, CRN_E_CONFIG, "optimizer > option 'class': expected a class name, got %s", crn_v_kind_name(v));
  }
  if (!base) return crn_fail(err, CRN_E_CONFIG, "optimizer: option 'class' is missing");
  *out = base->desc;
  return CRN_OK;
}

crn_status crn_optimizer_from_value(const crn_value *value, const crn_value *config, const crn_optimizer *base,
                                    crn_optimizer *out, crn_err *err) {
  const crn_optimizer_desc *d = NULL;
  if (crn_v_is_str(value)) {
    CRN_TRY(crn_optimizer_find(crn_v_cstr(value), &d, err));
    return fill_defaults(d, config, out, err);
  }
  if (!crn_v_is_dict(value))
    return crn_fail(err, CRN_E_CONFIG, "optimizer: expected a dict with 'class', got %s", crn_v_kind_name(value));
  CRN_TRY(class_of(value, base, &d, err));
  CRN_TRY(fill_defaults(d, config, out, err));
  for (size_t i = 0; i < value->u.dict.n; i++) {
    const char *name = crn_v_cstr(value->u.dict.keys[i]);
    if (!name) return crn_fail(err, CRN_E_CONFIG, "optimizer '%s': options must be named by strings", d->name);
    if (strcmp(name, "class") != 0) CRN_TRY(set_option(out, name, value->u.dict.vals[i], err));
  }
  return CRN_OK;
}

/* adam: True and the like. */
static crn_status from_old_keys(const crn_value *config, crn_optimizer *out, crn_err *err) {
  static const char *const keys[] = {"adam", "nadam", "adadelta", "adagrad", "rmsprop"};
  enum { N_KEYS = 5, RMSPROP = 4 };
  double momentum = 0;
  CRN_TRY(crn_opt_float(config, "momentum", &momentum, err));
  const char *class_name = momentum != 0 ? "momentum" : "gradientdescent", *key = momentum != 0 ? "momentum" : NULL;
  for (size_t i = N_KEYS; i-- > 0;)
    if (crn_v_truth(crn_v_get(config, keys[i]))) class_name = key = keys[i];
  int64_t version = 0;
  CRN_TRY(crn_opt_int(config, "behavior_version", &version, err));
  if (key && version >= 2)
    return crn_fail(
        err, CRN_E_CONFIG,
        "config key '%s' as optimizer is not allowed from behavior_version 2 on; use optimizer = {'class': '%s'}", key,
        class_name);
  if (momentum != 0 && key && strcmp(key, "momentum") != 0 && strcmp(key, "rmsprop") != 0)
    return crn_fail(err, CRN_E_CONFIG, "config keys 'momentum' and '%s' can't be used together", key);
  const crn_optimizer_desc *d = NULL;
  CRN_TRY(crn_optimizer_find(class_name, &d, err));
  CRN_TRY(fill_defaults(d, config, out, err));
  const crn_value *rmsprop = crn_v_get(config, "rmsprop");
  if (key == keys[RMSPROP] && rmsprop->kind != CRN_V_BOOL && !crn_value_to_float(rmsprop, &out->options[0]))
    return crn_opt_wrong("rmsprop", "True or the decay", rmsprop, err);
  return CRN_OK;
}

crn_status crn_optimizer_from_config(const crn_value *config, crn_optimizer *out, crn_err *err) {
  const crn_value *v = crn_v_get(config, "optimizer");
  if (crn_v_is_none(v)) return from_old_keys(config, out, err);
  crn_status status = crn_optimizer_from_value(v, config, NULL, out, err);
  return status == CRN_OK ? CRN_OK : crn_err_where(err, "config");
}

void crn_optimizer_describe(const crn_optimizer *o, crn_str *out) {
  crn_str_addf(out, "%s with options {", o->desc->name);
  for (int i = 0; o->desc->options[i].name; i++) {
    crn_str_addf(out, "%s'%s': ", i ? ", " : "", o->desc->options[i].name);
    crn_py_float(out, o->options[i]);
  }
  if (o->lr_multiplier != 1) {
    crn_str_addf(out, "%s'learning_rate_multiplier': ", o->desc->options[0].name ? ", " : "");
    crn_py_float(out, o->lr_multiplier);
  }
  crn_str_add(out, "}");
}

void crn_optimizer_describe_slots(const crn_optimizer *o, crn_str *out) {
  crn_str_add(out, "[");
  for (int i = 0; i < crn_optimizer_slot_count(o->desc); i++)
    crn_str_addf(out, "%s'%s'", i ? ", " : "", o->desc->slots[i].name);
  crn_str_add(out, "]");
}
