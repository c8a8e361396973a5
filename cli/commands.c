/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of sub-commands. What isn't built yet isn't here.
 */
#include "commands.h"

#include <string.h>

const cli_command *const cli_commands[] = {
    &cli_cmd_cleanup, &cli_cmd_compute_priors,
    &cli_cmd_config, //
    &cli_cmd_dump,   //
    &cli_cmd_eval,   //
    &cli_cmd_forward, &cli_cmd_functions,      &cli_cmd_graph, &cli_cmd_info, &cli_cmd_initialize_model,
    &cli_cmd_keys, //
    &cli_cmd_layers,  &cli_cmd_search,         &cli_cmd_train, NULL,
};

const cli_command *cli_command_find(const char *name) {
  for (size_t i = 0; cli_commands[i]; i++)
    if (!strcmp(cli_commands[i]->name, name)) return cli_commands[i];
  return NULL;
}

void cli_print_help(FILE *out) {
  fprintf(out, "creturnn " CRN_VERSION ": trains and runs networks of RETURNN configs\n\n"
               "  creturnn CONFIG... [++KEY VALUE]...   do the config's task\n"
               "  creturnn COMMAND ...                  one of:\n\n");
  for (size_t i = 0; cli_commands[i]; i++) fprintf(out, "  %-18s %s\n", cli_commands[i]->name, cli_commands[i]->doc);
  fprintf(out, "\n  creturnn COMMAND --help               the command's arguments and options\n"
               "  creturnn --version                    the program's version\n");
}
