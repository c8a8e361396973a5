/* SPDX-License-Identifier: Apache-2.0
 *
 * layernormvariantslstm: an LSTM with layer normalisation in many places (recurrent.md), blocks i, j, f, o.
 */
#include <stdio.h>

#include "layer/unit.h"

typedef struct norm_opts {
  double norm_gain, norm_shift, forget_bias, dropout, dropout_h, epsilon;
  const crn_value *activation, *dropout_seed, *is_training;
  int with_concat, global_norm, joined, per_gate, cell_norm, cell_norm_in_output, hidden_norm;
} norm_opts;

#define OFF(f) offsetof(norm_opts, f)
#define FLAG(n, field, d, text)                                                                                        \
  { .name = n, .type = CRN_OPT_BOOL, .offset = OFF(field), .dflt = d, .doc = text }
#define REAL(n, field, d, text)                                                                                        \
  { .name = n, .type = CRN_OPT_FLOAT, .offset = OFF(field), .dflt = d, .doc = text }
#define RATE(n, field, text)                                                                                           \
  { .name = n, .type = CRN_OPT_FLOAT, .offset = OFF(field), .dflt = "0.0", .min = 0, .max = 1, .doc = text }
static const crn_opt opts_table[] = {
    REAL("norm_gain", norm_gain, "1.0", "initial scale of normalisations"),
    REAL("norm_shift", norm_shift, "0.0", "initial shift of normalisations"),
    REAL("forget_bias", forget_bias, "0.0", "added to an initial value: the forget gate's bias or shift"),
    {.name = "activation",
     .type = CRN_OPT_VALUE,
     .offset = OFF(activation),
     .dflt = "\"tanh\"",
     .doc = "of cell input and output"},
    RATE("dropout", dropout, "dropout rate of the cell's input in training"),
    RATE("dropout_h", dropout_h, "dropout rate of the hidden state in training"),
    {.name = "dropout_seed",
     .type = CRN_OPT_VALUE,
     .offset = OFF(dropout_seed),
     .dflt = "None",
     .doc = "no effect: masks follow from the run's seed"},
    FLAG("with_concat", with_concat, "False", "one matrix for input and hidden state"),
    FLAG("global_norm", global_norm, "True", "normalise the products of input and of hidden state"),
    FLAG("global_norm_joined", joined, "False", "normalise their sum"),
    FLAG("per_gate_norm", per_gate, "False", "normalise each gate"),
    FLAG("cell_norm", cell_norm, "True", "normalise the cell"),
    FLAG("cell_norm_in_output", cell_norm_in_output, "True", "the output sees the normalised cell"),
    FLAG("hidden_norm", hidden_norm, "False", "normalise the output"),
    REAL("variance_epsilon", epsilon, "1e-12", "added to variances"),
    {.name = "is_training",
     .type = CRN_OPT_VALUE,
     .offset = OFF(is_training),
     .dflt = "None",
     .doc = "draw dropout masks; None: while training"},
    CRN_OPT_END};

static bool has_bias(const norm_opts *o) { return !o->global_norm && !o->joined && !o->per_gate; }

static crn_status norm_check(crn_build *b, crn_layer *l, crn_unit *u) {
  const norm_opts *o = u->opts;
  const char *clash = o->global_norm && o->joined        ? "'global_norm' with 'global_norm_joined'"
                      : o->per_gate && o->global_norm    ? "'per_gate_norm' with 'global_norm'"
                      : o->per_gate && o->joined         ? "'per_gate_norm' with 'global_norm_joined'"
                      : o->global_norm && o->with_concat ? "'global_norm' with 'with_concat'"
                                                         : NULL;
  if (clash)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "unit_opts: %s is not possible (global_norm is True unless it is set)",
                          clash);
  if (o->dropout >= 1 || o->dropout_h >= 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "unit_opts: options 'dropout', 'dropout_h': expected rates below 1");
  return crn_unit_activation(b, l, u, o->activation);
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static crn_status norm_param(crn_build *b, crn_layer *l, const char *what, int64_t n, double gain,
                             const double *shift) {
  char name[64];
  (void)snprintf(name, sizeof(name), "gamma_%s", what);
  CRN_TRY(crn_unit_param(b, l, name, 0, n, CRN_INIT_VALUE, NULL, gain, 0));
  if (!shift) return CRN_OK;
  (void)snprintf(name, sizeof(name), "beta_%s", what);
  return crn_unit_param(b, l, name, 0, n, CRN_INIT_VALUE, NULL, *shift, 0);
}

