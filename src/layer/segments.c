/* SPDX-License-Identifier: Apache-2.0
 *
 * Segmental models (layers-2.md): a sequence of L frames becomes L entries of the batch, the windows of at most w
 * frames that begin at each frame; and what is computed over such windows.
 *
 * The batch dim of the windows is derived from the sequences' dims, so all layers over the same sequences agree, and
 * unsegment_input finds them.
 */
#include <string.h>

#include "layer/lengths.h"
#include "layer/shape_list.h"

typedef struct seg_cfg {
  int64_t window, num_classes, min_length;
  double scale, weight_falloff, model_scale;
  const char *broadcast_axis;
  const crn_value *target_smoothing;
  double *smoothing; /* of odd length n_smoothing, sum 1; NULL: none */
  int64_t n_smoothing;
  bool time_major;
} seg_cfg;

#define OFF(f) offsetof(seg_cfg, f)
#define WINDOW                                                                                                         \
  { .name = "window", .type = CRN_OPT_INT, .offset = OFF(window), .min = 1, .max = 1e6, .doc = "frames at most" }
#define CLASSES                                                                                                        \
  {                                                                                                                    \
    .name = "num_classes", .type = CRN_OPT_INT, .offset = OFF(num_classes), .min = 1, .max = 1e9,                      \
    .doc = "number of classes"                                                                                         \
  }
static const crn_opt input_opts[] = {WINDOW, CRN_OPT_END};
static const crn_opt no_opts[] = {CRN_OPT_END};
static const crn_opt class_opts[] = {WINDOW, CLASSES, CRN_OPT_END};
static const crn_opt length_opts[] = {
    WINDOW,
    {.name = "scale", .type = CRN_OPT_FLOAT, .offset = OFF(scale), .dflt = "1.0", .doc = "no effect"},
    CRN_OPT_END};
static const crn_opt global_opts[] = {WINDOW,
                                      {.name = "weight_falloff",
                                       .type = CRN_OPT_FLOAT,
                                       .offset = OFF(weight_falloff),
                                       .dflt = "1.0",
                                       .min = 0,
                                       .max = 1,
                                       .doc = "share of the rest that each end gets"},
                                      {.name = "target_smoothing",
                                       .type = CRN_OPT_VALUE,
                                       .offset = OFF(target_smoothing),
                                       .dflt = "None",
                                       .doc = "symmetric list of odd length: weights of neighbouring lengths"},
                                      {.name = "min_length",
                                       .type = CRN_OPT_INT,
                                       .offset = OFF(min_length),
                                       .dflt = "1",
                                       .min = 0,
                                       .max = 1e6,
                                       .doc = "shorter ends don't count"},
                                      {.name = "broadcast_axis",
                                       .type = CRN_OPT_STR,
                                       .offset = OFF(broadcast_axis),
                                       .dflt = "\"time\"",
                                       .choices = "time|feature",
                                       .doc = "axis of size 1"},
                                      CRN_OPT_END};
static const crn_opt apply_opts[] = {{.name = "length_model_scale",
                                      .type = CRN_OPT_FLOAT,
                                      .offset = OFF(model_scale),
                                      .dflt = "1.0",
                                      .doc = "exponent of the second source"},
                                     CRN_OPT_END};

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* The windows of a run. */
typedef struct windows {
  int64_t N, *seq, *start, *size; /* [N] */
  crn_tensor *sizes;              /* int32 [N] */
} windows;

static crn_status list_windows(crn_run *r, const crn_tensor *lens, int64_t divisor, int64_t window, windows *w) {
  const int64_t B = crn_t_size(lens);
  w->N = 0;
  for (int64_t b = 0; b < B; b++) w->N += crn_t_i32(lens)[b] / divisor;
  w->seq = CRN_ARENA_ARRAY(&r->arena, int64_t, w->N + 1);
  w->start = CRN_ARENA_ARRAY(&r->arena, int64_t, w->N + 1);
  w->size = CRN_ARENA_ARRAY(&r->arena, int64_t, w->N + 1);
  w->sizes = crn_t_new(r, CRN_I32, 1, &w->N);
  if (!w->seq || !w->start || !w->size || !w->sizes) return crn_err_memory(r->err);
  int64_t n = 0;
  for (int64_t b = 0; b < B; b++) {
    const int64_t L = crn_t_i32(lens)[b] / divisor;
    for (int64_t s = 0; s < L; s++, n++) {
      w->seq[n] = b;
      w->start[n] = s;
      w->size[n] = L - s < window ? L - s : window;
      crn_t_i32(w->sizes)[n] = (int32_t)w->size[n];
    }
  }
  return CRN_OK;
}

