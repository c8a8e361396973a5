/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordering for V = float, double or int64_t; N(name) adds the suffix, IS_NAN(v) tests. NaN counts as smaller than every
 * number; among equals the lower index comes first. Elements of x are step apart. Included three times by ops_sort.c.
 */

static bool N(before)(V a, V b) { return a > b || (IS_NAN(b) && !IS_NAN(a)); } /* does a come before b when falling? */

static bool N(none_above)(const V *x, V bound) { /* among the next SKIP values; compilers make vectors of this */
  int above = 0;
  for (int i = 0; i < SKIP; i++) above |= x[i] > bound;
  return !above;
}

/* Put value i into the list of the best so far, if it belongs there. */
static void N(put)(const V *x, int64_t i, int64_t k, int64_t *held, int32_t *best) {
  if (*held == k && (k == 0 || !N(before)(x[i], x[best[k - 1]]))) return;
  int64_t at = *held < k ? (*held)++ : k - 1;
  for (; at > 0 && N(before)(x[i], x[best[at - 1]]); at--) best[at] = best[at - 1];
  best[at] = (int32_t)i;
}

/* Indices of the k largest of n values, falling. */
static void N(best_k)(int64_t n, const V *x, int64_t k, int32_t *best) {
  int64_t held = 0;
  for (int64_t i = 0, end; i < n; i = end) {
    end = n - i < SKIP ? n : i + SKIP;
    const bool full = held == k && k > 0 && !IS_NAN(x[best[k - 1]]);
    if (full && end - i == SKIP && N(none_above)(x + i, x[best[k - 1]])) continue;
    for (; i < end; i++) N(put)(x, i, k, &held, best);
  }
}

/* Stable merge sort of idx [n] by value; work [n]. */
static void N(sort)(int64_t n, const V *x, int64_t step, bool descending, int32_t *idx, int32_t *work) {
  for (int64_t i = 0; i < n; i++) idx[i] = (int32_t)i;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * width) {
      int64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
      for (int64_t i = lo, j = mid, to = lo; to < hi; to++) {
        bool right = i >= mid;
        if (!right && j < hi) {
          V u = x[idx[i] * step], v = x[idx[j] * step];
          right = descending ? N(before)(v, u) : N(before)(u, v);
        }
        work[to] = right ? idx[j++] : idx[i++];
      }
    }
    memcpy(idx, work, (size_t)n * sizeof *idx);
  }
}

static int64_t N(extreme)(int64_t n, const V *x, int64_t step, bool largest) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    V u = x[best * step], v = x[i * step];
    if (largest ? v > u || (IS_NAN(u) && !IS_NAN(v)) : v < u || (IS_NAN(u) && !IS_NAN(v))) best = i;
  }
  return best;
}
