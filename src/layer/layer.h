/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers: the descriptor (everything about a class in one row), the layer object, and what construction and execution
 * offer to a class's functions.
 *
 * A class is: an option table, `infer` (options and input templates -> output template), `params` (declare parameters),
 * `forward` (compose operations on data). Only operations know derivatives. infer may be called several times (inside
 * loops, with sources still unknown) and must give the same for the same input. A class that carries state from step to
 * step declares state rows in infer; then whole sequence, one step and a chunk are the same forward: it reads
 * crn_state_in, computes, and gives crn_state_out.
 *
 * See docs/new-layer.md for a worked example.
 */
#ifndef CRN_LAYER_LAYER_H
#define CRN_LAYER_LAYER_H

#include "layer/option.h"
#include "tensor/data.h"

typedef struct crn_layer crn_layer;
typedef struct crn_build crn_build; /* construction (net/build.h) */
typedef struct crn_exec crn_exec;   /* execution of one run (net/exec.h) */
typedef struct crn_param crn_param;
struct crn_scope;
struct crn_body;
struct crn_loss;

enum crn_layer_flags {
  CRN_L_CONCAT = 1u << 0,         /* [in] class: all sources form one input (C1), with the dropout options (C7) */
  CRN_L_NO_SOURCES = 1u << 1,     /* no default "data" source (C1) */
  CRN_L_NEEDS_FUTURE = 1u << 2,   /* reads frames to the right: refused in streaming sessions unless ->causal */
  CRN_L_STREAMS = 1u << 12,       /* each frame comes from itself and from states: runs in pieces whatever the options */
  CRN_L_MAY_STREAM = 1u << 13,    /* runs in pieces with some options: infer sets ->causal */
  CRN_L_READS_PADDING = 1u << 3,  /* values of valid frames depend on what padding holds, or on the batch */
  CRN_L_INTERNAL = 1u << 4,       /* can't be named in a config */
  CRN_L_MANY_INPUTS = 1u << 5,    /* sources are not concatenated (combine, dot, …); else exactly one unless CONCAT */
  CRN_L_MAY_HOLD_INF = 1u << 6,   /* exempt from check_numerics */
  CRN_L_OWN_SOURCES = 1u << 8,    /* "from" is looked up by the class's refs */
  CRN_L_TARGET_BY_HAND = 1u << 10, /* a target alone doesn't make its key used when searching (rec) */
  CRN_L_TARGET_SETTLES = 1u << 11, /* in a cycle its target tells the output before its sources are known */
  CRN_L_STATE_IS_OUTPUT = 1u << 9, /* output before the first step = initial state "h", or the only one */
  CRN_L_VALUES_ONLY = 1u << 14,   /* never asks how its inputs were made (pre-activations), whatever the options */
  CRN_L_COPIES_PRE = 1u << 7,     /* with one source and no dropout, keeps pre-activation and output loss of it */
};

typedef struct crn_layer_desc {
  const char *name;
  const char *const *aliases; /* NULL-terminated, may be NULL */
  const char *doc;            /* one sentence starting with a verb */
  const crn_opt *opts;        /* own options (ends with CRN_OPT_END); common ones are known to all */
  size_t cfg_size;            /* of the struct that offsets refer to; the layer's ->cfg */
  unsigned flags;
  /* Set l->out (and states, sub outputs). Sources whose template isn't known yet are left out by crn_source_tmpl. */
  crn_status (*infer)(crn_build *b, crn_layer *l);
  crn_status (*params)(crn_build *b, crn_layer *l); /* NULL: no parameters */
  /* Compute: fill out->v and out->len (out->t is a copy of l->out to begin with; a template with other roles may be set).
   * NULL: known, but not implemented: construction refuses it. */
  crn_status (*forward)(crn_exec *x, crn_layer *l, crn_data *out);
  /* Initial value of state i when the loop (or sequence) begins; NULL: zeros. */
  crn_status (*state_init)(crn_exec *x, crn_layer *l, int i, crn_data *out);
  /* Called once when the layer object is made, options parsed: makes the net inside (subnetwork, rec, …). */
  crn_status (*make)(crn_build *b, crn_layer *l);
  /* Extra references that no option names (rare), before infer. */
  crn_status (*refs)(crn_build *b, crn_layer *l);
} crn_layer_desc;

