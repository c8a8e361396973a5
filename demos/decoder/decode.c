/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoder on top of libcreturnn: it loads a trained attention model, reads features, and drives the model's decoder
 * loop step by step with pruning of its own: a beam, and a limit on how far a hypothesis may fall behind the best one.
 * Hypotheses that have ended leave the beam, so later steps compute less. Nothing but the public header is used.
 *
 *   decode CONFIG CHECKPOINT UTTERANCES [BEAM [MARGIN]]
 *
 * UTTERANCES is text: a line "NAME FRAMES FEATURES", then FRAMES lines of so many numbers, and so on.
 */
#include <creturnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BEAM = 64, MAX_LABELS = 256, END = 0 };

typedef struct hypothesis {
  double score; /* sum of log probabilities */
  int32_t labels[MAX_LABELS];
  int n;
} hypothesis;

typedef struct pruning {
  int beam;
  double margin;
} pruning;

typedef struct utterance {
  char name[64];
  int64_t frames, features;
  float *values;
} utterance;

static int fail(const char *where, const crn_message *m) {
  fprintf(stderr, "%s: %s\n", where, m->text);
  return 1;
}

/* 1: read one, 0: end of file, -1: the file is wrong. */
static int read_utterance(FILE *in, utterance *u) {
  long frames, features;
  const int n = fscanf(in, "%63s %ld %ld", u->name, &frames, &features);
  if (n == EOF) return 0;
  if (n != 3 || frames < 1 || features < 1 || frames > 100000 || features > 10000) return -1;
  u->frames = frames;
  u->features = features;
  float *values = realloc(u->values, (size_t)(frames * features) * sizeof(float));
  if (!values) return -1;
  u->values = values;
  for (long i = 0; i < frames * features; i++)
    if (fscanf(in, "%f", &values[i]) != 1) return -1;
  return 1;
}

/* Continuations of n hypotheses by every label, the best `beam` of them sorted into (from, label, score). */
static int best_continuations(const hypothesis *active, int64_t n, const float *log_probs, int64_t n_labels, pruning p,
                              int32_t *from, int32_t *label, double *score) {
  int found = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < n_labels; k++) {
      const double s = active[i].score + (double)log_probs[i * n_labels + k];
      int at = found < p.beam ? found++ : p.beam;
      for (; at > 0 && score[at - 1] < s; at--)
        if (at < p.beam) from[at] = from[at - 1], label[at] = label[at - 1], score[at] = score[at - 1];
      if (at < p.beam) from[at] = (int32_t)i, label[at] = (int32_t)k, score[at] = s;
    }
  while (found > 1 && score[found - 1] < score[0] - p.margin) found--;
  return found;
}

/* One step: hypotheses that end compete for *best by score per label; the others become the new active ones. */
static int64_t take(const hypothesis *active, hypothesis *next, int found, int32_t *from, int32_t *label, const double *score,
                    hypothesis *best, double *best_per_label) {
  int64_t n = 0;
  for (int i = 0; i < found; i++) {
    const hypothesis *h = &active[from[i]];
    const double per_label = score[i] / (h->n + 1);
    if (label[i] == END) {
      if (per_label > *best_per_label) *best = *h, best->score = score[i], *best_per_label = per_label;
      continue;
    }
    if (h->n + 1 == MAX_LABELS) continue;
    next[n] = *h;
    next[n].score = score[i];
    next[n].labels[next[n].n++] = label[i];
    from[n] = from[i];
    label[n++] = label[i];
  }
  return n;
}

static crn_status decode(crn_session *s, const utterance *u, pruning p, hypothesis *best, crn_message *m) {
  static hypothesis beams[2][MAX_BEAM]; /* large; this program has one thread */
  hypothesis *active = beams[0], *next = beams[1], *swap;
  int32_t from[MAX_BEAM], label[MAX_BEAM];
  double score[MAX_BEAM], best_per_label = -1e30;
  const int64_t shape[3] = {1, u->frames, u->features};
  const int32_t length = (int32_t)u->frames, *lengths[1] = {&length};
  crn_status st = crn_session_input(s, "data", CRN_FLOAT32, 3, shape, u->values, 1, lengths, m);
  if (st == CRN_OK) st = crn_decoder_start(s, "output", m);
  memset(best, 0, sizeof(*best));
  active[0] = *best;
  for (int64_t step = 0; st == CRN_OK && step < u->frames; step++) {
    int64_t n, n_labels;
    const float *log_probs = crn_decoder_scores(s, &n, &n_labels);
    const int found = best_continuations(active, n, log_probs, n_labels, p, from, label, score);
    n = take(active, next, found, from, label, score, best, &best_per_label);
    swap = active, active = next, next = swap;
    /* Labels only lower a score; with as many labels as frames the best active one could still reach this much. */
    if (n == 0 || active[0].score / (double)u->frames < best_per_label || step + 1 == u->frames) break;
    st = crn_decoder_continue(s, n, from, label, m);
  }
  if (st == CRN_OK && best_per_label <= -1e30) *best = active[0]; /* none has ended */
  return st;
}

static int decode_file(crn_session *s, FILE *in, pruning p) {
  utterance u = {.values = NULL};
  crn_message m;
  hypothesis best;
  int more, result = 0;
  while (!result && (more = read_utterance(in, &u)) > 0) {
    if (decode(s, &u, p, &best, &m) != CRN_OK) {
      result = fail(u.name, &m);
      break;
    }
    printf("%s:", u.name);
    for (int i = 0; i < best.n; i++) printf(" %d", best.labels[i]);
    printf("\n");
  }
  if (!result && more < 0) {
    fprintf(stderr, "the file of utterances is damaged after '%s'\n", u.name);
    result = 1;
  }
  free(u.values);
  return result;
}

int main(int argc, char **argv) {
  if (argc < 4 || argc > 6) {
    fprintf(stderr, "usage: decode CONFIG CHECKPOINT UTTERANCES [BEAM [MARGIN]]\n");
    return 1;
  }
  const pruning p = {argc > 4 ? (int)strtol(argv[4], NULL, 10) : 4, argc > 5 ? strtod(argv[5], NULL) : 10.0};
  if (p.beam < 1 || p.beam > MAX_BEAM || !(p.margin > 0)) {
    fprintf(stderr, "the beam must be 1 to %d, the margin positive\n", MAX_BEAM);
    return 1;
  }
  FILE *in = fopen(argv[3], "r");
  if (!in) {
    perror(argv[3]);
    return 1;
  }
  crn_message m;
  crn_model *model = NULL;
  crn_session *session = NULL;
  crn_model_options o = crn_model_defaults();
  o.use = CRN_USE_SEARCH;
  int result = 0;
  if (crn_model_load(argv[1], argv[2], &o, &model, &m) != CRN_OK) result = fail("loading", &m);
  else if (crn_session_new(model, NULL, &session, &m) != CRN_OK) result = fail("making a session", &m);
  if (!result) result = decode_file(session, in, p);
  crn_session_free(session);
  crn_model_free(model);
  (void)fclose(in);
  return result;
}
