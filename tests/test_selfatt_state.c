/* SPDX-License-Identifier: Apache-2.0
 *
 * self_attention that begins with earlier keys and values: from layers, from data, and how many of them are valid;
 * whole, step by step and with gradients. Against plain loops.
 */
#include "unit_check.h"

enum { H = 2, DK = 1, DV = 2, LEFT = 3, COLUMNS = H * (2 * DK + DV) };

#define STATE_LAYERS                                                                                                   \
  "'k0': {'class': 'variable', 'shape': (2, 3, 1), 'add_batch_axis': True}, 'v0': {'class': 'variable', 'shape': (2, " \
  "3, 2), 'add_batch_axis': True}, "
#define ATTENTION(more)                                                                                                \
  "{'class': 'self_attention', 'num_heads': 2, 'total_key_dim': 2, 'n_out': 4, 'attention_left_only': True, " more
#define FROM_LAYERS(base) "'initial_state': {'k_left': '" base "k0', 'v_left': '" base "v0'}, "

/* y[t] of sequence b with `valid` earlier frames, the last ones of k0 and v0. */
static void attend(checked_net *c, const char *qkv, int b, int t, int valid, double y[H * DV]) {
  const double *w = crn_store_find(c->store, qkv)->st.data, *k0 = crn_store_find(c->store, "k0/k0")->st.data,
               *v0 = crn_store_find(c->store, "v0/v0")->st.data;
  for (int h = 0; h < H; h++) {
    double weight[LEFT + CHECK_T], value[LEFT + CHECK_T][DV], q = 0, sum = 0;
    int n = 0;
    for (int d = 0; d < CHECK_D; d++) q += gen_x((b * CHECK_T + t) * CHECK_D + d) * w[d * COLUMNS + h * 4];
    for (int s = LEFT - valid; s < LEFT + t + 1; s++, n++) {
      double k = s < LEFT ? k0[h * LEFT + s] : 0;
      for (int f = 0; f < DV; f++) value[n][f] = s < LEFT ? v0[(h * LEFT + s) * DV + f] : 0;
      for (int d = 0; d < CHECK_D && s >= LEFT; d++) {
        const double x = gen_x((b * CHECK_T + s - LEFT) * CHECK_D + d);
        k += x * w[d * COLUMNS + h * 4 + 1];
        for (int f = 0; f < DV; f++) value[n][f] += x * w[d * COLUMNS + h * 4 + 2 + f];
      }
      sum += weight[n] = exp(q * k);
    }
    for (int f = 0; f < DV; f++) {
      y[h * DV + f] = 0;
      for (int s = 0; s < n; s++) y[h * DV + f] += weight[s] / sum * value[s][f];
    }
  }
}

static void check(checked_net *c, const char *qkv, const int valid[CHECK_B]) {
  const crn_data *y = value_of(c, "output");
  const bool time_major = y->v->shape[0] == CHECK_T;
  for (int b = 0; b < CHECK_B; b++)
    for (int t = 0; t < (b ? 2 : 4); t++) {
      double want[H * DV];
      attend(c, qkv, b, t, valid[b], want);
      for (int f = 0; f < H * DV; f++) {
        const double got = time_major ? at(y, t, b, f) : at(y, b, t, f);
        if (!(fabs(got - want[f]) < 1e-12)) fail_msg("sequence %d frame %d: %g instead of %g", b, t, got, want[f]);
      }
    }
}

static void from_layers(void **state) {
  (void)state;
  const int all[CHECK_B] = {LEFT, LEFT}, some[CHECK_B] = {4 - 2, 0};
  checked_net c;
  net_must_open(&c, "{" STATE_LAYERS "'output': " ATTENTION(FROM_LAYERS("") "'from': 'data'}") "}", "", false, CRN_F64);
  set_all_params(&c);
  net_run(&c, false);
  check(&c, "output/QKV", all);
  net_close(&c);
  /* valid: 4 - 2 and 2 - 2 of them */
  net_must_open(
      &c,
      "{" STATE_LAYERS "'len': {'class': 'length', 'from': 'data'}, 'n': {'class': 'eval', 'eval': 'source(0) "
      "- 2', 'from': 'len'}, 'output': " ATTENTION(FROM_LAYERS("") "'state_var_lengths': 'n', 'from': 'data'}") "}",
      "", false, CRN_F64);
  set_all_params(&c);
  net_run(&c, false);
  check(&c, "output/QKV", some);
  net_close(&c);
}

static void in_a_loop(void **state) {
  (void)state;
  const int all[CHECK_B] = {LEFT, LEFT}, some[CHECK_B] = {2, 0};
  static const char *const lengths[] = {"", "'state_var_lengths': 'base:n', "};
  for (int k = 0; k < 4; k++) {
    checked_net c;
    char net[1200];
    (void)snprintf(
        net, sizeof(net),
        "{" STATE_LAYERS "'len': {'class': 'length', 'from': 'data'}, 'n': {'class': 'eval', 'eval': "
        "'source(0) - 2', 'from': 'len'}, 'output': {'class': 'rec', 'from': 'data', "
        "'optimize_move_layers_out': %s, 'unit': {'output': " ATTENTION(FROM_LAYERS("base:") "%s'from': "
                                                                                             "'data:source'}") "}}}",
        k & 1 ? "True" : "False", lengths[k >> 1]);
    net_must_open(&c, net, "", false, CRN_F64);
    set_all_params(&c);
    net_run(&c, false);
    check(&c, "output/rec/output/QKV", k >> 1 ? some : all);
    net_close(&c);
  }
}

