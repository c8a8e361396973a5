/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate control. Every kind of control is one row {names, rule}; a rule computes the rate of an epoch from the
 * epochs before it. Notation in the comments: lr the rate of the last epoch before, E an epoch's error,
 * r(old, new) = (E_new - E_old) / |E_new| its relative change.
 */
#include "train/learning_rate.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "train/learning_rate_internal.h"

/* ---- error of an epoch ---------------------------------------------------------------------------------------- */

static const char *score_key(const crn_lr_epoch *e, const char *key) {
  const crn_lr_score *s = crn_lr_key_is_meta(key) ? NULL : crn_lr_epoch_get(e, key);
  return s ? s->key : NULL;
}

/* KEY or KEY_output. */
static const char *measure_key(const crn_lr_epoch *e, const char *key) {
  const char *found = score_key(e, key);
  if (found) return found;
  crn_str with_output = {0};
  crn_str_addf(&with_output, "%s_output", key);
  found = crn_str_ok(&with_output) ? score_key(e, crn_str_get(&with_output)) : NULL;
  crn_str_free(&with_output);
  return found;
}

static const char *configured_key(const crn_lr_control *c, const crn_lr_epoch *e) {
  const char *single = crn_v_cstr(c->measure);
  if (single) return measure_key(e, single);
  for (size_t i = 0; i < crn_v_len(c->measure); i++) {
    const char *found = measure_key(e, crn_v_cstr(crn_v_at(c->measure, i)));
    if (found) return found;
  }
  return NULL;
}

/* First key in sorted order that is `exact` or starts with `prefix` (NULL: no such test). */
static const char *first_key(const crn_lr_epoch *e, const char *exact, const char *prefix) {
  for (size_t i = 0; i < e->n_scores; i++) {
    const char *key = e->scores[i].key;
    if (crn_lr_key_is_meta(key)) continue;
    if ((exact && strcmp(key, exact) == 0) || (prefix && crn_starts_with(key, prefix))) return key;
  }
  return NULL;
}

static const char *error_key(const crn_lr_control *c, const crn_lr_epoch *e) {
  const char *key = configured_key(c, e);
  if (!key) key = measure_key(e, "dev_score");
  if (!key) key = first_key(e, "dev_score_output/output", "dev_score_output/output_");
  if (!key) key = first_key(e, NULL, "dev_score_output/");
  if (!key) key = first_key(e, NULL, "dev_");
  if (!key) key = measure_key(e, "train_score");
  if (!key) key = first_key(e, NULL, "");
  return key;
}

/* Errors of two epochs under one key. False: undefined (no scores, or other keys). */
static bool two_errors(const crn_lr_control *c, const crn_lr_epoch *old, const crn_lr_epoch *new_, double *e_old,
                       double *e_new) {
  const char *key_old = error_key(c, old), *key_new = error_key(c, new_);
  if (!key_old || !key_new || strcmp(key_old, key_new) != 0) return false;
  *e_old = crn_lr_epoch_get(old, key_old)->value;
  *e_new = crn_lr_epoch_get(new_, key_new)->value;
  return true;
}

/* r(old, new); division by zero gives nan or inf, and a nan never is above a threshold. */
static bool relative_error(const crn_lr_control *c, const crn_lr_epoch *old, const crn_lr_epoch *new_, double *r) {
  double e_old, e_new;
  if (!two_errors(c, old, new_, &e_old, &e_new)) return false;
  *r = (e_new - e_old) / fabs(c->div_by_old ? e_old : e_new);
  if (c->relative_lr && new_->lr > 0) *r *= c->default_rate / new_->lr;
  return true;
}

/* ---- the rules ------------------------------------------------------------------------------------------------ */

static crn_status call_function(const crn_lr_control *c, const crn_value *fn, const char *key, double lr, int64_t step,
                                double *out, crn_err *err) {
  if (!c->hook.call)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: config key '%s' is a Python function", key);
  if (c->hook.call(c->hook.user, fn, lr, step, out, err) != CRN_OK) return crn_err_where(err, "config key '%s'", key);
  return CRN_OK;
}

static crn_status decayed(const crn_lr_control *c, double lr, double *out, crn_err *err) {
  double rate = lr * c->decay;
  if (c->decay_fn) CRN_TRY(call_function(c, c->decay_fn, "learning_rate_decay", lr, -1, &rate, err));
  *out = rate > c->min_rate ? rate : c->min_rate;
  return CRN_OK;
}

