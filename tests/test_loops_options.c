/* SPDX-License-Identifier: Apache-2.0
 *
 * Rare forms in loops: "prev:x" of a layer that is the same in each step, masked computations of several sources and of
 * sources with their axes in any order. Each gives the same moved out of the loop and not.
 */
#include "loop_check.h"

/* ---- prev: of a constant ----------------------------------------------------------------------------------------- */

static void prev_of_constant(void **state) {
  (void)state;
  static const char mean[] = LOOP_AND_LOSS(
      "'m': {'class': 'reduce', 'mode': 'mean', 'axis': 'T', 'from': 'data'}, ",
      "'c': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': 'base:m', 'initial_output': 0.5}, 'output': "
      "{'class': 'linear', 'n_out': 2, 'activation': 'tanh', 'from': ['prev:c', 'data:source']}");
  check_same_moved_or_not(mean);
  check_same_moved_or_not(LOOP_AND_LOSS("'m': {'class': 'reduce', 'mode': 'mean', 'axis': 'T', 'from': 'data'}, ",
                                        "'c': {'class': 'linear', 'n_out': 2, 'from': 'base:m', 'initial_output': "
                                        "'var'}, 'output': {'class': 'copy', 'from': 'prev:c'}"));
  /* the first frame is the initial output, all others c */
  checked_net c;
  open_loop(
      &c,
      "{'m': {'class': 'reduce', 'mode': 'mean', 'axis': 'T', 'from': 'data'}, 'output': {'class': 'rec', 'from': "
      "'data', 'optimize_move_layers_out': %s, 'unit': {'c': {'class': 'copy', 'from': 'base:m', "
      "'initial_output': 7}, 'output': {'class': 'copy', 'from': 'prev:c'}}}}",
      true, false);
  net_run(&c, false);
  const crn_data *y = value_of(&c, "output"), *m = value_of(&c, "m");
  assert_int_equal(y->v->shape[0], CHECK_T);
  for (int t = 0; t < CHECK_T; t++)
    for (int b = 0; b < CHECK_B; b++)
      for (int f = 0; f < CHECK_D; f++) assert_true(at(y, t, b, f) == (t ? crn_t_get(m->v, b * CHECK_D + f) : 7));
  net_close(&c);
}

/* ---- masked computation ------------------------------------------------------------------------------------------ */

/* The mask leaves out frame 1 of sequence 0, whose first feature is -0.875. */
#define MASK(data)                                                                                                     \
  "'x0': {'class': 'gather', 'axis': 'F', 'position': 0, 'from': '" data "'}, 'm': {'class': 'compare', 'kind': "      \
  "'not_equal', 'from': 'x0', 'value': -0.875, 'is_output_layer': True}, "

static void masked_sources(void **state) {
  (void)state;
  check_same_moved_or_not(
      LOOP_AND_LOSS("", MASK("data:source") "'a': {'class': 'linear', 'n_out': 2, 'activation': 'tanh', 'from': "
                                            "'data:source'}, 'output': {'class': "
                                            "'masked_computation', 'mask': 'm', 'from': ['data:source', 'a'], 'unit': "
                                            "{'class': 'rnn_cell', 'unit': "
                                            "'gru', 'n_out': 2, 'from': 'data'}}"));
  /* outside: packed, [T', B, 3 + 3] */
  checked_net c;
  net_must_open(&c,
                "{" MASK("data") "'d': {'class': 'eval', 'eval': 'source(0) * 2', 'from': 'data'}, 'output': {'class': "
                                 "'masked_computation', 'mask': 'm', 'from': ['data', 'd'], 'unit': {'class': 'copy', "
                                 "'from': 'data'}}}",
                "", false, CRN_F64);
  net_run(&c, false);
  const crn_data *y = value_of(&c, "output");
  assert_int_equal(y->v->shape[0], 3);
  assert_int_equal(y->v->shape[2], 2 * CHECK_D);
  static const int frame[3] = {0, 2, 3};
  for (int k = 0; k < 3; k++)
    for (int f = 0; f < CHECK_D; f++) {
      const double x = gen_x(frame[k] * CHECK_D + f);
      assert_true(at(y, k, 0, f) == x && at(y, k, 0, CHECK_D + f) == 2 * x);
    }
  net_close(&c);
  REFUSED("{" MASK("data") "'output': {'class': 'masked_computation', 'mask': 'm', 'from': [], 'unit': {'class': "
                           "'copy', 'from': "
                           "'data'}}}",
          "'from'");
}

/* A packed sequence from outside that is spread in the loop, its time axis in each place. */
static void unmask_any_order(void **state) {
  (void)state;
  static const char *const perms[] = {"['B', 'T', 'F']", "['B', 'F', 'T']", "['T', 'F', 'B']", "['F', 'B', 'T']"};
  for (size_t i = 0; i < sizeof(perms) / sizeof(*perms); i++) {
    checked_net c;
    char net[1500];
    (void)snprintf(
        net, sizeof(net),
        "{" MASK(
            "data") "'packed': {'class': 'masked_computation', 'mask': 'm', 'from': 'data', 'unit': {'class': 'copy', "
                    "'from': "
                    "'data'}}, 'p': {'class': 'transpose', 'perm': %s, 'from': 'packed'}, 'output': {'class': 'rec', "
                    "'from': "
                    "'data', "
                    "'optimize_move_layers_out': False, 'unit': {" MASK(
                        "data:source") "'u': {'class': 'unmask', 'mask': 'm', 'from': 'base:p'}, 'output': {'class': "
                                       "'reinterpret_data', 'from': 'u'}}}, 'out': {'class': 'transpose', 'perm': "
                                       "['T', 'B', 'F'], 'from': 'output', "
                                       "'is_output_layer': True}}",
        perms[i]);
    net_must_open(&c, net, "", false, CRN_F64);
    net_run(&c, false);
    const crn_data *y = value_of(&c, "out");
    static const int frame[2][4] = {{0, 0, 2, 3}, {0, 1, 1, 1}};
    for (int b = 0; b < CHECK_B; b++)
      for (int t = 0; t < (b ? 2 : 4); t++)
        for (int f = 0; f < CHECK_D; f++)
          if (at(y, t, b, f) != gen_x((b * CHECK_T + frame[b][t]) * CHECK_D + f))
            fail_msg("%s: sequence %d frame %d: %g", perms[i], b, t, at(y, t, b, f));
    net_close(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(prev_of_constant), cmocka_unit_test(masked_sources),
                                     cmocka_unit_test(unmask_any_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
