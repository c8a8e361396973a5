/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of tasks: one temporary folder for all tests of a program.
 */
#ifndef CRN_TESTS_TASK_FOLDER_H
#define CRN_TESTS_TASK_FOLDER_H

#include "training_run.h"

static char folder[64];
static int make_task_folder(void **state) { return (void)state, make_folder(folder), 0; }
static int remove_task_folder(void **state) { return (void)state, remove_folder(folder), 0; }

/* Path of an entry; the last eight stay valid. */
static const char *in_folder(const char *name) {
  static char paths[8][128];
  static int n;
  char *p = paths[n++ % 8];
  (void)snprintf(p, sizeof paths[0], "%s/%s", folder, name);
  return p;
}

#endif
