/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that put sources, or copies of one, side by side: concat, stack, tile (layers-1.md, layers-2.md).
 */
#include <stdio.h>
#include <string.h>

#include "layer/eval.h"
#include "layer/lengths.h"
#include "layer/pieces.h"

typedef struct join_cfg {
  const crn_value *axis, *out_spatial_dim, *multiples, *out_dims;
  int allow_broadcast;
  int at;                      /* of the result */
  int (*map)[CRN_MAX_RANK];    /* axis of the result that each source's axis became */
  int64_t times[CRN_MAX_RANK]; /* tile */
} join_cfg;

#define OFF(f) offsetof(join_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

/* A source's value with the axes of the result: transposed, size 1 where it lacks one, then widened to size (0: leave).
 */
static crn_tensor *placed(crn_run *r, const crn_data *d, const int *map, int rank, const int64_t *size) {
  int perm[CRN_MAX_RANK], n = 0;
  int64_t shape[CRN_MAX_RANK];
  for (int o = 0; o < rank; o++) {
    shape[o] = 1;
    for (int k = 0; k < d->t.n; k++)
      if (map[k] == o) {
        perm[n++] = k;
        shape[o] = d->v->shape[k];
      }
  }
  crn_tensor *v = crn_t_reshape(r, n > 1 ? crn_transpose(r, d->v, perm) : d->v, rank, shape);
  bool same = true;
  for (int o = 0; o < rank; o++) {
    if (!size[o]) continue;
    same &= size[o] == shape[o];
    shape[o] = size[o];
  }
  return same ? v : crn_broadcast_to(r, v, rank, shape);
}

/* ---- concat ---------------------------------------------------------------------------------------------------------
 */

static const crn_opt concat_opts[] = {
    OPT(allow_broadcast, CRN_OPT_BOOL, "False", .doc = "sources that lack an axis are repeated along it"), CRN_OPT_END};

static crn_status concat_axis(crn_build *b, crn_layer *l, int i, const crn_tmpl *t, int *axis) {
  const crn_value *pair = crn_v_at(crn_v_get(l->dict, "from"), (size_t)i);
  if (!crn_v_is_seq(pair) || crn_v_len(pair) != 2)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'from': expected a list of pairs (layer, axis)");
  CRN_TRY(crn_layer_axis(b, l, t, crn_v_at(pair, 1), "from", axis));
  return t->dims[*axis]->kind == CRN_DIM_BATCH
             ? crn_layer_fail(b, l, CRN_E_CONFIG, "option 'from': the batch axis can't be concatenated")
             : CRN_OK;
}

/* Dim of the joined axis. */
static crn_status joined_dim(crn_build *b, crn_layer *l, const crn_dim **parts, const crn_dim **out) {
  int64_t sum = 0;
  for (int i = 0; i < l->n_src; i++) sum = sum < 0 || parts[i]->size < 0 ? -1 : sum + parts[i]->size;
  *out = parts[0];
  for (int i = 1; i < l->n_src && sum < 0 && *out; i++)
    *out = crn_dim_derive(crn_build_dims(b), "concat", *out, parts[i], 0, 0, 0, parts[0]->kind, -1);
  if (sum >= 0 && l->n_src > 1) *out = crn_layer_dim(b, l, "concat", parts[0]->kind, sum);
  if (!*out) return crn_err_memory(crn_build_err(b));
  const crn_dim *d = l->common.out_dim;
  if (!d) return CRN_OK;
  if (d->size >= 0 && d->size != sum)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_dim' has size %lld, the output %lld", (long long)d->size,
                          (long long)sum);
  if (d->size == sum) *out = crn_dim_as_kind(crn_build_dims(b), d, parts[0]->kind);
  return *out ? CRN_OK : crn_err_memory(crn_build_err(b));
}

