/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of known config keys against the sources: a key that is called used must be named in the code that reads
 * it, and one that isn't must not be.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "config/keys.h"

/* Keys that the code names without their having an effect: it refuses them, or the name has another meaning there. */
static const char *const named_otherwise[] = {
    "cache_size",              /* a dataset's option, which is accepted */
    "debug_grad_summaries",    /* accepted in updater_opts */
    "get_network",             /* refused when the network is built */
    "loss",                    /* an option of layers */
    "maximize_grad_norm",      /* refused by the updater */
    "seq_drop_freq",           /* refused by the batches */
    "shuffle_frames_of_nseqs", /* refused by the datasets */
};

static bool is_named_otherwise(const char *name) {
  for (size_t i = 0; i < sizeof named_otherwise / sizeof *named_otherwise; i++)
    if (!strcmp(named_otherwise[i], name)) return true;
  return false;
}

static void add_sources(const char *pattern, crn_str *text) {
  glob_t found;
  assert_int_equal(glob(pattern, 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    char *source;
    if (strstr(found.gl_pathv[i], "keys_table.c")) continue;
    assert_int_equal(crn_file_read(found.gl_pathv[i], 0, &source, NULL, NULL), CRN_OK);
    crn_str_add(text, source);
    crn_free(source);
  }
  globfree(&found);
}

static void test_states(void **state) {
  (void)state;
  crn_str text = {0};
  int n_wrong = 0;
  add_sources(CRN_SOURCE_DIR "/src/*/*.c", &text);
  add_sources(CRN_SOURCE_DIR "/src/*/*.h", &text);
  add_sources(CRN_SOURCE_DIR "/cli/*.c", &text);
  assert_true(crn_str_ok(&text));
  for (size_t i = 0; i < crn_config_keys_n; i++) {
    const crn_config_key *key = &crn_config_keys[i];
    char quoted[100];
    snprintf(quoted, sizeof quoted, "\"%s\"", key->name);
    bool named = strstr(crn_str_get(&text), quoted) != NULL;
    if (key->state == CRN_KEY_USED && !named) {
      printf("no source reads the key '%s': src/config/keys_table.c calls it used\n", key->name);
      n_wrong++;
    }
    if (key->state != CRN_KEY_USED && named && !is_named_otherwise(key->name)) {
      printf(
          "a source names the key '%s': src/config/keys_table.c should call it used (tools/config_keys.sh does that)\n",
          key->name);
      n_wrong++;
    }
  }
  crn_str_free(&text);
  assert_int_equal(n_wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_states)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
