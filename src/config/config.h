/* SPDX-License-Identifier: Apache-2.0
 *
 * A config: named values from one or several files and from the command line.
 *
 * Files are told apart by name and content: JSON (.json or starting with "{"), lines "key value" of the oldest configs,
 * and else Python, which needs CPython's library (python_host.h). Later files replace keys of earlier ones.
 * After loading, reading is safe from any thread; setting is not.
 *
 * Typed reading follows what configs rely on: a key that is missing or None gives the default; text that is wholly a
 * number reads as one; anything else of the wrong type is an error "CONFIG: key 'batch_size': expected int, got …".
 */
#ifndef CRN_CONFIG_CONFIG_H
#define CRN_CONFIG_CONFIG_H

#include "base/log.h"
#include "value/value.h"

typedef struct crn_config crn_config;

crn_status crn_config_new(crn_config **out, crn_err *err); /* empty, named "config" */
crn_status crn_config_load(const char *path, const crn_log *log, crn_config **out, crn_err *err);
crn_status crn_config_add_file(crn_config *c, const char *path, const crn_log *log, crn_err *err);
crn_status crn_config_add_values(crn_config *c, const crn_value *dict, crn_err *err); /* copied; keys must be str */
void crn_config_free(crn_config *c);                                                  /* NULL is fine */

/* Whatever is returned lives as long as the config. */
crn_value *crn_config_get(const crn_config *c, const char *key); /* NULL if absent */
bool crn_config_has(const crn_config *c, const char *key);
crn_value *crn_config_root(const crn_config *c); /* dict of all keys, in order of the files; not to be changed */
crn_arena *crn_config_arena(crn_config *c);      /* for values that are to live as long */
/* Set a key (value copied; NULL: remove it). Functions of a Python config see the new value. */
crn_status crn_config_set(crn_config *c, const char *key, const crn_value *value, crn_err *err);

crn_status crn_config_int(const crn_config *c, const char *key, int64_t otherwise, int64_t *out, crn_err *err);
crn_status crn_config_float(const crn_config *c, const char *key, double otherwise, double *out, crn_err *err);
crn_status crn_config_bool(const crn_config *c, const char *key, bool otherwise, bool *out, crn_err *err);
crn_status crn_config_str(const crn_config *c, const char *key, const char *otherwise, const char **out, crn_err *err);
/* List, tuple or set; a single value gives a list of it. NULL if missing or None. */
crn_status crn_config_list(crn_config *c, const char *key, crn_value **out, crn_err *err);
crn_status crn_config_dict(const crn_config *c, const char *key, crn_value **out, crn_err *err); /* NULL if missing */
/* Record "CONFIG: key 'KEY': TEXT" and return CRN_E_CONFIG. */
crn_status crn_config_fail(const crn_config *c, const char *key, crn_err *err, const char *fmt, ...) CRN_PRINTF(4, 5);

/* ---- files ---- */

const char *crn_config_file(const crn_config *c);   /* path of the (last) file as given; "config" if there is none */
const char *crn_config_folder(const crn_config *c); /* its folder, "." if there is none */
/* File names in a config are relative to the folder in which the program runs, as they always were. A file that is to
 * be read and isn't there is then looked for beside the config (also as NAME.index or NAME.meta, for checkpoints), so
 * that a config can be run from elsewhere; if it is in neither place the name stays as it is. With a base folder set,
 * all names are relative to that one only. The result is in the arena, or the argument itself. */
crn_status crn_config_set_base(crn_config *c, const char *folder, crn_err *err); /* NULL: none */
crn_status crn_config_input_path(const crn_config *c, const char *name, crn_arena *a, const char **out, crn_err *err);
crn_status crn_config_output_path(const crn_config *c, const char *name, crn_arena *a, const char **out, crn_err *err);

/* ---- Python ---- */

/* Value of an expression, with the config's variables. Values from Python that hold functions live with the config. */
crn_status crn_config_eval(crn_config *c, const char *expression, crn_arena *a, crn_value **out, crn_err *err);
/* Call a function of the config (CRN_V_CALLABLE) with plain values; args: list or tuple or NULL; named: dict or NULL.
 */
crn_status crn_config_call(crn_config *c, const crn_value *function, const crn_value *args, const crn_value *named,
                           crn_arena *a, crn_value **out, crn_err *err);

/* ---- command line ---- */

/* One option "++key text". The rule: a key whose value isn't text takes the value of the text as a Python expression
 * (bad syntax: warning, kept as text; unknown name: error); a key with text takes the text; a new key, or one that is
 * None, takes what its type in the table of known keys asks for; an unknown one the text, or a list if it has commas.
 */
crn_status crn_config_override(crn_config *c, const char *key, const char *text, const crn_log *log, crn_err *err);

/* One warning for keys that are near misses of known ones, one note for known ones that have no effect here. */
void crn_config_check_keys(const crn_config *c, const crn_log *log);
/* Fails if a key is on that training refuses (CRN_KEY_REFUSED). */
crn_status crn_config_check_training(const crn_config *c, crn_err *err);

#endif
