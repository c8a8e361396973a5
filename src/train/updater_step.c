/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of the updater, as phases over all parameters; each phase is a list of tasks (spans of one array) that
 * threads may run in any order. A span's length doesn't depend on the number of threads, and sums are added in the
 * order of the tasks.
 *
 *   raw norms -> accumulate -> noise, clip by value -> norms for clip_norm -> factor, filter -> [rows: add repeats]
 *   -> decoupled decay -> optimizer
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "train/updater.h"
#include "train/updater_internal.h"

enum { CHUNK = 16384, COLUMNS = 128 }; /* elements a task; columns a task where rows must stay in order */

/* ---- tasks ----------------------------------------------------------------------------------------------------- */

static crn_status add_tasks(crn_updater *u, size_t param, int64_t total, int64_t chunk, crn_err *err) {
  for (int64_t at = 0; at < total; at += chunk) {
    if (u->n_tasks == u->cap_tasks) {
      size_t cap = u->cap_tasks ? 2 * u->cap_tasks : 256;
      crn_update_task *tasks = crn_realloc(u->tasks, cap * sizeof *tasks);
      if (!tasks) return crn_err_memory(err);
      u->tasks = tasks;
      double *partial = crn_realloc(u->partial, cap * sizeof *partial);
      if (!partial) return crn_err_memory(err);
      u->partial = partial;
      u->cap_tasks = cap;
    }
    u->tasks[u->n_tasks++] = (crn_update_task){param, at, at + chunk < total ? at + chunk : total};
  }
  return CRN_OK;
}

/* Run fn over the listed tasks and clear the list. */
static void run_tasks(crn_updater *u, void (*fn)(void *updater, int64_t task)) {
  if (u->n_tasks > 0) crn_threads_run(u->threads, (int64_t)u->n_tasks, fn, u);
  u->n_tasks = 0;
}

typedef bool (*wanted_fn)(const crn_update_state *s);

/* fn over the values of the gradients of all wanted parameters. */
static crn_status over_values(crn_updater *u, wanted_fn wanted, void (*fn)(void *updater, int64_t task), crn_err *err) {
  for (size_t i = 0; i < u->n; i++)
    if (wanted(&u->states[i])) CRN_TRY(add_tasks(u, i, u->states[i].n_values, CHUNK, err));
  run_tasks(u, fn);
  return CRN_OK;
}

static void sum_sq_task(void *updater, int64_t task) {
  crn_updater *u = updater;
  const crn_update_task *k = &u->tasks[task];
  const crn_update_state *s = &u->states[k->param];
  u->partial[task] = s->math->sum_sq(s->grad.values, k->begin, k->end - k->begin);
}

/* norm_sq of all wanted parameters. */
static crn_status sums_of_squares(crn_updater *u, wanted_fn wanted, crn_err *err) {
  for (size_t i = 0; i < u->n; i++)
    if (wanted(&u->states[i])) u->states[i].norm_sq = 0;
  for (size_t i = 0; i < u->n; i++)
    if (wanted(&u->states[i])) CRN_TRY(add_tasks(u, i, u->states[i].n_values, CHUNK, err));
  size_t n = u->n_tasks;
  run_tasks(u, sum_sq_task);
  for (size_t k = 0; k < n; k++) u->states[u->tasks[k].param].norm_sq += u->partial[k];
  return CRN_OK;
}

/* ---- which parameters take part ---------------------------------------------------------------------------------- */

static bool is_present(const crn_update_state *s) { return s->present; }
static bool is_applied_rows(const crn_update_state *s) { return s->applied && s->grad.kind == CRN_GRAD_ROWS; }

static bool wants_noise_or_clip(const crn_update_state *s) {
  return s->applied && (s->change.noise || s->change.clip > 0);
}

static bool wants_own_norm(const crn_update_state *s) {
  return s->applied && (s->opts.clip_norm > 0 || s->opts.clip_avg_norm > 0);
}

static bool wants_final_norm(const crn_update_state *s) { return s->applied && s->optimizer.desc->needs_norm; }

/* Rows and gradients whose final norm is needed are scaled before the update, others on the way. */
static bool wants_early_change(const crn_update_state *s) { return is_applied_rows(s) || wants_final_norm(s); }

