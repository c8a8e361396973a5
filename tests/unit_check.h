/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of recurrent layers: a network from a Python literal, the inputs and parameters of the cases D11 and D12,
 * a run, and comparisons. The literal is the network dict; data "data" [B,T,3] and "classes" sparse [B,T] are there.
 */
#ifndef CRN_TESTS_UNIT_CHECK_H
#define CRN_TESTS_UNIT_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/exec.h"
#include "net/net.h"
#include "tensor/data.h"
#include "value/value.h"

enum { CHECK_B = 2, CHECK_T = 4, CHECK_D = 3 };

typedef struct checked_net {
  crn_arena arena;
  crn_store *store;
  crn_net *net;
  crn_exec *x;
  crn_err err;
} checked_net;

static inline double gen_p(int i) { return ((37 * i) % 19 - 9) / 20.0; }
static inline double gen_x(int i) { return ((23 * i) % 17 - 8) / 8.0; }

static inline void net_close(checked_net *c) {
  crn_exec_free(c->x);
  crn_net_free(c->net);
  crn_store_free(c->store);
  crn_arena_free(&c->arena);
  crn_err_clear(&c->err);
  memset(c, 0, sizeof(*c));
}

/* False: refused, the reason in c->err. more: further keys of the config, e.g. "'behavior_version': 17,". */
static inline bool net_open(checked_net *c, const char *network, const char *more, crn_net_mode mode, crn_dtype real) {
  memset(c, 0, sizeof(*c));
  crn_str s = {0};
  crn_str_addf(
      &s,
      "{'extern_data': {'data': {'dim': 3, 'shape': (None, 3)}, 'classes': {'dim': 5, 'shape': (None,), 'sparse': "
      "True, 'dtype': 'int32', 'available_for_inference': True}}, %s 'network': %s}",
      more, network);
  crn_value *config = NULL;
  if (crn_v_parse_literal(&c->arena, crn_str_get(&s), "test", &config, &c->err) != CRN_OK)
    fail_msg("%s", crn_err_text(&c->err));
  crn_str_free(&s);
  c->store = crn_store_new(real);
  assert_non_null(c->store);
  if (crn_net_build(config, mode, c->store, NULL, &c->net, &c->err) != CRN_OK) return false;
  crn_session_opts opts = {.n_threads = 1, .seed = 3, .keep_all = true};
  if (crn_exec_new(c->net, &opts, &c->x, &c->err) != CRN_OK) fail_msg("%s", crn_err_text(&c->err));
  return true;
}

static inline void net_must_open(checked_net *c, const char *network, const char *more, bool train, crn_dtype real) {
  if (!net_open(c, network, more, (crn_net_mode){.train = train, .eval = train}, real))
    fail_msg("%s", crn_err_text(&c->err));
}

/* The parameter's entries become p(first), p(first + 1), … */
static inline void set_param(checked_net *c, const char *path, int first) {
  crn_param *p = crn_store_find(c->store, path);
  if (!p) fail_msg("there is no parameter '%s'", path);
  double v[1024];
  assert_true(p->size <= 1024);
  for (int i = 0; i < p->size; i++) v[i] = gen_p(first + i);
  if (crn_param_set(p, CRN_F64, p->spec.rank, p->spec.shape, v, &c->err) != CRN_OK)
    fail_msg("%s", crn_err_text(&c->err));
}

/* All parameters one after the other, in the network's order. */
static inline void set_all_params(checked_net *c) {
  int first = 0;
  for (int i = 0; i < c->net->n_params; i++) {
    set_param(c, c->net->params[i]->path, first);
    first += (int)c->net->params[i]->size + 3;
  }
}

