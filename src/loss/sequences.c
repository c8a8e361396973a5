/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole sequences for losses.
 */
#include "loss/sequences.h"

#include <string.h>

static crn_status fail_shape(crn_build *b, crn_layer *l, const crn_loss *loss, const char *what, const crn_tmpl *t,
                             const char *want) {
  crn_str s = {0};
  crn_tmpl_describe(t, &s);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "loss '%s' needs %s as %s, got %s", loss->desc->name, want, what,
                                 crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

crn_status crn_sequences_check(crn_build *b, crn_layer *l, const crn_loss *loss, bool dense) {
  const crn_tmpl *o = &l->out, *t = &loss->target->out;
  if (crn_tmpl_batch_axis(t) < 0 || t->time_axis < 0 || t->n != 2 || !t->sparse)
    return fail_shape(b, l, loss, "target", t, "sequences of labels");
  const bool ok = dense ? o->n == 3 && !o->sparse && o->feature_axis >= 0 : o->n == 2 && o->sparse;
  if (ok && crn_tmpl_batch_axis(o) >= 0 && o->time_axis >= 0) return CRN_OK;
  return fail_shape(b, l, loss, "output", o, dense ? "sequences of scores" : "sequences of labels");
}

crn_status crn_sequences_labels(crn_exec *x, crn_layer *l, const crn_data *d, crn_tensor **labels, crn_tensor **lens) {
  crn_run *r = crn_exec_run(x);
  const crn_data *m = crn_data_batch_major(r, d);
  if (!m) return r->err->code;
  if (m->v->rank != 2) return crn_exec_fail(x, l, "label sequences must have the axes batch and time");
  *labels = m->v->dtype == CRN_I32 ? m->v : crn_cast(r, m->v, CRN_I32);
  *lens = crn_data_lens(r, m, 1);
  return *labels && *lens ? CRN_OK : r->err->code;
}

crn_tensor *crn_sequences_scores(crn_exec *x, const crn_data *output, bool log_space, crn_tensor **lens) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_data_feature_last(r, output);
  if (!d) return NULL;
  int perm[3] = {d->t.time_axis, crn_tmpl_batch_axis(&d->t), 2};
  *lens = crn_data_lens(r, d, d->t.time_axis);
  crn_tensor *z = d->v;
  if (!log_space) z = d->pre && d->pre_act && !strcmp(d->pre_act, "softmax") ? d->pre : crn_safe_log(r, d->v, 1e-20);
  return perm[0] == 0 ? z : crn_transpose(r, z, perm);
}
