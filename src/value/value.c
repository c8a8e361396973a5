/* SPDX-License-Identifier: Apache-2.0
 *
 * Building, reading and comparing value trees. Comparison and hashing follow Python: 1 == 1.0 == True, a list is never
 * equal to a tuple, sets and dicts ignore order. Small dicts are searched one by one; from INDEX_FROM entries on a hash
 * table of positions is kept beside them.
 */
#include "value/value.h"

#include "base/map.h"

#include <math.h>
#include <string.h>

enum { INDEX_FROM = 16 };

static crn_value *value_new(crn_arena *a, crn_vkind kind) {
  crn_value *v = CRN_ARENA_NEW(a, crn_value);
  if (v) v->kind = kind;
  return v;
}

crn_value *crn_v_none(crn_arena *a) { return value_new(a, CRN_V_NONE); }

crn_value *crn_v_bool(crn_arena *a, bool b) {
  crn_value *v = value_new(a, CRN_V_BOOL);
  if (v) v->u.b = b;
  return v;
}

crn_value *crn_v_int(crn_arena *a, int64_t i) {
  crn_value *v = value_new(a, CRN_V_INT);
  if (v) v->u.i = i;
  return v;
}

crn_value *crn_v_float(crn_arena *a, double f) {
  crn_value *v = value_new(a, CRN_V_FLOAT);
  if (v) v->u.f = f;
  return v;
}

crn_value *crn_v_strn(crn_arena *a, const char *s, size_t n) {
  if (!s) return NULL;
  crn_value *v = value_new(a, CRN_V_STR);
  if (!v) return NULL;
  v->u.s.p = crn_arena_strndup(a, s, n);
  v->u.s.len = n;
  return v->u.s.p ? v : NULL;
}

crn_value *crn_v_str(crn_arena *a, const char *s) { return s ? crn_v_strn(a, s, strlen(s)) : NULL; }

crn_value *crn_v_seq(crn_arena *a, crn_vkind kind) { return value_new(a, kind); }

crn_value *crn_v_dict(crn_arena *a) { return value_new(a, CRN_V_DICT); }

/* A copy of the pointer array p (n used) with room for more; the old one stays in the arena. */
static crn_value **grow_array(crn_arena *a, crn_value **p, size_t n, size_t cap) {
  crn_value **q = CRN_ARENA_ARRAY(a, crn_value *, cap);
  if (q && n) memcpy(q, p, n * sizeof *q);
  return q;
}

bool crn_v_push(crn_arena *a, crn_value *seq, crn_value *item) {
  if (!crn_v_is_seq(seq) || !item) return false;
  if (seq->u.seq.n == seq->u.seq.cap) {
    size_t cap = seq->u.seq.cap ? seq->u.seq.cap * 2 : 4;
    crn_value **items = grow_array(a, seq->u.seq.items, seq->u.seq.n, cap);
    if (!items) return false;
    seq->u.seq.items = items;
    seq->u.seq.cap = cap;
  }
  seq->u.seq.items[seq->u.seq.n++] = item;
  return true;
}

/* ---- numbers ---- */

bool crn_v_to_int(const crn_value *v, int64_t *out) {
  if (!v) return false;
  if (v->kind == CRN_V_BOOL)
    *out = v->u.b;
  else if (v->kind == CRN_V_INT)
    *out = v->u.i;
  else if (v->kind == CRN_V_FLOAT && v->u.f == floor(v->u.f) && fabs(v->u.f) < 0x1p31)
    *out = (int64_t)v->u.f;
  else
    return false;
  return true;
}

bool crn_v_to_float(const crn_value *v, double *out) {
  if (!v) return false;
  if (v->kind == CRN_V_BOOL)
    *out = v->u.b;
  else if (v->kind == CRN_V_INT)
    *out = (double)v->u.i;
  else if (v->kind == CRN_V_FLOAT)
    *out = v->u.f;
  else
    return false;
  return true;
}

/* ---- comparison and hashing ---- */

static bool numbers_equal(const crn_value *a, const crn_value *b) {
  int64_t ia = 0, ib = 0;
  double fa = 0, fb = 0;
  if (crn_v_to_int(a, &ia) && crn_v_to_int(b, &ib)) return ia == ib;
  return crn_v_to_float(a, &fa) && crn_v_to_float(b, &fb) && fa == fb;
}

