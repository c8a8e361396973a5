/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of the public interface: inputs, runs, step-by-step decoding. Inputs are checked here against the network's
 * data, so that a wrong one is told before anything runs.
 */
#include <string.h>

#include "api/api.h"
#include "net/stream.h"

static crn_status make(crn_session *s, crn_model *model, const crn_session_options *o, crn_err *err) {
  const crn_session_opts opts = {.n_threads = o ? o->num_threads : 1, .seed = o ? o->seed : model->engine.seed};
  if (opts.n_threads < 0) return crn_fail(err, CRN_E_STATE, "num_threads must be 0 or more, got %d", opts.n_threads);
  s->model = model;
  CRN_TRY(crn_exec_new(model->net, &opts, &s->exec, err));
  s->wanted = crn_calloc((size_t)model->net->n_layers + 1, sizeof(*s->wanted));
  if (!s->wanted) return crn_err_memory(err);
  s->output = crn_net_default_output(model->net);
  if (s->output) {
    s->wanted[s->output->index] = true;
    crn_exec_keep(s->exec, s->output);
  }
  s->streaming = o && o->streaming;
  return s->streaming ? crn_stream_start(s->exec, err) : CRN_OK;
}

crn_status crn_session_new(crn_model *model, const crn_session_options *options, crn_session **session,
                           crn_message *message) {
  if (session) *session = NULL;
  if (!session || !model) return crn_api_null(session ? "the model" : "the place for the session", message);
  crn_err err = {0};
  crn_session *s = crn_calloc(1, sizeof(*s));
  const crn_status st = s ? make(s, model, options, &err) : crn_err_memory(&err);
  if (st == CRN_OK)
    *session = s;
  else
    crn_session_free(s);
  return crn_api_return(st, &err, message);
}

void crn_session_free(crn_session *session) {
  if (!session) return;
  crn_exec_free(session->exec);
  crn_free(session->wanted);
  crn_free(session);
}

void crn_api_open(crn_session *s) {
  if (s->open) return;
  s->cut = s->cut || (s->streaming && s->decoding && s->decoder.scores);
  s->exec->keep_all = false; /* decoding sets it */
  crn_exec_begin(s->exec, false, s->step++);
  s->open = true;
  s->ran = s->decoding = false;
}

/* ---- inputs ---------------------------------------------------------------------------------------------------------
 */

static const struct {
  const char *name;
  crn_dtype dtype;
} types[] = {[CRN_FLOAT32] = {"float32", CRN_F32},
             [CRN_INT32] = {"int32", CRN_I32},
             [CRN_INT64] = {"int64", CRN_I64},
             [CRN_UINT8] = {"uint8", CRN_U8},
             [CRN_BOOLEAN] = {"bool", CRN_BOOL}};
enum { N_TYPES = sizeof(types) / sizeof(*types) };

const char *crn_api_type_name(crn_type type) { return (unsigned)type < N_TYPES ? types[type].name : "?"; }

static crn_status unknown_key(const crn_net *net, const char *key, crn_err *err) {
  const char *names[64];
  size_t n = 0;
  crn_str all = {0};
  for (int i = 0; i < net->n_externs; i++) {
    if (n < 64) names[n++] = net->externs[i].key;
    crn_str_addf(&all, "%s'%s'", i ? ", " : "", net->externs[i].key);
  }
  const char *near = crn_nearest(key, names, n);
  const crn_status st = crn_fail(err, CRN_E_DATA, "unknown data key '%s'", key);
  if (near) crn_err_append(err, " (did you mean '%s'?)", near);
  crn_err_append(err, "; the network has %s", crn_str_ok(&all) && n ? crn_str_get(&all) : "none");
  crn_str_free(&all);
  return st;
}

/* Values of a type that the key's dtype holds without loss; labels are of any integer type. */
static crn_status check_type(const crn_extern *e, crn_type type, crn_err *err) {
  if ((unsigned)type >= N_TYPES) return crn_fail(err, CRN_E_DATA, "data key '%s': unknown type %d", e->key, (int)type);
  const crn_dtype want = e->t.dtype, got = types[type].dtype;
  const bool ok = crn_dtype_is_float(want) ? got == CRN_F32
                  : want == CRN_BOOL       ? got == CRN_BOOL
                  : crn_dtype_is_int(want) ? crn_dtype_is_int(got)
                                           : false;
  if (ok) return CRN_OK;
  return crn_fail(err, CRN_E_DATA, "data key '%s': expected %s values, got %s", e->key, crn_dtype_name(want),
                  types[type].name);
}

