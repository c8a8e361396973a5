/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes and the message that goes with a failure.
 *
 * Every fallible function returns crn_status and takes a crn_err that receives the message. The first message wins;
 * callers add where they are while the status unwinds, so that the text reads from the outside in:
 *   config.json: network > layer 'output' (softmax) > option 'n_out': expected integer >= 1, got "ten"
 * Nothing here prints or exits.
 */
#ifndef CRN_BASE_STATUS_H
#define CRN_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "creturnn.h" /* crn_status */

#if defined(__GNUC__)
#define CRN_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))
#define CRN_MUST_CHECK __attribute__((warn_unused_result))
#else
#define CRN_PRINTF(fmt_index, first_arg)
#define CRN_MUST_CHECK
#endif

/* Holder of the first failure's message. Zero-initialise it; crn_err_clear frees the text. Not shared by threads. */
typedef struct crn_err {
  crn_status code;    /* CRN_OK: no failure recorded */
  char *text;         /* owned, NULL: see fallback */
  bool placed;        /* crn_err_where was called since the failure */
  char fallback[128]; /* used when no memory is left for the text */
} crn_err;

/* Record a failure (only the first one is kept) and return code. err may be NULL: the text is dropped. */
crn_status crn_fail(crn_err *err, crn_status code, const char *fmt, ...) CRN_PRINTF(3, 4);
crn_status crn_failv(crn_err *err, crn_status code, const char *fmt, va_list ap);
/* Put "WHERE<separator>" in front of the recorded text; separator is " > " between places, ": " before the message.
 * The first call after crn_fail uses ": ", later ones " > "; an empty text stays empty. Returns the recorded code
 * (CRN_E_INTERNAL without err: a function that may get NULL must keep its status itself). */
crn_status crn_err_where(crn_err *err, const char *fmt, ...) CRN_PRINTF(2, 3);
/* Add text after the recorded text (hints, lists of what is allowed). */
void crn_err_append(crn_err *err, const char *fmt, ...) CRN_PRINTF(2, 3);
/* Text of the failure, "" when there is none; valid until the next call with this err. */
const char *crn_err_text(const crn_err *err);
void crn_err_clear(crn_err *err);
crn_status crn_err_memory(crn_err *err); /* records and returns CRN_E_MEMORY */

/* Forward a failing status. */
#define CRN_TRY(expr)                                                                                                  \
  do {                                                                                                                 \
    crn_status try_status_ = (expr);                                                                                   \
    if (try_status_ != CRN_OK) return try_status_;                                                                     \
  } while (0)

/* The entry of names (n of them) nearest to word by edit distance, or NULL if none is near enough to be meant. */
const char *crn_nearest(const char *word, const char *const *names, size_t n);

#endif
