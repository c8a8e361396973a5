/* SPDX-License-Identifier: Apache-2.0
 *
 * eval_output_file_per_seq: scores and errors of one loss by sequence and by position, from its values before they are
 * summed, in the order of the corpus.
 */
#include "train/eval_by_seq.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "train/progress.h"

enum { SEQ_TAG, SEQ_LEN, SCORE, ERROR, POS_SCORE, POS_ERROR, N_FIELDS };
static const char *const field_names[] = {"seq_tag", "seq_len", "score", "error", "pos_score", "pos_error"};

typedef struct seq_result {
  const char *tag;
  int64_t seq, corpus, len;
  const float *scores, *errors; /* by position, n of them; NULL: the loss has none */
  int64_t n;
} seq_result;

struct crn_eval_by_seq {
  crn_engine *e;
  const char *path, *loss_name;
  int fields[N_FIELDS];
  size_t n_fields;
  bool py;
  int loss; /* index */
  seq_result *results;
  int64_t n_results, cap_results;
};

/* ---- options ---- */

static crn_status read_field(crn_eval_by_seq *s, const crn_value *v, crn_err *err) {
  const char *name = crn_v_cstr(v);
  for (int i = 0; name && i < N_FIELDS; i++)
    if (!strcmp(name, field_names[i]) && s->n_fields < N_FIELDS) {
      s->fields[s->n_fields++] = i;
      return CRN_OK;
    }
  const char *near = name ? crn_nearest(name, field_names, N_FIELDS) : NULL;
  crn_config_fail(s->e->config, "output_per_seq_format", err,
                  "unknown field '%s'; there are seq_tag, seq_len, score, error, pos_score, pos_error",
                  name ? name : crn_v_kind_name(v));
  if (near) crn_err_append(err, "; did you mean '%s'?", near);
  return CRN_E_CONFIG;
}

static crn_status read_fields(crn_eval_by_seq *s, crn_err *err) {
  crn_value *list;
  CRN_TRY(crn_config_list(s->e->config, "output_per_seq_format", &list, err));
  if (!list) s->fields[s->n_fields++] = SCORE;
  for (size_t i = 0; list && i < crn_v_len(list); i++) CRN_TRY(read_field(s, crn_v_at(list, i), err));
  return CRN_OK;
}

crn_status crn_eval_by_seq_new(crn_engine *e, crn_eval_by_seq **out, crn_err *err) {
  const char *file, *format;
  *out = NULL;
  CRN_TRY(crn_config_str(e->config, "eval_output_file_per_seq", NULL, &file, err));
  if (!file || !*file) return CRN_OK;
  crn_eval_by_seq *s = CRN_ARENA_NEW(&e->arena, crn_eval_by_seq);
  if (!s) return crn_err_memory(err);
  s->e = e;
  CRN_TRY(crn_config_str(e->config, "loss_name", NULL, &s->loss_name, err));
  if (!s->loss_name)
    return crn_config_fail(e->config, "loss_name", err,
                           "is missing: eval_output_file_per_seq needs the name of a loss");
  CRN_TRY(crn_config_str(e->config, "output_per_seq_file_format", "txt", &format, err));
  s->py = !strcmp(format, "py");
  if (!s->py && strcmp(format, "txt") != 0)
    return crn_config_fail(e->config, "output_per_seq_file_format", err, "expected \"txt\" or \"py\", got \"%s\"",
                           format);
  CRN_TRY(read_fields(s, err));
  CRN_TRY(crn_engine_output_file(e, "eval_output_file_per_seq", file, true, &s->path, err));
  *out = s;
  return CRN_OK;
}

static crn_status unknown_loss(const crn_eval_by_seq *s, const crn_net *net, crn_err *err) {
  crn_str all = {0};
  for (int i = 0; i < net->n_losses; i++) crn_str_addf(&all, "%s'%s'", i ? ", " : "", net->losses[i]->name);
  const crn_status st = crn_config_fail(s->e->config, "loss_name", err, "the network has no loss '%s'; there are %s",
                                        s->loss_name, crn_str_get(&all));
  crn_str_free(&all);
  return st;
}

crn_status crn_eval_by_seq_start(crn_eval_by_seq *s, crn_err *err) {
  const crn_net *net = s->e->eval_net;
  for (s->loss = 0; s->loss < net->n_losses && strcmp(net->losses[s->loss]->name, s->loss_name) != 0;) s->loss++;
  if (s->loss == net->n_losses) return unknown_loss(s, net, err);
  s->e->eval_exec->keep_loss_parts = true;
  return CRN_OK;
}

/* ---- one batch ---- */

/* Frames that count: of the values, else of the target, else of the first key that has any. */
static int64_t length_of(const crn_eval_by_seq *s, const crn_loss_parts *p, const crn_batch *b, int64_t i) {
  if (p->lens) return (int64_t)crn_t_get(p->lens, i);
  const crn_loss *loss = s->e->eval_net->losses[s->loss];
  const char *path = loss->target ? loss->target->path : "";
  const crn_batch_array *a = !strncmp(path, "data:", 5) ? crn_batch_find(b, path + 5) : NULL;
  for (size_t k = 0; !(a && a->lengths) && k < b->n_arrays; k++) a = &b->arrays[k];
  return a && a->lengths ? a->lengths[i] : 1;
}

