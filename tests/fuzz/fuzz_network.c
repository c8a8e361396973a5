/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer: any text is read as a network dict (a Python literal), with fixed data; it is built for training,
 * evaluation or search (the first byte says which), run and differentiated, or refused with a message. Most inputs are
 * made of networks that are there: layers and options of one are put into another.
 */
#include "net/exec.h"
#include "value/value.h"

#include <string.h>

#include "memory_limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size, const uint8_t *other, size_t other_size,
                                 uint8_t *out, size_t max_size, unsigned seed);

enum { B = 2, T = 4 };

static const char data_text[] =
    "{'data': {'dim': 5}, 'classes': {'dim': 4, 'sparse': True, 'same_dim_tags_as': {'T': 'data'}},"
    " 'vec': {'shape': (3,)}, 'flag': {'shape': (None,), 'dtype': 'bool'}}";

static crn_status feed_key(crn_arena *a, crn_exec *x, const crn_extern *e, crn_err *err) {
  static const int32_t lens[B] = {T, T - 2}, *const all_lens[] = {lens, lens, lens, lens};
  int64_t shape[CRN_MAX_RANK], n = 1;
  int n_lens = 0;
  for (int i = 0; i < e->t.n; i++) {
    const crn_dim *dim = e->t.dims[i];
    shape[i] = dim->kind == CRN_DIM_BATCH ? B : dim->size < 0 ? T : dim->size;
    n_lens += crn_dim_is_dynamic(dim);
    n *= shape[i];
  }
  if (n > 4096 || n_lens > 4) return crn_fail(err, CRN_E_DATA, "more data than the fuzzer feeds");
  char *data = crn_arena_alloc(a, (size_t)n * 8 + 1);
  if (!data) return crn_err_memory(err);
  memset(data, 0, (size_t)n * 8 + 1);
  for (int64_t i = 0; i < n; i++) {
    if (e->t.dtype == CRN_F32)
      ((float *)(void *)data)[i] = (float)(i % 5) - 2;
    else if (e->t.dtype == CRN_I32)
      ((int32_t *)(void *)data)[i] = (int32_t)(i % 4);
    else
      data[i] = (char)(i & 1);
  }
  return crn_exec_feed(x, e->key, e->t.dtype, e->t.n, shape, data, n_lens, all_lens, err);
}

static crn_status run(crn_arena *a, const crn_value *config, crn_net_mode mode, crn_err *err) {
  crn_net *net = NULL;
  crn_exec *x = NULL;
  crn_store *store = crn_store_new(CRN_F32);
  crn_status st = store ? crn_net_build(config, mode, store, NULL, &net, err) : crn_err_memory(err);
  if (st == CRN_OK) st = crn_store_init_values(store, 1, err);
  if (st == CRN_OK) st = crn_exec_new(net, &(crn_session_opts){.n_threads = 1, .seed = 1}, &x, err);
  for (int step = 0; st == CRN_OK && step < 2; step++) {
    crn_exec_begin(x, mode.train, (uint64_t)step);
    for (int i = 0; st == CRN_OK && i < net->n_externs; i++)
      if (net->externs[i].used) st = feed_key(a, x, &net->externs[i], err);
    if (st == CRN_OK) st = crn_exec_forward(x, err);
    if (st == CRN_OK && mode.train) st = crn_exec_backward(x, err);
  }
  crn_exec_free(x);
  crn_net_free(net);
  crn_store_free(store);
  return st;
}