static crn_status grown(const crn_lr_control *c, double lr, double *out, crn_err *err) {
  *out = lr * c->growth;
  if (c->growth_fn) return call_function(c, c->growth_fn, "learning_rate_growth", lr, -1, out, err);
  return CRN_OK;
}

static crn_status rule_constant(const crn_lr_control *c, int64_t epoch, size_t n_before, double *lr, crn_err *err) {
  (void)epoch;
  (void)err;
  *lr = c->table.epochs[n_before - 1].lr;
  return CRN_OK;
}

static crn_status rule_newbob(const crn_lr_control *c, bool absolute, size_t n_before, double *lr, crn_err *err) {
  const crn_lr_epoch *last = &c->table.epochs[n_before - 1];
  double change, e_old, e_new;
  *lr = last->lr;
  if (n_before < 2) return CRN_OK;
  if (absolute) {
    if (!two_errors(c, last - 1, last, &e_old, &e_new)) return CRN_OK;
    change = e_new - e_old;
  } else if (!relative_error(c, last - 1, last, &change))
    return CRN_OK;
  return change > (absolute ? c->absolute_threshold : c->threshold) ? decayed(c, last->lr, lr, err)
                                                                    : grown(c, last->lr, lr, err);
}

static crn_status rule_relative(const crn_lr_control *c, int64_t epoch, size_t n_before, double *lr, crn_err *err) {
  (void)epoch;
  return rule_newbob(c, false, n_before, lr, err);
}

static crn_status rule_absolute(const crn_lr_control *c, int64_t epoch, size_t n_before, double *lr, crn_err *err) {
  (void)epoch;
  return rule_newbob(c, true, n_before, lr, err);
}

/* Mean of r over the last multi_epochs pairs of neighbours, looked at every multi_interval epochs. */
static crn_status rule_multi(const crn_lr_control *c, int64_t epoch, size_t n_before, double *lr, crn_err *err) {
  const crn_lr_epoch *last = &c->table.epochs[n_before - 1];
  *lr = last->lr;
  if (c->multi_interval != 1 && epoch % c->multi_interval != 1) return CRN_OK;
  size_t pairs = n_before - 1;
  if ((int64_t)pairs > c->multi_epochs) pairs = (size_t)c->multi_epochs;
  if (pairs == 0) return CRN_OK;
  double sum = 0;
  for (const crn_lr_epoch *e = last - pairs; e < last; e++) {
    double r;
    if (!relative_error(c, e, e + 1, &r)) return CRN_OK;
    sum += r;
  }
  double mean = sum / (double)pairs;
  bool decay = mean > c->threshold, grow = mean < c->grow_threshold;
  if (decay && grow)
    return crn_fail(err, CRN_E_CONFIG,
                    "epoch %lld: relative error %g is above newbob_relative_error_threshold %g and below "
                    "newbob_relative_error_grow_threshold %g; the second must not be the larger one",
                    (long long)epoch, mean, c->threshold, c->grow_threshold);
  if (decay) return decayed(c, last->lr, lr, err);
  return grow ? grown(c, last->lr, lr, err) : CRN_OK;
}

static const crn_lr_rule controls[] = {
    {{"constant"}, "Constant", rule_constant},
    {{"newbob", "newbob_rel", "newbob_relative"}, "NewbobRelative", rule_relative},
    {{"newbob_abs"}, "NewbobAbs", rule_absolute},
    {{"newbob_multi_epoch"}, "NewbobMultiEpoch", rule_multi},
};
enum { N_CONTROLS = sizeof controls / sizeof controls[0] };

crn_status crn_lr_rule_find(const char *name, const crn_lr_rule **out, crn_err *err) {
  const char *known[N_CONTROLS * 3];
  size_t n = 0;
  for (size_t i = 0; i < N_CONTROLS; i++)
    for (size_t k = 0; k < 3 && controls[i].names[k]; k++) {
      known[n++] = controls[i].names[k];
      if (strcmp(name, controls[i].names[k]) != 0) continue;
      *out = &controls[i];
      return CRN_OK;
    }
  const char *near = crn_nearest(name, known, n);
  crn_fail(err, CRN_E_CONFIG, "config key 'learning_rate_control': unknown control '%s'", name);
  if (near) crn_err_append(err, "; did you mean '%s'?", near);
  crn_err_append(err, " Known:");
  for (size_t i = 0; i < n; i++) crn_err_append(err, "%s %s", i ? "," : "", known[i]);
  return CRN_E_CONFIG;
}

