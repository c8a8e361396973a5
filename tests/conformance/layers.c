/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer outputs of a case: axes and their roles, dtype, lengths, beams, values on valid frames.
 *
 * Layers inside of a loop are recorded where the original lets one read them (accumulated, or moved out of the loop);
 * they are compared when this network gives them too, as a count: where a layer runs is no part of the contract.
 */
#include <string.h>

#include "base/str.h"
#include "runner.h"

typedef struct recorded { /* a layer as recorded */
  char *path;             /* in the file */
  char *name;             /* "output/x" */
  bool inner;             /* of a loop, or what a sub network calls its input: compared when given, as a count */
  char **dims;            /* letters */
  size_t n_dims;
  int64_t batch_axis, time_axis, feature_axis, dim, sparse;
  int64_t beam; /* -1 = not stated */
  char dtype[32];
  array value, sizes[CRN_H5_MAX_RANK];
  bool has_size[CRN_H5_MAX_RANK]; /* by axis */
  frames valid;
} recorded;

static void recorded_free(recorded *l) {
  crn_free(l->path);
  crn_free(l->name);
  crn_free(l->dims);
  array_free(&l->value);
  for (int i = 0; i < CRN_H5_MAX_RANK; i++) array_free(&l->sizes[i]);
}

/* Is any layer that this one is in a loop? "output|s|x": looks at "output" and "output|s". */
static bool inside_loop(const case_run *c, const char *stored) {
  bool found = false;
  for (const char *bar = strchr(stored, '|'); bar && !found; bar = strchr(bar + 1, '|')) {
    char path[512], **cls = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/layers/%.*s", c->mode, (int)(bar - stored), stored);
    if (crn_h5_has(c->f, path) && crn_h5_read_attr_strings(c->f, path, "class", &cls, &n, NULL) == CRN_OK && n)
      found = strcmp(cls[0], "rec") == 0;
    crn_free(cls);
  }
  return found;
}

/* Which axes tell the place in the lengths of axis `axis`. */
static void connect_lengths(recorded *l, int axis) {
  const array *size = &l->sizes[axis];
  const int b = (int)l->batch_axis, after = b + 1;
  l->valid.lens[axis] = size;
  l->valid.by[axis][0] = l->valid.by[axis][1] = -1;
  if (b < 0) return; /* the longest of all */
  if (size->n == l->value.shape[b])
    l->valid.by[axis][0] = b;
  else if (after < l->value.rank && after != axis && size->n == l->value.shape[b] * l->value.shape[after])
    l->valid.by[axis][0] = b, l->valid.by[axis][1] = after; /* [B, beam, T] */
}

static crn_status read_sizes(const case_run *c, recorded *l, crn_err *err) {
  int k = 0; /* axis without counting batch */
  for (int axis = 0; axis < l->value.rank; axis++) {
    char path[600];
    if (axis == l->batch_axis) continue;
    snprintf(path, sizeof path, "%s/size%d", l->path, k++);
    if (!crn_h5_has(c->f, path)) continue;
    CRN_TRY(array_read(c->f, path, &l->sizes[axis], err));
    l->has_size[axis] = true;
    connect_lengths(l, axis);
  }
  return CRN_OK;
}

static crn_status read_attrs(crn_h5 *f, recorded *l, crn_err *err) {
  const struct {
    const char *name;
    int64_t *to;
  } ints[] = {{"batch_dim_axis", &l->batch_axis},
              {"time_dim_axis", &l->time_axis},
              {"feature_dim_axis", &l->feature_axis},
              {"dim", &l->dim},
              {"sparse", &l->sparse}};
  for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
    CRN_TRY(crn_h5_attr_int(f, l->path, ints[i].name, ints[i].to, err));
  l->beam = -1;
  if (crn_h5_has_attr(f, l->path, "beam")) CRN_TRY(crn_h5_attr_int(f, l->path, "beam", &l->beam, err));
  char **dtype = NULL;
  size_t n = 0;
  CRN_TRY(crn_h5_read_attr_strings(f, l->path, "dtype", &dtype, &n, err));
  snprintf(l->dtype, sizeof l->dtype, "%s", n ? dtype[0] : "");
  crn_free(dtype);
  return crn_h5_read_attr_strings(f, l->path, "dims", &l->dims, &l->n_dims, err);
}

