/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a whole file into memory; output files: checked before the work that fills them, written whole or not at all.
 */
#ifndef CRN_BASE_FILE_H
#define CRN_BASE_FILE_H

#include "base/status.h"

/* The content of path in memory of its own (crn_free), a NUL after it; len may be NULL. A file longer than max_bytes
 * is refused (0 = no limit). CRN_E_FILE with the system's reason when it can't be read. */
crn_status crn_file_read(const char *path, size_t max_bytes, char **out, size_t *len, crn_err *err);

/* Whether a file can be written under path: makes its missing parent folders, and tries a file beside it, which is
 * removed again. For the start of long work. CRN_E_FILE with the reason. */
crn_status crn_file_prepare(const char *path, crn_err *err);
/* Write the file under a name beside it (path + ".new_tmp") and rename it, so that under path there is all of it or
 * what was there before. Makes missing parent folders. When it fails nothing new is left, and errno says why. */
crn_status crn_file_write(const char *path, const void *data, size_t len, crn_err *err);
/* For other writers of a file under that name: fail with "can't write 'PATH': REASON" (errno's), and give up temp. */
crn_status crn_file_give_up(const char *path, const char *temp, int error, crn_err *err);
/* Rename the finished file; when that fails it is removed. */
crn_status crn_file_put(const char *temp, const char *path, crn_err *err);

#endif
