/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference kernels in double, for tests and for gradients by differences.
 */
#include "kernel/tables.h"

#define R double
#define LIBM(name) name
#define CRN_K(name) name##_f64
#define REF_TABLE crn_kernels_reference_f64
#include "kernel/ref_table.inc.h"
