/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets: the HDF format, lists, filters, empty sequences, options and their errors, the config's defaults, static
 * data.
 */
#include "data_helpers.h"

static void expect(crn_err *err, crn_status code, crn_status wanted, const char *word) {
  if (code != wanted) fail_msg("status %d instead of %d: %s", (int)code, (int)wanted, crn_err_text(err));
  if (!strstr(crn_err_text(err), word)) fail_msg("\"%s\" lacks \"%s\"", crn_err_text(err), word);
  crn_err_clear(err);
}

static const int64_t five[] = {3, 1, 4, 2, 5};

static void check_epoch(const char *options, int64_t epoch, const char *expected) {
  crn_err err = {0};
  const char *path = write_hdf("five.hdf", five, NULL, 5);
  char text[300];
  snprintf(text, sizeof text, "{'class': 'HDFDataset', 'files': ['@'], %s}", options);
  crn_dataset *ds;
  TEST_OK(new_dataset(text, path, &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, epoch, NULL, &err));
  check_order(ds, expected);
  crn_dataset_free(ds);
  remove(path);
}

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void test_orders(void **state) {
  (void)state;
  check_epoch("", 1, "0 1 2 3 4");
  check_epoch("'seq_ordering': 'sorted'", 1, "1 3 0 2 4");
  check_epoch("'seq_ordering': 'sorted_reverse'", 1, "4 2 0 3 1");
  check_epoch("'repeat_epoch': 2", 1, "0 1 2 3 4 0 1 2 3 4");
  check_epoch("'partition_epoch': 2", 1, "0 1 2");
  check_epoch("'partition_epoch': 2", 2, "3 4");
  check_epoch("'partition_epoch': 2", 3, "0 1 2");
  char option[300];
  const char *filter = temp_path("filter.txt"), *lens = temp_path("lens.py");
  write_text(filter, "seq-3\nseq-1\n");
  snprintf(option, sizeof option, "'seq_list_filter_file': '%s'", filter);
  check_epoch(option, 1, "1 3");
  write_text(lens, "{'seq-0': 9, 'seq-1': 8, 'seq-2': 7, 'seq-3': 6, 'seq-4': 10}");
  snprintf(option, sizeof option, "'seq_ordering': 'sorted', 'seq_order_seq_lens_file': '%s'", lens);
  check_epoch(option, 1, "3 2 1 0 4");
  remove(filter);
  remove(lens);
}

