/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffer pool: buffers that are aligned and don't overlap, whatever the order of getting and putting; equal runs
 * without asking the system; batches of ever other shapes within what the largest needs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/pages.h"
#include "tensor/mem.h"

enum { N = 400 };

typedef struct buffer {
  unsigned char *p;
  size_t bytes;
  unsigned char mark;
} buffer;

static unsigned next_random(unsigned *s) { return (*s = *s * 1664525u + 1013904223u) >> 8; }

/* Mostly small, some of several MiB. */
static size_t some_size(unsigned *s) { return next_random(s) % ((size_t)1 << (next_random(s) % 23)); }

static void check(const buffer *b) {
  for (size_t i = 0; i < b->bytes; i += 1 + b->bytes / 64) assert_int_equal(b->p[i], b->mark);
  if (b->bytes) assert_int_equal(b->p[b->bytes - 1], b->mark);
}

static void buffers_do_not_overlap(void **state) {
  (void)state;
  static buffer all[N];
  unsigned s = 1;
  size_t live = 0;
  crn_mem *m = crn_mem_new();
  assert_non_null(m);
  memset(all, 0, sizeof all);
  for (int step = 0; step < 20000; step++) {
    buffer *b = &all[next_random(&s) % N];
    if (b->p) {
      check(b);
      crn_mem_put(m, b->p);
      live -= b->bytes;
      b->p = NULL;
    } else {
      *b = (buffer){.bytes = some_size(&s), .mark = (unsigned char)step};
      b->p = crn_mem_get(m, b->bytes);
      assert_non_null(b->p);
      assert_int_equal((uintptr_t)b->p % 64, 0);
      memset(b->p, b->mark, b->bytes);
      live += b->bytes;
    }
    assert_true(crn_mem_get_stats(m).live_bytes >= live);
    assert_true(crn_mem_get_stats(m).live_bytes <= live + (size_t)N * 192);
  }
  for (int i = 0; i < N; i++) crn_mem_put(m, all[i].p);
  crn_mem_put(m, NULL);
  assert_int_equal(crn_mem_get_stats(m).live_bytes, 0);
  assert_null(crn_mem_get(m, SIZE_MAX - 3));
  crn_mem_free_all(m);
}

/* A run of n layers on a batch: each layer's value is put when the one after the next is there. */
static void run(crn_mem *m, int n, size_t bytes) {
  void *before[2] = {NULL, NULL};
  for (int i = 0; i < n; i++) {
    void *p = crn_mem_get(m, i % 3 ? bytes : 3 * bytes), *small = crn_mem_get(m, 100);
    assert_true(p && small);
    crn_mem_put(m, before[i % 2]);
    crn_mem_put(m, small);
    before[i % 2] = p;
  }
  crn_mem_put(m, before[0]);
  crn_mem_put(m, before[1]);
}

static void equal_runs_ask_for_nothing(void **state) {
  (void)state;
  crn_mem *m = crn_mem_new();
  assert_non_null(m);
  for (size_t bytes = 100; bytes < (size_t)40 << 20; bytes *= 5) {
    run(m, 30, bytes);
    const crn_mem_stats first = crn_mem_get_stats(m);
    for (int i = 0; i < 3; i++) run(m, 30, bytes);
    assert_int_equal(crn_mem_get_stats(m).n_system, first.n_system);
    assert_int_equal(crn_mem_get_stats(m).held_bytes, first.held_bytes);
  }
  crn_mem_free_all(m);
}

static void other_shapes_share_the_room(void **state) {
  (void)state;
  const size_t largest = (size_t)30 << 20;
  crn_mem *one = crn_mem_new(), *many = crn_mem_new();
  assert_true(one && many);
  run(one, 30, largest);
  run(many, 30, largest);
  for (size_t bytes = 1 << 20; bytes <= largest; bytes += 77777) run(many, 30, bytes);
  assert_int_equal(crn_mem_get_stats(many).held_bytes, crn_mem_get_stats(one).held_bytes);
  crn_mem_free_all(one);
  crn_mem_free_all(many);
}

/* Wherever the allocator puts it, the place is aligned and inside of the room. */
static void places_lie_in_their_room(void **state) {
  (void)state;
  const size_t page = (size_t)1 << 21;
  for (size_t bytes = 1; bytes < 3 * page; bytes = bytes * 3 + 7)
    for (uintptr_t shift = 0; shift < 200; shift += 24) {
      char *raw = malloc(crn_pages_room(bytes) + 200);
      assert_non_null(raw);
      char *p = crn_pages_place(raw + shift, bytes, bytes / 2);
      assert_int_equal((uintptr_t)p % (bytes < page ? 64 : page), 0);
      assert_true(p >= raw + shift && p + bytes <= raw + shift + crn_pages_room(bytes));
      memset(p, 1, bytes);
      free(raw);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffers_do_not_overlap),
      cmocka_unit_test(equal_runs_ask_for_nothing),
      cmocka_unit_test(other_shapes_share_the_room),
      cmocka_unit_test(places_lie_in_their_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
