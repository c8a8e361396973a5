/* SPDX-License-Identifier: Apache-2.0
 *
 * A fast table for float: includes the functions and lists them. The includer includes its kernel/simd_*.h first.
 */
#include <math.h>
#include <string.h>

#include "kernel/tables.h"

#include "kernel/fast_micro.inc.h"
#include "kernel/fast_pack.inc.h"
#include "kernel/fast_matmul.inc.h"
#include "kernel/fast_math.inc.h"
#include "kernel/fast_vector.inc.h"
#include "kernel/fast_rows.inc.h"
#include "kernel/fast_attention.inc.h"
#include "kernel/fast_cells.inc.h"

const crn_kernels FAST_TABLE = {
    .name = FAST_NAME,
    .matmul = fast_matmul,
    .matmul_batched = fast_matmul_batched,
    .packed_b_bytes = fast_packed_b_bytes,
    .pack_b = fast_pack_b,
    .unpack_b = fast_unpack_b,
    .matmul_packed = fast_matmul_packed,
    .exp = fast_exp,
    .log = fast_log,
    .tanh = fast_tanh,
    .sigmoid = fast_sigmoid,
    .softplus = fast_softplus,
    .erf = fast_erf,
    .expm1 = fast_expm1,
    .log1p = fast_log1p,
    .sin = fast_sin,
    .cos = fast_cos,
    .sqrt = fast_sqrt,
    .rsqrt = fast_rsqrt,
    .recip = fast_recip,
    .square = fast_square,
    .neg = fast_neg,
    .abs = fast_abs,
    .relu = fast_relu,
    .tanh_backward = fast_tanh_backward,
    .sigmoid_backward = fast_sigmoid_backward,
    .relu_backward = fast_relu_backward,
    .add = fast_add,
    .sub = fast_sub,
    .mul = fast_mul,
    .div = fast_div,
    .max = fast_max,
    .min = fast_min,
    .scale = fast_scale,
    .add_scalar = fast_add_scalar,
    .axpy = fast_axpy,
    .mul_add = fast_mul_add,
    .sum = fast_sum,
    .dot = fast_dot,
    .dot_each = fast_dot_each,
    .weighted_sum = fast_weighted_sum,
    .reduce_max = fast_reduce_max,
    .reduce_min = fast_reduce_min,
    .argmax = fast_argmax,
    .column_sum = fast_column_sum,
    .column_dot = fast_column_dot,
    .softmax = fast_softmax,
    .log_softmax = fast_log_softmax,
    .softmax_backward = fast_softmax_backward,
    .log_softmax_backward = fast_log_softmax_backward,
    .layer_norm = fast_layer_norm,
    .layer_norm_backward = fast_layer_norm_backward,
    .layer_norm_backward_scale = fast_layer_norm_backward_scale,
    .bias_act = fast_bias_act,
    .lstm_forward = fast_lstm_forward,
    .lstm_backward = fast_lstm_backward,
    .attention_forward = fast_attention_forward,
    .attention_backward = fast_attention_backward,
};
