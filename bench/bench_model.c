/* SPDX-License-Identifier: Apache-2.0
 *
 * Time of a whole network, one thread, process CPU clock: training step (forward, backward, adam), evaluation, forward
 * or search, on made data. Prints "ms X" for each run, then the parameters' memory, what values must live at once
 * (live.h), the peak of the value pool, the peak of the whole process less that of an idle one (idle=MIB), its ratio
 * to parameters and living values together, and how often a step asked the system for memory. random: each run has
 * other lengths; then also the peak of the process after a tenth of the runs.
 *
 * Usage: bench_model MODEL.json train|eval|forward|search RUNS KEY=LENGTH… B=BATCH [warm=RUNS] [ragged|random]
 * [idle=MIB]
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "live.h"
#include "net/exec.h"
#include "timing.h"
#include "train/updater.h"

#define MAX_KEYS 8

typedef struct job {
  const char *mode;
  int runs, warm;
  int64_t B;
  bool ragged, random;
  double idle_mib;
  const char *keys[MAX_KEYS];
  int64_t lengths[MAX_KEYS];
  int n_keys;
} job;

/* The linker leads all calls of the allocator from our own code here (CMakeLists.txt); the bench itself calls what is
 * real for the data that it makes. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t bytes);
static long n_allocations;

void *__wrap_malloc(size_t bytes) {
  n_allocations++;
  return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t size) {
  n_allocations++;
  return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t bytes) {
  n_allocations++;
  return __real_realloc(p, bytes);
}

static void die(const crn_err *err) {
  fprintf(stderr, "bench_model: %s\n", crn_err_text(err));
  exit(1);
}

static uint32_t next_random(uint32_t *s) { return (*s = *s * 1664525u + 1013904223u) >> 8; }

static void feed_key(const job *j, crn_exec *x, const crn_extern *e, int64_t length, crn_err *err) {
  int64_t shape[CRN_MAX_RANK], n = 1;
  uint32_t seed = 4711;
  for (int i = 0; i < e->t.n; i++) {
    shape[i] = e->t.dims[i]->kind == CRN_DIM_BATCH ? j->B : e->t.dims[i]->size < 0 ? length : e->t.dims[i]->size;
    n *= shape[i];
  }
  int32_t *lens = __real_malloc(sizeof(int32_t) * (size_t)j->B);
  void *values = __real_malloc(sizeof(float) * (size_t)n);
  if (!lens || !values) exit(1);
  for (int64_t b = 0; b < j->B; b++)
    lens[b] = (int32_t)(j->ragged ? length / 5 + (length - length / 5) * b / (j->B > 1 ? j->B - 1 : 1) : length);
  const int64_t labels = crn_tmpl_dim(&e->t) > 1 ? crn_tmpl_dim(&e->t) : 2;
  for (int64_t i = 0; i < n; i++) {
    if (e->t.sparse)
      ((int32_t *)values)[i] = (int32_t)(1 + next_random(&seed) % (uint32_t)(labels - 1));
    else
      ((float *)values)[i] = (float)next_random(&seed) / 8388608.0f - 1.0f;
  }
  const int32_t *l[1] = {lens};
  if (crn_exec_feed(x, e->key, e->t.sparse ? CRN_I32 : CRN_F32, e->t.n, shape, values, 1, l, err) != CRN_OK) die(err);
  free(lens);
  free(values);
}

/* In random runs a fifth of the length to all of it, by the same part for all keys. */
static int64_t length_of(const job *j, int64_t length, int run) {
  uint32_t seed = (uint32_t)run * 2654435761u;
  const int64_t percent = 20 + next_random(&seed) % 81;
  return !j->random || length * percent < 100 ? length : length * percent / 100;
}

static void feed_all(const job *j, int run, crn_exec *x, crn_err *err) {
  for (int i = 0; i < x->net->n_externs; i++)
    for (int k = 0; k < j->n_keys; k++)
      if (!strcmp(x->net->externs[i].key, j->keys[k]))
        feed_key(j, x, &x->net->externs[i], length_of(j, j->lengths[k], run), err);
}

static crn_updater *make_updater(crn_net *net, const crn_value *config, crn_update_param **params, crn_err *err) {
  crn_updater *u;
  *params = calloc((size_t)net->n_params + 1, sizeof(**params));
  if (!*params) exit(1);
  for (int i = 0; i < net->n_params; i++) {
    crn_param *p = net->params[i];
    const int64_t row = p->spec.rank > 1 ? p->size / p->spec.shape[0] : 1;
    (*params)[i] = (crn_update_param){
        .name = p->path, .w = p->st.data, .rows = p->size / row, .row_len = row, .trainable = net->trainable[i]};
  }
  if (crn_updater_new(config, *params, (size_t)net->n_params, 1, NULL, NULL, &u, err) != CRN_OK) die(err);
  return u;
}

