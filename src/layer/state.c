/* SPDX-License-Identifier: Apache-2.0
 *
 * Access to states and to layers of loops (recurrent.md, "State and loop access"): get_last_hidden_state,
 * get_rec_accumulated, rec_last_output, rec_unstack.
 */
#include <string.h>

#include "layer/layer.h"

typedef struct state_cfg {
  const crn_value *key, *axis;
  const char *combine, *sub_layer, *sub_layer_name;
  crn_layer *rec_layer;
  int declare_rec_time;
  crn_layer *inner; /* REC/sub_layer */
} state_cfg;

#define OFF(f) offsetof(state_cfg, f)

static crn_status pass_on(crn_exec *x, crn_layer *l, crn_layer *of, crn_data *out) {
  const crn_data *d = crn_value_of(x, l, of);
  if (!d) return crn_exec_run(x)->err->code;
  const crn_tmpl t = l->out;
  *out = *d;
  out->t = t;
  return CRN_OK;
}

/* ---- get_last_hidden_state --------------------------------------------------------------------------------------- */

static const crn_opt last_opts[] = {{.name = "key",
                                     .type = CRN_OPT_VALUE,
                                     .offset = OFF(key),
                                     .dflt = "\"*\"",
                                     .doc = "which state: a name, an index, \"*\" for all, None for the only one"},
                                    {.name = "combine",
                                     .type = CRN_OPT_STR,
                                     .offset = OFF(combine),
                                     .dflt = "\"concat\"",
                                     .choices = "concat|add",
                                     .doc = "how the states of several sources are joined"},
                                    CRN_OPT_END};

static bool gives_states(const crn_layer *l) { return !strcmp(l->desc->name, "get_last_hidden_state"); }

static crn_status wrong_key(crn_build *b, crn_layer *l, const crn_layer *owner, const crn_value *key) {
  crn_str s = {0}, names = {0};
  crn_v_repr(key, &s, 40);
  for (int i = 0; i < owner->n_states; i++) crn_str_addf(&names, "%s'%s'", i ? ", " : "", owner->states[i].name);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "option 'key': layer '%s' has no state %s; it has: %s",
                                 owner->path, crn_str_get(&s), crn_str_get(&names));
  crn_str_free(&s);
  crn_str_free(&names);
  return st;
}

/* States [*first, *first + *n) of owner by the key. */
static bool states_of_key(const crn_value *key, const crn_layer *owner, int *first, int *n) {
  const char *name = crn_v_cstr(key);
  int64_t index;
  *first = 0;
  *n = owner->n_states;
  if (crn_v_is_none(key)) return owner->n_states == 1;
  if (name && (!strcmp(name, "*") || !strcmp(name, "flat"))) return true;
  *n = 1;
  for (*first = 0; name && *first < owner->n_states; (*first)++)
    if (!strcmp(owner->states[*first].name, name)) return true;
  if (name || !crn_v_to_int(key, &index)) return false;
  if (index < 0) index += owner->n_states;
  *first = (int)index;
  return index >= 0 && index < owner->n_states;
}

/* Template and feature size of what source i gives. */
static crn_status part_tmpl(crn_build *b, crn_layer *l, int i, crn_tmpl *t, int64_t *size, bool *known) {
  const state_cfg *c = l->cfg;
  crn_layer *owner = crn_state_owner(l->src[i]);
  int first, n;
  *known = owner->out_known;
  if (!owner->out_known) return CRN_OK;
  if (gives_states(owner)) {
    *t = owner->out;
    *size = crn_tmpl_dim(t);
    return CRN_OK;
  }
  if (owner->n_states == 0 && crn_layer_in_loop(l)) { /* known by its options so far: states come with its sources */
    *known = false;
    return CRN_OK;
  }
  if (owner->n_states == 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "layer '%s' (%s) has no hidden state", owner->path, owner->desc->name);
  if (!states_of_key(c->key, owner, &first, &n)) return wrong_key(b, l, owner, c->key);
  *t = owner->states[first].t;
  *size = 0;
  for (int k = first; k < first + n; k++) *size += crn_tmpl_dim(&owner->states[k].t);
  return CRN_OK;
}

static crn_status last_infer(crn_build *b, crn_layer *l) {
  const state_cfg *c = l->cfg;
  const crn_dim *feature;
  int64_t total = 0, size = 0;
  bool complete = true, any = false;
  crn_tmpl t;
  if (l->n_src == 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs a source ('from')");
  CRN_TRY(crn_new_feature_dim(b, l, NULL, &feature));
  for (int i = 0; i < l->n_src; i++) {
    crn_tmpl part;
    bool known;
    CRN_TRY(part_tmpl(b, l, i, &part, &size, &known));
    complete &= known;
    if (!known) continue;
    if (!any) t = part;
    any = true;
    if (!strcmp(c->combine, "concat"))
      total += size;
    else if (total != 0 && total != size)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'combine': states of sizes %lld and %lld can't be added",
                            (long long)total, (long long)size);
    else
      total = size;
  }
  l->out_known = any;
  if (!any) return CRN_OK;
  if (complete && total != feature->size)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' is %lld, but the state has size %lld",
                          (long long)feature->size, (long long)total);
  if (t.feature_axis < 0 || t.feature_axis != t.n - 1)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: a state whose last axis is not its feature");
  l->out = t;
  l->out.dims[t.feature_axis] = feature;
  return CRN_OK;
}

