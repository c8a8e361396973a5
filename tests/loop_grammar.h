/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops drawn at random: layers 'a', 'b', … of two features each, from sources that may be one another (now or before),
 * the loop's input, data and layers around it. All that is drawn here must work: nothing in it is refused.
 */
#ifndef CRN_TESTS_LOOP_GRAMMAR_H
#define CRN_TESTS_LOOP_GRAMMAR_H

#include "layer_draws.h"

enum { LOOP_MAX = 8 };

typedef struct loop_draw {
  drawer d;
  crn_str s; /* the text */
  int n;     /* layers that are read by others */
  int done;  /* of them, are written */
  int kind[LOOP_MAX];
  bool cell[LOOP_MAX]; /* has a state for get_last_hidden_state */
  bool keep[LOOP_MAX]; /* is_output_layer */
  bool last[LOOP_MAX]; /* need_last */
  int depth;           /* scopes around: "base:" so often leads to the root */
  bool sub;            /* in a sub network: "data" is its source */
  bool ends;           /* the loop has no source and ends itself */
  bool eos;            /* include_eos */
  int up;              /* layers of the scope around that may be read */
  bool frames;         /* weights over no frames would be nan: sequences must have some */
} loop_draw;

static inline size_t pick(loop_draw *l, size_t n) { return draw_below(&l->d, n); }
static inline bool often(loop_draw *l, unsigned percent) { return draw_chance(&l->d, percent); }

/* Classes that know their features whatever their sources are: cycles must have one. */
static inline bool settles(int kind) { return kind <= 1 || kind == 5 || kind == 6; }
static inline int pick_settled(loop_draw *l) {
  int k = (int)pick(l, (size_t)l->n);
  while (k >= l->done && !settles(l->kind[k])) k = (int)pick(l, (size_t)l->n);
  return k;
}

/* Layer of the root. */
static inline void put_root(loop_draw *l, const char *name) {
  crn_str_addf(&l->s, "'");
  for (int i = 0; i < l->depth; i++) crn_str_addf(&l->s, "base:");
  crn_str_addf(&l->s, "%s'", name);
}

/* A source of two features: an earlier layer, any layer of the step before, or one around the loop. */
static inline void put_vector(loop_draw *l) {
  if (l->done && often(l, 45))
    crn_str_addf(&l->s, "'%c'", 'a' + (int)pick(l, (size_t)l->done));
  else if (often(l, 65))
    crn_str_addf(&l->s, "'prev:%c'", 'a' + pick_settled(l));
  else if (l->up && often(l, 50))
    crn_str_addf(&l->s, "'base:%s%c'", often(l, 30) ? "prev:" : "", 'a' + (int)pick(l, (size_t)l->up));
  else if (often(l, 50))
    put_root(l, "vec");
  else
    crn_str_addf(&l->s, "'in'");
}
/* Any number of features. */
static inline void put_any(loop_draw *l) {
  if (l->ends && l->depth == 1) /* no frames to read */
    put_vector(l);
  else if (often(l, 30))
    l->sub ? crn_str_addf(&l->s, "'data'")
           : crn_str_addf(&l->s, l->depth > 1 || often(l, 60) ? "'data:source'" : "'data'");
  else if (often(l, 15))
    put_root(l, "vec3");
  else
    put_vector(l);
}
static inline void put_list(loop_draw *l, int at_least, int at_most) {
  const int n = at_least + (int)pick(l, (size_t)(at_most - at_least + 1));
  crn_str_addf(&l->s, "[");
  for (int i = 0; i < n; i++) {
    if (i) crn_str_addf(&l->s, ", ");
    put_any(l);
  }
  crn_str_addf(&l->s, "]");
}
static inline void put_pair(loop_draw *l) {
  crn_str_addf(&l->s, "[");
  put_vector(l);
  crn_str_addf(&l->s, ", ");
  put_vector(l);
  crn_str_addf(&l->s, "]");
}

#define LINEAR "'class': 'linear', 'activation': 'tanh', 'n_out': 2"

