/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter_nd: frames added up into a new axis at given positions; boolean_mask: the entries where a mask is true.
 */
#include <string.h>

#include "layer/shape_list.h"

typedef struct scatter_cfg {
  crn_layer *position, *via, *mask;
  const crn_value *position_axis, *dims;
  const crn_dim *out_spatial_dim;
  int filter_invalid;
  const crn_dim *new_dim;
  int at;                         /* scatter_nd: axis of position that is replaced */
  int partner[CRN_MAX_RANK];      /* axis of the source for each axis of position or of dims, -1: it lacks it */
  int rest[CRN_MAX_RANK], n_rest; /* other axes of the source */
  const crn_dim *masked[CRN_MAX_RANK];
  int mask_axis[CRN_MAX_RANK], n_masked;
} scatter_cfg;

#define OFF(f) offsetof(scatter_cfg, f)

/* Axes of the source that are among dims (n of them), and the rest. */
static void match_axes(scatter_cfg *c, const crn_tmpl *in, const crn_dim *const *dims, int n, int version) {
  bool taken[CRN_MAX_RANK] = {false};
  for (int k = 0; k < n; k++) {
    c->partner[k] = -1;
    for (int i = 0; i < in->n && c->partner[k] < 0; i++)
      if (!taken[i] && crn_dim_same(in->dims[i], dims[k])) c->partner[k] = i;
    for (int i = 0; i < in->n && c->partner[k] < 0; i++)
      if (!taken[i] && crn_dims_match(in->dims[i], dims[k], version)) c->partner[k] = i;
    if (c->partner[k] >= 0) taken[c->partner[k]] = true;
  }
  c->n_rest = 0;
  for (int i = 0; i < in->n; i++)
    if (!taken[i]) c->rest[c->n_rest++] = i;
}

/* The source as [sizes…, rest…]: axes that it lacks are repeated. */
static crn_tensor *spread(crn_run *r, const scatter_cfg *c, crn_tensor *v, int n, const int64_t *sizes) {
  int perm[CRN_MAX_RANK], m = 0;
  int64_t one[CRN_MAX_RANK], full[CRN_MAX_RANK];
  for (int k = 0; k < n; k++) {
    one[k] = c->partner[k] >= 0 ? v->shape[c->partner[k]] : 1;
    full[k] = sizes[k];
    if (c->partner[k] >= 0) perm[m++] = c->partner[k];
  }
  for (int i = 0; i < c->n_rest; i++) {
    one[n + i] = full[n + i] = v->shape[c->rest[i]];
    perm[m++] = c->rest[i];
  }
  v = crn_t_reshape(r, crn_transpose(r, v, perm), n + c->n_rest, one);
  return crn_broadcast_to(r, v, n + c->n_rest, full);
}

/* ---- scatter_nd -----------------------------------------------------------------------------------------------------
 */

static const crn_opt scatter_opts[] = {
    {.name = "position", .type = CRN_OPT_LAYER, .offset = OFF(position), .doc = "layer with integers: where to add"},
    {.name = "position_axis",
     .type = CRN_OPT_VALUE,
     .offset = OFF(position_axis),
     .doc = "axis of position that is replaced"},
    {.name = "output_dim_via_time_from",
     .type = CRN_OPT_LAYER,
     .offset = OFF(via),
     .dflt = "None",
     .doc = "layer whose time axis is the new axis"},
    {.name = "out_spatial_dim",
     .type = CRN_OPT_DIM,
     .offset = OFF(out_spatial_dim),
     .dflt = "None",
     .doc = "the new axis"},
    {.name = "filter_invalid_indices",
     .type = CRN_OPT_BOOL,
     .offset = OFF(filter_invalid),
     .dflt = "False",
     .doc = "drop frames whose position is out of range"},
    CRN_OPT_END};

static crn_status scatter_infer(crn_build *b, crn_layer *l) {
  scatter_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  if (!c->via == !c->out_spatial_dim)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "exactly one of 'output_dim_via_time_from' and 'out_spatial_dim' is needed");
  l->out_known = known && c->position->out_known && (!c->via || c->via->out_known);
  if (!l->out_known) return CRN_OK;
  const crn_tmpl *pos = &c->position->out;
  if (!crn_dtype_is_int(pos->dtype))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'position': expected integers, the layer gives %s",
                          crn_dtype_name(pos->dtype));
  CRN_TRY(crn_layer_axis(b, l, pos, c->position_axis, "position_axis", &c->at));
  if (pos->dims[c->at]->kind == CRN_DIM_BATCH)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'position_axis' may not be the batch axis");
  if (c->via && c->via->out.time_axis < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'output_dim_via_time_from': layer '%s' has no time axis",
                          c->via->path);
  c->new_dim = c->via ? c->via->out.dims[c->via->out.time_axis] : c->out_spatial_dim;
  match_axes(c, &in, pos->dims, pos->n, crn_build_version(b));
  if (pos->n + c->n_rest > CRN_MAX_RANK)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the result has more than %d axes", CRN_MAX_RANK);
  l->out = in;
  l->out.n = 0;
  for (int k = 0; k < pos->n; k++) l->out.dims[l->out.n++] = k == c->at ? c->new_dim : pos->dims[k];
  for (int i = 0; i < c->n_rest; i++) l->out.dims[l->out.n++] = in.dims[c->rest[i]];
  l->out.time_explicit = l->out.feature_explicit = false;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status new_axis(crn_exec *x, crn_layer *l, const scatter_cfg *c, int64_t *size, const crn_data **len) {
  crn_run *r = crn_exec_run(x);
  if (c->via) {
    const crn_data *d = crn_value_of(x, l, c->via);
    if (!d) return r->err->code;
    *size = d->v->shape[d->t.time_axis];
    *len = d->len[d->t.time_axis];
    return CRN_OK;
  }
  crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  t.dims[t.n++] = c->new_dim;
  crn_data *d = crn_data_new(r, &t, NULL);
  int64_t sizes[CRN_MAX_RANK];
  if (!d) return r->err->code;
  CRN_TRY(crn_shape_sizes(x, l, d, sizes));
  *size = sizes[0];
  *len = d->len[0];
  return CRN_OK;
}

