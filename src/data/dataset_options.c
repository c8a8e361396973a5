/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of datasets: the table of those that all classes have, and filling an instance from the tables.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset_class.h"

#define OFF(field) offsetof(struct crn_dataset, field)

static const crn_data_opt common_options[] = {
    {"name", CRN_DOPT_STR, OFF(name), "None", 0, "name in messages and logs"},
    {"seq_ordering", CRN_DOPT_VALUE, OFF(seq_ordering), "None", 0,
     "order of the sequences in an epoch, as \"random\" or \"laplace:.300\"; a function of the epoch gives the text"},
    {"partition_epoch", CRN_DOPT_INT, OFF(partition_epoch), "1", 1, "parts of the data, one per epoch"},
    {"repeat_epoch", CRN_DOPT_INT, OFF(repeat_epoch), "1", 1, "how often the data are repeated in an epoch"},
    {"fixed_random_seed", CRN_DOPT_INT, OFF(fixed_random_seed), "None", 0, "the same seed in all epochs"},
    {"random_seed_offset", CRN_DOPT_INT, OFF(random_seed_offset), "None", 0, "added to the epoch's seed"},
    {"seq_list_filter_file", CRN_DOPT_STR, OFF(seq_list_filter_file), "None", 0, "file of the tags to keep"},
    {"unique_seq_tags", CRN_DOPT_BOOL, OFF(unique_seq_tags), "False", 0, "keep the first sequence of each tag only"},
    {"seq_order_seq_lens_file", CRN_DOPT_STR, OFF(seq_order_seq_lens_file), "None", 0,
     "file with a dict tag: length that replaces the own lengths for ordering"},
    {"estimated_num_seqs", CRN_DOPT_INT, OFF(estimated_num_seqs), "None", 0, "number of sequences, for progress only"},
    {"shuffle_frames_of_nseqs", CRN_DOPT_INT, OFF(shuffle_frames_of_nseqs), "0", 0, "not supported, must be 0"},
    {"window", CRN_DOPT_INT, OFF(window), "1", 1, "frames around each frame that are joined into it"},
    {"context_window", CRN_DOPT_VALUE, OFF(context_window), "None", 0, "extra frames around each chunk"},
    {"chunking", CRN_DOPT_VALUE, OFF(chunking), "None", 0, "cut sequences into chunks, as \"50:25\" (size:step)"},
    {"min_chunk_size", CRN_DOPT_VALUE, OFF(min_chunk_size), "None", 0, "later chunks need more frames than this"},
    {"chunking_variance", CRN_DOPT_FLOAT, OFF(chunking_variance), "0", 0, "random shortening of chunks, 0 to 1"},
    {0}};

const crn_data_opt *crn_dataset_common_options(void) { return common_options; }

/* ---- storing ---- */

static crn_status wrong_type(const crn_data_opt *o, const char *wanted, const crn_value *v, crn_err *err) {
  crn_str s = {0};
  crn_v_repr(v, &s, 60);
  crn_fail(err, CRN_E_CONFIG, "option '%s': expected %s, got %s", o->name, wanted, crn_str_get(&s));
  crn_str_free(&s);
  return CRN_E_CONFIG;
}

static crn_status store(crn_dataset *ds, const crn_data_opt *o, const crn_value *v, crn_err *err) {
  void *at = (char *)ds + o->offset;
  bool none = crn_v_is_none(v);
  bool number = o->type == CRN_DOPT_BOOL || o->type == CRN_DOPT_INT || o->type == CRN_DOPT_FLOAT;
  if (none && ((!o->def && o->type != CRN_DOPT_VALUE) || (number && (!o->def || strcmp(o->def, "None") != 0))))
    return wrong_type(o, number ? "a number" : "a value", v, err);
  switch (o->type) {
  case CRN_DOPT_BOOL:
    if (!crn_v_is_number(v)) return wrong_type(o, "True or False", v, err);
    *(bool *)at = crn_v_truth(v);
    return CRN_OK;
  case CRN_DOPT_INT: {
    int64_t i = CRN_DATA_NONE;
    if (!none && !crn_v_to_int(v, &i)) return wrong_type(o, "an integer", v, err);
    if (!none && i < o->min)
      return crn_fail(err, CRN_E_CONFIG, "option '%s': expected an integer >= %lld, got %lld", o->name,
                      (long long)o->min, (long long)i);
    *(int64_t *)at = i;
    return CRN_OK;
  }
  case CRN_DOPT_FLOAT: {
    double f = (double)NAN;
    if (!none && !crn_v_to_float(v, &f)) return wrong_type(o, "a number", v, err);
    *(double *)at = f;
    return CRN_OK;
  }
  case CRN_DOPT_STR: {
    if (!none && !crn_v_is_str(v)) return wrong_type(o, "a string", v, err);
    const char *text = none ? NULL : crn_arena_strdup(&ds->arena, crn_v_cstr(v));
    if (!none && !text) return crn_err_memory(err);
    *(const char **)at = text;
    return CRN_OK;
  }
  default: {
    crn_value *copy = none ? NULL : crn_v_copy(&ds->arena, v);
    if (!none && !copy) return crn_err_memory(err);
    *(const crn_value **)at = copy;
    return CRN_OK;
  }
  }
}

/* The default of a row, which is text of our own. */
static void store_default(crn_dataset *ds, const crn_data_opt *o) {
  void *at = (char *)ds + o->offset;
  bool none = !o->def || !strcmp(o->def, "None");
  switch (o->type) {
  case CRN_DOPT_BOOL:
    *(bool *)at = !none && !strcmp(o->def, "True");
    break;
  case CRN_DOPT_INT:
    *(int64_t *)at = none ? CRN_DATA_NONE : strtoll(o->def, NULL, 10);
    break;
  case CRN_DOPT_FLOAT:
    *(double *)at = none ? (double)NAN : strtod(o->def, NULL);
    break;
  case CRN_DOPT_STR:
    *(const char **)at = none ? NULL : o->def;
    break;
  default:
    *(const crn_value **)at = NULL;
    break;
  }
}

