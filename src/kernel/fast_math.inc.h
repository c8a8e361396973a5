/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, log, tanh, sigmoid, softplus and erf on vectors. Polynomials are minimax fits (tools/fit_polynomials.py prints
 * them); errors are measured in tests/test_kernel_vector.c. Infinities, NaN and denormal results come out right.
 */

#define LN2_HIGH 0x1.62e430p-1f /* ln 2 = high + low; exact enough because the products are fused */
#define LN2_LOW -0x1.05c610p-29f
#define LOG2_E 0x1.715476p+0f

static inline V v_abs(V x) { return v_from_bits(vi_and(v_bits(x), vi_set(0x7fffffff))); }
static inline V v_sign(V x) { return v_and(x, v_set(-0.0f)); }
static inline V v_neg(V x) { return v_xor(x, v_set(-0.0f)); }

/* exp(r) - 1 = r + r²·q(r) for |r| <= ln2/2 */
static inline V v_expm1_small(V r) {
  V q = v_set(0x1.6d9a86p-10f);
  q = v_fma(q, r, v_set(0x1.12290ep-7f));
  q = v_fma(q, r, v_set(0x1.555486p-5f));
  q = v_fma(q, r, v_set(0x1.5554aep-3f));
  q = v_fma(q, r, v_set(0.5f));
  return v_fma(v_mul(r, r), q, r);
}

/* Adding this rounds to a whole number, which then stands in the low bits. */
#define ROUNDER 0x1.8p23f

/* x = n·ln2 + r for |x| < 2^20 */
static inline V v_reduce(V x, V *n) {
  *n = v_sub(v_fma(x, v_set(LOG2_E), v_set(ROUNDER)), v_set(ROUNDER));
  return v_fnma(*n, v_set(LN2_LOW), v_fnma(*n, v_set(LN2_HIGH), x));
}

static inline V v_exp(V x) {
  V n, c = v_min(v_set(89), v_max(v_set(-104.5f), x)); /* NaN passes both */
  V r = v_reduce(c, &n);
  return v_scale(v_add(v_expm1_small(r), v_set(1)), n);
}

/* log(1 + f) + e·ln2 for sqrt(1/2) <= 1 + f <= sqrt(2): f - f²/2 + f³·p(f) + e·ln2 */
static inline V v_log_poly(V f, V e) {
  V p = v_set(-0x1.41ee12p-4f);
  p = v_fma(p, f, v_set(0x1.07d0f2p-3f));
  p = v_fma(p, f, v_set(-0x1.0ce07ap-3f));
  p = v_fma(p, f, v_set(0x1.226e4ap-3f));
  p = v_fma(p, f, v_set(-0x1.54788ap-3f));
  p = v_fma(p, f, v_set(0x1.99a596p-3f));
  p = v_fma(p, f, v_set(-0x1.000220p-2f));
  p = v_fma(p, f, v_set(0x1.55554ap-2f));
  V f2 = v_mul(f, f), y = v_mul(v_mul(f2, f), p);
  y = v_fma(e, v_set(LN2_LOW), y);
  y = v_fnma(f2, v_set(0.5f), y);
  return v_fma(e, v_set(LN2_HIGH), v_add(f, y));
}

static inline V v_log(V x) {
  VB tiny = v_lt(x, v_set(0x1p-126f));
  V big = v_select(tiny, v_mul(x, v_set(0x1p23f)), x);
  VI sqrt_half = vi_set(0x3f3504f3), t = vi_sub(v_bits(big), sqrt_half);
  V e = v_sub(v_from_int(vi_right(t, 23)), v_select(tiny, v_set(23), v_set(0)));
  V f = v_sub(v_from_bits(vi_add(vi_and(t, vi_set(0x7fffff)), sqrt_half)), v_set(1));
  V y = v_log_poly(f, e);
  y = v_select(v_eq(x, v_set(INFINITY)), x, y);
  y = v_select(v_eq(x, v_set(0)), v_set(-INFINITY), y);
  y = v_select(v_lt(x, v_set(0)), v_set(NAN), y);
  return v_select(v_nan(x), x, y);
}

