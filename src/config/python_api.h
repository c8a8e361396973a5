/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of CPython that are used, found by name in its shared library. All belong to Python's stable interface
 * or have been the same from 3.9 on. For python_*.c only.
 */
#ifndef CRN_CONFIG_PYTHON_API_H
#define CRN_CONFIG_PYTHON_API_H

#include "config/python_host.h"

typedef crn_py_object PyObj;

/* Python's ssize_t is ptrdiff_t. X(result, name, arguments) */
#define CRN_PY_FUNCTIONS(X)                                                                                            \
  X(int, Py_IsInitialized, (void))                                                                                     \
  X(void, Py_InitializeEx, (int signal_handlers))                                                                      \
  X(void *, PyEval_SaveThread, (void))                                                                                 \
  X(int, PyGILState_Ensure, (void))                                                                                    \
  X(void, PyGILState_Release, (int state))                                                                             \
  X(PyObj *, PyImport_AddModule, (const char *name))                                                                   \
  X(PyObj *, PyModule_GetDict, (PyObj *))                                                                              \
  X(PyObj *, Py_CompileString, (const char *text, const char *file, int start))                                        \
  X(PyObj *, PyEval_EvalCode, (PyObj *, PyObj * globals, PyObj * locals))                                              \
  X(PyObj *, PyEval_GetBuiltins, (void))                                                                               \
  X(void, Py_IncRef, (PyObj *))                                                                                        \
  X(void, Py_DecRef, (PyObj *))                                                                                        \
  X(PyObj *, PyObject_Type, (PyObj *))                                                                                 \
  X(unsigned long, PyType_GetFlags, (PyObj *))                                                                         \
  X(PyObj *, PyObject_CallObject, (PyObj *, PyObj * args))                                                             \
  X(int, PyObject_IsTrue, (PyObj *))                                                                                   \
  X(int, PyObject_IsInstance, (PyObj *, PyObj *))                                                                      \
  X(PyObj *, PyErr_Occurred, (void))                                                                                   \
  X(void, PyErr_Clear, (void))                                                                                         \
  X(void, PyErr_Print, (void))                                                                                         \
  X(PyObj *, PyBool_FromLong, (long))                                                                                  \
  X(PyObj *, PyLong_FromLongLong, (long long))                                                                         \
  X(long long, PyLong_AsLongLongAndOverflow, (PyObj *, int *))                                                         \
  X(double, PyLong_AsDouble, (PyObj *))                                                                                \
  X(PyObj *, PyFloat_FromDouble, (double))                                                                             \
  X(double, PyFloat_AsDouble, (PyObj *))                                                                               \
  X(PyObj *, PyUnicode_DecodeUTF8, (const char *, ptrdiff_t, const char *errors))                                      \
  X(PyObj *, PyUnicode_AsEncodedString, (PyObj *, const char *encoding, const char *errors))                           \
  X(PyObj *, PyBytes_FromStringAndSize, (const char *, ptrdiff_t))                                                     \
  X(int, PyBytes_AsStringAndSize, (PyObj *, char **, ptrdiff_t *))                                                     \
  X(PyObj *, PyTuple_New, (ptrdiff_t))                                                                                 \
  X(ptrdiff_t, PyTuple_Size, (PyObj *))                                                                                \
  X(PyObj *, PyTuple_GetItem, (PyObj *, ptrdiff_t))                                                                    \
  X(int, PyTuple_SetItem, (PyObj *, ptrdiff_t, PyObj *))                                                               \
  X(PyObj *, PyList_New, (ptrdiff_t))                                                                                  \
  X(ptrdiff_t, PyList_Size, (PyObj *))                                                                                 \
  X(PyObj *, PyList_GetItem, (PyObj *, ptrdiff_t))                                                                     \
  X(int, PyList_SetItem, (PyObj *, ptrdiff_t, PyObj *))                                                                \
  X(PyObj *, PySet_New, (PyObj *))                                                                                     \
  X(int, PySet_Add, (PyObj *, PyObj *))                                                                                \
  X(PyObj *, PyDict_New, (void))                                                                                       \
  X(int, PyDict_Next, (PyObj *, ptrdiff_t *, PyObj **, PyObj **))                                                      \
  X(int, PyDict_SetItem, (PyObj *, PyObj *, PyObj *))                                                                  \
  X(int, PyDict_SetItemString, (PyObj *, const char *, PyObj *))                                                       \
  X(PyObj *, PyDict_GetItemString, (PyObj *, const char *))

typedef struct crn_py_api {
#define CRN_PY_FIELD(result, name, args) result(*name) args;
  CRN_PY_FUNCTIONS(CRN_PY_FIELD)
#undef CRN_PY_FIELD
  PyObj *prelude;    /* names of python_prelude.py; borrowed, lives as long as the interpreter */
  PyObj *none;       /* None */
  PyObj *true_;      /* True */
  PyObj *false_;     /* False */
  PyObj *float_type; /* float */
} crn_py_api;

/* Start Python if need be and take its lock; every enter needs one leave. NULL and err set if there is no Python. */
const crn_py_api *crn_py_enter(int *lock, crn_err *err);
void crn_py_leave(const crn_py_api *py, int lock);

/* Call a function of the prelude. Takes the references to the n arguments (NULL among them: the call fails); returns a
 * new reference, or NULL with err set (a fault of ours or no memory: functions of the prelude catch what configs do).
 */
PyObj *crn_py_prelude_call(const crn_py_api *py, const char *function, PyObj *const *args, size_t n, crn_err *err);
/* UTF-8 text of a str as bytes in the arena; NULL if it is none or memory is out. */
const char *crn_py_text(const crn_py_api *py, PyObj *str, crn_arena *a, size_t *len);
PyObj *crn_py_str(const crn_py_api *py, const char *text);
/* Convert. To a value: borrows obj; functions and objects are added to refs (NULL: named only, not callable).
 * From a value: new reference, NULL with err set. The lock is held. */
crn_status crn_py_to_value(const crn_py_api *py, PyObj *obj, crn_py_refs *refs, crn_arena *a, crn_value **out,
                           crn_err *err);
PyObj *crn_py_from_value(const crn_py_api *py, const crn_value *v, crn_err *err);
bool crn_py_refs_add(const crn_py_api *py, crn_py_refs *refs, PyObj *obj); /* keeps a new reference */

extern const char crn_py_prelude_text[]; /* python_prelude.py, NUL-terminated; made by CMake */

#endif
