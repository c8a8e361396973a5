/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that read one input at places given by another: search_sorted (where values stand in a sorted sequence),
 * sparse_softmax_cross_entropy_with_logits (the target's negative log probability).
 */
#include <math.h>
#include <string.h>

#include "layer/layer.h"

typedef struct lookup_cfg {
  crn_layer *sequence, *values, *logits, *targets;
  const crn_value *axis;
  const char *side;
  int at;                                             /* axis of sequence, or of logits */
  int common_s[CRN_MAX_RANK], common_v[CRN_MAX_RANK]; /* axes that both have */
  int n_common, own;                                  /* own: the axis that only values has */
} lookup_cfg;

#define OFF(f) offsetof(lookup_cfg, f)

/* ---- search_sorted --------------------------------------------------------------------------------------------------
 */

static const crn_opt sorted_opts[] = {
    {.name = "sorted_sequence", .type = CRN_OPT_LAYER, .offset = OFF(sequence), .doc = "layer with sorted entries"},
    {.name = "values", .type = CRN_OPT_LAYER, .offset = OFF(values), .doc = "layer with values to find"},
    {.name = "axis", .type = CRN_OPT_VALUE, .offset = OFF(axis), .doc = "sorted axis"},
    {.name = "side",
     .type = CRN_OPT_STR,
     .offset = OFF(side),
     .dflt = "\"left\"",
     .choices = "left|right",
     .doc = "left: number of smaller entries; right: of smaller or equal ones"},
    CRN_OPT_END};

static crn_status sorted_infer(crn_build *b, crn_layer *l) {
  lookup_cfg *c = l->cfg;
  l->out_known = c->sequence->out_known && c->values->out_known;
  if (!l->out_known) return CRN_OK;
  const crn_tmpl *s = &c->sequence->out, *v = &c->values->out;
  bool taken[CRN_MAX_RANK] = {false};
  CRN_TRY(crn_layer_axis(b, l, s, c->axis, "axis", &c->at));
  c->n_common = 0;
  c->own = -1;
  for (int i = 0; i < v->n; i++) {
    int found = -1;
    for (int k = 0; k < s->n && found < 0; k++)
      if (k != c->at && !taken[k] && crn_dims_match(v->dims[i], s->dims[k], crn_build_version(b))) found = k;
    if (found >= 0) {
      taken[found] = true;
      c->common_v[c->n_common] = i;
      c->common_s[c->n_common++] = found;
    } else if (c->own < 0) {
      c->own = i;
    } else {
      c->own = CRN_MAX_RANK; /* a second one */
    }
  }
  if (c->own < 0 || c->own == CRN_MAX_RANK)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "exactly one axis of 'values' must be missing in 'sorted_sequence'");
  if (c->n_common != s->n - 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "'sorted_sequence' has axes that 'values' lacks");
  if (s->dtype != v->dtype)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "'sorted_sequence' is %s, but 'values' are %s", crn_dtype_name(s->dtype),
                          crn_dtype_name(v->dtype));
  int perm[CRN_MAX_RANK];
  memcpy(perm, c->common_v, sizeof(perm));
  perm[c->n_common] = c->own;
  l->out = *v;
  crn_tmpl_permute(&l->out, perm);
  l->out.dtype = CRN_I32;
  l->out.sparse = false;
  l->out.sparse_dim = NULL;
  return CRN_OK;
}

/* Number of the n entries that are < v (right: <= v). */
static int32_t place_of(const crn_tensor *s, int64_t row, int64_t n, double v, bool right) {
  int64_t lo = 0, hi = n;
  while (lo < hi) {
    const int64_t mid = lo + (hi - lo) / 2;
    const double e = crn_t_get(s, row * s->shape[s->rank - 1] + mid);
    if (right ? e <= v : e < v)
      lo = mid + 1;
    else
      hi = mid;
  }
  return (int32_t)lo;
}

static crn_status sorted_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const lookup_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *s = crn_value_of(x, l, c->sequence), *v = crn_value_of(x, l, c->values);
  int perm[CRN_MAX_RANK];
  if (!s || !v) return r->err->code;
  memcpy(perm, c->common_s, sizeof(perm));
  perm[c->n_common] = c->at;
  s = crn_data_permute(r, s, perm);
  memcpy(perm, c->common_v, sizeof(perm));
  perm[c->n_common] = c->own;
  v = crn_data_permute(r, v, perm);
  if (!s || !v) return r->err->code;
  const int n = c->n_common;
  for (int i = 0; i < n; i++)
    if (s->v->shape[i] != v->v->shape[i])
      return crn_exec_fail(x, l, "axis %d has size %lld in 'sorted_sequence', %lld in 'values'", i,
                           (long long)s->v->shape[i], (long long)v->v->shape[i]);
  const int64_t rows = crn_t_count(n, v->v->shape), T = s->v->shape[n], M = v->v->shape[n];
  crn_tensor *lens = NULL; /* padding counts as the largest number: it is not looked at */
  if (s->len[n]) {
    crn_tmpl t = s->t;
    t.n--;
    lens = crn_data_fit(r, s->len[n], &t, crn_exec_version(x), false);
    lens = lens ? crn_broadcast_to(r, lens, n, v->v->shape) : NULL;
    if (!lens) return r->err->code;
  }
  out->v = crn_t_new(r, CRN_I32, n + 1, v->v->shape);
  if (!out->v) return r->err->code;
  for (int64_t i = 0; i < rows * M; i++)
    crn_t_i32(out->v)[i] =
        place_of(s->v, i / M, lens ? crn_t_i32(lens)[i / M] : T, crn_t_get(v->v, i), !strcmp(c->side, "right"));
  for (int i = 0; i <= n; i++) out->len[i] = v->len[i];
  return CRN_OK;
}

