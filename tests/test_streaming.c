/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming sessions: pieces of any size, also none, give the bits of the whole, for every class that looks along the
 * axis and for stacks of them; networks that need frames to come are refused by layer and reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "creturnn.h"
#include "layer/unit.h"

enum { SEQS = 3, FRAMES = 23, DIM = 5, MAX_OUT = 1 << 17 };

static const int32_t all_equal[SEQS] = {FRAMES, FRAMES, FRAMES}, all_differ[SEQS] = {17, FRAMES, 6};

static uint32_t draw(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

static void random_values(float *x, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) x[i] = (float)draw(&seed) / (float)(1 << 24) * 4 - 2;
}

/* A model of a network dict (JSON with single quotes); more: further config keys. */
static crn_model *model_of(const char *net, const char *more, crn_use use) {
  char path[] = "/tmp/crn_stream_XXXXXX.json", text[6000];
  const int fd = mkstemps(path, 5);
  assert_true(fd >= 0);
  const int n =
      snprintf(text, sizeof(text),
               "{'extern_data': {'data': {'shape': {'__tuple__': [null, 5]}, 'dim': 5}}, 'network': %s%s}", net, more);
  assert_true(n > 0 && (size_t)n < sizeof(text));
  for (char *p = text; *p; p++)
    if (*p == '\'') *p = '"';
  FILE *out = fdopen(fd, "w");
  assert_non_null(out);
  assert_true(fputs(text, out) >= 0);
  assert_int_equal(fclose(out), 0);
  crn_message m;
  crn_model *model;
  crn_model_options o = crn_model_defaults();
  o.use = use;
  const crn_status st = crn_model_load(path, NULL, &o, &model, &m);
  assert_int_equal(remove(path), 0);
  if (st != CRN_OK) fail_msg("%s\n%s", net, m.text);
  return model;
}

static crn_session *session(crn_model *model, int streaming) {
  crn_message m;
  crn_session *s;
  if (crn_session_new(model, &(crn_session_options){.num_threads = 1, .streaming = streaming}, &s, &m) != CRN_OK)
    fail_msg("%s", m.text);
  return s;
}

/* Frames [from, from + n) of all sequences. */
static crn_status feed(crn_session *s, const float *x, const int32_t *lens, int32_t from, int32_t n, crn_message *m) {
  static float piece[SEQS * FRAMES * DIM];
  int32_t part[SEQS];
  const int32_t *lengths[1] = {part};
  const int64_t shape[3] = {SEQS, n, DIM};
  for (int b = 0; b < SEQS; b++) {
    part[b] = lens[b] - from < 0 ? 0 : lens[b] - from < n ? lens[b] - from : n;
    memcpy(piece + b * n * DIM, x + (b * FRAMES + from) * DIM, (size_t)(n * DIM) * sizeof(float));
  }
  return crn_session_input(s, "data", CRN_FLOAT32, 3, shape, piece, 1, lengths, m);
}

typedef struct frames { /* of one sequence, one after the other */
  float *v;
  int64_t n, size; /* frames, values of each */
} frames;

static void append(frames *f, const crn_output *o, int64_t b) {
  int64_t n = o->shape[o->time_axis], index[8] = {0};
  if (o->lengths) n = o->lengths[b];
  assert_true(o->batch_axis >= 0 && o->time_axis >= 0 && n <= o->shape[o->time_axis]);
  f->size = 1;
  for (int i = 0; i < o->rank; i++)
    if (i != o->batch_axis && i != o->time_axis) f->size *= o->shape[i];
  for (int64_t t = 0; t < n; t++, f->n++)
    for (int64_t k = 0; k < f->size; k++) {
      int64_t rest = k, at = 0;
      for (int i = o->rank; i-- > 0;) {
        if (i == o->batch_axis || i == o->time_axis) continue;
        index[i] = rest % o->shape[i];
        rest /= o->shape[i];
      }
      index[o->batch_axis] = b;
      index[o->time_axis] = t;
      for (int i = 0; i < o->rank; i++) at = at * o->shape[i] + index[i];
      assert_true((f->n + 1) * f->size <= MAX_OUT);
      const char *data = o->data;
      memcpy(&f->v[f->n * f->size + k], data + 4 * at, 4); /* float32 or int32 */
    }
}

