/* SPDX-License-Identifier: Apache-2.0
 *
 * Epoch-wise filters (see epoch_filter.h).
 */
#include "data/epoch_filter.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry { /* of the dict */
  int64_t first, last; /* -1: no end */
  const crn_value *options;
} entry;

typedef struct ranked {
  int64_t len, pos, seq;
} ranked;

static int by_epochs(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->last < y->last ? -1 : x->last > y->last;
}

static int by_length(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->len != y->len) return x->len < y->len ? -1 : 1;
  return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int by_position(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  return x->pos < y->pos ? -1 : x->pos > y->pos;
}

/* How many of the shortest have a mean of about m. simple: the older rule, where any mean up to m ends the search. */
static int64_t count_for_mean(const ranked *r, int64_t n, double m, bool simple) {
  int64_t low = 1, high = n + 1;
  while (low < high) {
    int64_t mid = (low + high) / 2;
    double sum = 0;
    for (int64_t i = 0; i < mid && i < n; i++) sum += (double)r[i].len;
    double mean = sum / (double)(mid < n ? mid : n);
    if (mean > m)
      high = mid;
    else if (simple || mean == m)
      return mid;
    else
      low = mid + 1;
  }
  return low;
}

static crn_status keep_short(crn_dataset *ds, double m, bool simple, crn_err *err) {
  int64_t n = ds->n_order;
  ranked *r = crn_malloc((size_t)(n + 1) * sizeof *r);
  if (!r) return crn_err_memory(err);
  crn_status code = CRN_OK;
  for (int64_t i = 0; i < n && code == CRN_OK; i++) {
    r[i] = (ranked){.pos = i, .seq = ds->order[i]};
    code = ds->cls->order_length(ds, ds->order[i], &r[i].len, err);
  }
  if (code == CRN_OK && n) {
    qsort(r, (size_t)n, sizeof *r, by_length);
    int64_t kept = count_for_mean(r, n, m, simple);
    if (kept > n) kept = n;
    if (!simple) qsort(r, (size_t)kept, sizeof *r, by_position);
    for (int64_t i = 0; i < kept; i++) ds->order[i] = r[i].seq;
    ds->n_order = kept;
  }
  crn_free(r);
  return code;
}

static void keep_subdirs(crn_dataset *ds, const crn_value *subdirs, const char *(*subdir_of)(crn_dataset *, int64_t)) {
  int64_t kept = 0;
  for (int64_t i = 0; i < ds->n_order; i++) {
    const char *own = subdir_of(ds, ds->order[i]);
    bool keep = false;
    for (size_t j = 0; j < crn_v_len(subdirs); j++) {
      const char *s = crn_v_cstr(crn_v_at(subdirs, j));
      keep = keep || (s && !strcmp(s, own));
    }
    if (keep) ds->order[kept++] = ds->order[i];
  }
  ds->n_order = kept;
}

static crn_status apply(crn_dataset *ds, const crn_value *options, const char *(*subdir_of)(crn_dataset *, int64_t),
                        crn_err *err) {
  double m;
  for (size_t i = 0; i < crn_v_len(options); i++) {
    const char *name = crn_v_cstr(options->u.dict.keys[i]);
    bool known = name && (!strcmp(name, "max_mean_len") ||
                          (subdir_of && (!strcmp(name, "subdirs") || !strcmp(name, "use_new_filter"))));
    if (!known)
      return crn_dataset_fail(ds, err, CRN_E_CONFIG, "epoch_wise_filter: unknown option '%s'", name ? name : "?");
  }
  const crn_value *subdirs = crn_v_get(options, "subdirs"), *mean = crn_v_get(options, "max_mean_len");
  if (!crn_v_is_none(subdirs)) keep_subdirs(ds, subdirs, subdir_of);
  if (crn_v_is_none(mean) || !crn_v_truth(mean)) return CRN_OK;
  if (!crn_v_to_float(mean, &m))
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "epoch_wise_filter: 'max_mean_len' must be a number");
  bool simple = subdir_of && !crn_v_truth(crn_v_get(options, "use_new_filter"));
  return keep_short(ds, m, simple, err);
}

crn_status crn_epoch_filter(crn_dataset *ds, const crn_value *filter,
                            const char *(*subdir_of)(crn_dataset *ds, int64_t seq), crn_err *err) {
  if (crn_v_is_none(filter)) return CRN_OK;
  if (!crn_v_is_dict(filter)) return crn_dataset_fail(ds, err, CRN_E_CONFIG, "epoch_wise_filter: expected a dict");
  size_t n = crn_v_len(filter);
  entry *entries = crn_calloc(n + 1, sizeof *entries);
  if (!entries) return crn_err_memory(err);
  crn_status code = CRN_OK;
  for (size_t i = 0; i < n && code == CRN_OK; i++) {
    const crn_value *key = filter->u.dict.keys[i], *first = crn_v_at(key, 0), *last = crn_v_at(key, 1);
    entries[i] = (entry){.first = 1, .last = -1, .options = filter->u.dict.vals[i]};
    bool ok = crn_v_len(key) == 2 && crn_v_is_dict(entries[i].options);
    ok = ok && (crn_v_is_none(first) || crn_v_to_int(first, &entries[i].first));
    ok = ok && (crn_v_is_none(last) || crn_v_to_int(last, &entries[i].last));
    if (!ok) code = crn_dataset_fail(ds, err, CRN_E_CONFIG, "epoch_wise_filter: expected (first, last): options");
  }
  if (n) qsort(entries, n, sizeof *entries, by_epochs);
  for (size_t i = 0; i < n && code == CRN_OK; i++)
    if (ds->epoch >= entries[i].first && (entries[i].last < 0 || ds->epoch <= entries[i].last))
      code = apply(ds, entries[i].options, subdir_of, err);
  crn_free(entries);
  return code;
}
