/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets made of others (MetaDataset, ConcatDataset, CombinedDataset), pairs of text files, and the writer of HDF
 * files.
 */
#include "data_helpers.h"

#include "data/hdf_writer.h"

static void expect(crn_err *err, crn_status code, crn_status wanted, const char *word) {
  if (code != wanted) fail_msg("status %d instead of %d: %s", (int)code, (int)wanted, crn_err_text(err));
  if (!strstr(crn_err_text(err), word)) fail_msg("\"%s\" lacks \"%s\"", crn_err_text(err), word);
  crn_err_clear(err);
}

static const int64_t five[] = {3, 1, 4, 2, 5};

/* A second file with the same tags in another order: seq-4 … seq-0, each of one frame with that number. */
static const char *write_reversed(void) {
  crn_err err = {0};
  const char *path = temp_path("reversed.hdf");
  remove(path);
  crn_hdf_writer *w;
  crn_hdf_layout layout = {.type = CRN_NT_I32, .dim = 9, .n_axes = 1};
  TEST_OK(crn_hdf_writer_new(path, &layout, false, &w, &err));
  for (int32_t i = 4; i >= 0; i--) {
    char tag[20];
    snprintf(tag, sizeof tag, "seq-%d", (int)i);
    int32_t one = 1;
    TEST_OK(crn_hdf_writer_add(w, tag, (crn_hdf_rows){1, &i}, &one, NULL, &err));
  }
  TEST_OK(crn_hdf_writer_close(w, &err));
  return path;
}

static crn_status meta(const char *a, const char *b, const char *more, const char *a_options, crn_dataset **ds,
                       crn_err *err) {
  char text[1500];
  snprintf(text, sizeof text,
           "{'class': 'MetaDataset', 'datasets': {'a': {'class': 'HDFDataset', 'files': ['%s'], %s}, 'b': {'class': "
           "'HDFDataset', 'files': ['%s']}}, 'data_map': {'data': ('a', 'data'), 'extra': ('b', 'data')}, %s}",
           a, a_options, b, more);
  return new_dataset(text, "", ds, err);
}

static void check_meta(const char *more, const char *a_options, int64_t epoch, const char *expected) {
  crn_err err = {0};
  const char *a = write_hdf("meta.hdf", five, NULL, 5), *b = write_reversed();
  crn_dataset *ds;
  TEST_OK(meta(a, b, more, a_options, &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, epoch, NULL, &err));
  check_order(ds, expected);
  size_t extra = (size_t)crn_dataset_find_key(ds, "extra");
  assert_true(crn_dataset_key(ds, extra)->is_target && crn_dataset_key(ds, extra)->dim == 9);
  crn_array x = {0};
  for (int64_t i = 0; i < crn_dataset_num_seqs(ds); i++) {
    int64_t n;
    const char *tag;
    TEST_OK(crn_dataset_tag(ds, i, &tag, &err));
    int64_t number = tag[4] - '0';
    TEST_OK(crn_dataset_length(ds, i, 0, &n, &err));
    assert_int_equal(n, five[number]);
    TEST_OK(crn_dataset_read(ds, i, 0, 0, n, &x, &err));
    assert_int_equal((int)((float *)x.data)[0], number);
    TEST_OK(crn_dataset_read(ds, i, extra, 0, 1, &x, &err));
    assert_int_equal(((int32_t *)x.data)[0], number);
  }
  crn_array_free(&x);
  crn_dataset_free(ds);
  remove(a);
  remove(b);
}