/* [B, T] of the source's template: batch and a dynamic time axis. */
static crn_status check_sequences(crn_build *b, crn_layer *l, const crn_tmpl *in, bool sparse) {
  const int rank = sparse ? 2 : 3;
  if (in->n == rank && in->sparse == sparse && crn_tmpl_batch_axis(in) >= 0 && in->time_axis >= 0 &&
      crn_dim_is_dynamic(in->dims[in->time_axis]) && (sparse || in->feature_axis >= 0))
    return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be %s, with lengths",
                        sparse ? "sparse, with batch and time axis" : "dense, with batch, time and feature axis");
}

/* Dims of the windows as batch, and of a window's frames. */
static crn_status window_dims(crn_build *b, crn_layer *l, const crn_tmpl *in, int64_t divisor, const crn_dim **batch,
                              const crn_dim **frames) {
  const seg_cfg *c = l->cfg;
  const crn_dim *B = in->dims[crn_tmpl_batch_axis(in)], *T = in->dims[in->time_axis];
  *batch = crn_dim_derive(crn_build_dims(b), "segments", B, T, divisor, 0, 0, CRN_DIM_BATCH, -1);
  *frames = crn_dim_derive(crn_build_dims(b), "segment", B, T, divisor, c->window, 0, CRN_DIM_SPATIAL, -1);
  return *batch && *frames ? CRN_OK : crn_err_memory(crn_build_err(b));
}

/* [N, time, feature]; dtype float. */
static crn_status set_output(crn_build *b, crn_layer *l, const crn_dim *batch, const crn_dim *time, const crn_dim *f) {
  if (!time || !f) return crn_err_memory(crn_build_err(b));
  l->out = crn_tmpl_scalar(CRN_F32);
  l->out.n = 3;
  l->out.dims[0] = batch;
  l->out.dims[1] = time;
  l->out.dims[2] = f;
  l->out.time_axis = 1;
  l->out.time_explicit = true;
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static const crn_data *batch_time(crn_exec *x, crn_layer *l) {
  const crn_data *in = crn_input(x, l);
  if (!in) return NULL;
  if (in->beam) return (void)crn_exec_fail(x, l, "not implemented: on hypotheses of a search"), NULL;
  int perm[3] = {crn_tmpl_batch_axis(&in->t), in->t.time_axis, in->t.feature_axis};
  return crn_data_permute(crn_exec_run(x), in, perm);
}

static const crn_data *window_lengths(crn_run *r, const crn_layer *l, int batch_axis, crn_tensor *v) {
  crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  t.dims[t.n++] = l->out.dims[batch_axis];
  return v ? crn_data_new(r, &t, v) : NULL;
}

/* ---- segment_input, unsegment_input ------------------------------------------------------------------------------ */

static crn_status segment_infer(crn_build *b, crn_layer *l) {
  seg_cfg *c = l->cfg;
  crn_tmpl in;
  bool known;
  const crn_dim *batch, *frames;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(check_sequences(b, l, &in, false));
  CRN_TRY(window_dims(b, l, &in, 1, &batch, &frames));
  c->time_major = in.time_axis == 0;
  CRN_TRY(set_output(b, l, batch, frames, in.dims[in.feature_axis]));
  l->out.dtype = in.dtype;
  const int swap[3] = {1, 0, 2};
  if (c->time_major) crn_tmpl_permute(&l->out, swap);
  return CRN_OK;
}

/* Beyond the sequence's end: its frame 0. */
static crn_status segment_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const seg_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = batch_time(x, l);
  crn_tensor *lens = in ? crn_data_lens(r, in, 1) : NULL;
  windows w;
  if (!lens) return r->err->code;
  CRN_TRY(list_windows(r, lens, 1, c->window, &w));
  const int64_t shape[2] = {w.N, c->window}, T = in->v->shape[1];
  crn_tensor *idx = crn_t_new(r, CRN_I32, 2, shape);
  for (int64_t n = 0; idx && n < w.N; n++)
    for (int64_t t = 0; t < c->window; t++)
      crn_t_i32(idx)[n * c->window + t] = (int32_t)(w.seq[n] * T + (t < w.size[n] ? w.start[n] + t : 0));
  const int64_t flat[2] = {in->v->shape[0] * T, in->v->shape[2]};
  const int swap[3] = {1, 0, 2};
  out->v = crn_gather(r, crn_t_reshape(r, in->v, 2, flat), idx, 0);
  if (c->time_major) out->v = crn_transpose(r, out->v, swap);
  out->len[c->time_major ? 0 : 1] = window_lengths(r, l, c->time_major ? 1 : 0, w.sizes);
  return out->v && !crn_run_failed(r) ? CRN_OK : r->err->code;
}

