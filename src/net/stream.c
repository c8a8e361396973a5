/* SPDX-License-Identifier: Apache-2.0
 *
 * States from piece to piece of a sequence.
 */
#include "net/stream.h"

#include <string.h>

#include "net/loop.h"

typedef struct kept_value { /* a copy outside of the run's memory */
  void *data;
  size_t cap;
  crn_dtype dtype;
  int rank;
  int64_t shape[CRN_MAX_RANK];
  bool set, beam; /* beam: rows are hypotheses */
} kept_value;

typedef struct key_state { /* of a data key */
  bool *ended;             /* [B]: sequences of which a piece was shorter than the others' */
  int64_t B;
} key_state;

struct crn_stream {
  kept_value **states;  /* by layer index, each n_states */
  kept_value **carried; /* by body index, each n_carried */
  int *n_states, *n_carried;
  kept_value *aside;   /* by layer index: what a layer put aside */
  int64_t *frames;     /* by layer index: those that passed, -1: no piece came yet */
  int64_t *hypotheses; /* by body index: of each sequence, 0: no decision was made */
  key_state *keys;     /* by extern index */
  int n_layers, n_bodies, n_keys;
};

static void reset_counts(crn_stream *s) {
  for (int i = 0; s->frames && i < s->n_layers; i++) s->frames[i] = -1;
  for (int i = 0; s->hypotheses && i < s->n_bodies; i++) s->hypotheses[i] = 0;
  for (int i = 0; s->keys && i < s->n_keys; i++) {
    crn_free(s->keys[i].ended);
    s->keys[i].ended = NULL;
  }
}

crn_status crn_stream_start(crn_exec *x, crn_err *err) {
  CRN_TRY(crn_stream_check(x->net, err));
  crn_stream *s = crn_calloc(1, sizeof(*s));
  if (!s) return crn_err_memory(err);
  x->stream = s;
  s->n_layers = x->net->n_layers;
  s->n_bodies = x->net->n_bodies;
  s->states = crn_calloc((size_t)s->n_layers + 1, sizeof(*s->states));
  s->carried = crn_calloc((size_t)s->n_bodies + 1, sizeof(*s->carried));
  s->n_states = crn_calloc((size_t)s->n_layers + 1, sizeof(*s->n_states));
  s->n_carried = crn_calloc((size_t)s->n_bodies + 1, sizeof(*s->n_carried));
  s->n_keys = x->net->n_externs;
  s->aside = crn_calloc((size_t)s->n_layers + 1, sizeof(*s->aside));
  s->frames = crn_calloc((size_t)s->n_layers + 1, sizeof(*s->frames));
  s->hypotheses = crn_calloc((size_t)s->n_bodies + 1, sizeof(*s->hypotheses));
  s->keys = crn_calloc((size_t)s->n_keys + 1, sizeof(*s->keys));
  if (!s->states || !s->carried || !s->n_states || !s->n_carried || !s->aside || !s->frames || !s->hypotheses ||
      !s->keys)
    return crn_err_memory(err);
  reset_counts(s);
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
  for (int i = 0; s->aside && i < s->n_layers; i++) fn(&s->aside[i]);
}

static void forget_value(kept_value *v) { v->set = false; }
static void free_value(kept_value *v) { crn_free(v->data); }

void crn_stream_forget(crn_exec *x) {
  if (!x->stream) return;
  each_value(x->stream, forget_value);
  reset_counts(x->stream);
}

void crn_stream_free(crn_stream *s) {
  if (!s) return;
  each_value(s, free_value);
  reset_counts(s);
  for (int i = 0; s->states && i < s->n_layers; i++) crn_free(s->states[i]);
  for (int i = 0; s->carried && i < s->n_bodies; i++) crn_free(s->carried[i]);
  crn_free(s->states);
  crn_free(s->carried);
  crn_free(s->n_states);
  crn_free(s->n_carried);
  crn_free(s->aside);
  crn_free(s->frames);
  crn_free(s->hypotheses);
  crn_free(s->keys);
  crn_free(s);
}

/* ---- values ---------------------------------------------------------------------------------------------------------
 */

