/* SPDX-License-Identifier: Apache-2.0
 *
 * Searching loops drawn at random: the score of each hypothesis is the sum of what the same network gives its labels
 * when it is fed with them, results depend neither on the rest of the batch nor on its order nor on what moves out of
 * the loop, beam 1 is greedy, and a beam as large as all sequences of labels finds the best of all.
 *
 * CRN_DRAWS: how many (default 150); CRN_DRAWS_SEED; CRN_DRAW: only that one, with its network.
 */
#include <stdlib.h>

#include "layer_draws.h"
#include "unit_check.h"

enum { LABELS = 3, MAX_B = 3, MAX_T = 4, MAX_STEPS = 4 };

typedef struct batch {
  int B, T, Ty;
  int32_t lens[MAX_B], y_lens[MAX_B];
  double x[MAX_B][MAX_T][CHECK_D];
  int32_t y[MAX_B][MAX_STEPS];
} batch;

typedef struct test_case {
  int number;
  crn_str net; /* with the beam size for %d and optimize_move_layers_out for %s */
  bool end;    /* else over the frames of the source */
  bool eos;    /* include_eos */
  bool two;    /* two choices in a step */
  int limit;
  batch q;
} test_case;

static double uniform(drawer *d) { return (double)(draw_bits(d) >> 11) / 9007199254740992.0 * 2 - 1; }
static int pick(drawer *d, int n) { return (int)draw_below(d, (size_t)n); }

/* ---- networks ------------------------------------------------------------------------------------------------------
 */

#define LIN "'class': 'linear', 'activation': 'tanh', 'n_out': 2"

/* Layers that make the state 's' out of 'prev:emb' and more. */
static const char *const states[] = {
    "'s': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'n_out': 2, 'from': [%s'prev:emb', 'base:vec']}, ",
    "'s': {'class': 'rec', 'unit': 'nativelstm2', 'n_out': 2, 'from': [%s'prev:emb', 'prev:s']}, ",
    "'s': {" LIN ", 'from': [%s'prev:emb', 'prev:s'], 'initial_output': 'base:vec'}, ",
    "'s': {" LIN ", 'from': [%s'prev:emb', 'prev:s'], 'initial_output': 'var'}, ",
    "'e': {" LIN ", 'from': [%s'prev:emb', 'base:vec']}, 's': {'class': 'self_attention', 'num_heads': 1, "
    "'total_key_dim': 2, 'n_out': 2, 'attention_left_only': True, 'from': 'e'}, ",
    "'e': {" LIN ", 'from': [%s'prev:emb', 'base:vec']}, 's': {'class': 'cumsum', 'from': 'e'}, ",
    "'e': {" LIN ", 'from': [%s'prev:emb', 'base:vec']}, 'w': {'class': 'window', 'window_size': 3, 'window_right': 0, "
    "'from': 'e'}, 's': {'class': 'reduce', 'mode': 'sum', 'axes': 'dim:3', 'from': 'w'}, ",
    "'s': {'class': 'subnetwork', 'from': [%s'prev:emb'], 'subnetwork': {'y': {" LIN
    ", 'from': ['data', 'prev:output']}, "
    "'output': {'class': 'combine', 'kind': 'add', 'from': ['y', 'base:base:vec']}}}, ",
    "'c': {'class': 'rec', 'from': 'base:enc', 'unit': {'y': {" LIN ", 'from': ['data:source', 'prev:y', "
    "'base:prev:emb']}, 'output': {'class': 'copy', 'from': 'y'}}}, 'r': {'class': 'reduce', 'mode': 'sum', 'axes': "
    "'T', "
    "'from': 'c'}, 's': {" LIN ", 'from': [%s'r', 'prev:s']}, ",
    "'z': {" LIN
    ", 'from': [%s'prev:emb', 'prev:s']}, 'q': {'class': 'combine', 'kind': 'add', 'from': ['base:enc', 'z']}, "
    "'t': {'class': 'activation', 'activation': 'tanh', 'from': 'q'}, 'en': {'class': 'linear', 'activation': None, "
    "'n_out': 1, 'from': 't'}, 'aw': {'class': 'softmax_over_spatial', 'from': 'en'}, 's': {'class': "
    "'generic_attention', "
    "'base': 'base:enc', 'weights': 'aw'}, ",
    "'m': {'class': 'compare', 'kind': 'not_equal', 'value': 1, 'from': 'prev:output'}, 'e': {" LIN ", 'from': "
    "[%s'prev:emb']}, 's': {'class': 'masked_computation', 'mask': 'm', 'from': 'e', 'unit': {'class': 'rnn_cell', "
    "'unit': "
    "'GRU', 'n_out': 2, 'from': 'data'}}, ",
    "'e': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'n_out': 2, 'from': [%s'prev:emb']}, 'h': {'class': "
    "'get_last_hidden_state', 'n_out': 4, 'from': 'e'}, 's': {" LIN ", 'from': ['h', 'prev:s']}, "};

