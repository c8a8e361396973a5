/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the training log; see progress.h.
 */
#include "train/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ------------------------------------------------------------------------------------------------------- */

void crn_text_duration(double secs, crn_str *out) {
  if (!(secs >= 0) || secs > 1e15) secs = 0; /* unknown */
  long long s = (long long)secs;
  crn_str_addf(out, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

void crn_text_size(double bytes, crn_str *out) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  int u = 0;
  while (u < 5 && fabs(bytes) >= 0.8 * 1024) {
    bytes /= 1024;
    u++;
  }
  crn_str_addf(out, "%.1f%s", bytes, units[u]);
}

void crn_text_float32(double value, crn_str *out) {
  float f = (float)value;
  char text[40];
  if (isnan(f) || isinf(f)) {
    crn_str_add(out, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
    return;
  }
  for (int digits = 0; digits < 9; digits++) {
    snprintf(text, sizeof text, "%.*e", digits, (double)f);
    if (strtof(text, NULL) == f) break;
  }
  crn_py_float(out, strtod(text, NULL));
}

/* In log lines nan and inf stand as they are. */
static void add_number(crn_str *out, double v) {
  if (isfinite(v))
    crn_py_float(out, v);
  else
    crn_str_add(out, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

static void add_item(crn_str *out, const crn_step_item *item) {
  crn_str_addf(out, ", %s ", item->name);
  switch (item->kind) {
  case CRN_ITEM_DOUBLE:
    add_number(out, item->number);
    break;
  case CRN_ITEM_FLOAT:
    crn_text_float32(item->number, out);
    break;
  case CRN_ITEM_INT:
    crn_str_addf(out, "%.0f", item->number);
    break;
  case CRN_ITEM_TEXT:
    crn_str_add(out, item->text);
    break;
  }
}

static void add_remaining(crn_str *out, const crn_step_time *time) {
  if (!(time->complete >= 0)) return;
  crn_str_add(out, ", exp. remaining ");
  if (time->complete > 0)
    crn_text_duration(time->elapsed_secs / time->complete - time->elapsed_secs, out);
  else
    crn_str_add(out, "?");
  crn_str_addf(out, ", complete %.2f%%", 100 * time->complete);
}

/* Write out's text as one line and free it. */
static void put_line(const crn_log *log, int level, crn_str *out) {
  crn_logf(log, level, "%s", crn_str_get(out));
  crn_str_free(out);
}

/* ---- lines ----------------------------------------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b) {
  return strcmp(((const crn_step_item *)a)->name, ((const crn_step_item *)b)->name);
}

void crn_log_step(const crn_log *log, const char *prefix, int64_t step, crn_step_item *items, size_t n,
                  const crn_step_time *time) {
  if (!log || !log->fn || log->verbosity < 5) return;
  crn_str out = {0};
  if (n > 1) qsort(items, n, sizeof *items, by_name);
  crn_str_addf(&out, "%s, step %lld", prefix, (long long)step);
  for (size_t i = 0; i < n; i++) add_item(&out, &items[i]);
  crn_str_addf(&out, ", %.3f sec/step, elapsed ", time->step_secs);
  crn_text_duration(time->elapsed_secs, &out);
  add_remaining(&out, time);
  put_line(log, 5, &out);
}

void crn_log_pass_end(const crn_log *log, const char *prefix, int64_t n_steps, double elapsed_secs,
                      double computing_secs) {
  crn_str out = {0};
  crn_str_addf(&out, "%s, finished after %lld steps, ", prefix, (long long)n_steps);
  crn_text_duration(elapsed_secs, &out);
  crn_str_addf(&out, " elapsed (%.1f%% computing time)", elapsed_secs > 0 ? 100 * computing_secs / elapsed_secs : 0.0);
  put_line(log, 3, &out);
}

void crn_log_epoch_scores(const crn_log *log, int64_t epoch, bool pretrain, const crn_scores *train,
                          double elapsed_secs) {
  crn_str out = {0};
  crn_str_addf(&out, "%sepoch %lld score: ", pretrain ? "pretrain " : "", (long long)epoch);
  crn_scores_format(train, CRN_SCORE_COST, &out);
  crn_str_add(&out, " error: ");
  crn_scores_format(train, CRN_SCORE_ERROR, &out);
  crn_str_add(&out, " elapsed: ");
  crn_text_duration(elapsed_secs, &out);
  put_line(log, 1, &out);
}

void crn_log_eval_scores(const crn_log *log, const crn_dataset_scores *sets, size_t n) {
  crn_str out = {0};
  for (size_t i = 0; i < n; i++) {
    crn_str_addf(&out, "%s%s: score ", i ? " " : "", sets[i].dataset);
    crn_scores_format(sets[i].scores, CRN_SCORE_COST, &out);
    crn_str_add(&out, " error ");
    crn_scores_format(sets[i].scores, CRN_SCORE_ERROR, &out);
  }
  put_line(log, 1, &out);
}

/* ---- statistics
 * ------------------------------------------------------------------------------------------------------- */

/* Welford's update: mean and squared deviations without cancellation. */
void crn_running_stats_add(crn_running_stats *s, double value) {
  s->min = s->n == 0 || value < s->min ? value : s->min;
  s->max = s->n == 0 || value > s->max ? value : s->max;
  s->n++;
  double delta = value - s->mean;
  s->mean += delta / (double)s->n;
  s->sum_sq_dev += delta * (value - s->mean);
}

void crn_running_stats_format(const crn_running_stats *s, crn_str *out) {
  crn_str_add(out, "Stats(mean=");
  add_number(out, s->mean);
  crn_str_add(out, ", std_dev=");
  add_number(out, s->n ? sqrt(s->sum_sq_dev / (double)s->n) : 0);
  crn_str_add(out, ", min=");
  add_number(out, s->min);
  crn_str_add(out, ", max=");
  add_number(out, s->max);
  crn_str_addf(out, ", num_seqs=%lld, avg_data_len=1)", (long long)s->n);
}
