/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn info and graph: what they say of the recorded attention model, and that a config with many faults has all of
 * them listed.
 */
#include "training_run.h"

static char *info(const char *path, const crn_value *values, bool search, bool graph, int64_t *n) {
  crn_config *c = NULL;
  crn_err err = {0};
  crn_str out = {0};
  crn_status st = path ? crn_config_load(path, NULL, &c, &err) : crn_config_new(&c, &err);
  if (st == CRN_OK && values) st = crn_config_add_values(c, values, &err);
  if (st == CRN_OK)
    st = graph ? crn_engine_graph(c, NULL, search, &out, &err) : crn_engine_info(c, NULL, search, true, &out, n, &err);
  if (st != CRN_OK) fail_msg("%s", crn_err_text(&err));
  crn_config_free(c);
  return out.p;
}

static void expect(const char *text, const char *part) {
  if (strstr(text, part)) return;
  puts(text); /* fail_msg cuts long texts */
  fail_msg("'%s' isn't there", part);
}

#define ATTENTION DATA "endtoend/attention/config.py"

static void test_info(void **state) {
  (void)state;
  int64_t n = -1;
  char *text = info(ATTENTION, NULL, false, false, &n);
  assert_int_equal(n, 0);
  expect(text, "used data keys: ['data', 'classes']\n");
  expect(text, "  layer rnn_cell 'output/s' #: 32 [B, F(32)] float32\n");
  expect(text, "  Input layers moved out of loop: (#: 2)\n    output\n    target_embed\n");
  expect(text, "  Output layers moved out of loop: (#: 3)\n    output_prob\n    readout\n    readout_in\n");
  expect(text, "  Unused layers: (#: 1)\n    end\n");
  expect(text, "  ctc: ctc of layer 'ctc', scale 0.3\n");
  expect(text, "  output/rec/s/rec/lstm_cell/kernel [96, 128]\n");
  expect(text, "net params #: 25977\nnet trainable params #: 25977\nnot supported:\n  None\n");
  free(text);
  text = info(ATTENTION, NULL, true, false, &n);
  expect(
      text,
      "Rec layer 'output' (search True, train False) sub net:\n  Input layers moved out of loop: (#: 0)\n    None\n");
  expect(text, "  Layers in loop: (#: 15)\n");
  free(text);
}

static void test_graph(void **state) {
  (void)state;
  int64_t n;
  char *text = info(ATTENTION, NULL, false, true, &n);
  assert_true(crn_starts_with(text, "digraph network {\n"));
  assert_true(crn_ends_with(text, "}\n"));
  expect(text, "label=\"output (each step)\";");
  expect(text, "label=\"output (all frames)\";");
  expect(text, "[label=\"output/energy_tanh\\nactivation\\n");
  expect(text, "style=dashed");
  int open = 0, boxes = 0;
  for (const char *p = text; *p; p++) open += (*p == '{') - (*p == '}');
  for (const char *p = text; (p = strstr(p, "output/output_prob\\n")); p++) boxes++;
  assert_int_equal(open, 0);
  assert_int_equal(boxes, 1); /* it moved out of the loop: not inside too */
  free(text);
}

/* One fault a layer or more: none hides another. */
static const char faults[] =
    "{'extern_data': {'data': {'dim': 3}, 'classes': {'dim': 4, 'sparse': True}}, 'network': {"
    " 'a': {'class': 'lineer', 'from': 'data'},"
    " 'b': {'class': 'linear', 'activaton': 'tanh', 'n_uot': 3, 'n_out': 'x', 'L2': 'much', 'with_bias': 'no',"
    "       'from': ['encodr', 'a2']},"
    " 'c': {'class': 'rec', 'from': 'data', 'is_output_layer': True, 'unit': {'x': {'class': 'choise'},"
    "       'y': {'class': 'linear', 'n_out': 3, 'from': 'base:bb'}, 'z': {'class': 'copy', 'from': 'data:sorce'},"
    "       'w': {'class': 'split_dims', 'axis': 'F', 'dims': (2, 2), 'from': 'data:source'},"
    "       'v': {'class': 'reduce', 'mode': 'max', 'axis': 'Q', 'from': 'data:source'},"
    "       'cell': {'class': 'rnn_cell', 'unit': 'lstmm', 'n_out': 3, 'from': 'data:source', 'foo': 1},"
    "       'output': {'class': 'copy', 'from': ['y', 'z', 'w', 'v', 'cell']}}},"
    " 'd': {'class': 'eval', 'eval': 'source(0) +', 'from': 'data'},"
    " 'e': {'class': 'image_summary', 'from': 'data'},"
    " 'f': {'class': 'subnetwork', 'from': 'data', 'is_output_layer': True, 'subnetwork': {"
    "       'output': {'class': 'merge_dims', 'axes': 'X', 'from': 'data'}}},"
    " 'g': {'class': 'split_dims', 'axis': 'F', 'dims': (2, 2), 'from': 'data'},"
    " 'k': {'class': 'softmax', 'loss': 'ce', 'loss_opts': {'foo': 2, 'focal_loss_factor': 'x'}, 'from': 'data'},"
    " 'm': {'class': 'softmax', 'loss': 'ce', 'target': 'clases', 'from': 'data'},"
    " 'output': {'class': 'softmax', 'from': ['b', 'g'], 'loss': 'cee', 'activation': 'tanhh'}},"
    " 'train': {'class': 'MetaDataset', 'datasets': {'x': {'class': 'HDFDatset'}}, 'data_map': {}},"
    " 'dev': {'class': 'HDFDataset', 'filez': [], 'partition_epoch': 'two'}, 'eval': {'class': 'SprintCacheDataset'},"
    " 'optimizer': {'class': 'adam', 'bta1': 0.5, 'epsilonn': 1}, 'batch_siez': 3, 'learning_rate_control': 'newbobb',"
    " 'max_seqs': 'many', 'model': 3, 'gradient_clip': -1, 'gradient_noise': -2, 'pretrain': 'default',"
    " 'cleanup_old_models': {'keep_lst_n': 3}, 'chunking': 'x'}";

