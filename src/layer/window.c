/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that look along an axis: window, cumsum, shift_axis. window and cumsum also run once per step of a loop over
 * their axis; then the frames so far are their state.
 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "layer/lengths.h"
#include "layer/pieces.h"

typedef struct window_cfg {
  const crn_value *axis, *window_size, *window_dim, *window_left, *window_right, *out_spatial_dim, *summand;
  const char *padding;
  int64_t stride, amount;
  int reverse, pad, adjust_size_info;
  double pad_value;
  int at;
  bool step, valid, masked; /* masked: mask_padding, padding counts as 0 */
  int64_t w, left, right;
  int place; /* of the window axis in the output */
} window_cfg;

#define OFF(f) offsetof(window_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* ---- window ---------------------------------------------------------------------------------------------------------
 */

static const crn_opt window_opts[] = {
    OPT(window_size, CRN_OPT_VALUE, "None", .doc = "frames of a window"),
    OPT(window_dim, CRN_OPT_VALUE, "None", .doc = "dim of the window axis"),
    OPT(window_left, CRN_OPT_VALUE, "None", .doc = "frames before the frame itself"),
    OPT(window_right, CRN_OPT_VALUE, "None", .doc = "frames after the frame itself"),
    OPT(axis, CRN_OPT_VALUE, "\"T\"", .doc = "axis along which the window moves"),
    OPT(padding, CRN_OPT_STR, "\"same\"", .doc = "same or valid"),
    OPT(stride, CRN_OPT_INT, "1", .min = 1, .max = 1e9, .doc = "keep every n-th window"),
    OPT(out_spatial_dim, CRN_OPT_VALUE, "None", .doc = "dim of the axis afterwards"),
    CRN_OPT_END};

static crn_status window_sizes(crn_build *b, crn_layer *l, window_cfg *c) {
  int64_t w = -1, left = -1, right = -1;
  const crn_value *size = crn_v_is_none(c->window_size) ? c->window_dim : c->window_size;
  if (size->kind == CRN_V_DIM) {
    const crn_dim *d = crn_dim_of_value(crn_build_dims(b), size);
    w = d ? d->size : -1;
  } else if (!crn_v_to_int(size, &w))
    w = -1;
  if (w < 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'window_size' or 'window_dim' must give a size of at least 1");
  c->valid = !strcasecmp(c->padding, "valid");
  if (!c->valid && strcasecmp(c->padding, "same"))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'padding': unknown padding '%s'; there are same and valid",
                          c->padding);
  const bool has_left = !crn_v_is_none(c->window_left), has_right = !crn_v_is_none(c->window_right);
  if (c->valid && (has_left || has_right))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "padding valid allows no 'window_left' and 'window_right'");
  if ((has_left && (!crn_v_to_int(c->window_left, &left) || left < 0)) ||
      (has_right && (!crn_v_to_int(c->window_right, &right) || right < 0)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "options 'window_left' and 'window_right': expected numbers of frames");
  if (!has_left && !has_right) right = w / 2;
  if (!has_left) left = w - 1 - right;
  if (right < 0) right = w - 1 - left;
  if (left < 0 || right < 0 || left + right + 1 != w)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "window_size %lld must be window_left + window_right + 1", (long long)w);
  c->w = w;
  c->left = c->valid ? 0 : left;
  c->right = c->valid ? 0 : right;
  if (c->step && (c->right || c->valid || c->stride != 1))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "inside a loop over its axis it needs window_right 0, padding same and stride 1");
  return CRN_OK;
}

static crn_status window_infer(crn_build *b, crn_layer *l) {
  window_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (crn_v_is_none(c->window_size) && crn_v_is_none(c->window_dim))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'window_size' or 'window_dim' is required");
  crn_tmpl_to_batch_major(&l->out, NULL);
  CRN_TRY(crn_axis_or_step(b, l, &l->out, c->axis, &c->at, &c->step));
  CRN_TRY(window_sizes(b, l, c));
  const crn_dim *w = crn_layer_dim(b, l, "window", CRN_DIM_SPATIAL, c->w);
  CRN_TRY(crn_given_dim(b, l, c->window_dim, 0, w, &w));
  if (c->step) {
    c->place = crn_tmpl_batch_axis(&l->out) >= 0 ? 1 : 0;
    CRN_TRY(crn_tmpl_insert(&l->out, c->place, w, crn_build_err(b)));
    return crn_layer_add_state(b, l, "state", &l->out);
  }
  const crn_dim *old = l->out.dims[c->at], *d = old;
  l->ahead =
      c->right && crn_streams_along(l, old) ? "its windows reach behind the frame itself ('window_right')" : NULL;
  l->causal = !l->ahead;
  const int64_t shrink = c->valid ? c->w - 1 : 0, room = old->size - shrink;
  if (shrink || c->stride > 1)
    CRN_TRY(crn_changed_dim(b, l, old,
                            old->size < 0 ? -1
                            : room <= 0   ? 0
                                          : (room + c->stride - 1) / c->stride,
                            "window:out", shrink ? "window" : "ceil_div", shrink ? shrink : c->stride,
                            shrink ? c->stride : 0, 0, &d));
  CRN_TRY(crn_given_dim(b, l, c->out_spatial_dim, 0, d, &d));
  l->out.dims[c->at] = d;
  l->out.time_explicit = l->out.time_axis >= 0;
  c->place = c->at + 1;
  if (crn_build_version(b) >= 18) { /* the axis first */
    int perm[CRN_MAX_RANK] = {c->at};
    for (int i = 0, k = 1; i < l->out.n; i++)
      if (i != c->at) perm[k++] = i;
    crn_tmpl_permute(&l->out, perm);
    c->place = c->stride > 1 ? 1 : 0;
  }
  return crn_tmpl_insert(&l->out, c->place, w, crn_build_err(b));
}

