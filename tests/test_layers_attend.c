/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of attention, picking and placing, batches and alignments: gradients against central differences in double,
 * loops against whole sequences, values that can be worked out by hand, refused options.
 */
#include "loss_net.h"

static const double frames[2 * 5 * 3] = {0.5, -1.0, 0.3, 0.2,  0.8, -0.4, 1.1, -0.2, 0.6, -0.7,
                                         0.9, 0.1,  0.4, -0.3, 1.2, -0.6, 0.7, 0.5,  1.0, -0.8,
                                         0.2, 0.3,  0.6, -1.1, 0.0, 0.0,  0.0, 0.0,  0.0, 0.0};
static const int32_t frame_lens[2] = {5, 3};
static const double vectors[2 * 3] = {0.4, -0.9, 0.7, 1.3, 0.2, -0.5};
static const int32_t index_values[2 * 3] = {4, 0, 2, 1, 2, 0};
static const int32_t index_lens[2] = {3, 2};
static const int32_t one_each[2] = {3, 1};
static const int32_t classes[2 * 3] = {1, 1, 0, 2, 0, 0};
static const int32_t class_lens[2] = {3, 1};
static const feed feeds[] = {{"data", CRN_F64, 3, {2, 5, 3}, frames, frame_lens},
                             {"vec", CRN_F64, 2, {2, 3}, vectors, NULL},
                             {"idx", CRN_I32, 2, {2, 3}, index_values, index_lens},
                             {"one", CRN_I32, 1, {2}, one_each, NULL},
                             {"classes", CRN_I32, 2, {2, 3}, classes, class_lens}};
enum { N_FEEDS = sizeof feeds / sizeof *feeds };

#define EXTERN                                                                                                         \
  "'extern_data': {'data': {'dim': 3, 'shape': (None, 3)}, 'vec': {'dim': 3, 'shape': (3,)},"                          \
  " 'idx': {'dim': 5, 'shape': (None,), 'sparse': True, 'dtype': 'int32'},"                                            \
  " 'one': {'shape': (), 'sparse': True, 'dim': 5, 'dtype': 'int32'},"                                                 \
  " 'classes': {'dim': 3, 'shape': (None,), 'sparse': True, 'dtype': 'int32'}}"

/* The layer x under test between layers h, g [B, T, 4], q [B, 4] and a squared output. */
static const char *config_of(crn_arena *a, const char *x) {
  return crn_arena_printf(a,
                          "{" EXTERN
                          ", 'network': {'h': {'class': 'linear', 'activation': 'tanh', 'n_out': 4, 'from': 'data'},"
                          " 'g': {'class': 'linear', 'activation': 'sigmoid', 'n_out': 4, 'from': 'data'},"
                          " 'q': {'class': 'linear', 'activation': 'tanh', 'n_out': 4, 'from': 'data:vec'},"
                          " 'p': {'class': 'linear', 'activation': 'sigmoid', 'n_out': 1, 'from': 'data:vec'},"
                          " 'rel': {'class': 'relative_positional_encoding', 'from': 'h', 'n_out': 3, 'clipping': 2},"
                          " 'flat': {'class': 'flatten_batch', 'from': 'h'},"
                          " 'm': {'class': 'compare', 'kind': 'greater', 'value': 0.1, 'from': 'm0'},"
                          " 'm0': {'class': 'gather', 'axis': 'F', 'position': 0, 'from': 'data'},"
                          " 'x': %s, 'output': {'class': 'eval', 'eval': 'source(0) * source(0) + 0.3 * source(0)', "
                          "'from': 'x', 'loss': 'as_is'}}}",
                          x);
}

