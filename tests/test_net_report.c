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
  if (!strstr(text, part)) fail_msg("'%s' isn't in:\n%s", part, text);
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
    "{'extern_data': {'data': {'dim': 3}}, 'network': {'a': {'class': 'lineer', 'from': 'data'},"
    " 'b': {'class': 'linear', 'activaton': 'tanh', 'n_uot': 3, 'n_out': 'x', 'from': 'data'},"
    " 'c': {'class': 'rec', 'from': 'data', 'unit': {'x': {'class': 'choise'},"
    "       'output': {'class': 'rnn_cell', 'unit': 'lstmm', 'n_out': 3, 'from': 'data:source', 'foo': 1}}},"
    " 'd': {'class': 'eval', 'eval': 'source(0) +', 'from': 'data'},"
    " 'k': {'class': 'softmax', 'loss': 'ce', 'loss_opts': {'foo': 2}, 'from': 'data'},"
    " 'output': {'class': 'softmax', 'from': 'b', 'loss': 'cee', 'activation': 'tanhh'}},"
    " 'train': {'class': 'MetaDataset', 'datasets': {'x': {'class': 'HDFDatset'}}},"
    " 'optimizer': {'class': 'adm'}, 'batch_siez': 3, 'learning_rate_control': 'newbobb'}";

static void test_faults(void **state) {
  (void)state;
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *v;
  int64_t n = 0;
  assert_int_equal(crn_v_parse_literal(&a, faults, "faults", &v, &err), CRN_OK);
  char *text = info(NULL, v, false, false, &n);
  static const char *const parts[] = {
      "layer 'a': unknown class 'lineer' (did you mean 'linear'?)",
      "layer 'b': class 'linear' has no option 'activaton' (did you mean 'activation'?)",
      "layer 'b': class 'linear' has no option 'n_uot' (did you mean 'n_out'?)",
      "layer 'b' (linear): option 'n_out': expected integer >= 1, got 'x'",
      "layer 'c/x': unknown class 'choise' (did you mean 'choice'?)",
      "layer 'c/output': class 'rnn_cell' has no option 'foo'",
      "layer 'c/output' (rnn_cell): option 'unit': unknown unit 'lstmm'",
      "layer 'd': option 'eval'",
      "layer 'k' (softmax): loss_opts of 'ce': unknown option 'foo'",
      "layer 'output' (softmax): option 'loss': unknown loss 'cee'",
      "layer 'output': option 'activation': invalid activation function \"tanhh\"",
      "train: unknown class of datasets 'HDFDatset' (did you mean 'HDFDataset'?)",
      "unknown optimizer class 'adm'",
      "unknown config key 'batch_siez' (did you mean 'batch_size'?)",
      "unknown control 'newbobb'",
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) expect(text, parts[i]);
  assert_int_equal(n, sizeof parts / sizeof *parts);
  free(text);
  crn_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_info), cmocka_unit_test(test_graph),
                                     cmocka_unit_test(test_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
