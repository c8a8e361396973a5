/* SPDX-License-Identifier: Apache-2.0
 *
 * The file `checkpoint` beside checkpoints, which names the last one. A protobuf message in text form:
 *   model_checkpoint_path: "net.012"
 *   all_model_checkpoint_paths: "net.012"
 */
#ifndef CRN_CKPT_STATE_FILE_H
#define CRN_CKPT_STATE_FILE_H

#include "ckpt/bundle.h"

/* Write DIRECTORY OF PREFIX/checkpoint to name prefix (by its base name, so that the directory can be moved), in one
 * step: the file is the old or the new one. Errors and retries as in crn_bundle_finish. */
crn_status crn_ckpt_state_write(const char *prefix, const crn_save_opts *opts, crn_err *err) CRN_MUST_CHECK;
/* Prefix of the last checkpoint of directory, in the arena. */
crn_status crn_ckpt_state_read(crn_arena *a, const char *directory, const char **prefix, crn_err *err) CRN_MUST_CHECK;

#endif
