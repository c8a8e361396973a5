/* SPDX-License-Identifier: Apache-2.0
 *
 * Fast matrix products: packs blocks of A (and of B where it isn't packed yet) on the stack and runs the register tile
 * over them. Work is cut over blocks of rows and panels of columns; the order of sums is kernel/matmul.h's everywhere.
 */

#define A_ROWS 518 /* rows of A packed at once for long reductions: one chunk of K in the L2 cache */
#define A_FLOATS (A_ROWS * CRN_MATMUL_CHUNK)
#define DIRECT_ROWS 28             /* up to so many rows, panels of a plain B are read in place: packing wouldn't pay */
#define PACK_PANELS 4              /* panels of a plain B packed at once */
#define MIN_TASK_WORK (128 * 1024) /* multiply-adds that are worth a thread's while */

typedef struct matmul_job {
  const crn_matmul_args *m;
  const float *packed; /* B packed by pack_b, or NULL */
  const crn_matmul_batch *batch;
  int64_t n_row_tasks, n_col_tasks; /* how often rows and panels are cut */
  int64_t items_per_task;           /* batch only */
} matmul_job;

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t n_panels(int64_t N) { return (N + PANEL - 1) / PANEL; }

/* Rows [0, M) in nearly equal blocks of at most MAX_MR. */
typedef struct row_blocks {
  int64_t n, size, n_larger; /* the first n_larger blocks have size + 1 rows */
} row_blocks;

static row_blocks cut_rows(int64_t M) {
  row_blocks r = {.n = (M + MAX_MR - 1) / MAX_MR};
  r.size = M / r.n;
  r.n_larger = M % r.n;
  return r;
}

/* One chunk, all row blocks, the panels that the columns of t (n of them, from j0 on) lie in: one, or WIDE for few
 * rows. */
static void run_tiles(const crn_matmul_args *m, tile *t, row_blocks r, const float *a, int64_t i0, int64_t j0) {
  const tile_fn *fns = t->n > PANEL ? tile_wide : t->n <= V_WIDTH ? tile_half : t->next ? tile_fetch : tile_full;
  t->next_step = (int64_t)sizeof(float) * PANEL / r.n;
  float *c = m->C + i0 * m->ldc + j0;
  for (int64_t block = 0; block < r.n; block++) {
    int64_t mr = r.size + (block < r.n_larger);
    t->a = a;
    t->c = c;
    fns[mr](t);
    a += mr * t->kc;
    c += mr * m->ldc;
    if (t->next) t->next += (uintptr_t)(t->kc * t->next_step);
  }
}

/* Rows [i0, i0 + rows) whose packed A for the reduction [k0, k0 + kn) is in a. */
typedef struct packed_rows {
  const float *a;
  int64_t i0, rows, k0, kn;
} packed_rows;

static tile chunk_tile(const crn_matmul_args *m, const packed_rows *p, int64_t k, int64_t j0, int64_t n) {
  tile t = {.kc = min_i64(CRN_MATMUL_CHUNK, p->k0 + p->kn - k), .ldb = PANEL, .ldc = m->ldc, .n = n};
  t.load_c = k > 0 || m->accumulate;
  t.bias = k == 0 && m->bias ? m->bias + j0 : NULL;
  return t;
}

/* Panels that are read where they are: of a packed B, or of a plain one in whole panels. */
static void run_in_place(const crn_matmul_args *m, const float *packed, const packed_rows *rows, int64_t p0,
                         int64_t p1) {
  row_blocks r = cut_rows(rows->rows);
  for (int64_t p = p0, width; p < p1; p += width) {
    int64_t j0 = p * PANEL;
    width = rows->rows <= WIDE_MR && p + WIDE <= p1 && j0 + WIDE * PANEL <= m->N ? WIDE : 1;
    for (int64_t k = rows->k0; k < rows->k0 + rows->kn; k += CRN_MATMUL_CHUNK) {
      tile t = chunk_tile(m, rows, k, j0, min_i64(width * PANEL, m->N - j0));
      if (packed) {
        t.b = packed + (p * m->K + k) * PANEL;
        t.panel_step = m->K * PANEL;
        t.next = (uintptr_t)(t.b + t.kc * PANEL); /* all row blocks together ask for the chunk behind this one */
      } else {
        t.b = m->B + k * m->ldb + j0;
        t.ldb = m->ldb;
        t.panel_step = PANEL;
      }
      run_tiles(m, &t, r, rows->a + (k - rows->k0) * rows->rows, rows->i0, j0);
    }
  }
}

