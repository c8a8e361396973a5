/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds chains inside of loops that one operation computes (layer/fused.h): sum, tanh, projection, where the sum and
 * the tanh have no other reader, no loss, and nobody outside looks at them.
 */
#include "layer/fused.h"
#include "net/build.h"

static bool is_looked_at(const crn_build *b, const crn_layer *l, const crn_loop *loop) {
  if (l->loss || crn_v_truth(l->common.batch_norm) || l->common.is_output_layer > 0 || l->common.need_last > 0 ||
      l == loop->end)
    return true;
  for (int i = 0; i < loop->n_kept; i++)
    if (loop->kept[i] == l) return true;
  for (int i = 0; i < loop->n_carried; i++)
    if (loop->carried[i]->n_src && loop->carried[i]->src[0] == l) return true;
  for (int i = 0; i < b->n_roots; i++)
    if (b->roots[i] == l) return true;
  return false;
}

/* Exactly one layer of the body refers to l, by its value. */
static bool has_one_reader(const crn_body *body, const crn_layer *l) {
  int n = 0;
  for (int i = 0; i < body->n; i++)
    for (int k = 0; k < body->order[i]->n_edges; k++)
      n += body->order[i]->edges[k].to == l && body->order[i]->edges[k].kind != CRN_EDGE_PARAM;
  return n == 1;
}

static void remove_from(crn_body *body, const crn_layer *l) {
  int n = 0;
  for (int i = 0; i < body->n; i++)
    if (body->order[i] != l) body->order[n++] = body->order[i];
  body->n = n;
}

static crn_status fuse_body(crn_build *b, crn_body *body) {
  const crn_loop *loop = body->loop;
  for (int i = 0; i < body->n; i++) {
    crn_layer *l = body->order[i];
    if (!crn_layer_is_plain_projection(l)) continue;
    crn_layer *tanh = l->src[0];
    if (tanh->body != body || !crn_layer_is_plain_tanh(tanh) || is_looked_at(b, tanh, loop) ||
        !has_one_reader(body, tanh))
      continue;
    crn_layer *sum = tanh->src[0];
    if (sum->body != body || !crn_layer_is_plain_sum(sum) || is_looked_at(b, sum, loop) || !has_one_reader(body, sum))
      continue;
    if (!crn_energy_is_possible(sum)) continue;
    for (int k = 0; k < sum->n_src; k++) CRN_TRY(crn_layer_add_edge(b, l, sum->src[k], CRN_EDGE_DATA, "fused"));
    crn_layer_fuse_energy(l, sum);
    remove_from(body, tanh);
    remove_from(body, sum);
    i = -1; /* positions moved */
  }
  return CRN_OK;
}

crn_status crn_build_fuse(crn_build *b) {
  const crn_value *off = crn_v_get(b->net->config, "fuse_layers");
  if (off && !crn_v_truth(off)) return CRN_OK;
  for (int i = 0; i < b->net->n_bodies; i++) CRN_TRY(fuse_body(b, b->net->bodies[i]));
  return CRN_OK;
}
