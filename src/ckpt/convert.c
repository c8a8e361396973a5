/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of rules and the plain ones: a variable under its own name, and kernel|bias under its name of before
 * TensorFlow 1.2. The first rule that knows how wins.
 */
#include "ckpt/convert.h"

#include "ckpt/convert_internal.h"

#include <string.h>

crn_convert_opts crn_convert_defaults(void) { return (crn_convert_opts){.forget_bias = 1.0}; }

const char *crn_conversion_note(const crn_conversion *c) { return c->note; }

size_t crn_conversion_sources(const crn_conversion *c, const crn_bundle_entry *const **out) {
  *out = c->sources;
  return c->n_sources;
}

crn_conversion *crn_conversion_new(const crn_convert_search *s) {
  crn_conversion *c = CRN_ARENA_NEW(s->arena, crn_conversion);
  if (c) {
    c->bundle = s->bundle;
    c->want = *s->want;
    c->run = crn_conversion_run_plain;
  }
  return c;
}

const crn_bundle_entry *crn_convert_entry(const crn_convert_search *s, const char *first_part,
                                          const char *second_part) {
  const char *name = crn_arena_printf(s->arena, "%s%s", first_part, second_part);
  return name ? crn_bundle_find(s->bundle, name) : NULL;
}

const char *crn_ckpt_var_describe(const crn_ckpt_var *v, crn_str *buffer) {
  const crn_bundle_entry e = {.dtype = v->dtype, .rank = v->rank, .shape = v->shape};
  return crn_bundle_describe(&e, buffer);
}

crn_status crn_convert_fail_shape(const crn_convert_search *s, const crn_bundle_entry *e, const char *why) {
  crn_str in_file = {0}, needed = {0};
  crn_status status =
      crn_fail(s->err, CRN_E_FORMAT, "variable '%s': the file has '%s' as %s, the network needs %s%s", s->want->name,
               e->name, crn_bundle_describe(e, &in_file), crn_ckpt_var_describe(s->want, &needed), why);
  crn_str_free(&in_file);
  crn_str_free(&needed);
  return status;
}

static int64_t count_elements(const crn_ckpt_var *v) {
  int64_t n = 1;
  for (int i = 0; i < v->rank; i++) n *= v->shape[i];
  return n;
}

static crn_status read_as(const crn_bundle *b, const crn_bundle_entry *e, int dtype, void *dst, crn_err *err) {
  size_t bytes = (size_t)e->n_elements * crn_tf_dtype_bytes(e->dtype);
  if (e->dtype == dtype) return crn_bundle_read(b, e, dst, bytes, err);
  void *values = crn_malloc(bytes);
  if (!values) return crn_err_memory(err);
  crn_status status = crn_bundle_read(b, e, values, bytes, err);
  if (status == CRN_OK && crn_tf_convert(e->dtype, values, dtype, dst, e->n_elements, err) != CRN_OK)
    status = crn_err_where(err, "variable '%s'", e->name);
  crn_free(values);
  return status;
}

crn_status crn_conversion_run_plain(const crn_conversion *c, void *dst, crn_err *err) {
  if (count_elements(&c->want) != c->sources[0]->n_elements)
    return crn_fail(err, CRN_E_INTERNAL, "variable '%s': conversion between different sizes", c->want.name);
  return read_as(c->bundle, c->sources[0], c->want.dtype, dst, err);
}

crn_status crn_convert_read_doubles(const crn_bundle *b, const crn_bundle_entry *e, double *dst, crn_err *err) {
  return read_as(b, e, CRN_TF_FLOAT64, dst, err);
}

crn_status crn_conversion_run(const crn_conversion *c, void *dst, crn_err *err) { return c->run(c, dst, err); }

static bool same_shape(const crn_ckpt_var *v, const crn_bundle_entry *e) {
  if (v->rank != e->rank) return false;
  for (int i = 0; i < v->rank; i++)
    if (v->shape[i] != e->shape[i]) return false;
  return true;
}

/* A conversion that takes e as it is, if shape and type fit. */
static crn_status take(const crn_convert_search *s, const crn_bundle_entry *e, const char *note, crn_conversion **out) {
  if (!same_shape(s->want, e)) return CRN_OK;
  if (!crn_tf_convertible(e->dtype, s->want->dtype)) return crn_convert_fail_shape(s, e, "");
  crn_conversion *c = crn_conversion_new(s);
  if (!c) return crn_err_memory(s->err);
  c->sources[c->n_sources++] = e;
  c->note = note;
  if (e->dtype != s->want->dtype) {
    c->note = crn_arena_printf(s->arena, "%s%s%s converted to %s", note ? note : "", note ? ", " : "",
                               crn_tf_dtype_name(e->dtype), crn_tf_dtype_name(s->want->dtype));
    if (!c->note) return crn_err_memory(s->err);
  }
  *out = c;
  return CRN_OK;
}

static crn_status rule_same_name(const crn_convert_search *s, crn_conversion **out) {
  const crn_bundle_entry *e = crn_bundle_find(s->bundle, s->want->name);
  return e ? take(s, e, NULL, out) : CRN_OK;
}

/* …/kernel <- …/weights, …/bias <- …/biases */
static crn_status rule_old_names(const crn_convert_search *s, crn_conversion **out) {
  static const char *const names[][2] = {{"/kernel", "/weights"}, {"/bias", "/biases"}};
  const char *name = s->want->name;
  for (int i = 0; i < 2; i++) {
    if (!crn_ends_with(name, names[i][0])) continue;
    char *scope = crn_arena_strndup(s->arena, name, strlen(name) - strlen(names[i][0]));
    if (!scope) return crn_err_memory(s->err);
    const crn_bundle_entry *e = crn_convert_entry(s, scope, names[i][1]);
    if (!e) continue;
    const char *note = crn_arena_printf(s->arena, "taken from '%s'", e->name);
    return note ? take(s, e, note, out) : crn_err_memory(s->err);
  }
  return CRN_OK;
}

crn_status crn_convert_find(const crn_bundle *b, const crn_ckpt_var *want, const crn_convert_opts *opts, crn_arena *a,
                            crn_conversion **out, crn_err *err) {
  static const crn_convert_rule rules[] = {rule_same_name, rule_old_names, crn_convert_rule_batch_norm,
                                           crn_convert_rule_lstm};
  const crn_convert_opts defaults = crn_convert_defaults();
  const crn_convert_search s = {b, want, opts ? opts : &defaults, a, err};
  *out = NULL;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    CRN_TRY(rules[i](&s, out));
    if (*out) return CRN_OK;
  }
  const crn_bundle_entry *e = crn_bundle_find(b, want->name);
  return e ? crn_convert_fail_shape(&s, e, "") : CRN_OK;
}
