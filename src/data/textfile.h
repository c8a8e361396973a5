/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole text files, plain or gzipped, and their lines.
 */
#ifndef CRN_DATA_TEXTFILE_H
#define CRN_DATA_TEXTFILE_H

#include "base/arena.h"
#include "value/value.h"

/* Whole content, unpacked if it is gzipped, with a zero byte behind it; in the arena. */
crn_status crn_text_read(crn_arena *a, const char *path, char **text, size_t *len, crn_err *err);
/* The same into a string of its own, for large files. */
crn_status crn_text_load(const char *path, crn_str *out, crn_err *err);
/* Lines without their ends ("\n", "\r\n"); a last line without end counts. *lines points into the arena. */
crn_status crn_text_lines(crn_arena *a, const char *path, char ***lines, size_t *n, crn_err *err);
/* A Python literal (dict, list) from a text file. */
crn_status crn_text_literal(crn_arena *a, const char *path, crn_value **out, crn_err *err);
/* A list of tags: text with one a line, or a pickled list (.pkl), each optionally .gz. */
crn_status crn_text_tags(crn_arena *a, const char *path, char ***tags, size_t *n, crn_err *err);

#endif
