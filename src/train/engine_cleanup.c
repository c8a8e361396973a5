/* SPDX-License-Identifier: Apache-2.0
 *
 * Deleting old checkpoints, after each epoch and as a task of its own.
 */
#include <glob.h>
#include <sys/stat.h>

#include "ckpt/bundle.h"
#include "train/engine.h"
#include "train/keep_models.h"
#include "train/progress.h"
#include "train/start_epoch.h"

static double bytes_of(const char *prefix) {
  static const char *const ends[] = {".index", ".meta", ".data*"};
  double sum = 0;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    crn_str pattern = {0};
    glob_t found;
    struct stat st;
    crn_str_addf(&pattern, "%s%s", prefix, ends[i]);
    if (crn_str_ok(&pattern) && glob(crn_str_get(&pattern), 0, NULL, &found) == 0) {
      for (size_t k = 0; k < found.gl_pathc; k++)
        if (stat(found.gl_pathv[k], &st) == 0) sum += (double)st.st_size;
      globfree(&found);
    }
    crn_str_free(&pattern);
  }
  return sum;
}

static void log_plan(crn_engine *e, const crn_models *m, const int64_t *kept, size_t n_kept, const int64_t *gone,
                     size_t n_gone, crn_str *question) {
  crn_str stored = {0}, stay = {0}, go = {0};
  crn_keep_list(m->epochs, m->n, &stored);
  crn_keep_list(kept, n_kept, &stay);
  crn_keep_list(gone, n_gone, &go);
  crn_logf(&e->log, 3, "We have stored models for epochs %s and keep epochs %s.", crn_str_get(&stored),
           crn_str_get(&stay));
  crn_logf(&e->log, 3, "We will delete the models of epochs %s.", crn_str_get(&go));
  crn_str_addf(question, "Delete the models of epochs %s?", crn_str_get(&go));
  crn_str_free(&stored);
  crn_str_free(&stay);
  crn_str_free(&go);
}

static crn_status remove_models(crn_engine *e, const crn_models *m, const bool *keep, crn_err *err) {
  double bytes = 0;
  for (size_t i = 0; i < m->n; i++) {
    if (keep[i]) continue;
    bytes += bytes_of(m->prefixes[i]);
    CRN_TRY(crn_bundle_remove(m->prefixes[i], err));
  }
  crn_str text = {0};
  crn_text_size(bytes, &text);
  crn_logf(&e->log, 2, "Deleted %s.", crn_str_get(&text));
  crn_str_free(&text);
  return CRN_OK;
}

crn_status crn_engine_cleanup(crn_engine *e, int64_t last, bool ask, crn_err *err) {
  static const crn_value yes = {.kind = CRN_V_BOOL, .u.b = true};
  const crn_value *option = crn_v_get(e->values, "cleanup_old_models");
  crn_keep_options o;
  crn_models m;
  CRN_TRY(crn_keep_options_read(ask && !crn_v_truth(option) ? &yes : option, &e->arena, &e->log, &o, err));
  if (!o.on || !e->model || e->dry_run) return CRN_OK;
  CRN_TRY(crn_models_find(e->model, last, &e->arena, &m, err));
  if ((int64_t)m.n <= (o.last_n > o.best_n ? o.last_n : o.best_n)) {
    crn_logf(&e->log, 3,
             "Only %zu epochs stored so far and keeping last %lld epochs and best %lld epochs, thus not cleaning up "
             "any epochs yet.",
             m.n, (long long)o.last_n, (long long)o.best_n);
    return CRN_OK;
  }
  bool *keep = CRN_ARENA_ARRAY(&e->arena, bool, m.n + 1);
  int64_t *kept = CRN_ARENA_ARRAY(&e->arena, int64_t, m.n + 1), *gone = CRN_ARENA_ARRAY(&e->arena, int64_t, m.n + 1);
  size_t n_kept = 0, n_gone = 0;
  if (!keep || !kept || !gone) return crn_err_memory(err);
  CRN_TRY(crn_keep_choose(&o, m.epochs, m.n, crn_lr_table_of(e->lr), keep, err));
  for (size_t i = 0; i < m.n; i++) {
    if (keep[i])
      kept[n_kept++] = m.epochs[i];
    else
      gone[n_gone++] = m.epochs[i];
  }
  if (n_gone == 0) return CRN_OK;
  crn_str question = {0};
  log_plan(e, &m, kept, n_kept, gone, n_gone, &question);
  const bool go_on = !ask || !e->hooks.confirm || e->hooks.confirm(e->hooks.user, crn_str_get(&question));
  crn_str_free(&question);
  return go_on ? remove_models(e, &m, keep, err) : crn_fail(err, CRN_E_CONFIG, "not confirmed: no model was deleted");
}
