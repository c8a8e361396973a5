/* SPDX-License-Identifier: Apache-2.0
 *
 * Small networks for tests of losses: built from Python text, fed with given arrays, in double; their gradients checked
 * against central differences.
 */
#ifndef CRN_TESTS_LOSS_NET_H
#define CRN_TESTS_LOSS_NET_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "net/exec.h"

typedef struct feed { /* one data key */
  const char *key;
  crn_dtype dtype; /* CRN_F64 or CRN_I32 */
  int rank;
  int64_t shape[4];
  const void *data;
  const int32_t *lens; /* of its one dynamic axis, or NULL */
} feed;

typedef struct loss_net {
  crn_arena arena;
  crn_err err;
  crn_store *store;
  crn_net *net;
  crn_exec *exec;
  const feed *feeds;
  int n_feeds;
  bool train;
} loss_net;

/* Builds; false and a message in n->err when it is refused. */
static inline bool net_try(loss_net *n, const char *config, bool train) {
  memset(n, 0, sizeof *n);
  crn_value *v = NULL;
  const crn_status parsed = strstr(config, "\"__dim__\"") /* JSON, for dims */
                                ? crn_v_parse_json(&n->arena, config, strlen(config), "config", &v, &n->err)
                                : crn_v_parse_literal(&n->arena, config, "config", &v, &n->err);
  if (parsed != CRN_OK) fail_msg("%s", crn_err_text(&n->err));
  n->store = crn_store_new(CRN_F64);
  assert_non_null(n->store);
  n->train = train;
  const crn_net_mode mode = {.train = train, .eval = true};
  if (crn_net_build(v, mode, n->store, NULL, &n->net, &n->err) != CRN_OK) return false;
  if (crn_store_init_values(n->store, 7, &n->err) != CRN_OK) fail_msg("%s", crn_err_text(&n->err));
  const crn_session_opts opts = {.n_threads = 1, .seed = 3, .keep_all = true, .keep_loss_parts = true};
  if (crn_exec_new(n->net, &opts, &n->exec, &n->err) != CRN_OK) fail_msg("%s", crn_err_text(&n->err));
  return true;
}

static inline void net_open(loss_net *n, const char *config, bool train, const feed *feeds, int n_feeds) {
  if (!net_try(n, config, train)) fail_msg("%s", crn_err_text(&n->err));
  n->feeds = feeds;
  n->n_feeds = n_feeds;
}

static inline void net_close(loss_net *n) {
  crn_exec_free(n->exec);
  crn_net_free(n->net);
  crn_store_free(n->store);
  crn_err_clear(&n->err);
  crn_arena_free(&n->arena);
}

/* One forward pass of step 5; false when it fails (message in n->err). */
static inline bool net_forward(loss_net *n) {
  crn_err_clear(&n->err);
  crn_exec_begin(n->exec, n->train, 5);
  for (int i = 0; i < n->n_feeds; i++) {
    const feed *f = &n->feeds[i];
    const int32_t *lens[1] = {f->lens};
    if (crn_exec_feed(n->exec, f->key, f->dtype, f->rank, f->shape, f->data, f->lens ? 1 : 0, lens, &n->err) != CRN_OK)
      fail_msg("%s", crn_err_text(&n->err));
  }
  return crn_exec_forward(n->exec, &n->err) == CRN_OK;
}

static inline void net_run(loss_net *n) {
  if (!net_forward(n)) fail_msg("%s", crn_err_text(&n->err));
}

static inline double net_objective(loss_net *n) { return n->exec->objective ? crn_t_get(n->exec->objective, 0) : 0; }

static inline const crn_loss_result *net_loss(loss_net *n, const char *name) {
  for (int i = 0; i < n->net->n_losses; i++)
    if (!strcmp(n->net->losses[i]->name, name)) return &n->exec->losses[i];
  fail_msg("no loss '%s'", name);
  return NULL;
}

/* Number k of parameter p, changed by d. */
static inline void net_nudge(crn_param *p, int64_t k, double d) {
  ((double *)p->st.data)[k] += d;
  crn_weight_changed(&p->st);
}

static inline void net_backward(loss_net *n) {
  crn_exec_zero_grads(n->exec);
  net_run(n);
  if (crn_exec_backward(n->exec, &n->err) != CRN_OK) fail_msg("%s", crn_err_text(&n->err));
}

/* Gradient of element k of parameter p; 0 if it got none. */
static inline double net_grad(loss_net *n, crn_param *p, int64_t k) {
  const double *g = crn_exec_grad(n->exec, p, &n->err);
  return g ? g[k] : 0;
}

/* Gradients of all parameters against differences of the objective. */
static inline void net_check_gradients(loss_net *n, double tol) {
  const double h = 1e-5;
  int checked = 0;
  double *got[64] = {NULL};
  assert_true(n->net->n_params <= 64);
  net_backward(n);
  for (int i = 0; i < n->net->n_params; i++) { /* all of them before the next run */
    crn_param *p = n->net->params[i];
    got[i] = calloc((size_t)p->size + 1, sizeof *got[i]);
    for (int64_t k = 0; k < p->size; k++) got[i][k] = net_grad(n, p, k);
  }
  for (int i = 0; i < n->net->n_params; i++) {
    crn_param *p = n->net->params[i];
    for (int64_t k = 0; n->net->trainable[i] && k < p->size; k++) {
      net_nudge(p, k, h);
      net_run(n);
      double want = net_objective(n);
      net_nudge(p, k, -2 * h);
      net_run(n);
      want = (want - net_objective(n)) / (2 * h);
      net_nudge(p, k, h);
      checked += fabs(want) > 1e-3;
      if (!(fabs(got[i][k] - want) <= tol * (1 + fabs(want))))
        fail_msg("gradient of %s[%lld]: got %.9g, want %.9g", p->path, (long long)k, got[i][k], want);
    }
    free(got[i]);
  }
  assert_true(checked > 0);
}

static inline void expect_near(const char *what, double got, double want, double tol) {
  if (got == want) return;
  if (!(fabs(got - want) <= tol)) fail_msg("%s: got %.10g, want %.10g", what, got, want);
}

static inline void expect_message(loss_net *n, const char *part) {
  if (!strstr(crn_err_text(&n->err), part)) fail_msg("message '%s' lacks '%s'", crn_err_text(&n->err), part);
}

/* A config that is refused with a message that holds part. */
static inline void expect_refused(const char *config, const char *part) {
  loss_net n;
  if (net_try(&n, config, true)) fail_msg("built, but should be refused with '%s': %s", part, config);
  expect_message(&n, part);
  net_close(&n);
}

#endif
