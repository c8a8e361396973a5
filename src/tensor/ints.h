/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing elements of any integer type (and bool) as int64. For operations whose time integers don't
 * decide.
 */
#ifndef CRN_TENSOR_INTS_H
#define CRN_TENSOR_INTS_H

#include "tensor/tensor.h"

static inline int64_t crn_int_get(const void *p, crn_dtype t, int64_t i) {
  switch (t) {
  case CRN_BOOL:
  case CRN_U8:
    return ((const uint8_t *)p)[i];
  case CRN_I8:
    return ((const int8_t *)p)[i];
  case CRN_I16:
    return ((const int16_t *)p)[i];
  case CRN_U16:
    return ((const uint16_t *)p)[i];
  case CRN_I32:
    return ((const int32_t *)p)[i];
  case CRN_I64:
    return ((const int64_t *)p)[i];
  default:
    return 0;
  }
}

/* The value's low bits; bool: value != 0. */
static inline void crn_int_put(void *p, crn_dtype t, int64_t i, int64_t v) {
  switch (t) {
  case CRN_BOOL:
    ((uint8_t *)p)[i] = v != 0;
    break;
  case CRN_U8:
    ((uint8_t *)p)[i] = (uint8_t)v;
    break;
  case CRN_I8:
    ((int8_t *)p)[i] = (int8_t)v;
    break;
  case CRN_I16:
    ((int16_t *)p)[i] = (int16_t)v;
    break;
  case CRN_U16:
    ((uint16_t *)p)[i] = (uint16_t)v;
    break;
  case CRN_I32:
    ((int32_t *)p)[i] = (int32_t)v;
    break;
  case CRN_I64:
    ((int64_t *)p)[i] = v;
    break;
  default:
    break;
  }
}

/* v brought into the range of t's values, so that it can be converted; NaN becomes 0. Floats stay as they are. */
static inline double crn_dtype_clamp(crn_dtype t, double v) {
  if (t == CRN_BOOL) return v != 0;
  if (!crn_dtype_is_int(t)) return v;
  bool is_signed = t != CRN_U8 && t != CRN_U16;
  int bits = (int)crn_dtype_bytes(t) * 8 - is_signed;
  double max =
      bits == 63 ? 9223372036854774784.0 : (double)(((int64_t)1 << bits) - 1); /* the largest double below 2^63 */
  double min = is_signed ? (bits == 63 ? -9223372036854775808.0 : -max - 1) : 0;
  return v != v ? 0 : v < min ? min : v > max ? max : v;
}

static inline bool crn_is_index(const crn_tensor *t) { return t->dtype == CRN_I32 || t->dtype == CRN_I64; }

#endif
