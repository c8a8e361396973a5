/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers of loops: what a name means inside or outside of the loop, as internal layers (see loop.h).
 */
#include <string.h>

#include "net/loop.h"
#include "net/wrappers.h"

static const crn_opt no_opts[] = {CRN_OPT_END};

static crn_status take(crn_exec *x, const crn_data *d, crn_data *out) {
  if (!d) return x->run.err->code;
  *out = *d;
  return CRN_OK;
}

/* Axis of the loop in a template of something outside; the time axis where its dim isn't the loop's. */
static int loop_axis_of(const crn_loop *loop, const crn_tmpl *t) {
  const int axis = crn_tmpl_find(t, loop->time_dim);
  return axis >= 0 ? axis : t->time_axis;
}

/* ---- prev:x in the loop ---- */

static crn_status prev_infer(crn_build *b, crn_layer *l) {
  const crn_prev *p = l->priv;
  const crn_layer *of = p->of;
  if (of->out_known) {
    l->out = of->out;
    if (of->out.sparse && crn_v_is_none(of->common.initial_output) && strcmp(of->name, "end") != 0 &&
        !(of->desc->flags & CRN_L_INTERNAL))
      return crn_layer_fail(b, of, CRN_E_CONFIG,
                            "is read as '%s': you must explicitly provide an initial output value for sparse data "
                            "('initial_output')", l->name);
    return CRN_OK;
  }
  if (p->init && p->init->out_known) {
    l->out = p->init->out;
    return CRN_OK;
  }
  l->out_known = false;
  return CRN_OK;
}

crn_status crn_loop_initial_param(crn_build *b, crn_layer *of) {
  if (!crn_v_is_str(of->common.initial_output) || strcmp(crn_v_cstr(of->common.initial_output), "var") != 0) return CRN_OK;
  crn_param_spec s = {.rank = 1, .init_default = "0", .dtype = CRN_F32};
  s.name = crn_arena_printf(&b->net->arena, "init_%s_var", of->name);
  s.shape[0] = crn_tmpl_dim(&of->out);
  return s.name ? crn_layer_param(b, of, &s) : crn_err_memory(b->err);
}

/* x itself: the one in the loop behind its steps, the moved one behind its frames. */
static crn_layer *prev_of(const crn_prev *p) {
  crn_layer *of = p->of;
  if (of->desc == &crn_wrap_accum) return of->priv;
  return of->desc == &crn_wrap_slice && of->src[0]->scope->kind == CRN_SCOPE_MOVED ? of->src[0] : of;
}

static crn_status initial_params(crn_build *b, crn_layer *l) { return crn_loop_initial_param(b, prev_of(l->priv)); }

static crn_status prev_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_loop *loop = l->body->loop;
  crn_loop_run *lr = crn_exec_loop(x, loop);
  const crn_prev *p = l->priv;
  for (int i = 0; i < loop->n_carried; i++) {
    if (loop->carried[i] != l) continue;
    if (!lr->carried[i]) {
      const crn_tmpl t = l->out;
      lr->carried[i] = crn_initial_output(x, prev_of(p), p->init, &t);
      if (crn_exec_drops(x)) crn_data_hold(lr->carried[i]);
    }
    return take(x, lr->carried[i], out);
  }
  return CRN_E_INTERNAL;
}

const crn_layer_desc crn_wrap_prev = {.name = "prev", .doc = "Gives the output of the step before.", .opts = no_opts,
                                      .flags = CRN_L_INTERNAL, .infer = prev_infer, .params = initial_params, .forward = prev_forward};

/* ---- one frame of something outside ---- */

/* A moved layer may have another time axis, in all steps the same. */
static int sliced_axis(const crn_layer *l, const crn_tmpl *t) {
  const crn_loop *loop = l->scope->loop;
  if (l->src[0]->scope->kind != CRN_SCOPE_MOVED) return loop_axis_of(loop, t);
  const int axis = crn_tmpl_find(t, loop->time_dim);
  if (axis >= 0 || !loop->source || loop->source->out.time_axis < 0) return axis;
  return crn_tmpl_find(t, loop->source->out.dims[loop->source->out.time_axis]);
}

