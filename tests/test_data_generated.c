/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated datasets against sequences that the original program made.
 */
#include "data_helpers.h"

static crn_dataset *begin(const char *text, int64_t epoch) {
  crn_err err = {0};
  crn_dataset *ds;
  TEST_OK(new_dataset(text, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, epoch, NULL, &err));
  return ds;
}

/* Sequence i of a key as text: letters of the labels if it has names, else numbers. One-hot rows count as labels. */
static void check_seq(crn_dataset *ds, int64_t i, size_t key, const char *expected, bool whole) {
  crn_err err = {0};
  const crn_data_key *k = crn_dataset_key(ds, key);
  int64_t len;
  TEST_OK(crn_dataset_length(ds, i, key, &len, &err));
  crn_array a = {0};
  TEST_OK(crn_dataset_read(ds, i, key, 0, len, &a, &err));
  assert_int_equal(a.shape[0], len);
  crn_str s = {0};
  for (int64_t t = 0; t < len; t++) {
    int64_t label = 0;
    if (k->sparse) {
      crn_ntype_convert(a.dtype, (char *)a.data + (size_t)t * crn_ntype_bytes(a.dtype), CRN_NT_I64, &label, 1);
    } else {
      const float *row = (const float *)a.data + t * k->dim;
      float sum = 0;
      for (int64_t j = 0; j < k->dim; j++) {
        sum += row[j];
        if (row[j] == 1.0f) label = j;
      }
      assert_float_equal(sum, 1, 0);
    }
    if (k->labels)
      crn_str_add(&s, k->labels[label]);
    else
      crn_str_addf(&s, "%d", (int)label);
  }
  if (!whole && s.len > strlen(expected)) s.p[strlen(expected)] = 0;
  assert_string_equal(crn_str_get(&s), expected);
  crn_str_free(&s);
  crn_array_free(&a);
}

static void test_12ax(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds = begin("{'class': 'Task12AXDataset', 'num_seqs': 60, 'fixed_random_seed': 1}", 3);
  check_seq(ds, 0, 0, "BY1AXX2AXC3A3Y2AXAXAX1AXBYBYZA2BYBYCB1AX", false);
  check_seq(ds, 0, 1, "LLLLRLLLLLLLLLLLLLLLLLLRLLLLLLLLRLRLLLLR", false);
  check_seq(ds, 1, 0, "AXX3Y1BYXBYYX1B", true);
  /* dev.hdf of the trainings is this dataset, dumped by the original */
  crn_dataset *hdf;
  TEST_OK(new_dataset("{'class': 'HDFDataset', 'files': ['" CRN_SOURCE_DIR "/tests/data/training/dev.hdf']}", "", &hdf,
                      &err));
  TEST_OK(crn_dataset_begin_epoch(hdf, 1, NULL, &err));
  assert_int_equal(crn_dataset_num_seqs(hdf), crn_dataset_num_seqs(ds));
  crn_array a = {0}, b = {0};
  for (int64_t i = 0; i < 60; i++)
    for (size_t k = 0; k < 2; k++) {
      int64_t n, m;
      TEST_OK(crn_dataset_length(ds, i, k, &n, &err));
      TEST_OK(crn_dataset_length(hdf, i, k, &m, &err));
      assert_int_equal(n, m);
      TEST_OK(crn_dataset_read(ds, i, k, 0, n, &a, &err));
      TEST_OK(crn_dataset_read(hdf, i, k, 0, n, &b, &err));
      assert_memory_equal(a.data, b.data, (size_t)a.n * 4);
    }
  crn_array_free(&a);
  crn_array_free(&b);
  crn_dataset_free(hdf);
  crn_dataset_free(ds);
}

