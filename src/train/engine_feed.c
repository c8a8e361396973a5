/* SPDX-License-Identifier: Apache-2.0
 *
 * From datasets to networks: which keys are fed, whether they fit (SPEC 1.3), batches into sessions.
 */
#include <string.h>

#include "train/engine.h"

static crn_status call_function(void *host, const crn_value *fn, const crn_value *const *args, size_t n, crn_arena *a, crn_value **result, crn_err *err) {
  crn_value *list = crn_v_seq(a, CRN_V_LIST);
  for (size_t i = 0; i < n; i++) (void)crn_v_push(a, list, crn_v_copy(a, args[i]));
  return crn_config_call(host, fn, list, NULL, a, result, err);
}

static crn_status eval_text(void *host, const char *text, crn_arena *a, crn_value **result, crn_err *err) {
  return crn_config_eval(host, text, a, result, err);
}

crn_status crn_engine_dataset(crn_engine *e, const char *key, crn_dataset **out, crn_err *err) {
  *out = NULL;
  if (!e->need_data && strcmp(key, "search_data") != 0) return CRN_OK;
  const crn_data_env env = {.base_dir = crn_config_folder(e->config), .log = &e->log, .call = call_function, .eval = eval_text, .host = e->config};
  return crn_dataset_from_config(e->values, key, &env, out, err);
}

static const char *const data_keys[] = {"num_inputs", "num_outputs", "extern_data"};

bool crn_engine_has_extern_data(const crn_engine *e) {
  for (size_t i = 0; i < sizeof(data_keys) / sizeof(*data_keys); i++)
    if (!crn_v_is_none(crn_v_get(e->values, data_keys[i]))) return true;
  return false;
}

crn_status crn_engine_extern_data(crn_engine *e, crn_dataset *ds, crn_err *err) {
  if (crn_engine_has_extern_data(e)) return CRN_OK;
  if (!ds) return crn_fail(err, CRN_E_CONFIG, "%s: none of extern_data, num_inputs, num_outputs is given, and there is no dataset", crn_config_file(e->config));
  crn_arena *a = &e->arena;
  crn_value *all = crn_v_dict(a);
  for (size_t k = 0; k < crn_dataset_num_keys(ds); k++) {
    const crn_data_key *key = crn_dataset_key(ds, k);
    if (key->dtype == CRN_NT_STR || key->length_only) continue;
    crn_value *d = crn_v_dict(a), *shape = crn_v_seq(a, CRN_V_TUPLE);
    for (int i = 0; i < key->rank; i++) (void)crn_v_push(a, shape, key->shape[i] < 0 ? crn_v_none(a) : crn_v_int(a, key->shape[i]));
    (void)crn_v_put(a, d, "shape", shape);
    if (key->dim >= 0) (void)crn_v_put(a, d, "dim", crn_v_int(a, key->dim));
    (void)crn_v_put(a, d, "sparse", crn_v_bool(a, key->sparse));
    (void)crn_v_put(a, d, "dtype", crn_v_str(a, crn_ntype_name(key->dtype)));
    (void)crn_v_put(a, d, "available_for_inference", crn_v_bool(a, !key->is_target));
    (void)crn_v_put(a, all, key->name, d);
  }
  crn_value *copy = crn_v_copy(a, e->values);
  if (!copy || !crn_v_put(a, copy, "extern_data", all)) return crn_err_memory(err);
  e->values = copy;
  return CRN_OK;
}

static bool is_special(const char *key) { return !strcmp(key, "seq_idx") || !strcmp(key, "seq_tag"); }

static bool has_time(const crn_tmpl *t) {
  for (int i = 0; i < t->n; i++)
    if (crn_dim_is_dynamic(t->dims[i])) return true;
  return false;
}

crn_status crn_engine_check_data(const crn_net *net, const crn_dataset *ds, crn_err *err) {
  for (int i = 0; i < net->n_externs; i++) {
    const crn_extern *x = &net->externs[i];
    if (!x->used || is_special(x->key) || x->layer == NULL || x->layer->priv != x) continue;
    crn_data_key want = {.name = x->key, .dim = crn_tmpl_dim(&x->t), .sparse = x->t.sparse, .dtype = crn_ntype_by_name(crn_dtype_name(x->t.dtype))};
    for (int k = 0; k < x->t.n; k++)
      if (x->t.dims[k]->kind != CRN_DIM_BATCH) want.shape[want.rank++] = x->t.dims[k]->size;
    want.ndim = want.rank;
    CRN_TRY(crn_dataset_check_key(ds, &want, err));
  }
  return CRN_OK;
}

