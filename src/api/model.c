/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of the public interface: config, network, checkpoint.
 */
#include "api/api.h"

#include <stdio.h>
#include <string.h>

const char *crn_version(void) { return CRN_VERSION; }

crn_status crn_api_return(crn_status st, crn_err *err, crn_message *message) {
  if (message) (void)snprintf(message->text, sizeof(message->text), "%s", st == CRN_OK ? "" : crn_err_text(err));
  crn_err_clear(err);
  return st;
}

crn_status crn_api_null(const char *what, crn_message *message) {
  crn_err err = {0};
  return crn_api_return(crn_fail(&err, CRN_E_STATE, "%s is NULL", what), &err, message);
}

crn_model_options crn_model_defaults(void) { return (crn_model_options){.use = CRN_USE_FORWARD}; }

static crn_status load(crn_model *m, const char *config_path, const char *checkpoint, const crn_model_options *o,
                       crn_err *err) {
  const crn_log log = {.fn = o->log, .user = o->log_user, .verbosity = o->log_level};
  if (!config_path) return crn_fail(err, CRN_E_CONFIG, "no config is given");
  if (o->use != CRN_USE_FORWARD && o->use != CRN_USE_SEARCH)
    return crn_fail(err, CRN_E_CONFIG, "use %d is neither CRN_USE_FORWARD nor CRN_USE_SEARCH", (int)o->use);
  m->use = o->use;
  CRN_TRY(crn_config_load(config_path, &log, &m->config, err));
  crn_engine *e = &m->engine;
  CRN_TRY(crn_engine_init(e, m->config, &log, NULL, err));
  const crn_net_mode mode = {.search = o->use == CRN_USE_SEARCH};
  crn_status st = crn_net_build(e->values, mode, e->store, &e->log, &e->eval_net, err);
  if (st != CRN_OK && !crn_engine_has_extern_data(e))
    crn_err_append(err, "; %s has no extern_data, which the library needs: it opens no dataset",
                   crn_config_file(m->config));
  CRN_TRY(st);
  m->net = e->eval_net;
  CRN_TRY(crn_engine_preload(e, m->net, false, err));
  if (checkpoint) CRN_TRY(crn_engine_load(e, m->net, checkpoint, o->ignore_missing != 0, err));
  CRN_TRY(crn_store_init_values(e->store, e->seed, err));
  crn_store_read_only(e->store);
  return CRN_OK;
}

crn_status crn_model_load(const char *config_path, const char *checkpoint, const crn_model_options *options,
                          crn_model **model, crn_message *message) {
  if (!model) return crn_api_null("the place for the model", message);
  crn_err err = {0};
  const crn_model_options defaults = crn_model_defaults();
  crn_model *m = crn_calloc(1, sizeof(*m));
  *model = NULL;
  crn_status st = m ? load(m, config_path, checkpoint, options ? options : &defaults, &err) : crn_err_memory(&err);
  if (st == CRN_OK)
    *model = m;
  else
    crn_model_free(m);
  return crn_api_return(st, &err, message);
}

void crn_model_free(crn_model *model) {
  if (!model) return;
  crn_engine_deinit(&model->engine);
  crn_config_free(model->config);
  crn_free(model);
}

int64_t crn_model_num_params(const crn_model *model) {
  int64_t n = 0;
  for (int i = 0; model && i < model->net->n_params; i++) n += model->net->params[i]->size;
  return n;
}
