/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters from and to checkpoints: which to load, saving each epoch.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/commit.h"
#include "ckpt/load.h"
#include "ckpt/state_file.h"
#include "train/engine.h"
#include "train/start_epoch.h"

static int tf_dtype(crn_dtype t) {
  switch (t) {
  case CRN_F64: return CRN_TF_FLOAT64;
  case CRN_I32: return CRN_TF_INT32;
  case CRN_I64: return CRN_TF_INT64;
  case CRN_BOOL: return CRN_TF_BOOL;
  default: return CRN_TF_FLOAT32;
  }
}

static crn_status list_wants(crn_engine *e, const crn_net *net, crn_load_want **out, crn_err *err) {
  crn_load_want *w = CRN_ARENA_ARRAY(&e->arena, crn_load_want, net->n_params + 1);
  if (!w) return crn_err_memory(err);
  for (int i = 0; i < net->n_params; i++) {
    crn_param *p = net->params[i];
    w[i].var = (crn_ckpt_var){p->path, tf_dtype(p->dtype), p->spec.rank, p->spec.shape};
    CRN_TRY(crn_weight_unpack(&p->st, err));
    w[i].dst = p->st.data;
    w[i].non_critical = p->spec.non_critical || p->spec.not_saveable;
    w[i].skip = p->preloaded;
  }
  *out = w;
  return CRN_OK;
}

static void mark_loaded(const crn_net *net, const crn_load_want *w) {
  for (int i = 0; i < net->n_params; i++) {
    if (w[i].result != CRN_LOAD_DONE) continue;
    net->params[i]->initialised = true;
    crn_weight_changed(&net->params[i]->st);
  }
}

static void read_global_step(crn_engine *e, const crn_bundle *b) {
  const crn_bundle_entry *g = crn_bundle_find(b, "global_step");
  crn_err ignore = {0};
  int64_t step;
  if (g && g->dtype == CRN_TF_INT64 && crn_bundle_read(b, g, &step, sizeof(step), &ignore) == CRN_OK) e->store->global_step = step;
  crn_err_clear(&ignore);
}

crn_status crn_engine_load(crn_engine *e, const crn_net *net, const char *prefix, bool ignore_missing, crn_err *err) {
  crn_bundle *b = NULL;
  crn_load_want *w;
  const char *path;
  CRN_TRY(crn_config_input_path(e->config, prefix, &e->arena, &path, err));
  CRN_TRY(list_wants(e, net, &w, err));
  crn_status st = crn_bundle_open(path, &b, err);
  const crn_load_opts o = {.ignore_missing = ignore_missing, .log = &e->log};
  crn_logf(&e->log, 3, "Load model %s", path);
  if (st == CRN_OK) st = crn_load_variables(b, w, (size_t)net->n_params, &o, NULL, err);
  if (st == CRN_OK) {
    mark_loaded(net, w);
    read_global_step(e, b);
  } else (void)crn_err_where(err, "loading '%s'", path);
  crn_bundle_free(b);
  return st;
}

/* ---- preload_from_files --------------------------------------------------------------------------------------------- */

static bool all_strings(const crn_value *v) {
  if (crn_v_is_none(v) || crn_v_is_str(v)) return true;
  if (!crn_v_is_seq(v)) return false;
  for (size_t i = 0; i < crn_v_len(v); i++)
    if (!crn_v_is_str(crn_v_at(v, i))) return false;
  return true;
}

static crn_status string_list(crn_engine *e, const crn_value *v, const char *const **out, size_t *n) {
  const size_t len = crn_v_is_str(v) ? 1 : crn_v_len(v);
  const char **p = CRN_ARENA_ARRAY(&e->arena, const char *, len + 1);
  if (!p) return CRN_E_MEMORY;
  *n = 0;
  for (size_t i = 0; i < len; i++) {
    const char *s = crn_v_cstr(crn_v_is_str(v) ? v : crn_v_at(v, i));
    if (s) p[(*n)++] = s;
  }
  *out = p;
  return CRN_OK;
}

