/* SPDX-License-Identifier: Apache-2.0
 *
 * Options from the command line. See crn_config_override in config.h for the rule.
 */
#include "config/config_internal.h"
#include "config/keys.h"

#include <string.h>

static bool allows(const crn_config_key *key, char letter) { return strchr(key->types, letter) != NULL; }

/* Whether a key's types have the kind of a value; whole numbers serve as floats. */
static bool allows_kind(const crn_config_key *key, const crn_value *v) {
  switch (v->kind) {
  case CRN_V_NONE:
    return true;
  case CRN_V_BOOL:
    return allows(key, 'b');
  case CRN_V_INT:
    return allows(key, 'i') || allows(key, 'f') || (allows(key, 'b') && (v->u.i == 0 || v->u.i == 1));
  case CRN_V_FLOAT:
    return allows(key, 'f');
  case CRN_V_STR:
    return allows(key, 's');
  case CRN_V_LIST:
  case CRN_V_TUPLE:
  case CRN_V_SET:
    return allows(key, 'l');
  case CRN_V_DICT:
    return allows(key, 'd');
  default:
    return false;
  }
}

/* Numbers in the pieces of a text between commas become numbers. */
static crn_value *split_numbers(crn_arena *a, const char *text) {
  crn_value *pieces = crn_config_split(a, text);
  for (size_t i = 0; i < crn_v_len(pieces); i++) {
    crn_value *number = crn_config_text_number(a, crn_v_cstr(crn_v_at(pieces, i)));
    if (number) pieces->u.seq.items[i] = number;
  }
  return pieces;
}

/* The text as a Python literal, NULL if it is none. */
static crn_status read_literal(crn_arena *a, const char *text, const char *key, crn_value **out, crn_err *err) {
  crn_err failure = {0};
  crn_status status = crn_v_parse_literal(a, text, key, out, &failure);
  crn_err_clear(&failure);
  if (status == CRN_E_MEMORY) return crn_err_memory(err);
  if (status != CRN_OK) *out = NULL;
  return CRN_OK;
}

static crn_status refuse_text(const crn_config *c, const crn_config_key *key, const char *text, crn_err *err) {
  crn_str types = {0};
  crn_config_key_types(key, &types);
  crn_status status = crn_config_fail(c, key->name, err, "expected %s, got \"%s\"", crn_str_get(&types), text);
  crn_str_free(&types);
  return status;
}

/* A known key that the config doesn't have: the text by the key's types. */
static crn_status by_type(crn_config *c, const crn_config_key *key, const char *text, crn_value **out, crn_err *err) {
  crn_arena *a = &c->arena;
  bool b, only_text = strcspn(key->types, "ifbld") == strlen(key->types);
  crn_value *literal = NULL;
  if (!only_text) CRN_TRY(read_literal(a, text, key->name, &literal, err));
  if (allows(key, 'b') && crn_config_text_bool(text, &b) && !(strlen(text) == 1 && allows(key, 'i')))
    *out = crn_v_bool(a, b);
  else if (literal && !crn_v_is_str(literal) && allows_kind(key, literal))
    *out = literal;
  else if (allows(key, 'l') && strchr(text, ','))
    *out = split_numbers(a, text);
  else if (allows(key, 's'))
    *out = crn_v_str(a, text);
  else
    return refuse_text(c, key, text, err);
  return *out ? CRN_OK : crn_err_memory(err);
}

/* The config has a value that isn't text: the option is an expression. */
static crn_status by_expression(crn_config *c, const char *key, const char *text, const crn_log *log, crn_value **out,
                                crn_err *err) {
  CRN_TRY(read_literal(&c->arena, text, key, out, err));
  if (*out) return CRN_OK;
  crn_py_outcome outcome = CRN_PY_VALUE;
  crn_err failure = {0};
  crn_status status = crn_py_eval(c->space, text, &c->refs, &c->arena, out, &outcome, &failure);
  if (status != CRN_OK && outcome == CRN_PY_BAD_SYNTAX) {
    crn_warnf(log, "option '%s': can't read '%s' as Python, kept as text", key, text);
    *out = crn_v_str(&c->arena, text);
    status = *out ? CRN_OK : crn_err_memory(err);
  } else if (status != CRN_OK) {
    status = crn_fail(err, failure.code, "option '%s': can't evaluate '%s': %s", key, text, crn_err_text(&failure));
  }
  crn_err_clear(&failure);
  return status;
}

crn_status crn_config_read_text(crn_config *c, const char *key, const char *text, crn_value **out, crn_err *err) {
  const crn_config_key *known = crn_config_key_find(key);
  if (known) return by_type(c, known, text, out, err);
  *out = crn_config_split(&c->arena, text);
  return *out ? CRN_OK : crn_err_memory(err);
}

crn_status crn_config_override(crn_config *c, const char *key, const char *text, const crn_log *log, crn_err *err) {
  const crn_value *old = crn_config_get(c, key);
  crn_value *v = NULL;
  if (crn_v_is_str(old))
    v = crn_v_str(&c->arena, text);
  else if (!crn_v_is_none(old))
    CRN_TRY(by_expression(c, key, text, log, &v, err));
  else
    CRN_TRY(crn_config_read_text(c, key, text, &v, err));
  if (!v) return crn_err_memory(err);
  if (!old && !c->space && !crn_config_key_find(key) && !crn_config_key_nearest(key))
    crn_warnf(log, "option '++%s': the key is not known, and nothing in the config can read it", key);
  return crn_config_set(c, key, v, err);
}
