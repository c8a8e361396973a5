/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffer pool over the system's allocator. A session owns one; not shared by threads.
 */
#ifndef CRN_TENSOR_MEM_H
#define CRN_TENSOR_MEM_H

#include "base/status.h"

typedef struct crn_mem crn_mem;

typedef struct crn_mem_stats {
  size_t live_bytes; /* given out now */
  size_t peak_bytes; /* largest live_bytes since the last crn_mem_reset_peak */
  size_t held_bytes; /* taken from the system */
  uint64_t n_system; /* calls to the system's allocator so far */
} crn_mem_stats;

crn_mem *crn_mem_new(void); /* NULL: no memory */
void crn_mem_free_all(crn_mem *m);
void *crn_mem_get(crn_mem *m, size_t bytes);         /* 64-byte aligned, contents undefined; NULL: no memory */
void crn_mem_put(crn_mem *m, void *p); /* p may be NULL */
crn_mem_stats crn_mem_get_stats(const crn_mem *m);
void crn_mem_reset_peak(crn_mem *m);

#endif
