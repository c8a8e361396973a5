/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent units on the cases D11 and D12, against plain formulas, and sequence against steps in a loop.
 */
#include "unit_check.h"

/* ---- D11 --------------------------------------------------------------------------------------------------------- */

static const double d11_forward[CHECK_B][CHECK_T][2] = {
    {{.13027, -.06215}, {.20105, -.08420}, {.23789, -.09054}, {.25492, -.09016}},
    {{.08167, -.04669}, {.19571, .11406}, {0, 0}, {0, 0}}};
static const double d11_backward[CHECK_B][CHECK_T][2] = {
    {{.25363, -.09629}, {.22110, -.08916}, {.17012, -.07615}, {.09652, -.05064}},
    {{.22614, .05901}, {.17134, .12326}, {0, 0}, {0, 0}}};

static void check_table(const crn_data *d, const double want[CHECK_B][CHECK_T][2]) {
  assert_int_equal(d->v->shape[0], CHECK_T);
  for (int b = 0; b < CHECK_B; b++)
    for (int t = 0; t < CHECK_T; t++)
      for (int f = 0; f < 2; f++)
        if (!(fabs(at(d, t, b, f) - want[b][t][f]) <= 1e-5))
          fail_msg("sequence %d frame %d: %g instead of %g", b, t, at(d, t, b, f), want[b][t][f]);
}

static void open_d11(checked_net *c, const char *unit, const char *more) {
  char net[400];
  (void)snprintf(net, sizeof(net), "{'output': {'class': 'rec', 'unit': '%s', 'n_out': 2, 'from': 'data'%s}}", unit,
                 more);
  net_must_open(c, net, "", false, CRN_F32);
  set_param(c, "output/rec/W", 0);
  set_param(c, "output/rec/W_re", 24);
  set_param(c, "output/rec/b", 40);
}

static void native_values(void **state) {
  (void)state;
  static const char *const units[] = {"nativelstm2", "NativeLSTM2", "lstm",       "LSTMP",
                                      "lstmblock",   "nativelstm",  "vanillalstm"};
  checked_net c;
  for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
    open_d11(&c, units[i], "");
    net_run(&c, false);
    check_table(value_of(&c, "output"), d11_forward);
    net_close(&c);
    open_d11(&c, units[i], ", 'direction': -1");
    net_run(&c, false);
    check_table(value_of(&c, "output"), d11_backward);
    net_close(&c);
  }
}

static void padding_does_not_matter(void **state) {
  (void)state;
  static const char *const directions[] = {"", ", 'direction': -1"};
  for (int k = 0; k < 2; k++) {
    checked_net batch, alone, dirty;
    const int32_t lens[2] = {4, 2};
    open_d11(&batch, "nativelstm2", directions[k]);
    open_d11(&alone, "nativelstm2", directions[k]);
    open_d11(&dirty, "nativelstm2", directions[k]);
    net_run(&batch, false);
    assert_int_equal(net_run_on(&alone, 1, 1, 2, 0, lens + 1, false), CRN_OK);
    assert_int_equal(net_run_on(&dirty, 0, 2, CHECK_T, 50, lens, false), CRN_OK);
    const crn_data *a = value_of(&batch, "output"), *b = value_of(&alone, "output"), *d = value_of(&dirty, "output");
    for (int t = 0; t < 2; t++)
      for (int f = 0; f < 2; f++) {
        assert_true(at(a, t, 1, f) == at(b, t, 0, f));
        assert_true(at(a, t, 1, f) == at(d, t, 1, f));
      }
    for (int t = 2; t < CHECK_T; t++) assert_true(at(d, t, 1, 0) == 0 && at(d, t, 1, 1) == 0);
    net_close(&batch);
    net_close(&alone);
    net_close(&dirty);
  }
}

static void last_state_of_backward(void **state) {
  (void)state;
  checked_net c;
  net_must_open(&c,
                "{'r': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 2, 'direction': -1, 'from': 'data'},"
                " 'output': {'class': 'get_last_hidden_state', 'from': 'r', 'key': 'h', 'n_out': 2}}",
                "", false, CRN_F32);
  set_all_params(&c);
  net_run(&c, false);
  const crn_data *r = value_of(&c, "r"), *h = value_of(&c, "output");
  for (int b = 0; b < CHECK_B; b++)
    for (int f = 0; f < 2; f++) assert_true(crn_t_get(h->v, b * 2 + f) == at(r, 0, b, f));
  net_close(&c);
}

