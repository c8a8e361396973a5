/* SPDX-License-Identifier: Apache-2.0
 *
 * Typed reading of config keys.
 */
#include "config/config_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *crn_config_show(const crn_value *v, crn_str *buffer) {
  crn_v_repr(v, buffer, 60);
  return crn_str_get(buffer);
}

crn_status crn_config_fail(const crn_config *c, const char *key, crn_err *err, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  crn_failv(err, CRN_E_CONFIG, fmt, ap);
  va_end(ap);
  return crn_err_where(err, "%s: key '%s'", c->file, key);
}

static crn_status wrong_type(const crn_config *c, const char *key, const char *expected, const crn_value *v,
                             crn_err *err) {
  crn_str text = {0};
  crn_status status = crn_config_fail(c, key, err, "expected %s, got %s", expected, crn_config_show(v, &text));
  crn_str_free(&text);
  return status;
}

bool crn_config_text_bool(const char *text, bool *out) {
  static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    for (int b = 0; b < 2; b++) {
      if (strcasecmp(text, words[i][b]) != 0) continue;
      *out = b != 0;
      return true;
    }
  }
  return false;
}

crn_value *crn_config_text_number(crn_arena *a, const char *text) {
  const char *digits = text + (*text == '-' || *text == '+');
  bool words = !strcasecmp(digits, "inf") || !strcasecmp(digits, "nan");
  if (!words && (!*digits || strspn(digits, "0123456789.eE+-_") != strlen(digits))) return NULL;
  char *end;
  errno = 0;
  long long i = strtoll(text, &end, 10);
  if (!*end && !errno) return crn_v_int(a, i);
  double f = strtod(text, &end);
  return *end ? NULL : crn_v_float(a, f);
}

/* The value as a number: itself, or what its text says; scratch holds the latter. NULL if it is no number. */
static const crn_value *as_number(const crn_value *v, crn_arena *scratch) {
  const char *text = crn_v_cstr(v);
  if (text) return crn_config_text_number(scratch, text);
  return crn_v_is_number(v) ? v : NULL;
}

crn_status crn_config_int(const crn_config *c, const char *key, int64_t otherwise, int64_t *out, crn_err *err) {
  *out = otherwise;
  const crn_value *v = crn_config_get(c, key);
  if (crn_v_is_none(v)) return CRN_OK;
  crn_arena scratch = {0};
  bool ok = crn_v_to_int(as_number(v, &scratch), out), no_memory = scratch.failed;
  crn_arena_free(&scratch);
  if (no_memory) return crn_err_memory(err);
  return ok ? CRN_OK : wrong_type(c, key, "int", v, err);
}

crn_status crn_config_float(const crn_config *c, const char *key, double otherwise, double *out, crn_err *err) {
  *out = otherwise;
  const crn_value *v = crn_config_get(c, key);
  if (crn_v_is_none(v)) return CRN_OK;
  crn_arena scratch = {0};
  bool ok = crn_v_to_float(as_number(v, &scratch), out), no_memory = scratch.failed;
  crn_arena_free(&scratch);
  if (no_memory) return crn_err_memory(err);
  return ok ? CRN_OK : wrong_type(c, key, "float", v, err);
}

crn_status crn_config_bool(const crn_config *c, const char *key, bool otherwise, bool *out, crn_err *err) {
  *out = otherwise;
  const crn_value *v = crn_config_get(c, key);
  if (crn_v_is_none(v)) return CRN_OK;
  const char *text = crn_v_cstr(v);
  if (text && crn_config_text_bool(text, out)) return CRN_OK;
  if (!crn_v_is_number(v)) return wrong_type(c, key, "bool", v, err);
  *out = crn_v_truth(v);
  return CRN_OK;
}

crn_status crn_config_str(const crn_config *c, const char *key, const char *otherwise, const char **out, crn_err *err) {
  *out = otherwise;
  const crn_value *v = crn_config_get(c, key);
  if (crn_v_is_none(v)) return CRN_OK;
  *out = crn_v_cstr(v);
  return *out ? CRN_OK : wrong_type(c, key, "str", v, err);
}

crn_status crn_config_list(crn_config *c, const char *key, crn_value **out, crn_err *err) {
  crn_value *v = crn_config_get(c, key);
  *out = v;
  if (crn_v_is_none(v)) *out = NULL;
  if (crn_v_is_none(v) || crn_v_is_seq(v)) return CRN_OK;
  if (crn_v_is_dict(v)) return wrong_type(c, key, "list", v, err);
  *out = crn_v_seq(&c->arena, CRN_V_LIST);
  return crn_v_push(&c->arena, *out, v) ? CRN_OK : crn_err_memory(err);
}

crn_status crn_config_dict(const crn_config *c, const char *key, crn_value **out, crn_err *err) {
  crn_value *v = crn_config_get(c, key);
  *out = crn_v_is_none(v) ? NULL : v;
  return !*out || crn_v_is_dict(v) ? CRN_OK : wrong_type(c, key, "dict", v, err);
}
