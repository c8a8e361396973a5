/* SPDX-License-Identifier: Apache-2.0
 *
 * struct crn_weight: packed forms of a parameter's matrices and the gradients that wait. A parameter may be used
 * through several views (a cell's kernel [inputs; h] as two matrices), so a weight has a list of matrices. Sessions
 * that share a model may pack at the same time: the list is behind a lock, and entries stay until the weight is freed.
 * Gradients belong to one training run at a time. The plain form of a packed_only storage comes and goes behind the
 * same lock, until it is pinned: from then on it can be read without.
 *
 * Sums are the same however the rows were cut: waiting rows are taken in reverse order of recording (a loop's steps are
 * recorded last to first, so this is their order in memory) and multiplied in pieces of a multiple of
 * CRN_MATMUL_CHUNK rows, which gives the bits of one product.
 */
#include <pthread.h>
#include <string.h>

#include "base/pages.h"
#include "tensor/mem.h"
#include "tensor/ops.h"
#include "tensor/split.h"
#include "tensor/weights.h"

#define GATHER_ROWS (8 * CRN_MATMUL_CHUNK)

/* Rows of a put-off product aᵀ·b. */
typedef struct weight_piece {
  const char *a, *b;
  int64_t rows;
  struct weight_piece *next;
} weight_piece;

/* One matrix of the parameter. */
typedef struct weight_matrix {
  int64_t offset, P, Q;
  crn_dtype dtype;
  const void *table;      /* kernel table that packed */
  crn_packed_b packed[2]; /* plain, transposed */
  void *block[2];         /* what packed[].data lies in, owned */
  bool fresh[2];
  weight_piece *pieces; /* newest first; in the run's arena */
  int64_t waiting_rows;
  struct weight_matrix *next;
} weight_matrix;

struct crn_weight {
  pthread_mutex_t lock;
  crn_storage *st;
  weight_matrix *matrices;
  bool pinned; /* the plain form stays */
  bool dirty;
  struct crn_weight *next_dirty;
};