/* ---- D12 --------------------------------------------------------------------------------------------------------- */

static const double d12_old[CHECK_T][2] = {
    {-.10128, -.06814}, {-.13974, -.09790}, {-.17456, -.12673}, {-.20626, -.15490}};
static const double d12_new[CHECK_T][2] = {
    {-.05064, -.03407}, {-.09519, -.06598}, {-.13487, -.09636}, {-.17057, -.12563}};

static void check_zoneout(const char *options, const char *version, const double want[CHECK_T][2]) {
  checked_net c;
  char net[400];
  (void)snprintf(net, sizeof(net),
                 "{'output': {'class': 'rec', 'unit': 'zoneoutlstm', 'n_out': 2, 'from': 'data', 'unit_opts': "
                 "{'zoneout_factor_cell': .5, 'zoneout_factor_output': .5%s}}}",
                 options);
  net_must_open(&c, net, version, false, CRN_F32);
  set_param(&c, "output/rec/lstm_cell/kernel", 0);
  set_param(&c, "output/rec/lstm_cell/bias", 40);
  net_run(&c, false);
  for (int t = 0; t < CHECK_T; t++)
    for (int f = 0; f < 2; f++)
      if (!(fabs(at(value_of(&c, "output"), t, 0, f) - want[t][f]) <= 1e-5)) fail_msg("frame %d", t);
  net_close(&c);
}

static void zoneout_values(void **state) {
  (void)state;
  check_zoneout("", "", d12_old);
  check_zoneout("", "'behavior_version': 16,", d12_old);
  check_zoneout("", "'behavior_version': 17,", d12_new);
  check_zoneout(", 'use_zoneout_output': True", "", d12_new);
  check_zoneout(", 'use_zoneout_output': False", "'behavior_version': 17,", d12_old);
}

/* With probability 1 nothing ever changes; with probability 0 it is a plain LSTM; in between every entry of the state
 * is the old or the new one. */
static void zoneout_in_training(void **state) {
  (void)state;
  checked_net c;
  net_must_open(&c,
                "{'output': {'class': 'rec', 'unit': 'zoneoutlstm', 'n_out': 2, 'from': 'data', 'initial_state': "
                "'ones', 'unit_opts': "
                "{'zoneout_factor_cell': 1, 'zoneout_factor_output': 1, 'use_zoneout_output': True}}}",
                "", true, CRN_F32);
  set_all_params(&c);
  net_run(&c, true);
  for (int t = 0; t < CHECK_T; t++)
    for (int f = 0; f < 2; f++) assert_true(at(value_of(&c, "output"), t, 0, f) == 1);
  assert_true(at(value_of(&c, "output"), 3, 1, 0) == 0);
  net_close(&c);
}

/* ---- sequence and loop ------------------------------------------------------------------------------------------- */

typedef struct unit_case {
  const char *unit, *opts;
  bool cell; /* rnn_cell takes it */
} unit_case;

static const unit_case unit_cases[] = {
    {"nativelstm2", "", false},
    {"vanillalstm", "", false},
    {"standardlstm", "", true},
    {"standardlstm", "'use_peepholes': True, 'cell_clip': .3, 'num_proj': 2, 'proj_clip': .2", true},
    {"standardlstm", "'activation': 'sigmoid', 'forget_bias': .25", true},
    {"basiclstm", "'forget_bias': 0.5", true},
    {"zoneoutlstm", "'zoneout_factor_cell': .15, 'zoneout_factor_output': .05", true},
    {"layernormvariantslstm", "", true},
    {"layernormvariantslstm",
     "'global_norm': False, 'per_gate_norm': True, 'cell_norm_in_output': False, 'hidden_norm': True", true},
    {"layernormvariantslstm", "'global_norm': False, 'global_norm_joined': True, 'with_concat': True", true},
    {"layernormvariantslstm", "'global_norm': False, 'cell_norm': False", true},
    {"gru", "", true},
    {"gru", "'activation': 'relu'", true},
    {"basicrnn", "", true},
    {"rhn", "'depth': 3", true},
};

static void sequence_net(char *net, size_t n, const unit_case *u, const char *class_name, bool optimize) {
  const int len = snprintf(
      net, n,
      "{'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {'x': {'class': 'linear', "
      "'from': 'data:source', 'n_out': 3}, 'output': {'class': '%s', 'unit': '%s', 'n_out': 2, 'from': 'x', "
      "'unit_opts': {%s}}}}}",
      optimize ? "True" : "False", class_name, u->unit, u->opts);
  assert_true(len > 0 && (size_t)len < n);
}

