/* SPDX-License-Identifier: Apache-2.0
 *
 * Units: every one by its names and states, the option 'state', states that are fed, and the check 'mask' of the
 * input's dropout.
 */
#include "unit_check.h"

/* ---- all units --------------------------------------------------------------------------------------------------- */

typedef struct unit_row {
  const char *unit, *states[3];
  bool rec, cell; /* class that takes it */
} unit_row;

/* The names of interface.json that a config can use, and the aliases. */
static const unit_row rows[] = {
    {"basiclstm", {"c", "h"}, true, true},
    {"basicrnn", {"h"}, true, true},
    {"gru", {"h"}, true, true},
    {"layernormvariantslstm", {"c", "h"}, true, true},
    {"lstm", {"c", "h"}, true, false},
    {"lstmp", {"c", "h"}, true, false},
    {"LSTMBlock", {"c", "h"}, true, true},
    {"LSTMBlockFused", {"c", "h"}, true, true},
    {"CudnnLSTM", {"c", "h"}, true, false},
    {"nativelstm", {"c"}, true, false},
    {"NativeLstm2", {"c", "h"}, true, false},
    {"nativelstmlowmem", {"c"}, true, false},
    {"rhn", {"h"}, true, true},
    {"StandardLSTMCell", {"c", "h"}, true, true},
    {"vanillalstm", {"c", "h"}, true, false},
    {"zoneoutlstm", {"c", "h"}, true, true},
};

/* "h" is the output at the last frame; "*" all states one after the other; unknown ones are refused. */
static void check_states(const unit_row *u, const char *net, int n_states) {
  checked_net c;
  char all[1200];
  int len = snprintf(all, sizeof(all), "{%s, 'output': {'class': 'get_last_hidden_state', 'from': 'r', 'n_out': %d}",
                     net, 2 * n_states);
  for (int k = 0; k < n_states; k++)
    len += snprintf(all + len, sizeof(all) - (size_t)len,
                    ", 'by_name_%d': {'class': 'get_last_hidden_state', 'from': 'r', 'n_out': 2, 'key': '%s', "
                    "'is_output_layer': True}",
                    k, u->states[k]);
  (void)snprintf(all + len, sizeof(all) - (size_t)len, "}");
  net_must_open(&c, all, "", false, CRN_F64);
  set_all_params(&c);
  net_run(&c, false);
  const crn_data *y = value_of(&c, "r"), *whole = value_of(&c, "output");
  for (int k = 0; k < n_states; k++) {
    char name[16];
    (void)snprintf(name, sizeof(name), "by_name_%d", k);
    const crn_data *s = value_of(&c, name);
    for (int b = 0; b < CHECK_B; b++)
      for (int f = 0; f < 2; f++) {
        const double v = crn_t_get(s->v, b * 2 + f);
        assert_true(v != 0);
        assert_true(v == crn_t_get(whole->v, b * 2 * n_states + 2 * k + f));
        if (!strcmp(u->states[k], "h")) assert_true(v == at(y, b ? 1 : 3, b, f));
      }
  }
  net_close(&c);
  (void)snprintf(all, sizeof(all),
                 "{%s, 'output': {'class': 'get_last_hidden_state', 'from': 'r', 'n_out': 2, 'key': 'x'}}", net);
  REFUSED(all, "key", "'x'", u->states[0]);
}