static crn_status parse(crn_arena *a, const uint8_t *data, size_t size, crn_value **out, crn_err *err) {
  const char *text = size ? crn_arena_strndup(a, (const char *)data + 1, size - 1) : NULL;
  return text ? crn_v_parse_literal(a, text, "fuzz", out, err) : crn_err_memory(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *network = NULL, *externs = NULL;
  if (size == 0) return 0;
  crn_status st = parse(&a, data, size, &network, &err);
  if (st == CRN_OK) st = crn_v_parse_literal(&a, data_text, "data", &externs, &err);
  if (st == CRN_OK) {
    crn_value *config = crn_v_dict(&a);
    (void)crn_v_put(&a, config, "extern_data", externs);
    (void)crn_v_put(&a, config, "network", network);
    (void)crn_v_put(&a, config, "behavior_version", crn_v_int(&a, data[0] & 4 ? 16 : 0));
    const int mode = data[0] % 4;
    st = run(&a, config, (crn_net_mode){.train = mode > 1, .eval = mode > 0, .search = mode == 0}, &err);
  }
  if ((st == CRN_OK) != (crn_err_text(&err)[0] == '\0') || st == CRN_E_INTERNAL) abort();
  crn_err_clear(&err);
  crn_arena_free(&a);
  return 0;
}

/* ---- changes ---- */

static unsigned draw(uint64_t *state, size_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return n ? (unsigned)((*state >> 33) % n) : 0;
}

/* A dict of layers in v: v itself, or the unit or network of one of its layers. */
static crn_value *some_network(crn_value *v, uint64_t *state) {
  for (int depth = 0; depth < 4 && crn_v_is_dict(v) && v->u.dict.n; depth++) {
    crn_value *layer = v->u.dict.vals[draw(state, v->u.dict.n)];
    crn_value *inner = crn_v_get(layer, "unit");
    if (!crn_v_is_dict(inner)) inner = crn_v_get(layer, "subnetwork");
    if (!crn_v_is_dict(inner) || draw(state, 4) == 0) break;
    v = inner;
  }
  return crn_v_is_dict(v) && v->u.dict.n ? v : NULL;
}

static crn_value *some_layer(crn_value *network, uint64_t *state) {
  crn_value *l = network ? network->u.dict.vals[draw(state, network->u.dict.n)] : NULL;
  return crn_v_is_dict(l) && l->u.dict.n ? l : NULL;
}

/* One change of network `to`, with parts of network `from`. */
static void change(crn_arena *a, crn_value *to, crn_value *from, uint64_t *state) {
  crn_value *net = some_network(to, state), *other = some_network(from, state);
  crn_value *layer = some_layer(net, state), *model = crn_v_copy(a, some_layer(other, state));
  if (!layer || !model) return;
  const unsigned at = draw(state, model->u.dict.n), name = draw(state, net->u.dict.n);
  const char *key = crn_v_cstr(model->u.dict.keys[at]);
  switch (draw(state, 6)) {
  case 0: /* a layer in place of another, which reads what that one read */
    if (crn_v_get(layer, "from")) (void)crn_v_put(a, model, "from", crn_v_get(layer, "from"));
    net->u.dict.vals[name] = model;
    break;
  case 1: /* one more layer, between two */
    if (crn_v_get(layer, "from")) (void)crn_v_put(a, model, "from", crn_v_get(layer, "from"));
    (void)crn_v_put(a, net, "new", model);
    (void)crn_v_put(a, layer, "from", crn_v_str(a, "new"));
    break;
  case 2: /* another source */
    if (crn_v_cstr(net->u.dict.keys[name]))
      (void)crn_v_put(
          a, layer, "from",
          crn_v_str(a, crn_arena_printf(a, "%s%s", draw(state, 4) ? "" : "prev:", crn_v_cstr(net->u.dict.keys[name]))));
    break;
  case 3: /* an option less */
    key = crn_v_cstr(layer->u.dict.keys[draw(state, layer->u.dict.n)]);
    if (key) (void)crn_v_del(layer, key);
    break;
  default: /* an option, often one that the layer has or its class knows */
    if (key && strcmp(key, "class") != 0) (void)crn_v_put(a, layer, key, model->u.dict.vals[at]);
  }
}

static size_t print_back(const crn_value *v, uint8_t mode, uint8_t *out, size_t max_size) {
  crn_str s = {0};
  crn_v_repr(v, &s, 0);
  const size_t n = s.len + 1;
  const bool fits = crn_str_ok(&s) && n <= max_size;
  if (fits) {
    out[0] = mode;
    memcpy(out + 1, crn_str_get(&s), s.len);
  }
  crn_str_free(&s);
  return fits ? n : 0;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size, const uint8_t *other, size_t other_size,
                                 uint8_t *out, size_t max_size, unsigned seed) {
  crn_arena a = {0};
  crn_value *to = NULL, *from = NULL;
  uint64_t state = seed;
  size_t n = 0;
  if (size && other_size && parse(&a, data, size, &to, NULL) == CRN_OK &&
      parse(&a, other, other_size, &from, NULL) == CRN_OK) {
    for (unsigned i = 0; i <= draw(&state, 4); i++) change(&a, to, from, &state);
    n = print_back(to, (uint8_t)draw(&state, 8), out, max_size);
  }
  crn_arena_free(&a);
  return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  uint64_t state = seed;
  if (size == 0 || draw(&state, 4) == 0) return LLVMFuzzerMutate(data, size, max_size);
  const size_t n = LLVMFuzzerCustomCrossOver(data, size, data, size, data, max_size, seed);
  return n ? n : LLVMFuzzerMutate(data, size, max_size);
}
