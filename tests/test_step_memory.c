/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of steps: once their batches were there, steps ask the system for nothing, whatever the lengths, in training
 * and in search; a deep network's forward pass holds little more than what must live at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/exec.h"
#include "tensor/mem.h"
#include "train/updater.h"

/* These take the place of src/base/memory.c in this program. */
static long n_allocations;

void *crn_malloc(size_t bytes) {
  n_allocations++;
  return malloc(bytes ? bytes : 1);
}

void *crn_calloc(size_t n, size_t size) {
  n_allocations++;
  return n && size ? calloc(n, size) : calloc(1, 1);
}

void *crn_realloc(void *p, size_t bytes) {
  n_allocations++;
  return realloc(p, bytes ? bytes : 1);
}

void crn_free(void *p) { free(p); }

enum { B = 6, T = 30, LABEL_T = 8, DIM = 5, LABELS = 7, MAX_PARAMS = 64 };

typedef struct model {
  crn_arena arena;
  crn_err err;
  crn_store *store;
  crn_net *net;
  crn_exec *x;
  crn_updater *updater;
  crn_update_param params[MAX_PARAMS];
} model;

static void ok(model *m, crn_status st) {
  if (st != CRN_OK) fail_msg("%s", crn_err_text(&m->err));
}

static void open_model(model *m, const char *config, bool train, bool search) {
  memset(m, 0, sizeof *m);
  crn_value *v = NULL;
  const crn_net_mode mode = {.train = train, .eval = train, .search = search};
  const crn_session_opts opts = {.n_threads = 1, .seed = 3};
  assert_non_null(m->store = crn_store_new(CRN_F32));
  ok(m, crn_v_parse_literal(&m->arena, config, "config", &v, &m->err));
  ok(m, crn_net_build(v, mode, m->store, NULL, &m->net, &m->err));
  ok(m, crn_store_init_values(m->store, 7, &m->err));
  ok(m, crn_exec_new(m->net, &opts, &m->x, &m->err));
  if (!train) return;
  assert_true(m->net->n_params <= MAX_PARAMS);
  for (int i = 0; i < m->net->n_params; i++) {
    crn_param *p = m->net->params[i];
    const int64_t row = p->spec.rank > 1 ? p->size / p->spec.shape[0] : 1;
    m->params[i] = (crn_update_param){.name = p->path, .w = p->st.data, .rows = p->size / row, .row_len = row};
    m->params[i].trainable = m->net->trainable[i];
  }
  ok(m, crn_updater_new(v, m->params, (size_t)m->net->n_params, 1, NULL, NULL, &m->updater, &m->err));
}

static void close_model(model *m) {
  crn_updater_free(m->updater);
  crn_exec_free(m->x);
  crn_net_free(m->net);
  crn_store_free(m->store);
  crn_err_clear(&m->err);
  crn_arena_free(&m->arena);
}

static uint32_t next_random(uint32_t *s) { return (*s = *s * 1664525u + 1013904223u) >> 8; }

/* Sequences of 1 to `longest` frames, at least one of them so long; full: all. */
static void draw_lengths(uint32_t *s, int n, int longest, int32_t *lens, bool full) {
  for (int b = 0; b < n; b++) lens[b] = b && !full ? (int32_t)(1 + next_random(s) % (uint32_t)longest) : longest;
}

static void feed(model *m, uint32_t *s, int n, int t, int label_t) {
  static float frames[B * T * DIM];
  static int32_t labels[B * LABEL_T];
  int32_t lens[B], label_lens[B];
  const int32_t *l[1] = {lens}, *ll[1] = {label_lens};
  for (int i = 0; i < n * t * DIM; i++) frames[i] = (float)(next_random(s) % 1000) / 500 - 1;
  for (int i = 0; i < n * label_t; i++) labels[i] = (int32_t)(1 + next_random(s) % (LABELS - 1));
  const bool full = n == B && t == T && label_t == LABEL_T;
  draw_lengths(s, n, t, lens, full);
  draw_lengths(s, n, label_t, label_lens, full);
  for (int b = 0; b < n; b++) lens[b] = lens[b] > 2 * label_lens[b] ? lens[b] : t; /* for CTC */
  ok(m, crn_exec_feed(m->x, "data", CRN_F32, 3, (int64_t[]){n, t, DIM}, frames, 1, l, &m->err));
  ok(m, crn_exec_feed(m->x, "classes", CRN_I32, 2, (int64_t[]){n, label_t}, labels, 1, ll, &m->err));
}

