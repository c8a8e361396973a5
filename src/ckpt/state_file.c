/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing of the `checkpoint` file. Text form of protobuf messages, but only what occurs in this one:
 * FIELD: "string" or FIELD: number, comments.
 */
#include "ckpt/state_file.h"

#include "ckpt/commit.h"

#include <ctype.h>
#include <string.h>

typedef struct state_save {
  const char *path, *tmp;
  crn_span text;
} state_save;

static crn_status state_attempt(void *arg, const crn_fileops *ops, int *error, crn_err *err) {
  const state_save *s = arg;
  crn_status status = crn_ckpt_file_make_parents(ops, s->path, error, err);
  if (status == CRN_OK) status = crn_ckpt_file_write(ops, s->tmp, &s->text, 1, error, err);
  if (status == CRN_OK) status = crn_ckpt_file_rename(ops, s->tmp, s->path, error, err);
  if (status == CRN_OK) return crn_ckpt_file_sync_dir(ops, s->path, error, err);
  ops->unlink(ops->user, s->tmp);
  return status;
}

static void add_quoted(crn_str *s, const char *text) {
  crn_str_addc(s, '"');
  for (const char *p = text; *p; p++) {
    if (*p == '"' || *p == '\\' || *p == '\'')
      crn_str_addf(s, "\\%c", *p);
    else if ((unsigned char)*p < 32 || (unsigned char)*p >= 127)
      crn_str_addf(s, "\\%03o", (unsigned)(unsigned char)*p);
    else
      crn_str_addc(s, *p);
  }
  crn_str_addc(s, '"');
}

crn_status crn_ckpt_state_write(const char *prefix, const crn_save_opts *opts, crn_err *err) {
  const char *slash = strrchr(prefix, '/');
  const char *base = slash ? slash + 1 : prefix;
  int directory_len = (int)(base - prefix);
  crn_save_opts defaults = crn_save_defaults();
  crn_arena a = {0};
  crn_str text = {0};
  crn_str_add(&text, "model_checkpoint_path: ");
  add_quoted(&text, base);
  crn_str_add(&text, "\nall_model_checkpoint_paths: ");
  add_quoted(&text, base);
  crn_str_addc(&text, '\n');
  state_save s = {.path = crn_arena_printf(&a, "%.*scheckpoint", directory_len, prefix),
                  .tmp = crn_arena_printf(&a, "%.*scheckpoint.tmp", directory_len, prefix),
                  .text = {text.p, text.len}};
  crn_status status = a.failed || !crn_str_ok(&text)
                          ? crn_err_memory(err)
                          : crn_retry(opts ? opts : &defaults, s.path, state_attempt, &s, err);
  crn_str_free(&text);
  crn_arena_free(&a);
  return status;
}

/* One character of a quoted text, its escape undone; *p moves on. */
static char unescape(const char **p) {
  char c = *(*p)++;
  if (c != '\\' || !**p) return c;
  c = *(*p)++;
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c < '0' || c > '7') return c;
  int value = c - '0';
  for (int i = 0; i < 2 && **p >= '0' && **p <= '7'; i++) value = value * 8 + (*(*p)++ - '0');
  return (char)value;
}

/* Value of `field: "…"` if the line is that. */
static bool read_field(const char *line, const char *field, crn_str *out) {
  while (isspace((unsigned char)*line)) line++;
  if (!crn_starts_with(line, field)) return false;
  line += strlen(field);
  while (isspace((unsigned char)*line)) line++;
  if (*line++ != ':') return false;
  while (isspace((unsigned char)*line)) line++;
  char quote = *line++;
  if (quote != '"' && quote != '\'') return false;
  crn_str_clear(out);
  while (*line && *line != quote) crn_str_addc(out, unescape(&line));
  return *line == quote;
}

crn_status crn_ckpt_state_read(crn_arena *a, const char *directory, const char **prefix, crn_err *err) {
  *prefix = NULL;
  const uint8_t *bytes;
  size_t n;
  char *path = crn_arena_printf(a, "%s/checkpoint", directory);
  if (!path) return crn_err_memory(err);
  CRN_TRY(crn_ckpt_read_file(a, path, &bytes, &n, err));
  char *text = crn_arena_strndup(a, (const char *)bytes, n);
  if (!text) return crn_err_memory(err);
  crn_str value = {0};
  bool found = false;
  for (char *line = text; line && !found;) {
    char *end = strchr(line, '\n');
    if (end) *end = 0;
    found = read_field(line, "model_checkpoint_path", &value);
    line = end ? end + 1 : NULL;
  }
  crn_status status = CRN_OK;
  if (!found || value.len == 0)
    status = crn_fail(err, CRN_E_FORMAT, "'%s': no line model_checkpoint_path: \"…\"", path);
  else if (!(*prefix = crn_str_get(&value)[0] == '/' ? crn_arena_strdup(a, crn_str_get(&value))
                                                     : crn_arena_printf(a, "%s/%s", directory, crn_str_get(&value))))
    status = crn_err_memory(err);
  crn_str_free(&value);
  return status;
}
