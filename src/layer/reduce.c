/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that reduce axes: reduce, reduce_out, dot, length. Padded frames don't count (layers-2.md, "Masking").
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layer/pieces.h"

/* ---- reduce --------------------------------------------------------------------------------------------------------- */

typedef struct reduce_cfg {
  const char *mode;
  const crn_value *axes, *axis;
  int keep_dims, use_time_mask;
  const crn_value *enforce_batch;
  int at[CRN_MAX_RANK], n_at;
  bool arg;
  crn_reduce_kind kind;
  bool arg_min;
} reduce_cfg;

#define OFF(f) offsetof(reduce_cfg, f)
static const crn_opt reduce_opts[] = {
    {.name = "mode", .type = CRN_OPT_STR, .offset = OFF(mode), .doc = "sum, max, min, mean, logsumexp, argmax, argmin, any, all"},
    {.name = "axes", .type = CRN_OPT_VALUE, .offset = OFF(axes), .dflt = "None", .doc = "axes to reduce"},
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .dflt = "None", .doc = "axis to reduce"},
    {.name = "keep_dims", .type = CRN_OPT_BOOL, .offset = OFF(keep_dims), .dflt = "False", .doc = "keep the axes with size 1"},
    {.name = "enforce_batch_dim_axis", .type = CRN_OPT_VALUE, .offset = OFF(enforce_batch), .dflt = "None", .doc = "move the batch axis first"},
    {.name = "use_time_mask", .type = CRN_OPT_BOOL, .offset = OFF(use_time_mask), .dflt = "None", .doc = "mask padded frames; default: if a reduced axis has lengths"},
    CRN_OPT_END};

static bool reduce_mode(reduce_cfg *c) {
  static const struct {
    const char *name;
    crn_reduce_kind kind;
    bool arg, min;
  } modes[] = {{"sum", CRN_R_SUM, false, false}, {"max", CRN_R_MAX, false, false}, {"min", CRN_R_MIN, false, false}, {"mean", CRN_R_MEAN, false, false}, {"avg", CRN_R_MEAN, false, false}, {"logsumexp", CRN_R_LOGSUMEXP, false, false}, {"any", CRN_R_ANY, false, false}, {"all", CRN_R_ALL, false, false}, {"argmax", CRN_R_MAX, true, false}, {"argmin", CRN_R_MIN, true, true}};
  char lower[32] = {0};
  for (size_t i = 0; i < 31 && c->mode[i]; i++) lower[i] = (char)(c->mode[i] >= 'A' && c->mode[i] <= 'Z' ? c->mode[i] + 32 : c->mode[i]);
  for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
    if (!strcmp(lower, modes[i].name)) {
      c->kind = modes[i].kind;
      c->arg = modes[i].arg;
      c->arg_min = modes[i].min;
      return true;
    }
  return false;
}

static bool is_integer_axis(const crn_value *v) {
  if (v && v->kind == CRN_V_INT) return true;
  for (size_t i = 0; crn_v_is_seq(v) && i < crn_v_len(v); i++)
    if (crn_v_at(v, i)->kind == CRN_V_INT) return true;
  return false;
}

static const crn_value *reduce_axes(const reduce_cfg *c) { return crn_v_is_none(c->axes) ? c->axis : c->axes; }

static bool batch_first(const reduce_cfg *c) {
  return !crn_v_is_none(c->enforce_batch) || is_integer_axis(reduce_axes(c));
}

