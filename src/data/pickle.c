/* SPDX-License-Identifier: Apache-2.0
 *
 * A reader for pickled plain values: the documented stack machine (Python's pickletools), without objects.
 */
#include "data/pickle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/textfile.h"

enum { MAX_DEPTH = 1000000 };

typedef struct unpickler {
  crn_arena *a;
  const unsigned char *at, *end;
  crn_value **stack; /* NULL entries are marks */
  size_t n, cap;
  crn_value **memo;
  size_t n_memo;
  bool done, bad;
} unpickler;

static void push(unpickler *u, crn_value *v) {
  if (u->n == u->cap) {
    size_t cap = u->cap ? 2 * u->cap : 64;
    crn_value **grown = cap > MAX_DEPTH * 16 ? NULL : crn_realloc(u->stack, cap * sizeof *grown);
    if (!grown) {
      u->bad = true;
      return;
    }
    u->stack = grown;
    u->cap = cap;
  }
  u->stack[u->n++] = v;
}

/* A new value; NULL means that memory is out. */
static void push_new(unpickler *u, crn_value *v) {
  if (v)
    push(u, v);
  else
    u->bad = true;
}

static crn_value *pop(unpickler *u) {
  if (u->n == 0 || !u->stack[u->n - 1]) {
    u->bad = true;
    return NULL;
  }
  return u->stack[--u->n];
}

static crn_value *top(unpickler *u) {
  if (u->n && u->stack[u->n - 1]) return u->stack[u->n - 1];
  u->bad = true;
  return NULL;
}

/* Index behind the last mark. */
static size_t after_mark(unpickler *u) {
  for (size_t i = u->n; i > 0; i--)
    if (!u->stack[i - 1]) return i;
  u->bad = true;
  return u->n;
}

static bool need(unpickler *u, uint64_t n) {
  if (n <= (uint64_t)(u->end - u->at)) return true;
  u->bad = true;
  return false;
}

static uint64_t little(unpickler *u, int bytes) {
  uint64_t v = 0;
  if (!need(u, (uint64_t)bytes)) return 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | u->at[i];
  u->at += bytes;
  return v;
}

static void push_text(unpickler *u, uint64_t n) {
  if (!need(u, n)) return;
  push_new(u, crn_v_strn(u->a, (const char *)u->at, (size_t)n));
  u->at += n;
}

/* The rest of the line as text in the arena, without its end. */
static char *line(unpickler *u) {
  const unsigned char *stop = memchr(u->at, '\n', (size_t)(u->end - u->at));
  if (!stop) {
    u->bad = true;
    return NULL;
  }
  char *s = crn_arena_strndup(u->a, (const char *)u->at, (size_t)(stop - u->at));
  u->at = stop + 1;
  u->bad = u->bad || !s;
  return s;
}

static void push_integer_line(unpickler *u) {
  char *s = line(u), *end;
  if (!s) return;
  if (!strcmp(s, "00") || !strcmp(s, "01")) { /* False and True of protocol 0 */
    push_new(u, crn_v_bool(u->a, s[1] == '1'));
    return;
  }
  errno = 0;
  long long v = strtoll(s, &end, 10);
  u->bad = u->bad || errno || end == s || (*end && strcmp(end, "L") != 0);
  push_new(u, crn_v_int(u->a, v));
}

static void push_float_line(unpickler *u) {
  char *s = line(u), *end;
  if (!s) return;
  double v = strtod(s, &end);
  u->bad = u->bad || end == s;
  push_new(u, crn_v_float(u->a, v));
}

static void push_long(unpickler *u, uint64_t n) {
  if (n > 8) u->bad = true;
  if (u->bad || !need(u, n)) return;
  uint64_t v = n && (u->at[n - 1] & 0x80) ? UINT64_MAX : 0;
  for (uint64_t i = n; i > 0; i--) v = v << 8 | u->at[i - 1];
  u->at += n;
  push_new(u, crn_v_int(u->a, (int64_t)v));
}

