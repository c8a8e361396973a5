/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of kernels: plain loops over pointers, sizes and strides that know nothing of tensors. One table per
 * instruction set for float; the reference table exists for float and double from one source. Callers hold a const
 * pointer to a table; there is no global state and nothing here fails or allocates (matrix products use up to 768 KB of
 * stack, also in the pool's threads).
 *
 * Same answer always: the order of every sum depends on the length of that sum only, element-wise functions give the
 * same bits at every position, and threads cut work over rows and columns. Tables differ among each other in the last
 * bits.
 */
#ifndef CRN_KERNEL_KERNEL_H
#define CRN_KERNEL_KERNEL_H

#include "kernel/matmul.h"

/* Which of the four blocks of n columns holds which gate: j cell input, i input gate, f forget gate, o output gate. */
typedef struct crn_lstm_layout {
  int8_t j, i, f, o;
} crn_lstm_layout;
#define CRN_LSTM_JIFO ((crn_lstm_layout){.j = 0, .i = 1, .f = 2, .o = 3}) /* native LSTM */
#define CRN_LSTM_IJFO ((crn_lstm_layout){.i = 0, .j = 1, .f = 2, .o = 3}) /* TensorFlow's cells */

#define CRN_REAL float
#define CRN_K(name) name
#include "kernel/kernel_table.inc.h"
#undef CRN_REAL
#undef CRN_K

#define CRN_REAL double
#define CRN_K(name) name##_f64
#include "kernel/kernel_table.inc.h"
#undef CRN_REAL
#undef CRN_K

/* Table for this processor. force: "reference", "v3" (AVX2 + FMA), "v4" (AVX-512), or NULL for the best one that the
 * processor can run. NULL when force names no table or one that the processor can't run. */
const crn_kernels *crn_kernels_select(const char *force);
/* The i-th table that this processor can run, reference first, best last; NULL beyond the last. */
const crn_kernels *crn_kernels_nth(int i);
/* Reference table in double. */
const crn_kernels_f64 *crn_kernels_double(void);

#endif