static void test_gradients(void **state) {
  (void)state;
  static const char *const layers[] = {
      "{'class': 'self_attention', 'from': 'h', 'num_heads': 2, 'total_key_dim': 6, 'n_out': 4}",
      "{'class': 'self_attention', 'from': 'h', 'num_heads': 1, 'total_key_dim': 3, 'n_out': 2, 'key_shift': 'rel'}",
      "{'class': 'self_attention', 'from': 'h', 'num_heads': 2, 'total_key_dim': 6, 'n_out': 2, 'key_shift': 'rel', "
      "'attention_left_only': True}",
      "{'class': 'self_attention', 'from': 'h', 'num_heads': 2, 'total_key_dim': 4, 'n_out': 2, 'attention_left_only': "
      "True, 'attention_dropout': 0.3}",
      "{'class': 'self_attention', 'from': 'data:idx', 'num_heads': 2, 'total_key_dim': 4, 'n_out': 2}",
      "{'class': 'positional_encoding', 'from': 'h', 'add_to_input': True}",
      "{'class': 'dot_attention', 'from': 'q', 'base': 'g', 'base_ctx': 'h', 'energy_factor': 0.7}",
      "{'class': 'concat_attention', 'from': 'q', 'base': 'g', 'base_ctx': 'h'}",
      "{'class': 'gauss_window_attention', 'from': 'p', 'base': 'h', 'window_size': 3, 'std': 0.8}",
      "{'class': 'gauss_window_attention', 'from': 'p', 'base': 'h', 'window_size': 2, 'inner_size': 2}",
      "{'class': 'gather', 'from': 'h', 'axis': 'T', 'position': 'data:idx'}",
      "{'class': 'gather', 'from': 'h', 'axis': 'T', 'position': 'data:one'}",
      "{'class': 'gather', 'from': 'h', 'axis': 'F', 'position': 2}",
      "{'class': 'gather', 'from': 'h', 'axis': 'T', 'position': 4, 'clip_to_valid': True}",
      "{'class': 'gather_nd', 'from': 'h', 'position': 'data:idx'}",
      "{'class': 'top_k', 'from': 'h', 'axis': 'F', 'k': 2}",
      "{'class': 'top_k', 'from': 'h', 'axis': ['T', 'F'], 'k': 3}",
      "{'class': 'scatter_nd', 'from': 'q', 'position': 'data:idx', 'position_axis': 'T', 'output_dim_via_time_from': "
      "'data'}",
      "{'class': 'unflatten_batch', 'from': 'flat'}",
      "{'class': 'ctc_loss', 'logits': 'h', 'targets': 'data:classes'}",
      "{'class': 'ctc_loss', 'logits': 'h', 'targets': 'data:classes', 'max_approx': True, 'label_loop': False}",
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    crn_arena a = {0};
    loss_net n;
    print_message("%s\n", layers[i]);
    net_open(&n, config_of(&a, layers[i]), true, feeds, N_FEEDS);
    net_check_gradients(&n, 2e-5);
    net_close(&n);
    crn_arena_free(&a);
  }
}

/* ---- values ---------------------------------------------------------------------------------------------------------
 */

static const crn_data *value_of(loss_net *n, const char *path) {
  const crn_layer *l = crn_net_find(n->net, path);
  const crn_data *d = l ? crn_exec_value(n->exec, l) : NULL;
  if (!d || !d->v) fail_msg("no value of '%s'", path);
  return d;
}

static void expect_values(const char *what, const crn_data *d, int64_t size, const double *want) {
  assert_int_equal(crn_t_size(d->v), size);
  for (int64_t i = 0; i < size; i++) expect_near(what, crn_t_get(d->v, i), want[i], 1e-9);
}

static void open_layer(loss_net *n, crn_arena *a, const char *network) {
  net_open(n, crn_arena_printf(a, "{" EXTERN ", 'network': %s}", network), false, feeds, N_FEEDS);
  net_run(n);
}

