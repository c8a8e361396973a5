/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10: ten rounds of multiply and swap turn a 128-bit counter and a 64-bit key into four 32-bit words.
 *
 * Counter layout: word 0 and the low bits of word 1 hold the block's index, the top 4 bits of word 1 the kind of number
 * drawn (so that uniform and normal numbers of one stream share no words), words 2 and 3 the step.
 */
#include "base/random.h"

#include "base/map.h"

#include <math.h>
#include <string.h>

enum { KIND_BITS = 0, KIND_DOUBLE = 1, KIND_NORMAL = 2, KIND_TRUNCATED = 3 };

static void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1) {
  uint64_t a = (uint64_t)c[0] * 0xD2511F53u;
  uint64_t b = (uint64_t)c[2] * 0xCD9E8D57u;
  c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
  c[1] = (uint32_t)b;
  c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
  c[3] = (uint32_t)a;
}

static void block(const crn_rng *r, uint32_t kind, uint64_t index, uint32_t out[4]) {
  uint32_t k0 = r->key[0], k1 = r->key[1];
  out[0] = (uint32_t)index;
  out[1] = ((uint32_t)(index >> 32) & 0x0FFFFFFFu) | kind << 28;
  out[2] = r->hi[0];
  out[3] = r->hi[1];
  for (int round = 0; round < 10; round++) {
    philox_round(out, k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/* Bijective mixing of 64 bits, so that seeds 1, 2, 3, … give unrelated keys (splitmix64's finaliser). */
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

crn_rng crn_rng_make(uint64_t seed, uint64_t step, const char *name) {
  uint64_t named = name ? crn_hash(name, strlen(name)) : 0;
  uint64_t key = mix(mix(seed + 0x9E3779B97F4A7C15u) ^ named);
  return (crn_rng){.key = {(uint32_t)key, (uint32_t)(key >> 32)}, .hi = {(uint32_t)step, (uint32_t)(step >> 32)}};
}

uint32_t crn_rng_bits(const crn_rng *r, uint64_t i) {
  uint32_t w[4];
  block(r, KIND_BITS, i / 4, w);
  return w[i % 4];
}

static float to_unit_float(uint32_t w) { return (float)(w >> 8) * 0x1p-24f; }

float crn_rng_uniform(const crn_rng *r, uint64_t i) { return to_unit_float(crn_rng_bits(r, i)); }

double crn_rng_uniform_double(const crn_rng *r, uint64_t i) {
  uint32_t w[4];
  block(r, KIND_DOUBLE, i / 2, w);
  const uint32_t *p = w + 2 * (i % 2);
  uint64_t x = (uint64_t)p[0] << 32 | p[1];
  return (double)(x >> 11) * 0x1p-53;
}

enum { WIDE = 8 }; /* blocks computed side by side, one array a counter word, so that the compiler uses vectors */

static void uniform_blocks(const crn_rng *r, uint64_t index, float *out) {
  uint32_t c0[WIDE], c1[WIDE], c2[WIDE], c3[WIDE], k0 = r->key[0], k1 = r->key[1];
  for (uint32_t j = 0; j < WIDE; j++) {
    c0[j] = (uint32_t)(index + j);
    c1[j] = ((uint32_t)((index + j) >> 32) & 0x0FFFFFFFu) | (uint32_t)KIND_BITS << 28;
    c2[j] = r->hi[0];
    c3[j] = r->hi[1];
  }
  for (int round = 0; round < 10; round++) {
    for (int j = 0; j < WIDE; j++) {
      uint64_t a = (uint64_t)c0[j] * 0xD2511F53u, b = (uint64_t)c2[j] * 0xCD9E8D57u;
      c0[j] = (uint32_t)(b >> 32) ^ c1[j] ^ k0;
      c1[j] = (uint32_t)b;
      c2[j] = (uint32_t)(a >> 32) ^ c3[j] ^ k1;
      c3[j] = (uint32_t)a;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int j = 0; j < WIDE; j++) {
    out[4 * j] = to_unit_float(c0[j]);
    out[4 * j + 1] = to_unit_float(c1[j]);
    out[4 * j + 2] = to_unit_float(c2[j]);
    out[4 * j + 3] = to_unit_float(c3[j]);
  }
}

void crn_rng_uniform_fill(const crn_rng *r, uint64_t i, float *out, size_t n) {
  size_t done = 0;
  while (done < n) {
    if (i % 4 == 0 && n - done >= 4 * WIDE) {
      uniform_blocks(r, i / 4, out + done);
      done += 4 * WIDE;
      i += 4 * WIDE;
      continue;
    }
    uint32_t w[4];
    block(r, KIND_BITS, i / 4, w);
    for (size_t lane = i % 4; lane < 4 && done < n; lane++, i++) out[done++] = to_unit_float(w[lane]);
  }
}

/* Box-Muller: sqrt(-2 ln u) cos(2 pi v), u in (0,1], v in [0,1). */
static double box_muller(uint32_t u, uint32_t v) {
  double radius = sqrt(-2.0 * log(((double)u + 1.0) * 0x1p-32));
  return radius * cos(6.283185307179586 * (double)v * 0x1p-32);
}

float crn_rng_normal(const crn_rng *r, uint64_t i) {
  uint32_t w[4];
  block(r, KIND_NORMAL, i / 2, w);
  const uint32_t *p = w + 2 * (i % 2);
  return (float)box_muller(p[0], p[1]);
}

/* Element i has a sequence of its own: block i of try 0, 1, …, two numbers each. A draw is accepted with 95 %. */
float crn_rng_truncated_normal(const crn_rng *r, uint64_t i) {
  for (uint64_t attempt = 0; attempt < 64; attempt++) {
    uint32_t w[4];
    block(r, KIND_TRUNCATED, i ^ attempt << 52, w);
    for (int k = 0; k < 4; k += 2) {
      double x = box_muller(w[k], w[k + 1]);
      if (fabs(x) <= 2.0) return (float)x;
    }
  }
  return 0.0f; /* 128 rejections in a row: never seen (probability 1e-171) */
}
