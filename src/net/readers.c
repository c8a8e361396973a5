/* SPDX-License-Identifier: Apache-2.0
 *
 * Who reads the values of layers, and giving values back when their last reader has them.
 */
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

/* Outside of loops every reader has an edge, so what no edge leads to, or only edges of such as take values alone, has
 * a pre-activation that nobody asks for. In loops outputs are passed on in other ways too. */
static void find_pre_readers(crn_exec *x) {
  const crn_net *net = x->net;
  for (int i = 0; i < net->n_layers; i++) x->pre_is_read[i] = net->layers[i]->body != &net->body;
  for (int i = 0; i < net->n_layers; i++) {
    const crn_layer *l = net->layers[i];
    if (!l->live || (l->desc->flags & CRN_L_VALUES_ONLY && !l->loss)) continue;
    for (int k = 0; k < l->n_edges; k++) x->pre_is_read[l->edges[k].to->index] = true;
  }
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
