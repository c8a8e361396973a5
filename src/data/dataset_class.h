/* SPDX-License-Identifier: Apache-2.0
 *
 * For those who add a dataset class: one row per class with a table of its options. A class's instance is a struct
 * that starts with crn_dataset; options are stored into it by offset. Register the row in dataset_all.c.
 */
#ifndef CRN_DATA_DATASET_CLASS_H
#define CRN_DATA_DATASET_CLASS_H

#include "base/map.h"
#include "data/dataset.h"
#include "data/order.h"

typedef enum crn_opt_type {
  CRN_DOPT_BOOL,  /* bool */
  CRN_DOPT_INT,   /* int64_t; None: CRN_DATA_NONE */
  CRN_DOPT_FLOAT, /* double; None: NaN */
  CRN_DOPT_STR,   /* const char *; None: NULL */
  CRN_DOPT_VALUE  /* const crn_value *, checked by the class; None or absent: NULL */
} crn_opt_type;

#define CRN_DATA_NONE INT64_MIN

struct crn_data_opt {
  const char *name;
  crn_opt_type type;
  size_t offset;   /* in the instance */
  const char *def; /* default as text: "None", "True", "3"; NULL = required */
  int64_t min;     /* smallest allowed integer */
  const char *doc;
};

struct crn_dataset_class {
  const char *name;
  const char *doc;          /* one sentence; for a class without init: why it isn't there */
  const crn_data_opt *opts; /* own options, ends with name NULL; the common ones are added */
  size_t bytes;             /* of the instance */
  /* Open files, set keys. Options are filled in. NULL: known, but not implemented. */
  crn_status (*init)(crn_dataset *ds, crn_err *err);
  void (*deinit)(crn_dataset *ds); /* also after a failed init; may be NULL */
  int64_t (*corpus_size)(const crn_dataset *ds);
  /* Length for ordering; NULL: the class can't be ordered by length. */
  crn_status (*order_length)(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err);
  crn_status (*tag)(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err);
  crn_status (*length)(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err);
  /* Rows [start, end) with 0 <= start <= end <= length. */
  crn_status (*read)(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                     crn_err *err);
  /* Called when the epoch's order is made; for classes with random content. May be NULL. */
  crn_status (*on_epoch)(crn_dataset *ds, crn_err *err);
  /* Makes the order itself (sets order and n_order); NULL: the common way. list may be NULL. */
  crn_status (*make_order)(crn_dataset *ds, const crn_seq_list *list, crn_err *err);
  /* Sequences found while reading: whether there is an i-th; NULL: i < n_order. */
  crn_status (*has_seq)(crn_dataset *ds, int64_t i, bool *yes, crn_err *err);
  bool by_position;       /* length and read take the sorted index instead of the corpus index */
  bool sorted_is_default; /* "sorted" quietly means "default" */
  bool no_corpus_index;   /* sorted indices can't be mapped to the corpus */
};

crn_status crn_dataset_check_options(const crn_dataset_class *cls, const crn_value *options, crn_dataset_problem fn,
                                     void *user, crn_err *err);

struct crn_dataset {
  const crn_dataset_class *cls;
  crn_arena arena; /* options, keys, whatever lives as long as the dataset */
  crn_data_env env;
  crn_data_key *keys; /* in the arena */
  size_t n_keys, cap_keys;
  /* the epoch */
  int64_t epoch;
  int64_t *order;  /* corpus index of each sorted index; NULL: the same */
  int64_t n_order; /* -1 = not known yet */
  const char *forced_order;
  crn_map tag_index; /* tag -> corpus index + 1; made on first use */
  bool tag_index_made;
  crn_str tag_text; /* for classes that compose tags */
  crn_map filter;   /* tags of seq_list_filter_file */
  bool filter_read;
  crn_map order_lens; /* seq_order_seq_lens_file: tag -> length + 1 */
  bool order_lens_read;
  /* common options */
  const char *name;
  const crn_value *seq_ordering;
  int64_t partition_epoch, repeat_epoch, fixed_random_seed, random_seed_offset, estimated_num_seqs;
  int64_t shuffle_frames_of_nseqs, window;
  const char *seq_list_filter_file, *seq_order_seq_lens_file;
  bool unique_seq_tags;
  const crn_value *chunking, *min_chunk_size, *context_window;
  double chunking_variance;
};

#define CRN_DATA_OFF(type, field) offsetof(type, field)

/* ---- help for classes ---- */

/* Add a key; its pointer is valid until the next one is added. */
crn_status crn_dataset_add_key(crn_dataset *ds, const char *name, crn_data_key **key, crn_err *err);
/* Keys in this order: "data" first, then by name. */
void crn_dataset_sort_keys(crn_dataset *ds);
/* "FILE" as it is to be opened (see crn_data_env.base_dir); in the dataset's arena. NULL: no memory. */
const char *crn_dataset_path(crn_dataset *ds, const char *file);
/* Fail with the dataset's name and class in front. */
crn_status crn_dataset_fail(const crn_dataset *ds, crn_err *err, crn_status code, const char *fmt, ...)
    CRN_PRINTF(4, 5);
/* The common way of ordering: by list, or by the options. */
crn_status crn_dataset_common_order(crn_dataset *ds, const crn_seq_list *list, crn_err *err);
/* What follows on an order that a class made: unique tags, part, repetition, filter. */
crn_status crn_dataset_after_order(crn_dataset *ds, crn_err *err);
/* Corpus index of a tag, or -1. */
crn_status crn_dataset_find_tag(crn_dataset *ds, const char *tag, int64_t *seq, crn_err *err);
crn_seed_rule crn_dataset_seed_rule(const crn_dataset *ds);
/* "PREFIX%d" as tag. */
crn_status crn_dataset_number_tag(crn_dataset *ds, const char *prefix, int64_t seq, const char **tag, crn_err *err);
/* Fill the options of ds from its table and the common one; unknown names are errors. */
crn_status crn_dataset_read_options(crn_dataset *ds, const crn_value *options, crn_err *err);
const crn_data_opt *crn_dataset_common_options(void);
/* Follow functions and strings until the dict of a dataset is there; new values are in the arena. */
crn_status crn_dataset_resolve(crn_arena *a, const crn_value *spec, const crn_data_env *env, const crn_value **dict,
                               crn_err *err);
/* The sub-dataset given by an option, with the parent's environment. */
crn_status crn_dataset_new_part(crn_dataset *parent, const crn_value *spec, const char *name, crn_dataset **out,
                                crn_err *err);

#endif
