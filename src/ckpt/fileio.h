/* SPDX-License-Identifier: Apache-2.0
 *
 * Files as the checkpoint code uses them. Writing goes through a table of system calls, so that tests can make any call
 * fail, or stop the world at any call.
 */
#ifndef CRN_CKPT_FILEIO_H
#define CRN_CKPT_FILEIO_H

#include "base/arena.h"
#include "base/status.h"

/* System calls with their usual results (-1 and errno). */
typedef struct crn_fileops {
  void *user;
  int (*open)(void *user, const char *path, int flags, int mode);
  int64_t (*pwrite)(void *user, int fd, const void *bytes, size_t n, int64_t offset);
  int (*fsync)(void *user, int fd);
  int (*close)(void *user, int fd);
  int (*rename)(void *user, const char *from, const char *to);
  int (*link)(void *user, const char *from, const char *to);
  int (*unlink)(void *user, const char *path);
  int (*mkdir)(void *user, const char *path, int mode);
} crn_fileops;

const crn_fileops *crn_fileops_system(void);

typedef struct crn_span {
  const void *p;
  size_t n;
} crn_span;

/* Errors that may pass by themselves: no space, quota, busy, I/O. */
bool crn_errno_passes(int error);

/* "can't DOING 'PATH': REASON", code CRN_E_FILE. */
crn_status crn_fail_errno(crn_err *err, const char *doing, const char *path, int error);

/* Whole file into the arena. CRN_E_FILE names the path and the reason. */
crn_status crn_ckpt_read_file(crn_arena *a, const char *path, const uint8_t **bytes, size_t *n, crn_err *err);
/* Exactly n bytes at offset of an open file; path for the message. A shorter file is CRN_E_FORMAT. */
crn_status crn_ckpt_file_pread(int fd, const char *path, int64_t offset, void *dst, size_t n, crn_err *err);

/* Functions for writing: on failure *error is the errno of the call that failed and err has the message. */
/* Create path with these bytes and fsync it. */
crn_status crn_ckpt_file_write(const crn_fileops *ops, const char *path, const crn_span *spans, size_t n, int *error,
                               crn_err *err);
/* Rename; crn_ckpt_file_sync_dir makes it durable. */
crn_status crn_ckpt_file_rename(const crn_fileops *ops, const char *from, const char *to, int *error, crn_err *err);
/* Make the directories above path. */
crn_status crn_ckpt_file_make_parents(const crn_fileops *ops, const char *path, int *error, crn_err *err);
/* fsync of path's directory; file systems that can't do it are no error. */
crn_status crn_ckpt_file_sync_dir(const crn_fileops *ops, const char *path, int *error, crn_err *err);

#endif
