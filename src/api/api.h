/* SPDX-License-Identifier: Apache-2.0
 *
 * What is behind the public handles (creturnn.h): a model is a config, its network and the loaded parameters; a session
 * is one run's memory over them. Nothing of a model changes after loading, so that sessions run in parallel.
 */
#ifndef CRN_API_API_H
#define CRN_API_API_H

#include "net/decoder.h"
#include "train/engine.h"

struct crn_model {
  crn_config *config;
  crn_engine engine; /* store and loading; its eval_net is the network */
  crn_net *net;
  crn_use use;
};

struct crn_session {
  crn_model *model;
  crn_exec *exec;
  crn_layer *output; /* the network's output, or NULL: none that is told apart */
  bool *wanted;      /* by layer index */
  bool streaming;
  bool open;     /* inputs of the next run are being given */
  bool ran;      /* outputs can be read */
  uint64_t step; /* runs so far */
  crn_decoder decoder;
  bool decoding;
  bool cut; /* a piece of a stream began before all steps of the one before were decided */
};

/* Copy err's text into message (may be NULL) and free it; returns st. */
crn_status crn_api_return(crn_status st, crn_err *err, crn_message *message);
/* Fail because a pointer that a call needs is NULL. */
crn_status crn_api_null(const char *what, crn_message *message);
/* Begin a run if none is open. */
void crn_api_open(crn_session *s);
/* The layer of that path (NULL or "": the output), or a message that names the nearest one. */
crn_status crn_api_layer(const crn_session *s, const char *path, crn_layer **out, crn_err *err);
const char *crn_api_type_name(crn_type type);

#endif
