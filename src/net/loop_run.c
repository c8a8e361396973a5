/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a loop step by step: prev: values and states carried on, hypotheses re-ordered, end flags, lengths; afterwards
 * the kept outputs, resolved along the back-trace to the final hypotheses (search.md).
 */
#include <string.h>

#include "net/choice.h"
#include "net/loop.h"
#include "net/stream.h"

static crn_data **data_array(crn_exec *x, int n) { return CRN_ARENA_ARRAY(&x->run.arena, crn_data *, n + 1); }

crn_status crn_loop_prepare(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, const crn_layer *runner) {
  crn_run *r = &x->run;
  memset(lr, 0, sizeof(*lr));
  const crn_beam *around = crn_exec_slot(x, runner)->out ? crn_exec_slot(x, runner)->out->beam : NULL;
  lr->B = crn_batch_size(x, runner) / (around ? around->K : 1);
  lr->carried = data_array(x, loop->n_carried);
  lr->sliced = data_array(x, loop->n_sliced);
  lr->kept = CRN_ARENA_ARRAY(&r->arena, crn_data **, loop->n_kept + 1);
  lr->loss_values = CRN_ARENA_ARRAY(&r->arena, crn_tensor **, x->net->n_losses + 1);
  lr->loss_errors = CRN_ARENA_ARRAY(&r->arena, crn_tensor **, x->net->n_losses + 1);
  if (!lr->carried || !lr->sliced || !lr->kept || !lr->loss_values || !lr->loss_errors) return crn_err_memory(r->err);
  for (int i = 0; i < loop->body.n; i++) {
    crn_slot *s = crn_exec_slot(x, loop->body.order[i]);
    s->has_state = false;
    s->ran = 0;
    s->out = NULL;
  }
  return crn_stream_restore_loop(x, loop, lr);
}

/* Room for one more step in the lists that grow with the loop. */
crn_status crn_loop_grow_lists(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  crn_run *r = &x->run;
  if (lr->step < lr->cap_steps) return CRN_OK;
  const int64_t old = lr->cap_steps, cap = old ? 2 * old : 64;
  for (int i = 0; i < loop->n_kept; i++) {
    crn_data **p = CRN_ARENA_ARRAY(&r->arena, crn_data *, cap);
    if (!p) return crn_err_memory(r->err);
    if (old) memcpy(p, lr->kept[i], (size_t)old * sizeof(*p));
    lr->kept[i] = p;
  }
  for (int i = 0; i < x->net->n_losses; i++) {
    crn_tensor **v = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, cap), **e = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, cap);
    if (!v || !e) return crn_err_memory(r->err);
    if (old) {
      memcpy(v, lr->loss_values[i], (size_t)old * sizeof(*v));
      memcpy(e, lr->loss_errors[i], (size_t)old * sizeof(*e));
    }
    lr->loss_values[i] = v;
    lr->loss_errors[i] = e;
  }
  lr->cap_steps = cap;
  return CRN_OK;
}

/* ---- end flags and lengths ------------------------------------------------------------------------------------------ */

static crn_tmpl batch_template(const crn_exec *x, crn_dtype dtype) {
  crn_tmpl t = crn_tmpl_scalar(dtype);
  t.dims[t.n++] = x->net->dims.batch;
  return t;
}

static crn_data *batch_data(crn_exec *x, crn_tensor *v, const crn_beam *beam) {
  crn_tmpl t = batch_template(x, v ? v->dtype : CRN_I32);
  crn_data *d = v ? crn_data_new(&x->run, &t, v) : NULL;
  if (d) d->beam = beam;
  return d;
}

/* end_t OR end_{t-1}: what readers of "end" in the loop see. */
crn_status crn_loop_or_end(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  crn_run *r = &x->run;
  crn_slot *s = crn_exec_slot(x, loop->end);
  crn_data *e = s->out;
  if (e->v->dtype != CRN_BOOL || e->v->rank > 1)
    return crn_exec_fail(x, loop->end, "'end' must be bool of shape [B] or a scalar");
  if (e->v->rank == 0) {
    const crn_beam *beam = lr->ended ? lr->ended->beam : lr->last_beam;
    const int64_t n = lr->B * (beam ? beam->K : 1);
    e = batch_data(x, crn_broadcast_to(r, e->v, 1, &n), beam);
    if (!e) return r->err->code;
  }
  if (lr->ended) {
    const crn_beam *to;
    CRN_TRY(crn_beam_latest(x, loop->end, e->beam, lr->ended->beam, &to));
    const crn_data *a = crn_beam_move(x, e, to), *b = crn_beam_move(x, lr->ended, to);
    if (!a || !b) return r->err->code;
    e = batch_data(x, crn_binary(r, CRN_B_LOGICAL_OR, a->v, b->v), to);
    if (!e) return r->err->code;
  }
  s->out = e;
  return CRN_OK;
}