static void test_scatter(void **state) {
  (void)state;
  crn_arena a = {0};
  loss_net n;
  open_layer(
      &n, &a,
      "{'one': {'class': 'constant', 'value': 1.0}, 'output': {'class': 'scatter_nd', 'from': 'one', 'position': "
      "'data:idx', 'position_axis': 'T', 'output_dim_via_time_from': 'data', 'is_output_layer': True}, "
      "'few': {'class': 'scatter_nd', 'from': 'one', 'position': 'data:idx', 'position_axis': 'T', "
      "'output_dim_via_time_from': 'data:classes', 'filter_invalid_indices': True, 'is_output_layer': True}}");
  const double want[2 * 5] = {1, 0, 1, 0, 1, 1, 1, 1, 0, 0}, few[2 * 3] = {1, 0, 1, 1, 1, 1};
  expect_values("scatter_nd", value_of(&n, "output"), 10, want);
  expect_values("scatter_nd, filtered", value_of(&n, "few"), 6, few); /* position 4 is dropped */
  net_close(&n);
  net_open(&n,
           "{" EXTERN
           ", 'network': {'one': {'class': 'constant', 'value': 1.0}, 'output': {'class': 'scatter_nd', 'from': "
           "'one', 'position': 'data:idx', 'position_axis': 'T', 'output_dim_via_time_from': 'data:classes'}}}",
           false, feeds, N_FEEDS);
  assert_false(net_forward(&n));
  expect_message(&n, "position 4");
  net_close(&n);
  crn_arena_free(&a);
}

/* boolean_mask over two axes: rows in the order of the dims as listed. */
static void test_boolean_mask(void **state) {
  (void)state;
#define PLACE "{\"__dim__\": {\"kind\": \"spatial\", \"name\": \"place\", \"dim\": 3}}"
#define ROW "{\"__dim__\": {\"kind\": \"spatial\", \"name\": \"row\", \"dim\": 2}}"
#define VALUE "{\"__dim__\": {\"kind\": \"feature\", \"name\": \"value\", \"dim\": 2}}"
  static const char json[] =
      "{\"extern_data\": {\"data\": {\"dim\": 3, \"shape\": {\"__tuple__\": [null, 3]}}},"
      " \"network\": {\"x\": {\"class\": \"constant\", \"shape\": [" PLACE ", " ROW ", " VALUE "],"
      " \"value\": {\"__ndarray__\": [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]], \"dtype\": "
      "\"float32\"}},"
      " \"m\": {\"class\": \"constant\", \"shape\": [" ROW ", " PLACE "],"
      " \"value\": {\"__ndarray__\": [[1, 0, 1], [0, 1, 0]], \"dtype\": \"int32\"}},"
      " \"mask\": {\"class\": \"cast\", \"dtype\": \"bool\", \"from\": \"m\"},"
      " \"output\": {\"class\": \"boolean_mask\", \"from\": \"x\", \"mask\": \"mask\", \"dims\": [" ROW ", " PLACE
      "]}}}";
  loss_net n = {0};
  crn_value *v = NULL;
  assert_int_equal(crn_v_parse_json(&n.arena, json, sizeof json - 1, "config", &v, &n.err), CRN_OK);
  n.store = crn_store_new(CRN_F64);
  if (crn_net_build(v, (crn_net_mode){0}, n.store, NULL, &n.net, &n.err) != CRN_OK)
    fail_msg("%s", crn_err_text(&n.err));
  const crn_session_opts opts = {.n_threads = 1, .keep_all = true};
  assert_int_equal(crn_exec_new(n.net, &opts, &n.exec, &n.err), CRN_OK);
  net_run(&n);
  const double want[3 * 2] = {1, 2, 9, 10, 7, 8};
  const crn_data *y = value_of(&n, "output");
  expect_values("boolean_mask", y, 6, want);
  assert_int_equal(y->t.time_axis, 0);
  assert_int_equal((int)crn_t_get(y->len[0]->v, 0), 3);
  net_close(&n);
}

static void test_gather_clips(void **state) {
  (void)state;
  crn_arena a = {0};
  loss_net n;
  open_layer(
      &n, &a,
      "{'output': {'class': 'gather', 'from': 'data:idx', 'axis': 'T', 'position': 2, 'clip_to_valid': True}, "
      "'frames': {'class': 'gather', 'from': 'data:classes', 'axis': 'T', 'position': 'data:idx', 'clip_to_valid': "
      "True, 'is_output_layer': True}}");
  const double want[2] = {2, 2}, frames_want[6] = {0, 1, 0, 2, 2, 2};
  expect_values("last frame", value_of(&n, "output"), 2, want);
  expect_values("clipped frames", value_of(&n, "frames"), 6, frames_want);
  assert_int_equal(value_of(&n, "output")->t.n, 1);
  net_close(&n);
  crn_arena_free(&a);
}