static void run(crn_session *s, const char *net, frames f[SEQS]) {
  crn_message m;
  crn_output o;
  if (crn_session_run(s, &m) != CRN_OK || crn_session_output(s, "output", &o, &m) != CRN_OK)
    fail_msg("%s\n%s", net, m.text);
  for (int b = 0; b < SEQS; b++) append(&f[b], &o, b);
}

static frames whole[SEQS], parts[SEQS];

static void same_frames(const char *net, int round) {
  for (int b = 0; b < SEQS; b++) {
    if (parts[b].n != whole[b].n || parts[b].size != whole[b].size)
      fail_msg("%s\nsequence %d, round %d: %d frames of %d instead of %d of %d", net, b, round, (int)parts[b].n,
               (int)parts[b].size, (int)whole[b].n, (int)whole[b].size);
    for (int64_t i = 0; i < whole[b].n * whole[b].size; i++)
      if (memcmp(&parts[b].v[i], &whole[b].v[i], 4) != 0)
        fail_msg("%s\nsequence %d, round %d, frame %d: %.9g instead of %.9g", net, b, round, (int)(i / whole[b].size),
                 (double)parts[b].v[i], (double)whole[b].v[i]);
  }
}

/* In pieces as in one: of 1 frame, all at once, and random sizes. */
static void streams_with(const char *net, const char *more, const int32_t *lens) {
  static const int32_t sizes[] = {0, 1, 1, 2, 3, 5, 9};
  static float x[SEQS * FRAMES * DIM];
  crn_message m;
  uint32_t seed = 7;
  random_values(x, SEQS * FRAMES * DIM, 5);
  crn_model *model = model_of(net, more, CRN_USE_FORWARD);
  crn_session *s = session(model, 0);
  for (int b = 0; b < SEQS; b++) whole[b].n = 0;
  assert_int_equal(feed(s, x, lens, 0, FRAMES, &m), CRN_OK);
  run(s, net, whole);
  int64_t total = 0;
  for (int b = 0; b < SEQS; b++) total += whole[b].n;
  assert_true(total > 0);
  crn_session_free(s);
  s = session(model, 1);
  for (int round = 0; round < 8; round++) {
    for (int b = 0; b < SEQS; b++) parts[b].n = 0;
    int32_t n;
    for (int32_t t = 0; t < FRAMES; t += n) {
      n = round == 0 ? 1 : round == 1 ? FRAMES : sizes[draw(&seed) % 7];
      if (t + n > FRAMES) n = FRAMES - t;
      assert_int_equal(feed(s, x, lens, t, n, &m), CRN_OK);
      run(s, net, parts);
    }
    same_frames(net, round);
    crn_session_reset(s);
  }
  crn_session_free(s);
  crn_model_free(model);
}

static void streams(const char *net) {
  streams_with(net, "", all_equal);
  streams_with(net, "", all_differ);
}

static int make_room(void **state) {
  (void)state;
  for (int b = 0; b < SEQS; b++) {
    whole[b].v = calloc(MAX_OUT, sizeof(float));
    parts[b].v = calloc(MAX_OUT, sizeof(float));
  }
  return 0;
}

static int free_room(void **state) {
  (void)state;
  for (int b = 0; b < SEQS; b++) {
    free(whole[b].v);
    free(parts[b].v);
  }
  return 0;
}

#define ONE(layer) "{'output': {'from': 'data', " layer "}}"

/* ---- layers ---------------------------------------------------------------------------------------------------------
 */

static void windows(void **state) {
  (void)state;
  streams(ONE("'class': 'window', 'window_size': 4, 'window_right': 0"));
  streams(ONE("'class': 'window', 'window_size': 3, 'window_left': 2, 'stride': 2"));
  streams(ONE("'class': 'window', 'window_size': 4, 'padding': 'valid'"));
  streams(ONE("'class': 'window', 'window_size': 2, 'padding': 'valid', 'stride': 5"));
  streams(ONE("'class': 'window', 'window_size': 3, 'padding': 'valid', 'stride': 3"));
  streams_with(ONE("'class': 'window', 'window_size': 3, 'window_right': 0, 'stride': 2"), ", 'behavior_version': 18",
               all_differ);
  streams("{'w': {'class': 'window', 'window_size': 3, 'padding': 'valid', 'stride': 3, 'from': 'data'}, 'output': "
          "{'class': 'merge_dims', 'axes': ['dim:3', 'F'], 'keep_order': true, 'from': 'w'}}");
  streams("{'w': {'class': 'window', 'window_size': 3, 'window_right': 0, 'from': 'data'}, 'output': {'class': "
          "'reduce', 'mode': 'mean', 'axis': 'dim:3', 'from': 'w'}}");
}

