/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching runs: config keys that print layers' outputs or stop at the first inf or nan, and the message about data
 * that is needed but wasn't fed.
 */
#include <math.h>
#include <string.h>

#include "net/exec.h"
#include "tensor/report.h"

enum watch_flags { WATCH_NUMERICS = 1u, WATCH_SHAPES = 2u, WATCH_VALUES = 4u, WATCH_SOME = 8u /* layers that ask for it */ };

static unsigned flags_of(const crn_net *net) {
  static const struct {
    const char *key;
    unsigned flag;
  } keys[] = {{"debug_add_check_numerics_on_output", WATCH_NUMERICS},
              {"debug_add_check_numerics_ops", WATCH_NUMERICS},
              {"debug_print_layer_output_shape", WATCH_SHAPES},
              {"debug_print_layer_output", WATCH_VALUES}};
  unsigned flags = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (crn_v_truth(crn_v_get(net->config, keys[i].key))) flags |= keys[i].flag;
  for (int i = 0; i < net->n_layers; i++)
    if (net->layers[i]->dict && crn_v_truth(crn_v_get(net->layers[i]->dict, "debug_print_layer_output"))) flags |= WATCH_SOME;
  return flags;
}

void crn_exec_check_numerics(crn_exec *x) {
  x->watch |= WATCH_NUMERICS;
  x->run.trace = &x->trace;
}

void crn_exec_watch_init(crn_exec *x) {
  x->watch = flags_of(x->net);
  if (x->watch & WATCH_NUMERICS) crn_exec_check_numerics(x);
}

static void print_output(const crn_exec *x, const crn_layer *l, const crn_data *d, bool values) {
  char buf[160];
  crn_str s = {0};
  crn_str_addf(&s, "layer '%s': %s", l->path, crn_t_describe(d->v, buf, sizeof buf));
  const int64_t n = crn_t_size(d->v);
  if (values && n > 0 && d->v->dtype != CRN_STRING && d->v->dtype != CRN_C64) {
    const crn_t_range r = crn_t_range_of(d->v);
    crn_str_addf(&s, ", min %g, max %g, mean %g: [", r.min, r.max, r.mean);
    for (int64_t i = 0; i < n && i < 10; i++) crn_str_addf(&s, i ? ", %g" : "%g", crn_t_get(d->v, i));
    crn_str_add(&s, n > 10 ? ", ...]" : "]");
  }
  crn_logf(x->run.log, 1, "%s", crn_str_get(&s));
  crn_str_free(&s);
}

/* What is beyond the lengths may hold anything. */
static int64_t bad_in(const crn_tensor *t) {
  const crn_t_range r = crn_t_range_of(t);
  return r.n_nan + r.n_inf;
}

static int64_t count_bad(crn_exec *x, const crn_data *d) {
  const int64_t n_bad = bad_in(d->v);
  bool padded = false;
  for (int i = 0; i < d->t.n; i++) padded |= d->len[i] != NULL;
  if (n_bad == 0 || !padded) return n_bad;
  const crn_tensor *frames =
      d->t.time_axis >= 0 && crn_data_can_mask(d, d->t.time_axis) ? crn_data_flat_frames(&x->run, d) : NULL;
  return frames ? bad_in(frames) : n_bad;
}

/* Name the operation of the layer in which it began, with what that had read. */
static crn_status fail_with_origin(crn_exec *x, const crn_str *origin) {
  const char *text = crn_str_get(origin), *rest = strchr(text, '\n');
  if (origin->len) {
    crn_err_append(x->run.err, "; made by operation %.*s", rest ? (int)(rest - text) : (int)origin->len, text);
    if (rest) crn_str_add(&x->failure, rest);
  }
  return x->run.err->code;
}

