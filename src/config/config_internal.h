/* SPDX-License-Identifier: Apache-2.0
 *
 * What a config consists of. For src/config only.
 */
#ifndef CRN_CONFIG_CONFIG_INTERNAL_H
#define CRN_CONFIG_CONFIG_INTERNAL_H

#include "config/config.h"
#include "config/python_host.h"

struct crn_config {
  crn_arena arena;
  crn_value *root; /* dict */
  const char *file, *folder;
  const char *base;     /* NULL: the rule of config.h */
  crn_py_object *space; /* namespace of the Python files, NULL if there was none */
  crn_py_refs refs;     /* Python objects that values point to, and the namespace */
};

/* Value of a new key that is given as text, in a file of lines or on the command line: see crn_config_override. */
crn_status crn_config_read_text(crn_config *c, const char *key, const char *text, crn_value **out, crn_err *err);
/* The pieces of a text between commas, spaces around them removed: str if there is one, else list of str. */
crn_value *crn_config_split(crn_arena *a, const char *text);
/* Number or truth value that a text wholly is; NULL if it is none. Words: true/false, yes/no, on/off. */
crn_value *crn_config_text_number(crn_arena *a, const char *text);
bool crn_config_text_bool(const char *text, bool *out);
/* "text" cut for messages, as Python writes it. */
const char *crn_config_show(const crn_value *v, crn_str *buffer);

#endif
