/* SPDX-License-Identifier: Apache-2.0
 *
 * How sequences and chunks become batches: the rules measured on the original program, the step counts of its
 * trainings, and the layout of the arrays.
 */
#include "data_helpers.h"

static const crn_batch_key used_keys[2] = {{.name = "data"}, {.name = "classes"}};

/* "0,1|2,3|4" : sorted indices of the epoch's batches; of chunks "0:4-8" is not shown, see show_chunks. */
static crn_status run_epoch(crn_dataset *ds, crn_batch_options o, int64_t epoch, bool show_chunks, crn_str *text,
                            int64_t *n_batches, crn_err *err) {
  crn_batcher *b = NULL;
  *n_batches = 0;
  CRN_TRY(crn_dataset_begin_epoch(ds, epoch, NULL, err));
  CRN_TRY(crn_batcher_new(ds, &o, used_keys, 2, &b, err));
  crn_status code;
  crn_batch *batch;
  int64_t done = 0;
  while ((code = crn_batcher_next(b, &batch, err)) == CRN_OK && batch) {
    const crn_batch_array *data = crn_batch_find(batch, "data");
    for (int64_t i = 0; text && i < batch->n_seqs; i++) {
      crn_str_addf(text, "%s%d", i ? "," : *n_batches ? "|" : "", (int)batch->seq_idx[i]);
      if (show_chunks) crn_str_addf(text, ":%d-%d", (int)batch->start[i], (int)(batch->start[i] + data->lengths[i]));
    }
    assert_int_equal(batch->index, *n_batches);
    assert_true(batch->seqs_done >= done);
    done = batch->seqs_done;
    ++*n_batches;
    crn_batch_free(batch);
  }
  crn_batcher_free(b);
  return code;
}

static void check_batches(const int64_t *lens, int64_t n, const char *options, const char *config_text, bool recurrent,
                          bool show_chunks, const char *expected) {
  crn_err err = {0};
  crn_arena a = {0};
  const char *path = write_hdf("batch.hdf", lens, NULL, n);
  char text[400];
  snprintf(text, sizeof text, "{'class': 'HDFDataset', 'files': ['@'], %s}", options);
  crn_dataset *ds;
  TEST_OK(new_dataset(text, path, &ds, &err));
  crn_batch_options o;
  TEST_OK(crn_batch_options_from_config(literal(&a, config_text), CRN_BATCH_TRAIN, recurrent, &o, &err));
  crn_str s = {0};
  int64_t batches;
  TEST_OK(run_epoch(ds, o, 1, show_chunks, &s, &batches, &err));
  assert_string_equal(crn_str_get(&s), expected);
  crn_str_free(&s);
  crn_dataset_free(ds);
  crn_arena_free(&a);
  remove(path);
}

static void test_padded_frames(void **state) {
  (void)state;
  static const int64_t lens[] = {3, 4, 5, 1, 9, 2}, other[] = {3, 1, 4, 2, 5};
  check_batches(lens, 6, "", "{'batch_size': 10}", true, false, "0,1|2,3|4|5");
  check_batches(other, 5, "", "{'batch_size': 8}", true, false, "0,1|2,3|4");
  check_batches(other, 5, "", "{'batch_size': 8, 'max_seq_length': 4}", true, false, "0,1|2,3");
  check_batches(other, 5, "", "{'batch_size': 8, 'max_seq_length': {'classes': 3}}", true, false, "0,1|3");
  check_batches(other, 5, "", "{'batch_size': 8, 'max_seq_length': -3}", true, false, "0,1|3");
  check_batches(other, 5, "", "{'batch_size': 8, 'min_seq_length': 3}", true, false, "0,2|4");
  check_batches(other, 5, "", "{'batch_size': 1000}", true, false, "0,1,2,3,4");
  check_batches(other, 5, "", "{'batch_size': 1000, 'max_seqs': 2}", true, false, "0,1|2,3|4");
  check_batches(other, 5, "", "{'batch_size': {'data': 8}}", true, false, "0,1|2,3|4");
  check_batches(other, 5, "", "{'batch_size': {'other': 8}}", true, false, "0,1,2,3,4");
  check_batches(other, 5, "", "{'batch_size': 1000, 'max_pad_size': 2}", true, false, "0,1|2,3|4");
  check_batches(other, 5, "", "{}", true, false, "0|1|2|3|4");
  check_batches(other, 5, "'seq_ordering': 'sorted'", "{'batch_size': 8}", true, false, "0,1|2,3|4");
}