static void all_units(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
    for (int cell = 0; cell < 2; cell++) {
      char net[300];
      int n_states = 0;
      while (rows[i].states[n_states]) n_states++;
      (void)snprintf(net, sizeof(net),
                     "'r': {'class': '%s', 'unit': '%s', 'n_out': 2, 'from': 'data', 'is_output_layer': True}",
                     cell ? "rnn_cell" : "rec", rows[i].unit);
      if (cell ? rows[i].cell : rows[i].rec) {
        check_states(&rows[i], net, n_states);
        continue;
      }
      char all[400];
      (void)snprintf(all, sizeof(all), "{%s, 'output': {'class': 'copy', 'from': 'r'}}", net);
      REFUSED(all, "'unit'", "native");
    }
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

#define LOOP(more)                                                                                                     \
  "{'output': {'class': 'rec', 'from': 'data', 'unit': {" more "}}, "                                                  \
  "'s': {'class': 'copy', 'from': 'output/s', 'is_output_layer': True}}"
#define STEP(name, class_name, unit, more)                                                                             \
  "'" name "': {'class': '" class_name "', 'unit': '" unit "', 'n_out': 2, 'from': 'data:source'" more "}"
#define OUT ", 'is_output_layer': True"
#define STATE_OF(name, key)                                                                                            \
  "'" name "': {'class': 'get_last_hidden_state', 'from': 'prev:s', 'n_out': 2, 'key': '" key "'}, "

/* A second cell with the first one's parameters that gets the first one's state is the first one. */
static void state_of_another(void **state) {
  (void)state;
  static const char *const nets[] = {
      LOOP(STEP("s", "rnn_cell", "gru", OUT) ", " STEP("output", "rnn_cell", "gru",
                                                       ", 'reuse_params': 's', 'state': 'prev:s'")),
      LOOP(STEP("s", "rec", "basicrnn", OUT) ", " STEP("output", "rec", "basicrnn",
                                                       ", 'reuse_params': 's', 'state': ['prev:s']")),
      LOOP(STATE_OF("c", "c") STATE_OF("h", "h")
               STEP("s", "rec", "nativelstm2", OUT ", 'initial_state': 'ones'") ", " STEP(
                   "output", "rec", "nativelstm2", ", 'reuse_params': 's', 'state': {'c': 'c', 'h': 'h'}")),
      LOOP(STATE_OF("c", "c") STATE_OF("h", "h") STEP("s", "rnn_cell", "LSTMBlock", OUT) ", " STEP(
          "output", "rnn_cell", "LSTMBlock", ", 'reuse_params': 's', 'state': ['c', 'h']")),
      /* its own state is what it has anyway */
      LOOP(STEP("s", "rnn_cell", "gru", OUT) ", " STEP("output", "rnn_cell", "gru",
                                                       ", 'reuse_params': 's', 'state': 'prev:output'")),
  };
  for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
    checked_net c;
    net_must_open(&c, nets[i], "", false, CRN_F64);
    set_all_params(&c);
    net_run(&c, false);
    const crn_data *a = value_of(&c, "output"), *b = value_of(&c, "s");
    for (int q = 0; q < CHECK_B; q++)
      for (int t = 0; t < (q ? 2 : 4); t++)
        for (int f = 0; f < 2; f++)
          if (!(fabs(at(a, t, q, f) - at(b, t, q, f)) < 1e-14))
            fail_msg("net %d frame %d: %g and %g", (int)i, t, at(a, t, q, f), at(b, t, q, f));
    assert_true(at(a, 0, 0, 0) != at(a, 1, 0, 0));
    net_close(&c);
  }
}

/* Outside of a loop: one step on each frame, all from the same state; h' = tanh([x; h] K + b) by hand. */
static void state_without_loop(void **state) {
  (void)state;
  checked_net c;
  net_must_open(&c,
                "{'m': {'class': 'reduce', 'mode': 'mean', 'axis': 'T', 'from': 'data'}, 'h': {'class': 'linear', "
                "'n_out': 2, 'from': 'm', 'is_output_layer': True}, 'output': {'class': 'rec', 'unit': 'basicrnn', "
                "'n_out': 2, 'from': 'data', 'state': 'h'}}",
                "", false, CRN_F64);
  set_all_params(&c);
  net_run(&c, false);
  const crn_data *h = value_of(&c, "h"), *y = value_of(&c, "output");
  const double *k = crn_store_find(c.store, "output/rec/basic_rnn_cell/kernel")->st.data,
               *bias = crn_store_find(c.store, "output/rec/basic_rnn_cell/bias")->st.data;
  assert_int_equal(y->v->shape[0], CHECK_B); /* as the source, no time first */
  for (int b = 0; b < CHECK_B; b++)
    for (int t = 0; t < (b ? 2 : 4); t++)
      for (int o = 0; o < 2; o++) {
        double z = bias[o];
        for (int d = 0; d < 3; d++) z += gen_x((b * CHECK_T + t) * 3 + d) * k[d * 2 + o];
        for (int d = 0; d < 2; d++) z += crn_t_get(h->v, b * 2 + d) * k[(3 + d) * 2 + o];
        assert_true(fabs(at(y, b, t, o) - tanh(z)) < 1e-12);
      }
  net_close(&c);
}

