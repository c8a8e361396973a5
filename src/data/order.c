/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders of sequences (see order.h). One table gives name, arguments and function of every order.
 */
#include "data/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "data/mt19937.h"

typedef struct order_args {
  const crn_order *o;
  int64_t n;
  const int64_t *lens;
  crn_mt rng;
  int64_t *out; /* room for n */
  int64_t n_out;
} order_args;

/* ---- stable sorting by length ---- */

typedef struct sort_item {
  int64_t key, pos, seq;
} sort_item;

static int by_key_then_pos(const void *a, const void *b) {
  const sort_item *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->pos < y->pos ? -1 : x->pos > y->pos;
}

/* Sort seqs stably by length, or by negative length. */
static crn_status sort_seqs(int64_t *seqs, int64_t n, const int64_t *lens, bool descending, crn_err *err) {
  if (n < 2) return CRN_OK;
  sort_item *items = crn_malloc((size_t)n * sizeof *items);
  if (!items) return crn_err_memory(err);
  for (int64_t i = 0; i < n; i++) {
    int64_t len = lens[seqs[i]];
    items[i] = (sort_item){.key = descending ? -len : len, .pos = i, .seq = seqs[i]};
  }
  qsort(items, (size_t)n, sizeof *items, by_key_then_pos);
  for (int64_t i = 0; i < n; i++) seqs[i] = items[i].seq;
  crn_free(items);
  return CRN_OK;
}

static int64_t count_bins(const order_args *a) {
  if (!a->o->bin_seqs) return a->o->bins;
  int64_t b = a->n / a->o->bin_seqs;
  return b > 2 ? b : 2;
}

/* First sequence of bin i of b. */
static int64_t bin_start(int64_t n, int64_t b, int64_t i) { return (int64_t)((__int128)i * n / b); }

/* ---- one function per order ---- */

static crn_status make_default(order_args *a, crn_err *err) {
  (void)err;
  for (int64_t i = 0; i < a->n; i++) a->out[i] = i;
  return CRN_OK;
}

static crn_status make_reverse(order_args *a, crn_err *err) {
  (void)err;
  for (int64_t i = 0; i < a->n; i++) a->out[i] = a->n - 1 - i;
  return CRN_OK;
}

static crn_status make_sorted(order_args *a, crn_err *err) {
  CRN_TRY(make_default(a, err));
  return sort_seqs(a->out, a->n, a->lens, a->o->kind == CRN_ORDER_SORTED_REVERSE, err);
}

static crn_status make_random(order_args *a, crn_err *err) {
  (void)err;
  crn_mt_permutation(&a->rng, a->out, a->n);
  return CRN_OK;
}

static crn_status make_random_sample(order_args *a, crn_err *err) {
  (void)err;
  for (int64_t i = 0; i < a->n; i++) a->out[i] = crn_mt_randint(&a->rng, 0, a->n);
  return CRN_OK;
}

static crn_status make_laplace(order_args *a, crn_err *err) {
  crn_mt_permutation(&a->rng, a->out, a->n);
  int64_t b = count_bins(a);
  for (int64_t i = 0; i < b; i++) {
    int64_t from = bin_start(a->n, b, i), to = bin_start(a->n, b, i + 1);
    CRN_TRY(sort_seqs(a->out + from, to - from, a->lens, i % 2 == 1, err));
  }
  return CRN_OK;
}

static crn_status make_sort_bin_shuffle(order_args *a, crn_err *err) {
  int64_t n = a->n, b = count_bins(a), at = 0;
  int64_t *sorted = crn_malloc((size_t)(n + b) * sizeof *sorted);
  if (!sorted) return crn_err_memory(err);
  int64_t *bins = sorted + n;
  crn_mt_permutation(&a->rng, sorted, n);
  crn_status code = sort_seqs(sorted, n, a->lens, false, err);
  crn_mt_permutation(&a->rng, bins, b);
  for (int64_t i = 0; i < b && code == CRN_OK; i++) {
    int64_t from = bin_start(n, b, bins[i]), size = bin_start(n, b, bins[i] + 1) - from;
    if (a->o->kind == CRN_ORDER_SORT_BIN_SHUFFLE_X2) crn_mt_shuffle(&a->rng, sorted + from, size);
    if (size) memcpy(a->out + at, sorted + from, (size_t)size * sizeof *sorted);
    at += size;
  }
  crn_free(sorted);
  return code;
}

static crn_status make_default_every_n(order_args *a, crn_err *err) {
  (void)err;
  int64_t m = a->o->bins, s = a->n / m, at = 0;
  for (int64_t i = 0; i < s; i++)
    for (int64_t j = 0; j < m; j++) a->out[at++] = i + j * s;
  a->n_out = at;
  return CRN_OK;
}

typedef struct order_row {
  const char *name;
  const char *args; /* 'b' bins or .size (may be left out), 'k' epochs with one seed, 'm' count (required) */
  bool needs_lengths;
  crn_status (*make)(order_args *a, crn_err *err);
} order_row;

