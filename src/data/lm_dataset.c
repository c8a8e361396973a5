/* SPDX-License-Identifier: Apache-2.0
 *
 * LmDataset: lines of text files as sequences of labels, by words, by characters, or through a vocabulary. Files are
 * held in memory; a line becomes labels when it is asked for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/datasets.h"
#include "data/lm_text.h"
#include "data/orth.h"
#include "data/text_process.h"
#include "data/textfile.h"
#include "data/vocab.h"

typedef struct lm_dataset {
  crn_dataset base;
  const crn_value *corpus_option, *seq_list_option, *parse_orth_opts, *orth_vocab, *orth_post_process, *phone_info;
  const char *symbols_file, *symbols_map_file, *replace_map_file;
  const char *word_end_symbol, *seq_end_symbol, *unknown_symbol, *start_symbol, *dtype_option, *tag_prefix;
  bool skip_empty_lines, word_based, auto_replace, error_on_invalid, add_delayed, use_cache_manager;
  int64_t log_auto_replace, log_skipped, add_random_phone_seqs;

  crn_lm_text text;
  char **tags;           /* seq_list_file, or NULL */
  int64_t *kept, n_kept; /* lines that are sequences, if some were left out */
  crn_vocab *vocab;      /* orth_vocab */
  crn_map symbols;       /* else: symbol -> index + 1 */
  int64_t n_labels, unknown, start;
  crn_orth_rules rules;
  crn_map replacements; /* symbol -> crn_words of its text's symbols */
  crn_indices present;  /* labels of the line read last */
  int64_t present_seq;
  crn_words parsed, replaced;
  crn_str line;
} lm_dataset;

/* ---- vocabulary ---- */

/* One line "SYMBOL INDEX". */
static crn_status map_line(char *text, const char *path, size_t number, const char **symbol, int64_t *index,
                           crn_err *err) {
  char *at = text;
  uint32_t c;
  while (*at) {
    size_t n = crn_utf8_next(at, &c);
    if (crn_is_space(c)) break;
    at += n;
  }
  char *end = at;
  errno = 0;
  *index = at > text && *at ? strtoll(at, &end, 10) : -1;
  while (*end == ' ' || *end == '\t') end++;
  if (errno || *index < 0 || *end || *index > INT32_MAX)
    return crn_fail(err, CRN_E_FORMAT, "%s:%zu: expected a symbol and its index, got \"%.60s\"", path, number, text);
  *at = 0;
  *symbol = text;
  return CRN_OK;
}

static crn_status add_symbol(lm_dataset *d, const char *symbol, int64_t index, const char *path, crn_err *err) {
  int64_t there = (int64_t)(intptr_t)crn_map_get(&d->symbols, symbol) - 1;
  if (there >= 0 && there != index)
    return crn_fail(err, CRN_E_FORMAT, "%s: the symbol '%.60s' has the indices %lld and %lld", path, symbol,
                    (long long)there, (long long)index);
  if (crn_map_set(&d->symbols, symbol, (void *)(intptr_t)(index + 1)) != CRN_OK) return crn_err_memory(err);
  if (index >= d->n_labels) d->n_labels = index + 1;
  return CRN_OK;
}

static crn_status add_symbol_lines(lm_dataset *d, crn_arena *a, const char *path, bool with_index, crn_err *err) {
  char **lines;
  size_t n;
  CRN_TRY(crn_text_lines(a, path, &lines, &n, err));
  for (size_t i = 0; i < n; i++) {
    const char *symbol = lines[i];
    int64_t index = d->n_labels;
    if (!symbol[0]) continue;
    if (with_index) CRN_TRY(map_line(lines[i], path, i + 1, &symbol, &index, err));
    CRN_TRY(add_symbol(d, symbol, index, path, err));
  }
  return CRN_OK;
}

