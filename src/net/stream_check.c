/* SPDX-License-Identifier: Apache-2.0
 *
 * Which networks run in pieces: every layer outside of loops gives its frames from those up to now, and loops read a
 * frame at a time.
 */
#include <string.h>

#include "layer/batch_norm.h"
#include "layer/rec.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/wrappers.h"

static bool runs_backwards(const crn_layer *l) {
  int64_t direction;
  if (strcmp(l->desc->name, "rec") != 0) return false;
  return crn_v_to_int(((const crn_rec_cfg *)l->cfg)->direction, &direction) && direction < 0;
}

/* An activation over the features, which are frames. */
static bool joins_frames(const crn_layer *l) {
  static const char *const classes[] = {"activation", "combine", "eval"};
  if (l->out.feature_axis < 0 || !crn_dim_is_dynamic(l->out.dims[l->out.feature_axis])) return false;
  for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
    if (!strcmp(l->desc->name, classes[i])) return true;
  return false;
}

static int growing_axes(const crn_tmpl *t) {
  int n = 0;
  for (int i = 0; i < t->n; i++) n += crn_dim_is_dynamic(t->dims[i]);
  return n;
}

static crn_status needs_future(const crn_layer *l, const char *why, crn_err *err) {
  return crn_fail(err, CRN_E_CONFIG, "streaming: layer '%s' (%s) needs frames to come%s%s", l->path, l->desc->name,
                  why ? ": " : "", why ? why : "");
}

static crn_status not_implemented(const crn_layer *l, const char *what, crn_err *err) {
  return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "streaming: not implemented: layer '%s' (%s)%s", l->path, l->desc->name,
                  what);
}

/* A layer that runs on all frames of a piece at once. */
static crn_status check_layer(const crn_layer *l, crn_err *err) {
  const bool causal = l->causal || l->desc->flags & (CRN_L_STREAMS | CRN_L_INTERNAL);
  if (runs_backwards(l)) return needs_future(l, "it runs backwards", err);
  if (l->ahead) return needs_future(l, l->ahead, err);
  if (l->desc->flags & CRN_L_NEEDS_FUTURE && !l->causal) return needs_future(l, NULL, err);
  if (l->batch_norm && crn_batch_norm_reads_batch(l))
    return needs_future(l, "batch_norm takes the mean over all frames", err);
  if (!causal) return not_implemented(l, " in pieces", err);
  if (l->keep_states) return not_implemented(l, " with states kept over sequences", err);
  if (l->mixes)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED,
                    "streaming: not implemented: layer '%s' (%s): '%s' in its expression may read other frames",
                    l->path, l->desc->name, l->mixes);
  if (l->common.dropout > 0 && l->common.dropout_on_forward > 0) return not_implemented(l, " with random numbers", err);
  if (l->desc->flags & CRN_L_INTERNAL || !strcmp(l->desc->name, "relative_positional_encoding")) return CRN_OK;
  if (growing_axes(&l->out) > 1) return needs_future(l, "it has several axes without a fixed size", err);
  return joins_frames(l) ? needs_future(l, "its features are frames", err) : CRN_OK;
}

/* A layer of a loop: what it reads from outside must be a frame of it, or have no frames. */
static crn_status check_step(const crn_layer *l, crn_err *err) {
  for (int i = 0; i < l->n_edges; i++) {
    const crn_layer *to = l->edges[i].to;
    const crn_edge_kind kind = l->edges[i].kind;
    if (to->body->loop || kind == CRN_EDGE_PARAM || kind == CRN_EDGE_CONTROL || kind == CRN_EDGE_TIE) continue;
    const bool slice = l->desc == &crn_wrap_slice && crn_dim_is_dynamic(l->body->loop->time_dim);
    if (to->live && growing_axes(&to->out) > slice)
      return crn_fail(err, CRN_E_CONFIG, "streaming: layer '%s' (%s) needs frames to come: it reads all frames of '%s'",
                      l->path, l->desc->name, to->path);
  }
  return CRN_OK;
}

static const crn_layer *choice_in(const crn_loop *loop) {
  for (int i = 0; i < loop->body.n; i++)
    if (loop->body.order[i]->out.beam.choice == loop->body.order[i]) return loop->body.order[i];
  return NULL;
}

/* The last loop with a search: the program decides in it, and what is behind it doesn't run. */
static const crn_loop *driven_loop(const crn_net *net) {
  for (int i = net->body.n; i-- > 0;)
    for (int k = 0; k < net->n_bodies; k++)
      if (net->body.order[i] == net->bodies[k]->loop->runner && net->body.order[i]->live &&
          choice_in(net->bodies[k]->loop))
        return net->bodies[k]->loop;
  return NULL;
}

static crn_status check_loop(const crn_loop *loop, bool driven, crn_err *err) {
  const bool inner = loop->body.outer && loop->body.outer->loop;
  const crn_layer *choice = driven ? NULL : choice_in(loop);
  if (choice) return needs_future(choice, "a search decides at the end", err);
  if (loop->unknown_len && !inner) return needs_future(loop->rec, "its length is known when it ends", err);
  if (loop->end && !inner) return not_implemented(loop->rec, " with a layer 'end'", err);
  for (int k = 0; k < loop->body.n; k++) CRN_TRY(check_step(loop->body.order[k], err));
  return CRN_OK;
}

crn_status crn_stream_check(const crn_net *net, crn_err *err) {
  const crn_loop *driven = driven_loop(net);
  for (int i = 0; i < net->body.n && !(driven && net->body.order[i] == driven->runner); i++)
    if (net->body.order[i]->live) CRN_TRY(check_layer(net->body.order[i], err));
  for (int i = 0; i < net->n_bodies; i++) {
    const crn_loop *loop = net->bodies[i]->loop;
    if (loop->runner && loop->runner->live) CRN_TRY(check_loop(loop, loop == driven, err));
  }
  return CRN_OK;
}

crn_status crn_stream_check_run(const crn_net *net, crn_err *err) {
  const crn_loop *driven = driven_loop(net);
  if (!driven) return CRN_OK;
  const crn_layer *l = choice_in(driven);
  return crn_fail(
      err, CRN_E_CONFIG,
      "streaming: layer '%s' (%s) needs frames to come: a search decides at the end; crn_decoder_start lets "
      "the program decide",
      l->path, l->desc->name);
}
