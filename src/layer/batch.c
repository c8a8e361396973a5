/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of a sequence as entries of the batch, and back: flatten_batch (without padding), unflatten_batch,
 * split_batch_time (undoes merge_dims of batch and time).
 *
 * flatten_batch makes a batch dim that names it (its layer's index is an argument of the dim); through that,
 * unflatten_batch finds how the frames were packed: a further output of flatten_batch, the mask of real frames.
 */
#include <string.h>

#include "layer/layer.h"

typedef struct batch_cfg {
  const crn_value *axis, *base_name;
  int batch_major;
  crn_layer *base;        /* split_batch_time */
  const crn_dim *dims[2]; /* flatten_batch: batch and axis that were merged */
  crn_layer *packed_by;   /* unflatten_batch: the flatten_batch layer */
  int at;
} batch_cfg;

#define OFF(f) offsetof(batch_cfg, f)

/* Axis `first`, then `second`, then the rest. */
static void two_first(const crn_tmpl *t, int first, int second, int *perm) {
  int n = 0;
  perm[n++] = first;
  perm[n++] = second;
  for (int i = 0; i < t->n; i++)
    if (i != first && i != second) perm[n++] = i;
}

/* ---- flatten_batch --------------------------------------------------------------------------------------------------
 */

static const crn_opt flatten_opts[] = {
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .dflt = "\"T\"", .doc = "axis that joins the batch"},
    {.name = "batch_major",
     .type = CRN_OPT_BOOL,
     .offset = OFF(batch_major),
     .dflt = "True",
     .doc = "sequence after sequence; False: frame 0 of all, then frame 1, …"},
    CRN_OPT_END};

static crn_status flatten_infer(crn_build *b, crn_layer *l) {
  batch_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  const int batch = crn_tmpl_batch_axis(&in);
  CRN_TRY(crn_layer_axis(b, l, &in, c->axis, "axis", &c->at));
  if (batch < 0 || !crn_dim_is_dynamic(in.dims[c->at]))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': a batch axis and an axis of dynamic size are needed");
  c->dims[0] = in.dims[batch];
  c->dims[1] = in.dims[c->at];
  const crn_dim *d = crn_dim_derive(crn_build_dims(b), "flatten_batch", c->dims[0], c->dims[1], c->batch_major > 0,
                                    l->index, 0, CRN_DIM_BATCH, -1);
  if (!d) return crn_err_memory(crn_build_err(b));
  int perm[CRN_MAX_RANK];
  two_first(&in, batch, c->at, perm);
  l->out = in;
  crn_tmpl_permute(&l->out, perm);
  crn_tmpl_remove(&l->out, 1);
  l->out.dims[0] = d;
  crn_tmpl_update_roles(&l->out);
  crn_tmpl mask = crn_tmpl_scalar(CRN_BOOL);
  mask.dims[mask.n++] = c->dims[0];
  mask.dims[mask.n++] = c->dims[1];
  mask.time_axis = 1;
  mask.feature_explicit = true;
  return crn_layer_add_sub(b, l, "frames", &mask);
}

/* Row of each real frame in the packed order, n_rows for padding: int32 [B, T]. */
static crn_tensor *packed_rows(crn_run *r, const crn_tensor *mask, bool batch_major, int64_t *n_rows) {
  const int64_t B = mask->shape[0], T = mask->shape[1];
  crn_tensor *rows = crn_t_new(r, CRN_I32, 2, mask->shape);
  int64_t n = 0;
  for (int64_t i = 0; rows && i < B * T; i++) {
    const int64_t at = batch_major ? i : i % B * T + i / B;
    crn_t_i32(rows)[at] = crn_t_bool(mask)[at] ? (int32_t)n++ : -1;
  }
  *n_rows = n;
  for (int64_t i = 0; rows && i < B * T; i++)
    if (crn_t_i32(rows)[i] < 0) crn_t_i32(rows)[i] = (int32_t)n;
  return rows;
}

/* Flat positions b·T + t of the packed frames. */
static crn_tensor *packed_positions(crn_run *r, const crn_tensor *mask, bool batch_major) {
  int64_t n = 0;
  crn_tensor *rows = packed_rows(r, mask, batch_major, &n);
  crn_tensor *pos = rows ? crn_t_new(r, CRN_I32, 1, &n) : NULL;
  for (int64_t i = 0; pos && i < crn_t_size(rows); i++)
    if (crn_t_i32(rows)[i] < n) crn_t_i32(pos)[crn_t_i32(rows)[i]] = (int32_t)i;
  return pos;
}

