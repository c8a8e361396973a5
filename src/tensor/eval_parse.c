/* SPDX-License-Identifier: Apache-2.0
 *
 * Parser of expressions, after the grammar in the Python language reference, chapter 6 ("Expressions"): one function a
 * level of precedence, loosest first. The letters (numbers, strings, white space) are read by value/scan.h.
 */
#define _GNU_SOURCE
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "tensor/eval_ast.h"
#include "value/scan.h"

typedef struct parser {
  crn_scan s;
  crn_arena *a;
  int nesting; /* of this file's functions */
} parser;

enum { MAX_NESTING = 200, MAX_LIST = 4096 };

static crn_status parse_expression(parser *p, crn_enode **out);
static crn_status parse_unary(parser *p, crn_enode **out);

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static crn_status memory(parser *p) { return crn_err_memory(p->s.err); }

static int column(const parser *p) { return (int)(p->s.p - p->s.line_start) + 1; }

static crn_status node_new(parser *p, crn_enode_kind kind, int col, int n_kids, crn_enode *const *kids,
                           crn_enode **out) {
  crn_enode *n = CRN_ARENA_NEW(p->a, crn_enode);
  if (n && n_kids) n->kids = CRN_ARENA_ARRAY(p->a, crn_enode *, n_kids);
  if (!n || (n_kids && !n->kids)) return memory(p);
  n->kind = kind;
  n->column = col;
  n->n_kids = n_kids;
  n->depth = 1;
  for (int i = 0; i < n_kids; i++) {
    n->kids[i] = kids[i];
    if (kids[i] && kids[i]->depth >= n->depth) n->depth = kids[i]->depth + 1;
  }
  if (n->depth > CRN_EVAL_MAX_DEPTH)
    return crn_scan_fail(&p->s, "the expression is nested too deeply (limit %d)", CRN_EVAL_MAX_DEPTH);
  *out = n;
  return CRN_OK;
}

static crn_status constant(parser *p, int col, crn_ev value, crn_enode **out) {
  CRN_TRY(node_new(p, CRN_E_CONST, col, 0, NULL, out));
  (*out)->value = value;
  return CRN_OK;
}

/* Nodes being collected (items of a list, arguments). */
typedef struct list {
  crn_enode **items;
  int n, cap;
} list;