static crn_status reduce_infer(crn_build *b, crn_layer *l) {
  reduce_cfg *c = l->cfg;
  bool known;
  if (!reduce_mode(c)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'mode': unknown mode '%s'; there are sum, max, min, mean, logsumexp, argmax, argmin, any, all", c->mode);
  if (crn_v_is_none(c->axes) == crn_v_is_none(c->axis)) return crn_layer_fail(b, l, CRN_E_CONFIG, "give one of 'axis' and 'axes'");
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source is sparse");
  if (batch_first(c)) crn_tmpl_to_batch_major(&l->out, NULL);
  CRN_TRY(crn_layer_axes(b, l, &l->out, reduce_axes(c), "axis", c->at, &c->n_at));
  crn_takes_whole(l, &l->out, c->at, c->n_at);
  bool has_batch = false, has_time = false;
  for (int i = 0; i < c->n_at; i++) {
    has_batch |= l->out.dims[c->at[i]]->kind == CRN_DIM_BATCH;
    has_time |= crn_dim_is_dynamic(l->out.dims[c->at[i]]);
  }
  if (c->arg && c->n_at != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "mode '%s' needs exactly one axis", c->mode);
  if (has_batch && has_time && c->keep_dims > 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "batch and time together can't be kept as axes");
  const crn_dim *arg_dim = c->arg ? l->out.dims[c->at[0]] : NULL;
  if (c->keep_dims > 0) {
    for (int i = 0; i < c->n_at; i++) {
      const crn_dim *old = l->out.dims[c->at[i]];
      char slot[32];
      (void)snprintf(slot, sizeof(slot), "keep:%d", c->at[i]);
      const crn_dim *d = crn_layer_dim(b, l, slot, old->kind == CRN_DIM_BATCH ? CRN_DIM_SPATIAL : old->kind, 1);
      if (!d) return CRN_E_MEMORY;
      const int ta = l->out.time_axis, fa = l->out.feature_axis;
      l->out.dims[c->at[i]] = d;
      l->out.time_axis = ta;
      l->out.feature_axis = fa;
    }
  } else {
    bool gone[CRN_MAX_RANK] = {false};
    for (int i = 0; i < c->n_at; i++) gone[c->at[i]] = true;
    for (int i = l->out.n; i-- > 0;)
      if (gone[i]) crn_tmpl_remove(&l->out, i);
  }
  if (c->arg) {
    l->out.dtype = CRN_I32;
    l->out.sparse = true;
    l->out.sparse_dim = arg_dim;
    l->out.feature_explicit = false;
    crn_tmpl_update_roles(&l->out);
  }
  return CRN_OK;
}

static double neutral(const reduce_cfg *c) {
  if (c->kind == CRN_R_MAX || c->kind == CRN_R_LOGSUMEXP) return (double)-INFINITY;
  if (c->kind == CRN_R_MIN) return (double)INFINITY;
  return c->kind == CRN_R_ALL ? 1 : 0;
}

static double neutral_of(const reduce_cfg *c, crn_dtype t) {
  const double v = neutral(c);
  if (crn_dtype_is_float(t)) return isinf(v) ? (v > 0 ? 3.0e38 : -3.0e38) : v;
  if (isinf(v)) return v > 0 ? (t == CRN_I64 ? 9e18 : 2147483647.0) : (t == CRN_I64 ? -9e18 : -2147483648.0);
  return v;
}

/* Mask over the reduced axes that have lengths, or NULL. */
static crn_tensor *reduce_mask(crn_exec *x, const reduce_cfg *c, const crn_data *d) {
  crn_run *r = crn_exec_run(x);
  crn_tensor *m = NULL;
  if (c->use_time_mask == 0) return NULL;
  for (int i = 0; i < c->n_at; i++) {
    crn_tensor *one = crn_data_mask(r, d, c->at[i]);
    if (one) m = m ? crn_binary(r, CRN_B_LOGICAL_AND, m, one) : one;
  }
  return m;
}

static crn_tensor *masked_mean(crn_run *r, crn_tensor *v, crn_tensor *mask, unsigned axes, bool keep) {
  crn_tensor *sum = crn_reduce(r, CRN_R_SUM, v, axes, keep);
  crn_tensor *full = crn_broadcast_to(r, mask, v->rank, v->shape);
  crn_tensor *count = crn_reduce(r, CRN_R_SUM, crn_cast(r, full, v->dtype), axes, keep);
  if (!count) return NULL;
  return crn_div(r, sum, crn_binary(r, CRN_B_MAXIMUM, count, crn_t_scalar(r, v->dtype, 1)));
}

static crn_status reduce_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const reduce_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (d && batch_first(c)) d = crn_data_batch_major(r, d);
  if (!d) return r->err->code;
  unsigned axes = 0;
  for (int i = 0; i < c->n_at; i++) axes |= 1u << c->at[i];
  crn_tensor *mask = reduce_mask(x, c, d), *v = d->v;
  if (crn_run_failed(r)) return r->err->code;
  if (mask) v = crn_mask_fill(r, v, mask, neutral_of(c, v->dtype));
  if (c->arg) {
    out->v = c->arg_min ? crn_argmin(r, v, c->at[0], CRN_I32) : crn_argmax(r, v, c->at[0], CRN_I32);
    if (c->keep_dims > 0) out->v = crn_expand_dims(r, out->v, c->at[0]);
  } else if (mask && c->kind == CRN_R_MEAN) {
    out->v = masked_mean(r, v, mask, axes, c->keep_dims > 0);
  } else {
    out->v = crn_reduce(r, c->kind, v, axes, c->keep_dims > 0);
  }
  for (int i = 0, o = 0; i < d->t.n; i++) {
    if (axes >> i & 1u) o += c->keep_dims > 0;
    else out->len[o++] = d->len[i];
  }
  return out->v ? CRN_OK : r->err->code;
}

