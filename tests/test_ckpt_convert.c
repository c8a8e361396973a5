/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between layouts: every LSTM layout from every other, checked by what each gate computes; batch norm of
 * every version from every other (D16); old names; refusals.
 */
#include "test_ckpt_util.h"

#include "ckpt/convert.h"

enum { N_IN = 3, N = 2, MAX_VARS = 40 };

typedef struct var {
  const char *name;
  int rank;
  int64_t shape[4];
  float data[120];
} var;

static char prefix[100];

static int make_tmp(void **state) {
  (void)state;
  snprintf(prefix, sizeof prefix, "%s/net", make_dir());
  return 0;
}

static int remove_tmp(void **state) {
  (void)state;
  *strrchr(prefix, '/') = 0;
  remove_dir(prefix);
  return 0;
}

static crn_bundle *bundle_of(const var *vars, int n) {
  crn_bundle_writer *w;
  crn_bundle *b;
  OK(crn_bundle_begin(prefix, NULL, &w, err));
  for (int i = 0; i < n; i++)
    OK(crn_bundle_add(w, vars[i].name, CRN_TF_FLOAT32, vars[i].rank, vars[i].shape, vars[i].data, err));
  OK(crn_bundle_finish(w, err));
  crn_bundle_writer_free(w);
  OK(crn_bundle_open(prefix, &b, err));
  return b;
}

static bool wants_all(void *user, const char *name) {
  (void)user;
  (void)name;
  return true;
}

/* Fill v->data by what the bundle has; the note must contain the text (NULL: no note). */
static void convert_with(const crn_bundle *b, var *v, const crn_convert_opts *opts, const char *note) {
  crn_arena a = {0};
  crn_conversion *c;
  const crn_ckpt_var want = {v->name, CRN_TF_FLOAT32, v->rank, v->shape};
  OK(crn_convert_find(b, &want, opts, &a, &c, err));
  if (!c) fail_msg("nothing found for %s", v->name);
  if (!note)
    assert_null(crn_conversion_note(c));
  else if (!crn_conversion_note(c) || !strstr(crn_conversion_note(c), note))
    fail_msg("note '%s' lacks '%s'", crn_conversion_note(c), note);
  OK(crn_conversion_run(c, v->data, err));
  crn_arena_free(&a);
}

static void convert(const crn_bundle *b, var *v, const char *note) {
  crn_convert_opts opts = crn_convert_defaults();
  opts.is_wanted = wants_all;
  convert_with(b, v, &opts, note);
}

/* ---- LSTM: an oracle of single weights ---- */

/* Weight of gate (one of "ijfo"), row (input or, from N_IN on, h; -1: bias), unit. */
static float weight(char gate, int row, int unit) { return (float)(100 * (gate - 'a') + 10 * (row + 1) + unit) / 64; }

typedef enum layout { NATIVE, LOWMEM, CELL, OLD_CELL, DEEP_CELL, CUDNN_CELL, CUDNN, N_LAYOUTS } layout;

static void fill(var *v, const char *name, const char *gates, int first_row, int n_rows) {
  *v = (var){.name = name, .rank = first_row < 0 ? 1 : 2};
  v->shape[0] = first_row < 0 ? 4 * N : n_rows;
  v->shape[1] = 4 * N;
  for (int r = 0; r < n_rows; r++)
    for (int g = 0; g < 4; g++)
      for (int u = 0; u < N; u++) v->data[r * 4 * N + g * N + u] = weight(gates[g], first_row + r, u);
}

