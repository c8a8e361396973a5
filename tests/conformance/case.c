/* SPDX-License-Identifier: Apache-2.0
 *
 * One case: NAME.json (config, modes) and NAME.h5 (parameters, inputs, results), read, built, fed and run in every
 * mode; layers.c and outcome.c compare.
 */
#include <string.h>

#include "base/str.h"
#include "runner.h"

char *plain_name(const char *stored) {
  char *s = crn_strdup(stored);
  for (char *p = s; p && *p; p++)
    if (*p == '|') *p = '/';
  return s;
}

char *case_path(const case_run *c, const char *group, const char *name) {
  crn_str s = {0};
  crn_str_addf(&s, "%s/%s%s", c->mode, group, name[0] ? "/" : "");
  const size_t begin = s.len;
  crn_str_add(&s, name);
  for (size_t i = begin; i < s.len; i++)
    if (s.p[i] == '/') s.p[i] = '|';
  return s.p;
}

/* ---- feeding ---- */

static crn_status feed_key(case_run *c, const char *key, crn_err *err) {
  enum { MAX_LENS = CRN_H5_MAX_RANK };
  char path[512];
  crn_h5_info info;
  void *value = NULL, *lens[MAX_LENS] = {NULL};
  int n_lens = 0;
  crn_dtype dtype = CRN_F32;
  snprintf(path, sizeof path, "inputs/%s/value", key);
  crn_status st = crn_h5_read(c->f, path, CRN_NT_NONE, &value, &info, err);
  if (st == CRN_OK && !crn_dtype_from_name(crn_ntype_name(info.type), &dtype))
    st = crn_fail(err, CRN_E_FORMAT, "'%s': can't feed values of type %s", path, crn_ntype_name(info.type));
  for (int i = 0; st == CRN_OK && i < MAX_LENS; i++) {
    snprintf(path, sizeof path, "inputs/%s/size%d", key, i);
    if (crn_h5_has(c->f, path)) st = crn_h5_read(c->f, path, CRN_NT_I32, &lens[n_lens++], NULL, err);
  }
  if (st == CRN_OK)
    st = crn_exec_feed(c->exec, key, dtype, info.rank, info.shape, value, n_lens, (const int32_t *const *)lens, err);
  for (int i = 0; i < n_lens; i++) crn_free(lens[i]);
  crn_free(value);
  return st;
}

static bool feed(case_run *c) {
  crn_err err = {0};
  char **keys = NULL;
  size_t n = 0;
  crn_status st = crn_h5_members(c->f, "inputs", &keys, &n, &err);
  for (size_t i = 0; st == CRN_OK && i < n; i++)
    if (crn_net_extern(c->net, keys[i])) st = feed_key(c, keys[i], &err);
  crn_free(keys);
  if (st != CRN_OK) rep_status(c->r, "feeding", &err);
  return st == CRN_OK;
}

/* ---- modes ---- */

static bool mode_flags(const char *mode, crn_net_mode *out) {
  static const struct {
    const char *name;
    crn_net_mode flags;
  } modes[] = {{"train", {.train = true, .eval = true}},
               {"eval", {.eval = true}},
               {"search", {.eval = true, .search = true}},
               {"forward", {.eval = false}}};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (strcmp(modes[i].name, mode) != 0) continue;
    *out = modes[i].flags;
    return true;
  }
  return false;
}

/* Values that will be compared stay; all others are dropped as in any other program. */
static void keep_recorded(case_run *c) {
  for (int i = 0; i < c->net->n_layers; i++) {
    const crn_layer *l = c->net->layers[i];
    crn_str name = {0};
    for (const char *p = l->path; *p; p++) crn_str_addc(&name, *p == '/' ? '|' : *p);
    char *path = case_path(c, "layers", crn_str_get(&name));
    if (path && crn_h5_has(c->f, path)) crn_exec_keep(c->exec, l);
    crn_free(path);
    crn_str_free(&name);
  }
}

static bool run_network(case_run *c, bool train) {
  crn_err err = {0};
  const crn_session_opts opts = {.n_threads = 1, .seed = 1};
  if (!train) crn_store_read_only(c->store);
  if (crn_exec_new(c->net, &opts, &c->exec, &err) != CRN_OK) {
    rep_status(c->r, "making a session", &err);
    return false;
  }
  keep_recorded(c);
  crn_exec_begin(c->exec, train, (uint64_t)c->store->global_step);
  if (!feed(c)) return false;
  if (crn_exec_forward(c->exec, &err) == CRN_OK) return true;
  rep_status(c->r, "running", &err);
  return false;
}

static void compare_after_step(case_run *c) {
  char *grads = case_path(c, "grads", ""), *post = case_path(c, "post_params", "");
  if (grads && crn_h5_has(c->f, grads)) compare_gradients(c);
  if (post && crn_h5_has(c->f, post)) {
    crn_exec_apply_assigns(c->exec);
    compare_post_params(c);
  }
  crn_free(grads);
  crn_free(post);
}

static void run_mode(case_run *c, const crn_value *config) {
  crn_err err = {0};
  crn_net_mode flags;
  if (!mode_flags(c->mode, &flags)) {
    rep_fail(c->r, "unknown mode '%s'", c->mode);
    return;
  }
  if (!crn_h5_has(c->f, c->mode)) {
    rep_fail(c->r, "no results of this mode in the file");
    return;
  }
  c->store = crn_store_new(CRN_F32);
  if (!c->store)
    rep_fail(c->r, "no memory");
  else if (crn_net_build(config, flags, c->store, NULL, &c->net, &err) != CRN_OK)
    rep_status(c->r, "building", &err);
  else {
    compare_parameter_lists(c);
    if (set_parameters(c) && run_network(c, flags.train)) {
      compare_layers(c);
      compare_losses(c);
      compare_after_step(c);
    }
  }
  crn_exec_free(c->exec);
  crn_net_free(c->net);
  crn_store_free(c->store);
}

static void run_modes(report *r, const crn_value *root, crn_h5 *f) {
  const crn_value *config = crn_v_get(root, "config"), *modes = crn_v_get(root, "modes");
  double tol = 1e-4;
  (void)crn_v_to_float(crn_v_get(root, "tol"), &tol);
  if (!crn_v_is_dict(config) || !crn_v_len(modes)) rep_fail(r, "no config or no modes in the .json file");
  for (size_t i = 0; crn_v_is_dict(config) && i < crn_v_len(modes); i++) {
    const char *mode = crn_v_cstr(crn_v_at(modes, i));
    case_run c = {.r = r, .f = f, .mode = mode ? mode : "", .tol = tol};
    rep_part(r, c.mode);
    run_mode(&c, config);
  }
}

void run_case(report *r, const void *case_job_arg) {
  const case_job *job = case_job_arg;
  crn_arena arena = {0};
  crn_err err = {0};
  crn_value *root = NULL;
  crn_h5 *f = NULL;
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.json", job->folder, job->name);
  crn_status st = crn_v_read_json(&arena, path, &root, &err);
  snprintf(path, sizeof path, "%s/%s.h5", job->folder, job->name);
  if (st == CRN_OK) st = crn_h5_open(path, &f, &err);
  if (st == CRN_OK)
    run_modes(r, root, f);
  else
    rep_status(r, "reading", &err);
  if (f && crn_h5_close(f, &err) != CRN_OK) rep_status(r, "closing", &err);
  crn_arena_free(&arena);
}
