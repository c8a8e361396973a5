/* SPDX-License-Identifier: Apache-2.0
 *
 * Which layers of a loop run outside of it (recurrent.md, "Moving layers out"). Works on the loop's own layers
 * ("units"): what is inside a sub network moves with it.
 */
#include <string.h>

#include "net/loop.h"
#include "net/masked.h"
#include "net/wrappers.h"

typedef struct unit {
  const char *name;
  bool in_set, searching_choice, self_prev;
  bool stays; /* its state is read in each step, it reads one, it meets the loop's axis, or runs on what is the same in
                 all steps */
  bool needs_length; /* which isn't known before the loop ran */
  unsigned char *now, *prev; /* dependencies: n flags each */
  int tie;                   /* smallest index of the units collocated with it */
} unit;

typedef struct units {
  unit *u;
  int n;
} units;

const char *crn_loop_unit_of(const crn_loop *loop, const crn_layer *l) {
  const char *name = l->desc == &crn_wrap_runner ? ((const crn_loop *)l->priv)->rec->name : l->name;
  const crn_scope *s = l->scope;
  while (s && s != loop->inside && s != loop->moved) {
    if (!s->owner) return NULL;
    name = s->owner->name;
    s = s->owner->scope;
  }
  if (!s) return NULL;
  if (!strncmp(name, "prev:", 5)) { /* "prev:sub/x" belongs to sub */
    name += 5;
  }
  return name;
}

crn_place crn_loop_place(const crn_loop *loop, const char *name) {
  void *v = crn_map_get(&loop->places, name);
  return v ? (crn_place)((uintptr_t)v - 1) : CRN_UNUSED;
}

static int find_unit(const units *us, const char *name) {
  if (!name) return -1;
  size_t len = strcspn(name, "/");
  for (int i = 0; i < us->n; i++)
    if (!strcmp(us->u[i].name, name)) return i;
  for (int i = 0; i < us->n; i++)
    if (strlen(us->u[i].name) == len && !strncmp(us->u[i].name, name, len)) return i;
  return -1;
}

static bool is_plain_wrapper(const crn_layer *l) {
  return l->desc == &crn_wrap_prev || l->desc == &crn_wrap_slice || l->desc == &crn_wrap_concat ||
         l->desc == &crn_wrap_sub_output || l->desc == &crn_wrap_runner;
}

/* Dependencies of unit i through layer l of it; wrappers are looked through. */
static void add_deps(units *us, const crn_loop *loop, int i, const crn_layer *l, int depth) {
  for (int k = 0; k < l->n_edges && depth < 64; k++) {
    const crn_edge *e = &l->edges[k];
    if (e->kind == CRN_EDGE_PARAM || e->to->body != &loop->body) continue;
    if (e->to->desc == &crn_wrap_prev) {
      const crn_prev *p = e->to->priv;
      const int j = find_unit(us, crn_loop_unit_of(loop, p->of));
      if (j >= 0) us->u[i].prev[j] = 1;
      if (j == i) us->u[i].self_prev = true;
      continue;
    }
    if (is_plain_wrapper(e->to) && e->to->scope == loop->inside) {
      add_deps(us, loop, i, e->to, depth + 1);
      continue;
    }
    const int j = find_unit(us, crn_loop_unit_of(loop, e->to));
    if (j >= 0 && j != i) us->u[i].now[j] = 1;
  }
}

/* Whether the layer reads, by the edge, the state of a layer of the loop in each step: that of a moved layer is only
 * there for its last frame. */
static bool reads_state(const crn_loop *loop, const crn_layer *l, const crn_edge *e) {
  if (e->to->body != &loop->body || e->to->desc == &crn_wrap_slice || !e->option) return false;
  if (!strcmp(l->desc->name, "get_last_hidden_state")) return !strcmp(e->option, "from");
  return !strcmp(e->option, "state") && crn_state_owner(e->to)->n_states > 0;
}

/* Such a layer, and the one whose state it is, stay in the loop. */
static void keep_readers_of_state(units *us, const crn_loop *loop, int u, const crn_layer *l) {
  for (int k = 0; k < l->n_edges; k++) {
    const crn_layer *to = l->edges[k].to;
    if (!reads_state(loop, l, &l->edges[k])) continue;
    us->u[u].stays = true;
    const crn_layer *of = to->desc == &crn_wrap_prev ? ((const crn_prev *)to->priv)->of : to;
    const int j = of->body == &loop->body ? find_unit(us, crn_loop_unit_of(loop, of)) : -1;
    if (j >= 0) us->u[j].stays = true;
  }
}

