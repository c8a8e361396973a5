/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch normalisation (layers-1.md, batch_norm): a class of its own, and an option of every layer.
 *
 * Statistics are over all axes but the feature. The running ones are set after the step. When nothing is special (new
 * parameters, no mask) the original takes another implementation, which keeps the unbiased variance: "fused".
 */
#include "layer/batch_norm.h"

#include <math.h>
#include <string.h>

typedef struct bn_cfg {
  double momentum, epsilon, use_sample;
  int64_t param_version;
  int update_only_in_training, delay_update, masked_time, use_shift, use_std, force_sample;
  const crn_value *gamma_init, *beta_init;
} bn_cfg;

typedef struct crn_batch_norm {
  bn_cfg c;
  bool settled; /* version-dependent defaults are filled in */
  bool fused;
  const char *mean, *variance, *gamma, *beta; /* parameters' names */
} crn_batch_norm;

#define OFF(f) offsetof(bn_cfg, f)
static const crn_opt bn_opts[] = {
    {.name = "momentum",
     .type = CRN_OPT_FLOAT,
     .offset = OFF(momentum),
     .dflt = "None",
     .doc = "weight of the new statistics; default 0.99, from behavior_version 12 0.1"},
    {.name = "epsilon", .type = CRN_OPT_FLOAT, .offset = OFF(epsilon), .dflt = "1e-3", .doc = "added to the variance"},
    {.name = "update_sample_only_in_training",
     .type = CRN_OPT_BOOL,
     .offset = OFF(update_only_in_training),
     .dflt = "None",
     .doc = "evaluation leaves the running statistics; default from behavior_version 12"},
    {.name = "delay_sample_update",
     .type = CRN_OPT_BOOL,
     .offset = OFF(delay_update),
     .dflt = "None",
     .doc = "a step uses the statistics before its own update; default from behavior_version 12"},
    {.name = "param_version",
     .type = CRN_OPT_INT,
     .offset = OFF(param_version),
     .dflt = "None",
     .min = 0,
     .max = 2,
     .doc = "names and shapes of the parameters; default 0, from behavior_version 12 2"},
    {.name = "masked_time",
     .type = CRN_OPT_BOOL,
     .offset = OFF(masked_time),
     .dflt = "None",
     .doc = "only frames inside of the lengths count; default below behavior_version 12"},
    {.name = "use_shift", .type = CRN_OPT_BOOL, .offset = OFF(use_shift), .dflt = "True", .doc = "add a parameter"},
    {.name = "use_std", .type = CRN_OPT_BOOL, .offset = OFF(use_std), .dflt = "True", .doc = "multiply by a parameter"},
    {.name = "use_sample",
     .type = CRN_OPT_FLOAT,
     .offset = OFF(use_sample),
     .dflt = "0.0",
     .min = 0,
     .max = 1,
     .doc = "share of the running statistics in training"},
    {.name = "force_sample",
     .type = CRN_OPT_BOOL,
     .offset = OFF(force_sample),
     .dflt = "False",
     .doc = "mix as in training in evaluation too"},
    {.name = "gamma_init",
     .type = CRN_OPT_VALUE,
     .offset = OFF(gamma_init),
     .dflt = "1.0",
     .doc = "initialiser of the factor"},
    {.name = "beta_init",
     .type = CRN_OPT_VALUE,
     .offset = OFF(beta_init),
     .dflt = "0.0",
     .doc = "initialiser of the shift"},
    CRN_OPT_END};

/* ---- construction ---------------------------------------------------------------------------------------------------
 */

/* How the output is called: usually "x_output"; of an expression over one source, what the source's is called. */
static const char *output_name(crn_build *b, const crn_layer *l) {
  while (l->n_src == 1 &&
         (!strcmp(l->desc->name, "eval") || !strcmp(l->desc->name, "combine") || !strcmp(l->desc->name, "compare")))
    l = l->src[0];
  if (!strcmp(l->name, "data")) return "data";
  if (!strncmp(l->name, "data:", 5)) return l->name + 5;
  return crn_arena_printf(crn_build_arena(b), "%s_output", l->name);
}

