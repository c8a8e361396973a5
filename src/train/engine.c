/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks train and eval: networks, epochs, evaluation.
 */
#include "train/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "net/report.h"
#include "train/eval_by_seq.h"
#include "train/options.h"
#include "train/progress.h"
#include "train/start_epoch.h"

static crn_status log_device(crn_engine *e, crn_err *err) {
  const char *device;
  CRN_TRY(crn_config_str(e->config, "device", NULL, &device, err));
  if (device && strcmp(device, "cpu") != 0) crn_logf(&e->log, 3, "Device '%s' is asked for: computing on the CPU.", device);
  return CRN_OK;
}

crn_status crn_engine_init(crn_engine *e, crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err) {
  memset(e, 0, sizeof(*e));
  e->config = config;
  e->values = crn_config_root(config);
  if (log) e->log = *log;
  if (hooks) e->hooks = *hooks;
  e->store = crn_store_new(CRN_F32);
  if (!e->store) return crn_err_memory(err);
  int64_t seed;
  const char *model;
  CRN_TRY(crn_config_int(config, "random_seed", 1, &seed, err));
  e->seed = (uint64_t)seed;
  CRN_TRY(crn_config_str(config, "model", NULL, &model, err));
  if (model && !model[0]) return crn_config_fail(config, "model", err, "expected a path and the beginning of names, got ''");
  if (model) CRN_TRY(crn_config_output_path(config, model, &e->arena, &e->model, err));
  CRN_TRY(crn_config_int(config, "num_epochs", 5, &e->num_epochs, err));
  if (e->num_epochs < 0)
    return crn_config_fail(config, "num_epochs", err, "expected an integer >= 0 (0: without end), got %lld", (long long)e->num_epochs);
  CRN_TRY(crn_config_int(config, "save_interval", 1, &e->save_interval, err));
  CRN_TRY(crn_config_bool(config, "stop_on_nonfinite_train_score", true, &e->stop_on_nonfinite, err));
  CRN_TRY(crn_config_bool(config, "dry_run", false, &e->dry_run, err));
  CRN_TRY(crn_config_bool(config, "need_data", true, &e->need_data, err));
  CRN_TRY(crn_config_bool(config, "log_batch_size", false, &e->log_sizes, err));
  return log_device(e, err);
}

void crn_engine_deinit(crn_engine *e) {
  const int n = e->train_net && e->row_indices ? e->train_net->n_params : 0;
  for (int i = 0; i < n; i++) {
    crn_free(e->row_indices[i]);
    crn_free(e->row_values[i]);
  }
  crn_updater_free(e->updater);
  crn_exec_free(e->train_exec);
  crn_exec_free(e->eval_exec);
  crn_net_free(e->train_net);
  crn_net_free(e->eval_net);
  crn_store_free(e->store);
  crn_lr_free(e->lr);
  crn_arena_free(&e->arena);
}

static crn_status make_exec(crn_engine *e, crn_net *net, crn_exec **out, crn_err *err) {
  int64_t threads;
  CRN_TRY(crn_config_int(e->config, "num_threads", 0, &threads, err));
  const crn_session_opts o = {.n_threads = (int)threads, .seed = e->seed};
  return crn_exec_new(net, &o, out, err);
}

crn_status crn_engine_eval_net(crn_engine *e, crn_net_mode mode, crn_err *err) {
  CRN_TRY(crn_net_build(e->values, mode, e->store, &e->log, &e->eval_net, err));
  return make_exec(e, e->eval_net, &e->eval_exec, err);
}

/* ---- evaluation ----------------------------------------------------------------------------------------------------- */

typedef struct eval_sets {
  const char *names[16];
  crn_dataset *sets[16];
  crn_scores scores[16];
  int n;
  bool exponential;
  crn_eval_by_seq *by_seq; /* or NULL */
} eval_sets;