static crn_status concat_infer(crn_build *b, crn_layer *l) {
  join_cfg *c = l->cfg;
  crn_arena *a = crn_build_arena(b);
  if (!crn_v_is_seq(crn_v_get(l->dict, "from")) || !l->n_src || (int)crn_v_len(crn_v_get(l->dict, "from")) != l->n_src)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'from': expected a list of pairs (layer, axis)");
  for (int i = 0; i < l->n_src; i++)
    if (!crn_source_tmpl(l, i)) l->out_known = false;
  if (!l->out_known) return CRN_OK;
  crn_tmpl *ts = CRN_ARENA_ARRAY(a, crn_tmpl, l->n_src);
  const crn_tmpl **ps = CRN_ARENA_ARRAY(a, const crn_tmpl *, l->n_src);
  const crn_dim **parts = CRN_ARENA_ARRAY(a, const crn_dim *, l->n_src), *d;
  c->map = crn_arena_alloc(a, sizeof(*c->map) * (size_t)l->n_src);
  if (!ts || !ps || !parts || !c->map) return crn_err_memory(crn_build_err(b));
  int axis[CRN_MAX_RANK * 8];
  if (l->n_src > CRN_MAX_RANK * 8) return crn_layer_fail(b, l, CRN_E_CONFIG, "too many sources");
  for (int i = 0; i < l->n_src; i++) {
    ts[i] = *crn_source_tmpl(l, i);
    ps[i] = &ts[i];
    CRN_TRY(concat_axis(b, l, i, &ts[i], &axis[i]));
    parts[i] = ts[i].dims[axis[i]];
    if (ts[i].dtype != ts[0].dtype)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "sources have different types: %s and %s", crn_dtype_name(ts[0].dtype),
                            crn_dtype_name(ts[i].dtype));
  }
  CRN_TRY(joined_dim(b, l, parts, &d));
  for (int i = 0; i < l->n_src; i++) ts[i].dims[axis[i]] = d; /* one and the same for all */
  CRN_TRY(crn_tmpl_unite(ps, l->n_src, crn_build_version(b), false, &l->out, c->map, NULL, crn_build_err(b)));
  c->at = c->map[0][axis[0]];
  l->ahead = l->n_src > 1 && crn_streams_along(l, d) ? "it puts sequences behind each other" : NULL;
  l->causal = !l->ahead;
  for (int i = 0; i < l->n_src; i++)
    if (c->allow_broadcast <= 0 && ts[i].n != l->out.n)
      return crn_layer_fail(b, l, CRN_E_CONFIG,
                            "source '%s' lacks an axis of the others; 'allow_broadcast' would repeat it",
                            l->src[i]->path);
  return CRN_OK;
}

static crn_status concat_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const join_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data **d = CRN_ARENA_ARRAY(&r->arena, const crn_data *, l->n_src);
  crn_tensor **v = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, l->n_src);
  int64_t size[CRN_MAX_RANK], total = 0;
  const crn_data *len = NULL;
  if (!d || !v) return crn_err_memory(r->err);
  for (int o = 0; o < out->t.n; o++) size[o] = 1;
  for (int i = 0; i < l->n_src; i++) {
    if (!(d[i] = crn_source(x, l, i))) return r->err->code;
    for (int k = 0; k < d[i]->t.n; k++) {
      const int o = c->map[i][k];
      if (o == c->at) {
        len = i == 0 ? d[i]->len[k] : crn_lengths_sum(x, len, total, d[i]->len[k], d[i]->v->shape[k]);
        total += d[i]->v->shape[k];
        continue;
      }
      if (size[o] == 1) size[o] = d[i]->v->shape[k];
      if (!out->len[o]) out->len[o] = d[i]->len[k];
    }
  }
  size[c->at] = 0; /* each its own */
  for (int i = 0; i < l->n_src; i++) v[i] = placed(r, d[i], c->map[i], out->t.n, size);
  out->len[c->at] = len;
  out->v = crn_concat(r, l->n_src, v, c->at);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- stack ----------------------------------------------------------------------------------------------------------
 */

static const crn_opt stack_opts[] = {
    OPT(axis, CRN_OPT_VALUE, "None", .doc = "position of the new axis; default: behind the last spatial axis"),
    OPT(out_spatial_dim, CRN_OPT_VALUE, "None", .doc = "dim of the new axis"), CRN_OPT_END};

static crn_status stack_infer(crn_build *b, crn_layer *l) {
  join_cfg *c = l->cfg;
  bool known;
  int64_t at;
  for (int i = 0; i < l->n_src; i++)
    if (!crn_source_tmpl(l, i)) l->out_known = false;
  if (!l->out_known) return CRN_OK;
  CRN_TRY(crn_united_tmpl(b, l, true, &l->out, &known));
  crn_tmpl *t = &l->out;
  for (int i = 0; i < l->n_src; i++)
    if (crn_source_tmpl(l, i)->dtype != t->dtype)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "sources have different types: %s and %s", crn_dtype_name(t->dtype),
                            crn_dtype_name(crn_source_tmpl(l, i)->dtype));
  if (crn_v_is_none(c->axis)) {
    c->at = crn_tmpl_batch_axis(t) + 1;
    for (int i = 0; i < t->n; i++)
      if (t->dims[i]->kind != CRN_DIM_BATCH && (i != t->feature_axis || i == t->time_axis || t->dims[i]->size < 0))
        c->at = i + 1;
  } else {
    if (!crn_v_to_int(c->axis, &at) || at > t->n || at < -t->n - 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'axis': expected a position");
    c->at = (int)(at < 0 ? at + t->n + 1 : at);
  }
  const crn_dim *d = crn_layer_dim(b, l, "stack", CRN_DIM_SPATIAL, l->n_src);
  CRN_TRY(crn_given_dim(b, l, c->out_spatial_dim, 0, d, &d));
  return crn_tmpl_insert(t, c->at, d, crn_build_err(b));
}

