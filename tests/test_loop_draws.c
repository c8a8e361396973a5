/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops drawn at random (loop_grammar.h) give the same whether layers move out of them or not, whether gradients are
 * recorded or not and whatever the rest of the batch is; their gradients agree with differences.
 *
 * CRN_DRAWS: how many (default 300); CRN_DRAWS_SEED; CRN_DRAW: only that one, with its network.
 */
#include <stdlib.h>

#include "loop_grammar.h"
#include "unit_check.h"

enum { MAX_B = 3, MAX_T = 5 };

typedef struct batch {
  int B, T;
  int32_t lens[MAX_B];
  double x[MAX_B][MAX_T][CHECK_D];
  int32_t y[MAX_B][MAX_T];
} batch;

static double uniform(drawer *d) { return (double)(draw_bits(d) >> 11) / 9007199254740992.0 * 2 - 1; }

static batch draw_batch(drawer *d, bool frames) {
  batch q = {.B = 1 + (int)draw_below(d, MAX_B)};
  for (int b = 0; b < q.B; b++) {
    q.lens[b] = (int32_t)(frames + draw_below(d, frames ? 4 : 5));
    if (q.lens[b] > q.T) q.T = q.lens[b];
    for (int t = 0; t < MAX_T; t++) {
      q.y[b][t] = t < q.lens[b] ? (int32_t)draw_below(d, 5) : 0;
      for (int k = 0; k < CHECK_D; k++) q.x[b][t][k] = uniform(d);
    }
  }
  return q;
}

/* Sequence b of q alone, behind it `more` frames of padding. */
static batch alone(const batch *q, int b) {
  batch one = {.B = 1, .T = q->lens[b], .lens = {q->lens[b]}};
  memcpy(one.x, q->x[b], sizeof q->x[b]);
  memcpy(one.y, q->y[b], sizeof q->y[b]);
  return one;
}

static crn_status run_batch(checked_net *c, const batch *q, bool train) {
  double x[MAX_B * MAX_T * CHECK_D];
  int32_t y[MAX_B * MAX_T];
  for (int b = 0; b < q->B; b++)
    for (int t = 0; t < q->T; t++) {
      y[b * q->T + t] = q->y[b][t];
      for (int d = 0; d < CHECK_D; d++) x[(b * q->T + t) * CHECK_D + d] = q->x[b][t][d];
    }
  const int32_t *lens = q->lens;
  crn_exec_begin(c->x, train, 1);
  CRN_TRY(crn_exec_feed(c->x, "data", CRN_F64, 3, (int64_t[]){q->B, q->T, CHECK_D}, x, 1, &lens, &c->err));
  CRN_TRY(crn_exec_feed(c->x, "classes", CRN_I32, 2, (int64_t[]){q->B, q->T}, y, 1, &lens, &c->err));
  return crn_exec_forward(c->x, &c->err);
}

/* Feature f of sequence b, frame t; t is ignored without time axis. NaN: too short. */
static double entry(const crn_data *d, int b, int t, int f) {
  int64_t at = 0;
  const int batch_axis = crn_tmpl_batch_axis(&d->t);
  for (int i = 0; i < d->v->rank; i++) {
    const int64_t k = i == batch_axis ? b : i == d->t.time_axis ? t : f;
    if (i == batch_axis ? d->v->shape[i] > 1 && k >= d->v->shape[i] : k >= d->v->shape[i]) return (double)NAN;
    at = at * d->v->shape[i] + (d->v->shape[i] > 1 ? k : 0);
  }
  return crn_t_get(d->v, at);
}

static int32_t length(const crn_data *d, int b) {
  const crn_data *len = d->t.time_axis >= 0 ? d->len[d->t.time_axis] : NULL;
  if (!len) return -1;
  return crn_t_i32(len->v)[crn_t_size(len->v) > 1 ? b : 0];
}

typedef struct test_case {
  loop_draw l;
  int number;
  char *text;
  batch q;
} test_case;

static void failed(const test_case *c, const char *what) {
  fprintf(stderr, "draw %d: %s\n%s\nlengths", c->number, what, c->text);
  for (int b = 0; b < c->q.B; b++) fprintf(stderr, " %d", c->q.lens[b]);
  fprintf(stderr, "\n");
  if (!getenv("CRN_DRAWS_GO_ON")) fail();
}

static int n_failed;

