/* SPDX-License-Identifier: Apache-2.0
 *
 * From a line of text to symbols, as LmDataset does it: words or characters, with [SPECIAL] symbols in brackets.
 */
#ifndef CRN_DATA_ORTH_H
#define CRN_DATA_ORTH_H

#include "base/map.h"
#include "data/words.h"
#include "value/value.h"

typedef struct crn_orth_rules {
  crn_words prefix, postfix;
  const char *remove_chars;
  bool collapse_spaces, final_strip, word_based, upper_case_special, brackets;
} crn_orth_rules;

/* The defaults, then what the dict `parse_orth_opts` (may be NULL) says; unknown names are an error. */
crn_status crn_orth_rules_init(crn_orth_rules *r, bool word_based, const char *word_end, const char *seq_end,
                               const crn_value *options, crn_err *err);
void crn_orth_rules_free(crn_orth_rules *r);
/* Append the symbols of text; affixes: with prefix and postfix. */
void crn_orth_parse(const crn_orth_rules *r, const char *text, bool affixes, crn_words *out);

#endif