static crn_status unsegment_infer(crn_build *b, crn_layer *l) {
  crn_tmpl in;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &in, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(check_sequences(b, l, &in, false));
  const crn_dim *N = in.dims[crn_tmpl_batch_axis(&in)], *w = in.dims[in.time_axis], *f = in.dims[in.feature_axis];
  if (!N->op || strcmp(N->op, "segments") || N->p[0] != 1 || !w->op || strcmp(w->op, "segment") || f->size < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source's batch was not made by segment_input");
  const crn_dim *out = crn_layer_dim(b, l, "windows", CRN_DIM_FEATURE, w->p[1] * f->size);
  CRN_TRY(set_output(b, l, N->arg[0], N->arg[1], out));
  l->out.dtype = in.dtype;
  return CRN_OK;
}

/* Lengths of the sequences: each ends with a window of size 1. */
static crn_tensor *sequence_lengths(crn_exec *x, crn_layer *l, const crn_tensor *sizes, int64_t *T) {
  crn_run *r = crn_exec_run(x);
  const int64_t N = crn_t_size(sizes);
  int64_t B = 0, L = 0;
  for (int64_t n = 0; n < N; n++) B += crn_t_i32(sizes)[n] == 1;
  crn_tensor *lens = crn_t_new(r, CRN_I32, 1, &B);
  *T = B = 0;
  for (int64_t n = 0; lens && n < N; n++) {
    L++;
    if (crn_t_i32(sizes)[n] != 1) continue;
    crn_t_i32(lens)[B++] = (int32_t)L;
    if (L > *T) *T = L;
    L = 0;
  }
  if (L) return (void)crn_exec_fail(x, l, "the last sequence has no window of size 1"), NULL;
  return lens;
}

static crn_status unsegment_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *in = batch_time(x, l);
  crn_tensor *sizes = in ? crn_data_lens(r, in, 1) : NULL;
  int64_t T;
  crn_tensor *lens = sizes ? sequence_lengths(x, l, sizes, &T) : NULL;
  if (!lens) return r->err->code;
  const int64_t N = in->v->shape[0], w = in->v->shape[1], F = in->v->shape[2], B = crn_t_size(lens);
  const int64_t shape[3] = {B, T, w}, flat[2] = {N * w, F}, result[3] = {B, T, w * F};
  crn_tensor *idx = crn_t_new(r, CRN_I32, 3, shape);
  for (int64_t b = 0, first = 0; idx && b < B; first += crn_t_i32(lens)[b++])
    for (int64_t i = 0; i < T; i++)
      for (int64_t t = 0; t < w; t++) {
        const int64_t n = ((first + i - t) % N + N) % N;
        crn_t_i32(idx)[(b * T + i) * w + t] = (int32_t)(i < crn_t_i32(lens)[b] ? n * w + t : N * w);
      }
  crn_tensor *rows = crn_pad(r, crn_t_reshape(r, in->v, 2, flat), 0, 0, 1, "constant", 0);
  out->v = crn_t_reshape(r, crn_gather(r, rows, idx, 0), 3, result);
  out->len[1] = window_lengths(r, l, 0, lens);
  return out->v && !crn_run_failed(r) ? CRN_OK : r->err->code;
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */

/* A class over sparse [B, T]: fills y [N, w, num_classes] or [N, w] (per window), zeros before. */
typedef struct label_run {
  crn_exec *x;
  crn_layer *l;
  const seg_cfg *c;
  const int32_t *labels; /* of the window's sequence */
  int64_t T, start, size, w;
  double *y;
} label_run;

static crn_status label_windows(crn_exec *x, crn_layer *l, crn_data *out, int64_t divisor, int64_t width,
                                crn_status (*fill)(label_run *), windows *w) {
  const seg_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = batch_time(x, l);
  crn_tensor *lens = in ? crn_data_lens(r, in, 1) : NULL, *labels = in ? in->v : NULL;
  if (!lens) return r->err->code;
  CRN_TRY(list_windows(r, lens, divisor, c->window, w));
  if (labels->dtype != CRN_I32) labels = crn_cast(r, labels, CRN_I32);
  const int64_t shape[3] = {w->N, c->window, width}, T = in->v->shape[1], n_y = c->window * width;
  crn_tensor *y = crn_t_zeros(r, CRN_F64, 3, shape);
  if (!labels || !y) return r->err->code;
  for (int64_t n = 0; n < w->N; n++) {
    label_run run = {
        x, l, c, crn_t_i32(labels) + w->seq[n] * T, T, w->start[n], w->size[n], c->window, crn_t_f64(y) + n * n_y};
    CRN_TRY(fill(&run));
  }
  out->v = y->dtype == crn_run_dtype(r, CRN_F32) ? y : crn_cast(r, y, crn_run_dtype(r, CRN_F32));
  return out->v ? CRN_OK : r->err->code;
}

static crn_status label_tmpl(crn_build *b, crn_layer *l, int64_t divisor, const crn_dim **batch, const crn_dim **frames,
                             bool *known) {
  crn_tmpl in;
  CRN_TRY(crn_input_tmpl(b, l, &in, known));
  l->out_known = *known;
  if (!*known) return CRN_OK;
  CRN_TRY(check_sequences(b, l, &in, true));
  return window_dims(b, l, &in, divisor, batch, frames);
}

static crn_status bad_class(label_run *s, int64_t class) {
  return crn_exec_fail(s->x, s->l, "class %lld is not in [0, %lld) ('num_classes')", (long long)class,
                       (long long)s->c->num_classes);
}

static crn_status classes_infer(crn_build *b, crn_layer *l) {
  const seg_cfg *c = l->cfg;
  const crn_dim *batch, *frames;
  bool known;
  CRN_TRY(label_tmpl(b, l, 1, &batch, &frames, &known));
  return known ? set_output(b, l, batch, frames, crn_layer_dim(b, l, "classes", CRN_DIM_FEATURE, c->num_classes))
               : CRN_OK;
}

/* How often each class was among the first frames, as a share of them. */
static crn_status count_classes(label_run *s) {
  const int64_t C = s->c->num_classes;
  for (int64_t t = 0; t < s->w; t++) {
    double *now = s->y + t * C, *before = t ? now - C : NULL;
    for (int64_t k = 0; k < C && before; k++) now[k] = before[k];
    if (t >= s->size) continue;
    const int64_t class = s->labels[s->start + t];
    if (class < 0 || class >= C) return bad_class(s, class);
    now[class] += 1;
  }
  for (int64_t t = 0; t < s->w; t++)
    for (int64_t k = 0; k < C; k++) s->y[t * C + k] /= (double)(t + 1);
  return CRN_OK;
}

static crn_status classes_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  windows w;
  CRN_TRY(label_windows(x, l, out, 1, ((const seg_cfg *)l->cfg)->num_classes, count_classes, &w));
  out->len[1] = window_lengths(crn_exec_run(x), l, 0, w.sizes);
  return out->len[1] ? CRN_OK : crn_exec_run(x)->err->code;
}