/* Whether values in the loop have its axis, like the whole source read as "base:data": outside, with the frames of all
 * steps on an axis of the same dim, none could tell the two. */
static bool meets_loop_axis(const crn_loop *loop, const crn_layer *l) {
  if (!strcmp(l->desc->name, "rec_unstack")) return false;
  if (l->out_known && crn_tmpl_find(&l->out, loop->time_dim) >= 0) return true;
  for (int i = 0; i < l->n_edges; i++) {
    const crn_layer *to = l->edges[i].to;
    if (l->edges[i].kind == CRN_EDGE_DATA && to->out_known && crn_tmpl_find(&to->out, loop->time_dim) >= 0) return true;
  }
  return false;
}

static bool is_source(const crn_layer *l, const crn_layer *to) {
  for (int i = 0; i < l->n_src; i++)
    if (l->src[i] == to) return true;
  return false;
}

/* Whether a layer of the loop can differ from step to step. */
static bool varies(const crn_loop *loop, const crn_layer *l, const bool *varying) {
  if (l->desc == &crn_wrap_prev || l->desc == &crn_wrap_step || crn_layer_carries_state(l) || l->out.beam.choice == l)
    return true;
  if (l->desc == &crn_wrap_slice) return l->out.n < l->src[0]->out.n;
  for (int k = 0; k < l->n_edges; k++) {
    const crn_layer *to = l->edges[k].to;
    if (l->inner && l->inner->kind == CRN_SCOPE_SUB && crn_v_is_dict(l->inner->dict) && is_source(l, to))
      continue; /* a sub network need not use them */
    if (l->edges[k].kind != CRN_EDGE_PARAM && to->body == &loop->body && varying[to->index]) return true;
  }
  return false;
}

/* Whether all that the layer reads is the same in each step though it has a state, or is masked, or has a loss: outside
 * there would be no frames to run over. */
static bool needs_steps(const crn_loop *loop, const crn_layer *l, const bool *varying) {
  const crn_layer *mask = !strcmp(l->desc->name, "masked_computation") ? crn_masked_mask(l) : NULL;
  if (mask && !(varying[mask->index] && varying[l->inner->data->index])) return true;
  const bool repeats = l->desc->flags & CRN_L_STATE_IS_OUTPUT && !loop->unknown_len; /* units do their input */
  if ((!crn_layer_carries_state(l) || repeats) && !l->loss) return false;
  for (int k = 0; k < l->n_edges; k++) {
    const crn_layer *to = l->edges[k].to;
    const bool value = l->edges[k].kind != CRN_EDGE_PARAM && l->edges[k].kind != CRN_EDGE_TARGET;
    if (value && to->body == &loop->body && varying[to->index]) return false;
  }
  return true;
}

static crn_status keep_what_needs_steps(crn_build *b, const crn_loop *loop, crn_layer **order, int n, units *us) {
  bool *varying = crn_calloc((size_t)b->net->n_layers + 1, sizeof(*varying));
  if (!varying) return crn_err_memory(b->err);
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < n; i++)
      if (!varying[order[i]->index] && varies(loop, order[i], varying)) varying[order[i]->index] = changed = true;
  }
  for (int i = 0; i < n; i++) {
    if (!needs_steps(loop, order[i], varying)) continue;
    const int u = find_unit(us, crn_loop_unit_of(loop, order[i]));
    if (u >= 0) us->u[u].stays = true;
  }
  crn_free(varying);
  return CRN_OK;
}

