/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks of published configs: built for training and for search, and what was built is compared: parameters, layers'
 * templates, losses, used data; then once more under other names of layers. Nothing is run.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "rename.h"
#include "runner.h"

typedef struct network_job {
  const char *path;
} network_job;

/* ---- parameters ---- */

static void add_shape(crn_str *s, int rank, const int64_t *shape) {
  crn_str_addc(s, '[');
  for (int i = 0; i < rank; i++) crn_str_addf(s, i ? ", %lld" : "%lld", (long long)shape[i]);
  crn_str_addc(s, ']');
}

static void compare_shape(report *r, const crn_param *p, const crn_value *shape) {
  bool same = crn_v_len(shape) == (size_t)p->spec.rank;
  for (int i = 0; same && i < p->spec.rank; i++) {
    int64_t n = -1;
    same = crn_v_to_int(crn_v_at(shape, (size_t)i), &n) && n == p->spec.shape[i];
  }
  if (same) return;
  crn_str s = {0};
  add_shape(&s, p->spec.rank, p->spec.shape);
  crn_str_add(&s, " instead of ");
  crn_v_repr(shape, &s, 80);
  rep_fail(r, "parameter '%s': shape %s", p->path, crn_str_get(&s));
  crn_str_free(&s);
}

static bool in_list(const crn_value *list, const char *name) {
  for (size_t i = 0; i < crn_v_len(list); i++) {
    const char *s = crn_v_cstr(crn_v_at(list, i));
    if (s && strcmp(s, name) == 0) return true;
  }
  return false;
}

static void compare_param(report *r, const crn_net *net, int i, const crn_value *facts) {
  const crn_param *p = net->params[i];
  const char *dtype = crn_v_cstr(crn_v_get(crn_v_get(facts, "param_dtypes"), p->path));
  const bool trainable = !in_list(crn_v_get(facts, "non_trainable"), p->path);
  compare_shape(r, p, crn_v_get(crn_v_get(facts, "params"), p->path));
  if (strcmp(crn_dtype_name(p->dtype), dtype ? dtype : "float32") != 0)
    rep_fail(r, "parameter '%s': dtype %s instead of %s", p->path, crn_dtype_name(p->dtype), dtype ? dtype : "float32");
  if (net->trainable[i] != trainable) rep_fail(r, "parameter '%s': is %strainable", p->path, trainable ? "not " : "");
}

static int param_index(const crn_net *net, const char *name) {
  for (int i = 0; i < net->n_params; i++)
    if (strcmp(net->params[i]->path, name) == 0) return i;
  return -1;
}

/* The original lists states that it keeps between runs (keep_over_epoch) among the parameters, with as many rows as
 * there are sequences, an unknown size. Here they are the session's. */
static bool is_kept_state(const crn_value *shape) {
  for (size_t i = 0; i < crn_v_len(shape); i++)
    if (crn_v_is_none(crn_v_at(shape, i))) return true;
  return false;
}

