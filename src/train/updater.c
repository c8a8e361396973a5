/* SPDX-License-Identifier: Apache-2.0
 *
 * Construction of the updater: options of the config and of each layer's updater_opts, optimizers, tag groups.
 */
#include "train/updater.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "train/options.h"
#include "train/updater_internal.h"

/* ---- options --------------------------------------------------------------------------------------------------- */

static const char *const option_keys[] = {"accum_grad_multiple_step",
                                          "gradient_noise",
                                          "gradient_clip",
                                          "gradient_clip_norm",
                                          "gradient_clip_avg_norm",
                                          "gradient_clip_global_norm",
                                          "global_norm_tag",
                                          "gradient_clip_global_norm_tag",
                                          "grad_norm_to_clip_to_zero",
                                          "maximize_grad_norm",
                                          "gradient_nan_inf_filter",
                                          "debug_grad_summaries",
                                          "tags",
                                          "optimizer"};
enum { N_OPTION_KEYS = sizeof option_keys / sizeof option_keys[0] };

static crn_status not_negative(const crn_value *dict, const char *key, double *out, crn_err *err) {
  CRN_TRY(crn_opt_float(dict, key, out, err));
  return *out >= 0 ? CRN_OK : crn_opt_wrong(key, "a number >= 0", crn_v_get(dict, key), err);
}

/* Keys of dict (config or updater_opts) replace what o holds. */
static crn_status read_options(const crn_value *dict, crn_update_options *o, crn_err *err) {
  double maximize = 0;
  CRN_TRY(crn_opt_float(dict, "maximize_grad_norm", &maximize, err));
  if (maximize != 0)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED,
                    "not implemented: maximize_grad_norm (it needs derivatives of derivatives)");
  CRN_TRY(crn_opt_int(dict, "accum_grad_multiple_step", &o->accumulate, err));
  if (o->accumulate < 0)
    return crn_opt_wrong("accum_grad_multiple_step", "an integer >= 0", crn_v_get(dict, "accum_grad_multiple_step"),
                         err);
  CRN_TRY(not_negative(dict, "gradient_noise", &o->noise, err));
  CRN_TRY(not_negative(dict, "gradient_clip", &o->clip, err));
  CRN_TRY(not_negative(dict, "gradient_clip_norm", &o->clip_norm, err));
  CRN_TRY(not_negative(dict, "gradient_clip_avg_norm", &o->clip_avg_norm, err));
  CRN_TRY(not_negative(dict, "gradient_clip_global_norm", &o->clip_global_norm, err));
  CRN_TRY(not_negative(dict, "grad_norm_to_clip_to_zero", &o->zero_above, err));
  CRN_TRY(crn_opt_bool(dict, "gradient_nan_inf_filter", &o->filter, err));
  CRN_TRY(crn_opt_str(dict, "global_norm_tag", &o->norm_tag, err));
  return crn_opt_str(dict, "gradient_clip_global_norm_tag", &o->clip_norm_tag, err);
}

static crn_status check_updater_opts(const crn_value *opts, crn_err *err) {
  if (!crn_v_is_dict(opts)) return crn_fail(err, CRN_E_CONFIG, "expected a dict, got %s", crn_v_kind_name(opts));
  for (size_t i = 0; i < opts->u.dict.n; i++) {
    const char *key = crn_v_cstr(opts->u.dict.keys[i]);
    bool known = false;
    for (size_t k = 0; key && k < N_OPTION_KEYS; k++) known = known || strcmp(key, option_keys[k]) == 0;
    if (known) continue;
    crn_fail(err, CRN_E_CONFIG, "unknown option '%s'", key ? key : crn_v_kind_name(opts->u.dict.keys[i]));
    const char *near = key ? crn_nearest(key, option_keys, N_OPTION_KEYS) : NULL;
    if (near) crn_err_append(err, "; did you mean '%s'?", near);
    return CRN_E_CONFIG;
  }
  return CRN_OK;
}

static crn_status read_tags(crn_update_state *s, const crn_value *tags, crn_err *err) {
  if (crn_v_is_none(tags)) return CRN_OK;
  bool ok = crn_v_is_seq(tags);
  for (size_t i = 0; ok && i < crn_v_len(tags); i++) ok = crn_v_is_str(crn_v_at(tags, i));
  if (!ok) return crn_opt_wrong("tags", "a list of strings", tags, err);
  s->tags = tags;
  return CRN_OK;
}

static crn_status read_layer_options(crn_update_state *s, const crn_value *config, const crn_optimizer *fallback,
                                     crn_err *err) {
  const crn_value *opts = s->param.updater_opts;
  if (crn_v_is_none(opts)) return CRN_OK;
  CRN_TRY(check_updater_opts(opts, err));
  CRN_TRY(read_options(opts, &s->opts, err));
  CRN_TRY(read_tags(s, crn_v_get(opts, "tags"), err));
  const crn_value *own = crn_v_get(opts, "optimizer");
  return crn_v_is_none(own) ? CRN_OK : crn_optimizer_from_value(own, config, fallback, &s->optimizer, err);
}

/* ---- tag groups ------------------------------------------------------------------------------------------------ */

static int tag_index(crn_updater *u, const char *tag) {
  if (!tag) return 0;
  for (size_t k = 1; k < u->n_tags; k++)
    if (strcmp(u->tags[k], tag) == 0) return (int)k;
  u->tags[u->n_tags] = tag;
  return (int)u->n_tags++;
}