static crn_status settle(crn_build *b, crn_layer *l, crn_batch_norm *n) {
  bn_cfg *c = &n->c;
  const bool late = crn_build_version(b) >= 12;
  if (isnan(c->momentum)) c->momentum = late ? 0.1 : 0.99;
  if (c->update_only_in_training == CRN_UNSET_INT) c->update_only_in_training = late;
  if (c->delay_update == CRN_UNSET_INT) c->delay_update = late;
  if (c->param_version == CRN_UNSET) c->param_version = late ? 2 : 0;
  if (c->masked_time == CRN_UNSET_INT && late)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "batch_norm: option 'masked_time' must be given from behavior_version 12 on");
  if (c->masked_time == CRN_UNSET_INT) c->masked_time = 1;
  n->fused = c->param_version == 2 && !c->masked_time && c->use_shift > 0 && c->use_std > 0 && c->use_sample == 0 &&
             c->force_sample <= 0;
  const char *prefix = "", *out;
  if (c->param_version == 2) prefix = "v2_";
  if (c->param_version == 0) {
    out = output_name(b, l);
    prefix = out ? crn_arena_printf(crn_build_arena(b), "%s_%s_", l->name, out) : NULL;
  }
  if (!prefix) return crn_err_memory(crn_build_err(b));
  n->mean = crn_arena_printf(crn_build_arena(b), "batch_norm/%smean", prefix);
  n->variance = crn_arena_printf(crn_build_arena(b), "batch_norm/%svariance", prefix);
  n->gamma = crn_arena_printf(crn_build_arena(b), "batch_norm/%sgamma", prefix);
  n->beta = crn_arena_printf(crn_build_arena(b), "batch_norm/%sbeta", prefix);
  n->settled = true;
  return n->beta ? CRN_OK : crn_err_memory(crn_build_err(b));
}

static crn_status check_output(crn_build *b, crn_layer *l, const crn_batch_norm *n) {
  const crn_tmpl *t = &l->out;
  if (t->sparse || t->feature_axis < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "batch_norm: the output has no feature axis");
  if (t->dims[t->feature_axis]->size < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "batch_norm: the feature axis must have a fixed size");
  if (n->c.masked_time && t->time_axis < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "batch_norm: option 'masked_time' needs a time axis; set it to False");
  return CRN_OK;
}

crn_status crn_batch_norm_infer(crn_build *b, crn_layer *l) {
  static const char *const also[] = {"in_dim", NULL};
  const crn_value *v = l->common.batch_norm;
  if (!l->batch_norm) {
    if (!v || !crn_v_truth(v)) return CRN_OK;
    crn_batch_norm *n = CRN_ARENA_NEW(crn_build_arena(b), crn_batch_norm);
    if (!n) return crn_err_memory(crn_build_err(b));
    const crn_value *dict = crn_v_is_dict(v) ? v : crn_v_dict(crn_build_arena(b));
    if (!dict) return crn_err_memory(crn_build_err(b));
    if (!crn_v_is_dict(v) && v->kind != CRN_V_BOOL && v->kind != CRN_V_INT)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'batch_norm': expected a bool or a dict, got %s",
                            crn_v_kind_name(v));
    CRN_TRY(crn_options_check_dict(b, l, dict, bn_opts, &n->c, "batch_norm: ", also));
    l->batch_norm = n;
  }
  const crn_value *in_dim = crn_v_is_dict(v) ? crn_v_get(v, "in_dim") : NULL;
  if (in_dim && in_dim->kind == CRN_V_DIM) {
    const crn_dim *d = crn_dim_of_value(crn_build_dims(b), in_dim), *f = crn_tmpl_feature(&l->out);
    if (d && f && !crn_dims_match(d, f, crn_build_version(b)))
      return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED,
                            "not implemented: batch_norm: 'in_dim' that is not the feature");
  }
  if (!l->batch_norm->settled) CRN_TRY(settle(b, l, l->batch_norm));
  return check_output(b, l, l->batch_norm);
}

