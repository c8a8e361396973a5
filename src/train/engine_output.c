/* SPDX-License-Identifier: Apache-2.0
 *
 * What a task gives out: its file, checked before the work; layers whose values it takes: having them built, finding
 * them, and bringing their values into the order batch, time, other axes, feature.
 */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "train/engine.h"

crn_status crn_engine_prepare_file(const crn_engine *e, const char *key, const char *path, bool may_exist,
                                   crn_err *err) {
  if (!may_exist && access(path, F_OK) == 0)
    return crn_config_fail(e->config, key, err, "'%s' exists already", path);
  if (crn_file_prepare(path, err) == CRN_OK) return CRN_OK;
  return crn_err_where(err, "%s: key '%s'", crn_config_file(e->config), key);
}

crn_status crn_engine_output_file(crn_engine *e, const char *key, const char *file, bool may_exist, const char **path,
                                  crn_err *err) {
  CRN_TRY(crn_config_output_path(e->config, file, &e->arena, path, err));
  return crn_engine_prepare_file(e, key, *path, may_exist, err);
}

crn_status crn_engine_prepare_model(crn_engine *e, crn_err *err) {
  const char *path = e->model ? crn_arena_printf(&e->arena, "%s.index", e->model) : NULL;
  if (e->model && !path) return crn_err_memory(err);
  return path && !e->dry_run ? crn_engine_prepare_file(e, "model", path, true, err) : CRN_OK;
}

crn_status crn_engine_want_layer(crn_engine *e, const char *name, crn_err *err) {
  const crn_value *layer = crn_v_get(crn_v_get(e->values, "network"), name);
  if (!crn_v_is_dict(layer)) return CRN_OK;
  crn_arena *a = &e->arena;
  crn_value *copy = crn_v_copy(a, e->values);
  crn_value *dict = crn_v_get(crn_v_get(copy, "network"), name);
  if (!dict || !crn_v_put(a, dict, "is_output_layer", crn_v_bool(a, true))) return crn_err_memory(err);
  e->values = copy;
  return CRN_OK;
}

crn_status crn_engine_output_layer(crn_net *net, const char *name, const char *key, const crn_layer **out,
                                   crn_err *err) {
  *out = name ? crn_net_find(net, name) : crn_net_default_output(net);
  if (*out) return CRN_OK;
  const char *names[200];
  size_t n = 0;
  for (int i = 0; i < net->n_layers && n < 200; i++)
    if (!(net->layers[i]->desc->flags & CRN_L_INTERNAL)) names[n++] = net->layers[i]->path;
  if (name)
    crn_fail(err, CRN_E_CONFIG, "config key '%s': the network has no layer '%s'", key, name);
  else
    crn_fail(err, CRN_E_CONFIG,
             "config key '%s': name a layer, the network has no \"output\" and not one single output layer", key);
  const char *near = name ? crn_nearest(name, names, n) : NULL;
  if (near) crn_err_append(err, " (did you mean '%s'?)", near);
  crn_err_append(err, "; it has:");
  for (size_t i = 0; i < n && i < 40; i++) crn_err_append(err, " '%s'", names[i]);
  return CRN_E_CONFIG;
}

crn_status crn_engine_output(crn_exec *x, const crn_layer *l, const crn_batch *b, const crn_data **out, crn_err *err) {
  const crn_data *d = crn_exec_value(x, l);
  if (!d) return crn_fail(err, CRN_E_RUNTIME, "layer '%s' gave no value", l->path);
  const int batch = crn_tmpl_batch_axis(&d->t), time = d->t.time_axis, feature = d->t.feature_axis;
  if (batch < 0) return crn_fail(err, CRN_E_RUNTIME, "layer '%s': its output has no batch axis", l->path);
  int perm[CRN_MAX_RANK], n = 0;
  perm[n++] = batch;
  if (time >= 0 && time != batch && time != feature) perm[n++] = time;
  for (int i = 0; i < d->t.n; i++)
    if (i != batch && i != time && i != feature) perm[n++] = i;
  if (feature >= 0 && feature != batch) perm[n++] = feature;
  d = crn_data_permute(&x->run, d, perm);
  if (!d) return crn_fail(err, x->err.code, "%s", crn_err_text(&x->err));
  const int64_t K = d->beam ? d->beam->K : 1;
  if (d->v->shape[0] != b->n_seqs * K)
    return crn_fail(err, CRN_E_RUNTIME, "layer '%s': %lld rows for %lld sequences with beam %lld", l->path,
                    (long long)d->v->shape[0], (long long)b->n_seqs, (long long)K);
  *out = d;
  return CRN_OK;
}
