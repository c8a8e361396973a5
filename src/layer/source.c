/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that make data themselves: constant, variable, train_flag, global_train_step, range, range_in_axis,
 * range_from_length.
 */
#include <math.h>
#include <string.h>

#include "layer/pieces.h"
#include "layer/shape_list.h"

typedef struct source_cfg {
  const crn_value *value, *shape, *dtype, *sparse_dim, *feature_dim, *init, *axis;
  crn_layer_list shape_deps;
  int with_batch_dim, add_batch_axis, add_time_axis, trainable, saveable, non_critical, sparse;
  const char *param_name;
  crn_layer *init_by_layer;
  const crn_value *limit, *start, *delta, *out_spatial_dim, *keepdims, *unbroadcast;
  int64_t n, first, step; /* range */
  int at;                 /* range_in_axis: axis of the source, -1: see fixed */
  int64_t fixed;
} source_cfg;

#define OFF(f) offsetof(source_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

static crn_status no_sources(crn_build *b, const crn_layer *l) {
  return l->n_src ? crn_layer_fail(b, l, CRN_E_CONFIG, "takes no sources ('from')") : CRN_OK;
}

static crn_status mark_sparse(crn_build *b, const crn_value *v, crn_tmpl *t) {
  if (crn_v_is_none(v) || v->kind != CRN_V_DIM) return CRN_OK;
  t->sparse = true;
  t->sparse_dim = crn_dim_of_value(crn_build_dims(b), v);
  return t->sparse_dim ? CRN_OK : crn_err_memory(crn_build_err(b));
}

static crn_status mark_feature(crn_build *b, crn_layer *l, const crn_value *v, crn_tmpl *t) {
  if (crn_v_is_none(v) || v->kind != CRN_V_DIM) return CRN_OK;
  const crn_dim *d = crn_dim_of_value(crn_build_dims(b), v);
  const int axis = d ? crn_tmpl_find(t, d) : -1;
  if (axis < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'feature_dim': dim '%s' is not in the shape", d ? d->name : "?");
  t->feature_axis = axis;
  t->feature_explicit = true;
  return CRN_OK;
}

/* ---- constant -------------------------------------------------------------------------------------------------------
 */

static const crn_opt constant_opts[] = {
    OPT(value, CRN_OPT_VALUE, "0.0", .wide = true, .doc = "number, bool or array"),
    OPT(shape, CRN_OPT_VALUE, "None", .doc = "sizes and dims to fill with the value"),
    OPT(dtype, CRN_OPT_VALUE, "None", .doc = "type; default that of the value"),
    OPT(with_batch_dim, CRN_OPT_BOOL, "False", .doc = "put a batch axis in front"),
    OPT(sparse_dim, CRN_OPT_VALUE, "None", .doc = "dim of the labels that the values are"),
    OPT(feature_dim, CRN_OPT_VALUE, "None", .doc = "dim of the shape that is the feature"),
    OPT(shape_deps, CRN_OPT_LAYERS, "[]", .doc = "layers that give the sizes of dynamic dims"),
    CRN_OPT_END};

static crn_status array_shape(crn_build *b, crn_layer *l, const source_cfg *c, crn_tmpl *t) {
  const crn_varray *a = &c->value->u.array;
  if (crn_v_is_none(c->shape)) {
    if (a->rank > CRN_MAX_RANK)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'value': more than %d axes", CRN_MAX_RANK);
    for (int i = 0; i < a->rank; i++) {
      const char *slot = crn_arena_printf(crn_build_arena(b), "static:%d", i);
      const crn_dim *d =
          slot ? crn_layer_dim(b, l, slot, i + 1 == a->rank && !t->sparse ? CRN_DIM_FEATURE : CRN_DIM_SPATIAL,
                               a->shape[i])
               : NULL;
      if (!d) return crn_err_memory(crn_build_err(b));
      t->dims[t->n++] = d;
    }
    crn_tmpl_update_roles(t);
    return CRN_OK;
  }
  CRN_TRY(crn_shape_list(b, l, c->shape, t));
  bool same = t->n == a->rank;
  for (int i = 0; same && i < t->n; i++) same = t->dims[i]->size == a->shape[i];
  return same ? CRN_OK : crn_layer_fail(b, l, CRN_E_CONFIG, "option 'shape' is not the shape of the array in 'value'");
}

static crn_status constant_infer(crn_build *b, crn_layer *l) {
  const source_cfg *c = l->cfg;
  const crn_vkind k = c->value->kind;
  const bool array = k == CRN_V_ARRAY;
  crn_dtype dtype = k == CRN_V_BOOL ? CRN_BOOL : k == CRN_V_INT ? CRN_I32 : CRN_F32;
  CRN_TRY(no_sources(b, l));
  if (!array && k != CRN_V_BOOL && k != CRN_V_INT && k != CRN_V_FLOAT)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'value': expected a number, a bool or an array, got %s",
                          crn_v_kind_name(c->value));
  if (array && c->value->u.array.dtype && !crn_dtype_from_name(c->value->u.array.dtype, &dtype))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'value': arrays of type '%s' are not known",
                          c->value->u.array.dtype);
  CRN_TRY(crn_option_dtype(b, l, c->dtype, dtype, &dtype));
  if (dtype == CRN_STRING || dtype == CRN_C64)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: constants of type %s", crn_dtype_name(dtype));
  l->out = crn_tmpl_scalar(dtype);
  CRN_TRY(mark_sparse(b, c->sparse_dim, &l->out));
  if (array)
    CRN_TRY(array_shape(b, l, c, &l->out));
  else
    CRN_TRY(crn_shape_list(b, l, c->shape, &l->out));
  if (c->with_batch_dim > 0) CRN_TRY(crn_tmpl_insert(&l->out, 0, crn_build_dims(b)->batch, crn_build_err(b)));
  return mark_feature(b, l, c->feature_dim, &l->out);
}

