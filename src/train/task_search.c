/* SPDX-License-Identifier: Apache-2.0
 *
 * Task search: beam search over a dataset, hypotheses as text into the log and into search_output_file.
 *
 * With an output file the longest sequences come first, so that a too large batch shows at once; the file is written in
 * the order of the corpus.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/engine.h"
#include "train/search_text.h"

enum { MAX_LAYERS = 16 };

typedef struct searcher {
  crn_engine *e;
  crn_dataset *data;
  const char *file, *format; /* file NULL: only the log */
  bool do_eval, several;
  int64_t nbest; /* 0: what the layer gives */
  struct {
    crn_text_source text;
    const crn_layer *read; /* whose value is taken: the layer, or what it decides upon */
    const char *name;
  } layers[MAX_LAYERS];
  int n_layers;
  crn_search_result **results; /* in order of the search; memory of the engine's arena */
  int64_t n_results, cap_results;
} searcher;

/* ---- what to search -------------------------------------------------------------------------------------------------
 */

static crn_status add_layer(searcher *s, const char *name, crn_err *err) {
  crn_engine *e = s->e;
  const crn_layer *l;
  CRN_TRY(crn_engine_output_layer(e->eval_net, name, "search_output_layer", &l, err));
  if (s->n_layers == MAX_LAYERS)
    return crn_fail(err, CRN_E_CONFIG, "key 'search_output_layer': more than %d layers", MAX_LAYERS);
  const int i = s->n_layers++;
  s->layers[i].name = name;
  s->layers[i].read = s->nbest && !strcmp(l->desc->name, "decide") ? l->src[0] : l;
  CRN_TRY(crn_text_source_init(e, e->eval_net, l, s->data, &s->layers[i].text, err));
  crn_exec_keep(e->eval_exec, s->layers[i].read);
  if (s->file && l->out.sparse && !s->layers[i].text.vocab)
    return crn_fail(err, CRN_E_CONFIG,
                    "layer '%s': no vocabulary for its labels, so there is no text for search_output_file (give "
                    "extern_data's key a 'vocab', or the dataset labels)",
                    name);
  const crn_beam_sig *beam = &s->layers[i].read->out.beam;
  if (s->nbest && !beam->choice)
    crn_warnf(&e->log, "layer '%s' has no beam: it gives one hypothesis", name);
  else if (s->nbest > beam->size)
    crn_warnf(&e->log, "layer '%s' has a beam of %lld: there are no %lld hypotheses", name, (long long)beam->size,
              (long long)s->nbest);
  if (l->out.beam.choice)
    crn_logf(&e->log, 3, "Given output '%s' has beam of choice '%s', size %lld.", name, l->out.beam.choice->path,
             (long long)l->out.beam.size);
  else
    crn_logf(&e->log, 3, "Given output '%s' is after decision (no beam).", name);
  return CRN_OK;
}

static int by_layer_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static crn_status read_layers(searcher *s, crn_err *err) {
  const crn_value *v = crn_v_get(s->e->values, "search_output_layer");
  const char *names[MAX_LAYERS] = {"output"};
  size_t n = 1;
  if (crn_v_is_str(v))
    names[0] = crn_v_cstr(v);
  else if (crn_v_is_seq(v)) {
    s->several = true;
    n = crn_v_len(v);
    if (n == 0 || n > MAX_LAYERS)
      return crn_config_fail(s->e->config, "search_output_layer", err, "expected 1 to %d layers", MAX_LAYERS);
    for (size_t i = 0; i < n; i++)
      if (!(names[i] = crn_v_cstr(crn_v_at(v, i))))
        return crn_config_fail(s->e->config, "search_output_layer", err, "expected names of layers");
    qsort(names, n, sizeof *names, by_layer_name);
  } else if (!crn_v_is_none(v))
    return crn_config_fail(s->e->config, "search_output_layer", err, "expected a name or a list of names");
  if (s->several && s->file && strcmp(s->format, "py") != 0)
    return crn_config_fail(s->e->config, "search_output_layer", err,
                           "several layers need search_output_file_format \"py\"");
  for (size_t i = 0; i < n; i++) CRN_TRY(add_layer(s, names[i], err));
  return CRN_OK;
}

