/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at every layer dict of a config for what can't be built. Unlike construction it goes on after a problem, and
 * it sees layers that nothing reads.
 */
#include <stdio.h>
#include <string.h>

#include "layer/all.h"
#include "layer/unit.h"
#include "net/build.h"
#include "net/report.h"
#include "tensor/eval.h"

typedef struct checker {
  crn_net net; /* as far as the parser of options needs one */
  crn_build build;
  crn_err err;
  bool functions;
  crn_net_problem fn;
  void *user;
} checker;

static void problem(checker *c, const char *path, const char *text) {
  crn_str s = {0};
  crn_str_addf(&s, "network: layer '%s': %s", path, text);
  c->fn(c->user, crn_str_get(&s));
  crn_str_free(&s);
}

/* What a function of the network's construction said. */
static void failed(checker *c) { (void)crn_build_recover(&c->build, NULL, c->err.code); }

static void find_functions(checker *c, const char *path, const char *option, const crn_value *v, int depth) {
  if (!v || depth > 8) return;
  if (v->kind == CRN_V_CALLABLE || v->kind == CRN_V_OBJECT) {
    crn_str s = {0};
    crn_str_addf(&s, "option '%s' holds the Python %s '%s'", option, v->kind == CRN_V_CALLABLE ? "function" : "object",
                 v->u.obj.name ? v->u.obj.name : "?");
    problem(c, path, crn_str_get(&s));
    crn_str_free(&s);
  }
  for (size_t i = 0; crn_v_is_seq(v) && i < crn_v_len(v); i++)
    find_functions(c, path, option, crn_v_at(v, i), depth + 1);
  for (size_t i = 0; crn_v_is_dict(v) && i < v->u.dict.n; i++)
    find_functions(c, path, option, v->u.dict.vals[i], depth + 1);
}

static void check_text(checker *c, const crn_layer *l, const char *option, bool activation) {
  const char *text = crn_v_cstr(crn_v_get(l->dict, option));
  crn_activation *act;
  crn_eval *eval;
  if (!text) return;
  if ((activation ? crn_activation_compile(&c->net.arena, text, &act, &c->err)
                  : crn_eval_compile(&c->net.arena, text, &eval, &c->err)) == CRN_OK)
    return;
  (void)crn_err_where(&c->err, "option '%s'", option);
  (void)crn_err_where(&c->err, "network: layer '%s' (%s)", l->path, l->desc->name);
  failed(c);
}

static void check_losses(checker *c, crn_layer *l) {
  const crn_value *v = crn_v_get(l->dict, "loss"), *opts = crn_v_get(l->dict, "loss_opts");
  const char *name = crn_v_is_dict(v) ? crn_v_cstr(crn_v_get(v, "class")) : crn_v_cstr(v);
  if (!name) return;
  if (crn_loss_options_check(&c->build, l, name, crn_v_is_dict(v) ? v : crn_v_is_dict(opts) ? opts : NULL) != CRN_OK)
    failed(c);
}

static void check_net(checker *c, const char *prefix, const crn_value *net, int depth);
static void check_layer(checker *c, const char *path, const crn_value *dict, int depth);

/* Layers and nets inside of a layer. */
static void check_inner(checker *c, const crn_layer *l, int depth) {
  static const char *const options[] = {"unit", "subnetwork", "true_layer", "false_layer", "iterations"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const crn_value *v = crn_v_get(l->dict, options[i]);
    if (!crn_v_is_dict(v)) continue;
    const char *path = crn_arena_printf(&c->net.arena, "%s/", l->path);
    if (!path) return;
    if (crn_v_is_str(crn_v_get(v, "class")))
      check_layer(c, crn_arena_printf(&c->net.arena, "%s%s", path, options[i]), v, depth + 1);
    else
      check_net(c, path, v, depth + 1);
  }
  if ((!strcmp(l->desc->name, "rec") || !strcmp(l->desc->name, "rnn_cell")) &&
      crn_v_is_str(crn_v_get(l->dict, "unit"))) {
    const crn_unit_desc *unit;
    if (crn_unit_find(&c->build, l, crn_v_cstr(crn_v_get(l->dict, "unit")), &unit) != CRN_OK) failed(c);
  }
}

static void check_layer(checker *c, const char *path, const crn_value *dict, int depth) {
  crn_layer *l = path && depth <= 50 ? CRN_ARENA_NEW(&c->net.arena, crn_layer) : NULL;
  if (!l) return;
  *l = (crn_layer){.path = path, .name = path, .dict = dict, .scope = c->net.root};
  crn_status st = crn_layer_class_of(&c->build, l, dict, &l->desc);
  if (st == CRN_OK) st = crn_layer_class_there(&c->build, l);
  if (st == CRN_OK) st = crn_options_parse(&c->build, l);
  if (st != CRN_OK) failed(c);
  if (!l->desc) return;
  check_losses(c, l);
  check_text(c, l, "activation", true);
  if (!strcmp(l->desc->name, "eval") || crn_v_is_str(crn_v_get(dict, "eval"))) check_text(c, l, "eval", false);
  for (size_t i = 0; c->functions && i < dict->u.dict.n; i++) {
    const crn_value *v = dict->u.dict.vals[i];
    const char *key = crn_v_cstr(dict->u.dict.keys[i]);
    if (!(crn_v_is_dict(v) && (!strcmp(key, "unit") || !strcmp(key, "subnetwork")))) find_functions(c, path, key, v, 0);
  }
  check_inner(c, l, depth);
}

static void check_net(checker *c, const char *prefix, const crn_value *net, int depth) {
  for (size_t i = 0; crn_v_is_dict(net) && i < net->u.dict.n; i++) {
    const char *name = crn_v_cstr(net->u.dict.keys[i]);
    if (!name || name[0] == '#') continue;
    const char *path = crn_arena_printf(&c->net.arena, "%s%s", prefix, name);
    if (crn_v_is_dict(net->u.dict.vals[i]))
      check_layer(c, path, net->u.dict.vals[i], depth);
    else
      problem(c, name, "expected a dict");
  }
  for (size_t i = 0; crn_v_is_seq(net) && i < crn_v_len(net); i++) {
    const crn_value *v = crn_v_at(net, i);
    const char *name = crn_v_cstr(crn_v_get(v, "name"));
    if (crn_v_is_dict(v)) check_layer(c, name ? name : crn_arena_printf(&c->net.arena, "layer%zu", i), v, depth);
  }
}

crn_status crn_net_check(const crn_value *config, bool functions, crn_net_problem fn, void *user, crn_err *err) {
  checker *c = crn_calloc(1, sizeof *c);
  if (!c) return crn_err_memory(err);
  crn_scope root = {.kind = CRN_SCOPE_ROOT, .net = &c->net, .path = "", .param_path = ""};
  c->functions = functions;
  c->fn = fn;
  c->user = user;
  c->net.config = config;
  c->net.root = &root;
  c->build = (crn_build){.net = &c->net, .err = &c->err, .problem = fn, .problem_user = user};
  int64_t version = 0;
  (void)crn_v_to_int(crn_v_get(config, "behavior_version"), &version);
  c->net.version = (int)version;
  crn_status st = crn_dims_init(&c->net.dims, &c->net.arena, err);
  if (st == CRN_OK) check_net(c, "", crn_v_get(config, "network"), 0);
  if (st == CRN_OK && c->net.arena.failed) st = crn_err_memory(err);
  crn_dims_deinit(&c->net.dims);
  crn_arena_free(&c->net.arena);
  crn_err_clear(&c->err);
  crn_free(c);
  return st;
}
