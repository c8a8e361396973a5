/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages for people go through a callback; the library itself never prints.
 */
#ifndef CRN_BASE_LOG_H
#define CRN_BASE_LOG_H

#include "base/status.h"

/* Verbosity levels as in configs' log_verbosity: 1 errors, 2 warnings, 3 main progress, 4 details, 5 everything. */
typedef void (*crn_log_fn)(void *user, int level, const char *text); /* text: one line without newline */

typedef struct crn_log {
  crn_log_fn fn; /* NULL: dropped */
  void *user;
  int verbosity; /* lines above it are dropped */
} crn_log;

void crn_logf(const crn_log *log, int level, const char *fmt, ...) CRN_PRINTF(3, 4); /* log may be NULL */
void crn_warnf(const crn_log *log, const char *fmt, ...) CRN_PRINTF(2, 3);           /* level 2, "WARNING: " in front */

#endif