static bool strings_equal(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool seqs_equal(const crn_value *a, const crn_value *b) {
  if (a->u.seq.n != b->u.seq.n) return false;
  for (size_t i = 0; i < a->u.seq.n; i++)
    if (!crn_v_equal(a->u.seq.items[i], b->u.seq.items[i])) return false;
  return true;
}

static bool seq_holds(const crn_value *seq, const crn_value *item) {
  for (size_t i = 0; i < seq->u.seq.n; i++)
    if (crn_v_equal(seq->u.seq.items[i], item)) return true;
  return false;
}

static bool seq_within(const crn_value *a, const crn_value *b) {
  for (size_t i = 0; i < a->u.seq.n; i++)
    if (!seq_holds(b, a->u.seq.items[i])) return false;
  return true;
}

static bool arrays_equal(const crn_varray *a, const crn_varray *b) {
  if (a->rank != b->rank || !strings_equal(a->dtype, b->dtype)) return false;
  int64_t n = 1;
  for (int i = 0; i < a->rank; i++) {
    if (a->shape[i] != b->shape[i]) return false;
    n *= a->shape[i];
  }
  for (int64_t i = 0; i < n; i++)
    if (a->data[i] != b->data[i]) return false;
  return true;
}

static const char *dim_id(const crn_vdim *d) { return d->id ? d->id : d->name; }

static uint64_t hash_value(const crn_value *v) {
  double f = 0;
  if (crn_v_to_float(v, &f)) {
    if (f == 0) f = 0; /* -0.0 == 0.0 */
    return crn_hash(&f, sizeof f);
  }
  if (v->kind == CRN_V_STR) return crn_hash(v->u.s.p, v->u.s.len);
  uint64_t h = (uint64_t)v->kind;
  if (v->kind == CRN_V_TUPLE)
    for (size_t i = 0; i < v->u.seq.n; i++) h = h * 1000003u + hash_value(v->u.seq.items[i]);
  return h;
}

/* Position of key in the dict, or n if absent. */
static size_t dict_find(const crn_value *d, const crn_value *key) {
  size_t n = d->u.dict.n;
  if (!d->u.dict.index) {
    for (size_t i = 0; i < n; i++)
      if (crn_v_equal(d->u.dict.keys[i], key)) return i;
    return n;
  }
  size_t mask = d->u.dict.n_index - 1;
  for (size_t s = (size_t)hash_value(key) & mask; d->u.dict.index[s]; s = (s + 1) & mask) {
    size_t i = d->u.dict.index[s] - 1;
    if (crn_v_equal(d->u.dict.keys[i], key)) return i;
  }
  return n;
}

static bool dicts_equal(const crn_value *a, const crn_value *b) {
  if (a->u.dict.n != b->u.dict.n) return false;
  for (size_t i = 0; i < a->u.dict.n; i++) {
    size_t k = dict_find(b, a->u.dict.keys[i]);
    if (k == b->u.dict.n || !crn_v_equal(a->u.dict.vals[i], b->u.dict.vals[k])) return false;
  }
  return true;
}

bool crn_v_equal(const crn_value *a, const crn_value *b) {
  if (crn_v_is_none(a) || crn_v_is_none(b)) return crn_v_is_none(a) && crn_v_is_none(b);
  if (crn_v_is_number(a) && crn_v_is_number(b)) return numbers_equal(a, b);
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case CRN_V_STR:
    return a->u.s.len == b->u.s.len && memcmp(a->u.s.p, b->u.s.p, a->u.s.len) == 0;
  case CRN_V_LIST:
  case CRN_V_TUPLE:
    return seqs_equal(a, b);
  case CRN_V_SET:
    return seq_within(a, b) && seq_within(b, a);
  case CRN_V_DICT:
    return dicts_equal(a, b);
  case CRN_V_DIM:
    return strings_equal(dim_id(&a->u.dim), dim_id(&b->u.dim));
  case CRN_V_ARRAY:
    return arrays_equal(&a->u.array, &b->u.array);
  default:
    return strings_equal(a->u.obj.name, b->u.obj.name) && a->u.obj.host == b->u.obj.host;
  }
}

bool crn_v_hashable(const crn_value *v) {
  if (!v) return false;
  switch (v->kind) {
  case CRN_V_LIST:
  case CRN_V_SET:
  case CRN_V_DICT:
  case CRN_V_ARRAY:
    return false;
  case CRN_V_TUPLE:
    for (size_t i = 0; i < v->u.seq.n; i++)
      if (!crn_v_hashable(v->u.seq.items[i])) return false;
    return true;
  default:
    return true;
  }
}

