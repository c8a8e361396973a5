/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn config: what a config amounts to, after Python has run and options were applied.
 */
#include "commands.h"

#include <string.h>

static const cli_option options[] = {
    {"full", 'f', NULL, "print long values whole"},
    {"key", 'k', "KEY", "print this key only"},
    CLI_CONFIG_OPTIONS,
    {0},
};

static void print_key(const char *key, const crn_value *v, bool full) {
  crn_str text = {0};
  crn_v_repr(v, &text, full ? 0 : 100);
  printf("%s = %s\n", key, crn_str_get(&text));
  crn_str_free(&text);
}

static crn_status print_one(cli *c, const crn_config *config, const char *key, bool full) {
  const crn_value *v = crn_config_get(config, key), *root = crn_config_root(config);
  if (v) {
    print_key(key, v, full);
    return CRN_OK;
  }
  const char **names = CRN_ARENA_ARRAY(&c->arena, const char *, crn_v_len(root) + 1);
  if (!names) return crn_err_memory(&c->err);
  for (size_t i = 0; i < crn_v_len(root); i++) names[i] = crn_v_cstr(root->u.dict.keys[i]);
  const char *near = crn_nearest(key, names, crn_v_len(root));
  crn_fail(&c->err, CRN_E_CONFIG, "%s has no key '%s'", crn_config_file(config), key);
  if (near) crn_err_append(&c->err, " (did you mean '%s'?)", near);
  return c->err.code;
}

static crn_status run(cli *c, const cli_args *args) {
  crn_config *config;
  CRN_TRY(cli_load_config(c, args, args->n_words, false, &config));
  const crn_value *root = crn_config_root(config);
  const char *key = cli_value(args, "key", NULL);
  crn_status status = CRN_OK;
  if (key)
    status = print_one(c, config, key, cli_has(args, "full"));
  else
    for (size_t i = 0; i < root->u.dict.n; i++)
      print_key(crn_v_cstr(root->u.dict.keys[i]), root->u.dict.vals[i], cli_has(args, "full"));
  crn_config_free(config);
  return status;
}

const cli_command cli_cmd_config = {
    .name = "config",
    .usage = "CONFIG... [++KEY VALUE]...",
    .doc = "Print the keys and values of a config.",
    .more = "Values are printed as Python writes them, in the order of the config.\n",
    .takes_config = true,
    .options = options,
    .run = run,
};
