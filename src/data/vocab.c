/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabularies and their classes (see vocab.h). One table row per class.
 */
#include "data/vocab.h"

#include <string.h>

#include "data/vocab_internal.h"

/* ---- encoding ---- */

crn_status crn_indices_add(crn_indices *l, int64_t index, crn_err *err) {
  if (l->n == l->cap) {
    int64_t cap = l->cap ? 2 * l->cap : 64;
    int32_t *grown = crn_realloc(l->p, (size_t)cap * sizeof *grown);
    if (!grown) return crn_err_memory(err);
    l->p = grown;
    l->cap = cap;
  }
  l->p[l->n++] = (int32_t)index;
  return CRN_OK;
}

static crn_status add_word(const crn_vocab *v, const char *word, crn_indices *out, crn_err *err) {
  int64_t i = crn_vocab_find(v, word);
  if (i < 0) i = v->unknown;
  if (i < 0) return crn_fail(err, CRN_E_DATA, "the word '%.60s' is not in the vocabulary", word);
  return crn_indices_add(out, i, err);
}

static crn_status add_words(const crn_vocab *v, const crn_words *words, crn_indices *out, crn_err *err) {
  if (!crn_words_ok(words)) return crn_err_memory(err);
  for (size_t i = 0; i < words->n; i++) CRN_TRY(add_word(v, crn_words_at(words, i), out, err));
  return CRN_OK;
}

/* A word that need not end with 0: copied, nearly always to the stack. */
static crn_status add_part(const crn_vocab *v, const char *at, size_t len, crn_indices *out, crn_err *err) {
  char word[256];
  if (len < sizeof word) {
    memcpy(word, at, len);
    word[len] = 0;
    return add_word(v, word, out, err);
  }
  crn_words one = {0};
  crn_words_add(&one, at, len);
  crn_status code = add_words(v, &one, out, err);
  crn_words_free(&one);
  return code;
}

static crn_status encode_words(const crn_vocab *v, const char *text, crn_indices *out, crn_err *err) {
  size_t n;
  if (!v->single_spaces) {
    for (; text = crn_words_next(text, &n), n; text += n) CRN_TRY(add_part(v, text, n, out, err));
    return CRN_OK;
  }
  for (;; text++) {
    n = strcspn(text, " ");
    CRN_TRY(add_part(v, text, n, out, err));
    text += n;
    if (!*text) return CRN_OK;
  }
}

static crn_status encode_chars(const crn_vocab *v, const char *text, crn_indices *out, crn_err *err) {
  while (*text) {
    uint32_t c;
    char one[8];
    size_t n = crn_utf8_next(text, &c);
    memcpy(one, text, n);
    one[n] = 0;
    CRN_TRY(add_word(v, one, out, err));
    text += n;
  }
  return CRN_OK;
}

static crn_status encode_bytes(const crn_vocab *v, const char *text, crn_indices *out, crn_err *err) {
  (void)v;
  for (; *text; text++) CRN_TRY(crn_indices_add(out, (unsigned char)*text, err));
  return CRN_OK;
}

static crn_status encode_bpe(const crn_vocab *v, const char *text, crn_indices *out, crn_err *err) {
  crn_words units = {0};
  crn_status code = crn_bpe_split(v->bpe, text, &v->index, &units, err);
  if (code == CRN_OK) code = add_words(v, &units, out, err);
  crn_words_free(&units);
  return code;
}

crn_status crn_vocab_encode(const crn_vocab *v, const char *text, crn_indices *out, crn_err *err) {
  CRN_TRY(v->encode(v, text, out, err));
  for (size_t i = 0; i < v->n_postfix; i++) CRN_TRY(crn_indices_add(out, v->postfix[i], err));
  return CRN_OK;
}

