/* SPDX-License-Identifier: Apache-2.0
 *
 * Background feeding (see feed.h): one producer, one consumer, a ring of batches under a mutex.
 */
#include "data/feed.h"

#include <pthread.h>
#include <string.h>

struct crn_feed {
  crn_batcher *batcher;
  pthread_t thread;
  bool has_thread;
  pthread_mutex_t lock; /* guards everything below */
  pthread_cond_t more, less;
  crn_batch **ring; /* cap entries, n of them used, the oldest at first */
  size_t cap, first, n;
  crn_batch **spare; /* n_spare batches to use again: cap + 2 are there, one with the producer, one with the consumer */
  size_t n_spare;
  bool stop;     /* the consumer wants no more */
  bool finished; /* the producer adds no more */
  crn_err failure;
};

/* Wait for a free place and put the batch there; false if the consumer wants no more. */
static bool push(crn_feed *f, crn_batch *batch) {
  pthread_mutex_lock(&f->lock);
  while (f->n == f->cap && !f->stop) pthread_cond_wait(&f->less, &f->lock);
  bool ok = !f->stop;
  if (ok) {
    f->ring[(f->first + f->n++) % f->cap] = batch;
    pthread_cond_signal(&f->more);
  }
  pthread_mutex_unlock(&f->lock);
  return ok;
}

static crn_batch *pop_spare(crn_feed *f) {
  pthread_mutex_lock(&f->lock);
  crn_batch *b = f->n_spare ? f->spare[--f->n_spare] : NULL;
  pthread_mutex_unlock(&f->lock);
  return b;
}

static void *produce(void *arg) {
  crn_feed *f = arg;
  crn_err err = {0};
  for (;;) {
    crn_batch *batch = NULL;
    crn_batcher_reuse(f->batcher, pop_spare(f));
    if (crn_batcher_next(f->batcher, &batch, &err) != CRN_OK || !batch) break;
    if (!push(f, batch)) {
      crn_batch_free(batch);
      break;
    }
  }
  pthread_mutex_lock(&f->lock);
  f->failure = err;
  f->finished = true;
  pthread_cond_signal(&f->more);
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

crn_status crn_feed_new(crn_batcher *b, int n_ahead, crn_feed **out, crn_err *err) {
  *out = NULL;
  crn_feed *f = crn_calloc(1, sizeof *f);
  if (!f) return crn_err_memory(err);
  f->batcher = b;
  f->cap = n_ahead > 0 ? (size_t)n_ahead : 0;
  f->ring = f->cap ? crn_calloc(f->cap, sizeof *f->ring) : NULL;
  f->spare = f->cap ? crn_calloc(f->cap + 2, sizeof *f->spare) : NULL;
  if (f->cap && (!f->ring || !f->spare)) {
    crn_free(f->ring);
    crn_free(f->spare);
    crn_free(f);
    return crn_err_memory(err);
  }
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->more, NULL);
  pthread_cond_init(&f->less, NULL);
  if (f->cap) {
    int rc = pthread_create(&f->thread, NULL, produce, f);
    if (rc != 0) {
      crn_feed_free(f);
      return crn_fail(err, CRN_E_RUNTIME, "the thread that reads data can't be started: %s", strerror(rc));
    }
    f->has_thread = true;
  }
  *out = f;
  return CRN_OK;
}

crn_status crn_feed_next(crn_feed *f, crn_batch **out, crn_err *err) {
  *out = NULL;
  if (!f->has_thread) return crn_batcher_next(f->batcher, out, err);
  pthread_mutex_lock(&f->lock);
  while (!f->n && !f->finished) pthread_cond_wait(&f->more, &f->lock);
  if (f->n) {
    *out = f->ring[f->first];
    f->first = (f->first + 1) % f->cap;
    f->n--;
    pthread_cond_signal(&f->less);
  }
  crn_status code = *out ? CRN_OK : f->failure.code;
  if (code != CRN_OK) crn_fail(err, code, "%s", crn_err_text(&f->failure));
  pthread_mutex_unlock(&f->lock);
  return code;
}

void crn_feed_give_back(crn_feed *f, crn_batch *batch) {
  if (!f->has_thread) {
    crn_batcher_reuse(f->batcher, batch);
    return;
  }
  pthread_mutex_lock(&f->lock);
  const bool fits = batch && f->n_spare < f->cap + 2;
  if (fits) f->spare[f->n_spare++] = batch;
  pthread_mutex_unlock(&f->lock);
  if (!fits) crn_batch_free(batch);
}

void crn_feed_free(crn_feed *f) {
  if (!f) return;
  pthread_mutex_lock(&f->lock);
  f->stop = true;
  pthread_cond_broadcast(&f->less);
  pthread_mutex_unlock(&f->lock);
  if (f->has_thread) pthread_join(f->thread, NULL);
  for (size_t i = 0; i < f->n; i++) crn_batch_free(f->ring[(f->first + i) % f->cap]);
  for (size_t i = 0; i < f->n_spare; i++) crn_batch_free(f->spare[i]);
  crn_err_clear(&f->failure);
  pthread_mutex_destroy(&f->lock);
  pthread_cond_destroy(&f->more);
  pthread_cond_destroy(&f->less);
  crn_free(f->ring);
  crn_free(f->spare);
  crn_free(f);
}