/* ---- reduce_out (maxout) -------------------------------------------------------------------------------------------- */

typedef struct reduce_out_cfg {
  const char *mode;
  int64_t num_pieces;
} reduce_out_cfg;

static const crn_opt reduce_out_opts[] = {
    {.name = "mode", .type = CRN_OPT_STR, .offset = offsetof(reduce_out_cfg, mode), .choices = "max|sum|mean|avg", .doc = "how a group is reduced"},
    {.name = "num_pieces", .type = CRN_OPT_INT, .offset = offsetof(reduce_out_cfg, num_pieces), .min = 1, .max = 1e9, .doc = "neighbours in a group"},
    CRN_OPT_END};

static crn_status reduce_out_infer(crn_build *b, crn_layer *l) {
  const reduce_out_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  const int f = l->out.feature_axis;
  if (l->out.sparse || f < 0 || f != l->out.n - 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be dense with the feature axis last");
  const int64_t dim = l->out.dims[f]->size;
  if (dim < 0 || dim % c->num_pieces != 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "feature size %lld is no multiple of num_pieces %lld", (long long)dim, (long long)c->num_pieces);
  l->out.dims[f] = l->common.out_dim ? crn_dim_as_kind(crn_build_dims(b), l->common.out_dim, CRN_DIM_FEATURE)
                                     : crn_layer_dim(b, l, "reduce_out", CRN_DIM_FEATURE, dim / c->num_pieces);
  return l->out.dims[f] ? CRN_OK : CRN_E_MEMORY;
}

static crn_status reduce_out_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const reduce_out_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (!d) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  const int n = d->v->rank;
  if (n >= CRN_MAX_RANK) return crn_exec_fail(x, l, "too many axes");
  memcpy(shape, d->v->shape, sizeof(shape));
  shape[n - 1] = d->v->shape[n - 1] / c->num_pieces;
  shape[n] = c->num_pieces;
  const crn_reduce_kind kind = !strcmp(c->mode, "max") ? CRN_R_MAX : !strcmp(c->mode, "sum") ? CRN_R_SUM : CRN_R_MEAN;
  out->v = crn_reduce(r, kind, crn_t_reshape(r, d->v, n + 1, shape), 1u << n, false);
  for (int i = 0; i < d->t.n; i++) out->len[i] = d->len[i];
  return out->v ? CRN_OK : r->err->code;
}

/* ---- dot ------------------------------------------------------------------------------------------------------------ */

typedef struct dot_cfg {
  const crn_value *red1, *red2, *reduce, *var1, *var2, *add_var2, *debug;
  int use_mask;
  int shared[2][CRN_MAX_RANK], red[2][CRN_MAX_RANK], var[2][CRN_MAX_RANK], n_shared, n_red, n_var[2];
  bool append;
} dot_cfg;

