/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn functions: what expressions of eval layers and activations may call.
 */
#include "commands.h"

#include <string.h>

#include "tensor/optable.h"

static crn_status print_named(cli *c, const char *name) {
  const crn_oprow *row = crn_optable_find(name);
  if (!row) row = crn_optable_find_activation(name);
  if (!row) {
    char near[96];
    const char *best = crn_optable_nearest(name, near, sizeof near);
    crn_fail(&c->err, CRN_E_CONFIG, "unknown function '%s'", name);
    if (best) crn_err_append(&c->err, " (did you mean '%s'?)", best);
    return c->err.code;
  }
  crn_str line = {0};
  crn_optable_describe_row(row, &line);
  printf("%s", crn_str_get(&line));
  crn_str_free(&line);
  return CRN_OK;
}

static crn_status run(cli *c, const cli_args *args) {
  for (size_t i = 0; i < args->n_words; i++) CRN_TRY(print_named(c, args->words[i]));
  if (args->n_words) return CRN_OK;
  crn_str all = {0};
  crn_optable_describe(&all);
  bool ok = crn_str_ok(&all);
  printf("%s", crn_str_get(&all));
  crn_str_free(&all);
  return ok ? CRN_OK : crn_err_memory(&c->err);
}

static const cli_option options[] = {{0}};

const cli_command cli_cmd_functions = {
    .name = "functions",
    .usage = "[NAME]...",
    .doc = "List the functions that expressions and activations know.",
    .options = options,
    .run = run,
};
