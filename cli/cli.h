/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program's parts share: commands, their arguments, the log, loading of configs.
 *
 * A sub-command is one file cmd_NAME.c with one row, and that row's name in commands.c.
 */
#ifndef CRN_CLI_CLI_H
#define CRN_CLI_CLI_H

#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "config/config.h"

/* ---- arguments ---- */

typedef struct cli_option {
  const char *name;    /* without "--"; NULL ends a list */
  char letter;         /* short form, 0 = none */
  const char *metavar; /* name of its value for the help; NULL: takes none */
  const char *doc;
} cli_option;

typedef struct cli_pair {
  const char *name;
  const char *value; /* NULL: none */
} cli_pair;

typedef struct cli_args {
  const char **words; /* arguments that aren't options, in order */
  size_t n_words;
  cli_pair *options; /* options of the command that were given, by their long name */
  size_t n_options;
  cli_pair *settings; /* "++key value" and "--key=value": for the config */
  size_t n_settings;
} cli_args;

typedef struct cli_command cli_command;

/* Sort the arguments after the command's name. Strings point into argv. */
crn_status cli_args_parse(const cli_command *command, int argc, char **argv, crn_arena *a, cli_args *out, crn_err *err);
bool cli_has(const cli_args *args, const char *option);
const char *cli_value(const cli_args *args, const char *option, const char *otherwise);
/* A whole number >= least; otherwise if the option isn't given. */
crn_status cli_value_int(const cli_args *args, const char *option, int64_t otherwise, int64_t least, int64_t *out,
                         crn_err *err);

/* ---- commands ---- */

typedef struct cli_log cli_log;

typedef struct cli {
  crn_arena arena;
  crn_err err;
  crn_log log;    /* give this to the library */
  cli_log *lines; /* behind it, see log.h */
} cli;

struct cli_command {
  const char *name;
  const char *usage; /* its arguments, as in "CONFIG… [++key value]…" */
  const char *doc;   /* one sentence */
  const char *more;  /* further text of its help, lines broken, ending in a newline; or NULL */
  bool takes_config; /* its words begin with config files; "++key value" is allowed */
  const cli_option *options;
  /* One of the two. The message of a failure goes into c->err. */
  crn_status (*run)(cli *c, const cli_args *args);
  /* Does what a config's `task` of that name asks for: all words are configs, loaded, and the log is open. */
  crn_status (*task)(cli *c, const cli_args *args, crn_config *config);
};

extern const cli_command *const cli_commands[]; /* in the order of the help, NULL at the end */
const cli_command *cli_command_find(const char *name);
void cli_print_help(FILE *out);
void cli_print_command_help(const cli_command *command, FILE *out);

/* ---- configs ---- */

/* Load the config files that the first n words name (several: later ones replace keys of earlier ones), apply the
 * settings, open the log (as the config asks if a task is to run, else quiet) and check the keys. Free the config with
 * crn_config_free. */
crn_status cli_load_config(cli *c, const cli_args *args, size_t n_words, bool is_task, crn_config **out);
/* Options that every command with a config has. */
#define CLI_CONFIG_OPTIONS                                                                                             \
  { "chdir", 'C', "FOLDER", "run in that folder: file names are relative to it" }

/* Load the config and run a task: the command's, or the one that the config's key `task` names (command NULL). */
crn_status cli_run_task(cli *c, const cli_command *command, const cli_args *args);

#endif
