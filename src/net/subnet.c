/* SPDX-License-Identifier: Apache-2.0
 *
 * subnetwork: a net inside a layer. Its layers run in the same order as all others; the layer itself passes the inner
 * "output" on.
 */
#include <stdio.h>
#include <string.h>

#include "net/build.h"
#include "net/exec.h"
#include "net/wrappers.h"

typedef struct subnet_cfg {
  const crn_value *subnetwork;
  int concat_sources;
  const crn_value *load_on_init;
  double dropout;
  const crn_value *dropout_noise_shape;
} subnet_cfg;

static const crn_opt subnet_opts[] = {
    {.name = "subnetwork", .type = CRN_OPT_VALUE, .offset = offsetof(subnet_cfg, subnetwork), .doc = "net dict"},
    {.name = "concat_sources", .type = CRN_OPT_BOOL, .offset = offsetof(subnet_cfg, concat_sources), .dflt = "True", .doc = "several sources are one \"data\"; else data:0, data:1, …"},
    {.name = "load_on_init", .type = CRN_OPT_VALUE, .offset = offsetof(subnet_cfg, load_on_init), .dflt = "None", .doc = "checkpoint of the inner parameters"},
    {.name = "dropout", .type = CRN_OPT_FLOAT, .offset = offsetof(subnet_cfg, dropout), .dflt = "0", .doc = "dropout rate of the sources"},
    {.name = "dropout_noise_shape", .type = CRN_OPT_VALUE, .offset = offsetof(subnet_cfg, dropout_noise_shape), .dflt = "None", .doc = "which axes share the mask"},
    CRN_OPT_END};

static crn_status subnet_make(crn_build *b, crn_layer *l) {
  const subnet_cfg *c = l->cfg;
  if (!crn_v_is_dict(c->subnetwork))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'subnetwork': expected a dict, got %s", crn_v_kind_name(c->subnetwork));
  crn_scope *s = crn_scope_new(b, CRN_SCOPE_SUB, l->scope, l, c->subnetwork);
  if (!s) return crn_err_memory(b->err);
  s->param_path = crn_layer_param_path(b, l);
  l->inner = s;
  return s->param_path ? CRN_OK : crn_err_memory(b->err);
}

/* "data" inside: the sources as one layer. */
static crn_status subnet_data(crn_build *b, crn_layer *l, crn_scope *s) {
  if (l->n_src == 0) return CRN_OK;
  const subnet_cfg *c = l->cfg;
  const double p = c->dropout;
  if (l->n_src == 1 && p <= 0) {
    s->data = l->src[0];
    return crn_map_set(&s->layers, "data", s->data) == CRN_OK ? CRN_OK : crn_err_memory(b->err);
  }
  crn_layer *d;
  CRN_TRY(crn_wrap_sources(b, s, l->body, "data", l->src, l->n_src, &d));
  d->common.dropout = p;
  d->common.dropout_noise_shape = c->dropout_noise_shape;
  s->data = d;
  return CRN_OK;
}

static crn_status numbered_sources(crn_build *b, crn_layer *l, crn_scope *s) {
  for (int i = 0; i < l->n_src; i++) {
    char name[32];
    (void)snprintf(name, sizeof(name), "data:%d", i);
    if (crn_map_set(&s->layers, name, l->src[i]) != CRN_OK) return crn_err_memory(b->err);
  }
  return CRN_OK;
}

/* Layers with losses, output layers: built too. */
crn_status crn_subnet_roots(crn_build *b, crn_scope *s) {
  const crn_value *d = s->dict;
  for (size_t i = 0; i < d->u.dict.n; i++) {
    const char *name = crn_v_cstr(d->u.dict.keys[i]);
    const crn_value *dict = d->u.dict.vals[i];
    if (!name || name[0] == '#' || !strcmp(name, "output")) continue;
    if (crn_v_truth(crn_v_get(dict, "only_on_search")) && !s->search) continue;
    if (crn_v_truth(crn_v_get(dict, "only_on_eval")) && !s->eval) continue;
    if (crn_v_is_none(crn_v_get(dict, "loss")) && !crn_v_truth(crn_v_get(dict, "is_output_layer"))) continue;
    crn_layer *x;
    CRN_TRY(crn_scope_get(b, s, name, s->owner, NULL, &x));
    CRN_TRY(crn_build_add_root(b, x));
  }
  return CRN_OK;
}

static crn_status subnet_refs(crn_build *b, crn_layer *l) {
  const subnet_cfg *c = l->cfg;
  crn_scope *s = l->inner;
  if (c->load_on_init && !crn_v_is_none(c->load_on_init))
    crn_warnf(b->net->log, "layer '%s' (subnetwork): 'load_on_init' is not done while building", l->path);
  CRN_TRY(c->concat_sources ? subnet_data(b, l, s) : numbered_sources(b, l, s));
  crn_layer *out;
  CRN_TRY(crn_scope_get(b, s, "output", l, NULL, &out));
  CRN_TRY(crn_layer_add_edge(b, l, out, CRN_EDGE_DATA, "subnetwork"));
  l->priv = out;
  return crn_subnet_roots(b, s);
}

static crn_status subnet_infer(crn_build *b, crn_layer *l) {
  const crn_layer *out = l->priv;
  (void)b;
  l->out = out->out;
  l->out_known = out->out_known;
  return CRN_OK;
}

static crn_status subnet_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *d = crn_value_of(x, l, l->priv);
  if (!d) return x->run.err->code;
  *out = *d;
  return CRN_OK;
}

const crn_layer_desc crn_family_net[] = {
    {.name = "subnetwork", .doc = "Runs a net inside a layer.", .opts = subnet_opts, .cfg_size = sizeof(subnet_cfg),
     .flags = CRN_L_MANY_INPUTS | CRN_L_STREAMS, .make = subnet_make, .refs = subnet_refs, .infer = subnet_infer, .forward = subnet_forward},
    {.name = NULL}};
