/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules for the first epoch and the first parameters; see start_epoch.h.
 */
#include "train/start_epoch.h"

#include <string.h>
#include <unistd.h>

#include "base/str.h"

static bool exists(const crn_start_query *q, int64_t epoch) {
  for (size_t i = 0; i < q->n_existing; i++)
    if (q->existing[i] == epoch) return true;
  return false;
}

/* "[1, 2, 5]" behind a message, so that the reader sees what there is. */
static void append_existing(const crn_start_query *q, crn_err *err) {
  if (q->n_existing == 0) {
    crn_err_append(err, "; there is no model at all");
    return;
  }
  crn_err_append(err, "; there are models of epochs");
  for (size_t i = 0; i < q->n_existing; i++) crn_err_append(err, "%s %lld", i ? "," : "", (long long)q->existing[i]);
}

crn_status crn_start_train(const crn_start_query *q, const crn_log *log, crn_start *out, crn_err *err) {
  bool automatic = q->start_epoch <= 0;
  *out = (crn_start){.source = CRN_START_RANDOM, .first_epoch = 1, .model_epoch = -1};
  if (q->n_existing > 0 && q->start_epoch != 1) {
    int64_t epoch = automatic ? q->existing[q->n_existing - 1] : q->start_epoch - 1;
    if (!exists(q, epoch)) {
      crn_fail(err, CRN_E_FILE, "start_epoch is %lld, but there is no model of epoch %lld", (long long)q->start_epoch,
               (long long)epoch);
      append_existing(q, err);
      return CRN_E_FILE;
    }
    if (q->has_load) crn_logf(log, 2, "note: there is a 'load' which we ignore because of existing model");
    if (q->has_import)
      crn_logf(log, 4, "note: there is an 'import_model_train_epoch1' which we ignore because of existing model");
    *out = (crn_start){.source = CRN_START_MODEL, .model_epoch = epoch, .first_epoch = epoch + 1};
    return CRN_OK;
  }
  if (q->n_existing > 0) {
    crn_warnf(log, "start_epoch is 1 and there are models already (last epoch %lld): training starts from scratch%s",
              (long long)q->existing[q->n_existing - 1], q->has_import ? ", import_model_train_epoch1 is ignored" : "");
  } else if (!automatic && q->start_epoch > 1) {
    crn_warnf(log, "start_epoch %lld is ignored because there are no models: training starts at epoch 1",
              (long long)q->start_epoch);
  }
  if (q->has_import && q->n_existing == 0) {
    out->source = CRN_START_IMPORT;
  } else if (q->has_load) {
    out->source = CRN_START_LOAD;
    out->model_epoch = q->load_file_epoch;
    if (automatic && q->load_file_epoch > 0) out->first_epoch = q->load_file_epoch + 1;
  }
  return CRN_OK;
}

crn_status crn_start_other(const crn_start_query *q, const crn_log *log, crn_start *out, crn_err *err) {
  *out = (crn_start){.source = CRN_START_RANDOM, .first_epoch = 1, .model_epoch = -1};
  if (q->has_load) {
    out->source = CRN_START_LOAD;
    out->model_epoch = q->load_file_epoch;
  } else if (q->load_epoch > 0) {
    if (!exists(q, q->load_epoch)) {
      crn_fail(err, CRN_E_FILE, "load_epoch is %lld, but there is no model of this epoch", (long long)q->load_epoch);
      append_existing(q, err);
      return CRN_E_FILE;
    }
    out->source = CRN_START_MODEL;
    out->model_epoch = q->load_epoch;
  } else if (q->n_existing > 0) {
    out->source = CRN_START_MODEL;
    out->model_epoch = q->existing[q->n_existing - 1];
  } else if (!q->allow_random) {
    return crn_fail(err, CRN_E_FILE,
                    "there is no model to load: set 'load', or 'model' (and 'load_epoch') of a training; "
                    "allow_random_model_init = True runs with random parameters");
  } else {
    crn_warnf(log, "no model is loaded, the parameters are random");
  }
  if (out->model_epoch > 0) out->first_epoch = out->model_epoch;
  return CRN_OK;
}

/* The number in text[0 … n-1], -1 if it is none. */
static int64_t number_of(const char *text, size_t n) {
  int64_t v = 0;
  if (n == 0 || n > 15) return -1;
  for (size_t i = 0; i < n; i++) {
    if (text[i] < '0' || text[i] > '9') return -1;
    v = 10 * v + (text[i] - '0');
  }
  return v;
}

int64_t crn_model_epoch_of(const char *path, int64_t load_epoch) {
  if (load_epoch > 0) return load_epoch;
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  int64_t found = -1;
  for (const char *dot = strchr(base, '.'); dot; dot = strchr(dot + 1, '.')) {
    const char *end = strchr(dot + 1, '.');
    int64_t v = number_of(dot + 1, end ? (size_t)(end - dot - 1) : strlen(dot + 1));
    if (v >= 0) found = v;
  }
  return found;
}

/* Prefix of an epoch's checkpoint if its index is there. */
static crn_status find_one(const char *model, int64_t epoch, crn_arena *a, const char **prefix, crn_err *err) {
  static const char *const forms[] = {"", "pretrain."};
  *prefix = NULL;
  for (int k = 0; k < 2; k++) {
    crn_str path = {0};
    crn_str_addf(&path, "%s.%s%03lld", model, forms[k], (long long)epoch);
    size_t len = path.len;
    crn_str_add(&path, ".index");
    bool found = crn_str_ok(&path) && access(crn_str_get(&path), F_OK) == 0;
    char *copy = found ? crn_arena_strndup(a, crn_str_get(&path), len) : NULL;
    bool failed = !crn_str_ok(&path) || (found && !copy);
    crn_str_free(&path);
    if (failed) return crn_err_memory(err);
    if (!found) continue;
    *prefix = copy;
    return CRN_OK;
  }
  return CRN_OK;
}

crn_status crn_models_find(const char *model, int64_t last_epoch, crn_arena *a, crn_models *out, crn_err *err) {
  int64_t *epochs = NULL;
  const char **prefixes = NULL;
  size_t n = 0, cap = 0;
  *out = (crn_models){0};
  for (int64_t e = 1, gap = 0; last_epoch > 0 ? e <= last_epoch : gap < 1000; e++) {
    const char *prefix;
    CRN_TRY(find_one(model, e, a, &prefix, err));
    gap = prefix ? 0 : gap + 1;
    if (!prefix) continue;
    if (n == cap) {
      cap = cap ? 2 * cap : 64;
      int64_t *more_epochs = CRN_ARENA_ARRAY(a, int64_t, cap);
      const char **more_prefixes = CRN_ARENA_ARRAY(a, const char *, cap);
      if (!more_epochs || !more_prefixes) return crn_err_memory(err);
      if (n) memcpy(more_epochs, epochs, n * sizeof *epochs);
      if (n) memcpy(more_prefixes, prefixes, n * sizeof *prefixes);
      epochs = more_epochs;
      prefixes = more_prefixes;
    }
    epochs[n] = e;
    prefixes[n++] = prefix;
  }
  *out = (crn_models){.epochs = epochs, .prefixes = prefixes, .n = n};
  return CRN_OK;
}

const char *crn_models_prefix(const crn_models *m, int64_t epoch) {
  for (size_t i = 0; i < m->n; i++)
    if (m->epochs[i] == epoch) return m->prefixes[i];
  return NULL;
}
