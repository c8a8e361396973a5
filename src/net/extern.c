/* SPDX-License-Identifier: Apache-2.0
 *
 * External data: their templates from extern_data, or from num_inputs / num_outputs in all old forms (SPEC 1).
 */
#include <stdio.h>
#include <string.h>

#include "net/build.h"

#define CRN_MAX_REGISTERED 64 /* data keys made by layers: register_as_extern_data, placeholders of states */

static crn_status key_fail(crn_build *b, const char *key, const char *fmt, const char *arg) {
  (void)crn_fail(b->err, CRN_E_CONFIG, fmt, arg);
  return crn_err_where(b->err, "config: extern_data: key '%s'", key);
}

static crn_status option_fail(crn_build *b, const char *key, const char *option, const crn_value *v,
                              const char *expected) {
  crn_str s = {0};
  crn_v_repr(v, &s, 60);
  (void)crn_fail(b->err, CRN_E_CONFIG, "expected %s, got %s", expected, crn_str_get(&s));
  crn_str_free(&s);
  return crn_err_where(b->err, "config: extern_data: key '%s' > option '%s'", key, option);
}

static bool is_size(const crn_value *v, int64_t *n) { return crn_v_to_int(v, n) && *n >= 0 && *n <= CRN_MAX_SIZE; }

static const crn_dim *dynamic_dim(crn_build *b, const char *key, int index, int time_axis_index) {
  char name[160], slot[32];
  if (index == time_axis_index) (void)snprintf(name, sizeof(name), "time:var:extern_data:%s", key);
  else (void)snprintf(name, sizeof(name), "spatial%d:var:extern_data:%s", index, key);
  (void)snprintf(slot, sizeof(slot), "dyn%d", index);
  return crn_dim_new(&b->net->dims, key, slot, CRN_DIM_SPATIAL, -1, name);
}

typedef struct extern_opts {
  int64_t dim;
  bool has_dim, sparse, has_batch;
  int batch_axis;
  const crn_value *shape; /* sequence, or NULL */
  int64_t shape_size[CRN_MAX_RANK]; /* -1 = dynamic */
  int n_shape;
} extern_opts;

