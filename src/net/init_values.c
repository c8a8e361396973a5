/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of parameters (layers-1.md, C5). Every draw is keyed by (seed, parameter path, element): neither the
 * order of construction nor threads matter.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "net/net.h"

typedef enum init_kind { INIT_CONSTANT, INIT_UNIFORM, INIT_NORMAL, INIT_TRUNCATED, INIT_SCALING, INIT_SCALING_NON_ZERO, INIT_UNIT_SCALING, INIT_ORTHOGONAL, INIT_IDENTITY } init_kind;

typedef struct init_row { /* one name */
  const char *name;
  init_kind kind;
  const char *args; /* names of the arguments in order */
  double dflt[4];
  const char *mode, *distribution; /* of INIT_SCALING */
} init_row;

static const init_row rows[] = {
    {"zeros", INIT_CONSTANT, "", {0}, NULL, NULL},
    {"ones", INIT_CONSTANT, "", {1}, NULL, NULL},
    {"constant", INIT_CONSTANT, "value", {0}, NULL, NULL},
    {"random_uniform", INIT_UNIFORM, "minval maxval", {0, 1}, NULL, NULL},
    {"random_normal", INIT_NORMAL, "mean stddev", {0, 1}, NULL, NULL},
    {"truncated_normal", INIT_TRUNCATED, "mean stddev", {0, 1}, NULL, NULL},
    {"variance_scaling", INIT_SCALING, "scale mode distribution", {1}, "fan_in", "truncated_normal"},
    {"variance_scaling_non_zero", INIT_SCALING_NON_ZERO, "non_zero_fraction scale mode distribution", {0.5, 1}, "fan_in", "truncated_normal"},
    {"glorot_uniform", INIT_SCALING, "", {1}, "fan_avg", "uniform"},
    {"xavier", INIT_SCALING, "", {1}, "fan_avg", "uniform"},
    {"glorot_normal", INIT_SCALING, "", {1}, "fan_avg", "truncated_normal"},
    {"he_uniform", INIT_SCALING, "", {2}, "fan_in", "uniform"},
    {"he_normal", INIT_SCALING, "", {2}, "fan_in", "truncated_normal"},
    {"lecun_uniform", INIT_SCALING, "", {1}, "fan_in", "uniform"},
    {"lecun_normal", INIT_SCALING, "", {1}, "fan_in", "truncated_normal"},
    {"uniform_unit_scaling", INIT_UNIT_SCALING, "factor", {1}, NULL, NULL},
    {"orthogonal", INIT_ORTHOGONAL, "gain", {1}, NULL, NULL},
    {"identity", INIT_IDENTITY, "gain", {1}, NULL, NULL},
    {"random_uniform_abs", INIT_UNIFORM, "limit", {1}, "abs", NULL},
};

typedef struct init_spec {
  const init_row *row;
  double arg[4];
  const char *mode, *distribution;
} init_spec;

/* "VarianceScaling" and "variance_scaling_initializer" -> "variance_scaling" */
static void plain_name(const char *given, char *out, size_t n) {
  size_t k = 0;
  for (const char *p = given; *p && k + 2 < n; p++) {
    if (*p >= 'A' && *p <= 'Z') {
      if (p != given && p[-1] != '_') out[k++] = '_';
      out[k++] = (char)(*p - 'A' + 'a');
    } else out[k++] = *p;
  }
  out[k] = 0;
  if (crn_ends_with(out, "_initializer")) out[k - 12] = 0;
}

static const init_row *find_row(const char *name) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

static crn_status unknown(const char *name, crn_err *err) {
  const char *names[sizeof(rows) / sizeof(*rows)];
  crn_str all = {0};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    names[i] = rows[i].name;
    crn_str_addf(&all, " %s", rows[i].name);
  }
  const char *near = crn_nearest(name, names, sizeof(rows) / sizeof(*rows));
  crn_status st = crn_fail(err, CRN_E_CONFIG, "unknown initialiser '%s'%s%s%s; there are:%s", name,
                           near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", crn_str_get(&all));
  crn_str_free(&all);
  return st;
}