static crn_status count_length(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  crn_run *r = &x->run;
  const crn_data *e = crn_exec_slot(x, loop->end)->out;
  const crn_beam *to = e->beam;
  const int64_t n = lr->B * (to ? to->K : 1);
  const crn_data *len = lr->lens ? crn_beam_move(x, lr->lens, to) : NULL;
  if (lr->lens && !len) return r->err->code;
  crn_tensor *prev = len ? len->v : crn_t_zeros(r, CRN_I32, 1, &n);
  crn_tensor *flags = e->v;
  if (loop->include_eos) {
    const crn_data *before = lr->ended ? crn_beam_move(x, lr->ended, to) : NULL;
    flags = before ? before->v : crn_t_zeros(r, CRN_BOOL, 1, &n);
  }
  crn_tensor *more = crn_cast(r, crn_unary(r, CRN_U_LOGICAL_NOT, flags), CRN_I32);
  lr->lens = batch_data(x, crn_add(r, prev, more), to);
  return lr->lens ? CRN_OK : r->err->code;
}

static bool all_ended(const crn_data *e) {
  if (!e) return false;
  for (int64_t i = 0; i < crn_t_size(e->v); i++)
    if (!crn_t_bool(e->v)[i]) return false;
  return true;
}

/* ---- one step ------------------------------------------------------------------------------------------------------- */

static crn_status bring_to(crn_exec *x, crn_data **d, const crn_beam *to) {
  if (!*d || !(*d)->beam || !to || (*d)->beam == to) return CRN_OK;
  if (!crn_beam_is_ancestor((*d)->beam, to)) return CRN_OK;
  const crn_data *m = crn_beam_move(x, *d, to);
  if (!m) return x->run.err->code;
  return (*d = crn_data_copy(&x->run, m)) ? CRN_OK : x->run.err->code;
}

/* Layers with need_last keep their last valid value. With include_eos and a known length the freeze is one frame early. */
static crn_status freeze_ended(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, crn_layer *l, const crn_data *before) {
  crn_run *r = &x->run;
  crn_slot *s = crn_exec_slot(x, l);
  crn_tensor *on;
  const crn_beam *to = s->out->beam;
  if (loop->unknown_len) {
    const crn_data *e = lr->ended;
    if (!loop->include_eos) e = crn_exec_slot(x, loop->end)->out;
    if (!e) return CRN_OK;
    if (e->beam && !crn_beam_is_ancestor(e->beam, to)) {
      const crn_data *m = crn_beam_move(x, s->out, e->beam);
      if (!m || !(s->out = crn_data_copy(r, m))) return r->err->code;
      to = e->beam;
    }
    e = crn_beam_move(x, e, to);
    on = e ? crn_unary(r, CRN_U_LOGICAL_NOT, e->v) : NULL;
  } else {
    const int64_t t = lr->step + (loop->include_eos ? 1 : 0);
    const crn_data *len = lr->lens ? crn_beam_move(x, lr->lens, to) : NULL;
    on = len ? crn_binary(r, CRN_B_LESS, crn_t_full(r, CRN_I32, 0, NULL, (double)t), len->v) : NULL;
  }
  const crn_data *old = on ? crn_beam_move(x, before, to) : NULL;
  const int axis = crn_tmpl_batch_axis(&s->out->t);
  if (!old || axis < 0) return on ? CRN_OK : r->err->code;
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < s->out->t.n; i++) shape[i] = i == axis ? on->shape[0] : 1;
  crn_data *d = crn_data_copy(r, s->out);
  if (!d) return r->err->code;
  d->v = crn_where(r, crn_t_reshape(r, on, d->t.n, shape), s->out->v, old->v);
  d->pre = NULL;
  s->out = d;
  return d->v ? CRN_OK : r->err->code;
}

