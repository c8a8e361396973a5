/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers shared by the operations on rows: work is cut over rows or columns (never over a sum), and one source serves
 * float and double.
 */
#ifndef CRN_TENSOR_SPLIT_H
#define CRN_TENSOR_SPLIT_H

#include "kernel/kernel.h"
#include "tensor/tensor.h"

/* The float or double version of a function of an .inc.h file. */
#define CRN_BY_REAL(dtype, name) ((dtype) == CRN_F64 ? name##_f64 : name##_f32)

typedef void (*crn_split_fn)(void *arg, int64_t begin, int64_t end);
/* Call fn over [0, n) cut into blocks of `block`, by the pool's threads; one call for all of it without a pool. */
void crn_split_run(crn_threads *t, int64_t n, int64_t block, crn_split_fn fn, void *arg);
/* Rows of a block that are worth a task, when a row costs about row_elements simple element operations. */
int64_t crn_split_block(int64_t row_elements);

/* Last axis and number of rows of a tensor of rank >= 1; rows is 0 when there is nothing to do. */
typedef struct crn_rows {
  int64_t rows, n;
} crn_rows;
crn_rows crn_rows_of(const crn_tensor *t);

/* y[j] += sum over rows of x[r,j], cut over columns. x, y of the given dtype. */
void crn_add_column_sums(crn_run *r, crn_dtype dtype, int64_t rows, int64_t n, const void *x, void *y);

/* For run: the node goes on the tape, so what backward needs must be kept. */
bool crn_node_kept(const crn_run *r, const crn_node *n);

/* For infer: input i must be float32 or float64, of the dtype of input 0. */
crn_status crn_check_real(crn_run *r, const crn_node *n, int i);
/* For infer: input i must be int32 of the given rank. */
crn_status crn_check_i32(crn_run *r, const crn_node *n, int i, int rank);

#endif