static void update(model *m, int64_t step) {
  crn_update_grad g[MAX_PARAMS] = {{0}};
  for (int i = 0; i < m->net->n_params; i++) {
    union {
      const void *c;
      void *m;
    } v = {.c = crn_exec_grad(m->x, m->net->params[i], &m->err)};
    g[i] = (crn_update_grad){.kind = v.m ? CRN_GRAD_DENSE : CRN_GRAD_NONE, .values = v.m};
  }
  const crn_update_now now = {.lr = 1e-3, .global_step = step, .epoch_step = step};
  ok(m, crn_updater_step(m->updater, g, &now, &m->err));
  for (int i = 0; i < m->net->n_params; i++) crn_weight_changed(&m->net->params[i]->st);
  crn_exec_zero_grads(m->x);
}

static void step(model *m, uint32_t *s, int64_t i, int n, int t, int label_t) {
  crn_exec_begin(m->x, m->updater != NULL, (uint64_t)i);
  feed(m, s, n, t, label_t);
  ok(m, crn_exec_forward(m->x, &m->err));
  if (!m->updater) return;
  ok(m, crn_exec_backward(m->x, &m->err));
  update(m, i);
}

/* Ever other batches from step `first` on. */
static void random_steps(model *m, int64_t first) {
  uint32_t s = 99;
  for (int64_t i = first; i < first + 60; i++) {
    const int n = 1 + (int)(next_random(&s) % B), label_t = 1 + (int)(next_random(&s) % LABEL_T),
              t = 2 * label_t + 1 + (int)(next_random(&s) % (uint32_t)(T - 2 * label_t));
    step(m, &s, i, n, t, label_t);
  }
}

/* Steps on the longest batch; others may need a few more buffers, of sizes that weren't there yet; then nothing. */
static void check_steps(const char *config, bool train) {
  model m;
  uint32_t s = 17;
  open_model(&m, config, train, !train);
  for (int64_t i = 0; i < 3; i++) step(&m, &s, i, B, T, LABEL_T);
  const long longest = n_allocations;
  random_steps(&m, 3);
  assert_in_range(n_allocations - longest, 0, 3);
  const long others = n_allocations;
  for (int64_t round = 0; round < 3; round++) random_steps(&m, 63 + 60 * round);
  assert_int_equal(n_allocations, others);
  close_model(&m);
}

#define EXTERN                                                                                                         \
  "{'extern_data': {'data': {'dim': 5}, 'classes': {'dim': 7, 'sparse': True}}, 'optimizer': {'class': 'adam'}, "      \
  "'gradient_clip_global_norm': 5.0, 'network': {"