static bool is_anything(const crn_value *v) { return v != NULL; }
static bool is_str_or_none(const crn_value *v) { return crn_v_is_none(v) || crn_v_is_str(v); }
static bool is_dict_or_none(const crn_value *v) { return crn_v_is_none(v) || crn_v_is_dict(v); }

static const struct {
  const char *name, *expected;
  bool (*fits)(const crn_value *v);
} preload_options[] = {{"filename", "a string", crn_v_is_str},
                       {"prefix", "a string", is_str_or_none},
                       {"init_for_train", "a bool", is_anything},
                       {"ignore_missing", "a bool", is_anything},
                       {"ignore_params", "a list of names", all_strings},
                       {"ignore_params_prefixes", "a list of names", all_strings},
                       {"var_name_mapping", "a dict", is_dict_or_none},
                       {"custom_missing_load_func", "a function", is_anything}};
enum { N_PRELOAD_OPTIONS = sizeof preload_options / sizeof *preload_options };

static crn_status check_preload_option(const char *entry, const char *key, const crn_value *v, crn_err *err) {
  const char *names[N_PRELOAD_OPTIONS];
  for (size_t i = 0; i < N_PRELOAD_OPTIONS; i++) {
    names[i] = preload_options[i].name;
    if (strcmp(names[i], key) != 0) continue;
    if (preload_options[i].fits(v)) return CRN_OK;
    return crn_fail(err, CRN_E_CONFIG, "preload_from_files: entry '%s': option '%s': expected %s, got %s", entry, key,
                    preload_options[i].expected, crn_v_kind_name(v));
  }
  const char *near = crn_nearest(key, names, N_PRELOAD_OPTIONS);
  const crn_status st = crn_fail(err, CRN_E_CONFIG, "preload_from_files: entry '%s': unknown option '%s'", entry, key);
  if (near) crn_err_append(err, " (did you mean '%s'?)", near);
  return st;
}

/* Also of entries that this task doesn't load. */
static crn_status check_preload_entry(const char *name, const crn_value *v, crn_err *err) {
  if (!crn_v_is_dict(v)) return crn_fail(err, CRN_E_CONFIG, "preload_from_files: entry '%s' must be a dict", name);
  for (size_t i = 0; i < v->u.dict.n; i++) {
    const char *key = crn_v_cstr(v->u.dict.keys[i]);
    CRN_TRY(check_preload_option(name, key ? key : "?", v->u.dict.vals[i], err));
  }
  if (!crn_v_cstr(crn_v_get(v, "filename")))
    return crn_fail(err, CRN_E_CONFIG, "preload_from_files: entry '%s' needs 'filename'", name);
  if (!crn_v_is_none(crn_v_get(v, "custom_missing_load_func")))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "preload_from_files: entry '%s': not implemented: custom_missing_load_func", name);
  return CRN_OK;
}

