/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of outputs and targets, and the frame error.
 */
#include "loss/frames.h"

#include <string.h>

crn_status crn_frames_open(crn_frames *f, crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  *f = (crn_frames){.x = x, .r = crn_exec_run(x), .l = l, .loss = loss, .io = io};
  f->output = crn_data_feature_last(f->r, io->output);
  if (!f->output) return f->r->err->code;
  f->softmax = f->output->pre && f->output->pre_act && !strcmp(f->output->pre_act, "softmax");
  return CRN_OK;
}

/* Batch, time, the rest; *mask [B, T] of the frames, NULL without a dynamic time axis. */
static crn_data *batch_time_first(crn_run *r, const crn_data *d, crn_tensor **mask) {
  int perm[CRN_MAX_RANK], n = 0;
  const int batch = crn_tmpl_batch_axis(&d->t), time = d->t.time_axis;
  *mask = NULL;
  if (batch >= 0) perm[n++] = batch;
  if (time >= 0 && time != batch) perm[n++] = time;
  for (int i = 0; i < d->t.n; i++)
    if (i != batch && i != time) perm[n++] = i;
  crn_data *p = crn_data_permute(r, d, perm);
  if (!p || batch < 0 || time < 0) return p;
  crn_tensor *m = crn_data_mask(r, p, 1);
  const int64_t shape[2] = {p->v->shape[0], p->v->shape[1]};
  if (m && crn_t_size(m) == shape[0] * shape[1])
    *mask = crn_t_reshape(r, m, 2, shape);
  else if (m)
    *mask = crn_broadcast_to(r, crn_t_reshape(r, m, 2, (int64_t[]){1, shape[1]}), 2, shape);
  return p;
}

/* [B, T, …] -> [B * T, …]; what has no time axis stays. */
static crn_tensor *merged(crn_run *r, const crn_data *d, crn_tensor *v) {
  if (!v || d->t.time_axis < 0 || crn_tmpl_batch_axis(&d->t) < 0) return v;
  int64_t shape[CRN_MAX_RANK];
  shape[0] = v->shape[0] * v->shape[1];
  for (int i = 2; i < v->rank; i++) shape[i - 1] = v->shape[i];
  return crn_t_reshape(r, v, v->rank - 1, shape);
}

/* Valid frames of [B, T, …] or [T, B, …], sequence after sequence, in one copy (none if there is no padding). */
static crn_tensor *without_padding(crn_run *r, const crn_data *d) {
  const int batch = crn_tmpl_batch_axis(&d->t), time = d->t.time_axis;
  if (batch < 0 || batch > 1 || time < 0 || time > 1) return crn_data_flat_frames(r, d);
  const int64_t B = d->v->shape[batch], T = d->v->shape[time];
  crn_tensor *lens = crn_data_lens(r, d, time);
  int64_t n = 0, shape[CRN_MAX_RANK];
  if (!lens) return NULL;
  for (int64_t b = 0; b < B; b++) n += crn_t_i32(lens)[b];
  shape[0] = B * T;
  for (int i = 2; i < d->v->rank; i++) shape[i - 1] = d->v->shape[i];
  crn_tensor *all = crn_t_reshape(r, d->v, d->v->rank - 1, shape);
  if (batch == 0 && n == B * T) return all;
  crn_tensor *idx = crn_t_new(r, CRN_I32, 1, &n);
  for (int64_t b = 0, at = 0; idx && b < B; b++)
    for (int64_t t = 0; t < crn_t_i32(lens)[b]; t++)
      crn_t_i32(idx)[at++] = (int32_t)(batch == 0 ? b * T + t : t * B + b);
  return crn_gather(r, all, idx, 0);
}

static crn_tensor *frames_of(crn_frames *f, const crn_data *d, crn_tensor **mask) {
  crn_run *r = f->r;
  crn_tensor *v, *m = NULL;
  if (f->loss->use_flatten_frames) {
    v = without_padding(r, d);
  } else {
    crn_data *p = batch_time_first(r, d, &m);
    v = p ? merged(r, p, p->v) : NULL;
    if (m) m = crn_t_reshape(r, m, 1, (int64_t[]){crn_t_size(m)});
  }
  if (v && crn_tmpl_batch_axis(&d->t) < 0 && d->t.time_axis < 0) v = crn_expand_dims(r, v, 0); /* one frame */
  if (mask) *mask = m;
  return v;
}

crn_tensor *crn_frames_output(crn_frames *f) { return frames_of(f, f->output, &f->mask); }

crn_tensor *crn_frames_logits(crn_frames *f) {
  crn_data *d = crn_data_copy(f->r, f->output);
  if (!d) return NULL;
  d->v = f->output->pre;
  return frames_of(f, d, &f->mask);
}

