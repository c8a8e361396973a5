/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn keys: the config keys that are known, and which have an effect.
 */
#include "commands.h"

#include "config/keys.h"

#include <string.h>

static const cli_option options[] = {
    {"state", 's', "STATE", "only keys that are used, ignored, or not implemented"},
    {0},
};

static void print_key(const crn_config_key *key) {
  crn_str types = {0};
  crn_config_key_types(key, &types);
  printf("%s (%s)%s%s\n  %s\n", key->name, crn_str_get(&types), key->state == CRN_KEY_USED ? "" : ": ",
         key->state == CRN_KEY_USED ? "" : crn_key_state_name(key->state), key->doc);
  crn_str_free(&types);
}

static crn_status print_named(cli *c, const char *name) {
  const crn_config_key *key = crn_config_key_find(name);
  if (key) {
    print_key(key);
    return CRN_OK;
  }
  const char **names = CRN_ARENA_ARRAY(&c->arena, const char *, crn_config_keys_n);
  if (!names) return crn_err_memory(&c->err);
  for (size_t i = 0; i < crn_config_keys_n; i++) names[i] = crn_config_keys[i].name;
  crn_fail(&c->err, CRN_E_CONFIG, "unknown config key '%s'", name);
  size_t n = 0;
  for (size_t i = 0; i < crn_config_keys_n; i++)
    if (*name && strstr(names[i], name))
      crn_err_append(&c->err, "%s%s", n++ ? ", " : "; with that in their names: ", names[i]);
  const char *near = n ? NULL : crn_nearest(name, names, crn_config_keys_n);
  if (near) crn_err_append(&c->err, " (did you mean '%s'?)", near);
  return c->err.code;
}

static crn_status run(cli *c, const cli_args *args) {
  const char *state = cli_value(args, "state", NULL);
  bool known = !state;
  for (int s = 0; s < CRN_KEY_STATES && !known; s++) known = !strcmp(state, crn_key_state_name((crn_key_state)s));
  if (!known)
    return crn_fail(
        &c->err, CRN_E_CONFIG,
        "option '--state': expected used, ignored, \"not implemented\" or \"refused in training\", got '%s'", state);
  for (size_t i = 0; i < args->n_words; i++) CRN_TRY(print_named(c, args->words[i]));
  for (size_t i = 0; !args->n_words && i < crn_config_keys_n; i++)
    if (!state || !strcmp(state, crn_key_state_name(crn_config_keys[i].state))) print_key(&crn_config_keys[i]);
  return CRN_OK;
}

const cli_command cli_cmd_keys = {
    .name = "keys",
    .usage = "[KEY]...",
    .doc = "List the config keys that are known.",
    .options = options,
    .run = run,
};
