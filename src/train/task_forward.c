/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks that run a network for a layer's values: forward (into an HDF file) and compute_priors (their average).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/hdf_writer.h"
#include "train/engine.h"
#include "train/search_text.h"

/* ---- forward --------------------------------------------------------------------------------------------------------
 */

typedef struct forwarder {
  crn_engine *e;
  crn_dataset *data;
  const crn_layer *layer;
  const char *path;
  bool override;
  crn_text_source text;   /* for the names of its labels */
  crn_hdf_writer *writer; /* made with the first batch */
} forwarder;

static crn_status open_writer(forwarder *f, const crn_data *d, crn_err *err) {
  const int64_t dim = crn_tmpl_dim(&d->t);
  crn_hdf_layout o = {.type = crn_ntype_by_name(crn_dtype_name(d->v->dtype)),
                      .dim = dim < 0 ? 0 : dim,
                      .has_feature_axis = d->t.feature_axis >= 0};
  if (o.has_feature_axis) o.dim = d->v->shape[d->v->rank - 1];
  o.n_axes = d->v->rank - 1 - o.has_feature_axis;
  const crn_vocab *v = f->text.vocab ? f->text.vocab : f->text.target_vocab;
  if (v && crn_vocab_size(v) == o.dim) {
    o.labels = crn_vocab_labels(v);
    o.n_labels = (size_t)crn_vocab_size(v);
  }
  return crn_hdf_writer_new(f->path, &o, f->override, &f->writer, err);
}

static crn_status forward_batch(void *user, crn_engine *e, const crn_batch *b, crn_err *err) {
  forwarder *f = user;
  crn_exec *x = e->eval_exec;
  const crn_data *d;
  const int32_t *lens[CRN_MAX_RANK] = {NULL};
  CRN_TRY(crn_engine_output(x, f->layer, b, &d, err));
  if (!f->writer) CRN_TRY(open_writer(f, d, err));
  const int n_axes = d->v->rank - 1 - (d->t.feature_axis >= 0);
  for (int i = 0; i < n_axes; i++) {
    const crn_tensor *t = crn_data_lens(&x->run, d, i + 1);
    if (!t)
      return crn_fail(err, CRN_E_NOT_IMPLEMENTED,
                      "layer '%s': not implemented: an axis whose lengths depend on more than the sequence",
                      f->layer->path);
    lens[i] = crn_t_i32(t);
  }
  const int64_t K = d->beam ? d->beam->K : 1, rows = b->n_seqs * K;
  const char **tags = crn_malloc(sizeof *tags * (size_t)(rows + 1));
  if (!tags) return crn_err_memory(err);
  for (int64_t i = 0; i < rows; i++) tags[i] = b->tags[i / K];
  crn_status st = crn_hdf_writer_add_batch(f->writer, d->v->shape, crn_t_data(d->v), lens, tags, err);
  crn_free(tags);
  return st;
}

static crn_status read_output_path(crn_engine *e, const char *otherwise, bool override, const char **path,
                                   crn_err *err) {
  const char *file;
  CRN_TRY(crn_config_str(e->config, "output_file", otherwise, &file, err));
  if (!file) return crn_fail(err, CRN_E_CONFIG, "%s: the task needs 'output_file'", crn_config_file(e->config));
  return crn_engine_output_file(e, "output_file", file, override, path, err);
}

static crn_status prepare_forward(forwarder *f, crn_err *err) {
  crn_engine *e = f->e;
  const char *name;
  bool search;
  CRN_TRY(crn_config_str(e->config, "forward_output_layer", NULL, &name, err));
  CRN_TRY(crn_config_bool(e->config, "forward_use_search", false, &search, err));
  CRN_TRY(crn_config_bool(e->config, "forward_override_hdf_output", false, &f->override, err));
  if (crn_v_get(e->values, "output_file"))
    CRN_TRY(read_output_path(e, NULL, f->override, &f->path, err)); /* before any work */
  CRN_TRY(crn_engine_dataset(e, "eval", &f->data, err));
  if (!f->data)
    return crn_fail(err, CRN_E_CONFIG, "%s: task forward needs the dataset 'eval'", crn_config_file(e->config));
  CRN_TRY(crn_engine_extern_data(e, f->data, err));
  if (name) CRN_TRY(crn_engine_want_layer(e, name, err));
  CRN_TRY(crn_engine_eval_net(e, (crn_net_mode){.search = search}, err));
  CRN_TRY(crn_engine_output_layer(e->eval_net, name, "forward_output_layer", &f->layer, err));
  CRN_TRY(crn_engine_load_for_task(e, e->eval_net, err));
  crn_store_read_only(e->store);
  const char *otherwise = crn_arena_printf(&e->arena, "dump-fwd-epoch-%lld.hdf", (long long)e->epoch);
  if (!otherwise) return crn_err_memory(err);
  CRN_TRY(read_output_path(e, otherwise, f->override, &f->path, err));
  CRN_TRY(crn_text_source_init(e, e->eval_net, f->layer, f->data, &f->text, err));
  crn_exec_keep(e->eval_exec, f->layer);
  return CRN_OK;
}