static crn_status slice_infer(crn_build *b, crn_layer *l) {
  const crn_layer *outer = l->src[0];
  if (!outer->out_known) {
    l->out_known = false;
    return CRN_OK;
  }
  l->out = outer->out;
  const int axis = sliced_axis(l, &outer->out);
  if (axis < 0) {
    if (l->name[0] == 'd' && !strncmp(l->name, "data:", 5))
      return crn_layer_fail(b, l, CRN_E_CONFIG, "'%s' has no time axis: use 'base:%s' for the whole", l->name, l->name);
    return CRN_OK; /* constant in the loop */
  }
  l->out.time_explicit = false;
  crn_tmpl_remove(&l->out, axis);
  return CRN_OK;
}

static crn_status slice_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_loop *loop = l->body->loop;
  crn_loop_run *lr = crn_exec_loop(x, loop);
  crn_run *r = &x->run;
  int i = 0;
  while (i < loop->n_sliced && loop->sliced[i] != l) i++;
  if (i == loop->n_sliced) return CRN_E_INTERNAL;
  if (!lr->sliced[i]) {
    const crn_data *d = crn_exec_slot(x, l->src[0])->out;
    if (!d || !d->v) return crn_exec_fail(x, l, "the value of '%s' is not there", l->src[0]->path);
    const int axis = sliced_axis(l, &d->t);
    if (axis < 0) return take(x, d, out);
    int perm[CRN_MAX_RANK], k = 1;
    perm[0] = axis;
    for (int a = 0; a < d->t.n; a++)
      if (a != axis) perm[k++] = a;
    if (!(lr->sliced[i] = crn_data_permute(r, d, perm))) return r->err->code;
    if (crn_exec_drops(x)) crn_data_hold(lr->sliced[i]);
  }
  const crn_data *d = lr->sliced[i];
  if (lr->step >= d->v->shape[0])
    return crn_exec_fail(x, l, "frame %lld is read, but '%s' has only %lld", (long long)lr->step, l->src[0]->path,
                         (long long)d->v->shape[0]);
  out->v = crn_t_index0(r, d->v, lr->step);
  out->beam = d->beam;
  if (d->pre && d->pre->rank == d->v->rank) {
    out->pre = crn_t_index0(r, d->pre, lr->step);
    out->pre_act = d->pre_act;
  }
  for (int a = 1; a < d->t.n; a++) {
    const crn_data *len = d->len[a];
    if (!len) continue;
    const int la = crn_tmpl_find(&len->t, d->t.dims[0]);
    if (la == 0) {
      crn_tmpl lt = len->t;
      crn_tmpl_remove(&lt, 0);
      out->len[a - 1] = crn_data_new(r, &lt, crn_t_index0(r, len->v, lr->step));
    } else {
      out->len[a - 1] = len;
    }
  }
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_wrap_slice = {.name = "frame", .doc = "Gives this step's frame of a layer outside.",
                                       .opts = no_opts, .flags = CRN_L_INTERNAL, .infer = slice_infer,
                                       .forward = slice_forward};

/* ---- all steps of a layer in the loop ---- */

crn_status crn_loop_accum(crn_build *b, crn_loop *loop, crn_layer *inner, crn_layer **out) {
  const char *name = inner->path + strlen(loop->inside->path);
  if ((*out = crn_map_get(&loop->moved->layers, name))) return CRN_OK;
  if (!loop->runner) return crn_layer_fail(b, inner, CRN_E_INTERNAL, "the loop doesn't run");
  CRN_TRY(crn_layer_make_internal(b, loop->moved, loop->moved->body, name, &crn_wrap_accum, loop->runner,
                                  CRN_EDGE_DATA, out));
  (*out)->priv = inner;
  int index;
  return crn_loop_keep(b, loop, inner, &index);
}

