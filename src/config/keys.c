/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking up known config keys, and the check of a config's keys against them.
 */
#include "config/keys.h"

#include "config/config_internal.h"

#include <string.h>

const crn_config_key *crn_config_key_find(const char *name) {
  for (size_t i = 0; i < crn_config_keys_n; i++)
    if (!strcmp(crn_config_keys[i].name, name)) return &crn_config_keys[i];
  return NULL;
}

/* A single changed, missing, added or swapped character: names of helper variables are often near longer keys by
 * chance, so what counts as a misspelling is stricter than in other messages. */
static bool is_one_edit_away(const char *a, const char *b) {
  size_t na = strlen(a), nb = strlen(b), head = 0, tail = 0;
  if (na > nb) return is_one_edit_away(b, a);
  if (nb - na > 1) return false;
  while (head < na && a[head] == b[head]) head++;
  while (tail < na - head && a[na - 1 - tail] == b[nb - 1 - tail]) tail++;
  size_t left_a = na - head - tail, left_b = nb - head - tail;
  if (left_a + left_b <= 2 && left_b <= 1) return true;
  return left_a == 2 && left_b == 2 && a[head] == b[head + 1] && a[head + 1] == b[head];
}

const crn_config_key *crn_config_key_nearest(const char *name) {
  if (strlen(name) < 4 || crn_config_key_find(name)) return NULL;
  for (size_t i = 0; i < crn_config_keys_n; i++)
    if (is_one_edit_away(name, crn_config_keys[i].name)) return &crn_config_keys[i];
  return NULL;
}

void crn_config_key_types(const crn_config_key *key, crn_str *out) {
  static const struct {
    char letter;
    const char *name;
  } names[] = {{'i', "int"},  {'f', "float"}, {'b', "bool"},    {'s', "str"},
               {'l', "list"}, {'d', "dict"},  {'c', "function"}};
  size_t n = strlen(key->types);
  for (size_t i = 0; i < n; i++) {
    if (i) crn_str_add(out, i + 1 == n ? " or " : ", ");
    for (size_t j = 0; j < sizeof names / sizeof *names; j++)
      if (names[j].letter == key->types[i]) crn_str_add(out, names[j].name);
  }
}

static bool is_number_text(const char *text) {
  crn_arena scratch = {0};
  const bool yes = crn_config_text_number(&scratch, text) != NULL;
  crn_arena_free(&scratch);
  return yes;
}

static bool fits_letter(char letter, const crn_value *v) {
  const char *text = crn_v_cstr(v);
  int64_t i;
  bool flag;
  switch (letter) {
  case 'i':
  case 'f':
    return text ? is_number_text(text) : letter == 'i' ? crn_v_to_int(v, &i) : crn_v_is_number(v);
  case 'b':
    return text ? crn_config_text_bool(text, &flag) : crn_v_is_number(v);
  case 's':
    return text != NULL;
  case 'l':
    return crn_v_is_seq(v);
  case 'd':
    return crn_v_is_dict(v);
  case 'c':
    return v->kind == CRN_V_CALLABLE;
  default:
    return false;
  }
}

bool crn_config_key_fits(const crn_config_key *key, const crn_value *v) {
  bool fits = crn_v_is_none(v) || v->kind == CRN_V_OBJECT; /* an object is told of where it is used */
  for (const char *t = key->types; *t && !fits; t++) fits = fits_letter(*t, v);
  return fits;
}

const char *crn_key_state_name(crn_key_state state) {
  static const char *const names[] = {"used", "ignored", "not implemented", "refused in training"};
  return names[state];
}

/* Keys that are set to what turns them off needn't be mentioned. */
static bool turns_off(const crn_value *v) { return !crn_v_truth(v); }

void crn_config_check_keys(const crn_config *c, const crn_log *log) {
  const crn_value *root = crn_config_root(c);
  crn_str misspelt = {0}, idle[CRN_KEY_STATES] = {{0}};
  for (size_t i = 0; i < root->u.dict.n; i++) {
    const char *name = crn_v_cstr(root->u.dict.keys[i]);
    const crn_config_key *key = crn_config_key_find(name), *near = key ? NULL : crn_config_key_nearest(name);
    const crn_value *v = root->u.dict.vals[i];
    if (near && v->kind != CRN_V_CALLABLE)
      crn_str_addf(&misspelt, "%s'%s' (did you mean '%s'?)", misspelt.len ? ", " : "", name, near->name);
    if (key && key->state != CRN_KEY_USED && !turns_off(v))
      crn_str_addf(&idle[key->state], "%s%s", idle[key->state].len ? ", " : "", name);
  }
  if (misspelt.len) crn_warnf(log, "%s: unknown keys: %s", crn_config_file(c), crn_str_get(&misspelt));
  const crn_str *missing = &idle[CRN_KEY_NOT_IMPLEMENTED], *ignored = &idle[CRN_KEY_IGNORED],
                *refused = &idle[CRN_KEY_REFUSED];
  if (missing->len) crn_warnf(log, "%s: not implemented, without effect: %s", crn_config_file(c), crn_str_get(missing));
  if (refused->len)
    crn_warnf(log, "%s: not implemented, refused in training: %s", crn_config_file(c), crn_str_get(refused));
  if (ignored->len) crn_logf(log, 3, "%s: keys without meaning here: %s", crn_config_file(c), crn_str_get(ignored));
  crn_str_free(&misspelt);
  for (size_t i = 0; i < CRN_KEY_STATES; i++) crn_str_free(&idle[i]);
}

crn_status crn_config_check_training(const crn_config *c, crn_err *err) {
  const crn_value *root = crn_config_root(c);
  crn_str keys = {0};
  for (size_t i = 0; i < root->u.dict.n; i++) {
    const crn_config_key *key = crn_config_key_find(crn_v_cstr(root->u.dict.keys[i]));
    if (!key || key->state != CRN_KEY_REFUSED || turns_off(root->u.dict.vals[i])) continue;
    crn_str_addf(&keys, "%s'%s' (%.*s)", keys.len ? ", " : "", key->name, (int)strlen(key->doc) - 1, key->doc);
  }
  const crn_status st = keys.len ? crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: not implemented in training: %s",
                                            crn_config_file(c), crn_str_get(&keys))
                                 : CRN_OK;
  crn_str_free(&keys);
  return st;
}
