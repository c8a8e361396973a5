/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoints stay: a pattern over the epochs, the last ones, and the best ones under every score key.
 */
#include "train/keep_models.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"

/* ---- options ----------------------------------------------------------------------------------------------------- */

static crn_status wrong(const char *option, const char *expected, const crn_value *got, crn_err *err) {
  crn_str text = {0};
  crn_v_repr(got, &text, 60);
  crn_fail(err, CRN_E_CONFIG, "config key 'cleanup_old_models' > option '%s': expected %s, got %s", option, expected,
           crn_str_get(&text));
  crn_str_free(&text);
  return CRN_E_CONFIG;
}

static crn_status read_count(const crn_value *dict, const char *option, int64_t least, int64_t *out, crn_err *err) {
  const crn_value *v = crn_v_get(dict, option);
  if (!v) return CRN_OK;
  if (crn_v_to_int(v, out) && *out >= least) return CRN_OK;
  return wrong(option, least == 1 ? "an integer >= 1" : "an integer >= 0", v, err);
}

static crn_status read_keep(const crn_value *v, crn_arena *a, crn_keep_options *out, crn_err *err) {
  if (crn_v_is_none(v)) return CRN_OK;
  if (!crn_v_is_seq(v)) return wrong("keep", "a list of epochs", v, err);
  int64_t *keep = CRN_ARENA_ARRAY(a, int64_t, crn_v_len(v) + 1);
  if (!keep) return crn_err_memory(err);
  for (size_t i = 0; i < crn_v_len(v); i++)
    if (!crn_v_to_int(crn_v_at(v, i), &keep[i])) return wrong("keep", "a list of epochs", v, err);
  out->keep = keep;
  out->n_keep = crn_v_len(v);
  return CRN_OK;
}

static crn_status read_ignored(const crn_value *v, crn_arena *a, crn_keep_options *out, crn_err *err) {
  if (crn_v_is_none(v)) return CRN_OK;
  if (!crn_v_is_seq(v)) return wrong("ignore_score_keys", "a list of score keys", v, err);
  const char **keys = CRN_ARENA_ARRAY(a, const char *, crn_v_len(v) + 1);
  if (!keys) return crn_err_memory(err);
  for (size_t i = 0; i < crn_v_len(v); i++)
    if (!(keys[i] = crn_v_cstr(crn_v_at(v, i)))) return wrong("ignore_score_keys", "a list of score keys", v, err);
  out->ignored = keys;
  out->n_ignored = crn_v_len(v);
  return CRN_OK;
}

static crn_status check_names(const crn_value *dict, crn_err *err) {
  static const char *const known[] = {"keep_last_n", "keep_best_n", "keep", "ignore_score_keys"};
  for (size_t i = 0; i < dict->u.dict.n; i++) {
    const char *name = crn_v_cstr(dict->u.dict.keys[i]);
    bool found = false;
    for (size_t k = 0; name && k < 4; k++) found = found || strcmp(name, known[k]) == 0;
    if (found) continue;
    const char *near = name ? crn_nearest(name, known, 4) : NULL;
    crn_fail(err, CRN_E_CONFIG, "config key 'cleanup_old_models': unknown option '%s'",
             name ? name : crn_v_kind_name(dict->u.dict.keys[i]));
    if (near) crn_err_append(err, "; did you mean '%s'?", near);
    crn_err_append(err, " Known: keep_last_n, keep_best_n, keep, ignore_score_keys");
    return CRN_E_CONFIG;
  }
  return CRN_OK;
}

