/* SPDX-License-Identifier: Apache-2.0
 *
 * The HDF5 wrapper: what is written is read back in every type; files of h5py; damaged files give a message.
 */
#include "data_helpers.h"

/* On damaged files libhdf5 reads past its own buffers, asks for absurd amounts of memory and loses objects; here only
 * our own faults shall count. */
#if defined(__SANITIZE_ADDRESS__)
#define SHOWN __attribute__((visibility("default")))
SHOWN const char *__asan_default_options(void);
SHOWN const char *__asan_default_suppressions(void);
SHOWN const char *__lsan_default_suppressions(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__asan_default_suppressions(void) { return "interceptor_via_lib:libhdf5\n"; }
const char *__lsan_default_suppressions(void) { return "leak:libhdf5\n"; }
#endif

static void test_write_and_read(void **state) {
  (void)state;
  crn_err err = {0};
  const char *path = temp_path("rw.h5");
  remove(path);
  crn_h5 *f;
  TEST_OK(crn_h5_create(path, &f, &err));
  double numbers[6] = {1, -2, 3.5, 4, 5, 1e6};
  int64_t shape[2] = {3, 2}, zero[2] = {0, 4};
  uint8_t flags[3] = {1, 0, 1};
  int64_t three = 3;
  const char *words[3] = {"a", "", "\xc3\xa4\xc3\xb6"};
  TEST_OK(crn_h5_write(f, "group/deep/x", CRN_NT_F64, 2, shape, numbers, &err));
  TEST_OK(crn_h5_write(f, "empty", CRN_NT_I32, 2, zero, NULL, &err));
  TEST_OK(crn_h5_write(f, "flags", CRN_NT_BOOL, 1, &three, flags, &err));
  TEST_OK(crn_h5_write(f, "scalar", CRN_NT_F64, 0, NULL, numbers, &err));
  TEST_OK(crn_h5_write(f, "complex", CRN_NT_C128, 1, &three, numbers, &err));
  TEST_OK(crn_h5_write_strings(f, "fixed", CRN_H5_FIXED, words, 3, &err));
  TEST_OK(crn_h5_write_strings(f, "variable", CRN_H5_VARIABLE, words, 3, &err));
  TEST_OK(crn_h5_write_strings(f, "none", CRN_H5_VARIABLE, words, 0, &err));
  TEST_OK(crn_h5_write_attr_int(f, "", "n", -7, &err));
  TEST_OK(crn_h5_write_attr_int(f, "", "n", 8, &err));
  TEST_OK(crn_h5_write_attr_string(f, "group", "unit", "frames", &err));
  TEST_OK(crn_h5_close(f, &err));

  TEST_OK(crn_h5_open(path, &f, &err));
  crn_h5_info info;
  float *x;
  TEST_OK(crn_h5_read(f, "group/deep/x", CRN_NT_F32, (void **)&x, &info, &err));
  assert_int_equal(info.type, CRN_NT_F64);
  assert_int_equal(info.rank, 2);
  assert_int_equal(info.shape[0], 3);
  assert_float_equal(x[2], 3.5f, 0);
  crn_free(x);
  int64_t rows[4];
  TEST_OK(crn_h5_read_rows(f, "group/deep/x", CRN_NT_I64, 1, 2, rows, &err));
  assert_int_equal(rows[1], 4);
  assert_int_equal(rows[3], 1000000);
  int32_t *y;
  TEST_OK(crn_h5_read(f, "flags", CRN_NT_I32, (void **)&y, &info, &err));
  assert_int_equal(info.type, CRN_NT_BOOL);
  assert_int_equal(y[0] + 10 * y[1] + 100 * y[2], 101);
  crn_free(y);
  TEST_OK(crn_h5_read(f, "empty", CRN_NT_NONE, (void **)&y, &info, &err));
  assert_int_equal(info.n, 0);
  assert_int_equal(info.shape[1], 4);
  crn_free(y);
  TEST_OK(crn_h5_read(f, "scalar", CRN_NT_I32, (void **)&y, &info, &err));
  assert_int_equal(info.rank, 0);
  assert_int_equal(y[0], 1);
  crn_free(y);
  TEST_OK(crn_h5_read(f, "complex", CRN_NT_C64, (void **)&x, &info, &err));
  assert_int_equal(info.type, CRN_NT_C128);
  assert_float_equal(x[5], 1e6f, 0);
  crn_free(x);
  for (int i = 0; i < 2; i++) {
    char **strings;
    size_t n;
    TEST_OK(crn_h5_read_strings(f, i ? "fixed" : "variable", &strings, &n, &err));
    assert_int_equal(n, 3);
    for (size_t j = 0; j < 3; j++) assert_string_equal(strings[j], words[j]);
    crn_free(strings);
  }
  int64_t number;
  TEST_OK(crn_h5_attr_int(f, "/", "n", &number, &err));
  assert_int_equal(number, 8);
  char **names;
  size_t n;
  TEST_OK(crn_h5_read_attr_strings(f, "group", "unit", &names, &n, &err));
  assert_string_equal(names[0], "frames");
  crn_free(names);
  TEST_OK(crn_h5_members(f, "", &names, &n, &err));
  assert_int_equal(n, 8);
  assert_string_equal(names[0], "complex");
  assert_string_equal(names[7], "variable");
  crn_free(names);
  TEST_OK(crn_h5_attrs(f, "group", &names, &n, &err));
  assert_int_equal(n, 1);
  assert_string_equal(names[0], "unit");
  crn_free(names);
  assert_true(crn_h5_has(f, "group/deep") && !crn_h5_is_dataset(f, "group/deep") && crn_h5_is_dataset(f, "fixed"));
  assert_false(crn_h5_has(f, "nothing/at/all") || crn_h5_has_attr(f, "fixed", "unit"));
  TEST_OK(crn_h5_close(f, &err));
  remove(path);
}

static void test_growing(void **state) {
  (void)state;
  crn_err err = {0};
  const char *path = temp_path("grow.h5");
  remove(path);
  crn_h5 *f;
  int64_t shape[2] = {0, 3};
  TEST_OK(crn_h5_create(path, &f, &err));
  TEST_OK(crn_h5_make_growing(f, "x", CRN_NT_F32, 2, shape, &err));
  TEST_OK(crn_h5_make_growing(f, "tags", CRN_NT_STR, 1, shape, &err));
  for (int i = 0; i < 50; i++) {
    float row[6] = {(float)i, 1, 2, 3, 4, 5};
    char text[20];
    snprintf(text, sizeof text, "tag %d", i);
    const char *tag = text;
    TEST_OK(crn_h5_add_rows(f, "x", CRN_NT_F32, 1 + i % 2, row, &err));
    TEST_OK(crn_h5_add_rows(f, "tags", CRN_NT_STR, 1, &tag, &err));
  }
  TEST_OK(crn_h5_close(f, &err));
  TEST_OK(crn_h5_append(path, &f, &err));
  float row[3] = {-1, -2, -3};
  TEST_OK(crn_h5_add_rows(f, "x", CRN_NT_F32, 1, row, &err));
  TEST_OK(crn_h5_close(f, &err));
  TEST_OK(crn_h5_open(path, &f, &err));
  crn_h5_info info;
  float *x;
  TEST_OK(crn_h5_read(f, "x", CRN_NT_F32, (void **)&x, &info, &err));
  assert_int_equal(info.shape[0], 76);
  assert_int_equal(info.shape[1], 3);
  assert_float_equal(x[3 * 75 + 1], -2, 0);
  assert_float_equal(x[0], 0, 0);
  assert_float_equal(x[3], 1, 0);
  crn_free(x);
  char **tags;
  size_t n;
  TEST_OK(crn_h5_read_strings(f, "tags", &tags, &n, &err));
  assert_int_equal(n, 50);
  assert_string_equal(tags[49], "tag 49");
  crn_free(tags);
  crn_h5_close(f, NULL);
  remove(path);
}

static void expect(crn_err *err, crn_status code, crn_status wanted, const char *word) {
  assert_int_equal(code, wanted);
  if (!strstr(crn_err_text(err), word)) fail_msg("\"%s\" lacks \"%s\"", crn_err_text(err), word);
  crn_err_clear(err);
}

static void test_refusals(void **state) {
  (void)state;
  crn_err err = {0};
  crn_h5 *f = NULL;
  expect(&err, crn_h5_open("/nowhere/x.h5", &f, &err), CRN_E_FILE, "/nowhere/x.h5: no such file");
  expect(&err, crn_h5_open("/", &f, &err), CRN_E_FILE, "directory");
  expect(&err, crn_h5_open(CRN_SOURCE_DIR "/CMakeLists.txt", &f, &err), CRN_E_FORMAT, "HDF5");
  int64_t lens[2] = {2, 3};
  const char *path = write_hdf("refuse.hdf", lens, NULL, 2);
  expect(&err, crn_h5_create(path, &f, &err), CRN_E_FILE, "exists already");
  TEST_OK(crn_h5_open(path, &f, &err));
  void *p;
  char **s;
  size_t n;
  float row[2];
  expect(&err, crn_h5_read(f, "input", CRN_NT_F32, &p, NULL, &err), CRN_E_FORMAT, "'input'");
  expect(&err, crn_h5_read(f, "targets", CRN_NT_F32, &p, NULL, &err), CRN_E_FORMAT, "dataset");
  expect(&err, crn_h5_read(f, "seqTags", CRN_NT_F32, &p, NULL, &err), CRN_E_FORMAT, "string");
  expect(&err, crn_h5_read_strings(f, "inputs", &s, &n, &err), CRN_E_FORMAT, "expected strings");
  expect(&err, crn_h5_read_rows(f, "inputs", CRN_NT_F32, 5, 1, row, &err), CRN_E_FORMAT, "rows 5 to 6");
  expect(&err, crn_h5_read_rows(f, "inputs", CRN_NT_F32, -1, 1, row, &err), CRN_E_FORMAT, "rows");
  expect(&err, crn_h5_write(f, "new", CRN_NT_F32, 0, NULL, row, &err), CRN_E_STATE, "reading only");
  expect(&err, crn_h5_members(f, "inputs", &s, &n, &err), CRN_E_FORMAT, "group");
  crn_h5_close(f, NULL);
  remove(path);
}

/* Read all that a file says it has. */
static void read_everything(crn_h5 *f, const char *group, int depth) {
  crn_err err = {0};
  char **names, path[400];
  size_t n;
  if (depth > 6 || crn_h5_members(f, group, &names, &n, &err) != CRN_OK) {
    crn_err_clear(&err);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s%s%s", group, *group ? "/" : "", names[i]);
    if (crn_h5_is_dataset(f, path)) {
      void *p;
      char **s;
      size_t k;
      if (crn_h5_read(f, path, CRN_NT_NONE, &p, NULL, &err) == CRN_OK) crn_free(p);
      crn_err_clear(&err);
      if (crn_h5_read_strings(f, path, &s, &k, &err) == CRN_OK) crn_free(s);
      crn_err_clear(&err);
    } else {
      read_everything(f, path, depth + 1);
    }
  }
  crn_free(names);
}

static char *slurp(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  char *p = malloc(*n);
  assert_int_equal(fread(p, 1, *n, f), *n);
  fclose(f);
  return p;
}

static void spill(const char *path, const char *p, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(p, 1, n, f), n);
  fclose(f);
}