static crn_status constant_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const source_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_dtype dtype = crn_run_dtype(r, out->t.dtype);
  int64_t size[CRN_MAX_RANK], one[CRN_MAX_RANK];
  double value = 0;
  CRN_TRY(crn_shape_sizes(x, l, out, size));
  if (c->value->kind != CRN_V_ARRAY) {
    if (c->value->kind == CRN_V_BOOL)
      value = c->value->u.b;
    else
      (void)crn_v_to_float(c->value, &value);
    if (dtype == CRN_BOOL) value = value != 0;
    out->v = crn_t_full(r, dtype, out->t.n, size, value);
    return out->v ? CRN_OK : r->err->code;
  }
  const crn_varray *a = &c->value->u.array;
  crn_tensor *v = crn_t_copy_in(r, CRN_F64, a->rank, a->shape, a->data);
  if (v && dtype != CRN_F64) v = crn_cast(r, v, dtype);
  if (c->with_batch_dim > 0) {
    one[0] = 1;
    for (int i = 1; i < out->t.n; i++) one[i] = size[i];
    v = crn_broadcast_to(r, crn_t_reshape(r, v, out->t.n, one), out->t.n, size);
  }
  out->v = v;
  return v ? CRN_OK : r->err->code;
}

/* ---- variable -------------------------------------------------------------------------------------------------------
 */

static const crn_opt variable_opts[] = {
    OPT(shape, CRN_OPT_VALUE, NULL, .doc = "sizes or fixed dims"),
    OPT(dtype, CRN_OPT_VALUE, "\"float32\"", .doc = "type"),
    OPT(add_batch_axis, CRN_OPT_BOOL, "False", .doc = "repeat over the batch"),
    OPT(add_time_axis, CRN_OPT_BOOL, "False", .doc = "add an axis of size 1 before the shape"),
    OPT(saveable, CRN_OPT_BOOL, "True", .doc = "store in checkpoints"),
    {.name = "non_critical_for_restore",
     .type = CRN_OPT_BOOL,
     .offset = OFF(non_critical),
     .dflt = "False",
     .doc = "may be missing in a checkpoint"},
    OPT(init, CRN_OPT_VALUE, "None", .doc = "initialiser; default 0"),
    OPT(init_by_layer, CRN_OPT_LAYER, "None", .doc = "layer that gives the initial value"),
    OPT(param_name, CRN_OPT_STR, "None", .doc = "name of the parameter; default that of the layer"),
    CRN_OPT_END};