crn_status crn_keep_options_read(const crn_value *value, crn_arena *a, const crn_log *log, crn_keep_options *out,
                                 crn_err *err) {
  *out = (crn_keep_options){.on = crn_v_truth(value), .last_n = 2, .best_n = 4};
  if (!out->on) return CRN_OK;
  if (!crn_v_is_dict(value)) {
    if (!crn_v_is_number(value)) {
      crn_str text = {0};
      crn_v_repr(value, &text, 60);
      crn_warnf(log, "cleanup_old_models is %s, no dict: the defaults are used%s", crn_str_get(&text),
                value->kind == CRN_V_TUPLE ? " (is there a comma behind it?)" : "");
      crn_str_free(&text);
    }
    return CRN_OK;
  }
  CRN_TRY(check_names(value, err));
  CRN_TRY(read_count(value, "keep_last_n", 1, &out->last_n, err));
  CRN_TRY(read_count(value, "keep_best_n", 0, &out->best_n, err));
  CRN_TRY(read_keep(crn_v_get(value, "keep"), a, out, err));
  return read_ignored(crn_v_get(value, "ignore_score_keys"), a, out, err);
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

/* Multiples of k, and d·2^i. */
bool crn_keep_pattern(int64_t epoch, int64_t last) {
  int64_t k, d;
  if (last <= 10)
    k = 4, d = 5;
  else if (last <= 50)
    k = 20, d = 5;
  else if (last <= 100)
    k = 40, d = 10;
  else {
    int64_t p = 1;
    while (p < 1 + last / 240) p *= 2;
    k = 80 * p, d = 20;
  }
  if (epoch < 1 || epoch > last) return false;
  if (epoch % k == 0) return true;
  while (d < epoch) d *= 2;
  return d == epoch;
}

/* Value of a key for ranking: missing and nan are worst. */
static double ranked(const crn_lr_table *t, int64_t epoch, const char *key) {
  const crn_lr_score *s = crn_lr_epoch_get(crn_lr_table_find(t, epoch), key);
  return s && !isnan(s->value) ? s->value : INFINITY;
}

/* Keep the best_n smallest values; ties go to the lower epoch. Nothing when all are equal. */
static void keep_best(const crn_keep_options *o, const int64_t *stored, size_t n, const crn_lr_table *t,
                      const char *key, bool *keep) {
  bool differ = false;
  for (size_t i = 1; i < n && !differ; i++) differ = ranked(t, stored[i], key) != ranked(t, stored[0], key);
  if (!differ) return;
  for (size_t i = 0; i < n; i++) {
    double mine = ranked(t, stored[i], key);
    int64_t better = 0;
    for (size_t k = 0; k < n; k++) {
      double other = ranked(t, stored[k], key);
      better += other < mine || (other == mine && k < i);
    }
    if (better < o->best_n) keep[i] = true;
  }
}

static bool is_considered(const crn_keep_options *o, const char *key) {
  if (crn_lr_key_is_meta(key)) return false;
  for (size_t i = 0; i < o->n_ignored; i++)
    if (strcmp(key, o->ignored[i]) == 0) return false;
  return true;
}

/* Whether an earlier stored epoch has the key: then it has been done. */
static bool seen_before(const crn_lr_table *t, const int64_t *stored, size_t n, const char *key) {
  for (size_t i = 0; i < n; i++)
    if (crn_lr_epoch_get(crn_lr_table_find(t, stored[i]), key)) return true;
  return false;
}

crn_status crn_keep_choose(const crn_keep_options *o, const int64_t *stored, size_t n, const crn_lr_table *table,
                           bool *keep, crn_err *err) {
  if ((int64_t)n <= o->last_n || (int64_t)n <= o->best_n) {
    for (size_t i = 0; i < n; i++) keep[i] = true;
    return CRN_OK;
  }
  for (size_t i = 0; i < n; i++) {
    if (!crn_lr_table_find(table, stored[i]))
      return crn_fail(err, CRN_E_CONFIG,
                      "cleanup_old_models: there is a model of epoch %lld, but the learning-rate file doesn't know "
                      "this epoch; set learning_rate_file to the one of this training",
                      (long long)stored[i]);
    keep[i] = (int64_t)(n - i) <= o->last_n || (!o->keep && crn_keep_pattern(stored[i], stored[n - 1]));
    for (size_t k = 0; k < o->n_keep; k++) keep[i] = keep[i] || o->keep[k] == stored[i];
  }
  for (size_t i = 0; i < n; i++) {
    const crn_lr_epoch *e = crn_lr_table_find(table, stored[i]);
    for (size_t k = 0; k < e->n_scores; k++)
      if (is_considered(o, e->scores[k].key) && !seen_before(table, stored, i, e->scores[k].key))
        keep_best(o, stored, n, table, e->scores[k].key, keep);
  }
  return CRN_OK;
}

void crn_keep_list(const int64_t *epochs, size_t n, crn_str *out) {
  crn_str_add(out, "[");
  for (size_t i = 0; i < n; i++) {
    if (n > 6 && i == 3) {
      crn_str_add(out, ", ...");
      i = n - 3;
    }
    crn_str_addf(out, "%s%lld", i ? ", " : "", (long long)epochs[i]);
  }
  crn_str_add(out, "]");
}
