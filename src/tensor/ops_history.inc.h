/* SPDX-License-Identifier: Apache-2.0
 *
 * Number code of ops_history.c; included once per number type. Work is cut over rows forward, where each writes its
 * own, and over heads backward, where rows may share a piece's row.
 */

typedef struct RNAME(history_work) {
  const crn_run *r;
  const crn_history *h;
  int64_t N, H, T, d;
  const R *x;  /* the input: q [N, H, d] or weights [N, H, T] */
  R *y;        /* forward: what is written */
  const R *dy; /* backward, in y's layout */
  R *dx;       /* NULL = not wanted, as each of the pieces' gradients */
  R **dpiece;
  const R **frames; /* [N, T]: room to look up frames; a block of rows uses that of its first row */
} RNAME(history_work);

static RNAME(history_work) RNAME(history_work_of)(const crn_run *r, const crn_history *h) {
  return (RNAME(history_work)){.r = r, .h = h, .N = h->shape[0], .H = h->shape[1], .T = h->shape[2], .d = h->shape[3]};
}

/* Position of head j of the row that hypothesis i continues in piece k. */
static int64_t RNAME(head_at)(const crn_history *h, int k, int64_t i, int64_t j) {
  const int64_t row = h->rows ? crn_t_i32(h->rows)[k * h->shape[0] + i] : i;
  return (row * h->shape[1] + j) * h->piece[k].v->shape[2] * h->shape[3];
}

/* Where the frames of head j of what hypothesis i continues begin. */
static void RNAME(find_frames)(const crn_history *h, int64_t i, int64_t j, const R **x) {
  for (int k = 0; k < h->n; k++) {
    const R *p = (const R *)crn_t_data(h->piece[k].v) + RNAME(head_at)(h, k, i, j);
    for (int64_t t = 0; t < h->piece[k].v->shape[2]; t++) x[h->piece[k].begin + t] = p + t * h->shape[3];
  }
}

/* Pieces of one frame have their heads one after the other: then frames are looked up once a row, not once a head. */
static const R *const *RNAME(frames_of_head)(const RNAME(history_work) * w, int64_t i, int64_t j, const R **x,
                                             int64_t *at) {
  const bool single = w->h->n == w->T;
  if (!single || j == 0) RNAME(find_frames)(w->h, i, j, x);
  *at = single ? j * w->d : 0;
  return x;
}

static void RNAME(energy_rows)(void *arg, int64_t begin, int64_t end) {
  const RNAME(history_work) *w = arg;
  int64_t at;
  for (int64_t row = begin * w->H; row < end * w->H; row++) {
    const R *const *x = RNAME(frames_of_head)(w, row / w->H, row % w->H, w->frames + begin * w->T, &at);
    KERNELS(w->r)->dot_each(w->T, w->d, w->x + row * w->d, x, at, w->y + row * w->T);
  }
}

static void RNAME(sum_rows)(void *arg, int64_t begin, int64_t end) {
  const RNAME(history_work) *w = arg;
  int64_t at;
  for (int64_t row = begin * w->H; row < end * w->H; row++) {
    const R *const *x = RNAME(frames_of_head)(w, row / w->H, row % w->H, w->frames + begin * w->T, &at);
    KERNELS(w->r)->weighted_sum(w->T, w->d, w->x + row * w->T, x, at, w->y + row * w->d);
  }
}

static void RNAME(forward)(crn_run *r, const crn_node *n, crn_split_fn rows) {
  RNAME(history_work) w = RNAME(history_work_of)(r, n->a.p);
  w.x = crn_t_data(n->in[0]);
  w.y = crn_t_data(n->out[0]);
  if (!(w.frames = CRN_ARENA_ARRAY(&r->scratch, const R *, w.N *w.T + 1)))
    (void)crn_err_memory(r->err);
  else
    crn_split_run(r->threads, w.N, crn_split_block(w.H * w.T * w.d), rows, &w);
}

static void RNAME(energy_forward)(crn_run *r, const crn_node *n) { RNAME(forward)(r, n, RNAME(energy_rows)); }
static void RNAME(sum_forward)(crn_run *r, const crn_node *n) { RNAME(forward)(r, n, RNAME(sum_rows)); }

