/* SPDX-License-Identifier: Apache-2.0
 *
 * OggZipDataset: zip files with audio and one list of utterances, NAME.txt, a Python list of dicts {"text", "duration",
 * "file", "seq_name"}.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "data/audio_corpus.h"
#include "data/epoch_filter.h"
#include "data/textfile.h"
#include "data/zip.h"

typedef struct ogg_container {
  crn_zip *zip;
  const char *name;       /* of the list and of the audio folder */
  const char *other_list; /* NAME.txt.gz given beside the zip file, or NULL */
} ogg_container;

typedef struct oggzip_dataset {
  crn_audio_corpus corpus;
  const crn_value *path_option, *subset_seed;
  const char *segment_file, *content_name;
  bool name_prefix, resolve_symlink, use_cache_manager;
  ogg_container *containers;
  size_t n_containers;
  crn_map segments; /* tags to keep, if segment_file */
} oggzip_dataset;

/* "dir/NAME.ext" -> NAME. */
static const char *base_name(crn_arena *a, const char *path, const char *ext) {
  const char *slash = strrchr(path, '/');
  const char *start = slash ? slash + 1 : path;
  size_t len = strlen(start) - (crn_ends_with(start, ext) ? strlen(ext) : 0);
  return crn_arena_strndup(a, start, len);
}

static crn_status open_zip(oggzip_dataset *d, const char *file, crn_err *err) {
  crn_arena *a = &d->corpus.base.arena;
  ogg_container *c = &d->containers[d->n_containers];
  const char *path = crn_dataset_path(&d->corpus.base, file), *named = path;
  char real[PATH_MAX];
  if (!path) return crn_err_memory(err);
  if (d->resolve_symlink && realpath(path, real)) named = real;
  c->name = d->content_name ? d->content_name : base_name(a, named, ".zip");
  if (!c->name) return crn_err_memory(err);
  CRN_TRY(crn_zip_open(path, &c->zip, err));
  d->n_containers++;
  return CRN_OK;
}

/* All zip files first, then the lists that replace theirs. */
static crn_status open_paths(oggzip_dataset *d, crn_err *err) {
  crn_dataset *ds = &d->corpus.base;
  const crn_value *v = d->path_option;
  bool one = crn_v_is_str(v);
  size_t n = one ? 1 : crn_v_is_seq(v) ? crn_v_len(v) : 0;
  d->containers = CRN_ARENA_ARRAY(&ds->arena, ogg_container, n + 1);
  if (!d->containers) return crn_err_memory(err);
  if (!n) return crn_fail(err, CRN_E_CONFIG, "option 'path': expected a zip file or a list of them");
  for (int lists = 0; lists < 2; lists++)
    for (size_t i = 0; i < n; i++) {
      const char *file = crn_v_cstr(one ? v : crn_v_at(v, i));
      if (!file) return crn_fail(err, CRN_E_CONFIG, "option 'path': entry %zu is no string", i + 1);
      bool list = crn_ends_with(file, ".txt.gz");
      if (!list && !crn_ends_with(file, ".zip"))
        return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: '%s', which is no .zip file", file);
      if (!list && !lists) CRN_TRY(open_zip(d, file, err));
      if (!list || !lists) continue;
      const char *name = base_name(&ds->arena, file, ".txt.gz"), *path = crn_dataset_path(ds, file);
      size_t found = d->n_containers;
      for (size_t j = 0; name && path && j < d->n_containers; j++)
        if (!strcmp(d->containers[j].name, name)) found = j;
      if (found == d->n_containers) return crn_fail(err, CRN_E_CONFIG, "'%s': there is no zip file of that name", file);
      d->containers[found].other_list = path;
    }
  return CRN_OK;
}

static crn_status add_entry(oggzip_dataset *d, size_t container, const crn_value *e, crn_err *err) {
  crn_arena *a = &d->corpus.base.arena;
  const char *text = crn_v_cstr(crn_v_get(e, "text")), *file = crn_v_cstr(crn_v_get(e, "file"));
  const char *name = crn_v_cstr(crn_v_get(e, "seq_name")), *tag = name ? name : file;
  double duration;
  bool audio = !crn_v_is_none(d->corpus.audio_option);
  if (!text || !tag || (audio && !file) || !crn_v_to_float(crn_v_get(e, "duration"), &duration) ||
      !(duration >= 0 && duration < 1e9))
    return crn_fail(err, CRN_E_FORMAT, "expected {\"text\": …, \"duration\": seconds, \"file\": …}");
  if (d->segment_file && !crn_map_has(&d->segments, tag)) return CRN_OK;
  crn_utterance u = {.tag = crn_arena_strdup(a, tag),
                     .text = crn_arena_strdup(a, text),
                     .container = container,
                     .order_length = (int64_t)(100 * duration)};
  if (audio) {
    bool prefix = d->name_prefix;
    u.file = crn_arena_printf(a, "%s%s%s", prefix ? d->containers[container].name : "", prefix ? "/" : "", file);
  }
  if (a->failed) return crn_err_memory(err);
  return crn_audio_corpus_add(&d->corpus, &u, err);
}

