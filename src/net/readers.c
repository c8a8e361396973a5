/* SPDX-License-Identifier: Apache-2.0
 *
 * Who reads the values of layers, and giving values back when their last reader has them.
 */
#include <string.h>

#include "net/exec.h"

/* Position of the last layer of the root body that reads each value. Readers inside of loops count as the loop's
 * runner, which has edges to all that they read. Values that losses or others look at directly are read by their own
 * layer. */
static void find_last_readers(crn_exec *x) {
  const crn_body *b = &x->net->body;
  for (int i = 0; i < x->net->n_layers; i++) x->last_reader[i] = -1;
  for (int i = 0; i < b->n; i++)
    for (int k = 0; k < b->order[i]->n_edges; k++) {
      const int to = b->order[i]->edges[k].to->index;
      if (x->last_reader[to] < i) x->last_reader[to] = i;
    }
  for (int i = 0; i < b->n; i++) { /* states are read through their owner: these stay */
    if (b->order[i]->n_states) x->keep[b->order[i]->index] = true;
  }
}

static void note_pre_readers(crn_exec *x, const crn_body *b) {
  for (int i = 0; i < b->n; i++) {
    const crn_layer *l = b->order[i];
    if (!l->live || (l->desc->flags & CRN_L_VALUES_ONLY && !l->loss)) continue;
    for (int k = 0; k < l->n_edges; k++) x->pre_is_read[l->edges[k].to->index] = true;
  }
}

/* Outside of loops every reader has an edge, so what no edge leads to, or only edges of such as take values alone, has
 * a pre-activation that nobody asks for. In loops outputs are passed on in other ways too. */
static void find_pre_readers(crn_exec *x) {
  const crn_net *net = x->net;
  for (int i = 0; i < net->n_layers; i++) x->pre_is_read[i] = net->layers[i]->body != &net->body;
  note_pre_readers(x, &net->body);
  for (int i = 0; i < net->n_bodies; i++) note_pre_readers(x, net->bodies[i]);
}

void crn_exec_find_readers(crn_exec *x) {
  find_last_readers(x);
  find_pre_readers(x);
}

bool crn_pre_is_read(const crn_exec *x, const crn_layer *l) {
  return x->run.recording || x->keep_all || crn_layer_has_losses(l) || x->pre_is_read[l->index];
}

void crn_exec_drop(crn_exec *x, crn_layer *l) {
  crn_slot *s = crn_exec_slot(x, l);
  if (!s->out || !s->held) return;
  s->held = false;
  crn_data_release(x, s->held_out);
  for (crn_permuted *p = s->permuted; p; p = p->next) crn_data_release(x, p->data);
  s->permuted = NULL;
  for (int i = 0; i < l->n_subs; i++) crn_data_release(x, s->subs[i]);
}

/* l runs outside of loops and is the last to read ref. */
static bool is_last_reader(const crn_exec *x, const crn_layer *l, const crn_layer *ref) {
  const crn_body *root = &x->net->body;
  const int last = x->last_reader[ref->index];
  return l->body == root && ref->body == root && last >= 0 && root->order[last] == l;
}

static int edges_to(const crn_layer *l, const crn_layer *ref) {
  int n = 0;
  for (int k = 0; k < l->n_edges; k++) n += l->edges[k].to == ref;
  return n;
}

/* The value alone; the rest of the data goes when the layer is dropped. */
static void give_value_back(crn_exec *x, crn_slot *s) {
  crn_data *rest = crn_data_copy(&x->run, s->held_out);
  if (!rest) return;
  crn_t_release(&x->run, rest->v);
  rest->v = NULL;
  s->held_out = rest;
}

void crn_exec_sources_done(crn_exec *x, crn_layer *l) {
  if (!crn_exec_drops(x) || l->loss) return; /* a loss may ask for what the layer has read */
  for (int i = 0; i < l->n_src; i++) {
    crn_slot *s = crn_exec_slot(x, l->src[i]);
    if (s->out && s->out->beam != crn_exec_slot(x, l)->out->beam) continue; /* brought into another order each time */
    if (s->held && s->held_out->v && is_last_reader(x, l, l->src[i]) && edges_to(l, l->src[i]) == 1)
      give_value_back(x, s);
  }
}

/* ---- values that a loop reads in each step ----------------------------------------------------------------------- */

/* ref's value is read by l alone from here on: nobody else in loops, and nobody after l's loop. */
static bool is_read_by_one(const crn_exec *x, const crn_layer *l, const crn_layer *ref) {
  if (!l->body->loop || !is_last_reader(x, l->body->loop->runner, ref)) return false;
  int n = 0;
  for (int i = 0; i < x->net->n_bodies; i++) {
    const crn_body *b = x->net->bodies[i];
    for (int k = 0; k < b->n && b->loop; k++) n += edges_to(b->order[k], ref);
  }
  return n == edges_to(l, ref) && n > 0;
}

/* s's value with axes in the order perm. alone: only this is read from here on. */
static crn_data *reordered(crn_exec *x, crn_slot *s, const int *perm, bool alone) {
  crn_run *r = &x->run;
  crn_data *plain = crn_data_copy(r, s->out);
  if (!plain) return NULL;
  plain->pre = NULL;
  plain->pre_act = NULL;
  crn_tensor *taken = alone ? crn_transpose_taking(r, s->out->v, perm) : NULL;
  if (crn_run_failed(r)) return NULL;
  if (taken) plain->v = NULL;
  crn_data *d = crn_data_permute(r, plain, perm);
  if (d && taken) d->v = taken;
  if (!d || !d->v) return NULL;
  if (alone && !taken && d->v->st != s->out->v->st && s->held_out->v) give_value_back(x, s);
  return d;
}

const crn_data *crn_constant_value(crn_exec *x, crn_layer *l, crn_layer *ref, const int *perm) {
  crn_slot *s = crn_exec_slot(x, ref);
  if (ref->body == l->body || !s->out || !s->out->v || s->out->beam || crn_run_failed(&x->run)) return NULL;
  const int n = s->out->t.n;
  for (crn_permuted *p = s->permuted; p; p = p->next) {
    bool same = true;
    for (int i = 0; i < n; i++) same &= p->perm[i] == perm[i];
    if (same) return p->data;
  }
  if (crn_exec_bring_back(x, ref) != CRN_OK) return NULL;
  const bool alone = crn_exec_drops(x) && s->held && !s->permuted && is_read_by_one(x, l, ref);
  crn_permuted *p = CRN_ARENA_NEW(&x->run.arena, crn_permuted);
  if (!p || !(p->data = reordered(x, s, perm, alone))) return NULL;
  memcpy(p->perm, perm, sizeof(int) * (size_t)n);
  if (crn_exec_drops(x)) crn_data_hold(p->data);
  p->next = s->permuted;
  s->permuted = p;
  return p->data;
}

crn_status crn_exec_bring_back(crn_exec *x, crn_layer *l) {
  crn_slot *s = crn_exec_slot(x, l);
  crn_permuted *p = s->permuted;
  if (!p || crn_t_data(s->out->v)) return x->run.err->code;
  int back[CRN_MAX_RANK];
  for (int i = 0; i < s->out->t.n; i++) back[p->perm[i]] = i;
  crn_tensor *v = crn_transpose(&x->run, p->data->v, back);
  if (!v) return x->run.err->code;
  s->out->v = s->held_out->v = v;
  crn_t_hold(v);
  return CRN_OK;
}
