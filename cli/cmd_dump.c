/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn dump: what is in a checkpoint.
 */
#include "commands.h"

#include "base/arena.h"
#include "ckpt/bundle.h"

#include <math.h>
#include <string.h>

static const cli_option options[] = {
    {"stats", 's', NULL, "print minimum, maximum, mean and standard deviation of each variable"},
    {"values", 'n', "COUNT", "print so many values of each variable, 0: all (20 for those named)"},
    {"check", 0, NULL, "only check that every variable can be read"},
    {0},
};

/* The values in double; NULL with the error set, or NULL without one for types that are no numbers. */
static double *read_numbers(cli *c, const crn_bundle *b, const crn_bundle_entry *e, crn_arena *a) {
  size_t n = (size_t)e->n_elements, bytes = n * crn_tf_dtype_bytes(e->dtype);
  if (!crn_tf_convertible(e->dtype, CRN_TF_FLOAT64)) return NULL;
  void *raw = crn_arena_alloc(a, bytes + 1);
  double *values = crn_arena_alloc(a, n * sizeof(double) + 1);
  if (!raw || !values) return crn_err_memory(&c->err), NULL;
  if (crn_bundle_read(b, e, raw, bytes, &c->err) != CRN_OK) return NULL;
  if (crn_tf_convert(e->dtype, raw, CRN_TF_FLOAT64, values, e->n_elements, &c->err) != CRN_OK) {
    crn_err_where(&c->err, "%s", e->name);
    return NULL;
  }
  return values;
}

static void print_stats(const double *values, int64_t n) {
  double low = INFINITY, high = -INFINITY, sum = 0, squares = 0;
  int64_t n_bad = 0;
  for (int64_t i = 0; i < n; i++) {
    n_bad += !isfinite(values[i]);
    if (values[i] < low) low = values[i];
    if (values[i] > high) high = values[i];
    sum += values[i];
  }
  double mean = n ? sum / (double)n : 0;
  for (int64_t i = 0; i < n; i++) squares += (values[i] - mean) * (values[i] - mean);
  if (n) printf("  min %.6g  max %.6g  mean %.6g  stddev %.6g", low, high, mean, sqrt(squares / (double)n));
  if (n_bad) printf("  (%lld inf or nan)", (long long)n_bad);
}

/* Rows of the last axis, one a line. */
static void print_values(const crn_bundle_entry *e, const double *values, int64_t max) {
  bool is_float = e->dtype == CRN_TF_FLOAT32 || e->dtype == CRN_TF_FLOAT64 || e->dtype == CRN_TF_FLOAT16 ||
                  e->dtype == CRN_TF_BFLOAT16;
  int64_t row = e->rank ? e->shape[e->rank - 1] : 1, n = max && max < e->n_elements ? max : e->n_elements;
  for (int64_t i = 0; i < n; i++) {
    printf(i % row ? " " : i ? "\n  " : "  ");
    printf(e->dtype == CRN_TF_FLOAT64 ? "%.17g" : is_float ? "%.9g" : "%.0f", values[i]);
  }
  if (n < e->n_elements) printf(n ? " ... (%lld more)" : "  (%lld values)", (long long)(e->n_elements - n));
  printf("\n");
}

static crn_status print_strings(cli *c, const crn_bundle *b, const crn_bundle_entry *e, int64_t max, crn_arena *a) {
  const char **texts;
  size_t *lengths;
  CRN_TRY(crn_bundle_read_strings(b, e, a, &texts, &lengths, &c->err));
  for (int64_t i = 0; i < e->n_elements && (!max || i < max); i++) {
    crn_str quoted = {0};
    crn_v_repr(crn_v_strn(a, texts[i], lengths[i]), &quoted, 0);
    printf("  %s\n", crn_str_get(&quoted));
    crn_str_free(&quoted);
  }
  if (max && e->n_elements > max) printf("  ... (%lld more)\n", (long long)(e->n_elements - max));
  return CRN_OK;
}

