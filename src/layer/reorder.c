/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that reorder axes or regroup them by dims: transpose, reshape (layers-2.md).
 */
#include <string.h>

#include "layer/layer.h"

typedef struct reorder_cfg {
  const crn_value *perm, *in_dims, *out_dims;
  crn_layer_list extra_deps;
  int order[CRN_MAX_RANK]; /* of the input */
  int from[CRN_MAX_RANK];  /* reshape: input axis whose size and lengths an output axis has, -1: fixed */
  int place, n_in, n_out;
} reorder_cfg;

#define OFF(f) offsetof(reorder_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* ---- transpose ------------------------------------------------------------------------------------------------------
 */

static const crn_opt transpose_opts[] = {
    OPT(perm, CRN_OPT_VALUE, NULL, .doc = "dict of target axis and source axis, or all axes in the new order"),
    CRN_OPT_END};

static crn_status perm_of_dict(crn_build *b, crn_layer *l, reorder_cfg *c) {
  const crn_tmpl *t = &l->out;
  bool taken[CRN_MAX_RANK] = {false};
  for (int i = 0; i < t->n; i++) c->order[i] = -1;
  for (size_t i = 0; i < c->perm->u.dict.n; i++) {
    int to, from;
    int64_t place;
    const crn_value *key = c->perm->u.dict.keys[i];
    if (key->kind == CRN_V_INT && crn_v_to_int(key, &place)) {
      if (place < 0) place += t->n;
      if (place < 0 || place >= t->n) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'perm': no such position");
      to = (int)place;
    } else
      CRN_TRY(crn_layer_axis(b, l, t, key, "perm", &to));
    CRN_TRY(crn_layer_axis(b, l, t, c->perm->u.dict.vals[i], "perm", &from));
    if (taken[from] || c->order[to] >= 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'perm': an axis is named twice");
    c->order[to] = from;
    taken[from] = true;
  }
  for (int i = 0, from = 0; i < t->n; i++) {
    if (c->order[i] >= 0) continue;
    while (taken[from]) from++;
    c->order[i] = from;
    taken[from] = true;
  }
  return CRN_OK;
}

static crn_status transpose_infer(crn_build *b, crn_layer *l) {
  reorder_cfg *c = l->cfg;
  bool known;
  int n;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (crn_v_is_dict(c->perm))
    CRN_TRY(perm_of_dict(b, l, c));
  else {
    CRN_TRY(crn_layer_axes(b, l, &l->out, c->perm, "perm", c->order, &n));
    if (n != l->out.n)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'perm': the list names %d of %d axes", n, l->out.n);
  }
  const bool time = l->out.time_axis >= 0, feature = l->out.feature_axis >= 0;
  l->out.time_explicit = l->out.feature_explicit = true; /* roles move along */
  crn_tmpl_permute(&l->out, c->order);
  l->out.time_explicit = time;
  l->out.feature_explicit = feature;
  return CRN_OK;
}

static crn_status transpose_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const reorder_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  out->v = crn_transpose(r, in->v, c->order);
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[c->order[i]];
  return out->v ? CRN_OK : r->err->code;
}

/* ---- reshape --------------------------------------------------------------------------------------------------------
 */

static const crn_opt reshape_opts[] = {
    OPT(in_dims, CRN_OPT_VALUE, NULL, .doc = "axes to regroup, in order"),
    OPT(out_dims, CRN_OPT_VALUE, NULL, .doc = "dims, or axes of the input, that they become"),
    OPT(extra_deps, CRN_OPT_LAYERS, "[]", .edge = CRN_EDGE_CONTROL, .doc = "layers that are made before"), CRN_OPT_END};

