/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of src/base/memory.c: an input may ask for any amount of memory, and then gets none.
 */
#ifndef CRN_TESTS_FUZZ_MEMORY_LIMIT_H
#define CRN_TESTS_FUZZ_MEMORY_LIMIT_H

#include "base/arena.h"

#include <stdlib.h>

enum { MOST_BYTES = 1 << 24 };
void *crn_malloc(size_t bytes) { return bytes > MOST_BYTES ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t each) {
  return n && each > MOST_BYTES / n ? NULL : calloc(n ? n : 1, each ? each : 1);
}
void *crn_realloc(void *p, size_t bytes) { return bytes > MOST_BYTES ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

#endif