typedef struct crn_layer_state { /* carried from step to step */
  const char *name;
  crn_tmpl t;
} crn_layer_state;

typedef struct crn_sub_output {
  const char *name;
  crn_tmpl t;
} crn_sub_output;

typedef struct crn_edge {
  crn_layer *to;
  crn_edge_kind kind;
  const char *option; /* which option named it */
} crn_edge;

/* Options that every layer has (SPEC 3), parsed. */
typedef struct crn_layer_common {
  int64_t n_out; /* CRN_UNSET */
  const crn_dim *out_dim, *in_dim;
  const crn_value *out_type, *out_shape; /* or NULL */
  const crn_value *target;               /* str or list, or NULL */
  const char *size_target;
  const crn_value *loss, *loss_opts;
  double loss_scale; /* NAN = not given */
  int loss_only_on_non_search, is_output_layer, only_on_eval, only_on_search, need_last, trainable, encapsulate;
  const crn_value *batch_norm; /* NULL or False: none */
  double L2, darc1, spatial_smoothing; /* 0 = none */
  double param_variational_noise, param_dropout;
  int64_t param_dropout_min_ndim;
  const crn_value *initial_output, *initial_state, *reuse_params, *updater_opts, *name_scope, *custom_param_importer;
  int64_t copy_output_loss; /* source whose output loss is taken over, CRN_UNSET */
  const char *register_as_extern_data;
  double dropout; /* C7 */
  const crn_value *dropout_noise_shape, *dropout_axis;
  int dropout_on_forward;
  const char *dropout_mask; /* "dropout", "unity" or NULL */
} crn_layer_common;

struct crn_layer {
  const crn_layer_desc *desc;
  const char *name;        /* as in the net dict */
  const char *path;        /* absolute, "rec/sub/x"; names an extra net's layer with its prefix */
  const crn_value *dict;   /* the layer dict */
  struct crn_scope *scope; /* where its references are looked up */
  struct crn_body *body;   /* where it runs: the root, or a loop */
  int index;               /* in the net: slot of its value */
  void *cfg;               /* parsed options of the class */
  crn_layer_common common;
  crn_layer **src;         /* sources ("from") */
  int n_src;
  crn_edge *edges;         /* every reference, sources included */
  int n_edges, cap_edges;
  crn_tmpl out;
  bool out_known;          /* out is final */
  bool ends_beam;          /* the output has no beam whatever the sources have (decide) */
  crn_layer_state *states;
  int n_states;
  crn_sub_output *subs;
  int n_subs;
  crn_param **params;      /* own and taken over ones, in order of declaration */
  int n_params;
  struct crn_scope *inner; /* net inside (subnetwork, rec with a net dict, masked_computation, …), or NULL */
  struct crn_loss *loss;   /* first of its losses, or NULL (net/loss list) */
  crn_layer *initial;      /* layer that gives the output before the first step (initial_output), where looked up */
  void *priv;              /* the class's own, made in infer or refs (build arena) */
  int visit;               /* construction's mark */
  bool causal;             /* reads no frames to the right, and keeps those before, whatever the class may do */
  const char *ahead;       /* or why it reads frames to the right with these options */
  const char *mixes;       /* what in its expression may compute a frame from others, or NULL */
  bool watched;            /* gradients with respect to its output are asked for (layer gradient) */
  bool refs_done, params_done;
  bool guessed;            /* out came from a part of the sources, or from such a layer */
  bool failed;             /* a fault of it was told, or of what it depends on; construction goes on without it */
  int keep_states;         /* 1: final states are kept for the run after (keep_over_epoch), 2: also over epochs */
  bool live;               /* something that is wanted depends on it */
  struct crn_batch_norm *batch_norm; /* the option of that name, or NULL (layer/batch_norm.h) */
  struct crn_reuse *reuse; /* reuse_params, looked up (net/params.c) */
};

/* ---- construction --------------------------------------------------------------------------------------------------- */

