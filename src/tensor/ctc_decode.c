/* SPDX-License-Identifier: Apache-2.0
 *
 * CTC decoding. The beam search keeps label sequences as nodes of a tree (a sequence and its last label); per frame
 * each of the kept ones stays (blank, or its last label again) or grows by a label. Per node two probabilities: of the
 * paths that end in blank, and in the label.
 */
#include "tensor/ctc_decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "tensor/split.h"

typedef struct prefix_score {
  double blank, label, total;
} prefix_score;

typedef struct prefix {
  int32_t parent, label; /* -1, -1: the empty sequence */
  prefix_score old, now; /* before and after this frame */
} prefix;

typedef struct ranked_label {
  double log_p;
  int32_t label;
} ranked_label;

typedef struct beam_search {
  prefix *node;
  int32_t n, cap;
  int32_t *table; /* hash of (parent, label) -> node + 1 */
  int32_t table_size;
  int32_t *beam, *next; /* kept nodes; next is a heap, smallest total first */
  int64_t n_beam, n_next, width;
  ranked_label *ranked;
  bool failed;
} beam_search;

static const prefix_score impossible = {-INFINITY, -INFINITY, -INFINITY};

static double log_add(double a, double b) {
  if (a < b) {
    const double t = a;
    a = b;
    b = t;
  }
  return b == -INFINITY ? a : a + log1p(exp(b - a));
}

/* ---- nodes ---- */

static uint32_t slot_of(const beam_search *s, int32_t parent, int32_t label) {
  uint64_t h = ((uint64_t)(uint32_t)parent << 32 | (uint32_t)label) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 33) & (uint32_t)(s->table_size - 1);
}

static void table_put(beam_search *s, int32_t node) {
  uint32_t i = slot_of(s, s->node[node].parent, s->node[node].label);
  while (s->table[i]) i = (i + 1) & (uint32_t)(s->table_size - 1);
  s->table[i] = node + 1;
}

static bool grow(beam_search *s) {
  const int32_t cap = s->cap ? 2 * s->cap : 256;
  prefix *node = crn_realloc(s->node, (size_t)cap * sizeof *node);
  if (node) s->node = node;
  int32_t *table = node ? crn_calloc((size_t)cap * 2, sizeof *table) : NULL;
  if (!table) return false;
  crn_free(s->table);
  s->table = table;
  s->table_size = 2 * cap;
  s->cap = cap;
  for (int32_t i = 0; i < s->n; i++) table_put(s, i);
  return true;
}

/* The node of parent and label, made if it isn't there; -1: no memory. */
static int32_t child_of(beam_search *s, int32_t parent, int32_t label) {
  if (s->n == s->cap && !grow(s)) {
    s->failed = true;
    return -1;
  }
  for (uint32_t i = slot_of(s, parent, label); s->table[i]; i = (i + 1) & (uint32_t)(s->table_size - 1)) {
    const prefix *p = &s->node[s->table[i] - 1];
    if (p->parent == parent && p->label == label) return s->table[i] - 1;
  }
  s->node[s->n] = (prefix){parent, label, impossible, impossible};
  table_put(s, s->n);
  return s->n++;
}

/* ---- the best `width` nodes ---- */

static double total_at(const beam_search *s, int64_t i) { return s->node[s->next[i]].now.total; }

static void swap_next(beam_search *s, int64_t i, int64_t k) {
  const int32_t t = s->next[i];
  s->next[i] = s->next[k];
  s->next[k] = t;
}

static void sift_down(beam_search *s) {
  for (int64_t i = 0;;) {
    int64_t least = i;
    for (int64_t k = 2 * i + 1; k <= 2 * i + 2 && k < s->n_next; k++)
      if (total_at(s, k) < total_at(s, least)) least = k;
    if (least == i) return;
    swap_next(s, i, least);
    i = least;
  }
}

/* Keep the node if it is among the best so far; what falls out becomes impossible. */
static void offer(beam_search *s, int32_t node) {
  if (s->n_next == s->width) {
    if (s->node[node].now.total <= total_at(s, 0)) {
      s->node[node].now = impossible;
      return;
    }
    s->node[s->next[0]].now = impossible;
    s->next[0] = node;
    sift_down(s);
    return;
  }
  s->next[s->n_next] = node;
  for (int64_t i = s->n_next++; i > 0 && total_at(s, i) < total_at(s, (i - 1) / 2); i = (i - 1) / 2)
    swap_next(s, i, (i - 1) / 2);
}

/* ---- frames ---- */

static int by_score(const void *a, const void *b) {
  const ranked_label *x = a, *y = b;
  if (x->log_p != y->log_p) return x->log_p > y->log_p ? -1 : 1;
  return x->label < y->label ? -1 : x->label > y->label;
}

