/* SPDX-License-Identifier: Apache-2.0
 *
 * What a config amounts to, without running it: its network, and everything it asks for that isn't there.
 */
#include <string.h>

#include "config/keys.h"
#include "data/batch.h"
#include "data/chunk.h"
#include "data/dataset.h"
#include "net/report.h"
#include "train/engine.h"
#include "train/keep_models.h"

typedef struct problems {
  crn_str *out;
  int64_t n;
} problems;

/* Once each. */
static void add_problem(void *user, const char *text) {
  problems *p = user;
  crn_str line = {0};
  crn_str_addf(&line, "\n  %s\n", text);
  if (!crn_str_ok(p->out) || !crn_str_ok(&line) || !strstr(p->out->p, line.p)) {
    crn_str_addf(p->out, "  %s\n", text);
    p->n++;
  }
  crn_str_free(&line);
}

static void add_key_problem(const crn_value *v, const char *name, problems *p) {
  const crn_config_key *key = crn_config_key_find(name), *near = key ? NULL : crn_config_key_nearest(name);
  crn_str s = {0};
  if (near && v->kind != CRN_V_CALLABLE)
    crn_str_addf(&s, "unknown config key '%s' (did you mean '%s'?)", name, near->name);
  if (key && (key->state == CRN_KEY_NOT_IMPLEMENTED || key->state == CRN_KEY_REFUSED) && crn_v_truth(v))
    crn_str_addf(&s, "config key '%s': not implemented: %s", name, key->doc);
  if (key && key->state == CRN_KEY_USED && !crn_config_key_fits(key, v)) {
    crn_str_addf(&s, "config key '%s': expected ", name);
    crn_config_key_types(key, &s);
    crn_str_add(&s, ", got ");
    crn_v_repr(v, &s, 60);
  }
  if (s.len) add_problem(p, crn_str_get(&s));
  crn_str_free(&s);
}

/* Keys of wrong types are then taken out: what they would have been doesn't matter for the rest. */
static crn_status check_keys(crn_config *config, problems *p, crn_err *err) {
  const crn_value *root = crn_config_root(config);
  for (size_t i = 0; i < root->u.dict.n; i++)
    if (crn_v_cstr(root->u.dict.keys[i])) add_key_problem(root->u.dict.vals[i], crn_v_cstr(root->u.dict.keys[i]), p);
  for (size_t i = root->u.dict.n; i-- > 0;) {
    const char *name = crn_v_cstr(root->u.dict.keys[i]);
    const crn_config_key *key = name ? crn_config_key_find(name) : NULL;
    if (key && key->state == CRN_KEY_USED && !crn_config_key_fits(key, root->u.dict.vals[i]))
      CRN_TRY(crn_config_set(config, name, NULL, err));
  }
  return CRN_OK;
}

typedef struct place {
  const char *name;
  problems *p;
} place;

static void add_dataset_problem(void *user, const char *text) {
  const place *at = user;
  crn_str s = {0};
  crn_str_addf(&s, "%s: %s", at->name, text);
  add_problem(at->p, crn_str_get(&s));
  crn_str_free(&s);
}