static crn_status check_rows(const crn_update_state *s, crn_err *err) {
  for (int64_t i = 0; i < s->grad.n_indices; i++)
    if (s->grad.indices[i] < 0 || s->grad.indices[i] >= s->param.rows)
      return crn_fail(err, CRN_E_INTERNAL, "gradient of parameter '%s' names row %d of %lld", s->param.name,
                      (int)s->grad.indices[i], (long long)s->param.rows);
  return CRN_OK;
}

static void begin_one(crn_updater *u, crn_update_state *s, const crn_update_grad *grad, const crn_update_now *now) {
  int64_t cycle = s->opts.accumulate > 1 ? s->opts.accumulate : 1, phase = now->global_step % cycle;
  s->grad = *grad;
  s->present = s->param.trainable && grad->kind != CRN_GRAD_NONE;
  s->n_values = grad->kind == CRN_GRAD_ROWS ? grad->n_indices * s->param.row_len : s->n;
  if (cycle == 1 || phase == 0) s->sum_started = false;
  s->applied = s->param.trainable && phase == cycle - 1 && (s->present || s->sum_started);
  s->changed_early = false;
  s->change = (crn_grad_change){.factor = 1, .clip = s->opts.clip, .filter = s->opts.filter};
  if (s->opts.noise > 0) {
    s->rng = crn_rng_make(u->seed, (uint64_t)now->global_step, s->param.name);
    s->change.noise = &s->rng;
    s->change.noise_sigma = s->opts.noise;
  }
}

static crn_status begin(crn_updater *u, const crn_update_grad *grads, const crn_update_now *now, crn_err *err) {
  bool any = false;
  u->n_tasks = 0;
  for (size_t k = 0; k < u->n_tags; k++) u->norms[k] = NAN;
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    if (u->reset_every > 0 && now->epoch_step % u->reset_every == 0) crn_updater_reset_state(s);
    begin_one(u, s, &grads[i], now);
    if (s->present && s->grad.kind == CRN_GRAD_ROWS) CRN_TRY(check_rows(s, err));
    any = any || s->present;
  }
  return any ? CRN_OK : crn_fail(err, CRN_E_CONFIG, "no parameter has a gradient: the loss depends on none of them");
}

/* ---- raw norms ------------------------------------------------------------------------------------------------- */

static bool has_tag(const crn_update_state *s, const char *tag) {
  if (!tag) return true;
  for (size_t i = 0; i < crn_v_len(s->tags); i++)
    if (strcmp(crn_v_cstr(crn_v_at(s->tags, i)), tag) == 0) return true;
  return false;
}

static crn_status raw_norms(crn_updater *u, crn_err *err) {
  if (!u->need_norms) return CRN_OK;
  CRN_TRY(sums_of_squares(u, is_present, err));
  for (size_t k = 0; k < u->n_tags; k++) {
    double sum = 0;
    for (size_t i = 0; i < u->n; i++)
      if (u->states[i].present && has_tag(&u->states[i], u->tags[k])) sum += u->states[i].norm_sq;
    u->norms[k] = sqrt(sum);
  }
  return CRN_OK;
}

/* ---- sums over steps, and rows that become dense ----------------------------------------------------------------- */

static void start_sum_task(void *updater, int64_t task) {
  crn_updater *u = updater;
  const crn_update_task *k = &u->tasks[task];
  const crn_update_state *s = &u->states[k->param];
  int64_t n = k->end - k->begin;
  if (s->grad.kind == CRN_GRAD_ROWS && !s->sum_started)
    s->math->fill(s->sum, k->begin, n, 0);
  else if (s->grad.kind == CRN_GRAD_DENSE && !s->sum_started)
    s->math->copy(s->sum, s->grad.values, k->begin, n);
  else if (s->grad.kind == CRN_GRAD_DENSE)
    s->math->add(s->sum, k->begin, s->grad.values, k->begin, n);
}

static void scatter_task(void *updater, int64_t task) {
  crn_updater *u = updater;
  const crn_update_task *k = &u->tasks[task];
  const crn_update_state *s = &u->states[k->param];
  int64_t len = s->param.row_len;
  for (int64_t i = 0; i < s->grad.n_indices; i++)
    s->math->add(s->sum, s->grad.indices[i] * len + k->begin, s->grad.values, i * len + k->begin, k->end - k->begin);
}