/* Kept sequences that stay what they are: blank, or the last label again. */
static void stay(beam_search *s, const double *log_p, int64_t blank) {
  for (int64_t i = 0; i < s->n_beam; i++) s->node[s->beam[i]].old = s->node[s->beam[i]].now;
  for (int64_t i = 0; i < s->n_beam; i++) {
    prefix *p = &s->node[s->beam[i]];
    if (p->label >= 0) {
      const prefix *up = &s->node[p->parent];
      double from = p->old.label;
      if (up->old.total != -INFINITY) /* and by its last label, from the sequence without it */
        from = log_add(from, up->label == p->label ? up->old.blank : up->old.total);
      p->now.label = from + log_p[p->label];
    }
    p->now.blank = p->old.total + log_p[blank];
    p->now.total = log_add(p->now.blank, p->now.label);
  }
  s->n_next = 0;
  for (int64_t i = 0; i < s->n_beam; i++) offer(s, s->beam[i]);
}

/* Kept sequences with one label more. */
static void extend(beam_search *s, int64_t n_labels) {
  for (int64_t i = 0; i < s->n_beam && !s->failed; i++)
    for (int64_t k = 0; k < n_labels; k++) {
      const prefix *p = &s->node[s->beam[i]];
      const ranked_label *c = &s->ranked[k];
      const double best = p->old.total + c->log_p;
      if (best == -INFINITY || (s->n_next == s->width && best <= total_at(s, 0))) break; /* the others are worse */
      const double score = c->label == p->label ? p->old.blank + c->log_p : best;
      const int32_t node = child_of(s, s->beam[i], c->label);
      if (node < 0) return;
      if (s->node[node].now.total != -INFINITY || s->node[node].old.total != -INFINITY || score == -INFINITY)
        continue; /* a kept one: it was reached in stay() */
      s->node[node].now = (prefix_score){-INFINITY, score, score};
      offer(s, node);
    }
}

static void step(beam_search *s, const double *log_p, int64_t V, int64_t blank) {
  int64_t n = 0;
  for (int64_t v = 0; v < V; v++)
    if (v != blank) s->ranked[n++] = (ranked_label){log_p[v], (int32_t)v};
  qsort(s->ranked, (size_t)n, sizeof *s->ranked, by_score);
  stay(s, log_p, blank);
  extend(s, n);
  for (int64_t i = 0; i < s->n_beam; i++) s->node[s->beam[i]].old = impossible;
  int32_t *kept = s->next;
  s->next = s->beam;
  s->beam = kept;
  s->n_beam = s->n_next;
}

static int64_t read_best(const beam_search *s, int32_t *labels) {
  int32_t best = s->beam[0];
  for (int64_t i = 1; i < s->n_beam; i++)
    if (s->node[s->beam[i]].now.total > s->node[best].now.total) best = s->beam[i];
  int64_t n = 0;
  for (int32_t p = best; s->node[p].label >= 0; p = s->node[p].parent) n++;
  int64_t i = n;
  for (int32_t p = best; s->node[p].label >= 0; p = s->node[p].parent) labels[--i] = s->node[p].label;
  return n;
}

int64_t crn_ctc_beam_search(const double *log_p, int64_t T, int64_t V, int64_t blank, int64_t width, int32_t *labels) {
  beam_search s = {.width = width};
  int64_t n = -1;
  s.beam = crn_malloc((size_t)width * sizeof *s.beam);
  s.next = crn_malloc((size_t)width * sizeof *s.next);
  s.ranked = crn_malloc((size_t)V * sizeof *s.ranked);
  if (s.beam && s.next && s.ranked && child_of(&s, -1, -1) == 0) {
    s.node[0].now = (prefix_score){0, -INFINITY, 0};
    s.beam[s.n_beam++] = 0;
    for (int64_t t = 0; t < T && !s.failed; t++) step(&s, log_p + t * V, V, blank);
    if (!s.failed) n = read_best(&s, labels);
  }
  crn_free(s.node);
  crn_free(s.table);
  crn_free(s.beam);
  crn_free(s.next);
  crn_free(s.ranked);
  return n;
}

int64_t crn_ctc_greedy(const double *log_p, int64_t T, int64_t V, int64_t blank, int32_t *labels) {
  int64_t n = 0, before = -1;
  for (int64_t t = 0; t < T; t++) {
    int64_t best = 0;
    for (int64_t v = 1; v < V; v++)
      if (log_p[t * V + v] > log_p[t * V + best]) best = v;
    if (best != blank && best != before) labels[n++] = (int32_t)best;
    before = best;
  }
  return n;
}

/* ---- batches ---- */

