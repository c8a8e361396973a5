/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair encoding: applying a list of merges to words (the public subword-nmt format of the list; Sennrich, Haddow,
 * Birch 2016).
 */
#include <string.h>

#include "data/textfile.h"
#include "data/vocab_internal.h"

static const char end_mark[] = "</w>";

struct crn_bpe {
  crn_arena arena;
  crn_map rank; /* "left right" -> rank + 1 */
  crn_map pair; /* merged unit -> "left right" that makes it first */
  bool glued;   /* version 0.2: the end mark is part of the last character */
};

/* ---- the file ---- */

static crn_status add_merge(crn_bpe *b, const char *line, size_t rank, const char *path, crn_err *err) {
  crn_words parts = {0};
  crn_words_split(&parts, line);
  crn_status code = crn_words_ok(&parts) ? CRN_OK : crn_err_memory(err);
  if (code == CRN_OK && parts.n != 2)
    code = crn_fail(err, CRN_E_FORMAT, "%s:%zu: expected two units, got \"%.60s\"", path, rank + 1, line);
  if (code == CRN_OK) {
    const char *left = crn_words_at(&parts, 0), *right = crn_words_at(&parts, 1);
    const char *key = crn_arena_printf(&b->arena, "%s %s", left, right);
    const char *merged = crn_arena_printf(&b->arena, "%s%s", left, right);
    if (!key || !merged)
      code = crn_err_memory(err);
    else if (!crn_map_has(&b->rank, key) && crn_map_set(&b->rank, key, (void *)(intptr_t)(rank + 1)) != CRN_OK)
      code = crn_err_memory(err);
    if (code == CRN_OK && !crn_map_has(&b->pair, merged) &&
        crn_map_set(&b->pair, merged, (void *)(intptr_t)key) != CRN_OK)
      code = crn_err_memory(err);
  }
  crn_words_free(&parts);
  return code;
}

crn_status crn_bpe_load(const char *path, crn_bpe **out, crn_err *err) {
  crn_arena scratch = {0};
  char **lines;
  size_t n, first = 0;
  crn_status code = crn_text_lines(&scratch, path, &lines, &n, err);
  crn_bpe *b = code == CRN_OK ? crn_calloc(1, sizeof *b) : NULL;
  if (code == CRN_OK && !b) code = crn_err_memory(err);
  if (code == CRN_OK && n && crn_starts_with(lines[0], "#version:")) {
    const char *version = lines[0] + strlen("#version:");
    while (*version == ' ') version++;
    first = 1;
    if (crn_starts_with(version, "0.2"))
      b->glued = true;
    else if (!crn_starts_with(version, "0.1"))
      code = crn_fail(err, CRN_E_FORMAT, "%s: version %s of the codes; 0.1 and 0.2 are known", path, version);
  }
  for (size_t i = first; i < n && code == CRN_OK; i++)
    if (lines[i][0]) code = add_merge(b, lines[i], i, path, err);
  crn_arena_free(&scratch);
  if (code == CRN_OK)
    *out = b;
  else
    crn_bpe_free(b);
  return code;
}

void crn_bpe_free(crn_bpe *b) {
  if (!b) return;
  crn_map_free(&b->rank);
  crn_map_free(&b->pair);
  crn_arena_free(&b->arena);
  crn_free(b);
}

/* ---- merging ---- */

/* Rank of a pair, or 0 if it is no merge. */
static int64_t pair_rank(const crn_bpe *b, const char *left, const char *right, crn_str *key) {
  crn_str_clear(key);
  crn_str_addf(key, "%s %s", left, right);
  return (int64_t)(intptr_t)crn_map_get(&b->rank, crn_str_get(key));
}

/* One round: merge the best pair everywhere, left to right, into out. False if no pair is in the list. */
static bool merge_best(const crn_bpe *b, const crn_words *in, crn_words *out, crn_str *key) {
  int64_t best = 0;
  size_t at = 0;
  for (size_t i = 0; i + 1 < in->n; i++) {
    int64_t r = pair_rank(b, crn_words_at(in, i), crn_words_at(in, i + 1), key);
    if (r && (!best || r < best)) {
      best = r;
      at = i;
    }
  }
  if (!best) return false;
  const char *left = crn_words_at(in, at), *right = crn_words_at(in, at + 1);
  crn_words_clear(out);
  for (size_t i = 0; i < in->n; i++) {
    const char *unit = crn_words_at(in, i);
    if (i + 1 < in->n && !strcmp(unit, left) && !strcmp(crn_words_at(in, i + 1), right)) {
      crn_str_clear(key);
      crn_str_addf(key, "%s%s", left, right);
      crn_words_addz(out, crn_str_get(key));
      i++;
    } else {
      crn_words_addz(out, unit);
    }
  }
  return crn_words_ok(out);
}

