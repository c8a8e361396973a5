/* SPDX-License-Identifier: Apache-2.0
 *
 * The only file that calls the C library's allocator. It stands alone so that a test can replace these functions at
 * link time (--wrap) and make the n-th allocation fail.
 */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

void *crn_malloc(size_t bytes) { return malloc(bytes ? bytes : 1); }

void *crn_calloc(size_t n, size_t size) { return n && size ? calloc(n, size) : calloc(1, 1); }

void *crn_realloc(void *p, size_t bytes) { return realloc(p, bytes ? bytes : 1); }

void crn_free(void *p) { free(p); }
