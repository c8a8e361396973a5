/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors, the run that makes them, and the tape that walks back.
 *
 * A tensor is a header {storage, offset, dtype, shape} over contiguous row-major memory; reshapes and slices of leading
 * positions are views (same storage). Operations execute at once on real shapes. While a run records, an operation with
 * an input that needs a gradient leaves a node on the tape; crn_backward walks the nodes in reverse.
 *
 * Gradients belong to storage: a view's gradient is the same view of the storage's gradient, added to in place.
 *
 * Failure is sticky: an operation that fails records the message in run->err and returns NULL; an operation given a NULL
 * input returns NULL. So code can nest calls and test once at the end.
 *
 * Memory: buffers come from the run's pool (mem.h). A frame lists the storages made while it is open; when a frame
 * closes without recording, every storage of it that nobody holds (refs == 0) goes back to the pool. While recording
 * everything lives until the run is reset. Steady state asks the system for nothing.
 */
#ifndef CRN_TENSOR_TENSOR_H
#define CRN_TENSOR_TENSOR_H

#include "base/arena.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status.h"
#include "base/threads.h"

#define CRN_MAX_RANK 8

typedef enum crn_dtype {
  CRN_F32,
  CRN_F64,
  CRN_C64, /* two floats */
  CRN_BOOL,
  CRN_I8,
  CRN_U8,
  CRN_I16,
  CRN_U16,
  CRN_I32,
  CRN_I64,
  CRN_STRING, /* const char * per element, owned elsewhere (arena) */
  CRN_N_DTYPES
} crn_dtype;

size_t crn_dtype_bytes(crn_dtype t);
const char *crn_dtype_name(crn_dtype t);                    /* "float32", … */
bool crn_dtype_from_name(const char *name, crn_dtype *out); /* false: unknown */
bool crn_dtype_is_float(crn_dtype t);                       /* F32, F64 */
bool crn_dtype_is_int(crn_dtype t);                         /* I8 … I64, not bool */

typedef struct crn_tensor crn_tensor;
typedef struct crn_run crn_run;
typedef struct crn_node crn_node;

/* Gradient rows of a gathered parameter: row indices[i] of the parameter gets rows[i]. */
typedef struct crn_grad_rows {
  const int64_t *indices; /* n */
  const void *rows;       /* n x row_len, the storage's dtype */
  int64_t n;
  struct crn_grad_rows *next;
} crn_grad_rows;

typedef struct crn_storage {
  void *data; /* NULL: meta (shape and dtype only) */
  void *grad; /* same size; NULL until something adds to it */
  size_t bytes;
  int32_t refs;              /* holders; with 0 the buffer goes back to the pool when its frame closes */
  bool borrowed;             /* data is somebody else's memory: never given to the pool */
  bool is_param;             /* gather adds its gradient as rows; weight products may be deferred */
  bool marked;               /* for walks over the tape (ops_gradient.c) */
  bool packed_only;          /* a parameter that no run changes: data may be NULL while packed forms hold it (weights.h) */
  crn_grad_rows *rows;       /* sparse part of the gradient, newest first */
  int64_t row_len;           /* elements of a row (for rows) */
  struct crn_weight *weight; /* packed forms and deferred weight gradients, NULL for plain storages (ops_matmul.c) */
  struct crn_storage *next;  /* in the frame's list */
} crn_storage;

struct crn_tensor {
  crn_storage *st;
  int64_t offset; /* elements from the storage's start */
  crn_dtype dtype;
  int rank;
  bool needs_grad; /* depends on something that a gradient is wanted for */
  int64_t shape[CRN_MAX_RANK];
};

/* ---- operations ------------------------------------------------------------------------------------------------- */

typedef struct crn_attrs { /* an operation's arguments besides tensors; meaning is the operation's own */
  int64_t i[6];
  double f[2];
  const void *p; /* lives as long as the run (arena) */
} crn_attrs;