/* Lengths of another axis, of each sequence, become those of each packed frame. */
static crn_status lengths_per_frame(crn_exec *x, const crn_data *len, const crn_tmpl *bt, const int64_t *sizes,
                                    crn_tensor *pos, const crn_dim *d, const crn_data **to) {
  crn_run *r = crn_exec_run(x);
  const int64_t n = sizes[0] * sizes[1];
  crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  *to = len;
  if (!len || !len->t.n) return CRN_OK;
  crn_tensor *v = crn_data_fit(r, len, bt, crn_exec_version(x), false);
  v = v ? crn_broadcast_to(r, v, 2, sizes) : NULL;
  v = v ? crn_gather(r, crn_t_reshape(r, v, 1, &n), pos, 0) : NULL;
  t.dims[t.n++] = d;
  *to = v ? crn_data_new(r, &t, v) : NULL;
  return *to ? CRN_OK : r->err->code;
}

static crn_status flatten_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const batch_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  if (in->beam) return crn_exec_fail(x, l, "not implemented: on hypotheses of a search");
  int perm[CRN_MAX_RANK];
  two_first(&in->t, crn_tmpl_batch_axis(&in->t), c->at, perm);
  in = crn_data_permute(r, in, perm);
  crn_tensor *mask = crn_data_mask(r, in, 1);
  if (!mask) return crn_run_failed(r) ? r->err->code : crn_exec_fail(x, l, "the axis has no lengths");
  const int64_t sizes[2] = {in->v->shape[0], in->v->shape[1]};
  mask = crn_broadcast_to(r, crn_t_reshape(r, mask, 2, mask->shape), 2, sizes);
  crn_data *m = mask ? crn_data_new(r, &l->subs[0].t, mask) : NULL;
  if (!m) return r->err->code;
  m->len[1] = in->len[1];
  CRN_TRY(crn_sub_out(x, l, 0, m));
  crn_tensor *pos = packed_positions(r, mask, c->batch_major > 0);
  if (!pos) return r->err->code;
  int64_t shape[CRN_MAX_RANK] = {sizes[0] * sizes[1]};
  for (int i = 2; i < in->t.n; i++) {
    shape[i - 1] = in->v->shape[i];
    CRN_TRY(lengths_per_frame(x, in->len[i], &m->t, sizes, pos, l->out.dims[0], &out->len[i - 1]));
  }
  out->v = crn_gather(r, crn_t_reshape(r, in->v, in->t.n - 1, shape), pos, 0);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- unflatten_batch ------------------------------------------------------------------------------------------------
 */

static const crn_opt unflatten_opts[] = {CRN_OPT_END};

static crn_status unflatten_infer(crn_build *b, crn_layer *l) {
  batch_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  c->at = crn_tmpl_batch_axis(&in);
  const crn_dim *d = c->at >= 0 ? in.dims[c->at] : NULL;
  if (!d || !d->op || strcmp(d->op, "flatten_batch"))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source's batch was not made by flatten_batch");
  CRN_TRY(crn_layer_need(b, l, (int)d->p[1], &c->packed_by));
  c->batch_major = d->p[0] != 0;
  l->out = in;
  crn_tmpl_to_batch_major(&l->out, NULL);
  l->out.dims[0] = d->arg[c->batch_major ? 0 : 1];
  CRN_TRY(crn_tmpl_insert(&l->out, 1, d->arg[c->batch_major ? 1 : 0], crn_build_err(b)));
  l->out.time_axis = c->batch_major ? 1 : 0;
  l->out.time_explicit = true;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status unflatten_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const batch_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_data_batch_major(r, crn_input(x, l)), *mask = crn_sub_of(x, l, c->packed_by, 0);
  int64_t n = 0;
  if (!in || !mask) return r->err->code;
  crn_tensor *rows = packed_rows(r, mask->v, c->batch_major, &n);
  if (!rows) return r->err->code;
  if (in->v->shape[0] != n)
    return crn_exec_fail(x, l, "the source has %lld entries, but %lld frames were packed", (long long)in->v->shape[0],
                         (long long)n);
  const int swap[2] = {1, 0};
  if (!c->batch_major) rows = crn_transpose(r, rows, swap);
  out->v = crn_gather(r, crn_pad(r, in->v, 0, 0, 1, "constant", 0), rows, 0);
  out->len[c->batch_major ? 1 : 0] = mask->len[1];
  for (int i = 1; i < in->t.n; i++)
    if (in->len[i] && !in->len[i]->t.n)
      out->len[i + 1] = in->len[i];
    else if (in->len[i])
      return crn_exec_fail(x, l, "not implemented: a second axis with lengths per frame");
  return out->v ? CRN_OK : r->err->code;
}

