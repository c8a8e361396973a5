/* SPDX-License-Identifier: Apache-2.0
 *
 * Units with one state: gru, basicrnn and rhn (recurrent highway network).
 */
#include <math.h>
#include <stdio.h>

#include "layer/unit.h"

typedef struct simple_opts {
  const crn_value *activation, *kernel_initializer, *bias_initializer, *dropout_seed, *is_training, *batch_size;
  int64_t depth;
  double dropout, transform_bias;
} simple_opts;

#define OFF(f) offsetof(simple_opts, f)
#define VALUE(n, text)                                                                                                 \
  { .name = #n, .type = CRN_OPT_VALUE, .offset = OFF(n), .dflt = "None", .doc = text }
#define ACTIVATION                                                                                                     \
  {                                                                                                                    \
    .name = "activation", .type = CRN_OPT_VALUE, .offset = OFF(activation), .dflt = "\"tanh\"",                        \
    .doc = "of the new value"                                                                                          \
  }
static const crn_opt gru_opts[] = {ACTIVATION, VALUE(kernel_initializer, "initialiser of the matrices"),
                                   VALUE(bias_initializer, "initialiser of the biases"), CRN_OPT_END};
static const crn_opt rnn_opts[] = {ACTIVATION, CRN_OPT_END};
static const crn_opt rhn_opts[] = {{.name = "depth",
                                    .type = CRN_OPT_INT,
                                    .offset = OFF(depth),
                                    .dflt = "5",
                                    .min = 1,
                                    .max = 1000,
                                    .doc = "levels per frame"},
                                   {.name = "dropout",
                                    .type = CRN_OPT_FLOAT,
                                    .offset = OFF(dropout),
                                    .dflt = "0.0",
                                    .min = 0,
                                    .max = 1,
                                    .doc = "dropout rate of the state in training"},
                                   {.name = "transform_bias",
                                    .type = CRN_OPT_FLOAT,
                                    .offset = OFF(transform_bias),
                                    .dflt = "None",
                                    .doc = "initial value of the transform gate's bias"},
                                   VALUE(dropout_seed, "no effect: masks follow from the run's seed"),
                                   VALUE(is_training, "draw dropout masks; None: while training"),
                                   VALUE(batch_size, "no effect"),
                                   CRN_OPT_END};

enum { STATE }; /* h */

/* ---- gru --------------------------------------------------------------------------------------------------------- */

enum { GATES_H, CANDIDATE_H };

static crn_status activation_check(crn_build *b, crn_layer *l, crn_unit *u) {
  return crn_unit_activation(b, l, u, ((const simple_opts *)u->opts)->activation);
}

static const crn_value *or_null(const crn_value *v) { return crn_v_is_none(v) ? NULL : v; }

static crn_status gru_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  const simple_opts *o = u->opts;
  const crn_value *kernel = or_null(o->kernel_initializer), *bias = or_null(o->bias_initializer);
  const int64_t rows = u->n_in + u->n;
  CRN_TRY(crn_unit_param(b, l, "gru_cell/gates/kernel", rows, 2 * u->n, CRN_INIT_MATRIX, kernel, 0, 0));
  CRN_TRY(crn_unit_param(b, l, "gru_cell/gates/bias", 0, 2 * u->n, CRN_INIT_VALUE, bias, 1, 0));
  CRN_TRY(crn_unit_param(b, l, "gru_cell/candidate/kernel", rows, u->n, CRN_INIT_MATRIX, kernel, 0, 0));
  return crn_unit_param(b, l, "gru_cell/candidate/bias", 0, u->n, CRN_INIT_VALUE, bias, 0, 0);
}

static void gru_begin(crn_unit_run *c) {
  const int64_t n_in = c->u->n_in;
  crn_tensor *gates = crn_unit_get(c, "gru_cell/gates/kernel"),
             *candidate = crn_unit_get(c, "gru_cell/candidate/kernel");
  crn_tensor *gates_b = crn_unit_get(c, "gru_cell/gates/bias"),
             *candidate_b = crn_unit_get(c, "gru_cell/candidate/bias");
  c->p[GATES_H] = crn_unit_rows(c, gates, n_in, c->n);
  c->p[CANDIDATE_H] = crn_unit_rows(c, candidate, n_in, c->n);
  c->z[0] = crn_linear(c->r, c->in, crn_unit_rows(c, gates, 0, n_in), false, gates_b);
  c->z[1] = crn_linear(c->r, c->in, crn_unit_rows(c, candidate, 0, n_in), false, candidate_b);
}

static crn_tensor *gru_step(crn_unit_run *c, crn_tensor *const *z) {
  crn_run *r = c->r;
  crn_tensor *h = c->s[STATE];
  crn_tensor *gates = crn_unary(r, CRN_U_SIGMOID, crn_add(r, z[0], crn_linear(r, h, c->p[GATES_H], false, NULL)));
  crn_tensor *reset = crn_unit_block(c, gates, 0), *keep = crn_unit_block(c, gates, 1);
  crn_tensor *seen = crn_linear(r, crn_mul(r, reset, h), c->p[CANDIDATE_H], false, NULL);
  crn_tensor *candidate = crn_unit_act(c, crn_add(r, z[1], seen));
  /* keep·h + (1 - keep)·candidate */
  return c->s[STATE] = crn_add(r, candidate, crn_mul(r, keep, crn_sub(r, h, candidate)));
}

