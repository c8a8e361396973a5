/* SPDX-License-Identifier: Apache-2.0
 *
 * What a case tells besides its layers: lists of parameters and used data, losses and totals, gradients, variables
 * after the step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "runner.h"

/* ---- lists of names ---- */

/* Both lists in words when they differ; order matters. */
static void compare_lists(report *r, const char *what, char *const *want, size_t n_want, const char *const *got,
                          size_t n_got) {
  bool same = n_want == n_got;
  for (size_t i = 0; same && i < n_want; i++) same = strcmp(want[i], got[i]) == 0;
  if (same) return;
  crn_str s = {0};
  bool any = false;
  for (size_t i = 0; i < n_want; i++) {
    bool found = false;
    for (size_t k = 0; !found && k < n_got; k++) found = strcmp(want[i], got[k]) == 0;
    if (!found) crn_str_addf(&s, "%s '%s'", any ? "," : " without", want[i]), any = true;
  }
  bool more = false;
  for (size_t i = 0; i < n_got; i++) {
    bool found = false;
    for (size_t k = 0; !found && k < n_want; k++) found = strcmp(want[k], got[i]) == 0;
    if (!found) crn_str_addf(&s, "%s '%s'", more ? "," : any ? "; with" : " with", got[i]), more = true;
  }
  if (!any && !more) {
    crn_str_add(&s, " in another order:");
    for (size_t i = 0; i < n_got; i++) crn_str_addf(&s, " %s", got[i]);
  }
  rep_fail(r, "%s:%s", what, crn_str_get(&s));
  crn_str_free(&s);
}

static void compare_with_attr(case_run *c, const char *attr, const char *const *got, size_t n_got) {
  crn_err err = {0};
  char **want = NULL;
  size_t n = 0;
  if (crn_h5_read_attr_strings(c->f, c->mode, attr, &want, &n, &err) != CRN_OK)
    rep_status(c->r, "reading", &err);
  else
    compare_lists(c->r, attr, want, n, got, n_got);
  crn_free(want);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

void compare_parameter_lists(case_run *c) {
  const crn_net *net = c->net;
  const size_t n = (size_t)net->n_params;
  const char **names = crn_calloc(n + (size_t)net->n_externs + 1, sizeof *names);
  size_t n_trainable = 0, n_used = 0;
  if (!names) return;
  for (size_t i = 0; i < n; i++) names[i] = net->params[i]->path;
  compare_with_attr(c, "param_order", names, n);
  for (size_t i = 0; i < n; i++)
    if (net->trainable[i]) names[n_trainable++] = net->params[i]->path;
  compare_with_attr(c, "trainable", names, n_trainable);
  for (int i = 0; i < net->n_externs; i++)
    if (net->externs[i].used) names[n_used++] = net->externs[i].key;
  qsort(names, n_used, sizeof *names, by_text);
  compare_with_attr(c, "used_data_keys", names, n_used); /* recorded in ascending order */
  crn_free(names);
}

/* ---- parameters ---- */

static crn_status set_parameter(case_run *c, const char *stored, const char *name, crn_err *err) {
  crn_h5_info info;
  void *data = NULL;
  crn_dtype dtype = CRN_F32;
  char path[512];
  snprintf(path, sizeof path, "params/%s", stored);
  crn_param *p = crn_store_find(c->store, name);
  const bool step = strcmp(name, "global_step") == 0;
  if (!p && !step) return CRN_OK; /* of another mode */
  crn_status st = crn_h5_read(c->f, path, CRN_NT_NONE, &data, &info, err);
  if (st == CRN_OK && !crn_dtype_from_name(crn_ntype_name(info.type), &dtype))
    st = crn_fail(err, CRN_E_FORMAT, "'%s': can't use values of type %s", path, crn_ntype_name(info.type));
  if (st == CRN_OK && step && info.n == 1) {
    double value = 0;
    if (crn_ntype_convert(info.type, data, CRN_NT_F64, &value, 1)) c->store->global_step = (int64_t)value;
  }
  if (st == CRN_OK && p) st = crn_param_set(p, dtype, info.rank, info.shape, data, err);
  crn_free(data);
  return st;
}

bool set_parameters(case_run *c) {
  crn_err err = {0};
  char **names = NULL;
  size_t n = 0;
  crn_status st = crn_h5_has(c->f, "params") ? crn_h5_members(c->f, "params", &names, &n, &err) : CRN_OK;
  for (size_t i = 0; st == CRN_OK && i < n; i++) {
    char *name = plain_name(names[i]);
    st = name ? set_parameter(c, names[i], name, &err) : crn_err_memory(&err);
    crn_free(name);
  }
  crn_free(names);
  if (st != CRN_OK) rep_status(c->r, "setting parameters", &err);
  bool all = st == CRN_OK;
  for (int i = 0; all && i < c->net->n_params; i++) {
    if (c->net->params[i]->initialised) continue;
    rep_fail(c->r, "parameter '%s': no value in the file", c->net->params[i]->path);
    all = false;
  }
  return all;
}

/* ---- losses and totals ---- */

typedef struct loss_scales {
  double cost, error, norm;
} loss_scales;

static bool read_number(case_run *c, const char *object, const char *attr, double *out) {
  return crn_h5_has_attr(c->f, object, attr) && crn_h5_attr_double(c->f, object, attr, out, NULL) == CRN_OK;
}

static bool is_close(double want, double got, double relative, double scale) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (isinf(want) || isinf(got)) return want == got;
  return fabs(want - got) <= relative * fabs(want) + 1e-6 * scale;
}

