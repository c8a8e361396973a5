/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a dataset: batches from a feeding thread, a step each, scores, the updater in training.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "data/feed.h"
#include "train/engine.h"
#include "train/progress.h"

static double now_secs(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- updating ------------------------------------------------------------------------------------------------------- */

crn_status crn_engine_make_updater(crn_engine *e, crn_err *err) {
  const crn_net *net = e->train_net;
  const size_t n = (size_t)net->n_params;
  e->update_params = CRN_ARENA_ARRAY(&e->arena, crn_update_param, n + 1);
  e->update_grads = CRN_ARENA_ARRAY(&e->arena, crn_update_grad, n + 1);
  e->row_indices = CRN_ARENA_ARRAY(&e->arena, int32_t *, n + 1);
  e->row_values = CRN_ARENA_ARRAY(&e->arena, char *, n + 1);
  e->row_caps = CRN_ARENA_ARRAY(&e->arena, int64_t, n + 1);
  if (!e->update_params || !e->update_grads || !e->row_indices || !e->row_values || !e->row_caps) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) {
    crn_param *p = net->params[i];
    const int64_t row_len = p->spec.rank > 1 ? crn_t_count(p->spec.rank - 1, p->spec.shape + 1) : 1;
    e->update_params[i] = (crn_update_param){.name = p->path, .w = p->st.data, .is_double = p->dtype == CRN_F64, .rows = row_len ? p->size / row_len : 0, .row_len = row_len,
                                             .l2 = p->L2, .updater_opts = p->updater_opts, .trainable = net->trainable[i] && crn_dtype_is_float(p->dtype) && !p->spec.custom_update};
  }
  return crn_updater_new(e->values, e->update_params, n, e->seed, e->train_exec->threads, &e->log, &e->updater, err);
}

/* Occurrences of gathered rows, oldest first, in buffers that are reused. */
static crn_status collect_rows(crn_engine *e, size_t i, crn_param *p, crn_err *err) {
  crn_storage *st = &p->st;
  const size_t row_bytes = (size_t)st->row_len * crn_dtype_bytes(p->dtype);
  int64_t n = 0;
  for (const crn_grad_rows *g = st->rows; g; g = g->next) n += g->n;
  if (n > e->row_caps[i]) {
    int32_t *idx = crn_realloc(e->row_indices[i], sizeof(int32_t) * (size_t)(2 * n));
    if (idx) e->row_indices[i] = idx;
    char *v = crn_realloc(e->row_values[i], row_bytes * (size_t)(2 * n));
    if (v) e->row_values[i] = v;
    if (!idx || !v) return crn_err_memory(err);
    e->row_caps[i] = 2 * n;
  }
  int64_t at = n;
  for (const crn_grad_rows *g = st->rows; g; g = g->next) {
    at -= g->n;
    for (int64_t k = 0; k < g->n; k++) e->row_indices[i][at + k] = (int32_t)g->indices[k];
    memcpy(e->row_values[i] + (size_t)at * row_bytes, g->rows, (size_t)g->n * row_bytes);
  }
  e->update_grads[i] = (crn_update_grad){.kind = CRN_GRAD_ROWS, .values = e->row_values[i], .indices = e->row_indices[i], .n_indices = n};
  return CRN_OK;
}

crn_status crn_engine_update(crn_engine *e, double lr, int64_t epoch_step, crn_err *err) {
  const crn_net *net = e->train_net;
  for (int i = 0; i < net->n_params; i++) {
    crn_param *p = net->params[i];
    e->update_grads[i] = (crn_update_grad){.kind = CRN_GRAD_NONE};
    if (p->st.rows && !p->st.grad && p->st.row_len == e->update_params[i].row_len) CRN_TRY(collect_rows(e, (size_t)i, p, err));
    else {
      union {
        const void *c;
        void *m;
      } g = {.c = crn_exec_grad(e->train_exec, p, err)};
      if (g.m) e->update_grads[i] = (crn_update_grad){.kind = CRN_GRAD_DENSE, .values = g.m};
    }
  }
  const crn_update_now now = {.lr = lr, .global_step = e->store->global_step, .epoch_step = epoch_step};
  CRN_TRY(crn_updater_step(e->updater, e->update_grads, &now, err));
  for (int i = 0; i < net->n_params; i++)
    if (e->update_params[i].trainable) crn_weight_changed(&net->params[i]->st);
  crn_exec_zero_grads(e->train_exec);
  return CRN_OK;
}

