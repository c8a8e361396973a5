/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets as configs name them: sequences, each with a tag and one array per data key, in an order made anew for
 * every epoch. This is the side that readers of data see; dataset_class.h is the side of those who add a class.
 *
 *   crn_dataset_new(spec, env, &ds, err);
 *   crn_dataset_begin_epoch(ds, epoch, NULL, err);
 *   for (i = 0; crn_dataset_has_seq(ds, i, &yes, err) == CRN_OK && yes; i++)
 *     crn_dataset_read(ds, i, key, 0, length, &array, err);
 *
 * A "sorted index" i counts in the epoch's order, a "corpus index" in the unordered data. A dataset is used by one
 * thread at a time.
 */
#ifndef CRN_DATA_DATASET_H
#define CRN_DATA_DATASET_H

#include "base/log.h"
#include "data/ntype.h"
#include "value/value.h"

enum { CRN_DATA_MAX_RANK = 8 };

typedef struct crn_dataset crn_dataset;

/* What one data key holds. */
typedef struct crn_data_key {
  const char *name;
  int64_t dim; /* number of labels if sparse, else of features; -1 = unknown or none */
  int ndim;    /* axes without batch, time included: 1 = [T], 2 = [T,dim] */
  bool sparse;
  bool is_target;   /* not available at inference */
  bool length_only; /* lengths are known and count in batches, but there are no data */
  crn_ntype dtype;
  int rank;                         /* of shape */
  int64_t shape[CRN_DATA_MAX_RANK]; /* of a sequence; shape[0] = -1: the time axis */
  const char *const *labels;        /* names of the labels, or NULL; lives as long as the dataset */
  size_t n_labels;
} crn_data_key;

/* An array whose memory is reused from call to call. Zero-initialised = empty. */
typedef struct crn_array {
  crn_ntype dtype; /* STR: elements are pointers owned by the dataset, valid until its next call */
  int rank;
  int64_t shape[CRN_DATA_MAX_RANK];
  int64_t n; /* number of elements */
  void *data;
  size_t cap_bytes;
} crn_array;
crn_status crn_array_resize(crn_array *a, crn_ntype dtype, int rank, const int64_t *shape, crn_err *err);
void crn_array_free(crn_array *a);

/* What a dataset may need from outside. All members may be zero. */
typedef struct crn_data_env {
  const char *base_dir;       /* folder of the config; files not found from the working directory are looked up here */
  const crn_log *log;         /* warnings */
  int64_t random_seed_offset; /* of distributed training */
  /* Call a function of the config with n positional arguments; NULL: functions are refused. */
  crn_status (*call)(void *host, const crn_value *function, const crn_value *const *args, size_t n, crn_arena *a,
                     crn_value **result, crn_err *err);
  /* Evaluate an expression with the config's variables; NULL: refused. */
  crn_status (*eval)(void *host, const char *expression, crn_arena *a, crn_value **result, crn_err *err);
  void *host;
} crn_data_env;

/* ---- making ---- */

/* From a dict {"class": …, options}, a function, or a string in any form of a config (config:EXPR, a dict literal,
 * Class:opt=value,…, or comma-separated HDF files). defaults (may be NULL): options that hold when spec is a dict and
 * hasn't them. name: for messages and logs, when spec has none. */
crn_status crn_dataset_new(const crn_value *spec, const crn_value *defaults, const char *name, const crn_data_env *env,
                           crn_dataset **out, crn_err *err);
/* The config's dataset of this key ("train", "dev", "eval" or another one that holds a dataset, as "search_data"),
 * with the options that a config adds to it. *out = NULL if the config has no such key (or None). */
crn_status crn_dataset_from_config(const crn_value *config, const char *key, const crn_data_env *env, crn_dataset **out,
                                   crn_err *err);
/* An entry of the config's eval_datasets. */
crn_status crn_dataset_from_eval_datasets(const crn_value *config, const char *name, const crn_data_env *env,
                                          crn_dataset **out, crn_err *err);
void crn_dataset_free(crn_dataset *ds); /* NULL is fine */

/* ---- what it holds ---- */

