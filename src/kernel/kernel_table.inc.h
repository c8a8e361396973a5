/* SPDX-License-Identifier: Apache-2.0
 *
 * Argument structs and the table of kernels for one number type: CRN_REAL is float or double, CRN_K(name) adds the
 * suffix. Included twice by kernel/kernel.h; no include guard on purpose.
 *
 * Conventions: n counts elements, ld* are row strides in elements, outputs may be the same array as an input of the
 * same place where the comment says "in place"; element-wise functions always may. Gradient kernels add to their
 * outputs (d_x += …) unless the comment says "writes".
 */

/* C[M,N] = start + op(A)·op(B); start = (accumulate ? C : 0) + (bias ? bias[N] : 0).
 * trans_a: A is stored [K,M]; trans_b: B is stored [N,K]. C overlaps neither A nor B. */
typedef struct CRN_K(crn_matmul_args) {
  int64_t M, N, K;
  const CRN_REAL *A;
  int64_t lda;
  const CRN_REAL *B; /* not read by matmul_packed */
  int64_t ldb;
  CRN_REAL *C;
  int64_t ldc;
  const CRN_REAL *bias; /* [N] or NULL */
  bool trans_a, trans_b;
  bool accumulate;
} CRN_K(crn_matmul_args);

/* LSTM cell on rows; see lstm_forward and lstm_backward. */
typedef struct CRN_K(crn_lstm_args) {
  int64_t rows, n;
  crn_lstm_layout layout;
  CRN_REAL forget_bias; /* added to the forget gate's pre-activation */
  const CRN_REAL *z;    /* forward: [rows, 4n] pre-activations */
  int64_t ldz;
  const CRN_REAL *c_prev; /* [rows, n]; NULL = zeros */
  int64_t ldc_prev;
  CRN_REAL *gates; /* [rows, 4n] activations in z's layout: written by forward (may be z), read by backward */
  int64_t ldgates;
  CRN_REAL *c; /* [rows, n] written by forward (may be c_prev when no backward follows), read by backward */
  int64_t ldc;
  CRN_REAL *h; /* [rows, n] written by forward; backward doesn't read it */
  int64_t ldh;
  /* backward only */
  const CRN_REAL *dh; /* [rows, n]; NULL = zeros */
  int64_t lddh;
  const CRN_REAL *dc; /* [rows, n] gradient that reaches c from the next step; NULL = zeros */
  int64_t lddc;
  CRN_REAL *dz; /* [rows, 4n] written; may be gates */
  int64_t lddz;
  CRN_REAL *dc_prev; /* [rows, n] written, may be dc; NULL = not wanted */
  int64_t lddc_prev;
} CRN_K(crn_lstm_args);

/* Additive attention energies: e[r,t] = Σ_k v[k]·tanh(ctx[r/beam,t,k] + q[r,k] + extra[r,t,k]), r in [0, B·beam). */
typedef struct CRN_K(crn_attention_args) {
  int64_t B;    /* sequences in ctx */
  int64_t beam; /* rows of q per sequence, >= 1 */
  int64_t T, K;
  const CRN_REAL *ctx; /* element (b,t,k) at b·ctx_stride_b + t·ctx_stride_t + k */
  int64_t ctx_stride_b, ctx_stride_t;
  const CRN_REAL *q; /* [B·beam, K], row stride ldq */
  int64_t ldq;
  const CRN_REAL *extra; /* as ctx but of B·beam sequences (weight feedback); NULL = none */
  int64_t extra_stride_b, extra_stride_t;
  const CRN_REAL *v;      /* [K] */
  const int32_t *lengths; /* [B], frames of each sequence, clipped to [0, T]; NULL = T. Frames beyond aren't touched */
  CRN_REAL *e;            /* [B·beam, T] energies at r·e_stride_r + t·e_stride_t: written by forward */
  int64_t e_stride_r, e_stride_t;
  CRN_REAL *work; /* forward without extra: [B·beam, K + 1] of any contents, or NULL, which is slower */
  /* backward only; each of the outputs is added to, NULL = not wanted */
  const CRN_REAL *de; /* in e's layout */
  CRN_REAL *dctx;     /* in ctx's layout */
  CRN_REAL *dq;       /* in q's layout */
  CRN_REAL *dextra;   /* in extra's layout */
  CRN_REAL *dv;       /* [K] */
} CRN_K(crn_attention_args);

