/* SPDX-License-Identifier: Apache-2.0
 *
 * Units: names, options and what is refused, parameter names, initial and final states, noise in training; and the
 * layers that read states and layers of loops.
 */
#include "unit_check.h"

#define REC(unit, more) "{'output': {'class': 'rec', 'unit': " unit ", 'n_out': 2, 'from': 'data'" more "}}"
#define CELL(unit, more)                                                                                               \
  "{'output': {'class': 'rec', 'from': 'data', 'unit': {'output': {'class': 'rnn_cell', 'unit': " unit                 \
  ", 'n_out': 2, 'from': 'data:source'" more "}}}}"

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static void unit_names(void **state) {
  (void)state;
  REFUSED(REC("'nativlstm2'", ""), "'output' (rec)", "nativlstm2", "did you mean 'nativelstm2'",
          "layernormvariantslstm");
  REFUSED(REC("'cudnngru'", ""), "cudnngru", "gru");
  REFUSED(REC("'nativelstm2storestates'", ""), "unknown unit", "nativelstm2storestates");
  REFUSED(REC("'RNN'", ""), "abstract");
  REFUSED(REC("'MultiRNNCell'", ""), "MultiRNNCell", "wraps other cells");
  REFUSED(REC("'twodnativelstm'", ""), "twod_lstm");
  REFUSED(REC("'blocksparselstm'", ""), "GPU");
  REFUSED(REC("3", ""), "'unit'", "int");
  REFUSED(CELL("'nativelstm2'", ""), "rnn_cell", "nativelstm2", "use class 'rec'");
  REFUSED(CELL("'lstm'", ""), "nativelstm2");
  checked_net c;
  net_must_open(&c, REC("'BasicLSTMCell'", ""), "", false, CRN_F32);
  assert_non_null(crn_store_find(c.store, "output/rec/basic_lstm_cell/kernel"));
  net_close(&c);
}

static void unit_options(void **state) {
  (void)state;
  REFUSED(REC("'gru'", ", 'unit_opts': {'activatoin': 'relu'}"), "unit_opts", "activatoin", "'activation'");
  REFUSED(REC("'gru'", ", 'unit_opts': {'activation': 'rulu'}"), "rulu");
  REFUSED(REC("'gru'", ", 'unit_opts': [1]"), "unit_opts", "list");
  REFUSED(REC("'zoneoutlstm'", ", 'unit_opts': {'zoneout_factor_cell': 1.5}"), "zoneout_factor_cell", "from 0 to 1",
          "1.5");
  REFUSED(REC("'nativelstm2'", ", 'unit_opts': {'forget_bias': 1.0}"), "forget_bias", "must be 0");
  REFUSED(REC("'nativelstm2'", ", 'unit_opts': {'rec_weight_dropout': 1.0}"), "rec_weight_dropout");
  REFUSED(REC("'standardlstm'", ", 'unit_opts': {'num_proj': 3}"), "num_proj", "n_out");
  REFUSED(REC("'standardlstm'", ", 'unit_opts': {'state_is_tuple': False}"), "not implemented", "state_is_tuple");
  REFUSED(REC("'layernormvariantslstm'", ", 'unit_opts': {'per_gate_norm': True}"), "global_norm", "per_gate_norm");
  REFUSED(REC("'layernormvariantslstm'", ", 'unit_opts': {'global_norm_joined': True}"), "global_norm_joined");
  REFUSED(REC("'layernormvariantslstm'", ", 'unit_opts': {'with_concat': True}"), "with_concat");
  REFUSED(REC("'rhn'", ", 'unit_opts': {'depth': 0}"), "depth");
  REFUSED(REC("'lstm'", ", 'direction': 2"), "direction", "1 or -1");
  REFUSED(REC("'lstm'", ", 'max_seq_len': 9"), "max_seq_len", "unroll");
  REFUSED(REC("'gru'", ", 'unroll': True"), "unroll", "max_seq_len");
  REFUSED(REC("'gru'", ", 'input_projection': False"), "input_projection", "gru");
  REFUSED(REC("'lstm'", ", 'input_projection': False"), "input_projection", "8", "3");
  REFUSED("{'output': {'class': 'rec', 'unit': 'lstm', 'from': 'data'}}", "n_out");
  REFUSED("{'output': {'class': 'rec', 'unit': 'gru', 'n_out': 2, 'from': 'data:classes'}}", "sparse", "gru");
  REFUSED("{'a': {'class': 'get_last_hidden_state', 'from': 'b', 'n_out': 4}, 'b': {'class': 'rec', 'unit': 'lstm', "
          "'n_out': 2, "
          "'from': 'data'}, 'output': {'class': 'rec', 'unit': 'lstm', 'n_out': 2, 'from': 'a'}}",
          "'output' (rec)", "time axis");
  REFUSED(CELL("'gru'", ", 'initial_output': 0"), "initial_output", "initial_state");
}

