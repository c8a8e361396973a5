/* SPDX-License-Identifier: Apache-2.0
 *
 * Deleting a checkpoint.
 */
#include "ckpt/bundle.h"
#include "ckpt/path.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static crn_status unlink_if_there(const char *path, crn_err *err) {
  if (!path) return crn_err_memory(err);
  if (unlink(path) == 0 || errno == ENOENT) return CRN_OK;
  return crn_fail_errno(err, "delete", path, errno);
}

/* Data files of base in an open directory, whose path (with slash, "" = here) is directory. */
static crn_status remove_data(crn_arena *a, DIR *d, const char *directory, const char *base, crn_err *err) {
  size_t n = strlen(base);
  for (struct dirent *f = readdir(d); f; f = readdir(d)) {
    if (strncmp(f->d_name, base, n) != 0 || !crn_starts_with(f->d_name + n, ".data-")) continue;
    CRN_TRY(unlink_if_there(crn_arena_printf(a, "%s%s", directory, f->d_name), err));
  }
  return CRN_OK;
}

static crn_status remove_files(crn_arena *a, const char *prefix, crn_err *err) {
  CRN_TRY(unlink_if_there(crn_ckpt_index_path(a, prefix), err));
  CRN_TRY(unlink_if_there(crn_arena_printf(a, "%s.meta", prefix), err));
  const char *slash = strrchr(prefix, '/');
  const char *base = slash ? slash + 1 : prefix;
  char *directory = crn_arena_strndup(a, prefix, (size_t)(base - prefix));
  if (!directory) return crn_err_memory(err);
  const char *opened = directory[0] ? directory : ".";
  DIR *d = opendir(opened);
  if (!d) return errno == ENOENT ? CRN_OK : crn_fail_errno(err, "open", opened, errno);
  crn_status status = remove_data(a, d, directory, base, err);
  closedir(d);
  return status;
}

crn_status crn_bundle_remove(const char *prefix, crn_err *err) {
  crn_arena a = {0};
  crn_status status = remove_files(&a, prefix, err);
  crn_arena_free(&a);
  return status;
}
