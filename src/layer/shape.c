/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that rearrange axes: expand_dims, squeeze, swap_axes, split_dims, merge_dims, reinterpret_data, cast.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "layer/pieces.h"

typedef struct shape_cfg {
  const crn_value *axis, *axis1, *axis2, *dims, *axes, *dim, *dtype, *pad_to_multiples, *enforce_batch, *n_out;
  double pad_value;
  int keep_order, allow_no_op;
  const crn_value *keep_order_given;
  int at[CRN_MAX_RANK], n_at; /* axes of the input (batch-major where said) */
  int64_t parts[CRN_MAX_RANK];
  int n_parts, place;
  crn_dtype to;
} shape_cfg;

#define OFF(f) offsetof(shape_cfg, f)

static crn_status input(crn_build *b, crn_layer *l, crn_tmpl *t, bool *known) {
  CRN_TRY(crn_input_tmpl(b, l, t, known));
  l->out_known = *known;
  return CRN_OK;
}

static bool is_int(const crn_value *v) { return v && v->kind == CRN_V_INT; }

/* ---- expand_dims ---------------------------------------------------------------------------------------------------- */

static const crn_opt expand_opts[] = {
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .doc = "F, spatial, T, or a position"},
    {.name = "dim", .type = CRN_OPT_VALUE, .offset = OFF(dim), .dflt = "1", .doc = "size of the new axis"}, CRN_OPT_END};

