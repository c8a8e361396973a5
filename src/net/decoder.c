/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop driven from outside, see decoder.h.
 */
#include "net/decoder.h"

#include <string.h>

#include "layer/rec.h"
#include "net/choice.h"
#include "net/loop.h"

static crn_status fail(crn_decoder *d, crn_status st, crn_err *err) {
  return crn_fail(err, st, "%s", crn_err_text(d->exec->run.err));
}

/* Layers of the step from position i on, up to the choice (until = true) or to the end. */
static crn_status run_part(crn_decoder *d, bool before_choice) {
  const crn_body *b = &d->loop->body;
  bool passed = false;
  for (int i = 0; i < b->n; i++) {
    if (b->order[i] == d->choice) {
      passed = true;
      continue;
    }
    if (passed == before_choice) continue;
    CRN_TRY(crn_exec_layer(d->exec, b->order[i]));
    if (b->order[i] == d->loop->end) CRN_TRY(crn_loop_or_end(d->exec, d->loop, crn_exec_loop(d->exec, d->loop)));
  }
  return CRN_OK;
}

static crn_status open_step(crn_decoder *d) {
  crn_exec *x = d->exec;
  const crn_beam *base;
  CRN_TRY(crn_loop_grow_lists(x, d->loop, crn_exec_loop(x, d->loop)));
  CRN_TRY(run_part(d, true));
  d->scores = crn_choice_label_scores(x, d->choice, &base);
  if (!d->scores) return x->run.err->code;
  d->n = d->scores->shape[0];
  d->n_labels = d->scores->shape[1];
  return CRN_OK;
}

static crn_status begin(crn_decoder *d, const crn_layer *rec) {
  crn_exec *x = d->exec;
  const crn_body *root = &x->net->body;
  crn_loop_run *lr = crn_exec_loop(x, d->loop);
  (void)rec;
  x->keep_all = true; /* the steps share the run's memory until the next run begins */
  for (int i = 0; i < root->n && root->order[i] != d->loop->runner; i++)
    if (root->order[i]->live) CRN_TRY(crn_exec_layer(x, root->order[i]));
  CRN_TRY(crn_loop_prepare(x, d->loop, lr, d->loop->runner));
  if (!d->loop->unknown_len) {
    int64_t steps;
    CRN_TRY(crn_loop_known_length(x, d->loop, lr, &steps));
  }
  if (lr->B != 1)
    return crn_fail(x->run.err, CRN_E_DATA, "step-by-step decoding works on one utterance, the batch has %lld",
                    (long long)lr->B);
  return open_step(d);
}

crn_status crn_decoder_begin(crn_decoder *d, crn_exec *x, const crn_layer *rec, crn_err *err) {
  memset(d, 0, sizeof(*d));
  d->exec = x;
  if (!rec || strcmp(rec->desc->name, "rec") != 0 || !((const crn_rec_cfg *)rec->cfg)->loop)
    return crn_fail(err, CRN_E_CONFIG, "layer '%s' is no loop", rec ? rec->path : "?");
  d->loop = ((const crn_rec_cfg *)rec->cfg)->loop;
  d->choice = d->loop->last_choice;
  int n_choices = 0;
  for (int i = 0; i < d->loop->body.n; i++)
    n_choices += d->loop->body.order[i]->out.beam.choice == d->loop->body.order[i];
  if (!d->choice || n_choices != 1)
    return crn_fail(err, CRN_E_CONFIG, "loop '%s' must have one searching choice, it has %d", rec->path, n_choices);
  const crn_status st = begin(d, rec);
  return st == CRN_OK ? CRN_OK : fail(d, st, err);
}

static crn_status next(crn_decoder *d, int64_t n, const int32_t *from, const int32_t *labels) {
  crn_exec *x = d->exec;
  crn_loop_run *lr = crn_exec_loop(x, d->loop);
  CRN_TRY(crn_choice_decide(x, d->choice, n, from, labels));
  CRN_TRY(run_part(d, false));
  const crn_beam *last = crn_exec_slot(x, d->choice)->out->beam;
  CRN_TRY(crn_loop_carry_on(x, d->loop, lr, last));
  lr->last_beam = last;
  lr->step++;
  return open_step(d);
}

crn_status crn_decoder_next(crn_decoder *d, int64_t n, const int32_t *from, const int32_t *labels, crn_err *err) {
  if (!d->loop) return crn_fail(err, CRN_E_STATE, "no decoding has begun");
  if (n < 1) return crn_fail(err, CRN_E_DATA, "there must be at least one hypothesis, got %lld", (long long)n);
  const crn_status st = next(d, n, from, labels);
  return st == CRN_OK ? CRN_OK : fail(d, st, err);
}
