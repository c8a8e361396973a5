/* SPDX-License-Identifier: Apache-2.0
 *
 * choice: what the loop needs of it.
 */
#ifndef CRN_NET_CHOICE_H
#define CRN_NET_CHOICE_H

#include "net/exec.h"

/* After the last step: the final scores (length normalisation) as a beam of their own, in lr->last_beam. */
crn_status crn_choice_finish(crn_exec *x, const crn_loop *loop, crn_loop_run *lr);

#endif
