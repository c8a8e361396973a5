/* SPDX-License-Identifier: Apache-2.0
 *
 * time_chunking and time_unchunking: overlapping chunks of an axis, stacked in the batch, and back (layers-2.md).
 */
#include <string.h>

#include "layer/layer.h"

typedef struct chunk_cfg {
  int64_t chunk_size, chunk_step;
  const crn_value *axis;
  crn_layer *chunking_layer;
  int at; /* of the input */
} chunk_cfg;

#define OFF(f) offsetof(chunk_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

static const crn_opt chunk_opts[] = {
    OPT(chunk_size, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "frames of a chunk"),
    OPT(chunk_step, CRN_OPT_INT, NULL, .min = 1, .max = 1e9, .doc = "frames from one chunk's begin to the next"),
    OPT(axis, CRN_OPT_VALUE, "\"T\"", .doc = "axis to cut"), CRN_OPT_END};

static const crn_opt unchunk_opts[] = {
    OPT(chunking_layer, CRN_OPT_LAYER, NULL, .doc = "the time_chunking layer to undo"), CRN_OPT_END};

/* Input axes in the order [first, second, the rest]. */
static void order_of(const crn_tmpl *t, int first, int second, int perm[CRN_MAX_RANK]) {
  int k = 2;
  perm[0] = first;
  perm[1] = second;
  for (int i = 0; i < t->n; i++)
    if (i != first && i != second) perm[k++] = i;
}

static void keep_roles(crn_tmpl *t, const int *perm) {
  t->time_explicit = t->feature_explicit = true;
  crn_tmpl_permute(t, perm);
  t->time_explicit = t->feature_explicit = false;
}

/* ---- time_chunking --------------------------------------------------------------------------------------------------
 */

static crn_status chunk_infer(crn_build *b, crn_layer *l) {
  chunk_cfg *c = l->cfg;
  crn_dims *dims = crn_build_dims(b);
  bool known;
  int perm[CRN_MAX_RANK];
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  const int batch = crn_tmpl_batch_axis(&l->out);
  const bool fe = l->out.feature_explicit;
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at));
  if (batch < 0 || c->at == batch)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source needs a batch axis, and 'axis' must be another one");
  order_of(&l->out, c->at, batch, perm);
  keep_roles(&l->out, perm);
  l->out.feature_explicit = fe;
  const crn_dim *old = l->out.dims[0], *d = l->common.out_dim;
  if (!d || d->size >= 0) d = crn_dim_derive(dims, "chunk", old, NULL, c->chunk_size, c->chunk_step, 0, old->kind, -1);
  l->out.dims[0] = d;
  l->out.dims[1] =
      crn_dim_derive(dims, "chunk_batch", l->out.dims[1], old, c->chunk_size, c->chunk_step, 0, CRN_DIM_BATCH, -1);
  if (!l->out.dims[0] || !l->out.dims[1]) return crn_err_memory(crn_build_err(b));
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static int64_t n_chunks(const chunk_cfg *c, int64_t T) {
  const int64_t over = T - c->chunk_size + c->chunk_step - 1;
  return (over > 0 ? over : 0) / c->chunk_step + 1;
}

/* Frames of each chunk in its sequence [B, n * size], T = the zero frame behind; lengths [B * n]. */
static crn_status chunk_indices(crn_run *r, const chunk_cfg *c, crn_tensor *len, int64_t T, int64_t n, crn_tensor **idx,
                                crn_tensor **lens) {
  const int64_t B = len->shape[0], size = c->chunk_size, entries = B * n, shape[2] = {B, n * size};
  *idx = crn_t_new(r, CRN_I32, 2, shape);
  *lens = crn_t_new(r, CRN_I32, 1, &entries);
  if (!*idx || !*lens) return r->err->code;
  for (int64_t e = 0; e < entries; e++) {
    const int64_t begin = e % n * c->chunk_step, rest = crn_t_i32(len)[e / n] - begin;
    crn_t_i32(*lens)[e] = (int32_t)(rest < 0 ? 0 : rest > size ? size : rest);
    for (int64_t k = 0; k < size; k++) crn_t_i32(*idx)[e * size + k] = (int32_t)(k < rest ? begin + k : T);
  }
  return CRN_OK;
}

static crn_status chunk_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const chunk_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  int perm[CRN_MAX_RANK];
  order_of(&in->t, crn_tmpl_batch_axis(&in->t), c->at, perm);
  crn_tensor *v = crn_transpose(r, in->v, perm), *len = crn_data_lens(r, in, c->at), *idx, *lens;
  if (!v || !len) return r->err->code;
  const int64_t B = v->shape[0], T = v->shape[1], n = n_chunks(c, T);
  CRN_TRY(chunk_indices(r, c, len, T, n, &idx, &lens));
  v = crn_gather_batched(r, crn_pad(r, v, 1, 0, 1, "constant", 0), idx, 1);
  if (!v) return r->err->code;
  int64_t shape[CRN_MAX_RANK] = {B * n, c->chunk_size};
  for (int i = 2; i < v->rank; i++) shape[i] = v->shape[i];
  v = crn_t_reshape(r, v, v->rank, shape);
  for (int i = 0; i < in->t.n; i++) perm[i] = i < 2 ? 1 - i : i;
  out->v = crn_transpose(r, v, perm);
  crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  t.dims[t.n++] = out->t.dims[1];
  out->len[0] = crn_data_new(r, &t, lens);
  order_of(&in->t, c->at, crn_tmpl_batch_axis(&in->t), perm);
  for (int i = 2; i < in->t.n; i++) { /* other lengths once per chunk */
    crn_tensor *other = in->len[perm[i]] ? crn_data_lens(r, in, perm[i]) : NULL;
    if (in->len[perm[i]]) out->len[i] = crn_data_new(r, &t, crn_repeat0(r, other, n));
  }
  return out->v && !crn_run_failed(r) ? CRN_OK : r->err->code;
}

