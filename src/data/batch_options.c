/* SPDX-License-Identifier: Apache-2.0
 *
 * The config's options of batches, and which of them hold for which use.
 */
#include <math.h>
#include <string.h>

#include "data/batch.h"
#include "data/batch_rules.h"

static crn_status bad(const char *option, const crn_value *v, const char *wanted, crn_err *err) {
  crn_str s = {0};
  crn_v_repr(v, &s, 80);
  crn_fail(err, CRN_E_CONFIG, "option '%s': expected %s, got %s", option, wanted, crn_str_get(&s));
  crn_str_free(&s);
  return CRN_E_CONFIG;
}

/* Number or dict of numbers; functions are known but not built. */
static crn_status check_limit(const char *option, const crn_value *v, bool positive, crn_err *err) {
  double f;
  if (crn_v_is_none(v)) return CRN_OK;
  if (v->kind == CRN_V_CALLABLE)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option '%s' as a function", option);
  if (!crn_v_is_dict(v)) {
    if (!crn_v_to_float(v, &f) || isnan(f) || (positive && f < 1))
      return bad(option, v, positive ? "a number >= 1 or a dict of them" : "a number or a dict of numbers", err);
    return CRN_OK;
  }
  for (size_t i = 0; i < crn_v_len(v); i++)
    if (!crn_v_cstr(v->u.dict.keys[i]) || !crn_v_to_float(v->u.dict.vals[i], &f) || isnan(f) || (positive && f < 1))
      return bad(option, v, positive ? "a number >= 1 or a dict of them" : "a number or a dict of numbers", err);
  return CRN_OK;
}

static crn_status get_number(const crn_value *config, const char *key, double low, double high, double *out,
                             crn_err *err) {
  const crn_value *v = crn_v_get(config, key);
  if (crn_v_is_none(v)) return CRN_OK;
  if (!crn_v_to_float(v, out) || !(*out >= low && *out <= high)) return bad(key, v, "a number in its range", err);
  return CRN_OK;
}

crn_status crn_batch_options_from_config(const crn_value *config, crn_batch_use use, bool recurrent,
                                         crn_batch_options *out, crn_err *err) {
  static const crn_value one = {.kind = CRN_V_INT, .u.i = 1};
  *out = (crn_batch_options){.max_seqs = -1,
                             .join_frames = !recurrent && use != CRN_BATCH_FORWARD && use != CRN_BATCH_SEARCH};
  const char *size_key = use == CRN_BATCH_FORWARD ? "forward_batch_size" : "batch_size";
  out->batch_size = crn_v_get(config, size_key);
  if (crn_v_is_none(out->batch_size) && use == CRN_BATCH_FORWARD)
    return crn_fail(err, CRN_E_CONFIG,
                    "key 'forward_batch_size' is missing: task forward needs it (frames in a batch, padding included; "
                    "++forward_batch_size 4000)");
  if (crn_v_is_none(out->batch_size)) out->batch_size = &one;
  CRN_TRY(check_limit(size_key, out->batch_size, true, err));
  const crn_value *max_seqs = crn_v_get(config, "max_seqs");
  if (!crn_v_is_none(max_seqs) && (!crn_v_to_int(max_seqs, &out->max_seqs) || out->max_seqs < -1 || !out->max_seqs))
    return bad("max_seqs", max_seqs, "an integer >= 1, or -1 for no limit", err);
  const crn_value *max_length = crn_v_get(config, "max_seq_length");
  CRN_TRY(check_limit("max_seq_length", max_length, false, err));
  if (use == CRN_BATCH_SEARCH && crn_v_truth(max_length))
    return crn_fail(err, CRN_E_CONFIG, "option 'max_seq_length' must be 0 in search");
  if (use == CRN_BATCH_TRAIN || use == CRN_BATCH_DEV) {
    out->max_seq_length = max_length;
    CRN_TRY(get_number(config, "inc_seq_length", 0, 1e15, &out->inc_seq_length, err));
  }
  if (use != CRN_BATCH_TRAIN) return CRN_OK;
  out->min_seq_length = crn_v_get(config, "min_seq_length");
  CRN_TRY(check_limit("min_seq_length", out->min_seq_length, false, err));
  out->max_pad_size = crn_v_get(config, "max_pad_size");
  CRN_TRY(check_limit("max_pad_size", out->max_pad_size, false, err));
  CRN_TRY(get_number(config, "seq_drop", 0, 1, &out->seq_drop, err));
  double freq = 0;
  CRN_TRY(get_number(config, "seq_drop_freq", 0, 1e15, &freq, err));
  if (out->seq_drop > 0 && freq > 0)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'seq_drop_freq' together with 'seq_drop'");
  out->shuffle_batches = crn_v_truth(crn_v_get(config, "shuffle_batches"));
  return CRN_OK;
}

double crn_batch_limit(const crn_value *v, const char *key, double none) {
  const crn_value *one = crn_v_is_dict(v) ? crn_v_get(v, key) : v;
  double f;
  return !crn_v_is_none(one) && crn_v_to_float(one, &f) ? f : none;
}

/* A number of 0 switches the rule off; a negative one holds for the key "classes" only. */
double crn_batch_max_length(const crn_batch_options *o, const char *key, int64_t epoch) {
  const crn_value *v = o->max_seq_length;
  double limit = crn_batch_limit(v, key, HUGE_VAL);
  if (crn_v_is_none(v) || crn_v_is_dict(v)) return limit;
  if (limit == 0) return HUGE_VAL;
  if (limit < 0) return strcmp(key, "classes") == 0 ? -limit : HUGE_VAL;
  return limit + o->inc_seq_length * (double)(epoch > 1 ? epoch - 1 : 0);
}
