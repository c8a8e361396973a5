/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversion, as the files that find and run them share it.
 */
#ifndef CRN_CKPT_CONVERT_INTERNAL_H
#define CRN_CKPT_CONVERT_INTERNAL_H

#include "ckpt/convert.h"

enum { CRN_CONVERSION_MAX_SOURCES = 16 };

struct crn_conversion {
  const crn_bundle *bundle;
  crn_ckpt_var want;
  const char *note;
  const crn_bundle_entry *sources[CRN_CONVERSION_MAX_SOURCES];
  size_t n_sources;
  crn_status (*run)(const crn_conversion *c, void *dst, crn_err *err);
  const void *plan; /* for run; in the arena */
};

/* What a rule is given. */
typedef struct crn_convert_search {
  const crn_bundle *bundle;
  const crn_ckpt_var *want;
  const crn_convert_opts *opts;
  crn_arena *arena;
  crn_err *err;
} crn_convert_search;

/* A rule: sets *out if it knows how; else leaves it alone. */
typedef crn_status (*crn_convert_rule)(const crn_convert_search *s, crn_conversion **out);

crn_status crn_convert_rule_lstm(const crn_convert_search *s, crn_conversion **out);
crn_status crn_convert_rule_batch_norm(const crn_convert_search *s, crn_conversion **out);

crn_conversion *crn_conversion_new(const crn_convert_search *s); /* NULL: memory is out */
/* Entry of the name first_part + second_part, or NULL. */
const crn_bundle_entry *crn_convert_entry(const crn_convert_search *s, const char *first_part, const char *second_part);
/* run that reads the only source and converts the type; equal number of elements. */
crn_status crn_conversion_run_plain(const crn_conversion *c, void *dst, crn_err *err);
/* Values of a source as doubles. */
crn_status crn_convert_read_doubles(const crn_bundle *b, const crn_bundle_entry *e, double *dst, crn_err *err);
/* Records "the file has X, the network needs Y". */
crn_status crn_convert_fail_shape(const crn_convert_search *s, const crn_bundle_entry *e, const char *why);
/* "float32 [3,4]" of a wanted variable. */
const char *crn_ckpt_var_describe(const crn_ckpt_var *v, crn_str *buffer);

#endif
