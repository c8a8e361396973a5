/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent units, internal to unit*.c and state.c: one row per unit, what a layer knows of its unit, and one run of
 * it.
 *
 * A run sees its input as [T, N, F] (N: all other axes), one step as T = 1. A row gives either the whole pass at once
 * (fused operations) or the input's part of all frames and then single steps, or both: then steps are for single ones.
 */
#ifndef CRN_LAYER_UNIT_H
#define CRN_LAYER_UNIT_H

#include "layer/activation.h"
#include "layer/rec.h"

enum crn_unit_flags {
  CRN_UNIT_NATIVE = 1u << 0,         /* in rec only; sparse inputs */
  CRN_UNIT_PROJECTION_OFF = 1u << 1, /* knows input_projection False */
  CRN_UNIT_NO_INITIAL = 1u << 2,     /* initial_state is an error */
  CRN_UNIT_NO_STEP = 1u << 3,        /* can't be a single step in a loop */
  CRN_UNIT_DENSE = 1u << 4,          /* no sparse inputs though native */
  CRN_UNIT_PARTS = 1u << 5,          /* whole reads the sources side by side (c->parts) */
};

enum { CRN_UNIT_STATES = 2 };

typedef struct crn_unit crn_unit;
typedef struct crn_unit_run crn_unit_run;

typedef struct crn_unit_desc {
  const char *name;
  const char *const *aliases;      /* NULL-terminated, in rec; may be NULL */
  const char *const *cell_aliases; /* in rnn_cell */
  const char *unusable;            /* why no config can use it, or NULL */
  const crn_opt *opts;
  size_t opts_size;
  unsigned flags;
  const char *states[CRN_UNIT_STATES + 1];                      /* names, NULL-terminated */
  crn_status (*check)(crn_build *b, crn_layer *l, crn_unit *u); /* options; may be NULL */
  crn_status (*params)(crn_build *b, crn_layer *l, const crn_unit *u);
  void (*begin)(crn_unit_run *c);                             /* parameters, c->z of all frames */
  bool (*fused)(const crn_unit_run *c);                       /* whole can be used (with these options); NULL: always */
  void (*whole)(crn_unit_run *c);                             /* all frames: sets y and s; NULL: by steps */
  crn_tensor *(*step)(crn_unit_run *c, crn_tensor *const *z); /* one frame: gives y [N, n], updates s */
} crn_unit_desc;

typedef enum crn_start_kind {
  CRN_START_ZEROS,
  CRN_START_ONES,
  CRN_START_VAR,
  CRN_START_KEPT,
  CRN_START_LAYER
} crn_start_kind;

typedef struct crn_start { /* a state before the first frame */
  crn_start_kind kind;
  crn_layer *layer;
} crn_start;

struct crn_unit { /* of a layer: cfg->unit_data */
  const crn_unit_desc *desc;
  void *opts;    /* desc->opts_size */
  crn_act *act;  /* option activation, where the unit has it; NULL = identity */
  bool act_tanh; /* activation is tanh: fused cells may be used */
  int n_states;
  crn_start start[CRN_UNIT_STATES];
  bool given_state; /* option 'state': a single step that begins with these layers' states */
  crn_start given[CRN_UNIT_STATES];
  bool reverse, projection;
  int64_t n, n_in;
  bool sparse;
  crn_layer *steps; /* moved out of a loop with an input that is the same in all steps: the loop's ":i", or NULL */
  bool single;      /* one step, no axis */
};

enum { CRN_UNIT_PARAMS = 12, CRN_UNIT_MAX_PARTS = 4 };

struct crn_unit_run {
  crn_exec *x;
  crn_run *r;
  crn_layer *l;
  const crn_unit *u;
  crn_tensor *in;                        /* [T, N, F], or labels [T, N]; with several parts the first */
  crn_tensor *parts[CRN_UNIT_MAX_PARTS]; /* the input, side by side */
  int n_parts;
  crn_tensor *lens; /* int32 [N], NULL: all frames count */
  int64_t T, N, n;
  crn_tensor *p[CRN_UNIT_PARAMS]; /* as the unit likes */
  crn_tensor *z[2];               /* input's part [T, N, K], NULL = not used */
  crn_tensor *s[CRN_UNIT_STATES]; /* [N, n] */
  crn_tensor *y;                  /* [T, N, n] */
  int64_t t;                      /* frame of the step */
};

/* unit.c */
crn_unit *crn_unit_of(const crn_layer *l);
/* unit_table.c */
const crn_unit_desc *crn_unit_at(size_t i); /* NULL at the end */
crn_status crn_unit_find(crn_build *b, const crn_layer *l, const char *name, const crn_unit_desc **out);
bool crn_layer_is_cell(const crn_layer *l); /* class rnn_cell */
extern const crn_unit_desc crn_units_native[], crn_units_lstm[], crn_units_norm[], crn_units_simple[];
/* unit_start.c: initial states */
crn_status crn_unit_start_refs(crn_build *b, crn_layer *l, crn_unit *u);
crn_status crn_unit_start_params(crn_build *b, crn_layer *l, const crn_unit *u);
/* State i by option 'state', of the shape. */
crn_status crn_unit_state_given(crn_exec *x, crn_layer *l, int i, crn_data *out, const int64_t *shape);
/* unit_param.c: declaring and reading parameters below "rec/" */
typedef enum crn_unit_init {
  CRN_INIT_MATRIX,
  CRN_INIT_FORWARD,
  CRN_INIT_RECURRENT,
  CRN_INIT_BIAS,
  CRN_INIT_VALUE
} crn_unit_init;
/* rows 0: a vector. init: NULL = by kind; value: for CRN_INIT_VALUE. gates: number of column blocks (0, 1: none). */
crn_status crn_unit_param(crn_build *b, crn_layer *l, const char *name, int64_t rows, int64_t columns,
                          crn_unit_init kind, const crn_value *init, double value, int gates);
/* Array of `blocks` blocks of n zeros, block k filled with value: an initialiser. NULL: no memory. */
crn_value *crn_unit_block_array(crn_arena *a, int64_t n, int blocks, int k, double value);
crn_tensor *crn_unit_get(crn_unit_run *c, const char *name);
/* Rows [begin, begin+n) of a parameter as a matrix of its own. */
crn_tensor *crn_unit_rows(crn_unit_run *c, crn_tensor *w, int64_t begin, int64_t n);
/* Block k of n columns. */
crn_tensor *crn_unit_block(crn_unit_run *c, crn_tensor *z, int k);
crn_tensor *crn_unit_act(crn_unit_run *c, crn_tensor *v);
/* Option activation of the unit: sets u->act, act_tanh. */
crn_status crn_unit_activation(crn_build *b, crn_layer *l, crn_unit *u, const crn_value *v);
/* v, or v times a dropout mask [N, n] that is the same in all frames (and steps of a loop), while training. */
crn_tensor *crn_unit_dropout(crn_unit_run *c, crn_tensor *v, double p, const char *what, bool training);

#endif
