/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that make an axis longer: pad, prefix_in_time, postfix_in_time (layers-2.md).
 */
#include <stdio.h>
#include <string.h>

#include "layer/eval.h"
#include "layer/lengths.h"
#include "layer/pieces.h"
#include "layer/shape_list.h"

typedef struct pad_cfg {
  const crn_value *axes, *padding, *value, *handle_dynamic_dims, *out_dims;
  const char *mode;
  const crn_value *axis, *prefix, *postfix, *repeat;
  crn_layer *size_base;
  crn_layer *layer, *repeat_layer; /* value or postfix; repeat */
  double number;
  int64_t n;
  int at[CRN_MAX_RANK], n_at;
  int64_t left[CRN_MAX_RANK], right[CRN_MAX_RANK];
  bool dynamic;
} pad_cfg;

#define OFF(f) offsetof(pad_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* ---- pad ------------------------------------------------------------------------------------------------------------
 */

static const crn_opt pad_opts[] = {
    OPT(axes, CRN_OPT_VALUE, NULL, .doc = "axes to pad, each described by itself"),
    OPT(padding, CRN_OPT_VALUE, NULL, .doc = "frames on both sides, a pair, or a list of pairs"),
    OPT(value, CRN_OPT_VALUE, "0", .doc = "number or scalar layer to pad with"),
    OPT(mode, CRN_OPT_STR, "\"constant\"", .choices = "constant|reflect|symmetric|replication",
        .doc = "what the new frames hold"),
    OPT(handle_dynamic_dims, CRN_OPT_VALUE, "None",
        .doc = "padding follows each sequence's end; default from behavior_version 21"),
    OPT(out_dims, CRN_OPT_VALUE, "None", .doc = "dims of the padded axes"),
    CRN_OPT_END};

static crn_status pad_refs(crn_build *b, crn_layer *l) {
  pad_cfg *c = l->cfg;
  return crn_number_or_layer(b, l, c->value, "value", &c->number, &c->layer);
}

static bool pair_of(const crn_value *v, int64_t *left, int64_t *right) {
  if (crn_v_to_int(v, left)) {
    *right = *left;
    return *left >= 0;
  }
  return crn_v_is_seq(v) && crn_v_len(v) == 2 && crn_v_to_int(crn_v_at(v, 0), left) &&
         crn_v_to_int(crn_v_at(v, 1), right) && *left >= 0 && *right >= 0;
}

static crn_status pad_axes(crn_build *b, crn_layer *l, pad_cfg *c) {
  const bool list = crn_v_is_seq(c->axes),
             pairs = crn_v_is_seq(c->padding) && crn_v_len(c->padding) && crn_v_is_seq(crn_v_at(c->padding, 0));
  c->n_at = list ? (int)crn_v_len(c->axes) : 1;
  if (c->n_at > CRN_MAX_RANK) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axes': too many axes");
  if (pairs && (int)crn_v_len(c->padding) != c->n_at)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'padding': expected %d pairs, one per axis", c->n_at);
  for (int i = 0; i < c->n_at; i++) {
    CRN_TRY(crn_layer_axis(b, l, &l->out, list ? crn_v_at(c->axes, (size_t)i) : c->axes, "axes", &c->at[i]));
    if (l->out.dims[c->at[i]]->kind == CRN_DIM_BATCH)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axes': the batch axis can't be padded");
    if (!pair_of(pairs ? crn_v_at(c->padding, (size_t)i) : c->padding, &c->left[i], &c->right[i]))
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "option 'padding': expected a number of frames, a pair, or a list of pairs");
  }
  return CRN_OK;
}

static crn_status longer_dim(crn_build *b, crn_layer *l, int axis, int64_t left, int64_t right, const crn_value *given,
                             int i) {
  const crn_dim *old = l->out.dims[axis], *d = old;
  char slot[32];
  (void)snprintf(slot, sizeof(slot), "padded:%d", i);
  if (left || right)
    CRN_TRY(crn_changed_dim(b, l, old, old->size < 0 ? -1 : old->size + left + right, slot, "pad", left, right, 0, &d));
  return crn_given_dim(b, l, given, i, d, &l->out.dims[axis]);
}