/* Cut the file at many places and flip every 5th byte: a message or data come back, and the process lives. (Done once
 * with every byte.) */
static void test_damaged(void **state) {
  (void)state;
  int64_t lens[3] = {2, 0, 3};
  const char *path = write_hdf("whole.hdf", lens, NULL, 3), *broken = temp_path("broken.hdf");
  size_t n;
  char *bytes = slurp(path, &n);
  int opened = 0, refused = 0;
  for (size_t i = 0; i < n + 400; i += i < n ? 5 : 1) {
    bool cut = i >= n;
    size_t at = cut ? (i - n) * n / 400 : i, keep = cut ? at : n;
    char old = bytes[at];
    if (!cut) bytes[at] = (char)(old ^ (i % 3 == 0 ? 0xff : i % 3 == 1 ? 0x80 : 1));
    spill(broken, bytes, keep);
    bytes[at] = old;

    crn_err err = {0};
    crn_h5 *f;
    if (crn_h5_open(broken, &f, &err) != CRN_OK) {
      assert_non_null(strstr(crn_err_text(&err), broken));
      refused++;
    } else {
      read_everything(f, "", 0);
      crn_h5_close(f, NULL);
      opened++;
    }
    crn_err_clear(&err);
    crn_dataset *ds = NULL;
    if (new_dataset("{'class': 'HDFDataset', 'files': ['@']}", broken, &ds, &err) == CRN_OK) {
      if (crn_dataset_begin_epoch(ds, 1, NULL, &err) == CRN_OK) {
        crn_array a = {0};
        for (int64_t s = 0; s < crn_dataset_num_seqs(ds) && s < 5; s++)
          for (size_t k = 0; k < crn_dataset_num_keys(ds); k++) {
            int64_t len;
            if (crn_dataset_length(ds, s, k, &len, &err) == CRN_OK) crn_dataset_read(ds, s, k, 0, len, &a, &err);
            crn_err_clear(&err);
          }
        crn_array_free(&a);
      }
      crn_dataset_free(ds);
    } else {
      assert_int_not_equal(err.code, CRN_OK);
      assert_true(strlen(crn_err_text(&err)) > 10);
    }
    crn_err_clear(&err);
  }
  assert_true(refused > 300 && opened > 300); /* most flips hit data or unused bytes */
  free(bytes);
  remove(path);
  remove(broken);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_write_and_read),
      cmocka_unit_test(test_growing),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_damaged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