static crn_status freeze_all(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, crn_data **frozen) {
  for (int i = 0; i < loop->body.n; i++) {
    crn_layer *l = loop->body.order[i];
    if (l->common.need_last <= 0 || l->desc->flags & CRN_L_INTERNAL) continue;
    if (!frozen[i]) {
      const crn_tmpl t = l->out;
      if (!(frozen[i] = crn_initial_output(x, l, NULL, &t))) return x->run.err->code;
    }
    CRN_TRY(freeze_ended(x, loop, lr, l, frozen[i]));
    frozen[i] = crn_exec_slot(x, l)->out;
  }
  return CRN_OK;
}

/* prev: values, states, end flags and lengths for the next step, in the order of the step's last choice. */
crn_status crn_loop_carry_on(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, const crn_beam *last) {
  for (int i = 0; i < loop->n_kept; i++) lr->kept[i][lr->step] = crn_exec_slot(x, loop->kept[i])->out;
  if (loop->end) {
    lr->ended = crn_exec_slot(x, loop->end)->out;
    CRN_TRY(bring_to(x, &lr->ended, last));
  }
  for (int i = 0; i < loop->n_carried; i++) {
    const crn_prev *p = loop->carried[i]->priv;
    lr->carried[i] = crn_exec_slot(x, p->of)->out;
    CRN_TRY(bring_to(x, &lr->carried[i], last));
  }
  for (int i = 0; i < loop->body.n; i++) {
    crn_slot *s = crn_exec_slot(x, loop->body.order[i]);
    for (int k = 0; k < loop->body.order[i]->n_states; k++) CRN_TRY(bring_to(x, &s->states[k], last));
    s->has_state = loop->body.order[i]->n_states > 0;
  }
  return CRN_OK;
}

/* What the next step needs is held, what only the step before needed is given up (values that are dropped at all). */
static void hold_one(crn_exec *x, crn_data *d) {
  (void)x;
  crn_data_hold(d);
}

static void hold_carried(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, crn_data **frozen, bool hold) {
  void (*const change)(crn_exec *, crn_data *) = hold ? hold_one : crn_data_release;
  change(x, lr->ended);
  change(x, lr->lens);
  for (int i = 0; i < loop->n_carried; i++) change(x, lr->carried[i]);
  for (int i = 0; i < loop->body.n; i++) {
    const crn_slot *s = crn_exec_slot(x, loop->body.order[i]);
    change(x, frozen[i]);
    for (int k = 0; s->has_state && k < loop->body.order[i]->n_states; k++) change(x, s->states[k]);
  }
}

static crn_status step_layers(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, crn_data **frozen) {
  CRN_TRY(crn_loop_grow_lists(x, loop, lr));
  for (int i = 0; i < loop->body.n; i++) {
    crn_layer *l = loop->body.order[i];
    CRN_TRY(crn_exec_layer(x, l));
    if (l == loop->end) CRN_TRY(crn_loop_or_end(x, loop, lr));
  }
  const crn_beam *last = loop->last_choice ? crn_exec_slot(x, loop->last_choice)->out->beam : NULL;
  if (loop->unknown_len) CRN_TRY(count_length(x, loop, lr));
  CRN_TRY(freeze_all(x, loop, lr, frozen));
  CRN_TRY(crn_loop_carry_on(x, loop, lr, last));
  lr->last_beam = last;
  return CRN_OK;
}

typedef struct before_step { /* holders' copies: the pointers change while the step runs */
  crn_data **d;
  int n;
} before_step;

static crn_status remember(crn_exec *x, const crn_loop *loop, const crn_loop_run *lr, crn_data **frozen, before_step *b) {
  int n = 2 + loop->n_carried;
  for (int i = 0; i < loop->body.n; i++) n += 1 + loop->body.order[i]->n_states;
  b->n = 0;
  if (!b->d && !(b->d = data_array(x, n))) return crn_err_memory(x->run.err);
  b->d[b->n++] = lr->ended;
  b->d[b->n++] = lr->step || loop->unknown_len ? lr->lens : NULL;
  for (int i = 0; i < loop->n_carried; i++) b->d[b->n++] = lr->step ? lr->carried[i] : NULL;
  for (int i = 0; i < loop->body.n; i++) {
    const crn_slot *s = crn_exec_slot(x, loop->body.order[i]);
    b->d[b->n++] = frozen[i];
    for (int k = 0; k < loop->body.order[i]->n_states; k++) b->d[b->n++] = s->has_state ? s->states[k] : NULL;
  }
  return CRN_OK;
}

/* The states as the layer gave them: those in the order of the last choice, held by hold_carried, replace them. */
static void release_made(crn_exec *x, const crn_layer *l) {
  const crn_slot *s = crn_exec_slot(x, l);
  for (int k = 0; s->made && k < l->n_states; k++) {
    crn_data_release(x, s->made[k]);
    s->made[k] = NULL;
  }
}

