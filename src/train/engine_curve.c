/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture of a training so far: learning_curve.svg in the folder of the models, rewritten after each epoch.
 */
#include <stdio.h>
#include <string.h>

#include "ckpt/fileio.h"
#include "train/curve.h"
#include "train/engine.h"

/* Written beside and renamed, so that a viewer never sees half a picture. */
static bool write_whole(const char *path, const char *tmp, const crn_str *text) {
  int error = 0; /* the folder may not be there yet: the first checkpoint can come later */
  if (crn_ckpt_file_make_parents(crn_fileops_system(), path, &error, NULL) != CRN_OK) return false;
  FILE *f = fopen(tmp, "w");
  bool ok = f && fwrite(text->p, 1, text->len, f) == text->len;
  if (f) ok = fclose(f) == 0 && ok;
  ok = ok && rename(tmp, path) == 0;
  if (f && !ok) (void)remove(tmp);
  return ok;
}

crn_status crn_engine_curve(crn_engine *e, crn_err *err) {
  const char *table_file = crn_lr_file(e->lr);
  if (!table_file) return CRN_OK;
  const char *beside = e->model ? e->model : table_file, *slash = strrchr(beside, '/');
  const int folder = slash ? (int)(slash - beside) + 1 : 0;
  const char *path = crn_arena_printf(&e->arena, "%.*slearning_curve.svg", folder, beside);
  const char *tmp = crn_arena_printf(&e->arena, "%.*slearning_curve.svg.new_tmp", folder, beside);
  if (!path || !tmp) return crn_err_memory(err);
  crn_str svg = {0};
  crn_status st = crn_curve_svg(crn_lr_table_of(e->lr), crn_config_file(e->config), &svg, err);
  if (st == CRN_OK && !crn_str_ok(&svg)) st = crn_err_memory(err);
  if (st == CRN_OK && !write_whole(path, tmp, &svg)) crn_warnf(&e->log, "can't write '%s'", path); /* no reason to stop training */
  crn_str_free(&svg);
  return st;
}
