/* SPDX-License-Identifier: Apache-2.0
 *
 * What units share: parameters below "rec/" with their initialisers, blocks of columns, activation, dropout masks.
 */
#include <stdio.h>
#include <string.h>

#include "layer/unit.h"

/* ---- declaring --------------------------------------------------------------------------------------------------- */

static const crn_value *given(const crn_value *v) { return crn_v_is_none(v) ? NULL : v; }

static const crn_value *initialiser(const crn_layer *l, crn_unit_init kind) {
  const crn_rec_cfg *c = l->cfg;
  if (crn_layer_is_cell(l)) return kind == CRN_INIT_BIAS || kind == CRN_INIT_VALUE ? NULL : given(c->weights_init);
  const crn_value *dflt = given(c->recurrent_weights_init);
  if (!dflt) dflt = given(c->forward_weights_init);
  switch (kind) {
  case CRN_INIT_FORWARD:
    return given(c->forward_weights_init) ? c->forward_weights_init : dflt;
  case CRN_INIT_BIAS:
    return given(c->bias_init);
  case CRN_INIT_VALUE:
    return NULL;
  default:
    return dflt;
  }
}

crn_status crn_unit_param(crn_build *b, crn_layer *l, const char *name, int64_t rows, int64_t columns,
                          crn_unit_init kind, const crn_value *init, double value, int gates) {
  crn_arena *a = crn_build_arena(b);
  crn_param_spec s = {.dtype = CRN_F32, .rank = rows ? 2 : 1};
  /* name_scope stands for the layer's name and "rec" together */
  s.name = crn_v_is_str(l->common.name_scope) ? name : crn_arena_printf(a, "rec/%s", name);
  s.shape[0] = rows ? rows : columns;
  if (rows) s.shape[1] = columns;
  s.init = init ? init : initialiser(l, kind);
  s.init_default = kind == CRN_INIT_VALUE  ? crn_arena_printf(a, "%.17g", value)
                   : kind == CRN_INIT_BIAS ? "0"
                                           : "glorot_uniform";
  if (!s.name || !s.init_default) return crn_err_memory(crn_build_err(b));
  const int axis = s.rank - 1;
  s.n_blocks[axis] = gates > 1 ? gates : 0;
  for (int i = 0; gates > 1 && i < gates; i++) s.blocks[axis][i] = columns / gates;
  return crn_layer_param(b, l, &s);
}

crn_value *crn_unit_block_array(crn_arena *a, int64_t n, int blocks, int k, double value) {
  crn_value *v = CRN_ARENA_NEW(a, crn_value);
  int64_t *shape = CRN_ARENA_NEW(a, int64_t);
  double *data = CRN_ARENA_ARRAY(a, double, n *blocks);
  if (!v || !shape || !data) return NULL;
  *shape = n * blocks;
  for (int64_t i = 0; i < n; i++) data[k * n + i] = value;
  v->kind = CRN_V_ARRAY;
  v->u.array = (crn_varray){.dtype = "float32", .rank = 1, .shape = shape, .data = data};
  return v;
}

crn_status crn_unit_activation(crn_build *b, crn_layer *l, crn_unit *u, const crn_value *v) {
  u->act_tanh = crn_v_is_none(v) || (crn_v_is_str(v) && !strcmp(crn_v_cstr(v), "tanh"));
  if (crn_v_is_none(v)) { /* None means the default */
    v = crn_v_str(crn_build_arena(b), "tanh");
    if (!v) return crn_err_memory(crn_build_err(b));
  }
  return crn_act_of(b, l, v, "unit_opts: activation", &u->act);
}

/* ---- in a run ---------------------------------------------------------------------------------------------------- */

crn_tensor *crn_unit_get(crn_unit_run *c, const char *name) {
  char full[160];
  (void)snprintf(full, sizeof(full), "rec/%s", name);
  crn_tensor *t = crn_param_find(c->x, c->l, full);
  return t ? t : crn_param_get(c->x, c->l, name);
}

crn_tensor *crn_unit_rows(crn_unit_run *c, crn_tensor *w, int64_t begin, int64_t n) {
  return w ? crn_t_rows(c->r, w, begin, n) : NULL;
}

crn_tensor *crn_unit_block(crn_unit_run *c, crn_tensor *z, int k) {
  return z ? crn_slice(c->r, z, z->rank - 1, k * c->n, c->n, 1) : NULL;
}

crn_tensor *crn_unit_act(crn_unit_run *c, crn_tensor *v) {
  if (!v || !c->u->act) return v;
  if (c->u->act_tanh) return crn_unary(c->r, CRN_U_TANH, v);
  crn_data d = {.t = crn_tmpl_scalar(CRN_F32), .v = v};
  return crn_act_apply(c->x, c->l, c->u->act, &d) == CRN_OK ? d.v : NULL;
}

crn_tensor *crn_unit_dropout(crn_unit_run *c, crn_tensor *v, double p, const char *what, bool training) {
  if (!v || !(p > 0) || !training) return v;
  const int64_t shape[2] = {c->N, c->n};
  crn_tensor *ones = crn_t_full(c->r, v->dtype, 2, shape, 1);
  return crn_mul(c->r, v, crn_dropout(c->r, crn_random_name(c->x, c->l, what, true), ones, p, shape));
}
