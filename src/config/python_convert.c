/* SPDX-License-Identifier: Apache-2.0
 *
 * Between Python objects and the value tree. Plain Python values are converted here; what anything else is, the
 * prelude's unpack() says.
 */
#include "config/python_api.h"

#include <string.h>

enum { MAX_DEPTH = 200, MAX_VALUES = 20000000 };

/* Bits of a type's flags that tell a subclass of a plain type (part of Python's stable interface). */
#define IS_LONG (1ul << 24)
#define IS_LIST (1ul << 25)
#define IS_TUPLE (1ul << 26)
#define IS_BYTES (1ul << 27)
#define IS_STR (1ul << 28)
#define IS_DICT (1ul << 29)

typedef struct converter {
  const crn_py_api *py;
  crn_py_refs *refs;
  crn_arena *a;
  crn_err *err;
  int depth;
  int64_t n_values;
} converter;

static crn_status convert(converter *c, PyObj *obj, crn_value **out);

PyObj *crn_py_str(const crn_py_api *py, const char *text) {
  return py->PyUnicode_DecodeUTF8(text, (ptrdiff_t)strlen(text), "surrogateescape");
}

/* Bytes object as memory of the arena. */
static const char *copy_bytes(const crn_py_api *py, PyObj *bytes, crn_arena *a, size_t *len) {
  char *p;
  ptrdiff_t n;
  if (!bytes || py->PyBytes_AsStringAndSize(bytes, &p, &n) != 0) return NULL;
  if (len) *len = (size_t)n;
  return crn_arena_strndup(a, p, (size_t)n);
}

const char *crn_py_text(const crn_py_api *py, PyObj *str, crn_arena *a, size_t *len) {
  PyObj *bytes = str ? py->PyUnicode_AsEncodedString(str, "utf-8", "surrogateescape") : NULL;
  if (!bytes) {
    py->PyErr_Clear();
    bytes = str ? py->PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace") : NULL;
  }
  const char *text = copy_bytes(py, bytes, a, len);
  py->Py_DecRef(bytes);
  py->PyErr_Clear();
  return text;
}

static unsigned long type_flags(const crn_py_api *py, PyObj *obj) {
  PyObj *type = py->PyObject_Type(obj);
  unsigned long flags = py->PyType_GetFlags(type);
  py->Py_DecRef(type);
  return flags;
}

/* ---- Python to value ---- */

static crn_status done(converter *c, crn_value *v, crn_value **out) {
  *out = v;
  return v ? CRN_OK : crn_err_memory(c->err);
}

static crn_status convert_int(converter *c, PyObj *obj, crn_value **out) {
  int overflow = 0;
  long long i = c->py->PyLong_AsLongLongAndOverflow(obj, &overflow);
  if (!overflow) return done(c, crn_v_int(c->a, i), out);
  double f = c->py->PyLong_AsDouble(obj); /* beyond 64 bits: nearest float */
  if (c->py->PyErr_Occurred()) {
    c->py->PyErr_Clear();
    return crn_fail(c->err, CRN_E_CONFIG, "an integer is too large (beyond 1e308)");
  }
  return done(c, crn_v_float(c->a, f), out);
}

static crn_status convert_text(converter *c, PyObj *obj, bool is_bytes, crn_value **out) {
  size_t len = 0;
  const char *p = is_bytes ? copy_bytes(c->py, obj, c->a, &len) : crn_py_text(c->py, obj, c->a, &len);
  return done(c, p ? crn_v_strn(c->a, p, len) : NULL, out);
}

static crn_status convert_seq(converter *c, PyObj *obj, crn_vkind kind, bool is_tuple, crn_value **out) {
  const crn_py_api *py = c->py;
  crn_value *seq = crn_v_seq(c->a, kind);
  for (ptrdiff_t i = 0;; i++) { /* the list can change size: conversion runs Python code */
    if (i >= (is_tuple ? py->PyTuple_Size(obj) : py->PyList_Size(obj))) break;
    PyObj *item = is_tuple ? py->PyTuple_GetItem(obj, i) : py->PyList_GetItem(obj, i);
    crn_value *v;
    CRN_TRY(convert(c, item, &v));
    if (!crn_v_push(c->a, seq, v)) return crn_err_memory(c->err);
  }
  return done(c, seq, out);
}