static void test_lists(void **state) {
  (void)state;
  crn_err err = {0};
  const char *path = write_hdf("list.hdf", five, NULL, 5);
  crn_dataset *ds;
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@'], 'partition_epoch': 3}", path, &ds, &err));
  crn_seq_list none = {.n = 0};
  TEST_OK(crn_dataset_begin_epoch(ds, 1, &none, &err));
  assert_int_equal(crn_dataset_num_seqs(ds), 0);
  const char *tags[] = {"seq-4", "seq-0"}, *wrong[] = {"seq-9"};
  crn_seq_list by_tag = {.tags = tags, .n = 2};
  TEST_OK(crn_dataset_begin_epoch(ds, 1, &by_tag, &err));
  check_order(ds, "4 0");
  int64_t indices[] = {2, 2, 1}, outside[] = {5};
  crn_seq_list by_index = {.indices = indices, .n = 3};
  TEST_OK(crn_dataset_begin_epoch(ds, 1, &by_index, &err));
  check_order(ds, "2 2 1");
  assert_int_equal(crn_dataset_corpus_index(ds, 2), 1);
  crn_seq_list bad_tag = {.tags = wrong, .n = 1}, bad_index = {.indices = outside, .n = 1};
  expect(&err, crn_dataset_begin_epoch(ds, 1, &bad_tag, &err), CRN_E_DATA, "'seq-9'");
  expect(&err, crn_dataset_begin_epoch(ds, 1, &bad_index, &err), CRN_E_DATA, "sequence 5");
  TEST_OK(crn_dataset_begin_epoch(ds, 2, NULL, &err));
  check_order(ds, "2 3");
  int64_t frames;
  TEST_OK(crn_dataset_total_frames(ds, 0, &frames, &err));
  assert_int_equal(frames, 6);
  TEST_OK(crn_dataset_set_order(ds, "sorted_reverse", &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  check_order(ds, "4 2");
  crn_dataset_free(ds);
  remove(path);
}

static void test_empty_sequences(void **state) {
  (void)state;
  crn_err err = {0};
  static const int64_t lens[] = {2, 0, 1};
  const char *path = write_hdf("empty.hdf", lens, NULL, 3);
  crn_dataset *ds;
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': '@'}", path, &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  crn_array a = {0};
  for (int64_t i = 0; i < 3; i++) {
    TEST_OK(crn_dataset_read(ds, i, 0, 0, lens[i], &a, &err));
    assert_int_equal(a.rank, 2);
    assert_int_equal(a.shape[0], lens[i]);
    assert_int_equal(a.shape[1], 2);
  }
  assert_float_equal(((float *)a.data)[0], 2, 0);
  expect(&err, crn_dataset_read(ds, 0, 0, 1, 3, &a, &err), CRN_E_STATE, "frames 1 to 3 of 2");
  expect(&err, crn_dataset_read(ds, 3, 0, 0, 0, &a, &err), CRN_E_STATE, "sequence 3 of 3");
  crn_array_free(&a);
  crn_dataset_free(ds);
  remove(path);
}

static void test_keys_of_hdf(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds;
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['" CRN_SOURCE_DIR "/tests/data/training/dev.hdf']}", "", &ds,
                      &err));
  assert_int_equal(crn_dataset_num_keys(ds), 2);
  const crn_data_key *data = crn_dataset_key(ds, 0), *classes = crn_dataset_key(ds, 1);
  assert_string_equal(data->name, "data");
  assert_true(!data->sparse && !data->is_target && data->dim == 9 && data->dtype == CRN_NT_F32 && data->ndim == 2);
  assert_string_equal(classes->name, "classes");
  assert_true(classes->sparse && classes->is_target && classes->dim == 2 && classes->dtype == CRN_NT_I32);
  assert_true(classes->ndim == 1 && classes->n_labels == 2);
  assert_int_equal(crn_dataset_corpus_size(ds), 60);
  crn_data_key want = *data;
  TEST_OK(crn_dataset_check_key(ds, &want, &err));
  want.dim = 8;
  expect(&err, crn_dataset_check_key(ds, &want, &err), CRN_E_CONFIG, "dim is 9, extern_data says 8");
  want = *classes;
  want.sparse = false;
  expect(&err, crn_dataset_check_key(ds, &want, &err), CRN_E_CONFIG, "key 'classes'");
  want = *classes;
  want.dtype = CRN_NT_I64;
  expect(&err, crn_dataset_check_key(ds, &want, &err), CRN_E_CONFIG, "int32, extern_data says int64");
  want = *data;
  want.rank = 3;
  want.shape[1] = 3;
  want.shape[2] = 3;
  expect(&err, crn_dataset_check_key(ds, &want, &err), CRN_E_CONFIG, "[time, 9], extern_data says [time, 3, 3]");
  want.name = "targets";
  expect(&err, crn_dataset_check_key(ds, &want, &err), CRN_E_CONFIG, "it has data, classes");
  crn_dataset_free(ds);
}