static crn_tensor *part_value(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  const state_cfg *c = l->cfg;
  crn_layer *owner = crn_state_owner(l->src[i]);
  const crn_data *d = NULL;
  crn_tensor *parts[16];
  int first, n;
  if (gives_states(owner)) {
    d = crn_value_of(x, l, l->src[i]);
    for (int k = 0; d && k < d->t.n - 1; k++) out->len[k] = d->len[k];
    return d ? d->v : NULL;
  }
  if (!states_of_key(c->key, owner, &first, &n) || n < 1 || n > 16) {
    (void)crn_exec_fail(x, l, "layer '%s' has no such state", owner->path);
    return NULL;
  }
  for (int k = 0; k < n; k++) {
    if (!(d = crn_state_of(x, l, l->src[i], first + k))) return NULL;
    parts[k] = d->v;
    for (int a = 0; a < d->t.n - 1; a++) out->len[a] = d->len[a];
  }
  return n == 1 ? parts[0] : crn_concat(crn_exec_run(x), n, parts, d->t.n - 1);
}

static crn_status last_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const state_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor **v = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, l->n_src + 1);
  if (!v) return crn_err_memory(r->err);
  for (int i = 0; i < l->n_src; i++)
    if (!(v[i] = part_value(x, l, i, out))) return r->err->code;
  out->v = v[0];
  if (!strcmp(c->combine, "add"))
    for (int i = 1; i < l->n_src; i++) out->v = crn_add(r, out->v, v[i]);
  else if (l->n_src > 1)
    out->v = crn_concat(r, l->n_src, v, l->out.n - 1);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- layers of a loop -------------------------------------------------------------------------------------------- */

static crn_status ref_inner(crn_build *b, crn_layer *l, const char *rec, const char *sub, const char *option) {
  state_cfg *c = l->cfg;
  const char *name = crn_arena_printf(crn_build_arena(b), "%s/%s", rec, sub);
  return name ? crn_layer_ref(b, l, name, CRN_EDGE_DATA, option, &c->inner) : crn_err_memory(crn_build_err(b));
}

static bool is_loop(const crn_layer *l) { return !strcmp(l->desc->name, "rec") && l->inner; }

static const crn_opt accumulated_opts[] = {
    {.name = "sub_layer", .type = CRN_OPT_STR, .offset = OFF(sub_layer), .doc = "layer of the loop"}, CRN_OPT_END};

static crn_status accumulated_refs(crn_build *b, crn_layer *l) {
  const state_cfg *c = l->cfg;
  const crn_value *from = crn_v_get(l->dict, "from");
  if (crn_v_is_seq(from)) from = crn_v_len(from) == 1 ? crn_v_at(from, 0) : NULL;
  if (l->n_src != 1 || !crn_v_is_str(from) || !is_loop(l->src[0]))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, a rec layer with a net dict as unit");
  return ref_inner(b, l, crn_v_cstr(from), c->sub_layer, "sub_layer");
}

static crn_status accumulated_infer(crn_build *b, crn_layer *l) {
  const state_cfg *c = l->cfg;
  (void)b;
  l->out = c->inner->out;
  l->out_known = c->inner->out_known;
  return CRN_OK;
}

static crn_status accumulated_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  return pass_on(x, l, ((const state_cfg *)l->cfg)->inner, out);
}

static const crn_opt last_output_opts[] = {
    {.name = "rec_layer", .type = CRN_OPT_LAYER, .offset = OFF(rec_layer), .doc = "rec layer with a net dict"},
    {.name = "sub_layer_name",
     .type = CRN_OPT_STR,
     .offset = OFF(sub_layer_name),
     .doc = "layer of the loop, with need_last"},
    CRN_OPT_END};

static crn_status last_output_refs(crn_build *b, crn_layer *l) {
  const state_cfg *c = l->cfg;
  const char *rec = crn_v_cstr(crn_v_get(l->dict, "rec_layer"));
  if (!rec || !c->rec_layer) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'rec_layer' is required");
  if (!is_loop(c->rec_layer))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                          "not implemented: option 'rec_layer': '%s' is no rec layer with a net dict", rec);
  const crn_value *inner = crn_v_get(crn_v_get(c->rec_layer->dict, "unit"), c->sub_layer_name);
  if (inner && !crn_v_truth(crn_v_get(inner, "need_last")))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'sub_layer_name': layer '%s' of '%s' must have 'need_last': True",
                          c->sub_layer_name, rec);
  return ref_inner(b, l, rec, c->sub_layer_name, "sub_layer_name");
}

