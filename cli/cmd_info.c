/* SPDX-License-Identifier: Apache-2.0
 *
 * creturnn info: the network of a config, and all that the config asks for and isn't there. creturnn graph: the network
 * as a drawing.
 */
#include "commands.h"

#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const cli_option info_options[] = {
    {"search", 's', NULL, "the network as it is for search"},
    {"params", 'p', NULL, "list the parameters"},
    CLI_CONFIG_OPTIONS,
    {0},
};

static crn_status run_info(cli *c, const cli_args *args) {
  crn_config *config;
  crn_str out = {0};
  int64_t n = 0;
  CRN_TRY(cli_load_config(c, args, args->n_words, false, &config));
  crn_status st = crn_engine_info(config, &c->log, cli_has(args, "search"), cli_has(args, "params"), &out, &n, &c->err);
  if (st == CRN_OK) printf("%s", crn_str_get(&out));
  if (st == CRN_OK && n > 0)
    st = crn_fail(&c->err, CRN_E_NOT_IMPLEMENTED, "%s: %lld thing%s supported", crn_config_file(config), (long long)n,
                  n == 1 ? " isn't" : "s aren't");
  crn_str_free(&out);
  crn_config_free(config);
  return st;
}

const cli_command cli_cmd_info = {
    .name = "info",
    .usage = "CONFIG... [++KEY VALUE]...",
    .doc = "Describe a config's network and list what isn't supported.",
    .more = "The exit code is 1 if something isn't supported.\n",
    .takes_config = true,
    .options = info_options,
    .run = run_info,
};

/* ---- graph ----------------------------------------------------------------------------------------------------------
 */

static const cli_option graph_options[] = {
    {"search", 's', NULL, "the network as it is for search"},
    {"svg", 0, "FILE", "draw it into an SVG file (needs Graphviz's program dot)"},
    CLI_CONFIG_OPTIONS,
    {0},
};

static void write_all(int fd, const char *p, size_t n) {
  while (n > 0) {
    const ssize_t k = write(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return;
    p += k;
    n -= (size_t)k;
  }
}

static crn_status draw_into(const char *temp, const crn_str *graph, crn_err *err) {
  int ends[2], status = 0;
  if (pipe(ends) != 0) return crn_fail(err, CRN_E_FILE, "can't make a pipe: %s", strerror(errno));
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGPIPE, SIG_DFL);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    close(ends[1]);
    execlp("dot", "dot", "-Tsvg", "-o", temp, (char *)NULL);
    _exit(127);
  }
  close(ends[0]);
  if (pid > 0) write_all(ends[1], crn_str_get(graph), graph->len); /* SIGPIPE is ignored: see run_graph */
  close(ends[1]);
  if (pid < 0) return crn_fail(err, CRN_E_FILE, "can't start a program: %s", strerror(errno));
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return crn_fail(err, CRN_E_FILE,
                    "Graphviz's program 'dot' isn't installed; without --svg the graph is printed as text for it");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? CRN_OK
                                                       : crn_fail(err, CRN_E_FILE, "Graphviz's program 'dot' failed");
}

static crn_status draw(const char *file, const crn_str *graph, crn_err *err) {
  crn_str temp = {0};
  crn_str_addf(&temp, "%s.new_tmp", file);
  if (!crn_str_ok(&temp)) return crn_err_memory(err);
  crn_status st = draw_into(temp.p, graph, err);
  if (st == CRN_OK)
    st = crn_file_put(temp.p, file, err);
  else
    (void)unlink(temp.p);
  crn_str_free(&temp);
  return st;
}

static crn_status run_graph(cli *c, const cli_args *args) {
  crn_config *config;
  crn_str out = {0};
  const char *svg = cli_value(args, "svg", NULL);
  CRN_TRY(cli_load_config(c, args, args->n_words, false, &config));
  crn_status st = svg ? crn_file_prepare(svg, &c->err) : CRN_OK;
  if (svg) signal(SIGPIPE, SIG_IGN); /* a 'dot' that ends before it has read all */
  if (st == CRN_OK) st = crn_engine_graph(config, &c->log, cli_has(args, "search"), &out, &c->err);
  if (st == CRN_OK && svg)
    st = draw(svg, &out, &c->err);
  else if (st == CRN_OK)
    printf("%s", crn_str_get(&out));
  crn_str_free(&out);
  crn_config_free(config);
  return st;
}

const cli_command cli_cmd_graph = {
    .name = "graph",
    .usage = "CONFIG... [++KEY VALUE]...",
    .doc = "Print a config's network as a Graphviz graph.",
    .takes_config = true,
    .options = graph_options,
    .run = run_graph,
};
