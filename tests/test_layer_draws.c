/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers with options drawn at random from their tables, valid and invalid ones, in a network and in a loop: each
 * builds, runs and is differentiated, or is refused with a message that says where; nothing crashes, hangs or leaks.
 *
 *   CRN_DRAWS=200000 CRN_DRAWS_SEED=2 build/test_layer_draws     more of them, or others
 *   CRN_DRAWS_LIST=1 build/test_layer_draws                      a line for each
 *   CRN_DRAW=4711 build/test_layer_draws                         only this one, with its config and outcome
 *
 * Draws run in child processes, some hundred in each, so that one that crashes is named.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"
#include "layer_draws.h"
#include "net/exec.h"

enum { N_DRAWS = 10000, CHUNK = 400, LIMIT_S = 60, MAX_CLASSES = 400 };

/* In place of src/base/memory.c: an option may ask for any amount, and then gets none. */
enum { MOST_BYTES = 1 << 24 };
void *crn_malloc(size_t bytes) { return bytes > MOST_BYTES ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t each) {
  return n && each > MOST_BYTES / n ? NULL : calloc(n ? n : 1, each ? each : 1);
}
void *crn_realloc(void *p, size_t bytes) { return bytes > MOST_BYTES ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

/* ---- networks ---- */

static const char data_text[] =
    "{'data': {'dim': 3}, 'classes': {'dim': 4, 'sparse': True, 'same_dim_tags_as': {'T': 'data'}},"
    " 'vec': {'shape': (3,)}, 'image': {'shape': (None, 6, 4)}, 'x2': {'dim': 3},"
    " 'flag': {'shape': (None,), 'dtype': 'bool', 'same_dim_tags_as': {'T': 'data'}},"
    " 'flag1': {'shape': (), 'dtype': 'bool'}, 'label': {'shape': (), 'dtype': 'int32'}}";

static const char root_text[] =
    "{'h': {'class': 'linear', 'activation': 'tanh', 'n_out': 3, 'from': 'data'},"
    " 'lin': {'class': 'linear', 'n_out': 4, 'from': 'data'}, 'classes': {'class': 'copy', 'from': 'data:classes'},"
    " 'vec': {'class': 'copy', 'from': 'data:vec'}, 'image': {'class': 'copy', 'from': 'data:image'},"
    " 'x2': {'class': 'copy', 'from': 'data:x2'}, 'flag': {'class': 'copy', 'from': 'data:flag'},"
    " 'flag1': {'class': 'copy', 'from': 'data:flag1'}, 'label': {'class': 'copy', 'from': 'data:label'},"
    " 'time_flat': {'class': 'flatten_batch', 'from': 'h'}}";

static const char step_text[] =
    "{'h': {'class': 'copy', 'from': 'data:source'}, 'lin': {'class': 'linear', 'n_out': 4, 'from': 'prev:h'},"
    " 'classes': {'class': 'copy', 'from': 'prev:l'}, 'vec': {'class': 'copy', 'from': 'base:vec'},"
    " 'l': {'class': 'copy', 'from': 'data:classes', 'initial_output': 0},"
    " 'image': {'class': 'copy', 'from': 'base:image'}, 'x2': {'class': 'copy', 'from': 'base:x2'},"
    " 'flag': {'class': 'compare', 'kind': 'less', 'from': ['data:source', 'h']},"
    " 'flag1': {'class': 'copy', 'from': 'base:flag1'}, 'label': {'class': 'copy', 'from': 'base:label'},"
    " 'time_flat': {'class': 'rnn_cell', 'unit': 'lstmblock', 'n_out': 3, 'from': 'data:source'}}";

typedef struct draw {
  const crn_layer_desc *first; /* class of the drawn layer x */
  crn_value *config;
  crn_net_mode mode;
  int64_t B, T;
} draw;

static void put(drawer *d, crn_value *dict, const char *key, crn_value *v) { (void)crn_v_put(d->arena, dict, key, v); }

/* x, and now and then z that reads it. */
static void add_drawn(drawer *d, crn_value *net, const crn_layer_desc *c, bool train) {
  crn_value *x = draw_layer(d, c);
  put(d, x, "is_output_layer", crn_v_bool(d->arena, true));
  put(d, net, "x", x);
  if (draw_chance(d, 35)) {
    crn_value *z = draw_layer(d, draw_class(d));
    put(d, z, "from", draw_literal(d, draw_chance(d, 80) ? "['x']" : "['h', 'x']"));
    put(d, z, "is_output_layer", crn_v_bool(d->arena, true));
    put(d, net, "z", z);
  }
  if (train && draw_chance(d, 70)) put(d, net, "y", draw_literal(d, "{'class': 'copy', 'from': 'x', 'loss': 'as_is'}"));
}

static draw make_draw(drawer *d, uint64_t seed, size_t number) {
  draw out = {.B = 2, .T = 5};
  d->state = seed;
  d->state = draw_bits(d) + number * 0xD1342543DE82EF95u;
  out.first = draw_class(d);
  const size_t mode = draw_below(d, 6); /* training most often */
  out.mode = (crn_net_mode){.train = mode > 2, .eval = mode > 0, .search = mode == 1};
  out.config = crn_v_dict(d->arena);
  crn_value *net = draw_literal(d, root_text);
  if (draw_chance(d, 25)) {
    crn_value *loop = draw_literal(d, "{'class': 'rec', 'from': 'data', 'n_out': 3, 'target': 'classes'}");
    crn_value *unit = draw_literal(d, step_text);
    add_drawn(d, unit, out.first, out.mode.train);
    put(d, unit, "output", draw_literal(d, "{'class': 'copy', 'from': 'h'}"));
    put(d, loop, "unit", unit);
    put(d, net, "output", loop);
  } else {
    add_drawn(d, net, out.first, out.mode.train);
    put(d, net, "output", draw_literal(d, "{'class': 'softmax', 'n_out': 4, 'from': 'h'}"));
  }
  put(d, out.config, "extern_data", draw_literal(d, data_text));
  put(d, out.config, "network", net);
  static const int versions[] = {0, 0, 0, 12, 16};
  put(d, out.config, "behavior_version", crn_v_int(d->arena, versions[draw_below(d, 5)]));
  if (draw_chance(d, 15)) out.T = (int64_t)draw_below(d, 3);
  if (draw_chance(d, 10)) out.B = (int64_t)draw_below(d, 2);
  return out;
}

/* ---- running ---- */

static crn_status feed_key(drawer *d, crn_exec *x, const crn_extern *e, int64_t B, int64_t T, crn_err *err) {
  int64_t shape[CRN_MAX_RANK], n = 1;
  int32_t lens[2];
  const int32_t *all_lens[] = {lens};
  int n_lens = 0;
  for (int i = 0; i < e->t.n; i++) {
    const crn_dim *dim = e->t.dims[i];
    shape[i] = dim->kind == CRN_DIM_BATCH ? B : dim->size < 0 ? T : dim->size;
    n_lens += crn_dim_is_dynamic(dim);
    n *= shape[i];
  }
  for (int b = 0; b < 2; b++) lens[b] = (int32_t)(b && T > 1 ? T - 2 : T);
  if (T == 1) lens[1] = 0;
  char *data = crn_arena_alloc(d->arena, (size_t)n * crn_dtype_bytes(e->t.dtype) + 1);
  for (int64_t i = 0; data && i < n; i++) {
    const int label = (int)draw_below(d, 4);
    if (e->t.dtype == CRN_F32)
      ((float *)(void *)data)[i] = (float)label - 1.5f;
    else if (e->t.dtype == CRN_I32)
      ((int32_t *)(void *)data)[i] = label;
    else
      data[i] = label & 1;
  }
  return data ? crn_exec_feed(x, e->key, e->t.dtype, e->t.n, shape, data, n_lens, all_lens, err) : crn_err_memory(err);
}

typedef enum { REFUSED, FAILED, RAN } outcome;

static crn_status run_step(drawer *d, crn_exec *x, const draw *w, uint64_t step, crn_err *err) {
  const crn_net *net = x->net;
  crn_exec_begin(x, w->mode.train, step);
  for (int i = 0; i < net->n_externs; i++)
    if (net->externs[i].used) CRN_TRY(feed_key(d, x, &net->externs[i], w->B, w->T, err));
  CRN_TRY(crn_exec_forward(x, err));
  if (w->mode.train && x->objective) CRN_TRY(crn_exec_backward(x, err));
  crn_exec_apply_assigns(x);
  return CRN_OK;
}

static crn_status run_draw(drawer *d, const draw *w, outcome *o, crn_err *err) {
  crn_net *net = NULL;
  crn_exec *x = NULL;
  crn_store *store = crn_store_new(CRN_F32);
  *o = REFUSED;
  crn_status st = store ? crn_net_build(w->config, w->mode, store, NULL, &net, err) : crn_err_memory(err);
  if (st == CRN_OK) st = crn_store_init_values(store, 1, err);
  if (st == CRN_OK) st = crn_exec_new(net, &(crn_session_opts){.n_threads = 1, .seed = 1}, &x, err);
  if (st == CRN_OK) *o = FAILED;
  for (uint64_t step = 0; st == CRN_OK && step < 2; step++) st = run_step(d, x, w, step, err);
  if (st == CRN_OK) *o = RAN;
  crn_exec_free(x);
  crn_net_free(net);
  crn_store_free(store);
  return st;
}

/* What is wrong with how it ended, or NULL. */
static const char *complaint(crn_status st, const char *text, outcome o) {
  if (st == CRN_E_INTERNAL) return "a fault of our own";
  if ((st == CRN_OK) != !text[0]) return "status and message don't agree";
  if (st == CRN_OK) return NULL;
  if (o == REFUSED && !strstr(text, "layer '") && strncmp(text, "config", 6)) return "the refusal names no layer";
  if (o == FAILED && !strstr(text, "layer '") && !strstr(text, "data key '") && st != CRN_E_MEMORY)
    return "the failure names no layer";
  if (strlen(text) < 12) return "the message says nothing";
  return NULL;
}

typedef struct tally { /* shared with the children */
  size_t at, n[3], bad, ran_by_class[MAX_CLASSES];
} tally;

static draw_pool pool;

/* Layers of the conformance cases. */
static void read_pool(crn_arena *a) {
  static const char folder[] = CRN_SOURCE_DIR "/tests/data/conformance/cases";
  struct dirent **names = NULL;
  const int n = scandir(folder, &names, NULL, alphasort);
  assert_true(n > 2);
  for (int i = 0; i < n; i++) {
    crn_value *root = NULL;
    crn_err err = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
    if (crn_ends_with(path, ".json")) {
      if (crn_v_read_json(a, path, &root, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
      draw_pool_add(&pool, crn_v_get(crn_v_get(root, "config"), "network"));
    }
    free(names[i]);
  }
  free(names);
}

static void one(uint64_t seed, size_t number, bool verbose, tally *t) {
  crn_arena a = {0};
  crn_err err = {0};
  outcome o;
  drawer d = {.arena = &a, .pool = &pool};
  const draw w = make_draw(&d, seed, number);
  const crn_status st = run_draw(&d, &w, &o, &err);
  const char *wrong = complaint(st, crn_err_text(&err), o);
  t->n[o]++;
  t->bad += wrong != NULL;
  for (size_t i = 0; o == RAN && i < MAX_CLASSES && crn_layer_class_at(i); i++)
    t->ran_by_class[i] += crn_layer_class_at(i) == w.first;
  if (getenv("CRN_DRAWS_LIST")) printf("%zu %s %s\n", number, w.first->name, st == CRN_OK ? "ran" : crn_err_text(&err));
  if (verbose || wrong) {
    crn_str s = {0};
    crn_v_repr(w.config, &s, 0);
    printf("draw %zu of seed %llu: %s\n  train %d, eval %d, search %d; batch %lld, frames %lld\n  %s\n  %s\n", number,
           (unsigned long long)seed, wrong ? wrong : "as it should be", w.mode.train, w.mode.eval, w.mode.search,
           (long long)w.B, (long long)w.T, crn_str_get(&s), st == CRN_OK ? "ran" : crn_err_text(&err));
    crn_str_free(&s);
  }
  crn_err_clear(&err);
  crn_arena_free(&a);
}

static size_t number_of(const char *variable, size_t dflt) {
  const char *s = getenv(variable);
  return s ? (size_t)strtoull(s, NULL, 10) : dflt;
}

/* Draws from t->at on, until end or one that doesn't end well; false then. */
static bool run_chunk(uint64_t seed, size_t end, tally *t) {
  int status = 0;
  fflush(stdout);
  fflush(stderr);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (; t->at < end; t->at++) {
      alarm(LIMIT_S);
      one(seed, t->at, false, t);
    }
    exit(0); /* not _exit: leaks are looked for */
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  if (WIFSIGNALED(status)) print_error("signal %d in ", WTERMSIG(status));
  print_error("draw %zu of seed %llu: CRN_DRAWS_SEED=%llu CRN_DRAW=%zu build/test_layer_draws repeats it\n", t->at,
              (unsigned long long)seed, (unsigned long long)seed, t->at);
  t->at++;
  return false;
}

static void test_draws(void **state) {
  (void)state;
  const uint64_t seed = number_of("CRN_DRAWS_SEED", 1);
  const size_t n = number_of("CRN_DRAWS", N_DRAWS);
  size_t crashes = 0, never = 0;
  tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(t != MAP_FAILED);
  crn_arena pool_arena = {0};
  read_pool(&pool_arena);
  if (getenv("CRN_DRAW")) {
    one(seed, number_of("CRN_DRAW", 0), true, t);
    return;
  }
  while (t->at < n) crashes += !run_chunk(seed, t->at + CHUNK < n ? t->at + CHUNK : n, t);
  printf(
      "%zu layers drawn, seed %llu: %zu refused, %zu failed in a step, %zu ran; %zu crashed, %zu with a poor message\n",
      n, (unsigned long long)seed, t->n[REFUSED], t->n[FAILED], t->n[RAN], crashes, t->bad);
  for (size_t i = 0; crn_layer_class_at(i) && i < MAX_CLASSES; i++)
    if (crn_layer_class_at(i)->forward && !t->ran_by_class[i]) {
      if (!never++) printf("none of class ran:");
      printf(" %s", crn_layer_class_at(i)->name);
    }
  if (never) printf("\n");
  assert_int_equal(crashes, 0);
  assert_int_equal(t->bad, 0);
  munmap(t, sizeof *t);
  crn_free((void *)pool.items);
  crn_arena_free(&pool_arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_draws)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
