/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn train, eval, search, …: tasks of a config, with a live bar on a terminal.
 */
#include "commands.h"
#include "interrupt.h"
#include "log.h"

#include "train/engine.h"

static const cli_option options[] = {CLI_CONFIG_OPTIONS, {0}};

static void pass(void *user, const char *label) { cli_progress_start(cli_log_progress(user), label); }
static void step(void *user, int64_t n, double complete, double loss) {
  cli_progress_step(cli_log_progress(user), n, complete, loss);
}
static void pass_end(void *user) { cli_progress_end(cli_log_progress(user)); }
static bool stop(void *user) { return (void)user, atomic_load(cli_stop_flag()) != 0; }

crn_engine_hooks cli_engine_hooks(cli *c) {
  return (crn_engine_hooks){.user = c->lines, .pass = pass, .step = step, .pass_end = pass_end, .stop = stop};
}

#define RUN(task)                                                                                                      \
  static crn_status run_##task(cli *c, const cli_args *args, crn_config *config) {                                     \
    const crn_engine_hooks hooks = cli_engine_hooks(c);                                                                \
    return (void)args, crn_task_##task(config, &c->log, &hooks, &c->err);                                              \
  }
RUN(train)
RUN(eval)
RUN(forward)
RUN(compute_priors)
RUN(initialize_model)

static crn_status run_search(cli *c, const cli_args *args, crn_config *config) {
  const crn_engine_hooks hooks = cli_engine_hooks(c);
  int64_t nbest;
  CRN_TRY(cli_value_int(args, "nbest", 0, 1, &nbest, &c->err));
  return crn_task_search_nbest(config, &c->log, &hooks, nbest, &c->err);
}

static const cli_option search_options[] = {
    {"nbest", 'n', "N", "the N best hypotheses with their scores"}, CLI_CONFIG_OPTIONS, {0}};

static bool confirm(void *user, const char *question) {
  char answer[16] = "";
  (void)user;
  fprintf(stderr, "%s [y/N] ", question);
  fflush(stderr);
  return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static crn_status run_cleanup(cli *c, const cli_args *args, crn_config *config) {
  crn_engine_hooks hooks = cli_engine_hooks(c);
  if (!cli_has(args, "yes")) hooks.confirm = confirm;
  return crn_task_cleanup_old_models(config, &c->log, &hooks, &c->err);
}

static const cli_option cleanup_options[] = {{"yes", 'y', NULL, "don't ask"}, CLI_CONFIG_OPTIONS, {0}};

#define TASK(id, run_task, task_name, task_doc)                                                                        \
  const cli_command id = {.name = task_name,                                                                           \
                          .usage = "CONFIG... [++KEY VALUE]...",                                                       \
                          .doc = task_doc,                                                                             \
                          .takes_config = true,                                                                        \
                          .options = options,                                                                          \
                          .task = run_task}
TASK(cli_cmd_train, run_train, "train", "Train the config's network.");
TASK(cli_cmd_eval, run_eval, "eval", "Evaluate a model on the config's datasets.");
TASK(cli_cmd_forward, run_forward, "forward", "Write a layer's output for the dataset 'eval' into an HDF file.");
TASK(cli_cmd_compute_priors, run_compute_priors, "compute_priors",
     "Average the output over the training data, as log priors.");
TASK(cli_cmd_initialize_model, run_initialize_model, "initialize_model", "Save a checkpoint with initial parameters.");
const cli_command cli_cmd_cleanup = {.name = "cleanup_old_models",
                                     .usage = "[--yes] CONFIG... [++KEY VALUE]...",
                                     .doc = "Delete the checkpoints that cleanup_old_models wouldn't keep.",
                                     .takes_config = true,
                                     .options = cleanup_options,
                                     .task = run_cleanup};
const cli_command cli_cmd_search = {.name = "search",
                                    .usage = "[--nbest N] CONFIG... [++KEY VALUE]...",
                                    .doc = "Decode a dataset by beam search.",
                                    .takes_config = true,
                                    .options = search_options,
                                    .task = run_search};