static void put_network(test_case *c, drawer *d) {
  c->end = draw_chance(d, 60);
  c->eos = draw_chance(d, 50) || !c->end;
  c->two = draw_chance(d, 20);
  c->eos |= c->two;
  c->limit = 1 + pick(d, c->two ? 2 : 3);
  const char *norm = c->eos && draw_chance(d, 50) ? "True" : "False";
  crn_str_addf(&c->net,
               "{'enc': {" LIN
               ", 'from': 'data'}, 'vec': {'class': 'reduce', 'mode': 'sum', 'axes': 'T', 'from': 'enc'}, "
               "'loop': {'class': 'rec', 'from': %s, 'target': 'classes', 'max_seq_len': %d, 'include_eos': %s, "
               "'optimize_move_layers_out': %%s, 'unit': {",
               c->end ? "[]" : "'data'", c->limit, c->eos ? "True" : "False");
  const int k = pick(d, sizeof states / sizeof *states);
  crn_str s = {0};
  for (const char *p = states[k]; *p; p++) {
    if (*p != '%')
      crn_str_addc(&s, *p);
    else if (!c->end)
      crn_str_add(&s, "'data:source', ");
    p += *p == '%';
  }
  crn_str_add(&c->net, crn_str_get(&s));
  crn_str_free(&s);
  const char *const first = c->two ? "one" : "output";
  const char *type = draw_chance(d, 33) ? "prob" : draw_chance(d, 50) ? "log_prob" : "logits";
  const char *act = !strcmp(type, "prob") ? "'softmax'" : !strcmp(type, "logits") ? "None" : "'log_softmax'";
  crn_str_addf(
      &c->net,
      "'p': {'class': 'linear', 'activation': %s, 'n_out': 3, 'from': ['s', 'prev:emb'], 'is_output_layer': True}, "
      "'%s': {'class': 'choice', 'input_type': '%s', 'beam_size': %%d, 'from': 'p', 'target': 'classes', "
      "'initial_output': 1, 'length_normalization': %s}, ",
      act, first, type, c->two ? "False" : norm);
  if (c->two)
    crn_str_addf(&c->net,
                 "'oh': {'class': 'linear', 'activation': 'tanh', 'n_out': 2, 'from': 'one'}, "
                 "'p2': {'class': 'softmax', 'n_out': 3, 'from': ['oh', 's'], 'is_output_layer': True}, "
                 "'output': {'class': 'choice', 'beam_size': %%d, 'from': 'p2', 'target': 'others', "
                 "'initial_output': 1, 'length_normalization': %s}, 'one_out': {'class': 'copy', 'from': 'one', "
                 "'is_output_layer': True}, ",
                 norm);
  crn_str_addf(&c->net,
               "'emb': {'class': 'linear', 'activation': None, 'with_bias': False, 'n_out': 2, 'from': 'output', "
               "'initial_output': 0}%s}}, 'decision': {'class': 'decide', 'from': 'loop', 'is_output_layer': True}, "
               "'output': {'class': 'copy', 'from': 'decision'}, %s'state': {'class': 'copy', 'from': 'loop/p', "
               "'is_output_layer': True}}",
               c->end ? ", 'end': {'class': 'compare', 'kind': 'equal', 'from': 'output', 'value': 0}" : "",
               c->two
                   ? "'ones': {'class': 'copy', 'from': 'loop/one_out', 'is_output_layer': True}, 'state2': {'class': "
                     "'copy', 'from': 'loop/p2', 'is_output_layer': True}, "
                   : "");
}