#define DOFF(f) offsetof(dot_cfg, f)
static const crn_opt dot_opts[] = {
    {.name = "red1", .type = CRN_OPT_VALUE, .offset = DOFF(red1), .dflt = "None", .doc = "axes of the first source to sum over"},
    {.name = "red2", .type = CRN_OPT_VALUE, .offset = DOFF(red2), .dflt = "None", .doc = "axes of the second source to sum over"},
    {.name = "reduce", .type = CRN_OPT_VALUE, .offset = DOFF(reduce), .dflt = "None", .doc = "axes of both to sum over"},
    {.name = "var1", .type = CRN_OPT_VALUE, .offset = DOFF(var1), .dflt = "None", .doc = "axes that only the first source has"},
    {.name = "var2", .type = CRN_OPT_VALUE, .offset = DOFF(var2), .dflt = "None", .doc = "axes that only the second source has"},
    {.name = "add_var2_if_empty", .type = CRN_OPT_VALUE, .offset = DOFF(add_var2), .dflt = "None", .doc = "append an axis of size 1 when there is no var2"},
    {.name = "use_mask", .type = CRN_OPT_BOOL, .offset = DOFF(use_mask), .dflt = "True", .doc = "padded positions of reduced axes count as 0"},
    {.name = "debug", .type = CRN_OPT_VALUE, .offset = DOFF(debug), .dflt = "False", .doc = "no effect on values"},
    CRN_OPT_END};

static bool is_auto(const crn_value *v) { return crn_v_is_str(v) && !strcmp(crn_v_cstr(v), "auto"); }

/* Axes named by an option, with the old defaults. given: the option was in the dict. */
static crn_status dot_axes(crn_build *b, crn_layer *l, const crn_tmpl *t, const crn_value *v, const char *name, int64_t dflt, int *axes, int *n) {
  crn_value *d = NULL;
  int version = crn_build_version(b);
  if (!crn_v_get(l->dict, name)) {
    if (!(d = crn_v_int(crn_build_arena(b), dflt))) return CRN_E_MEMORY;
    v = d;
  } else if (version >= 3 && is_integer_axis(v)) {
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': positions are not allowed from behavior_version 3 on", name);
  }
  return crn_layer_axes(b, l, t, v, name, axes, n);
}

static crn_status dot_pair_rest(crn_build *b, crn_layer *l, dot_cfg *c, const crn_tmpl *const t[2], bool automatic) {
  bool taken[2][CRN_MAX_RANK] = {{false}};
  const int version = crn_build_version(b);
  for (int s = 0; s < 2; s++) {
    for (int i = 0; i < c->n_red; i++) taken[s][c->red[s][i]] = true;
    for (int i = 0; i < c->n_var[s]; i++) {
      if (taken[s][c->var[s][i]]) return crn_layer_fail(b, l, CRN_E_CONFIG, "an axis of source %d is in red and var", s + 1);
      taken[s][c->var[s][i]] = true;
    }
  }
  c->n_shared = 0;
  for (int quality = 0; quality < 3; quality++) /* same dim, then same fixed size, then anything that matches */
    for (int i = 0; i < t[0]->n; i++) {
      if (taken[0][i]) continue;
      for (int k = 0; k < t[1]->n; k++) {
        if (taken[1][k]) continue;
        const crn_dim *a = t[0]->dims[i], *d = t[1]->dims[k];
        const bool same = crn_dim_same(a, d) || (a->kind == CRN_DIM_BATCH && d->kind == CRN_DIM_BATCH);
        const bool size = a->size >= 0 && a->size == d->size && a->kind != CRN_DIM_BATCH && d->kind != CRN_DIM_BATCH && !(automatic && version >= 14);
        const bool any = !automatic && a->kind != CRN_DIM_BATCH && d->kind != CRN_DIM_BATCH && (a->size < 0) == (d->size < 0) && a->size < 0;
        if (!(same || (quality == 1 && size) || (quality == 2 && any))) continue;
        taken[0][i] = taken[1][k] = true;
        c->shared[0][c->n_shared] = i;
        c->shared[1][c->n_shared++] = k;
        break;
      }
    }
  for (int i = 1; i < c->n_shared; i++) /* in the order of source 1 */
    for (int k = i; k > 0 && c->shared[0][k] < c->shared[0][k - 1]; k--)
      for (int s = 0; s < 2; s++) {
        const int tmp = c->shared[s][k];
        c->shared[s][k] = c->shared[s][k - 1];
        c->shared[s][k - 1] = tmp;
      }
  for (int s = 0; s < 2; s++)
    for (int i = 0; i < t[s]->n; i++) {
      if (taken[s][i]) continue;
      const crn_dim *loop = crn_loop_dim(l);
      if (automatic || (loop && !crn_layer_in_loop(l) && crn_dim_same(t[s]->dims[i], loop)) || t[s]->dims[i]->kind == CRN_DIM_BATCH) {
        if (automatic) c->var[s][c->n_var[s]++] = i;
        else { /* the loop's axis (or batch) of one source only goes first */
          for (int k = c->n_var[s]; k > 0; k--) c->var[s][k] = c->var[s][k - 1];
          c->var[s][0] = i;
          c->n_var[s]++;
        }
        continue;
      }
      crn_str a = {0};
      crn_tmpl_describe(t[0], &a);
      crn_str_add(&a, " and ");
      crn_tmpl_describe(t[1], &a);
      crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "axis %d of source %d is in none of red, var and finds no partner: %s", i, s + 1, crn_str_get(&a));
      crn_str_free(&a);
      return st;
    }
  return CRN_OK;
}

