/* SPDX-License-Identifier: Apache-2.0
 *
 * Construction: looking up references until nothing is pending, and inferring templates with dependencies first. Both
 * keep their own stacks: a chain of any length needs no recursion.
 */
#include "net/build.h"
#include "net/exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layer/batch_norm.h"
#include "net/wrappers.h"

crn_err *crn_build_err(crn_build *b) { return b->err; }
crn_arena *crn_build_arena(crn_build *b) { return &b->net->arena; }
crn_dims *crn_build_dims(crn_build *b) { return &b->net->dims; }
const crn_log *crn_build_log(crn_build *b) { return b->net->log; }
int crn_build_version(crn_build *b) { return b->net->version; }
const crn_value *crn_build_config(crn_build *b, const char *key) { return crn_v_get(b->net->config, key); }
bool crn_build_train(const crn_build *b, const crn_layer *l) { return (void)b, l->scope->train; }
bool crn_build_search(const crn_build *b, const crn_layer *l) { return (void)b, l->scope->search; }
bool crn_build_eval(const crn_build *b, const crn_layer *l) { return (void)b, l->scope->eval; }
const crn_dim *crn_loop_dim(const crn_layer *l) { return l->scope->loop ? l->scope->loop->time_dim : NULL; }
bool crn_layer_in_loop(const crn_layer *l) { return l->body->loop != NULL; }
bool crn_layer_moved_out(const crn_layer *l) { return l->scope->loop && l->body != &l->scope->loop->body; }

crn_status crn_layer_fail(crn_build *b, const crn_layer *l, crn_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  (void)crn_failv(b->err, code, fmt, ap);
  va_end(ap);
  if (!l) return crn_err_where(b->err, "network");
  return l->desc ? crn_err_where(b->err, "network: layer '%s' (%s)", l->path, l->desc->name)
                 : crn_err_where(b->err, "network: layer '%s'", l->path);
}

crn_status crn_build_say_layer(crn_build *b, const crn_layer *l, crn_status st) {
  const char *text = crn_err_text(b->err);
  if (st == CRN_OK || strstr(text, "layer '") || !strncmp(text, "config", 6)) return st;
  if (!text[0] && b->problem) return st; /* told already */
  if (!text[0]) return crn_layer_fail(b, l, st, "can't be built");
  (void)crn_err_where(b->err, "network: layer '%s' (%s)", l->path, l->desc->name);
  return st;
}

crn_status crn_body_add(crn_build *b, crn_body *body, crn_layer *l) {
  if (body->n == body->cap) {
    int cap = body->cap ? 2 * body->cap : 32;
    crn_layer **p = crn_realloc(body->order, (size_t)cap * sizeof(*p));
    if (!p) return crn_err_memory(b->err);
    body->order = p;
    body->cap = cap;
  }
  body->order[body->n++] = l;
  return CRN_OK;
}

/* When searching a loss isn't computed, but the layer that is its target still says how many features there are. */
static crn_status features_from_target(crn_build *b, crn_layer *l) {
  const char *name = crn_target_name(b, l, 0);
  crn_layer *t;
  if (!b->net->search || crn_v_is_none(l->common.loss) || !name || strncmp(name, "layer:", 6)) return CRN_OK;
  if (l->common.n_out != CRN_UNSET || l->common.out_dim) return CRN_OK;
  CRN_TRY(crn_target_layer(b, l, name, &t));
  return crn_layer_add_edge(b, l, t, CRN_EDGE_TARGET, "target");
}

