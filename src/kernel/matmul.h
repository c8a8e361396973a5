/* SPDX-License-Identifier: Apache-2.0
 *
 * What matrix products are called with.
 *
 * Order of summation, the same in every path (packed or not, one row or a thousand, any number of threads): element
 * C[i,j] sums its K products in chunks of CRN_MATMUL_CHUNK, in order of k inside the chunk starting from zero, and the
 * chunk sums are added to the start value (0, C, bias or C + bias) in order. So a row's result depends on neither the
 * other rows nor the tiling, and trailing zeros of a reduction change nothing.
 */
#ifndef CRN_KERNEL_MATMUL_H
#define CRN_KERNEL_MATMUL_H

#include "base/threads.h"

#define CRN_MATMUL_CHUNK 256 /* products summed before the sum is added to the result */

/* B [K, N] laid out for one kernel table; only products of the same table can read it. data belongs to the caller. */
typedef struct crn_packed_b {
  int64_t K, N;
  void *data;   /* 64-byte aligned, bytes long */
  size_t bytes; /* as said by packed_b_bytes of the table */
} crn_packed_b;

/* Products [M,K]·[K,N] repeated over two outer axes (say batch and head), steps in elements. */
typedef struct crn_matmul_batch {
  int64_t n[2];
  int64_t stride_a[2], stride_b[2], stride_c[2];
} crn_matmul_batch;

#endif
