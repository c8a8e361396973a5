/* SPDX-License-Identifier: Apache-2.0
 *
 * Which axis a loop runs over, and where its lengths come from (recurrent.md, "Which axis, which length").
 */
#include <string.h>

#include "net/loop.h"

static void lengths_from(crn_loop *loop, crn_layer *l, int axis) {
  loop->len_layer = l;
  loop->len_axis = axis;
  loop->time_dim = l->out.dims[axis];
  loop->unknown_len = false;
}

/* A layer of the loop around is inferred there, in its order. */
static crn_status infer_now(crn_build *b, crn_loop *loop, crn_layer *l) {
  if (l->body == loop->rec->body && !l->body->loop) return crn_build_infer(b, l);
  if (l->body == loop->rec->body && !l->out_known) loop->waits = true;
  return CRN_OK;
}

static crn_status key_axis(crn_build *b, crn_loop *loop, const char *key, bool *found) {
  crn_layer *t;
  *found = false;
  CRN_TRY(crn_target_layer(b, loop->rec, key, &t));
  CRN_TRY(crn_layer_add_edge(b, loop->rec, t, CRN_EDGE_TARGET, "target"));
  CRN_TRY(infer_now(b, loop, t));
  if (!t->out_known || t->out.time_axis < 0) return CRN_OK;
  lengths_from(loop, t, t->out.time_axis);
  *found = true;
  return CRN_OK;
}

static const char *first_target(const crn_layer *rec) {
  const crn_value *t = rec->common.target;
  return crn_v_cstr(crn_v_is_seq(t) ? crn_v_at(t, 0) : t);
}

crn_status crn_loop_find_axis(crn_build *b, crn_loop *loop) {
  crn_layer *rec = loop->rec;
  const crn_rec_cfg *c = rec->cfg;
  const bool has_end = crn_v_get(loop->inside->dict, "end") != NULL;
  bool found = false;
  if (!crn_v_is_none(c->axis)) {
    if (!loop->source) return crn_layer_fail(b, rec, CRN_E_CONFIG, "option 'axis': there is no source");
    int axis;
    CRN_TRY(crn_layer_axis(b, rec, &loop->source->out, c->axis, "axis", &axis));
    lengths_from(loop, loop->source, axis);
    return CRN_OK;
  }
  if (loop->source && loop->source->out.time_axis < 0)
    return crn_layer_fail(b, rec, CRN_E_NOT_IMPLEMENTED, "not implemented: a net dict as unit on a source without time axis");
  if (loop->source && !has_end) {
    lengths_from(loop, loop->source, loop->source->out.time_axis);
    return CRN_OK;
  }
  if (rec->common.size_target) {
    CRN_TRY(key_axis(b, loop, rec->common.size_target, &found));
    if (found) return CRN_OK;
  }
  if (first_target(rec) && rec->scope->eval && !rec->scope->search) {
    CRN_TRY(key_axis(b, loop, first_target(rec), &found));
    if (found) return CRN_OK;
  }
  loop->unknown_len = true;
  loop->time_dim = crn_layer_dim(b, rec, "dyn-time", CRN_DIM_SPATIAL, -1);
  return loop->time_dim ? CRN_OK : crn_err_memory(b->err);
}

/* Smallest data key that the loop uses as a target or label source, or NULL. */
static const char *used_key(crn_build *b, crn_loop *loop) {
  const char *best = NULL;
  for (int i = 0; i < b->net->n_layers; i++) {
    const crn_layer *l = b->net->layers[i];
    if (l->body != &loop->body || !l->dict || !l->refs_done) continue;
    const bool choice = l->desc->flags & CRN_L_OWN_SOURCES;
    const crn_value *search = choice ? crn_v_get(l->dict, "search") : NULL;
    const bool searches = search ? crn_v_truth(search) : l->scope->search;
    const bool uses = (choice && (!searches || crn_v_truth(crn_v_get(l->dict, "cheating")) ||
                                  crn_v_truth(crn_v_get(l->dict, "scheduled_sampling")))) ||
                      (!b->net->search && l->scope->eval);
    if (!uses) continue;
    for (int k = 0; k < 8; k++) {
      const char *key = crn_target_name(b, l, k);
      if (!key) break;
      if (!strncmp(key, "data:", 5)) key += 5;
      const crn_extern *e = crn_net_extern(b->net, key);
      if (e && e->t.time_axis >= 0 && (!best || strcmp(key, best) < 0)) best = key;
    }
  }
  return best;
}

/* rec_unstack with declare_rec_time: the axis that it steps over. */
static crn_status declared_axis(crn_build *b, crn_loop *loop) {
  for (int i = 0; i < b->net->n_layers; i++) {
    crn_layer *l = b->net->layers[i];
    if (l->body != &loop->body || strcmp(l->desc->name, "rec_unstack") != 0 || l->n_src != 1) continue;
    if (!crn_v_truth(crn_v_get(l->dict, "declare_rec_time"))) continue;
    crn_layer *source = l->src[0];
    if (source->body != &loop->body) CRN_TRY(infer_now(b, loop, source));
    if (!source->out_known) continue;
    int axis = source->out.time_axis;
    const crn_value *given = crn_v_get(l->dict, "axis");
    if (!crn_v_is_none(given)) CRN_TRY(crn_layer_axis(b, l, &source->out, given, "axis", &axis));
    if (axis < 0) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'declare_rec_time': which axis? Give 'axis'");
    lengths_from(loop, source, axis);
    return crn_layer_add_edge(b, loop->rec, source, CRN_EDGE_TARGET, "declare_rec_time");
  }
  return CRN_OK;
}

crn_status crn_loop_take_over_axis(crn_build *b, crn_loop *loop) {
  if (loop->unknown_len) CRN_TRY(declared_axis(b, loop));
  if (!loop->unknown_len) return CRN_OK;
  const char *key = used_key(b, loop);
  bool found;
  return key ? key_axis(b, loop, key, &found) : CRN_OK;
}