/* Owners of the nets around come first: they say what "data" means inside. */
static crn_status layer_refs(crn_build *b, crn_layer *l) {
  if (l->refs_done) return CRN_OK;
  if (l->scope->kind == CRN_SCOPE_SUB && l->scope->owner) CRN_TRY(layer_refs(b, l->scope->owner));
  if (l->refs_done) return CRN_OK;
  l->refs_done = true;
  crn_status st = crn_build_recover(b, l, crn_build_say_layer(b, l, crn_options_refs(b, l)));
  if (st == CRN_OK) st = crn_build_recover(b, l, crn_build_say_layer(b, l, crn_layer_make_losses(b, l)));
  if (st == CRN_OK && !l->failed) st = features_from_target(b, l);
  if (st == CRN_OK && l->failed) st = crn_build_was_told(b);
  if (st != CRN_OK) l->failed = true;
  return crn_build_say_layer(b, l, st);
}

crn_status crn_build_refs(crn_build *b) {
  while (b->n_pending > 0) {
    crn_layer *l = b->pending[--b->n_pending];
    CRN_TRY(crn_build_recover(b, l, layer_refs(b, l)));
  }
  return CRN_OK;
}

/* ---- inference ------------------------------------------------------------------------------------------------------
 */

static crn_status check_n_out(crn_build *b, const crn_layer *l) {
  int64_t want = l->common.n_out, is = crn_tmpl_dim(&l->out);
  if (want == CRN_UNSET || is < 0 || is == want || l->desc->flags & CRN_L_COPIES_PRE) return CRN_OK;
  return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n_out' is %lld, but the output has dim %lld", (long long)want,
                        (long long)is);
}

static crn_status check_out_shape(crn_build *b, const crn_layer *l) {
  const crn_value *want = l->common.out_shape;
  if (crn_v_is_none(want) || !crn_v_is_seq(want)) return CRN_OK;
  crn_str missing = {0}, extra = {0};
  bool used[CRN_MAX_RANK] = {false};
  for (size_t i = 0; i < crn_v_len(want); i++) {
    const crn_value *v = crn_v_at(want, i);
    if (v->kind != CRN_V_DIM) continue;
    const crn_dim *d = crn_dim_of_value(&b->net->dims, v);
    int axis = -1;
    for (int k = 0; d && k < l->out.n && axis < 0; k++)
      if (!used[k] && crn_dim_same(l->out.dims[k], d)) axis = k;
    for (int k = 0; d && k < l->out.n && axis < 0; k++)
      if (!used[k] && crn_dims_match(l->out.dims[k], d, b->net->version)) axis = k;
    if (axis >= 0)
      used[axis] = true;
    else
      crn_str_addf(&missing, " %s", v->u.dim.name ? v->u.dim.name : "?");
  }
  for (int k = 0; k < l->out.n; k++)
    if (!used[k]) crn_str_addf(&extra, " %s", l->out.dims[k]->name);
  crn_status st = CRN_OK;
  if (missing.len || extra.len) {
    crn_str is = {0};
    crn_tmpl_describe(&l->out, &is);
    st = crn_layer_fail(b, l, CRN_E_CONFIG, "option 'out_shape': the output is %s; missing:%s; not expected:%s",
                        crn_str_get(&is), missing.len ? crn_str_get(&missing) : " nothing",
                        extra.len ? crn_str_get(&extra) : " nothing");
    crn_str_free(&is);
  }
  crn_str_free(&missing);
  crn_str_free(&extra);
  return st;
}

static void inherit_beam_and_availability(crn_layer *l) {
  for (int i = 0; i < l->n_edges; i++) {
    const crn_edge *e = &l->edges[i];
    if (!e->to->out_known || e->kind == CRN_EDGE_PARAM || e->kind == CRN_EDGE_TARGET) continue;
    if (e->kind == CRN_EDGE_DATA && e->to->out.unavailable) l->out.unavailable = true;
    if (!l->ends_beam && !l->out.beam.choice && e->to->out.beam.choice) l->out.beam = e->to->out.beam;
  }
}

static crn_status check_sizes(crn_build *b, const crn_layer *l) {
  for (int i = 0; i < l->out.n; i++) {
    const crn_dim *d = l->out.dims[i];
    if (d->size > CRN_MAX_SIZE)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "axis %d of the output has size %lld, at most %d is possible", i,
                            (long long)d->size, CRN_MAX_SIZE);
  }
  return CRN_OK;
}

