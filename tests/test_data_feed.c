/* SPDX-License-Identifier: Apache-2.0
 *
 * Background feeding: the same batches as without a thread, errors travel, stopping at any time. Run it under the
 * thread sanitizer (CRN_TSAN) too.
 */
#include "data_helpers.h"

#include "data/feed.h"

static const crn_batch_key used_keys[2] = {{.name = "data"}, {.name = "classes"}};

typedef struct rig {
  crn_arena arena;
  crn_dataset *ds;
  crn_batcher *batcher;
  crn_feed *feed;
} rig;

static void set_up(rig *r, const char *dataset, const char *path, int n_ahead) {
  crn_err err = {0};
  *r = (rig){0};
  crn_batch_options o = {.batch_size = literal(&r->arena, "60"), .max_seqs = -1};
  TEST_OK(new_dataset(dataset, path, &r->ds, &err));
  TEST_OK(crn_dataset_begin_epoch(r->ds, 1, NULL, &err));
  TEST_OK(crn_batcher_new(r->ds, &o, used_keys, 2, &r->batcher, &err));
  TEST_OK(crn_feed_new(r->batcher, n_ahead, &r->feed, &err));
}

static void tear_down(rig *r) {
  crn_feed_free(r->feed);
  crn_batcher_free(r->batcher);
  crn_dataset_free(r->ds);
  crn_arena_free(&r->arena);
}

static void test_same_batches(void **state) {
  (void)state;
  crn_err err = {0};
  static const char dataset[] = "{'class': 'Task12AXDataset', 'num_seqs': 100, 'seq_ordering': 'random'}";
  for (int ahead = 1; ahead < 5; ahead += 3) {
    rig plain, threaded;
    set_up(&plain, dataset, "", 0);
    set_up(&threaded, dataset, "", ahead);
    for (;;) {
      crn_batch *a, *b;
      TEST_OK(crn_feed_next(plain.feed, &a, &err));
      TEST_OK(crn_feed_next(threaded.feed, &b, &err));
      assert_int_equal(!a, !b);
      if (!a) break;
      assert_int_equal(a->index, b->index);
      assert_int_equal(a->n_seqs, b->n_seqs);
      assert_int_equal(a->arrays[0].shape[1], b->arrays[0].shape[1]);
      size_t n = (size_t)(a->n_seqs * a->arrays[0].shape[1]);
      assert_memory_equal(a->arrays[0].data, b->arrays[0].data, n * 9 * sizeof(float));
      assert_memory_equal(a->arrays[1].data, b->arrays[1].data, n * sizeof(int32_t));
      for (int64_t i = 0; i < a->n_seqs; i++) assert_string_equal(a->tags[i], b->tags[i]);
      if (a->index % 3) { /* most are used again */
        crn_feed_give_back(plain.feed, a);
        crn_feed_give_back(threaded.feed, b);
      } else {
        crn_batch_free(a);
        crn_batch_free(b);
      }
    }
    crn_batch *after;
    TEST_OK(crn_feed_next(threaded.feed, &after, &err));
    assert_null(after);
    tear_down(&plain);
    tear_down(&threaded);
  }
}

static void test_stop(void **state) {
  (void)state;
  crn_err err = {0};
  for (int taken = 0; taken < 8; taken++) {
    rig r;
    set_up(&r, "{'class': 'Task12AXDataset'}", "", 2); /* without end */
    for (int i = 0; i < taken; i++) {
      crn_batch *b;
      TEST_OK(crn_feed_next(r.feed, &b, &err));
      assert_int_equal(b->index, i);
      crn_batch_free(b);
    }
    tear_down(&r);
  }
}

/* Chunks of keys of different lengths: the third sequence fails, after the batches before it. */
static void test_failure(void **state) {
  (void)state;
  static const int64_t lens[] = {30, 40, 50, 10}, class_lens[] = {30, 40, 7, 10};
  const char *path = write_hdf("feed.hdf", lens, class_lens, 4);
  rig r;
  set_up(&r, "{'class': 'HDFDataset', 'files': ['@'], 'chunking': '40:40'}", path, 2);
  crn_status code = CRN_OK;
  int n = 0;
  crn_err err = {0};
  for (;;) {
    crn_batch *b;
    code = crn_feed_next(r.feed, &b, &err);
    if (code != CRN_OK || !b) break;
    n++;
    crn_batch_free(b);
  }
  assert_int_equal(code, CRN_E_DATA);
  assert_int_equal(n, 1);
  assert_non_null(strstr(crn_err_text(&err), "seq-2"));
  crn_err_clear(&err);
  crn_batch *again;
  assert_int_equal(crn_feed_next(r.feed, &again, &err), CRN_E_DATA);
  crn_err_clear(&err);
  tear_down(&r);
  remove(path);
}

/* Several feeds at once read HDF files through the one lock. */
static void test_parallel_files(void **state) {
  (void)state;
  crn_err err = {0};
  static const char dataset[] = "{'class': 'HDFDataset', 'files': ['" CRN_SOURCE_DIR "/tests/data/training/dev.hdf']}";
  rig r[3];
  int64_t seqs[3] = {0, 0, 0};
  for (int i = 0; i < 3; i++) set_up(&r[i], dataset, "", 3);
  for (int open = 3; open;) {
    open = 0;
    for (int i = 0; i < 3; i++) {
      crn_batch *b;
      TEST_OK(crn_feed_next(r[i].feed, &b, &err));
      if (!b) continue;
      open++;
      seqs[i] += b->n_seqs;
      crn_batch_free(b);
    }
  }
  for (int i = 0; i < 3; i++) {
    assert_int_equal(seqs[i], 60);
    tear_down(&r[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_batches),
      cmocka_unit_test(test_stop),
      cmocka_unit_test(test_failure),
      cmocka_unit_test(test_parallel_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
