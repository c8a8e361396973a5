/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that fit no family: as_is, via_layer, triplet_loss, deep_clustering, and those that need a program of others.
 */
#include <string.h>

#include "loss/frames.h"
#include "tensor/given_gradient.h"

/* ---- as_is ---- */

typedef struct as_is_cfg {
  int as_error;
} as_is_cfg;

static const crn_opt as_is_opts[] = {{.name = "as_error",
                                      .type = CRN_OPT_BOOL,
                                      .offset = offsetof(as_is_cfg, as_error),
                                      .dflt = "False",
                                      .doc = "report it as an error; nothing is trained"},
                                     CRN_OPT_END};

static crn_status as_is_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_run *r = crn_exec_run(x);
  const as_is_cfg *c = loss->cfg;
  crn_tensor *v = io->output->v, *mask = crn_data_mask_all(r, io->output);
  (void)l;
  if (crn_run_failed(r)) return r->err->code;
  if (v->dtype != r->real) v = crn_cast(r, v, r->real);
  if (mask) v = crn_mask_fill(r, v, mask, 0.0);
  if (!v) return r->err->code;
  if (c->as_error)
    io->error = v;
  else
    io->value = v;
  return CRN_OK;
}

/* ---- via_layer ---- */

typedef struct via_cfg {
  crn_layer *error_signal_layer, *align_layer;
  const crn_value *loss_wrt_to_act_in;
} via_cfg;

#define OFF(f) offsetof(via_cfg, f)
static const crn_opt via_opts[] = {
    {.name = "error_signal_layer",
     .type = CRN_OPT_LAYER,
     .offset = OFF(error_signal_layer),
     .dflt = "None",
     .doc = "its output is the gradient"},
    {.name = "align_layer",
     .type = CRN_OPT_LAYER,
     .offset = OFF(align_layer),
     .dflt = "None",
     .doc = "the gradient is output minus its output"},
    {.name = "loss_wrt_to_act_in",
     .type = CRN_OPT_VALUE,
     .offset = OFF(loss_wrt_to_act_in),
     .dflt = "False",
     .doc = "True: the gradient is that of the activation's input; a name: and the activation is that one"},
    CRN_OPT_END};
#undef OFF

static crn_status via_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  const via_cfg *c = loss->cfg;
  if (!c->error_signal_layer == !c->align_layer)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "loss 'via_layer' needs one of the options 'error_signal_layer' and "
                          "'align_layer'");
  return CRN_OK;
}

/* What the gradient is for: the output, or its activation's input. */
static crn_tensor *via_subject(crn_exec *x, crn_layer *l, const via_cfg *c, const crn_data *o) {
  const crn_value *v = c->loss_wrt_to_act_in;
  const char *name = crn_v_cstr(v);
  if (!crn_v_truth(v)) return o->v;
  if (!o->pre || !o->pre_act) {
    (void)crn_exec_fail(x, l, "loss option 'loss_wrt_to_act_in': the output has no activation whose input is known");
    return NULL;
  }
  if (name && strcmp(name, o->pre_act) != 0) {
    (void)crn_exec_fail(x, l, "loss option 'loss_wrt_to_act_in' is '%s', but the activation is '%s'", name, o->pre_act);
    return NULL;
  }
  return o->pre;
}

static crn_status via_error(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_frames f;
  crn_loss_io e = *io;
  CRN_TRY(crn_frames_open(&f, x, l, loss, &e));
  crn_tensor *v = f.softmax ? crn_frames_logits(&f) : crn_frames_output(&f);
  crn_tensor *a = crn_frames_target(&f, v);
  CRN_TRY(crn_frames_give(&f, NULL, crn_frames_error(&f, v, a)));
  io->error = e.error;
  return CRN_OK;
}