static void push_double(unpickler *u) {
  if (!need(u, 8)) return;
  uint64_t bits = 0;
  for (int i = 0; i < 8; i++) bits = bits << 8 | u->at[i];
  u->at += 8;
  double v;
  memcpy(&v, &bits, sizeof v);
  push_new(u, crn_v_float(u->a, v));
}

/* Quoted string of protocol 0, with Python's escapes: read as a literal. */
static void push_quoted(unpickler *u) {
  char *s = line(u);
  crn_value *v = NULL;
  if (!s) return;
  if (crn_v_parse_literal(u->a, s, "pickle", &v, NULL) != CRN_OK || !crn_v_is_str(v))
    u->bad = true;
  else
    push(u, v);
}

static void add_utf8(crn_str *s, uint32_t c) {
  if (c < 0x80) {
    crn_str_addc(s, (char)c);
  } else if (c < 0x800) {
    crn_str_addc(s, (char)(0xc0 | c >> 6));
    crn_str_addc(s, (char)(0x80 | (c & 0x3f)));
  } else {
    if (c >= 0x10000) {
      crn_str_addc(s, (char)(0xf0 | (c >> 18 & 7)));
      crn_str_addc(s, (char)(0x80 | (c >> 12 & 0x3f)));
    } else {
      crn_str_addc(s, (char)(0xe0 | c >> 12));
    }
    crn_str_addc(s, (char)(0x80 | (c >> 6 & 0x3f)));
    crn_str_addc(s, (char)(0x80 | (c & 0x3f)));
  }
}

/* Text of protocol 0: Latin-1 with \uXXXX and \UXXXXXXXX. */
static void push_raw_unicode(unpickler *u) {
  char *at = line(u);
  crn_str s = {0};
  while (at && *at && !u->bad) {
    size_t digits = at[0] == '\\' && at[1] == 'u' ? 4 : at[0] == '\\' && at[1] == 'U' ? 8 : 0;
    if (!digits) {
      add_utf8(&s, (unsigned char)*at++);
      continue;
    }
    char hex[9] = "", *end;
    u->bad = strlen(at + 2) < digits;
    if (u->bad) break;
    memcpy(hex, at + 2, digits);
    add_utf8(&s, (uint32_t)strtoul(hex, &end, 16));
    u->bad = *end != 0;
    at += 2 + digits;
  }
  if (at && !u->bad) push_new(u, crn_str_ok(&s) ? crn_v_str(u->a, crn_str_get(&s)) : NULL);
  crn_str_free(&s);
}

static void put_memo(unpickler *u, uint64_t i, crn_value *v) {
  if (i > u->n_memo + 65536 || u->bad) { /* ids are given in order, so far jumps are damage */
    u->bad = true;
    return;
  }
  if (i >= u->n_memo) {
    size_t n = (size_t)i + 1;
    n += n / 2 + 64;
    crn_value **grown = crn_realloc(u->memo, n * sizeof *grown);
    if (!grown) {
      u->bad = true;
      return;
    }
    memset(grown + u->n_memo, 0, (n - u->n_memo) * sizeof *grown);
    u->memo = grown;
    u->n_memo = n;
  }
  u->memo[i] = v;
}

static void get_memo(unpickler *u, uint64_t i) {
  if (i >= u->n_memo || !u->memo[i])
    u->bad = true;
  else
    push(u, u->memo[i]);
}

static uint64_t number_line(unpickler *u) {
  char *s = line(u);
  return s ? strtoull(s, NULL, 10) : 0;
}

/* Entries behind the mark (or the last `last` ones) as a new sequence. */
static void make_seq(unpickler *u, crn_vkind kind, size_t from, bool drop_mark) {
  crn_value *seq = crn_v_seq(u->a, kind);
  for (size_t i = from; seq && i < u->n && !u->bad; i++)
    if (!u->stack[i] || !crn_v_push(u->a, seq, u->stack[i])) u->bad = true;
  if (u->bad) return;
  u->n = from - (drop_mark ? 1 : 0);
  push_new(u, seq);
}

