/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats a message and hands it to the callback; a message that finds no memory is cut instead of lost.
 */
#include "base/log.h"

#include "base/arena.h"

#include <stdio.h>

static void log_text(const crn_log *log, int level, const char *prefix, const char *fmt, va_list ap) {
  char small[512];
  va_list again;
  va_copy(again, ap);
  int np = snprintf(small, sizeof small, "%s", prefix);
  int n = vsnprintf(small + np, sizeof small - (size_t)np, fmt, ap);
  char *text = small, *large = NULL;
  if (n >= 0 && (size_t)(np + n) >= sizeof small) {
    size_t bytes = (size_t)np + (size_t)n + 1;
    large = crn_malloc(bytes);
    if (large) {
      snprintf(large, bytes, "%s", prefix);
      vsnprintf(large + np, bytes - (size_t)np, fmt, again);
      text = large;
    }
  }
  va_end(again);
  log->fn(log->user, level, text);
  crn_free(large);
}

void crn_logf(const crn_log *log, int level, const char *fmt, ...) {
  if (!log || !log->fn || level > log->verbosity) return;
  va_list ap;
  va_start(ap, fmt);
  log_text(log, level, "", fmt, ap);
  va_end(ap);
}

void crn_warnf(const crn_log *log, const char *fmt, ...) {
  if (!log || !log->fn || log->verbosity < 2) return;
  va_list ap;
  va_start(ap, fmt);
  log_text(log, 2, "WARNING: ", fmt, ap);
  va_end(ap);
}