typedef void (*CRN_K(crn_unary_fn))(int64_t n, const CRN_REAL *x, CRN_REAL *y);
typedef void (*CRN_K(crn_binary_fn))(int64_t n, const CRN_REAL *a, const CRN_REAL *b, CRN_REAL *y);
/* saved is what the comment of the function says, x or y of the forward function */
typedef void (*CRN_K(crn_unary_backward_fn))(int64_t n, const CRN_REAL *saved, const CRN_REAL *dy, CRN_REAL *dx);

typedef struct CRN_K(crn_kernels) {
  const char *name; /* "reference", "v3", "v4" */

  /* Matrix products; t may be NULL */
  void (*matmul)(const CRN_K(crn_matmul_args) * m, crn_threads *t);
  void (*matmul_batched)(const CRN_K(crn_matmul_args) * m, const crn_matmul_batch *batch, crn_threads *t);
  size_t (*packed_b_bytes)(int64_t K, int64_t N);
  /* Fill out (K, N and data, bytes set by the caller, see packed_b_bytes) from B [K,N], or from [N,K] if trans_b. */
  void (*pack_b)(crn_packed_b *out, bool trans_b, const CRN_REAL *B, int64_t ldb, crn_threads *t);
  /* The other way: B [K,N], or [N,K] if trans_b. */
  void (*unpack_b)(const crn_packed_b *in, bool trans_b, CRN_REAL *B, int64_t ldb);
  void (*matmul_packed)(const CRN_K(crn_matmul_args) * m, const crn_packed_b *b, crn_threads *t);

  /* y[i] = f(x[i]); inf and NaN as libm does. Errors are bounded in tests/test_kernel_vector.c. */
  CRN_K(crn_unary_fn) exp, log, tanh, sigmoid, softplus, erf;
  CRN_K(crn_unary_fn) expm1, log1p, sin, cos; /* libm in every table */
  CRN_K(crn_unary_fn) sqrt, rsqrt, recip, square, neg, abs, relu;
  /* dx += dy · f'(x) */
  CRN_K(crn_unary_backward_fn) tanh_backward, sigmoid_backward, relu_backward; /* saved: y */

  CRN_K(crn_binary_fn) add, sub, mul, div, max, min;
  void (*scale)(int64_t n, CRN_REAL a, const CRN_REAL *x, CRN_REAL *y);      /* y = a·x */
  void (*add_scalar)(int64_t n, CRN_REAL a, const CRN_REAL *x, CRN_REAL *y); /* y = a + x */
  void (*axpy)(int64_t n, CRN_REAL a, const CRN_REAL *x, CRN_REAL *y);       /* y += a·x */
  CRN_K(crn_binary_fn) mul_add;                                              /* y += a·b */

  /* Reductions. sum and dot add in double, so their order matters little; it depends on n only. */
  double (*sum)(int64_t n, const CRN_REAL *x);
  double (*dot)(int64_t n, const CRN_REAL *a, const CRN_REAL *b);
  /* Of n rows of d elements that lie apart, row t at x[t] + at: e[t] = Σ_k q[k]·row[k], and y[k] = Σ_t w[t]·row[k]. Sums
   * run in float; their order depends on d, and on n for y, only. */
  void (*dot_each)(int64_t n, int64_t d, const CRN_REAL *q, const CRN_REAL *const *x, int64_t at, CRN_REAL *e);
  void (*weighted_sum)(int64_t n, int64_t d, const CRN_REAL *w, const CRN_REAL *const *x, int64_t at, CRN_REAL *y);
  CRN_REAL (*reduce_max)(int64_t n, const CRN_REAL *x); /* -inf when n = 0; NaN elements are passed over */
  CRN_REAL (*reduce_min)(int64_t n, const CRN_REAL *x); /* +inf when n = 0 */
  int64_t (*argmax)(int64_t n, const CRN_REAL *x);      /* first of the largest; 0 when all are NaN or n = 0 */
  /* y[j] (+)= Σ_r x[r,j], in double in order of r */
  void (*column_sum)(int64_t rows, int64_t n, const CRN_REAL *x, int64_t ldx, CRN_REAL *y, bool accumulate);
  /* y[j] (+)= Σ_r a[r,j]·b[r,j], in double in order of r */
  void (*column_dot)(int64_t rows, int64_t n, const CRN_REAL *a, int64_t lda, const CRN_REAL *b, int64_t ldb,
                     CRN_REAL *y, bool accumulate);

  /* Rows [rows, n]; lengths [rows] says how many leading elements of each row count (NULL = n). In place allowed. */
  /* y = exp(x - max) / Σ exp(x - max); 0 beyond the length. A row of only -inf gives NaN, as the formula says. */
  void (*softmax)(int64_t rows, int64_t n, const CRN_REAL *x, int64_t ldx, const int32_t *lengths, CRN_REAL *y,
                  int64_t ldy);
  /* y = x - log Σ exp(x); -inf beyond the length */
  void (*log_softmax)(int64_t rows, int64_t n, const CRN_REAL *x, int64_t ldx, const int32_t *lengths, CRN_REAL *y,
                      int64_t ldy);
  /* dx += y·(dy - Σ y·dy) and dx += dy - exp(y)·Σ dy, inside the length */
  void (*softmax_backward)(int64_t rows, int64_t n, const CRN_REAL *y, int64_t ldy, const CRN_REAL *dy, int64_t lddy,
                           const int32_t *lengths, CRN_REAL *dx, int64_t lddx);
  void (*log_softmax_backward)(int64_t rows, int64_t n, const CRN_REAL *y, int64_t ldy, const CRN_REAL *dy,
                               int64_t lddy, const int32_t *lengths, CRN_REAL *dx, int64_t lddx);
  /* y = (x - mean)·rstd·scale + bias over each row, rstd = 1/sqrt(variance + eps), variance with divisor n. scale, bias
   * [n] or NULL; mean, rstd [rows] are written (NULL = not wanted). In place allowed. */
  void (*layer_norm)(int64_t rows, int64_t n, const CRN_REAL *x, int64_t ldx, const CRN_REAL *scale,
                     const CRN_REAL *bias, CRN_REAL eps, CRN_REAL *y, int64_t ldy, CRN_REAL *mean, CRN_REAL *rstd);
  /* dx += rstd·(g - mean(g) - x̂·mean(g·x̂)), g = dy·scale, x̂ = (x - mean)·rstd */
  void (*layer_norm_backward)(int64_t rows, int64_t n, const CRN_REAL *x, int64_t ldx, const CRN_REAL *scale,
                              const CRN_REAL *mean, const CRN_REAL *rstd, const CRN_REAL *dy, int64_t lddy,
                              CRN_REAL *dx, int64_t lddx);
  /* dscale[j] += Σ_r dy·x̂ (for dbias use column_sum of dy) */
  void (*layer_norm_backward_scale)(int64_t rows, int64_t n, const CRN_REAL *x, int64_t ldx, const CRN_REAL *mean,
                                    const CRN_REAL *rstd, const CRN_REAL *dy, int64_t lddy, CRN_REAL *dscale);
  /* y = f(x + bias), f one of the unary functions of a table or NULL = identity; bias [n] or NULL. In place allowed. */
  void (*bias_act)(int64_t rows, int64_t n, const CRN_REAL *x, int64_t ldx, const CRN_REAL *bias, CRN_K(crn_unary_fn) f,
                   CRN_REAL *y, int64_t ldy);

  /* j = tanh(z_j), i,o = σ(z_i), σ(z_o), f = σ(z_f + forget_bias); c = c_prev·f + j·i; h = tanh(c)·o */
  void (*lstm_forward)(const CRN_K(crn_lstm_args) * a);
  /* Writes dz and dc_prev from gates, c_prev, c, dh, dc. */
  void (*lstm_backward)(const CRN_K(crn_lstm_args) * a);

  void (*attention_forward)(const CRN_K(crn_attention_args) * a, crn_threads *t);
  void (*attention_backward)(const CRN_K(crn_attention_args) * a, crn_threads *t);
} CRN_K(crn_kernels);
