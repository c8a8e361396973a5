/* SPDX-License-Identifier: Apache-2.0
 *
 * What a failed run had to do with (SPEC 8): the inputs of the operation and of the layer that failed, noted while they
 * are there, and everything that was fed.
 */
#include "net/exec.h"
#include "tensor/report.h"

/* Values of layers that ran before it in the same step; others may be gone. */
static const crn_tensor *input_value(const crn_exec *x, const crn_edge *e) {
  if (e->kind != CRN_EDGE_DATA && e->kind != CRN_EDGE_TARGET && e->kind != CRN_EDGE_SEARCH) return NULL;
  const crn_data *d = x->slots[e->to->index].out;
  return d && d->v && d->v->st && d->v->st->data ? d->v : NULL;
}

void crn_exec_note_failure(crn_exec *x, const crn_layer *l) {
  bool any = false;
  if (x->noted) return; /* of a layer around it */
  x->noted = true;
  for (int i = 0; i < l->n_edges; i++) {
    const crn_tensor *v = input_value(x, &l->edges[i]);
    bool again = !v;
    for (int k = 0; k < i; k++) again |= l->edges[k].to == l->edges[i].to;
    if (again) continue;
    if (!any) crn_str_addf(&x->failure, "\ninputs of layer '%s':", l->path);
    any = true;
    crn_t_report(l->edges[i].to->path, v, &x->failure);
  }
}

static void report_key(const crn_extern *e, const crn_data *d, crn_str *out) {
  crn_t_report(e->key, d->v, out);
  for (int a = 0; a < d->t.n; a++)
    if (d->len[a]) crn_t_report("its lengths", d->len[a]->v, out);
  const int64_t dim = crn_tmpl_dim(&d->t);
  if (!d->t.sparse || dim < 0 || crn_t_size(d->v) == 0 || d->v->dtype == CRN_STRING) return;
  const crn_t_range r = crn_t_range_of(d->v);
  if (r.min < 0 || r.max >= (double)dim)
    crn_str_addf(out, "\n  WARNING: %s: labels must be in [0, %lld), found %g to %g", e->key, (long long)dim, r.min,
                 r.max);
}

void crn_exec_report(crn_exec *x, crn_err *err) {
  crn_str *s = &x->failure;
  bool any = false;
  if (err->code == CRN_E_MEMORY) return;
  for (int i = 0; i < x->net->n_externs; i++) {
    const crn_data *d = x->feed[i];
    if (!d || !d->v || !d->v->st || !d->v->st->data) continue;
    if (!any) crn_str_add(s, "\nfed:");
    any = true;
    report_key(&x->net->externs[i], d, s);
  }
  if (crn_str_ok(s)) crn_err_append(err, "%s", crn_str_get(s));
  crn_str_clear(s);
}