static struct crn_weight *weight_of(crn_storage *st) {
  struct crn_weight *w = __atomic_load_n(&st->weight, __ATOMIC_ACQUIRE);
  if (w) return w;
  struct crn_weight *made = crn_calloc(1, sizeof *made), *before = NULL;
  if (!made) return NULL;
  made->st = st;
  if (pthread_mutex_init(&made->lock, NULL) != 0) {
    crn_free(made);
    return NULL;
  }
  if (__atomic_compare_exchange_n(&st->weight, &before, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return made;
  pthread_mutex_destroy(&made->lock);
  crn_free(made);
  return before; /* another session was first */
}

static const void *table_of(const crn_run *r, crn_dtype dtype) {
  return dtype == CRN_F64 ? (const void *)crn_kernels_double() : (const void *)r->kernels;
}

/* Entry for the view w; the lock is held. */
static weight_matrix *find_matrix(struct crn_weight *w, const crn_run *r, const crn_tensor *t) {
  const void *table = table_of(r, t->dtype);
  for (weight_matrix *m = w->matrices; m; m = m->next)
    if (m->offset == t->offset && m->P == t->shape[0] && m->Q == t->shape[1] && m->table == table) return m;
  weight_matrix *m = crn_calloc(1, sizeof *m);
  if (!m) return NULL;
  *m = (weight_matrix){.offset = t->offset, .P = t->shape[0], .Q = t->shape[1], .dtype = t->dtype, .table = table};
  m->next = w->matrices;
  w->matrices = m;
  return m;
}

static void *align64(void *p) { return p ? (void *)(((uintptr_t)p + 63) & ~(uintptr_t)63) : NULL; }

static size_t packed_bytes(const crn_run *r, crn_dtype dtype, int64_t K, int64_t N) {
  return dtype == CRN_F64 ? crn_kernels_double()->packed_b_bytes(K, N) : r->kernels->packed_b_bytes(K, N);
}

static void pack(crn_run *r, crn_dtype dtype, crn_packed_b *p, bool trans, const void *w, int64_t Q) {
  if (dtype == CRN_F64)
    crn_kernels_double()->pack_b(p, trans, w, Q, r->threads);
  else
    r->kernels->pack_b(p, trans, w, Q, r->threads);
}

/* ---- the plain form --------------------------------------------------------------------------------------------- */

/* Fresh packed forms hold every element; the lock is held. */
static bool covered(const struct crn_weight *w) {
  int64_t done = 0;
  for (bool found = true; found;) {
    found = false;
    for (const weight_matrix *m = w->matrices; m; m = m->next) {
      const int64_t end = m->offset + m->P * m->Q;
      if (!(m->fresh[0] || m->fresh[1]) || m->offset > done || end <= done) continue;
      done = end;
      found = true;
      if ((size_t)done * crn_dtype_bytes(m->dtype) >= w->st->bytes) return true;
    }
  }
  return false;
}

static void give_up_plain(struct crn_weight *w) {
  if (!w->st->packed_only || w->pinned || !covered(w)) return;
  crn_free(w->st->data);
  w->st->data = NULL;
}

static void unpack(const weight_matrix *m, bool trans, char *data) {
  data += (size_t)m->offset * crn_dtype_bytes(m->dtype);
  if (m->dtype == CRN_F64)
    crn_kernels_double()->unpack_b(&m->packed[trans], trans, (double *)(void *)data, m->Q);
  else
    ((const crn_kernels *)m->table)->unpack_b(&m->packed[trans], trans, (float *)(void *)data, m->Q);
}

/* False: no memory. */
static bool restore_plain(struct crn_weight *w) {
  if (w->st->data) return true;
  char *data = crn_malloc(w->st->bytes);
  if (!data) return false;
  for (const weight_matrix *m = w->matrices; m; m = m->next)
    if (m->fresh[0] || m->fresh[1]) unpack(m, !m->fresh[0], data);
  w->st->data = data;
  return true;
}

crn_status crn_weight_pin(crn_run *r, const crn_tensor *t) {
  if (!t->st->packed_only) return CRN_OK;
  struct crn_weight *w = weight_of(t->st);
  if (!w) return crn_err_memory(r->err);
  if (__atomic_load_n(&w->pinned, __ATOMIC_ACQUIRE)) return CRN_OK;
  pthread_mutex_lock(&w->lock);
  const bool there = restore_plain(w);
  if (there) __atomic_store_n(&w->pinned, true, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&w->lock);
  return there ? CRN_OK : crn_err_memory(r->err);
}

crn_status crn_weight_unpack(crn_storage *st, crn_err *err) {
  if (!st->weight) return CRN_OK;
  pthread_mutex_lock(&st->weight->lock);
  const bool there = restore_plain(st->weight);
  pthread_mutex_unlock(&st->weight->lock);
  return there ? CRN_OK : crn_err_memory(err);
}

/* ---- packed forms ----------------------------------------------------------------------------------------------- */

static const crn_packed_b *pack_parameter(crn_run *r, const crn_tensor *t, bool trans) {
  struct crn_weight *w = weight_of(t->st);
  if (!w) return NULL;
  const crn_packed_b *found = NULL;
  pthread_mutex_lock(&w->lock);
  weight_matrix *m = find_matrix(w, r, t);
  if (m && !m->fresh[trans]) {
    crn_packed_b *p = &m->packed[trans];
    if (!m->block[trans]) {
      p->K = trans ? m->Q : m->P;
      p->N = trans ? m->P : m->Q;
      p->bytes = packed_bytes(r, t->dtype, p->K, p->N);
      m->block[trans] = crn_malloc(crn_pages_room(p->bytes));
      p->data = m->block[trans] ? crn_pages_place(m->block[trans], p->bytes, 0) : NULL;
    }
    if (m->block[trans] && restore_plain(w)) {
      pack(r, t->dtype, p, trans, crn_t_data(t), m->Q);
      m->fresh[trans] = true;
      give_up_plain(w);
    }
  }
  if (m && m->fresh[trans]) found = &m->packed[trans];
  pthread_mutex_unlock(&w->lock);
  return found;
}

static const crn_packed_b *pack_into_scratch(crn_run *r, const crn_tensor *t, bool trans) {
  int64_t K = t->shape[trans ? 1 : 0], N = t->shape[trans ? 0 : 1];
  size_t bytes = packed_bytes(r, t->dtype, K, N);
  crn_packed_b *p = crn_scratch(r, sizeof *p);
  void *block = p ? crn_scratch(r, bytes + 64) : NULL;
  if (!block) return NULL;
  *p = (crn_packed_b){.K = K, .N = N, .data = align64(block), .bytes = bytes};
  pack(r, t->dtype, p, trans, crn_t_data(t), t->shape[1]);
  return p;
}

const crn_packed_b *crn_weight_packed(crn_run *r, const crn_tensor *w, bool trans) {
  if (crn_t_size(w) == 0) return NULL;
  return w->st->is_param ? pack_parameter(r, w, trans) : pack_into_scratch(r, w, trans);
}

#include "tensor/real_f32.inc.h"
#include "tensor/weights.inc.h"
#include "tensor/real_f64.inc.h"
#include "tensor/weights.inc.h"

void crn_weight_product_with(crn_run *r, const crn_tensor *w, bool trans, const crn_packed_b *form, int64_t rows,
                             const void *x, void *y, const void *bias, bool accumulate) {
  CRN_BY_REAL(w->dtype, weight_product)(r, w, trans, form, rows, x, y, bias, accumulate);
}

void crn_weight_product(crn_run *r, const crn_tensor *w, bool trans, int64_t rows, const void *x, void *y,
                        const void *bias, bool accumulate) {
  const crn_packed_b *form = w->st->is_param ? crn_weight_packed(r, w, trans) : NULL;
  crn_weight_product_with(r, w, trans, form, rows, x, y, bias, accumulate);
}

crn_status crn_weight_gradient(crn_run *r, crn_node *n, int i, const void *a, const void *b, int64_t rows) {
  crn_tensor *t = n->in[i];
  if (!t || !t->needs_grad || rows == 0 || crn_t_size(t) == 0) return CRN_OK;
  if (!t->st->is_param) {
    void *d_w = crn_grad_in(r, n, i);
    if (d_w) CRN_BY_REAL(t->dtype, weight_gradient)(r, t->shape[0], t->shape[1], rows, a, b, d_w);
    return r->err->code;
  }
  struct crn_weight *w = weight_of(t->st);
  weight_piece *p = CRN_ARENA_NEW(&r->arena, weight_piece);
  if (!w || !p) return crn_err_memory(r->err);
  pthread_mutex_lock(&w->lock);
  weight_matrix *m = find_matrix(w, r, t);
  pthread_mutex_unlock(&w->lock);
  if (!m) return crn_err_memory(r->err);
  *p = (weight_piece){.a = a, .b = b, .rows = rows, .next = m->pieces};
  m->pieces = p;
  m->waiting_rows += rows;
  if (!w->dirty) {
    w->dirty = true;
    w->next_dirty = r->dirty;
    r->dirty = w;
  }
  return CRN_OK;
}

/* Copy rows of the pieces from *p on (skip rows of the first are used up) into a and b until they hold `want` rows. */
static void gather_rows(const weight_piece **p, int64_t *skip, int64_t want, size_t row_a, size_t row_b, char *a,
                        char *b) {
  while (want > 0) {
    int64_t n = (*p)->rows - *skip < want ? (*p)->rows - *skip : want;
    memcpy(a, (*p)->a + (size_t)*skip * row_a, (size_t)n * row_a);
    memcpy(b, (*p)->b + (size_t)*skip * row_b, (size_t)n * row_b);
    a += (size_t)n * row_a;
    b += (size_t)n * row_b;
    want -= n;
    *skip += n;
    if (*skip == (*p)->rows) {
      *p = (*p)->next;
      *skip = 0;
    }
  }
}

/* Make one piece of neighbours that follow each other in memory. */
static void join_neighbours(weight_piece *p, size_t row_a, size_t row_b) {
  while (p && p->next) {
    weight_piece *q = p->next;
    if (p->a + (size_t)p->rows * row_a == q->a && p->b + (size_t)p->rows * row_b == q->b) {
      p->rows += q->rows;
      p->next = q->next;
    } else {
      p = q;
    }
  }
}

static void flush_matrix(crn_run *r, struct crn_weight *w, weight_matrix *m) {
  size_t item = crn_dtype_bytes(m->dtype), row_a = (size_t)m->P * item, row_b = (size_t)m->Q * item;
  char *d_w = crn_storage_grad(r, w->st);
  if (!d_w) return;
  d_w += (size_t)m->offset * item;
  join_neighbours(m->pieces, row_a, row_b);
  const weight_piece *p = m->pieces;
  int64_t left = m->waiting_rows, skip = 0;
  char *a = NULL, *b = NULL;
  while (left > 0) {
    int64_t in_place = p->rows - skip, rows = left < GATHER_ROWS ? left : GATHER_ROWS;
    const char *from_a = p->a + (size_t)skip * row_a, *from_b = p->b + (size_t)skip * row_b;
    if (in_place >= rows) { /* without copying; all that is there, in whole chunks unless it is the rest */
      rows = in_place == left ? left : in_place / CRN_MATMUL_CHUNK * CRN_MATMUL_CHUNK;
      skip += rows;
      if (skip == p->rows) {
        p = p->next;
        skip = 0;
      }
    } else {
      if (!a) a = crn_mem_get(r->mem, GATHER_ROWS * row_a);
      if (!b) b = crn_mem_get(r->mem, GATHER_ROWS * row_b);
      if (!a || !b) {
        (void)crn_err_memory(r->err);
        break;
      }
      gather_rows(&p, &skip, rows, row_a, row_b, a, b);
      from_a = a;
      from_b = b;
    }
    CRN_BY_REAL(m->dtype, weight_gradient)(r, m->P, m->Q, rows, from_a, from_b, d_w);
    left -= rows;
  }
  crn_mem_put(r->mem, a);
  crn_mem_put(r->mem, b);
}

static void take_dirty(crn_run *r, bool compute) {
  while (r->dirty) {
    struct crn_weight *w = r->dirty;
    r->dirty = w->next_dirty;
    w->next_dirty = NULL;
    w->dirty = false;
    for (weight_matrix *m = w->matrices; m; m = m->next) {
      if (m->pieces && compute && !crn_run_failed(r)) flush_matrix(r, w, m);
      m->pieces = NULL;
      m->waiting_rows = 0;
    }
  }
}

void crn_weights_flush(crn_run *r) { take_dirty(r, true); }

void crn_weights_forget(crn_run *r) { take_dirty(r, false); }

void crn_weight_changed(crn_storage *st) {
  if (!st || !st->weight) return;
  pthread_mutex_lock(&st->weight->lock);
  for (weight_matrix *m = st->weight->matrices; m; m = m->next) m->fresh[0] = m->fresh[1] = false;
  pthread_mutex_unlock(&st->weight->lock);
}

void crn_weight_free(crn_storage *st) {
  if (!st || !st->weight) return;
  struct crn_weight *w = st->weight;
  st->weight = NULL;
  for (weight_matrix *m = w->matrices, *next; m; m = next) {
    next = m->next;
    crn_free(m->block[0]);
    crn_free(m->block[1]);
    crn_free(m);
  }
  pthread_mutex_destroy(&w->lock);
  crn_free(w);
}