typedef struct decode_job {
  const crn_tensor *scores;
  const int32_t *lens;
  int64_t B, T, V, blank, width;
  int32_t *labels, *counts; /* [B, T], [B] */
  int64_t n_tasks;
  double *log_p; /* [n_tasks, T, V] */
} decode_job;

static double score_at(const crn_tensor *x, int64_t i) {
  return x->dtype == CRN_F64 ? crn_t_f64(x)[i] : (double)crn_t_f32(x)[i];
}

static void log_softmax_row(double *x, int64_t V) {
  double top = -INFINITY, sum = 0;
  for (int64_t v = 0; v < V; v++)
    if (x[v] > top) top = x[v];
  if (top == -INFINITY) return;
  for (int64_t v = 0; v < V; v++) sum += exp(x[v] - top);
  for (int64_t v = 0; v < V; v++) x[v] -= top + log(sum);
}

static void decode_sequence(const decode_job *j, int64_t b, double *log_p) {
  const int64_t T = j->lens[b];
  for (int64_t t = 0; t < T; t++) {
    for (int64_t v = 0; v < j->V; v++) log_p[t * j->V + v] = score_at(j->scores, (t * j->B + b) * j->V + v);
    log_softmax_row(log_p + t * j->V, j->V);
  }
  j->counts[b] =
      (int32_t)(j->width == 1 ? crn_ctc_greedy(log_p, T, j->V, j->blank, j->labels + b * j->T)
                              : crn_ctc_beam_search(log_p, T, j->V, j->blank, j->width, j->labels + b * j->T));
}

static void decode_task(void *arg, int64_t task) {
  const decode_job *j = arg;
  for (int64_t b = task; b < j->B; b += j->n_tasks) decode_sequence(j, b, j->log_p + task * j->T * j->V);
}

static crn_status decode_infer(crn_run *r, crn_node *n) { /* i[0] blank, i[1] width */
  const crn_tensor *x = n->in[0];
  char d[120];
  CRN_TRY(crn_check_real(r, n, 0));
  CRN_TRY(crn_check_i32(r, n, 1, 1));
  if (x->rank != 3 || n->in[1]->shape[0] != x->shape[1] || n->a.i[0] < 0 || n->a.i[0] >= x->shape[2] || n->a.i[1] < 1)
    return crn_op_fail(r, n, "needs scores [T, B, V] with the blank %lld in V and a beam of at least 1, got %s",
                       (long long)n->a.i[0], crn_t_describe(x, d, sizeof d));
  CRN_TRY(crn_node_output(r, n, 0, CRN_I32, 2, (int64_t[]){x->shape[1], x->shape[0]}));
  return crn_node_output(r, n, 1, CRN_I32, 1, &x->shape[1]);
}

static crn_status decode_run(crn_run *r, crn_node *n) {
  const crn_tensor *x = n->in[0];
  decode_job j = {.scores = x, .lens = crn_t_i32(n->in[1]), .T = x->shape[0], .B = x->shape[1], .V = x->shape[2]};
  j.blank = n->a.i[0];
  j.width = n->a.i[1];
  j.labels = crn_t_i32(n->out[0]);
  j.counts = crn_t_i32(n->out[1]);
  for (int64_t b = 0; b < j.B; b++)
    if (j.lens[b] < 0 || j.lens[b] > j.T)
      return crn_op_fail(r, n, "sequence %lld has %d frames, possible are 0 to %lld", (long long)b, (int)j.lens[b],
                         (long long)j.T);
  if (j.B * j.T > 0) memset(j.labels, 0, (size_t)(j.B * j.T) * sizeof *j.labels);
  j.n_tasks = crn_threads_count(r->threads) < j.B ? crn_threads_count(r->threads) : j.B;
  if (!(j.log_p = crn_scratch(r, (size_t)(j.n_tasks * j.T * j.V) * sizeof *j.log_p))) return r->err->code;
  crn_threads_run(r->threads, j.n_tasks, decode_task, &j);
  for (int64_t b = 0; b < j.B; b++)
    if (j.counts[b] < 0) return crn_err_memory(r->err);
  return CRN_OK;
}

static const crn_opdef decode_op = {.name = "ctc_decode", .infer = decode_infer, .run = decode_run};

crn_tensor *crn_ctc_decode(crn_run *r, crn_tensor *scores, crn_tensor *lens, int64_t blank, int64_t width,
                           crn_tensor **label_lens) {
  crn_tensor *outs[3] = {NULL};
  crn_tensor *labels =
      crn_op_call(r, &decode_op, 2, 2, (crn_tensor *[]){scores, lens}, &(crn_attrs){.i = {blank, width}}, outs);
  if (label_lens) *label_lens = labels ? outs[1] : NULL;
  return labels;
}
