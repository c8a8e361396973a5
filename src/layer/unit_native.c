/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTMs with separate matrices (nativelstm2, nativelstm, vanillalstm) and with one (nativelstmlowmem); blocks in the
 * order cell input, input gate, forget gate, output gate. All without forget bias.
 */
#include <string.h>

#include "layer/pieces.h"
#include "layer/unit.h"

typedef struct native_opts {
  double forget_bias, rec_weight_dropout;
  const crn_value *rec_weight_dropout_shape;
} native_opts;

#define OFF(f) offsetof(native_opts, f)
#define FORGET_BIAS                                                                                                    \
  { .name = "forget_bias", .type = CRN_OPT_FLOAT, .offset = OFF(forget_bias), .dflt = "0.0", .doc = "must be 0" }
static const crn_opt native2_opts[] = {FORGET_BIAS,
                                       {.name = "rec_weight_dropout",
                                        .type = CRN_OPT_FLOAT,
                                        .offset = OFF(rec_weight_dropout),
                                        .dflt = "0.0",
                                        .min = 0,
                                        .max = 1,
                                        .doc = "dropout rate of the recurrent matrix in training"},
                                       {.name = "rec_weight_dropout_shape",
                                        .type = CRN_OPT_VALUE,
                                        .offset = OFF(rec_weight_dropout_shape),
                                        .dflt = "None",
                                        .doc = "shape of the mask, None: the matrix's"},
                                       CRN_OPT_END};
static const crn_opt native_opts_table[] = {FORGET_BIAS, CRN_OPT_END};
static const crn_opt no_opts[] = {CRN_OPT_END};

static crn_status native_check(crn_build *b, crn_layer *l, crn_unit *u) {
  const native_opts *o = u->opts;
  if (o->forget_bias != 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "unit_opts: option 'forget_bias': must be 0 for unit %s, got %g",
                          u->desc->name, o->forget_bias);
  if (o->rec_weight_dropout >= 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "unit_opts: option 'rec_weight_dropout': expected a rate below 1");
  const crn_value *shape = o->rec_weight_dropout_shape;
  if (!crn_v_is_none(shape) && (!crn_v_is_seq(shape) || crn_v_len(shape) != 2))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "unit_opts: option 'rec_weight_dropout_shape': expected two sizes");
  return CRN_OK;
}

static crn_status separate_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  const bool vanilla = !strcmp(u->desc->name, "vanillalstm");
  if (u->projection) {
    CRN_TRY(crn_unit_param(b, l, "W", u->n_in, 4 * u->n, CRN_INIT_FORWARD, NULL, 0, 4));
  }
  CRN_TRY(crn_unit_param(b, l, "W_re", u->n, 4 * u->n, CRN_INIT_RECURRENT, NULL, 0, 4));
  if (!u->projection) return CRN_OK;
  return crn_unit_param(b, l, "b", 0, 4 * u->n, vanilla ? CRN_INIT_VALUE : CRN_INIT_BIAS, NULL, 0, 4);
}

enum { W, W_RE, BIAS };

/* Dropout of the recurrent matrix: one mask for all frames. */
static crn_tensor *recurrent_matrix(crn_unit_run *c) {
  crn_tensor *w = crn_unit_get(c, "W_re");
  const native_opts *o = c->u->opts;
  if (!w || c->u->desc->opts != native2_opts || !(o->rec_weight_dropout > 0) || !crn_exec_train(c->x)) return w;
  int64_t shape[2] = {w->shape[0], w->shape[1]}, size;
  for (int i = 0; i < 2; i++) {
    const crn_value *s = crn_v_at(o->rec_weight_dropout_shape, (size_t)i);
    if (crn_v_is_seq(o->rec_weight_dropout_shape) && crn_v_to_int(s, &size) && size == 1) shape[i] = 1;
  }
  return crn_dropout(c->r, crn_random_name(c->x, c->l, "rec_weight_dropout", true), w, o->rec_weight_dropout, shape);
}

static void separate_begin(crn_unit_run *c) {
  crn_run *r = c->r;
  c->p[W_RE] = recurrent_matrix(c);
  if (!c->u->projection) {
    c->z[0] = c->in;
    return;
  }
  c->p[W] = crn_unit_get(c, "W");
  c->p[BIAS] = crn_unit_get(c, "b");
  if (c->u->sparse)
    c->z[0] = crn_add(r, crn_gather(r, c->p[W], c->in, 0), c->p[BIAS]);
  else if (c->u->single)
    c->z[0] = crn_linear(r, c->in, c->p[W], false, c->p[BIAS]);
}

/* Where the state is c alone, h is zero at the beginning of a sequence, but not of its later pieces. */
static crn_tensor *hidden_before(const crn_unit_run *c) {
  return crn_streams_along(c->l, c->l->out.dims[0]) ? crn_stream_kept(c->x, c->l) : NULL;
}

static void hidden_after(const crn_unit_run *c, const crn_tensor *h) {
  if (h) (void)crn_stream_keep(c->x, c->l, h);
}

/* States: (c, h), or c alone. */
static void separate_whole(crn_unit_run *c) {
  crn_run *r = c->r;
  const bool both = c->u->n_states == 2;
  crn_tensor *h0 = both ? c->s[1] : hidden_before(c), *h, *cell;
  if (c->z[0])
    c->y = crn_lstm(r, c->z[0], c->p[W_RE], c->lens, h0, c->s[0], "jifo", 0, c->u->reverse, &h, &cell);
  else
    c->y = crn_lstm_layer(r, c->n_parts, c->parts, c->p[W], c->p[BIAS], c->p[W_RE], c->lens, h0, c->s[0], "jifo", 0,
                          c->u->reverse, &h, &cell);
  c->s[0] = cell;
  if (both)
    c->s[1] = h;
  else
    hidden_after(c, h);
}

