/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution by laid-out windows; included by ops_conv.c once per number type.
 */

/* One line of taps of a row: zeros in the padding, else copies; as few calls as possible. */
static void RNAME(lay_out_line)(const conv_geometry *g, const R *x, bool inside, int64_t place, int64_t lo, int64_t hi,
                                R *to) {
  int64_t n = g->group_in;
  if (!inside) lo = hi = 0;
  memset(to, 0, (size_t)(lo * n) * sizeof(R));
  memset(to + hi * n, 0, (size_t)((g->k[2] - hi) * n) * sizeof(R));
  if (g->dilation[2] == 1 && g->groups == 1) {
    memcpy(to + lo * n, x + (place + lo) * g->C, (size_t)((hi - lo) * n) * sizeof(R));
    return;
  }
  for (int64_t k = lo; k < hi; k++) memcpy(to + k * n, x + (place + k * g->dilation[2]) * g->C, (size_t)n * sizeof(R));
}

/* Lay out the windows of rows [begin, end) of the job: row = [taps, group_in]. */
static void RNAME(lay_out_rows)(void *arg, int64_t begin, int64_t end) {
  const conv_job *j = arg;
  const conv_geometry *g = &j->g;
  const R *x = (const R *)j->x + j->group * g->group_in;
  for (int64_t row = begin; row < end; row++) {
    conv_place p = conv_place_of(g, j->row0 + row);
    R *to = (R *)j->rows + row * g->K;
    int64_t lo, hi, place;
    conv_inside(g, &p, &lo, &hi);
    for (int64_t k0 = 0; k0 < g->k[0]; k0++)
      for (int64_t k1 = 0; k1 < g->k[1]; k1++, to += g->k[2] * g->group_in) {
        bool inside = conv_line(g, &p, k0, k1, &place);
        RNAME(lay_out_line)(g, x, inside, place, lo, hi, to);
      }
  }
}

/* d_x += rows, for blocks [begin, end) of the group's channels; rows and taps in order. */
static void RNAME(add_rows_back)(void *arg, int64_t begin, int64_t end) {
  const conv_job *j = arg;
  const conv_geometry *g = &j->g;
  int64_t c0 = begin * CHANNEL_BLOCK, c1 = end * CHANNEL_BLOCK < g->group_in ? end * CHANNEL_BLOCK : g->group_in;
  R *d_x = (R *)j->to + j->group * g->group_in + c0;
  bool whole = c1 - c0 == g->C && g->dilation[2] == 1; /* a line's places are one run of numbers */
  const CRN_K(crn_kernels) *ker = KERNELS(j->run);
  for (int64_t row = 0; row < j->n_rows; row++) {
    conv_place p = conv_place_of(g, j->row0 + row);
    const R *from = (const R *)j->rows + row * g->K + c0;
    int64_t lo, hi, place;
    conv_inside(g, &p, &lo, &hi);
    for (int64_t k0 = 0; k0 < g->k[0]; k0++)
      for (int64_t k1 = 0; k1 < g->k[1]; k1++, from += g->k[2] * g->group_in) {
        if (!conv_line(g, &p, k0, k1, &place)) continue;
        R *to = d_x + place * g->C;
        if (whole) ker->add((hi - lo) * g->C, to + lo * g->C, from + lo * g->C, to + lo * g->C);
        for (int64_t k = lo; !whole && k < hi; k++) {
          R *at = to + k * g->dilation[2] * g->C;
          ker->add(c1 - c0, at, from + k * g->group_in, at);
        }
      }
  }
}

/* The rows are the input itself. */
static bool RNAME(rows_are_x)(const conv_geometry *g) {
  if (g->taps != 1) return false;
  for (int i = 0; i < 3; i++)
    if (g->stride[i] != 1 || g->pad[i] != 0 || g->in[i] != g->out[i]) return false;
  return true;
}

/* Call one for all blocks of rows of all groups. */
static crn_status RNAME(for_rows)(conv_job *j, void (*one)(conv_job *j, const crn_packed_b *form),
                                  const crn_packed_b *form) {
  const conv_geometry *g = &j->g;
  int64_t block = ROWS_ELEMENTS / g->K / CRN_MATMUL_CHUNK * CRN_MATMUL_CHUNK;
  if (block < CRN_MATMUL_CHUNK) block = CRN_MATMUL_CHUNK;
  if (block > g->positions) block = g->positions;
  size_t bytes = (size_t)(block * g->K) * sizeof(R);
  void *rows = crn_mem_get(j->run->mem, bytes);
  if (!rows) return crn_err_memory(j->run->err);
  for (j->group = 0; j->group < g->groups; j->group++)
    for (j->row0 = 0; j->row0 < g->positions; j->row0 += block) {
      j->rows = rows;
      j->n_rows = block < g->positions - j->row0 ? block : g->positions - j->row0;
      one(j, form);
    }
  crn_mem_put(j->run->mem, rows);
  return CRN_OK;
}

