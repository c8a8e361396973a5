/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the public interface: models from configs in a folder, inputs and outputs, and the recorded case of a
 * beam search with its hypotheses.
 */
#ifndef CRN_TESTS_API_CHECK_H
#define CRN_TESTS_API_CHECK_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/bundle.h"
#include "creturnn.h"
#include "data/hdf5.h"

#define CASES CRN_SOURCE_DIR "/tests/data/conformance/cases/"

typedef struct folder {
  char path[64], config[96], model[96];
} folder;

static inline folder make_folder(void) {
  folder f;
  (void)snprintf(f.path, sizeof(f.path), "/tmp/crn_api_XXXXXX");
  assert_non_null(mkdtemp(f.path));
  (void)snprintf(f.config, sizeof(f.config), "%s/net.json", f.path);
  (void)snprintf(f.model, sizeof(f.model), "%s/model.001", f.path);
  return f;
}

static inline void remove_folder(const folder *f) {
  crn_err err = {0};
  (void)crn_bundle_remove(f->model, &err);
  crn_err_clear(&err);
  (void)remove(f->config);
  assert_int_equal(rmdir(f->path), 0);
}

static inline void write_text(const char *path, const char *text) {
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  assert_true(fputs(text, out) >= 0);
  assert_int_equal(fclose(out), 0);
}

static inline void random_values(float *x, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 24) * 4 - 2;
  }
}

static inline crn_model *load(const folder *f, const char *checkpoint, crn_use use) {
  crn_message m;
  crn_model *model;
  crn_model_options o = crn_model_defaults();
  o.use = use;
  if (crn_model_load(f->config, checkpoint, &o, &model, &m) != CRN_OK) fail_msg("%s", m.text);
  assert_string_equal(m.text, "");
  return model;
}

static inline crn_session *session(crn_model *model, const crn_session_options *o) {
  crn_message m;
  crn_session *s;
  if (crn_session_new(model, o, &s, &m) != CRN_OK) fail_msg("%s", m.text);
  return s;
}

static inline void feed(crn_session *s, const float *x, int64_t B, int64_t T, int64_t F, const int32_t *lengths) {
  crn_message m;
  const int64_t shape[3] = {B, T, F};
  if (crn_session_input(s, "data", CRN_FLOAT32, 3, shape, x, 1, &lengths, &m) != CRN_OK) fail_msg("%s", m.text);
}

static inline crn_output run(crn_session *s, const char *layer) {
  crn_message m;
  crn_output o;
  if (crn_session_run(s, &m) != CRN_OK) fail_msg("%s", m.text);
  if (crn_session_output(s, layer, &o, &m) != CRN_OK) fail_msg("%s", m.text);
  return o;
}

static inline void refused(crn_status got, crn_status want, const crn_message *m, const char *part) {
  if (got != want || !strstr(m->text, part))
    fail_msg("status %d, '%s' instead of %d, '…%s…'", (int)got, m->text, (int)want, part);
}

/* ---- search ---------------------------------------------------------------------------------------------------------
 */

enum { MAX_STEPS = 7, BEAM = 3, SEQS = 3, FRAMES = 7 };

