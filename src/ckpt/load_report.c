/* SPDX-License-Identifier: Apache-2.0
 *
 * "It doesn't load" in words that a person can act on. One line says what is wrong; lists follow, cut when long.
 */
#include "ckpt/load_report.h"

#include "base/map.h"
#include "ckpt/convert_internal.h"

#include <string.h>

enum { MAX_LISTED = 30 };

/* Last parts of optimizer variables' names; slots with other names are known by lying below a variable. */
static const char *const slot_names[] = {"Adam", "Momentum", "RMSProp", "Adadelta", "Adagrad", "Ftrl", "Nadam"};

/* part is slot or slot_NUMBER */
static bool is_slot(const char *part, const char *slot) {
  size_t n = strlen(slot);
  if (strncmp(part, slot, n) != 0) return false;
  if (part[n] == 0) return true;
  return part[n] == '_' && part[n + 1] && strspn(part + n + 1, "0123456789") == strlen(part + n + 1);
}

bool crn_load_is_training_state(const crn_bundle *b, const char *name) {
  const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
  if (strcmp(last, "global_step") == 0 || strcmp(last, "learning_rate") == 0) return true;
  if (is_slot(last, "beta1_power") || is_slot(last, "beta2_power")) return true;
  if (!slash) return false;
  for (size_t i = 0; i < sizeof slot_names / sizeof slot_names[0]; i++)
    if (is_slot(last, slot_names[i])) return true;
  /* A variable below another one can only be its slot. */
  char parent[1024];
  size_t n = (size_t)(slash - name);
  if (n >= sizeof parent) return false;
  memcpy(parent, name, n);
  parent[n] = 0;
  return crn_bundle_find(b, parent) != NULL;
}

/* Entries of the file that nothing uses, without training's own. */
static crn_status find_unused(const crn_load_report *r, const crn_bundle_entry ***out, size_t *n_out, crn_err *err) {
  crn_map used = {0};
  crn_status status = CRN_OK;
  for (size_t i = 0; i < r->n && status == CRN_OK; i++) {
    const crn_bundle_entry *const *sources;
    size_t n = r->conversions[i] ? crn_conversion_sources(r->conversions[i], &sources) : 0;
    for (size_t k = 0; k < n && status == CRN_OK; k++) status = crn_map_set(&used, sources[k]->name, (void *)1);
  }
  size_t total = crn_bundle_count(r->bundle), n_unused = 0;
  const crn_bundle_entry **unused = CRN_ARENA_ARRAY(r->arena, const crn_bundle_entry *, total);
  if (!unused || status != CRN_OK) {
    crn_map_free(&used);
    return crn_err_memory(err);
  }
  for (size_t i = 0; i < total; i++) {
    const crn_bundle_entry *e = crn_bundle_at(r->bundle, i);
    if (!crn_map_has(&used, e->name) && !crn_load_is_training_state(r->bundle, e->name)) unused[n_unused++] = e;
  }
  crn_map_free(&used);
  *out = unused;
  *n_out = n_unused;
  return CRN_OK;
}

static bool same_shape(const crn_ckpt_var *v, const crn_bundle_entry *e) {
  if (v->rank != e->rank) return false;
  for (int i = 0; i < v->rank; i++)
    if (v->shape[i] != e->shape[i]) return false;
  return true;
}

static const char *last_part(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash ? slash + 1 : name;
}

/* The unused variable that the wanted one probably is: of those with its shape the nearest name, or the only one with
 * the same last part. NULL: none. */
static const char *likely_rename(const crn_load_report *r, const crn_ckpt_var *v, const char *name,
                                 const crn_bundle_entry *const *unused, size_t n) {
  const char **names = CRN_ARENA_ARRAY(r->arena, const char *, n);
  size_t n_names = 0, n_same_end = 0;
  const char *same_end = NULL;
  for (size_t i = 0; names && i < n; i++) {
    if (!same_shape(v, unused[i])) continue;
    names[n_names++] = unused[i]->name;
    if (strcmp(last_part(unused[i]->name), last_part(name)) != 0) continue;
    same_end = unused[i]->name;
    n_same_end++;
  }
  const char *nearest = names ? crn_nearest(name, names, n_names) : NULL;
  return nearest ? nearest : n_same_end == 1 ? same_end : NULL;
}

