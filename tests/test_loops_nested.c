/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops inside of loops and of sub networks: against sums that are known, moved out and not, with gradients by
 * differences, in search against the same without an inner loop.
 */
#include "loop_check.h"

/* ---- known sums ---------------------------------------------------------------------------------------------------
 */

static const int lens[CHECK_B] = {4, 2};
static double x_at(int b, int t, int d) { return gen_x((b * CHECK_T + t) * CHECK_D + d); }

/* s_t = sum of x up to t; the inner loop's y_u = sum over v <= u of (x_v + s_t); the result is the mean of y. */
static double expected_mean(int b, int t, int d) {
  double s = 0, y = 0, sum = 0;
  for (int v = 0; v <= t; v++) s += x_at(b, v, d);
  for (int u = 0; u < lens[b]; u++) {
    y += x_at(b, u, d) + s;
    sum += y;
  }
  return sum / lens[b];
}

static void known_sums(void **state) {
  (void)state;
  static const char net[] = "{'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {"
                            "'s': {'class': 'combine', 'kind': 'add', 'from': ['data:source', 'prev:s']},"
                            "'inner': {'class': 'rec', 'from': 'base:data', 'unit': {"
                            "  'z': {'class': 'combine', 'kind': 'add', 'from': ['data:source', 'base:s']},"
                            "  'output': {'class': 'combine', 'kind': 'add', 'from': ['z', 'prev:output']}}},"
                            "'output': {'class': 'reduce', 'mode': 'mean', 'axes': 'T', 'from': 'inner'}}}}";
  for (int optimize = 0; optimize < 2; optimize++) {
    checked_net c;
    open_loop(&c, net, optimize, false);
    net_run(&c, false);
    const crn_data *y = value_of(&c, "output");
    for (int b = 0; b < CHECK_B; b++)
      for (int t = 0; t < lens[b]; t++)
        for (int d = 0; d < CHECK_D; d++) {
          const double want = expected_mean(b, t, d);
          if (!(fabs(at(y, t, b, d) - want) < 1e-12))
            fail_msg("[%d, %d, %d]: %g, expected %g", t, b, d, at(y, t, b, d), want);
        }
    net_close(&c);
  }
}

/* ---- every form, moved out and not --------------------------------------------------------------------------------
 */

#define NET(before, inside)                                                                                            \
  "{" before "'loop': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {" inside               \
  "}}, 'output': {'class': 'softmax', 'from': 'loop', 'loss': 'ce', 'target': 'classes'}}"
#define ENC "'enc': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': 'data'},"
#define MEAN_OF(x) "{'class': 'reduce', 'mode': 'mean', 'axes': 'T', 'from': '" x "'}"

static void forms(void **state) {
  (void)state;
  static const char *const nets[] = {
      /* the inner loop reads the outer one's state, which reads the inner loop's result */
      NET(ENC, "'s': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': ['data:source', 'prev:m']},"
               "'inner': {'class': 'rec', 'from': 'base:enc', 'unit': {'y': {'class': 'linear', 'activation': 'tanh', "
               "'n_out': 2, 'from': ['data:source', 'prev:y', 'base:s']}, 'output': {'class': 'copy', 'from': 'y'}}},"
               "'m': " MEAN_OF("inner") ", 'output': {'class': 'copy', 'from': 'm'}"),
      /* it depends on nothing of the outer loop */
      NET(ENC,
          "'inner': {'class': 'rec', 'from': 'base:enc', 'unit': {'output': {'class': 'linear', 'activation': "
          "'tanh', 'n_out': 2, 'from': ['data:source', 'prev:output']}}}, 'm': " MEAN_OF(
              "inner") ","
                       "'output': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': ['m', 'prev:output', "
                       "'data:source']}"),
      /* on the outer input only: it moves out with its loop */
      NET(ENC, "'inner': {'class': 'rec', 'from': 'base:enc', 'unit': {'output': {'class': 'linear', 'activation': "
               "'tanh', 'n_out': 2, 'from': ['data:source', 'prev:output', 'base:data:source']}}}, 'm': " MEAN_OF(
                   "inner") ", 'output': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': ['m', "
                            "'prev:output']}"),
      /* three levels; the innermost reads all of them */
      NET(ENC,
          "'s': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': ['data:source', 'prev:s']},"
          "'i1': {'class': 'rec', 'from': 'base:enc', 'unit': {"
          "  'r': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': ['data:source', 'prev:r', 'base:s']},"
          "  'i2': {'class': 'rec', 'from': 'base:base:enc', 'unit': {'output': {'class': 'linear', 'activation': "
          "'tanh', 'n_out': 2, 'from': ['data:source', 'prev:output', 'base:r', 'base:base:s']}}},"
          "  'output': " MEAN_OF("i2") "}}, 'output': " MEAN_OF("i1")),
      /* inside of a sub network of the loop, and a sub network inside of it */
      NET(ENC, "'s': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': ['data:source', 'prev:s']},"
               "'sub': {'class': 'subnetwork', 'from': 's', 'subnetwork': {"
               "  'inner': {'class': 'rec', 'from': 'base:base:enc', 'unit': {"
               "    'sub': {'class': 'subnetwork', 'from': ['data:source', 'prev:output'], 'subnetwork': {'output': "
               "{'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': 'data'}}},"
               "    'output': {'class': 'combine', 'kind': 'add', 'from': ['sub', 'base:data']}}},"
               "  'output': " MEAN_OF("inner") "}}, 'output': {'class': 'copy', 'from': 'sub'}"),
      /* units, states and several sources; a layer of the inner loop is read from outside of it */
      NET(ENC,
          "'s': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'n_out': 2, 'from': ['data:source', 'prev:m']},"
          "'inner': {'class': 'rec', 'from': ['base:enc', 'base:data'], 'unit': {'l': {'class': 'rnn_cell', 'unit': "
          "'LSTMBlock', 'n_out': 2, 'from': ['data:source', 'base:s']}, 'e': {'class': 'linear', 'activation': "
          "'sigmoid', 'n_out': 2, 'from': 'l', 'is_output_layer': True}, 'output': {'class': 'copy', 'from': 'l'}}},"
          "'m': " MEAN_OF("inner/e") ", 'output': {'class': 'combine', 'kind': 'add', 'from': ['s', 'm']}"),
      /* over frames that are made in each step, backwards in a unit */
      NET(ENC, "'s': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': ['data:source', 'prev:m']},"
               "'x': {'class': 'combine', 'kind': 'mul', 'from': ['base:enc', 's']},"
               "'inner': {'class': 'rec', 'from': 'x', 'unit': {'output': {'class': 'linear', 'activation': 'tanh', "
               "'n_out': 2, 'from': ['data:source', 'prev:output'], 'initial_output': 'var'}}},"
               "'u': {'class': 'rec', 'unit': 'nativelstm2', 'direction': -1, 'n_out': 2, 'from': 'inner'},"
               "'m': " MEAN_OF("u") ", 'output': {'class': 'copy', 'from': 'm'}"),
      /* until it ends itself */
      NET("", "'s': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': ['data:source', 'prev:m']},"
              "'inner': {'class': 'rec', 'from': [], 'max_seq_len': 5, 'unit': {'output': {'class': 'linear', "
              "'activation': 'tanh', 'n_out': 2, 'from': ['prev:output', 'base:s']}, 'end': {'class': 'compare', "
              "'kind': 'greater_equal', 'from': ':i', 'value': 2}}},"
              "'m': " MEAN_OF("inner") ", 'output': {'class': 'copy', 'from': 'm'}"),
      /* over an axis that is made in the loop */
      NET("", "'x': {'class': 'linear', 'activation': 'tanh', 'n_out': 6, 'from': ['data:source', 'prev:x']},"
              "'parts': {'class': 'split_dims', 'axis': 'F', 'dims': (3, 2), 'from': 'x'},"
              "'inner': {'class': 'rec', 'axis': 'dim:3', 'from': 'parts', 'unit': {'output': {'class': 'linear', "
              "'activation': 'tanh', 'n_out': 2, 'from': ['data:source', 'prev:output', 'base:x']}}},"
              "'output': {'class': 'reduce', 'mode': 'sum', 'axes': 'dim:3', 'from': 'inner'}"),
  };
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
    print_message("form %d\n", (int)i);
    check_same_moved_or_not(nets[i]);
  }
}