static void native_in_a_loop(void **state) {
  (void)state;
  REFUSED("{'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': False, 'unit': {'output': {'class': "
          "'rec', "
          "'unit': 'nativelstm', 'n_out': 2, 'from': 'data:source'}}}}",
          "output/output", "nativelstm", "loop", "nativelstm2");
  checked_net moved, outside;
  net_must_open(&moved,
                "{'output': {'class': 'rec', 'from': 'data', 'unit': {'output': {'class': 'rec', 'unit': 'nativelstm', "
                "'n_out': 2, "
                "'from': 'data:source'}}}}",
                "", false, CRN_F32);
  net_must_open(&outside, REC("'nativelstm'", ""), "", false, CRN_F32);
  set_all_params(&moved);
  set_all_params(&outside);
  net_run(&moved, false);
  net_run(&outside, false);
  same_values(value_of(&moved, "output"), value_of(&outside, "output"), 0);
  net_close(&moved);
  net_close(&outside);
}

static void unrolled_limit(void **state) {
  (void)state;
  checked_net c;
  const int32_t lens[2] = {4, 2};
  net_must_open(&c, REC("'gru'", ", 'unroll': True, 'max_seq_len': 3"), "", false, CRN_F32);
  set_all_params(&c);
  assert_int_not_equal(net_run_on(&c, 0, 2, 4, 0, lens, false), CRN_OK);
  assert_non_null(strstr(crn_err_text(&c.err), "max_seq_len"));
  net_close(&c);
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static void check_params(const char *network, const char *names) {
  checked_net c;
  net_must_open(&c, network, "", true, CRN_F32);
  crn_str s = {0};
  for (int i = 0; i < c.net->n_params; i++) {
    const crn_param *p = c.net->params[i];
    crn_str_addf(&s, "%s%s", i ? " " : "", p->path);
    for (int k = 0; k < p->spec.rank; k++) crn_str_addf(&s, "%c%lld", k ? ',' : ':', (long long)p->spec.shape[k]);
  }
  assert_string_equal(crn_str_get(&s), names);
  crn_str_free(&s);
  net_close(&c);
}

static void parameter_names(void **state) {
  (void)state;
  check_params(REC("'lstm'", ""), "output/rec/W:3,8 output/rec/W_re:2,8 output/rec/b:8");
  check_params(REC("'lstm'", ", 'name_scope': 'a'"), "a/W:3,8 a/W_re:2,8 a/b:8");
  check_params(REC("'nativelstmlowmem'", ", 'initial_state': 'var'"),
               "output/rec/W:5,8 output/rec/b:8 output/rec/initial_var:2");
  check_params(REC("'standardlstm'", ", 'initial_state': {'c': 'var', 'h': 0}"),
               "output/rec/initial_c:2 output/rec/lstm_cell/bias:8 output/rec/lstm_cell/kernel:5,8");
  check_params(CELL("'LSTMBlock'", ", 'initial_state': 'var'"),
               "output/rec/output/initial_c:2 output/rec/output/initial_h:2 output/rec/output/rec/lstm_cell/bias:8 "
               "output/rec/output/rec/lstm_cell/kernel:5,8");
  check_params(CELL("'GRU'", ""),
               "output/rec/output/rec/gru_cell/candidate/bias:2 output/rec/output/rec/gru_cell/candidate/kernel:5,2 "
               "output/rec/output/rec/gru_cell/gates/bias:4 output/rec/output/rec/gru_cell/gates/kernel:5,4");
  check_params(REC("'basicrnn'", ""), "output/rec/basic_rnn_cell/bias:2 output/rec/basic_rnn_cell/kernel:5,2");
}

static void check_initial(checked_net *c, const char *path, int first, int n, float value) {
  const crn_param *p = crn_store_find(c->store, path);
  assert_non_null(p);
  for (int i = first; i < first + n; i++) assert_true(((const float *)p->st.data)[i] == value);
}

static void initial_values(void **state) {
  (void)state;
  checked_net c;
  net_must_open(&c,
                REC("'layernormvariantslstm'", ", 'unit_opts': {'forget_bias': .5, 'norm_gain': 2, 'norm_shift': .25}"),
                "", true, CRN_F32);
  assert_int_equal(crn_store_init_values(c.store, 1, &c.err), CRN_OK);
  check_initial(&c, "output/rec/gamma_input_below", 0, 8, 2);
  check_initial(&c, "output/rec/beta_input_below", 0, 8, .75);
  check_initial(&c, "output/rec/beta_new_c", 0, 2, .25);
  net_close(&c);
  net_must_open(&c, REC("'layernormvariantslstm'", ", 'unit_opts': {'forget_bias': .5, 'global_norm': False}"), "",
                true, CRN_F32);
  assert_int_equal(crn_store_init_values(c.store, 1, &c.err), CRN_OK);
  check_initial(&c, "output/rec/bias_ff", 0, 4, 0);
  check_initial(&c, "output/rec/bias_ff", 4, 2, .5);
  check_initial(&c, "output/rec/bias_ff", 6, 2, 0);
  net_close(&c);
  net_must_open(&c, REC("'rhn'", ", 'unit_opts': {'transform_bias': -1.5}"), "", true, CRN_F32);
  assert_int_equal(crn_store_init_values(c.store, 1, &c.err), CRN_OK);
  check_initial(&c, "output/rec/b", 0, 2, 0);
  check_initial(&c, "output/rec/b", 2, 2, -1.5);
  net_close(&c);
  net_must_open(&c, REC("'gru'", ", 'recurrent_weights_init': 0.125"), "", true, CRN_F32);
  assert_int_equal(crn_store_init_values(c.store, 1, &c.err), CRN_OK);
  check_initial(&c, "output/rec/gru_cell/gates/bias", 0, 4, 1);
  check_initial(&c, "output/rec/gru_cell/candidate/kernel", 0, 10, .125);
  net_close(&c);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void initial_state_errors(void **state) {
  (void)state;
  REFUSED(REC("'lstm'", ", 'initial_state': 0.5"), "initial_state", "0.5");
  REFUSED(REC("'lstm'", ", 'initial_state': {'c': 0}"), "initial_state", "'h'");
  REFUSED(REC("'lstm'", ", 'initial_state': {'c': 0, 'h': 0, 'x': 0}"), "'x'");
  REFUSED(REC("'lstm'", ", 'initial_state': [0]"), "initial_state", "2 states");
  REFUSED(REC("'gru'", ", 'initial_state': {'h': 0}"), "dict", "gru");
  REFUSED(REC("'nativelstm'", ", 'initial_state': 'ones'"), "initial_state", "nativelstm");
  REFUSED(REC("'lstm'", ", 'initial_state': 'nope'"), "nope");
  REFUSED("{'a': {'class': 'rec', 'unit': 'lstm', 'n_out': 2, 'from': 'data'}, 'output': {'class': 'rec', 'unit': "
          "'lstm', 'n_out': "
          "2, 'from': 'data', 'initial_state': 'a'}}",
          "initial_state", "dict", "'c'", "'h'");
}

/* A pass that begins with another's last states goes on where that one stopped: first half, then second half. */
static void states_go_on(void **state) {
  (void)state;
  static const char *const units[] = {"lstm", "standardlstm", "gru", "layernormvariantslstm", "rhn"};
  for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
    checked_net whole, kept;
    const int32_t all[1] = {4}, half[1] = {2};
    char net[400];
    (void)snprintf(net, sizeof(net), REC("'%s'", ""), units[i]);
    net_must_open(&whole, net, "", false, CRN_F64);
    (void)snprintf(net, sizeof(net), REC("'%s'", ", 'initial_state': 'keep_over_epoch'"), units[i]);
    net_must_open(&kept, net, "", false, CRN_F64);
    set_all_params(&whole);
    set_all_params(&kept);
    assert_int_equal(net_run_on(&whole, 0, 1, 4, 0, all, false), CRN_OK);
    for (int epoch = 0; epoch < 2; epoch++) {
      crn_exec_new_epoch(kept.x);
      for (int part = 0; part < 2; part++) {
        double x[2 * CHECK_D];
        const int32_t *lens = half;
        for (int k = 0; k < 2 * CHECK_D; k++) x[k] = gen_x(part * 2 * CHECK_D + k);
        crn_exec_begin(kept.x, false, 1);
        assert_int_equal(crn_exec_feed(kept.x, "data", CRN_F64, 3, (int64_t[]){1, 2, CHECK_D}, x, 1, &lens, &kept.err),
                         CRN_OK);
        assert_int_equal(crn_exec_forward(kept.x, &kept.err), CRN_OK);
        for (int t = 0; t < 2; t++)
          for (int f = 0; f < 2; f++)
            assert_true(fabs(at(value_of(&kept, "output"), t, 0, f) -
                             at(value_of(&whole, "output"), part * 2 + t, 0, f)) < 1e-14);
      }
    }
    const int32_t lens[2] = {4, 2};
    assert_int_not_equal(net_run_on(&kept, 0, 2, 4, 0, lens, false), CRN_OK);
    assert_non_null(strstr(crn_err_text(&kept.err), "1 sequences, but this batch has 2"));
    net_close(&whole);
    net_close(&kept);
  }
}

static void last_states(void **state) {
  (void)state;
  checked_net c;
  net_must_open(
      &c,
      "{'r': {'class': 'rec', 'unit': 'lstm', 'n_out': 2, 'from': 'data'}, 'g': {'class': 'rec', 'unit': 'gru', "
      "'n_out': 2, "
      "'from': 'data'}, 'all': {'class': 'get_last_hidden_state', 'from': 'r', 'n_out': 4}, 'second': {'class': "
      "'get_last_hidden_state', 'from': 'r', 'n_out': 2, 'key': 1}, 'sum': {'class': 'get_last_hidden_state', 'from': "
      "['second', 'g'], 'combine': 'add', 'n_out': 2}, 'output': {'class': 'copy', 'from': ['all', 'second', 'sum']}}",
      "", false, CRN_F64);
  set_all_params(&c);
  net_run(&c, false);
  const crn_data *r = value_of(&c, "r"), *g = value_of(&c, "g"), *o = value_of(&c, "output");
  for (int b = 0; b < CHECK_B; b++)
    for (int f = 0; f < 2; f++) {
      const int last = b ? 1 : 3;
      assert_true(crn_t_get(o->v, b * 8 + 2 + f) == at(r, last, b, f));
      assert_true(crn_t_get(o->v, b * 8 + 4 + f) == at(r, last, b, f));
      assert_true(crn_t_get(o->v, b * 8 + 6 + f) == at(r, last, b, f) + at(g, last, b, f));
    }
  net_close(&c);
#define LAST(from, more)                                                                                               \
  "{'r': {'class': 'rec', 'unit': 'lstm', 'n_out': 2, 'from': 'data'}, 'l': {'class': 'linear', 'n_out': 2, 'from': "  \
  "'data'}, 'output': "                                                                                                \
  "{'class': 'get_last_hidden_state', 'from': '" from "'" more "}}"
  REFUSED(LAST("r", ""), "n_out");
  REFUSED(LAST("r", ", 'n_out': 3"), "n_out", "3", "4");
  REFUSED(LAST("r", ", 'n_out': 2, 'key': 'x'"), "key", "'x'", "'c', 'h'");
  REFUSED(LAST("r", ", 'n_out': 2, 'key': 2"), "key", "2");
  REFUSED(LAST("r", ", 'n_out': 2, 'key': None"), "key", "None");
  REFUSED(LAST("l", ", 'n_out': 2"), "'l'", "no hidden state");
  REFUSED(LAST("r", ", 'n_out': 2, 'combine': 'mul'"), "combine", "concat|add");
}

/* In a loop it is the state of the step, wherever its layer could move. */
static void state_in_each_step(void **state) {
  (void)state;
  checked_net c;
  net_must_open(&c,
                "{'output': {'class': 'rec', 'from': 'data', 'unit': {'s': {'class': 'rnn_cell', 'unit': 'gru', "
                "'n_out': 2, 'from': "
                "'data:source', 'is_output_layer': True}, 'output': {'class': 'get_last_hidden_state', 'from': 's', "
                "'n_out': 2}}}, "
                "'s': {'class': 'copy', 'from': 'output/s', 'is_output_layer': True}}",
                "", false, CRN_F64);
  set_all_params(&c);
  net_run(&c, false);
  same_values(value_of(&c, "output"), value_of(&c, "s"), 0);
  net_close(&c);
}

/* ---- layers of loops --------------------------------------------------------------------------------------------- */

/* Running sums: x_t + x_{t-1} + … from an initial output of 10; `out` is at the last valid frame. */
static void last_output(void **state) {
  (void)state;
  for (int optimize = 0; optimize < 2; optimize++)
    for (int last = 0; last < 3; last++) { /* lengths of the second sequence */
      checked_net c;
      char net[1000];
      (void)snprintf(
          net, sizeof(net),
          "{'loop': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': %s, 'unit': {'sum': {'class': "
          "'combine', "
          "'kind': 'add', 'from': ['prev:sum', 'data:source'], 'initial_output': 10, 'need_last': True}, 'output': "
          "{'class': "
          "'copy', 'from': 'sum'}, 'same': {'class': 'copy', 'from': 'data:source', 'need_last': True, "
          "'initial_output': 7}}}, "
          "'a': {'class': 'get_rec_accumulated', 'from': 'loop', 'sub_layer': 'sum', 'is_output_layer': True}, "
          "'s': {'class': 'rec_last_output', 'rec_layer': 'loop', 'sub_layer_name': 'same', 'is_output_layer': True}, "
          "'output': {'class': 'rec_last_output', 'rec_layer': 'loop', 'sub_layer_name': 'sum'}}",
          optimize ? "True" : "False");
      net_must_open(&c, net, "", false, CRN_F64);
      const int32_t lens[2] = {4, last};
      if (net_run_on(&c, 0, 2, 4, 50, lens, false) != CRN_OK) fail_msg("%s", crn_err_text(&c.err));
      const crn_data *o = value_of(&c, "output"), *s = value_of(&c, "s"), *a = value_of(&c, "a");
      for (int b = 0; b < 2; b++)
        for (int f = 0; f < CHECK_D; f++) {
          double sum = 10, same = 7;
          for (int t = 0; t < lens[b]; t++) {
            same = gen_x((b * CHECK_T + t) * CHECK_D + f);
            sum += same;
            assert_true(at(a, t, b, f) == sum);
          }
          assert_true(crn_t_get(o->v, b * CHECK_D + f) == sum);
          assert_true(crn_t_get(s->v, b * CHECK_D + f) == same);
        }
      net_close(&c);
    }
  REFUSED("{'loop': {'class': 'rec', 'from': 'data', 'unit': {'x': {'class': 'copy', 'from': 'data:source'}, 'output': "
          "{'class': 'copy', "
          "'from': 'x'}}}, 'output': {'class': 'rec_last_output', 'rec_layer': 'loop', 'sub_layer_name': 'x'}}",
          "'x'", "need_last");
  REFUSED("{'l': {'class': 'copy', 'from': 'data'}, 'output': {'class': 'get_rec_accumulated', 'from': 'l', "
          "'sub_layer': 'x'}}",
          "rec layer");
}

static void unstack(void **state) {
  (void)state;
  checked_net c;
  net_must_open(
      &c,
      "{'output': {'class': 'rec', 'from': [], 'unit': {'x': {'class': 'rec_unstack', 'from': 'base:data', 'axis': "
      "'T', "
      "'declare_rec_time': True}, 'output': {'class': 'combine', 'kind': 'add', 'from': ['x', 'prev:output']}}}}",
      "", false, CRN_F64);
  net_run(&c, false);
  const crn_data *d = value_of(&c, "output");
  double sum = 0;
  for (int t = 0; t < CHECK_T; t++) {
    sum += gen_x(t * CHECK_D);
    assert_true(at(d, t, 0, 0) == sum);
  }
  net_close(&c);
  REFUSED("{'output': {'class': 'rec_unstack', 'from': 'data'}}", "net dict of a rec layer");
  REFUSED("{'output': {'class': 'rec', 'from': 'data:classes', 'unit': {'x': {'class': 'rec_unstack', 'from': "
          "'base:data', 'axis': 'T'}, "
          "'output': {'class': 'copy', 'from': 'x'}}}}",
          "axis", "is not the loop's");
  REFUSED("{'output': {'class': 'rec', 'from': 'data', 'optimize_move_layers_out': False, 'unit': {'x': {'class': "
          "'rec_unstack', "
          "'from': 'base:data', 'axis': 'T'}, 'output': {'class': 'copy', 'from': 'x'}}}}",
          "output/x", "movable");
}

/* ---- noise in training ------------------------------------------------------------------------------------------- */

/* Training differs from evaluation and is the same again for the same step and seed. */
static void dropout_of_units(void **state) {
  (void)state;
  static const char *const nets[] = {
      REC("'lstm'", ", 'unit_opts': {'rec_weight_dropout': .5}"),
      REC("'lstm'", ", 'unit_opts': {'rec_weight_dropout': .5, 'rec_weight_dropout_shape': (None, 1)}"),
      REC("'layernormvariantslstm'", ", 'unit_opts': {'dropout': .5}"),
      REC("'layernormvariantslstm'", ", 'unit_opts': {'dropout_h': .5}"),
      REC("'rhn'", ", 'unit_opts': {'dropout': .5}"),
      REC("'zoneoutlstm'", ", 'unit_opts': {'zoneout_factor_cell': .5, 'zoneout_factor_output': .5}")};
  for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
    checked_net c;
    double v[3][CHECK_T];
    net_must_open(&c, nets[i], "", true, CRN_F64);
    set_all_params(&c);
    for (int k = 0; k < 3; k++) {
      net_run(&c, k < 2);
      for (int t = 0; t < CHECK_T; t++)
        v[k][t] = at(value_of(&c, "output"), t, 0, 0) + at(value_of(&c, "output"), t, 0, 1);
    }
    assert_memory_equal(v[0], v[1], sizeof(v[0]));
    assert_memory_not_equal(v[0], v[2], sizeof(v[0]));
    net_close(&c);
  }
}