/* Rows [N, 1] of the flat result (others, new axis) that the frames (others, replaced axis) go to; out of range:
 * n_rows. */
static crn_tensor *flat_rows(crn_exec *x, crn_layer *l, const scatter_cfg *c, const crn_tensor *pos, int64_t T,
                             int64_t D, int64_t n_rows) {
  crn_run *r = crn_exec_run(x);
  const int64_t N = crn_t_size(pos), shape[2] = {N, 1};
  crn_tensor *rows = crn_t_new(r, CRN_I64, 2, shape);
  for (int64_t i = 0; rows && i < N; i++) {
    const int64_t p = (int64_t)crn_t_get(pos, i);
    const bool valid = p >= 0 && p < D;
    if (!valid && c->filter_invalid <= 0) {
      (void)crn_exec_fail(x, l, "position %lld is not in [0, %lld)", (long long)p, (long long)D);
      return NULL;
    }
    crn_t_i64(rows)[i] = valid ? i / T * D + p : n_rows;
  }
  return rows;
}

static crn_status scatter_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const scatter_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l), *pos = crn_value_of(x, l, c->position), *len = NULL;
  int64_t D = 0;
  if (!in || !pos) return r->err->code;
  CRN_TRY(new_axis(x, l, c, &D, &len));
  const int n = pos->t.n, total = n + c->n_rest;
  int perm[CRN_MAX_RANK], back[CRN_MAX_RANK], m = 0;
  for (int k = 0; k < n; k++)
    if (k != c->at) perm[m++] = k;
  perm[m++] = c->at;
  crn_tensor *pv = crn_transpose(r, pos->v, perm);
  for (int i = 0; i < c->n_rest; i++) perm[m++] = n + i;
  crn_tensor *xv = spread(r, c, in->v, n, pos->v->shape);
  xv = xv ? crn_transpose(r, xv, perm) : NULL;
  if (!pv || !xv) return r->err->code;
  const int64_t T = pv->shape[n - 1], others = crn_t_count(n - 1, pv->shape);
  const int64_t R = crn_t_count(c->n_rest, xv->shape + n), flat[2] = {others * T, R};
  const int64_t n_rows = others * D, result[2] = {n_rows + (c->filter_invalid > 0 ? 1 : 0), R};
  crn_tensor *rows = flat_rows(x, l, c, pv, T, D, n_rows);
  crn_tensor *y = rows ? crn_scatter_nd(r, rows, crn_t_reshape(r, xv, 2, flat), 2, result) : NULL;
  if (y && c->filter_invalid > 0) y = crn_slice(r, y, 0, 0, n_rows, 1);
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < total; i++) shape[i] = i == n - 1 ? D : xv->shape[i];
  for (int i = 0; i < total; i++) back[perm[i]] = i;
  out->v = y ? crn_transpose(r, crn_t_reshape(r, y, total, shape), back) : NULL;
  for (int k = 0; k < n; k++) out->len[k] = k == c->at ? len : pos->len[k];
  for (int i = 0; i < c->n_rest; i++) out->len[n + i] = in->len[c->rest[i]];
  return out->v ? CRN_OK : r->err->code;
}

/* ---- boolean_mask ---------------------------------------------------------------------------------------------------
 */

static const crn_opt mask_opts[] = {
    {.name = "mask", .type = CRN_OPT_LAYER, .offset = OFF(mask), .doc = "layer: bool, with exactly the axes dims"},
    {.name = "dims", .type = CRN_OPT_VALUE, .offset = OFF(dims), .doc = "list of dims that become one"},
    CRN_OPT_END};