static crn_status read_options(searcher *s, crn_err *err) {
  crn_config *c = s->e->config;
  const char *file;
  CRN_TRY(crn_config_bool(c, "search_do_eval", true, &s->do_eval, err));
  CRN_TRY(crn_config_str(c, "search_output_file", NULL, &file, err));
  CRN_TRY(crn_config_str(c, "search_output_file_format", "txt", &s->format, err));
  if (strcmp(s->format, "txt") != 0 && strcmp(s->format, "py") != 0)
    return crn_config_fail(c, "search_output_file_format", err, "expected \"txt\" or \"py\", got \"%s\"", s->format);
  if (!file || !*file) return CRN_OK;
  return crn_engine_output_file(s->e, "search_output_file", file, false, &s->file, err);
}

/* ---- one batch ------------------------------------------------------------------------------------------------------
 */

static int64_t frames_of(crn_run *r, const crn_data *d, int64_t row) {
  if (d->v->rank < 2) return 1;
  const crn_tensor *lens = crn_tmpl_batch_axis(&d->t) == 0 && d->len[1] ? crn_data_lens(r, d, 1) : NULL;
  const int64_t n = lens ? (int64_t)crn_t_get(lens, row) : d->v->shape[1];
  return n < d->v->shape[1] ? n : d->v->shape[1];
}

typedef struct scored_row {
  double score;
  int64_t row;
} scored_row;

static int by_score(const void *a, const void *b) {
  const scored_row *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->row < y->row ? -1 : x->row > y->row;
}

/* Text of a row; the log's line about its numbers is appended to numbers. */
static crn_status row_text(searcher *s, int layer, const crn_data *d, int64_t row, crn_str *numbers, const char **out,
                           crn_err *err) {
  const crn_vocab *v = s->layers[layer].text.vocab;
  const int64_t n = frames_of(&s->e->eval_exec->run, d, row);
  crn_str text = {0};
  crn_status st = CRN_OK;
  crn_text_array(d->v, row, n, numbers);
  if (d->t.sparse && v)
    st = crn_text_labels(v, d->v, row, n, &text, err);
  else
    crn_text_array(d->v, row, n, &text);
  *out = crn_arena_strdup(&s->e->arena, crn_str_get(&text));
  crn_str_free(&text);
  return st != CRN_OK ? st : *out ? CRN_OK : crn_err_memory(err);
}

static crn_status take_sequence(searcher *s, int layer, const crn_data *d, int64_t b, crn_hypotheses *h,
                                crn_str *numbers, crn_err *err) {
  const int64_t K = d->beam ? d->beam->K : 1;
  scored_row *rows = CRN_ARENA_ARRAY(&s->e->arena, scored_row, K);
  h->layer = s->layers[layer].name;
  h->has_beam = d->beam != NULL;
  h->list = CRN_ARENA_ARRAY(&s->e->arena, crn_hypothesis, K);
  if (!rows || !h->list) return crn_err_memory(err);
  for (int64_t k = 0; k < K; k++)
    rows[k] = (scored_row){d->beam ? crn_t_get(d->beam->scores, b * K + k) : 0, b * K + k};
  if (s->nbest && K > 1) qsort(rows, (size_t)K, sizeof *rows, by_score);
  h->n = s->nbest && s->nbest < K ? s->nbest : K;
  if (h->has_beam) crn_str_addc(numbers, '[');
  for (int64_t k = 0; k < h->n; k++) {
    if (k) crn_str_add(numbers, ", ");
    h->list[k].score = rows[k].score;
    CRN_TRY(row_text(s, layer, d, rows[k].row, numbers, &h->list[k].text, err));
  }
  if (h->has_beam) crn_str_addc(numbers, ']');
  return CRN_OK;
}

static crn_status reference_text(const searcher *s, int layer, const crn_batch *b, int64_t i, crn_str *out,
                                 crn_err *err) {
  const crn_text_source *t = &s->layers[layer].text;
  const crn_batch_array *a = t->target && t->target_vocab ? crn_batch_find(b, t->target) : NULL;
  if (!a || a->rank > 2 || a->dtype != CRN_NT_I32) return CRN_OK;
  const int64_t n = a->rank == 1 ? 1 : a->lengths ? a->lengths[i] : a->shape[1];
  crn_str_add(out, "  ref: ");
  return crn_vocab_decode(t->target_vocab, (const int32_t *)a->data + (a->rank == 1 ? i : i * a->shape[1]), n, out,
                          err);
}

