/* SPDX-License-Identifier: Apache-2.0
 *
 * masked_computation and unmask (recurrent.md). Step by step in a loop, the unit runs every step and its result and states
 * are kept where the mask is false; over whole sequences, the true frames are packed to the left, the unit runs on those,
 * and inside of loops the result is spread again.
 */
#include "net/masked.h"

#include <string.h>

#include "net/loop.h"
#include "net/wrappers.h"

typedef struct masked_cfg {
  crn_layer *mask, *masked_from;
  const crn_value *unit, *mask_name, *masked_from_name; /* names are looked up by masked_refs */
  const crn_dim *in_spatial_dim, *out_spatial_dim;
  crn_layer *unit_layer;
  bool by_step;
} masked_cfg;

#define OFF(f) offsetof(masked_cfg, f)
static const crn_opt masked_opts[] = {
    {.name = "mask", .type = CRN_OPT_VALUE, .offset = OFF(mask_name), .doc = "layer: bool per frame"},
    {.name = "unit", .type = CRN_OPT_VALUE, .offset = OFF(unit), .doc = "layer dict that runs on the masked frames"},
    {.name = "masked_from", .type = CRN_OPT_VALUE, .offset = OFF(masked_from_name), .dflt = "None", .doc = "layer that is packed already"},
    {.name = "in_spatial_dim", .type = CRN_OPT_DIM, .offset = OFF(in_spatial_dim), .dflt = "None", .doc = "axis of the frames"},
    {.name = "out_spatial_dim", .type = CRN_OPT_DIM, .offset = OFF(out_spatial_dim), .dflt = "None", .doc = "axis of the masked frames"},
    CRN_OPT_END};

crn_layer *crn_masked_mask(const crn_layer *owner) {
  const masked_cfg *c = owner->cfg;
  return c->by_step ? c->mask : NULL;
}

static crn_status masked_get(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker, const char *option,
                             crn_layer **out);

static bool in_own_loop(const crn_layer *l) { return l->scope->loop && !crn_layer_moved_out(l); }

static crn_status masked_make(crn_build *b, crn_layer *l) {
  masked_cfg *c = l->cfg;
  if (!crn_v_is_dict(c->unit))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unit': expected a layer dict, got %s", crn_v_kind_name(c->unit));
  c->by_step = in_own_loop(l) && crn_v_is_none(crn_v_get(l->dict, "masked_from"));
  if (crn_v_is_none(l->common.initial_output)) l->common.initial_output = crn_v_get(c->unit, "initial_output");
  crn_scope *s = crn_scope_new(b, CRN_SCOPE_SUB, l->scope, l, NULL);
  if (!s) return crn_err_memory(b->err);
  s->param_path = crn_layer_param_path(b, l);
  s->get = masked_get;
  if (c->by_step) s->mask_owner = l;
  l->inner = s;
  return s->param_path ? CRN_OK : crn_err_memory(b->err);
}

/* ---- packing -------------------------------------------------------------------------------------------------------- */

/* "data" and other layers inside, packed: src[0] = layer, src[1] = mask; priv = the masked_computation. */
static const crn_dim *packed_dim(crn_build *b, const masked_cfg *c, const crn_dim *from) {
  if (c->out_spatial_dim) return c->out_spatial_dim;
  return crn_dim_derive(&b->net->dims, "masked", from, NULL, c->mask->index, 0, 0, CRN_DIM_SPATIAL, -1);
}

