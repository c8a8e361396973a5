/* SPDX-License-Identifier: Apache-2.0
 *
 * Eval expressions of layers: source(i, …) and self for the interpreter in tensor/eval.h.
 */
#include "layer/eval.h"

#include <string.h>

#include "tensor/eval.h"

struct crn_layer_eval {
  crn_eval *code;
  const crn_value *locals;
};

typedef struct eval_user {
  crn_exec *x;
  crn_layer *l;
  const crn_layer_eval *e;
  crn_data *out;
} eval_user;

void crn_take_lengths(crn_exec *x, const crn_data *from, crn_data *out) {
  int map[CRN_MAX_RANK];
  crn_err ignore = {0};
  if (crn_tmpl_match(&from->t, &out->t, crn_exec_version(x), map, &ignore) == CRN_OK)
    for (int k = 0; k < out->t.n; k++)
      if (map[k] >= 0 && from->len[map[k]] && !out->len[k]) out->len[k] = from->len[map[k]];
  for (int k = 0; k < out->t.n; k++) { /* also where the source has more axes */
    const int i = crn_dim_is_dynamic(out->t.dims[k]) ? crn_tmpl_find(&from->t, out->t.dims[k]) : -1;
    if (i >= 0 && from->len[i] && !out->len[k]) out->len[k] = from->len[i];
  }
  crn_err_clear(&ignore);
}

/* ---- construction --------------------------------------------------------------------------------------------------- */

typedef struct name_check {
  const crn_value *locals;
  const char *unknown;
  bool used[64], any_dynamic;
  int n_src;
  const char *bad_call;
} name_check;

static bool check_name(void *user, const char *name, bool builtin) {
  name_check *c = user;
  if (builtin || !strcmp(name, "source") || !strcmp(name, "self") || crn_v_get(c->locals, name)) return true;
  c->unknown = name;
  return false;
}

static bool check_source(void *user, const crn_eval_call *call) {
  name_check *c = user;
  const crn_ev *i = call->n_pos > 0 ? &call->pos[0] : NULL;
  if (!i && call->n_named) i = &call->named[0];
  if (!i || i->kind != CRN_EV_INT) {
    c->any_dynamic = true;
    return true;
  }
  if (i->u.i < 0 || i->u.i >= c->n_src) {
    c->bad_call = "source(i): i is out of range";
    return false;
  }
  if (i->u.i < 64) c->used[i->u.i] = true;
  return true;
}

