/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses in a network, runs: computed when the layer ran, in loops per step, summed into the objective (SPEC 5).
 */
#include <math.h>
#include <string.h>

#include "net/exec.h"

static int loss_index(const crn_net *net, const crn_loss *loss) {
  for (int i = 0; i < net->n_losses; i++)
    if (net->losses[i] == loss) return i;
  return -1;
}

static double sum_of(const crn_tensor *t) {
  double s = 0;
  for (int64_t i = 0, n = crn_t_size(t); i < n; i++) s += crn_t_get(t, i);
  return s;
}

/* What a norm factor counts (losses.md): frames of all sequences; positions of the dynamic axes of an output without
 * batch axis; sequences; one. */
static double count_frames(const crn_data *output, const crn_data *target) {
  const crn_data *d = target ? target : output;
  if (crn_tmpl_batch_axis(&output->t) < 0) {
    double n = 1;
    for (int i = 0; i < output->t.n; i++)
      if (crn_dim_is_dynamic(output->t.dims[i])) n *= (double)output->v->shape[i];
    return n;
  }
  const int time = d->t.time_axis;
  if (output->t.time_axis < 0 || time < 0) return (double)crn_data_n_seqs(output);
  if (!d->len[time]) return (double)(d->v->shape[time] * crn_data_n_seqs(d));
  const double s = sum_of(d->len[time]->v);
  return crn_tmpl_batch_axis(&d->len[time]->t) < 0 ? s * (double)crn_data_n_seqs(d) : s;
}

static double norm_factor(crn_exec *x, const crn_loss *loss, const crn_loss_io *io) {
  double f;
  if (io->own_norm) return 1.0 / io->n_frames;
  if (loss->norm_layer) {
    const crn_data *d = crn_exec_slot(x, loss->norm_layer)->out;
    return d && d->v ? sum_of(d->v) : 1;
  }
  if (loss->inv_norm_layer) {
    const crn_data *d = crn_exec_slot(x, loss->inv_norm_layer)->out;
    if (!d || !d->v) return 1;
    crn_tensor *m = crn_data_mask_all(&x->run, d);
    crn_tensor *v = m ? crn_mask_fill(&x->run, d->v, m, 0.0) : d->v;
    return v ? 1.0 / sum_of(v) : 1;
  }
  if (!crn_v_is_none(loss->custom_norm_factor) && crn_v_to_float(loss->custom_norm_factor, &f)) return f;
  if (!crn_v_is_none(loss->custom_inv_norm_factor) && crn_v_to_float(loss->custom_inv_norm_factor, &f)) return 1.0 / f;
  const double n = io->n_frames >= 0 ? io->n_frames : count_frames(io->output, io->target);
  return 1.0 / n;
}

static crn_status add_result(crn_exec *x, const crn_loss *loss, crn_tensor *value, double error, bool has_error,
                             double norm) {
  crn_run *r = &x->run;
  const int i = loss_index(x->net, loss);
  if (i < 0) return CRN_OK;
  crn_loss_result *res = &x->losses[i];
  res->norm = norm;
  res->has_error = has_error;
  res->error = error;
  if (!value) return CRN_OK;
  if (value->dtype != r->real) value = crn_cast(r, value, r->real);
  crn_tensor *sum = crn_reduce_all(r, CRN_R_SUM, value);
  if (!sum) return r->err->code;
  res->has_cost = true;
  res->cost = crn_t_get(sum, 0);
  x->total_loss += loss->scale * res->cost * (loss->use_normalized_loss ? norm : 1.0);
  if (loss->scale == 0) return CRN_OK;
  crn_tensor *part = crn_scale(r, sum, loss->scale * (loss->use_normalized_loss ? norm : 1.0));
  x->loss_values[i] = part;
  crn_t_hold(part);
  return part ? CRN_OK : r->err->code;
}

crn_status crn_exec_losses(crn_exec *x, crn_layer *l) {
  crn_run *r = &x->run;
  if (l->body->loop) return crn_exec_loop_losses(x, l, l->body->loop);
  for (crn_loss *loss = l->loss; loss; loss = loss->next) {
    crn_loss_io io = {.output = crn_exec_slot(x, l)->out, .n_frames = -1};
    if (loss->target && !(io.target = crn_value_of(x, l, loss->target))) return r->err->code;
    if (l->common.only_on_eval > 0 && r->train) {
      CRN_TRY(add_result(x, loss, crn_t_scalar(r, r->real, 0), 0, true, norm_factor(x, loss, &io)));
      continue;
    }
    crn_status st = loss->desc->compute(x, l, loss, &io);
    if (st == CRN_OK && crn_run_failed(r)) st = r->err->code;
    if (st == CRN_OK && !io.value && !io.error) st = crn_exec_fail(x, l, "gives neither a value nor an error");
    if (st == CRN_OK && x->keep_loss_parts) st = crn_exec_keep_loss_parts(x, loss_index(x->net, loss), &io);
    if (st == CRN_OK)
      st = add_result(x, loss, io.value, io.error ? sum_of(io.error) : 0, io.error != NULL, norm_factor(x, loss, &io));
    if (st != CRN_OK) {
      (void)crn_err_where(r->err, "loss '%s'", loss->desc->name);
      return st;
    }
  }
  return CRN_OK;
}

