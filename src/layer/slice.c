/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that cut an axis: slice, slice_nd (layers-2.md).
 */
#include <string.h>

#include "layer/lengths.h"
#include "layer/pieces.h"
#include "layer/shape_list.h"

typedef struct slice_cfg {
  const crn_value *axis, *slice_start, *slice_end, *slice_step;
  const crn_value *start, *size, *min_size, *out_spatial_dim;
  int64_t first, last, step; /* last CRN_UNSET: to the end */
  bool from_end;             /* step is negative and no start given */
  int at;
  double number, size_number, min_number;
  crn_layer *start_layer, *size_layer, *min_layer;
  int64_t n;                        /* fixed size, or -1 */
  const crn_dim *size_dim;          /* dynamic dim that gives the size, or NULL */
  bool arranged;                    /* start has axes: the output is batch-major, see nd_infer */
  int other[CRN_MAX_RANK], n_other; /* axes of start besides batch */
  int before;                       /* input axes between batch and the sliced one, in arranged order */
} slice_cfg;

#define OFF(f) offsetof(slice_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* ---- slice ----------------------------------------------------------------------------------------------------------
 */

static const crn_opt slice_opts[] = {
    OPT(axis, CRN_OPT_VALUE, NULL, .doc = "axis to cut"), OPT(slice_start, CRN_OPT_VALUE, "None", .doc = "first frame"),
    OPT(slice_end, CRN_OPT_VALUE, "None", .doc = "frame after the last; negative: from the end"),
    OPT(slice_step, CRN_OPT_VALUE, "None", .doc = "take every n-th frame; negative: backwards"), CRN_OPT_END};

