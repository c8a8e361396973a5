/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing between two tensors by a mask, with broadcasting, and filling masked entries. Works on any dtype by its
 * size; gradients of repeated inputs are added in double.
 */
#include <string.h>

#include "tensor/bcast.h"
#include "tensor/ints.h"
#include "tensor/ops.h"

/* ---- where ------------------------------------------------------------------------------------------------------ */

static crn_status where_infer(crn_run *r, crn_node *n) {
  const crn_tensor *c = n->in[0], *a = n->in[1], *b = n->in[2];
  char d[3][128];
  if (c->dtype != CRN_BOOL)
    return crn_op_fail(r, n, "the condition must be bool, found %s", crn_t_describe(c, d[0], sizeof d[0]));
  if (a->dtype != b->dtype)
    return crn_op_fail(r, n, "dtypes differ: %s and %s", crn_t_describe(a, d[1], sizeof d[1]),
                       crn_t_describe(b, d[2], sizeof d[2]));
  int rank;
  int64_t shape[CRN_MAX_RANK];
  if (!crn_bcast_shape(3, n->in, &rank, shape))
    return crn_op_fail(r, n, "shapes don't fit: condition %s, %s and %s", crn_t_describe(c, d[0], sizeof d[0]),
                       crn_t_describe(a, d[1], sizeof d[1]), crn_t_describe(b, d[2], sizeof d[2]));
  return crn_node_output(r, n, 0, a->dtype, rank, shape);
}

typedef struct where_job {
  const crn_bcast *p;
  size_t bytes; /* of an element */
  const uint8_t *c;
  const char *a, *b;
  char *y;
} where_job;

#define CHOOSE(type)                                                                                                   \
  do {                                                                                                                 \
    const type *u = (const type *)(const void *)(j->a) + pos.off[1],                                                   \
               *v = (const type *)(const void *)(j->b) + pos.off[2];                                                   \
    type *y = (type *)(void *)(j->y) + row * p->row;                                                                   \
    for (int64_t i = 0; i < p->row; i++) y[i] = c[i * sc] ? u[i * sa] : v[i * sb];                                     \
  } while (0)

static void where_rows(void *arg, int64_t begin, int64_t end) {
  const where_job *j = arg;
  const crn_bcast *p = j->p;
  int64_t sc = p->stride[0][p->nd - 1], sa = p->stride[1][p->nd - 1], sb = p->stride[2][p->nd - 1];
  crn_bcast_pos pos;
  crn_bcast_seek(p, &pos, begin);
  for (int64_t row = begin; row < end; row++, crn_bcast_next(p, &pos)) {
    const uint8_t *c = j->c + pos.off[0];
    switch (j->bytes) {
    case 1:
      CHOOSE(uint8_t);
      break;
    case 2:
      CHOOSE(uint16_t);
      break;
    case 4:
      CHOOSE(uint32_t);
      break;
    default:
      CHOOSE(uint64_t);
      break;
    }
  }
}

static crn_status where_run(crn_run *r, crn_node *n) {
  crn_bcast p;
  crn_bcast_plan(&p, 3, n->in, n->out[0]->rank, n->out[0]->shape);
  where_job j = {&p,
                 crn_dtype_bytes(n->out[0]->dtype),
                 crn_t_bool(n->in[0]),
                 crn_t_data(n->in[1]),
                 crn_t_data(n->in[2]),
                 crn_t_data(n->out[0])};
  crn_for_ranges(r, p.rows, p.n, where_rows, &j);
  return CRN_OK;
}

/* Adds to sum (a place per element of input `which`), in double and in order: dy where the mask chose the input. */
static void where_sum(const crn_bcast *p, int which, const uint8_t *c, const void *dy, bool single, double *sum) {
  int64_t sc = p->stride[0][p->nd - 1], sx = p->stride[which][p->nd - 1];
  crn_bcast_pos pos;
  crn_bcast_seek(p, &pos, 0);
  for (int64_t row = 0, at = 0; row < p->rows; row++, crn_bcast_next(p, &pos))
    for (int64_t i = 0; i < p->row; i++, at++)
      if ((c[pos.off[0] + i * sc] != 0) == (which == 1))
        sum[pos.off[which] + i * sx] += single ? (double)((const float *)dy)[at] : ((const double *)dy)[at];
}