/* Index of an argument name, -1 = none. */
static int argument_index(const init_row *row, const char *name) {
  const size_t n = strlen(name);
  int i = 0;
  for (const char *p = row->args; *p; i++) {
    const size_t k = strcspn(p, " ");
    if (k == n && !strncmp(p, name, n)) return i;
    p += k + (p[k] != 0);
  }
  return -1;
}

static crn_status set_argument(init_spec *s, int index, const char *name, const crn_value *v, crn_err *err) {
  if (!strcmp(name, "mode") && crn_v_is_str(v)) return s->mode = crn_v_cstr(v), CRN_OK;
  if (!strcmp(name, "distribution") && crn_v_is_str(v)) return s->distribution = crn_v_cstr(v), CRN_OK;
  if (!strcmp(name, "seed") || !strcmp(name, "dtype")) return CRN_OK;
  if (index < 0 || index > 3 || !crn_v_to_float(v, &s->arg[index]))
    return crn_fail(err, CRN_E_CONFIG, "initialiser '%s': argument '%s' is not understood; it takes: %s", s->row->name, name, s->row->args);
  return CRN_OK;
}

static const char *nth_argument(const init_row *row, int i, char buf[32]) {
  const char *p = row->args;
  for (int k = 0; k < i && *p; k++) p += strcspn(p, " ") + (p[strcspn(p, " ")] != 0);
  const size_t n = strcspn(p, " ");
  if (!n || n > 31) return NULL;
  memcpy(buf, p, n);
  buf[n] = 0;
  return buf;
}

static crn_status start_spec(const char *name, init_spec *s, crn_err *err) {
  char plain[96];
  if (strlen(name) > 80) return unknown(name, err);
  plain_name(name, plain, sizeof(plain));
  s->row = find_row(plain);
  if (!s->row) return unknown(name, err);
  memcpy(s->arg, s->row->dflt, sizeof(s->arg));
  s->mode = s->row->mode;
  s->distribution = s->row->distribution;
  return CRN_OK;
}

static crn_status spec_of_dict(const crn_value *d, init_spec *s, crn_err *err) {
  const char *name = crn_v_cstr(crn_v_get(d, "class"));
  if (!name) return crn_fail(err, CRN_E_CONFIG, "an initialiser dict needs 'class'");
  CRN_TRY(start_spec(name, s, err));
  for (size_t i = 0; i < d->u.dict.n; i++) {
    const char *key = crn_v_cstr(d->u.dict.keys[i]);
    if (!key || !strcmp(key, "class")) continue;
    CRN_TRY(set_argument(s, argument_index(s->row, key), key, d->u.dict.vals[i], err));
  }
  return CRN_OK;
}

/* A number from text such as "sqrt(0.5)", "-log(4)", "0.1 * 2": the functions of Python's math with literals. */
static bool number_of_text(const char *text, double *out) {
  static const struct {
    const char *name;
    double (*fn)(double);
  } fns[] = {{"sqrt(", sqrt}, {"log(", log}, {"exp(", exp}, {"sin(", sin}, {"cos(", cos}, {"tanh(", tanh}, {"math.sqrt(", sqrt}, {"math.log(", log}, {"numpy.sqrt(", sqrt}, {"numpy.log(", log}};
  double sign = 1;
  while (*text == ' ' || *text == '-') {
    if (*text == '-') sign = -sign;
    text++;
  }
  for (size_t i = 0; i < sizeof(fns) / sizeof(*fns); i++) {
    const size_t n = strlen(fns[i].name);
    if (strncmp(text, fns[i].name, n) != 0) continue;
    const char *end = strrchr(text, ')');
    double inner;
    char buf[128];
    if (!end || end[1] || (size_t)(end - text) - n >= sizeof(buf)) return false;
    memcpy(buf, text + n, (size_t)(end - text) - n);
    buf[(size_t)(end - text) - n] = 0;
    if (!number_of_text(buf, &inner)) return false;
    *out = sign * fns[i].fn(inner);
    return true;
  }
  char *end;
  *out = sign * strtod(text, &end);
  while (*end == ' ') end++;
  return end != text && !*end;
}