/* Levenshtein distance of a[0..na) and b, with the plain recursion. */
static int distance(const int32_t *a, int na, const int32_t *b, int nb) {
  if (!na || !nb) return na + nb;
  int best = distance(a, na - 1, b, nb - 1) + (a[na - 1] != b[nb - 1]);
  const int del = distance(a, na - 1, b, nb) + 1, ins = distance(a, na, b, nb - 1) + 1;
  best = del < best ? del : best;
  return ins < best ? ins : best;
}

static const int32_t hyps[2 * 4] = {1, 2, 1, 0, 0, 2, 0, 0};
static const int32_t hyp_lens[2] = {4, 2};

/* Rows of the table and completions at each step against the recursion. */
static void test_distance_table(void **state) {
  (void)state;
  static const feed hyp_feeds[] = {{"hyp", CRN_I32, 2, {2, 4}, hyps, hyp_lens},
                                   {"classes", CRN_I32, 2, {2, 3}, classes, class_lens}};
  loss_net n;
  net_open(
      &n,
      "{'extern_data': {'hyp': {'dim': 3, 'shape': (None,), 'sparse': True, 'dtype': 'int32'}, 'classes': {'dim': 3, "
      "'shape': (None,), 'sparse': True, 'dtype': 'int32'}}, 'network': {'output': {'class': 'rec', 'from': "
      "'data:hyp', "
      "'include_eos': True, 'optimize_move_layers_out': False, 'unit': {"
      "'table': {'class': 'edit_distance_table', 'from': 'data:source', 'target': 'layer:base:data:classes', "
      "'is_output_layer': True}, "
      "'next': {'class': 'optimal_completions', 'from': 'prev:table', 'target': 'layer:base:data:classes', "
      "'is_output_layer': True}, "
      "'output': {'class': 'copy', 'from': 'table'}}}, "
      "'table': {'class': 'copy', 'from': 'output/table', 'is_output_layer': True}, 'next': {'class': 'copy', 'from': "
      "'output/next', 'is_output_layer': True}, 'dist': {'class': 'edit_distance', 'a': 'data:hyp', 'b': "
      "'data:classes', 'from': [], 'is_output_layer': True}}}",
      false, hyp_feeds, 2);
  net_run(&n);
  const crn_data *table = value_of(&n, "table"), *next = value_of(&n, "next"), *dist = value_of(&n, "dist");
  assert_int_equal(table->v->shape[0], 4);
  assert_int_equal(table->v->shape[2], 4);
  assert_int_equal(next->v->shape[2], 3);
  for (int b = 0; b < 2; b++) {
    const int32_t *hyp = hyps + 4 * b, *ref = classes + 3 * b;
    assert_int_equal((int)crn_t_get(dist->v, b), distance(hyp, hyp_lens[b], ref, class_lens[b]));
    for (int t = 0; t < hyp_lens[b]; t++) {
      for (int j = 0; j <= 3; j++) {
        const int len = j < class_lens[b] ? j : class_lens[b];
        assert_int_equal((int)crn_t_get(table->v, (t * 2 + b) * 4 + j), distance(hyp, t + 1, ref, len));
      }
      for (int v = 0; v < 3; v++) {
        int32_t longer[8];
        int best = 1000;
        memcpy(longer, hyp, (size_t)t * sizeof *hyp);
        longer[t] = v;
        for (int j = 0; j <= class_lens[b]; j++) {
          const int d = distance(longer, t + 1, ref, j);
          best = d < best ? d : best;
        }
        assert_int_equal((int)crn_t_get(next->v, (t * 2 + b) * 3 + v), best);
      }
    }
  }
  net_close(&n);
}

/* The best path of each sequence by trying all, over labels 0 … 2 and blank 3. */
static double best_path(const double *score, int T, const int32_t *ref, int n, bool ctc, int *path) {
  double best = -INFINITY;
  int all = 1;
  for (int t = 0; t < T; t++) all *= 4;
  for (int code = 0; code < all; code++) {
    int p[8], k = 0, last = -1;
    bool fits = true;
    double sum = 0;
    for (int t = 0, c = code; t < T; t++, c /= 4) {
      p[t] = c % 4;
      sum += score[4 * t + p[t]];
    }
    for (int t = 0; t < T && fits; t++) {
      if (p[t] != 3 && !(ctc && p[t] == last)) fits = k < n && ref[k++] == p[t];
      last = p[t];
    }
    if (!fits || k != n || sum <= best) continue;
    best = sum;
    for (int t = 0; t < T; t++) path[t] = p[t];
  }
  return best;
}

