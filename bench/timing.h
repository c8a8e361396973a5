/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bench programs share: the process CPU clock, made numbers, and one line "ms X" per measured run, which
 * bench/run gathers.
 */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static inline void print_ms(double ms) {
  (void)printf("ms %.3f\n", ms);
  (void)fflush(stdout);
}

static inline void fill_floats(float *x, int64_t n, float scale) {
  uint32_t s = 12345;
  for (int64_t i = 0; i < n; i++) {
    s = s * 1664525u + 1013904223u;
    x[i] = scale * ((float)(s >> 8) / 8388608.0f - 1.0f);
  }
}

#endif