static const char attention[] = EXTERN
    "'fw': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 6, 'direction': 1, 'from': 'data', 'dropout': 0.1},"
    "'bw': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 6, 'direction': -1, 'from': 'data', 'dropout': 0.1},"
    "'encoder': {'class': 'copy', 'from': ['fw', 'bw']},"
    "'enc_ctx': {'class': 'linear', 'activation': None, 'from': 'encoder', 'n_out': 8},"
    "'output': {'class': 'rec', 'from': [], 'target': 'classes', 'max_seq_len': \"max_len_from('base:encoder')\", "
    "'unit': {"
    "  'output': {'class': 'choice', 'target': 'classes', 'beam_size': 3, 'from': 'prob', 'initial_output': 0},"
    "  'end': {'class': 'compare', 'from': 'output', 'value': 0},"
    "  'embed': {'class': 'linear', 'activation': None, 'from': 'output', 'n_out': 4, 'initial_output': 0},"
    "  's_ctx': {'class': 'linear', 'activation': None, 'from': 's', 'n_out': 8},"
    "  'e_in': {'class': 'combine', 'kind': 'add', 'from': ['base:enc_ctx', 's_ctx']},"
    "  'e_tanh': {'class': 'activation', 'activation': 'tanh', 'from': 'e_in'},"
    "  'energy': {'class': 'linear', 'activation': None, 'from': 'e_tanh', 'n_out': 1},"
    "  'weights': {'class': 'softmax_over_spatial', 'from': 'energy'},"
    "  'att': {'class': 'generic_attention', 'weights': 'weights', 'base': 'base:encoder'},"
    "  's': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'from': ['prev:embed', 'prev:att'], 'n_out': 6},"
    "  'prob': {'class': 'softmax', 'from': ['s', 'att'], 'target': 'classes', 'loss': 'ce', 'dropout': 0.2}}},"
    "'ctc': {'class': 'softmax', 'from': 'encoder', 'loss': 'ctc', 'target': 'classes', 'loss_opts': {'beam_width': "
    "1}}}}";

static const char self_attention[] =
    EXTERN "'in': {'class': 'linear', 'activation': 'relu', 'from': 'data', 'n_out': 8},"
           "'norm': {'class': 'layer_norm', 'from': 'in'},"
           "'att': {'class': 'self_attention', 'from': 'norm', 'num_heads': 2, 'total_key_dim': 8, 'n_out': 8, "
           "'attention_dropout': 0.1},"
           "'add': {'class': 'combine', 'kind': 'add', 'from': ['in', 'att']},"
           "'ff': {'class': 'linear', 'activation': 'relu', 'from': 'add', 'n_out': 16, 'dropout': 0.1},"
           "'output': {'class': 'softmax', 'from': 'ff', 'loss': 'ctc', 'target': 'classes', 'loss_opts': "
           "{'beam_width': 1}}}}";

static void training_allocates_nothing(void **state) {
  (void)state;
  check_steps(attention, true);
  check_steps(self_attention, true);
}

static void search_allocates_nothing(void **state) {
  (void)state;
  check_steps(attention, false);
}

/* 12 layers: two of their values must live at once. */
static void values_make_way(void **state) {
  (void)state;
  enum { N = 12, WIDTH = 256 };
  model m;
  crn_arena a = {0};
  uint32_t s = 3;
  const char *layers = "", *from = "data";
  for (int i = 0; i < N; i++) {
    layers = crn_arena_printf(&a, "%s'l%d': {'class': 'linear', 'activation': 'tanh', 'n_out': %d, 'from': '%s'},",
                              layers, i, WIDTH, from);
    from = crn_arena_printf(&a, "l%d", i);
  }
  open_model(&m, crn_arena_printf(&a, EXTERN "%s'output': {'class': 'copy', 'from': 'l%d'}}}", layers, N - 1), false,
             false);
  step(&m, &s, 0, B, T, LABEL_T);
  const size_t live = 2 * B * T * WIDTH * sizeof(float);
  assert_true(crn_mem_get_stats(m.x->mem).peak_bytes >= live);
  assert_true(crn_mem_get_stats(m.x->mem).peak_bytes < live + live / 10);
  close_model(&m);
  crn_arena_free(&a);
}

/* Most bytes that a forward run of these layers held; values of 'output' to out. recording: as if gradients were
 * wanted, so that nothing is overwritten or given back. */
