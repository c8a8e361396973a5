/* SPDX-License-Identifier: Apache-2.0
 *
 * Beam search worked out on paper: label 0 ends and starts, P(next | label) = 0: (.1 .5 .4), 1: (.3 .3 .4), 2: (.9 .05
 * .05).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/exec.h"

typedef struct searched {
  crn_arena arena;
  crn_err err;
  crn_store *store;
  crn_net *net;
  crn_exec *x;
} searched;

static void search_open_with(searched *s, const char *keys, int beam, const char *norm, const char *end) {
  crn_str text = {0};
  crn_value *config = NULL;
  memset(s, 0, sizeof *s);
  crn_str_addf(
      &text,
      "{%s'extern_data': {'data': {'dim': 2}, 'classes': {'dim': 3, 'sparse': True, 'available_for_inference': True}},"
      " 'network': {'output': {'class': 'rec', 'from': [], 'target': 'classes', 'max_seq_len': "
      "\"max_len_from('base:data')\", 'unit': {"
      "'p': {'class': 'linear', 'from': 'prev:output', 'n_out': 3, 'with_bias': False},"
      "'output': {'class': 'choice', 'from': 'p', 'input_type': 'log_prob', 'target': 'classes', 'beam_size': %d, "
      "'initial_output': 0, 'length_normalization': %s},"
      "'end': %s}}, 'decision': {'class': 'decide', 'from': 'output', 'is_output_layer': True}}}",
      keys, beam, norm, end);
  if (crn_v_parse_literal(&s->arena, crn_str_get(&text), "test", &config, &s->err) != CRN_OK)
    fail_msg("%s", crn_err_text(&s->err));
  crn_str_free(&text);
  assert_non_null(s->store = crn_store_new(CRN_F32));
  if (crn_net_build(config, (crn_net_mode){.eval = true, .search = true}, s->store, NULL, &s->net, &s->err) != CRN_OK)
    fail_msg("%s", crn_err_text(&s->err));
  const double p[9] = {.1, .5, .4, .3, .3, .4, .9, .05, .05};
  double w[9];
  for (int i = 0; i < 9; i++) w[i] = log(p[i]);
  const int64_t shape[2] = {3, 3};
  assert_int_equal(crn_param_set(crn_store_find(s->store, "output/rec/p/W"), CRN_F64, 2, shape, w, &s->err), CRN_OK);
  if (crn_exec_new(s->net, NULL, &s->x, &s->err) != CRN_OK) fail_msg("%s", crn_err_text(&s->err));
  crn_exec_keep(s->x, crn_net_find(s->net, "output"));
  crn_exec_keep(s->x, crn_net_find(s->net, "decision"));
}

static void search_open(searched *s, int beam, const char *norm, const char *end) {
  search_open_with(s, "", beam, norm, end);
}

static void search_run(searched *s, int B, const int32_t *lens, int32_t label) {
  int32_t classes[64];
  float data[128] = {0};
  int64_t T = 0;
  for (int b = 0; b < B; b++) T = lens[b] > T ? lens[b] : T;
  for (int i = 0; i < 64; i++) classes[i] = label;
  const int64_t shape[3] = {B, T, 2};
  crn_exec_begin(s->x, false, 0);
  assert_int_equal(crn_exec_feed(s->x, "data", CRN_F32, 3, shape, data, 1, &lens, &s->err), CRN_OK);
  assert_int_equal(crn_exec_feed(s->x, "classes", CRN_I32, 2, shape, classes, 1, &lens, &s->err), CRN_OK);
  if (crn_exec_forward(s->x, &s->err) != CRN_OK) fail_msg("%s", crn_err_text(&s->err));
}

static void search_close(searched *s) {
  crn_exec_free(s->x);
  crn_net_free(s->net);
  crn_store_free(s->store);
  crn_err_clear(&s->err);
  crn_arena_free(&s->arena);
}

static const char *const end_is_0 = "{'class': 'compare', 'from': 'output', 'value': 0}";

/* Hypothesis k of sequence b is exactly these labels, with this score. */
static void check_hyp(searched *s, int b, int k, int n, const int32_t *labels, double score) {
  const crn_data *d = crn_exec_value(s->x, crn_net_find(s->net, "output"));
  assert_non_null(d);
  const int64_t K = d->beam->K, N = d->v->shape[1], row = b * K + k;
  assert_int_equal(crn_t_i32(d->len[0]->v)[row], n);
  for (int t = 0; t < n; t++) assert_int_equal((int)crn_t_get(d->v, t * N + row), labels[t]);
  const double found = crn_t_get(d->beam->scores, row);
  if (fabs(found - score) > 1e-4) fail_msg("hypothesis %d of sequence %d: score %g instead of %g", k, b, found, score);
}