/* Panels of a plain B, packed on the stack a few at a time: long runs of each row of B are read at once. */
static void run_packing(const crn_matmul_args *m, const packed_rows *rows, int64_t p0, int64_t p1) {
  _Alignas(64) float panels[PACK_PANELS * CRN_MATMUL_CHUNK * PANEL];
  row_blocks r = cut_rows(rows->rows);
  for (int64_t p = p0; p < p1; p += PACK_PANELS) {
    int64_t j1 = min_i64(min_i64(p + PACK_PANELS, p1) * PANEL, m->N);
    for (int64_t k = rows->k0; k < rows->k0 + rows->kn; k += CRN_MATMUL_CHUNK) {
      int64_t kc = min_i64(CRN_MATMUL_CHUNK, rows->k0 + rows->kn - k), step = kc * PANEL;
      pack_panels(m->trans_b, m->B, m->ldb, k, kc, p * PANEL, j1 - p * PANEL, panels, step);
      for (int64_t j = p * PANEL; j < j1; j += PANEL) {
        tile t = chunk_tile(m, rows, k, j, min_i64(PANEL, j1 - j));
        t.b = panels + (j / PANEL - p) * step;
        run_tiles(m, &t, r, rows->a + (k - rows->k0) * rows->rows, rows->i0, j);
      }
    }
  }
}

static void run_panels(const crn_matmul_args *m, const float *packed, const packed_rows *rows, int64_t p0, int64_t p1) {
  int64_t in_place = packed ? p1 : !m->trans_b && rows->rows <= DIRECT_ROWS ? min_i64(p1, m->N / PANEL) : p0;
  run_in_place(m, packed, rows, p0, in_place);
  if (in_place < p1) run_packing(m, rows, in_place, p1);
}

/* Fill p->a: for each chunk of the reduction the row blocks one after the other. */
static void pack_rows(const crn_matmul_args *m, const packed_rows *p, float *dst) {
  row_blocks r = cut_rows(p->rows);
  for (int64_t k = p->k0; k < p->k0 + p->kn; k += CRN_MATMUL_CHUNK) {
    int64_t kc = min_i64(CRN_MATMUL_CHUNK, p->k0 + p->kn - k), row = p->i0;
    for (int64_t block = 0; block < r.n; block++) {
      int64_t mr = r.size + (block < r.n_larger);
      pack_a(m, row, mr, k, kc, dst);
      dst += mr * kc;
      row += mr;
    }
  }
}

/* C = start where the reduction is empty. */
static void start_only(const crn_matmul_args *m, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  for (int64_t i = i0; i < i1; i++)
    for (int64_t j = j0; j < j1; j++) {
      float *c = &m->C[i * m->ldc + j];
      *c = (m->accumulate ? *c : 0) + (m->bias ? m->bias[j] : 0);
    }
}

/* Rows [i0, i1) by panels [p0, p1). Where a packed B has a short reduction, A is cut such that all of it is done at
 * once and C is written once. */
static void run_block(const crn_matmul_args *m, const float *packed, int64_t i0, int64_t i1, int64_t p0, int64_t p1) {
  _Alignas(64) float a[A_FLOATS + PACK_SLACK];
  if (m->K == 0) start_only(m, i0, i1, p0 * PANEL, min_i64(p1 * PANEL, m->N));
  int64_t n_chunks = (m->K + CRN_MATMUL_CHUNK - 1) / CRN_MATMUL_CHUNK;
  int64_t most = packed && n_chunks == 2 ? A_ROWS / 2 : A_ROWS, n_blocks = (i1 - i0 + most - 1) / most;
  for (int64_t block = 0; block < n_blocks; block++) {
    int64_t first = i0 + (i1 - i0) * block / n_blocks, end = i0 + (i1 - i0) * (block + 1) / n_blocks,
            rows = end - first;
    int64_t group = A_FLOATS / rows / CRN_MATMUL_CHUNK * CRN_MATMUL_CHUNK;
    for (int64_t k0 = 0; k0 < m->K; k0 += group) {
      packed_rows p = {.a = a, .i0 = first, .rows = rows, .k0 = k0, .kn = min_i64(group, m->K - k0)};
      pack_rows(m, &p, a);
      run_panels(m, packed, &p, p0, p1);
    }
  }
}

static void run_matmul_task(void *arg, int64_t task) {
  const matmul_job *job = arg;
  int64_t row = task / job->n_col_tasks, col = task % job->n_col_tasks, panels = n_panels(job->m->N);
  run_block(job->m, job->packed, row * job->m->M / job->n_row_tasks, (row + 1) * job->m->M / job->n_row_tasks,
            col * panels / job->n_col_tasks, (col + 1) * panels / job->n_col_tasks);
}