static crn_status slice_numbers(crn_build *b, crn_layer *l, slice_cfg *c) {
  c->first = 0;
  c->last = CRN_UNSET;
  c->step = 1;
  if ((!crn_v_is_none(c->slice_start) && !crn_v_to_int(c->slice_start, &c->first)) ||
      (!crn_v_is_none(c->slice_end) && !crn_v_to_int(c->slice_end, &c->last)) ||
      (!crn_v_is_none(c->slice_step) && !crn_v_to_int(c->slice_step, &c->step)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "options 'slice_start', 'slice_end' and 'slice_step': expected integers");
  if (c->first < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'slice_start' must not be negative");
  if (c->step == 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'slice_step' must not be 0");
  if (c->step < 0) {
    c->from_end = crn_v_is_none(c->slice_start);
    if (!c->from_end && c->last != CRN_UNSET && c->last < 0)
      return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                            "not implemented: negative 'slice_step' with 'slice_start' and a negative 'slice_end'");
  }
  return CRN_OK;
}

static int64_t stepped(int64_t n, int64_t step) {
  const int64_t s = step < 0 ? -step : step;
  return n <= 0 ? 0 : (n + s - 1) / s;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Frames of an array of size n that are taken: the first of them, in the order of the result, and how many. */
static int64_t slice_size(const slice_cfg *c, int64_t n, int64_t *first) {
  if (c->step > 0) {
    *first = least(c->first, n);
    if (c->last != CRN_UNSET) n = c->last < 0 ? n + c->last : least(c->last, n);
    return stepped(n - c->first, c->step);
  }
  int64_t before = c->last == CRN_UNSET ? -1 : c->last < 0 ? n + c->last : c->last; /* the frame that ends it */
  if (before < -1) before = -1;
  *first = c->from_end ? n - 1 : least(c->first, n - 1);
  return stepped(*first - before, c->step);
}

/* The result's dim. A dynamic axis keeps being one unless the numbers alone tell the size. */
static crn_status slice_dim(crn_build *b, crn_layer *l, slice_cfg *c, const crn_dim *old, const crn_dim **out) {
  const int64_t step = c->step < 0 ? -c->step : c->step;
  const bool all = (c->step > 0 ? !c->first : c->from_end) && c->last == CRN_UNSET;
  int64_t first, size = -1;
  *out = old;
  if (old->size < 0 && all)
    return step == 1 ? CRN_OK : crn_changed_dim(b, l, old, -1, "slice", "ceil_div", step, 0, 0, out);
  if (old->size >= 0)
    size = slice_size(c, old->size, &first);
  else if (c->step < 0 && !c->from_end)
    size = stepped(c->first - (c->last == CRN_UNSET ? -1 : c->last), c->step);
  else if (c->step < 0 && c->last < 0)
    size = stepped(-c->last - 1, c->step);
  else if (c->step > 0 && c->last >= 0)
    size = stepped(c->last - c->first, c->step);
  if (size >= 0) return crn_changed_dim(b, l, old, size, "slice", "slice", 0, 0, 0, out);
  const int64_t end = c->last == CRN_UNSET ? 0 : c->last;
  return crn_changed_dim(b, l, old, -1, "slice", "slice", c->first, end, c->step, out);
}

static crn_status slice_infer(crn_build *b, crn_layer *l) {
  slice_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(slice_numbers(b, l, c));
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at));
  const crn_dim *old = l->out.dims[c->at], *d = old;
  if (old->kind == CRN_DIM_BATCH) return CRN_OK;
  if (old->size >= 0 && c->last > old->size)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'slice_end' is %lld, but the axis has size %lld",
                          (long long)c->last, (long long)old->size);
  l->ahead = NULL;
  if (crn_streams_along(l, old) && (c->step < 0 || c->last != CRN_UNSET))
    l->ahead = "it counts frames from the end, or gives an axis of fixed size";
  l->causal = !l->ahead;
  CRN_TRY(slice_dim(b, l, c, old, &d));
  const crn_dim *given = l->common.out_dim;
  if (given && given->size == d->size) d = crn_dim_as_kind(crn_build_dims(b), given, old->kind);
  l->out.dims[c->at] = d;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_tensor *sliced(crn_run *r, const slice_cfg *c, crn_tensor *v, int axis) {
  int64_t first;
  const int64_t n = slice_size(c, v->shape[axis], &first);
  if (c->step > 0) return crn_slice(r, v, axis, first, n, c->step);
  const int64_t last = n ? first + (n - 1) * c->step : 0;
  return crn_reverse(r, crn_slice(r, v, axis, last, n, -c->step), axis);
}

/* Lengths of the other axes belong to sequences that may be gone. */
static const crn_data *sliced_lengths(crn_exec *x, const slice_cfg *c, const crn_data *len) {
  crn_run *r = crn_exec_run(x);
  const int batch = len ? crn_tmpl_batch_axis(&len->t) : -1;
  crn_data *d = batch >= 0 ? crn_data_copy(r, len) : NULL;
  if (!d) return len;
  d->v = sliced(r, c, len->v, batch);
  return d->v ? d : NULL;
}

/* Where the numbers alone tell the size, the array of n frames must have them all. */
static crn_status fits(crn_exec *x, const crn_layer *l, int64_t n) {
  const slice_cfg *c = l->cfg;
  const bool start = c->step < 0 && !c->from_end;
  const int64_t need = start                  ? c->first + 1
                       : c->last == CRN_UNSET ? 0
                       : c->last >= 0         ? c->last
                       : c->step < 0          ? -c->last - 1
                                              : 0;
  if (need <= n) return CRN_OK;
  return crn_exec_fail(x, l, "option '%s' is %lld, but the array has only %lld frames",
                       start ? "slice_start" : "slice_end", (long long)(start ? c->first : c->last), (long long)n);
}

/* From a frame on, in a stream. */
static crn_status slice_piece(crn_exec *x, crn_layer *l, crn_data *out, const crn_data *in) {
  const slice_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_windows w = {.extent = c->first + 1, .stride = c->step};
  crn_windowed p;
  CRN_TRY(crn_stream_windows(x, l, &w, in->v, c->at, in->len[c->at], &p));
  out->v = crn_slice(r, p.v, c->at, p.n ? c->first : 0, p.n, c->step);
  out->len[c->at] = p.len;
  return out->v ? CRN_OK : r->err->code;
}

static crn_status slice_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const slice_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  const bool batch = in->t.dims[c->at]->kind == CRN_DIM_BATCH;
  for (int i = 0; i < in->t.n; i++) out->len[i] = batch ? sliced_lengths(x, c, in->len[i]) : in->len[i];
  if (crn_streaming(x) && crn_streams_along(l, in->t.dims[c->at])) return slice_piece(x, l, out, in);
  if (!batch && out->t.dims[c->at]->size >= 0) {
    CRN_TRY(fits(x, l, in->v->shape[c->at]));
    out->len[c->at] = NULL;
  } else if (!batch && in->len[c->at]) {
    const int64_t end = c->last == CRN_UNSET ? 0
                        : c->step < 0        ? -c->last - 1
                                             : c->last,
                  step = c->step < 0 ? -c->step : c->step;
    out->len[c->at] = crn_lengths_affine(x, in->len[c->at], 1, step - 1 - c->first + end, step);
  }
  out->v = sliced(r, c, in->v, c->at);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- slice_nd -------------------------------------------------------------------------------------------------------
 */

static const crn_opt nd_opts[] = {
    OPT(start, CRN_OPT_VALUE, "None", .doc = "first frame: a number, or a layer"),
    OPT(size, CRN_OPT_VALUE, NULL, .doc = "frames: a number, None for all that remain, a layer or a dim"),
    OPT(min_size, CRN_OPT_VALUE, "None", .doc = "lower limit of the size"),
    OPT(axis, CRN_OPT_VALUE, "\"T\"", .doc = "axis to cut"),
    OPT(out_spatial_dim, CRN_OPT_VALUE, "None", .doc = "dim of the result"),
    CRN_OPT_END};

static crn_status nd_refs(crn_build *b, crn_layer *l) {
  slice_cfg *c = l->cfg;
  c->size_number = -1;
  CRN_TRY(crn_number_or_layer(b, l, c->start, "start", &c->number, &c->start_layer));
  if (c->size->kind != CRN_V_DIM) CRN_TRY(crn_number_or_layer(b, l, c->size, "size", &c->size_number, &c->size_layer));
  CRN_TRY(crn_number_or_layer(b, l, c->min_size, "min_size", &c->min_number, &c->min_layer));
  if (c->min_layer) return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: 'min_size' as a layer");
  if (c->number < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'start' must not be a negative number");
  return CRN_OK;
}

static crn_status nd_new_dim(crn_build *b, crn_layer *l, slice_cfg *c, const crn_dim *old, const crn_dim **out) {
  const crn_dim *given = c->size->kind == CRN_V_DIM ? crn_dim_of_value(crn_build_dims(b), c->size) : NULL;
  c->n = given ? given->size : c->size_layer || crn_v_is_none(c->size) ? -1 : (int64_t)c->size_number;
  c->size_dim = given && given->size < 0 ? given : NULL;
  (void)old;
  *out = given ? given : crn_layer_dim(b, l, "slice_nd", CRN_DIM_SPATIAL, c->n);
  return crn_given_dim(b, l, c->out_spatial_dim, 0, *out, out);
}

static crn_status nd_infer(crn_build *b, crn_layer *l) {
  slice_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  const crn_tmpl *s = c->start_layer && c->start_layer->out_known ? &c->start_layer->out : NULL;
  l->out_known = known && (s || !c->start_layer);
  if (!l->out_known) return CRN_OK;
  c->arranged = s && s->n > 0;
  c->n_other = 0;
  if (s && !crn_dtype_is_int(s->dtype))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'start': layer '%s' must hold integers", c->start_layer->path);
  if (c->arranged) crn_tmpl_to_batch_major(&l->out, NULL);
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at));
  const crn_dim *old = l->out.dims[c->at], *d;
  if (old->kind == CRN_DIM_BATCH) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': not the batch axis");
  CRN_TRY(nd_new_dim(b, l, c, old, &d));
  if (!c->arranged) {
    if (c->n < 0 && old->size >= 0 && crn_v_is_none(c->size) && !c->start_layer)
      d = crn_layer_dim(b, l, "slice_nd", CRN_DIM_SPATIAL, old->size - (int64_t)c->number);
    crn_tmpl_remove(&l->out, c->at);
    return d ? crn_tmpl_insert(&l->out, c->at, d, crn_build_err(b)) : crn_err_memory(crn_build_err(b));
  }
  if (crn_tmpl_batch_axis(&l->out) != 0)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                          "not implemented: 'start' with axes for a source without a batch axis");
  crn_tmpl_remove(&l->out, c->at);
  int at = c->at;
  for (int i = 0; i < s->n; i++) {
    if (s->dims[i]->kind == CRN_DIM_BATCH) continue;
    if (crn_tmpl_find(&l->out, s->dims[i]) >= 0)
      return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                            "not implemented: 'start' shares an axis other than the batch axis with the source");
    c->other[c->n_other++] = i;
    CRN_TRY(crn_tmpl_insert(&l->out, at++, s->dims[i], crn_build_err(b)));
  }
  return crn_tmpl_insert(&l->out, at, d, crn_build_err(b));
}