/* In the order of crn_order_kind. */
static const order_row rows[] = {
    {"default", "", false, make_default},
    {"reverse", "", false, make_reverse},
    {"sorted", "", true, make_sorted},
    {"sorted_reverse", "", true, make_sorted},
    {"random", "k", false, make_random},
    {"random_sample", "k", false, make_random_sample},
    {"laplace", "bk", true, make_laplace},
    {"sort_bin_shuffle", "bk", true, make_sort_bin_shuffle},
    {"sort_bin_shuffle_x2", "bk", true, make_sort_bin_shuffle},
    {"default_every_n", "m", false, make_default_every_n},
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* ---- parsing ---- */

static bool parse_count(const char *text, size_t len, int64_t *out) {
  char buf[24], *end;
  if (len == 0 || len >= sizeof buf) return false;
  memcpy(buf, text, len);
  buf[len] = 0;
  if (strspn(buf, "0123456789") != len) return false;
  *out = strtoll(buf, &end, 10);
  return *out >= 1;
}

static crn_status unknown_order(const char *text, size_t len, crn_err *err) {
  const char *names[N_ROWS];
  char word[64];
  crn_str all = {0};
  for (size_t i = 0; i < N_ROWS; i++) {
    names[i] = rows[i].name;
    crn_str_addf(&all, "%s%s", i ? ", " : "", names[i]);
  }
  len = len < sizeof word ? len : sizeof word - 1;
  memcpy(word, text, len);
  word[len] = 0;
  const char *near = crn_nearest(word, names, N_ROWS);
  crn_fail(err, CRN_E_CONFIG, "unknown order of sequences '%s'%s%s%s; known are %s", text,
           near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", crn_str_get(&all));
  crn_str_free(&all);
  return CRN_E_CONFIG;
}

crn_status crn_order_parse(const char *text, crn_order *out, crn_err *err) {
  size_t len = strcspn(text, ":");
  const order_row *row = NULL;
  for (size_t i = 0; i < N_ROWS; i++)
    if (strlen(rows[i].name) == len && !strncmp(rows[i].name, text, len)) row = &rows[i];
  if (!row) return unknown_order(text, len, err);
  *out = (crn_order){.kind = (crn_order_kind)(row - rows), .bins = 2, .same_epochs = 1};
  const char *at = text + len;
  for (const char *arg = row->args; *at == ':'; arg++) {
    at++;
    len = strcspn(at, ":");
    bool ok = *arg != 0;
    bool size = *arg == 'b' && *at == '.';
    if (ok && size) ok = parse_count(at + 1, len - 1, &out->bin_seqs);
    if (ok && !size && (len || *at == 0)) /* "laplace::2" leaves the bins out */
      ok = parse_count(at, len, *arg == 'k' ? &out->same_epochs : &out->bins);
    if (!ok)
      return crn_fail(err, CRN_E_CONFIG, "order of sequences '%s': '%.*s' is no argument of '%s'", text, (int)len, at,
                      row->name);
    at += len;
  }
  if (*row->args == 'm' && !strchr(text, ':'))
    return crn_fail(err, CRN_E_CONFIG, "order of sequences '%s' needs a number, as 'default_every_n:8'", text);
  return CRN_OK;
}

bool crn_order_is_random(const crn_order *o) {
  return o->kind >= CRN_ORDER_RANDOM && o->kind != CRN_ORDER_DEFAULT_EVERY_N;
}
bool crn_order_needs_lengths(const crn_order *o) { return rows[o->kind].needs_lengths; }

/* ---- making ---- */

uint32_t crn_epoch_seed(const crn_seed_rule *r, int64_t epoch, int64_t same_epochs) {
  if (r->fixed) return (uint32_t)r->fixed_seed;
  int64_t e = epoch > 0 ? epoch : 1;
  if (r->partition_epoch > 1) e = (e - 1) / r->partition_epoch + 1;
  if (same_epochs > 1) e = (e - 1) / same_epochs + 1;
  return (uint32_t)(e + r->seed_offset);
}

crn_status crn_order_make(const crn_order *o, int64_t n, const int64_t *lens, uint32_t seed, int64_t **out,
                          int64_t *n_out, crn_err *err) {
  *out = NULL;
  *n_out = 0;
  if (n > UINT32_MAX) return crn_fail(err, CRN_E_DATA, "more than 2^32 sequences can't be ordered");
  order_args a = {.o = o, .n = n, .lens = lens, .n_out = n};
  a.out = crn_malloc((size_t)(n ? n : 1) * sizeof *a.out);
  if (!a.out) return crn_err_memory(err);
  crn_mt_seed(&a.rng, seed);
  crn_status code = rows[o->kind].make(&a, err);
  if (code != CRN_OK) {
    crn_free(a.out);
    return code;
  }
  *out = a.out;
  *n_out = a.n_out;
  return CRN_OK;
}

void crn_order_part(int64_t n, int64_t parts, int64_t epoch, int64_t *begin, int64_t *end) {
  int64_t part = ((epoch > 0 ? epoch : 1) - 1) % parts, small = n / parts, large = n % parts;
  *begin = part * small + (part < large ? part : large);
  *end = *begin + small + (part < large);
}