crn_status crn_layer_infer_once(crn_build *b, crn_layer *l) {
  const bool own_beam = l->out.beam.choice == l;
  memset(&l->out, 0, sizeof(l->out));
  (void)own_beam;
  l->out.time_axis = l->out.feature_axis = -1;
  l->out_known = true; /* a class that can't settle it sets false */
  CRN_TRY(crn_build_say_layer(b, l, l->desc->infer(b, l)));
  if (!l->out_known) return CRN_OK;
  inherit_beam_and_availability(l);
  CRN_TRY(check_sizes(b, l));
  if (l->desc->flags & CRN_L_INTERNAL) return CRN_OK;
  CRN_TRY(check_n_out(b, l));
  CRN_TRY(crn_batch_norm_infer(b, l));
  return check_out_shape(b, l);
}

static bool orders(crn_edge_kind k) { return k != CRN_EDGE_PARAM && k != CRN_EDGE_PREV; }

typedef struct visit_stack {
  crn_layer **l;
  int *next;
  int n, cap;
} visit_stack;

static crn_status stack_push(crn_build *b, visit_stack *s, crn_layer *l) {
  if (s->n == s->cap) {
    int cap = s->cap ? 2 * s->cap : 64;
    crn_layer **pl = crn_realloc(s->l, (size_t)cap * sizeof(*pl));
    if (pl) s->l = pl;
    int *pn = crn_realloc(s->next, (size_t)cap * sizeof(*pn));
    if (pn) s->next = pn;
    if (!pl || !pn) return crn_err_memory(b->err);
    s->cap = cap;
  }
  s->l[s->n] = l;
  s->next[s->n++] = 0;
  l->visit = 1;
  return CRN_OK;
}

static crn_status dependency_loop(crn_build *b, const visit_stack *s, const crn_layer *l) {
  crn_str text = {0};
  for (int i = s->n; i-- > 0;) {
    crn_str_addf(&text, "%s'%s'", i == s->n - 1 ? "" : ", ", s->l[i]->path);
    if (s->l[i] == l) break;
  }
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "dependency loop; construction stack, most recent first: %s",
                                 crn_str_get(&text));
  crn_str_free(&text);
  return st;
}

static crn_status visit_all(crn_build *b, visit_stack *s) {
  while (s->n > 0) {
    crn_layer *l = s->l[s->n - 1];
    int *next = &s->next[s->n - 1];
    if (b->n_pending) CRN_TRY(crn_build_refs(b));
    crn_layer *dep = NULL;
    while (*next < l->n_edges && !dep) {
      const crn_edge *e = &l->edges[(*next)++];
      if (!orders(e->kind) || e->to->visit == 2 || e->to->body->loop != l->body->loop) continue;
      if (e->to->visit == 1)
        CRN_TRY(crn_build_recover(b, e->to, dependency_loop(b, s, e->to)));
      else
        dep = e->to;
    }
    if (dep) {
      CRN_TRY(stack_push(b, s, dep));
      continue;
    }
    if (!crn_build_lost(b, l)) CRN_TRY(crn_build_recover(b, l, crn_layer_infer_once(b, l)));
    if (b->n_pending) CRN_TRY(crn_build_refs(b));
    if (*next < l->n_edges) continue; /* infer found more to depend on */
    l->visit = 2;
    CRN_TRY(crn_body_add(b, l->body, l));
    s->n--;
  }
  return CRN_OK;
}

crn_status crn_build_infer(crn_build *b, crn_layer *l) {
  CRN_TRY(crn_build_refs(b));
  if (l->visit == 2) return l->failed ? crn_build_was_told(b) : CRN_OK;
  if (l->visit == 1) return crn_layer_fail(b, l, CRN_E_CONFIG, "dependency loop: it depends on itself");
  visit_stack s = {0};
  crn_status st = stack_push(b, &s, l);
  if (st == CRN_OK) st = visit_all(b, &s);
  crn_free(s.l);
  crn_free(s.next);
  return st == CRN_OK && l->failed ? crn_build_was_told(b) : st;
}

