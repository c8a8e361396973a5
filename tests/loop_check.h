/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of loops, on top of unit_check.h: a network with a layer 'loop' gives the same whether layers move out of
 * its loops or not, and its gradients are right.
 */
#ifndef CRN_TESTS_LOOP_CHECK_H
#define CRN_TESTS_LOOP_CHECK_H

#include "unit_check.h"

/* The network with optimize_move_layers_out as given. */
static inline void open_loop(checked_net *c, const char *format, bool optimize, bool train) {
  char net[2000];
  const int n = snprintf(net, sizeof(net), format, optimize ? "True" : "False");
  assert_true(n > 0 && (size_t)n < sizeof(net));
  net_must_open(c, net, "", train, CRN_F64);
  set_all_params(c);
}

static inline void check_same_moved_or_not(const char *format) {
  checked_net c[2];
  for (int k = 0; k < 2; k++) {
    open_loop(&c[k], format, k == 1, true);
    net_run(&c[k], false);
  }
  const crn_data *a = value_of(&c[0], "loop"), *b = value_of(&c[1], "loop");
  assert_int_equal(a->v->rank, b->v->rank);
  const int64_t n = crn_t_size(a->v) / a->v->shape[0] / CHECK_B;
  for (int q = 0; q < CHECK_B; q++)
    for (int t = 0; t < (q ? 2 : 4); t++)
      for (int64_t f = 0; f < n; f++) {
        const double u = crn_t_get(a->v, (t * CHECK_B + q) * n + f), v = crn_t_get(b->v, (t * CHECK_B + q) * n + f);
        if (!(fabs(u - v) < 1e-12)) fail_msg("sequence %d frame %d: %g and %g", q, t, u, v);
      }
  for (int k = 0; k < 2; k++) {
    check_gradients(&c[k]);
    net_close(&c[k]);
  }
}

#define LOOP_AND_LOSS(before, inside)                                                                                  \
  "{" before "'loop': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {" inside               \
  "}}, 'output': {'class': 'softmax', 'from': 'loop', 'loss': 'ce', 'target': 'classes'}}"

#endif
