/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for code that is compiled once per number type: this is the float side. R is the number, RNAME(f) a function's
 * name, KERNELS(run) the kernel table, CRN_K(t) the table's argument types, RLIBM(f) libm's function.
 * Include this, then the code, then real_f64.inc.h and the code again.
 */
#undef R
#undef RNAME
#undef KERNELS
#undef CRN_K
#undef RLIBM
#define R float
#define RNAME(name) name##_f32
#define KERNELS(run) ((run)->kernels)
#define CRN_K(name) name
#define RLIBM(name) name##f
