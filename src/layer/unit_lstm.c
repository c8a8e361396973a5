/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTMs with one kernel in TensorFlow's block order i, j, f, o: standardlstm (with peepholes, clipping, projection),
 * basiclstm and zoneoutlstm. Plain ones run fused; the others are composed step by step.
 */
#include <math.h>

#include "layer/unit.h"

typedef struct lstm_opts {
  double forget_bias, cell_clip, proj_clip;
  const crn_value *activation;
  int use_peepholes, state_is_tuple;
  int64_t num_proj;
  const crn_value *initializer, *num_unit_shards, *num_proj_shards, *reuse, *name, *dtype;
  double zoneout_cell, zoneout_output;
  int use_zoneout_output;
} lstm_opts;

#define OFF(f) offsetof(lstm_opts, f)
#define LEFT(n)                                                                                                        \
  { .name = #n, .type = CRN_OPT_VALUE, .offset = OFF(n), .dflt = "None", .doc = "to be left as it is" }
#define COMMON                                                                                                         \
  {.name = "forget_bias",                                                                                              \
   .type = CRN_OPT_FLOAT,                                                                                              \
   .offset = OFF(forget_bias),                                                                                         \
   .dflt = "1.0",                                                                                                      \
   .doc = "added to the forget gate at every step"},                                                                   \
      {.name = "activation",                                                                                           \
       .type = CRN_OPT_VALUE,                                                                                          \
       .offset = OFF(activation),                                                                                      \
       .dflt = "\"tanh\"",                                                                                             \
       .doc = "of cell input and output"},                                                                             \
      {.name = "state_is_tuple",                                                                                       \
       .type = CRN_OPT_BOOL,                                                                                           \
       .offset = OFF(state_is_tuple),                                                                                  \
       .dflt = "True",                                                                                                 \
       .doc = "must be True"},                                                                                         \
      LEFT(reuse), LEFT(name), LEFT(dtype)
static const crn_opt standard_opts[] = {COMMON,
                                        {.name = "use_peepholes",
                                         .type = CRN_OPT_BOOL,
                                         .offset = OFF(use_peepholes),
                                         .dflt = "False",
                                         .doc = "gates see the cell, by one weight per unit"},
                                        {.name = "cell_clip",
                                         .type = CRN_OPT_FLOAT,
                                         .offset = OFF(cell_clip),
                                         .dflt = "None",
                                         .doc = "the cell stays within ± this"},
                                        {.name = "num_proj",
                                         .type = CRN_OPT_INT,
                                         .offset = OFF(num_proj),
                                         .dflt = "None",
                                         .doc = "size of the projected output, must be n_out"},
                                        {.name = "proj_clip",
                                         .type = CRN_OPT_FLOAT,
                                         .offset = OFF(proj_clip),
                                         .dflt = "None",
                                         .doc = "the projected output stays within ± this"},
                                        LEFT(initializer),
                                        LEFT(num_unit_shards),
                                        LEFT(num_proj_shards),
                                        CRN_OPT_END};
static const crn_opt basic_opts[] = {COMMON, CRN_OPT_END};
static const crn_opt zoneout_opts[] = {
    {.name = "zoneout_factor_cell",
     .type = CRN_OPT_FLOAT,
     .offset = OFF(zoneout_cell),
     .dflt = "0.0",
     .min = 0,
     .max = 1,
     .doc = "probability that a cell keeps its value"},
    {.name = "zoneout_factor_output",
     .type = CRN_OPT_FLOAT,
     .offset = OFF(zoneout_output),
     .dflt = "0.0",
     .min = 0,
     .max = 1,
     .doc = "probability that an output keeps its value"},
    {.name = "use_zoneout_output",
     .type = CRN_OPT_BOOL,
     .offset = OFF(use_zoneout_output),
     .dflt = "None",
     .doc = "the layer's output is that of the state; default True from behavior_version 17"},
    CRN_OPT_END};

/* ---- options ----------------------------------------------------------------------------------------------------- */

static crn_status refuse_given(crn_build *b, const crn_layer *l, const crn_value *v, const char *name) {
  int64_t one;
  if (crn_v_is_none(v) || (crn_v_to_int(v, &one) && one == 1)) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: unit_opts: option '%s'", name);
}

static crn_status tf_check(crn_build *b, crn_layer *l, crn_unit *u) {
  lstm_opts *o = u->opts;
  CRN_TRY(crn_unit_activation(b, l, u, o->activation));
  CRN_TRY(refuse_given(b, l, o->initializer, "initializer"));
  CRN_TRY(refuse_given(b, l, o->num_unit_shards, "num_unit_shards"));
  CRN_TRY(refuse_given(b, l, o->num_proj_shards, "num_proj_shards"));
  CRN_TRY(refuse_given(b, l, o->reuse, "reuse"));
  CRN_TRY(refuse_given(b, l, o->name, "name"));
  CRN_TRY(refuse_given(b, l, o->dtype, "dtype"));
  if (!o->state_is_tuple)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: unit_opts: option 'state_is_tuple': False");
  return CRN_OK;
}

static crn_status basic_check(crn_build *b, crn_layer *l, crn_unit *u) {
  lstm_opts *o = u->opts;
  o->cell_clip = o->proj_clip = (double)NAN;
  o->num_proj = CRN_UNSET;
  return tf_check(b, l, u);
}

static crn_status standard_check(crn_build *b, crn_layer *l, crn_unit *u) {
  const lstm_opts *o = u->opts;
  if (o->num_proj != CRN_UNSET && o->num_proj != u->n)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "unit_opts: option 'num_proj': must be n_out (%lld), got %lld",
                          (long long)u->n, (long long)o->num_proj);
  return tf_check(b, l, u);
}

