/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a loop: first everything as if inside, for templates and dependencies; then the places; then instances outside
 * of what moved, and the runner for what stays.
 */
#include <string.h>

#include "net/loop.h"
#include "net/wrappers.h"

static crn_status add_body(crn_build *b, crn_body *body) {
  crn_net *net = b->net;
  if (net->n_bodies == net->cap_bodies) {
    int cap = net->cap_bodies ? 2 * net->cap_bodies : 8;
    crn_body **p = crn_realloc(net->bodies, (size_t)cap * sizeof(*p));
    if (!p) return crn_err_memory(b->err);
    net->bodies = p;
    net->cap_bodies = cap;
  }
  body->index = net->n_bodies;
  net->bodies[net->n_bodies++] = body;
  return CRN_OK;
}

crn_status crn_loop_make(crn_build *b, crn_layer *rec, const crn_value *unit) {
  crn_arena *a = &b->net->arena;
  crn_loop *loop = CRN_ARENA_NEW(a, crn_loop);
  crn_rec_cfg *c = rec->cfg;
  if (!loop) return crn_err_memory(b->err);
  c->loop = loop;
  loop->rec = rec;
  loop->include_eos = c->include_eos > 0;
  loop->max_seq_len_via = NULL;
  loop->body.outer = rec->body;
  loop->body.loop = loop;
  CRN_TRY(add_body(b, &loop->body));
  const char *base = crn_layer_param_path(b, rec);
  const char *params = crn_v_is_str(rec->common.name_scope) ? base : base ? crn_arena_printf(a, "%srec/", base) : NULL;
  loop->inside = crn_scope_new(b, CRN_SCOPE_LOOP, rec->scope, rec, unit);
  loop->moved = crn_scope_new(b, CRN_SCOPE_MOVED, rec->scope, rec, unit);
  if (!loop->inside || !loop->moved || !params) return crn_err_memory(b->err);
  loop->inside->param_path = loop->moved->param_path = params;
  loop->inside->loop = loop->moved->loop = loop;
  loop->inside->body = &loop->body;
  loop->moved->body = rec->body;
  loop->inside->twin = loop->moved;
  loop->moved->twin = loop->inside;
  rec->inner = loop->inside;
  return CRN_OK;
}

/* The part of a name before the first "/". */
static void head_of(char *head, const char *name) {
  const size_t n = strcspn(name, "/");
  memcpy(head, name, n);
  head[n] = 0;
}

/* ---- names special to loops ----------------------------------------------------------------------------------------- */

static crn_scope *loop_scope(crn_scope *s) {
  while (s && s->kind != CRN_SCOPE_LOOP && s->kind != CRN_SCOPE_MOVED) s = s->parent;
  return s;
}

/* Name of the layer that gives the initial output, NULL if it is given otherwise. */
static void initial_layer_name(const crn_layer *of, const char **name) {
  static const char *const words[] = {"zeros", "ones", "var", "apply(0)", NULL};
  *name = crn_v_cstr(of->common.initial_output);
  for (const char *const *w = words; *name && *w; w++)
    if (*name && !strcmp(*w, *name)) *name = NULL;
}

static crn_status get_prev(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker,
                           const char *option, crn_layer **out) {
  crn_scope *top = loop_scope(scope);
  crn_layer *of;
  if (!strncmp(name + 5, "prev:", 5))
    return crn_layer_fail(b, asker, CRN_E_CONFIG, "'%s': only the step before can be read", name);
  CRN_TRY(crn_scope_get(b, scope, name + 5, asker, option, &of));
  const bool inside = top->kind == CRN_SCOPE_LOOP;
  CRN_TRY(crn_layer_make_internal(b, scope, scope->body, name, inside ? &crn_wrap_prev : &crn_wrap_shift, of,
                                  inside ? CRN_EDGE_PREV : CRN_EDGE_DATA, out));
  crn_prev *p = CRN_ARENA_NEW(&b->net->arena, crn_prev);
  if (!p) return crn_err_memory(b->err);
  p->of = of;
  (*out)->priv = p;
  crn_layer *source = of->desc == &crn_wrap_accum ? of->priv : of;
  const char *init;
  initial_layer_name(source, &init);
  if (!init) return CRN_OK;
  CRN_TRY(crn_scope_get(b, source->scope, init, source, "initial_output", &p->init));
  source->initial = p->init;
  return crn_layer_add_edge(b, *out, p->init, CRN_EDGE_DATA, "initial_output");
}

