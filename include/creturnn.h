/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn: runs RETURNN network dicts and configs natively. (Public interface; grows with the engine.)
 */
#ifndef CRETURNN_H
#define CRETURNN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define CRN_API
#elif defined(__GNUC__)
#define CRN_API __attribute__((visibility("default")))
#else
#define CRN_API
#endif

/* Result of every fallible call. */
typedef enum crn_status {
  CRN_OK = 0,
  CRN_E_MEMORY,          /* no memory left */
  CRN_E_CONFIG,          /* config, network dict or option is wrong */
  CRN_E_NOT_IMPLEMENTED, /* known, but not built yet */
  CRN_E_FILE,            /* a file can't be opened, read or written */
  CRN_E_FORMAT,          /* a file's content is damaged or of another kind */
  CRN_E_DATA,            /* input data don't fit the network */
  CRN_E_RUNTIME,         /* a step failed (shapes, values, limits) */
  CRN_E_STATE,           /* calls in the wrong order */
  CRN_E_INTERRUPTED,     /* stopped on request */
  CRN_E_INTERNAL         /* our own fault; please report */
} crn_status;

#ifdef __cplusplus
}
#endif
#endif
