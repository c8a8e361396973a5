/* SPDX-License-Identifier: Apache-2.0
 *
 * conformance [-k PATTERN] [-g GROUP] [-v] DIR      cases: NAME.json and NAME.h5
 * conformance [-k PATTERN] [-v] --errors FILE       configs that must be refused
 * conformance [-k PATTERN] [-v] --corpus DIR        networks that must be built as the original builds them, and alike
 *                                                   under other names of layers
 *
 * A line for each ("PASS NAME", "FAIL NAME mode: what", "MISS NAME mode: not implemented: what"), at the end
 * "N passed, N failed, N missing". Exit code 0 when all passed.
 */
#include <dirent.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "runner.h"

/* ---- lists of names ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool add_name(name_list *l, const char *name, size_t len) {
  char **more = crn_realloc(l->names, (l->n + 1) * sizeof *more);
  if (!more) return false;
  l->names = more;
  char *copy = crn_malloc(len + 1);
  if (!copy) return false;
  memcpy(copy, name, len);
  copy[len] = 0;
  l->names[l->n++] = copy;
  return true;
}

bool list_json_names(const char *folder, name_list *out) {
  *out = (name_list){NULL, 0};
  DIR *d = opendir(folder);
  if (!d) return false;
  bool ok = true;
  for (const struct dirent *e; ok && (e = readdir(d));)
    if (crn_ends_with(e->d_name, ".json")) ok = add_name(out, e->d_name, strlen(e->d_name) - 5);
  closedir(d);
  if (out->n) qsort(out->names, out->n, sizeof *out->names, by_text);
  return ok;
}

void name_list_free(name_list *l) {
  for (size_t i = 0; i < l->n; i++) crn_free(l->names[i]);
  crn_free(l->names);
  *l = (name_list){NULL, 0};
}

/* ---- groups ---- */

/* Cases of the group by "name<tab>group<tab>…" lines; every name must have its files. */
static bool list_group(const char *folder, const char *group, name_list *out) {
  crn_err err = {0};
  char path[4096], *text = NULL;
  *out = (name_list){NULL, 0};
  snprintf(path, sizeof path, "%s/../groups.tsv", folder);
  if (crn_file_read(path, 0, &text, NULL, &err) != CRN_OK) {
    fprintf(stderr, "%s\n", crn_err_text(&err));
    crn_err_clear(&err);
    return false;
  }
  bool ok = true;
  for (const char *line = text; ok && *line; line += strcspn(line, "\n"), line += *line == '\n') {
    const size_t name = strcspn(line, "\t\n");
    if (line[name] != '\t') continue;
    const char *g = line + name + 1;
    const size_t len = strcspn(g, "\t\n");
    if (len == strlen(group) && strncmp(g, group, len) == 0) ok = add_name(out, line, name);
  }
  crn_free(text);
  return ok;
}

static int run_cases(const options *o, const char *folder) {
  name_list names;
  tally t = {{0}, {0}};
  const bool listed = o->group ? list_group(folder, o->group, &names) : list_json_names(folder, &names);
  if (!listed || !names.n)
    fprintf(stderr, "%s: no cases%s%s\n", folder, o->group ? " of group " : "", o->group ? o->group : "");
  for (size_t i = 0; i < names.n; i++) {
    const case_job job = {.folder = folder, .name = names.names[i]};
    if (name_wanted(o, job.name)) run_job(o, &t, job.name, run_case, &job);
  }
  name_list_free(&names);
  return print_tally(o, &t);
}

/* ---- arguments ---- */

static int usage(FILE *to) {
  fputs("usage: conformance [-k PATTERN] [-g GROUP] [-v] [--no-fork] DIR\n"
        "       conformance [-k PATTERN] [-v] [--no-fork] --errors FILE\n"
        "       conformance [-k PATTERN] [-v] [--no-fork] --corpus DIR\n"
        "  -k PATTERN  only names that hold PATTERN (or match it, with * ? [])\n"
        "  -g GROUP    only cases of this group in DIR/../groups.tsv\n"
        "  -v          all differences, notes, and a list of the most frequent reasons\n"
        "  --no-fork   run in this process, for a debugger\n",
        to);
  return to == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
  static const struct option long_options[] = {{"errors", required_argument, NULL, 'e'},
                                               {"corpus", required_argument, NULL, 'c'},
                                               {"no-fork", no_argument, NULL, 'n'},
                                               {"help", no_argument, NULL, 'h'},
                                               {NULL, 0, NULL, 0}};
  options o = {.limit_s = 300};
  const char *errors = NULL, *corpus = NULL;
  for (int c; (c = getopt_long(argc, argv, "k:g:vh", long_options, NULL)) != -1;) {
    if (c == 'k')
      o.pattern = optarg;
    else if (c == 'g')
      o.group = optarg;
    else if (c == 'v')
      o.verbose = true;
    else if (c == 'e')
      errors = optarg;
    else if (c == 'c')
      corpus = optarg;
    else if (c == 'n')
      o.no_fork = true;
    else
      return usage(c == 'h' ? stdout : stderr);
  }
  const int n_given = (errors != NULL) + (corpus != NULL) + (argc - optind);
  if (n_given != 1 || (o.group && (errors || corpus))) return usage(stderr);
  if (errors) return run_errors(&o, errors);
  if (corpus) return run_corpus(&o, corpus);
  return run_cases(&o, argv[optind]);
}