typedef struct crn_opdef {
  const char *name;
  /* Set shape and dtype of every output (crn_node_output), or make it a view; check inputs. No data is read. */
  crn_status (*infer)(crn_run *r, crn_node *n);
  /* Compute the outputs; not called for meta inputs. NULL for pure views. */
  crn_status (*run)(crn_run *r, crn_node *n);
  /* Add to the gradients of the inputs (crn_grad_in); NULL: not differentiable, gradient stops. */
  crn_status (*grad)(crn_run *r, crn_node *n);
} crn_opdef;

struct crn_node {
  const crn_opdef *op;
  crn_tensor **in; /* n_in, an optional input may be NULL */
  crn_tensor *out[3];
  int n_in, n_out;
  crn_attrs a;
  void *saved; /* what grad needs besides inputs and outputs; arena or a tensor */
  uint8_t weights;   /* set by infer: bits of the inputs that are read through weights.h only */
  bool complex_grad; /* set by infer: grad knows complex64 outputs too (pairs of floats, with respect to both parts) */
};

/* Call an operation; returns out[0] (further outputs through outs[1..], may be NULL if n_out is 1). in is copied.
 * A NULL among the first n_required inputs returns NULL. */
crn_tensor *crn_op_call(crn_run *r, const crn_opdef *op, int n_in, int n_required, crn_tensor *const *in,
                        const crn_attrs *a, crn_tensor **outs);
/* For infer: make output i with fresh storage / as a view of t (same storage, given offset within t). */
crn_status crn_node_output(crn_run *r, crn_node *n, int i, crn_dtype dtype, int rank, const int64_t *shape);
crn_status crn_node_view(crn_run *r, crn_node *n, int i, crn_tensor *t, int64_t offset, int rank, const int64_t *shape);
/* For grad: gradient of an output (NULL if nothing reached it), and the buffer to add an input's gradient to (NULL if
 * none is wanted). Both point at the view's first element. */
void *crn_grad_out(const crn_node *n, int i);
void *crn_grad_in(crn_run *r, crn_node *n, int i);
/* Scratch buffer that lives until the operation (run or grad) returns; contents undefined. NULL: no memory (recorded). */
void *crn_scratch(crn_run *r, size_t bytes);
void crn_scratch_reset(crn_run *r); /* when it returned */

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

crn_tensor *crn_t_new(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape); /* contents undefined */
crn_tensor *crn_t_zeros(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape);
crn_tensor *crn_t_full(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape, double value);
crn_tensor *crn_t_scalar(crn_run *r, crn_dtype dtype, double value);
crn_tensor *crn_t_copy_in(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape, const void *data);
/* Header over memory of the caller, which must outlive the run. */
crn_tensor *crn_t_borrow(crn_run *r, crn_dtype dtype, int rank, const int64_t *shape, void *data);
/* Header over an existing storage (parameters); needs_grad as given. */
crn_tensor *crn_t_over(crn_run *r, crn_storage *st, crn_dtype dtype, int rank, const int64_t *shape, bool needs_grad);
/* View: rank/shape with the same number of elements (one size may be -1). No node is needed: the storage is shared. */
crn_tensor *crn_t_reshape(crn_run *r, crn_tensor *t, int rank, const int64_t *shape);
/* View of positions [begin, begin+n) of axis 0. */
crn_tensor *crn_t_rows(crn_run *r, crn_tensor *t, int64_t begin, int64_t n);
/* View of position i of axis 0, that axis dropped. */
crn_tensor *crn_t_index0(crn_run *r, crn_tensor *t, int64_t i);
/* Same data, no gradient flows back. */
crn_tensor *crn_t_stop_gradient(crn_run *r, crn_tensor *t);

