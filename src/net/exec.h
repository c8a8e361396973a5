/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions and runs: a network's layers computed on fed data, losses, gradients.
 *
 * A session belongs to one thread at a time; sessions of one network run in parallel (the network is not changed).
 */
#ifndef CRN_NET_EXEC_H
#define CRN_NET_EXEC_H

#include "net/net.h"
#include "tensor/mem.h"

typedef struct crn_loss_result {
  double cost;  /* sum over frames, unscaled */
  double error; /* sum */
  bool has_cost, has_error;
  double norm;  /* factor: 1 / number of frames */
} crn_loss_result;

typedef struct crn_loss_parts { /* a loss before summing; NULL where it has none */
  crn_tensor *value, *error; /* [B, T] with lens [B], 0 in padding; or [B] with lens NULL */
  crn_tensor *lens;
} crn_loss_parts;

typedef struct crn_assign { /* a parameter's value after the step */
  crn_param *param;
  crn_tensor *value;
} crn_assign;

typedef struct crn_permuted { /* a value with its axes in another order, kept for the run */
  int perm[CRN_MAX_RANK];
  crn_data *data;
  struct crn_permuted *next;
} crn_permuted;

/* A layer's results in a run. */
typedef struct crn_slot {
  crn_data *out;
  crn_data **subs;   /* n_subs */
  crn_data **states; /* n_states: after the layer ran (in loops: current) */
  crn_data **before; /* n_states: before this step */
  crn_data **made;   /* n_states: held since the layer gave them, until the step ends (when values are dropped) */
  bool has_state;    /* states hold the step before */
  int64_t ran;       /* step + 1 in which it ran last, in loops */
  crn_permuted *permuted; /* for loops that read it in every step */
  crn_data *held_out; /* what is held of out */
  bool held;
} crn_slot;

typedef struct crn_loop_run { /* of one loop in a run: its latest call */
  int64_t step, n_steps;
  int64_t B;                  /* sequences, without the loop's own beams */
  crn_data *ended;            /* bool [B]: end flags before this step, NULL = none yet */
  crn_data *lens;             /* int32 [B]: lengths of the loop, at the end in the final order */
  const crn_beam *last_beam;  /* of the last choice in the step before; after the loop: the final one */
  crn_data **carried;         /* values of "prev:" wrappers, by their order in the loop */
  crn_data **sliced;          /* sources of slices, loop axis first */
  crn_data ***kept;           /* [kept layer][step] */
  crn_tensor ***loss_values, ***loss_errors; /* [loss of the network][step], NULL = not computed in this loop */
  int64_t cap_steps;
} crn_loop_run;

struct crn_exec {
  crn_net *net;
  crn_run run;
  crn_mem *mem;
  crn_err err;
  crn_slot *slots;       /* by layer index */
  crn_loop_run *loops;   /* by body index */
  const crn_data **feed; /* by extern index; NULL = not fed */
  crn_loss_result *losses; /* by loss index */
  crn_tensor **loss_values; /* scaled and summed, for the objective */
  crn_loss_parts *loss_parts; /* by loss index, with keep_loss_parts */
  bool keep_loss_parts;
  crn_tensor *objective;
  crn_tensor *layer_constraints; /* on outputs, so far; NULL: none */
  double constraints, total_loss;
  crn_assign *assigns;
  int n_assigns, cap_assigns;
  int64_t beam_serial;
  crn_storage *weights;  /* by parameter index: own view of the parameter's storage when sessions share */
  crn_str failure;       /* what the failing operation and layer had read */
  bool noted;            /* the failing layer is in it */
  crn_str bad_nan, bad_inf; /* see crn_trace; of the layer that runs */
  crn_trace trace;
  bool keep_all;         /* don't drop values after their last reader */
  bool *keep;            /* by layer index: values that stay (outputs that are asked for) */
  int *last_reader;      /* by layer index: position in the root body after which the value is not read, -1 = none */
  bool *pre_is_read;     /* by layer index: somebody may look at how its output was made by an activation (readers.c) */
  unsigned watch;        /* which outputs to print or check (watch.c) */
  crn_threads *threads;
  struct crn_stream *stream; /* states from piece to piece, or NULL (stream.c) */
  struct crn_kept **kept; /* by layer index: states for the next run, NULL = none (kept.c) */
};

typedef struct crn_session_opts {
  int n_threads;   /* 0 = default */
  uint64_t seed;
  const char *isa; /* "reference", "v3", "v4" or NULL */
  bool keep_all;   /* every layer's value stays readable after the run */
  bool keep_loss_parts; /* losses per position or sequence stay readable (crn_exec.loss_parts) */
} crn_session_opts;

crn_status crn_exec_new(crn_net *net, const crn_session_opts *opts, crn_exec **out, crn_err *err);
void crn_exec_free(crn_exec *x);

/* Start a step: forget the last run. train: record for gradients and draw noise. */
void crn_exec_begin(crn_exec *x, bool train, uint64_t step);
/* Feed a key: value (copied) of the template's rank, lens[i] for the i-th dynamic axis (int32 [B]). */
crn_status crn_exec_feed(crn_exec *x, const char *key, crn_dtype dtype, int rank, const int64_t *shape,
                         const void *data, int n_lens, const int32_t *const *lens, crn_err *err);
