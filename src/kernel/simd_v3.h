/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of 8 floats for x86-64-v3 (AVX2 + FMA), under the names that the fast_*.inc.h files are written with.
 */
#ifndef CRN_KERNEL_SIMD_V3_H
#define CRN_KERNEL_SIMD_V3_H

#include <immintrin.h>
#include <stdint.h>

#define V_WIDTH 8
#define FAST_TABLE crn_kernels_v3
#define FAST_NAME "v3"

typedef __m256 V;      /* floats */
typedef __m256i VI;    /* int32 lanes */
typedef __m256 VB;     /* result of a comparison, all bits or none per lane */
typedef __m256d VD;    /* V_WIDTH / 2 doubles */
typedef __m256i VMASK; /* which lanes a partial load or store touches */

static inline VMASK v_mask(int64_t n) { /* first n lanes; n clipped to [0, V_WIDTH] */
  int count = n < 0 ? 0 : n > 8 ? 8 : (int)n;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline V v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline V v_load_mask(const float *p, VMASK m) { return _mm256_maskload_ps(p, m); } /* other lanes 0 */
static inline V v_load_else(const float *p, VMASK m, V other) {
  return _mm256_blendv_ps(other, _mm256_maskload_ps(p, m), _mm256_castsi256_ps(m));
}
static inline void v_store(float *p, V x) { _mm256_storeu_ps(p, x); }
static inline void v_store_mask(float *p, V x, VMASK m) { _mm256_maskstore_ps(p, m, x); }
static inline V v_set(float x) { return _mm256_set1_ps(x); }
static inline V v_add(V a, V b) { return _mm256_add_ps(a, b); }
static inline V v_sub(V a, V b) { return _mm256_sub_ps(a, b); }
static inline V v_mul(V a, V b) { return _mm256_mul_ps(a, b); }
static inline V v_div(V a, V b) { return _mm256_div_ps(a, b); }
static inline V v_sqrt(V a) { return _mm256_sqrt_ps(a); }
static inline V v_fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }   /* a·b + c */
static inline V v_fnma(V a, V b, V c) { return _mm256_fnmadd_ps(a, b, c); } /* c - a·b */
static inline V v_max(V a, V b) { return _mm256_max_ps(a, b); }             /* b when either is NaN */
static inline V v_min(V a, V b) { return _mm256_min_ps(a, b); }
static inline V v_and(V a, V b) { return _mm256_and_ps(a, b); }
static inline V v_or(V a, V b) { return _mm256_or_ps(a, b); }
static inline V v_xor(V a, V b) { return _mm256_xor_ps(a, b); }
static inline V v_round(V x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline VB v_lt(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline VB v_eq(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline VB v_nan(V a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
static inline V v_select(VB c, V yes, V no) { return _mm256_blendv_ps(no, yes, c); }
static inline VI v_bits(V x) { return _mm256_castps_si256(x); }
static inline V v_from_bits(VI x) { return _mm256_castsi256_ps(x); }
static inline VI vi_set(int32_t x) { return _mm256_set1_epi32(x); }
static inline VI vi_add(VI a, VI b) { return _mm256_add_epi32(a, b); }
static inline VI vi_sub(VI a, VI b) { return _mm256_sub_epi32(a, b); }
static inline VI vi_and(VI a, VI b) { return _mm256_and_si256(a, b); }
static inline VI vi_left(VI a, int n) { return _mm256_slli_epi32(a, n); }
static inline VI vi_right(VI a, int n) { return _mm256_srai_epi32(a, n); } /* keeps the sign */
static inline VI v_to_int(V x) { return _mm256_cvtps_epi32(x); }           /* to nearest */
static inline V v_from_int(VI x) { return _mm256_cvtepi32_ps(x); }
static inline VD v_low(V x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
static inline VD v_high(V x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
static inline V v_join(VD low, VD high) { return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low)); }
static inline VD vd_set(double x) { return _mm256_set1_pd(x); }
static inline VD vd_add(VD a, VD b) { return _mm256_add_pd(a, b); }
static inline VD vd_fma(VD a, VD b, VD c) { return _mm256_fmadd_pd(a, b, c); }
static inline double vd_sum(VD x) {
  __m128d s = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(s) + _mm_cvtsd_f64(_mm_unpackhi_pd(s, s));
}
static inline float v_largest(V x) { /* without NaN */
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)), b = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
static inline float v_least(V x) {
  __m128 a = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)), b = _mm_min_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_min_ss(b, _mm_movehdup_ps(b)));
}
static inline int v_any(VB c) { return _mm256_movemask_ps(c) != 0; }
/* p·2^n for n whole and |n| < 254; rounds once where the result is denormal */
static inline V v_scale(V p, V n) {
  VI whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
  V a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, _mm256_set1_epi32(127)), 23));
  V b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, _mm256_set1_epi32(127)), 23));
  return _mm256_mul_ps(_mm256_mul_ps(p, a), b);
}
/* 1/b for b of ordinary size, within an ulp */
static inline V v_reciprocal(V b) { return _mm256_div_ps(_mm256_set1_ps(1), b); }
/* a/b for b of ordinary size, nearly always rounded right */
static inline V v_quotient(V a, V b) { return _mm256_div_ps(a, b); }

#endif
