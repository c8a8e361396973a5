/* SPDX-License-Identifier: Apache-2.0
 *
 * Python configs: CPython's shared library, opened when the first Python config is loaded and never before.
 *
 * Nothing of Python is needed to compile. The interpreter is started once in the process and stays (CPython can't be
 * started twice); this is the one thing of the library that belongs to the process and not to a handle. Its lock is
 * held only inside the calls below, which any thread may make. The library is searched as: CRN_PYTHON_LIB (a file
 * name), the version of the python3 in PATH, then libpython3.13 … 3.9.
 *
 * Python objects that values point to (functions, other objects) are kept alive by a crn_py_refs, usually the config's.
 */
#ifndef CRN_CONFIG_PYTHON_HOST_H
#define CRN_CONFIG_PYTHON_HOST_H

#include "value/value.h"

typedef struct crn_py_object crn_py_object; /* a PyObject */

typedef struct crn_py_refs {
  crn_py_object **objects; /* one reference each */
  size_t n, cap;
} crn_py_refs; /* zero-initialised = empty */

/* Load the library and start the interpreter, unless done. */
crn_status crn_py_start(crn_err *err);

/* Run a config file. *space: NULL, or the namespace of an earlier file to run it in; receives the namespace, a
 * reference kept in refs. What it defines is put into dict. notes: names of modules that placeholders stand for, "" if
 * none. An exception of the config is an error with its line. */
crn_status crn_py_run_config(const char *path, crn_py_object **space, crn_py_refs *refs, crn_arena *a, crn_value *dict,
                             const char **notes, crn_err *err);

typedef enum crn_py_outcome { CRN_PY_VALUE, CRN_PY_RAISED, CRN_PY_BAD_SYNTAX, CRN_PY_UNKNOWN_NAME } crn_py_outcome;

/* Value of an expression in a namespace (NULL: an empty one). If it raises, err has the text and outcome (may be NULL)
 * the reason. */
crn_status crn_py_eval(crn_py_object *space, const char *expression, crn_py_refs *refs, crn_arena *a, crn_value **out,
                       crn_py_outcome *outcome, crn_err *err);
/* Set a variable of a namespace, for functions that read it. */
crn_status crn_py_assign(crn_py_object *space, const char *name, const crn_value *value, crn_err *err);
/* Call a CRN_V_CALLABLE of a Python config with plain values. args: list or tuple, or NULL; named: dict, or NULL. */
crn_status crn_py_call(const crn_value *function, const crn_value *args, const crn_value *named, crn_py_refs *refs,
                       crn_arena *a, crn_value **out, crn_err *err);
/* Give the references back; space (may be NULL) is forgotten as a module. */
void crn_py_refs_free(crn_py_refs *refs, crn_py_object *space);

#endif
