/* SPDX-License-Identifier: Apache-2.0
 *
 * Thread pool for many short parallel loops.
 *
 * A job is published by one 64-bit word, the ticket: generation in the upper half, next task in the lower half. A
 * thread takes a task by compare-and-swap on the ticket, so a thread that was late for an earlier job can't take part
 * in a newer one by mistake: its generation no longer matches. Before the fields of a new job are written, the old
 * ticket's task becomes CLOSED: a thread that still holds (g, number of tasks) and reads the new, greater number can't
 * swap any more. So while a swap of generation g can succeed, job g has an unfinished task, hence its caller hasn't
 * returned and the job's fields are still those of g.
 * Waiting threads spin a little and then sleep; the one that changes a state after which another may proceed looks
 * whether that one sleeps (both sides sequentially consistent, so one of them sees the other).
 */
#define _GNU_SOURCE
#include "base/threads.h"

#include "base/arena.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_THREADS = 1024, SPIN_ROUNDS = 4000 };

#define CLOSED UINT32_MAX /* more than any number of tasks */

typedef void (*task_fn)(void *arg, int64_t i);

struct crn_threads {
  int n;                       /* threads in total, the caller counted */
  int n_started;               /* of workers */
  int spin_rounds;             /* 0 when there are more threads than processors */
  pthread_t *workers;          /* n-1 */
  _Atomic uint64_t ticket;     /* generation << 32 | next task */
  _Atomic(task_fn) fn;         /* the job: valid for the ticket's generation */
  _Atomic(void *) arg;         /* "" */
  _Atomic int64_t first;       /* number of the job's task 0 */
  _Atomic uint32_t n_tasks;    /* "" */
  _Atomic uint32_t n_done;     /* finished tasks of the job */
  atomic_bool busy;            /* a job is running: further calls run in their caller */
  atomic_bool stop;            /* workers shall end */
  atomic_int n_sleeping;       /* workers in or just before a wait on wake */
  atomic_bool caller_sleeping; /* the caller is in or just before a wait on finished */
  pthread_mutex_t lock;
  pthread_cond_t wake, finished;
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static uint32_t generation_of(uint64_t ticket) { return (uint32_t)(ticket >> 32); }

/* Take and run tasks of generation gen until none is left. */
static void work(crn_threads *t, uint32_t gen) {
  uint64_t ticket = atomic_load(&t->ticket);
  for (;;) {
    if (generation_of(ticket) != gen) return;
    task_fn fn = atomic_load_explicit(&t->fn, memory_order_relaxed);
    void *arg = atomic_load_explicit(&t->arg, memory_order_relaxed);
    int64_t first = atomic_load_explicit(&t->first, memory_order_relaxed);
    /* whoever reads a newer job's number sees CLOSED, too */
    uint32_t n_tasks = atomic_load_explicit(&t->n_tasks, memory_order_acquire);
    uint32_t task = (uint32_t)ticket;
    if (task >= n_tasks) return;
    if (!atomic_compare_exchange_weak(&t->ticket, &ticket, ticket + 1)) continue;
    fn(arg, first + task);
    if (atomic_fetch_add(&t->n_done, 1) + 1 == n_tasks && atomic_load(&t->caller_sleeping)) {
      pthread_mutex_lock(&t->lock);
      pthread_cond_signal(&t->finished);
      pthread_mutex_unlock(&t->lock);
    }
    ticket = atomic_load(&t->ticket);
  }
}

/* Wait until a generation other than seen is published or the pool stops. */
static uint32_t await_job(crn_threads *t, uint32_t seen) {
  for (int k = 0; k < t->spin_rounds; k++) {
    uint32_t gen = generation_of(atomic_load_explicit(&t->ticket, memory_order_relaxed));
    if (gen != seen || atomic_load_explicit(&t->stop, memory_order_relaxed)) return gen;
    relax();
  }
  atomic_fetch_add(&t->n_sleeping, 1);
  pthread_mutex_lock(&t->lock);
  while (generation_of(atomic_load(&t->ticket)) == seen && !atomic_load(&t->stop))
    pthread_cond_wait(&t->wake, &t->lock);
  pthread_mutex_unlock(&t->lock);
  atomic_fetch_sub(&t->n_sleeping, 1);
  return generation_of(atomic_load(&t->ticket));
}

static void *worker_main(void *p) {
  crn_threads *t = p;
  uint32_t seen = 0;
  while (!atomic_load(&t->stop)) {
    seen = await_job(t, seen);
    work(t, seen);
  }
  return NULL;
}

static void await_done(crn_threads *t, uint32_t n_tasks) {
  for (int k = 0; k < t->spin_rounds; k++) {
    if (atomic_load(&t->n_done) == n_tasks) return;
    relax();
  }
  atomic_store(&t->caller_sleeping, true);
  pthread_mutex_lock(&t->lock);
  while (atomic_load(&t->n_done) != n_tasks) pthread_cond_wait(&t->finished, &t->lock);
  pthread_mutex_unlock(&t->lock);
  atomic_store(&t->caller_sleeping, false);
}

static void run_job(crn_threads *t, int64_t first, uint32_t n_tasks, task_fn fn, void *arg) {
  const uint32_t last = generation_of(atomic_load_explicit(&t->ticket, memory_order_relaxed)), gen = last + 1;
  atomic_store(&t->ticket, (uint64_t)last << 32 | CLOSED);
  atomic_store_explicit(&t->fn, fn, memory_order_relaxed);
  atomic_store_explicit(&t->arg, arg, memory_order_relaxed);
  atomic_store_explicit(&t->first, first, memory_order_relaxed);
  atomic_store_explicit(&t->n_tasks, n_tasks, memory_order_release);
  atomic_store_explicit(&t->n_done, 0, memory_order_relaxed);
  atomic_store(&t->ticket, (uint64_t)gen << 32);
  if (atomic_load(&t->n_sleeping) > 0) {
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
  }
  work(t, gen);
  await_done(t, n_tasks);
}

void crn_threads_run(crn_threads *t, int64_t n_tasks, void (*fn)(void *arg, int64_t i), void *arg) {
  if (!t || t->n <= 1 || n_tasks <= 1 || atomic_exchange(&t->busy, true)) {
    for (int64_t i = 0; i < n_tasks; i++) fn(arg, i);
    return;
  }
  const int64_t most = INT32_MAX; /* a ticket counts tasks in 32 bits */
  for (int64_t i = 0; i < n_tasks; i += most)
    run_job(t, i, (uint32_t)(n_tasks - i < most ? n_tasks - i : most), fn, arg);
  atomic_store(&t->busy, false);
}

int crn_threads_count(const crn_threads *t) { return t ? t->n : 1; }

static int usable_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1; /* more than CPU_SETSIZE of them: don't guess */
  int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

static crn_status threads_from_environment(int *n, crn_err *err) {
  const char *text = getenv("CRN_NUM_THREADS");
  if (!text || !*text) {
    *n = usable_processors();
    return CRN_OK;
  }
  char *end = NULL;
  errno = 0;
  long v = strtol(text, &end, 10);
  if (errno || *end || v < 1 || v > MAX_THREADS)
    return crn_fail(err, CRN_E_CONFIG, "environment variable CRN_NUM_THREADS: expected integer in 1..%d, got \"%s\"",
                    MAX_THREADS, text);
  *n = (int)v;
  return CRN_OK;
}

crn_status crn_threads_new(int n, crn_threads **out, crn_err *err) {
  *out = NULL;
  if (n == 0) CRN_TRY(threads_from_environment(&n, err));
  if (n < 1 || n > MAX_THREADS)
    return crn_fail(err, CRN_E_CONFIG, "number of threads: expected 0..%d, got %d", MAX_THREADS, n);
  crn_threads *t = crn_calloc(1, sizeof *t);
  if (!t) return crn_err_memory(err);
  t->n = n;
  t->spin_rounds = n <= usable_processors() ? SPIN_ROUNDS : 0;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->wake, NULL);
  pthread_cond_init(&t->finished, NULL);
  t->workers = crn_calloc((size_t)n, sizeof *t->workers);
  if (!t->workers) {
    crn_threads_free(t);
    return crn_err_memory(err);
  }
  for (; t->n_started < n - 1; t->n_started++) {
    int rc = pthread_create(&t->workers[t->n_started], NULL, worker_main, t);
    if (rc != 0) {
      int started = t->n_started;
      crn_threads_free(t);
      return crn_fail(err, CRN_E_RUNTIME, "can't start thread %d of %d (error %d)", started + 2, n, rc);
    }
  }
  *out = t;
  return CRN_OK;
}

void crn_threads_free(crn_threads *t) {
  if (!t) return;
  pthread_mutex_lock(&t->lock);
  atomic_store(&t->stop, true);
  pthread_cond_broadcast(&t->wake);
  pthread_mutex_unlock(&t->lock);
  for (int i = 0; i < t->n_started; i++) pthread_join(t->workers[i], NULL);
  pthread_cond_destroy(&t->finished);
  pthread_cond_destroy(&t->wake);
  pthread_mutex_destroy(&t->lock);
  crn_free(t->workers);
  crn_free(t);
}