/* The variables of a layout in scope "l/rec/". */
static int make_layout(layout k, var *v) {
  static const char *const cells[N_LAYOUTS][2] = {
      [CELL] = {"l/rec/lstm_cell/kernel", "l/rec/lstm_cell/bias"},
      [OLD_CELL] = {"l/rec/basic_lstm_cell/weights", "l/rec/basic_lstm_cell/biases"},
      [DEEP_CELL] = {"l/rec/rnn/lstm_cell/kernel", "l/rec/rnn/lstm_cell/bias"},
      [CUDNN_CELL] = {"l/rec/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel",
                      "l/rec/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/bias"}};
  if (k == NATIVE) {
    fill(&v[0], "l/rec/W", "jifo", 0, N_IN);
    fill(&v[1], "l/rec/W_re", "jifo", N_IN, N);
    fill(&v[2], "l/rec/b", "jifo", -1, 1);
    return 3;
  }
  if (k == LOWMEM) {
    fill(&v[0], "l/rec/W", "jifo", 0, N_IN + N);
    fill(&v[1], "l/rec/b", "jifo", -1, 1);
    return 2;
  }
  if (k != CUDNN) {
    fill(&v[0], cells[k][0], "ijfo", 0, N_IN + N);
    fill(&v[1], cells[k][1], "ijfo", -1, 1);
    return 2;
  }
  static char names[16][64];
  for (int i = 0; i < 16; i++) {
    int rows = i < 4 ? N_IN : N, first = i < 4 ? 0 : N_IN;
    snprintf(names[i], sizeof names[i], "l/rec/cudnn/CudnnRNNParamsToCanonical:%d", i);
    v[i] = (var){.name = names[i], .rank = i < 8 ? 2 : 1, .shape = {N, rows}};
    for (int u = 0; u < N; u++) {
      char gate = "ifjo"[i % 4];
      for (int r = 0; i < 8 && r < rows; r++) v[i].data[u * rows + r] = weight(gate, first + r, u);
      if (i >= 8) v[i].data[u] = weight(gate, -1, u) * (i < 12 ? 0.25f : 0.75f); /* the two biases are added */
    }
  }
  return 16;
}

static void test_lstm_layouts(void **state) {
  (void)state;
  for (int from = 0; from < N_LAYOUTS; from++)
    for (int to = 0; to < CUDNN; to++) {
      if (to == OLD_CELL) continue; /* no network asks for the old names */
      var in[MAX_VARS], expected[MAX_VARS];
      int n_in = make_layout((layout)from, in), n = make_layout((layout)to, expected);
      crn_bundle *b = bundle_of(in, n_in);
      bool outside = to == DEEP_CELL || to == CUDNN_CELL; /* its scope isn't the unit's: only itself serves */
      for (int i = 0; i < n && (!outside || from == to); i++) {
        var got = expected[i];
        memset(got.data, 0, sizeof got.data);
        /* native and lowmem have the same bias */
        bool same = from == to || (from <= LOWMEM && to <= LOWMEM && expected[i].rank == 1);
        convert(b, &got, same ? NULL : from == OLD_CELL ? "basic_lstm_cell" : "made from 'l/rec/");
        for (int k = 0; k < 120; k++)
          if (got.data[k] != expected[i].data[k])
            fail_msg("layout %d to %d: %s[%d] is %g, not %g", from, to, got.name, k, (double)got.data[k],
                     (double)expected[i].data[k]);
      }
      crn_bundle_free(b);
    }
}

static void test_forget_bias(void **state) {
  (void)state;
  var in[MAX_VARS], got;
  crn_convert_opts keep = crn_convert_defaults();
  keep.keep_function = true;
  crn_bundle *b = bundle_of(in, make_layout(CELL, in));
  fill(&got, "l/rec/b", "jifo", -1, 1);
  convert(b, &got, "adds its forget_bias");
  convert_with(b, &got, &keep, "forget bias 1 added");
  for (int g = 0; g < 4; g++)
    for (int u = 0; u < N; u++) assert_true(got.data[g * N + u] == weight("jifo"[g], -1, u) + (g == 2 ? 1.0f : 0.0f));
  crn_bundle_free(b);
  b = bundle_of(in, make_layout(NATIVE, in));
  fill(&got, "l/rec/lstm_cell/bias", "ijfo", -1, 1);
  convert(b, &got, "'forget_bias': 0.0");
  convert_with(b, &got, &keep, "forget bias 1 subtracted");
  for (int u = 0; u < N; u++) assert_true(got.data[2 * N + u] == weight('f', -1, u) - 1.0f);
  crn_bundle_free(b);
  b = bundle_of(in, make_layout(CUDNN_CELL, in)); /* adds none: nothing to say or to do */
  fill(&got, "l/rec/b", "jifo", -1, 1);
  convert_with(b, &got, &keep, "gates i,j,f,o -> j,i,f,o)");
  assert_true(got.data[2 * N] == weight('f', -1, 0));
  crn_bundle_free(b);
}

