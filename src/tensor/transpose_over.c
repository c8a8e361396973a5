/* SPDX-License-Identifier: Apache-2.0
 *
 * The two leading axes of a large tensor change places in its own memory: rows move along the cycles of the
 * permutation, so that what is read once and then only in the other order isn't there twice.
 */
#include <string.h>

#include "tensor/ops.h"

typedef struct rows {
  char *data, *spare; /* spare: one row */
  size_t row;
  int64_t n, m; /* [n, m] becomes [m, n] */
  unsigned char *moved;
} rows;

static bool was_moved(const rows *a, int64_t i) { return a->moved[i / 8] >> (i % 8) & 1; }
static void mark(const rows *a, int64_t i) { a->moved[i / 8] = (unsigned char)(a->moved[i / 8] | 1u << (i % 8)); }

/* Place i of the result comes from row (i mod n) of column i / n. */
static void move_cycle(const rows *a, int64_t first) {
  int64_t to = first;
  memcpy(a->spare, a->data + (size_t)first * a->row, a->row);
  for (;;) {
    const int64_t from = to % a->n * a->m + to / a->n;
    mark(a, to);
    if (from == first) break;
    memcpy(a->data + (size_t)to * a->row, a->data + (size_t)from * a->row, a->row);
    to = from;
  }
  memcpy(a->data + (size_t)to * a->row, a->spare, a->row);
}

static bool swaps_leading(int rank, const int *perm) {
  bool swaps = rank >= 2 && perm[0] == 1 && perm[1] == 0;
  for (int d = 2; d < rank; d++) swaps &= perm[d] == d;
  return swaps;
}

crn_tensor *crn_transpose_taking(crn_run *r, crn_tensor *x, const int *perm) {
  if (!x || crn_run_failed(r) || r->recording || !swaps_leading(x->rank, perm)) return NULL;
  crn_storage *st = x->st;
  const int64_t n = x->shape[0], m = x->shape[1];
  const size_t bytes = (size_t)crn_t_size(x) * crn_dtype_bytes(x->dtype);
  if (n < 2 || m < 2) return NULL; /* nothing moves */
  if (st->is_param || st->borrowed || st->refs != 1 || x->offset || bytes != st->bytes || bytes < CRN_TAKE_BYTES)
    return NULL;
  rows a = {.data = st->data, .n = n, .m = m, .row = bytes / (size_t)(n * m)};
  const size_t marks = (size_t)(n * m + 7) / 8;
  a.spare = crn_scratch(r, a.row);
  a.moved = crn_scratch(r, marks);
  int64_t shape[CRN_MAX_RANK];
  for (int d = 0; d < x->rank; d++) shape[d] = x->shape[perm[d]];
  crn_tensor *y = a.spare && a.moved ? crn_t_borrow(r, x->dtype, x->rank, shape, st->data) : NULL;
  if (!y) return NULL;
  memset(a.moved, 0, marks);
  for (int64_t i = 0; i < n * m; i++)
    if (!was_moved(&a, i)) move_cycle(&a, i);
  crn_scratch_reset(r);
  y->st->borrowed = false;
  st->data = NULL;
  return y;
}