static void convolutions(void **state) {
  (void)state;
#define CONV "'class': 'conv', 'n_out': 6, 'with_bias': true, "
  streams(ONE(CONV "'filter_size': [3], 'padding': 'valid', 'activation': 'relu'"));
  streams(ONE(CONV "'filter_size': [3], 'padding': 'valid', 'dilation_rate': 2"));
  streams(ONE(CONV "'filter_size': [4], 'padding': 'valid', 'strides': 3"));
  streams(ONE(CONV "'filter_size': [2], 'padding': 'valid', 'strides': 5"));
  streams(ONE(CONV "'filter_size': [1], 'padding': 'same', 'strides': 2"));
  streams(ONE("'class': 'conv', 'n_out': 5, 'groups': 5, 'filter_size': [4], 'padding': 'valid'"));
  streams(ONE(CONV "'filter_size': [3, 3], 'padding': 'valid', 'input_add_feature_dim': true"));
  streams("{'c': {" CONV "'filter_size': [1, 3], 'padding': 'same', 'input_add_feature_dim': true, 'from': 'data'}, "
          "'output': {'class': 'merge_dims', 'axes': 'except_time', 'keep_order': false, 'from': 'p'}, 'p': {'class': "
          "'pool', 'mode': 'max', 'pool_size': [2, 2], 'padding': 'valid', 'from': 'c'}}");
  streams("{'p': {'class': 'pad', 'axes': 'T', 'padding': {'__tuple__': [4, 0]}, 'from': 'data'}, 'output': {" CONV
          "'filter_size': [3], 'dilation_rate': 2, 'padding': 'valid', 'from': 'p'}}");
  streams("{'s': {'class': 'subnetwork', 'from': 'data', 'subnetwork': {'p': {'class': 'prefix_in_time', 'prefix': "
          "0.5, 'repeat': 2, 'from': 'data'}, 'output': {" CONV "'filter_size': [3], 'padding': 'valid', 'from': "
          "'p'}}}, 'output': {'class': 'combine', 'kind': 'mul', 'from': ['s', 't']}, 't': {'class': 'linear', "
          "'n_out': 6, 'activation': 'tanh', 'from': 's'}}");
}

static void pools(void **state) {
  (void)state;
  streams(ONE("'class': 'pool', 'mode': 'max', 'pool_size': [2], 'padding': 'valid'"));
  streams(ONE("'class': 'pool', 'mode': 'avg', 'pool_size': [3], 'strides': 1, 'padding': 'valid'"));
  streams(ONE("'class': 'pool', 'mode': 'max', 'pool_size': [3], 'strides': 2, 'dilation_rate': 2, 'padding': "
              "'valid'"));
  streams(ONE("'class': 'pool', 'mode': 'avg', 'pool_size': [1], 'strides': 3, 'padding': 'same'"));
}

static void spectra(void **state) {
  (void)state;
  streams("{'c': {'class': 'slice', 'axis': 'F', 'slice_end': 1, 'from': 'data'}, 's': {'class': 'stft', 'frame_size': "
          "6, 'frame_shift': 2, 'fft_size': 8, 'from': 'c'}, 'output': {'class': 'eval', 'eval': 'tf.abs(source(0))', "
          "'out_type': {'dtype': 'float32'}, 'from': 's'}}");
  streams("{'s': {'class': 'multichannel_stft_layer', 'frame_size': 3, 'frame_shift': 4, 'fft_size': 4, "
          "'nr_of_channels': 5, 'from': 'data'}, 'output': {'class': 'eval', 'eval': 'tf.abs(source(0))', 'out_type': "
          "{'dtype': 'float32'}, 'from': 's'}}");
}

