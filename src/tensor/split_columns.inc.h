/* SPDX-License-Identifier: Apache-2.0
 *
 * Column sums of a range of columns; included by split.c once per number type.
 */

static void RNAME(add_columns)(void *arg, int64_t begin, int64_t end) {
  const column_task *c = arg;
  KERNELS(c->run)->column_sum(c->rows, end - begin, (const R *)c->x + begin, c->n, (R *)c->y + begin, true);
}
