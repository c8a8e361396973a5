/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading config files: which kind one is, and the kinds that need no Python.
 */
#include "base/file.h"
#include "config/config_internal.h"

#include <ctype.h>
#include <string.h>

enum { MAX_FILE = 256 << 20 };

typedef enum file_kind { KIND_JSON, KIND_PYTHON, KIND_LINES } file_kind;

/* Whether a line of code can be told from a line "key value": the key is a plain name that is no word of Python, and
 * what follows, after space, isn't an assignment or other continuation of an expression. */
static bool is_key_value(const char *line, size_t n) {
  static const char *const words[] = {"import", "from",  "def", "class",  "if",     "for",  "while", "with",  "try:",
                                      "assert", "print", "del", "global", "return", "pass", "raise", "async", "else:"};
  size_t key = 0;
  while (key < n && (isalnum((unsigned char)line[key]) || strchr("_-.", line[key]))) key++;
  if (!key || key == n || !isspace((unsigned char)line[key])) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == key && !strncmp(line, words[i], key)) return false;
  size_t at = key;
  while (at < n && isspace((unsigned char)line[at])) at++;
  return at < n && !strchr("=+*/%(:|&@<>", line[at]);
}

/* The first line that isn't empty or a comment decides between Python and "key value". */
static file_kind kind_of(const char *path, const char *text) {
  const char *first = text + strspn(text, " \t\r\n");
  if (crn_ends_with(path, ".json") || *first == '{') return KIND_JSON;
  if (crn_ends_with(path, ".py") || crn_starts_with(text, "#!")) return KIND_PYTHON;
  while (*first == '#') {
    first += strcspn(first, "\n");
    first += strspn(first, " \t\r\n");
  }
  return is_key_value(first, strcspn(first, "\r\n")) ? KIND_LINES : KIND_PYTHON;
}

crn_value *crn_config_split(crn_arena *a, const char *text) {
  crn_value *list = crn_v_seq(a, CRN_V_LIST);
  for (const char *p = text;; p++) {
    size_t n = strcspn(p, ",");
    const char *start = p, *end = p + n;
    while (start < end && isspace((unsigned char)*start)) start++;
    while (end > start && isspace((unsigned char)end[-1])) end--;
    crn_value *piece = crn_v_strn(a, start, (size_t)(end - start));
    if (!p[n] && p == text) return piece;
    if (!crn_v_push(a, list, piece)) return NULL;
    p += n;
    if (!*p) return list;
  }
}

/* One line "key value"; comments start with "#". */
static crn_status add_line(crn_config *c, const char *start, size_t n, int line, crn_err *err) {
  const char *comment = memchr(start, '#', n), *end = comment ? comment : start + n;
  while (start < end && isspace((unsigned char)*start)) start++;
  while (end > start && isspace((unsigned char)end[-1])) end--;
  if (start == end) return CRN_OK;
  const char *gap = start;
  while (gap < end && !isspace((unsigned char)*gap)) gap++;
  if (gap == end)
    return crn_fail(err, CRN_E_FORMAT, "%s:%d: expected \"key value\", got only '%.*s'", c->file, line,
                    (int)(end - start), start);
  const char *value = gap;
  while (isspace((unsigned char)*value)) value++;
  const char *key = crn_arena_strndup(&c->arena, start, (size_t)(gap - start));
  const char *text = crn_arena_strndup(&c->arena, value, (size_t)(end - value));
  crn_value *v;
  if (!key || !text) return crn_err_memory(err);
  CRN_TRY(crn_config_read_text(c, key, text, &v, err));
  v->line = line;
  return crn_v_put(&c->arena, c->root, key, v) ? CRN_OK : crn_err_memory(err);
}

static crn_status add_lines(crn_config *c, const char *text, crn_err *err) {
  int line = 1;
  for (const char *p = text; *p; line++) {
    size_t n = strcspn(p, "\n");
    CRN_TRY(add_line(c, p, n, line, err));
    p += n + (p[n] == '\n');
  }
  return CRN_OK;
}

static crn_status add_json(crn_config *c, const char *text, size_t len, crn_err *err) {
  crn_value *v;
  CRN_TRY(crn_v_parse_json(&c->arena, text, len, c->file, &v, err));
  if (!crn_v_is_dict(v))
    return crn_fail(err, CRN_E_CONFIG, "%s: expected an object of config keys, got %s", c->file, crn_v_kind_name(v));
  crn_status status = crn_config_add_values(c, v, err);
  return status == CRN_OK ? CRN_OK : crn_err_where(err, "%s", c->file);
}

static crn_status add_python(crn_config *c, const crn_log *log, crn_err *err) {
  const char *notes;
  CRN_TRY(crn_py_run_config(c->file, &c->space, &c->refs, &c->arena, c->root, &notes, err));
  if (*notes)
    crn_logf(log, 4, "%s: placeholders stand for the modules %s: what the config takes from them can't be used",
             c->file, notes);
  return CRN_OK;
}

static crn_status remember_path(crn_config *c, const char *path, crn_err *err) {
  const char *slash = strrchr(path, '/');
  const char *file = crn_arena_strdup(&c->arena, path);
  const char *folder = slash ? crn_arena_strndup(&c->arena, path, slash > path ? (size_t)(slash - path) : 1) : ".";
  if (!file || !folder) return crn_err_memory(err);
  c->file = file;
  c->folder = folder;
  return CRN_OK;
}

static crn_status add_text(crn_config *c, const char *text, size_t len, const crn_log *log, crn_err *err) {
  if (strlen(text) != len) return crn_fail(err, CRN_E_FORMAT, "'%s' is no config: it holds zero bytes", c->file);
  switch (kind_of(c->file, text)) {
  case KIND_JSON:
    return add_json(c, text, len, err);
  case KIND_PYTHON:
    return add_python(c, log, err);
  case KIND_LINES:
    return add_lines(c, text, err);
  }
  return CRN_OK;
}

crn_status crn_config_add_file(crn_config *c, const char *path, const crn_log *log, crn_err *err) {
  char *text;
  size_t len;
  if (crn_file_read(path, MAX_FILE, &text, &len, err) != CRN_OK) return crn_err_where(err, "config");
  crn_status status = remember_path(c, path, err);
  if (status == CRN_OK) status = add_text(c, text, len, log, err);
  crn_free(text);
  return status;
}

crn_status crn_config_load(const char *path, const crn_log *log, crn_config **out, crn_err *err) {
  *out = NULL;
  crn_config *c;
  CRN_TRY(crn_config_new(&c, err));
  crn_status status = crn_config_add_file(c, path, log, err);
  if (status != CRN_OK) {
    crn_config_free(c);
    return status;
  }
  *out = c;
  return CRN_OK;
}