static crn_status zoneout_check(crn_build *b, crn_layer *l, crn_unit *u) {
  lstm_opts *o = u->opts;
  o->forget_bias = 1;
  o->cell_clip = o->proj_clip = (double)NAN;
  o->num_proj = CRN_UNSET;
  if (o->use_zoneout_output < 0) o->use_zoneout_output = crn_build_version(b) >= 17;
  u->act_tanh = true;
  (void)l;
  return CRN_OK;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static crn_status basic_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  CRN_TRY(crn_unit_param(b, l, "basic_lstm_cell/kernel", u->n_in + u->n, 4 * u->n, CRN_INIT_MATRIX, NULL, 0, 0));
  return crn_unit_param(b, l, "basic_lstm_cell/bias", 0, 4 * u->n, CRN_INIT_VALUE, NULL, 0, 0);
}

static crn_status standard_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  static const char *const peepholes[] = {"lstm_cell/w_f_diag", "lstm_cell/w_i_diag", "lstm_cell/w_o_diag"};
  const lstm_opts *o = u->opts;
  CRN_TRY(crn_unit_param(b, l, "lstm_cell/kernel", u->n_in + u->n, 4 * u->n, CRN_INIT_MATRIX, NULL, 0, 0));
  CRN_TRY(crn_unit_param(b, l, "lstm_cell/bias", 0, 4 * u->n, CRN_INIT_VALUE, NULL, 0, 0));
  for (int i = 0; i < 3 && o->use_peepholes > 0; i++)
    CRN_TRY(crn_unit_param(b, l, peepholes[i], 0, u->n, CRN_INIT_MATRIX, NULL, 0, 0));
  if (o->num_proj == CRN_UNSET) return CRN_OK;
  return crn_unit_param(b, l, "lstm_cell/projection/kernel", u->n, u->n, CRN_INIT_MATRIX, NULL, 0, 0);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

enum { K_X, K_H, BIAS, PEEP_F, PEEP_I, PEEP_O, PROJECTION };
enum { CELL, HIDDEN }; /* states */
enum { BLOCK_I, BLOCK_J, BLOCK_F, BLOCK_O };

