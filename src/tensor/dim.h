/* SPDX-License-Identifier: Apache-2.0
 *
 * Dims: immutable identities of axes. A dim says what an axis is (kind, fixed size or dynamic, how it came about), never
 * its lengths: those travel with the data (data.h).
 *
 * Dims are hash-consed: crn_dim_new gives the same dim for the same (owner, slot), crn_dim_derive for the same (operation,
 * arguments); so inferring a template twice gives the same dims.
 */
#ifndef CRN_TENSOR_DIM_H
#define CRN_TENSOR_DIM_H

#include "base/arena.h"
#include "base/map.h"
#include "value/value.h"

typedef enum crn_dim_kind { CRN_DIM_BATCH, CRN_DIM_SPATIAL, CRN_DIM_FEATURE } crn_dim_kind;

typedef struct crn_dim {
  crn_dim_kind kind;
  int64_t size;     /* -1 = dynamic */
  const char *name; /* description, e.g. "time:var:extern_data:data"; "stag:NAME" looks here */
  int id;           /* order of creation in its table */
  bool is_auto;     /* made by the engine, not named by the user (rules for size 1 and from version 16) */
  const char *op;   /* derived: operation, else NULL */
  const struct crn_dim *arg[2];
  int64_t p[3];
} crn_dim;

typedef struct crn_dims {
  crn_arena *arena;
  crn_map by_key;
  int n;
  const crn_dim *batch; /* the batch dim */
} crn_dims;

crn_status crn_dims_init(crn_dims *d, crn_arena *arena, crn_err *err);
void crn_dims_deinit(crn_dims *d);

/* All return NULL only when memory is out. name NULL: "owner:slot". */
const crn_dim *crn_dim_new(crn_dims *d, const char *owner, const char *slot, crn_dim_kind kind, int64_t size,
                           const char *name);
/* op with up to two dims (may be NULL) and three numbers, e.g. ("conv", in, NULL, filter, stride, pad). A size >= 0 makes
 * it fixed. */
const crn_dim *crn_dim_derive(crn_dims *d, const char *op, const crn_dim *a, const crn_dim *b, int64_t p0, int64_t p1,
                              int64_t p2, crn_dim_kind kind, int64_t size);
/* The user's dim object of a config value (CRN_V_DIM): same id, same dim. */
const crn_dim *crn_dim_of_value(crn_dims *d, const crn_value *v);
/* Same dim but of another kind (identity is kept in matching: crn_dim_same looks through). */
const crn_dim *crn_dim_as_kind(crn_dims *d, const crn_dim *dim, crn_dim_kind kind);
bool crn_dim_same(const crn_dim *a, const crn_dim *b);

static inline bool crn_dim_is_dynamic(const crn_dim *d) { return d->size < 0 && d->kind != CRN_DIM_BATCH; }
/* "B", "T" (dynamic), "S(3)", "F(5)": the letters of the vectors. */
const char *crn_dim_letters(const crn_dim *d, char buf[32]);

#endif
