/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a dataset from any of the forms that configs use (see crn_dataset_new): a form is first turned into a dict,
 * the dict into an instance of its class.
 */
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset_class.h"

/* ---- from a dict ---- */

static crn_status unknown_class(const char *name, crn_err *err) {
  size_t n;
  const crn_dataset_class *const *all = crn_dataset_classes(&n);
  const char *names[64];
  crn_str list = {0};
  for (size_t i = 0; i < n && i < 64; i++) {
    names[i] = all[i]->name;
    crn_str_addf(&list, "%s%s", i ? ", " : "", names[i]);
  }
  const char *near = crn_nearest(name, names, n < 64 ? n : 64);
  crn_fail(err, CRN_E_CONFIG, "unknown dataset class '%s'%s%s%s; known are %s", name, near ? ", did you mean '" : "",
           near ? near : "", near ? "'?" : "", crn_str_get(&list));
  crn_str_free(&list);
  return CRN_E_CONFIG;
}

static const crn_dataset_class *find_class(const char *name) {
  size_t n;
  const crn_dataset_class *const *all = crn_dataset_classes(&n);
  for (size_t i = 0; i < n; i++)
    if (!strcmp(all[i]->name, name)) return all[i];
  return NULL;
}

static crn_status keep_env(crn_dataset *ds, const crn_data_env *env, crn_err *err) {
  if (!env) return CRN_OK;
  ds->env = *env;
  if (!env->base_dir) return CRN_OK;
  ds->env.base_dir = crn_arena_strdup(&ds->arena, env->base_dir);
  return ds->env.base_dir ? CRN_OK : crn_err_memory(err);
}

/* options: all options, defaults included. */
static crn_status new_instance(const crn_value *options, const char *name, const crn_data_env *env, crn_dataset **out,
                               crn_err *err) {
  const crn_value *cls_value = crn_v_get(options, "class");
  const char *cls_name = crn_v_cstr(cls_value);
  if (!cls_name)
    return crn_fail(err, CRN_E_CONFIG, "dataset '%s': %s", name,
                    cls_value ? "'class' must be a string" : "the dict has no 'class'");
  const crn_dataset_class *cls = find_class(cls_name);
  if (!cls) {
    unknown_class(cls_name, err);
    return crn_err_where(err, "dataset '%s'", name);
  }
  if (!cls->init)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "dataset '%s': not implemented: class '%s'", name, cls->name);
  crn_dataset *ds = crn_calloc(1, cls->bytes);
  if (!ds) return crn_err_memory(err);
  ds->cls = cls;
  crn_status code = keep_env(ds, env, err);
  if (code == CRN_OK) code = crn_dataset_read_options(ds, options, err);
  if (code == CRN_OK && !ds->name) {
    ds->name = crn_arena_strdup(&ds->arena, name);
    if (!ds->name) code = crn_err_memory(err);
  }
  if (code != CRN_OK && code != CRN_E_MEMORY) crn_err_where(err, "dataset '%s' (%s)", name, cls->name);
  if (code == CRN_OK) code = cls->init(ds, err);
  if (code != CRN_OK) {
    crn_dataset_free(ds);
    return code;
  }
  *out = ds;
  return CRN_OK;
}

void crn_dataset_free(crn_dataset *ds) {
  if (!ds) return;
  if (ds->cls->deinit) ds->cls->deinit(ds);
  crn_free(ds->order);
  crn_map_free(&ds->tag_index);
  crn_map_free(&ds->filter);
  crn_map_free(&ds->order_lens);
  crn_str_free(&ds->tag_text);
  crn_arena_free(&ds->arena);
  crn_free(ds);
}

/* ---- other forms ---- */

/* "a.hdf,b.hdf" as {"class": "HDFDataset", "files": ["a.hdf", "b.hdf"]}. */
static crn_value *files_dict(crn_arena *a, const char *text) {
  crn_value *dict = crn_v_dict(a), *files = crn_v_seq(a, CRN_V_LIST);
  for (const char *at = text;;) {
    size_t len = strcspn(at, ",");
    crn_v_push(a, files, crn_v_strn(a, at, len));
    if (!at[len]) break;
    at += len + 1;
  }
  crn_v_put(a, dict, "class", crn_v_str(a, "HDFDataset"));
  crn_v_put(a, dict, "files", files);
  return dict;
}