static crn_status add_set(crn_engine *e, eval_sets *s, const char *name, crn_dataset *ds, crn_err *err) {
  if (!ds) return CRN_OK;
  if (s->n >= 16) {
    crn_dataset_free(ds);
    return crn_fail(err, CRN_E_CONFIG, "more than 16 datasets to evaluate");
  }
  (void)e;
  s->names[s->n] = name;
  s->scores[s->n].exponential = s->exponential;
  s->sets[s->n++] = ds;
  return CRN_OK;
}

static crn_status open_sets(crn_engine *e, eval_sets *s, crn_err *err) {
  static const char *const names[] = {"dev", "eval"};
  CRN_TRY(crn_config_bool(e->config, "calculate_exp_loss", false, &s->exponential, err));
  for (size_t i = 0; i < 2; i++) {
    crn_dataset *ds;
    CRN_TRY(crn_engine_dataset(e, names[i], &ds, err));
    CRN_TRY(add_set(e, s, names[i], ds, err));
  }
  const crn_value *more = crn_v_get(e->values, "eval_datasets");
  for (size_t i = 0; crn_v_is_dict(more) && i < more->u.dict.n; i++) {
    const char *name = crn_v_cstr(more->u.dict.keys[i]);
    if (!e->need_data) break;
    const crn_data_env env = {.base_dir = crn_config_folder(e->config), .log = &e->log};
    crn_dataset *ds = NULL;
    if (!name) continue;
    CRN_TRY(crn_dataset_from_eval_datasets(e->values, name, &env, &ds, err));
    CRN_TRY(add_set(e, s, name, ds, err));
  }
  return CRN_OK;
}

static void close_sets(eval_sets *s) {
  for (int i = 0; i < s->n; i++) {
    crn_dataset_free(s->sets[i]);
    crn_scores_free(&s->scores[i]);
  }
}

static crn_status evaluate_set(crn_engine *e, eval_sets *s, int i, crn_err *err) {
  char label[96];
  (void)snprintf(label, sizeof(label), "epoch %lld '%s' eval", (long long)e->epoch, s->names[i]);
  crn_scores_clear(&s->scores[i]);
  CRN_TRY(crn_dataset_begin_epoch(s->sets[i], e->epoch, NULL, err));
  CRN_TRY(crn_engine_check_data(e->eval_net, s->sets[i], err));
  crn_pass p = {.exec = e->eval_exec, .net = e->eval_net, .dataset = s->sets[i], .use = !strcmp(s->names[i], "dev") ? CRN_BATCH_DEV : CRN_BATCH_EVAL, .label = label, .scores = &s->scores[i], .each = s->by_seq ? crn_eval_by_seq_batch : NULL, .user = s->by_seq};
  CRN_TRY(crn_engine_pass(e, &p, err));
  if (!e->lr) return CRN_OK;
  CRN_TRY(crn_scores_store(&s->scores[i], s->names[i], e->lr, e->epoch, err));
  return crn_engine_save_rates(e, err);
}

/* Whether the learning-rate file has a score of this data set for the epoch. */
static bool has_scores(const crn_engine *e, const char *set) {
  const crn_lr_epoch *entry = crn_lr_table_find(crn_lr_table_of(e->lr), e->epoch);
  const size_t n = strlen(set);
  for (size_t i = 0; entry && i < entry->n_scores; i++) {
    const char *key = entry->scores[i].key;
    if (!strncmp(key, set, n) && (!strncmp(key + n, "_score", 6) || !strncmp(key + n, "_error", 6))) return true;
  }
  return false;
}

static crn_status evaluate(crn_engine *e, eval_sets *s, bool only_missing, crn_err *err) {
  crn_dataset_scores lines[16];
  size_t n = 0;
  for (int i = 0; i < s->n; i++) {
    if (only_missing && has_scores(e, s->names[i])) continue;
    if (only_missing) crn_logf(&e->log, 1, "Last epoch model not yet evaluated on %s. Doing that now.", s->names[i]);
    CRN_TRY(evaluate_set(e, s, i, err));
    lines[n++] = (crn_dataset_scores){s->names[i], &s->scores[i]};
  }
  if (n) crn_log_eval_scores(&e->log, lines, n);
  return CRN_OK;
}