static bool plain(const crn_unit_run *c) {
  const lstm_opts *o = c->u->opts;
  return c->u->act_tanh && o->use_peepholes <= 0 && isnan(o->cell_clip) && o->num_proj == CRN_UNSET &&
         o->zoneout_cell == 0 && o->zoneout_output == 0;
}

static void split_kernel(crn_unit_run *c, const char *kernel, const char *bias) {
  crn_tensor *k = crn_unit_get(c, kernel);
  c->p[K_X] = crn_unit_rows(c, k, 0, c->u->n_in);
  c->p[K_H] = crn_unit_rows(c, k, c->u->n_in, c->n);
  c->p[BIAS] = crn_unit_get(c, bias);
  if (c->u->single || !plain(c)) c->z[0] = crn_linear(c->r, c->in, c->p[K_X], false, c->p[BIAS]);
}

static void basic_begin(crn_unit_run *c) { split_kernel(c, "basic_lstm_cell/kernel", "basic_lstm_cell/bias"); }

static void standard_begin(crn_unit_run *c) {
  const lstm_opts *o = c->u->opts;
  split_kernel(c, "lstm_cell/kernel", "lstm_cell/bias");
  if (o->use_peepholes > 0) {
    c->p[PEEP_F] = crn_unit_get(c, "lstm_cell/w_f_diag");
    c->p[PEEP_I] = crn_unit_get(c, "lstm_cell/w_i_diag");
    c->p[PEEP_O] = crn_unit_get(c, "lstm_cell/w_o_diag");
  }
  if (o->num_proj != CRN_UNSET) c->p[PROJECTION] = crn_unit_get(c, "lstm_cell/projection/kernel");
}

static void whole(crn_unit_run *c) {
  const lstm_opts *o = c->u->opts;
  crn_tensor *h, *cell;
  c->y = crn_lstm_layer(c->r, c->n_parts, c->parts, c->p[K_X], c->p[BIAS], c->p[K_H], c->lens, c->s[HIDDEN], c->s[CELL], "ijfo",
                        o->forget_bias, c->u->reverse, &h, &cell);
  c->s[CELL] = cell;
  c->s[HIDDEN] = h;
}

static crn_tensor *pre_activation(crn_unit_run *c, crn_tensor *z) {
  return crn_add(c->r, z, crn_linear(c->r, c->s[HIDDEN], c->p[K_H], false, NULL));
}

/* A gate, seeing the cell through a peephole if there is one. */
static crn_tensor *gate(crn_unit_run *c, crn_tensor *z, crn_tensor *peephole, crn_tensor *cell) {
  if (peephole) z = crn_add(c->r, z, crn_mul(c->r, cell, peephole));
  return crn_unary(c->r, CRN_U_SIGMOID, z);
}

static crn_tensor *composed_cell(crn_unit_run *c, crn_tensor *z) {
  const lstm_opts *o = c->u->opts;
  crn_run *r = c->r;
  crn_tensor *old = c->s[CELL];
  crn_tensor *f = gate(c, crn_add_scalar(r, crn_unit_block(c, z, BLOCK_F), o->forget_bias), c->p[PEEP_F], old);
  crn_tensor *i = gate(c, crn_unit_block(c, z, BLOCK_I), c->p[PEEP_I], old);
  crn_tensor *j = crn_unit_act(c, crn_unit_block(c, z, BLOCK_J));
  crn_tensor *cell = crn_add(r, crn_mul(r, f, old), crn_mul(r, i, j));
  if (!isnan(o->cell_clip)) cell = crn_clip(r, cell, -o->cell_clip, o->cell_clip);
  crn_tensor *out = gate(c, crn_unit_block(c, z, BLOCK_O), c->p[PEEP_O], cell);
  crn_tensor *h = crn_mul(r, out, crn_unit_act(c, cell));
  if (c->p[PROJECTION]) {
    h = crn_linear(r, h, c->p[PROJECTION], false, NULL);
    if (!isnan(o->proj_clip)) h = crn_clip(r, h, -o->proj_clip, o->proj_clip);
  }
  c->s[CELL] = cell;
  return c->s[HIDDEN] = h;
}

