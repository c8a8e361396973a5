/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean …": the known name nearest to a misspelt one, by edit distance with swaps of neighbours
 * (optimal string alignment). Case and the difference between "-" and "_" cost nothing.
 */
#include "base/status.h"

#include <string.h>

enum { MAX_WORD = 64 }; /* longer words are not compared */

static unsigned char folded(char c) {
  if (c >= 'A' && c <= 'Z') return (unsigned char)(c - 'A' + 'a');
  return (unsigned char)(c == '-' ? '_' : c);
}

static size_t min3(size_t a, size_t b, size_t c) {
  size_t m = a < b ? a : b;
  return m < c ? m : c;
}

/* Edit distance of a (na letters) and b (nb letters); both at most MAX_WORD long. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb) {
  size_t rows[3][MAX_WORD + 1]; /* of the prefix lengths i-2, i-1, i of a */
  size_t *before = rows[0], *last = rows[1], *now = rows[2];
  for (size_t j = 0; j <= nb; j++) before[j] = last[j] = j;
  for (size_t i = 1; i <= na; i++) {
    now[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      unsigned char x = folded(a[i - 1]), y = folded(b[j - 1]);
      now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (x != y));
      bool swapped = i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y;
      if (swapped && before[j - 2] + 1 < now[j]) now[j] = before[j - 2] + 1;
    }
    size_t *t = before;
    before = last, last = now, now = t;
  }
  return last[nb];
}

const char *crn_nearest(const char *word, const char *const *names, size_t n) {
  if (!word) return NULL;
  size_t len = strlen(word);
  if (len == 0 || len > MAX_WORD) return NULL;
  size_t best_cost = len / 3 + (len > 2 ? 1 : 0) + 1; /* must be below: 1 edit of 3 letters, 2 of 5, 4 of 10 */
  const char *best = NULL;
  for (size_t k = 0; k < n; k++) {
    size_t nk = names[k] ? strlen(names[k]) : 0;
    if (nk == 0 || nk > MAX_WORD) continue;
    size_t cost = edit_distance(word, len, names[k], nk);
    if (cost < best_cost && cost < nk) best_cost = cost, best = names[k];
  }
  return best;
}
