/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of layers, as the public interface gives them.
 */
#include <string.h>

#include "api/api.h"

/* The config has a layer of that path, which was not built. */
static bool in_config(const crn_value *config, const char *path) {
  const crn_value *net = crn_v_get(config, "network"), *layer = NULL;
  while (*path) {
    char name[256];
    const size_t n = strcspn(path, "/");
    if (n >= sizeof(name) || !crn_v_is_dict(net)) return false;
    memcpy(name, path, n);
    name[n] = 0;
    layer = crn_v_get(net, name);
    if (!crn_v_is_dict(layer)) return false;
    net = crn_v_get(layer, "unit");
    if (!crn_v_is_dict(net)) net = crn_v_get(layer, "subnetwork");
    path += path[n] ? n + 1 : n;
  }
  return layer != NULL;
}

static crn_status unknown_layer(const crn_model *model, const char *path, crn_err *err) {
  const crn_net *net = model->net;
  for (int i = 0; i < net->n_layers; i++) {
    if (strcmp(net->layers[i]->path, path) != 0) continue;
    if (net->layers[i]->body->loop)
      return crn_fail(err, CRN_E_CONFIG,
                      "layer '%s' runs inside of a loop and can't be read step by step; let a layer outside "
                      "read it (\"from\": \"%s\") and ask for that one",
                      path, path);
    return crn_fail(err, CRN_E_CONFIG, "layer '%s' is not run: nothing that the network gives depends on it", path);
  }
  if (in_config(model->engine.values, path))
    return crn_fail(err, CRN_E_CONFIG,
                    "layer '%s' is not run: nothing that the network gives depends on it; \"is_output_layer\": True "
                    "in its dict has it run",
                    path);
  const char **names = crn_calloc((size_t)net->n_layers + 1, sizeof(*names));
  size_t n = 0;
  for (int i = 0; names && i < net->n_layers; i++) {
    const crn_layer *l = net->layers[i];
    if (l->live && !l->body->loop && !(l->desc->flags & CRN_L_INTERNAL)) names[n++] = l->path;
  }
  const char *near = names ? crn_nearest(path, names, n) : NULL;
  const crn_status st = crn_fail(err, CRN_E_CONFIG, "unknown layer '%s'", path);
  if (near) crn_err_append(err, " (did you mean '%s'?)", near);
  crn_free(names);
  return st;
}

crn_status crn_api_layer(const crn_session *s, const char *path, crn_layer **out, crn_err *err) {
  if (!path || !*path) {
    *out = s->output;
    return s->output
               ? CRN_OK
               : crn_fail(err, CRN_E_CONFIG, "the network has no layer 'output', and not exactly one output layer");
  }
  *out = crn_net_find(s->model->net, path);
  return *out ? CRN_OK : unknown_layer(s->model, path, err);
}

static crn_status want(crn_session *s, const char *path, crn_err *err) {
  crn_layer *l;
  CRN_TRY(crn_api_layer(s, path, &l, err));
  s->wanted[l->index] = true;
  crn_exec_keep(s->exec, l);
  return CRN_OK;
}

crn_status crn_session_want(crn_session *session, const char *layer, crn_message *message) {
  if (!session) return crn_api_null("the session", message);
  crn_err err = {0};
  return crn_api_return(want(session, layer, &err), &err, message);
}

/* The value in one of the public types: types that it lacks become int32 or float32, which hold them (float64 rounds).
 */
static crn_tensor *public_value(crn_run *r, crn_tensor *v, crn_type *type) {
  switch (v->dtype) {
  case CRN_F32:
    *type = CRN_FLOAT32;
    return v;
  case CRN_I32:
    *type = CRN_INT32;
    return v;
  case CRN_I64:
    *type = CRN_INT64;
    return v;
  case CRN_U8:
    *type = CRN_UINT8;
    return v;
  case CRN_BOOL:
    *type = CRN_BOOLEAN;
    return v;
  case CRN_F64:
    *type = CRN_FLOAT32;
    return crn_cast(r, v, CRN_F32);
  case CRN_I8:
  case CRN_I16:
  case CRN_U16:
    *type = CRN_INT32;
    return crn_cast(r, v, CRN_I32);
  default:
    return NULL;
  }
}

static crn_status fill(crn_session *s, const crn_layer *l, const crn_data *d, crn_output *o, crn_err *err) {
  crn_run *r = &s->exec->run;
  memset(o, 0, sizeof(*o));
  crn_tensor *v = public_value(r, d->v, &o->type);
  if (!v && !crn_run_failed(r))
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "layer '%s': not implemented: reading values of type %s", l->path,
                    crn_dtype_name(d->v->dtype));
  o->rank = d->v->rank;
  memcpy(o->shape, d->v->shape, sizeof(o->shape));
  o->batch_axis = crn_tmpl_batch_axis(&d->t);
  o->time_axis = d->t.time_axis;
  o->feature_axis = d->t.feature_axis;
  if (v) o->data = crn_t_data(v);
  if (o->time_axis >= 0 && d->len[o->time_axis]) {
    const crn_tensor *lens = crn_data_lens(r, d, o->time_axis);
    if (lens) o->lengths = crn_t_i32(lens);
  }
  o->beam = d->beam ? d->beam->K : 1;
  const crn_tensor *scores = d->beam ? d->beam->scores : d->decided_score;
  if (scores && scores->dtype == CRN_F32) o->scores = crn_t_f32(scores);
  if (!crn_run_failed(r)) return CRN_OK;
  const crn_status st = crn_fail(err, r->err->code, "layer '%s': %s", l->path, crn_err_text(r->err));
  crn_err_clear(r->err);
  return st;
}

static crn_status output(crn_session *s, const char *path, crn_output *o, crn_err *err) {
  crn_layer *l;
  CRN_TRY(crn_api_layer(s, path, &l, err));
  if (!s->wanted[l->index])
    return crn_fail(err, CRN_E_STATE, "layer '%s' was not asked for: call crn_session_want before the run", l->path);
  if (!s->ran) return crn_fail(err, CRN_E_STATE, "there is no finished run to read from");
  const crn_data *d = crn_exec_value(s->exec, l);
  if (!d) return crn_fail(err, CRN_E_STATE, "layer '%s' has no value: crn_session_want came after the run", l->path);
  return fill(s, l, d, o, err);
}

crn_status crn_session_output(crn_session *session, const char *layer, crn_output *output_, crn_message *message) {
  if (!session || !output_) return crn_api_null(session ? "the place for the output" : "the session", message);
  crn_err err = {0};
  return crn_api_return(output(session, layer, output_, &err), &err, message);
}