static crn_status window_step(crn_exec *x, crn_layer *l, crn_data *out, const crn_data *in) {
  const window_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *before = crn_state_in(x, l, 0);
  if (!before) return r->err->code;
  crn_tensor *parts[2] = {crn_slice(r, before->v, c->place, 1, c->w - 1, 1), crn_expand_dims(r, in->v, c->place)};
  out->v = c->w > 1 ? crn_concat(r, 2, parts, c->place) : parts[1];
  for (int i = 0; i < in->t.n; i++) out->len[i < c->place ? i : i + 1] = in->len[i];
  return crn_state_out(x, l, 0, out);
}

static crn_status window_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  const window_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  int64_t shape[CRN_MAX_RANK];
  (void)i;
  if (in) in = crn_data_batch_major(r, in);
  if (!in) return r->err->code;
  for (int k = 0; k <= in->t.n; k++)
    shape[k] = k < c->place ? in->v->shape[k] : k == c->place ? c->w : in->v->shape[k - 1];
  out->v = crn_t_zeros(r, in->v->dtype, in->t.n + 1, shape);
  return out->v ? CRN_OK : r->err->code;
}

/* Frames of all windows (with those of padding), how many windows they are, and of each sequence. */
static crn_status window_frames(crn_exec *x, crn_layer *l, const crn_data *in, int at, crn_windowed *p) {
  const window_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  if (crn_streaming(x) && crn_streams_along(l, in->t.dims[at])) {
    const crn_windows w = {.extent = c->w, .stride = c->stride, .left = c->left};
    return crn_stream_windows(x, l, &w, in->v, at, in->len[at], p);
  }
  const int64_t T = in->v->shape[at], shrink = c->valid ? c->w - 1 : 0;
  p->n = T <= shrink ? 0 : (T - shrink + c->stride - 1) / c->stride;
  p->len = crn_lengths_affine(x, in->len[at], 1, c->stride - 1 - shrink, c->stride);
  p->v = crn_pad(r, in->v, at, c->left, c->right, "constant", 0);
  return p->v ? CRN_OK : r->err->code;
}

static crn_status window_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const window_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (in) in = crn_data_batch_major(r, in);
  if (!in) return r->err->code;
  if (c->step) return window_step(x, l, out, in);
  int at = c->at;
  if (crn_exec_version(x) >= 18) {
    int perm[CRN_MAX_RANK] = {at};
    for (int i = 0, k = 1; i < in->t.n; i++)
      if (i != at) perm[k++] = i;
    if (!(in = crn_data_permute(r, in, perm))) return r->err->code;
    at = 0;
  }
  crn_windowed p;
  CRN_TRY(window_frames(x, l, in, at, &p));
  for (int i = 0; i < in->t.n; i++) out->len[i < c->place ? i : i + 1] = in->len[i];
  const int to = at < c->place ? at : at + 1;
  out->len[to] = p.len;
  crn_tensor **parts = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, c->w);
  if (!parts) return crn_err_memory(r->err);
  if (p.n == 0) { /* no window fits: nothing to cut */
    int64_t shape[CRN_MAX_RANK];
    for (int i = 0; i < out->t.n; i++)
      shape[i] = i == c->place ? c->w : i == to ? 0 : in->v->shape[i < c->place ? i : i - 1];
    out->v = crn_t_zeros(r, in->v->dtype, out->t.n, shape);
    return out->v ? CRN_OK : r->err->code;
  }
  for (int64_t k = 0; k < c->w; k++) parts[k] = crn_slice(r, p.v, at, k, p.n, c->stride);
  out->v = crn_stack(r, (int)c->w, parts, c->place);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- cumsum ---------------------------------------------------------------------------------------------------------
 */

