/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses in a network, construction: made from the layers' options, checked against outputs and targets, listed (SPEC
 * 5).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "net/build.h"
#include "net/exec.h"

typedef struct loss_common {
  double scale;
  int use_normalized_loss, use_flatten_frames;
  const crn_value *custom_norm_factor, *custom_inv_norm_factor;
} loss_common;

#define OFF(f) offsetof(loss_common, f)
static const crn_opt common_loss_opts[] = {{.name = "scale",
                                            .type = CRN_OPT_FLOAT,
                                            .offset = OFF(scale),
                                            .dflt = "1.0",
                                            .doc = "factor in the objective; 0: reported, not trained"},
                                           {.name = "use_normalized_loss",
                                            .type = CRN_OPT_BOOL,
                                            .offset = OFF(use_normalized_loss),
                                            .dflt = "False",
                                            .doc = "mean instead of sum in the objective"},
                                           {.name = "use_flatten_frames",
                                            .type = CRN_OPT_BOOL,
                                            .offset = OFF(use_flatten_frames),
                                            .dflt = "True",
                                            .doc = "work on the valid frames only"},
                                           {.name = "custom_norm_factor",
                                            .type = CRN_OPT_VALUE,
                                            .offset = OFF(custom_norm_factor),
                                            .dflt = "None",
                                            .doc = "norm factor instead of 1/frames"},
                                           {.name = "custom_inv_norm_factor",
                                            .type = CRN_OPT_VALUE,
                                            .offset = OFF(custom_inv_norm_factor),
                                            .dflt = "None",
                                            .doc = "layer whose sum is the inverse norm factor"},
                                           CRN_OPT_END};

/* NULL with a recorded failure, or without one when the loss isn't computed in this network anyway. */
static const crn_loss_desc *loss_class(crn_build *b, crn_layer *l, const char *name, bool wanted) {
  const crn_loss_desc *d = crn_loss_class_find(name);
  if ((d && d->compute) || !wanted) return d;
  if (d) {
    (void)crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: loss '%s': %s", name, d->doc);
    return NULL;
  }
  const char *names[64];
  size_t n = 0;
  for (; n < 64 && crn_loss_class_at(n); n++) names[n] = crn_loss_class_at(n)->name;
  const char *near = crn_nearest(name, names, n);
  crn_str all = {0};
  for (size_t i = 0; i < n; i++)
    if (crn_loss_class_at(i)->compute) crn_str_addf(&all, "%s%s", all.len ? ", " : "", names[i]);
  (void)crn_layer_fail(b, l, CRN_E_CONFIG, "option 'loss': unknown loss '%s'%s%s%s; there are: %s", name,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", crn_str_get(&all));
  crn_str_free(&all);
  return NULL;
}

/* All options: the loss's own and the common ones, from one dict. */
static crn_status loss_options(crn_build *b, crn_layer *l, const crn_value *opts, crn_loss *loss, bool wanted) {
  const char *also[80];
  size_t n = 0;
  loss_common c;
  char what[64];
  (void)snprintf(what, sizeof(what), "loss_opts of '%s': ", loss->desc->name);
  for (const crn_opt *o = loss->desc->opts; o && o->name && n < 70; o++) also[n++] = o->name;
  also[n++] = "class";
  also[n++] = "_check_output_before_softmax";
  also[n] = NULL;
  const int before = b->n_problems;
  CRN_TRY(crn_build_recover(b, l, crn_options_check_dict(b, l, opts, common_loss_opts, &c, what, also)));
  n = 0;
  for (const crn_opt *o = common_loss_opts; o->name; o++) also[n++] = o->name;
  also[n++] = "class";
  also[n++] = "_check_output_before_softmax";
  also[n] = NULL;
  loss->cfg = crn_arena_alloc(&b->net->arena, loss->desc->cfg_size ? loss->desc->cfg_size : 1);
  if (!loss->cfg) return crn_err_memory(b->err);
  CRN_TRY(crn_build_recover(b, l, crn_options_check_dict(b, l, opts, loss->desc->opts, loss->cfg, what, also)));
  if (b->n_problems > before) return crn_build_was_told(b);
  for (const crn_opt *o = loss->desc->opts; wanted && o && o->name; o++) {
    const crn_value *v = crn_v_get(opts, o->name);
    if (o->type != CRN_OPT_LAYER || crn_v_is_none(v)) continue;
    CRN_TRY(crn_layer_ref(b, l, crn_v_cstr(v), o->edge, o->name, (crn_layer **)((char *)loss->cfg + o->offset)));
  }
  loss->scale = c.scale;
  loss->use_normalized_loss = c.use_normalized_loss;
  loss->use_flatten_frames = c.use_flatten_frames;
  loss->custom_norm_factor = c.custom_norm_factor;
  loss->custom_inv_norm_factor = c.custom_inv_norm_factor;
  if (!wanted) return CRN_OK;
  if (!crn_v_is_none(c.custom_norm_factor) && !crn_v_is_none(c.custom_inv_norm_factor))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "loss_opts: give 'custom_norm_factor' or 'custom_inv_norm_factor', not both");
  if (!crn_v_is_none(c.custom_norm_factor) && c.custom_norm_factor->kind == CRN_V_CALLABLE)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                          "not implemented: loss option 'custom_norm_factor' as a function");
  if (crn_v_is_str(c.custom_norm_factor))
    CRN_TRY(
        crn_layer_ref(b, l, crn_v_cstr(c.custom_norm_factor), CRN_EDGE_DATA, "custom_norm_factor", &loss->norm_layer));
  if (crn_v_is_str(c.custom_inv_norm_factor))
    CRN_TRY(crn_layer_ref(b, l, crn_v_cstr(c.custom_inv_norm_factor), CRN_EDGE_DATA, "custom_inv_norm_factor",
                          &loss->inv_norm_layer));
  return CRN_OK;
}