static bool read_layer(const case_run *c, const char *stored, recorded *l) {
  crn_err err = {0};
  memset(l, 0, sizeof *l);
  l->path = case_path(c, "layers", stored);
  l->name = plain_name(stored);
  l->inner = inside_loop(c, stored) || strstr(stored, "|data:") != NULL;
  crn_str value = {0};
  crn_str_addf(&value, "%s/value", l->path);
  crn_status st = read_attrs(c->f, l, &err);
  if (st == CRN_OK) st = array_read(c->f, crn_str_get(&value), &l->value, &err);
  if (st == CRN_OK) st = read_sizes(c, l, &err);
  crn_str_free(&value);
  if (st != CRN_OK) rep_status(c->r, "reading", &err);
  return st == CRN_OK;
}

/* ---- templates ---- */

static bool compare_axes(report *r, const char *what, const recorded *l, const crn_data *d) {
  char buf[32];
  crn_str want = {0}, got = {0};
  for (size_t i = 0; i < l->n_dims; i++) crn_str_addf(&want, "%s%s", i ? ", " : "", l->dims[i]);
  for (int i = 0; i < d->t.n; i++) crn_str_addf(&got, "%s%s", i ? ", " : "", crn_dim_letters(d->t.dims[i], buf));
  const bool same = strcmp(crn_str_get(&want), crn_str_get(&got)) == 0;
  if (!same && r) rep_fail(r, "%s: axes [%s] instead of [%s]", what, crn_str_get(&got), crn_str_get(&want));
  crn_str_free(&want);
  crn_str_free(&got);
  return same;
}

static bool same_number(report *r, const char *what, const char *which, int64_t want, int64_t got) {
  if (want == got) return true;
  if (r) rep_fail(r, "%s: %s %lld instead of %lld", what, which, (long long)got, (long long)want);
  return false;
}

static bool compare_roles(report *r, const char *what, const recorded *l, const crn_data *d) {
  bool ok = same_number(r, what, "batch axis", l->batch_axis, crn_tmpl_batch_axis(&d->t));
  ok &= same_number(r, what, "time axis", l->time_axis, d->t.time_axis);
  ok &= same_number(r, what, "feature axis", l->feature_axis, d->t.feature_axis);
  ok &= same_number(r, what, "sparse", l->sparse, d->t.sparse);
  ok &= same_number(r, what, "dim", l->dim, crn_tmpl_dim(&d->t));
  if (strcmp(l->dtype, crn_dtype_name(d->t.dtype)) != 0 || d->t.dtype != d->v->dtype) {
    if (r) rep_fail(r, "%s: dtype %s instead of %s", what, crn_dtype_name(d->v->dtype), l->dtype);
    ok = false;
  }
  return ok;
}

/* ---- lengths and beams ---- */

static bool compare_lengths(report *r, const char *what, const recorded *l, const crn_data *d) {
  bool ok = true;
  for (int axis = 0; axis < l->value.rank; axis++) {
    const array *want = &l->sizes[axis];
    const crn_data *len = d->len[axis];
    if (!l->has_size[axis]) continue;
    if (!len || !len->v) {
      if (r) rep_fail(r, "%s: no lengths for axis %d", what, axis);
      ok = false;
      continue;
    }
    crn_str text = {0};
    const int64_t n = crn_t_size(len->v);
    bool same = n == want->n || n == 1; /* one length for all: a scalar */
    for (int64_t i = 0; i < n; i++) crn_str_addf(&text, i ? ", %g" : "%g", crn_t_get(len->v, i));
    crn_str_add(&text, "] instead of [");
    for (int64_t i = 0; i < want->n; i++) {
      crn_str_addf(&text, i ? ", %g" : "%g", want->v[i]);
      same = same && crn_t_get(len->v, n == 1 ? 0 : i) == want->v[i];
    }
    if (!same && r) rep_fail(r, "%s: lengths of axis %d are [%s]", what, axis, crn_str_get(&text));
    crn_str_free(&text);
    ok &= same;
  }
  return ok;
}

