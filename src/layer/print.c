/* SPDX-License-Identifier: Apache-2.0
 *
 * print: the identity that writes its value to the log (layers-2.md).
 */
#include "layer/layer.h"

typedef struct print_cfg {
  const crn_value *extra_print_args;
  int64_t summarize;
} print_cfg;

#define OFF(f) offsetof(print_cfg, f)
#define OPT(n, t, d, ...)                                                                                              \
  { .name = #n, .type = t, .offset = OFF(n), .dflt = d, __VA_ARGS__ }

static const crn_opt print_opts[] = {
    OPT(summarize, CRN_OPT_INT, "99", .min = -1, .max = 1e9, .doc = "entries to write"),
    OPT(extra_print_args, CRN_OPT_VALUE, "[]", .doc = "written too"), CRN_OPT_END};

static crn_status print_infer(crn_build *b, crn_layer *l) {
  bool known;
  CRN_TRY(crn_input_tmpl(b, l, &l->out, &known));
  l->out_known = known;
  return CRN_OK;
}

static crn_status print_forward(crn_exec *x, crn_layer *l, crn_data *out) {
  const print_cfg *c = l->cfg;
  crn_run *r = crn_exec_run(x);
  const crn_data *in = crn_input(x, l);
  if (!in) return r->err->code;
  const crn_tmpl t = l->out;
  *out = *in;
  out->t = t;
  crn_str s = {0};
  char buf[160];
  const int64_t size = crn_t_size(in->v), n = c->summarize < 0 || c->summarize > size ? size : c->summarize;
  crn_v_repr(c->extra_print_args, &s, 200);
  crn_str_addf(&s, " %s [", crn_t_describe(in->v, buf, sizeof(buf)));
  for (int64_t i = 0; i < n && in->v->dtype != CRN_STRING; i++)
    crn_str_addf(&s, "%s%g", i ? " " : "", crn_t_get(in->v, i));
  crn_logf(r->log, 3, "layer '%s' (%s): %s%s]", l->path, l->src[0]->desc->name, crn_str_get(&s), n < size ? " …" : "");
  crn_str_free(&s);
  return CRN_OK;
}

const crn_layer_desc crn_family_print[] = {{.name = "print",
                                            .doc = "Passes its input on and writes it to the log.",
                                            .opts = print_opts,
                                            .cfg_size = sizeof(print_cfg),
                                            .flags = CRN_L_CONCAT | CRN_L_COPIES_PRE | CRN_L_STREAMS,
                                            .infer = print_infer,
                                            .forward = print_forward},
                                           {.name = NULL}};