static crn_tensor *separate_step(crn_unit_run *c, crn_tensor *const *z) {
  crn_run *r = c->r;
  crn_tensor *all = crn_add(r, z[0], crn_linear(r, c->s[1], c->p[W_RE], false, NULL)), *cell = NULL;
  crn_tensor *h = crn_lstm_cell(r, all, c->s[0], "jifo", 0, &cell);
  c->s[0] = cell;
  return c->s[1] = h;
}

/* ---- one matrix -------------------------------------------------------------------------------------------------- */

static crn_status joint_params(crn_build *b, crn_layer *l, const crn_unit *u) {
  CRN_TRY(crn_unit_param(b, l, "W", u->n_in + u->n, 4 * u->n, CRN_INIT_MATRIX, NULL, 0, 4));
  return crn_unit_param(b, l, "b", 0, 4 * u->n, CRN_INIT_VALUE, NULL, 0, 4);
}

static void joint_begin(crn_unit_run *c) {
  crn_tensor *w = crn_unit_get(c, "W");
  c->p[BIAS] = crn_unit_get(c, "b");
  c->p[W] = crn_unit_rows(c, w, 0, c->u->n_in);
  c->p[W_RE] = crn_unit_rows(c, w, c->u->n_in, c->n);
}

/* Backward in time the original lets the gradient of h (not of c) run on into the padding, which it visits first: there
 * h is 0, but counts as if it were computed from the padded frames. Values are those of joint_whole. */
static void joint_leaking(crn_unit_run *c) {
  crn_run *r = c->r;
  crn_tensor *z = crn_linear(r, c->in, c->p[W], false, c->p[BIAS]), *cell = c->s[0];
  crn_tensor *h = crn_t_zeros(r, r->real, 2, (int64_t[]){c->N, c->n});
  crn_tensor **ys = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, c->T + 1);
  if (!ys) {
    (void)crn_err_memory(r->err);
    return;
  }
  for (int64_t t = c->T; t-- > 0 && !crn_run_failed(r);) {
    crn_tensor *all = crn_add(r, crn_t_index0(r, z, t), crn_linear(r, h, c->p[W_RE], false, NULL)), *new_cell = NULL;
    crn_tensor *new_h = crn_lstm_cell(r, all, cell, "jifo", 0, &new_cell);
    crn_tensor *on = crn_binary(r, CRN_B_LESS, crn_t_full(r, CRN_I32, 0, NULL, (double)t), c->lens);
    on = on ? crn_t_reshape(r, on, 2, (int64_t[]){c->N, 1}) : NULL;
    crn_tensor *zero = new_h ? crn_sub(r, new_h, crn_t_stop_gradient(r, new_h)) : NULL;
    ys[t] = crn_mask_fill(r, new_h, on, 0);
    h = crn_where(r, on, new_h, zero);
    cell = crn_where(r, on, new_cell, cell);
  }
  c->y = crn_stack(r, (int)c->T, ys, 0);
  c->s[0] = cell;
}

static void joint_whole(crn_unit_run *c) {
  if (c->u->reverse && c->lens && c->r->recording && c->T > 0) {
    joint_leaking(c);
    return;
  }
  crn_tensor *h, *cell;
  c->y = crn_lstm_layer(c->r, c->n_parts, c->parts, c->p[W], c->p[BIAS], c->p[W_RE], c->lens, hidden_before(c), c->s[0],
                        "jifo", 0, c->u->reverse, &h, &cell);
  c->s[0] = cell;
  hidden_after(c, h);
}

static const char *const native2_aliases[] = {"lstm", "lstmp", "lstmblock", "lstmblockfused", "cudnnlstm", NULL};

const crn_unit_desc crn_units_native[] = {
    {.name = "nativelstm2",
     .aliases = native2_aliases,
     .opts = native2_opts,
     .opts_size = sizeof(native_opts),
     .flags = CRN_UNIT_NATIVE | CRN_UNIT_PROJECTION_OFF | CRN_UNIT_PARTS,
     .states = {"c", "h"},
     .check = native_check,
     .params = separate_params,
     .begin = separate_begin,
     .whole = separate_whole,
     .step = separate_step},
    {.name = "nativelstm",
     .opts = native_opts_table,
     .opts_size = sizeof(native_opts),
     .flags = CRN_UNIT_NATIVE | CRN_UNIT_PROJECTION_OFF | CRN_UNIT_PARTS | CRN_UNIT_NO_INITIAL | CRN_UNIT_NO_STEP,
     .states = {"c"},
     .check = native_check,
     .params = separate_params,
     .begin = separate_begin,
     .whole = separate_whole},
    {.name = "vanillalstm",
     .opts = no_opts,
     .opts_size = sizeof(native_opts),
     .flags = CRN_UNIT_NATIVE | CRN_UNIT_PROJECTION_OFF | CRN_UNIT_PARTS,
     .states = {"c", "h"},
     .params = separate_params,
     .begin = separate_begin,
     .whole = separate_whole,
     .step = separate_step},
    {.name = "nativelstmlowmem",
     .opts = native_opts_table,
     .opts_size = sizeof(native_opts),
     .flags = CRN_UNIT_NATIVE | CRN_UNIT_DENSE | CRN_UNIT_PARTS,
     .states = {"c"},
     .check = native_check,
     .params = joint_params,
     .begin = joint_begin,
     .whole = joint_whole},
    {.name = NULL}};
