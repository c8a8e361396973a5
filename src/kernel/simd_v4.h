/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of 16 floats for x86-64-v4 (AVX-512), under the names that the fast_*.inc.h files are written with.
 */
#ifndef CRN_KERNEL_SIMD_V4_H
#define CRN_KERNEL_SIMD_V4_H

#include <immintrin.h>
#include <stdint.h>

#define V_WIDTH 16
#define FAST_TABLE crn_kernels_v4
#define FAST_NAME "v4"

typedef __m512 V;        /* floats */
typedef __m512i VI;      /* int32 lanes */
typedef __mmask16 VB;    /* result of a comparison */
typedef __m512d VD;      /* V_WIDTH / 2 doubles */
typedef __mmask16 VMASK; /* which lanes a partial load or store touches */

static inline VMASK v_mask(int64_t n) { /* first n lanes; n clipped to [0, V_WIDTH] */
  return n >= 16 ? (VMASK)0xffff : n <= 0 ? (VMASK)0 : (VMASK)((1u << n) - 1);
}
static inline V v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline V v_load_mask(const float *p, VMASK m) { return _mm512_maskz_loadu_ps(m, p); } /* other lanes 0 */
static inline V v_load_else(const float *p, VMASK m, V other) { return _mm512_mask_loadu_ps(other, m, p); }
static inline void v_store(float *p, V x) { _mm512_storeu_ps(p, x); }
static inline void v_store_mask(float *p, V x, VMASK m) { _mm512_mask_storeu_ps(p, m, x); }
static inline V v_set(float x) { return _mm512_set1_ps(x); }
static inline V v_add(V a, V b) { return _mm512_add_ps(a, b); }
static inline V v_sub(V a, V b) { return _mm512_sub_ps(a, b); }
static inline V v_mul(V a, V b) { return _mm512_mul_ps(a, b); }
static inline V v_div(V a, V b) { return _mm512_div_ps(a, b); }
static inline V v_sqrt(V a) { return _mm512_sqrt_ps(a); }
static inline V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }   /* a·b + c */
static inline V v_fnma(V a, V b, V c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a·b */
static inline V v_max(V a, V b) { return _mm512_max_ps(a, b); }             /* b when either is NaN */
static inline V v_min(V a, V b) { return _mm512_min_ps(a, b); }
static inline V v_and(V a, V b) { return _mm512_and_ps(a, b); }
static inline V v_or(V a, V b) { return _mm512_or_ps(a, b); }
static inline V v_xor(V a, V b) { return _mm512_xor_ps(a, b); }
static inline V v_round(V x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline VB v_lt(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline VB v_eq(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline VB v_nan(V a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
static inline V v_select(VB c, V yes, V no) { return _mm512_mask_blend_ps(c, no, yes); }
static inline VI v_bits(V x) { return _mm512_castps_si512(x); }
static inline V v_from_bits(VI x) { return _mm512_castsi512_ps(x); }
static inline VI vi_set(int32_t x) { return _mm512_set1_epi32(x); }
static inline VI vi_add(VI a, VI b) { return _mm512_add_epi32(a, b); }
static inline VI vi_sub(VI a, VI b) { return _mm512_sub_epi32(a, b); }
static inline VI vi_and(VI a, VI b) { return _mm512_and_si512(a, b); }
static inline VI vi_left(VI a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
static inline VI vi_right(VI a, int n) { return _mm512_srai_epi32(a, (unsigned)n); } /* keeps the sign */
static inline VI v_to_int(V x) { return _mm512_cvtps_epi32(x); }                     /* to nearest */
static inline V v_from_int(VI x) { return _mm512_cvtepi32_ps(x); }
static inline VD v_low(V x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
static inline VD v_high(V x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
static inline V v_join(VD low, VD high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
static inline VD vd_set(double x) { return _mm512_set1_pd(x); }
static inline VD vd_add(VD a, VD b) { return _mm512_add_pd(a, b); }
static inline VD vd_fma(VD a, VD b, VD c) { return _mm512_fmadd_pd(a, b, c); }
static inline double vd_sum(VD x) {
  __m256d s = _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1));
  __m128d t = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
  return _mm_cvtsd_f64(t) + _mm_cvtsd_f64(_mm_unpackhi_pd(t, t));
}
static inline float v_largest(V x) { return _mm512_reduce_max_ps(x); } /* without NaN */
static inline float v_least(V x) { return _mm512_reduce_min_ps(x); }
static inline int v_any(VB c) { return c != 0; }
/* p·2^n for n whole and |n| < 254; rounds once where the result is denormal */
static inline V v_scale(V p, V n) { return _mm512_scalef_ps(p, n); }
/* 1/b for b of ordinary size, within an ulp */
static inline V v_reciprocal(V b) {
  V y = _mm512_rcp14_ps(b);
  return _mm512_fmadd_ps(y, _mm512_fnmadd_ps(b, y, _mm512_set1_ps(1)), y);
}
/* a/b for b of ordinary size, nearly always rounded right: the divider is slow, two Newton steps aren't */
static inline V v_quotient(V a, V b) {
  V y = v_reciprocal(b), q = _mm512_mul_ps(a, y);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(q, b, a), y, q);
}

#endif
