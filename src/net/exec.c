/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a network: layers in order, values kept until their last reader, and what layers may ask for while they run.
 */
#include "net/exec.h"

#include <string.h>

#include "kernel/kernel.h"
#include "layer/batch_norm.h"
#include "net/build.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/wrappers.h"
#include "tensor/history.h"
#include "tensor/weights.h"

crn_run *crn_exec_run(crn_exec *x) { return &x->run; }
bool crn_layer_has_losses(const crn_layer *l) { return l->scope->eval; }
const crn_value *crn_exec_config(const crn_exec *x, const char *key) { return crn_v_get(x->net->config, key); }
int crn_exec_version(const crn_exec *x) { return x->net->version; }
int64_t crn_exec_global_step(const crn_exec *x) { return x->net->store->global_step; }
bool crn_exec_train(const crn_exec *x) { return x->run.train; }
crn_slot *crn_exec_slot(const crn_exec *x, const crn_layer *l) { return &x->slots[l->index]; }
crn_loop_run *crn_exec_loop(const crn_exec *x, const crn_loop *loop) { return &x->loops[loop->body.index]; }

crn_status crn_exec_fail(crn_exec *x, const crn_layer *l, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  crn_status s = crn_failv(x->run.err, CRN_E_RUNTIME, fmt, ap);
  va_end(ap);
  (void)l; /* named by crn_exec_layer while the failure unwinds */
  return s;
}

/* ---- session -------------------------------------------------------------------------------------------------------- */

crn_status crn_exec_new(crn_net *net, const crn_session_opts *opts, crn_exec **out, crn_err *err) {
  static const crn_session_opts defaults = {0};
  if (!opts) opts = &defaults;
  *out = NULL;
  crn_exec *x = crn_calloc(1, sizeof(*x));
  if (!x) return crn_err_memory(err);
  x->net = net;
  x->mem = crn_mem_new();
  x->slots = crn_calloc((size_t)net->n_layers + 1, sizeof(*x->slots));
  x->loops = crn_calloc((size_t)net->n_bodies + 1, sizeof(*x->loops));
  x->feed = crn_calloc((size_t)net->n_externs + 1, sizeof(*x->feed));
  x->losses = crn_calloc((size_t)net->n_losses + 1, sizeof(*x->losses));
  x->loss_values = crn_calloc((size_t)net->n_losses + 1, sizeof(*x->loss_values));
  x->loss_parts = crn_calloc((size_t)net->n_losses + 1, sizeof(*x->loss_parts));
  x->keep = crn_calloc((size_t)net->n_layers + 1, sizeof(*x->keep));
  x->last_reader = crn_calloc((size_t)net->n_layers + 1, sizeof(*x->last_reader));
  x->pre_is_read = crn_calloc((size_t)net->n_layers + 1, sizeof(*x->pre_is_read));
  const crn_kernels *k = crn_kernels_select(opts->isa);
  crn_status st = CRN_OK;
  if (!x->mem || !x->slots || !x->loops || !x->feed || !x->losses || !x->loss_values || !x->loss_parts || !x->keep || !x->last_reader || !x->pre_is_read) st = crn_err_memory(err);
  else if (!k) st = crn_fail(err, CRN_E_STATE, "kernels '%s' are not available on this machine", opts->isa);
  if (st == CRN_OK) st = crn_threads_new(opts->n_threads, &x->threads, err);
  if (st == CRN_OK) st = crn_run_init(&x->run, x->mem, k, x->threads, net->log, &x->err);
  if (st != CRN_OK) {
    crn_exec_free(x);
    return st;
  }
  x->run.real = net->store->real;
  x->run.failure = &x->failure;
  x->trace = (crn_trace){&x->bad_nan, &x->bad_inf};
  crn_exec_watch_init(x);
  x->run.seed = opts->seed;
  x->keep_all = opts->keep_all;
  x->keep_loss_parts = opts->keep_loss_parts;
  crn_exec_find_readers(x);
  *out = x;
  return CRN_OK;
}

void crn_exec_keep(crn_exec *x, const crn_layer *l) {
  x->keep[l->index] = true;
  x->last_reader[l->index] = -1;
}

void crn_exec_free(crn_exec *x) {
  if (!x) return;
  if (x->run.frame) crn_run_deinit(&x->run);
  crn_mem_free_all(x->mem);
  crn_threads_free(x->threads);
  crn_free(x->slots);
  crn_free(x->loops);
  crn_free(x->feed);
  crn_free(x->losses);
  crn_free(x->loss_values);
  crn_free(x->loss_parts);
  crn_free(x->assigns);
  crn_free(x->keep);
  crn_free(x->last_reader);
  crn_free(x->pre_is_read);
  crn_stream_free(x->stream);
  crn_exec_free_kept(x);
  crn_str_free(&x->failure);
  crn_str_free(&x->bad_nan);
  crn_str_free(&x->bad_inf);
  crn_err_clear(&x->err);
  crn_free(x);
}