static bool same_layer(const test_case *c, checked_net *u, int ub, checked_net *v, int vb, const char *name,
                       const char *what) {
  const crn_data *a = value_of(u, name), *b = value_of(v, name);
  char why[256];
  const int la = length(a, ub), lb = length(b, vb), L = !c->l.ends ? c->q.lens[ub] : la >= 0 ? la : lb;
  const int T = strncmp(name, "last", 4) ? L : 1;
  if ((la >= 0 && la != L) || (lb >= 0 && lb != L)) {
    snprintf(why, sizeof why, "%s: %s: sequence %d has lengths %d and %d", what, name, ub, la, lb);
    return failed(c, why), false;
  }
  for (int t = 0; t < T; t++)
    for (int f = 0; f < (int)a->t.dims[a->t.n - 1]->size; f++) {
      const double p = entry(a, ub, t, f), q = entry(b, vb, t, f);
      if (fabs(p - q) < 1e-11) continue;
      snprintf(why, sizeof why, "%s: %s[%d, %d, %d]: %.15g and %.15g", what, name, ub, t, f, p, q);
      return failed(c, why), false;
    }
  return true;
}

static bool same_outputs(const test_case *c, checked_net *u, int ub, checked_net *v, int vb, const char *what) {
  if (!same_layer(c, u, ub, v, vb, "loop", what)) return false;
  if (!c->l.ends && !same_layer(c, u, ub, v, vb, "output", what)) return false;
  for (int i = 0; i < c->l.n; i++) {
    char name[8];
    snprintf(name, sizeof name, "out_%c", 'a' + i);
    if (c->l.keep[i] && !same_layer(c, u, ub, v, vb, name, what)) return false;
    snprintf(name, sizeof name, "last_%c", 'a' + i);
    if (c->l.last[i] && !same_layer(c, u, ub, v, vb, name, what)) return false;
  }
  return true;
}

static bool same_losses(const test_case *c, checked_net *u, checked_net *v) {
  int frames = 0;
  for (int b = 0; b < c->q.B; b++) frames += c->q.lens[b];
  if (!frames) return true; /* norms are infinite */
  assert_int_equal(u->net->n_losses, v->net->n_losses);
  for (int i = 0; i < u->net->n_losses; i++)
    if (!(fabs(u->x->losses[i].cost - v->x->losses[i].cost) < 1e-10) ||
        u->x->losses[i].error != v->x->losses[i].error || u->x->losses[i].norm != v->x->losses[i].norm) {
      char why[128];
      snprintf(why, sizeof why, "loss %d: %.15g and %.15g", i, u->x->losses[i].cost, v->x->losses[i].cost);
      return failed(c, why), false;
    }
  return true;
}

/* All parameters go a step along a direction that is the same in each call. */
static void move_params(checked_net *n, double step) {
  drawer dir = {.state = 77};
  for (int k = 0; k < n->net->n_params; k++) {
    crn_param *p = n->net->params[k];
    for (int64_t e = 0; e < p->size; e++) ((double *)p->st.data)[e] += step * uniform(&dir);
    crn_weight_changed(&p->st);
  }
}

static bool loss_at(const test_case *c, checked_net *n, double step, double *loss) {
  move_params(n, step);
  const bool ok = run_batch(n, &c->q, true) == CRN_OK;
  *loss = n->x->total_loss;
  move_params(n, -step);
  return ok;
}

/* Along one direction. Where the loss is curved, only the smaller step is small enough. */
static bool right_gradient(const test_case *c, checked_net *n) {
  static const double steps[] = {1e-6, 1e-7};
  char why[160];
  double want = 0, diff = 0, loss[2];
  drawer dir = {.state = 77};
  if (run_batch(n, &c->q, true) != CRN_OK || crn_exec_backward(n->x, &n->err) != CRN_OK)
    return failed(c, crn_err_text(&n->err)), false;
  for (int k = 0; k < n->net->n_params; k++) {
    crn_param *p = n->net->params[k];
    const double *g = crn_exec_grad(n->x, p, &n->err);
    for (int64_t e = 0; e < p->size; e++) {
      const double u = uniform(&dir);
      if (g) want += u * g[e];
    }
  }
  for (int i = 0; i < 2; i++) {
    if (!loss_at(c, n, steps[i], &loss[0]) || !loss_at(c, n, -steps[i], &loss[1]))
      return failed(c, crn_err_text(&n->err)), false;
    diff = (loss[0] - loss[1]) / (2 * steps[i]);
    if (fabs(diff - want) < 1e-6 + 2e-5 * fabs(diff)) return true;
  }
  snprintf(why, sizeof why, "the gradient along a direction is %.12g, differences give %.12g", want, diff);
  return failed(c, why), false;
}