static crn_status dot_infer(crn_build *b, crn_layer *l) {
  dot_cfg *c = l->cfg;
  if (l->n_src != 2) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly two sources, got %d", l->n_src);
  const crn_tmpl *t[2] = {crn_source_tmpl(l, 0), crn_source_tmpl(l, 1)};
  l->out_known = t[0] && t[1];
  if (!l->out_known) return CRN_OK;
  const int version = crn_build_version(b);
  const bool both_reduce = !crn_v_is_none(c->reduce);
  int n2;
  if (both_reduce) {
    CRN_TRY(crn_layer_axes(b, l, t[0], c->reduce, "reduce", c->red[0], &c->n_red));
    CRN_TRY(crn_layer_axes(b, l, t[1], c->reduce, "reduce", c->red[1], &n2));
  } else {
    if (version >= 3 && (!crn_v_get(l->dict, "red1") || !crn_v_get(l->dict, "red2")))
      return crn_layer_fail(b, l, CRN_E_CONFIG, "give 'reduce', or 'red1' and 'red2' (no defaults from behavior_version 3 on)");
    CRN_TRY(dot_axes(b, l, t[0], c->red1, "red1", -1, c->red[0], &c->n_red));
    CRN_TRY(dot_axes(b, l, t[1], c->red2, "red2", -2, c->red[1], &n2));
  }
  crn_takes_whole(l, t[0], c->red[0], c->n_red);
  if (l->causal) crn_takes_whole(l, t[1], c->red[1], n2);
  if (c->n_red != n2) return crn_layer_fail(b, l, CRN_E_CONFIG, "%d axes of source 1 are reduced, but %d of source 2", c->n_red, n2);
  const bool absent = !crn_v_get(l->dict, "var1") && !crn_v_get(l->dict, "var2") && version >= 3;
  const bool automatic = absent || (is_auto(c->var1) && is_auto(c->var2));
  c->n_var[0] = c->n_var[1] = 0;
  if (!automatic) {
    CRN_TRY(dot_axes(b, l, t[0], c->var1, "var1", -2, c->var[0], &c->n_var[0]));
    CRN_TRY(dot_axes(b, l, t[1], c->var2, "var2", -1, c->var[1], &c->n_var[1]));
  }
  CRN_TRY(dot_pair_rest(b, l, c, t, automatic));
  const bool add = crn_v_is_none(c->add_var2) ? version < 3 : crn_v_truth(c->add_var2);
  c->append = add && !automatic && c->n_var[1] == 0;
  l->out = crn_tmpl_scalar(t[0]->dtype);
  for (int i = 0; i < c->n_shared; i++) l->out.dims[l->out.n++] = t[0]->dims[c->shared[0][i]];
  for (int s = 0; s < 2; s++)
    for (int i = 0; i < c->n_var[s]; i++) l->out.dims[l->out.n++] = t[s]->dims[c->var[s][i]];
  if (c->append) l->out.dims[l->out.n++] = crn_layer_dim(b, l, "dummy-var2", CRN_DIM_SPATIAL, 1);
  for (int s = 0; s < 2 && !l->out.time_explicit; s++) {
    const int axis = t[s]->time_axis >= 0 ? crn_tmpl_find(&l->out, t[s]->dims[t[s]->time_axis]) : -1;
    if (axis >= 0) {
      l->out.time_axis = axis;
      l->out.time_explicit = true;
    }
  }
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_tensor *dot_arrange(crn_exec *x, const dot_cfg *c, const crn_data *d, int s, crn_tensor *v) {
  int perm[CRN_MAX_RANK], n = 0;
  int64_t shape[CRN_MAX_RANK], m = 1, k = 1;
  for (int i = 0; i < c->n_shared; i++) perm[n++] = c->shared[s][i];
  const int *first = s == 0 ? c->var[0] : c->red[1], *second = s == 0 ? c->red[0] : c->var[1];
  const int n1 = s == 0 ? c->n_var[0] : c->n_red, n2 = s == 0 ? c->n_red : c->n_var[1];
  for (int i = 0; i < n1; i++) perm[n++] = first[i];
  for (int i = 0; i < n2; i++) perm[n++] = second[i];
  for (int i = 0; i < c->n_shared; i++) shape[i] = v->shape[c->shared[s][i]];
  for (int i = 0; i < n1; i++) m *= v->shape[first[i]];
  for (int i = 0; i < n2; i++) k *= v->shape[second[i]];
  shape[c->n_shared] = m;
  shape[c->n_shared + 1] = k;
  (void)d;
  crn_run *r = crn_exec_run(x);
  return crn_t_reshape(r, crn_transpose(r, v, perm), c->n_shared + 2, shape);
}

static crn_status dot_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const dot_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d[2] = {crn_source(x, l, 0), crn_source(x, l, 1)};
  if (!d[0] || !d[1]) return r->err->code;
  crn_tensor *v[2] = {d[0]->v, d[1]->v};
  for (int i = 0; i < c->n_red && c->use_mask; i++)
    if (d[0]->len[c->red[0][i]] && d[1]->len[c->red[1][i]])
      for (int s = 0; s < 2; s++)
        if (crn_data_can_mask(d[s], c->red[s][i])) v[s] = crn_mask_fill(r, v[s], crn_data_mask(r, d[s], c->red[s][i]), 0.0);
  crn_tensor *a = v[0] ? dot_arrange(x, c, d[0], 0, v[0]) : NULL, *bb = v[1] ? dot_arrange(x, c, d[1], 1, v[1]) : NULL;
  crn_tensor *y = crn_matmul(r, a, false, bb, false);
  if (!y) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < c->n_shared; i++) {
    out->len[n] = d[0]->len[c->shared[0][i]];
    shape[n++] = y->shape[i];
  }
  for (int s = 0; s < 2; s++)
    for (int i = 0; i < c->n_var[s]; i++) {
      out->len[n] = d[s]->len[c->var[s][i]];
      shape[n++] = d[s]->v->shape[c->var[s][i]];
    }
  if (c->append) shape[n++] = 1;
  out->v = crn_t_reshape(r, y, n, shape);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- length --------------------------------------------------------------------------------------------------------- */

