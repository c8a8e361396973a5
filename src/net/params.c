/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters: their paths (layers-1.md C8), sharing by reuse_params and name_scope, and the network's list of them.
 */
#include <stdlib.h>
#include <string.h>

#include "layer/batch_norm.h"
#include "net/build.h"
#include "net/loop.h"
#include "net/wrappers.h"

/* ---- paths ---------------------------------------------------------------------------------------------------------- */

/* The layer's part of the path: characters that the original's scopes don't take are replaced. */
static void add_layer_part(crn_str *s, const char *name) {
  static const char *const replaced = ":(){}&+-*'\", ";
  for (const char *p = name; *p; p++) {
    const unsigned char c = (unsigned char)*p;
    if (c >= 128) continue;
    if (p == name && strchr("_-\\/", *p)) crn_str_addf(s, ".%d.", (int)c);
    if (strchr(replaced, *p)) crn_str_add(s, "__");
    else if (!(p == name && *p == '_')) crn_str_addc(s, *p);
  }
}

const char *crn_layer_param_path(crn_build *b, const crn_layer *l) {
  crn_arena *a = &b->net->arena;
  const char *scope = crn_v_cstr(l->common.name_scope);
  const char *base = l->scope->param_path;
  if (scope && scope[0] == '/') return scope[1] ? crn_arena_printf(a, "%s/", scope + 1) : "";
  if (scope) return scope[0] ? crn_arena_printf(a, "%s%s/", base, scope) : base;
  if (l->name[0] == 0) return base;
  crn_str s = {0};
  crn_str_add(&s, base);
  add_layer_part(&s, l->name);
  crn_str_addc(&s, '/');
  const char *path = crn_str_ok(&s) ? crn_arena_strdup(a, crn_str_get(&s)) : NULL;
  crn_str_free(&s);
  return path;
}

/* ---- reuse_params --------------------------------------------------------------------------------------------------- */

static crn_status reuse_map(crn_build *b, crn_layer *l, crn_reuse *r, const crn_value *map) {
  crn_arena *a = &b->net->arena;
  const size_t n = crn_v_len(map);
  r->names = CRN_ARENA_ARRAY(a, const char *, n + 1);
  r->layers = CRN_ARENA_ARRAY(a, crn_layer *, n + 1);
  r->outputs = CRN_ARENA_ARRAY(a, crn_layer *, n + 1);
  if (!r->names || !r->layers || !r->outputs) return crn_err_memory(b->err);
  for (size_t i = 0; i < n; i++) {
    const crn_value *v = map->u.dict.vals[i];
    const int k = r->n_map++;
    r->names[k] = crn_v_cstr(map->u.dict.keys[i]);
    if (!r->names[k]) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'reuse_params': map keys must be strings");
    if (crn_v_is_dict(v)) {
      const char *name = crn_v_cstr(crn_v_get(v, "reuse_layer")), *out = crn_v_cstr(crn_v_get(v, "layer_output"));
      if (crn_v_get(v, "custom"))
        return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: reuse_params with 'custom'");
      if (name) CRN_TRY(crn_layer_ref(b, l, name, CRN_EDGE_PARAM, "reuse_params", &r->layers[k]));
      if (out) CRN_TRY(crn_layer_ref(b, l, out, CRN_EDGE_DATA, "reuse_params", &r->outputs[k]));
    } else if (crn_v_is_str(v)) {
      CRN_TRY(crn_layer_ref(b, l, crn_v_cstr(v), CRN_EDGE_PARAM, "reuse_params", &r->layers[k]));
    } else if (!crn_v_is_none(v)) {
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'reuse_params': map entry '%s' must be a layer name, None or a dict",
                            r->names[k]);
    }
  }
  return CRN_OK;
}