static void moves(void **state) {
  (void)state;
  streams(ONE("'class': 'shift_axis', 'axis': 'T', 'amount': 2, 'adjust_size_info': false, 'pad_value': 0.25"));
  streams(ONE("'class': 'shift_axis', 'axis': 'T', 'amount': 30, 'adjust_size_info': false"));
  streams(ONE("'class': 'shift_axis', 'axis': 'T', 'amount': -3, 'pad': false"));
  streams_with(ONE("'class': 'shift_axis', 'axis': 'T', 'amount': 4"), "", all_equal);
  streams(ONE("'class': 'slice', 'axis': 'T', 'slice_start': 3"));
  streams(ONE("'class': 'slice', 'axis': 'T', 'slice_start': 1, 'slice_step': 4"));
  streams(ONE("'class': 'slice', 'axis': 'T', 'slice_step': 2"));
  streams(ONE("'class': 'slice', 'axis': 'F', 'slice_start': 1, 'slice_end': -1"));
  streams(ONE("'class': 'pad', 'axes': ['T', 'F'], 'padding': [[3, 0], [1, 2]], 'value': -1.5"));
  streams(ONE("'class': 'prefix_in_time', 'prefix': 0.5, 'repeat': 3"));
  streams(ONE("'class': 'postfix_in_time', 'axis': 'F', 'postfix': 0.5"));
  streams(ONE("'class': 'repeat', 'axis': 'T', 'repetitions': 3"));
  streams(ONE("'class': 'resize', 'axis': 'T', 'factor': 2"));
  streams(ONE("'class': 'resize', 'axis': 'T', 'factor': 3, 'kind': 'fill', 'fill_value': 0.5"));
  streams(ONE("'class': 'resize', 'axis': 'F', 'factor': 3, 'kind': 'linear'"));
}

static void sums_and_positions(void **state) {
  (void)state;
  streams(ONE("'class': 'cumsum'"));
  streams(ONE("'class': 'cumsum', 'initial_output': 'ones', 'additional_left_summand_per_element': 0.1"));
  streams(ONE("'class': 'cumsum', 'axis': 'F', 'reverse': true"));
  streams(ONE("'class': 'positional_encoding', 'add_to_input': true"));
  streams("{'i': {'class': 'range_in_axis', 'axis': 'T', 'dtype': 'float32', 'from': 'data'}, 'output': {'class': "
          "'combine', 'kind': 'mul', 'from': ['data', 'i']}}");
}

static void attention(void **state) {
  (void)state;
#define ATT "'class': 'self_attention', 'num_heads': 2, 'total_key_dim': 8, 'n_out': 6, 'attention_left_only': true"
  streams(ONE(ATT));
  streams("{'r': {'class': 'relative_positional_encoding', 'n_out': 4, 'clipping': 5, 'from': 'data'}, 'output': {" ATT
          ", 'key_shift': 'r', 'from': 'data'}}");
}

static void frame_by_frame(void **state) {
  (void)state;
  streams(ONE("'class': 'eval', 'eval': 'tf.nn.relu(source(0)) * 0.3 + tf.maximum(source(0), -0.5) ** 2'"));
  streams(ONE("'class': 'norm', 'axis': 'F'"));
  streams(ONE("'class': 'math_norm', 'axis': 'F', 'p': 2, 'keep_dims': true"));
  streams(ONE("'class': 'reduce', 'mode': 'logsumexp', 'axis': 'F', 'keep_dims': true"));
  streams(ONE("'class': 'gather', 'axis': 'F', 'position': 2"));
  streams(ONE("'class': 'layer_norm'"));
  streams(ONE("'class': 'batch_norm', 'update_sample_only_in_training': true"));
  streams(ONE("'class': 'linear', 'n_out': 3, 'activation': '3 + 2 * sigmoid', 'batch_norm': "
              "{'update_sample_only_in_training': true}"));
  streams("{'v': {'class': 'variable', 'shape': [5, 4]}, 'output': {'class': 'dot', 'red1': 'F', 'red2': 'dim:5', "
          "'var1': 'auto', 'var2': 'auto', 'from': ['data', 'v']}}");
  streams("{'a': {'class': 'linear', 'n_out': 4, 'from': 'data'}, 'c': {'class': 'concat', 'from': [['data', 'F'], "
          "['a', 'F']]}, 's': {'class': 'split_dims', 'axis': 'F', 'dims': [3, 3], 'from': 'c'}, 'x': {'class': "
          "'expand_dims', 'axis': 'spatial', 'from': 's'}, 'q': {'class': 'squeeze', 'axis': 'dim:1', 'from': 'x'}, "
          "'w': {'class': 'softmax_over_spatial', 'axis': 'stag:split_dims:0', 'from': 'q2'}, 'q2': {'class': "
          "'stack', 'from': ['a', 'a2']}, 'a2': {'class': 'activation', 'activation': 'softmax', 'from': 'a'}, "
          "'output': {'class': 'merge_dims', 'axes': 'static', 'keep_order': false, 'from': 'q'}}");
  streams("{'p': {'class': 'split', 'num_splits': 5, 'from': 'data'}, 'output': {'class': 'stack', 'from': ['p/1', "
          "'p/3']}}");
}

