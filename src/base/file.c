/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads by growing a buffer instead of trusting a size told beforehand, so that pipes and growing files work as well.
 * Output goes under a temporary name in the same folder first; a rename is the one step that can't be seen half done.
 */
#include "base/file.h"

#include "base/str.h"
#include "base/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static crn_status read_stream(FILE *f, const char *path, size_t max_bytes, crn_str *text, crn_err *err) {
  char buffer[16384];
  for (;;) {
    size_t n = fread(buffer, 1, sizeof buffer, f);
    if (n == 0) break;
    if (max_bytes && n > max_bytes - text->len)
      return crn_fail(err, CRN_E_FORMAT, "%s: longer than %zu bytes", path, max_bytes);
    crn_str_addn(text, buffer, n);
    if (!crn_str_ok(text)) return crn_err_memory(err);
  }
  if (ferror(f)) return crn_fail(err, CRN_E_FILE, "can't read %s: %s", path, strerror(errno));
  return CRN_OK;
}

crn_status crn_file_read(const char *path, size_t max_bytes, char **out, size_t *len, crn_err *err) {
  *out = NULL;
  FILE *f = fopen(path, "rb");
  if (!f) return crn_fail(err, CRN_E_FILE, "can't open %s: %s", path, strerror(errno));
  crn_str text = {0};
  crn_status status = read_stream(f, path, max_bytes, &text, err);
  fclose(f);
  crn_str_addn(&text, "", 0); /* an empty file is an empty string */
  if (status == CRN_OK && !crn_str_ok(&text)) status = crn_err_memory(err);
  if (status != CRN_OK) {
    crn_str_free(&text);
    return status;
  }
  if (len) *len = text.len;
  *out = text.p;
  return CRN_OK;
}

/* ---- writing --------------------------------------------------------------------------------------------------------
 */

static crn_status make_parents(const char *path, crn_err *err) {
  crn_str folder = {0};
  crn_status status = CRN_OK;
  for (const char *p = strchr(path, '/'); p && status == CRN_OK; p = strchr(p + 1, '/')) {
    crn_str_clear(&folder);
    crn_str_addn(&folder, path, (size_t)(p - path));
    if (!crn_str_ok(&folder)) status = crn_err_memory(err);
    if (status != CRN_OK || !folder.len || mkdir(folder.p, 0777) == 0 || errno == EEXIST) continue;
    const int error = errno; /* e.g. of a file system that can't be written, where the folder is there */
    struct stat st;
    if (stat(folder.p, &st) != 0 || !S_ISDIR(st.st_mode))
      status = crn_fail(err, CRN_E_FILE, "can't make the folder '%s': %s", folder.p, strerror(error));
  }
  crn_str_free(&folder);
  return status;
}

crn_status crn_file_give_up(const char *path, const char *temp, int error, crn_err *err) {
  if (temp) (void)unlink(temp);
  (void)crn_fail(err, CRN_E_FILE, "can't write '%s': %s", path, strerror(error));
  errno = error;
  return CRN_E_FILE;
}

crn_status crn_file_put(const char *temp, const char *path, crn_err *err) {
  if (rename(temp, path) == 0) return CRN_OK;
  const int error = errno;
  const bool gone = error == ENOENT && access(temp, F_OK) != 0;
  (void)crn_file_give_up(path, temp, error, err);
  if (gone) crn_err_append(err, " ('%s' is gone: does another process write the same file?)", temp);
  return CRN_E_FILE;
}

static crn_status temporary_name(const char *path, crn_str *out, crn_err *err) {
  crn_str_addf(out, "%s.new_tmp", path);
  return crn_str_ok(out) ? CRN_OK : crn_err_memory(err);
}

crn_status crn_file_prepare(const char *path, crn_err *err) {
  struct stat st;
  CRN_TRY(make_parents(path, err));
  if (!*path) return crn_file_give_up(path, NULL, ENOENT, err);
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return crn_file_give_up(path, NULL, EISDIR, err);
  crn_str temp = {0};
  crn_status status = temporary_name(path, &temp, err);
  if (status == CRN_OK) {
    const bool was_there = access(temp.p, F_OK) == 0;
    const int fd = open(temp.p, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) status = crn_file_give_up(path, NULL, errno, err);
    if (fd >= 0) close(fd);
    if (fd >= 0 && !was_there) (void)unlink(temp.p);
  }
  crn_str_free(&temp);
  return status;
}

static bool write_stream(FILE *f, const void *data, size_t len, int *error) {
  bool ok = fwrite(data, 1, len, f) == len && fflush(f) == 0 && fsync(fileno(f)) == 0;
  *error = errno;
  if (fclose(f) != 0 && ok) {
    ok = false;
    *error = errno;
  }
  return ok;
}

crn_status crn_file_write(const char *path, const void *data, size_t len, crn_err *err) {
  crn_str temp = {0};
  crn_status status = make_parents(path, err);
  if (status == CRN_OK) status = temporary_name(path, &temp, err);
  if (status == CRN_OK) {
    FILE *f = fopen(temp.p, "wb");
    int error = errno;
    if (!f || !write_stream(f, data, len, &error))
      status = crn_file_give_up(path, f ? temp.p : NULL, error, err);
    else
      status = crn_file_put(temp.p, path, err);
  }
  crn_str_free(&temp);
  return status;
}
