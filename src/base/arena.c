/* SPDX-License-Identifier: Apache-2.0
 *
 * Arena of growing blocks. Each block twice as large as the one before, up to a limit; a reset that finds several
 * blocks replaces them by one of their total size, so that steady use ends with one block and no system calls.
 *
 *   block: | header | given out …        | free …            |
 *                    ^base    ^base+used  ^base+dirty  ^base+cap
 * Beyond `dirty` a block still holds calloc's zeros, which need not be written again.
 * Under the address sanitizer free parts are poisoned, so that use after reset and overruns are found.
 */
#include "base/arena.h"

#include <stdio.h>
#include <string.h>

#include "base/poison.h"

#ifdef CRN_ASAN
enum { RED_ZONE = 16 };
#else
enum { RED_ZONE = 0 };
#endif

enum { WIDE_ALIGN = 64, NARROW_ALIGN = 16 };
#define FIRST_BLOCK_BYTES ((size_t)4096)
#define MAX_GROWTH_BYTES ((size_t)64 << 20)

struct crn_arena_block {
  crn_arena_block *next;
  unsigned char *base; /* first usable byte, 64-byte aligned */
  size_t cap, used;    /* bytes from base */
  size_t dirty;        /* bytes from base that may be non-zero */
};

static crn_arena_block *block_new(size_t cap) {
  if (cap > SIZE_MAX / 2) return NULL;
  crn_arena_block *b = crn_calloc(1, sizeof *b + WIDE_ALIGN + cap);
  if (!b) return NULL;
  uintptr_t start = (uintptr_t)(b + 1);
  b->base = (unsigned char *)(b + 1) + (WIDE_ALIGN - start % WIDE_ALIGN) % WIDE_ALIGN;
  b->cap = cap;
  POISON(b->base, cap);
  return b;
}

static void blocks_free(crn_arena_block *b) {
  while (b) {
    crn_arena_block *next = b->next;
    UNPOISON(b->base, b->cap);
    crn_free(b);
    b = next;
  }
}

/* Room for bytes in block b at the wanted alignment, or NULL if it doesn't fit. */
static void *block_take(crn_arena_block *b, size_t bytes) {
  size_t align = bytes >= WIDE_ALIGN ? WIDE_ALIGN : NARROW_ALIGN;
  size_t start = (b->used + align - 1) / align * align;
  if (start > b->cap || b->cap - start < bytes + RED_ZONE) return NULL;
  unsigned char *p = b->base + start;
  UNPOISON(p, bytes);
  if (start < b->dirty) memset(p, 0, bytes < b->dirty - start ? bytes : b->dirty - start);
  b->used = start + bytes + RED_ZONE;
  if (b->used > b->dirty) b->dirty = b->used;
  return p;
}

/* Make a block with room for bytes the head. */
static bool grow(crn_arena *a, size_t bytes) {
  size_t need = bytes + WIDE_ALIGN + RED_ZONE;
  crn_arena_block *b = a->spare;
  if (b && b->cap >= need) {
    a->spare = b->next;
  } else {
    size_t cap = FIRST_BLOCK_BYTES;
    if (a->head) cap = a->head->cap < MAX_GROWTH_BYTES / 2 ? a->head->cap * 2 : MAX_GROWTH_BYTES;
    b = block_new(cap < need ? need : cap);
    if (!b) return false;
  }
  b->next = a->head;
  a->head = b;
  return true;
}

void *crn_arena_alloc(crn_arena *a, size_t bytes) {
  if (bytes == 0) bytes = 1;
  void *p = NULL;
  if (bytes <= SIZE_MAX / 4) { /* more: sums of sizes could wrap around */
    p = a->head ? block_take(a->head, bytes) : NULL;
    if (!p && grow(a, bytes)) p = block_take(a->head, bytes);
  }
  if (!p) {
    a->failed = true;
    return NULL;
  }
  a->used_bytes += bytes;
  return p;
}

char *crn_arena_strndup(crn_arena *a, const char *s, size_t n) {
  if (!s) return NULL;
  char *p = n < SIZE_MAX ? crn_arena_alloc(a, n + 1) : NULL;
  if (p) memcpy(p, s, n);
  return p;
}

char *crn_arena_strdup(crn_arena *a, const char *s) { return s ? crn_arena_strndup(a, s, strlen(s)) : NULL; }

char *crn_arena_printf(crn_arena *a, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  char *p = n < 0 ? NULL : crn_arena_alloc(a, (size_t)n + 1);
  if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
  va_end(again);
  va_end(ap);
  return p;
}

void crn_arena_reset(crn_arena *a) {
  crn_arena_block *kept = a->head;
  if (kept && (kept->next || a->spare)) { /* several: one of their total size for the next round */
    size_t total = 0;
    for (crn_arena_block *b = a->head; b; b = b->next) total += b->cap;
    for (crn_arena_block *b = a->spare; b; b = b->next) total += b->cap;
    blocks_free(a->head);
    blocks_free(a->spare);
    a->spare = NULL;
    kept = block_new(total);
  }
  if (kept) {
    kept->used = 0;
    POISON(kept->base, kept->cap);
    kept->next = NULL;
  }
  if (kept || a->head) a->spare = kept;
  a->head = NULL;
  a->used_bytes = 0;
  a->failed = false;
}

void crn_arena_free(crn_arena *a) {
  blocks_free(a->head);
  blocks_free(a->spare);
  memset(a, 0, sizeof *a);
}