static crn_status list_add(parser *p, list *l, crn_enode *item) {
  if (l->n == l->cap) {
    int cap = l->cap ? 2 * l->cap : 8;
    if (cap > MAX_LIST) return crn_scan_fail(&p->s, "more than %d entries", MAX_LIST);
    crn_enode **items = CRN_ARENA_ARRAY(p->a, crn_enode *, cap);
    if (!items) return memory(p);
    if (l->n) memcpy(items, l->items, (size_t)l->n * sizeof *items);
    l->items = items;
    l->cap = cap;
  }
  l->items[l->n++] = item;
  return CRN_OK;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* Length of the identifier (without dots) that stands here, or 0. */
static size_t word_length(const parser *p) {
  size_t n = crn_scan_name(&p->s);
  const char *dot = n ? memchr(p->s.p, '.', n) : NULL;
  return dot ? (size_t)(dot - p->s.p) : n;
}

static bool at_word(const parser *p, const char *word) {
  size_t n = word_length(p);
  return n == strlen(word) && memcmp(p->s.p, word, n) == 0;
}

static bool take_word(parser *p, const char *word) { return at_word(p, word) && crn_scan_take(&p->s, word); }

/* An operator that isn't the beginning of a longer one: next holds the characters that would make it longer. */
static bool take_op(parser *p, const char *op, const char *next) {
  size_t n = strlen(op);
  if (strncmp(p->s.p, op, n) != 0 || (p->s.p[n] && strchr(next, p->s.p[n]))) return false;
  return crn_scan_take(&p->s, op);
}

static crn_status expect(parser *p, const char *token, const char *after) {
  if (crn_scan_take(&p->s, token)) return CRN_OK;
  return crn_scan_fail(&p->s, "expected '%s' after %s", token, after);
}

/* Words of Python that begin something which isn't an expression here. */
static crn_status refuse_keyword(parser *p) {
  static const char *const others[] = {"lambda", "yield", "await", "for", "async", "def", "class", "import", "return"};
  static const char *const misplaced[] = {"if", "else", "and", "or", "in", "is"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (at_word(p, others[i])) return crn_scan_fail(&p->s, "not implemented: %s in expressions", others[i]);
  for (size_t i = 0; i < sizeof misplaced / sizeof misplaced[0]; i++)
    if (at_word(p, misplaced[i])) return crn_scan_fail(&p->s, "expected a value, found '%s'", misplaced[i]);
  return CRN_OK;
}

/* ---- atoms ------------------------------------------------------------------------------------------------------ */

static crn_status parse_number(parser *p, crn_enode **out) {
  crn_value *v;
  int col = column(p);
  CRN_TRY(crn_scan_number(&p->s, &v));
  crn_scan_space(&p->s);
  return constant(p, col, v->kind == CRN_V_INT ? crn_ev_of_int(v->u.i) : crn_ev_of_float(v->u.f), out);
}

static crn_status parse_string(parser *p, crn_enode **out) {
  crn_str text = {0};
  int col = column(p);
  crn_status s = CRN_OK;
  while (s == CRN_OK && crn_scan_at_string(&p->s)) { /* adjacent ones are joined */
    s = crn_scan_string(&p->s, &text);
    if (s == CRN_OK) crn_scan_space(&p->s);
  }
  char *copy = s == CRN_OK ? crn_arena_strndup(p->a, crn_str_get(&text), text.len) : NULL;
  if (s == CRN_OK && !copy) s = memory(p);
  crn_str_free(&text);
  return s == CRN_OK ? constant(p, col, crn_ev_of_str(copy), out) : s;
}

/* tf.… as a whole: a function of the table, a dtype, tf.newaxis. */
static crn_status parse_tf(parser *p, crn_enode **out) {
  size_t n = crn_scan_name(&p->s);
  int col = column(p);
  char *name = crn_arena_strndup(p->a, p->s.p, n);
  char near[96];
  if (!name) return memory(p);
  const char *last = strrchr(name, '.');
  crn_dtype t;
  crn_ev value = {.kind = CRN_EV_FUNC, .u.row = crn_optable_find(name)};
  if (!last) return crn_scan_fail(&p->s, "'%s' alone is no value", name);
  if (!value.u.row && strcmp(last, ".newaxis") == 0)
    value = crn_ev_none();
  else if (!value.u.row && crn_dtype_from_name(last + 1, &t))
    value = (crn_ev){.kind = CRN_EV_DTYPE, .u.dtype = t};
  if (value.kind == CRN_EV_FUNC && !value.u.row) {
    const char *best = crn_optable_nearest(name, near, sizeof near);
    return crn_scan_fail(&p->s, "unknown function '%s'%s%s%s; 'creturnn functions' lists those that there are", name,
                         best ? ", nearest is '" : "", best ? best : "", best ? "'" : "");
  }
  p->s.p += n;
  crn_scan_space(&p->s);
  CRN_TRY(constant(p, col, value, out));
  (*out)->text = name;
  return CRN_OK;
}

static crn_status parse_name(parser *p, crn_enode **out) {
  size_t n = word_length(p);
  int col = column(p);
  CRN_TRY(refuse_keyword(p));
  if (at_word(p, "tf") || at_word(p, "tf_compat")) return parse_tf(p, out);
  if (take_word(p, "None")) return constant(p, col, crn_ev_none(), out);
  if (take_word(p, "True")) return constant(p, col, crn_ev_of_bool(true), out);
  if (take_word(p, "False")) return constant(p, col, crn_ev_of_bool(false), out);
  CRN_TRY(node_new(p, CRN_E_NAME, col, 0, NULL, out));
  (*out)->text = crn_arena_strndup(p->a, p->s.p, n);
  if (!(*out)->text) return memory(p);
  (*out)->row = crn_optable_find((*out)->text);
  p->s.p += n;
  crn_scan_space(&p->s);
  return CRN_OK;
}

/* Items up to the closing bracket, which is taken; *comma: there was one. */
static crn_status parse_items(parser *p, const char *close, list *l, bool *comma) {
  *comma = false;
  while (!crn_scan_take(&p->s, close)) {
    crn_enode *item;
    CRN_TRY(refuse_keyword(p));
    if (*p->s.p == '*') return crn_scan_fail(&p->s, "not implemented: * in expressions");
    CRN_TRY(parse_expression(p, &item));
    CRN_TRY(list_add(p, l, item));
    if (at_word(p, "for") || at_word(p, "async")) return crn_scan_fail(&p->s, "not implemented: comprehensions");
    if (crn_scan_take(&p->s, ","))
      *comma = true;
    else if (*p->s.p != *close)
      return crn_scan_fail(&p->s, "expected ',' or '%s'", close);
  }
  return CRN_OK;
}

static crn_status parse_atom(parser *p, crn_enode **out) {
  int col = column(p);
  list l = {0};
  bool comma;
  if (crn_scan_at_number(&p->s)) return parse_number(p, out);
  if (crn_scan_at_string(&p->s)) return parse_string(p, out);
  if (word_length(p)) return parse_name(p, out);
  if (crn_scan_take(&p->s, "...")) return constant(p, col, (crn_ev){.kind = CRN_EV_ELLIPSIS}, out);
  if (crn_scan_take(&p->s, "(")) {
    CRN_TRY(parse_items(p, ")", &l, &comma));
    if (l.n == 1 && !comma) {
      *out = l.items[0];
      return CRN_OK;
    }
    return node_new(p, CRN_E_TUPLE, col, l.n, l.items, out);
  }
  if (crn_scan_take(&p->s, "[")) {
    CRN_TRY(parse_items(p, "]", &l, &comma));
    return node_new(p, CRN_E_LIST, col, l.n, l.items, out);
  }
  if (*p->s.p == '{') return crn_scan_fail(&p->s, "not implemented: dicts and sets in expressions");
  if (*p->s.p) return crn_scan_fail(&p->s, "expected a value, found '%c'", *p->s.p);
  return crn_scan_fail(&p->s, "expected a value, found the end of the text");
}

/* ---- calls, attributes, indices --------------------------------------------------------------------------------- */

static crn_status parse_arguments(parser *p, crn_enode *callee, int col, crn_enode **out) {
  list pos = {0}, named = {0};
  const char *names[CRN_OP_MAX_ARGS * 2];
  CRN_TRY(list_add(p, &pos, callee));
  while (!crn_scan_take(&p->s, ")")) {
    crn_enode *item;
    if (*p->s.p == '*') return crn_scan_fail(&p->s, "not implemented: * in calls");
    size_t n = word_length(p);
    const char *word = p->s.p, *behind = word + n;
    behind += strspn(behind, " \t\r\n");
    if (n && behind[0] == '=' && behind[1] != '=') {
      if (named.n == (int)(sizeof names / sizeof names[0])) return crn_scan_fail(&p->s, "too many keyword arguments");
      names[named.n] = crn_arena_strndup(p->a, word, n);
      if (!names[named.n]) return memory(p);
      p->s.p += n;
      crn_scan_space(&p->s);
      CRN_TRY(expect(p, "=", "the argument's name"));
      CRN_TRY(parse_expression(p, &item));
      CRN_TRY(list_add(p, &named, item));
    } else {
      if (named.n) return crn_scan_fail(&p->s, "positional argument after a keyword argument");
      CRN_TRY(parse_expression(p, &item));
      CRN_TRY(list_add(p, &pos, item));
    }
    if (at_word(p, "for") || at_word(p, "async")) return crn_scan_fail(&p->s, "not implemented: comprehensions");
    if (!crn_scan_take(&p->s, ",") && *p->s.p != ')') return crn_scan_fail(&p->s, "expected ',' or ')'");
  }
  int n_pos = pos.n - 1;
  for (int i = 0; i < named.n; i++) CRN_TRY(list_add(p, &pos, named.items[i]));
  CRN_TRY(node_new(p, CRN_E_CALL, col, pos.n, pos.items, out));
  (*out)->n_pos = n_pos;
  (*out)->n_names = named.n;
  if (named.n == 0) return CRN_OK;
  (*out)->names = CRN_ARENA_ARRAY(p->a, const char *, named.n);
  if (!(*out)->names) return memory(p);
  memcpy((*out)->names, names, (size_t)named.n * sizeof *names);
  return CRN_OK;
}

/* One place between the commas of an index: a value or a slice. */
static crn_status parse_index_item(parser *p, crn_enode **out) {
  crn_enode *part[3] = {NULL, NULL, NULL};
  int col = column(p), n_colons = 0;
  if (*p->s.p != ':') CRN_TRY(parse_expression(p, &part[0]));
  while (n_colons < 2 && crn_scan_take(&p->s, ":")) {
    n_colons++;
    if (*p->s.p != ':' && *p->s.p != ',' && *p->s.p != ']') CRN_TRY(parse_expression(p, &part[n_colons]));
  }
  if (n_colons) return node_new(p, CRN_E_SLICE, col, 3, part, out);
  *out = part[0];
  return CRN_OK;
}

static crn_status parse_index(parser *p, crn_enode *object, int col, crn_enode **out) {
  list l = {0};
  bool comma = false;
  if (*p->s.p == ']') return crn_scan_fail(&p->s, "expected an index");
  while (!crn_scan_take(&p->s, "]")) {
    crn_enode *item;
    CRN_TRY(parse_index_item(p, &item));
    CRN_TRY(list_add(p, &l, item));
    if (crn_scan_take(&p->s, ","))
      comma = true;
    else if (*p->s.p != ']')
      return crn_scan_fail(&p->s, "expected ',' or ']'");
  }
  crn_enode *index = l.items[0];
  if (comma) CRN_TRY(node_new(p, CRN_E_TUPLE, col, l.n, l.items, &index));
  return node_new(p, CRN_E_INDEX, col, 2, (crn_enode *[]){object, index}, out);
}

static crn_status parse_attribute(parser *p, crn_enode *object, int col, crn_enode **out) {
  size_t n = word_length(p);
  if (!n) return crn_scan_fail(&p->s, "expected a name after '.'");
  CRN_TRY(node_new(p, CRN_E_ATTR, col, 1, &object, out));
  (*out)->text = crn_arena_strndup(p->a, p->s.p, n);
  if (!(*out)->text) return memory(p);
  p->s.p += n;
  crn_scan_space(&p->s);
  return CRN_OK;
}

static crn_status parse_postfix(parser *p, crn_enode **out) {
  CRN_TRY(parse_atom(p, out));
  for (;;) {
    int col = column(p);
    if (crn_scan_take(&p->s, "("))
      CRN_TRY(parse_arguments(p, *out, col, out));
    else if (crn_scan_take(&p->s, "["))
      CRN_TRY(parse_index(p, *out, col, out));
    else if (*p->s.p == '.' && p->s.p[1] != '.' && crn_scan_take(&p->s, "."))
      CRN_TRY(parse_attribute(p, *out, col, out));
    else
      return CRN_OK;
  }
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

static crn_status binary(parser *p, int col, const char *op, crn_enode *l, crn_enode *r, crn_enode **out) {
  CRN_TRY(node_new(p, CRN_E_BINARY, col, 2, (crn_enode *[]){l, r}, out));
  (*out)->text = op;
  return CRN_OK;
}

static crn_status parse_power(parser *p, crn_enode **out) {
  crn_enode *exponent;
  CRN_TRY(parse_postfix(p, out));
  int col = column(p);
  if (!crn_scan_take(&p->s, "**")) return CRN_OK;
  CRN_TRY(parse_unary(p, &exponent)); /* binds to the right, and looser than a sign on its right */
  return binary(p, col, "**", *out, exponent, out);
}

static crn_status enter(parser *p) {
  if (++p->nesting > MAX_NESTING)
    return crn_scan_fail(&p->s, "the expression is nested too deeply (limit %d)", MAX_NESTING);
  return CRN_OK;
}

static crn_status parse_unary(parser *p, crn_enode **out) {
  static const char *const signs[] = {"-", "+", "~"};
  int col = column(p);
  CRN_TRY(enter(p));
  for (int i = 0; i < 3; i++) {
    if (!crn_scan_take(&p->s, signs[i])) continue;
    crn_enode *x;
    CRN_TRY(parse_unary(p, &x));
    p->nesting--;
    CRN_TRY(node_new(p, CRN_E_UNARY, col, 1, &x, out));
    (*out)->text = signs[i];
    return CRN_OK;
  }
  CRN_TRY(parse_power(p, out));
  p->nesting--;
  return CRN_OK;
}

/* Levels of binary operators that bind to the left, tightest first. */
typedef struct level {
  const char *ops[6], *next[6]; /* next: what would make it another operator */
} level;
static const level levels[] = {
    {{"*", "//", "/", "%", "@", NULL}, {"*=", "=", "/=", "=", "=", NULL}},
    {{"+", "-", NULL}, {"=", "=", NULL}},
    {{"&", NULL}, {"=", NULL}},
    {{"^", NULL}, {"=", NULL}},
    {{"|", NULL}, {"=", NULL}},
};
enum { N_LEVELS = sizeof levels / sizeof levels[0] };

static crn_status parse_level(parser *p, int k, crn_enode **out) {
  if (k < 0) return parse_unary(p, out);
  CRN_TRY(parse_level(p, k - 1, out));
  for (int i = 0; levels[k].ops[i];) {
    int col = column(p);
    if (!take_op(p, levels[k].ops[i], levels[k].next[i])) {
      i++;
      continue;
    }
    crn_enode *right;
    CRN_TRY(parse_level(p, k - 1, &right));
    CRN_TRY(binary(p, col, levels[k].ops[i], *out, right, out));
    i = 0;
  }
  return CRN_OK;
}

/* The comparison that stands here, or NULL. */
static const char *take_comparison(parser *p) {
  static const char *const ops[] = {"==", "!=", "<=", ">="};
  for (int i = 0; i < 4; i++)
    if (crn_scan_take(&p->s, ops[i])) return ops[i];
  if (take_op(p, "<", "<>")) return "<";
  if (take_op(p, ">", ">")) return ">";
  if (take_word(p, "in")) return "in";
  if (take_word(p, "is")) return take_word(p, "not") ? "is not" : "is";
  crn_scan before = p->s;
  if (take_word(p, "not")) {
    if (take_word(p, "in")) return "not in";
    p->s = before;
  }
  return NULL;
}

static crn_status parse_comparison(parser *p, crn_enode **out) {
  list l = {0};
  const char *ops[64], *op;
  int n = 0, col = column(p);
  CRN_TRY(parse_level(p, N_LEVELS - 1, out));
  CRN_TRY(list_add(p, &l, *out));
  while ((op = take_comparison(p))) {
    crn_enode *next;
    if (n == 64) return crn_scan_fail(&p->s, "more than 64 comparisons in a chain");
    CRN_TRY(parse_level(p, N_LEVELS - 1, &next));
    CRN_TRY(list_add(p, &l, next));
    ops[n++] = op;
  }
  if (n == 0) return CRN_OK;
  CRN_TRY(node_new(p, CRN_E_COMPARE, col, l.n, l.items, out));
  (*out)->names = CRN_ARENA_ARRAY(p->a, const char *, n);
  if (!(*out)->names) return memory(p);
  memcpy((*out)->names, ops, (size_t)n * sizeof *ops);
  (*out)->n_names = n;
  return CRN_OK;
}

static crn_status parse_not(parser *p, crn_enode **out) {
  int col = column(p);
  if (!take_word(p, "not")) return parse_comparison(p, out);
  crn_enode *x;
  CRN_TRY(enter(p));
  CRN_TRY(parse_not(p, &x));
  p->nesting--;
  return node_new(p, CRN_E_NOT, col, 1, &x, out);
}

static crn_status parse_and(parser *p, crn_enode **out) {
  crn_enode *right;
  CRN_TRY(parse_not(p, out));
  for (int col = column(p); take_word(p, "and"); col = column(p)) {
    CRN_TRY(parse_not(p, &right));
    CRN_TRY(node_new(p, CRN_E_AND, col, 2, (crn_enode *[]){*out, right}, out));
  }
  return CRN_OK;
}

static crn_status parse_or(parser *p, crn_enode **out) {
  crn_enode *right;
  CRN_TRY(parse_and(p, out));
  for (int col = column(p); take_word(p, "or"); col = column(p)) {
    CRN_TRY(parse_and(p, &right));
    CRN_TRY(node_new(p, CRN_E_OR, col, 2, (crn_enode *[]){*out, right}, out));
  }
  return CRN_OK;
}

static crn_status parse_expression(parser *p, crn_enode **out) {
  CRN_TRY(enter(p));
  CRN_TRY(parse_or(p, out));
  int col = column(p);
  if (take_word(p, "if")) {
    crn_enode *test, *other;
    CRN_TRY(parse_or(p, &test));
    if (!take_word(p, "else")) return crn_scan_fail(&p->s, "expected 'else'");
    CRN_TRY(parse_expression(p, &other));
    CRN_TRY(node_new(p, CRN_E_COND, col, 3, (crn_enode *[]){*out, test, other}, out));
  }
  p->nesting--;
  return CRN_OK;
}

/* The whole text: an expression, or several separated by commas (a tuple). */
static crn_status parse_text(parser *p, crn_enode **out) {
  list l = {0};
  bool comma = false;
  crn_scan_space(&p->s);
  do {
    crn_enode *item;
    if (comma && !*p->s.p) break;
    CRN_TRY(parse_expression(p, &item));
    CRN_TRY(list_add(p, &l, item));
  } while (crn_scan_take(&p->s, ",") && (comma = true));
  if (*p->s.p == '=') return crn_scan_fail(&p->s, "an assignment is no expression");
  if (*p->s.p) return crn_scan_fail(&p->s, "unexpected '%c'", *p->s.p);
  if (comma) return node_new(p, CRN_E_TUPLE, 1, l.n, l.items, out);
  *out = l.items[0];
  return CRN_OK;
}

crn_status crn_eval_compile(crn_arena *a, const char *text, crn_eval **out, crn_err *err) {
  crn_eval *e = CRN_ARENA_NEW(a, crn_eval);
  if (e) e->text = crn_arena_strdup(a, text);
  if (!e || !e->text) return crn_err_memory(err);
  parser p = {.a = a,
              .s = {.arena = a,
                    .err = err,
                    .name = "expression",
                    .p = e->text,
                    .line_start = e->text,
                    .line = 1,
                    .c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0)}};
  if (!p.s.c_locale) return crn_err_memory(err);
  crn_status s = parse_text(&p, &e->root);
  freelocale(p.s.c_locale);
  if (s != CRN_OK) {
    (void)crn_err_where(err, "\"%.200s\"", text);
    return s;
  }
  *out = e;
  return CRN_OK;
}

const char *crn_eval_text(const crn_eval *e) { return e->text; }
