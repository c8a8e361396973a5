/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans for walking over broadcast inputs, and cutting of element ranges over threads.
 */
#include "tensor/bcast.h"

#include <string.h>

/* Size of t's axis that is aligned with axis d of an output of the given rank; 1 where t has none. */
static int64_t aligned_size(const crn_tensor *t, int rank, int d) {
  int k = d - (rank - t->rank);
  return k < 0 ? 1 : t->shape[k];
}

bool crn_bcast_shape(int n_in, crn_tensor *const *in, int *rank, int64_t *shape) {
  *rank = 0;
  for (int i = 0; i < n_in; i++)
    if (in[i] && in[i]->rank > *rank) *rank = in[i]->rank;
  for (int d = 0; d < *rank; d++) {
    int64_t size = 1;
    for (int i = 0; i < n_in; i++) {
      if (!in[i]) continue;
      int64_t s = aligned_size(in[i], *rank, d);
      if (s == 1 || s == size) continue;
      if (size != 1) return false;
      size = s;
    }
    shape[d] = size;
  }
  return true;
}

/* Append an axis, or merge it into the one before when every input walks both as one. */
static void add_axis(crn_bcast *p, int64_t size, const int64_t *stride) {
  if (size == 1 && p->nd > 0) return;
  if (p->nd > 0 && p->size[p->nd - 1] == 1) p->nd--; /* a leading axis of size 1 was only a placeholder */
  bool merge = p->nd > 0;
  for (int i = 0; i < p->n_in && merge; i++) merge = p->stride[i][p->nd - 1] == stride[i] * size;
  if (!merge) p->nd++;
  int d = p->nd - 1;
  p->size[d] = merge ? p->size[d] * size : size;
  for (int i = 0; i < p->n_in; i++) p->stride[i][d] = stride[i];
}

void crn_bcast_plan(crn_bcast *p, int n_in, crn_tensor *const *in, int rank, const int64_t *shape) {
  memset(p, 0, sizeof *p);
  p->n_in = n_in;
  int64_t strides[CRN_MAX_RANK][CRN_BCAST_MAX_IN];
  for (int i = 0; i < n_in; i++) {
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
      int64_t s = aligned_size(in[i], rank, d);
      strides[d][i] = s == 1 && shape[d] != 1 ? 0 : step;
      step *= s;
    }
  }
  for (int d = 0; d < rank; d++) add_axis(p, shape[d], strides[d]);
  if (p->nd == 0) add_axis(p, 1, (const int64_t[CRN_BCAST_MAX_IN]){1, 1, 1});
  p->n = crn_t_count(rank, shape);
  p->row = p->size[p->nd - 1];
  p->rows = p->n == 0 ? 0 : p->n / p->row;
}

void crn_bcast_seek(const crn_bcast *p, crn_bcast_pos *pos, int64_t row) {
  memset(pos, 0, sizeof *pos);
  if (p->rows == 0) return;
  for (int d = p->nd - 2; d >= 0; d--) {
    pos->at[d] = row % p->size[d];
    row /= p->size[d];
    for (int i = 0; i < p->n_in; i++) pos->off[i] += pos->at[d] * p->stride[i][d];
  }
}

void crn_bcast_next(const crn_bcast *p, crn_bcast_pos *pos) {
  for (int d = p->nd - 2; d >= 0; d--) {
    for (int i = 0; i < p->n_in; i++) pos->off[i] += p->stride[i][d];
    if (++pos->at[d] < p->size[d]) return;
    pos->at[d] = 0;
    for (int i = 0; i < p->n_in; i++) pos->off[i] -= p->size[d] * p->stride[i][d];
  }
}

bool crn_bcast_repeats(const crn_bcast *p, int i) {
  for (int d = 0; d < p->nd; d++)
    if (p->stride[i][d] == 0 && p->size[d] != 1) return true;
  return false;
}

enum { MIN_WORK_PER_TASK = 16384 };

typedef struct ranges {
  int64_t n, n_tasks;
  void (*fn)(void *arg, int64_t begin, int64_t end);
  void *arg;
} ranges;

static void run_range(void *arg, int64_t i) {
  const ranges *g = arg;
  int64_t begin = g->n / g->n_tasks * i + (i < g->n % g->n_tasks ? i : g->n % g->n_tasks);
  int64_t end = begin + g->n / g->n_tasks + (i < g->n % g->n_tasks ? 1 : 0);
  g->fn(g->arg, begin, end);
}

void crn_for_ranges(crn_run *r, int64_t n, int64_t n_work, void (*fn)(void *arg, int64_t begin, int64_t end),
                    void *arg) {
  if (n <= 0) return;
  int64_t n_tasks = n_work / MIN_WORK_PER_TASK, n_threads = crn_threads_count(r->threads);
  if (n_tasks > 4 * n_threads) n_tasks = 4 * n_threads;
  if (n_tasks > n) n_tasks = n;
  if (n_threads <= 1 || n_tasks <= 1) {
    fn(arg, 0, n);
    return;
  }
  ranges g = {n, n_tasks, fn, arg};
  crn_threads_run(r->threads, n_tasks, run_range, &g);
}