static void test_meta(void **state) {
  (void)state;
  check_meta("'seq_order_control_dataset': 'a'", "'seq_ordering': 'sorted'", 1, "1 3 0 2 4");
  check_meta("'seq_order_control_dataset': 'a', 'seq_ordering': 'reverse'", "'partition_epoch': 2", 2, "3 4");
  check_meta("'seq_order_control_dataset': 'b'", "", 1, "4 3 2 1 0");
  check_meta("'seq_ordering': 'sorted_reverse'", "", 1, "4 2 0 3 1");
  check_meta("'partition_epoch': 2", "", 2, "3 4");
  check_meta("'repeat_epoch': 2", "", 1, "0 1 2 3 4 0 1 2 3 4");
  check_meta("'data_dims': {'data': (2, 2), 'extra': [9, 1]}", "", 1, "0 1 2 3 4");
  const char *list = temp_path("list.txt"), *lens = temp_path("lens.json");
  FILE *f = fopen(list, "w");
  fputs("seq-2\nseq-0\n", f);
  fclose(f);
  char more[400];
  snprintf(more, sizeof more, "'seq_list_file': '%s'", list);
  check_meta(more, "", 1, "2 0");
  snprintf(more, sizeof more, "'seq_list_file': {'a': '%s', 'b': '%s'}, 'seq_ordering': 'sorted'", list, list);
  check_meta(more, "", 1, "0 2");
  f = fopen(lens, "w");
  fputs("{\"seq-0\": {\"data\": 3}, \"seq-1\": {\"data\": 1}, \"seq-2\": {\"data\": 4}, \"seq-3\": {\"data\": 2},"
        "\"seq-4\": {\"data\": 5}}",
        f);
  fclose(f);
  snprintf(more, sizeof more, "'seq_lens_file': '%s', 'seq_ordering': 'sorted'", lens);
  check_meta(more, "", 1, "1 3 0 2 4");
  remove(list);
  remove(lens);
}

static void test_meta_errors(void **state) {
  (void)state;
  crn_err err = {0};
  const char *a = write_hdf("meta.hdf", five, NULL, 5), *b = write_hdf("fewer.hdf", five, NULL, 4);
  crn_dataset *ds;
  expect(&err, meta(a, b, "", "", &ds, &err), CRN_E_DATA, "'seq-4'");
  expect(&err, meta(b, a, "'seq_order_control_dataset': 'c'", "", &ds, &err), CRN_E_CONFIG, "'c'");
  expect(&err, meta(b, a, "'data_dims': {'data': (3, 2)}", "", &ds, &err), CRN_E_CONFIG, "'data': (3, 2)");
  expect(&err, meta(b, "/no.hdf", "", "", &ds, &err), CRN_E_FILE, "dataset 'test' (MetaDataset)");
  TEST_OK(meta(b, a, "", "", &ds, &err)); /* more sequences in another part are fine */
  crn_dataset_free(ds);
  expect(&err,
         new_dataset("{'class': 'MetaDataset', 'datasets': {'a': {'class': 'DummyDataset', 'input_dim': 1, "
                     "'output_dim': 2, 'num_seqs': 3}}, 'data_map': {'data': ('a', 'dta')}}",
                     "", &ds, &err),
         CRN_E_CONFIG, "'dta'; it has data, classes");
  remove(a);
  remove(b);
}