/* ---- dicts ---- */

static void index_enter(crn_value *d, size_t i) {
  size_t mask = d->u.dict.n_index - 1;
  size_t s = (size_t)hash_value(d->u.dict.keys[i]) & mask;
  while (d->u.dict.index[s]) s = (s + 1) & mask;
  d->u.dict.index[s] = (uint32_t)(i + 1);
}

static bool index_build(crn_arena *a, crn_value *d) {
  size_t n_index = 64;
  while (n_index < d->u.dict.cap * 2) n_index *= 2;
  uint32_t *index = CRN_ARENA_ARRAY(a, uint32_t, n_index);
  if (!index) return false;
  d->u.dict.index = index;
  d->u.dict.n_index = n_index;
  for (size_t i = 0; i < d->u.dict.n; i++) index_enter(d, i);
  return true;
}

bool crn_v_put_value(crn_arena *a, crn_value *dict, crn_value *key, crn_value *val) {
  if (!crn_v_is_dict(dict) || !key || !val) return false;
  size_t i = dict_find(dict, key);
  if (i < dict->u.dict.n) {
    dict->u.dict.vals[i] = val;
    return true;
  }
  if (dict->u.dict.n == dict->u.dict.cap) {
    size_t cap = dict->u.dict.cap ? dict->u.dict.cap * 2 : 4;
    crn_value **keys = grow_array(a, dict->u.dict.keys, dict->u.dict.n, cap);
    crn_value **vals = grow_array(a, dict->u.dict.vals, dict->u.dict.n, cap);
    if (!keys || !vals || cap > UINT32_MAX / 4) return false;
    dict->u.dict.keys = keys;
    dict->u.dict.vals = vals;
    dict->u.dict.cap = cap;
    dict->u.dict.index = NULL;
  }
  if (!dict->u.dict.index && dict->u.dict.n >= INDEX_FROM && !index_build(a, dict)) return false;
  dict->u.dict.keys[dict->u.dict.n] = key;
  dict->u.dict.vals[dict->u.dict.n] = val;
  dict->u.dict.n++;
  if (dict->u.dict.index) index_enter(dict, dict->u.dict.n - 1);
  return true;
}

static crn_value string_key(const char *s) {
  crn_value v = {.kind = CRN_V_STR};
  v.u.s.p = s;
  v.u.s.len = strlen(s);
  return v;
}

bool crn_v_put(crn_arena *a, crn_value *dict, const char *key, crn_value *val) {
  if (!crn_v_is_dict(dict) || !val) return false;
  crn_value probe = string_key(key);
  size_t i = dict_find(dict, &probe);
  if (i < dict->u.dict.n) {
    dict->u.dict.vals[i] = val;
    return true;
  }
  return crn_v_put_value(a, dict, crn_v_str(a, key), val);
}

bool crn_v_del(crn_value *dict, const char *key) {
  if (!crn_v_is_dict(dict)) return false;
  crn_value probe = string_key(key);
  size_t i = dict_find(dict, &probe), n = dict->u.dict.n;
  if (i == n) return false;
  memmove(dict->u.dict.keys + i, dict->u.dict.keys + i + 1, (n - i - 1) * sizeof(crn_value *));
  memmove(dict->u.dict.vals + i, dict->u.dict.vals + i + 1, (n - i - 1) * sizeof(crn_value *));
  dict->u.dict.n--;
  dict->u.dict.index = NULL; /* positions moved; the next put builds it anew */
  return true;
}

crn_value *crn_v_get(const crn_value *dict, const char *key) {
  if (!crn_v_is_dict(dict)) return NULL;
  crn_value probe = string_key(key);
  size_t i = dict_find(dict, &probe);
  return i < dict->u.dict.n ? dict->u.dict.vals[i] : NULL;
}

/* ---- copies ---- */

static bool copy_array(crn_arena *a, crn_varray *to, const crn_varray *from) {
  size_t n = 1;
  for (int i = 0; i < from->rank; i++) n *= (size_t)from->shape[i];
  int64_t *shape = CRN_ARENA_ARRAY(a, int64_t, from->rank);
  double *data = CRN_ARENA_ARRAY(a, double, n);
  to->rank = from->rank;
  to->dtype = crn_arena_strdup(a, from->dtype);
  if (!shape || !data || (from->dtype && !to->dtype)) return false;
  if (from->rank) memcpy(shape, from->shape, (size_t)from->rank * sizeof *shape);
  if (n) memcpy(data, from->data, n * sizeof *data);
  to->shape = shape;
  to->data = data;
  return true;
}