/* The random draws of seq_drop: the twister seeded with the epoch, one number per sequence that isn't too long. */
static void test_seq_drop(void **state) {
  (void)state;
  static const int64_t lens[] = {3, 4, 5, 1, 9, 2};
  /* random.Random(1): .134, .847, .764, .255, .495, .449 */
  check_batches(lens, 6, "", "{'batch_size': 1000, 'seq_drop': 0.3}", true, false, "1,2,4,5");
  check_batches(lens, 6, "", "{'batch_size': 1000, 'seq_drop': 0.3, 'max_seq_length': 4}", true, false, "1,3");
}

static void test_joined_frames(void **state) {
  (void)state;
  static const int64_t lens[] = {3, 4, 5, 1, 9, 2};
  check_batches(lens, 6, "", "{'batch_size': 7}", false, true, "1:0-7|4:0-7|4:1-8|5:0-3");
  check_batches(lens, 6, "'chunking': '4:2'", "{'batch_size': 100, 'max_seqs': 2}", false, true, "1:0-7|3:0-6|5:0-11");
}

static void test_joined_content(void **state) {
  (void)state;
  crn_err err = {0};
  static const int64_t lens[] = {3, 4, 5, 1, 9, 2};
  static const float seq[] = {2, 2, 2, 2, 2, 3, 4}, frame[] = {0, 1, 2, 3, 4, 0, 0};
  const char *path = write_hdf("joined.hdf", lens, NULL, 6);
  crn_arena a = {0};
  crn_dataset *ds;
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@']}", path, &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  crn_batch_options o = {.batch_size = literal(&a, "7"), .max_seqs = -1, .join_frames = true};
  crn_batcher *b;
  TEST_OK(crn_batcher_new(ds, &o, used_keys, 2, &b, &err));
  crn_batch *batch;
  TEST_OK(crn_batcher_next(b, &batch, &err));
  crn_batch_free(batch);
  TEST_OK(crn_batcher_next(b, &batch, &err));
  const crn_batch_array *data = crn_batch_find(batch, "data"), *classes = crn_batch_find(batch, "classes");
  assert_int_equal(batch->n_seqs, 1);
  assert_int_equal(data->lengths[0], 7);
  assert_int_equal(data->shape[1], 7);
  for (int t = 0; t < 7; t++) {
    assert_float_equal(((const float *)data->data)[2 * t], seq[t], 0);
    assert_float_equal(((const float *)data->data)[2 * t + 1], frame[t], 0);
    assert_int_equal(((const int32_t *)classes->data)[t], (int)frame[t] % 5);
  }
  crn_batch_free(batch);
  crn_batcher_free(b);
  crn_dataset_free(ds);
  crn_arena_free(&a);
  remove(path);
}

static void test_chunks(void **state) {
  (void)state;
  static const int64_t lens[] = {10, 3};
  const char *one = "{'batch_size': 1000}";
  check_batches(lens, 2, "'chunking': '4:2'", one, true, true, "0:0-4,0:2-6,0:4-8,0:6-10,0:8-10,1:0-3,1:2-3");
  check_batches(lens, 2, "'chunking': '4:2', 'min_chunk_size': 3", one, true, true, "0:0-4,0:2-6,0:4-8,0:6-10,1:0-3");
  check_batches(lens, 2, "'chunking': '4:4'", one, true, true, "0:0-4,0:4-8,0:8-10,1:0-3");
  check_batches(lens, 2, "'chunking': 4", one, true, true, "0:0-4,0:4-8,0:8-10,1:0-3");
  check_batches(lens, 2, "'chunking': '4'", one, true, true, "0:0-4,0:4-8,0:8-10,1:0-3");
  check_batches(lens, 2, "'chunking': (4, 2), 'min_chunk_size': {'data': 2}", one, true, true,
                "0:0-4,0:2-6,0:4-8,0:6-10,1:0-3");
  check_batches(lens, 2, "'chunking': {'data': 4, 'classes': 4}", one, true, true, "0:0-4,0:4-8,0:8-10,1:0-3");
  check_batches(lens, 2, "'chunking': ({'data': 4, 'classes': 4}, {'data': 2, 'classes': 2})", one, true, true,
                "0:0-4,0:2-6,0:4-8,0:6-10,0:8-10,1:0-3,1:2-3");
  check_batches(lens, 2, "'chunking': '0'", one, true, true, "0:0-10,1:0-3");
  check_batches(lens, 2, "'chunking': None", one, true, true, "0:0-10,1:0-3");
  check_batches(lens, 2, "'chunking': '4:2'", "{'batch_size': 1000, 'max_seqs': 3}", true, true,
                "0:0-4,0:2-6,0:4-8|0:6-10,0:8-10,1:0-3|1:2-3");
  /* variance: u = 0.134364 with seed 1, so 10:10 becomes 9:9 */
  check_batches(lens, 1, "'chunking': '10:10', 'chunking_variance': 0.5", one, true, true, "0:0-9,0:9-10");
}

