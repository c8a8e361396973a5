/* SPDX-License-Identifier: Apache-2.0
 *
 * TranslationDataset: two text files whose lines belong together, source and target, with a vocabulary of words each.
 */
#include <string.h>
#include <unistd.h>

#include "data/datasets.h"
#include "data/lm_text.h"
#include "data/vocab.h"

enum { SOURCE, TARGET };

typedef struct side {
  bool used;
  const char *postfix; /* text put behind every line */
  crn_lm_text text;
  crn_vocab *vocab;
  crn_indices present; /* labels of present_seq */
} side;

typedef struct translation_dataset {
  crn_dataset base;
  const char *path, *file_postfix, *source_postfix, *target_postfix;
  const crn_value *unknown_label, *seq_list_option;
  bool source_only, without_reference, use_cache_manager;
  side sides[2];
  int64_t present_seq;
  crn_str line;
} translation_dataset;

static const char *const file_names[] = {"source", "target"};
static const char *const key_names[] = {"data", "classes"};

/* "PATH/source.POSTFIX", or the same with ".gz". */
static crn_status find_file(translation_dataset *d, int which, const char **out, crn_err *err) {
  crn_arena *a = &d->base.arena;
  const char *dir = crn_dataset_path(&d->base, d->path);
  const char *plain = crn_arena_printf(a, "%s/%s.%s", dir ? dir : "", file_names[which], d->file_postfix);
  const char *packed = crn_arena_printf(a, "%s.gz", plain ? plain : "");
  if (!dir || !plain || !packed) return crn_err_memory(err);
  *out = access(plain, F_OK) == 0 ? plain : packed;
  if (access(*out, F_OK) == 0) return CRN_OK;
  return crn_fail(err, CRN_E_FILE, "%s: no such file, neither with \".gz\"", plain);
}

static crn_status open_vocab(translation_dataset *d, int which, crn_err *err) {
  const char *unknown = crn_v_cstr(d->unknown_label);
  if (crn_v_is_dict(d->unknown_label)) unknown = crn_v_cstr(crn_v_get(d->unknown_label, key_names[which]));
  const char *dir = crn_dataset_path(&d->base, d->path);
  const char *file = crn_arena_printf(&d->base.arena, "%s/%s.vocab.pkl", dir ? dir : "", file_names[which]);
  if (!dir || !file) return crn_err_memory(err);
  return crn_vocab_from_file(file, unknown, true, &d->sides[which].vocab, err);
}

static crn_status add_key(translation_dataset *d, int which, crn_err *err) {
  crn_data_key *k;
  const crn_vocab *v = d->sides[which].vocab;
  CRN_TRY(crn_dataset_add_key(&d->base, key_names[which], &k, err));
  k->dim = crn_vocab_size(v);
  k->sparse = true;
  k->dtype = CRN_NT_I32;
  k->is_target = which == TARGET;
  k->labels = crn_vocab_labels(v);
  k->n_labels = (size_t)k->dim;
  return CRN_OK;
}

static crn_status open_side(translation_dataset *d, int which, crn_err *err) {
  side *s = &d->sides[which];
  const char *path = NULL;
  s->postfix = which == SOURCE ? d->source_postfix : d->target_postfix;
  CRN_TRY(open_vocab(d, which, err));
  CRN_TRY(find_file(d, which, &path, err));
  crn_value name = {.kind = CRN_V_STR, .u.s = {path, strlen(path)}};
  CRN_TRY(crn_lm_text_open(&s->text, &d->base, &name, false, false, err));
  s->used = true;
  return add_key(d, which, err);
}

static crn_status open_all(translation_dataset *d, crn_err *err) {
  d->present_seq = -1;
  if (!crn_v_is_none(d->seq_list_option))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'seq_list_file'");
  CRN_TRY(open_side(d, SOURCE, err));
  if (d->source_only || d->without_reference) return CRN_OK;
  CRN_TRY(open_side(d, TARGET, err));
  int64_t n = d->sides[SOURCE].text.n_lines, m = d->sides[TARGET].text.n_lines;
  if (n == m) return CRN_OK;
  return crn_fail(err, CRN_E_DATA, "the source has %lld lines, the target %lld", (long long)n, (long long)m);
}

