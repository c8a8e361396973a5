/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that draw random numbers: rand_int, random (layers-2.md). The numbers come from the run's own
 * generator; what the original calls the generator's state is kept only so that checkpoints have it.
 */
#include <math.h>
#include <string.h>

#include "layer/shape_list.h"

typedef struct random_cfg {
  const crn_value *shape, *maxval, *minval, *dtype, *sparse_dim, *feature_dim, *seed, *mean, *stddev, *bound,
      *algorithm;
  const char *distribution;
  crn_layer *explicit_state;
  crn_layer_list shape_deps;
  int is_static, auto_update_state, stop_grad;
  double number[5]; /* minval, maxval, mean, stddev, bound */
  crn_layer *layer[5];
} random_cfg;

enum { MINVAL, MAXVAL, MEAN, STDDEV, BOUND, N_ARGS };

#define OFF(f) offsetof(random_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

static crn_status argument_refs(crn_build *b, crn_layer *l, random_cfg *c) {
  static const char *const names[N_ARGS] = {"minval", "maxval", "mean", "stddev", "bound"};
  const crn_value *v[N_ARGS] = {c->minval, c->maxval, c->mean, c->stddev, c->bound};
  for (int i = 0; i < N_ARGS; i++)
    if (v[i]) CRN_TRY(crn_number_or_layer(b, l, v[i], names[i], &c->number[i], &c->layer[i]));
  return CRN_OK;
}

static crn_status random_tmpl(crn_build *b, crn_layer *l, const random_cfg *c, crn_dtype dflt) {
  crn_dtype dtype;
  if (l->n_src) return crn_layer_fail(b, l, CRN_E_CONFIG, "takes no sources ('from')");
  CRN_TRY(crn_option_dtype(b, l, c->dtype, dflt, &dtype));
  l->out = crn_tmpl_scalar(dtype);
  if (c->sparse_dim && c->sparse_dim->kind == CRN_V_DIM) {
    l->out.sparse = true;
    l->out.sparse_dim = crn_dim_of_value(crn_build_dims(b), c->sparse_dim);
  }
  CRN_TRY(crn_shape_list(b, l, c->shape, &l->out));
  const crn_dim *f =
      c->feature_dim && c->feature_dim->kind == CRN_V_DIM ? crn_dim_of_value(crn_build_dims(b), c->feature_dim) : NULL;
  if (!f) return CRN_OK;
  l->out.feature_axis = crn_tmpl_find(&l->out, f);
  l->out.feature_explicit = true;
  return l->out.feature_axis >= 0
             ? CRN_OK
             : crn_layer_fail(b, l, CRN_E_CONFIG, "option 'feature_dim': dim '%s' is not in the shape", f->name);
}

/* An argument's value; layers must be scalars. */
static crn_status argument(crn_exec *x, crn_layer *l, const random_cfg *c, int i, double *out) {
  *out = c->number[i];
  if (!c->layer[i]) return CRN_OK;
  const crn_data *d = crn_value_of(x, l, c->layer[i]);
  if (!d) return crn_exec_run(x)->err->code;
  if (d->t.n) return crn_exec_fail(x, l, "layer '%s' must be a scalar", c->layer[i]->path);
  *out = crn_t_get(d->v, 0);
  return CRN_OK;
}

/* Name of the stream of numbers: the seed option makes it independent of the layer's name. */
static const char *stream(crn_exec *x, crn_layer *l, const random_cfg *c) {
  int64_t seed;
  if (!c->seed || !crn_v_to_int(c->seed, &seed)) return crn_random_name(x, l, "random", false);
  const char *s =
      crn_arena_printf(&crn_exec_run(x)->arena, "seed %lld step %lld", (long long)seed, (long long)crn_exec_step(x, l));
  return s ? s : "random";
}

/* ---- rand_int -------------------------------------------------------------------------------------------------------
 */

