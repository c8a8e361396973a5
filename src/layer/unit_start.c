/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial states of units (recurrent.md, "Initial states"): numbers, words, variables, layers, data; one for all or one
 * each. And the option 'state', which gives a step its state outright.
 */
#include <string.h>

#include "layer/unit.h"

/* What is parsed: an option of a unit, and where its starts go. */
typedef struct start_opt {
  crn_unit *u;
  crn_start *starts; /* n_states */
  const char *option;
  bool layers_only; /* option 'state': no words, no numbers */
} start_opt;

/* "initial_c", or "initial_var" of a single state. */
static const char *start_name(crn_arena *a, const crn_unit *u, int k) {
  return crn_arena_printf(a, "initial_%s", u->n_states > 1 ? u->desc->states[k] : "var");
}

static crn_status start_of_number(crn_build *b, crn_layer *l, const crn_value *v, const start_opt *o, crn_start *s) {
  double f = 0;
  (void)crn_v_to_float(v, &f);
  if (f != 0 && f != 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': of numbers only 0 and 1 are allowed, got %g", o->option, f);
  s->kind = f != 0 ? CRN_START_ONES : CRN_START_ZEROS;
  return CRN_OK;
}

/* A data key of the network gives the state. */
static crn_status start_of_placeholder(crn_build *b, crn_layer *l, const start_opt *o, int k, crn_start *s) {
  const char *name = start_name(crn_build_arena(b), o->u, k);
  const char *key = name ? crn_arena_printf(crn_build_arena(b), "%s/%s", l->path, name) : NULL;
  if (!key) return crn_err_memory(crn_build_err(b));
  crn_tmpl t = crn_tmpl_scalar(CRN_F32);
  t.n = 2;
  t.dims[0] = crn_build_dims(b)->batch;
  CRN_TRY(crn_new_feature_dim(b, l, NULL, &t.dims[1]));
  crn_tmpl_update_roles(&t);
  s->kind = CRN_START_LAYER;
  return crn_layer_input(b, l, key, &t, o->option, &s->layer);
}

static crn_status one_start(crn_build *b, crn_layer *l, const crn_value *v, const start_opt *o, int k) {
  static const char *const words[] = {"zeros", "ones", "var"};
  crn_start *s = &o->starts[k];
  *s = (crn_start){.kind = CRN_START_ZEROS};
  if (!o->layers_only && crn_v_is_none(v)) return CRN_OK;
  if (!o->layers_only && crn_v_is_number(v)) return start_of_number(b, l, v, o, s);
  const char *name = crn_v_cstr(v);
  if (!name)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected %sa layer name, got %s", o->option,
                          o->layers_only ? "" : "a number, a word or ", v ? crn_v_kind_name(v) : "None");
  for (int i = 0; i < 3 && !o->layers_only; i++)
    if (!strcmp(name, words[i])) {
      s->kind = (crn_start_kind)i;
      return CRN_OK;
    }
  if (!o->layers_only && (!strcmp(name, "keep_over_epoch") || !strcmp(name, "keep_over_epoch_no_init"))) {
    s->kind = CRN_START_KEPT;
    l->keep_states = strlen(name) > 15 ? 2 : 1;
    return CRN_OK;
  }
  if (!o->layers_only && !strcmp(name, "placeholder")) return start_of_placeholder(b, l, o, k, s);
  s->kind = CRN_START_LAYER;
  return crn_layer_ref(b, l, name, CRN_EDGE_DATA, o->option, &s->layer);
}

static crn_status starts_of_dict(crn_build *b, crn_layer *l, const crn_value *v, const start_opt *o) {
  const crn_unit *u = o->u;
  const char *const *names = u->desc->states;
  if (u->n_states < 2)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': a dict is for units with several states, but %s has one",
                          o->option, u->desc->name);
  for (size_t i = 0; i < v->u.dict.n; i++) {
    const char *key = crn_v_cstr(v->u.dict.keys[i]);
    bool known = false;
    for (int k = 0; k < u->n_states; k++) known |= key && !strcmp(key, names[k]);
    if (!known)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': unknown key '%s'; unit %s needs exactly '%s' and '%s'",
                            o->option, key ? key : "?", u->desc->name, names[0], names[1]);
  }
  for (int k = 0; k < u->n_states; k++) {
    const crn_value *item = crn_v_get(v, names[k]);
    if (!item)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': key '%s' is missing; unit %s needs exactly '%s' and '%s'",
                            o->option, names[k], u->desc->name, names[0], names[1]);
    CRN_TRY(one_start(b, l, item, o, k));
  }
  return CRN_OK;
}