static crn_status make_units(crn_build *b, crn_loop *loop, crn_layer **order, int n, units *us) {
  us->u = crn_calloc((size_t)n + 1, sizeof(*us->u));
  if (!us->u) return crn_err_memory(b->err);
  for (int i = 0; i < n; i++) {
    const crn_layer *l = order[i];
    if (l->scope != loop->inside || is_plain_wrapper(l)) continue;
    us->u[us->n] = (unit){.name = l->name, .in_set = true, .tie = us->n};
    us->u[us->n].searching_choice = l->out.beam.choice == l;
    us->n++;
  }
  for (int i = 0; i < us->n; i++) {
    us->u[i].now = crn_calloc((size_t)us->n + 1, 1);
    us->u[i].prev = crn_calloc((size_t)us->n + 1, 1);
    if (!us->u[i].now || !us->u[i].prev) return crn_err_memory(b->err);
  }
  for (int i = 0; i < n; i++) {
    const crn_layer *l = order[i];
    if (is_plain_wrapper(l) && l->scope == loop->inside) continue;
    const int u = find_unit(us, crn_loop_unit_of(loop, l));
    if (u >= 0) add_deps(us, loop, u, l, 0);
    if (u >= 0 && l->out.beam.choice == l) us->u[u].searching_choice = true;
    if (u >= 0) keep_readers_of_state(us, loop, u, l);
    if (u >= 0 && meets_loop_axis(loop, l)) us->u[u].stays = true;
  }
  CRN_TRY(keep_what_needs_steps(b, loop, order, n, us));
  for (int i = 0; loop->unknown_len && i < us->n; i++) /* what is before the first step, and then the same */
    us->u[i].needs_length = memchr(us->u[i].prev, 1, (size_t)us->n) != NULL;
  for (int i = 0; i < us->n; i++) { /* collocated layers move together */
    const crn_value *with = crn_v_get(crn_v_get(loop->inside->dict, us->u[i].name), "collocate_with");
    for (size_t k = 0; k < (crn_v_is_str(with) ? 1 : crn_v_len(with)); k++) {
      const int j = find_unit(us, crn_v_cstr(crn_v_is_str(with) ? with : crn_v_at(with, k)));
      if (j < 0) continue;
      const int from = us->u[i].tie > us->u[j].tie ? us->u[i].tie : us->u[j].tie;
      const int to = us->u[i].tie > us->u[j].tie ? us->u[j].tie : us->u[i].tie;
      for (int m = 0; m < us->n; m++)
        if (us->u[m].tie == from) us->u[m].tie = to;
    }
  }
  return CRN_OK;
}

static bool fixed(const units *us, int i) {
  return us->u[i].self_prev || us->u[i].searching_choice || us->u[i].stays || !strcmp(us->u[i].name, "end");
}

static bool can_move_output(const units *us, int i, int tie) {
  if (fixed(us, i)) return false;
  for (int k = 0; k < us->n; k++)
    if (k != i && us->u[k].in_set && us->u[k].tie != tie && (us->u[k].now[i] || us->u[k].prev[i])) return false;
  return true;
}

static bool can_move_input(const units *us, int i, int tie) {
  if (fixed(us, i) || us->u[i].needs_length || !strcmp(us->u[i].name, ":i")) return false;
  for (int k = 0; k < us->n; k++)
    if (us->u[k].in_set && us->u[k].tie != tie && (us->u[i].now[k] || us->u[i].prev[k])) return false;
  return true;
}

/* Move one group of collocated units; false if none can. */
static bool move_group(crn_loop *loop, units *us, bool output, bool *memory) {
  for (int i = 0; i < us->n; i++) {
    if (!us->u[i].in_set || us->u[i].tie != i) {
      if (!us->u[i].in_set || us->u[us->u[i].tie].in_set) continue;
    }
    const int tie = us->u[i].tie;
    bool ok = true;
    for (int k = 0; k < us->n; k++)
      if (us->u[k].in_set && us->u[k].tie == tie)
        ok &= output ? can_move_output(us, k, tie) : can_move_input(us, k, tie);
    if (!ok) continue;
    for (int k = 0; k < us->n; k++) {
      if (!us->u[k].in_set || us->u[k].tie != tie) continue;
      us->u[k].in_set = false;
      const uintptr_t place = output ? CRN_MOVED_OUTPUT : CRN_MOVED_INPUT;
      if (crn_map_set(&loop->places, us->u[k].name, (void *)(place + 1)) != CRN_OK) *memory = false;
    }
    return true;
  }
  return false;
}

crn_status crn_loop_place_layers(crn_build *b, crn_loop *loop, crn_layer **order, int n, bool optimize) {
  units us = {0};
  bool memory = true;
  crn_status st = make_units(b, loop, order, n, &us);
  if (st == CRN_OK && optimize) {
    while (move_group(loop, &us, true, &memory)) continue;
    while (move_group(loop, &us, true, &memory) || move_group(loop, &us, false, &memory)) continue;
  }
  for (int i = 0; i < us.n && st == CRN_OK; i++) {
    if (us.u[i].in_set && crn_map_set(&loop->places, us.u[i].name, (void *)((uintptr_t)CRN_IN_LOOP + 1)) != CRN_OK)
      memory = false;
  }
  for (int i = 0; i < us.n; i++) {
    crn_free(us.u[i].now);
    crn_free(us.u[i].prev);
  }
  crn_free(us.u);
  return st == CRN_OK && !memory ? crn_err_memory(b->err) : st;
}