static crn_status pack_infer(crn_build *b, crn_layer *l) {
  const crn_layer *owner = l->priv;
  const masked_cfg *c = owner->cfg;
  const crn_layer *x = l->src[0];
  l->out_known = x->out_known && c->mask->out_known;
  if (!l->out_known) return CRN_OK;
  l->out = x->out;
  const crn_tmpl *m = &c->mask->out;
  if (m->dtype != CRN_BOOL) return crn_layer_fail(b, owner, CRN_E_CONFIG, "option 'mask': layer '%s' must be bool, it is %s", c->mask->path, crn_dtype_name(m->dtype));
  const int axis = m->time_axis >= 0 ? crn_tmpl_find(&l->out, m->dims[m->time_axis]) : -1;
  if (axis < 0) return CRN_OK;
  const crn_dim *d = packed_dim(b, c, l->out.dims[axis]);
  if (!d) return crn_err_memory(b->err);
  l->out.dims[axis] = d;
  l->out.time_explicit = false;
  crn_tmpl_update_roles(&l->out);
  l->out.time_axis = axis;
  crn_tmpl_to_time_major(&l->out, NULL);
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status pack_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = &x->run;
  const crn_layer *owner = l->priv;
  const masked_cfg *c = owner->cfg;
  const crn_data *d = crn_value_of(x, l, l->src[0]), *m = crn_value_of(x, l, c->mask);
  if (!d || !m) return r->err->code;
  const int axis = m->t.time_axis >= 0 ? crn_tmpl_find(&d->t, m->t.dims[m->t.time_axis]) : -1;
  if (axis < 0) {
    *out = *d;
    return CRN_OK;
  }
  int perm[CRN_MAX_RANK], k = 0;
  const int batch = crn_tmpl_batch_axis(&d->t);
  if (batch < 0) return crn_exec_fail(x, l, "the masked layer '%s' has no batch axis", l->src[0]->path);
  perm[k++] = batch;
  perm[k++] = axis;
  for (int i = 0; i < d->t.n; i++)
    if (i != batch && i != axis) perm[k++] = i;
  crn_data *bm = crn_data_permute(r, d, perm), *mm = crn_data_batch_major(r, m);
  if (!bm || !mm) return r->err->code;
  crn_tensor *valid = crn_data_mask(r, mm, 1), *flags = mm->v, *lens;
  if (crn_run_failed(r)) return r->err->code;
  if (valid) flags = crn_binary(r, CRN_B_LOGICAL_AND, flags, valid);
  crn_tensor *v = crn_mask_select(r, bm->v, flags, &lens);
  if (!v) return r->err->code;
  for (int i = 0; i < v->rank; i++) perm[i] = i < 2 ? 1 - i : i;
  out->v = crn_transpose(r, v, perm);
  crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
  lt.dims[lt.n++] = x->net->dims.batch;
  out->len[0] = crn_data_new(r, &lt, lens);
  return out->v ? CRN_OK : r->err->code;
}

static const crn_opt no_opts[] = {CRN_OPT_END};
static const crn_layer_desc wrap_packed = {.name = "masked", .doc = "Gives the masked frames of a layer.", .opts = no_opts, .flags = CRN_L_INTERNAL, .infer = pack_infer, .forward = pack_forward};

static crn_status pack(crn_build *b, crn_layer *owner, crn_layer *x, const char *name, crn_layer **out) {
  const masked_cfg *c = owner->cfg;
  if (c->by_step || x == c->masked_from) {
    *out = x;
    return crn_map_set(&owner->inner->layers, name, x) == CRN_OK ? CRN_OK : crn_err_memory(b->err);
  }
  CRN_TRY(crn_layer_make_internal(b, owner->inner, owner->body, name, &wrap_packed, x, CRN_EDGE_DATA, out));
  (*out)->priv = owner;
  return crn_layer_add_edge(b, *out, c->mask, CRN_EDGE_DATA, "mask");
}

static crn_status masked_get(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker, const char *option, crn_layer **out) {
  crn_layer *x;
  CRN_TRY(crn_scope_get(b, scope->parent, name, asker, option, &x));
  return pack(b, scope->owner, x, name, out);
}

/* ---- the layer ------------------------------------------------------------------------------------------------------ */