static crn_status convert_dict(converter *c, PyObj *obj, crn_value **out) {
  crn_value *dict = crn_v_dict(c->a);
  ptrdiff_t at = 0;
  PyObj *key, *val;
  while (c->py->PyDict_Next(obj, &at, &key, &val)) {
    crn_value *k, *v;
    CRN_TRY(convert(c, key, &k));
    CRN_TRY(convert(c, val, &v));
    if (!crn_v_put_value(c->a, dict, k, v)) return crn_err_memory(c->err);
  }
  return done(c, dict, out);
}

static int64_t get_int(const crn_py_api *py, PyObj *tuple, ptrdiff_t i) {
  int overflow;
  return py->PyLong_AsLongLongAndOverflow(py->PyTuple_GetItem(tuple, i), &overflow);
}

/* ("dim", name, kind, size, id) */
static crn_status convert_dim(converter *c, PyObj *parts, crn_value **out) {
  const crn_py_api *py = c->py;
  crn_value *v = CRN_ARENA_NEW(c->a, crn_value);
  if (!v) return crn_err_memory(c->err);
  PyObj *kind = py->PyTuple_GetItem(parts, 2);
  v->kind = CRN_V_DIM;
  v->u.dim.name = crn_py_text(py, py->PyTuple_GetItem(parts, 1), c->a, NULL);
  v->u.dim.kind = type_flags(py, kind) & IS_STR ? crn_py_text(py, kind, c->a, NULL) : NULL;
  v->u.dim.size = get_int(py, parts, 3);
  v->u.dim.id = crn_py_text(py, py->PyTuple_GetItem(parts, 4), c->a, NULL);
  return done(c, v->u.dim.name && v->u.dim.id ? v : NULL, out);
}

/* ("array", dtype, shape, bytes of doubles) */
static crn_status convert_array(converter *c, PyObj *parts, crn_value **out) {
  const crn_py_api *py = c->py;
  PyObj *shape = py->PyTuple_GetItem(parts, 2);
  ptrdiff_t rank = py->PyTuple_Size(shape), bytes;
  char *data;
  if (py->PyBytes_AsStringAndSize(py->PyTuple_GetItem(parts, 3), &data, &bytes) != 0) return crn_err_memory(c->err);
  crn_value *v = CRN_ARENA_NEW(c->a, crn_value);
  int64_t *sizes = CRN_ARENA_ARRAY(c->a, int64_t, rank);
  double *copy = crn_arena_alloc(c->a, (size_t)bytes);
  if (!v || !sizes || (bytes && !copy)) return crn_err_memory(c->err);
  for (ptrdiff_t i = 0; i < rank; i++) sizes[i] = get_int(py, shape, i);
  if (bytes) memcpy(copy, data, (size_t)bytes);
  v->kind = CRN_V_ARRAY;
  v->u.array.dtype = crn_py_text(py, py->PyTuple_GetItem(parts, 1), c->a, NULL);
  v->u.array.rank = (int)rank;
  v->u.array.shape = sizes;
  v->u.array.data = copy;
  return done(c, v->u.array.dtype ? v : NULL, out);
}

static crn_status convert_named(converter *c, crn_vkind kind, PyObj *parts, PyObj *obj, crn_value **out) {
  crn_value *v = CRN_ARENA_NEW(c->a, crn_value);
  const char *name = crn_py_text(c->py, c->py->PyTuple_GetItem(parts, 1), c->a, NULL);
  if (!v || !name || (c->refs && !crn_py_refs_add(c->py, c->refs, obj))) return crn_err_memory(c->err);
  v->kind = kind;
  v->u.obj.name = name;
  v->u.obj.host = c->refs ? obj : NULL;
  return done(c, v, out);
}

