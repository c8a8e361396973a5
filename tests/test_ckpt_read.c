/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading of checkpoints that TensorFlow wrote: types, shards, partitioned variables, names of files, missing files.
 */
#include "test_ckpt_util.h"

#include "ckpt/crc32c.h"
#include "ckpt/path.h"
#include "ckpt/snappy.h"
#include "ckpt/state_file.h"

static void test_crc(void **state) {
  (void)state;
  /* known values: RFC 3720, appendix B.4 */
  uint8_t bytes[1000] = {0};
  assert_int_equal(crn_crc32c(bytes, 32), 0x8a9136aa);
  memset(bytes, 0xff, 32);
  assert_int_equal(crn_crc32c(bytes, 32), 0x62a8ab43);
  assert_int_equal(crn_crc32c("123456789", 9), 0xe3069283);
  for (int i = 0; i < 1000; i++) bytes[i] = (uint8_t)(i * 37 + i / 7);
  for (size_t start = 0; start < 9; start++)
    for (size_t n = 0; n < 80; n++)
      assert_int_equal(crn_crc32c(bytes + start, n), crn_crc32c_table(0, bytes + start, n));
  assert_int_equal(crn_crc32c_extend(crn_crc32c(bytes, 333), bytes + 333, 667), crn_crc32c_table(0, bytes, 1000));
  assert_int_equal(crn_crc32c_unmask(crn_crc32c_mask(0x12345678)), 0x12345678);
}

static void test_list(void **state) {
  (void)state;
  crn_bundle *b;
  crn_str s = {0};
  OK(crn_bundle_open(DATA "lstm/model.004", &b, err));
  static const char *names[] = {"fw0/rec/W", "fw0/rec/W_re", "fw0/rec/b", "global_step", "output/W", "output/b"};
  static const char *described[] = {"float32 [9,40]", "float32 [10,40]", "float32 [40]",
                                    "int64 []",       "float32 [10,2]",  "float32 [2]"};
  assert_int_equal(crn_bundle_count(b), 6);
  int64_t offset = 0;
  for (size_t i = 0; i < 6; i++) {
    const crn_bundle_entry *e = crn_bundle_at(b, i);
    assert_string_equal(e->name, names[i]);
    assert_string_equal(crn_bundle_describe(e, &s), described[i]);
    assert_int_equal(e->offset, offset);
    offset += e->size_bytes;
    assert_ptr_equal(crn_bundle_find(b, names[i]), e);
  }
  assert_null(crn_bundle_at(b, 6));
  assert_null(crn_bundle_find(b, "fw0/rec/c"));
  assert_null(crn_bundle_find(b, ""));
  size_t n;
  assert_string_equal(crn_bundle_find_prefix(b, "fw0/rec/W", &n)->name, "fw0/rec/W");
  assert_int_equal(n, 2);
  assert_null(crn_bundle_find_prefix(b, "x", &n));
  int64_t step = 0;
  OK(crn_bundle_read(b, crn_bundle_find(b, "global_step"), &step, sizeof step, err));
  assert_true(step > 0 && step < 10000);
  FAILS(crn_bundle_read(b, crn_bundle_find(b, "global_step"), &step, 4, err), CRN_E_INTERNAL, "global_step");
  OK(crn_bundle_verify(b, err));
  crn_str_free(&s);
  crn_bundle_free(b);
}

static void check_numbers(const crn_bundle *b, const char *type) {
  const crn_bundle_entry *e = crn_bundle_find(b, type);
  if (!e) fail_msg("no %s", type);
  assert_string_equal(crn_tf_dtype_name(e->dtype), type);
  assert_int_equal(e->rank, 2);
  assert_int_equal(e->shape[0], 2);
  assert_int_equal(e->shape[1], 3);
  char raw[6 * 16];
  double x[6];
  OK(crn_bundle_read(b, e, raw, 6 * crn_tf_dtype_bytes(e->dtype), err));
  if (strcmp(type, "complex64") == 0) {
    float *c = (float *)(void *)raw;
    for (int i = 0; i < 6; i++) assert_true(c[2 * i] == (float)i && c[2 * i + 1] == 0);
    return;
  }
  OK(crn_tf_convert(e->dtype, raw, CRN_TF_FLOAT64, x, 6, err));
  for (int i = 0; i < 6; i++) assert_true(x[i] == (strcmp(type, "bool") ? i : i > 0));
}