/* B sequences beginning with sequence `from` of the cases' input; padding is filled with pad. */
static inline crn_status net_run_on(checked_net *c, int from, int B, int T, double pad, const int32_t *lens,
                                    bool train) {
  double x[CHECK_B * CHECK_T * CHECK_D];
  int32_t y[CHECK_B * CHECK_T];
  for (int b = 0; b < B; b++)
    for (int t = 0; t < T; t++) {
      y[b * T + t] = t < lens[b] ? (7 * b + 3 * t) % 5 : 0;
      for (int d = 0; d < CHECK_D; d++)
        x[(b * T + t) * CHECK_D + d] = t < lens[b] ? gen_x(((b + from) * CHECK_T + t) * CHECK_D + d) : pad;
    }
  crn_exec_begin(c->x, train, 1);
  CRN_TRY(crn_exec_feed(c->x, "data", CRN_F64, 3, (int64_t[]){B, T, CHECK_D}, x, 1, &lens, &c->err));
  CRN_TRY(crn_exec_feed(c->x, "classes", CRN_I32, 2, (int64_t[]){B, T}, y, 1, &lens, &c->err));
  return crn_exec_forward(c->x, &c->err);
}

static inline void net_run(checked_net *c, bool train) {
  const int32_t lens[CHECK_B] = {4, 2};
  if (net_run_on(c, 0, CHECK_B, CHECK_T, 0, lens, train) != CRN_OK) fail_msg("%s", crn_err_text(&c->err));
}

static inline const crn_data *value_of(checked_net *c, const char *layer) {
  const crn_layer *l = crn_net_find(c->net, layer);
  if (!l) fail_msg("there is no layer '%s'", layer);
  const crn_data *d = crn_exec_value(c->x, l);
  if (!d) fail_msg("layer '%s' has no value", layer);
  return d;
}

/* Entry [t, b, f] of a time-major value. */
static inline double at(const crn_data *d, int t, int b, int f) {
  return crn_t_get(d->v, (t * d->v->shape[1] + b) * d->v->shape[2] + f);
}

static inline void same_values(const crn_data *a, const crn_data *b, double tolerance) {
  assert_int_equal(a->v->rank, b->v->rank);
  for (int i = 0; i < a->v->rank; i++) assert_int_equal(a->v->shape[i], b->v->shape[i]);
  for (int64_t i = 0; i < crn_t_size(a->v); i++) {
    const double u = crn_t_get(a->v, i), v = crn_t_get(b->v, i);
    if (!(fabs(u - v) <= tolerance)) fail_msg("entry %lld: %.12g and %.12g", (long long)i, u, v);
  }
}

/* Derivatives of the loss by every parameter agree with differences of it. */
static inline void check_gradients(checked_net *c) {
  net_run(c, true);
  if (crn_exec_backward(c->x, &c->err) != CRN_OK) fail_msg("%s", crn_err_text(&c->err));
  for (int k = 0; k < c->net->n_params; k++) {
    crn_param *p = c->net->params[k];
    const double *g = crn_exec_grad(c->x, p, &c->err);
    if (!g) fail_msg("parameter '%s' has no gradient", p->path);
    double *v = p->st.data, want[64];
    for (int64_t e = 0; e < p->size && e < 64; e++) want[e] = g[e];
    for (int64_t e = 0; e < p->size && e < 64; e += 3) {
      const double keep = v[e], h = 1e-6;
      double loss[2];
      for (int s = 0; s < 2; s++) {
        v[e] = keep + (s ? -h : h);
        crn_weight_changed(&p->st);
        net_run(c, true);
        loss[s] = c->x->total_loss;
      }
      v[e] = keep;
      crn_weight_changed(&p->st);
      const double diff = (loss[0] - loss[1]) / (2 * h);
      if (!(fabs(diff - want[e]) < 1e-6 + 1e-5 * fabs(diff)))
        fail_msg("%s[%lld]: %g, differences give %g", p->path, (long long)e, want[e], diff);
    }
  }
}

/* The network must be refused with a message that holds every word of the list (NULL-terminated). */
static inline void refused(const char *network, const char *const *words) {
  checked_net c;
  if (net_open(&c, network, "", (crn_net_mode){0}, CRN_F32)) fail_msg("was built: %s", network);
  for (; *words; words++)
    if (!strstr(crn_err_text(&c.err), *words)) fail_msg("'%s' is missing in: %s", *words, crn_err_text(&c.err));
  net_close(&c);
}
#define REFUSED(net, ...) refused(net, (const char *const[]){__VA_ARGS__, NULL})

#endif