static crn_status log_sequence(const searcher *s, const crn_batch *b, int64_t i, const crn_search_result *r, int layer,
                               const char *numbers, crn_err *err) {
  const crn_hypotheses *h = &r->layers[layer];
  const crn_log *log = &s->e->log;
  crn_str ref = {0};
  if (log->verbosity < 4) return CRN_OK;
  crn_logf(log, 4, "seq_idx: %lld, seq_tag: '%s', output%s '%s': %s", (long long)r->seq, r->tag, h->has_beam ? "s" : "",
           h->layer, numbers);
  crn_status st = s->do_eval ? reference_text(s, layer, b, i, &ref, err) : CRN_OK;
  if (ref.len) crn_logf(log, 4, "%s", crn_str_get(&ref));
  crn_str_free(&ref);
  if (!s->layers[layer].text.vocab) return st;
  if (!h->has_beam) crn_logf(log, 4, "  hyp: %s", h->list[0].text);
  for (int64_t k = 0; h->has_beam && k < h->n; k++)
    crn_logf(log, 4, "  hyp %lld, score %f: %s", (long long)k, h->list[k].score, h->list[k].text);
  return st;
}

static crn_status new_result(searcher *s, const crn_batch *b, int64_t i, crn_search_result **out, crn_err *err) {
  if (s->n_results == s->cap_results) {
    const int64_t cap = s->cap_results ? 2 * s->cap_results : 64;
    crn_search_result **p = crn_realloc(s->results, sizeof *p * (size_t)cap);
    if (!p) return crn_err_memory(err);
    s->results = p;
    s->cap_results = cap;
  }
  crn_search_result *r = CRN_ARENA_NEW(&s->e->arena, crn_search_result);
  if (!r) return crn_err_memory(err);
  *r = (crn_search_result){.tag = crn_arena_strdup(&s->e->arena, b->tags[i]),
                           .seq = b->seq_idx[i],
                           .n_layers = s->n_layers,
                           .layers = CRN_ARENA_ARRAY(&s->e->arena, crn_hypotheses, s->n_layers)};
  if (!r->tag || !r->layers) return crn_err_memory(err);
  s->results[s->n_results++] = *out = r;
  return CRN_OK;
}

static crn_status each_batch(void *user, crn_engine *e, const crn_batch *b, crn_err *err) {
  searcher *s = user;
  const crn_data *values[MAX_LAYERS];
  for (int l = 0; l < s->n_layers; l++) CRN_TRY(crn_engine_output(e->eval_exec, s->layers[l].read, b, &values[l], err));
  for (int64_t i = 0; i < b->n_seqs; i++) {
    crn_search_result *r = NULL;
    CRN_TRY(new_result(s, b, i, &r, err));
    for (int l = 0; l < s->n_layers; l++) {
      crn_str numbers = {0};
      crn_status st = take_sequence(s, l, values[l], i, &r->layers[l], &numbers, err);
      if (st == CRN_OK) st = log_sequence(s, b, i, r, l, crn_str_get(&numbers), err);
      crn_str_free(&numbers);
      CRN_TRY(st);
    }
  }
  return CRN_OK;
}

/* ---- the task -------------------------------------------------------------------------------------------------------
 */

static int by_corpus(const void *a, const void *b) {
  const crn_search_result *x = *(crn_search_result *const *)a, *y = *(crn_search_result *const *)b;
  return x->corpus < y->corpus ? -1 : x->corpus > y->corpus;
}

static crn_status write_file(searcher *s, crn_err *err) {
  crn_str text = {0};
  const bool known = crn_dataset_has_corpus_index(s->data);
  for (int64_t i = 0; i < s->n_results; i++)
    s->results[i]->corpus = known ? crn_dataset_corpus_index(s->data, s->results[i]->seq) : s->results[i]->seq;
  if (s->n_results) qsort(s->results, (size_t)s->n_results, sizeof *s->results, by_corpus);
  const crn_search_result **list = CRN_ARENA_ARRAY(&s->e->arena, const crn_search_result *, s->n_results + 1);
  if (!list) return crn_err_memory(err);
  for (int64_t i = 0; i < s->n_results; i++) list[i] = s->results[i];
  crn_search_file_text(list, s->n_results, s->several, !strcmp(s->format, "py"), &text);
  crn_status st = crn_text_write(s->file, &text, err);
  crn_str_free(&text);
  return st;
}