crn_tensor *crn_frames_of(crn_frames *f, const crn_data *d) { return frames_of(f, d, NULL); }

/* With debug_runtime_sanity_checks: every sequence has as many frames in the target as in the output. */
static bool same_lengths(crn_frames *f) {
  const crn_data *o = f->output, *t = f->io->target;
  if (!crn_v_truth(crn_exec_config(f->x, "debug_runtime_sanity_checks"))) return true;
  if (o->t.time_axis < 0 || t->t.time_axis < 0) return true;
  crn_tensor *a = crn_data_lens(f->r, o, o->t.time_axis), *b = crn_data_lens(f->r, t, t->t.time_axis);
  if (!a || !b) return false;
  for (int64_t i = 0; i < a->shape[0] && i < b->shape[0]; i++) {
    if (crn_t_i32(a)[i] == crn_t_i32(b)[i]) continue;
    (void)crn_exec_fail(f->x, f->l, "sequence %lld has %d frames in the output, but %d in the target", (long long)i,
                        (int)crn_t_i32(a)[i], (int)crn_t_i32(b)[i]);
    return false;
  }
  return true;
}

crn_tensor *crn_frames_target(crn_frames *f, const crn_tensor *output) {
  crn_run *r = f->r;
  crn_tensor *mask = NULL;
  const crn_data *d = f->io->target->t.sparse ? f->io->target : crn_data_feature_last(r, f->io->target);
  crn_tensor *t = d && output && same_lengths(f) ? frames_of(f, d, &mask) : NULL;
  if (!t) return NULL;
  if (t->shape[0] != output->shape[0]) {
    (void)crn_exec_fail(f->x, f->l, "the output has %lld frames, but the target has %lld", (long long)output->shape[0],
                        (long long)t->shape[0]);
    return NULL;
  }
  const crn_dtype want = d->t.sparse ? CRN_I32 : r->real;
  if (t->dtype != want) t = crn_cast(r, t, want);
  if (mask && d->t.sparse) t = crn_mask_fill(r, t, mask, 0.0); /* padding may hold anything */
  return t;
}

crn_tensor *crn_frames_error(crn_frames *f, crn_tensor *output, crn_tensor *target) {
  crn_run *r = f->r;
  crn_tensor *best = crn_argmax(r, output, -1, CRN_I32);
  crn_tensor *want = f->io->target->t.sparse ? target : crn_argmax(r, target, -1, CRN_I32);
  return crn_cast(r, crn_binary(r, CRN_B_NOT_EQUAL, best, want), r->real);
}

static crn_tensor *cleared(crn_frames *f, crn_tensor *v) {
  if (!v || !f->mask) return v;
  int64_t shape[CRN_MAX_RANK] = {f->mask->shape[0]};
  for (int i = 1; i < v->rank; i++) shape[i] = 1;
  return crn_mask_fill(f->r, v, crn_t_reshape(f->r, f->mask, v->rank, shape), 0.0);
}

/* Per frame of whole sequences -> [B, T, …], so that sums per sequence stay possible. */
static crn_tensor *unmerged(crn_frames *f, crn_tensor *v) {
  const crn_data *d = f->output;
  if (!v || !f->mask) return v;
  int64_t shape[CRN_MAX_RANK] = {crn_data_n_seqs(d), d->v->shape[d->t.time_axis]};
  for (int i = 1; i < v->rank; i++) shape[i + 1] = v->shape[i];
  return crn_t_reshape(f->r, v, v->rank + 1, shape);
}

crn_status crn_frames_give(crn_frames *f, crn_tensor *value, crn_tensor *error) {
  f->io->value = unmerged(f, cleared(f, value));
  f->io->error = unmerged(f, cleared(f, error));
  return crn_run_failed(f->r) ? f->r->err->code : CRN_OK;
}

/* ---- construction ---- */

crn_status crn_frames_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  const crn_tmpl *t = &l->out;
  int frames = 0;
  for (int i = 0; i < t->n; i++) frames += t->dims[i]->kind == CRN_DIM_BATCH || i == t->time_axis;
  if (t->feature_axis >= 0 && t->n == frames + 1) return CRN_OK;
  crn_str s = {0};
  crn_tmpl_describe(t, &s);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "loss '%s' needs an output of frames and features, got %s",
                                 loss->desc->name, crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

crn_status crn_frames_check_dense(crn_build *b, crn_layer *l, const crn_loss *loss) {
  CRN_TRY(crn_frames_check(b, l, loss));
  if (!loss->target->out.sparse) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "loss '%s' needs a dense target, but '%s' is sparse", loss->desc->name,
                        loss->target->path);
}
