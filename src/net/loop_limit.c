/* SPDX-License-Identifier: Apache-2.0
 *
 * max_seq_len: a number, or an expression over max_len_from("base:layer") (recurrent.md, "Options of the loop").
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "net/loop.h"

typedef struct crn_max_len { /* + - * // over numbers and lengths, in postfix order */
  struct {
    char op; /* 'n' number, 'l' length of a layer, or an operator */
    int64_t number;
    crn_layer *layer;
  } code[64];
  int n;
} crn_max_len;

typedef struct parser {
  crn_build *b;
  crn_loop *loop;
  const char *p;
  crn_max_len *m;
  const char *text;
  int depth;
} parser;

static crn_status bad(parser *s, const char *why) {
  return crn_layer_fail(s->b, s->loop->rec, CRN_E_CONFIG, "option 'max_seq_len': '%s': %s at position %d", s->text, why,
                        (int)(s->p - s->text));
}

static crn_status emit(parser *s, char op, int64_t number, crn_layer *l) {
  if (s->m->n >= 64) return bad(s, "too long");
  s->m->code[s->m->n].op = op;
  s->m->code[s->m->n].number = number;
  s->m->code[s->m->n++].layer = l;
  return CRN_OK;
}

static void skip(parser *s) {
  while (isspace((unsigned char)*s->p)) s->p++;
}

static bool accept(parser *s, const char *word) {
  skip(s);
  const size_t n = strlen(word);
  if (strncmp(s->p, word, n) != 0) return false;
  s->p += n;
  return true;
}

static crn_status parse_sum(parser *s);

/* "base:x" and "x" both mean layer x of the surrounding net, or one level further out. */
static crn_status parse_length(parser *s) {
  crn_layer *rec = s->loop->rec, *l;
  skip(s);
  const char quote = *s->p;
  if (quote != '"' && quote != '\'') return bad(s, "a layer name in quotes is expected");
  const char *end = strchr(++s->p, quote);
  if (!end) return bad(s, "the quote is not closed");
  char *name = crn_arena_strndup(&s->b->net->arena, s->p, (size_t)(end - s->p));
  if (!name) return crn_err_memory(s->b->err);
  s->p = end + 1;
  if (!accept(s, ")")) return bad(s, "')' is expected");
  const char *inner = !strncmp(name, "base:", 5) ? name + 5 : name;
  crn_scope *scope = rec->scope;
  if (inner != name && !crn_v_get(scope->dict, inner) && strncmp(inner, "data", 4) != 0 && scope->parent) scope = scope->parent;
  CRN_TRY(crn_scope_get(s->b, scope, inner, rec, "max_seq_len", &l));
  CRN_TRY(crn_layer_add_edge(s->b, s->loop->runner, l, CRN_EDGE_DATA, "max_seq_len"));
  return emit(s, 'l', 0, l);
}

static crn_status parse_atom(parser *s) {
  skip(s);
  if (s->depth++ > 32) return bad(s, "nested too deeply");
  if (accept(s, "max_len_from(")) return parse_length(s);
  if (accept(s, "(")) {
    CRN_TRY(parse_sum(s));
    return accept(s, ")") ? CRN_OK : bad(s, "')' is expected");
  }
  if (accept(s, "tf.minimum(") || accept(s, "tf.maximum(")) {
    const char op = s->p[-3] == 'u' && s->p[-9] == 'i' ? '<' : '>';
    CRN_TRY(parse_sum(s));
    if (!accept(s, ",")) return bad(s, "',' is expected");
    CRN_TRY(parse_sum(s));
    if (!accept(s, ")")) return bad(s, "')' is expected");
    return emit(s, op, 0, NULL);
  }
  if (isdigit((unsigned char)*s->p)) {
    char *end;
    const long long v = strtoll(s->p, &end, 10);
    s->p = end;
    return emit(s, 'n', v, NULL);
  }
  return bad(s, "not understood (numbers, max_len_from('layer'), + - * // and tf.minimum, tf.maximum are)");
}