/* "name(args)" : positional and keyword literals. */
static crn_status spec_of_call(crn_arena *a, const char *text, init_spec *s, bool *is_number, double *number, crn_err *err) {
  *is_number = number_of_text(text, number);
  if (*is_number) return CRN_OK;
  const char *open = strchr(text, '('), *close = strrchr(text, ')');
  if (!open || !close || close < open) return unknown(text, err);
  char *name = crn_arena_strndup(a, text, (size_t)(open - text));
  if (!name) return crn_err_memory(err);
  CRN_TRY(start_spec(name, s, err));
  int position = 0;
  for (const char *p = open + 1; p < close;) {
    int depth = 0;
    const char *end = p;
    while (end < close && (*end != ',' || depth)) {
      depth += (*end == '(') - (*end == ')');
      end++;
    }
    char *part = crn_arena_strndup(a, p, (size_t)(end - p));
    if (!part) return crn_err_memory(err);
    while (*part == ' ' || *part == '\n') part++;
    if (*part) {
      char *eq = strchr(part, '='), buf[32];
      const char *key;
      int index;
      if (eq) {
        *eq = 0;
        size_t n = strlen(part);
        while (n && part[n - 1] == ' ') part[--n] = 0;
        key = part;
        index = argument_index(s->row, key);
        part = eq + 1;
        while (*part == ' ') part++;
      } else {
        index = position++;
        key = nth_argument(s->row, index, buf);
        if (!key) return crn_fail(err, CRN_E_CONFIG, "initialiser '%s': too many arguments", s->row->name);
      }
      crn_value *v = NULL;
      double f;
      if (number_of_text(part, &f)) v = crn_v_float(a, f);
      else CRN_TRY(crn_v_parse_literal(a, part, "initialiser", &v, err));
      if (!v) return crn_err_memory(err);
      CRN_TRY(set_argument(s, index, key, v, err));
    }
    p = end + 1;
  }
  return CRN_OK;
}

/* ---- values --------------------------------------------------------------------------------------------------------- */

static void put(crn_param *p, int64_t i, double v) {
  switch (p->dtype) {
  case CRN_F32: ((float *)p->st.data)[i] = (float)v; break;
  case CRN_F64: ((double *)p->st.data)[i] = v; break;
  case CRN_I32: ((int32_t *)p->st.data)[i] = (int32_t)v; break;
  case CRN_I64: ((int64_t *)p->st.data)[i] = (int64_t)v; break;
  case CRN_BOOL:
  case CRN_U8: ((uint8_t *)p->st.data)[i] = (uint8_t)v; break;
  default: break;
  }
}

static void fans(const crn_param_spec *s, double *in, double *out) {
  double r = 1;
  for (int i = 0; i + 2 < s->rank; i++) r *= (double)s->shape[i];
  if (s->rank == 0) *in = *out = 1;
  else if (s->rank == 1) *in = *out = (double)s->shape[0];
  else {
    *in = r * (double)s->shape[s->rank - 2];
    *out = r * (double)s->shape[s->rank - 1];
  }
}

/* limit * (2 u - 1), by runs of numbers: a start spends most of its time here */
static void fill_symmetric(crn_param *p, double limit, const crn_rng *rng) {
  float u[512];
  for (int64_t at = 0; at < p->size; at += 512) {
    const int64_t n = p->size - at < 512 ? p->size - at : 512;
    crn_rng_uniform_fill(rng, (uint64_t)at, u, (size_t)n);
    if (p->dtype == CRN_F32) {
      for (int64_t i = 0; i < n; i++) ((float *)p->st.data)[at + i] = (float)(limit * (2.0 * (double)u[i] - 1.0));
    } else {
      for (int64_t i = 0; i < n; i++) put(p, at + i, limit * (2.0 * (double)u[i] - 1.0));
    }
  }
}

