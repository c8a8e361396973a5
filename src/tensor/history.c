/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing histories: lists of pieces and rows.
 */
#include "tensor/history.h"

#include <string.h>

#include "tensor/weights.h"

struct crn_pieces {
  crn_piece *piece;
  int n, cap;
};

static crn_history *no_memory(crn_run *r) {
  if (!crn_run_failed(r)) (void)crn_err_memory(r->err);
  return NULL;
}

/* A list of its own for the first n pieces, with room for more. */
static crn_pieces *list_copy(crn_run *r, const crn_piece *piece, int n) {
  crn_pieces *list = CRN_ARENA_NEW(&r->arena, crn_pieces);
  const int cap = n < 8 ? 16 : 2 * n;
  if (!list || !(list->piece = CRN_ARENA_ARRAY(&r->arena, crn_piece, cap))) return NULL;
  if (n) memcpy(list->piece, piece, (size_t)n * sizeof(*piece));
  list->n = n;
  list->cap = cap;
  return list;
}

crn_history *crn_history_new(crn_run *r, crn_tensor *first, int axis) {
  if (!first || crn_run_failed(r)) return NULL;
  crn_history *h = CRN_ARENA_NEW(&r->arena, crn_history);
  if (!h || !(h->list = list_copy(r, NULL, 0))) return no_memory(r);
  h->piece = h->list->piece;
  h->dtype = first->dtype;
  h->rank = first->rank;
  h->axis = axis;
  memcpy(h->shape, first->shape, sizeof(h->shape));
  h->shape[axis] = 0;
  return first->shape[axis] ? crn_history_append(r, h, first) : h;
}

static bool fits(const crn_history *h, const crn_tensor *v) {
  bool ok = v->dtype == h->dtype && v->rank == h->rank;
  for (int i = 0; ok && i < h->rank; i++) ok = i == h->axis || v->shape[i] == h->shape[i];
  return ok;
}

/* Rows of a history with one more piece, made for today's rows. */
static crn_tensor *rows_with_own(crn_run *r, const crn_history *h) {
  const int64_t N = h->shape[0], shape[2] = {h->n + 1, N};
  crn_tensor *rows = crn_t_new(r, CRN_I32, 2, shape);
  if (!rows) return NULL;
  int32_t *p = crn_t_i32(rows);
  if (h->n && N) memcpy(p, crn_t_i32(h->rows), (size_t)(h->n * N) * sizeof(*p));
  for (int64_t i = 0; i < N; i++) p[h->n * N + i] = (int32_t)i;
  return rows;
}

crn_history *crn_history_append(crn_run *r, const crn_history *h, crn_tensor *v) {
  if (!h || !v || crn_run_failed(r)) return NULL;
  char buf[128];
  if (!fits(h, v)) {
    (void)crn_fail(r->err, CRN_E_RUNTIME, "a history of %lld rows can't go on with %s", (long long)h->shape[0],
                   crn_t_describe(v, buf, sizeof buf));
    return NULL;
  }
  if (crn_weight_pin(r, v) != CRN_OK) return NULL; /* the values are read, should it be a parameter */
  crn_history *next = CRN_ARENA_NEW(&r->arena, crn_history);
  if (!next) return no_memory(r);
  *next = *h;
  /* someone else went on from the same history, or there is no room: the pieces so far go into a list of their own */
  if ((h->list->n > h->n || h->list->n == h->list->cap) && !(next->list = list_copy(r, h->piece, h->n)))
    return no_memory(r);
  next->list->piece[next->list->n++] = (crn_piece){v, h->shape[h->axis]};
  next->piece = next->list->piece;
  next->n = h->n + 1;
  next->shape[h->axis] += v->shape[h->axis];
  if (h->rows && !(next->rows = rows_with_own(r, h))) return NULL;
  return next;
}

crn_history *crn_history_move(crn_run *r, const crn_history *h, const crn_tensor *from) {
  if (!h || !from || crn_run_failed(r)) return NULL;
  crn_history *next = CRN_ARENA_NEW(&r->arena, crn_history);
  if (!next) return no_memory(r);
  const int64_t N = from->shape[0], shape[2] = {h->n, N};
  *next = *h;
  next->shape[0] = N;
  if (h->n == 0) return next;
  if (!(next->rows = crn_t_new(r, CRN_I32, 2, shape))) return NULL;
  const int32_t *idx = crn_t_i32(from), *old = h->rows ? crn_t_i32(h->rows) : NULL;
  int32_t *p = crn_t_i32(next->rows);
  for (int k = 0; k < h->n; k++)
    for (int64_t i = 0; i < N; i++) p[k * N + i] = old ? old[k * h->shape[0] + idx[i]] : idx[i];
  return next;
}

void crn_history_hold(const crn_history *h) {
  if (!h) return;
  crn_t_hold(h->rows);
  for (int i = 0; i < h->n; i++) crn_t_hold(h->piece[i].v);
}

void crn_history_release(crn_run *r, const crn_history *h) {
  if (!h) return;
  crn_t_release(r, h->rows);
  for (int i = 0; i < h->n; i++) crn_t_release(r, h->piece[i].v);
}