static inline void put_cell(loop_draw *l) {
  static const char *const cells[] = {"LSTMBlock", "BasicRNN", "GRU", "LayerNormVariantsLSTM", "ZoneoutLSTM", "RHN"};
  crn_str_addf(&l->s, "'class': 'rnn_cell', 'unit': '%s', 'n_out': 2, 'from': ", cells[pick(l, 6)]);
  put_list(l, 1, 2);
}
static inline void put_unit(loop_draw *l) {
  static const char *const units[] = {"nativelstm2", "lstm", "standardlstm", "GRU", "BasicRNN"};
  crn_str_addf(&l->s, "'class': 'rec', 'unit': '%s', 'n_out': 2, 'from': ", units[pick(l, 5)]);
  put_list(l, 1, 2);
}
/* The layers of a scope within this one, with "output". */
static inline void put_inside(loop_draw *l, bool sub);

static inline void put_subnet(loop_draw *l) {
  crn_str_addf(&l->s, "'class': 'subnetwork', 'from': ");
  put_list(l, 1, 2);
  static const char *const inner[] = {
      "'output': {" LINEAR ", 'from': ['data', 'prev:output']}",
      "'y': {" LINEAR ", 'from': ['data', 'prev:z']}, 'z': {'class': 'activation', 'activation': 'sigmoid', 'from': "
      "'y'}, 'output': {'class': 'combine', 'kind': 'add', 'from': ['y', 'prev:y']}",
      "'y': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'n_out': 2, 'from': 'data'}, 'output': {'class': 'copy', "
      "'from': 'y'}",
      "'y': {" LINEAR ", 'from': ['data', 'base:base:vec']}, 'output': {'class': 'cumsum', 'from': 'y'}"};
  crn_str_addf(&l->s, ", 'subnetwork': {");
  if (l->depth == 1 && often(l, 50))
    crn_str_addf(&l->s, "%s", inner[pick(l, 4)]);
  else
    put_inside(l, true);
  crn_str_addf(&l->s, "}");
}

