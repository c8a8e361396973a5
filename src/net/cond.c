/* SPDX-License-Identifier: Apache-2.0
 *
 * cond: one of two layers by a scalar condition. Both branches are part of the network (their parameters exist); both
 * are computed, and one value is passed on.
 */
#include "net/build.h"
#include "net/exec.h"

typedef struct cond_cfg {
  const crn_value *condition, *branch[2];
  crn_layer *condition_layer, *layer[2];
} cond_cfg;

#define OFF(f) offsetof(cond_cfg, f)
static const crn_opt cond_opts[] = {
    {.name = "condition",
     .type = CRN_OPT_VALUE,
     .offset = OFF(condition),
     .doc = "layer name or layer dict that gives a scalar bool"},
    {.name = "true_layer", .type = CRN_OPT_VALUE, .offset = OFF(branch[0]), .doc = "layer dict, or a layer's name"},
    {.name = "false_layer", .type = CRN_OPT_VALUE, .offset = OFF(branch[1]), .doc = "layer dict, or a layer's name"},
    CRN_OPT_END};

/* A branch sees the names that the layer itself sees. */
static crn_status get_outside(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker,
                              const char *option, crn_layer **out) {
  return crn_scope_get(b, scope->parent, name, asker, option, out);
}

static crn_status make_branch(crn_build *b, crn_layer *l, const crn_value *v, const char *option, crn_layer **out) {
  if (crn_v_is_str(v)) return crn_layer_ref(b, l, crn_v_cstr(v), CRN_EDGE_DATA, option, out);
  if (!crn_v_is_dict(v))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected a layer dict, got %s", option, crn_v_kind_name(v));
  crn_scope *s = crn_scope_new(b, CRN_SCOPE_SUB, l->scope, l, NULL);
  if (!s) return crn_err_memory(b->err);
  s->get = get_outside;
  s->param_path = crn_layer_param_path(b, l);
  if (!s->param_path) return crn_err_memory(b->err);
  CRN_TRY(crn_layer_make(b, s, "", v, out));
  return crn_layer_add_edge(b, l, *out, CRN_EDGE_DATA, option);
}

static crn_status cond_refs(crn_build *b, crn_layer *l) {
  cond_cfg *c = l->cfg;
  CRN_TRY(make_branch(b, l, c->condition, "condition", &c->condition_layer));
  CRN_TRY(make_branch(b, l, c->branch[0], "true_layer", &c->layer[0]));
  return make_branch(b, l, c->branch[1], "false_layer", &c->layer[1]);
}

static crn_status cond_infer(crn_build *b, crn_layer *l) {
  const cond_cfg *c = l->cfg;
  const crn_tmpl *cond = &c->condition_layer->out;
  l->out_known = c->condition_layer->out_known && c->layer[0]->out_known && c->layer[1]->out_known;
  if (!l->out_known) return CRN_OK;
  if (cond->n != 0 || cond->dtype != CRN_BOOL) {
    crn_str s = {0};
    crn_tmpl_describe(cond, &s);
    crn_status st =
        crn_layer_fail(b, l, CRN_E_CONFIG, "option 'condition': a scalar bool is needed, it is %s", crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  int map[CRN_MAX_RANK];
  l->out = c->layer[0]->out;
  if (crn_tmpl_match(&c->layer[1]->out, &l->out, b->net->version, map, b->err) != CRN_OK) {
    (void)crn_err_where(b->err, "true_layer and false_layer");
    return crn_err_where(b->err, "network: layer '%s' (cond)", l->path);
  }
  return CRN_OK;
}

static crn_status cond_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const cond_cfg *c = l->cfg;
  crn_run *r = &x->run;
  const crn_data *cond = crn_value_of(x, l, c->condition_layer);
  if (!cond) return r->err->code;
  const int k = crn_t_get(cond->v, 0) != 0 ? 0 : 1;
  const crn_data *d = crn_value_of(x, l, c->layer[k]);
  if (!d) return r->err->code;
  const crn_tmpl t = l->out;
  if (k == 0) {
    *out = *d;
    out->t = t;
    return CRN_OK;
  }
  out->v = crn_data_fit(r, d, &t, x->net->version, false);
  int map[CRN_MAX_RANK];
  CRN_TRY(crn_tmpl_match(&d->t, &t, x->net->version, map, r->err));
  for (int i = 0; i < t.n; i++) out->len[i] = map[i] >= 0 ? d->len[map[i]] : NULL;
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_cond[] = {{.name = "cond",
                                           .doc = "Passes on one of two layers by a condition.",
                                           .opts = cond_opts,
                                           .cfg_size = sizeof(cond_cfg),
                                           .flags = CRN_L_MANY_INPUTS | CRN_L_NO_SOURCES,
                                           .refs = cond_refs,
                                           .infer = cond_infer,
                                           .forward = cond_forward},
                                          {.name = NULL}};
