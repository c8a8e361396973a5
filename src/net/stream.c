/* SPDX-License-Identifier: Apache-2.0
 *
 * States from piece to piece of a sequence.
 */
#include "net/stream.h"

#include <string.h>

#include "layer/rec.h"
#include "net/loop.h"
#include "net/wrappers.h"

typedef struct kept_value { /* a copy outside of the run's memory */
  void *data;
  size_t cap;
  crn_dtype dtype;
  int rank;
  int64_t shape[CRN_MAX_RANK];
  bool set;
} kept_value;

struct crn_stream {
  kept_value **states;  /* by layer index, each n_states */
  kept_value **carried; /* by body index, each n_carried */
  int *n_states, *n_carried;
  int n_layers, n_bodies;
};

/* ---- which networks -------------------------------------------------------------------------------------------------
 */

/* Classes that give frame t from frames up to t, of which all memory is in their states. */
static bool runs_in_pieces(const crn_layer *l) {
  static const char *const classes[] = {
      "linear",     "hidden", "softmax",    "copy",     "dropout",    "identity",        "activation", "combine",
      "compare",    "switch", "layer_norm", "gating",   "cast",       "reduce_out",      "rec",        "rnn_cell",
      "subnetwork", "choice", "constant",   "variable", "batch_norm", "reinterpret_data"};
  if (l->desc->flags & CRN_L_INTERNAL || l->causal) return true;
  for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
    if (!strcmp(l->desc->name, classes[i])) return true;
  return false;
}

static bool runs_backwards(const crn_layer *l) {
  int64_t direction;
  if (strcmp(l->desc->name, "rec") != 0) return false;
  return crn_v_to_int(((const crn_rec_cfg *)l->cfg)->direction, &direction) && direction < 0;
}

/* nativelstm, nativelstmlowmem: the hidden state is lost between pieces. */
static bool keeps_cell_only(const crn_layer *l) {
  return !strcmp(l->desc->name, "rec") && l->n_states == 1 && !strcmp(l->states[0].name, "c");
}

static crn_status check_body(const crn_body *b, crn_err *err) {
  for (int i = 0; i < b->n; i++) {
    const crn_layer *l = b->order[i];
    if (!l->live) continue;
    if (runs_backwards(l) || (l->desc->flags & CRN_L_NEEDS_FUTURE && !l->causal && !l->body->loop))
      return crn_fail(err, CRN_E_CONFIG, "streaming: layer '%s' (%s) needs frames to come", l->path, l->desc->name);
    if (keeps_cell_only(l))
      return crn_fail(
          err, CRN_E_NOT_IMPLEMENTED,
          "streaming: not implemented: layer '%s' (%s): its unit's state is the cell alone; use nativelstm2", l->path,
          l->desc->name);
    if (!l->body->loop && !runs_in_pieces(l))
      return crn_fail(err, CRN_E_CONFIG, "streaming: not implemented: layer '%s' (%s) in pieces", l->path,
                      l->desc->name);
  }
  return CRN_OK;
}

crn_status crn_stream_start(crn_exec *x, crn_err *err) {
  CRN_TRY(check_body(&x->net->body, err));
  crn_stream *s = crn_calloc(1, sizeof(*s));
  if (!s) return crn_err_memory(err);
  x->stream = s;
  s->n_layers = x->net->n_layers;
  s->n_bodies = x->net->n_bodies;
  s->states = crn_calloc((size_t)s->n_layers + 1, sizeof(*s->states));
  s->carried = crn_calloc((size_t)s->n_bodies + 1, sizeof(*s->carried));
  s->n_states = crn_calloc((size_t)s->n_layers + 1, sizeof(*s->n_states));
  s->n_carried = crn_calloc((size_t)s->n_bodies + 1, sizeof(*s->n_carried));
  if (!s->states || !s->carried || !s->n_states || !s->n_carried) return crn_err_memory(err);
  for (int i = 0; i < s->n_layers; i++) {
    s->n_states[i] = x->net->layers[i]->n_states;
    if (s->n_states[i] && !(s->states[i] = crn_calloc((size_t)s->n_states[i], sizeof(kept_value))))
      return crn_err_memory(err);
  }
  for (int i = 0; i < s->n_bodies; i++) {
    s->n_carried[i] = x->net->bodies[i]->loop->n_carried;
    if (s->n_carried[i] && !(s->carried[i] = crn_calloc((size_t)s->n_carried[i], sizeof(kept_value))))
      return crn_err_memory(err);
  }
  return CRN_OK;
}

