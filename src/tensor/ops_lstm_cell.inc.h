/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of ops_lstm_cell.c; included once per number type.
 */

/* One step of the cell alone: rows [begin, end). */
static void RNAME(cell_rows)(void *arg, int64_t begin, int64_t end) {
  const cell_task *t = arg;
  int64_t n = t->n;
  CRN_K(crn_lstm_args) k = {.rows = end - begin, .n = n, .layout = t->layout, .forget_bias = (R)t->forget_bias};
  k.z = (const R *)t->z + begin * 4 * n;
  k.gates = (R *)t->gates + begin * 4 * n;
  k.ldz = k.ldgates = 4 * n;
  k.c_prev = (const R *)t->c_prev + begin * n;
  k.c = (R *)t->c + begin * n;
  k.h = (R *)t->h + begin * n;
  k.ldc_prev = k.ldc = k.ldh = n;
  KERNELS(t->run)->lstm_forward(&k);
}

static void RNAME(cell_rows_back)(void *arg, int64_t begin, int64_t end) {
  const cell_task *t = arg;
  const CRN_K(crn_kernels) *ker = KERNELS(t->run);
  int64_t n = t->n, at = begin * n, size = (end - begin) * n;
  CRN_K(crn_lstm_args) k = {.rows = end - begin, .n = n, .layout = t->layout, .forget_bias = (R)t->forget_bias};
  k.gates = k.dz = (R *)t->gates + 4 * at;
  k.ldgates = k.lddz = 4 * n;
  k.c_prev = (const R *)t->c_prev + at;
  k.c = (R *)t->c + at;
  k.dh = t->dh ? (const R *)t->dh + at : NULL;
  k.dc = t->dc ? (const R *)t->dc + at : NULL;
  k.dc_prev = (R *)t->dc_prev + at;
  k.ldc_prev = k.ldc = k.lddh = k.lddc = k.lddc_prev = n;
  ker->lstm_backward(&k);
  if (t->d_z) ker->add(4 * size, (R *)t->d_z + 4 * at, (R *)t->gates + 4 * at, (R *)t->d_z + 4 * at);
  if (t->d_c) ker->add(size, (R *)t->d_c + at, (R *)t->dc_prev + at, (R *)t->d_c + at);
}