/* A training that was ended between saving a model and its evaluation. */
static crn_status finish_last_epoch(crn_engine *e, eval_sets *s, int64_t first, crn_err *err) {
  if (first < 2 || !crn_lr_file(e->lr)) return CRN_OK;
  e->epoch = first - 1;
  if (!crn_lr_table_find(crn_lr_table_of(e->lr), e->epoch)) return CRN_OK; /* a file of another training */
  return evaluate(e, s, true, err);
}

/* ---- training ------------------------------------------------------------------------------------------------------- */

static crn_status lr_call(void *user, const crn_value *fn, double lr, int64_t step, double *out, crn_err *err) {
  crn_engine *e = user;
  crn_arena *a = &e->arena;
  crn_value *args = crn_v_seq(a, CRN_V_LIST), *named = crn_v_dict(a), *v = NULL;
  if (step < 0) (void)crn_v_push(a, args, crn_v_float(a, lr));
  else {
    (void)crn_v_put(a, named, "learning_rate", crn_v_float(a, lr));
    (void)crn_v_put(a, named, "global_train_step", crn_v_int(a, step));
    (void)crn_v_put(a, named, "network", crn_v_none(a));
  }
  CRN_TRY(crn_config_call(e->config, fn, args, named, a, &v, err));
  return crn_v_to_float(v, out) ? CRN_OK : crn_fail(err, CRN_E_CONFIG, "a learning-rate function gave %s, a number is needed", crn_v_kind_name(v));
}

crn_status crn_engine_open_rates(crn_engine *e, const crn_lr_hook *hook, crn_err *err) {
  CRN_TRY(crn_lr_new(e->values, hook, &e->log, &e->lr, err));
  if (crn_lr_file(e->lr)) {
    const char *path;
    CRN_TRY(crn_config_output_path(e->config, crn_lr_file(e->lr), &e->arena, &path, err));
    crn_lr_set_file(e->lr, path);
  }
  CRN_TRY(crn_lr_load(e->lr, err));
  if (e->dry_run) crn_lr_set_file(e->lr, NULL);
  return CRN_OK;
}

/* Without random_seed the epoch alone decides. */
uint64_t crn_engine_init_seed(const crn_engine *e, int64_t epoch) {
  if (crn_v_is_none(crn_v_get(e->values, "random_seed"))) return (uint64_t)epoch;
  return (3 * (uint64_t)epoch + 5 * e->seed + 7) % (1ull << 31);
}

static crn_status start(crn_engine *e, int64_t *first, bool *resumed, crn_err *err) {
  const char *import, *load, *se;
  int64_t load_epoch, start_epoch = 0;
  bool ignore_missing;
  CRN_TRY(crn_config_str(e->config, "import_model_train_epoch1", NULL, &import, err));
  CRN_TRY(crn_config_str(e->config, "load", NULL, &load, err));
  CRN_TRY(crn_config_int(e->config, "load_epoch", 0, &load_epoch, err));
  CRN_TRY(crn_config_bool(e->config, "load_ignore_missing_vars", false, &ignore_missing, err));
  const crn_value *sv = crn_v_get(e->values, "start_epoch");
  se = crn_v_cstr(sv);
  if (se ? strcmp(se, "auto") != 0 : !crn_v_is_none(sv) && (!crn_v_to_int(sv, &start_epoch) || start_epoch < 0))
    return crn_opt_wrong("start_epoch", "'auto' or an integer >= 0", sv, err);
  crn_models m = {0};
  CRN_TRY(crn_engine_models(e, load_epoch, &m, err));
  const crn_start_query q = {.existing = m.epochs, .n_existing = m.n, .start_epoch = start_epoch, .has_import = import != NULL, .has_load = load != NULL,
                             .load_file_epoch = load ? crn_model_epoch_of(load, load_epoch) : -1, .load_epoch = load_epoch};
  crn_start s;
  CRN_TRY(crn_start_train(&q, &e->log, &s, err));
  *first = s.first_epoch;
  *resumed = s.source == CRN_START_MODEL;
  if (s.source == CRN_START_RANDOM || s.source == CRN_START_IMPORT) CRN_TRY(crn_engine_preload(e, e->train_net, true, err));
  if (s.source == CRN_START_MODEL) CRN_TRY(crn_engine_load(e, e->train_net, crn_models_prefix(&m, s.model_epoch), ignore_missing, err));
  if (s.source == CRN_START_IMPORT) CRN_TRY(crn_engine_load(e, e->train_net, import, ignore_missing, err));
  if (s.source == CRN_START_LOAD) CRN_TRY(crn_engine_load(e, e->train_net, load, ignore_missing, err));
  return crn_store_init_values(e->store, crn_engine_init_seed(e, s.first_epoch), err);
}