static int by_size(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Sizes in ascending order, -1 for unknown ones: the original's axes may be in another order. */
static bool same_sizes(const crn_tmpl *t, const crn_value *shape) {
  int64_t a[CRN_MAX_RANK], b[CRN_MAX_RANK];
  if (crn_v_len(shape) != (size_t)t->n) return false;
  for (int i = 0; i < t->n; i++) {
    const crn_value *v = crn_v_at(shape, (size_t)i);
    a[i] = crn_dim_is_dynamic(t->dims[i]) || t->dims[i]->kind == CRN_DIM_BATCH ? -1 : t->dims[i]->size;
    b[i] = -1;
    if (!crn_v_is_none(v) && !crn_v_to_int(v, &b[i])) return false;
  }
  qsort(a, (size_t)t->n, sizeof *a, by_size);
  qsort(b, (size_t)t->n, sizeof *b, by_size);
  return memcmp(a, b, sizeof *a * (size_t)t->n) == 0;
}

/* A kept state LAYER/keep_state_NAME or LAYER/rec/keep_state_NAME: the layer keeps states, and one of them has the
 * known sizes, and as many unknown ones. */
static void compare_kept(report *r, const crn_net *net, const char *path, const crn_value *shape) {
  const char *const slash = strrchr(path, '/');
  bool keeps = false, fits = false;
  for (int i = 0; slash && i < net->n_layers; i++) {
    const crn_layer *l = net->layers[i];
    char own[600];
    const int n = snprintf(own, sizeof own, "%s%s/", l->scope->param_path, l->name);
    if (!l->keep_states || n < 0 || strncmp(path, own, (size_t)n) != 0) continue;
    if (path + n != slash + 1 && !(strncmp(path + n, "rec/", 4) == 0 && path + n + 4 == slash + 1)) continue;
    keeps = true;
    for (int k = 0; k < l->n_states; k++) fits |= same_sizes(&l->states[k].t, shape);
  }
  if (!keeps) rep_fail(r, "parameter '%s': no layer keeps such a state between runs", path);
  if (keeps && !fits) {
    crn_str s = {0};
    crn_v_repr(shape, &s, 80);
    rep_fail(r, "parameter '%s': no kept state has shape %s", path, crn_str_get(&s));
    crn_str_free(&s);
  }
}

static void compare_params(report *r, const crn_net *net, const crn_value *facts) {
  const crn_value *params = crn_v_get(facts, "params");
  bool same = true;
  for (size_t i = 0; i < crn_v_len(params); i++) {
    const char *name = crn_v_cstr(params->u.dict.keys[i]);
    if (is_kept_state(params->u.dict.vals[i])) {
      compare_kept(r, net, name, params->u.dict.vals[i]);
      continue;
    }
    if (name && param_index(net, name) < 0) rep_fail(r, "parameter '%s': is missing", name), same = false;
  }
  for (int i = 0; i < net->n_params; i++) {
    if (crn_v_get(params, net->params[i]->path))
      compare_param(r, net, i, facts);
    else
      rep_fail(r, "parameter '%s': the original has none of that name", net->params[i]->path), same = false;
  }
  size_t k = 0;
  for (int i = 0; same && i < net->n_params; i++) {
    while (is_kept_state(params->u.dict.vals[k])) k++;
    const char *name = crn_v_cstr(params->u.dict.keys[k++]);
    if (name && strcmp(name, net->params[i]->path) == 0) continue;
    rep_fail(r, "parameter '%s': comes where '%s' should", net->params[i]->path, name ? name : "?");
    return;
  }
}

/* ---- layers ---- */

/* The template as the original lists it: of a layer in a loop, what one step gives, also where the layer was moved out.
 */
static crn_tmpl step_template(const crn_layer *l) {
  crn_tmpl t = l->out;
  for (const crn_scope *s = l->scope; s; s = s->parent) {
    if (!s->loop) continue;
    bool runs_inside = false;
    for (const crn_body *b = l->body; b && !runs_inside; b = b->outer) runs_inside = b == &s->loop->body;
    const int axis = runs_inside || !s->loop->time_dim ? -1 : crn_tmpl_find(&t, s->loop->time_dim);
    if (axis >= 0) crn_tmpl_remove(&t, axis);
  }
  return t;
}

static bool same_shape(const crn_tmpl *t, const crn_value *shape) {
  if (crn_v_len(shape) != (size_t)t->n) return false;
  for (int i = 0; i < t->n; i++) {
    const crn_value *v = crn_v_at(shape, (size_t)i);
    int64_t n = -1;
    if (!crn_v_is_none(v) && !crn_v_to_int(v, &n)) return false;
    if (n != (t->dims[i]->kind == CRN_DIM_BATCH ? -1 : t->dims[i]->size)) return false;
  }
  return true;
}

static void compare_template(report *r, const char *name, const crn_tmpl *t, const crn_value *want) {
  const char *dtype = crn_v_cstr(crn_v_get(want, "dtype"));
  int64_t dim = -1;
  (void)crn_v_to_int(crn_v_get(want, "dim"), &dim);
  if (!same_shape(t, crn_v_get(want, "batch_shape"))) {
    crn_str s = {0};
    crn_tmpl_describe(t, &s);
    crn_str_add(&s, " instead of ");
    crn_v_repr(crn_v_get(want, "batch_shape"), &s, 80);
    rep_fail(r, "layer '%s': shape %s", name, crn_str_get(&s));
    crn_str_free(&s);
  }
  if (dtype && strcmp(dtype, crn_dtype_name(t->dtype)) != 0)
    rep_fail(r, "layer '%s': dtype %s instead of %s", name, crn_dtype_name(t->dtype), dtype);
  if (t->sparse != crn_v_truth(crn_v_get(want, "sparse")))
    rep_fail(r, "layer '%s': is %ssparse", name, t->sparse ? "" : "not ");
  if (crn_tmpl_dim(t) != dim)
    rep_fail(r, "layer '%s': dim %lld instead of %lld", name, (long long)crn_tmpl_dim(t), (long long)dim);
}

typedef struct place_count { /* where layers of loops run, roles of axes: information */
  int same_place, other_place, same_roles, other_roles;
} place_count;

static bool same_axis(const crn_value *want, const char *key, int got) {
  int64_t n = -1;
  (void)crn_v_to_int(crn_v_get(want, key), &n);
  return n == got;
}

static void count_places(const crn_layer *l, const crn_tmpl *t, const crn_value *want, place_count *n) {
  const char *place = crn_v_cstr(crn_v_get(want, "rec_place"));
  if (same_axis(want, "batch_dim_axis", crn_tmpl_batch_axis(t)) && same_axis(want, "time_dim_axis", t->time_axis) &&
      same_axis(want, "feature_dim_axis", t->feature_axis))
    n->same_roles++;
  else
    n->other_roles++;
  if (!place || !l->scope->loop) return;
  const bool in_loop = l->live && l->body->loop && !(l->desc->flags & CRN_L_INTERNAL);
  if ((strcmp(place, "loop") == 0) == in_loop)
    n->same_place++;
  else
    n->other_place++;
}

/* A layer by its path, in loops too: the instance of one step (also of layers that moved out of the loop), one that
 * runs, one named in the config, before what construction put around it. */
static const crn_layer *find_layer(const crn_net *net, const char *name) {
  const crn_layer *best = NULL;
  int best_rank = 0;
  for (int i = 0; i < net->n_layers; i++) {
    const crn_layer *l = net->layers[i];
    if (!l->out_known || strcmp(l->path, name) != 0) continue;
    const bool in_step = l->body && l->body->loop;
    const int rank = 1 + (in_step ? 4 : 0) + (l->live ? 2 : 0) + (l->desc->flags & CRN_L_INTERNAL ? 0 : 1);
    if (rank > best_rank) best = l, best_rank = rank;
  }
  return best;
}

/* The class that the config gives to any instance of the path. */
static const crn_layer_desc *find_class(const crn_net *net, const char *name) {
  for (int i = 0; i < net->n_layers; i++)
    if (!(net->layers[i]->desc->flags & CRN_L_INTERNAL) && strcmp(net->layers[i]->path, name) == 0)
      return net->layers[i]->desc;
  return NULL;
}

/* "data" and "data:KEY". */
static const crn_extern *find_data(const crn_net *net, const char *name) {
  if (strcmp(name, "data") == 0) return crn_net_extern(net, "data");
  return strncmp(name, "data:", 5) == 0 ? crn_net_extern(net, name + 5) : NULL;
}

static void compare_layer(report *r, const crn_net *net, const char *name, const crn_value *want, place_count *n) {
  const crn_extern *data = find_data(net, name);
  const crn_layer *l = data ? NULL : find_layer(net, name);
  const char *cls = crn_v_cstr(crn_v_get(want, "class"));
  if (data) compare_template(r, name, &data->t, want);
  if (data) return;
  if (!l) {
    rep_fail(r, "layer '%s' (%s): is not in the network", name, cls ? cls : "?");
    return;
  }
  const crn_layer_desc *desc = find_class(net, name);
  if (desc && cls && strcmp(cls, desc->name) != 0)
    rep_fail(r, "layer '%s': class %s instead of %s", name, desc->name, cls);
  const crn_tmpl t = step_template(l);
  compare_template(r, name, &t, want);
  count_places(l, &t, want, n);
}

static void compare_network_layers(report *r, const crn_net *net, const crn_value *facts) {
  const crn_value *layers = crn_v_get(facts, "layers");
  place_count n = {0, 0, 0, 0};
  for (size_t i = 0; i < crn_v_len(layers); i++) {
    const char *name = crn_v_cstr(layers->u.dict.keys[i]);
    if (name) compare_layer(r, net, name, layers->u.dict.vals[i], &n);
  }
  rep_note(r, "axes' roles: %d layers as the original, %d not; place in or out of the loop: %d the same, %d not",
           n.same_roles, n.other_roles, n.same_place, n.other_place);
}

/* ---- losses and data ---- */

static const crn_loss *find_loss(const crn_net *net, const char *name) {
  for (int i = 0; name && i < net->n_losses; i++)
    if (strcmp(net->losses[i]->name, name) == 0) return net->losses[i];
  return NULL;
}

static void compare_network_losses(report *r, const crn_net *net, const crn_value *facts) {
  const crn_value *want = crn_v_get(facts, "losses");
  for (size_t i = 0; i < crn_v_len(want); i++) {
    const crn_value *entry = crn_v_at(want, i);
    const char *name = crn_v_cstr(crn_v_get(entry, "name")), *cls = crn_v_cstr(crn_v_get(entry, "class"));
    const crn_loss *l = find_loss(net, name);
    double scale = 1;
    (void)crn_v_to_float(crn_v_get(entry, "scale"), &scale);
    if (!l)
      rep_fail(r, "loss '%s' (%s): is not in the network", name ? name : "?", cls ? cls : "?");
    else if (cls && strcmp(l->desc->name, cls) != 0)
      rep_fail(r, "loss '%s': class %s instead of %s", name, l->desc->name, cls);
    else if (fabs(l->scale - scale) > 1e-6 * fabs(scale))
      rep_fail(r, "loss '%s': scale %g instead of %g", name, l->scale, scale);
  }
  for (int i = 0; i < net->n_losses; i++) {
    bool found = false;
    for (size_t k = 0; !found && k < crn_v_len(want); k++) {
      const char *name = crn_v_cstr(crn_v_get(crn_v_at(want, k), "name"));
      found = name && strcmp(name, net->losses[i]->name) == 0;
    }
    if (!found) rep_fail(r, "loss '%s': the original has none of that name", net->losses[i]->name);
  }
}

static void compare_used_keys(report *r, const crn_net *net, const crn_value *facts) {
  const crn_value *want = crn_v_get(facts, "used_data_keys");
  for (int i = 0; i < net->n_externs; i++) {
    const crn_extern *e = &net->externs[i];
    if (e->used != in_list(want, e->key)) rep_fail(r, "data '%s': is %sused", e->key, e->used ? "" : "not ");
  }
  for (size_t i = 0; i < crn_v_len(want); i++) {
    const char *key = crn_v_cstr(crn_v_at(want, i));
    if (key && !crn_net_extern(net, key)) rep_fail(r, "data '%s': is not there, but used by the original", key);
  }
}

/* ---- networks ---- */

typedef void (*compare_fn)(report *r, const crn_net *net, const crn_value *facts);

static void compare_built(report *r, const crn_net *net, const crn_value *facts) {
  compare_params(r, net, facts);
  compare_network_layers(r, net, facts);
  compare_network_losses(r, net, facts);
}

static bool build_and_compare(report *r, const crn_value *root, const char *part, crn_net_mode mode,
                              compare_fn compare) {
  crn_err err = {0};
  crn_net *net = NULL;
  crn_store *store = crn_store_new(CRN_F32);
  crn_status st =
      store ? crn_net_build(crn_v_get(root, "config"), mode, store, NULL, &net, &err) : crn_err_memory(&err);
  if (st == CRN_OK)
    compare(r, net, crn_v_get(root, part));
  else if (strstr(crn_err_text(&err), "unknown layer class")) { /* the original has it, or the config's code made it */
    rep_missing(r, "%s", crn_err_text(&err));
    crn_err_clear(&err);
  } else
    rep_status(r, "building", &err);
  crn_net_free(net);
  crn_store_free(store);
  return st == CRN_OK;
}

/* Under other names the network must be the same. */
static void run_renamed(report *r, const crn_value *config, crn_net_mode mode) {
  crn_arena arena = {0};
  crn_err err = {0};
  crn_store *stores[2] = {crn_store_new(CRN_F32), crn_store_new(CRN_F32)};
  crn_net *nets[2] = {NULL, NULL};
  const crn_value *configs[2] = {rename_layers(&arena, config, 0), rename_layers(&arena, config, 1 + mode.search)};
  crn_status st = stores[0] && stores[1] && configs[0] && configs[1] ? CRN_OK : crn_err_memory(&err);
  for (int i = 0; i < 2 && st == CRN_OK; i++) st = crn_net_build(configs[i], mode, stores[i], NULL, &nets[i], &err);
  if (st == CRN_OK)
    compare_renamed(r, nets[0], nets[1]);
  else
    rep_status(r, "building under other names", &err);
  for (int i = 0; i < 2; i++) {
    crn_net_free(nets[i]);
    crn_store_free(stores[i]);
  }
  crn_arena_free(&arena);
}

/* The facts list the losses that layers of the search network have, but the used data as without computing them. */
static void run_part(report *r, const crn_value *root, const char *part, bool search) {
  const crn_net_mode with_losses = {.train = !search, .eval = true, .search = search};
  const crn_net_mode without = {.search = true};
  rep_part(r, part);
  if (!build_and_compare(r, root, part, with_losses, compare_built)) return;
  (void)build_and_compare(r, root, part, search ? without : with_losses, compare_used_keys);
  run_renamed(r, crn_v_get(root, "config"), with_losses);
}

static void run_network(report *r, const void *arg) {
  const network_job *job = arg;
  crn_arena arena = {0};
  crn_err err = {0};
  crn_value *root = NULL;
  bool any = false;
  if (crn_v_read_json(&arena, job->path, &root, &err) != CRN_OK)
    rep_status(r, "reading", &err);
  else if (crn_v_is_none(crn_v_get(root, "config")))
    rep_skip(r, "there is no config");
  else {
    static const char *const parts[] = {"train", "search"};
    for (int i = 0; i < 2; i++) {
      if (!crn_v_truth(crn_v_get(crn_v_get(root, parts[i]), "ok"))) continue;
      run_part(r, root, parts[i], i == 1);
      any = true;
    }
    if (!any) rep_skip(r, "the original doesn't build it");
  }
  crn_arena_free(&arena);
}

int run_corpus(const options *o, const char *folder) {
  tally t = {{0}, {0}};
  char inner[4096];
  name_list names = {NULL, 0};
  snprintf(inner, sizeof inner, "%s/networks", folder);
  const char *where = list_json_names(inner, &names) && names.n ? inner : folder;
  if (where == folder) {
    name_list_free(&names);
    if (!list_json_names(folder, &names)) fprintf(stderr, "%s: can't be read\n", folder);
  }
  for (size_t i = 0; i < names.n; i++) {
    char path[8192];
    snprintf(path, sizeof path, "%s/%s.json", where, names.names[i]);
    const network_job job = {.path = path};
    if (name_wanted(o, names.names[i])) run_job(o, &t, names.names[i], run_network, &job);
  }
  name_list_free(&names);
  return print_tally(o, &t);
}
