/* SPDX-License-Identifier: Apache-2.0
 *
 * Options: a layer dict checked against the class's table and the options that every layer has, parsed into structs; then
 * those that name layers, looked up.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layer/all.h"
#include "net/build.h"

#define OFF(field) offsetof(crn_layer_common, field)
/* Options of SPEC 3 with their fields. */
static const crn_opt common_opts[] = {
    {.name = "n_out", .type = CRN_OPT_INT, .offset = OFF(n_out), .dflt = "None", .min = 1, .max = CRN_MAX_SIZE, .doc = "output feature size"},
    {.name = "out_dim", .type = CRN_OPT_DIM, .offset = OFF(out_dim), .dflt = "None", .doc = "output feature dim"},
    {.name = "out_type", .type = CRN_OPT_VALUE, .offset = OFF(out_type), .dflt = "None", .doc = "template of the output, overrides"},
    {.name = "out_shape", .type = CRN_OPT_VALUE, .offset = OFF(out_shape), .dflt = "None", .doc = "set of dims that the output must have"},
    {.name = "target", .type = CRN_OPT_VALUE, .offset = OFF(target), .dflt = "None", .doc = "data key, list of keys, or layer:NAME"},
    {.name = "size_target", .type = CRN_OPT_STR, .offset = OFF(size_target), .dflt = "None", .doc = "data key whose lengths the output takes"},
    {.name = "loss", .type = CRN_OPT_VALUE, .offset = OFF(loss), .dflt = "None", .doc = "loss class"},
    {.name = "loss_opts", .type = CRN_OPT_VALUE, .offset = OFF(loss_opts), .dflt = "None", .doc = "options of the loss"},
    {.name = "loss_scale", .type = CRN_OPT_FLOAT, .offset = OFF(loss_scale), .dflt = "None", .doc = "factor of the loss in the objective"},
    {.name = "loss_only_on_non_search", .type = CRN_OPT_BOOL, .offset = OFF(loss_only_on_non_search), .dflt = "False", .none_ok = true, .doc = "no loss in searching nets"},
    {.name = "is_output_layer", .type = CRN_OPT_BOOL, .offset = OFF(is_output_layer), .dflt = "False", .none_ok = true, .doc = "always built, visible from outside of a loop"},
    {.name = "only_on_eval", .type = CRN_OPT_BOOL, .offset = OFF(only_on_eval), .dflt = "False", .doc = "only when losses are computed"},
    {.name = "only_on_search", .type = CRN_OPT_BOOL, .offset = OFF(only_on_search), .dflt = "False", .doc = "only when searching"},
    {.name = "need_last", .type = CRN_OPT_BOOL, .offset = OFF(need_last), .dflt = "False", .doc = "the last frame can be asked for"},
    {.name = "trainable", .type = CRN_OPT_BOOL, .offset = OFF(trainable), .dflt = "True", .none_ok = true, .doc = "parameters are trained"},
    {.name = "encapsulate", .type = CRN_OPT_BOOL, .offset = OFF(encapsulate), .dflt = "False", .doc = "inner layers can't be reached one by one"},
    {.name = "batch_norm", .type = CRN_OPT_VALUE, .offset = OFF(batch_norm), .dflt = "False", .doc = "batch normalisation of the output"},
    {.name = "L2", .type = CRN_OPT_FLOAT, .offset = OFF(L2), .dflt = "None", .doc = "factor of the sum of squared parameters"},
    {.name = "darc1", .type = CRN_OPT_FLOAT, .offset = OFF(darc1), .dflt = "None", .doc = "factor of the DARC1 constraint"},
    {.name = "spatial_smoothing", .type = CRN_OPT_FLOAT, .offset = OFF(spatial_smoothing), .dflt = "0.0", .doc = "factor of the smoothness constraint"},
    {.name = "param_variational_noise", .type = CRN_OPT_FLOAT, .offset = OFF(param_variational_noise), .dflt = "None", .doc = "standard deviation of noise on parameters"},
    {.name = "param_dropout", .type = CRN_OPT_FLOAT, .offset = OFF(param_dropout), .dflt = "None", .doc = "dropout rate of parameters"},
    {.name = "param_dropout_min_ndim", .type = CRN_OPT_INT, .offset = OFF(param_dropout_min_ndim), .dflt = "None", .doc = "fewest axes of a parameter with dropout"},
    {.name = "initial_output", .type = CRN_OPT_VALUE, .offset = OFF(initial_output), .dflt = "None", .doc = "output before the first step of a loop"},
    {.name = "initial_state", .type = CRN_OPT_VALUE, .offset = OFF(initial_state), .dflt = "None", .doc = "state before the first step"},
    {.name = "reuse_params", .type = CRN_OPT_VALUE, .offset = OFF(reuse_params), .dflt = "None", .doc = "take parameters over from another layer"},
    {.name = "name_scope", .type = CRN_OPT_VALUE, .offset = OFF(name_scope), .dflt = "None", .doc = "path of the parameters"},
    {.name = "updater_opts", .type = CRN_OPT_VALUE, .offset = OFF(updater_opts), .dflt = "None", .doc = "options of the updater for these parameters"},
    {.name = "custom_param_importer", .type = CRN_OPT_VALUE, .offset = OFF(custom_param_importer), .dflt = "None", .doc = "how parameters are taken over from another network"},
    {.name = "copy_output_loss_from_source_idx", .type = CRN_OPT_INT, .offset = OFF(copy_output_loss), .dflt = "None", .min = 0, .max = 1e6, .doc = "source whose output loss is taken over"},
    {.name = "register_as_extern_data", .type = CRN_OPT_STR, .offset = OFF(register_as_extern_data), .dflt = "None", .doc = "makes the output a data key"},
    CRN_OPT_END};