/* A loop inside of this one, and what becomes of its frames. */
static inline void put_nested(loop_draw *l, char name) {
  const size_t k = pick(l, 3);
  if (k == 2) {
    crn_str_addf(&l->s, "'mul_%c': {'class': 'combine', 'kind': 'mul', 'from': [", name);
    put_root(l, "enc");
    crn_str_addf(&l->s, ", ");
    put_vector(l);
    crn_str_addf(&l->s, "]}, ");
  }
  crn_str_addf(&l->s, "'loop_%c': {'class': 'rec', 'from': ", name);
  if (k == 2)
    crn_str_addf(&l->s, "'mul_%c'", name);
  else
    put_root(l, k ? "enc" : "data");
  if (often(l, 30)) crn_str_addf(&l->s, ", 'optimize_move_layers_out': %%s");
  crn_str_addf(&l->s, ", 'unit': {");
  put_inside(l, false);
  const bool mean = often(l, 30);
  l->frames |= mean;
  crn_str_addf(&l->s, "}}, '%c': {'class': 'reduce', 'mode': '%s', 'axes': 'T', 'from': 'loop_%c'", name,
               mean ? "mean" : "sum", name);
}
static inline void put_masked(loop_draw *l, char name) {
  crn_str_addf(&l->s, "'sum_%c': {'class': 'reduce', 'mode': 'sum', 'axes': 'F', 'from': ", name);
  put_any(l);
  crn_str_addf(&l->s, "}, 'mask_%c': {'class': 'compare', 'kind': 'greater', 'value': 0.0123, 'from': 'sum_%c'}, ",
               name, name);
  crn_str_addf(&l->s, "'%c': {'class': 'masked_computation', 'mask': 'mask_%c', 'from': ", name, name);
  put_any(l);
  static const char *const unit[] = {
      "{" LINEAR ", 'from': 'data'}", "{'class': 'rnn_cell', 'unit': 'LSTMBlock', 'n_out': 2, 'from': 'data'}",
      "{'class': 'subnetwork', 'from': 'data', 'subnetwork': {'y': {'class': 'rnn_cell', 'unit': 'GRU', 'n_out': 2, "
      "'from': 'data'}, 'output': {" LINEAR ", 'from': 'y'}}}",
      "{" LINEAR ", 'from': 'data', 'initial_output': 'ones'}", "{" LINEAR ", 'from': ['data', 'prev:a']}"};
  crn_str_addf(&l->s, ", 'unit': %s", unit[pick(l, 4)]);
}
/* Layers with a state that grows, or a window of frames. */
static inline void put_history(loop_draw *l, char name) {
  static const char *const text[] = {
      "'lin_%c': {" LINEAR ", 'from': %s}, '%c': {'class': 'self_attention', 'num_heads': 1, 'total_key_dim': 2, "
      "'n_out': 2, 'attention_left_only': True, 'from': 'lin_%c'",
      "'win_%c': {'class': 'window', 'window_size': 3, 'window_right': 0, 'from': %s}, '%c': {'class': 'reduce', "
      "'mode': 'sum', 'axes': 'dim:3', 'from': 'win_%c'",
      "'l_%c': {" LINEAR ", 'from': %s}, '%c': {'class': 'cumsum', 'from': 'l_%c'",
      "'lin_%c': {" LINEAR ", 'from': %s}, '%c': {'class': 'positional_encoding', 'add_to_input': True, 'from': "
      "'lin_%c'"};
  crn_str src = l->s;
  l->s = (crn_str){0};
  put_vector(l);
  crn_str arg = l->s;
  l->s = src;
  const size_t k = pick(l, 3);
  crn_str_addf(&l->s, text[k], name, crn_str_get(&arg), name, name);
  crn_str_free(&arg);
}
static inline void put_attention(loop_draw *l, char name) {
  l->frames = true;
  crn_str_addf(&l->s, "'q_%c': {'class': 'combine', 'kind': 'add', 'from': [", name);
  put_root(l, "enc");
  crn_str_addf(&l->s, ", ");
  put_vector(l);
  if (often(l, 30)) { /* frames beside one another */
    l->frames = true;
    crn_str_addf(&l->s,
                 "]}, 'conv_%c': {'class': 'conv', 'filter_size': (1,), 'padding': 'valid', 'n_out': 2, "
                 "'activation': 'tanh', 'from': 'q_%c'}, '%c': {'class': 'reduce', 'mode': 'max', 'axes': 'T', "
                 "'from': 'conv_%c'",
                 name, name, name, name);
    return;
  }
  crn_str_addf(&l->s,
               "]}, 't_%c': {'class': 'activation', 'activation': 'tanh', 'from': 'q_%c'}, 'e_%c': {'class': "
               "'linear', 'activation': None, 'n_out': 1, 'from': 't_%c'}, 'w_%c': {'class': 'softmax_over_spatial', "
               "'from': 'e_%c'}, '%c': {'class': 'generic_attention', 'weights': 'w_%c', 'base': ",
               name, name, name, name, name, name, name, name);
  put_root(l, "enc");
}
/* Other axes: parts of the features, the steps so far; labels; states. */
static inline void put_shapes(loop_draw *l, char name) {
  static const char *const text[] = {
      "'x_%c': {'class': 'linear', 'activation': 'tanh', 'n_out': 6, 'from': [%s]}, 'y_%c': {'class': 'split_dims', "
      "'axis': 'F', 'dims': (3, 2), 'from': 'x_%c'}, '%c': {'class': 'reduce', 'mode': 'max', 'axes': 'dim:3', 'from': "
      "'y_%c'",
      "'x_%c': {'class': 'linear', 'activation': 'sigmoid', 'n_out': 4, 'from': [%s]}, 'y_%c': {'class': 'dropout', "
      "'dropout': 0.0, 'from': 'x_%c'}, '%c': {'class': 'gating', 'activation': 'tanh', 'from': 'y_%c'",
      "'x_%c': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': [%s]}, 'y_%c': {'class': 'softmax', "
      "'n_out': 5, "
      "'from': 'x_%c'}, '%c': {'class': 'slice', 'axis': 'F', 'slice_start': 1, 'slice_end': 3, 'from': 'y_%c'",
      "'x_%c': {'class': 'linear', 'activation': None, 'n_out': 5, 'from': [%s]}, 'y_%c': {'class': 'reduce', 'mode': "
      "'argmax', 'axes': 'F', 'from': 'x_%c'}, '%c': {'class': 'linear', 'activation': None, 'n_out': 2, 'from': "
      "'y_%c'",
      "'x_%c': {'class': 'rnn_cell', 'unit': 'BasicRNN', 'n_out': 2, 'from': [%s]}, 'y_%c': {'class': "
      "'get_last_hidden_state', 'n_out': 2, 'from': 'x_%c'}, '%c': {'class': 'copy', 'from': 'y_%c'",
      "'x_%c': {" LINEAR ", 'from': [%s]}, 'y_%c': {'class': 'expand_dims', 'axis': 'spatial', 'from': 'x_%c'}, '%c': "
      "{'class': 'squeeze', 'axis': 'auto', 'from': 'y_%c'"};
  crn_str text_before = l->s;
  l->s = (crn_str){0};
  put_any(l);
  crn_str arg = l->s;
  l->s = text_before;
  crn_str_addf(&l->s, text[pick(l, 6)], name, crn_str_get(&arg), name, name, name, name);
  crn_str_free(&arg);
}
static inline void put_step(loop_draw *l, char name) {
  crn_str_addf(&l->s,
               "'i_%c': {'class': 'cast', 'dtype': 'float32', 'from': ':i'}, '%c': {'class': 'eval', 'eval': "
               "'source(0) * (0.5 + 0.1 * source(1))', 'from': [",
               name, name);
  put_vector(l);
  crn_str_addf(&l->s, ", 'i_%c']", name);
}

