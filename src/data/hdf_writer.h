/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes sequences into an HDF file that HDFDataset (here and in the old program) reads: for the task forward and
 * for layers that dump their output.
 */
#ifndef CRN_DATA_HDF_WRITER_H
#define CRN_DATA_HDF_WRITER_H

#include "data/ntype.h"

typedef struct crn_hdf_writer crn_hdf_writer;

/* An additional key: sequences of [rows] (ndim 1) or [rows, dim] (ndim 2). */
typedef struct crn_hdf_extra {
  const char *key;
  crn_ntype type; /* integer, real or STR */
  int64_t dim;    /* features or labels; 0: none, written as 1 */
  int ndim;
} crn_hdf_extra;

typedef struct crn_hdf_layout {
  crn_ntype type;        /* of the main data */
  int64_t dim;           /* features per row, or labels if sparse; 0: none, written as 1 */
  bool has_feature_axis; /* rows of dim numbers; false: one number per row */
  int n_axes;            /* axes with lengths before the feature axis; more than one adds the key "sizes" */
  const char *const *labels;
  size_t n_labels;
  const crn_hdf_extra *extras;
  size_t n_extras;
} crn_hdf_layout;

/* The file appears under path only when the writer is closed. An existing one is an error unless override. */
crn_status crn_hdf_writer_new(const char *path, const crn_hdf_layout *layout, bool override, crn_hdf_writer **out,
                              crn_err *err);

typedef struct crn_hdf_rows {
  int64_t n;
  const void *data; /* n rows */
} crn_hdf_rows;
/* One sequence: its flattened rows, the lengths of its axes (n_axes of them), and the rows of each extra key. */
crn_status crn_hdf_writer_add(crn_hdf_writer *w, const char *tag, crn_hdf_rows rows, const int32_t *axes,
                              const crn_hdf_rows *extras, crn_err *err);
/* A batch [B, T1, …, (dim)] without extras: every axis is cut to its length. lengths[i]: int32 [B] of axis i, or NULL
 * if all are as long as the array. */
crn_status crn_hdf_writer_add_batch(crn_hdf_writer *w, const int64_t *shape, const void *data,
                                    const int32_t *const *lengths, const char *const *tags, crn_err *err);
/* Finish the file and move it to its place. Frees w in any case. */
crn_status crn_hdf_writer_close(crn_hdf_writer *w, crn_err *err);
void crn_hdf_writer_abandon(crn_hdf_writer *w); /* leave nothing behind; NULL is fine */

#endif