/* Options of classes with one concatenated input (C1, C7). */
static const crn_opt input_opts[] = {
    {.name = "in_dim", .type = CRN_OPT_DIM, .offset = OFF(in_dim), .dflt = "None", .doc = "axis that acts as the input's feature"},
    {.name = "dropout", .type = CRN_OPT_FLOAT, .offset = OFF(dropout), .dflt = "0", .none_ok = true, .doc = "dropout rate of the input, in [0,1)"},
    {.name = "dropout_noise_shape", .type = CRN_OPT_VALUE, .offset = OFF(dropout_noise_shape), .dflt = "None", .doc = "which axes share the mask"},
    {.name = "dropout_axis", .type = CRN_OPT_VALUE, .offset = OFF(dropout_axis), .dflt = "None", .doc = "axes with own mask values"},
    {.name = "mask", .type = CRN_OPT_STR, .offset = OFF(dropout_mask), .dflt = "None", .choices = "dropout|unity", .doc = "whether there is dropout, checked only"},
    {.name = "dropout_on_forward", .type = CRN_OPT_BOOL, .offset = OFF(dropout_on_forward), .dflt = "False", .doc = "dropout outside of training too"},
    CRN_OPT_END};

const crn_opt *crn_options_of_all(void) { return common_opts; }
const crn_opt *crn_options_of_inputs(void) { return input_opts; }

/* Keys of a layer dict that are looked at elsewhere, or have no meaning here. */
static const char *const other_keys[] = {"class", "from", "state", "collocate_with", "param_device", "debug_print_layer_output",
                                         "control_dependencies_on_output", "name",
                                         "rec_previous_layer", "initial_target", "_network", "_name", "#", NULL};

static crn_status wrong(crn_build *b, const crn_layer *l, const char *what, const crn_opt *o, const crn_value *v,
                        const char *expected) {
  crn_str s = {0};
  crn_v_repr(v, &s, 80);
  crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "%soption '%s': expected %s, got %s", what, o->name, expected,
                                 crn_str_get(&s));
  crn_str_free(&s);
  return st;
}

