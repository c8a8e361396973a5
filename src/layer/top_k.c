/* SPDX-License-Identifier: Apache-2.0
 *
 * top_k: the largest entries of an axis (or of several axes together) and where they were.
 */
#include <stdio.h>
#include <string.h>

#include "layer/layer.h"

typedef struct top_cfg {
  const crn_value *axis, *k;
  const crn_dim *k_dim;
  int sorted;
  crn_layer *k_layer;
  int64_t fixed;
  int at[CRN_MAX_RANK], n_at; /* axes of the source that are searched */
} top_cfg;

#define OFF(f) offsetof(top_cfg, f)
static const crn_opt top_opts[] = {
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .doc = "axis to search, or a list of axes"},
    {.name = "k", .type = CRN_OPT_VALUE, .offset = OFF(k), .doc = "how many entries, a number or a layer"},
    {.name = "k_dim", .type = CRN_OPT_DIM, .offset = OFF(k_dim), .dflt = "None", .doc = "dim of the new axis"},
    {.name = "sorted",
     .type = CRN_OPT_BOOL,
     .offset = OFF(sorted),
     .dflt = "True",
     .doc = "largest first (always the case)"},
    CRN_OPT_END};

static crn_status top_refs(crn_build *b, crn_layer *l) {
  top_cfg *c = l->cfg;
  if (crn_v_is_str(c->k)) return crn_layer_ref(b, l, crn_v_cstr(c->k), CRN_EDGE_DATA, "k", &c->k_layer);
  if (crn_v_to_int(c->k, &c->fixed) && c->fixed >= 1) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'k': expected an integer >= 1 or a layer name, got %s",
                        crn_v_kind_name(c->k));
}

static bool searched(const top_cfg *c, int axis) {
  for (int i = 0; i < c->n_at; i++)
    if (c->at[i] == axis) return true;
  return false;
}

static crn_status find_axes(crn_build *b, crn_layer *l, top_cfg *c, const crn_tmpl *in) {
  int64_t size = 1;
  c->n_at = 1;
  if (!crn_v_is_seq(c->axis))
    CRN_TRY(crn_layer_axis(b, l, in, c->axis, "axis", &c->at[0]));
  else
    CRN_TRY(crn_layer_axes(b, l, in, c->axis, "axis", c->at, &c->n_at));
  if (!c->n_at) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': names no axis");
  for (int i = 0; i < c->n_at; i++)
    size = in->dims[c->at[i]]->size < 0 || size < 0 ? -1 : size * in->dims[c->at[i]]->size;
  if (!c->k_layer && size >= 0 && c->fixed > size)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'k' is %lld, but there are only %lld entries",
                          (long long)c->fixed, (long long)size);
  return CRN_OK;
}

static crn_status add_indices(crn_build *b, crn_layer *l, const top_cfg *c, const crn_tmpl *in) {
  for (int i = 0; i < c->n_at; i++) {
    char name[24] = "indices";
    if (crn_v_is_seq(c->axis)) (void)snprintf(name, sizeof(name), "indices%d", i);
    crn_tmpl t = l->out;
    t.dtype = CRN_I32;
    t.sparse = true;
    t.sparse_dim = in->dims[c->at[i]];
    t.vocab = NULL;
    CRN_TRY(crn_layer_add_sub(b, l, name, &t));
  }
  return CRN_OK;
}

static crn_status top_infer(crn_build *b, crn_layer *l) {
  top_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (in.sparse) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be dense");
  CRN_TRY(find_axes(b, l, c, &in));
  const crn_dim *d = c->k_dim;
  if (!d) d = crn_layer_dim(b, l, "k", CRN_DIM_SPATIAL, c->k_layer ? -1 : c->fixed);
  if (!d) return crn_err_memory(crn_build_err(b));
  if (!c->k_layer && d->size >= 0 && d->size != c->fixed)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'k_dim' has size %lld, but 'k' is %lld", (long long)d->size,
                          (long long)c->fixed);
  l->out = in;
  for (int i = in.n; i-- > 0;)
    if (searched(c, i)) crn_tmpl_remove(&l->out, i);
  const bool had_time = l->out.time_axis >= 0;
  CRN_TRY(crn_tmpl_insert(&l->out, l->out.n, d, crn_build_err(b)));
  if (!had_time) { /* k frames are no time, even when their number isn't fixed */
    l->out.time_axis = -1;
    l->out.time_explicit = true;
  }
  l->out.feature_axis = -1;
  l->out.feature_explicit = true;
  return add_indices(b, l, c, &in);
}

