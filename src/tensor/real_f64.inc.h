/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for code that is compiled once per number type: the double side; see real_f32.inc.h.
 */
#undef R
#undef RNAME
#undef KERNELS
#undef CRN_K
#undef RLIBM
#define R double
#define RNAME(name) name##_f64
#define KERNELS(run) ((void)(run), crn_kernels_double())
#define CRN_K(name) name##_f64
#define RLIBM(name) name
