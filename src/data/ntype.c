/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, sizes and conversion of element types, from one table.
 */
#include "data/ntype.h"

#include <math.h>
#include <string.h>

typedef struct ntype_row {
  const char *name;
  size_t bytes;
  double min, max; /* range of an integer type, as far as double holds it */
  char kind;       /* 'i' integer, 'b' bool, 'f' real, 'c' complex, 's' string, 0 none */
} ntype_row;

/* In the order of crn_ntype. */
static const ntype_row rows[] = {
    {"unknown", 0, 0, 0, 0},
    {"bool", 1, 0, 1, 'b'},
    {"int8", 1, INT8_MIN, INT8_MAX, 'i'},
    {"uint8", 1, 0, UINT8_MAX, 'i'},
    {"int16", 2, INT16_MIN, INT16_MAX, 'i'},
    {"uint16", 2, 0, UINT16_MAX, 'i'},
    {"int32", 4, INT32_MIN, INT32_MAX, 'i'},
    {"uint32", 4, 0, UINT32_MAX, 'i'},
    {"int64", 8, -9223372036854775808.0, 9223372036854774784.0, 'i'},
    {"uint64", 8, 0, 18446744073709549568.0, 'i'},
    {"float32", 4, 0, 0, 'f'},
    {"float64", 8, 0, 0, 'f'},
    {"complex64", 8, 0, 0, 'c'},
    {"complex128", 16, 0, 0, 'c'},
    {"string", sizeof(char *), 0, 0, 's'},
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const ntype_row *row_of(crn_ntype t) { return &rows[(unsigned)t < N_ROWS ? t : CRN_NT_NONE]; }

size_t crn_ntype_bytes(crn_ntype t) { return row_of(t)->bytes; }
const char *crn_ntype_name(crn_ntype t) { return row_of(t)->name; }
bool crn_ntype_is_int(crn_ntype t) { return row_of(t)->kind == 'i'; }
bool crn_ntype_is_float(crn_ntype t) { return row_of(t)->kind == 'f'; }

crn_ntype crn_ntype_by_name(const char *name) {
  for (int i = 1; i < N_ROWS; i++)
    if (name && !strcmp(rows[i].name, name)) return (crn_ntype)i;
  return CRN_NT_NONE;
}

/* Element i as int64 (exact for all integer types but large uint64). */
static int64_t load_int(crn_ntype t, const void *p, size_t i) {
  switch (t) {
  case CRN_NT_BOOL:
    return ((const uint8_t *)p)[i] != 0;
  case CRN_NT_I8:
    return ((const int8_t *)p)[i];
  case CRN_NT_U8:
    return ((const uint8_t *)p)[i];
  case CRN_NT_I16:
    return ((const int16_t *)p)[i];
  case CRN_NT_U16:
    return ((const uint16_t *)p)[i];
  case CRN_NT_I32:
    return ((const int32_t *)p)[i];
  case CRN_NT_U32:
    return ((const uint32_t *)p)[i];
  case CRN_NT_I64:
    return ((const int64_t *)p)[i];
  default: {
    uint64_t u = ((const uint64_t *)p)[i];
    return u > INT64_MAX ? INT64_MAX : (int64_t)u;
  }
  }
}

static void store_int(crn_ntype t, void *p, size_t i, int64_t v) {
  switch (t) {
  case CRN_NT_BOOL:
    ((uint8_t *)p)[i] = v != 0;
    return;
  case CRN_NT_I64:
    ((int64_t *)p)[i] = v;
    return;
  case CRN_NT_U64:
    ((uint64_t *)p)[i] = v < 0 ? 0 : (uint64_t)v;
    return;
  default:
    break;
  }
  int64_t lo = (int64_t)row_of(t)->min, hi = (int64_t)row_of(t)->max;
  v = v < lo ? lo : v > hi ? hi : v;
  switch (t) {
  case CRN_NT_I8:
    ((int8_t *)p)[i] = (int8_t)v;
    break;
  case CRN_NT_U8:
    ((uint8_t *)p)[i] = (uint8_t)v;
    break;
  case CRN_NT_I16:
    ((int16_t *)p)[i] = (int16_t)v;
    break;
  case CRN_NT_U16:
    ((uint16_t *)p)[i] = (uint16_t)v;
    break;
  case CRN_NT_I32:
    ((int32_t *)p)[i] = (int32_t)v;
    break;
  default:
    ((uint32_t *)p)[i] = (uint32_t)v;
    break;
  }
}

static double load_real(crn_ntype t, const void *p, size_t i) {
  if (t == CRN_NT_F32) return (double)((const float *)p)[i];
  if (t == CRN_NT_F64) return ((const double *)p)[i];
  return (double)load_int(t, p, i);
}

static void store_real(crn_ntype t, void *p, size_t i, double v) {
  if (t == CRN_NT_F32) {
    ((float *)p)[i] = (float)v;
  } else if (t == CRN_NT_F64) {
    ((double *)p)[i] = v;
  } else if (t == CRN_NT_BOOL) {
    ((uint8_t *)p)[i] = v != 0;
  } else {
    const ntype_row *r = row_of(t);
    double c = isnan(v) ? 0 : v < r->min ? r->min : v > r->max ? r->max : v;
    if (t == CRN_NT_U64)
      ((uint64_t *)p)[i] = (uint64_t)c;
    else
      store_int(t, p, i, (int64_t)c);
  }
}

static bool is_number(crn_ntype t) { return t >= CRN_NT_BOOL && t <= CRN_NT_F64; }

bool crn_ntype_convert(crn_ntype from, const void *src, crn_ntype to, void *dst, size_t n) {
  if (from == to && from != CRN_NT_NONE) {
    if (n) memcpy(dst, src, n * crn_ntype_bytes(from));
    return true;
  }
  if (!is_number(from) || !is_number(to)) return false;
  if (crn_ntype_is_float(from) || crn_ntype_is_float(to))
    for (size_t i = 0; i < n; i++) store_real(to, dst, i, load_real(from, src, i));
  else
    for (size_t i = 0; i < n; i++) store_int(to, dst, i, load_int(from, src, i));
  return true;
}