static crn_status read_opts(crn_build *b, const char *key, const crn_value *v, crn_extern *e, extern_opts *o) {
  static const char *const known[] = {"dim", "shape", "sparse", "dtype", "batch_dim_axis", "time_dim_axis", "feature_dim_axis",
                                      "available_for_inference", "same_dim_tags_as", "dim_tags", "dims", "vocab", "name",
                                      "sparse_dim", "feature_dim", "time_dim", "special_axes", "beam", "batch"};
  for (size_t i = 0; i < v->u.dict.n; i++) {
    const char *k = crn_v_cstr(v->u.dict.keys[i]);
    bool ok = false;
    for (size_t n = 0; n < sizeof(known) / sizeof(*known); n++) ok |= k && !strcmp(k, known[n]);
    if (ok) continue;
    const char *near = k ? crn_nearest(k, known, sizeof(known) / sizeof(*known)) : NULL;
    (void)crn_fail(b->err, CRN_E_CONFIG, "unknown option '%s'%s%s%s", k ? k : "?", near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
    return crn_err_where(b->err, "config: extern_data: key '%s'", key);
  }
  const crn_value *x = crn_v_get(v, "dim");
  o->has_dim = !crn_v_is_none(x);
  if (o->has_dim && !is_size(x, &o->dim)) return option_fail(b, key, "dim", x, "an integer from 0 to 2147483647");
  o->sparse = crn_v_truth(crn_v_get(v, "sparse")) || !crn_v_is_none(crn_v_get(v, "sparse_dim"));
  e->t = crn_tmpl_scalar(o->sparse ? CRN_I32 : CRN_F32);
  if (!crn_v_is_none(x = crn_v_get(v, "dtype")) && (!crn_v_is_str(x) || !crn_dtype_from_name(crn_v_cstr(x), &e->t.dtype)))
    return option_fail(b, key, "dtype", x, "a type (float32, float64, int8 to int64, uint8, bool, string)");
  x = crn_v_get(v, "batch_dim_axis");
  int64_t axis = 0;
  o->has_batch = !(x && x->kind == CRN_V_NONE);
  if (x && o->has_batch && (!crn_v_to_int(x, &axis) || axis < -CRN_MAX_RANK || axis >= CRN_MAX_RANK))
    return option_fail(b, key, "batch_dim_axis", x, "an axis or None");
  o->batch_axis = (int)axis;
  x = crn_v_get(v, "shape");
  o->shape = x;
  if (!x) {
    o->n_shape = 0;
    const crn_value *ta = crn_v_get(v, "time_dim_axis");
    if (!(ta && ta->kind == CRN_V_NONE)) o->shape_size[o->n_shape++] = -1;
    if (!o->sparse) o->shape_size[o->n_shape++] = o->has_dim ? o->dim : -1;
    return CRN_OK;
  }
  if (!crn_v_is_seq(x) || crn_v_len(x) >= CRN_MAX_RANK)
    return option_fail(b, key, "shape", x, "a tuple of at most 7 sizes");
  for (size_t i = 0; i < crn_v_len(x); i++) {
    const crn_value *s = crn_v_at(x, i);
    int64_t n = -1;
    if (!crn_v_is_none(s) && s->kind != CRN_V_DIM && !is_size(s, &n))
      return option_fail(b, key, "shape", x, "sizes (integers from 0 to 2147483647, or None)");
    o->shape_size[o->n_shape++] = n;
  }
  return CRN_OK;
}

static crn_status axis_opt(crn_build *b, const char *key, const crn_value *v, const char *name, int n, int *axis,
                           bool *given) {
  const crn_value *x = crn_v_get(v, name);
  *given = x != NULL;
  if (!x) return CRN_OK;
  int64_t i = -1;
  if (x->kind == CRN_V_NONE) {
    *axis = -1;
    return CRN_OK;
  }
  if (!crn_v_to_int(x, &i) || i >= n || i < -n) return option_fail(b, key, name, x, n ? "an axis of this data" : "no axis, as the data has none");
  *axis = (int)(i < 0 ? i + n : i);
  return CRN_OK;
}

static crn_status add_dims(crn_build *b, const char *key, crn_extern *e, const extern_opts *o) {
  crn_dims *dims = &b->net->dims;
  char slot[48], name[160];
  int first_dynamic = -1;
  for (int i = 0; i < o->n_shape && first_dynamic < 0; i++)
    if (o->shape_size[i] < 0) first_dynamic = i;
  const bool last_is_feature = !o->sparse && o->n_shape > 0 && o->n_shape - 1 != first_dynamic;
  for (int i = 0; i < o->n_shape; i++) {
    const crn_dim *d;
    const crn_value *given = o->shape ? crn_v_at(o->shape, (size_t)i) : NULL;
    (void)snprintf(slot, sizeof(slot), "static%d", i);
    if (given && given->kind == CRN_V_DIM) d = crn_dim_of_value(dims, given);
    else if (i == o->n_shape - 1 && last_is_feature && (o->shape_size[i] >= 0 || o->has_dim)) {
      (void)snprintf(name, sizeof(name), "feature:%s", key);
      d = crn_dim_new(dims, key, "feature", CRN_DIM_FEATURE, o->shape_size[i] >= 0 ? o->shape_size[i] : o->dim, name);
    } else if (o->shape_size[i] < 0) d = dynamic_dim(b, key, i, first_dynamic);
    else {
      (void)snprintf(name, sizeof(name), "spatial%d:static%lld:%s", i, (long long)o->shape_size[i], key);
      d = crn_dim_new(dims, key, slot, CRN_DIM_SPATIAL, o->shape_size[i], name);
    }
    if (!d) return crn_err_memory(b->err);
    e->t.dims[e->t.n++] = d;
  }
  if (o->has_batch) {
    int at = o->batch_axis < 0 ? o->batch_axis + e->t.n + 1 : o->batch_axis;
    if (at < 0 || at > e->t.n)
      return option_fail(b, key, "batch_dim_axis", crn_v_int(&b->net->arena, o->batch_axis), "an axis of this data");
    CRN_TRY(crn_tmpl_insert(&e->t, at, dims->batch, b->err));
  }
  return CRN_OK;
}

/* dim_tags / dims: all axes, batch included, as dim objects. */
static crn_status dims_of_tags(crn_build *b, const char *key, const crn_value *tags, crn_extern *e) {
  if (!crn_v_is_seq(tags) || crn_v_len(tags) > CRN_MAX_RANK)
    return option_fail(b, key, "dim_tags", tags, "a list of at most 8 dim objects");
  for (size_t i = 0; i < crn_v_len(tags); i++) {
    const crn_value *v = crn_v_at(tags, i);
    if (v->kind != CRN_V_DIM) return option_fail(b, key, "dim_tags", v, "dim objects");
    const crn_dim *d = crn_dim_of_value(&b->net->dims, v);
    if (!d) return crn_err_memory(b->err);
    e->t.dims[e->t.n++] = d;
  }
  return CRN_OK;
}

static crn_status make_extern(crn_build *b, crn_extern *e, const char *key, const crn_value *v, bool available) {
  extern_opts o = {0};
  e->key = key;
  CRN_TRY(read_opts(b, key, v, e, &o));
  const crn_value *tags = crn_v_get(v, "dim_tags");
  if (!tags) tags = crn_v_get(v, "dims");
  if (!crn_v_is_none(tags)) CRN_TRY(dims_of_tags(b, key, tags, e));
  else CRN_TRY(add_dims(b, key, e, &o));
  e->t.sparse = o.sparse;
  if (o.sparse) {
    const crn_value *sd = crn_v_get(v, "sparse_dim");
    char name[160];
    (void)snprintf(name, sizeof(name), "%s:sparse-dim", key);
    e->t.sparse_dim = sd && sd->kind == CRN_V_DIM
                          ? crn_dim_of_value(&b->net->dims, sd)
                          : crn_dim_new(&b->net->dims, key, "sparse-dim", CRN_DIM_FEATURE, o.has_dim ? o.dim : -1, name);
    if (!e->t.sparse_dim) return crn_err_memory(b->err);
  }
  crn_tmpl_update_roles(&e->t);
  bool given;
  int axis = -1;
  CRN_TRY(axis_opt(b, key, v, "time_dim_axis", e->t.n, &axis, &given));
  if (given) {
    e->t.time_axis = axis;
    e->t.time_explicit = true;
  }
  crn_tmpl_update_roles(&e->t);
  axis = -1;
  CRN_TRY(axis_opt(b, key, v, "feature_dim_axis", e->t.n, &axis, &given));
  if (given) {
    e->t.feature_axis = axis;
    e->t.feature_explicit = true;
  }
  const int f = e->t.feature_axis;
  if (f >= 0 && e->t.dims[f]->is_auto && e->t.dims[f]->kind == CRN_DIM_SPATIAL && e->t.dims[f]->size >= 0) {
    char name[160];
    (void)snprintf(name, sizeof(name), "feature:%s", key);
    const crn_dim *d = crn_dim_new(&b->net->dims, key, "feature", CRN_DIM_FEATURE, e->t.dims[f]->size, name);
    if (!d) return crn_err_memory(b->err);
    e->t.dims[f] = d;
  }
  if (o.has_dim && !o.sparse && f >= 0 && e->t.dims[f]->size >= 0 && e->t.dims[f]->size != o.dim)
    return key_fail(b, key, "option 'dim' differs from the feature size of 'shape'%s", "");
  const crn_value *avail = crn_v_get(v, "available_for_inference");
  e->declared_available = avail ? crn_v_truth(avail) : available;
  e->t.unavailable = !e->declared_available && !b->net->train && !b->net->eval && !b->net->search;
  return CRN_OK;
}

/* same_dim_tags_as: {axis description: dim object} or {axis: …}; and a key whose tag is another key's. */
static crn_status share_dims(crn_build *b, const crn_value *dict) {
  for (int i = 0; i < b->net->n_externs; i++) {
    crn_extern *e = &b->net->externs[i];
    const crn_value *v = crn_v_get(crn_v_get(dict, e->key), "same_dim_tags_as");
    if (!crn_v_is_none(v) && !crn_v_is_dict(v))
      return option_fail(b, e->key, "same_dim_tags_as", v, "a dict, axis to dim");
    for (size_t k = 0; crn_v_is_dict(v) && k < v->u.dict.n; k++) {
      int axis;
      const crn_dim *d = NULL;
      const crn_value *to = v->u.dict.vals[k];
      if (crn_axis_of(&e->t, v->u.dict.keys[k], 0, &b->net->dims, &axis, b->err) != CRN_OK)
        return crn_err_where(b->err, "config: extern_data: key '%s' > option 'same_dim_tags_as'", e->key);
      if (to->kind == CRN_V_DIM) d = crn_dim_of_value(&b->net->dims, to);
      else if (crn_v_is_str(to)) {
        const crn_extern *other = crn_net_extern(b->net, crn_v_cstr(to));
        d = other ? crn_tmpl_time(&other->t) : NULL;
      }
      if (!d) return option_fail(b, e->key, "same_dim_tags_as", to, "a dim, or a data key that has a time axis");
      e->t.dims[axis] = d;
    }
  }
  return CRN_OK;
}

/* One entry of num_inputs / num_outputs as an extern_data dict. */
static crn_value *old_form(crn_build *b, const crn_value *v, bool sparse_default) {
  crn_arena *a = &b->net->arena;
  if (crn_v_is_dict(v)) return crn_v_copy(a, v);
  crn_value *d = crn_v_dict(a);
  int64_t dim = 0, ndim = sparse_default ? 1 : 2;
  bool sparse = sparse_default;
  if (crn_v_is_seq(v)) {
    if (!crn_v_to_int(crn_v_at(v, 0), &dim)) return NULL;
    const crn_value *second = crn_v_at(v, 1);
    if (crn_v_is_str(second)) sparse = !strcmp(crn_v_cstr(second), "sparse");
    else if (crn_v_to_int(second, &ndim)) sparse = ndim == 1;
  } else if (!crn_v_to_int(v, &dim)) return NULL;
  crn_value *shape = crn_v_seq(a, CRN_V_TUPLE);
  (void)crn_v_push(a, shape, crn_v_none(a));
  if (!sparse) (void)crn_v_push(a, shape, crn_v_int(a, dim));
  (void)crn_v_put(a, d, "dim", crn_v_int(a, dim));
  (void)crn_v_put(a, d, "shape", shape);
  (void)crn_v_put(a, d, "sparse", crn_v_bool(a, sparse));
  return d;
}

static crn_status old_forms(crn_build *b, const crn_value *v, const char *key, bool outputs, crn_value *into) {
  if (crn_v_is_none(v)) return CRN_OK;
  const bool dict = crn_v_is_dict(v);
  for (size_t i = 0; i < (dict ? v->u.dict.n : 1); i++) {
    const char *k = dict ? crn_v_cstr(v->u.dict.keys[i]) : key;
    const crn_value *x = dict ? v->u.dict.vals[i] : v;
    crn_value *d = k ? old_form(b, x, outputs && strcmp(k, "data") != 0) : NULL;
    if (!d)
      return crn_fail(b->err, CRN_E_CONFIG, "config: key '%s': expected sizes, [dim, ndim] lists or dicts, got %s",
                      outputs ? "num_outputs" : "num_inputs", crn_v_kind_name(x));
    if (outputs && !crn_v_get(d, "available_for_inference"))
      (void)crn_v_put(&b->net->arena, d, "available_for_inference",
                      crn_v_bool(&b->net->arena, crn_v_get(into, k) != NULL || !strcmp(k, "data")));
    if (!crn_v_put(&b->net->arena, into, k, d)) return crn_err_memory(b->err);
  }
  return CRN_OK;
}

crn_status crn_net_make_externs(crn_build *b) {
  crn_net *net = b->net;
  const char *target = crn_v_cstr(crn_v_get(net->config, "target"));
  net->default_target = target ? target : "classes";
  const crn_value *dict = crn_v_get(net->config, "extern_data");
  if (!crn_v_is_none(dict) && !crn_v_is_dict(dict))
    return crn_fail(b->err, CRN_E_CONFIG, "config: key 'extern_data': expected a dict, got %s", crn_v_kind_name(dict));
  crn_value *made = NULL;
  if (crn_v_is_none(dict)) {
    made = crn_v_dict(&net->arena);
    if (!made) return crn_err_memory(b->err);
    CRN_TRY(old_forms(b, crn_v_get(net->config, "num_inputs"), "data", false, made));
    CRN_TRY(old_forms(b, crn_v_get(net->config, "num_outputs"), "classes", true, made));
    dict = made;
  }
  net->externs = CRN_ARENA_ARRAY(&net->arena, crn_extern, dict->u.dict.n + CRN_MAX_REGISTERED);
  net->cap_externs = (int)dict->u.dict.n + CRN_MAX_REGISTERED;
  if (!net->externs) return crn_err_memory(b->err);
  for (size_t i = 0; i < dict->u.dict.n; i++) {
    const char *key = crn_v_cstr(dict->u.dict.keys[i]);
    const crn_value *v = dict->u.dict.vals[i];
    if (!key) return crn_fail(b->err, CRN_E_CONFIG, "config: key 'extern_data': keys must be strings");
    if (!crn_v_is_dict(v)) {
      if (!(v = old_form(b, v, !strcmp(key, net->default_target)))) return key_fail(b, key, "expected a dict, a size or a list of sizes%s", "");
    }
    const crn_status st =
        make_extern(b, &net->externs[net->n_externs], key, v, strcmp(key, net->default_target) != 0);
    CRN_TRY(crn_build_recover(b, NULL, st));
    if (st == CRN_OK) net->n_externs++;
  }
  return share_dims(b, dict);
}

crn_status crn_extern_declare(crn_build *b, const crn_layer *l, const char *key, const crn_tmpl *t) {
  crn_net *net = b->net;
  if (net->n_externs == net->cap_externs)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "more than %d data keys are made by layers", CRN_MAX_REGISTERED);
  net->externs[net->n_externs++] = (crn_extern){.key = key, .t = *t, .declared_available = true};
  return CRN_OK;
}

crn_status crn_extern_register(crn_build *b, crn_layer *l) {
  crn_net *net = b->net;
  const char *key = l->common.register_as_extern_data;
  crn_extern *declared = crn_net_extern(net, key);
  if (declared && declared->layer)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'register_as_extern_data': data key '%s' exists already", key);
  if (declared) { /* only declared so far: the layer takes its place */
    declared->t = l->out;
    declared->layer = l;
    return CRN_OK;
  }
  if (net->n_externs == net->cap_externs)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "more than %d layers are registered as data", CRN_MAX_REGISTERED);
  net->externs[net->n_externs++] =
      (crn_extern){.key = key, .t = l->out, .layer = l, .declared_available = true};
  return CRN_OK;
}
