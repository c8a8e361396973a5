/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing of the progress bar.
 */
#define _GNU_SOURCE
#include "progress.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cli_progress_init(cli_progress *p, FILE *out, bool live) { *p = (cli_progress){.out = out, .live = live}; }

void cli_progress_start(cli_progress *p, const char *label) {
  cli_progress_clear(p);
  snprintf(p->label, sizeof p->label, "%s", label);
  p->start = now_seconds();
  p->last_draw = 0;
  p->last_step = -1;
  p->loss = (double)NAN;
}

/* h:mm:ss */
static void format_time(double seconds, char *text, size_t size) {
  long s = seconds < 0 || seconds > 1e9 ? 0 : lround(seconds);
  snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

void cli_progress_format(const cli_progress *p, double seconds, double complete, size_t columns, char *text,
                         size_t size) {
  enum { BAR = 20 };
  char bar[BAR + 1] = "", left[32] = "?", loss[48] = "";
  double steps = (double)(p->last_step + 1), rate = seconds > 0 ? steps / seconds : 0;
  if (!isnan(p->loss)) snprintf(loss, sizeof loss, "loss %.4g  ", p->loss);
  if (complete > 0) {
    if (complete > 1) complete = 1;
    size_t full = (size_t)(complete * BAR + 0.5);
    for (size_t i = 0; i < BAR; i++) bar[i] = i < full ? '#' : '.';
    format_time(seconds * (1 - complete) / complete, left, sizeof left);
    snprintf(text, size, "%s [%s] %.1f%%  step %lld  %s%.1f steps/s  %s left", p->label, bar, 100 * complete,
             (long long)p->last_step, loss, rate, left);
  } else {
    format_time(seconds, left, sizeof left);
    snprintf(text, size, "%s  step %lld  %s%.1f steps/s  %s", p->label, (long long)p->last_step, loss, rate, left);
  }
  if (strlen(text) > columns) text[columns] = 0;
}

static size_t terminal_columns(FILE *out) {
  struct winsize size;
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return 79;
  return (size_t)size.ws_col - 1;
}

void cli_progress_step(cli_progress *p, int64_t step, double complete, double loss) {
  p->last_step = step;
  if (isfinite(loss)) p->loss = isnan(p->loss) ? loss : 0.95 * p->loss + 0.05 * loss;
  double now = now_seconds();
  if (!p->live || now - p->last_draw < 0.1) return;
  char text[256];
  size_t columns = terminal_columns(p->out);
  cli_progress_format(p, now - p->start, complete, columns < sizeof text ? columns : sizeof text - 1, text,
                      sizeof text);
  fprintf(p->out, "\r\033[K%s", text);
  fflush(p->out);
  p->last_draw = now;
  p->shown = true;
}

void cli_progress_clear(cli_progress *p) {
  if (!p->shown) return;
  fprintf(p->out, "\r\033[K");
  fflush(p->out);
  p->shown = false;
  p->last_draw = 0;
}

void cli_progress_end(cli_progress *p) { cli_progress_clear(p); }
