/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of ranges of positions and of channels; included by ops_pool.c once per number type.
 */

static void RNAME(pool_positions)(void *arg, int64_t begin, int64_t end) {
  const pool_job *j = arg;
  const conv_geometry *g = &j->g;
  const CRN_K(crn_kernels) *k = KERNELS(j->run);
  const R *x = j->x;
  for (int64_t pos = begin; pos < end; pos++) {
    conv_place p = conv_place_of(g, pos);
    R *y = (R *)j->to + pos * g->C;
    int64_t count = 0;
    for (int64_t tap = 0; tap < g->taps; tap++) {
      int64_t at = conv_input_place(g, &p, tap);
      if (at < 0) continue;
      if (count++ == 0)
        memcpy(y, x + at * g->C, (size_t)g->C * sizeof(R));
      else if (j->max)
        k->max(g->C, x + at * g->C, y, y);
      else
        k->add(g->C, x + at * g->C, y, y);
    }
    if (count == 0)
      for (int64_t c = 0; c < g->C; c++) y[c] = j->max ? (R)-INFINITY : 0;
    else if (!j->max)
      k->scale(g->C, (R)1 / (R)count, y, y);
  }
}

static void RNAME(pool_channels_back)(void *arg, int64_t begin, int64_t end) {
  const pool_job *j = arg;
  const conv_geometry *g = &j->g;
  const R *x = j->x;
  for (int64_t pos = 0; pos < g->positions; pos++) {
    conv_place p = conv_place_of(g, pos);
    const R *dy = (const R *)j->dy + pos * g->C, *y = (const R *)j->y + pos * g->C;
    int64_t count = 0;
    for (int64_t tap = 0; !j->max && tap < g->taps; tap++) count += conv_input_place(g, &p, tap) >= 0;
    R share = count > 0 ? (R)1 / (R)count : 0;
    memset(j->found + begin, 0, (size_t)(end - begin));
    for (int64_t tap = 0; tap < g->taps; tap++) {
      int64_t at = conv_input_place(g, &p, tap);
      if (at < 0) continue;
      const R *xc = x + at * g->C;
      R *d_x = (R *)j->to + at * g->C;
      if (!j->max) {
        KERNELS(j->run)->axpy(end - begin, share, dy + begin, d_x + begin);
        continue;
      }
      for (int64_t c = begin; c < end; c++) {
        if (j->found[c] || xc[c] != y[c]) continue;
        d_x[c] += dy[c];
        j->found[c] = 1;
      }
    }
  }
}
