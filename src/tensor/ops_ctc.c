/* SPDX-License-Identifier: Apache-2.0
 *
 * CTC: likelihood of label sequences and their soft or best alignments (tensor/ctc_paths.h). Forward keeps each
 * sequence's shares of its own labels [T, S+1], not of all V; backward subtracts them. Threads take whole sequences.
 */
#include <math.h>
#include <string.h>

#include "tensor/ctc_paths.h"
#include "tensor/mem.h"
#include "tensor/ops.h"
#include "tensor/split.h"

enum { CTC_LOGP, CTC_LENS, CTC_LABELS, CTC_LABEL_LENS };

typedef struct ctc_attrs {
  int64_t blank;
  bool loop, viterbi, dense; /* dense: the alignment itself is wanted, [T, B, V] */
} ctc_attrs;

typedef struct ctc_job {
  const crn_node *n;
  ctc_attrs a;
  int64_t T, B, V, S;
  int64_t n_tasks;
  double *work; /* task_work numbers per task */
  int64_t task_work;
  void *kept; /* shares [B, T, S+1] or NULL */
  void *loss, *q;
} ctc_job;

static ctc_attrs attrs_of(const crn_node *n) {
  return (ctc_attrs){.blank = n->a.i[0], .loop = n->a.i[1] != 0, .viterbi = n->a.i[2] != 0, .dense = n->a.i[3] != 0};
}

static crn_status ctc_infer(crn_run *r, crn_node *n) {
  crn_tensor *x = n->in[CTC_LOGP], *labels = n->in[CTC_LABELS];
  ctc_attrs a = attrs_of(n);
  char bx[120], bl[120];
  CRN_TRY(crn_check_real(r, n, CTC_LOGP));
  CRN_TRY(crn_check_i32(r, n, CTC_LENS, 1));
  CRN_TRY(crn_check_i32(r, n, CTC_LABELS, 2));
  CRN_TRY(crn_check_i32(r, n, CTC_LABEL_LENS, 1));
  if (x->rank != 3 || labels->shape[0] != x->shape[1] || n->in[CTC_LENS]->shape[0] != x->shape[1] ||
      n->in[CTC_LABEL_LENS]->shape[0] != x->shape[1])
    return crn_op_fail(r, n, "needs scores [T, B, V] and labels [B, S] with lengths [B], got %s and %s",
                       crn_t_describe(x, bx, sizeof bx), crn_t_describe(labels, bl, sizeof bl));
  if (a.blank < 0 || a.blank >= x->shape[2])
    return crn_op_fail(r, n, "blank index %lld is outside of %s", (long long)a.blank, crn_t_describe(x, bx, sizeof bx));
  if (a.dense) CRN_TRY(crn_node_output(r, n, 0, x->dtype, 3, x->shape));
  return crn_node_output(r, n, a.dense ? 1 : 0, x->dtype, 1, &x->shape[1]);
}

/* Lengths and labels, before any of them is used as an index. */
static crn_status check_values(crn_run *r, const crn_node *n, const ctc_job *j) {
  const int32_t *lens = crn_t_i32(n->in[CTC_LENS]), *label_lens = crn_t_i32(n->in[CTC_LABEL_LENS]);
  const int32_t *labels = crn_t_i32(n->in[CTC_LABELS]);
  for (int64_t b = 0; b < j->B; b++) {
    if (lens[b] < 0 || lens[b] > j->T)
      return crn_op_fail(r, n, "sequence %lld has %d frames, possible are 0 to %lld", (long long)b, (int)lens[b],
                         (long long)j->T);
    if (label_lens[b] < 0 || label_lens[b] > j->S)
      return crn_op_fail(r, n, "sequence %lld has %d labels, possible are 0 to %lld", (long long)b, (int)label_lens[b],
                         (long long)j->S);
    for (int64_t s = 0; s < label_lens[b]; s++)
      if (labels[b * j->S + s] < 0 || labels[b * j->S + s] >= j->V || labels[b * j->S + s] == j->a.blank)
        return crn_op_fail(r, n, "label %lld of sequence %lld is %d, possible are 0 to %lld without the blank %lld",
                           (long long)s, (long long)b, (int)labels[b * j->S + s], (long long)j->V - 1,
                           (long long)j->a.blank);
  }
  return CRN_OK;
}

