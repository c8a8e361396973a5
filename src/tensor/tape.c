/* SPDX-License-Identifier: Apache-2.0
 *
 * Calling operations and walking them back.
 *
 * crn_op_call builds the node, infers and computes; when the run records and an input needs a gradient, the node stays on
 * the tape. Views share storage, so their nodes (operations with run == NULL) are never recorded: the gradient of the
 * view is the same place in the storage's gradient.
 */
#include <stdio.h>
#include <string.h>

#include "tensor/mem.h"
#include "tensor/report.h"
#include "tensor/tensor.h"
#include "tensor/weights.h"

crn_status crn_op_fail(crn_run *r, const crn_node *n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  crn_status s = crn_failv(r->err, CRN_E_RUNTIME, fmt, ap);
  va_end(ap);
  (void)crn_err_where(r->err, "operation %s", n->op->name);
  return s;
}

crn_status crn_node_output(crn_run *r, crn_node *n, int i, crn_dtype dtype, int rank, const int64_t *shape) {
  n->out[i] = crn_t_new(r, dtype, rank, shape);
  if (i >= n->n_out) n->n_out = i + 1;
  return n->out[i] ? CRN_OK : r->err->code;
}

crn_status crn_node_view(crn_run *r, crn_node *n, int i, crn_tensor *t, int64_t offset, int rank,
                         const int64_t *shape) {
  n->out[i] = crn_t_over(r, t->st, t->dtype, rank, shape, t->needs_grad);
  if (!n->out[i]) return r->err->code;
  if (i >= n->n_out) n->n_out = i + 1;
  n->out[i]->offset = t->offset + offset;
  return CRN_OK;
}

/* Large pieces come from the pool, where tensors use them in between; they are listed in the arena. */
#define SCRATCH_LARGE 16384

struct crn_scratch_piece {
  void *data;
  struct crn_scratch_piece *next;
};

void *crn_scratch(crn_run *r, size_t bytes) {
  void *p;
  if (bytes < SCRATCH_LARGE) {
    p = crn_arena_alloc(&r->scratch, bytes ? bytes : 1);
  } else {
    struct crn_scratch_piece *s = CRN_ARENA_NEW(&r->scratch, struct crn_scratch_piece);
    p = s ? crn_mem_get(r->mem, bytes) : NULL;
    if (p) {
      *s = (struct crn_scratch_piece){.data = p, .next = r->scratch_pieces};
      r->scratch_pieces = s;
    }
  }
  if (!p) (void)crn_err_memory(r->err);
  return p;
}

void crn_scratch_reset(crn_run *r) {
  for (; r->scratch_pieces; r->scratch_pieces = r->scratch_pieces->next) crn_mem_put(r->mem, r->scratch_pieces->data);
  crn_arena_reset(&r->scratch);
}

static crn_status tape_push(crn_run *r, const crn_node *n) {
  if (r->n_nodes == r->cap_nodes) {
    size_t cap = r->cap_nodes ? 2 * r->cap_nodes : 1024;
    crn_node **nodes = crn_realloc(r->nodes, cap * sizeof(*nodes));
    if (!nodes) return crn_err_memory(r->err);
    r->nodes = nodes;
    r->cap_nodes = cap;
  }
  crn_node *kept = CRN_ARENA_NEW(&r->arena, crn_node);
  crn_tensor **in = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, n->n_in ? n->n_in : 1);
  if (!kept || !in) return crn_err_memory(r->err);
  *kept = *n;
  if (n->n_in) memcpy(in, n->in, (size_t)n->n_in * sizeof(*in));
  kept->in = in;
  r->nodes[r->n_nodes++] = kept;
  return CRN_OK;
}

static bool holds(const crn_tensor *t, bool nan) {
  if (!t || !t->st->data || !crn_dtype_is_float(t->dtype)) return false;
  const crn_t_range range = crn_t_range_of(t);
  return nan ? range.n_nan > 0 : range.n_nan + range.n_inf > 0;
}

static void trace_one(const crn_node *n, bool nan, crn_str *first) {
  bool made = false;
  if (first->len) return;
  for (int i = 0; i < n->n_out; i++) made |= holds(n->out[i], nan);
  for (int i = 0; i < n->n_in && made; i++) made = !holds(n->in[i], nan);
  if (!made) return;
  crn_str_add(first, n->op->name);
  crn_node_report(n, first);
}

