/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of ops_loss.c; included once per number type.
 */

static void RNAME(ce_forward_rows)(void *arg, int64_t begin, int64_t end) {
  const ce_task *t = arg;
  const CRN_K(crn_kernels) *k = KERNELS(t->run);
  R *work = (R *)t->work + begin / t->block * t->V, *lse = t->lse, *y = t->y;
  for (int64_t i = begin; i < end; i++) {
    const R *x = (const R *)t->x + i * t->V;
    R top = k->reduce_max(t->V, x);
    k->add_scalar(t->V, -top, x, work);
    k->exp(t->V, work, work);
    R log_sum = (R)log(k->sum(t->V, work));
    y[i] = log_sum - (x[t->target[i]] - top); /* not (top + log_sum) - x: large logits would cancel */
    if (lse) lse[i] = top + log_sum;
  }
}

static void RNAME(ce_backward_rows)(void *arg, int64_t begin, int64_t end) {
  const ce_task *t = arg;
  const CRN_K(crn_kernels) *k = KERNELS(t->run);
  R *work = (R *)t->work + begin / t->block * t->V;
  const R *lse = t->lse, *dy = t->dy;
  for (int64_t i = begin; i < end; i++) {
    R *d_x = (R *)t->d_x + i * t->V;
    if (dy[i] == 0) continue; /* masked frames */
    k->add_scalar(t->V, -lse[i], (const R *)t->x + i * t->V, work);
    k->exp(t->V, work, work);
    k->axpy(t->V, dy[i], work, d_x);
    d_x[t->target[i]] -= dy[i];
  }
}