static crn_status train_epoch(crn_engine *e, crn_dataset *train, crn_scores *scores, crn_err *err) {
  char label[64];
  double lr;
  const int64_t first_step = e->store->global_step;
  (void)snprintf(label, sizeof(label), "train epoch %lld", (long long)e->epoch);
  CRN_TRY(crn_dataset_begin_epoch(train, e->epoch, NULL, err));
  CRN_TRY(crn_lr_for_epoch(e->lr, e->epoch, 0, &lr, err));
  crn_logf(&e->log, 4, "start epoch %lld with learning rate %.9g ...", (long long)e->epoch, lr);
  crn_scores_clear(scores);
  crn_pass p = {.exec = e->train_exec, .net = e->train_net, .dataset = train, .use = CRN_BATCH_TRAIN, .train = true, .label = label, .lr = lr, .scores = scores};
  CRN_TRY(crn_engine_pass(e, &p, err));
  CRN_TRY(crn_scores_store(scores, "train", e->lr, e->epoch, err));
  CRN_TRY(crn_lr_put_int(e->lr, e->epoch, ":meta:epoch_num_train_steps", p.n_steps, err));
  CRN_TRY(crn_lr_put_int(e->lr, e->epoch, ":meta:epoch_train_time_secs", (int64_t)floor(p.seconds + 0.5), err));
  CRN_TRY(crn_lr_put_int(e->lr, e->epoch, ":meta:global_train_step", first_step, err));
  CRN_TRY(crn_engine_save_rates(e, err)); /* before the model: one that is there always has its scores */
  if (e->save_interval > 0 && e->epoch % e->save_interval == 0) CRN_TRY(crn_engine_save_epoch(e, err));
  crn_log_epoch_scores(&e->log, e->epoch, false, scores, p.seconds);
  return CRN_OK;
}

/* Only what was trained in this run: faults of the config, which show in the first step at the latest, lose nothing. */
static void save_crash(crn_engine *e, crn_status why, int64_t first_step) {
  if (!e->model || e->dry_run || !e->train_net || why == CRN_E_INTERRUPTED || e->epoch < 1) return;
  if (e->store->global_step == first_step) return;
  crn_err ignore = {0};
  const char *prefix = crn_arena_printf(&e->arena, "%s.%03lld.crash_%lld", e->model, (long long)e->epoch, (long long)e->store->global_step);
  if (prefix && crn_engine_save(e, e->train_net, prefix, &ignore) == CRN_OK) crn_logf(&e->log, 1, "Saved the model as %s", prefix);
  crn_err_clear(&ignore);
}

static crn_status save_initial(crn_engine *e, crn_err *err) {
  bool wanted;
  CRN_TRY(crn_config_bool(e->config, "save_epoch1_initial_model", false, &wanted, err));
  if (!wanted || !e->model || e->dry_run) return CRN_OK;
  const char *prefix = crn_arena_printf(&e->arena, "%s.000", e->model);
  if (!prefix) return crn_err_memory(err);
  crn_logf(&e->log, 4, "Save model under %s", prefix);
  return crn_engine_save(e, e->train_net, prefix, err);
}

