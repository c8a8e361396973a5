/* SPDX-License-Identifier: Apache-2.0
 *
 * A network under other names must be the same network: the layers of a net dict get random names (so that every order
 * of names is another one), and what is built is compared layer by layer. Copies of a layer dict hold its number under
 * "#", which construction doesn't look at.
 */
#include "rename.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "layer/all.h"

/* ---- new names ------------------------------------------------------------------------------------------------------
 */

typedef struct name_scope {
  crn_map names;  /* old -> new */
  crn_map inside; /* layer -> its net's name_scope */
  struct name_scope *parent;
  bool single; /* of one layer in an option, not of a net: it has no names of its own */
} name_scope;

typedef struct renamer {
  crn_arena *arena;
  crn_rng rng;
  uint64_t n_drawn;
  bool keep; /* the same names again */
  int64_t n_layers;
  name_scope *scopes[512]; /* all, to free their maps */
  int n_scopes;
} renamer;

static const char *const net_options[] = {"unit", "subnetwork", "true_layer", "false_layer", NULL};
/* Options that may name layers, besides those that the classes' tables know to. */
static const char *const layer_options[] = {
    "from",         "mask",           "size_base", "start",     "reuse_params",   "initial_state",
    "state",        "initial_output", "target",    "loss_opts", "collocate_with", "control_dependencies_on_output",

    "window_start", "position",       "condition", "true_from", "false_from",     NULL};

static bool listed(const char *const *list, const char *name) {
  for (; *list; list++)
    if (!strcmp(*list, name)) return true;
  return false;
}

/* Names that mean something by themselves. */
static bool is_special(const char *name) {
  return name[0] == '#' || !strcmp(name, "output") || crn_ends_with(name, ":output") || !strcmp(name, "end") ||
         !strncmp(name, "data", 4);
}

static name_scope *new_scope(renamer *r, name_scope *parent) {
  name_scope *s = r->n_scopes < 512 ? CRN_ARENA_NEW(r->arena, name_scope) : NULL;
  if (!s) return NULL;
  s->parent = parent;
  return r->scopes[r->n_scopes++] = s;
}

static const char *draw(renamer *r) {
  char word[5] = "";
  for (int i = 0; i < 4; i++) word[i] = (char)('a' + crn_rng_bits(&r->rng, r->n_drawn++) % 26);
  return crn_arena_printf(r->arena, "%s%d", word, (int)r->n_drawn);
}

/* "extra.search:" of "extra.search:x", else nothing. */
static size_t extra_prefix(const char *name) {
  const char *colon = strncmp(name, "extra", 5) ? NULL : strchr(name, ':');
  return colon ? (size_t)(colon + 1 - name) : 0;
}

static const char *new_name(renamer *r, name_scope *s, const char *old) {
  const size_t prefix = extra_prefix(old);
  const char *rest = old + prefix, *known = crn_map_get(&s->names, rest);
  if (!known) {
    known = r->keep || is_special(rest) ? rest : draw(r);
    if (!known || crn_map_set(&s->names, rest, crn_arena_strdup(r->arena, known)) != CRN_OK) return NULL;
  }
  return prefix ? crn_arena_printf(r->arena, "%.*s%s", (int)prefix, old, known) : known;
}

static void name_all(renamer *r, name_scope *s, const crn_value *net);

static void name_nets_of(renamer *r, name_scope *s, const char *name, const crn_value *layer) {
  for (const char *const *o = net_options; *o; o++) {
    const crn_value *net = crn_v_get(layer, *o);
    if (!crn_v_is_dict(net)) continue;
    name_scope *inside = crn_map_get(&s->inside, name); /* an extra net's layer has the parameters of the plain one */
    if (!inside) inside = new_scope(r, s);
    if (!inside || crn_map_set(&s->inside, name, inside) != CRN_OK) continue;
    inside->single = crn_v_is_str(crn_v_get(net, "class"));
    if (inside->single)
      name_nets_of(r, inside, *o, net);
    else
      name_all(r, inside, net);
  }
}

static void name_all(renamer *r, name_scope *s, const crn_value *net) {
  for (size_t i = 0; i < net->u.dict.n; i++) {
    const char *name = crn_v_cstr(net->u.dict.keys[i]);
    if (!name || !crn_v_is_dict(net->u.dict.vals[i]) || name[0] == '#') continue;
    const crn_value *layer = net->u.dict.vals[i];
    /* layers that register data are built in order of their names, and one may need another's */
    if (!crn_v_is_none(crn_v_get(layer, "register_as_extern_data")))
      (void)crn_map_set(&s->names, name, crn_arena_strdup(r->arena, name));
    (void)new_name(r, s, name);
    name_nets_of(r, s, name + extra_prefix(name), layer);
  }
}

