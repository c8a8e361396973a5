/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate control: reading its config keys.
 */
#include <math.h>
#include <string.h>

#include "train/learning_rate_internal.h"
#include "train/options.h"

/* The newer key overrides the factor; it is a float or a function, an int is refused as it always was. */
static crn_status read_factor(const crn_value *config, const char *old_key, const char *key, double *factor,
                              const crn_value **fn, crn_err *err) {
  CRN_TRY(crn_opt_float(config, old_key, factor, err));
  const crn_value *v = crn_v_get(config, key);
  if (crn_v_is_none(v)) return CRN_OK;
  if (v->kind == CRN_V_FLOAT)
    *factor = v->u.f;
  else if (v->kind == CRN_V_CALLABLE)
    *fn = v;
  else
    return crn_opt_wrong(key, "a float or a function", v, err);
  return CRN_OK;
}

/* One entry of learning_rates; the value may be text that is evaluated. */
static crn_status put_fixed(crn_lr_control *c, int64_t epoch, const crn_value *v, crn_err *err) {
  double lr;
  if (!crn_value_to_float(v, &lr) || !isfinite(lr)) {
    crn_opt_wrong("learning_rates", "a number for each epoch", v, err);
    crn_err_append(err, " (epoch %lld)", (long long)epoch);
    return CRN_E_CONFIG;
  }
  return crn_lr_table_set(&c->table, epoch, lr, err);
}

static crn_status read_fixed_dict(crn_lr_control *c, const crn_value *rates, crn_err *err) {
  for (size_t i = 0; i < rates->u.dict.n; i++) {
    int64_t epoch;
    if (!crn_v_to_int(rates->u.dict.keys[i], &epoch))
      return crn_opt_wrong("learning_rates", "an epoch number as key", rates->u.dict.keys[i], err);
    CRN_TRY(put_fixed(c, epoch, rates->u.dict.vals[i], err));
  }
  return CRN_OK;
}

static crn_status read_fixed_rates(crn_lr_control *c, const crn_value *rates, crn_err *err) {
  if (crn_v_is_none(rates)) return CRN_OK;
  if (crn_v_is_dict(rates)) return read_fixed_dict(c, rates, err);
  if (rates->kind == CRN_V_ARRAY && rates->u.array.rank == 1) {
    for (int64_t i = 0; i < rates->u.array.shape[0]; i++)
      CRN_TRY(crn_lr_table_set(&c->table, i + 1, rates->u.array.data[i], err));
    return CRN_OK;
  }
  if (rates->kind == CRN_V_LIST || rates->kind == CRN_V_TUPLE) {
    for (size_t i = 0; i < crn_v_len(rates); i++) CRN_TRY(put_fixed(c, (int64_t)i + 1, crn_v_at(rates, i), err));
    return CRN_OK;
  }
  if (crn_v_is_str(rates)) {
    crn_arena arena = {0};
    crn_value *parsed = NULL;
    crn_status status = crn_v_parse_literal(&arena, crn_v_cstr(rates), "learning_rates", &parsed, err);
    if (status == CRN_OK && crn_v_is_str(parsed))
      status = crn_opt_wrong("learning_rates", "a list or dict", rates, err);
    if (status == CRN_OK) status = read_fixed_rates(c, parsed, err);
    crn_arena_free(&arena);
    return status;
  }
  return crn_opt_wrong("learning_rates", "a list or dict", rates, err);
}

static crn_status read_measure(crn_lr_control *c, crn_err *err) {
  const char *key = "learning_rate_control_error_measure";
  const crn_value *v = crn_v_get(c->config, key);
  if (crn_v_is_none(v)) return CRN_OK;
  bool ok = crn_v_is_str(v) || crn_v_is_seq(v);
  for (size_t i = 0; ok && crn_v_is_seq(v) && i < crn_v_len(v); i++) ok = crn_v_is_str(crn_v_at(v, i));
  if (!ok) return crn_opt_wrong(key, "a score key or a list of them", v, err);
  c->measure = v;
  return CRN_OK;
}

static crn_status read_dynamic(crn_lr_control *c, crn_err *err) {
  const char *key = "dynamic_learning_rate";
  const crn_value *v = crn_v_get(c->config, key);
  if (crn_v_is_none(v)) return CRN_OK;
  if (v->kind != CRN_V_CALLABLE) {
    if (!crn_v_is_dict(v) || crn_v_len(v) != 2 || !crn_v_to_int(crn_v_get(v, "interval"), &c->dynamic_interval) ||
        !crn_v_to_float(crn_v_get(v, "decay"), &c->dynamic_decay) || c->dynamic_interval < 1)
      return crn_opt_wrong(key, "{'interval': steps >= 1, 'decay': factor} or a function", v, err);
  }
  c->dynamic = v;
  return CRN_OK;
}

