/* SPDX-License-Identifier: Apache-2.0
 *
 * One row a sub-command, each defined in cmd_NAME.c.
 */
#ifndef CRN_CLI_COMMANDS_H
#define CRN_CLI_COMMANDS_H

#include "cli.h"
#include "train/engine.h"

extern const cli_command cli_cmd_config, cli_cmd_dump, cli_cmd_eval, cli_cmd_functions, cli_cmd_keys, cli_cmd_layers,
    cli_cmd_search, cli_cmd_train, cli_cmd_forward, cli_cmd_compute_priors, cli_cmd_initialize_model, cli_cmd_cleanup,
    cli_cmd_info, cli_cmd_graph;

/* layers_doc.c: docs/layers.md; false: no memory. */
bool cli_layers_doc(crn_arena *a, FILE *out);
/* Live bar and stop flag of the program, for the engine. */
crn_engine_hooks cli_engine_hooks(cli *c);

#endif