/* The same parameters, outside: a sequence; inside: steps. Padding is not compared (it is computed in loops). */
static void sequence_equals_steps(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(unit_cases) / sizeof(*unit_cases); i++)
    for (int k = 0; k < (unit_cases[i].cell ? 2 : 1); k++) {
      checked_net moved, steps;
      char net[1000];
      sequence_net(net, sizeof(net), &unit_cases[i], k ? "rnn_cell" : "rec", true);
      net_must_open(&moved, net, "", false, CRN_F64);
      sequence_net(net, sizeof(net), &unit_cases[i], k ? "rnn_cell" : "rec", false);
      net_must_open(&steps, net, "", false, CRN_F64);
      assert_int_equal(moved.net->n_bodies, 1);
      assert_int_equal(moved.net->bodies[0]->n, 0);
      assert_true(steps.net->bodies[0]->n > 0);
      set_all_params(&moved);
      set_all_params(&steps);
      net_run(&moved, false);
      net_run(&steps, false);
      const crn_data *a = value_of(&moved, "output"), *b = value_of(&steps, "output");
      for (int q = 0; q < CHECK_B; q++)
        for (int t = 0; t < (q ? 2 : 4); t++)
          for (int f = 0; f < 2; f++)
            if (!(fabs(at(a, t, q, f) - at(b, t, q, f)) < 1e-12))
              fail_msg("%s {%s}: frame %d: %g and %g", unit_cases[i].unit, unit_cases[i].opts, t, at(a, t, q, f),
                       at(b, t, q, f));
      net_close(&moved);
      net_close(&steps);
    }
}

/* An input that is the same in each step: the state changes all the same. */
static void constant_input(void **state) {
  (void)state;
  checked_net c[2];
  for (int k = 0; k < 2; k++) {
    char net[600];
    (void)snprintf(net, sizeof(net),
                   "{'last': {'class': 'get_last_hidden_state', 'from': 'r', 'n_out': 4}, 'r': {'class': 'rec', "
                   "'unit': 'lstm', 'n_out': 2, "
                   "'from': 'data'}, 'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, "
                   "'unit': {'output': "
                   "{'class': 'rnn_cell', 'unit': 'gru', 'n_out': 2, 'from': 'base:last'}}}}",
                   k ? "True" : "False");
    net_must_open(&c[k], net, "", false, CRN_F64);
    set_all_params(&c[k]);
    net_run(&c[k], false);
  }
  const crn_data *steps = value_of(&c[0], "output"), *moved = value_of(&c[1], "output");
  for (int b = 0; b < CHECK_B; b++)
    for (int t = 0; t < (b ? 2 : 4); t++)
      for (int f = 0; f < 2; f++) assert_true(fabs(at(steps, t, b, f) - at(moved, t, b, f)) < 1e-14);
  assert_true(at(moved, 0, 0, 0) != at(moved, 1, 0, 0));
  assert_true(at(moved, 3, 1, 0) == 0);
  net_close(&c[0]);
  net_close(&c[1]);
}

/* Derivatives of the whole pass agree with differences of the loss. */
static void gradients(void **state) {
  (void)state;
  const crn_net_mode mode = {.train = true, .eval = true};
  for (size_t i = 0; i < sizeof(unit_cases) / sizeof(*unit_cases); i++)
    for (int backward = 0; backward < 2; backward++) {
      checked_net c;
      char net[1000];
      (void)snprintf(
          net, sizeof(net),
          "{'r': {'class': 'rec', 'unit': '%s', 'n_out': 2, 'from': 'data', 'initial_state': 'var', 'direction': %d, "
          "'unit_opts': {%s}}, 'output': {'class': 'softmax', 'from': 'r', 'loss': 'ce', 'target': 'classes'}}",
          unit_cases[i].unit, backward ? -1 : 1, unit_cases[i].opts);
      if (!strcmp(unit_cases[i].unit, "zoneoutlstm")) continue; /* random in training */
      if (!net_open(&c, net, "", mode, CRN_F64)) fail_msg("%s", crn_err_text(&c.err));
      set_all_params(&c);
      check_gradients(&c);
      net_close(&c);
    }
}

/* ---- plain formulas ---------------------------------------------------------------------------------------------- */

