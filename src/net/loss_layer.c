/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer class loss: the values of a loss for each frame, as a layer's output. Nothing is trained by it.
 */
#include <string.h>

#include "net/build.h"
#include "net/exec.h"

typedef struct loss_layer_cfg {
  const char *name, *target_name;
  const crn_value *opts;
  int use_error;
  crn_loss *loss;
} loss_layer_cfg;

#define OFF(f) offsetof(loss_layer_cfg, f)
static const crn_opt loss_layer_opts[] = {
    {.name = "loss_", .type = CRN_OPT_STR, .offset = OFF(name), .doc = "name of the loss"},
    {.name = "target_",
     .type = CRN_OPT_STR,
     .offset = OFF(target_name),
     .dflt = "None",
     .doc = "data key or \"layer:NAME\"; None: the default target"},
    {.name = "loss_opts_", .type = CRN_OPT_VALUE, .offset = OFF(opts), .dflt = "None", .doc = "dict of its options"},
    {.name = "use_error",
     .type = CRN_OPT_BOOL,
     .offset = OFF(use_error),
     .dflt = "False",
     .doc = "give its error instead of its value"},
    CRN_OPT_END};

static crn_status loss_layer_refs(crn_build *b, crn_layer *l) {
  loss_layer_cfg *c = l->cfg;
  crn_arena *a = &b->net->arena;
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  const crn_loss_desc *desc = crn_loss_class_find(c->name);
  if (desc && desc->flags & CRN_LOSS_RECURRENT)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'loss_': '%s' has no value per frame", c->name);
  crn_layer *target = NULL;
  const char *name = c->target_name ? c->target_name : b->net->default_target;
  if (c->target_name || (desc && desc->flags & CRN_LOSS_NEEDS_TARGET)) {
    CRN_TRY(crn_target_layer(b, l, name, &target));
    CRN_TRY(crn_layer_add_edge(b, l, target, CRN_EDGE_TARGET, "target_"));
  }
  crn_value *dict = crn_v_is_dict(c->opts) ? crn_v_copy(a, c->opts) : crn_v_dict(a);
  if (!dict || !crn_v_put(a, dict, "class", crn_v_str(a, c->name)) ||
      !crn_v_put(a, dict, "use_flatten_frames", crn_v_bool(a, false)))
    return crn_err_memory(b->err);
  return crn_loss_make_inner(b, l->src[0], dict, target, &c->loss); /* of the source: its axes, input and weights */
}

static crn_status loss_layer_infer(crn_build *b, crn_layer *l) {
  loss_layer_cfg *c = l->cfg;
  const crn_tmpl *in = crn_source_tmpl(l, 0);
  if (!in || (c->loss->target && !c->loss->target->out_known)) {
    l->out_known = false;
    return CRN_OK;
  }
  CRN_TRY(crn_loss_check(b, c->loss));
  if (in->n - (in->feature_axis >= 0) > 2)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "needs a source of frames and features");
  l->out = *in;
  if (in->feature_axis >= 0) crn_tmpl_remove(&l->out, in->feature_axis);
  l->out.sparse = false;
  l->out.sparse_dim = NULL;
  l->out.vocab = NULL;
  l->out.dtype = CRN_F32;
  CRN_TRY(crn_layer_add_sub(b, l, "loss", &l->out));
  return crn_layer_add_sub(b, l, "error", &l->out);
}

/* Values as the loss gave them (frames [B, T, …], or merged), one per frame, in the order of the layer's axes. */
static crn_tensor *per_frame(crn_exec *x, crn_layer *l, crn_tensor *v, const crn_data *in) {
  crn_run *r = &x->run;
  int64_t shape[2] = {1, 1}, n = 1;
  const int batch = crn_tmpl_batch_axis(&in->t), time = in->t.time_axis, rank = (batch >= 0) + (time >= 0);
  if (!v) return NULL;
  if (batch >= 0) shape[0] = in->v->shape[batch];
  if (time >= 0) shape[rank - 1] = in->v->shape[time];
  for (int i = 0; i < rank; i++) n *= shape[i];
  if (crn_t_size(v) != n) {
    (void)crn_exec_fail(x, l, "the loss gives %lld values for %lld frames", (long long)crn_t_size(v), (long long)n);
    return NULL;
  }
  if (v->dtype != r->real) v = crn_cast(r, v, r->real);
  v = crn_t_reshape(r, v, rank, shape);
  const int perm[2] = {1, 0};
  return rank == 2 && time < batch ? crn_transpose(r, v, perm) : v;
}

static crn_status give_sub(crn_exec *x, crn_layer *l, int i, const crn_data *out, crn_tensor *v) {
  crn_data *d = v ? crn_data_copy(&x->run, out) : NULL;
  if (!d) return x->run.err->code;
  d->v = v;
  return crn_sub_out(x, l, i, d);
}

static crn_status loss_layer_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const loss_layer_cfg *c = l->cfg;
  crn_run *r = &x->run;
  crn_loss_io io = {.output = crn_source(x, l, 0), .n_frames = -1};
  if (!io.output) return r->err->code;
  if (c->loss->target && !(io.target = crn_value_of(x, l, c->loss->target))) return r->err->code;
  crn_status st = c->loss->desc->compute(x, l->src[0], c->loss, &io);
  if (st != CRN_OK || crn_run_failed(r)) return crn_err_where(r->err, "loss '%s'", c->name);
  for (int i = 0, k = 0; i < io.output->t.n; i++)
    if (i != io.output->t.feature_axis) out->len[k++] = io.output->len[i];
  crn_tensor *value = per_frame(x, l, io.value, io.output), *error = per_frame(x, l, io.error, io.output);
  if (crn_run_failed(r)) return r->err->code;
  out->v = c->use_error ? error : value;
  if (!out->v) return crn_exec_fail(x, l, "loss '%s' has no %s", c->name, c->use_error ? "error" : "value");
  if (value) CRN_TRY(give_sub(x, l, 0, out, value));
  return error ? give_sub(x, l, 1, out, error) : CRN_OK;
}

const crn_layer_desc crn_family_loss[] = {{.name = "loss",
                                           .doc = "Computes a loss per frame as an output, without training it.",
                                           .opts = loss_layer_opts,
                                           .cfg_size = sizeof(loss_layer_cfg),
                                           .refs = loss_layer_refs,
                                           .infer = loss_layer_infer,
                                           .forward = loss_layer_forward},
                                          {.name = NULL}};