/* start as int32 [B, its other axes]; lengths of those axes go to len. */
static crn_tensor *start_of(crn_exec *x, crn_layer *l, const slice_cfg *c, int64_t B, const crn_data **len) {
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_value_of(x, l, c->start_layer);
  if (!d) return NULL;
  const int batch = crn_tmpl_batch_axis(&d->t);
  int perm[CRN_MAX_RANK], n = 0;
  int64_t shape[CRN_MAX_RANK] = {B};
  if (batch >= 0) perm[n++] = batch;
  for (int i = 0; i < c->n_other; i++) {
    perm[n++] = c->other[i];
    shape[1 + i] = d->v->shape[c->other[i]];
    len[i] = d->len[c->other[i]];
  }
  crn_tensor *v = n > 1 ? crn_transpose(r, d->v, perm) : d->v;
  if (v && v->dtype != CRN_I32) v = crn_cast(r, v, CRN_I32);
  return crn_broadcast_to(r, v, 1 + c->n_other, shape);
}

/* Lengths of the dim that gives the size; a scalar if it has the same size for all. */
static const crn_data *dim_lengths(crn_exec *x, crn_layer *l, const slice_cfg *c) {
  crn_run *r = crn_exec_run(x);
  int64_t size;
  const crn_data *len;
  if (!crn_dim_in_run(x, l, c->size_dim, &size, &len)) {
    (void)crn_exec_fail(x, l, "option 'size': nothing in this run has dim '%s'", c->size_dim->name);
    return NULL;
  }
  const crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  return len ? len : crn_data_new(r, &t, crn_t_scalar(r, CRN_I32, (double)size));
}

