/* SPDX-License-Identifier: Apache-2.0
 *
 * The table for x86-64-v4, from the common source.
 */
#if defined(__x86_64__)
#include "kernel/simd_v4.h"

#include "kernel/fast_table.inc.h"
#endif