static void test_chunks_of_several_keys(void **state) {
  (void)state;
  crn_err err = {0};
  static const int64_t lens[] = {12}, short_lens[] = {3}, one[] = {1};
  crn_arena a = {0};
  crn_dataset *ds;
  int64_t n;
  crn_batch_options o = {.batch_size = literal(&a, "1000"), .max_seqs = -1};
  const char *path = write_hdf("keys.hdf", lens, short_lens, 1);
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@'], 'chunking': ({'data': 4, 'classes': 1}, {'data': 4, "
                      "'classes': 1})}",
                      path, &ds, &err));
  crn_str s = {0};
  TEST_OK(run_epoch(ds, o, 1, true, &s, &n, &err));
  assert_string_equal(crn_str_get(&s), "0:0-4,0:4-8,0:8-12");
  crn_str_free(&s);
  crn_dataset_free(ds);
  /* same step, other length */
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@'], 'chunking': '4:4'}", path, &ds, &err));
  assert_int_equal(run_epoch(ds, o, 1, true, NULL, &n, &err), CRN_E_DATA);
  assert_non_null(strstr(crn_err_text(&err), "'data' has 12 frames and 'classes' 3"));
  assert_non_null(strstr(crn_err_text(&err), "seq-0"));
  crn_err_clear(&err);
  crn_dataset_free(ds);
  remove(path);
  /* a key of length 1 with a step ends after the first chunk; with step 0 it comes with each chunk */
  path = write_hdf("keys.hdf", lens, one, 1);
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@'], 'chunking': '4:4'}", path, &ds, &err));
  TEST_OK(run_epoch(ds, o, 1, true, &s, &n, &err));
  assert_string_equal(crn_str_get(&s), "0:0-4");
  crn_str_clear(&s);
  crn_dataset_free(ds);
  TEST_OK(new_dataset(
      "{'class': 'HDFDataset', 'files': ['@'], 'chunking': ({'data': 4, 'classes': 1}, {'data': 4, 'classes': 0})}",
      path, &ds, &err));
  TEST_OK(run_epoch(ds, o, 1, true, &s, &n, &err));
  assert_string_equal(crn_str_get(&s), "0:0-4,0:4-8,0:8-12");
  crn_str_free(&s);
  crn_dataset_free(ds);
  remove(path);
  crn_arena_free(&a);
}

/* context_window 4: one frame to the left, two to the right; zeros outside of the sequence. */
static void test_context_and_layout(void **state) {
  (void)state;
  crn_err err = {0};
  static const int64_t lens[] = {3, 5};
  const char *path = write_hdf("context.hdf", lens, NULL, 2);
  crn_arena a = {0};
  crn_dataset *ds;
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@'], 'context_window': 4}", path, &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  crn_batch_options o = {.batch_size = literal(&a, "1000"), .max_seqs = -1};
  crn_batch_key keys[2] = {{.name = "data", .dtype = CRN_NT_F64}, {.name = "classes", .dtype = CRN_NT_I64}};
  crn_batcher *b;
  TEST_OK(crn_batcher_new(ds, &o, keys, 2, &b, &err));
  crn_batch *batch;
  TEST_OK(crn_batcher_next(b, &batch, &err));
  const crn_batch_array *data = &batch->arrays[0], *classes = &batch->arrays[1];
  assert_string_equal(batch->tags[0], "seq-0");
  assert_string_equal(batch->tags[1], "seq-1");
  assert_int_equal(data->rank, 3);
  assert_int_equal(data->shape[0], 2);
  assert_int_equal(data->shape[1], 8);
  assert_int_equal(data->shape[2], 2);
  assert_int_equal(data->lengths[0], 6);
  assert_int_equal(data->lengths[1], 8);
  assert_int_equal(classes->rank, 2);
  assert_int_equal(classes->shape[1], 5);
  assert_int_equal(classes->lengths[0], 3);
  static const double first[] = {0, 0, 1, 2, 0, 0, 0, 0}, second[] = {0, 0, 1, 2, 3, 4, 0, 0};
  static const double seq_of_second[] = {0, 1, 1, 1, 1, 1, 0, 0};
  for (int t = 0; t < 8; t++) {
    assert_float_equal(((const double *)data->data)[2 * t + 1], first[t], 0);
    assert_float_equal(((const double *)data->data)[16 + 2 * t + 1], second[t], 0);
    assert_float_equal(((const double *)data->data)[16 + 2 * t], seq_of_second[t], 0);
  }
  static const int64_t labels[] = {0, 1, 2, 0, 0, 0, 1, 2, 3, 4};
  for (int t = 0; t < 10; t++) assert_int_equal(((const int64_t *)classes->data)[t], labels[t]);
  crn_batch_free(batch);
  TEST_OK(crn_batcher_next(b, &batch, &err));
  assert_null(batch);
  crn_batcher_free(b);
  crn_dataset_free(ds);
  crn_arena_free(&a);
  remove(path);
}

