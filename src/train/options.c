/* SPDX-License-Identifier: Apache-2.0
 *
 * Typed reading of config keys; see options.h.
 */
#include "train/options.h"

#include <string.h>

crn_status crn_opt_wrong(const char *key, const char *expected, const crn_value *got, crn_err *err) {
  crn_str text = {0};
  crn_v_repr(got, &text, 60);
  crn_status status =
      crn_fail(err, CRN_E_CONFIG, "config key '%s': expected %s, got %s", key, expected, crn_str_get(&text));
  crn_str_free(&text);
  return status;
}

bool crn_value_to_float(const crn_value *v, double *out) {
  if (crn_v_is_number(v)) return crn_v_to_float(v, out);
  const char *text = crn_v_cstr(v);
  if (!text) return false;
  crn_arena arena = {0};
  crn_err err = {0};
  crn_value *parsed = NULL;
  bool ok = crn_v_parse_literal(&arena, text, "value", &parsed, &err) == CRN_OK && crn_v_is_number(parsed) &&
            crn_v_to_float(parsed, out);
  crn_err_clear(&err);
  crn_arena_free(&arena);
  return ok;
}

crn_status crn_opt_float(const crn_value *dict, const char *key, double *out, crn_err *err) {
  const crn_value *v = crn_v_get(dict, key);
  if (crn_v_is_none(v) || crn_value_to_float(v, out)) return CRN_OK;
  return crn_opt_wrong(key, "a number", v, err);
}

crn_status crn_opt_int(const crn_value *dict, const char *key, int64_t *out, crn_err *err) {
  const crn_value *v = crn_v_get(dict, key);
  double f;
  if (crn_v_is_none(v) || crn_v_to_int(v, out)) return CRN_OK;
  if (crn_value_to_float(v, &f) && f > -9e15 && f < 9e15 && (double)(int64_t)f == f) {
    *out = (int64_t)f;
    return CRN_OK;
  }
  return crn_opt_wrong(key, "an integer", v, err);
}

crn_status crn_opt_bool(const crn_value *dict, const char *key, bool *out, crn_err *err) {
  const crn_value *v = crn_v_get(dict, key);
  if (crn_v_is_none(v)) return CRN_OK;
  const char *text = crn_v_cstr(v);
  if (crn_v_is_number(v)) {
    *out = crn_v_truth(v);
    return CRN_OK;
  }
  static const char *const yes[] = {"True", "true", "yes", "on", "1"}, *const no[] = {"False", "false", "no", "off",
                                                                                      "0"};
  for (size_t i = 0; text && i < 5; i++) {
    if (strcmp(text, yes[i]) != 0 && strcmp(text, no[i]) != 0) continue;
    *out = strcmp(text, yes[i]) == 0;
    return CRN_OK;
  }
  return crn_opt_wrong(key, "True or False", v, err);
}

crn_status crn_opt_str(const crn_value *dict, const char *key, const char **out, crn_err *err) {
  const crn_value *v = crn_v_get(dict, key);
  if (crn_v_is_none(v)) return CRN_OK;
  const char *text = crn_v_cstr(v);
  if (!text) return crn_opt_wrong(key, "a string", v, err);
  *out = text;
  return CRN_OK;
}