static crn_status parse_number(crn_build *b, const crn_layer *l, const char *what, const crn_opt *o,
                               const crn_value *v, void *field) {
  char expected[96];
  const bool ranged = o->min < o->max;
  if (o->type == CRN_OPT_INT) {
    int64_t i;
    const double min = ranged ? o->min : -CRN_MAX_SIZE, max = ranged ? o->max : CRN_MAX_SIZE;
    const bool is_int = crn_v_to_int(v, &i);
    if (is_int && (o->wide || ((double)i >= min && (double)i <= max))) {
      *(int64_t *)field = i;
      return CRN_OK;
    }
    if (!ranged && !is_int) (void)snprintf(expected, sizeof(expected), "an integer");
    else if (ranged && max >= CRN_MAX_SIZE && !(is_int && (double)i > max))
      (void)snprintf(expected, sizeof(expected), "integer >= %.0f", min);
    else (void)snprintf(expected, sizeof(expected), "integer from %.0f to %.0f", min, max);
    return wrong(b, l, what, o, v, expected);
  }
  double f;
  if (crn_v_to_float(v, &f) && (!ranged || (f >= o->min && f <= o->max))) {
    *(double *)field = f;
    return CRN_OK;
  }
  if (ranged) (void)snprintf(expected, sizeof(expected), "a number from %g to %g", o->min, o->max);
  else (void)snprintf(expected, sizeof(expected), "a number");
  return wrong(b, l, what, o, v, expected);
}

static bool is_choice(const char *choices, const char *s) {
  size_t n = strlen(s);
  for (const char *p = choices; *p;) {
    const char *end = strchr(p, '|');
    size_t k = end ? (size_t)(end - p) : strlen(p);
    if (k == n && !strncmp(p, s, n)) return true;
    p += k + (end ? 1 : 0);
  }
  return false;
}

static crn_status parse_string(crn_build *b, const crn_layer *l, const char *what, const crn_opt *o,
                               const crn_value *v, void *field) {
  const char *s = crn_v_cstr(v);
  if (!s) return wrong(b, l, what, o, v, "a string");
  if (o->choices && !is_choice(o->choices, s)) {
    char expected[256];
    (void)snprintf(expected, sizeof(expected), "one of %s", o->choices);
    return wrong(b, l, what, o, v, expected);
  }
  *(const char **)field = s;
  return CRN_OK;
}

static bool none_allowed(const crn_opt *o) { return o->none_ok || (o->dflt && !strcmp(o->dflt, "None")); }

/* An integer within v (not inside of dicts in it) that no size or position can be, or NULL. */
static const crn_value *find_too_large(const crn_value *v) {
  const crn_value *found = NULL;
  if (crn_v_is_seq(v))
    for (size_t i = 0; i < crn_v_len(v) && !found; i++) found = find_too_large(crn_v_at(v, i));
  return v && v->kind == CRN_V_INT && (v->u.i > CRN_MAX_SIZE || v->u.i < -CRN_MAX_SIZE) ? v : found;
}

static crn_status check_sizes(crn_build *b, const crn_layer *l, const char *what, const crn_opt *o,
                              const crn_value *v) {
  if (o->wide || !v) return CRN_OK;
  const crn_value *found = find_too_large(v);
  for (size_t i = 0; crn_v_is_dict(v) && i < v->u.dict.n && !found; i++)
    found = find_too_large(crn_v_is_dict(v->u.dict.vals[i]) ? v->u.dict.keys[i] : v->u.dict.vals[i]);
  return found ? wrong(b, l, what, o, found, "integers from -2147483647 to 2147483647") : CRN_OK;
}

