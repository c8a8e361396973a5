/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a unit on real data: axes brought to [T, N, F] and back, states read and written, and the loop over steps for
 * units without a fused pass. Padded frames give zeros; a sequence's state stops at its last valid frame.
 */
#include <string.h>

#include "layer/unit.h"

/* Order of the input's axes: [axis, rest.., feature]. */
typedef struct arrangement {
  int axis;            /* -1: one step, or the same for all */
  const crn_data *len; /* lengths of the axis, NULL: fixed */
  int rest[CRN_MAX_RANK], n_rest;
  int64_t rest_shape[CRN_MAX_RANK];
  crn_tmpl rest_t;
} arrangement;

static void arrange(const crn_layer *l, const crn_data *in, const crn_data *steps, arrangement *a) {
  const crn_unit *u = crn_unit_of(l);
  memset(a, 0, sizeof(*a));
  a->axis = u->single || u->steps ? -1 : crn_tmpl_find(&in->t, l->out.dims[0]);
  a->len = steps ? steps->len[0] : a->axis >= 0 ? in->len[a->axis] : NULL;
  a->rest_t = crn_tmpl_scalar(CRN_I32);
  for (int i = 0; i < in->t.n; i++) {
    if (i == a->axis || (!u->sparse && i == in->t.feature_axis)) continue;
    a->rest_shape[a->n_rest] = in->v->shape[i];
    a->rest_t.dims[a->rest_t.n++] = in->t.dims[i];
    a->rest[a->n_rest++] = i;
  }
}

/* The input as [T, N, F] or [T, N]. */
static crn_tensor *flat_input(crn_unit_run *c, const crn_data *in, const arrangement *a) {
  int perm[CRN_MAX_RANK], k = 0;
  bool sorted = true;
  if (a->axis >= 0) perm[k++] = a->axis;
  for (int i = 0; i < a->n_rest; i++) perm[k++] = a->rest[i];
  if (!c->u->sparse) perm[k++] = in->t.feature_axis;
  for (int i = 0; i < k; i++) sorted &= perm[i] == i;
  crn_tensor *v = sorted ? in->v : crn_transpose(c->r, in->v, perm);
  const int64_t shape[3] = {c->T, c->N, c->u->sparse ? 0 : in->v->shape[in->t.feature_axis]};
  if (c->u->steps) {
    const int64_t one[3] = {1, shape[1], shape[2]};
    return crn_broadcast_to(c->r, crn_t_reshape(c->r, v, c->u->sparse ? 2 : 3, one), c->u->sparse ? 2 : 3, shape);
  }
  return crn_t_reshape(c->r, v, c->u->sparse ? 2 : 3, shape);
}

/* Lengths of the axis as [N]; NULL without failing: fixed. */
static crn_tensor *flat_lens(crn_unit_run *c, const arrangement *a) {
  if (!a->len) return NULL;
  crn_tensor *v = crn_data_fit(c->r, a->len, &a->rest_t, crn_exec_version(c->x), false);
  v = crn_broadcast_to(c->r, v, a->n_rest, a->rest_shape);
  return crn_t_reshape(c->r, v, 1, &c->N);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* A pass over an own axis inside of a loop begins anew in each step of the loop; one over another axis than that which
 * comes in pieces, in each piece. */
static bool begins_anew(const crn_unit_run *c) {
  if (crn_layer_in_loop(c->l)) return !c->u->single;
  return crn_streaming(c->x) && (c->u->single || !crn_dim_is_dynamic(c->l->out.dims[0]));
}

static const crn_data *state_before(crn_unit_run *c, int i, const crn_data *out, const int64_t *shape) {
  if (c->u->given_state) {
    crn_data *d = crn_data_new(c->r, &c->l->states[i].t, NULL);
    return d && crn_unit_state_given(c->x, c->l, i, d, shape) == CRN_OK ? d : NULL;
  }
  if (!begins_anew(c)) return crn_state_in(c->x, c->l, i);
  crn_data *d = crn_data_new(c->r, &c->l->states[i].t, NULL);
  if (!d) return NULL;
  d->beam = out->beam;
  return crn_unit_state_init(c->x, c->l, i, d) == CRN_OK ? d : NULL;
}

static crn_status read_states(crn_unit_run *c, const crn_data *out, const arrangement *a) {
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, a->rest_shape, sizeof(shape));
  shape[a->n_rest] = c->n;
  for (int i = 0; i < c->u->n_states; i++) {
    const crn_data *d = state_before(c, i, out, shape);
    if (!d) return c->r->err->code;
    crn_tensor *v = crn_broadcast_to(c->r, d->v, a->n_rest + 1, shape);
    c->s[i] = crn_t_reshape(c->r, v, 2, (int64_t[]){c->N, c->n});
    if (!c->s[i]) return c->r->err->code;
  }
  return CRN_OK;
}