/* ---- search --------------------------------------------------------------------------------------------------------
 */

#define SEARCH(inner)                                                                                                  \
  "{'enc': {'class': 'linear', 'activation': 'tanh', 'n_out': 4, 'from': 'data'}, 'loop': {'class': 'rec', 'from': "   \
  "[], 'target': 'classes', 'max_seq_len': 5, 'unit': {"                                                               \
  "'s': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'n_out': 4, 'from': ['prev:m', 'prev:emb']}," inner                 \
  "'m': {'class': 'reduce', 'mode': 'mean', 'axes': 'T', 'from': 'y'},"                                                \
  "'emb': {'class': 'linear', 'activation': None, 'n_out': 3, 'from': 'output', 'initial_output': 0},"                 \
  "'p': {'class': 'softmax', 'from': ['s', 'm'], 'target': 'classes', 'loss': 'ce'},"                                  \
  "'output': {'class': 'choice', 'beam_size': 3, 'from': 'p', 'target': 'classes', 'initial_output': 0},"              \
  "'end': {'class': 'compare', 'from': 'output', 'value': 0}}},"                                                       \
  "'decision': {'class': 'decide', 'from': 'loop', 'is_output_layer': True}}"

/* Sums over the frames up to each, once by an inner loop for each hypothesis, once without. */
static void hypotheses(void **state) {
  (void)state;
  static const char *const nets[] = {
      SEARCH(
          "'y': {'class': 'rec', 'from': 'base:enc', 'unit': {'z': {'class': 'combine', 'kind': 'add', 'from': "
          "['data:source', 'base:s']}, 'output': {'class': 'combine', 'kind': 'add', 'from': ['z', 'prev:output']}}},"),
      SEARCH("'z': {'class': 'combine', 'kind': 'add', 'from': ['base:enc', 's']}, 'y': {'class': 'cumsum', 'axis': "
             "'T', 'from': 'z'},")};
  checked_net c[2];
  for (int k = 0; k < 2; k++) {
    if (!net_open(&c[k], nets[k], "", (crn_net_mode){.search = true}, CRN_F64)) fail_msg("%s", crn_err_text(&c[k].err));
    set_all_params(&c[k]);
    net_run(&c[k], false);
  }
  const crn_data *a = value_of(&c[0], "loop"), *b = value_of(&c[1], "loop");
  assert_int_equal(a->v->shape[0], b->v->shape[0]);
  assert_true(a->beam && b->beam && a->beam->K == 3);
  for (int64_t i = 0; i < crn_t_size(a->v); i++) assert_true(crn_t_get(a->v, i) == crn_t_get(b->v, i));
  for (int64_t i = 0; i < CHECK_B * 3; i++) {
    assert_int_equal(crn_t_i32(a->len[0]->v)[i], crn_t_i32(b->len[0]->v)[i]);
    assert_true(fabs(crn_t_get(a->beam->scores, i) - crn_t_get(b->beam->scores, i)) < 1e-12);
  }
  for (int k = 0; k < 2; k++) net_close(&c[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_sums),
      cmocka_unit_test(forms),
      cmocka_unit_test(hypotheses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
