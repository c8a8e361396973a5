/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer's output before the first step of a loop (recurrent.md, "Initial outputs").
 */
#include <string.h>

#include "net/loop.h"
#include "net/wrappers.h"

static crn_data *filled(crn_exec *x, const crn_layer *l, const crn_tmpl *t, double value) {
  crn_run *r = &x->run;
  int64_t shape[CRN_MAX_RANK];
  const int64_t B = l->body->loop ? crn_exec_loop(x, l->body->loop)->B : crn_batch_size(x, l);
  for (int i = 0; i < t->n; i++)
    shape[i] = t->dims[i]->kind == CRN_DIM_BATCH ? B : t->dims[i]->size < 0 ? 1 : t->dims[i]->size;
  crn_tensor *v = crn_t_full(r, t->dtype == CRN_F32 ? r->real : t->dtype, t->n, shape, value);
  return v ? crn_data_new(r, t, v) : NULL;
}

static crn_data *from_variable(crn_exec *x, crn_layer *l, const crn_tmpl *t) {
  crn_run *r = &x->run;
  const char *name = crn_arena_printf(&r->arena, "init_%s_var", l->name);
  crn_tensor *v = name ? crn_param_get(x, l, name) : NULL;
  crn_data *d = filled(x, l, t, 0);
  if (!v || !d) return NULL;
  int64_t shape[2] = {1, v->shape[0]};
  d->v = crn_broadcast_to(r, crn_t_reshape(r, v, 2, shape), d->v->rank, d->v->shape);
  return d->v ? d : NULL;
}

crn_data *crn_initial_output(crn_exec *x, crn_layer *l, crn_layer *init_layer, const crn_tmpl *t) {
  const crn_value *v = l->common.initial_output;
  double f;
  if (!init_layer) init_layer = l->initial;
  if (init_layer) {
    const crn_data *d = crn_exec_slot(x, init_layer)->out;
    if (d && d->v) return crn_data_copy(&x->run, d);
    (void)crn_exec_fail(x, l, "initial output: the value of layer '%s' is not there", init_layer->path);
    return NULL;
  }
  if (l->desc->flags & CRN_L_STATE_IS_OUTPUT && l->desc->state_init && l->n_states) {
    int i = 0;
    for (int k = 0; k < l->n_states; k++)
      if (!strcmp(l->states[k].name, "h")) i = k;
    crn_slot *s = crn_exec_slot(x, l);
    crn_data *d = crn_data_new(&x->run, &l->states[i].t, NULL), *stand_in = crn_data_new(&x->run, &l->out, NULL);
    if (!d || !stand_in) return NULL;
    if (!s->out) s->out = stand_in;
    d->beam = s->out->beam;
    if (l->desc->state_init(x, l, i, d) != CRN_OK || !d->v) return NULL;
    d->t = *t;
    return d;
  }
  if (crn_v_is_none(v)) return filled(x, l, t, 0);
  if (crn_v_to_float(v, &f)) return filled(x, l, t, f);
  const char *s = crn_v_cstr(v);
  if (s && !strcmp(s, "zeros")) return filled(x, l, t, 0);
  if (s && !strcmp(s, "ones")) return filled(x, l, t, 1);
  if (s && !strcmp(s, "var")) return from_variable(x, l, t);
  if (s && !strcmp(s, "apply(0)")) return crn_initial_apply_zero(x, l, t);
  (void)crn_exec_fail(x, l, "option 'initial_output': not understood");
  return NULL;
}

/* The layer applied to zeros in place of its sources. */
crn_data *crn_initial_apply_zero(crn_exec *x, crn_layer *l, const crn_tmpl *t) {
  crn_run *r = &x->run;
  crn_data **saved = CRN_ARENA_ARRAY(&r->arena, crn_data *, l->n_src + 1);
  crn_slot *own = crn_exec_slot(x, l);
  crn_data *out = crn_data_new(r, t, NULL);
  if (!saved || !out) return NULL;
  for (int i = 0; i < l->n_src; i++) {
    crn_slot *s = crn_exec_slot(x, l->src[i]);
    saved[i] = s->out;
    crn_tmpl step = l->src[i]->out;
    const int axis = crn_layer_moved_out(l) ? crn_tmpl_find(&step, l->scope->loop->time_dim) : -1;
    if (axis >= 0) crn_tmpl_remove(&step, axis);
    s->out = filled(x, l, &step, 0);
    if (!s->out) return NULL;
  }
  crn_data *before = own->out;
  own->out = out;
  crn_status st = l->desc->forward(x, l, out);
  own->out = before;
  for (int i = l->n_src; i-- > 0;) crn_exec_slot(x, l->src[i])->out = saved[i]; /* one may be there twice */
  return st == CRN_OK && out->v ? out : NULL;
}

/* The layer of the loop that "rec/x" stands for. */
static crn_layer *in_loop(crn_layer *of) {
  if (of->desc == &crn_wrap_loop_sub && of->n_src == 2) of = of->src[1];
  return of->desc == &crn_wrap_accum ? of->priv : of;
}

static crn_layer *initial_layer(crn_layer *of) {
  of = in_loop(of);
  if (of->initial || of->scope->kind != CRN_SCOPE_MOVED) return of->initial;
  const crn_layer *twin = crn_map_get(&of->scope->twin->layers, of->name); /* looked up for its twin inside */
  return twin ? twin->initial : NULL;
}

const crn_data *crn_initial_of(crn_exec *x, crn_layer *l, crn_layer *of, const crn_tmpl *t) {
  const crn_data *d = crn_initial_output(x, in_loop(of), initial_layer(of), t);
  return d ? crn_beam_move(x, d, crn_exec_slot(x, l)->out->beam) : NULL;
}

crn_status crn_needs_initial_of(crn_build *b, crn_layer *l, crn_layer *of) {
  crn_layer *init = initial_layer(of);
  bool needs = init && init->body == l->body;
  for (int i = 0; i < l->n_edges; i++) needs &= l->edges[i].to != init; /* told before */
  return needs ? crn_layer_add_edge(b, l, init, CRN_EDGE_DATA, "initial_output") : CRN_OK;
}
