/* SPDX-License-Identifier: Apache-2.0
 *
 * Help for the checkpoint tests: files, temporary directories, failures with their message.
 */
#ifndef TEST_CKPT_UTIL_H
#define TEST_CKPT_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/bundle.h"

#define DATA CRN_SOURCE_DIR "/tests/data/ckpt/"

#define OK(expr)                                                                                                       \
  do {                                                                                                                 \
    crn_err ok_err = {0};                                                                                              \
    crn_err *err = &ok_err;                                                                                            \
    crn_status ok_status = (expr);                                                                                     \
    if (ok_status != CRN_OK) fail_msg("%s: %s", #expr, crn_err_text(err));                                             \
    crn_err_clear(err);                                                                                                \
  } while (0)

/* expr must fail with this status and a message that has the text. */
#define FAILS(expr, status, text)                                                                                      \
  do {                                                                                                                 \
    crn_err fails_err = {0};                                                                                           \
    crn_err *err = &fails_err;                                                                                         \
    assert_int_equal((expr), (status));                                                                                \
    if (!strstr(crn_err_text(err), (text))) fail_msg("message '%s' lacks '%s'", crn_err_text(err), (text));            \
    crn_err_clear(err);                                                                                                \
  } while (0)

static inline char *make_dir(void) {
  static char path[64];
  snprintf(path, sizeof path, "/tmp/crn_ckpt_XXXXXX");
  assert_non_null(mkdtemp(path));
  return path;
}

static inline int count_files(const char *dir) {
  DIR *d = opendir(dir);
  if (!d) return 0;
  int n = 0;
  for (struct dirent *f = readdir(d); f; f = readdir(d)) n += f->d_name[0] != '.';
  closedir(d);
  return n;
}

static inline void remove_dir(const char *dir) {
  DIR *d = opendir(dir);
  if (!d) return;
  for (struct dirent *f = readdir(d); f; f = readdir(d)) {
    char path[1024];
    struct stat st;
    snprintf(path, sizeof path, "%.700s/%s", dir, f->d_name);
    if (!strcmp(f->d_name, ".") || !strcmp(f->d_name, "..")) continue;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
      remove_dir(path);
    else
      unlink(path);
  }
  closedir(d);
  rmdir(dir);
}

/* Content of a file, malloc'ed. */
static inline uint8_t *slurp(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("can't open %s", path);
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  uint8_t *p = malloc(*n + 1);
  assert_non_null(p);
  assert_int_equal(fread(p, 1, *n, f), *n);
  fclose(f);
  return p;
}

static inline void spill(const char *path, const void *p, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f) fail_msg("can't create %s", path);
  assert_int_equal(fwrite(p, 1, n, f), n);
  fclose(f);
}

static inline void assert_same_file(const char *a, const char *b) {
  size_t na, nb;
  uint8_t *pa = slurp(a, &na), *pb = slurp(b, &nb);
  assert_int_equal(na, nb);
  assert_memory_equal(pa, pb, na);
  free(pa);
  free(pb);
}

static inline float *read_floats(const crn_bundle *b, const char *name, int64_t n) {
  const crn_bundle_entry *e = crn_bundle_find(b, name);
  if (!e) fail_msg("no variable %s", name);
  assert_int_equal(e->n_elements, n);
  float *p = malloc((size_t)n * sizeof *p);
  assert_non_null(p);
  OK(crn_bundle_read(b, e, p, (size_t)n * sizeof *p, err));
  return p;
}

#endif