static void pad_streams(crn_layer *l, const pad_cfg *c) {
  l->ahead = NULL;
  for (int i = 0; i < c->n_at; i++) {
    if (!crn_streams_along(l, l->out.dims[c->at[i]])) continue;
    if (c->right[i]) l->ahead = "'padding' puts frames behind the last one";
    if (c->left[i] && strcmp(c->mode, "constant")) l->ahead = "'mode' takes the frames in front from later ones";
  }
  l->causal = !l->ahead;
}

static crn_status pad_infer(crn_build *b, crn_layer *l) {
  pad_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(pad_axes(b, l, c));
  pad_streams(l, c);
  c->dynamic = crn_v_is_none(c->handle_dynamic_dims) ? crn_build_version(b) >= 21 : crn_v_truth(c->handle_dynamic_dims);
  for (int i = 0; i < c->n_at; i++) {
    if (c->dynamic && strcmp(c->mode, "constant") && c->right[i] && l->out.dims[c->at[i]]->size < 0)
      return crn_layer_fail(
          b, l, CRN_E_CONFIG,
          "option 'mode': '%s' with right padding of a dynamic axis does not work with 'handle_dynamic_dims'", c->mode);
    CRN_TRY(longer_dim(b, l, c->at[i], c->left[i], c->right[i], c->out_dims, i));
  }
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* Positions of an axis in [begin, end) as a bool mask of the rank. */
static crn_tensor *inside(crn_run *r, int rank, int axis, int64_t size, int64_t begin, int64_t end) {
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < rank; i++) shape[i] = i == axis ? size : 1;
  crn_tensor *pos = crn_t_reshape(r, crn_range(r, CRN_I32, 0, size), rank, shape);
  crn_tensor *lo = crn_binary(r, CRN_B_GREATER_EQUAL, pos, crn_t_scalar(r, CRN_I32, (double)begin));
  return crn_binary(r, CRN_B_LOGICAL_AND, lo, crn_binary(r, CRN_B_LESS, pos, crn_t_scalar(r, CRN_I32, (double)end)));
}

/* What is in front of an axis came with the first piece. */
static bool later_piece(const crn_exec *x, const crn_layer *l, const crn_dim *axis) {
  return crn_streams_along(l, axis) && !crn_stream_first(x, l);
}

static crn_status pad_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const pad_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l), *value = c->layer && in ? crn_value_of(x, l, c->layer) : NULL;
  if (!in || (c->layer && !value)) return r->err->code;
  if (value && value->t.n) return crn_exec_fail(x, l, "option 'value': layer '%s' must be a scalar", c->layer->path);
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  crn_tensor *v = in->v;
  for (int i = 0; i < c->n_at && v; i++) {
    const int a = c->at[i];
    const int64_t T = v->shape[a], left = later_piece(x, l, in->t.dims[a]) ? 0 : c->left[i];
    v = crn_pad(r, v, a, left, c->right[i], c->mode, c->number);
    out->len[a] = crn_lengths_affine(x, out->len[a], 1, left + c->right[i], 1);
    if (!v) break;
    if (strcmp(c->mode, "constant")) continue;
    if (value) v = crn_where(r, inside(r, v->rank, a, v->shape[a], left, left + T), v, value->v);
    if (!c->dynamic || !c->right[i] || !in->len[a]) continue;
    crn_data *d = crn_data_copy(r, out); /* frames up to left + length stay */
    if (!d) return r->err->code;
    d->v = v;
    d->len[a] = crn_lengths_affine(x, in->len[a], 1, c->left[i], 1);
    crn_tensor *keep = crn_data_mask(r, d, a);
    v = value ? crn_where(r, keep, v, value->v) : crn_mask_fill(r, v, keep, c->number);
  }
  crn_stream_pass(x, l, 0);
  out->v = v;
  return v ? CRN_OK : r->err->code;
}

/* ---- prefix_in_time, postfix_in_time --------------------------------------------------------------------------------
 */

static const crn_opt prefix_opts[] = {
    OPT(axis, CRN_OPT_VALUE, "\"T\"", .doc = "axis"),
    OPT(prefix, CRN_OPT_VALUE, "0.0", .doc = "number that the new frames hold"),
    OPT(repeat, CRN_OPT_VALUE, "1", .doc = "number of frames, or a layer that gives it per sequence"),
    OPT(size_base, CRN_OPT_LAYER, "None", .doc = "layer whose time dim the axis gets"), CRN_OPT_END};