static void test_others(void **state) {
  (void)state;
  crn_dataset *ds = begin("{'class': 'CopyTaskDataset', 'nsymbols': 10, 'minlen': 2, 'maxlen': 5, 'num_seqs': 3}", 1);
  check_seq(ds, 0, 0, "041", true);
  check_seq(ds, 1, 1, "493", true);
  check_seq(ds, 2, 0, "83037", true);
  crn_dataset_free(ds);
  ds = begin("{'class': 'TaskXmlModelingDataset', 'num_seqs': 3, 'fixed_random_seed': 1}", 1);
  check_seq(ds, 0, 0, " <chaebe></chaebe>", true);
  check_seq(ds, 0, 1, "<       < chaebe><", true);
  crn_dataset_free(ds);
  ds = begin("{'class': 'TaskNumberBaseConvertDataset', 'num_seqs': 3, 'fixed_random_seed': 1}", 1);
  check_seq(ds, 0, 0, "270414", true);
  check_seq(ds, 0, 1, "10111000100001100", true);
  crn_dataset_free(ds);
}

static void test_dummy(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds = begin("{'class': 'DummyDataset', 'num_seqs': 4, 'input_dim': 2, 'output_dim': 3, 'seq_len': 3}", 1);
  static const float expected[] = {-0.4f, -0.3f, -0.2f, -0.1f, 0, 0.1f};
  static const int32_t classes[] = {1, 2, 0};
  crn_array a = {0};
  TEST_OK(crn_dataset_read(ds, 1, 0, 0, 3, &a, &err));
  for (int i = 0; i < 6; i++) assert_float_equal(((float *)a.data)[i], expected[i], 1e-6);
  TEST_OK(crn_dataset_read(ds, 1, 1, 0, 3, &a, &err));
  assert_memory_equal(a.data, classes, sizeof classes);
  crn_array_free(&a);
  crn_dataset_free(ds);
}

/* New data in each epoch, the same in another order; without end. */
static void test_epochs(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds = begin("{'class': 'Task12AXDataset', 'num_seqs': 20, 'seq_ordering': 'random'}", 1);
  crn_array first = {0}, again = {0};
  int64_t n, m, where = -1;
  for (int64_t i = 0; i < 20; i++)
    if (crn_dataset_corpus_index(ds, i) == 7) where = i;
  TEST_OK(crn_dataset_length(ds, where, 0, &n, &err));
  TEST_OK(crn_dataset_read(ds, where, 0, 0, n, &first, &err));
  int64_t seven = 7;
  crn_seq_list list = {.indices = &seven, .n = 1};
  TEST_OK(crn_dataset_begin_epoch(ds, 1, &list, &err));
  TEST_OK(crn_dataset_length(ds, 0, 0, &m, &err));
  assert_int_equal(n, m);
  TEST_OK(crn_dataset_read(ds, 0, 0, 0, m, &again, &err));
  assert_memory_equal(first.data, again.data, (size_t)first.n * 4);
  TEST_OK(crn_dataset_begin_epoch(ds, 2, &list, &err));
  TEST_OK(crn_dataset_length(ds, 0, 0, &m, &err));
  if (m == n) {
    TEST_OK(crn_dataset_read(ds, 0, 0, 0, m, &again, &err));
    assert_memory_not_equal(first.data, again.data, (size_t)first.n * 4);
  }
  crn_array_free(&first);
  crn_array_free(&again);
  crn_dataset_free(ds);
  ds = begin("{'class': 'Task12AXDataset', 'seq_ordering': 'sorted'}", 1);
  const char *tag;
  TEST_OK(crn_dataset_tag(ds, 1234567, &tag, &err));
  assert_string_equal(tag, "seq-1234567");
  crn_dataset_free(ds);
  TEST_OK(new_dataset("{'class': 'Task12AXDataset', 'num_seqs': 3, 'seq_ordering': 'sorted_reverse'}", "", &ds, &err));
  assert_int_equal(crn_dataset_begin_epoch(ds, 1, NULL, &err), CRN_E_CONFIG);
  crn_err_clear(&err);
  crn_dataset_free(ds);
  TEST_OK(new_dataset("{'class': 'Task12AXDataset', 'seq_list_filter_file': 'x'}", "", &ds, &err));
  assert_int_equal(crn_dataset_begin_epoch(ds, 1, NULL, &err), CRN_E_CONFIG);
  assert_non_null(strstr(crn_err_text(&err), "'seq_list_filter_file' is not possible"));
  crn_err_clear(&err);
  crn_dataset_free(ds);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_12ax),
      cmocka_unit_test(test_others),
      cmocka_unit_test(test_dummy),
      cmocka_unit_test(test_epochs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
