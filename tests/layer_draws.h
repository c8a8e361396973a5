/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers drawn at random from the tables: class, sources, and for each option of its row a value that the row allows, a
 * value that means something in some class (an axis, a layer, an activation), or nonsense. A draw is a function of seed
 * and number alone, so that one can be repeated by itself.
 */
#ifndef CRN_TESTS_LAYER_DRAWS_H
#define CRN_TESTS_LAYER_DRAWS_H

#include <string.h>

#include "layer/all.h"
#include "layer/rec.h"
#include "loss/loss.h"
#include "net/build.h"
#include "value/value.h"

typedef struct draw_pool { /* layer dicts that somebody wrote, to start from */
  const crn_value **items;
  size_t n, cap;
} draw_pool;

typedef struct drawer {
  uint64_t state;
  crn_arena *arena;
  const draw_pool *pool;
} drawer;

/* splitmix64 (public domain, Vigna) */
static inline uint64_t draw_bits(drawer *d) {
  uint64_t z = (d->state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static inline size_t draw_below(drawer *d, size_t n) { return (size_t)(draw_bits(d) % n); }
static inline bool draw_chance(drawer *d, unsigned percent) { return draw_below(d, 100) < percent; }

/* A Python literal as a value. */
static inline crn_value *draw_literal(drawer *d, const char *text) {
  crn_value *v = NULL;
  return crn_v_parse_literal(d->arena, text, text, &v, NULL) == CRN_OK ? v : crn_v_none(d->arena);
}

/* What options of a name mean in most classes: "name", then literals separated by ";". */
static const char *const draw_meanings[][2] = {
    {"axis", "'T';'F';'B';'spatial';'static:0';'static:-1';'time';1;-1;2;'stag:data'"},
    {"axes", "'T';'F';['T'];['B','T'];'except_time';'except_batch';[1,2];'spatial';['T','F'];'BTF'"},
    {"in_spatial_dims", "['T'];['T','static:0'];['dim:6','dim:4'];['dim:6']"},
    {"dropout", "0.5;0.1;0"},
    {"dropout_axis", "'T';'F';'B'"},
    {"dropout_noise_shape", "{'*': None};{'T': 1};{'B': 1, 'F': None}"},
    {"in_dim", "'F'"},
    {"n_out", "1;2;3;4;5;12"},
    {"filter_size", "(1,);(3,);(2,2);(3,1);3"},
    {"pool_size", "(2,);(3,);(2,2);(1,2)"},
    {"strides", "1;2;(2,);(1,2);3"},
    {"dilation_rate", "1;2;(2,)"},
    {"padding", "'same';'valid';'same_static';(1,1);1;0;2"},
    {"activation", "'tanh';'relu';None;'sigmoid';'log_softmax';'tanh*2';'exp'"},
    {"unit", "'lstm';'nativelstm2';'gru';'lstmp';'basiclstm';'standardlstm';'lstmblock';'rnncell';'zoneoutlstm';"
             "{'output': {'class': 'linear', 'n_out': 3, 'from': ['data:source', 'prev:output']}};"
             "{'class': 'linear', 'n_out': 3};{'class': 'rnn_cell', 'unit': 'lstm', 'n_out': 3, 'from': 'data'};"
             "{'s': {'class': 'rnn_cell', 'unit': 'lstmblock', 'n_out': 4, 'from': 'data:source'},"
             " 'output': {'class': 'softmax', 'from': 's', 'n_out': 4}};"
             "{'output': {'class': 'choice', 'beam_size': 3, 'target': 'classes', 'from': 'p', 'initial_output': 0},"
             " 'end': {'class': 'compare', 'from': 'output', 'value': 3},"
             " 'p': {'class': 'softmax', 'target': 'classes', 'loss': 'ce', 'from': ['prev:output_']},"
             " 'output_': {'class': 'embed', 'from': 'output', 'n_out': 3, 'initial_output': 0}}"},
    {"subnetwork", "{'output': {'class': 'linear', 'n_out': 3, 'activation': 'tanh'}};"
                   "{'output': {'class': 'copy', 'from': 'h'}, 'h': {'class': 'rec', 'unit': 'lstm', 'n_out': 2}}"},
    {"true_layer", "{'class': 'copy', 'from': 'data'};'data'"},
    {"false_layer", "{'class': 'linear', 'n_out': 3, 'from': 'data'};'data'"},
    {"eval", "'source(0)';'source(0)+source(1)';'tf.tanh(source(0))';'source(0)*2';'tf.reduce_sum(source(0), axis=-1)';"
             "'tf.concat([source(0), source(0)], axis=-1)';'source(0)[0]'"},
    {"kind", "'add';'sub';'mul';'maximum';'minimum';'average';'eval';'equal';'less';'not_equal';'concat';'logical_or'"},
    {"mode", "'sum';'max';'mean';'min';'avg';'argmax';'logsumexp';'any';'constant';'reflect';'edge';'add';'multiply'"},
    {"dtype", "'float32';'int32';'bool';'int64';'uint8'"},
    {"shape", "(2,);(3,);();(2,3);[]"},
    {"value", "0;1;2.5;True;[1.0,2.0];'vec'"},
    {"size", "2;3;1;(3,);{'dim:6': 2};'label'"},
    {"dims", "(2,3);(-1,2);(2,-1);(3,1);[6]"},
    {"dim", "1;2;3"},
    {"position", "0;1;'label';'classes';2"},
    {"start", "0;1;'label';'classes';-1"},
    {"limit", "5;3"},
    {"repetitions", "2;'label';'classes';1"},
    {"repeat", "2;'label';1;0"},
    {"factor", "2;3;'vec'"},
    {"k", "1;2;3"},
    {"multiples", "{'F': 2};{'T': 2};{'B': 3}"},
    {"num_splits", "2;3;1"},
    {"size_splits", "[1,2];[2,1];[3]"},
    {"window_size", "1;2;3;5"},
    {"chunk_size", "2;3"},
    {"perm", "{'T': 'F', 'F': 'T'};{0: 1, 1: 0};['B','F','T']"},
    {"set_axes", "{'T': 'F'};{'F': 'static:0'}"},
    {"switch_axes", "'BT';'TF';['B','F']"},
    {"var1", "'T';'F';'static:0';'auto'"},
    {"var2", "'T';'F';None;'auto'"},
    {"red1", "'F';'T';-1"},
    {"red2", "'F';'T';-1"},
    {"reduce", "'F';'T'"},
    {"target", "'classes';'classes';'data';'layer:h';None;'classes'"},
    {"beam_size", "1;2;3"},
    {"initial_output", "0;1;'zeros';'ones';'vec'"},
    {"initial_state", "'zeros';'vec'"},
    {"reuse_params", "'h';'lin'"},
    {"mask", "'flag';None;'dropout'"},
    {"num_heads", "1;2;3"},
    {"total_key_dim", "6;4;2"},
    {"frame_size", "4;8"},
    {"frame_shift", "2;4"},
    {"fft_size", "4;8"},
    {"max_seq_len", "4;2"},
    {"condition", "'flag1';'flag'"},
    {"seed", "1;42"},
    {"minval", "0;1"},
    {"maxval", "2;5"},
    {"distribution", "'normal';'uniform';'bernoulli';'truncated_normal'"},
    {"loss_wrapper", "'ce'"},
    {"batch_norm", "True;False;{'momentum': 0.5};{'masked_time': True}"},
    {"norm", "None;'ortho'"},
    {"layer_norm", "True"},
    {"out_type", "{'dim': 3};{'shape': (None, 3)};{'dtype': 'float32'};{}"},
};

/* Layers of the network around a drawn one. */
static const char *const draw_sources[] = {
    "data",         "data", "h",     "h",    "h",     "data",  "lin",       "classes",
    "data:classes", "vec",  "image", "flag", "label", "flag1", "time_flat", "x2"};
enum { N_SOURCES = sizeof draw_sources / sizeof *draw_sources };

static const char *const draw_nonsense[] = {"None",
                                            "True",
                                            "False",
                                            "0",
                                            "1",
                                            "-1",
                                            "2",
                                            "3",
                                            "7",
                                            "-3",
                                            "1000",
                                            "65536",
                                            "2147483647",
                                            "-2147483647",
                                            "4611686018427387904",
                                            "-9223372036854775807",
                                            "0.0",
                                            "0.5",
                                            "-0.5",
                                            "1.5",
                                            "1e-30",
                                            "1e30",
                                            "-1e300",
                                            "float('inf')",
                                            "float('nan')",
                                            "''",
                                            "'T'",
                                            "'F'",
                                            "'B'",
                                            "'x'",
                                            "'output'",
                                            "'data'",
                                            "'data:nope'",
                                            "'prev:x'",
                                            "'base:data'",
                                            "':i'",
                                            "'a/b'",
                                            "'static:7'",
                                            "'stag:x'",
                                            "'source(0)'",
                                            "'1/0'",
                                            "'%s%n'",
                                            "()",
                                            "[]",
                                            "{}",
                                            "(1,)",
                                            "(0,)",
                                            "(-1,)",
                                            "(2, 2)",
                                            "[None]",
                                            "['T', 'F']",
                                            "['x', 'x']",
                                            "{'x': 1}",
                                            "{'F': 0}",
                                            "{0: 1}",
                                            "{'class': 'copy'}",
                                            "{'class': 'ce'}",
                                            "[[]]",
                                            "{'T': {'T': {}}}",
                                            "set()",
                                            "'ce'",
                                            "'h'",
                                            "'vec'",
                                            "'flag'"};
enum { N_NONSENSE = sizeof draw_nonsense / sizeof *draw_nonsense };

static inline crn_value *draw_nonsense_value(drawer *d) {
  return draw_literal(d, draw_nonsense[draw_below(d, N_NONSENSE)]);
}

/* The k-th part of a list separated by sep, as a string of the arena. */
static inline const char *draw_part(drawer *d, const char *list, char sep) {
  size_t n = 1;
  for (const char *p = list; *p; p++) n += *p == sep;
  size_t k = draw_below(d, n);
  while (k--) list = strchr(list, sep) + 1;
  const char *end = strchr(list, sep);
  return crn_arena_strndup(d->arena, list, end ? (size_t)(end - list) : strlen(list));
}

static inline crn_value *draw_layer_name(drawer *d) {
  return crn_v_str(d->arena, draw_sources[draw_below(d, N_SOURCES)]);
}

/* A value that the row allows. */
static inline crn_value *draw_allowed(drawer *d, const crn_opt *o) {
  const bool named = !o->choices && o->type != CRN_OPT_DIM && o->type != CRN_OPT_LAYER && o->type != CRN_OPT_LAYERS;
  for (size_t i = 0; named && i < sizeof draw_meanings / sizeof *draw_meanings; i++)
    if (!strcmp(draw_meanings[i][0], o->name)) return draw_literal(d, draw_part(d, draw_meanings[i][1], ';'));
  const bool ranged = o->min < o->max;
  const double lo = ranged ? o->min : 0, hi = ranged && o->max < lo + 4 ? o->max : lo + 4;
  switch (o->type) {
  case CRN_OPT_BOOL:
    return crn_v_bool(d->arena, draw_chance(d, 50));
  case CRN_OPT_INT:
    return crn_v_int(d->arena, (int64_t)lo + (int64_t)draw_below(d, (size_t)(hi - lo) + 1));
  case CRN_OPT_FLOAT:
    return crn_v_float(d->arena, lo + (hi - lo) * (double)draw_below(d, 9) / 8);
  case CRN_OPT_STR:
    if (o->choices) return crn_v_str(d->arena, draw_part(d, o->choices, '|'));
    return draw_layer_name(d);
  case CRN_OPT_LAYER:
    return draw_layer_name(d);
  case CRN_OPT_LAYERS: {
    crn_value *list = crn_v_seq(d->arena, CRN_V_LIST);
    for (size_t n = 1 + draw_below(d, 2); n--;) crn_v_push(d->arena, list, draw_layer_name(d));
    return list;
  }
  case CRN_OPT_DIM: {
    crn_value *v = crn_v_none(d->arena);
    const bool dynamic = draw_chance(d, 30);
    if (v)
      *v = (crn_value){.kind = CRN_V_DIM,
                       .u.dim = {.name = dynamic ? "dyn" : "three",
                                 .kind = dynamic ? "spatial" : "feature",
                                 .size = dynamic ? -1 : 3}};
    return v;
  }
  case CRN_OPT_VALUE:
    break;
  }
  return o->dflt && draw_chance(d, 75) ? draw_literal(d, o->dflt) : draw_nonsense_value(d);
}

/* Required options stay as they are where given. */
static inline void draw_options(drawer *d, crn_value *dict, const crn_opt *opts, unsigned percent, unsigned wrong) {
  for (const crn_opt *o = opts; o && o->name; o++)
    if (!o->dflt && !crn_v_get(dict, o->name) ? !draw_chance(d, wrong / 2) : draw_chance(d, percent))
      crn_v_put(d->arena, dict, o->name, draw_chance(d, wrong) ? draw_nonsense_value(d) : draw_allowed(d, o));
}

static inline crn_value *draw_from(drawer *d, const crn_layer_desc *c) {
  const size_t n = c->flags & CRN_L_NO_SOURCES    ? 0
                   : c->flags & CRN_L_MANY_INPUTS ? 1 + draw_below(d, 3)
                                                  : 1 + (draw_chance(d, 6) ? 1 : 0);
  crn_value *list = crn_v_seq(d->arena, CRN_V_LIST);
  for (size_t i = 0; i < n; i++) crn_v_push(d->arena, list, draw_layer_name(d));
  return list;
}

/* All layer dicts in v, at any depth. */
static inline void draw_pool_add(draw_pool *p, const crn_value *v) {
  for (size_t i = 0; crn_v_is_seq(v) && i < crn_v_len(v); i++) draw_pool_add(p, crn_v_at(v, i));
  if (!crn_v_is_dict(v)) return;
  for (size_t i = 0; i < v->u.dict.n; i++) draw_pool_add(p, v->u.dict.vals[i]);
  if (!crn_v_is_str(crn_v_get(v, "class"))) return;
  if (p->n == p->cap) {
    const size_t cap = p->cap ? 2 * p->cap : 256;
    const crn_value **more = crn_realloc((void *)p->items, cap * sizeof *more);
    if (!more) return;
    p->items = more;
    p->cap = cap;
  }
  p->items[p->n++] = v;
}

/* A copy of a layer of class c that somebody wrote, with other sources; an empty dict if there is none. */
static inline crn_value *draw_written(drawer *d, const crn_layer_desc *c) {
  size_t n = 0;
  for (size_t i = 0; i < d->pool->n; i++) n += !strcmp(crn_v_cstr(crn_v_get(d->pool->items[i], "class")), c->name);
  if (!n) return crn_v_dict(d->arena);
  size_t k = draw_below(d, n), i = 0;
  while (strcmp(crn_v_cstr(crn_v_get(d->pool->items[i], "class")), c->name) || k-- > 0) i++;
  crn_value *l = crn_v_copy(d->arena, d->pool->items[i]);
  for (const crn_opt *o = c->opts; o && o->name; o++)
    if (o->type == CRN_OPT_LAYER && crn_v_is_str(crn_v_get(l, o->name)))
      crn_v_put(d->arena, l, o->name, draw_layer_name(d));
  const crn_value *from = crn_v_get(l, "from");
  crn_value *list = crn_v_seq(d->arena, CRN_V_LIST);
  for (n = crn_v_is_seq(from) ? crn_v_len(from) : crn_v_is_none(from) ? 0 : 1, i = 0; i < n; i++) {
    crn_value *item = crn_v_is_seq(from) ? crn_v_at(from, i) : NULL, *name = draw_layer_name(d);
    if (crn_v_is_seq(item) && crn_v_len(item) == 2) { /* name and axis */
      crn_v_push(d->arena, list, item);
      item->u.seq.items[0] = name;
    } else {
      crn_v_push(d->arena, list, name);
    }
  }
  crn_v_put(d->arena, l, "from", list);
  return l;
}

static inline const crn_loss_desc *draw_loss(drawer *d) {
  size_t n = 0;
  while (crn_loss_class_at(n)) n++;
  return crn_loss_class_at(draw_below(d, n));
}

/* A class; seldom one that isn't implemented. */
static inline const crn_layer_desc *draw_class(drawer *d) {
  size_t n = 0;
  while (crn_layer_class_at(n)) n++;
  for (;;) {
    const crn_layer_desc *c = crn_layer_class_at(draw_below(d, n));
    if (c->forward || draw_chance(d, 5)) return c;
  }
}

/* A layer dict of class c. Half of the draws have no nonsense on purpose. */
static inline crn_value *draw_layer(drawer *d, const crn_layer_desc *c) {
  bool fresh = draw_chance(d, 40);
  crn_value *l = fresh ? crn_v_dict(d->arena) : draw_written(d, c);
  const unsigned wrong = draw_chance(d, 50) ? 0 : 12;
  fresh |= crn_v_len(l) == 0;
  crn_v_put(d->arena, l, "class", crn_v_str(d->arena, c->name));
  if (fresh || draw_chance(d, 10)) crn_v_put(d->arena, l, "from", draw_from(d, c));
  draw_options(d, l, c->opts, (unsigned)draw_below(d, 3) * 15, wrong);
  if (draw_chance(d, fresh ? 35 : 8)) crn_v_put(d->arena, l, "n_out", crn_v_int(d->arena, draw_chance(d, 75) ? 3 : 4));
  draw_options(d, l, crn_options_of_all(), 1, wrong);
  if (c->flags & CRN_L_CONCAT) draw_options(d, l, crn_options_of_inputs(), 4, wrong);
  if (draw_chance(d, 15)) {
    const crn_loss_desc *loss = draw_loss(d);
    crn_value *opts = crn_v_dict(d->arena);
    draw_options(d, opts, loss->opts, 20, wrong);
    crn_v_put(d->arena, l, "loss", crn_v_str(d->arena, loss->name));
    if (crn_v_len(opts)) crn_v_put(d->arena, l, "loss_opts", opts);
    if (draw_chance(d, 70)) crn_v_put(d->arena, l, "target", crn_v_str(d->arena, "classes"));
  }
  return l;
}

#endif
