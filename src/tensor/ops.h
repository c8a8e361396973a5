/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations, as C functions. All are eager, sticky on failure (NULL in, NULL out) and differentiable where the
 * mathematics is, except where said. Shapes are TensorFlow's: broadcasting aligns the last axes. "axis" may be negative.
 * Real-valued operations work in float32 and float64.
 */
#ifndef CRN_TENSOR_OPS_H
#define CRN_TENSOR_OPS_H

#include "tensor/tensor.h"

/* ---- element by element (ops_unary.c, ops_binary.c) ---- */
typedef enum crn_unary_kind {
  CRN_U_NEG, CRN_U_ABS, CRN_U_EXP, CRN_U_LOG, CRN_U_LOG1P, CRN_U_EXPM1, CRN_U_SQRT, CRN_U_RSQRT, CRN_U_SQUARE,
  CRN_U_RECIPROCAL, CRN_U_SIGN, CRN_U_ROUND /* half to even */, CRN_U_FLOOR, CRN_U_CEIL, CRN_U_SIN, CRN_U_COS,
  CRN_U_TAN, CRN_U_ASIN, CRN_U_ACOS, CRN_U_ATAN, CRN_U_SINH, CRN_U_COSH, CRN_U_ASINH, CRN_U_ACOSH, CRN_U_ATANH,
  CRN_U_TANH, CRN_U_SIGMOID, CRN_U_LOG_SIGMOID, CRN_U_SOFTPLUS, CRN_U_RELU, CRN_U_RELU6, CRN_U_ELU, CRN_U_SELU,
  CRN_U_LEAKY_RELU /* slope 0.2 */, CRN_U_SOFTSIGN, CRN_U_SWISH, CRN_U_GELU /* exact */, CRN_U_GELU_TANH, CRN_U_GELU2,
  CRN_U_GELU3, CRN_U_LIN_EXP, CRN_U_ERF, CRN_U_LGAMMA, CRN_U_DIGAMMA, CRN_U_LOGICAL_NOT, CRN_U_IS_NAN, CRN_U_IS_INF,
  CRN_U_IS_FINITE, CRN_U_NAN_TO_NUM, CRN_N_UNARY
} crn_unary_kind;
crn_tensor *crn_unary(crn_run *r, crn_unary_kind kind, crn_tensor *x);
/* The same where nobody reads x any more: unless the run records, the result takes its place. */
crn_tensor *crn_unary_over(crn_run *r, crn_unary_kind kind, crn_tensor *x);
const char *crn_unary_name(crn_unary_kind kind);
bool crn_unary_from_name(const char *name, crn_unary_kind *out); /* tf's names: "tanh", "log_sigmoid", "silu", … */