/* Add the gradients of the wanted parameters to their sums; applied ones then stand for the gradient. */
static crn_status into_sums(crn_updater *u, wanted_fn wanted, crn_err *err) {
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    if (!wanted(s)) continue;
    if (!s->sum) s->sum = crn_malloc((size_t)s->n * s->math->size + 1);
    if (!s->sum) return crn_err_memory(err);
    CRN_TRY(add_tasks(u, i, s->n, CHUNK, err));
  }
  run_tasks(u, start_sum_task);
  for (size_t i = 0; i < u->n; i++)
    if (wanted(&u->states[i]) && u->states[i].grad.kind == CRN_GRAD_ROWS)
      CRN_TRY(add_tasks(u, i, u->states[i].param.row_len, COLUMNS, err));
  run_tasks(u, scatter_task);
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    if (!wanted(s)) continue;
    s->sum_started = true;
    s->grad.kind = CRN_GRAD_DENSE;
    s->grad.values = s->sum;
    s->n_values = s->n;
  }
  return CRN_OK;
}

static bool accumulates(const crn_update_state *s) { return s->present && s->opts.accumulate > 1; }
static bool noisy_rows(const crn_update_state *s) { return is_applied_rows(s) && s->change.noise; }
static bool final_norm_rows(const crn_update_state *s) { return is_applied_rows(s) && wants_final_norm(s); }

static crn_status accumulate(crn_updater *u, crn_err *err) {
  CRN_TRY(into_sums(u, accumulates, err));
  for (size_t i = 0; i < u->n; i++) { /* nothing came in the last step of the cycle: the sum of the others counts */
    crn_update_state *s = &u->states[i];
    if (!s->applied || s->present) continue;
    s->grad = (crn_update_grad){.kind = CRN_GRAD_DENSE, .values = s->sum};
    s->n_values = s->n;
  }
  return into_sums(u, noisy_rows, err);
}

/* ---- clipping ---------------------------------------------------------------------------------------------------- */

static void noise_and_clip_task(void *updater, int64_t task) {
  crn_updater *u = updater;
  const crn_update_task *k = &u->tasks[task];
  const crn_update_state *s = &u->states[k->param];
  s->math->noise_and_clip(s->grad.values, k->begin, k->end - k->begin, &s->change);
}

static void scale_and_filter_task(void *updater, int64_t task) {
  crn_updater *u = updater;
  const crn_update_task *k = &u->tasks[task];
  const crn_update_state *s = &u->states[k->param];
  s->math->scale_and_filter(s->grad.values, k->begin, k->end - k->begin, &s->change);
}

/* c / max(norm, c); nan stays nan. */
static double shrink(double c, double norm) { return norm <= c ? 1 : c / norm; }

/* The clips by norm follow each other; the norm after the first is known without a second pass. */
static void choose_factor(const crn_updater *u, crn_update_state *s) {
  const crn_update_options *o = &s->opts;
  double norm = sqrt(s->norm_sq), factor = 1;
  if (o->clip_norm > 0) factor = shrink(o->clip_norm, norm);
  if (o->clip_avg_norm > 0 && s->n_values > 0) factor *= shrink(o->clip_avg_norm, norm * factor / (double)s->n_values);
  if (o->clip_global_norm > 0) {
    double global = u->norms[s->clip_tag];
    factor *= isfinite(global) ? shrink(o->clip_global_norm, global) : NAN;
  }
  s->change.factor = factor;
  if (o->zero_above > 0) s->change.zero = !(u->norms[s->zero_tag] <= o->zero_above);
}

static crn_status clip(crn_updater *u, crn_err *err) {
  CRN_TRY(over_values(u, wants_noise_or_clip, noise_and_clip_task, err));
  CRN_TRY(sums_of_squares(u, wants_own_norm, err));
  for (size_t i = 0; i < u->n; i++)
    if (u->states[i].applied) choose_factor(u, &u->states[i]);
  CRN_TRY(over_values(u, wants_early_change, scale_and_filter_task, err));
  for (size_t i = 0; i < u->n; i++) u->states[i].changed_early = wants_early_change(&u->states[i]);
  for (size_t i = 0; i < u->n; i++)
    if (final_norm_rows(&u->states[i])) u->states[i].sum_started = false;
  CRN_TRY(into_sums(u, final_norm_rows, err));
  return sums_of_squares(u, wants_final_norm, err);
}