crn_status crn_batch_norm_params(crn_build *b, crn_layer *l) {
  const crn_batch_norm *n = l->batch_norm;
  if (!n) return CRN_OK;
  const int64_t size = l->out.dims[l->out.feature_axis]->size;
  crn_param_spec s = {
      .name = n->mean, .rank = 1, .shape = {size}, .init_default = "0", .dtype = CRN_F32, .not_trainable = true};
  if (n->c.param_version < 2) {
    s.rank = l->out.n;
    for (int i = 0; i < l->out.n; i++) s.shape[i] = i == l->out.feature_axis ? size : 1;
  }
  CRN_TRY(crn_layer_param(b, l, &s));
  s.name = n->variance;
  s.init_default = "1";
  CRN_TRY(crn_layer_param(b, l, &s));
  s.not_trainable = false;
  s.init_default = NULL;
  s.name = n->gamma;
  s.init = n->c.gamma_init;
  if (n->c.use_std > 0) CRN_TRY(crn_layer_param(b, l, &s));
  s.name = n->beta;
  s.init = n->c.beta_init;
  return n->c.use_shift > 0 ? crn_layer_param(b, l, &s) : CRN_OK;
}

/* ---- execution ------------------------------------------------------------------------------------------------------
 */

typedef struct stats { /* [1, …, F, …, 1] */
  crn_tensor *mean, *variance;
} stats;

/* Of the batch; *n: how many values each is made of. */
static stats batch_stats(crn_run *r, const crn_data *d, bool masked, double *n) {
  const unsigned axes = ((1u << d->t.n) - 1u) & ~(1u << d->t.feature_axis);
  crn_tensor *mask = masked && d->t.time_axis >= 0 ? crn_data_mask(r, d, d->t.time_axis) : NULL;
  stats s = {NULL, NULL};
  double all = 1;
  if (crn_run_failed(r)) return s;
  for (int i = 0; i < d->t.n; i++)
    if (axes >> i & 1u && (!mask || mask->shape[i] == 1)) all *= (double)d->v->shape[i];
  if (!mask) {
    *n = all;
    s.mean = crn_reduce(r, CRN_R_MEAN, d->v, axes, true);
    s.variance = crn_reduce(r, CRN_R_MEAN, crn_unary(r, CRN_U_SQUARE, crn_sub(r, d->v, s.mean)), axes, true);
    return s;
  }
  double frames = 0;
  const int64_t size = crn_t_size(mask);
  for (int64_t i = 0; i < size; i++) frames += crn_t_bool(mask)[i] ? 1 : 0;
  *n = frames * all;
  const double scale = *n > 0 ? 1 / *n : 0;
  s.mean = crn_scale(r, crn_reduce(r, CRN_R_SUM, crn_mask_fill(r, d->v, mask, 0), axes, true), scale);
  crn_tensor *sq = crn_unary(r, CRN_U_SQUARE, crn_sub(r, d->v, s.mean));
  s.variance = crn_scale(r, crn_reduce(r, CRN_R_SUM, crn_mask_fill(r, sq, mask, 0), axes, true), scale);
  return s;
}

/* r + momentum * (batch - r), without gradient. */
static crn_tensor *moved(crn_run *r, crn_tensor *running, crn_tensor *batch, double momentum) {
  batch = crn_t_stop_gradient(r, batch);
  return crn_add(r, running, crn_scale(r, crn_sub(r, batch, running), momentum));
}

static crn_status note(crn_exec *x, crn_layer *l, const char *name, crn_tensor *value) {
  const crn_tensor *p = crn_param_get(x, l, name);
  if (!p || !value) return crn_exec_run(x)->err->code;
  return crn_exec_assign(x, l, name, crn_t_reshape(crn_exec_run(x), value, p->rank, p->shape));
}

static crn_tensor *mixed(crn_run *r, crn_tensor *batch, crn_tensor *running, double use_sample) {
  if (use_sample == 0) return batch;
  return crn_add(r, crn_scale(r, batch, 1 - use_sample), crn_scale(r, running, use_sample));
}

static crn_tensor *param(crn_exec *x, crn_layer *l, const char *name, int rank, const int64_t *shape) {
  crn_tensor *p = crn_param_get(x, l, name);
  return p ? crn_t_reshape(crn_exec_run(x), p, rank, shape) : NULL;
}

/* Outside of training new running statistics are noted. */
static bool updates_always(const crn_batch_norm *n) { return !(n->fused || n->c.update_only_in_training); }