static crn_status one_step(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, crn_data **frozen, before_step *before) {
  crn_frame frame;
  if (!crn_exec_drops(x)) return step_layers(x, loop, lr, frozen);
  if (lr->step == 0 && !loop->unknown_len) crn_data_hold(lr->lens);
  CRN_TRY(remember(x, loop, lr, frozen, before));
  crn_frame_open(&x->run, &frame);
  crn_status st = step_layers(x, loop, lr, frozen);
  if (st == CRN_OK) {
    hold_carried(x, loop, lr, frozen, true);
    for (int i = 0; i < loop->n_kept; i++) crn_data_hold(lr->kept[i][lr->step]);
    for (int i = 0; i < before->n; i++) crn_data_release(x, before->d[i]);
    for (int i = 0; i < loop->body.n; i++) release_made(x, loop->body.order[i]);
    for (int i = 0; i < loop->body.n; i++) crn_exec_drop(x, loop->body.order[i]);
  }
  crn_frame_close(&x->run);
  return st;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------- */

crn_status crn_loop_known_length(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, int64_t *steps) {
  crn_run *r = &x->run;
  const crn_data *d = crn_exec_slot(x, loop->len_layer)->out;
  if (!d || !d->v) return crn_exec_fail(x, loop->runner, "the value that gives the loop's length is not there");
  int axis = crn_tmpl_find(&d->t, loop->time_dim);
  if (axis < 0) axis = loop->len_axis;
  *steps = d->v->shape[axis];
  crn_tensor *lens = crn_data_lens(r, d, axis);
  if (!lens) return r->err->code;
  if (d->len[axis]) {
    int64_t max = 0;
    for (int64_t i = 0; i < crn_t_size(lens); i++)
      if (crn_t_i32(lens)[i] > max) max = crn_t_i32(lens)[i];
    *steps = max;
  }
  lr->lens = batch_data(x, lens, d->beam);
  return lr->lens ? CRN_OK : r->err->code;
}

static crn_status finish(crn_exec *x, const crn_loop *loop, crn_loop_run *lr) {
  crn_run *r = &x->run;
  if (!lr->lens) { /* no step ran */
    lr->lens = batch_data(x, crn_t_zeros(r, CRN_I32, 1, &lr->B), NULL);
    if (!lr->lens) return r->err->code;
  }
  if (lr->last_beam) CRN_TRY(crn_choice_finish(x, loop, lr));
  const crn_data *len = crn_beam_move(x, lr->lens, lr->last_beam);
  if (!len || !(lr->lens = crn_data_copy(r, len))) return r->err->code;
  if (crn_exec_drops(x)) crn_data_hold(lr->lens);
  if (loop->unknown_len) { /* arrays are cut to the longest */
    int64_t max = 0;
    for (int64_t i = 0; i < crn_t_size(len->v); i++)
      if (crn_t_i32(len->v)[i] > max) max = crn_t_i32(len->v)[i];
    if (max < lr->n_steps) lr->n_steps = max;
  }
  return crn_exec_loop_losses_end(x, loop);
}

crn_status crn_loop_run_all(crn_exec *x, crn_layer *runner) {
  crn_loop *loop = runner->priv;
  crn_loop_run *lr = crn_exec_loop(x, loop);
  int64_t limit = 0;
  CRN_TRY(crn_loop_prepare(x, loop, lr, runner));
  if (loop->unknown_len) CRN_TRY(crn_loop_limit(x, loop, &limit));
  else CRN_TRY(crn_loop_known_length(x, loop, lr, &limit));
  crn_data **frozen = data_array(x, loop->body.n);
  before_step before = {NULL, 0};
  if (!frozen) return crn_err_memory(x->run.err);
  while (lr->step < limit && !all_ended(lr->ended)) {
    CRN_TRY(one_step(x, loop, lr, frozen, &before));
    lr->step++;
  }
  lr->n_steps = lr->step;
  if (loop->unknown_len && limit > 0 && !all_ended(lr->ended))
    crn_logf(x->run.log, 4, "loop '%s' was cut at its limit of %lld steps", loop->rec->path, (long long)limit);
  CRN_TRY(crn_stream_save_loop(x, loop, lr));
  return finish(x, loop, lr);
}

/* ---- kept outputs --------------------------------------------------------------------------------------------------- */

/* Walk from the beam that idx leads into back to an older one. */
static void walk_back(const crn_beam **at, const crn_beam *to, int32_t *idx, int64_t B, int64_t K) {
  while (*at && *at != to) {
    const int32_t *src = crn_t_i32((*at)->src);
    for (int64_t b = 0; b < B; b++)
      for (int64_t k = 0; k < K; k++) idx[b * K + k] = src[b * (*at)->K + idx[b * K + k]];
    *at = (*at)->parent;
  }
}

static crn_tensor *resolved(crn_exec *x, const crn_data *d, crn_tensor *v, int axis, const int32_t *idx, int64_t B,
                            int64_t K) {
  crn_run *r = &x->run;
  const int64_t n = B * K, K_in = d->beam ? d->beam->K : 1;
  crn_tensor *rows = crn_t_new(r, CRN_I32, 1, &n);
  if (!rows || !v) return NULL;
  for (int64_t b = 0; b < B; b++)
    for (int64_t k = 0; k < K; k++)
      crn_t_i32(rows)[b * K + k] = (int32_t)(b * K_in + (d->beam ? idx[b * K + k] : 0));
  return crn_gather(r, v, rows, axis);
}

/* Frames with a dynamic axis that grows: padded with zeros to the largest. */
static crn_status pad_to_largest(crn_exec *x, crn_tensor **v, int64_t T) {
  for (int a = 0; T > 0 && a < v[0]->rank; a++) {
    int64_t max = 0;
    for (int64_t t = 0; t < T; t++)
      if (v[t]->shape[a] > max) max = v[t]->shape[a];
    for (int64_t t = 0; t < T; t++)
      if (v[t]->shape[a] < max && !(v[t] = crn_pad(&x->run, v[t], a, 0, max - v[t]->shape[a], "constant", 0)))
        return x->run.err->code;
  }
  return CRN_OK;
}

/* Lengths of axis a of every frame, in the order of the final hypotheses. */
static crn_status resolved_lengths(crn_exec *x, const crn_loop_run *lr, crn_data **frames, int64_t T, int a,
                                   const crn_beam *final, crn_tensor **v) {
  crn_run *r = &x->run;
  const int64_t B = lr->B, K = final ? final->K : 1;
  const crn_beam *at = final;
  int32_t *idx = CRN_ARENA_ARRAY(&r->arena, int32_t, B * K + 1);
  if (!idx) return crn_err_memory(r->err);
  for (int64_t i = 0; i < B * K; i++) idx[i] = (int32_t)(i % K);
  for (int64_t s = lr->step - 1; s >= 0; s--) {
    const crn_data *len = frames[s]->len[a];
    if (frames[s]->beam) walk_back(&at, frames[s]->beam, idx, B, K);
    if (s >= T) continue;
    if (!len) return crn_fail(r->err, CRN_E_RUNTIME, "axis %d has lengths in some steps of the loop only", a);
    const int axis = final ? crn_tmpl_batch_axis(&len->t) : -1;
    v[s] = axis < 0 ? len->v : resolved(x, len, len->v, axis, idx, B, K);
    if (!v[s]) return r->err->code;
  }
  return CRN_OK;
}

static bool equal_lengths(const crn_tensor *a, const crn_tensor *b) {
  if (a == b) return true;
  const size_t bytes = (size_t)crn_t_size(a) * sizeof(int32_t);
  return crn_t_size(a) == crn_t_size(b) && (bytes == 0 || memcmp(crn_t_i32(a), crn_t_i32(b), bytes) == 0);
}

/* An axis that is the same in every step keeps its lengths [B]; one that changes (grows) gets lengths [T, B]. */
static crn_status stacked_lengths(crn_exec *x, const crn_loop *loop, const crn_loop_run *lr, crn_data **frames,
                                  int64_t T, crn_data *out, const crn_beam *final) {
  crn_run *r = &x->run;
  const crn_data *last = frames[T - 1];
  for (int a = 0; a < last->t.n; a++) {
    if (!last->len[a]) continue;
    crn_tensor **v = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, T);
    if (!v) return crn_err_memory(r->err);
    CRN_TRY(resolved_lengths(x, lr, frames, T, a, final, v));
    bool same = true;
    for (int64_t t = 0; t < T && same; t++) same = final ? equal_lengths(v[t], v[T - 1]) : v[t] == v[T - 1];
    crn_tmpl lt = last->len[a]->t;
    if (!same) CRN_TRY(crn_tmpl_insert(&lt, 0, loop->time_dim, r->err));
    crn_tensor *s = same ? v[T - 1] : crn_stack(r, (int)T, v, 0);
    crn_data *len = s ? crn_data_new(r, &lt, s) : NULL;
    if (!len) return r->err->code;
    if (crn_tmpl_batch_axis(&lt) >= 0) len->beam = final;
    out->len[a + 1] = len;
  }
  return CRN_OK;
}