void crn_exec_begin(crn_exec *x, bool train, uint64_t step) {
  crn_run_reset(&x->run);
  crn_err_clear(&x->err);
  memset(x->slots, 0, (size_t)x->net->n_layers * sizeof(*x->slots));
  memset(x->loops, 0, (size_t)x->net->n_bodies * sizeof(*x->loops));
  memset(x->feed, 0, (size_t)x->net->n_externs * sizeof(*x->feed));
  memset(x->losses, 0, (size_t)x->net->n_losses * sizeof(*x->losses));
  memset(x->loss_values, 0, (size_t)x->net->n_losses * sizeof(*x->loss_values));
  memset(x->loss_parts, 0, (size_t)x->net->n_losses * sizeof(*x->loss_parts));
  x->objective = x->layer_constraints = NULL;
  x->constraints = x->total_loss = 0;
  x->n_assigns = 0;
  x->beam_serial = 0;
  crn_str_clear(&x->failure);
  x->noted = false;
  x->run.train = train;
  x->run.recording = train || x->net->records;
  x->run.step = step;
}

crn_status crn_exec_feed(crn_exec *x, const char *key, crn_dtype dtype, int rank, const int64_t *shape,
                         const void *data, int n_lens, const int32_t *const *lens, crn_err *err) {
  crn_extern *e = crn_net_extern(x->net, key);
  if (!e) return crn_fail(err, CRN_E_DATA, "data key '%s' is not known to the network", key);
  crn_run *r = &x->run;
  if (rank != e->t.n)
    return crn_fail(err, CRN_E_DATA, "data key '%s': the network expects %d axes, got %d", key, e->t.n, rank);
  for (int i = 0; i < rank; i++)
    if (e->t.dims[i]->size >= 0 && e->t.dims[i]->size != shape[i])
      return crn_fail(err, CRN_E_DATA, "data key '%s': axis %d must have size %lld, got %lld", key, i,
                      (long long)e->t.dims[i]->size, (long long)shape[i]);
  crn_tensor *v = crn_t_copy_in(r, dtype, rank, shape, data);
  const crn_dtype want = e->t.dtype == CRN_F32 ? r->real : e->t.dtype;
  if (dtype != want) v = crn_cast(r, v, want);
  crn_data *d = v ? crn_data_new(r, &e->t, v) : NULL;
  if (!d) return crn_fail(err, x->err.code, "%s", crn_err_text(&x->err));
  const int batch = crn_tmpl_batch_axis(&e->t);
  const int64_t B = batch >= 0 ? shape[batch] : 1;
  int k = 0;
  for (int i = 0; i < rank; i++) {
    if (!crn_dim_is_dynamic(e->t.dims[i])) continue;
    if (k >= n_lens) return crn_fail(err, CRN_E_DATA, "data key '%s': lengths of axis %d are missing", key, i);
    crn_tmpl lt = crn_tmpl_scalar(CRN_I32);
    lt.dims[lt.n++] = x->net->dims.batch;
    for (int64_t s = 0; s < B; s++)
      if (lens[k][s] < 0 || lens[k][s] > shape[i])
        return crn_fail(err, CRN_E_DATA, "data key '%s': length %d of sequence %lld is not in [0, %lld]", key, lens[k][s],
                        (long long)s, (long long)shape[i]);
    crn_tensor *lv = crn_t_copy_in(r, CRN_I32, 1, &B, lens[k]);
    d->len[i] = lv ? crn_data_new(r, &lt, lv) : NULL;
    if (!d->len[i]) return crn_fail(err, x->err.code, "%s", crn_err_text(&x->err));
    k++;
  }
  x->feed[e - x->net->externs] = d;
  return CRN_OK;
}

/* ---- one layer ------------------------------------------------------------------------------------------------------ */

