/* SPDX-License-Identifier: Apache-2.0
 *
 * Dims: one table a network, keyed by text that says how the dim came about.
 */
#include "tensor/dim.h"

#include <stdio.h>
#include <string.h>

static crn_dim *dim_add(crn_dims *d, const char *key, crn_dim_kind kind, int64_t size, const char *name) {
  crn_dim *x = CRN_ARENA_NEW(d->arena, crn_dim);
  if (!x) return NULL;
  x->kind = kind;
  x->size = size;
  x->name = name ? crn_arena_strdup(d->arena, name) : crn_arena_strdup(d->arena, key);
  x->id = d->n++;
  x->is_auto = true;
  if (!x->name || crn_map_set(&d->by_key, key, x) != CRN_OK) return NULL;
  return x;
}

crn_status crn_dims_init(crn_dims *d, crn_arena *arena, crn_err *err) {
  memset(d, 0, sizeof(*d));
  d->arena = arena;
  d->batch = dim_add(d, "batch", CRN_DIM_BATCH, -1, "batch");
  return d->batch ? CRN_OK : crn_err_memory(err);
}

void crn_dims_deinit(crn_dims *d) { crn_map_free(&d->by_key); }

const crn_dim *crn_dim_new(crn_dims *d, const char *owner, const char *slot, crn_dim_kind kind, int64_t size,
                           const char *name) {
  char *key = crn_arena_printf(d->arena, "%s:%s", owner, slot);
  if (!key) return NULL;
  char *full = crn_arena_printf(d->arena, "n|%s|%d|%lld", key, (int)kind, (long long)size);
  if (!full) return NULL;
  crn_dim *x = crn_map_get(&d->by_key, full);
  return x ? x : dim_add(d, full, kind, size, name ? name : key);
}

/* Frames that an operation adds on the left and on the right (taken away: negative). */
static bool adds_frames(const char *op, int64_t p0, int64_t p1, int64_t *left, int64_t *right) {
  const bool pad = op && !strcmp(op, "pad"), window = op && !strcmp(op, "window") && p1 == 1;
  *left = pad ? p0 : -(p0 / 2);
  *right = pad ? p1 : -(p0 - p0 / 2);
  return pad || window;
}

const crn_dim *crn_dim_derive(crn_dims *d, const char *op, const crn_dim *a, const crn_dim *b, int64_t p0, int64_t p1,
                              int64_t p2, crn_dim_kind kind, int64_t size) {
  char key[256];
  int64_t left, right, before_left, before_right;
  if (a && !b && size < 0 && a->kind == kind && adds_frames(op, p0, p1, &left, &right)) { /* added up; none: the same dim */
    if (adds_frames(a->op, a->p[0], a->p[1], &before_left, &before_right)) {
      left += before_left;
      right += before_right;
      a = a->arg[0];
    }
    if (!left && !right) return a;
    op = "pad", p0 = left, p1 = right, p2 = 0;
  }
  (void)snprintf(key, sizeof(key), "d|%.100s|%d|%d|%lld|%lld|%lld|%d|%lld", op, a ? a->id : -1, b ? b->id : -1,
                 (long long)p0, (long long)p1, (long long)p2, (int)kind, (long long)size);
  crn_dim *x = crn_map_get(&d->by_key, key);
  if (x) return x;
  const char *name = crn_arena_printf(d->arena, "%s:%s", a ? a->name : "", op);
  x = name ? dim_add(d, key, kind, size, name) : NULL;
  if (!x) return NULL;
  x->op = crn_arena_strdup(d->arena, op);
  x->arg[0] = a;
  x->arg[1] = b;
  x->p[0] = p0;
  x->p[1] = p1;
  x->p[2] = p2;
  return x;
}

const crn_dim *crn_dim_of_value(crn_dims *d, const crn_value *v) {
  if (!v || v->kind != CRN_V_DIM) return NULL;
  const crn_vdim *u = &v->u.dim;
  const char *id = u->id ? u->id : u->name ? u->name : "?";
  if (u->kind && !strcmp(u->kind, "batch")) return d->batch;
  char key[256]; /* looked up without memory of its own: sessions do so in parallel */
  (void)snprintf(key, sizeof(key), "u|%.250s", id);
  crn_dim *x = crn_map_get(&d->by_key, key);
  if (x) return x;
  crn_dim_kind kind = u->kind && !strcmp(u->kind, "feature") ? CRN_DIM_FEATURE : CRN_DIM_SPATIAL;
  x = dim_add(d, key, kind, u->size, u->name ? u->name : id);
  if (x) x->is_auto = false;
  return x;
}

const crn_dim *crn_dim_as_kind(crn_dims *d, const crn_dim *dim, crn_dim_kind kind) {
  if (dim->kind == kind) return dim;
  if (dim->op && !strcmp(dim->op, "as_kind") && dim->arg[0]->kind == kind) return dim->arg[0];
  return crn_dim_derive(d, "as_kind", dim, NULL, (int64_t)kind, 0, 0, kind, dim->size);
}

static const crn_dim *root_of(const crn_dim *d) {
  while (d->op && !strcmp(d->op, "as_kind")) d = d->arg[0];
  return d;
}

bool crn_dim_same(const crn_dim *a, const crn_dim *b) {
  if (a == b) return true;
  return a && b && root_of(a) == root_of(b);
}

const char *crn_dim_letters(const crn_dim *d, char buf[32]) {
  if (d->kind == CRN_DIM_BATCH) return "B";
  if (d->size < 0) return "T";
  (void)snprintf(buf, 32, "%c(%lld)", d->kind == CRN_DIM_FEATURE ? 'F' : 'S', (long long)d->size);
  return buf;
}