static crn_status check_complete(const searcher *s, crn_err *err) {
  const int64_t n = crn_dataset_num_seqs(s->data);
  if (n < 0 || n == s->n_results) return CRN_OK;
  return crn_fail(err, CRN_E_DATA, "%lld of the dataset's %lld sequences were searched", (long long)s->n_results,
                  (long long)n);
}

static void log_end(const searcher *s, const crn_pass *p) {
  crn_str score = {0}, error = {0};
  crn_scores_format(p->scores, CRN_SCORE_COST, &score);
  crn_scores_format(p->scores, CRN_SCORE_ERROR, &error);
  crn_logf(&s->e->log, 1, "Search done. Num steps %lld, Final: score %s error %s", (long long)p->n_steps,
           score.len ? crn_str_get(&score) : "None", error.len ? crn_str_get(&error) : "None");
  crn_str_free(&score);
  crn_str_free(&error);
}

static crn_status run_search(searcher *s, crn_err *err) {
  crn_engine *e = s->e;
  crn_scores scores = {0};
  char label[64];
  CRN_TRY(read_options(s, err));
  CRN_TRY(crn_engine_dataset(e, "search_data", &s->data, err));
  if (!s->data)
    return crn_fail(err, CRN_E_CONFIG,
                    "%s: task search has no data: set search_data (\"train\", \"dev\", \"eval\" or a dataset)",
                    crn_config_file(e->config));
  CRN_TRY(crn_engine_extern_data(e, s->data, err));
  CRN_TRY(crn_engine_eval_net(e, (crn_net_mode){.eval = s->do_eval, .search = true}, err));
  CRN_TRY(crn_engine_load_for_task(e, e->eval_net, err));
  crn_store_read_only(e->store);
  crn_logf(&e->log, 3, "Search with network on %s.", crn_dataset_name(s->data));
  CRN_TRY(read_layers(s, err));
  if (s->file)
    crn_logf(&e->log, 3, "Will write outputs to: %s", s->file);
  else
    crn_logf(&e->log, 3, "No search_output_file is given: hypotheses are only in the log, from log_verbosity 4 on.");
  const bool longest = s->file && crn_dataset_has_corpus_index(s->data) && crn_dataset_has_lengths(s->data);
  CRN_TRY(crn_dataset_set_order(s->data, longest ? "sorted_reverse" : "default", err));
  CRN_TRY(crn_dataset_begin_epoch(s->data, e->epoch, NULL, err));
  CRN_TRY(crn_engine_check_data(e->eval_net, s->data, err));
  (void)snprintf(label, sizeof label, "epoch %lld search", (long long)e->epoch);
  crn_pass p = {.exec = e->eval_exec,
                .net = e->eval_net,
                .dataset = s->data,
                .use = CRN_BATCH_SEARCH,
                .label = label,
                .scores = &scores,
                .each = each_batch,
                .user = s};
  crn_status st = crn_engine_pass(e, &p, err);
  if (st == CRN_OK) st = check_complete(s, err);
  if (st == CRN_OK && s->file) st = write_file(s, err);
  if (st == CRN_OK) log_end(s, &p);
  crn_scores_free(&scores);
  return st;
}

crn_status crn_task_search_nbest(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, int64_t nbest,
                                 crn_err *err) {
  crn_engine e;
  searcher s = {.e = &e, .nbest = nbest};
  crn_status st = crn_engine_init(&e, config, log, hooks, err);
  if (st == CRN_OK) st = run_search(&s, err);
  for (int i = 0; i < s.n_layers; i++) crn_text_source_free(&s.layers[i].text);
  crn_free(s.results);
  crn_engine_deinit(&e);
  crn_dataset_free(s.data);
  return st;
}

crn_status crn_task_search(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err) {
  return crn_task_search_nbest(config, log, hooks, 0, err);
}
