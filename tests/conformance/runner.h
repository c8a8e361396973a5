/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance runner: networks with fixed parameters and inputs are run and compared with recorded results of the
 * original program. It knows the form of the cases (tests/data/conformance/README.md), never a case.
 *
 * Each job (a case, an erroneous config, a network) runs in a child process and writes a report into a pipe, so that
 * one that crashes or hangs costs a line, not the run.
 */
#ifndef CONFORMANCE_RUNNER_H
#define CONFORMANCE_RUNNER_H

#include <stdio.h>

#include "base/map.h"
#include "data/hdf5.h"
#include "net/exec.h"

/* ---- report.c: what a job has to say, and how jobs are run ---- */

typedef enum verdict { PASSED, FAILED, MISSING, SKIPPED, N_VERDICTS } verdict;

typedef struct report { /* written by a job */
  FILE *out;
} report;

/* The part (mode) that messages are about from here on. */
void rep_part(report *r, const char *part);
void rep_fail(report *r, const char *fmt, ...) CRN_PRINTF(2, 3);
void rep_missing(report *r, const char *fmt, ...) CRN_PRINTF(2, 3); /* not implemented */
void rep_note(report *r, const char *fmt, ...) CRN_PRINTF(2, 3);    /* shown with -v, no failure */
void rep_skip(report *r, const char *fmt, ...) CRN_PRINTF(2, 3);    /* nothing to do: not counted */
/* What an operation of ours that failed left in err: missing when it says "not implemented", else a failure. Clears
 * err. */
void rep_status(report *r, const char *doing, crn_err *err);

typedef struct options {
  const char *pattern; /* -k: names with this in them (or matching it, with * or ?), or NULL */
  const char *group;   /* -g, or NULL */
  bool verbose, no_fork;
  unsigned limit_s; /* a job that runs longer is ended */
} options;

typedef struct tally {
  int n[N_VERDICTS];
  crn_map reasons; /* "FAIL text" without names and numbers -> count */
} tally;

typedef void (*job_fn)(report *r, const void *arg);
bool name_wanted(const options *o, const char *name);
/* Run a job by itself, print its line(s), count it. */
void run_job(const options *o, tally *t, const char *name, job_fn job, const void *arg);
/* The summary; returns the exit code. */
int print_tally(const options *o, tally *t);

/* ---- array.c: recorded arrays and their comparison ---- */

typedef struct array {
  double *v; /* n * parts numbers */
  int rank;
  int64_t shape[CRN_H5_MAX_RANK], n;
  int parts;     /* 2 for complex numbers */
  bool is_float; /* compared with tolerance */
} array;

crn_status array_read(crn_h5 *f, const char *path, array *out, crn_err *err);
void array_free(array *a);

/* Which frames of an array are valid: position i of axis a counts if i < lens[a]->v[k], k as given by up to two other
 * axes (row-major), or for the longest of all when there is none. */
typedef struct frames {
  const array *lens[CRN_H5_MAX_RANK]; /* NULL = all positions of the axis are valid */
  int by[CRN_H5_MAX_RANK][2];         /* axes that tell k, -1 = none */
} frames;

/* Largest number in the valid frames. Infinities, nan and stand-ins for infinity (from 1e30) don't count. */
double array_scale(const array *a, const frames *f);
typedef struct tolerance {
  double relative; /* to the largest number of this array */
  double absolute;
} tolerance;
/* Compare ours (same rank; as many positions or more) with the recorded array on valid frames; f NULL = all. Reports
 * "what: value at …" and returns false when they differ. r NULL: quiet. */
bool array_compare(report *r, const char *what, const array *want, const frames *f, const crn_tensor *got,
                   tolerance tol);

/* ---- case.c ---- */

typedef struct case_job {
  const char *folder, *name;
} case_job;

typedef struct case_run { /* one mode of a case */
  report *r;
  crn_h5 *f;
  const char *mode;
  double tol;
  crn_store *store;
  crn_net *net;
  crn_exec *exec;
} case_run;

void run_case(report *r, const void *case_job_arg);
/* "MODE/GROUP/NAME" with "/" in the name written "|", "MODE/GROUP" for ""; the caller frees it. */
char *case_path(const case_run *c, const char *group, const char *name);
/* "a|b" -> "a/b", allocated. */
char *plain_name(const char *stored);

/* ---- layers.c, outcome.c: parts of a case ---- */
void compare_layers(case_run *c);
void compare_parameter_lists(case_run *c);
bool set_parameters(case_run *c);
void compare_losses(case_run *c);
void compare_gradients(case_run *c);
void compare_post_params(case_run *c);

/* ---- main.c ---- */

typedef struct name_list {
  char **names;
  size_t n;
} name_list;

/* Names (without ".json") of the folder's .json files, in ascending order; false if it can't be read. */
bool list_json_names(const char *folder, name_list *out);
void name_list_free(name_list *l);

/* ---- errors.c, corpus.c: these return the exit code ---- */
int run_errors(const options *o, const char *path);
int run_corpus(const options *o, const char *folder);

#endif
