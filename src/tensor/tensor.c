/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor headers, their storages, and the run and frames that own the memory.
 */
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/mem.h"
#include "tensor/weights.h"

int64_t crn_t_count(int rank, const int64_t *shape) {
  int64_t n = 1;
  bool too_many = false;
  for (int i = 0; i < rank; i++) {
    if (shape[i] == 0) return 0;
    too_many |= __builtin_mul_overflow(n, shape[i], &n);
  }
  return too_many ? INT64_MAX : n;
}

int64_t crn_t_size(const crn_tensor *t) { return crn_t_count(t->rank, t->shape); }

/* ---- storages and headers --------------------------------------------------------------------------------------- */

static crn_storage *storage_new(crn_run *r, size_t bytes, bool with_data) {
  crn_storage *st = CRN_ARENA_NEW(&r->arena, crn_storage);
  if (!st) goto memory;
  st->bytes = bytes ? bytes : 1;
  if (with_data && !(st->data = crn_mem_get(r->mem, st->bytes))) goto memory;
  st->next = r->frame->storages;
  r->frame->storages = st;
  return st;
memory:
  (void)crn_err_memory(r->err);
  return NULL;
}

static void storage_drop(crn_run *r, crn_storage *st) {
  if (!st->borrowed) crn_mem_put(r->mem, st->data);
  if (!st->is_param) crn_mem_put(r->mem, st->grad);
  st->data = NULL;
  st->grad = NULL;
}

static crn_tensor *header_new(crn_run *r, crn_storage *st, crn_dtype dtype, int rank, const int64_t *shape) {
  if (rank < 0 || rank > CRN_MAX_RANK) {
    (void)crn_fail(r->err, CRN_E_RUNTIME, "a tensor of %d axes was asked for, at most %d are possible", rank,
                   CRN_MAX_RANK);
    return NULL;
  }
  crn_tensor *t = CRN_ARENA_NEW(&r->arena, crn_tensor);
  if (!t) {
    (void)crn_err_memory(r->err);
    return NULL;
  }
  t->st = st;
  t->dtype = dtype;
  t->rank = rank;
  for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
  return t;
}

crn_tensor *crn_t_new(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape) {
  if (crn_run_failed(r)) return NULL;
  int64_t n = 1;
  for (int i = 0; i < rank; i++)
    if (shape[i] < 0 || __builtin_mul_overflow(n, shape[i], &n) || n > INT64_MAX / 16) {
      (void)crn_fail(r->err, CRN_E_RUNTIME, "impossible size %lld of axis %d", (long long)shape[i], i);
      return NULL;
    }
  crn_storage *st = storage_new(r, (size_t)n * crn_dtype_bytes(dtype), true);
  return st ? header_new(r, st, dtype, rank, shape) : NULL;
}

crn_tensor *crn_t_zeros(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape) {
  crn_tensor *t = crn_t_new(r, dtype, rank, shape);
  if (t) memset(t->st->data, 0, t->st->bytes);
  return t;
}

static void fill(crn_tensor *t, double v) {
  int64_t n = crn_t_size(t);
  void *p = crn_t_data(t);
/* Integers take the nearest value that they can hold, NaN becomes 0. */
#define FILL_INT(type, lowest, highest)                                                                                \
  {                                                                                                                    \
    const type w = isnan(v)                 ? 0                                                                        \
                   : v <= (double)(lowest)  ? (type)(lowest)                                                           \
                   : v >= (double)(highest) ? (type)(highest)                                                          \
                                            : (type)v;                                                                 \
    for (int64_t i = 0; i < n; i++) ((type *)p)[i] = w;                                                                \
    break;                                                                                                             \
  }
#define FILL(type)                                                                                                     \
  for (int64_t i = 0; i < n; i++) ((type *)p)[i] = (type)v;                                                            \
  break
  switch (t->dtype) {
  case CRN_F32:
    FILL(float);
  case CRN_F64:
    FILL(double);
  case CRN_BOOL:
    FILL(bool);
  case CRN_I8:
    FILL_INT(int8_t, INT8_MIN, INT8_MAX)
  case CRN_U8:
    FILL_INT(uint8_t, 0, UINT8_MAX)
  case CRN_I16:
    FILL_INT(int16_t, INT16_MIN, INT16_MAX)
  case CRN_U16:
    FILL_INT(uint16_t, 0, UINT16_MAX)
  case CRN_I32:
    FILL_INT(int32_t, INT32_MIN, INT32_MAX)
  case CRN_I64:
    FILL_INT(int64_t, INT64_MIN, INT64_MAX)
  case CRN_C64:
    for (int64_t i = 0; i < n; i++) {
      ((float *)p)[2 * i] = (float)v;
      ((float *)p)[2 * i + 1] = 0;
    }
    break;
  case CRN_STRING:
  case CRN_N_DTYPES:
    memset(p, 0, (size_t)n * crn_dtype_bytes(t->dtype));
    break;
  }
#undef FILL
#undef FILL_INT
}

