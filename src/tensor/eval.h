/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions of configs ("source(0) + tf.exp(-source(1))") and activation strings ("3 + 2 * sigmoid").
 *
 * The language is that of Python expressions. A text is compiled once into a tree in an arena; names of TensorFlow are
 * looked up in the table of functions (optable.h) at once, so that a misspelt one is an error before anything runs.
 * What else a name means – the sources of a layer, its network, eval_locals – is asked of the caller while it runs.
 */
#ifndef CRN_TENSOR_EVAL_H
#define CRN_TENSOR_EVAL_H

#include "tensor/optable.h"
#include "value/value.h"

typedef struct crn_eval crn_eval;

crn_status crn_eval_compile(crn_arena *a, const char *text, crn_eval **out, crn_err *err);
const char *crn_eval_text(const crn_eval *e);

/* The caller's side of a run. Any callback may be NULL (nothing is known). Failures are recorded in r->err. */
typedef struct crn_eval_env {
  void *user;
  const char *owner; /* names the random numbers of the expression (a layer's path and step), see crn_opctx */
  /* A bare name: goes before helpers and builtins of the same name. *found stays false if there is none. */
  crn_status (*name)(void *user, crn_run *r, const char *name, crn_ev *out, bool *found);
  /* object.attr, object[index] of an OBJECT. */
  crn_status (*attr)(void *user, crn_run *r, const crn_ev *object, const char *attr, crn_ev *out, bool *found);
  crn_status (*item)(void *user, crn_run *r, const crn_ev *object, const crn_ev *index, crn_ev *out, bool *found);
  /* object(args…) of an OBJECT (a method is an object that attr gave). */
  crn_status (*call)(void *user, crn_run *r, const crn_ev *callee, const crn_eargs *args, crn_ev *out);
} crn_eval_env;

crn_status crn_eval_run(crn_run *r, const crn_eval *e, const crn_eval_env *env, crn_ev *out);

/* Construction's look at a text. Every bare name that isn't a function of the table: fn returns false to stop; result:
 * false if stopped. *builtin: the name is a helper or builtin, unless the caller has one of that name. */
bool crn_eval_each_name(const crn_eval *e, bool (*fn)(void *user, const char *name, bool builtin), void *user);
typedef struct crn_eval_call {
  int n_pos, n_named, column;
  const crn_ev *pos;        /* [n_pos]: the arguments' values where they are constants, else of kind ELLIPSIS */
  const char *const *names; /* [n_named] */
  const crn_ev *named;      /* [n_named] */
} crn_eval_call;
/* Every call of that bare name. */
bool crn_eval_each_call(const crn_eval *e, const char *name, bool (*fn)(void *user, const crn_eval_call *call),
                        void *user);

/* What in the expression may compute an element from others than those of the same place: the name of a function, "[…]", an
 * operator, an attribute; NULL: nothing. */
const char *crn_eval_mixes(const crn_eval *e);

/* A config value as a value of expressions. False: it has none (dict, set, …). Strings are shared; no memory: recorded.
 */
bool crn_ev_of_value(crn_run *r, const crn_value *v, crn_ev *out);

/* ---- activations (C4) ------------------------------------------------------------------------------------------- */

typedef struct crn_activation crn_activation;

/* text NULL, "", "none", "identity": identity. */
crn_status crn_activation_compile(crn_arena *a, const char *text, crn_activation **out, crn_err *err);
crn_tensor *crn_activation_run(crn_run *r, const crn_activation *act, crn_tensor *x);
/* The same for an input whose making is known (made may be NULL), with keywords for the function (a dict, or NULL). */
crn_tensor *crn_activation_apply(crn_run *r, const crn_activation *act, crn_tensor *x, const crn_made *made,
                                 const crn_value *opts);
/* The same as crn_eval_mixes. */
const char *crn_activation_mixes(const crn_activation *act);
/* "identity", or the name of the one function that it is ("softmax", "tanh", …, aliases resolved: "silu" is "swish");
 * NULL: it is an expression of several. */
const char *crn_activation_name(const crn_activation *act);

#endif
