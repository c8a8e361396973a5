/* SPDX-License-Identifier: Apache-2.0
 *
 * Utterances with audio and text (see audio_corpus.h).
 */
#include "data/audio_corpus.h"

#include <math.h>
#include <string.h>

#include "data/mt19937.h"
#include "data/text_process.h"

static const char *path_of(void *user, const char *file) { return crn_dataset_path(user, file); }

static crn_status add_key(crn_audio_corpus *c, const char *name, int64_t dim, bool sparse, crn_ntype dtype, int rank,
                          int *index, crn_err *err) {
  crn_data_key *k;
  CRN_TRY(crn_dataset_add_key(&c->base, name, &k, err));
  k->dim = dim;
  k->sparse = sparse;
  k->dtype = dtype;
  k->rank = k->ndim = rank;
  k->shape[0] = -1;
  k->shape[1] = dim;
  k->is_target = strcmp(name, "data") != 0;
  *index = (int)c->base.n_keys - 1;
  return CRN_OK;
}

crn_status crn_audio_corpus_open(crn_audio_corpus *c, bool with_orth, crn_err *err) {
  c->data_key = c->classes_key = c->orth_key = c->raw_key = -1;
  c->labels_seq = -1;
  c->cache = crn_calloc(CRN_AUDIO_CACHE, sizeof *c->cache);
  if (!c->cache) return crn_err_memory(err);
  for (size_t i = 0; i < CRN_AUDIO_CACHE; i++) c->cache[i].seq = -1;
  CRN_TRY(crn_text_process_check(c->post_process, err));
  if (!crn_v_is_none(c->audio_option)) {
    CRN_TRY(crn_features_new(c->audio_option, path_of, &c->base, &c->features, err));
    CRN_TRY(add_key(c, "data", crn_features_dim(c->features), false, CRN_NT_F32, 2, &c->data_key, err));
  }
  if (!crn_v_is_none(c->targets_option)) {
    CRN_TRY(crn_vocab_new(c->targets_option, path_of, &c->base, &c->vocab, err));
    CRN_TRY(add_key(c, "classes", crn_vocab_size(c->vocab), true, CRN_NT_I32, 1, &c->classes_key, err));
    c->base.keys[c->classes_key].labels = crn_vocab_labels(c->vocab);
    c->base.keys[c->classes_key].n_labels = (size_t)crn_vocab_size(c->vocab);
  }
  if (with_orth) CRN_TRY(add_key(c, "orth", 256, true, CRN_NT_U8, 1, &c->orth_key, err));
  return add_key(c, "raw", -1, false, CRN_NT_STR, 0, &c->raw_key, err);
}

crn_status crn_audio_corpus_add(crn_audio_corpus *c, const crn_utterance *u, crn_err *err) {
  if (c->n_utts == c->cap_utts) {
    int64_t cap = c->cap_utts ? 2 * c->cap_utts : 1024;
    crn_utterance *grown = crn_realloc(c->utts, (size_t)cap * sizeof *grown);
    if (!grown) return crn_err_memory(err);
    c->utts = grown;
    c->cap_utts = cap;
  }
  c->utts[c->n_utts++] = *u;
  return CRN_OK;
}

crn_status crn_audio_corpus_subset(crn_audio_corpus *c, uint32_t seed, crn_err *err) {
  double f;
  int64_t n = c->n_utts, keep;
  if (crn_v_is_none(c->subset_option)) return CRN_OK;
  if (!crn_v_to_float(c->subset_option, &f) || !(f > 0))
    return crn_fail(err, CRN_E_CONFIG, "option 'fixed_random_subset': expected a number > 0");
  keep = f < 1 ? (int64_t)(f * (double)n) : f < (double)n ? (int64_t)f : n;
  int64_t *order = crn_malloc((size_t)(n + 1) * sizeof *order);
  crn_utterance *kept = crn_malloc((size_t)(keep + 1) * sizeof *kept);
  crn_status code = order && kept ? CRN_OK : crn_err_memory(err);
  if (code == CRN_OK) {
    crn_mt rng;
    crn_mt_seed(&rng, seed);
    crn_mt_permutation(&rng, order, n);
    for (int64_t i = 0; i < keep; i++) kept[i] = c->utts[order[i]];
    memcpy(c->utts, kept, (size_t)keep * sizeof *kept);
    c->n_utts = keep;
  }
  crn_free(order);
  crn_free(kept);
  return code;
}

void crn_audio_corpus_deinit(crn_dataset *ds) {
  crn_audio_corpus *c = (crn_audio_corpus *)ds;
  for (size_t i = 0; c->cache && i < CRN_AUDIO_CACHE; i++) crn_array_free(&c->cache[i].features);
  crn_free(c->cache);
  crn_free(c->utts);
  crn_free(c->labels.p);
  crn_features_free(c->features);
  crn_vocab_free(c->vocab);
}

