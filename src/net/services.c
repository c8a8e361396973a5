/* SPDX-License-Identifier: Apache-2.0
 *
 * What construction offers to layer classes: templates of inputs, the template of a new feature, targets, axes, states.
 */
#include <stdio.h>
#include <string.h>

#include "net/build.h"

const crn_tmpl *crn_source_tmpl(const crn_layer *l, int i) {
  return i < l->n_src && l->src[i]->out_known ? &l->src[i]->out : NULL;
}

static crn_status known_sources(crn_build *b, const crn_layer *l, const crn_tmpl ***out, int *n) {
  const crn_tmpl **ts = CRN_ARENA_ARRAY(&b->net->arena, const crn_tmpl *, l->n_src + 1);
  if (!ts) return crn_err_memory(b->err);
  *n = 0;
  for (int i = 0; i < l->n_src; i++)
    if (crn_source_tmpl(l, i)) ts[(*n)++] = crn_source_tmpl(l, i);
  *out = ts;
  return CRN_OK;
}

static crn_status apply_in_dim(crn_build *b, crn_layer *l, crn_tmpl *t) {
  const crn_dim *d = l->common.in_dim;
  if (!d || t->sparse) return CRN_OK;
  int axis = crn_tmpl_find(t, d);
  for (int i = t->n; i-- > 0 && axis < 0;)
    if (d->size >= 0 && t->dims[i]->kind != CRN_DIM_BATCH && t->dims[i]->size == d->size) axis = i;
  if (axis < 0) {
    crn_str s = {0};
    crn_tmpl_describe(t, &s);
    crn_status st =
        crn_layer_fail(b, l, CRN_E_CONFIG, "option 'in_dim': dim '%s' is not in the input %s", d->name, crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  t->feature_axis = axis;
  t->feature_explicit = true;
  return CRN_OK;
}

static crn_status concat_tmpl(crn_build *b, crn_layer *l, const crn_tmpl *const *ts, int n, crn_tmpl *out) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++) {
    if (ts[i]->sparse || ts[i]->feature_axis < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "several sources are concatenated on the feature axis, but source %d is %s",
                            i, ts[i]->sparse ? "sparse" : "without a feature axis");
    if (ts[i]->dtype != ts[0]->dtype)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "sources to be concatenated have different types: %s and %s",
                            crn_dtype_name(ts[0]->dtype), crn_dtype_name(ts[i]->dtype));
    const int64_t f = ts[i]->dims[ts[i]->feature_axis]->size;
    if (f < 0 || sum < 0) sum = -1;
    else sum += f;
  }
  CRN_TRY(crn_tmpl_unite(ts, n, b->net->version, true, out, NULL, NULL, b->err));
  const crn_dim *d = ts[0]->dims[ts[0]->feature_axis];
  for (int i = 1; i < n; i++) {
    const int64_t size = d->size < 0 ? -1 : d->size + ts[i]->dims[ts[i]->feature_axis]->size;
    d = crn_dim_derive(&b->net->dims, "concat", d, ts[i]->dims[ts[i]->feature_axis], 0, 0, 0, CRN_DIM_FEATURE, size);
    if (!d) return crn_err_memory(b->err);
  }
  out->dims[out->feature_axis] = d;
  return CRN_OK;
}