static crn_status expand_place(crn_build *b, crn_layer *l, shape_cfg *c, const crn_tmpl *t, crn_dim_kind *kind, bool *time) {
  const char *s = crn_v_cstr(c->axis);
  int64_t i;
  *kind = CRN_DIM_SPATIAL;
  *time = false;
  if (s && (!strcasecmp(s, "F") || !strcasecmp(s, "feature"))) {
    if (t->sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': a sparse source gets no feature axis");
    c->place = t->feature_axis >= 0 ? t->feature_axis + 1 : t->n;
    *kind = CRN_DIM_FEATURE;
    return CRN_OK;
  }
  if (s && (!strcasecmp(s, "spatial") || !strcasecmp(s, "time") || !strcasecmp(s, "T"))) {
    c->place = t->sparse || t->n == 0 ? t->n : t->n - 1;
    if (!t->sparse && t->n > 0 && t->dims[t->n - 1]->kind == CRN_DIM_BATCH) c->place = t->n;
    *time = t->time_axis < 0;
    return CRN_OK;
  }
  if (is_int(c->axis) && crn_v_to_int(c->axis, &i)) {
    if (i < 0) i += t->n + 1;
    if (i < 0 || i > t->n) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': no such position");
    c->place = (int)i;
    if (i == t->feature_axis) *kind = CRN_DIM_FEATURE;
    return CRN_OK;
  }
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': expected F, spatial, T or a position");
}

static crn_status expand_infer(crn_build *b, crn_layer *l) {
  shape_cfg *c = l->cfg;
  bool known, time;
  crn_dim_kind kind;
  CRN_TRY(input(b, l, &l->out, &known));
  if (!known) return CRN_OK;
  if (is_int(c->axis)) crn_tmpl_to_batch_major(&l->out, NULL);
  CRN_TRY(expand_place(b, l, c, &l->out, &kind, &time));
  int64_t size = 1;
  const crn_dim *d = c->dim->kind == CRN_V_DIM ? crn_dim_of_value(crn_build_dims(b), c->dim) : NULL;
  if (!d && (!crn_v_to_int(c->dim, &size) || size < 1)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dim': expected a size or a dim");
  if (!d) {
    char slot[160];
    (void)snprintf(slot, sizeof(slot), "expand_dims");
    d = crn_dim_new(crn_build_dims(b), l->path, slot, kind, size, crn_arena_printf(crn_build_arena(b), "%s_expand_dims", l->name));
  }
  if (!d) return CRN_E_MEMORY;
  const int old_feature = l->out.feature_axis;
  CRN_TRY(crn_tmpl_insert(&l->out, c->place, d, crn_build_err(b)));
  if (time) {
    l->out.time_axis = c->place;
    l->out.time_explicit = true;
  }
  if (kind == CRN_DIM_FEATURE && !is_int(c->axis) && !l->out.feature_explicit) l->out.feature_axis = c->place;
  (void)old_feature;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status expand_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const shape_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (d && is_int(c->axis)) d = crn_data_batch_major(r, d);
  if (!d) return r->err->code;
  crn_tensor *v = crn_expand_dims(r, d->v, c->place);
  const int64_t size = l->out.dims[c->place]->size;
  if (v && size > 1) {
    int64_t shape[CRN_MAX_RANK];
    memcpy(shape, v->shape, sizeof(shape));
    shape[c->place] = size;
    v = crn_broadcast_to(r, v, v->rank, shape);
  }
  out->v = v;
  for (int i = 0; i < d->t.n; i++) out->len[i < c->place ? i : i + 1] = d->len[i];
  return v ? CRN_OK : r->err->code;
}

/* ---- squeeze -------------------------------------------------------------------------------------------------------- */

static const crn_opt squeeze_opts[] = {
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .doc = "axes of size 1 to remove, or \"auto\""},
    {.name = "enforce_batch_dim_axis", .type = CRN_OPT_VALUE, .offset = OFF(enforce_batch), .dflt = "None", .doc = "move the batch axis there first"},
    {.name = "allow_no_op", .type = CRN_OPT_BOOL, .offset = OFF(allow_no_op), .dflt = "False", .doc = "no such axis is no error"}, CRN_OPT_END};

static crn_status squeeze_infer(crn_build *b, crn_layer *l) {
  shape_cfg *c = l->cfg;
  bool known;
  CRN_TRY(input(b, l, &l->out, &known));
  if (!known) return CRN_OK;
  if (!crn_v_is_none(c->enforce_batch) || is_int(c->axis)) crn_tmpl_to_batch_major(&l->out, NULL);
  c->n_at = 0;
  if (crn_v_is_str(c->axis) && !strcmp(crn_v_cstr(c->axis), "auto")) {
    for (int i = 0; i < l->out.n; i++)
      if (l->out.dims[i]->size == 1) c->at[c->n_at++] = i;
  } else {
    CRN_TRY(crn_layer_axes(b, l, &l->out, c->axis, "axis", c->at, &c->n_at));
    if (!c->n_at && c->allow_no_op <= 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': there is no such axis");
  }
  crn_takes_whole(l, &l->out, c->at, c->n_at);
  bool gone[CRN_MAX_RANK] = {false};
  for (int i = 0; i < c->n_at; i++) {
    const crn_dim *dim = l->out.dims[c->at[i]];
    if (dim->size != 1 && !crn_dim_is_dynamic(dim)) /* a dynamic one may turn out to have one frame */
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': axis %d has size %lld, not 1", c->at[i], (long long)dim->size);
    gone[c->at[i]] = true;
  }
  for (int i = l->out.n; i-- > 0;)
    if (gone[i]) crn_tmpl_remove(&l->out, i);
  return CRN_OK;
}

static crn_status squeeze_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const shape_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (d && (!crn_v_is_none(c->enforce_batch) || is_int(c->axis))) d = crn_data_batch_major(r, d);
  if (!d) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < d->t.n; i++) {
    bool gone = false;
    for (int k = 0; k < c->n_at; k++) gone |= c->at[k] == i;
    if (gone && d->v->shape[i] != 1)
      return crn_exec_fail(x, l, "option 'axis': axis %d has size %lld, not 1", i, (long long)d->v->shape[i]);
    if (gone) continue;
    out->len[n] = d->len[i];
    shape[n++] = d->v->shape[i];
  }
  out->v = crn_t_reshape(r, d->v, n, shape);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- swap_axes ------------------------------------------------------------------------------------------------------ */

static const crn_opt swap_opts[] = {
    {.name = "axis1", .type = CRN_OPT_VALUE, .offset = OFF(axis1), .doc = "one axis"},
    {.name = "axis2", .type = CRN_OPT_VALUE, .offset = OFF(axis2), .doc = "the other axis"}, CRN_OPT_END};

static crn_status swap_infer(crn_build *b, crn_layer *l) {
  shape_cfg *c = l->cfg;
  bool known;
  CRN_TRY(input(b, l, &l->out, &known));
  if (!known) return CRN_OK;
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis1, "axis1", &c->at[0]));
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis2, "axis2", &c->at[1]));
  if (c->at[0] == c->at[1]) return crn_layer_fail(b, l, CRN_E_CONFIG, "'axis1' and 'axis2' are the same axis");
  int perm[CRN_MAX_RANK];
  for (int i = 0; i < l->out.n; i++) perm[i] = i == c->at[0] ? c->at[1] : i == c->at[1] ? c->at[0] : i;
  const bool te = l->out.time_explicit;
  l->out.time_explicit = true;
  crn_tmpl_permute(&l->out, perm);
  l->out.time_explicit = te || l->out.time_axis >= 0;
  return CRN_OK;
}