static crn_status print_entry(cli *c, const crn_bundle *b, const crn_bundle_entry *e, int width, bool stats,
                              int64_t n_values) {
  crn_str text = {0};
  printf("%-*s  %s", width, e->name, crn_bundle_describe(e, &text));
  crn_str_free(&text);
  crn_arena a = {0};
  bool want = stats || n_values >= 0;
  double *values = want ? read_numbers(c, b, e, &a) : NULL;
  if (values && stats) print_stats(values, e->n_elements);
  if (!values && want && e->dtype != CRN_TF_STRING && c->err.code == CRN_OK)
    printf("  (values of this type aren't shown)");
  printf("\n");
  if (values && n_values >= 0 && e->n_elements) print_values(e, values, n_values);
  crn_status status = c->err.code;
  if (status == CRN_OK && n_values >= 0 && e->dtype == CRN_TF_STRING) status = print_strings(c, b, e, n_values, &a);
  crn_arena_free(&a);
  return status;
}

static crn_status find_named(cli *c, const crn_bundle *b, const char *name, const crn_bundle_entry **out) {
  *out = crn_bundle_find(b, name);
  if (*out) return CRN_OK;
  size_t n = crn_bundle_count(b);
  const char **names = CRN_ARENA_ARRAY(&c->arena, const char *, n + 1);
  if (!names) return crn_err_memory(&c->err);
  for (size_t i = 0; i < n; i++) names[i] = crn_bundle_at(b, i)->name;
  const char *near = crn_nearest(name, names, n);
  crn_fail(&c->err, CRN_E_CONFIG, "%s has no variable '%s'", crn_bundle_prefix(b), name);
  if (near) crn_err_append(&c->err, " (did you mean '%s'?)", near);
  return c->err.code;
}

static crn_status print_all(cli *c, const crn_bundle *b, bool stats, int64_t n_values) {
  int width = 0;
  int64_t total = 0;
  for (size_t i = 0; i < crn_bundle_count(b); i++) {
    int n = (int)strlen(crn_bundle_at(b, i)->name);
    if (n > width) width = n;
    total += crn_bundle_at(b, i)->n_elements;
  }
  for (size_t i = 0; i < crn_bundle_count(b); i++)
    CRN_TRY(print_entry(c, b, crn_bundle_at(b, i), width, stats, n_values));
  printf("%zu variables, %lld values\n", crn_bundle_count(b), (long long)total);
  return CRN_OK;
}

static crn_status print_named(cli *c, const crn_bundle *b, const cli_args *args, bool stats, int64_t n_values) {
  for (size_t i = 1; i < args->n_words; i++) {
    const crn_bundle_entry *e;
    CRN_TRY(find_named(c, b, args->words[i], &e));
    CRN_TRY(print_entry(c, b, e, 0, stats, n_values));
  }
  return CRN_OK;
}

static crn_status run(cli *c, const cli_args *args) {
  if (args->n_words == 0) return crn_fail(&c->err, CRN_E_CONFIG, "dump: no checkpoint given");
  bool named = args->n_words > 1, stats = cli_has(args, "stats");
  int64_t n_values;
  CRN_TRY(cli_value_int(args, "values", named && !stats ? 20 : -1, 0, &n_values, &c->err));
  crn_bundle *b;
  CRN_TRY(crn_bundle_open(args->words[0], &b, &c->err));
  crn_status status;
  if (cli_has(args, "check")) {
    status = crn_bundle_verify(b, &c->err);
    if (status == CRN_OK) printf("%s: %zu variables, all whole\n", crn_bundle_prefix(b), crn_bundle_count(b));
  } else {
    status = named ? print_named(c, b, args, stats, n_values) : print_all(c, b, stats, n_values);
  }
  crn_bundle_free(b);
  return status;
}

const cli_command cli_cmd_dump = {
    .name = "dump",
    .usage = "CHECKPOINT [VARIABLE]...",
    .doc = "List a checkpoint's variables, or print some of them.",
    .more = "CHECKPOINT is a prefix like models/net.012, one of its files, or a folder with a `checkpoint` file.\n",
    .options = options,
    .run = run,
};