crn_status crn_input_tmpl(crn_build *b, crn_layer *l, crn_tmpl *out, bool *known) {
  const crn_tmpl **ts;
  int n;
  CRN_TRY(known_sources(b, l, &ts, &n));
  *known = n == l->n_src && n > 0;
  if (n == 0) {
    if (l->n_src == 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs a source ('from')");
    return CRN_OK;
  }
  if (n == 1) *out = *ts[0];
  else CRN_TRY(concat_tmpl(b, l, ts, n, out));
  if (l->common.dropout > 0 && out->sparse)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dropout': the input is sparse");
  CRN_TRY(apply_in_dim(b, l, out));
  *known = true; /* with some sources left out: enough for the axes */
  return CRN_OK;
}

/* Moved out of a loop: a source has all axes of one step. */
static bool covered_in_step(const crn_layer *l, const crn_tmpl *const *ts, int n, const crn_tmpl *all) {
  const crn_dim *step = crn_layer_moved_out(l) ? crn_loop_dim(l) : NULL;
  for (int i = 0; step && i < n; i++) {
    bool has = true;
    for (int a = 0; has && a < all->n; a++) has = all->dims[a] == step || crn_tmpl_find(ts[i], all->dims[a]) >= 0;
    if (has) return true;
  }
  return false;
}

crn_status crn_united_tmpl(crn_build *b, crn_layer *l, bool allow_broadcast, crn_tmpl *out, bool *known) {
  const crn_tmpl **ts;
  int n;
  CRN_TRY(known_sources(b, l, &ts, &n));
  *known = n > 0;
  if (n == 0) {
    if (l->n_src == 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "needs a source ('from')");
    return CRN_OK;
  }
  bool covered;
  CRN_TRY(crn_tmpl_unite(ts, n, b->net->version, false, out, NULL, &covered, b->err));
  if (covered || allow_broadcast || covered_in_step(l, ts, n, out) || !crn_v_is_none(l->common.out_shape)) return CRN_OK;
  const crn_value *ot = l->common.out_type;
  if (crn_v_get(ot, "shape") || crn_v_get(ot, "dims") || crn_v_get(ot, "dim_tags")) return CRN_OK;
  crn_str s = {0};
  for (int i = 0; i < n; i++) {
    crn_str_addf(&s, "%s'%s' ", i ? " and " : "", l->src[i]->path);
    crn_tmpl_describe(ts[i], &s);
  }
  crn_str_add(&s, " would be broadcast to ");
  crn_tmpl_describe(out, &s);
  crn_status st = CRN_OK;
  if (b->net->version >= 4)
    st = crn_layer_fail(b, l, CRN_E_CONFIG, "no source has all axes: %s; state it with 'out_shape', or allow it by "
                        "'allow_broadcast_all_sources'", crn_str_get(&s));
  else crn_warnf(b->net->log, "layer '%s' (%s): no source has all axes: %s", l->path, l->desc->name, crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

/* ---- new features --------------------------------------------------------------------------------------------------- */

static const crn_value *target_at(const crn_layer *l, int i) {
  const crn_value *t = l->common.target;
  if (crn_v_is_seq(t)) return crn_v_at(t, (size_t)i);
  return i == 0 && !crn_v_is_none(t) ? t : NULL;
}

const char *crn_target_name(const crn_build *b, const crn_layer *l, int i) {
  const char *name = crn_v_cstr(target_at(l, i));
  if (!name && i == 0 && !crn_v_is_none(l->common.loss)) name = b->net->default_target;
  return name;
}

crn_status crn_target_tmpl(crn_build *b, crn_layer *l, int i, crn_tmpl *out, bool *found) {
  const char *name = crn_target_name(b, l, i);
  *found = false;
  if (!name) return CRN_OK;
  crn_layer *t;
  CRN_TRY(crn_target_layer(b, l, name, &t));
  if (!t->out_known && t->body->loop != l->body->loop) CRN_TRY(crn_build_infer(b, t));
  if (!t->out_known) {
    CRN_TRY(crn_build_refs(b));
    CRN_TRY(crn_layer_infer_once(b, t));
  }
  *out = t->out;
  *found = t->out_known;
  return CRN_OK;
}

static crn_status target_dim(crn_build *b, crn_layer *l, const crn_dim **dim, int64_t *size, bool *found) {
  const char *name = crn_target_name(b, l, 0);
  *found = false;
  if (!name) return CRN_OK;
  const crn_extern *e = strncmp(name, "layer:", 6) ? crn_net_extern(b->net, !strncmp(name, "data:", 5) ? name + 5 : name) : NULL;
  crn_tmpl t;
  if (e) {
    t = e->t;
    *found = true;
  } else {
    CRN_TRY(crn_target_tmpl(b, l, 0, &t, found));
  }
  if (!*found) return CRN_OK;
  *size = crn_tmpl_dim(&t);
  *dim = t.sparse ? t.sparse_dim : crn_tmpl_feature(&t);
  return crn_loss_output_dim(b, l, dim, size);
}

crn_status crn_new_feature_dim(crn_build *b, crn_layer *l, const crn_tmpl *in, const crn_dim **out) {
  int64_t size = -1;
  const crn_dim *shared = NULL;
  if (l->common.out_dim) {
    *out = crn_dim_as_kind(&b->net->dims, l->common.out_dim, CRN_DIM_FEATURE);
    return *out ? CRN_OK : crn_err_memory(b->err);
  }
  if (l->common.n_out != CRN_UNSET) size = l->common.n_out;
  if (size < 0) (void)crn_v_to_int(crn_v_get(l->common.out_type, "dim"), &size);
  if (size < 0) {
    bool found;
    CRN_TRY(target_dim(b, l, &shared, &size, &found));
  }
  if (size < 0)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "output dim undefined: give 'n_out', 'out_dim' or a 'target'");
  const crn_dim *f = in ? crn_tmpl_feature(in) : NULL;
  if (f && f->size == size && f->kind == CRN_DIM_FEATURE) *out = f;
  else *out = crn_layer_dim(b, l, "feature-dense", CRN_DIM_FEATURE, size);
  return *out ? CRN_OK : crn_err_memory(b->err);
}

crn_status crn_new_feature_tmpl(crn_build *b, crn_layer *l, const crn_tmpl *in, crn_tmpl *out) {
  const crn_dim *d;
  CRN_TRY(crn_new_feature_dim(b, l, in, &d));
  *out = *in;
  out->vocab = NULL;
  if (in->sparse || in->feature_axis < 0) {
    out->sparse = false;
    out->sparse_dim = NULL;
    CRN_TRY(crn_tmpl_insert(out, out->n, d, b->err));
    if (out->feature_axis < 0) out->feature_axis = out->n - 1;
  } else {
    out->dims[out->feature_axis] = d;
  }
  out->dtype = CRN_F32;
  return CRN_OK;
}

const crn_dim *crn_layer_dim(crn_build *b, const crn_layer *l, const char *slot, crn_dim_kind kind, int64_t size) {
  const char *name = crn_arena_printf(&b->net->arena, "%s:%s", l->path, slot);
  return name ? crn_dim_new(&b->net->dims, l->path, slot, kind, size, name) : NULL;
}

/* ---- axes, states, sub outputs -------------------------------------------------------------------------------------- */

static crn_status option_where(crn_build *b, const crn_layer *l, const char *option, crn_status st) {
  if (st == CRN_OK) return CRN_OK;
  (void)crn_err_where(b->err, "option '%s'", option);
  return crn_err_where(b->err, "network: layer '%s' (%s)", l->path, l->desc->name);
}

crn_status crn_layer_axis(crn_build *b, const crn_layer *l, const crn_tmpl *t, const crn_value *v, const char *option,
                          int *axis) {
  return option_where(b, l, option, crn_axis_of(t, v, b->net->version, &b->net->dims, axis, b->err));
}

crn_status crn_layer_axes(crn_build *b, const crn_layer *l, const crn_tmpl *t, const crn_value *v, const char *option,
                          int axes[CRN_MAX_RANK], int *n) {
  return option_where(b, l, option, crn_axes_of(t, v, b->net->version, &b->net->dims, axes, n, b->err));
}

crn_status crn_layer_add_state(crn_build *b, crn_layer *l, const char *name, const crn_tmpl *t) {
  for (int i = 0; i < l->n_states; i++)
    if (!strcmp(l->states[i].name, name)) {
      l->states[i].t = *t;
      return CRN_OK;
    }
  crn_layer_state *s = CRN_ARENA_ARRAY(&b->net->arena, crn_layer_state, l->n_states + 1);
  if (!s) return crn_err_memory(b->err);
  if (l->n_states) memcpy(s, l->states, (size_t)l->n_states * sizeof(*s));
  s[l->n_states].name = name;
  s[l->n_states++].t = *t;
  l->states = s;
  return CRN_OK;
}

crn_status crn_layer_add_sub(crn_build *b, crn_layer *l, const char *name, const crn_tmpl *t) {
  for (int i = 0; i < l->n_subs; i++)
    if (!strcmp(l->subs[i].name, name)) {
      l->subs[i].t = *t;
      return CRN_OK;
    }
  crn_sub_output *s = CRN_ARENA_ARRAY(&b->net->arena, crn_sub_output, l->n_subs + 1);
  if (!s) return crn_err_memory(b->err);
  if (l->n_subs) memcpy(s, l->subs, (size_t)l->n_subs * sizeof(*s));
  s[l->n_subs].name = crn_arena_strdup(&b->net->arena, name);
  s[l->n_subs++].t = *t;
  l->subs = s;
  return CRN_OK;
}

crn_status crn_layer_need(crn_build *b, crn_layer *l, int index, crn_layer **out) {
  crn_layer *of = b->net->layers[index];
  *out = of;
  for (int i = 0; i < l->n_edges; i++)
    if (l->edges[i].to == of && l->edges[i].kind == CRN_EDGE_DATA) return CRN_OK;
  if (of->body != l->body)
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: layer '%s', which this undoes, runs outside of the loop",
                          of->path);
  return crn_layer_add_edge(b, l, of, CRN_EDGE_DATA, NULL);
}

/* ---- out_type ------------------------------------------------------------------------------------------------------- */

static crn_status out_type_shape(crn_build *b, crn_layer *l, const crn_value *ot, const crn_value *shape, crn_tmpl *t) {
  crn_dims *dims = &b->net->dims;
  const crn_tmpl old = *t;
  const crn_value *bx = crn_v_get(ot, "batch_dim_axis");
  int64_t batch_axis = 0;
  const bool has_batch = !(bx && bx->kind == CRN_V_NONE);
  if (bx && has_batch && !crn_v_to_int(bx, &batch_axis))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': 'batch_dim_axis' must be an integer");
  bool taken[CRN_MAX_RANK] = {false};
  t->n = 0;
  const size_t n = crn_v_len(shape);
  for (size_t i = 0; i < n; i++) {
    const crn_value *s = crn_v_at(shape, i);
    int64_t size = -1;
    const crn_dim *d = NULL;
    if (s->kind == CRN_V_DIM) d = crn_dim_of_value(dims, s);
    else if (!crn_v_is_none(s) && !crn_v_to_int(s, &size))
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': sizes in 'shape' are integers or None");
    for (int k = 0; !d && k < old.n; k++) { /* dynamic axes keep their dims, fixed ones of the same size too */
      const crn_dim *o = old.dims[k];
      if (taken[k] || o->kind == CRN_DIM_BATCH || o->size != size) continue;
      if (size >= 0 && (i + 1 == n) != (k == old.feature_axis)) continue;
      taken[k] = true;
      d = o;
    }
    if (!d) {
      char slot[32];
      (void)snprintf(slot, sizeof(slot), "out_type:%d", (int)i);
      d = crn_layer_dim(b, l, slot, i + 1 == n && size >= 0 && !t->sparse ? CRN_DIM_FEATURE : CRN_DIM_SPATIAL, size);
    }
    if (!d) return crn_err_memory(b->err);
    t->dims[t->n++] = d;
  }
  if (has_batch) {
    int at = (int)(batch_axis < 0 ? batch_axis + t->n + 1 : batch_axis);
    if (at < 0 || at > t->n) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': no such 'batch_dim_axis'");
    for (int i = t->n; i > at; i--) t->dims[i] = t->dims[i - 1];
    t->dims[at] = dims->batch;
    t->n++;
  }
  t->time_explicit = t->feature_explicit = false;
  crn_tmpl_update_roles(t);
  return CRN_OK;
}

static crn_status out_type_axis(crn_build *b, crn_layer *l, const crn_value *ot, const char *key, int n, int *axis,
                                bool *explicit_) {
  const crn_value *v = crn_v_get(ot, key);
  if (!v) return CRN_OK;
  int64_t i = -1;
  if (v->kind != CRN_V_NONE && (!crn_v_to_int(v, &i) || i >= n || i < -n))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': '%s': no such axis", key);
  *axis = (int)(v->kind == CRN_V_NONE ? -1 : i < 0 ? i + n : i);
  *explicit_ = true;
  return CRN_OK;
}

static crn_status out_type_dim(crn_build *b, crn_layer *l, const crn_value *ot, crn_tmpl *t) {
  int64_t dim;
  const crn_value *v = crn_v_get(ot, "dim");
  if (crn_v_is_none(v)) return CRN_OK;
  if (!crn_v_to_int(v, &dim)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': 'dim' must be an integer");
  if (t->sparse) {
    if (t->sparse_dim && t->sparse_dim->size == dim) return CRN_OK;
    t->sparse_dim = crn_layer_dim(b, l, "sparse-dim", CRN_DIM_FEATURE, dim);
    return t->sparse_dim ? CRN_OK : crn_err_memory(b->err);
  }
  if (t->feature_axis < 0 || t->dims[t->feature_axis]->size == dim) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': 'dim' is %lld, but the output's feature has size %lld",
                        (long long)dim, (long long)t->dims[t->feature_axis]->size);
}

crn_status crn_apply_out_type(crn_build *b, crn_layer *l, crn_tmpl *t) {
  const crn_value *ot = l->common.out_type;
  if (crn_v_is_none(ot)) return CRN_OK;
  if (!crn_v_is_dict(ot))
    return ot->kind == CRN_V_CALLABLE
               ? crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: 'out_type' as a function")
               : crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': expected a dict, got %s", crn_v_kind_name(ot));
  static const char *const known[] = {"dim", "shape", "dims", "dim_tags", "dtype", "sparse", "sparse_dim", "batch_dim_axis",
                                      "time_dim_axis", "feature_dim_axis", "vocab", "name", "available_for_inference", "feature_dim"};
  for (size_t i = 0; i < ot->u.dict.n; i++) {
    const char *k = crn_v_cstr(ot->u.dict.keys[i]);
    bool ok = false;
    for (size_t n = 0; n < sizeof(known) / sizeof(*known); n++) ok |= k && !strcmp(k, known[n]);
    if (!ok) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': unknown key '%s'", k ? k : "?");
  }
  const crn_value *v = crn_v_get(ot, "dtype");
  if (!crn_v_is_none(v) && (!crn_v_is_str(v) || !crn_dtype_from_name(crn_v_cstr(v), &t->dtype)))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': unknown dtype");
  if ((v = crn_v_get(ot, "sparse"))) {
    const bool was = t->sparse;
    t->sparse = crn_v_truth(v);
    if (!t->sparse) t->sparse_dim = NULL;
    if (was != t->sparse) crn_tmpl_update_roles(t);
  }
  v = crn_v_get(ot, "dims");
  if (!v) v = crn_v_get(ot, "dim_tags");
  if (crn_v_is_seq(v)) {
    t->n = 0;
    for (size_t i = 0; i < crn_v_len(v) && i < CRN_MAX_RANK; i++) {
      const crn_dim *d = crn_dim_of_value(&b->net->dims, crn_v_at(v, i));
      if (!d) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_type': 'dims' must be dim objects");
      t->dims[t->n++] = d;
    }
    t->time_explicit = t->feature_explicit = false;
    crn_tmpl_update_roles(t);
  } else if (crn_v_is_seq(v = crn_v_get(ot, "shape"))) {
    CRN_TRY(out_type_shape(b, l, ot, v, t));
  }
  CRN_TRY(out_type_axis(b, l, ot, "time_dim_axis", t->n, &t->time_axis, &t->time_explicit));
  crn_tmpl_update_roles(t);
  CRN_TRY(out_type_axis(b, l, ot, "feature_dim_axis", t->n, &t->feature_axis, &t->feature_explicit));
  crn_tmpl_update_roles(t);
  return out_type_dim(b, l, ot, t);
}