static double sigmoid(double v) { return 1 / (1 + exp(-v)); }
static double clip(double v, double limit) { return v > limit ? limit : v < -limit ? -limit : v; }

static const double *param(checked_net *c, const char *path) {
  crn_param *p = crn_store_find(c->store, path);
  if (!p) fail_msg("there is no parameter '%s'", path);
  return p->st.data;
}

/* standardlstm with everything, n = 2, on sequence 0. */
static void peepholes_by_hand(void **state) {
  (void)state;
  checked_net c;
  net_must_open(
      &c,
      "{'output': {'class': 'rec', 'unit': 'standardlstm', 'n_out': 2, 'from': 'data', 'unit_opts': {'use_peepholes': "
      "True, 'cell_clip': .3, 'num_proj': 2, 'proj_clip': .1, 'forget_bias': .5}}}",
      "", false, CRN_F64);
  assert_int_equal(c.net->n_params, 6);
  set_all_params(&c);
  net_run(&c, false);
  const double *k = param(&c, "output/rec/lstm_cell/kernel"), *b = param(&c, "output/rec/lstm_cell/bias");
  const double *wf = param(&c, "output/rec/lstm_cell/w_f_diag"), *wi = param(&c, "output/rec/lstm_cell/w_i_diag");
  const double *wo = param(&c, "output/rec/lstm_cell/w_o_diag"),
               *proj = param(&c, "output/rec/lstm_cell/projection/kernel");
  double h[2] = {0, 0}, cell[2] = {0, 0};
  bool clipped = false;
  for (int t = 0; t < CHECK_T; t++) {
    double z[8], m[2];
    for (int o = 0; o < 8; o++) {
      z[o] = b[o];
      for (int d = 0; d < 3; d++) z[o] += gen_x(t * 3 + d) * k[d * 8 + o];
      for (int d = 0; d < 2; d++) z[o] += h[d] * k[(3 + d) * 8 + o];
    }
    for (int u = 0; u < 2; u++) {
      const double i = sigmoid(z[u] + wi[u] * cell[u]), f = sigmoid(z[4 + u] + .5 + wf[u] * cell[u]);
      const double now = f * cell[u] + i * tanh(z[2 + u]);
      cell[u] = clip(now, .3);
      clipped |= cell[u] != now;
      m[u] = sigmoid(z[6 + u] + wo[u] * cell[u]) * tanh(cell[u]);
    }
    for (int u = 0; u < 2; u++) h[u] = clip(m[0] * proj[u] + m[1] * proj[2 + u], .1);
    for (int u = 0; u < 2; u++) assert_true(fabs(at(value_of(&c, "output"), t, 0, u) - h[u]) < 1e-12);
  }
  assert_true(clipped);
  net_close(&c);
}

/* The cell of nativelstmlowmem in a loop begins each step with h = 0, its c goes on. */
static void lowmem_in_a_loop(void **state) {
  (void)state;
  checked_net c;
  net_must_open(
      &c,
      "{'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': False, 'unit': {'output': {'class': "
      "'rec', 'unit': 'nativelstmlowmem', 'n_out': 2, 'from': 'data:source'}}}}",
      "", false, CRN_F64);
  set_all_params(&c);
  net_run(&c, false);
  const double *w = param(&c, "output/rec/output/rec/W"), *b = param(&c, "output/rec/output/rec/b");
  double cell[2] = {0, 0};
  for (int t = 0; t < CHECK_T; t++)
    for (int u = 0; u < 2; u++) {
      double z[4]; /* j, i, f, o */
      for (int g = 0; g < 4; g++) {
        z[g] = b[g * 2 + u];
        for (int d = 0; d < 3; d++) z[g] += gen_x(t * 3 + d) * w[d * 8 + g * 2 + u];
      }
      cell[u] = sigmoid(z[2]) * cell[u] + sigmoid(z[1]) * tanh(z[0]);
      assert_true(fabs(at(value_of(&c, "output"), t, 0, u) - sigmoid(z[3]) * tanh(cell[u])) < 1e-12);
    }
  net_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(native_values),
      cmocka_unit_test(padding_does_not_matter),
      cmocka_unit_test(last_state_of_backward),
      cmocka_unit_test(zoneout_values),
      cmocka_unit_test(zoneout_in_training),
      cmocka_unit_test(sequence_equals_steps),
      cmocka_unit_test(gradients),
      cmocka_unit_test(peepholes_by_hand),
      cmocka_unit_test(lowmem_in_a_loop),
      cmocka_unit_test(constant_input),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
