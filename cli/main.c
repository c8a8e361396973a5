/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: finds the command, runs it, and turns its status into an exit code: 0, 1 after any error, 130 after
 * Ctrl-C (128 + the signal's number).
 */
#include "cli.h"
#include "interrupt.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Stands for `creturnn CONFIG…`: the config names the task. */
static const cli_option task_options[] = {CLI_CONFIG_OPTIONS, {0}};
static const cli_command run_config = {
    .name = "creturnn",
    .usage = "CONFIG... [++KEY VALUE]...",
    .doc = "Do the config's task.",
    .takes_config = true,
    .options = task_options,
};

/* A name that can't be a command: a file that is there, or something written like a file. */
static bool is_config(const char *word) { return strpbrk(word, "./") || access(word, F_OK) == 0; }

static crn_status unknown_command(const char *word, crn_err *err) {
  const char *names[64];
  size_t n = 0;
  while (cli_commands[n] && n < 64) {
    names[n] = cli_commands[n]->name;
    n++;
  }
  crn_fail(err, CRN_E_CONFIG, "'%s' is neither a command nor a config file", word);
  const char *near = crn_nearest(word, names, n);
  if (near) return crn_err_append(err, " (did you mean '%s'?)", near), err->code;
  crn_err_append(err, "; commands:");
  for (size_t i = 0; i < n; i++) crn_err_append(err, " %s", names[i]);
  return err->code;
}

static crn_status run_command(cli *c, const cli_command *command, int argc, char **argv) {
  cli_args args;
  CRN_TRY(cli_args_parse(command, argc, argv, &c->arena, &args, &c->err));
  if (cli_has(&args, "help")) {
    cli_print_command_help(command, stdout);
    return CRN_OK;
  }
  if (command->run) return command->run(c, &args);
  cli_catch_signals();
  return cli_run_task(c, command->task ? command : NULL, &args);
}

static crn_status dispatch(cli *c, int argc, char **argv) {
  const char *first = argc > 1 ? argv[1] : "";
  if (argc < 2) {
    cli_print_help(stderr);
    return crn_fail(&c->err, CRN_E_CONFIG, "no command and no config given");
  }
  if (!strcmp(first, "--version")) {
    printf("creturnn " CRN_VERSION "\n");
    return CRN_OK;
  }
  if (!strcmp(first, "--help") || !strcmp(first, "-h") || (!strcmp(first, "help") && argc == 2)) {
    cli_print_help(stdout);
    return CRN_OK;
  }
  if (!strcmp(first, "help")) {
    const cli_command *command = cli_command_find(argv[2]);
    if (!command) return unknown_command(argv[2], &c->err);
    cli_print_command_help(command, stdout);
    return CRN_OK;
  }
  const cli_command *command = cli_command_find(first);
  if (command) return run_command(c, command, argc - 2, argv + 2);
  bool is_option = first[0] == '-' || first[0] == '+';
  if (!is_option && !is_config(first)) return unknown_command(first, &c->err);
  return run_command(c, &run_config, argc - 1, argv + 1);
}

static int exit_code(crn_status status) {
  if (status == CRN_OK) return 0;
  int stopped_by = atomic_load(cli_stop_flag());
  return status == CRN_E_INTERRUPTED && stopped_by ? 128 + stopped_by : 1;
}

/* Streams that the caller has closed: else the next files to be opened would take their place and get their text.
 * Opened for reading only, so that it is still known that output gets lost. */
static void hold_closed_streams(void) {
  for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = dup(fd))
    if (fd > STDERR_FILENO) {
      close(fd);
      return;
    }
}

int main(int argc, char **argv) {
  hold_closed_streams();
  cli c = {0};
  c.lines = cli_log_new();
  c.log = (crn_log){cli_log_line, c.lines, 5};
  crn_status status = c.lines ? dispatch(&c, argc, argv) : crn_err_memory(&c.err);
  const bool said = fflush(stdout) == 0 && !ferror(stdout);
  if (status == CRN_OK && !said) status = crn_fail(&c.err, CRN_E_FILE, "can't write the output: %s", strerror(errno));
  if (status != CRN_OK) cli_log_error(c.lines, crn_err_text(&c.err));
  cli_log_free(c.lines);
  crn_err_clear(&c.err);
  crn_arena_free(&c.arena);
  return exit_code(status);
}
