/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON to values. jansson reads the text (and keeps the order of keys); this file turns its tree into ours and decodes
 * the objects that stand for Python things which JSON lacks: {"__tuple__": […]} and the like.
 */
#include "value/value.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

typedef struct reader {
  crn_arena *arena;
  crn_err *err;
  int depth;
} reader;

static crn_status convert(reader *r, json_t *j, crn_value **out);

static const char *json_kind(const json_t *j) {
  switch (json_typeof(j)) {
  case JSON_OBJECT:
    return "an object";
  case JSON_ARRAY:
    return "a list";
  case JSON_STRING:
    return "a string";
  case JSON_INTEGER:
    return "an integer";
  case JSON_REAL:
    return "a number";
  case JSON_NULL:
    return "null";
  default:
    return "true or false";
  }
}

static crn_status expected(reader *r, const char *what, const json_t *j) {
  return crn_fail(r->err, CRN_E_FORMAT, "expected %s, got %s", what, json_kind(j));
}

static crn_status given(reader *r, crn_value *v, crn_value **out) {
  *out = v;
  return v ? CRN_OK : crn_err_memory(r->err);
}

/* ---- encoded values: each gets the object and the value of its "__…__" key ---- */

static crn_status decode_seq(reader *r, json_t *list, crn_vkind kind, crn_value **out) {
  if (!json_is_array(list)) return expected(r, "a list", list);
  crn_value *seq = crn_v_seq(r->arena, kind);
  for (size_t i = 0; i < json_array_size(list); i++) {
    crn_value *item = NULL;
    crn_status status = convert(r, json_array_get(list, i), &item);
    if (status == CRN_OK && kind == CRN_V_SET && !crn_v_hashable(item))
      status = crn_fail(r->err, CRN_E_FORMAT, "a %s can't be in a set", crn_v_kind_name(item));
    if (status != CRN_OK) {
      crn_err_where(r->err, "[%zu]", i);
      return status;
    }
    bool twice = false;
    for (size_t k = 0; seq && kind == CRN_V_SET && k < seq->u.seq.n && !twice; k++)
      twice = crn_v_equal(seq->u.seq.items[k], item);
    if (!twice && !crn_v_push(r->arena, seq, item)) return crn_err_memory(r->err);
  }
  return given(r, seq, out);
}

static crn_status decode_list(reader *r, json_t *object, json_t *j, crn_value **out) {
  (void)object;
  return decode_seq(r, j, CRN_V_LIST, out);
}

static crn_status decode_tuple(reader *r, json_t *object, json_t *j, crn_value **out) {
  (void)object;
  return decode_seq(r, j, CRN_V_TUPLE, out);
}

static crn_status decode_set(reader *r, json_t *object, json_t *j, crn_value **out) {
  (void)object;
  return decode_seq(r, j, CRN_V_SET, out);
}

static crn_status decode_dict(reader *r, json_t *object, json_t *j, crn_value **out) {
  (void)object;
  if (!json_is_array(j)) return expected(r, "a list of [key, value] pairs", j);
  crn_value *dict = crn_v_dict(r->arena);
  for (size_t i = 0; i < json_array_size(j); i++) {
    json_t *pair = json_array_get(j, i);
    if (!json_is_array(pair) || json_array_size(pair) != 2) return expected(r, "[key, value] pairs", pair);
    crn_value *key = NULL, *val = NULL;
    CRN_TRY(convert(r, json_array_get(pair, 0), &key));
    CRN_TRY(convert(r, json_array_get(pair, 1), &val));
    if (!crn_v_hashable(key)) return crn_fail(r->err, CRN_E_FORMAT, "a %s can't be a dict's key", crn_v_kind_name(key));
    if (!crn_v_put_value(r->arena, dict, key, val)) return crn_err_memory(r->err);
  }
  return given(r, dict, out);
}

