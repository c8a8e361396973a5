/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward-backward and best path over the states of a label sequence.
 */
#include "tensor/ctc_paths.h"

#include <math.h>
#include <string.h>

int64_t crn_ctc_work_size(int64_t T, int64_t S) { return (T + 3) * (2 * S + 1); }

void crn_ctc_topology(ctc_paths *p, int64_t S, const int32_t *labels, bool loop, int32_t *self, int32_t *next,
                      uint8_t *skip) {
  p->S = S;
  p->loop = loop;
  p->n_states = loop ? 2 * S + 1 : S + 1;
  p->self = self;
  p->next = next;
  p->skip = skip;
  for (int64_t i = 0; i < p->n_states; i++) {
    bool is_label = i % 2 == 1;
    self[i] = loop && is_label ? (int32_t)(i / 2 + 1) : 0;
    next[i] = loop ? self[i] : (int32_t)i;
    skip[i] = loop && is_label && i >= 3 && labels[i / 2] != labels[i / 2 - 1];
  }
}

static double max2(double a, double b) { return a > b ? a : b; }

/* log(exp(a) + exp(b)); NaN stays NaN */
static double log_add(double a, double b) {
  double m = max2(a, b), d = a > b ? b - a : a - b;
  if (!(m > -INFINITY)) return a + b;
  return d <= -40 ? m : m + log1p(exp(d)); /* exp(-40) is below the last bit of 1 */
}

/* States that a path can be in after t frames: reachable from the start, and the end reachable in the rest. */
static void live_states(const ctc_paths *p, int64_t t, int64_t *begin, int64_t *end) {
  int64_t per_frame = p->loop ? 2 : 1, left = (p->T - t) * per_frame + (p->loop ? 1 : 0);
  *begin = p->n_states - 1 - left > 0 ? p->n_states - 1 - left : 0;
  *end = t * per_frame + 1 < p->n_states ? t * per_frame + 1 : p->n_states;
  if (p->loop && t > 0 && *end<p->n_states && * end> 2 * t) *end = 2 * t; /* from 0 no label can be skipped */
}

static double end_score(const ctc_paths *p, const double *last) {
  double s = last[p->n_states - 1];
  if (p->loop && p->n_states > 1) s = log_add(s, last[p->n_states - 2]);
  return s;
}

/* With label loop a state tells the symbol: share of being in each state after the frame. */
static void state_shares(const ctc_paths *p, const double *alpha, const double *beta, double total, double *share) {
  for (int64_t i = 0; i < p->n_states; i++) {
    double s = alpha[i] + beta[i] - total;
    if (s > -100) share[p->self[i]] += exp(s);
  }
}

/* Without, the step does: alpha before the frame, beta after it. */
static void step_shares(const ctc_paths *p, const double *alpha, const double *emit, const double *beta, double total,
                        double *share) {
  for (int64_t i = 0; i < p->n_states; i++) {
    double stay = alpha[i] + emit[p->self[i]] + beta[i] - total;
    double step = i > 0 ? alpha[i - 1] + emit[p->next[i]] + beta[i] - total : -INFINITY;
    if (stay > -100) share[p->self[i]] += exp(stay);
    if (step > -100) share[p->next[i]] += exp(step);
  }
}

double crn_ctc_sum(const ctc_paths *p, double *work, double *q) {
  int64_t N = p->n_states, M = p->S + 1, begin, end;
  double *beta = work + (p->T + 1) * N, *next_beta = beta + N;
  for (int64_t i = 0; i < (p->T + 1) * N; i++) work[i] = -INFINITY;
  work[0] = 0;
  for (int64_t t = 0; t < p->T; t++) {
    const double *from = work + t * N, *emit = p->emit + t * M;
    double *to = work + (t + 1) * N;
    live_states(p, t + 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
      double stay = from[i] + emit[p->self[i]], step = i > 0 ? from[i - 1] + emit[p->next[i]] : -INFINITY;
      to[i] = log_add(stay, step);
      if (p->skip[i]) to[i] = log_add(to[i], from[i - 2] + emit[p->next[i]]);
    }
  }
  double total = end_score(p, work + p->T * N);
  if (!q) return total;
  memset(q, 0, (size_t)(p->T * M) * sizeof *q);
  if (!(total > -INFINITY)) return total;
  for (int64_t i = 0; i < N; i++) next_beta[i] = i == N - 1 || (p->loop && i == N - 2) ? 0 : -INFINITY;
  for (int64_t t = p->T - 1; t >= 0; t--) {
    const double *alpha = work + t * N, *emit = p->emit + t * M;
    if (p->loop)
      state_shares(p, alpha + N, next_beta, total, q + t * M);
    else
      step_shares(p, alpha, emit, next_beta, total, q + t * M);
    for (int64_t i = 0; i < N; i++) {
      beta[i] = next_beta[i] + emit[p->self[i]];
      if (i + 1 < N) beta[i] = log_add(beta[i], next_beta[i + 1] + emit[p->next[i + 1]]);
      if (i + 2 < N && p->skip[i + 2]) beta[i] = log_add(beta[i], next_beta[i + 2] + emit[p->next[i + 2]]);
    }
    double *swap = beta;
    beta = next_beta;
    next_beta = swap;
  }
  return total;
}

double crn_ctc_best(const ctc_paths *p, double *work, double *q) {
  int64_t N = p->n_states, M = p->S + 1, begin, end;
  for (int64_t i = 0; i < (p->T + 1) * N; i++) work[i] = -INFINITY;
  work[0] = 0;
  for (int64_t t = 0; t < p->T; t++) {
    const double *from = work + t * N, *emit = p->emit + t * M;
    double *to = work + (t + 1) * N;
    live_states(p, t + 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
      double best = from[i] + emit[p->self[i]];
      if (i > 0) best = max2(best, from[i - 1] + emit[p->next[i]]);
      if (p->skip[i]) best = max2(best, from[i - 2] + emit[p->next[i]]);
      to[i] = best;
    }
  }
  const double *last = work + p->T * N;
  int64_t i = N - 1;
  if (p->loop && N > 1 && last[N - 2] >= last[N - 1]) i = N - 2;
  double best = last[i];
  if (!q) return best;
  memset(q, 0, (size_t)(p->T * M) * sizeof *q);
  if (!(best > -INFINITY)) return best;
  for (int64_t t = p->T - 1; t >= 0; t--) { /* the same sums again, so one of them is equal */
    const double *from = work + t * N, *emit = p->emit + t * M;
    double here = work[(t + 1) * N + i];
    bool skips = p->skip[i] && from[i - 2] + emit[p->next[i]] == here;
    bool steps = !skips && i > 0 && from[i - 1] + emit[p->next[i]] == here;
    q[t * M + (skips || steps ? p->next[i] : p->self[i])] = 1;
    i -= skips ? 2 : steps ? 1 : 0;
  }
  return best;
}