/* ---- the whole network ----------------------------------------------------------------------------------------------
 */

static bool triggers(const crn_value *dict, const char *name, const crn_scope *s) {
  if (name[0] == '#') return false;
  if (crn_v_truth(crn_v_get(dict, "only_on_search")) && !s->search) return false;
  if (crn_v_truth(crn_v_get(dict, "only_on_eval")) && !s->eval) return false;
  if (!strcmp(name, "output") || crn_ends_with(name, ":output")) return true;
  if (!crn_v_is_none(crn_v_get(dict, "loss"))) return true;
  return crn_v_truth(crn_v_get(dict, "is_output_layer"));
}

crn_status crn_build_add_root(crn_build *b, crn_layer *l) {
  if (b->n_roots == b->cap_roots) {
    int cap = b->cap_roots ? 2 * b->cap_roots : 16;
    crn_layer **p = crn_realloc(b->roots, (size_t)cap * sizeof(*p));
    if (!p) return crn_err_memory(b->err);
    b->roots = p;
    b->cap_roots = cap;
  }
  b->roots[b->n_roots++] = l;
  return CRN_OK;
}

static crn_status build_roots(crn_build *b) {
  while (b->roots_built < b->n_roots) {
    crn_layer *l = b->roots[b->roots_built++];
    if (l->body->loop) continue; /* built with its loop */
    CRN_TRY(crn_build_recover(b, l, crn_build_infer(b, l)));
  }
  return CRN_OK;
}