static void last_n_as_tuple(unpickler *u, size_t n) {
  if (u->n < n)
    u->bad = true;
  else
    make_seq(u, CRN_V_TUPLE, u->n - n, false);
}

static void append_from(unpickler *u, size_t from, bool drop_mark, crn_vkind kind) {
  size_t base = from - (drop_mark ? 1 : 0);
  crn_value *seq = !u->bad && base > 0 ? u->stack[base - 1] : NULL;
  if (!seq || seq->kind != kind) u->bad = true;
  for (size_t i = from; i < u->n && !u->bad; i++)
    if (!u->stack[i] || !crn_v_push(u->a, seq, u->stack[i])) u->bad = true;
  if (!u->bad) u->n = base;
}

static void set_items(unpickler *u, size_t from, bool drop_mark, bool new_dict) {
  size_t base = from - (drop_mark ? 1 : 0);
  crn_value *dict = new_dict ? crn_v_dict(u->a) : !u->bad && base > 0 ? u->stack[base - 1] : NULL;
  if (!dict || dict->kind != CRN_V_DICT || (u->n - from) % 2) u->bad = true;
  for (size_t i = from; i + 1 < u->n && !u->bad; i += 2)
    if (!u->stack[i] || !u->stack[i + 1] || !crn_v_put_value(u->a, dict, u->stack[i], u->stack[i + 1])) u->bad = true;
  if (u->bad) return;
  u->n = base;
  if (new_dict) push(u, dict);
}

/* Numbers, strings and constants. False if op is none of these. */
static bool scalar_op(unpickler *u, unsigned char op) {
  switch (op) {
  case 'N':
    push_new(u, crn_v_none(u->a));
    return true;
  case 0x88:
    push_new(u, crn_v_bool(u->a, true));
    return true;
  case 0x89:
    push_new(u, crn_v_bool(u->a, false));
    return true;
  case 'I':
  case 'L':
    push_integer_line(u);
    return true;
  case 'J':
    push_new(u, crn_v_int(u->a, (int32_t)little(u, 4)));
    return true;
  case 'K':
    push_new(u, crn_v_int(u->a, (int64_t)little(u, 1)));
    return true;
  case 'M':
    push_new(u, crn_v_int(u->a, (int64_t)little(u, 2)));
    return true;
  case 0x8a:
    push_long(u, little(u, 1));
    return true;
  case 0x8b:
    push_long(u, little(u, 4));
    return true;
  case 'F':
    push_float_line(u);
    return true;
  case 'G':
    push_double(u);
    return true;
  case 'S':
    push_quoted(u);
    return true;
  case 'V':
    push_raw_unicode(u);
    return true;
  case 'T':
  case 'B':
  case 'X':
    push_text(u, little(u, 4));
    return true;
  case 'U':
  case 'C':
  case 0x8c:
    push_text(u, little(u, 1));
    return true;
  case 0x8d:
  case 0x8e:
  case 0x96:
    push_text(u, little(u, 8));
    return true;
  default:
    return false;
  }
}