crn_status crn_layer_eval_of(crn_build *b, crn_layer *l, const crn_value *eval, const crn_value *locals, crn_layer_eval **out) {
  *out = NULL;
  if (!eval || crn_v_is_none(eval)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'eval' is required");
  if (eval->kind == CRN_V_CALLABLE) return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'eval' as a function");
  if (!crn_v_is_str(eval)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'eval': expected an expression, got %s", crn_v_kind_name(eval));
  crn_layer_eval *e = CRN_ARENA_NEW(crn_build_arena(b), crn_layer_eval);
  if (!e) return crn_err_memory(crn_build_err(b));
  e->locals = locals;
  if (crn_eval_compile(crn_build_arena(b), crn_v_cstr(eval), &e->code, crn_build_err(b)) != CRN_OK) {
    (void)crn_err_where(crn_build_err(b), "option 'eval'");
    return crn_err_where(crn_build_err(b), "network: layer '%s' (%s)", l->path, l->desc->name);
  }
  name_check c = {.locals = locals, .n_src = l->n_src};
  if (!crn_eval_each_name(e->code, check_name, &c))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'eval': name '%s' is not known", c.unknown);
  if (!crn_eval_each_call(e->code, "source", check_source, &c))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'eval': %s", c.bad_call);
  for (int i = 0; i < l->n_src && i < 64; i++)
    if (!c.used[i] && !c.any_dynamic)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'eval': not used sources: source(%d) ('%s')", i, l->src[i]->path);
  if (!l->mixes) l->mixes = crn_eval_mixes(e->code);
  *out = e;
  return CRN_OK;
}

/* ---- execution ------------------------------------------------------------------------------------------------------ */

static crn_ev object(const char *type, const void *p) {
  return (crn_ev){.kind = CRN_EV_OBJECT, .u.obj = {.type = type, .p = p}};
}

static crn_status ev_name(void *user, crn_run *r, const char *name, crn_ev *out, bool *found) {
  eval_user *u = user;
  *found = true;
  if (!strcmp(name, "source")) return *out = object("source", NULL), CRN_OK;
  if (!strcmp(name, "self")) return *out = object("layer", u->l), CRN_OK;
  const crn_value *v = crn_v_get(u->e->locals, name);
  if (!v) return *found = false, CRN_OK;
  if (!crn_ev_of_value(r, v, out)) return crn_exec_fail(u->x, u->l, "eval_locals: '%s' has no value that an expression can use", name);
  return CRN_OK;
}

static const crn_ev *argument(const crn_eargs *a, int pos, const char *name) {
  if (pos >= 0 && pos < a->n_pos) return &a->pos[pos];
  for (int i = 0; i < a->n_named; i++)
    if (!strcmp(a->names[i], name)) return &a->named[i];
  return NULL;
}

static bool flag(const crn_eargs *a, const char *name, int pos, bool dflt) {
  const crn_ev *v = argument(a, pos, name);
  if (!v) return dflt;
  if (v->kind == CRN_EV_BOOL) return v->u.b;
  return v->kind == CRN_EV_INT ? v->u.i != 0 : dflt;
}

static crn_ev value_of_data(crn_run *r, const crn_data *d, crn_tensor *v) {
  crn_ev out = crn_ev_of_tensor(v);
  if (!d->pre || !d->pre_act || v != d->v) return out;
  crn_made *m = CRN_ARENA_NEW(&r->arena, crn_made);
  if (!m) return out;
  m->act = d->pre_act;
  m->from = d->pre;
  out.made = m;
  return out;
}

static crn_status call_source(eval_user *u, crn_run *r, const crn_eargs *a, crn_ev *out) {
  const crn_ev *i = argument(a, 0, "i");
  if (!i || i->kind != CRN_EV_INT || i->u.i < 0 || i->u.i >= u->l->n_src)
    return crn_exec_fail(u->x, u->l, "source(i): i must be a number from 0 to %d", u->l->n_src - 1);
  const crn_data *d = crn_source(u->x, u->l, (int)i->u.i);
  if (!d) return r->err->code;
  if (flag(a, "as_layer", -1, false)) return *out = object("layer", u->l->src[i->u.i]), CRN_OK;
  if (flag(a, "enforce_batch_major", 2, false) && !(d = crn_data_batch_major(r, d))) return r->err->code;
  crn_take_lengths(u->x, d, u->out);
  if (flag(a, "as_data", 3, false)) return *out = object("data", d), CRN_OK;
  crn_tensor *v = d->v;
  if (flag(a, "auto_convert", 1, true)) v = crn_data_fit(r, d, &u->out->t, crn_exec_version(u->x), false);
  if (!v) return r->err->code;
  *out = value_of_data(r, d, v);
  return CRN_OK;
}

static crn_status data_attr(eval_user *u, crn_run *r, const crn_data *d, const char *attr, crn_ev *out, bool *found) {
  if (!strcmp(attr, "placeholder")) *out = value_of_data(r, d, d->v);
  else if (!strcmp(attr, "feature_dim_axis")) *out = d->t.feature_axis < 0 ? crn_ev_none() : crn_ev_of_int(d->t.feature_axis);
  else if (!strcmp(attr, "time_dim_axis")) *out = d->t.time_axis < 0 ? crn_ev_none() : crn_ev_of_int(d->t.time_axis);
  else if (!strcmp(attr, "batch_dim_axis")) *out = crn_tmpl_batch_axis(&d->t) < 0 ? crn_ev_none() : crn_ev_of_int(crn_tmpl_batch_axis(&d->t));
  else if (!strcmp(attr, "dim")) *out = crn_ev_of_int(crn_tmpl_dim(&d->t));
  else if (!strcmp(attr, "get_sequence_lengths")) *out = object("data.lengths", d);
  else if (!strcmp(attr, "get_axis_from_description")) *out = object("data.axis", d);
  else *found = false;
  (void)u;
  return CRN_OK;
}

static crn_status layer_attr(eval_user *u, crn_run *r, crn_layer *l, const char *attr, crn_ev *out, bool *found) {
  if (!strcmp(attr, "sources")) *out = object("sources", l);
  else if (!strcmp(attr, "get_last_hidden_state")) *out = object("layer.state", l);
  else if (!strcmp(attr, "search_choices")) *out = object("choices", l);
  else if (!strcmp(attr, "network")) *out = object("network", l);
  else if (!strcmp(attr, "output")) {
    const crn_data *d = l == u->l ? u->out : crn_value_of(u->x, u->l, l);
    if (!d) return r->err->code;
    *out = object("data", d);
  } else *found = false;
  return CRN_OK;
}

static crn_status ev_attr(void *user, crn_run *r, const crn_ev *o, const char *attr, crn_ev *out, bool *found) {
  eval_user *u = user;
  const char *type = o->u.obj.type;
  *found = true;
  union {
    const void *c;
    crn_layer *l;
  } p = {.c = o->u.obj.p};
  if (!strcmp(type, "data")) return data_attr(u, r, o->u.obj.p, attr, out, found);
  if (!strcmp(type, "layer")) return layer_attr(u, r, p.l, attr, out, found);
  if (!strcmp(type, "choices") && !strcmp(attr, "beam_scores")) {
    const crn_data *d = crn_value_of(u->x, u->l, p.l);
    if (!d || !d->beam) return crn_exec_fail(u->x, u->l, "layer '%s' has no search choices", p.l->path);
    *out = crn_ev_of_tensor(d->beam->scores);
    return CRN_OK;
  }
  if (!strcmp(type, "network") && !strcmp(attr, "get_config")) return *out = object("get_config", NULL), CRN_OK;
  if (!strcmp(type, "config") && (!strcmp(attr, "typed_value") || !strcmp(attr, "typed_dict"))) return *out = object("typed_value", NULL), CRN_OK;
  if (!strcmp(type, "network") && !strcmp(attr, "global_train_step")) {
    *out = crn_ev_of_tensor(crn_t_scalar(r, CRN_I64, (double)crn_exec_global_step(u->x)));
    return out->u.t ? CRN_OK : r->err->code;
  }
  *found = false;
  return CRN_OK;
}

static crn_status ev_item(void *user, crn_run *r, const crn_ev *o, const crn_ev *index, crn_ev *out, bool *found) {
  eval_user *u = user;
  (void)r;
  union {
    const void *c;
    crn_layer *l;
  } p = {.c = o->u.obj.p};
  *found = !strcmp(o->u.obj.type, "sources");
  if (!*found) return CRN_OK;
  if (index->kind != CRN_EV_INT || index->u.i < 0 || index->u.i >= p.l->n_src)
    return crn_exec_fail(u->x, u->l, "sources[i]: i must be a number from 0 to %d", p.l->n_src - 1);
  *out = object("layer", p.l->src[index->u.i]);
  return CRN_OK;
}

static crn_status call_state(eval_user *u, crn_run *r, crn_layer *l, const crn_eargs *a, crn_ev *out) {
  const crn_ev *key = argument(a, 0, "key");
  crn_layer *owner = crn_state_owner(l);
  crn_tensor *parts[8];
  int n = 0;
  for (int i = 0; i < owner->n_states && n < 8; i++) {
    const bool all = !key || key->kind != CRN_EV_STR || !strcmp(key->u.s, "*") || !strcmp(key->u.s, "flat");
    if (!all && strcmp(owner->states[i].name, key->u.s) != 0) continue;
    const crn_data *d = crn_state_of(u->x, u->l, l, i);
    if (!d) return r->err->code;
    parts[n++] = d->v;
  }
  if (!n) return crn_exec_fail(u->x, u->l, "layer '%s' has no such hidden state", l->path);
  *out = crn_ev_of_tensor(n == 1 ? parts[0] : crn_concat(r, n, parts, -1));
  return out->u.t ? CRN_OK : r->err->code;
}

static crn_status ev_call(void *user, crn_run *r, const crn_ev *callee, const crn_eargs *a, crn_ev *out) {
  eval_user *u = user;
  const char *type = callee->u.obj.type;
  union {
    const void *c;
    crn_layer *l;
  } p = {.c = callee->u.obj.p};
  if (!strcmp(type, "source")) return call_source(u, r, a, out);
  if (!strcmp(type, "layer.state")) return call_state(u, r, p.l, a, out);
  if (!strcmp(type, "get_config")) return *out = object("config", NULL), CRN_OK;
  if (!strcmp(type, "typed_value")) {
    const crn_ev *key = argument(a, 0, "key");
    const crn_value *v = key && key->kind == CRN_EV_STR ? crn_exec_config(u->x, key->u.s) : NULL;
    if (v && v->kind == CRN_V_CALLABLE) return crn_exec_fail(u->x, u->l, "not implemented: config function '%s' in an expression", key->u.s);
    if (!v || !crn_ev_of_value(r, v, out)) *out = crn_ev_none();
    return CRN_OK;
  }
  const crn_data *d = callee->u.obj.p;
  if (!strcmp(type, "data.lengths")) {
    if (d->t.time_axis < 0) return crn_exec_fail(u->x, u->l, "the data has no time axis");
    *out = crn_ev_of_tensor(crn_data_lens(r, d, d->t.time_axis));
    return out->u.t ? CRN_OK : r->err->code;
  }
  if (!strcmp(type, "data.axis")) {
    const crn_ev *name = argument(a, 0, "axis");
    crn_value *v = name && name->kind == CRN_EV_STR ? crn_v_str(&r->arena, name->u.s) : NULL;
    int axis;
    if (!v) return crn_exec_fail(u->x, u->l, "get_axis_from_description: expected a string");
    CRN_TRY(crn_axis_of(&d->t, v, crn_exec_version(u->x), NULL, &axis, r->err));
    *out = crn_ev_of_int(axis);
    return CRN_OK;
  }
  return crn_exec_fail(u->x, u->l, "this can't be called in an expression");
}

static crn_tensor *as_tensor(eval_user *u, crn_run *r, const crn_ev *v) {
  const crn_dtype dtype = u->out->t.dtype == CRN_F32 ? r->real : u->out->t.dtype;
  if (v->kind == CRN_EV_TENSOR) return v->u.t;
  if (v->kind == CRN_EV_INT) return crn_t_scalar(r, dtype, (double)v->u.i);
  if (v->kind == CRN_EV_FLOAT) return crn_t_scalar(r, dtype, v->u.f);
  if (v->kind == CRN_EV_BOOL) return crn_t_scalar(r, dtype, v->u.b);
  (void)crn_exec_fail(u->x, u->l, "the expression gives %s, a tensor is needed", crn_ev_kind_name(v));
  return NULL;
}

/* Axes of fixed size that broadcasting left at 1 are widened. */
static crn_tensor *widen(eval_user *u, crn_run *r, crn_tensor *v) {
  int64_t shape[CRN_MAX_RANK];
  bool same = true;
  if (!v || v->rank != u->out->t.n) return v;
  for (int i = 0; i < v->rank; i++) {
    shape[i] = v->shape[i] == 1 && u->out->t.dims[i]->size > 1 ? u->out->t.dims[i]->size : v->shape[i];
    same &= shape[i] == v->shape[i];
  }
  return same ? v : crn_broadcast_to(r, v, v->rank, shape);
}

crn_status crn_layer_eval_run(crn_exec *x, crn_layer *l, const crn_layer_eval *e, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  eval_user u = {.x = x, .l = l, .e = e, .out = out};
  const crn_eval_env env = {.user = &u, .owner = crn_random_name(x, l, "eval", false), .name = ev_name, .attr = ev_attr, .item = ev_item, .call = ev_call};
  crn_ev v;
  for (int i = 0; i < l->n_src; i++) {
    const crn_data *d = crn_source(x, l, i);
    if (!d) return r->err->code;
    crn_take_lengths(x, d, out);
  }
  CRN_TRY(crn_eval_run(r, e->code, &env, &v));
  out->v = widen(&u, r, as_tensor(&u, r, &v));
  return out->v ? CRN_OK : r->err->code;
}