static void describe_shape(crn_str *s, const crn_extern *e, int rank, const int64_t *shape) {
  char buf[32];
  crn_str_add(s, "expected [");
  for (int i = 0; i < e->t.n; i++) crn_str_addf(s, "%s%s", i ? ", " : "", crn_dim_letters(e->t.dims[i], buf));
  crn_str_add(s, "], got [");
  for (int i = 0; i < rank && i < CRN_MAX_RANK; i++) crn_str_addf(s, "%s%lld", i ? ", " : "", (long long)shape[i]);
  crn_str_add(s, "]");
}

static crn_status check_shape(const crn_extern *e, int rank, const int64_t *shape, const void *values, crn_err *err) {
  bool ok = rank == e->t.n && (rank == 0 || shape);
  int64_t count = 1;
  for (int i = 0; ok && i < rank; i++) {
    ok = shape[i] >= 0 && (e->t.dims[i]->size < 0 || e->t.dims[i]->size == shape[i]);
    ok = ok && (shape[i] == 0 || count <= INT64_MAX / 8 / shape[i]);
    if (ok) count *= shape[i];
  }
  if (ok && values) return CRN_OK;
  if (ok && count == 0) return CRN_OK;
  if (ok) return crn_fail(err, CRN_E_DATA, "data key '%s': values are missing (NULL)", e->key);
  crn_str s = {0};
  describe_shape(&s, e, shape ? rank : 0, shape);
  const crn_status st = crn_fail(err, CRN_E_DATA, "data key '%s': %s", e->key, crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

static crn_status check_lengths(const crn_extern *e, int n_lengths, const int32_t *const *lengths, crn_err *err) {
  const int want = crn_tmpl_n_dynamic(&e->t);
  if (n_lengths != want)
    return crn_fail(err, CRN_E_DATA, "data key '%s': it has %d dynamic ax%s, lengths were given for %d", e->key, want,
                    want == 1 ? "is" : "es", n_lengths);
  for (int i = 0; i < want; i++)
    if (!lengths || !lengths[i])
      return crn_fail(err, CRN_E_DATA, "data key '%s': lengths %d are missing (NULL)", e->key, i);
  return CRN_OK;
}

static crn_status input(crn_session *s, const char *key, crn_type type, int rank, const int64_t *shape,
                        const void *values, int n_lengths, const int32_t *const *lengths, crn_err *err) {
  const crn_extern *e = crn_net_extern(s->model->net, key ? key : "");
  if (!e) return unknown_key(s->model->net, key ? key : "", err);
  CRN_TRY(check_type(e, type, err));
  CRN_TRY(check_shape(e, rank, shape, values, err));
  CRN_TRY(check_lengths(e, n_lengths, lengths, err));
  crn_api_open(s);
  return crn_exec_feed(s->exec, key, types[type].dtype, rank, shape, values ? values : "", n_lengths, lengths, err);
}

crn_status crn_session_input(crn_session *session, const char *key, crn_type type, int rank, const int64_t *shape,
                             const void *values, int n_lengths, const int32_t *const *lengths, crn_message *message) {
  if (!session) return crn_api_null("the session", message);
  crn_err err = {0};
  const crn_status st = input(session, key, type, rank, shape, values, n_lengths, lengths, &err);
  return crn_api_return(st, &err, message);
}

/* ---- runs -----------------------------------------------------------------------------------------------------------
 */

/* Close the inputs; all that the network reads must be there. */
static crn_status close_inputs(crn_session *s, crn_err *err) {
  const crn_net *net = s->model->net;
  crn_api_open(s);
  for (int i = 0; i < net->n_externs; i++) {
    const crn_extern *e = &net->externs[i];
    if (e->layer && e->layer->live && !s->exec->feed[i])
      return crn_fail(err, CRN_E_DATA, "data key '%s' is needed and was not given", e->key);
  }
  s->open = false;
  return CRN_OK;
}

crn_status crn_session_run(crn_session *session, crn_message *message) {
  if (!session) return crn_api_null("the session", message);
  crn_err err = {0};
  crn_status st = session->streaming ? crn_stream_check_run(session->model->net, &err) : CRN_OK;
  if (st == CRN_OK) st = close_inputs(session, &err);
  if (st != CRN_OK) return crn_api_return(st, &err, message);
  st = crn_exec_forward(session->exec, &err);
  session->ran = st == CRN_OK;
  if (st != CRN_OK && session->streaming) crn_stream_forget(session->exec);
  return crn_api_return(st, &err, message);
}

void crn_session_reset(crn_session *session) {
  if (!session || !session->streaming) return;
  session->cut = session->decoding = false;
  crn_stream_forget(session->exec);
}

/* ---- decoding step by step ------------------------------------------------------------------------------------------
 */

static crn_status start(crn_session *s, const char *loop, crn_err *err) {
  crn_layer *l;
  if (s->model->use != CRN_USE_SEARCH)
    return crn_fail(err, CRN_E_STATE, "decoding needs a model that was loaded with CRN_USE_SEARCH");
  CRN_TRY(crn_api_layer(s, loop, &l, err));
  CRN_TRY(close_inputs(s, err));
  crn_status st = CRN_OK;
  if (s->cut)
    st = crn_fail(err, CRN_E_STATE, "not all frames of the piece before were decided; the stream begins anew");
  if (st == CRN_OK) st = crn_decoder_begin(&s->decoder, s->exec, l, err);
  if (st != CRN_OK) crn_session_reset(s);
  s->decoding = st == CRN_OK;
  return st;
}

crn_status crn_decoder_start(crn_session *session, const char *loop, crn_message *message) {
  if (!session) return crn_api_null("the session", message);
  crn_err err = {0};
  return crn_api_return(start(session, loop, &err), &err, message);
}

const float *crn_decoder_scores(const crn_session *session, int64_t *n_hypotheses, int64_t *n_labels) {
  const crn_decoder *d = session && session->decoding ? &session->decoder : NULL;
  if (n_hypotheses) *n_hypotheses = d ? d->n : 0;
  if (n_labels) *n_labels = d ? d->n_labels : 0;
  return d && d->scores ? crn_t_f32(d->scores) : NULL;
}

static crn_status go_on(crn_session *s, int64_t n, const int32_t *from, const int32_t *labels, crn_err *err) {
  const crn_decoder *d = &s->decoder;
  if (!s->decoding) return crn_fail(err, CRN_E_STATE, "no decoding has begun: call crn_decoder_start first");
  if (!d->scores)
    return crn_fail(err, CRN_E_STATE, "the loop has no more steps%s", s->streaming ? " until the next piece" : "");
  if (n < 1) return crn_fail(err, CRN_E_DATA, "there must be at least one hypothesis, got %lld", (long long)n);
  if (n > INT32_MAX / 2) return crn_fail(err, CRN_E_DATA, "%lld hypotheses are too many", (long long)n);
  if (!from || !labels) return crn_fail(err, CRN_E_DATA, "from or labels are missing (NULL)");
  for (int64_t i = 0; i < n; i++) {
    if (from[i] < 0 || from[i] >= d->n)
      return crn_fail(err, CRN_E_DATA, "from[%lld] = %d is not in [0, %lld)", (long long)i, from[i], (long long)d->n);
    if (labels[i] < 0 || labels[i] >= d->n_labels)
      return crn_fail(err, CRN_E_DATA, "labels[%lld] = %d is not in [0, %lld)", (long long)i, labels[i],
                      (long long)d->n_labels);
  }
  const crn_status st = crn_decoder_next(&s->decoder, n, from, labels, err);
  s->decoding = st == CRN_OK;
  if (st != CRN_OK) crn_session_reset(s);
  return st;
}

crn_status crn_decoder_continue(crn_session *session, int64_t n, const int32_t *from, const int32_t *labels,
                                crn_message *message) {
  if (!session) return crn_api_null("the session", message);
  crn_err err = {0};
  return crn_api_return(go_on(session, n, from, labels, &err), &err, message);
}