static void split_chars(const crn_bpe *b, const char *word, crn_words *out, crn_str *key) {
  while (*word) {
    uint32_t c;
    size_t n = crn_utf8_next(word, &c);
    crn_str_clear(key);
    crn_str_addn(key, word, n);
    word += n;
    if (!*word && b->glued) crn_str_add(key, end_mark);
    crn_words_add(out, crn_str_get(key), key->len);
  }
  if (!b->glued) crn_words_addz(out, end_mark);
}

/* Split a unit that the vocabulary lacks by undoing its merge, recursively. last: it ends the word; marked: and its end
 * mark is part of the merge. */
static void split_unknown(const crn_bpe *b, const char *unit, bool last, bool marked, const crn_map *known,
                          crn_words *out, int depth) {
  crn_str text = {0};
  crn_str_addf(&text, "%s%s", unit, last ? "" : "@@");
  bool have = crn_map_has(known, crn_str_get(&text));
  crn_str_clear(&text);
  crn_str_addf(&text, "%s%s", unit, marked ? end_mark : "");
  const char *pair = have || depth > 200 ? NULL : crn_map_get(&b->pair, crn_str_get(&text));
  crn_str_free(&text);
  if (!pair) {
    crn_words_addz(out, unit);
    return;
  }
  size_t left = strcspn(pair, " "), right = strlen(pair + left + 1);
  const char *second = pair + left + 1;
  crn_str half = {0};
  crn_str_addn(&half, pair, left);
  if (marked && right >= strlen(end_mark)) right -= strlen(end_mark);
  if (right == 0) { /* the merge was with the bare end mark */
    split_unknown(b, crn_str_get(&half), last, false, known, out, depth + 1);
  } else {
    split_unknown(b, crn_str_get(&half), false, false, known, out, depth + 1);
    crn_str_clear(&half);
    crn_str_addn(&half, second, right);
    split_unknown(b, crn_str_get(&half), last, marked, known, out, depth + 1);
  }
  crn_str_free(&half);
}

/* Characters -> units without the end mark. */
static void encode_word(const crn_bpe *b, const char *word, const crn_map *known, crn_words *out) {
  crn_words a = {0}, c = {0};
  crn_str key = {0};
  uint32_t code;
  if (b->glued && !word[crn_utf8_next(word, &code)]) {
    crn_words_addz(out, word);
    return;
  }
  split_chars(b, word, &a, &key);
  crn_words *now = &a, *next = &c;
  while (now->n > 1 && merge_best(b, now, next, &key)) {
    crn_words *t = now;
    now = next;
    next = t;
  }
  crn_words units = {0};
  for (size_t i = 0; i < now->n; i++) {
    const char *unit = crn_words_at(now, i);
    size_t len = strlen(unit);
    if (i + 1 == now->n && crn_ends_with(unit, end_mark)) len -= strlen(end_mark);
    if (len) crn_words_add(&units, unit, len);
  }
  for (size_t i = 0; i < units.n; i++) {
    bool last = i + 1 == units.n;
    split_unknown(b, crn_words_at(&units, i), last, last, known, out, 0);
  }
  out->failed = out->failed || a.failed || c.failed || units.failed || key.failed;
  crn_words_free(&a);
  crn_words_free(&c);
  crn_words_free(&units);
  crn_str_free(&key);
}

/* Words, with "@@" behind all units but a word's last. A word that starts with "$" passes unchanged; if the next one
 * starts with "{", all pass up to one that starts with "}". */
crn_status crn_bpe_split(const crn_bpe *b, const char *text, const crn_map *known, crn_words *out, crn_err *err) {
  crn_words words = {0}, units = {0};
  crn_words_split(&words, text);
  bool inside = false;
  for (size_t i = 0; i < words.n; i++) {
    const char *w = crn_words_at(&words, i);
    bool dollar = w[0] == '$' && w[1];
    if (inside && w[0] == '}') inside = false;
    if (inside || dollar) {
      crn_words_addz(out, w);
      if (dollar && !inside && i + 1 < words.n && crn_words_at(&words, i + 1)[0] == '{') inside = true;
      continue;
    }
    crn_words_clear(&units);
    encode_word(b, w, known, &units);
    for (size_t j = 0; j < units.n; j++) {
      crn_str s = {0};
      crn_str_addf(&s, "%s%s", crn_words_at(&units, j), j + 1 < units.n ? "@@" : "");
      crn_words_add(out, crn_str_get(&s), s.len);
      crn_str_free(&s);
    }
  }
  bool ok = crn_words_ok(&words) && crn_words_ok(&units) && crn_words_ok(out);
  crn_words_free(&words);
  crn_words_free(&units);
  return ok ? CRN_OK : crn_err_memory(err);
}