static crn_status norm_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  static const char *const gates[] = {"i_gate", "j_gate", "f_gate", "o_gate"};
  const norm_opts *o = u->opts;
  const int64_t n = u->n;
  const double bias_first = o->forget_bias > 0 ? o->forget_bias : 0, shift = o->norm_shift,
               shifted = shift + bias_first;
  if (o->with_concat) {
    CRN_TRY(crn_unit_param(b, l, "W_ff_re", u->n_in + n, 4 * n, CRN_INIT_MATRIX, NULL, 0, 0));
  } else {
    CRN_TRY(crn_unit_param(b, l, "W_ff", u->n_in, 4 * n, CRN_INIT_MATRIX, NULL, 0, 0));
    CRN_TRY(crn_unit_param(b, l, "W_re", n, 4 * n, CRN_INIT_MATRIX, NULL, 0, 0));
  }
  if (has_bias(o)) {
    crn_value *init = NULL;
    if (bias_first > 0 && !(init = crn_unit_block_array(crn_build_arena(b), n, 4, 2, bias_first)))
      return crn_err_memory(crn_build_err(b));
    CRN_TRY(crn_unit_param(b, l, o->with_concat ? "bias_ff_re" : "bias_ff", 0, 4 * n, CRN_INIT_VALUE, init, 0, 0));
  }
  if (o->global_norm) {
    CRN_TRY(norm_param(b, l, "input_below", 4 * n, o->norm_gain, &shifted));
    CRN_TRY(norm_param(b, l, "state_below", 4 * n, o->norm_gain, NULL));
  }
  if (o->joined) CRN_TRY(norm_param(b, l, "lstm_in", 4 * n, o->norm_gain, &shifted));
  for (int i = 0; i < 4 && o->per_gate; i++)
    CRN_TRY(norm_param(b, l, gates[i], n, o->norm_gain, i == 2 ? &shifted : &shift));
  if (o->cell_norm) CRN_TRY(norm_param(b, l, "new_c", n, o->norm_gain, &shift));
  return o->hidden_norm ? norm_param(b, l, "new_h", n, o->norm_gain, &shift) : CRN_OK;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

enum { CELL, HIDDEN }; /* states */
enum { W_RE };         /* c->p */
enum { BLOCK_I, BLOCK_J, BLOCK_F, BLOCK_O };

static crn_tensor *norm(crn_unit_run *c, crn_tensor *v, const char *what, bool with_shift) {
  const norm_opts *o = c->u->opts;
  char gamma[64], beta[64];
  (void)snprintf(gamma, sizeof(gamma), "gamma_%s", what);
  (void)snprintf(beta, sizeof(beta), "beta_%s", what);
  crn_tensor *shift = with_shift ? crn_unit_get(c, beta) : NULL;
  if (with_shift && !shift) return NULL;
  return crn_layer_norm(c->r, v, crn_unit_get(c, gamma), shift, o->epsilon);
}

static void norm_begin(crn_unit_run *c) {
  const norm_opts *o = c->u->opts;
  crn_tensor *w = crn_unit_get(c, o->with_concat ? "W_ff_re" : "W_ff");
  crn_tensor *bias = has_bias(o) ? crn_unit_get(c, o->with_concat ? "bias_ff_re" : "bias_ff") : NULL;
  c->p[W_RE] = o->with_concat ? crn_unit_rows(c, w, c->u->n_in, c->n) : crn_unit_get(c, "W_re");
  c->z[0] = crn_linear(c->r, c->in, o->with_concat ? crn_unit_rows(c, w, 0, c->u->n_in) : w, false, bias);
  if (o->global_norm) c->z[0] = norm(c, c->z[0], "input_below", true);
}

static crn_tensor *gate(crn_unit_run *c, crn_tensor *z, int block, const char *what) {
  const norm_opts *o = c->u->opts;
  crn_tensor *v = crn_unit_block(c, z, block);
  return o->per_gate ? norm(c, v, what, true) : v;
}

static crn_tensor *norm_step(crn_unit_run *c, crn_tensor *const *z) {
  const norm_opts *o = c->u->opts;
  crn_run *r = c->r;
  const bool training = crn_v_is_none(o->is_training) ? crn_exec_train(c->x) : crn_v_truth(o->is_training);
  crn_tensor *seen = crn_unit_dropout(c, c->s[HIDDEN], o->dropout_h, "hidden dropout", training);
  crn_tensor *re = crn_linear(r, seen, c->p[W_RE], false, NULL);
  if (o->global_norm) re = norm(c, re, "state_below", false);
  crn_tensor *all = crn_add(r, z[0], re);
  if (o->joined) all = norm(c, all, "lstm_in", true);
  crn_tensor *i = gate(c, all, BLOCK_I, "i_gate"), *j = gate(c, all, BLOCK_J, "j_gate");
  crn_tensor *f = gate(c, all, BLOCK_F, "f_gate"), *out = gate(c, all, BLOCK_O, "o_gate");
  crn_tensor *g = crn_unit_dropout(c, crn_unit_act(c, j), o->dropout, "cell dropout", training);
  crn_tensor *kept = crn_mul(r, crn_unary(r, CRN_U_SIGMOID, f), c->s[CELL]);
  crn_tensor *cell = crn_add(r, kept, crn_mul(r, crn_unary(r, CRN_U_SIGMOID, i), g));
  crn_tensor *normed = o->cell_norm ? norm(c, cell, "new_c", true) : cell;
  crn_tensor *h = crn_mul(r, crn_unary(r, CRN_U_SIGMOID, out), crn_unit_act(c, o->cell_norm_in_output ? normed : cell));
  if (o->hidden_norm) h = norm(c, h, "new_h", true);
  c->s[CELL] = normed;
  return c->s[HIDDEN] = h;
}

const crn_unit_desc crn_units_norm[] = {{.name = "layernormvariantslstm",
                                         .opts = opts_table,
                                         .opts_size = sizeof(norm_opts),
                                         .states = {"c", "h"},
                                         .check = norm_check,
                                         .params = norm_params,
                                         .begin = norm_begin,
                                         .step = norm_step},
                                        {.name = NULL}};
