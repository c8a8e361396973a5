/* SPDX-License-Identifier: Apache-2.0
 *
 * variable_assign and variable_read (layers-2.md): variables that change in a run. A read sees what was assigned before
 * it in the run; the variable itself changes when the step is over.
 */
#include <string.h>

#include "layer/layer.h"

typedef struct assign_cfg {
  crn_layer *var, *value, *owner; /* owner: the variable that var stands for */
  crn_layer_list control;
  const char *op;
} assign_cfg;

#define OFF(f) offsetof(assign_cfg, f)
#define VAR_OPT                                                                                                        \
  { .name = "var", .type = CRN_OPT_LAYER, .offset = OFF(var), .doc = "variable, or an assign or read of one" }
#define CONTROL_OPT                                                                                                    \
  {                                                                                                                    \
    .name = "control_dependencies", .type = CRN_OPT_LAYERS, .offset = OFF(control), .dflt = "None",                    \
    .edge = CRN_EDGE_CONTROL, .doc = "layers that run before"                                                          \
  }

static const crn_opt assign_opts[] = {
    VAR_OPT,
    {.name = "value", .type = CRN_OPT_LAYER, .offset = OFF(value), .doc = "layer with the new value"},
    {.name = "op",
     .type = CRN_OPT_STR,
     .offset = OFF(op),
     .dflt = "\"assign\"",
     .choices = "assign|add",
     .doc = "replace the value, or add to it"},
    CONTROL_OPT,
    CRN_OPT_END};
static const crn_opt read_opts[] = {VAR_OPT, CONTROL_OPT, CRN_OPT_END};

static bool stands_for_variable(const crn_layer *l) {
  return !strcmp(l->desc->name, "variable_assign") || !strcmp(l->desc->name, "variable_read");
}

static crn_status find_owner(crn_build *b, crn_layer *l) {
  assign_cfg *c = l->cfg;
  c->owner = c->var;
  for (int i = 0; i < 1000 && c->owner && stands_for_variable(c->owner); i++)
    c->owner = ((const assign_cfg *)c->owner->cfg)->var;
  if (!c->owner || strcmp(c->owner->desc->name, "variable"))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'var': layer '%s' is no variable", c->var->path);
  if (crn_layer_in_loop(l))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: step by step in a loop");
  const crn_tmpl *t = &c->owner->out;
  for (int i = 0; c->owner->out_known && i < t->n; i++)
    if (t->dims[i]->size < 0 || c->owner->out.time_axis >= 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'var': variable '%s' has a batch or time axis", c->owner->path);
  return CRN_OK;
}

static crn_status assign_infer(crn_build *b, crn_layer *l) {
  assign_cfg *c = l->cfg;
  CRN_TRY(find_owner(b, l));
  l->out = crn_tmpl_scalar(CRN_I32);
  l->out_known = c->owner->out_known && c->value->out_known;
  if (!l->out_known) return CRN_OK;
  const crn_tmpl *to = &c->owner->out, *v = &c->value->out;
  bool fits = to->n == v->n && to->dtype == v->dtype;
  for (int i = 0; fits && i < v->n; i++) fits = to->dims[i]->size == v->dims[i]->size;
  if (fits) return CRN_OK;
  crn_str a = {0}, d = {0};
  crn_tmpl_describe(to, &a);
  crn_tmpl_describe(v, &d);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "option 'value': layer '%s' is %s, the variable is %s",
                                 c->value->path, crn_str_get(&d), crn_str_get(&a));
  crn_str_free(&a);
  crn_str_free(&d);
  return st;
}

/* The variable as it is now. */
static crn_tensor *current(crn_exec *x, const assign_cfg *c, const char **name) {
  const crn_value *given = crn_v_get(c->owner->dict, "param_name");
  *name = crn_v_is_str(given) ? crn_v_cstr(given) : c->owner->name;
  crn_tensor *assigned = crn_exec_assigned(x, c->owner, *name);
  return assigned ? assigned : crn_param_get(x, c->owner, *name);
}

static crn_status assign_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const assign_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *value = crn_value_of(x, l, c->value);
  const char *name;
  crn_tensor *now = current(x, c, &name);
  if (!value || !now) return crn_run_failed(r) ? r->err->code : crn_exec_fail(x, l, "the variable is not there");
  crn_tensor *v = crn_t_stop_gradient(r, value->v);
  if (!strcmp(c->op, "add")) v = crn_add(r, crn_t_stop_gradient(r, now), v);
  out->v = crn_t_full(r, CRN_I32, 0, NULL, 0);
  if (!v || !out->v) return r->err->code;
  return crn_exec_assign(x, c->owner, name, v);
}

static crn_status read_infer(crn_build *b, crn_layer *l) {
  const assign_cfg *c = l->cfg;
  CRN_TRY(find_owner(b, l));
  l->out = c->owner->out;
  l->out_known = c->owner->out_known;
  return CRN_OK;
}

static crn_status read_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const char *name;
  crn_run *r = crn_exec_run(x);
  out->v = current(x, l->cfg, &name);
  if (out->v || crn_run_failed(r)) return r->err->code;
  return crn_exec_fail(x, l, "the variable is not there");
}

const crn_layer_desc crn_family_assign[] = {{.name = "variable_assign",
                                             .doc = "Sets a variable in each run.",
                                             .opts = assign_opts,
                                             .cfg_size = sizeof(assign_cfg),
                                             .flags = CRN_L_NO_SOURCES | CRN_L_MANY_INPUTS,
                                             .infer = assign_infer,
                                             .forward = assign_forward},
                                            {.name = "variable_read",
                                             .doc = "Gives a variable's value at this point of the run.",
                                             .opts = read_opts,
                                             .cfg_size = sizeof(assign_cfg),
                                             .flags = CRN_L_NO_SOURCES | CRN_L_MANY_INPUTS,
                                             .infer = read_infer,
                                             .forward = read_forward},
                                            {.name = NULL}};