static crn_status convert_parts(converter *c, const char *kind, PyObj *parts, PyObj *obj, crn_value **out) {
  if (!strcmp(kind, "value")) return convert(c, c->py->PyTuple_GetItem(parts, 1), out);
  if (!strcmp(kind, "set")) return convert_seq(c, c->py->PyTuple_GetItem(parts, 1), CRN_V_SET, false, out);
  if (!strcmp(kind, "dim")) return convert_dim(c, parts, out);
  if (!strcmp(kind, "array")) return convert_array(c, parts, out);
  return convert_named(c, !strcmp(kind, "callable") ? CRN_V_CALLABLE : CRN_V_OBJECT, parts, obj, out);
}

static crn_status convert_other(converter *c, PyObj *obj, crn_value **out) {
  c->py->Py_IncRef(obj);
  PyObj *parts = crn_py_prelude_call(c->py, "unpack", &obj, 1, c->err);
  if (!parts) return c->err ? c->err->code : CRN_E_CONFIG;
  crn_arena scratch = {0};
  const char *kind = crn_py_text(c->py, c->py->PyTuple_GetItem(parts, 0), &scratch, NULL);
  crn_status status = kind ? convert_parts(c, kind, parts, obj, out) : crn_err_memory(c->err);
  crn_arena_free(&scratch);
  c->py->Py_DecRef(parts);
  return status;
}

static crn_status convert_kind(converter *c, PyObj *obj, crn_value **out) {
  const crn_py_api *py = c->py;
  if (obj == py->none) return done(c, crn_v_none(c->a), out);
  if (obj == py->true_ || obj == py->false_) return done(c, crn_v_bool(c->a, obj == py->true_), out);
  unsigned long flags = type_flags(py, obj);
  if (flags & IS_STR) return convert_text(c, obj, false, out);
  if (flags & IS_BYTES) return convert_text(c, obj, true, out);
  if (flags & IS_LONG) return convert_int(c, obj, out);
  if (flags & IS_DICT) return convert_dict(c, obj, out);
  if (flags & IS_LIST) return convert_seq(c, obj, CRN_V_LIST, false, out);
  if (flags & IS_TUPLE) return convert_seq(c, obj, CRN_V_TUPLE, true, out);
  if (py->PyObject_IsInstance(obj, py->float_type) == 1)
    return done(c, crn_v_float(c->a, py->PyFloat_AsDouble(obj)), out);
  return convert_other(c, obj, out);
}

static crn_status convert(converter *c, PyObj *obj, crn_value **out) {
  if (!obj) return crn_fail(c->err, CRN_E_INTERNAL, "Python host: a value vanished while it was read");
  if (c->depth >= MAX_DEPTH)
    return crn_fail(c->err, CRN_E_CONFIG, "nested deeper than %d levels (a list or dict that contains itself?)",
                    MAX_DEPTH);
  if (++c->n_values > MAX_VALUES) return crn_fail(c->err, CRN_E_CONFIG, "more than %d values", MAX_VALUES);
  c->py->Py_IncRef(obj);
  c->depth++;
  crn_status status = convert_kind(c, obj, out);
  c->depth--;
  c->py->Py_DecRef(obj);
  return status;
}

crn_status crn_py_to_value(const crn_py_api *py, PyObj *obj, crn_py_refs *refs, crn_arena *a, crn_value **out,
                           crn_err *err) {
  converter c = {.py = py, .refs = refs, .a = a, .err = err};
  return convert(&c, obj, out);
}

/* ---- value to Python ---- */

static PyObj *seq_to_python(const crn_py_api *py, const crn_value *v, crn_err *err) {
  size_t n = v->u.seq.n;
  PyObj *seq = v->kind == CRN_V_LIST    ? py->PyList_New((ptrdiff_t)n)
               : v->kind == CRN_V_TUPLE ? py->PyTuple_New((ptrdiff_t)n)
                                        : py->PySet_New(NULL);
  for (size_t i = 0; seq && i < n; i++) {
    PyObj *item = crn_py_from_value(py, v->u.seq.items[i], err);
    int bad = !item;
    if (item && v->kind == CRN_V_LIST) {
      bad = py->PyList_SetItem(seq, (ptrdiff_t)i, item);
    } else if (item && v->kind == CRN_V_TUPLE) {
      bad = py->PyTuple_SetItem(seq, (ptrdiff_t)i, item);
    } else if (item) {
      bad = py->PySet_Add(seq, item);
      py->Py_DecRef(item);
    }
    if (!bad) continue;
    py->Py_DecRef(seq);
    return NULL;
  }
  return seq;
}