/* Row i of [B, T] or [B]. */
static const float *row_of(crn_arena *a, const crn_tensor *v, int64_t i, int64_t n) {
  float *row = v ? CRN_ARENA_ARRAY(a, float, n + 1) : NULL;
  for (int64_t t = 0; row && t < n; t++) row[t] = (float)crn_t_get(v, v->rank > 1 ? i * v->shape[1] + t : i);
  return row;
}

static crn_status check_fields(const crn_eval_by_seq *s, const crn_loss_parts *p, crn_err *err) {
  for (size_t k = 0; k < s->n_fields; k++) {
    const int f = s->fields[k];
    const bool positions = f == POS_SCORE || f == POS_ERROR;
    if (f < SCORE || ((f == SCORE || f == POS_SCORE ? p->value : p->error) && (!positions || p->lens))) continue;
    return crn_config_fail(s->e->config, "output_per_seq_format", err, "loss '%s' has no %s by %s", s->loss_name,
                           f == SCORE || f == POS_SCORE ? "score" : "error", positions ? "position" : "sequence");
  }
  return CRN_OK;
}

crn_status crn_eval_by_seq_batch(void *user, crn_engine *e, const crn_batch *b, crn_err *err) {
  crn_eval_by_seq *s = user;
  const crn_loss_parts *p = &e->eval_exec->loss_parts[s->loss];
  CRN_TRY(check_fields(s, p, err));
  if (s->n_results + b->n_seqs > s->cap_results) {
    const int64_t cap = 2 * s->cap_results + b->n_seqs;
    seq_result *more = CRN_ARENA_ARRAY(&e->arena, seq_result, cap);
    if (!more) return crn_err_memory(err);
    if (s->n_results) memcpy(more, s->results, sizeof *more * (size_t)s->n_results);
    s->results = more;
    s->cap_results = cap;
  }
  for (int64_t i = 0; i < b->n_seqs; i++) {
    seq_result *r = &s->results[s->n_results++];
    *r = (seq_result){.tag = crn_arena_strdup(&e->arena, b->tags[i]), .seq = b->seq_idx[i]};
    r->len = length_of(s, p, b, i);
    r->n = p->lens ? r->len : 1;
    r->scores = row_of(&e->arena, p->value, i, r->n);
    r->errors = row_of(&e->arena, p->error, i, r->n);
    if (e->arena.failed) return crn_err_memory(err);
  }
  return CRN_OK;
}

/* ---- the file ---- */

static double mean_of(const seq_result *r, const float *values) {
  double sum = 0;
  for (int64_t t = 0; t < r->n; t++) sum += (double)values[t];
  return r->len > 0 ? sum / (double)r->len : 0;
}

static void add_positions(const seq_result *r, const float *values, bool py, crn_str *out) {
  if (py) crn_str_addc(out, '[');
  for (int64_t t = 0; t < r->n; t++) {
    if (t) crn_str_add(out, py ? ", " : " ");
    crn_text_float32((double)values[t], out);
  }
  if (py) crn_str_addc(out, ']');
}

static void add_field(const seq_result *r, int field, bool py, crn_str *out) {
  const float *values = field == SCORE || field == POS_SCORE ? r->scores : r->errors;
  switch (field) {
  case SEQ_TAG:
    crn_str_addf(out, py ? "'%s'" : "%s", r->tag);
    break;
  case SEQ_LEN:
    crn_str_addf(out, "%lld", (long long)r->len);
    break;
  case SCORE:
  case ERROR:
    crn_text_float32(mean_of(r, values), out);
    break;
  default:
    add_positions(r, values, py, out);
  }
}

static void add_sequence(const crn_eval_by_seq *s, const seq_result *r, crn_str *out) {
  if (s->py) crn_str_addf(out, "'%s': {", r->tag);
  for (size_t k = 0; k < s->n_fields; k++) {
    if (k) crn_str_add(out, s->py ? ", " : ";");
    if (s->py) crn_str_addf(out, "'%s': ", field_names[s->fields[k]]);
    add_field(r, s->fields[k], s->py, out);
  }
  crn_str_add(out, s->py ? "},\n" : "\n");
}

static int by_corpus(const void *a, const void *b) {
  const seq_result *x = a, *y = b;
  return x->corpus < y->corpus ? -1 : x->corpus > y->corpus;
}

crn_status crn_eval_by_seq_write(crn_eval_by_seq *s, crn_dataset *data, crn_err *err) {
  crn_str text = {0};
  const bool known = crn_dataset_has_corpus_index(data);
  for (int64_t i = 0; i < s->n_results; i++)
    s->results[i].corpus = known ? crn_dataset_corpus_index(data, s->results[i].seq) : s->results[i].seq;
  if (s->n_results) qsort(s->results, (size_t)s->n_results, sizeof *s->results, by_corpus);
  for (int64_t i = 1; i < s->n_results; i++)
    if (s->results[i].seq == s->results[i - 1].seq)
      return crn_config_fail(s->e->config, "eval_output_file_per_seq", err, "sequence '%s' came in pieces (chunk_eval)",
                             s->results[i].tag);
  if (s->py) crn_str_add(&text, "{\n");
  for (int64_t i = 0; i < s->n_results; i++) add_sequence(s, &s->results[i], &text);
  if (s->py) crn_str_add(&text, "}\n");
  crn_status st = crn_str_ok(&text) ? crn_file_write(s->path, crn_str_get(&text), text.len, err) : crn_err_memory(err);
  crn_str_free(&text);
  return st;
}
