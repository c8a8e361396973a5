/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of ranges of positions and of channels; included by ops_pool.c once per number type.
 */

static void RNAME(pool_positions)(void *arg, int64_t begin, int64_t end) {
  const pool_job *j = arg;
  const conv_geometry *g = &j->g;
  const CRN_K(crn_kernels) *ker = KERNELS(j->run);
  int64_t lo, hi, place;
  for (int64_t pos = begin; pos < end; pos++) {
    conv_place p = conv_place_of(g, pos);
    conv_inside(g, &p, &lo, &hi);
    R *y = (R *)j->to + pos * g->C;
    int64_t count = 0;
    for (int64_t line = 0; line < g->k[0] * g->k[1]; line++) {
      if (!conv_line(g, &p, line / g->k[1], line % g->k[1], &place)) continue;
      for (int64_t k = lo; k < hi; k++) {
        const R *x = (const R *)j->x + (place + k * g->dilation[2]) * g->C;
        if (count++ == 0)
          memcpy(y, x, (size_t)g->C * sizeof(R));
        else if (j->max)
          ker->max(g->C, x, y, y);
        else
          ker->add(g->C, x, y, y);
      }
    }
    if (count == 0)
      for (int64_t c = 0; c < g->C; c++) y[c] = j->max ? (R)-INFINITY : 0;
    else if (!j->max)
      ker->scale(g->C, (R)1 / (R)count, y, y);
  }
}

/* Number of places of a window inside the array. */
static int64_t RNAME(pool_count)(const conv_geometry *g, const conv_place *p, int64_t in_line) {
  int64_t lines = 0, place;
  for (int64_t line = 0; line < g->k[0] * g->k[1]; line++)
    lines += conv_line(g, p, line / g->k[1], line % g->k[1], &place);
  return lines * in_line;
}

/* d_x += left where x is the largest, y; what was given is taken from left. */
static void RNAME(pool_give)(int64_t n, const R *restrict x, const R *restrict y, R *restrict left, R *restrict d_x) {
  for (int64_t c = 0; c < n; c++) {
    R give = x[c] == y[c] ? left[c] : 0;
    d_x[c] += give;
    left[c] = x[c] == y[c] ? 0 : left[c];
  }
}

static void RNAME(pool_channels_back)(void *arg, int64_t begin, int64_t end) {
  const pool_job *j = arg;
  const conv_geometry *g = &j->g;
  int64_t lo, hi, place, n = end - begin;
  R *left = (R *)j->left + begin;
  for (int64_t pos = 0; pos < g->positions; pos++) {
    conv_place p = conv_place_of(g, pos);
    conv_inside(g, &p, &lo, &hi);
    const R *dy = (const R *)j->dy + pos * g->C + begin, *y = (const R *)j->y + pos * g->C + begin;
    int64_t count = j->max ? 1 : RNAME(pool_count)(g, &p, hi - lo);
    if (j->max) memcpy(left, dy, (size_t)n * sizeof(R));
    for (int64_t line = 0; line < g->k[0] * g->k[1]; line++) {
      if (!conv_line(g, &p, line / g->k[1], line % g->k[1], &place)) continue;
      for (int64_t k = lo; k < hi; k++) {
        int64_t at = (place + k * g->dilation[2]) * g->C + begin;
        if (j->max)
          RNAME(pool_give)(n, (const R *)j->x + at, y, left, (R *)j->to + at);
        else
          KERNELS(j->run)->axpy(n, (R)1 / (R)count, dy, (R *)j->to + at);
      }
    }
  }
}