/* Hypotheses in whose order the steps of a kept layer are brought: the loop's own last ones, or, where only the loop
 * around searches, those that it had. NULL: none. */
static const crn_beam *final_beam(const crn_loop_run *lr, int kept) {
  const crn_beam *latest = NULL;
  for (int64_t s = 0; s < lr->step; s++) {
    const crn_beam *b = lr->kept[kept][s]->beam;
    if (b && (!latest || crn_beam_is_ancestor(latest, b))) latest = b;
  }
  return latest && lr->last_beam ? lr->last_beam : latest;
}

/* A loop that ran no step: nothing on its axis; other axes as in what it reads. */
static crn_data *no_frames(crn_exec *x, const crn_loop *loop, const crn_tmpl *t, crn_data *out, int64_t n_seqs) {
  int64_t shape[CRN_MAX_RANK + 1] = {0};
  for (int i = 0; i < t->n; i++) {
    const crn_dim *d = t->dims[i];
    shape[i + 1] = d->kind == CRN_DIM_BATCH ? n_seqs : d->size < 0 ? 0 : d->size;
    for (int k = 0; d->size < 0 && d->kind != CRN_DIM_BATCH && k < loop->runner->n_edges; k++) {
      const crn_data *read = crn_exec_slot(x, loop->runner->edges[k].to)->out;
      const int axis = read && read->v ? crn_tmpl_find(&read->t, d) : -1;
      if (axis < 0) continue;
      shape[i + 1] = read->v->shape[axis];
      out->len[i + 1] = read->len[axis];
      break;
    }
  }
  out->v = crn_t_zeros(&x->run, t->dtype == CRN_F32 ? x->run.real : t->dtype, t->n + 1, shape);
  return out->v ? out : NULL;
}