typedef enum crn_binary_kind {
  CRN_B_ADD, CRN_B_SUB, CRN_B_MUL, CRN_B_DIV /* true division */, CRN_B_FLOORDIV, CRN_B_MOD /* floor mod */, CRN_B_POW,
  CRN_B_MAXIMUM, CRN_B_MINIMUM, CRN_B_SQUARED_DIFFERENCE, CRN_B_LOGADDEXP, CRN_B_ATAN2, CRN_B_DIV_NO_NAN,
  CRN_B_TRUNCATEDIV, CRN_B_EQUAL, CRN_B_NOT_EQUAL, CRN_B_LESS, CRN_B_LESS_EQUAL, CRN_B_GREATER,
  CRN_B_GREATER_EQUAL, /* comparisons give bool */
  CRN_B_LOGICAL_AND, CRN_B_LOGICAL_OR, CRN_B_LOGICAL_XOR, CRN_N_BINARY
} crn_binary_kind;
/* Both of one dtype (else an error that names both); broadcasts. */
crn_tensor *crn_binary(crn_run *r, crn_binary_kind kind, crn_tensor *a, crn_tensor *b);
const char *crn_binary_name(crn_binary_kind kind);
bool crn_binary_from_name(const char *name, crn_binary_kind *out); /* "add", "truediv", "floordiv", "logical_and", … */
static inline crn_tensor *crn_add(crn_run *r, crn_tensor *a, crn_tensor *b) { return crn_binary(r, CRN_B_ADD, a, b); }
static inline crn_tensor *crn_sub(crn_run *r, crn_tensor *a, crn_tensor *b) { return crn_binary(r, CRN_B_SUB, a, b); }
static inline crn_tensor *crn_mul(crn_run *r, crn_tensor *a, crn_tensor *b) { return crn_binary(r, CRN_B_MUL, a, b); }
static inline crn_tensor *crn_div(crn_run *r, crn_tensor *a, crn_tensor *b) { return crn_binary(r, CRN_B_DIV, a, b); }
crn_tensor *crn_scale(crn_run *r, crn_tensor *x, double factor); /* x*factor, any numeric dtype */
crn_tensor *crn_add_scalar(crn_run *r, crn_tensor *x, double value);
crn_tensor *crn_clip(crn_run *r, crn_tensor *x, double lo, double hi); /* gradient 0 outside */
crn_tensor *crn_safe_log(crn_run *r, crn_tensor *x, double eps);       /* log(max(x,eps)), gradient 1/max(x,eps) */
crn_tensor *crn_safe_exp(crn_run *r, crn_tensor *x, double eps); /* clipped to +-ln eps, gradient passes through */
/* float to int truncates; to bool: != 0; differentiable float-float */
crn_tensor *crn_cast(crn_run *r, crn_tensor *x, crn_dtype to);
crn_tensor *crn_where(crn_run *r, crn_tensor *cond, crn_tensor *a, crn_tensor *b); /* broadcasts all three */
/* y = x with entries where mask (bool, broadcast) is false replaced by value. */
crn_tensor *crn_mask_fill(crn_run *r, crn_tensor *x, crn_tensor *mask, double value);

/* x itself; its gradient g becomes scale * g + shift (NULL: none), scale and shift being scalars or of x's rank (sizes 1
 * broadcast). sum_axis >= 0: shift times the sum of |g| over that axis; clip_axis >= 0: the result is clipped to the largest
 * |g| over that axis. (ops_grad.c) */
crn_tensor *crn_scaled_grad(crn_run *r, crn_tensor *x, crn_tensor *scale, crn_tensor *shift, int sum_axis, int clip_axis);

/* ---- shape (ops_shape.c) ---- */
crn_tensor *crn_transpose(crn_run *r, crn_tensor *x, const int *perm); /* out axis i = in axis perm[i] */
/* The same in x's own memory, which x then has not any more, where the two leading axes change places and x is the whole
 * of a buffer from CRN_TAKE_BYTES on that is held once. NULL without failing: not possible. */
#define CRN_TAKE_BYTES ((size_t)1 << 18)
crn_tensor *crn_transpose_taking(crn_run *r, crn_tensor *x, const int *perm);
crn_tensor *crn_expand_dims(crn_run *r, crn_tensor *x, int axis);      /* view */
crn_tensor *crn_squeeze(crn_run *r, crn_tensor *x, int axis);          /* view; the axis has size 1 */
crn_tensor *crn_broadcast_to(crn_run *r, crn_tensor *x, int rank, const int64_t *shape);
crn_tensor *crn_repeat0(crn_run *r, crn_tensor *x, int64_t n); /* [B,…] -> [B*n,…], each entry n times in a row */
crn_tensor *crn_tile(crn_run *r, crn_tensor *x, const int64_t *multiples);
crn_tensor *crn_concat(crn_run *r, int n, crn_tensor *const *x, int axis);
crn_tensor *crn_stack(crn_run *r, int n, crn_tensor *const *x, int axis);
crn_tensor *crn_slice(crn_run *r, crn_tensor *x, int axis, int64_t begin, int64_t n, int64_t stride);
/* mode: constant, reflect, symmetric, replication */
crn_tensor *crn_pad(crn_run *r, crn_tensor *x, int axis, int64_t before, int64_t after, const char *mode, double value);
crn_tensor *crn_reverse(crn_run *r, crn_tensor *x, int axis);
/* Reverse the first lens[b] entries of axis t for each entry of axis b; the rest stays in place. lens int32. */
crn_tensor *crn_reverse_sequence(crn_run *r, crn_tensor *x, crn_tensor *lens, int t_axis, int b_axis);
crn_tensor *crn_range(crn_run *r, crn_dtype dtype, int64_t begin, int64_t n);
crn_tensor *crn_one_hot(crn_run *r, crn_tensor *idx, int64_t depth, crn_dtype dtype, double on, double off);
crn_tensor *crn_cumsum(crn_run *r, crn_tensor *x, int axis, bool exclusive, bool reverse);