static const crn_opt rand_int_opts[] = {
    OPT(shape, CRN_OPT_VALUE, NULL, .doc = "sizes and dims"),
    OPT(maxval, CRN_OPT_VALUE, NULL, .wide = true, .doc = "the numbers are below this"),
    OPT(minval, CRN_OPT_VALUE, "0", .wide = true, .doc = "smallest number"),
    OPT(dtype, CRN_OPT_VALUE, "\"int32\"", .doc = "type"),
    OPT(sparse_dim, CRN_OPT_VALUE, "None", .doc = "dim of the labels that the numbers are"),
    OPT(seed, CRN_OPT_VALUE, "None", .wide = true, .doc = "seed of its own"),
    CRN_OPT_END};

static crn_status rand_int_refs(crn_build *b, crn_layer *l) { return argument_refs(b, l, l->cfg); }

static crn_status rand_int_infer(crn_build *b, crn_layer *l) {
  const random_cfg *c = l->cfg;
  CRN_TRY(random_tmpl(b, l, c, CRN_I32));
  if (!crn_dtype_is_int(l->out.dtype))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dtype' must be an integer type, it is %s",
                          crn_dtype_name(l->out.dtype));
  if (!c->layer[MINVAL] && !c->layer[MAXVAL] && c->number[MAXVAL] <= c->number[MINVAL])
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'maxval' must be above 'minval'");
  return CRN_OK;
}

static crn_status rand_int_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const random_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  double lo, hi;
  int64_t size[CRN_MAX_RANK];
  CRN_TRY(argument(x, l, c, MINVAL, &lo));
  CRN_TRY(argument(x, l, c, MAXVAL, &hi));
  CRN_TRY(crn_shape_sizes(x, l, out, size));
  out->v = crn_random_uniform(r, stream(x, l, c), out->t.dtype, out->t.n, size, lo, hi);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- random ---------------------------------------------------------------------------------------------------------
 */

#define STATE_VAR "random_generator/StateVar"

static const crn_opt random_opts[] = {
    OPT(shape, CRN_OPT_VALUE, NULL, .doc = "sizes and dims"),
    OPT(distribution, CRN_OPT_STR, NULL, .choices = "uniform|normal|truncated_normal", .doc = "distribution"),
    OPT(mean, CRN_OPT_VALUE, "None", .doc = "mean, a number or a layer"),
    OPT(stddev, CRN_OPT_VALUE, "None", .doc = "standard deviation, a number or a layer"),
    OPT(bound, CRN_OPT_VALUE, "None", .doc = "uniform in plus and minus this"),
    OPT(minval, CRN_OPT_VALUE, "None", .wide = true, .doc = "smallest number"),
    OPT(maxval, CRN_OPT_VALUE, "None", .wide = true, .doc = "the numbers are below this"),
    OPT(dtype, CRN_OPT_VALUE, "\"float32\"", .doc = "type"),
    OPT(sparse_dim, CRN_OPT_VALUE, "None", .doc = "dim of the labels that the numbers are"),
    OPT(feature_dim, CRN_OPT_VALUE, "None", .doc = "dim of the shape that is the feature"),
    OPT(seed, CRN_OPT_VALUE, "None", .wide = true, .doc = "seed of its own"),
    OPT(algorithm, CRN_OPT_VALUE, "None", .doc = "generator of the original, without effect"),
    OPT(explicit_state, CRN_OPT_LAYER, "None", .doc = "layer that holds the generator's state"),
    OPT(auto_update_state, CRN_OPT_BOOL, "None", .doc = "advance that state"),
    {.name = "static",
     .type = CRN_OPT_BOOL,
     .offset = OFF(is_static),
     .dflt = "None",
     .doc = "the same numbers in each run"},
    OPT(shape_deps, CRN_OPT_LAYERS, "[]", .doc = "layers that give the sizes of dynamic dims"),
    OPT(stop_grad, CRN_OPT_BOOL, "False", .doc = "no gradient to the arguments"),
    CRN_OPT_END};