static crn_status number(crn_exec *x, crn_layer *l, const top_cfg *c, int64_t *k, const crn_data **len) {
  *k = c->fixed;
  if (!c->k_layer) return CRN_OK;
  const crn_data *d = crn_value_of(x, l, c->k_layer);
  if (!d) return crn_exec_run(x)->err->code;
  if (!crn_dtype_is_int(d->v->dtype)) return crn_exec_fail(x, l, "option 'k': the layer must give integers");
  *k = 0;
  for (int64_t i = 0; i < crn_t_size(d->v); i++)
    if ((int64_t)crn_t_get(d->v, i) > *k) *k = (int64_t)crn_t_get(d->v, i);
  crn_data *n = crn_data_copy(crn_exec_run(x), d);
  if (n && d->v->dtype != CRN_I32) n->v = crn_cast(crn_exec_run(x), d->v, CRN_I32);
  *len = n;
  return n && n->v ? CRN_OK : crn_exec_run(x)->err->code;
}

/* Index of one axis from the flat index over all searched axes: (flat / inner) mod size. */
static crn_tensor *axis_index(crn_run *r, crn_tensor *flat, int64_t inner, int64_t size) {
  crn_tensor *in = crn_t_full(r, CRN_I32, 0, NULL, (double)inner), *n = crn_t_full(r, CRN_I32, 0, NULL, (double)size);
  return crn_binary(r, CRN_B_MOD, crn_binary(r, CRN_B_FLOORDIV, flat, in), n);
}

static crn_status give_indices(crn_exec *x, crn_layer *l, const top_cfg *c, const crn_data *in, crn_tensor *flat,
                               const crn_data *out) {
  crn_run *r = crn_exec_run(x);
  int64_t inner = 1;
  for (int i = c->n_at; i-- > 0;) {
    const int64_t size = in->v->shape[c->at[i]];
    crn_data *d = crn_data_new(r, &l->subs[i].t, c->n_at > 1 && size ? axis_index(r, flat, inner, size) : flat);
    if (!d || !d->v) return r->err->code;
    for (int a = 0; a < l->out.n; a++) d->len[a] = out->len[a];
    d->beam = out->beam;
    CRN_TRY(crn_sub_out(x, l, i, d));
    inner *= size;
  }
  return CRN_OK;
}

static crn_status top_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const top_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l), *len = NULL;
  int64_t k, n = 1, shape[CRN_MAX_RANK];
  if (!in) return r->err->code;
  CRN_TRY(number(x, l, c, &k, &len));
  int perm[CRN_MAX_RANK], m = 0;
  for (int i = 0; i < in->t.n; i++) {
    if (searched(c, i)) continue;
    out->len[m] = in->len[i];
    shape[m] = in->v->shape[i];
    perm[m++] = i;
  }
  const int last = m;
  crn_tensor *v = in->v;
  for (int i = 0; i < c->n_at; i++) {
    crn_tensor *mask = crn_data_mask(r, in, c->at[i]); /* padding is the lowest number */
    if (mask)
      v = crn_mask_fill(r, v, mask,
                        crn_dtype_is_float(v->dtype)
                            ? (v->dtype == CRN_F64 ? -1.7976931348623157e308 : -3.4028234663852886e38)
                            : -2147483648.0);
    perm[m++] = c->at[i];
    n *= in->v->shape[c->at[i]];
  }
  shape[last] = n;
  if (k > n) return crn_exec_fail(x, l, "k is %lld, but there are only %lld entries", (long long)k, (long long)n);
  crn_tensor *flat = NULL;
  v = v ? crn_transpose(r, v, perm) : NULL;
  out->v = crn_top_k(r, v ? crn_t_reshape(r, v, last + 1, shape) : NULL, k, &flat);
  if (!out->v || !flat) return r->err->code;
  out->len[last] = len;
  return give_indices(x, l, c, in, flat, out);
}

const crn_layer_desc crn_family_top_k[] = {{.name = "top_k",
                                            .doc = "Gives the largest entries of an axis and their indices.",
                                            .opts = top_opts,
                                            .cfg_size = sizeof(top_cfg),
                                            .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,
                                            .refs = top_refs,
                                            .infer = top_infer,
                                            .forward = top_forward},
                                           {.name = NULL}};
