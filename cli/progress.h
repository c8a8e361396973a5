/* SPDX-License-Identifier: Apache-2.0
 *
 * One line at the bottom of a terminal that shows how far an epoch is: bar, loss, rate, time left. It draws only on a
 * terminal and at most ten times a second; elsewhere the log's lines tell the same.
 */
#ifndef CRN_CLI_PROGRESS_H
#define CRN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct cli_progress {
  FILE *out;
  bool live;         /* out is a terminal */
  bool shown;        /* the bar is on the terminal now */
  double start;      /* seconds, when the epoch began */
  double last_draw;  /* seconds */
  double loss;       /* smoothed */
  int64_t last_step; /* -1: none yet in this epoch */
  char label[64];
} cli_progress;

void cli_progress_init(cli_progress *p, FILE *out, bool live);
/* Begin an epoch or a pass; label as in "train epoch 3". */
void cli_progress_start(cli_progress *p, const char *label);
/* A step is done. complete in [0, 1], < 0 if unknown; loss NaN: none. */
void cli_progress_step(cli_progress *p, int64_t step, double complete, double loss);
void cli_progress_clear(cli_progress *p); /* take it off the terminal, for a line; the next step draws it again */
void cli_progress_end(cli_progress *p);

/* The bar's text for a terminal of so many columns, without control characters; seconds since the start. */
void cli_progress_format(const cli_progress *p, double seconds, double complete, size_t columns, char *text,
                         size_t size);

#endif
