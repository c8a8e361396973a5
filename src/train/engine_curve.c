/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture of a training so far: learning_curve.svg in the folder of the models, rewritten after each epoch.
 */
#include <string.h>

#include "base/file.h"
#include "train/curve.h"
#include "train/engine.h"

crn_status crn_engine_curve(crn_engine *e, crn_err *err) {
  const char *table_file = crn_lr_file(e->lr);
  if (!table_file) return CRN_OK;
  const char *beside = e->model ? e->model : table_file, *slash = strrchr(beside, '/');
  const int folder = slash ? (int)(slash - beside) + 1 : 0;
  const char *path = crn_arena_printf(&e->arena, "%.*slearning_curve.svg", folder, beside);
  if (!path) return crn_err_memory(err);
  crn_str svg = {0};
  crn_status st = crn_curve_svg(crn_lr_table_of(e->lr), crn_config_file(e->config), &svg, err);
  if (st == CRN_OK && !crn_str_ok(&svg)) st = crn_err_memory(err);
  crn_err failure = {0};
  if (st == CRN_OK && crn_file_write(path, svg.p, svg.len, &failure) != CRN_OK)
    crn_warnf(&e->log, "%s", crn_err_text(&failure)); /* no reason to stop training */
  crn_err_clear(&failure);
  crn_str_free(&svg);
  return st;
}
