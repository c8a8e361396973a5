/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader of the learning-rate file. Its text is a Python expression: a dict of epoch -> EpochData(…). Only the forms
 * that programs have written are understood: numbers in any Python notation, nan, inf, calls that wrap one number
 * (float('nan'), np.float32(0.1)), None, strings, dicts. Anything else is an error with its line.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "train/learning_rate_table.h"

typedef struct reader {
  const char *p, *end;
  const char *name; /* of the file, for messages */
  int line;
  crn_err *err;
} reader;

typedef struct number {
  bool is_int;
  int64_t i;
  double f;
} number;

static crn_status bad(reader *r, const char *what) {
  char found[24] = "the end of the file";
  if (r->p < r->end) {
    int n = (int)(r->end - r->p < 16 ? r->end - r->p : 16);
    for (int i = 0; i < n; i++)
      if ((unsigned char)r->p[i] < 32) n = i;
    snprintf(found, sizeof found, "'%.*s'", n, r->p);
  }
  return crn_fail(r->err, CRN_E_FORMAT, "%s:%d: expected %s, found %s", r->name, r->line, what, found);
}

static void skip(reader *r) {
  for (; r->p < r->end; r->p++) {
    if (*r->p == '\n')
      r->line++;
    else if (*r->p == '#') {
      while (r->p + 1 < r->end && r->p[1] != '\n') r->p++;
    } else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r' && *r->p != '\f' && *r->p != '\\')
      return;
  }
}

static bool accept(reader *r, char c) {
  skip(r);
  if (r->p >= r->end || *r->p != c) return false;
  r->p++;
  return true;
}

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A name, dots included ("np.float32"); its last part is copied to word. False if there is none or it is too long. */
static bool read_word(reader *r, char *word, size_t size) {
  skip(r);
  const char *start = r->p, *last = r->p;
  if (r->p >= r->end || !is_name_char(*r->p) || (*r->p >= '0' && *r->p <= '9')) return false;
  for (; r->p < r->end && (is_name_char(*r->p) || *r->p == '.'); r->p++)
    if (*r->p == '.') last = r->p + 1;
  size_t n = (size_t)(r->p - last);
  if (n == 0 || n >= size) {
    r->p = start;
    return false;
  }
  memcpy(word, last, n);
  word[n] = 0;
  return true;
}

/* Character after a backslash; the codes that Python's repr of str and bytes writes. */
static bool read_escape(reader *r, crn_str *out) {
  if (r->p >= r->end) return false;
  char c = *r->p++;
  const char *from = "ntr\\'\"0", *to = "\n\t\r\\'\"";
  const char *at = strchr(from, c);
  if (c == 'x' && r->end - r->p >= 2) {
    char hex[3] = {r->p[0], r->p[1], 0};
    char *stop;
    long v = strtol(hex, &stop, 16);
    if (stop != hex + 2 || v == 0) return false;
    r->p += 2;
    crn_str_addc(out, (char)v);
    return true;
  }
  if (!at || c == '0' || c == 0) return false;
  crn_str_addc(out, to[at - from]);
  return true;
}

static crn_status read_string(reader *r, crn_str *out) {
  skip(r);
  if (r->p < r->end && (*r->p == 'u' || *r->p == 'b') && r->p + 1 < r->end && (r->p[1] == '\'' || r->p[1] == '"'))
    r->p++;
  if (r->p >= r->end || (*r->p != '\'' && *r->p != '"')) return bad(r, "a string");
  char quote = *r->p++;
  crn_str_clear(out);
  for (;;) {
    if (r->p >= r->end || *r->p == '\n' || *r->p == 0) return bad(r, "the closing quote of a string");
    char c = *r->p++;
    if (c == quote) break;
    if (c != '\\')
      crn_str_addc(out, c);
    else if (!read_escape(r, out))
      return bad(r, "a known escape in a string");
  }
  return crn_str_ok(out) ? CRN_OK : crn_err_memory(r->err);
}

/* Number from text without sign: int (decimal, 0x, 0o, 0b) or float, underscores between digits. */
static bool number_from_text(const char *text, number *out) {
  char *stop;
  int base = 10;
  const char *digits = text;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) base = 16;
  if (text[0] == '0' && (text[1] == 'o' || text[1] == 'O')) base = 8;
  if (text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) base = 2;
  if (base != 10) digits += 2;
  if (*digits == '+' || *digits == '-' || *digits == 0) return false;
  errno = 0;
  out->i = strtoll(digits, &stop, base);
  out->is_int = *stop == 0 && errno == 0;
  if (out->is_int) {
    out->f = (double)out->i;
    return true;
  }
  if (base != 10) return false;
  out->f = strtod(text, &stop);
  return *stop == 0 && stop != text;
}

