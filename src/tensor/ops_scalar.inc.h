/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of one element and constants, for R = float or double; M(f) is the function of libm for R, N(name) adds the
 * suffix. Included twice by ops_scalar.c.
 */

static void N(scalar_forward)(scalar_kind kind, int64_t n, const R *x, R p, R q, R *y) {
  switch (kind) {
  case SCALE:
    for (int64_t i = 0; i < n; i++) y[i] = p * x[i];
    break;
  case ADD_SCALAR:
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + p;
    break;
  case CLIP:
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < p ? p : x[i] > q ? q : x[i];
    break;
  case SAFE_LOG:
    for (int64_t i = 0; i < n; i++) y[i] = M(log)(x[i] < p ? p : x[i]);
    break;
  case SAFE_EXP: /* p = ln eps */
    for (int64_t i = 0; i < n; i++) y[i] = M(exp)(x[i] < p ? p : x[i] > -p ? -p : x[i]);
    break;
  }
}

/* dx += dy · derivative */
static void N(scalar_backward)(scalar_kind kind, int64_t n, const R *x, R p, R q, const R *y, const R *dy, R *dx) {
  switch (kind) {
  case SCALE:
    for (int64_t i = 0; i < n; i++) dx[i] += p * dy[i];
    break;
  case ADD_SCALAR:
    for (int64_t i = 0; i < n; i++) dx[i] += dy[i];
    break;
  case CLIP:
    for (int64_t i = 0; i < n; i++) dx[i] += x[i] < p || x[i] > q ? 0 : dy[i];
    break;
  case SAFE_LOG:
    for (int64_t i = 0; i < n; i++) dx[i] += dy[i] / (x[i] < p ? p : x[i]);
    break;
  case SAFE_EXP:
    for (int64_t i = 0; i < n; i++) dx[i] += dy[i] * y[i];
    break;
  }
}