typedef struct length_cfg {
  const crn_value *axis, *add_time_axis, *dtype, *sparse;
  int at; /* -1: sparse dim */
} length_cfg;

#define LOFF(f) offsetof(length_cfg, f)
static const crn_opt length_opts[] = {
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = LOFF(axis), .dflt = "\"T\"", .doc = "axis whose lengths are given"},
    {.name = "add_time_axis", .type = CRN_OPT_VALUE, .offset = LOFF(add_time_axis), .dflt = "False", .doc = "add a time axis of size 1"},
    {.name = "dtype", .type = CRN_OPT_VALUE, .offset = LOFF(dtype), .dflt = "\"int32\"", .doc = "type of fixed lengths"},
    {.name = "sparse", .type = CRN_OPT_VALUE, .offset = LOFF(sparse), .dflt = "False", .doc = "mark fixed lengths as sparse"},
    CRN_OPT_END};

static crn_status length_infer(crn_build *b, crn_layer *l) {
  length_cfg *c = l->cfg;
  const crn_tmpl *s = crn_source_tmpl(l, 0);
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  l->out_known = s != NULL;
  if (!s) return CRN_OK;
  c->at = -1;
  if (!(crn_v_is_str(c->axis) && !strcmp(crn_v_cstr(c->axis), "sparse_dim"))) CRN_TRY(crn_layer_axis(b, l, s, c->axis, "axis", &c->at));
  l->out = crn_tmpl_scalar(CRN_I32);
  const bool dynamic = c->at >= 0 && crn_dim_is_dynamic(s->dims[c->at]);
  const bool add = crn_v_truth(c->add_time_axis);
  if (!dynamic || add) {
    if (!crn_v_is_str(c->dtype) || !crn_dtype_from_name(crn_v_cstr(c->dtype), &l->out.dtype)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dtype': unknown type");
    l->out.sparse = crn_v_truth(c->sparse);
  }
  if (dynamic && crn_tmpl_batch_axis(s) >= 0) CRN_TRY(crn_tmpl_insert(&l->out, 0, s->dims[crn_tmpl_batch_axis(s)], crn_build_err(b)));
  if (add) {
    const crn_dim *d = crn_layer_dim(b, l, "time", CRN_DIM_SPATIAL, 1);
    if (!d) return CRN_E_MEMORY;
    CRN_TRY(crn_tmpl_insert(&l->out, l->out.n, d, crn_build_err(b)));
    l->out.time_axis = l->out.n - 1;
    l->out.time_explicit = true;
  }
  l->out.feature_axis = -1;
  l->out.feature_explicit = true;
  return CRN_OK;
}

static crn_status length_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const length_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_source(x, l, 0);
  if (!d) return r->err->code;
  if (c->at >= 0 && d->len[c->at]) {
    const crn_data *len = d->len[c->at];
    if (len->v->rank == 0 && l->out.n > 0) out->v = crn_data_lens(r, d, c->at);
    else {
      out->v = len->v;
      if (!crn_v_truth(c->add_time_axis)) {
        const crn_beam_sig beam = out->t.beam;
        out->t = len->t;
        out->t.beam = beam;
        out->t.feature_axis = -1;
        out->t.feature_explicit = true;
      }
    }
  } else {
    out->v = crn_t_scalar(r, CRN_I32, c->at < 0 ? (double)crn_tmpl_dim(&d->t) : (double)d->v->shape[c->at]);
  }
  if (out->v && out->v->dtype != l->out.dtype) out->v = crn_cast(r, out->v, l->out.dtype);
  if (out->v && crn_v_truth(c->add_time_axis)) out->v = crn_expand_dims(r, out->v, out->v->rank);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_reduce[] = {
    {.name = "reduce", .doc = "Reduces axes by sum, mean, max and the like.", .opts = reduce_opts, .cfg_size = sizeof(reduce_cfg), .flags = CRN_L_CONCAT | CRN_L_MAY_STREAM,
     .infer = reduce_infer, .forward = reduce_forward},
    {.name = "reduce_out", .doc = "Reduces groups of neighbouring features (maxout).", .opts = reduce_out_opts, .cfg_size = sizeof(reduce_out_cfg), .flags = CRN_L_CONCAT | CRN_L_STREAMS,
     .infer = reduce_out_infer, .forward = reduce_out_forward},
    {.name = "dot", .doc = "Sums products of two sources over common axes.", .opts = dot_opts, .cfg_size = sizeof(dot_cfg), .flags = CRN_L_MANY_INPUTS | CRN_L_MAY_STREAM,
     .infer = dot_infer, .forward = dot_forward},
    {.name = "length", .doc = "Gives the lengths of an axis.", .opts = length_opts, .cfg_size = sizeof(length_cfg), .flags = CRN_L_MANY_INPUTS | CRN_L_NEEDS_FUTURE,
     .infer = length_infer, .forward = length_forward},
    {.name = NULL}};
