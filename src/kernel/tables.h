/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables that exist, for kernel/select.c and the files that define them. Others use crn_kernels_select.
 */
#ifndef CRN_KERNEL_TABLES_H
#define CRN_KERNEL_TABLES_H

#include "kernel/kernel.h"

extern const crn_kernels crn_kernels_reference;
#if defined(__x86_64__)
extern const crn_kernels crn_kernels_v3; /* AVX2 + FMA */
extern const crn_kernels crn_kernels_v4; /* AVX-512 F, BW, CD, DQ, VL */
#endif
extern const crn_kernels_f64 crn_kernels_reference_f64;

#endif