static size_t run_output(const char *layers, bool recording, float *out, int n) {
  model m;
  crn_arena a = {0};
  uint32_t s = 5;
  open_model(&m, crn_arena_printf(&a, EXTERN "%s}}", layers), false, false);
  m.net->records = recording;
  const crn_layer *output = crn_net_find(m.net, "output");
  crn_exec_keep(m.x, output);
  step(&m, &s, 0, B, T, LABEL_T);
  const crn_data *d = crn_exec_value(m.x, output);
  assert_non_null(d);
  assert_int_equal(crn_t_size(d->v), n);
  memcpy(out, crn_t_data(d->v), (size_t)n * sizeof(float));
  const size_t most = crn_mem_get_stats(m.x->mem).peak_bytes;
  close_model(&m);
  crn_arena_free(&a);
  return most;
}

/* Activations that are written over their input give what they give otherwise, whoever reads them. */
static void overwritten_inputs(void **state) {
  (void)state;
  static const char *const activations[] = {"tanh",     "relu",        "relu6",   "elu",   "selu",    "leaky_relu",
                                            "swish",    "gelu",        "gelu2",   "gelu3", "abs",     "sign",
                                            "softplus", "softsign",    "square",  "neg",   "sin",     "round",
                                            "erf",      "log_sigmoid", "sigmoid", "exp",   "softmax", "log_softmax"};
  static const char *const readers[] = {
      "'output': {'class': 'linear', 'activation': '%s', 'n_out': 5, 'from': 'data'}",
      "'h': {'class': 'linear', 'activation': '%s', 'n_out': 5, 'from': 'data'},"
      "'output': {'class': 'copy', 'from': 'h'}",
      "'h': {'class': 'linear', 'activation': '%s', 'n_out': 5, 'from': 'data'},"
      "'output': {'class': 'linear', 'activation': 'sigmoid', 'n_out': 5, 'from': 'h'}",
      "'h': {'class': 'linear', 'activation': '%s', 'n_out': 5, 'from': 'data'},"
      "'output': {'class': 'activation', 'activation': 'safe_log', 'from': 'h'}",
  };
  crn_arena a = {0};
  for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
    for (size_t k = 0; k < sizeof readers / sizeof readers[0]; k++) {
      float out[2][B * T * DIM];
      const char *middle = strchr(readers[k], '%');
      const char *layers =
          crn_arena_printf(&a, "%.*s%s%s", (int)(middle - readers[k]), readers[k], activations[i], middle + 2);
      for (int recording = 0; recording < 2; recording++)
        (void)run_output(layers, recording, out[recording], B * T * DIM);
      assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
  crn_arena_free(&a);
}

/* A softmax that nobody asks for its input has no copy of it. */
static void softmax_over_its_input(void **state) {
  (void)state;
  enum { WIDTH = 300 };
  static float out[2][B * T * WIDTH];
  const char *layers = "'output': {'class': 'softmax', 'n_out': 300, 'from': 'data'}";
  const size_t live = (size_t)B * T * (WIDTH + DIM) * sizeof(float);
  assert_true(run_output(layers, false, out[0], B * T * WIDTH) < live + live / 10);
  assert_true(run_output(layers, true, out[1], B * T * WIDTH) > live + B * T * WIDTH * sizeof(float));
  assert_memory_equal(out[0], out[1], sizeof out[0]);
}

/* Layers that read several others side by side: no more than what they read and give. */
static void joined_sources(void **state) {
  (void)state;
  enum { N = 96 };
  static const char *const units[] = {"nativelstm2", "nativelstm", "nativelstmlowmem", "standardlstm", "basiclstm"};
  static float out[2][B * T * 3 * N];
  crn_arena a = {0};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    const char *u = units[i];
    const char *layers =
        crn_arena_printf(&a,
                         "'f0': {'class': 'rec', 'unit': '%s', 'n_out': 96, 'from': 'data'},"
                         "'b0': {'class': 'rec', 'unit': '%s', 'n_out': 96, 'from': 'data', 'direction': -1},"
                         "'f1': {'class': 'rec', 'unit': '%s', 'n_out': 96, 'from': ['f0', 'b0']},"
                         "'b1': {'class': 'rec', 'unit': '%s', 'n_out': 96, 'from': ['f0', 'b0'], 'direction': -1},"
                         "'output': {'class': 'linear', 'activation': 'softmax', 'n_out': 288, 'from': ['f1', 'b1']}",
                         u, u, u, u);
    const size_t layer = (size_t)B * T * N * sizeof(float), most = run_output(layers, false, out[0], B * T * 3 * N);
    assert_true(most >= 5 * layer);
    assert_true(most < 7 * layer); /* f0 to b1 with two layers' worth of gates; or f1 and b1 joined, and the output */
    (void)run_output(layers, true, out[1], B * T * 3 * N);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
  }
  crn_arena_free(&a);
}