static crn_status variable_infer(crn_build *b, crn_layer *l) {
  const source_cfg *c = l->cfg;
  crn_dtype dtype;
  CRN_TRY(no_sources(b, l));
  CRN_TRY(crn_option_dtype(b, l, c->dtype, CRN_F32, &dtype));
  if (c->init_by_layer) return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: 'init_by_layer'");
  l->out = crn_tmpl_scalar(dtype);
  CRN_TRY(crn_shape_list(b, l, c->shape, &l->out));
  for (int i = 0; i < l->out.n; i++)
    if (l->out.dims[i]->size <= 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'shape': all sizes must be fixed and not 0");
  int at = 0;
  if (c->add_batch_axis > 0) CRN_TRY(crn_tmpl_insert(&l->out, at++, crn_build_dims(b)->batch, crn_build_err(b)));
  if (c->add_time_axis <= 0) return CRN_OK;
  const crn_dim *d = crn_layer_dim(b, l, "time", CRN_DIM_SPATIAL, 1);
  return d ? crn_tmpl_insert(&l->out, at, d, crn_build_err(b)) : crn_err_memory(crn_build_err(b));
}

static int variable_first(const source_cfg *c) { return (c->add_batch_axis > 0) + (c->add_time_axis > 0); }

static const char *variable_name(const crn_layer *l) {
  const source_cfg *c = l->cfg;
  return c->param_name ? c->param_name : l->name;
}

static crn_status variable_params(crn_build *b, crn_layer *l) {
  const source_cfg *c = l->cfg;
  const int first = variable_first(c);
  crn_param_spec s = {.name = variable_name(l),
                      .rank = l->out.n - first,
                      .init = crn_v_is_none(c->init) ? NULL : c->init,
                      .init_default = "0",
                      .dtype = l->out.dtype,
                      .not_saveable = c->saveable <= 0,
                      .non_critical = c->non_critical > 0};
  for (int i = first; i < l->out.n; i++) s.shape[i - first] = l->out.dims[i]->size;
  return crn_layer_param(b, l, &s);
}

static crn_status variable_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const source_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *v = crn_param_get(x, l, variable_name(l));
  int64_t size[CRN_MAX_RANK], one[CRN_MAX_RANK];
  CRN_TRY(crn_shape_sizes(x, l, out, size));
  for (int i = 0; i < out->t.n; i++) one[i] = i < variable_first(c) ? 1 : size[i];
  v = crn_t_reshape(r, v, out->t.n, one);
  out->v = c->add_batch_axis > 0 ? crn_broadcast_to(r, v, out->t.n, size) : v;
  return out->v ? CRN_OK : r->err->code;
}

/* ---- train_flag, global_train_step ----------------------------------------------------------------------------------
 */

static const crn_opt no_opts[] = {CRN_OPT_END};

static crn_status flag_infer(crn_build *b, crn_layer *l) {
  l->out = crn_tmpl_scalar(CRN_BOOL);
  return no_sources(b, l);
}

static crn_status flag_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  (void)l;
  out->v = crn_t_full(crn_exec_run(x), CRN_BOOL, 0, NULL, crn_exec_train(x));
  return out->v ? CRN_OK : crn_exec_run(x)->err->code;
}

static crn_status step_infer(crn_build *b, crn_layer *l) {
  l->out = crn_tmpl_scalar(CRN_I64);
  return no_sources(b, l);
}

static crn_status step_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const int64_t step = crn_exec_global_step(x);
  (void)l;
  out->v = crn_t_copy_in(crn_exec_run(x), CRN_I64, 0, NULL, &step);
  return out->v ? CRN_OK : crn_exec_run(x)->err->code;
}

/* ---- ranges ---------------------------------------------------------------------------------------------------------
 */

static const crn_opt range_opts[] = {OPT(limit, CRN_OPT_VALUE, NULL, .doc = "the numbers are below this"),
                                     OPT(start, CRN_OPT_VALUE, "0", .doc = "first number"),
                                     OPT(delta, CRN_OPT_VALUE, "1", .doc = "step"),
                                     OPT(dtype, CRN_OPT_VALUE, "None", .doc = "type; default int32"),
                                     OPT(sparse, CRN_OPT_BOOL, "False", .doc = "mark as labels"),
                                     OPT(out_spatial_dim, CRN_OPT_VALUE, "None", .doc = "dim of the result"),
                                     CRN_OPT_END};