/* The layers of one item up to the options that all may have. cell: it has a state of its own as output before. */
static inline void put_item(loop_draw *l, char name, bool *cell) {
  static const char *const kinds[] = {"add", "mul", "sub", "maximum"};
  const int k = l->kind[name - 'a'];
  *cell = k == 5 || k == 6;
  if (k < 10) { /* one layer */
    if (k == 8) return put_masked(l, name);
    if (k == 9) return put_step(l, name);
    crn_str_addf(&l->s, "'%c': {", name);
    if (k <= 1) crn_str_addf(&l->s, LINEAR ", 'from': "), put_list(l, 1, 3);
    if (k == 2) crn_str_addf(&l->s, "'class': 'combine', 'kind': '%s', 'from': ", kinds[pick(l, 4)]), put_pair(l);
    if (k == 3)
      crn_str_addf(&l->s, "'class': '%s', 'from': ", often(l, 50) ? "copy" : "activation', 'activation': 'sigmoid"),
          put_vector(l);
    if (k == 4) crn_str_addf(&l->s, "'class': 'eval', 'eval': 'source(0) * source(1) + 0.5', 'from': "), put_pair(l);
    if (k == 5) put_cell(l);
    if (k == 6) put_unit(l);
    if (k == 7) put_subnet(l);
    return;
  }
  if (k == 10) put_attention(l, name);
  if (k == 11 || k == 13) put_history(l, name);
  if (k == 12) put_nested(l, name);
  if (k >= 14) put_shapes(l, name);
}

/* n items, with the options that all may have; those of the outermost loop are read outside of it. */
static inline void put_items(loop_draw *l, int n) {
  static const char *const initial[] = {"0", "1", "'zeros'", "'ones'", "'var'", "vec", "0.5", "'apply(0)'"};
  l->n = n;
  l->done = 0;
  for (int i = 0; i < l->n; i++) l->kind[i] = i ? (int)pick(l, l->depth < 3 ? 16 : 7) : 0;
  for (int i = 0; i < l->n; i++) {
    bool cell;
    put_item(l, (char)('a' + i), &cell);
    l->cell[i] = cell;
    if (!cell && often(l, 45)) {
      const size_t k = pick(l, i ? 7 : 8);
      crn_str_addf(&l->s, ", 'initial_output': ");
      if (k == 5)
        put_root(l, initial[k]);
      else
        crn_str_addf(&l->s, "%s", initial[k]);
    }
    if ((l->keep[i] = l->depth == 1 && often(l, 35))) crn_str_addf(&l->s, ", 'is_output_layer': True");
    if ((l->last[i] = l->depth == 1 && !l->eos && often(l, 20))) crn_str_addf(&l->s, ", 'need_last': True");
    crn_str_addf(&l->s, "}, ");
    l->done = i + 1;
  }
}

