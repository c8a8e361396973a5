/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn: runs RETURNN network dicts and configs natively. The public interface for programs that use a trained model.
 *
 *   crn_message m;
 *   crn_model *model;
 *   crn_session *s;
 *   crn_model_options o = crn_model_defaults();
 *   if (crn_model_load("net.config", "net.epoch.025", &o, &model, &m) != CRN_OK) { puts(m.text); return 1; }
 *   crn_session_new(model, NULL, &s, &m);
 *   int64_t shape[3] = {1, n_frames, 40};
 *   int32_t length = (int32_t)n_frames;
 *   const int32_t *lengths[1] = {&length};
 *   crn_session_input(s, "data", CRN_FLOAT32, 3, shape, features, 1, lengths, &m);
 *   crn_session_run(s, &m);
 *   crn_output out;
 *   crn_session_output(s, "output", &out, &m);      // out.data, out.rank, out.shape, out.lengths
 *   crn_session_free(s);
 *   crn_model_free(model);
 *
 * A model is constant after loading; any number of sessions over it may run in parallel, each in one thread at a time.
 * No function prints, exits, or keeps state outside of these handles. Text in a crn_message is one line or a few.
 */
#ifndef CRETURNN_H
#define CRETURNN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define CRN_API
#elif defined(__GNUC__)
#define CRN_API __attribute__((visibility("default")))
#else
#define CRN_API
#endif

/* Result of every fallible call. */
typedef enum crn_status {
  CRN_OK = 0,
  CRN_E_MEMORY,          /* no memory left */
  CRN_E_CONFIG,          /* config, network dict or option is wrong */
  CRN_E_NOT_IMPLEMENTED, /* known, but not built yet */
  CRN_E_FILE,            /* a file can't be opened, read or written */
  CRN_E_FORMAT,          /* a file's content is damaged or of another kind */
  CRN_E_DATA,            /* input data don't fit the network */
  CRN_E_RUNTIME,         /* a step failed (shapes, values, limits) */
  CRN_E_STATE,           /* calls in the wrong order */
  CRN_E_INTERRUPTED,     /* stopped on request */
  CRN_E_INTERNAL         /* our own fault; please report */
} crn_status;

/* Why a call failed; "" after success. May be NULL where a function takes one. */
typedef struct crn_message {
  char text[2048];
} crn_message;

CRN_API const char *crn_version(void); /* "0.1.0" */

/* ---- model ---------------------------------------------------------------------------------------------------------- */

typedef struct crn_model crn_model;
typedef struct crn_session crn_session;

typedef enum crn_use {
  CRN_USE_FORWARD, /* outputs of layers */
  CRN_USE_SEARCH   /* beam search as the config has it; also for step-by-step decoding */
} crn_use;

typedef struct crn_model_options {
  crn_use use;
  int ignore_missing; /* variables that the checkpoint lacks keep their initial values */
  void (*log)(void *user, int level, const char *line); /* level 1 errors … 5 everything; may be NULL */
  void *log_user;
  int log_level; /* lines above it are not given */
} crn_model_options;

CRN_API crn_model_options crn_model_defaults(void); /* forward, nothing missing, no log */

/* Read a config (JSON, or Python if libpython is there) and a TensorFlow checkpoint (its prefix or one of its files).
 * checkpoint NULL: initial values. The config must say what its data are (extern_data, or num_inputs and num_outputs), as
 * no dataset is opened. Errors: everything that can be wrong with the two files. */
CRN_API crn_status crn_model_load(const char *config_path, const char *checkpoint, const crn_model_options *options,
                                  crn_model **model, crn_message *message);
CRN_API void crn_model_free(crn_model *model); /* after all its sessions; NULL is fine */
CRN_API int64_t crn_model_num_params(const crn_model *model);

/* ---- sessions ------------------------------------------------------------------------------------------------------- */

typedef enum crn_type { CRN_FLOAT32, CRN_INT32, CRN_INT64, CRN_UINT8, CRN_BOOLEAN } crn_type;

typedef struct crn_session_options {
  int num_threads;     /* 0: CRN_NUM_THREADS or all processors; 1 for many sessions in parallel */
  uint64_t seed;       /* of random layers */
  int streaming;       /* pieces of sequences: states are kept from run to run (see below) */
} crn_session_options;

