/* SPDX-License-Identifier: Apache-2.0
 *
 * States that go on from one run of a session to the next (initial_state "keep_over_epoch"): copied when a run is over,
 * given to the next one, forgotten when an epoch begins. They are neither saved nor trained.
 */
#include <string.h>

#include "net/exec.h"

typedef struct crn_kept { /* one state */
  crn_dtype dtype;
  int rank;
  int64_t shape[CRN_MAX_RANK];
  size_t bytes; /* of data */
  void *data;   /* NULL: nothing kept */
} crn_kept;

void crn_exec_free_kept(crn_exec *x) {
  for (int i = 0; x->kept && i < x->net->n_layers; i++) {
    for (int k = 0; x->kept[i] && k < x->net->layers[i]->n_states; k++) crn_free(x->kept[i][k].data);
    crn_free(x->kept[i]);
  }
  crn_free(x->kept);
  x->kept = NULL;
}

void crn_exec_new_epoch(crn_exec *x) {
  for (int i = 0; x->kept && i < x->net->n_layers; i++) {
    const crn_layer *l = x->net->layers[i];
    for (int k = 0; x->kept[i] && l->keep_states < 2 && k < l->n_states; k++) {
      crn_free(x->kept[i][k].data);
      x->kept[i][k].data = NULL;
    }
  }
}

static crn_status keep(crn_exec *x, crn_kept *kept, const crn_tensor *t) {
  const size_t bytes = (size_t)crn_t_size(t) * crn_dtype_bytes(t->dtype);
  if (!kept->data || kept->bytes != bytes) {
    crn_free(kept->data);
    if (!(kept->data = crn_malloc(bytes ? bytes : 1))) return crn_err_memory(x->run.err);
    kept->bytes = bytes;
  }
  kept->dtype = t->dtype;
  kept->rank = t->rank;
  memcpy(kept->shape, t->shape, sizeof(kept->shape));
  if (bytes) memcpy(kept->data, crn_t_data(t), bytes);
  return CRN_OK;
}

crn_status crn_exec_keep_states(crn_exec *x) {
  const crn_net *net = x->net;
  for (int i = 0; i < net->n_layers; i++) {
    crn_layer *l = net->layers[i];
    const crn_slot *s = crn_exec_slot(x, l);
    if (!l->keep_states || !s->states) continue;
    if (!x->kept && !(x->kept = crn_calloc((size_t)net->n_layers, sizeof(*x->kept)))) return crn_err_memory(x->run.err);
    if (!x->kept[i] && !(x->kept[i] = crn_calloc((size_t)l->n_states, sizeof(**x->kept))))
      return crn_err_memory(x->run.err);
    for (int k = 0; k < l->n_states; k++) {
      const crn_data *d = crn_state_whole(x, s->states[k]);
      CRN_TRY(x->run.err->code);
      if (d && d->v) CRN_TRY(keep(x, &x->kept[i][k], d->v));
    }
  }
  return CRN_OK;
}

const crn_data *crn_kept_state(crn_exec *x, crn_layer *l, int i) {
  const crn_kept *kept = x->kept && x->kept[l->index] ? &x->kept[l->index][i] : NULL;
  if (!kept || !kept->data) return NULL;
  crn_tensor *v = crn_t_copy_in(&x->run, kept->dtype, kept->rank, kept->shape, kept->data);
  return v ? crn_data_new(&x->run, &l->states[i].t, v) : NULL;
}
