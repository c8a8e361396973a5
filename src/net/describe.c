/* SPDX-License-Identifier: Apache-2.0
 *
 * A network as text and as a graph; see report.h.
 */
#include <string.h>

#include "net/loop.h"
#include "net/report.h"

static bool is_shown(const crn_layer *l) { return !(l->desc->flags & CRN_L_INTERNAL); }

static void add_template(const crn_tmpl *t, crn_str *out) { crn_tmpl_describe(t, out); }

void crn_net_describe_data(const crn_net *net, crn_str *out) {
  crn_str_add(out, "extern data:\n");
  for (int i = 0; i < net->n_externs; i++) {
    crn_str_addf(out, "  %s: ", net->externs[i].key);
    add_template(&net->externs[i].t, out);
    crn_str_add(out, net->externs[i].t.unavailable ? " (not available for inference)\n" : "\n");
  }
  crn_str_add(out, "used data keys: [");
  for (int i = 0, n = 0; i < net->n_externs; i++)
    if (net->externs[i].used) crn_str_addf(out, n++ ? ", '%s'" : "'%s'", net->externs[i].key);
  crn_str_add(out, "]\n");
}

/* A layer that moved out of its loop is there twice, under one path. */
static bool shown_before(const crn_net *net, int i) {
  for (int k = 0; k < i; k++)
    if (is_shown(net->layers[k]) && !strcmp(net->layers[k]->path, net->layers[i]->path)) return true;
  return false;
}

void crn_net_describe_layers(const crn_net *net, crn_str *out) {
  crn_str_add(out, "layers:\n");
  for (int i = 0; i < net->n_layers; i++) {
    const crn_layer *l = net->layers[i];
    if (!is_shown(l) || shown_before(net, i)) continue;
    const int64_t dim = crn_tmpl_dim(&l->out);
    crn_str_addf(out, "  layer %s '%s' #: ", l->desc->name, l->path);
    if (dim >= 0)
      crn_str_addf(out, "%lld ", (long long)dim);
    else
      crn_str_add(out, "None ");
    add_template(&l->out, out);
    crn_str_addc(out, '\n');
  }
}

static void add_place(const crn_loop *loop, crn_place place, const char *title, crn_str *out) {
  int n = 0;
  for (size_t i = 0; i < loop->places.n; i++)
    if (loop->places.entries[i].key && crn_loop_place(loop, loop->places.entries[i].key) == place) n++;
  crn_str_addf(out, "  %s: (#: %d)\n", title, n);
  if (n == 0) crn_str_add(out, "    None\n");
  for (size_t i = 0; n && i < loop->places.n; i++) {
    const char *name = loop->places.entries[i].key;
    if (name && crn_loop_place(loop, name) == place) crn_str_addf(out, "    %s\n", name);
  }
}

/* Layers of the loop's dict that nothing reads. */
static void add_unused(const crn_loop *loop, crn_str *out) {
  const crn_value *dict = loop->inside->dict;
  int n = 0;
  crn_str names = {0};
  for (size_t i = 0; crn_v_is_dict(dict) && i < dict->u.dict.n; i++) {
    const char *name = crn_v_cstr(dict->u.dict.keys[i]);
    if (!name || name[0] == '#' || crn_loop_place(loop, name) != CRN_UNUSED) continue;
    crn_str_addf(&names, "    %s\n", name);
    n++;
  }
  crn_str_addf(out, "  Unused layers: (#: %d)\n%s", n, n ? crn_str_get(&names) : "    None\n");
  crn_str_free(&names);
}

void crn_net_describe_loops(const crn_net *net, crn_str *out) {
  for (int i = 0; i < net->n_scopes; i++) {
    const crn_scope *s = net->scopes[i];
    const crn_loop *loop = s->loop;
    if (s->kind != CRN_SCOPE_LOOP || !loop || loop->inside != s) continue;
    crn_str_addf(out, "Rec layer '%s' (search %s, train %s) sub net:\n", loop->rec->path, s->search ? "True" : "False",
                 s->train ? "True" : "False");
    add_place(loop, CRN_MOVED_INPUT, "Input layers moved out of loop", out);
    add_place(loop, CRN_MOVED_OUTPUT, "Output layers moved out of loop", out);
    add_place(loop, CRN_IN_LOOP, "Layers in loop", out);
    add_unused(loop, out);
  }
}

void crn_net_describe_losses(const crn_net *net, crn_str *out) {
  crn_str_add(out, "losses:\n");
  for (int i = 0; i < net->n_losses; i++) {
    const crn_loss *l = net->losses[i];
    crn_str_addf(out, "  %s: %s of layer '%s'", l->name, l->desc->name, l->layer->path);
    if (l->scale != 1) crn_str_addf(out, ", scale %g", l->scale);
    crn_str_addc(out, '\n');
  }
  if (net->n_losses == 0) crn_str_add(out, "  None\n");
}

void crn_net_describe_params(const crn_net *net, bool each, crn_str *out) {
  int64_t all = 0, trained = 0;
  for (int i = 0; i < net->n_params; i++) {
    const crn_param *p = net->params[i];
    all += p->size;
    if (net->trainable[i]) trained += p->size;
    if (!each) continue;
    crn_str_addf(out, "  %s [", p->path);
    for (int k = 0; k < p->spec.rank; k++) crn_str_addf(out, k ? ", %lld" : "%lld", (long long)p->spec.shape[k]);
    crn_str_addf(out, "]%s\n", net->trainable[i] ? "" : " (not trainable)");
  }
  crn_str_addf(out, "net params #: %lld\nnet trainable params #: %lld\n", (long long)all, (long long)trained);
}

