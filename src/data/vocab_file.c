/* SPDX-License-Identifier: Apache-2.0
 *
 * Labels of a vocabulary from files: one label a line, or a dict label -> index as Python text or pickle.
 */
#include <stdlib.h>
#include <string.h>

#include "data/pickle.h"
#include "data/textfile.h"
#include "data/vocab_internal.h"

static crn_status add_label(crn_vocab *v, const char *label, int64_t index, crn_err *err) {
  if (crn_map_set(&v->index, label, (void *)(intptr_t)(index + 1)) == CRN_OK) return CRN_OK;
  return crn_err_memory(err);
}

crn_status crn_vocab_set_labels(crn_vocab *v, const char *const *labels, size_t n, crn_err *err) {
  v->n = (int64_t)n;
  v->labels = CRN_ARENA_ARRAY(&v->arena, const char *, n + 1);
  for (size_t i = 0; v->labels && i < n; i++) {
    v->labels[i] = crn_arena_strdup(&v->arena, labels[i]);
    if (v->arena.failed) break;
    CRN_TRY(add_label(v, v->labels[i], (int64_t)i, err));
  }
  return v->arena.failed ? crn_err_memory(err) : CRN_OK;
}

/* label -> index; the name of an index is the last of its labels in ascending order. */
static crn_status set_dict(crn_vocab *v, const crn_value *dict, const char *path, crn_err *err) {
  size_t n = crn_v_len(dict);
  if (!crn_v_is_dict(dict)) return crn_fail(err, CRN_E_FORMAT, "%s: expected a dict label: index", path);
  int64_t limit = v->gaps ? INT64_C(1) << 28 : (int64_t)n, index;
  for (size_t i = 0; i < n; i++) {
    if (!crn_v_cstr(dict->u.dict.keys[i]) || !crn_v_to_int(dict->u.dict.vals[i], &index) || index < 0 || index >= limit)
      return crn_fail(err, CRN_E_FORMAT, "%s: entry %zu: expected label: index, indices from 0 to below %lld", path,
                      i + 1, (long long)limit);
    if (index >= v->n) v->n = index + 1;
  }
  v->labels = CRN_ARENA_ARRAY(&v->arena, const char *, v->n + 1);
  if (!v->labels) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) {
    const char *label = crn_v_cstr(dict->u.dict.keys[i]);
    crn_v_to_int(dict->u.dict.vals[i], &index);
    CRN_TRY(add_label(v, label, index, err));
    if (v->labels[index] && strcmp(v->labels[index], label) >= 0) continue;
    v->labels[index] = crn_arena_strdup(&v->arena, label);
    if (!v->labels[index]) return crn_err_memory(err);
  }
  for (int64_t i = 0; i < v->n; i++) {
    if (!v->labels[i] && !v->gaps)
      return crn_fail(err, CRN_E_FORMAT, "%s: no label has the index %lld", path, (long long)i);
    if (!v->labels[i]) v->labels[i] = "";
  }
  return CRN_OK;
}

crn_status crn_vocab_load(crn_vocab *v, const char *path, crn_err *err) {
  crn_arena scratch = {0};
  crn_value *dict = NULL;
  char *text = NULL, **lines = NULL;
  size_t len = 0, n = 0;
  crn_status code;
  if (crn_ends_with(path, ".pkl") || crn_ends_with(path, ".pkl.gz")) {
    code = crn_pickle_read(&scratch, path, &dict, err);
    if (code == CRN_OK) code = set_dict(v, dict, path, err);
  } else {
    code = crn_text_read(&scratch, path, &text, &len, err);
    if (code == CRN_OK && text[0] == '{') {
      code = crn_v_parse_literal(&scratch, text, path, &dict, err);
      if (code == CRN_OK) code = set_dict(v, dict, path, err);
    } else if (code == CRN_OK) {
      code = crn_text_lines(&scratch, path, &lines, &n, err);
      if (code == CRN_OK) code = crn_vocab_set_labels(v, (const char *const *)lines, n, err);
    }
  }
  crn_arena_free(&scratch);
  return code;
}