/* ---- use ------------------------------------------------------------------------------------------------------ */

crn_status crn_lr_load(crn_lr_control *c, crn_err *err) {
  if (!c->file) return CRN_OK;
  if (access(c->file, F_OK) != 0) {
    crn_logf(&c->log, 4, "Learning-rate-control: file %s does not exist yet", c->file);
    return CRN_OK;
  }
  crn_logf(&c->log, 4, "Learning-rate-control: loading file %s", c->file);
  return crn_lr_table_read(&c->table, c->file, err);
}

crn_status crn_lr_save(const crn_lr_control *c, crn_err *err) {
  return c->file ? crn_lr_table_write(&c->table, c->file, err) : CRN_OK;
}

const char *crn_lr_file(const crn_lr_control *c) { return c->file; }

void crn_lr_set_file(crn_lr_control *c, const char *path) { c->file = path; }

/* learning_rate_control_min_num_epochs_per_new_lr N: the last N rates must be there and equal before a new one. */
static bool rate_is_held(const crn_lr_control *c, size_t n_before) {
  int64_t n = c->min_epochs_per_rate;
  if (n <= 1 || n_before == 0) return false;
  if ((int64_t)n_before < n) return true;
  const crn_lr_epoch *last = &c->table.epochs[n_before - 1];
  for (int64_t i = 1; i < n; i++)
    if (last[-i].lr != last->lr) return true;
  return false;
}

/* A misspelt measure falls through to another score without a word, so one is said here. */
static void warn_about_measure(crn_lr_control *c, size_t n_before) {
  if (!c->measure || c->warned_measure || n_before == 0) return;
  const crn_lr_epoch *last = &c->table.epochs[n_before - 1];
  const char *used = error_key(c, last);
  if (!used || configured_key(c, last)) return;
  crn_str measure = {0};
  crn_v_repr(c->measure, &measure, 80);
  crn_warnf(&c->log, "learning_rate_control_error_measure %s is no score of epoch %lld; '%s' is used instead",
            crn_str_get(&measure), (long long)last->epoch, used);
  crn_str_free(&measure);
  c->warned_measure = true;
}

static crn_status controlled_rate(crn_lr_control *c, int64_t epoch, double *lr, crn_err *err) {
  size_t n_before = crn_lr_table_count_before(&c->table, epoch);
  *lr = c->default_rate;
  if (n_before == 0) return CRN_OK;
  if (c->rule->rate != rule_constant) warn_about_measure(c, n_before);
  if (rate_is_held(c, n_before)) {
    *lr = c->table.epochs[n_before - 1].lr;
    return CRN_OK;
  }
  return c->rule->rate(c, epoch, n_before, lr, err);
}

crn_status crn_lr_for_epoch(crn_lr_control *c, int64_t epoch, int64_t pretrain_epochs, double *lr, crn_err *err) {
  if (epoch < 1) return crn_fail(err, CRN_E_INTERNAL, "learning rate of epoch %lld asked for", (long long)epoch);
  const crn_lr_epoch *known = crn_lr_table_find(&c->table, epoch);
  if (pretrain_epochs > 0 && epoch <= pretrain_epochs + 1 && !c->always) {
    *lr = epoch <= pretrain_epochs ? c->pretrain_rate : c->default_rate;
    return known ? CRN_OK : crn_lr_table_set(&c->table, epoch, *lr, err);
  }
  if (known) {
    *lr = known->lr;
    return CRN_OK;
  }
  if (controlled_rate(c, epoch, lr, err) != CRN_OK) return crn_err_where(err, "learning-rate control");
  return crn_lr_table_set(&c->table, epoch, *lr, err);
}

crn_status crn_lr_override(crn_lr_control *c, int64_t epoch, double lr, crn_err *err) {
  return crn_lr_table_set(&c->table, epoch, lr, err);
}

