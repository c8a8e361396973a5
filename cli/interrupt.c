/* SPDX-License-Identifier: Apache-2.0
 *
 * The handler can only reach what belongs to the process, hence the one variable here.
 */
#define _GNU_SOURCE
#include "interrupt.h"

#include <signal.h>
#include <string.h>

static atomic_int stop_signal;

static void on_signal(int signal_number) { atomic_store(&stop_signal, signal_number); }

/* A handler, not SIG_IGN, which programs behind "|" would inherit. */
static void go_on(int signal_number) { (void)signal_number; }

void cli_catch_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = go_on; /* the log's reader has ended, or a file is too large: the failing write tells */
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, NULL);
  sigaction(SIGXFSZ, &action, NULL);
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = (int)SA_RESETHAND; /* the next one does what it does by default; calls that wait return */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

const atomic_int *cli_stop_flag(void) { return &stop_signal; }