/* Several files; without targets there is a ghost column "classes"; sparse inputs; own lengths of targets; labels. */
static void test_hdf_variants(void **state) {
  (void)state;
  crn_err err = {0};
  static const int64_t two[] = {2, 3}, other[] = {1, 4};
  char files[800];
  const char *a = write_hdf("a.hdf", five, NULL, 5), *b = write_hdf("b.hdf", two, other, 2);
  crn_dataset *ds;
  snprintf(files, sizeof files, "{'class': 'HDFDataset', 'files': ['%s', '%s'], 'seq_ordering': 'sorted'}", a, b);
  TEST_OK(new_dataset(files, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  assert_int_equal(crn_dataset_num_seqs(ds), 7);
  int64_t indices[] = {6};
  crn_seq_list last = {.indices = indices, .n = 1};
  TEST_OK(crn_dataset_begin_epoch(ds, 1, &last, &err));
  int64_t len;
  TEST_OK(crn_dataset_length(ds, 0, 1, &len, &err));
  assert_int_equal(len, 4);
  crn_array array = {0};
  TEST_OK(crn_dataset_read(ds, 0, 1, 1, 3, &array, &err));
  assert_int_equal(((int32_t *)array.data)[1], 2);
  TEST_OK(crn_dataset_read(ds, 0, 0, 2, 3, &array, &err));
  assert_float_equal(((float *)array.data)[0], 1, 0);
  crn_dataset_free(ds);
  remove(b);

  const char *path = temp_path("sparse.hdf");
  remove(path);
  crn_h5 *f;
  uint8_t words[5] = {0, 1, 2, 1, 0};
  int32_t table[4] = {3, 7, 2, 8}, narrow[2] = {3, 2};
  int64_t n = 5;
  const char *tags[2] = {"x", "y"}, *labels[3] = {"A", "B", "C"};
  TEST_OK(crn_h5_create(path, &f, &err));
  TEST_OK(crn_h5_write(f, "inputs", CRN_NT_U8, 1, &n, words, &err));
  TEST_OK(crn_h5_write_attr_int(f, "", "inputPattSize", 3, &err));
  TEST_OK(crn_h5_write_strings(f, "labels", CRN_H5_FIXED, labels, 3, &err));
  TEST_OK(crn_h5_write(f, "seqLengths", CRN_NT_I32, 2, (int64_t[]){2, 2}, table, &err));
  TEST_OK(crn_h5_write_strings(f, "seqTags", CRN_H5_FIXED, tags, 2, &err));
  TEST_OK(crn_h5_close(f, &err));
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@']}", path, &ds, &err));
  const crn_data_key *k = crn_dataset_key(ds, 0);
  assert_true(k->sparse && k->dim == 3 && k->dtype == CRN_NT_U8 && k->rank == 1 && k->n_labels == 3);
  assert_string_equal(k->labels[2], "C");
  assert_int_equal(crn_dataset_num_keys(ds), 2);
  assert_true(crn_dataset_key(ds, 1)->length_only);
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  TEST_OK(crn_dataset_length(ds, 1, 1, &len, &err));
  assert_int_equal(len, 8);
  TEST_OK(crn_dataset_read(ds, 1, 0, 0, 2, &array, &err));
  assert_int_equal(((uint8_t *)array.data)[0], 1);
  expect(&err, crn_dataset_read(ds, 1, 1, 0, 2, &array, &err), CRN_E_DATA, "no data");
  crn_dataset_free(ds);
  snprintf(files, sizeof files, "{'class': 'HDFDataset', 'files': ['%s', '%s']}", a, path);
  expect(&err, new_dataset(files, "", &ds, &err), CRN_E_FORMAT, "'data'");
  remove(path);
  TEST_OK(crn_h5_create(path, &f, &err));
  TEST_OK(crn_h5_write(f, "inputs", CRN_NT_U8, 1, &n, words, &err));
  TEST_OK(crn_h5_write_attr_int(f, "", "inputPattSize", 3, &err));
  TEST_OK(crn_h5_write(f, "seqLengths", CRN_NT_I32, 2, (int64_t[]){2, 1}, narrow, &err));
  TEST_OK(crn_h5_write_strings(f, "seqTags", CRN_H5_FIXED, tags, 2, &err));
  TEST_OK(crn_h5_close(f, &err));
  expect(&err, new_dataset("{'class': 'HDFDataset', 'files': ['@']}", path, &ds, &err), CRN_E_FORMAT,
         "'seqLengths' has 1 columns, expected 2");
  remove(path);
  remove(a);
  crn_array_free(&array);
}

/* A right file (5 frames of 3 features, labels below 4), but for the one array that is given. */
typedef struct wrong_array {
  const char *name;
  crn_ntype type; /* NONE: missing; STR: strings */
  int rank;
  int64_t shape[3];
  int64_t values[8]; /* 0 where there are more */
  const char *message;
} wrong_array;

static void write_array(crn_h5 *f, const wrong_array *w) {
  static const char *const text[] = {"a", "b", "c", "d"};
  crn_err err = {0};
  int64_t n = 1;
  int32_t whole[64] = {0};
  double real[64] = {0};
  for (int i = 0; i < w->rank; i++) n *= w->shape[i];
  assert_true(n <= 64);
  for (int i = 0; i < 8; i++) real[i] = whole[i] = (int32_t)w->values[i];
  const void *values = w->type == CRN_NT_F64 ? (const void *)real : whole;
  if (w->type == CRN_NT_STR)
    TEST_OK(crn_h5_write_strings(f, w->name, CRN_H5_FIXED, text, (size_t)w->shape[0], &err));
  else if (w->type != CRN_NT_NONE)
    TEST_OK(crn_h5_write(f, w->name, w->type, w->rank, w->shape, values, &err));
}

static void write_file(const char *path, const wrong_array *wrong) {
  static const wrong_array right[] = {
      {"inputs", CRN_NT_F64, 2, {5, 3}, {1}, NULL},
      {"seqLengths", CRN_NT_I32, 2, {2, 2}, {3, 3, 2, 2}, NULL},
      {"seqTags", CRN_NT_STR, 1, {2}, {0}, NULL},
      {"targets/data/classes", CRN_NT_I32, 1, {5}, {1, 2}, NULL},
      {"targets/labels/classes", CRN_NT_STR, 1, {4}, {0}, NULL},
      {"targets/size/x", CRN_NT_I32, 1, {1}, {0}, NULL},
  };
  crn_err err = {0};
  crn_h5 *f;
  remove(path);
  TEST_OK(crn_h5_create(path, &f, &err));
  for (size_t i = 0; i < sizeof right / sizeof *right; i++)
    write_array(f, strcmp(right[i].name, wrong->name) != 0 ? &right[i] : wrong);
  TEST_OK(crn_h5_write_attr_int(f, "targets/size", "classes", 4, &err));
  TEST_OK(crn_h5_close(f, &err));
}

static void test_wrong_arrays(void **state) {
  (void)state;
  static const wrong_array list[] = {
      {"inputs", CRN_NT_NONE, 0, {0}, {0}, "'seqLengths' has 2 columns, expected 1"},
      {"inputs", CRN_NT_F64, 0, {0}, {0}, "'inputs': expected an array of frames, got float64 of 0 axes"},
      {"inputs", CRN_NT_F64, 2, {4, 3}, {0}, "'inputs' has 4 frames, the lengths of its sequences add up to 5"},
      {"inputs", CRN_NT_STR, 1, {2}, {0}, "'inputs' has 2 frames"},
      {"seqLengths", CRN_NT_NONE, 0, {0}, {0}, "'seqLengths': is missing in this file"},
      {"seqLengths", CRN_NT_I32, 0, {0}, {0}, "'seqLengths' has 0 axes, expected 1 or 2"},
      {"seqLengths", CRN_NT_I32, 3, {2, 2, 2}, {0}, "'seqLengths' has 3 axes, expected 1 or 2"},
      {"seqLengths", CRN_NT_STR, 1, {2}, {0}, "'seqLengths': expected int64, got string"},
      {"seqLengths", CRN_NT_I32, 2, {2, 2}, {7, 7, -2, -2}, "'seqLengths': sequence 1 has the length -2"},
      {"seqLengths", CRN_NT_I32, 2, {2, 2}, {INT32_MAX, 5, INT32_MAX, 0}, "add up to 4294967294"},
      {"seqTags", CRN_NT_NONE, 0, {0}, {0}, "'seqTags': is missing in this file"},
      {"seqTags", CRN_NT_I32, 1, {2}, {0}, "'seqTags': expected strings, got int32"},
      {"seqTags", CRN_NT_STR, 1, {3}, {0}, "'seqTags' has 3 entries, 'seqLengths' 2"},
      {"targets/data/classes", CRN_NT_I32, 1, {0}, {0}, "'targets/data/classes' has 0 frames"},
      {"targets/data/classes", CRN_NT_I32, 0, {0}, {0}, "'targets/data/classes': expected an array of frames"},
      {"targets/data/classes", CRN_NT_F64, 2, {5, 7}, {0}, "has 7 features, 'targets/size' says 4"},
  };
  static const char config[] = "{'class': 'HDFDataset', 'files': ['@']}";
  const char *path = temp_path("wrong.hdf");
  crn_err err = {0};
  crn_dataset *ds = NULL;
  write_file(path, &(wrong_array){.name = "none"});
  TEST_OK(new_dataset(config, path, &ds, &err));
  crn_dataset_free(ds);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    write_file(path, &list[i]);
    expect(&err, new_dataset(config, path, &ds, &err), CRN_E_FORMAT, list[i].message);
  }
  remove(path);
}

static void test_option_errors(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds = NULL;
  expect(&err, new_dataset("{'class': 'HdfDataset'}", "", &ds, &err), CRN_E_CONFIG, "did you mean 'HDFDataset'?");
  expect(&err, new_dataset("{'class': 'Nothing'}", "", &ds, &err), CRN_E_CONFIG, "StaticDataset");
  expect(&err, new_dataset("{'files': []}", "", &ds, &err), CRN_E_CONFIG, "no 'class'");
  expect(&err, new_dataset("{'class': 'HDFDataset'}", "", &ds, &err), CRN_E_CONFIG, "'files' is required");
  expect(&err, new_dataset("{'class': 'HDFDataset', 'files': ['/no/x.hdf']}", "", &ds, &err), CRN_E_FILE,
         "dataset 'test' (HDFDataset): /no/x.hdf: no such file");
  expect(&err, new_dataset("{'class': 'HDFDataset', 'files': [], 'seq_order': 'x'}", "", &ds, &err), CRN_E_CONFIG,
         "did you mean 'seq_ordering'?");
  expect(&err, new_dataset("{'class': 'HDFDataset', 'files': [], 'seq_ordering': 'randm'}", "", &ds, &err),
         CRN_E_CONFIG, "did you mean 'random'?");
  expect(&err, new_dataset("{'class': 'HDFDataset', 'files': [], 'partition_epoch': 0}", "", &ds, &err), CRN_E_CONFIG,
         "'partition_epoch': expected an integer >= 1, got 0");
  expect(&err, new_dataset("{'class': 'HDFDataset', 'files': [], 'partition_epoch': 'x'}", "", &ds, &err), CRN_E_CONFIG,
         "'partition_epoch'");
  expect(&err,
         new_dataset("{'class': 'HDFDataset', 'files': [], 'partition_epoch': 2, 'repeat_epoch': 2}", "", &ds, &err),
         CRN_E_CONFIG, "together");
  expect(&err, new_dataset("{'class': 'ClusteringDataset'}", "", &ds, &err), CRN_E_NOT_IMPLEMENTED, "not implemented");
  expect(&err, new_dataset("5", "", &ds, &err), CRN_E_CONFIG, "got int");
  const char *path = write_hdf("part.hdf", five, NULL, 5);
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['@'], 'partition_epoch': 6}", path, &ds, &err));
  expect(&err, crn_dataset_begin_epoch(ds, 6, NULL, &err), CRN_E_DATA, "empty");
  crn_dataset_free(ds);
  remove(path);
}