static crn_status get_data(crn_build *b, crn_scope *top, const char *name, const crn_layer *asker, const char *option,
                           crn_layer **out) {
  crn_loop *loop = top->loop;
  const bool source = !strcmp(name, "data:source");
  crn_layer *outer = loop->source;
  if (source && !outer)
    return crn_layer_fail(b, asker, CRN_E_CONFIG, "'data:source': the loop has no source ('from' is empty)");
  if (!source) CRN_TRY(crn_scope_get(b, top->parent, name, asker, option, &outer));
  if (top->kind == CRN_SCOPE_MOVED && source) {
    *out = outer;
    return CRN_OK;
  }
  return crn_layer_make_internal(b, top, top->body, name,
                                 top->kind == CRN_SCOPE_LOOP ? &crn_wrap_slice : &crn_wrap_frames, outer,
                                 CRN_EDGE_DATA, out);
}

static crn_status get_step(crn_build *b, crn_scope *top, crn_layer **out) {
  crn_layer *lengths = NULL;
  if (top->kind == CRN_SCOPE_MOVED) lengths = top->loop->len_layer ? top->loop->len_layer : top->loop->runner;
  CRN_TRY(crn_layer_make_internal(b, top, top->body, ":i", &crn_wrap_step, lengths, CRN_EDGE_DATA, out));
  return CRN_OK;
}

crn_status crn_loop_get(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker, const char *option,
                        crn_layer **out, bool *found) {
  crn_scope *top = loop_scope(scope);
  *found = true;
  if (!top) {
    *found = false;
    return CRN_OK;
  }
  if (!strncmp(name, "prev:", 5)) return get_prev(b, scope, name, asker, option, out);
  if (!strcmp(name, ":i")) {
    if (scope != top) return crn_scope_get(b, top, name, asker, option, out);
    return get_step(b, top, out);
  }
  if (scope == top && (!strcmp(name, "data") || !strncmp(name, "data:", 5)))
    return get_data(b, top, name, asker, option, out);
  if (scope == top && top->kind == CRN_SCOPE_MOVED) {
    crn_layer *inner = crn_map_get(&top->twin->layers, name);
    if (!inner && strchr(name, '/') && crn_loop_place(top->loop, crn_arena_strndup(&b->net->arena, name, strcspn(name, "/"))) == CRN_IN_LOOP)
      CRN_TRY(crn_scope_get(b, top->twin, name, asker, option, &inner));
    char head[256];
    if (strcspn(name, "/") >= sizeof(head)) return crn_layer_fail(b, asker, CRN_E_CONFIG, "name too long");
    head_of(head, name);
    if (inner && crn_loop_place(top->loop, head) == CRN_IN_LOOP)
      return crn_loop_accum(b, top->loop, inner, out);
  }
  *found = false;
  return CRN_OK;
}

crn_status crn_loop_outside_get(crn_build *b, crn_layer *rec, const char *sub, const crn_layer *asker, crn_layer **out) {
  (void)asker;
  const char *name = crn_arena_printf(&b->net->arena, "%s/%s", rec->name, sub);
  if (!name) return crn_err_memory(b->err);
  if ((*out = crn_map_get(&rec->scope->layers, name))) return CRN_OK;
  CRN_TRY(crn_layer_make_internal(b, rec->scope, rec->body, name, &crn_wrap_loop_sub, rec, CRN_EDGE_DATA, out));
  (*out)->priv = crn_arena_strdup(&b->net->arena, sub);
  return (*out)->priv ? CRN_OK : crn_err_memory(b->err);
}