static void compare_number(case_run *c, const char *what, double want, double got, double scale) {
  if (is_close(want, got, c->tol, scale)) return;
  rep_fail(c->r, "%s %.9g instead of %.9g (%.3g off)", what, got, want, fabs(want - got));
}

static void compare_part(case_run *c, const char *object, const char *name, const char *attr, bool has, double got,
                         double scale) {
  double want = 0;
  char what[300];
  const bool wanted = read_number(c, object, attr, &want);
  snprintf(what, sizeof what, "loss '%s': %s", name, attr);
  if (wanted && has)
    compare_number(c, what, want, got, scale);
  else if (wanted != has)
    rep_fail(c->r, "%s is %s", what, has ? "given, the original has none" : "missing");
}

static int find_loss(const crn_net *net, const char *name) {
  for (int i = 0; i < net->n_losses; i++)
    if (net->losses[i]->active && strcmp(net->losses[i]->name, name) == 0) return i;
  return -1;
}

static void compare_loss(case_run *c, const char *stored, const loss_scales *s) {
  char *object = case_path(c, "losses", stored), *name = plain_name(stored);
  const int i = name ? find_loss(c->net, name) : -1;
  if (!object || !name)
    rep_fail(c->r, "no memory");
  else if (i < 0)
    rep_fail(c->r, "loss '%s': is not in the network", name);
  else {
    const crn_loss_result *l = &c->exec->losses[i];
    compare_part(c, object, name, "cost", l->has_cost, l->cost, s->cost);
    compare_part(c, object, name, "error", l->has_error, l->error, s->error);
    if (crn_h5_has_attr(c->f, object, "norm")) compare_part(c, object, name, "norm", true, l->norm, s->norm);
  }
  crn_free(object);
  crn_free(name);
}

static void raise(double *to, double x) {
  if (isfinite(x)) *to = fmax(*to, fabs(x));
}

static void scan_losses(case_run *c, char *const *names, size_t n, loss_scales *s) {
  for (size_t i = 0; i < n; i++) {
    char *object = case_path(c, "losses", names[i]);
    double x;
    if (object && read_number(c, object, "cost", &x)) raise(&s->cost, x);
    if (object && read_number(c, object, "error", &x)) raise(&s->error, x);
    if (object && read_number(c, object, "norm", &x)) raise(&s->norm, x);
    crn_free(object);
  }
}

static void report_more_losses(case_run *c, char *const *names, size_t n) {
  for (int i = 0; i < c->net->n_losses; i++) {
    const crn_loss *l = c->net->losses[i];
    bool found = !l->active;
    for (size_t k = 0; !found && k < n; k++) {
      char *name = plain_name(names[k]);
      found = name && strcmp(name, l->name) == 0;
      crn_free(name);
    }
    if (!found) rep_fail(c->r, "loss '%s': the original has none of that name", l->name);
  }
}

void compare_losses(case_run *c) {
  crn_err err = {0};
  loss_scales s = {0, 0, 0};
  char *group = case_path(c, "losses", ""), **names = NULL;
  size_t n = 0;
  if (group && crn_h5_has(c->f, group) && crn_h5_members(c->f, group, &names, &n, &err) != CRN_OK)
    rep_status(c->r, "reading", &err);
  scan_losses(c, names, n, &s);
  for (size_t i = 0; i < n; i++) compare_loss(c, names[i], &s);
  report_more_losses(c, names, n);
  double total = 0, constraints = 0, objective = 0;
  const crn_exec *x = c->exec;
  if (read_number(c, c->mode, "total_loss", &total)) compare_number(c, "total_loss", total, x->total_loss, s.cost);
  if (read_number(c, c->mode, "constraints", &constraints))
    compare_number(c, "constraints", constraints, x->constraints, s.cost);
  if (read_number(c, c->mode, "objective", &objective))
    compare_number(c, "objective", objective, x->objective ? crn_t_get(x->objective, 0) : 0, s.cost);
  crn_free(names);
  crn_free(group);
}

/* ---- gradients and variables after the step ---- */

typedef struct named_arrays { /* a group of arrays */
  char *group, **names;
  array *values;
  size_t n;
  double scale; /* largest number of all */
} named_arrays;

static void named_arrays_free(named_arrays *g) {
  for (size_t i = 0; g->values && i < g->n; i++) array_free(&g->values[i]);
  crn_free(g->values);
  crn_free(g->names);
  crn_free(g->group);
}

