/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports, and the running of jobs in child processes. A report is text, one line a message: a letter that says what it
 * is, then the text; "E" at the end tells that the job came to its end.
 */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "runner.h"

/* ---- the job's side ---- */

static void say(report *r, char what, const char *fmt, va_list ap) CRN_PRINTF(3, 0);
static void say(report *r, char what, const char *fmt, va_list ap) {
  char *text = NULL;
  va_list again;
  va_copy(again, ap);
  const int n = vsnprintf(NULL, 0, fmt, ap);
  if (n >= 0 && (text = crn_malloc((size_t)n + 1))) (void)vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  for (char *p = text; p && *p; p++)
    if (*p == '\n') *p = ' ';
  fprintf(r->out, "%c%s\n", what, text ? text : "no memory for the message");
  crn_free(text);
}

void rep_part(report *r, const char *part) {
  fprintf(r->out, "P%s\n", part);
  fflush(r->out); /* known even when the job crashes */
}

#define SAY(what)                                                                                                      \
  va_list ap;                                                                                                          \
  va_start(ap, fmt);                                                                                                   \
  say(r, what, fmt, ap);                                                                                               \
  va_end(ap)
void rep_fail(report *r, const char *fmt, ...) { SAY('F'); }
void rep_missing(report *r, const char *fmt, ...) { SAY('M'); }
void rep_note(report *r, const char *fmt, ...) { SAY('N'); }
void rep_skip(report *r, const char *fmt, ...) { SAY('S'); }

void rep_status(report *r, const char *doing, crn_err *err) {
  const char *text = crn_err_text(err);
  if (err->code == CRN_E_NOT_IMPLEMENTED)
    rep_missing(r, "%s", text);
  else if (text[0])
    rep_fail(r, "%s: %s", doing, text);
  else
    rep_fail(r, "%s: failed without a message", doing);
  crn_err_clear(err);
}

/* ---- the runner's side ---- */

bool name_wanted(const options *o, const char *name) {
  if (!o->pattern) return true;
  return strpbrk(o->pattern, "*?[") ? fnmatch(o->pattern, name, 0) == 0 : strstr(name, o->pattern) != NULL;
}

typedef struct outcome { /* a report as read */
  char *text;            /* lines, cut at their ends */
  size_t len;
  char end[80]; /* how the child ended, "" = as it should */
} outcome;

static void read_all(FILE *in, outcome *out) {
  FILE *mem = open_memstream(&out->text, &out->len);
  char buf[4096];
  size_t n;
  while (mem && (n = fread(buf, 1, sizeof buf, in)) > 0) fwrite(buf, 1, n, mem);
  if (mem) fclose(mem);
}

static void describe_end(int status, unsigned limit_s, outcome *out) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    snprintf(out->end, sizeof out->end, "ran longer than %u s", limit_s);
  else if (WIFSIGNALED(status))
    snprintf(out->end, sizeof out->end, "crashed (signal %d)", WTERMSIG(status));
  else if (WEXITSTATUS(status))
    snprintf(out->end, sizeof out->end, "ended early (exit status %d)", WEXITSTATUS(status));
}

static void do_job(FILE *to, job_fn job, const void *arg) {
  report r = {.out = to};
  job(&r, arg);
  fputs("E\n", to);
}

static void run_child(const options *o, job_fn job, const void *arg, outcome *out) {
  int fd[2];
  fflush(stdout);
  if (pipe(fd) != 0) {
    snprintf(out->end, sizeof out->end, "no pipe: %s", strerror(errno));
    return;
  }
  const pid_t child = fork();
  if (child == 0) {
    close(fd[0]);
    FILE *to = fdopen(fd[1], "w");
    if (!to) _exit(3);
    alarm(o->limit_s);
    do_job(to, job, arg);
    fclose(to);
    exit(0); /* not _exit: leak checks run */
  }
  close(fd[1]);
  FILE *from = fdopen(fd[0], "r");
  if (from) {
    read_all(from, out);
    fclose(from);
  }
  int status = 0;
  if (child < 0)
    snprintf(out->end, sizeof out->end, "no child process: %s", strerror(errno));
  else if (waitpid(child, &status, 0) == child)
    describe_end(status, o->limit_s, out);
}

static void run_here(job_fn job, const void *arg, outcome *out) {
  FILE *mem = open_memstream(&out->text, &out->len);
  if (!mem) return;
  do_job(mem, job, arg);
  fclose(mem);
}

/* Is p, a quote, the beginning of the name of something that is another in each network? */
static bool is_own_name(const char *text, const char *p) {
  static const char *const before[] = {"layer ", "parameter ", "gradient of ", "data ", "where ", "without ", "with "};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
    const size_t n = strlen(before[i]);
    if ((size_t)(p - text) >= n && strncmp(p - n, before[i], n) == 0) return true;
  }
  return false;
}