static const crn_opt cumsum_opts[] = {OPT(axis, CRN_OPT_VALUE, "\"T\"", .doc = "axis to sum along"),
                                      OPT(reverse, CRN_OPT_BOOL, "False", .doc = "sum from the array's end"),
                                      {.name = "additional_left_summand_per_element",
                                       .type = CRN_OPT_VALUE,
                                       .offset = OFF(summand),
                                       .dflt = "None",
                                       .doc = "number added to every element before"},
                                      CRN_OPT_END};

static double cumsum_start(const crn_layer *l) {
  double f;
  const crn_value *v = l->common.initial_output;
  if (v && crn_v_to_float(v, &f)) return f;
  return v && crn_v_is_str(v) && !strcmp(crn_v_cstr(v), "ones") ? 1 : 0;
}

static crn_status cumsum_infer(crn_build *b, crn_layer *l) {
  window_cfg *c = l->cfg;
  bool known;
  double f;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (!crn_v_is_none(c->summand) && !crn_v_to_float(c->summand, &f))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                          "not implemented: 'additional_left_summand_per_element' that is not a number");
  c->masked = crn_v_truth(crn_build_config(b, "mask_padding"));
  CRN_TRY(crn_axis_or_step(b, l, &l->out, c->axis, &c->at, &c->step));
  l->ahead = c->reverse > 0 && !c->step && crn_streams_along(l, l->out.dims[c->at]) ? "it sums from the end" : NULL;
  l->causal = !l->ahead;
  if (!c->step) return CRN_OK;
  if (c->reverse > 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'reverse' is not possible inside a loop over the axis");
  return crn_layer_add_state(b, l, "state", &l->out);
}

static crn_status cumsum_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  (void)i;
  if (!in) return r->err->code;
  out->v = crn_t_full(r, in->v->dtype, in->v->rank, in->v->shape, cumsum_start(l));
  return out->v ? CRN_OK : r->err->code;
}

/* Sums go on from those of the piece before, in the precision in which they are added up. */
static crn_tensor *cumsum_piece(crn_exec *x, crn_layer *l, crn_tensor *v, int at) {
  crn_run *r = crn_exec_run(x);
  const bool real = v && crn_dtype_is_float(v->dtype);
  const crn_dtype dtype = v ? v->dtype : CRN_F32;
  crn_tensor *kept = crn_stream_kept(x, l), *sum = real && dtype != CRN_F64 ? crn_cast(r, v, CRN_F64) : v;
  if (!sum || v->shape[at] == 0) return sum ? v : NULL;
  if (kept) sum = crn_concat(r, 2, (crn_tensor *[]){kept, sum}, at);
  sum = crn_cumsum(r, sum, at, false, false);
  if (!sum) return NULL;
  const int64_t n = sum->shape[at], T = v->shape[at];
  if (crn_stream_keep(x, l, crn_slice(r, sum, at, n - 1, 1, 1)) != CRN_OK) return NULL;
  sum = crn_slice(r, sum, at, n - T, T, 1);
  return sum && sum->dtype != dtype ? crn_cast(r, sum, dtype) : sum;
}

static crn_status cumsum_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const window_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  double summand;
  if (!in) return r->err->code;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  crn_tensor *v = in->v;
  if (!crn_v_is_none(c->summand) && crn_v_to_float(c->summand, &summand)) v = crn_add_scalar(r, v, summand);
  if (!c->step) {
    const bool piece = crn_streaming(x) && crn_streams_along(l, in->t.dims[c->at]);
    crn_tensor *mask = c->masked && c->reverse > 0 ? crn_data_mask(r, in, c->at) : NULL;
    if (mask) v = crn_mask_fill(r, v, mask, 0);
    v = piece ? cumsum_piece(x, l, v, c->at) : crn_cumsum(r, v, c->at, false, c->reverse > 0);
    out->v = cumsum_start(l) != 0 ? crn_add_scalar(r, v, cumsum_start(l)) : v;
    return out->v ? CRN_OK : r->err->code;
  }
  const crn_data *before = crn_state_in(x, l, 0);
  out->v = before ? crn_add(r, before->v, v) : NULL;
  return crn_state_out(x, l, 0, out);
}

/* ---- shift_axis -----------------------------------------------------------------------------------------------------
 */

static const crn_opt shift_opts[] = {
    OPT(axis, CRN_OPT_VALUE, NULL, .doc = "axis to move along"),
    OPT(amount, CRN_OPT_INT, NULL, .doc = "frames to the right, negative: to the left"),
    OPT(pad, CRN_OPT_BOOL, "True", .doc = "fill up, so that the size stays"),
    OPT(pad_value, CRN_OPT_FLOAT, "0", .doc = "value to fill up with"),
    OPT(adjust_size_info, CRN_OPT_BOOL, "True", .doc = "lengths move along"),
    CRN_OPT_END};