/* ---- distributions of lengths ------------------------------------------------------------------------------------ */

/* [N, 1, w], or [N, w, 1]. */
static crn_status lengths_infer(crn_build *b, crn_layer *l) {
  const seg_cfg *c = l->cfg;
  const crn_dim *batch, *frames;
  bool known;
  CRN_TRY(label_tmpl(b, l, 1, &batch, &frames, &known));
  if (!known) return CRN_OK;
  const bool feature = c->broadcast_axis && !strcmp(c->broadcast_axis, "feature");
  return set_output(b, l, batch, crn_layer_dim(b, l, "lengths:t", CRN_DIM_SPATIAL, feature ? c->window : 1),
                    crn_layer_dim(b, l, "lengths:f", CRN_DIM_FEATURE, feature ? 1 : c->window));
}

static crn_status run_lengths(label_run *s) {
  const int32_t *seg = s->labels + s->start;
  for (int64_t t = 0, run = 1; t < s->size; t++, run++) {
    if (t < s->size - 1 && seg[t + 1] == seg[t]) continue;
    s->y[t] = (double)run / (double)s->size;
    run = 0;
  }
  return CRN_OK;
}

static crn_status as_lengths(crn_exec *x, crn_layer *l, crn_data *out, crn_status (*fill)(label_run *)) {
  windows w;
  CRN_TRY(label_windows(x, l, out, 1, 1, fill, &w));
  const int64_t shape[3] = {w.N, l->out.dims[1]->size, l->out.dims[2]->size};
  out->v = crn_t_reshape(crn_exec_run(x), out->v, 3, shape);
  return out->v ? CRN_OK : crn_exec_run(x)->err->code;
}