crn_err *crn_build_err(crn_build *b);
crn_arena *crn_build_arena(crn_build *b); /* lives as long as the model */
crn_dims *crn_build_dims(crn_build *b);
const crn_log *crn_build_log(crn_build *b);
int crn_build_version(crn_build *b); /* behavior_version */
/* Value of a config key, NULL if absent. */
const crn_value *crn_build_config(crn_build *b, const char *key);
bool crn_build_train(const crn_build *b, const crn_layer *l);  /* net has the train flag */
bool crn_build_search(const crn_build *b, const crn_layer *l); /* net (or extra net) of this layer searches */
bool crn_build_eval(const crn_build *b, const crn_layer *l);   /* losses are computed */
bool crn_layer_in_loop(const crn_layer *l);                    /* runs once per step */
const crn_dim *crn_loop_dim(const crn_layer *l);              /* time dim of the loop around it, NULL outside */
bool crn_layer_masked_by_step(const crn_layer *l); /* in a masked_computation that runs step by step: see crn_step_mask */
bool crn_layer_moved_out(const crn_layer *l); /* of the loop around it: runs once, on all frames */
/* Parse an options dict inside of a layer dict (unit_opts, …); what: put before messages. */
crn_status crn_options_check_dict(crn_build *b, const crn_layer *l, const crn_value *dict, const crn_opt *opts, void *cfg,
                                  const char *what, const char *const *also_known);

/* Fail naming network path, layer and class: "layer 'x' (linear): …". */
crn_status crn_layer_fail(crn_build *b, const crn_layer *l, crn_status code, const char *fmt, ...) CRN_PRINTF(4, 5);

/* Template of source i, or NULL while it is not known (inside loops, first round). */
const crn_tmpl *crn_source_tmpl(const crn_layer *l, int i);
/* CONCAT classes: template of the one input (concatenation of the known sources). False in *known if none is known. */
crn_status crn_input_tmpl(crn_build *b, crn_layer *l, crn_tmpl *out, bool *known);
/* Templates of all known sources united (C3), with allow_broadcast_all_sources etc. respected. */
crn_status crn_united_tmpl(crn_build *b, crn_layer *l, bool allow_broadcast, crn_tmpl *out, bool *known);
/* The template of a class that makes a new feature (C2): axes of in, feature replaced by the layer's output dim (out_dim,
 * n_out, out_type dim, target's dim); sparse inputs get a feature axis at the end; float32. loss_extra: blank of ctc. */
crn_status crn_new_feature_tmpl(crn_build *b, crn_layer *l, const crn_tmpl *in, crn_tmpl *out);
/* Just the new feature dim. */
crn_status crn_new_feature_dim(crn_build *b, crn_layer *l, const crn_tmpl *in, const crn_dim **out);
/* Lay the option out_type over t (C2). Called by classes that honour it before other checks (eval, combine, compare, …). */
crn_status crn_apply_out_type(crn_build *b, crn_layer *l, crn_tmpl *t);
/* Template of target i of the layer (data key or layer), NULL-like *found = false if the layer has no target. */
crn_status crn_target_tmpl(crn_build *b, crn_layer *l, int i, crn_tmpl *out, bool *found);
/* Look up target i as something that the layer computes with (for refs). Fails if there is none. */
crn_status crn_target_ref(crn_build *b, crn_layer *l, int i, crn_layer **out);
/* New dim of this layer, hash-consed by (layer path, slot). */
const crn_dim *crn_layer_dim(crn_build *b, const crn_layer *l, const char *slot, crn_dim_kind kind, int64_t size);
/* Axis options relative to a template. */
crn_status crn_layer_axis(crn_build *b, const crn_layer *l, const crn_tmpl *t, const crn_value *v, const char *option,
                          int *axis);
crn_status crn_layer_axes(crn_build *b, const crn_layer *l, const crn_tmpl *t, const crn_value *v, const char *option,
                          int axes[CRN_MAX_RANK], int *n);
/* Declare a state / a sub output (idempotent by name). */
crn_status crn_layer_add_state(crn_build *b, crn_layer *l, const char *name, const crn_tmpl *t);
crn_status crn_layer_add_sub(crn_build *b, crn_layer *l, const char *name, const crn_tmpl *t);
/* Look up a layer as if an option named it (for refs). */
crn_status crn_layer_ref(crn_build *b, crn_layer *l, const char *name, crn_edge_kind kind, const char *option,
                         crn_layer **out);