static crn_status parse_one(crn_build *b, const crn_layer *l, const char *what, const crn_opt *o, const crn_value *v,
                            void *cfg) {
  void *field = (char *)cfg + o->offset;
  const bool none = v && v->kind == CRN_V_NONE;
  if (none && o->type != CRN_OPT_VALUE && !none_allowed(o)) return wrong(b, l, what, o, v, "a value");
  switch (o->type) {
  case CRN_OPT_BOOL:
    if (none) *(int *)field = CRN_UNSET_INT;
    else if (crn_v_is_number(v)) *(int *)field = crn_v_truth(v) ? 1 : 0;
    else return wrong(b, l, what, o, v, "True or False");
    return CRN_OK;
  case CRN_OPT_INT:
    if (none) *(int64_t *)field = CRN_UNSET;
    else return parse_number(b, l, what, o, v, field);
    return CRN_OK;
  case CRN_OPT_FLOAT:
    if (none) *(double *)field = (double)NAN;
    else return parse_number(b, l, what, o, v, field);
    return CRN_OK;
  case CRN_OPT_STR:
    if (!none) return parse_string(b, l, what, o, v, field);
    *(const char **)field = NULL;
    return CRN_OK;
  case CRN_OPT_VALUE: *(const crn_value **)field = v; return check_sizes(b, l, what, o, v);
  case CRN_OPT_DIM:
    if (none) return CRN_OK;
    if (v->kind != CRN_V_DIM) return wrong(b, l, what, o, v, "a dim");
    *(const crn_dim **)field = crn_dim_of_value(&b->net->dims, v);
    return *(const crn_dim **)field ? CRN_OK : crn_err_memory(b->err);
  case CRN_OPT_LAYER:
    if (!none && !crn_v_is_str(v)) return wrong(b, l, what, o, v, "a layer name");
    return CRN_OK; /* looked up by crn_options_refs */
  case CRN_OPT_LAYERS:
    if (!none && !crn_v_is_str(v) && !crn_v_is_seq(v) && !crn_v_is_dict(v))
      return wrong(b, l, what, o, v, "layer names");
    return CRN_OK;
  }
  return CRN_OK;
}

static bool in_table(const crn_opt *opts, const char *key) {
  for (const crn_opt *o = opts; o && o->name; o++)
    if (!strcmp(o->name, key)) return true;
  return false;
}

/* Every option of the table: given or default. Not those of `but`. */
static crn_status parse_table(crn_build *b, const crn_layer *l, const crn_value *dict, const crn_opt *opts, void *cfg,
                              const char *what, const crn_opt *but) {
  for (const crn_opt *o = opts; o && o->name; o++) {
    if (in_table(but, o->name)) continue;
    const crn_value *v = crn_v_get(dict, o->name);
    crn_value *dflt = NULL;
    if (!v) {
      if (!o->dflt) {
        CRN_TRY(crn_build_recover(
            b, NULL, crn_layer_fail(b, l, CRN_E_CONFIG, "%soption '%s' is required (%s)", what, o->name, o->doc)));
        continue;
      }
      CRN_TRY(crn_v_parse_literal(&b->net->arena, o->dflt, o->name, &dflt, b->err));
      v = dflt;
      if (o->type == CRN_OPT_VALUE && dflt->kind == CRN_V_NONE) v = NULL;
    }
    CRN_TRY(crn_build_recover(b, NULL, parse_one(b, l, what, o, v, cfg)));
  }
  return CRN_OK;
}

static bool in_list(const char *const *list, const char *key) {
  for (; list && *list; list++)
    if (!strcmp(*list, key)) return true;
  return false;
}

static size_t collect_names(const crn_opt *opts, const char **names, size_t n) {
  for (const crn_opt *o = opts; o && o->name && n < 256; o++) names[n++] = o->name;
  return n;
}

