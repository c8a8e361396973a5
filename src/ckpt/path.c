/* SPDX-License-Identifier: Apache-2.0
 *
 * People give a checkpoint as prefix, as one of its files or as its directory; all are understood. When nothing is
 * there, the message says what was tried and what is there instead.
 */
#define _GNU_SOURCE
#include "ckpt/path.h"

#include "base/str.h"
#include "ckpt/state_file.h"
#include "ckpt/table.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_LISTED = 12 };

char *crn_ckpt_index_path(crn_arena *a, const char *prefix) { return crn_arena_printf(a, "%s.index", prefix); }

char *crn_ckpt_data_path(crn_arena *a, const char *prefix, int32_t shard, int32_t n_shards) {
  return crn_arena_printf(a, "%s.data-%05d-of-%05d", prefix, shard, n_shards);
}

/* Length of a suffix ".data-SSSSS-of-NNNNN" of s, or 0. */
static size_t data_suffix(const char *s) {
  const char *dot = strrchr(s, '.');
  if (!dot || !crn_starts_with(dot, ".data-")) return 0;
  const char *p = dot + 6;
  size_t shard = strspn(p, "0123456789");
  if (shard < 5 || !crn_starts_with(p + shard, "-of-")) return 0;
  p += shard + 4;
  size_t total = strspn(p, "0123456789");
  return total >= 5 && p[total] == 0 ? strlen(dot) : 0;
}

char *crn_ckpt_strip_suffix(crn_arena *a, const char *path) {
  size_t n = strlen(path), suffix = data_suffix(path);
  if (!suffix && crn_ends_with(path, ".index")) suffix = 6;
  if (!suffix && crn_ends_with(path, ".meta")) suffix = 5;
  return crn_arena_strndup(a, path, n - suffix);
}

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

static bool is_directory(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool crn_bundle_exists(const char *prefix) {
  crn_arena a = {0};
  char *index = crn_ckpt_index_path(&a, prefix);
  bool there = index && is_file(index);
  crn_arena_free(&a);
  return there;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorted names of the checkpoints in a directory; at most cap of them. */
static size_t list_checkpoints(crn_arena *a, const char *directory, const char **names, size_t cap) {
  DIR *d = opendir(directory);
  if (!d) return 0;
  size_t n = 0;
  for (struct dirent *f = readdir(d); f && n < cap; f = readdir(d)) {
    if (!crn_ends_with(f->d_name, ".index")) continue;
    char *name = crn_arena_strndup(a, f->d_name, strlen(f->d_name) - 6);
    if (name) names[n++] = name;
  }
  closedir(d);
  qsort(names, n, sizeof names[0], by_text);
  return n;
}

static bool data_without_index(const char *directory, const char *base) {
  DIR *d = opendir(directory);
  if (!d) return false;
  bool found = false;
  size_t n = strlen(base);
  for (struct dirent *f = readdir(d); f && !found; f = readdir(d))
    found = strncmp(f->d_name, base, n) == 0 && data_suffix(f->d_name) == strlen(f->d_name + n) && f->d_name[n] == '.';
  closedir(d);
  return found;
}

static crn_status fail_not_found(crn_arena *a, const char *path, const char *const *tried, size_t n_tried,
                                 crn_err *err) {
  crn_status status = crn_fail(err, CRN_E_FILE, "no checkpoint '%s': tried", path);
  for (size_t i = 0; i < n_tried; i++) crn_err_append(err, "%s '%s'", i ? "," : "", tried[i]);
  const char *prefix = crn_ckpt_strip_suffix(a, path);
  const char *slash = prefix ? strrchr(prefix, '/') : NULL;
  const char *base = slash ? slash + 1 : prefix;
  const char *directory = slash ? crn_arena_strndup(a, prefix, (size_t)(slash - prefix)) : ".";
  if (!prefix || !directory) return status;
  if (slash == prefix) directory = "/";
  if (is_directory(path)) directory = path, base = "";
  if (!is_directory(directory)) {
    crn_err_append(err, "; there is no directory '%s'", directory);
    return status;
  }
  if (data_without_index(directory, base)) {
    crn_err_append(err, "; the data file is there, but without its .index it can't be read");
    return status;
  }
  enum { CAP = 4096 };
  const char **names = CRN_ARENA_ARRAY(a, const char *, CAP);
  size_t n = names ? list_checkpoints(a, directory, names, CAP) : 0;
  crn_err_append(err, n ? "; in '%s' there are:" : "; in '%s' there are no checkpoints", directory);
  for (size_t i = 0; i < n && i < MAX_LISTED; i++) crn_err_append(err, "%s %s", i ? "," : "", names[i]);
  if (n > MAX_LISTED) crn_err_append(err, ", … (%zu)", n);
  const char *nearest = crn_nearest(base, names, n);
  if (nearest) crn_err_append(err, "; did you mean '%s'?", nearest);
  return status;
}

/* The old format is a table in a single file without suffix. */
static bool is_v1_file(const char *path) {
  FILE *f = fopen(path, "rb");
  uint8_t tail[CRN_TABLE_FOOTER_BYTES];
  bool found = f && fseek(f, -(long)sizeof tail, SEEK_END) == 0 && fread(tail, 1, sizeof tail, f) == sizeof tail &&
               crn_table_has_magic(tail, sizeof tail);
  if (f) fclose(f);
  return found;
}

crn_status crn_ckpt_find(crn_arena *a, const char *path, const char **prefix, crn_err *err) {
  const char *tried[3];
  size_t n_tried = 0;
  const char *candidates[2] = {path, crn_ckpt_strip_suffix(a, path)};
  for (int i = 0; i < 2; i++) {
    if (!candidates[i]) return crn_err_memory(err);
    if (i == 1 && strcmp(candidates[0], candidates[1]) == 0) continue;
    char *index = crn_ckpt_index_path(a, candidates[i]);
    if (!index) return crn_err_memory(err);
    if (is_file(index)) {
      *prefix = crn_arena_strdup(a, candidates[i]);
      return *prefix ? CRN_OK : crn_err_memory(err);
    }
    tried[n_tried++] = index;
  }
  if (is_directory(path)) {
    const char *state = crn_arena_printf(a, "%s/checkpoint", path);
    if (!state) return crn_err_memory(err);
    if (is_file(state)) {
      CRN_TRY(crn_ckpt_state_read(a, path, prefix, err));
      if (crn_bundle_exists(*prefix)) return CRN_OK;
      return crn_fail(err, CRN_E_FILE, "'%s' names '%s', but there is no '%s.index'", state, *prefix, *prefix);
    }
    tried[n_tried++] = state;
  }
  if (is_file(path) && is_v1_file(path))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: '%s' is a checkpoint in TensorFlow's V1 format",
                    path);
  return fail_not_found(a, path, tried, n_tried, err);
}
