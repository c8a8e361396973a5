/* SPDX-License-Identifier: Apache-2.0
 *
 * The register tile of the fast matrix products: MR rows by NV vectors of C, one chunk of the reduction. Every sum
 * starts at zero and runs in order of k with fused multiply-add, in all shapes of the tile, so that tiling never shows.
 *
 *   a: packed rows, element (i,k) at a[k·MR + i]        b: panels of PANEL columns, row k of panel p at
 *   c: tile of the result                                  b + p·panel_step + k·ldb
 */

#define PANEL (2 * V_WIDTH)
#if V_WIDTH == 16
#define MAX_MR 14
#define WIDE_MR 3 /* products of so few rows take WIDE panels at once: enough independent sums, long streams */
#else
#define MAX_MR 6
#define WIDE_MR 2
#endif
#define WIDE 4

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef struct tile {
  int64_t kc; /* length of this chunk */
  const float *a;
  const float *b;
  int64_t ldb, panel_step;
  float *c;
  int64_t ldc;
  int64_t n;         /* columns to write */
  const float *bias; /* added to the start value, or NULL */
  bool load_c;       /* the start value is C, else 0 */
  uintptr_t next; /* 0, or where to ask for what comes next (it may lie beyond the array), with the first row of B … */
  int64_t next_step; /* … and how many bytes further with each other one */
} tile;

/* Inlined always: gcc takes a function that only prefetches for one without effects, and drops calls of it. */
static inline __attribute__((always_inline)) void fetch(uintptr_t at) { _mm_prefetch((const char *)at, _MM_HINT_T1); }

#define EACH_VECTOR(statement)                                                                                         \
  UNROLL for (int i = 0; i < MR; i++) {                                                                                \
    UNROLL for (int v = 0; v < NV; v++) { statement; }                                                                 \
  }

static inline V tile_load(const float *p, int v, VMASK m, bool whole) {
  return whole ? v_load(p + v * V_WIDTH) : v_load_mask(p + v * V_WIDTH, m);
}

static inline __attribute__((always_inline)) void tile_body(const tile *t, const int MR, const int NV,
                                                            const bool FETCH) {
  V acc[MAX_MR][2 * WIDE];
  EACH_VECTOR(acc[i][v] = v_set(0))
  const float *a = t->a, *b = t->b;
  const int64_t ldb = t->ldb, panel_step = t->panel_step;
  for (int64_t k = 0; k < t->kc; k++, a += MR, b += ldb) {
    if (FETCH) {
      UNROLL for (int64_t line = 0; line < PANEL / 16; line++)
          fetch(t->next + (uintptr_t)(k * t->next_step + 64 * line));
    }
    V bv[2 * WIDE];
    UNROLL for (int v = 0; v < NV; v++) bv[v] = v_load(b + (v / 2) * panel_step + (v % 2) * V_WIDTH);
    UNROLL for (int i = 0; i < MR; i++) {
      V av = v_set(a[i]);
      UNROLL for (int v = 0; v < NV; v++) acc[i][v] = v_fma(av, bv[v], acc[i][v]);
    }
  }
  /* C = start + sum. A mask even for whole vectors costs nothing in AVX-512; in AVX2 it does. */
  const bool whole = V_WIDTH < 16 && t->n == NV * V_WIDTH;
  VMASK m[2 * WIDE];
  UNROLL for (int v = 0; v < NV; v++) m[v] = v_mask(t->n - v * V_WIDTH);
  float *c = t->c;
  const int64_t ldc = t->ldc;
  const float *bias = t->bias;
  if (bias && t->load_c) {
    EACH_VECTOR(acc[i][v] =
                    v_add(v_add(tile_load(c + i * ldc, v, m[v], whole), tile_load(bias, v, m[v], whole)), acc[i][v]))
  } else if (bias) {
    EACH_VECTOR(acc[i][v] = v_add(tile_load(bias, v, m[v], whole), acc[i][v]))
  } else if (t->load_c) {
    EACH_VECTOR(acc[i][v] = v_add(tile_load(c + i * ldc, v, m[v], whole), acc[i][v]))
  }
  if (whole) {
    EACH_VECTOR(v_store(c + i * ldc + v * V_WIDTH, acc[i][v]))
  } else {
    EACH_VECTOR(v_store_mask(c + i * ldc + v * V_WIDTH, acc[i][v], m[v]))
  }
}

#define TILE(mr, nv)                                                                                                   \
  static void tile_##mr##_##nv(const tile *t) { tile_body(t, mr, nv, false); }
#define TILES(mr)                                                                                                      \
  TILE(mr, 1) TILE(mr, 2) static void tile_##mr##_fetch(const tile *t) { tile_body(t, mr, 2, true); }
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
TILE(1, 8)
TILE(2, 8)
#if V_WIDTH == 16
TILES(7)
TILES(8)
TILES(9)
TILES(10)
TILES(11)
TILES(12)
TILES(13)
TILES(14)
TILE(3, 8)
#endif

typedef void (*tile_fn)(const tile *t);
/* by rows of the tile, for panels of at most one vector, of two, of two with fetching ahead, and WIDE panels at once */
static const tile_fn tile_half[MAX_MR + 1] = {NULL,     tile_1_1, tile_2_1, tile_3_1,  tile_4_1,  tile_5_1,  tile_6_1,
#if V_WIDTH == 16
                                              tile_7_1, tile_8_1, tile_9_1, tile_10_1, tile_11_1, tile_12_1, tile_13_1,
                                              tile_14_1
#endif
};
static const tile_fn tile_full[MAX_MR + 1] = {NULL,     tile_1_2, tile_2_2, tile_3_2,  tile_4_2,  tile_5_2,  tile_6_2,
#if V_WIDTH == 16
                                              tile_7_2, tile_8_2, tile_9_2, tile_10_2, tile_11_2, tile_12_2, tile_13_2,
                                              tile_14_2
#endif
};
static const tile_fn tile_fetch[MAX_MR + 1] = {NULL,          tile_1_fetch,  tile_2_fetch, tile_3_fetch,  tile_4_fetch,
                                               tile_5_fetch,  tile_6_fetch,
#if V_WIDTH == 16
                                               tile_7_fetch,  tile_8_fetch,  tile_9_fetch, tile_10_fetch, tile_11_fetch,
                                               tile_12_fetch, tile_13_fetch, tile_14_fetch
#endif
};
static const tile_fn tile_wide[WIDE_MR + 1] = {NULL, tile_1_8, tile_2_8,
#if V_WIDTH == 16
                                               tile_3_8
#endif
};
