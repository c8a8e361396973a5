/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequences of an epoch: ordering, then unique tags, then the part of partition_epoch, then repetition, then the
 * filter file; or a list given by the caller, which is taken as it is.
 */
#include <string.h>

#include "data/dataset_class.h"
#include "data/textfile.h"

crn_seed_rule crn_dataset_seed_rule(const crn_dataset *ds) {
  return (crn_seed_rule){.fixed = ds->fixed_random_seed != CRN_DATA_NONE,
                         .fixed_seed = ds->fixed_random_seed,
                         .seed_offset = ds->random_seed_offset,
                         .partition_epoch = ds->partition_epoch};
}

uint32_t crn_dataset_epoch_seed(const crn_dataset *ds) {
  crn_seed_rule rule = crn_dataset_seed_rule(ds);
  return crn_epoch_seed(&rule, ds->epoch, 1);
}

int64_t crn_dataset_epoch(const crn_dataset *ds) { return ds->epoch; }

bool crn_dataset_order_is_fixed(const crn_dataset *ds) {
  const char *text = ds->forced_order ? ds->forced_order : ds->seq_ordering ? crn_v_cstr(ds->seq_ordering) : "default";
  crn_order o;
  if (!text || ds->partition_epoch > 1 || ds->cls->make_order || crn_order_parse(text, &o, NULL) != CRN_OK)
    return false;
  return ds->fixed_random_seed != CRN_DATA_NONE || !crn_order_is_random(&o);
}

/* ---- tags ---- */

static void *as_value(int64_t i) { return (void *)(intptr_t)(i + 1); } /* NULL means absent */

static crn_status make_tag_index(crn_dataset *ds, crn_err *err) {
  if (ds->tag_index_made) return CRN_OK;
  int64_t n = ds->cls->corpus_size(ds);
  if (n < 0 || n == INT64_MAX)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "its tags aren't known before they are read");
  for (int64_t i = 0; i < n; i++) {
    const char *tag;
    CRN_TRY(ds->cls->tag(ds, i, &tag, err));
    if (!crn_map_has(&ds->tag_index, tag)) CRN_TRY(crn_map_set(&ds->tag_index, tag, as_value(i)));
  }
  ds->tag_index_made = true;
  return CRN_OK;
}

crn_status crn_dataset_find_tag(crn_dataset *ds, const char *tag, int64_t *seq, crn_err *err) {
  CRN_TRY(make_tag_index(ds, err));
  *seq = (int64_t)(intptr_t)crn_map_get(&ds->tag_index, tag) - 1;
  return CRN_OK;
}

static crn_status order_by_list(crn_dataset *ds, const crn_seq_list *list, crn_err *err) {
  int64_t n = ds->cls->corpus_size(ds);
  ds->order = crn_malloc((list->n ? list->n : 1) * sizeof *ds->order);
  if (!ds->order) return crn_err_memory(err);
  for (size_t i = 0; i < list->n; i++) {
    int64_t seq = -1;
    if (list->tags)
      CRN_TRY(crn_dataset_find_tag(ds, list->tags[i], &seq, err));
    else
      seq = list->indices[i];
    if (seq < 0 && list->tags)
      return crn_dataset_fail(ds, err, CRN_E_DATA, "it has no sequence with tag '%s'", list->tags[i]);
    if (seq < 0 || (n >= 0 && seq >= n))
      return crn_dataset_fail(ds, err, CRN_E_DATA, "sequence %lld was asked for, it has %lld", (long long)seq,
                              (long long)n);
    ds->order[i] = seq;
  }
  ds->n_order = (int64_t)list->n;
  return CRN_OK;
}

/* ---- lengths for ordering ---- */

static crn_status read_order_lens(crn_dataset *ds, crn_err *err) {
  if (ds->order_lens_read) return CRN_OK;
  crn_arena scratch = {0};
  crn_value *dict = NULL;
  const char *path = crn_dataset_path(ds, ds->seq_order_seq_lens_file);
  crn_status code = path ? crn_text_literal(&scratch, path, &dict, err) : crn_err_memory(err);
  if (code == CRN_OK && !crn_v_is_dict(dict)) code = crn_fail(err, CRN_E_FORMAT, "%s: expected a dict", path);
  for (size_t i = 0; code == CRN_OK && i < crn_v_len(dict); i++) {
    const char *tag = crn_v_cstr(dict->u.dict.keys[i]);
    int64_t len;
    if (!tag || !crn_v_to_int(dict->u.dict.vals[i], &len) || len < 0)
      code = crn_fail(err, CRN_E_FORMAT, "%s: entry %zu: expected tag: length", path, i + 1);
    else
      code = crn_map_set(&ds->order_lens, tag, as_value(len));
  }
  crn_arena_free(&scratch);
  ds->order_lens_read = code == CRN_OK;
  return code;
}