static crn_status stack_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const join_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor **v = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, l->n_src);
  int64_t size[CRN_MAX_RANK];
  if (!v) return crn_err_memory(r->err);
  crn_data *united = crn_data_copy(r, out);
  if (!united) return r->err->code;
  crn_tmpl_remove(&united->t, c->at);
  for (int o = 0; o < united->t.n; o++) size[o] = 1;
  for (int i = 0; i < l->n_src; i++) {
    const crn_data *d = crn_source(x, l, i);
    if (!d) return r->err->code;
    crn_take_lengths(x, d, united);
    v[i] = crn_data_fit(r, d, &united->t, crn_exec_version(x), false);
    for (int o = 0; v[i] && o < united->t.n; o++)
      if (size[o] == 1) size[o] = v[i]->shape[o];
  }
  for (int i = 0; i < l->n_src; i++) {
    bool same = true;
    for (int o = 0; v[i] && o < united->t.n; o++) same &= v[i]->shape[o] == size[o];
    if (!same) v[i] = crn_broadcast_to(r, v[i], united->t.n, size);
  }
  for (int o = 0; o < united->t.n; o++) out->len[o < c->at ? o : o + 1] = united->len[o];
  out->len[c->at] = NULL;
  out->v = crn_stack(r, l->n_src, v, c->at);
  return out->v ? CRN_OK : r->err->code;
}

/* ---- tile -----------------------------------------------------------------------------------------------------------
 */

static const crn_opt tile_opts[] = {OPT(multiples, CRN_OPT_VALUE, NULL, .doc = "how often each axis is repeated"),
                                    OPT(out_dims, CRN_OPT_VALUE, "None", .doc = "dims of the axes afterwards"),
                                    CRN_OPT_END};

static crn_status tile_infer(crn_build *b, crn_layer *l) {
  join_cfg *c = l->cfg;
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  if (!crn_v_is_dict(c->multiples))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'multiples': expected a dict of axis and number");
  const crn_tmpl in = l->out;
  for (int i = 0; i < in.n; i++) c->times[i] = 1;
  for (size_t k = 0; k < c->multiples->u.dict.n; k++) {
    int axis;
    int64_t n;
    char slot[32];
    CRN_TRY(crn_layer_axis(b, l, &in, c->multiples->u.dict.keys[k], "multiples", &axis));
    if (!crn_v_to_int(c->multiples->u.dict.vals[k], &n) || n < 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'multiples': expected numbers of at least 1");
    if (n == 1) continue;
    if (in.dims[axis]->size < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'multiples': axis %d has no fixed size", axis);
    c->times[axis] = n;
    (void)snprintf(slot, sizeof(slot), "tile:%d", axis);
    CRN_TRY(crn_changed_dim(b, l, in.dims[axis], in.dims[axis]->size * n, slot, "tile", n, 0, 0, &l->out.dims[axis]));
    const crn_value *given =
        crn_v_is_dict(c->out_dims) && k < c->out_dims->u.dict.n ? c->out_dims->u.dict.vals[k] : NULL;
    CRN_TRY(crn_given_dim(b, l, given, 0, l->out.dims[axis], &l->out.dims[axis]));
  }
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status tile_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const join_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  for (int i = 0; i < in->t.n; i++) out->len[i] = in->len[i];
  out->v = crn_tile(r, in->v, c->times);
  return out->v ? CRN_OK : r->err->code;
}

#define ROW(n, d, o, f, ...)                                                                                           \
  { .name = n, .doc = d, .opts = o, .cfg_size = sizeof(join_cfg), .flags = f, __VA_ARGS__ }
const crn_layer_desc crn_family_join[] = {
    ROW("concat", "Joins sources along an axis.", concat_opts,
        CRN_L_MANY_INPUTS | CRN_L_READS_PADDING | CRN_L_MAY_STREAM, .infer = concat_infer, .forward = concat_forward),
    ROW("stack", "Joins sources along a new axis.", stack_opts, CRN_L_MANY_INPUTS | CRN_L_STREAMS, .infer = stack_infer,
        .forward = stack_forward),
    ROW("tile", "Repeats axes as a whole.", tile_opts, CRN_L_CONCAT | CRN_L_STREAMS, .infer = tile_infer,
        .forward = tile_forward),
    {.name = NULL}};