static crn_status add_symbol_dict(lm_dataset *d, const crn_value *dict, const char *path, crn_err *err) {
  if (!crn_v_is_dict(dict)) return crn_fail(err, CRN_E_FORMAT, "%s: expected a dict symbol: index", path);
  for (size_t i = 0; i < crn_v_len(dict); i++) {
    const char *symbol = crn_v_cstr(dict->u.dict.keys[i]);
    int64_t index;
    if (!symbol || !crn_v_to_int(dict->u.dict.vals[i], &index) || index < 0 || index > INT32_MAX)
      return crn_fail(err, CRN_E_FORMAT, "%s: entry %zu: expected symbol: index", path, i + 1);
    CRN_TRY(add_symbol(d, symbol, index, path, err));
  }
  return CRN_OK;
}

static crn_status load_symbols(lm_dataset *d, crn_err *err) {
  bool map = d->symbols_map_file != NULL;
  const char *path = crn_dataset_path(&d->base, map ? d->symbols_map_file : d->symbols_file);
  if (!path) return crn_err_memory(err);
  crn_arena scratch = {0};
  crn_value *dict = NULL;
  crn_status code;
  if (map && crn_lm_is_symbol_dict(path, &scratch, &dict, &code, err)) {
    if (code == CRN_OK) code = add_symbol_dict(d, dict, path, err);
  } else {
    code = add_symbol_lines(d, &scratch, path, map, err);
  }
  crn_arena_free(&scratch);
  bool zero = false;
  for (size_t i = 0; i < d->symbols.n && !zero; i++) zero = (intptr_t)d->symbols.entries[i].value == 1;
  if (code == CRN_OK && !zero) code = crn_fail(err, CRN_E_FORMAT, "%s: no symbol has the index 0", path);
  return code;
}

/* Names of the labels: the last symbol in order that has the index. */
static crn_status name_labels(lm_dataset *d, crn_data_key *k, crn_err *err) {
  const char **names = CRN_ARENA_ARRAY(&d->base.arena, const char *, d->n_labels + 1);
  if (!names) return crn_err_memory(err);
  for (size_t i = 0; i < d->symbols.n; i++) {
    const crn_map_entry *e = &d->symbols.entries[i];
    int64_t index = (int64_t)(intptr_t)e->value - 1;
    if (!names[index] || strcmp(names[index], e->key) < 0) names[index] = e->key;
  }
  for (int64_t i = 0; i < d->n_labels; i++)
    if (!names[i]) names[i] = "";
  k->labels = names;
  k->n_labels = (size_t)d->n_labels;
  return CRN_OK;
}

static const char *vocab_path(void *user, const char *file) { return crn_dataset_path(user, file); }

static crn_status find_symbol(lm_dataset *d, const char *option, const char *symbol, int64_t *index, crn_err *err) {
  *index = (int64_t)(intptr_t)crn_map_get(&d->symbols, symbol) - 1;
  if (*index >= 0) return CRN_OK;
  return crn_fail(err, CRN_E_CONFIG, "option '%s': the symbol '%s' is not in the vocabulary", option, symbol);
}

static crn_status load_replacements(lm_dataset *d, crn_err *err) {
  const char *path = crn_dataset_path(&d->base, d->replace_map_file);
  crn_arena scratch = {0};
  crn_value *dict = NULL;
  crn_status code = path ? crn_v_read_json(&scratch, path, &dict, err) : crn_err_memory(err);
  if (code == CRN_OK && !crn_v_is_dict(dict))
    code = crn_fail(err, CRN_E_FORMAT, "%s: expected a dict symbol: text", path);
  for (size_t i = 0; i < crn_v_len(dict) && code == CRN_OK; i++) {
    const char *symbol = crn_v_cstr(dict->u.dict.keys[i]), *text = crn_v_cstr(dict->u.dict.vals[i]);
    crn_words *w = CRN_ARENA_NEW(&d->base.arena, crn_words);
    if (!symbol || !text)
      code = crn_fail(err, CRN_E_FORMAT, "%s: entry %zu: expected symbol: text", path, i + 1);
    else if (!w || crn_map_set(&d->replacements, symbol, w) != CRN_OK)
      code = crn_err_memory(err);
    else
      crn_orth_parse(&d->rules, text, false, w);
    if (code == CRN_OK && !crn_words_ok(w)) code = crn_err_memory(err);
  }
  crn_arena_free(&scratch);
  return code;
}