/* ---- rows ----------------------------------------------------------------------------------------------------------
 */

static bool adds_repeats(const crn_update_state *s) {
  return is_applied_rows(s) && s->optimizer.desc->rows != CRN_ROWS_ONE_BY_ONE;
}

static void add_repeats_task(void *updater, int64_t task) {
  crn_updater *u = updater;
  const crn_update_task *k = &u->tasks[task];
  const crn_update_state *s = &u->states[k->param];
  int64_t len = s->param.row_len;
  for (int64_t i = 0; i < s->grad.n_indices; i++) {
    int64_t first = s->first[s->grad.indices[i]];
    if (first != i)
      s->math->add(s->grad.values, first * len + k->begin, s->grad.values, i * len + k->begin, k->end - k->begin);
  }
}

static crn_status make_row_tables(crn_update_state *s, crn_err *err) {
  if (s->first) return CRN_OK;
  s->first = crn_malloc((size_t)s->param.rows * sizeof *s->first);
  s->zero_row = crn_calloc((size_t)s->param.row_len, s->math->size);
  if (!s->first || !s->zero_row) {
    crn_free(s->first);
    crn_free(s->zero_row);
    s->first = NULL;
    s->zero_row = NULL;
    return crn_err_memory(err);
  }
  for (int64_t r = 0; r < s->param.rows; r++) s->first[r] = -1;
  return CRN_OK;
}

/* Rows that occur several times are added, in order, to their first occurrence; s->first says where that is. */
static crn_status add_repeats(crn_updater *u, crn_err *err) {
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    if (!adds_repeats(s)) continue;
    CRN_TRY(make_row_tables(s, err));
    CRN_TRY(add_tasks(u, i, s->param.row_len, COLUMNS, err));
  }
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    if (!adds_repeats(s)) continue;
    for (int64_t k = s->grad.n_indices - 1; k >= 0; k--) s->first[s->grad.indices[k]] = (int32_t)k;
  }
  run_tasks(u, add_repeats_task);
  return CRN_OK;
}

static void forget_rows(crn_updater *u) {
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    if (!adds_repeats(s) || !s->first) continue;
    for (int64_t k = 0; k < s->grad.n_indices; k++) s->first[s->grad.indices[k]] = -1;
  }
}

/* ---- update --------------------------------------------------------------------------------------------------------
 */

static void decay_task(void *updater, int64_t task) {
  crn_updater *u = updater;
  const crn_update_task *k = &u->tasks[task];
  const crn_update_state *s = &u->states[k->param];
  s->math->decay(s->param.w, k->begin, k->end - k->begin, 2 * s->param.l2);
}

/* w -= 2·L2·w in every step, also in those that only accumulate. */
static crn_status decoupled_decay(crn_updater *u, crn_err *err) {
  if (!u->decouple) return CRN_OK;
  for (size_t i = 0; i < u->n; i++) {
    const crn_update_state *s = &u->states[i];
    if (s->param.l2 != 0 && (s->present || s->applied)) CRN_TRY(add_tasks(u, i, s->n, CHUNK, err));
  }
  run_tasks(u, decay_task);
  return CRN_OK;
}

static void update_span(const crn_update_state *s, int64_t w_at, const void *g, int64_t g_at, int64_t n) {
  s->math->update(s->optimizer.desc, &s->step, s->param.w, s->slots, w_at, g, g_at, n);
}

/* Rows of the parameter: those without gradient too. */
static void update_all_rows(const crn_update_state *s, int64_t begin, int64_t end) {
  int64_t len = s->param.row_len;
  bool decay = s->optimizer.desc->rows == CRN_ROWS_DECAY;
  for (int64_t r = begin; r < end; r++) {
    if (s->first[r] >= 0)
      update_span(s, r * len, s->grad.values, s->first[r] * len, len);
    else
      update_span(s, r * len, decay ? NULL : s->zero_row, 0, len);
  }
}

