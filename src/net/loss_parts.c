/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses before they are summed: values per position [B, T] or per sequence [B], for files with scores by sequence.
 */
#include "net/exec.h"

static crn_tensor *mean_of_rest(crn_run *r, crn_tensor *v, int kept) {
  if (!v || v->rank <= kept) return v;
  return crn_reduce(r, CRN_R_MEAN, v, ((1u << v->rank) - 1u) & ~((1u << kept) - 1u), false);
}

static bool same_shape(const crn_tensor *a, const crn_tensor *b) {
  bool same = a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++) same = a->shape[i] == b->shape[i];
  return same;
}

/* Values of the output's own shape (as_is): batch and time first. */
static crn_tensor *axes_of_output(crn_run *r, const crn_data *o, crn_tensor *v) {
  int perm[CRN_MAX_RANK], n = 0;
  const int batch = crn_tmpl_batch_axis(&o->t), time = o->t.time_axis;
  perm[n++] = batch;
  if (time >= 0) perm[n++] = time;
  for (int i = 0; i < o->t.n; i++)
    if (i != batch && i != time) perm[n++] = i;
  return mean_of_rest(r, crn_transpose(r, v, perm), time >= 0 ? 2 : 1);
}

/* Frames as losses give them, flat without padding or not, -> [B, T]. */
static crn_tensor *positions(crn_run *r, const crn_data *o, crn_tensor *v, crn_tensor *lens) {
  const int64_t B = crn_data_n_seqs(o), T = o->v->shape[o->t.time_axis];
  int64_t n = 0;
  for (int64_t b = 0; b < B; b++) n += crn_t_i32(lens)[b];
  if (v->rank >= 2 && v->shape[0] == B && v->shape[1] == T) return mean_of_rest(r, v, 2);
  v = mean_of_rest(r, v, 1);
  if (v && v->shape[0] == B * T) return crn_t_reshape(r, v, 2, (int64_t[]){B, T});
  return v && v->shape[0] == n ? crn_unpack_frames(r, v, lens, T) : NULL;
}

static crn_tensor *part_of(crn_exec *x, const crn_loss *loss, const crn_data *o, crn_tensor *v, crn_tensor **lens) {
  crn_run *r = &x->run;
  const int batch = crn_tmpl_batch_axis(&o->t), time = o->t.time_axis;
  if (!v || v->rank == 0 || batch < 0) return NULL;
  if (v->dtype != r->real) v = crn_cast(r, v, r->real);
  const bool whole = loss->desc->flags & CRN_LOSS_RECURRENT || time < 0 || !o->len[time];
  if (v && same_shape(v, o->v))
    v = axes_of_output(r, o, v);
  else if (v && whole)
    v = v->shape[0] == crn_data_n_seqs(o) ? mean_of_rest(r, v, 1) : NULL;
  if (!v || whole) return v;
  *lens = crn_data_lens(r, o, time);
  return *lens ? positions(r, o, v, *lens) : NULL;
}

static void keep(crn_exec *x, int i, crn_tensor *value, crn_tensor *error, crn_tensor *lens) {
  x->loss_parts[i] = (crn_loss_parts){value, error, lens};
  crn_t_hold(value);
  crn_t_hold(error);
  crn_t_hold(lens);
}

crn_status crn_exec_keep_loss_parts(crn_exec *x, int i, const crn_loss_io *io) {
  const crn_loss *loss = x->net->losses[i];
  crn_tensor *lens = NULL, *value = part_of(x, loss, io->output, io->value, &lens);
  keep(x, i, value, part_of(x, loss, io->output, io->error, &lens), lens);
  return crn_run_failed(&x->run) ? x->run.err->code : CRN_OK;
}

crn_status crn_exec_keep_step_parts(crn_exec *x, int i, const crn_data *lens, crn_tensor *value, crn_tensor *error) {
  crn_run *r = &x->run;
  const int perm[2] = {1, 0};
  crn_tensor *v = value && value->rank == 2 ? crn_transpose(r, value, perm) : NULL;
  crn_tensor *e = error && error->rank == 2 ? crn_transpose(r, error, perm) : NULL;
  const crn_tensor *any = v ? v : e;
  crn_tensor *n = any && lens->v->rank == 1 && lens->v->shape[0] == any->shape[0] ? lens->v : NULL;
  if (n) keep(x, i, v, e, n);
  return crn_run_failed(r) ? r->err->code : CRN_OK;
}
