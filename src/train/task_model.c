/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks on checkpoints alone: initialize_model and cleanup_old_models.
 */
#include "train/engine.h"
#include "train/keep_models.h"

static crn_status initialize(crn_engine *e, crn_dataset **data, crn_err *err) {
  if (!e->model)
    return crn_fail(err, CRN_E_CONFIG, "%s: task initialize_model needs 'model'", crn_config_file(e->config));
  CRN_TRY(crn_engine_prepare_model(e, err));
  CRN_TRY(crn_engine_dataset(e, "train", data, err));
  CRN_TRY(crn_engine_extern_data(e, *data, err));
  CRN_TRY(crn_net_build(e->values, (crn_net_mode){.train = true, .eval = true}, e->store, &e->log, &e->train_net, err));
  CRN_TRY(crn_engine_preload(e, e->train_net, true, err));
  CRN_TRY(crn_store_init_values(e->store, crn_engine_init_seed(e, 1), err));
  if (!e->dry_run) crn_logf(&e->log, 4, "Save model under %s", e->model);
  return crn_engine_save(e, e->train_net, e->model, err);
}

crn_status crn_task_initialize_model(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks,
                                     crn_err *err) {
  crn_engine e;
  crn_dataset *data = NULL;
  crn_status st = crn_engine_init(&e, config, log, hooks, err);
  if (st == CRN_OK) st = initialize(&e, &data, err);
  crn_engine_deinit(&e);
  crn_dataset_free(data);
  return st;
}

static crn_status clean_up(crn_engine *e, crn_err *err) {
  if (!e->model)
    return crn_fail(err, CRN_E_CONFIG, "%s: task cleanup_old_models needs 'model'", crn_config_file(e->config));
  if (e->dry_run) return CRN_OK;
  CRN_TRY(crn_engine_open_rates(e, NULL, err));
  if (!crn_lr_file(e->lr))
    return crn_fail(err, CRN_E_CONFIG, "%s: task cleanup_old_models needs 'learning_rate_file', which holds the scores",
                    crn_config_file(e->config));
  return crn_engine_cleanup(e, e->num_epochs, true, err);
}

crn_status crn_task_cleanup_old_models(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks,
                                       crn_err *err) {
  crn_engine e;
  crn_status st = crn_engine_init(&e, config, log, hooks, err);
  if (st == CRN_OK) st = clean_up(&e, err);
  crn_engine_deinit(&e);
  return st;
}