/* ---- a line's labels ---- */

static bool is_blank(const lm_dataset *d, const char *symbol) {
  return !strcmp(symbol, " ") || (d->word_end_symbol && !strcmp(symbol, d->word_end_symbol));
}

/* A symbol after replacement: known, unknown or left out; two spaces become one. */
static void put_symbol(lm_dataset *d, const char *symbol, bool *invalid) {
  bool chars = !d->rules.word_based && d->word_end_symbol;
  if (chars && !strcmp(symbol, " ")) symbol = d->word_end_symbol;
  if (!crn_map_has(&d->symbols, symbol)) {
    if (!d->auto_replace) *invalid = true;
    if (d->auto_replace && !d->unknown_symbol) return;
    if (d->auto_replace) symbol = d->unknown_symbol;
  }
  size_t n = d->replaced.n;
  if (n && is_blank(d, symbol) && is_blank(d, crn_words_at(&d->replaced, n - 1))) return;
  crn_words_addz(&d->replaced, symbol);
}

static crn_status symbols_to_labels(lm_dataset *d, const char *text, bool *invalid, crn_err *err) {
  crn_words_clear(&d->parsed);
  crn_words_clear(&d->replaced);
  crn_orth_parse(&d->rules, text, true, &d->parsed);
  for (size_t i = 0; i < d->parsed.n; i++) {
    const char *symbol = crn_words_at(&d->parsed, i);
    const crn_words *other = crn_map_get(&d->replacements, symbol);
    if (!other) put_symbol(d, symbol, invalid);
    for (size_t j = 0; other && j < other->n; j++) put_symbol(d, crn_words_at(other, j), invalid);
  }
  if (!crn_words_ok(&d->parsed) || !crn_words_ok(&d->replaced)) return crn_err_memory(err);
  for (size_t i = 0; i < d->replaced.n; i++) {
    int64_t index = (int64_t)(intptr_t)crn_map_get(&d->symbols, crn_words_at(&d->replaced, i)) - 1;
    if (index < 0 && d->error_on_invalid)
      return crn_fail(err, CRN_E_DATA, "the symbol '%.60s' is not in the vocabulary", crn_words_at(&d->replaced, i));
    if (index >= 0) CRN_TRY(crn_indices_add(&d->present, index, err));
  }
  return CRN_OK;
}