crn_data *crn_loop_stacked(crn_exec *x, const crn_loop *loop, int kept) {
  crn_run *r = &x->run;
  crn_loop_run *lr = crn_exec_loop(x, loop);
  const crn_layer *l = loop->kept[kept];
  const int64_t T = lr->n_steps, B = lr->B;
  const crn_beam *final = final_beam(lr, kept), *at = final;
  const int64_t K = final ? final->K : 1;
  crn_tmpl t = l->out;
  crn_data *out = crn_data_new(r, &t, NULL);
  if (!out) return NULL;
  if (!(out->len[0] = crn_beam_move(x, lr->lens, final))) return NULL;
  out->beam = final;
  if (T == 0) return no_frames(x, loop, &t, out, B * K);
  crn_tensor **v = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, T), **pre = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, T);
  int32_t *idx = CRN_ARENA_ARRAY(&r->arena, int32_t, B * K + 1);
  if (!v || !pre || !idx) return (void)crn_err_memory(r->err), NULL;
  for (int64_t b = 0; b < B; b++)
    for (int64_t k = 0; k < K; k++) idx[b * K + k] = (int32_t)k;
  const int axis = crn_tmpl_batch_axis(&t);
  bool all_pre = true;
  for (int64_t s = lr->step - 1; s >= 0; s--) {
    const crn_data *d = lr->kept[kept][s];
    if (final && axis >= 0) {
      if (d->beam) walk_back(&at, d->beam, idx, B, K);
      if (s < T) v[s] = resolved(x, d, d->v, axis, idx, B, K);
      all_pre = false;
    } else if (s < T) {
      v[s] = d->v;
      pre[s] = d->pre;
      all_pre &= d->pre && d->pre_act && d->pre->rank == d->v->rank;
    }
    if (s < T && !v[s]) return NULL;
  }
  if (pad_to_largest(x, v, T) != CRN_OK) return NULL;
  out->v = crn_stack(r, (int)T, v, 0);
  if (all_pre) {
    out->pre = crn_stack(r, (int)T, pre, 0);
    out->pre_act = lr->kept[kept][0]->pre_act;
  }
  if (!out->v || stacked_lengths(x, loop, lr, lr->kept[kept], T, out, final) != CRN_OK) return NULL;
  return out;
}