static crn_status check_known(crn_build *b, const crn_layer *l, const crn_value *dict, const crn_opt *const tables[4],
                              const char *const *others, const char *what) {
  for (size_t i = 0; i < dict->u.dict.n; i++) {
    const char *key = crn_v_cstr(dict->u.dict.keys[i]);
    if (!key) return crn_layer_fail(b, l, CRN_E_CONFIG, "%soption names must be strings", what);
    bool known = in_list(others, key);
    for (int t = 0; t < 4 && !known; t++) known = in_table(tables[t], key);
    if (known) continue;
    const char *names[256];
    size_t n = 0;
    for (int t = 0; t < 4; t++) n = collect_names(tables[t], names, n);
    for (size_t k = 0; others && others[k] && n < 256; k++)
      if (others[k][0] != '_') names[n++] = others[k];
    const char *near = crn_nearest(key, names, n);
    CRN_TRY(crn_build_recover(b, NULL,
                              crn_layer_fail(b, l, CRN_E_CONFIG, "%sunknown option '%s'%s%s%s", what, key,
                                             near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "")));
  }
  return CRN_OK;
}

crn_status crn_options_check_dict(crn_build *b, const crn_layer *l, const crn_value *dict, const crn_opt *opts,
                                  void *cfg, const char *what, const char *const *also_known) {
  const crn_opt *const tables[4] = {opts, NULL, NULL, NULL};
  const int before = b->n_problems;
  CRN_TRY(check_known(b, l, dict, tables, also_known, what));
  CRN_TRY(parse_table(b, l, dict, opts, cfg, what, NULL));
  return b->n_problems > before ? crn_build_was_told(b) : CRN_OK;
}

static crn_status parse_input_options(crn_build *b, crn_layer *l) {
  crn_layer_common *c = &l->common;
  CRN_TRY(parse_table(b, l, l->dict, input_opts, c, "", l->desc->opts));
  const double p = c->dropout;
  if (isnan(p)) c->dropout = 0;
  else if (p < 0 || p >= 1)
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'dropout': expected 0 <= rate < 1, got %g", p);
  if (c->dropout_mask && !strcmp(c->dropout_mask, "dropout") != (c->dropout > 0))
    return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'mask': \"%s\" goes with a dropout rate %s 0, got %g",
                          c->dropout_mask, strcmp(c->dropout_mask, "dropout") ? "of" : "above", c->dropout);
  return CRN_OK;
}

crn_status crn_options_parse(crn_build *b, crn_layer *l) {
  const crn_layer_desc *d = l->desc;
  const crn_opt *const tables[4] = {d->opts, common_opts, d->flags & CRN_L_CONCAT ? input_opts : NULL, NULL};
  const int before = b->n_problems;
  CRN_TRY(check_known(b, l, l->dict, tables, other_keys, ""));
  l->cfg = crn_arena_alloc(&b->net->arena, d->cfg_size ? d->cfg_size : 1);
  if (!l->cfg) return crn_err_memory(b->err);
  CRN_TRY(parse_table(b, l, l->dict, common_opts, &l->common, "", NULL));
  if (!crn_v_is_none(crn_v_get(l->dict, "state")) && !in_table(d->opts, "state"))
    return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: option 'state' but of recurrent units");
  if (d->flags & CRN_L_CONCAT) CRN_TRY(parse_input_options(b, l));
  CRN_TRY(parse_table(b, l, l->dict, d->opts, l->cfg, "", NULL));
  if (b->n_problems > before) return crn_build_was_told(b);
  if (isnan(l->common.L2)) l->common.L2 = 0;
  if (isnan(l->common.darc1)) l->common.darc1 = 0;
  if (isnan(l->common.spatial_smoothing)) l->common.spatial_smoothing = 0;
  return CRN_OK;
}

/* ---- references ----------------------------------------------------------------------------------------------------- */