static crn_status check_output(crn_exec *x, crn_layer *l, const crn_data *d) {
  if (!d->v) return crn_exec_fail(x, l, "no value was computed");
  bool ok = d->v->rank == d->t.n;
  for (int i = 0; ok && i < d->t.n; i++) ok = d->t.dims[i]->size < 0 || d->t.dims[i]->size == d->v->shape[i];
  const crn_dtype want = d->t.dtype == CRN_F32 ? x->run.real : d->t.dtype;
  if (ok && d->v->dtype == want) return CRN_OK;
  crn_str s = {0};
  char buf[160];
  crn_tmpl_describe(&d->t, &s);
  crn_status st = crn_exec_fail(x, l, "the value %s does not fit the template %s",
                                crn_t_describe(d->v, buf, sizeof(buf)), crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

/* The layer's beam: the latest of its inputs'. */
static crn_status find_beam(crn_exec *x, crn_layer *l, const crn_beam **beam) {
  *beam = NULL;
  for (int i = 0; i < l->n_edges; i++) {
    const crn_edge *e = &l->edges[i];
    if (e->kind == CRN_EDGE_PARAM || e->kind == CRN_EDGE_CONTROL || e->kind == CRN_EDGE_TIE) continue;
    const crn_data *d = crn_exec_slot(x, e->to)->out;
    if (d && d->beam) CRN_TRY(crn_beam_latest(x, l, *beam, d->beam, beam));
  }
  const crn_slot *s = crn_exec_slot(x, l);
  for (int i = 0; s->has_state && i < l->n_states; i++)
    if (s->states[i] && s->states[i]->beam) CRN_TRY(crn_beam_latest(x, l, *beam, s->states[i]->beam, beam));
  return CRN_OK;
}

static crn_status slot_prepare(crn_exec *x, crn_layer *l, crn_slot *s) {
  if (l->n_states && !s->states) {
    s->states = CRN_ARENA_ARRAY(&x->run.arena, crn_data *, l->n_states);
    s->before = CRN_ARENA_ARRAY(&x->run.arena, crn_data *, l->n_states);
    if (!s->states || !s->before) return crn_err_memory(x->run.err);
  }
  if (l->n_states && !s->made && !(s->made = CRN_ARENA_ARRAY(&x->run.arena, crn_data *, l->n_states)))
    return crn_err_memory(x->run.err); /* on its own: a stream brings the states of the piece before */
  if (l->n_subs && !s->subs && !(s->subs = CRN_ARENA_ARRAY(&x->run.arena, crn_data *, l->n_subs)))
    return crn_err_memory(x->run.err);
  return CRN_OK;
}

void crn_data_hold(crn_data *d) {
  if (!d) return;
  crn_t_hold(d->v);
  crn_history_hold(d->history);
  crn_t_hold(d->pre);
  crn_t_hold(d->output_loss);
  crn_t_hold(d->decided_score);
  for (int i = 0; i < d->t.n; i++)
    if (d->len[i]) crn_t_hold(d->len[i]->v);
}

void crn_data_release(crn_exec *x, crn_data *d) {
  if (!d) return;
  crn_t_release(&x->run, d->v);
  crn_history_release(&x->run, d->history);
  crn_t_release(&x->run, d->pre);
  crn_t_release(&x->run, d->output_loss);
  crn_t_release(&x->run, d->decided_score);
  for (int i = 0; i < d->t.n; i++)
    if (d->len[i]) crn_t_release(&x->run, d->len[i]->v);
}

bool crn_exec_drops(const crn_exec *x) { return !x->keep_all && !x->run.recording; }

static crn_status copy_output_loss(crn_exec *x, crn_layer *l, crn_data *d) {
  const int64_t i = l->common.copy_output_loss;
  if (i >= l->n_src)
    return crn_exec_fail(x, l, "option 'copy_output_loss_from_source_idx' is %lld, there are %d sources", (long long)i, l->n_src);
  const crn_data *from = crn_source(x, l, (int)i);
  if (!from) return x->run.err->code;
  d->output_loss = from->output_loss;
  return CRN_OK;
}

/* Values are read everywhere: where one is a parameter, it has to be there as it is. */
static crn_status pin_value(crn_exec *x, const crn_data *d) { return d->v ? crn_weight_pin(&x->run, d->v) : CRN_OK; }

static crn_status run_layer(crn_exec *x, crn_layer *l) {
  crn_slot *s = crn_exec_slot(x, l);
  crn_run *r = &x->run;
  crn_str_clear(&x->bad_nan);
  crn_str_clear(&x->bad_inf);
  for (int i = 0; i < l->n_states; i++) s->before[i] = s->has_state ? s->states[i] : NULL;
  const crn_beam *beam;
  crn_status st = find_beam(x, l, &beam);
  crn_data *d = st == CRN_OK ? crn_data_new(r, &l->out, NULL) : NULL;
  if (st == CRN_OK && !d) st = r->err->code;
  if (st == CRN_OK) {
    d->beam = beam;
    s->out = d; /* visible to the class while it runs: its beam */
    st = l->desc->forward(x, l, d);
    if (st == CRN_OK && l->batch_norm) st = crn_batch_norm_apply(x, l, d);
  }
  if (st == CRN_OK && crn_run_failed(r)) st = r->err->code;
  if (st == CRN_OK && l->dict && l->common.copy_output_loss != CRN_UNSET) st = copy_output_loss(x, l, d);
  if (st == CRN_OK) st = check_output(x, l, d);
  if (st == CRN_OK) st = pin_value(x, d);
  if (st == CRN_OK && x->watch) st = crn_exec_watch(x, l, d);
  if (st == CRN_OK && l->loss) st = crn_exec_losses(x, l);
  if (st == CRN_OK && l->loss) st = crn_exec_watch_losses(x, l);
  if (st == CRN_OK) st = crn_exec_layer_constraints(x, l);
  if (st != CRN_OK) {
    if (!crn_run_failed(r)) (void)crn_fail(r->err, st, "failed");
    crn_exec_note_failure(x, l);
    if (l->body->loop)
      (void)crn_err_where(r->err, "step %lld", (long long)crn_exec_loop(x, l->body->loop)->step);
    (void)crn_err_where(r->err, "layer '%s' (%s)", l->path, l->desc->name);
    return st;
  }
  s->out = d;
  if (l->watched && crn_dtype_is_float(d->v->dtype)) d->v->needs_grad = true;
  if (l->body->loop) s->ran = crn_exec_loop(x, l->body->loop)->step + 1;
  if (crn_exec_drops(x)) {
    crn_data_hold(d);
    s->held_out = d;
    s->held = true;
  }
  return CRN_OK;
}

/* A frame around the layer: what it made and nobody holds goes back when it ends. */
crn_status crn_exec_layer(crn_exec *x, crn_layer *l) {
  crn_frame frame;
  CRN_TRY(slot_prepare(x, l, crn_exec_slot(x, l)));
  if (!crn_exec_drops(x)) return run_layer(x, l);
  crn_frame_open(&x->run, &frame);
  crn_status st = run_layer(x, l);
  crn_frame_close(&x->run);
  return st;
}

crn_status crn_exec_body(crn_exec *x, const crn_body *body) {
  for (int i = 0; i < body->n; i++) {
    crn_layer *l = body->order[i];
    if (!l->live) continue;
    CRN_TRY(crn_exec_layer(x, l));
    if (!crn_exec_drops(x) || body != &x->net->body) continue;
    for (int k = 0; k < l->n_edges; k++) /* what this layer was the last to read */
      if (x->last_reader[l->edges[k].to->index] == i) crn_exec_drop(x, l->edges[k].to);
    if (x->last_reader[l->index] < 0 && !x->keep[l->index]) crn_exec_drop(x, l);
  }
  return CRN_OK;
}

crn_status crn_exec_forward(crn_exec *x, crn_err *err) {
  crn_status st = crn_stream_restore(x);
  if (st == CRN_OK) st = crn_exec_body(x, &x->net->body);
  if (st == CRN_OK) st = crn_exec_objective(x);
  if (st == CRN_OK) st = crn_stream_save(x);
  if (st == CRN_OK) st = crn_exec_keep_states(x);
  if (st == CRN_OK) return CRN_OK;
  (void)crn_fail(err, st, "%s", crn_err_text(&x->err));
  crn_exec_report(x, err);
  return st;
}

const crn_data *crn_exec_value(const crn_exec *x, const crn_layer *l) {
  const crn_data *d = l ? x->slots[l->index].out : NULL;
  return d && d->v && d->v->st->data ? d : NULL;
}

/* ---- what layers ask for -------------------------------------------------------------------------------------------- */

const crn_data *crn_value_of(crn_exec *x, crn_layer *l, crn_layer *ref) {
  if (crn_run_failed(&x->run)) return NULL;
  const crn_data *d = crn_exec_slot(x, ref)->out;
  if (!d || !d->v) {
    (void)crn_exec_fail(x, l, "the value of layer '%s' is not there", ref->path);
    return NULL;
  }
  if (crn_exec_bring_back(x, ref) != CRN_OK) return NULL;
  return crn_beam_move(x, d, crn_exec_slot(x, l)->out->beam);
}

const crn_data *crn_to_beam_of(crn_exec *x, crn_layer *l, const crn_data *d) {
  return crn_beam_move(x, d, crn_exec_slot(x, l)->out->beam);
}

const crn_data *crn_source(crn_exec *x, crn_layer *l, int i) { return crn_value_of(x, l, l->src[i]); }

static crn_status dropout_shape(crn_exec *x, crn_layer *l, const crn_data *in, int64_t *shape) {
  const crn_value *v = l->common.dropout_noise_shape, *ax = l->common.dropout_axis;
  int axes[CRN_MAX_RANK], n;
  for (int i = 0; i < in->t.n; i++) shape[i] = i == in->t.feature_axis ? in->v->shape[i] : 1;
  if (!crn_v_is_none(ax)) {
    for (int i = 0; i < in->t.n; i++) shape[i] = 1;
    CRN_TRY(crn_axes_of(&in->t, ax, x->net->version, &x->net->dims, axes, &n, x->run.err));
    for (int i = 0; i < n; i++) shape[axes[i]] = in->v->shape[axes[i]];
  } else if (crn_v_is_dict(v)) {
    const crn_value *all = crn_v_get(v, "*");
    for (int i = 0; all && i < in->t.n; i++) {
      int64_t s;
      shape[i] = crn_v_to_int(all, &s) && s == 1 ? 1 : in->v->shape[i];
    }
    for (size_t k = 0; k < v->u.dict.n; k++) {
      if (crn_v_is_str(v->u.dict.keys[k]) && !strcmp(crn_v_cstr(v->u.dict.keys[k]), "*")) continue;
      int64_t s;
      const crn_value *val = v->u.dict.vals[k];
      const bool shared = (crn_v_to_int(val, &s) && s == 1) || crn_v_is_str(val);
      CRN_TRY(crn_axes_of(&in->t, v->u.dict.keys[k], x->net->version, &x->net->dims, axes, &n, x->run.err));
      for (int i = 0; i < n; i++) shape[axes[i]] = shared ? 1 : in->v->shape[axes[i]];
    }
  } else if (crn_v_is_seq(v)) {
    for (int i = 0; i < in->t.n; i++) {
      int64_t s;
      const crn_value *item = crn_v_at(v, (size_t)i);
      shape[i] = item && crn_v_to_int(item, &s) && s == 1 ? 1 : in->v->shape[i];
    }
  }
  return CRN_OK;
}

/* Layers with the same sources, rate and noise shape share their mask: the stream is named by what they share. */
static const char *dropout_stream(crn_exec *x, const crn_layer *l, const int64_t *shape, int rank) {
  crn_arena *a = &x->run.arena;
  const char *s = "";
  for (int i = 0; i < l->n_src && s; i++) s = crn_arena_printf(a, "%s%s,", s, l->src[i]->path);
  s = s ? crn_arena_printf(a, "%sdropout %g", s, l->common.dropout) : NULL;
  bool fixed = true;
  for (int i = 0; i < rank; i++) fixed &= shape[i] == 1 || l->out.n == 0 || shape[i] >= 0;
  if (s && l->body->loop && !fixed) s = crn_arena_printf(a, "%sstep %lld", s, (long long)crn_exec_step(x, l));
  return s ? s : "dropout";
}

static const crn_data *concat_sources(crn_exec *x, crn_layer *l) {
  crn_run *r = &x->run;
  if (l->n_src == 1) return crn_source(x, l, 0);
  const crn_data **d = CRN_ARENA_ARRAY(&r->arena, const crn_data *, l->n_src);
  const crn_tmpl **ts = CRN_ARENA_ARRAY(&r->arena, const crn_tmpl *, l->n_src);
  crn_tensor **v = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, l->n_src);
  int(*map)[CRN_MAX_RANK] = crn_arena_alloc(&r->arena, sizeof(*map) * (size_t)l->n_src);
  if (!d || !ts || !v || !map) return (void)crn_err_memory(r->err), NULL;
  crn_tmpl t;
  for (int i = 0; i < l->n_src; i++) {
    if (!(d[i] = crn_source(x, l, i))) return NULL;
    ts[i] = &d[i]->t;
  }
  if (crn_tmpl_unite(ts, l->n_src, x->net->version, true, &t, map, NULL, r->err) != CRN_OK) return NULL;
  int64_t size[CRN_MAX_RANK];
  for (int k = 0; k < t.n; k++) size[k] = 1;
  crn_data *out = crn_data_new(r, &t, NULL);
  if (!out) return NULL;
  for (int i = 0; i < l->n_src; i++) /* sizes and lengths of the united axes */
    for (int k = 0; k < d[i]->t.n; k++) {
      const int o = map[i][k];
      if (o < 0) continue;
      if (size[o] == 1) size[o] = d[i]->v->shape[k];
      if (!out->len[o]) out->len[o] = d[i]->len[k];
      if (d[i]->beam) out->beam = d[i]->beam;
    }
  for (int i = 0; i < l->n_src; i++) {
    int64_t shape[CRN_MAX_RANK];
    int perm[CRN_MAX_RANK], n = 0;
    bool same = true, sorted = true;
    for (int o = 0; o < t.n; o++) {
      shape[o] = 1;
      for (int k = 0; k < d[i]->t.n; k++)
        if (map[i][k] == o) {
          sorted &= k == n;
          perm[n++] = k;
          shape[o] = d[i]->v->shape[k];
        }
    }
    v[i] = crn_t_reshape(r, sorted ? d[i]->v : crn_transpose(r, d[i]->v, perm), t.n, shape);
    for (int o = 0; o < t.n; o++)
      if (o != t.feature_axis) {
        same &= shape[o] == size[o];
        shape[o] = size[o];
      }
    if (!same) v[i] = crn_broadcast_to(r, v[i], t.n, shape);
  }
  out->v = crn_concat(r, l->n_src, v, t.feature_axis);
  const crn_dim *fd = ts[0]->dims[ts[0]->feature_axis];
  for (int i = 1; i < l->n_src && fd; i++)
    fd = crn_dim_derive(&x->net->dims, "concat", fd, ts[i]->dims[ts[i]->feature_axis], 0, 0, 0, CRN_DIM_FEATURE,
                        fd->size < 0 ? -1 : fd->size + ts[i]->dims[ts[i]->feature_axis]->size);
  if (fd) out->t.dims[t.feature_axis] = fd;
  return out->v ? out : NULL;
}

static bool drops_out(const crn_exec *x, const crn_layer *l) {
  return l->common.dropout > 0 && (x->run.train || l->common.dropout_on_forward > 0);
}

static const crn_data *prepared_input(crn_exec *x, crn_layer *l, const crn_data *in) {
  crn_run *r = &x->run;
  if (!in) return NULL;
  if (l->common.in_dim && !in->t.sparse) {
    crn_data *c = crn_data_copy(r, in);
    if (!c) return NULL;
    int axis = crn_tmpl_find(&c->t, l->common.in_dim);
    for (int i = c->t.n; i-- > 0 && axis < 0;)
      if (l->common.in_dim->size >= 0 && c->t.dims[i]->size == l->common.in_dim->size) axis = i;
    if (axis >= 0) {
      c->t.feature_axis = axis;
      c->t.feature_explicit = true;
    }
    in = c;
  }
  const double p = l->common.dropout;
  if (!drops_out(x, l)) return in;
  int64_t shape[CRN_MAX_RANK];
  if (dropout_shape(x, l, in, shape) != CRN_OK) return NULL;
  crn_data *out = crn_data_copy(r, in);
  if (!out) return NULL;
  out->v = crn_dropout(r, dropout_stream(x, l, shape, in->t.n), in->v, p, shape);
  out->pre = NULL;
  out->pre_act = NULL;
  return out->v ? out : NULL;
}

const crn_data *crn_input(crn_exec *x, crn_layer *l) { return prepared_input(x, l, concat_sources(x, l)); }

const crn_data *crn_input_once(crn_exec *x, crn_layer *l) {
  const crn_data *in = concat_sources(x, l);
  if (in && l->n_src > 1) crn_exec_sources_done(x, l);
  return prepared_input(x, l, in);
}

int crn_input_parts(crn_exec *x, crn_layer *l, int most, const crn_data **parts) {
  if (l->n_src < 2 || l->n_src > most || l->common.in_dim || drops_out(x, l)) return 0;
  for (int i = 0; i < l->n_src; i++) {
    const crn_data *d = crn_source(x, l, i), *first = i ? parts[0] : d;
    if (!d || d->t.sparse || d->t.n != first->t.n || d->t.feature_axis != d->t.n - 1 ||
        d->t.feature_axis != first->t.feature_axis || d->v->dtype != first->v->dtype)
      return 0;
    for (int k = 0; k < d->t.feature_axis; k++)
      if (d->t.dims[k] != first->t.dims[k] || d->v->shape[k] != first->v->shape[k] || !d->len[k] != !first->len[k])
        return 0;
    parts[i] = d;
  }
  return l->n_src;
}

static bool is_trainable(const crn_net *net, const crn_param *p) {
  for (int i = 0; i < net->n_params; i++)
    if (net->params[i] == p) return net->trainable[i];
  return false;
}

crn_tensor *crn_param_find(crn_exec *x, crn_layer *l, const char *name) {
  crn_run *r = &x->run;
  crn_param *p = NULL;
  for (int i = 0; i < l->n_params; i++)
    if (!strcmp(l->params[i]->spec.name, name)) p = l->params[i];
  if (!p) { /* a layer's output may stand for it */
    crn_reuse *u = l->reuse;
    crn_layer *o = u ? u->output : NULL;
    for (int i = 0; u && i < u->n_map; i++)
      if (!strcmp(u->names[i], name) && u->outputs[i]) o = u->outputs[i];
    const crn_data *d = o ? crn_exec_slot(x, o)->out : NULL;
    return d ? d->v : NULL;
  }
  const bool wants =
      r->recording && crn_dtype_is_float(p->dtype) && !p->spec.custom_update && is_trainable(x->net, p);
  crn_tensor *t = crn_t_over(r, &p->st, p->dtype, p->spec.rank, p->spec.shape, wants);
  return t;
}

crn_tensor *crn_param_get(crn_exec *x, crn_layer *l, const char *name) {
  crn_tensor *t = crn_param_find(x, l, name);
  if (!t && !crn_run_failed(&x->run)) (void)crn_exec_fail(x, l, "parameter '%s' is missing", name);
  return t;
}

crn_status crn_sub_out(crn_exec *x, crn_layer *l, int i, const crn_data *value) {
  if (!value || !value->v) return crn_run_failed(&x->run) ? x->run.err->code : CRN_E_INTERNAL;
  crn_data *d = crn_data_copy(&x->run, value);
  if (!d) return x->run.err->code;
  CRN_TRY(pin_value(x, d));
  crn_exec_slot(x, l)->subs[i] = d;
  if (crn_exec_drops(x)) crn_data_hold(d);
  return CRN_OK;
}

const crn_data *crn_sub_of(crn_exec *x, crn_layer *l, crn_layer *of, int i) {
  const crn_slot *s = crn_exec_slot(x, of);
  if (crn_run_failed(&x->run)) return NULL;
  if (i < of->n_subs && s->subs && s->subs[i]) return crn_beam_move(x, s->subs[i], crn_exec_slot(x, l)->out->beam);
  (void)crn_exec_fail(x, l, "a further output of layer '%s' is not there", of->path);
  return NULL;
}

crn_status crn_exec_assign(crn_exec *x, crn_layer *l, const char *param, crn_tensor *value) {
  if (!value) return x->run.err->code;
  for (int i = 0; i < l->n_params; i++) {
    if (strcmp(l->params[i]->spec.name, param)) continue;
    if (x->n_assigns == x->cap_assigns) {
      int cap = x->cap_assigns ? 2 * x->cap_assigns : 16;
      crn_assign *p = crn_realloc(x->assigns, (size_t)cap * sizeof(*p));
      if (!p) return crn_err_memory(x->run.err);
      x->assigns = p;
      x->cap_assigns = cap;
    }
    crn_t_hold(value);
    x->assigns[x->n_assigns++] = (crn_assign){l->params[i], value};
    return CRN_OK;
  }
  return crn_exec_fail(x, l, "parameter '%s' is missing", param);
}

crn_tensor *crn_exec_assigned(const crn_exec *x, const crn_layer *l, const char *param) {
  for (int i = x->n_assigns; i-- > 0;)
    for (int k = 0; k < l->n_params; k++)
      if (l->params[k] == x->assigns[i].param && !strcmp(l->params[k]->spec.name, param)) return x->assigns[i].value;
  return NULL;
}

void crn_exec_apply_assigns(crn_exec *x) {
  for (int i = 0; i < x->n_assigns; i++) {
    crn_param *p = x->assigns[i].param;
    memcpy(p->st.data, crn_t_data(x->assigns[i].value), (size_t)p->size * crn_dtype_bytes(p->dtype));
    crn_weight_changed(&p->st);
  }
  x->n_assigns = 0;
}

int64_t crn_exec_step(const crn_exec *x, const crn_layer *l) {
  const crn_loop *loop = l->body->loop;
  return loop ? crn_exec_loop(x, loop)->step + crn_stream_before(x, loop->runner) : -1;
}

crn_status crn_step_ended(crn_exec *x, const crn_layer *l, const crn_data **out) {
  crn_run *r = &x->run;
  const crn_loop *loop = l->body->loop;
  const crn_loop_run *lr = loop ? crn_exec_loop(x, loop) : NULL;
  *out = NULL;
  if (!lr || !(loop->unknown_len ? lr->ended : lr->lens)) return CRN_OK;
  const crn_beam *beam = crn_exec_slot(x, l)->out->beam;
  if (loop->unknown_len) {
    *out = crn_beam_move(x, lr->ended, beam);
  } else { /* the frame after a sequence's last one still counts, unless the end is a frame of its own */
    crn_data *d = crn_data_copy(r, crn_beam_move(x, lr->lens, beam));
    if (!d) return r->err->code;
    const int64_t t = lr->step - (loop->include_eos ? 0 : 1);
    d->v = crn_binary(r, CRN_B_GREATER_EQUAL, crn_t_full(r, CRN_I32, 0, NULL, (double)t), d->v);
    d->t.dtype = CRN_BOOL;
    if (d->v) *out = d;
  }
  return *out ? CRN_OK : r->err->code;
}

const char *crn_random_name(crn_exec *x, const crn_layer *l, const char *what, bool fixed_in_loop) {
  const int64_t step = fixed_in_loop ? -1 : crn_exec_step(x, l);
  const char *s = step < 0 ? crn_arena_printf(&x->run.arena, "%s:%s", l->path, what)
                           : crn_arena_printf(&x->run.arena, "%s:%s:%lld", l->path, what, (long long)step);
  return s ? s : what;
}

static bool dim_of_data(crn_exec *x, const crn_layer *l, const crn_data *d, const crn_dim *dim, int64_t *size,
                        const crn_data **len) {
  const int axis = d && d->v ? crn_tmpl_find(&d->t, dim) : -1;
  if (axis < 0 || (d->len[axis] && !crn_t_data(d->len[axis]->v))) return false; /* none, or given up already */
  *size = d->v->shape[axis];
  const crn_slot *s = crn_exec_slot(x, l);
  *len = d->len[axis] && s->out ? crn_beam_move(x, d->len[axis], s->out->beam) : d->len[axis];
  return true;
}

bool crn_dim_in_run(crn_exec *x, const crn_layer *l, const crn_dim *d, int64_t *size, const crn_data **len) {
  const crn_body *root = &x->net->body;
  for (int i = 0; i < l->n_edges; i++)
    if (dim_of_data(x, l, crn_exec_slot(x, l->edges[i].to)->out, d, size, len)) return true;
  for (int i = 0; i < x->net->n_externs; i++)
    if (dim_of_data(x, l, x->feed[i], d, size, len)) return true;
  for (int i = 0; i < root->n; i++)
    if (root->order[i] != l && dim_of_data(x, l, crn_exec_slot(x, root->order[i])->out, d, size, len)) return true;
  return false;
}

int64_t crn_batch_size(crn_exec *x, const crn_layer *l) {
  const crn_slot *s = crn_exec_slot(x, l);
  const int64_t K = s->out && s->out->beam ? s->out->beam->K : 1;
  if (l->body->loop) return crn_exec_loop(x, l->body->loop)->B * K;
  for (int i = 0; i < l->n_edges; i++) {
    const crn_data *d = crn_exec_slot(x, l->edges[i].to)->out;
    if (!d || !d->v || crn_tmpl_batch_axis(&d->t) < 0) continue;
    return d->beam ? crn_data_n_seqs(d) / d->beam->K * K : crn_data_n_seqs(d) * K;
  }
  for (int i = 0; i < x->net->n_externs; i++)
    if (x->feed[i] && crn_tmpl_batch_axis(&x->feed[i]->t) >= 0) return crn_data_n_seqs(x->feed[i]) * K;
  return K;
}

/* ---- gradients ------------------------------------------------------------------------------------------------------ */

crn_status crn_exec_backward(crn_exec *x, crn_err *err) {
  if (!x->objective) return crn_fail(err, CRN_E_STATE, "there is no loss to train");
  if (!x->objective->needs_grad) return CRN_OK;
  crn_status st = crn_backward(&x->run, x->objective, NULL);
  if (st == CRN_OK) return CRN_OK;
  (void)crn_fail(err, st, "%s", crn_err_text(&x->err));
  crn_exec_report(x, err);
  return st;
}

void crn_exec_zero_grads(crn_exec *x) {
  for (int i = 0; i < x->net->n_params; i++) {
    crn_storage *st = &x->net->params[i]->st;
    if (st->grad) memset(st->grad, 0, st->bytes);
    st->rows = NULL;
  }
}

const void *crn_exec_grad(crn_exec *x, crn_param *p, crn_err *err) {
  crn_storage *st = &p->st;
  if (!st->grad && !st->rows) return NULL;
  if (!crn_storage_grad(&x->run, st)) return (void)crn_err_memory(err), NULL;
  const int64_t n = st->row_len;
  for (crn_grad_rows *g = st->rows; g; g = g->next)
    for (int64_t i = 0; i < g->n; i++)
      for (int64_t k = 0; k < n; k++) {
        if (p->dtype == CRN_F32) ((float *)st->grad)[g->indices[i] * n + k] += ((const float *)g->rows)[i * n + k];
        else ((double *)st->grad)[g->indices[i] * n + k] += ((const double *)g->rows)[i * n + k];
      }
  st->rows = NULL;
  return st->grad;
}
