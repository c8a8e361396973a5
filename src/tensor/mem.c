/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffer pool. Memory comes from the system in regions; a region is cut into blocks, and a freed block is joined with
 * its free neighbours, so that batches of ever other shapes find room in what is held already. When a run is over
 * everything is free again: equal runs ask the system for nothing any more.
 *
 *   region: | head | block | block | … | end |        block: | crn_block, 64 bytes | what is given out … |
 *
 * Large buffers take the first free block that fits, in order of addresses: the pages that were used before are used
 * again and the rest of a region is never touched, so a region may well be larger than what is needed now.
 * Small ones have regions of their own, lest they lie about in those of the large ones, and lists by size: 8 for each
 * power of two. A request looks through its own list for a block that fits, then takes one of the next list that has
 * any (two levels of bit masks find it).
 * Under the address sanitizer heads and free blocks are poisoned.
 */
#include "tensor/mem.h"

#include <string.h>

#include "base/arena.h"
#include "base/pages.h"
#include "base/poison.h"

#define UNIT 64u                       /* sizes are multiples of it, so all that is given out is aligned */
#define LARGE 16384u                   /* buffers from this size on */
#define LISTS 8u                       /* of small blocks, per power of two */
#define LEVELS 48u                     /* powers of two from UNIT on */
#define SEARCH 16                      /* blocks of the own list that are looked at */
#define SMALL_REGION ((size_t)1 << 18) /* the least size of regions; large ones grow with what is held already */
#define LARGE_REGION ((size_t)64 << 20)
#define ORDINARY ((size_t)4 << 20) /* first bytes of a region that are not in huge pages */
#define LARGEST_REGION ((size_t)1 << 30)
#define SIZE_LIMIT (((size_t)1 << 52) - 4096)

typedef struct crn_block {       /* in front of every buffer */
  size_t bytes;                  /* of the buffer; 0: the end of a region */
  struct crn_block *before;      /* its neighbour to the left, NULL: first of its region */
  struct crn_block *next, *prev; /* in its list, while it is free */
  unsigned region;               /* its number, in the order in which they were taken */
  bool free, large;              /* large: in a region for large ones, whatever its size */
} crn_block;

typedef struct crn_region {
  void *raw; /* what the system gave */
  struct crn_region *next;
  size_t bytes; /* of the blocks with their heads */
} crn_region;

_Static_assert(sizeof(crn_block) <= UNIT && sizeof(crn_region) <= UNIT, "heads are smaller than their place");

struct crn_mem {
  crn_region *regions;
  unsigned n_regions;
  crn_block *large;      /* free ones, in order of addresses */
  uint64_t levels;       /* bit l: some list of level l has a block */
  uint8_t lists[LEVELS]; /* bit i: list i of the level has one */
  crn_block *small[LEVELS][LISTS];
  crn_mem_stats stats;
};

static char *data_of(crn_block *b) { return (char *)b + UNIT; }
static crn_block *block_at(char *p) { return (crn_block *)(void *)p; }
static crn_block *after(crn_block *b) { return block_at(data_of(b) + b->bytes); }
static size_t rounded(size_t bytes) { return bytes <= UNIT ? UNIT : (bytes + UNIT - 1) / UNIT * UNIT; }

/* ---- lists of free blocks ---------------------------------------------------------------------------------------- */

/* List of small blocks of so many bytes: level = log2 of the units, then the three bits below the first. */
static void list_of(size_t bytes, unsigned *level, unsigned *list) {
  const size_t units = bytes / UNIT;
  *level = 63u - (unsigned)__builtin_clzll((unsigned long long)units);
  *list = (unsigned)(*level >= 3 ? units >> (*level - 3) : units << (3 - *level)) & (LISTS - 1);
}

static void link_between(crn_mem *m, crn_block *prev, crn_block *b, crn_block *next) {
  b->prev = prev;
  b->next = next;
  if (next) next->prev = b;
  if (prev)
    prev->next = b;
  else
    m->large = b;
}

/* Older regions first. */
static bool comes_before(const crn_block *a, const crn_block *b) {
  return a->region != b->region ? a->region < b->region : a < b;
}

static void list_add(crn_mem *m, crn_block *b) {
  unsigned level, list;
  b->free = true;
  if (b->large) {
    crn_block *prev = NULL, *next = m->large;
    for (; next && comes_before(next, b); next = next->next) prev = next;
    link_between(m, prev, b, next);
    return;
  }
  list_of(b->bytes, &level, &list);
  b->prev = NULL;
  b->next = m->small[level][list];
  if (b->next) b->next->prev = b;
  m->small[level][list] = b;
  m->lists[level] = (uint8_t)(m->lists[level] | 1u << list);
  m->levels |= (uint64_t)1 << level;
}

static void list_remove(crn_mem *m, crn_block *b) {
  unsigned level, list;
  b->free = false;
  if (b->next) b->next->prev = b->prev;
  if (b->prev) {
    b->prev->next = b->next;
    return;
  }
  if (b->large) {
    m->large = b->next;
    return;
  }
  list_of(b->bytes, &level, &list);
  m->small[level][list] = b->next;
  if (b->next) return;
  m->lists[level] = (uint8_t)(m->lists[level] & ~(1u << list));
  if (!m->lists[level]) m->levels &= ~((uint64_t)1 << level);
}