static crn_status entry_of(crn_lr_control *c, int64_t epoch, crn_lr_epoch **out, crn_err *err) {
  *out = crn_lr_table_find(&c->table, epoch);
  return *out ? CRN_OK : crn_fail(err, CRN_E_STATE, "score of epoch %lld without a learning rate", (long long)epoch);
}

crn_status crn_lr_put_score(crn_lr_control *c, int64_t epoch, const char *key, double value, crn_err *err) {
  crn_lr_epoch *e;
  CRN_TRY(entry_of(c, epoch, &e, err));
  return crn_lr_epoch_put(e, key, value, err);
}

crn_status crn_lr_put_int(crn_lr_control *c, int64_t epoch, const char *key, int64_t value, crn_err *err) {
  crn_lr_epoch *e;
  CRN_TRY(entry_of(c, epoch, &e, err));
  return crn_lr_epoch_put_int(e, key, value, err);
}

const crn_lr_table *crn_lr_table_of(const crn_lr_control *c) { return &c->table; }

const char *crn_lr_error_key(const crn_lr_control *c, int64_t epoch) {
  const crn_lr_epoch *e = crn_lr_table_find(&c->table, epoch);
  return e ? error_key(c, e) : NULL;
}

void crn_lr_log_error_key(const crn_lr_control *c, int64_t epoch) {
  const crn_lr_epoch *e = crn_lr_table_find(&c->table, epoch);
  const char *key = e ? error_key(c, e) : NULL;
  if (!e) return;
  crn_str text = {0};
  crn_str_add(&text, "{");
  for (size_t i = 0; i < e->n_scores; i++) {
    if (crn_lr_key_is_meta(e->scores[i].key)) continue;
    crn_str_addf(&text, "%s'%s': ", text.len > 1 ? ", " : "", e->scores[i].key);
    crn_py_float(&text, e->scores[i].value);
  }
  if (key)
    crn_logf(&c->log, 4, "Learning-rate-control: error key '%s' from %s}", key, crn_str_get(&text));
  else
    crn_logf(&c->log, 4, "Learning-rate-control: error key None from %s}", crn_str_get(&text));
  crn_str_free(&text);
}

void crn_lr_describe(const crn_lr_control *c, crn_str *out) {
  crn_str_addf(out, "%s(", c->rule->title);
  if (c->rule->rate == rule_multi)
    crn_str_addf(out, "num_epochs=%lld, update_interval=%lld, ", (long long)c->multi_epochs,
                 (long long)c->multi_interval);
  if (c->rule->rate != rule_constant) {
    crn_str_add(out, c->rule->rate == rule_absolute ? "error_threshold=" : "relative_error_threshold=");
    crn_py_float(out, c->rule->rate == rule_absolute ? c->absolute_threshold : c->threshold);
    crn_str_add(out, ", learning_rate_decay=");
    if (c->decay_fn)
      crn_v_repr(c->decay_fn, out, 0);
    else
      crn_py_float(out, c->decay);
    crn_str_add(out, ", learning_rate_growth=");
    if (c->growth_fn)
      crn_v_repr(c->growth_fn, out, 0);
    else
      crn_py_float(out, c->growth);
    crn_str_add(out, ", ");
  }
  crn_str_add(out, "default_learning_rate=");
  crn_py_float(out, c->default_rate);
  crn_str_add(out, ", min_learning_rate=");
  crn_py_float(out, c->min_rate);
  crn_str_add(out, "), epoch data: ");
  const char *key = NULL;
  for (size_t i = 0; i < c->table.n; i++) {
    crn_str_addf(out, "%lld: ", (long long)c->table.epochs[i].epoch);
    crn_lr_epoch_format(&c->table.epochs[i], out);
    crn_str_add(out, ", ");
    const char *k = error_key(c, &c->table.epochs[i]);
    if (k) key = k;
  }
  crn_str_addf(out, "error key: %s", key ? key : "None");
}

crn_status crn_lr_dynamic(const crn_lr_control *c, double lr, int64_t global_step, double *out, crn_err *err) {
  *out = lr;
  if (!c->dynamic) return CRN_OK;
  if (c->dynamic->kind == CRN_V_CALLABLE)
    return call_function(c, c->dynamic, "dynamic_learning_rate", lr, global_step, out, err);
  *out = lr * pow(c->dynamic_decay, (double)(global_step % c->dynamic_interval));
  return CRN_OK;
}
