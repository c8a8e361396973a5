/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of sequences (see chunk.h).
 */
#include "data/chunk.h"

#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

static crn_status bad_option(const char *option, const crn_value *v, const char *wanted, crn_err *err) {
  crn_str s = {0};
  crn_v_repr(v, &s, 80);
  crn_fail(err, CRN_E_CONFIG, "option '%s': expected %s, got %s", option, wanted, crn_str_get(&s));
  crn_str_free(&s);
  return CRN_E_CONFIG;
}

/* "50" or "50:25". */
static bool parse_text(const char *text, int64_t *size, int64_t *step) {
  char *end;
  *size = strtoll(text, &end, 10);
  if (end == text || *size < 0) return false;
  *step = *size;
  if (*end == 0) return true;
  if (*end != ':') return false;
  text = end + 1;
  *step = strtoll(text, &end, 10);
  return end != text && *end == 0 && *step >= 0;
}

/* One side (sizes or steps): a number for all keys, or a dict. *n_found: keys that it names. */
static bool set_side(crn_chunking *c, const crn_value *v, bool steps, size_t *n_found) {
  *n_found = 0;
  for (size_t i = 0; i < c->n_keys; i++) {
    const crn_value *one = crn_v_is_dict(v) ? crn_v_get(v, c->keys[i].name) : v;
    int64_t number;
    if (!one) continue;
    if (!crn_v_to_int(one, &number) || number < (steps ? 0 : 1)) return false;
    ++*n_found;
    if (steps)
      c->keys[i].step = number;
    else
      c->keys[i].size = c->keys[i].step = number;
  }
  return true;
}

static bool same_keys(const crn_value *a, const crn_value *b) {
  if (crn_v_len(a) != crn_v_len(b)) return false;
  for (size_t i = 0; i < crn_v_len(a); i++)
    if (!crn_v_get(b, crn_v_cstr(a->u.dict.keys[i]))) return false;
  return true;
}

static bool parse_chunking(crn_chunking *c, const crn_value *v) {
  crn_value size_number = {.kind = CRN_V_INT}, step_number = {.kind = CRN_V_INT};
  const crn_value *size = v, *step = NULL;
  size_t found;
  if (crn_v_is_str(v)) {
    if (!parse_text(crn_v_cstr(v), &size_number.u.i, &step_number.u.i)) return false;
    size = &size_number;
    step = &step_number;
  } else if (crn_v_is_seq(v)) {
    if (crn_v_len(v) != 2) return false;
    size = crn_v_at(v, 0);
    step = crn_v_at(v, 1);
    if (crn_v_is_dict(size) != crn_v_is_dict(step)) return false;
    if (crn_v_is_dict(size) && !same_keys(size, step)) return false;
  }
  int64_t number;
  if (!crn_v_is_dict(size) && crn_v_to_int(size, &number) && number == 0) return true; /* off */
  if (!set_side(c, size, false, &found)) return false;
  c->on = found > 0;
  if (step && !set_side(c, step, true, &found)) return false;
  bool any_step = false;
  for (size_t i = 0; i < c->n_keys; i++) any_step = any_step || c->keys[i].step > 0;
  return !c->on || any_step;
}

/* "data", or the first used key by name; if its step is 0, the first one with a step. */
static size_t find_default(const crn_chunking *c, bool need_step) {
  size_t best = c->n_keys;
  for (size_t i = 0; i < c->n_keys; i++) {
    if (!c->keys[i].size || (need_step && !c->keys[i].step)) continue;
    bool data = !strcmp(c->keys[i].name, "data");
    if (best == c->n_keys || data ||
        (strcmp(c->keys[best].name, "data") != 0 && strcmp(c->keys[i].name, c->keys[best].name) < 0))
      best = i;
  }
  return best;
}

static crn_status parse_min_size(crn_chunking *c, const crn_value *v, crn_err *err) {
  for (size_t i = 0; i < c->n_keys && !crn_v_is_none(v); i++) {
    const crn_value *one = crn_v_is_dict(v) ? crn_v_get(v, c->keys[i].name) : v;
    if (one && (!crn_v_to_int(one, &c->keys[i].min_size) || c->keys[i].min_size < 0))
      return bad_option("min_chunk_size", v, "a number or a dict of numbers", err);
  }
  return CRN_OK;
}

/* One side of a pair of context dicts. */
static bool context_side(crn_chunking *c, const crn_value *dict, bool right) {
  for (size_t i = 0; i < c->n_keys; i++) {
    const crn_value *one = crn_v_get(dict, c->keys[i].name);
    int64_t n = 0;
    if (one && (!crn_v_to_int(one, &n) || n < 0)) return false;
    if (right)
      c->keys[i].right = n;
    else
      c->keys[i].left = n;
  }
  return crn_v_is_dict(dict);
}

static crn_status parse_context(crn_chunking *c, const crn_value *v, crn_err *err) {
  if (crn_v_is_none(v)) return CRN_OK;
  bool ok = true;
  if (crn_v_is_seq(v)) {
    ok = crn_v_len(v) == 2 && context_side(c, crn_v_at(v, 0), false) && context_side(c, crn_v_at(v, 1), true);
  } else {
    for (size_t i = 0; i < c->n_keys && ok; i++) {
      const crn_value *one = crn_v_is_dict(v) ? crn_v_get(v, c->keys[i].name) : v;
      if (!one || (one == v && strcmp(c->keys[i].name, "data") != 0)) continue;
      int64_t frames;
      ok = crn_v_to_int(one, &frames) && frames >= 1;
      if (!ok) break;
      c->keys[i].left = (frames - 1) / 2;
      c->keys[i].right = frames - 1 - c->keys[i].left;
    }
  }
  return ok ? CRN_OK : bad_option("context_window", v, "a number >= 1, a dict of them, or a pair of dicts", err);
}

