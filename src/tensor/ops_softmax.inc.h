/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of rows of ops_softmax.c; included once per number type.
 */

static void RNAME(softmax_rows)(void *arg, int64_t begin, int64_t end) {
  const softmax_task *t = arg;
  KERNELS(t->run)->softmax(end - begin, t->n, (const R *)t->x + begin * t->n, t->n, NULL, (R *)t->y + begin * t->n,
                           t->n);
}

static void RNAME(log_softmax_rows)(void *arg, int64_t begin, int64_t end) {
  const softmax_task *t = arg;
  KERNELS(t->run)->log_softmax(end - begin, t->n, (const R *)t->x + begin * t->n, t->n, NULL, (R *)t->y + begin * t->n,
                               t->n);
}

static void RNAME(softmax_grad_rows)(void *arg, int64_t begin, int64_t end) {
  const softmax_task *t = arg;
  int64_t at = begin * t->n;
  KERNELS(t->run)->softmax_backward(end - begin, t->n, (const R *)t->x + at, t->n, (const R *)t->dy + at, t->n, NULL,
                                    (R *)t->y + at, t->n);
}

static void RNAME(log_softmax_grad_rows)(void *arg, int64_t begin, int64_t end) {
  const softmax_task *t = arg;
  int64_t at = begin * t->n;
  KERNELS(t->run)->log_softmax_backward(end - begin, t->n, (const R *)t->x + at, t->n, (const R *)t->dy + at, t->n,
                                        NULL, (R *)t->y + at, t->n);
}