/* Output dim k: a dim object, or that of an input axis. */
static crn_status reshape_dim(crn_build *b, crn_layer *l, const crn_tmpl *in, const crn_value *v, int *from,
                              const crn_dim **out) {
  *from = -1;
  if (v->kind != CRN_V_DIM) {
    CRN_TRY(crn_layer_axis(b, l, in, v, "out_dims", from));
    *out = in->dims[*from];
    return CRN_OK;
  }
  *out = crn_dim_of_value(crn_build_dims(b), v);
  if (!*out) return crn_err_memory(crn_build_err(b));
  *from = crn_tmpl_find(in, *out);
  if (*from < 0 && (*out)->size < 0)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                          "not implemented: option 'out_dims': dynamic dim '%s', which is not in the input",
                          (*out)->name);
  return CRN_OK;
}

static crn_status reshape_infer(crn_build *b, crn_layer *l) {
  reorder_cfg *c = l->cfg;
  bool known, used[CRN_MAX_RANK] = {false};
  crn_tmpl in;
  int axes[CRN_MAX_RANK], k = 0;
  const crn_dim *dims[CRN_MAX_RANK];
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(crn_layer_axes(b, l, &in, c->in_dims, "in_dims", axes, &c->n_in));
  c->n_out = crn_v_is_seq(c->out_dims) ? (int)crn_v_len(c->out_dims) : 0;
  if (c->n_in < 1 || c->n_out < 1 || in.n - c->n_in + c->n_out > CRN_MAX_RANK)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "options 'in_dims' and 'out_dims': expected lists of dims");
  int64_t before = 1, after = 1;
  c->place = axes[0];
  for (int i = 0; i < c->n_in; i++) {
    used[axes[i]] = true;
    if (axes[i] < c->place) c->place = axes[i];
    before = before < 0 || in.dims[axes[i]]->size < 0 ? -1 : before * in.dims[axes[i]]->size;
  }
  for (int i = 0; i < c->n_out; i++) {
    CRN_TRY(reshape_dim(b, l, &in, crn_v_at(c->out_dims, (size_t)i), &c->from[i], &dims[i]));
    after = after < 0 || dims[i]->size < 0 ? -1 : after * dims[i]->size;
  }
  if (before >= 0 && after >= 0 && before != after)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_dims': %lld entries, but 'in_dims' have %lld",
                          (long long)after, (long long)before);
  l->out = in;
  l->out.n = 0;
  for (int i = 0; i <= in.n; i++) { /* the others in order, the group at the smallest position */
    if (i == c->place) {
      for (int o = 0; o < c->n_in; o++) c->order[k++] = axes[o];
      for (int o = 0; o < c->n_out; o++) l->out.dims[l->out.n++] = dims[o];
    }
    if (i == in.n || used[i]) continue;
    c->order[k++] = i;
    l->out.dims[l->out.n++] = in.dims[i];
  }
  const crn_dim *time = crn_tmpl_time(&in), *feature = crn_tmpl_feature(&in);
  l->out.time_axis = time ? crn_tmpl_find(&l->out, time) : -1;
  l->out.feature_axis = feature ? crn_tmpl_find(&l->out, feature) : -1;
  l->out.time_explicit = in.time_explicit && l->out.time_axis >= 0;
  l->out.feature_explicit = in.feature_explicit && l->out.feature_axis >= 0;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status reshape_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const reorder_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  for (int o = 0; o < out->t.n; o++) {
    const int g = o - c->place;
    const int from = g >= 0 && g < c->n_out ? c->from[g] : c->order[g < 0 ? o : o - c->n_out + c->n_in];
    shape[o] = out->t.dims[o]->size >= 0 ? out->t.dims[o]->size : in->v->shape[from];
    out->len[o] = from >= 0 ? in->len[from] : NULL;
  }
  out->v = crn_t_reshape(r, crn_transpose(r, in->v, c->order), out->t.n, shape);
  return out->v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, f, ...)                                                                                           \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(reorder_cfg), .flags = CRN_L_CONCAT | (f), __VA_ARGS__ }
const crn_layer_desc crn_family_reorder[] = {
    ROW("transpose", "Reorders axes.", transpose_opts, 0, .infer = transpose_infer, .forward = transpose_forward),
    ROW("reshape", "Regroups axes into others.", reshape_opts, CRN_L_READS_PADDING, .infer = reshape_infer,
        .forward = reshape_forward),
    {.name = NULL}};
