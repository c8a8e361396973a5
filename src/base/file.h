/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a whole file into memory.
 */
#ifndef CRN_BASE_FILE_H
#define CRN_BASE_FILE_H

#include "base/status.h"

/* The content of path in memory of its own (crn_free), a NUL after it; len may be NULL. A file longer than max_bytes
 * is refused (0 = no limit). CRN_E_FILE with the system's reason when it can't be read. */
crn_status crn_file_read(const char *path, size_t max_bytes, char **out, size_t *len, crn_err *err);

#endif