static crn_status write_states(crn_unit_run *c, const crn_data *in, const crn_data *out, const arrangement *a) {
  int64_t shape[CRN_MAX_RANK];
  memcpy(shape, a->rest_shape, sizeof(shape));
  shape[a->n_rest] = c->n;
  for (int i = 0; i < c->u->n_states; i++) {
    crn_data *d = crn_data_new(c->r, &c->l->states[i].t, crn_t_reshape(c->r, c->s[i], a->n_rest + 1, shape));
    if (!d) return c->r->err->code;
    d->beam = out->beam;
    for (int k = 0; k < a->n_rest; k++) d->len[k] = in->len[a->rest[k]];
    CRN_TRY(crn_state_out(c->x, c->l, i, d));
  }
  return CRN_OK;
}

/* ---- step by step ------------------------------------------------------------------------------------------------ */

static void length_range(const crn_unit_run *c, int64_t *shortest, int64_t *longest) {
  *shortest = *longest = c->T;
  if (!c->lens) return;
  *longest = 0;
  for (int64_t i = 0; i < c->N; i++) {
    const int64_t len = crn_t_i32(c->lens)[i];
    if (len < *shortest) *shortest = len;
    if (len > *longest) *longest = len;
  }
}

/* One frame; where it is padding, y is 0 and the states stay. */
static crn_tensor *masked_step(crn_unit_run *c, bool padded) {
  crn_tensor *z[2] = {NULL, NULL}, *before[CRN_UNIT_STATES];
  for (int i = 0; i < 2; i++) z[i] = c->z[i] ? crn_t_index0(c->r, c->z[i], c->t) : NULL;
  for (int i = 0; i < CRN_UNIT_STATES; i++) before[i] = c->s[i];
  crn_tensor *y = c->u->desc->step(c, z);
  if (!padded || !y) return y;
  crn_tensor *on = crn_binary(c->r, CRN_B_LESS, crn_t_full(c->r, CRN_I32, 0, NULL, (double)c->t), c->lens);
  on = crn_t_reshape(c->r, on, 2, (int64_t[]){c->N, 1});
  for (int i = 0; i < c->u->n_states; i++) c->s[i] = crn_where(c->r, on, c->s[i], before[i]);
  return crn_mask_fill(c->r, y, on, 0);
}

/* Outside of training what a step made is given back when it is over, but for its output and states. */
static crn_tensor *framed_step(crn_unit_run *c, bool padded) {
  if (c->r->recording || c->u->single) return masked_step(c, padded);
  crn_frame f;
  crn_frame_open(c->r, &f);
  crn_tensor *y = masked_step(c, padded);
  crn_t_hold(y);
  for (int i = 0; i < c->u->n_states; i++) crn_t_hold(c->s[i]);
  crn_frame_close(c->r);
  return y;
}

