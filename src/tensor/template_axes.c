/* SPDX-License-Identifier: Apache-2.0
 *
 * Axis descriptions (layers-1.md, C6): "T", "spatial", "dim:3", "stag:name", positions, dims, lists.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/template.h"

typedef struct axis_set {
  int a[CRN_MAX_RANK];
  int n;
} axis_set;

static void add_axis(axis_set *s, int axis) {
  if (axis < 0) return;
  for (int i = 0; i < s->n; i++)
    if (s->a[i] == axis) return;
  s->a[s->n++] = axis;
}

static crn_status axis_fail(const crn_tmpl *t, const char *what, const char *why, crn_err *err) {
  crn_str s = {0};
  crn_tmpl_describe(t, &s);
  crn_status st = crn_fail(err, CRN_E_CONFIG, "axis '%s': %s in %s", what, why, crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

static bool is_spatial(const crn_tmpl *t, int i) {
  if (t->dims[i]->kind == CRN_DIM_BATCH) return false;
  return i != t->feature_axis || i == t->time_axis || t->dims[i]->size < 0;
}

/* Members of a named set; false: no such set. */
static bool named_set(const crn_tmpl *t, const char *name, axis_set *s) {
  static const struct {
    const char *name;
    char kind;
  } sets[] = {{"spatial", 's'},      {"s", 's'},      {"spatial_except_time", 'x'}, {"except_time", 'e'}, {"except_batch", 'b'},
              {"*", '*'},            {"dyn", 'd'},    {"dynamic", 'd'},             {"d", 'd'},           {"static", 'c'}};
  char kind = 0;
  for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
    if (!strcmp(name, sets[i].name)) kind = sets[i].kind;
  if (!kind) return false;
  for (int i = 0; i < t->n; i++) {
    const bool batch = t->dims[i]->kind == CRN_DIM_BATCH;
    bool in = false;
    if (kind == 's') in = is_spatial(t, i);
    if (kind == 'x') in = is_spatial(t, i) && i != t->time_axis;
    if (kind == 'e') in = !batch && i != t->time_axis;
    if (kind == 'b') in = !batch;
    if (kind == '*') in = true;
    if (kind == 'd') in = crn_dim_is_dynamic(t->dims[i]);
    if (kind == 'c') in = !batch && t->dims[i]->size >= 0;
    if (in) add_axis(s, i);
  }
  return true;
}

static crn_status by_letter(const crn_tmpl *t, char c, const char *text, axis_set *s, crn_err *err) {
  if (c == 'b') {
    const int a = crn_tmpl_batch_axis(t);
    if (a < 0) return axis_fail(t, text, "there is no batch axis", err);
    add_axis(s, a);
  } else if (c == 't') {
    if (t->time_axis < 0) return axis_fail(t, text, "there is no time axis", err);
    add_axis(s, t->time_axis);
  } else {
    add_axis(s, t->feature_axis);
  }
  return CRN_OK;
}

static void lower(const char *text, char *buf, size_t n) {
  size_t i = 0;
  for (; text[i] && i + 1 < n; i++) buf[i] = (char)tolower((unsigned char)text[i]);
  buf[i] = 0;
}

/* "set:i" */
static crn_status indexed(const crn_tmpl *t, const char *text, const char *set, const char *index, int version,
                          axis_set *s, bool *found, crn_err *err) {
  axis_set all = {.n = 0};
  if (!named_set(t, set, &all) || !strcmp(set, "*")) return CRN_OK;
  *found = true;
  char *end;
  long i = strtol(index, &end, 10);
  if (*end || end == index) return axis_fail(t, text, "a number must follow the colon", err);
  if (version >= 7)
    return axis_fail(t, text, "positions in a set are not allowed from behavior_version 7 on; name the dim", err);
  if (i < 0) i += all.n;
  if (i < 0 || i >= all.n) return axis_fail(t, text, "there are not so many such axes", err);
  add_axis(s, all.a[i]);
  return CRN_OK;
}

static bool name_has(const crn_dim *d, const char *part) {
  char a[256], b[128];
  lower(d->name, a, sizeof(a));
  lower(part, b, sizeof(b));
  return strstr(a, b) != NULL;
}

/* stag:NAME, tag:NAME, stag-single:i:NAME */
static crn_status by_tag(const crn_tmpl *t, const char *text, axis_set *s, bool *found, crn_err *err) {
  const char *name;
  bool all_axes = false, optional = false;
  long pick = 0;
  bool picked = false;
  char buf[160];
  if (!strncmp(text, "stag:", 5)) name = text + 5;
  else if (!strncmp(text, "tag:", 4)) name = text + 4, all_axes = true;
  else if (!strncmp(text, "stag-single:", 12)) {
    char *end;
    pick = strtol(text + 12, &end, 10);
    if (*end != ':') return axis_fail(t, text, "expected stag-single:NUMBER:NAME", err);
    picked = true;
    name = end + 1;
  } else return CRN_OK;
  *found = true;
  lower(name, buf, sizeof(buf));
  if (buf[0] && buf[strlen(buf) - 1] == '?') {
    buf[strlen(buf) - 1] = 0;
    optional = true;
  }
  axis_set m = {.n = 0};
  for (int i = 0; i < t->n; i++)
    if ((all_axes || is_spatial(t, i)) && name_has(t->dims[i], buf)) add_axis(&m, i);
  if (!m.n && !all_axes) /* a fixed feature may be meant too when nothing else has the name */
    for (int i = 0; i < t->n; i++)
      if (t->dims[i]->kind != CRN_DIM_BATCH && name_has(t->dims[i], buf)) add_axis(&m, i);
  if (picked) {
    if (pick < 0) pick += m.n;
    if (pick < 0 || pick >= m.n) return axis_fail(t, text, "there are not so many such axes", err);
    add_axis(s, m.a[pick]);
    return CRN_OK;
  }
  if (!m.n && optional) return CRN_OK;
  if (m.n != 1) return axis_fail(t, text, m.n ? "several dims have that name" : "no dim has that name", err);
  add_axis(s, m.a[0]);
  return CRN_OK;
}

