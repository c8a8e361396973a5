/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading of the configs that a command line names, and choosing the command of a config's task.
 */
#include "cli.h"
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The first lines of a run, in the form that log readers look for. */
static void log_start(const crn_log *log) {
  char stamp[40], host[256] = "?", cwd[4096] = "?";
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(stamp, sizeof stamp, "%Y-%m-%d-%H-%M-%S (UTC+0000)", &utc);
  gethostname(host, sizeof host - 1);
  if (!getcwd(cwd, sizeof cwd)) snprintf(cwd, sizeof cwd, "?");
  crn_logf(log, 3, "RETURNN starting up, version creturnn-" CRN_VERSION ", date/time %s, pid %ld, cwd %s, native",
           stamp, (long)getpid(), cwd);
  crn_logf(log, 4, "Hostname: %s", host);
}

static crn_status change_folder(const cli_args *args, crn_err *err) {
  const char *folder = cli_value(args, "chdir", NULL);
  if (folder && chdir(folder) != 0)
    return crn_fail(err, CRN_E_FILE, "can't change to folder '%s': %s", folder, strerror(errno));
  return CRN_OK;
}

static crn_status add_file(cli *c, crn_config *config, const char *word) {
  const crn_status status = crn_config_add_file(config, word, &c->log, &c->err);
  if (status == CRN_E_FILE && strchr(word, '=') && access(word, F_OK) != 0)
    crn_err_append(&c->err, " (a key is set by ++%s)", word);
  return status;
}

static crn_status fill_config(cli *c, const cli_args *args, size_t n_words, bool is_task, crn_config *config) {
  for (size_t i = 0; i < n_words; i++) CRN_TRY(add_file(c, config, args->words[i]));
  for (size_t i = 0; i < args->n_settings; i++)
    CRN_TRY(crn_config_override(config, args->settings[i].name, args->settings[i].value, &c->log, &c->err));
  if (is_task)
    CRN_TRY(cli_log_open(c->lines, config, &c->log.verbosity, &c->err));
  else
    cli_log_open_quiet(c->lines);
  if (is_task) log_start(&c->log);
  crn_config_check_keys(config, &c->log);
  return CRN_OK;
}

crn_status cli_load_config(cli *c, const cli_args *args, size_t n_words, bool is_task, crn_config **out) {
  *out = NULL;
  if (n_words == 0) return crn_fail(&c->err, CRN_E_CONFIG, "no config given");
  CRN_TRY(change_folder(args, &c->err));
  crn_config *config;
  CRN_TRY(crn_config_new(&config, &c->err));
  crn_status status = fill_config(c, args, n_words, is_task, config);
  if (status != CRN_OK) {
    crn_config_free(config);
    return status;
  }
  *out = config;
  return CRN_OK;
}

/* The command that does a config's task; NULL with the error set. */
static const cli_command *command_of_task(cli *c, const crn_config *config) {
  const char *task;
  if (crn_config_str(config, "task", "train", &task, &c->err) != CRN_OK) return NULL;
  const cli_command *command = cli_command_find(strcmp(task, "hpx") ? task : "forward");
  if (command && command->task) return command;
  crn_fail(&c->err, CRN_E_NOT_IMPLEMENTED, "%s: key 'task': not implemented: task '%s'", crn_config_file(config), task);
  return NULL;
}

crn_status cli_run_task(cli *c, const cli_command *command, const cli_args *args) {
  crn_config *config;
  CRN_TRY(cli_load_config(c, args, args->n_words, true, &config));
  if (!command) command = command_of_task(c, config);
  crn_status status = command ? command->task(c, args, config) : c->err.code;
  crn_config_free(config);
  return status;
}