/* Integers, one per entry of start. */
static crn_tensor *per_start_of(crn_exec *x, crn_layer *l, const crn_data *d, const crn_tensor *start) {
  crn_run *r = crn_exec_run(x);
  if (!d) return NULL;
  if (d->t.n > start->rank) return (void)crn_exec_fail(x, l, "option 'size' has more axes than 'start'"), NULL;
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < start->rank; i++) shape[i] = i < d->t.n ? d->v->shape[i] : 1;
  crn_tensor *v = crn_t_reshape(r, d->v, start->rank, shape);
  if (v && v->dtype != CRN_I32) v = crn_cast(r, v, CRN_I32);
  return crn_broadcast_to(r, v, start->rank, start->shape);
}

static crn_tensor *per_start(crn_exec *x, crn_layer *l, crn_layer *of, const crn_tensor *start) {
  return per_start_of(x, l, crn_value_of(x, l, of), start);
}

typedef struct nd_plan {
  crn_tensor *start, *len; /* int32, shape of start */
  crn_tensor *size;        /* frames per entry, or NULL: fixed */
  int64_t n, T;            /* frames of the result's array, of the input's */
} nd_plan;

/* How long the result is, per entry of start: what remains, at least min_size. */
static crn_status nd_sizes(crn_exec *x, crn_layer *l, const slice_cfg *c, nd_plan *p) {
  crn_run *r = crn_exec_run(x);
  p->n = c->n;
  if (c->n >= 0) return CRN_OK;
  crn_tensor *size;
  if (c->size_dim)
    size = per_start_of(x, l, dim_lengths(x, l, c), p->start);
  else
    size = c->size_layer ? per_start(x, l, c->size_layer, p->start) : crn_sub(r, p->len, p->start);
  size = crn_binary(r, CRN_B_MAXIMUM, size, crn_t_scalar(r, CRN_I32, c->min_number > 0 ? c->min_number : 0));
  if (!size) return r->err->code;
  p->size = size;
  p->n = 0;
  for (int64_t i = 0; i < crn_t_size(size); i++)
    if (crn_t_i32(size)[i] > p->n) p->n = crn_t_i32(size)[i];
  return CRN_OK;
}