crn_status crn_vocab_decode(const crn_vocab *v, const int32_t *indices, int64_t n, crn_str *out, crn_err *err) {
  for (int64_t i = 0; i < n; i++) {
    if (indices[i] < 0 || indices[i] >= v->n)
      return crn_fail(err, CRN_E_DATA, "the label %d is outside of the vocabulary of %lld", (int)indices[i],
                      (long long)v->n);
    if (i) crn_str_add(out, v->separator);
    crn_str_add(out, v->labels[indices[i]]);
  }
  return crn_str_ok(out) ? CRN_OK : crn_err_memory(err);
}

int64_t crn_vocab_size(const crn_vocab *v) { return v->n; }
const char *const *crn_vocab_labels(const crn_vocab *v) { return v->labels; }
int64_t crn_vocab_unknown(const crn_vocab *v) { return v->unknown; }
int64_t crn_vocab_find(const crn_vocab *v, const char *label) {
  return (int64_t)(intptr_t)crn_map_get(&v->index, label) - 1;
}

/* ---- classes ---- */

typedef struct vocab_class {
  const char *name;
  const char *unknown;   /* default of unknown_label */
  const char *separator; /* between labels in text */
  crn_status (*encode)(const crn_vocab *v, const char *text, crn_indices *out, crn_err *err); /* NULL: not built */
  const char *own_options[5];
} vocab_class;

static const vocab_class classes[] = {
    {"Vocabulary", "UNK", " ", encode_words, {NULL}},
    {"BytePairEncoding", "UNK", " ", encode_bpe, {"bpe_file", NULL}},
    {"CharacterTargets", "@", "", encode_chars, {"mapping_specials", NULL}},
    {"Utf8ByteTargets", NULL, "", encode_bytes, {NULL}},
    {"SamplingBytePairEncoding", NULL, " ", NULL, {NULL}},
    {"SentencePieces", NULL, " ", NULL, {NULL}},
};
enum { N_CLASSES = sizeof(classes) / sizeof(classes[0]) };

static const char *const common_options[] = {"class",
                                             "vocab_file",
                                             "labels",
                                             "unknown_label",
                                             "bos_label",
                                             "eos_label",
                                             "pad_label",
                                             "control_symbols",
                                             "num_labels",
                                             "seq_postfix",
                                             "single_whitespace_split",
                                             "user_defined_symbols",
                                             "special_symbols_via_file"};
enum { N_COMMON = sizeof(common_options) / sizeof(common_options[0]) };

static crn_status find_class(const crn_value *options, const vocab_class **out, crn_err *err) {
  const char *name = crn_v_cstr(crn_v_get(options, "class"));
  if (!name) name = crn_v_is_none(crn_v_get(options, "bpe_file")) ? "Vocabulary" : "BytePairEncoding";
  const char *names[N_CLASSES];
  for (size_t i = 0; i < N_CLASSES; i++) {
    names[i] = classes[i].name;
    if (!strcmp(name, names[i])) *out = &classes[i];
  }
  if (*out && (*out)->encode) return CRN_OK;
  if (*out) return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: vocabulary class '%s'", name);
  const char *near = crn_nearest(name, names, N_CLASSES);
  return crn_fail(err, CRN_E_CONFIG, "unknown vocabulary class '%s'%s%s%s", name, near ? ", did you mean '" : "",
                  near ? near : "", near ? "'?" : "");
}

static bool is_option(const vocab_class *c, const char *name) {
  for (size_t i = 0; i < N_COMMON; i++)
    if (!strcmp(common_options[i], name)) return true;
  for (size_t i = 0; c->own_options[i]; i++)
    if (!strcmp(c->own_options[i], name)) return true;
  return false;
}

