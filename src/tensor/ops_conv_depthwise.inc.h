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
  const R *x = j->x, *w = crn_t_data(j->w);
  int64_t m = g->group_out;
  for (int64_t pos = begin; pos < end; pos++) {
    conv_place p = conv_place_of(g, pos);
    R *y = (R *)j->to + pos * g->O;
    for (int64_t tap = 0; tap < g->taps; tap++) {
      int64_t at = conv_input_place(g, &p, tap);
      if (at < 0) continue;
      const R *xc = x + at * g->C, *wt = w + tap * g->O;
      if (m == 1) {
        KERNELS(j->run)->mul_add(g->C, xc, wt, y);
        continue;
      }
      for (int64_t c = 0; c < g->C; c++)
        for (int64_t q = 0; q < m; q++) y[c * m + q] += xc[c] * wt[c * m + q];
    }
  }
}

static void RNAME(depthwise_back_x)(void *arg, int64_t begin, int64_t end) {
  const conv_job *j = arg;
  const conv_geometry *g = &j->g;
  const R *w = crn_t_data(j->w);
  int64_t m = g->group_out;
  for (int64_t pos = 0; pos < g->positions; pos++) {
    conv_place p = conv_place_of(g, pos);
    const R *dy = (const R *)j->y + pos * g->O;
    for (int64_t tap = 0; tap < g->taps; tap++) {
      int64_t at = conv_input_place(g, &p, tap);
      if (at < 0) continue;
      R *d_x = (R *)j->to + at * g->C;
      const R *wt = w + tap * g->O;
      if (m == 1) {
        KERNELS(j->run)->mul_add(end - begin, dy + begin, wt + begin, d_x + begin);
        continue;
      }
      for (int64_t c = begin; c < end; c++)
        for (int64_t q = 0; q < m; q++) d_x[c] += dy[c * m + q] * wt[c * m + q];
    }
  }
}

/* Positions are taken in runs along the last axis, whose products are summed in double. */
static void RNAME(depthwise_back_w)(void *arg, int64_t begin, int64_t end) {
  const conv_job *j = arg;
  const conv_geometry *g = &j->g;
  const R *x = j->x;
  R *d_w = j->to;
  int64_t m = g->group_out, last = g->out[2], in = g->in[2], stride = g->stride[2];
  for (int64_t pos = 0; pos < g->positions; pos += last) {
    conv_place p = conv_place_of(g, pos);
    const R *dy = (const R *)j->y + pos * g->O;
    for (int64_t tap = 0; tap < g->taps; tap++) {
      int64_t start = p.start[2] + tap % g->k[2] * g->dilation[2];    /* input place of the run's first position */
      int64_t first = start < 0 ? (-start + stride - 1) / stride : 0; /* first and end of those inside the array */
      int64_t stop = start < in ? (in - 1 - start) / stride + 1 : 0;
      if (stop > last) stop = last;
      if (first >= stop) continue;
      conv_place inside = p;
      inside.start[2] += first * stride;
      int64_t at = conv_input_place(g, &inside, tap);
      if (at < 0) continue; /* outside in another axis */
      const R *xs = x + at * g->C, *dys = dy + first * g->O;
      R *to = d_w + tap * g->O;
      if (m == 1) {
        KERNELS(j->run)->column_dot(stop - first, end - begin, xs + begin, stride * g->C, dys + begin, g->O, to + begin,
                                    true);
        continue;
      }
      for (int64_t t = 0; t < stop - first; t++)
        for (int64_t c = begin; c < end; c++)
          for (int64_t q = 0; q < m; q++) to[c * m + q] += xs[t * stride * g->C + c] * dys[t * g->O + c * m + q];
    }
  }
}
