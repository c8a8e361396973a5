/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of rows and columns of ops_norm.c; included once per number type.
 */

static void RNAME(norm_rows)(void *arg, int64_t begin, int64_t end) {
  const norm_task *t = arg;
  int64_t at = begin * t->n;
  R *mean = t->mean, *rstd = t->rstd;
  KERNELS(t->run)->layer_norm(end - begin, t->n, (const R *)t->x + at, t->n, t->scale, t->bias, (R)t->eps,
                              (R *)t->y + at, t->n, mean ? mean + begin : NULL, rstd ? rstd + begin : NULL);
}

static void RNAME(norm_grad_rows)(void *arg, int64_t begin, int64_t end) {
  const norm_task *t = arg;
  int64_t at = begin * t->n;
  KERNELS(t->run)->layer_norm_backward(end - begin, t->n, (const R *)t->x + at, t->n, t->scale, (R *)t->mean + begin,
                                       (R *)t->rstd + begin, (const R *)t->dy + at, t->n, (R *)t->y + at, t->n);
}

static void RNAME(norm_grad_scale)(void *arg, int64_t begin, int64_t end) {
  const norm_task *t = arg;
  KERNELS(t->run)->layer_norm_backward_scale(t->rows, end - begin, (const R *)t->x + begin, t->n, t->mean, t->rstd,
                                             (const R *)t->dy + begin, t->n, (R *)t->y + begin);
}