/* Windows of the block with their row stride: laid out, or where they are. */
static const R *RNAME(rows_of_x)(conv_job *j, int64_t *ld) {
  const conv_geometry *g = &j->g;
  if (RNAME(rows_are_x)(g)) {
    *ld = g->C;
    return (const R *)j->x + j->row0 * g->C + j->group * g->group_in;
  }
  crn_split_run(j->run->threads, j->n_rows, crn_split_block(g->K), RNAME(lay_out_rows), j);
  *ld = g->K;
  return j->rows;
}

static void RNAME(forward_block)(conv_job *j, const crn_packed_b *form) {
  const conv_geometry *g = &j->g;
  CRN_K(crn_matmul_args) m = {.M = j->n_rows, .N = g->group_out, .K = g->K, .accumulate = j->accumulate};
  m.A = RNAME(rows_of_x)(j, &m.lda);
  if (!form) m.B = (const R *)crn_t_data(j->w) + j->group * g->group_out;
  m.ldb = m.ldc = g->O;
  m.C = (R *)j->to + j->row0 * g->O + j->group * g->group_out;
  if (form)
    KERNELS(j->run)->matmul_packed(&m, form, j->run->threads);
  else
    KERNELS(j->run)->matmul(&m, j->run->threads);
}

static void RNAME(back_x_block)(conv_job *j, const crn_packed_b *form) {
  const conv_geometry *g = &j->g;
  CRN_K(crn_matmul_args) m = {.M = j->n_rows, .N = g->K, .K = g->group_out, .trans_b = true};
  m.A = (const R *)j->y + j->row0 * g->O + j->group * g->group_out;
  if (!form) m.B = (const R *)crn_t_data(j->w) + j->group * g->group_out;
  m.lda = m.ldb = g->O;
  m.C = j->rows;
  m.ldc = g->K;
  if (form)
    KERNELS(j->run)->matmul_packed(&m, form, j->run->threads);
  else
    KERNELS(j->run)->matmul(&m, j->run->threads);
  crn_split_run(j->run->threads, (g->group_in + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK, 1, RNAME(add_rows_back), j);
}

static void RNAME(back_w_block)(conv_job *j, const crn_packed_b *form) {
  (void)form;
  const conv_geometry *g = &j->g;
  CRN_K(crn_matmul_args) m = {.M = g->K, .N = g->group_out, .K = j->n_rows, .trans_a = true, .accumulate = true};
  m.A = RNAME(rows_of_x)(j, &m.lda);
  m.B = (const R *)j->y + j->row0 * g->O + j->group * g->group_out;
  m.C = (R *)j->to + j->group * g->group_out;
  m.ldb = m.ldc = g->O;
  KERNELS(j->run)->matmul(&m, j->run->threads);
}

static crn_status RNAME(depthwise)(conv_job *j, int64_t n, crn_split_fn fn);
static void RNAME(depthwise_forward)(void *arg, int64_t begin, int64_t end);
static void RNAME(depthwise_back_x)(void *arg, int64_t begin, int64_t end);
static void RNAME(depthwise_back_w)(void *arg, int64_t begin, int64_t end);

/* The packed form of the filter, or NULL: it is to be read as it is. */
static crn_status RNAME(filter_form)(conv_job *j, bool trans, const crn_packed_b **form) {
  *form = j->g.groups == 1 ? crn_weight_packed(j->run, j->w, trans) : NULL;
  return *form ? CRN_OK : crn_weight_pin(j->run, j->w);
}

static crn_status RNAME(conv_forward)(conv_job *j) {
  const crn_packed_b *form;
  CRN_TRY(RNAME(filter_form)(j, false, &form));
  if (j->g.group_in == 1 && j->g.groups > 1) return RNAME(depthwise)(j, j->g.positions, RNAME(depthwise_forward));
  return RNAME(for_rows)(j, RNAME(forward_block), form);
}

static crn_status RNAME(conv_back_x)(conv_job *j) {
  const crn_packed_b *form;
  CRN_TRY(RNAME(filter_form)(j, true, &form));
  if (j->g.group_in == 1 && j->g.groups > 1) return RNAME(depthwise)(j, j->g.C, RNAME(depthwise_back_x));
  return RNAME(for_rows)(j, RNAME(back_x_block), form);
}

static crn_status RNAME(conv_back_w)(conv_job *j) {
  if (j->g.group_in == 1 && j->g.groups > 1) return RNAME(depthwise)(j, j->g.C, RNAME(depthwise_back_w));
  return RNAME(for_rows)(j, RNAME(back_w_block), NULL);
}
