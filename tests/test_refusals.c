/* SPDX-License-Identifier: Apache-2.0
 *
 * Configs that found a fault once: each is refused in a line that names the layer and what is wrong, or runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "net/exec.h"

/* In place of src/base/memory.c: whoever asks for very much gets nothing, on every machine. */
enum { MOST_BYTES = 1 << 26 };
void *crn_malloc(size_t bytes) { return bytes > MOST_BYTES ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t each) {
  return n && each > MOST_BYTES / n ? NULL : calloc(n ? n : 1, each ? each : 1);
}
void *crn_realloc(void *p, size_t bytes) { return bytes > MOST_BYTES ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

enum { B = 2, T = 5, MAX_FRAMES = 64 };

#define DATA "'extern_data': {'data': {'dim': 3}, 'classes': {'dim': 4, 'sparse': True}}"
#define NET(layers) "{" DATA ", 'network': {" layers "}}"

typedef struct refusal {
  const char *config;
  const char *words[5]; /* that the message holds */
} refusal;

/* Sequences of T and 2 frames: values 0, 1, 2, 0, … */
static crn_status feed_all(crn_exec *x, const crn_net *net, crn_err *err) {
  static const int32_t lens[] = {T, 2};
  for (int i = 0; i < net->n_externs; i++) {
    const crn_extern *e = &net->externs[i];
    if (!e->used) continue;
    int64_t shape[CRN_MAX_RANK], n = 1;
    float real[MAX_FRAMES * 8];
    int32_t whole[MAX_FRAMES * 8];
    for (int k = 0; k < e->t.n; k++) {
      const crn_dim *d = e->t.dims[k];
      shape[k] = d->kind == CRN_DIM_BATCH ? B : d->size < 0 ? T : d->size;
      n *= shape[k];
    }
    assert_true(n <= MAX_FRAMES * 8);
    for (int64_t k = 0; k < n; k++) real[k] = (float)(whole[k] = (int32_t)(k % 3));
    const void *data = e->t.dtype == CRN_F32 ? (const void *)real : whole;
    CRN_TRY(crn_exec_feed(x, e->key, e->t.dtype, e->t.n, shape, data, 1, (const int32_t *const[]){lens}, err));
  }
  return CRN_OK;
}

/* Build, run and (in training) differentiate. */
static crn_status try_config(const char *text, crn_net_mode mode, crn_err *err) {
  crn_arena a = {0};
  crn_value *config = NULL;
  crn_net *net = NULL;
  crn_exec *x = NULL;
  crn_store *store = crn_store_new(CRN_F32);
  assert_non_null(store);
  crn_status st = crn_v_parse_literal(&a, text, "config", &config, err);
  if (st != CRN_OK) fail_msg("%s", crn_err_text(err));
  st = crn_net_build(config, mode, store, NULL, &net, err);
  if (st == CRN_OK) st = crn_store_init_values(store, 1, err);
  if (st == CRN_OK) st = crn_exec_new(net, &(crn_session_opts){.n_threads = 1, .seed = 1}, &x, err);
  if (st == CRN_OK) {
    crn_exec_begin(x, mode.train, 0);
    st = feed_all(x, net, err);
    if (st == CRN_OK) st = crn_exec_forward(x, err);
    if (st == CRN_OK && mode.train) st = crn_exec_backward(x, err);
  }
  crn_exec_free(x);
  crn_net_free(net);
  crn_store_free(store);
  crn_arena_free(&a);
  return st;
}

static void expect_refused(const refusal *list, size_t n, bool search) {
  for (size_t i = 0; i < n; i++) {
    crn_err err = {0};
    const crn_net_mode mode = {.train = !search, .eval = true, .search = search};
    const crn_status st = try_config(list[i].config, mode, &err);
    if (st == CRN_OK) fail_msg("not refused: %s", list[i].config);
    for (size_t k = 0; k < 5 && list[i].words[k]; k++)
      if (!strstr(crn_err_text(&err), list[i].words[k]))
        fail_msg("'%s' isn't in: %s (of %s)", list[i].words[k], crn_err_text(&err), list[i].config);
    crn_err_clear(&err);
  }
}

#define EXPECT_REFUSED(list) expect_refused(list, sizeof(list) / sizeof *(list), false)

static void test_sizes(void **state) {
  (void)state;
  static const refusal list[] = {
      {NET("'output': {'class': 'linear', 'n_out': 2**62, 'from': 'data'}"),
       {"layer 'output'", "option 'n_out'", "from 1 to 2147483647", "4611686018427387904"}},
      {NET("'output': {'class': 'linear', 'n_out': -1, 'from': 'data'}"),
       {"layer 'output'", "option 'n_out'", ">= 1", "-1"}},
      {NET("'output': {'class': 'linear', 'n_out': 2147483647, 'from': 'data'}"),
       {"layer 'output'", "no memory left for parameter 'W' of shape (3, 2147483647)"}},
      {"{'extern_data': {'data': {'dim': 2147483647}}, 'network': {"
       "'output': {'class': 'linear', 'n_out': 2147483647, 'from': 'data'}}}",
       {"layer 'output'", "parameter 'W' of shape (2147483647, 2147483647)"}},
      {NET("'output': {'class': 'pool', 'mode': 'max', 'pool_size': (2,), 'strides': 9223372036854775807, 'from': "
           "'data'}"),
       {"layer 'output'", "option 'strides'", "2147483647", "9223372036854775807"}},
      {NET("'output': {'class': 'pad', 'axes': 'F', 'padding': (2**62, 2**62), 'from': 'data'}"),
       {"layer 'output'", "option 'padding'", "2147483647"}},
      {NET("'output': {'class': 'slice_nd', 'start': -9223372036854775807, 'size': 2, 'from': 'data'}"),
       {"layer 'output'", "option 'start'", "-9223372036854775807"}},
      {NET("'output': {'class': 'concat', 'from': [('a', 'F'), ('a', 'F')]},"
           "'a': {'class': 'constant', 'shape': (2147483647,)}"),
       {"layer 'output'", "4294967294", "2147483647"}},
      {"{'extern_data': {'data': {'dim': 2**40}}, 'network': {'output': {'class': 'copy', 'from': 'data'}}}",
       {"extern_data", "key 'data'", "option 'dim'", "2147483647", "1099511627776"}},
      {"{'extern_data': {'data': {'dim': -3}}, 'network': {'output': {'class': 'copy', 'from': 'data'}}}",
       {"key 'data'", "option 'dim'", "-3"}},
      {"{'extern_data': {'data': {'shape': (None, 1e30)}}, 'network': {'output': {'class': 'copy', 'from': 'data'}}}",
       {"key 'data'", "option 'shape'", "1e+30"}},
      {"{'extern_data': {'data': {'dim': 3, 'batch_dim_axis': 2**32}}, 'network': {'output': {'class': 'copy'}}}",
       {"key 'data'", "option 'batch_dim_axis'", "4294967296"}},
  };
  EXPECT_REFUSED(list);
}

static void test_hidden_names(void **state) {
  (void)state;
  static const refusal list[] = {
      {NET("'#lin': {'class': 'linear', 'n_out': 3, 'from': 'data'}, 'lin1': {'class': 'copy', 'from': 'data'},"
           "'output': {'class': 'copy', 'from': '#lin'}"),
       {"layer 'output' (copy)", "layer '#lin' does not exist", "did you mean 'lin1'?"}},
  };
  EXPECT_REFUSED(list);
}

static void test_no_feature(void **state) {
  (void)state;
  static const refusal list[] = {
      {NET("'c': {'class': 'compare', 'kind': 'equal', 'value': 1, 'from': 'data:classes'},"
           "'output': {'class': 'linear', 'n_out': 3, 'from': 'c'}"),
       {"layer 'output' (linear)", "dim"}},
      {NET("'s': {'class': 'rec', 'from': 'data', 'unit': {'output': {'class': 'get_last_hidden_state', 'key': 'c',"
           "'from': ['data:source', 'prev:output'], 'n_out': 4}}}, 'output': {'class': 'copy', 'from': 's'}"),
       {"layer 's/output' (get_last_hidden_state)"}},
  };
  EXPECT_REFUSED(list);
}

static void test_names(void **state) {
  (void)state;
  static const refusal list[] = {
      {NET("'m': {'class': 'compare', 'kind': 'greater', 'value': 0, 'from': 'data'},"
           "'output': {'class': 'masked_computation', 'mask': 'm', 'from': {}, 'unit': {'class': 'copy'}}"),
       {"layer 'output' (masked_computation)", "option 'from'", "layer name"}},
      {NET("'g': {'class': 'generic_attention', 'weights': 'data', 'base': 'v', 'from': []},"
           "'v': {'class': 'reduce', 'mode': 'sum', 'axis': 'T', 'from': 'data'}, 'output': {'class': 'copy', 'from': "
           "'g'}"),
       {"layer 'g' (generic_attention)", "time"}},
      {NET("'output': {'class': 'sparse_softmax_cross_entropy_with_logits', 'logits': 'data', 'targets': "
           "'data:classes', 'from': []}"),
       {"layer 'output' (sparse_softmax_cross_entropy_with_logits)", "no partner in"}},
  };
  EXPECT_REFUSED(list);
}

/* Lengths come from a layer that only the chunking layer reads. */
static void test_unchunking(void **state) {
  (void)state;
  crn_err err = {0};
  static const char config[] = NET(
      "'h': {'class': 'linear', 'n_out': 4, 'from': 'data'},"
      "'ch': {'class': 'time_chunking', 'chunk_size': 4, 'chunk_step': 2, 'from': 'h'},"
      "'output': {'class': 'time_unchunking', 'chunking_layer': 'ch', 'from': 'ch', 'loss': 'mse', 'target': None}");
  if (try_config(config, (crn_net_mode){.eval = true}, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes), cmocka_unit_test(test_hidden_names), cmocka_unit_test(test_no_feature),
      cmocka_unit_test(test_names), cmocka_unit_test(test_unchunking),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