static const char *const all_faults[] = {
    "layer 'a': unknown layer class 'lineer'; did you mean 'linear'?",
    "layer 'b' (linear): unknown option 'activaton'; did you mean 'activation'?",
    "layer 'b' (linear): unknown option 'n_uot'; did you mean 'n_out'?",
    "layer 'b' (linear): option 'n_out': expected integer >= 1, got 'x'",
    "layer 'b' (linear): option 'L2': expected a number, got 'much'",
    "layer 'b' (linear): option 'with_bias': expected True or False, got 'no'",
    "layer 'b' (linear): option 'from': layer 'encodr' does not exist",
    "layer 'b' (linear): option 'from': layer 'a2' does not exist",
    "layer 'c/x': unknown layer class 'choise'; did you mean 'choice'?",
    "layer 'c/y' (linear): option 'from': layer 'bb' does not exist in the network of the root",
    "layer 'c/z' (copy): option 'from': unknown data key 'sorce'",
    "layer 'c/w' (split_dims): axis of size 3 can't be split",
    "layer 'c/v' (reduce) > option 'axis': axis 'Q'",
    "layer 'c/cell' (rnn_cell): unknown option 'foo'",
    "layer 'c/cell' (rnn_cell): option 'unit': unknown unit 'lstmm'",
    "layer 'd' (eval) > option 'eval'",
    "layer 'e' (image_summary): not implemented: layer class 'image_summary'",
    "layer 'f/output' (merge_dims) > option 'axes': axis 'X'",
    "layer 'g' (split_dims): axis of size 3 can't be split into parts of product 4",
    "layer 'k' (softmax): loss_opts of 'ce': unknown option 'foo'",
    "layer 'k' (softmax): loss_opts of 'ce': option 'focal_loss_factor': expected a number",
    "layer 'm' (softmax): option 'target': unknown data key 'clases'; there are 'data', 'classes'",
    "layer 'output' (softmax): option 'loss': unknown loss 'cee'",
    "layer 'output' (softmax) > option 'activation': invalid activation function \"tanhh\"",
    "train: unknown class of datasets 'HDFDatset' (did you mean 'HDFDataset'?)",
    "dev: unknown option 'filez', did you mean 'files'?",
    "dev: option 'partition_epoch': expected an integer, got 'two'",
    "dev: option 'files' is required",
    "eval: not implemented: class 'SprintCacheDataset'",
    "optimizer 'adam': unknown option 'bta1'; did you mean 'beta1'?",
    "optimizer 'adam': unknown option 'epsilonn'; did you mean 'epsilon'?",
    "unknown config key 'batch_siez' (did you mean 'batch_size'?)",
    "unknown control 'newbobb'",
    "config key 'max_seqs': expected int, got 'many'",
    "config key 'model': expected str, got 3",
    "config key 'gradient_clip'",
    "config key 'gradient_noise'",
    "config key 'pretrain': not implemented",
    "config key 'cleanup_old_models': unknown option 'keep_lst_n'; did you mean 'keep_last_n'?",
    "option 'chunking': expected",
};

static void test_faults(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *v;
  int64_t n = 0;
  assert_int_equal(crn_v_parse_literal(&a, faults, "faults", &v, &err), CRN_OK);
  char *text = info(NULL, v, false, false, &n);
  for (size_t i = 0; i < sizeof all_faults / sizeof *all_faults; i++) expect(text, all_faults[i]);
  if (n != (int64_t)(sizeof all_faults / sizeof *all_faults)) {
    puts(text);
    fail_msg("%lld faults instead of %zu", (long long)n, sizeof all_faults / sizeof *all_faults);
  }
  free(text);
  crn_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_info), cmocka_unit_test(test_graph),
                                     cmocka_unit_test(test_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