static batch draw_batch(drawer *d, const test_case *c, bool frames) {
  batch q = {.B = 1 + pick(d, MAX_B)};
  const int longest = c->two ? 2 : 3;
  const int first = 1 + pick(d, longest); /* where no sequence has frames, no choice is made */
  for (int b = 0; b < q.B; b++) {
    q.lens[b] = frames ? 1 + pick(d, longest) : pick(d, longest + 1);
    if (b == 0) q.lens[b] = first;
    if (q.lens[b] > q.T) q.T = q.lens[b];
    for (int t = 0; t < MAX_T; t++)
      for (int k = 0; k < CHECK_D; k++) q.x[b][t][k] = 2 * uniform(d);
  }
  return q;
}

/* ---- runs ----------------------------------------------------------------------------------------------------------
 */

static void open_drawn(const test_case *c, checked_net *n, int beam, bool optimize, crn_net_mode mode) {
  crn_str s = {0}, net = {0};
  for (const char *p = crn_str_get(&c->net); *p; p++) {
    if (p[0] == '%' && p[1] == 's')
      crn_str_add(&net, optimize ? "True" : "False");
    else if (p[0] == '%' && p[1] == 'd')
      crn_str_addf(&net, "%d", beam);
    else
      crn_str_addc(&net, *p);
    p += *p == '%';
  }
  crn_str_addf(
      &s,
      "{'behavior_version': 12, 'extern_data': {'data': {'dim': 3, 'shape': (None, 3)}, 'classes': {'dim': %d, "
      "'shape': (None,), 'sparse': True, 'dtype': 'int32', 'available_for_inference': True}, 'others': {'dim': "
      "%d, 'shape': (None,), 'sparse': True, 'dtype': 'int32', 'available_for_inference': True}}, 'network': %s}",
      LABELS, LABELS, crn_str_get(&net));
  crn_value *config = NULL;
  memset(n, 0, sizeof(*n));
  if (crn_v_parse_literal(&n->arena, crn_str_get(&s), "test", &config, &n->err) != CRN_OK)
    fail_msg("%s", crn_err_text(&n->err));
  crn_str_free(&s);
  crn_str_free(&net);
  n->store = crn_store_new(CRN_F64);
  if (crn_net_build(config, mode, n->store, NULL, &n->net, &n->err) != CRN_OK)
    fail_msg("draw %d: %s\n%s", c->number, crn_err_text(&n->err), crn_str_get(&c->net));
  crn_session_opts opts = {.n_threads = 1, .seed = 3};
  assert_int_equal(crn_exec_new(n->net, &opts, &n->x, &n->err), CRN_OK);
  static const char *const kept[] = {"loop", "decision", "state", "ones", "state2"};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (crn_net_find(n->net, kept[i])) crn_exec_keep(n->x, crn_net_find(n->net, kept[i]));
  for (int k = 0; k < n->net->n_params; k++) {
    crn_param *p = n->net->params[k];
    double v[256];
    drawer d = {.state = 5 + (uint64_t)c->number};
    assert_true(p->size <= 256);
    for (const char *ch = p->path; *ch; ch++) d.state = d.state * 31 + (unsigned char)*ch;
    for (int i = 0; i < p->size; i++) v[i] = 2 * uniform(&d);
    assert_int_equal(crn_param_set(p, CRN_F64, p->spec.rank, p->spec.shape, v, &n->err), CRN_OK);
  }
}

static void run(const test_case *c, checked_net *n, const batch *q, const int32_t *others) {
  double x[MAX_B * MAX_T * CHECK_D];
  int32_t y[MAX_B * MAX_STEPS] = {0}, z[MAX_B * MAX_STEPS] = {0};
  for (int b = 0; b < q->B; b++) {
    for (int t = 0; t < q->T; t++)
      for (int d = 0; d < CHECK_D; d++) x[(b * q->T + t) * CHECK_D + d] = q->x[b][t][d];
    for (int t = 0; t < q->Ty; t++) {
      y[b * q->Ty + t] = q->y[b][t];
      if (others) z[b * q->Ty + t] = others[t];
    }
  }
  const int32_t *lens = q->lens, *y_lens = q->y_lens;
  const int64_t shape[2] = {q->B, q->Ty};
  crn_exec_begin(n->x, false, 1);
  if (crn_exec_feed(n->x, "data", CRN_F64, 3, (int64_t[]){q->B, q->T, CHECK_D}, x, 1, &lens, &n->err) != CRN_OK ||
      crn_exec_feed(n->x, "classes", CRN_I32, 2, shape, y, 1, &y_lens, &n->err) != CRN_OK ||
      crn_exec_feed(n->x, "others", CRN_I32, 2, shape, z, 1, &y_lens, &n->err) != CRN_OK ||
      crn_exec_forward(n->x, &n->err) != CRN_OK)
    fail_msg("draw %d: %s\n%s", c->number, crn_err_text(&n->err), crn_str_get(&c->net));
}

