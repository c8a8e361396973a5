/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that set frames outside of the lengths, or of a window, to a value: seq_len_mask, fill_unused (layers-2.md).
 */
#include <string.h>

#include "layer/lengths.h"
#include "layer/shape_list.h"

typedef struct mask_cfg {
  const crn_value *axis, *start, *window_start, *window_size;
  double mask_value, fill_value;
  crn_layer *seq_len_source;
  crn_layer *layer[3]; /* start, window_start, window_size */
  double number[3];
  int at;
} mask_cfg;

enum { START, WINDOW_START, WINDOW_SIZE };

#define OFF(f) offsetof(mask_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* ---- seq_len_mask ---------------------------------------------------------------------------------------------------
 */

static const crn_opt mask_opts[] = {
    OPT(mask_value, CRN_OPT_FLOAT, NULL, .doc = "value of frames that are masked"),
    OPT(axis, CRN_OPT_VALUE, "\"T\"", .doc = "axis with the lengths"),
    OPT(seq_len_source, CRN_OPT_LAYER, "None", .doc = "layer whose lengths count instead"),
    OPT(start, CRN_OPT_VALUE, "None", .doc = "layer: frames before it are masked"),
    OPT(window_start, CRN_OPT_VALUE, "None", .doc = "layer or number: first frame of a window"),
    OPT(window_size, CRN_OPT_VALUE, "None", .doc = "layer or number: frames of that window"),
    CRN_OPT_END};

static crn_status mask_refs(crn_build *b, crn_layer *l) {
  mask_cfg *c = l->cfg;
  CRN_TRY(crn_number_or_layer(b, l, c->start, "start", &c->number[START], &c->layer[START]));
  CRN_TRY(
      crn_number_or_layer(b, l, c->window_start, "window_start", &c->number[WINDOW_START], &c->layer[WINDOW_START]));
  CRN_TRY(crn_number_or_layer(b, l, c->window_size, "window_size", &c->number[WINDOW_SIZE], &c->layer[WINDOW_SIZE]));
  if (crn_v_is_none(c->window_start) != crn_v_is_none(c->window_size))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "'window_start' and 'window_size' must be given together");
  return CRN_OK;
}

static crn_status mask_infer(crn_build *b, crn_layer *l) {
  mask_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at));
  return crn_dim_is_dynamic(l->out.dims[c->at])
             ? CRN_OK
             : crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': the axis must be dynamic");
}

/* A position as int32, made to broadcast against the data; the axis itself must not be in it. */
static crn_tensor *position(crn_exec *x, crn_layer *l, const mask_cfg *c, int i, const crn_data *d) {
  crn_run *r = crn_exec_run(x);
  if (!c->layer[i]) return crn_t_scalar(r, CRN_I32, c->number[i]);
  crn_tensor *v = crn_data_fit(r, crn_value_of(x, l, c->layer[i]), &d->t, crn_exec_version(x), false);
  return v && v->dtype != CRN_I32 ? crn_cast(r, v, CRN_I32) : v;
}

/* Mask by the lengths of another layer: its axis of the same dim, else its time axis. */
static crn_tensor *mask_by(crn_exec *x, crn_layer *l, const mask_cfg *c, const crn_data *d) {
  crn_run *r = crn_exec_run(x);
  if (!c->seq_len_source) return crn_data_mask(r, d, c->at);
  const crn_data *s = crn_value_of(x, l, c->seq_len_source);
  if (!s) return NULL;
  int axis = crn_tmpl_find(&s->t, d->t.dims[c->at]);
  if (axis < 0) axis = s->t.time_axis;
  if (axis < 0 || !s->len[axis])
    return (void)crn_exec_fail(x, l, "option 'seq_len_source': layer '%s' has no such lengths",
                               c->seq_len_source->path),
           NULL;
  crn_data *other = crn_data_copy(r, d);
  if (!other) return NULL;
  other->len[c->at] = s->len[axis];
  return crn_data_mask(r, other, c->at);
}

static crn_status mask_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const mask_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < in->t.n; i++) {
    out->len[i] = in->len[i];
    shape[i] = i == c->at ? in->v->shape[i] : 1;
  }
  crn_tensor *mask = mask_by(x, l, c, in),
             *pos = crn_t_reshape(r, crn_range(r, CRN_I32, 0, in->v->shape[c->at]), in->t.n, shape);
  if (!crn_v_is_none(c->start))
    mask =
        crn_binary(r, CRN_B_LOGICAL_AND, mask, crn_binary(r, CRN_B_GREATER_EQUAL, pos, position(x, l, c, START, in)));
  if (!crn_v_is_none(c->window_start)) {
    crn_tensor *from = position(x, l, c, WINDOW_START, in), *end = crn_add(r, from, position(x, l, c, WINDOW_SIZE, in));
    mask = crn_binary(r, CRN_B_LOGICAL_AND, mask, crn_binary(r, CRN_B_GREATER_EQUAL, pos, from));
    mask = crn_binary(r, CRN_B_LOGICAL_AND, mask, crn_binary(r, CRN_B_LESS, pos, end));
  }
  if (!mask) return crn_run_failed(r) ? r->err->code : crn_exec_fail(x, l, "the axis has no lengths");
  out->v = crn_mask_fill(r, in->v, mask, c->mask_value);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- fill_unused ----------------------------------------------------------------------------------------------------
 */

static const crn_opt fill_opts[] = {OPT(fill_value, CRN_OPT_FLOAT, "0.0", .doc = "value of padded frames"),
                                    CRN_OPT_END};

static crn_status fill_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  return known && l->out.time_axis < 0 ? crn_layer_fail(b, l, CRN_E_CONFIG, "the source has no time axis") : CRN_OK;
}

static crn_status fill_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const mask_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  crn_tensor *mask = crn_data_mask(r, in, in->t.time_axis);
  out->v = mask ? crn_mask_fill(r, in->v, mask, c->fill_value) : in->v;
  return out->v && !crn_run_failed(r) ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, ...)                                                                                              \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(mask_cfg), .flags = CRN_L_CONCAT, __VA_ARGS__ }
const crn_layer_desc crn_family_masks[] = {
    {.name = "seq_len_mask",
     .doc = "Sets frames outside of the lengths, or of a window, to a value.",
     .opts = mask_opts,
     .cfg_size = sizeof(mask_cfg),
     .flags = CRN_L_CONCAT | CRN_L_MAY_HOLD_INF,
     .refs = mask_refs,
     .infer = mask_infer,
     .forward = mask_forward},
    ROW("fill_unused", "Sets padded frames to a value.", fill_opts, .infer = fill_infer, .forward = fill_forward),
    {.name = NULL}};
