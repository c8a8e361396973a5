/* SPDX-License-Identifier: Apache-2.0
 *
 * What a config amounts to, without running it: its network, and everything it asks for that isn't there.
 */
#include <string.h>

#include "config/keys.h"
#include "data/dataset.h"
#include "net/report.h"
#include "train/engine.h"

typedef struct problems {
  crn_str *out;
  int64_t n;
} problems;

static void add_problem(void *user, const char *text) {
  problems *p = user;
  crn_str_addf(p->out, "  %s\n", text);
  p->n++;
}

static void check_keys(const crn_value *root, problems *p) {
  for (size_t i = 0; i < root->u.dict.n; i++) {
    const char *name = crn_v_cstr(root->u.dict.keys[i]);
    const crn_config_key *key = name ? crn_config_key_find(name) : NULL,
                         *near = name && !key ? crn_config_key_nearest(name) : NULL;
    const crn_value *v = root->u.dict.vals[i];
    crn_str s = {0};
    if (key && key->state == CRN_KEY_NOT_IMPLEMENTED && crn_v_truth(v))
      crn_str_addf(&s, "config key '%s': not implemented: %s", name, key->doc);
    if (near && v->kind != CRN_V_CALLABLE)
      crn_str_addf(&s, "unknown config key '%s' (did you mean '%s'?)", name, near->name);
    if (s.len) add_problem(p, crn_str_get(&s));
    crn_str_free(&s);
  }
}

/* Classes of a dataset and of the datasets in its options. */
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

/* Optimizer and learning-rate rules; they look at their keys when they are made. */
static void check_training(crn_engine *e, problems *p) {
  crn_err err = {0};
  float w = 0;
  crn_update_param param = {.name = "W", .w = &w, .rows = 1, .row_len = 1, .trainable = true};
  check_part(crn_updater_new(e->values, &param, 1, 1, NULL, NULL, &e->updater, &err), p, &err);
  check_part(crn_lr_new(e->values, NULL, NULL, &e->lr, &err), p, &err);
}

static crn_status build(crn_engine *e, crn_net_mode mode, crn_err *err) {
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
  return crn_net_build(e->values, mode, e->store, NULL, &e->eval_net, err);
}

static crn_status report(crn_engine *e, crn_net_mode mode, bool params, crn_str *out, int64_t *n_problems,
                         crn_err *err) {
  crn_err failure = {0};
  problems p = {out, 0};
  const crn_status st = build(e, mode, &failure);
  if (st == CRN_OK) {
    crn_net_describe_data(e->eval_net, out);
    crn_net_describe_layers(e->eval_net, out);
    crn_net_describe_losses(e->eval_net, out);
    crn_net_describe_loops(e->eval_net, out);
    if (params) crn_str_add(out, "parameters:\n");
    crn_net_describe_params(e->eval_net, params, out);
  }
  crn_str_add(out, "not supported:\n");
  crn_status checked = crn_net_check(e->values, st != CRN_OK, add_problem, &p, err);
  const bool said = st != CRN_OK && crn_str_ok(out) && strstr(crn_str_get(out), crn_err_text(&failure));
  if (st != CRN_OK && !said) add_problem(&p, crn_err_text(&failure));
  crn_err_clear(&failure);
  check_keys(e->values, &p);
  check_datasets(e->values, &p);
  check_training(e, &p);
  if (p.n == 0) crn_str_add(out, "  None\n");
  *n_problems = p.n;
  return checked != CRN_OK ? checked : crn_str_ok(out) ? CRN_OK : crn_err_memory(err);
}

static crn_net_mode mode_of(const crn_config *config, bool search) {
  const char *task = crn_v_cstr(crn_config_get(config, "task"));
  const bool searches = search || (task && !strcmp(task, "search"));
  return (crn_net_mode){.train = !searches, .eval = true, .search = searches};
}

crn_status crn_engine_info(crn_config *config, const crn_log *log, bool search, bool params, crn_str *out,
                           int64_t *n_problems, crn_err *err) {
  crn_engine e;
  crn_status st = crn_engine_init(&e, config, log, NULL, err);
  if (st == CRN_OK) st = report(&e, mode_of(config, search), params, out, n_problems, err);
  crn_engine_deinit(&e);
  return st;
}

crn_status crn_engine_graph(crn_config *config, const crn_log *log, bool search, crn_str *out, crn_err *err) {
  crn_engine e;
  crn_status st = crn_engine_init(&e, config, log, NULL, err);
  if (st == CRN_OK) st = build(&e, mode_of(config, search), err);
  if (st == CRN_OK) crn_net_graph(e.eval_net, out);
  crn_engine_deinit(&e);
  return st != CRN_OK ? st : crn_str_ok(out) ? CRN_OK : crn_err_memory(err);
}