static crn_status length_for_order(crn_dataset *ds, int64_t seq, int64_t *len, crn_err *err) {
  if (!ds->seq_order_seq_lens_file) return ds->cls->order_length(ds, seq, len, err);
  const char *tag;
  CRN_TRY(ds->cls->tag(ds, seq, &tag, err));
  *len = (int64_t)(intptr_t)crn_map_get(&ds->order_lens, tag) - 1;
  if (*len >= 0) return CRN_OK;
  return crn_dataset_fail(ds, err, CRN_E_DATA, "%s has no length for '%s'", ds->seq_order_seq_lens_file, tag);
}

static crn_status all_lengths(crn_dataset *ds, int64_t n, int64_t **lens, crn_err *err) {
  if (ds->seq_order_seq_lens_file)
    CRN_TRY(read_order_lens(ds, err));
  else if (!ds->cls->order_length)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "this class can't be ordered by length");
  *lens = crn_malloc((size_t)(n ? n : 1) * sizeof **lens);
  if (!*lens) return crn_err_memory(err);
  for (int64_t i = 0; i < n; i++) {
    crn_status code = length_for_order(ds, i, &(*lens)[i], err);
    if (code != CRN_OK) {
      crn_free(*lens);
      *lens = NULL;
      return code;
    }
  }
  return CRN_OK;
}

/* ---- the steps ---- */

/* The order's text: what was forced, the option, or what the option's function returns for this epoch. */
static crn_status order_of_epoch(crn_dataset *ds, crn_order *o, crn_err *err) {
  const char *text = ds->forced_order;
  crn_arena scratch = {0};
  crn_status code = CRN_OK;
  if (!text && ds->seq_ordering && ds->seq_ordering->kind == CRN_V_CALLABLE) {
    crn_value *epoch = crn_v_int(&scratch, ds->epoch), *result = NULL;
    if (!ds->env.call)
      code = crn_dataset_fail(ds, err, CRN_E_NOT_IMPLEMENTED, "seq_ordering: not implemented: functions here");
    else
      code = ds->env.call(ds->env.host, ds->seq_ordering, (const crn_value *const *)&epoch, 1, &scratch, &result, err);
    text = crn_v_cstr(result);
  } else if (!text) {
    text = ds->seq_ordering ? crn_v_cstr(ds->seq_ordering) : "default";
  }
  if (code == CRN_OK && !text) code = crn_fail(err, CRN_E_CONFIG, "seq_ordering: expected a string");
  if (code == CRN_OK) code = crn_order_parse(text, o, err);
  if (code != CRN_OK) crn_err_where(err, "dataset '%s' (%s)", ds->name, ds->cls->name);
  crn_arena_free(&scratch);
  return code;
}

static crn_status by_options(crn_dataset *ds, crn_err *err) {
  crn_order o;
  CRN_TRY(order_of_epoch(ds, &o, err));
  if (o.kind == CRN_ORDER_SORTED && ds->cls->sorted_is_default) o.kind = CRN_ORDER_DEFAULT;
  int64_t n = ds->cls->corpus_size(ds);
  if (n == INT64_MAX) {
    if (o.kind != CRN_ORDER_DEFAULT || ds->partition_epoch > 1 || ds->repeat_epoch > 1)
      return crn_dataset_fail(ds, err, CRN_E_CONFIG,
                              "without end of the sequences only the order \"default\" is possible");
    if (ds->seq_list_filter_file || ds->unique_seq_tags)
      return crn_dataset_fail(ds, err, CRN_E_CONFIG, "option '%s' is not possible without end of the sequences",
                              ds->seq_list_filter_file ? "seq_list_filter_file" : "unique_seq_tags");
    ds->n_order = n;
    return CRN_OK;
  }
  int64_t *lens = NULL;
  if (crn_order_needs_lengths(&o)) CRN_TRY(all_lengths(ds, n, &lens, err));
  crn_seed_rule rule = crn_dataset_seed_rule(ds);
  crn_status code =
      crn_order_make(&o, n, lens, crn_epoch_seed(&rule, ds->epoch, o.same_epochs), &ds->order, &ds->n_order, err);
  crn_free(lens);
  return code;
}

