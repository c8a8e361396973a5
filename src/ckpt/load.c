/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading in three passes: find out for every wanted variable where it comes from; stop with a report if something is
 * missing; read. So a failure of the first two leaves the network as it was.
 */
#include "ckpt/load.h"

#include "base/map.h"
#include "ckpt/load_report.h"

#include <string.h>

typedef struct loader {
  const crn_bundle *bundle;
  crn_load_want *wants;
  size_t n;
  const crn_load_opts *opts;
  crn_arena arena;
  crn_map wanted_in_file;       /* names in the file's spelling; value: the want */
  const char **in_file;         /* per want; NULL: excluded */
  crn_conversion **conversions; /* per want; NULL: missing or excluded */
  bool *custom_done;            /* per want: filled by custom_missing */
  crn_load_stats stats;
  crn_err *err;
} loader;

/* name without any occurrence of part. */
static char *without(crn_arena *a, const char *name, const char *part) {
  size_t n = strlen(part), length = 0;
  char *out = crn_arena_alloc(a, strlen(name) + 1);
  if (!out) return NULL;
  while (*name) {
    if (n && strncmp(name, part, n) == 0)
      name += n;
    else
      out[length++] = *name++;
  }
  out[length] = 0;
  return out;
}

static bool is_ignored(const crn_load_opts *o, const char *name) {
  for (size_t i = 0; i < o->n_ignore_params; i++)
    if (strcmp(name, o->ignore_params[i]) == 0) return true;
  for (size_t i = 0; i < o->n_ignore_params_prefixes; i++)
    if (crn_starts_with(name, o->ignore_params_prefixes[i])) return true;
  return false;
}

static const char *mapped_name(const crn_load_opts *o, const char *name) {
  for (size_t i = 0; i < o->n_var_name_mapping; i++)
    if (strcmp(o->var_name_mapping[i].name, name) == 0) return o->var_name_mapping[i].in_file;
  return NULL;
}

/* The want's name in the file; *out = NULL: not to be loaded. */
static crn_status name_in_file(loader *l, const crn_load_want *w, const char **out) {
  const crn_load_opts *o = l->opts;
  const char *name = w->var.name;
  *out = NULL;
  if (w->skip) return CRN_OK;
  if (o->params_prefix) {
    if (!crn_starts_with(name, o->params_prefix)) return CRN_OK;
    name += strlen(o->params_prefix);
  }
  if (o->load_if_prefix && o->load_if_prefix[0]) {
    if (!strstr(name, o->load_if_prefix)) return CRN_OK;
    name = without(&l->arena, name, o->load_if_prefix);
    if (!name) return crn_err_memory(l->err);
  }
  if (is_ignored(o, name)) return CRN_OK;
  if (!crn_bundle_find(l->bundle, name)) {
    const char *mapped = mapped_name(o, name);
    if (!mapped) mapped = mapped_name(o, w->var.name);
    if (mapped) name = mapped;
  }
  *out = name;
  return CRN_OK;
}

static bool is_wanted(void *user, const char *name) { return crn_map_has(&((loader *)user)->wanted_in_file, name); }

static crn_status find_names(loader *l) {
  for (size_t i = 0; i < l->n; i++) {
    l->wants[i].result = CRN_LOAD_NOT_TRIED;
    CRN_TRY(name_in_file(l, &l->wants[i], &l->in_file[i]));
    if (!l->in_file[i]) {
      l->stats.n_excluded++;
      continue;
    }
    if (crn_map_set(&l->wanted_in_file, l->in_file[i], &l->wants[i]) != CRN_OK) return crn_err_memory(l->err);
  }
  return CRN_OK;
}

static crn_status find_sources(loader *l) {
  crn_convert_opts convert = crn_convert_defaults();
  convert.is_wanted = is_wanted;
  convert.user = l;
  convert.keep_function = l->opts->keep_function;
  for (size_t i = 0; i < l->n; i++) {
    if (!l->in_file[i]) continue;
    crn_ckpt_var *var = CRN_ARENA_NEW(&l->arena, crn_ckpt_var);
    if (!var) return crn_err_memory(l->err);
    *var = l->wants[i].var;
    var->name = l->in_file[i];
    CRN_TRY(crn_convert_find(l->bundle, var, &convert, &l->arena, &l->conversions[i], l->err));
    if (!l->conversions[i]) l->stats.n_missing++;
  }
  return CRN_OK;
}