/* [B, T1, T2, 2] with lengths on both axes: flattened, and the key "sizes". */
static void test_writer_axes(void **state) {
  (void)state;
  crn_err err = {0};
  const char *path = temp_path("axes.hdf");
  remove(path);
  const char *labels[] = {"x", "y"}, *tags[] = {"one", "two"};
  crn_hdf_layout layout = {
      .type = CRN_NT_F32, .dim = 2, .has_feature_axis = true, .n_axes = 2, .labels = labels, .n_labels = 2};
  crn_hdf_writer *w;
  float x[2 * 3 * 2 * 2];
  for (int i = 0; i < 24; i++) x[i] = (float)i;
  int64_t shape[] = {2, 3, 2, 2};
  int32_t first[] = {3, 2}, second[] = {1, 2};
  const int32_t *lengths[] = {first, second};
  TEST_OK(crn_hdf_writer_new(path, &layout, false, &w, &err));
  TEST_OK(crn_hdf_writer_add_batch(w, shape, x, lengths, tags, &err));
  assert_int_not_equal(access(path, F_OK), 0); /* not there before it is complete */
  TEST_OK(crn_hdf_writer_close(w, &err));
  expect(&err, crn_hdf_writer_new(path, &layout, false, &w, &err), CRN_E_FILE, "exists already");
  crn_dataset *ds;
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@']}", path, &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  check_order(ds, "one two");
  static const float one[] = {0, 1, 4, 5, 8, 9}, two[] = {12, 13, 14, 15, 16, 17, 18, 19};
  static const int32_t sizes[] = {2, 2};
  crn_array a = {0};
  int64_t n;
  TEST_OK(crn_dataset_length(ds, 0, 0, &n, &err));
  assert_int_equal(n, 3);
  TEST_OK(crn_dataset_read(ds, 0, 0, 0, 3, &a, &err));
  assert_memory_equal(a.data, one, sizeof one);
  TEST_OK(crn_dataset_read(ds, 1, 0, 0, 4, &a, &err));
  assert_memory_equal(a.data, two, sizeof two);
  int k = crn_dataset_find_key(ds, "sizes");
  TEST_OK(crn_dataset_read(ds, 1, (size_t)k, 0, 2, &a, &err));
  assert_memory_equal(a.data, sizes, sizeof sizes);
  assert_string_equal(crn_dataset_key(ds, 0)->labels[1], "y");
  crn_array_free(&a);
  crn_dataset_free(ds);
  crn_h5 *h5;
  int64_t number;
  TEST_OK(crn_h5_open(path, &h5, &err));
  TEST_OK(crn_h5_attr_int(h5, "", "numTimesteps", &number, &err));
  assert_int_equal(number, 7);
  TEST_OK(crn_h5_attr_int(h5, "", "numSeqs", &number, &err));
  assert_int_equal(number, 2);
  crn_h5_close(h5, NULL);
  TEST_OK(crn_hdf_writer_new(path, &layout, true, &w, &err)); /* given up: the old file stays */
  crn_hdf_writer_abandon(w);
  assert_int_equal(access(path, F_OK), 0);
  remove(path);
}

static void test_writer_extras(void **state) {
  (void)state;
  crn_err err = {0};
  const char *path = temp_path("extras.hdf");
  remove(path);
  crn_hdf_extra extras[] = {{"words", CRN_NT_STR, 0, 1}, {"align", CRN_NT_I32, 4, 1}, {"dense", CRN_NT_F32, 2, 2}};
  crn_hdf_layout layout = {.type = CRN_NT_I32, .dim = 5, .n_axes = 1, .extras = extras, .n_extras = 3};
  crn_hdf_writer *w;
  TEST_OK(crn_hdf_writer_new(path, &layout, false, &w, &err));
  int32_t labels[] = {4, 3}, two = 2, align[] = {1, 2, 3};
  const char *words[] = {"a", "b"};
  float dense[] = {1, 2};
  crn_hdf_rows rows[] = {{2, words}, {3, align}, {1, dense}};
  TEST_OK(crn_hdf_writer_add(w, "s", (crn_hdf_rows){2, labels}, &two, rows, &err));
  TEST_OK(crn_hdf_writer_add(w, "t", (crn_hdf_rows){1, labels + 1}, &two, rows, &err));
  TEST_OK(crn_hdf_writer_close(w, &err));
  crn_dataset *ds;
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@']}", path, &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  assert_int_equal(crn_dataset_num_keys(ds), 4);
  const crn_data_key *k = crn_dataset_key(ds, 0);
  assert_true(k->sparse && k->dim == 5);
  crn_array a = {0};
  TEST_OK(crn_dataset_read(ds, 1, (size_t)crn_dataset_find_key(ds, "align"), 1, 3, &a, &err));
  assert_int_equal(((int32_t *)a.data)[1], 3);
  TEST_OK(crn_dataset_read(ds, 0, (size_t)crn_dataset_find_key(ds, "words"), 0, 2, &a, &err));
  assert_string_equal(((const char **)a.data)[1], "b");
  TEST_OK(crn_dataset_read(ds, 1, (size_t)crn_dataset_find_key(ds, "dense"), 0, 1, &a, &err));
  assert_float_equal(((float *)a.data)[1], 2, 0);
  TEST_OK(crn_dataset_read(ds, 1, 0, 0, 1, &a, &err));
  assert_int_equal(((int32_t *)a.data)[0], 3);
  crn_array_free(&a);
  crn_dataset_free(ds);
  remove(path);
}