static void state_refused(void **state) {
  (void)state;
#define STATE(unit, more)                                                                                              \
  "{'h': {'class': 'linear', 'n_out': 2, 'from': 'data'}, 'output': {'class': 'rec', 'unit': '" unit                   \
  "', 'n_out': 2, 'from': 'data'" more "}}"
  REFUSED(STATE("nativelstm", ", 'state': 'h'"), "'state'", "nativelstm");
  REFUSED(STATE("lstm", ", 'state': 'h'"), "'state'", "dict", "'c'");
  REFUSED(STATE("lstm", ", 'state': {'c': 'h'}"), "'state'", "'h'", "missing");
  REFUSED(STATE("lstm", ", 'state': {'c': 'h', 'h': 'h', 'x': 'h'}"), "'state'", "'x'");
  REFUSED(STATE("gru", ", 'state': 'nope'"), "'state'", "nope");
  REFUSED(STATE("gru", ", 'state': 0"), "'state'", "layer name", "int");
  REFUSED(STATE("gru", ", 'state': [None]"), "'state'", "layer name");
  REFUSED("{'output': {'class': 'linear', 'n_out': 2, 'from': 'data', 'state': 'data'}}", "not implemented", "'state'");
  REFUSED("{'output': {'class': 'rec', 'from': 'data', 'state': 'data', 'unit': {'output': {'class': 'copy', 'from': "
          "'data:source'}}}}",
          "not implemented", "'state'");
  REFUSED(
      "{'output': {'class': 'rec', 'from': 'data', 'initial_state': 1, 'unit': {'output': {'class': 'copy', 'from': "
      "'data:source'}}}}",
      "'initial_state'");
}

static void state_gradients(void **state) {
  (void)state;
  static const char *const nets[] = {
      "{'h': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': 'data'}, 'r': {'class': 'rec', 'unit': "
      "'gru', 'n_out': 2, 'from': 'data', 'state': 'h'}, 'output': {'class': 'softmax', 'from': 'r', 'loss': 'ce', "
      "'target': 'classes'}}",
      "{'r': {'class': 'rec', 'from': 'data', 'unit': {" STATE_OF("c", "c") STATE_OF("h", "h") STEP(
          "s", "rnn_cell", "LSTMBlock",
          "") ", 'q': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'n_out': 2, 'from': "
              "['s', 'prev:q'], 'state': ['c', 'h']}, 'output': {'class': 'copy', 'from': ['s', 'q']}}}, 'output': "
              "{'class': 'softmax', 'from': 'r', 'loss': 'ce', 'target': 'classes'}}"};
  for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
    checked_net c;
    net_must_open(&c, nets[i], "", true, CRN_F64);
    set_all_params(&c);
    check_gradients(&c);
    net_close(&c);
  }
}

/* ---- placeholder ------------------------------------------------------------------------------------------------- */

/* The states are data keys: what a first run leaves, fed to a second one, makes it go on. */
static void fed_states(void **state) {
  (void)state;
  checked_net whole, half;
  const int32_t all[1] = {4}, two[1] = {2}, *lens = two;
  net_must_open(&whole, "{'output': {'class': 'rec', 'unit': 'lstm', 'n_out': 2, 'from': 'data'}}", "", false, CRN_F64);
  net_must_open(&half,
                "{'output': {'class': 'rec', 'unit': 'lstm', 'n_out': 2, 'from': 'data', 'initial_state': "
                "'placeholder'}, 'last': {'class': 'get_last_hidden_state', 'from': 'output', 'n_out': 4, "
                "'is_output_layer': True}}",
                "", false, CRN_F64);
  set_all_params(&whole);
  set_all_params(&half);
  assert_int_equal(net_run_on(&whole, 0, 1, 4, 0, all, false), CRN_OK);
  double c[2] = {0, 0}, h[2] = {0, 0};
  for (int part = 0; part < 2; part++) {
    double x[2 * CHECK_D];
    for (int k = 0; k < 2 * CHECK_D; k++) x[k] = gen_x(part * 2 * CHECK_D + k);
    crn_exec_begin(half.x, false, 1);
    assert_int_equal(crn_exec_feed(half.x, "data", CRN_F64, 3, (int64_t[]){1, 2, CHECK_D}, x, 1, &lens, &half.err),
                     CRN_OK);
    assert_int_equal(crn_exec_feed(half.x, "output/initial_c", CRN_F64, 2, (int64_t[]){1, 2}, c, 0, NULL, &half.err),
                     CRN_OK);
    assert_int_equal(crn_exec_feed(half.x, "output/initial_h", CRN_F64, 2, (int64_t[]){1, 2}, h, 0, NULL, &half.err),
                     CRN_OK);
    if (crn_exec_forward(half.x, &half.err) != CRN_OK) fail_msg("%s", crn_err_text(&half.err));
    for (int t = 0; t < 2; t++)
      for (int f = 0; f < 2; f++)
        assert_true(fabs(at(value_of(&half, "output"), t, 0, f) - at(value_of(&whole, "output"), part * 2 + t, 0, f)) <
                    1e-14);
    for (int f = 0; f < 2; f++) {
      c[f] = crn_t_get(value_of(&half, "last")->v, f);
      h[f] = crn_t_get(value_of(&half, "last")->v, 2 + f);
    }
  }
  assert_int_not_equal(net_run_on(&half, 0, 1, 4, 0, all, false), CRN_OK);
  assert_non_null(strstr(crn_err_text(&half.err), "output/initial_c"));
  net_close(&whole);
  net_close(&half);
}