static crn_status decode_float(reader *r, json_t *object, json_t *j, crn_value **out) {
  (void)object;
  static const struct {
    const char *name;
    double value;
  } specials[] = {{"inf", INFINITY}, {"+inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}, {"-nan", NAN}};
  if (json_is_number(j)) return given(r, crn_v_float(r->arena, json_number_value(j)), out);
  const char *name = json_string_value(j);
  if (!name) return expected(r, "\"inf\", \"-inf\" or \"nan\"", j);
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (strcmp(name, specials[i].name) == 0) return given(r, crn_v_float(r->arena, specials[i].value), out);
  return crn_fail(r->err, CRN_E_FORMAT, "expected \"inf\", \"-inf\" or \"nan\", got \"%s\"", name);
}

enum { MAX_RANK = 16 };

typedef struct array_reader {
  reader *r;
  int rank;
  int64_t shape[MAX_RANK];
  double *data;
  size_t next;
} array_reader;

static crn_status array_element(array_reader *ar, json_t *j) {
  crn_value *v = NULL;
  double x = 0;
  CRN_TRY(convert(ar->r, j, &v));
  if (!crn_v_to_float(v, &x)) return expected(ar->r, "a number", j);
  ar->data[ar->next++] = x;
  return CRN_OK;
}

static crn_status array_axis(array_reader *ar, json_t *j, int axis) {
  if (axis == ar->rank) return array_element(ar, j);
  if (!json_is_array(j) || (int64_t)json_array_size(j) != ar->shape[axis])
    return crn_fail(ar->r->err, CRN_E_FORMAT, "axis %d of the array: expected a list of %lld items as before", axis,
                    (long long)ar->shape[axis]);
  for (size_t i = 0; i < json_array_size(j); i++) CRN_TRY(array_axis(ar, json_array_get(j, i), axis + 1));
  return CRN_OK;
}

/* Elements that are really there; a ragged list's first items may promise more than the others hold. */
static size_t count_elements(json_t *j, int levels) {
  if (levels == 0 || !json_is_array(j)) return 1;
  size_t n = 0;
  for (size_t i = 0; i < json_array_size(j); i++) n += count_elements(json_array_get(j, i), levels - 1);
  return n;
}

static crn_status decode_array(reader *r, json_t *object, json_t *j, crn_value **out) {
  array_reader ar = {.r = r};
  size_t n = 1;
  for (json_t *level = j; json_is_array(level); level = json_array_get(level, 0)) {
    if (ar.rank == MAX_RANK) return crn_fail(r->err, CRN_E_FORMAT, "array with more than %d axes", MAX_RANK);
    size_t size = json_array_size(level);
    ar.shape[ar.rank++] = (int64_t)size;
    if (size > 0 && n > SIZE_MAX / 16 / size) return crn_fail(r->err, CRN_E_FORMAT, "array too large");
    n *= size;
  }
  json_t *dtype = json_object_get(object, "dtype");
  if (dtype && !json_is_string(dtype)) return expected(r, "'dtype' as a string", dtype);
  if (count_elements(j, ar.rank) != n) return crn_fail(r->err, CRN_E_FORMAT, "lists of unequal length in an array");
  crn_value *v = crn_v_seq(r->arena, CRN_V_ARRAY);
  int64_t *shape = CRN_ARENA_ARRAY(r->arena, int64_t, ar.rank);
  ar.data = CRN_ARENA_ARRAY(r->arena, double, n);
  if (!v || !shape || !ar.data) return crn_err_memory(r->err);
  if (ar.rank) memcpy(shape, ar.shape, (size_t)ar.rank * sizeof *shape);
  if (n > 0) CRN_TRY(array_axis(&ar, j, 0));
  v->u.array = (crn_varray){.rank = ar.rank, .shape = shape, .data = ar.data};
  v->u.array.dtype = crn_arena_strdup(r->arena, dtype ? json_string_value(dtype) : "float64");
  return given(r, v->u.array.dtype ? v : NULL, out);
}

/* null: dynamic */
static crn_status dim_size(reader *r, const json_t *j, int64_t *size) {
  *size = -1;
  if (!j || json_is_null(j)) return CRN_OK;
  if (!json_is_integer(j) || json_integer_value(j) < 0)
    return crn_fail(r->err, CRN_E_FORMAT, "size of a dim: expected integer >= 0 or null");
  *size = json_integer_value(j);
  return CRN_OK;
}

static crn_status dim_kind(reader *r, const json_t *j, const char **kind) {
  static const char *const kinds[] = {"batch", "spatial", "time", "feature"};
  *kind = NULL;
  if (!j || json_is_null(j)) return CRN_OK;
  const char *name = json_string_value(j);
  for (size_t i = 0; name && i < 4; i++)
    if (strcmp(name, kinds[i]) == 0) *kind = kinds[i];
  if (*kind) return CRN_OK;
  return crn_fail(r->err, CRN_E_FORMAT, "kind of a dim: expected batch, spatial, time or feature, got %s",
                  name ? name : json_kind(j));
}

/* {"__dim__": name, "size", "kind", "id"} or {"__dim__": {"kind", "name", "dim"}} */
static crn_status decode_dim(reader *r, json_t *object, json_t *j, crn_value **out) {
  crn_value *v = crn_v_seq(r->arena, CRN_V_DIM);
  if (!v) return crn_err_memory(r->err);
  crn_vdim *d = &v->u.dim;
  json_t *name = j, *id = NULL;
  if (json_is_object(j)) {
    name = json_object_get(j, "name");
    CRN_TRY(dim_size(r, json_object_get(j, "dim"), &d->size));
    CRN_TRY(dim_kind(r, json_object_get(j, "kind"), &d->kind));
  } else {
    id = json_object_get(object, "id");
    CRN_TRY(dim_size(r, json_object_get(object, "size"), &d->size));
    CRN_TRY(dim_kind(r, json_object_get(object, "kind"), &d->kind));
  }
  if (name && !json_is_string(name) && !json_is_null(name)) return expected(r, "a dim's name as a string", name);
  const char *text = json_string_value(name);
  d->name = crn_arena_strdup(r->arena, text ? text : "");
  if (json_is_string(id))
    d->id = crn_arena_strdup(r->arena, json_string_value(id));
  else if (json_is_integer(id))
    d->id = crn_arena_printf(r->arena, "%lld", (long long)json_integer_value(id));
  else if (id && !json_is_null(id))
    return expected(r, "a dim's id as integer or string", id);
  return given(r, r->arena->failed ? NULL : v, out);
}

static crn_status decode_named(reader *r, json_t *j, crn_vkind kind, crn_value **out) {
  if (!json_is_string(j)) return expected(r, "a name", j);
  crn_value *v = crn_v_seq(r->arena, kind);
  if (v) v->u.obj.name = crn_arena_strdup(r->arena, json_string_value(j));
  return given(r, v && v->u.obj.name ? v : NULL, out);
}

static crn_status decode_callable(reader *r, json_t *object, json_t *j, crn_value **out) {
  (void)object;
  return decode_named(r, j, CRN_V_CALLABLE, out);
}

static crn_status decode_object(reader *r, json_t *object, json_t *j, crn_value **out) {
  (void)object;
  return decode_named(r, j, CRN_V_OBJECT, out);
}

static const struct {
  const char *key;
  crn_status (*decode)(reader *r, json_t *object, json_t *j, crn_value **out);
  const char *also[3]; /* keys that may stand beside it */
} encodings[] = {
    {"__tuple__", decode_tuple, {NULL}},
    {"__list__", decode_list, {NULL}},
    {"__set__", decode_set, {NULL}},
    {"__dict__", decode_dict, {NULL}},
    {"__float__", decode_float, {NULL}},
    {"__ndarray__", decode_array, {"dtype"}},
    {"__dim__", decode_dim, {"size", "kind", "id"}},
    {"__callable__", decode_callable, {NULL}},
    {"__object__", decode_object, {NULL}},
    {"__stub__", decode_object, {NULL}},
};

static bool may_stand_beside(size_t encoding, const char *key) {
  for (size_t i = 0; i < 3 && encodings[encoding].also[i]; i++)
    if (strcmp(encodings[encoding].also[i], key) == 0) return true;
  return strcmp(encodings[encoding].key, key) == 0;
}

static crn_status decode(reader *r, json_t *object, size_t encoding, crn_value **out) {
  const char *key = NULL;
  json_t *unused = NULL;
  json_object_foreach(object, key, unused) {
    if (!may_stand_beside(encoding, key))
      return crn_fail(r->err, CRN_E_FORMAT, "key \"%s\" beside \"%s\"", key, encodings[encoding].key);
  }
  crn_status status = encodings[encoding].decode(r, object, json_object_get(object, encodings[encoding].key), out);
  if (status != CRN_OK) crn_err_where(r->err, "%s", encodings[encoding].key);
  return status;
}

/* ---- plain values ---- */

static crn_status convert_object(reader *r, json_t *j, crn_value **out) {
  for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
    if (json_object_get(j, encodings[i].key)) return decode(r, j, i, out);
  crn_value *dict = crn_v_dict(r->arena);
  const char *key = NULL;
  json_t *item = NULL;
  json_object_foreach(j, key, item) {
    crn_value *val = NULL;
    crn_status status = convert(r, item, &val);
    if (status != CRN_OK) {
      crn_err_where(r->err, "'%s'", key);
      return status;
    }
    if (!crn_v_put(r->arena, dict, key, val)) return crn_err_memory(r->err);
  }
  return given(r, dict, out);
}

static crn_status convert_nested(reader *r, json_t *j, crn_value **out) {
  if (r->depth == CRN_V_MAX_DEPTH)
    return crn_fail(r->err, CRN_E_FORMAT, "nested deeper than %d levels", CRN_V_MAX_DEPTH);
  r->depth++;
  crn_status status = json_is_array(j) ? decode_seq(r, j, CRN_V_LIST, out) : convert_object(r, j, out);
  r->depth--;
  return status;
}

static crn_status convert(reader *r, json_t *j, crn_value **out) {
  switch (json_typeof(j)) {
  case JSON_NULL:
    return given(r, crn_v_none(r->arena), out);
  case JSON_TRUE:
    return given(r, crn_v_bool(r->arena, true), out);
  case JSON_FALSE:
    return given(r, crn_v_bool(r->arena, false), out);
  case JSON_INTEGER:
    return given(r, crn_v_int(r->arena, json_integer_value(j)), out);
  case JSON_REAL:
    return given(r, crn_v_float(r->arena, json_real_value(j)), out);
  case JSON_STRING:
    return given(r, crn_v_strn(r->arena, json_string_value(j), json_string_length(j)), out);
  default:
    return convert_nested(r, j, out);
  }
}

crn_status crn_v_parse_json(crn_arena *a, const char *text, size_t len, const char *name, crn_value **out,
                            crn_err *err) {
  *out = NULL;
  json_error_t fault;
  json_t *root = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
  if (!root) {
    if (json_error_code(&fault) == json_error_out_of_memory) return crn_err_memory(err);
    return crn_fail(err, CRN_E_FORMAT, "%s:%d:%d: %s", name, fault.line, fault.column, fault.text);
  }
  reader r = {.arena = a, .err = err};
  crn_status status = convert(&r, root, out);
  json_decref(root);
  if (status != CRN_OK) {
    *out = NULL;
    crn_err_where(err, "%s", name);
  }
  return status;
}

crn_status crn_v_read_json(crn_arena *a, const char *path, crn_value **out, crn_err *err) {
  char *text = NULL;
  size_t len = 0;
  *out = NULL;
  CRN_TRY(crn_file_read(path, (size_t)1 << 30, &text, &len, err));
  crn_status status = crn_v_parse_json(a, text, len, path, out, err);
  crn_free(text);
  return status;
}