/* ---- rewriting ------------------------------------------------------------------------------------------------------
 */

/* A reference as it reads with the new names. */
static const char *rewrite_ref(renamer *r, name_scope *s, const char *ref) {
  static const char *const prefixes[] = {"base:", "prev:", "layer:"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    const size_t n = strlen(prefixes[i]);
    if (strncmp(ref, prefixes[i], n) != 0) continue;
    name_scope *where = i == 0 ? s->parent : s;
    const char *rest = where ? rewrite_ref(r, where, ref + n) : ref + n;
    return crn_arena_printf(r->arena, "%s%s", prefixes[i], rest);
  }
  const size_t prefix = extra_prefix(ref);
  if (prefix) {
    while (s->parent) s = s->parent;
    return crn_arena_printf(r->arena, "%.*s%s", (int)prefix, ref, rewrite_ref(r, s, ref + prefix));
  }
  const char *whole = crn_map_get(&s->names, ref);
  if (whole) return whole;
  if (s->single && s->parent) return rewrite_ref(r, s->parent, ref);
  const char *slash = strchr(ref, '/');
  const char *head = slash ? crn_arena_strndup(r->arena, ref, (size_t)(slash - ref)) : NULL;
  const char *name = head ? crn_map_get(&s->names, head) : NULL;
  if (!name) return ref;
  name_scope *inside = crn_map_get(&s->inside, head);
  return crn_arena_printf(r->arena, "%s/%s", name, inside ? rewrite_ref(r, inside, slash + 1) : slash + 1);
}

/* References in quotes, in an expression such as "max_len_from('base:encoder')". */
static crn_value *rewrite_quoted(renamer *r, name_scope *s, const char *text) {
  crn_str out = {0};
  while (*text) {
    const char quote = *text, *end = quote == '\'' || quote == '"' ? strchr(text + 1, quote) : NULL;
    crn_str_addc(&out, *text++);
    if (!end) continue;
    const char *ref = crn_arena_strndup(r->arena, text, (size_t)(end - text));
    if (ref) crn_str_add(&out, rewrite_ref(r, s, ref));
    crn_str_addc(&out, quote);
    text = end + 1;
  }
  crn_value *v = crn_v_str(r->arena, crn_str_get(&out));
  crn_str_free(&out);
  return v;
}

static crn_value *rewrite_value(renamer *r, name_scope *s, const crn_value *v) {
  crn_arena *a = r->arena;
  if (crn_v_is_str(v)) return crn_v_str(a, rewrite_ref(r, s, crn_v_cstr(v)));
  if (crn_v_is_seq(v)) {
    crn_value *out = crn_v_seq(a, v->kind);
    for (size_t i = 0; i < crn_v_len(v); i++) (void)crn_v_push(a, out, rewrite_value(r, s, crn_v_at(v, i)));
    return out;
  }
  crn_value *out = crn_v_copy(a, v);
  for (size_t i = 0; crn_v_is_dict(out) && i < out->u.dict.n; i++)
    if (strcmp(crn_v_cstr(out->u.dict.keys[i]) ? crn_v_cstr(out->u.dict.keys[i]) : "", "class") != 0)
      out->u.dict.vals[i] = rewrite_value(r, s, v->u.dict.vals[i]);
  return out;
}

/* "stag:LAYER:…": dims have names of the layers that made them. */
static crn_value *rewrite_dim_names(renamer *r, name_scope *s, const crn_value *v) {
  crn_value *out = crn_v_copy(r->arena, v);
  const char *text = crn_v_cstr(v);
  if (text && !strncmp(text, "stag:", 5)) {
    const size_t n = strcspn(text + 5, ":");
    const char *layer = crn_arena_strndup(r->arena, text + 5, n);
    const char *name = layer ? rewrite_ref(r, s, layer) : NULL;
    return name ? crn_v_str(r->arena, crn_arena_printf(r->arena, "stag:%s%s", name, text + 5 + n)) : out;
  }
  for (size_t i = 0; crn_v_is_seq(out) && i < crn_v_len(out); i++)
    out->u.seq.items[i] = rewrite_dim_names(r, s, crn_v_at(v, i));
  return out;
}