/* What is masked: the source, or several as one. */
static crn_status masked_source(crn_build *b, crn_layer *l, crn_layer **out) {
  const crn_value *v = crn_v_get(l->dict, "from");
  const int n = crn_v_is_seq(v) ? (int)crn_v_len(v) : 1;
  if (n < 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs a source ('from')");
  crn_layer **src = CRN_ARENA_ARRAY(&b->net->arena, crn_layer *, n);
  if (!src) return crn_err_memory(b->err);
  for (int i = 0; i < n; i++) {
    const crn_value *item = crn_v_is_seq(v) ? crn_v_at(v, (size_t)i) : v;
    if (v && !crn_v_is_str(item)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'from': expected layer names");
    CRN_TRY(crn_layer_ref(b, l, v ? crn_v_cstr(item) : "data", CRN_EDGE_DATA, "from", &src[i]));
  }
  if (n == 1) return *out = src[0], CRN_OK;
  const char *name = crn_arena_printf(&b->net->arena, "%s:sources", l->name);
  if (!name) return crn_err_memory(b->err);
  CRN_TRY(crn_wrap_sources(b, l->scope, l->body, name, src, n, out));
  return crn_layer_add_edge(b, l, *out, CRN_EDGE_DATA, "from");
}

static crn_status masked_refs(crn_build *b, crn_layer *l) {
  masked_cfg *c = l->cfg;
  const char *mask = crn_v_cstr(crn_v_get(l->dict, "mask")), *from = crn_v_cstr(crn_v_get(l->dict, "masked_from"));
  if (!mask) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'mask': expected a layer name");
  crn_layer *data = NULL;
  if (from) {
    CRN_TRY(crn_layer_ref(b, l, from, CRN_EDGE_DATA, "masked_from", &c->masked_from));
    data = c->masked_from;
    CRN_TRY(crn_scope_get(b, l->scope, mask, l, "mask", &c->mask));
  } else {
    CRN_TRY(crn_layer_ref(b, l, mask, CRN_EDGE_DATA, "mask", &c->mask));
    CRN_TRY(masked_source(b, l, &data));
  }
  CRN_TRY(pack(b, l, data, "data", &l->inner->data));
  CRN_TRY(crn_layer_make(b, l->inner, "", c->unit, &c->unit_layer));
  return crn_layer_add_edge(b, l, c->unit_layer, CRN_EDGE_DATA, "unit");
}

static bool spreads(const crn_layer *l) {
  const masked_cfg *c = l->cfg;
  return !c->by_step && !c->masked_from && l->scope->loop && l->body->loop != l->scope->loop;
}

/* Template after spreading y over the mask's frames: [T, B, …]. */
static crn_status spread_template(crn_build *b, const crn_tmpl *y, const crn_tmpl *mask, crn_tmpl *out) {
  *out = *y;
  if (mask->time_axis < 0 || y->time_axis < 0) return CRN_OK;
  out->dims[out->time_axis] = mask->dims[mask->time_axis];
  int perm[CRN_MAX_RANK], k = 0;
  const int batch = crn_tmpl_batch_axis(out);
  perm[k++] = out->time_axis;
  if (batch >= 0) perm[k++] = batch;
  for (int i = 0; i < out->n; i++)
    if (i != out->time_axis && i != batch) perm[k++] = i;
  (void)b;
  crn_tmpl_permute(out, perm);
  out->time_explicit = false;
  crn_tmpl_update_roles(out);
  return CRN_OK;
}

static crn_status masked_infer(crn_build *b, crn_layer *l) {
  masked_cfg *c = l->cfg;
  const crn_tmpl *u = &c->unit_layer->out;
  l->out_known = c->unit_layer->out_known && (c->mask->out_known || c->masked_from);
  if (!l->out_known) return CRN_OK;
  if (!c->masked_from && c->mask->out.dtype != CRN_BOOL)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'mask': layer '%s' must be bool, it is %s", c->mask->path, crn_dtype_name(c->mask->out.dtype));
  l->out = *u;
  if (spreads(l)) return spread_template(b, u, &c->mask->out, &l->out);
  return c->by_step ? crn_layer_add_state(b, l, "_output", u) : CRN_OK;
}

static crn_status masked_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  const masked_cfg *c = l->cfg;
  (void)i;
  const crn_tmpl t = l->out;
  crn_data *d = crn_initial_output(x, c->unit_layer, NULL, &t);
  if (!d) return x->run.err->code;
  *out = *d;
  return CRN_OK;
}

/* y [T',B,…] spread over mask [T] or [B,T]: the last masked frame so far, init before the first. -> [T,B,…] */
static crn_status spread(crn_exec *x, crn_layer *l, const crn_data *y, const crn_data *m, crn_layer *source, crn_data *out) {
  crn_run *r = &x->run;
  crn_data *mm = crn_data_batch_major(r, m);
  int perm[CRN_MAX_RANK], k = 0;
  const int batch = crn_tmpl_batch_axis(&y->t), time = y->t.time_axis;
  perm[k++] = batch;
  perm[k++] = time;
  for (int i = 0; i < y->t.n; i++)
    if (i != batch && i != time) perm[k++] = i;
  if (batch < 0 || time < 0) return crn_exec_fail(x, l, "needs batch and time");
  crn_data *bm = crn_data_permute(r, y, perm);
  if (!bm || !mm) return r->err->code;
  crn_tensor *count = crn_cumsum(r, crn_cast(r, mm->v, CRN_I32), 1, false, false); /* true frames so far */
  if (!count) return r->err->code;
  crn_tmpl step = bm->t;
  crn_tmpl_remove(&step, 1);
  crn_data *init = crn_initial_output(x, source, NULL, &step);
  if (!init) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  shape[0] = init->v->shape[0];
  shape[1] = 1;
  for (int i = 1; i < init->v->rank; i++) shape[i + 1] = init->v->shape[i];
  if (bm->v->shape[0] != shape[0] && shape[0] > 0 && bm->v->shape[0] % shape[0] == 0)
    init->v = crn_repeat0(r, init->v, bm->v->shape[0] / shape[0]), shape[0] = bm->v->shape[0];
  crn_tensor *first = crn_t_reshape(r, init->v, init->v->rank + 1, shape);
  crn_tensor *parts[2] = {first, bm->v}; /* index 0 = before the first */
  crn_tensor *all = crn_concat(r, 2, parts, 1);
  crn_tensor *limit = all ? crn_t_full(r, CRN_I32, 0, NULL, (double)(all->shape[1] - 1)) : NULL;
  crn_tensor *v = crn_gather_batched(r, all, crn_binary(r, CRN_B_MINIMUM, count, limit), 1);
  if (!v) return r->err->code;
  for (int i = 0; i < v->rank; i++) perm[i] = i < 2 ? 1 - i : i;
  out->v = crn_transpose(r, v, perm);
  out->len[0] = mm->len[1];
  return out->v ? CRN_OK : r->err->code;
}

static crn_status masked_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  masked_cfg *c = l->cfg;
  crn_run *r = &x->run;
  const crn_data *y = crn_value_of(x, l, c->unit_layer);
  if (!y) return r->err->code;
  if (spreads(l)) {
    const crn_data *m = crn_value_of(x, l, c->mask);
    return m ? spread(x, l, y, m, c->unit_layer, out) : r->err->code;
  }
  const crn_tmpl t = l->out;
  if (!c->by_step) {
    *out = *y;
    out->t = t;
    return CRN_OK;
  }
  const crn_data *m = crn_value_of(x, l, c->mask), *before = crn_state_in(x, l, 0);
  crn_data *d = m && before ? crn_masked_choose(x, l, m, y, before) : NULL;
  if (!d) return r->err->code;
  *out = *d;
  out->t = t;
  return crn_state_out(x, l, 0, d);
}

