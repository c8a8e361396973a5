/* SPDX-License-Identifier: Apache-2.0
 *
 * The generated datasets: 12AX, copying, nested tags, conversion of numbers, and counting. Their random draws are made
 * in exactly the original's order.
 */
#include <string.h>

#include "data/generated.h"

static int64_t choice(crn_mt *rng, int64_t n) { return crn_mt_randint(rng, 0, n); }

/* Growing list of labels. */
typedef struct labels {
  int64_t *p;
  int64_t n, cap;
  bool failed;
} labels;

static void add(labels *l, int64_t label) {
  if (l->n == l->cap && !l->failed) {
    int64_t cap = l->cap ? 2 * l->cap : 128;
    int64_t *grown = crn_realloc(l->p, (size_t)cap * sizeof *grown);
    l->failed = !grown;
    if (grown) {
      l->p = grown;
      l->cap = cap;
    }
  }
  if (!l->failed) l->p[l->n++] = label;
}

static int64_t letter_index(const char *alphabet, char c) { return (int64_t)(strchr(alphabet, c) - alphabet); }

static void add_text(labels *l, const char *alphabet, const char *text) {
  for (; *text; text++) add(l, letter_index(alphabet, *text));
}

/* Hand both lists over as data and classes, and free them. */
static crn_status finish(crn_generated *g, labels *in, labels *out, crn_err *err) {
  crn_status code = in->failed || out->failed ? crn_err_memory(err) : CRN_OK;
  if (code == CRN_OK) code = crn_generated_set(g, 0, in->p, in->n, err);
  if (code == CRN_OK) code = crn_generated_set(g, 1, out->p, out->n, err);
  crn_free(in->p);
  crn_free(out->p);
  return code;
}

/* ---- Task12AXDataset: the classical memory task ---- */

static const char letters_12ax[] = "123ABCXYZ";

static void make_12ax_input(labels *in, crn_mt *rng) {
  int64_t length = crn_mt_randint(rng, 10, 100);
  static const char *const start[] = {"", "1", "2"}, *const outer[] = {"1", "2"}, *const inner[] = {"AX", "BY"};
  add_text(in, letters_12ax, start[choice(rng, 3)]);
  while (in->n < length && !in->failed) {
    if (crn_mt_uniform(rng) < 0.5) add_text(in, letters_12ax, outer[choice(rng, 2)]);
    if (crn_mt_uniform(rng) < 0.9) add_text(in, letters_12ax, inner[choice(rng, 2)]);
    while (crn_mt_uniform(rng) < 0.5) add(in, choice(rng, 9));
  }
  if (in->n > length) in->n = length;
}

static crn_status make_12ax(crn_generated *g, int64_t seq, crn_mt *rng, crn_err *err) {
  (void)seq;
  labels in = {0}, out = {0};
  make_12ax_input(&in, rng);
  char outer = 0, inner = 0;
  for (int64_t t = 0; t < in.n; t++) {
    char c = letters_12ax[in.p[t]];
    bool right = false;
    if (strchr("12", c)) outer = c;
    if (strchr("AB", c)) inner = c;
    if (strchr("XY", c)) {
      right = (outer == '1' && inner == 'A' && c == 'X') || (outer == '2' && inner == 'B' && c == 'Y');
      inner = 0;
    }
    add(&out, right);
  }
  return finish(g, &in, &out, err);
}

static crn_status init_12ax(crn_dataset *ds, crn_err *err) {
  crn_generated *g = (crn_generated *)ds;
  CRN_TRY(crn_generated_init(g, make_12ax, err));
  CRN_TRY(crn_generated_key(g, "data", 9, false, CRN_NT_F32, err));
  CRN_TRY(crn_generated_key(g, "classes", 2, true, CRN_NT_I32, err));
  CRN_TRY(crn_generated_letters(g, 0, letters_12ax, err));
  return crn_generated_letters(g, 1, "LR", err);
}

static const crn_data_opt options_12ax[] = {CRN_GENERATED_OPTIONS, {0}};

const crn_dataset_class crn_12ax_dataset = {.name = "Task12AXDataset",
                                            .doc = "Makes sequences of the 12AX memory task.",
                                            .opts = options_12ax,
                                            .bytes = sizeof(crn_generated),
                                            .init = init_12ax,
                                            CRN_GENERATED_CLASS};

/* ---- CopyTaskDataset ---- */

