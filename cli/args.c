/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting of arguments into words, options of the command, and settings for the config.
 */
#include "cli.h"

#include "config/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const cli_option common_options[] = {{"help", 'h', NULL, "print this help"}, {0}};

typedef struct parser {
  const cli_command *command;
  char **argv;
  int argc, at;
  crn_arena *a;
  cli_args *out;
  crn_err *err;
} parser;

static const cli_option *find_option(const cli_command *command, const char *name, size_t n, char letter) {
  const cli_option *const lists[] = {command->options, common_options};
  for (size_t l = 0; l < 2; l++)
    for (const cli_option *o = lists[l]; o && o->name; o++)
      if (name ? strlen(o->name) == n && !strncmp(o->name, name, n) : o->letter == letter) return o;
  return NULL;
}

static const char *nearest_option(const cli_command *command, const char *name) {
  const char *names[32];
  size_t n = 0;
  for (const cli_option *o = command->options; o && o->name && n < 31; o++) names[n++] = o->name;
  names[n++] = "help";
  return crn_nearest(name, names, n);
}

/* The option's value: after its "=", or the next argument. */
static crn_status add_option(parser *p, const cli_option *o, const char *text, const char *value) {
  if (!o->metavar && value) return crn_fail(p->err, CRN_E_CONFIG, "option '%s' takes no value", text);
  if (o->metavar && !value) {
    if (p->at + 1 >= p->argc) return crn_fail(p->err, CRN_E_CONFIG, "option '%s' needs a value", text);
    value = p->argv[++p->at];
  }
  p->out->options[p->out->n_options++] = (cli_pair){o->name, value};
  return CRN_OK;
}

static crn_status add_setting(parser *p, const char *key, const char *value) {
  if (!p->command->takes_config)
    return crn_fail(p->err, CRN_E_CONFIG, "'%s' takes no config, so it can't be set '%s'", p->command->name, key);
  if (!*key) return crn_fail(p->err, CRN_E_CONFIG, "expected \"++key value\", got an empty key");
  p->out->settings[p->out->n_settings++] = (cli_pair){key, value};
  return CRN_OK;
}

/* "++key value", also "++key=value" */
static crn_status parse_setting(parser *p, const char *text) {
  const char *equals = strchr(text, '=');
  if (equals) {
    const char *key = crn_arena_strndup(p->a, text, (size_t)(equals - text));
    return key ? add_setting(p, key, equals + 1) : crn_err_memory(p->err);
  }
  if (p->at + 1 >= p->argc) return crn_fail(p->err, CRN_E_CONFIG, "option '++%s' needs a value", text);
  return add_setting(p, text, p->argv[++p->at]);
}

/* "--name", "--name=value": an option of the command, else, with a value, a setting ("-" stands for "_" there). */
static crn_status parse_long(parser *p, const char *text) {
  const char *name = text + 2, *equals = strchr(name, '=');
  size_t n = equals ? (size_t)(equals - name) : strlen(name);
  const cli_option *o = find_option(p->command, name, n, 0);
  if (o) return add_option(p, o, text, equals ? equals + 1 : NULL);
  char *key = crn_arena_strndup(p->a, name, n);
  if (!key) return crn_err_memory(p->err);
  const char *near = nearest_option(p->command, key);
  for (char *c = key; *c; c++)
    if (*c == '-') *c = '_';
  if (equals && p->command->takes_config && (crn_config_key_find(key) || !near)) return add_setting(p, key, equals + 1);
  crn_fail(p->err, CRN_E_CONFIG, "'%s' has no option '--%.*s'", p->command->name, (int)n, name);
  if (near) crn_err_append(p->err, " (did you mean '--%s'?)", near);
  if (p->command->takes_config && crn_config_key_find(key))
    crn_err_append(p->err, " (config keys are set by --%s=VALUE or ++%s VALUE)", key, key);
  return p->err->code;
}

static crn_status parse_one(parser *p) {
  const char *text = p->argv[p->at];
  if (!strncmp(text, "++", 2)) return parse_setting(p, text + 2);
  if (!strncmp(text, "--", 2) && text[2]) return parse_long(p, text);
  if (text[0] == '-' && text[1] && text[1] != '-') {
    const cli_option *o = text[2] ? NULL : find_option(p->command, NULL, 0, text[1]);
    if (o) return add_option(p, o, text, NULL);
    return crn_fail(p->err, CRN_E_CONFIG, "'%s' has no option '%s'", p->command->name, text);
  }
  p->out->words[p->out->n_words++] = text;
  return CRN_OK;
}

crn_status cli_args_parse(const cli_command *command, int argc, char **argv, crn_arena *a, cli_args *out,
                          crn_err *err) {
  size_t n = (size_t)argc + 1;
  *out = (cli_args){.words = CRN_ARENA_ARRAY(a, const char *, n),
                    .options = CRN_ARENA_ARRAY(a, cli_pair, n),
                    .settings = CRN_ARENA_ARRAY(a, cli_pair, n)};
  if (!out->words || !out->options || !out->settings) return crn_err_memory(err);
  parser p = {command, argv, argc, 0, a, out, err};
  for (; p.at < argc; p.at++) {
    if (!strcmp(argv[p.at], "--")) break;
    CRN_TRY(parse_one(&p));
  }
  for (p.at++; p.at < argc; p.at++) out->words[out->n_words++] = argv[p.at];
  return CRN_OK;
}

bool cli_has(const cli_args *args, const char *option) {
  for (size_t i = 0; i < args->n_options; i++)
    if (!strcmp(args->options[i].name, option)) return true;
  return false;
}

const char *cli_value(const cli_args *args, const char *option, const char *otherwise) {
  for (size_t i = args->n_options; i > 0; i--) /* the last one counts */
    if (!strcmp(args->options[i - 1].name, option)) return args->options[i - 1].value;
  return otherwise;
}

crn_status cli_value_int(const cli_args *args, const char *option, int64_t otherwise, int64_t least, int64_t *out,
                         crn_err *err) {
  *out = otherwise;
  const char *text = cli_value(args, option, NULL);
  if (!text) return CRN_OK;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno || value < least)
    return crn_fail(err, CRN_E_CONFIG, "option '--%s': expected a whole number >= %lld, got '%s'", option,
                    (long long)least, text);
  *out = value;
  return CRN_OK;
}

static void print_options(const cli_option *options, FILE *out) {
  for (const cli_option *o = options; o && o->name; o++) {
    char name[80];
    int n = o->letter ? snprintf(name, sizeof name, "-%c, --%s", o->letter, o->name)
                      : snprintf(name, sizeof name, "    --%s", o->name);
    if (o->metavar && n > 0 && (size_t)n < sizeof name) snprintf(name + n, sizeof name - (size_t)n, " %s", o->metavar);
    fprintf(out, "  %-26s %s\n", name, o->doc);
  }
}

void cli_print_command_help(const cli_command *command, FILE *out) {
  fprintf(out, "creturnn %s %s\n\n%s\n", command->name, command->usage, command->doc);
  if (command->more) fprintf(out, "\n%s", command->more);
  fprintf(out, "\noptions:\n");
  print_options(command->options, out);
  print_options(common_options, out);
  if (command->takes_config)
    fprintf(out, "  %-26s %s\n  %-26s %s\n", "++KEY VALUE, --KEY=VALUE", "set a key of the config", "",
            "(creturnn keys lists them)");
}
