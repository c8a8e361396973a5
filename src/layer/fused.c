/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward of fused attention energies. Sources with the attended axis are the context; the others are the query. A
 * context from outside of the loop is not repeated over hypotheses: the operation takes several query rows per
 * sequence.
 */
#include "layer/fused.h"

/* Axes of a context: batch, attended, feature; -1 where t has not exactly these. */
static bool context_order(const crn_tmpl *t, int perm[3]) {
  const int batch = crn_tmpl_batch_axis(t);
  if (t->n != 3 || batch < 0 || t->feature_axis < 0) return false;
  perm[0] = batch;
  perm[2] = t->feature_axis;
  perm[1] = 3 - perm[0] - perm[2];
  return perm[1] != perm[0] && perm[1] != perm[2];
}

static crn_tensor *batch_major(crn_run *r, const crn_data *d, const int *perm) {
  const crn_data *p = d ? crn_data_permute(r, d, perm) : NULL;
  return p ? p->v : NULL;
}

typedef struct contexts {
  crn_tensor *shared; /* [B, T, K] of those from outside of the loop: the same for all hypotheses of a sequence */
  crn_tensor *own;    /* of the others, a row per hypothesis */
  bool time_major;    /* own is [T, B, K] */
} contexts;

/* *sum += v */
static void add_to(crn_run *r, crn_tensor **sum, crn_tensor *v) { *sum = *sum ? crn_add(r, *sum, v) : v; }

static crn_status sum_contexts(crn_exec *x, crn_layer *l, crn_layer *sum, contexts *c) {
  crn_run *r = crn_exec_run(x);
  int perm[3], n_own = 0;
  for (int i = 0; i < sum->n_src; i++) {
    if (sum->src[i]->out.n != 3) continue;
    (void)context_order(&sum->src[i]->out, perm);
    const crn_data *d = crn_constant_value(x, l, sum->src[i], perm);
    if (!d && crn_run_failed(r)) return r->err->code;
    if (d)
      add_to(r, &c->shared, d->v);
    else
      n_own++;
  }
  for (int i = 0; i < sum->n_src; i++) {
    if (sum->src[i]->out.n != 3) continue;
    (void)context_order(&sum->src[i]->out, perm);
    if (crn_constant_value(x, l, sum->src[i], perm)) continue;
    const crn_data *d = crn_value_of(x, l, sum->src[i]);
    if (!d) return r->err->code;
    /* read as it lies, if it is alone and its features are last */
    c->time_major = n_own == 1 && c->shared && perm[0] == 1 && perm[1] == 0;
    add_to(r, &c->own, c->time_major ? d->v : batch_major(r, d, perm));
  }
  if (c->shared) return r->err->code;
  c->shared = c->own;
  c->own = NULL;
  return r->err->code;
}

/* Sum of the queries as [N, K]. */
static crn_tensor *sum_queries(crn_exec *x, crn_layer *l, crn_layer *sum) {
  crn_run *r = crn_exec_run(x);
  crn_tensor *q = NULL;
  for (int i = 0; i < sum->n_src; i++) {
    if (sum->src[i]->out.n == 3) continue;
    const crn_data *d = crn_data_batch_major(r, crn_value_of(x, l, sum->src[i]));
    if (!d) return NULL;
    q = q ? crn_add(r, q, d->v) : d->v;
  }
  return q;
}

bool crn_energy_is_possible(const crn_layer *sum) {
  int n_contexts = 0, perm[3];
  const crn_dim *attended = NULL;
  for (int i = 0; i < sum->n_src; i++) {
    const crn_tmpl *t = &sum->src[i]->out;
    if (t->dtype != CRN_F32 || t->sparse || t->feature_axis < 0 || t->dims[t->feature_axis]->size < 2) return false;
    if (t->n == 3) {
      if (!context_order(t, perm) || (attended && !crn_dim_same(attended, t->dims[perm[1]]))) return false;
      attended = t->dims[perm[1]];
      n_contexts++;
    } else if (t->n != 2 || crn_tmpl_batch_axis(t) < 0) {
      return false;
    }
    if (t->dims[t->feature_axis]->size != sum->out.dims[sum->out.feature_axis]->size) return false;
  }
  return n_contexts > 0 && n_contexts < sum->n_src && sum->out.n == 3;
}

crn_status crn_energy_forward(crn_exec *x, crn_layer *l, crn_layer *sum, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  contexts c = {0};
  CRN_TRY(sum_contexts(x, l, sum, &c));
  crn_tensor *q = sum_queries(x, l, sum), *w = crn_param_get(x, l, "W");
  if (!q || !w) return r->err->code;
  const int64_t K = c.shared->shape[2], T = c.shared->shape[1];
  crn_tensor *e =
      crn_additive_energy_with(r, c.shared, c.own, c.time_major, q, crn_t_reshape(r, w, 1, &K)); /* [N, T] */
  if (!e) return r->err->code;
  int perm[CRN_MAX_RANK], n = 0;
  int64_t shape[CRN_MAX_RANK];
  const int batch = crn_tmpl_batch_axis(&out->t);
  for (int i = 0; i < out->t.n; i++) {
    if (i != out->t.feature_axis) perm[n++] = i == batch ? 0 : 1;
    shape[i] = i == out->t.feature_axis ? 1 : i == batch ? e->shape[0] : T;
  }
  out->v = crn_t_reshape(r, crn_transpose(r, e, perm), out->t.n, shape);
  for (int i = 0; i < sum->n_src; i++) { /* lengths of the attended axis */
    const crn_layer *s = sum->src[i];
    if (s->out.n != 3) continue;
    int order[3];
    (void)context_order(&s->out, order);
    const crn_data *d = crn_constant_value(x, l, sum->src[i], order);
    const crn_data *len = d ? d->len[1] : NULL;
    if (!d) {
      d = crn_value_of(x, l, sum->src[i]);
      len = d ? d->len[order[1]] : NULL;
    } else if (len && out->beam) {
      len = crn_to_beam_of(x, l, len);
    }
    for (int k = 0; k < out->t.n; k++)
      if (k != out->t.feature_axis && k != batch) out->len[k] = len;
    break;
  }
  return out->v ? CRN_OK : r->err->code;
}
