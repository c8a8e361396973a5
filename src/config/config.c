/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage of a config, its files' paths, and its Python side.
 */
#include "config/config_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

crn_status crn_config_new(crn_config **out, crn_err *err) {
  *out = NULL;
  crn_config *c = crn_calloc(1, sizeof *c);
  if (!c) return crn_err_memory(err);
  c->file = "config";
  c->folder = ".";
  c->root = crn_v_dict(&c->arena);
  if (!c->root) {
    crn_config_free(c);
    return crn_err_memory(err);
  }
  *out = c;
  return CRN_OK;
}

void crn_config_free(crn_config *c) {
  if (!c) return;
  crn_py_refs_free(&c->refs, c->space);
  crn_arena_free(&c->arena);
  crn_free(c);
}

crn_value *crn_config_get(const crn_config *c, const char *key) { return crn_v_get(c->root, key); }

bool crn_config_has(const crn_config *c, const char *key) { return crn_config_get(c, key) != NULL; }

crn_value *crn_config_root(const crn_config *c) { return c->root; }

crn_arena *crn_config_arena(crn_config *c) { return &c->arena; }

const char *crn_config_file(const crn_config *c) { return c->file; }

const char *crn_config_folder(const crn_config *c) { return c->folder; }

crn_status crn_config_add_values(crn_config *c, const crn_value *dict, crn_err *err) {
  if (!crn_v_is_dict(dict))
    return crn_fail(err, CRN_E_CONFIG, "expected a dict of config keys, got %s", crn_v_kind_name(dict));
  for (size_t i = 0; i < dict->u.dict.n; i++) {
    const char *key = crn_v_cstr(dict->u.dict.keys[i]);
    if (!key)
      return crn_fail(err, CRN_E_CONFIG, "config keys must be str, got %s", crn_v_kind_name(dict->u.dict.keys[i]));
    if (!crn_v_put(&c->arena, c->root, key, crn_v_copy(&c->arena, dict->u.dict.vals[i]))) return crn_err_memory(err);
  }
  return CRN_OK;
}

crn_status crn_config_set(crn_config *c, const char *key, const crn_value *value, crn_err *err) {
  if (!value) {
    crn_v_del(c->root, key);
    return CRN_OK;
  }
  if (!crn_v_put(&c->arena, c->root, key, crn_v_copy(&c->arena, value))) return crn_err_memory(err);
  return c->space ? crn_py_assign(c->space, key, value, err) : CRN_OK;
}

/* ---- paths ---- */

crn_status crn_config_set_base(crn_config *c, const char *folder, crn_err *err) {
  c->base = folder ? crn_arena_strdup(&c->arena, folder) : NULL;
  return folder && !c->base ? crn_err_memory(err) : CRN_OK;
}

/* Whether NAME, or a checkpoint of that name, is there. */
static bool is_there(const char *name) {
  static const char *const endings[] = {"", ".index", ".meta"};
  crn_str path = {0};
  bool found = false;
  for (size_t i = 0; i < 3 && !found; i++) {
    crn_str_clear(&path);
    crn_str_addf(&path, "%s%s", name, endings[i]);
    found = crn_str_ok(&path) && access(crn_str_get(&path), F_OK) == 0;
  }
  crn_str_free(&path);
  return found;
}

static crn_status join(const char *folder, const char *name, crn_arena *a, const char **out, crn_err *err) {
  *out = crn_arena_printf(a, "%s/%s", folder, name);
  return *out ? CRN_OK : crn_err_memory(err);
}

crn_status crn_config_output_path(const crn_config *c, const char *name, crn_arena *a, const char **out, crn_err *err) {
  *out = name;
  return c->base && name[0] != '/' ? join(c->base, name, a, out, err) : CRN_OK;
}

crn_status crn_config_input_path(const crn_config *c, const char *name, crn_arena *a, const char **out, crn_err *err) {
  *out = name;
  if (name[0] == '/' || !name[0]) return CRN_OK;
  if (c->base) return join(c->base, name, a, out, err);
  if (is_there(name)) return CRN_OK;
  CRN_TRY(join(c->folder, name, a, out, err));
  if (!is_there(*out)) *out = name;
  return CRN_OK;
}

/* ---- Python ---- */

crn_status crn_config_eval(crn_config *c, const char *expression, crn_arena *a, crn_value **out, crn_err *err) {
  crn_status status = crn_py_eval(c->space, expression, &c->refs, a, out, NULL, err);
  return status == CRN_OK ? CRN_OK : crn_err_where(err, "%s: expression '%.80s'", c->file, expression);
}

crn_status crn_config_call(crn_config *c, const crn_value *function, const crn_value *args, const crn_value *named,
                           crn_arena *a, crn_value **out, crn_err *err) {
  return crn_py_call(function, args, named, &c->refs, a, out, err);
}