/* A data key that the layer itself asks for, made if it isn't there; as something that it computes with. */
crn_status crn_layer_input(crn_build *b, crn_layer *l, const char *key, const crn_tmpl *t, const char *option,
                           crn_layer **out);
/* A layer by its index (kept in a dim that it made) as something that l computes with; allowed in infer. */
crn_status crn_layer_need(crn_build *b, crn_layer *l, int index, crn_layer **out);

typedef struct crn_param_spec {
  const char *name;      /* below the layer: "W", "rec/lstm_cell/kernel", "batch_norm/v2_mean" */
  int rank;
  int64_t shape[CRN_MAX_RANK];
  const crn_value *init; /* initialiser of the config, or NULL */
  const char *init_default; /* initialiser string when init is NULL: "glorot_uniform", "0", "1" */
  crn_dtype dtype;       /* CRN_F32 for float parameters: stored in the run's real type */
  bool not_trainable, not_saveable, non_critical; /* non_critical: missing in a checkpoint is no error */
  bool custom_update;    /* gets a value instead of a gradient (crn_exec_assign) */
  int n_blocks[CRN_MAX_RANK];            /* blocks per axis, 0 = one block */
  int64_t blocks[CRN_MAX_RANK][8];
} crn_param_spec;
/* Declare a parameter; honours reuse_params, name_scope, trainable, sharing. */
crn_status crn_layer_param(crn_build *b, crn_layer *l, const crn_param_spec *spec);

/* ---- execution ------------------------------------------------------------------------------------------------------ */

crn_run *crn_exec_run(crn_exec *x);
bool crn_layer_has_losses(const crn_layer *l); /* or others of its scope: they are computed in this mode */
const crn_value *crn_exec_config(const crn_exec *x, const char *key); /* config key, NULL if absent */
int crn_exec_version(const crn_exec *x);
int64_t crn_exec_global_step(const crn_exec *x); /* optimiser steps so far, at the step's start */
bool crn_exec_train(const crn_exec *x); /* train flag */
crn_status crn_exec_fail(crn_exec *x, const crn_layer *l, const char *fmt, ...) CRN_PRINTF(3, 4);
/* Value of a referenced layer, brought to this layer's beams. NULL: failed (recorded). */
const crn_data *crn_value_of(crn_exec *x, crn_layer *l, crn_layer *ref);
const crn_data *crn_source(crn_exec *x, crn_layer *l, int i); /* source i */
/* Value of a layer that runs outside of this layer's loop and has no hypotheses, axes in the order perm: made once a run and
 * not repeated over beams. NULL without failing when it isn't of that kind. */
/* Any data brought to this layer's hypotheses. */
const crn_data *crn_to_beam_of(crn_exec *x, crn_layer *l, const crn_data *d);
const crn_data *crn_constant_value(crn_exec *x, crn_layer *l, crn_layer *ref, const int *perm);
/* CONCAT classes: the one input, concatenated, with dropout. */
const crn_data *crn_input(crn_exec *x, crn_layer *l);
/* The same for a class that asks for no source's value after it: joined ones go back, where nobody else reads them. */
const crn_data *crn_input_once(crn_exec *x, crn_layer *l);
/* The sources to be read side by side instead of joined: at most so many, of one shape but for the feature, which is
 * last. Number of parts; 0: crn_input is needed (or failed, recorded). */
int crn_input_parts(crn_exec *x, crn_layer *l, int most, const crn_data **parts);
/* Losses, choices or logarithms may look at how the layer's output was made (crn_data.pre). */
bool crn_pre_is_read(const crn_exec *x, const crn_layer *l);
/* Parameter by declared name, with noise and dropout while training; NULL if the layer has none of that name (optional
 * ones) – an error is recorded only by crn_param_get. */
