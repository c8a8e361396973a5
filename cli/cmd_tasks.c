/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn train, eval, search: tasks of a config, with a live bar on a terminal.
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

static crn_status run_train(cli *c, const cli_args *args, crn_config *config) {
  const crn_engine_hooks hooks = cli_engine_hooks(c);
  (void)args;
  return crn_task_train(config, &c->log, &hooks, &c->err);
}

static crn_status run_eval(cli *c, const cli_args *args, crn_config *config) {
  const crn_engine_hooks hooks = cli_engine_hooks(c);
  (void)args;
  return crn_task_eval(config, &c->log, &hooks, &c->err);
}

static crn_status run_search(cli *c, const cli_args *args, crn_config *config) {
  const crn_engine_hooks hooks = cli_engine_hooks(c);
  int64_t nbest;
  CRN_TRY(cli_value_int(args, "nbest", 0, 1, &nbest, &c->err));
  return crn_task_search_nbest(config, &c->log, &hooks, nbest, &c->err);
}

static const cli_option search_options[] = {
    {"nbest", 'n', "N", "the N best hypotheses with their scores"}, CLI_CONFIG_OPTIONS, {0}};

const cli_command cli_cmd_train = {.name = "train",
                                   .usage = "CONFIG... [++KEY VALUE]...",
                                   .doc = "Train the config's network.",
                                   .takes_config = true,
                                   .options = options,
                                   .task = run_train};
const cli_command cli_cmd_eval = {.name = "eval",
                                  .usage = "CONFIG... [++KEY VALUE]...",
                                  .doc = "Evaluate a model on the config's datasets.",
                                  .takes_config = true,
                                  .options = options,
                                  .task = run_eval};
const cli_command cli_cmd_search = {.name = "search",
                                    .usage = "[--nbest N] CONFIG... [++KEY VALUE]...",
                                    .doc = "Decode a dataset by beam search.",
                                    .takes_config = true,
                                    .options = search_options,
                                    .task = run_search};
