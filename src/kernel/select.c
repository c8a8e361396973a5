/* SPDX-License-Identifier: Apache-2.0
 *
 * Choice of the kernel table that this processor can run. Asks the processor at each call; holds no state.
 */
#include <string.h>

#include "kernel/tables.h"

#define MAX_TABLES 4

/* Usable tables, slowest first. Returns how many. */
static int usable_tables(const crn_kernels *out[MAX_TABLES]) {
  int n = 0;
  out[n++] = &crn_kernels_reference;
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
            __builtin_cpu_supports("bmi2");
  if (v3) out[n++] = &crn_kernels_v3;
  if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    out[n++] = &crn_kernels_v4;
#endif
  return n;
}

const crn_kernels *crn_kernels_select(const char *force) {
  const crn_kernels *tables[MAX_TABLES];
  int n = usable_tables(tables);
  if (!force) return tables[n - 1];
  for (int i = 0; i < n; i++)
    if (strcmp(tables[i]->name, force) == 0) return tables[i];
  return NULL;
}

const crn_kernels *crn_kernels_nth(int i) {
  const crn_kernels *tables[MAX_TABLES];
  int n = usable_tables(tables);
  return i >= 0 && i < n ? tables[i] : NULL;
}

const crn_kernels_f64 *crn_kernels_double(void) { return &crn_kernels_reference_f64; }