static crn_status accum_infer(crn_build *b, crn_layer *l) {
  const crn_layer *inner = l->priv;
  crn_loop *loop = l->scope->loop;
  l->out = inner->out;
  l->out.time_explicit = false;
  CRN_TRY(crn_tmpl_insert(&l->out, 0, loop->time_dim, b->err));
  if (!crn_dim_is_dynamic(loop->time_dim)) {
    l->out.time_axis = 0;
    l->out.time_explicit = true;
    crn_tmpl_update_roles(&l->out);
  }
  l->out_known = inner->out_known;
  return CRN_OK;
}

static crn_status accum_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_loop *loop = l->scope->loop;
  for (int i = 0; i < loop->n_kept; i++)
    if (loop->kept[i] == l->priv) {
      crn_data *d = crn_loop_stacked(x, loop, i);
      if (!d) return x->run.err->code;
      const crn_tmpl t = l->out;
      *out = *d;
      out->t = t;
      return CRN_OK;
    }
  return CRN_E_INTERNAL;
}

const crn_layer_desc crn_wrap_accum = {.name = "steps", .doc = "Gives all steps of a layer of a loop.",
                                       .opts = no_opts, .flags = CRN_L_INTERNAL, .infer = accum_infer,
                                       .forward = accum_forward};

/* ---- prev:x outside ---- */