static crn_status run_forward(forwarder *f, crn_err *err) {
  crn_engine *e = f->e;
  char label[64];
  CRN_TRY(prepare_forward(f, err));
  CRN_TRY(crn_dataset_begin_epoch(f->data, e->epoch, NULL, err));
  CRN_TRY(crn_engine_check_data(e->eval_net, f->data, err));
  (void)snprintf(label, sizeof label, "epoch %lld forward", (long long)e->epoch);
  crn_logf(&e->log, 3, "Forwarding layer '%s' to '%s'.", f->layer->path, f->path);
  crn_pass p = {.exec = e->eval_exec,
                .net = e->eval_net,
                .dataset = f->data,
                .use = CRN_BATCH_FORWARD,
                .label = label,
                .each = forward_batch,
                .user = f};
  CRN_TRY(crn_engine_pass(e, &p, err));
  if (!f->writer) return crn_fail(err, CRN_E_DATA, "the dataset 'eval' has no sequence");
  crn_hdf_writer *w = f->writer;
  f->writer = NULL;
  return crn_hdf_writer_close(w, err);
}

crn_status crn_task_forward(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err) {
  crn_engine e;
  forwarder f = {.e = &e};
  crn_status st = crn_engine_init(&e, config, log, hooks, err);
  if (st == CRN_OK) st = run_forward(&f, err);
  crn_hdf_writer_abandon(f.writer);
  crn_text_source_free(&f.text);
  crn_engine_deinit(&e);
  crn_dataset_free(f.data);
  return st;
}

/* ---- compute_priors -------------------------------------------------------------------------------------------------
 */

typedef struct priors {
  const crn_layer *layer;
  double *sums;
  int64_t dim, n_frames;
} priors;

static crn_status count_labels(priors *p, const crn_tensor *t, crn_err *err) {
  for (int64_t i = 0; i < crn_t_size(t); i++) {
    const int64_t label = (int64_t)crn_t_get(t, i);
    if (label < 0 || label >= p->dim)
      return crn_fail(err, CRN_E_DATA, "layer '%s': label %lld is outside of [0, %lld)", p->layer->path,
                      (long long)label, (long long)p->dim);
    p->sums[label] += 1;
  }
  p->n_frames += crn_t_size(t);
  return CRN_OK;
}

static crn_status priors_batch(void *user, crn_engine *e, const crn_batch *b, crn_err *err) {
  priors *p = user;
  crn_exec *x = e->eval_exec;
  const crn_data *d = crn_exec_value(x, p->layer);
  (void)b;
  if (!d) return crn_fail(err, CRN_E_RUNTIME, "layer '%s' gave no value", p->layer->path);
  const crn_tensor *frames = crn_data_flat_frames(&x->run, d);
  if (!frames) return crn_fail(err, x->err.code, "%s", crn_err_text(&x->err));
  if (d->t.sparse) return count_labels(p, frames, err);
  if (frames->rank != 2 || frames->shape[1] != p->dim)
    return crn_fail(err, CRN_E_RUNTIME, "layer '%s': priors need frames of %lld posteriors", p->layer->path,
                    (long long)p->dim);
  for (int64_t i = 0; i < frames->shape[0]; i++)
    for (int64_t k = 0; k < p->dim; k++) p->sums[k] += crn_t_get(frames, i * p->dim + k);
  p->n_frames += frames->shape[0];
  return CRN_OK;
}

static crn_status run_priors(crn_engine *e, crn_dataset **data, crn_err *err) {
  priors p = {0};
  const char *path, *name;
  CRN_TRY(read_output_path(e, NULL, false, &path, err));
  CRN_TRY(crn_config_str(e->config, "forward_output_layer", NULL, &name, err));
  CRN_TRY(crn_engine_dataset(e, "train", data, err));
  if (!*data)
    return crn_fail(err, CRN_E_CONFIG, "%s: task compute_priors needs the dataset 'train'", crn_config_file(e->config));
  CRN_TRY(crn_engine_extern_data(e, *data, err));
  CRN_TRY(crn_engine_eval_net(e, (crn_net_mode){0}, err));
  CRN_TRY(crn_engine_output_layer(e->eval_net, name, "forward_output_layer", &p.layer, err));
  CRN_TRY(crn_engine_load_for_task(e, e->eval_net, err));
  crn_store_read_only(e->store);
  p.dim = crn_tmpl_dim(&p.layer->out);
  if (p.dim < 1)
    return crn_fail(err, CRN_E_CONFIG, "layer '%s': priors need an output with a known number of labels",
                    p.layer->path);
  if (!(p.sums = CRN_ARENA_ARRAY(&e->arena, double, p.dim))) return crn_err_memory(err);
  crn_exec_keep(e->eval_exec, p.layer);
  CRN_TRY(crn_dataset_begin_epoch(*data, e->epoch, NULL, err));
  CRN_TRY(crn_engine_check_data(e->eval_net, *data, err));
  crn_pass pass = {.exec = e->eval_exec,
                   .net = e->eval_net,
                   .dataset = *data,
                   .use = CRN_BATCH_EVAL,
                   .label = "compute priors",
                   .each = priors_batch,
                   .user = &p};
  CRN_TRY(crn_engine_pass(e, &pass, err));
  if (p.n_frames == 0) return crn_fail(err, CRN_E_DATA, "the dataset 'train' has no frames");
  crn_str text = {0};
  for (int64_t k = 0; k < p.dim; k++) crn_str_addf(&text, "%.18e\n", log(p.sums[k] / (double)p.n_frames));
  crn_status st = crn_text_write(path, &text, err);
  crn_str_free(&text);
  if (st == CRN_OK)
    crn_logf(&e->log, 1, "Saved log priors of layer '%s' over %lld frames to '%s'.", p.layer->path,
             (long long)p.n_frames, path);
  return st;
}

crn_status crn_task_compute_priors(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks,
                                   crn_err *err) {
  crn_engine e;
  crn_dataset *data = NULL;
  crn_status st = crn_engine_init(&e, config, log, hooks, err);
  if (st == CRN_OK) st = run_priors(&e, &data, err);
  crn_engine_deinit(&e);
  crn_dataset_free(data);
  return st;
}
