/* SPDX-License-Identifier: Apache-2.0
 *
 * The config keys that are known: what they mean, what type they ask for, and whether they have an effect here.
 * One table serves warnings about misspelt keys, command-line overrides and the program's own help.
 */
#ifndef CRN_CONFIG_KEYS_H
#define CRN_CONFIG_KEYS_H

#include "base/status.h"
#include "value/value.h"

typedef enum crn_key_state {
  CRN_KEY_USED,
  CRN_KEY_IGNORED,        /* accepted; means nothing here, or never had an effect */
  CRN_KEY_NOT_IMPLEMENTED, /* means something, but isn't built yet */
  CRN_KEY_REFUSED         /* the same, and without it something else would be learnt: task train refuses it */
} crn_key_state;

typedef struct crn_config_key {
  const char *name;
  const char *types; /* letters: i int, f float, b bool, s str, l list, d dict, c function */
  crn_key_state state;
  const char *doc; /* one sentence; default in parentheses */
} crn_config_key;

extern const crn_config_key crn_config_keys[];
extern const size_t crn_config_keys_n;

const crn_config_key *crn_config_key_find(const char *name); /* NULL if unknown */
/* The known key that a name is probably meant to be; NULL if none is near, or the name is known. */
const crn_config_key *crn_config_key_nearest(const char *name);
/* "int, float or dict" for the letters. */
void crn_config_key_types(const crn_config_key *key, crn_str *out);
/* Whether the value has one of these types (text may stand for a number; None always fits). */
bool crn_config_key_fits(const crn_config_key *key, const crn_value *v);
const char *crn_key_state_name(crn_key_state state);
enum { CRN_KEY_STATES = CRN_KEY_REFUSED + 1 };

#endif