static void refuse(const crn_bundle *b, const var *v, const char *text) {
  crn_arena a = {0};
  crn_conversion *c;
  const crn_ckpt_var want = {v->name, CRN_TF_FLOAT32, v->rank, v->shape};
  crn_convert_opts opts = crn_convert_defaults();
  opts.is_wanted = wants_all;
  FAILS(crn_convert_find(b, &want, &opts, &a, &c, err), CRN_E_FORMAT, text);
  crn_arena_free(&a);
}

static void find_nothing(const crn_bundle *b, const var *v) {
  crn_arena a = {0};
  crn_conversion *c;
  const crn_ckpt_var want = {v->name, CRN_TF_FLOAT32, v->rank, v->shape};
  OK(crn_convert_find(b, &want, NULL, &a, &c, err));
  assert_null(c);
  crn_arena_free(&a);
}

static void test_refusals(void **state) {
  (void)state;
  var in[MAX_VARS];
  int n = make_layout(CELL, in);
  crn_bundle *b = bundle_of(in, n);
  refuse(b, &(var){.name = "l/rec/W", .rank = 2, .shape = {4, 8}},
         "variable 'l/rec/W': the file has 'l/rec/lstm_cell/kernel' as float32 [5,8], the network needs float32 [4,8] "
         "(converted: [3,8])");
  refuse(b, &(var){.name = "l/rec/lstm_cell/kernel", .rank = 2, .shape = {6, 8}}, "needs float32 [6,8]");
  refuse(b, &(var){.name = "l/rec/b", .rank = 1, .shape = {12}}, "float32 [8], the network needs float32 [12]");
  find_nothing(b, &(var){.name = "l/rec/x", .rank = 1, .shape = {12}});
  find_nothing(b, &(var){.name = "l/b", .rank = 1, .shape = {8}}); /* no unit's scope */
  find_nothing(b, &(var){.name = "k/rec/b", .rank = 1, .shape = {8}});
  crn_bundle_free(b);
  n += make_layout(DEEP_CELL, in + n);
  b = bundle_of(in, n);
  refuse(b, &(var){.name = "l/rec/b", .rank = 1, .shape = {8}}, "2 LSTM cells");
  crn_bundle_free(b);
  /* A linear layer's W isn't cut: without W_re in the network this is no LSTM of two matrices. */
  b = bundle_of(in, make_layout(LOWMEM, in));
  crn_arena a = {0};
  crn_conversion *c;
  const crn_ckpt_var w = {"l/rec/W", CRN_TF_FLOAT32, 2, (int64_t[]){3, 8}};
  FAILS(crn_convert_find(b, &w, NULL, &a, &c, err), CRN_E_FORMAT, "as float32 [5,8], the network needs float32 [3,8]");
  const crn_ckpt_var i = {"l/rec/W", CRN_TF_INT32, 2, (int64_t[]){5, 8}};
  FAILS(crn_convert_find(b, &i, NULL, &a, &c, err), CRN_E_FORMAT, "the network needs int32 [5,8]");
  crn_arena_free(&a);
  crn_bundle_free(b);
}