/* ---- basicrnn ---------------------------------------------------------------------------------------------------- */

static crn_status rnn_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  CRN_TRY(crn_unit_param(b, l, "basic_rnn_cell/kernel", u->n_in + u->n, u->n, CRN_INIT_MATRIX, NULL, 0, 0));
  return crn_unit_param(b, l, "basic_rnn_cell/bias", 0, u->n, CRN_INIT_VALUE, NULL, 0, 0);
}

static void rnn_begin(crn_unit_run *c) {
  crn_tensor *k = crn_unit_get(c, "basic_rnn_cell/kernel"), *bias = crn_unit_get(c, "basic_rnn_cell/bias");
  c->p[0] = crn_unit_rows(c, k, c->u->n_in, c->n);
  c->z[0] = crn_linear(c->r, c->in, crn_unit_rows(c, k, 0, c->u->n_in), false, bias);
}

static crn_tensor *rnn_step(crn_unit_run *c, crn_tensor *const *z) {
  crn_tensor *all = crn_add(c->r, z[0], crn_linear(c->r, c->s[STATE], c->p[0], false, NULL));
  return c->s[STATE] = crn_unit_act(c, all);
}

/* ---- rhn --------------------------------------------------------------------------------------------------------- */

static crn_status rhn_check(crn_build *b, crn_layer *l, crn_unit *u) {
  const simple_opts *o = u->opts;
  if (o->dropout < 1) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "unit_opts: option 'dropout': expected a rate below 1");
}

static crn_status rhn_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  const simple_opts *o = u->opts;
  crn_value *bias = NULL;
  if (!isnan(o->transform_bias) && !(bias = crn_unit_block_array(crn_build_arena(b), u->n, 2, 1, o->transform_bias)))
    return crn_err_memory(crn_build_err(b));
  CRN_TRY(crn_unit_param(b, l, "W", u->n_in, 2 * u->n, CRN_INIT_MATRIX, NULL, 0, 0));
  CRN_TRY(crn_unit_param(b, l, "b", 0, 2 * u->n, CRN_INIT_VALUE, bias, 0, 0));
  for (int64_t k = 0; k < o->depth; k++) {
    const char *name = crn_arena_printf(crn_build_arena(b), "rhn_cell/depth_%d/W", (int)k);
    if (!name) return crn_err_memory(crn_build_err(b));
    CRN_TRY(crn_unit_param(b, l, name, u->n, 2 * u->n, CRN_INIT_MATRIX, NULL, 0, 0));
  }
  return CRN_OK;
}

static void rhn_begin(crn_unit_run *c) {
  c->z[0] = crn_linear(c->r, c->in, crn_unit_get(c, "W"), false, crn_unit_get(c, "b"));
}

static crn_tensor *rhn_step(crn_unit_run *c, crn_tensor *const *z) {
  const simple_opts *o = c->u->opts;
  crn_run *r = c->r;
  const bool training = crn_v_is_none(o->is_training) ? crn_exec_train(c->x) : crn_v_truth(o->is_training);
  crn_tensor *s = c->s[STATE];
  for (int64_t k = 0; k < o->depth && s; k++) {
    char name[64];
    (void)snprintf(name, sizeof(name), "rhn_cell/depth_%d/W", (int)k);
    crn_tensor *seen = crn_unit_dropout(c, s, o->dropout, "state dropout", training);
    crn_tensor *all = crn_linear(r, seen, crn_unit_get(c, name), false, NULL);
    if (k == 0) all = crn_add(r, all, z[0]);
    crn_tensor *value = crn_unary(r, CRN_U_TANH, crn_unit_block(c, all, 0));
    crn_tensor *transform = crn_unary(r, CRN_U_SIGMOID, crn_unit_block(c, all, 1));
    s = crn_add(r, s, crn_mul(r, transform, crn_sub(r, value, s)));
  }
  return c->s[STATE] = s;
}

const crn_unit_desc crn_units_simple[] = {{.name = "gru",
                                           .opts = gru_opts,
                                           .opts_size = sizeof(simple_opts),
                                           .states = {"h"},
                                           .check = activation_check,
                                           .params = gru_params,
                                           .begin = gru_begin,
                                           .step = gru_step},
                                          {.name = "basicrnn",
                                           .opts = rnn_opts,
                                           .opts_size = sizeof(simple_opts),
                                           .states = {"h"},
                                           .check = activation_check,
                                           .params = rnn_params,
                                           .begin = rnn_begin,
                                           .step = rnn_step},
                                          {.name = "rhn",
                                           .opts = rhn_opts,
                                           .opts_size = sizeof(simple_opts),
                                           .states = {"h"},
                                           .check = rhn_check,
                                           .params = rhn_params,
                                           .begin = rhn_begin,
                                           .step = rhn_step},
                                          {.name = NULL}};