/* ---- inference of the rec layer ------------------------------------------------------------------------------------- */

crn_loop *crn_layer_loop(const crn_layer *l) {
  const bool loop = l->inner && l->inner->kind == CRN_SCOPE_LOOP && l->desc != &crn_wrap_slice;
  return loop ? l->inner->loop : NULL;
}

static crn_status make_source(crn_build *b, crn_loop *loop) {
  crn_layer *rec = loop->rec;
  if (rec->n_src == 0) return CRN_OK;
  if (rec->n_src == 1 && rec->common.dropout <= 0) {
    loop->source = rec->src[0];
    return CRN_OK;
  }
  const char *name = crn_arena_printf(&b->net->arena, "%s:source", rec->name);
  if (!name) return crn_err_memory(b->err);
  CRN_TRY(crn_wrap_sources(b, rec->scope, rec->body, name, rec->src, rec->n_src, &loop->source));
  loop->source->common.dropout = rec->common.dropout;
  loop->source->common.dropout_noise_shape = rec->common.dropout_noise_shape;
  loop->source->common.dropout_axis = rec->common.dropout_axis;
  return crn_layer_add_edge(b, rec, loop->source, CRN_EDGE_DATA, "from");
}

typedef struct crn_loop_roots {
  crn_layer *items[512];
  int n;
} root_list;

static crn_status add_root(crn_build *b, crn_loop *loop, root_list *roots, const char *name) {
  if (roots->n >= 512) return crn_layer_fail(b, loop->rec, CRN_E_CONFIG, "more than 512 output layers in a loop");
  return crn_scope_get(b, loop->inside, name, loop->rec, NULL, &roots->items[roots->n++]);
}

static bool wanted(const crn_loop *loop, const crn_build *b, const char *name, const crn_value *dict) {
  const crn_scope *s = loop->inside;
  if (name[0] == '#' || !crn_v_is_dict(dict)) return false;
  if (crn_v_truth(crn_v_get(dict, "only_on_search")) && !s->search) return false;
  if (crn_v_truth(crn_v_get(dict, "only_on_eval")) && !s->eval) return false;
  if (crn_v_truth(crn_v_get(dict, "is_output_layer")) || crn_v_truth(crn_v_get(dict, "need_last"))) return true;
  const bool no_search_loss = crn_v_truth(crn_v_get(dict, "loss_only_on_non_search")) && s->search;
  return !crn_v_is_none(crn_v_get(dict, "loss")) && s->eval && !b->net->search && !no_search_loss;
}

/* need_last: the value before the first step counts though nobody may read "prev:x". */
static crn_status find_initial(crn_build *b, crn_layer *l) {
  const char *name;
  initial_layer_name(l, &name);
  if (l->common.need_last <= 0 || !name || l->initial) return CRN_OK;
  CRN_TRY(crn_scope_get(b, l->scope, name, l, "initial_output", &l->initial));
  return crn_layer_add_edge(b, l, l->initial, CRN_EDGE_DATA, "initial_output");
}

static crn_status find_roots(crn_build *b, crn_loop *loop, root_list *roots) {
  const crn_value *d = loop->inside->dict;
  if (!crn_v_get(d, "output"))
    return crn_layer_fail(b, loop->rec, CRN_E_CONFIG, "the net dict of 'unit' has no layer 'output'");
  CRN_TRY(add_root(b, loop, roots, "output"));
  for (size_t i = 0; i < d->u.dict.n; i++) {
    const char *name = crn_v_cstr(d->u.dict.keys[i]);
    if (name && strcmp(name, "output") != 0 && wanted(loop, b, name, d->u.dict.vals[i]))
      CRN_TRY(add_root(b, loop, roots, name));
  }
  for (int i = 0; i < roots->n; i++) CRN_TRY(find_initial(b, roots->items[i]));
  return CRN_OK;
}

