/* SPDX-License-Identifier: Apache-2.0
 *
 * Milliseconds (wall clock) from exec of a training until its first step starts: the arrival of the log line of step 0,
 * less the time that the line gives for the step. Usage: bench_start RUNS PROGRAM ARGUMENTS…
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timing.h"

static double wall_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* The seconds before " sec/step" in a line */
static double step_seconds(const char *line) {
  const char *end = strstr(line, " sec/step"), *p = end;
  while (p && p > line && p[-1] != ' ') p--;
  return p ? strtod(p, NULL) : -1;
}

static double run_once(char **command) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const double start = wall_ms();
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    (void)dup2(ends[1], STDOUT_FILENO);
    (void)close(ends[0]);
    (void)close(ends[1]);
    execv(command[0], command);
    _exit(127);
  }
  (void)close(ends[1]);
  FILE *f = fdopen(ends[0], "r");
  char line[4096];
  double ms = -1;
  while (f && ms < 0 && fgets(line, sizeof line, f)) {
    const double now = wall_ms();
    if (strstr(line, "step 0,")) ms = now - start - 1e3 * step_seconds(line);
  }
  (void)kill(child, SIGKILL);
  if (f) (void)fclose(f);
  (void)waitpid(child, NULL, 0);
  return ms;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    (void)fprintf(stderr, "usage: bench_start RUNS PROGRAM ARGUMENTS...\n");
    return 1;
  }
  const long runs = strtol(argv[1], NULL, 10);
  for (long i = -1; i < runs; i++) {
    const double ms = run_once(argv + 2);
    if (ms < 0) {
      (void)fprintf(stderr, "bench_start: the program ended before its first step\n");
      return 1;
    }
    if (i >= 0) print_ms(ms);
  }
  return 0;
}