/* Labels of a line into present; *invalid: it has symbols that the vocabulary lacks. */
static crn_status read_line(lm_dataset *d, int64_t line, bool *invalid, crn_err *err) {
  d->present_seq = -1;
  d->present.n = 0;
  crn_str_clear(&d->line);
  crn_lm_text_line(&d->text, line, &d->line);
  if (!crn_str_ok(&d->line)) return crn_err_memory(err);
  if (!crn_v_is_none(d->orth_post_process))
    CRN_TRY(crn_text_process(d->orth_post_process, crn_str_get(&d->line), &d->line, err));
  const char *text = crn_str_get(&d->line);
  crn_status code =
      d->vocab ? crn_vocab_encode(d->vocab, text, &d->present, err) : symbols_to_labels(d, text, invalid, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (LmDataset), line %lld", d->base.name, (long long)line);
  return code;
}

static int64_t line_of(const lm_dataset *d, int64_t seq) { return d->kept ? d->kept[seq] : seq; }

static crn_status load_seq(lm_dataset *d, int64_t seq, crn_err *err) {
  if (d->present_seq == seq) return CRN_OK;
  bool invalid = false;
  CRN_TRY(read_line(d, line_of(d, seq), &invalid, err));
  d->present_seq = seq;
  return CRN_OK;
}

/* Lines with unknown symbols are no sequences if the option says so; this needs one pass over all of them. */
static crn_status leave_out_invalid(lm_dataset *d, crn_err *err) {
  if (d->vocab || d->auto_replace || d->error_on_invalid) return CRN_OK;
  d->kept = CRN_ARENA_ARRAY(&d->base.arena, int64_t, d->text.n_lines + 1);
  if (!d->kept) return crn_err_memory(err);
  for (int64_t i = 0; i < d->text.n_lines; i++) {
    bool invalid = false;
    CRN_TRY(read_line(d, i, &invalid, err));
    if (!invalid) d->kept[d->n_kept++] = i;
  }
  if (d->n_kept < d->text.n_lines)
    crn_warnf(d->base.env.log, "dataset '%s': %lld of %lld lines are left out for unknown symbols", d->base.name,
              (long long)(d->text.n_lines - d->n_kept), (long long)d->text.n_lines);
  return CRN_OK;
}

/* ---- opening ---- */

static crn_status check_options(lm_dataset *d, crn_err *err) {
  if (!crn_v_is_none(d->phone_info) || d->add_random_phone_seqs)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: options 'phone_info', 'add_random_phone_seqs'");
  CRN_TRY(crn_text_process_check(d->orth_post_process, err));
  int given = (d->symbols_file != NULL) + (d->symbols_map_file != NULL) + !crn_v_is_none(d->orth_vocab);
  if (given != 1)
    return crn_fail(err, CRN_E_CONFIG,
                    "exactly one of 'orth_symbols_map_file', 'orth_symbols_file' and 'orth_vocab' is needed, got %d",
                    given);
  bool extra = d->add_delayed || d->replace_map_file || !crn_v_is_none(d->parse_orth_opts) || d->auto_replace;
  if (!crn_v_is_none(d->orth_vocab) && extra)
    return crn_fail(err, CRN_E_CONFIG,
                    "with 'orth_vocab' neither 'add_delayed_seq_data', 'orth_replace_map_file', 'parse_orth_opts' nor "
                    "'auto_replace_unknown_symbol' are possible");
  return CRN_OK;
}

static crn_status open_vocabulary(lm_dataset *d, crn_err *err) {
  if (!crn_v_is_none(d->orth_vocab)) {
    CRN_TRY(crn_vocab_new(d->orth_vocab, vocab_path, &d->base, &d->vocab, err));
    d->n_labels = crn_vocab_size(d->vocab);
    return CRN_OK;
  }
  CRN_TRY(load_symbols(d, err));
  if (d->auto_replace && d->unknown_symbol)
    CRN_TRY(find_symbol(d, "unknown_symbol", d->unknown_symbol, &d->unknown, err));
  if (d->add_delayed) CRN_TRY(find_symbol(d, "delayed_seq_data_start_symbol", d->start_symbol, &d->start, err));
  CRN_TRY(
      crn_orth_rules_init(&d->rules, d->word_based, d->word_end_symbol, d->seq_end_symbol, d->parse_orth_opts, err));
  return d->replace_map_file ? load_replacements(d, err) : CRN_OK;
}

static crn_ntype smallest_type(int64_t labels) {
  return labels <= 128 ? CRN_NT_I8 : labels <= 256 ? CRN_NT_U8 : labels <= INT64_C(1) << 31 ? CRN_NT_I32 : CRN_NT_I64;
}

static crn_status add_key(lm_dataset *d, const char *name, bool target, crn_err *err) {
  crn_data_key *k;
  CRN_TRY(crn_dataset_add_key(&d->base, name, &k, err));
  k->dim = d->n_labels;
  k->sparse = true;
  k->is_target = target;
  k->dtype = d->dtype_option ? crn_ntype_by_name(d->dtype_option) : smallest_type(d->n_labels);
  if (!crn_ntype_is_int(k->dtype))
    return crn_fail(err, CRN_E_CONFIG, "option 'dtype': expected an integer type, got '%s'", d->dtype_option);
  if (!d->vocab) return name_labels(d, k, err);
  k->labels = crn_vocab_labels(d->vocab);
  k->n_labels = (size_t)d->n_labels;
  return CRN_OK;
}

/* seq_list_file: one tag per line of the corpus; a list holds one file for each corpus file. */
static crn_status read_seq_list(lm_dataset *d, crn_err *err) {
  const crn_value *v = d->seq_list_option;
  if (crn_v_is_none(v)) return CRN_OK;
  size_t n_files = crn_v_is_str(v) ? 1 : crn_v_len(v);
  int64_t total = 0;
  d->tags = CRN_ARENA_ARRAY(&d->base.arena, char *, d->text.n_lines + 1);
  if (!d->tags) return crn_err_memory(err);
  for (size_t f = 0; f < n_files; f++) {
    const char *name = crn_v_cstr(crn_v_is_str(v) ? v : crn_v_at(v, f));
    char **tags;
    size_t n;
    if (!name) return crn_fail(err, CRN_E_CONFIG, "option 'seq_list_file': expected file names");
    CRN_TRY(crn_text_tags(&d->base.arena, crn_dataset_path(&d->base, name), &tags, &n, err));
    for (size_t i = 0; i < n; i++, total++)
      if (total < d->text.n_lines) d->tags[total] = tags[i];
  }
  if (total == d->text.n_lines) return CRN_OK;
  return crn_fail(err, CRN_E_FORMAT, "seq_list_file: %lld tags for %lld lines", (long long)total,
                  (long long)d->text.n_lines);
}

static crn_status open_all(lm_dataset *d, crn_err *err) {
  d->present_seq = -1;
  CRN_TRY(check_options(d, err));
  CRN_TRY(open_vocabulary(d, err));
  CRN_TRY(crn_lm_text_open(&d->text, &d->base, d->corpus_option, d->skip_empty_lines, true, err));
  CRN_TRY(read_seq_list(d, err));
  CRN_TRY(add_key(d, "data", d->add_delayed, err));
  if (d->add_delayed) CRN_TRY(add_key(d, "delayed", false, err));
  return leave_out_invalid(d, err);
}

static crn_status lm_init(crn_dataset *ds, crn_err *err) {
  crn_status code = open_all((lm_dataset *)ds, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  return code;
}

static void lm_deinit(crn_dataset *ds) {
  lm_dataset *d = (lm_dataset *)ds;
  for (size_t i = 0; i < d->replacements.n; i++) crn_words_free(d->replacements.entries[i].value);
  crn_map_free(&d->replacements);
  crn_map_free(&d->symbols);
  crn_orth_rules_free(&d->rules);
  crn_vocab_free(d->vocab);
  crn_lm_text_close(&d->text);
  crn_words_free(&d->parsed);
  crn_words_free(&d->replaced);
  crn_str_free(&d->line);
  crn_free(d->present.p);
}

/* ---- sequences ---- */

static int64_t lm_size(const crn_dataset *ds) {
  const lm_dataset *d = (const lm_dataset *)ds;
  return d->kept ? d->n_kept : d->text.n_lines;
}

static crn_status lm_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err) {
  lm_dataset *d = (lm_dataset *)ds;
  int64_t line = line_of(d, seq);
  if (d->tags) {
    *tag = d->tags[line];
    return CRN_OK;
  }
  return crn_dataset_number_tag(ds, d->tag_prefix ? d->tag_prefix : "line-", line, tag, err);
}

static crn_status lm_order_length(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err) {
  (void)err;
  lm_dataset *d = (lm_dataset *)ds;
  *len = crn_lm_text_bytes(&d->text, line_of(d, seq));
  return CRN_OK;
}

static crn_status lm_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err) {
  (void)key;
  lm_dataset *d = (lm_dataset *)ds;
  CRN_TRY(load_seq(d, seq, err));
  *len = d->present.n;
  return CRN_OK;
}