static void test_forced_align(void **state) {
  (void)state;
  for (int ctc = 0; ctc < 2; ctc++) {
    crn_arena a = {0};
    loss_net n;
    open_layer(
        &n, &a,
        crn_arena_printf(&a,
                         "{'h': {'class': 'linear', 'activation': 'log_softmax', 'n_out': 4, 'from': 'data', "
                         "'is_output_layer': True}, 'output': {'class': 'forced_align', 'from': 'h', 'align_target': "
                         "'data:classes', 'topology': '%s', 'input_type': 'log_prob', 'is_output_layer': True}, "
                         "'score': {'class': 'copy', 'from': 'output/scores', 'is_output_layer': True}}",
                         ctc ? "ctc" : "rna"));
    const crn_data *y = value_of(&n, "output"), *h = value_of(&n, "h"), *score = value_of(&n, "score");
    assert_true(y->t.sparse);
    for (int b = 0; b < 2; b++) {
      int path[8];
      double z[5 * 4];
      for (int i = 0; i < 4 * frame_lens[b]; i++) z[i] = crn_t_get(h->v, b * 20 + i);
      const double best = best_path(z, frame_lens[b], classes + 3 * b, class_lens[b], ctc != 0, path);
      expect_near("score", crn_t_get(score->v, b), best, 1e-9);
      for (int t = 0; t < frame_lens[b]; t++) assert_int_equal((int)crn_t_get(y->v, t * 2 + b), path[t]);
    }
    net_close(&n);
    crn_arena_free(&a);
  }
}

/* fast_bw over a staircase of states: shares by trying all paths. */
static void test_staircase(void **state) {
  (void)state;
  crn_arena a = {0};
  loss_net n;
  open_layer(
      &n, &a,
      "{'h': {'class': 'linear', 'activation': 'log_softmax', 'n_out': 4, 'from': 'data', 'is_output_layer': True}, "
      "'output': {'class': 'fast_bw', 'from': 'h', 'align_target': 'staircase', 'staircase_seq_len_source': "
      "'data:classes', 'is_output_layer': True}}");
  const crn_data *y = value_of(&n, "output"), *h = value_of(&n, "h");
  for (int b = 0; b < 2; b++) {
    const int T = frame_lens[b], S = class_lens[b];
    double share[5 * 4] = {0}, total = 0;
    for (int code = 0; code < 1 << (T - 1); code++) { /* bit t: a step before frame t + 1 */
      int s = 0, at[5] = {0};
      double sum = crn_t_get(h->v, b * 20);
      for (int t = 1; t < T; t++) {
        s += code >> (t - 1) & 1;
        at[t] = s;
        if (s < 4) sum += crn_t_get(h->v, b * 20 + 4 * t + s);
      }
      if (s != S - 1) continue;
      total += exp(sum);
      for (int t = 0; t < T; t++) share[4 * t + at[t]] += exp(sum);
    }
    expect_near("sum", crn_t_get(y->output_loss, b), -log(total), 1e-9);
    for (int t = 0; t < T; t++)
      for (int s = 0; s < 4; s++)
        expect_near("share", crn_t_get(y->v, (t * 2 + b) * 4 + s), share[4 * t + s] / total, 1e-9);
  }
  net_close(&n);
  crn_arena_free(&a);
}

