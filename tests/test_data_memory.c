/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets and batches when memory runs out: an epoch is read again and again with one more allocation succeeding,
 * until all do. Each failure must be reported as such and leave nothing behind (the leak check sees to that).
 */
#include "data_helpers.h"

#include "data/hdf_writer.h"

/* The four functions below take the place of src/base/memory.c in this program. */
static long allocations_left = -1; /* -1: any number */
static bool has_failed;

static bool fails(void) {
  if (allocations_left < 0) return false;
  if (allocations_left-- > 0) return false;
  allocations_left = 0; /* and every later one */
  has_failed = true;
  return true;
}

void *crn_malloc(size_t bytes) { return fails() ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t size) { return fails() ? NULL : n && size ? calloc(n, size) : calloc(1, 1); }
void *crn_realloc(void *p, size_t bytes) { return fails() ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

static const crn_batch_key used_keys[2] = {{.name = "data"}, {.name = "classes"}};

/* One epoch of a dataset, batch by batch. */
static crn_status read_epoch(const crn_value *config, crn_err *err) {
  crn_dataset *ds = NULL;
  crn_batcher *b = NULL;
  crn_batch_options o;
  crn_status code = crn_batch_options_from_config(config, CRN_BATCH_TRAIN, true, &o, err);
  if (code == CRN_OK) code = crn_dataset_from_config(config, "train", NULL, &ds, err);
  if (code == CRN_OK) code = crn_dataset_begin_epoch(ds, 1, NULL, err);
  size_t n_keys = ds && crn_dataset_find_key(ds, "classes") >= 0 ? 2 : 1;
  if (code == CRN_OK) code = crn_batcher_new(ds, &o, used_keys, n_keys, &b, err);
  for (crn_batch *batch = NULL; code == CRN_OK;) {
    code = crn_batcher_next(b, &batch, err);
    if (code == CRN_OK && !batch) break;
    crn_batch_free(batch);
    batch = NULL;
  }
  crn_batcher_free(b);
  crn_dataset_free(ds);
  return code;
}

static crn_status write_file(const crn_value *config, crn_err *err) {
  (void)config;
  const char *path = temp_path("memory_w.hdf");
  crn_hdf_extra extra = {"e", CRN_NT_F32, 2, 2};
  crn_hdf_layout layout = {.type = CRN_NT_I32, .dim = 5, .n_axes = 1, .extras = &extra, .n_extras = 1};
  crn_hdf_writer *w;
  int32_t labels[] = {4, 3}, two = 2;
  float dense[] = {1, 2};
  crn_hdf_rows rows = {1, dense};
  CRN_TRY(crn_hdf_writer_new(path, &layout, true, &w, err));
  crn_status code = crn_hdf_writer_add(w, "s", (crn_hdf_rows){2, labels}, &two, &rows, err);
  if (code != CRN_OK) {
    crn_hdf_writer_abandon(w);
    return code;
  }
  code = crn_hdf_writer_close(w, err);
  remove(path);
  return code;
}

static void fail_everywhere(crn_status (*run)(const crn_value *, crn_err *), const crn_value *config) {
  long n = 0;
  for (;; n++) {
    crn_err err = {0};
    allocations_left = n;
    has_failed = false;
    crn_status status = run(config, &err);
    allocations_left = -1;
    if (status != CRN_OK && status != CRN_E_MEMORY) fail_msg("allocation %ld: %s", n, crn_err_text(&err));
    if (has_failed && status == CRN_OK) fail_msg("allocation %ld failed unnoticed", n);
    if (!has_failed) assert_int_equal(status, CRN_OK);
    crn_err_clear(&err);
    if (!has_failed) break;
  }
  assert_true(n > 10);
}

static void test_datasets(void **state) {
  (void)state;
  static const int64_t lens[] = {3, 1, 4, 2, 5};
  const char *hdf = write_hdf("memory.hdf", lens, NULL, 5);
  const char *vocab = temp_path("memory.vocab"), *corpus = temp_path("memory.txt");
  FILE *f = fopen(vocab, "w");
  fputs("a 0\n[END] 1\n[UNKNOWN] 2\n[START] 3\n", f);
  fclose(f);
  f = fopen(corpus, "w");
  fputs("a b a\na\n", f);
  fclose(f);
  char texts[9][900];
  int n = 0;
  snprintf(texts[n++], 900, "{'class': 'HDFDataset', 'files': ['%s'], 'seq_ordering': 'laplace:2', 'chunking': '2:1'}",
           hdf);
  snprintf(texts[n++], 900, "{'class': 'HDFDataset', 'files': ['%s', '%s'], 'unique_seq_tags': True}", hdf, hdf);
  snprintf(texts[n++], 900, "'%s'", hdf);
  snprintf(texts[n++], 900,
           "{'class': 'MetaDataset', 'datasets': {'a': {'class': 'HDFDataset', 'files': ['%s']}}, 'data_map': {'data': "
           "('a', 'data'), 'classes': ('a', 'classes')}, 'seq_ordering': 'sorted'}",
           hdf);
  snprintf(texts[n++], 900,
           "{'class': 'CombinedDataset', 'datasets': {'a': {'class': 'HDFDataset', 'files': ['%s']}}, 'data_map': "
           "{('a', 'data'): 'data', ('a', 'classes'): 'classes'}, 'seq_ordering': 'interleave'}",
           hdf);
  snprintf(texts[n++], 900, "{'class': 'ConcatDataset', 'datasets': [{'class': 'HDFDataset', 'files': ['%s']}]}", hdf);
  snprintf(texts[n++], 900,
           "{'class': 'LmDataset', 'corpus_file': '%s', 'orth_symbols_map_file': '%s', 'word_based': True, "
           "'auto_replace_unknown_symbol': True, 'add_delayed_seq_data': True}",
           corpus, vocab);
  snprintf(texts[n++], 900, "{'class': 'Task12AXDataset', 'num_seqs': 3}");
  snprintf(texts[n++], 900,
           "{'class': 'StaticDataset', 'data': [{'data': [[1, 2.5]], 'classes': [1, 0, 2]}], 'output_dim': 3}");
  for (int i = 0; i < n; i++) {
    char config[8200];
    crn_arena a = {0};
    snprintf(config, sizeof config, "{'batch_size': 5, 'train': %s}", texts[i]);
    fail_everywhere(read_epoch, literal(&a, config));
    crn_arena_free(&a);
  }
  remove(hdf);
  remove(vocab);
  remove(corpus);
}

static void test_writer(void **state) {
  (void)state;
  fail_everywhere(write_file, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_datasets), cmocka_unit_test(test_writer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
