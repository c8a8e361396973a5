/* SPDX-License-Identifier: Apache-2.0
 *
 * Which step it was that failed: epoch, step, tags of its sequences (SPEC 8; the rest is net/failure.c's).
 */
#include "train/engine.h"

void crn_step_report(const crn_batch *b, int64_t epoch, int64_t step, crn_err *err) {
  enum { MOST = 50 };
  crn_err_append(err, "\nin epoch %lld, step %lld, sequences:", (long long)epoch, (long long)step);
  for (int64_t i = 0; i < b->n_seqs && i < MOST; i++)
    crn_err_append(err, " '%s'", b->tags && b->tags[i] ? b->tags[i] : "?");
  if (b->n_seqs > MOST) crn_err_append(err, " and %lld more", (long long)(b->n_seqs - MOST));
}