/* ---- recurrent ------------------------------------------------------------------------------------------------------
 */

static void all_units(void **state) {
  (void)state;
  const crn_unit_desc *d;
  int n = 0;
  for (size_t i = 0; (d = crn_unit_at(i)); i++) {
    char net[300];
    if (d->unusable) continue;
    (void)snprintf(net, sizeof(net), ONE("'class': 'rec', 'unit': '%s', 'n_out': 6"), d->name);
    streams(net);
    n++;
  }
  assert_true(n >= 11);
}

static void loops(void **state) {
  (void)state;
#define LOOP(unit) "{'output': {'class': 'rec', 'from': 'data', 'unit': {" unit "}}}"
  streams(LOOP("'a': {'class': 'linear', 'n_out': 4, 'activation': 'tanh', 'from': 'data:source'}, 'output': {'class': "
               "'copy', 'from': ['a', 'prev:a']}")); /* moves out: one frame later */
  streams(LOOP("'i': {'class': 'cast', 'dtype': 'float32', 'from': ':i'}, 's': {'class': 'rnn_cell', 'unit': "
               "'LSTMBlock', 'n_out': 5, 'from': ['data:source', 'prev:s']}, 'output': {'class': 'combine', 'kind': "
               "'add', 'from': ['s', 'i']}"));
  streams(LOOP("'i': {'class': 'cast', 'dtype': 'float32', 'from': ':i'}, 'output': {'class': 'combine', 'kind': "
               "'mul', 'from': ['data:source', 'i']}")); /* moves out */
  streams(LOOP("'s': {'class': 'linear', 'n_out': 5, 'activation': 'tanh', 'from': ['data:source', 'prev:s']}, 'w': "
               "{'class': 'window', 'window_size': 3, 'window_right': 0, 'from': 's'}, 'm': {'class': 'reduce', "
               "'mode': 'max', 'axis': 'dim:3', 'from': 'w'}, 'c': {'class': 'cumsum', 'from': 's'}, 'p': {'class': "
               "'positional_encoding', 'add_to_input': true, 'from': 's'}, 'att': {" ATT
               ", 'from': 'p'}, 'output': {'class': 'copy', 'from': ['m', 'c', 'att']}"));
  streams(LOOP("'s': {'class': 'linear', 'n_out': 6, 'activation': 'tanh', 'from': ['data:source', 'prev:s']}, 'x': "
               "{'class': 'split_dims', 'axis': 'F', 'dims': [3, 2], 'from': 's'}, 'l': {'class': 'rec', 'unit': "
               "'lstm', 'n_out': 2, 'axis': 'stag:split_dims:0', 'from': 'x'}, 'output': {'class': 'reduce', 'mode': "
               "'sum', 'axis': 'stag:split_dims:0', 'from': 'l'}"));
}

static void stacks(void **state) {
  (void)state;
#define STACK                                                                                                          \
  "'pad': {'class': 'pad', 'axes': 'T', 'padding': {'__tuple__': [2, 0]}, 'from': 'data'}, 'conv': {" CONV             \
  "'filter_size': [3], 'padding': 'valid', 'activation': 'swish', 'from': 'pad'}, 'pool': {'class': 'pool', 'mode': "  \
  "'max', 'pool_size': [2], 'padding': 'valid', 'from': 'conv'}, 'norm': {'class': 'layer_norm', 'from': 'pool'}, "    \
  "'pos': {'class': 'positional_encoding', 'add_to_input': true, 'from': 'norm'}, 'rel': {'class': "                   \
  "'relative_positional_encoding', 'n_out': 4, 'clipping': 3, 'from': 'norm'}, 'att': {" ATT                           \
  ", 'key_shift': 'rel', 'from': 'pos'}, 'res': {'class': 'combine', 'kind': 'add', 'from': ['norm', 'att']}, "        \
  "'lstm': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 7, 'from': 'res'}, "
  streams("{" STACK "'output': {'class': 'softmax', 'n_out': 4, 'from': 'lstm'}}");
  streams("{" STACK "'more': {'class': 'repeat', 'axis': 'T', 'repetitions': 3, 'from': 'lstm'}, 'win': {'class': "
          "'window', 'window_size': 4, 'window_right': 0, 'stride': 2, 'from': 'more'}, 'flat': {'class': "
          "'merge_dims', 'axes': ['dim:4', 'F'], 'keep_order': true, 'from': 'win'}, 'loop': {'class': 'rec', 'from': "
          "'flat', 'unit': {'output': {'class': 'linear', 'n_out': 5, 'activation': 'tanh', 'from': ['data:source', "
          "'prev:output']}}}, 'output': {'class': 'slice', 'axis': 'T', 'slice_start': 2, 'from': 'loop'}}");
}

