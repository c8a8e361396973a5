/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn layers: the layer classes and recurrent units, from their descriptors.
 */
#include "commands.h"

#include "layer/all.h"
#include "layer/rec.h"

#include <math.h>
#include <string.h>

static const cli_option options[] = {{"doc", 0, NULL, "print the reference of all classes and losses (docs/layers.md)"},
                                     {0}};

static void print_option(const crn_opt *o) {
  static const char *const types[] = {"bool", "int", "float", "str", "value", "layer", "layers", "dim"};
  printf("  %-28s %s, ", o->name, types[o->type]);
  if (o->dflt)
    printf("%s", o->dflt);
  else
    printf("required");
  if (o->none_ok && o->dflt && strcmp(o->dflt, "None") != 0) printf(" or None");
  if (o->choices) printf(", one of %s", o->choices);
  if (o->min < o->max && isfinite(o->min)) printf(", >= %g", o->min);
  if (o->min < o->max && isfinite(o->max) && o->max < CRN_MAX_SIZE) printf(", <= %g", o->max);
  printf("\n    %s\n", o->doc ? o->doc : "");
}

static void print_names(const char *before, const char *const *names) {
  for (const char *const *p = names; p && *p; p++) printf("%s%s", p == names ? before : ", ", *p);
  if (names && *names) printf("\n");
}

static void print_class(const crn_layer_desc *d) {
  printf("%s%s\n  %s\n", d->name, d->forward ? "" : ": not implemented", d->doc);
  print_names("  also: ", d->aliases);
  for (const crn_opt *o = d->opts; o && o->name; o++) print_option(o);
}

static void print_units(bool cell) {
  crn_unit_info u;
  printf("  units:");
  for (size_t i = 0; crn_unit_info_at(i, &u); i++)
    if (u.in_cell || !cell) printf(" %s", u.name);
  printf("\n    creturnn layers UNIT describes one\n");
}

static void print_unit(const crn_unit_info *u) {
  printf("%s\n  A recurrent unit for class%s.\n", u->name, u->in_cell ? "es rec and rnn_cell" : " rec");
  print_names("  also: ", u->aliases);
  print_names("  also, in rnn_cell: ", u->cell_aliases);
  for (const crn_opt *o = u->opts; o && o->name; o++) print_option(o);
}

/* What the nearest name is looked for among: classes and units, with their other names. NULL: no memory. */
static const char **all_names(crn_arena *a, size_t *n) {
  const crn_layer_desc *d;
  crn_unit_info u;
  size_t cap = 1;
  for (size_t i = 0; crn_layer_class_at(i); i++) cap++;
  for (size_t i = 0; crn_unit_info_at(i, &u); i++) {
    cap++;
    for (const char *const *p = u.aliases; p && *p; p++) cap++;
  }
  const char **names = CRN_ARENA_ARRAY(a, const char *, cap);
  *n = 0;
  for (size_t i = 0; names && (d = crn_layer_class_at(i)); i++)
    if (!(d->flags & CRN_L_INTERNAL)) names[(*n)++] = d->name;
  for (size_t i = 0; names && crn_unit_info_at(i, &u); i++) {
    names[(*n)++] = u.name;
    for (const char *const *p = u.aliases; p && *p; p++) names[(*n)++] = *p;
  }
  return names;
}

static crn_status print_named(cli *c, const char *name) {
  const crn_layer_desc *d = crn_layer_class_find(name);
  crn_unit_info u;
  if (d) print_class(d);
  if (d && !strcmp(d->name, "rec")) print_units(false);
  if (d && !strcmp(d->name, "rnn_cell")) print_units(true);
  if (d) return CRN_OK;
  if (crn_unit_named(name, &u)) {
    print_unit(&u);
    return CRN_OK;
  }
  size_t n;
  const char **names = all_names(&c->arena, &n);
  if (!names) return crn_err_memory(&c->err);
  const char *near = crn_nearest(name, names, n);
  crn_fail(&c->err, CRN_E_CONFIG, "unknown layer class or unit '%s'", name);
  if (near) crn_err_append(&c->err, " (did you mean '%s'?)", near);
  return c->err.code;
}

static crn_status run(cli *c, const cli_args *args) {
  if (cli_has(args, "doc")) return cli_layers_doc(&c->arena, stdout) ? CRN_OK : crn_err_memory(&c->err);
  for (size_t i = 0; i < args->n_words; i++) CRN_TRY(print_named(c, args->words[i]));
  const crn_layer_desc *d;
  for (size_t i = 0; !args->n_words && (d = crn_layer_class_at(i)); i++)
    if (!(d->flags & CRN_L_INTERNAL)) printf("%-28s %s%s\n", d->name, d->forward ? "" : "(not implemented) ", d->doc);
  return CRN_OK;
}

const cli_command cli_cmd_layers = {
    .name = "layers",
    .usage = "[CLASS | UNIT]...",
    .doc = "List the layer classes, or describe classes or units with their options.",
    .options = options,
    .run = run,
};