/* Panels are cut rather than rows: a panel of a plain B is then packed by one thread only. */
static void run_matmul(const crn_matmul_args *m, const float *packed, crn_threads *t) {
  if (m->M <= 0 || m->N <= 0) return;
  matmul_job job = {.m = m, .packed = packed, .n_row_tasks = 1, .n_col_tasks = 1};
  int64_t tasks = crn_threads_count(t), most = m->M * m->N * m->K / MIN_TASK_WORK;
  if (tasks > most) tasks = most;
  if (tasks > 1) {
    job.n_col_tasks = min_i64(tasks, (n_panels(m->N) + 1) / 2);
    job.n_row_tasks = min_i64(tasks / job.n_col_tasks, (m->M + MAX_MR - 1) / MAX_MR);
  }
  crn_threads_run(t, job.n_row_tasks * job.n_col_tasks, run_matmul_task, &job);
}

static void fast_matmul(const crn_matmul_args *m, crn_threads *t) { run_matmul(m, NULL, t); }

static crn_matmul_args batch_item(const crn_matmul_args *m, const crn_matmul_batch *batch, int64_t item) {
  crn_matmul_args one = *m;
  int64_t x = item / batch->n[1], y = item % batch->n[1];
  one.A += x * batch->stride_a[0] + y * batch->stride_a[1];
  one.B += x * batch->stride_b[0] + y * batch->stride_b[1];
  one.C += x * batch->stride_c[0] + y * batch->stride_c[1];
  return one;
}

static void run_batch_task(void *arg, int64_t task) {
  const matmul_job *job = arg;
  int64_t n = job->batch->n[0] * job->batch->n[1], end = min_i64(n, (task + 1) * job->items_per_task);
  for (int64_t item = task * job->items_per_task; item < end; item++) {
    crn_matmul_args one = batch_item(job->m, job->batch, item);
    run_block(&one, NULL, 0, one.M, 0, n_panels(one.N));
  }
}

static void fast_matmul_batched(const crn_matmul_args *m, const crn_matmul_batch *batch, crn_threads *t) {
  int64_t n = batch->n[0] * batch->n[1], work = m->M * m->N * m->K, threads = crn_threads_count(t);
  if (m->M <= 0 || m->N <= 0 || n <= 0) return;
  if (threads > 1 && n < 2 * threads && work >= threads * MIN_TASK_WORK) { /* few large ones: cut each */
    for (int64_t item = 0; item < n; item++) {
      crn_matmul_args one = batch_item(m, batch, item);
      run_matmul(&one, NULL, t);
    }
    return;
  }
  matmul_job job = {.m = m, .batch = batch, .items_per_task = n};
  if (threads > 1) {
    int64_t worth = MIN_TASK_WORK / (work + 1) + 1, even = (n + 4 * threads - 1) / (4 * threads);
    job.items_per_task = worth > even ? worth : even;
  }
  crn_threads_run(t, (n + job.items_per_task - 1) / job.items_per_task, run_batch_task, &job);
}

static size_t fast_packed_b_bytes(int64_t K, int64_t N) { return (size_t)(n_panels(N) * PANEL * K) * sizeof(float); }

typedef struct pack_job {
  crn_packed_b *out;
  bool trans_b;
  const float *B;
  int64_t ldb;
  int64_t panels_per_task;
} pack_job;

static void run_pack_task(void *arg, int64_t task) {
  const pack_job *job = arg;
  int64_t K = job->out->K, N = job->out->N, end = min_i64((task + 1) * job->panels_per_task, n_panels(N));
  for (int64_t p = task * job->panels_per_task; p < end; p++)
    pack_panels(job->trans_b, job->B, job->ldb, 0, K, p * PANEL, min_i64(PANEL, N - p * PANEL),
                (float *)job->out->data + p * K * PANEL, 0);
}

static void fast_pack_b(crn_packed_b *out, bool trans_b, const float *B, int64_t ldb, crn_threads *t) {
  int64_t panels = n_panels(out->N), threads = crn_threads_count(t);
  pack_job job = {.out = out, .trans_b = trans_b, .B = B, .ldb = ldb};
  job.panels_per_task = (panels + threads - 1) / threads;
  if (job.panels_per_task * PANEL * out->K < 65536) job.panels_per_task = 65536 / (PANEL * (out->K + 1)) + 1;
  crn_threads_run(t, (panels + job.panels_per_task - 1) / job.panels_per_task, run_pack_task, &job);
}

static void fast_unpack_b(const crn_packed_b *in, bool trans_b, float *B, int64_t ldb) {
  const float *p = in->data;
  for (int64_t j0 = 0; j0 < in->N; j0 += PANEL)
    for (int64_t k = 0; k < in->K; k++, p += PANEL)
      for (int64_t j = 0; j < min_i64(PANEL, in->N - j0); j++)
        B[trans_b ? (j0 + j) * ldb + k : k * ldb + j0 + j] = p[j];
}

static void fast_matmul_packed(const crn_matmul_args *m, const crn_packed_b *b, crn_threads *t) {
  run_matmul(m, b->data, t);
}