static crn_status fill_scaling(crn_param *p, const init_spec *s, const crn_rng *rng, crn_err *err) {
  const bool non_zero = s->row->kind == INIT_SCALING_NON_ZERO;
  const double scale = non_zero ? s->arg[1] : s->arg[0];
  double in, out, n;
  fans(&p->spec, &in, &out);
  if (!strcmp(s->mode, "fan_in")) n = in;
  else if (!strcmp(s->mode, "fan_out")) n = out;
  else if (!strcmp(s->mode, "fan_avg")) n = (in + out) / 2;
  else return crn_fail(err, CRN_E_CONFIG, "initialiser '%s': mode '%s' is not one of fan_in, fan_out, fan_avg", s->row->name, s->mode);
  if (n < 1) n = 1;
  const bool uniform = !strcmp(s->distribution, "uniform"), plain = !strcmp(s->distribution, "untruncated_normal");
  if (!uniform && !plain && strcmp(s->distribution, "truncated_normal") != 0 && strcmp(s->distribution, "normal") != 0)
    return crn_fail(err, CRN_E_CONFIG, "initialiser '%s': unknown distribution '%s'", s->row->name, s->distribution);
  const double limit = uniform ? sqrt(3 * scale / n) : plain ? sqrt(scale / n) : sqrt(scale / n) / 0.87962566103423978;
  if (uniform && !non_zero) return fill_symmetric(p, limit, rng), CRN_OK;
  for (int64_t i = 0; i < p->size; i++) {
    double v;
    if (uniform) v = limit * (2.0 * (double)crn_rng_uniform(rng, (uint64_t)i) - 1.0);
    else v = limit * (double)(plain ? crn_rng_normal(rng, (uint64_t)i) : crn_rng_truncated_normal(rng, (uint64_t)i));
    if (non_zero) {
      const double l = uniform ? limit : 2 * limit, z = s->arg[0] * l;
      v = v * (l - z) / l + (v >= 0 ? z : -z);
    }
    put(p, i, v);
  }
  return CRN_OK;
}

/* Orthonormal columns (or rows) by Gram-Schmidt on a normal matrix, twice for accuracy. */
static crn_status fill_orthogonal(crn_param *p, double gain, const crn_rng *rng, crn_err *err) {
  if (p->spec.rank < 2) return crn_fail(err, CRN_E_CONFIG, "initialiser 'orthogonal' needs at least two axes");
  const int64_t cols = p->spec.shape[p->spec.rank - 1], rows_n = cols ? p->size / cols : 0;
  const bool tall = rows_n >= cols;
  const int64_t n = tall ? cols : rows_n, len = tall ? rows_n : cols; /* n vectors of length len */
  double *m = crn_malloc(sizeof(double) * (size_t)(p->size + 1));
  if (!m) return crn_err_memory(err);
  for (int64_t i = 0; i < p->size; i++) m[i] = (double)crn_rng_normal(rng, (uint64_t)i);
  for (int64_t i = 0; i < n; i++)
    for (int pass = 0; pass < 2; pass++) {
      double *v = m + i * len, norm = 0;
      for (int64_t k = 0; k < i; k++) {
        const double *u = m + k * len;
        double dot = 0;
        for (int64_t j = 0; j < len; j++) dot += u[j] * v[j];
        for (int64_t j = 0; j < len; j++) v[j] -= dot * u[j];
      }
      for (int64_t j = 0; j < len; j++) norm += v[j] * v[j];
      norm = sqrt(norm);
      for (int64_t j = 0; j < len && norm > 0; j++) v[j] /= norm;
    }
  for (int64_t r = 0; r < rows_n; r++)
    for (int64_t c = 0; c < cols; c++) put(p, r * cols + c, gain * (tall ? m[c * len + r] : m[r * len + c]));
  crn_free(m);
  return CRN_OK;
}

