/* SPDX-License-Identifier: Apache-2.0
 *
 * Scopes: which layer a name means (SPEC 2.4), and the making of layer objects.
 *
 * Looking a name up makes at most the object of the layer it names; what that layer refers to is looked up later from a
 * list (crn_build_refs), so that chains of any length need no recursion.
 */
#include <string.h>

#include "layer/all.h"
#include "layer/rec.h"
#include "net/build.h"
#include "net/wrappers.h"

crn_scope *crn_scope_new(crn_build *b, crn_scope_kind kind, crn_scope *parent, crn_layer *owner,
                         const crn_value *dict) {
  crn_arena *a = &b->net->arena;
  crn_scope *s = CRN_ARENA_NEW(a, crn_scope);
  if (!s) return NULL;
  s->kind = kind;
  s->parent = parent;
  s->net = b->net;
  s->owner = owner;
  s->dict = dict;
  if (parent) {
    s->search = parent->search;
    s->train = parent->train;
    s->eval = parent->eval;
    s->trainable = parent->trainable && (!owner || owner->common.trainable != 0);
    s->body = parent->body;
    s->loop = kind == CRN_SCOPE_EXTRA ? NULL : parent->loop;
    s->extra_prefix = parent->extra_prefix;
    s->mask_owner = parent->mask_owner;
  }
  s->path = owner ? crn_arena_printf(a, "%s/", owner->path) : "";
  s->param_path = "";
  crn_net *net = b->net;
  if (net->n_scopes == net->cap_scopes) {
    int cap = net->cap_scopes ? 2 * net->cap_scopes : 16;
    crn_scope **p = crn_realloc(net->scopes, (size_t)cap * sizeof(*p));
    if (!p) return NULL;
    net->scopes = p;
    net->cap_scopes = cap;
  }
  net->scopes[net->n_scopes++] = s;
  return s->path ? s : NULL;
}

/* ---- making layers --------------------------------------------------------------------------------------------------
 */

static crn_status layer_register(crn_build *b, crn_scope *scope, crn_layer *l) {
  crn_net *net = b->net;
  if (net->n_layers == net->cap_layers) {
    int cap = net->cap_layers ? 2 * net->cap_layers : 64;
    crn_layer **p = crn_realloc(net->layers, (size_t)cap * sizeof(*p));
    if (!p) return crn_err_memory(b->err);
    net->layers = p;
    net->cap_layers = cap;
  }
  l->index = net->n_layers;
  net->layers[net->n_layers++] = l;
  if (crn_map_set(&scope->layers, l->name, l) != CRN_OK) return crn_err_memory(b->err);
  if (b->n_pending == b->cap_pending) {
    int cap = b->cap_pending ? 2 * b->cap_pending : 64;
    crn_layer **p = crn_realloc(b->pending, (size_t)cap * sizeof(*p));
    if (!p) return crn_err_memory(b->err);
    b->pending = p;
    b->cap_pending = cap;
  }
  b->pending[b->n_pending++] = l;
  return CRN_OK;
}

static crn_layer *layer_object(crn_build *b, crn_scope *scope, crn_body *body, const char *name) {
  crn_arena *a = &b->net->arena;
  crn_layer *l = CRN_ARENA_NEW(a, crn_layer);
  if (!l) return NULL;
  l->name = crn_arena_strdup(a, name);
  if (!name[0] && scope->owner) l->path = scope->owner->path; /* the unit of a masked_computation, a branch of cond */
  else l->path = scope->kind == CRN_SCOPE_EXTRA ? crn_arena_printf(a, "%s:%s", scope->extra_prefix, name)
                                           : crn_arena_printf(a, "%s%s", scope->path, name);
  l->scope = scope;
  l->body = body;
  return l->name && l->path ? l : NULL;
}