static crn_status read_thresholds(crn_lr_control *c, crn_err *err) {
  const crn_value *config = c->config;
  CRN_TRY(crn_opt_float(config, "newbob_relative_error_threshold", &c->threshold, err));
  c->grow_threshold = c->threshold;
  CRN_TRY(crn_opt_float(config, "newbob_relative_error_grow_threshold", &c->grow_threshold, err));
  CRN_TRY(crn_opt_float(config, "newbob_error_threshold", &c->absolute_threshold, err));
  CRN_TRY(crn_opt_bool(config, "newbob_relative_error_div_by_old", &c->div_by_old, err));
  CRN_TRY(crn_opt_bool(config, "learning_rate_control_relative_error_relative_lr", &c->relative_lr, err));
  CRN_TRY(crn_opt_int(config, "newbob_multi_num_epochs", &c->multi_epochs, err));
  c->multi_interval = c->multi_epochs;
  CRN_TRY(crn_opt_int(config, "newbob_multi_update_interval", &c->multi_interval, err));
  if (c->multi_epochs < 1)
    return crn_opt_wrong("newbob_multi_num_epochs", "an integer >= 1", crn_v_get(config, "newbob_multi_num_epochs"),
                         err);
  if (c->multi_interval < 1)
    return crn_opt_wrong("newbob_multi_update_interval", "an integer >= 1",
                         crn_v_get(config, "newbob_multi_update_interval"), err);
  return crn_opt_int(config, "learning_rate_control_min_num_epochs_per_new_lr", &c->min_epochs_per_rate, err);
}

/* A learning rate for which steps mean something. */
static crn_status read_rate(const crn_value *config, const char *key, double *out, crn_err *err) {
  CRN_TRY(crn_opt_float(config, key, out, err));
  return isfinite(*out) ? CRN_OK : crn_opt_wrong(key, "a finite number", crn_v_get(config, key), err);
}

static crn_status configure(crn_lr_control *c, crn_err *err) {
  const crn_value *config = c->config;
  const char *name = "constant";
  c->default_rate = 1.0;
  c->decay = 0.5;
  c->growth = 1.0;
  c->threshold = c->absolute_threshold = -0.01;
  c->multi_epochs = 5;
  CRN_TRY(crn_opt_str(config, "learning_rate_control", &name, err));
  CRN_TRY(crn_lr_rule_find(name, &c->rule, err));
  CRN_TRY(read_rate(config, "learning_rate", &c->default_rate, err));
  c->pretrain_rate = c->default_rate;
  CRN_TRY(read_rate(config, "pretrain_learning_rate", &c->pretrain_rate, err));
  CRN_TRY(read_rate(config, "min_learning_rate", &c->min_rate, err));
  CRN_TRY(crn_opt_bool(config, "use_learning_rate_control_always", &c->always, err));
  CRN_TRY(read_factor(config, "newbob_learning_rate_decay", "learning_rate_decay", &c->decay, &c->decay_fn, err));
  CRN_TRY(read_factor(config, "newbob_learning_rate_growth", "learning_rate_growth", &c->growth, &c->growth_fn, err));
  CRN_TRY(read_thresholds(c, err));
  CRN_TRY(read_measure(c, err));
  CRN_TRY(read_dynamic(c, err));
  CRN_TRY(crn_opt_str(config, "learning_rate_file", &c->file, err));
  if (c->file && !*c->file) c->file = NULL;
  return read_fixed_rates(c, crn_v_get(config, "learning_rates"), err);
}

crn_status crn_lr_new(const crn_value *config, const crn_lr_hook *hook, const crn_log *log, crn_lr_control **out,
                      crn_err *err) {
  *out = NULL;
  crn_lr_control *c = crn_calloc(1, sizeof *c);
  if (!c) return crn_err_memory(err);
  c->config = config;
  if (hook) c->hook = *hook;
  if (log) c->log = *log;
  crn_status status = configure(c, err);
  if (status != CRN_OK) {
    crn_lr_free(c);
    return status;
  }
  *out = c;
  return CRN_OK;
}

void crn_lr_free(crn_lr_control *c) {
  if (!c) return;
  crn_lr_table_free(&c->table);
  crn_free(c);
}