/* d sum(tanh(h)^2) / dh, and that it can't be trained through. */
static void test_gradient(void **state) {
  (void)state;
  static const char *const network =
      "{'h': {'class': 'linear', 'n_out': 2, 'from': 'data', 'is_output_layer': True}, "
      "'y0': {'class': 'eval', 'eval': 'tf.tanh(source(0)) ** 2', 'from': 'h'}, "
      "'y1': {'class': 'reduce', 'mode': 'sum', 'axes': 'BT', 'from': 'y0'}, "
      "'y': {'class': 'reduce', 'mode': 'sum', 'axes': 'F', 'from': 'y1'}, "
      "'output': {'class': 'gradient', 'y': 'y', 'x': 'h', 'is_output_layer': True, %s}}";
  crn_arena a = {0};
  loss_net n;
  open_layer(&n, &a, crn_arena_printf(&a, network, "'from': []"));
  const crn_data *h = value_of(&n, "h"), *g = value_of(&n, "output");
  for (int t = 0; t < 5; t++) {
    const double v = tanh(crn_t_get(h->v, t));
    expect_near("gradient", crn_t_get(g->v, t), 2 * v * (1 - v * v), 1e-9);
  }
  net_close(&n);
  net_open(&n, crn_arena_printf(&a, "{" EXTERN ", 'network': %s}", crn_arena_printf(&a, network, "'loss': 'as_is'")),
           true, feeds, N_FEEDS);
  net_run(&n);
  assert_int_not_equal(crn_exec_backward(n.exec, &n.err), CRN_OK);
  expect_message(&n, "not implemented");
  net_close(&n);
  crn_arena_free(&a);
}

/* Variables that change in a run: reads see what was assigned before them, the store when the step is over. */
static void test_assign(void **state) {
  (void)state;
  crn_arena a = {0};
  loss_net n;
  net_open(&n,
           "{" EXTERN ", 'network': {'v': {'class': 'variable', 'shape': (), 'dtype': 'float32', 'init': 2.0}, "
           "'one': {'class': 'constant', 'value': 1.0}, 'seven': {'class': 'constant', 'value': 7.0}, "
           "'before': {'class': 'variable_read', 'var': 'v', 'is_output_layer': True}, "
           "'set': {'class': 'variable_assign', 'var': 'v', 'value': 'seven', 'control_dependencies': ['before']}, "
           "'add': {'class': 'variable_assign', 'var': 'set', 'value': 'one', 'op': 'add'}, "
           "'after': {'class': 'variable_read', 'var': 'add', 'is_output_layer': True}, "
           "'output': {'class': 'copy', 'from': 'data'}}}",
           false, feeds, N_FEEDS);
  for (int step = 0; step < 2; step++) {
    net_run(&n);
    expect_near("before", crn_t_get(value_of(&n, "before")->v, 0), step ? 8 : 2, 1e-12);
    expect_near("after", crn_t_get(value_of(&n, "after")->v, 0), 8, 1e-12);
    crn_exec_apply_assigns(n.exec);
  }
  net_close(&n);
  crn_arena_free(&a);
}

/* The formulas of the reference, and that ortho type 3 undoes ortho type 2. */
static void test_dct(void **state) {
  (void)state;
  crn_arena a = {0};
  loss_net n;
  open_layer(&n, &a,
             "{'one': {'class': 'dct', 'type': 1, 'from': 'data', 'is_output_layer': True}, "
             "'two': {'class': 'dct', 'from': 'data', 'is_output_layer': True}, "
             "'four': {'class': 'dct', 'type': 4, 'from': 'data', 'is_output_layer': True}, "
             "'ortho': {'class': 'dct', 'norm': 'ortho', 'from': 'data'}, "
             "'output': {'class': 'dct', 'type': 3, 'norm': 'ortho', 'from': 'ortho'}}");
  const double pi = 3.14159265358979323846;
  for (int t = 0; t < 3; t++)
    for (int k = 0; k < 3; k++) {
      const double *x = frames + 3 * t;
      double one = x[0] + (k % 2 ? -1 : 1) * x[2] + 2 * x[1] * cos(pi * k / 2), two = 0, four = 0;
      for (int i = 0; i < 3; i++) {
        two += 2 * x[i] * cos(pi * k * (2 * i + 1) / 6);
        four += 2 * x[i] * cos(pi * (2 * k + 1) * (2 * i + 1) / 12);
      }
      expect_near("type 1", crn_t_get(value_of(&n, "one")->v, 3 * t + k), one, 1e-12);
      expect_near("type 2", crn_t_get(value_of(&n, "two")->v, 3 * t + k), two, 1e-12);
      expect_near("type 4", crn_t_get(value_of(&n, "four")->v, 3 * t + k), four, 1e-12);
      expect_near("inverse", crn_t_get(value_of(&n, "output")->v, 3 * t + k), x[k], 1e-12);
    }
  net_close(&n);
  crn_arena_free(&a);
}

