/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming: a sequence fed in pieces. After each run the states of all layers, and what loops carry, are copied out of
 * the run's memory; the next run begins with them.
 */
#ifndef CRN_NET_STREAM_H
#define CRN_NET_STREAM_H

#include "net/exec.h"

typedef struct crn_stream crn_stream;

/* Whether a network runs in pieces; the message names the layer that doesn't, and why (stream_check.c). */
crn_status crn_stream_check(const crn_net *net, crn_err *err);
/* The same for a run without a program that decides. */
crn_status crn_stream_check_run(const crn_net *net, crn_err *err);
/* Make the session a streaming one. Refused (CRN_E_CONFIG) for a network with a layer that needs frames to come, or
 * that isn't known to run in pieces; the message names it. */
crn_status crn_stream_start(crn_exec *x, crn_err *err);
void crn_stream_forget(crn_exec *x); /* the next run begins a new sequence */
void crn_stream_free(crn_stream *s);

/* Internal to net/: no-ops in sessions that don't stream. */
crn_status crn_stream_restore(crn_exec *x);
crn_status crn_stream_save(crn_exec *x);
crn_status crn_stream_restore_loop(crn_exec *x, const crn_loop *loop, crn_loop_run *lr);
crn_status crn_stream_save_loop(crn_exec *x, const crn_loop *loop, crn_loop_run *lr);

#endif