/* Layers that something wanted depends on. */
static crn_status mark_live(crn_build *b) {
  crn_layer **stack = crn_malloc(sizeof(*stack) * ((size_t)b->net->n_layers + 1));
  int n = 0;
  if (!stack) return crn_err_memory(b->err);
  for (int i = 0; i < b->n_roots; i++)
    if (!b->roots[i]->live && b->roots[i]->visit == 2) {
      b->roots[i]->live = true;
      stack[n++] = b->roots[i];
    }
  for (int k = 0; k < b->net->n_bodies; k++) /* loops hold only what they need */
    for (int i = 0; i < b->net->bodies[k]->n; i++) b->net->bodies[k]->order[i]->visit = 2;
  while (n > 0) {
    crn_layer *l = stack[--n];
    for (int i = 0; i < l->n_edges; i++) {
      crn_layer *to = l->edges[i].to;
      if (l->edges[i].kind == CRN_EDGE_PARAM || to->live) continue;
      to->live = true;
      stack[n++] = to;
    }
    if (l->desc != &crn_wrap_runner) continue;
    const crn_loop *loop = l->priv;
    for (int i = 0; i < loop->body.n; i++)
      if (!loop->body.order[i]->live) {
        loop->body.order[i]->live = true;
        stack[n++] = loop->body.order[i];
      }
  }
  crn_free(stack);
  return CRN_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* In order of names, as the original does: what one registers as data the next may use. */
static crn_status build_triggered(crn_build *b, bool extern_pass) {
  const crn_value *d = b->net->root->dict;
  const char **names = CRN_ARENA_ARRAY(&b->net->arena, const char *, d->u.dict.n + 1);
  if (!names) return crn_err_memory(b->err);
  size_t n = 0;
  for (size_t i = 0; i < d->u.dict.n; i++)
    if ((names[n] = crn_v_cstr(d->u.dict.keys[i]))) n++;
  qsort(names, n, sizeof(*names), by_text);
  for (size_t i = 0; i < n; i++) {
    const crn_value *dict = crn_v_get(d, names[i]);
    if (extern_pass ? crn_v_is_none(crn_v_get(dict, "register_as_extern_data")) || names[i][0] == '#'
                    : !triggers(dict, names[i], b->net->root))
      continue;
    crn_layer *l = NULL;
    CRN_TRY(crn_build_recover(b, NULL, crn_scope_get(b, b->net->root, names[i], NULL, NULL, &l)));
    if (!l) continue;
    CRN_TRY(crn_build_add_root(b, l));
    CRN_TRY(build_roots(b));
    if (extern_pass && !l->failed) CRN_TRY(crn_build_recover(b, l, crn_extern_register(b, l)));
  }
  return CRN_OK;
}

static int by_name(const void *a, const void *b) {
  const crn_loss *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static crn_status net_dict_of(crn_build *b, const crn_value **out) {
  const crn_value *net = crn_v_get(b->net->config, "network");
  if (!net && !crn_v_is_none(crn_v_get(b->net->config, "get_network")))
    return crn_fail(b->err, CRN_E_NOT_IMPLEMENTED, "config: not implemented: key 'get_network'");
  if (!net) return crn_fail(b->err, CRN_E_CONFIG, "config: key 'network' is missing");
  if (crn_v_is_dict(net)) {
    *out = net;
    return CRN_OK;
  }
  if (net->kind != CRN_V_LIST && net->kind != CRN_V_TUPLE)
    return crn_fail(b->err, CRN_E_CONFIG, "config: key 'network': expected a dict or a list of layer dicts, got %s",
                    crn_v_kind_name(net));
  crn_arena *a = &b->net->arena;
  crn_value *d = crn_v_dict(a);
  for (size_t i = 0; i < crn_v_len(net); i++) {
    const bool last = i + 1 == crn_v_len(net);
    crn_value *l = crn_v_copy(a, crn_v_at(net, i));
    if (!crn_v_is_dict(l))
      return crn_fail(b->err, CRN_E_CONFIG, "config: key 'network': entry %d must be a layer dict, got %s", (int)i,
                      crn_v_kind_name(l));
    const char *name = crn_v_cstr(crn_v_get(l, "name"));
    if (name && crn_v_get(d, name))
      return crn_fail(b->err, CRN_E_CONFIG, "config: key 'network': entry %d: layer '%s' is there already", (int)i, name);
    if (!name) name = last ? "output" : crn_arena_printf(a, "layer%d", (int)i);
    if (i > 0 && !crn_v_get(l, "from")) {
      const crn_value *prev = d->u.dict.keys[d->u.dict.n - 1];
      (void)crn_v_put(a, l, "from", crn_v_str(a, crn_v_cstr(prev)));
    }
    if (last && !crn_v_get(l, "target")) (void)crn_v_put(a, l, "target", crn_v_str(a, b->net->default_target));
    (void)crn_v_del(l, "name");
    if (!crn_v_put(a, d, name, l)) return crn_err_memory(b->err);
  }
  *out = d;
  return CRN_OK;
}

static crn_status net_build(crn_build *b) {
  crn_net *net = b->net;
  int64_t version = 0;
  const crn_value *bv = crn_v_get(net->config, "behavior_version");
  if (!crn_v_is_none(bv) && (!crn_v_to_int(bv, &version) || version < 0 || version > CRN_MAX_SIZE)) {
    crn_str s = {0};
    crn_v_repr(bv, &s, 60);
    (void)crn_fail(b->err, CRN_E_CONFIG, "config: key 'behavior_version': expected an integer >= 0, got %s", crn_str_get(&s));
    crn_str_free(&s);
    return b->err->code;
  }
  net->version = (int)version;
  CRN_TRY(crn_dims_init(&net->dims, &net->arena, b->err));
  CRN_TRY(crn_net_make_externs(b));
  if (b->n_problems) return CRN_OK; /* what data there is decides about the layers */
  const crn_value *dict = NULL;
  CRN_TRY(net_dict_of(b, &dict));
  if (!(net->root = crn_scope_new(b, CRN_SCOPE_ROOT, NULL, NULL, dict))) return crn_err_memory(b->err);
  net->root->body = &net->body;
  net->root->train = net->train;
  net->root->eval = net->eval;
  net->root->search = net->search;
  const crn_value *t = crn_v_get(dict, "#trainable");
  net->root->trainable = !t || crn_v_truth(t);
  CRN_TRY(build_triggered(b, true));
  CRN_TRY(build_triggered(b, false));
  if (b->n_problems) return CRN_OK;
  CRN_TRY(mark_live(b));
  CRN_TRY(crn_build_check_beams(b));
  CRN_TRY(crn_build_params(b));
  CRN_TRY(crn_build_collect_losses(b));
  CRN_TRY(crn_build_fuse(b));
  if (net->n_losses) qsort(net->losses, (size_t)net->n_losses, sizeof(*net->losses), by_name);
  return CRN_OK;
}

crn_status crn_net_build(const crn_value *config, crn_net_mode mode, crn_store *store, const crn_log *log,
                         crn_net **out, crn_err *err) {
  return crn_net_build_telling(config, mode, store, log, NULL, NULL, out, err);
}

crn_status crn_net_build_telling(const crn_value *config, crn_net_mode mode, crn_store *store, const crn_log *log,
                                 crn_net_problem fn, void *user, crn_net **out, crn_err *err) {
  *out = NULL;
  crn_net *net = crn_calloc(1, sizeof(*net));
  if (!net) return crn_err_memory(err);
  net->config = config;
  net->store = store;
  net->log = log;
  net->train = mode.train;
  net->eval = mode.eval;
  net->search = mode.search;
  crn_build b = {.net = net, .err = err, .problem = fn, .problem_user = user};
  net->err = err;
  crn_status st = crn_build_recover(&b, NULL, net_build(&b));
  crn_free(b.pending);
  crn_free(b.roots);
  net->err = NULL;
  if (st == CRN_OK && net->arena.failed) st = crn_err_memory(err);
  if (st != CRN_OK || b.n_problems) {
    crn_net_free(net);
    return st;
  }
  crn_net_print_templates(net);
  crn_net_warn_of_padding(net);
  *out = net;
  return CRN_OK;
}

void crn_net_free(crn_net *net) {
  if (!net) return;
  for (int i = 0; i < net->n_scopes; i++) crn_map_free(&net->scopes[i]->layers);
  for (int i = 0; i < net->n_bodies; i++) {
    crn_free(net->bodies[i]->order);
    if (net->bodies[i]->loop) crn_map_free(&net->bodies[i]->loop->places);
  }
  crn_free(net->scopes);
  crn_free(net->bodies);
  crn_free(net->body.order);
  crn_map_free(&net->extras);
  crn_dims_deinit(&net->dims);
  crn_free(net->layers);
  crn_free(net->losses);
  crn_free(net->params);
  crn_free(net->trainable);
  crn_arena_free(&net->arena);
  crn_free(net);
}

crn_extern *crn_net_extern(const crn_net *net, const char *key) {
  for (int i = 0; i < net->n_externs; i++)
    if (!strcmp(net->externs[i].key, key)) return &net->externs[i];
  return NULL;
}

crn_layer *crn_net_find(const crn_net *net, const char *path) {
  for (int i = 0; i < net->n_layers; i++)
    if (net->layers[i]->live && !net->layers[i]->body->loop && !strcmp(net->layers[i]->path, path))
      return net->layers[i];
  return NULL;
}

crn_layer *crn_net_default_output(crn_net *net) {
  crn_layer *l = crn_map_get(&net->root->layers, "output");
  if (l) return l;
  crn_layer *only = NULL;
  for (int i = 0; i < net->n_layers; i++) {
    crn_layer *k = net->layers[i];
    if (k->scope != net->root || k->desc->flags & CRN_L_INTERNAL) continue;
    if (!k->loss && k->common.is_output_layer <= 0) continue;
    if (only) return NULL;
    only = k;
  }
  return only;
}
