/* SPDX-License-Identifier: Apache-2.0
 *
 * Templates inside a loop, where prev:x closes cycles: layers are inferred in order with what is known, again and again
 * until nothing changes. A layer of which nothing is known yet is settled by its own options where they do.
 */
#include <string.h>

#include "net/loop.h"
#include "net/wrappers.h"

typedef struct dfs {
  crn_layer **stack;
  int *next;
  int n, cap;
  crn_layer **order;
  int n_order, cap_order;
} dfs;

static crn_status grow(crn_build *b, dfs *d) {
  if (d->n == d->cap) {
    int cap = d->cap ? 2 * d->cap : 64;
    crn_layer **s = crn_realloc(d->stack, (size_t)cap * sizeof(*s));
    if (s) d->stack = s;
    int *k = crn_realloc(d->next, (size_t)cap * sizeof(*k));
    if (k) d->next = k;
    if (!s || !k) return crn_err_memory(b->err);
    d->cap = cap;
  }
  if (d->n_order == d->cap_order) {
    int cap = d->cap_order ? 2 * d->cap_order : 64;
    crn_layer **o = crn_realloc(d->order, (size_t)cap * sizeof(*o));
    if (!o) return crn_err_memory(b->err);
    d->order = o;
    d->cap_order = cap;
  }
  return CRN_OK;
}

