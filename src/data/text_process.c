/* SPDX-License-Identifier: Apache-2.0
 *
 * Post-processing of transcriptions (see text_process.h): one table row per function.
 */
#include "data/text_process.h"

#include <string.h>

#include "base/arena.h"
#include "data/words.h"

typedef void (*step_fn)(const char *text, const char *const *args, crn_str *out);

static void put_utf8(crn_str *s, uint32_t c) { /* of the letters that lower() changes: below U+0800 */
  if (c < 0x80) {
    crn_str_addc(s, (char)c);
  } else {
    crn_str_addc(s, (char)(0xc0 | c >> 6));
    crn_str_addc(s, (char)(0x80 | (c & 0x3f)));
  }
}

/* Latin, Greek and Cyrillic capitals; others stay. */
static uint32_t lower(uint32_t c) {
  if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7)) return c + 0x20;
  if ((c >= 0x100 && c <= 0x137 && c != 0x130) || (c >= 0x14a && c <= 0x177)) return c | 1;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c + (c & 1);
  if (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) return c + 0x20;
  if (c >= 0x410 && c <= 0x42f) return c + 0x20;
  return c >= 0x400 && c <= 0x40f ? c + 0x50 : c;
}

static void add_lower(const char *text, size_t len, crn_str *out) {
  for (const char *end = text + len; text < end;) {
    uint32_t c;
    size_t n = crn_utf8_next(text, &c);
    if (lower(c) != c)
      put_utf8(out, lower(c));
    else
      crn_str_addn(out, text, n);
    text += n;
  }
}

static void lowercase(const char *text, const char *const *args, crn_str *out) {
  (void)args;
  add_lower(text, strlen(text), out);
}

/* Words that begin with [ or < stay; the words are joined by single spaces. */
static void lowercase_keep_special(const char *text, const char *const *args, crn_str *out) {
  (void)args;
  crn_words words = {0};
  crn_words_split(&words, text);
  for (size_t i = 0; i < words.n; i++) {
    const char *w = crn_words_at(&words, i);
    if (i) crn_str_addc(out, ' ');
    if (w[0] == '[' || w[0] == '<')
      crn_str_add(out, w);
    else
      add_lower(w, strlen(w), out);
  }
  out->failed = out->failed || words.failed;
  crn_words_free(&words);
}

static void collapse_whitespace(const char *text, const char *const *args, crn_str *out) {
  (void)args;
  crn_collapse_spaces(text, out);
}

static void basic_cleaners(const char *text, const char *const *args, crn_str *out) {
  crn_str s = {0};
  lowercase(text, args, &s);
  crn_collapse_spaces(crn_str_get(&s), out);
  out->failed = out->failed || s.failed;
  crn_str_free(&s);
}

/* Each of the characters becomes a space, then collapse. */
static void remove_chars(const char *text, const char *const *args, crn_str *out) {
  crn_str s = {0};
  for (; *text; text++) crn_str_addc(&s, strchr(args[0], *text) ? ' ' : *text);
  crn_collapse_spaces(crn_str_get(&s), out);
  out->failed = out->failed || s.failed;
  crn_str_free(&s);
}

static void replace(const char *text, const char *const *args, crn_str *out) {
  size_t n = strlen(args[0]);
  while (*text) {
    if (n && !strncmp(text, args[0], n)) {
      crn_str_add(out, args[1]);
      text += n;
    } else {
      crn_str_addc(out, *text++);
    }
  }
}