crn_tensor *crn_t_full(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape, double value) {
  crn_tensor *t = crn_t_new(r, dtype, rank, shape);
  if (t) fill(t, value);
  return t;
}

crn_tensor *crn_t_scalar(crn_run *r, crn_dtype dtype, double value) { return crn_t_full(r, dtype, 0, NULL, value); }

crn_tensor *crn_t_copy_in(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape, const void *data) {
  crn_tensor *t = crn_t_new(r, dtype, rank, shape);
  if (t && crn_t_size(t) > 0) memcpy(t->st->data, data, (size_t)crn_t_size(t) * crn_dtype_bytes(dtype));
  return t;
}

crn_tensor *crn_t_borrow(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape, void *data) {
  if (crn_run_failed(r)) return NULL;
  crn_storage *st = storage_new(r, (size_t)crn_t_count(rank, shape) * crn_dtype_bytes(dtype), false);
  if (!st) return NULL;
  st->data = data;
  st->borrowed = true;
  return header_new(r, st, dtype, rank, shape);
}

crn_tensor *crn_t_over(crn_run *r, crn_storage *st, crn_dtype dtype, int rank, const int64_t *shape, bool needs_grad) {
  if (crn_run_failed(r)) return NULL;
  crn_tensor *t = header_new(r, st, dtype, rank, shape);
  if (t) t->needs_grad = needs_grad;
  return t;
}

static crn_tensor *view(crn_run *r, crn_tensor *t, int64_t offset, int rank, const int64_t *shape) {
  crn_tensor *v = header_new(r, t->st, t->dtype, rank, shape);
  if (!v) return NULL;
  v->offset = t->offset + offset;
  v->needs_grad = t->needs_grad;
  return v;
}

crn_tensor *crn_t_reshape(crn_run *r, crn_tensor *t, int rank, const int64_t *shape) {
  if (!t || crn_run_failed(r)) return NULL;
  int64_t full[CRN_MAX_RANK], known = 1;
  int open = -1;
  for (int i = 0; i < rank && i < CRN_MAX_RANK; i++) {
    full[i] = shape[i];
    if (shape[i] < 0)
      open = i;
    else
      known *= shape[i];
  }
  int64_t size = crn_t_size(t);
  if (open >= 0) full[open] = known > 0 ? size / known : 0;
  if (crn_t_count(rank, full) != size) {
    char buf[160];
    (void)crn_fail(r->err, CRN_E_RUNTIME, "reshape: %s can't take a shape of %lld elements",
                   crn_t_describe(t, buf, sizeof(buf)), (long long)crn_t_count(rank, full));
    return NULL;
  }
  return view(r, t, 0, rank, full);
}

crn_tensor *crn_t_rows(crn_run *r, crn_tensor *t, int64_t begin, int64_t n) {
  if (!t || crn_run_failed(r)) return NULL;
  if (t->rank < 1 || begin < 0 || n < 0 || begin + n > t->shape[0]) {
    char buf[160];
    (void)crn_fail(r->err, CRN_E_RUNTIME, "positions %lld to %lld of axis 0 are outside of %s", (long long)begin,
                   (long long)(begin + n), crn_t_describe(t, buf, sizeof(buf)));
    return NULL;
  }
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, t->shape, sizeof(shape));
  shape[0] = n;
  return view(r, t, begin * crn_t_count(t->rank - 1, t->shape + 1), t->rank, shape);
}