static batch alone(const batch *q, int b) {
  batch one = {.B = 1, .T = q->lens[b], .lens = {q->lens[b]}};
  memcpy(one.x[0], q->x[b], sizeof q->x[b]);
  return one;
}

/* Entry [t, row, f] of what the loop gives, wherever its axes are. */
static double entry(const crn_data *d, int t, int64_t row, int f) {
  const int batch_axis = crn_tmpl_batch_axis(&d->t);
  int64_t at = 0;
  for (int i = 0; i < d->v->rank; i++) at = at * d->v->shape[i] + (i == batch_axis ? row : i == d->t.time_axis ? t : f);
  return crn_t_get(d->v, at);
}

typedef struct hypothesis {
  int n;                                    /* steps that its score counts, with the one that ends it */
  int L;                                    /* its length as told */
  int32_t label[MAX_STEPS], one[MAX_STEPS]; /* 0 behind it */
  double score;
} hypothesis;

static hypothesis get_hypothesis(const test_case *c, checked_net *n, int64_t row) {
  const crn_data *d = value_of(n, "loop");
  hypothesis h = {.L = crn_t_i32(d->len[d->t.time_axis]->v)[row], .score = crn_t_get(d->beam->scores, row)};
  for (int t = 0; t < h.L; t++) {
    h.label[t] = (int32_t)entry(d, t, row, 0);
    if (c->two) h.one[t] = (int32_t)entry(value_of(n, "ones"), t, row, 0);
  }
  h.n = h.L + (c->end && !c->eos && h.L < c->limit);
  return h;
}

static double log_prob(const test_case *c, const crn_data *p, int t, int label, bool second) {
  double v[LABELS], sum = 0;
  for (int i = 0; i < LABELS; i++) v[i] = entry(p, t, 0, i);
  if (second || strstr(crn_str_get(&c->net), "'input_type': 'prob'")) return log(v[label]);
  if (strstr(crn_str_get(&c->net), "'input_type': 'log_prob'")) return v[label];
  for (int i = 0; i < LABELS; i++) sum += exp(v[i]);
  return v[label] - log(sum);
}

/* Sequence b with labels of n steps: what the network gives them. */
static double forced_score(const test_case *c, checked_net *forced, int b, const hypothesis *h) {
  batch one = alone(&c->q, b);
  double sum = 0;
  if (h->n == 0) return 0;
  one.Ty = one.y_lens[0] = c->end ? h->n : c->q.lens[b];
  for (int t = 0; t < h->n; t++) one.y[0][t] = c->two ? h->one[t] : h->label[t];
  run(c, forced, &one, h->label);
  for (int t = 0; t < h->n; t++) {
    sum += log_prob(c, value_of(forced, "state"), t, one.y[0][t], false);
    if (c->two) sum += log_prob(c, value_of(forced, "state2"), t, h->label[t], true);
  }
  return strstr(crn_str_get(&c->net), "'length_normalization': True") ? sum / h->n : sum;
}

static bool same_hypothesis(const test_case *c, const hypothesis *a, const hypothesis *b) {
  if (a->score < -1e20 && b->score < -1e20) return true; /* none */
  bool same = a->L == b->L && fabs(a->score - b->score) < 1e-9;
  for (int t = 0; same && t < a->L; t++) same = a->label[t] == b->label[t] && (!c->two || a->one[t] == b->one[t]);
  return same;
}

#define CHECK(cond, ...)                                                                                               \
  do {                                                                                                                 \
    if (!(cond)) {                                                                                                     \
      print_error(__VA_ARGS__);                                                                                        \
      return false;                                                                                                    \
    }                                                                                                                  \
  } while (0)

/* ---- properties ----------------------------------------------------------------------------------------------------
 */