/* A recorded case without length normalisation: config and checkpoint in a folder, its input in x and lengths. */
static inline folder recorded_case(float *x, int32_t *lengths) {
  folder f = make_folder();
  json_error_t problem;
  crn_err err = {0};
  json_t *root = json_load_file(CASES "search_beam3.json", 0, &problem), *v = json_object_get(root, "config");
  assert_non_null(v);
  assert_int_equal(json_dump_file(v, f.config, 0), 0);
  json_t *config = v;
  static const char *const path[] = {"network", "output", "unit", "output"};
  for (size_t i = 0; i < 4; i++) assert_non_null(v = json_object_get(v, path[i]));
  assert_int_equal(json_object_set_new(v, "length_normalization", json_false()), 0);
  assert_int_equal(json_dump_file(config, f.config, 0), 0);
  json_decref(root);
  crn_h5 *h;
  crn_bundle_writer *w;
  char **names;
  void *values[32] = {NULL}; /* the writer wants them until it finishes */
  size_t n;
  assert_int_equal(crn_h5_open(CASES "search_beam3.h5", &h, &err), CRN_OK);
  assert_int_equal(crn_bundle_begin(f.model, NULL, &w, &err), CRN_OK);
  assert_int_equal(crn_h5_members(h, "params", &names, &n, &err), CRN_OK);
  assert_true(n <= 32);
  for (size_t i = 0; i < n; i++) {
    char in_file[256];
    crn_h5_info info;
    (void)snprintf(in_file, sizeof(in_file), "params/%s", names[i]);
    assert_int_equal(crn_h5_read(h, in_file, CRN_NT_F32, &values[i], &info, &err), CRN_OK);
    for (char *p = names[i]; *p; p++)
      if (*p == '|') *p = '/';
    assert_int_equal(crn_bundle_add(w, names[i], CRN_TF_FLOAT32, info.rank, info.shape, values[i], &err), CRN_OK);
  }
  assert_int_equal(crn_bundle_finish(w, &err), CRN_OK);
  crn_bundle_writer_free(w);
  for (size_t i = 0; i < n; i++) crn_free(values[i]);
  crn_free(names);
  assert_int_equal(crn_h5_read_rows(h, "inputs/data/value", CRN_NT_F32, 0, SEQS, x, &err), CRN_OK);
  assert_int_equal(crn_h5_read_rows(h, "inputs/data/size0", CRN_NT_I32, 0, SEQS, lengths, &err), CRN_OK);
  assert_int_equal(crn_h5_close(h, &err), CRN_OK);
  return f;
}

typedef struct hypothesis {
  double score;
  int32_t labels[MAX_STEPS];
  int n;
  bool ended;
} hypothesis;

/* The BEAM best continuations, by an insertion sort over all of them; ended hypotheses stay as they are. */
static inline int prune(const hypothesis *now, int64_t n, int64_t n_labels, const float *scores, hypothesis *next,
                        int32_t *from, int32_t *labels) {
  int k = 0;
  for (int64_t i = 0; i < n; i++)
    for (int32_t label = 0; label < n_labels; label++) {
      if (now[i].ended && label != 0) continue;
      const double score = now[i].score + (now[i].ended ? 0 : (double)scores[i * n_labels + label]);
      int at = k;
      while (at > 0 && next[at - 1].score < score) at--;
      if (at >= BEAM) continue;
      if (k < BEAM) k++;
      for (int j = k - 1; j > at; j--) next[j] = next[j - 1], from[j] = from[j - 1], labels[j] = labels[j - 1];
      next[at] = now[i];
      next[at].score = score;
      if (!now[i].ended && label != 0) next[at].labels[next[at].n++] = label;
      next[at].ended = now[i].ended || label == 0;
      from[at] = (int32_t)i;
      labels[at] = label;
    }
  return k;
}

/* Hypotheses of the built-in search for one utterance, best first. */
static inline int built_in(crn_session *s, const float *x, int32_t length, hypothesis *best) {
  feed(s, x, 1, length, 5, &length);
  const crn_output o = run(s, "output");
  assert_int_equal(o.type, CRN_INT32);
  assert_int_equal(o.beam, BEAM);
  assert_int_equal(o.rank, 2);
  assert_int_equal(o.shape[o.batch_axis], BEAM);
  assert_non_null(o.scores);
  const int64_t T = o.shape[o.time_axis];
  for (int k = 0; k < BEAM; k++) {
    best[k] = (hypothesis){.score = (double)o.scores[k], .n = o.lengths[k]};
    assert_true(best[k].n <= MAX_STEPS);
    for (int t = 0; t < best[k].n; t++)
      best[k].labels[t] = ((const int32_t *)o.data)[o.batch_axis == 0 ? k * T + t : t * BEAM + k];
  }
  return BEAM;
}

static inline void same_hypotheses(const hypothesis *a, const hypothesis *b, int n) {
  for (int i = 0; i < n; i++) {
    assert_float_equal(a[i].score, b[i].score, 1e-5);
    assert_int_equal(a[i].n, b[i].n);
    assert_memory_equal(a[i].labels, b[i].labels, (size_t)a[i].n * sizeof(int32_t));
  }
}

#endif