static crn_status keep_unique(crn_dataset *ds, crn_err *err) {
  crn_map seen = {0};
  int64_t kept = 0;
  crn_status code = CRN_OK;
  for (int64_t i = 0; i < ds->n_order && code == CRN_OK; i++) {
    const char *tag;
    code = ds->cls->tag(ds, ds->order[i], &tag, err);
    if (code != CRN_OK || crn_map_has(&seen, tag)) continue;
    code = crn_map_set(&seen, tag, ds);
    if (code != CRN_OK) crn_err_memory(err);
    ds->order[kept++] = ds->order[i];
  }
  crn_map_free(&seen);
  ds->n_order = kept;
  return code;
}

static crn_status take_part(crn_dataset *ds, crn_err *err) {
  int64_t begin, end;
  crn_order_part(ds->n_order, ds->partition_epoch, ds->epoch, &begin, &end);
  if (begin == end)
    return crn_dataset_fail(ds, err, CRN_E_DATA, "partition_epoch %lld: this part of %lld sequences is empty",
                            (long long)ds->partition_epoch, (long long)ds->n_order);
  memmove(ds->order, ds->order + begin, (size_t)(end - begin) * sizeof *ds->order);
  ds->n_order = end - begin;
  return CRN_OK;
}

static crn_status repeat_order(crn_dataset *ds, crn_err *err) {
  int64_t n = ds->n_order, total;
  if (__builtin_mul_overflow(n, ds->repeat_epoch, &total) || total > INT64_MAX / 8)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "repeat_epoch %lld is too large", (long long)ds->repeat_epoch);
  int64_t *all = crn_realloc(ds->order, (size_t)(total ? total : 1) * sizeof *all);
  if (!all) return crn_err_memory(err);
  ds->order = all;
  for (int64_t i = n; i < total; i++) all[i] = all[i - n];
  ds->n_order = total;
  return CRN_OK;
}

static crn_status read_filter(crn_dataset *ds, crn_err *err) {
  if (ds->filter_read) return CRN_OK;
  crn_arena scratch = {0};
  char **tags = NULL;
  size_t n = 0;
  const char *path = crn_dataset_path(ds, ds->seq_list_filter_file);
  crn_status code = path ? crn_text_tags(&scratch, path, &tags, &n, err) : crn_err_memory(err);
  for (size_t i = 0; i < n && code == CRN_OK; i++) {
    code = crn_map_set(&ds->filter, tags[i], ds);
    if (code != CRN_OK) crn_err_memory(err);
  }
  crn_arena_free(&scratch);
  ds->filter_read = code == CRN_OK;
  return code;
}

static crn_status keep_filtered(crn_dataset *ds, crn_err *err) {
  CRN_TRY(read_filter(ds, err));
  int64_t kept = 0;
  for (int64_t i = 0; i < ds->n_order; i++) {
    const char *tag;
    CRN_TRY(ds->cls->tag(ds, ds->order[i], &tag, err));
    if (crn_map_has(&ds->filter, tag)) ds->order[kept++] = ds->order[i];
  }
  ds->n_order = kept;
  if (kept) return CRN_OK;
  return crn_dataset_fail(ds, err, CRN_E_DATA, "no sequence of this epoch is in seq_list_filter_file %s",
                          ds->seq_list_filter_file);
}

crn_status crn_dataset_common_order(crn_dataset *ds, const crn_seq_list *list, crn_err *err) {
  crn_free(ds->order);
  ds->order = NULL;
  ds->n_order = 0;
  if (list) return order_by_list(ds, list, err);
  CRN_TRY(by_options(ds, err));
  return crn_dataset_after_order(ds, err);
}

crn_status crn_dataset_after_order(crn_dataset *ds, crn_err *err) {
  if (!ds->order) return CRN_OK;
  if (ds->unique_seq_tags) CRN_TRY(keep_unique(ds, err));
  if (ds->partition_epoch > 1) CRN_TRY(take_part(ds, err));
  if (ds->repeat_epoch > 1) CRN_TRY(repeat_order(ds, err));
  if (ds->seq_list_filter_file) CRN_TRY(keep_filtered(ds, err));
  return CRN_OK;
}

crn_status crn_dataset_begin_epoch(crn_dataset *ds, int64_t epoch, const crn_seq_list *list, crn_err *err) {
  ds->epoch = epoch > 0 ? epoch : 1;
  if (ds->cls->on_epoch) CRN_TRY(ds->cls->on_epoch(ds, err));
  return ds->cls->make_order ? ds->cls->make_order(ds, list, err) : crn_dataset_common_order(ds, list, err);
}

crn_status crn_dataset_set_order(crn_dataset *ds, const char *order, crn_err *err) {
  crn_order o;
  CRN_TRY(crn_order_parse(order, &o, err));
  ds->forced_order = crn_arena_strdup(&ds->arena, order);
  return ds->forced_order ? CRN_OK : crn_err_memory(err);
}