/* Class and options of a dataset and of the datasets in its options. */
static void check_dataset(const char *where, const crn_value *v, problems *p, int depth) {
  const char *class = crn_v_cstr(crn_v_get(v, "class")), *near, *doc;
  if (!crn_v_is_dict(v) || depth > 10) return;
  if (class) {
    const crn_class_state state = crn_dataset_class_look_up(class, &doc, &near);
    crn_str s = {0};
    if (state == CRN_CLASS_UNKNOWN) crn_str_addf(&s, "%s: unknown class of datasets '%s'", where, class);
    if (near) crn_str_addf(&s, " (did you mean '%s'?)", near);
    if (state == CRN_CLASS_NOT_IMPLEMENTED) crn_str_addf(&s, "%s: not implemented: class '%s': %s", where, class, doc);
    if (s.len) add_problem(p, crn_str_get(&s));
    crn_str_free(&s);
    crn_err err = {0};
    place at = {where, p};
    if (crn_dataset_check(v, add_dataset_problem, &at, &err) != CRN_OK) add_problem(p, crn_err_text(&err));
    crn_err_clear(&err);
  }
  static const char *const inner[] = {"dataset", "datasets"};
  for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
    const crn_value *sub = crn_v_get(v, inner[i]);
    if (crn_v_is_dict(sub) && crn_v_is_str(crn_v_get(sub, "class"))) check_dataset(where, sub, p, depth + 1);
    for (size_t k = 0; crn_v_is_dict(sub) && k < sub->u.dict.n; k++)
      check_dataset(where, sub->u.dict.vals[k], p, depth + 1);
    for (size_t k = 0; crn_v_is_seq(sub) && k < crn_v_len(sub); k++)
      check_dataset(where, crn_v_at(sub, k), p, depth + 1);
  }
}

static void check_datasets(const crn_value *root, problems *p) {
  static const char *const keys[] = {"train", "dev", "eval", "search_data"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) check_dataset(keys[i], crn_v_get(root, keys[i]), p, 0);
  const crn_value *more = crn_v_get(root, "eval_datasets");
  for (size_t i = 0; crn_v_is_dict(more) && i < more->u.dict.n; i++) {
    const char *name = crn_v_cstr(more->u.dict.keys[i]);
    check_dataset(name ? name : "eval_datasets", more->u.dict.vals[i], p, 0);
  }
}

static void check_part(crn_status st, problems *p, crn_err *err) {
  if (st != CRN_OK) add_problem(p, crn_err_text(err));
  crn_err_clear(err);
  *err = (crn_err){0};
}

/* What looks at its keys when it is made: batches, chunks, optimizer, learning rates, old models. */
static void check_rules(const crn_value *values, problems *p) {
  crn_err err = {0};
  crn_updater *updater = NULL;
  crn_lr_control *lr = NULL;
  float w = 0;
  crn_update_param param = {.name = "W", .w = &w, .rows = 1, .row_len = 1, .trainable = true};
  check_part(crn_updater_new(values, &param, 1, 1, NULL, NULL, &updater, &err), p, &err);
  check_part(crn_lr_new(values, NULL, NULL, &lr, &err), p, &err);
  crn_updater_free(updater);
  crn_lr_free(lr);
  crn_arena a = {0};
  crn_keep_options keep;
  check_part(crn_keep_options_read(crn_v_get(values, "cleanup_old_models"), &a, NULL, &keep, &err), p, &err);
  crn_arena_free(&a);
  crn_chunking chunks = {0};
  const crn_chunk_options how = {crn_v_get(values, "chunking"), crn_v_get(values, "min_chunk_size"),
                                 crn_v_get(values, "context_window"), 0};
  static const char *const keys[] = {"data"};
  check_part(crn_chunking_init(&chunks, &how, keys, 1, &err), p, &err);
  crn_chunking_free(&chunks);
}

/* Each key, and each option of the optimizer, alone first: none hides another's fault. */
static void check_training(crn_engine *e, problems *p) {
  crn_arena *a = &e->arena;
  const crn_value *root = e->values, *optimizer = crn_v_get(root, "optimizer");
  for (size_t i = 0; i < root->u.dict.n; i++) {
    const char *name = crn_v_cstr(root->u.dict.keys[i]);
    crn_value *one = crn_v_dict(a);
    if (!name || !crn_config_key_find(name)) continue;
    if (one && crn_v_put(a, one, name, root->u.dict.vals[i])) check_rules(one, p);
  }
  for (size_t i = 0; crn_v_is_dict(optimizer) && i < optimizer->u.dict.n; i++) {
    crn_value *one = crn_v_dict(a), *opt = crn_v_dict(a), *class = crn_v_get(optimizer, "class");
    const char *name = crn_v_cstr(optimizer->u.dict.keys[i]);
    if (!one || !opt || !class || !name || !strcmp(name, "class")) continue;
    if (crn_v_put(a, opt, "class", class) && crn_v_put(a, opt, name, optimizer->u.dict.vals[i]) &&
        crn_v_put(a, one, "optimizer", opt))
      check_rules(one, p);
  }
  check_rules(root, p);
}