int64_t crn_t_size(const crn_tensor *t); /* number of elements */
int64_t crn_t_count(int rank, const int64_t *shape);
static inline void *crn_t_data(const crn_tensor *t) {
  return t->st->data ? (char *)t->st->data + (size_t)t->offset * crn_dtype_bytes(t->dtype) : NULL;
}
static inline float *crn_t_f32(const crn_tensor *t) { return (float *)crn_t_data(t); }
static inline double *crn_t_f64(const crn_tensor *t) { return (double *)crn_t_data(t); }
static inline int32_t *crn_t_i32(const crn_tensor *t) { return (int32_t *)crn_t_data(t); }
static inline int64_t *crn_t_i64(const crn_tensor *t) { return (int64_t *)crn_t_data(t); }
static inline uint8_t *crn_t_bool(const crn_tensor *t) { return (uint8_t *)crn_t_data(t); }
double crn_t_get(const crn_tensor *t, int64_t i); /* element i (flat), any numeric dtype; slow */
/* "[2, 3] float32", into buf; returns buf. */
const char *crn_t_describe(const crn_tensor *t, char *buf, size_t n);

/* ---- runs ------------------------------------------------------------------------------------------------------- */

typedef struct crn_frame {
  crn_storage *storages; /* made while the frame was the innermost one */
  struct crn_frame *outer;
} crn_frame;

typedef struct crn_trace { /* which operation made the first nan, the first inf, from inputs without; "" = none */
  struct crn_str *nan, *inf;
} crn_trace;

struct crn_run {
  crn_err *err; /* sticky; owned by the caller */
  const crn_log *log;
  struct crn_mem *mem; /* buffer pool */
  crn_arena arena;     /* headers, nodes, small things; reset with the run */
  crn_arena scratch;   /* reset when an operation returns */
  struct crn_scratch_piece *scratch_pieces; /* large ones, from the pool */
  crn_frame *frame;    /* innermost */
  crn_frame base_frame;
  crn_dtype real;      /* CRN_F32, or CRN_F64 in tests: dtype of parameters and float inputs */
  bool recording;      /* operations leave nodes */
  bool train;          /* train flag: dropout etc. */
  crn_node **nodes;    /* the tape */
  size_t n_nodes, cap_nodes;
  const struct crn_kernels *kernels;
  crn_threads *threads; /* may be NULL */
  uint64_t seed, step;  /* keys of random numbers */
  struct crn_weight *dirty; /* weights with deferred gradients */
  struct crn_str *failure;  /* if there: what the operation that failed had read is added (report.h) */
  const crn_trace *trace;   /* if there: outputs are searched for nan and inf; slow */
};

crn_status crn_run_init(crn_run *r, struct crn_mem *mem, const struct crn_kernels *kernels, crn_threads *threads,
                        const crn_log *log, crn_err *err);
/* Give all buffers back to the pool and forget nodes; parameters' gradients are not touched. */
void crn_run_reset(crn_run *r);
void crn_run_deinit(crn_run *r);
static inline bool crn_run_failed(const crn_run *r) { return r->err->code != CRN_OK; }

void crn_frame_open(crn_run *r, crn_frame *f);
void crn_frame_close(crn_run *r); /* closes the innermost; storages that are held move to the outer frame */
/* The same, but these tensors (each may be NULL) belong to the outer frame then. */
void crn_frame_close_with(crn_run *r, int n, crn_tensor *const *results);
void crn_t_hold(crn_tensor *t);   /* keep its storage beyond the frame (t may be NULL) */
void crn_t_release(crn_run *r, crn_tensor *t); /* undo; gives the buffer back when nobody else holds it */

/* Gradient of sum(y) with respect to everything that y was computed from; y: float scalar or any shape. seed: gradient
 * of y, NULL = ones. Nodes stay until the run is reset; may be called for one y per run. */
crn_status crn_backward(crn_run *r, crn_tensor *y, const void *seed);

/* Make sure the storage has a gradient buffer (zeroed); for inputs in tests and for parameters. */
void *crn_storage_grad(crn_run *r, crn_storage *st);

/* For operation writers: record the failure with the operation's name in front. */
crn_status crn_op_fail(crn_run *r, const crn_node *n, const char *fmt, ...) CRN_PRINTF(3, 4);

#endif
