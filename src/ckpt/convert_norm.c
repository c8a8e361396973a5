/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norm's four variables between its param_versions. Below …/batch_norm/:
 *   version 0: LAYER_OUTPUT_mean   [1,…,F,…,1]     version 1: mean  [1,…,F,…,1]     version 2: v2_mean  [F]
 * The prefix of version 0 depends on the layer's sources, so it is recognised by the ending alone.
 */
#include "ckpt/convert_internal.h"

#include <string.h>

static const char *const statistics[] = {"mean", "variance", "gamma", "beta"};

/* The name's part behind its last "batch_norm/" scope; NULL: it is in no such scope. */
static const char *inside_batch_norm(const char *name) {
  const char *slash = strrchr(name, '/');
  static const char scope[] = "batch_norm";
  size_t n = sizeof scope - 1;
  if (!slash || (size_t)(slash - name) < n || strncmp(slash - n, scope, n) != 0) return NULL;
  return slash - n == name || slash[-(long)n - 1] == '/' ? slash + 1 : NULL;
}

/* Which statistic, by number; -1: none. *version: 0, 1 or 2. */
static int which_statistic(const char *rest, int *version) {
  for (int i = 0; i < 4; i++) {
    if (!crn_ends_with(rest, statistics[i])) continue;
    size_t before = strlen(rest) - strlen(statistics[i]);
    if (before == 0) return *version = 1, i;
    if (rest[before - 1] != '_') continue;
    *version = before == 3 && rest[0] == 'v' && rest[1] == '2' ? 2 : 0;
    return i;
  }
  return -1;
}

static bool is_vector_with_ones(int rank, const int64_t *shape) {
  int others = 0;
  for (int i = 0; i < rank; i++) others += shape[i] != 1;
  return others <= 1;
}

/* The entry with the same statistic, newest version first; *n_found counts those of its version. */
static const crn_bundle_entry *find_other(const crn_convert_search *s, const char *scope, int statistic, int *version,
                                          int *n_found) {
  size_t n;
  const crn_bundle_entry *best = NULL, *e = crn_bundle_find_prefix(s->bundle, scope, &n);
  *version = -1;
  *n_found = 0;
  for (size_t i = 0; i < n; i++, e++) {
    int v;
    const char *rest = e->name + strlen(scope);
    if (strchr(rest, '/') || which_statistic(rest, &v) != statistic || v < *version) continue;
    *n_found = v > *version ? 1 : *n_found + 1;
    *version = v;
    best = e;
  }
  return best;
}

crn_status crn_convert_rule_batch_norm(const crn_convert_search *s, crn_conversion **out) {
  const char *rest = inside_batch_norm(s->want->name);
  int want_version, file_version, n_found, statistic = rest ? which_statistic(rest, &want_version) : -1;
  if (statistic < 0) return CRN_OK;
  char *scope = crn_arena_strndup(s->arena, s->want->name, (size_t)(rest - s->want->name));
  if (!scope) return crn_err_memory(s->err);
  const crn_bundle_entry *e = find_other(s, scope, statistic, &file_version, &n_found);
  if (!e) return CRN_OK;
  if (n_found > 1)
    return crn_fail(s->err, CRN_E_FORMAT,
                    "variable '%s': the file has %d variables of batch norm version 0 that it could be, e.g. '%s'",
                    s->want->name, n_found, e->name);
  int64_t n = 1;
  for (int i = 0; i < s->want->rank; i++) n *= s->want->shape[i];
  if (n != e->n_elements || !is_vector_with_ones(e->rank, e->shape) ||
      !is_vector_with_ones(s->want->rank, s->want->shape) || !crn_tf_convertible(e->dtype, s->want->dtype))
    return crn_convert_fail_shape(s, e, "");
  crn_conversion *c = crn_conversion_new(s);
  if (!c) return crn_err_memory(s->err);
  c->sources[c->n_sources++] = e;
  c->note =
      crn_arena_printf(s->arena, "taken from '%s' (batch norm version %d for %d)", e->name, file_version, want_version);
  if (!c->note) return crn_err_memory(s->err);
  *out = c;
  return CRN_OK;
}
