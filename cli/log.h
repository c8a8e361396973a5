/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's log. While a config is loaded, lines are held back; then they go where its keys `log`, `log_verbosity`
 * and `log_format` say, standard output always among them. Commands that aren't tasks show warnings only, on standard
 * error, so that their output stays theirs.
 */
#ifndef CRN_CLI_LOG_H
#define CRN_CLI_LOG_H

#include "cli.h"
#include "progress.h"

cli_log *cli_log_new(void); /* holds lines back; NULL without memory */
void cli_log_free(cli_log *l);
void cli_log_line(void *log, int level, const char *text); /* a crn_log_fn */
/* Open the targets that the config asks for. *verbosity: highest level that some target shows. */
crn_status cli_log_open(cli_log *l, const crn_config *config, int *verbosity, crn_err *err);
void cli_log_open_quiet(cli_log *l); /* warnings to standard error */
/* The program's last words: to standard error, and to the log's files. */
void cli_log_error(cli_log *l, const char *text);
/* Bar on the terminal, taken away while a line is written. */
cli_progress *cli_log_progress(cli_log *l);

#endif
