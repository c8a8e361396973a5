/* SPDX-License-Identifier: Apache-2.0
 *
 * Template: the type of a layer's output without its values: dtype, sparse dim, axes and their roles. The rules (roles,
 * uniting, axis descriptions) are those of the original: shared by construction (templates) and execution (real data).
 */
#ifndef CRN_TENSOR_TEMPLATE_H
#define CRN_TENSOR_TEMPLATE_H

#include "tensor/dim.h"
#include "tensor/tensor.h"

struct crn_layer;

/* Which choice's beams a template has. */
typedef struct crn_beam_sig {
  const struct crn_layer *choice;
  int64_t size;
} crn_beam_sig;

typedef struct crn_tmpl {
  crn_dtype dtype;
  bool sparse;
  const crn_dim *sparse_dim; /* labels in [0, sparse_dim->size); NULL if dense or not known */
  int n;                     /* axes, the batch axis included */
  const crn_dim *dims[CRN_MAX_RANK];
  int time_axis, feature_axis; /* -1 = none; kept up to date by the functions below */
  bool time_explicit, feature_explicit;
  crn_beam_sig beam; /* choice NULL = no beam */
  bool unavailable;  /* not available for inference */
  const void *vocab; /* of the sparse dim, or NULL (data/vocab.h) */
} crn_tmpl;

/* Dense scalar of dtype without axes. */
crn_tmpl crn_tmpl_scalar(crn_dtype dtype);
int crn_tmpl_batch_axis(const crn_tmpl *t);   /* first batch axis, -1 = none */
int64_t crn_tmpl_dim(const crn_tmpl *t);      /* sparse: number of labels; dense: feature size; -1 = none or unknown */
const crn_dim *crn_tmpl_feature(const crn_tmpl *t); /* feature dim or NULL */
const crn_dim *crn_tmpl_time(const crn_tmpl *t);    /* time dim or NULL */
int crn_tmpl_find(const crn_tmpl *t, const crn_dim *d); /* axis with that very dim, -1 */
/* Axes other than batch, time and feature etc.: number of dynamic axes. */
int crn_tmpl_n_dynamic(const crn_tmpl *t);

/* Recompute the roles that aren't explicit (C2). Call after changing dims by hand. */
void crn_tmpl_update_roles(crn_tmpl *t);
/* Insert an axis at position at (roles move along); remove one (an explicit role on it ends); replace one's dim. */
crn_status crn_tmpl_insert(crn_tmpl *t, int at, const crn_dim *d, crn_err *err);
void crn_tmpl_remove(crn_tmpl *t, int axis);
/* New order: axis i of the result is axis perm[i]. */
void crn_tmpl_permute(crn_tmpl *t, const int *perm);
void crn_tmpl_to_batch_major(crn_tmpl *t, int *perm /* may be NULL */);
void crn_tmpl_to_time_major(crn_tmpl *t, int *perm /* may be NULL */);
bool crn_tmpl_same_axes(const crn_tmpl *a, const crn_tmpl *b); /* same dims in the same order (dynamic: identity) */
/* "[B, T('time:data'), F(5)] float32" into s. */
void crn_tmpl_describe(const crn_tmpl *t, crn_str *s);

/* Version-dependent rules are asked with the config's behavior_version. */
bool crn_dims_match(const crn_dim *a, const crn_dim *b, int version);
/* Uniting (C3): the axes of all, starting from the first with most axes. map[i][k] = axis of out that axis k of ts[i]
 * became. features_match: feature dims are matched whatever their sizes (concatenation). all_covered: false if no single
 * source has all axes. */
crn_status crn_tmpl_unite(const crn_tmpl *const *ts, int n, int version, bool ignore_features, crn_tmpl *out,
                          int map[][CRN_MAX_RANK], bool *all_covered, crn_err *err);
/* For each axis of to, the axis of from that matches it, or -1 (to be broadcast). Error text if an axis of from finds no
 * place. */
crn_status crn_tmpl_match(const crn_tmpl *from, const crn_tmpl *to, int version, int map[CRN_MAX_RANK], crn_err *err);

/* Axis descriptions (C6). v: None, str, int, list, dim. Result: axes in the given order, duplicates dropped. dims: to
 * resolve dim objects. */
crn_status crn_axes_of(const crn_tmpl *t, const crn_value *v, int version, crn_dims *dims, int axes[CRN_MAX_RANK],
                       int *n, crn_err *err);
/* Exactly one axis. */
crn_status crn_axis_of(const crn_tmpl *t, const crn_value *v, int version, crn_dims *dims, int *axis, crn_err *err);

#endif
