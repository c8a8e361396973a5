/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing for the fast matrix products: rows of A into [k][MR], columns of B into [k][PANEL] (padded with zeros).
 */

/* Lanes of 8 floats in both instruction sets: transposing 16 by 16 gains little. */
static inline __m256i mask8(int64_t n) {
  int count = n < 0 ? 0 : n > 8 ? 8 : (int)n;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* dst[c·ldd + r] = src[r·lds + c] for r < rows, c < cols (both at most 8). Writes 8 floats for each c: those beyond
 * rows are zero. */
static inline void transpose8(const float *src, int64_t lds, int64_t rows, int64_t cols, float *dst, int64_t ldd) {
  __m256 r[8], t[8];
  if (rows >= 8 && cols >= 8) {
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(src + i * lds);
  } else {
    __m256i m = mask8(cols);
    for (int i = 0; i < 8; i++) r[i] = i < rows ? _mm256_maskload_ps(src + i * lds, m) : _mm256_setzero_ps();
  }
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  if (cols >= 8) {
    for (int i = 0; i < 8; i++) _mm256_storeu_ps(dst + i * ldd, t[i]);
  } else {
    for (int i = 0; i < 8; i++)
      if (i < cols) _mm256_storeu_ps(dst + i * ldd, t[i]);
  }
}

#define PACK_SLACK 16 /* floats that pack_a may write beyond its end */

/* dst[k·mr + i] = A(i0 + i, k0 + k). May write up to PACK_SLACK floats beyond dst + kc·mr. */
static void pack_a(const crn_matmul_args *m, int64_t i0, int64_t mr, int64_t k0, int64_t kc, float *dst) {
  if (m->trans_a) {
    const float *a = m->A + k0 * m->lda + i0;
    if (mr == MAX_MR && MAX_MR > 8) {
      VMASK mask = v_mask(mr);
      for (int64_t k = 0; k < kc; k++) v_store(dst + k * mr, v_load_mask(a + k * m->lda, mask));
      return;
    }
    for (int64_t k = 0; k < kc; k++)
      for (int64_t i = 0; i < mr; i++) dst[k * mr + i] = a[k * m->lda + i];
    return;
  }
  const float *a = m->A + i0 * m->lda + k0;
  if (mr == 1) {
    memcpy(dst, a, (size_t)kc * sizeof(float));
    return;
  }
  /* A store of 8 spills into the next k's row: blocks of rows run from last to first, k upwards, so that the right
   * values are written after the spilt ones. */
  for (int64_t k = 0; k < kc; k += 8)
    for (int64_t i = (mr - 1) / 8 * 8; i >= 0; i -= 8)
      transpose8(a + i * m->lda + k, m->lda, mr - i, kc - k, dst + k * mr + i, mr);
}

/* n columns of B as panels of step floats each: dst[(j / PANEL)·step + k·PANEL + j % PANEL] = op(B)(k0 + k, j0 + j),
 * zero up to the end of the last panel. */
static void pack_panels(bool trans_b, const float *B, int64_t ldb, int64_t k0, int64_t kc, int64_t j0, int64_t n,
                        float *dst, int64_t step) {
  if (trans_b) {
    const float *b = B + j0 * ldb + k0;
    for (int64_t j = 0; j < (n + PANEL - 1) / PANEL * PANEL; j += 8)
      for (int64_t k = 0; k < kc; k += 8)
        transpose8(b + (j < n ? j : 0) * ldb + k, ldb, n - j, kc - k, dst + j / PANEL * step + k * PANEL + j % PANEL,
                   PANEL);
    return;
  }
  const float *b = B + k0 * ldb + j0;
  const int64_t whole = n / PANEL;
  const VMASK m0 = v_mask(n - whole * PANEL), m1 = v_mask(n - whole * PANEL - V_WIDTH);
  for (int64_t k = 0; k < kc; k++, b += ldb, dst += PANEL) {
    for (int64_t p = 0; p < whole; p++) {
      v_store(dst + p * step, v_load(b + p * PANEL));
      v_store(dst + p * step + V_WIDTH, v_load(b + p * PANEL + V_WIDTH));
    }
    if (whole * PANEL < n) {
      v_store(dst + whole * step, v_load_mask(b + whole * PANEL, m0));
      v_store(dst + whole * step + V_WIDTH, v_load_mask(b + whole * PANEL + V_WIDTH, m1));
    }
  }
}
