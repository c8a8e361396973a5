/* SPDX-License-Identifier: Apache-2.0
 *
 * unflatten_nd: an axis that holds a sequence's cells row by row is split into several axes, by sizes per sequence.
 */
#include <stdio.h>
#include <string.h>

#include "layer/layer.h"

typedef struct nd_cfg {
  const crn_value *in_dim, *out_dims, *same_sizes;
  int64_t num_axes;
  crn_layer *sizes, *same[CRN_MAX_RANK];
  int at;
} nd_cfg;

#define OFF(f) offsetof(nd_cfg, f)

/* perm: batch, axis, the rest. */
static void batch_then_axis(const crn_tmpl *t, int axis, int *perm) {
  const int batch = crn_tmpl_batch_axis(t);
  int n = 0;
  perm[n++] = batch;
  perm[n++] = axis;
  for (int i = 0; i < t->n; i++)
    if (i != batch && i != axis) perm[n++] = i;
}

static const crn_opt nd_opts[] = {
    {.name = "sizes", .type = CRN_OPT_LAYER, .offset = OFF(sizes), .doc = "layer [B, num_axes]: sizes per sequence"},
    {.name = "num_axes",
     .type = CRN_OPT_INT,
     .offset = OFF(num_axes),
     .min = 1,
     .max = 6,
     .doc = "number of axes that the axis is split into"},
    {.name = "in_dim", .type = CRN_OPT_VALUE, .offset = OFF(in_dim), .dflt = "\"T\"", .doc = "axis that is split"},
    {.name = "out_dims", .type = CRN_OPT_VALUE, .offset = OFF(out_dims), .dflt = "None", .doc = "dims of the new axes"},
    {.name = "declare_same_sizes_as",
     .type = CRN_OPT_VALUE,
     .offset = OFF(same_sizes),
     .dflt = "None",
     .doc = "new axis -> layer whose time axis it is"},
    CRN_OPT_END};

static crn_status nd_refs(crn_build *b, crn_layer *l) {
  nd_cfg *c = l->cfg;
  const crn_value *v = c->same_sizes;
  for (size_t i = 0; crn_v_is_dict(v) && i < v->u.dict.n; i++) {
    const crn_value *key = v->u.dict.keys[i];
    int64_t axis = -1;
    if (crn_v_is_str(key) && crn_v_cstr(key)[0] >= '0' && crn_v_cstr(key)[0] <= '9' && !crn_v_cstr(key)[1])
      axis = crn_v_cstr(key)[0] - '0'; /* keys of JSON dicts are strings */
    else
      (void)crn_v_to_int(key, &axis);
    if (axis < 0 || axis >= c->num_axes || !crn_v_is_str(v->u.dict.vals[i]))
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "option 'declare_same_sizes_as': expected axis numbers and layer names");
    CRN_TRY(crn_layer_ref(b, l, crn_v_cstr(v->u.dict.vals[i]), CRN_EDGE_DATA, "declare_same_sizes_as", &c->same[axis]));
  }
  return CRN_OK;
}

static crn_status nd_dim(crn_build *b, crn_layer *l, const nd_cfg *c, int axis, const crn_dim **d) {
  char slot[24];
  (void)snprintf(slot, sizeof(slot), "axis:%d", axis);
  *d = NULL;
  if (c->same[axis])
    *d = crn_tmpl_time(&c->same[axis]->out);
  else if (crn_v_is_seq(c->out_dims))
    *d = crn_dim_of_value(crn_build_dims(b), crn_v_at(c->out_dims, (size_t)axis));
  else
    *d = crn_layer_dim(b, l, slot, CRN_DIM_SPATIAL, -1);
  return *d ? CRN_OK : crn_layer_fail(b, l, CRN_E_CONFIG, "axis %d has no dim", axis);
}