static crn_status keep_tensor(crn_exec *x, kept_value *v, const crn_tensor *t) {
  const size_t bytes = (size_t)crn_t_size(t) * crn_dtype_bytes(t->dtype);
  if (bytes > v->cap) {
    void *p = crn_realloc(v->data, bytes);
    if (!p) return crn_err_memory(x->run.err);
    v->data = p;
    v->cap = bytes;
  }
  if (bytes) memcpy(v->data, crn_t_data(t), bytes);
  v->dtype = t->dtype;
  v->rank = t->rank;
  memcpy(v->shape, t->shape, sizeof(v->shape));
  v->set = true;
  return CRN_OK;
}

static crn_status keep(crn_exec *x, kept_value *v, const crn_data *d) {
  d = crn_state_whole(x, d);
  if (!d || !d->v) return x->run.err->code;
  v->beam = d->beam != NULL;
  return keep_tensor(x, v, d->v);
}

static crn_data *give(crn_exec *x, const kept_value *v, const crn_tmpl *t, const crn_beam *beam) {
  crn_tensor *c = crn_t_copy_in(&x->run, v->dtype, v->rank, v->shape, v->data);
  crn_data *d = c ? crn_data_new(&x->run, t, c) : NULL;
  if (d && v->beam) d->beam = beam;
  return d;
}

static crn_status restore_layer(crn_exec *x, const crn_layer *l, const crn_beam *beam) {
  crn_slot *s = crn_exec_slot(x, l);
  kept_value *v = x->stream->states[l->index];
  if (!l->n_states || !v[0].set) return CRN_OK;
  if (!s->states) {
    s->states = CRN_ARENA_ARRAY(&x->run.arena, crn_data *, l->n_states);
    s->before = CRN_ARENA_ARRAY(&x->run.arena, crn_data *, l->n_states);
    if (!s->states || !s->before) return crn_err_memory(x->run.err);
  }
  for (int k = 0; k < l->n_states; k++)
    if (v[k].set && !(s->states[k] = give(x, &v[k], &l->states[k].t, beam))) return x->run.err->code;
  s->has_state = true;
  return CRN_OK;
}

static crn_status save_layer(crn_exec *x, const crn_layer *l) {
  const crn_slot *s = crn_exec_slot(x, l);
  for (int k = 0; s->states && k < l->n_states; k++) CRN_TRY(keep(x, &x->stream->states[l->index][k], s->states[k]));
  return CRN_OK;
}

/* ---- what layers put aside -------------------------------------------------------------------------------------- */

bool crn_streaming(const crn_exec *x) { return x->stream; }

bool crn_stream_first(const crn_exec *x, const crn_layer *l) { return !x->stream || x->stream->frames[l->index] < 0; }

int64_t crn_stream_before(const crn_exec *x, const crn_layer *l) {
  return crn_stream_first(x, l) ? 0 : x->stream->frames[l->index];
}

void crn_stream_pass(crn_exec *x, const crn_layer *l, int64_t frames) {
  if (x->stream) x->stream->frames[l->index] = crn_stream_before(x, l) + frames;
}

crn_tensor *crn_stream_kept(crn_exec *x, const crn_layer *l) {
  const kept_value *v = x->stream ? &x->stream->aside[l->index] : NULL;
  return v && v->set ? crn_t_copy_in(&x->run, v->dtype, v->rank, v->shape, v->data) : NULL;
}

