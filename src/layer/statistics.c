/* SPDX-License-Identifier: Apache-2.0
 *
 * accumulate_mean: a parameter that follows the mean of its input over training (layers-1.md).
 */
#include <math.h>
#include <string.h>

#include "layer/layer.h"

typedef struct mean_cfg {
  const crn_value *axes, *initial_value, *is_prob_distribution;
  double exp_average;
  int use_time_mask;
  int at[CRN_MAX_RANK], n_at; /* axes that are reduced */
} mean_cfg;

#define OFF(f) offsetof(mean_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }
#define PARAM "mean_1"

static const crn_opt mean_opts[] = {
    OPT(exp_average, CRN_OPT_FLOAT, NULL, .doc = "weight of the new mean"),
    OPT(axes, CRN_OPT_VALUE, "\"bt\"", .doc = "axes to reduce"),
    OPT(initial_value, CRN_OPT_VALUE, "None", .doc = "first value"),
    OPT(is_prob_distribution, CRN_OPT_VALUE, "None", .doc = "the result has one axis and begins with equal shares"),
    OPT(use_time_mask, CRN_OPT_BOOL, "None", .doc = "leave padded frames out; default: if a reduced axis has lengths"),
    CRN_OPT_END};

static crn_status mean_infer(crn_build *b, crn_layer *l) {
  mean_cfg *c = l->cfg;
  bool known, batch = false, gone[CRN_MAX_RANK] = {false};
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (l->out.sparse || l->out.dtype != CRN_F32)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be dense float32");
  CRN_TRY(crn_layer_axes(b, l, &l->out, c->axes, "axes", c->at, &c->n_at));
  for (int i = 0; i < c->n_at; i++) {
    gone[c->at[i]] = true;
    batch |= l->out.dims[c->at[i]]->kind == CRN_DIM_BATCH;
  }
  if (!batch) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axes': the batch axis must be among them");
  for (int i = l->out.n; i-- > 0;) {
    if (gone[i])
      crn_tmpl_remove(&l->out, i);
    else if (l->out.dims[i]->size < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axes': axis %d remains, but has no fixed size", i);
  }
  if (crn_v_truth(c->is_prob_distribution) && l->out.n != 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'is_prob_distribution': one axis must remain, not %d", l->out.n);
  return CRN_OK;
}

static crn_status mean_params(crn_build *b, crn_layer *l) {
  const mean_cfg *c = l->cfg;
  crn_param_spec s = {.name = PARAM, .rank = l->out.n, .init_default = "0", .dtype = CRN_F32, .custom_update = true};
  for (int i = 0; i < l->out.n; i++) s.shape[i] = l->out.dims[i]->size;
  if (!crn_v_is_none(c->initial_value))
    s.init = c->initial_value;
  else if (crn_v_truth(c->is_prob_distribution)) {
    s.init = crn_v_float(crn_build_arena(b), 1.0 / (double)l->out.dims[0]->size);
    if (!s.init) return crn_err_memory(crn_build_err(b));
  }
  return crn_layer_param(b, l, &s);
}

/* Mean over the real frames. */
static crn_tensor *mean_of(crn_run *r, const mean_cfg *c, const crn_data *in) {
  unsigned axes = 0;
  crn_tensor *mask = NULL, *v = crn_t_stop_gradient(r, in->v);
  for (int i = 0; i < c->n_at; i++) {
    axes |= 1u << c->at[i];
    crn_tensor *one = c->use_time_mask == 0 ? NULL : crn_data_mask(r, in, c->at[i]);
    if (one) mask = mask ? crn_binary(r, CRN_B_LOGICAL_AND, mask, one) : one;
  }
  if (crn_run_failed(r)) return NULL;
  if (!mask) return crn_reduce(r, CRN_R_MEAN, v, axes, false);
  crn_tensor *sum = crn_reduce(r, CRN_R_SUM, crn_mask_fill(r, v, mask, 0), axes, false);
  crn_tensor *frames = crn_cast(r, crn_broadcast_to(r, mask, v->rank, v->shape), v->dtype);
  return crn_div(
      r, sum,
      crn_binary(r, CRN_B_MAXIMUM, crn_reduce(r, CRN_R_SUM, frames, axes, false), crn_t_scalar(r, v->dtype, 1)));
}

static crn_status mean_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const mean_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  crn_tensor *v = crn_param_get(x, l, PARAM);
  if (!in || !v) return r->err->code;
  out->v = v;
  if (!crn_exec_train(x)) return CRN_OK;
  crn_tensor *next = crn_add(r, v, crn_scale(r, crn_sub(r, mean_of(r, c, in), v), c->exp_average));
  return next ? crn_exec_assign(x, l, PARAM, next) : r->err->code;
}

const crn_layer_desc crn_family_statistics[] = {{.name = "accumulate_mean",
                                                 .doc = "Follows the mean of its input over training.",
                                                 .opts = mean_opts,
                                                 .cfg_size = sizeof(mean_cfg),
                                                 .flags = CRN_L_CONCAT,
                                                 .infer = mean_infer,
                                                 .params = mean_params,
                                                 .forward = mean_forward},
                                                {.name = NULL}};