static void test_types(void **state) {
  (void)state;
  crn_bundle *b;
  OK(crn_bundle_open(DATA "types", &b, err));
  static const char *types[] = {"float32", "float64", "int32",    "uint8",  "int16",  "int8", "int64",
                                "uint16",  "float16", "bfloat16", "uint32", "uint64", "bool", "complex64"};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) check_numbers(b, types[i]);
  const crn_bundle_entry *empty = crn_bundle_find(b, "empty");
  assert_int_equal(empty->n_elements, 0);
  assert_int_equal(empty->shape[1], 4);
  OK(crn_bundle_read(b, empty, NULL, 0, err));
  crn_arena a = {0};
  const char **strings;
  size_t *lengths;
  OK(crn_bundle_read_strings(b, crn_bundle_find(b, "string"), &a, &strings, &lengths, err));
  assert_string_equal(strings[0], "");
  assert_string_equal(strings[1], "a");
  assert_int_equal(lengths[2], 22);
  assert_memory_equal(strings[2], "longer text \0 with NUL", 22);
  assert_string_equal(strings[3], "ü");
  char byte;
  FAILS(crn_bundle_read(b, crn_bundle_find(b, "string"), &byte, 1, err), CRN_E_NOT_IMPLEMENTED, "string");
  FAILS(crn_bundle_read_strings(b, crn_bundle_find(b, "int8"), &a, &strings, &lengths, err), CRN_E_FORMAT, "int8");
  crn_arena_free(&a);
  OK(crn_bundle_verify(b, err));
  crn_bundle_free(b);
}

static void test_parts(void **state) {
  (void)state;
  crn_bundle *b;
  OK(crn_bundle_open(DATA "parts", &b, err));
  assert_int_equal(crn_bundle_shards(b), 2);
  assert_int_equal(crn_bundle_count(b), 4);
  static const struct {
    const char *name;
    int64_t n;
    int slices;
  } parts[] = {{"m", 1500, 2}, {"c", 24, 4}, {"k", 24, 2}};
  for (int p = 0; p < 3; p++) {
    assert_int_equal(crn_bundle_find(b, parts[p].name)->n_slices, parts[p].slices);
    float *x = read_floats(b, parts[p].name, parts[p].n);
    for (int i = 0; i < parts[p].n; i++) assert_true(x[i] == (float)i);
    free(x);
  }
  float *v = read_floats(b, "v", 3);
  assert_true(v[0] == 1.5f && v[2] == 3.5f);
  free(v);
  OK(crn_bundle_verify(b, err));
  crn_bundle_free(b);
}

/* A sharded checkpoint of which one file is missing: what is in the other one can be read. */
static void test_missing_shard(void **state) {
  (void)state;
  const char *dir = make_dir();
  static const char *files[] = {"parts.index", "parts.data-00000-of-00002"};
  char from[300], to[300];
  for (int i = 0; i < 2; i++) {
    size_t n;
    snprintf(from, sizeof from, DATA "%s", files[i]);
    snprintf(to, sizeof to, "%s/%s", dir, files[i]);
    uint8_t *p = slurp(from, &n);
    spill(to, p, n);
    free(p);
  }
  crn_bundle *b;
  snprintf(to, sizeof to, "%s/parts", dir);
  OK(crn_bundle_open(to, &b, err));
  free(read_floats(b, "v", 3));
  float c[24];
  FAILS(crn_bundle_read(b, crn_bundle_find(b, "c"), c, sizeof c, err), CRN_E_FILE, "variable 'c': can't open");
  FAILS(crn_bundle_verify(b, err), CRN_E_FILE, "parts.data-00001-of-00002': No such file");
  crn_bundle_free(b);
  remove_dir(dir);
}

static void test_paths(void **state) {
  (void)state;
  static const char *given[] = {DATA "lstm/model.004", DATA "lstm/model.004.index", DATA "lstm/model.004.meta",
                                DATA "lstm/model.004.data-00000-of-00001"};
  for (int i = 0; i < 4; i++) {
    crn_bundle *b;
    OK(crn_bundle_open(given[i], &b, err));
    assert_string_equal(crn_bundle_prefix(b), given[0]);
    crn_bundle_free(b);
  }
  assert_true(crn_bundle_exists(given[0]));
  assert_false(crn_bundle_exists(given[1]));
  crn_bundle *b;
  FAILS(crn_bundle_open(DATA "lstm/model.005", &b, err), CRN_E_FILE, "tried '" DATA "lstm/model.005.index'; in '");
  FAILS(crn_bundle_open(DATA "lstm/model.005", &b, err), CRN_E_FILE, "there are: model.000, model.004");
  FAILS(crn_bundle_open(DATA "lstm/model.005.meta", &b, err), CRN_E_FILE,
        "model.005.meta.index', '" DATA "lstm/model.005.index'");
  FAILS(crn_bundle_open(DATA "lstm/modle.004", &b, err), CRN_E_FILE, "did you mean 'model.004'?");
  FAILS(crn_bundle_open("/no/such/place", &b, err), CRN_E_FILE, "no directory '/no/such'");
  FAILS(crn_bundle_open(DATA "lstm", &b, err), CRN_E_FILE, "lstm/checkpoint'");
  FAILS(crn_bundle_open("", &b, err), CRN_E_FILE, "no checkpoint ''");
  assert_null(b);
}