/* ---- names ---- */

static const crn_data_opt *find_row(const crn_data_opt *table, const char *name) {
  for (; table && table->name; table++)
    if (!strcmp(table->name, name)) return table;
  return NULL;
}

static crn_status unknown_option(const crn_dataset *ds, const char *name, crn_err *err) {
  const char *names[128];
  size_t n = 0;
  const crn_data_opt *tables[2] = {ds->cls->opts, common_options};
  crn_str all = {0};
  for (int t = 0; t < 2; t++)
    for (const crn_data_opt *o = tables[t]; o && o->name && n < 128; o++) {
      names[n++] = o->name;
      crn_str_addf(&all, "%s%s", n > 1 ? ", " : "", o->name);
    }
  const char *near = crn_nearest(name, names, n);
  crn_fail(err, CRN_E_CONFIG, "unknown option '%s'%s%s%s; known are %s", name, near ? ", did you mean '" : "",
           near ? near : "", near ? "'?" : "", crn_str_get(&all));
  crn_str_free(&all);
  return CRN_E_CONFIG;
}

static crn_status read_table(crn_dataset *ds, const crn_data_opt *table, const crn_value *options, crn_err *err) {
  for (const crn_data_opt *o = table; o && o->name; o++) {
    const crn_value *v = crn_v_get(options, o->name);
    store_default(ds, o);
    if (v)
      CRN_TRY(store(ds, o, v, err));
    else if (!o->def)
      return crn_fail(err, CRN_E_CONFIG, "option '%s' is required (%s)", o->name, o->doc);
  }
  return CRN_OK;
}

static crn_status check_common(crn_dataset *ds, crn_err *err) {
  if (ds->shuffle_frames_of_nseqs)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'shuffle_frames_of_nseqs' other than 0");
  if (ds->window > 1) return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'window' other than 1");
  if (ds->partition_epoch > 1 && ds->repeat_epoch > 1)
    return crn_fail(err, CRN_E_CONFIG, "options 'partition_epoch' and 'repeat_epoch' can't be used together");
  if (!(ds->chunking_variance >= 0 && ds->chunking_variance <= 1))
    return crn_fail(err, CRN_E_CONFIG, "option 'chunking_variance': expected 0 to 1, got %g", ds->chunking_variance);
  const crn_value *order = ds->seq_ordering;
  crn_order o;
  if (order && order->kind != CRN_V_CALLABLE && !crn_v_is_str(order))
    return crn_fail(err, CRN_E_CONFIG, "option 'seq_ordering': expected a string, got %s", crn_v_kind_name(order));
  if (crn_v_is_str(order) && !ds->cls->make_order) CRN_TRY(crn_order_parse(crn_v_cstr(order), &o, err));
  if (ds->random_seed_offset == CRN_DATA_NONE) ds->random_seed_offset = ds->env.random_seed_offset;
  return CRN_OK;
}

typedef struct teller {
  crn_dataset_problem fn;
  void *user;
  crn_err err;
} teller;

static void tell(teller *t, crn_status st) {
  if (st != CRN_OK) t->fn(t->user, crn_err_text(&t->err));
  crn_err_clear(&t->err);
  t->err = (crn_err){0};
}

static void check_table(crn_dataset *ds, const crn_data_opt *table, const crn_value *options, teller *t) {
  for (const crn_data_opt *o = table; o && o->name; o++) {
    const crn_value *v = crn_v_get(options, o->name);
    store_default(ds, o);
    if (v)
      tell(t, store(ds, o, v, &t->err));
    else if (!o->def)
      tell(t, crn_fail(&t->err, CRN_E_CONFIG, "option '%s' is required (%s)", o->name, o->doc));
  }
}

crn_status crn_dataset_check_options(const crn_dataset_class *cls, const crn_value *options, crn_dataset_problem fn,
                                     void *user, crn_err *err) {
  crn_dataset *ds = crn_calloc(1, cls->bytes);
  if (!ds) return crn_err_memory(err);
  teller t = {fn, user, {0}};
  ds->cls = cls;
  for (size_t i = 0; i < crn_v_len(options); i++) {
    const char *name = crn_v_cstr(options->u.dict.keys[i]);
    if (!name) continue;
    if (!strcmp(name, "class") || find_row(cls->opts, name) || find_row(common_options, name)) continue;
    tell(&t, unknown_option(ds, name, &t.err));
  }
  check_table(ds, common_options, options, &t);
  check_table(ds, cls->opts, options, &t);
  tell(&t, check_common(ds, &t.err));
  crn_arena_free(&ds->arena);
  crn_free(ds);
  return CRN_OK;
}

crn_status crn_dataset_read_options(crn_dataset *ds, const crn_value *options, crn_err *err) {
  for (size_t i = 0; i < crn_v_len(options); i++) {
    const char *name = crn_v_cstr(options->u.dict.keys[i]);
    if (!name) return crn_fail(err, CRN_E_CONFIG, "a name of an option is no string");
    if (!strcmp(name, "class") || find_row(ds->cls->opts, name) || find_row(common_options, name)) continue;
    return unknown_option(ds, name, err);
  }
  CRN_TRY(read_table(ds, common_options, options, err));
  CRN_TRY(read_table(ds, ds->cls->opts, options, err));
  return check_common(ds, err);
}