static void check_concat(const char *options_a, const char *options_b, int64_t epoch, const char *expected) {
  crn_err err = {0};
  static const int64_t two[] = {7, 6};
  char text[1000];
  const char *a = write_hdf("ca.hdf", five, NULL, 5), *b = write_hdf("cb.hdf", two, NULL, 2);
  snprintf(text, sizeof text,
           "{'class': 'ConcatDataset', 'datasets': [{'class': 'HDFDataset', 'files': ['%s'], %s}, {'class': "
           "'HDFDataset', 'files': ['%s'], %s}]}",
           a, options_a, b, options_b);
  crn_dataset *ds;
  TEST_OK(new_dataset(text, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, epoch, NULL, &err));
  check_order(ds, expected);
  int64_t n = crn_dataset_num_seqs(ds), len;
  TEST_OK(crn_dataset_length(ds, n - 1, 1, &len, &err));
  assert_true(len == 6 || len == 7);
  crn_array x = {0};
  TEST_OK(crn_dataset_read(ds, n - 1, 0, 0, len, &x, &err));
  assert_int_equal(x.shape[0], len);
  crn_array_free(&x);
  crn_dataset_free(ds);
  remove(a);
  remove(b);
}

static void test_concat(void **state) {
  (void)state;
  check_concat("", "", 1, "0 1 2 3 4 0 1");
  check_concat("'seq_ordering': 'sorted'", "'seq_ordering': 'reverse'", 1, "1 3 0 2 4 1 0");
  check_concat("'partition_epoch': 2", "", 2, "3 4 0 1");
  crn_err err = {0};
  crn_dataset *ds;
  expect(&err,
         new_dataset("{'class': 'ConcatDataset', 'seq_ordering': 'random', 'datasets': [{'class': 'DummyDataset', "
                     "'input_dim': 1, 'output_dim': 2}]}",
                     "", &ds, &err),
         CRN_E_CONFIG, "default");
  expect(&err,
         new_dataset("{'class': 'ConcatDataset', 'datasets': [{'class': 'DummyDataset', 'input_dim': 1, 'output_dim': "
                     "2}, {'class': 'DummyDataset', 'input_dim': 3, 'output_dim': 2}]}",
                     "", &ds, &err),
         CRN_E_CONFIG, "key 'data'");
}

/* Dataset "a": five sequences with data; "b": three of other data under "classes" alone. Shown as letter and number. */
static void check_combined(const char *options, int64_t epoch, const char *expected) {
  crn_err err = {0};
  static const int64_t three[] = {4, 2, 6};
  char text[1200];
  const char *a = write_hdf("ca.hdf", five, NULL, 5), *b = write_hdf("cb.hdf", three, NULL, 3);
  snprintf(text, sizeof text,
           "{'class': 'CombinedDataset', 'datasets': {'b': {'class': 'HDFDataset', 'files': ['%s']}, 'a': {'class': "
           "'HDFDataset', 'files': ['%s']}}, 'data_map': {('a', 'data'): 'data', ('a', 'classes'): 'classes', ('b', "
           "'classes'): 'classes'}, %s}",
           b, a, options);
  crn_dataset *ds;
  TEST_OK(new_dataset(text, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, epoch, NULL, &err));
  crn_str s = {0};
  crn_array x = {0};
  for (int64_t i = 0; i < crn_dataset_num_seqs(ds); i++) {
    int64_t data, classes;
    const char *tag;
    TEST_OK(crn_dataset_tag(ds, i, &tag, &err));
    TEST_OK(crn_dataset_length(ds, i, 0, &data, &err));
    TEST_OK(crn_dataset_length(ds, i, 1, &classes, &err));
    assert_int_equal(classes, data ? five[tag[4] - '0'] : three[tag[4] - '0']);
    TEST_OK(crn_dataset_read(ds, i, 0, 0, data, &x, &err));
    assert_int_equal(x.shape[0], data);
    assert_int_equal(x.shape[1], 2);
    crn_str_addf(&s, "%s%c%s", i ? " " : "", data ? 'a' : 'b', tag + 4);
  }
  if (expected)
    assert_string_equal(crn_str_get(&s), expected);
  else
    assert_int_equal(crn_dataset_num_seqs(ds), 8);
  crn_str_free(&s);
  crn_array_free(&x);
  crn_dataset_free(ds);
  remove(a);
  remove(b);
}