/* ---- sparse_softmax_cross_entropy_with_logits
 * ------------------------------------------------------------------------- */

static const crn_opt ce_opts[] = {
    {.name = "logits", .type = CRN_OPT_LAYER, .offset = OFF(logits), .doc = "layer with scores before softmax"},
    {.name = "targets", .type = CRN_OPT_LAYER, .offset = OFF(targets), .doc = "layer with labels"},
    {.name = "axis",
     .type = CRN_OPT_VALUE,
     .offset = OFF(axis),
     .dflt = "\"F\"",
     .doc = "axis of the labels in logits"},
    CRN_OPT_END};

static crn_status ce_infer(crn_build *b, crn_layer *l) {
  lookup_cfg *c = l->cfg;
  l->out_known = c->logits->out_known && c->targets->out_known;
  if (!l->out_known) return CRN_OK;
  const crn_tmpl *z = &c->logits->out, *t = &c->targets->out;
  int map[CRN_MAX_RANK];
  if (crn_v_is_none(c->axis))
    c->at = z->feature_axis;
  else
    CRN_TRY(crn_layer_axis(b, l, z, c->axis, "axis", &c->at));
  if (c->at < 0 || z->dtype != CRN_F32 || z->sparse || !crn_dtype_is_int(t->dtype))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "needs float logits with a feature axis, and integer targets");
  l->out = *z;
  crn_tmpl_remove(&l->out, c->at);
  if (t->n != l->out.n)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "the targets have %d axes, the logits %d besides the labels'", t->n,
                          l->out.n);
  CRN_TRY(crn_tmpl_match(t, &l->out, crn_build_version(b), map, crn_build_err(b)));
  if (crn_tmpl_dim(z) != z->dims[c->at]->size || l->out.feature_axis < 0) return CRN_OK;
  l->out.feature_explicit = false; /* what is left may have a feature axis of its own */
  crn_tmpl_update_roles(&l->out);
  return CRN_OK;
}

static crn_status ce_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const lookup_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *z = crn_value_of(x, l, c->logits), *t = crn_value_of(x, l, c->targets);
  if (!z || !t) return r->err->code;
  int perm[CRN_MAX_RANK], n = 0;
  for (int i = 0; i < z->t.n; i++)
    if (i != c->at) {
      out->len[n] = z->len[i];
      perm[n++] = i;
    }
  perm[n] = c->at;
  z = crn_data_permute(r, z, perm);
  crn_tensor *labels = crn_data_fit(r, t, &l->out, crn_exec_version(x), false);
  if (!z || !labels) return r->err->code;
  const int64_t N = crn_t_count(n, z->v->shape), rows[2] = {N, z->v->shape[n]};
  labels = crn_broadcast_to(r, labels, n, z->v->shape);
  labels = labels ? crn_t_reshape(r, labels, 1, &N) : NULL;
  if (labels && labels->dtype != CRN_I32) labels = crn_cast(r, labels, CRN_I32);
  crn_tensor *y = crn_sparse_ce_logits(r, crn_t_reshape(r, z->v, 2, rows), labels);
  out->v = y ? crn_t_reshape(r, y, n, z->v->shape) : NULL;
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_lookup[] = {{.name = "search_sorted",
                                             .doc = "Gives the places of values in a sorted sequence.",
                                             .opts = sorted_opts,
                                             .cfg_size = sizeof(lookup_cfg),
                                             .flags = CRN_L_NO_SOURCES | CRN_L_MANY_INPUTS | CRN_L_NEEDS_FUTURE,
                                             .infer = sorted_infer,
                                             .forward = sorted_forward},
                                            {.name = "sparse_softmax_cross_entropy_with_logits",
                                             .doc = "Gives the cross entropy of each label.",
                                             .opts = ce_opts,
                                             .cfg_size = sizeof(lookup_cfg),
                                             .flags = CRN_L_NO_SOURCES | CRN_L_MANY_INPUTS | CRN_L_STREAMS,
                                             .infer = ce_infer,
                                             .forward = ce_forward},
                                            {.name = NULL}};