/* The reason as counted: without names and numbers that differ from case to case. */
static void count_reason(tally *t, const char *word, const char *text) {
  crn_str s = {0};
  crn_str_addf(&s, "%s ", word);
  for (const char *p = text; *p;) {
    if (*p == '\'' && is_own_name(text, p)) { /* only its quotes stay */
      const char *end = strchr(p + 1, '\'');
      crn_str_add(&s, "'…'");
      p = end ? end + 1 : p + strlen(p);
    } else if (isdigit((unsigned char)*p)) {
      crn_str_addc(&s, '#');
      while (isdigit((unsigned char)*p) || *p == '.' || (*p == 'e' && (p[1] == '-' || p[1] == '+')) ||
             (*p == '-' && isdigit((unsigned char)p[1])))
        p++;
    } else {
      crn_str_addc(&s, *p++);
    }
  }
  if (s.len > 130) {
    s.len = 130;
    while (s.len && ((unsigned char)s.p[s.len] & 0xC0) == 0x80) s.len--; /* not inside of a character */
    s.p[s.len] = 0;
  }
  const uintptr_t count = (uintptr_t)crn_map_get(&t->reasons, crn_str_get(&s)) + 1;
  if (crn_map_set(&t->reasons, crn_str_get(&s), (void *)count) != CRN_OK) fputs("no memory for reasons\n", stderr);
  crn_str_free(&s);
}

static void print_failure(tally *t, const char *name, const char *part, const char *text) {
  printf("FAIL %s%s%s: %s\n", name, part[0] ? " " : "", part, text);
  count_reason(t, "FAIL", text);
}

/* "layer 'x': not implemented: y" becomes "not implemented: layer 'x': y". */
static void print_missing(tally *t, const char *name, const char *text) {
  static const char word[] = "not implemented: ";
  const char *found = strstr(text, word);
  crn_str s = {0};
  crn_str_add(&s, word);
  crn_str_addn(&s, text, found ? (size_t)(found - text) : strlen(text));
  if (found) crn_str_add(&s, found + strlen(word));
  printf("MISS %s: %s\n", name, crn_str_get(&s));
  count_reason(t, "MISS", crn_str_get(&s));
  crn_str_free(&s);
}

/* Messages of one kind: the first, or all. */
static void print_lines(const options *o, tally *t, const outcome *out, char kind, const char *name) {
  const char *part = "";
  for (const char *line = out->text; line && *line; line += strlen(line) + 1) {
    if (line[0] == 'P') part = line + 1;
    if (line[0] != kind) continue;
    if (kind == 'M')
      print_missing(t, name, line + 1);
    else
      print_failure(t, name, part, line + 1);
    if (!o->verbose) return;
  }
}

static void print_notes(const outcome *out, const char *name) {
  const char *part = "";
  for (const char *line = out->text; line && *line; line += strlen(line) + 1) {
    if (line[0] == 'P') part = line + 1;
    if (line[0] == 'N' || line[0] == 'S') printf("     %s%s%s: %s\n", name, part[0] ? " " : "", part, line + 1);
  }
}

/* Cut the text at line ends; a 0 follows the last. Counts lines by kind and finds the last part. */
static void split(outcome *out, int counts[256], const char **last_part) {
  *last_part = "";
  char *line = out->text;
  for (char *nl; line && (nl = strchr(line, '\n')); line = nl + 1) {
    *nl = 0;
    counts[(unsigned char)line[0]]++;
    if (line[0] == 'P') *last_part = line + 1;
  }
  if (line) *line = 0; /* a line that was begun when the child died */
}

void run_job(const options *o, tally *t, const char *name, job_fn job, const void *arg) {
  outcome out = {0};
  int counts[256] = {0};
  const char *last_part;
  if (o->no_fork)
    run_here(job, arg, &out);
  else
    run_child(o, job, arg, &out);
  split(&out, counts, &last_part);
  if (!counts['E'] && !out.end[0]) snprintf(out.end, sizeof out.end, "ended without a report");
  const verdict v = counts['F'] || out.end[0] ? FAILED : counts['M'] ? MISSING : counts['S'] ? SKIPPED : PASSED;
  t->n[v]++;
  if (counts['F']) print_lines(o, t, &out, 'F', name);
  if (out.end[0] && (!counts['F'] || o->verbose)) print_failure(t, name, counts['E'] ? "" : last_part, out.end);
  if (v == MISSING || (o->verbose && counts['M'])) print_lines(o, t, &out, 'M', name);
  if (v == PASSED) printf("PASS %s\n", name);
  if (o->verbose) print_notes(&out, name);
  fflush(stdout);
  free(out.text);
}

static int by_count(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const crn_map_entry *)a)->value, y = (uintptr_t)((const crn_map_entry *)b)->value;
  return x < y ? 1 : x > y ? -1 : 0;
}

int print_tally(const options *o, tally *t) {
  if (o->verbose && t->reasons.n) {
    const size_t n = t->reasons.n;
    crn_map_entry *list = crn_malloc(n * sizeof *list);
    if (list) {
      memcpy(list, t->reasons.entries, n * sizeof *list);
      qsort(list, n, sizeof *list, by_count);
      puts("most frequent reasons:");
      for (size_t i = 0; i < n && i < 40; i++) printf("%6zu %s\n", (size_t)(uintptr_t)list[i].value, list[i].key);
    }
    crn_free(list);
  }
  crn_map_free(&t->reasons);
  printf("%d passed, %d failed, %d missing\n", t->n[PASSED], t->n[FAILED], t->n[MISSING]);
  return t->n[FAILED] == 0 && t->n[MISSING] == 0 && t->n[PASSED] > 0 ? 0 : 1;
}
