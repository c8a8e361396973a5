/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of decoded sequences; see search_text.h.
 */
#include "train/search_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "train/progress.h"

/* ---- vocabularies ---------------------------------------------------------------------------------------------------
 */

typedef struct path_env {
  crn_engine *e;
  crn_err *err;
} path_env;

static const char *input_path(void *user, const char *file) {
  path_env *p = user;
  const char *path;
  return crn_config_input_path(p->e->config, file, &p->e->arena, &path, p->err) == CRN_OK ? path : NULL;
}

/* From the option vocab of a data key in extern_data. */
static crn_status vocab_of_extern(crn_engine *e, const char *key, crn_vocab **out, crn_err *err) {
  path_env env = {e, err};
  const crn_value *v = crn_v_get(crn_v_get(crn_v_get(e->values, "extern_data"), key), "vocab");
  if (!crn_v_is_dict(v)) return CRN_OK;
  crn_status st = crn_vocab_new(v, input_path, &env, out, err);
  if (st != CRN_OK) (void)crn_err_where(err, "extern_data: key '%s': vocab", key);
  return st;
}

static crn_status vocab_of_dataset(const crn_dataset *ds, const char *key, crn_vocab **out, crn_err *err) {
  const int k = ds ? crn_dataset_find_key(ds, key) : -1;
  const crn_data_key *d = k < 0 ? NULL : crn_dataset_key(ds, (size_t)k);
  return d && d->labels && d->n_labels ? crn_vocab_from_labels(d->labels, d->n_labels, out, err) : CRN_OK;
}

static crn_status vocab_of_key(crn_engine *e, const crn_dataset *ds, const char *key, crn_vocab **out, crn_err *err) {
  CRN_TRY(vocab_of_extern(e, key, out, err));
  return *out ? CRN_OK : vocab_of_dataset(ds, key, out, err);
}

static const char *target_of(const crn_net *net, const crn_layer *l) {
  const crn_value *t = l->common.target;
  const char *key = crn_v_is_seq(t) && crn_v_len(t) ? crn_v_cstr(crn_v_at(t, 0)) : crn_v_cstr(t);
  if (!key || !crn_net_extern(net, key)) key = net->default_target;
  return key && crn_net_extern(net, key) ? key : NULL;
}

crn_status crn_text_source_init(crn_engine *e, const crn_net *net, const crn_layer *layer, const crn_dataset *ds,
                                crn_text_source *out, crn_err *err) {
  *out = (crn_text_source){.layer = layer, .target = target_of(net, layer)};
  const crn_dim *dim = layer->out.sparse ? layer->out.sparse_dim : NULL;
  for (int i = 0; i < net->n_externs && !out->vocab && dim; i++) /* the vocabulary that its dim has */
    if (net->externs[i].t.sparse_dim == dim) CRN_TRY(vocab_of_extern(e, net->externs[i].key, &out->vocab, err));
  if (!out->target) return CRN_OK;
  CRN_TRY(vocab_of_key(e, ds, out->target, &out->target_vocab, err));
  if (!out->vocab && layer->out.sparse) CRN_TRY(vocab_of_key(e, ds, out->target, &out->vocab, err));
  return CRN_OK;
}

void crn_text_source_free(crn_text_source *s) {
  crn_vocab_free(s->vocab);
  crn_vocab_free(s->target_vocab);
}

/* ---- values ---------------------------------------------------------------------------------------------------------
 */

static void add_number(const crn_tensor *t, int64_t i, crn_str *out) {
  const double v = crn_t_get(t, i);
  if (t->dtype == CRN_BOOL)
    crn_str_add(out, v != 0 ? "True" : "False");
  else if (!crn_dtype_is_float(t->dtype))
    crn_str_addf(out, "%lld", (long long)v);
  else if (v == floor(v) && fabs(v) < 1e15)
    crn_str_addf(out, "%.0f.", v); /* as numpy: "2." */
  else
    crn_text_float32(v, out);
}

static size_t widest(const crn_tensor *t, int64_t begin, int64_t n) {
  size_t width = 0;
  crn_str s = {0};
  for (int64_t i = begin; i < begin + n; i++) {
    crn_str_clear(&s);
    add_number(t, i, &s);
    if (s.len > width) width = s.len;
  }
  crn_str_free(&s);
  return width;
}

static void add_axis(const crn_tensor *t, int axis, int64_t begin, int64_t n, size_t width, crn_str *out) {
  if (axis == t->rank) {
    crn_str s = {0};
    add_number(t, begin, &s);
    crn_str_addf(out, "%*s", (int)width, crn_str_get(&s));
    crn_str_free(&s);
    return;
  }
  const int64_t stride = crn_t_count(t->rank - axis - 1, t->shape + axis + 1);
  crn_str_addc(out, '[');
  for (int64_t i = 0; i < n; i++) {
    if (i) crn_str_add(out, ", ");
    add_axis(t, axis + 1, begin + i * stride, axis + 1 < t->rank ? t->shape[axis + 1] : 1, width, out);
  }
  crn_str_addc(out, ']');
}

