/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that run whole tasks: temporary folders, tasks of configs with settings, numbers of learning-rate files.
 */
#ifndef CRN_TESTS_TRAINING_RUN_H
#define CRN_TESTS_TRAINING_RUN_H

#define _GNU_SOURCE /* nftw */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/engine.h"

#define DATA CRN_SOURCE_DIR "/tests/data/"

typedef crn_status (*task_fn)(crn_config *config, const crn_log *log, const crn_engine_hooks *hooks, crn_err *err);

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at) {
  return (void)st, (void)type, (void)at, remove(path);
}
static inline void remove_folder(const char *path) { (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

static inline void make_folder(char path[64]) {
  (void)snprintf(path, 64, "/tmp/creturnn-test-XXXXXX");
  assert_non_null(mkdtemp(path));
}

/* Lines of the log, one after the other. */
static inline void collect_line(void *user, int level, const char *text) {
  (void)level;
  crn_str_add(user, text);
  crn_str_add(user, "\n");
}

/* Run a task; settings: "key", "text", …, NULL. log may be NULL. */
static inline crn_status run_task(task_fn task, const char *path, const char *const *settings, crn_str *log,
                                  crn_err *err) {
  crn_config *c = NULL;
  const crn_log to = {collect_line, log, 4};
  crn_status st = crn_config_load(path, log ? &to : NULL, &c, err);
  for (size_t i = 0; st == CRN_OK && settings[i]; i += 2)
    st = crn_config_override(c, settings[i], settings[i + 1], NULL, err);
  if (st == CRN_OK) st = task(c, log ? &to : NULL, NULL, err);
  crn_config_free(c);
  return st;
}

static inline double number_of(const crn_lr_table *t, int64_t epoch, const char *key) {
  const crn_lr_epoch *e = crn_lr_table_find(t, epoch);
  if (!e) fail_msg("epoch %lld isn't in the learning-rate file", (long long)epoch);
  const crn_lr_score *s = crn_lr_epoch_get(e, key);
  if (!s) fail_msg("epoch %lld has no '%s'", (long long)epoch, key);
  return s->value;
}

#endif
