/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules for the first epoch and the first parameters; see start_epoch.h.
 */
#include "train/start_epoch.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct found_model {
  int64_t epoch;
  bool pretrain;
} found_model;

static int by_epoch(const void *a, const void *b) {
  const found_model *x = a, *y = b;
  if (x->epoch != y->epoch) return x->epoch < y->epoch ? -1 : 1;
  return (int)x->pretrain - (int)y->pretrain;
}

/* "BASE.007.index" or "BASE.pretrain.007.index"; numbers as "%03d" writes them. */
static bool is_model(const char *file, const char *base, found_model *out) {
  static const char pretrain[] = "pretrain.", index[] = ".index";
  const size_t n = strlen(base);
  if (strncmp(file, base, n) != 0 || file[n] != '.') return false;
  const char *number = file + n + 1;
  out->pretrain = crn_starts_with(number, pretrain);
  if (out->pretrain) number += sizeof pretrain - 1;
  const size_t digits = strspn(number, "0123456789");
  if (digits < 3 || (digits > 3 && number[0] == '0') || strcmp(number + digits, index) != 0) return false;
  out->epoch = number_of(number, digits);
  return out->epoch > 0;
}

/* Checkpoints of all epochs in the folder, in no order; the caller frees *out. No folder: none; but one that can't be
 * looked into is an error, else a training would begin anew over its own models. */
static crn_status list_models(const char *folder, const char *base, int64_t last, found_model **out, size_t *n,
                              crn_err *err) {
  size_t cap = 0;
  DIR *d = opendir(folder);
  if (!d && (errno == ENOENT || errno == ENOTDIR)) return CRN_OK;
  if (!d) return crn_fail(err, CRN_E_FILE, "can't look for models in folder '%s': %s", folder, strerror(errno));
  for (const struct dirent *entry; (errno = 0, entry = readdir(d));) {
    found_model one;
    if (!is_model(entry->d_name, base, &one) || (last > 0 && one.epoch > last)) continue;
    if (*n == cap) {
      cap = cap ? 2 * cap : 64;
      found_model *more = crn_realloc(*out, cap * sizeof *more);
      if (!more) {
        closedir(d);
        return crn_err_memory(err);
      }
      *out = more;
    }
    (*out)[(*n)++] = one;
  }
  const int error = errno;
  closedir(d);
  return error ? crn_fail(err, CRN_E_FILE, "can't look for models in folder '%s': %s", folder, strerror(error))
               : CRN_OK;
}

crn_status crn_models_find(const char *model, int64_t last_epoch, crn_arena *a, crn_models *out, crn_err *err) {
  const char *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model;
  const char *folder = slash ? crn_arena_strndup(a, model, (size_t)(base - model)) : ".";
  found_model *found = NULL;
  size_t n = 0, kept = 0;
  *out = (crn_models){0};
  if (!folder) return crn_err_memory(err);
  crn_status st = list_models(folder, base, last_epoch, &found, &n, err);
  if (st == CRN_OK && n) {
    qsort(found, n, sizeof *found, by_epoch);
    int64_t *epochs = CRN_ARENA_ARRAY(a, int64_t, n);
    const char **prefixes = CRN_ARENA_ARRAY(a, const char *, n);
    for (size_t i = 0; epochs && prefixes && i < n; i++) {
      if (kept && epochs[kept - 1] == found[i].epoch) continue; /* the one without pretrain came first */
      epochs[kept] = found[i].epoch;
      prefixes[kept] =
          crn_arena_printf(a, "%s.%s%03lld", model, found[i].pretrain ? "pretrain." : "", (long long)found[i].epoch);
      if (!prefixes[kept++]) st = crn_err_memory(err);
    }
    *out = (crn_models){.epochs = epochs, .prefixes = prefixes, .n = kept};
    if (!epochs || !prefixes) st = crn_err_memory(err);
  }
  crn_free(found);
  return st;
}

const char *crn_models_prefix(const crn_models *m, int64_t epoch) {
  for (size_t i = 0; i < m->n; i++)
    if (m->epochs[i] == epoch) return m->prefixes[i];
  return NULL;
}