/* ---- loops ----------------------------------------------------------------------------------------------------------
 */

/* Left-only self-attention with relative positions: moved out of the loop, and step by step, give the same. */
static void test_self_attention_in_loop(void **state) {
  (void)state;
  double objective[2];
  for (int moved = 0; moved < 2; moved++) {
    crn_arena a = {0};
    loss_net n;
    net_open(&n,
             crn_arena_printf(
                 &a,
                 "{" EXTERN
                 ", 'network': {'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {"
                 "'l': {'class': 'linear', 'n_out': 4, 'activation': 'tanh', 'from': 'data:source'}, "
                 "'pe': {'class': 'positional_encoding', 'add_to_input': True, 'from': 'l'}, "
                 "'rp': {'class': 'relative_positional_encoding', 'n_out': 2, 'clipping': 2, 'from': 'pe'}, "
                 "'output': {'class': 'self_attention', 'num_heads': 2, 'total_key_dim': 4, 'n_out': 4, 'from': "
                 "'pe', 'attention_left_only': True, 'key_shift': 'rp', 'loss': 'as_is'}}}}}",
                 moved ? "True" : "False"),
             true, feeds, N_FEEDS);
    net_check_gradients(&n, 2e-5);
    net_run(&n);
    objective[moved] = net_objective(&n);
    net_close(&n);
    crn_arena_free(&a);
  }
  expect_near("moved out", objective[1], objective[0], 1e-9);
}

/* Kept keys and values: a batch of two parts in two runs, restricted to the last part or not. */
static void test_self_attention_kept(void **state) {
  (void)state;
  static const int32_t whole_len = 5, part_lens[3] = {2, 2, 1};
  double out[3][5 * 4]; /* whole, kept, kept and restricted */
  for (int mode = 0; mode < 3; mode++) {
    static const char *const options[3] = {"", ", 'initial_state': 'keep_over_epoch'",
                                           ", 'initial_state': 'keep_over_epoch', 'restrict_state_to_last_seq': True"};
    crn_arena a = {0};
    loss_net n;
    net_open(&n,
             crn_arena_printf(&a,
                              "{" EXTERN
                              ", 'network': {'output': {'class': 'self_attention', 'from': 'data', 'num_heads': 2, "
                              "'total_key_dim': 4, 'n_out': 4, 'attention_left_only': True%s}}}",
                              options[mode]),
             false, NULL, 0);
    crn_exec_new_epoch(n.exec);
    for (int part = 0, t = 0; part < (mode ? 3 : 1); part++) {
      const int32_t *lens = mode ? &part_lens[part] : &whole_len;
      crn_exec_begin(n.exec, false, 1);
      assert_int_equal(
          crn_exec_feed(n.exec, "data", CRN_F64, 3, (int64_t[]){1, *lens, 3}, frames + 3 * t, 1, &lens, &n.err),
          CRN_OK);
      assert_int_equal(crn_exec_forward(n.exec, &n.err), CRN_OK);
      for (int i = 0; i < 4 * *lens; i++) out[mode][4 * t + i] = crn_t_get(value_of(&n, "output")->v, i);
      t += *lens;
    }
    net_close(&n);
    crn_arena_free(&a);
  }
  for (int i = 0; i < 5 * 4; i++) expect_near("kept", out[1][i], out[0][i], 1e-12);
  for (int i = 0; i < 4 * 4; i++) expect_near("two parts", out[2][i], out[0][i], 1e-12);
  assert_true(fabs(out[2][4 * 4] - out[0][4 * 4]) > 1e-6); /* the third part doesn't see the first */
}