static crn_status random_refs(crn_build *b, crn_layer *l) {
  random_cfg *c = l->cfg;
  c->number[STDDEV] = 1;
  return argument_refs(b, l, c);
}

static crn_status random_infer(crn_build *b, crn_layer *l) {
  const random_cfg *c = l->cfg;
  const bool uniform = !strcmp(c->distribution, "uniform"), cut = !strcmp(c->distribution, "truncated_normal");
  const bool mean = !crn_v_is_none(c->mean) || !crn_v_is_none(c->stddev), bound = !crn_v_is_none(c->bound),
             range = !crn_v_is_none(c->minval) || !crn_v_is_none(c->maxval);
  CRN_TRY(random_tmpl(b, l, c, CRN_F32));
  if (c->explicit_state) return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: 'explicit_state'");
  for (int i = 0; i < N_ARGS; i++)
    if (c->layer[i] && c->layer[i]->out_known && c->layer[i]->out.n)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "layer '%s' must be a scalar", c->layer[i]->path);
  if (uniform && mean + bound + range != 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "distribution 'uniform' needs 'maxval', or 'bound', or 'mean' and 'stddev'");
  if (uniform && range && crn_v_is_none(c->maxval))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "distribution 'uniform' needs 'maxval'");
  if (!uniform && (bound || (range && !cut)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "distribution '%s' takes only 'mean' and 'stddev'", c->distribution);
  if (cut && range &&
      (c->layer[MINVAL] || c->layer[MAXVAL] || c->layer[MEAN] || c->layer[STDDEV] ||
       fabs(c->number[MEAN] - 2 * c->number[STDDEV] - c->number[MINVAL]) > 1e-6 ||
       fabs(c->number[MEAN] + 2 * c->number[STDDEV] - c->number[MAXVAL]) > 1e-6))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "distribution 'truncated_normal' is cut at two standard deviations; other 'minval' and "
                          "'maxval' are not possible");
  if (!crn_dtype_is_float(l->out.dtype) && !(uniform && range && crn_dtype_is_int(l->out.dtype)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dtype' %s does not fit the distribution",
                          crn_dtype_name(l->out.dtype));
  return CRN_OK;
}

static crn_status random_params(crn_build *b, crn_layer *l) {
  const random_cfg *c = l->cfg;
  if (c->is_static > 0) return CRN_OK;
  crn_param_spec s = {.name = STATE_VAR,
                      .rank = 1,
                      .shape = {3},
                      .init_default = "0",
                      .dtype = CRN_I64,
                      .not_trainable = true,
                      .non_critical = true};
  return crn_layer_param(b, l, &s);
}

/* Advance the counter, as often as the layer runs. */
static crn_status advance(crn_exec *x, crn_layer *l) {
  crn_run *r = crn_exec_run(x);
  crn_tensor *old = crn_param_get(x, l, STATE_VAR);
  const int64_t three = 3;
  crn_tensor *next = old ? crn_t_copy_in(r, CRN_I64, 1, &three, crn_t_data(old)) : NULL;
  if (!next) return r->err->code;
  crn_t_i64(next)[0]++;
  return crn_exec_assign(x, l, STATE_VAR, next);
}

/* Standard normal numbers inside of two standard deviations: those outside are drawn again. */
static crn_tensor *truncated(crn_run *r, const char *name, int rank, const int64_t *size) {
  crn_tensor *v = crn_random_normal(r, name, rank, size, 0, 1);
  for (int again = 0; v && again < 64; again++) {
    bool outside = false;
    const int64_t n = crn_t_size(v);
    for (int64_t i = 0; i < n && !outside; i++) outside = fabs(crn_t_get(v, i)) > 2;
    if (!outside) return v;
    const char *next = crn_arena_printf(&r->arena, "%s again %d", name, again);
    crn_tensor *fresh = crn_random_normal(r, next ? next : name, rank, size, 0, 1);
    crn_tensor *ok = crn_binary(r, CRN_B_LESS_EQUAL, crn_unary(r, CRN_U_ABS, v), crn_t_scalar(r, r->real, 2));
    v = crn_where(r, ok, v, fresh);
  }
  return v ? crn_clip(r, v, -2, 2) : NULL;
}