/* ---- graph ----------------------------------------------------------------------------------------------------------
 */

static void add_escaped(const char *text, crn_str *out) {
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') crn_str_addc(out, '\\');
    crn_str_addc(out, *text);
  }
}

static void add_node(const crn_layer *l, crn_str *out) {
  crn_str t = {0};
  crn_tmpl_describe(&l->out, &t);
  crn_str_addf(out, "  n%d [label=\"", l->index);
  add_escaped(l->path, out);
  crn_str_addf(out, "\\n%s\\n", l->desc->name);
  add_escaped(crn_str_get(&t), out);
  crn_str_addf(out, "\"%s];\n", l->loss ? ", style=bold" : is_shown(l) ? "" : ", style=dotted");
  crn_str_free(&t);
}

static bool runs_elsewhere(const crn_net *net, const bool *runs, const crn_layer *l) {
  for (int i = 0; i < net->n_layers; i++)
    if (runs[i] && !strcmp(net->layers[i]->path, l->path)) return true;
  return false;
}

/* By layer index: boxes of the graph are the layers of the config, where they run, and data. */
static bool *find_boxes(const crn_net *net) {
  bool *boxes = crn_calloc((size_t)net->n_layers + 1, sizeof *boxes);
  for (int i = -1; boxes && i < net->n_bodies; i++) {
    const crn_body *body = i < 0 ? &net->body : net->bodies[i];
    for (int k = 0; k < body->n; k++) boxes[body->order[k]->index] = is_shown(body->order[k]);
  }
  for (int i = 0; boxes && i < net->n_layers; i++)
    if (!boxes[i] && is_shown(net->layers[i])) boxes[i] = !runs_elsewhere(net, boxes, net->layers[i]);
  for (int i = 0; boxes && i < net->n_externs; i++)
    if (net->externs[i].layer) boxes[net->externs[i].layer->index] = true;
  return boxes;
}

/* Layers of the scope's own, in a cluster unless it is the root. */
static void add_scope(const crn_net *net, int index, const bool *boxes, crn_str *out) {
  const crn_scope *s = net->scopes[index];
  int n = 0;
  for (int i = 0; i < net->n_layers; i++) n += boxes[i] && net->layers[i]->scope == s;
  if (n == 0) return;
  const char *label = s->owner ? s->owner->path : s->extra_prefix;
  if (label) {
    crn_str_addf(out, "subgraph cluster_%d {\n  label=\"", index);
    add_escaped(label, out);
    crn_str_add(out, s->kind == CRN_SCOPE_MOVED  ? " (all frames)\";\n"
                     : s->kind == CRN_SCOPE_LOOP ? " (each step)\";\n"
                                                 : "\";\n");
  }
  for (int i = 0; i < net->n_layers; i++)
    if (boxes[i] && net->layers[i]->scope == s) add_node(net->layers[i], out);
  if (label) crn_str_add(out, "}\n");
}

typedef struct edge_walk {
  const bool *boxes;
  crn_str *out;
  const crn_layer *from;
  unsigned char
      *seen; /* by layer index: 1 for internal layers that were looked through, for boxes a bit for each style */
} edge_walk;

/* Edges into w->from; internal layers between are looked through. */
static void add_edges(edge_walk *w, const crn_layer *l, bool prev, int depth) {
  static const char *const styles[] = {"", "dashed", "dotted"};
  for (int i = 0; i < l->n_edges; i++) {
    const crn_edge *e = &l->edges[i];
    const bool before = prev || e->kind == CRN_EDGE_PREV;
    if (!w->boxes[e->to->index] && depth < 32) {
      if (w->seen[e->to->index]) continue;
      w->seen[e->to->index] = 1;
      add_edges(w, e->to, before, depth + 1);
      continue;
    }
    const int style = before ? 1 : e->kind == CRN_EDGE_DATA ? 0 : 2;
    if (w->seen[e->to->index] & 1 << style) continue;
    w->seen[e->to->index] = (unsigned char)(w->seen[e->to->index] | 1 << style);
    crn_str_addf(w->out, "n%d -> n%d", e->to->index, w->from->index);
    if (style) crn_str_addf(w->out, " [style=%s]", styles[style]);
    crn_str_add(w->out, ";\n");
  }
}

void crn_net_graph(const crn_net *net, crn_str *out) {
  unsigned char *seen = crn_calloc((size_t)net->n_layers + 1, sizeof *seen);
  bool *boxes = find_boxes(net);
  if (!seen || !boxes) {
    crn_free(seen);
    crn_free(boxes);
    out->failed = true;
    return;
  }
  crn_str_add(out, "digraph network {\nrankdir=BT;\nnode [shape=box, fontname=\"sans-serif\", fontsize=10];\n");
  for (int i = 0; i < net->n_scopes; i++) add_scope(net, i, boxes, out);
  for (int i = 0; i < net->n_layers; i++) {
    if (!boxes[i]) continue;
    memset(seen, 0, (size_t)net->n_layers + 1);
    edge_walk w = {boxes, out, net->layers[i], seen};
    add_edges(&w, net->layers[i], false, 0);
  }
  crn_str_add(out, "}\n");
  crn_free(seen);
  crn_free(boxes);
}
