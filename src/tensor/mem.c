/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffer pool. Sizes are rounded up to a class (four classes per power of two, 256 bytes at least); a freed buffer goes
 * to its class's list and is handed out again. Every buffer is also listed so that all can be given back at the end.
 */
#include "tensor/mem.h"

#include <stdlib.h>

#include "base/arena.h"

#define CRN_MEM_ALIGN 64u
#define CRN_MEM_MIN 256u
#define CRN_MEM_CLASSES 256

typedef struct crn_mem_head { /* in front of every buffer, CRN_MEM_ALIGN bytes */
  void *raw;                  /* what the system gave */
  struct crn_mem_head *next_all;
  struct crn_mem_head *next_free;
} crn_mem_head;

struct crn_mem {
  crn_mem_head *all;
  crn_mem_head *free_lists[CRN_MEM_CLASSES];
  crn_mem_stats stats;
};

/* Class of a size, and the class's size in *rounded. */
static unsigned mem_class(size_t bytes, size_t *rounded) {
  if (bytes < CRN_MEM_MIN) bytes = CRN_MEM_MIN;
  unsigned log2 = 63u - (unsigned)__builtin_clzll((unsigned long long)bytes);
  size_t quarter = (size_t)1 << (log2 - 2u);
  size_t steps = (bytes + quarter - 1) / quarter; /* 4 … 8 */
  *rounded = steps * quarter;
  return log2 * 4u + (unsigned)(steps - 4u);
}

crn_mem *crn_mem_new(void) { return crn_calloc(1, sizeof(crn_mem)); }

void crn_mem_free_all(crn_mem *m) {
  if (!m) return;
  for (crn_mem_head *h = m->all; h;) {
    crn_mem_head *next = h->next_all;
    crn_free(h->raw);
    h = next;
  }
  crn_free(m);
}

void *crn_mem_get(crn_mem *m, size_t bytes) {
  size_t rounded;
  unsigned c = mem_class(bytes, &rounded);
  crn_mem_head *h = m->free_lists[c];
  if (h) {
    m->free_lists[c] = h->next_free;
  } else {
    char *raw = crn_malloc(rounded + 2 * CRN_MEM_ALIGN);
    if (!raw) return NULL;
    uintptr_t start = ((uintptr_t)raw + CRN_MEM_ALIGN - 1) & ~(uintptr_t)(CRN_MEM_ALIGN - 1);
    h = (crn_mem_head *)start;
    h->raw = raw;
    h->next_all = m->all;
    m->all = h;
    m->stats.held_bytes += rounded;
    m->stats.n_system++;
  }
  m->stats.live_bytes += rounded;
  if (m->stats.live_bytes > m->stats.peak_bytes) m->stats.peak_bytes = m->stats.live_bytes;
  return (char *)h + CRN_MEM_ALIGN;
}

void crn_mem_put(crn_mem *m, void *p, size_t bytes) {
  if (!p) return;
  size_t rounded;
  unsigned c = mem_class(bytes, &rounded);
  crn_mem_head *h = (crn_mem_head *)((char *)p - CRN_MEM_ALIGN);
  h->next_free = m->free_lists[c];
  m->free_lists[c] = h;
  m->stats.live_bytes -= rounded;
}

crn_mem_stats crn_mem_get_stats(const crn_mem *m) { return m->stats; }
void crn_mem_reset_peak(crn_mem *m) { m->stats.peak_bytes = m->stats.live_bytes; }
