/* SPDX-License-Identifier: Apache-2.0
 *
 * One row a sub-command, each defined in cmd_NAME.c.
 */
#ifndef CRN_CLI_COMMANDS_H
#define CRN_CLI_COMMANDS_H

#include "cli.h"

extern const cli_command cli_cmd_config, cli_cmd_dump, cli_cmd_functions, cli_cmd_keys, cli_cmd_layers;

#endif