bool crn_batch_norm_reads_batch(const crn_layer *l) {
  const crn_batch_norm *n = l->batch_norm;
  return n->c.force_sample > 0 || (updates_always(n) && !n->c.delay_update);
}

/* The statistics to normalise with; new running ones are noted. */
static crn_status choose_stats(crn_exec *x, crn_layer *l, const crn_data *d, const int64_t *shape, stats *use) {
  const crn_batch_norm *n = l->batch_norm;
  const bn_cfg *c = &n->c;
  crn_run *r = crn_exec_run(x);
  const bool train = crn_exec_train(x), of_batch = train || c->force_sample > 0;
  const bool update = train || updates_always(n);
  stats running = {param(x, l, n->mean, d->t.n, shape), param(x, l, n->variance, d->t.n, shape)}, batch = {NULL, NULL};
  double count = 0;
  if (!running.mean || !running.variance) return r->err->code;
  if (of_batch || update) batch = batch_stats(r, d, c->masked_time > 0, &count);
  if (update && count > 0) {
    crn_tensor *var = n->fused && count > 1 ? crn_scale(r, batch.variance, count / (count - 1)) : batch.variance;
    stats after = {moved(r, running.mean, batch.mean, c->momentum), moved(r, running.variance, var, c->momentum)};
    CRN_TRY(note(x, l, n->mean, after.mean));
    CRN_TRY(note(x, l, n->variance, after.variance));
    if (!c->delay_update && !n->fused) running = after;
  }
  *use = running;
  if (of_batch) {
    use->mean = mixed(r, batch.mean, running.mean, c->use_sample);
    use->variance = mixed(r, batch.variance, running.variance, c->use_sample);
  }
  return use->variance ? CRN_OK : r->err->code;
}

crn_status crn_batch_norm_apply(crn_exec *x, crn_layer *l, crn_data *d) {
  const crn_batch_norm *n = l->batch_norm;
  crn_run *r = crn_exec_run(x);
  if (!n) return CRN_OK;
  if (!d->v || d->v->rank != d->t.n || d->t.feature_axis < 0)
    return crn_exec_fail(x, l, "batch_norm: the output has no feature axis");
  int64_t shape[CRN_MAX_RANK];
  stats s = {NULL, NULL};
  for (int i = 0; i < d->t.n; i++) shape[i] = i == d->t.feature_axis ? d->v->shape[i] : 1;
  CRN_TRY(choose_stats(x, l, d, shape, &s));
  crn_tensor *factor = crn_unary(r, CRN_U_RSQRT, crn_add_scalar(r, s.variance, n->c.epsilon));
  if (n->c.use_std > 0) factor = crn_mul(r, factor, param(x, l, n->gamma, d->t.n, shape));
  d->v = crn_mul(r, crn_sub(r, d->v, s.mean), factor);
  if (n->c.use_shift > 0) d->v = crn_add(r, d->v, param(x, l, n->beta, d->t.n, shape));
  d->pre = NULL;
  d->pre_act = NULL;
  return d->v ? CRN_OK : r->err->code;
}

/* ---- the class ------------------------------------------------------------------------------------------------------
 */

static crn_status bn_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (l->batch_norm) return CRN_OK;
  l->batch_norm = CRN_ARENA_NEW(crn_build_arena(b), crn_batch_norm);
  if (!l->batch_norm) return crn_err_memory(crn_build_err(b));
  memcpy(&l->batch_norm->c, l->cfg, sizeof(bn_cfg));
  return CRN_OK;
}

static crn_status bn_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *in = crn_input(x, l);
  if (!in) return crn_exec_run(x)->err->code;
  const crn_tmpl t = l->out;
  *out = *in;
  out->t = t;
  return CRN_OK; /* crn_batch_norm_apply follows, as for any layer with the option */
}

const crn_layer_desc crn_family_batch_norm[] = {
    {.name = "batch_norm",
     .doc = "Normalises over all axes but the feature, by statistics of the batch.",
     .opts = bn_opts,
     .cfg_size = sizeof(bn_cfg),
     .flags = CRN_L_CONCAT | CRN_L_READS_PADDING | CRN_L_STREAMS,
     .infer = bn_infer,
     .forward = bn_forward},
    {.name = NULL}};