/* Length of an option's value: up to a comma outside of brackets and quotes. */
static size_t argument_length(const char *text) {
  int depth = 0;
  char quote = 0;
  size_t i = 0;
  for (; text[i]; i++) {
    char c = text[i];
    if (quote) {
      if (c == '\\' && text[i + 1])
        i++;
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (strchr("([{", c)) {
      depth++;
    } else if (strchr(")]}", c)) {
      depth--;
    } else if (c == ',' && depth <= 0) {
      break;
    }
  }
  return i;
}

/* "Class:a=1,b='x'" as a dict; the text after the first colon is written like the arguments of a call. */
static crn_status call_dict(crn_arena *a, const char *text, size_t cls_len, crn_value **out, crn_err *err) {
  crn_value *dict = crn_v_dict(a);
  crn_v_put(a, dict, "class", crn_v_strn(a, text, cls_len));
  const char *at = text + cls_len + 1;
  while (*at) {
    while (isspace((unsigned char)*at)) at++;
    size_t len = argument_length(at), eq = strcspn(at, "=");
    if (eq >= len) {
      if (len == 0 && !at[len]) break;
      return crn_fail(err, CRN_E_CONFIG, "dataset \"%s\": expected name=value, got \"%.*s\"", text, (int)len, at);
    }
    size_t name_len = eq;
    while (name_len && isspace((unsigned char)at[name_len - 1])) name_len--;
    const char *name = crn_arena_strndup(a, at, name_len), *value = crn_arena_strndup(a, at + eq + 1, len - eq - 1);
    crn_value *v = NULL;
    if (!name || !value) return crn_err_memory(err);
    CRN_TRY(crn_v_parse_literal(a, value, name, &v, err));
    crn_v_put(a, dict, name, v);
    at += len;
    if (*at) at++;
  }
  *out = dict;
  return CRN_OK;
}

static bool is_name(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
  return len > 0;
}

static crn_status text_to_spec(crn_arena *a, const char *text, const crn_data_env *env, crn_value **out, crn_err *err) {
  if (crn_starts_with(text, "config:")) {
    if (!env || !env->eval)
      return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: \"%s\" without a Python config", text);
    return env->eval(env->host, text + strlen("config:"), a, out, err);
  }
  if (text[0] == '{') return crn_v_parse_literal(a, text, "dataset", out, err);
  if (crn_starts_with(text, "sprint:"))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: datasets given as \"sprint:…\"");
  size_t colon = strcspn(text, ":");
  if (text[colon] && is_name(text, colon)) return call_dict(a, text, colon, out, err);
  *out = files_dict(a, text);
  return CRN_OK;
}

crn_status crn_dataset_resolve(crn_arena *a, const crn_value *spec, const crn_data_env *env, const crn_value **dict,
                               crn_err *err) {
  for (int depth = 0; depth < 8; depth++) {
    crn_value *next = NULL;
    if (crn_v_is_dict(spec)) {
      *dict = spec;
      return CRN_OK;
    }
    if (crn_v_is_str(spec)) {
      CRN_TRY(text_to_spec(a, crn_v_cstr(spec), env, &next, err));
    } else if (spec && spec->kind == CRN_V_CALLABLE) {
      if (!env || !env->call)
        return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: the function '%s' without a Python host",
                        spec->u.obj.name);
      CRN_TRY(env->call(env->host, spec, NULL, 0, a, &next, err));
    } else {
      return crn_fail(err, CRN_E_CONFIG, "a dataset must be a dict, a function or a string, got %s",
                      crn_v_kind_name(spec));
    }
    if (!next) return crn_err_memory(err);
    spec = next;
  }
  return crn_fail(err, CRN_E_CONFIG, "functions and strings refer to each other without end");
}

/* Options that a config can set for its datasets: None counts as not given. */
static const char *const filled_when_none[] = {
    "window",         "context_window",    "chunking",        "seq_ordering", "shuffle_frames_of_nseqs",
    "min_chunk_size", "chunking_variance", "cache_byte_size", "name"};

crn_status crn_dataset_new(const crn_value *spec, const crn_value *defaults, const char *name, const crn_data_env *env,
                           crn_dataset **out, crn_err *err) {
  *out = NULL;
  crn_arena scratch = {0};
  const crn_value *dict = NULL;
  crn_status code = crn_dataset_resolve(&scratch, spec, env, &dict, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s'", name);
  crn_value *all = code == CRN_OK ? crn_v_copy(&scratch, dict) : NULL;
  for (size_t i = 0; i < sizeof filled_when_none / sizeof *filled_when_none && code == CRN_OK; i++)
    if (crn_v_is_none(crn_v_get(all, filled_when_none[i]))) crn_v_del(all, filled_when_none[i]);
  for (size_t i = 0; i < crn_v_len(defaults) && code == CRN_OK; i++) {
    const char *key = crn_v_cstr(defaults->u.dict.keys[i]);
    if (crn_v_is_none(crn_v_get(all, key))) crn_v_put(&scratch, all, key, defaults->u.dict.vals[i]);
  }
  if (code == CRN_OK && scratch.failed) code = crn_err_memory(err);
  if (code == CRN_OK) code = new_instance(all, name, env, out, err);
  crn_arena_free(&scratch);
  return code;
}

crn_status crn_dataset_new_part(crn_dataset *parent, const crn_value *spec, const char *name, crn_dataset **out,
                                crn_err *err) {
  crn_data_env env = parent->env;
  env.random_seed_offset = parent->random_seed_offset;
  crn_status code = crn_dataset_new(spec, NULL, name, &env, out, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", parent->name, parent->cls->name);
  return code;
}