static crn_status check_options(const vocab_class *c, const crn_value *options, crn_err *err) {
  for (size_t i = 0; i < crn_v_len(options); i++) {
    const char *name = crn_v_cstr(options->u.dict.keys[i]);
    if (name && is_option(c, name)) continue;
    const char *near = name ? crn_nearest(name, common_options, N_COMMON) : NULL;
    return crn_fail(err, CRN_E_CONFIG, "%s: unknown option '%s'%s%s%s", c->name, name ? name : "?",
                    near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  const char *const later[] = {"user_defined_symbols", "special_symbols_via_file", "control_symbols",
                               "mapping_specials"};
  for (size_t i = 0; i < sizeof later / sizeof *later; i++)
    if (!crn_v_is_none(crn_v_get(options, later[i])))
      return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: not implemented: option '%s'", c->name, later[i]);
  return CRN_OK;
}

/* A label given by name or index; -1 for None. */
static crn_status resolve_label(const crn_vocab *v, const char *option, const crn_value *given, int64_t *out,
                                crn_err *err) {
  *out = -1;
  if (crn_v_is_none(given)) return CRN_OK;
  const char *name = crn_v_cstr(given);
  if (name) {
    *out = crn_vocab_find(v, name);
    if (*out >= 0) return CRN_OK;
    return crn_fail(err, CRN_E_CONFIG, "option '%s': the vocabulary has no label '%s'", option, name);
  }
  if (crn_v_to_int(given, out) && *out >= -1 && *out < v->n) return CRN_OK;
  return crn_fail(err, CRN_E_CONFIG, "option '%s': expected a label or its index below %lld", option, (long long)v->n);
}

static crn_status set_specials(crn_vocab *v, const vocab_class *c, const crn_value *options, crn_err *err) {
  const crn_value *unknown = crn_v_get(options, "unknown_label"), *postfix = crn_v_get(options, "seq_postfix");
  const crn_value *count = crn_v_get(options, "num_labels");
  crn_value by_default = {.kind = CRN_V_STR};
  int64_t ignored, n;
  if (!unknown && c->unknown) {
    by_default.u.s.p = c->unknown;
    by_default.u.s.len = strlen(c->unknown);
    unknown = &by_default;
  }
  CRN_TRY(resolve_label(v, "unknown_label", unknown, &v->unknown, err));
  CRN_TRY(resolve_label(v, "bos_label", crn_v_get(options, "bos_label"), &ignored, err));
  CRN_TRY(resolve_label(v, "eos_label", crn_v_get(options, "eos_label"), &ignored, err));
  CRN_TRY(resolve_label(v, "pad_label", crn_v_get(options, "pad_label"), &ignored, err));
  if (!crn_v_is_none(count) && (!crn_v_to_int(count, &n) || n != v->n))
    return crn_fail(err, CRN_E_CONFIG, "option 'num_labels': the vocabulary has %lld labels", (long long)v->n);
  v->single_spaces = crn_v_truth(crn_v_get(options, "single_whitespace_split"));
  if (crn_v_is_none(postfix)) return CRN_OK;
  v->n_postfix = crn_v_len(postfix);
  v->postfix = CRN_ARENA_ARRAY(&v->arena, int64_t, v->n_postfix + 1);
  if (!v->postfix) return crn_err_memory(err);
  for (size_t i = 0; i < v->n_postfix; i++)
    if (!crn_v_to_int(crn_v_at(postfix, i), &v->postfix[i]) || v->postfix[i] < 0 || v->postfix[i] >= v->n)
      return crn_fail(err, CRN_E_CONFIG, "option 'seq_postfix': expected indices below %lld", (long long)v->n);
  return CRN_OK;
}

static crn_status set_bytes(crn_vocab *v, crn_err *err) {
  char text[256][4];
  const char *labels[256];
  for (int i = 0; i < 256; i++) {
    text[i][0] = (char)i;
    text[i][1] = 0;
    labels[i] = text[i];
  }
  return crn_vocab_set_labels(v, labels, 256, err);
}

static crn_status load_labels(crn_vocab *v, const vocab_class *c, const crn_value *options,
                              const char *(*path)(void *, const char *), void *user, crn_err *err) {
  const char *file = crn_v_cstr(crn_v_get(options, "vocab_file"));
  const crn_value *labels = crn_v_get(options, "labels");
  if (c->encode == encode_bytes) return set_bytes(v, err);
  if (file) {
    const char *where = path ? path(user, file) : file;
    return where ? crn_vocab_load(v, where, err) : crn_err_memory(err);
  }
  if (labels && labels->kind == CRN_V_CALLABLE)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'labels' as a function");
  if (!crn_v_is_seq(labels)) return crn_fail(err, CRN_E_CONFIG, "option 'vocab_file' or 'labels' is required");
  size_t n = crn_v_len(labels);
  const char **list = crn_calloc(n + 1, sizeof *list);
  crn_status code = list ? CRN_OK : crn_err_memory(err);
  for (size_t i = 0; i < n && code == CRN_OK; i++) {
    list[i] = crn_v_cstr(crn_v_at(labels, i));
    if (!list[i]) code = crn_fail(err, CRN_E_CONFIG, "option 'labels': entry %zu is no string", i + 1);
  }
  if (code == CRN_OK) code = crn_vocab_set_labels(v, list, n, err);
  crn_free(list);
  return code;
}

static crn_vocab *new_vocab(const vocab_class *c) {
  crn_vocab *v = crn_calloc(1, sizeof *v);
  if (!v) return NULL;
  v->unknown = -1;
  v->encode = c->encode;
  v->separator = c->separator;
  return v;
}

crn_status crn_vocab_new(const crn_value *options, const char *(*path)(void *user, const char *file), void *user,
                         crn_vocab **out, crn_err *err) {
  *out = NULL;
  const vocab_class *c = NULL;
  if (!crn_v_is_dict(options)) return crn_fail(err, CRN_E_CONFIG, "a vocabulary must be given as a dict");
  CRN_TRY(find_class(options, &c, err));
  CRN_TRY(check_options(c, options, err));
  crn_vocab *v = new_vocab(c);
  if (!v) return crn_err_memory(err);
  crn_status code = load_labels(v, c, options, path, user, err);
  if (code == CRN_OK && c->encode == encode_bpe) {
    const char *file = crn_v_cstr(crn_v_get(options, "bpe_file"));
    const char *where = file && path ? path(user, file) : file;
    if (!file)
      code = crn_fail(err, CRN_E_CONFIG, "%s: option 'bpe_file' is required", c->name);
    else
      code = where ? crn_bpe_load(where, &v->bpe, err) : crn_err_memory(err);
  }
  if (code == CRN_OK) code = set_specials(v, c, options, err);
  if (code == CRN_OK)
    *out = v;
  else
    crn_vocab_free(v);
  return code;
}

crn_status crn_vocab_from_file(const char *path, const char *unknown, bool gaps, crn_vocab **out, crn_err *err) {
  *out = NULL;
  crn_vocab *v = new_vocab(&classes[0]);
  if (!v) return crn_err_memory(err);
  v->gaps = gaps;
  crn_status code = crn_vocab_load(v, path, err);
  if (code == CRN_OK && unknown) {
    v->unknown = crn_vocab_find(v, unknown);
    if (v->unknown < 0)
      code = crn_fail(err, CRN_E_CONFIG, "%s: there is no label '%s' for unknown words", path, unknown);
  }
  if (code == CRN_OK)
    *out = v;
  else
    crn_vocab_free(v);
  return code;
}

crn_status crn_vocab_from_labels(const char *const *labels, size_t n, crn_vocab **out, crn_err *err) {
  *out = NULL;
  bool chars = n < 1000, bytes = n == 256;
  for (size_t i = 0; i < n; i++) {
    uint32_t code;
    if (!labels[i][0] || labels[i][crn_utf8_next(labels[i], &code)]) chars = false;
    if (bytes && ((unsigned char)labels[i][0] != i || (i && labels[i][1]))) bytes = false;
  }
  crn_vocab *v = new_vocab(bytes ? &classes[3] : chars ? &classes[2] : &classes[0]);
  if (!v) return crn_err_memory(err);
  crn_status code = crn_vocab_set_labels(v, labels, n, err);
  if (code == CRN_OK)
    *out = v;
  else
    crn_vocab_free(v);
  return code;
}

void crn_vocab_free(crn_vocab *v) {
  if (!v) return;
  crn_bpe_free(v->bpe);
  crn_map_free(&v->index);
  crn_arena_free(&v->arena);
  crn_free(v);
}
