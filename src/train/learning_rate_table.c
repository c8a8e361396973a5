/* SPDX-License-Identifier: Apache-2.0
 *
 * Table of epochs, rates and scores: keeping it sorted, and printing it as the Python text of the learning-rate file.
 * Reading that text is in learning_rate_parse.c.
 */
#include "train/learning_rate_table.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "value/value.h"

static void epoch_free(crn_lr_epoch *e) {
  for (size_t i = 0; i < e->n_scores; i++) crn_free(e->scores[i].key);
  crn_free(e->scores);
  e->scores = NULL;
  e->n_scores = e->cap_scores = 0;
}

void crn_lr_table_free(crn_lr_table *t) {
  for (size_t i = 0; i < t->n; i++) epoch_free(&t->epochs[i]);
  crn_free(t->epochs);
  memset(t, 0, sizeof *t);
}

size_t crn_lr_table_count_before(const crn_lr_table *t, int64_t epoch) {
  size_t lo = 0, hi = t->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (t->epochs[mid].epoch < epoch)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

crn_lr_epoch *crn_lr_table_find(const crn_lr_table *t, int64_t epoch) {
  size_t i = crn_lr_table_count_before(t, epoch);
  return i < t->n && t->epochs[i].epoch == epoch ? &t->epochs[i] : NULL;
}

crn_status crn_lr_table_set(crn_lr_table *t, int64_t epoch, double lr, crn_err *err) {
  size_t i = crn_lr_table_count_before(t, epoch);
  if (i < t->n && t->epochs[i].epoch == epoch) {
    t->epochs[i].lr = lr;
    return CRN_OK;
  }
  if (t->n == t->cap) {
    size_t cap = t->cap ? t->cap * 2 : 16;
    crn_lr_epoch *p = crn_realloc(t->epochs, cap * sizeof *p);
    if (!p) return crn_err_memory(err);
    t->epochs = p;
    t->cap = cap;
  }
  memmove(&t->epochs[i + 1], &t->epochs[i], (t->n - i) * sizeof t->epochs[0]);
  memset(&t->epochs[i], 0, sizeof t->epochs[0]);
  t->epochs[i].epoch = epoch;
  t->epochs[i].lr = lr;
  t->n++;
  return CRN_OK;
}

/* Index of the first score whose key is not below key. */
static size_t score_position(const crn_lr_epoch *e, const char *key) {
  size_t lo = 0, hi = e->n_scores;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (strcmp(e->scores[mid].key, key) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

const crn_lr_score *crn_lr_epoch_get(const crn_lr_epoch *e, const char *key) {
  size_t i = score_position(e, key);
  return i < e->n_scores && strcmp(e->scores[i].key, key) == 0 ? &e->scores[i] : NULL;
}

static crn_status put(crn_lr_epoch *e, const char *key, bool is_int, int64_t i64, double value, crn_err *err) {
  size_t i = score_position(e, key);
  if (i == e->n_scores || strcmp(e->scores[i].key, key) != 0) {
    if (e->n_scores == e->cap_scores) {
      size_t cap = e->cap_scores ? e->cap_scores * 2 : 8;
      crn_lr_score *p = crn_realloc(e->scores, cap * sizeof *p);
      if (!p) return crn_err_memory(err);
      e->scores = p;
      e->cap_scores = cap;
    }
    char *copy = crn_strdup(key);
    if (!copy) return crn_err_memory(err);
    memmove(&e->scores[i + 1], &e->scores[i], (e->n_scores - i) * sizeof e->scores[0]);
    e->scores[i].key = copy;
    e->n_scores++;
  }
  e->scores[i].is_int = is_int;
  e->scores[i].i = i64;
  e->scores[i].value = value;
  return CRN_OK;
}

crn_status crn_lr_epoch_put(crn_lr_epoch *e, const char *key, double value, crn_err *err) {
  return put(e, key, false, 0, value, err);
}

crn_status crn_lr_epoch_put_int(crn_lr_epoch *e, const char *key, int64_t value, crn_err *err) {
  return put(e, key, true, value, (double)value, err);
}

bool crn_lr_key_is_meta(const char *key) { return crn_starts_with(key, CRN_LR_META); }

/* Plain Python text has no word for nan and inf, hence the calls. */
void crn_py_float(crn_str *out, double value) {
  crn_value v = {.kind = CRN_V_FLOAT, .u.f = value};
  if (isfinite(value))
    crn_v_repr(&v, out, 0);
  else if (isnan(value))
    crn_str_add(out, "float('nan')");
  else
    crn_str_add(out, value > 0 ? "float('inf')" : "float('-inf')");
}

static void add_quoted(crn_str *out, const char *s) {
  crn_value v = {.kind = CRN_V_STR, .u.s = {s, strlen(s)}};
  crn_v_repr(&v, out, 0);
}

static void add_pair(crn_str *out, const crn_lr_score *s) {
  add_quoted(out, s->key);
  crn_str_add(out, ": ");
  if (s->is_int)
    crn_str_addf(out, "%lld", (long long)s->i);
  else
    crn_py_float(out, s->value);
}

/* A dict whose pairs have fewer than 40 characters together stays on one line. */
void crn_lr_scores_format(const crn_lr_epoch *e, crn_str *out) {
  crn_str pair = {0};
  size_t total = 0;
  for (size_t i = 0; i < e->n_scores; i++) {
    crn_str_clear(&pair);
    add_pair(&pair, &e->scores[i]);
    total += pair.len;
  }
  bool one_line = total < 40;
  crn_str_add(out, one_line ? "{" : "{\n");
  for (size_t i = 0; i < e->n_scores; i++) {
    if (one_line && i > 0) crn_str_add(out, ", ");
    add_pair(out, &e->scores[i]);
    if (!one_line) crn_str_add(out, ",\n");
  }
  crn_str_addc(out, '}');
  if (!crn_str_ok(&pair)) out->failed = true;
  crn_str_free(&pair);
}

void crn_lr_epoch_format(const crn_lr_epoch *e, crn_str *out) {
  crn_str_add(out, "EpochData(learningRate=");
  crn_py_float(out, e->lr);
  crn_str_add(out, ", error=");
  crn_lr_scores_format(e, out);
  crn_str_addc(out, ')');
}

void crn_lr_table_format(const crn_lr_table *t, crn_str *out) {
  crn_str_add(out, "{\n");
  for (size_t i = 0; i < t->n; i++) {
    crn_str_addf(out, "%lld: ", (long long)t->epochs[i].epoch);
    crn_lr_epoch_format(&t->epochs[i], out);
    crn_str_add(out, ",\n");
  }
  crn_str_add(out, "}\n");
}

crn_status crn_lr_table_write(const crn_lr_table *t, const char *path, crn_err *err) {
  crn_str text = {0};
  crn_lr_table_format(t, &text);
  crn_status status = crn_str_ok(&text) ? crn_file_write(path, crn_str_get(&text), text.len, err) : crn_err_memory(err);
  if (status != CRN_OK) crn_err_where(err, "learning-rate file");
  crn_str_free(&text);
  return status;
}
