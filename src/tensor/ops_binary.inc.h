/* SPDX-License-Identifier: Apache-2.0
 *
 * Binary functions and their derivatives for R = float or double; M(f) is the function of libm for R, N(name) adds the
 * suffix. Each row: value in terms of u = a and v = b; derivatives by a and by b in terms of u, v, y. Inputs are walked
 * with steps 0 or 1. Included twice by ops_binary.c.
 */

static R N(floor_mod)(R u, R v) {
  R m = M(fmod)(u, v);
  return m != 0 && (m < 0) != (v < 0) ? m + v : m;
}

static R N(log_add_exp)(R u, R v) {
  if (u == v) return u + (R)0.69314718055994530942; /* also both -inf or both inf */
  return (u > v ? u : v) + M(log1p)(M(exp)(-M(fabs)(u - v)));
}

#define ROWS(X)                                                                                                        \
  X(ADD, u + v, 1, 1)                                                                                                  \
  X(SUB, u - v, 1, -1)                                                                                                 \
  X(MUL, u *v, v, u)                                                                                                   \
  X(DIV, u / v, 1 / v, -y / v)                                                                                         \
  X(FLOORDIV, M(floor)(u / v), 0, 0)                                                                                   \
  X(MOD, N(floor_mod)(u, v), 1, -M(floor)(u / v))                                                                      \
  X(POW, M(pow)(u, v), v == 0 ? 0 : v * M(pow)(u, v - 1), u > 0 ? y * M(log)(u) : 0)                                   \
  X(MAXIMUM, u > v || u != u ? u : v, u >= v ? 1 : 0, u >= v ? 0 : 1)                                                  \
  X(MINIMUM, u < v || u != u ? u : v, u <= v ? 1 : 0, u <= v ? 0 : 1)                                                  \
  X(SQUARED_DIFFERENCE, (u - v) * (u - v), 2 * (u - v), 2 * (v - u))                                                   \
  X(LOGADDEXP, N(log_add_exp)(u, v), u == v ? (R)0.5 : M(exp)(u - y), u == v ? (R)0.5 : M(exp)(v - y))                 \
  X(ATAN2, M(atan2)(u, v), v / (u * u + v * v), -u / (u * u + v * v))                                                  \
  X(DIV_NO_NAN, v == 0 ? 0 : u / v, v == 0 ? 0 : 1 / v, v == 0 ? 0 : -y / v)                                           \
  X(TRUNCATEDIV, M(trunc)(u / v), 0, 0)

/* Run statement for i in [0, n) with u = a[i·sa], v = b[i·sb]; sa, sb in {0, 1}, not both 0. */
#define WALK(statement)                                                                                                \
  if (sa && sb) {                                                                                                      \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      R u = a[i], v = b[i];                                                                                            \
      statement;                                                                                                       \
    }                                                                                                                  \
  } else if (sa) {                                                                                                     \
    R v = b[0];                                                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      R u = a[i];                                                                                                      \
      statement;                                                                                                       \
    }                                                                                                                  \
  } else {                                                                                                             \
    R u = a[0];                                                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      R v = b[i];                                                                                                      \
      statement;                                                                                                       \
    }                                                                                                                  \
  }

#define FORWARD(NAME, value, da, db)                                                                                   \
  static void N(NAME##_forward)(int64_t n, const R *a, int64_t sa, const R *b, int64_t sb, R *out) {                   \
    WALK(out[i] = (R)(value))                                                                                          \
  }
/* g[i] = dy[i] · derivative */
#define BACKWARD(NAME, derivative, which)                                                                              \
  static void N(NAME##_backward_##which)(int64_t n, const R *a, int64_t sa, const R *b, int64_t sb, const R *out,      \
                                         const R *dy, R *g) {                                                          \
    WALK(R y = out[i]; (void)u; (void)v; (void)y; g[i] = dy[i] * (R)(derivative))                                      \
  }
#define BACKWARD_BOTH(NAME, value, da, db) BACKWARD(NAME, da, a) BACKWARD(NAME, db, b)
ROWS(FORWARD)
ROWS(BACKWARD_BOTH)

typedef struct N(binary_row) {
  void (*forward)(int64_t n, const R *a, int64_t sa, const R *b, int64_t sb, R *out);
  void (*backward[2])(int64_t n, const R *a, int64_t sa, const R *b, int64_t sb, const R *out, const R *dy, R *g);
} N(binary_row);

#define ROW(NAME, value, da, db) [CRN_B_##NAME] = {N(NAME##_forward), {N(NAME##_backward_a), N(NAME##_backward_b)}},
static const N(binary_row) N(binary_rows)[CRN_N_BINARY] = {ROWS(ROW)};

static void N(compare)(crn_binary_kind kind, int64_t n, const R *a, int64_t sa, const R *b, int64_t sb, uint8_t *out) {
  switch (kind) {
  case CRN_B_EQUAL:
    WALK(out[i] = u == v) break;
  case CRN_B_NOT_EQUAL:
    WALK(out[i] = u != v) break;
  case CRN_B_LESS:
    WALK(out[i] = u < v) break;
  case CRN_B_LESS_EQUAL:
    WALK(out[i] = u <= v) break;
  case CRN_B_GREATER:
    WALK(out[i] = u > v) break;
  default:
    WALK(out[i] = u >= v) break;
  }
}

/* Gradient of input `which` (0 a, 1 b) for output elements [begin, end): added to sum (double, a place per element of
 * the input) if the input is repeated, else to dx. */
static void N(binary_backward_range)(const crn_bcast *p, const N(binary_row) * row, int which, const R *a, const R *b,
                                     const R *y, const R *dy, int64_t begin, int64_t end, R *dx, double *sum) {
  R g[BLOCK];
  crn_bcast_pos pos;
  int64_t sa = p->stride[0][p->nd - 1], sb = p->stride[1][p->nd - 1], sx = which ? sb : sa;
  int64_t col = begin % p->row;
  crn_bcast_seek(p, &pos, begin / p->row);
  while (begin < end) {
    int64_t n = p->row - col < end - begin ? p->row - col : end - begin;
    if (n > BLOCK) n = BLOCK;
    int64_t at = pos.off[which] + col * sx;
    row->backward[which](n, a + pos.off[0] + col * sa, sa, b + pos.off[1] + col * sb, sb, y + begin, dy + begin, g);
    if (!sum) {
      for (int64_t i = 0; i < n; i++) dx[at + i] += g[i];
    } else if (sx) {
      for (int64_t i = 0; i < n; i++) sum[at + i] += (double)g[i];
    } else {
      double s = 0;
      for (int64_t i = 0; i < n; i++) s += (double)g[i];
      sum[at] += s;
    }
    begin += n;
    col += n;
    if (col == p->row) {
      col = 0;
      crn_bcast_next(p, &pos);
    }
  }
}

static void N(add_sums)(int64_t n, const double *sum, R *dx) {
  for (int64_t i = 0; i < n; i++) dx[i] += (R)sum[i];
}

#undef ROWS
#undef WALK
#undef FORWARD
#undef BACKWARD
#undef BACKWARD_BOTH
#undef ROW
