/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in messages (see report.h). Slow, and never fails: what is missing is left out.
 */
#include "tensor/report.h"

#include <math.h>
#include <stdio.h>

crn_t_range crn_t_range_of(const crn_tensor *t) {
  crn_t_range r = {(double)INFINITY, -(double)INFINITY, 0, 0, 0, 0};
  double sum = 0, squares = 0;
  const int64_t n = crn_t_size(t);
  for (int64_t i = 0; i < n; i++) {
    const double v = crn_t_get(t, i);
    r.n_nan += isnan(v);
    r.n_inf += isinf(v) != 0;
    if (!isfinite(v)) continue;
    if (v < r.min) r.min = v;
    if (v > r.max) r.max = v;
    sum += v;
  }
  const int64_t good = n - r.n_nan - r.n_inf;
  if (!good) return r;
  r.mean = sum / (double)good;
  for (int64_t i = 0; i < n; i++) {
    const double v = crn_t_get(t, i) - r.mean;
    if (isfinite(v)) squares += v * v;
  }
  r.stddev = sqrt(squares / (double)good);
  return r;
}

void crn_t_report(const char *name, const crn_tensor *t, crn_str *out) {
  enum { MOST = 200 }; /* values that are printed */
  char buf[160];
  if (!t) return;
  crn_str_addf(out, "\n  %s: %s", name, crn_t_describe(t, buf, sizeof buf));
  const int64_t n = crn_t_size(t);
  if (n == 0) crn_str_add(out, ", EMPTY");
  if (n == 0 || !t->st || !t->st->data || t->dtype == CRN_STRING || t->dtype == CRN_C64) return;
  const crn_t_range r = crn_t_range_of(t);
  if (r.min <= r.max) crn_str_addf(out, ", min %g, max %g, mean %g, stddev %g", r.min, r.max, r.mean, r.stddev);
  if (r.n_nan + r.n_inf) crn_str_addf(out, ", %lld inf or nan", (long long)(r.n_nan + r.n_inf));
  if (t->rank != 1) return;
  crn_str_add(out, ": [");
  for (int64_t i = 0; i < n && i < MOST; i++) crn_str_addf(out, i ? ", %g" : "%g", crn_t_get(t, i));
  crn_str_add(out, n > MOST ? ", ...]" : "]");
}

void crn_node_report(const crn_node *n, crn_str *out) {
  bool any = false;
  for (int i = 0; i < n->n_in; i++) {
    char name[16];
    if (!n->in[i]) continue;
    if (!any) crn_str_addf(out, "\ninputs of operation %s:", n->op->name);
    any = true;
    (void)snprintf(name, sizeof name, "%d", i);
    crn_t_report(name, n->in[i], out);
  }
}
