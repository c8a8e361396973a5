/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of src/data: making small HDF files and datasets from text.
 */
#ifndef CRN_TESTS_DATA_HELPERS_H
#define CRN_TESTS_DATA_HELPERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/hdf5.h"

#define TEST_OK(expr)                                                                                                  \
  do {                                                                                                                 \
    if ((expr) != CRN_OK) fail_msg("%s: %s", #expr, crn_err_text(&err));                                               \
  } while (0)

static inline const char *temp_path(const char *name) {
  static char path[8][300];
  static int n;
  char *p = path[n++ % 8];
  const char *dir = getenv("TMPDIR");
  snprintf(p, sizeof path[0], "%s/crn_test_%ld_%s", dir ? dir : "/tmp", (long)getpid(), name);
  return p;
}

/* A file in the format of HDFDataset: data float32 [T,2] with data[t] = {seq, t}, classes int32 [T'] = t mod 5.
 * class_lens NULL: as lens. Tags are seq-0, … */
static inline const char *write_hdf(const char *name, const int64_t *lens, const int64_t *class_lens, int64_t n) {
  crn_err err = {0};
  const char *path = temp_path(name);
  remove(path);
  if (!class_lens) class_lens = lens;
  int64_t frames = 0, labels = 0;
  for (int64_t i = 0; i < n; i++) {
    frames += lens[i];
    labels += class_lens[i];
  }
  float *data = crn_calloc((size_t)frames * 2 + 1, sizeof *data);
  int32_t *classes = crn_calloc((size_t)labels + 1, sizeof *classes), *table = crn_calloc((size_t)n * 2 + 1, 4);
  char(*tags)[24] = crn_calloc((size_t)n + 1, sizeof *tags);
  const char **tag_list = crn_calloc((size_t)n + 1, sizeof *tag_list);
  int64_t f = 0, l = 0;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t t = 0; t < lens[i]; t++, f++) {
      data[2 * f] = (float)i;
      data[2 * f + 1] = (float)t;
    }
    for (int64_t t = 0; t < class_lens[i]; t++) classes[l++] = (int32_t)(t % 5);
    table[2 * i] = (int32_t)lens[i];
    table[2 * i + 1] = (int32_t)class_lens[i];
    snprintf(tags[i], sizeof tags[i], "seq-%d", (int)i);
    tag_list[i] = tags[i];
  }
  crn_h5 *h5;
  int64_t two[1] = {2}, size[2] = {5, 1};
  TEST_OK(crn_h5_create(path, &h5, &err));
  TEST_OK(crn_h5_write(h5, "inputs", CRN_NT_F32, 2, (int64_t[]){frames, 2}, data, &err));
  TEST_OK(crn_h5_write(h5, "targets/data/classes", CRN_NT_I32, 1, &labels, classes, &err));
  TEST_OK(crn_h5_make_group(h5, "targets/size", &err));
  TEST_OK(crn_h5_make_group(h5, "targets/labels", &err));
  TEST_OK(crn_h5_write_attr(h5, "targets/size", "classes", CRN_NT_I64, 1, two, size, &err));
  TEST_OK(crn_h5_write(h5, "seqLengths", CRN_NT_I32, 2, (int64_t[]){n, 2}, table, &err));
  TEST_OK(crn_h5_write_strings(h5, "seqTags", CRN_H5_VARIABLE, tag_list, (size_t)n, &err));
  TEST_OK(crn_h5_write_attr_int(h5, "", "inputPattSize", 2, &err));
  TEST_OK(crn_h5_close(h5, &err));
  crn_free(data);
  crn_free(classes);
  crn_free(table);
  crn_free(tags);
  crn_free(tag_list);
  return path;
}

/* A value from Python's literal text, in the arena. */
static inline crn_value *literal(crn_arena *a, const char *text) {
  crn_err err = {0};
  crn_value *v = NULL;
  TEST_OK(crn_v_parse_literal(a, text, "test", &v, &err));
  return v;
}

/* A dataset from a literal; "@" in the text stands for path. */
static inline crn_status new_dataset(const char *text, const char *path, crn_dataset **out, crn_err *err) {
  crn_arena a = {0};
  crn_str s = {0};
  for (const char *p = text; *p; p++) {
    if (*p == '@')
      crn_str_add(&s, path);
    else
      crn_str_addc(&s, *p);
  }
  crn_value *v = literal(&a, crn_str_get(&s));
  crn_status code = crn_dataset_new(v, NULL, "test", NULL, out, err);
  crn_str_free(&s);
  crn_arena_free(&a);
  return code;
}

/* The tags of the epoch's sequences without "seq-", joined by spaces. */
static inline void check_order(crn_dataset *ds, const char *expected) {
  crn_err err = {0};
  crn_str s = {0};
  bool more;
  for (int64_t i = 0;; i++) {
    const char *tag;
    TEST_OK(crn_dataset_has_seq(ds, i, &more, &err));
    if (!more) break;
    TEST_OK(crn_dataset_tag(ds, i, &tag, &err));
    crn_str_addf(&s, "%s%s", i ? " " : "", crn_starts_with(tag, "seq-") ? tag + 4 : tag);
  }
  assert_string_equal(crn_str_get(&s), expected);
  crn_str_free(&s);
}

#endif