/* Steps per epoch as the original program counted them in its trainings. */
static void test_training_steps(void **state) {
  (void)state;
  static const struct {
    const char *extra, *train;
    int64_t epochs, steps;
  } rows[] = {
      {"'batching': 'default'", "", 1, 30},
      {"'batching': 'random'", "", 4, 30},
      {"'batching': 'sort_bin_shuffle:.25'", "", 4, 30},
      {"'batching': 'default'", ", 'seq_ordering': 'sorted'", 1, 30},
      {"'batching': 'default'", ", 'seq_ordering': 'reverse'", 1, 30},
      {"'batching': 'default', 'cache_size': '0'", ", 'partition_epoch': 3", 6, 10},
      {"'batching': 'default', 'max_seq_length': 70", "", 1, 22},
      {"'batching': 'default', 'chunking': '20:10'", "", 1, 179},
  };
  crn_data_env env = {.base_dir = CRN_SOURCE_DIR "/tests/data/training"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    crn_err err = {0};
    crn_arena a = {0};
    char text[600];
    snprintf(text, sizeof text,
             "{'batch_size': 1200, 'max_seqs': 10, %s, 'train': {'class': 'HDFDataset', 'files': ['train.hdf']%s}}",
             rows[i].extra, rows[i].train);
    crn_value *config = literal(&a, text);
    crn_dataset *ds;
    crn_batch_options o;
    TEST_OK(crn_dataset_from_config(config, "train", &env, &ds, &err));
    TEST_OK(crn_batch_options_from_config(config, CRN_BATCH_TRAIN, true, &o, &err));
    for (int64_t e = 1; e <= rows[i].epochs; e++) {
      int64_t n;
      TEST_OK(run_epoch(ds, o, e, false, NULL, &n, &err));
      assert_int_equal(n, rows[i].steps);
    }
    crn_dataset_free(ds);
    crn_arena_free(&a);
  }
}

static void refused(const char *config, crn_batch_use use, const char *word) {
  crn_err err = {0};
  crn_arena a = {0};
  crn_batch_options o;
  assert_true(crn_batch_options_from_config(literal(&a, config), use, true, &o, &err) != CRN_OK);
  if (!strstr(crn_err_text(&err), word)) fail_msg("\"%s\" lacks \"%s\"", crn_err_text(&err), word);
  crn_err_clear(&err);
  crn_arena_free(&a);
}

static void test_options(void **state) {
  (void)state;
  refused("{'batch_size': 0}", CRN_BATCH_TRAIN, "'batch_size'");
  refused("{'batch_size': {'data': -1}}", CRN_BATCH_TRAIN, "'batch_size'");
  refused("{'batch_size': 'many'}", CRN_BATCH_TRAIN, "'many'");
  refused("{'max_seqs': 0}", CRN_BATCH_TRAIN, "'max_seqs'");
  refused("{'seq_drop': 2}", CRN_BATCH_TRAIN, "'seq_drop'");
  refused("{'max_seq_length': 5}", CRN_BATCH_SEARCH, "'max_seq_length'");
  refused("{'batch_size': 5}", CRN_BATCH_FORWARD, "'forward_batch_size'");
  crn_err err = {0};
  crn_arena a = {0};
  crn_batch_options o;
  crn_value *config = literal(&a, "{'batch_size': 5, 'forward_batch_size': 7, 'max_seq_length': 3, 'seq_drop': 0.1, "
                                  "'min_seq_length': 2, 'max_seqs': 4}");
  TEST_OK(crn_batch_options_from_config(config, CRN_BATCH_EVAL, false, &o, &err));
  assert_true(!o.max_seq_length && !o.min_seq_length && o.seq_drop == 0 && o.join_frames && o.max_seqs == 4);
  TEST_OK(crn_batch_options_from_config(config, CRN_BATCH_DEV, true, &o, &err));
  assert_true(o.max_seq_length && !o.min_seq_length && o.seq_drop == 0 && !o.join_frames);
  TEST_OK(crn_batch_options_from_config(config, CRN_BATCH_FORWARD, false, &o, &err));
  assert_true(!o.max_seq_length && !o.join_frames && o.batch_size->u.i == 7);
  crn_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_padded_frames),
      cmocka_unit_test(test_seq_drop),
      cmocka_unit_test(test_joined_frames),
      cmocka_unit_test(test_joined_content),
      cmocka_unit_test(test_chunks),
      cmocka_unit_test(test_chunks_of_several_keys),
      cmocka_unit_test(test_context_and_layout),
      cmocka_unit_test(test_training_steps),
      cmocka_unit_test(test_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