static bool names_layers(const crn_layer_desc *d, const char *option) {
  if (listed(layer_options, option)) return true;
  for (const crn_opt *o = d ? d->opts : NULL; o && o->name; o++)
    if (!strcmp(o->name, option)) return o->type == CRN_OPT_LAYER || o->type == CRN_OPT_LAYERS;
  return false;
}

static crn_value *rewrite_net(renamer *r, name_scope *s, const crn_value *net);

static crn_value *rewrite_layer(renamer *r, name_scope *s, const char *name, const crn_value *layer) {
  crn_arena *a = r->arena;
  crn_value *out = crn_v_dict(a);
  const char *class = crn_v_cstr(crn_v_get(layer, "class"));
  const crn_layer_desc *d = class ? crn_layer_class_find(class) : NULL;
  name_scope *inside = crn_map_get(&s->inside, name + extra_prefix(name));
  for (size_t i = 0; out && i < layer->u.dict.n; i++) {
    const char *option = crn_v_cstr(layer->u.dict.keys[i]);
    const crn_value *v = layer->u.dict.vals[i];
    crn_value *copy;
    if (!option) continue;
    if (inside && crn_v_is_dict(v) && listed(net_options, option))
      copy = crn_v_is_str(crn_v_get(v, "class")) ? rewrite_layer(r, inside, option, v) : rewrite_net(r, inside, v);
    else if (!strcmp(option, "max_seq_len") && crn_v_is_str(v))
      copy = rewrite_quoted(r, inside ? inside : s, crn_v_cstr(v)); /* as seen from inside of the loop */
    else
      copy = names_layers(d, option) ? rewrite_value(r, s, v) : rewrite_dim_names(r, s, v);
    (void)crn_v_put(a, out, option, copy);
  }
  (void)crn_v_put(a, out, "#", crn_v_int(a, r->n_layers++));
  return out;
}

static crn_value *rewrite_net(renamer *r, name_scope *s, const crn_value *net) {
  crn_value *out = crn_v_dict(r->arena);
  for (size_t i = 0; out && i < net->u.dict.n; i++) {
    const char *name = crn_v_cstr(net->u.dict.keys[i]);
    const crn_value *v = net->u.dict.vals[i];
    if (!name) continue;
    if (crn_v_is_dict(v) && name[0] != '#')
      (void)crn_v_put(r->arena, out, new_name(r, s, name), rewrite_layer(r, s, name, v));
    else
      (void)crn_v_put(r->arena, out, name, crn_v_copy(r->arena, v));
  }
  return out;
}

crn_value *rename_layers(crn_arena *a, const crn_value *config, uint64_t seed) {
  const crn_value *net = crn_v_get(config, "network");
  renamer r = {.arena = a, .rng = crn_rng_make(seed, 0, "names"), .keep = seed == 0};
  name_scope *root = new_scope(&r, NULL);
  crn_value *out = root && crn_v_is_dict(net) ? crn_v_copy(a, config) : NULL;
  if (out) {
    name_all(&r, root, net);
    (void)crn_v_put(a, out, "network", rewrite_net(&r, root, net));
  }
  for (int i = 0; i < r.n_scopes; i++) {
    crn_map_free(&r.scopes[i]->names);
    crn_map_free(&r.scopes[i]->inside);
  }
  return a->failed ? NULL : out;
}

/* ---- comparison -----------------------------------------------------------------------------------------------------
 */

typedef struct dim_pairs { /* which dim of the one network is which of the other */
  const crn_dim **a, **b;
  int n, cap;
} dim_pairs;

static bool same_dim(dim_pairs *p, crn_arena *arena, const crn_dim *a, const crn_dim *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind || a->size != b->size) return false;
  for (int i = 0; i < p->n; i++)
    if (p->a[i] == a || p->b[i] == b) return p->a[i] == a && p->b[i] == b;
  if (p->n == p->cap) {
    const int cap = p->cap ? 2 * p->cap : 256;
    const crn_dim **more = CRN_ARENA_ARRAY(arena, const crn_dim *, 2 * cap);
    if (!more) return false;
    if (p->n) {
      memcpy(more, p->a, sizeof *more * (size_t)p->n);
      memcpy(more + cap, p->b, sizeof *more * (size_t)p->n);
    }
    p->a = more;
    p->b = more + cap;
    p->cap = cap;
  }
  p->a[p->n] = a;
  p->b[p->n++] = b;
  return true;
}