static crn_status via_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const via_cfg *c = loss->cfg;
  crn_run *r = crn_exec_run(x);
  crn_layer *from = c->align_layer ? c->align_layer : c->error_signal_layer;
  const crn_data *o = crn_data_batch_major(r, io->output), *d = crn_value_of(x, l, from);
  if (!o || !d) return r->err->code;
  if (!d->output_loss)
    return crn_exec_fail(x, l, "layer '%s' has no loss of its own to report (class fast_bw has one)", from->path);
  crn_tensor *subject = via_subject(x, l, c, o), *mask = crn_data_mask_all(r, o);
  crn_tensor *grad = crn_t_stop_gradient(r, crn_data_fit(r, d, &o->t, crn_exec_version(x), true));
  if (!subject || !grad) return r->err->code;
  if (c->align_layer) grad = crn_sub(r, crn_t_stop_gradient(r, o->v), grad);
  grad = crn_broadcast_to(r, grad, subject->rank, subject->shape);
  if (mask) grad = crn_mask_fill(r, grad, mask, 0.0);
  io->value = crn_given_gradient(r, crn_t_stop_gradient(r, d->output_loss), subject, grad, false);
  if (io->target) CRN_TRY(via_error(x, l, loss, io));
  return crn_run_failed(r) ? r->err->code : CRN_OK;
}

/* ---- triplet_loss ---- */

typedef struct triplet_cfg {
  double margin;
  int multi_view_training;
} triplet_cfg;

static const crn_opt triplet_opts[] = {{.name = "margin",
                                        .type = CRN_OPT_FLOAT,
                                        .offset = offsetof(triplet_cfg, margin),
                                        .doc = "distance from which other labels count nothing"},
                                       {.name = "multi_view_training",
                                        .type = CRN_OPT_BOOL,
                                        .offset = offsetof(triplet_cfg, multi_view_training),
                                        .dflt = "False",
                                        .doc = "the output holds six parts: three of each of two views"},
                                       CRN_OPT_END};

static crn_status triplet_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  const triplet_cfg *c = loss->cfg;
  const crn_tmpl *o = &l->out, *t = &loss->target->out;
  const int64_t parts = c->multi_view_training ? 6 : 3;
  if (o->n != 2 || crn_tmpl_batch_axis(o) < 0 || o->feature_axis < 0 || crn_tmpl_dim(o) % parts)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss 'triplet_loss' needs an output [B, F] with F a multiple of %lld",
                          (long long)parts);
  if (t->n != 2 || crn_tmpl_batch_axis(t) < 0 || !t->sparse ||
      (t->dims[1 - crn_tmpl_batch_axis(t)]->size >= 0 && t->dims[1 - crn_tmpl_batch_axis(t)]->size != 3))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss 'triplet_loss' needs a target of 3 labels per sequence, got '%s'",
                          loss->target->path);
  return CRN_OK;
}

/* Distances of all pairs of rows of three parts of y [B, n F]; weights: same[i, j] 1 for equal labels. */
static crn_tensor *triplet_value(crn_run *r, crn_tensor *y, const int *part, int64_t F, crn_tensor *same,
                                 double margin) {
  crn_tensor *parts[3];
  for (int i = 0; i < 3; i++) parts[i] = crn_slice(r, y, 1, part[i] * F, F, 1);
  crn_tensor *v = crn_concat(r, 3, parts, 0);
  crn_tensor *sq = v ? crn_reduce(r, CRN_R_SUM, crn_unary(r, CRN_U_SQUARE, v), 1u << 1, true) : NULL;
  if (!sq) return NULL;
  crn_tensor *norm = crn_unary(r, CRN_U_RSQRT, crn_binary(r, CRN_B_MAXIMUM, sq, crn_t_scalar(r, v->dtype, 1e-15)));
  v = crn_mul(r, v, norm);
  crn_tensor *d = crn_add_scalar(r, crn_scale(r, crn_matmul(r, v, false, v, true), -1), 1);
  crn_tensor *far = crn_unary(r, CRN_U_RELU, crn_add_scalar(r, crn_scale(r, d, -1), margin));
  crn_tensor *other = crn_add_scalar(r, crn_scale(r, same, -1), 1);
  return crn_scale(r, crn_reduce_all(r, CRN_R_SUM, crn_add(r, crn_mul(r, same, d), crn_mul(r, other, far))), 0.5);
}