crn_tensor *crn_param_find(crn_exec *x, crn_layer *l, const char *name);
crn_tensor *crn_param_get(crn_exec *x, crn_layer *l, const char *name);
/* State i before this step (its initial value at the beginning); and after. */
const crn_data *crn_state_in(crn_exec *x, crn_layer *l, int i);
crn_status crn_state_out(crn_exec *x, crn_layer *l, int i, const crn_data *value);
/* For a state that grows (its batch axis the first): the state before and what is new on `axis`, which becomes the state
 * without a copy. NULL: failed (recorded). */
const struct crn_history *crn_state_append(crn_exec *x, crn_layer *l, int i, int axis, crn_tensor *now);
/* Final state i of the session's run before, of a layer with keep_states; NULL: none yet (or failed, recorded). */
const crn_data *crn_kept_state(crn_exec *x, crn_layer *l, int i);
/* Streaming sessions (layer/pieces.h): a layer outside of loops that looks along an axis puts aside one value that it wants
 * in the next piece, and counts the frames that passed. kept: NULL in the first piece (or failed, recorded). Otherwise
 * these do nothing, and every run is the first piece. */
bool crn_streaming(const crn_exec *x);
bool crn_stream_first(const crn_exec *x, const crn_layer *l); /* nothing was counted yet */
int64_t crn_stream_before(const crn_exec *x, const crn_layer *l);
void crn_stream_pass(crn_exec *x, const crn_layer *l, int64_t frames);
crn_tensor *crn_stream_kept(crn_exec *x, const crn_layer *l);
crn_status crn_stream_keep(crn_exec *x, const crn_layer *l, const crn_tensor *v);
/* Mask bool [B] of this step, of the masked_computation around the layer; NULL: none, or failed (recorded). Where it is
 * false, states stay as they were, but not those that grow: their classes keep the mask along with them. */
const crn_data *crn_step_mask(crn_exec *x, crn_layer *l);
/* State i of another layer (hidden state): after its last step, or as it is now inside a loop; of "prev:x": before this
 * step. Brought to l's beams. NULL: failed (recorded). */
const crn_data *crn_state_of(crn_exec *x, crn_layer *l, crn_layer *of, int i);
/* The layer whose states `of` stands for: looks through "prev:x", copies of names, slices. */
crn_layer *crn_state_owner(crn_layer *of);
/* Output before the first step of a layer of a loop that l reads as "REC/x", with template t, in l's beams. */
const crn_data *crn_initial_of(crn_exec *x, crn_layer *l, crn_layer *of, const crn_tmpl *t);
crn_status crn_needs_initial_of(crn_build *b, crn_layer *l, crn_layer *of); /* while l is inferred, if it reads that */
crn_status crn_sub_out(crn_exec *x, crn_layer *l, int i, const crn_data *value);
/* Sub output i of a layer that l computes with. NULL: failed (recorded). */
const crn_data *crn_sub_of(crn_exec *x, crn_layer *l, crn_layer *of, int i);
/* Set a parameter after the step (running statistics, accumulate_mean, variable_assign); the last value counts. */
crn_status crn_exec_assign(crn_exec *x, crn_layer *l, const char *param, crn_tensor *value);
/* What was assigned to it in this run so far, NULL: nothing. */
crn_tensor *crn_exec_assigned(const crn_exec *x, const crn_layer *l, const char *param);
/* Step index of the innermost loop around the layer, from the sequence's beginning; -1 outside. */
int64_t crn_exec_step(const crn_exec *x, const crn_layer *l);
/* bool [B] in l's beams: sequences of the loop that ended before this step; *out NULL: none can have. */
crn_status crn_step_ended(crn_exec *x, const crn_layer *l, const crn_data **out);
/* Name of a random stream of this layer: its path and what ("dropout"). Same in all steps of a loop when fixed. */
const char *crn_random_name(crn_exec *x, const crn_layer *l, const char *what, bool fixed_in_loop);
/* Fill the axes of out that are not on in, sizes from `from`: helper for common shapes. */
/* Size of a dynamic dim in this run and its lengths (this layer's beams), from a layer referred to, fed data, or any layer
 * outside of loops that has run. False: nothing has it. */
bool crn_dim_in_run(crn_exec *x, const crn_layer *l, const crn_dim *d, int64_t *size, const crn_data **len);
int64_t crn_batch_size(crn_exec *x, const crn_layer *l); /* sequences in this layer's batch, beams included */

#endif
