/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of text corpora (see lm_text.h).
 */
#include "data/lm_text.h"

#include <string.h>

#include "data/pickle.h"
#include "data/textfile.h"
#include "data/words.h"

static bool all_space(const char *p, int64_t len) {
  for (int64_t i = 0; i < len; i++)
    if (!strchr(" \t\r\v\f", p[i])) return false;
  return true;
}

static crn_status add_line(crn_lm_text *t, const char *p, int64_t len, crn_err *err) {
  if (t->n_lines == t->cap) {
    int64_t cap = t->cap ? 2 * t->cap : 1024;
    crn_lm_line *grown = crn_realloc(t->lines, (size_t)cap * sizeof *grown);
    if (!grown) return crn_err_memory(err);
    t->lines = grown;
    t->cap = cap;
  }
  t->lines[t->n_lines++] = (crn_lm_line){p, len};
  return CRN_OK;
}

/* In plain files a last line without end is lost, as in the old program (which maps them into memory); blank lines
 * are empty only in gzipped files. */
static crn_status cut_lines(crn_lm_text *t, crn_dataset *ds, const crn_str *content, const char *path, bool skip_empty,
                            bool lose_last, crn_err *err) {
  const char *at = crn_str_get(content), *end = at + content->len;
  bool gzipped = crn_ends_with(path, ".gz");
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop && !gzipped && lose_last) {
      crn_warnf(ds->env.log, "%s: the last line has no end and is left out", path);
      break;
    }
    int64_t len = (stop ? stop : end) - at;
    bool empty = gzipped ? all_space(at, len) : len == 0;
    if (!empty || !skip_empty) CRN_TRY(add_line(t, at, len, err));
    at += len + 1;
  }
  return CRN_OK;
}

static crn_status add_file(crn_lm_text *t, crn_dataset *ds, const char *name, bool skip_empty, bool lose_last,
                           crn_err *err) {
  const char *path = crn_dataset_path(ds, name);
  if (!path) return crn_err_memory(err);
  crn_str *content = &t->files[t->n_files];
  CRN_TRY(crn_text_load(path, content, err));
  t->n_files++;
  const char *text = crn_str_get(content);
  if (crn_starts_with(text, "<?xml") || crn_starts_with(text, "<corpus"))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: not implemented: Bliss XML", path);
  return cut_lines(t, ds, content, path, skip_empty, lose_last, err);
}

crn_status crn_lm_text_open(crn_lm_text *t, crn_dataset *ds, const crn_value *corpus_file, bool skip_empty,
                            bool lose_last, crn_err *err) {
  bool one = crn_v_is_str(corpus_file);
  size_t n = one ? 1 : crn_v_is_seq(corpus_file) ? crn_v_len(corpus_file) : 0;
  if (corpus_file && corpus_file->kind == CRN_V_CALLABLE)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'corpus_file' as a function");
  if (!n) return crn_fail(err, CRN_E_CONFIG, "option 'corpus_file': expected a file name or a list of them");
  t->files = crn_calloc(n, sizeof *t->files);
  if (!t->files) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) {
    const char *name = crn_v_cstr(one ? corpus_file : crn_v_at(corpus_file, i));
    if (!name) return crn_fail(err, CRN_E_CONFIG, "option 'corpus_file': entry %zu is no string", i + 1);
    CRN_TRY(add_file(t, ds, name, skip_empty, lose_last, err));
  }
  return CRN_OK;
}

void crn_lm_text_close(crn_lm_text *t) {
  for (size_t i = 0; i < t->n_files; i++) crn_str_free(&t->files[i]);
  crn_free(t->files);
  crn_free(t->lines);
  *t = (crn_lm_text){0};
}

void crn_lm_text_line(const crn_lm_text *t, int64_t i, crn_str *out) {
  const char *p = t->lines[i].p, *end = p + t->lines[i].len;
  while (p < end && strchr(" \t\r\v\f", *p)) p++;
  while (end > p && strchr(" \t\r\v\f", end[-1])) end--;
  crn_str_addn(out, p, (size_t)(end - p));
}

int64_t crn_lm_text_bytes(const crn_lm_text *t, int64_t i) { return t->lines[i].len; }

/* A dict is recognised in the first 1024 characters: {"…":NUMBER, */
static bool looks_like_dict(const char *text) {
  if (text[0] != '{' || (text[1] != '"' && text[1] != '\'')) return false;
  const char *stop = text + strnlen(text, 1024);
  for (const char *at = text + 2; at < stop; at++) {
    if (*at != text[1]) continue;
    const char *p = at + 1;
    while (p < stop && *p == ' ') p++;
    if (p >= stop || *p != ':') continue;
    p++;
    while (p < stop && *p == ' ') p++;
    size_t digits = strspn(p, "0123456789");
    if (digits && p[digits] == ',') return true;
  }
  return false;
}

bool crn_lm_is_symbol_dict(const char *path, crn_arena *a, crn_value **dict, crn_status *code, crn_err *err) {
  if (crn_ends_with(path, ".pkl") || crn_ends_with(path, ".pkl.gz")) {
    *code = crn_pickle_read(a, path, dict, err);
    return true;
  }
  char *text;
  size_t len;
  *code = crn_text_read(a, path, &text, &len, err);
  if (*code != CRN_OK) return true;
  if (!looks_like_dict(text)) return false;
  *code = crn_v_parse_literal(a, text, path, dict, err);
  return true;
}