/* [3B, 3B]: 1 where l_j² = l_i·l_j, which makes label 0 equal to all, as in the original. */
static crn_tensor *same_labels(crn_run *r, const crn_tensor *labels) {
  const int64_t B = labels->shape[0], n = 3 * B, shape[2] = {n, n};
  crn_tensor *same = crn_t_zeros(r, r->real, 2, shape);
  for (int64_t i = 0; same && i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      const int64_t a = crn_t_i32(labels)[i % B * 3 + i / B], b = crn_t_i32(labels)[j % B * 3 + j / B];
      if (b * b != a * b) continue;
      if (r->real == CRN_F32)
        crn_t_f32(same)[i * n + j] = 1;
      else
        crn_t_f64(same)[i * n + j] = 1;
    }
  return same;
}

static crn_status triplet_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  static const int single[1][3] = {{0, 1, 2}}, multi[2][3] = {{0, 4, 5}, {3, 1, 2}};
  const triplet_cfg *c = loss->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *o = crn_data_batch_major(r, io->output), *t = crn_data_batch_major(r, io->target);
  if (!o || !t) return r->err->code;
  const int n_sums = c->multi_view_training ? 2 : 1;
  const int64_t F = o->v->shape[1] / (3 * n_sums);
  if (t->v->rank != 2 || t->v->shape[1] != 3 || t->v->shape[0] != o->v->shape[0])
    return crn_exec_fail(x, l, "the target must hold 3 labels per sequence");
  crn_tensor *labels = t->v->dtype == CRN_I32 ? t->v : crn_cast(r, t->v, CRN_I32);
  crn_tensor *same = labels ? same_labels(r, labels) : NULL, *value = NULL;
  for (int i = 0; i < n_sums; i++) {
    crn_tensor *v = triplet_value(r, o->v, c->multi_view_training ? multi[i] : single[i], F, same, c->margin);
    value = value ? crn_add(r, value, v) : v;
  }
  io->value = value;
  io->own_norm = true;
  io->n_frames = 9.0 * n_sums * (double)o->v->shape[0];
  return value ? CRN_OK : r->err->code;
}

/* ---- deep_clustering ---- */

typedef struct clustering_cfg {
  int64_t embedding_dimension, nr_of_sources;
} clustering_cfg;

static const crn_opt clustering_opts[] = {{.name = "embedding_dimension",
                                           .type = CRN_OPT_INT,
                                           .offset = offsetof(clustering_cfg, embedding_dimension),
                                           .min = 1,
                                           .max = 1e9,
                                           .doc = "numbers of an embedding"},
                                          {.name = "nr_of_sources",
                                           .type = CRN_OPT_INT,
                                           .offset = offsetof(clustering_cfg, nr_of_sources),
                                           .min = 1,
                                           .max = 1e9,
                                           .doc = "numbers of a target's assignment"},
                                          CRN_OPT_END};

static crn_status clustering_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  const clustering_cfg *c = loss->cfg;
  CRN_TRY(crn_frames_check_dense(b, l, loss));
  const int64_t D = crn_tmpl_dim(&l->out), A = crn_tmpl_dim(&loss->target->out);
  if (l->out.n == 3 && D >= 0 && A >= 0 && A % c->nr_of_sources == 0 &&
      c->embedding_dimension * (A / c->nr_of_sources) == D)
    return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG,
                        "loss 'deep_clustering' needs an output [B, T, %lld * n] and a target "
                        "[B, T, %lld * n], the dims are %lld and %lld",
                        (long long)c->embedding_dimension, (long long)c->nr_of_sources, (long long)D, (long long)A);
}

/* Masked frames [B, T * D / n, n]. */
static crn_tensor *clustering_rows(crn_run *r, const crn_data *d, int64_t n) {
  const crn_data *m = crn_data_feature_last(r, crn_data_batch_major(r, d));
  crn_tensor *mask = m ? crn_data_mask_all(r, m) : NULL;
  if (!m) return NULL;
  crn_tensor *v = m->v->dtype == r->real ? m->v : crn_cast(r, m->v, r->real);
  if (mask) v = crn_mask_fill(r, v, mask, 0.0);
  return v ? crn_t_reshape(r, v, 3, (int64_t[]){v->shape[0], v->shape[1] * v->shape[2] / n, n}) : NULL;
}

