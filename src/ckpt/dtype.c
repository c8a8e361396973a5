/* SPDX-License-Identifier: Apache-2.0
 *
 * Table of element types. Values pass through double (floats) or int64 (integers), so a type needs one way in and one
 * way out instead of a row per pair; uint64 beyond int64's range is refused.
 */
#include "ckpt/dtype.h"

#include <math.h>
#include <string.h>

typedef enum family { F_NONE, F_FLOAT, F_INT } family;

typedef struct dtype_row {
  int dtype;
  const char *name;
  size_t bytes;
  family family;
} dtype_row;

static const dtype_row rows[] = {
    {CRN_TF_FLOAT32, "float32", 4, F_FLOAT},
    {CRN_TF_FLOAT64, "float64", 8, F_FLOAT},
    {CRN_TF_INT32, "int32", 4, F_INT},
    {CRN_TF_UINT8, "uint8", 1, F_INT},
    {CRN_TF_INT16, "int16", 2, F_INT},
    {CRN_TF_INT8, "int8", 1, F_INT},
    {CRN_TF_STRING, "string", 0, F_NONE},
    {CRN_TF_COMPLEX64, "complex64", 8, F_NONE},
    {CRN_TF_INT64, "int64", 8, F_INT},
    {CRN_TF_BOOL, "bool", 1, F_INT},
    {CRN_TF_BFLOAT16, "bfloat16", 2, F_FLOAT},
    {CRN_TF_UINT16, "uint16", 2, F_INT},
    {CRN_TF_COMPLEX128, "complex128", 16, F_NONE},
    {CRN_TF_FLOAT16, "float16", 2, F_FLOAT},
    {CRN_TF_UINT32, "uint32", 4, F_INT},
    {CRN_TF_UINT64, "uint64", 8, F_INT},
};

static const dtype_row *find_row(int dtype) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].dtype == dtype) return &rows[i];
  return NULL;
}

const char *crn_tf_dtype_name(int dtype) {
  const dtype_row *r = find_row(dtype);
  return r ? r->name : "unknown";
}

size_t crn_tf_dtype_bytes(int dtype) {
  const dtype_row *r = find_row(dtype);
  return r ? r->bytes : 0;
}

bool crn_tf_convertible(int from, int to) {
  const dtype_row *a = find_row(from), *b = find_row(to);
  if (!a || !b) return false;
  if (from == to) return a->bytes > 0;
  return a->family != F_NONE && b->family != F_NONE && !(a->family == F_FLOAT && b->family == F_INT);
}

static double half_to_double(uint16_t h) {
  int exponent = (h >> 10) & 31;
  double mantissa = h & 1023, sign = h & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
  if (exponent == 0) return sign * ldexp(mantissa, -24);
  return sign * ldexp(mantissa + 1024, exponent - 25);
}

/* Nearest half, ties to even; beyond the range: infinity. */
static uint16_t double_to_half(double x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  if (isnan(x)) return (uint16_t)(sign | 0x7e00);
  x = fabs(x);
  if (x >= 65520) return (uint16_t)(sign | 0x7c00);
  int exponent = -13;
  if (x > 0) (void)frexp(x, &exponent);
  if (exponent < -13) exponent = -13;                   /* below 2^-14: subnormal */
  double mantissa = nearbyint(ldexp(x, 11 - exponent)); /* 1024..2048, less if subnormal */
  int bits = (int)mantissa + ((exponent + 13) << 10);   /* a carry goes into the exponent by itself */
  return (uint16_t)(sign | bits);
}

static double bfloat_to_double(uint16_t b) {
  uint32_t bits = (uint32_t)b << 16;
  float f;
  memcpy(&f, &bits, 4);
  return (double)f;
}

static uint16_t double_to_bfloat(double x) {
  float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  if (isnan(x)) return (uint16_t)((bits >> 16) | 0x40);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static double load_float(int dtype, const void *p) {
  float f;
  double d;
  uint16_t h;
  if (dtype == CRN_TF_FLOAT32) return memcpy(&f, p, 4), (double)f;
  if (dtype == CRN_TF_FLOAT64) return memcpy(&d, p, 8), d;
  memcpy(&h, p, 2);
  return dtype == CRN_TF_FLOAT16 ? half_to_double(h) : bfloat_to_double(h);
}

static void store_float(int dtype, double x, void *p) {
  float f = (float)x;
  uint16_t h = dtype == CRN_TF_FLOAT16 ? double_to_half(x) : double_to_bfloat(x);
  if (dtype == CRN_TF_FLOAT64)
    memcpy(p, &x, 8);
  else if (dtype == CRN_TF_FLOAT32)
    memcpy(p, &f, 4);
  else
    memcpy(p, &h, 2);
}

/* Integers of 1, 2, 4 or 8 bytes, little-endian like the file. False: a uint64 that int64 can't hold. */
static bool load_int(int dtype, const void *p, int64_t *out) {
  size_t bytes = crn_tf_dtype_bytes(dtype);
  uint64_t u = 0;
  memcpy(&u, p, bytes);
  bool is_signed = dtype == CRN_TF_INT8 || dtype == CRN_TF_INT16 || dtype == CRN_TF_INT32 || dtype == CRN_TF_INT64;
  unsigned unused_bits = (unsigned)(64 - 8 * bytes);
  if (is_signed && u >> (63 - unused_bits)) u |= unused_bits ? ~UINT64_C(0) << (64 - unused_bits) : 0;
  memcpy(out, &u, 8);
  return dtype != CRN_TF_UINT64 || *out >= 0;
}

static bool store_int(int dtype, int64_t x, void *p) {
  int64_t back;
  if (dtype == CRN_TF_BOOL) x = x != 0;
  memcpy(p, &x, crn_tf_dtype_bytes(dtype));
  return load_int(dtype, p, &back) && back == x;
}

crn_status crn_tf_convert(int from, const void *src, int to, void *dst, int64_t n, crn_err *err) {
  const dtype_row *a = find_row(from), *b = find_row(to);
  if (!crn_tf_convertible(from, to))
    return crn_fail(err, CRN_E_FORMAT, "%s values can't be taken for %s", crn_tf_dtype_name(from),
                    crn_tf_dtype_name(to));
  if (from == to) {
    if (n > 0) memcpy(dst, src, (size_t)n * a->bytes);
    return CRN_OK;
  }
  const char *s = src;
  char *d = dst;
  for (int64_t i = 0; i < n; i++, s += a->bytes, d += b->bytes) {
    if (a->family == F_FLOAT) {
      store_float(to, load_float(from, s), d);
      continue;
    }
    int64_t x;
    bool fits = load_int(from, s, &x);
    if (fits && b->family == F_INT) fits = store_int(to, x, d);
    if (fits && b->family == F_FLOAT) {
      store_float(to, (double)x, d);
      double back = load_float(to, d);
      fits = fabs(back) < 0x1p63 && (int64_t)back == x;
    }
    if (!fits)
      return crn_fail(err, CRN_E_FORMAT, "value %lld (element %lld) doesn't fit from %s into %s", (long long)x,
                      (long long)i, a->name, b->name);
  }
  return CRN_OK;
}