crn_status crn_target_layer(crn_build *b, crn_layer *l, const char *name, crn_layer **out) {
  if (!strncmp(name, "layer:", 6)) return crn_scope_get(b, l->scope, name + 6, l, "target", out);
  if (!strncmp(name, "data:", 5) || !strcmp(name, "data")) return crn_scope_get(b, l->scope, name, l, "target", out);
  if (l->scope->kind != CRN_SCOPE_LOOP || !crn_net_extern(b->net, name)) {
    const crn_value *d = crn_v_get(l->scope->dict, name);
    if (crn_map_has(&l->scope->layers, name) || (d && !crn_net_extern(b->net, name)))
      return crn_scope_get(b, l->scope, name, l, "target", out);
  }
  const char *full = crn_arena_printf(&b->net->arena, "data:%s", name);
  if (!full) return crn_err_memory(b->err);
  return crn_scope_get(b, l->scope, full, l, "target", out);
}

crn_status crn_target_ref(crn_build *b, crn_layer *l, int i, crn_layer **out) {
  const char *name = crn_target_name(b, l, i);
  if (!name) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'target' is required: a data key or \"layer:NAME\"");
  CRN_TRY(crn_target_layer(b, l, name, out));
  return crn_layer_add_edge(b, l, *out, CRN_EDGE_DATA, "target");
}

static crn_value *loss_dict(crn_build *b, crn_layer *l, const char **name) {
  const crn_value *v = l->common.loss, *opts = l->common.loss_opts;
  crn_value *d;
  if (crn_v_is_dict(v)) {
    d = crn_v_copy(&b->net->arena, v);
    *name = crn_v_cstr(crn_v_get(v, "class"));
  } else {
    d = crn_v_is_dict(opts) ? crn_v_copy(&b->net->arena, opts) : crn_v_dict(&b->net->arena);
    *name = crn_v_cstr(v);
  }
  if (d && !isnan(l->common.loss_scale))
    (void)crn_v_put(&b->net->arena, d, "scale", crn_v_float(&b->net->arena, l->common.loss_scale));
  return d;
}

static bool wants_losses(const crn_build *b, const crn_layer *l) {
  if (crn_v_is_none(l->common.loss) || !l->scope->eval) return false;
  if (l->common.loss_only_on_non_search > 0 && l->scope->search) return false;
  if (l->scope->loop && b->net->search) return false;
  return true;
}