/* ---- split_batch_time -----------------------------------------------------------------------------------------------
 */

static const crn_opt split_opts[] = {{.name = "base",
                                      .type = CRN_OPT_VALUE,
                                      .offset = OFF(base_name),
                                      .dflt = "\"data\"",
                                      .doc = "layer that has the batch and time axes"},
                                     CRN_OPT_END};

static crn_status split_refs(crn_build *b, crn_layer *l) {
  batch_cfg *c = l->cfg;
  if (!crn_v_is_str(c->base_name)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'base': expected a layer name");
  return crn_layer_ref(b, l, crn_v_cstr(c->base_name), CRN_EDGE_DATA, "base", &c->base);
}

static crn_status split_infer(crn_build *b, crn_layer *l) {
  batch_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known && c->base->out_known;
  if (!l->out_known) return CRN_OK;
  const crn_tmpl *base = &c->base->out;
  const int batch = crn_tmpl_batch_axis(base);
  if (batch < 0 || base->time_axis < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'base': layer '%s' needs a batch and a time axis", c->base->path);
  if (crn_tmpl_batch_axis(&in) < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "the source has no batch axis");
  l->out = in;
  crn_tmpl_to_batch_major(&l->out, NULL);
  l->out.dims[0] = base->dims[batch];
  CRN_TRY(crn_tmpl_insert(&l->out, 1, base->dims[base->time_axis], crn_build_err(b)));
  l->out.time_axis = 1;
  l->out.time_explicit = true;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status split_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const batch_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_data_batch_major(r, crn_input(x, l)), *base = crn_value_of(x, l, c->base);
  if (!in || !base) return r->err->code;
  const int time = base->t.time_axis;
  int64_t shape[CRN_MAX_RANK] = {crn_data_n_seqs(base), base->v->shape[time]};
  if (in->v->shape[0] != shape[0] * shape[1])
    return crn_exec_fail(x, l, "the source has %lld entries, but base has %lld sequences of %lld frames",
                         (long long)in->v->shape[0], (long long)shape[0], (long long)shape[1]);
  out->len[1] = base->len[time];
  for (int i = 1; i < in->t.n; i++) {
    shape[i + 1] = in->v->shape[i];
    crn_data *len = crn_data_copy(r, in->len[i]);
    if (len && len->t.n == 1 && len->v->shape[0] == in->v->shape[0]) { /* [B·T] -> [B, T] */
      len->v = crn_t_reshape(r, len->v, 2, shape);
      len->t.dims[0] = l->out.dims[0];
      CRN_TRY(crn_tmpl_insert(&len->t, 1, l->out.dims[1], r->err));
    }
    out->len[i + 1] = len;
  }
  out->v = crn_t_reshape(r, in->v, in->t.n + 1, shape);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_batch[] = {{.name = "flatten_batch",
                                            .doc = "Merges an axis into the batch without padding.",
                                            .opts = flatten_opts,
                                            .cfg_size = sizeof(batch_cfg),
                                            .flags = CRN_L_CONCAT,
                                            .infer = flatten_infer,
                                            .forward = flatten_forward},
                                           {.name = "unflatten_batch",
                                            .doc = "Undoes flatten_batch.",
                                            .opts = unflatten_opts,
                                            .cfg_size = sizeof(batch_cfg),
                                            .flags = CRN_L_CONCAT,
                                            .infer = unflatten_infer,
                                            .forward = unflatten_forward},
                                           {.name = "split_batch_time",
                                            .doc = "Splits a merged batch axis into batch and time.",
                                            .opts = split_opts,
                                            .cfg_size = sizeof(batch_cfg),
                                            .flags = CRN_L_CONCAT,
                                            .refs = split_refs,
                                            .infer = split_infer,
                                            .forward = split_forward},
                                           {.name = NULL}};