/* Order of the first epoch of a config's dataset. */
static void check_config(const char *text, const char *key, const char *expected) {
  crn_err err = {0};
  crn_arena a = {0};
  const char *path = write_hdf("config.hdf", five, NULL, 5);
  crn_str s = {0};
  for (const char *p = text; *p; p++) {
    if (*p == '@')
      crn_str_add(&s, path);
    else
      crn_str_addc(&s, *p);
  }
  crn_dataset *ds;
  TEST_OK(crn_dataset_from_config(literal(&a, crn_str_get(&s)), key, NULL, &ds, &err));
  if (!expected) {
    assert_null(ds);
  } else {
    TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
    check_order(ds, expected);
    assert_string_equal(crn_dataset_name(ds), key);
  }
  crn_dataset_free(ds);
  crn_str_free(&s);
  crn_arena_free(&a);
  remove(path);
}

static void test_config_defaults(void **state) {
  (void)state;
  const char *config = "{'batching': 'reverse', 'chunking': '4:2', 'cache_size': '0',"
                       "'train': {'class': 'HDFDataset', 'files': ['@']},"
                       "'dev': {'class': 'HDFDataset', 'files': ['@']},"
                       "'eval': {'class': 'HDFDataset', 'files': ['@'], 'seq_ordering': 'default'}}";
  check_config(config, "train", "4 3 2 1 0");
  check_config(config, "dev", "1 3 0 2 4");
  check_config(config, "eval", "0 1 2 3 4");
  check_config("{'train': {'class': 'HDFDataset', 'files': ['@'], 'seq_ordering': None}, 'batching': 'reverse'}",
               "train", "4 3 2 1 0");
  check_config("{'train': '@', 'batching': 'reverse'}", "train", "4 3 2 1 0");
  check_config("{'train': 'DummyDataset:input_dim=2, output_dim=(3), num_seqs=3', 'batching': 'reverse'}", "train",
               "2 1 0");
  check_config("{'search_data': {'class': 'HDFDataset', 'files': ['@']}, 'batching': 'reverse'}", "search_data",
               "0 1 2 3 4");
  check_config("{'train': None}", "train", NULL);
  check_config("{}", "dev", NULL);
  crn_err err = {0};
  crn_arena a = {0};
  crn_dataset *ds;
  expect(&err, crn_dataset_from_config(literal(&a, "{'dev': \"{'class': 'HDFDataset'}\"}"), "dev", NULL, &ds, &err),
         CRN_E_CONFIG, "'dev'");
  expect(&err, crn_dataset_from_config(literal(&a, "{'dev': 'sprint:x'}"), "dev", NULL, &ds, &err),
         CRN_E_NOT_IMPLEMENTED, "not implemented");
  expect(&err, crn_dataset_from_config(literal(&a, "{'dev': 'config:x'}"), "dev", NULL, &ds, &err),
         CRN_E_NOT_IMPLEMENTED, "config:x");
  /* chunking of dev only on demand */
  const char *dev = "{'chunking': '4:2', %s 'dev': {'class': 'DummyDataset', 'input_dim': 1, 'output_dim': 2}}";
  for (int i = 0; i < 2; i++) {
    char text[300];
    snprintf(text, sizeof text, dev, i ? "'chunk_eval': True," : "");
    TEST_OK(crn_dataset_from_config(literal(&a, text), "dev", NULL, &ds, &err));
    assert_int_equal(crn_v_is_none(crn_dataset_chunk_options(ds).chunking), !i);
    crn_dataset_free(ds);
  }
  crn_arena_free(&a);
}