static crn_status mask_dims(crn_build *b, crn_layer *l, scatter_cfg *c) {
  const crn_tmpl *m = &c->mask->out;
  c->n_masked = 0;
  for (size_t i = 0; i < crn_v_len(c->dims) && i < CRN_MAX_RANK; i++) {
    const crn_dim *d = crn_dim_of_value(crn_build_dims(b), crn_v_at(c->dims, i));
    if (!d) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dims': expected a list of dims");
    int axis = crn_tmpl_find(m, d);
    for (int k = 0; k < m->n && axis < 0; k++)
      if (crn_dims_match(m->dims[k], d, crn_build_version(b))) axis = k;
    if (axis < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'mask': the layer has no axis '%s'", d->name);
    c->mask_axis[c->n_masked] = axis;
    c->masked[c->n_masked++] = m->dims[axis];
  }
  if (m->dtype == CRN_BOOL && m->n == c->n_masked && m->n) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'mask': expected bool with exactly the axes of 'dims'");
}

static crn_status mask_infer(crn_build *b, crn_layer *l) {
  scatter_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known && c->mask->out_known;
  if (!l->out_known) return CRN_OK;
  if (!crn_v_is_seq(c->dims)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dims': expected a list of dims");
  CRN_TRY(mask_dims(b, l, c));
  match_axes(c, &in, c->masked, c->n_masked, crn_build_version(b));
  const crn_dim *d = l->common.out_dim ? l->common.out_dim : crn_layer_dim(b, l, "mask", CRN_DIM_SPATIAL, -1);
  if (!d) return crn_err_memory(crn_build_err(b));
  l->out = in;
  l->out.n = 0;
  l->out.dims[l->out.n++] = d;
  for (int i = 0; i < c->n_rest; i++) l->out.dims[l->out.n++] = in.dims[c->rest[i]];
  l->out.time_axis = 0;
  l->out.time_explicit = true;
  l->out.feature_explicit = false;
  crn_tmpl_update_roles(&l->out);
  for (int k = 0; k < c->n_masked; k++) l->ends_beam |= c->masked[k]->kind == CRN_DIM_BATCH;
  return CRN_OK;
}

/* Lengths of an axis that stays, per selected entry where they belong to the masked axes. */
static crn_status kept_lengths(crn_exec *x, crn_layer *l, const scatter_cfg *c, const crn_data *len,
                               const int64_t *sizes, crn_tensor *rows, const crn_data **to) {
  crn_run *r = crn_exec_run(x);
  crn_tmpl t = crn_tmpl_scalar(CRN_I32), result = t;
  *to = len;
  bool hit = false;
  for (int k = 0; k < c->n_masked; k++) {
    t.dims[t.n++] = c->masked[k];
    hit |= len && crn_tmpl_find(&len->t, c->masked[k]) >= 0;
  }
  if (!len || !hit) return CRN_OK;
  const int64_t n = crn_t_count(c->n_masked, sizes);
  crn_tensor *v = crn_data_fit(r, len, &t, crn_exec_version(x), false);
  v = v ? crn_broadcast_to(r, v, t.n, sizes) : NULL;
  result.dims[result.n++] = l->out.dims[0];
  v = v ? crn_gather(r, crn_t_reshape(r, v, 1, &n), rows, 0) : NULL;
  *to = v ? crn_data_new(r, &result, v) : NULL;
  return *to ? CRN_OK : r->err->code;
}

static crn_status mask_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const scatter_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l), *mask = crn_value_of(x, l, c->mask);
  if (!in || !mask) return r->err->code;
  crn_tensor *m = crn_transpose(r, mask->v, c->mask_axis);
  crn_tensor *v = m ? spread(r, c, in->v, c->n_masked, m->shape) : NULL;
  if (!v) return r->err->code;
  const int64_t n = crn_t_size(m);
  int64_t count = 0, shape[CRN_MAX_RANK] = {n};
  for (int64_t i = 0; i < n; i++) count += crn_t_bool(m)[i] != 0;
  crn_tensor *rows = crn_t_new(r, CRN_I32, 1, &count);
  if (!rows) return r->err->code;
  for (int64_t i = 0, k = 0; i < n; i++)
    if (crn_t_bool(m)[i]) crn_t_i32(rows)[k++] = (int32_t)i;
  for (int i = 0; i < c->n_rest; i++) {
    shape[1 + i] = v->shape[c->n_masked + i];
    CRN_TRY(kept_lengths(x, l, c, in->len[c->rest[i]], m->shape, rows, &out->len[1 + i]));
  }
  const crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
  out->len[0] = crn_data_new(r, &lt, crn_t_full(r, CRN_I32, 0, NULL, (double)count));
  if (l->ends_beam) out->beam = NULL;
  out->v = crn_gather(r, crn_t_reshape(r, v, 1 + c->n_rest, shape), rows, 0);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_scatter[] = {{.name = "scatter_nd",
                                              .doc = "Adds frames into a new axis at given positions.",
                                              .opts = scatter_opts,
                                              .cfg_size = sizeof(scatter_cfg),
                                              .flags = CRN_L_CONCAT | CRN_L_READS_PADDING,
                                              .infer = scatter_infer,
                                              .forward = scatter_forward},
                                             {.name = "boolean_mask",
                                              .doc = "Keeps the entries where a mask is true.",
                                              .opts = mask_opts,
                                              .cfg_size = sizeof(scatter_cfg),
                                              .flags = CRN_L_READS_PADDING,
                                              .infer = mask_infer,
                                              .forward = mask_forward},
                                             {.name = NULL}};
