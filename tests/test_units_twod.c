/* SPDX-License-Identifier: Apache-2.0
 *
 * twod_lstm against a plain loop over the grid, in every pooling; and in a loop, moved out or not.
 */
#include "unit_check.h"

enum { N = 2, F1 = CHECK_D, F2 = 2 };

static double sigmoid(double v) { return 1 / (1 + exp(-v)); }

static const double *param(checked_net *c, const char *path) {
  crn_param *p = crn_store_find(c->store, path);
  if (!p) fail_msg("there is no parameter '%s'", path);
  return p->st.data;
}

static double pool(const char *pooling, const double y[CHECK_T][N], const double *w_att, const double *target, int S,
                   int u) {
  double sum = 0, best = -9, weights = 0;
  if (!strcmp(pooling, "last")) return y[S - 1][u];
  for (int s = 0; s < CHECK_T; s++) {
    double e = 0;
    for (int k = 0; k < N && w_att; k++)
      for (int f = 0; f < F2; f++) e += target[f] * w_att[f * N + k] * y[s][k];
    if (y[s][u] > best) best = y[s][u];
    if (!strcmp(pooling, "average"))
      sum += y[s][u] / S;
    else
      sum += exp(e) * y[s][u];
    weights += exp(e);
  }
  if (!strcmp(pooling, "max")) return best;
  return strcmp(pooling, "weighted") ? sum : sum / weights;
}

static void by_hand(void **state) {
  (void)state;
  static const char *const poolings[] = {"last", "max", "average", "weighted"};
  for (int k = 0; k < 4; k++) {
    checked_net c;
    char net[400];
    (void)snprintf(
        net, sizeof(net),
        "{'t': {'class': 'linear', 'n_out': 2, 'from': 'data'}, 'output': {'class': 'twod_lstm', 'n_out': 2, 'from': "
        "['data', 't'], 'pooling': '%s'}}",
        poolings[k]);
    net_must_open(&c, net, "", false, CRN_F64);
    set_all_params(&c);
    net_run(&c, false);
    const double *w = param(&c, "output/rec-twod/W_re"), *vh = param(&c, "output/rec-twod/Vh_re");
    const double *vv = param(&c, "output/rec-twod/Vv_re"), *att = k == 3 ? param(&c, "output/rec-twod/W_att") : NULL;
    const crn_data *target = value_of(&c, "t"), *out = value_of(&c, "output");
    assert_int_equal(out->v->shape[0], CHECK_T);
    for (int b = 0; b < CHECK_B; b++) {
      const int S = b ? 2 : 4;
      double y[CHECK_T][N] = {{0}}, cell[CHECK_T][N] = {{0}};
      for (int t = 0; t < S; t++) {
        double now[F2];
        for (int f = 0; f < F2; f++) now[f] = crn_t_get(target->v, (b * CHECK_T + t) * F2 + f);
        for (int s = 0; s < S; s++) {
          double z[5 * N];
          for (int o = 0; o < 5 * N; o++) {
            z[o] = 0;
            for (int f = 0; f < F1; f++) z[o] += gen_x((b * CHECK_T + s) * CHECK_D + f) * w[f * 5 * N + o];
            for (int f = 0; f < F2; f++) z[o] += now[f] * w[(F1 + f) * 5 * N + o];
            for (int u = 0; u < N; u++) z[o] += (s ? y[s - 1][u] * vh[u * 5 * N + o] : 0) + y[s][u] * vv[u * 5 * N + o];
          }
          for (int u = 0; u < N; u++) { /* i, f, λ, o, j */
            const double left = s ? cell[s - 1][u] : 0, l = sigmoid(z[2 * N + u]);
            cell[s][u] = sigmoid(z[u]) * tanh(z[4 * N + u]) + sigmoid(z[N + u]) * (l * cell[s][u] + (1 - l) * left);
            y[s][u] = sigmoid(z[3 * N + u]) * tanh(cell[s][u]);
          }
        }
        for (int u = 0; u < N; u++) {
          const double want = pool(poolings[k], y, att, now, S, u);
          if (!(fabs(at(out, t, b, u) - want) < 1e-12))
            fail_msg("%s: sequence %d frame %d: %g instead of %g", poolings[k], b, t, at(out, t, b, u), want);
        }
      }
    }
    net_close(&c);
  }
}

static void in_a_loop(void **state) {
  (void)state;
  checked_net c[2];
  for (int k = 0; k < 2; k++) {
    char net[600];
    (void)snprintf(
        net, sizeof(net),
        "{'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {'t': {'class': 'linear', "
        "'n_out': 2, 'from': 'data:source'}, 'output': {'class': 'twod_lstm', 'n_out': 2, 'from': ['base:data', "
        "'t']}}}}",
        k ? "True" : "False");
    net_must_open(&c[k], net, "", false, CRN_F64);
    set_all_params(&c[k]);
    net_run(&c[k], false);
  }
  for (int b = 0; b < CHECK_B; b++)
    for (int t = 0; t < (b ? 2 : 4); t++)
      for (int u = 0; u < N; u++)
        assert_true(fabs(at(value_of(&c[0], "output"), t, b, u) - at(value_of(&c[1], "output"), t, b, u)) < 1e-13);
  net_close(&c[0]);
  net_close(&c[1]);
}

static void refusals(void **state) {
  (void)state;
  REFUSED("{'output': {'class': 'twod_lstm', 'n_out': 2, 'from': 'data'}}", "two sources");
  REFUSED("{'output': {'class': 'twod_lstm', 'n_out': 2, 'from': ['data', 'data:classes']}}", "target", "sparse");
  REFUSED("{'output': {'class': 'twod_lstm', 'n_out': 2, 'from': ['data', 'data'], 'pooling': 'mean'}}", "pooling",
          "average");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(in_a_loop),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