/* ---- sequences ---- */

int64_t crn_audio_corpus_size(const crn_dataset *ds) { return ((const crn_audio_corpus *)ds)->n_utts; }

crn_status crn_audio_corpus_tag(crn_dataset *ds, int64_t seq, const char **tag, crn_err *err) {
  (void)err;
  *tag = ((crn_audio_corpus *)ds)->utts[seq].tag;
  return CRN_OK;
}

crn_status crn_audio_corpus_order_length(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err) {
  (void)err;
  *len = ((crn_audio_corpus *)ds)->utts[seq].order_length;
  return CRN_OK;
}

/* The features of an utterance, made now or found in the cache. */
static crn_status load_features(crn_audio_corpus *c, int64_t seq, const crn_array **out, crn_err *err) {
  for (size_t i = 0; i < CRN_AUDIO_CACHE; i++)
    if (c->cache[i].seq == seq) {
      *out = &c->cache[i].features;
      return CRN_OK;
    }
  const crn_utterance *u = &c->utts[seq];
  char *bytes = NULL;
  size_t len = 0, slot = c->cache_next;
  crn_audio audio = {0};
  c->cache[slot].seq = -1;
  crn_status code = c->load(c, u, &bytes, &len, err);
  if (code == CRN_OK) code = crn_audio_decode(bytes, len, u->file, &audio, err);
  crn_free(bytes);
  if (code == CRN_OK) code = crn_features_compute(c->features, &audio, u->file, &c->cache[slot].features, err);
  crn_audio_free(&audio);
  if (code != CRN_OK) {
    crn_err_where(err, "dataset '%s' (%s), sequence '%s'", c->base.name, c->base.cls->name, u->tag);
    return code;
  }
  c->cache[slot].seq = seq;
  c->cache_next = (slot + 1) % CRN_AUDIO_CACHE;
  *out = &c->cache[slot].features;
  return CRN_OK;
}

static crn_status load_labels(crn_audio_corpus *c, int64_t seq, crn_err *err) {
  if (c->labels_seq == seq) return CRN_OK;
  crn_str text = {0};
  c->labels_seq = -1;
  c->labels.n = 0;
  crn_status code = crn_text_process(c->post_process, c->utts[seq].text, &text, err);
  if (code == CRN_OK) code = crn_vocab_encode(c->vocab, crn_str_get(&text), &c->labels, err);
  crn_str_free(&text);
  if (code == CRN_OK)
    c->labels_seq = seq;
  else
    crn_err_where(err, "dataset '%s' (%s), sequence '%s'", c->base.name, c->base.cls->name, c->utts[seq].tag);
  return code;
}

crn_status crn_audio_corpus_length(crn_dataset *ds, int64_t seq, size_t key, int64_t *len, crn_err *err) {
  crn_audio_corpus *c = (crn_audio_corpus *)ds;
  const crn_array *features;
  if ((int)key == c->orth_key) {
    *len = (int64_t)strlen(c->utts[seq].text);
  } else if ((int)key == c->classes_key) {
    CRN_TRY(load_labels(c, seq, err));
    *len = c->labels.n;
  } else {
    CRN_TRY(load_features(c, seq, &features, err));
    *len = features->shape[0];
  }
  return CRN_OK;
}

crn_status crn_audio_corpus_read(crn_dataset *ds, int64_t seq, size_t key, int64_t start, int64_t end, crn_array *out,
                                 crn_err *err) {
  crn_audio_corpus *c = (crn_audio_corpus *)ds;
  const crn_data_key *k = &ds->keys[key];
  int64_t shape[2] = {end - start, k->dim}, width = k->rank > 1 ? k->dim : 1;
  const void *from;
  if ((int)key == c->raw_key) {
    CRN_TRY(crn_array_resize(out, CRN_NT_STR, 0, shape, err));
    *(const char **)out->data = c->utts[seq].text;
    return CRN_OK;
  }
  if ((int)key == c->orth_key) {
    from = c->utts[seq].text;
  } else if ((int)key == c->classes_key) {
    CRN_TRY(load_labels(c, seq, err));
    from = c->labels.p;
  } else {
    const crn_array *features;
    CRN_TRY(load_features(c, seq, &features, err));
    from = features->data;
  }
  CRN_TRY(crn_array_resize(out, k->dtype, k->rank, shape, err));
  size_t bytes = crn_ntype_bytes(k->dtype);
  if (out->n) memcpy(out->data, (const char *)from + (size_t)(start * width) * bytes, (size_t)out->n * bytes);
  return CRN_OK;
}