static crn_status check_length(crn_build *b, crn_loop *loop, root_list *roots) {
  if (!loop->unknown_len) return CRN_OK;
  if (!crn_v_get(loop->inside->dict, "end"))
    return crn_layer_fail(b, loop->rec, CRN_E_CONFIG,
                          "the length of the loop is not known: it needs a layer 'end' in 'unit', a source, 'size_target' "
                          "or 'target'");
  const crn_rec_cfg *c = loop->rec->cfg;
  if (crn_v_is_none(c->max_seq_len) && !c->max_seq_len_via)
    return crn_layer_fail(b, loop->rec, CRN_E_CONFIG,
                          "the length of the loop is not known: option 'max_seq_len' must limit it");
  CRN_TRY(add_root(b, loop, roots, "end"));
  loop->end = roots->items[roots->n - 1];
  return CRN_OK;
}

/* Layers of the loop that moved before it and are read inside become slices of their instances outside. */
static crn_status slice_moved_inputs(crn_build *b, crn_loop *loop, crn_layer **order, int n) {
  for (int i = 0; i < n; i++) {
    crn_layer *l = order[i];
    if (l->desc == &crn_wrap_prev || (l->desc->flags & CRN_L_INTERNAL && l->scope == loop->inside &&
                                      l->desc != &crn_wrap_sub_output))
      continue;
    const char *unit = crn_loop_unit_of(loop, l);
    char head[256];
    if (!unit || strlen(unit) >= sizeof(head)) continue;
    head_of(head, unit);
    if (crn_loop_place(loop, l->scope == loop->inside && crn_loop_place(loop, l->name) != CRN_UNUSED ? l->name : head) != CRN_MOVED_INPUT) continue;
    crn_layer *outside;
    const char *rel = l->path + strlen(loop->inside->path);
    if (l->scope != loop->inside) { /* what is in the unit of a masked_computation is there once its references are */
      CRN_TRY(crn_scope_get(b, loop->moved, head, loop->rec, NULL, &outside));
      CRN_TRY(crn_build_refs(b));
    }
    CRN_TRY(crn_scope_get(b, loop->moved, rel, loop->rec, NULL, &outside));
    l->desc = &crn_wrap_slice;
    l->src = CRN_ARENA_NEW(&b->net->arena, crn_layer *);
    if (!l->src) return crn_err_memory(b->err);
    l->src[0] = outside;
    l->n_src = 1;
    l->n_edges = l->cap_edges = 0;
    l->n_states = l->n_subs = 0;
    l->loss = NULL;
    l->params = NULL;
    l->n_params = 0;
    l->priv = NULL;
    CRN_TRY(crn_layer_add_edge(b, l, outside, CRN_EDGE_DATA, "moved out"));
  }
  return CRN_OK;
}

/* Order of the layers that stay, with the wrappers that they read. */
static crn_status body_order(crn_build *b, crn_loop *loop, crn_layer **order, int n) {
  bool *keep = crn_calloc((size_t)n + 1, 1);
  if (!keep) return crn_err_memory(b->err);
  for (int i = 0; i < n; i++) {
    const crn_layer *l = order[i];
    if (l->desc == &crn_wrap_slice || l->desc == &crn_wrap_prev || l->desc == &crn_wrap_step) continue;
    const char *unit = crn_loop_unit_of(loop, l);
    keep[i] = unit && (crn_loop_place(loop, unit) == CRN_IN_LOOP);
    if (l->scope == loop->inside && l->desc->flags & CRN_L_INTERNAL) {
      char head[256];
      if (strlen(l->name) < sizeof(head)) {
        head_of(head, l->name);
        keep[i] = crn_loop_place(loop, head) == CRN_IN_LOOP;
      }
    }
  }
  for (bool changed = true; changed;) { /* what kept layers read */
    changed = false;
    for (int i = 0; i < n; i++) {
      if (!keep[i]) continue;
      for (int k = 0; k < order[i]->n_edges; k++) {
        if (order[i]->edges[k].kind == CRN_EDGE_PARAM) continue;
        for (int j = 0; j < n; j++)
          if (order[j] == order[i]->edges[k].to && !keep[j]) keep[j] = changed = true;
      }
    }
  }
  crn_status st = CRN_OK;
  for (int i = 0; i < n && st == CRN_OK; i++)
    if (keep[i]) st = crn_body_add(b, &loop->body, order[i]);
  crn_free(keep);
  return st;
}

