/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn layers: the layer classes, from their descriptors.
 */
#include "commands.h"

#include "layer/all.h"

#include <math.h>
#include <string.h>

static const cli_option options[] = {{"doc", 0, NULL, "print the reference of all classes and losses (docs/layers.md)"}, {0}};

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

static void print_class(const crn_layer_desc *d) {
  printf("%s%s\n  %s\n", d->name, d->forward ? "" : ": not implemented", d->doc);
  for (const char *const *alias = d->aliases; alias && *alias; alias++)
    printf("  %s%s", alias == d->aliases ? "also: " : "", *alias);
  if (d->aliases && *d->aliases) printf("\n");
  for (const crn_opt *o = d->opts; o && o->name; o++) print_option(o);
}

static crn_status print_named(cli *c, const char *name) {
  const crn_layer_desc *d = crn_layer_class_find(name);
  if (d) {
    print_class(d);
    return CRN_OK;
  }
  size_t n = 0;
  while (crn_layer_class_at(n)) n++;
  const char **names = CRN_ARENA_ARRAY(&c->arena, const char *, n + 1);
  if (!names) return crn_err_memory(&c->err);
  for (size_t i = 0; i < n; i++) names[i] = crn_layer_class_at(i)->name;
  const char *near = crn_nearest(name, names, n);
  crn_fail(&c->err, CRN_E_CONFIG, "unknown layer class '%s'", name);
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
    .usage = "[CLASS]...",
    .doc = "List the layer classes, or describe some with their options.",
    .options = options,
    .run = run,
};