static crn_status swap_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const shape_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (!d) return r->err->code;
  int perm[CRN_MAX_RANK];
  for (int i = 0; i < d->t.n; i++) perm[i] = i == c->at[0] ? c->at[1] : i == c->at[1] ? c->at[0] : i;
  out->v = crn_transpose(r, d->v, perm);
  for (int i = 0; i < d->t.n; i++) out->len[i] = d->len[perm[i]];
  return out->v ? CRN_OK : r->err->code;
}

/* ---- split_dims ----------------------------------------------------------------------------------------------------- */

static const crn_opt split_opts[] = {
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .doc = "axis to split"},
    {.name = "dims", .type = CRN_OPT_VALUE, .offset = OFF(dims), .doc = "sizes of the parts, at most one -1"},
    {.name = "pad_to_multiples", .type = CRN_OPT_VALUE, .offset = OFF(pad_to_multiples), .dflt = "None", .doc = "pad the axis to a multiple; default: if it is dynamic"},
    {.name = "pad_value", .type = CRN_OPT_FLOAT, .offset = OFF(pad_value), .dflt = "0", .doc = "value of the padding"}, CRN_OPT_END};

static crn_status split_sizes(crn_build *b, crn_layer *l, shape_cfg *c, const crn_dim *old, const crn_dim *parts[CRN_MAX_RANK], int64_t *product, int *open) {
  *product = 1;
  *open = -1;
  c->n_parts = (int)crn_v_len(c->dims);
  if (!crn_v_is_seq(c->dims) || c->n_parts < 1 || c->n_parts >= CRN_MAX_RANK) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dims': expected a tuple of sizes");
  for (int i = 0; i < c->n_parts; i++) {
    const crn_value *v = crn_v_at(c->dims, (size_t)i);
    int64_t n;
    parts[i] = NULL;
    if (v->kind == CRN_V_DIM) {
      parts[i] = crn_dim_of_value(crn_build_dims(b), v);
      n = parts[i] && parts[i]->size >= 0 ? parts[i]->size : -1;
    } else if (!crn_v_to_int(v, &n) || n == 0 || n < -1) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dims': expected sizes > 0, or one -1");
    c->parts[i] = n;
    if (n >= 0) *product *= n;
    else if (*open >= 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dims': only one -1 is possible");
    else *open = i;
  }
  if (old->size < 0 && *open < 0 && old->kind != CRN_DIM_BATCH) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dims': a dynamic axis needs one part -1");
  return CRN_OK;
}

static crn_status split_infer(crn_build *b, crn_layer *l) {
  shape_cfg *c = l->cfg;
  bool known;
  const crn_dim *parts[CRN_MAX_RANK];
  int64_t product;
  int open;
  CRN_TRY(input(b, l, &l->out, &known));
  if (!known) return CRN_OK;
  if (is_int(c->axis)) crn_tmpl_to_batch_major(&l->out, NULL);
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at[0]));
  const int at = c->at[0];
  const crn_dim *old = l->out.dims[at];
  CRN_TRY(split_sizes(b, l, c, old, parts, &product, &open));
  l->ahead = crn_streams_along(l, old) && product > 1 ? "the last of its parts is filled up at the end" : NULL;
  l->causal = !l->ahead && old->kind != CRN_DIM_BATCH;
  const bool pad = crn_v_is_none(c->pad_to_multiples) ? old->size < 0 : crn_v_truth(c->pad_to_multiples);
  if (old->size >= 0 && pad && old->size % product) return crn_layer_fail(b, l, CRN_E_CONFIG, "a fixed axis can't be padded");
  if (old->size >= 0 && (open >= 0 ? old->size % product : old->size != product))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "axis of size %lld can't be split into parts of product %lld", (long long)old->size, (long long)product);
  const bool was_time = at == l->out.time_axis, te = l->out.time_explicit, was_feature = at == l->out.feature_axis, fe = l->out.feature_explicit;
  for (int i = 0; i < c->n_parts; i++) {
    char slot[32];
    (void)snprintf(slot, sizeof(slot), "split_dims:%d", i);
    int64_t n = c->parts[i];
    if (n < 0 && old->size >= 0) n = old->size / product;
    if (parts[i]) continue;
    if (n < 0 && product == 1) parts[i] = old;
    else if (n < 0) parts[i] = crn_dim_derive(crn_build_dims(b), "ceil_div", old, NULL, product, 0, 0, old->kind, -1);
    else parts[i] = crn_layer_dim(b, l, slot, was_feature || old->kind == CRN_DIM_FEATURE ? CRN_DIM_FEATURE : CRN_DIM_SPATIAL, n);
    if (!parts[i]) return CRN_E_MEMORY;
  }
  l->out.dims[at] = parts[0];
  for (int i = 1; i < c->n_parts; i++) {
    for (int k = l->out.n; k > at + i; k--) l->out.dims[k] = l->out.dims[k - 1];
    l->out.dims[at + i] = parts[i];
    l->out.n++;
    if (l->out.time_axis > at) l->out.time_axis++;
    if (l->out.feature_axis > at) l->out.feature_axis++;
  }
  if (was_feature) {
    l->out.feature_axis = at + c->n_parts - 1;
    l->out.feature_explicit = fe;
  }
  if (was_time) {
    l->out.time_axis = open >= 0 ? at + open : at;
    l->out.time_explicit = te;
  }
  crn_tmpl_update_roles(&l->out);
  if (was_feature && l->out.feature_axis != at + c->n_parts - 1) {
    l->out.feature_axis = at + c->n_parts - 1;
    l->out.feature_explicit = true;
  }
  return CRN_OK;
}

