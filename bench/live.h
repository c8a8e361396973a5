/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bytes of values must live at once, by the network's graph: a layer's output lives from its computation until
 * its last reader ran, fed data from the start; a loop's layers likewise within a step, their states always. Memory
 * that layers use inside, and copies, don't count: this is what a program without waste would need at least.
 */
#ifndef BENCH_LIVE_H
#define BENCH_LIVE_H

#include <stdlib.h>

#include "net/exec.h"

typedef struct live_value {
  const crn_storage *st;
  int from, to; /* positions in the body's order */
} live_value;

typedef struct live_values {
  live_value *v;
  int n;
} live_values;

static inline void live_add(live_values *all, const crn_data *d, int from, int to) {
  if (!d || !d->v || d->v->st->is_param) return;
  for (int i = 0; i < all->n; i++) {
    live_value *v = &all->v[i];
    if (v->st != d->v->st) continue;
    if (from < v->from) v->from = from; /* a view of what is there */
    if (to > v->to) v->to = to;
    return;
  }
  all->v[all->n++] = (live_value){d->v->st, from, to};
}

static inline size_t live_at(const live_values *all, int position) {
  size_t bytes = 0;
  for (int i = 0; i < all->n; i++)
    if (all->v[i].from <= position && position <= all->v[i].to) bytes += all->v[i].st->bytes;
  return bytes;
}

/* Values of a body's layers; states of layers of a loop are there in every step. */
static inline live_values live_of_body(const crn_exec *x, const crn_body *b) {
  live_values all = {0};
  size_t most = (size_t)x->net->n_externs + 1;
  for (int i = 0; i < b->n; i++) most += 1 + (size_t)b->order[i]->n_states;
  all.v = calloc(most, sizeof(*all.v));
  if (!all.v) exit(1);
  for (int i = 0; i < b->n; i++) {
    const crn_slot *s = crn_exec_slot(x, b->order[i]);
    int last = i;
    for (int k = i; k < b->n; k++)
      for (int e = 0; e < b->order[k]->n_edges; e++)
        if (b->order[k]->edges[e].to == b->order[i] && b->order[k]->live) last = k;
    if (b->order[i]->live) live_add(&all, s->out, i, last);
    for (int k = 0; b->loop && k < b->order[i]->n_states && s->states; k++) live_add(&all, s->states[k], 0, b->n);
  }
  for (int i = 0; i < x->net->n_externs && !b->loop; i++) live_add(&all, x->feed[i], 0, 0);
  return all;
}

static inline size_t live_most(const crn_exec *x, const crn_body *b) {
  live_values all = live_of_body(x, b);
  size_t most = 0;
  for (int i = 0; i < b->n; i++) {
    size_t bytes = live_at(&all, i);
    for (int k = 0; !b->loop && k < x->net->n_layers; k++) { /* a loop that runs at this position */
      const crn_layer *l = x->net->layers[k];
      const crn_loop *loop = l->body ? l->body->loop : NULL;
      if (!loop || loop->runner != b->order[i] || loop->body.n == 0 || loop->body.order[0] != l) continue;
      bytes += live_most(x, &loop->body);
    }
    if (bytes > most) most = bytes;
  }
  free(all.v);
  return most;
}

#endif
