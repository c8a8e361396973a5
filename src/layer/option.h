/* SPDX-License-Identifier: Apache-2.0
 *
 * Option tables: the options of a layer class or loss, as data. Parsing, checks, help, docs and tests read the same rows.
 */
#ifndef CRN_LAYER_OPTION_H
#define CRN_LAYER_OPTION_H

#include <stddef.h>

#include "base/status.h"
#include "value/value.h"

typedef enum crn_opt_type {
  CRN_OPT_BOOL,   /* int field: 0, 1; CRN_UNSET when None is allowed and given */
  CRN_OPT_INT,    /* int64_t; CRN_UNSET = None */
  CRN_OPT_FLOAT,  /* double; NAN = None */
  CRN_OPT_STR,    /* const char *; NULL = None; with choices: one of them */
  CRN_OPT_VALUE,  /* const crn_value *; NULL = not given and no default (None stays a value) */
  CRN_OPT_LAYER,  /* struct crn_layer *; a layer's name; NULL = None */
  CRN_OPT_LAYERS, /* crn_layer_list; list/dict of names */
  CRN_OPT_DIM     /* const crn_dim * from a dim object; NULL = None */
} crn_opt_type;

/* Largest size, position or count in a config, as in the original. With it sums and products of two never overflow. */
#define CRN_MAX_SIZE 2147483647

#define CRN_UNSET INT64_MIN
#define CRN_UNSET_INT (-1) /* in BOOL fields */

/* What a CRN_OPT_LAYER(S) option means for ordering (DESIGN, typed references). */
typedef enum crn_edge_kind { CRN_EDGE_DATA, CRN_EDGE_PREV, CRN_EDGE_PARAM, CRN_EDGE_TIE, CRN_EDGE_CONTROL, CRN_EDGE_SEARCH, CRN_EDGE_TARGET } crn_edge_kind;

typedef struct crn_opt {
  const char *name;
  crn_opt_type type;
  size_t offset;          /* in the class's config struct */
  const char *dflt;       /* Python literal; NULL = required */
  const char *doc;        /* one sentence, with unit */
  double min, max;        /* numbers: allowed range when min < max */
  const char *choices;    /* strings: "same|valid|same_static" */
  bool none_ok;           /* None allowed though the default isn't None */
  crn_edge_kind edge;     /* layers: kind of reference */
  bool wide;              /* integers beyond CRN_MAX_SIZE are meant (seeds, values): not checked here */
} crn_opt;

typedef struct crn_layer_list {
  struct crn_layer **items;
  const char **keys; /* for dicts, else NULL */
  int n;
} crn_layer_list;

#define CRN_OPT_END {NULL, CRN_OPT_BOOL, 0, NULL, NULL, 0, 0, NULL, false, CRN_EDGE_DATA, false}

#endif
