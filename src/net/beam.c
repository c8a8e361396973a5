/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders of hypotheses. Every value behind a searching choice carries the beam that orders its batch axis; bringing it to
 * a later beam walks that beam's parents back to the value's own, composes the source indices, and gathers once.
 *
 * Two beams are comparable if one continues the other. A value without beam is repeated.
 */
#include <string.h>

#include "net/exec.h"
#include "tensor/history.h"

bool crn_beam_is_ancestor(const crn_beam *older, const crn_beam *newer) {
  if (!older) return true;
  for (const crn_beam *b = newer; b && b->serial >= older->serial; b = b->parent)
    if (b == older) return true;
  return false;
}

static void describe_trace(const crn_beam *b, crn_str *s) {
  for (int n = 0; b && n < 8; b = b->parent, n++)
    crn_str_addf(s, "%s'%s' (beam %lld, decision %lld)", n ? " <- " : "", b->choice->path, (long long)b->K,
                 (long long)b->serial);
  if (b) crn_str_add(s, " <- …");
}

crn_status crn_beam_latest(crn_exec *x, const crn_layer *l, const crn_beam *a, const crn_beam *b, const crn_beam **out) {
  if (crn_beam_is_ancestor(a, b)) return *out = b, CRN_OK;
  if (crn_beam_is_ancestor(b, a)) return *out = a, CRN_OK;
  crn_str ta = {0}, tb = {0}, deps = {0};
  describe_trace(a, &ta);
  describe_trace(b, &tb);
  for (int i = 0; i < l->n_edges; i++) {
    const crn_data *d = crn_exec_slot(x, l->edges[i].to)->out;
    crn_str_addf(&deps, " %s: %s;", l->edges[i].to->path, d && d->beam ? d->beam->choice->path : "no choice");
  }
  crn_status st = crn_exec_fail(x, l, "its inputs are ordered by choices that don't continue each other: %s; and %s; inputs:%s",
                                crn_str_get(&ta), crn_str_get(&tb), crn_str_get(&deps));
  crn_str_free(&ta);
  crn_str_free(&tb);
  crn_str_free(&deps);
  return st;
}

/* Index of the older beam's hypothesis that each hypothesis of the newer one came from: int32 [B, K]. */
static crn_tensor *composed_sources(crn_exec *x, const crn_beam *from, const crn_beam *to) {
  crn_run *r = &x->run;
  const int64_t B = to->src->shape[0], K = to->K, shape[2] = {B, K};
  crn_tensor *idx = crn_t_new(r, CRN_I32, 2, shape);
  if (!idx) return NULL;
  int32_t *p = crn_t_i32(idx);
  for (int64_t i = 0; i < B; i++)
    for (int64_t k = 0; k < K; k++) p[i * K + k] = (int32_t)k;
  for (const crn_beam *b = to; b != from; b = b->parent) {
    const int32_t *src = crn_t_i32(b->src);
    for (int64_t i = 0; i < B; i++)
      for (int64_t k = 0; k < K; k++) p[i * K + k] = src[i * b->K + p[i * K + k]];
  }
  return idx;
}

/* Rows of the batch axis: out[b*K+k] = in[b*Kin + idx[b,k]]. */
static crn_tensor *flat_rows(crn_exec *x, const crn_tensor *idx, int64_t K_in) {
  const int64_t B = idx->shape[0], K = idx->shape[1], n = B * K;
  crn_tensor *rows = crn_t_new(&x->run, CRN_I32, 1, &n);
  if (!rows) return NULL;
  for (int64_t i = 0; i < B; i++)
    for (int64_t k = 0; k < K; k++)
      crn_t_i32(rows)[i * K + k] = (int32_t)(i * K_in + crn_t_i32(idx)[i * K + k]);
  return rows;
}

static crn_tensor *move_axis(crn_exec *x, crn_tensor *v, int axis, crn_tensor *rows) {
  return v ? crn_gather(&x->run, v, rows, axis) : NULL;
}

static crn_data *move_rows(crn_exec *x, const crn_data *d, crn_tensor *rows, const crn_beam *to) {
  crn_data *c = crn_data_copy(&x->run, d);
  if (!c) return NULL;
  const int axis = crn_tmpl_batch_axis(&d->t);
  c->beam = to;
  if (axis < 0) return c;
  c->v = move_axis(x, d->v, axis, rows);
  c->history = crn_history_move(&x->run, d->history, rows);
  if (!c->v && !c->history) return NULL;
  c->pre = NULL; /* moved on demand: few ask for it */
  if (d->pre && d->pre->rank == d->v->rank) c->pre = move_axis(x, d->pre, axis, rows);
  if (!c->pre) c->pre_act = NULL;
  c->output_loss = NULL;
  for (int i = 0; i < d->t.n; i++)
    if (d->len[i] && crn_tmpl_batch_axis(&d->len[i]->t) >= 0) {
      c->len[i] = move_rows(x, d->len[i], rows, to);
      if (!c->len[i]) return NULL;
    }
  return c;
}

const crn_data *crn_beam_move(crn_exec *x, const crn_data *d, const crn_beam *to) {
  crn_run *r = &x->run;
  if (!d || crn_run_failed(r)) return NULL;
  if (d->beam == to) return d;
  if (!to) return d; /* only layers that end a beam see this: they handle it themselves */
  const int axis = crn_tmpl_batch_axis(&d->t);
  if (axis < 0) return d;
  if (!crn_beam_is_ancestor(d->beam, to)) {
    (void)crn_fail(r->err, CRN_E_RUNTIME, "hypotheses of choice '%s' can't be brought to the order of choice '%s'",
                   d->beam->choice->path, to->choice->path);
    return NULL;
  }
  const int64_t B = to->src->shape[0], K_in = d->beam ? d->beam->K : 1;
  if ((d->history ? d->history->shape[0] : d->v->shape[axis]) != B * K_in) return d; /* another batch (packed, masked): not ordered by beams */
  crn_tensor *idx;
  if (d->beam) {
    idx = composed_sources(x, d->beam, to);
  } else {
    const int64_t shape[2] = {B, to->K};
    idx = crn_t_zeros(r, CRN_I32, 2, shape);
  }
  crn_tensor *rows = idx ? flat_rows(x, idx, K_in) : NULL;
  return rows ? move_rows(x, d, rows, to) : NULL;
}
