/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of scores over an epoch; see scores.h.
 */
#include "train/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

void crn_scores_free(crn_scores *s) {
  for (size_t i = 0; i < s->n; i++) crn_free(s->entries[i].name);
  crn_free(s->entries);
  memset(s, 0, sizeof *s);
}

void crn_scores_clear(crn_scores *s) {
  for (size_t i = 0; i < s->n; i++) s->entries[i].cost = s->entries[i].error = (crn_score_sum){0};
  s->loss_sum = 0;
  s->n_steps = 0;
}

static crn_status entry_of(crn_scores *s, const char *name, crn_score_entry **out, crn_err *err) {
  size_t at = 0;
  while (at < s->n && strcmp(s->entries[at].name, name) < 0) at++;
  *out = &s->entries[at];
  if (at < s->n && strcmp(s->entries[at].name, name) == 0) return CRN_OK;
  if (s->n == s->cap) {
    size_t cap = s->cap ? 2 * s->cap : 8;
    crn_score_entry *p = crn_realloc(s->entries, cap * sizeof *p);
    if (!p) return crn_err_memory(err);
    s->entries = p;
    s->cap = cap;
  }
  char *copy = crn_strdup(name);
  if (!copy) return crn_err_memory(err);
  memmove(&s->entries[at + 1], &s->entries[at], (s->n - at) * sizeof s->entries[0]);
  s->entries[at] = (crn_score_entry){.name = copy};
  s->n++;
  *out = &s->entries[at];
  return CRN_OK;
}

/* Σ value / Σ 1/f: the mean over all frames of the epoch. A factor of inf (an empty batch) counts nothing. */
crn_status crn_scores_add(crn_scores *s, const char *name, crn_score_kind kind, double value, double norm_factor,
                          crn_err *err) {
  crn_score_entry *e;
  CRN_TRY(entry_of(s, name, &e, err));
  crn_score_sum *sum = kind == CRN_SCORE_COST ? &e->cost : &e->error;
  sum->sum += value;
  sum->weight += 1 / norm_factor;
  sum->present = true;
  return CRN_OK;
}

void crn_scores_end_step(crn_scores *s, double objective) {
  s->loss_sum += objective;
  s->n_steps++;
}

double crn_score_mean(const crn_score_sum *sum) { return sum->present ? sum->sum / sum->weight : NAN; }

bool crn_scores_finite(const crn_scores *s) {
  bool finite = isfinite(s->loss_sum);
  for (size_t i = 0; i < s->n; i++)
    finite = finite && isfinite(s->entries[i].cost.sum) && isfinite(s->entries[i].error.sum);
  return finite;
}

static const crn_score_sum *sum_of(const crn_score_entry *e, crn_score_kind kind) {
  const crn_score_sum *sum = kind == CRN_SCORE_COST ? &e->cost : &e->error;
  return sum->present ? sum : NULL;
}

size_t crn_scores_count(const crn_scores *s, crn_score_kind kind) {
  size_t n = 0;
  for (size_t i = 0; i < s->n; i++) n += sum_of(&s->entries[i], kind) != NULL;
  return kind == CRN_SCORE_COST && s->exponential ? 2 * n : n;
}

typedef struct named_mean {
  const char *name;
  char *owned; /* name of NAME:exp */
  double mean;
} named_mean;

static int by_name(const void *a, const void *b) {
  return strcmp(((const named_mean *)a)->name, ((const named_mean *)b)->name);
}

static char *exp_name(const char *name) {
  crn_str text = {0};
  crn_str_addf(&text, "%s:exp", name);
  return crn_str_ok(&text) ? text.p : NULL; /* crn_str's memory is crn_malloc's */
}

crn_status crn_scores_each(const crn_scores *s, crn_score_kind kind, crn_score_visit fn, void *user, crn_err *err) {
  named_mean *list = crn_calloc(2 * s->n + 1, sizeof *list);
  size_t n = 0;
  crn_status status = list ? CRN_OK : crn_err_memory(err);
  for (size_t i = 0; i < s->n && status == CRN_OK; i++) {
    const crn_score_sum *sum = sum_of(&s->entries[i], kind);
    if (!sum) continue;
    double mean = crn_score_mean(sum);
    list[n++] = (named_mean){.name = s->entries[i].name, .mean = mean};
    if (kind != CRN_SCORE_COST || !s->exponential) continue;
    char *name = exp_name(s->entries[i].name);
    if (!name)
      status = crn_err_memory(err);
    else
      list[n++] = (named_mean){.name = name, .owned = name, .mean = exp(mean)};
  }
  if (n > 1) qsort(list, n, sizeof *list, by_name);
  for (size_t i = 0; i < n && status == CRN_OK; i++) status = fn(user, list[i].name, list[i].mean, err);
  for (size_t i = 0; i < n; i++) crn_free(list[i].owned);
  crn_free(list);
  return status;
}

/* ---- texts ---------------------------------------------------------------------------------------------------------
 */

typedef struct text_of_scores {
  crn_str *out;
  bool named;
} text_of_scores;

static crn_status add_text(void *user, const char *name, double mean, crn_err *err) {
  (void)err;
  text_of_scores *t = user;
  if (t->named) crn_str_addf(t->out, "%s%s ", t->out->len && t->out->p[t->out->len - 1] != ' ' ? " " : "", name);
  crn_py_float(t->out, mean);
  return CRN_OK;
}

void crn_scores_format(const crn_scores *s, crn_score_kind kind, crn_str *out) {
  size_t n = crn_scores_count(s, kind);
  text_of_scores t = {out, n > 1};
  if (n == 0)
    crn_str_add(out, "None");
  else if (crn_scores_each(s, kind, add_text, &t, NULL) != CRN_OK)
    out->failed = true;
}