/* ---- unmask --------------------------------------------------------------------------------------------------------- */

typedef struct unmask_cfg {
  crn_layer *mask;
} unmask_cfg;

static const crn_opt unmask_opts[] = {
    {.name = "mask", .type = CRN_OPT_LAYER, .offset = offsetof(unmask_cfg, mask), .doc = "bool per frame"}, CRN_OPT_END};

static crn_status unmask_infer(crn_build *b, crn_layer *l) {
  const unmask_cfg *c = l->cfg;
  const crn_tmpl *y = crn_source_tmpl(l, 0), *m = &c->mask->out;
  if (l->n_src != 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs exactly one source, got %d", l->n_src);
  l->out_known = y && (c->mask->out_known || in_own_loop(l));
  if (!l->out_known) return CRN_OK;
  l->out = *y;
  if (y->time_axis < 0) return CRN_OK;
  if (c->mask->out_known && m->time_axis >= 0) {
    if (crn_tmpl_find(y, m->dims[m->time_axis]) >= 0) return CRN_OK;
    return spread_template(b, y, m, &l->out);
  }
  crn_tmpl_remove(&l->out, y->time_axis);
  crn_tmpl t = crn_tmpl_scalar(CRN_I32);
  t.dims[t.n++] = b->net->dims.batch;
  crn_tmpl_update_roles(&t);
  return crn_layer_add_state(b, l, "t", &t);
}

static crn_status unmask_state_init(crn_exec *x, crn_layer *l, int i, crn_data *out) {
  (void)i;
  const int64_t n = crn_batch_size(x, l);
  out->v = crn_t_full(&x->run, CRN_I32, 1, &n, -1);
  out->beam = crn_exec_slot(x, l)->out->beam;
  return out->v ? CRN_OK : x->run.err->code;
}

/* In a loop: frame max(t, 0) of each sequence of y, which is a sequence from outside; init while t < 0. */
static crn_status pick_frame(crn_exec *x, crn_layer *l, const crn_data *y, const crn_data *m, crn_data *out) {
  crn_run *r = &x->run;
  const crn_data *t = crn_state_in(x, l, 0);
  const int batch = crn_tmpl_batch_axis(&y->t), time = y->t.time_axis, rank = y->t.n - 1;
  int perm[CRN_MAX_RANK], back[CRN_MAX_RANK], k = 2;
  if (!t) return r->err->code;
  if (batch < 0) return crn_exec_fail(x, l, "the source has no batch axis");
  perm[0] = batch;
  perm[1] = time;
  for (int i = 0; i < y->t.n; i++) {
    const int at = i - (i > time); /* in the output */
    if (i == batch) back[at] = 0;
    if (i == batch || i == time) continue;
    back[at] = k - 1;
    perm[k++] = i;
  }
  crn_tensor *frames = crn_transpose(r, y->v, perm);
  crn_data *now = crn_data_copy(r, t);
  if (!now || !frames) return r->err->code;
  now->v = crn_add(r, t->v, crn_cast(r, m->v, CRN_I32));
  crn_tensor *idx = crn_binary(r, CRN_B_MAXIMUM, now->v, crn_t_full(r, CRN_I32, 0, NULL, 0));
  idx = crn_binary(r, CRN_B_MINIMUM, idx, crn_t_full(r, CRN_I32, 0, NULL, (double)(frames->shape[1] - 1)));
  crn_tensor *v = crn_transpose(r, crn_gather_batched(r, frames, idx, 1), back);
  const crn_tmpl step = l->out;
  crn_data *init = crn_initial_output(x, l->src[0], NULL, &step);
  const crn_data *ib = init ? crn_beam_move(x, init, out->beam) : NULL;
  if (!v || !ib) return r->err->code;
  const int at = batch - (batch > time);
  int64_t shape[CRN_MAX_RANK];
  for (int i = 0; i < rank; i++) shape[i] = i == at ? v->shape[i] : 1;
  for (int i = 0; i < y->t.n; i++)
    if (i != time) out->len[i - (i > time)] = y->len[i];
  crn_tensor *any = crn_binary(r, CRN_B_GREATER_EQUAL, now->v, crn_t_full(r, CRN_I32, 0, NULL, 0));
  out->v = crn_where(r, crn_t_reshape(r, any, rank, shape), v, ib->v);
  return out->v ? crn_state_out(x, l, 0, now) : r->err->code;
}

static crn_status unmask_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const unmask_cfg *c = l->cfg;
  crn_run *r = &x->run;
  const crn_data *y = crn_source(x, l, 0), *m = crn_value_of(x, l, c->mask);
  if (!y || !m) return r->err->code;
  if (y->t.time_axis >= 0 && m->t.time_axis < 0) return pick_frame(x, l, y, m, out);
  if (y->t.time_axis >= 0 && crn_tmpl_find(&y->t, m->t.dims[m->t.time_axis]) < 0)
    return spread(x, l, y, m, l->src[0], out);
  const crn_tmpl t = l->out;
  *out = *y;
  out->t = t;
  return CRN_OK;
}

const crn_layer_desc crn_family_masked[] = {
    {.name = "masked_computation", .doc = "Runs a layer only on the frames where a mask is true.", .opts = masked_opts, .cfg_size = sizeof(masked_cfg),
     .flags = CRN_L_OWN_SOURCES, .make = masked_make, .refs = masked_refs, .infer = masked_infer, .forward = masked_forward, .state_init = masked_state_init},
    {.name = "unmask", .doc = "Spreads masked frames over all frames again.", .opts = unmask_opts, .cfg_size = sizeof(unmask_cfg),
     .flags = CRN_L_MANY_INPUTS, .infer = unmask_infer, .forward = unmask_forward, .state_init = unmask_state_init},
    {.name = NULL}};