static crn_status fill(crn_param *p, const init_spec *s, const crn_rng *rng, crn_err *err) {
  const double a = s->arg[0], b = s->arg[1];
  switch (s->row->kind) {
  case INIT_CONSTANT:
    for (int64_t i = 0; i < p->size; i++) put(p, i, a);
    return CRN_OK;
  case INIT_UNIFORM: {
    const bool abs = s->row->mode != NULL;
    const double lo = abs ? -a : a, hi = abs ? a : b;
    for (int64_t i = 0; i < p->size; i++) put(p, i, lo + (hi - lo) * (double)crn_rng_uniform(rng, (uint64_t)i));
    return CRN_OK;
  }
  case INIT_NORMAL:
    for (int64_t i = 0; i < p->size; i++) put(p, i, a + b * (double)crn_rng_normal(rng, (uint64_t)i));
    return CRN_OK;
  case INIT_TRUNCATED:
    for (int64_t i = 0; i < p->size; i++) put(p, i, a + b * (double)crn_rng_truncated_normal(rng, (uint64_t)i));
    return CRN_OK;
  case INIT_SCALING:
  case INIT_SCALING_NON_ZERO: return fill_scaling(p, s, rng, err);
  case INIT_UNIT_SCALING: {
    double n = 1;
    for (int i = 0; i + 1 < p->spec.rank; i++) n *= (double)p->spec.shape[i];
    const double limit = a * sqrt(3 / (n < 1 ? 1 : n));
    fill_symmetric(p, limit, rng);
    return CRN_OK;
  }
  case INIT_ORTHOGONAL: return fill_orthogonal(p, a, rng, err);
  case INIT_IDENTITY: {
    if (p->spec.rank != 2) return crn_fail(err, CRN_E_CONFIG, "initialiser 'identity' needs two axes");
    for (int64_t i = 0; i < p->size; i++) put(p, i, i / p->spec.shape[1] == i % p->spec.shape[1] ? a : 0);
    return CRN_OK;
  }
  }
  return CRN_OK;
}

static crn_status fill_array(crn_param *p, const crn_value *v, crn_err *err) {
  const crn_varray *a = &v->u.array;
  bool same = a->rank == p->spec.rank;
  for (int i = 0; same && i < a->rank; i++) same = a->shape[i] == p->spec.shape[i];
  if (!same) return crn_fail(err, CRN_E_CONFIG, "the initialiser array has another shape than the parameter");
  for (int64_t i = 0; i < p->size; i++) put(p, i, a->data[i]);
  return CRN_OK;
}

static crn_status init_param(crn_store *st, crn_param *p, uint64_t seed, crn_err *err) {
  const crn_value *v = p->spec.init;
  init_spec s = {0};
  double f;
  const crn_rng rng = crn_rng_make(seed, 0, p->path);
  if (v && v->kind == CRN_V_ARRAY) return fill_array(p, v, err);
  if (v && crn_v_is_number(v) && crn_v_to_float(v, &f)) {
    for (int64_t i = 0; i < p->size; i++) put(p, i, f);
    return CRN_OK;
  }
  const char *text = v ? crn_v_cstr(v) : p->spec.init_default ? p->spec.init_default : "glorot_uniform";
  if (crn_v_is_dict(v)) CRN_TRY(spec_of_dict(v, &s, err));
  else if (!text || !*text) return crn_fail(err, CRN_E_CONFIG, "expected an initialiser (name, expression, number, dict), got %s", crn_v_kind_name(v));
  else if (strchr(text, '(')) {
    bool number;
    CRN_TRY(spec_of_call(&st->arena, text, &s, &number, &f, err));
    if (number) {
      for (int64_t i = 0; i < p->size; i++) put(p, i, f);
      return CRN_OK;
    }
  } else if (!v && number_of_text(text, &f)) {
    for (int64_t i = 0; i < p->size; i++) put(p, i, f);
    return CRN_OK;
  } else CRN_TRY(start_spec(text, &s, err));
  return fill(p, &s, &rng, err);
}

crn_status crn_initialiser_check(crn_arena *a, const crn_value *v, crn_err *err) {
  init_spec s = {0};
  bool number;
  double f;
  if (!v || v->kind == CRN_V_ARRAY || crn_v_is_number(v)) return CRN_OK;
  if (crn_v_is_dict(v)) return spec_of_dict(v, &s, err);
  const char *text = crn_v_cstr(v);
  if (!text || !*text) return crn_fail(err, CRN_E_CONFIG, "expected an initialiser (name, expression, number, dict), got %s", crn_v_kind_name(v));
  return strchr(text, '(') ? spec_of_call(a, text, &s, &number, &f, err) : start_spec(text, &s, err);
}

crn_status crn_store_init_values(crn_store *s, uint64_t seed, crn_err *err) {
  for (size_t i = 0; i < s->by_path.n; i++) {
    crn_param *p = s->by_path.entries[i].value;
    if (!p || p->initialised) continue;
    if (init_param(s, p, seed, err) != CRN_OK) return crn_err_where(err, "parameter '%s'", p->path);
    p->initialised = true;
    crn_weight_changed(&p->st);
  }
  return CRN_OK;
}