static crn_status make_tags(crn_updater *u, crn_err *err) {
  u->tags = CRN_ARENA_ARRAY(&u->arena, const char *, 2 * u->n + 1);
  u->norms = CRN_ARENA_ARRAY(&u->arena, double, 2 * u->n + 1);
  if (!u->tags || !u->norms) return crn_err_memory(err);
  u->n_tags = 1;
  u->norms[0] = NAN;
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    const crn_update_options *o = &s->opts;
    s->clip_tag = tag_index(u, o->clip_norm_tag ? o->clip_norm_tag : o->norm_tag);
    s->zero_tag = tag_index(u, o->norm_tag);
    u->need_norms = u->need_norms || o->clip_global_norm > 0 || o->zero_above > 0;
  }
  return CRN_OK;
}

/* ---- construction ---------------------------------------------------------------------------------------------- */

static void log_optimizers(const crn_updater *u) {
  crn_str text = {0};
  for (size_t i = 0; i < u->n; i++) {
    const crn_update_state *s = &u->states[i];
    bool seen = !s->param.trainable;
    for (size_t k = 0; k < i && !seen; k++)
      seen = u->states[k].param.trainable && u->states[k].optimizer.desc == s->optimizer.desc &&
             memcmp(u->states[k].optimizer.options, s->optimizer.options, sizeof s->optimizer.options) == 0 &&
             u->states[k].optimizer.lr_multiplier == s->optimizer.lr_multiplier;
    if (seen) continue;
    crn_str_clear(&text);
    crn_optimizer_describe(&s->optimizer, &text);
    crn_logf(&u->log, 2, "Create optimizer %s.", crn_str_get(&text));
    crn_str_clear(&text);
    crn_optimizer_describe_slots(&s->optimizer, &text);
    crn_logf(&u->log, 3, "Initialize optimizer (%s) with slots %s.", i == 0 ? "default" : s->optimizer.desc->name,
             crn_str_get(&text));
  }
  crn_str_free(&text);
}

static crn_status configure(crn_updater *u, const crn_value *config, const crn_update_param *params, crn_err *err) {
  crn_update_options common = {0};
  crn_optimizer fallback;
  bool any = false;
  CRN_TRY(read_options(config, &common, err));
  CRN_TRY(crn_opt_bool(config, "decouple_constraints", &u->decouple, err));
  CRN_TRY(crn_opt_int(config, "reset_updater_vars_mod_step", &u->reset_every, err));
  CRN_TRY(crn_optimizer_from_config(config, &fallback, err));
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    s->param = params[i];
    s->n = params[i].rows * params[i].row_len;
    s->math = params[i].is_double ? &crn_update_math_f64 : &crn_update_math_f32;
    s->opts = common;
    s->optimizer = fallback;
    any = any || params[i].trainable;
    if (params[i].trainable && read_layer_options(s, config, &fallback, err) != CRN_OK)
      return crn_err_where(err, "parameter '%s' > updater_opts", params[i].name);
  }
  if (!any) return crn_fail(err, CRN_E_CONFIG, "there is no trainable parameter");
  CRN_TRY(make_tags(u, err));
  log_optimizers(u);
  return CRN_OK;
}

crn_status crn_updater_new(const crn_value *config, const crn_update_param *params, size_t n_params, uint64_t seed,
                           crn_threads *threads, const crn_log *log, crn_updater **out, crn_err *err) {
  *out = NULL;
  crn_updater *u = crn_calloc(1, sizeof *u);
  if (!u) return crn_err_memory(err);
  u->states = crn_calloc(n_params ? n_params : 1, sizeof *u->states);
  if (!u->states) {
    crn_free(u);
    return crn_err_memory(err);
  }
  u->n = n_params;
  u->threads = threads;
  u->seed = seed;
  if (log) u->log = *log;
  crn_status status = configure(u, config, params, err);
  if (status != CRN_OK) {
    crn_updater_free(u);
    return status;
  }
  *out = u;
  return CRN_OK;
}

static void free_slots(crn_update_state *s) {
  for (int k = 0; k < CRN_OPTIMIZER_MAX_SLOTS; k++) {
    crn_free(s->slots[k]);
    s->slots[k] = NULL;
  }
}

void crn_updater_free(crn_updater *u) {
  if (!u) return;
  for (size_t i = 0; i < u->n; i++) {
    free_slots(&u->states[i]);
    crn_free(u->states[i].sum);
    crn_free(u->states[i].first);
    crn_free(u->states[i].zero_row);
  }
  crn_free(u->states);
  crn_free(u->tasks);
  crn_free(u->partial);
  crn_arena_free(&u->arena);
  crn_free(u);
}

void crn_updater_reset_state(crn_update_state *s) {
  s->t = 0;
  for (int k = 0; k < CRN_OPTIMIZER_MAX_SLOTS; k++)
    if (s->slots[k]) s->math->fill(s->slots[k], 0, s->n, crn_optimizer_slot_start(&s->optimizer, k));
}

void crn_updater_reset(crn_updater *u) {
  for (size_t i = 0; i < u->n; i++) {
    crn_updater_reset_state(&u->states[i]);
    u->states[i].sum_started = false;
  }
}

const void *crn_updater_slot(const crn_updater *u, size_t param, int slot) {
  return param < u->n && slot >= 0 && slot < CRN_OPTIMIZER_MAX_SLOTS ? u->states[param].slots[slot] : NULL;
}

double crn_updater_global_norm(const crn_updater *u) { return u->norms[0]; }

const crn_optimizer *crn_updater_optimizer(const crn_updater *u, size_t param) {
  return param < u->n && u->states[param].param.trainable ? &u->states[param].optimizer : NULL;
}