static crn_status starts_of(crn_build *b, crn_layer *l, const crn_value *v, const start_opt *o) {
  const crn_unit *u = o->u;
  if (crn_v_is_dict(v)) return starts_of_dict(b, l, v, o);
  if (crn_v_is_seq(v)) {
    if (crn_v_len(v) != (size_t)u->n_states)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': unit %s has %d state%s, but %d are given", o->option,
                            u->desc->name, u->n_states, u->n_states > 1 ? "s" : "", (int)crn_v_len(v));
    for (int k = 0; k < u->n_states; k++) CRN_TRY(one_start(b, l, crn_v_at(v, (size_t)k), o, k));
    return CRN_OK;
  }
  const char *word = crn_v_cstr(v);
  for (int k = 0; k < u->n_states; k++) {
    CRN_TRY(one_start(b, l, v, o, k));
    const bool fed = !o->layers_only && word && !strcmp(word, "placeholder");
    if (o->starts[k].kind == CRN_START_LAYER && u->n_states > 1 && !fed)
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "option '%s': one layer can't give both states of unit %s; give a dict with '%s' and '%s'",
                            o->option, u->desc->name, u->desc->states[0], u->desc->states[1]);
  }
  return CRN_OK;
}

crn_status crn_unit_start_refs(crn_build *b, crn_layer *l, crn_unit *u) {
  const crn_rec_cfg *c = l->cfg;
  const crn_value *v = l->common.initial_state;
  double f;
  u->given_state = !crn_v_is_none(c->state);
  if (u->given_state) {
    if (u->desc->flags & CRN_UNIT_NO_INITIAL)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'state': unit %s can't be given one; use nativelstm2",
                            u->desc->name);
    CRN_TRY(starts_of(b, l, c->state, &(start_opt){u, u->given, "state", true}));
  }
  if (crn_v_is_none(v)) return CRN_OK;
  if (u->desc->flags & CRN_UNIT_NO_INITIAL && !(crn_v_is_number(v) && crn_v_to_float(v, &f) && f == 0))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'initial_state': unit %s has none; use nativelstm2",
                          u->desc->name);
  return starts_of(b, l, v, &(start_opt){u, u->start, "initial_state", false});
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

/* In loops they are not below "rec". */
static const char *var_name(crn_arena *a, const crn_layer *l, const crn_unit *u, int k) {
  const char *below = crn_loop_dim(l) || crn_v_is_str(l->common.name_scope) ? "" : "rec/";
  const char *name = start_name(a, u, k);
  return name ? crn_arena_printf(a, "%s%s", below, name) : NULL;
}

crn_status crn_unit_start_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  for (int k = 0; k < u->n_states; k++) {
    if (u->start[k].kind != CRN_START_VAR) continue;
    crn_param_spec s = {.rank = 1, .shape = {u->n}, .init_default = "0", .dtype = CRN_F32};
    s.name = var_name(crn_build_arena(b), l, u, k);
    if (!s.name) return crn_err_memory(crn_build_err(b));
    CRN_TRY(crn_layer_param(b, l, &s));
  }
  return CRN_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Size of an axis of the state that no template tells: the source's. */
static int64_t source_size(crn_exec *x, crn_layer *l, const crn_dim *d) {
  for (int i = 0; i < l->n_src; i++) {
    const crn_data *in = crn_source(x, l, i);
    const int axis = in ? crn_tmpl_find(&in->t, d) : -1;
    if (axis >= 0) return in->v->shape[axis];
  }
  (void)crn_exec_fail(x, l, "size of axis '%s' of the initial state is not known", d->name);
  return -1;
}

