/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of one tensor with respect to another as a tensor of its own, while the tape is still being written.
 *
 * Only nodes that lie between the two are walked; everything else that they read (parameters, other inputs) is taken
 * for constant, so that no gradient of the run itself is touched. Derivatives of the result aren't supported.
 */
#include <string.h>

#include "tensor/mem.h"
#include "tensor/ops.h"

typedef struct between { /* what depends on x, in the run's arena */
  crn_node **nodes;
  crn_storage **storages;
  crn_tensor **constants; /* inputs whose needs_grad is switched off for the walk */
  size_t n_nodes, n_storages, n_constants;
} between;

static void mark(between *b, crn_storage *st) {
  if (st->marked) return;
  st->marked = true;
  b->storages[b->n_storages++] = st;
}

static crn_status collect(crn_run *r, crn_tensor *x, between *b) {
  size_t n_in = 0, n_out = 1;
  for (size_t k = 0; k < r->n_nodes; k++) {
    n_in += (size_t)r->nodes[k]->n_in;
    n_out += (size_t)r->nodes[k]->n_out;
  }
  b->nodes = CRN_ARENA_ARRAY(&r->arena, crn_node *, r->n_nodes + 1);
  b->storages = CRN_ARENA_ARRAY(&r->arena, crn_storage *, n_out);
  b->constants = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, n_in + 1);
  if (!b->nodes || !b->storages || !b->constants) return crn_err_memory(r->err);
  mark(b, x->st);
  for (size_t k = 0; k < r->n_nodes; k++) {
    crn_node *n = r->nodes[k];
    bool hit = false;
    for (int i = 0; i < n->n_in; i++) hit |= n->in[i] && n->in[i]->needs_grad && n->in[i]->st->marked;
    if (!hit) continue;
    b->nodes[b->n_nodes++] = n;
    for (int i = 0; i < n->n_out; i++)
      if (n->out[i]) mark(b, n->out[i]->st);
  }
  for (size_t k = 0; k < b->n_nodes; k++)
    for (int i = 0; i < b->nodes[k]->n_in; i++) {
      crn_tensor *t = b->nodes[k]->in[i];
      if (!t || !t->needs_grad || t->st->marked) continue;
      t->needs_grad = false;
      b->constants[b->n_constants++] = t;
    }
  return CRN_OK;
}

static void release(crn_run *r, between *b) {
  for (size_t i = 0; i < b->n_constants; i++) b->constants[i]->needs_grad = true;
  for (size_t i = 0; i < b->n_storages; i++) {
    crn_storage *st = b->storages[i];
    st->marked = false;
    crn_mem_put(r->mem, st->grad);
    st->grad = NULL;
  }
}

static bool has_gradient(const crn_node *n) {
  for (int i = 0; i < n->n_out; i++)
    if (n->out[i] && n->out[i]->st->grad) return true;
  return false;
}

static crn_status walk(crn_run *r, const between *b, crn_tensor *y) {
  const int64_t size = crn_t_size(y);
  if (!crn_storage_grad(r, y->st)) return r->err->code;
  for (int64_t i = 0; i < size; i++) {
    if (y->dtype == CRN_F64)
      ((double *)y->st->grad)[y->offset + i] = 1;
    else
      ((float *)y->st->grad)[y->offset + i] = 1;
  }
  for (size_t k = b->n_nodes; k-- > 0;) {
    if (!has_gradient(b->nodes[k])) continue;
    CRN_TRY(b->nodes[k]->op->grad(r, b->nodes[k]));
    if (crn_run_failed(r)) return r->err->code;
  }
  return CRN_OK;
}

enum { OF_Y, OF_X };

static crn_status gradient_infer(crn_run *r, crn_node *n) {
  const crn_tensor *y = n->in[OF_Y], *x = n->in[OF_X];
  if (!crn_dtype_is_float(y->dtype) || !crn_dtype_is_float(x->dtype))
    return crn_op_fail(r, n, "needs float tensors, got %s and %s", crn_dtype_name(y->dtype), crn_dtype_name(x->dtype));
  if (x->st->is_param) return crn_op_fail(r, n, "with respect to a parameter is not implemented");
  return crn_node_output(r, n, 0, x->dtype, x->rank, x->shape);
}

static crn_status gradient_run(crn_run *r, crn_node *n) {
  crn_tensor *y = n->in[OF_Y], *x = n->in[OF_X];
  const size_t size = crn_dtype_bytes(x->dtype), bytes = (size_t)crn_t_size(x) * size;
  between b = {0};
  CRN_TRY(collect(r, x, &b));
  crn_status st = y->st->marked ? walk(r, &b, y) : crn_op_fail(r, n, "the first tensor does not depend on the second");
  void *to = crn_t_data(n->out[0]);
  if (st == CRN_OK && bytes) {
    if (x->st->grad)
      memcpy(to, (char *)x->st->grad + (size_t)x->offset * size, bytes);
    else
      memset(to, 0, bytes);
  }
  release(r, &b);
  return st;
}

static crn_status gradient_grad(crn_run *r, crn_node *n) {
  return crn_op_fail(r, n, "not implemented: the derivative of a gradient");
}

static const crn_opdef gradient_op = {
    .name = "gradient", .infer = gradient_infer, .run = gradient_run, .grad = gradient_grad};

crn_tensor *crn_gradient(crn_run *r, crn_tensor *y, crn_tensor *x) {
  return crn_op_call(r, &gradient_op, 2, 2, (crn_tensor *[]){y, x}, NULL, NULL);
}