/* Axis of the loop in the inner layer's output, -1: constant in the loop. */
static int loop_axis(const state_cfg *c, const crn_tmpl *t) {
  return c->rec_layer->out.n ? crn_tmpl_find(t, c->rec_layer->out.dims[0]) : -1;
}

/* The inner layer's axes without the loop's, batch first. */
static void without_loop(const crn_tmpl *in, int axis, crn_tmpl *out, int perm[CRN_MAX_RANK]) {
  const int batch = crn_tmpl_batch_axis(in);
  int n = 0;
  if (batch >= 0) perm[n++] = batch;
  perm[n++] = axis;
  for (int i = 0; i < in->n; i++)
    if (i != batch && i != axis) perm[n++] = i;
  *out = *in;
  crn_tmpl_permute(out, perm);
  out->time_explicit = false;
  crn_tmpl_remove(out, batch >= 0 ? 1 : 0);
}

static crn_status last_output_infer(crn_build *b, crn_layer *l) {
  const state_cfg *c = l->cfg;
  int perm[CRN_MAX_RANK];
  l->out_known = c->inner->out_known && c->rec_layer->out_known;
  if (!l->out_known) return CRN_OK;
  CRN_TRY(crn_needs_initial_of(b, l, c->inner));
  const int axis = loop_axis(c, &c->inner->out);
  if (axis < 0)
    l->out = c->inner->out;
  else
    without_loop(&c->inner->out, axis, &l->out, perm);
  return CRN_OK;
}

/* Frame max(len - 1, 0) of [B, T, …]. */
static crn_tensor *last_frames(crn_run *r, crn_tensor *v, crn_tensor *lens) {
  crn_tensor *one = crn_t_full(r, CRN_I32, 0, NULL, 1);
  crn_tensor *index = crn_binary(r, CRN_B_MAXIMUM, crn_sub(r, lens, one), crn_t_full(r, CRN_I32, 0, NULL, 0));
  return crn_gather_batched(r, v, index, 1);
}

/* A layer that is the same in all steps: its value, or that before the first one where no step ran. */
static crn_status last_of_constant(crn_exec *x, crn_layer *l, const crn_data *d, crn_data *out) {
  const state_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *rec = crn_value_of(x, l, c->rec_layer);
  const int batch = crn_tmpl_batch_axis(&d->t);
  CRN_TRY(pass_on(x, l, c->inner, out));
  crn_tensor *lens = rec ? crn_data_lens(r, rec, 0) : NULL;
  if (!lens || batch < 0) return lens ? CRN_OK : r->err->code;
  bool empty = false;
  for (int64_t i = 0; i < crn_t_size(lens); i++) empty |= crn_t_i32(lens)[i] == 0;
  if (!empty) return CRN_OK;
  const crn_tmpl t = d->t;
  const crn_data *init = crn_initial_of(x, l, c->inner, &t);
  crn_tensor *ran = crn_binary(r, CRN_B_GREATER, lens, crn_t_full(r, CRN_I32, 0, NULL, 0));
  if (!init || !ran) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < t.n; i++) shape[i] = i == batch ? d->v->shape[i] : 1;
  out->v = crn_where(r, crn_t_reshape(r, ran, t.n, shape), d->v,
                     crn_broadcast_to(r, crn_data_fit(r, init, &t, crn_exec_version(x), false), t.n, d->v->shape));
  return out->v ? CRN_OK : r->err->code;
}