/* Containers, the stack and the memo. False if op is none of these. */
static bool stack_op(unpickler *u, unsigned char op) {
  switch (op) {
  case 0x80:
    little(u, 1);
    return true; /* protocol */
  case 0x95:
    little(u, 8);
    return true; /* frame */
  case '(':
    push(u, NULL);
    return true;
  case '0':
    pop(u);
    return true;
  case '1': {
    size_t from = after_mark(u);
    if (!u->bad) u->n = from - 1;
    return true;
  }
  case '2':
    push_new(u, top(u));
    return true;
  case ']':
    push_new(u, crn_v_seq(u->a, CRN_V_LIST));
    return true;
  case ')':
    push_new(u, crn_v_seq(u->a, CRN_V_TUPLE));
    return true;
  case '}':
    push_new(u, crn_v_dict(u->a));
    return true;
  case 0x8f:
    push_new(u, crn_v_seq(u->a, CRN_V_SET));
    return true;
  case 'l':
    make_seq(u, CRN_V_LIST, after_mark(u), true);
    return true;
  case 't':
    make_seq(u, CRN_V_TUPLE, after_mark(u), true);
    return true;
  case 0x91:
    make_seq(u, CRN_V_SET, after_mark(u), true);
    return true;
  case 0x85:
    last_n_as_tuple(u, 1);
    return true;
  case 0x86:
    last_n_as_tuple(u, 2);
    return true;
  case 0x87:
    last_n_as_tuple(u, 3);
    return true;
  case 'a':
    append_from(u, u->n ? u->n - 1 : 0, false, CRN_V_LIST);
    return true;
  case 'e':
    append_from(u, after_mark(u), true, CRN_V_LIST);
    return true;
  case 0x90:
    append_from(u, after_mark(u), true, CRN_V_SET);
    return true;
  case 'd':
    set_items(u, after_mark(u), true, true);
    return true;
  case 's':
    set_items(u, u->n > 1 ? u->n - 2 : 0, false, false);
    return true;
  case 'u':
    set_items(u, after_mark(u), true, false);
    return true;
  case 'p': {
    uint64_t i = number_line(u);
    put_memo(u, i, top(u));
    return true;
  }
  case 'q': {
    uint64_t i = little(u, 1);
    put_memo(u, i, top(u));
    return true;
  }
  case 'r': {
    uint64_t i = little(u, 4);
    put_memo(u, i, top(u));
    return true;
  }
  case 'g':
    get_memo(u, number_line(u));
    return true;
  case 'h':
    get_memo(u, little(u, 1));
    return true;
  case 'j':
    get_memo(u, little(u, 4));
    return true;
  case '.':
    u->done = true;
    return true;
  default:
    return false;
  }
}

crn_status crn_pickle_parse(crn_arena *a, const char *bytes, size_t len, const char *name, crn_value **out,
                            crn_err *err) {
  unpickler u = {.a = a, .at = (const unsigned char *)bytes, .end = (const unsigned char *)bytes + len};
  const unsigned char *start = u.at;
  unsigned char op = 0;
  uint64_t memo_next = 0;
  crn_status code = CRN_OK;
  while (!u.done && !u.bad && code == CRN_OK) {
    if (u.at == u.end) {
      u.bad = true;
      break;
    }
    op = *u.at++;
    if (op == 0x94) /* memoize: under the next number */
      put_memo(&u, memo_next++, top(&u));
    else if (!scalar_op(&u, op) && !stack_op(&u, op))
      code = crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: byte %zu: not implemented: pickles with objects (0x%02x)", name,
                      (size_t)(u.at - start), op);
  }
  if (a->failed)
    code = crn_err_memory(err);
  else if (code == CRN_OK && (u.bad || u.n != 1 || !u.stack[0]))
    code = crn_fail(err, CRN_E_FORMAT, "%s: byte %zu: this is no pickle that can be read; damaged?", name,
                    (size_t)(u.at - start));
  if (code == CRN_OK) *out = u.stack[0];
  crn_free(u.stack);
  crn_free(u.memo);
  return code;
}

crn_status crn_pickle_read(crn_arena *a, const char *path, crn_value **out, crn_err *err) {
  crn_arena scratch = {0};
  char *bytes;
  size_t len;
  crn_status code = crn_text_read(&scratch, path, &bytes, &len, err);
  if (code == CRN_OK) code = crn_pickle_parse(a, bytes, len, path, out, err);
  crn_arena_free(&scratch);
  return code;
}