/* Frames to take: [start's axes, n]; T means the zero frame behind the array. */
static crn_tensor *nd_indices(crn_run *r, const nd_plan *p) {
  int64_t shape[CRN_MAX_RANK];
  const int rank = p->start->rank;
  const int64_t entries = crn_t_size(p->start);
  memcpy(shape, p->start->shape, sizeof(shape));
  shape[rank] = p->n;
  crn_tensor *idx = crn_t_new(r, CRN_I32, rank + 1, shape);
  for (int64_t e = 0; idx && e < entries; e++) {
    const int64_t start = crn_t_i32(p->start)[e], len = crn_t_i32(p->len)[e],
                  n = p->size ? crn_t_i32(p->size)[e] : p->n;
    for (int64_t k = 0; k < p->n; k++) {
      const int64_t t = start + k;
      crn_t_i32(idx)[e * p->n + k] = (int32_t)(t < 0 || t >= len || k >= n ? p->T : t);
    }
  }
  return idx;
}

static crn_status nd_by_layer(crn_exec *x, crn_layer *l, crn_data *out, const crn_data *in) {
  const slice_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const int at = c->at;
  const int64_t B = in->v->shape[0];
  nd_plan p = {.T = in->v->shape[at]};
  const crn_data *start_len[CRN_MAX_RANK] = {NULL};
  p.start = start_of(x, l, c, B, start_len);
  crn_tensor *len = p.start ? crn_data_lens(r, in, at) : NULL;
  if (!len) return r->err->code;
  int64_t one[CRN_MAX_RANK] = {B};
  for (int i = 1; i < p.start->rank; i++) one[i] = 1;
  p.len = crn_broadcast_to(r, crn_t_reshape(r, len, p.start->rank, one), p.start->rank, p.start->shape);
  if (!p.len) return r->err->code;
  CRN_TRY(nd_sizes(x, l, c, &p));
  int perm[CRN_MAX_RANK] = {0, at}, k = 2; /* [B, axis, before, after] */
  for (int i = 1; i < in->t.n; i++)
    if (i != at) perm[k++] = i;
  crn_tensor *v = crn_pad(r, crn_transpose(r, in->v, perm), 1, 0, 1, "constant", 0);
  v = crn_gather_batched(r, v, nd_indices(r, &p), 1); /* [B, other, size, before, after] */
  if (!v) return r->err->code;
  const int before = at - 1, fresh = c->n_other + 1;
  k = 1;
  perm[0] = 0;
  for (int i = 0; i < before; i++) perm[k++] = 1 + fresh + i;
  for (int i = 0; i < fresh; i++) perm[k++] = 1 + i;
  for (int i = 1 + fresh + before; i < v->rank; i++) perm[k++] = i;
  out->v = crn_transpose(r, v, perm);
  for (int i = 1; i < at; i++) out->len[i] = in->len[i];
  for (int i = 0; i < c->n_other; i++) out->len[at + i] = start_len[i];
  for (int i = at + 1; i < in->t.n; i++) out->len[i + c->n_other] = in->len[i];
  if (!p.size) return out->v ? CRN_OK : r->err->code;
  crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
  lt.dims[lt.n++] = out->t.dims[0];
  for (int i = 0; i < c->n_other; i++) lt.dims[lt.n++] = out->t.dims[at + i];
  out->len[at + c->n_other] = crn_data_new(r, &lt, p.size);
  return out->v && out->len[at + c->n_other] ? CRN_OK : r->err->code;
}