/* ---- one step ------------------------------------------------------------------------------------------------------- */

static crn_status count_scores(const crn_pass *p, crn_err *err) {
  const crn_exec *x = p->exec;
  if (!p->scores) return CRN_OK;
  for (int i = 0; i < p->net->n_losses; i++) {
    const crn_loss_result *r = &x->losses[i];
    const crn_loss *l = p->net->losses[i];
    if (p->train && l->layer->common.only_on_eval > 0) continue;
    if (r->has_cost) CRN_TRY(crn_scores_add(p->scores, l->name, CRN_SCORE_COST, r->cost, r->norm, err));
    if (r->has_error) CRN_TRY(crn_scores_add(p->scores, l->name, CRN_SCORE_ERROR, r->error, r->norm, err));
  }
  crn_scores_end_step(p->scores, x->objective ? crn_t_get(x->objective, 0) : 0);
  return CRN_OK;
}

/* Sequences without any frame: there is nothing to learn from. */
static bool is_empty(const crn_batch *b) {
  bool any = b->n_seqs == 0;
  for (size_t i = 0; i < b->n_arrays; i++)
    if (b->arrays[i].lengths) {
      if (b->arrays[i].shape[1] > 0) return false;
      any = true;
    }
  return any;
}

static bool is_broken(const crn_engine *e, const crn_pass *p) {
  return e->stop_on_nonfinite && p->scores && !crn_scores_finite(p->scores);
}

static crn_status one_step(crn_engine *e, crn_pass *p, const crn_batch *b, crn_err *err) {
  crn_exec *x = p->exec;
  crn_exec_begin(x, p->train, (uint64_t)e->store->global_step);
  crn_status st = crn_engine_feed(x, b, err);
  if (st != CRN_OK) crn_exec_report(x, err);
  if (st == CRN_OK) st = crn_exec_forward(x, err);
  if (st == CRN_OK && p->train && x->objective) st = crn_exec_backward(x, err);
  if (st != CRN_OK) return st;
  CRN_TRY(count_scores(p, err));
  if (p->train) {
    double lr;
    CRN_TRY(crn_lr_dynamic(e->lr, p->lr, e->store->global_step, &lr, err));
    if (p->n_steps == 0) CRN_TRY(crn_lr_put_score(e->lr, e->epoch, ":meta:effective_learning_rate", lr, err));
    if (x->objective && !is_empty(b) && !is_broken(e, p)) CRN_TRY(crn_engine_update(e, lr, p->n_steps, err));
    e->store->global_step++;
  }
  crn_exec_apply_assigns(x);
  return p->each ? p->each(p->user, e, b, err) : CRN_OK;
}

static void log_step(crn_engine *e, const crn_pass *p, const crn_batch *b, double step_secs, double elapsed, double complete) {
  crn_step_item items[80];
  size_t n = 0;
  char names[80][96];
  if (e->log.verbosity < 5) return;
  for (int i = 0; i < p->net->n_losses && n + 2 < 60; i++) {
    const crn_loss_result *r = &p->exec->losses[i];
    if (r->has_cost) {
      (void)snprintf(names[n], sizeof(names[n]), "cost:%s", p->net->losses[i]->name);
      items[n] = (crn_step_item){.name = names[n], .kind = CRN_ITEM_DOUBLE, .number = r->cost * r->norm};
      n++;
    }
    if (r->has_error) {
      (void)snprintf(names[n], sizeof(names[n]), "error:%s", p->net->losses[i]->name);
      items[n] = (crn_step_item){.name = names[n], .kind = CRN_ITEM_DOUBLE, .number = r->error * r->norm};
      n++;
    }
  }
  if (p->exec->objective) items[n++] = (crn_step_item){.name = "loss", .kind = CRN_ITEM_FLOAT, .number = crn_t_get(p->exec->objective, 0)};
  for (size_t i = 0; e->log_sizes && i < b->n_arrays && n < 76; i++) {
    if (!b->arrays[i].lengths) continue;
    (void)snprintf(names[n], sizeof(names[n]), "max_size:%s", b->arrays[i].name);
    items[n] = (crn_step_item){.name = names[n], .kind = CRN_ITEM_INT, .number = (double)b->arrays[i].shape[1]};
    n++;
  }
  if (e->log_sizes) items[n++] = (crn_step_item){.name = "num_seqs", .kind = CRN_ITEM_INT, .number = (double)b->n_seqs};
  const crn_step_time t = {.step_secs = step_secs, .elapsed_secs = elapsed, .complete = complete};
  crn_log_step(&e->log, p->label, p->n_steps, items, n, &t);
}