static const crn_opt postfix_opts[] = {OPT(axis, CRN_OPT_VALUE, "\"T\"", .doc = "axis"),
                                       OPT(postfix, CRN_OPT_VALUE, "0.0", .doc = "number, or a layer without the axis"),
                                       OPT(repeat, CRN_OPT_VALUE, "1", .doc = "number of frames"), CRN_OPT_END};

static crn_status prefix_refs(crn_build *b, crn_layer *l) {
  pad_cfg *c = l->cfg;
  double n = 0;
  if (!crn_v_to_float(c->prefix, &c->number))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'prefix': expected a number");
  CRN_TRY(crn_number_or_layer(b, l, c->repeat, "repeat", &n, &c->repeat_layer));
  if (n < 0 || (!c->repeat_layer && !crn_v_to_int(c->repeat, &c->n)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'repeat': expected a number of frames");
  return CRN_OK;
}

static crn_status postfix_refs(crn_build *b, crn_layer *l) {
  pad_cfg *c = l->cfg;
  if (!crn_v_to_int(c->repeat, &c->n) || c->n < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'repeat': expected a number of frames");
  return crn_number_or_layer(b, l, c->postfix, "postfix", &c->number, &c->layer);
}

/* Own dim of the axis: out_dim means it here, not the feature. */
static crn_status time_axis_infer(crn_build *b, crn_layer *l, bool *known) {
  pad_cfg *c = l->cfg;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, known));
  l->out_known = *known;
  if (!*known) return CRN_OK;
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at[0]));
  return l->out.dims[c->at[0]]->kind != CRN_DIM_BATCH
             ? CRN_OK
             : crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': not the batch axis");
}

static crn_status prefix_infer(crn_build *b, crn_layer *l) {
  pad_cfg *c = l->cfg;
  bool known;
  CRN_TRY(time_axis_infer(b, l, &known));
  if (!known) return CRN_OK;
  l->causal = !c->repeat_layer;
  if (c->repeat_layer) {
    crn_tmpl_to_batch_major(&l->out, NULL);
    CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at[0]));
    const crn_dim *old = l->out.dims[c->at[0]];
    if (crn_tmpl_batch_axis(&l->out) != 0 || c->at[0] != 1)
      return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                            "not implemented: 'repeat' as a layer when the axis does not follow the batch axis");
    l->out.dims[1] = crn_layer_dim(b, l, "prefix", old->kind, -1);
    if (!l->out.dims[1]) return crn_err_memory(crn_build_err(b));
  } else {
    CRN_TRY(longer_dim(b, l, c->at[0], c->n, 0, NULL, 0));
  }
  crn_dim_kind kind = l->out.dims[c->at[0]]->kind;
  const crn_dim *d = l->common.out_dim;
  if (c->size_base && c->size_base->out_known) d = crn_tmpl_time(&c->size_base->out);
  if (d && d->size == l->out.dims[c->at[0]]->size) l->out.dims[c->at[0]] = crn_dim_as_kind(crn_build_dims(b), d, kind);
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* repeat as a layer: frame t of sequence b is frame t - repeat[b]. */
static crn_status prefix_each(crn_exec *x, crn_layer *l, crn_data *out, const crn_data *in) {
  const pad_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *n = crn_value_of(x, l, c->repeat_layer);
  if (!n) return r->err->code;
  if (n->t.n > 1 || !crn_dtype_is_int(n->t.dtype))
    return crn_exec_fail(x, l, "option 'repeat': layer '%s' must hold one integer per sequence", c->repeat_layer->path);
  const int64_t B = in->v->shape[0], T = in->v->shape[1];
  crn_tensor *rep = crn_broadcast_to(r, n->v->dtype == CRN_I32 ? n->v : crn_cast(r, n->v, CRN_I32), 1, &B);
  crn_data *len = rep ? crn_data_new(r, &n->t, rep) : NULL;
  if (!len) return r->err->code;
  int64_t most = 0;
  for (int64_t i = 0; i < B; i++) {
    if (crn_t_i32(rep)[i] < 0)
      return crn_exec_fail(x, l, "option 'repeat' is negative for sequence %lld", (long long)i);
    if (crn_t_i32(rep)[i] > most) most = crn_t_i32(rep)[i];
  }
  len->t.n = 1;
  len->t.dims[0] = in->t.dims[0];
  len->t.dtype = CRN_I32;
  const int64_t shape[2] = {B, T + most};
  crn_tensor *idx = crn_t_new(r, CRN_I32, 2, shape);
  if (!idx) return r->err->code;
  for (int64_t i = 0; i < B; i++)
    for (int64_t t = 0; t < T + most; t++) {
      const int64_t from = t - crn_t_i32(rep)[i];
      crn_t_i32(idx)[i * (T + most) + t] = (int32_t)(from < 0 ? T : from > T ? T : from); /* T: the padding */
    }
  out->v = crn_gather_batched(r, crn_pad(r, in->v, 1, 0, 1, "constant", c->number), idx, 1);
  out->len[1] = crn_lengths_sum(x, in->len[1], T, len, 0);
  return out->v ? CRN_OK : r->err->code;
}

