/* SPDX-License-Identifier: Apache-2.0
 *
 * docs/layers.md: all layer classes and losses with their options, from the tables that the program itself reads. Which
 * ones are implemented is a fact of these tables, too.
 */
#include "commands.h"

#include "layer/all.h"
#include "layer/rec.h"
#include "loss/loss.h"
#include "net/build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Text in a table's cell. */
static void cell(FILE *out, const char *text) {
  for (; text && *text; text++) fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

static void option(FILE *out, const crn_opt *o) {
  static const char *const types[] = {"bool", "int", "float", "str", "any", "layer", "layers", "dim"};
  fprintf(out, "| `%s` | %s | ", o->name, types[o->type]);
  if (o->dflt)
    fprintf(out, "`%s`", o->dflt);
  else
    fprintf(out, "required");
  fprintf(out, " | ");
  cell(out, o->doc);
  const char *between = o->doc && *o->doc ? "; " : "";
  if (o->choices) {
    fprintf(out, "%sone of ", between);
    cell(out, o->choices);
    between = "; ";
  }
  if (o->min < o->max && isfinite(o->min)) {
    fprintf(out, "%s≥ %g", between, o->min);
    between = ", ";
  }
  if (o->min < o->max && isfinite(o->max) && o->max < CRN_MAX_SIZE) fprintf(out, "%s≤ %g", between, o->max);
  fprintf(out, " |\n");
}

static void option_table(FILE *out, const crn_opt *o) {
  if (!o || !o->name) return;
  fprintf(out, "\n| option | type | default | |\n|---|---|---|---|\n");
  for (; o->name; o++) option(out, o);
}

static void layer_section(FILE *out, const crn_layer_desc *d) {
  fprintf(out, "\n### %s\n%s", d->name, d->forward ? d->doc : "**Not implemented.**");
  for (const char *const *alias = d->aliases; alias && *alias; alias++)
    fprintf(out, "%s`%s`", alias == d->aliases ? " Also: " : ", ", *alias);
  if (d->aliases && *d->aliases) fprintf(out, ".");
  if (d->flags & CRN_L_CONCAT) fprintf(out, " Sources are concatenated.");
  if (d->flags & CRN_L_STREAMS)
    fprintf(out, " Streams.");
  else if (d->flags & CRN_L_MAY_STREAM)
    fprintf(out, " Streams with options that look at no later frame.");
  else if (d->flags & CRN_L_NEEDS_FUTURE)
    fprintf(out, " Needs the whole sequence: not in streaming sessions.");
  if (d->flags & CRN_L_READS_PADDING) fprintf(out, " Reads padding or the whole batch.");
  fprintf(out, "\n");
  if (d->forward) option_table(out, d->opts);
}

static int by_layer_name(const void *a, const void *b) {
  const crn_layer_desc *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static int by_loss_name(const void *a, const void *b) {
  const crn_loss_desc *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static bool layers(crn_arena *a, FILE *out) {
  size_t n = 0, done = 0, k = 0;
  while (crn_layer_class_at(n)) n++;
  const crn_layer_desc **d = CRN_ARENA_ARRAY(a, const crn_layer_desc *, n + 1);
  if (!d) return false;
  for (size_t i = 0; i < n; i++) {
    const crn_layer_desc *l = crn_layer_class_at(i);
    if (l->flags & CRN_L_INTERNAL) continue;
    done += l->forward != NULL;
    d[k++] = l;
  }
  qsort(d, k, sizeof(*d), by_layer_name);
  fprintf(out, "%zu layer classes, %zu of them implemented. Not implemented:", k, done);
  for (size_t i = 0; i < k; i++)
    if (!d[i]->forward) fprintf(out, " %s", d[i]->name);
  fprintf(out, "%s.\n", done == k ? " none" : "");
  fprintf(out, "\n## Options of every layer\n`class`, `from` (a name or a list of names; default \"data\") and:\n");
  option_table(out, crn_options_of_all());
  fprintf(out, "\nClasses that concatenate their sources also have:\n");
  option_table(out, crn_options_of_inputs());
  fprintf(out, "\n## Layers\n");
  for (size_t i = 0; i < k; i++) layer_section(out, d[i]);
  return true;
}

static bool losses(crn_arena *a, FILE *out) {
  size_t n = 0;
  while (crn_loss_class_at(n)) n++;
  const crn_loss_desc **d = CRN_ARENA_ARRAY(a, const crn_loss_desc *, n + 1);
  if (!d) return false;
  for (size_t i = 0; i < n; i++) d[i] = crn_loss_class_at(i);
  qsort(d, n, sizeof(*d), by_loss_name);
  fprintf(out, "\n## Losses\n");
  for (size_t i = 0; i < n; i++) {
    fprintf(out, "\n### loss %s\n%s%s\n", d[i]->name, d[i]->compute ? "" : "**Not implemented.** ",
            d[i]->doc ? d[i]->doc : "");
    if (d[i]->compute) option_table(out, d[i]->opts);
  }
  return true;
}

static void code_list(FILE *out, const char *const *names) {
  for (const char *const *p = names; p && *p; p++) fprintf(out, "%s`%s`", p == names ? "" : " ", *p);
}

static void units(FILE *out) {
  crn_unit_info u;
  fprintf(out, "\n## Recurrent units\nValues of `unit` of the classes `rec` and `rnn_cell`, in any case. Options are "
               "given in `unit_opts`.\n\n"
               "| unit | also | also, in `rnn_cell` | classes | options |\n|---|---|---|---|---|\n");
  for (size_t i = 0; crn_unit_info_at(i, &u); i++) {
    fprintf(out, "| `%s` | ", u.name);
    code_list(out, u.aliases);
    fprintf(out, " | ");
    code_list(out, u.cell_aliases);
    fprintf(out, " | %s | ", u.in_cell ? "both" : "`rec`");
    for (const crn_opt *o = u.opts; o && o->name; o++) fprintf(out, "%s`%s`", o == u.opts ? "" : " ", o->name);
    fprintf(out, " |\n");
  }
}

bool cli_layers_doc(crn_arena *a, FILE *out) {
  fprintf(out, "# Layers and losses\n\nPrinted by `creturnn layers --doc`; `make docs` writes it, a test compares. "
               "Don't edit. Classes that stream run in pieces of a sequence ([streaming.md](streaming.md)).\n\n");
  if (!layers(a, out)) return false;
  units(out);
  return losses(a, out);
}
