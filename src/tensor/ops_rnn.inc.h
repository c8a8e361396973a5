/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the LSTM pass; included by ops_rnn.c once per number type.
 */

static void RNAME(lstm_read_z)(void *arg, int64_t begin, int64_t end) {
  const lstm_step *a = arg;
  const lstm_plan *p = a->plan;
  size_t row = (size_t)(4 * p->n) * sizeof(R);
  R *gates = (R *)p->gates + lstm_slab(p, a->s) * 4 * p->n;
  const R *z = a->z;
  if (p->straight) {
    memcpy(gates + begin * 4 * p->n, z + lstm_place(p, begin, a->s) * 4 * p->n, (size_t)(end - begin) * row);
    return;
  }
  for (int64_t r = begin; r < end; r++) memcpy(gates + r * 4 * p->n, z + lstm_place(p, r, a->s) * 4 * p->n, row);
}

/* Cells of rows [begin, end) of a step; h goes to the next step's h_prev, or to h_end where the row ends. */
static void RNAME(lstm_cells)(void *arg, int64_t begin, int64_t end) {
  const lstm_step *a = arg;
  const lstm_plan *p = a->plan;
  int64_t n = p->n, slab = lstm_slab(p, a->s), going = p->active[a->s + 1];
  const R *c_prev = a->s == 0 ? p->c0 : (const R *)p->c + lstm_slab(p, a->s - 1) * n;
  R *gates = (R *)p->gates + slab * 4 * n, *c = (R *)p->c + slab * n;
  for (int part = 0; part < 2; part++) {
    int64_t r0 = part ? (begin > going ? begin : going) : begin, r1 = part ? end : (end < going ? end : going);
    if (r0 >= r1) continue;
    R *h = part ? (R *)p->h_end : (R *)p->h_prev + lstm_slab(p, a->s + 1) * n;
    CRN_K(crn_lstm_args) k = {.rows = r1 - r0, .n = n, .layout = p->layout, .forget_bias = (R)p->forget_bias};
    k.z = k.gates = gates + r0 * 4 * n;
    k.ldz = k.ldgates = 4 * n;
    k.c_prev = c_prev ? c_prev + r0 * n : NULL;
    k.c = c + r0 * n;
    k.h = h + r0 * n;
    k.ldc_prev = k.ldc = k.ldh = n;
    KERNELS(a->run)->lstm_forward(&k);
    for (int64_t r = r0; r < r1; r++) memcpy((R *)a->y + lstm_place(p, r, a->s) * n, h + r * n, (size_t)n * sizeof(R));
  }
}

/* Gradients of rows [begin, end) of a step: dh += dy, cells backwards in place of the gates, d_z += dz. */
static void RNAME(lstm_cells_back)(void *arg, int64_t begin, int64_t end) {
  const lstm_step *a = arg;
  const lstm_plan *p = a->plan;
  const CRN_K(crn_kernels) *ker = KERNELS(a->run);
  int64_t n = p->n, slab = p->first[a->s];
  const R *c_prev = a->s == 0 ? p->c0 : (const R *)p->c + p->first[a->s - 1] * n;
  R *gates = (R *)p->gates + slab * 4 * n, *dh = a->dh, *dc = a->dc;
  if (a->dy)
    for (int64_t r = begin; r < end; r++)
      ker->add(n, dh + r * n, (const R *)a->dy + lstm_place(p, r, a->s) * n, dh + r * n);
  CRN_K(crn_lstm_args) k = {.rows = end - begin, .n = n, .layout = p->layout, .forget_bias = (R)p->forget_bias};
  k.gates = k.dz = gates + begin * 4 * n;
  k.ldgates = k.lddz = 4 * n;
  k.c_prev = c_prev ? c_prev + begin * n : NULL;
  k.c = (R *)p->c + (slab + begin) * n;
  k.dh = dh + begin * n;
  k.dc = k.dc_prev = dc + begin * n;
  k.ldc_prev = k.ldc = k.lddh = k.lddc = k.lddc_prev = n;
  ker->lstm_backward(&k);
  if (a->d_z)
    for (int64_t r = begin; r < end; r++) {
      R *d_z = (R *)a->d_z + lstm_place(p, r, a->s) * 4 * n;
      ker->add(4 * n, d_z, gates + r * 4 * n, d_z);
    }
}

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