crn_status crn_reuse_refs(crn_build *b, crn_layer *l) {
  static const char *const known[] = {"reuse_layer", "map", "auto_create_missing", "layer_output", "shape", "custom"};
  const crn_value *v = l->common.reuse_params;
  if (crn_v_is_none(v)) return CRN_OK;
  crn_reuse *r = CRN_ARENA_NEW(&b->net->arena, crn_reuse);
  if (!r) return crn_err_memory(b->err);
  l->reuse = r;
  if (crn_v_is_str(v)) return crn_layer_ref(b, l, crn_v_cstr(v), CRN_EDGE_PARAM, "reuse_params", &r->layer);
  if (!crn_v_is_dict(v))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'reuse_params': expected a layer name or a dict, got %s",
                          crn_v_kind_name(v));
  for (size_t i = 0; i < v->u.dict.n; i++) {
    const char *key = crn_v_cstr(v->u.dict.keys[i]);
    bool ok = false;
    for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++) ok |= key && !strcmp(key, known[k]);
    const char *near = key ? crn_nearest(key, known, sizeof(known) / sizeof(*known)) : NULL;
    if (!ok)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'reuse_params': unknown key '%s'%s%s%s", key ? key : "?",
                            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  if (!crn_v_is_none(crn_v_get(v, "custom")))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: reuse_params with 'custom'");
  r->auto_create_missing = crn_v_truth(crn_v_get(v, "auto_create_missing"));
  const char *name = crn_v_cstr(crn_v_get(v, "reuse_layer")), *out = crn_v_cstr(crn_v_get(v, "layer_output"));
  if (name) CRN_TRY(crn_layer_ref(b, l, name, CRN_EDGE_PARAM, "reuse_params", &r->layer));
  if (out) CRN_TRY(crn_layer_ref(b, l, out, CRN_EDGE_DATA, "reuse_params", &r->output));
  const crn_value *map = crn_v_get(v, "map");
  return crn_v_is_dict(map) ? reuse_map(b, l, r, map) : CRN_OK;
}

static crn_status layer_params(crn_build *b, crn_layer *l);

static crn_param *param_of(crn_build *b, crn_layer *l, const char *name) {
  if (l->inner && l->inner->kind == CRN_SCOPE_SUB) { /* "sub/W" below a sub network */
    crn_param *p = crn_store_find(b->net->store, crn_arena_printf(&b->net->arena, "%s%s", l->inner->param_path, name));
    if (p) return p;
  }
  for (int i = 0; i < l->n_params; i++)
    if (!strcmp(l->params[i]->spec.name, name)) return l->params[i];
  return NULL;
}

/* The layer itself where a name stands for its steps or frames: one of the two is outside of the loop. */
static crn_layer *behind_wrappers(crn_layer *l) {
  for (;;) {
    if (l->desc == &crn_wrap_accum) l = l->priv;
    else if (l->desc == &crn_wrap_slice) l = l->src[0];
    else return l;
  }
}

/* Parameter of another layer under reuse; its own declaration comes first. */
static crn_status reused_param(crn_build *b, crn_layer *l, crn_layer *from, const char *name, bool may_miss,
                               crn_param **out) {
  from = behind_wrappers(from);
  if (from->visit != 2 && from->visit != 1) {
    if (from->body->loop == NULL) CRN_TRY(crn_build_infer(b, from));
  }
  CRN_TRY(layer_params(b, from));
  *out = param_of(b, from, name);
  if (*out || may_miss) return CRN_OK;
  crn_str s = {0};
  for (int i = 0; i < from->n_params; i++) crn_str_addf(&s, " %s", from->params[i]->spec.name);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "option 'reuse_params': layer '%s' has no parameter '%s'; it has:%s",
                                 from->path, name, s.len ? crn_str_get(&s) : " none");
  crn_str_free(&s);
  return st;
}

/* *out stays NULL when the parameter is to be created; *given: the value of a layer stands for it. */
static crn_status find_reused(crn_build *b, crn_layer *l, const char *name, crn_param **out, bool *given) {
  crn_reuse *r = l->reuse;
  *out = NULL;
  *given = false;
  for (int i = 0; r && i < r->n_map; i++) {
    if (strcmp(r->names[i], name)) continue;
    if (r->outputs[i]) return *given = true, CRN_OK;
    if (!r->layers[i]) return CRN_OK;
    return reused_param(b, l, r->layers[i], name, false, out);
  }
  if (r && r->layer) {
    CRN_TRY(reused_param(b, l, r->layer, name, r->auto_create_missing || r->output, out));
    if (*out) return CRN_OK;
  }
  if (r && r->output) {
    *given = true;
    return CRN_OK;
  }
  if (r && !r->auto_create_missing && (r->layer || r->n_map))
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'reuse_params': nothing is said of parameter '%s'; add it to the map (None = create) "
                          "or set auto_create_missing",
                          name);
  return CRN_OK;
}

/* ---- declaring ------------------------------------------------------------------------------------------------------ */