static crn_status list_layer(crn_build *b, crn_layer ***list, int *n, crn_layer *l) {
  crn_layer **p = CRN_ARENA_ARRAY(&b->net->arena, crn_layer *, *n + 1);
  if (!p) return crn_err_memory(b->err);
  if (*n) memcpy(p, *list, (size_t)*n * sizeof(*p));
  p[(*n)++] = l;
  *list = p;
  return CRN_OK;
}

crn_status crn_loop_keep(crn_build *b, crn_loop *loop, crn_layer *inner, int *index) {
  for (int i = 0; i < loop->n_kept; i++)
    if (loop->kept[i] == inner) return *index = i, CRN_OK;
  *index = loop->n_kept;
  return list_layer(b, &loop->kept, &loop->n_kept, inner);
}

static crn_status make_runner(crn_build *b, crn_loop *loop) {
  crn_layer *rec = loop->rec;
  if (loop->body.n == 0) return CRN_OK;
  const char *name = crn_arena_printf(&b->net->arena, "%s:loop", rec->name);
  if (!name) return crn_err_memory(b->err);
  CRN_TRY(crn_layer_make_internal(b, rec->scope, rec->body, name, &crn_wrap_runner, NULL, CRN_EDGE_DATA, &loop->runner));
  loop->runner->priv = loop;
  for (int i = 0; i < loop->body.n; i++) {
    crn_layer *l = loop->body.order[i];
    if (l->desc == &crn_wrap_prev) CRN_TRY(list_layer(b, &loop->carried, &loop->n_carried, l));
    if (l->desc == &crn_wrap_slice) CRN_TRY(list_layer(b, &loop->sliced, &loop->n_sliced, l));
    if (l->out.beam.choice == l && l->out_known) loop->last_choice = l;
    for (int k = 0; k < l->n_edges; k++)
      if (l->edges[k].to->body != &loop->body && l->edges[k].kind != CRN_EDGE_PARAM)
        CRN_TRY(crn_layer_add_edge(b, loop->runner, l->edges[k].to, CRN_EDGE_DATA, "loop"));
  }
  if (loop->len_layer) CRN_TRY(crn_layer_add_edge(b, loop->runner, loop->len_layer, CRN_EDGE_DATA, "length"));
  if (loop->max_seq_len_via)
    CRN_TRY(crn_layer_add_edge(b, loop->runner, loop->max_seq_len_via, CRN_EDGE_DATA, "max_seq_len_via"));
  return loop->unknown_len ? crn_loop_limit_refs(b, loop) : CRN_OK;
}

/* Instances outside: the result, and what is wanted though nobody reads it. */
static crn_status make_outside(crn_build *b, crn_loop *loop, const root_list *roots) {
  for (int i = 0; i < roots->n; i++) {
    crn_layer *inner = roots->items[i], *l;
    const crn_place place = crn_loop_place(loop, inner->name);
    const bool result = !strcmp(inner->name, "output");
    if (inner == loop->end && !result) continue;
    if (place == CRN_IN_LOOP && !result) continue;
    if (place == CRN_IN_LOOP) CRN_TRY(crn_loop_accum(b, loop, inner, &l));
    else CRN_TRY(crn_scope_get(b, loop->moved, inner->name, loop->rec, NULL, &l));
    if (result) loop->result = l;
    else CRN_TRY(crn_build_add_root(b, l));
  }
  if (loop->runner) CRN_TRY(crn_layer_add_edge(b, loop->rec, loop->runner, CRN_EDGE_DATA, "loop"));
  return crn_layer_add_edge(b, loop->rec, loop->result, CRN_EDGE_DATA, "unit");
}