const char *crn_dataset_name(const crn_dataset *ds);
const char *crn_dataset_class_name(const crn_dataset *ds);
size_t crn_dataset_num_keys(const crn_dataset *ds);
const crn_data_key *crn_dataset_key(const crn_dataset *ds, size_t k);
int crn_dataset_find_key(const crn_dataset *ds, const char *name); /* -1 if there is none */
/* Check one key of the network's side: sparse, dtype, dim (unless unknown, -1) and the sizes behind the time axis. */
crn_status crn_dataset_check_key(const crn_dataset *ds, const crn_data_key *want, crn_err *err);
/* Number of sequences without order, partition and filters; -1 unknown, INT64_MAX without end. */
int64_t crn_dataset_corpus_size(const crn_dataset *ds);
/* For progress display: sequences of this epoch, or what the dataset's option says; -1 unknown. */
int64_t crn_dataset_estimated_num_seqs(const crn_dataset *ds);

/* ---- an epoch ---- */

/* Exactly these sequences, by tag or corpus index. n = 0: none. */
typedef struct crn_seq_list {
  const char *const *tags; /* n tags, or NULL */
  const int64_t *indices;  /* n corpus indices, or NULL */
  size_t n;
} crn_seq_list;

/* Order the sequences for this 1-based epoch (0: no epoch; counts as 1), or take a list. */
crn_status crn_dataset_begin_epoch(crn_dataset *ds, int64_t epoch, const crn_seq_list *list, crn_err *err);
/* Order this way from the next epoch on, whatever the options say ("sorted_reverse" in search). */
crn_status crn_dataset_set_order(crn_dataset *ds, const char *order, crn_err *err);
int64_t crn_dataset_num_seqs(const crn_dataset *ds); /* of this epoch; -1 = not known yet, INT64_MAX = without end */
crn_status crn_dataset_has_seq(crn_dataset *ds, int64_t i, bool *yes, crn_err *err);
int64_t crn_dataset_corpus_index(const crn_dataset *ds, int64_t i);
bool crn_dataset_has_corpus_index(const crn_dataset *ds); /* sorted indices can be mapped to the corpus */
bool crn_dataset_has_lengths(const crn_dataset *ds);      /* it can be ordered by length */
/* Valid until the next call. */
crn_status crn_dataset_tag(crn_dataset *ds, int64_t i, const char **tag, crn_err *err);
/* Frames of a key in sequence i (1 for keys without time axis). */
crn_status crn_dataset_length(crn_dataset *ds, int64_t i, size_t key, int64_t *length, crn_err *err);
/* Rows [start, end) of a key with time axis, else all of it (start and end are ignored). */
crn_status crn_dataset_read(crn_dataset *ds, int64_t i, size_t key, int64_t start, int64_t end, crn_array *out,
                            crn_err *err);
/* Frames of a key over all sequences of the epoch. */
crn_status crn_dataset_total_frames(crn_dataset *ds, size_t key, int64_t *frames, crn_err *err);
int64_t crn_dataset_epoch(const crn_dataset *ds);       /* the one that was begun */
bool crn_dataset_order_is_fixed(const crn_dataset *ds); /* every epoch has the same sequences in the same order */
uint32_t crn_dataset_epoch_seed(const crn_dataset *ds);

/* ---- options that the batcher reads ---- */

typedef struct crn_chunk_options {
  const crn_value *chunking, *min_chunk_size, *context_window; /* as the config gave them, or NULL */
  double chunking_variance;
} crn_chunk_options;
crn_chunk_options crn_dataset_chunk_options(const crn_dataset *ds);
const crn_data_env *crn_dataset_env(const crn_dataset *ds);

/* ---- documentation ---- */

typedef struct crn_data_opt crn_data_opt;
typedef struct crn_dataset_class crn_dataset_class;
const crn_dataset_class *const *crn_dataset_classes(size_t *n); /* all known classes */
typedef enum crn_class_state { CRN_CLASS_THERE, CRN_CLASS_NOT_IMPLEMENTED, CRN_CLASS_UNKNOWN } crn_class_state;
/* *doc: what it is, or why it isn't there; *nearest: of an unknown one, or NULL. */
crn_class_state crn_dataset_class_look_up(const char *name, const char **doc, const char **nearest);
/* Tell each unknown, wrong or missing option of a dataset dict whose class is there. Opens nothing. */
typedef void (*crn_dataset_problem)(void *user, const char *text);
crn_status crn_dataset_check(const crn_value *spec, crn_dataset_problem fn, void *user, crn_err *err);

#endif