static crn_status translation_init(crn_dataset *ds, crn_err *err) {
  crn_status code = open_all((translation_dataset *)ds, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  return code;
}

static void translation_deinit(crn_dataset *ds) {
  translation_dataset *d = (translation_dataset *)ds;
  for (int i = 0; i < 2; i++) {
    crn_lm_text_close(&d->sides[i].text);
    crn_vocab_free(d->sides[i].vocab);
    crn_free(d->sides[i].present.p);
  }
  crn_str_free(&d->line);
}

/* Labels of both sides of a line. */
static crn_status load_seq(translation_dataset *d, int64_t seq, crn_err *err) {
  if (d->present_seq == seq) return CRN_OK;
  d->present_seq = -1;
  for (int i = 0; i < 2 && d->sides[i].used; i++) {
    side *s = &d->sides[i];
    s->present.n = 0;
    crn_str_clear(&d->line);
    crn_lm_text_line(&s->text, seq, &d->line);
    crn_str_add(&d->line, s->postfix);
    if (!crn_str_ok(&d->line)) return crn_err_memory(err);
    crn_status code = crn_vocab_encode(s->vocab, crn_str_get(&d->line), &s->present, err);
    if (code == CRN_OK) continue;
    crn_err_where(err, "dataset '%s' (%s), %s line %lld", d->base.name, d->base.cls->name, file_names[i],
                  (long long)seq);
    return code;
  }
  d->present_seq = seq;
  return CRN_OK;
}

static int64_t translation_size(const crn_dataset *ds) {
  return ((const translation_dataset *)ds)->sides[SOURCE].text.n_lines;
}

static crn_status translation_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err) {
  return crn_dataset_number_tag(ds, "line-", seq, tag, err);
}

static crn_status translation_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err) {
  translation_dataset *d = (translation_dataset *)ds;
  CRN_TRY(load_seq(d, seq, err));
  *len = d->sides[key].present.n;
  return CRN_OK;
}

static crn_status translation_order_length(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err) {
  return translation_length(ds, seq, SOURCE, len, err);
}

static crn_status translation_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                                   crn_err *err) {
  translation_dataset *d = (translation_dataset *)ds;
  CRN_TRY(load_seq(d, seq, err));
  int64_t shape[1] = {end - start};
  CRN_TRY(crn_array_resize(out, CRN_NT_I32, 1, shape, err));
  if (out->n) memcpy(out->data, d->sides[key].present.p + start, (size_t)out->n * sizeof(int32_t));
  return CRN_OK;
}

#define OFF(field) offsetof(translation_dataset, field)
static const crn_data_opt translation_options[] = {
    {"path", CRN_DOPT_STR, OFF(path), NULL, 0, "folder of the files source.POSTFIX, target.POSTFIX, *.vocab.pkl"},
    {"file_postfix", CRN_DOPT_STR, OFF(file_postfix), NULL, 0, "end of the text files' names"},
    {"source_postfix", CRN_DOPT_STR, OFF(source_postfix), "", 0, "text put behind every source line, as \" </S>\""},
    {"target_postfix", CRN_DOPT_STR, OFF(target_postfix), "", 0, "text put behind every target line"},
    {"unknown_label", CRN_DOPT_VALUE, OFF(unknown_label), "None", 0,
     "label of unknown words, or a dict key: label; None: they are errors"},
    {"source_only", CRN_DOPT_BOOL, OFF(source_only), "False", 0, "there is no target"},
    {"search_without_reference", CRN_DOPT_BOOL, OFF(without_reference), "False", 0, "there is no target file"},
    {"seq_list_file", CRN_DOPT_VALUE, OFF(seq_list_option), "None", 0, "not implemented"},
    {"use_cache_manager", CRN_DOPT_BOOL, OFF(use_cache_manager), "False", 0, "has no meaning here"},
    {0}};

const crn_dataset_class crn_translation_dataset = {
    .name = "TranslationDataset",
    .doc = "Reads pairs of text files.",
    .opts = translation_options,
    .bytes = sizeof(translation_dataset),
    .init = translation_init,
    .deinit = translation_deinit,
    .corpus_size = translation_size,
    .order_length = translation_order_length,
    .tag = translation_tag,
    .length = translation_length,
    .read = translation_read,
};