/* ---- picking and placing (ops_gather.c) ---- */
/* y[..., idx, ...] along axis: shape x[:axis] + idx.shape + x[axis+1:]. Index out of range: error with value and limit. */
crn_tensor *crn_gather(crn_run *r, crn_tensor *x, crn_tensor *idx, int axis);
/* The first n_batch axes of x and idx agree; gathers axis n_batch of x: batch + idx rest + x rest. */
crn_tensor *crn_gather_batched(crn_run *r, crn_tensor *x, crn_tensor *idx, int n_batch);
/* tf.gather_nd / tf.scatter_nd (adds). idx [..., K]. */
crn_tensor *crn_gather_nd(crn_run *r, crn_tensor *x, crn_tensor *idx);
crn_tensor *crn_scatter_nd(crn_run *r, crn_tensor *idx, crn_tensor *updates, int rank, const int64_t *shape);
/* Sequences packed without padding and back: x [B,T,…], lens [B] -> [sum lens, …] in order b, t; and the inverse. */
crn_tensor *crn_pack_frames(crn_run *r, crn_tensor *x, crn_tensor *lens);
crn_tensor *crn_unpack_frames(crn_run *r, crn_tensor *x, crn_tensor *lens, int64_t T); /* padding 0 */
/* Frames where mask [B,T] is true, packed left per sequence: x [B,T,…] -> [B,T',…] (padding 0), and new lens [B]. */
crn_tensor *crn_mask_select(crn_run *r, crn_tensor *x, crn_tensor *mask, crn_tensor **new_lens);
/* k largest along the last axis, falling, ties to the lower index. indices int32. */
crn_tensor *crn_top_k(crn_run *r, crn_tensor *x, int64_t k, crn_tensor **indices);
crn_tensor *crn_argmax(crn_run *r, crn_tensor *x, int axis, crn_dtype dtype); /* no gradient; first of equals */
crn_tensor *crn_argmin(crn_run *r, crn_tensor *x, int axis, crn_dtype dtype);
crn_tensor *crn_argsort(crn_run *r, crn_tensor *x, int axis, bool descending);

/* ---- reductions (ops_reduce.c) ---- */
typedef enum crn_reduce_kind {
  CRN_R_SUM, CRN_R_MEAN, CRN_R_MAX, CRN_R_MIN, CRN_R_PROD, CRN_R_LOGSUMEXP, CRN_R_ANY, CRN_R_ALL
} crn_reduce_kind;
/* axes: bit set. Empty reductions: 0, nan, -inf, inf, 1, -inf, false, true. max/min share the gradient among equals as
 * TensorFlow does (equal parts). */
crn_tensor *crn_reduce(crn_run *r, crn_reduce_kind kind, crn_tensor *x, unsigned axes, bool keep_dims);
static inline crn_tensor *crn_reduce_all(crn_run *r, crn_reduce_kind k, crn_tensor *x) {
  return x ? crn_reduce(r, k, x, (1u << x->rank) - 1u, false) : NULL;
}

/* ---- products (ops_matmul.c) ---- */
/* x [..., K] times w [K, N] -> [..., N], plus bias [N] if not NULL; trans_w: w is [N, K]. w's packed form is cached while
 * it is a parameter; its gradient is gathered and computed as one product. */
