/* SPDX-License-Identifier: Apache-2.0
 *
 * dct: the discrete cosine transform over the features, types 1 to 4 (layers-1.md).
 */
#include <math.h>
#include <string.h>

#include "layer/layer.h"

typedef struct dct_cfg {
  int64_t type;
  const crn_value *norm, *n;
  bool ortho;
} dct_cfg;

#define OFF(f) offsetof(dct_cfg, f)
static const crn_opt dct_opts[] = {
    {.name = "type",
     .type = CRN_OPT_INT,
     .offset = OFF(type),
     .dflt = "2",
     .min = 1,
     .max = 4,
     .doc = "kind of transform"},
    {.name = "norm", .type = CRN_OPT_VALUE, .offset = OFF(norm), .dflt = "None", .doc = "None or \"ortho\""},
    {.name = "n", .type = CRN_OPT_VALUE, .offset = OFF(n), .dflt = "None", .doc = "must be None"},
    CRN_OPT_END};

static void to_btf(const crn_tmpl *t, int perm[3]) {
  perm[0] = crn_tmpl_batch_axis(t);
  perm[1] = t->time_axis;
  perm[2] = t->feature_axis;
}

static crn_status dct_infer(crn_build *b, crn_layer *l) {
  dct_cfg *c = l->cfg;
  bool known;
  int perm[3];
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  if (!known) return CRN_OK;
  const crn_tmpl *t = &l->out;
  c->ortho = crn_v_is_str(c->norm) && !strcmp(crn_v_cstr(c->norm), "ortho");
  if (!c->ortho && !crn_v_is_none(c->norm))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'norm': expected None or \"ortho\"");
  if (!crn_v_is_none(c->n)) return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'n' must be None");
  to_btf(t, perm);
  if (t->n != 3 || perm[0] < 0 || perm[1] < 0 || perm[2] < 0 || t->dtype != CRN_F32 || t->dims[perm[2]]->size < 1 ||
      !crn_dim_is_dynamic(t->dims[perm[1]])) {
    crn_str s = {0};
    crn_tmpl_describe(t, &s);
    crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "the source must be [B, T, F], it is %s", crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  const int64_t N = t->dims[perm[2]]->size;
  if (c->type == 1 && (c->ortho || N < 2))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "type 1 needs at least 2 features, and has no \"ortho\"");
  crn_tmpl_permute(&l->out, perm);
  return CRN_OK;
}

/* Weight of x_n in y_k. */
static double weight(const dct_cfg *c, int64_t n, int64_t k, int64_t N) {
  const double pi = 3.14159265358979323846, dn = (double)n, dk = (double)k, dN = (double)N;
  const double first = c->ortho ? sqrt(1 / dN) : 1, rest = c->ortho ? sqrt(2 / dN) : 2;
  switch (c->type) {
  case 1:
    return n == 0 ? 1 : n == N - 1 ? (k % 2 ? -1 : 1) : 2 * cos(pi * dk * dn / (dN - 1));
  case 2: /* ortho: times sqrt(1/4N), sqrt(1/2N) */
    return (c->ortho ? (k ? rest : first) : 2) * cos(pi * dk * (2 * dn + 1) / (2 * dN));
  case 3:
    return n ? rest * cos(pi * dn * (2 * dk + 1) / (2 * dN)) : first;
  default:
    return (c->ortho ? rest : 2) * cos(pi * (2 * dk + 1) * (2 * dn + 1) / (4 * dN));
  }
}

static crn_status dct_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const dct_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  int perm[3];
  if (!in) return r->err->code;
  to_btf(&in->t, perm);
  if (!(in = crn_data_permute(r, in, perm))) return r->err->code;
  const int64_t N = in->v->shape[2], shape[2] = {N, N};
  crn_tensor *m = crn_t_new(r, in->v->dtype, 2, shape);
  if (!m) return r->err->code;
  for (int64_t n = 0; n < N; n++)
    for (int64_t k = 0; k < N; k++) {
      if (m->dtype == CRN_F64)
        crn_t_f64(m)[n * N + k] = weight(c, n, k, N);
      else
        crn_t_f32(m)[n * N + k] = (float)weight(c, n, k, N);
    }
  out->len[1] = in->len[1];
  out->v = crn_linear(r, in->v, m, false, NULL);
  return out->v ? CRN_OK : r->err->code;
}

const crn_layer_desc crn_family_dct[] = {{.name = "dct",
                                          .doc = "Computes the discrete cosine transform of the features.",
                                          .opts = dct_opts,
                                          .cfg_size = sizeof(dct_cfg),
                                          .flags = CRN_L_CONCAT | CRN_L_STREAMS,
                                          .infer = dct_infer,
                                          .forward = dct_forward},
                                         {.name = NULL}};