/* The same for an input that isn't repeated: its places are all different, so rows go to threads. */
typedef struct where_add {
  const crn_bcast *p;
  int which;
  bool single;
  const uint8_t *c;
  const void *dy;
  void *dx;
} where_add;

static void where_add_rows(void *arg, int64_t begin, int64_t end) {
  const where_add *j = arg;
  const crn_bcast *p = j->p;
  int64_t sc = p->stride[0][p->nd - 1];
  crn_bcast_pos pos;
  crn_bcast_seek(p, &pos, begin);
  for (int64_t row = begin; row < end; row++, crn_bcast_next(p, &pos)) {
    const uint8_t *c = j->c + pos.off[0];
    int64_t at = row * p->row, to = pos.off[j->which];
    for (int64_t i = 0; i < p->row; i++) {
      if ((c[i * sc] != 0) != (j->which == 1)) continue;
      if (j->single)
        ((float *)j->dx)[to + i] += ((const float *)j->dy)[at + i];
      else
        ((double *)j->dx)[to + i] += ((const double *)j->dy)[at + i];
    }
  }
}

static crn_status where_grad_repeated(crn_run *r, const where_add *j, int64_t size) {
  double *sum = crn_scratch(r, (size_t)size * sizeof *sum);
  if (!sum) return r->err->code;
  memset(sum, 0, (size_t)size * sizeof *sum);
  where_sum(j->p, j->which, j->c, j->dy, j->single, sum);
  for (int64_t i = 0; i < size; i++) {
    if (j->single)
      ((float *)j->dx)[i] += (float)sum[i];
    else
      ((double *)j->dx)[i] += sum[i];
  }
  return CRN_OK;
}

static crn_status where_grad(crn_run *r, crn_node *n) {
  const crn_tensor *y = n->out[0];
  const void *dy = crn_grad_out(n, 0);
  if (!dy || !crn_dtype_is_float(y->dtype)) return CRN_OK;
  crn_bcast p;
  crn_bcast_plan(&p, 3, n->in, y->rank, y->shape);
  for (int which = 1; which <= 2; which++) {
    where_add j = {&p, which, y->dtype == CRN_F32, crn_t_bool(n->in[0]), dy, crn_grad_in(r, n, which)};
    CRN_TRY(r->err->code);
    if (!j.dx) continue;
    if (crn_bcast_repeats(&p, which))
      CRN_TRY(where_grad_repeated(r, &j, crn_t_size(n->in[which])));
    else
      crn_for_ranges(r, p.rows, p.n, where_add_rows, &j);
  }
  return CRN_OK;
}

static const crn_opdef where_op = {"where", where_infer, where_run, where_grad};

crn_tensor *crn_where(crn_run *r, crn_tensor *cond, crn_tensor *a, crn_tensor *b) {
  return crn_op_call(r, &where_op, 3, 3, (crn_tensor *[]){cond, a, b}, NULL, NULL);
}

crn_tensor *crn_mask_fill(crn_run *r, crn_tensor *x, crn_tensor *mask, double value) {
  if (!x || !mask) return NULL;
  int rank;
  int64_t shape[CRN_MAX_RANK];
  char d[2][128];
  if (!crn_bcast_shape(2, (crn_tensor *[]){x, mask}, &rank, shape) || rank != x->rank ||
      crn_t_count(rank, shape) != crn_t_size(x)) {
    if (!crn_run_failed(r))
      (void)crn_fail(r->err, CRN_E_RUNTIME, "operation mask_fill: mask %s doesn't broadcast to %s",
                     crn_t_describe(mask, d[0], sizeof d[0]), crn_t_describe(x, d[1], sizeof d[1]));
    return NULL;
  }
  return crn_where(r, mask, x, crn_t_scalar(r, x->dtype, crn_dtype_clamp(x->dtype, value)));
}
