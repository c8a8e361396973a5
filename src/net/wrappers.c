/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers outside of loops: external data, sub outputs, sources seen as one.
 */
#include "net/wrappers.h"

#include <string.h>

#include "net/build.h"
#include "net/exec.h"

static const crn_opt no_opts[] = {CRN_OPT_END};

/* ---- external data ---- */

static crn_status extern_infer(crn_build *b, crn_layer *l) {
  const crn_extern *e = l->priv;
  (void)b;
  l->out = e->t;
  return CRN_OK;
}

static crn_status extern_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_extern *e = l->priv;
  const crn_data *d = x->feed[e - x->net->externs];
  if (!d) return crn_exec_fail_not_fed(x, l, e->key);
  *out = *d;
  return CRN_OK;
}

const crn_layer_desc crn_wrap_extern = {.name = "data", .doc = "Gives external data.", .opts = no_opts,
                                        .flags = CRN_L_INTERNAL, .infer = extern_infer, .forward = extern_forward};

/* ---- sub outputs ("split/0") ---- */

static int sub_index(const crn_layer *owner, const char *name) {
  for (int i = 0; i < owner->n_subs; i++)
    if (!strcmp(owner->subs[i].name, name)) return i;
  return -1;
}

static crn_status sub_infer(crn_build *b, crn_layer *l) {
  const crn_layer *owner = l->src[0];
  if (!owner->out_known) {
    l->out_known = false;
    return CRN_OK;
  }
  const int i = sub_index(owner, l->priv);
  if (i >= 0) {
    l->out = owner->subs[i].t;
    return CRN_OK;
  }
  crn_str s = {0};
  const char *names[64];
  size_t n = 0;
  for (int k = 0; k < owner->n_subs; k++) {
    crn_str_addf(&s, " %s", owner->subs[k].name);
    if (n < 64) names[n++] = owner->subs[k].name;
  }
  const char *near = crn_nearest(l->priv, names, n);
  crn_status st = crn_layer_fail(b, owner, CRN_E_CONFIG, "there is no sub layer '%s'; there are:%s%s%s%s",
                                 (const char *)l->priv, s.len ? crn_str_get(&s) : " none",
                                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  crn_str_free(&s);
  return st;
}

static crn_status sub_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  crn_layer *owner = l->src[0];
  const int i = sub_index(owner, l->priv);
  crn_data **subs = crn_exec_slot(x, owner)->subs;
  if (i < 0 || !subs || !subs[i]) return crn_exec_fail(x, l, "sub output '%s' was not computed", (const char *)l->priv);
  const crn_data *d = crn_beam_move(x, subs[i], out->beam);
  if (!d) return x->run.err->code;
  *out = *d;
  return CRN_OK;
}

const crn_layer_desc crn_wrap_sub_output = {.name = "sub output", .doc = "Gives a further output of a layer.",
                                            .opts = no_opts, .flags = CRN_L_INTERNAL, .infer = sub_infer,
                                            .forward = sub_forward};

/* ---- several sources as one ---- */

static crn_status concat_infer(crn_build *b, crn_layer *l) {
  bool known = false;
  for (int i = 0; i < l->n_src; i++)
    if (!l->src[i]->out_known) {
      l->out_known = false;
      return CRN_OK;
    }
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  return CRN_OK;
}

static crn_status concat_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const crn_data *d = crn_input(x, l);
  if (!d) return x->run.err->code;
  *out = *d;
  return CRN_OK;
}

const crn_layer_desc crn_wrap_concat = {.name = "sources", .doc = "Gives several sources as one.", .opts = no_opts,
                                        .flags = CRN_L_INTERNAL, .infer = concat_infer, .forward = concat_forward};

crn_status crn_wrap_sources(crn_build *b, crn_scope *s, crn_body *body, const char *name, crn_layer **src, int n,
                            crn_layer **out) {
  CRN_TRY(crn_layer_make_internal(b, s, body, name, &crn_wrap_concat, src[0], CRN_EDGE_DATA, out));
  (*out)->src = src;
  (*out)->n_src = n;
  for (int i = 1; i < n; i++) CRN_TRY(crn_layer_add_edge(b, *out, src[i], CRN_EDGE_DATA, "from"));
  return CRN_OK;
}
