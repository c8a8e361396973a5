/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of plain values that configs, network dicts and options are made of.
 *
 * Values live in an arena (the config's); they are never freed one by one. Dicts keep the order of insertion.
 */
#ifndef CRN_VALUE_VALUE_H
#define CRN_VALUE_VALUE_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef enum crn_vkind {
  CRN_V_NONE,
  CRN_V_BOOL,
  CRN_V_INT,
  CRN_V_FLOAT,
  CRN_V_STR,
  CRN_V_LIST,
  CRN_V_TUPLE,
  CRN_V_SET,
  CRN_V_DICT,
  CRN_V_DIM,      /* a dim object: see crn_vdim */
  CRN_V_ARRAY,    /* numeric array: see crn_varray */
  CRN_V_CALLABLE, /* a function of a Python config, named; host holds a handle of the interpreter or NULL */
  CRN_V_OBJECT    /* any other Python object, named by its type */
} crn_vkind;

typedef struct crn_value crn_value;

typedef struct crn_vdim {
  const char *name; /* description */
  const char *kind; /* "batch", "spatial", "time" or "feature"; NULL = not stated */
  int64_t size;     /* -1 = dynamic */
  const char *id;   /* same id = same dim; NULL: name is the id */
} crn_vdim;

typedef struct crn_varray {
  const char *dtype; /* "float32", "int32", … */
  int rank;
  const int64_t *shape;
  const double *data; /* row-major, converted */
} crn_varray;

struct crn_value {
  crn_vkind kind;
  int line; /* line in the source text, 0 = unknown */
  union {
    bool b;
    int64_t i;
    double f;
    struct {
      const char *p; /* NUL-terminated */
      size_t len;
    } s;
    struct { /* LIST, TUPLE, SET */
      crn_value **items;
      size_t n, cap;
    } seq;
    struct { /* DICT; keys may be any hashable value, mostly strings */
      crn_value **keys;
      crn_value **vals;
      size_t n, cap;
      uint32_t *index; /* hash table of positions + 1, n_index of them; NULL while the dict is small */
      size_t n_index;
    } dict;
    crn_vdim dim;
    crn_varray array;
    struct {
      const char *name;
      void *host; /* PyObject* of the interpreter, or NULL */
    } obj;
  } u;
};

/* Constructors; NULL when memory is out (then the arena's sticky flag is set). NULL arguments are passed through. */
crn_value *crn_v_none(crn_arena *a);
crn_value *crn_v_bool(crn_arena *a, bool b);
crn_value *crn_v_int(crn_arena *a, int64_t i);
crn_value *crn_v_float(crn_arena *a, double f);
crn_value *crn_v_str(crn_arena *a, const char *s);
crn_value *crn_v_strn(crn_arena *a, const char *s, size_t n);
crn_value *crn_v_seq(crn_arena *a, crn_vkind kind);
crn_value *crn_v_dict(crn_arena *a);
bool crn_v_push(crn_arena *a, crn_value *seq, crn_value *item);
bool crn_v_put(crn_arena *a, crn_value *dict, const char *key, crn_value *val); /* insert or replace */
bool crn_v_put_value(crn_arena *a, crn_value *dict, crn_value *key, crn_value *val);
bool crn_v_del(crn_value *dict, const char *key);
crn_value *crn_v_copy(crn_arena *a, const crn_value *v); /* deep */

/* Tests and access; v may be NULL (then: not that kind). */
bool crn_v_is_none(const crn_value *v); /* also for NULL */
bool crn_v_is_str(const crn_value *v);
bool crn_v_is_seq(const crn_value *v); /* list, tuple or set */
bool crn_v_is_dict(const crn_value *v);
bool crn_v_is_number(const crn_value *v);                     /* bool, int, float */
bool crn_v_truth(const crn_value *v);                         /* Python's truth value */
const char *crn_v_cstr(const crn_value *v);                   /* string, or NULL if not a string */
crn_value *crn_v_get(const crn_value *dict, const char *key); /* NULL if absent or not a dict */
size_t crn_v_len(const crn_value *v);                         /* items of a sequence or dict, else 0 */
crn_value *crn_v_at(const crn_value *seq, size_t i);          /* NULL if out of range */
bool crn_v_equal(const crn_value *a, const crn_value *b);     /* Python's ==; 1 == 1.0 == True */
const char *crn_v_kind_name(const crn_value *v);              /* "int", "dict", … as Python says it */
/* Number as int64 / double. False if it is no number (to_int: or a float that has a fraction or is beyond 2^31). */
bool crn_v_to_int(const crn_value *v, int64_t *out);
bool crn_v_to_float(const crn_value *v, double *out);
/* Python's repr, appended; long values are cut to about max_len characters with "…" (0 = no cut). */
void crn_v_repr(const crn_value *v, crn_str *out, size_t max_len);

/* Containers may be nested this deep, in literals and JSON alike (Python's own parser has the same limit). */
enum { CRN_V_MAX_DEPTH = 200 };
bool crn_v_hashable(const crn_value *v); /* may be a dict's key or a set's item: no list, dict, set or array within */

/* Python literal: numbers (also nan, inf, float('nan')), strings (all prefixes and quotings), True/False/None, lists,
 * tuples, sets, dicts, unary minus, + - * / // % ** on numbers, concatenation with + and of adjacent strings, trailing
 * commas, comments. name: for messages ("NAME:line:column: …"). */
crn_status crn_v_parse_literal(crn_arena *a, const char *text, const char *name, crn_value **out, crn_err *err);
/* The same, and calls as in learning rate files: NAME(a, key=b) becomes the dict
 * {"__call__": "NAME", "__args__": [a], "key": b}. */
crn_status crn_v_parse_literal_calls(crn_arena *a, const char *text, const char *name, crn_value **out, crn_err *err);
/* JSON with the encodings {"__tuple__": […]}, {"__set__": […]}, {"__dict__": [[k,v],…]}, {"__float__": "inf"},
 * {"__ndarray__": …, "dtype"}, {"__dim__": name, "size", "kind", "id"} or {"__dim__": {"kind", "name", "dim"}},
 * {"__callable__": name}, {"__object__": type}, {"__stub__": name}. name: for messages. */
crn_status crn_v_parse_json(crn_arena *a, const char *text, size_t len, const char *name, crn_value **out,
                            crn_err *err);
crn_status crn_v_read_json(crn_arena *a, const char *path, crn_value **out, crn_err *err);

#endif
