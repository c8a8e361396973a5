/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that take the layer's output as it is: as_is, and edit_distance, which only counts.
 */
#include <string.h>

#include "loss/loss.h"

typedef struct direct_cfg {
  int as_error;
  const crn_value *label_map;
  int ctc_decode, output_in_log_space, debug_print;
} direct_cfg;

#define OFF(f) offsetof(direct_cfg, f)

/* ---- as_is ---------------------------------------------------------------------------------------------------------- */

static const crn_opt as_is_opts[] = {
    {.name = "as_error", .type = CRN_OPT_BOOL, .offset = OFF(as_error), .dflt = "False", .doc = "report it as an error; nothing is trained"}, CRN_OPT_END};

static crn_status as_is_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_run *r = crn_exec_run(x);
  const direct_cfg *c = loss->cfg;
  crn_tensor *v = io->output->v, *mask = crn_data_mask_all(r, io->output);
  (void)l;
  if (crn_run_failed(r)) return r->err->code;
  if (v->dtype != r->real) v = crn_cast(r, v, r->real);
  if (mask) v = crn_mask_fill(r, v, mask, 0.0);
  if (!v) return r->err->code;
  if (c->as_error) io->error = v;
  else io->value = v;
  return CRN_OK;
}

/* ---- edit_distance -------------------------------------------------------------------------------------------------- */

static const crn_opt edit_opts[] = {
    {.name = "label_map", .type = CRN_OPT_VALUE, .offset = OFF(label_map), .dflt = "None", .doc = "label -> label before comparing; None removes"},
    {.name = "ctc_decode", .type = CRN_OPT_BOOL, .offset = OFF(ctc_decode), .dflt = "False", .doc = "decode CTC scores first"},
    {.name = "output_in_log_space", .type = CRN_OPT_BOOL, .offset = OFF(output_in_log_space), .dflt = "False", .doc = "the scores are logarithms, for ctc_decode"},
    {.name = "debug_print", .type = CRN_OPT_BOOL, .offset = OFF(debug_print), .dflt = "False", .doc = "no effect on values"}, CRN_OPT_END};

static crn_status edit_check(crn_build *b, crn_layer *l, const crn_loss *loss) {
  const direct_cfg *c = loss->cfg;
  if (c->ctc_decode) return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: loss edit_distance with 'ctc_decode'");
  if (!crn_v_is_none(c->label_map)) return crn_layer_fail(b, l, CRN_E_NOT_IMPLEMENTED, "not implemented: loss edit_distance with 'label_map'");
  return CRN_OK;
}

static crn_status edit_compute(crn_exec *x, crn_layer *l, const crn_loss *loss, crn_loss_io *io) {
  crn_run *r = crn_exec_run(x);
  (void)loss;
  crn_data *o = crn_data_batch_major(r, io->output), *t = crn_data_batch_major(r, io->target);
  if (!o || !t) return r->err->code;
  if (o->v->rank != 2 || t->v->rank != 2 || !o->t.sparse || !t->t.sparse)
    return crn_exec_fail(x, l, "edit_distance needs label sequences [B, T] as output and target");
  crn_tensor *a = o->v->dtype == CRN_I32 ? o->v : crn_cast(r, o->v, CRN_I32);
  crn_tensor *b = t->v->dtype == CRN_I32 ? t->v : crn_cast(r, t->v, CRN_I32);
  io->error = crn_edit_distance(r, a, crn_data_lens(r, o, 1), b, crn_data_lens(r, t, 1));
  return io->error ? CRN_OK : r->err->code;
}

const crn_loss_desc crn_losses_direct[] = {
    {.name = "as_is", .doc = "Takes the output as the loss.", .opts = as_is_opts, .cfg_size = sizeof(direct_cfg), .compute = as_is_compute},
    {.name = "edit_distance", .doc = "Counts edits between label sequences; an error only.", .opts = edit_opts, .cfg_size = sizeof(direct_cfg), .flags = CRN_LOSS_NEEDS_TARGET | CRN_LOSS_RECURRENT,
     .check = edit_check, .compute = edit_compute},
    {.name = NULL}};