static void update(crn_exec *x, crn_updater *u, int64_t step, crn_err *err) {
  crn_net *net = x->net;
  crn_update_grad *g = __real_calloc((size_t)net->n_params + 1, sizeof(*g));
  if (!g) exit(1);
  for (int i = 0; i < net->n_params; i++) {
    union {
      const void *c;
      void *m;
    } v = {.c = crn_exec_grad(x, net->params[i], err)};
    g[i] = (crn_update_grad){.kind = v.m ? CRN_GRAD_DENSE : CRN_GRAD_NONE, .values = v.m};
  }
  const crn_update_now now = {.lr = 1e-4, .global_step = step, .epoch_step = step};
  if (crn_updater_step(u, g, &now, err) != CRN_OK) die(err);
  for (int i = 0; i < net->n_params; i++) crn_weight_changed(&net->params[i]->st);
  crn_exec_zero_grads(x);
  free(g);
}

static double process_mib(void) { /* the most so far */
  struct rusage used = {0};
  (void)getrusage(RUSAGE_SELF, &used);
  return (double)used.ru_maxrss / 1024.0;
}

static void run(const job *j, crn_exec *x, crn_updater *u, crn_err *err) {
  long in_runs = 0;
  double early_mib = 0;
  for (int i = -j->warm; i < j->runs; i++) {
    const bool train = !strcmp(j->mode, "train");
    const long before = n_allocations;
    crn_exec_begin(x, train, (uint64_t)(i + j->warm));
    feed_all(j, i, x, err);
    const double t0 = now_ms();
    if (crn_exec_forward(x, err) != CRN_OK) die(err);
    if (train) {
      if (crn_exec_backward(x, err) != CRN_OK) die(err);
      update(x, u, i + j->warm, err);
    }
    if (i < 0) continue;
    if (i == j->runs / 10) early_mib = process_mib() - j->idle_mib;
    print_ms(now_ms() - t0);
    in_runs += n_allocations - before;
  }
  const crn_mem_stats s = crn_mem_get_stats(x->mem);
  int64_t params = 0;
  for (int i = 0; i < x->net->n_params; i++) params += x->net->params[i]->size;
  const double mib = 1048576.0, params_mib = (double)params * 4 / mib, most = process_mib() - j->idle_mib,
               live_mib = (double)live_most(x, &x->net->body) / mib;
  printf("params_mib=%.2f pool_mib=%.2f process_mib=%.2f system_allocs_per_step=%.2f", params_mib,
         (double)s.peak_bytes / mib, most, (double)in_runs / (j->runs > 0 ? j->runs : 1));
  if (j->random) printf(" process_mib_after_%d_runs=%.2f", j->runs / 10, early_mib);
  if (strcmp(j->mode, "train") != 0) printf(" live_mib=%.2f ratio=%.2f", live_mib, most / (params_mib + live_mib));
  printf("\n");
}

static void parse(int argc, char **argv, job *j) {
  j->mode = argv[2];
  j->runs = (int)strtol(argv[3], NULL, 10);
  j->B = 1;
  j->warm = 1;
  for (int i = 4; i < argc; i++) {
    char *eq = strchr(argv[i], '=');
    if (!strcmp(argv[i], "random")) j->random = true;
    if (!strcmp(argv[i], "ragged") || j->random) j->ragged = true;
    if (!eq) continue;
    *eq = 0;
    if (!strcmp(argv[i], "B"))
      j->B = strtol(eq + 1, NULL, 10);
    else if (!strcmp(argv[i], "idle"))
      j->idle_mib = strtod(eq + 1, NULL);
    else if (!strcmp(argv[i], "warm"))
      j->warm = (int)strtol(eq + 1, NULL, 10);
    else if (j->n_keys < MAX_KEYS) {
      j->keys[j->n_keys] = argv[i];
      j->lengths[j->n_keys++] = strtol(eq + 1, NULL, 10);
    }
  }
}

int main(int argc, char **argv) {
  crn_err err = {0};
  crn_arena arena = {0};
  crn_value *config;
  crn_net *net = NULL;
  crn_exec *x = NULL;
  crn_updater *u = NULL;
  crn_update_param *params = NULL;
  job j = {0};
  if (argc < 5) {
    fprintf(stderr, "usage: bench_model MODEL.json train|eval|forward|search RUNS KEY=LENGTH... B=BATCH [warm=RUNS] "
                    "[ragged|random] [idle=MIB]\n");
    return 1;
  }
  parse(argc, argv, &j);
  const bool train = !strcmp(j.mode, "train"), search = !strcmp(j.mode, "search");
  const crn_net_mode mode = {.train = train, .eval = train || !strcmp(j.mode, "eval"), .search = search};
  crn_store *store = crn_store_new(CRN_F32);
  const crn_session_opts opts = {.n_threads = 1, .seed = 1};
  if (!store || crn_v_read_json(&arena, argv[1], &config, &err) != CRN_OK ||
      crn_net_build(config, mode, store, NULL, &net, &err) != CRN_OK ||
      crn_store_init_values(store, 1, &err) != CRN_OK || crn_exec_new(net, &opts, &x, &err) != CRN_OK)
    die(&err);
  if (!train) crn_store_read_only(store);
  if (train) u = make_updater(net, config, &params, &err);
  run(&j, x, u, &err);
  crn_updater_free(u);
  free(params);
  crn_exec_free(x);
  crn_net_free(net);
  crn_store_free(store);
  crn_arena_free(&arena);
  return 0;
}