static crn_status read_digits(reader *r, number *out) {
  char text[80];
  size_t n = 0;
  const char *start = r->p;
  while (r->p < r->end) {
    char c = *r->p;
    bool sign = (c == '+' || c == '-') && r->p > start && (r->p[-1] == 'e' || r->p[-1] == 'E') && start[1] != 'x';
    if (!is_name_char(c) && c != '.' && !sign) break;
    r->p++;
    if (c == '_') continue;
    if (n + 1 >= sizeof text) break;
    text[n++] = c;
  }
  if (n > 0 && (text[n - 1] == 'L' || text[n - 1] == 'l')) n--; /* long integers of Python 2 */
  text[n] = 0;
  if (n == 0 || !((text[0] >= '0' && text[0] <= '9') || text[0] == '.') || !number_from_text(text, out)) {
    r->p = start;
    return bad(r, "a number");
  }
  return CRN_OK;
}

static bool special_number(const char *word, number *out) {
  out->is_int = false;
  if (strcmp(word, "nan") == 0 || strcmp(word, "NaN") == 0)
    out->f = NAN;
  else if (strcmp(word, "inf") == 0 || strcmp(word, "Infinity") == 0 || strcmp(word, "infinity") == 0)
    out->f = INFINITY;
  else if (strcmp(word, "True") == 0 || strcmp(word, "False") == 0) {
    out->is_int = true;
    out->i = word[0] == 'T';
    out->f = (double)out->i;
  } else
    return false;
  return true;
}

static crn_status read_number(reader *r, number *out, int depth);

/* NAME, or NAME(number), or NAME('number') as in float('nan'). */
static crn_status read_named_number(reader *r, number *out, int depth) {
  char word[32];
  const char *start = r->p;
  if (!read_word(r, word, sizeof word)) return bad(r, "a number");
  if (special_number(word, out)) return CRN_OK;
  if (depth > 4 || !accept(r, '(')) {
    r->p = start;
    return bad(r, "a number");
  }
  skip(r);
  if (r->p < r->end && (*r->p == '\'' || *r->p == '"')) {
    crn_str text = {0};
    crn_status status = read_string(r, &text);
    if (status == CRN_OK) {
      reader inner = {crn_str_get(&text), crn_str_get(&text) + text.len, r->name, r->line, r->err};
      status = read_number(&inner, out, depth + 1);
    }
    crn_str_free(&text);
    CRN_TRY(status);
  } else {
    CRN_TRY(read_number(r, out, depth + 1));
  }
  if (!accept(r, ')')) return bad(r, "')'");
  if (strncmp(word, "float", 5) == 0 || strcmp(word, "array") == 0) out->is_int = false;
  return CRN_OK;
}

static crn_status read_number(reader *r, number *out, int depth) {
  bool negative = false;
  for (;;) {
    if (accept(r, '-'))
      negative = !negative;
    else if (!accept(r, '+'))
      break;
  }
  skip(r);
  if (r->p < r->end && ((*r->p >= '0' && *r->p <= '9') || *r->p == '.'))
    CRN_TRY(read_digits(r, out));
  else
    CRN_TRY(read_named_number(r, out, depth));
  if (negative) {
    out->i = -out->i;
    out->f = -out->f;
  }
  return CRN_OK;
}

static crn_status put_number(reader *r, crn_lr_epoch *e, const char *key, const number *v) {
  return v->is_int ? crn_lr_epoch_put_int(e, key, v->i, r->err) : crn_lr_epoch_put(e, key, v->f, r->err);
}

static bool accept_none(reader *r) {
  skip(r);
  if (r->end - r->p < 4 || memcmp(r->p, "None", 4) != 0 || (r->end - r->p > 4 && is_name_char(r->p[4]))) return false;
  r->p += 4;
  return true;
}

/* {'key': number, …}; a value None is left out. prefix goes in front of keys that lack it. */
static crn_status read_scores(reader *r, crn_lr_epoch *e, const char *prefix) {
  crn_str key = {0}, full = {0};
  crn_status status = accept(r, '{') ? CRN_OK : bad(r, "'{'");
  while (status == CRN_OK && !accept(r, '}')) {
    number v = {0};
    if ((status = read_string(r, &key)) != CRN_OK) break;
    if (!accept(r, ':')) {
      status = bad(r, "':'");
      break;
    }
    if (!accept_none(r)) {
      if ((status = read_number(r, &v, 0)) != CRN_OK) break;
      crn_str_clear(&full);
      if (!crn_starts_with(crn_str_get(&key), prefix)) crn_str_add(&full, prefix);
      crn_str_add(&full, crn_str_get(&key));
      if (!crn_str_ok(&full))
        status = crn_err_memory(r->err);
      else
        status = put_number(r, e, crn_str_get(&full), &v);
      if (status != CRN_OK) break;
    }
    if (!accept(r, ',')) {
      if (!accept(r, '}')) status = bad(r, "',' or '}'");
      break;
    }
  }
  crn_str_free(&key);
  crn_str_free(&full);
  return status;
}