static bool scores_are_forced_ones(const test_case *c, checked_net *n, checked_net *forced, int K) {
  for (int b = 0; b < c->q.B; b++)
    for (int k = 0; k < K; k++) {
      const hypothesis h = get_hypothesis(c, n, b * K + k);
      if (h.score < -1e20) continue;
      const double want = forced_score(c, forced, b, &h);
      CHECK(fabs(want - h.score) < 1e-9,
            "sequence %d, hypothesis %d of %d, length %d: score %.12g, its labels have %.12g", b, k, K, h.L, h.score,
            want);
      const crn_data *p = value_of(n, "state"), *fp = h.n ? value_of(forced, "state") : NULL;
      for (int t = 0; t < h.L; t++)
        for (int f = 0; f < LABELS; f++) {
          const double u = entry(p, t, b * K + k, f), v = entry(fp, t, 0, f);
          CHECK(fabs(u - v) < 1e-9, "sequence %d, hypothesis %d, frame %d: loop/p is %.12g, with its labels %.12g", b,
                k, t, u, v);
        }
    }
  return true;
}

static bool decided_is_first(const test_case *c, checked_net *n, int K) {
  const crn_data *d = value_of(n, "decision");
  for (int b = 0; b < c->q.B; b++) {
    const hypothesis h = get_hypothesis(c, n, b * K);
    const int L = crn_t_i32(d->len[d->t.time_axis]->v)[b];
    CHECK(L == h.L, "sequence %d: decided length %d, of the best %d", b, L, h.L);
    for (int t = 0; t < L; t++) CHECK(entry(d, t, b, 0) == h.label[t], "sequence %d: decided labels are others", b);
    for (int k = 1; k < K; k++)
      CHECK(get_hypothesis(c, n, b * K + k).score <= get_hypothesis(c, n, b * K + k - 1).score, "not sorted");
  }
  return true;
}

static bool same_alone(const test_case *c, checked_net *n, checked_net *other, int K) {
  hypothesis all[MAX_B][4];
  for (int b = 0; b < c->q.B; b++)
    for (int k = 0; k < K; k++) all[b][k] = get_hypothesis(c, n, b * K + k);
  batch turned = c->q;
  for (int b = 0; b < c->q.B; b++) {
    const batch one = alone(&c->q, b);
    const bool any = c->end || one.T;
    if (any) run(c, other, &one, NULL);
    for (int k = 0; any && k < K; k++) {
      const hypothesis h = get_hypothesis(c, other, k);
      CHECK(same_hypothesis(c, &h, &all[b][k]), "sequence %d alone: hypothesis %d is another (%g, %g)", b, k, h.score,
            all[b][k].score);
    }
    turned.lens[c->q.B - 1 - b] = c->q.lens[b];
    memcpy(turned.x[c->q.B - 1 - b], c->q.x[b], sizeof c->q.x[b]);
  }
  run(c, other, &turned, NULL);
  for (int b = 0; b < c->q.B; b++)
    for (int k = 0; k < K; k++) {
      const hypothesis h = get_hypothesis(c, other, (c->q.B - 1 - b) * K + k);
      CHECK(same_hypothesis(c, &h, &all[b][k]), "batch turned round: sequence %d, hypothesis %d is another", b, k);
    }
  return true;
}

/* The best continuation of h, step by step up to n steps. */
static double best_of_all(const test_case *c, checked_net *forced, int b, hypothesis *h, int steps) {
  const bool ended = c->end && h->n && h->label[h->n - 1] == 0;
  if (ended || h->n == steps) return forced_score(c, forced, b, h);
  double best = -INFINITY;
  const int t = h->n++;
  for (int y = 0; y < LABELS; y++)
    for (int z = 0; z < (c->two ? LABELS : 1); z++) {
      h->label[t] = y;
      h->one[t] = z;
      const double s = best_of_all(c, forced, b, h, steps);
      if (s > best) best = s;
    }
  h->n = t;
  return best;
}