crn_tensor *crn_linear(crn_run *r, crn_tensor *x, crn_tensor *w, bool trans_w, crn_tensor *bias);
/* Batched: a [n…, M, K] (trans_a: [n…, K, M]), b [n…, K, N] (trans_b: [n…, N, K]); leading axes broadcast. */
crn_tensor *crn_matmul(crn_run *r, crn_tensor *a, bool trans_a, crn_tensor *b, bool trans_b);
/* The parameter's values changed: packed forms are stale. */
void crn_weight_changed(crn_storage *st);
/* For readers and writers outside of runs: make the plain form (st->data) be there, until the next run. */
crn_status crn_weight_unpack(crn_storage *st, crn_err *err);
void crn_weight_free(crn_storage *st);

/* ---- normalising (ops_softmax.c, ops_norm.c), over the last axis ---- */
crn_tensor *crn_softmax(crn_run *r, crn_tensor *x);
crn_tensor *crn_log_softmax(crn_run *r, crn_tensor *x);
/* The same written over x, which nobody reads afterwards, unless the run records or x is not the run's own. */
crn_tensor *crn_softmax_over(crn_run *r, crn_tensor *x, bool log);
/* (x-mean)/sqrt(var+eps)*scale+bias over the last axis; scale, bias [F] or NULL. */
crn_tensor *crn_layer_norm(crn_run *r, crn_tensor *x, crn_tensor *scale, crn_tensor *bias, double eps);

/* ---- convolution and pooling (ops_conv.c), channels last ---- */
typedef struct crn_conv_spec { /* per spatial axis, up to 3 */
  int n_spatial;
  int64_t stride[3], dilation[3], pad_before[3], pad_after[3];
  int64_t window[3]; /* pool only */
  int64_t groups;
} crn_conv_spec;
/* x [B, s…, C], w [k…, C/groups, O] -> [B, s'…, O], s' = max(0, floor((s+pads-(k-1)*dilation-1)/stride)+1). */
crn_tensor *crn_conv(crn_run *r, crn_tensor *x, crn_tensor *w, const crn_conv_spec *spec);
/* Transposed: y [B, t…, O] -> [B, s…, C] with sizes out_spatial: the derivative of crn_conv with respect to x. */
crn_tensor *crn_conv_transposed(crn_run *r, crn_tensor *y, crn_tensor *w, const crn_conv_spec *spec,
                                const int64_t *out_spatial);
/* max (padding -inf) or avg (over positions inside the array). */
crn_tensor *crn_pool(crn_run *r, crn_tensor *x, bool max, const crn_conv_spec *spec);

/* Spectra of x [B, T, C] real: [B, n_frames, C * (fft_size/2 + 1)] complex64, channels slowest. window: frame_size factors;
 * frames are padded with zeros to fft_size. (ops_stft.c) */
crn_tensor *crn_stft(crn_run *r, crn_tensor *x, const double *window, int64_t frame_size, int64_t fft_size, int64_t shift,
                     int64_t n_frames);

/* Complex numbers [...] as real [..., 2] (real and imaginary part) and back (ops_complex.c). */
crn_tensor *crn_complex_parts(crn_run *r, crn_tensor *x);
crn_tensor *crn_complex_of(crn_run *r, crn_tensor *x);

/* ---- recurrent cells (ops_rnn.c) ---- */
/* A whole LSTM pass. z [T,B,4n]: x·W + b of all frames; w_re [n,4n]; lens [B] int32 (NULL: all T); h0, c0 [B,n] or NULL
 * (zeros). order: "jifo" (native) or "ijfo" (TensorFlow's); forget_bias is added to f. reverse: from each sequence's last
 * valid frame to its first. Outputs y [T,B,n] (0 in padding), and last h, c [B,n] through pointers (may be NULL).
 * Sequences are processed sorted by length, finished ones drop out. */
crn_tensor *crn_lstm(crn_run *r, crn_tensor *z, crn_tensor *w_re, crn_tensor *lens, crn_tensor *h0, crn_tensor *c0,
                     const char *order, double forget_bias, bool reverse, crn_tensor **h_last, crn_tensor **c_last);
/* The same with the input product inside: x, n_x <= 4 tensors [T,B,K_i] read as one side by side, w [sum K_i, 4n], bias
 * [4n] or NULL. Computes nothing for padding, uses less memory and is faster than crn_linear + crn_lstm. */
