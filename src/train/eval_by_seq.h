/* SPDX-License-Identifier: Apache-2.0
 *
 * The file eval_output_file_per_seq of task eval.
 */
#ifndef CRN_TRAIN_EVAL_BY_SEQ_H
#define CRN_TRAIN_EVAL_BY_SEQ_H

#include "train/engine.h"

typedef struct crn_eval_by_seq crn_eval_by_seq; /* in the engine's arena */

/* From the config's keys; *out = NULL: no such file is asked for. */
crn_status crn_eval_by_seq_new(crn_engine *e, crn_eval_by_seq **out, crn_err *err);
crn_status crn_eval_by_seq_start(crn_eval_by_seq *s, crn_err *err); /* the engine's eval_net is there */
/* After each step: crn_pass.each. */
crn_status crn_eval_by_seq_batch(void *user, crn_engine *e, const crn_batch *b, crn_err *err);
crn_status crn_eval_by_seq_write(crn_eval_by_seq *s, crn_dataset *data, crn_err *err);

#endif