static crn_status preload_one(crn_engine *e, const crn_net *net, const char *name, const crn_value *v, bool first, crn_err *err) {
  CRN_TRY(check_preload_entry(name, v, err));
  if (crn_v_truth(crn_v_get(v, "init_for_train")) != first) return CRN_OK;
  const char *file = crn_v_cstr(crn_v_get(v, "filename")), *path;
  CRN_TRY(crn_config_input_path(e->config, file, &e->arena, &path, err));
  crn_load_opts o = {.load_if_prefix = crn_v_cstr(crn_v_get(v, "prefix")), .ignore_missing = crn_v_truth(crn_v_get(v, "ignore_missing")), .log = &e->log};
  CRN_TRY(string_list(e, crn_v_get(v, "ignore_params"), &o.ignore_params, &o.n_ignore_params));
  CRN_TRY(string_list(e, crn_v_get(v, "ignore_params_prefixes"), &o.ignore_params_prefixes, &o.n_ignore_params_prefixes));
  const crn_value *map = crn_v_get(v, "var_name_mapping");
  crn_name_pair *pairs = CRN_ARENA_ARRAY(&e->arena, crn_name_pair, crn_v_len(map) + 1);
  if (!pairs) return crn_err_memory(err);
  for (size_t i = 0; crn_v_is_dict(map) && i < map->u.dict.n; i++) {
    const char *a = crn_v_cstr(map->u.dict.keys[i]), *b = crn_v_cstr(map->u.dict.vals[i]);
    if (a && b) pairs[o.n_var_name_mapping++] = (crn_name_pair){a, b};
  }
  o.var_name_mapping = pairs;
  crn_load_want *w;
  crn_bundle *b = NULL;
  CRN_TRY(list_wants(e, net, &w, err));
  crn_logf(&e->log, 3, "loading weights from %s", path);
  crn_status st = crn_bundle_open(path, &b, err);
  if (st == CRN_OK) st = crn_load_variables(b, w, (size_t)net->n_params, &o, NULL, err);
  if (st == CRN_OK) {
    mark_loaded(net, w);
    for (int i = 0; i < net->n_params; i++)
      if (w[i].result == CRN_LOAD_DONE) {
        net->params[i]->preloaded = true;
        crn_logf(&e->log, 4, "%s registered for pre-loading via prefix '%s'.", net->params[i]->path, o.load_if_prefix ? o.load_if_prefix : "");
      }
  } else (void)crn_err_where(err, "preload_from_files: entry '%s'", name);
  crn_bundle_free(b);
  return st;
}

crn_status crn_engine_preload(crn_engine *e, const crn_net *net, bool first_training_epoch, crn_err *err) {
  const crn_value *d = crn_v_get(e->values, "preload_from_files");
  if (!crn_v_truth(d)) return CRN_OK;
  if (!crn_v_is_dict(d))
    return crn_config_fail(e->config, "preload_from_files", err, "expected a dict of entries, got %s", crn_v_kind_name(d));
  size_t n = d->u.dict.n;
  for (size_t done = 0, last = 0; done < n; done++) { /* sorted by name */
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
      const char *k = crn_v_cstr(d->u.dict.keys[i]);
      if (!k) return crn_fail(err, CRN_E_CONFIG, "preload_from_files: names must be strings");
      if (done && strcmp(k, crn_v_cstr(d->u.dict.keys[last])) <= 0) continue;
      if (best == n || strcmp(k, crn_v_cstr(d->u.dict.keys[best])) < 0) best = i;
    }
    if (best == n) break;
    CRN_TRY(preload_one(e, net, crn_v_cstr(d->u.dict.keys[best]), d->u.dict.vals[best], first_training_epoch, err));
    last = best;
  }
  return CRN_OK;
}

/* ---- saving --------------------------------------------------------------------------------------------------------- */

bool crn_engine_wait(void *engine, int64_t ms) {
  const crn_engine *e = engine;
  enum { SLICE_MS = 100 };
  for (; ms > 0; ms -= SLICE_MS) {
    if (e->hooks.stop && e->hooks.stop(e->hooks.user)) return false;
    const int64_t now = ms < SLICE_MS ? ms : SLICE_MS;
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)now * 1000000}, NULL);
  }
  return !e->hooks.stop || !e->hooks.stop(e->hooks.user);
}

static crn_save_opts save_opts(crn_engine *e) {
  crn_save_opts o = crn_save_defaults();
  o.log = &e->log;
  o.sleep = crn_engine_wait;
  o.sleep_user = e;
  return o;
}

static crn_status try_rates(void *arg, const crn_fileops *ops, int *error, crn_err *err) {
  const crn_engine *e = arg;
  (void)ops;
  errno = 0;
  const crn_status st = crn_lr_save(e->lr, err);
  *error = st == CRN_OK ? 0 : errno;
  return st;
}