/* options NULL: one thread, no streaming. In a streaming session each run continues where the last one stopped, so that
 * pieces of any size (also 0 frames) give the same bits as the whole: the outputs of all runs, one behind the other. A run
 * gives the frames that its input completes, which may be fewer or more than were fed (docs/streaming.md); lengths are of
 * this piece. In a batch a sequence ends with a piece that is shorter than those of others; afterwards its pieces have no
 * frames. A network with a layer that needs frames to come is refused, with that layer's name and why. A run that fails
 * ends the stream, as crn_session_reset does. */
CRN_API crn_status crn_session_new(crn_model *model, const crn_session_options *options, crn_session **session,
                                   crn_message *message);
CRN_API void crn_session_free(crn_session *session); /* NULL is fine */

/* Give the next run's input for a data key: values (copied) in the layout of the network's data (usually [batch, time,
 * features], labels [batch, time]), lengths: for each dynamic axis one int32 per sequence. */
CRN_API crn_status crn_session_input(crn_session *session, const char *key, crn_type type, int rank,
                                     const int64_t *shape, const void *values, int n_lengths,
                                     const int32_t *const *lengths, crn_message *message);
/* Make a layer's value readable after runs (its path: "output", "encoder/fw", "output/s"). The network's output is
 * readable without. */
CRN_API crn_status crn_session_want(crn_session *session, const char *layer, crn_message *message);
CRN_API crn_status crn_session_run(crn_session *session, crn_message *message);
/* Streaming: forget the states; the next run begins a new sequence. */
CRN_API void crn_session_reset(crn_session *session);

/* A layer's value. All pointers belong to the session and live until its next input or run. */
typedef struct crn_output {
  crn_type type;
  int rank;
  int64_t shape[8];
  const void *data;        /* row-major; beyond a sequence's length: arbitrary */
  int batch_axis, time_axis, feature_axis; /* -1 = none */
  const int32_t *lengths;  /* of the time axis, one per entry of the batch axis; NULL: none */
  int64_t beam;            /* hypotheses per sequence: entry b*beam + k of the batch axis; 1 = no beam */
  const float *scores;     /* [sequences, beam] log scores (of a decided output [sequences, 1]); NULL: none */
} crn_output;

CRN_API crn_status crn_session_output(crn_session *session, const char *layer, crn_output *output, crn_message *message);

/* ---- decoding step by step ------------------------------------------------------------------------------------------ */

/* The decoder loop of a model loaded for search, driven by a program with its own pruning: the program gets the scores
 * of all labels for each of its hypotheses, decides which hypotheses go on with which label, and tells so.
 *
 *   crn_session_input(…); crn_decoder_start(s, "output", &m);      // runs all before the loop, then the first step
 *   while (…) {
 *     const float *scores = crn_decoder_scores(s, &n, &n_labels);  // [n, n_labels] natural logs
 *     … choose m continuations: from[i] in [0, n), label[i] …
 *     crn_decoder_continue(s, m, from, label, &m);                 // takes them over and computes the next step
 *   }
 * Scores are the choice layer's input in the log domain. At the start there is one hypothesis for each utterance of the
 * batch, in their order; a continuation belongs to the utterance of the hypothesis that it continues. Continuations may
 * be in any order and any number for each utterance, also none for those that are done; time is spent as if each had as
 * many as the one with the most. Where a step has several choices, they are decided one after the other: continue goes on
 * to the next choice, scores are those of its labels. A loop over its input's frames is over with
 * the last one: crn_decoder_scores gives NULL. In a streaming session the next piece goes on with the hypotheses as they
 * are then: crn_session_input, crn_decoder_start. (A loop that decides when it ends, like that of an attention model, needs
 * frames to come and is refused there.) */
CRN_API crn_status crn_decoder_start(crn_session *session, const char *loop, crn_message *message);
CRN_API const float *crn_decoder_scores(const crn_session *session, int64_t *n_hypotheses, int64_t *n_labels);
CRN_API crn_status crn_decoder_continue(crn_session *session, int64_t n, const int32_t *from, const int32_t *labels,
                                        crn_message *message);

#ifdef __cplusplus
}
#endif
#endif
