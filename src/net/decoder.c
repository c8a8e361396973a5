/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop driven from outside, see decoder.h.
 */
#include "net/decoder.h"

#include <string.h>

#include "layer/rec.h"
#include "net/choice.h"
#include "net/loop.h"
#include "net/stream.h"

static crn_status fail(crn_decoder *d, crn_status st, crn_err *err) {
  return crn_fail(err, st, "%s", crn_err_text(d->exec->run.err));
}

static bool decides(const crn_layer *l) { return l->out.beam.choice == l; }

/* Scores of the choice, those of the caller's hypotheses in his order. */
static crn_status open_choice(crn_decoder *d, crn_layer *choice) {
  crn_exec *x = d->exec;
  const crn_beam *base;
  crn_tensor *scores = crn_choice_label_scores(x, choice, d->beam, &base);
  if (!scores) return x->run.err->code;
  d->choice = choice;
  d->K = base ? base->K : 1;
  d->n_labels = scores->shape[1];
  bool same = d->n == scores->shape[0];
  for (int64_t i = 0; i < d->n; i++) same &= d->rows[i] == i;
  if (!same) scores = crn_gather(&x->run, scores, crn_t_copy_in(&x->run, CRN_I32, 1, &d->n, d->rows), 0);
  d->scores = scores;
  return scores ? CRN_OK : x->run.err->code;
}

/* The loop has as many steps as its input, and these are over. */
static crn_status finish(crn_decoder *d) {
  crn_exec *x = d->exec;
  crn_loop_run *lr = crn_exec_loop(x, d->loop);
  d->scores = NULL;
  d->n_labels = 0;
  lr->n_steps = lr->step;
  CRN_TRY(crn_stream_save_loop(x, d->loop, lr));
  return crn_stream_keep(x, d->loop->runner, crn_t_copy_in(&x->run, CRN_I32, 1, &d->n, d->rows));
}

static crn_status end_step(crn_decoder *d) {
  crn_exec *x = d->exec;
  crn_loop_run *lr = crn_exec_loop(x, d->loop);
  CRN_TRY(crn_loop_carry_on(x, d->loop, lr, d->beam));
  lr->last_beam = d->beam;
  lr->step++;
  d->at = 0;
  return crn_loop_grow_lists(x, d->loop, lr);
}

/* Layers of the step up to its next choice, or to the first one of the next step. */
static crn_status run_to_choice(crn_decoder *d) {
  const crn_body *b = &d->loop->body;
  for (;;) {
    if (d->at == 0 && d->steps >= 0 && crn_exec_loop(d->exec, d->loop)->step >= d->steps) return finish(d);
    while (d->at < b->n) {
      crn_layer *l = b->order[d->at++];
      if (decides(l)) return open_choice(d, l);
      CRN_TRY(crn_exec_layer(d->exec, l));
      if (l == d->loop->end) CRN_TRY(crn_loop_or_end(d->exec, d->loop, crn_exec_loop(d->exec, d->loop)));
    }
    CRN_TRY(end_step(d));
  }
}

/* Those of the piece before, else one hypothesis for each sequence. */
static crn_status first_rows(crn_decoder *d, const crn_loop_run *lr) {
  const crn_tensor *kept = crn_stream_kept(d->exec, d->loop->runner);
  CRN_TRY(d->exec->run.err->code);
  d->beam = lr->last_beam;
  d->B = lr->B;
  d->K = d->beam ? d->beam->K : 1;
  d->n = kept ? kept->shape[0] : lr->B;
  d->rows = CRN_ARENA_ARRAY(&d->exec->run.arena, int32_t, d->n);
  if (!d->rows) return crn_err_memory(d->exec->run.err);
  for (int64_t i = 0; i < d->n; i++) d->rows[i] = kept ? crn_t_i32(kept)[i] : (int32_t)i;
  return CRN_OK;
}