static crn_status shift_infer(crn_build *b, crn_layer *l) {
  const crn_layer *of = l->src[0];
  const crn_loop *loop = l->scope->loop;
  l->out = of->out;
  l->out_known = of->out_known;
  if (!of->out_known) return CRN_OK;
  const crn_layer *named = of->desc == &crn_wrap_accum ? of->priv : of;
  if (of->out.sparse && crn_v_is_none(named->common.initial_output) && !(named->desc->flags & CRN_L_INTERNAL))
    return crn_layer_fail(b, named, CRN_E_CONFIG,
                          "is read as '%s': you must explicitly provide an initial output value for sparse data "
                          "('initial_output')", l->name);
  const int axis = crn_tmpl_find(&l->out, loop->time_dim);
  if (axis > 0) {
    int perm[CRN_MAX_RANK], k = 1;
    perm[0] = axis;
    for (int i = 0; i < l->out.n; i++)
      if (i != axis) perm[k++] = i;
    const bool te = l->out.time_explicit, fe = l->out.feature_explicit;
    l->out.time_explicit = l->out.feature_explicit = true;
    crn_tmpl_permute(&l->out, perm);
    l->out.time_explicit = te;
    l->out.feature_explicit = fe;
  } else if (axis < 0) { /* constant in the loop: its steps must be known, that of ":i" */
    crn_prev *p = l->priv;
    if (!p->steps) CRN_TRY(crn_layer_ref(b, l, ":i", CRN_EDGE_DATA, "steps", &p->steps));
    CRN_TRY(crn_tmpl_insert(&l->out, 0, loop->time_dim, b->err));
  }
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

/* A layer that is constant in the loop, once for each of its steps. */
static crn_data *repeated(crn_exec *x, crn_layer *l, const crn_data *d) {
  crn_run *r = &x->run;
  const crn_data *steps = crn_value_of(x, l, ((const crn_prev *)l->priv)->steps);
  int64_t shape[CRN_MAX_RANK];
  crn_data *all = steps ? crn_data_new(r, &l->out, NULL) : NULL;
  if (!all) return NULL;
  all->beam = d->beam;
  all->len[0] = steps->len[0];
  shape[0] = steps->v->shape[0];
  for (int i = 0; i < d->t.n; i++) {
    shape[i + 1] = d->v->shape[i];
    all->len[i + 1] = d->len[i];
  }
  all->v = crn_broadcast_to(r, crn_expand_dims(r, d->v, 0), d->t.n + 1, shape);
  return all->v ? all : NULL;
}

static crn_status shift_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = &x->run;
  const crn_loop *loop = l->scope->loop;
  crn_prev *p = l->priv;
  const crn_data *d = crn_value_of(x, l, l->src[0]);
  if (!d) return r->err->code;
  int axis = crn_tmpl_find(&d->t, loop->time_dim);
  if (axis < 0) {
    if (!(d = repeated(x, l, d))) return r->err->code;
    axis = 0;
  }
  int perm[CRN_MAX_RANK], k = 1;
  perm[0] = axis;
  for (int i = 0; i < d->t.n; i++)
    if (i != axis) perm[k++] = i;
  crn_data *tm = crn_data_permute(r, d, perm);
  if (!tm) return r->err->code;
  crn_tmpl step = tm->t;
  crn_tmpl_remove(&step, 0);
  crn_layer *named = prev_of(p);
  crn_data *init = crn_initial_output(x, named, p->init, &step);
  if (!init) return r->err->code;
  const crn_data *ib = crn_beam_move(x, init, out->beam);
  crn_tensor *first = ib ? crn_data_fit(r, ib, &step, x->net->version, false) : NULL;
  if (!first) return r->err->code;
  int64_t shape[CRN_MAX_RANK];
  shape[0] = 1;
  for (int i = 1; i < tm->v->rank; i++) shape[i] = tm->v->shape[i];
  if (first->dtype != tm->v->dtype) first = crn_cast(r, first, tm->v->dtype);
  first = crn_broadcast_to(r, first, step.n, shape + 1);
  const int64_t T = tm->v->shape[0];
  *out = *tm;
  out->t = l->out;
  out->pre = NULL;
  out->pre_act = NULL;
  if (T == 0) return CRN_OK;
  crn_tensor *kept = crn_stream_kept(x, l);
  if (kept) first = kept;
  CRN_TRY(crn_stream_keep(x, l, crn_t_rows(r, tm->v, T - 1, 1)));
  crn_tensor *parts[2] = {crn_t_reshape(r, first, tm->v->rank, shape), crn_t_rows(r, tm->v, 0, T - 1)};
  out->v = crn_concat(r, 2, parts, 0);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_wrap_shift = {.name = "shifted", .doc = "Gives a layer's output one frame later.",
                                       .opts = no_opts, .flags = CRN_L_INTERNAL, .infer = shift_infer,
                                       .params = initial_params, .forward = shift_forward};

/* ---- :i ---- */

static crn_status step_infer(crn_build *b, crn_layer *l) {
  l->out = crn_tmpl_scalar(CRN_I32);
  if (l->body->loop == l->scope->loop) return CRN_OK;
  CRN_TRY(crn_tmpl_insert(&l->out, 0, l->scope->loop->time_dim, b->err));
  l->out.time_axis = 0;
  l->out.feature_axis = -1;
  l->out.time_explicit = l->out.feature_explicit = true;
  return CRN_OK;
}

static crn_status step_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = &x->run;
  crn_loop *loop = l->scope->loop;
  if (l->body->loop == loop) {
    out->v = crn_t_full(r, CRN_I32, 0, NULL, (double)crn_exec_step(x, l));
    return out->v ? CRN_OK : r->err->code;
  }
  int64_t n;
  if (loop->len_layer) {
    const crn_data *d = crn_exec_slot(x, loop->len_layer)->out;
    if (!d) return crn_exec_fail(x, l, "the length is not known");
    n = d->v->shape[loop->len_axis];
    out->len[0] = d->len[loop->len_axis];
  } else {
    crn_loop_run *lr = crn_exec_loop(x, loop);
    n = lr->n_steps;
    out->len[0] = lr->lens;
  }
  out->v = crn_range(r, CRN_I32, crn_stream_before(x, l), n);
  crn_stream_pass(x, l, n);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_wrap_step = {.name = ":i", .doc = "Gives the step index of a loop.", .opts = no_opts,
                                      .flags = CRN_L_INTERNAL, .infer = step_infer, .forward = step_forward};

/* ---- data of the surrounding net with the loop's axis ---- */

static crn_status frames_infer(crn_build *b, crn_layer *l) {
  (void)b;
  l->out = l->src[0]->out;
  l->out_known = l->src[0]->out_known;
  const int axis = l->out_known ? loop_axis_of(l->scope->loop, &l->out) : -1;
  if (axis >= 0) l->out.dims[axis] = l->scope->loop->time_dim;
  return CRN_OK;
}

static crn_status frames_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *d = crn_value_of(x, l, l->src[0]);
  const crn_tmpl t = l->out;
  CRN_TRY(take(x, d, out));
  out->t = t;
  return CRN_OK;
}