static void run_steps(crn_unit_run *c) {
  crn_run *r = c->r;
  int64_t shortest, longest;
  length_range(c, &shortest, &longest);
  crn_tensor **ys = CRN_ARENA_ARRAY(&r->arena, crn_tensor *, c->T + 1), *zero = NULL;
  if (!ys) {
    (void)crn_err_memory(r->err);
    return;
  }
  const int64_t shape[3] = {c->T, c->N, c->n};
  if (c->T == 0 || longest < c->T) zero = crn_t_zeros(r, r->real, 2, shape + 1);
  for (int64_t k = 0; k < c->T && !crn_run_failed(r); k++) {
    c->t = c->u->reverse ? c->T - 1 - k : k;
    ys[c->t] = c->t < longest ? framed_step(c, c->t >= shortest) : zero;
  }
  if (c->T == 1) {
    c->y = ys[0] ? crn_t_reshape(r, ys[0], 3, shape) : NULL;
    return;
  }
  c->y = c->T ? crn_stack(r, (int)c->T, ys, 0) : crn_t_zeros(r, r->real, 3, shape);
  for (int64_t t = 0; t < c->T && t < longest && !r->recording && c->y; t++) crn_t_release(r, ys[t]);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static crn_status check_unrolled(crn_unit_run *c) {
  const crn_rec_cfg *cfg = c->l->cfg;
  int64_t max, shortest, longest;
  if (crn_layer_is_cell(c->l) || cfg->unroll <= 0 || !crn_v_to_int(cfg->max_seq_len, &max)) return CRN_OK;
  length_range(c, &shortest, &longest);
  if (longest <= max) return CRN_OK;
  return crn_exec_fail(c->x, c->l, "option 'max_seq_len' is %lld, but the longest sequence has %lld frames",
                       (long long)max, (long long)longest);
}

static crn_status run_unit(crn_unit_run *c) {
  const crn_unit_desc *d = c->u->desc;
  CRN_TRY(check_unrolled(c));
  d->begin(c);
  if (crn_run_failed(c->r)) return c->r->err->code;
  const bool fused = d->whole && (!d->fused || d->fused(c)) && (!c->u->single || !d->step);
  if (fused)
    d->whole(c);
  else
    run_steps(c);
  return c->y ? CRN_OK : c->r->err->code;
}

static bool reads_parts(const crn_unit_run *c) {
  const crn_unit_desc *d = c->u->desc;
  return d->flags & CRN_UNIT_PARTS && c->u->projection && !c->u->sparse && !c->u->single && !c->u->steps &&
         !c->r->recording && (!d->fused || d->fused(c));
}

/* Sources, or the one input that they make up. Number of them; 0: failed. */
static int find_input(crn_unit_run *c, const crn_data **parts) {
  const int n = reads_parts(c) ? crn_input_parts(c->x, c->l, CRN_UNIT_MAX_PARTS, parts) : 0;
  if (n > 0) return n;
  parts[0] = crn_input_once(c->x, c->l);
  return parts[0] ? 1 : 0;
}

crn_status crn_unit_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_run *r = crn_exec_run(x);
  const crn_data *parts[CRN_UNIT_MAX_PARTS];
  arrangement a;
  crn_unit_run c = {.x = x, .r = r, .l = l, .u = crn_unit_of(l)};
  c.n_parts = find_input(&c, parts);
  if (!c.n_parts) return r->err->code;
  const crn_data *in = parts[0];
  const crn_data *steps = c.u->steps ? crn_value_of(x, l, c.u->steps) : NULL;
  if (c.u->steps && !steps) return r->err->code;
  arrange(l, in, steps, &a);
  c.n = c.u->n;
  c.T = steps ? steps->v->shape[0] : a.axis >= 0 ? in->v->shape[a.axis] : 1;
  c.N = crn_t_count(a.n_rest, a.rest_shape);
  for (int i = 0; i < c.n_parts; i++) c.parts[i] = flat_input(&c, parts[i], &a);
  c.in = c.parts[0];
  c.lens = flat_lens(&c, &a);
  if (crn_run_failed(r)) return r->err->code;
  CRN_TRY(read_states(&c, out, &a));
  CRN_TRY(run_unit(&c));
  CRN_TRY(write_states(&c, in, out, &a));
  int64_t shape[CRN_MAX_RANK];
  int n = 0;
  if (!c.u->single) {
    out->len[n] = a.len;
    shape[n++] = c.T;
  }
  for (int i = 0; i < a.n_rest; i++) {
    out->len[n] = in->len[a.rest[i]];
    shape[n++] = a.rest_shape[i];
  }
  shape[n++] = c.n;
  out->v = crn_t_reshape(r, c.y, n, shape);
  return out->v ? CRN_OK : r->err->code;
}