static crn_status by_text(const crn_tmpl *t, const char *given, int version, axis_set *s, crn_err *err) {
  char text[192];
  lower(given, text, sizeof(text));
  if (!text[0]) return CRN_OK;
  if (!strcmp(text, "batch") || !strcmp(text, "b")) return by_letter(t, 'b', given, s, err);
  if (!strcmp(text, "time") || !strcmp(text, "t")) return by_letter(t, 't', given, s, err);
  if (!strcmp(text, "t?") || !strcmp(text, "time?")) return add_axis(s, t->time_axis), CRN_OK;
  if (!strcmp(text, "feature") || !strcmp(text, "f") || !strcmp(text, "non_spatial"))
    return by_letter(t, 'f', given, s, err);
  if (named_set(t, text, s)) return CRN_OK;
  bool found = false;
  CRN_TRY(by_tag(t, text, s, &found, err));
  if (found) return CRN_OK;
  if (!strncmp(text, "dim:", 4)) {
    char *end;
    const long size = strtol(text + 4, &end, 10);
    if (*end || end == text + 4) return axis_fail(t, given, "a number must follow the colon", err);
    axis_set m = {.n = 0};
    for (int i = 0; i < t->n; i++)
      if (t->dims[i]->kind != CRN_DIM_BATCH && t->dims[i]->size == size) add_axis(&m, i);
    if (m.n != 1) return axis_fail(t, given, m.n ? "several axes have that size" : "no axis has that size", err);
    add_axis(s, m.a[0]);
    return CRN_OK;
  }
  char *colon = strchr(text, ':');
  if (colon) {
    *colon = 0;
    CRN_TRY(indexed(t, given, text, colon + 1, version, s, &found, err));
    if (found) return CRN_OK;
    *colon = ':';
  }
  bool letters = true;
  for (const char *p = text; *p; p++) letters &= *p == 'b' || *p == 't' || *p == 'f';
  if (letters) {
    for (const char *p = text; *p; p++) CRN_TRY(by_letter(t, *p, given, s, err));
    return CRN_OK;
  }
  return axis_fail(t, given, "not an axis (B, T, F, spatial, static, dynamic, dim:N, stag:NAME, … are known)", err);
}

static crn_status by_value(const crn_tmpl *t, const crn_value *v, int version, crn_dims *dims, axis_set *s,
                           crn_err *err) {
  if (crn_v_is_none(v)) return CRN_OK;
  if (crn_v_is_str(v)) return by_text(t, crn_v_cstr(v), version, s, err);
  int64_t i;
  if (v->kind == CRN_V_INT && crn_v_to_int(v, &i)) {
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)i);
    if (version >= 5) return axis_fail(t, text, "positions are not allowed from behavior_version 5 on", err);
    if (i < 0) i += t->n;
    if (i < 0 || i >= t->n) return axis_fail(t, text, "there is no such position", err);
    add_axis(s, (int)i);
    return CRN_OK;
  }
  if (v->kind == CRN_V_DIM) {
    const crn_dim *d = crn_dim_of_value(dims, v);
    int axis = d ? crn_tmpl_find(t, d) : -1;
    if (axis < 0 && d && d->size >= 0)
      for (int k = t->n; k-- > 0 && axis < 0;)
        if (crn_dims_match(t->dims[k], d, version) && t->dims[k]->size == d->size) axis = k;
    if (axis < 0) return axis_fail(t, v->u.dim.name ? v->u.dim.name : "dim", "there is no axis with that dim", err);
    add_axis(s, axis);
    return CRN_OK;
  }
  if (crn_v_is_seq(v)) {
    for (size_t k = 0; k < crn_v_len(v); k++) CRN_TRY(by_value(t, crn_v_at(v, k), version, dims, s, err));
    return CRN_OK;
  }
  return axis_fail(t, crn_v_kind_name(v), "a value of this type is no axis", err);
}

crn_status crn_axes_of(const crn_tmpl *t, const crn_value *v, int version, crn_dims *dims, int axes[CRN_MAX_RANK],
                       int *n, crn_err *err) {
  axis_set s = {.n = 0};
  CRN_TRY(by_value(t, v, version, dims, &s, err));
  memcpy(axes, s.a, sizeof(s.a));
  *n = s.n;
  return CRN_OK;
}

crn_status crn_axis_of(const crn_tmpl *t, const crn_value *v, int version, crn_dims *dims, int *axis, crn_err *err) {
  axis_set s = {.n = 0};
  CRN_TRY(by_value(t, v, version, dims, &s, err));
  if (s.n == 1) {
    *axis = s.a[0];
    return CRN_OK;
  }
  crn_str text = {0};
  crn_v_repr(v, &text, 60);
  crn_status st = axis_fail(t, crn_str_get(&text), s.n ? "exactly one axis is needed, this names several"
                                                       : "exactly one axis is needed, this names none", err);
  crn_str_free(&text);
  return st;
}
