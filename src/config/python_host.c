/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding CPython's library, starting the interpreter, and the calls of python_host.h. See there for the rules.
 */
#define _GNU_SOURCE
#include "config/python_api.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_MINOR = 9, LAST_MINOR = 13, PY_FILE_INPUT = 257 };

/* CPython exists once in a process, so this does too. */
static struct {
  pthread_mutex_t lock;
  bool started;
  crn_py_api api;
} interpreter = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the library ---- */

/* Real path of the python3 in PATH, or "" if there is none. */
static void find_python3(char out[PATH_MAX]) {
  const char *path = getenv("PATH");
  out[0] = 0;
  while (path && *path) {
    size_t n = strcspn(path, ":");
    char file[PATH_MAX];
    int len = snprintf(file, sizeof file, "%.*s/python3", (int)n, path);
    if (len > 0 && (size_t)len < sizeof file && access(file, X_OK) == 0 && realpath(file, out)) return;
    out[0] = 0;
    path += n + (path[n] == ':');
  }
}

static void *open_version(const char *prefix, int minor) {
  static const char *const endings[] = {"so.1.0", "so"};
  char file[PATH_MAX];
  for (size_t i = 0; i < 2; i++) {
    int len = snprintf(file, sizeof file, "%slibpython3.%d.%s", prefix, minor, endings[i]);
    /* global: extension modules expect to find the interpreter's symbols in the process */
    void *lib = len > 0 && (size_t)len < sizeof file ? dlopen(file, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (lib) return lib;
  }
  return NULL;
}

static void *open_library(crn_err *err) {
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized")) return dlopen(NULL, RTLD_NOW); /* the program is a Python itself */
  const char *named = getenv("CRN_PYTHON_LIB");
  if (named && *named) {
    void *lib = dlopen(named, RTLD_NOW | RTLD_GLOBAL);
    if (!lib) crn_fail(err, CRN_E_FILE, "CRN_PYTHON_LIB: can't open '%s': %s", named, dlerror());
    return lib;
  }
  char python3[PATH_MAX], prefix[PATH_MAX + 8];
  find_python3(python3);
  char *base = strrchr(python3, '/');
  int minor = 0;
  if (base && sscanf(base, "/python3.%d", &minor) == 1) {
    *base = 0;
    char *bin = strrchr(python3, '/');
    if (bin) *bin = 0;
    snprintf(prefix, sizeof prefix, "%s/lib/", python3);
    void *lib = open_version("", minor);
    if (!lib) lib = open_version(prefix, minor);
    if (lib) return lib;
  }
  for (minor = LAST_MINOR; minor >= FIRST_MINOR; minor--) {
    void *lib = open_version("", minor);
    if (lib) return lib;
  }
  crn_fail(err, CRN_E_FILE,
           "Python configs need CPython's shared library, and none was found (libpython3.%d.so … libpython3.%d.so; "
           "CRN_PYTHON_LIB=FILE in the environment names another)",
           FIRST_MINOR, LAST_MINOR);
  return NULL;
}

static crn_status find_functions(void *lib, crn_py_api *py, crn_err *err) {
  const struct {
    const char *name;
    size_t at;
  } functions[] = {
#define CRN_PY_ROW(result, name, args) {#name, offsetof(crn_py_api, name)},
      CRN_PY_FUNCTIONS(CRN_PY_ROW)
#undef CRN_PY_ROW
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *symbol = dlsym(lib, functions[i].name);
    if (!symbol) return crn_fail(err, CRN_E_FILE, "Python's library lacks the function %s", functions[i].name);
    memcpy((char *)py + functions[i].at, &symbol, sizeof symbol);
  }
  return CRN_OK;
}

/* Run the prelude. The lock is held. */
static crn_status start_prelude(crn_py_api *py, crn_err *err) {
  PyObj *module = py->PyImport_AddModule("creturnn_host"); /* borrowed, like most results here */
  PyObj *dict = module ? py->PyModule_GetDict(module) : NULL;
  PyObj *builtins = py->PyEval_GetBuiltins();
  PyObj *file = crn_py_str(py, "<creturnn>");
  bool ok = dict && builtins && file && py->PyDict_SetItemString(dict, "__builtins__", builtins) == 0 &&
            py->PyDict_SetItemString(dict, "__file__", file) == 0;
  PyObj *code = ok ? py->Py_CompileString(crn_py_prelude_text, "<creturnn>", PY_FILE_INPUT) : NULL;
  PyObj *result = code ? py->PyEval_EvalCode(code, dict, dict) : NULL;
  ok = result != NULL;
  if (ok) {
    py->none = result; /* a module's code evaluates to None; the reference stays */
    py->true_ = py->PyBool_FromLong(1);
    py->false_ = py->PyBool_FromLong(0);
    py->float_type = py->PyDict_GetItemString(builtins, "float");
    py->prelude = dict;
  }
  py->Py_DecRef(code);
  py->Py_DecRef(file);
  if (!ok) {
    py->PyErr_Clear();
    return crn_fail(err, CRN_E_INTERNAL, "Python's start failed: its standard library is incomplete");
  }
  return CRN_OK;
}

static crn_status start_locked(crn_err *err) {
  if (interpreter.started) return CRN_OK;
  crn_py_api *py = &interpreter.api;
  void *lib = open_library(err);
  if (!lib) return err ? err->code : CRN_E_FILE;
  CRN_TRY(find_functions(lib, py, err));
  bool ours = !py->Py_IsInitialized();
  int lock = 0;
  if (ours)
    py->Py_InitializeEx(0); /* 0: signals stay the program's */
  else
    lock = py->PyGILState_Ensure();
  crn_status status = start_prelude(py, err);
  if (ours)
    py->PyEval_SaveThread(); /* gives the lock up, for any thread to take */
  else
    py->PyGILState_Release(lock);
  interpreter.started = status == CRN_OK;
  return status;
}

crn_status crn_py_start(crn_err *err) {
  pthread_mutex_lock(&interpreter.lock);
  crn_status status = start_locked(err);
  pthread_mutex_unlock(&interpreter.lock);
  return status;
}

const crn_py_api *crn_py_enter(int *lock, crn_err *err) {
  if (crn_py_start(err) != CRN_OK) return NULL;
  *lock = interpreter.api.PyGILState_Ensure();
  return &interpreter.api;
}

void crn_py_leave(const crn_py_api *py, int lock) {
  py->PyErr_Clear();
  py->PyGILState_Release(lock);
}

/* ---- references and calls ---- */

bool crn_py_refs_add(const crn_py_api *py, crn_py_refs *refs, PyObj *obj) {
  if (refs->n == refs->cap) {
    size_t cap = refs->cap ? 2 * refs->cap : 16;
    PyObj **grown = crn_realloc(refs->objects, cap * sizeof *grown);
    if (!grown) return false;
    refs->objects = grown;
    refs->cap = cap;
  }
  py->Py_IncRef(obj);
  refs->objects[refs->n++] = obj;
  return true;
}

void crn_py_refs_free(crn_py_refs *refs, crn_py_object *space) {
  if (refs->n) { /* then Python runs */
    int lock;
    const crn_py_api *py = crn_py_enter(&lock, NULL);
    if (py) {
      if (space) {
        py->Py_IncRef(space);
        py->Py_DecRef(crn_py_prelude_call(py, "forget_config", &space, 1, NULL));
      }
      for (size_t i = 0; i < refs->n; i++) py->Py_DecRef(refs->objects[i]);
      crn_py_leave(py, lock);
    }
  }
  crn_free(refs->objects);
  *refs = (crn_py_refs){0};
}

PyObj *crn_py_prelude_call(const crn_py_api *py, const char *function, PyObj *const *args, size_t n, crn_err *err) {
  PyObj *tuple = py->PyTuple_New((ptrdiff_t)n);
  bool ok = tuple != NULL;
  for (size_t i = 0; i < n; i++) {
    if (!args[i] || !tuple) {
      ok = false;
      py->Py_DecRef(args[i]);                                            /* NULL is fine */
    } else if (py->PyTuple_SetItem(tuple, (ptrdiff_t)i, args[i]) != 0) { /* takes the reference, also on failure */
      ok = false;
    }
  }
  PyObj *result = ok ? py->PyObject_CallObject(py->PyDict_GetItemString(py->prelude, function), tuple) : NULL;
  py->Py_DecRef(tuple);
  if (!result) {
    py->PyErr_Clear();
    crn_fail(err, CRN_E_INTERNAL, "Python host: '%s' failed", function);
  }
  return result;
}

/* Take a guarded result (code, result or text) apart: new reference to the result, or NULL with err set to the text. */
static PyObj *take_result(const crn_py_api *py, PyObj *pair, crn_py_outcome *outcome, crn_err *err) {
  if (!pair) return NULL;
  int overflow;
  long long code = py->PyLong_AsLongLongAndOverflow(py->PyTuple_GetItem(pair, 0), &overflow);
  PyObj *result = py->PyTuple_GetItem(pair, 1);
  if (outcome) *outcome = (crn_py_outcome)code;
  if (code == 0) {
    py->Py_IncRef(result);
  } else {
    crn_arena a = {0};
    const char *text = crn_py_text(py, result, &a, NULL);
    crn_fail(err, CRN_E_CONFIG, "%s", text ? text : "the Python code failed");
    crn_arena_free(&a);
    result = NULL;
  }
  py->Py_DecRef(pair);
  return result;
}

static crn_status status_of(const crn_err *err) { return err && err->code ? err->code : CRN_E_CONFIG; }

/* Convert a result and drop it. */
static crn_status convert_result(const crn_py_api *py, PyObj *result, crn_py_refs *refs, crn_arena *a, crn_value **out,
                                 crn_err *err) {
  if (!result) return status_of(err);
  crn_status status = crn_py_to_value(py, result, refs, a, out, err);
  py->Py_DecRef(result);
  return status;
}

/* Put the name, value, name, value … of items into the dict. */
static crn_status put_items(const crn_py_api *py, PyObj *items, const char *path, crn_py_refs *refs, crn_arena *a,
                            crn_value *dict, crn_err *err) {
  for (ptrdiff_t i = 0, n = py->PyList_Size(items); i + 1 < n; i += 2) {
    const char *name = crn_py_text(py, py->PyList_GetItem(items, i), a, NULL);
    if (!name) return crn_err_memory(err);
    crn_value *v;
    crn_status status = crn_py_to_value(py, py->PyList_GetItem(items, i + 1), refs, a, &v, err);
    if (status != CRN_OK) return crn_err_where(err, "%s: key '%s'", path, name);
    if (!crn_v_put(a, dict, name, v)) return crn_err_memory(err);
  }
  return CRN_OK;
}

/* The process's environment as list of "NAME=value". */
static PyObj *list_environment(const crn_py_api *py) {
  ptrdiff_t n = 0;
  while (environ[n]) n++;
  PyObj *list = py->PyList_New(n);
  for (ptrdiff_t i = 0; list && i < n; i++) {
    if (py->PyList_SetItem(list, i, crn_py_str(py, environ[i])) == 0) continue;
    py->Py_DecRef(list);
    return NULL;
  }
  return list;
}

static crn_status run_config(const crn_py_api *py, const char *path, PyObj **space, crn_py_refs *refs, crn_arena *a,
                             crn_value *dict, const char **notes, crn_err *err) {
  PyObj *old = *space ? *space : py->none;
  py->Py_IncRef(old);
  PyObj *args[3] = {crn_py_str(py, path), old, list_environment(py)};
  PyObj *ns = take_result(py, crn_py_prelude_call(py, "load_config", args, 3, err), NULL, err);
  if (!ns) return status_of(err);
  bool kept = crn_py_refs_add(py, refs, ns);
  if (kept) *space = ns;
  PyObj *items = kept ? crn_py_prelude_call(py, "config_items", &ns, 1, err) : NULL; /* takes the reference */
  if (!kept) py->Py_DecRef(ns);
  if (!items) return kept ? status_of(err) : crn_err_memory(err);
  crn_status status = put_items(py, items, path, refs, a, dict, err);
  py->Py_DecRef(items);
  CRN_TRY(status);
  PyObj *text = crn_py_prelude_call(py, "take_notes", NULL, 0, err);
  *notes = text ? crn_py_text(py, text, a, NULL) : NULL;
  py->Py_DecRef(text);
  return *notes ? CRN_OK : crn_err_memory(err);
}

crn_status crn_py_run_config(const char *path, crn_py_object **space, crn_py_refs *refs, crn_arena *a, crn_value *dict,
                             const char **notes, crn_err *err) {
  int lock;
  const crn_py_api *py = crn_py_enter(&lock, err);
  if (!py) return status_of(err);
  crn_status status = run_config(py, path, space, refs, a, dict, notes, err);
  crn_py_leave(py, lock);
  return status;
}

crn_status crn_py_eval(crn_py_object *space, const char *expression, crn_py_refs *refs, crn_arena *a, crn_value **out,
                       crn_py_outcome *outcome, crn_err *err) {
  int lock;
  const crn_py_api *py = crn_py_enter(&lock, err);
  if (!py) return status_of(err);
  if (outcome) *outcome = CRN_PY_RAISED;
  if (space) py->Py_IncRef(space);
  PyObj *args[2] = {crn_py_str(py, expression), space ? space : py->PyDict_New()};
  PyObj *result = take_result(py, crn_py_prelude_call(py, "evaluate", args, 2, err), outcome, err);
  crn_status status = convert_result(py, result, refs, a, out, err);
  crn_py_leave(py, lock);
  return status;
}

crn_status crn_py_assign(crn_py_object *space, const char *name, const crn_value *value, crn_err *err) {
  int lock;
  const crn_py_api *py = crn_py_enter(&lock, err);
  if (!py) return status_of(err);
  PyObj *obj = crn_py_from_value(py, value, err);
  crn_status status = obj ? CRN_OK : status_of(err);
  if (obj && py->PyDict_SetItemString(space, name, obj) != 0) status = crn_err_memory(err);
  py->Py_DecRef(obj);
  crn_py_leave(py, lock);
  return status;
}

/* A tuple of a sequence's items; NULL: empty. */
static PyObj *tuple_of(const crn_py_api *py, const crn_value *seq, crn_err *err) {
  size_t n = crn_v_len(seq);
  PyObj *tuple = py->PyTuple_New((ptrdiff_t)n);
  for (size_t i = 0; tuple && i < n; i++) {
    PyObj *item = crn_py_from_value(py, crn_v_at(seq, i), err);
    if (!item || py->PyTuple_SetItem(tuple, (ptrdiff_t)i, item) != 0) {
      py->Py_DecRef(tuple);
      return NULL;
    }
  }
  return tuple;
}

crn_status crn_py_call(const crn_value *function, const crn_value *args, const crn_value *named, crn_py_refs *refs,
                       crn_arena *a, crn_value **out, crn_err *err) {
  if (!function || (function->kind != CRN_V_CALLABLE && function->kind != CRN_V_OBJECT) || !function->u.obj.host)
    return crn_fail(err, CRN_E_CONFIG, "expected a function of a Python config, got %s", crn_v_kind_name(function));
  int lock;
  const crn_py_api *py = crn_py_enter(&lock, err);
  if (!py) return status_of(err);
  PyObj *callee = function->u.obj.host;
  py->Py_IncRef(callee);
  PyObj *all[3] = {callee, tuple_of(py, args, err), named ? crn_py_from_value(py, named, err) : py->PyDict_New()};
  PyObj *result = take_result(py, crn_py_prelude_call(py, "call", all, 3, err), NULL, err);
  crn_status status = convert_result(py, result, refs, a, out, err);
  if (status != CRN_OK) crn_err_where(err, "function '%s'", function->u.obj.name);
  crn_py_leave(py, lock);
  return status;
}