const crn_layer_desc crn_wrap_frames = {.name = "data", .doc = "Gives data with the axis of a loop.", .opts = no_opts,
                                        .flags = CRN_L_INTERNAL, .infer = frames_infer, .forward = frames_forward};

/* ---- rec/x ---- */

static crn_status loop_sub_infer(crn_build *b, crn_layer *l) {
  crn_layer *rec = l->src[0];
  crn_rec_cfg *c = rec->cfg;
  crn_loop *loop = c->loop;
  const char *name = l->priv;
  if (!loop->placed) {
    l->out_known = false;
    return CRN_OK;
  }
  if (l->n_src == 1) {
    char head[256];
    const size_t n = strcspn(name, "/");
    if (n >= sizeof(head)) return crn_layer_fail(b, rec, CRN_E_CONFIG, "no layer '%s' inside", name);
    memcpy(head, name, n);
    head[n] = 0;
    const crn_layer *inner = crn_map_get(&loop->inside->layers, head);
    const crn_place place = crn_loop_place(loop, head);
    if (place == CRN_IN_LOOP && inner && inner->common.is_output_layer <= 0 && inner->common.need_last <= 0 &&
        strcmp(head, "output") != 0)
      return crn_layer_fail(b, rec, CRN_E_CONFIG,
                            "layer '%s' only lives in the loop; set 'is_output_layer': True to read it from outside", name);
    crn_layer **src = CRN_ARENA_ARRAY(&b->net->arena, crn_layer *, 2);
    if (!src) return crn_err_memory(b->err);
    src[0] = rec;
    CRN_TRY(crn_scope_get(b, loop->moved, name, rec, NULL, &src[1]));
    l->src = src;
    l->n_src = 2;
    CRN_TRY(crn_layer_add_edge(b, l, src[1], CRN_EDGE_DATA, "from"));
  }
  l->out = l->src[1]->out;
  l->out_known = l->src[1]->out_known;
  return CRN_OK;
}

static crn_status loop_sub_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  return take(x, crn_value_of(x, l, l->src[1]), out);
}

const crn_layer_desc crn_wrap_loop_sub = {.name = "loop layer", .doc = "Gives a layer of a loop.", .opts = no_opts,
                                          .flags = CRN_L_INTERNAL, .infer = loop_sub_infer, .forward = loop_sub_forward};

/* ---- runner ---- */

static crn_status runner_infer(crn_build *b, crn_layer *l) {
  (void)b;
  l->out = crn_tmpl_scalar(CRN_I32);
  return CRN_OK;
}

static crn_status runner_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  CRN_TRY(crn_loop_run_all(x, l));
  out->v = crn_t_full(&x->run, CRN_I32, 0, NULL, (double)crn_exec_loop(x, l->priv)->n_steps);
  return out->v ? CRN_OK : x->run.err->code;
}

const crn_layer_desc crn_wrap_runner = {.name = "loop", .doc = "Runs the steps of a loop.", .opts = no_opts,
                                        .flags = CRN_L_INTERNAL | CRN_L_VALUES_ONLY, .infer = runner_infer, .forward = runner_forward};
