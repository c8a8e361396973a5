/* SPDX-License-Identifier: Apache-2.0
 *
 * Values from outside that a loop reads in each step are there once, in the order in which it reads them, unless
 * somebody else reads them too; results are the same bits as where everything stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/exec.h"
#include "tensor/mem.h"

enum { B = 6, T = 40, DIM = 5, WIDTH = 300, LABELS = 7, MAX_OUT = 1 << 18 };

typedef struct outcome {
  size_t most; /* bytes held at once */
  int64_t n;
  float out[MAX_OUT];
} outcome;

static void feed(crn_exec *x, crn_err *err) {
  static float frames[B * T * DIM];
  int32_t lens[B];
  const int32_t *l[1] = {lens};
  uint32_t s = 11;
  for (int i = 0; i < B * T * DIM; i++) frames[i] = (float)((s = s * 1664525u + 1013904223u) >> 8) / 8388608 - 1;
  for (int i = 0; i < B; i++) lens[i] = T - 5 * i;
  if (crn_exec_feed(x, "data", CRN_F32, 3, (int64_t[]){B, T, DIM}, frames, 1, l, err) != CRN_OK)
    fail_msg("%s", crn_err_text(err));
}

static void run_network(const char *config, bool search, bool keep_all, outcome *o) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *v = NULL;
  crn_net *net = NULL;
  crn_exec *x = NULL;
  crn_store *store = crn_store_new(CRN_F32);
  const crn_session_opts opts = {.n_threads = 1, .keep_all = keep_all};
  const crn_net_mode mode = {.search = search};
  assert_non_null(store);
  if (crn_v_parse_literal(&a, config, "config", &v, &err) != CRN_OK ||
      crn_net_build(v, mode, store, NULL, &net, &err) != CRN_OK || crn_store_init_values(store, 7, &err) != CRN_OK ||
      crn_exec_new(net, &opts, &x, &err) != CRN_OK)
    fail_msg("%s", crn_err_text(&err));
  const crn_layer *output = crn_net_find(net, "output");
  crn_exec_keep(x, output);
  for (int run = 0; run < 2; run++) { /* the second finds the first one's memory */
    crn_exec_begin(x, false, 0);
    feed(x, &err);
    if (crn_exec_forward(x, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
    const crn_data *d = crn_exec_value(x, output);
    assert_non_null(d);
    o->n = crn_t_size(d->v);
    assert_in_range(o->n, 1, MAX_OUT);
    for (int64_t i = 0; i < o->n; i++) o->out[i] = (float)crn_t_get(d->v, i);
    o->most = crn_mem_get_stats(x->mem).peak_bytes;
  }
  crn_exec_free(x);
  crn_net_free(net);
  crn_store_free(store);
  crn_err_clear(&err);
  crn_arena_free(&a);
}

/* Runs the network with and without giving values back. Returns how many bytes the latter holds less. */
static size_t check_same(const char *config, bool search) {
  static outcome one, all;
  run_network(config, search, false, &one);
  run_network(config, search, true, &all);
  assert_int_equal(one.n, all.n);
  assert_memory_equal(one.out, all.out, (size_t)one.n * sizeof(float));
  return one.most;
}

#define BEGIN                                                                                                          \
  "{'extern_data': {'data': {'dim': 5}, 'classes': {'dim': 7, 'sparse': True}}, 'network': {"                          \
  "'encoder': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 300, 'from': 'data'},"                                  \
  "'keys': {'class': 'linear', 'activation': %s, 'from': 'encoder', 'n_out': 300},"
#define ENERGY                                                                                                         \
  "  'query': {'class': 'linear', 'activation': None, 'from': 's', 'n_out': 300},"                                     \
  "  'e_in': {'class': 'combine', 'kind': 'add', 'from': ['base:keys', 'query']},"                                     \
  "  'e_tanh': {'class': 'activation', 'activation': 'tanh', 'from': 'e_in'},"                                         \
  "  'energy': {'class': 'linear', 'activation': None, 'with_bias': False, 'from': 'e_tanh', 'n_out': 1},"             \
  "  'weights': {'class': 'softmax_over_spatial', 'from': 'energy'},"
#define CHOOSE                                                                                                         \
  "  'embed': {'class': 'linear', 'activation': None, 'from': 'output', 'n_out': 4, 'initial_output': 0},"             \
  "  's': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'from': ['prev:embed', 'prev:att'], 'n_out': 6},"                 \
  "  'prob': {'class': 'softmax', 'from': ['s', 'att'], 'target': 'classes'},"                                         \
  "  'output': {'class': 'choice', 'target': 'classes', 'beam_size': 3, 'from': 'prob', 'initial_output': 0},"         \
  "  'end': {'class': 'compare', 'from': 'output', 'value': 0}"
#define ATTEND "  'att': {'class': 'generic_attention', 'weights': 'weights', 'base': 'base:encoder'},"
#define LOOP(unit, max)                                                                                                \
  "'output': {'class': 'rec', 'from': [], 'target': 'classes', 'max_seq_len': " max ", 'unit': {" unit "}}"

static const size_t value = (size_t)B * T * WIDTH * sizeof(float);

/* printf for a config with one or no %s. */
static const char *with(crn_arena *a, const char *config, const char *activation) {
  const char *at = strstr(config, "%s");
  const char *s = crn_arena_printf(a, "%.*s%s%s", (int)(at - config), config, activation, at + 2);
  assert_non_null(s);
  return s;
}

/* Encoder and keys, each once; before, while the keys are made, likewise. */
static void values_once_in_search(void **state) {
  (void)state;
  crn_arena a = {0};
  const size_t most = check_same(with(&a, BEGIN LOOP(ENERGY ATTEND CHOOSE, "12") "}}", "None"), true);
  assert_true(most >= 2 * value);
  assert_true(most < 2 * value + value / 2);
  crn_arena_free(&a);
}

static void values_once_without_search(void **state) {
  (void)state;
  crn_arena a = {0};
  const char *unit =
      BEGIN "'output': {'class': 'rec', 'from': 'data', 'unit': {" ENERGY ATTEND
            "  's': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'from': ['data:source', 'prev:output'], 'n_out': 6},"
            "  'output': {'class': 'linear', 'activation': 'sigmoid', 'from': 'att', 'n_out': 3}}}}}";
  static const char *const activations[] = {"None", "'sigmoid'", "'softmax'"};
  for (int i = 0; i < 3; i++) {
    const size_t most = check_same(with(&a, unit, activations[i]), false);
    assert_true(most < 2 * value + value / 2);
  }
  crn_arena_free(&a);
}

/* Others read the values too: in the loop in both orders, after it, by several heads, or from outside. */
static void values_that_others_read(void **state) {
  (void)state;
  static const char *const configs[] = {
      BEGIN LOOP(ENERGY ATTEND
                 "'mean': {'class': 'reduce', 'mode': 'mean', 'axis': 'stag:extern_data:data', 'from': 'base:encoder'},"
                 "'both': {'class': 'combine', 'kind': 'add', 'from': ['att', 'mean']}," CHOOSE,
                 "6") "}}",
      BEGIN LOOP(ENERGY ATTEND CHOOSE, "\"max_len_from('base:encoder')\"") "}}",
      BEGIN
      "'labels': {'class': 'rec', 'from': [], 'target': 'classes', 'max_seq_len': 6, 'unit': {" ENERGY ATTEND CHOOSE
      "}},"
      "'best': {'class': 'decide', 'from': 'labels'},"
      "'rows': {'class': 'reduce', 'mode': 'sum', 'axis': 'T', 'from': ['encoder', 'keys']},"
      "'seen': {'class': 'reduce', 'mode': 'sum', 'axis': 'T', 'from': 'onehot'},"
      "'onehot': {'class': 'linear', 'activation': None, 'n_out': 600, 'from': 'best'},"
      "'output': {'class': 'combine', 'kind': 'add', 'from': ['rows', 'seen']}}}",
      BEGIN "'heads': {'class': 'split_dims', 'axis': 'F', 'dims': (3, 100), 'from': 'encoder'}," LOOP(
          "'query': {'class': 'linear', 'activation': None, 'from': 's', 'n_out': 300},"
          "'e_in': {'class': 'combine', 'kind': 'add', 'from': ['base:keys', 'query']},"
          "'energy': {'class': 'linear', 'activation': 'tanh', 'from': 'e_in', 'n_out': 3},"
          "'weights': {'class': 'softmax_over_spatial', 'from': 'energy'},"
          "'att_heads': {'class': 'generic_attention', 'weights': 'weights', 'base': 'base:heads'},"
          "'att': {'class': 'merge_dims', 'axes': 'static', 'from': 'att_heads'}," CHOOSE,
          "6") "}}",
  };
  crn_arena a = {0};
  for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++)
    (void)check_same(with(&a, configs[i], "'tanh'"), true);
  crn_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_once_in_search),
      cmocka_unit_test(values_once_without_search),
      cmocka_unit_test(values_that_others_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
