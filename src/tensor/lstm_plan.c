/* SPDX-License-Identifier: Apache-2.0
 *
 * Order, steps and slabs of an LSTM pass; see lstm.h.
 */
#include "tensor/lstm.h"

#include <string.h>

/* Stable order by falling length, active rows and slab places of each step. */
static void order_rows(const int32_t *lens, lstm_plan *p) {
  int64_t longer = 0;
  for (int64_t t = p->T; t >= 0; t--) { /* first[t]: next row for this length; active[t]: rows longer than t */
    int64_t same = p->active[t];
    p->first[t] = p->active[t] = longer;
    longer += same;
  }
  for (int64_t b = 0; b < p->B; b++) {
    int32_t len = lens ? lens[b] : (int32_t)p->T;
    int64_t row = p->first[len]++;
    p->sequence[row] = (int32_t)b;
    p->len[row] = len;
  }
  p->first[0] = 0;
  for (int64_t s = 0; s < p->steps; s++) p->first[s + 1] = p->first[s] + p->active[s];
}

crn_status crn_lstm_plan_rows(crn_run *r, const crn_node *n, lstm_plan *p) {
  const int32_t *lens = n->in[LSTM_LENS] ? crn_t_i32(n->in[LSTM_LENS]) : NULL;
  crn_arena *arena = p->kept ? &r->arena : &r->scratch;
  p->sequence = CRN_ARENA_ARRAY(arena, int32_t, p->B + 1);
  p->len = CRN_ARENA_ARRAY(arena, int32_t, p->B + 1);
  p->active = CRN_ARENA_ARRAY(arena, int64_t, p->T + 2);
  p->first = CRN_ARENA_ARRAY(arena, int64_t, p->T + 2);
  if (!p->sequence || !p->len || !p->active || !p->first) return crn_err_memory(r->err);
  for (int64_t b = 0; b < p->B; b++) {
    int32_t len = lens ? lens[b] : (int32_t)p->T;
    if (len < 0 || len > p->T)
      return crn_op_fail(r, n, "length %d of sequence %lld is outside of 0 to %lld", (int)len, (long long)b,
                         (long long)p->T);
    p->active[len]++; /* for now: how many have this length */
    p->frames += len;
    if (len > p->steps) p->steps = len;
  }
  order_rows(lens, p);
  p->place = CRN_ARENA_ARRAY(arena, int64_t, p->frames + 1);
  if (!p->place) return crn_err_memory(r->err);
  for (int64_t s = 0; s < p->steps; s++)
    for (int64_t row = 0; row < p->active[s]; row++)
      p->place[p->first[s] + row] = (p->reverse ? p->len[row] - 1 - s : s) * p->B + p->sequence[row];
  return CRN_OK;
}

static void *slab_new(crn_run *r, crn_dtype dtype, int64_t rows, int64_t n) {
  crn_tensor *t = crn_t_new(r, dtype, 2, (int64_t[]){rows, n});
  return t ? crn_t_data(t) : NULL;
}

crn_status crn_lstm_plan_slabs(crn_run *r, const crn_node *n, lstm_plan *p) {
  crn_dtype dtype = n->in[LSTM_RE]->dtype;
  size_t item = crn_dtype_bytes(dtype);
  int64_t rows = p->kept ? p->frames : p->B, most = p->B + LSTM_GROUP_ROWS;
  p->gates = slab_new(r, dtype, p->kept ? p->frames : most < p->frames ? most : p->frames, 4 * p->n);
  p->c = slab_new(r, dtype, rows, p->n);
  p->h_prev = slab_new(r, dtype, rows > p->B ? rows : p->B, p->n);
  p->h_end = p->kept ? slab_new(r, dtype, p->B, p->n) : p->h_prev;
  if (n->in[LSTM_C0]) p->c0 = p->kept ? slab_new(r, dtype, p->B, p->n) : p->c;
  if (crn_run_failed(r)) return r->err->code;
  p->has_h0 = n->in[LSTM_H0] != NULL;
  if (p->c0) crn_lstm_sort(p, crn_t_data(n->in[LSTM_C0]), p->c0, item);
  if (p->has_h0) {
    crn_lstm_sort(p, crn_t_data(n->in[LSTM_H0]), p->h_end, item); /* sequences without frames end with it */
    if (p->kept) memcpy(p->h_prev, p->h_end, (size_t)(p->steps > 0 ? p->active[0] : 0) * (size_t)p->n * item);
  } else {
    memset(p->h_end, 0, (size_t)(p->B * p->n) * item);
  }
  return CRN_OK;
}

int64_t crn_lstm_group_begin(const lstm_plan *p, int64_t end) {
  int64_t s = end - 1;
  while (s > 0 && p->first[end] - p->first[s] < LSTM_GROUP_ROWS) s--;
  return s;
}

int64_t crn_lstm_group_end(const lstm_plan *p, int64_t begin) {
  int64_t s = begin + 1;
  while (s < p->steps && p->first[s] - p->first[begin] < LSTM_GROUP_ROWS) s++;
  return s;
}

bool crn_lstm_contiguous(const lstm_plan *p, int64_t row, int64_t rows) {
  for (int64_t i = 1; i < rows; i++)
    if (p->place[row + i] != p->place[row] + i) return false;
  return true;
}

void crn_lstm_sort(const lstm_plan *p, const void *t, void *rows, size_t item) {
  size_t row = (size_t)p->n * item;
  for (int64_t i = 0; i < p->B; i++)
    memcpy((char *)rows + (size_t)i * row, (const char *)t + (size_t)p->sequence[i] * row, row);
}

void crn_lstm_unsort(const lstm_plan *p, const void *rows, void *t, size_t item) {
  size_t row = (size_t)p->n * item;
  for (int64_t i = 0; i < p->B; i++)
    memcpy((char *)t + (size_t)p->sequence[i] * row, (const char *)rows + (size_t)i * row, row);
}

static const crn_tensor *x_of(const crn_node *n, int k) { return n->in[k == 0 ? LSTM_X0 : LSTM_X1 + k - 1]; }

int64_t crn_lstm_x_size(const crn_node *n) {
  int64_t size = 0;
  for (int k = 0; k < LSTM_MAX_X; k++)
    if (x_of(n, k)) size += x_of(n, k)->shape[2];
  return size;
}

const void *crn_lstm_x_rows(const crn_node *n, const lstm_plan *p, int64_t row, int64_t rows, void *copy) {
  size_t item = crn_dtype_bytes(n->in[LSTM_RE]->dtype), all = (size_t)crn_lstm_x_size(n) * item, at = 0;
  for (int k = 0; k < LSTM_MAX_X; k++) {
    const crn_tensor *x = x_of(n, k);
    if (!x) continue;
    size_t bytes = (size_t)x->shape[2] * item;
    const char *from = crn_t_data(x);
    if (bytes == all && rows > 0 && crn_lstm_contiguous(p, row, rows)) return from + (size_t)p->place[row] * bytes;
    for (int64_t i = 0; i < rows; i++)
      memcpy((char *)copy + (size_t)i * all + at, from + (size_t)p->place[row + i] * bytes, bytes);
    at += bytes;
  }
  return copy;
}
