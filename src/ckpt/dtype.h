/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types as checkpoints number them (TensorFlow's DataType).
 */
#ifndef CRN_CKPT_DTYPE_H
#define CRN_CKPT_DTYPE_H

#include "base/status.h"

typedef enum crn_tf_dtype {
  CRN_TF_INVALID = 0,
  CRN_TF_FLOAT32 = 1,
  CRN_TF_FLOAT64 = 2,
  CRN_TF_INT32 = 3,
  CRN_TF_UINT8 = 4,
  CRN_TF_INT16 = 5,
  CRN_TF_INT8 = 6,
  CRN_TF_STRING = 7,
  CRN_TF_COMPLEX64 = 8,
  CRN_TF_INT64 = 9,
  CRN_TF_BOOL = 10,
  CRN_TF_BFLOAT16 = 14,
  CRN_TF_UINT16 = 17,
  CRN_TF_COMPLEX128 = 18,
  CRN_TF_FLOAT16 = 19,
  CRN_TF_UINT32 = 22,
  CRN_TF_UINT64 = 23
} crn_tf_dtype;

/* "float32", …; "type 21" style text isn't made here: unknown ones give "unknown". */
const char *crn_tf_dtype_name(int dtype);
/* Bytes of an element; 0 for strings and unknown types. */
size_t crn_tf_dtype_bytes(int dtype);

/* Values from one type to another: all float types into each other, all integer types and bool into each other where
 * every value fits, integers into floats where they stay exact. CRN_E_FORMAT says which value or pair doesn't. */
crn_status crn_tf_convert(int from, const void *src, int to, void *dst, int64_t n, crn_err *err);
/* True if crn_tf_convert knows the pair. */
bool crn_tf_convertible(int from, int to);

#endif