/* u = (exp(2|x|) - 1)/2, tanh|x| = u/(u + 1); beyond 10 it is 1. With 2|x| = n·ln2 + 2r and p = (exp(2r) - 1)/2 =
 * r + 2r²·q(2r), whose coefficients are those of q times powers of two, u = 2^n·p + (2^n - 1)/2. */
static inline V v_tanh(V x) {
  V a = v_min(v_set(10), v_abs(x)), shifted = v_fma(a, v_set(2 * LOG2_E), v_set(ROUNDER));
  V n = v_sub(shifted, v_set(ROUNDER));
  V r = v_fnma(n, v_set(0.5f * LN2_LOW), v_fnma(n, v_set(0.5f * LN2_HIGH), a));
  V p = v_set(32 * 0x1.6d9a86p-10f);
  p = v_fma(p, r, v_set(16 * 0x1.12290ep-7f));
  p = v_fma(p, r, v_set(8 * 0x1.555486p-5f));
  p = v_fma(p, r, v_set(4 * 0x1.5554aep-3f));
  p = v_fma(p, r, v_set(1));
  p = v_fma(v_mul(r, r), p, r);
  V two_n = v_from_bits(vi_add(vi_left(v_bits(shifted), 23), vi_set(127 << 23)));
  V u = v_fma(two_n, p, v_fma(two_n, v_set(0.5f), v_set(-0.5f)));
  return v_or(v_quotient(u, v_add(u, v_set(1))), v_sign(x));
}

/* e = exp(-|x|): 1/(1 + e) for x >= 0, e/(1 + e) below */
static inline V v_sigmoid(V x) {
  V e = v_exp(v_or(x, v_set(-0.0f)));
  return v_quotient(v_select(v_lt(x, v_set(0)), e, v_set(1)), v_add(v_set(1), e));
}

/* max(x,0) + log(1 + e), e = exp(-|x|); 1 + e is halved where it exceeds sqrt(2) */
static inline V v_softplus(V x) {
  V e = v_exp(v_or(x, v_set(-0.0f)));
  VB large = v_lt(v_set(0x1.a8279ap-2f), e);
  V f = v_select(large, v_fma(e, v_set(0.5f), v_set(-0.5f)), e);
  return v_add(v_max(v_set(0), x), v_log_poly(f, v_select(large, v_set(1), v_set(0))));
}

/* |x| < 1: x·s(x²); above: 1 - exp(-t(|x|)), which is 1 beyond 4 */
static inline V v_erf(V x) {
  V a = v_min(v_set(4), v_abs(x)), u = v_mul(a, a);
  V s = v_set(0x1.4ae4ccp-14f);
  s = v_fma(s, u, v_set(-0x1.a485eap-11f));
  s = v_fma(s, u, v_set(0x1.5419f4p-8f));
  s = v_fma(s, u, v_set(-0x1.b7fbb4p-6f));
  s = v_fma(s, u, v_set(0x1.ce2d20p-4f));
  s = v_fma(s, u, v_set(-0x1.81273ep-2f));
  s = v_fma(s, u, v_set(0x1.20dd74p+0f));
  V t = v_set(0x1.6bd7dap-16f);
  t = v_fma(t, a, v_set(-0x1.cec5fap-12f));
  t = v_fma(t, a, v_set(0x1.138cbap-8f));
  t = v_fma(t, a, v_set(-0x1.9d0302p-6f));
  t = v_fma(t, a, v_set(0x1.bc1516p-4f));
  t = v_fma(t, a, v_set(0x1.443566p-1f));
  t = v_fma(t, a, v_set(0x1.212c0cp+0f));
  t = v_fma(t, a, v_set(-0x1.8a5734p-13f));
  V big = v_sub(v_set(1), v_exp(v_neg(t)));
  return v_or(v_select(v_lt(a, v_set(1)), v_mul(a, s), big), v_sign(x));
}