static crn_status cycle(crn_build *b, const dfs *d, const crn_layer *l) {
  crn_str s = {0};
  for (int i = d->n; i-- > 0;) {
    crn_str_addf(&s, "%s'%s'", i == d->n - 1 ? "" : ", ", d->stack[i]->path);
    if (d->stack[i] == l) break;
  }
  crn_status st =
      crn_layer_fail(b, l, CRN_E_CONFIG, "dependency loop; construction stack, most recent first: %s", crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

/* Post-order from root over all edges but PARAM; prev: targets are visited as roots of their own later. */
static crn_status walk(crn_build *b, dfs *d, crn_loop *loop, crn_layer *root) {
  if (root->visit) return CRN_OK;
  CRN_TRY(grow(b, d));
  d->stack[d->n] = root;
  d->next[d->n++] = 0;
  root->visit = 1;
  while (d->n > 0) {
    crn_layer *l = d->stack[d->n - 1];
    crn_layer *dep = NULL;
    if (b->n_pending) CRN_TRY(crn_build_refs(b));
    if (d->next[d->n - 1] == 0 && crn_layer_loop(l)) CRN_TRY(crn_build_recover(b, l, crn_loop_link(b, l)));
    while (d->next[d->n - 1] < l->n_edges && !dep) {
      const crn_edge *e = &l->edges[d->next[d->n - 1]++];
      if (e->kind == CRN_EDGE_PARAM || e->kind == CRN_EDGE_PREV) continue;
      if (e->to->body != &loop->body) {
        if (e->to->visit != 2 && e->to->body == loop->body.outer && !e->to->body->loop)
          CRN_TRY(crn_build_recover(b, e->to, crn_build_infer(b, e->to)));
        continue;
      }
      if (e->to->visit == 1) CRN_TRY(crn_build_recover(b, e->to, cycle(b, d, e->to)));
      if (!e->to->visit) dep = e->to;
    }
    CRN_TRY(grow(b, d));
    if (dep) {
      d->stack[d->n] = dep;
      d->next[d->n++] = 0;
      dep->visit = 1;
      continue;
    }
    l->visit = 2;
    d->order[d->n_order++] = l;
    d->n--;
  }
  return CRN_OK;
}

/* sizes: fixed dims of one size count as the same, which may go round in a cycle for ever. */
static bool same_template(const crn_tmpl *a, const crn_tmpl *b, bool sizes) {
  if (a->n != b->n || a->dtype != b->dtype || a->sparse != b->sparse || a->sparse_dim != b->sparse_dim) return false;
  for (int i = 0; i < a->n; i++) {
    const crn_dim *p = a->dims[i], *q = b->dims[i];
    if (p != q && !(sizes && p->kind == q->kind && p->size >= 0 && p->size == q->size)) return false;
  }
  return a->time_axis == b->time_axis && a->feature_axis == b->feature_axis && a->beam.choice == b->beam.choice &&
         a->n == b->n;
}

/* What the options alone say of the output: [B, n_out]. */
static bool settle_by_options(crn_build *b, crn_layer *l) {
  const crn_value *dim = crn_v_get(l->common.out_type, "dim");
  int64_t size = l->common.n_out;
  if (size == CRN_UNSET && !crn_v_to_int(dim, &size) && !l->common.out_dim) return false;
  if (crn_v_truth(crn_v_get(l->common.out_type, "sparse"))) return false;
  const crn_dim *f = l->common.out_dim ? crn_dim_as_kind(&b->net->dims, l->common.out_dim, CRN_DIM_FEATURE)
                                       : crn_layer_dim(b, l, "feature-dense", CRN_DIM_FEATURE, size);
  if (!f) return false;
  l->out = crn_tmpl_scalar(CRN_F32);
  l->out.dims[l->out.n++] = b->net->dims.batch;
  l->out.dims[l->out.n++] = f;
  crn_tmpl_update_roles(&l->out);
  return true;
}

/* The features of l come from a target layer of the same loop that isn't settled yet. */
static crn_status waits_for_target(crn_build *b, crn_layer *l, bool *waits) {
  const char *name = crn_target_name(b, l, 0);
  crn_layer *t;
  *waits = false;
  if (!name || strncmp(name, "layer:", 6) || l->common.n_out != CRN_UNSET || l->common.out_dim) return CRN_OK;
  CRN_TRY(crn_target_layer(b, l, name, &t));
  *waits = t->body == l->body && !t->out_known;
  return CRN_OK;
}

/* Sources of which a part is known may lack the batch axis: what the options alone say has it. */
static crn_status infer_from_part(crn_build *b, crn_layer *l) {
  CRN_TRY(crn_layer_infer_once(b, l));
  if (!l->guessed || !l->out_known || crn_tmpl_batch_axis(&l->out) >= 0) return CRN_OK;
  const crn_tmpl part = l->out;
  if (!settle_by_options(b, l)) l->out = part;
  return CRN_OK;
}

static crn_status infer_in_cycle(crn_build *b, crn_layer *l, bool first) {
  int known = 0, unknown = 0, other_unknown = 0;
  bool guessed = false;
  for (int i = 0; i < l->n_edges; i++) {
    const crn_edge *e = &l->edges[i];
    if (e->kind != CRN_EDGE_DATA) continue;
    bool source = false;
    for (int k = 0; k < l->n_src; k++) source |= l->src[k] == e->to;
    guessed |= first && e->to->guessed && e->to->body == l->body;
    if (e->to->out_known)
      known++;
    else if (source)
      unknown++;
    else
      other_unknown++;
  }
  bool waits;
  CRN_TRY(waits_for_target(b, l, &waits));
  other_unknown += waits;
  l->guessed = guessed || unknown;
  if (l->desc == &crn_wrap_prev || (!unknown && !other_unknown)) return infer_from_part(b, l);
  if (known && !other_unknown && !(l->desc->flags & CRN_L_INTERNAL)) return infer_from_part(b, l);
  if (l->out_known && !unknown) return CRN_OK; /* inferred from its sources alone */
  l->out_known = settle_by_options(b, l);
  return CRN_OK;
}

/* When nothing else helps: the first layer whose sources are all known is inferred though a layer that another option
 * names is not, or one that knows its output from its target. False if there is none, or its class needs that one too.
 */
static bool infer_from_sources(crn_build *b, crn_layer **order, int n) {
  for (int i = 0; i < n; i++) {
    crn_layer *l = order[i];
    bool ready = !l->out_known && l->n_src > 0 && !(l->desc->flags & CRN_L_INTERNAL);
    for (int k = 0; ready && k < l->n_src; k++) ready = l->src[k]->out_known || (l->desc->flags & CRN_L_TARGET_SETTLES);
    if (!ready) continue;
    if (crn_layer_infer_once(b, l) == CRN_OK) return l->out_known;
    crn_err_clear(b->err);
    return l->out_known = false;
  }
  return false;
}

static crn_status undefined(crn_build *b, crn_layer **order, int n) {
  crn_str s = {0};
  crn_layer *first = NULL;
  for (int i = 0; i < n; i++)
    if (!order[i]->out_known) {
      if (!first && !(order[i]->desc->flags & CRN_L_INTERNAL)) first = order[i];
      crn_str_addf(&s, " '%s'", order[i]->path);
    }
  crn_status st = crn_layer_fail(
      b, first ? first : order[0], CRN_E_CONFIG,
      "cannot handle undefined sources without defined out_type; not settled in the cycle:%s", crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

/* Whether all that the layer reads in its loop comes before it: a class may read more once it is inferred, and a loop
 * inside does once it is built. seen: by index, what was inferred before. */
static bool reads_ordered(const crn_layer *l, const bool *seen, int n_seen) {
  for (int k = 0; k < l->n_edges; k++) {
    const crn_layer *to = l->edges[k].to;
    if (l->edges[k].kind == CRN_EDGE_PARAM || to->body != l->body) continue;
    if (to->visit != 2 || to->index >= n_seen) return false;
    if (l->edges[k].kind != CRN_EDGE_PREV && !seen[to->index]) return false;
  }
  return true;
}

/* A layer that fails on what is known of its sources so far may do on all of it: *failed is the first such one. */
static crn_status infer_or_wait(crn_build *b, crn_layer *l, bool first, crn_layer **failed) {
  const crn_status st = infer_in_cycle(b, l, first);
  if (st == CRN_OK || st == CRN_E_MEMORY) return st;
  if (!*failed) *failed = l;
  crn_err_clear(b->err);
  *b->err = (crn_err){0};
  l->out_known = settle_by_options(b, l);
  return CRN_OK;
}

typedef struct round_result {
  bool changed, all, any_lost, whole;
  crn_layer *failed;
} round_result;

/* All layers once, as far as they are in order. */
static crn_status settle_round(crn_build *b, crn_layer **order, int n, int round, bool *seen, int n_seen,
                               round_result *q) {
  *q = (round_result){.all = true, .whole = true};
  memset(seen, 0, (size_t)n_seen);
  for (int i = 0; i < n; i++) {
    crn_layer *l = order[i];
    const crn_tmpl before = l->out;
    const bool was = l->out_known;
    if (l->index < n_seen) seen[l->index] = true;
    if (crn_build_lost(b, l)) {
      l->out_known = false;
      q->any_lost = true;
      continue;
    }
    CRN_TRY(infer_or_wait(b, l, round == 0, &q->failed));
    if (b->n_pending) CRN_TRY(crn_build_refs(b));
    if (!(q->whole = reads_ordered(l, seen, n_seen))) return CRN_OK;
    q->changed |= was != l->out_known || (l->out_known && !same_template(&before, &l->out, round >= n));
    q->all &= l->out_known;
  }
  return CRN_OK;
}

static crn_status settle_rounds(crn_build *b, crn_layer **order, int n, bool *seen, int n_seen, bool *whole) {
  for (int round = 0; round < n + 8; round++) {
    round_result q;
    CRN_TRY(settle_round(b, order, n, round, seen, n_seen, &q));
    if (!(*whole = q.whole)) return CRN_OK;
    if (!q.changed && q.failed) {
      CRN_TRY(crn_build_recover(b, q.failed, infer_in_cycle(b, q.failed, false)));
      if (q.failed->failed) continue;
    }
    if (!q.changed && q.any_lost) return crn_build_was_told(b);
    if (!q.changed && q.all) return CRN_OK;
    if (!q.changed && !infer_from_sources(b, order, n)) return undefined(b, order, n);
  }
  return crn_layer_fail(b, order[0], CRN_E_CONFIG, "templates in the loop don't settle");
}

/* *whole is false where there are more layers now, or one reads a later one: they must be put in order first. */
static crn_status settle(crn_build *b, crn_layer **order, int n, bool *whole) {
  const int n_seen = b->net->n_layers;
  bool *seen = crn_calloc((size_t)n_seen + 1, sizeof(*seen));
  if (!seen) return crn_err_memory(b->err);
  const crn_status st = settle_rounds(b, order, n, seen, n_seen, whole);
  crn_free(seen);
  return st;
}

static void forget_order(crn_build *b, dfs *d, const crn_loop *loop) {
  d->n = d->n_order = 0;
  for (int i = 0; i < b->net->n_layers; i++)
    if (b->net->layers[i]->body == &loop->body) b->net->layers[i]->visit = 0;
}

/* All that the roots need in the loop and that isn't in order yet, what is read before first. */
static crn_status put_in_order(crn_build *b, dfs *d, crn_loop *loop, crn_layer **roots, int n_roots) {
  for (int i = 0; i < n_roots; i++) CRN_TRY(walk(b, d, loop, roots[i]));
  for (int i = 0; i < d->n_order; i++) /* grows while it is walked */
    for (int k = 0; k < d->order[i]->n_edges; k++)
      if (d->order[i]->edges[k].kind == CRN_EDGE_PREV && d->order[i]->edges[k].to->body == &loop->body)
        CRN_TRY(walk(b, d, loop, d->order[i]->edges[k].to));
  return CRN_OK;
}

crn_status crn_loop_infer_inside(crn_build *b, crn_loop *loop, crn_layer **roots, int n_roots, crn_layer ***order,
                                 int *n) {
  dfs d = {0};
  crn_status st = CRN_OK;
  for (bool whole = false; st == CRN_OK && !whole;) {
    whole = true;
    st = put_in_order(b, &d, loop, roots, n_roots);
    if (st == CRN_OK && d.n_order) st = settle(b, d.order, d.n_order, &whole);
    if (!whole) forget_order(b, &d, loop);
  }
  crn_free(d.stack);
  crn_free(d.next);
  *order = d.order;
  *n = d.n_order;
  return st;
}

crn_status crn_loop_settle_again(crn_build *b, const crn_loop *loop) {
  bool whole;
  return loop->body.n ? settle(b, loop->body.order, loop->body.n, &whole) : CRN_OK;
}