/* Squared Frobenius norm of aᵀb per sequence. */
static crn_tensor *squared_product(crn_run *r, crn_tensor *a, crn_tensor *b) {
  crn_tensor *p = crn_matmul(r, a, true, b, false);
  return p ? crn_reduce(r, CRN_R_SUM, crn_unary(r, CRN_U_SQUARE, p), 6u, false) : NULL;
}

static crn_status clustering_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const clustering_cfg *c = loss->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *v = clustering_rows(r, io->output, c->embedding_dimension);
  crn_tensor *y = clustering_rows(r, io->target, c->nr_of_sources);
  (void)l;
  io->value = crn_add(r, crn_sub(r, squared_product(r, v, v), crn_scale(r, squared_product(r, v, y), 2)),
                      squared_product(r, y, y));
  return io->value ? CRN_OK : r->err->code;
}

/* ---- not possible here ---- */

typedef struct external_cfg {
  const crn_value *sprint_opts;
  double tdp_scale;
} external_cfg;

static const crn_opt external_opts[] = {{.name = "sprint_opts",
                                         .type = CRN_OPT_VALUE,
                                         .offset = offsetof(external_cfg, sprint_opts),
                                         .doc = "how to start the RASR process"},
                                        {.name = "tdp_scale",
                                         .type = CRN_OPT_FLOAT,
                                         .offset = offsetof(external_cfg, tdp_scale),
                                         .dflt = "1.0",
                                         .doc = "factor of the automata's weights"},
                                        CRN_OPT_END};

static const crn_opt sprint_options[] = {{.name = "sprint_opts",
                                          .type = CRN_OPT_VALUE,
                                          .offset = offsetof(external_cfg, sprint_opts),
                                          .doc = "how to start the RASR process"},
                                         CRN_OPT_END};

const crn_loss_desc crn_losses_other[] = {{.name = "as_is",
                                           .doc = "Takes the output as the loss.",
                                           .opts = as_is_opts,
                                           .cfg_size = sizeof(as_is_cfg),
                                           .compute = as_is_compute},
                                          {.name = "via_layer",
                                           .doc = "Takes value and gradient from another layer.",
                                           .opts = via_opts,
                                           .cfg_size = sizeof(via_cfg),
                                           .flags = CRN_LOSS_RECURRENT,
                                           .check = via_check,
                                           .compute = via_compute},
                                          {.name = "triplet_loss",
                                           .doc = "Pulls rows of equal labels together, others apart up to a margin.",
                                           .opts = triplet_opts,
                                           .cfg_size = sizeof(triplet_cfg),
                                           .flags = CRN_LOSS_NEEDS_TARGET | CRN_LOSS_ANY_SHAPE,
                                           .check = triplet_check,
                                           .compute = triplet_compute},
                                          {.name = "deep_clustering",
                                           .doc = "Compares which frames embeddings and target hold together.",
                                           .opts = clustering_opts,
                                           .cfg_size = sizeof(clustering_cfg),
                                           .flags = CRN_LOSS_NEEDS_TARGET | CRN_LOSS_ANY_DIM,
                                           .check = clustering_check,
                                           .compute = clustering_compute},
                                          {.name = "fast_bw",
                                           .doc = "Sums over automata that come from the external program RASR.",
                                           .opts = external_opts,
                                           .cfg_size = sizeof(external_cfg),
                                           .flags = CRN_LOSS_RECURRENT},
                                          {.name = "sprint",
                                           .doc = "Takes value and gradient from the external program RASR.",
                                           .opts = sprint_options,
                                           .cfg_size = sizeof(external_cfg),
                                           .flags = CRN_LOSS_RECURRENT},
                                          {.name = NULL}};