static crn_status begin(crn_decoder *d) {
  crn_exec *x = d->exec;
  const crn_body *root = &x->net->body;
  crn_loop_run *lr = crn_exec_loop(x, d->loop);
  x->keep_all = true; /* the steps share the run's memory until the next run begins */
  CRN_TRY(crn_stream_restore(x));
  for (int i = 0; i < root->n && root->order[i] != d->loop->runner; i++)
    if (root->order[i]->live) CRN_TRY(crn_exec_layer(x, root->order[i]));
  CRN_TRY(crn_stream_save(x));
  CRN_TRY(crn_loop_prepare(x, d->loop, lr, d->loop->runner));
  d->steps = -1;
  if (!d->loop->unknown_len) CRN_TRY(crn_loop_known_length(x, d->loop, lr, &d->steps));
  if (lr->B < 1) return crn_fail(x->run.err, CRN_E_DATA, "step-by-step decoding: the batch has no sequences");
  CRN_TRY(first_rows(d, lr));
  CRN_TRY(crn_loop_grow_lists(x, d->loop, lr));
  return run_to_choice(d);
}

crn_status crn_decoder_begin(crn_decoder *d, crn_exec *x, const crn_layer *rec, crn_err *err) {
  memset(d, 0, sizeof(*d));
  d->exec = x;
  d->loop = rec ? crn_layer_loop(rec) : NULL;
  if (!d->loop) return crn_fail(err, CRN_E_CONFIG, "layer '%s' is no loop", rec ? rec->path : "?");
  int n_choices = 0;
  for (int i = 0; i < d->loop->body.n; i++) n_choices += decides(d->loop->body.order[i]);
  if (!n_choices) return crn_fail(err, CRN_E_CONFIG, "loop '%s' has no searching choice", rec->path);
  const crn_status st = begin(d);
  return st == CRN_OK ? CRN_OK : fail(d, st, err);
}

/* The choice decides for the same number of hypotheses of each sequence: where the caller has fewer, its first one goes
 * on with label 0 to fill up. */
static crn_status decide(crn_decoder *d, int64_t n, const int32_t *from, const int32_t *labels) {
  crn_arena *a = &d->exec->run.arena;
  int32_t *count = CRN_ARENA_ARRAY(a, int32_t, d->B), *rows = CRN_ARENA_ARRAY(a, int32_t, n);
  if (!count || !rows) return crn_err_memory(d->exec->run.err);
  int64_t K = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t b = d->rows[from[i]] / d->K;
    if (++count[b] > K) K = count[b];
  }
  int32_t *src = CRN_ARENA_ARRAY(a, int32_t, d->B * K), *label = CRN_ARENA_ARRAY(a, int32_t, d->B * K);
  if (!src || !label) return crn_err_memory(d->exec->run.err);
  memset(count, 0, (size_t)d->B * sizeof(*count));
  for (int64_t i = 0; i < n; i++) {
    const int64_t b = d->rows[from[i]] / d->K, row = b * K + count[b]++;
    src[row] = (int32_t)(d->rows[from[i]] % d->K);
    label[row] = labels[i];
    rows[i] = (int32_t)row;
  }
  d->rows = rows;
  d->n = n;
  CRN_TRY(crn_choice_decide(d->exec, d->choice, d->beam, d->B, K, src, label));
  d->beam = crn_exec_slot(d->exec, d->choice)->out->beam;
  return CRN_OK;
}

crn_status crn_decoder_next(crn_decoder *d, int64_t n, const int32_t *from, const int32_t *labels, crn_err *err) {
  if (!d->loop) return crn_fail(err, CRN_E_STATE, "no decoding has begun");
  if (n < 1) return crn_fail(err, CRN_E_DATA, "there must be at least one hypothesis, got %lld", (long long)n);
  crn_status st = decide(d, n, from, labels);
  if (st == CRN_OK) st = run_to_choice(d);
  return st == CRN_OK ? CRN_OK : fail(d, st, err);
}