/* Run the step once more, looking for where inf or nan began; parameters are as they were. */
static void add_origin(crn_engine *e, const crn_pass *p, const crn_batch *b, crn_err *err) {
  crn_exec *x = p->exec;
  crn_err origin = {0};
  crn_exec_check_numerics(x);
  crn_exec_begin(x, p->train, (uint64_t)(e->store->global_step - (p->train ? 1 : 0)));
  if (crn_engine_feed(x, b, &origin) == CRN_OK && crn_exec_forward(x, &origin) != CRN_OK)
    crn_err_append(err, "\nit began in %s", crn_err_text(&origin));
  crn_err_clear(&origin);
}

static crn_status check_finite(crn_engine *e, const crn_pass *p, const crn_batch *b, crn_err *err) {
  if (!is_broken(e, p)) return CRN_OK;
  crn_str s = {0};
  crn_scores_format_sums(p->scores, &s);
  crn_logf(&e->log, 1, "Model seems broken, got inf or nan score.");
  crn_logf(&e->log, 1, "%s", crn_str_get(&s));
  crn_str_free(&s);
  (void)crn_fail(err, CRN_E_RUNTIME, "%s, step %lld: inf or nan score (stop_on_nonfinite_train_score)", p->label, (long long)p->n_steps);
  add_origin(e, p, b, err);
  crn_step_report(b, e->epoch, p->n_steps, err);
  return CRN_E_RUNTIME;
}

static double loss_of(const crn_pass *p) {
  for (int i = 0; i < p->net->n_losses; i++)
    if (p->exec->losses[i].has_cost) return p->exec->losses[i].cost * p->exec->losses[i].norm;
  return (double)NAN;
}

crn_status crn_engine_pass(crn_engine *e, crn_pass *p, crn_err *err) {
  crn_batcher *batcher = NULL;
  crn_feed *feed = NULL;
  const double start = now_secs();
  double computing = 0;
  p->n_steps = 0;
  crn_status st = crn_engine_batcher(e, p->net, p->dataset, p->use, &batcher, err);
  if (st == CRN_OK) st = crn_feed_new(batcher, 8, &feed, err);
  crn_exec_new_epoch(p->exec);
  if (e->hooks.pass) e->hooks.pass(e->hooks.user, p->label);
  while (st == CRN_OK) {
    crn_batch *b = NULL;
    st = crn_feed_next(feed, &b, err);
    if (st != CRN_OK || !b) break;
    const double t0 = now_secs();
    st = one_step(e, p, b, err);
    if (st != CRN_OK && st != CRN_E_MEMORY) crn_step_report(b, e->epoch, p->n_steps, err);
    const double t1 = now_secs();
    computing += t1 - t0;
    const int64_t total = crn_dataset_estimated_num_seqs(p->dataset);
    const double complete = total > 0 ? (double)b->seqs_done / (double)total : -1;
    if (st == CRN_OK) {
      log_step(e, p, b, t1 - t0, t1 - start, complete);
      st = check_finite(e, p, b, err);
    }
    if (e->hooks.step) e->hooks.step(e->hooks.user, p->n_steps, complete, loss_of(p));
    p->n_steps++;
    crn_feed_give_back(feed, b);
    if (st == CRN_OK && e->hooks.stop && e->hooks.stop(e->hooks.user)) st = crn_fail(err, CRN_E_INTERRUPTED, "interrupted in %s, step %lld", p->label, (long long)p->n_steps);
  }
  crn_feed_free(feed);
  crn_batcher_free(batcher);
  if (e->hooks.pass_end) e->hooks.pass_end(e->hooks.user);
  p->seconds = now_secs() - start;
  if (st == CRN_OK) crn_log_pass_end(&e->log, p->label, p->n_steps, p->seconds, computing);
  return st;
}