static inline void put_inside(loop_draw *l, bool sub) {
  loop_draw inner = {.d = l->d, .s = l->s, .depth = l->depth + 1, .sub = sub, .up = l->done};
  crn_str_addf(&inner.s, "'in': {" LINEAR ", 'from': '%s'}, ", sub ? "data" : "data:source");
  put_items(&inner, 1 + (int)pick(&inner, 3));
  crn_str_addf(&inner.s, "'output': {'class': 'copy', 'from': '%c'}", 'a' + (int)pick(&inner, (size_t)inner.n));
  l->d = inner.d;
  l->s = inner.s;
  l->frames |= inner.frames;
}

static inline void put_loop(loop_draw *l, const char *options) {
  crn_str_addf(&l->s, "'loop': {'class': 'rec', %s, 'optimize_move_layers_out': %%s, 'unit': {", options);
  crn_str_addf(&l->s, "'in': {" LINEAR ", 'from': '%s'}, ", l->ends ? "base:vec3" : "data:source");
  l->depth = 1;
  put_items(l, 2 + (int)pick(l, 5));
  if (l->ends)
    crn_str_addf(&l->s,
                 "'end_sum': {'class': 'reduce', 'mode': 'sum', 'axes': 'F', 'from': '%c'}, 'end': {'class': "
                 "'compare', 'kind': 'greater', 'value': 0.2113, 'from': 'end_sum'}, ",
                 'a' + (int)pick(l, (size_t)l->n));
  else if (often(l, 30))
    crn_str_addf(&l->s, "'ce': {'class': 'softmax', 'from': 'b', 'target': 'classes', 'loss': 'ce'}, ");
  crn_str_addf(&l->s, "'output': {'class': 'copy', 'from': '%c'}}}, ", 'a' + (int)pick(l, (size_t)l->n));
}

/* A whole network, where "%s" stands for optimize_move_layers_out's value. */
static inline void put_network(loop_draw *l) {
  crn_str_addf(&l->s,
               "{'enc': {" LINEAR ", 'from': 'data'}, 'enc2': {" LINEAR ", 'from': 'enc'}, 'vec': {'class': 'reduce', "
               "'mode': 'sum', 'axes': 'T', 'from': 'enc'}, 'vec3': {'class': 'linear', 'n_out': 3, "
               "'activation': 'tanh', 'from': 'vec'}, ");
  l->ends = often(l, 30);
  l->eos = l->ends && often(l, 40);
  if (l->ends)
    put_loop(l, l->eos ? "'from': [], 'max_seq_len': 4, 'include_eos': True" : "'from': [], 'max_seq_len': 5");
  else
    put_loop(l, often(l, 70) ? "'from': 'data'" : often(l, 50) ? "'from': ['enc', 'data']" : "'from': 'enc2'");
  for (int i = 0; i < l->n; i++) {
    const char c = (char)('a' + i);
    if (l->keep[i])
      crn_str_addf(&l->s, "'out_%c': {'class': %s%c', 'is_output_layer': True}, ", c,
                   often(l, 70) ? "'copy', 'from': 'loop/" : "'get_rec_accumulated', 'from': 'loop', 'sub_layer': '",
                   c);
    if (l->last[i])
      crn_str_addf(&l->s,
                   "'last_%c': {'class': 'rec_last_output', 'rec_layer': 'loop', 'sub_layer_name': '%c', "
                   "'is_output_layer': True}, ",
                   c, c);
  }
  crn_str_addf(&l->s, l->ends ? "'output': {'class': 'reduce', 'mode': 'sum', 'axes': 'T', 'from': 'loop', 'loss': "
                                "'as_is'}}"
                              : "'output': {'class': 'softmax', 'from': 'loop', 'loss': 'ce', 'target': 'classes'}}");
}

#endif