static void each_value(crn_stream *s, void (*fn)(kept_value *)) {
  for (int i = 0; i < s->n_layers; i++)
    for (int k = 0; s->states && s->states[i] && k < s->n_states[i]; k++) fn(&s->states[i][k]);
  for (int i = 0; i < s->n_bodies; i++)
    for (int k = 0; s->carried && s->carried[i] && k < s->n_carried[i]; k++) fn(&s->carried[i][k]);
}

static void forget_value(kept_value *v) { v->set = false; }
static void free_value(kept_value *v) { crn_free(v->data); }

void crn_stream_forget(crn_exec *x) {
  if (x->stream) each_value(x->stream, forget_value);
}

void crn_stream_free(crn_stream *s) {
  if (!s) return;
  each_value(s, free_value);
  for (int i = 0; s->states && i < s->n_layers; i++) crn_free(s->states[i]);
  for (int i = 0; s->carried && i < s->n_bodies; i++) crn_free(s->carried[i]);
  crn_free(s->states);
  crn_free(s->carried);
  crn_free(s->n_states);
  crn_free(s->n_carried);
  crn_free(s);
}

/* ---- values ---------------------------------------------------------------------------------------------------------
 */

static crn_status keep(crn_exec *x, kept_value *v, const crn_data *d) {
  d = crn_state_whole(x, d);
  if (!d || !d->v) return x->run.err->code;
  const size_t bytes = (size_t)crn_t_size(d->v) * crn_dtype_bytes(d->v->dtype);
  if (bytes > v->cap) {
    void *p = crn_realloc(v->data, bytes);
    if (!p) return crn_err_memory(x->run.err);
    v->data = p;
    v->cap = bytes;
  }
  if (bytes) memcpy(v->data, crn_t_data(d->v), bytes);
  v->dtype = d->v->dtype;
  v->rank = d->v->rank;
  memcpy(v->shape, d->v->shape, sizeof(v->shape));
  v->set = true;
  return CRN_OK;
}

static crn_data *give(crn_exec *x, const kept_value *v, const crn_tmpl *t) {
  crn_tensor *c = crn_t_copy_in(&x->run, v->dtype, v->rank, v->shape, v->data);
  return c ? crn_data_new(&x->run, t, c) : NULL;
}

static crn_status restore_layer(crn_exec *x, const crn_layer *l) {
  crn_slot *s = crn_exec_slot(x, l);
  kept_value *v = x->stream->states[l->index];
  if (!l->n_states || !v[0].set) return CRN_OK;
  if (!s->states) {
    s->states = CRN_ARENA_ARRAY(&x->run.arena, crn_data *, l->n_states);
    s->before = CRN_ARENA_ARRAY(&x->run.arena, crn_data *, l->n_states);
    if (!s->states || !s->before) return crn_err_memory(x->run.err);
  }
  for (int k = 0; k < l->n_states; k++)
    if (v[k].set && !(s->states[k] = give(x, &v[k], &l->states[k].t))) return x->run.err->code;
  s->has_state = true;
  return CRN_OK;
}

static crn_status save_layer(crn_exec *x, const crn_layer *l) {
  const crn_slot *s = crn_exec_slot(x, l);
  for (int k = 0; s->states && k < l->n_states; k++) CRN_TRY(keep(x, &x->stream->states[l->index][k], s->states[k]));
  return CRN_OK;
}

crn_status crn_stream_restore(crn_exec *x) {
  for (int i = 0; x->stream && i < x->net->body.n; i++) CRN_TRY(restore_layer(x, x->net->body.order[i]));
  return CRN_OK;
}

crn_status crn_stream_save(crn_exec *x) {
  for (int i = 0; x->stream && i < x->net->body.n; i++)
    if (x->net->body.order[i]->live) CRN_TRY(save_layer(x, x->net->body.order[i]));
  return CRN_OK;
}

crn_status crn_stream_restore_loop(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  if (!x->stream) return CRN_OK;
  for (int i = 0; i < loop->body.n; i++) CRN_TRY(restore_layer(x, loop->body.order[i]));
  for (int i = 0; i < loop->n_carried; i++) {
    const kept_value *v = &x->stream->carried[loop->body.index][i];
    if (v->set && !(lr->carried[i] = give(x, v, &loop->carried[i]->out))) return x->run.err->code;
  }
  return CRN_OK;
}

crn_status crn_stream_save_loop(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  if (!x->stream || lr->n_steps == 0) return CRN_OK;
  for (int i = 0; i < loop->body.n; i++) CRN_TRY(save_layer(x, loop->body.order[i]));
  for (int i = 0; i < loop->n_carried; i++) CRN_TRY(keep(x, &x->stream->carried[loop->body.index][i], lr->carried[i]));
  return CRN_OK;
}