static crn_status length_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  return as_lengths(x, l, out, run_lengths);
}

static crn_status global_infer(crn_build *b, crn_layer *l) {
  seg_cfg *c = l->cfg;
  if (!crn_v_is_none(c->target_smoothing)) {
    const int64_t n = crn_v_is_seq(c->target_smoothing) ? (int64_t)crn_v_len(c->target_smoothing) : 0;
    double sum = 0;
    c->n_smoothing = n;
    if (n % 2 != 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'target_smoothing': expected a list of odd length");
    if (!(c->smoothing = CRN_ARENA_ARRAY(crn_build_arena(b), double, n))) return crn_err_memory(crn_build_err(b));
    for (int64_t i = 0; i < n; i++) {
      if (!crn_v_to_float(crn_v_at(c->target_smoothing, (size_t)i), &c->smoothing[i]))
        return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'target_smoothing': expected numbers");
      sum += c->smoothing[i];
    }
    for (int64_t i = 0; i < n; i++)
      if (c->smoothing[i] != c->smoothing[n - 1 - i])
        return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: 'target_smoothing' that isn't symmetric");
    for (int64_t i = 0; i < n; i++) c->smoothing[i] /= sum;
  }
  return lengths_infer(b, l);
}

/* y [size] times the band matrix, each row of which has sum 1. */
static crn_status smooth(label_run *s) {
  const int64_t half = s->c->n_smoothing / 2;
  double *y = CRN_ARENA_ARRAY(&crn_exec_run(s->x)->arena, double, s->size + 1);
  if (!y) return crn_err_memory(crn_exec_run(s->x)->err);
  for (int64_t i = 0; i < s->size; i++) {
    double row = 0;
    for (int64_t d = -half; d <= half; d++)
      if (i + d >= 0 && i + d < s->size) row += s->c->smoothing[half + d];
    for (int64_t d = -half; d <= half; d++)
      if (i + d >= 0 && i + d < s->size) y[i + d] += s->y[i] * s->c->smoothing[half + d] / row;
  }
  memcpy(s->y, y, (size_t)s->size * sizeof(*y));
  return CRN_OK;
}

static crn_status global_ends(label_run *s) {
  double share = s->c->weight_falloff, sum = 0;
  for (int64_t t = 0; t < s->size; t++) {
    const int64_t at = s->start + t;
    if (at < s->T - 1 && s->labels[at] == s->labels[at + 1]) continue;
    s->y[t] = share;
    share *= 1 - s->c->weight_falloff;
  }
  for (int64_t t = 0; t < s->size; t++) {
    if (t < s->c->min_length - 1) s->y[t] = 0;
    if (t == s->size - 1) s->y[t] += 1e-4;
    sum += s->y[t];
  }
  for (int64_t t = 0; t < s->size; t++) s->y[t] /= sum;
  return s->c->smoothing ? smooth(s) : CRN_OK;
}

static crn_status global_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  return as_lengths(x, l, out, global_ends);
}

/* ---- segment_alignment ------------------------------------------------------------------------------------------- */

static crn_status alignment_infer(crn_build *b, crn_layer *l) {
  const seg_cfg *c = l->cfg;
  const crn_dim *batch, *frames;
  bool known;
  CRN_TRY(label_tmpl(b, l, 2, &batch, &frames, &known));
  return known ? set_output(b, l, batch, frames, crn_layer_dim(b, l, "classes", CRN_DIM_FEATURE, c->num_classes))
               : CRN_OK;
}

