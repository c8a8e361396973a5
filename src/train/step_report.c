/* SPDX-License-Identifier: Apache-2.0
 *
 * What was fed to a step that failed: shapes, ranges, tags; labels outside of their range (SPEC 8).
 */
#include <math.h>

#include "train/engine.h"

typedef struct range { /* of the finite values */
  double min, max, mean, std;
  int64_t n_bad;
} range;

static range range_of(const crn_tensor *t) {
  range r = {INFINITY, -INFINITY, 0, 0, 0};
  double sum = 0, squares = 0;
  const int64_t n = crn_t_size(t);
  for (int64_t i = 0; i < n; i++) {
    const double v = crn_t_get(t, i);
    if (!isfinite(v)) {
      r.n_bad++;
      continue;
    }
    if (v < r.min) r.min = v;
    if (v > r.max) r.max = v;
    sum += v;
    squares += v * v;
  }
  const int64_t good = n - r.n_bad;
  r.mean = good ? sum / (double)good : 0;
  r.std = good ? sqrt(fmax(0, squares / (double)good - r.mean * r.mean)) : 0;
  return r;
}

static void describe(const char *name, const crn_tensor *t, crn_err *err) {
  char buf[160];
  if (crn_t_size(t) == 0) {
    crn_err_append(err, "\n  %s: %s, EMPTY", name, crn_t_describe(t, buf, sizeof(buf)));
    return;
  }
  if (t->dtype == CRN_STRING || t->dtype == CRN_C64) return;
  const range r = range_of(t);
  crn_err_append(err, "\n  %s: %s, min %g, max %g, mean %g, stddev %g", name, crn_t_describe(t, buf, sizeof(buf)), r.min, r.max, r.mean, r.std);
  if (r.n_bad) crn_err_append(err, ", %lld inf or nan", (long long)r.n_bad);
  if (t->rank != 1) return;
  crn_err_append(err, ": [");
  for (int64_t i = 0; i < crn_t_size(t) && i < 200; i++) crn_err_append(err, i ? ", %g" : "%g", crn_t_get(t, i));
  crn_err_append(err, "]");
}

static void layer_inputs(const crn_exec *x, crn_err *err) {
  const crn_layer *l = x->current;
  if (!l) return;
  for (int i = 0; i < l->n_src; i++) {
    const crn_data *d = x->slots[l->src[i]->index].out;
    if (!d || !d->v || !d->v->st->data) continue;
    if (i == 0) crn_err_append(err, "\ninputs of layer '%s':", l->path);
    describe(l->src[i]->path, d->v, err);
  }
}

void crn_step_report(const crn_exec *x, const crn_batch *b, int64_t epoch, int64_t step, crn_err *err) {
  crn_err_append(err, "\nin epoch %lld, step %lld, sequences:", (long long)epoch, (long long)step);
  for (int64_t i = 0; i < b->n_seqs && i < 50; i++) crn_err_append(err, " '%s'", b->tags && b->tags[i] ? b->tags[i] : "?");
  layer_inputs(x, err);
  crn_err_append(err, "\nfed:");
  for (int i = 0; i < x->net->n_externs; i++) {
    const crn_data *d = x->feed[i];
    const crn_extern *e = &x->net->externs[i];
    if (!d || !d->v || !d->v->st->data) continue;
    describe(e->key, d->v, err);
    for (int a = 0; a < d->t.n; a++)
      if (d->len[a]) describe("its lengths", d->len[a]->v, err);
    const int64_t dim = crn_tmpl_dim(&d->t);
    if (!d->t.sparse || dim < 0 || crn_t_size(d->v) == 0) continue;
    const range r = range_of(d->v);
    if (r.min < 0 || r.max >= (double)dim)
      crn_err_append(err, "\n  WARNING: %s: labels must be in [0, %lld), found %g to %g", e->key, (long long)dim, r.min, r.max);
  }
}