static crn_status build(crn_engine *e, crn_net_mode mode, problems *p, crn_err *err) {
  crn_dataset *data = NULL;
  crn_err ignore = {0};
  bool declared = false;
  static const char *const keys[] = {"extern_data", "num_inputs", "num_outputs"};
  for (size_t i = 0; i < 3; i++) declared |= !crn_v_is_none(crn_v_get(e->values, keys[i]));
  if (!declared) { /* what it holds follows from the dataset, if that can be opened */
    if (crn_engine_dataset(e, "train", &data, &ignore) == CRN_OK && data)
      (void)crn_engine_extern_data(e, data, &ignore);
    crn_err_clear(&ignore);
    crn_dataset_free(data);
  }
  return crn_net_build_telling(e->values, mode, e->store, NULL, p ? add_problem : NULL, p, &e->eval_net, err);
}

static void describe(const crn_net *net, bool params, crn_str *out) {
  crn_net_describe_data(net, out);
  crn_net_describe_layers(net, out);
  crn_net_describe_losses(net, out);
  crn_net_describe_loops(net, out);
  if (params) crn_str_add(out, "parameters:\n");
  crn_net_describe_params(net, params, out);
}

/* The network goes to out if it can be built, what can't be to p. */
static crn_status report(crn_engine *e, crn_net_mode mode, bool params, crn_str *out, problems *p, crn_err *err) {
  CRN_TRY(build(e, mode, p, err));
  if (e->eval_net) describe(e->eval_net, params, out);
  CRN_TRY(crn_net_check(e->values, !e->eval_net, add_problem, p, err));
  check_datasets(e->values, p);
  check_training(e, p);
  return CRN_OK;
}

static crn_net_mode mode_of(const crn_config *config, bool search) {
  const char *task = crn_v_cstr(crn_config_get(config, "task"));
  const bool searches = search || (task && !strcmp(task, "search"));
  return (crn_net_mode){.train = !searches, .eval = true, .search = searches};
}

crn_status crn_engine_info(crn_config *config, const crn_log *log, bool search, bool params, crn_str *out,
                           int64_t *n_problems, crn_err *err) {
  crn_engine e = {0};
  crn_str faults = {0};
  problems p = {&faults, 0};
  crn_str_add(&faults, "not supported:\n");
  crn_status st = check_keys(config, &p, err);
  if (st == CRN_OK) st = crn_engine_init(&e, config, log, NULL, err);
  if (st == CRN_OK) st = report(&e, mode_of(config, search), params, out, &p, err);
  crn_str_add(out, crn_str_get(&faults));
  if (p.n == 0) crn_str_add(out, "  None\n");
  *n_problems = p.n;
  if (st == CRN_OK && !(crn_str_ok(out) && crn_str_ok(&faults))) st = crn_err_memory(err);
  crn_str_free(&faults);
  crn_engine_deinit(&e);
  return st;
}

crn_status crn_engine_graph(crn_config *config, const crn_log *log, bool search, crn_str *out, crn_err *err) {
  crn_engine e;
  crn_status st = crn_engine_init(&e, config, log, NULL, err);
  if (st == CRN_OK) st = build(&e, mode_of(config, search), NULL, err);
  if (st == CRN_OK) crn_net_graph(e.eval_net, out);
  crn_engine_deinit(&e);
  return st != CRN_OK ? st : crn_str_ok(out) ? CRN_OK : crn_err_memory(err);
}
