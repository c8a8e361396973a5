/* SPDX-License-Identifier: Apache-2.0
 *
 * Splitting transcriptions into symbols (see orth.h).
 */
#include "data/orth.h"

#include <string.h>

#include "base/arena.h"

static crn_status set_words(crn_words *w, const char *name, const crn_value *v, crn_err *err) {
  crn_words_clear(w);
  if (crn_v_is_none(v)) return CRN_OK;
  if (!crn_v_is_seq(v)) return crn_fail(err, CRN_E_CONFIG, "parse_orth_opts: '%s' must be a list of strings", name);
  for (size_t i = 0; i < crn_v_len(v); i++) {
    const char *s = crn_v_cstr(crn_v_at(v, i));
    if (!s) return crn_fail(err, CRN_E_CONFIG, "parse_orth_opts: '%s' must be a list of strings", name);
    crn_words_addz(w, s);
  }
  return crn_words_ok(w) ? CRN_OK : crn_err_memory(err);
}

static crn_status set_option(crn_orth_rules *r, const char *name, const crn_value *v, crn_err *err) {
  static const char *const names[] = {"prefix",
                                      "postfix",
                                      "remove_chars",
                                      "word_based",
                                      "upper_case_special",
                                      "collapse_spaces",
                                      "final_strip",
                                      "square_brackets_for_specials"};
  const struct {
    const char *name;
    bool *flag;
  } flags[] = {{"collapse_spaces", &r->collapse_spaces},
               {"final_strip", &r->final_strip},
               {"word_based", &r->word_based},
               {"upper_case_special", &r->upper_case_special},
               {"square_brackets_for_specials", &r->brackets}};
  if (!strcmp(name, "prefix")) return set_words(&r->prefix, name, v, err);
  if (!strcmp(name, "postfix")) return set_words(&r->postfix, name, v, err);
  if (!strcmp(name, "remove_chars")) {
    if (!crn_v_is_none(v) && !crn_v_is_str(v))
      return crn_fail(err, CRN_E_CONFIG, "parse_orth_opts: 'remove_chars' must be a string");
    r->remove_chars = crn_v_is_none(v) ? "" : crn_v_cstr(v);
    return CRN_OK;
  }
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    if (!strcmp(name, flags[i].name)) {
      *flags[i].flag = crn_v_truth(v);
      return CRN_OK;
    }
  const char *near = crn_nearest(name, names, sizeof names / sizeof *names);
  return crn_fail(err, CRN_E_CONFIG, "parse_orth_opts: unknown option '%s'%s%s%s", name, near ? ", did you mean '" : "",
                  near ? near : "", near ? "'?" : "");
}

crn_status crn_orth_rules_init(crn_orth_rules *r, bool word_based, const char *word_end, const char *seq_end,
                               const crn_value *options, crn_err *err) {
  *r = (crn_orth_rules){.remove_chars = "(){}",
                        .collapse_spaces = true,
                        .final_strip = true,
                        .word_based = word_based,
                        .upper_case_special = true,
                        .brackets = true};
  if (!word_based && word_end) crn_words_addz(&r->postfix, word_end);
  if (seq_end) crn_words_addz(&r->postfix, seq_end);
  if (!crn_words_ok(&r->postfix)) return crn_err_memory(err);
  if (!crn_v_is_none(options) && !crn_v_is_dict(options))
    return crn_fail(err, CRN_E_CONFIG, "option 'parse_orth_opts': expected a dict");
  for (size_t i = 0; i < crn_v_len(options); i++) {
    const char *name = crn_v_cstr(options->u.dict.keys[i]);
    CRN_TRY(set_option(r, name ? name : "?", options->u.dict.vals[i], err));
  }
  return CRN_OK;
}

void crn_orth_rules_free(crn_orth_rules *r) {
  crn_words_free(&r->prefix);
  crn_words_free(&r->postfix);
}

/* Drop leading and trailing white space of text in place, return the start. */
static char *strip(char *text) {
  size_t n = strlen(text);
  uint32_t c;
  while (*text) {
    size_t step = crn_utf8_next(text, &c);
    if (!crn_is_space(c)) break;
    text += step;
    n -= step;
  }
  for (;;) { /* the last character starts at the last byte that is no continuation */
    size_t at = n;
    while (at > 0 && ((unsigned char)text[at - 1] & 0xc0) == 0x80) at--;
    if (at == 0) break;
    at--;
    crn_utf8_next(text + at, &c);
    if (!crn_is_space(c)) break;
    n = at;
    text[n] = 0;
  }
  return text;
}

/* Remove characters, then collapse and strip. The result is in s. */
static char *clean(const crn_orth_rules *r, const char *text, crn_str *s) {
  crn_str kept = {0};
  for (; *text; text++)
    if (!strchr(r->remove_chars, *text)) crn_str_addc(&kept, *text);
  if (r->collapse_spaces)
    crn_collapse_spaces(crn_str_get(&kept), s);
  else
    crn_str_add(s, crn_str_get(&kept));
  s->failed = s->failed || kept.failed;
  crn_str_free(&kept);
  if (!s->p || s->failed) return NULL;
  return r->final_strip ? strip(s->p) : s->p;
}

typedef struct splitter {
  const crn_orth_rules *r;
  crn_words *out;
  crn_str word; /* the symbol that is growing */
  int depth;    /* of brackets */
} splitter;

static void flush(splitter *p) {
  if (p->word.len) crn_words_add(p->out, p->word.p, p->word.len);
  crn_str_clear(&p->word);
}

static void upper(crn_str *s) {
  for (size_t i = 0; i < s->len; i++)
    if (s->p[i] >= 'a' && s->p[i] <= 'z') s->p[i] = (char)(s->p[i] - 'a' + 'A');
}

static void take_char(splitter *p, const char *at, size_t n, uint32_t c) {
  bool word_based = p->r->word_based;
  if (p->r->brackets && c == '[') {
    if (!p->depth) flush(p);
    p->depth++;
    crn_str_addn(&p->word, at, n);
  } else if (p->depth) {
    crn_str_addn(&p->word, at, n);
    if (c == ']' && --p->depth == 0) {
      if (p->r->upper_case_special) upper(&p->word);
      flush(p);
    }
  } else if (word_based && crn_is_space(c)) {
    flush(p);
  } else {
    crn_str_addn(&p->word, at, n);
    if (!word_based) flush(p);
  }
}

void crn_orth_parse(const crn_orth_rules *r, const char *text, bool affixes, crn_words *out) {
  crn_str s = {0};
  splitter p = {.r = r, .out = out};
  const char *at = clean(r, text, &s);
  for (size_t i = 0; affixes && i < r->prefix.n; i++) crn_words_addz(out, crn_words_at(&r->prefix, i));
  while (at && *at) {
    uint32_t c;
    size_t n = crn_utf8_next(at, &c);
    take_char(&p, at, n, c);
    at += n;
  }
  flush(&p); /* also an open bracket's rest */
  for (size_t i = 0; affixes && i < r->postfix.n; i++) crn_words_addz(out, crn_words_at(&r->postfix, i));
  out->failed = out->failed || s.failed || p.word.failed;
  crn_str_free(&s);
  crn_str_free(&p.word);
}