/* ---- refusals -------------------------------------------------------------------------------------------------------
 */

static void refused_as(const char *net, const char *more, crn_use use, crn_status want, const char *a, const char *b) {
  crn_model *model = model_of(net, more, use);
  crn_session *s;
  crn_message m;
  const crn_status got = crn_session_new(model, &(crn_session_options){.streaming = 1}, &s, &m);
  if (got != want || !strstr(m.text, a) || !strstr(m.text, b))
    fail_msg("%s\nstatus %d, '%s' instead of %d, '…%s…%s…'", net, (int)got, m.text, (int)want, a, b);
  assert_null(s);
  crn_model_free(model);
}

static void future(const char *net, const char *reason) {
  refused_as(net, "", CRN_USE_FORWARD, CRN_E_CONFIG, "needs frames to come", reason);
}

static void needs_the_future(void **state) {
  (void)state;
  future(ONE("'class': 'conv', 'n_out': 2, 'filter_size': [3], 'padding': 'same'"), "'output' (conv) needs");
  future(ONE("'class': 'conv', 'n_out': 2, 'filter_size': [3], 'padding': 'same'"), "padding 'valid'");
  future(ONE("'class': 'conv', 'n_out': 2, 'filter_size': [3], 'padding': [1]"), "'padding'");
  future(ONE("'class': 'pool', 'mode': 'max', 'pool_size': [2], 'padding': 'same'"), "(pool)");
  future(ONE("'class': 'window', 'window_size': 3"), "window_right");
  future(ONE("'class': 'multichannel_stft_layer', 'frame_size': 4, 'frame_shift': 2, 'fft_size': 4, 'nr_of_channels': "
             "5, 'pad_last_frame': true"),
         "behind the end");
  future(ONE("'class': 'cumsum', 'reverse': true"), "from the end");
  future(ONE("'class': 'shift_axis', 'axis': 'T', 'amount': -1"), "later frames");
  future(ONE("'class': 'shift_axis', 'axis': 'T', 'amount': 1, 'pad': false"), "last frames");
  future(ONE("'class': 'slice', 'axis': 'T', 'slice_end': -1"), "from the end");
  future(ONE("'class': 'pad', 'axes': 'T', 'padding': {'__tuple__': [1, 1]}"), "behind the last one");
  future(ONE("'class': 'pad', 'axes': 'T', 'padding': {'__tuple__': [1, 0]}, 'mode': 'reflect'"), "later ones");
  future(ONE("'class': 'postfix_in_time'"), "behind the last one");
  future(ONE("'class': 'resize', 'axis': 'T', 'factor': 2, 'kind': 'linear'"), "later ones");
  future(ONE("'class': 'resize', 'axis': 'T', 'factor': 0.5"), "how many there are");
  future(ONE("'class': 'reduce', 'mode': 'mean', 'axis': 'T'"), "all frames");
  future(ONE("'class': 'norm', 'axes': 'TF'"), "all frames");
  future(ONE("'class': 'split_dims', 'axis': 'T', 'dims': [-1, 2]"), "filled up at the end");
  future(ONE("'class': 'length'"), "(length)");
  future(ONE("'class': 'transposed_conv', 'n_out': 2, 'filter_size': [3], 'strides': [2]"), "(transposed_conv)");
  future(ONE("'class': 'rec', 'unit': 'lstm', 'n_out': 2, 'direction': -1"), "backwards");
  future(ONE("'class': 'self_attention', 'num_heads': 1, 'total_key_dim': 2, 'n_out': 2"), "(self_attention)");
  future(ONE("'class': 'batch_norm', 'force_sample': true, 'update_sample_only_in_training': true"), "batch_norm");
  future(ONE("'class': 'batch_norm'"), "batch_norm"); /* before behavior_version 12 the running mean moves at once */
  future("{'e': {'class': 'linear', 'n_out': 1, 'from': 'data'}, 'w': {'class': 'softmax_over_spatial', 'from': 'e'}, "
         "'output': {'class': 'generic_attention', 'base': 'data', 'weights': 'w'}}",
         "'w' (softmax_over_spatial)");
  future("{'e': {'class': 'linear', 'n_out': 6, 'from': 'data'}, 'output': {'class': 'rec', 'from': 'data', 'unit': "
         "{'q': {'class': 'linear', 'n_out': 6, 'from': ['data:source', 'prev:a']}, 'w': {'class': 'dot', 'red1': "
         "'F', 'red2': 'F', 'var1': 'T', 'var2': null, 'add_var2_if_empty': false, 'from': ['base:e', 'q']}, 'v': "
         "{'class': 'softmax_over_spatial', 'from': 'w'}, 'a': {'class': 'generic_attention', 'base': 'base:e', "
         "'weights': 'v'}, 'output': {'class': 'copy', 'from': 'a'}}}}",
         "it reads all frames of 'e'");
}