void crn_text_array(const crn_tensor *t, int64_t row, int64_t n_frames, crn_str *out) {
  const int64_t stride = crn_t_count(t->rank - 1, t->shape + 1);
  const int64_t frame = t->rank > 1 ? crn_t_count(t->rank - 2, t->shape + 2) : 1;
  if (t->rank == 1) {
    add_number(t, row, out);
    return;
  }
  crn_str_add(out, "array(");
  add_axis(t, 1, row * stride, n_frames, widest(t, row * stride, n_frames * frame), out);
  if (t->dtype == CRN_F64 || t->dtype == CRN_I64 || t->dtype == CRN_BOOL)
    crn_str_addc(out, ')');
  else
    crn_str_addf(out, ", dtype=%s)", crn_dtype_name(t->dtype));
}

crn_status crn_text_labels(const crn_vocab *v, const crn_tensor *t, int64_t row, int64_t n_frames, crn_str *out,
                           crn_err *err) {
  if (t->rank > 2) return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: text of labels with %d axes", t->rank);
  const int64_t n = t->rank == 1 ? 1 : n_frames, begin = t->rank == 1 ? row : row * t->shape[1];
  int32_t *labels = crn_malloc(sizeof *labels * (size_t)(n + 1));
  if (!labels) return crn_err_memory(err);
  for (int64_t i = 0; i < n; i++) labels[i] = (int32_t)crn_t_get(t, begin + i);
  crn_status st = crn_vocab_decode(v, labels, n, out, err);
  crn_free(labels);
  return st;
}

/* ---- the file -------------------------------------------------------------------------------------------------------
 */

static void add_quoted(const char *text, crn_str *out) {
  crn_value v = {.kind = CRN_V_STR};
  v.u.s.p = text;
  v.u.s.len = strlen(text);
  crn_v_repr(&v, out, 0);
}

static void add_hypotheses(const crn_hypotheses *h, bool one_line, crn_str *out) {
  if (!h->has_beam) {
    add_quoted(h->n ? h->list[0].text : "", out);
    return;
  }
  crn_str_add(out, one_line ? "[" : "[\n");
  for (int64_t i = 0; i < h->n; i++) {
    if (one_line && i) crn_str_add(out, ", ");
    crn_str_addc(out, '(');
    crn_text_float32(h->list[i].score, out);
    crn_str_add(out, ", ");
    add_quoted(h->list[i].text, out);
    crn_str_add(out, one_line ? ")" : "),\n");
  }
  crn_str_addc(out, ']');
}

/* A dict whose "key: value" texts have fewer than 40 characters together stays on one line. */
static void add_layers(const crn_search_result *r, crn_str *out) {
  crn_str pairs[16] = {{0}};
  size_t total = 0;
  for (int i = 0; i < r->n_layers; i++) {
    add_quoted(r->layers[i].layer, &pairs[i]);
    crn_str_add(&pairs[i], ": ");
    add_hypotheses(&r->layers[i], false, &pairs[i]);
    total += pairs[i].len;
  }
  const bool one_line = total < 40;
  crn_str_add(out, one_line ? "{" : "{\n");
  for (int i = 0; i < r->n_layers; i++) {
    if (one_line && i) crn_str_add(out, ", ");
    crn_str_add(out, crn_str_get(&pairs[i]));
    if (!one_line) crn_str_add(out, ",\n");
    crn_str_free(&pairs[i]);
  }
  crn_str_addc(out, '}');
}

void crn_search_python(const crn_search_result *r, bool several_layers, bool one_line, crn_str *out) {
  if (several_layers)
    add_layers(r, out);
  else
    add_hypotheses(&r->layers[0], one_line, out);
}

void crn_search_file_text(const crn_search_result *const *results, int64_t n, bool several_layers, bool py,
                          crn_str *out) {
  if (py) crn_str_add(out, "{\n");
  for (int64_t i = 0; i < n; i++) {
    const crn_search_result *r = results[i];
    if (py) {
      add_quoted(r->tag, out);
      crn_str_add(out, ": ");
      crn_search_python(r, several_layers, false, out);
      crn_str_addc(out, ',');
    } else if (r->layers[0].has_beam)
      add_hypotheses(&r->layers[0], true, out);
    else
      crn_str_add(out, r->layers[0].n ? r->layers[0].list[0].text : "");
    crn_str_addc(out, '\n');
  }
  if (py) crn_str_add(out, "}\n");
}

static bool write_gzip(const char *path, const crn_str *text) {
  gzFile f = gzopen(path, "wb");
  if (!f) return false;
  const char *p = crn_str_get(text);
  size_t left = text->len;
  bool ok = true;
  while (left && ok) {
    const unsigned n = left < (1u << 20) ? (unsigned)left : 1u << 20;
    ok = gzwrite(f, p, n) == (int)n;
    p += n;
    left -= n;
  }
  return gzclose(f) == Z_OK && ok;
}

crn_status crn_text_write(const char *path, const crn_str *text, crn_err *err) {
  if (!crn_str_ok(text)) return crn_err_memory(err);
  if (!crn_ends_with(path, ".gz")) return crn_file_write(path, crn_str_get(text), text->len, err);
  crn_str temp = {0};
  crn_str_addf(&temp, "%s.new_tmp", path);
  if (!crn_str_ok(&temp)) return crn_err_memory(err);
  errno = 0;
  crn_status st = crn_file_prepare(path, err);
  if (st == CRN_OK && !write_gzip(temp.p, text)) st = crn_file_give_up(path, temp.p, errno, err);
  if (st == CRN_OK) st = crn_file_put(temp.p, path, err);
  crn_str_free(&temp);
  return st;
}