static crn_status parse_product(parser *s) {
  CRN_TRY(parse_atom(s));
  for (;;) {
    char op = 0;
    if (accept(s, "//")) op = '/';
    else if (accept(s, "*")) op = '*';
    if (!op) return CRN_OK;
    CRN_TRY(parse_atom(s));
    CRN_TRY(emit(s, op, 0, NULL));
  }
}

static crn_status parse_sum(parser *s) {
  CRN_TRY(parse_product(s));
  for (;;) {
    char op = 0;
    if (accept(s, "+")) op = '+';
    else if (accept(s, "-")) op = '-';
    if (!op) return CRN_OK;
    CRN_TRY(parse_product(s));
    CRN_TRY(emit(s, op, 0, NULL));
  }
}

crn_status crn_loop_limit_refs(crn_build *b, crn_loop *loop) {
  const crn_rec_cfg *c = loop->rec->cfg;
  const crn_value *v = c->max_seq_len;
  if (crn_v_is_none(v)) return CRN_OK;
  parser s = {.b = b, .loop = loop, .m = CRN_ARENA_NEW(&b->net->arena, crn_max_len)};
  if (!s.m) return crn_err_memory(b->err);
  loop->max_len = s.m;
  int64_t n;
  if (!crn_v_is_str(v)) {
    if (!crn_v_to_int(v, &n) || n < 0)
      return crn_layer_fail(b, loop->rec, CRN_E_CONFIG, "option 'max_seq_len': expected an integer >= 0 or an expression, got %s",
                            crn_v_kind_name(v));
    return emit(&s, 'n', n, NULL);
  }
  s.p = s.text = crn_v_cstr(v);
  CRN_TRY(parse_sum(&s));
  skip(&s);
  return *s.p ? bad(&s, "not understood") : CRN_OK;
}

static crn_status longest(crn_exec *x, const crn_loop *loop, crn_layer *l, int64_t *out) {
  const crn_data *d = crn_exec_slot(x, l)->out;
  *out = 0;
  if (!d || !d->v || d->t.time_axis < 0)
    return crn_exec_fail(x, loop->rec, "max_seq_len: layer '%s' has no time axis", l->path);
  const crn_data *len = d->len[d->t.time_axis];
  if (!len) *out = d->v->shape[d->t.time_axis];
  for (int64_t i = 0; len && i < crn_t_size(len->v); i++)
    if (crn_t_i32(len->v)[i] > *out) *out = crn_t_i32(len->v)[i];
  return CRN_OK;
}

static int64_t apply(char op, int64_t a, int64_t b) {
  if (op == '+') return a + b;
  if (op == '-') return a - b;
  if (op == '*') return a * b;
  if (op == '<') return a < b ? a : b;
  if (op == '>') return a > b ? a : b;
  if (b == 0) return 0;
  const int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

crn_status crn_loop_limit(crn_exec *x, const crn_loop *loop, int64_t *limit) {
  if (loop->max_seq_len_via) {
    const crn_data *d = crn_exec_slot(x, loop->max_seq_len_via)->out;
    if (!d || !d->v || crn_t_size(d->v) != 1)
      return crn_exec_fail(x, loop->rec, "max_seq_len_via: layer '%s' must give a scalar", loop->max_seq_len_via->path);
    *limit = (int64_t)crn_t_get(d->v, 0);
    return CRN_OK;
  }
  int64_t stack[64];
  int n = 0;
  for (int i = 0; i < loop->max_len->n; i++) {
    const char op = loop->max_len->code[i].op;
    if (op == 'n') stack[n++] = loop->max_len->code[i].number;
    else if (op == 'l') CRN_TRY(longest(x, loop, loop->max_len->code[i].layer, &stack[n++]));
    else {
      stack[n - 2] = apply(op, stack[n - 2], stack[n - 1]);
      n--;
    }
  }
  *limit = stack[0];
  return CRN_OK;
}