/* Heads [begin, end) of energies: dq += de·key and dkey += de·q. */
static void RNAME(energy_back_heads)(void *arg, int64_t begin, int64_t end) {
  const RNAME(history_work) *w = arg;
  for (int64_t j = begin; j < end; j++)
    for (int k = 0; k < w->h->n; k++)
      for (int64_t i = 0; i < w->N; i++) {
        const int64_t at = RNAME(head_at)(w->h, k, i, j), row = i * w->H + j;
        const R *x = (const R *)crn_t_data(w->h->piece[k].v) + at, *de = w->dy + row * w->T + w->h->piece[k].begin;
        for (int64_t t = 0; t < w->h->piece[k].v->shape[2]; t++) {
          if (w->dx) KERNELS(w->r)->axpy(w->d, de[t], x + t * w->d, w->dx + row * w->d);
          if (w->dpiece[k]) KERNELS(w->r)->axpy(w->d, de[t], w->x + row * w->d, w->dpiece[k] + at + t * w->d);
        }
      }
}

/* Heads [begin, end) of sums: dw += dy·value and dvalue += w·dy. */
static void RNAME(sum_back_heads)(void *arg, int64_t begin, int64_t end) {
  const RNAME(history_work) *w = arg;
  for (int64_t j = begin; j < end; j++)
    for (int k = 0; k < w->h->n; k++)
      for (int64_t i = 0; i < w->N; i++) {
        const int64_t at = RNAME(head_at)(w->h, k, i, j), row = i * w->H + j;
        const int64_t e_at = row * w->T + w->h->piece[k].begin;
        const R *x = (const R *)crn_t_data(w->h->piece[k].v) + at, *dy = w->dy + row * w->d;
        for (int64_t t = 0; t < w->h->piece[k].v->shape[2]; t++) {
          if (w->dx) w->dx[e_at + t] += (R)KERNELS(w->r)->dot(w->d, dy, x + t * w->d);
          if (w->dpiece[k]) KERNELS(w->r)->axpy(w->d, w->x[e_at + t], dy, w->dpiece[k] + at + t * w->d);
        }
      }
}

/* Gradients of the pieces, which are inputs first, first + 1, … */
static R **RNAME(piece_gradients)(crn_run *r, crn_node *n, int first) {
  const crn_history *h = n->a.p;
  R **d = CRN_ARENA_ARRAY(&r->scratch, R *, h->n + 1);
  if (!d) {
    (void)crn_err_memory(r->err);
    return NULL;
  }
  for (int k = 0; k < h->n; k++) d[k] = first + k < n->n_in ? crn_grad_in(r, n, first + k) : NULL;
  return d;
}

static void RNAME(backward)(crn_run *r, crn_node *n, const void *dy, crn_split_fn heads) {
  RNAME(history_work) w = RNAME(history_work_of)(r, n->a.p);
  w.x = crn_t_data(n->in[0]);
  w.dy = dy;
  w.dx = crn_grad_in(r, n, 0);
  w.dpiece = RNAME(piece_gradients)(r, n, 1);
  if (!crn_run_failed(r)) crn_split_run(r->threads, w.H, 1, heads, &w);
}

static void RNAME(energy_backward)(crn_run *r, crn_node *n, const void *de) {
  RNAME(backward)(r, n, de, RNAME(energy_back_heads));
}

static void RNAME(sum_backward)(crn_run *r, crn_node *n, const void *dy) {
  RNAME(backward)(r, n, dy, RNAME(sum_back_heads));
}

static void RNAME(whole_backward)(crn_run *r, crn_node *n, const void *dy) {
  const crn_history *h = n->a.p;
  const int64_t outer = crn_t_count(h->axis - 1, h->shape + 1), T = h->shape[h->axis];
  const int64_t inner = crn_t_count(h->rank - h->axis - 1, h->shape + h->axis + 1);
  R **dpiece = RNAME(piece_gradients)(r, n, 0);
  for (int k = 0; !crn_run_failed(r) && k < h->n; k++) {
    const int64_t frames = h->piece[k].v->shape[h->axis];
    for (int64_t i = 0; dpiece[k] && i < h->shape[0]; i++) {
      const int64_t row = h->rows ? crn_t_i32(h->rows)[k * h->shape[0] + i] : i;
      for (int64_t o = 0; o < outer; o++) {
        const R *from = (const R *)dy + ((i * outer + o) * T + h->piece[k].begin) * inner;
        R *to = dpiece[k] + (row * outer + o) * frames * inner;
        KERNELS(r)->add(frames * inner, to, from, to);
      }
    }
  }
}