static void not_in_pieces(void **state) {
  (void)state;
#define NOT(net, part)                                                                                                 \
  refused_as(net, "", CRN_USE_FORWARD, CRN_E_NOT_IMPLEMENTED, "not implemented: layer 'output'", part)
  NOT(ONE("'class': 'eval', 'eval': 'source(0) - tf.reduce_max(source(0), axis=1, keepdims=True)'"), "reduce_max");
  NOT(ONE("'class': 'eval', 'eval': 'tf.nn.softmax(source(0), axis=1)'"), "softmax");
  NOT(ONE("'class': 'linear', 'n_out': 3, 'activation': 'x - tf.reduce_mean(x)'"), "reduce_mean");
  NOT(ONE("'class': 'dropout', 'dropout': 0.5, 'dropout_on_forward': true"), "random");
}

/* ---- inputs ---------------------------------------------------------------------------------------------------------
 */

static void ended(crn_session *s, const float *x, const int32_t *lens, int n, const char *part) {
  crn_message m;
  const int32_t *lengths[1] = {lens};
  const int64_t shape[3] = {n, 2, DIM};
  assert_int_equal(crn_session_input(s, "data", CRN_FLOAT32, 3, shape, x, 1, lengths, &m), CRN_OK);
  const crn_status st = crn_session_run(s, &m);
  if (!part && st != CRN_OK) fail_msg("%s", m.text);
  if (part && (st != CRN_E_DATA || !strstr(m.text, part))) fail_msg("'%s' instead of '%s'", m.text, part);
}

static void sequences_end(void **state) {
  (void)state;
  float x[3 * 2 * DIM];
  random_values(x, 3 * 2 * DIM, 3);
  crn_model *model = model_of(ONE("'class': 'rec', 'unit': 'lstm', 'n_out': 3"), "", CRN_USE_FORWARD);
  crn_session *s = session(model, 1);
  ended(s, x, (const int32_t[]){2, 2}, 2, NULL);
  ended(s, x, (const int32_t[]){2, 1}, 2, NULL);
  ended(s, x, (const int32_t[]){2, 0}, 2, NULL);
  ended(s, x, (const int32_t[]){1, 0}, 2, NULL); /* the second frame is padding only */
  ended(s, x, (const int32_t[]){2, 0}, 2, NULL);
  ended(s, x, (const int32_t[]){2, 1}, 2, "sequence 1 has ended");
  ended(s, x, (const int32_t[]){2, 1}, 2, NULL); /* the failed run ended the stream */
  ended(s, x, (const int32_t[]){2, 0, 0}, 3, "the stream has 2 sequences");
  crn_session_free(s);
  crn_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows),       cmocka_unit_test(convolutions),   cmocka_unit_test(pools),
      cmocka_unit_test(spectra),       cmocka_unit_test(moves),          cmocka_unit_test(sums_and_positions),
      cmocka_unit_test(attention),     cmocka_unit_test(frame_by_frame), cmocka_unit_test(all_units),
      cmocka_unit_test(loops),         cmocka_unit_test(stacks),         cmocka_unit_test(needs_the_future),
      cmocka_unit_test(not_in_pieces), cmocka_unit_test(sequences_end),
  };
  return cmocka_run_group_tests(tests, make_room, free_room);
}
