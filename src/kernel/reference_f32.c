/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference kernels in float: portable, the twin that fast tables are tested against.
 */
#include "kernel/tables.h"

#define R float
#define LIBM(name) name##f
#define CRN_K(name) name
#define REF_TABLE crn_kernels_reference
#include "kernel/ref_table.inc.h"