/* ---- time_unchunking ------------------------------------------------------------------------------------------------
 */

static crn_status unchunk_infer(crn_build *b, crn_layer *l) {
  chunk_cfg *c = l->cfg;
  bool known;
  int perm[CRN_MAX_RANK];
  if (strcmp(c->chunking_layer->desc->name, "time_chunking") || c->chunking_layer->n_src < 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'chunking_layer': layer '%s' is of class %s, not time_chunking",
                          c->chunking_layer->path, c->chunking_layer->desc->name);
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  const crn_layer *from = c->chunking_layer->src[0];
  l->out_known = known && c->chunking_layer->out_known && from->out_known;
  if (!l->out_known) return CRN_OK;
  crn_layer *needed; /* its lengths come back */
  CRN_TRY(crn_layer_need(b, l, from->index, &needed));
  const chunk_cfg *cc = c->chunking_layer->cfg;
  const int batch = crn_tmpl_batch_axis(&l->out), time = crn_tmpl_find(&l->out, c->chunking_layer->out.dims[0]);
  if (batch < 0 || time < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source does not have the axes of the chunks of layer '%s'",
                          c->chunking_layer->path);
  const bool fe = l->out.feature_explicit;
  c->at = time;
  order_of(&l->out, time, batch, perm);
  keep_roles(&l->out, perm);
  l->out.feature_explicit = fe;
  l->out.dims[0] = from->out.dims[cc->at];
  l->out.dims[1] = from->out.dims[crn_tmpl_batch_axis(&from->out)];
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* For each frame, place in the chunks laid side by side of the j-th latest chunk that holds it; n * size: none. */
static crn_tensor *places(crn_run *r, const chunk_cfg *cc, int64_t T, int64_t n, int64_t j) {
  crn_tensor *idx = crn_t_new(r, CRN_I32, 1, &T);
  for (int64_t t = 0; idx && t < T; t++) {
    const int64_t last = t / cc->chunk_step < n - 1 ? t / cc->chunk_step : n - 1, chunk = last - j,
                  k = t - chunk * cc->chunk_step;
    crn_t_i32(idx)[t] = (int32_t)(chunk < 0 || k >= cc->chunk_size ? n * cc->chunk_size : chunk * cc->chunk_size + k);
  }
  return idx;
}

static crn_status unchunk_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const chunk_cfg *c = l->cfg, *cc = c->chunking_layer->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l), *from = in ? crn_value_of(x, l, c->chunking_layer->src[0]) : NULL;
  if (!in || !from) return r->err->code;
  int perm[CRN_MAX_RANK];
  order_of(&in->t, crn_tmpl_batch_axis(&in->t), c->at, perm);
  crn_tensor *v = crn_transpose(r, in->v, perm), *sum = NULL, *count = NULL;
  const int64_t B = crn_data_n_seqs(from), T = from->v->shape[cc->at], n = n_chunks(cc, T), size = cc->chunk_size;
  if (!v) return r->err->code;
  if (v->shape[0] != B * n || v->shape[1] != size)
    return crn_exec_fail(x, l, "the source does not have the chunks of layer '%s'", c->chunking_layer->path);
  int64_t shape[CRN_MAX_RANK] = {B, n * size}, along[CRN_MAX_RANK] = {1, T};
  for (int i = 2; i < v->rank; i++) {
    shape[i] = v->shape[i];
    along[i] = 1;
  }
  v = crn_pad(r, crn_t_reshape(r, v, v->rank, shape), 1, 0, 1, "constant", 0);
  crn_tensor *there = crn_pad(r, crn_t_full(r, r->real, 1, &shape[1], 1), 0, 0, 1, "constant", 0);
  for (int64_t j = 0; j < (size + cc->chunk_step - 1) / cc->chunk_step; j++) {
    crn_tensor *idx = places(r, cc, T, n, j), *part = crn_gather(r, v, idx, 1), *one = crn_gather(r, there, idx, 0);
    sum = j ? crn_add(r, sum, part) : part;
    count = j ? crn_add(r, count, one) : one;
  }
  count = crn_binary(r, CRN_B_MAXIMUM, count, crn_t_scalar(r, r->real, 1));
  v = crn_div(r, sum, crn_t_reshape(r, count, in->t.n, along));
  for (int i = 0; i < in->t.n; i++) perm[i] = i < 2 ? 1 - i : i;
  out->v = crn_transpose(r, v, perm);
  out->len[0] = from->len[cc->at];
  if (!out->v) return r->err->code;
  crn_tensor *mask = crn_data_mask(r, out, 0);
  if (mask) out->v = crn_mask_fill(r, out->v, mask, 0);
  return out->v && !crn_run_failed(r) ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, ...)                                                                                              \
  {                                                                                                                    \
    .name = n, .doc = d, .opts = o, .cfg_size = sizeof(chunk_cfg), .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE,         \
    __VA_ARGS__                                                                                                        \
  }
const crn_layer_desc crn_family_chunks[] = {ROW("time_chunking",
                                                "Cuts an axis into overlapping chunks, stacked in the batch.",
                                                chunk_opts, .infer = chunk_infer, .forward = chunk_forward),
                                            ROW("time_unchunking", "Puts the chunks of time_chunking together again.",
                                                unchunk_opts, .infer = unchunk_infer, .forward = unchunk_forward),
                                            {.name = NULL}};
