/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* madvise */
#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>

#define LINE ((size_t)64)
#define HUGE_PAGE ((size_t)1 << 21)

static size_t alignment_of(size_t bytes) { return bytes < HUGE_PAGE ? LINE : HUGE_PAGE; }

size_t crn_pages_room(size_t bytes) { return bytes + alignment_of(bytes); }

char *crn_pages_place(void *raw, size_t bytes, size_t ordinary) {
  const size_t align = alignment_of(bytes);
  char *p = (char *)raw + (align - (uintptr_t)raw % align) % align;
#ifdef MADV_HUGEPAGE
  /* Whole pages only: nothing beyond what was asked for becomes resident. */
  const size_t first = (ordinary + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, end = bytes / HUGE_PAGE * HUGE_PAGE;
  if (first < end) (void)madvise(p + first, end - first, MADV_HUGEPAGE);
#endif
  return p;
}