static const struct {
  const char *name;
  int n_args;  /* of a call; -1: no call */
  step_fn run; /* NULL: not built */
} functions[] = {
    {"lowercase", -1, lowercase},
    {"lowercase_keep_special", -1, lowercase_keep_special},
    {"collapse_whitespace", -1, collapse_whitespace},
    {"basic_cleaners", -1, basic_cleaners},
    {"get_remove_chars", 1, remove_chars},
    {"get_replace", 2, replace},
    {"transliteration_cleaners", -1, NULL},
    {"english_cleaners", -1, NULL},
    {"english_cleaners_keep_special", -1, NULL},
    {"expand_abbreviations", -1, NULL},
    {"normalize_numbers", -1, NULL},
    {"convert_to_ascii", -1, NULL},
};
enum { N_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

typedef struct step {
  step_fn run;
  const char *args[2];
} step;

/* "name" or "name(args)". */
static crn_status parse_step(crn_arena *a, const char *text, step *out, crn_err *err) {
  const char *names[N_FUNCTIONS];
  size_t len = strcspn(text, "("), at = N_FUNCTIONS;
  for (size_t i = 0; i < N_FUNCTIONS; i++) {
    names[i] = functions[i].name;
    if (strlen(names[i]) == len && !strncmp(names[i], text, len)) at = i;
  }
  if (at == N_FUNCTIONS) {
    const char *near = crn_nearest(text, names, N_FUNCTIONS);
    return crn_fail(err, CRN_E_CONFIG, "unknown function of text '%s'%s%s%s", text, near ? ", did you mean '" : "",
                    near ? near : "", near ? "'?" : "");
  }
  if (!functions[at].run) return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: '%s'", text);
  out->run = functions[at].run;
  if (functions[at].n_args < 0 && !text[len]) return CRN_OK;
  crn_value *args = NULL;
  const char *list =
      crn_arena_printf(a, "[%.*s]", text[len] ? (int)strlen(text + len + 1) - 1 : 0, text[len] ? text + len + 1 : "");
  if (!list) return crn_err_memory(err);
  if (text[len] && !crn_ends_with(text, ")"))
    return crn_fail(err, CRN_E_CONFIG, "'%s': the bracket isn't closed", text);
  CRN_TRY(crn_v_parse_literal(a, list, text, &args, err));
  for (size_t i = 0; i < 2 && i < crn_v_len(args); i++) out->args[i] = crn_v_cstr(crn_v_at(args, i));
  bool ok = (int)crn_v_len(args) == functions[at].n_args;
  for (int i = 0; i < functions[at].n_args && ok; i++) ok = out->args[i] != NULL;
  if (ok) return CRN_OK;
  return crn_fail(err, CRN_E_CONFIG, "'%s': expected %d strings in brackets", text,
                  functions[at].n_args < 0 ? 0 : functions[at].n_args);
}

/* Run one element of the option, or all of a list; text == NULL: check only. */
static crn_status run_steps(crn_arena *a, const crn_value *steps, crn_str *text, crn_err *err) {
  if (crn_v_is_none(steps)) return CRN_OK;
  if (crn_v_is_seq(steps)) {
    for (size_t i = 0; i < crn_v_len(steps); i++) CRN_TRY(run_steps(a, crn_v_at(steps, i), text, err));
    return CRN_OK;
  }
  if (!crn_v_is_str(steps))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: post-processing of text by a %s",
                    crn_v_kind_name(steps));
  step s = {0};
  CRN_TRY(parse_step(a, crn_v_cstr(steps), &s, err));
  if (!text) return CRN_OK;
  crn_str out = {0};
  s.run(crn_str_get(text), s.args, &out);
  crn_str_free(text);
  *text = out;
  return crn_str_ok(text) ? CRN_OK : crn_err_memory(err);
}

crn_status crn_text_process_check(const crn_value *steps, crn_err *err) {
  crn_arena a = {0};
  crn_status code = run_steps(&a, steps, NULL, err);
  crn_arena_free(&a);
  return code;
}

crn_status crn_text_process(const crn_value *steps, const char *text, crn_str *out, crn_err *err) {
  crn_arena a = {0};
  crn_str s = {0};
  crn_str_add(&s, text);
  crn_status code = crn_str_ok(&s) ? run_steps(&a, steps, &s, err) : crn_err_memory(err);
  crn_str_clear(out);
  crn_str_add(out, crn_str_get(&s));
  if (code == CRN_OK && !crn_str_ok(out)) code = crn_err_memory(err);
  crn_str_free(&s);
  crn_arena_free(&a);
  return code;
}