crn_status crn_exec_watch(crn_exec *x, const crn_layer *l, const crn_data *d) {
  const bool values =
      x->watch & WATCH_VALUES || (x->watch & WATCH_SOME && l->dict && crn_v_truth(crn_v_get(l->dict, "debug_print_layer_output")));
  if (values || x->watch & WATCH_SHAPES) print_output(x, l, d, values);
  if (!(x->watch & WATCH_NUMERICS) || l->desc->flags & CRN_L_MAY_HOLD_INF || !crn_dtype_is_float(d->v->dtype))
    return CRN_OK;
  const int64_t n_bad = count_bad(x, d);
  if (n_bad == 0) return crn_run_failed(&x->run) ? x->run.err->code : CRN_OK;
  const bool nan = crn_t_range_of(d->v).n_nan > 0;
  (void)crn_exec_fail(x, l, "the output holds %lld inf or nan (debug_add_check_numerics_on_output)", (long long)n_bad);
  return fail_with_origin(x, nan ? &x->bad_nan : &x->bad_inf);
}

crn_status crn_exec_watch_losses(crn_exec *x, const crn_layer *l) {
  if (!(x->watch & WATCH_NUMERICS)) return CRN_OK;
  for (int i = 0; i < x->net->n_losses; i++) {
    const crn_loss *loss = x->net->losses[i];
    if (loss->layer != l || !x->losses[i].has_cost || isfinite(x->losses[i].cost)) continue;
    (void)crn_exec_fail(x, l, "loss '%s' is %g (debug_add_check_numerics_on_output)", loss->name, x->losses[i].cost);
    return fail_with_origin(x, isnan(x->losses[i].cost) ? &x->bad_nan : &x->bad_inf);
  }
  return CRN_OK;
}

/* ---- data that wasn't fed -------------------------------------------------------------------------------------------
 */

static const crn_layer *reader_of(const crn_net *net, const crn_layer *l) {
  for (int i = 0; i < net->n_layers; i++)
    for (int k = 0; k < net->layers[i]->n_edges && net->layers[i]->live; k++)
      if (net->layers[i]->edges[k].to == l && net->layers[i]->index > -1 && net->layers[i] != l) return net->layers[i];
  return NULL;
}

crn_status crn_exec_fail_not_fed(crn_exec *x, const crn_layer *l, const char *key) {
  const crn_net *net = x->net;
  crn_str readers = {0}, path = {0};
  for (int i = 0; i < net->n_layers; i++)
    for (int k = 0; k < net->layers[i]->n_edges; k++) {
      if (net->layers[i]->edges[k].to != l) continue;
      crn_str_addf(&readers, " '%s'", net->layers[i]->path);
      break;
    }
  const crn_layer *at = l;
  for (int n = 0; at && n < 40 && !at->loss; n++) {
    at = reader_of(net, at);
    if (at) crn_str_addf(&path, " -> '%s'", at->path);
  }
  crn_status st =
      crn_exec_fail(x, l, "data key '%s' is needed, but was not fed; it is read by:%s; path to the output: '%s'%s", key,
                    readers.len ? crn_str_get(&readers) : " nothing", key, crn_str_get(&path));
  crn_str_free(&readers);
  crn_str_free(&path);
  return st;
}

/* ---- construction ---------------------------------------------------------------------------------------------------
 */

void crn_net_print_templates(const crn_net *net) {
  if (!crn_v_truth(crn_v_get(net->config, "debug_print_layer_output_template"))) return;
  for (int i = 0; i < net->n_layers; i++) {
    const crn_layer *l = net->layers[i];
    crn_str s = {0};
    if (l->desc->flags & CRN_L_INTERNAL) continue;
    crn_tmpl_describe(&l->out, &s);
    crn_logf(net->log, 3, "layer /'%s': %s", l->path, crn_str_get(&s));
    crn_str_free(&s);
  }
}

/* One warning that names the layers for which a sequence's hypotheses may depend on the rest of its batch. */
void crn_net_warn_of_padding(const crn_net *net) {
  crn_str s = {0};
  if (!net->search) return;
  for (int i = 0; i < net->n_layers; i++) {
    const crn_layer *l = net->layers[i];
    if (l->visit == 2 && l->desc->flags & CRN_L_READS_PADDING) crn_str_addf(&s, "%s '%s'", s.len ? "," : "", l->path);
  }
  if (s.len)
    crn_warnf(net->log, "layers that may read padding or use statistics of the batch, so that a sequence's hypotheses "
              "can depend on what else is in its batch:%s", crn_str_get(&s));
  crn_str_free(&s);
}
