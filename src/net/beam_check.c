/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers whose inputs are ordered by choices of which neither can continue the other, found in construction. What can
 * only be told of the decisions of a run, when it runs (beam.c).
 */
#include <string.h>

#include "net/loop.h"
#include "net/wrappers.h"

typedef struct choices {
  crn_layer **layer; /* searching choices */
  int n;
  bool **reads; /* [n][n_layers]: what the choice depends on, in any step */
} choices;

typedef struct reach {
  bool *seen;
  crn_layer **stack;
  int n;
} reach;

static void visit(reach *r, crn_layer *l) {
  if (r->seen[l->index]) return;
  r->seen[l->index] = true;
  r->stack[r->n++] = l;
}

/* Everything that `from` depends on, through loops too. */
static void find_reads(reach *r, crn_layer *from) {
  r->stack[r->n++] = from;
  while (r->n > 0) {
    crn_layer *l = r->stack[--r->n];
    for (int k = 0; k < l->n_edges; k++) visit(r, l->edges[k].to);
    if (l->desc != &crn_wrap_runner) continue;
    const crn_loop *loop = l->priv;
    for (int i = 0; i < loop->body.n; i++) visit(r, loop->body.order[i]);
  }
}

static crn_status find_choices(crn_build *b, choices *c) {
  const crn_net *net = b->net;
  for (int i = 0; i < net->n_layers; i++) {
    crn_layer *l = net->layers[i];
    if (!l->live || l->out.beam.choice != l) continue;
    if (!c->layer) c->layer = CRN_ARENA_ARRAY(&b->net->arena, crn_layer *, net->n_layers);
    if (!c->layer) return crn_err_memory(b->err);
    c->layer[c->n++] = l;
  }
  if (c->n < 2) return CRN_OK;
  c->reads = CRN_ARENA_ARRAY(&b->net->arena, bool *, c->n);
  crn_layer **stack = CRN_ARENA_ARRAY(&b->net->arena, crn_layer *, net->n_layers + 1);
  if (!c->reads || !stack) return crn_err_memory(b->err);
  for (int i = 0; i < c->n; i++) {
    if (!(c->reads[i] = CRN_ARENA_ARRAY(&b->net->arena, bool, net->n_layers))) return crn_err_memory(b->err);
    find_reads(&(reach){.seen = c->reads[i], .stack = stack}, c->layer[i]);
  }
  return CRN_OK;
}

static const bool *reads_of(const choices *c, const crn_layer *choice) {
  for (int i = 0; i < c->n; i++)
    if (c->layer[i] == choice) return c->reads[i];
  return NULL;
}

static crn_status check_pair(crn_build *b, const choices *c, const crn_layer *l, const crn_layer *x,
                             const crn_layer *y) {
  const crn_layer *p = x->out.beam.choice, *q = y->out.beam.choice;
  const bool *of_p = reads_of(c, p), *of_q = reads_of(c, q);
  if (p == q || !of_p || !of_q || of_p[q->index] || of_q[p->index]) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG,
                        "its inputs are ordered by choices that don't continue each other: '%s' by '%s', '%s' by '%s'",
                        x->path, p->path, y->path, q->path);
}

static bool orders_hypotheses(const crn_edge *e) {
  return e->kind != CRN_EDGE_PARAM && e->kind != CRN_EDGE_CONTROL && e->kind != CRN_EDGE_TIE && e->to->out_known &&
         e->to->out.beam.choice;
}

crn_status crn_build_check_beams(crn_build *b) {
  choices c = {0};
  CRN_TRY(find_choices(b, &c));
  for (int i = 0; c.n > 1 && i < b->net->n_layers; i++) {
    const crn_layer *l = b->net->layers[i];
    for (int k = 0; l->live && k < l->n_edges; k++)
      for (int m = 0; m < k && orders_hypotheses(&l->edges[k]); m++)
        if (orders_hypotheses(&l->edges[m])) CRN_TRY(check_pair(b, &c, l, l->edges[m].to, l->edges[k].to));
  }
  return CRN_OK;
}