/* loss_scale and loss_opts make sense with a loss only, and must not name two scales. */
static crn_status check_loss_keys(crn_build *b, crn_layer *l) {
  const bool scaled = !isnan(l->common.loss_scale), opts = !crn_v_is_none(l->common.loss_opts);
  if (crn_v_is_none(l->common.loss) && (scaled || opts))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s' without option 'loss'", scaled ? "loss_scale" : "loss_opts");
  double scale;
  const crn_value *v = crn_v_get(l->common.loss_opts, "scale");
  if (!scaled || crn_v_is_none(v) || !crn_v_to_float(v, &scale) || scale == l->common.loss_scale) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'loss_scale' is %g, but loss_opts has scale %g",
                        l->common.loss_scale, scale);
}

crn_status crn_loss_options_check(crn_build *b, crn_layer *l, const char *name, const crn_value *opts) {
  crn_loss loss = {.desc = loss_class(b, l, name, true), .layer = l};
  if (!loss.desc) return b->err->code;
  const crn_value *none = opts ? opts : crn_v_dict(&b->net->arena);
  return none ? loss_options(b, l, none, &loss, false) : crn_err_memory(b->err);
}

crn_status crn_layer_make_losses(crn_build *b, crn_layer *l) {
  if (l->desc->flags & CRN_L_INTERNAL) return CRN_OK;
  if (!(l->common.loss_only_on_non_search > 0 && l->scope->search)) CRN_TRY(check_loss_keys(b, l));
  if (crn_v_is_none(l->common.loss)) {
    const char *t = crn_v_cstr(l->common.target);
    crn_layer *used;
    if (t && (l->scope->eval || l->scope->search) && !(l->scope->loop && b->net->search) &&
        !(l->desc->flags & CRN_L_TARGET_BY_HAND && l->scope->search)) { /* a target makes its key a used one */
      if (!(l->desc->flags & CRN_L_OWN_SOURCES)) return crn_target_layer(b, l, t, &used);
    }
    return CRN_OK;
  }
  const char *name = NULL;
  crn_value *opts = loss_dict(b, l, &name);
  if (!opts) return crn_err_memory(b->err);
  if (!name)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'loss': expected the name of a loss, got %s",
                          crn_v_kind_name(l->common.loss));
  const bool wanted = wants_losses(b, l);
  const crn_loss_desc *desc = loss_class(b, l, name, wanted);
  if (!desc) return b->err->code;
  crn_loss *loss = CRN_ARENA_NEW(&b->net->arena, crn_loss);
  if (!loss) return crn_err_memory(b->err);
  loss->desc = desc;
  loss->layer = l;
  loss->name = l->path;
  CRN_TRY(loss_options(b, l, opts, loss, wanted));
  const char *target = crn_target_name(b, l, 0);
  if (target && (desc->flags & CRN_LOSS_NEEDS_TARGET || !crn_v_is_none(l->common.target)) && l->scope->eval &&
      !(l->scope->loop && b->net->search)) {
    for (int i = 0; (target = crn_target_name(b, l, i)); i++) {
      crn_layer *t;
      CRN_TRY(crn_target_layer(b, l, target, &t));
      if (i == 0 && wanted) {
        loss->target = t;
        CRN_TRY(crn_layer_add_edge(b, l, t, CRN_EDGE_TARGET, "target"));
      }
    }
  }
  l->loss = loss;
  loss->active = wanted;
  return wanted && desc->refs ? desc->refs(b, l, loss) : CRN_OK;
}

crn_status crn_loss_make_inner(crn_build *b, crn_layer *l, const crn_value *dict, crn_layer *target, crn_loss **out) {
  const char *name = crn_v_cstr(crn_v_get(dict, "class"));
  crn_loss *loss = CRN_ARENA_NEW(&b->net->arena, crn_loss);
  if (!name) return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'loss': expected a dict with the key 'class'");
  if (!loss) return crn_err_memory(b->err);
  *out = loss;
  loss->desc = loss_class(b, l, name, true);
  if (!loss->desc) return b->err->code;
  loss->layer = l;
  loss->name = l->path;
  loss->target = target;
  loss->active = true;
  CRN_TRY(loss_options(b, l, dict, loss, true));
  return loss->desc->refs ? loss->desc->refs(b, l, loss) : CRN_OK;
}

