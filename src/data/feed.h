/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that makes batches ahead of the one who uses them, behind a queue of limited length. While a feed lives, its
 * dataset and batcher belong to that thread.
 */
#ifndef CRN_DATA_FEED_H
#define CRN_DATA_FEED_H

#include "data/batch.h"

typedef struct crn_feed crn_feed;

/* Start to fetch batches from b (which stays the caller's, but is used by the feed until it is freed). n_ahead >= 1:
 * batches that may wait in the queue; 0: no thread, each batch is made when it is asked for. */
crn_status crn_feed_new(crn_batcher *b, int n_ahead, crn_feed **out, crn_err *err);
/* The next batch, owned by the caller; *out = NULL at the end of the epoch. A failure of the thread is returned here,
 * after the batches made before it, and again by every later call. */
crn_status crn_feed_next(crn_feed *f, crn_batch **out, crn_err *err);
/* A batch of the feed that isn't needed any more: its memory serves a later one. NULL is fine. */
void crn_feed_give_back(crn_feed *f, crn_batch *batch);
/* Stop the thread, whatever it is doing, wait for it and drop waiting batches. NULL is fine. */
void crn_feed_free(crn_feed *f);

#endif
