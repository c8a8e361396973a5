/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of text files, for LmDataset and TranslationDataset.
 */
#ifndef CRN_DATA_LM_TEXT_H
#define CRN_DATA_LM_TEXT_H

#include "data/dataset_class.h"

typedef struct crn_lm_line {
  const char *p; /* without its end, not NUL-terminated */
  int64_t len;
} crn_lm_line;

typedef struct crn_lm_text {
  crn_str *files; /* whole content of each */
  size_t n_files;
  crn_lm_line *lines;
  int64_t n_lines, cap;
} crn_lm_text;

/* corpus_file: a name or a list of names. lose_last: a last line without end doesn't count in plain files. */
crn_status crn_lm_text_open(crn_lm_text *t, crn_dataset *ds, const crn_value *corpus_file, bool skip_empty,
                            bool lose_last, crn_err *err);
void crn_lm_text_close(crn_lm_text *t);
/* Append the line, stripped of white space at both ends. */
void crn_lm_text_line(const crn_lm_text *t, int64_t i, crn_str *out);
int64_t crn_lm_text_bytes(const crn_lm_text *t, int64_t i); /* of the line as it is in the file */

/* Whether the file of symbols holds a dict (pickled or as Python text); then *code tells how reading it went. */
bool crn_lm_is_symbol_dict(const char *path, crn_arena *a, crn_value **dict, crn_status *code, crn_err *err);

#endif
