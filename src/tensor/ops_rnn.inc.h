/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the LSTM pass; included by ops_rnn.c once per number type.
 */

/* gates = z of the step's rows [begin, end) */
static void RNAME(lstm_read_z)(void *arg, int64_t begin, int64_t end) {
  const lstm_step *a = arg;
  const lstm_plan *p = a->plan;
  int64_t n4 = 4 * p->n, row = p->first[a->s];
  R *gates = (R *)p->gates + (row - p->gates_base) * n4;
  for (int64_t r = begin; r < end; r++)
    memcpy(gates + r * n4, (const R *)a->z + p->place[row + r] * n4, (size_t)n4 * sizeof(R));
}

/* Cells of rows [begin, end) of a step; h goes to the next step's h_prev, or to h_end where the row ends. */
static void RNAME(lstm_cells)(void *arg, int64_t begin, int64_t end) {
  const lstm_step *a = arg;
  const lstm_plan *p = a->plan;
  int64_t n = p->n, row = lstm_row(p, a->s), going = p->active[a->s + 1];
  const R *c_prev = a->s == 0 ? p->c0 : (const R *)p->c + lstm_row(p, a->s - 1) * n;
  R *gates = (R *)p->gates + (p->first[a->s] - p->gates_base) * 4 * n, *c = (R *)p->c + row * n;
  for (int part = 0; part < 2; part++) {
    int64_t r0 = part ? (begin > going ? begin : going) : begin, r1 = part ? end : (end < going ? end : going);
    if (r0 >= r1) continue;
    R *h = part ? (R *)p->h_end : (R *)p->h_prev + lstm_row(p, a->s + 1) * n;
    CRN_K(crn_lstm_args) k = {.rows = r1 - r0, .n = n, .layout = p->layout, .forget_bias = (R)p->forget_bias};
    k.z = k.gates = gates + r0 * 4 * n;
    k.ldz = k.ldgates = 4 * n;
    k.c_prev = c_prev ? c_prev + r0 * n : NULL;
    k.c = c + r0 * n;
    k.h = h + r0 * n;
    k.ldc_prev = k.ldc = k.ldh = n;
    KERNELS(a->run)->lstm_forward(&k);
    for (int64_t r = r0; r < r1; r++)
      memcpy((R *)a->y + p->place[p->first[a->s] + r] * n, h + r * n, (size_t)n * sizeof(R));
  }
}

/* Gradients of rows [begin, end) of a step: dh += dy, cells backwards in place of the gates, d_z += dz. */
static void RNAME(lstm_cells_back)(void *arg, int64_t begin, int64_t end) {
  const lstm_step *a = arg;
  const lstm_plan *p = a->plan;
  const CRN_K(crn_kernels) *ker = KERNELS(a->run);
  int64_t n = p->n, row = p->first[a->s];
  const R *c_prev = a->s == 0 ? p->c0 : (const R *)p->c + p->first[a->s - 1] * n;
  R *gates = (R *)p->gates + row * 4 * n, *dh = a->dh, *dc = a->dc;
  if (a->dy)
    for (int64_t r = begin; r < end; r++) ker->add(n, dh + r * n, (const R *)a->dy + p->place[row + r] * n, dh + r * n);
  CRN_K(crn_lstm_args) k = {.rows = end - begin, .n = n, .layout = p->layout, .forget_bias = (R)p->forget_bias};
  k.gates = k.dz = gates + begin * 4 * n;
  k.ldgates = k.lddz = 4 * n;
  k.c_prev = c_prev ? c_prev + begin * n : NULL;
  k.c = (R *)p->c + (row + begin) * n;
  k.dh = dh + begin * n;
  k.dc = k.dc_prev = dc + begin * n;
  k.ldc_prev = k.ldc = k.lddh = k.lddc = k.lddc_prev = n;
  ker->lstm_backward(&k);
  if (a->d_z)
    for (int64_t r = begin; r < end; r++) {
      R *d_z = (R *)a->d_z + p->place[row + r] * 4 * n;
      ker->add(4 * n, d_z, gates + r * 4 * n, d_z);
    }
}

/* d_to [T, B, size] += columns [at, at + size) of rows [rows, all] that belong to slab rows from `row` on. */
static void RNAME(lstm_add_rows)(crn_run *r, const lstm_plan *p, int64_t row, int64_t rows, int64_t all, int64_t at,
                                 int64_t size, const void *from, void *d_to) {
  for (int64_t i = 0; i < rows; i++) {
    R *to = (R *)d_to + p->place[row + i] * size;
    KERNELS(r)->add(size, to, (const R *)from + i * all + at, to);
  }
}

/* d_state[sequence[i]] += rows[i] */
static void RNAME(lstm_add_state)(crn_run *r, const lstm_plan *p, const void *rows, void *d_state) {
  for (int64_t i = 0; i < p->B; i++) {
    R *to = (R *)d_state + p->sequence[i] * p->n;
    KERNELS(r)->add(p->n, to, (const R *)rows + i * p->n, to);
  }
}

/* d_w [K, 4n] += aᵀ·b over rows */
static void RNAME(lstm_add_product)(crn_run *r, int64_t K, int64_t n4, int64_t rows, const void *a, const void *b,
                                    void *d_w) {
  CRN_K(crn_matmul_args) m = {.M = K, .N = n4, .K = rows, .A = a, .lda = K, .B = b, .ldb = n4, .ldc = n4};
  m.C = d_w;
  m.trans_a = m.accumulate = true;
  KERNELS(r)->matmul(&m, r->threads);
}