/* A free block of at least so many bytes, or NULL. */
static crn_block *find_small(const crn_mem *m, size_t bytes) {
  unsigned level, list;
  list_of(bytes, &level, &list);
  crn_block *b = m->small[level][list], *best = NULL;
  for (int i = 0; b && i < SEARCH; i++, b = b->next)
    if (b->bytes >= bytes && (!best || b->bytes < best->bytes)) best = b;
  if (best) return best;
  unsigned larger = (unsigned)m->lists[level] & ~((2u << list) - 1);
  if (!larger) {
    const uint64_t levels = m->levels & ~(((uint64_t)2 << level) - 1);
    if (!levels) return NULL;
    level = (unsigned)__builtin_ctzll(levels);
    larger = m->lists[level];
  }
  return m->small[level][__builtin_ctz(larger)];
}

static crn_block *find(const crn_mem *m, size_t bytes) {
  if (bytes < LARGE) return find_small(m, bytes);
  crn_block *b = m->large;
  while (b && b->bytes < bytes) b = b->next;
  return b;
}

/* ---- regions ----------------------------------------------------------------------------------------------------- */

/* A region that is one free block of so many bytes; false: no memory. */
static bool region_new(crn_mem *m, size_t bytes, bool large) {
  const size_t all = bytes + 3 * UNIT; /* with the heads of region, block and end */
  void *raw = crn_malloc(crn_pages_room(all));
  if (!raw) return false;
  char *start = crn_pages_place(raw, all, ORDINARY);
  crn_region *r = (crn_region *)(void *)start;
  *r = (crn_region){.raw = raw, .next = m->regions, .bytes = bytes + 2 * UNIT};
  m->regions = r;
  m->stats.held_bytes += all;
  m->stats.n_system++;
  crn_block *b = block_at(start + UNIT);
  *b = (crn_block){.bytes = bytes, .region = m->n_regions++, .large = large};
  *after(b) = (crn_block){.before = b};
  POISON(data_of(b), bytes);
  list_add(m, b);
  return true;
}

/* Room for a buffer of so many bytes, and for others if the system has it. */
static bool grow(crn_mem *m, size_t bytes) {
  size_t more = SMALL_REGION;
  if (bytes >= LARGE) {
    more = rounded(m->stats.held_bytes / 2);
    more = more < LARGE_REGION ? LARGE_REGION : more > LARGEST_REGION ? LARGEST_REGION : more;
  }
  return (more > bytes && region_new(m, more, bytes >= LARGE)) || region_new(m, bytes, bytes >= LARGE);
}

crn_mem *crn_mem_new(void) { return crn_calloc(1, sizeof(crn_mem)); }

void crn_mem_free_all(crn_mem *m) {
  if (!m) return;
  for (crn_region *r = m->regions, *next; r; r = next) {
    next = r->next;
    UNPOISON((char *)r + UNIT, r->bytes);
    crn_free(r->raw);
  }
  crn_free(m);
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

/* Cut what is beyond so many bytes off a free block, which then isn't free any more. */
static void take(crn_mem *m, crn_block *b, size_t bytes) {
  const size_t rest = b->bytes - bytes;
  if (rest < 2 * UNIT) { /* no room for a head and something behind it */
    list_remove(m, b);
    return;
  }
  crn_block *right = after(b), *r = block_at(data_of(b) + bytes);
  UNPOISON(r, UNIT);
  *r = (crn_block){.bytes = rest - UNIT, .before = b, .region = b->region, .free = true, .large = b->large};
  right->before = r;
  if (b->large) { /* the same place in the list */
    link_between(m, b->prev, r, b->next);
    b->free = false;
    b->bytes = bytes;
  } else {
    list_remove(m, b);
    b->bytes = bytes;
    list_add(m, r);
  }
}

void *crn_mem_get(crn_mem *m, size_t bytes) {
  if (bytes > SIZE_LIMIT) return NULL;
  const size_t size = rounded(bytes);
  crn_block *b = find(m, size);
  if (!b) {
    if (!grow(m, size)) return NULL;
    b = find(m, size);
  }
  take(m, b, size);
  UNPOISON(data_of(b), bytes);
  m->stats.live_bytes += b->bytes;
  if (m->stats.live_bytes > m->stats.peak_bytes) m->stats.peak_bytes = m->stats.live_bytes;
  return data_of(b);
}

void crn_mem_put(crn_mem *m, void *p) {
  if (!p) return;
  crn_block *b = block_at((char *)p - UNIT), *right = after(b), *left = b->before;
  m->stats.live_bytes -= b->bytes;
  const bool join_left = left && left->free, join_right = right->bytes && right->free;
  POISON(data_of(b), b->bytes);
  if (b->large && (join_left || join_right)) { /* in the place that its neighbours have in the list */
    if (join_right) {
      b->bytes += UNIT + right->bytes;
      link_between(m, right->prev, b, right->next);
      b->free = true;
    }
    if (join_left) {
      if (b->free) list_remove(m, b);
      left->bytes += UNIT + b->bytes;
    }
  } else {
    if (join_right) {
      list_remove(m, right);
      b->bytes += UNIT + right->bytes;
    }
    if (join_left) {
      list_remove(m, left);
      left->bytes += UNIT + b->bytes;
    }
    list_add(m, join_left ? left : b);
  }
  if (join_left) b = left;
  after(b)->before = b;
  POISON(data_of(b), b->bytes);
}

crn_mem_stats crn_mem_get_stats(const crn_mem *m) { return m->stats; }
void crn_mem_reset_peak(crn_mem *m) { m->stats.peak_bytes = m->stats.live_bytes; }