static const crn_dim *own_dim(crn_build *b, crn_layer *l, const crn_value *given, const char *slot, int64_t size) {
  const crn_dim *d = given && given->kind == CRN_V_DIM ? crn_dim_of_value(crn_build_dims(b), given) : NULL;
  return d && d->size == size ? d : crn_layer_dim(b, l, slot, CRN_DIM_SPATIAL, size);
}

static crn_status range_infer(crn_build *b, crn_layer *l) {
  source_cfg *c = l->cfg;
  crn_dtype dtype;
  int64_t limit;
  CRN_TRY(no_sources(b, l));
  CRN_TRY(crn_option_dtype(b, l, c->dtype, CRN_I32, &dtype));
  if (!crn_v_to_int(c->limit, &limit) || !crn_v_to_int(c->start, &c->first) || !crn_v_to_int(c->delta, &c->step) ||
      c->step == 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "options 'limit', 'start' and 'delta' must be integers, 'delta' not 0");
  const int64_t way = limit - c->first;
  c->n = c->step > 0 ? (way + c->step - 1) / c->step : (way + c->step + 1) / c->step;
  if (c->n < 0 || (way > 0) != (c->step > 0)) c->n = 0;
  l->out = crn_tmpl_scalar(dtype);
  l->out.sparse = c->sparse > 0;
  const crn_dim *d = own_dim(b, l, c->out_spatial_dim, "range", c->n);
  return d ? crn_tmpl_insert(&l->out, 0, d, crn_build_err(b)) : crn_err_memory(crn_build_err(b));
}

/* first, first + step, … of the wanted type */
static crn_tensor *numbers(crn_run *r, crn_dtype dtype, int64_t first, int64_t step, int64_t n) {
  crn_tensor *v = crn_range(r, CRN_I64, 0, n);
  if (step != 1) v = crn_scale(r, v, (double)step);
  if (first) v = crn_add_scalar(r, v, (double)first);
  return dtype == CRN_I64 ? v : crn_cast(r, v, crn_run_dtype(r, dtype));
}

static crn_status range_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const source_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  out->v = numbers(r, out->t.dtype, c->first, c->step, c->n);
  return out->v ? CRN_OK : r->err->code;
}

static const crn_opt in_axis_opts[] = {OPT(axis, CRN_OPT_VALUE, NULL, .doc = "axis, dim, or \"sparse_dim\""),
                                       OPT(dtype, CRN_OPT_VALUE, "\"int32\"", .doc = "type"),
                                       OPT(sparse, CRN_OPT_BOOL, "False", .doc = "mark as labels of the axis' dim"),
                                       OPT(keepdims, CRN_OPT_VALUE, "False", .doc = "must be False"),
                                       OPT(unbroadcast, CRN_OPT_VALUE, "False", .doc = "must be False"),
                                       CRN_OPT_END};

static crn_status in_axis_infer(crn_build *b, crn_layer *l) {
  source_cfg *c = l->cfg;
  crn_dtype dtype;
  const crn_dim *d = NULL;
  if (crn_v_truth(c->keepdims) || crn_v_truth(c->unbroadcast))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "'keepdims' and 'unbroadcast' must be False");
  CRN_TRY(crn_option_dtype(b, l, c->dtype, CRN_I32, &dtype));
  const crn_tmpl *t = crn_source_tmpl(l, 0);
  c->at = -1;
  if (c->axis->kind == CRN_V_DIM && l->n_src == 0) {
    d = crn_dim_of_value(crn_build_dims(b), c->axis);
    if (d && d->size < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "a source is needed for the lengths of dim '%s'", d->name);
  } else {
    if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
    l->out_known = t != NULL;
    if (!t) return CRN_OK;
    if (crn_v_is_str(c->axis) && !strcmp(crn_v_cstr(c->axis), "sparse_dim")) {
      if (!t->sparse || !t->sparse_dim)
        return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': the source is not sparse");
      d = t->sparse_dim;
    } else {
      CRN_TRY(crn_layer_axis(b, l, t, c->axis, "axis", &c->at));
      d = t->dims[c->at];
    }
  }
  if (!d) return crn_err_memory(crn_build_err(b));
  c->fixed = d->size;
  l->out = crn_tmpl_scalar(dtype);
  l->out.sparse = c->sparse > 0;
  l->out.sparse_dim = l->out.sparse ? d : NULL;
  return crn_tmpl_insert(&l->out, 0, d, crn_build_err(b));
}