/* The value of error=: a dict, None, or (old files) the plain number, which was the score of the dev set. */
static crn_status read_error(reader *r, crn_lr_epoch *e) {
  if (accept_none(r)) return CRN_OK;
  skip(r);
  if (r->p < r->end && *r->p == '{') return read_scores(r, e, "");
  number v = {0};
  CRN_TRY(read_number(r, &v, 0));
  return put_number(r, e, "dev_score", &v);
}

/* EpochData(learningRate=…, error=…, meta=…), arguments in any order or by position. */
static crn_status read_epoch(reader *r, crn_lr_table *t, int64_t epoch) {
  static const char *const order[] = {"learningRate", "error", "meta"};
  char word[32];
  bool have_rate = false;
  if (!read_word(r, word, sizeof word) || strcmp(word, "EpochData") != 0 || !accept(r, '('))
    return bad(r, "EpochData(");
  CRN_TRY(crn_lr_table_set(t, epoch, 0, r->err));
  crn_lr_epoch *e = crn_lr_table_find(t, epoch);
  for (size_t position = 0; !accept(r, ')'); position++) {
    const char *start = r->p;
    const char *arg = position < 3 ? order[position] : "";
    if (read_word(r, word, sizeof word) && accept(r, '='))
      arg = word;
    else
      r->p = start;
    if (strcmp(arg, "learningRate") == 0 || strcmp(arg, "learning_rate") == 0) {
      number v = {0};
      CRN_TRY(read_number(r, &v, 0));
      if (!isfinite(v.f))
        return crn_fail(r->err, CRN_E_FORMAT, "%s:%d: epoch %lld: expected a finite learningRate, found %g", r->name,
                        r->line, (long long)epoch, v.f);
      e->lr = v.f;
      have_rate = true;
    } else if (strcmp(arg, "error") == 0) {
      CRN_TRY(read_error(r, e));
    } else if (strcmp(arg, "meta") == 0) {
      if (!accept_none(r)) CRN_TRY(read_scores(r, e, CRN_LR_META));
    } else {
      r->p = start;
      return bad(r, "learningRate=, error= or meta=");
    }
    if (!accept(r, ',')) {
      if (accept(r, ')')) break;
      return bad(r, "',' or ')'");
    }
  }
  return have_rate ? CRN_OK
                   : crn_fail(r->err, CRN_E_FORMAT, "%s:%d: epoch %lld has no learningRate", r->name, r->line,
                              (long long)epoch);
}

static crn_status read_table(reader *r, crn_lr_table *t) {
  if (!accept(r, '{')) return bad(r, "'{'");
  while (!accept(r, '}')) {
    number epoch = {0};
    CRN_TRY(read_number(r, &epoch, 0));
    if (!epoch.is_int) return bad(r, "an integer as epoch in front of this");
    if (!accept(r, ':')) return bad(r, "':'");
    CRN_TRY(read_epoch(r, t, epoch.i));
    if (!accept(r, ',')) {
      if (accept(r, '}')) break;
      return bad(r, "',' or '}'");
    }
  }
  skip(r);
  return r->p == r->end ? CRN_OK : bad(r, "the end of the file");
}

/* Move the entries of from into t, replacing those of the same epoch. */
static crn_status merge(crn_lr_table *t, crn_lr_table *from, crn_err *err) {
  for (size_t i = 0; i < from->n; i++) CRN_TRY(crn_lr_table_set(t, from->epochs[i].epoch, from->epochs[i].lr, err));
  for (size_t i = 0; i < from->n; i++) {
    crn_lr_epoch *to = crn_lr_table_find(t, from->epochs[i].epoch);
    crn_lr_epoch swap = *to;
    *to = from->epochs[i];
    from->epochs[i] = swap;
  }
  return CRN_OK;
}

crn_status crn_lr_table_parse(crn_lr_table *t, const char *text, size_t len, const char *name, crn_err *err) {
  crn_lr_table read = {0};
  reader r = {text, text + len, name, 1, err};
  crn_status status = read_table(&r, &read);
  if (status == CRN_OK) status = merge(t, &read, err);
  crn_lr_table_free(&read);
  return status;
}

crn_status crn_lr_table_read(crn_lr_table *t, const char *path, crn_err *err) {
  char *text = NULL;
  size_t len = 0;
  crn_status status = crn_file_read(path, (size_t)1 << 26, &text, &len, err);
  if (status == CRN_OK) status = crn_lr_table_parse(t, text, len, path, err);
  if (status != CRN_OK) crn_err_where(err, "learning-rate file");
  crn_free(text);
  return status;
}
