/* SPDX-License-Identifier: Apache-2.0
 *
 * Where to start: which checkpoint a task loads and which epoch a training begins with. The choice is a pure function
 * over what exists and what the config says; only crn_models_find looks at the disk.
 */
#ifndef CRN_TRAIN_START_EPOCH_H
#define CRN_TRAIN_START_EPOCH_H

#include "base/arena.h"
#include "base/log.h"

typedef enum crn_start_source {
  CRN_START_RANDOM, /* initial values */
  CRN_START_MODEL,  /* the checkpoint of model_epoch */
  CRN_START_IMPORT, /* import_model_train_epoch1 */
  CRN_START_LOAD    /* load */
} crn_start_source;

typedef struct crn_start_query {
  const int64_t *existing; /* epochs with a checkpoint, ascending */
  size_t n_existing;
  int64_t start_epoch; /* 0 = "auto" */
  bool has_import, has_load;
  int64_t load_file_epoch; /* epoch of the load file, -1 = unknown; see crn_model_epoch_of */
  int64_t load_epoch;      /* 0 = not set */
  bool allow_random;       /* allow_random_model_init */
} crn_start_query;

typedef struct crn_start {
  crn_start_source source;
  int64_t model_epoch; /* CRN_START_MODEL: which; CRN_START_LOAD: load_file_epoch */
  int64_t first_epoch; /* of training; in other tasks the epoch that the model stands for (>= 1) */
} crn_start;

/* Task train. What is ignored is said through log. */
crn_status crn_start_train(const crn_start_query *q, const crn_log *log, crn_start *out, crn_err *err);
/* All other tasks. */
crn_status crn_start_other(const crn_start_query *q, const crn_log *log, crn_start *out, crn_err *err);

/* Epoch in a checkpoint's file name: load_epoch if > 0, else the last ".NUMBER" of the base name (".index" and ".meta"
 * at the end are passed over), else -1. path should have its symbolic links resolved. */
int64_t crn_model_epoch_of(const char *path, int64_t load_epoch);

typedef struct crn_models {
  const int64_t *epochs;       /* ascending */
  const char *const *prefixes; /* "MODEL.007" or "MODEL.pretrain.007" */
  size_t n;
} crn_models;

/* Checkpoints of a training: for epoch 1 … last_epoch "MODEL.%03d", else "MODEL.pretrain.%03d", with ".index".
 * last_epoch 0 (a training without end): all. Memory from a. */
crn_status crn_models_find(const char *model, int64_t last_epoch, crn_arena *a, crn_models *out, crn_err *err);
/* Prefix of an epoch's checkpoint, NULL if there is none. */
const char *crn_models_prefix(const crn_models *m, int64_t epoch);

#endif
