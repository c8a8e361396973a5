/* SPDX-License-Identifier: Apache-2.0
 *
 * LibriSpeechCorpus: the corpus as it is distributed, in zip files (train-clean-100.zip, …) or unpacked: folders
 * SUBDIR/SPEAKER/CHAPTER with one transcript file each and one audio file per utterance.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/audio_corpus.h"
#include "data/epoch_filter.h"
#include "data/text_process.h"
#include "data/textfile.h"
#include "data/words.h"
#include "data/zip.h"

typedef struct libri_dataset {
  crn_audio_corpus corpus;
  const char *path, *prefix, *tag_format;
  const crn_value *bpe, *chars;
  bool use_zip, use_ogg, use_cache_manager;
  crn_zip **zips;
  size_t n_zips, cap_zips;
  const char *root; /* the folder, as it is opened */
} libri_dataset;

/* ---- transcripts ---- */

static int64_t count_chars(const char *text) {
  int64_t n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

/* Read "SPK-CHAP-NNNN" ahead of a space. */
static const char *parse_id(const char *line, int64_t id[3]) {
  for (int i = 0; i < 3; i++) {
    char *end;
    id[i] = strtoll(line, &end, 10);
    if (end == line || *end != (i < 2 ? '-' : ' ')) return NULL;
    line = end + 1;
  }
  return line;
}

/* All lines of a transcript file; folder: where its audio files are, inside of the container. */
static crn_status add_transcript(libri_dataset *d, size_t container, const char *subdir, const char *folder, char *text,
                                 const char *name, crn_err *err) {
  crn_dataset *ds = &d->corpus.base;
  crn_str processed = {0};
  crn_status code = CRN_OK;
  for (char *line = text, *next; *line && code == CRN_OK; line = next) {
    size_t len = strcspn(line, "\n");
    next = line + len + (line[len] == '\n');
    line[len] = 0;
    if (len && line[len - 1] == '\r') line[len - 1] = 0;
    if (!line[0]) continue;
    crn_utterance u = {.container = container, .group = subdir};
    const char *words = parse_id(line, u.rank);
    if (!words) {
      code = crn_fail(err, CRN_E_FORMAT, "%s: expected \"SPEAKER-CHAPTER-NUMBER TEXT\", got \"%.40s\"", name, line);
      break;
    }
    code = crn_text_process(d->corpus.post_process, words, &processed, err);
    u.order_length = count_chars(crn_str_get(&processed));
    u.text = crn_arena_strdup(&ds->arena, words);
    u.tag = crn_arena_printf(&ds->arena, "%s-%lld-%lld-%04lld", subdir, (long long)u.rank[0], (long long)u.rank[1],
                             (long long)u.rank[2]);
    u.file =
        crn_arena_printf(&ds->arena, "%s/%.*s.flac%s", folder, (int)(words - 1 - line), line, d->use_ogg ? ".ogg" : "");
    if (code == CRN_OK && ds->arena.failed) code = crn_err_memory(err);
    if (code == CRN_OK) code = crn_audio_corpus_add(&d->corpus, &u, err);
  }
  crn_str_free(&processed);
  return code;
}

/* ---- zip files ---- */

static crn_status read_zip(libri_dataset *d, const char *subdir, crn_err *err) {
  crn_arena *a = &d->corpus.base.arena;
  const char *path = crn_arena_printf(a, "%s/%s.zip", d->root, subdir);
  if (!path) return crn_err_memory(err);
  if (d->n_zips == d->cap_zips) {
    size_t cap = d->cap_zips ? 2 * d->cap_zips : 8;
    crn_zip **grown = crn_realloc(d->zips, cap * sizeof(crn_zip *));
    if (!grown) return crn_err_memory(err);
    d->zips = grown;
    d->cap_zips = cap;
  }
  size_t container = d->n_zips;
  CRN_TRY(crn_zip_open(path, &d->zips[container], err));
  d->n_zips++;
  crn_zip *z = d->zips[container];
  for (size_t i = 0; i < crn_zip_count(z); i++) {
    const char *name = crn_zip_name(z, i), *slash = strrchr(name, '/');
    char *text;
    size_t len;
    if (!crn_ends_with(name, ".trans.txt") || !slash) continue;
    const char *folder = crn_arena_strndup(a, name, (size_t)(slash - name));
    if (!folder) return crn_err_memory(err);
    CRN_TRY(crn_zip_read(z, name, &text, &len, err));
    crn_status code = add_transcript(d, container, subdir, folder, text, name, err);
    crn_free(text);
    if (code != CRN_OK) return code;
  }
  return CRN_OK;
}

/* ---- folders ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names in a folder, in order, but no hidden ones; in the arena. */
static crn_status list_folder(crn_arena *a, const char *path, char ***names, size_t *n, crn_err *err) {
  DIR *dir = opendir(path);
  if (!dir) return crn_fail(err, CRN_E_FILE, "%s: can't be listed", path);
  crn_words w = {0};
  for (struct dirent *e = readdir(dir); e; e = readdir(dir))
    if (e->d_name[0] != '.') crn_words_addz(&w, e->d_name);
  closedir(dir);
  *n = w.n;
  *names = CRN_ARENA_ARRAY(a, char *, w.n + 1);
  for (size_t i = 0; *names && i < w.n; i++) (*names)[i] = crn_arena_strdup(a, crn_words_at(&w, i));
  bool ok = crn_words_ok(&w) && !a->failed;
  crn_words_free(&w);
  if (!ok) return crn_err_memory(err);
  if (*n) qsort(*names, *n, sizeof **names, by_name);
  return CRN_OK;
}

static crn_status read_chapter(libri_dataset *d, const char *subdir, const char *folder, crn_err *err) {
  crn_arena scratch = {0};
  crn_arena *a = &d->corpus.base.arena;
  char **files;
  size_t n;
  crn_status code = list_folder(&scratch, folder, &files, &n, err);
  const char *kept = crn_arena_strdup(a, folder);
  if (code == CRN_OK && !kept) code = crn_err_memory(err);
  for (size_t i = 0; code == CRN_OK && i < n; i++) {
    if (!crn_ends_with(files[i], ".trans.txt")) continue;
    const char *path = crn_arena_printf(&scratch, "%s/%s", folder, files[i]);
    char *text;
    size_t len;
    code = path ? crn_text_read(&scratch, path, &text, &len, err) : crn_err_memory(err);
    if (code == CRN_OK) code = add_transcript(d, 0, subdir, kept, text, path, err);
  }
  crn_arena_free(&scratch);
  return code;
}

static crn_status read_folder(libri_dataset *d, const char *subdir, crn_err *err) {
  crn_arena scratch = {0};
  char **speakers, **chapters;
  size_t n, m;
  const char *path = crn_arena_printf(&scratch, "%s/%s", d->root, subdir);
  crn_status code = path ? list_folder(&scratch, path, &speakers, &n, err) : crn_err_memory(err);
  for (size_t i = 0; code == CRN_OK && i < n; i++) {
    const char *speaker = crn_arena_printf(&scratch, "%s/%s", path, speakers[i]);
    code = speaker ? list_folder(&scratch, speaker, &chapters, &m, err) : crn_err_memory(err);
    for (size_t j = 0; code == CRN_OK && j < m; j++) {
      const char *chapter = crn_arena_printf(&scratch, "%s/%s", speaker, chapters[j]);
      code = chapter ? read_chapter(d, subdir, chapter, err) : crn_err_memory(err);
    }
  }
  crn_arena_free(&scratch);
  return code;
}

/* ---- opening ---- */

static int by_rank(const void *a, const void *b) {
  const crn_utterance *x = a, *y = b;
  int group = strcmp(x->group, y->group);
  if (group) return group;
  for (int i = 0; i < 3; i++)
    if (x->rank[i] != y->rank[i]) return x->rank[i] < y->rank[i] ? -1 : 1;
  return 0;
}

/* All sub-folders (or zip files) whose names begin with the prefix. */
static crn_status read_subdirs(libri_dataset *d, crn_err *err) {
  crn_arena *a = &d->corpus.base.arena;
  char **names;
  size_t n, found = 0;
  CRN_TRY(list_folder(a, d->root, &names, &n, err));
  for (size_t i = 0; i < n; i++) {
    if (!crn_starts_with(names[i], d->prefix) || crn_ends_with(names[i], ".zip") != d->use_zip) continue;
    if (d->use_zip) names[i][strlen(names[i]) - strlen(".zip")] = 0;
    CRN_TRY(d->use_zip ? read_zip(d, names[i], err) : read_folder(d, names[i], err));
    found++;
  }
  if (found) return CRN_OK;
  return crn_fail(err, CRN_E_FILE, "%s: nothing there begins with '%s'%s", d->root, d->prefix,
                  d->use_zip ? " and ends with .zip" : "");
}

static crn_status load_audio(crn_audio_corpus *c, const crn_utterance *u, char **bytes, size_t *len, crn_err *err) {
  libri_dataset *d = (libri_dataset *)c;
  if (d->use_zip) return crn_zip_read(d->zips[u->container], u->file, bytes, len, err);
  FILE *f = fopen(u->file, "rb");
  if (!f) return crn_fail(err, CRN_E_FILE, "%s: can't be opened", u->file);
  crn_str s = {0};
  char buf[65536];
  size_t got;
  while ((got = fread(buf, 1, sizeof buf, f)) > 0) crn_str_addn(&s, buf, got);
  fclose(f);
  if (!crn_str_ok(&s)) {
    crn_str_free(&s);
    return crn_err_memory(err);
  }
  *bytes = s.p; /* from crn_realloc, so the caller's crn_free fits */
  *len = s.len;
  return CRN_OK;
}

/* The labels' options: `targets`, or the older names `bpe` and `chars`. */
static crn_status choose_targets(libri_dataset *d, crn_err *err) {
  const crn_value *targets = d->corpus.targets_option;
  const char *name = crn_v_cstr(targets);
  int given = !crn_v_is_none(targets) + !crn_v_is_none(d->bpe) + !crn_v_is_none(d->chars);
  if (name && !strcmp(name, "bpe")) d->corpus.targets_option = d->bpe, given--;
  if (name && !strcmp(name, "chars")) d->corpus.targets_option = d->chars, given--;
  if (given > 1) return crn_fail(err, CRN_E_CONFIG, "more than one of 'targets', 'bpe' and 'chars'");
  if (!name && crn_v_is_none(targets)) d->corpus.targets_option = crn_v_is_none(d->bpe) ? d->chars : d->bpe;
  crn_value *v = (crn_value *)(uintptr_t)d->corpus.targets_option; /* our own copy */
  if (v && v == d->chars && crn_v_is_dict(v) && !crn_v_get(v, "class"))
    crn_v_put(&d->corpus.base.arena, v, "class", crn_v_str(&d->corpus.base.arena, "CharacterTargets"));
  return d->corpus.base.arena.failed ? crn_err_memory(err) : CRN_OK;
}

static crn_status open_all(libri_dataset *d, crn_err *err) {
  d->corpus.load = load_audio;
  if (strcmp(d->tag_format, "%(subdir)s-%(speaker)i-%(chapter)i-%(seq)04i") != 0)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'seq_tag_format'");
  d->root = crn_dataset_path(&d->corpus.base, d->path);
  if (!d->root) return crn_err_memory(err);
  CRN_TRY(choose_targets(d, err));
  CRN_TRY(crn_audio_corpus_open(&d->corpus, false, err));
  CRN_TRY(read_subdirs(d, err));
  if (d->corpus.n_utts) qsort(d->corpus.utts, (size_t)d->corpus.n_utts, sizeof *d->corpus.utts, by_rank);
  return crn_audio_corpus_subset(&d->corpus, 42, err);
}

static crn_status libri_init(crn_dataset *ds, crn_err *err) {
  crn_status code = open_all((libri_dataset *)ds, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  return code;
}

static void libri_deinit(crn_dataset *ds) {
  libri_dataset *d = (libri_dataset *)ds;
  for (size_t i = 0; i < d->n_zips; i++) crn_zip_close(d->zips[i]);
  crn_free(d->zips);
  crn_audio_corpus_deinit(ds);
}

static const char *subdir_of(crn_dataset *ds, int64_t seq) { return ((crn_audio_corpus *)ds)->utts[seq].group; }

static crn_status libri_order(crn_dataset *ds, const crn_seq_list *list, crn_err *err) {
  CRN_TRY(crn_dataset_common_order(ds, list, err));
  return list ? CRN_OK : crn_epoch_filter(ds, ((crn_audio_corpus *)ds)->epoch_filter, subdir_of, err);
}

#define OFF(field) offsetof(libri_dataset, field)
static const crn_data_opt libri_options[] = {
    {"path", CRN_DOPT_STR, OFF(path), NULL, 0, "folder of the corpus"},
    {"prefix", CRN_DOPT_STR, OFF(prefix), NULL, 0, "sub-folders whose names begin so, as \"train\" or \"dev-clean\""},
    {"audio", CRN_DOPT_VALUE, OFF(corpus.audio_option), "None", 0, "options of the features; None: no audio"},
    {"targets", CRN_DOPT_VALUE, OFF(corpus.targets_option), "None", 0, "options of the vocabulary"},
    {"bpe", CRN_DOPT_VALUE, OFF(bpe), "None", 0, "options of a BytePairEncoding, instead of targets"},
    {"chars", CRN_DOPT_VALUE, OFF(chars), "None", 0, "options of CharacterTargets, instead of targets"},
    {"orth_post_process", CRN_DOPT_VALUE, OFF(corpus.post_process), "None", 0, "changes of the transcripts"},
    {"use_zip", CRN_DOPT_BOOL, OFF(use_zip), "False", 0, "the sub-folders are zip files"},
    {"use_ogg", CRN_DOPT_BOOL, OFF(use_ogg), "False", 0, "audio files are named .flac.ogg"},
    {"use_cache_manager", CRN_DOPT_BOOL, OFF(use_cache_manager), "False", 0, "has no meaning here"},
    {"fixed_random_subset", CRN_DOPT_VALUE, OFF(corpus.subset_option), "None", 0, "random part: fraction or count"},
    {"epoch_wise_filter", CRN_DOPT_VALUE, OFF(corpus.epoch_filter), "None", 0, "dict (first, last epoch): filter"},
    {"seq_tag_format", CRN_DOPT_STR, OFF(tag_format), "%(subdir)s-%(speaker)i-%(chapter)i-%(seq)04i", 0,
     "only this one is implemented"},
    {0}};

const crn_dataset_class crn_librispeech_dataset = {
    .name = "LibriSpeechCorpus",
    .doc = "Reads the LibriSpeech corpus.",
    .opts = libri_options,
    .bytes = sizeof(libri_dataset),
    .init = libri_init,
    .deinit = libri_deinit,
    .corpus_size = crn_audio_corpus_size,
    .order_length = crn_audio_corpus_order_length,
    .tag = crn_audio_corpus_tag,
    .length = crn_audio_corpus_length,
    .read = crn_audio_corpus_read,
    .make_order = libri_order,
};
