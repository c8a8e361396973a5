/* SPDX-License-Identifier: Apache-2.0
 *
 * The Mersenne twister and the draws made from it (see mt19937.h), from the published algorithm.
 */
#include "data/mt19937.h"

enum { N = 624, M = 397 };

void crn_mt_seed(crn_mt *g, uint32_t seed) {
  g->state[0] = seed;
  for (uint32_t i = 1; i < N; i++) g->state[i] = 1812433253u * (g->state[i - 1] ^ (g->state[i - 1] >> 30)) + i;
  g->used = N;
}

void crn_mt_seed_array(crn_mt *g, const uint32_t *key, size_t n) {
  crn_mt_seed(g, 19650218u);
  uint32_t *s = g->state;
  size_t i = 1, j = 0;
  for (size_t k = n > N ? n : N; k; k--) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525u)) + key[j] + (uint32_t)j;
    if (++i >= N) {
      s[0] = s[N - 1];
      i = 1;
    }
    if (++j >= n) j = 0;
  }
  for (size_t k = N - 1; k; k--) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941u)) - (uint32_t)i;
    if (++i >= N) {
      s[0] = s[N - 1];
      i = 1;
    }
  }
  s[0] = 0x80000000u;
}

void crn_mt_seed_python(crn_mt *g, uint64_t seed) {
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  crn_mt_seed_array(g, key, key[1] ? 2 : 1);
}

static void refill(crn_mt *g) {
  uint32_t *s = g->state;
  for (int i = 0; i < N; i++) {
    uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % N] & 0x7fffffffu);
    s[i] = s[(i + M) % N] ^ (y >> 1) ^ ((y & 1) ? 0x9908b0dfu : 0);
  }
  g->used = 0;
}

uint32_t crn_mt_bits(crn_mt *g) {
  if (g->used >= N) refill(g);
  uint32_t y = g->state[g->used++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

double crn_mt_uniform(crn_mt *g) {
  uint32_t a = crn_mt_bits(g) >> 5, b = crn_mt_bits(g) >> 6;
  return ((double)a * 67108864.0 + (double)b) / 9007199254740992.0;
}

uint32_t crn_mt_interval(crn_mt *g, uint32_t max) {
  if (max == 0) return 0;
  uint32_t mask = max;
  for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
  uint32_t v;
  do v = crn_mt_bits(g) & mask;
  while (v > max);
  return v;
}

int64_t crn_mt_randint(crn_mt *g, int64_t low, int64_t high) {
  return high - low <= 1 ? low : low + (int64_t)crn_mt_interval(g, (uint32_t)(high - low - 1));
}

static void swap(int64_t *list, int64_t i, int64_t j) {
  int64_t t = list[i];
  list[i] = list[j];
  list[j] = t;
}

void crn_mt_shuffle(crn_mt *g, int64_t *list, int64_t n) {
  for (int64_t i = n - 1; i > 0; i--) swap(list, i, (int64_t)crn_mt_interval(g, (uint32_t)i));
}

void crn_mt_permutation(crn_mt *g, int64_t *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = i;
  crn_mt_shuffle(g, out, n);
}

void crn_mt_shuffle_python(crn_mt *g, int64_t *list, int64_t n) {
  for (int64_t i = n - 1; i > 0; i--) {
    int bits = 0;
    for (uint32_t v = (uint32_t)(i + 1); v; v >>= 1) bits++;
    uint32_t v;
    do v = crn_mt_bits(g) >> (32 - bits);
    while (v > (uint32_t)i);
    swap(list, i, (int64_t)v);
  }
}
