/* SPDX-License-Identifier: Apache-2.0
 *
 * Ctrl-C and SIGTERM: a flag that long runs look at, so that they stop between two steps with their files in order.
 * The second signal ends the program at once. SIGPIPE and SIGXFSZ end no task: the
 * write fails instead, and is told.
 */
#ifndef CRN_CLI_INTERRUPT_H
#define CRN_CLI_INTERRUPT_H

#include <stdatomic.h>

void cli_catch_signals(void);
/* 0, or the signal that came; for the library's stop flags. */
const atomic_int *cli_stop_flag(void);

#endif