typedef struct copy_task {
  crn_generated g;
  int64_t nsymbols, minlen, maxlen;
  double min_factor, max_factor;
} copy_task;

static int64_t grown_length(int64_t base, double factor, int64_t epoch) {
  return (int64_t)((double)base + factor * (double)epoch);
}

static crn_status make_copy(crn_generated *g, int64_t seq, crn_mt *rng, crn_err *err) {
  (void)seq;
  const copy_task *c = (const copy_task *)g;
  int64_t low = grown_length(c->minlen, c->min_factor, g->base.epoch);
  int64_t high = grown_length(c->maxlen, c->max_factor, g->base.epoch);
  if (low <= 0 || high < low)
    return crn_dataset_fail(&g->base, err, CRN_E_CONFIG, "lengths %lld to %lld in epoch %lld: must be > 0 and rising",
                            (long long)low, (long long)high, (long long)g->base.epoch);
  labels in = {0}, out = {0};
  int64_t length = crn_mt_randint(rng, low, high + 1);
  for (int64_t t = 0; t < length; t++) {
    int64_t label = crn_mt_randint(rng, 0, c->nsymbols);
    add(&in, label);
    add(&out, label);
  }
  return finish(g, &in, &out, err);
}

static crn_status init_copy(crn_dataset *ds, crn_err *err) {
  copy_task *c = (copy_task *)ds;
  if (c->nsymbols > 256)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "option 'nsymbols': expected at most 256, got %lld",
                            (long long)c->nsymbols);
  CRN_TRY(crn_generated_init(&c->g, make_copy, err));
  CRN_TRY(crn_generated_key(&c->g, "data", c->nsymbols, true, CRN_NT_I32, err));
  return crn_generated_key(&c->g, "classes", c->nsymbols, true, CRN_NT_I32, err);
}

#define OFF(field) offsetof(copy_task, field)
static const crn_data_opt options_copy[] = {
    CRN_GENERATED_OPTIONS,
    {"nsymbols", CRN_DOPT_INT, OFF(nsymbols), NULL, 1, "number of labels, at most 256"},
    {"minlen", CRN_DOPT_INT, OFF(minlen), "0", 0, "shortest length, labels"},
    {"maxlen", CRN_DOPT_INT, OFF(maxlen), "0", 0, "greatest length, labels"},
    {"minlen_epoch_factor", CRN_DOPT_FLOAT, OFF(min_factor), "0", 0, "added to minlen, times the epoch"},
    {"maxlen_epoch_factor", CRN_DOPT_FLOAT, OFF(max_factor), "0", 0, "added to maxlen, times the epoch"},
    {0}};
#undef OFF

const crn_dataset_class crn_copy_dataset = {.name = "CopyTaskDataset",
                                            .doc = "Makes random labels to be copied.",
                                            .opts = options_copy,
                                            .bytes = sizeof(copy_task),
                                            .init = init_copy,
                                            CRN_GENERATED_CLASS};

/* ---- TaskXmlModelingDataset ---- */

static const char letters_xml[] = " <>/abcdefgh";
enum { XML_MAX_DEPTH = 64, XML_MAX_NAME = 10 };

typedef struct xml_task {
  crn_generated g;
  int64_t limit_stack_depth;
} xml_task;

typedef struct xml_stack {
  char names[XML_MAX_DEPTH][XML_MAX_NAME + 1];
  int64_t depth;
} xml_stack;

static void open_tag(labels *in, labels *out, xml_stack *s, crn_mt *rng) {
  char *name = s->names[s->depth++];
  int64_t n = crn_mt_randint(rng, 1, XML_MAX_NAME);
  for (int64_t i = 0; i < n; i++) name[i] = "abcdefgh"[choice(rng, 8)];
  name[n] = 0;
  add_text(in, letters_xml, "<");
  add_text(in, letters_xml, name);
  add_text(in, letters_xml, ">");
  for (int64_t i = 0; i <= n; i++) add_text(out, letters_xml, " ");
  add_text(out, letters_xml, "<");
}

static void close_tag(labels *in, labels *out, xml_stack *s) {
  const char *name = s->names[--s->depth];
  add_text(in, letters_xml, "</");
  add_text(in, letters_xml, name);
  add_text(in, letters_xml, ">");
  add_text(out, letters_xml, " ");
  add_text(out, letters_xml, name);
  add_text(out, letters_xml, "><");
}