/* start is a number or a scalar: the axis stays in place. */
static crn_status nd_in_place(crn_exec *x, crn_layer *l, crn_data *out, const crn_data *in) {
  const slice_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const int at = c->at;
  int64_t start = (int64_t)c->number, T = in->v->shape[at], n = c->n;
  crn_tensor *v = in->v;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  if (c->start_layer) {
    const crn_data *s = crn_value_of(x, l, c->start_layer);
    if (!s) return r->err->code;
    start = (int64_t)crn_t_get(s->v, 0);
    crn_tensor *mask = crn_data_mask(r, in, at);
    if (mask) v = crn_mask_fill(r, v, mask, 0);
  }
  const crn_data *len = NULL;
  if (c->size_layer || c->size_dim) {
    const crn_data *s = c->size_dim ? dim_lengths(x, l, c) : crn_value_of(x, l, c->size_layer);
    crn_data *sized = s ? crn_data_copy(r, s) : NULL;
    if (!sized) return r->err->code;
    if (sized->v->dtype != CRN_I32) sized->v = crn_cast(r, sized->v, CRN_I32);
    sized->t.dtype = CRN_I32;
    sized->v = crn_binary(r, CRN_B_MAXIMUM, sized->v, crn_t_scalar(r, CRN_I32, c->min_number > 0 ? c->min_number : 0));
    if (!sized->v) return r->err->code;
    n = 0;
    for (int64_t i = 0; i < crn_t_size(sized->v); i++)
      if (crn_t_i32(sized->v)[i] > n) n = crn_t_i32(sized->v)[i];
    len = sized;
  } else if (n < 0) {
    n = T - start > (int64_t)c->min_number ? T - start : (int64_t)c->min_number;
    crn_data *rest = in->len[at] ? crn_data_copy(r, in->len[at]) : NULL;
    if (rest)
      rest->v = crn_binary(r, CRN_B_MAXIMUM, crn_add_scalar(r, rest->v, (double)-start),
                           crn_t_scalar(r, CRN_I32, c->min_number > 0 ? c->min_number : 0));
    len = rest;
  }
  out->len[at] = len;
  const int64_t left = start < 0 ? -start : 0, right = start + n > T ? start + n - T : 0;
  if (left || right) v = crn_pad(r, v, at, left, right, "constant", 0);
  out->v = crn_slice(r, v, at, start + left, n, 1);
  return out->v ? CRN_OK : r->err->code;
}

static crn_status nd_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const slice_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (in && c->arranged) in = crn_data_batch_major(r, in);
  if (!in) return r->err->code;
  return c->arranged ? nd_by_layer(x, l, out, in) : nd_in_place(x, l, out, in);
}

#define ROW(n, d, o, f, ...)                                                                                           \
  {                                                                                                                    \
    .name = n, .doc = d, .opts = o, .cfg_size = sizeof(slice_cfg),                                                     \
    .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_NEEDS_FUTURE | (f), __VA_ARGS__                                \
  }
const crn_layer_desc crn_family_slice[] = {ROW("slice", "Cuts an axis at fixed positions.", slice_opts,
                                               CRN_L_MAY_STREAM, .infer = slice_infer, .forward = slice_forward),
                                           ROW("slice_nd", "Cuts an axis at positions of each sequence.", nd_opts, 0,
                                               .refs = nd_refs, .infer = nd_infer, .forward = nd_forward),
                                           {.name = NULL}};
