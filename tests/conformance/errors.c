/* SPDX-License-Identifier: Apache-2.0
 *
 * Configs with a fault: each must be refused at construction by one line that holds certain words, and must build once
 * the fault is mended. "Not implemented" is neither.
 */
#include <ctype.h>
#include <string.h>

#include "runner.h"

static bool is_word_char(char ch) { return isalnum((unsigned char)ch) || ch == '_'; }

static bool has_word(const char *text, const char *word) {
  const size_t n = strlen(word);
  for (const char *p = text; n && (p = strstr(p, word)); p++) {
    const bool begins = p == text || !is_word_char(p[-1]) || !is_word_char(word[0]);
    const bool ends = !p[n] || !is_word_char(p[n]) || !is_word_char(word[n - 1]);
    if (begins && ends) return true;
  }
  return false;
}

static crn_status build(const crn_value *config, crn_err *err) {
  crn_net *net = NULL;
  crn_store *store = crn_store_new(CRN_F32);
  if (!store) return crn_err_memory(err);
  const crn_status st = crn_net_build(config, (crn_net_mode){.train = true, .eval = true}, store, NULL, &net, err);
  crn_net_free(net);
  crn_store_free(store);
  return st;
}

static void check_refusal(report *r, const crn_value *entry) {
  crn_err err = {0};
  const crn_value *names = crn_v_get(entry, "names");
  const crn_status st = build(crn_v_get(entry, "config"), &err);
  const char *text = crn_err_text(&err);
  if (st == CRN_OK)
    rep_fail(r, "was built");
  else if (st == CRN_E_NOT_IMPLEMENTED)
    rep_fail(r, "refused as not implemented: %s", text);
  else if (strchr(text, '\n'))
    rep_fail(r, "the message has more than one line: %s", text);
  else
    rep_note(r, "%s", text);
  for (size_t i = 0; st != CRN_OK && i < crn_v_len(names); i++) {
    const char *word = crn_v_cstr(crn_v_at(names, i));
    if (word && !has_word(text, word)) rep_fail(r, "the message lacks \"%s\": %s", word, text);
  }
  crn_err_clear(&err);
}

static void run_entry(report *r, const void *arg) {
  const crn_value *entry = arg, *valid = crn_v_get(entry, "valid");
  crn_err err = {0};
  rep_part(r, "config");
  if (crn_v_is_dict(crn_v_get(entry, "config")))
    check_refusal(r, entry);
  else
    rep_fail(r, "no config in the entry");
  rep_part(r, "valid");
  if (!crn_v_is_dict(valid))
    rep_fail(r, "no valid config in the entry");
  else if (build(valid, &err) != CRN_OK)
    rep_fail(r, "was refused: %s", crn_err_text(&err));
  crn_err_clear(&err);
}

int run_errors(const options *o, const char *path) {
  crn_arena arena = {0};
  crn_err err = {0};
  crn_value *list = NULL;
  tally t = {{0}, {0}};
  if (crn_v_read_json(&arena, path, &list, &err) != CRN_OK) fprintf(stderr, "%s\n", crn_err_text(&err));
  for (size_t i = 0; i < crn_v_len(list); i++) {
    const crn_value *entry = crn_v_at(list, i);
    const char *name = crn_v_cstr(crn_v_get(entry, "name"));
    if (name && name_wanted(o, name)) run_job(o, &t, name, run_entry, entry);
  }
  crn_err_clear(&err);
  crn_arena_free(&arena);
  return print_tally(o, &t);
}