static bool same_template(dim_pairs *p, crn_arena *arena, const crn_tmpl *a, const crn_tmpl *b) {
  bool same = a->n == b->n && a->dtype == b->dtype && a->sparse == b->sparse && a->time_axis == b->time_axis &&
              a->feature_axis == b->feature_axis && !a->beam.choice == !b->beam.choice &&
              a->beam.size == b->beam.size && same_dim(p, arena, a->sparse_dim, b->sparse_dim);
  for (int i = 0; same && i < a->n; i++) same = same_dim(p, arena, a->dims[i], b->dims[i]);
  return same;
}

/* What a layer is found by under any name: its number, and which of its instances it is. */
static const char *key_of(crn_arena *arena, const crn_layer *l, crn_map *seen) {
  int64_t id;
  if (l->desc->flags & CRN_L_INTERNAL || !l->dict || !crn_v_to_int(crn_v_get(l->dict, "#"), &id)) return NULL;
  const char *extra = l->scope->extra_prefix ? l->scope->extra_prefix : "";
  const char *key =
      crn_arena_printf(arena, "%lld %d %d %s", (long long)id, (int)l->scope->kind, l->body->loop != NULL, extra);
  const uintptr_t n = key ? (uintptr_t)crn_map_get(seen, key) : 0;
  if (!key || crn_map_set(seen, key, (void *)(n + 1)) != CRN_OK) return NULL;
  return n ? crn_arena_printf(arena, "%s %d", key, (int)n) : key;
}

static bool same_params(const crn_layer *a, const crn_layer *b) {
  if (a->n_params != b->n_params) return false;
  for (int i = 0; i < a->n_params; i++) {
    const crn_param *p = a->params[i], *q = b->params[i];
    if (p->spec.rank != q->spec.rank || p->dtype != q->dtype || p->size != q->size) return false;
    for (int k = 0; k < p->spec.rank; k++)
      if (p->spec.shape[k] != q->spec.shape[k]) return false;
  }
  return true;
}

static const char *difference(dim_pairs *p, crn_arena *arena, const crn_layer *a, const crn_layer *b) {
  if (a->out_known != b->out_known || a->live != b->live) return "is needed under one name only";
  if (a->out_known && !same_template(p, arena, &a->out, &b->out)) return "has another template";
  return same_params(a, b) ? NULL : "has other parameters";
}

static int count_losses(const crn_net *net, const crn_loss_desc *d) {
  int n = 0;
  for (int i = 0; i < net->n_losses; i++) n += net->losses[i]->desc == d;
  return n;
}

static void compare_rest(report *r, const crn_net *a, const crn_net *b) {
  if (a->n_params != b->n_params) rep_fail(r, "renamed: %d parameters instead of %d", b->n_params, a->n_params);
  for (int i = 0; i < a->n_losses; i++)
    if (count_losses(a, a->losses[i]->desc) != count_losses(b, a->losses[i]->desc))
      rep_fail(r, "renamed: another number of losses '%s'", a->losses[i]->desc->name);
  for (int i = 0; i < a->n_externs; i++) {
    const crn_extern *e = crn_net_extern(b, a->externs[i].key);
    if (!e || e->used != a->externs[i].used) rep_fail(r, "renamed: data '%s' is used differently", a->externs[i].key);
  }
}

void compare_renamed(report *r, const crn_net *a, const crn_net *b) {
  crn_arena arena = {0};
  crn_map seen = {0}, by_key = {0};
  dim_pairs pairs = {0};
  int n = 0;
  for (int i = 0; i < b->n_layers; i++) {
    const char *key = key_of(&arena, b->layers[i], &seen);
    if (key) (void)crn_map_set(&by_key, key, b->layers[i]);
  }
  crn_map_free(&seen);
  seen = (crn_map){0};
  for (int i = 0; i < a->n_layers; i++) {
    const char *key = key_of(&arena, a->layers[i], &seen);
    if (!key) continue;
    const crn_layer *other = crn_map_get(&by_key, key);
    const char *what = other ? difference(&pairs, &arena, a->layers[i], other) : "isn't there";
    if (what) rep_fail(r, "renamed: layer '%s' %s (as '%s')", a->layers[i]->path, what, other ? other->path : "?");
    n++;
  }
  compare_rest(r, a, b);
  rep_note(r, "renamed: %d layers compared", n);
  crn_map_free(&seen);
  crn_map_free(&by_key);
  crn_arena_free(&arena);
}