static void test_paper(void **state) {
  (void)state;
  static const int32_t h12[] = {1, 2}, h2[] = {2}, h1[] = {1};
  const int32_t len4 = 4;
  for (int norm = 0; norm < 2; norm++)
    for (int beam = 1; beam <= 3; beam++) {
      searched s;
      search_open(&s, beam, norm ? "True" : "False", end_is_0);
      search_run(&s, 1, &len4, 1);
      if (beam == 1) check_hyp(&s, 0, 0, 2, h12, norm ? -.571600 : -1.714798);
      if (beam > 1) {
        check_hyp(&s, 0, 0, 1, h2, norm ? -.510826 : -1.021651);
        check_hyp(&s, 0, 1, 2, h12, norm ? -.571600 : -1.714798);
      }
      if (beam == 3) check_hyp(&s, 0, 2, 1, h1, norm ? -.948560 : -1.897120);
      const crn_data *best = crn_exec_value(s.x, crn_net_find(s.net, "decision"));
      assert_non_null(best);
      assert_null(best->beam);
      assert_int_equal(best->v->shape[0], 1);
      assert_int_equal((int)crn_t_get(best->v, 0), beam == 1 ? 1 : 2);
      search_close(&s);
    }
}

/* A batch of lengths 4 and 8: both sequences have the single result. */
static void test_batch(void **state) {
  (void)state;
  static const int32_t h12[] = {1, 2}, h2[] = {2}, h1[] = {1}, lens[] = {4, 8};
  searched s;
  search_open(&s, 3, "True", end_is_0);
  search_run(&s, 2, lens, 2);
  for (int b = 0; b < 2; b++) {
    check_hyp(&s, b, 0, 1, h2, -.510826);
    check_hyp(&s, b, 1, 2, h12, -.571600);
    check_hyp(&s, b, 2, 1, h1, -.948560);
  }
  search_close(&s);
}

/* An end condition without batch axis holds for all hypotheses. */
/* A limit cuts the search after 4 labels 1 2 0 1: the original divides by 5; exactly it is 4. */
static void test_cut(void **state) {
  (void)state;
  for (int exact = 0; exact < 2; exact++) {
    searched s;
    search_open_with(&s, exact ? "'length_normalization_exact': True, " : "", 1, "True",
                     "{'class': 'compare', 'from': 'output', 'value': 9}");
    search_run(&s, 1, (const int32_t[]){4}, 0);
    check_hyp(&s, 0, 0, 4, (const int32_t[]){1, 2, 0, 1}, log(.5 * .4 * .9 * .5) / (exact ? 4 : 5));
    search_close(&s);
  }
}

static void test_scalar_end(void **state) {
  (void)state;
  const int32_t lens[] = {4, 2};
  searched s;
  search_open(&s, 2, "False", "{'class': 'compare', 'from': ':i', 'kind': 'greater_equal', 'value': 3}");
  search_run(&s, 2, lens, 1);
  const crn_data *d = crn_exec_value(s.x, crn_net_find(s.net, "output"));
  assert_non_null(d);
  for (int i = 0; i < 4; i++) assert_int_equal(crn_t_i32(d->len[0]->v)[i], 3);
  search_close(&s);
}

