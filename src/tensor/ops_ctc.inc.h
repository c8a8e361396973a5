/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading scores and writing shares of ops_ctc.c; included once per number type.
 */

static int32_t RNAME(symbol_label)(const ctc_job *j, int64_t b, int64_t symbol) {
  return symbol == 0 ? (int32_t)j->a.blank : crn_t_i32(j->n->in[CTC_LABELS])[b * j->S + symbol - 1];
}

static void RNAME(ctc_sequence)(const ctc_job *j, int64_t b, double *work) {
  const R *x = crn_t_data(j->n->in[CTC_LOGP]);
  int64_t T = crn_t_i32(j->n->in[CTC_LENS])[b], S = crn_t_i32(j->n->in[CTC_LABEL_LENS])[b], M = S + 1;
  double *emit = work, *q = emit + j->T * (j->S + 1), *paths = q + j->T * (j->S + 1);
  double *tables = paths + crn_ctc_work_size(j->T, j->S);
  int64_t states = 2 * j->S + 1;
  ctc_paths p = {.T = T, .emit = emit};
  crn_ctc_topology(&p, S, crn_t_i32(j->n->in[CTC_LABELS]) + b * j->S, j->a.loop, (int32_t *)tables,
                   (int32_t *)(tables + states), (uint8_t *)(tables + 2 * states));
  for (int64_t t = 0; t < T; t++)
    for (int64_t s = 0; s < M; s++) emit[t * M + s] = (double)x[(t * j->B + b) * j->V + RNAME(symbol_label)(j, b, s)];
  if (!j->kept && !j->q) q = NULL;
  double score = j->a.viterbi ? crn_ctc_best(&p, paths, q) : crn_ctc_sum(&p, paths, q);
  ((R *)j->loss)[b] = (R)(0 - score);
  if (j->kept)
    for (int64_t t = 0; t < T; t++)
      for (int64_t s = 0; s < M; s++) ((R *)j->kept)[(b * j->T + t) * (j->S + 1) + s] = (R)q[t * M + s];
  if (j->q)
    for (int64_t t = 0; t < T; t++)
      for (int64_t s = 0; s < M; s++)
        ((R *)j->q)[(t * j->B + b) * j->V + RNAME(symbol_label)(j, b, s)] += (R)q[t * M + s];
}

static void RNAME(ctc_sequences)(void *arg, int64_t task) {
  const ctc_job *j = arg;
  for (int64_t b = task; b < j->B; b += j->n_tasks) RNAME(ctc_sequence)(j, b, j->work + task * j->task_work);
}

static void RNAME(ctc_back)(const ctc_job *j, const void *dy, void *d_x) {
  const int32_t *lens = crn_t_i32(j->n->in[CTC_LENS]), *label_lens = crn_t_i32(j->n->in[CTC_LABEL_LENS]);
  for (int64_t b = 0; b < j->B; b++)
    for (int64_t t = 0; t < lens[b]; t++) {
      const R *share = (const R *)j->kept + (b * j->T + t) * (j->S + 1);
      R *to = (R *)d_x + (t * j->B + b) * j->V, weight = ((const R *)dy)[b];
      for (int64_t s = 0; s <= label_lens[b]; s++) to[RNAME(symbol_label)(j, b, s)] -= weight * share[s];
    }
}