static void test_static(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds;
  TEST_OK(new_dataset("{'class': 'StaticDataset', 'data': [{'data': [[1, 2.5]], 'classes': [1, 0, 2]},"
                      "{'classes': [1], 'data': [[3, 4], [5, 6]]}, {'data': [], 'classes': []}],"
                      "'output_dim': {'classes': 3}, 'seq_ordering': 'sorted'}",
                      "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  check_order(ds, "2 0 1");
  const crn_data_key *data = crn_dataset_key(ds, 0), *classes = crn_dataset_key(ds, 1);
  assert_true(data->dim == 2 && !data->sparse && data->dtype == CRN_NT_F32 && !data->is_target);
  assert_true(classes->dim == 3 && classes->sparse && classes->is_target);
  crn_array a = {0};
  TEST_OK(crn_dataset_read(ds, 2, 0, 1, 2, &a, &err));
  assert_float_equal(((float *)a.data)[1], 6, 0);
  TEST_OK(crn_dataset_read(ds, 0, 0, 0, 0, &a, &err));
  assert_int_equal(a.shape[1], 2);
  crn_array_free(&a);
  crn_dataset_free(ds);
  expect(&err, new_dataset("{'class': 'StaticDataset', 'data': [{'data': [[1], [2, 3]]}]}", "", &ds, &err),
         CRN_E_CONFIG, "different length");
  expect(&err, new_dataset("{'class': 'StaticDataset', 'data': [{'data': [1]}, {'x': [1]}]}", "", &ds, &err),
         CRN_E_CONFIG, "sequence 1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_orders),          cmocka_unit_test(test_lists),
      cmocka_unit_test(test_empty_sequences), cmocka_unit_test(test_keys_of_hdf),
      cmocka_unit_test(test_hdf_variants),    cmocka_unit_test(test_wrong_arrays),
      cmocka_unit_test(test_option_errors),   cmocka_unit_test(test_config_defaults),
      cmocka_unit_test(test_static),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
