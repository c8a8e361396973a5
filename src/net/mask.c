/* SPDX-License-Identifier: Apache-2.0
 *
 * Masked steps: where the mask of the masked_computation around a layer is false, its state stays that of the step before.
 */
#include "net/exec.h"
#include "net/masked.h"

crn_data *crn_masked_choose(crn_exec *x, crn_layer *l, const crn_data *mask, const crn_data *yes, const crn_data *no) {
  crn_run *r = &x->run;
  const crn_beam *to = crn_exec_slot(x, l)->out->beam;
  mask = crn_beam_move(x, mask, to);
  yes = crn_beam_move(x, yes, to);
  no = crn_beam_move(x, no, to);
  if (!mask || !yes || !no) return NULL;
  crn_data *d = crn_data_copy(r, yes);
  if (!d) return NULL;
  const int axis = crn_tmpl_batch_axis(&yes->t);
  if (axis < 0) return d;
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < yes->t.n; i++) shape[i] = i == axis ? mask->v->shape[0] : 1;
  crn_tensor *m = crn_t_reshape(r, mask->v, yes->t.n, shape);
  d->v = crn_where(r, m, yes->v, no->v);
  d->pre = NULL;
  d->pre_act = NULL;
  return d->v ? d : NULL;
}

crn_status crn_mask_blend(crn_exec *x, crn_layer *l, const crn_data *before, crn_data *d) {
  crn_layer *owner = l->scope->mask_owner;
  crn_layer *mask = crn_masked_mask(owner);
  if (!mask || !before) return CRN_OK;
  const crn_data *m = crn_exec_slot(x, mask)->out;
  if (!m) return crn_exec_fail(x, l, "the mask '%s' is not there", mask->path);
  for (int i = 0; i < d->t.n; i++)
    if (d->v->shape[i] != before->v->shape[i] && d->t.dims[i]->kind != CRN_DIM_BATCH) return CRN_OK; /* grows: see the class */
  crn_data *c = crn_masked_choose(x, l, m, d, before);
  if (!c) return x->run.err->code;
  *d = *c;
  return CRN_OK;
}

bool crn_layer_masked_by_step(const crn_layer *l) {
  return l->scope->mask_owner && l->body->loop && crn_masked_mask(l->scope->mask_owner);
}

const crn_data *crn_step_mask(crn_exec *x, crn_layer *l) {
  if (!crn_layer_masked_by_step(l)) return NULL;
  crn_layer *mask = crn_masked_mask(l->scope->mask_owner);
  const crn_data *m = crn_exec_slot(x, mask)->out;
  if (!m) return (void)crn_exec_fail(x, l, "the mask '%s' is not there", mask->path), NULL;
  return crn_beam_move(x, m, crn_exec_slot(x, l)->out->beam);
}
