/* SPDX-License-Identifier: Apache-2.0
 *
 * The Mersenne twister (Matsumoto and Nishimura 1998) with the draws that NumPy's RandomState and Python's random make
 * from it, so that orders and generated data are the same as with the old program.
 */
#ifndef CRN_DATA_MT19937_H
#define CRN_DATA_MT19937_H

#include "base/status.h"

typedef struct crn_mt {
  uint32_t state[624];
  int used; /* words of the state already given out */
} crn_mt;

void crn_mt_seed(crn_mt *g, uint32_t seed);                       /* RandomState(seed) */
void crn_mt_seed_array(crn_mt *g, const uint32_t *key, size_t n); /* RandomState((a, b, …)) */
void crn_mt_seed_python(crn_mt *g, uint64_t seed);                /* random.Random(seed) */
uint32_t crn_mt_bits(crn_mt *g);                                  /* 32 bits */
double crn_mt_uniform(crn_mt *g);                                 /* [0,1) with 53 bits; the same in both libraries */
uint32_t crn_mt_interval(crn_mt *g, uint32_t max);                /* 0..max inclusive, NumPy */
int64_t crn_mt_randint(crn_mt *g, int64_t low, int64_t high);     /* low..high-1, NumPy; high - low <= 2^32 */
void crn_mt_permutation(crn_mt *g, int64_t *out, int64_t n);      /* NumPy's permutation(n) */
void crn_mt_shuffle(crn_mt *g, int64_t *list, int64_t n);         /* NumPy's shuffle */
void crn_mt_shuffle_python(crn_mt *g, int64_t *list, int64_t n);  /* Python's shuffle */

#endif