static void test_old_names(void **state) {
  (void)state;
  var in[] = {{.name = "g/rec/gru_cell/gates/weights", .rank = 2, .shape = {2, 2}, .data = {1, 2, 3, 4}},
              {.name = "g/rec/gru_cell/gates/biases", .rank = 1, .shape = {2}, .data = {5, 6}}};
  crn_bundle *b = bundle_of(in, 2);
  var kernel = {.name = "g/rec/gru_cell/gates/kernel", .rank = 2, .shape = {2, 2}};
  var bias = {.name = "g/rec/gru_cell/gates/bias", .rank = 1, .shape = {2}};
  convert(b, &kernel, "taken from 'g/rec/gru_cell/gates/weights'");
  convert(b, &bias, "taken from 'g/rec/gru_cell/gates/biases'");
  assert_true(kernel.data[3] == 4 && bias.data[1] == 6);
  find_nothing(b, &(var){.name = "g/rec/gru_cell/gates/kernel", .rank = 2, .shape = {2, 3}});
  crn_bundle_free(b);
}

static void test_batch_norm(void **state) {
  (void)state;
  static const char *const stats[] = {"mean", "variance", "beta", "gamma"};
  static const float values[4][2] = {{1, 2}, {4, 9}, {.5f, .5f}, {2, 3}};
  static const char *const prefixes[] = {"output_output_output_", "", "v2_"};
  char names[4][80], wanted[80];
  for (int from = 0; from < 3; from++) {
    var in[4];
    for (int i = 0; i < 4; i++) {
      snprintf(names[i], sizeof names[i], "output/batch_norm/%s%s", prefixes[from], stats[i]);
      in[i] = (var){.name = names[i], .rank = from < 2 ? 3 : 1, .shape = {1, 1, 2}};
      if (from == 2) in[i].shape[0] = 2;
      memcpy(in[i].data, values[i], sizeof values[i]);
    }
    crn_bundle *b = bundle_of(in, 4);
    for (int to = 0; to < 3; to++)
      for (int i = 0; i < 4; i++) {
        snprintf(wanted, sizeof wanted, "output/batch_norm/%s%s", prefixes[to], stats[i]);
        var v = {.name = wanted, .rank = to < 2 ? 3 : 1, .shape = {1, 1, 2}};
        if (to == 2) v.shape[0] = 2;
        convert(b, &v, from == to ? NULL : "batch norm version");
        assert_memory_equal(v.data, values[i], sizeof values[i]);
        v.shape[v.rank - 1] = 3;
        refuse(b, &v, "the network needs");
      }
    find_nothing(b, &(var){.name = "other/batch_norm/v2_mean", .rank = 1, .shape = {2}});
    find_nothing(b, &(var){.name = "output/batch_norm/v2_means", .rank = 1, .shape = {2}});
    crn_bundle_free(b);
  }
  var two[] = {{.name = "batch_norm/a_mean", .rank = 1, .shape = {2}},
               {.name = "batch_norm/b_mean", .rank = 1, .shape = {2}}};
  crn_bundle *b = bundle_of(two, 2);
  refuse(b, &(var){.name = "batch_norm/v2_mean", .rank = 1, .shape = {2}}, "2 variables of batch norm version 0");
  crn_bundle_free(b);
}

static void test_type(void **state) {
  (void)state;
  var in[] = {{.name = "W", .rank = 1, .shape = {2}, .data = {1.5f, -2}}};
  crn_bundle *b = bundle_of(in, 1);
  crn_arena a = {0};
  crn_conversion *c;
  double x[2];
  const crn_ckpt_var want = {"W", CRN_TF_FLOAT64, 1, (int64_t[]){2}};
  OK(crn_convert_find(b, &want, NULL, &a, &c, err));
  assert_string_equal(crn_conversion_note(c), "float32 converted to float64");
  OK(crn_conversion_run(c, x, err));
  assert_true(x[0] == 1.5 && x[1] == -2);
  crn_arena_free(&a);
  crn_bundle_free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lstm_layouts), cmocka_unit_test(test_forget_bias), cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_old_names),    cmocka_unit_test(test_batch_norm),  cmocka_unit_test(test_type),
  };
  return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