static crn_tensor *fused_cell(crn_unit_run *c, crn_tensor *z) {
  const lstm_opts *o = c->u->opts;
  crn_tensor *cell = NULL;
  crn_tensor *h = crn_lstm_cell(c->r, z, c->s[CELL], "ijfo", o->forget_bias, &cell);
  c->s[CELL] = cell;
  return c->s[HIDDEN] = h;
}

static crn_tensor *tf_step(crn_unit_run *c, crn_tensor *const *z) {
  crn_tensor *all = pre_activation(c, z[0]);
  return plain(c) ? fused_cell(c, all) : composed_cell(c, all);
}

/* ---- zoneout ----------------------------------------------------------------------------------------------------- */

/* Elements keep their old value with probability p, outside of training: the expected value. */
static crn_tensor *zoneout(crn_unit_run *c, crn_tensor *now, crn_tensor *before, double p, const char *what) {
  crn_run *r = c->r;
  if (p == 0 || !now) return now;
  if (!crn_exec_train(c->x)) return crn_add(r, crn_scale(r, now, 1 - p), crn_scale(r, before, p));
  const char *name = crn_arena_printf(&r->arena, "%s %lld", crn_random_name(c->x, c->l, what, false), (long long)c->t);
  if (!name) return (void)crn_err_memory(r->err), NULL;
  crn_tensor *u = crn_random_uniform(r, name, r->real, 2, now->shape, 0, 1);
  return crn_where(r, crn_binary(r, CRN_B_LESS, u, crn_t_full(r, r->real, 0, NULL, p)), before, now);
}

static crn_tensor *zoneout_step(crn_unit_run *c, crn_tensor *const *z) {
  const lstm_opts *o = c->u->opts;
  crn_tensor *cell = c->s[CELL], *hidden = c->s[HIDDEN];
  crn_tensor *h = fused_cell(c, pre_activation(c, z[0]));
  c->s[CELL] = zoneout(c, c->s[CELL], cell, o->zoneout_cell, "zoneout cell");
  c->s[HIDDEN] = zoneout(c, h, hidden, o->zoneout_output, "zoneout output");
  return o->use_zoneout_output > 0 ? c->s[HIDDEN] : h;
}

static const char *const standard_cell_aliases[] = {"lstmblock", "lstmblockfused", NULL};

const crn_unit_desc crn_units_lstm[] = {{.name = "standardlstm",
                                         .cell_aliases = standard_cell_aliases,
                                         .opts = standard_opts,
                                         .opts_size = sizeof(lstm_opts),
                                         .flags = CRN_UNIT_PARTS,
                                         .states = {"c", "h"},
                                         .check = standard_check,
                                         .params = standard_params,
                                         .begin = standard_begin,
                                         .fused = plain,
                                         .whole = whole,
                                         .step = tf_step},
                                        {.name = "basiclstm",
                                         .opts = basic_opts,
                                         .opts_size = sizeof(lstm_opts),
                                         .flags = CRN_UNIT_PARTS,
                                         .states = {"c", "h"},
                                         .check = basic_check,
                                         .params = basic_params,
                                         .begin = basic_begin,
                                         .fused = plain,
                                         .whole = whole,
                                         .step = tf_step},
                                        {.name = "zoneoutlstm",
                                         .opts = zoneout_opts,
                                         .opts_size = sizeof(lstm_opts),
                                         .flags = CRN_UNIT_PARTS,
                                         .states = {"c", "h"},
                                         .check = zoneout_check,
                                         .params = standard_params,
                                         .begin = standard_begin,
                                         .fused = plain,
                                         .whole = whole,
                                         .step = zoneout_step},
                                        {.name = NULL}};