/* Fed: the same as from layers. */
static void from_data(void **state) {
  (void)state;
  const int all[CHECK_B] = {LEFT, LEFT};
  checked_net c;
  net_must_open(
      &c,
      "{'k0': {'class': 'variable', 'shape': (2, 3, 1), 'is_output_layer': True}, 'v0': {'class': 'variable', "
      "'shape': (2, 3, 2), 'is_output_layer': True}, 'output': " ATTENTION(
          "'initial_state': 'placeholder', 'from': 'data'}") "}",
      "", false, CRN_F64);
  set_all_params(&c);
  double x[CHECK_B * CHECK_T * CHECK_D], k[CHECK_B * H * LEFT * DK], v[CHECK_B * H * LEFT * DV];
  const double *k0 = crn_store_find(c.store, "k0/k0")->st.data, *v0 = crn_store_find(c.store, "v0/v0")->st.data;
  for (int i = 0; i < CHECK_B * CHECK_T * CHECK_D; i++) x[i] = gen_x(i);
  for (int i = 0; i < CHECK_B * H * LEFT; i++) k[i] = k0[i % (H * LEFT)];
  for (int i = 0; i < CHECK_B * H * LEFT * DV; i++) v[i] = v0[i % (H * LEFT * DV)];
  const int32_t lens[CHECK_B] = {4, 2}, left[CHECK_B] = {LEFT, LEFT}, *frames = lens, *earlier = left;
  crn_exec_begin(c.x, false, 1);
  assert_int_equal(
      crn_exec_feed(c.x, "data", CRN_F64, 3, (int64_t[]){CHECK_B, CHECK_T, CHECK_D}, x, 1, &frames, &c.err), 0);
  assert_int_equal(crn_exec_feed(c.x, "output/initial_k_left", CRN_F64, 4, (int64_t[]){CHECK_B, H, LEFT, DK}, k, 1,
                                 &earlier, &c.err),
                   0);
  assert_int_equal(crn_exec_feed(c.x, "output/initial_v_left", CRN_F64, 4, (int64_t[]){CHECK_B, H, LEFT, DV}, v, 1,
                                 &earlier, &c.err),
                   0);
  if (crn_exec_forward(c.x, &c.err) != CRN_OK) fail_msg("%s", crn_err_text(&c.err));
  check(&c, "output/QKV", all);
  net_close(&c);
}

static void derivatives(void **state) {
  (void)state;
  static const char *const move[] = {"True", "False"};
  for (int k = 0; k < 2; k++) {
    checked_net c;
    char net[1200];
    (void)snprintf(
        net, sizeof(net),
        "{" STATE_LAYERS "'loop': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': "
        "{'output': " ATTENTION(FROM_LAYERS(
            "base:") "'from': 'data:source'}") "}}, 'output': {'class': "
                                               "'softmax', 'from': 'loop', 'loss': 'ce', 'target': 'classes'}}",
        move[k]);
    net_must_open(&c, net, "", true, CRN_F64);
    set_all_params(&c);
    check_gradients(&c);
    net_close(&c);
  }
}

static void refusals(void **state) {
  (void)state;
#define REFUSED_WITH(more, ...)                                                                                        \
  REFUSED("{" STATE_LAYERS "'output': " ATTENTION(more ", 'from': 'data'}") "}", __VA_ARGS__)
  REFUSED_WITH("'initial_state': 'ones'", "initial_state", "how many frames");
  REFUSED_WITH("'initial_state': 'k0'", "initial_state", "'k_left'");
  REFUSED_WITH("'initial_state': {'k_left': 'k0'}", "initial_state", "'v_left'");
  REFUSED_WITH("'initial_state': ['k0']", "initial_state", "'v_left'");
  REFUSED_WITH("'state_var_lengths': 'k0'", "state_var_lengths", "integer");
  checked_net c;
  const int32_t lens[2] = {4, 2};
  net_must_open(&c, "{" STATE_LAYERS "'output': " ATTENTION("'initial_state': ['v0', 'k0'], 'from': 'data'}") "}", "",
                false, CRN_F64);
  assert_int_not_equal(net_run_on(&c, 0, 2, 4, 0, lens, false), CRN_OK);
  assert_non_null(strstr(crn_err_text(&c.err), "'v0' must give [2, 2, frames, 1] for 'k_left'"));
  net_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(from_layers), cmocka_unit_test(in_a_loop),
                                     cmocka_unit_test(from_data), cmocka_unit_test(derivatives),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