/* Let the config's function have a try at what is missing. */
static crn_status try_custom(loader *l) {
  for (size_t i = 0; l->opts->custom_missing && i < l->n; i++) {
    if (!l->in_file[i] || l->conversions[i]) continue;
    CRN_TRY(l->opts->custom_missing(l->opts->custom_user, l->bundle, &l->wants[i], l->in_file[i], &l->custom_done[i],
                                    l->err));
    if (!l->custom_done[i]) continue;
    l->stats.n_missing--;
    l->stats.n_loaded++;
  }
  return CRN_OK;
}

static crn_status check_missing(loader *l) {
  bool missing = false;
  size_t n_found = l->n - l->stats.n_excluded - l->stats.n_missing, n_tried = l->n - l->stats.n_excluded;
  for (size_t i = 0; i < l->n && !missing; i++)
    missing = l->in_file[i] && !l->conversions[i] && !l->custom_done[i] && !l->opts->ignore_missing &&
              !l->wants[i].non_critical;
  bool nothing = n_found == 0 && n_tried > 0;
  bool all_excluded = n_tried == 0 && l->n > 0;
  for (size_t i = 0; i < l->n && all_excluded; i++) all_excluded = !l->wants[i].skip;
  if (nothing && !missing && !l->opts->ignore_missing) return CRN_OK; /* only non-critical ones were wanted */
  if (!missing && !nothing && !all_excluded) return CRN_OK;
  const crn_load_report r = {.bundle = l->bundle,
                             .wants = l->wants,
                             .n = l->n,
                             .in_file = l->in_file,
                             .conversions = l->conversions,
                             .custom_done = l->custom_done,
                             .opts = l->opts,
                             .arena = &l->arena};
  return crn_load_report_missing(&r, l->err);
}

static crn_status read_all(loader *l) {
  for (size_t i = 0; i < l->n; i++) {
    crn_load_want *w = &l->wants[i];
    const crn_conversion *c = l->conversions[i];
    w->result = !l->in_file[i] ? CRN_LOAD_EXCLUDED : l->custom_done[i] ? CRN_LOAD_DONE : CRN_LOAD_MISSING;
    if (!c && w->result == CRN_LOAD_MISSING)
      crn_logf(l->opts->log, 3, "%s: not in the file, keeps its value", w->var.name);
    if (!c) continue;
    w->result = CRN_LOAD_NOT_TRIED;
    CRN_TRY(crn_conversion_run(c, w->dst, l->err));
    w->result = CRN_LOAD_DONE;
    l->stats.n_loaded++;
    if (!crn_conversion_note(c)) continue;
    l->stats.n_converted++;
    crn_logf(l->opts->log, 3, "%s: %s", w->var.name, crn_conversion_note(c));
  }
  return CRN_OK;
}

static crn_status load_all(loader *l) {
  l->in_file = CRN_ARENA_ARRAY(&l->arena, const char *, l->n);
  l->conversions = CRN_ARENA_ARRAY(&l->arena, crn_conversion *, l->n);
  l->custom_done = CRN_ARENA_ARRAY(&l->arena, bool, l->n);
  if (!l->in_file || !l->conversions || !l->custom_done) return crn_err_memory(l->err);
  CRN_TRY(find_names(l));
  CRN_TRY(find_sources(l));
  CRN_TRY(try_custom(l));
  CRN_TRY(check_missing(l));
  return read_all(l);
}

crn_status crn_load_variables(const crn_bundle *b, crn_load_want *wants, size_t n, const crn_load_opts *opts,
                              crn_load_stats *stats, crn_err *err) {
  const crn_load_opts defaults = {0};
  loader l = {.bundle = b, .wants = wants, .n = n, .opts = opts ? opts : &defaults, .err = err};
  crn_status status = load_all(&l);
  if (status != CRN_OK) crn_err_where(err, "%s", crn_bundle_prefix(b));
  if (stats) *stats = l.stats;
  crn_map_free(&l.wanted_in_file);
  crn_arena_free(&l.arena);
  return status;
}