static bool read_group(case_run *c, const char *group, named_arrays *g) {
  crn_err err = {0};
  memset(g, 0, sizeof *g);
  g->group = case_path(c, group, "");
  crn_status st = g->group ? crn_h5_members(c->f, g->group, &g->names, &g->n, &err) : crn_err_memory(&err);
  if (st == CRN_OK && !(g->values = crn_calloc(g->n + 1, sizeof *g->values))) st = crn_err_memory(&err);
  for (size_t i = 0; st == CRN_OK && i < g->n; i++) {
    char *path = case_path(c, group, g->names[i]);
    st = path ? array_read(c->f, path, &g->values[i], &err) : crn_err_memory(&err);
    crn_free(path);
    if (st == CRN_OK) g->scale = fmax(g->scale, array_scale(&g->values[i], NULL));
  }
  if (st != CRN_OK) rep_status(c->r, "reading", &err);
  return st == CRN_OK;
}

static const array *find_array(const named_arrays *g, const char *name) {
  for (size_t i = 0; i < g->n; i++) {
    char *plain = plain_name(g->names[i]);
    const bool same = plain && strcmp(plain, name) == 0;
    crn_free(plain);
    if (same) return &g->values[i];
  }
  return NULL;
}

/* Names in the group that are no parameters of the network. */
static void report_unknown(case_run *c, const named_arrays *g, const char *what) {
  for (size_t i = 0; i < g->n; i++) {
    char *name = plain_name(g->names[i]);
    if (name && !crn_store_find(c->store, name))
      rep_fail(c->r, "%s of '%s': the network has no such parameter", what, name);
    crn_free(name);
  }
}

static bool all_zero(const crn_tensor *t) {
  for (int64_t i = 0; i < crn_t_size(t); i++)
    if (crn_t_get(t, i) != 0) return false;
  return true;
}

/* Header over memory of ours with the shape of a parameter, for comparing. */
static crn_tensor param_view(const crn_param *p, crn_storage *st) {
  crn_tensor t = {.st = st, .dtype = p->dtype, .rank = p->spec.rank};
  memcpy(t.shape, p->spec.shape, sizeof t.shape);
  return t;
}

/* Recorded gradient against none of ours: fine when it is all zero. */
static void compare_none(case_run *c, const char *what, const array *want) {
  const double largest = array_scale(want, NULL);
  if (largest > 0) rep_fail(c->r, "%s is missing (values up to %.3g)", what, largest);
}

static bool compare_gradient(case_run *c, crn_param *p, const named_arrays *g) {
  crn_err err = {0};
  char what[400];
  snprintf(what, sizeof what, "gradient of '%s'", p->path);
  union {
    const void *c;
    void *m;
  } data = {.c = crn_exec_grad(c->exec, p, &err)};
  if (err.code != CRN_OK) {
    rep_status(c->r, what, &err);
    return false;
  }
  const array *want = find_array(g, p->path);
  crn_storage st = {.data = data.m};
  const crn_tensor got = param_view(p, &st);
  if (!want && data.c && !all_zero(&got))
    rep_fail(c->r, "%s: the original has none, ours is not zero", what);
  else if (want && !data.c)
    compare_none(c, what, want);
  else if (want)
    (void)array_compare(c->r, what, want, NULL, &got, (tolerance){.relative = 3e-4, .absolute = 1e-6 * g->scale});
  return true;
}

void compare_gradients(case_run *c) {
  crn_err err = {0};
  named_arrays g;
  if (read_group(c, "grads", &g)) {
    report_unknown(c, &g, "gradient");
    if (crn_exec_backward(c->exec, &err) != CRN_OK)
      rep_status(c->r, "computing gradients", &err);
    else
      for (int i = 0; i < c->net->n_params && compare_gradient(c, c->net->params[i], &g); i++) {
      }
  }
  named_arrays_free(&g);
}

void compare_post_params(case_run *c) {
  crn_err err = {0};
  named_arrays g;
  if (read_group(c, "post_params", &g)) {
    report_unknown(c, &g, "value after the step");
    for (int i = 0; i < c->net->n_params; i++) {
      crn_param *p = c->net->params[i];
      const array *want = find_array(&g, p->path);
      array before = {0};
      char what[400], path[512];
      snprintf(what, sizeof what, "'%s' after the step", p->path);
      if (!want) { /* not listed: must not have changed */
        snprintf(path, sizeof path, "params/%s", p->path);
        for (char *s = path + 7; *s; s++)
          if (*s == '/') *s = '|';
        if (array_read(c->f, path, &before, NULL) != CRN_OK) continue;
      }
      if (crn_weight_unpack(&p->st, &err) != CRN_OK) rep_status(c->r, what, &err);
      const crn_tensor got = param_view(p, &p->st);
      (void)array_compare(c->r, what, want ? want : &before, NULL, &got,
                          want ? (tolerance){.relative = c->tol, .absolute = 1e-6 * g.scale} : (tolerance){0, 0});
      array_free(&before);
    }
  }
  named_arrays_free(&g);
}