/* Sequences without frames: no output, and the state is the initial one. */
static void no_frames(void **state) {
  (void)state;
  static const char *const units[] = {"lstm", "nativelstm", "nativelstmlowmem", "standardlstm", "gru", "rhn"};
  for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
    checked_net c;
    char net[400];
    (void)snprintf(net, sizeof(net),
                   "{'output': {'class': 'rec', 'unit': '%s', 'n_out': 2, 'from': 'data'}, 's': {'class': "
                   "'get_last_hidden_state', "
                   "'from': 'output', 'n_out': %d, 'is_output_layer': True}}",
                   units[i], !strcmp(units[i], "lstm") || !strcmp(units[i], "standardlstm") ? 4 : 2);
    net_must_open(&c, net, "", false, CRN_F32);
    set_all_params(&c);
    const int32_t lens[2] = {0, 0};
    if (net_run_on(&c, 0, 2, 0, 0, lens, false) != CRN_OK) fail_msg("%s", crn_err_text(&c.err));
    assert_int_equal(value_of(&c, "output")->v->shape[0], 0);
    for (int64_t k = 0; k < crn_t_size(value_of(&c, "s")->v); k++) assert_true(crn_t_get(value_of(&c, "s")->v, k) == 0);
    net_close(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unit_names),           cmocka_unit_test(unit_options),    cmocka_unit_test(native_in_a_loop),
      cmocka_unit_test(unrolled_limit),       cmocka_unit_test(parameter_names), cmocka_unit_test(initial_values),
      cmocka_unit_test(initial_state_errors), cmocka_unit_test(states_go_on),    cmocka_unit_test(last_states),
      cmocka_unit_test(state_in_each_step),   cmocka_unit_test(last_output),     cmocka_unit_test(unstack),
      cmocka_unit_test(dropout_of_units),     cmocka_unit_test(no_frames),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