/* In a loop, for one of two states, over beams of one: moved out or not. */
static void fed_states_in_a_loop(void **state) {
  (void)state;
  double y[2][CHECK_T];
  for (int k = 0; k < 2; k++) {
    checked_net c;
    char net[500];
    const double h[2 * CHECK_B] = {.5, -.25, .125, 1};
    (void)snprintf(
        net, sizeof(net),
        "{'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {'output': {'class': "
        "'rnn_cell', 'unit': 'LSTMBlock', 'n_out': 2, 'from': 'data:source', 'initial_state': {'c': 'zeros', 'h': "
        "'placeholder'}}}}}",
        k ? "True" : "False");
    net_must_open(&c, net, "", false, CRN_F64);
    set_all_params(&c);
    double x[CHECK_B * CHECK_T * CHECK_D];
    const int32_t both[2] = {4, 4}, *lens = both;
    for (int i = 0; i < CHECK_B * CHECK_T * CHECK_D; i++) x[i] = gen_x(i);
    crn_exec_begin(c.x, false, 1);
    assert_int_equal(crn_exec_feed(c.x, "data", CRN_F64, 3, (int64_t[]){2, 4, CHECK_D}, x, 1, &lens, &c.err), CRN_OK);
    assert_int_equal(crn_exec_feed(c.x, "output/output/initial_h", CRN_F64, 2, (int64_t[]){2, 2}, h, 0, NULL, &c.err),
                     CRN_OK);
    if (crn_exec_forward(c.x, &c.err) != CRN_OK) fail_msg("%s", crn_err_text(&c.err));
    for (int t = 0; t < CHECK_T; t++) y[k][t] = at(value_of(&c, "output"), t, 1, 0);
    const double *w = crn_store_find(c.store, "output/rec/output/rec/lstm_cell/kernel")->st.data,
                 *bias = crn_store_find(c.store, "output/rec/output/rec/lstm_cell/bias")->st.data;
    double z[4]; /* i, j, f, o of unit 0 of sequence 1 in frame 0 */
    for (int g = 0; g < 4; g++) {
      z[g] = bias[g * 2];
      for (int d = 0; d < 3; d++) z[g] += x[(CHECK_T * CHECK_D) + d] * w[d * 8 + g * 2];
      for (int d = 0; d < 2; d++) z[g] += h[2 + d] * w[(3 + d) * 8 + g * 2];
    }
    const double cell = tanh(z[1]) / (1 + exp(-z[0]));
    assert_true(fabs(y[k][0] - tanh(cell) / (1 + exp(-z[3]))) < 1e-12);
    net_close(&c);
  }
  for (int t = 0; t < CHECK_T; t++) assert_true(fabs(y[0][t] - y[1][t]) < 1e-14);
}

/* ---- dropout's check --------------------------------------------------------------------------------------------- */

static void mask_of_dropout(void **state) {
  (void)state;
#define MASKED(class_name, more) "{'output': {'class': '" class_name "', 'n_out': 2, 'from': 'data'" more "}}"
  static const char *const fine[] = {
      MASKED("linear", ", 'mask': 'dropout', 'dropout': .5"), MASKED("rec", ", 'mask': 'unity'"),
      MASKED("linear", ", 'mask': None"),
      "{'output': {'class': 'reduce', 'axis': 'T', 'mode': 'max', 'from': 'data', 'mask': 'unity'}}"};
  for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++) {
    checked_net c;
    net_must_open(&c, fine[i], "", false, CRN_F32);
    net_close(&c);
  }
  REFUSED(MASKED("linear", ", 'mask': 'dropout'"), "'mask'", "above 0");
  REFUSED(MASKED("rec", ", 'mask': 'unity', 'dropout': .5"), "'mask'", "of 0", "0.5");
  REFUSED(MASKED("linear", ", 'mask': 'x'"), "'mask'", "dropout|unity");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_units),
      cmocka_unit_test(state_of_another),
      cmocka_unit_test(state_without_loop),
      cmocka_unit_test(state_refused),
      cmocka_unit_test(state_gradients),
      cmocka_unit_test(fed_states),
      cmocka_unit_test(fed_states_in_a_loop),
      cmocka_unit_test(mask_of_dropout),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