static void test_combined(void **state) {
  (void)state;
  check_combined("'seq_ordering': 'default'", 1, "a0 a1 a2 a3 a4 b0 b1 b2");
  check_combined("'seq_ordering': 'sorted'", 1, "a1 a3 b1 a0 a2 b0 a4 b2");
  check_combined("'seq_ordering': 'interleave'", 1, "a0 b0 a1 b1 a2 a3 b2 a4");
  check_combined("'seq_ordering': 'random_dataset'", 1, NULL);
  check_combined("'partition_epoch': 2", 2, "a4 b0 b1 b2");
  check_combined("'sampling_sizes': 2", 1, "a0 a1 b0 b1");
  check_combined("'sampling_sizes': 2", 3, "a4 a0 b1 b2");
  check_combined("'sampling_sizes': {'a': 1}", 2, "a1 b0 b1 b2");
}

static void test_translation(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds;
  static const char text[] = "{'class': 'TranslationDataset', 'path': '" CRN_SOURCE_DIR
                             "/tests/data/data/translation', 'file_postfix': 'train', 'source_postfix': ' </S>', "
                             "'target_postfix': ' </S>', 'unknown_label': {'data': '<UNK>'}, 'seq_ordering': 'sorted'}";
  TEST_OK(new_dataset(text, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  check_order(ds, "line-1 line-0 line-2");
  assert_int_equal(crn_dataset_key(ds, 0)->dim, 6);
  assert_int_equal(crn_dataset_key(ds, 1)->dim, 3);
  assert_string_equal(crn_dataset_key(ds, 1)->labels[2], "z");
  static const int32_t source[] = {2, 5, 1, 0}, target[] = {1, 1, 0}, empty[] = {0};
  crn_array x = {0};
  TEST_OK(crn_dataset_read(ds, 2, 0, 0, 4, &x, &err));
  assert_memory_equal(x.data, source, sizeof source);
  TEST_OK(crn_dataset_read(ds, 2, 1, 0, 3, &x, &err));
  assert_memory_equal(x.data, target, sizeof target);
  int64_t n;
  TEST_OK(crn_dataset_length(ds, 0, 0, &n, &err));
  assert_int_equal(n, 1);
  TEST_OK(crn_dataset_read(ds, 0, 0, 0, 1, &x, &err));
  assert_memory_equal(x.data, empty, sizeof empty);
  crn_array_free(&x);
  crn_dataset_free(ds);
  expect(&err,
         new_dataset("{'class': 'TranslationDataset', 'path': '" CRN_SOURCE_DIR
                     "/tests/data/data/translation', 'file_postfix': 'bad'}",
                     "", &ds, &err),
         CRN_E_DATA, "the source has 2 lines, the target 1");
  TEST_OK(new_dataset("{'class': 'TranslationDataset', 'path': '" CRN_SOURCE_DIR
                      "/tests/data/data/translation', 'file_postfix': 'train', 'source_only': True}",
                      "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  assert_int_equal(crn_dataset_num_keys(ds), 1);
  expect(&err, crn_dataset_length(ds, 2, 0, &n, &err), CRN_E_DATA, "'zzz'");
  crn_dataset_free(ds);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_meta),          cmocka_unit_test(test_meta_errors), cmocka_unit_test(test_concat),
      cmocka_unit_test(test_combined),      cmocka_unit_test(test_translation), cmocka_unit_test(test_writer_axes),
      cmocka_unit_test(test_writer_extras),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
