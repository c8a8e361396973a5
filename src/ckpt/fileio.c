/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading whole files and writing them durably, with messages that name the path and the system's reason.
 */
#define _GNU_SOURCE
#include "ckpt/fileio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int sys_open(void *user, const char *path, int flags, int mode) {
  (void)user;
  return open(path, flags, (mode_t)mode);
}

static int64_t sys_pwrite(void *user, int fd, const void *bytes, size_t n, int64_t offset) {
  (void)user;
  return pwrite(fd, bytes, n, (off_t)offset);
}

static int sys_fsync(void *user, int fd) {
  (void)user;
  return fsync(fd);
}

static int sys_close(void *user, int fd) {
  (void)user;
  return close(fd);
}

static int sys_rename(void *user, const char *from, const char *to) {
  (void)user;
  return rename(from, to);
}

static int sys_link(void *user, const char *from, const char *to) {
  (void)user;
  return link(from, to);
}

static int sys_unlink(void *user, const char *path) {
  (void)user;
  return unlink(path);
}

static int sys_mkdir(void *user, const char *path, int mode) {
  (void)user;
  return mkdir(path, (mode_t)mode);
}

const crn_fileops *crn_fileops_system(void) {
  static const crn_fileops ops = {NULL,       sys_open, sys_pwrite, sys_fsync, sys_close,
                                  sys_rename, sys_link, sys_unlink, sys_mkdir};
  return &ops;
}

bool crn_errno_passes(int error) { return error == ENOSPC || error == EDQUOT || error == EBUSY || error == EIO; }

/* strerror of this thread: strerror itself isn't safe with threads. */
crn_status crn_fail_errno(crn_err *err, const char *doing, const char *path, int error) {
  char text[128] = "";
  const char *reason = strerror_r(error, text, sizeof text);
  return crn_fail(err, CRN_E_FILE, "can't %s '%s': %s", doing, path, reason);
}

static crn_status fail_write(crn_err *err, const char *doing, const char *path, int *error) {
  *error = errno;
  return crn_fail_errno(err, doing, path, errno);
}

crn_status crn_ckpt_file_pread(int fd, const char *path, int64_t offset, void *dst, size_t n, crn_err *err) {
  char *p = dst;
  for (size_t done = 0; done < n;) {
    ssize_t got = pread(fd, p + done, n - done, (off_t)(offset + (int64_t)done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return crn_fail_errno(err, "read", path, errno);
    if (got == 0)
      return crn_fail(err, CRN_E_FORMAT, "'%s' is cut: it ends at byte %lld, %lld expected", path,
                      (long long)(offset + (int64_t)done), (long long)(offset + (int64_t)n));
    done += (size_t)got;
  }
  return CRN_OK;
}

crn_status crn_ckpt_read_file(crn_arena *a, const char *path, const uint8_t **bytes, size_t *n, crn_err *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return crn_fail_errno(err, "open", path, errno);
  crn_status status = CRN_OK;
  struct stat st;
  uint8_t *p = NULL;
  if (fstat(fd, &st) != 0)
    status = crn_fail_errno(err, "read", path, errno);
  else if (!S_ISREG(st.st_mode))
    status = crn_fail(err, CRN_E_FILE, "can't read '%s': not a regular file", path);
  else if (!(p = crn_arena_alloc(a, (size_t)st.st_size + 1)))
    status = crn_err_memory(err);
  else
    status = crn_ckpt_file_pread(fd, path, 0, p, (size_t)st.st_size, err);
  close(fd);
  *bytes = p;
  *n = status == CRN_OK ? (size_t)st.st_size : 0;
  return status;
}

static bool write_span(const crn_fileops *ops, int fd, const crn_span *span, int64_t offset) {
  const char *p = span->p;
  for (size_t done = 0; done < span->n;) {
    int64_t put = ops->pwrite(ops->user, fd, p + done, span->n - done, offset + (int64_t)done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      if (put == 0) errno = EIO;
      return false;
    }
    done += (size_t)put;
  }
  return true;
}

crn_status crn_ckpt_file_write(const crn_fileops *ops, const char *path, const crn_span *spans, size_t n, int *error,
                               crn_err *err) {
  int fd = ops->open(ops->user, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return fail_write(err, "create", path, error);
  int64_t offset = 0;
  bool good = true;
  for (size_t i = 0; i < n && good; i++) {
    good = write_span(ops, fd, &spans[i], offset);
    offset += (int64_t)spans[i].n;
  }
  if (good) good = ops->fsync(ops->user, fd) == 0;
  int saved = errno;
  /* Some network file systems report a full disk only now. */
  if (ops->close(ops->user, fd) != 0 && good) {
    good = false;
    saved = errno;
  }
  errno = saved;
  return good ? CRN_OK : fail_write(err, "write", path, error);
}

static void parent_of(const char *path, char *out, size_t cap) {
  const char *slash = strrchr(path, '/');
  if (!slash)
    snprintf(out, cap, ".");
  else if (slash == path)
    snprintf(out, cap, "/");
  else
    snprintf(out, cap, "%.*s", (int)(slash - path), path);
}

crn_status crn_ckpt_file_sync_dir(const crn_fileops *ops, const char *path, int *error, crn_err *err) {
  char dir[4096];
  parent_of(path, dir, sizeof dir);
  int fd = ops->open(ops->user, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0 && crn_errno_passes(errno)) return fail_write(err, "open", dir, error);
  if (fd < 0) return CRN_OK; /* not readable for us: the renames themselves worked */
  int result = ops->fsync(ops->user, fd);
  int saved = errno;
  ops->close(ops->user, fd);
  errno = saved;
  if (result != 0 && crn_errno_passes(saved)) return fail_write(err, "sync", dir, error);
  return CRN_OK;
}

crn_status crn_ckpt_file_rename(const crn_fileops *ops, const char *from, const char *to, int *error, crn_err *err) {
  if (ops->rename(ops->user, from, to) == 0) return CRN_OK;
  const bool gone = errno == ENOENT;
  const crn_status st = fail_write(err, "rename a new file to", to, error);
  if (gone) crn_err_append(err, " ('%s' is gone: does another process write the same checkpoint?)", from);
  return st;
}

crn_status crn_ckpt_file_make_parents(const crn_fileops *ops, const char *path, int *error, crn_err *err) {
  char dir[4096];
  if (strlen(path) >= sizeof dir) {
    errno = ENAMETOOLONG;
    return fail_write(err, "write", path, error);
  }
  parent_of(path, dir, sizeof dir);
  for (char *p = dir + 1; dir[0] && p[-1]; p++) {
    if (*p != '/' && *p) continue;
    char kept = *p;
    *p = 0;
    if (ops->mkdir(ops->user, dir, 0777) != 0 && errno != EEXIST) {
      int saved = errno;
      struct stat st;
      if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) { /* e.g. EROFS for a directory that is there */
        errno = saved;
        return fail_write(err, "make directory", dir, error);
      }
    }
    if (!kept) break;
    *p = kept;
  }
  return CRN_OK;
}
