/* SPDX-License-Identifier: Apache-2.0
 *
 * Counter-based random numbers (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 * A stream is keyed by (seed, step, name); element i of it is the same whoever asks, in whatever order and thread.
 */
#ifndef CRN_BASE_RANDOM_H
#define CRN_BASE_RANDOM_H

#include "base/status.h"

typedef struct crn_rng {
  uint32_t key[2]; /* mixed from seed and name */
  uint32_t hi[2];  /* upper half of the counter: the step */
} crn_rng;

crn_rng crn_rng_make(uint64_t seed, uint64_t step, const char *name);
/* Element i of the stream: uniform in [0,1) with 24 bits (float) or 53 bits (double); n consecutive from i into out. */
float crn_rng_uniform(const crn_rng *r, uint64_t i);
double crn_rng_uniform_double(const crn_rng *r, uint64_t i);
void crn_rng_uniform_fill(const crn_rng *r, uint64_t i, float *out, size_t n);
float crn_rng_normal(const crn_rng *r, uint64_t i);           /* mean 0, standard deviation 1 (Box-Muller) */
float crn_rng_truncated_normal(const crn_rng *r, uint64_t i); /* redrawn beyond 2 standard deviations */
uint32_t crn_rng_bits(const crn_rng *r, uint64_t i);

#endif
