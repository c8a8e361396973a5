/* SPDX-License-Identifier: Apache-2.0
 *
 * Discrete Fourier transform of any length, in double. For feature extraction: lengths of some hundred samples.
 */
#ifndef CRN_DATA_FFT_H
#define CRN_DATA_FFT_H

#include "base/status.h"

typedef struct crn_fft {
  int64_t n;
  double *roots; /* n pairs: exp(-2 pi i k / n) */
  double *work;  /* 6 n numbers */
} crn_fft;

crn_status crn_fft_init(crn_fft *f, int64_t n, crn_err *err);
void crn_fft_free(crn_fft *f);
/* |X_k|^2 for k = 0 .. n/2 of n real numbers. */
void crn_fft_power(crn_fft *f, const double *x, double *power);

#endif
