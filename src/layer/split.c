/* SPDX-License-Identifier: Apache-2.0
 *
 * split: a fixed axis cut into parts "X/0", "X/1", …; the layer itself is its input.
 */
#include <stdio.h>
#include <string.h>

#include "layer/layer.h"

typedef struct split_cfg {
  const crn_value *axis, *size_splits, *out_dims;
  int64_t num_splits;
  int at, n;
  int64_t sizes[256];
} split_cfg;

#define OFF(f) offsetof(split_cfg, f)
static const crn_opt split_opts[] = {
    {.name = "axis",
     .type = CRN_OPT_VALUE,
     .offset = OFF(axis),
     .dflt = "None",
     .doc = "axis to cut, default the feature axis"},
    {.name = "num_splits",
     .type = CRN_OPT_INT,
     .offset = OFF(num_splits),
     .dflt = "None",
     .min = 1,
     .max = 256,
     .doc = "number of equal parts"},
    {.name = "size_splits",
     .type = CRN_OPT_VALUE,
     .offset = OFF(size_splits),
     .dflt = "None",
     .doc = "sizes of the parts"},
    {.name = "out_dims", .type = CRN_OPT_VALUE, .offset = OFF(out_dims), .dflt = "None", .doc = "dims of the parts"},
    CRN_OPT_END};

static crn_status read_sizes(crn_build *b, crn_layer *l, split_cfg *c, int64_t size) {
  const crn_value *list = crn_v_is_none(c->size_splits) ? c->out_dims : c->size_splits;
  const int given = (c->num_splits != CRN_UNSET) + !crn_v_is_none(c->size_splits) + !crn_v_is_none(c->out_dims);
  if (given != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "give one of 'num_splits', 'size_splits', 'out_dims'");
  if (c->num_splits != CRN_UNSET) {
    if (size % c->num_splits)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'num_splits': size %lld can't be cut into %lld equal parts",
                            (long long)size, (long long)c->num_splits);
    c->n = (int)c->num_splits;
    for (int i = 0; i < c->n; i++) c->sizes[i] = size / c->num_splits;
    return CRN_OK;
  }
  if (!crn_v_is_seq(list) || crn_v_len(list) > 256)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size_splits': expected a list of sizes");
  int64_t sum = 0;
  c->n = (int)crn_v_len(list);
  for (int i = 0; i < c->n; i++) {
    const crn_value *v = crn_v_at(list, (size_t)i);
    if (v->kind == CRN_V_DIM)
      c->sizes[i] = v->u.dim.size;
    else if (!crn_v_to_int(v, &c->sizes[i]))
      c->sizes[i] = -1;
    if (c->sizes[i] < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size_splits': part %d has no fixed size", i);
    sum += c->sizes[i];
  }
  if (sum != size)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'size_splits': the sizes add up to %lld, the axis has %lld",
                          (long long)sum, (long long)size);
  return CRN_OK;
}

static crn_status split_infer(crn_build *b, crn_layer *l) {
  split_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  c->at = l->out.feature_axis;
  if (!crn_v_is_none(c->axis)) CRN_TRY(crn_layer_axis(b, l, &l->out, c->axis, "axis", &c->at));
  if (c->at < 0 || l->out.dims[c->at]->size < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': the axis must have a fixed size");
  CRN_TRY(read_sizes(b, l, c, l->out.dims[c->at]->size));
  for (int i = 0; i < c->n; i++) {
    char name[16], slot[32];
    (void)snprintf(name, sizeof(name), "%d", i);
    (void)snprintf(slot, sizeof(slot), "split:%d", i);
    crn_tmpl t = l->out;
    t.dims[c->at] = crn_v_is_none(c->out_dims) ? crn_layer_dim(b, l, slot, t.dims[c->at]->kind, c->sizes[i])
                                               : crn_dim_of_value(crn_build_dims(b), crn_v_at(c->out_dims, (size_t)i));
    if (!t.dims[c->at]) return crn_err_memory(crn_build_err(b));
    CRN_TRY(crn_layer_add_sub(b, l, name, &t));
  }
  return CRN_OK;
}

static crn_status split_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const split_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *d = crn_input(x, l);
  if (!d) return r->err->code;
  const crn_tmpl t = l->out;
  *out = *d;
  out->t = t;
  int64_t begin = 0;
  for (int i = 0; i < c->n; i++) {
    crn_data *part = crn_data_new(r, &l->subs[i].t, crn_slice(r, d->v, c->at, begin, c->sizes[i], 1));
    if (!part || !part->v) return r->err->code;
    memcpy(part->len, d->len, sizeof(part->len));
    part->beam = d->beam;
    CRN_TRY(crn_sub_out(x, l, i, part));
    begin += c->sizes[i];
  }
  return CRN_OK;
}

const crn_layer_desc crn_family_split[] = {{.name = "split",
                                            .doc = "Cuts a fixed axis into parts, which are sub layers.",
                                            .opts = split_opts,
                                            .cfg_size = sizeof(split_cfg),
                                            .flags = CRN_L_CONCAT | CRN_L_STREAMS,
                                            .infer = split_infer,
                                            .forward = split_forward},
                                           {.name = NULL}};
