/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference table for R = float or double: includes the functions and lists them. The includer defines R, LIBM(f),
 * CRN_K(name) and REF_TABLE, the table's name.
 */
#include <math.h>

#include "kernel/ref_matmul.inc.h"
#include "kernel/ref_vector.inc.h"
#include "kernel/ref_rows.inc.h"
#include "kernel/ref_cells.inc.h"

const CRN_K(crn_kernels) REF_TABLE = {
    .name = "reference",
    .matmul = ref_matmul,
    .matmul_batched = ref_matmul_batched,
    .packed_b_bytes = ref_packed_b_bytes,
    .pack_b = ref_pack_b,
    .matmul_packed = ref_matmul_packed,
    .exp = ref_exp,
    .log = ref_log,
    .tanh = ref_tanh,
    .sigmoid = ref_sigmoid,
    .softplus = ref_softplus,
    .erf = ref_erf,
    .expm1 = ref_expm1,
    .log1p = ref_log1p,
    .sin = ref_sin,
    .cos = ref_cos,
    .sqrt = ref_sqrt,
    .rsqrt = ref_rsqrt,
    .recip = ref_recip,
    .square = ref_square,
    .neg = ref_neg,
    .abs = ref_abs,
    .relu = ref_relu,
    .tanh_backward = ref_tanh_backward,
    .sigmoid_backward = ref_sigmoid_backward,
    .relu_backward = ref_relu_backward,
    .add = ref_add,
    .sub = ref_sub,
    .mul = ref_mul,
    .div = ref_div,
    .max = ref_max,
    .min = ref_min,
    .scale = ref_scale,
    .add_scalar = ref_add_scalar,
    .axpy = ref_axpy,
    .mul_add = ref_mul_add,
    .sum = ref_sum,
    .dot = ref_dot,
    .reduce_max = ref_reduce_max,
    .reduce_min = ref_reduce_min,
    .argmax = ref_argmax,
    .column_sum = ref_column_sum,
    .column_dot = ref_column_dot,
    .softmax = ref_softmax,
    .log_softmax = ref_log_softmax,
    .softmax_backward = ref_softmax_backward,
    .log_softmax_backward = ref_log_softmax_backward,
    .layer_norm = ref_layer_norm,
    .layer_norm_backward = ref_layer_norm_backward,
    .layer_norm_backward_scale = ref_layer_norm_backward_scale,
    .bias_act = ref_bias_act,
    .lstm_forward = ref_lstm_forward,
    .lstm_backward = ref_lstm_backward,
    .attention_forward = ref_attention_forward,
    .attention_backward = ref_attention_backward,
};