static crn_tensor *scalar_of(crn_exec *x, crn_layer *l, const random_cfg *c, int i) {
  crn_run *r = crn_exec_run(x);
  if (!c->layer[i]) return crn_t_scalar(r, r->real, c->number[i]);
  const crn_data *d = crn_value_of(x, l, c->layer[i]);
  crn_tensor *v = d ? d->v : NULL;
  if (v && v->dtype != r->real) v = crn_cast(r, v, r->real);
  return v && c->stop_grad > 0 ? crn_t_stop_gradient(r, v) : v;
}

/* a + b * u with scalars that may be layers, so that their gradients are right. */
static crn_tensor *affine(crn_run *r, crn_tensor *a, crn_tensor *b, crn_tensor *u) {
  return crn_add(r, a, crn_mul(r, b, u));
}

static crn_tensor *draw(crn_exec *x, crn_layer *l, const random_cfg *c, const crn_data *out, const int64_t *size) {
  crn_run *r = crn_exec_run(x);
  const char *name = stream(x, l, c);
  const int n = out->t.n;
  double lo, hi;
  if (!strcmp(c->distribution, "normal"))
    return affine(r, scalar_of(x, l, c, MEAN), scalar_of(x, l, c, STDDEV), crn_random_normal(r, name, n, size, 0, 1));
  if (strcmp(c->distribution, "uniform"))
    return affine(r, scalar_of(x, l, c, MEAN), scalar_of(x, l, c, STDDEV), truncated(r, name, n, size));
  if (crn_dtype_is_int(out->t.dtype)) {
    if (argument(x, l, c, MINVAL, &lo) != CRN_OK || argument(x, l, c, MAXVAL, &hi) != CRN_OK) return NULL;
    return crn_random_uniform(r, name, out->t.dtype, n, size, lo, hi);
  }
  crn_tensor *u = crn_random_uniform(r, name, r->real, n, size, 0, 1);
  if (!crn_v_is_none(c->maxval)) {
    crn_tensor *a = scalar_of(x, l, c, MINVAL);
    return affine(r, a, crn_sub(r, scalar_of(x, l, c, MAXVAL), a), u);
  }
  u = crn_add_scalar(r, crn_scale(r, u, 2), -1); /* [-1, 1) */
  if (!crn_v_is_none(c->bound)) return crn_mul(r, scalar_of(x, l, c, BOUND), u);
  return affine(r, scalar_of(x, l, c, MEAN), crn_scale(r, scalar_of(x, l, c, STDDEV), sqrt(3.0)), u);
}

static crn_status random_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const random_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  int64_t size[CRN_MAX_RANK];
  CRN_TRY(crn_shape_sizes(x, l, out, size));
  const uint64_t step = r->step;
  if (c->is_static > 0) r->step = 0; /* numbers are keyed by the step */
  crn_tensor *v = draw(x, l, c, out, size);
  r->step = step;
  if (v && v->dtype != crn_run_dtype(r, out->t.dtype)) v = crn_cast(r, v, crn_run_dtype(r, out->t.dtype));
  out->v = v;
  if (!v) return r->err->code;
  return c->is_static > 0 ? CRN_OK : advance(x, l);
}

#define ROW(n, d, o, ...)                                                                                              \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(random_cfg), .flags = CRN_L_NO_SOURCES, __VA_ARGS__ }
const crn_layer_desc crn_family_random[] = {
    ROW("rand_int", "Draws integers, all equally likely.", rand_int_opts, .refs = rand_int_refs,
        .infer = rand_int_infer, .forward = rand_int_forward),
    ROW("random", "Draws numbers of a distribution.", random_opts, .refs = random_refs, .infer = random_infer,
        .params = random_params, .forward = random_forward),
    {.name = NULL}};