/* To the right, filled up; or to the left, the first frames dropped. */
static void shift_streams(crn_layer *l, const window_cfg *c, const crn_dim *axis) {
  l->ahead = NULL;
  if (crn_streams_along(l, axis)) {
    if (c->amount < 0 && c->pad > 0) l->ahead = "it gives later frames ('amount' below 0)";
    if (c->amount > 0 && c->pad <= 0) l->ahead = "it leaves out the last frames";
    if (c->amount < 0 && c->adjust_size_info <= 0)
      l->ahead = "without 'adjust_size_info' lengths depend on the longest";
  }
  l->causal = !l->ahead;
}

static crn_status shift_infer(crn_build *b, crn_layer *l) {
  window_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (c->amount == 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'amount' must not be 0");
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at));
  const crn_dim *old = l->out.dims[c->at];
  const bool pad = c->pad > 0, adjust = c->adjust_size_info > 0;
  const int64_t n = c->amount < 0 ? -c->amount : c->amount;
  if (old->kind == CRN_DIM_BATCH)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': the batch axis can't be shifted");
  if (old->size >= 0 && pad && adjust)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'adjust_size_info' must be False for an axis of fixed size that is padded");
  shift_streams(l, c, old);
  if (pad && !adjust) return CRN_OK;
  CRN_TRY(crn_changed_dim(b, l, old, old->size < 0 ? -1 : old->size - n, "shift_axis", "shift", c->amount, pad, adjust,
                          &l->out.dims[c->at]));
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status shift_piece(crn_exec *x, crn_layer *l, crn_data *out, const crn_data *in) {
  const window_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const int at = c->at;
  const int64_t a = c->amount, n = a < 0 ? -a : a, T = in->v->shape[at];
  const crn_windows w = {.extent = n + 1, .stride = 1, .left = a > 0 ? n : 0, .fill = c->pad_value};
  crn_tensor *lens = a > 0 && c->adjust_size_info > 0 ? crn_data_lens(r, in, at) : NULL;
  for (int64_t i = 0; lens && i < crn_t_size(lens); i++)
    if (crn_t_i32(lens)[i] < T)
      return crn_exec_fail(x, l, "not implemented: sequences of different length in a stream, with 'adjust_size_info'");
  crn_windowed p;
  CRN_TRY(crn_stream_windows(x, l, &w, in->v, at, in->len[at], &p));
  out->v = crn_slice(r, p.v, at, a > 0 ? 0 : p.n ? n : 0, p.n, 1);
  out->len[at] = p.len;
  return out->v ? CRN_OK : r->err->code;
}

static crn_status shift_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const window_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  const int64_t T = in->v->shape[c->at], a = c->amount, n = a < 0 ? -a : a, cut = n < T ? n : T;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  if (crn_streaming(x) && crn_streams_along(l, in->t.dims[c->at])) return shift_piece(x, l, out, in);
  crn_tensor *v = crn_slice(r, in->v, c->at, a > 0 ? 0 : cut, T - cut, 1);
  if (c->pad > 0) v = crn_pad(r, v, c->at, a > 0 ? cut : 0, a > 0 ? 0 : cut, "constant", c->pad_value);
  out->v = v;
  const crn_data **len = &out->len[c->at];
  if (c->adjust_size_info > 0 && a < 0)
    *len = crn_lengths_affine(x, *len, 1, a, 1);
  else if (c->adjust_size_info > 0 && c->pad > 0)
    *len = crn_lengths_limit(x, crn_lengths_affine(x, *len, 1, a, 1), T);
  else if (c->pad <= 0)
    *len = crn_lengths_limit(x, *len, T - cut); /* never more than there is */
  return v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, f, ...)                                                                                           \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(window_cfg), .flags = CRN_L_CONCAT | (f), __VA_ARGS__ }
const crn_layer_desc crn_family_window[] = {
    ROW("window", "Adds an axis with the neighbours of each frame.", window_opts,
        CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM, .infer = window_infer, .forward = window_forward,
        .state_init = window_init),
    ROW("cumsum", "Sums up along an axis.", cumsum_opts, CRN_L_READS_PADDING | CRN_L_MAY_STREAM, .infer = cumsum_infer,
        .forward = cumsum_forward, .state_init = cumsum_init),
    ROW("shift_axis", "Moves values along an axis.", shift_opts,
        CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE | CRN_L_MAY_STREAM, .infer = shift_infer, .forward = shift_forward),
    {.name = NULL}};