static const crn_data *last_state(crn_exec *x, crn_layer *l, crn_layer *of) {
  crn_layer *owner = crn_state_owner(of);
  if (owner->n_states == 0) return crn_value_of(x, l, of);
  crn_run *r = crn_exec_run(x);
  crn_tensor *parts[16];
  const crn_data *d = NULL;
  for (int i = 0; i < owner->n_states && i < 16; i++) {
    if (!(d = crn_state_of(x, l, of, i))) return NULL;
    parts[i] = d->v;
  }
  if (owner->n_states == 1 || owner->n_states > 16) return d;
  crn_data *c = crn_data_copy(r, d);
  if (c) c->v = crn_concat(r, owner->n_states, parts, d->t.n - 1);
  return c && c->v ? c : NULL;
}

static crn_tensor *from_layer(crn_exec *x, crn_layer *l, crn_layer *of, crn_data *out, const char *option,
                              const int64_t *shape) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = last_state(x, l, of);
  if (!d || !(d = crn_data_feature_last(r, d))) return NULL;
  const int n = out->t.n;
  const int64_t size = d->v->rank ? d->v->shape[d->v->rank - 1] : 0;
  if (d->t.n < 1 || d->t.sparse || size != shape[n - 1]) {
    (void)crn_exec_fail(x, l, "option '%s': layer '%s' gives size %lld, but the state has %lld", option, of->path,
                        (long long)size, (long long)shape[n - 1]);
    return NULL;
  }
  crn_data c = *d;
  c.t.dims[c.t.n - 1] = out->t.dims[n - 1];
  out->beam = d->beam;
  return crn_broadcast_to(r, crn_data_fit(r, &c, &out->t, crn_exec_version(x), false), n, shape);
}

/* The final state of the run before; zeros if there is none. */
static crn_tensor *from_last_run(crn_exec *x, crn_layer *l, int i, int rank, const int64_t *shape) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_kept_state(x, l, i);
  if (!d) return crn_t_zeros(r, r->real, rank, shape);
  bool same = d->v->rank == rank;
  for (int k = 0; same && k < rank; k++) same = d->v->shape[k] == shape[k];
  if (same) return d->v;
  (void)crn_exec_fail(x, l, "option 'initial_state': states are kept for %lld sequences, but this batch has %lld",
                      (long long)(d->v->rank ? d->v->shape[0] : 1), (long long)(rank ? shape[0] : 1));
  return NULL;
}

crn_status crn_unit_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  const crn_unit *u = crn_unit_of(l);
  crn_run *r = crn_exec_run(x);
  int64_t shape[CRN_MAX_RANK];
  for (int k = 0; k < out->t.n; k++) {
    const crn_dim *d = out->t.dims[k];
    shape[k] = d->kind == CRN_DIM_BATCH ? crn_batch_size(x, l) : d->size >= 0 ? d->size : source_size(x, l, d);
    if (crn_run_failed(r)) return r->err->code;
  }
  const crn_start *s = &u->start[i];
  if (s->kind == CRN_START_VAR) {
    const char *name = var_name(&r->arena, l, u, i);
    crn_tensor *v = name ? crn_param_get(x, l, name) : NULL;
    out->v = crn_broadcast_to(r, v, out->t.n, shape);
  } else if (s->kind == CRN_START_KEPT) {
    out->v = from_last_run(x, l, i, out->t.n, shape);
  } else if (s->kind == CRN_START_LAYER) {
    out->v = from_layer(x, l, s->layer, out, "initial_state", shape);
  } else {
    out->v = crn_t_full(r, r->real, out->t.n, shape, s->kind == CRN_START_ONES ? 1 : 0);
  }
  return out->v ? CRN_OK : r->err->code;
}

crn_status crn_unit_state_given(crn_exec *x, crn_layer *l, int i, crn_data *out, const int64_t *shape) {
  out->v = from_layer(x, l, crn_unit_of(l)->given[i].layer, out, "state", shape);
  return out->v ? CRN_OK : crn_exec_run(x)->err->code;
}
