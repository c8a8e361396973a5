/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a variable that a network wants in a checkpoint that names or lays it out differently:
 *   kernel|bias of a cell            <- weights|biases (TensorFlow before 1.2)
 *   LSTM parameters in any layout    <- any other: native (W, W_re, b), one matrix (W, b), cell (kernel, bias; also the
 *                                       cuDNN-compatible cell), cuDNN's canonical parameters
 *   batch norm of one param_version  <- another
 * Pure functions of a bundle and the wanted variable; docs/checkpoints.md has the table.
 */
#ifndef CRN_CKPT_CONVERT_H
#define CRN_CKPT_CONVERT_H

#include "ckpt/bundle.h"

/* What a network wants; name: as the file would have it. */
typedef struct crn_ckpt_var {
  const char *name;
  int dtype; /* crn_tf_dtype */
  int rank;
  const int64_t *shape;
} crn_ckpt_var;

typedef struct crn_convert_opts {
  /* Whether the network wants a variable of this name (spelt like crn_ckpt_var.name). NULL: not known; then what would
   * need it (one-matrix LSTM -> W and W_re) isn't tried. */
  bool (*is_wanted)(void *user, const char *name);
  void *user;
  /* Some LSTM cells add a forget bias that isn't in the file, the native units don't. True: add it to (or take it from)
   * the bias when going from one to the other, so that outputs stay the same. False: values as they are, and a note. */
  bool keep_function;
  double forget_bias; /* what those cells add: 1.0 unless their options say otherwise */
} crn_convert_opts;

crn_convert_opts crn_convert_defaults(void);

typedef struct crn_conversion crn_conversion;

/* How to get the variable; in the arena, valid as long as bundle, arena and want's pointers. *out = NULL: nothing in
 * the file serves. CRN_E_FORMAT: something does, but its type or shape doesn't fit, or there are several. */
crn_status crn_convert_find(const crn_bundle *b, const crn_ckpt_var *want, const crn_convert_opts *opts, crn_arena *a,
                            crn_conversion **out, crn_err *err) CRN_MUST_CHECK;
/* One line for people, without the variable's name: "made from …"; NULL when it is taken as it is. */
const char *crn_conversion_note(const crn_conversion *c);
/* The file's variables that it reads; returns how many. */
size_t crn_conversion_sources(const crn_conversion *c, const crn_bundle_entry *const **out);
/* Make the values, in the wanted type and shape. */
crn_status crn_conversion_run(const crn_conversion *c, void *dst, crn_err *err) CRN_MUST_CHECK;

#endif