/* Nested tags; the target is the next letter where it is sure, else a space. */
static crn_status make_xml(crn_generated *g, int64_t seq, crn_mt *rng, crn_err *err) {
  (void)seq;
  const xml_task *x = (const xml_task *)g;
  labels in = {0}, out = {0};
  xml_stack stack = {.depth = 0};
  add_text(&in, letters_xml, " ");
  add_text(&out, letters_xml, "<");
  do {
    if (!stack.depth || (stack.depth < x->limit_stack_depth && crn_mt_uniform(rng) > 0.6))
      open_tag(&in, &out, &stack, rng);
    else
      close_tag(&in, &out, &stack);
  } while (!in.failed && !out.failed && (stack.depth || crn_mt_uniform(rng) <= 0.2));
  return finish(g, &in, &out, err);
}

static crn_status init_xml(crn_dataset *ds, crn_err *err) {
  xml_task *x = (xml_task *)ds;
  if (x->limit_stack_depth > XML_MAX_DEPTH)
    return crn_dataset_fail(ds, err, CRN_E_NOT_IMPLEMENTED, "not implemented: 'limit_stack_depth' above %d",
                            XML_MAX_DEPTH);
  CRN_TRY(crn_generated_init(&x->g, make_xml, err));
  CRN_TRY(crn_generated_key(&x->g, "data", 12, false, CRN_NT_F32, err));
  CRN_TRY(crn_generated_key(&x->g, "classes", 12, true, CRN_NT_I64, err));
  CRN_TRY(crn_generated_letters(&x->g, 0, letters_xml, err));
  return crn_generated_letters(&x->g, 1, letters_xml, err);
}

static const crn_data_opt options_xml[] = {
    CRN_GENERATED_OPTIONS,
    {"limit_stack_depth", CRN_DOPT_INT, offsetof(xml_task, limit_stack_depth), "4", 1, "greatest number of open tags"},
    {0}};

const crn_dataset_class crn_xml_dataset = {.name = "TaskXmlModelingDataset",
                                           .doc = "Makes random nested tags.",
                                           .opts = options_xml,
                                           .bytes = sizeof(xml_task),
                                           .init = init_xml,
                                           CRN_GENERATED_CLASS};

/* ---- TaskNumberBaseConvertDataset ---- */

typedef struct base_task {
  crn_generated g;
  int64_t input_base, output_base, min_len, max_len;
} base_task;

/* Digits, most significant first, of the number that in's digits are: repeated division of the whole string. */
static void convert_base(labels *in, int64_t from, int64_t to, labels *out) {
  labels rest = {0};
  for (int64_t i = 0; i < in->n; i++) add(&rest, in->p[i]);
  int64_t first = 0;
  do {
    int64_t carry = 0;
    for (int64_t i = first; i < rest.n; i++) {
      int64_t v = carry * from + rest.p[i];
      rest.p[i] = v / to;
      carry = v % to;
    }
    add(out, carry);
    while (first < rest.n && !rest.p[first]) first++;
  } while (first < rest.n && !out->failed);
  for (int64_t i = 0, j = out->n - 1; i < j; i++, j--) {
    int64_t t = out->p[i];
    out->p[i] = out->p[j];
    out->p[j] = t;
  }
  out->failed = out->failed || rest.failed;
  crn_free(rest.p);
}

static crn_status make_base(crn_generated *g, int64_t seq, crn_mt *rng, crn_err *err) {
  (void)seq;
  const base_task *b = (const base_task *)g;
  labels in = {0}, out = {0};
  int64_t n = crn_mt_randint(rng, b->min_len, b->max_len + 1);
  for (int64_t i = 0; i < n; i++) add(&in, crn_mt_randint(rng, 0, b->input_base));
  convert_base(&in, b->input_base, b->output_base, &out);
  return finish(g, &in, &out, err);
}

static crn_status init_base(crn_dataset *ds, crn_err *err) {
  base_task *b = (base_task *)ds;
  if (b->max_len > INT32_MAX)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "option 'max_input_seq_len': expected an integer <= %d, got %lld",
                            INT32_MAX, (long long)b->max_len);
  if (b->max_len < b->min_len || b->input_base > INT32_MAX || b->output_base > INT32_MAX)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "max_input_seq_len is below min_input_seq_len, or a base too large");
  CRN_TRY(crn_generated_init(&b->g, make_base, err));
  CRN_TRY(crn_generated_key(&b->g, "data", b->input_base, true, CRN_NT_I64, err));
  return crn_generated_key(&b->g, "classes", b->output_base, true, CRN_NT_I64, err);
}

