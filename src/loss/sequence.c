/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of whole label sequences: edit_distance and bleu. They are reported, nothing is trained by them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loss/sequences.h"
#include "tensor/ctc_decode.h"

/* ---- edit_distance ---- */

typedef struct edit_cfg {
  const crn_value *label_map;
  int ctc_decode, output_in_log_space, debug_print;
  int32_t *map; /* label -> label, -1 removes; n_map of them; NULL: none */
  int64_t n_map;
} edit_cfg;

#define OFF(f) offsetof(edit_cfg, f)
static const crn_opt edit_opts[] = {
    {.name = "label_map",
     .type = CRN_OPT_VALUE,
     .offset = OFF(label_map),
     .dflt = "None",
     .doc = "dict label -> label, applied to both sides before comparing; None removes the label"},
    {.name = "ctc_decode",
     .type = CRN_OPT_BOOL,
     .offset = OFF(ctc_decode),
     .dflt = "False",
     .doc = "the output holds CTC scores: decode them first, with a beam of 100"},
    {.name = "output_in_log_space",
     .type = CRN_OPT_BOOL,
     .offset = OFF(output_in_log_space),
     .dflt = "False",
     .doc = "the scores are logarithms, for ctc_decode"},
    {.name = "debug_print",
     .type = CRN_OPT_BOOL,
     .offset = OFF(debug_print),
     .dflt = "False",
     .doc = "no effect on values"},
    CRN_OPT_END};
#undef OFF

static int64_t edit_output_dim(const void *cfg, int64_t target_dim) {
  return target_dim + (((const edit_cfg *)cfg)->ctc_decode > 0);
}

static bool key_number(const crn_value *key, int64_t *i) {
  char *end = NULL;
  if (crn_v_to_int(key, i)) return true;
  const char *s = crn_v_cstr(key); /* in JSON keys are strings */
  if (!s || !*s) return false;
  *i = strtoll(s, &end, 10);
  return !*end;
}

static crn_status edit_label_map(crn_build *b, crn_layer *l, edit_cfg *c) {
  const crn_value *m = c->label_map;
  if (crn_v_is_none(m)) return CRN_OK;
  if (!crn_v_is_dict(m))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'label_map': expected a dict, got %s", crn_v_kind_name(m));
  c->n_map = (int64_t)m->u.dict.n;
  c->map = CRN_ARENA_ARRAY(crn_build_arena(b), int32_t, c->n_map + 1);
  if (!c->map) return crn_err_memory(crn_build_err(b));
  for (int64_t i = 0; i < c->n_map; i++) c->map[i] = -2;
  for (int64_t i = 0; i < c->n_map; i++) {
    int64_t from, to = -1;
    if (!key_number(m->u.dict.keys[i], &from) || from < 0 || from >= c->n_map)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'label_map': its %lld keys must be the labels 0 to %lld",
                            (long long)c->n_map, (long long)c->n_map - 1);
    const crn_value *v = m->u.dict.vals[i];
    if (!crn_v_is_none(v) && (!crn_v_to_int(v, &to) || to < 0 || to > INT32_MAX))
      return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'label_map': label %lld must become a label or None",
                            (long long)from);
    c->map[from] = (int32_t)to;
  }
  for (int64_t i = 0; i < c->n_map; i++)
    if (c->map[i] == -2)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "loss option 'label_map': label %lld is missing", (long long)i);
  return CRN_OK;
}

static crn_status edit_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  edit_cfg *c = loss->cfg;
  CRN_TRY(crn_sequences_check(b, l, loss, c->ctc_decode > 0));
  return edit_label_map(b, l, c);
}

static crn_status apply_map(crn_exec *x, crn_layer *l, const edit_cfg *c, crn_tensor **labels, crn_tensor **lens) {
  crn_run *r = crn_exec_run(x);
  if (!c->map || !*labels || !*lens) return CRN_OK;
  const int64_t B = (*labels)->shape[0], T = (*labels)->shape[1];
  crn_tensor *out = crn_t_zeros(r, CRN_I32, 2, (*labels)->shape), *n = crn_t_zeros(r, CRN_I32, 1, &B);
  if (!out || !n) return r->err->code;
  for (int64_t b = 0; b < B; b++)
    for (int64_t t = 0; t < crn_t_i32(*lens)[b]; t++) {
      const int32_t a = crn_t_i32(*labels)[b * T + t];
      if (a < 0 || a >= c->n_map)
        return crn_exec_fail(x, l, "label %d is not in label_map (0 to %lld)", (int)a, (long long)c->n_map - 1);
      if (c->map[a] >= 0) crn_t_i32(out)[b * T + crn_t_i32(n)[b]++] = c->map[a];
    }
  *labels = out;
  *lens = n;
  return CRN_OK;
}