static const crn_data *ceil_lengths(crn_exec *x, const crn_data *len, int64_t product) {
  crn_run *r = crn_exec_run(x);
  if (!len || product == 1) return len;
  crn_data *c = crn_data_copy(r, len);
  if (!c) return NULL;
  c->v = crn_binary(r, CRN_B_FLOORDIV, crn_add_scalar(r, len->v, (double)(product - 1)), crn_t_scalar(r, CRN_I32, (double)product));
  return c->v ? c : NULL;
}

static crn_status split_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const shape_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (d && is_int(c->axis)) d = crn_data_batch_major(r, d);
  if (!d) return r->err->code;
  const int at = c->at[0];
  int64_t product = 1, shape[CRN_MAX_RANK];
  int open = -1, n = 0;
  for (int i = 0; i < c->n_parts; i++) {
    if (c->parts[i] >= 0) product *= c->parts[i];
    else open = i;
  }
  crn_tensor *v = d->v;
  const int64_t size = v->shape[at], rest = size % product;
  if (rest && open >= 0) v = crn_pad(r, v, at, 0, product - rest, "constant", c->pad_value);
  if (!v) return r->err->code;
  for (int i = 0; i < d->t.n; i++) {
    if (i != at) {
      out->len[n] = d->len[i];
      shape[n++] = v->shape[i];
      continue;
    }
    for (int k = 0; k < c->n_parts; k++) {
      if (k == open) out->len[n] = ceil_lengths(x, d->len[at], product);
      shape[n++] = k == open ? v->shape[at] / product : c->parts[k];
    }
  }
  out->v = crn_t_reshape(r, v, n, shape);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- merge_dims ----------------------------------------------------------------------------------------------------- */

static const crn_opt merge_opts[] = {
    {.name = "axes", .type = CRN_OPT_VALUE, .offset = OFF(axes), .doc = "axes to merge"},
    {.name = "keep_order", .type = CRN_OPT_VALUE, .offset = OFF(keep_order_given), .dflt = "None", .doc = "merge in the order listed; default from behavior_version 6"}, CRN_OPT_END};

static bool merge_keeps_order(crn_build *b, const crn_layer *l) {
  const shape_cfg *c = l->cfg;
  if (!strcmp(crn_v_cstr(crn_v_get(l->dict, "class")), "combine_dims")) return true;
  return crn_v_is_none(c->keep_order_given) ? crn_build_version(b) >= 6 : crn_v_truth(c->keep_order_given);
}

/* A frame's entries must come one after the other in the merged axis. */
static void merge_streams(crn_layer *l, const shape_cfg *c) {
  l->causal = true;
  l->ahead = NULL;
  for (int i = 0; i < c->n_at; i++) {
    const crn_dim *d = l->out.dims[c->at[i]];
    if (d->kind == CRN_DIM_BATCH) l->causal = false;
    if (i && crn_streams_along(l, d)) l->ahead = "its frames are not next to each other in the merged axis";
  }
  if (l->ahead) l->causal = false;
}