/* Reference labels that are there don't change the search. */
static void test_no_reference(void **state) {
  (void)state;
  static const int32_t h12[] = {1, 2};
  const int32_t len4 = 4;
  for (int32_t label = 1; label <= 2; label++) {
    searched s;
    search_open(&s, 1, "False", end_is_0);
    search_run(&s, 1, &len4, label);
    check_hyp(&s, 0, 0, 2, h12, -1.714798);
    search_close(&s);
  }
}

/* Repeated runs of one session give the same, and ask the system for nothing more. */
static void test_steady(void **state) {
  (void)state;
  static const int32_t h2[] = {2}, lens[] = {4, 8};
  searched s;
  uint64_t n_system = 0;
  search_open(&s, 3, "True", end_is_0);
  for (int i = 0; i < 5; i++) {
    search_run(&s, 2, lens, 1);
    check_hyp(&s, 1, 0, 1, h2, -.510826);
    if (i == 1) n_system = crn_mem_get_stats(s.x->mem).n_system;
  }
  assert_int_equal(crn_mem_get_stats(s.x->mem).n_system, n_system);
  search_close(&s);
}

#define SEARCHES(name)                                                                                                 \
  "'" name "': {'class': 'rec', 'from': [], 'target': 'classes', 'max_seq_len': 4, 'unit': {'e': {'class': 'linear', " \
  "'from': 'prev:output', 'n_out': 2}, 'p': {'class': 'linear', 'from': ['e'%s], 'n_out': 3}, 'output': {'class': "    \
  "'choice', 'from': 'p', 'input_type': 'log_prob', 'target': 'classes', 'beam_size': 2, 'initial_output': 0}, "       \
  "'end': {'class': 'compare', 'from': 'output', 'value': 0}}}, '" name "_max': {'class': 'reduce', 'mode': 'max', "   \
  "'axes': 'T', 'from': '" name "_vec'}, '" name "_vec': {'class': 'linear', 'n_out': 2, 'from': '" name "'}, "

/* Two searches, read by one layer: that can only be where the second one continues the first one's hypotheses. */
static void test_two_searches(void **state) {
  (void)state;
  for (int continued = 0; continued < 2; continued++) {
    crn_arena arena = {0};
    crn_err err = {0};
    crn_value *config = NULL;
    crn_net *net = NULL;
    crn_store *store = crn_store_new(CRN_F32);
    const char *text = crn_arena_printf(
        &arena,
        "{'extern_data': {'data': {'dim': 2}, 'classes': {'dim': 3, 'sparse': True}}, 'network': {" SEARCHES("a")
            SEARCHES("b") "'output': {'class': 'combine', 'kind': 'add', 'from': ['a_max', 'b_max']}}}",
        "", continued ? ", 'base:a_max'" : "");
    assert_int_equal(crn_v_parse_literal(&arena, text, "test", &config, &err), CRN_OK);
    const crn_status st = crn_net_build(config, (crn_net_mode){.search = true}, store, NULL, &net, &err);
    if (continued) {
      if (st != CRN_OK) fail_msg("%s", crn_err_text(&err));
      crn_net_free(net);
    } else {
      assert_string_equal(crn_err_text(&err),
                          "network: layer 'output' (combine): its inputs are ordered by choices that don't continue "
                          "each other: 'a_max' by 'a/output', 'b_max' by 'b/output'");
    }
    crn_err_clear(&err);
    crn_store_free(store);
    crn_arena_free(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_searches), cmocka_unit_test(test_paper),
                                     cmocka_unit_test(test_batch),        cmocka_unit_test(test_scalar_end),
                                     cmocka_unit_test(test_no_reference), cmocka_unit_test(test_steady),
                                     cmocka_unit_test(test_cut)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
