/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading text files through zlib, which passes plain files on as they are.
 */
#include "data/textfile.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/str.h"
#include "data/pickle.h"

/* Devices may have no end. A directory is told when it is read, with the system's reason. */
static crn_status refuse_device(const char *path, crn_err *err) {
  struct stat st;
  if (stat(path, &st) != 0 || (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))) return CRN_OK;
  return crn_fail(err, CRN_E_FILE, "%s: is a device, expected a file", path);
}

/* Bytes of the machine's memory: a file that unpacks to more is not to be read whole. */
static size_t most_bytes(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), each = sysconf(_SC_PAGESIZE);
  return pages > 0 && each > 0 ? (size_t)pages * (size_t)each : SIZE_MAX;
}

crn_status crn_text_load(const char *path, crn_str *out, crn_err *err) {
  CRN_TRY(refuse_device(path, err));
  errno = 0;
  gzFile f = gzopen(path, "rb");
  if (!f) return crn_fail(err, CRN_E_FILE, "%s: %s", path, errno ? strerror(errno) : "can't be opened");
  const size_t most = most_bytes();
  char buf[65536];
  int got;
  while ((got = gzread(f, buf, sizeof buf)) > 0 && out->len < most && crn_str_ok(out))
    crn_str_addn(out, buf, (size_t)got);
  int code = Z_OK;
  const char *why = gzerror(f, &code);
  crn_status st = CRN_OK;
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    if (crn_starts_with(why, path) && strlen(why) > strlen(path) + 2) why += strlen(path) + 2; /* "PATH: reason" */
    st = crn_fail(err, CRN_E_FORMAT, "%s: %s", path, code == Z_ERRNO ? strerror(errno) : why);
  } else if (got > 0 && crn_str_ok(out)) {
    st = crn_fail(err, CRN_E_FILE, "%s: longer than this machine's memory (%zu bytes)", path, most);
  }
  gzclose(f);
  if (st == CRN_OK && !crn_str_ok(out)) st = crn_err_memory(err);
  if (st != CRN_OK) crn_str_free(out);
  return st;
}

crn_status crn_text_read(crn_arena *a, const char *path, char **text, size_t *len, crn_err *err) {
  crn_str s = {0};
  CRN_TRY(crn_text_load(path, &s, err));
  *text = crn_arena_alloc(a, s.len + 1);
  *len = s.len;
  if (*text && s.len) memcpy(*text, s.p, s.len);
  crn_str_free(&s);
  return *text ? CRN_OK : crn_err_memory(err);
}

crn_status crn_text_lines(crn_arena *a, const char *path, char ***lines, size_t *n, crn_err *err) {
  char *text;
  size_t len;
  CRN_TRY(crn_text_read(a, path, &text, &len, err));
  size_t count = 0;
  for (size_t i = 0; i < len; i++) count += text[i] == '\n';
  if (len && text[len - 1] != '\n') count++;
  char **out = CRN_ARENA_ARRAY(a, char *, count + 1);
  if (!out) return crn_err_memory(err);
  char *at = text, *end = text + len;
  for (size_t i = 0; i < count; i++) {
    char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    out[i] = at;
    *stop = 0;
    if (stop > at && stop[-1] == '\r') stop[-1] = 0;
    at = stop + 1;
  }
  *lines = out;
  *n = count;
  return CRN_OK;
}

crn_status crn_text_literal(crn_arena *a, const char *path, crn_value **out, crn_err *err) {
  char *text;
  size_t len;
  CRN_TRY(crn_text_read(a, path, &text, &len, err));
  return crn_v_parse_literal(a, text, path, out, err);
}

static crn_status pickled_tags(crn_arena *a, const char *path, char ***tags, size_t *n, crn_err *err) {
  crn_value *list;
  CRN_TRY(crn_pickle_read(a, path, &list, err));
  if (!crn_v_is_seq(list)) return crn_fail(err, CRN_E_FORMAT, "%s: expected a pickled list of tags", path);
  *n = crn_v_len(list);
  *tags = CRN_ARENA_ARRAY(a, char *, *n + 1);
  if (!*tags) return crn_err_memory(err);
  for (size_t i = 0; i < *n; i++) {
    const char *tag = crn_v_cstr(crn_v_at(list, i));
    if (!tag) return crn_fail(err, CRN_E_FORMAT, "%s: entry %zu is no string", path, i + 1);
    (*tags)[i] = crn_arena_strdup(a, tag);
    if (!(*tags)[i]) return crn_err_memory(err);
  }
  return CRN_OK;
}

crn_status crn_text_tags(crn_arena *a, const char *path, char ***tags, size_t *n, crn_err *err) {
  if (crn_ends_with(path, ".pkl") || crn_ends_with(path, ".pkl.gz")) return pickled_tags(a, path, tags, n, err);
  CRN_TRY(crn_text_lines(a, path, tags, n, err));
  while (*n && !(*tags)[*n - 1][0]) --*n; /* empty lines at the end are no tags */
  return CRN_OK;
}
