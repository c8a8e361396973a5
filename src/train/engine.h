/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine behind a config's tasks: networks of its modes over one store of parameters, data, checkpoints, epochs.
 *
 * One engine belongs to one thread. Nothing is printed: lines go to the log, live numbers to the hooks.
 */
#ifndef CRN_TRAIN_ENGINE_H
#define CRN_TRAIN_ENGINE_H

#include "config/config.h"
#include "data/batch.h"
#include "net/exec.h"
#include "train/learning_rate.h"
#include "train/scores.h"
#include "train/start_epoch.h"
#include "train/updater.h"

typedef struct crn_engine_hooks { /* all may be NULL */
  void *user;
  void (*pass)(void *user, const char *label);                              /* a pass over data begins */
  void (*step)(void *user, int64_t step, double complete, double loss);     /* complete < 0: unknown */
  void (*pass_end)(void *user);
  bool (*stop)(void *user); /* true: stop after this step (CRN_E_INTERRUPTED) */
  bool (*confirm)(void *user, const char *question); /* NULL: yes */
} crn_engine_hooks;

typedef struct crn_engine {
  crn_config *config;
  const crn_value *values; /* dict of all keys, with what the engine adds */
  crn_log log;
  crn_engine_hooks hooks;
  crn_arena arena;
  crn_store *store;
  crn_net *train_net, *eval_net; /* eval: also search and forward networks */
  crn_exec *train_exec, *eval_exec;
  crn_updater *updater;
  crn_update_param *update_params; /* the training network's */
  crn_update_grad *update_grads;
  int32_t **row_indices; /* buffers of gathered rows, per parameter */
  char **row_values;
  int64_t *row_caps;
  crn_lr_control *lr;
  const char *model; /* prefix of checkpoints or NULL */
  int64_t epoch, num_epochs, save_interval;
  bool stop_on_nonfinite;
  bool dry_run;    /* no checkpoints, no learning-rate file, nothing deleted */
  bool need_data;  /* false: train, dev and eval aren't opened */
  bool log_sizes;  /* log_batch_size */
  uint64_t seed;
} crn_engine;

crn_status crn_engine_init(crn_engine *e, crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);
void crn_engine_deinit(crn_engine *e);
crn_status crn_engine_eval_net(crn_engine *e, crn_net_mode mode, crn_err *err); /* eval_net and its session */

/* The learning-rate control with its table, read from the config's file if there is one. */
crn_status crn_engine_open_rates(crn_engine *e, const crn_lr_hook *hook, crn_err *err);
/* Seed of the initial parameters of a network that is built for this epoch. */
uint64_t crn_engine_init_seed(const crn_engine *e, int64_t epoch);

/* engine_feed.c: data */
crn_status crn_engine_dataset(crn_engine *e, const char *key, crn_dataset **out, crn_err *err); /* NULL: config has none */
bool crn_engine_has_extern_data(const crn_engine *e); /* the config says which data keys there are */
crn_status crn_engine_extern_data(crn_engine *e, crn_dataset *ds, crn_err *err); /* from the dataset, if the config says nothing */
crn_status crn_engine_check_data(const crn_net *net, const crn_dataset *ds, crn_err *err); /* SPEC 1.3 */
crn_status crn_engine_batcher(crn_engine *e, const crn_net *net, crn_dataset *ds, crn_batch_use use, crn_batcher **out, crn_err *err);
crn_status crn_engine_feed(crn_exec *x, const crn_batch *b, crn_err *err);

/* engine_output.c: files, and layers whose values a task gives out */
/* Before the work: the file that config key `key` names can be written (missing folders are made), and it isn't there
 * unless may_exist. */
crn_status crn_engine_prepare_file(const crn_engine *e, const char *key, const char *path, bool may_exist, crn_err *err);
/* The same for a name as the config gives it. */
crn_status crn_engine_output_file(crn_engine *e, const char *key, const char *file, bool may_exist, const char **path,
                                  crn_err *err);
