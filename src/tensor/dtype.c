/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types: sizes and names, in one table.
 */
#include <string.h>

#include "tensor/tensor.h"

static const struct {
  const char *name;
  uint8_t bytes;
  bool is_float, is_int;
} dtypes[CRN_N_DTYPES] = {
    [CRN_F32] = {"float32", 4, true, false}, [CRN_F64] = {"float64", 8, true, false},
    [CRN_C64] = {"complex64", 8, false, false}, [CRN_BOOL] = {"bool", 1, false, false},
    [CRN_I8] = {"int8", 1, false, true},     [CRN_U8] = {"uint8", 1, false, true},
    [CRN_I16] = {"int16", 2, false, true},   [CRN_U16] = {"uint16", 2, false, true},
    [CRN_I32] = {"int32", 4, false, true},   [CRN_I64] = {"int64", 8, false, true},
    [CRN_STRING] = {"string", sizeof(char *), false, false},
};

size_t crn_dtype_bytes(crn_dtype t) { return dtypes[t].bytes; }
const char *crn_dtype_name(crn_dtype t) { return dtypes[t].name; }
bool crn_dtype_is_float(crn_dtype t) { return dtypes[t].is_float; }
bool crn_dtype_is_int(crn_dtype t) { return dtypes[t].is_int; }

bool crn_dtype_from_name(const char *name, crn_dtype *out) {
  for (int i = 0; i < CRN_N_DTYPES; i++)
    if (!strcmp(name, dtypes[i].name)) {
      *out = (crn_dtype)i;
      return true;
    }
  return false;
}
