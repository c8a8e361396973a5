/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads by growing a buffer instead of trusting a size told beforehand, so that pipes and growing files work as well.
 */
#include "base/file.h"

#include "base/str.h"
#include "base/arena.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