static crn_status op_execute(crn_run *r, crn_node *n) {
  bool meta = false, wanted = false;
  for (int i = 0; i < n->n_in; i++) {
    if (!n->in[i]) continue;
    meta |= !n->in[i]->st->packed_only && !n->in[i]->st->data;
    wanted |= n->in[i]->needs_grad;
  }
  CRN_TRY(n->op->infer(r, n));
  if (n->op->run && !meta) {
    for (int i = 0; i < n->n_in; i++)
      if (n->in[i] && n->in[i]->st->packed_only && !(n->weights >> i & 1u)) CRN_TRY(crn_weight_pin(r, n->in[i]));
    crn_status s = n->op->run(r, n);
    crn_scratch_reset(r);
    CRN_TRY(s);
    if (r->trace) {
      trace_one(n, true, r->trace->nan);
      trace_one(n, false, r->trace->inf);
    }
  }
  if (!wanted || !r->recording || !n->op->grad) return CRN_OK;
  for (int i = 0; i < n->n_out; i++) {
    if (!n->out[i]) continue;
    const bool complex = n->out[i]->dtype == CRN_C64;
    if (complex && !n->complex_grad)
      return crn_fail(r->err, CRN_E_NOT_IMPLEMENTED, "not implemented: gradient of operation %s for complex64", n->op->name);
    if (complex || crn_dtype_is_float(n->out[i]->dtype)) n->out[i]->needs_grad = true;
  }
  return n->op->run ? tape_push(r, n) : CRN_OK;
}

crn_tensor *crn_op_call(crn_run *r, const crn_opdef *op, int n_in, int n_required, crn_tensor *const *in,
                        const crn_attrs *a, crn_tensor **outs) {
  if (crn_run_failed(r)) return NULL;
  for (int i = 0; i < n_required; i++)
    if (!in[i]) return NULL;
  crn_node n = {.op = op, .n_in = n_in, .n_out = 1};
  union {
    crn_tensor *const *c;
    crn_tensor **m;
  } inputs = {.c = in}; /* the node only reads them */
  n.in = inputs.m;
  if (a) n.a = *a;
  crn_status s = op_execute(r, &n);
  if (s != CRN_OK) {
    if (!crn_run_failed(r)) (void)crn_fail(r->err, s, "operation %s failed", op->name);
    if (r->failure && !r->failure->len) crn_node_report(&n, r->failure);
    return NULL;
  }
  for (int i = 1; outs && i < n.n_out; i++) outs[i] = n.out[i];
  return n.out[0];
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

static void *at_offset(void *base, const crn_tensor *t) {
  return base ? (char *)base + (size_t)t->offset * crn_dtype_bytes(t->dtype) : NULL;
}

void *crn_grad_out(const crn_node *n, int i) { return n->out[i] ? at_offset(n->out[i]->st->grad, n->out[i]) : NULL; }

void *crn_storage_grad(crn_run *r, crn_storage *st) {
  if (st->grad) return st->grad;
  st->grad = st->is_param ? crn_calloc(1, st->bytes) : crn_mem_get(r->mem, st->bytes);
  if (!st->grad) {
    (void)crn_err_memory(r->err);
    return NULL;
  }
  if (!st->is_param) memset(st->grad, 0, st->bytes);
  return st->grad;
}

void *crn_grad_in(crn_run *r, crn_node *n, int i) {
  crn_tensor *t = n->in[i];
  if (!t || !t->needs_grad) return NULL;
  return at_offset(crn_storage_grad(r, t->st), t);
}

static crn_status seed_gradient(crn_run *r, crn_tensor *y, const void *seed) {
  if (!crn_dtype_is_float(y->dtype)) return crn_fail(r->err, CRN_E_INTERNAL, "gradient of a tensor that isn't float");
  void *g = at_offset(crn_storage_grad(r, y->st), y);
  if (!g) return r->err->code;
  int64_t size = crn_t_size(y);
  if (seed) memcpy(g, seed, (size_t)size * crn_dtype_bytes(y->dtype));
  else if (y->dtype == CRN_F32)
    for (int64_t i = 0; i < size; i++) ((float *)g)[i] = 1.0f;
  else
    for (int64_t i = 0; i < size; i++) ((double *)g)[i] = 1.0;
  return CRN_OK;
}

static bool has_gradient(const crn_node *n) {
  for (int i = 0; i < n->n_out; i++)
    if (n->out[i] && n->out[i]->st->grad) return true;
  return false;
}

crn_status crn_backward(crn_run *r, crn_tensor *y, const void *seed) {
  if (crn_run_failed(r)) return r->err->code;
  CRN_TRY(seed_gradient(r, y, seed));
  for (size_t k = r->n_nodes; k-- > 0;) {
    crn_node *n = r->nodes[k];
    if (!has_gradient(n)) continue;
    crn_status s = n->op->grad(r, n);
    crn_scratch_reset(r);
    if (s == CRN_OK && crn_run_failed(r)) s = r->err->code;
    if (s != CRN_OK) {
      (void)crn_err_where(r->err, "gradient of %s", n->op->name);
      if (r->failure && !r->failure->len) crn_node_report(n, r->failure);
      return s;
    }
  }
  crn_weights_flush(r);
  return r->err->code;
}