static crn_status list_refs(crn_build *b, crn_layer *l, const crn_opt *o, const crn_value *v) {
  crn_layer_list *list = (crn_layer_list *)((char *)l->cfg + o->offset);
  const bool dict = crn_v_is_dict(v);
  const size_t n = crn_v_is_str(v) ? 1 : crn_v_len(v);
  list->items = CRN_ARENA_ARRAY(&b->net->arena, crn_layer *, n + 1);
  list->keys = dict ? CRN_ARENA_ARRAY(&b->net->arena, const char *, n + 1) : NULL;
  if (!list->items || (dict && !list->keys)) return crn_err_memory(b->err);
  for (size_t i = 0; i < n; i++) {
    const crn_value *item = crn_v_is_str(v) ? v : dict ? v->u.dict.vals[i] : crn_v_at(v, i);
    if (!crn_v_is_str(item)) return wrong(b, l, "", o, v, "layer names");
    if (dict) list->keys[list->n] = crn_v_cstr(v->u.dict.keys[i]);
    CRN_TRY(crn_layer_ref(b, l, crn_v_cstr(item), o->edge, o->name, &list->items[list->n++]));
  }
  return CRN_OK;
}

static crn_status table_refs(crn_build *b, crn_layer *l) {
  for (const crn_opt *o = l->desc->opts; o && o->name; o++) {
    if (o->type != CRN_OPT_LAYER && o->type != CRN_OPT_LAYERS) continue;
    const crn_value *v = crn_v_get(l->dict, o->name);
    if (crn_v_is_none(v)) continue;
    const crn_status st =
        o->type == CRN_OPT_LAYERS
            ? list_refs(b, l, o, v)
            : crn_layer_ref(b, l, crn_v_cstr(v), o->edge, o->name, (crn_layer **)((char *)l->cfg + o->offset));
    CRN_TRY(crn_build_recover(b, l, st));
  }
  return CRN_OK;
}

static crn_status add_source(crn_build *b, crn_layer *l, const crn_value *v) {
  const char *name = crn_v_cstr(v);
  if (!name) { /* (name, axis) pairs of concat: the class reads the axis itself */
    const crn_value *first = crn_v_is_seq(v) ? crn_v_at(v, 0) : NULL;
    name = crn_v_cstr(first);
  }
  if (!name) {
    crn_str s = {0};
    crn_v_repr(v, &s, 60);
    crn_status st = crn_layer_fail(b, l, CRN_E_CONFIG, "option 'from': expected layer names, got %s", crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  if (!strcmp(name, "none")) return CRN_OK;
  return crn_layer_ref(b, l, name, CRN_EDGE_DATA, "from", &l->src[l->n_src++]);
}

static crn_status source_refs(crn_build *b, crn_layer *l) {
  const crn_value *from = crn_v_get(l->dict, "from");
  crn_value *dflt = NULL;
  if (!from) {
    if (l->desc->flags & CRN_L_NO_SOURCES) return CRN_OK;
    if (b->net->version >= 1)
      return crn_layer_fail(b, l, CRN_E_CONFIG, "option 'from' is required from behavior_version 1 on");
    if (!(dflt = crn_v_str(&b->net->arena, "data"))) return crn_err_memory(b->err);
    from = dflt;
  }
  size_t n = crn_v_is_seq(from) ? crn_v_len(from) : 1;
  l->src = CRN_ARENA_ARRAY(&b->net->arena, crn_layer *, n + 1);
  if (!l->src) return crn_err_memory(b->err);
  if (!crn_v_is_seq(from)) return crn_v_is_none(from) ? CRN_OK : add_source(b, l, from);
  for (size_t i = 0; i < n; i++) CRN_TRY(crn_build_recover(b, l, add_source(b, l, crn_v_at(from, i))));
  return CRN_OK;
}

crn_status crn_options_refs(crn_build *b, crn_layer *l) {
  if (!l->dict) return l->desc->refs ? l->desc->refs(b, l) : CRN_OK;
  if (!(l->desc->flags & CRN_L_OWN_SOURCES)) CRN_TRY(crn_build_recover(b, l, source_refs(b, l)));
  CRN_TRY(table_refs(b, l));
  CRN_TRY(crn_build_recover(b, l, crn_reuse_refs(b, l)));
  if (l->failed) return crn_build_was_told(b);
  if (l->desc->refs) CRN_TRY(l->desc->refs(b, l));
  return CRN_OK;
}