/* Labels are pairs: class and end flag. */
static crn_status mark_end(label_run *s) {
  const int32_t *pair = s->labels + 2 * s->start;
  int64_t end = 0;
  while (end < s->size && !pair[2 * end + 1]) end++;
  const double sum = (end < s->size ? 1 : 0) + 1e-4;
  for (int64_t t = 0; t < s->size; t++) {
    const int64_t class = pair[2 * t];
    const double d = (t == end ? 1 : 0) + (t == s->size - 1 ? 1e-4 : 0);
    if (class < 0 || class >= s->c->num_classes) return bad_class(s, class);
    s->y[t * s->c->num_classes + class] = d / sum;
  }
  return CRN_OK;
}

static crn_status alignment_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const seg_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  windows w;
  CRN_TRY(label_windows(x, l, out, 2, c->num_classes, mark_end, &w));
  out->len[1] = window_lengths(r, l, 0, crn_t_full(r, CRN_I32, 1, &w.N, (double)c->window));
  return out->len[1] ? CRN_OK : r->err->code;
}

/* ---- apply_length_distribution ----------------------------------------------------------------------------------- */

static crn_status apply_infer(crn_build *b, crn_layer *l) {
  const crn_tmpl *a = crn_source_tmpl(l, 0), *d = crn_source_tmpl(l, 1);
  if (l->n_src != 2) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs two sources, got %d", l->n_src);
  l->out_known = a && d;
  if (!l->out_known) return CRN_OK;
  for (int i = 0; i < 2; i++) {
    const crn_tmpl *t = i ? d : a;
    if (t->n != 3 || t->sparse || crn_tmpl_batch_axis(t) < 0 || t->time_axis < 0 || t->feature_axis < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "source %d must have batch, time and feature axis", i);
  }
  l->out = *a;
  return CRN_OK;
}

static crn_status apply_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const seg_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *a = crn_source(x, l, 0), *d = crn_source(x, l, 1);
  if (!a || !d) return r->err->code;
  int perm[3];
  for (int i = 0; i < 3;
       i++) { /* the second's feature runs along the first's time, its time along the first's feature */
    const bool batch = i == crn_tmpl_batch_axis(&a->t), time = i == a->t.time_axis;
    perm[i] = batch ? crn_tmpl_batch_axis(&d->t) : time ? d->t.feature_axis : d->t.time_axis;
    out->len[i] = a->len[i];
  }
  crn_tensor *v = crn_transpose(r, d->v, perm);
  bool fits = v != NULL;
  for (int i = 0; fits && i < 3; i++) fits = v->shape[i] == 1 || v->shape[i] == a->v->shape[i];
  if (v && !fits) return crn_exec_fail(x, l, "the second source does not fit the first one's axes");
  if (c->model_scale != 1) v = crn_binary(r, CRN_B_POW, v, crn_t_scalar(r, a->v->dtype, c->model_scale));
  out->v = crn_mul(r, a->v, v);
  return out->v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, ...)                                                                                              \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(seg_cfg), __VA_ARGS__ }
const crn_layer_desc crn_family_segments[] = {
    ROW("segment_input", "Makes windows that begin at each frame.", input_opts,
        .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE, .infer = segment_infer, .forward = segment_forward),
    ROW("unsegment_input", "Gives each frame the windows that cover it.", no_opts,
        .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE, .infer = unsegment_infer, .forward = unsegment_forward),
    ROW("classes_to_segments", "Counts classes from each window's begin on.", class_opts,
        .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE, .infer = classes_infer, .forward = classes_forward),
    ROW("classes_to_length_distribution", "Gives the shares of runs of equal classes in each window.", length_opts,
        .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE, .infer = lengths_infer, .forward = length_forward),
    ROW("classes_to_length_distribution_global", "Gives a distribution over the ends of classes in each window.",
        global_opts, .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE, .infer = global_infer, .forward = global_forward),
    ROW("segment_alignment", "Marks the class and end of each window.", class_opts,
        .flags = CRN_L_CONCAT | CRN_L_NEEDS_FUTURE, .infer = alignment_infer, .forward = alignment_forward),
    ROW("apply_length_distribution", "Multiplies windows by a distribution of lengths.", apply_opts,
        .flags = CRN_L_MANY_INPUTS, .infer = apply_infer, .forward = apply_forward),
    {.name = NULL}};