crn_status crn_chunking_init(crn_chunking *c, const crn_chunk_options *o, const char *const *keys, size_t n,
                             crn_err *err) {
  *c = (crn_chunking){.n_keys = n, .variance = o->chunking_variance};
  if (n > CRN_CHUNK_MAX_KEYS)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: more than %d data keys in batches",
                    CRN_CHUNK_MAX_KEYS);
  c->keys = crn_calloc(n ? n : 1, sizeof *c->keys);
  if (!c->keys) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) c->keys[i].name = keys[i];
  crn_status code = parse_context(c, o->context_window, err);
  const crn_value *v = o->chunking;
  if (code == CRN_OK && v && v->kind == CRN_V_CALLABLE)
    code = crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: 'chunking' as a function");
  if (code == CRN_OK && !crn_v_is_none(v)) {
    if (!parse_chunking(c, v))
      code =
          bad_option("chunking", v, "size:step, a number, a pair, a dict, or a pair of dicts with the same keys", err);
    if (code == CRN_OK && c->on) code = parse_min_size(c, o->min_chunk_size, err);
    if (code == CRN_OK && c->on) {
      c->default_key = find_default(c, false);
      if (!c->keys[c->default_key].step) c->default_key = find_default(c, true);
    }
  }
  if (code != CRN_OK) crn_chunking_free(c);
  return code;
}

void crn_chunking_free(crn_chunking *c) {
  crn_free(c->keys);
  *c = (crn_chunking){0};
}

/* ---- one sequence ---- */

/* Scale by 1 - u*v, at least 1; numbers that are multiples of the smallest one keep their ratio to it. */
static void shorten(int64_t *x, size_t n, double factor) {
  int64_t least = 0;
  for (size_t i = 0; i < n; i++)
    if (x[i] > 0 && (!least || x[i] < least)) least = x[i];
  if (!least) return;
  int64_t short_least = (int64_t)((double)least * factor);
  if (short_least < 1) short_least = 1;
  for (size_t i = 0; i < n; i++) {
    if (x[i] <= 0) continue;
    int64_t s = x[i] % least == 0 ? x[i] / least * short_least : (int64_t)((double)x[i] * factor);
    x[i] = s < 1 ? 1 : s;
  }
}

/* Number of chunks of a key, rounding down also below zero. */
static int64_t count_chunks(int64_t length, int64_t min_size, int64_t step) {
  int64_t rest = length - (min_size ? min_size : 1);
  return (rest < 0 ? -((-rest + step - 1) / step) : rest / step) + 1;
}

static crn_status check_lengths(const crn_chunk_iter *it, crn_err *err) {
  const crn_chunking *c = it->c;
  size_t d = c->default_key;
  for (size_t i = 0; i < c->n_keys; i++) {
    if (!it->size[i] || i == d) continue;
    if (it->step[i] == it->step[d]) {
      if (it->lengths[i] != it->lengths[d] && it->lengths[i] > 1)
        return crn_fail(err, CRN_E_DATA,
                        "chunking: '%s' has %lld frames and '%s' %lld, but the same step; give each key its own",
                        c->keys[d].name, (long long)it->lengths[d], c->keys[i].name, (long long)it->lengths[i]);
    } else if (it->step[i]) {
      int64_t own = count_chunks(it->lengths[i], c->keys[i].min_size, it->step[i]);
      int64_t wanted = count_chunks(it->lengths[d], c->keys[d].min_size, it->step[d]);
      if (own != wanted)
        return crn_fail(err, CRN_E_DATA, "chunking: '%s' (%lld frames) gives %lld chunks, '%s' (%lld frames) %lld",
                        c->keys[d].name, (long long)it->lengths[d], (long long)wanted, c->keys[i].name,
                        (long long)it->lengths[i], (long long)own);
    }
  }
  return CRN_OK;
}

crn_status crn_chunk_begin(crn_chunk_iter *it, const crn_chunking *c, const int64_t *lengths, crn_mt *rng,
                           crn_err *err) {
  *it = (crn_chunk_iter){.c = c, .lengths = lengths};
  if (!c->on) return CRN_OK;
  for (size_t i = 0; i < c->n_keys; i++) {
    it->size[i] = c->keys[i].size;
    it->step[i] = c->keys[i].step;
  }
  if (c->variance > 0) {
    double factor = 1.0 - crn_mt_uniform(rng) * c->variance;
    shorten(it->size, c->n_keys, factor);
    shorten(it->step, c->n_keys, factor);
  }
  return check_lengths(it, err);
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

bool crn_chunk_next(crn_chunk_iter *it, int64_t *start, int64_t *end) {
  const crn_chunking *c = it->c;
  if (it->done) return false;
  if (!c->on) {
    for (size_t i = 0; i < c->n_keys; i++) {
      start[i] = 0;
      end[i] = it->lengths[i];
    }
    it->done = true;
    return true;
  }
  for (size_t i = 0; i < c->n_keys; i++) {
    int64_t len = it->lengths[i];
    bool whole = !it->size[i] || (i != c->default_key && it->step[i] == it->step[c->default_key] && len <= 1 &&
                                  len != it->lengths[c->default_key]);
    start[i] = whole ? 0 : min64(it->at[i], len);
    end[i] = whole ? len : min64(it->at[i] + it->size[i], len);
    it->at[i] += it->step[i];
    if (it->size[i] && len - it->at[i] <= c->keys[i].min_size) it->done = true;
  }
  if (it->at[c->default_key] >= it->lengths[c->default_key]) it->done = true;
  return true;
}