static void test_directory(void **state) {
  (void)state;
  const char *dir = make_dir();
  char path[300], to[300];
  static const char *suffix[] = {"index", "data-00000-of-00001"};
  for (int i = 0; i < 2; i++) {
    size_t n;
    snprintf(path, sizeof path, DATA "lstm/model.004.%s", suffix[i]);
    snprintf(to, sizeof to, "%s/net.7.%s", dir, suffix[i]);
    uint8_t *p = slurp(path, &n);
    spill(to, p, n);
    free(p);
  }
  crn_bundle *b;
  snprintf(path, sizeof path, "%s/checkpoint", dir);
  const char text[] = "# comment\nall_model_checkpoint_paths: \"x\"\n model_checkpoint_path : \"net\\0567\"\n";
  spill(path, text, sizeof text - 1);
  OK(crn_bundle_open(dir, &b, err));
  assert_int_equal(crn_bundle_count(b), 6);
  crn_bundle_free(b);
  spill(path, "model_checkpoint_path: \"gone\"\n", 30);
  FAILS(crn_bundle_open(dir, &b, err), CRN_E_FILE, "gone.index");
  spill(path, "model_checkpoint_path: \"gone\n", 29);
  FAILS(crn_bundle_open(dir, &b, err), CRN_E_FORMAT, "model_checkpoint_path");
  unlink(path);
  snprintf(path, sizeof path, "%s/net.7.index", dir);
  snprintf(to, sizeof to, "%s/old_format", dir);
  rename(path, to);
  FAILS(crn_bundle_open(to, &b, err), CRN_E_NOT_IMPLEMENTED, "V1 format");
  snprintf(path, sizeof path, "%s/net.7", dir);
  FAILS(crn_bundle_open(path, &b, err), CRN_E_FILE, "without its .index");
  remove_dir(dir);
}

static void test_snappy(void **state) {
  (void)state;
  crn_arena a = {0};
  const uint8_t *out;
  size_t n;
  /* 20 bytes: literal "abcd", copy of 8 from 4 back (1-byte offset), copy of 8 from 12 back (2-byte offset) */
  static const uint8_t good[] = {20, 3 << 2, 'a', 'b', 'c', 'd', 1 | 4 << 2, 4, 2 | 7 << 2, 12, 0};
  OK(crn_snappy_read(&a, good, sizeof good, &out, &n, err));
  assert_int_equal(n, 20);
  assert_memory_equal(out, "abcdabcdabcdabcdabcd", 20);
  uint8_t bad[sizeof good];
  for (size_t cut = 0; cut < sizeof good; cut++)
    FAILS(crn_snappy_read(&a, good, cut, &out, &n, err), CRN_E_FORMAT, "snappy");
  for (size_t i = 0; i < sizeof good; i++)
    for (int bit = 0; bit < 8; bit++) { /* anything but a crash; in the literal, other letters */
      memcpy(bad, good, sizeof bad);
      bad[i] ^= (uint8_t)(1 << bit);
      crn_status s = crn_snappy_read(&a, bad, sizeof bad, &out, &n, NULL);
      assert_true(s == CRN_OK || s == CRN_E_FORMAT);
    }
  static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 0};
  FAILS(crn_snappy_read(&a, huge, sizeof huge, &out, &n, err), CRN_E_FORMAT, "length");
  crn_arena_free(&a);
}

static void test_conversion_of_types(void **state) {
  (void)state;
  static const float x[] = {0.0f, 1.0f, -2.5f, 65504.0f, 1e6f, 6.1035156e-05f, 5.9604645e-08f, 1e-9f, 1.0009765625f};
  static const uint16_t halves[] = {0, 0x3c00, 0xc100, 0x7bff, 0x7c00, 0x0400, 0x0001, 0, 0x3c01};
  uint16_t h[9];
  float back[9];
  OK(crn_tf_convert(CRN_TF_FLOAT32, x, CRN_TF_FLOAT16, h, 9, err));
  assert_memory_equal(h, halves, sizeof halves);
  OK(crn_tf_convert(CRN_TF_FLOAT16, h, CRN_TF_FLOAT32, back, 4, err));
  assert_memory_equal(back, x, 16);
  int64_t big[] = {1, 300}, out64[2];
  uint8_t small[2];
  FAILS(crn_tf_convert(CRN_TF_INT64, big, CRN_TF_UINT8, small, 2, err), CRN_E_FORMAT, "value 300 (element 1)");
  int8_t negative[] = {-1, -128};
  OK(crn_tf_convert(CRN_TF_INT8, negative, CRN_TF_INT64, out64, 2, err));
  assert_true(out64[0] == -1 && out64[1] == -128);
  FAILS(crn_tf_convert(CRN_TF_INT8, negative, CRN_TF_UINT32, out64, 2, err), CRN_E_FORMAT, "-1");
  FAILS(crn_tf_convert(CRN_TF_FLOAT32, x, CRN_TF_INT32, out64, 1, err), CRN_E_FORMAT, "float32 values can't");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_crc),
      cmocka_unit_test(test_list),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_missing_shard),
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_directory),
      cmocka_unit_test(test_snappy),
      cmocka_unit_test(test_conversion_of_types),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
