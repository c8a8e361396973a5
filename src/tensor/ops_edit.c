/* SPDX-License-Identifier: Apache-2.0
 *
 * Levenshtein distance of sequences of labels: insertions, deletions and substitutions cost 1. No gradient.
 */
#include "tensor/ops.h"
#include "tensor/split.h"

enum { EDIT_A, EDIT_A_LENS, EDIT_B, EDIT_B_LENS };

static crn_status edit_infer(crn_run *r, crn_node *n) {
  char ba[120], bb[120];
  for (int i = EDIT_A; i <= EDIT_B; i += 2)
    if (n->in[i]->rank != 2 || !crn_dtype_is_int(n->in[i]->dtype))
      return crn_op_fail(r, n, "needs integer labels with 2 axes, got %s", crn_t_describe(n->in[i], ba, sizeof ba));
  CRN_TRY(crn_check_i32(r, n, EDIT_A_LENS, 1));
  CRN_TRY(crn_check_i32(r, n, EDIT_B_LENS, 1));
  int64_t B = n->in[EDIT_A]->shape[0];
  if (n->in[EDIT_B]->shape[0] != B || n->in[EDIT_A_LENS]->shape[0] != B || n->in[EDIT_B_LENS]->shape[0] != B)
    return crn_op_fail(r, n, "numbers of sequences differ: %s, %s and their lengths",
                       crn_t_describe(n->in[EDIT_A], ba, sizeof ba), crn_t_describe(n->in[EDIT_B], bb, sizeof bb));
  return crn_node_output(r, n, 0, CRN_I32, 1, &B);
}

static crn_status check_lengths(crn_run *r, const crn_node *n, int i) {
  const int32_t *lens = crn_t_i32(n->in[i + 1]);
  for (int64_t b = 0; b < n->in[i]->shape[0]; b++)
    if (lens[b] < 0 || lens[b] > n->in[i]->shape[1])
      return crn_op_fail(r, n, "length %d of sequence %lld is outside of 0 to %lld", (int)lens[b], (long long)b,
                         (long long)n->in[i]->shape[1]);
  return CRN_OK;
}

/* Distance of a [na] and b [nb]; row [nb + 1] holds the distances of a's beginning to b's beginnings. */
static int32_t distance(const int64_t *a, int64_t na, const int64_t *b, int64_t nb, int32_t *row) {
  for (int64_t j = 0; j <= nb; j++) row[j] = (int32_t)j;
  for (int64_t i = 0; i < na; i++) {
    int32_t diagonal = row[0];
    row[0] = (int32_t)i + 1;
    for (int64_t j = 0; j < nb; j++) {
      int32_t best = diagonal + (a[i] != b[j]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
      diagonal = row[j + 1];
      row[j + 1] = best;
    }
  }
  return row[nb];
}

static void read_labels(const crn_tensor *t, int64_t b, int64_t n, int64_t *to) {
  int64_t at = b * t->shape[1];
  for (int64_t i = 0; i < n; i++) {
    switch (t->dtype) {
    case CRN_I32:
      to[i] = crn_t_i32(t)[at + i];
      break;
    case CRN_I64:
      to[i] = crn_t_i64(t)[at + i];
      break;
    default:
      to[i] = (int64_t)crn_t_get(t, at + i);
      break; /* 8 and 16 bits */
    }
  }
}

static crn_status edit_run(crn_run *r, crn_node *n) {
  CRN_TRY(check_lengths(r, n, EDIT_A));
  CRN_TRY(check_lengths(r, n, EDIT_B));
  int64_t Ta = n->in[EDIT_A]->shape[1], Tb = n->in[EDIT_B]->shape[1];
  int64_t *a = crn_scratch(r, (size_t)(Ta + 1) * sizeof *a), *b = crn_scratch(r, (size_t)(Tb + 1) * sizeof *b);
  int32_t *row = crn_scratch(r, (size_t)(Tb + 1) * sizeof *row);
  if (!a || !b || !row) return crn_err_memory(r->err);
  const int32_t *a_lens = crn_t_i32(n->in[EDIT_A_LENS]), *b_lens = crn_t_i32(n->in[EDIT_B_LENS]);
  for (int64_t s = 0; s < n->in[EDIT_A]->shape[0]; s++) {
    read_labels(n->in[EDIT_A], s, a_lens[s], a);
    read_labels(n->in[EDIT_B], s, b_lens[s], b);
    crn_t_i32(n->out[0])[s] = distance(a, a_lens[s], b, b_lens[s], row);
  }
  return CRN_OK;
}

static const crn_opdef edit_op = {.name = "edit_distance", .infer = edit_infer, .run = edit_run};

crn_tensor *crn_edit_distance(crn_run *r, crn_tensor *a, crn_tensor *a_lens, crn_tensor *b, crn_tensor *b_lens) {
  return crn_op_call(r, &edit_op, 4, 4, (crn_tensor *[]){a, a_lens, b, b_lens}, NULL, NULL);
}
