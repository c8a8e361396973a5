/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops, internal to net/. A rec layer with a net dict has three parts: the layers that run step by step (loop->body,
 * driven by an internal runner layer), the layers that moved out and run once on all frames (the MOVED scope, in the
 * body of the rec layer), and the rec layer itself, which passes the result on.
 *
 *   sources ─► moved inputs ─► runner (body: slice · prev · layers …) ─► accum ─► moved outputs ─► rec
 *
 * Inside, a layer that moved before the loop is turned into a slice of its instance outside; a layer read as prev:x has a
 * wrapper that carries its value from step to step.
 */
#ifndef CRN_NET_LOOP_H
#define CRN_NET_LOOP_H

#include "layer/rec.h"
#include "net/build.h"
#include "net/exec.h"

typedef struct crn_prev { /* priv of "prev:x" and of its form outside */
  crn_layer *of;          /* x */
  crn_layer *init;        /* layer that gives the initial output, or NULL */
  crn_layer *steps;       /* ":i", where x is constant in the loop and this runs outside */
} crn_prev;

/* loop_build.c */
const char *crn_loop_unit_of(const crn_loop *loop, const crn_layer *l); /* name of the loop's own layer that l belongs to */
crn_place crn_loop_place(const crn_loop *loop, const char *unit);
crn_status crn_loop_keep(crn_build *b, crn_loop *loop, crn_layer *inner, int *index); /* accumulate its outputs */
crn_loop *crn_layer_loop(const crn_layer *l); /* of a rec layer with a net dict, else NULL */
/* A loop inside of a loop: make what is inside, so that the rec layer depends on all that is read outside of it. */
crn_status crn_loop_link(crn_build *b, crn_layer *rec);
/* loop_limit.c: max_seq_len */
crn_status crn_loop_limit_refs(crn_build *b, crn_loop *loop);
crn_status crn_loop_limit(crn_exec *x, const crn_loop *loop, int64_t *limit);
/* loop_axis.c: time_dim, len_layer, unknown_len by the page's rules; used_keys decides rule 6's exception. */
crn_status crn_loop_find_axis(crn_build *b, crn_loop *loop);
crn_status crn_loop_take_over_axis(crn_build *b, crn_loop *loop);
/* loop_infer.c: templates of all that the roots need inside, and its order */
crn_status crn_loop_infer_inside(crn_build *b, crn_loop *loop, crn_layer **roots, int n_roots, crn_layer ***order, int *n);
/* The same for a built loop, because layers outside of it have other templates now. */
crn_status crn_loop_settle_again(crn_build *b, const crn_loop *loop);
/* loop_place.c */
crn_status crn_loop_place_layers(crn_build *b, crn_loop *loop, crn_layer **order, int n, bool optimize);
/* loop_wrap.c */
crn_status crn_loop_initial_param(crn_build *b, crn_layer *of); /* where initial_output is "var" */
crn_status crn_loop_accum(crn_build *b, crn_loop *loop, crn_layer *inner, crn_layer **out);
/* loop_run.c: parts of a run, also for the decoder that is driven from outside */
crn_status crn_loop_prepare(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, const crn_layer *runner);
crn_status crn_loop_grow_lists(crn_exec *x, const crn_loop *loop, crn_loop_run *lr);
crn_status crn_loop_known_length(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, int64_t *steps);
crn_status crn_loop_or_end(crn_exec *x, const crn_loop *loop, crn_loop_run *lr); /* end_t OR end_{t-1} */
/* prev: values, states and end flags for the next step, in the order of the step's last choice. */
crn_status crn_loop_carry_on(crn_exec *x, const crn_loop *loop, crn_loop_run *lr, const crn_beam *last);
crn_status crn_loop_run_all(crn_exec *x, crn_layer *runner);
crn_data *crn_loop_stacked(crn_exec *x, const crn_loop *loop, int kept);
extern const crn_layer_desc crn_wrap_loop_sub; /* "rec/x" from outside */

#endif