/* Whether the network has a layer that steps over time: then sequences are not joined. */
static bool is_recurrent(const crn_net *net) {
  static const char *const classes[] = {"rec", "self_attention", "conv", "pool", "choice", "softmax_over_spatial", "generic_attention", "window", "ctc_loss", "masked_computation", "positional_encoding", "cumsum", "reduce"};
  for (int i = 0; i < net->n_layers; i++) {
    if (net->layers[i]->desc->flags & CRN_L_NEEDS_FUTURE) return true;
    for (size_t k = 0; k < sizeof(classes) / sizeof(*classes); k++)
      if (!strcmp(net->layers[i]->desc->name, classes[k])) return true;
  }
  for (int i = 0; i < net->n_losses; i++)
    if (net->losses[i]->desc->flags & CRN_LOSS_RECURRENT) return true;
  return false;
}

crn_status crn_engine_batcher(crn_engine *e, const crn_net *net, crn_dataset *ds, crn_batch_use use, crn_batcher **out, crn_err *err) {
  crn_batch_options o;
  crn_batch_key *keys = CRN_ARENA_ARRAY(&e->arena, crn_batch_key, net->n_externs + 1);
  size_t n = 0;
  if (!keys) return crn_err_memory(err);
  CRN_TRY(crn_batch_options_from_config(e->values, use, is_recurrent(net), &o, err));
  for (int i = 0; i < net->n_externs; i++) {
    const crn_extern *x = &net->externs[i];
    if (!x->used || is_special(x->key) || !x->layer || x->layer->priv != x) continue;
    keys[n].name = x->key;
    keys[n].dtype = crn_ntype_by_name(crn_dtype_name(x->t.dtype));
    keys[n++].no_time = !has_time(&x->t);
  }
  return crn_batcher_new(ds, &o, keys, n, out, err);
}

static bool dtype_of(crn_ntype t, crn_dtype *out) { return crn_dtype_from_name(crn_ntype_name(t), out); }

/* Sequences come batch-major [B, …]; where the template has its batch axis elsewhere, at `axis`, they are moved there. */
static crn_status feed_moved(crn_exec *x, const crn_batch_array *a, crn_dtype dtype, int axis, const int32_t *const *lens, crn_err *err) {
  int64_t shape[CRN_MAX_RANK];
  const int64_t B = a->shape[0], before = crn_t_count(axis, a->shape + 1);
  const size_t bytes = (size_t)crn_t_count(a->rank - 1 - axis, a->shape + 1 + axis) * crn_dtype_bytes(dtype);
  char *moved = crn_malloc((size_t)(B * before) * bytes + 1);
  if (!moved) return crn_err_memory(err);
  for (int64_t p = 0; p < before; p++)
    for (int64_t b = 0; b < B; b++) memcpy(moved + (size_t)(p * B + b) * bytes, (const char *)a->data + (size_t)(b * before + p) * bytes, bytes);
  for (int i = 0; i < a->rank; i++) shape[i] = i < axis ? a->shape[i + 1] : i == axis ? B : a->shape[i];
  crn_status st = crn_exec_feed(x, a->name, dtype, a->rank, shape, moved, a->lengths ? 1 : 0, lens, err);
  crn_free(moved);
  return st;
}

crn_status crn_engine_feed(crn_exec *x, const crn_batch *b, crn_err *err) {
  for (size_t i = 0; i < b->n_arrays; i++) {
    const crn_batch_array *a = &b->arrays[i];
    const crn_extern *e = crn_net_extern(x->net, a->name);
    crn_dtype dtype;
    if (!dtype_of(a->dtype, &dtype)) return crn_fail(err, CRN_E_DATA, "data key '%s': type %s can't be fed", a->name, crn_ntype_name(a->dtype));
    const int32_t *lens[1] = {a->lengths};
    const int axis = e ? crn_tmpl_batch_axis(&e->t) : 0;
    if (axis > 0 && axis < a->rank && a->rank <= CRN_MAX_RANK) CRN_TRY(feed_moved(x, a, dtype, axis, lens, err));
    else CRN_TRY(crn_exec_feed(x, a->name, dtype, a->rank, a->shape, a->data, a->lengths ? 1 : 0, lens, err));
  }
  return CRN_OK;
}
