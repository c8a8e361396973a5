/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions for R = float or double; M(f) is the function of libm for R, N(name) adds the suffix. Rows of x are walked
 * in order; acc holds a double per output element. s is 1 where a row runs along outputs, 0 where it is reduced into
 * one. Included twice by ops_reduce.c.
 */

static void N(reduce_row)(const reduce_job *j, int64_t n, const R *x, int64_t s, double *acc, const double *max) {
  switch (j->kind) {
  case CRN_R_SUM:
  case CRN_R_MEAN:
    if (!s)
      acc[0] += N(row_sum)(j->r, n, x);
    else
      for (int64_t i = 0; i < n; i++) acc[i] += (double)x[i];
    break;
  case CRN_R_MAX:
    for (int64_t i = 0; i < n; i++)
      if ((double)x[i] > acc[i * s] || x[i] != x[i]) acc[i * s] = (double)x[i];
    break;
  case CRN_R_MIN:
    for (int64_t i = 0; i < n; i++)
      if ((double)x[i] < acc[i * s] || x[i] != x[i]) acc[i * s] = (double)x[i];
    break;
  case CRN_R_PROD:
    for (int64_t i = 0; i < n; i++) acc[i * s] *= (double)x[i];
    break;
  default: /* log sum exp; max is known */
    for (int64_t at = 0; at < n; at += BLOCK) {
      R t[BLOCK];
      int64_t m = n - at < BLOCK ? n - at : BLOCK;
      for (int64_t i = 0; i < m; i++) t[i] = x[at + i] - (R)max[(at + i) * s];
      N(exp_row)(j->r, m, t);
      if (!s)
        acc[0] += N(row_sum)(j->r, m, t);
      else
        for (int64_t i = 0; i < m; i++) acc[at + i] += (double)t[i];
    }
    break;
  }
}

/* The largest of each of many short rows (maxout). */
static void N(short_maxima)(const reduce_job *j, int64_t begin, int64_t end, double *acc) {
  const int64_t n = j->p->row;
  const R *x = (const R *)j->x + begin * n;
  for (int64_t row = begin; row < end; row++, x += n) {
    R best = x[0];
    for (int64_t i = 1; i < n; i++) best = x[i] > best || x[i] != x[i] ? x[i] : best;
    acc[row] = (double)best;
  }
}

/* Rows [begin, end) of x into acc; with max NULL and kind logsumexp: into the maxima. */
static void N(reduce_rows)(const reduce_job *j, int64_t begin, int64_t end, double *acc, const double *max) {
  const crn_bcast *p = j->p;
  crn_bcast_pos pos;
  if (j->kind == CRN_R_MAX && p->nd == 2 && p->stride[0][0] == 1 && p->stride[0][1] == 0 && p->row > 0 && p->row <= 8) {
    N(short_maxima)(j, begin, end, acc);
    return;
  }
  crn_bcast_seek(p, &pos, begin);
  for (int64_t row = begin; row < end; row++, crn_bcast_next(p, &pos))
    N(reduce_row)
    (j, p->row, (const R *)j->x + row * p->row, p->stride[0][p->nd - 1], acc + pos.off[0],
     max ? max + pos.off[0] : NULL);
}

/* What the gradients of max, min and prod need per output: a = how many inputs are the extreme, or 0;
 * b (prod) = product of the others. */
static void N(count_rows)(const reduce_job *j, double *a, double *b) {
  const crn_bcast *p = j->p;
  const R *y = j->y;
  crn_bcast_pos pos;
  crn_bcast_seek(p, &pos, 0);
  for (int64_t row = 0; row < p->rows; row++, crn_bcast_next(p, &pos)) {
    const R *x = (const R *)j->x + row * p->row;
    int64_t s = p->stride[0][p->nd - 1];
    for (int64_t i = 0; i < p->row; i++) {
      int64_t o = pos.off[0] + i * s;
      if (j->kind != CRN_R_PROD)
        a[o] += x[i] == y[o];
      else if (x[i] == 0)
        a[o] += 1;
      else
        b[o] *= (double)x[i];
    }
  }
}

/* dx += dy · derivative for rows [begin, end) of x */
static void N(reduce_backward)(const reduce_job *j, int64_t begin, int64_t end) {
  const crn_bcast *p = j->p;
  const R *y = j->y, *dy = j->dy;
  double scale = j->kind == CRN_R_MEAN ? 1 / (double)j->count : 1;
  crn_bcast_pos pos;
  crn_bcast_seek(p, &pos, begin);
  int64_t s = p->stride[0][p->nd - 1];
  for (int64_t row = begin; row < end; row++, crn_bcast_next(p, &pos)) {
    const R *x = (const R *)j->x + row * p->row;
    R *dx = (R *)j->dx + row * p->row;
    const R *g = dy + pos.off[0], *z = y + pos.off[0];
    const double *a = j->a ? j->a + pos.off[0] : NULL, *b = j->b ? j->b + pos.off[0] : NULL;
    for (int64_t i = 0; i < p->row; i++) {
      int64_t o = i * s;
      switch (j->kind) {
      case CRN_R_SUM:
      case CRN_R_MEAN:
        dx[i] += (R)((double)g[o] * scale);
        break;
      case CRN_R_MAX:
      case CRN_R_MIN:
        dx[i] += x[i] == z[o] ? (R)((double)g[o] / a[o]) : 0;
        break;
      case CRN_R_PROD:
        if (a[o] == 0)
          dx[i] += (R)((double)g[o] * b[o] / (double)x[i]);
        else if (a[o] == 1 && x[i] == 0)
          dx[i] += (R)((double)g[o] * b[o]);
        break;
      default:
        dx[i] += z[o] == (R)-INFINITY ? 0 : g[o] * M(exp)(x[i] - z[o]);
        break;
      }
    }
  }
}