static crn_status log_network(crn_engine *e, crn_err *err) {
  crn_str text = {0};
  if (e->log.verbosity < 2) return CRN_OK;
  crn_str_add(&text, "Network layer topology:\n");
  crn_net_describe_data(e->train_net, &text);
  crn_net_describe_layers(e->train_net, &text);
  crn_net_describe_params(e->train_net, false, &text);
  if (e->log.verbosity >= 3) crn_net_describe_loops(e->train_net, &text);
  for (char *line = text.p, *end; line && *line; line = end + 1) {
    end = strchr(line, '\n');
    *end = 0;
    crn_logf(&e->log, 2, "%s", line);
  }
  const bool ok = crn_str_ok(&text);
  crn_str_free(&text);
  return ok ? CRN_OK : crn_err_memory(err);
}

/* What the run will write can be written: said now, not after the first epoch. */
static crn_status prepare_files(crn_engine *e, crn_err *err) {
  const char *rates = crn_lr_file(e->lr);
  CRN_TRY(crn_engine_prepare_model(e, err));
  return rates ? crn_engine_prepare_file(e, "learning_rate_file", rates, true, err) : CRN_OK;
}

static crn_status train(crn_engine *e, crn_err *err) {
  crn_dataset *data = NULL;
  eval_sets sets = {.n = 0};
  crn_scores scores = {0};
  int64_t first = 1;
  bool resumed = false;
  const crn_lr_hook hook = {lr_call, e};
  crn_status st = crn_config_check_training(e->config, err);
  if (st == CRN_OK) st = crn_engine_dataset(e, "train", &data, err);
  if (st == CRN_OK && !data) st = crn_fail(err, CRN_E_CONFIG, "%s: key %s: task train needs data", crn_config_file(e->config), e->need_data ? "'train' is missing" : "'need_data' is False");
  if (st == CRN_OK) st = crn_engine_extern_data(e, data, err);
  if (st == CRN_OK) st = crn_net_build(e->values, (crn_net_mode){.train = true, .eval = true}, e->store, &e->log, &e->train_net, err);
  if (st == CRN_OK) st = log_network(e, err);
  if (st == CRN_OK) st = crn_engine_check_data(e->train_net, data, err);
  if (st == CRN_OK) st = make_exec(e, e->train_net, &e->train_exec, err);
  if (st == CRN_OK) st = crn_engine_eval_net(e, (crn_net_mode){.eval = true}, err);
  if (st == CRN_OK) st = open_sets(e, &sets, err);
  if (st == CRN_OK) st = crn_engine_open_rates(e, &hook, err);
  if (st == CRN_OK) st = prepare_files(e, err);
  if (st == CRN_OK) st = start(e, &first, &resumed, err);
  if (st == CRN_OK) st = crn_engine_make_updater(e, err);
  scores.exponential = sets.exponential;
  const int64_t first_step = e->store->global_step;
  if (st == CRN_OK && resumed) st = finish_last_epoch(e, &sets, first, err);
  if (st == CRN_OK && e->num_epochs > 0 && first > e->num_epochs) crn_logf(&e->log, 3, "No epochs to train, start_epoch: %lld, final_epoch: %lld", (long long)first, (long long)e->num_epochs);
  if (st == CRN_OK && first == 1) st = save_initial(e, err);
  for (int64_t n = first; st == CRN_OK && (e->num_epochs == 0 || n <= e->num_epochs); n++) {
    e->epoch = n;
    st = train_epoch(e, data, &scores, err);
    if (st == CRN_OK) st = evaluate(e, &sets, false, err);
    if (st == CRN_OK) crn_lr_log_error_key(e->lr, n);
    if (st == CRN_OK) st = crn_engine_curve(e, err);
    if (st == CRN_OK) st = crn_engine_cleanup(e, n, false, err);
  }
  if (st == CRN_OK && e->epoch >= 1 && e->num_epochs > 0 && e->epoch % (e->save_interval > 0 ? e->save_interval : 1) != 0) st = crn_engine_save_epoch(e, err);
  if (st == CRN_OK) crn_logf(&e->log, 3, "Finished training in epoch %lld.", (long long)(first > e->num_epochs ? e->num_epochs : e->epoch));
  else save_crash(e, st, first_step);
  crn_scores_free(&scores);
  close_sets(&sets);
  crn_dataset_free(data);
  return st;
}

