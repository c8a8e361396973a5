/* SPDX-License-Identifier: Apache-2.0
 *
 * Arena: memory of one lifetime, freed all at once. Grows by blocks; never moves what it gave out.
 * All allocation of the project goes through this file (crn_malloc & co. exist so that tests can make the n-th one
 * fail).
 */
#ifndef CRN_BASE_ARENA_H
#define CRN_BASE_ARENA_H

#include "base/status.h"

void *crn_malloc(size_t bytes);
void *crn_calloc(size_t n, size_t size);
void *crn_realloc(void *p, size_t bytes);
void crn_free(void *p);
char *crn_strdup(const char *s); /* malloc'ed copy or NULL */

typedef struct crn_arena_block crn_arena_block;
typedef struct crn_arena {
  crn_arena_block *head;  /* newest block first */
  crn_arena_block *spare; /* kept by reset for reuse */
  size_t used_bytes;      /* given out since the last reset */
  bool failed;            /* sticky: some allocation returned NULL */
} crn_arena;              /* zero-initialised = empty */

/* 64-byte aligned when bytes >= 64, else 16. NULL (and failed set) when memory is out. Contents zeroed. */
void *crn_arena_alloc(crn_arena *a, size_t bytes);
char *crn_arena_strdup(crn_arena *a, const char *s);
char *crn_arena_strndup(crn_arena *a, const char *s, size_t n);
char *crn_arena_printf(crn_arena *a, const char *fmt, ...) CRN_PRINTF(2, 3);
void crn_arena_reset(crn_arena *a); /* everything given out is invalid; keeps the blocks */
void crn_arena_free(crn_arena *a);  /* gives the blocks back; the arena is empty and usable */

#define CRN_ARENA_NEW(arena, type) ((type *)crn_arena_alloc((arena), sizeof(type)))
#define CRN_ARENA_ARRAY(arena, type, n) ((type *)crn_arena_alloc((arena), sizeof(type) * (size_t)(n)))

#endif
