/* SPDX-License-Identifier: Apache-2.0
 *
 * CTC losses as trained, composed of crn_ctc and gradients that are put in.
 */
#include "tensor/ctc_loss.h"

#include "tensor/given_gradient.h"

bool *crn_ctc_valid(crn_run *r, const crn_ctc_batch *b, bool label_loop, int64_t *n_invalid) {
  const int64_t B = b->labels->shape[0], S = b->labels->shape[1];
  bool *valid = CRN_ARENA_ARRAY(&r->arena, bool, B + 1);
  *n_invalid = 0;
  if (!valid) return (void)crn_err_memory(r->err), NULL;
  for (int64_t i = 0; i < B; i++) {
    const int32_t *a = crn_t_i32(b->labels) + i * S, n = crn_t_i32(b->label_lens)[i];
    int32_t need = n;
    for (int32_t k = 1; k < n && label_loop; k++) need += a[k] == a[k - 1]; /* a blank between equal labels */
    valid[i] = need <= crn_t_i32(b->lens)[i];
    *n_invalid += !valid[i];
  }
  return valid;
}

static void put(crn_tensor *t, int64_t i, double v) {
  if (t->dtype == CRN_F64)
    crn_t_f64(t)[i] = v;
  else
    crn_t_f32(t)[i] = (float)v;
}

/* [T, B, V] -> [B, T * V]. */
static crn_tensor *rows_of(crn_run *r, crn_tensor *x) {
  const int perm[3] = {1, 0, 2};
  if (!x) return NULL;
  const int64_t shape[2] = {x->shape[1], x->shape[0] * x->shape[2]};
  return crn_t_reshape(r, crn_transpose(r, x, perm), 2, shape);
}

/* value with grad [T, B, V] added to the gradient of z. */
static crn_tensor *with_gradient(crn_run *r, crn_tensor *value, crn_tensor *z, crn_tensor *grad) {
  if (!value || !grad) return NULL;
  crn_tensor *zero = crn_t_zeros(r, value->dtype, 1, value->shape);
  return crn_add(r, value, crn_given_gradient(r, zero, rows_of(r, z), rows_of(r, grad), false));
}

static crn_tensor *mend_invalid(crn_run *r, const crn_ctc_batch *b, crn_tensor *log_p, crn_tensor *value,
                                const bool *valid, const crn_ctc_lack *lack) {
  crn_tensor *p = crn_t_stop_gradient(r, crn_unary(r, CRN_U_EXP, log_p));
  if (!value || !p) return NULL;
  const int64_t T = p->shape[0], B = p->shape[1], V = p->shape[2];
  crn_tensor *fill = crn_t_zeros(r, p->dtype, 1, &B), *ok = crn_t_new(r, CRN_BOOL, 1, &B);
  crn_tensor *grad = crn_t_zeros(r, p->dtype, 3, p->shape);
  if (!fill || !ok || !grad) return NULL;
  for (int64_t i = 0; i < B; i++) {
    crn_t_bool(ok)[i] = valid[i];
    if (valid[i]) continue;
    put(fill, i, lack[i].value);
    for (int64_t t = 0; lack[i].softmax && t < crn_t_i32(b->lens)[i] && t < T; t++)
      for (int64_t v = 0; v < V; v++) {
        const int64_t at = (t * B + i) * V + v;
        put(grad, at, crn_t_get(p, at) - (lack[i].label0 && v == 0));
      }
  }
  return with_gradient(r, crn_where(r, ok, value, fill), b->z, grad);
}

/* Without normalisation exp(z) is part of the gradient all the same, if that is for softmax's input. */
static crn_tensor *add_softmax_grad(crn_run *r, const crn_ctc_batch *b, crn_tensor *value) {
  const int64_t T = b->z->shape[0], B = b->z->shape[1], shape[3] = {T, 1, 1}, lens_shape[3] = {1, B, 1};
  crn_tensor *t = crn_t_reshape(r, crn_range(r, CRN_I32, 0, T), 3, shape);
  crn_tensor *mask = crn_binary(r, CRN_B_LESS, t, crn_t_reshape(r, b->lens, 3, lens_shape));
  crn_tensor *p = crn_mask_fill(r, crn_unary(r, CRN_U_EXP, crn_t_stop_gradient(r, b->z)), mask, 0.0);
  return with_gradient(r, value, b->z, p);
}

crn_tensor *crn_ctc_loss(crn_run *r, const crn_ctc_batch *b, const crn_ctc_spec *spec, const bool *valid,
                         const crn_ctc_lack *lack) {
  if (!b->z || crn_run_failed(r)) return NULL;
  crn_tensor *log_p = b->z;
  if (spec->normalize) log_p = crn_log_softmax(r, b->z);
  if (spec->normalize && !spec->softmax_grad) log_p = crn_value_as(r, b->z, log_p);
  crn_tensor *v = crn_ctc(r, log_p, b->lens, b->labels, b->label_lens, spec->blank, spec->label_loop, spec->viterbi);
  if (!spec->normalize && spec->softmax_grad) v = add_softmax_grad(r, b, v);
  return lack ? mend_invalid(r, b, log_p, v, valid, lack) : v;
}