static bool optimize_wanted(const crn_build *b, const crn_loop *loop) {
  const crn_rec_cfg *c = loop->rec->cfg;
  if (!crn_v_is_none(c->optimize)) return crn_v_truth(c->optimize);
  const crn_value *v = crn_v_get(b->net->config, "optimize_move_layers_out");
  return crn_v_is_none(v) || crn_v_truth(v);
}

/* A template for a layer that never runs in this network. */
static crn_status infer_idle(crn_build *b, crn_loop *loop, const char *name) {
  crn_layer *l, **order = NULL;
  int n = 0;
  CRN_TRY(crn_scope_get(b, loop->inside, name, loop->rec, NULL, &l));
  CRN_TRY(crn_build_refs(b));
  const crn_status st = crn_loop_infer_inside(b, loop, &l, 1, &order, &n);
  crn_free(order);
  return st;
}

/* "end" where the length is known, and layers with losses in search, have templates (and faults in them are found). */
static crn_status infer_idle_layers(crn_build *b, crn_loop *loop) {
  const crn_value *d = loop->inside->dict;
  if (!loop->end && crn_v_get(d, "end")) CRN_TRY(infer_idle(b, loop, "end"));
  for (size_t i = 0; b->net->search && i < d->u.dict.n; i++) {
    const char *name = crn_v_cstr(d->u.dict.keys[i]);
    const crn_value *dict = d->u.dict.vals[i];
    if (!name || name[0] == '#' || crn_v_is_none(crn_v_get(dict, "loss"))) continue;
    if (crn_v_truth(crn_v_get(dict, "loss_only_on_non_search"))) continue;
    if (crn_v_truth(crn_v_get(dict, "only_on_eval")) && !loop->inside->eval) continue;
    CRN_TRY(infer_idle(b, loop, name));
  }
  return CRN_OK;
}

/* The layers inside that are wanted, with all that they refer to. */
static crn_status make_inside(crn_build *b, crn_loop *loop) {
  if (loop->roots) return CRN_OK;
  if (!(loop->roots = CRN_ARENA_NEW(&b->net->arena, root_list))) return crn_err_memory(b->err);
  CRN_TRY(find_roots(b, loop, loop->roots));
  return crn_build_refs(b);
}

/* What layers inside read outside, the rec layer reads. */
static crn_status read_outside(crn_build *b, const crn_loop *loop) {
  for (int i = 0; i < b->net->n_layers; i++) {
    const crn_layer *l = b->net->layers[i];
    for (int k = 0; l->body == &loop->body && k < l->n_edges; k++)
      if (l->edges[k].kind != CRN_EDGE_PARAM && l->edges[k].to->body != &loop->body && l->edges[k].to != loop->rec)
        CRN_TRY(crn_layer_add_edge(b, loop->rec, l->edges[k].to, CRN_EDGE_DATA, "unit"));
  }
  return CRN_OK;
}

crn_status crn_loop_link(crn_build *b, crn_layer *rec) {
  crn_loop *loop = crn_layer_loop(rec);
  if (loop->roots) return CRN_OK;
  if (!loop->source) CRN_TRY(make_source(b, loop));
  CRN_TRY(make_inside(b, loop));
  for (int i = 0; i < b->net->n_layers; i++) { /* grows */
    crn_layer *l = b->net->layers[i];
    if (l->body == &loop->body && crn_layer_loop(l)) CRN_TRY(crn_loop_link(b, l));
  }
  return read_outside(b, loop);
}