static bool compare_beam(case_run *c, report *r, const char *what, const recorded *l, const crn_data *d,
                         double scores_scale) {
  bool ok = true;
  char path[600];
  if (l->beam >= 0) ok = same_number(r, what, "beam size", l->beam, d->beam ? d->beam->K : 1);
  snprintf(path, sizeof path, "%s/beam_scores", l->path);
  if (!crn_h5_has(c->f, path)) return ok;
  crn_err err = {0};
  array scores;
  if (array_read(c->f, path, &scores, &err) != CRN_OK) {
    rep_status(c->r, "reading", &err);
    return false;
  }
  crn_str name = {0};
  crn_str_addf(&name, "%s: beam scores", what);
  if (d->beam && d->beam->scores) {
    const tolerance tol = {.relative = c->tol, .absolute = 1e-6 * scores_scale};
    ok &= array_compare(r, crn_str_get(&name), &scores, NULL, d->beam->scores, tol);
  } else if (d->decided_score) {
    const tolerance tol = {.relative = c->tol, .absolute = 1e-6 * scores_scale};
    ok &= array_compare(r, crn_str_get(&name), &scores, NULL, d->decided_score, tol);
  } else {
    if (r) rep_fail(r, "%s are not there", crn_str_get(&name));
    ok = false;
  }
  crn_str_free(&name);
  array_free(&scores);
  return ok;
}

/* ---- layers ---- */

typedef struct scales { /* largest numbers of all layers of the mode */
  double values, scores;
} scales;

typedef struct inner_count {
  int same, differ, not_given;
} inner_count;

static void scan_layer(case_run *c, const char *stored, scales *s) {
  recorded l;
  if (read_layer(c, stored, &l)) {
    const double value = array_scale(&l.value, &l.valid);
    if (value > s->values) s->values = value;
    char path[600];
    array scores;
    snprintf(path, sizeof path, "%s/beam_scores", l.path);
    if (crn_h5_has(c->f, path) && array_read(c->f, path, &scores, NULL) == CRN_OK) {
      const double score = array_scale(&scores, NULL);
      if (score > s->scores) s->scores = score;
      array_free(&scores);
    }
  }
  recorded_free(&l);
}

static bool compare_data(case_run *c, report *r, const recorded *l, const crn_data *d, const scales *s) {
  crn_str what = {0};
  crn_str_addf(&what, "layer '%s'", l->name);
  const char *w = crn_str_get(&what);
  bool ok = compare_axes(r, w, l, d);
  if (ok) {
    ok &= compare_roles(r, w, l, d);
    ok &= compare_lengths(r, w, l, d);
    ok &= compare_beam(c, r, w, l, d, s->scores);
    const tolerance tol = {.relative = c->tol, .absolute = 1e-6 * s->values};
    ok &= array_compare(r, w, &l->value, &l->valid, d->v, tol);
  }
  crn_str_free(&what);
  return ok;
}

static void compare_layer(case_run *c, const char *stored, const scales *s, inner_count *inner) {
  recorded l;
  if (!read_layer(c, stored, &l)) {
    recorded_free(&l);
    return;
  }
  const crn_layer *layer = crn_net_find(c->net, l.name);
  const crn_data *d = layer ? crn_exec_value(c->exec, layer) : NULL;
  const bool there = d && d->v;
  if (l.inner) {
    if (!there)
      inner->not_given++;
    else if (compare_data(c, NULL, &l, d, s))
      inner->same++;
    else {
      inner->differ++;
      rep_note(c->r, "layer '%s' in a loop is given otherwise", l.name);
    }
  } else if (!there) {
    rep_fail(c->r, "layer '%s': %s", l.name, layer ? "has no value" : "is not in the network");
  } else {
    (void)compare_data(c, c->r, &l, d, s);
  }
  recorded_free(&l);
}

void compare_layers(case_run *c) {
  crn_err err = {0};
  char *group = case_path(c, "layers", ""), **names = NULL;
  size_t n = 0;
  scales s = {0, 0};
  inner_count inner = {0, 0, 0};
  if (!group || crn_h5_members(c->f, group, &names, &n, &err) != CRN_OK) rep_status(c->r, "reading", &err);
  for (size_t i = 0; i < n; i++) scan_layer(c, names[i], &s);
  for (size_t i = 0; i < n; i++) compare_layer(c, names[i], &s, &inner);
  if (inner.same + inner.differ + inner.not_given)
    rep_note(c->r, "layers in loops: %d the same, %d given otherwise, %d not given", inner.same, inner.differ,
             inner.not_given);
  crn_free(names);
  crn_free(group);
}