static bool is_missing(const crn_load_report *r, size_t i) {
  return r->in_file[i] && !r->conversions[i] && !r->custom_done[i] && !r->wants[i].non_critical;
}

static void list_missing(const crn_load_report *r, size_t n_missing, crn_err *err) {
  crn_str s = {0};
  size_t listed = 0;
  crn_err_append(err, "\nmissing in the file:");
  for (size_t i = 0; i < r->n && listed < MAX_LISTED; i++) {
    if (!is_missing(r, i)) continue;
    const crn_ckpt_var *v = &r->wants[i].var;
    crn_err_append(err, "\n  '%s' %s", v->name, crn_ckpt_var_describe(v, &s));
    if (strcmp(v->name, r->in_file[i]) != 0) crn_err_append(err, " (looked up as '%s')", r->in_file[i]);
    listed++;
  }
  if (n_missing > listed) crn_err_append(err, "\n  … and %zu more", n_missing - listed);
  crn_str_free(&s);
}

static void list_unused(const crn_bundle_entry *const *unused, size_t n, crn_err *err) {
  crn_str s = {0};
  crn_err_append(err, n ? "\nin the file, but not used:" : "\nevery variable of the file is used");
  for (size_t i = 0; i < n && i < MAX_LISTED; i++)
    crn_err_append(err, "\n  '%s' %s", unused[i]->name, crn_bundle_describe(unused[i], &s));
  if (n > MAX_LISTED) crn_err_append(err, "\n  … and %zu more", n - MAX_LISTED);
  crn_str_free(&s);
}

static void list_renames(const crn_load_report *r, const crn_bundle_entry *const *unused, size_t n, crn_err *err) {
  size_t listed = 0;
  for (size_t i = 0; i < r->n && listed < MAX_LISTED; i++) {
    if (!is_missing(r, i)) continue;
    const char *likely = likely_rename(r, &r->wants[i].var, r->in_file[i], unused, n);
    if (!likely) continue;
    if (listed++ == 0) crn_err_append(err, "\nlikely renamed (var_name_mapping can say so):");
    crn_err_append(err, "\n  '%s' is '%s' in the file", r->wants[i].var.name, likely);
  }
}

crn_status crn_load_report_missing(const crn_load_report *r, crn_err *err) {
  size_t n_missing = 0, n_tried = 0, n_found = 0, n_unused = 0;
  const crn_bundle_entry **unused = NULL;
  for (size_t i = 0; i < r->n; i++) {
    n_missing += is_missing(r, i);
    n_tried += r->in_file[i] != NULL;
    n_found += r->conversions[i] != NULL || r->custom_done[i];
  }
  const char *prefix = r->opts->load_if_prefix ? r->opts->load_if_prefix : "";
  if (n_tried == 0)
    return crn_fail(err, CRN_E_CONFIG,
                    "nothing to load: none of the %zu variables of the network (e.g. '%s') has the prefix '%s'%s", r->n,
                    r->wants[0].var.name, prefix[0] || !r->opts->params_prefix ? prefix : r->opts->params_prefix,
                    r->opts->n_ignore_params + r->opts->n_ignore_params_prefixes ? " and isn't ignored" : "");
  CRN_TRY(find_unused(r, &unused, &n_unused, err));
  crn_status status = n_found == 0
                          ? crn_fail(err, CRN_E_FORMAT, "none of the %zu variables to load is in the file", n_tried)
                          : crn_fail(err, CRN_E_FORMAT, "%zu of the %zu variables to load %s not in the file",
                                     n_missing, n_tried, n_missing == 1 ? "is" : "are");
  list_missing(r, n_missing, err);
  list_unused(unused, n_unused, err);
  list_renames(r, unused, n_unused, err);
  return status;
}