crn_status crn_loss_output_dim(crn_build *b, crn_layer *l, const crn_dim **dim, int64_t *size) {
  (void)b;
  if (!l->loss || !l->loss->desc->output_dim || *size < 0) return CRN_OK;
  const int64_t want = l->loss->desc->output_dim(l->loss->cfg, *size);
  if (want != *size) *dim = NULL;
  *size = want;
  return CRN_OK;
}

/* Axes and dims of output and target agree, and what the loss itself asks for. */
crn_status crn_loss_check(crn_build *b, const crn_loss *loss) {
  crn_layer *l = loss->layer;
  const crn_loss_desc *desc = loss->desc;
  if (desc->flags & CRN_LOSS_NEEDS_TARGET && !loss->target)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss '%s' needs a target: option 'target' is None", desc->name);
  if (loss->target && desc->flags & CRN_LOSS_NEEDS_TARGET && !(desc->flags & CRN_LOSS_ANY_SHAPE)) {
    const crn_tmpl *o = &l->out, *t = &loss->target->out;
    const bool same_axes = o->n + o->sparse == t->n + t->sparse;
    crn_str so = {0}, st = {0};
    crn_tmpl_describe(o, &so);
    crn_tmpl_describe(t, &st);
    crn_status status = CRN_OK;
    const int64_t is = crn_tmpl_dim(o), want = crn_tmpl_dim(t) < 0 || !desc->output_dim
                                                   ? crn_tmpl_dim(t)
                                                   : desc->output_dim(loss->cfg, crn_tmpl_dim(t));
    if (!same_axes || (!(desc->flags & CRN_LOSS_RECURRENT) && (o->time_axis < 0) != (t->time_axis < 0)))
      status = crn_layer_fail(b, l, CRN_E_CONFIG, "loss '%s': the axes of output %s and target '%s' %s differ",
                              desc->name, crn_str_get(&so), loss->target->path, crn_str_get(&st));
    else if (!(desc->flags & CRN_LOSS_ANY_DIM) && is >= 0 && want >= 0 && is != want)
      status = crn_layer_fail(b, l, CRN_E_CONFIG,
                              "loss '%s': Expected output dim is %lld but the output has dim %lld (target '%s' is %s)",
                              desc->name, (long long)want, (long long)is, loss->target->path, crn_str_get(&st));
    crn_str_free(&so);
    crn_str_free(&st);
    CRN_TRY(status);
  }
  return desc->check ? desc->check(b, l, loss) : CRN_OK;
}

static crn_status list_loss(crn_build *b, crn_loss *loss) {
  crn_net *net = b->net;
  if (net->n_losses == net->cap_losses) {
    int cap = net->cap_losses ? 2 * net->cap_losses : 16;
    crn_loss **p = crn_realloc(net->losses, (size_t)cap * sizeof(*p));
    if (!p) return crn_err_memory(b->err);
    net->losses = p;
    net->cap_losses = cap;
  }
  net->losses[net->n_losses++] = loss;
  return CRN_OK;
}

static crn_status collect_body(crn_build *b, const crn_body *body) {
  for (int i = 0; i < body->n; i++) {
    crn_layer *l = body->order[i];
    if (l->live && l->scope->eval) CRN_TRY(crn_constraints_check(b, l));
    if (!l->live || !l->loss) continue;
    if (!l->loss->active) {
      l->loss = NULL;
      continue;
    }
    CRN_TRY(crn_loss_check(b, l->loss));
    CRN_TRY(list_loss(b, l->loss));
  }
  return CRN_OK;
}

/* An extra net's loss keeps its prefix only where the name is taken. */
static void short_names(crn_net *net) {
  for (int i = 0; i < net->n_losses; i++) {
    const char *name = net->losses[i]->name;
    if (strncmp(name, "extra", 5) != 0 || !strchr(name, ':')) continue;
    const char *shorter = strchr(name, ':') + 1;
    bool taken = false;
    for (int k = 0; k < net->n_losses; k++) taken |= !strcmp(net->losses[k]->name, shorter);
    if (!taken) net->losses[i]->name = shorter;
  }
}

crn_status crn_build_collect_losses(crn_build *b) {
  CRN_TRY(collect_body(b, &b->net->body));
  for (int i = 0; i < b->net->n_bodies; i++) CRN_TRY(collect_body(b, b->net->bodies[i]));
  short_names(b->net);
  return CRN_OK;
}
