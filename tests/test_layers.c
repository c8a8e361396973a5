/* SPDX-License-Identifier: Apache-2.0
 *
 * Every row of the layer and loss tables: names are found and unique, what is said about a class and its options is
 * complete, defaults are literals of the option's type, in its range, and fields lie inside of the config struct.
 * Driven by the tables alone: a class added tomorrow is checked without a change here.
 */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "layer/all.h"
#include "loss/loss.h"

/* Number of complaints about one table; all are printed, then the test fails. */
static void complain(int *n, const char *cls, const char *option, const char *what) {
  print_error("%s%s%s: %s\n", cls, option ? ": option " : "", option ? option : "", what);
  ++*n;
}

/* ---- options ---- */

static size_t field_bytes(crn_opt_type t) {
  switch (t) {
  case CRN_OPT_BOOL:
    return sizeof(int);
  case CRN_OPT_INT:
    return sizeof(int64_t);
  case CRN_OPT_FLOAT:
    return sizeof(double);
  case CRN_OPT_LAYERS:
    return sizeof(crn_layer_list);
  default:
    return sizeof(void *);
  }
}

static bool is_choice(const char *choices, const char *word) {
  const size_t n = strlen(word);
  for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
    if (strncmp(p, word, n) == 0 && (p[n] == '|' || !p[n])) return true;
  return false;
}

static bool in_range(const crn_opt *o, double x) { return !(o->min < o->max) || (x >= o->min && x <= o->max); }

/* NULL, or what is wrong with a default that is not None. */
static const char *check_default(const crn_opt *o, const crn_value *v) {
  double x = 0;
  int64_t i = 0;
  switch (o->type) {
  case CRN_OPT_BOOL:
    return v->kind == CRN_V_BOOL ? NULL : "default is neither True nor False";
  case CRN_OPT_INT:
    return crn_v_to_int(v, &i) && in_range(o, (double)i) ? NULL : "default is no integer, or outside of its range";
  case CRN_OPT_FLOAT:
    return crn_v_to_float(v, &x) && in_range(o, x) ? NULL : "default is no number, or outside of its range";
  case CRN_OPT_STR:
    if (!crn_v_is_str(v)) return "default is no string";
    return !o->choices || is_choice(o->choices, crn_v_cstr(v)) ? NULL : "default is not among the choices";
  case CRN_OPT_LAYER:
    return crn_v_is_str(v) ? NULL : "default is no layer name";
  case CRN_OPT_LAYERS:
    return crn_v_is_str(v) || crn_v_is_seq(v) || crn_v_is_dict(v) ? NULL : "default is no list of layers";
  case CRN_OPT_DIM:
    return "a dim has no default but None";
  case CRN_OPT_VALUE:
    return NULL;
  }
  return "unknown type";
}

static void check_option(int *n, crn_arena *arena, const char *cls, const crn_opt *opts, const crn_opt *o,
                         size_t cfg_size) {
  if (!o->doc || !o->doc[0]) complain(n, cls, o->name, "nothing said about it (doc)");
  if (o->offset + field_bytes(o->type) > cfg_size)
    complain(n, cls, o->name, "its field is outside of the config struct");
  for (const crn_opt *other = opts; other < o; other++)
    if (strcmp(other->name, o->name) == 0) complain(n, cls, o->name, "is there twice");
  if (o->choices && o->type != CRN_OPT_STR) complain(n, cls, o->name, "choices are for strings");
  if (o->min < o->max && o->type != CRN_OPT_INT && o->type != CRN_OPT_FLOAT)
    complain(n, cls, o->name, "a range is for numbers");
  if (!o->dflt) return; /* required */
  crn_err err = {0};
  crn_value *v = NULL;
  if (crn_v_parse_literal(arena, o->dflt, o->name, &v, &err) != CRN_OK) {
    complain(n, cls, o->name, crn_err_text(&err));
    crn_err_clear(&err);
    return;
  }
  const char *wrong = crn_v_is_none(v) ? NULL : check_default(o, v);
  if (wrong) complain(n, cls, o->name, wrong);
}

static void check_options(int *n, const char *cls, const crn_opt *opts, size_t cfg_size) {
  crn_arena arena = {0};
  for (const crn_opt *o = opts; o && o->name; o++) check_option(n, &arena, cls, opts, o, cfg_size);
  crn_arena_free(&arena);
}

/* ---- classes ---- */

static void check_doc(int *n, const char *cls, const char *doc) {
  if (!doc || strlen(doc) < 10)
    complain(n, cls, NULL, "nothing said about it (doc)");
  else if (strchr(doc, '\n'))
    complain(n, cls, NULL, "its doc is more than one line");
}

static void add_name(int *n, crn_map *names, const char *name, const char *cls) {
  if (crn_map_has(names, name)) complain(n, cls, NULL, "its name or alias is another class's too");
  if (crn_map_set(names, name, names) != CRN_OK) complain(n, cls, NULL, "no memory");
}

static void test_layer_rows(void **state) {
  (void)state;
  int n = 0;
  crn_map names = {0};
  size_t n_rows = 0;
  for (const crn_layer_desc *d; (d = crn_layer_class_at(n_rows)); n_rows++) {
    add_name(&n, &names, d->name, d->name);
    if (crn_layer_class_find(d->name) != d) complain(&n, d->name, NULL, "is not found by its name");
    for (const char *const *a = d->aliases; a && *a; a++) {
      add_name(&n, &names, *a, d->name);
      if (crn_layer_class_find(*a) != d) complain(&n, d->name, *a, "is not found by this alias");
    }
    check_doc(&n, d->name, d->doc);
    check_options(&n, d->name, d->opts, d->cfg_size);
    if (d->forward && !d->infer) complain(&n, d->name, NULL, "runs but has no template (infer)");
    if ((d->flags & CRN_L_CONCAT) && (d->flags & CRN_L_MANY_INPUTS))
      complain(&n, d->name, NULL, "sources are concatenated, or they are not");
  }
  crn_map_free(&names);
  assert_true(n_rows > 0);
  assert_int_equal(n, 0);
}

static void test_loss_rows(void **state) {
  (void)state;
  int n = 0;
  crn_map names = {0};
  size_t n_rows = 0;
  for (const crn_loss_desc *d; (d = crn_loss_class_at(n_rows)); n_rows++) {
    add_name(&n, &names, d->name, d->name);
    if (crn_loss_class_find(d->name) != d) complain(&n, d->name, NULL, "is not found by its name");
    check_doc(&n, d->name, d->doc);
    check_options(&n, d->name, d->opts, d->cfg_size);
  }
  crn_map_free(&names);
  assert_true(n_rows > 0);
  assert_int_equal(n, 0);
}

static void test_unknown_names(void **state) {
  (void)state;
  assert_null(crn_layer_class_find("no such class"));
  assert_null(crn_layer_class_find(""));
  assert_null(crn_loss_class_find("no such loss"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layer_rows), cmocka_unit_test(test_loss_rows),
                                     cmocka_unit_test(test_unknown_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