static crn_status in_axis_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const source_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  int64_t n = c->fixed;
  int64_t first = 0;
  if (c->at >= 0) {
    const crn_data *d = crn_source(x, l, 0);
    if (!d) return r->err->code;
    n = d->v->shape[c->at];
    out->len[0] = d->len[c->at];
    if (crn_streams_along(l, d->t.dims[c->at])) first = crn_stream_before(x, l);
    crn_stream_pass(x, l, n);
  }
  out->v = numbers(r, out->t.dtype, first, 1, n);
  return out->v ? CRN_OK : r->err->code;
}

static const crn_opt from_length_opts[] = {
    OPT(dtype, CRN_OPT_VALUE, "\"int32\"", .doc = "type"), OPT(sparse, CRN_OPT_BOOL, "False", .doc = "mark as labels"),
    OPT(out_spatial_dim, CRN_OPT_VALUE, "None", .doc = "dim of the result"), CRN_OPT_END};

static crn_status from_length_infer(crn_build *b, crn_layer *l) {
  source_cfg *c = l->cfg;
  crn_dtype dtype;
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  CRN_TRY(crn_option_dtype(b, l, c->dtype, CRN_I32, &dtype));
  const crn_tmpl *t = crn_source_tmpl(l, 0);
  l->out_known = t != NULL;
  if (!t) return CRN_OK;
  if (!crn_dtype_is_int(t->dtype))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must hold integers, it is %s", crn_dtype_name(t->dtype));
  l->out = crn_tmpl_scalar(dtype);
  l->out.sparse = c->sparse > 0;
  const crn_dim *d = own_dim(b, l, c->out_spatial_dim, "range_from_length", -1);
  return d ? crn_tmpl_insert(&l->out, 0, d, crn_build_err(b)) : crn_err_memory(crn_build_err(b));
}

static crn_status from_length_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_source(x, l, 0);
  crn_data *len = d ? crn_data_copy(r, d) : NULL;
  if (!len) return r->err->code;
  if (len->v->dtype != CRN_I32) len->v = crn_cast(r, len->v, CRN_I32);
  if (!len->v) return r->err->code;
  int64_t max = 0;
  for (int64_t i = 0; i < crn_t_size(len->v); i++)
    if (crn_t_i32(len->v)[i] > max) max = crn_t_i32(len->v)[i];
  len->t.dtype = CRN_I32;
  out->len[0] = len;
  out->v = numbers(r, out->t.dtype, 0, 1, max);
  return out->v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, f, ...)                                                                                           \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(source_cfg), .flags = f, __VA_ARGS__ }
const crn_layer_desc crn_family_source[] = {
    ROW("constant", "Gives a constant.", constant_opts, CRN_L_NO_SOURCES | CRN_L_STREAMS, .infer = constant_infer,
        .forward = constant_forward),
    ROW("variable", "Gives a parameter.", variable_opts, CRN_L_NO_SOURCES | CRN_L_STREAMS, .infer = variable_infer,
        .params = variable_params, .forward = variable_forward),
    ROW("train_flag", "Tells whether this is training.", no_opts, CRN_L_NO_SOURCES | CRN_L_STREAMS, .infer = flag_infer,
        .forward = flag_forward),
    ROW("global_train_step", "Gives the number of optimiser steps so far.", no_opts, CRN_L_NO_SOURCES | CRN_L_STREAMS,
        .infer = step_infer, .forward = step_forward),
    ROW("range", "Counts from a number up to a limit.", range_opts, CRN_L_NO_SOURCES | CRN_L_STREAMS,
        .infer = range_infer, .forward = range_forward),
    ROW("range_in_axis", "Counts the positions of an axis.", in_axis_opts, CRN_L_STREAMS, .infer = in_axis_infer,
        .forward = in_axis_forward),
    ROW("range_from_length", "Counts up to given lengths.", from_length_opts, 0, .infer = from_length_infer,
        .forward = from_length_forward),
    {.name = NULL}};