static bool copy_into(crn_arena *a, crn_value *c, const crn_value *v) {
  switch (v->kind) {
  case CRN_V_STR:
    c->u.s.p = crn_arena_strndup(a, v->u.s.p, v->u.s.len);
    return c->u.s.p != NULL;
  case CRN_V_LIST:
  case CRN_V_TUPLE:
  case CRN_V_SET:
    memset(&c->u, 0, sizeof c->u);
    for (size_t i = 0; i < v->u.seq.n; i++)
      if (!crn_v_push(a, c, crn_v_copy(a, v->u.seq.items[i]))) return false;
    return true;
  case CRN_V_DICT:
    memset(&c->u, 0, sizeof c->u);
    for (size_t i = 0; i < v->u.dict.n; i++)
      if (!crn_v_put_value(a, c, crn_v_copy(a, v->u.dict.keys[i]), crn_v_copy(a, v->u.dict.vals[i]))) return false;
    return true;
  case CRN_V_DIM:
    c->u.dim.name = crn_arena_strdup(a, v->u.dim.name);
    c->u.dim.kind = crn_arena_strdup(a, v->u.dim.kind);
    c->u.dim.id = crn_arena_strdup(a, v->u.dim.id);
    return !a->failed;
  case CRN_V_ARRAY:
    return copy_array(a, &c->u.array, &v->u.array);
  case CRN_V_CALLABLE:
  case CRN_V_OBJECT:
    c->u.obj.name = crn_arena_strdup(a, v->u.obj.name);
    return c->u.obj.name || !v->u.obj.name;
  default:
    return true; /* None, bool, int, float: copied with the struct */
  }
}

crn_value *crn_v_copy(crn_arena *a, const crn_value *v) {
  if (!v) return NULL;
  crn_value *c = value_new(a, v->kind);
  if (!c) return NULL;
  *c = *v;
  return copy_into(a, c, v) ? c : NULL;
}

/* ---- tests and access ---- */

bool crn_v_is_none(const crn_value *v) { return !v || v->kind == CRN_V_NONE; }

bool crn_v_is_str(const crn_value *v) { return v && v->kind == CRN_V_STR; }

bool crn_v_is_seq(const crn_value *v) {
  return v && (v->kind == CRN_V_LIST || v->kind == CRN_V_TUPLE || v->kind == CRN_V_SET);
}

bool crn_v_is_dict(const crn_value *v) { return v && v->kind == CRN_V_DICT; }

bool crn_v_is_number(const crn_value *v) {
  return v && (v->kind == CRN_V_BOOL || v->kind == CRN_V_INT || v->kind == CRN_V_FLOAT);
}

bool crn_v_truth(const crn_value *v) {
  double f = 0;
  if (crn_v_is_none(v)) return false;
  if (crn_v_to_float(v, &f)) return f != 0; /* nan is true */
  if (v->kind == CRN_V_STR) return v->u.s.len > 0;
  if (crn_v_is_seq(v) || crn_v_is_dict(v)) return crn_v_len(v) > 0;
  return true;
}

const char *crn_v_cstr(const crn_value *v) { return crn_v_is_str(v) ? v->u.s.p : NULL; }

size_t crn_v_len(const crn_value *v) {
  if (crn_v_is_seq(v)) return v->u.seq.n;
  return crn_v_is_dict(v) ? v->u.dict.n : 0;
}

crn_value *crn_v_at(const crn_value *seq, size_t i) {
  return crn_v_is_seq(seq) && i < seq->u.seq.n ? seq->u.seq.items[i] : NULL;
}

const char *crn_v_kind_name(const crn_value *v) {
  if (crn_v_is_none(v)) return "NoneType";
  switch (v->kind) {
  case CRN_V_BOOL:
    return "bool";
  case CRN_V_INT:
    return "int";
  case CRN_V_FLOAT:
    return "float";
  case CRN_V_STR:
    return "str";
  case CRN_V_LIST:
    return "list";
  case CRN_V_TUPLE:
    return "tuple";
  case CRN_V_SET:
    return "set";
  case CRN_V_DICT:
    return "dict";
  case CRN_V_DIM:
    return "Dim";
  case CRN_V_ARRAY:
    return "ndarray";
  case CRN_V_CALLABLE:
    return "function";
  default:
    return v->u.obj.name ? v->u.obj.name : "object";
  }
}