/* Run all layers and losses. */
crn_status crn_exec_forward(crn_exec *x, crn_err *err);
/* Gradients of the objective into the parameters' storages (added to what is there). */
crn_status crn_exec_backward(crn_exec *x, crn_err *err);
/* Look for nan and inf in every layer's output from now on, as with debug_add_check_numerics_on_output. */
void crn_exec_check_numerics(crn_exec *x);
/* After a failure: add what was read and fed to the message (failure.c). forward and backward do. */
void crn_exec_report(crn_exec *x, crn_err *err);
/* Carry out what layers assigned (running statistics). */
void crn_exec_apply_assigns(crn_exec *x);
/* A new epoch (or evaluation) begins: states with keep_over_epoch start anew. */
void crn_exec_new_epoch(crn_exec *x);
/* Ask for a layer's value to stay readable after runs (before the run). */
void crn_exec_keep(crn_exec *x, const crn_layer *l);
/* Value of a layer after the run; NULL if it did not run or was dropped. */
const crn_data *crn_exec_value(const crn_exec *x, const crn_layer *l);
/* Gradient of a parameter as a dense array (rows added up), or NULL if it has none. */
const void *crn_exec_grad(crn_exec *x, crn_param *p, crn_err *err);
void crn_exec_zero_grads(crn_exec *x);

/* ---- internal to net/ ---- */
crn_status crn_exec_layer(crn_exec *x, crn_layer *l);
/* A state that grows as one value; others as they are. NULL: failed (recorded), or d was. */
const crn_data *crn_state_whole(crn_exec *x, const crn_data *d);
/* Keep what a value consists of beyond the frame in which it was made, and give it up again (d may be NULL). */
void crn_data_hold(crn_data *d);
void crn_data_release(crn_exec *x, crn_data *d);
/* The results of a layer that ran are not needed any more. */
void crn_exec_drop(crn_exec *x, crn_layer *l);
void crn_exec_find_readers(crn_exec *x);
/* A value that was given up for one in another order of axes (crn_constant_value) is there again. */
crn_status crn_exec_bring_back(crn_exec *x, crn_layer *l);
/* l has what it wants of its sources' values: those that nobody reads after it go back now. */
void crn_exec_sources_done(crn_exec *x, crn_layer *l);
bool crn_exec_drops(const crn_exec *x); /* values are dropped at all */
crn_status crn_exec_body(crn_exec *x, const crn_body *body);
crn_slot *crn_exec_slot(const crn_exec *x, const crn_layer *l);
crn_loop_run *crn_exec_loop(const crn_exec *x, const crn_loop *loop);
void crn_exec_note_failure(crn_exec *x, const crn_layer *l); /* failure.c: while l's inputs are there */
/* beam.c */
bool crn_beam_is_ancestor(const crn_beam *older, const crn_beam *newer);
/* d in the order of beam to (repeated from no beam, or re-ordered along the decisions made since). */
const crn_data *crn_beam_move(crn_exec *x, const crn_data *d, const crn_beam *to);
/* Latest beam among two, failing for layer l if neither continues the other. */
crn_status crn_beam_latest(crn_exec *x, const crn_layer *l, const crn_beam *a, const crn_beam *b, const crn_beam **out);
/* loss_parts.c: of loss i; in loops value and error are [T, B] */
crn_status crn_exec_keep_loss_parts(crn_exec *x, int i, const crn_loss_io *io);
crn_status crn_exec_keep_step_parts(crn_exec *x, int i, const crn_data *lens, crn_tensor *value, crn_tensor *error);
/* loss_run.c */
crn_status crn_exec_losses(crn_exec *x, crn_layer *l);
crn_status crn_exec_loop_losses(crn_exec *x, crn_layer *l, const crn_loop *loop);
crn_status crn_exec_loop_losses_end(crn_exec *x, const crn_loop *loop);
crn_status crn_exec_objective(crn_exec *x);
/* constraints.c: those of a layer's output, remembered for the objective; all of them added to total (NULL: nothing yet) */
crn_status crn_exec_layer_constraints(crn_exec *x, crn_layer *l);
crn_status crn_exec_add_constraints(crn_exec *x, crn_tensor **total);
/* watch.c: printing and checking of outputs as debug_* keys of the config ask for */
void crn_exec_watch_init(crn_exec *x);
crn_status crn_exec_watch(crn_exec *x, const crn_layer *l, const crn_data *d);
crn_status crn_exec_watch_losses(crn_exec *x, const crn_layer *l);
crn_status crn_exec_fail_not_fed(crn_exec *x, const crn_layer *l, const char *key);
void crn_net_print_templates(const crn_net *net);
void crn_net_warn_of_padding(const crn_net *net);
/* kept.c */
crn_status crn_exec_keep_states(crn_exec *x);
void crn_exec_free_kept(crn_exec *x);
/* mask.c: where the mask of the masked_computation around l is false, d becomes the value before */
crn_status crn_mask_blend(crn_exec *x, crn_layer *l, const crn_data *before, crn_data *d);
/* initial.c: output of l before the first step. */
crn_data *crn_initial_output(crn_exec *x, crn_layer *l, crn_layer *init_layer, const crn_tmpl *t);
crn_data *crn_initial_apply_zero(crn_exec *x, crn_layer *l, const crn_tmpl *t);

#endif
