/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of functions that expressions may call, and the values they are called with.
 *
 * A row is a function under all its names: where TensorFlow 1 and 2 have it ("nn.relu" for tf.nn.relu, also found as
 * tf.compat.v1.nn.relu), and "@name" for a bare name (helpers, Python's builtins). Arguments are bound by the row's
 * specification, written as in Python. The eval expressions, the activation names and the documentation read the rows.
 */
#ifndef CRN_TENSOR_OPTABLE_H
#define CRN_TENSOR_OPTABLE_H

#include "base/str.h"
#include "tensor/ops.h"

typedef enum crn_ev_kind {
  CRN_EV_NONE,
  CRN_EV_BOOL,
  CRN_EV_INT,
  CRN_EV_FLOAT,
  CRN_EV_STR,
  CRN_EV_TENSOR,
  CRN_EV_TUPLE,
  CRN_EV_LIST,
  CRN_EV_DTYPE,
  CRN_EV_SLICE,
  CRN_EV_ELLIPSIS,
  CRN_EV_FUNC,  /* a row of the table, not called yet */
  CRN_EV_OBJECT /* of the caller: layers, data, config functions; only the caller's callbacks know what it is */
} crn_ev_kind;

typedef struct crn_ev crn_ev;
typedef struct crn_oprow crn_oprow;
typedef struct crn_opctx crn_opctx;

/* A function that was applied after the activation that made a value (reshape, transpose, …), newest last. */
typedef struct crn_made_step {
  const struct crn_made_step *before;
  const crn_oprow *row;
  const crn_ev *args; /* bound, n of them (those behind are None); the first one is the value */
  int n;
} crn_made_step;

/* How a tensor was made: steps(act(from)), for logarithms that are computed exactly. */
typedef struct crn_made {
  const char *act; /* "softmax", "sigmoid", "exp", "log_softmax", "log_sigmoid" or "log" */
  crn_tensor *from;
  const crn_made_step *steps;
} crn_made;

struct crn_ev {
  crn_ev_kind kind;
  union {
    bool b;
    int64_t i;
    double f;
    const char *s;
    crn_tensor *t;
    struct {
      crn_ev *items;
      int n;
    } seq; /* TUPLE, LIST */
    crn_dtype dtype;
    crn_ev *slice; /* [3]: start, stop, step, None where absent */
    const crn_oprow *row;
    struct {
      const char *type; /* the caller's tag, for its callbacks and messages */
      const void *p;
    } obj;
  } u;
  const crn_made *made; /* of a tensor; NULL: not known */
};

typedef struct crn_eargs { /* of a call */
  const crn_ev *pos;
  int n_pos;
  const char *const *names; /* keyword arguments */
  const crn_ev *named;
  int n_named;
} crn_eargs;

typedef crn_status (*crn_op_fn)(crn_opctx *c, const crn_ev *a, crn_ev *out); /* a: bound arguments, out: NONE */

struct crn_oprow {
  const char *names; /* "nn.relu @relu": separated by spaces, without "tf." */
  const char *spec;  /* "x, axis=None, keepdims=False"; "*values": all positional arguments as a tuple */
  crn_op_fn fn;
  int arg; /* for functions that serve several rows */
  const char *doc;
};

struct crn_opctx {
  crn_run *r;
  const crn_oprow *row; /* being called */
  const char *name;     /* as the caller wrote it, for messages; NULL: the row's first name */
  const char *owner;    /* whose expression it is (a layer's path, its step): names random numbers; may be NULL */
  int column;           /* of the call in the expression; with owner */
};

#define CRN_OP_MAX_ARGS 12

/* All rows, family by family: *n of them in family i; NULL beyond the last family. */
const crn_oprow *crn_optable_family(int i, int *n);
/* "tf.nn.relu", "tf.compat.v1.log_sigmoid", "safe_log" -> row, or NULL. */
const crn_oprow *crn_optable_find(const char *name);
/* C4: the function of that name in tf.nn, else tf, else tf.math, else tf.compat.v1, else the helpers. */
const crn_oprow *crn_optable_find_activation(const char *name);
/* Each element of the result comes from the elements of the same place. */
bool crn_oprow_is_elementwise(const crn_oprow *row);
/* Nearest full name to a wrong one ("tf.nn.relu"), into buf; NULL if none is near. */
const char *crn_optable_nearest(const char *name, char *buf, size_t n);
/* The table as text, a line a function: names, arguments, what it does. */
void crn_optable_describe(crn_str *out);
void crn_optable_describe_row(const crn_oprow *row, crn_str *out);
/* Call c->row with arguments as in Python. */
crn_status crn_optable_call(crn_opctx *c, const crn_eargs *args, crn_ev *out);

/* ---- for row functions ------------------------------------------------------------------------------------------ */

/* Record a failure, "tf.squeeze: …". */
crn_status crn_opc_fail(crn_opctx *c, const char *fmt, ...) CRN_PRINTF(2, 3);
/* A tensor of v: numbers and nested sequences of them become tensors; of dtype `like` (CRN_N_DTYPES: by the numbers,
 * int as int32, float as the run's real type). NULL: recorded. */
crn_tensor *crn_opc_tensor(crn_opctx *c, const crn_ev *v, crn_dtype like);
/* The common dtype of values of which some are tensors: that of the first tensor; CRN_N_DTYPES if there is none. */
crn_dtype crn_opc_like(const crn_ev *v, int n);
bool crn_opc_int(crn_opctx *c, const crn_ev *v, int64_t *out);  /* int, bool, or integer tensor of one element */
bool crn_opc_float(crn_opctx *c, const crn_ev *v, double *out); /* any number, or tensor of one element */
bool crn_opc_bool(crn_opctx *c, const crn_ev *v, bool *out);    /* Python's truth; tensors are refused */
bool crn_opc_dtype(crn_opctx *c, const crn_ev *v,
                   crn_dtype *out); /* dtype or its name; float32 is the run's real type */
bool crn_opc_shape(crn_opctx *c, const crn_ev *v, int *rank, int64_t *shape); /* -1 stays */
/* An int or a sequence of them as axes of a tensor of that rank, in [0, rank); None: all. */
bool crn_opc_axes(crn_opctx *c, const crn_ev *v, int rank, unsigned *axes);
bool crn_opc_axis(crn_opctx *c, const crn_ev *v, int rank, int *axis);
crn_status crn_opc_out(crn_opctx *c, crn_tensor *t, crn_ev *out); /* t, or the recorded failure */
/* Note that out was made by a further step from v, the row's first argument. */
void crn_opc_keep_made(crn_opctx *c, const crn_ev *a, int n, crn_ev *out);
void *crn_opc_alloc(crn_opctx *c, size_t bytes); /* lives as long as the run; NULL: recorded */

const char *crn_ev_kind_name(const crn_ev *v); /* "int", "tensor", … */
const char *crn_ev_describe(const crn_ev *v, char *buf, size_t n);
static inline crn_ev crn_ev_none(void) { return (crn_ev){.kind = CRN_EV_NONE}; }
static inline crn_ev crn_ev_of_tensor(crn_tensor *t) { return (crn_ev){.kind = CRN_EV_TENSOR, .u.t = t}; }
static inline crn_ev crn_ev_of_int(int64_t i) { return (crn_ev){.kind = CRN_EV_INT, .u.i = i}; }
static inline crn_ev crn_ev_of_float(double f) { return (crn_ev){.kind = CRN_EV_FLOAT, .u.f = f}; }
static inline crn_ev crn_ev_of_bool(bool b) { return (crn_ev){.kind = CRN_EV_BOOL, .u.b = b}; }
static inline crn_ev crn_ev_of_str(const char *s) { return (crn_ev){.kind = CRN_EV_STR, .u.s = s}; }
static inline bool crn_ev_is_number(const crn_ev *v) {
  return v->kind == CRN_EV_BOOL || v->kind == CRN_EV_INT || v->kind == CRN_EV_FLOAT;
}
static inline bool crn_ev_is_seq(const crn_ev *v) { return v->kind == CRN_EV_TUPLE || v->kind == CRN_EV_LIST; }

/* Python's binary operators on values ("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "==", "<", …). */
crn_status crn_ev_binary(crn_opctx *c, const char *op, const crn_ev *a, const crn_ev *b, crn_ev *out);
crn_status crn_ev_unary(crn_opctx *c, const char *op, const crn_ev *a, crn_ev *out);      /* "-", "+", "~" */
crn_status crn_ev_index(crn_opctx *c, const crn_ev *v, const crn_ev *index, crn_ev *out); /* v[index] */

/* Exact forms (C9): log(max(x, eps)) and its inverse of a value that was made by softmax, exp, sigmoid, … */
crn_tensor *crn_safe_log_of(crn_run *r, crn_tensor *x, const crn_made *made, double eps);
crn_tensor *crn_safe_exp_of(crn_run *r, crn_tensor *x, const crn_made *made, double eps);

#endif