/* Losses inside sub networks of the loop. */
static void add_losses(const crn_build *b, crn_loop *loop) {
  root_list *roots = loop->roots;
  for (int i = 0; i < b->n_roots && roots->n < 511; i++) {
    crn_layer *l = b->roots[i];
    bool there = l->body != &loop->body || l->scope->loop != loop;
    for (int k = 0; k < roots->n && !there; k++) there = roots->items[k] == l;
    if (!there) roots->items[roots->n++] = l;
  }
}

static crn_status build_loop(crn_build *b, crn_loop *loop) {
  crn_layer **order = NULL;
  int n = 0;
  if (!loop->source) CRN_TRY(make_source(b, loop));
  if (loop->source && !loop->rec->body->loop) CRN_TRY(crn_build_infer(b, loop->source));
  loop->waits = loop->source && !loop->source->out_known;
  if (!loop->waits) CRN_TRY(crn_loop_find_axis(b, loop));
  if (loop->waits) return CRN_OK;
  CRN_TRY(make_inside(b, loop));
  root_list *roots = loop->roots;
  CRN_TRY(crn_loop_take_over_axis(b, loop));
  if (loop->waits) return CRN_OK;
  CRN_TRY(check_length(b, loop, roots));
  CRN_TRY(crn_build_refs(b));
  add_losses(b, loop);
  crn_status st = crn_loop_infer_inside(b, loop, roots->items, roots->n, &order, &n);
  if (st == CRN_OK) st = infer_idle_layers(b, loop);
  if (st == CRN_OK) st = crn_loop_place_layers(b, loop, order, n, optimize_wanted(b, loop));
  if (st == CRN_OK) st = slice_moved_inputs(b, loop, order, n);
  if (st == CRN_OK) st = body_order(b, loop, order, n);
  crn_free(order);
  CRN_TRY(st);
  loop->placed = true;
  CRN_TRY(make_runner(b, loop));
  return make_outside(b, loop, roots);
}

/* Template of the rec layer: of its result, the loop's axis first. */
static crn_status result_template(crn_build *b, crn_loop *loop) {
  crn_layer *rec = loop->rec;
  const crn_tmpl *t = &loop->result->out;
  if (!loop->result->out_known) {
    rec->out_known = false;
    return CRN_OK;
  }
  rec->out = *t;
  int perm[CRN_MAX_RANK], k = 1;
  const int axis = crn_tmpl_find(t, loop->time_dim);
  if (axis < 0) { /* the same in all steps */
    rec->out.time_explicit = false;
    CRN_TRY(crn_tmpl_insert(&rec->out, 0, loop->time_dim, b->err));
    rec->out.time_axis = 0;
    rec->out.time_explicit = !crn_dim_is_dynamic(loop->time_dim);
    crn_tmpl_update_roles(&rec->out);
    return CRN_OK;
  }
  perm[0] = axis;
  for (int i = 0; i < t->n; i++)
    if (i != axis) perm[k++] = i;
  const bool fe = rec->out.feature_explicit;
  rec->out.time_axis = axis;
  rec->out.time_explicit = rec->out.feature_explicit = true;
  crn_tmpl_permute(&rec->out, perm);
  rec->out.feature_explicit = fe;
  rec->out.time_explicit = !crn_dim_is_dynamic(loop->time_dim);
  crn_tmpl_update_roles(&rec->out);
  return CRN_OK;
}

crn_status crn_loop_infer(crn_build *b, crn_layer *rec) {
  crn_rec_cfg *c = rec->cfg;
  crn_loop *loop = c->loop;
  if (!loop->placed) {
    for (int i = 0; i < rec->n_src; i++)
      if (!rec->src[i]->out_known) {
        rec->out_known = false;
        return CRN_OK;
      }
    loop->max_seq_len_via = c->max_seq_len_via;
    CRN_TRY(build_loop(b, loop));
    if (!loop->placed) {
      rec->out_known = false;
      return CRN_OK;
    }
  } else if (rec->body->loop) { /* layers of the loop around may be known better now */
    CRN_TRY(crn_loop_settle_again(b, loop));
  }
  return result_template(b, loop);
}