static bool open_drawn(test_case *c, checked_net *n, bool optimize, crn_net_mode mode) {
  crn_str s = {0};
  for (const char *p = c->text; *p; p++) {
    if (*p != '%')
      crn_str_addc(&s, *p);
    else
      crn_str_add(&s, optimize ? "True" : "False");
    p += *p == '%';
  }
  const bool ok = net_open(n, crn_str_get(&s), "'behavior_version': 12,", mode, CRN_F64);
  crn_str_free(&s);
  if (!ok) return failed(c, crn_err_text(&n->err)), net_close(n), false;
  drawer d = {.state = 5};
  for (int k = 0; k < n->net->n_params; k++) {
    crn_param *p = n->net->params[k];
    double v[256];
    assert_true(p->size <= 256); /* all are small */
    d.state = 5;
    for (const char *ch = p->path; *ch; ch++) d.state = d.state * 31 + (unsigned char)*ch;
    for (int i = 0; i < p->size; i++) v[i] = uniform(&d);
    assert_int_equal(crn_param_set(p, CRN_F64, p->spec.rank, p->spec.shape, v, &n->err), CRN_OK);
  }
  return true;
}

static bool same_alone(test_case *c, checked_net *n, checked_net *other) {
  if (run_batch(n, &c->q, false) != CRN_OK) return failed(c, crn_err_text(&n->err)), false;
  for (int b = 0; b < c->q.B; b++) {
    const batch one = alone(&c->q, b);
    if (run_batch(other, &one, false) != CRN_OK) return failed(c, crn_err_text(&other->err)), false;
    if (!same_outputs(c, n, b, other, 0, "alone")) return false;
  }
  return true;
}

static bool all_properties(test_case *c) {
  static const crn_net_mode modes[] = {{.train = true, .eval = true}, {.train = true, .eval = true}, {0}, {0}};
  checked_net n[4];
  bool ok = true;
  int opened = 0;
  while (opened < 4 && ok) {
    ok = open_drawn(c, &n[opened], opened % 2 == 0, modes[opened]);
    if (!ok) break;
    if (run_batch(&n[opened], &c->q, opened < 2) != CRN_OK) failed(c, crn_err_text(&n[opened].err)), ok = false;
    opened++;
  }
  for (int b = 0; ok && b < c->q.B; b++)
    ok = same_outputs(c, &n[0], b, &n[1], b, "moved or not") &&
         same_outputs(c, &n[0], b, &n[2], b, "without recording") &&
         same_outputs(c, &n[2], b, &n[3], b, "without recording, moved or not");
  if (ok) ok = same_losses(c, &n[0], &n[1]);
  if (ok) ok = same_alone(c, &n[2], &n[3]) && same_alone(c, &n[3], &n[2]);
  int frames = 0;
  for (int b = 0; b < c->q.B; b++) frames += c->q.lens[b];
  if (ok && frames) ok = right_gradient(c, &n[0]) && right_gradient(c, &n[1]);
  for (int k = 0; k < opened; k++) net_close(&n[k]);
  return ok;
}

static long of_env(const char *name, long otherwise) {
  const char *v = getenv(name);
  return v ? strtol(v, NULL, 10) : otherwise;
}

static void drawn_loops(void **state) {
  (void)state;
  const long only = of_env("CRN_DRAW", -1), n = of_env("CRN_DRAWS", 300);
  const uint64_t seed = (uint64_t)of_env("CRN_DRAWS_SEED", 1);
  for (long i = only >= 0 ? only : 0; i < (only >= 0 ? only + 1 : n); i++) {
    test_case c = {.number = (int)i, .l = {.d = {.state = seed * 1000003u + (uint64_t)i}}};
    draw_bits(&c.l.d);
    put_network(&c.l);
    c.text = crn_strdup(crn_str_get(&c.l.s));
    c.q = draw_batch(&c.l.d, c.l.frames);

    n_failed += !all_properties(&c);
    crn_free(c.text);
    crn_str_free(&c.l.s);
  }
  if (n_failed) fail_msg("%d of %ld failed", n_failed, n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
