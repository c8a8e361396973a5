/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of updater_math.h, one source for float and double: included by updater_math_f32.c and updater_math_f64.c,
 * which define REAL, MATH (name of the table), UPDATE_FN, UPDATE and DECAY (fields of the optimizer's row).
 */
enum { LANES = 8 };

/* Eight running sums, so that the loop can be vectorised; the order depends on n only. */
static double sum_sq(const void *px, int64_t at, int64_t n) {
  const REAL *x = (const REAL *)px + at;
  double lanes[LANES] = {0}, total = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lanes[k] += (double)x[i + k] * (double)x[i + k];
  for (; i < n; i++) lanes[i % LANES] += (double)x[i] * (double)x[i];
  for (int k = 0; k < LANES; k++) total += lanes[k];
  return total;
}

static void fill(void *px, int64_t at, int64_t n, double value) {
  REAL *x = (REAL *)px + at;
  for (int64_t i = 0; i < n; i++) x[i] = (REAL)value;
}

static void copy(void *px, const void *py, int64_t at, int64_t n) {
  if (n > 0) memcpy((REAL *)px + at, (const REAL *)py + at, sizeof(REAL) * (size_t)n);
}

static void add(void *px, int64_t x_at, const void *py, int64_t y_at, int64_t n) {
  REAL *restrict x = (REAL *)px + x_at;
  const REAL *restrict y = (const REAL *)py + y_at;
  for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

static void noise_and_clip(void *pg, int64_t at, int64_t n, const crn_grad_change *c) {
  REAL *g = (REAL *)pg + at;
  if (c->noise)
    for (int64_t i = 0; i < n; i++)
      g[i] += (REAL)(c->noise_sigma * (double)crn_rng_truncated_normal(c->noise, (uint64_t)(at + i)));
  REAL limit = (REAL)c->clip;
  if (limit > 0)
    for (int64_t i = 0; i < n; i++) {
      g[i] = g[i] > limit ? limit : g[i]; /* nan stays nan */
      g[i] = g[i] < -limit ? -limit : g[i];
    }
}

static void scale_and_filter(void *pg, int64_t at, int64_t n, const crn_grad_change *c) {
  REAL *g = (REAL *)pg + at, factor = (REAL)c->factor;
  if (c->zero) {
    fill(pg, at, n, 0);
    return;
  }
  if (c->factor != 1) /* also when it is nan */
    for (int64_t i = 0; i < n; i++) g[i] *= factor;
  if (c->filter)
    for (int64_t i = 0; i < n; i++) g[i] = isfinite(g[i]) ? g[i] : (REAL)0;
}

static void decay(void *pw, int64_t at, int64_t n, double factor) {
  REAL *w = (REAL *)pw + at, f = (REAL)factor;
  for (int64_t i = 0; i < n; i++) w[i] -= f * w[i];
}

static void update(const crn_optimizer_desc *d, const crn_optimizer_step *s, void *w, void *const *slots, int64_t w_at,
                   const void *g, int64_t g_at, int64_t n) {
  REAL *at[CRN_OPTIMIZER_MAX_SLOTS];
  for (int k = 0; k < CRN_OPTIMIZER_MAX_SLOTS; k++) at[k] = slots[k] ? (REAL *)slots[k] + w_at : NULL;
  UPDATE_FN fn = g ? d->UPDATE : d->DECAY;
  fn(s, (REAL *)w + w_at, g ? (const REAL *)g + g_at : NULL, at, n);
}

const crn_update_math MATH = {
    .size = sizeof(REAL),
    .sum_sq = sum_sq,
    .fill = fill,
    .copy = copy,
    .add = add,
    .noise_and_clip = noise_and_clip,
    .scale_and_filter = scale_and_filter,
    .decay = decay,
    .update = update,
};
