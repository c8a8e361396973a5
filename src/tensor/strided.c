/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking of strided plans: rows of the innermost axis, copied or added; threads take ranges of rows.
 */
#include "tensor/strided.h"

#include <string.h>

#include "tensor/bcast.h"

void crn_strided_axis(crn_strided *p, int64_t size, int64_t stride) {
  if (size == 1) return;
  int d = p->nd - 1;
  if (d >= 0 && p->stride[d] == stride * size) {
    p->size[d] *= size;
    p->stride[d] = stride;
    return;
  }
  p->size[p->nd] = size;
  p->stride[p->nd++] = stride;
}

typedef struct job {
  const crn_strided *p;
  size_t bytes;
  const void *in; /* x of a copy, dy of an addition */
  void *out;
  double *sum; /* of an addition with repeats */
  int64_t row, step;
} job;

static void seek(const crn_strided *p, int64_t row, int64_t *at, int64_t *off) {
  *off = p->base;
  for (int d = p->nd - 2; d >= 0; d--) {
    at[d] = row % p->size[d];
    row /= p->size[d];
    *off += at[d] * p->stride[d];
  }
}

static void next(const crn_strided *p, int64_t *at, int64_t *off) {
  for (int d = p->nd - 2; d >= 0; d--) {
    *off += p->stride[d];
    if (++at[d] < p->size[d]) return;
    at[d] = 0;
    *off -= p->size[d] * p->stride[d];
  }
}

#define COPY_ROW(type)                                                                                                 \
  do {                                                                                                                 \
    const type *x = (const type *)j->in + off;                                                                         \
    type *y = (type *)j->out + row * j->row;                                                                           \
    for (int64_t i = 0; i < j->row; i++) y[i] = x[i * j->step];                                                        \
  } while (0)

static void copy_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t at[CRN_STRIDED_MAX], off;
  seek(j->p, begin, at, &off);
  for (int64_t row = begin; row < end; row++, next(j->p, at, &off)) {
    if (j->step == 1) {
      memcpy((char *)j->out + (size_t)(row * j->row) * j->bytes, (const char *)j->in + (size_t)off * j->bytes,
             (size_t)j->row * j->bytes);
      continue;
    }
    switch (j->bytes) {
    case 1:
      COPY_ROW(uint8_t);
      break;
    case 2:
      COPY_ROW(uint16_t);
      break;
    case 4:
      COPY_ROW(uint32_t);
      break;
    default:
      COPY_ROW(uint64_t);
      break;
    }
  }
}

#define ADD_ROW(type)                                                                                                  \
  do {                                                                                                                 \
    const type *g = (const type *)j->in + row * j->row;                                                                \
    type *x = (type *)j->out + off;                                                                                    \
    if (!j->sum)                                                                                                       \
      for (int64_t i = 0; i < j->row; i++) x[i * j->step] += g[i];                                                     \
    else                                                                                                               \
      for (int64_t i = 0; i < j->row; i++) j->sum[off + i * j->step] += (double)g[i];                                  \
  } while (0)

static void add_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t at[CRN_STRIDED_MAX], off;
  seek(j->p, begin, at, &off);
  for (int64_t row = begin; row < end; row++, next(j->p, at, &off)) {
    if (j->bytes == sizeof(float))
      ADD_ROW(float);
    else
      ADD_ROW(double);
  }
}

static int64_t count(const crn_strided *p) { return crn_t_count(p->nd, p->size); }

static job job_of(const crn_strided *p, size_t bytes, const void *in, void *out) {
  return (job){.p = p,
               .bytes = bytes,
               .in = in,
               .out = out,
               .row = p->nd ? p->size[p->nd - 1] : 1,
               .step = p->nd ? p->stride[p->nd - 1] : 1};
}

void crn_strided_copy(crn_run *r, const crn_strided *p, size_t bytes, const void *x, void *y) {
  int64_t n = count(p);
  if (n == 0) return;
  job j = job_of(p, bytes, x, y);
  crn_for_ranges(r, n / j.row, n, copy_rows, &j);
}

crn_status crn_strided_add(crn_run *r, const crn_strided *p, crn_dtype dtype, const void *dy, void *dx,
                           int64_t size_x) {
  int64_t n = count(p);
  if (n == 0) return CRN_OK;
  job j = job_of(p, crn_dtype_bytes(dtype), dy, dx);
  bool repeats = false;
  for (int d = 0; d < p->nd; d++) repeats |= p->stride[d] == 0;
  if (!repeats) {
    crn_for_ranges(r, n / j.row, n, add_rows, &j);
    return CRN_OK;
  }
  j.sum = crn_scratch(r, (size_t)size_x * sizeof *j.sum);
  if (!j.sum) return r->err->code;
  memset(j.sum, 0, (size_t)size_x * sizeof *j.sum);
  add_rows(&j, 0, n / j.row);
  for (int64_t i = 0; i < size_x; i++) {
    if (dtype == CRN_F32)
      ((float *)dx)[i] += (float)j.sum[i];
    else
      ((double *)dx)[i] += j.sum[i];
  }
  return CRN_OK;
}
