/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets of the log: files, programs behind "|", standard output.
 */
#include "log.h"

#include "base/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TARGETS = 16, DEFAULT_VERBOSITY = 3 };

typedef enum line_format { FORMAT_DEFAULT, FORMAT_TIMED, FORMAT_VERBOSE } line_format;

typedef struct target {
  FILE *file;
  bool is_program; /* opened by popen */
  bool is_console; /* standard output or error: not to be closed */
  char *name;      /* as in the config; NULL: the console */
  bool failed;     /* couldn't be written; said once */
  int verbosity;
  line_format format;
} target;

struct cli_log {
  target targets[MAX_TARGETS];
  size_t n;
  bool open;
  crn_str held; /* before that: level digit, text, newline */
  time_t start;
  cli_progress progress;
};

cli_log *cli_log_new(void) {
  cli_log *l = crn_calloc(1, sizeof *l);
  if (l) {
    l->start = time(NULL);
    cli_progress_init(&l->progress, stdout, isatty(STDOUT_FILENO) != 0);
  }
  return l;
}

static void show_held(cli_log *l, FILE *to) {
  for (const char *line = crn_str_get(&l->held); *line;) {
    size_t n = strcspn(line, "\n");
    if (line[0] <= '2') fprintf(to, "%.*s\n", (int)(n - 1), line + 1);
    line += n + (line[n] == '\n');
  }
  crn_str_clear(&l->held);
}

void cli_log_free(cli_log *l) {
  if (!l) return;
  if (!l->open) show_held(l, stderr);
  cli_progress_end(&l->progress);
  for (size_t i = 0; i < l->n; i++) {
    target *t = &l->targets[i];
    if (t->is_console)
      fflush(t->file);
    else if (t->is_program)
      pclose(t->file);
    else
      fclose(t->file);
    crn_free(t->name);
  }
  crn_str_free(&l->held);
  crn_free(l);
}

/* A log that can't be written any more (disk full, its program ended) is no reason to stop the task. */
static void check_written(target *t) {
  if (!ferror(t->file) || t->is_console) return;
  fprintf(stderr, "creturnn: can't write the log '%s' any more: %s\n", t->name ? t->name : "", strerror(errno));
  t->failed = true;
}

static void write_line(target *t, int level, const char *text) {
  if (level > t->verbosity || t->failed) return;
  if (t->format != FORMAT_DEFAULT) {
    time_t now = time(NULL);
    struct tm local;
    char stamp[32];
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
    fprintf(t->file, t->format == FORMAT_VERBOSE ? "[%s %d] " : "[%s] ", stamp, level);
  }
  fprintf(t->file, "%s\n", text);
  fflush(t->file);
  check_written(t);
}

void cli_log_line(void *log, int level, const char *text) {
  cli_log *l = log;
  if (!l->open) {
    crn_str_addf(&l->held, "%d%s\n", level, text);
    return;
  }
  cli_progress_clear(&l->progress);
  for (size_t i = 0; i < l->n; i++) write_line(&l->targets[i], level, text);
}

static void replay(cli_log *l) {
  l->open = true;
  for (char *line = l->held.p; line && *line;) {
    char *end = line + strcspn(line, "\n");
    bool last = !*end;
    *end = 0;
    cli_log_line(l, line[0] - '0', line + 1);
    line = last ? end : end + 1;
  }
  crn_str_clear(&l->held);
}

void cli_log_open_quiet(cli_log *l) {
  l->targets[l->n++] = (target){.file = stderr, .is_console = true, .verbosity = 2};
  replay(l);
}

void cli_log_error(cli_log *l, const char *text) {
  fflush(stdout);
  if (l) {
    if (!l->open) show_held(l, stderr);
    cli_progress_end(&l->progress);
    for (size_t i = 0; i < l->n; i++)
      if (!l->targets[i].is_console) write_line(&l->targets[i], 1, text);
  }
  fprintf(stderr, "creturnn: %s\n", text);
}

cli_progress *cli_log_progress(cli_log *l) { return &l->progress; }

/* ---- targets from the config ---- */

/* Folders above a file, as far as they are missing. */
static void make_folders(const char *path, crn_arena *a) {
  char *copy = crn_arena_strdup(a, path);
  for (char *slash = copy; slash && *slash && (slash = strchr(slash + 1, '/'));) {
    *slash = 0;
    mkdir(copy, 0777); /* what fails here shows when the file is opened */
    *slash = '/';
  }
}