static crn_status shape_differs(crn_build *b, crn_layer *l, const crn_param *p, const crn_param_spec *spec,
                                const char *option) {
  bool same = p->spec.rank == spec->rank;
  for (int i = 0; same && i < spec->rank; i++) same = p->spec.shape[i] == spec->shape[i];
  if (same) return CRN_OK;
  crn_str s = {0};
  for (int i = 0; i < spec->rank; i++) crn_str_addf(&s, i ? ", %lld" : "(%lld", (long long)spec->shape[i]);
  crn_str_add(&s, ") is needed, ");
  for (int i = 0; i < p->spec.rank; i++) crn_str_addf(&s, i ? ", %lld" : "(%lld", (long long)p->spec.shape[i]);
  crn_str_add(&s, ") exists");
  crn_status st =
      crn_layer_fail(b, l, CRN_E_CONFIG, "%sparameter '%s' is shared, but its shape differs: %s", option, p->path, crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

static const int64_t max_elements = INT64_C(1) << 40; /* of a parameter */

static crn_status too_large(crn_build *b, const crn_layer *l, const crn_param_spec *spec, crn_status code) {
  crn_str s = {0};
  for (int i = 0; i < spec->rank; i++) crn_str_addf(&s, i ? ", %lld" : "(%lld", (long long)spec->shape[i]);
  crn_status st = crn_layer_fail(b, l, code, "%sparameter '%s' of shape %s)",
                                 code == CRN_E_MEMORY ? "no memory left for " : "more than 2^40 numbers: ", spec->name,
                                 spec->rank ? crn_str_get(&s) : "(");
  crn_str_free(&s);
  return st;
}

static crn_param *store_add(crn_build *b, const char *path, const crn_param_spec *spec, const char *owner) {
  crn_store *s = b->net->store;
  crn_param *p = CRN_ARENA_NEW(&s->arena, crn_param);
  if (!p) return NULL;
  p->path = crn_arena_strdup(&s->arena, path);
  p->spec = *spec;
  p->spec.name = crn_arena_strdup(&s->arena, spec->name);
  p->spec.init = spec->init ? crn_v_copy(&s->arena, spec->init) : NULL;
  p->spec.init_default = spec->init_default ? crn_arena_strdup(&s->arena, spec->init_default) : NULL;
  p->owner = crn_arena_strdup(&s->arena, owner);
  p->dtype = spec->dtype == CRN_F32 ? s->real : spec->dtype;
  p->size = crn_t_count(spec->rank, spec->shape);
  p->st.bytes = (size_t)(p->size ? p->size : 1) * crn_dtype_bytes(p->dtype);
  p->st.is_param = p->st.borrowed = true;
  p->st.data = crn_calloc(1, p->st.bytes);
  if (!p->st.data || s->arena.failed || crn_map_set(&s->by_path, p->path, p) != CRN_OK) return NULL;
  return p;
}

static crn_status layer_take(crn_build *b, crn_layer *l, crn_param *p) {
  crn_param **list = CRN_ARENA_ARRAY(&b->net->arena, crn_param *, l->n_params + 1);
  if (!list) return crn_err_memory(b->err);
  if (l->n_params) memcpy(list, l->params, (size_t)l->n_params * sizeof(*list));
  list[l->n_params++] = p;
  l->params = list;
  return CRN_OK;
}

crn_status crn_layer_param(crn_build *b, crn_layer *l, const crn_param_spec *spec) {
  crn_param *p;
  bool given;
  for (int i = 0; i < spec->rank; i++)
    if (spec->shape[i] < 0)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "size of axis %d of parameter '%s' is not known", i, spec->name);
  if (crn_t_count(spec->rank, spec->shape) > max_elements) return too_large(b, l, spec, CRN_E_CONFIG);
  if (crn_initialiser_check(&b->net->arena, spec->init, b->err) != CRN_OK) {
    (void)crn_err_where(b->err, "parameter '%s'", spec->name);
    return crn_err_where(b->err, "network: layer '%s' (%s)", l->path, l->desc->name);
  }
  CRN_TRY(find_reused(b, l, spec->name, &p, &given));
  if (given) return CRN_OK;
  if (p) {
    CRN_TRY(shape_differs(b, l, p, spec, "option 'reuse_params': "));
    return layer_take(b, l, p);
  }
  const char *base = crn_layer_param_path(b, l);
  const char *path = base ? crn_arena_printf(&b->net->arena, "%s%s", base, spec->name) : NULL;
  if (!path) return crn_err_memory(b->err);
  p = crn_store_find(b->net->store, path);
  if (p) CRN_TRY(shape_differs(b, l, p, spec, ""));
  else if (!(p = store_add(b, path, spec, l->path))) return too_large(b, l, spec, CRN_E_MEMORY);
  if (!strncmp(p->owner, "extra", 5) && strchr(p->owner, ':') && !l->scope->extra_prefix) /* the main net's layer owns it */
    p->owner = crn_arena_strdup(&b->net->store->arena, l->path);
  if (!p->owner) return crn_err_memory(b->err);
  if (!strcmp(p->owner, l->path)) {
    p->L2 = l->common.L2;
    p->updater_opts = l->common.updater_opts;
  }
  return layer_take(b, l, p);
}

static crn_status layer_params(crn_build *b, crn_layer *l) {
  if (l->params_done) return CRN_OK;
  l->params_done = true;
  if (l->desc->params) CRN_TRY(crn_build_say_layer(b, l, l->desc->params(b, l)));
  if (l->common.need_last > 0 && l->scope->loop) CRN_TRY(crn_loop_initial_param(b, l));
  return crn_build_say_layer(b, l, crn_batch_norm_params(b, l));
}

/* ---- the network's list --------------------------------------------------------------------------------------------- */

typedef struct listed {
  crn_param *p;
  const crn_layer *l; /* owner */
} listed;

/* Paths compared part by part, so that sub layers stand with their owner. */
static int compare_paths(const char *a, const char *b) {
  for (;; a++, b++) {
    const int x = *a == '/' ? 1 : (unsigned char)*a, y = *b == '/' ? 1 : (unsigned char)*b;
    if (x != y) return x < y ? -1 : 1;
    if (!x) return 0;
  }
}

static int compare_listed(const void *a, const void *b) {
  const listed *x = a, *y = b;
  int c = compare_paths(x->l->path, y->l->path);
  return c ? c : strcmp(x->p->spec.name, y->p->spec.name);
}

/* "extra.search:output/s" -> "output/s" */
static const char *without_extra(const char *path) {
  const size_t n = strcspn(path, ":/");
  return !strncmp(path, "extra", 5) && path[n] == ':' ? path + n + 1 : path;
}

/* Did the layer, or its like in another net of the config, make the parameter (and not take it over)? */
static bool owns(const crn_layer *l, const crn_param *p) {
  return !strcmp(without_extra(p->owner), without_extra(l->path));
}

static void collect(const crn_body *body, bool owners, listed *list, int *n) {
  for (int i = 0; i < body->n; i++) {
    const crn_layer *l = body->order[i];
    for (int k = 0; k < l->n_params; k++)
      if (owns(l, l->params[k]) == owners) list[(*n)++] = (listed){l->params[k], l};
  }
}

/* From entry `from` on: in order of layers, each parameter only where it comes first (of all before, too). */
static crn_status sort_and_thin(crn_build *b, listed *list, int from, int *n, crn_map *seen) {
  int kept = from;
  if (*n > from) qsort(list + from, (size_t)(*n - from), sizeof(*list), compare_listed);
  for (int i = from; i < *n; i++) {
    if (crn_map_has(seen, list[i].p->path)) continue;
    if (crn_map_set(seen, list[i].p->path, list[i].p) != CRN_OK) return crn_err_memory(b->err);
    list[kept++] = list[i];
  }
  *n = kept;
  return CRN_OK;
}

/* Owners first, so that a shared parameter stands with its owner; then what nobody here made. */
static crn_status collect_all(crn_build *b, listed *list, int *n) {
  const crn_net *net = b->net;
  crn_map seen = {0};
  crn_status st = CRN_OK;
  for (int pass = 0; pass < 2 && st == CRN_OK; pass++) {
    const int from = *n;
    collect(&net->body, pass == 0, list, n);
    for (int i = 0; i < net->n_bodies; i++) collect(net->bodies[i], pass == 0, list, n);
    st = sort_and_thin(b, list, from, n, &seen);
  }
  crn_map_free(&seen);
  if (st == CRN_OK && *n) qsort(list, (size_t)*n, sizeof(*list), compare_listed);
  return st;
}

static bool is_trainable(const crn_net *net, const listed *x) {
  return net->root->trainable && x->l->scope->trainable && x->l->common.trainable != 0 && !x->p->spec.not_trainable;
}

static crn_status list_params(crn_build *b) {
  crn_net *net = b->net;
  size_t total = 1;
  for (int i = 0; i < net->n_layers; i++) total += (size_t)net->layers[i]->n_params;
  listed *list = crn_calloc(total, sizeof(*list));
  int n = 0;
  crn_status st = list ? collect_all(b, list, &n) : crn_err_memory(b->err);
  if (st == CRN_OK) {
    net->params = crn_calloc((size_t)n + 1, sizeof(*net->params));
    net->trainable = crn_calloc((size_t)n + 1, sizeof(*net->trainable));
    if (!net->params || !net->trainable) st = crn_err_memory(b->err);
    for (int i = 0; st == CRN_OK && i < n; i++) {
      net->params[i] = list[i].p;
      net->trainable[i] = is_trainable(net, &list[i]);
    }
    net->n_params = n;
  }
  crn_free(list);
  return st;
}

crn_status crn_build_params(crn_build *b) {
  crn_net *net = b->net;
  for (int i = 0; i < net->body.n; i++)
    if (net->body.order[i]->live) CRN_TRY(layer_params(b, net->body.order[i]));
  for (int k = 0; k < net->n_bodies; k++)
    for (int i = 0; i < net->bodies[k]->n; i++) CRN_TRY(layer_params(b, net->bodies[k]->order[i]));
  return list_params(b);
}