static crn_status nd_infer(crn_build *b, crn_layer *l) {
  nd_cfg *c = l->cfg;
  const crn_tmpl *in = crn_source_tmpl(l, 0);
  int perm[CRN_MAX_RANK];
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  l->out_known = in && c->sizes->out_known;
  for (int i = 0; i < c->num_axes; i++) l->out_known &= !c->same[i] || c->same[i]->out_known;
  if (!l->out_known) return CRN_OK;
  const crn_tmpl *sizes = &c->sizes->out;
  CRN_TRY(crn_layer_axis(b, l, in, c->in_dim, "in_dim", &c->at));
  if (in->dims[c->at]->kind == CRN_DIM_BATCH || crn_tmpl_batch_axis(in) < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source needs a batch axis and another one that is split");
  if (sizes->n != 2 || crn_tmpl_batch_axis(sizes) < 0 || !crn_dtype_is_int(sizes->dtype) ||
      sizes->dims[crn_tmpl_batch_axis(sizes) == 0 ? 1 : 0]->size != c->num_axes)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'sizes': expected integers [B, %lld]", (long long)c->num_axes);
  if (crn_v_is_seq(c->out_dims) && (int64_t)crn_v_len(c->out_dims) != c->num_axes)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_dims': expected %lld dims", (long long)c->num_axes);
  batch_then_axis(in, c->at, perm);
  l->out = *in;
  l->out.time_explicit = false;
  crn_tmpl_permute(&l->out, perm);
  for (int i = 0; i < c->num_axes; i++) {
    const crn_dim *d;
    CRN_TRY(nd_dim(b, l, c, i, &d));
    if (i == 0)
      l->out.dims[1] = d;
    else
      CRN_TRY(crn_tmpl_insert(&l->out, 1 + i, d, crn_build_err(b)));
  }
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* Frame of the source for each cell, 0 outside of a sequence's sizes: y[b, i, j] = x[b, i·size_2 + j]. */
static crn_status nd_index(crn_exec *x, crn_layer *l, const crn_tensor *sizes, int n, const int64_t *d, int64_t T,
                           crn_tensor *index) {
  const int64_t B = sizes->shape[0], cells = crn_t_count(n, d);
  for (int64_t b = 0; b < B; b++)
    for (int64_t cell = 0; cell < cells; cell++) {
      int64_t rest = cell, step = 1, frame = 0;
      bool inside = true;
      for (int a = n; a-- > 0;) {
        const int64_t size = (int64_t)crn_t_get(sizes, b * n + a), at = rest % d[a];
        rest /= d[a];
        inside &= at < size;
        frame += at * step;
        step *= size;
      }
      if (inside && frame >= T)
        return crn_exec_fail(x, l, "the sizes of sequence %lld need frame %lld, the source has %lld", (long long)b,
                             (long long)frame, (long long)T);
      crn_t_i32(index)[b * cells + cell] = (int32_t)(inside ? frame : 0);
    }
  return CRN_OK;
}

static crn_status nd_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const nd_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_source(x, l, 0), *sizes = crn_data_batch_major(r, crn_value_of(x, l, c->sizes));
  int perm[CRN_MAX_RANK];
  if (!in || !sizes) return r->err->code;
  batch_then_axis(&in->t, c->at, perm);
  in = crn_data_permute(r, in, perm);
  const int n = (int)c->num_axes;
  const int64_t B = in->v->shape[0], T = in->v->shape[1];
  int64_t shape[CRN_MAX_RANK] = {B};
  crn_tensor *sv = sizes->v->dtype == CRN_I32 ? sizes->v : crn_cast(r, sizes->v, CRN_I32);
  if (!sv) return r->err->code;
  if (sv->shape[0] != B)
    return crn_exec_fail(x, l, "sizes are for %lld sequences, there are %lld", (long long)sv->shape[0], (long long)B);
  crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
  lt.dims[lt.n++] = l->out.dims[0];
  for (int a = 0; a < n; a++) {
    int64_t max = 0;
    for (int64_t b = 0; b < B; b++)
      if (crn_t_i32(sv)[b * n + a] > max) max = crn_t_i32(sv)[b * n + a];
    shape[1 + a] = max;
    crn_tensor *column = crn_slice(r, sv, 1, a, 1, 1);
    out->len[1 + a] = column ? crn_data_new(r, &lt, crn_t_reshape(r, column, 1, &B)) : NULL;
  }
  for (int i = 2; i < in->t.n; i++) {
    shape[n - 1 + i] = in->v->shape[i];
    out->len[n - 1 + i] = in->len[i];
  }
  crn_tensor *index = crn_t_new(r, CRN_I32, 1 + n, shape);
  if (!index) return r->err->code;
  CRN_TRY(nd_index(x, l, sv, n, shape + 1, T, index));
  out->v = crn_gather_batched(r, in->v, index, 1);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_unflatten[] = {{.name = "unflatten_nd",
                                                .doc = "Splits an axis by sizes per sequence.",
                                                .opts = nd_opts,
                                                .cfg_size = sizeof(nd_cfg),
                                                .flags = CRN_L_NEEDS_FUTURE,
                                                .refs = nd_refs,
                                                .infer = nd_infer,
                                                .forward = nd_forward},
                                               {.name = NULL}};