static crn_status lm_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                          crn_err *err) {
  lm_dataset *d = (lm_dataset *)ds;
  CRN_TRY(load_seq(d, seq, err));
  int64_t shape[1] = {end - start};
  CRN_TRY(crn_array_resize(out, ds->keys[key].dtype, 1, shape, err));
  bool delayed = key == 1;
  size_t bytes = crn_ntype_bytes(out->dtype);
  for (int64_t t = start; t < end; t++) {
    int64_t label = !delayed ? d->present.p[t] : t == 0 ? d->start : d->present.p[t - 1];
    crn_ntype_convert(CRN_NT_I64, &label, out->dtype, (char *)out->data + (size_t)(t - start) * bytes, 1);
  }
  return CRN_OK;
}

#define OFF(field) offsetof(lm_dataset, field)
static const crn_data_opt lm_options[] = {
    {"corpus_file", CRN_DOPT_VALUE, OFF(corpus_option), NULL, 0, "text file, or list of files; each may be gzipped"},
    {"skip_empty_lines", CRN_DOPT_BOOL, OFF(skip_empty_lines), "True", 0, "empty lines are no sequences"},
    {"seq_list_file", CRN_DOPT_VALUE, OFF(seq_list_option), "None", 0, "file(s) with the tag of every line"},
    {"orth_symbols_file", CRN_DOPT_STR, OFF(symbols_file), "None", 0, "vocabulary: one symbol a line"},
    {"orth_symbols_map_file", CRN_DOPT_STR, OFF(symbols_map_file), "None", 0, "vocabulary: symbols and their indices"},
    {"orth_replace_map_file", CRN_DOPT_STR, OFF(replace_map_file), "None", 0, "JSON file symbol: text to put there"},
    {"orth_vocab", CRN_DOPT_VALUE, OFF(orth_vocab), "None", 0, "options of a vocabulary that reads whole lines"},
    {"orth_post_process", CRN_DOPT_VALUE, OFF(orth_post_process), "None", 0,
     "changes of the text: name(s) of functions"},
    {"word_based", CRN_DOPT_BOOL, OFF(word_based), "False", 0, "words instead of characters"},
    {"word_end_symbol", CRN_DOPT_STR, OFF(word_end_symbol), "None", 0, "stands for spaces between characters"},
    {"seq_end_symbol", CRN_DOPT_STR, OFF(seq_end_symbol), "[END]", 0, "put behind every line; None: nothing"},
    {"unknown_symbol", CRN_DOPT_STR, OFF(unknown_symbol), "[UNKNOWN]", 0, "for unknown symbols; None: left out"},
    {"parse_orth_opts", CRN_DOPT_VALUE, OFF(parse_orth_opts), "None", 0, "dict of changes to how lines are split"},
    {"phone_info", CRN_DOPT_VALUE, OFF(phone_info), "None", 0, "phones instead of symbols, not implemented"},
    {"add_random_phone_seqs", CRN_DOPT_INT, OFF(add_random_phone_seqs), "0", 0, "not implemented other than 0"},
    {"auto_replace_unknown_symbol", CRN_DOPT_BOOL, OFF(auto_replace), "False", 0, "replace unknown symbols"},
    {"log_auto_replace_unknown_symbols", CRN_DOPT_INT, OFF(log_auto_replace), "10", 0, "has no meaning here"},
    {"log_skipped_seqs", CRN_DOPT_INT, OFF(log_skipped), "10", 0, "has no meaning here"},
    {"error_on_invalid_seq", CRN_DOPT_BOOL, OFF(error_on_invalid), "True", 0, "False: leave lines out instead"},
    {"add_delayed_seq_data", CRN_DOPT_BOOL, OFF(add_delayed), "False", 0, "add the key \"delayed\""},
    {"delayed_seq_data_start_symbol", CRN_DOPT_STR, OFF(start_symbol), "[START]", 0, "first symbol of \"delayed\""},
    {"dtype", CRN_DOPT_STR, OFF(dtype_option), "None", 0, "type of the labels; default: by their number"},
    {"tag_prefix", CRN_DOPT_STR, OFF(tag_prefix), "None", 0, "of tags, instead of \"line-\""},
    {"use_cache_manager", CRN_DOPT_BOOL, OFF(use_cache_manager), "False", 0, "has no meaning here"},
    {0}};

const crn_dataset_class crn_lm_dataset = {
    .name = "LmDataset",
    .doc = "Reads lines of text as sequences of labels.",
    .opts = lm_options,
    .bytes = sizeof(lm_dataset),
    .init = lm_init,
    .deinit = lm_deinit,
    .corpus_size = lm_size,
    .order_length = lm_order_length,
    .tag = lm_tag,
    .length = lm_length,
    .read = lm_read,
};