void crn_scores_format_sums(const crn_scores *s, crn_str *out) {
  const char *comma = "";
  crn_str_add(out, "{");
  for (int kind = 0; kind < 2; kind++)
    for (size_t i = 0; i < s->n; i++) {
      const crn_score_sum *sum = sum_of(&s->entries[i], kind == 0 ? CRN_SCORE_COST : CRN_SCORE_ERROR);
      if (!sum) continue;
      crn_str_addf(out, "%s'%s:%s': ", comma, kind == 0 ? "cost" : "error", s->entries[i].name);
      crn_py_float(out, sum->sum);
      comma = ", ";
    }
  crn_str_addf(out, "%s'loss': ", comma);
  crn_py_float(out, s->loss_sum);
  crn_str_add(out, "}");
}

/* ---- learning-rate table
 * --------------------------------------------------------------------------------------------- */

typedef struct store_target {
  crn_lr_control *control;
  int64_t epoch;
  const char *dataset, *kind;
  bool named;
  crn_str key;
} store_target;

static crn_status store_one(void *user, const char *name, double mean, crn_err *err) {
  store_target *t = user;
  crn_str_clear(&t->key);
  crn_str_addf(&t->key, "%s_%s", t->dataset, t->kind);
  if (t->named) crn_str_addf(&t->key, "_%s", name);
  if (!crn_str_ok(&t->key)) return crn_err_memory(err);
  return crn_lr_put_score(t->control, t->epoch, crn_str_get(&t->key), mean, err);
}

crn_status crn_scores_store(const crn_scores *s, const char *dataset, crn_lr_control *c, int64_t epoch, crn_err *err) {
  store_target t = {.control = c, .epoch = epoch, .dataset = dataset, .kind = "score"};
  t.named = crn_scores_count(s, CRN_SCORE_COST) > 1;
  crn_status status = crn_scores_each(s, CRN_SCORE_COST, store_one, &t, err);
  t.kind = "error";
  t.named = crn_scores_count(s, CRN_SCORE_ERROR) > 1;
  if (status == CRN_OK) status = crn_scores_each(s, CRN_SCORE_ERROR, store_one, &t, err);
  crn_str_free(&t.key);
  return status;
}

/* ---- eval_output_file
 * ------------------------------------------------------------------------------------------------ */

/* A dict in the style of the learning-rate file: pairs of less than 40 characters together stay on one line. */
static void add_dict(crn_str *out, const crn_str *pairs, size_t n) {
  size_t total = 0;
  for (size_t i = 0; i < n; i++) total += pairs[i].len;
  bool one_line = total < 40;
  crn_str_add(out, one_line ? "{" : "{\n");
  for (size_t i = 0; i < n; i++) {
    if (one_line && i > 0) crn_str_add(out, ", ");
    crn_str_add(out, crn_str_get(&pairs[i]));
    if (!one_line) crn_str_add(out, ",\n");
    if (!crn_str_ok(&pairs[i])) out->failed = true;
  }
  crn_str_add(out, "}");
}

typedef struct pair_list {
  crn_str *pairs;
  size_t n;
  const char *kind;
} pair_list;

static crn_status add_pair(void *user, const char *name, double mean, crn_err *err) {
  (void)err;
  pair_list *list = user;
  crn_str *pair = &list->pairs[list->n++];
  crn_str_addf(pair, "'%s:%s': ", list->kind, name);
  crn_py_float(pair, mean);
  return CRN_OK;
}

/* "'error': {…}" or "'score': {…}" */
static void add_kind(const crn_scores *s, crn_score_kind kind, crn_str *out) {
  pair_list list = {.kind = kind == CRN_SCORE_COST ? "cost" : "error"};
  size_t n = crn_scores_count(s, kind);
  list.pairs = crn_calloc(n + 1, sizeof *list.pairs);
  if (!list.pairs || crn_scores_each(s, kind, add_pair, &list, NULL) != CRN_OK) out->failed = true;
  crn_str_addf(out, "'%s': ", kind == CRN_SCORE_COST ? "score" : "error");
  if (list.pairs) add_dict(out, list.pairs, list.n);
  for (size_t i = 0; i < list.n; i++) crn_str_free(&list.pairs[i]);
  crn_free(list.pairs);
}

void crn_scores_eval_file(const crn_dataset_scores *sets, size_t n, crn_str *out) {
  crn_str *pairs = crn_calloc(n + 1, sizeof *pairs);
  if (!pairs) {
    out->failed = true;
    return;
  }
  for (size_t i = 0; i < n; i++) { /* in order of the names; sets are few */
    size_t at = 0;
    for (size_t k = 0; k < n; k++) {
      int order = strcmp(sets[k].dataset, sets[i].dataset);
      at += order < 0 || (order == 0 && k < i);
    }
    crn_str kinds[2] = {{0}, {0}};
    add_kind(sets[i].scores, CRN_SCORE_ERROR, &kinds[0]);
    add_kind(sets[i].scores, CRN_SCORE_COST, &kinds[1]);
    crn_str_addf(&pairs[at], "'%s': ", sets[i].dataset);
    add_dict(&pairs[at], kinds, 2);
    crn_str_free(&kinds[0]);
    crn_str_free(&kinds[1]);
  }
  add_dict(out, pairs, n);
  crn_str_add(out, "\n");
  for (size_t i = 0; i < n; i++) crn_str_free(&pairs[i]);
  crn_free(pairs);
}
