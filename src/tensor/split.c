/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting work over rows and columns for the thread pool, and the input checks that many operations share.
 */
#include "tensor/split.h"

#define TASK_ELEMENTS 16384

typedef struct split_task {
  crn_split_fn fn;
  void *arg;
  int64_t n, block;
} split_task;

static void split_one(void *arg, int64_t i) {
  const split_task *s = arg;
  int64_t begin = i * s->block, end = begin + s->block;
  s->fn(s->arg, begin, end < s->n ? end : s->n);
}

void crn_split_run(crn_threads *t, int64_t n, int64_t block, crn_split_fn fn, void *arg) {
  if (n <= 0) return;
  if (n <= block || crn_threads_count(t) <= 1) {
    fn(arg, 0, n);
    return;
  }
  split_task s = {.fn = fn, .arg = arg, .n = n, .block = block};
  crn_threads_run(t, (n + block - 1) / block, split_one, &s);
}

int64_t crn_split_block(int64_t row_elements) {
  return row_elements <= 0 || row_elements >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / row_elements;
}

crn_rows crn_rows_of(const crn_tensor *t) {
  crn_rows d = {.rows = 0, .n = t->rank > 0 ? t->shape[t->rank - 1] : 1};
  if (d.n > 0) d.rows = crn_t_size(t) / d.n;
  return d;
}

typedef struct column_task {
  crn_run *run;
  int64_t rows, n;
  const void *x;
  void *y;
} column_task;

#include "tensor/real_f32.inc.h"
#include "tensor/split_columns.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/split_columns.inc.h"

void crn_add_column_sums(crn_run *r, crn_dtype dtype, int64_t rows, int64_t n, const void *x, void *y) {
  column_task c = {.run = r, .rows = rows, .n = n, .x = x, .y = y};
  if (rows > 0) crn_split_run(r->threads, n, crn_split_block(rows), CRN_BY_REAL(dtype, add_columns), &c);
}

bool crn_node_kept(const crn_run *r, const crn_node *n) {
  bool wanted = false;
  for (int i = 0; i < n->n_in; i++) wanted |= n->in[i] && n->in[i]->needs_grad;
  return wanted && r->recording;
}

crn_status crn_check_real(crn_run *r, const crn_node *n, int i) {
  const crn_tensor *t = n->in[i];
  if (!t) return CRN_OK;
  char buf[120];
  if (!crn_dtype_is_float(t->dtype))
    return crn_op_fail(r, n, "input %d is %s, but float32 or float64 is needed", i, crn_t_describe(t, buf, sizeof buf));
  if (n->in[0] && crn_dtype_is_float(n->in[0]->dtype) && t->dtype != n->in[0]->dtype)
    return crn_op_fail(r, n, "input %d is %s, but input 0 is %s", i, crn_t_describe(t, buf, sizeof buf),
                       crn_dtype_name(n->in[0]->dtype));
  return CRN_OK;
}

crn_status crn_check_i32(crn_run *r, const crn_node *n, int i, int rank) {
  const crn_tensor *t = n->in[i];
  char buf[120];
  if (!t || (t->dtype == CRN_I32 && t->rank == rank)) return CRN_OK;
  return crn_op_fail(r, n, "input %d is %s, but int32 with %d axes is needed", i, crn_t_describe(t, buf, sizeof buf),
                     rank);
}