static PyObj *dict_to_python(const crn_py_api *py, const crn_value *v, crn_err *err) {
  PyObj *dict = py->PyDict_New();
  for (size_t i = 0; dict && i < v->u.dict.n; i++) {
    PyObj *key = crn_py_from_value(py, v->u.dict.keys[i], err);
    PyObj *val = key ? crn_py_from_value(py, v->u.dict.vals[i], err) : NULL;
    int bad = !val || py->PyDict_SetItem(dict, key, val) != 0;
    py->Py_DecRef(key);
    py->Py_DecRef(val);
    if (!bad) continue;
    py->Py_DecRef(dict);
    return NULL;
  }
  return dict;
}

static PyObj *dim_to_python(const crn_py_api *py, const crn_vdim *d, crn_err *err) {
  if (!d->kind) py->Py_IncRef(py->none);
  PyObj *args[4] = {crn_py_str(py, d->name ? d->name : ""), d->kind ? crn_py_str(py, d->kind) : py->none,
                    py->PyLong_FromLongLong(d->size),
                    crn_py_str(py, d->id     ? d->id
                                   : d->name ? d->name
                                             : "")};
  return crn_py_prelude_call(py, "make_dim", args, 4, err);
}

static PyObj *array_to_python(const crn_py_api *py, const crn_varray *x, crn_err *err) {
  int64_t n = 1;
  PyObj *shape = py->PyTuple_New(x->rank);
  for (int i = 0; shape && i < x->rank; i++) {
    n *= x->shape[i];
    py->PyTuple_SetItem(shape, i, py->PyLong_FromLongLong(x->shape[i]));
  }
  PyObj *args[3] = {crn_py_str(py, x->dtype), shape,
                    py->PyBytes_FromStringAndSize((const char *)x->data, (ptrdiff_t)((size_t)n * sizeof(double)))};
  return crn_py_prelude_call(py, "make_array", args, 3, err);
}

static PyObj *object_to_python(const crn_py_api *py, const crn_value *v, crn_err *err) {
  PyObj *host = v->u.obj.host;
  if (host) {
    py->Py_IncRef(host);
    return host;
  }
  PyObj *name = crn_py_str(py, v->u.obj.name ? v->u.obj.name : "stub");
  return crn_py_prelude_call(py, "make_stub", &name, 1, err);
}

static PyObj *make(const crn_py_api *py, const crn_value *v, crn_err *err) {
  switch (v->kind) {
  case CRN_V_NONE:
    py->Py_IncRef(py->none);
    return py->none;
  case CRN_V_BOOL:
    return py->PyBool_FromLong(v->u.b);
  case CRN_V_INT:
    return py->PyLong_FromLongLong(v->u.i);
  case CRN_V_FLOAT:
    return py->PyFloat_FromDouble(v->u.f);
  case CRN_V_STR:
    return py->PyUnicode_DecodeUTF8(v->u.s.p, (ptrdiff_t)v->u.s.len, "surrogateescape");
  case CRN_V_LIST:
  case CRN_V_TUPLE:
  case CRN_V_SET:
    return seq_to_python(py, v, err);
  case CRN_V_DICT:
    return dict_to_python(py, v, err);
  case CRN_V_DIM:
    return dim_to_python(py, &v->u.dim, err);
  case CRN_V_ARRAY:
    return array_to_python(py, &v->u.array, err);
  case CRN_V_CALLABLE:
  case CRN_V_OBJECT:
    return object_to_python(py, v, err);
  }
  return NULL;
}

PyObj *crn_py_from_value(const crn_py_api *py, const crn_value *v, crn_err *err) {
  PyObj *obj = NULL;
  if (v) {
    obj = make(py, v, err);
  } else {
    py->Py_IncRef(py->none);
    obj = py->none;
  }
  if (!obj) {
    py->PyErr_Clear();
    crn_fail(err, CRN_E_CONFIG, "can't make a Python object of this %s", crn_v_kind_name(v));
  }
  return obj;
}
