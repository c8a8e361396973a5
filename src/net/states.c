/* SPDX-License-Identifier: Apache-2.0
 *
 * States of layers: before and after a step, of other layers, and those that grow with every step (tensor/history.h).
 */
#include "net/loop.h"
#include "net/wrappers.h"
#include "tensor/history.h"
#include "tensor/weights.h"

/* State i of owner before its first step: what its class says, else zeros. */
static crn_data *first_state(crn_exec *x, crn_layer *owner, int i) {
  crn_run *r = &x->run;
  crn_data *d = crn_data_new(r, &owner->states[i].t, NULL);
  if (!d) return NULL;
  d->beam = crn_exec_slot(x, owner)->out->beam;
  if (owner->desc->state_init) return owner->desc->state_init(x, owner, i, d) == CRN_OK && d->v ? d : NULL;
  int64_t shape[CRN_MAX_RANK];
  for (int k = 0; k < d->t.n; k++) {
    const crn_dim *dim = d->t.dims[k];
    shape[k] = dim->kind == CRN_DIM_BATCH ? crn_batch_size(x, owner) : dim->size < 0 ? 0 : dim->size;
  }
  d->v = crn_t_zeros(r, d->t.dtype == CRN_F32 ? r->real : d->t.dtype, d->t.n, shape);
  return d->v ? d : NULL;
}

bool crn_layer_carries_state(const crn_layer *l) {
  if (l->n_states == 0 || l->out.time_axis < 0) return l->n_states > 0;
  return crn_tmpl_find(&l->states[0].t, l->out.dims[l->out.time_axis]) >= 0;
}

/* State i before this step in the layer's order of hypotheses, as it is: one that grows stays a history. */
static const crn_data *state_before(crn_exec *x, crn_layer *l, int i) {
  crn_slot *s = crn_exec_slot(x, l);
  if (crn_run_failed(&x->run)) return NULL;
  if (l->body->loop && !crn_layer_carries_state(l)) return first_state(x, l, i);
  if (!s->before[i] && !(s->before[i] = first_state(x, l, i))) return NULL;
  return crn_beam_move(x, s->before[i], s->out->beam);
}

const crn_data *crn_state_whole(crn_exec *x, const crn_data *d) {
  if (!d || !d->history) return d;
  crn_data *c = crn_data_copy(&x->run, d);
  if (!c) return NULL;
  c->history = NULL;
  c->v = crn_history_whole(&x->run, d->history);
  return c->v ? c : NULL;
}

const crn_data *crn_state_in(crn_exec *x, crn_layer *l, int i) { return crn_state_whole(x, state_before(x, l, i)); }

crn_layer *crn_state_owner(crn_layer *of) {
  for (int i = 0; i < 64; i++) {
    if (of->desc == &crn_wrap_prev || of->desc == &crn_wrap_shift)
      of = ((crn_prev *)of->priv)->of;
    else if (of->desc == &crn_wrap_accum)
      of = of->priv;
    else if (of->n_states == 0 && (of->desc == &crn_wrap_loop_sub ||
                                   (of->inner && of->priv && of->n_src <= 1 && of->inner->kind == CRN_SCOPE_SUB)))
      of = of->desc == &crn_wrap_loop_sub ? of->src[of->n_src - 1] : of->priv;
    else
      break;
  }
  return of;
}

/* State i of owner as it stands: after its last step, or before this one ("prev:x"). NULL: not there yet. */
static crn_data *standing_state(crn_exec *x, const crn_layer *of, const crn_layer *owner, int i) {
  const crn_slot *s = crn_exec_slot(x, owner);
  if (!s->states) return NULL;
  const bool ran = owner->body->loop && s->ran == crn_exec_loop(x, owner->body->loop)->step + 1;
  if (of->desc == &crn_wrap_prev && ran) return s->before[i];
  return s->has_state || ran || !owner->body->loop ? s->states[i] : NULL;
}

const crn_data *crn_state_of(crn_exec *x, crn_layer *l, crn_layer *of, int i) {
  crn_layer *owner = crn_state_owner(of);
  crn_slot *s = crn_exec_slot(x, owner);
  if (crn_run_failed(&x->run)) return NULL;
  if (i < 0 || i >= owner->n_states) {
    (void)crn_exec_fail(x, l, "layer '%s' has no such state", owner->path);
    return NULL;
  }
  crn_data *d = standing_state(x, of, owner, i);
  if (!d && of->desc == &crn_wrap_prev) {
    if (!s->out && !(s->out = crn_data_new(&x->run, &owner->out, NULL))) return NULL;
    d = first_state(x, owner, i);
  }
  if (!d || (!d->v && !d->history)) {
    if (!crn_run_failed(&x->run))
      (void)crn_exec_fail(x, l, "state '%s' of layer '%s' is not there", owner->states[i].name, owner->path);
    return NULL;
  }
  return crn_state_whole(x, crn_beam_move(x, d, crn_exec_slot(x, l)->out->beam));
}

static void set_state(crn_exec *x, crn_slot *s, int i, crn_data *d) {
  s->states[i] = d;
  if (!crn_exec_drops(x)) return;
  crn_data_hold(d);
  s->made[i] = d;
}

crn_status crn_state_out(crn_exec *x, crn_layer *l, int i, const crn_data *value) {
  if (!value || !value->v) return crn_run_failed(&x->run) ? x->run.err->code : CRN_E_INTERNAL;
  crn_data *d = crn_data_copy(&x->run, value);
  if (!d) return x->run.err->code;
  CRN_TRY(crn_weight_pin(&x->run, d->v));
  crn_slot *s = crn_exec_slot(x, l);
  if (l->scope->mask_owner && l->body->loop) CRN_TRY(crn_mask_blend(x, l, s->before[i], d));
  set_state(x, s, i, d);
  return CRN_OK;
}

const crn_history *crn_state_append(crn_exec *x, crn_layer *l, int i, int axis, crn_tensor *now) {
  crn_run *r = &x->run;
  const crn_data *before = state_before(x, l, i);
  if (!before || !now) return NULL;
  crn_data *d = crn_data_new(r, &l->states[i].t, NULL);
  if (!d) return NULL;
  const crn_history *h = before->history ? before->history : crn_history_new(r, before->v, axis);
  if (!(d->history = h = crn_history_append(r, h, now))) return NULL;
  d->beam = crn_exec_slot(x, l)->out->beam;
  const crn_tmpl scalar = crn_tmpl_scalar(CRN_I32);
  if (!(d->len[axis] = crn_data_new(r, &scalar, crn_t_scalar(r, CRN_I32, (double)h->shape[axis])))) return NULL;
  set_state(x, crn_exec_slot(x, l), i, d);
  return h;
}
