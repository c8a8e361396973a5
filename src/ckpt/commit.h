/* SPDX-License-Identifier: Apache-2.0
 *
 * Putting a checkpoint's files in place so that a crash at any instant leaves the old or the new one whole, and trying
 * again when an error may pass by itself.
 */
#ifndef CRN_CKPT_COMMIT_H
#define CRN_CKPT_COMMIT_H

#include "ckpt/bundle.h"

/* One try of some work. On failure: nothing left behind, *error = errno of the call that failed (0: none). */
typedef crn_status (*crn_attempt_fn)(void *arg, const crn_fileops *ops, int *error, crn_err *err);

/* Try until it succeeds, fails for a reason that doesn't pass, or opts->sleep gives up. what: for the log line. */
crn_status crn_retry(const crn_save_opts *opts, const char *what, crn_attempt_fn attempt, void *arg, crn_err *err);

typedef struct crn_commit {
  const char *prefix;
  const crn_span *data; /* content of the data file */
  size_t n_data;
  /* Append the index that claims n_shards shards (everything is in the first). */
  crn_status (*build_index)(void *arg, int32_t n_shards, crn_str *out, crn_err *err);
  void *arg;
} crn_commit;

/* An attempt (arg: crn_commit) at writing a checkpoint. */
crn_status crn_commit_attempt(void *arg, const crn_fileops *ops, int *error, crn_err *err);

#endif