static bool largest_beam_finds_best(const test_case *c, checked_net *forced, double at_most[MAX_B]) {
  checked_net n;
  int K = 1;
  for (int t = 0; t < (c->end ? c->limit : c->q.T); t++) K *= c->two ? LABELS * LABELS : LABELS;
  open_drawn(c, &n, K, true, (crn_net_mode){.search = true});
  run(c, &n, &c->q, NULL);
  bool ok = true;
  for (int b = 0; ok && b < c->q.B; b++) {
    hypothesis h = {0};
    const double best = best_of_all(c, forced, b, &h, c->end ? c->limit : c->q.lens[b]);
    const double got = get_hypothesis(c, &n, b * K).score;
    ok = fabs(best - got) < 1e-9 && at_most[b] <= best + 1e-9;
    if (!ok)
      print_error("sequence %d: beam %d finds %.12g, the best of all is %.12g, of a smaller beam %.12g", b, K, got,
                  best, at_most[b]);
  }
  if (ok) ok = scores_are_forced_ones(c, &n, forced, K);
  net_close(&n);
  return ok;
}

/* Beam 1: in each step the best label after those before. */
static bool one_is_greedy(const test_case *c, checked_net *forced) {
  checked_net n;
  open_drawn(c, &n, 1, false, (crn_net_mode){.search = true});
  run(c, &n, &c->q, NULL);
  bool ok = true;
  for (int b = 0; ok && b < c->q.B && !c->two; b++) {
    const hypothesis got = get_hypothesis(c, &n, b);
    hypothesis h = {0};
    for (int t = 0; ok && t < got.n; t++) {
      h.n = t + 1;
      int best = 0;
      (void)forced_score(c, forced, b, &h);
      for (int y = 1; y < LABELS; y++)
        if (entry(value_of(forced, "state"), t, 0, y) > entry(value_of(forced, "state"), t, 0, best)) best = y;
      h.label[t] = best;
      ok = best == got.label[t];
      if (!ok) print_error("sequence %d, step %d: label %d, the best is %d", b, t, got.label[t], best);
    }
  }
  if (ok) ok = scores_are_forced_ones(c, &n, forced, 1);
  net_close(&n);
  return ok;
}

static bool all_properties(const test_case *c) {
  checked_net n[2], forced;
  const int K = 2 + c->number % 3;
  double best[MAX_B];
  for (int k = 0; k < 2; k++) open_drawn(c, &n[k], K, k == 1, (crn_net_mode){.search = true});
  open_drawn(c, &forced, K, c->number % 2, (crn_net_mode){.eval = true});
  run(c, &n[0], &c->q, NULL);
  run(c, &n[1], &c->q, NULL);
  bool ok =
      scores_are_forced_ones(c, &n[0], &forced, K) && decided_is_first(c, &n[0], K) && decided_is_first(c, &n[1], K);
  for (int i = 0; ok && i < c->q.B * K; i++) {
    const hypothesis a = get_hypothesis(c, &n[0], i), b = get_hypothesis(c, &n[1], i);
    ok = same_hypothesis(c, &a, &b);
    if (!ok) print_error("hypothesis %d differs where layers move out", i);
  }
  for (int b = 0; b < c->q.B; b++) best[b] = get_hypothesis(c, &n[0], b * K).score;
  ok = ok && same_alone(c, &n[0], &n[1], K) && one_is_greedy(c, &forced) && largest_beam_finds_best(c, &forced, best);
  net_close(&n[0]);
  net_close(&n[1]);
  net_close(&forced);
  return ok;
}

static long of_env(const char *name, long otherwise) {
  const char *v = getenv(name);
  return v ? strtol(v, NULL, 10) : otherwise;
}

static void drawn_searches(void **state) {
  (void)state;
  const long only = of_env("CRN_DRAW", -1), n = of_env("CRN_DRAWS", 150);
  const uint64_t seed = (uint64_t)of_env("CRN_DRAWS_SEED", 1);
  int n_failed = 0;
  for (long i = only >= 0 ? only : 0; i < (only >= 0 ? only + 1 : n); i++) {
    drawer d = {.state = seed * 1000003u + (uint64_t)i};
    test_case c = {.number = (int)i};
    draw_bits(&d);
    put_network(&c, &d);
    c.q = draw_batch(&d, &c, strstr(crn_str_get(&c.net), "softmax_over_spatial"));
    if (!all_properties(&c)) {
      n_failed++;
      print_error(" (draw %ld)\n%s\n", i, crn_str_get(&c.net));
    }
    crn_str_free(&c.net);
  }
  if (n_failed) fail_msg("%d of %ld failed", n_failed, n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_searches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