/* Occurrences of rows: the first of each row holds the sum. */
static void update_touched_rows(const crn_update_state *s, int64_t begin, int64_t end) {
  int64_t len = s->param.row_len;
  for (int64_t i = begin; i < end; i++)
    if (s->first[s->grad.indices[i]] == i) update_span(s, s->grad.indices[i] * len, s->grad.values, i * len, len);
}

/* Columns: all occurrences in order. */
static void update_one_by_one(const crn_update_state *s, int64_t begin, int64_t end) {
  int64_t len = s->param.row_len;
  for (int64_t i = 0; i < s->grad.n_indices; i++)
    update_span(s, s->grad.indices[i] * len + begin, s->grad.values, i * len + begin, end - begin);
}

static void update_task(void *updater, int64_t task) {
  crn_updater *u = updater;
  const crn_update_task *k = &u->tasks[task];
  const crn_update_state *s = &u->states[k->param];
  int64_t n = k->end - k->begin;
  if (s->grad.kind == CRN_GRAD_DENSE) {
    if (!s->changed_early) s->math->scale_and_filter(s->grad.values, k->begin, n, &s->change);
    update_span(s, k->begin, s->grad.values, k->begin, n);
    return;
  }
  switch (s->optimizer.desc->rows) {
  case CRN_ROWS_ALL:
  case CRN_ROWS_DECAY:
    update_all_rows(s, k->begin, k->end);
    return;
  case CRN_ROWS_TOUCHED:
    update_touched_rows(s, k->begin, k->end);
    return;
  case CRN_ROWS_ONE_BY_ONE:
    update_one_by_one(s, k->begin, k->end);
    return;
  }
}

static crn_status add_update_tasks(crn_updater *u, size_t i, crn_err *err) {
  const crn_update_state *s = &u->states[i];
  if (s->grad.kind == CRN_GRAD_DENSE) return add_tasks(u, i, s->n, CHUNK, err);
  int64_t rows = s->param.row_len < CHUNK ? CHUNK / (s->param.row_len > 0 ? s->param.row_len : 1) : 1;
  switch (s->optimizer.desc->rows) {
  case CRN_ROWS_ALL:
  case CRN_ROWS_DECAY:
    return add_tasks(u, i, s->param.rows, rows, err);
  case CRN_ROWS_TOUCHED:
    return add_tasks(u, i, s->grad.n_indices, rows, err);
  case CRN_ROWS_ONE_BY_ONE:
    return add_tasks(u, i, s->param.row_len, COLUMNS, err);
  }
  return CRN_OK;
}

static crn_status make_slots(crn_update_state *s, crn_err *err) {
  for (int k = 0; k < crn_optimizer_slot_count(s->optimizer.desc); k++) {
    if (s->slots[k]) continue;
    s->slots[k] = crn_malloc((size_t)s->n * s->math->size + 1);
    if (!s->slots[k]) return crn_err_memory(err);
    s->math->fill(s->slots[k], 0, s->n, crn_optimizer_slot_start(&s->optimizer, k));
  }
  return CRN_OK;
}

static crn_status apply(crn_updater *u, double lr, crn_err *err) {
  for (size_t i = 0; i < u->n; i++) {
    crn_update_state *s = &u->states[i];
    if (!s->applied) continue;
    CRN_TRY(make_slots(s, err));
    CRN_TRY(add_update_tasks(u, i, err));
    s->step = (crn_optimizer_step){
        .options = s->optimizer.options, .lr = lr * s->optimizer.lr_multiplier, .t = ++s->t, .norm_sq = s->norm_sq};
  }
  run_tasks(u, update_task);
  return CRN_OK;
}

crn_status crn_updater_step(crn_updater *u, const crn_update_grad *grads, const crn_update_now *now, crn_err *err) {
  CRN_TRY(begin(u, grads, now, err));
  CRN_TRY(raw_norms(u, err));
  CRN_TRY(accumulate(u, err));
  CRN_TRY(clip(u, err));
  crn_status status = add_repeats(u, err);
  if (status == CRN_OK) status = decoupled_decay(u, err);
  if (status == CRN_OK) status = apply(u, now->lr, err);
  forget_rows(u);
  return status;
}