crn_tensor *crn_t_index0(crn_run *r, crn_tensor *t, int64_t i) {
  crn_tensor *row = crn_t_rows(r, t, i, 1);
  return row ? view(r, row, 0, t->rank - 1, t->shape + 1) : NULL;
}

crn_tensor *crn_t_stop_gradient(crn_run *r, crn_tensor *t) {
  if (!t || crn_run_failed(r)) return NULL;
  crn_tensor *v = view(r, t, 0, t->rank, t->shape);
  if (v) v->needs_grad = false;
  return v;
}

double crn_t_get(const crn_tensor *t, int64_t i) {
  const void *p = crn_t_data(t);
  switch (t->dtype) {
  case CRN_F32:
    return ((const float *)p)[i];
  case CRN_F64:
    return ((const double *)p)[i];
  case CRN_C64:
    return ((const float *)p)[2 * i];
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
    return (double)((const int64_t *)p)[i];
  case CRN_STRING:
  case CRN_N_DTYPES:
    break;
  }
  return 0;
}

const char *crn_t_describe(const crn_tensor *t, char *buf, size_t n) {
  size_t used = 0;
  int k = snprintf(buf, n, "[");
  for (int i = 0; i < t->rank && k > 0 && used + (size_t)k < n; i++) {
    used += (size_t)k;
    k = snprintf(buf + used, n - used, i ? ", %lld" : "%lld", (long long)t->shape[i]);
  }
  if (k > 0 && used + (size_t)k < n) {
    used += (size_t)k;
    (void)snprintf(buf + used, n - used, "] %s", crn_dtype_name(t->dtype));
  }
  return buf;
}

/* ---- frames and runs -------------------------------------------------------------------------------------------- */

void crn_frame_open(crn_run *r, crn_frame *f) {
  f->storages = NULL;
  f->outer = r->frame;
  r->frame = f;
}

void crn_frame_close(crn_run *r) {
  crn_frame *f = r->frame;
  crn_frame *outer = f->outer;
  for (crn_storage *st = f->storages; st;) {
    crn_storage *next = st->next;
    if (r->recording || st->refs > 0) {
      st->next = outer->storages;
      outer->storages = st;
    } else {
      storage_drop(r, st);
    }
    st = next;
  }
  f->storages = NULL;
  r->frame = outer;
}

void crn_t_hold(crn_tensor *t) {
  if (t && !t->st->is_param) t->st->refs++; /* parameters stay anyway, and sessions share them */
}

void crn_frame_close_with(crn_run *r, int n, crn_tensor *const *results) {
  for (int i = 0; i < n; i++) crn_t_hold(results[i]);
  crn_frame_close(r);
  for (int i = 0; i < n; i++)
    if (results[i] && !results[i]->st->is_param) results[i]->st->refs--;
}

void crn_t_release(crn_run *r, crn_tensor *t) {
  if (!t || t->st->refs <= 0) return;
  if (--t->st->refs == 0 && !r->recording && !t->st->borrowed) storage_drop(r, t->st);
}

crn_status crn_run_init(crn_run *r, struct crn_mem *mem, const struct crn_kernels *kernels, crn_threads *threads,
                        const crn_log *log, crn_err *err) {
  memset(r, 0, sizeof(*r));
  r->err = err;
  r->log = log;
  r->mem = mem;
  r->kernels = kernels;
  r->threads = threads;
  r->real = CRN_F32;
  r->frame = &r->base_frame;
  return CRN_OK;
}

void crn_run_reset(crn_run *r) {
  for (crn_frame *f = r->frame; f; f = f->outer) {
    for (crn_storage *st = f->storages; st; st = st->next) storage_drop(r, st);
    f->storages = NULL;
  }
  r->frame = &r->base_frame;
  r->n_nodes = 0;
  crn_weights_forget(r);
  crn_arena_reset(&r->arena);
  crn_scratch_reset(r);
}

void crn_run_deinit(crn_run *r) {
  crn_run_reset(r);
  crn_arena_free(&r->arena);
  crn_arena_free(&r->scratch);
  crn_free(r->nodes);
  r->nodes = NULL;
  r->cap_nodes = 0;
}
