/* SPDX-License-Identifier: Apache-2.0
 *
 * gradient: the derivative of one layer with respect to another as a layer. synthetic_gradient and
 * tikhonov_regularization: identities whose meta losses train on gradients; their values only, not in training.
 */
#include <string.h>

#include "net/build.h"
#include "net/exec.h"

typedef struct gradient_cfg {
  crn_layer *y, *x, *gradient;
  double meta_loss_scale;
} gradient_cfg;

#define OFF(f) offsetof(gradient_cfg, f)
#define META_OPT                                                                                                       \
  {                                                                                                                    \
    .name = "meta_loss_scale", .type = CRN_OPT_FLOAT, .offset = OFF(meta_loss_scale), .dflt = "1.0",                   \
    .doc = "factor of the meta loss"                                                                                   \
  }

static const crn_opt gradient_opts[] = {
    {.name = "y", .type = CRN_OPT_LAYER, .offset = OFF(y), .doc = "scalar layer that is derived"},
    {.name = "x", .type = CRN_OPT_LAYER, .offset = OFF(x), .doc = "layer that it is derived by"},
    CRN_OPT_END};

static crn_status gradient_refs(crn_build *b, crn_layer *l) {
  const gradient_cfg *c = l->cfg;
  if (l->n_src) return crn_layer_fail(b, l, CRN_E_CONFIG, "takes no 'from', only 'y' and 'x'");
  if (c->x->body != l->body || c->y->body != l->body)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: from inside of a loop to outside");
  c->x->watched = true;
  b->net->records = true;
  return CRN_OK;
}

static crn_status gradient_infer(crn_build *b, crn_layer *l) {
  const gradient_cfg *c = l->cfg;
  l->out_known = c->x->out_known && c->y->out_known;
  if (!l->out_known) return CRN_OK;
  if (c->y->out.n || c->y->out.dtype != CRN_F32)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'y': layer '%s' is not a float scalar", c->y->path);
  if (c->x->out.dtype != CRN_F32)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'x': layer '%s' is not float", c->x->path);
  l->out = c->x->out;
  return CRN_OK;
}

static crn_status gradient_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const gradient_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *dx = crn_exec_slot(x, c->x)->out, *dy = crn_exec_slot(x, c->y)->out;
  if (!dx || !dy) return crn_exec_fail(x, l, "the values are not there");
  for (int i = 0; i < dx->t.n; i++) out->len[i] = dx->len[i];
  out->v = crn_gradient(r, dy->v, dx->v);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- identities with meta losses ------------------------------------------------------------------------------------
 */

static const crn_opt synthetic_opts[] = {
    {.name = "gradient", .type = CRN_OPT_LAYER, .offset = OFF(gradient), .doc = "layer that estimates the gradient"},
    META_OPT,
    CRN_OPT_END};
static const crn_opt tikhonov_opts[] = {META_OPT, CRN_OPT_END};

static crn_status meta_infer(crn_build *b, crn_layer *l) {
  bool known;
  if (crn_build_train(b, l))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: training by meta losses");
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  return CRN_OK;
}

static crn_status tikhonov_params(crn_build *b, crn_layer *l) {
  crn_param_spec s = {.name = "dummy", .init_default = "0", .dtype = CRN_F32};
  return crn_layer_param(b, l, &s);
}

static crn_status meta_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *in = crn_input(x, l);
  if (!in) return x->run.err->code;
  const crn_tmpl t = l->out;
  *out = *in;
  out->t = t;
  return CRN_OK;
}

const crn_layer_desc crn_family_gradient[] = {{.name = "gradient",
                                               .doc = "Gives the derivative of a layer by another.",
                                               .opts = gradient_opts,
                                               .cfg_size = sizeof(gradient_cfg),
                                               .flags = CRN_L_NO_SOURCES | CRN_L_MANY_INPUTS | CRN_L_NEEDS_FUTURE,
                                               .refs = gradient_refs,
                                               .infer = gradient_infer,
                                               .forward = gradient_forward},
                                              {.name = "synthetic_gradient",
                                               .doc = "Passes its input on; trains on an estimated gradient.",
                                               .opts = synthetic_opts,
                                               .cfg_size = sizeof(gradient_cfg),
                                               .flags = CRN_L_CONCAT,
                                               .infer = meta_infer,
                                               .forward = meta_forward},
                                              {.name = "tikhonov_regularization",
                                               .doc = "Passes its input on; keeps the gradient small in training.",
                                               .opts = tikhonov_opts,
                                               .cfg_size = sizeof(gradient_cfg),
                                               .flags = CRN_L_CONCAT,
                                               .infer = meta_infer,
                                               .params = tikhonov_params,
                                               .forward = meta_forward},
                                              {.name = NULL}};