crn_status crn_stream_keep(crn_exec *x, const crn_layer *l, const crn_tensor *v) {
  if (!v) return x->run.err->code;
  return x->stream ? keep_tensor(x, &x->stream->aside[l->index], v) : CRN_OK;
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

/* Frames that belong to no sequence are no frames of the piece. */
static crn_status cut_padding(crn_exec *x, int i, int axis, const int32_t *lens, int64_t B) {
  const crn_data *d = x->feed[i];
  int64_t longest = 0;
  for (int64_t b = 0; b < B; b++)
    if (lens[b] > longest) longest = lens[b];
  if (longest == d->v->shape[axis]) return CRN_OK;
  crn_data *c = crn_data_copy(&x->run, d);
  if (!c || !(c->v = crn_slice(&x->run, d->v, axis, 0, longest, 1))) return x->run.err->code;
  x->feed[i] = c;
  return CRN_OK;
}

/* Sequences of a batch end one after the other, each with a piece that is shorter than the others'. */
static crn_status check_piece(crn_exec *x, int i) {
  const crn_data *d = x->feed[i];
  const char *key = x->net->externs[i].key;
  key_state *k = &x->stream->keys[i];
  const int axis = d ? d->t.time_axis : -1;
  if (axis < 0 || !d->len[axis]) return CRN_OK;
  const int64_t B = crn_t_size(d->len[axis]->v);
  const int32_t *lens = crn_t_i32(d->len[axis]->v);
  if (!k->ended) {
    if (!(k->ended = crn_calloc((size_t)B + 1, sizeof(*k->ended)))) return crn_err_memory(x->run.err);
    k->B = B;
  }
  if (B != k->B)
    return crn_fail(x->run.err, CRN_E_DATA, "data key '%s': the stream has %lld sequences, this piece has %lld", key,
                    (long long)k->B, (long long)B);
  CRN_TRY(cut_padding(x, i, axis, lens, B));
  const int64_t longest = x->feed[i]->v->shape[axis];
  for (int64_t b = 0; b < B; b++) {
    if (lens[b] > 0 && k->ended[b])
      return crn_fail(x->run.err, CRN_E_DATA,
                      "data key '%s': sequence %lld has ended: an earlier piece of it was shorter than the others'",
                      key, (long long)b);
    k->ended[b] |= lens[b] < longest;
  }
  return CRN_OK;
}

crn_status crn_stream_restore(crn_exec *x) {
  for (int i = 0; x->stream && i < x->net->n_externs; i++) CRN_TRY(check_piece(x, i));
  for (int i = 0; x->stream && i < x->net->body.n; i++) CRN_TRY(restore_layer(x, x->net->body.order[i], NULL));
  return CRN_OK;
}

crn_status crn_stream_save(crn_exec *x) {
  for (int i = 0; x->stream && i < x->net->body.n; i++)
    if (x->net->body.order[i]->live) CRN_TRY(save_layer(x, x->net->body.order[i]));
  return CRN_OK;
}

/* A loop inside of another one begins anew in each of its steps, one over an axis of fixed size in each piece. */
static bool goes_on(const crn_exec *x, const crn_loop *loop) {
  return x->stream && !(loop->body.outer && loop->body.outer->loop) && crn_dim_is_dynamic(loop->time_dim);
}

/* The hypotheses that a program left when the piece before was over: the next decisions continue them. */
static crn_status restore_beam(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  crn_run *r = &x->run;
  const int64_t K = x->stream->hypotheses[loop->body.index], shape[2] = {lr->B, K};
  if (!K) return CRN_OK;
  crn_beam *beam = CRN_ARENA_NEW(&r->arena, crn_beam);
  if (!beam) return crn_err_memory(r->err);
  *beam = (crn_beam){.choice = loop->last_choice,
                     .serial = ++x->beam_serial,
                     .K = K,
                     .src = crn_t_zeros(r, CRN_I32, 2, shape),
                     .scores = crn_t_zeros(r, r->real, 2, shape)};
  lr->last_beam = beam;
  return beam->src && beam->scores ? CRN_OK : r->err->code;
}

crn_status crn_stream_restore_loop(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  if (!goes_on(x, loop)) return CRN_OK;
  CRN_TRY(restore_beam(x, loop, lr));
  for (int i = 0; i < loop->body.n; i++) CRN_TRY(restore_layer(x, loop->body.order[i], lr->last_beam));
  for (int i = 0; i < loop->n_carried; i++) {
    const kept_value *v = &x->stream->carried[loop->body.index][i];
    if (v->set && !(lr->carried[i] = give(x, v, &loop->carried[i]->out, lr->last_beam))) return x->run.err->code;
  }
  return CRN_OK;
}

crn_status crn_stream_save_loop(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  if (!goes_on(x, loop) || lr->n_steps == 0) return CRN_OK;
  crn_stream_pass(x, loop->runner, lr->n_steps);
  x->stream->hypotheses[loop->body.index] = lr->last_beam ? lr->last_beam->K : 0;
  for (int i = 0; i < loop->body.n; i++) CRN_TRY(save_layer(x, loop->body.order[i]));
  for (int i = 0; i < loop->n_carried; i++) CRN_TRY(keep(x, &x->stream->carried[loop->body.index][i], lr->carried[i]));
  return CRN_OK;
}