static crn_status edit_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  const edit_cfg *c = loss->cfg;
  crn_run *r = crn_exec_run(x);
  crn_tensor *a, *a_lens = NULL, *b, *b_lens;
  if (c->ctc_decode) {
    crn_tensor *lens, *z = crn_sequences_scores(x, io->output, c->output_in_log_space, &lens);
    a = z ? crn_ctc_decode(r, crn_t_stop_gradient(r, z), lens, z->shape[2] - 1, 100, &a_lens) : NULL;
    if (!a) return r->err->code;
  } else {
    CRN_TRY(crn_sequences_labels(x, l, io->output, &a, &a_lens));
  }
  CRN_TRY(crn_sequences_labels(x, l, io->target, &b, &b_lens));
  CRN_TRY(apply_map(x, l, c, &a, &a_lens));
  CRN_TRY(apply_map(x, l, c, &b, &b_lens));
  io->error = crn_edit_distance(r, a, a_lens, b, b_lens);
  return io->error ? CRN_OK : r->err->code;
}

/* ---- bleu ---- */

enum { BLEU_ORDER = 4 };

static bool same_gram(const int32_t *a, const int32_t *b, int n) { return !memcmp(a, b, (size_t)n * sizeof *a); }

/* How many of the hypothesis' n-grams the reference has, each counted as often as it is there at most. */
static int64_t clipped_matches(const int32_t *hyp, int64_t nh, const int32_t *ref, int64_t nr, int n) {
  int64_t matches = 0;
  for (int64_t i = 0; i + n <= nh; i++) {
    int64_t in_hyp = 0, in_ref = 0; /* occurrences up to here; all in the reference */
    for (int64_t k = 0; k <= i; k++) in_hyp += same_gram(hyp + k, hyp + i, n);
    for (int64_t k = 0; k + n <= nr && in_ref < in_hyp; k++) in_ref += same_gram(ref + k, hyp + i, n);
    matches += in_ref >= in_hyp;
  }
  return matches;
}

static double bleu_of(const int32_t *hyp, int64_t nh, const int32_t *ref, int64_t nr) {
  double log_product = 0, halves = 1;
  if (nh == 0) return 0;
  for (int n = 1; n <= BLEU_ORDER; n++) {
    const int64_t possible = nh - n + 1;
    if (possible <= 0) continue;
    const int64_t matches = clipped_matches(hyp, nh, ref, nr, n);
    if (matches == 0) halves /= 2;
    log_product += log((matches ? (double)matches : halves) / (double)possible);
  }
  const double ratio = (double)nh / (double)nr;
  return exp(log_product / BLEU_ORDER) * (ratio < 1 ? exp(1 - 1 / ratio) : 1);
}

static crn_status bleu_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  return crn_sequences_check(b, l, loss, false);
}

static crn_status bleu_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_run *r = crn_exec_run(x);
  crn_tensor *hyp, *hyp_lens, *ref, *ref_lens;
  (void)loss;
  CRN_TRY(crn_sequences_labels(x, l, io->output, &hyp, &hyp_lens));
  CRN_TRY(crn_sequences_labels(x, l, io->target, &ref, &ref_lens));
  if (hyp->shape[0] != ref->shape[0])
    return crn_exec_fail(x, l, "the output has %lld sequences, but the target has %lld", (long long)hyp->shape[0],
                         (long long)ref->shape[0]);
  crn_tensor *error = crn_t_zeros(r, CRN_F64, 1, hyp->shape);
  if (!error) return r->err->code;
  for (int64_t b = 0; b < hyp->shape[0]; b++) {
    if (crn_t_i32(ref_lens)[b] <= 0) return crn_exec_fail(x, l, "the target of sequence %lld is empty", (long long)b);
    crn_t_f64(error)[b] = -bleu_of(crn_t_i32(hyp) + b * hyp->shape[1], crn_t_i32(hyp_lens)[b],
                                   crn_t_i32(ref) + b * ref->shape[1], crn_t_i32(ref_lens)[b]);
  }
  io->error = error;
  return CRN_OK;
}

const crn_loss_desc crn_losses_sequence[] = {{.name = "edit_distance",
                                              .doc = "Counts edits between label sequences; an error only.",
                                              .opts = edit_opts,
                                              .cfg_size = sizeof(edit_cfg),
                                              .flags = CRN_LOSS_NEEDS_TARGET | CRN_LOSS_RECURRENT,
                                              .output_dim = edit_output_dim,
                                              .check = edit_check,
                                              .compute = edit_compute},
                                             {.name = "bleu",
                                              .doc = "Takes minus the BLEU score of label sequences; an error only.",
                                              .flags = CRN_LOSS_NEEDS_TARGET | CRN_LOSS_RECURRENT,
                                              .check = bleu_check,
                                              .compute = bleu_compute},
                                             {.name = NULL}};