crn_status crn_engine_save_rates(crn_engine *e, crn_err *err) {
  const crn_save_opts o = save_opts(e);
  return crn_retry(&o, "saving", try_rates, e, err);
}

crn_status crn_engine_save(crn_engine *e, const crn_net *net, const char *prefix, crn_err *err) {
  if (e->dry_run) return CRN_OK;
  crn_bundle_writer *w = NULL;
  const crn_save_opts o = save_opts(e);
  CRN_TRY(crn_bundle_begin(prefix, &o, &w, err));
  crn_status st = CRN_OK;
  for (int i = 0; i < net->n_params && st == CRN_OK; i++) {
    const crn_param *p = net->params[i];
    if (!p->spec.not_saveable) st = crn_weight_unpack(&net->params[i]->st, err);
    if (!p->spec.not_saveable && st == CRN_OK) st = crn_bundle_add(w, p->path, tf_dtype(p->dtype), p->spec.rank, p->spec.shape, p->st.data, err);
  }
  if (st == CRN_OK) st = crn_bundle_add(w, "global_step", CRN_TF_INT64, 0, NULL, &e->store->global_step, err);
  if (st == CRN_OK) st = crn_bundle_finish(w, err);
  crn_bundle_writer_free(w);
  return st;
}

crn_status crn_engine_models(crn_engine *e, int64_t load_epoch, crn_models *out, crn_err *err) {
  *out = (crn_models){0};
  if (!e->model) return CRN_OK;
  const int64_t last = e->num_epochs == 0 || e->num_epochs > load_epoch ? e->num_epochs : load_epoch;
  return crn_models_find(e->model, last, &e->arena, out, err);
}

crn_status crn_engine_save_epoch(crn_engine *e, crn_err *err) {
  if (!e->model) return CRN_OK;
  const char *prefix = crn_arena_printf(&e->arena, "%s.%03lld", e->model, (long long)e->epoch);
  if (!prefix) return crn_err_memory(err);
  if (e->dry_run) return CRN_OK;
  crn_logf(&e->log, 4, "Save model under %s", prefix);
  CRN_TRY(crn_engine_save(e, e->train_net, prefix, err));
  const crn_save_opts o = save_opts(e);
  return crn_ckpt_state_write(prefix, &o, err);
}

/* ---- other tasks ---------------------------------------------------------------------------------------------------- */

crn_status crn_engine_load_for_task(crn_engine *e, const crn_net *net, crn_err *err) {
  const char *load;
  int64_t load_epoch, epoch;
  bool allow_random, ignore_missing;
  CRN_TRY(crn_config_str(e->config, "load", NULL, &load, err));
  CRN_TRY(crn_config_int(e->config, "load_epoch", 0, &load_epoch, err));
  CRN_TRY(crn_config_int(e->config, "epoch", 0, &epoch, err));
  CRN_TRY(crn_config_bool(e->config, "allow_random_model_init", false, &allow_random, err));
  CRN_TRY(crn_config_bool(e->config, "load_ignore_missing_vars", false, &ignore_missing, err));
  if (load_epoch <= 0) load_epoch = epoch;
  crn_models m = {0};
  CRN_TRY(crn_engine_models(e, load_epoch, &m, err));
  const crn_start_query q = {.existing = m.epochs, .n_existing = m.n, .has_load = load != NULL, .load_file_epoch = load ? crn_model_epoch_of(load, load_epoch) : -1,
                             .load_epoch = load_epoch, .allow_random = allow_random};
  crn_start s;
  CRN_TRY(crn_start_other(&q, &e->log, &s, err));
  e->epoch = s.first_epoch;
  CRN_TRY(crn_engine_preload(e, net, false, err));
  if (s.source == CRN_START_LOAD) return crn_engine_load(e, net, load, ignore_missing, err);
  if (s.source == CRN_START_MODEL) return crn_engine_load(e, net, crn_models_prefix(&m, s.model_epoch), ignore_missing, err);
  return crn_store_init_values(e->store, e->seed, err);
}