static crn_status read_list(oggzip_dataset *d, size_t container, crn_err *err) {
  ogg_container *c = &d->containers[container];
  crn_arena scratch = {0};
  const char *name = crn_arena_printf(&scratch, "%s.txt", c->name);
  char *text = NULL;
  size_t len;
  crn_value *list = NULL;
  crn_status code = name ? CRN_OK : crn_err_memory(err);
  if (code == CRN_OK && c->other_list)
    code = crn_text_literal(&scratch, c->other_list, &list, err);
  else if (code == CRN_OK) {
    code = crn_zip_read(c->zip, name, &text, &len, err);
    if (code == CRN_OK) code = crn_v_parse_literal(&scratch, text, name, &list, err);
  }
  if (code == CRN_OK && !crn_v_is_seq(list))
    code = crn_fail(err, CRN_E_FORMAT, "%s: '%s': expected a list", crn_zip_path(c->zip), name);
  for (size_t i = 0; i < crn_v_len(list) && code == CRN_OK; i++) {
    code = add_entry(d, container, crn_v_at(list, i), err);
    if (code != CRN_OK) crn_err_where(err, "%s: '%s': entry %zu", crn_zip_path(c->zip), name, i + 1);
  }
  crn_free(text);
  crn_arena_free(&scratch);
  return code;
}

static crn_status read_segments(oggzip_dataset *d, crn_err *err) {
  if (!d->segment_file) return CRN_OK;
  crn_arena scratch = {0};
  char **tags = NULL;
  size_t n = 0;
  const char *path = crn_dataset_path(&d->corpus.base, d->segment_file);
  crn_status code = path ? crn_text_tags(&scratch, path, &tags, &n, err) : crn_err_memory(err);
  for (size_t i = 0; i < n && code == CRN_OK; i++)
    if (crn_map_set(&d->segments, tags[i], d) != CRN_OK) code = crn_err_memory(err);
  crn_arena_free(&scratch);
  return code;
}

static crn_status load_audio(crn_audio_corpus *c, const crn_utterance *u, char **bytes, size_t *len, crn_err *err) {
  return crn_zip_read(((oggzip_dataset *)c)->containers[u->container].zip, u->file, bytes, len, err);
}

static crn_status open_all(oggzip_dataset *d, crn_err *err) {
  int64_t seed = 42;
  d->corpus.load = load_audio;
  if (!crn_v_is_none(d->subset_seed) && !crn_v_to_int(d->subset_seed, &seed))
    return crn_fail(err, CRN_E_CONFIG, "option 'fixed_random_subset_seed': expected an integer");
  CRN_TRY(crn_audio_corpus_open(&d->corpus, true, err));
  CRN_TRY(read_segments(d, err));
  CRN_TRY(open_paths(d, err));
  for (size_t i = 0; i < d->n_containers; i++) CRN_TRY(read_list(d, i, err));
  return crn_audio_corpus_subset(&d->corpus, (uint32_t)seed, err);
}

static crn_status oggzip_init(crn_dataset *ds, crn_err *err) {
  crn_status code = open_all((oggzip_dataset *)ds, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  return code;
}

static void oggzip_deinit(crn_dataset *ds) {
  oggzip_dataset *d = (oggzip_dataset *)ds;
  for (size_t i = 0; i < d->n_containers; i++) crn_zip_close(d->containers[i].zip);
  crn_map_free(&d->segments);
  crn_audio_corpus_deinit(ds);
}

static crn_status oggzip_order(crn_dataset *ds, const crn_seq_list *list, crn_err *err) {
  CRN_TRY(crn_dataset_common_order(ds, list, err));
  return list ? CRN_OK : crn_epoch_filter(ds, ((oggzip_dataset *)ds)->corpus.epoch_filter, NULL, err);
}

#define OFF(field) offsetof(oggzip_dataset, field)
static const crn_data_opt oggzip_options[] = {
    {"path", CRN_DOPT_VALUE, OFF(path_option), NULL, 0, "zip file, or list of them"},
    {"audio", CRN_DOPT_VALUE, OFF(corpus.audio_option), NULL, 0, "options of the features; None: no audio"},
    {"targets", CRN_DOPT_VALUE, OFF(corpus.targets_option), NULL, 0, "options of the vocabulary; None: no labels"},
    {"targets_post_process", CRN_DOPT_VALUE, OFF(corpus.post_process), "None", 0, "changes of the text before that"},
    {"segment_file", CRN_DOPT_STR, OFF(segment_file), "None", 0, "file of the tags to keep"},
    {"fixed_random_subset", CRN_DOPT_VALUE, OFF(corpus.subset_option), "None", 0, "random part: fraction or count"},
    {"fixed_random_subset_seed", CRN_DOPT_VALUE, OFF(subset_seed), "None", 0, "seed of that; default 42"},
    {"epoch_wise_filter", CRN_DOPT_VALUE, OFF(corpus.epoch_filter), "None", 0, "dict (first, last epoch): filter"},
    {"zip_audio_files_have_name_as_prefix", CRN_DOPT_BOOL, OFF(name_prefix), "True", 0, "audio is in a folder NAME"},
    {"content_name", CRN_DOPT_STR, OFF(content_name), "None", 0, "NAME, if it isn't the file's"},
    {"resolve_symlink_for_name", CRN_DOPT_BOOL, OFF(resolve_symlink), "False", 0, "NAME is that of a link's target"},
    {"use_cache_manager", CRN_DOPT_BOOL, OFF(use_cache_manager), "False", 0, "has no meaning here"},
    {0}};

const crn_dataset_class crn_oggzip_dataset = {
    .name = "OggZipDataset",
    .doc = "Reads audio files and transcripts from zip files.",
    .opts = oggzip_options,
    .bytes = sizeof(oggzip_dataset),
    .init = oggzip_init,
    .deinit = oggzip_deinit,
    .corpus_size = crn_audio_corpus_size,
    .order_length = crn_audio_corpus_order_length,
    .tag = crn_audio_corpus_tag,
    .length = crn_audio_corpus_length,
    .read = crn_audio_corpus_read,
    .make_order = oggzip_order,
};