/* ---- inside loops: per step, masked and summed at the end ---- */

static crn_tensor *sum_per_sequence(crn_exec *x, crn_tensor *v) {
  crn_run *r = &x->run;
  if (!v) return NULL;
  if (v->dtype != r->real) v = crn_cast(r, v, r->real);
  if (!v || v->rank <= 1) return v;
  return crn_reduce(r, CRN_R_SUM, v, ((1u << v->rank) - 1u) & ~1u, false);
}

crn_status crn_exec_loop_losses(crn_exec *x, crn_layer *l, const crn_loop *loop) {
  crn_run *r = &x->run;
  crn_loop_run *lr = crn_exec_loop(x, loop);
  for (crn_loss *loss = l->loss; loss; loss = loss->next) {
    const int i = loss_index(x->net, loss);
    if (i < 0) continue;
    crn_loss_io io = {.output = crn_exec_slot(x, l)->out, .n_frames = -1};
    if (loss->target && !(io.target = crn_value_of(x, l, loss->target))) return r->err->code;
    if (l->common.only_on_eval > 0 && r->train) {
      const int64_t n = crn_data_n_seqs(io.output);
      io.value = crn_t_zeros(r, r->real, 1, &n);
      io.error = io.value;
    } else {
      crn_status st = loss->desc->compute(x, l, loss, &io);
      if (st == CRN_OK && !io.value && !io.error && !crn_run_failed(r))
        st = crn_exec_fail(x, l, "gives neither a value nor an error");
      if (st != CRN_OK) {
        (void)crn_err_where(r->err, "loss '%s'", loss->desc->name);
        return st;
      }
    }
    if (crn_run_failed(r)) return r->err->code;
    lr->loss_values[i][lr->step] = sum_per_sequence(x, io.value);
    lr->loss_errors[i][lr->step] = sum_per_sequence(x, io.error);
    crn_t_hold(lr->loss_values[i][lr->step]);
    crn_t_hold(lr->loss_errors[i][lr->step]);
    if (crn_run_failed(r)) return r->err->code;
  }
  return CRN_OK;
}

/* [T, B] from the steps, 0 beyond the lengths. */
static crn_tensor *masked_steps(crn_exec *x, crn_loop_run *lr, crn_tensor **steps, double *n_frames) {
  crn_run *r = &x->run;
  if (lr->n_steps == 0 || !steps[0]) return NULL;
  for (int64_t t = 0; t < lr->n_steps; t++) { /* steps before the first decision stand for equal hypotheses */
    const int64_t last = steps[lr->n_steps - 1]->rank ? steps[lr->n_steps - 1]->shape[0] : 0;
    if (steps[t]->rank == 1 && steps[t]->shape[0] < last && last % steps[t]->shape[0] == 0)
      steps[t] = crn_repeat0(r, steps[t], last / steps[t]->shape[0]);
    if (!steps[t]) return NULL;
  }
  crn_tensor *v = crn_stack(r, (int)lr->n_steps, steps, 0);
  if (!v) return NULL;
  crn_tensor *len = lr->lens->v;
  const int64_t rep = v->rank > 1 && len->shape[0] ? v->shape[1] / len->shape[0] : 1;
  if (rep > 1) len = crn_repeat0(r, len, rep);
  const int64_t ts[2] = {lr->n_steps, 1};
  crn_tensor *t = crn_t_reshape(r, crn_range(r, CRN_I32, 0, lr->n_steps), 2, ts);
  crn_tensor *mask = crn_binary(r, CRN_B_LESS, t, len);
  *n_frames = len ? sum_of(len) : 0;
  return v->rank > 1 ? crn_mask_fill(r, v, mask, 0.0) : v;
}

crn_status crn_exec_loop_losses_end(crn_exec *x, const crn_loop *loop) {
  crn_run *r = &x->run;
  crn_loop_run *lr = crn_exec_loop(x, loop);
  for (int i = 0; i < x->net->n_losses; i++) {
    const crn_loss *loss = x->net->losses[i];
    if (loss->layer->body != &loop->body || lr->cap_steps == 0) continue;
    double n_frames = 0;
    crn_tensor *value = masked_steps(x, lr, lr->loss_values[i], &n_frames);
    crn_tensor *error = masked_steps(x, lr, lr->loss_errors[i], &n_frames);
    if (crn_run_failed(r)) return r->err->code;
    if (x->keep_loss_parts) CRN_TRY(crn_exec_keep_step_parts(x, i, lr->lens, value, error));
    crn_loss_io io = {.output = crn_exec_slot(x, loss->layer)->out, .n_frames = n_frames};
    CRN_TRY(add_result(x, loss, value, error ? sum_of(error) : 0, error != NULL, norm_factor(x, loss, &io)));
  }
  return CRN_OK;
}

crn_status crn_exec_objective(crn_exec *x) {
  crn_run *r = &x->run;
  crn_tensor *total = NULL;
  if (!x->net->eval) return CRN_OK;
  for (int i = 0; i < x->net->n_losses; i++)
    if (x->loss_values[i]) total = total ? crn_add(r, total, x->loss_values[i]) : x->loss_values[i];
  CRN_TRY(crn_exec_add_constraints(x, &total));
  x->objective = total;
  return crn_run_failed(r) ? r->err->code : CRN_OK;
}
