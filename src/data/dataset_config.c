/* SPDX-License-Identifier: Apache-2.0
 *
 * The datasets of a config: which of the config's own keys become options of train, dev and eval, and what holds for
 * dev and eval unless they say otherwise. A dataset given by a function or by "config:…" gets none of the config's
 * options; the old program does it so, and configs rely on it.
 */
#include <string.h>

#include "data/dataset_class.h"

static const struct {
  const char *config_key, *option;
} passed_on[] = {
    {"window", "window"},
    {"context_window", "context_window"},
    {"chunking", "chunking"},
    {"batching", "seq_ordering"},
    {"shuffle_frames_of_nseqs", "shuffle_frames_of_nseqs"},
    {"min_chunk_size", "min_chunk_size"},
    {"chunking_variance", "chunking_variance"},
};

static void put_if_new(crn_arena *a, crn_value *dict, const char *key, const crn_value *v) {
  if (!crn_v_get(dict, key)) crn_v_put(a, dict, key, crn_v_copy(a, v));
}

static const crn_value *eval_chunking(const crn_value *config) {
  const crn_value *chunking = crn_v_get(config, "chunking");
  const char *limit = crn_v_cstr(crn_v_get(config, "on_size_limit")), *text = crn_v_cstr(chunking);
  if (limit && !strcmp(limit, "chunk")) return crn_v_get(config, "batch_size");
  if (text && !strcmp(text, "1")) return chunking;
  return crn_v_truth(crn_v_get(config, "chunk_eval")) ? chunking : NULL;
}

/* What dev and eval start from. */
static void add_eval_defaults(crn_arena *a, const crn_value *config, crn_value *defaults) {
  const crn_value *chunking = eval_chunking(config);
  crn_v_put(a, defaults, "seq_ordering", crn_v_str(a, "sorted"));
  crn_v_put(a, defaults, "chunking", chunking ? crn_v_copy(a, chunking) : crn_v_none(a));
  crn_v_put(a, defaults, "shuffle_frames_of_nseqs", crn_v_int(a, 0));
}

static void add_config_options(crn_arena *a, const crn_value *config, crn_value *defaults) {
  for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) {
    const crn_value *v = crn_v_get(config, passed_on[i].config_key);
    if (!crn_v_is_none(v)) put_if_new(a, defaults, passed_on[i].option, v);
  }
}

static bool is_one_of_three(const char *key) {
  return !strcmp(key, "train") || !strcmp(key, "dev") || !strcmp(key, "eval");
}

/* The dataset of this key; what it needs on the way is in the arena. */
static crn_status make(crn_arena *a, const crn_value *config, const char *key, const crn_value *spec,
                       const crn_data_env *env, crn_dataset **out, crn_err *err) {
  crn_value *defaults = crn_v_dict(a);
  crn_v_put(a, defaults, "name", crn_v_str(a, key));
  const char *text = crn_v_cstr(spec);
  if (!is_one_of_three(key)) return crn_dataset_new(spec, defaults, key, env, out, err);
  if (text && text[0] == '{')
    return crn_fail(err, CRN_E_CONFIG, "'%s': a string with a dict is no dataset here; write the dict itself", key);
  if (strcmp(key, "train") != 0) add_eval_defaults(a, config, defaults);
  bool by_expression = text && crn_starts_with(text, "config:");
  bool by_function = spec->kind == CRN_V_CALLABLE;
  if (by_expression) { /* here the defaults win */
    const crn_value *dict = NULL;
    CRN_TRY(crn_dataset_resolve(a, spec, env, &dict, err));
    crn_value *all = crn_v_copy(a, dict);
    for (size_t i = 0; i < crn_v_len(defaults); i++)
      crn_v_put(a, all, crn_v_cstr(defaults->u.dict.keys[i]), defaults->u.dict.vals[i]);
    if (!all || a->failed) return crn_err_memory(err);
    return crn_dataset_new(all, NULL, key, env, out, err);
  }
  if (!by_function) {
    const crn_value *dict = NULL;
    CRN_TRY(crn_dataset_resolve(a, spec, env, &dict, err));
    add_config_options(a, config, defaults);
    const char *cls = crn_v_cstr(crn_v_get(dict, "class"));
    const crn_value *cache = crn_v_get(config, "cache_size");
    if (cls && !strcmp(cls, "HDFDataset") && !crn_v_is_none(cache)) put_if_new(a, defaults, "cache_byte_size", cache);
  }
  if (a->failed) return crn_err_memory(err);
  return crn_dataset_new(spec, defaults, key, env, out, err);
}

crn_status crn_dataset_from_config(const crn_value *config, const char *key, const crn_data_env *env, crn_dataset **out,
                                   crn_err *err) {
  *out = NULL;
  const crn_value *spec = crn_v_get(config, key);
  if (!strcmp(key, "search_data")) { /* may be the name of another one; without it: eval */
    const char *other = spec ? crn_v_cstr(spec) : "eval";
    if (other && is_one_of_three(other)) return crn_dataset_from_config(config, other, env, out, err);
  }
  if (crn_v_is_none(spec)) return CRN_OK;
  crn_arena scratch = {0};
  crn_status code = make(&scratch, config, key, spec, env, out, err);
  crn_arena_free(&scratch);
  return code;
}

crn_status crn_dataset_from_eval_datasets(const crn_value *config, const char *name, const crn_data_env *env,
                                          crn_dataset **out, crn_err *err) {
  *out = NULL;
  const crn_value *spec = crn_v_get(crn_v_get(config, "eval_datasets"), name);
  if (!spec) return crn_fail(err, CRN_E_CONFIG, "eval_datasets has no '%s'", name);
  return crn_dataset_new(spec, NULL, name, env, out, err);
}