crn_tensor *crn_lstm_layer(crn_run *r, int n_x, crn_tensor *const *x, crn_tensor *w, crn_tensor *bias,
                           crn_tensor *w_re, crn_tensor *lens, crn_tensor *h0, crn_tensor *c0, const char *order,
                           double forget_bias, bool reverse, crn_tensor **h_last, crn_tensor **c_last);
/* One step's gates: z [B,4n] complete pre-activations, c [B,n] -> h [B,n], new c through c_out. */
crn_tensor *crn_lstm_cell(crn_run *r, crn_tensor *z, crn_tensor *c, const char *order, double forget_bias,
                          crn_tensor **c_out);

/* ---- attention ---- */
/* e[b,t] = sum_k v[k] tanh(ctx[b,t,k] + q[b,k]); fused. q may have a beam of rows per sequence: [B*beam,K] gives
 * [B*beam,T], row r with ctx of sequence r / beam. */
crn_tensor *crn_additive_energy(crn_run *r, crn_tensor *ctx, crn_tensor *q, crn_tensor *v);
/* The same with extra of q's rows under the tanh: [B*beam,T,K], or [T,B*beam,K] if time_major, and one frame may stand
 * for all; NULL: none. */
crn_tensor *crn_additive_energy_with(crn_run *r, crn_tensor *ctx, crn_tensor *extra, bool time_major, crn_tensor *q,
                                     crn_tensor *v);

/* ---- losses and sequence measures (ops_loss.c, ops_ctc.c) ---- */
/* -log softmax(x)[target] per row: x [N,V], target [N] int32 -> [N]. Out-of-range target: error with row, value, V. */
crn_tensor *crn_sparse_ce_logits(crn_run *r, crn_tensor *x, crn_tensor *target);
/* CTC negative log likelihood per sequence: log_probs [T,B,V] (as given, nothing is normalised; gradient is minus the
 * soft alignment), lens [B], labels [B,S], label_lens [B] (int32). label_loop false: each label emits one frame.
 * viterbi: best path instead of the sum. -> [B]; +inf (gradient 0) if there is no path. */
crn_tensor *crn_ctc(crn_run *r, crn_tensor *log_probs, crn_tensor *lens, crn_tensor *labels, crn_tensor *label_lens,
                    int64_t blank, bool label_loop, bool viterbi);
/* The alignment itself, no gradient: share of each label in each frame [T,B,V] (viterbi: 1 on the best path), 0 in padding
 * and where there is no path. loss [B] as crn_ctc's, may be NULL. */
crn_tensor *crn_ctc_alignment(crn_run *r, crn_tensor *log_probs, crn_tensor *lens, crn_tensor *labels,
                              crn_tensor *label_lens, int64_t blank, bool label_loop, bool viterbi, crn_tensor **loss);
/* Levenshtein distance [B,Ta],[B,Tb] -> [B] int32 */
crn_tensor *crn_edit_distance(crn_run *r, crn_tensor *a, crn_tensor *a_lens, crn_tensor *b, crn_tensor *b_lens);

/* ---- gradients as values (ops_gradient.c) ---- */
/* d sum(y) / d x, of x's shape: while the run records, from what was recorded since x; x must be marked needs_grad before
 * anything is computed from it. Its own derivative is an error. Fails if y doesn't depend on x. */
crn_tensor *crn_gradient(crn_run *r, crn_tensor *y, crn_tensor *x);

/* ---- random (ops_random.c): streams keyed by (run->seed, run->step, name) ---- */
crn_tensor *crn_random_uniform(crn_run *r, const char *name, crn_dtype dtype, int rank, const int64_t *shape, double lo,
                               double hi);
crn_tensor *crn_random_normal(crn_run *r, const char *name, int rank, const int64_t *shape, double mean, double stddev);
/* x·m/(1-p), m Bernoulli(1-p) of shape noise_shape (x's rank, sizes 1 broadcast). */
crn_tensor *crn_dropout(crn_run *r, const char *name, crn_tensor *x, double p, const int64_t *noise_shape);

#endif