/* So many energies that they are computed a few sequences at a time where no gradient is wanted: the same values. */
static void test_self_attention_in_parts(void **state) {
  (void)state;
  enum { LONG = 620, SEQS = 5, N = SEQS * LONG };
  static double x[N * 3], y[2][N * 4];
  static const int32_t lens[SEQS] = {LONG, 1, 300, 0, 599};
  static const feed long_feeds[] = {{"data", CRN_F64, 3, {SEQS, LONG, 3}, x, lens}};
  for (int i = 0; i < N * 3; i++) x[i] = sin(0.37 * i);
  for (int left_only = 0; left_only < 2; left_only++) {
    for (int recorded = 0; recorded < 2; recorded++) {
      crn_arena a = {0};
      loss_net n;
      net_open(&n,
               crn_arena_printf(&a,
                                "{" EXTERN
                                ", 'network': {'output': {'class': 'self_attention', 'from': 'data', 'num_heads': 2, "
                                "'total_key_dim': 4, 'n_out': 4, 'attention_left_only': %s}}}",
                                left_only ? "True" : "False"),
               recorded, long_feeds, 1);
      net_run(&n);
      const crn_data *out = value_of(&n, "output");
      for (int i = 0; i < N * 4; i++) y[recorded][i] = crn_t_get(out->v, i);
      net_close(&n);
      crn_arena_free(&a);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
  }
}

/* ---- refusals -------------------------------------------------------------------------------------------------------
 */

static void test_refused(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{'class': 'self_attention', 'from': 'h', 'num_heads': 3, 'total_key_dim': 4, 'n_out': 4}", "num_heads"},
      {"{'class': 'self_attention', 'from': 'q', 'num_heads': 2, 'total_key_dim': 4, 'n_out': 4}", "[B, T, F]"},
      {"{'class': 'self_attention', 'from': 'h', 'num_heads': 2, 'total_key_dim': 4, 'n_out': 4, 'initial_state': "
       "'ones'}",
       "how many frames"},
      {"{'class': 'dot_attention', 'from': 'h', 'base': 'g', 'base_ctx': 'h'}", "[B, F]"},
      {"{'class': 'concat_attention', 'from': 'data:vec', 'base': 'g', 'base_ctx': 'h'}", "base_ctx"},
      {"{'class': 'gather', 'from': 'h', 'axis': 'T', 'position': 'g'}", "int32"},
      {"{'class': 'gather', 'from': 'h', 'axis': 1, 'position': 0}", "'axis'"},
      {"{'class': 'positional_encoding', 'from': 'h', 'n_out': 3}", "at least 4"},
      {"{'class': 'edit_distance', 'a': 'h', 'b': 'data:classes', 'from': []}", "sparse"},
      {"{'class': 'edit_distance_table', 'from': 'data:idx', 'target': 'classes'}", "loop"},
      {"{'class': 'top_k', 'from': 'h', 'axis': 'F', 'k': 5}", "'k' is 5"},
      {"{'class': 'scatter_nd', 'from': 'h', 'position': 'data:idx', 'position_axis': 'T'}",
       "output_dim_via_time_from"},
      {"{'class': 'unflatten_batch', 'from': 'h'}", "flatten_batch"},
      {"{'class': 'fast_bw', 'from': 'h', 'align_target': 'sprint'}", "not implemented"},
      {"{'class': 'fast_bw', 'from': 'h', 'align_target': 'ctc'}", "align_target_key"},
      {"{'class': 'ctc_loss', 'logits': 'h', 'targets': 'data:idx'}", "dim"},
      {"{'class': 'gradient', 'y': 'h', 'x': 'g', 'from': []}", "scalar"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    crn_arena a = {0};
    expect_refused(config_of(&a, cases[i][0]), cases[i][1]);
    crn_arena_free(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_scatter),
      cmocka_unit_test(test_gather_clips),
      cmocka_unit_test(test_boolean_mask),
      cmocka_unit_test(test_distance_table),
      cmocka_unit_test(test_forced_align),
      cmocka_unit_test(test_staircase),
      cmocka_unit_test(test_gradient),
      cmocka_unit_test(test_assign),
      cmocka_unit_test(test_dct),
      cmocka_unit_test(test_self_attention_in_loop),
      cmocka_unit_test(test_self_attention_kept),
      cmocka_unit_test(test_self_attention_in_parts),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