static crn_status merge_infer(crn_build *b, crn_layer *l) {
  shape_cfg *c = l->cfg;
  bool known;
  CRN_TRY(input(b, l, &l->out, &known));
  if (!known) return CRN_OK;
  CRN_TRY(crn_layer_axes(b, l, &l->out, c->axes, "axes", c->at, &c->n_at));
  const bool keep = merge_keeps_order(b, l);
  if (keep && !crn_v_is_seq(c->axes)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axes': a list is needed to keep the order");
  if (!keep)
    for (int i = 1; i < c->n_at; i++)
      for (int k = i; k > 0 && (c->at[k] < c->at[k - 1]); k--) {
        const int tmp = c->at[k];
        c->at[k] = c->at[k - 1];
        c->at[k - 1] = tmp;
      }
  if (!keep) /* batch first */
    for (int i = 1; i < c->n_at; i++)
      if (l->out.dims[c->at[i]]->kind == CRN_DIM_BATCH)
        for (int k = i; k > 0; k--) {
          const int tmp = c->at[k];
          c->at[k] = c->at[k - 1];
          c->at[k - 1] = tmp;
        }
  merge_streams(l, c);
  if (c->n_at < 2) return CRN_OK;
  bool batch = false, feature = false, time = false, dynamic = false;
  int64_t size = 1;
  const crn_dim *dyn = NULL;
  int smallest = c->at[0];
  for (int i = 0; i < c->n_at; i++) {
    const crn_dim *d = l->out.dims[c->at[i]];
    batch |= d->kind == CRN_DIM_BATCH;
    feature |= c->at[i] == l->out.feature_axis;
    time |= c->at[i] == l->out.time_axis;
    if (d->size < 0) {
      dynamic = true;
      if (d->kind != CRN_DIM_BATCH) dyn = d;
    } else size *= d->size;
    if (c->at[i] < smallest) smallest = c->at[i];
  }
  const crn_dim_kind kind = batch ? CRN_DIM_BATCH : feature ? CRN_DIM_FEATURE : CRN_DIM_SPATIAL;
  const crn_dim *d;
  if (l->common.out_dim && !batch) d = crn_dim_as_kind(crn_build_dims(b), l->common.out_dim, kind);
  else if (batch || dynamic) d = crn_dim_derive(crn_build_dims(b), batch ? "merge_batch" : "merge", dyn ? dyn : crn_build_dims(b)->batch, NULL, size, c->n_at, l->index, kind, -1);
  else d = crn_layer_dim(b, l, "merge_dims", kind, size);
  if (!d) return CRN_E_MEMORY;
  int place = smallest;
  if (feature) {
    place = 0;
    for (int i = 0; i < l->out.feature_axis; i++) {
      bool gone = false;
      for (int k = 0; k < c->n_at; k++) gone |= c->at[k] == i;
      place += !gone;
    }
  }
  const bool te = l->out.time_explicit;
  bool gone[CRN_MAX_RANK] = {false};
  for (int i = 0; i < c->n_at; i++) gone[c->at[i]] = true;
  for (int i = l->out.n; i-- > 0;)
    if (gone[i]) crn_tmpl_remove(&l->out, i);
  CRN_TRY(crn_tmpl_insert(&l->out, place, d, crn_build_err(b)));
  c->place = place;
  if (feature && !batch) {
    l->out.feature_axis = place;
    l->out.feature_explicit = true;
  }
  if (time) {
    l->out.time_axis = batch || feature ? -1 : place;
    l->out.time_explicit = true;
  }
  (void)te;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status merge_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const shape_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (!d) return r->err->code;
  const crn_tmpl t = l->out;
  if (c->n_at < 2) {
    *out = *d;
    out->t = t;
    return CRN_OK;
  }
  int perm[CRN_MAX_RANK], n = 0, src = 0;
  int64_t shape[CRN_MAX_RANK], merged = 1;
  const crn_data *len = NULL;
  int64_t factor = 1;
  bool batch = false;
  for (int i = 0; i < c->n_at; i++) {
    merged *= d->v->shape[c->at[i]];
    batch |= d->t.dims[c->at[i]]->kind == CRN_DIM_BATCH;
    if (d->len[c->at[i]]) len = d->len[c->at[i]];
    else factor *= d->v->shape[c->at[i]];
  }
  for (int o = 0; o < t.n; o++) {
    if (o == c->place) {
      for (int i = 0; i < c->n_at; i++) perm[n++] = c->at[i];
      shape[o] = merged;
      continue;
    }
    for (;; src++) {
      bool gone = false;
      for (int k = 0; k < c->n_at; k++) gone |= c->at[k] == src;
      if (!gone) break;
    }
    out->len[o] = d->len[src];
    shape[o] = d->v->shape[src];
    perm[n++] = src++;
  }
  out->v = crn_t_reshape(r, crn_transpose(r, d->v, perm), t.n, shape);
  if (len && !batch) {
    crn_data *m = crn_data_copy(r, len);
    if (!m) return r->err->code;
    m->v = factor == 1 ? len->v : crn_scale(r, len->v, (double)factor);
    out->len[c->place] = m;
  }
  if (batch)
    for (int o = 0; o < t.n; o++)
      if (o != c->place && out->len[o] && out->len[o]->v->rank == 1) {
        const int64_t rep = out->len[o]->v->shape[0] ? merged / out->len[o]->v->shape[0] : 1;
        crn_data *m = crn_data_copy(r, out->len[o]);
        if (!m) return r->err->code;
        m->v = crn_repeat0(r, m->v, rep);
        m->t.dims[0] = t.dims[c->place];
        out->len[o] = m;
      }
  return out->v ? CRN_OK : r->err->code;
}

/* ---- cast ----------------------------------------------------------------------------------------------------------- */

static const crn_opt cast_opts[] = {{.name = "dtype", .type = CRN_OPT_VALUE, .offset = OFF(dtype), .doc = "new type"}, CRN_OPT_END};

static crn_status cast_infer(crn_build *b, crn_layer *l) {
  shape_cfg *c = l->cfg;
  bool known;
  CRN_TRY(input(b, l, &l->out, &known));
  if (!crn_v_is_str(c->dtype) || !crn_dtype_from_name(crn_v_cstr(c->dtype), &c->to)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dtype': unknown type");
  if (!known) return CRN_OK;
  l->out.dtype = c->to;
  if (l->out.sparse && !crn_dtype_is_int(c->to)) {
    l->out.sparse = false;
    l->out.sparse_dim = NULL;
    l->out.feature_axis = -1;
    l->out.feature_explicit = true;
  }
  return CRN_OK;
}

static crn_status cast_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const shape_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (!d) return r->err->code;
  const crn_tmpl t = l->out;
  *out = *d;
  out->t = t;
  out->pre = NULL;
  out->pre_act = NULL;
  out->v = crn_cast(r, d->v, c->to == CRN_F32 ? r->real : c->to);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_shape[] = {
    {.name = "expand_dims", .doc = "Adds an axis.", .opts = expand_opts, .cfg_size = sizeof(shape_cfg), .flags = CRN_L_CONCAT | CRN_L_STREAMS, .infer = expand_infer, .forward = expand_forward},
    {.name = "squeeze", .doc = "Removes axes of size 1.", .opts = squeeze_opts, .cfg_size = sizeof(shape_cfg), .flags = CRN_L_CONCAT | CRN_L_MAY_STREAM, .infer = squeeze_infer, .forward = squeeze_forward},
    {.name = "swap_axes", .doc = "Exchanges two axes.", .opts = swap_opts, .cfg_size = sizeof(shape_cfg), .flags = CRN_L_CONCAT | CRN_L_STREAMS, .infer = swap_infer, .forward = swap_forward},
    {.name = "split_dims", .doc = "Splits an axis into several.", .opts = split_opts, .cfg_size = sizeof(shape_cfg), .flags = CRN_L_CONCAT | CRN_L_MAY_STREAM, .infer = split_infer, .forward = split_forward},
    {.name = "merge_dims", .doc = "Merges axes into one.", .opts = merge_opts, .cfg_size = sizeof(shape_cfg), .flags = CRN_L_CONCAT | CRN_L_MAY_STREAM, .infer = merge_infer, .forward = merge_forward},
    {.name = "combine_dims", .doc = "Merges axes in the order listed.", .opts = merge_opts, .cfg_size = sizeof(shape_cfg), .flags = CRN_L_CONCAT | CRN_L_MAY_STREAM, .infer = merge_infer, .forward = merge_forward},
    {.name = "cast", .doc = "Changes the type of the values.", .opts = cast_opts, .cfg_size = sizeof(shape_cfg), .flags = CRN_L_CONCAT | CRN_L_STREAMS, .infer = cast_infer, .forward = cast_forward},
    {.name = NULL}};
