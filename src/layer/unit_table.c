/* SPDX-License-Identifier: Apache-2.0
 *
 * All recurrent units by name (recurrent.md, "Names and aliases"), with the ones that exist in name only.
 */
#include <ctype.h>
#include <string.h>

#include "layer/unit.h"

#define ABSTRACT "is abstract: it only serves to define other units"
#define WRAPS "wraps other cells and can't be named in a config"
#define GPU_ONLY "needs a GPU and an external package"
static const crn_unit_desc unusable[] = {
    {.name = "_wrapbase", .unusable = WRAPS},
    {.name = "rnn", .unusable = ABSTRACT},
    {.name = "layerrnn", .unusable = ABSTRACT},
    {.name = "recseqcellop", .unusable = ABSTRACT},
    {.name = "multirnn", .unusable = WRAPS},
    {.name = "dropoutwrapper", .unusable = WRAPS},
    {.name = "residualwrapper", .unusable = WRAPS},
    {.name = "devicewrapper", .unusable = WRAPS},
    {.name = "twodnativelstm", .unusable = "exists only inside of the layer class 'twod_lstm'"},
    {.name = "blocksparselstm", .unusable = GPU_ONLY},
    {.name = "blocksparsemultiplicativemultisteplstm", .unusable = GPU_ONLY},
    {.name = "cudnngru", .unusable = "stands for 'grublock' without a GPU, and that unit does not exist; use 'gru'"},
    {.name = NULL}};

static const crn_unit_desc *const tables[] = {crn_units_native, crn_units_lstm, crn_units_norm, crn_units_simple,
                                              unusable};

const crn_unit_desc *crn_unit_at(size_t i) {
  for (size_t k = 0; k < sizeof(tables) / sizeof(*tables); k++)
    for (const crn_unit_desc *d = tables[k]; d->name; d++)
      if (i-- == 0) return d;
  return NULL;
}

bool crn_layer_is_cell(const crn_layer *l) { return !strcmp(l->desc->name, "rnn_cell"); }

static bool in_list(const char *const *list, const char *name) {
  for (; list && *list; list++)
    if (!strcmp(*list, name)) return true;
  return false;
}

static const crn_unit_desc *find(const char *name, bool cell) {
  const crn_unit_desc *d;
  for (size_t i = 0; (d = crn_unit_at(i)); i++) /* a cell's own meaning of a name comes first */
    if (cell && in_list(d->cell_aliases, name)) return d;
  for (size_t i = 0; (d = crn_unit_at(i)); i++)
    if (!strcmp(d->name, name) || in_list(d->aliases, name)) return d;
  return NULL;
}

static size_t add_names(const crn_unit_desc *d, bool cell, const char **names, size_t n, size_t cap) {
  if (d->unusable || (cell && d->flags & CRN_UNIT_NATIVE)) return n;
  const char *const *more = cell ? d->cell_aliases : d->aliases;
  if (n < cap) names[n++] = d->name;
  for (; more && *more && n < cap; more++) names[n++] = *more;
  return n;
}

static crn_status unknown(crn_build *b, const crn_layer *l, const char *given, const char *name) {
  const char *names[64];
  size_t n = 0;
  const crn_unit_desc *d;
  for (size_t i = 0; (d = crn_unit_at(i)); i++) n = add_names(d, crn_layer_is_cell(l), names, n, 64);
  crn_str s = {0};
  for (size_t i = 0; i < n; i++) crn_str_addf(&s, "%s%s", i ? ", " : "", names[i]);
  const char *near = crn_nearest(name, names, n);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unit': unknown unit '%s'%s%s%s; there are: %s", given,
                                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

enum { MAX_NAME = 128 };

/* As the tables have it; false: longer than any. */
static bool table_name(const char *given, char name[MAX_NAME]) {
  size_t n = strlen(given);
  if (n >= MAX_NAME) return false;
  for (size_t i = 0; i <= n; i++) name[i] = (char)tolower((unsigned char)given[i]);
  if (n > 4 && !strcmp(name + n - 4, "cell")) name[n - 4] = 0;
  return true;
}

static void tell(const crn_unit_desc *d, crn_unit_info *out) {
  *out = (crn_unit_info){d->name, d->aliases, d->cell_aliases, d->opts, !(d->flags & CRN_UNIT_NATIVE)};
}

bool crn_unit_info_at(size_t i, crn_unit_info *out) {
  const crn_unit_desc *d;
  for (size_t k = 0; (d = crn_unit_at(k)); k++)
    if (!d->unusable && i-- == 0) return tell(d, out), true;
  return false;
}

bool crn_unit_named(const char *given, crn_unit_info *out) {
  char name[MAX_NAME];
  if (!table_name(given, name)) return false;
  const crn_unit_desc *d = find(name, false); /* a cell has further names for the same units */
  if (!d) d = find(name, true);
  if (!d || d->unusable) return false;
  if (out) tell(d, out);
  return true;
}

crn_status crn_unit_find(crn_build *b, const crn_layer *l, const char *given, const crn_unit_desc **out) {
  char name[MAX_NAME];
  if (!table_name(given, name))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unit': unknown unit '%.100s…'", given);
  const bool cell = crn_layer_is_cell(l);
  const crn_unit_desc *d = find(name, cell);
  if (!d) return unknown(b, l, given, name);
  if (d->unusable) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'unit': unit '%s' %s", given, d->unusable);
  if (cell && d->flags & CRN_UNIT_NATIVE)
    return crn_layer_fail(b, l, CRN_E_CONFIG,
                          "option 'unit': '%s' is a native unit (%s), which rnn_cell can't run; use class 'rec'", given,
                          d->name);
  *out = d;
  return CRN_OK;
}