static crn_status last_output_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const state_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_value_of(x, l, c->inner);
  if (!d) return r->err->code;
  const int axis = loop_axis(c, &d->t);
  if (axis < 0) return last_of_constant(x, l, d, out);
  if (crn_tmpl_batch_axis(&d->t) < 0) return crn_exec_fail(x, l, "not implemented: a layer without batch axis");
  int perm[CRN_MAX_RANK];
  crn_tmpl t;
  without_loop(&d->t, axis, &t, perm);
  const crn_data *p = crn_data_permute(r, d, perm);
  crn_tensor *lens = crn_data_lens(r, p, 1);
  if (!lens) return r->err->code;
  bool empty = p->v->shape[1] == 0;
  for (int64_t i = 0; i < crn_t_size(lens); i++) empty |= crn_t_i32(lens)[i] == 0;
  crn_tensor *first = NULL;
  if (empty) { /* nothing ran: the value before the first step */
    const crn_data *init = crn_initial_of(x, l, c->inner, &t);
    if (!init) return r->err->code;
    int64_t shape[CRN_MAX_RANK];
    for (int i = 0; i < t.n; i++) shape[i] = p->v->shape[i ? i + 1 : 0];
    first = crn_broadcast_to(r, crn_data_fit(r, init, &t, crn_exec_version(x), false), t.n, shape);
  }
  if (p->v->shape[1] == 0) {
    out->v = first;
  } else {
    out->v = last_frames(r, p->v, lens);
    int64_t shape[CRN_MAX_RANK] = {0};
    for (int i = 0; i < t.n; i++) shape[i] = i ? 1 : p->v->shape[0];
    crn_tensor *ran = crn_binary(r, CRN_B_GREATER, lens, crn_t_full(r, CRN_I32, 0, NULL, 0));
    if (empty) out->v = crn_where(r, ran ? crn_t_reshape(r, ran, t.n, shape) : NULL, out->v, first);
  }
  for (int i = 1; i < t.n; i++) out->len[i] = p->len[i + 1];
  return out->v ? CRN_OK : r->err->code;
}

/* ---- rec_unstack ------------------------------------------------------------------------------------------------- */

static const crn_opt unstack_opts[] = {{.name = "axis",
                                        .type = CRN_OPT_VALUE,
                                        .offset = OFF(axis),
                                        .dflt = "None",
                                        .doc = "axis to step over; None: the loop's"},
                                       {.name = "declare_rec_time",
                                        .type = CRN_OPT_BOOL,
                                        .offset = OFF(declare_rec_time),
                                        .dflt = "False",
                                        .doc = "the axis gives the loop its length"},
                                       CRN_OPT_END};

static crn_status unstack_infer(crn_build *b, crn_layer *l) {
  const state_cfg *c = l->cfg;
  const crn_dim *loop = crn_loop_dim(l);
  int axis;
  if (!loop) return crn_layer_fail(b, l, CRN_E_CONFIG, "only makes sense in the net dict of a rec layer");
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  const crn_tmpl *in = crn_source_tmpl(l, 0);
  l->out_known = in != NULL;
  if (!in) return CRN_OK;
  if (crn_v_is_none(c->axis))
    axis = crn_tmpl_find(in, loop);
  else
    CRN_TRY(crn_layer_axis(b, l, in, c->axis, "axis", &axis));
  if (axis < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "the source has no axis '%s', which the loop runs over; give 'axis', and "
                          "'declare_rec_time' if it defines the loop's length",
                          loop->name);
  const crn_dim *d = in->dims[axis];
  if (!crn_dim_same(d, loop) && !(d->size >= 0 && d->size == loop->size))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': the source's axis '%s' is not the loop's, '%s'", d->name,
                          loop->name);
  l->out = *in;
  if (crn_layer_moved_out(l)) {
    l->out.dims[axis] = loop;
    return CRN_OK;
  }
  l->out.time_explicit = false;
  crn_tmpl_remove(&l->out, axis);
  return CRN_OK;
}

static crn_status unstack_params(crn_build *b, crn_layer *l) {
  if (crn_layer_moved_out(l)) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG,
                        "must be movable out of the loop (not with 'optimize_move_layers_out': False, and not "
                        "on layers of the loop)");
}

static crn_status unstack_forward(crn_exec *x, crn_layer *l, crn_data *out) { return pass_on(x, l, l->src[0], out); }

const crn_layer_desc crn_family_state[] = {{.name = "get_last_hidden_state",
                                            .doc = "Gives the last state of recurrent layers.",
                                            .opts = last_opts,
                                            .cfg_size = sizeof(state_cfg),
                                            .flags = CRN_L_MANY_INPUTS,
                                            .infer = last_infer,
                                            .forward = last_forward},
                                           {.name = "get_rec_accumulated",
                                            .doc = "Gives all steps of a layer of a loop.",
                                            .opts = accumulated_opts,
                                            .cfg_size = sizeof(state_cfg),
                                            .refs = accumulated_refs,
                                            .infer = accumulated_infer,
                                            .forward = accumulated_forward},
                                           {.name = "rec_last_output",
                                            .doc = "Gives the last valid step of a layer of a loop.",
                                            .opts = last_output_opts,
                                            .cfg_size = sizeof(state_cfg),
                                            .flags = CRN_L_NO_SOURCES,
                                            .refs = last_output_refs,
                                            .infer = last_output_infer,
                                            .forward = last_output_forward},
                                           {.name = "rec_unstack",
                                            .doc = "Gives a sequence frame by frame in a loop.",
                                            .opts = unstack_opts,
                                            .cfg_size = sizeof(state_cfg),
                                            .infer = unstack_infer,
                                            .params = unstack_params,
                                            .forward = unstack_forward},
                                           {.name = NULL}};