/* Pooling: the joined sources go when they are in its own order of axes, the parts when they are joined. */
static void joined_sources_pooled(void **state) {
  (void)state;
  enum { N = 300 };
  static float out[2][B * T * 2 * N / 3];
  const char *layers =
      "'a': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 300, 'from': 'data'},"
      "'b': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 300, 'from': 'data', 'direction': -1},"
      "'output': {'class': 'pool', 'mode': 'max', 'pool_size': (3,), 'padding': 'same', 'from': ['a', 'b']}";
  const size_t layer = (size_t)B * T * N * sizeof(float), most = run_output(layers, false, out[0], B * T * 2 * N / 3);
  assert_true(most >= 4 * layer);
  assert_true(most < 4 * layer + layer / 2);
  (void)run_output(layers, true, out[1], B * T * 2 * N / 3);
  assert_memory_equal(out[0], out[1], sizeof out[0]);
}

/* Sources stay where they are read again, asked for, or in another role. */
static void joined_sources_stay(void **state) {
  (void)state;
  static const char *const nets[] = {
      "'a': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': 'data'},"
      "'b': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': 'data'},"
      "'c': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': ['a', 'b']},"
      "'output': {'class': 'combine', 'kind': 'add', 'from': ['a', 'c']}",
      "'a': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': 'data'},"
      "'same': {'class': 'copy', 'from': 'a'},"
      "'c': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': ['a', 'a', 'data']},"
      "'output': {'class': 'combine', 'kind': 'add', 'from': ['same', 'c']}",
      "'a': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': 'data'},"
      "'b': {'class': 'reduce', 'mode': 'mean', 'axis': 'T', 'from': 'a'},"
      "'output': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 5, 'from': ['a', 'b', 'data'], "
      "'initial_state': {'c': 'b', 'h': 'b'}}",
      "'a': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': 'data'},"
      "'b': {'class': 'reduce', 'mode': 'mean', 'axis': 'T', 'from': 'a'},"
      "'output': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 5, 'from': ['a', 'b', 'data']}",
      "'a': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 5, 'from': 'data'},"
      "'b': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 3, 'from': 'data', 'direction': -1},"
      "'output': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 5, 'from': ['a', 'b', 'data', 'b', 'a']}",
      "'a': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': 'data'},"
      "'output': {'class': 'rec', 'unit': 'gru', 'n_out': 5, 'from': ['a', 'data']}",
      "'a': {'class': 'linear', 'activation': 'tanh', 'n_out': 5, 'from': 'data'},"
      "'output': {'class': 'linear', 'activation': 'softmax', 'n_out': 5, 'from': ['a', 'data'], 'batch_norm': True}",
  };
  float out[2][B * T * DIM];
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
    for (int recording = 0; recording < 2; recording++)
      (void)run_output(nets[i], recording, out[recording], B * T * DIM);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_allocates_nothing),
      cmocka_unit_test(search_allocates_nothing),
      cmocka_unit_test(values_make_way),
      cmocka_unit_test(overwritten_inputs),
      cmocka_unit_test(softmax_over_its_input),
      cmocka_unit_test(joined_sources),
      cmocka_unit_test(joined_sources_pooled),
      cmocka_unit_test(joined_sources_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