crn_status crn_task_train(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err) {
  crn_engine e;
  crn_status st = crn_engine_init(&e, config, log, hooks, err);
  if (st == CRN_OK) st = train(&e, err);
  crn_engine_deinit(&e);
  return st;
}

/* ---- eval ----------------------------------------------------------------------------------------------------------- */

static crn_status write_eval_file(const eval_sets *s, const char *path, crn_err *err) {
  if (!path) return CRN_OK;
  crn_dataset_scores lines[16];
  for (int i = 0; i < s->n; i++) lines[i] = (crn_dataset_scores){s->names[i], &s->scores[i]};
  crn_str text = {0};
  crn_scores_eval_file(lines, (size_t)s->n, &text);
  crn_status st = crn_str_ok(&text) ? crn_file_write(path, crn_str_get(&text), text.len, err) : crn_err_memory(err);
  crn_str_free(&text);
  return st;
}

/* Scores of a model of the training go into its learning-rate file, if that knows the epoch. */
static crn_status open_known_rates(crn_engine *e, crn_err *err) {
  CRN_TRY(crn_engine_open_rates(e, NULL, err));
  if (crn_lr_file(e->lr) && crn_lr_table_find(crn_lr_table_of(e->lr), e->epoch)) return CRN_OK;
  crn_lr_free(e->lr);
  e->lr = NULL;
  return CRN_OK;
}

static crn_status eval(crn_engine *e, crn_err *err) {
  eval_sets sets = {.n = 0};
  const char *file, *path = NULL;
  crn_status st = crn_config_str(e->config, "eval_output_file", NULL, &file, err);
  if (st == CRN_OK && file) st = crn_engine_output_file(e, "eval_output_file", file, true, &path, err);
  if (st == CRN_OK) st = open_sets(e, &sets, err);
  if (st == CRN_OK && !sets.n) st = crn_fail(err, CRN_E_CONFIG, "%s: task eval needs 'dev', 'eval' or 'eval_datasets'%s", crn_config_file(e->config), e->need_data ? "" : " and 'need_data'");
  if (st == CRN_OK) st = crn_eval_by_seq_new(e, &sets.by_seq, err);
  if (st == CRN_OK && sets.by_seq && sets.n > 1) st = crn_config_fail(e->config, "eval_output_file_per_seq", err, "there must be one dataset to evaluate, there are %d", sets.n);
  if (st == CRN_OK) st = crn_engine_extern_data(e, sets.sets[0], err);
  if (st == CRN_OK) st = crn_engine_eval_net(e, (crn_net_mode){.eval = true}, err);
  if (st == CRN_OK && sets.by_seq) st = crn_eval_by_seq_start(sets.by_seq, err);
  if (st == CRN_OK) st = crn_engine_load_for_task(e, e->eval_net, err);
  if (st == CRN_OK && crn_v_is_none(crn_v_get(e->values, "load"))) st = open_known_rates(e, err);
  if (st == CRN_OK) st = evaluate(e, &sets, false, err);
  if (st == CRN_OK) st = write_eval_file(&sets, path, err);
  if (st == CRN_OK && sets.by_seq) st = crn_eval_by_seq_write(sets.by_seq, sets.sets[0], err);
  close_sets(&sets);
  return st;
}

crn_status crn_task_eval(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err) {
  crn_engine e;
  crn_status st = crn_engine_init(&e, config, log, hooks, err);
  if (st == CRN_OK) st = eval(&e, err);
  crn_engine_deinit(&e);
  return st;
}
