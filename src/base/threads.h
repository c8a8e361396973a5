/* SPDX-License-Identifier: Apache-2.0
 *
 * Small thread pool. Work is cut into numbered tasks; which thread runs which task never changes a result.
 */
#ifndef CRN_BASE_THREADS_H
#define CRN_BASE_THREADS_H

#include "base/status.h"

typedef struct crn_threads crn_threads;

/* A pool of n threads in total (the caller works too); n = 0: CRN_NUM_THREADS from the environment, else the number of
 * processors that this process may use. */
crn_status crn_threads_new(int n, crn_threads **out, crn_err *err);
void crn_threads_free(crn_threads *t);
int crn_threads_count(const crn_threads *t); /* t NULL: 1 */
/* Call fn(arg, i) for i in [0, n_tasks); returns when all are done. t NULL or n_tasks 1: runs in the caller. Calls from
 * inside fn run in the caller. One crn_threads_run at a time per pool. */
void crn_threads_run(crn_threads *t, int64_t n_tasks, void (*fn)(void *arg, int64_t i), void *arg);

#endif