crn_status crn_engine_prepare_model(crn_engine *e, crn_err *err); /* the same for checkpoints */
/* Let the network build a layer of the net dict though nobody reads it (before the network is built). */
crn_status crn_engine_want_layer(crn_engine *e, const char *name, crn_err *err);
/* The layer that config key `key` named; NULL: the default output. */
crn_status crn_engine_output_layer(crn_net *net, const char *name, const char *key, const crn_layer **out, crn_err *err);
/* Its value after a run as [B (or B*K), T, …, F]; time second and feature last where they are. */
crn_status crn_engine_output(crn_exec *x, const crn_layer *l, const crn_batch *b, const crn_data **out, crn_err *err);

/* engine_model.c: parameters and checkpoints */
crn_status crn_engine_load(crn_engine *e, const crn_net *net, const char *prefix, bool ignore_missing, crn_err *err);
crn_status crn_engine_preload(crn_engine *e, const crn_net *net, bool first_training_epoch, crn_err *err);
/* For crn_save_opts (engine: a crn_engine): waits between tries; false as soon as the hooks say stop. */
bool crn_engine_wait(void *engine, int64_t ms);
/* The learning-rate file; as a checkpoint it is tried again when the disk is full. */
crn_status crn_engine_save_rates(crn_engine *e, crn_err *err);
crn_status crn_engine_save(crn_engine *e, const crn_net *net, const char *prefix, crn_err *err);
crn_status crn_engine_save_epoch(crn_engine *e, crn_err *err);
/* Checkpoints of the config's training, up to its last epoch or load_epoch. */
crn_status crn_engine_models(crn_engine *e, int64_t load_epoch, crn_models *out, crn_err *err);
/* For tasks other than train: what the config says of load, load_epoch, model. */
crn_status crn_engine_load_for_task(crn_engine *e, const crn_net *net, crn_err *err);

/* engine_cleanup.c: delete old checkpoints as cleanup_old_models says. last: the last epoch that may be stored. ask: only
 * after the hooks' confirm said yes. */
crn_status crn_engine_cleanup(crn_engine *e, int64_t last, bool ask, crn_err *err);

/* engine_pass.c: one pass over a dataset */
typedef struct crn_pass {
  crn_exec *exec;
  const crn_net *net;
  crn_dataset *dataset;
  crn_batch_use use;
  bool train;
  const char *label; /* "train epoch 1" */
  double lr;
  crn_scores *scores; /* or NULL */
  /* After each step, before the batch is freed; may be NULL. */
  crn_status (*each)(void *user, crn_engine *e, const crn_batch *b, crn_err *err);
  void *user;
  int64_t n_steps;   /* result */
  double seconds;    /* result */
} crn_pass;
crn_status crn_engine_pass(crn_engine *e, crn_pass *p, crn_err *err);
crn_status crn_engine_make_updater(crn_engine *e, crn_err *err);
crn_status crn_engine_update(crn_engine *e, double lr, int64_t epoch_step, crn_err *err);

crn_status crn_engine_curve(crn_engine *e, crn_err *err); /* engine_curve.c: learning_curve.svg, where there is a learning-rate file */

/* step_report.c: add to a failed step's message which one it was (SPEC 8). */
void crn_step_report(const crn_batch *b, int64_t epoch, int64_t step, crn_err *err);

/* task_info.c: what a config amounts to. search: of the searching network (also when the task is search); params: list
 * them. n_problems: lines below "not supported:". */
crn_status crn_engine_info(crn_config *config, const crn_log *log, bool search, bool params, crn_str *out, int64_t *n_problems,
                           crn_err *err);
crn_status crn_engine_graph(crn_config *config, const crn_log *log, bool search, crn_str *out, crn_err *err);

/* Tasks. */
crn_status crn_task_train(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);
crn_status crn_task_eval(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);
crn_status crn_task_forward(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);
/* nbest > 0: so many hypotheses of each sequence, best first, with scores, also where the layer decides for one. */
crn_status crn_task_search_nbest(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, int64_t nbest, crn_err *err);
crn_status crn_task_search(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);
crn_status crn_task_initialize_model(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);
crn_status crn_task_cleanup_old_models(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);
crn_status crn_task_compute_priors(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);

#endif