#include "tensor/real_f32.inc.h"
#include "tensor/ops_ctc.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/ops_ctc.inc.h"

static ctc_job job_of(const crn_node *n) {
  const crn_tensor *x = n->in[CTC_LOGP];
  return (ctc_job){
      .n = n, .a = attrs_of(n), .T = x->shape[0], .B = x->shape[1], .V = x->shape[2], .S = n->in[CTC_LABELS]->shape[1]};
}

static crn_status ctc_run(crn_run *r, crn_node *n) {
  crn_dtype dtype = n->in[CTC_LOGP]->dtype;
  ctc_job j = job_of(n);
  CRN_TRY(check_values(r, n, &j));
  j.loss = crn_t_data(n->out[j.a.dense ? 1 : 0]);
  if (j.a.dense) {
    j.q = crn_t_data(n->out[0]);
    memset(j.q, 0, (size_t)crn_t_size(n->out[0]) * crn_dtype_bytes(dtype));
  } else if (crn_node_kept(r, n)) {
    crn_tensor *kept = crn_t_zeros(r, dtype, 3, (int64_t[]){j.B, j.T, j.S + 1});
    if (!kept) return r->err->code;
    n->saved = kept;
    j.kept = crn_t_data(kept);
  }
  j.n_tasks = crn_threads_count(r->threads) < j.B ? crn_threads_count(r->threads) : j.B;
  int64_t states = 2 * j.S + 1; /* emissions, shares, paths, and three small tables */
  j.task_work = 2 * j.T * (j.S + 1) + crn_ctc_work_size(j.T, j.S) + 3 * states;
  size_t bytes = (size_t)(j.n_tasks * j.task_work) * sizeof(double);
  if (j.B == 0) return CRN_OK;
  j.work = crn_mem_get(r->mem, bytes);
  if (!j.work) return crn_err_memory(r->err);
  crn_threads_run(r->threads, j.n_tasks, CRN_BY_REAL(dtype, ctc_sequences), &j);
  crn_mem_put(r->mem, j.work);
  return CRN_OK;
}

static crn_status ctc_grad(crn_run *r, crn_node *n) {
  const void *dy = crn_grad_out(n, 0);
  void *d_x = dy ? crn_grad_in(r, n, CTC_LOGP) : NULL;
  if (!d_x) return CRN_OK;
  ctc_job j = job_of(n);
  j.kept = crn_t_data(n->saved);
  CRN_BY_REAL(n->in[CTC_LOGP]->dtype, ctc_back)(&j, dy, d_x);
  return CRN_OK;
}

static const crn_opdef ctc_op = {.name = "ctc", .infer = ctc_infer, .run = ctc_run, .grad = ctc_grad};
static const crn_opdef alignment_op = {.name = "ctc_alignment", .infer = ctc_infer, .run = ctc_run};

crn_tensor *crn_ctc(crn_run *r, crn_tensor *log_probs, crn_tensor *lens, crn_tensor *labels, crn_tensor *label_lens,
                    int64_t blank, bool label_loop, bool viterbi) {
  crn_attrs a = {.i = {blank, label_loop, viterbi}};
  return crn_op_call(r, &ctc_op, 4, 4, (crn_tensor *[]){log_probs, lens, labels, label_lens}, &a, NULL);
}

crn_tensor *crn_ctc_alignment(crn_run *r, crn_tensor *log_probs, crn_tensor *lens, crn_tensor *labels,
                              crn_tensor *label_lens, int64_t blank, bool label_loop, bool viterbi, crn_tensor **loss) {
  crn_attrs a = {.i = {blank, label_loop, viterbi, 1}};
  crn_tensor *outs[3] = {NULL};
  crn_tensor *q = crn_op_call(r, &alignment_op, 4, 4, (crn_tensor *[]){log_probs, lens, labels, label_lens}, &a, outs);
  if (loss) *loss = q ? outs[1] : NULL;
  return q;
}