/* "$date" in a name becomes the time of the start. */
static const char *insert_date(const cli_log *l, const char *name, crn_arena *a) {
  struct tm utc;
  char stamp[32];
  gmtime_r(&l->start, &utc);
  strftime(stamp, sizeof stamp, "%Y-%m-%d-%H-%M-%S", &utc);
  const char *at;
  while (name && (at = strstr(name, "$date")))
    name = crn_arena_printf(a, "%.*s%s%s", (int)(at - name), name, stamp, at + 5);
  return name;
}

static crn_status open_target(cli_log *l, const char *given, const crn_config *config, target *t, crn_arena *a,
                              crn_err *err) {
  const char *name = insert_date(l, given, a);
  if (!name) return crn_err_memory(err);
  if (!name[0]) return crn_fail(err, CRN_E_CONFIG, "key 'log': expected a file's name, got ''");
  if (name[0] == '|') {
    fflush(NULL);
    t->file = popen(name + 1, "w");
    t->is_program = true;
  } else {
    CRN_TRY(crn_config_output_path(config, name, a, &name, err));
    make_folders(name, a);
    t->file = fopen(name, "a");
  }
  if (!t->file) return crn_fail(err, CRN_E_FILE, "key 'log': can't open '%s': %s", name, strerror(errno));
  t->name = crn_strdup(given);
  return CRN_OK;
}

/* Item i of a key that holds one value for all targets or a list of one each; NULL if there is none. */
static const crn_value *item_of(const crn_value *v, size_t i) {
  if (!crn_v_is_seq(v)) return v;
  return crn_v_at(v, crn_v_len(v) == 1 ? 0 : i);
}

static crn_status set_target(target *t, const crn_config *config, size_t i, crn_err *err) {
  static const char *const formats[] = {"default", "timed", "verbose"};
  const crn_value *v = item_of(crn_config_get(config, "log_verbosity"), i);
  int64_t verbosity = DEFAULT_VERBOSITY;
  crn_arena scratch = {0};
  const char *text = crn_v_cstr(v);
  crn_value *number = NULL;
  if (text && crn_v_parse_literal(&scratch, text, "log_verbosity", &number, NULL) == CRN_OK) v = number;
  bool ok = crn_v_is_none(v) || crn_v_to_int(v, &verbosity);
  crn_arena_free(&scratch);
  if (!ok) return crn_config_fail(config, "log_verbosity", err, "expected int or list of int");
  t->verbosity = verbosity < 0 ? 0 : verbosity > 9 ? 9 : (int)verbosity;
  const crn_value *format = item_of(crn_config_get(config, "log_format"), i);
  if (crn_v_is_none(format)) return CRN_OK;
  for (size_t f = 0; f < 3; f++) {
    if (!crn_v_cstr(format) || strcmp(crn_v_cstr(format), formats[f]) != 0) continue;
    t->format = (line_format)f;
    return CRN_OK;
  }
  return crn_config_fail(config, "log_format", err, "expected 'default', 'timed' or 'verbose'");
}

static crn_status add_targets(cli_log *l, const crn_config *config, crn_arena *a, crn_err *err) {
  const crn_value *names = crn_config_get(config, "log");
  bool has_console = false;
  size_t n = crn_v_is_seq(names) ? crn_v_len(names) : !crn_v_is_none(names);
  for (size_t i = 0; i <= n; i++) {
    target t = {.file = stdout, .is_console = true};
    const crn_value *name = i < n ? item_of(names, i) : NULL;
    if (i < n && !crn_v_cstr(name))
      return crn_config_fail(config, "log", err, "expected file names (str or list of str)");
    bool is_console = i == n || !strcmp(crn_v_cstr(name), "stdout");
    if (is_console && has_console) continue;
    if (l->n == MAX_TARGETS) return crn_config_fail(config, "log", err, "more than %d targets", MAX_TARGETS - 1);
    CRN_TRY(set_target(&t, config, i, err));
    if (!is_console) {
      t.is_console = false;
      CRN_TRY(open_target(l, crn_v_cstr(name), config, &t, a, err));
    }
    has_console |= is_console;
    l->targets[l->n++] = t;
  }
  return CRN_OK;
}

crn_status cli_log_open(cli_log *l, const crn_config *config, int *verbosity, crn_err *err) {
  crn_arena a = {0};
  crn_status status = add_targets(l, config, &a, err);
  crn_arena_free(&a);
  if (status != CRN_OK) return status;
  *verbosity = 1;
  for (size_t i = 0; i < l->n; i++)
    if (l->targets[i].verbosity > *verbosity) *verbosity = l->targets[i].verbosity;
  replay(l);
  return CRN_OK;
}