static crn_status prefix_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const pad_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (in && c->repeat_layer) in = crn_data_batch_major(r, in);
  if (!in) return r->err->code;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  if (c->repeat_layer) return prefix_each(x, l, out, in);
  const int64_t n = later_piece(x, l, in->t.dims[c->at[0]]) ? 0 : c->n;
  crn_stream_pass(x, l, 0);
  out->len[c->at[0]] = crn_lengths_affine(x, in->len[c->at[0]], 1, n, 1);
  out->v = crn_pad(r, in->v, c->at[0], n, 0, "constant", c->number);
  return out->v ? CRN_OK : r->err->code;
}

static crn_status postfix_infer(crn_build *b, crn_layer *l) {
  pad_cfg *c = l->cfg;
  bool known;
  CRN_TRY(time_axis_infer(b, l, &known));
  if (!known) return CRN_OK;
  const crn_dim *old = l->out.dims[c->at[0]];
  l->ahead = crn_streams_along(l, old) ? "its frames come behind the last one" : NULL;
  l->causal = !l->ahead;
  if (c->layer && c->layer->out_known && crn_tmpl_find(&c->layer->out, old) >= 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'postfix': layer '%s' has the axis itself", c->layer->path);
  CRN_TRY(longer_dim(b, l, c->at[0], 0, c->n, NULL, 0));
  const crn_dim *d = l->common.out_dim;
  if (d && d->size == l->out.dims[c->at[0]]->size)
    l->out.dims[c->at[0]] = crn_dim_as_kind(crn_build_dims(b), d, old->kind);
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status postfix_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const pad_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l), *last = c->layer && in ? crn_value_of(x, l, c->layer) : NULL;
  if (!in || (c->layer && !last)) return r->err->code;
  const int a = c->at[0];
  const int64_t T = in->v->shape[a];
  crn_data *d = crn_data_copy(r, in); /* the longer array with the old lengths */
  if (!d) return r->err->code;
  d->v = crn_pad(r, in->v, a, 0, c->n, "constant", 0);
  crn_tensor *keep = d->v && in->len[a] ? crn_data_mask(r, d, a) : inside(r, in->t.n, a, T + c->n, 0, T);
  if (!keep) return r->err->code;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  out->len[a] = crn_lengths_affine(x, in->len[a], 1, c->n, 1);
  if (last)
    out->v = crn_where(r, keep, d->v, crn_data_fit(r, last, &out->t, crn_exec_version(x), false));
  else
    out->v = crn_mask_fill(r, d->v, keep, c->number);
  return out->v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, f, ...)                                                                                           \
  {                                                                                                                    \
    .name = n, .doc = d, .opts = o, .cfg_size = sizeof(pad_cfg), .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | (f),    \
    __VA_ARGS__                                                                                                        \
  }
const crn_layer_desc crn_family_pad[] = {
    ROW("pad", "Pads axes.", pad_opts, CRN_L_MAY_STREAM, .refs = pad_refs, .infer = pad_infer, .forward = pad_forward),
    ROW("prefix_in_time", "Puts constant frames before an axis.", prefix_opts, CRN_L_MAY_STREAM, .refs = prefix_refs,
        .infer = prefix_infer, .forward = prefix_forward),
    ROW("postfix_in_time", "Puts frames behind each sequence.", postfix_opts, CRN_L_NEEDS_FUTURE, .refs = postfix_refs,
        .infer = postfix_infer, .forward = postfix_forward),
    {.name = NULL}};
