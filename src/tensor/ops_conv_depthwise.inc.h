/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution (one input channel per group, m outputs each): y[p, c·m+q] = Σ_tap x[place, c]·w[tap, c·m+q].
 * Included by ops_conv.c once per number type.
 */

/* Forward is cut over positions, the gradients over channels. */
static crn_status RNAME(depthwise)(conv_job *j, int64_t n, crn_split_fn fn) {
  bool channels = fn != RNAME(depthwise_forward);
  int64_t block = channels ? CHANNEL_BLOCK : crn_split_block(j->g.O * j->g.taps);
  crn_split_run(j->run->threads, n, block, fn, j);
  return CRN_OK;
}

static void RNAME(depthwise_forward)(void *arg, int64_t begin, int64_t end) {
  const conv_job *j = arg;
  const conv_geometry *g = &j->g;
  const R *x = j->x;
  int64_t m = g->group_out, lo, hi, place;
  for (int64_t pos = begin; pos < end; pos++) {
    conv_place p = conv_place_of(g, pos);
    conv_inside(g, &p, &lo, &hi);
    R *y = (R *)j->to + pos * g->O;
    for (int64_t line = 0; line < g->k[0] * g->k[1]; line++) {
      if (!conv_line(g, &p, line / g->k[1], line % g->k[1], &place)) continue;
      for (int64_t k = lo; k < hi; k++) {
        const R *xc = x + (place + k * g->dilation[2]) * g->C;
        const R *w = (const R *)crn_t_data(j->w) + (line * g->k[2] + k) * g->O;
        if (m == 1) {
          KERNELS(j->run)->mul_add(g->C, xc, w, y);
          continue;
        }
        for (int64_t c = 0; c < g->C; c++)
          for (int64_t q = 0; q < m; q++) y[c * m + q] += xc[c] * w[c * m + q];
      }
    }
  }
}

static void RNAME(depthwise_back_x)(void *arg, int64_t begin, int64_t end) {
  const conv_job *j = arg;
  const conv_geometry *g = &j->g;
  int64_t m = g->group_out, lo, hi, place;
  for (int64_t pos = 0; pos < g->positions; pos++) {
    conv_place p = conv_place_of(g, pos);
    conv_inside(g, &p, &lo, &hi);
    const R *dy = (const R *)j->y + pos * g->O;
    for (int64_t line = 0; line < g->k[0] * g->k[1]; line++) {
      if (!conv_line(g, &p, line / g->k[1], line % g->k[1], &place)) continue;
      for (int64_t k = lo; k < hi; k++) {
        R *d_x = (R *)j->to + (place + k * g->dilation[2]) * g->C;
        const R *w = (const R *)crn_t_data(j->w) + (line * g->k[2] + k) * g->O;
        if (m == 1) {
          KERNELS(j->run)->mul_add(end - begin, dy + begin, w + begin, d_x + begin);
          continue;
        }
        for (int64_t c = begin; c < end; c++)
          for (int64_t q = 0; q < m; q++) d_x[c] += dy[c * m + q] * w[c * m + q];
      }
    }
  }
}

/* d_w of one tap for channels [begin, end): positions [0, n) of a line, x steps by stride. Summed in double. */
static void RNAME(depthwise_tap)(const conv_job *j, int64_t begin, int64_t end, int64_t n, const R *x, const R *dy,
                                 R *d_w) {
  const conv_geometry *g = &j->g;
  int64_t m = g->group_out, step = g->stride[2] * g->C;
  if (m == 1) {
    KERNELS(j->run)->column_dot(n, end - begin, x + begin, step, dy + begin, g->O, d_w + begin, true);
    return;
  }
  for (int64_t c = begin; c < end; c++)
    for (int64_t q = 0; q < m; q++) {
      double s = (double)d_w[c * m + q];
      for (int64_t t = 0; t < n; t++) s += (double)x[t * step + c] * (double)dy[t * g->O + c * m + q];
      d_w[c * m + q] = (R)s;
    }
}

/* Positions are taken in runs along the last axis. */
static void RNAME(depthwise_back_w)(void *arg, int64_t begin, int64_t end) {
  const conv_job *j = arg;
  const conv_geometry *g = &j->g;
  int64_t stride = g->stride[2], last = g->out[2], place;
  for (int64_t pos = 0; pos < g->positions; pos += last) {
    conv_place p = conv_place_of(g, pos);
    for (int64_t line = 0; line < g->k[0] * g->k[1]; line++) {
      if (!conv_line(g, &p, line / g->k[1], line % g->k[1], &place)) continue;
      for (int64_t k = 0; k < g->k[2]; k++) {
        int64_t shift = k * g->dilation[2], start = p.start[2] + shift; /* input place of the run's first position */
        int64_t first = start < 0 ? (-start + stride - 1) / stride : 0; /* first and end of those inside the array */
        int64_t stop = start < g->in[2] ? (g->in[2] - 1 - start) / stride + 1 : 0;
        if (stop > last) stop = last;
        if (first < stop)
          RNAME(depthwise_tap)
          (j, begin, end, stop - first, (const R *)j->x + (place + shift + first * stride) * g->C,
           (const R *)j->y + (pos + first) * g->O, (R *)j->to + (line * g->k[2] + k) * g->O);
      }
    }
  }
}