#define OFF(field) offsetof(base_task, field)
static const crn_data_opt options_base[] = {
    CRN_GENERATED_OPTIONS,
    {"input_base", CRN_DOPT_INT, OFF(input_base), "8", 2, "base of the input's digits"},
    {"output_base", CRN_DOPT_INT, OFF(output_base), "2", 2, "base of the target's digits"},
    {"min_input_seq_len", CRN_DOPT_INT, OFF(min_len), "1", 1, "smallest number of digits"},
    {"max_input_seq_len", CRN_DOPT_INT, OFF(max_len), "8", 1, "greatest number of digits"},
    {0}};
#undef OFF

const crn_dataset_class crn_base_dataset = {.name = "TaskNumberBaseConvertDataset",
                                            .doc = "Makes random numbers to be written in another base.",
                                            .opts = options_base,
                                            .bytes = sizeof(base_task),
                                            .init = init_base,
                                            CRN_GENERATED_CLASS};

/* ---- DummyDataset ---- */

typedef struct dummy_task {
  crn_generated g;
  int64_t input_dim, output_dim, seq_len;
  double max_value, shift, scale;
} dummy_task;

static crn_status make_dummy(crn_generated *g, int64_t seq, crn_mt *rng, crn_err *err) {
  (void)rng;
  const dummy_task *d = (const dummy_task *)g;
  int64_t shape[2] = {d->seq_len, d->input_dim}, number = seq;
  double shift = d->shift == d->shift ? d->shift : -d->max_value / 2;
  double scale = d->scale == d->scale ? d->scale : 1 / d->max_value;
  CRN_TRY(crn_array_resize(&g->present[0], CRN_NT_F32, 2, shape, err));
  CRN_TRY(crn_array_resize(&g->present[1], CRN_NT_I32, 1, shape, err));
  for (int64_t i = 0; i < d->seq_len * d->input_dim; i++, number++)
    ((float *)g->present[0].data)[i] = (float)(((double)(number % (int64_t)d->max_value) + shift) * scale);
  for (int64_t i = 0; i < d->seq_len; i++, number++)
    ((int32_t *)g->present[1].data)[i] = (int32_t)(number % d->output_dim);
  return CRN_OK;
}

static crn_status init_dummy(crn_dataset *ds, crn_err *err) {
  dummy_task *d = (dummy_task *)ds;
  if (!(d->max_value >= 1 && d->max_value <= 1e15) || d->max_value != (double)(int64_t)d->max_value)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "option 'input_max_value': expected a whole number >= 1");
  if (d->seq_len > INT32_MAX)
    return crn_dataset_fail(ds, err, CRN_E_CONFIG, "option 'seq_len': expected an integer <= %d, got %lld", INT32_MAX,
                            (long long)d->seq_len);
  CRN_TRY(crn_generated_init(&d->g, make_dummy, err));
  CRN_TRY(crn_generated_key(&d->g, "data", d->input_dim, false, CRN_NT_F32, err));
  return crn_generated_key(&d->g, "classes", d->output_dim, true, CRN_NT_I32, err);
}

#define OFF(field) offsetof(dummy_task, field)
static const crn_data_opt options_dummy[] = {
    CRN_GENERATED_OPTIONS,
    {"input_dim", CRN_DOPT_INT, OFF(input_dim), NULL, 1, "number of features"},
    {"output_dim", CRN_DOPT_INT, OFF(output_dim), NULL, 1, "number of labels"},
    {"seq_len", CRN_DOPT_INT, OFF(seq_len), "2", 1, "frames of every sequence"},
    {"input_max_value", CRN_DOPT_FLOAT, OFF(max_value), "10", 0, "the counted numbers are taken modulo this"},
    {"input_shift", CRN_DOPT_FLOAT, OFF(shift), "None", 0, "added to them; default: minus half of it"},
    {"input_scale", CRN_DOPT_FLOAT, OFF(scale), "None", 0, "factor after that; default: one over it"},
    {0}};

const crn_dataset_class crn_dummy_dataset = {.name = "DummyDataset",
                                             .doc = "Makes counting numbers.",
                                             .opts = options_dummy,
                                             .bytes = sizeof(dummy_task),
                                             .init = init_dummy,
                                             CRN_GENERATED_CLASS};
