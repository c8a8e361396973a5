/* SPDX-License-Identifier: Apache-2.0
 *
 * HDF5 files: the only place that calls libhdf5. Debian's build of it isn't thread-safe, so every call runs under one
 * process-wide lock; the functions here may be called from any thread. The library's own error printing is off while
 * we are inside it; its innermost complaint becomes part of our message. Names are paths as "targets/data/classes".
 *
 * Arrays that functions return are allocated with crn_malloc and freed by the caller with crn_free.
 */
#ifndef CRN_DATA_HDF5_H
#define CRN_DATA_HDF5_H

#include "data/ntype.h"

enum { CRN_H5_MAX_RANK = 8 };

typedef struct crn_h5 crn_h5; /* an open file; one thread at a time per handle, except that reading may be shared */

/* Type and shape of a dataset or attribute. */
typedef struct crn_h5_info {
  crn_ntype type; /* as stored; float16 counts as float32; NONE: a type that can't be read here */
  int rank;       /* 0 = scalar */
  int64_t shape[CRN_H5_MAX_RANK];
  int64_t n; /* number of elements */
} crn_h5_info;

/* ---- files ---- */
crn_status crn_h5_open(const char *path, crn_h5 **out, crn_err *err); /* to read */
crn_status crn_h5_create(const char *path, crn_h5 **out,
                         crn_err *err); /* new, to write; an existing file is an error */
crn_status crn_h5_append(const char *path, crn_h5 **out, crn_err *err); /* existing, to read and write */
/* Close; NULL is fine. A failure means that what was written may not have reached the file. */
crn_status crn_h5_close(crn_h5 *f, crn_err *err);
const char *crn_h5_path(const crn_h5 *f);

/* ---- looking around; object "" or "/" is the root ---- */
bool crn_h5_has(crn_h5 *f, const char *name); /* a group or dataset of that name exists */
bool crn_h5_is_dataset(crn_h5 *f, const char *name);
bool crn_h5_has_attr(crn_h5 *f, const char *object, const char *attr);
/* Names of a group's members or of an object's attributes, in ascending order; *names is one block. */
crn_status crn_h5_members(crn_h5 *f, const char *group, char ***names, size_t *n, crn_err *err);
crn_status crn_h5_attrs(crn_h5 *f, const char *object, char ***names, size_t *n, crn_err *err);

/* ---- reading ---- */
crn_status crn_h5_get_info(crn_h5 *f, const char *name, crn_h5_info *info, crn_err *err);
crn_status crn_h5_get_attr_info(crn_h5 *f, const char *object, const char *attr, crn_h5_info *info, crn_err *err);
/* Whole dataset, numbers converted to type (NONE: as stored). info may be NULL. */
crn_status crn_h5_read(crn_h5 *f, const char *name, crn_ntype type, void **data, crn_h5_info *info, crn_err *err);
/* Rows [start, start+count) along the first axis, into buf which holds them all. */
crn_status crn_h5_read_rows(crn_h5 *f, const char *name, crn_ntype type, int64_t start, int64_t count, void *buf,
                            crn_err *err);
/* Strings of fixed or variable length, cut at the first zero byte; *strings is one block. Empty data give n = 0. */
crn_status crn_h5_read_strings(crn_h5 *f, const char *name, char ***strings, size_t *n, crn_err *err);
crn_status crn_h5_read_attr(crn_h5 *f, const char *object, const char *attr, crn_ntype type, void **data,
                            crn_h5_info *info, crn_err *err);
crn_status crn_h5_read_attr_strings(crn_h5 *f, const char *object, const char *attr, char ***strings, size_t *n,
                                    crn_err *err);
/* One number; an array of one element will do. */
crn_status crn_h5_attr_int(crn_h5 *f, const char *object, const char *attr, int64_t *out, crn_err *err);
crn_status crn_h5_attr_double(crn_h5 *f, const char *object, const char *attr, double *out, crn_err *err);

/* ---- writing; groups on the way to a name are made ---- */
crn_status crn_h5_make_group(crn_h5 *f, const char *name, crn_err *err);
crn_status crn_h5_write(crn_h5 *f, const char *name, crn_ntype type, int rank, const int64_t *shape, const void *data,
                        crn_err *err);
typedef enum crn_h5_strkind {
  CRN_H5_VARIABLE, /* variable length, UTF-8 */
  CRN_H5_FIXED     /* fixed length (the longest of them), zero-padded */
} crn_h5_strkind;
crn_status crn_h5_write_strings(crn_h5 *f, const char *name, crn_h5_strkind kind, const char *const *strings, size_t n,
                                crn_err *err);
/* A dataset that can grow along its first axis: it starts with 0 rows; shape[0] is ignored. type STR: variable-length
 * strings. Then add rows to its end. */
crn_status crn_h5_make_growing(crn_h5 *f, const char *name, crn_ntype type, int rank, const int64_t *shape,
                               crn_err *err);
crn_status crn_h5_add_rows(crn_h5 *f, const char *name, crn_ntype type, int64_t count, const void *data, crn_err *err);
crn_status crn_h5_write_attr(crn_h5 *f, const char *object, const char *attr, crn_ntype type, int rank,
                             const int64_t *shape, const void *data, crn_err *err);
crn_status crn_h5_write_attr_int(crn_h5 *f, const char *object, const char *attr, int64_t value, crn_err *err);
crn_status crn_h5_write_attr_string(crn_h5 *f, const char *object, const char *attr, const char *text, crn_err *err);

#endif
