/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of one label sequence through its frames, in double and in the log domain; private to ops_ctc.c.
 *
 * Symbols are numbered 0 for blank and j for the j-th label of the sequence. States: with label loop 2S+1 (blanks
 * around the labels), without S+1 (labels emitted so far). A step into state i comes from i (emits self[i]), from i-1
 * or, where skip[i], from i-2 (both emit next[i]). Paths start in state 0 before the first frame.
 */
#ifndef CRN_TENSOR_CTC_PATHS_H
#define CRN_TENSOR_CTC_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ctc_paths {
  int64_t T, S, n_states;
  const double *emit; /* [T, S+1] log score of symbol j in frame t */
  const int32_t *self, *next;
  const uint8_t *skip;
  bool loop; /* label loop: the last two states end, else the last */
} ctc_paths;

/* Numbers of scratch that a sequence needs at most: doubles, for T frames and S labels. */
int64_t crn_ctc_work_size(int64_t T, int64_t S);

/* Fill self, next, skip (each 2S+1 entries, caller's) for the labels. */
void crn_ctc_topology(ctc_paths *p, int64_t S, const int32_t *labels, bool loop, int32_t *self, int32_t *next,
                      uint8_t *skip);

/* log Σ over paths of exp(Σ emit), -inf without a path. q [T, S+1] (NULL = not wanted) gets each symbol's share. */
double crn_ctc_sum(const ctc_paths *p, double *work, double *q);
/* The largest instead of the sum; q gets 1 for the symbols of that path. Of equals, the step from the lower state. */
double crn_ctc_best(const ctc_paths *p, double *work, double *q);

#endif