crn_status crn_layer_class_of(crn_build *b, const crn_layer *l, const crn_value *dict, const crn_layer_desc **out) {
  const crn_value *cls = crn_v_get(dict, "class");
  if (!cls) return crn_layer_fail(b, l, CRN_E_CONFIG, "no 'class' is given");
  if (!crn_v_is_str(cls)) {
    crn_str s = {0};
    crn_v_repr(cls, &s, 60);
    crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "'class' must be a string, got %s", crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  *out = crn_layer_class_find(crn_v_cstr(cls));
  if (*out && !((*out)->flags & CRN_L_INTERNAL)) return CRN_OK;
  const char *names[512];
  size_t n = 0;
  for (size_t i = 0; n < 512; i++) {
    const crn_layer_desc *d = crn_layer_class_at(i);
    if (!d) break;
    if (!(d->flags & CRN_L_INTERNAL)) names[n++] = d->name;
  }
  if (crn_unit_named(crn_v_cstr(cls), NULL))
    return crn_layer_fail(
        b, l, CRN_E_CONFIG,
        "unknown layer class '%s'; it is a unit of class 'rec': {\"class\": \"rec\", \"unit\": \"%s\"}",
        crn_v_cstr(cls), crn_v_cstr(cls));
  const char *near = crn_nearest(crn_v_cstr(cls), names, n);
  return crn_layer_fail(b, l, CRN_E_CONFIG, "unknown layer class '%s'%s%s%s", crn_v_cstr(cls),
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

crn_status crn_layer_class_there(crn_build *b, const crn_layer *l) {
  if (l->desc->forward) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: layer class '%s'", l->desc->name);
}

crn_status crn_layer_make(crn_build *b, crn_scope *scope, const char *name, const crn_value *dict, crn_layer **out) {
  crn_layer *l = layer_object(b, scope, scope->body, name);
  if (!l) return crn_err_memory(b->err);
  l->dict = dict;
  if (!crn_v_is_dict(dict))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "a layer must be a dict, got %s", crn_v_kind_name(dict));
  CRN_TRY(crn_layer_class_of(b, l, dict, &l->desc));
  CRN_TRY(crn_layer_class_there(b, l));
  CRN_TRY(crn_build_recover(b, l, crn_options_parse(b, l)));
  CRN_TRY(layer_register(b, scope, l));
  *out = l;
  if (l->failed) return CRN_OK; /* what it refers to may have faults of its own */
  const crn_status st = l->desc->make ? l->desc->make(b, l) : CRN_OK;
  l->failed = st != CRN_OK;
  return st;
}

crn_status crn_layer_make_internal(crn_build *b, crn_scope *scope, crn_body *body, const char *name,
                                   const crn_layer_desc *desc, crn_layer *to, crn_edge_kind edge, crn_layer **out) {
  crn_layer *l = layer_object(b, scope, body, name);
  if (!l) return crn_err_memory(b->err);
  l->desc = desc;
  l->common.n_out = CRN_UNSET;
  l->common.trainable = 1;
  CRN_TRY(layer_register(b, scope, l));
  if (to) {
    l->src = CRN_ARENA_NEW(&b->net->arena, crn_layer *);
    if (!l->src) return crn_err_memory(b->err);
    l->src[0] = to;
    l->n_src = 1;
    CRN_TRY(crn_layer_add_edge(b, l, to, edge, "from"));
  }
  *out = l;
  return CRN_OK;
}

crn_status crn_layer_add_edge(crn_build *b, crn_layer *l, crn_layer *to, crn_edge_kind kind, const char *option) {
  if (l->n_edges == l->cap_edges) {
    int cap = l->cap_edges ? 2 * l->cap_edges : 4;
    crn_edge *e = CRN_ARENA_ARRAY(&b->net->arena, crn_edge, cap);
    if (!e) return crn_err_memory(b->err);
    if (l->n_edges) memcpy(e, l->edges, (size_t)l->n_edges * sizeof(*e));
    l->edges = e;
    l->cap_edges = cap;
  }
  l->edges[l->n_edges++] = (crn_edge){to, kind, option};
  return CRN_OK;
}

/* ---- names ----------------------------------------------------------------------------------------------------------
 */

static crn_status no_such_layer(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker,
                                const char *option) {
  const crn_value *d = scope->dict;
  size_t n = crn_v_is_dict(d) ? d->u.dict.n : 0, k = 0;
  const char **names = CRN_ARENA_ARRAY(&b->net->arena, const char *, n + (size_t)b->net->n_externs + 2);
  if (!names) return crn_err_memory(b->err);
  for (size_t i = 0; i < n; i++)
    if (crn_v_cstr(d->u.dict.keys[i]) && *crn_v_cstr(d->u.dict.keys[i]) != '#')
      names[k++] = crn_v_cstr(d->u.dict.keys[i]);
  names[k++] = "data";
  const char *near = crn_nearest(name, names, k);
  const char *where = scope->owner ? scope->owner->path : "the root";
  const char *hint = near ? near : "";
  if (!asker)
    return crn_fail(b->err, CRN_E_CONFIG, "network: layer '%s' does not exist in %s network%s%s%s", name, where,
                    near ? "; did you mean '" : "", hint, near ? "'?" : "");
  return crn_layer_fail(b, asker, CRN_E_CONFIG, "%s%s%slayer '%s' does not exist in the network of %s%s%s%s",
                        option ? "option '" : "", option ? option : "", option ? "': " : "", name, where,
                        near ? "; did you mean '" : "", hint, near ? "'?" : "");
}

static crn_status extern_get(crn_build *b, crn_scope *scope, const char *key, const crn_layer *asker,
                             const char *option, crn_layer **out) {
  crn_net *net = b->net;
  crn_extern *e = crn_net_extern(net, key);
  if (!e) {
    crn_str s = {0};
    const char *names[64];
    size_t n = 0;
    if (!net->n_externs) crn_str_add(&s, "none");
    for (int i = 0; i < net->n_externs; i++) {
      crn_str_addf(&s, i ? ", '%s'" : "'%s'", net->externs[i].key);
      if (n < 64) names[n++] = net->externs[i].key;
    }
    const char *near = crn_nearest(key, names, n);
    crn_status st = crn_layer_fail(b, asker, CRN_E_CONFIG, "%s%s%sunknown data key '%s'; there are %s%s%s%s",
                                   option ? "option '" : "", option ? option : "", option ? "': " : "", key,
                                   crn_str_get(&s), near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    crn_str_free(&s);
    return st;
  }
  (void)scope;
  if (!e->layer) {
    const char *name = crn_arena_printf(&net->arena, "data:%s", key);
    if (!name) return crn_err_memory(b->err);
    CRN_TRY(crn_layer_make_internal(b, net->root, &net->body, name, &crn_wrap_extern, NULL, CRN_EDGE_DATA, &e->layer));
    e->layer->priv = e;
  }
  e->used = true;
  *out = e->layer;
  return CRN_OK;
}

crn_status crn_layer_input(crn_build *b, crn_layer *l, const char *key, const crn_tmpl *t, const char *option,
                           crn_layer **out) {
  if (!crn_net_extern(b->net, key)) CRN_TRY(crn_extern_declare(b, l, key, t));
  CRN_TRY(extern_get(b, l->scope, key, l, option, out));
  return crn_layer_add_edge(b, l, *out, CRN_EDGE_DATA, option);
}

static crn_scope *extra_scope(crn_build *b, const char *prefix, crn_status *st) {
  crn_net *net = b->net;
  crn_scope *s = crn_map_get(&net->extras, prefix);
  if (s) return s;
  s = crn_scope_new(b, CRN_SCOPE_EXTRA, net->root, NULL, net->root->dict);
  if (!s || crn_map_set(&net->extras, prefix, s) != CRN_OK) {
    *st = crn_err_memory(b->err);
    return NULL;
  }
  s->extra_prefix = crn_arena_strdup(&net->arena, prefix);
  if (strstr(prefix, ".search")) s->search = true;
  return s;
}

/* Layer that only the extra net has, or that was asked for there by its full name. */
static crn_status extra_get(crn_build *b, const char *full, const crn_layer *asker, const char *option,
                            crn_layer **out) {
  const char *colon = strchr(full, ':');
  char prefix[64];
  size_t n = (size_t)(colon - full);
  if (n >= sizeof(prefix)) return no_such_layer(b, b->net->root, full, asker, option);
  memcpy(prefix, full, n);
  prefix[n] = 0;
  crn_status st = CRN_OK;
  crn_scope *s = extra_scope(b, prefix, &st);
  if (!s) return st;
  const char *name = colon + 1;
  if ((*out = crn_map_get(&s->layers, name))) return CRN_OK;
  const crn_value *dict = crn_v_get(s->dict, full);
  if (!dict) dict = crn_v_get(s->dict, name);
  if (dict) return crn_layer_make(b, s, name, dict, out);
  if (strchr(name, '/') || !strncmp(name, "data", 4)) return crn_scope_get(b, s, name, asker, option, out);
  return no_such_layer(b, s, full, asker, option);
}

static bool is_extra_name(const char *name) {
  return !strncmp(name, "extra", 5) && (name[5] == ':' || name[5] == '.') && strchr(name, ':');
}

/* What is known below a layer: "sub/x". */
static crn_status below(crn_build *b, crn_layer *l, const char *rest, const crn_layer *asker, const char *option,
                        crn_layer **out) {
  if (l->inner && l->inner->kind == CRN_SCOPE_LOOP) return crn_loop_outside_get(b, l, rest, asker, out);
  crn_layer *unit = l->inner ? crn_map_get(&l->inner->layers, "") : NULL; /* of a masked_computation */
  if (unit) return below(b, unit, rest, asker, option, out);
  if (l->inner) return crn_scope_get(b, l->inner, rest, asker, option, out);
  const char *name = crn_arena_printf(&b->net->arena, "%s/%s", l->name, rest);
  if (!name) return crn_err_memory(b->err);
  if ((*out = crn_map_get(&l->scope->layers, name))) return CRN_OK;
  CRN_TRY(crn_layer_make_internal(b, l->scope, l->body, name, &crn_wrap_sub_output, l, CRN_EDGE_DATA, out));
  (*out)->priv = crn_arena_strdup(&b->net->arena, rest);
  return (*out)->priv ? CRN_OK : crn_err_memory(b->err);
}

static crn_status data_get(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker, const char *option,
                           crn_layer **out) {
  const char *key = name[4] == ':' ? name + 5 : NULL;
  if (scope->kind == CRN_SCOPE_SUB) {
    if ((!key || !strcmp(key, "data")) && scope->data) { /* else: as around */
      *out = scope->data;
      return CRN_OK;
    }
    return crn_scope_get(b, scope->parent, name, asker, option, out);
  }
  return extern_get(b, scope, key ? key : "data", asker, option, out);
}

crn_status crn_scope_get(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker, const char *option,
                         crn_layer **out) {
  if ((*out = crn_map_get(&scope->layers, name))) return CRN_OK;
  if (is_extra_name(name)) return extra_get(b, name, asker, option, out);
  if (!strncmp(name, "base:", 5)) {
    crn_scope *up = scope->kind == CRN_SCOPE_ROOT || scope->kind == CRN_SCOPE_EXTRA ? NULL : scope->parent;
    if (!up) return crn_layer_fail(b, asker, CRN_E_CONFIG, "'%s': there is no network around this one", name);
    return crn_scope_get(b, up, name + 5, asker, option, out);
  }
  if (scope->loop) {
    bool found = false;
    CRN_TRY(crn_loop_get(b, scope, name, asker, option, out, &found));
    if (found) return CRN_OK;
  } else if (!strncmp(name, "prev:", 5)) {
    return crn_layer_fail(b, asker, CRN_E_CONFIG, "'%s' is only possible inside of a loop", name);
  }
  if (!strcmp(name, "data") || !strncmp(name, "data:", 5)) return data_get(b, scope, name, asker, option, out);
  if (scope->kind == CRN_SCOPE_EXTRA) {
    const char *full = crn_arena_printf(&b->net->arena, "%s:%s", scope->extra_prefix, name);
    if (!full) return crn_err_memory(b->err);
    if (crn_v_get(scope->dict, full)) return extra_get(b, full, asker, option, out);
    return crn_scope_get(b, b->net->root, name, asker, option, out);
  }
  if (scope->get) return scope->get(b, scope, name, asker, option, out);
  const crn_value *dict = crn_v_get(scope->dict, name);
  if (dict && name[0] != '#') return crn_layer_make(b, scope, name, dict, out);
  const char *slash = strchr(name, '/');
  if (slash) {
    char *head = crn_arena_strndup(&b->net->arena, name, (size_t)(slash - name));
    crn_layer *l;
    if (!head) return crn_err_memory(b->err);
    CRN_TRY(crn_scope_get(b, scope, head, asker, option, &l));
    return below(b, l, slash + 1, asker, option, out);
  }
  return no_such_layer(b, scope, name, asker, option);
}

crn_status crn_layer_ref(crn_build *b, crn_layer *l, const char *name, crn_edge_kind kind, const char *option,
                         crn_layer **out) {
  if (!name) return crn_layer_fail(b, l, CRN_E_CONFIG, "option '%s': expected a layer name", option);
  CRN_TRY(crn_scope_get(b, l->scope, name, l, option, out));
  return crn_layer_add_edge(b, l, *out, kind, option);
}
